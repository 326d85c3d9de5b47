/*
 * A gradient command with a journal (exec/journal.c): when it writes a point, and how a
 * later command resumes from the last durable point.
 *
 * A resumed command walks the schedule from its first action, but skips: up to the last durable point it computes
 * nothing. If the first sweep ends before that, it reads the output back from the spill file, and writes it. At the
 * point it reads back the state; or the cotangents and the data outside the slab. Those are the sums of params'
 * gradients and the largest error of the store.
 *
 * Invariant: the gradient has the bits of a command that was not killed.
 */
#include <string.h>

#include "base/hash.h"
#include "base/system.h"
#include "exec/costs.h"
#include "exec/run_parts.h"

/* Points take at most a tenth of the time. A point that comes too soon is not written. */
enum { POINT_SHARE = 10 };

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

static uint64_t hash_array(uint64_t hash, const struct type *type, const void *data)
{
	char text[TYPE_TEXT];
	return hash_bytes(hash_text(hash, type_format(type, text)), data, (size_t)type_bytes(type));
}

/* Hashes everything that decides the bits of the gradient and the contents of a point. */
static enum status identify(const struct run *run, const void *input, uint64_t parts[JOURNAL_PARTS],
                            struct diags *diags)
{
	const struct job *job = run->gradient->job;
	const struct array *cotangent = &run->gradient->cotangent;
	parts[JOURNAL_CHAIN] = hash_bytes(HASH_START, run->chain->source->text, run->chain->source->length);
	/* Measured costs or memory may lead to another schedule. */
	const struct counters *c = &job->predicted;
	const int64_t schedule[] = {c->evaluations, c->checkpoints, c->spill_writes, c->spill_reads,
	                            job->scheduled.disk_bytes};
	parts[JOURNAL_POLICY] = hash_text(hash_text(HASH_START, job->policy->text), job->scheduled.text);
	parts[JOURNAL_POLICY] = hash_bytes(parts[JOURNAL_POLICY], schedule, sizeof schedule);
	const int types[] = {run->options->dtype, run->options->job.store, run->options->flush_denormals};
	parts[JOURNAL_TYPES] = hash_bytes(HASH_START, types, sizeof types);
	parts[JOURNAL_VALUE_WANTED] = run->options->value != NULL;
	if (cotangent->data)
		parts[JOURNAL_COTANGENT] = hash_bytes(hash_text(HASH_START, dtype_name(cotangent->type.dtype)), cotangent->data,
		                                      (size_t)type_bytes(&cotangent->type));
	const char *const version[] = {run->kernels[0]->isa, blas_name(), PACKAGE_VERSION};
	for (size_t i = 0; i < sizeof version / sizeof *version; i++)
		parts[JOURNAL_VERSION] = hash_text(parts[JOURNAL_VERSION], version[i]);
	for (size_t i = 0; i < run->params->count; i++) {
		const struct type type = bound_type(&run->params->bound[i]);
		parts[JOURNAL_PARAMS] = hash_array(parts[JOURNAL_PARAMS], &type, run->params->bound[i].data);
	}
	parts[JOURNAL_INPUT] = hash_array(HASH_START, &job->input, input);
	return programs_identify(run->programs, &parts[JOURNAL_TARGETS], &parts[JOURNAL_OBJECTS], diags);
}

enum status resume_open(struct worker *worker, const void *input)
{
	struct run *run = worker->run;
	const struct context context = {run->context.allocator, run->gradient->arena, worker->diags};
	const unsigned char *more;
	size_t got = 0;
	TRY(input_peek(run->reader->input, 1, &more, &got, worker->diags));
	if (got)
		return diag_file(worker->diags, STATUS_DATA, run->reader->input->name, run->reader->input->offset,
		                 "another array follows, and a journal is of one");
	struct journal *journal = run->gradient->result->journal = arena_alloc(context.arena, sizeof *journal);
	TRY_ALLOC(journal, worker->diags);
	*journal = (struct journal){.path = run->gradient->options->journal,
	                            .directory = run->gradient->options->spill,
	                            .wanted = run->gradient->job->predicted.spill_bytes};
	TRY(identify(run, input, journal->identity.parts, worker->diags));
	if (run->options->job.costs == costs_of)
		costs_keep(run->options->job.costs_context, &journal->costs);
	TRY(journal_open(&context, journal, &worker->walk.kept.spill));
	worker->walk.resuming.skips = journal->goes_on;
	return STATUS_OK;
}

/* Adds the data outside the slab to the pieces of a point: sums, and the store's largest error. */
static void add_sums(struct kept_states *kept, const struct gradient_result *result)
{
	for (size_t i = 0; i < result->param_count; i++) {
		const struct param_gradient *g = &result->params[i];
		const struct param_sums *sums = &g->of[g->type.dtype == DTYPE_F64]; /* a journal covers one array */
		if (sums->heads)
			kept->pieces[kept->piece_count++] = (struct spill_piece){sums->heads, g->size};
		if (sums->tails)
			kept->pieces[kept->piece_count++] = (struct spill_piece){sums->tails, g->size / 2};
	}
	kept->pieces[kept->piece_count++] = (struct spill_piece){&kept->error, sizeof kept->error};
}

static enum status write_point(struct worker *worker)
{
	struct journal *journal = worker->run->gradient->result->journal;
	struct kept_states *kept = &worker->walk.kept;
	struct resuming *resuming = &worker->walk.resuming;
	const double begun = clock_seconds();
	if (begun < resuming->next_point)
		return STATUS_OK;
	journal->next = resuming->points;
	const int64_t slot = journal->point_slot == JOURNAL_POINT_A ? JOURNAL_POINT_B : JOURNAL_POINT_A;
	TRY(spill_write_at_once(&kept->spill, slot, kept->pieces, kept->piece_count, worker->diags));
	const double now = clock_seconds();
	resuming->next_point = now + POINT_SHARE * (now - begun);
	return STATUS_OK;
}

/* Writes a point of cotangents (SLOT -1), unless it is too soon. A state on disk is one already. Ends skipping. */
static enum status on_point(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	const struct gradient_result *result = worker->run->gradient->result;
	const struct journal *journal = result->journal;
	struct kept_states *kept = &worker->walk.kept;
	struct resuming *resuming = &worker->walk.resuming;
	const bool state = slot >= 0;
	resuming->points += !state;
	const bool last = state ? journal->number < 0 && slot == journal->last_state : resuming->points == journal->number;
	if (resuming->skips ? !last : state)
		return STATUS_OK;
	TRY(kept_states_set_pieces(worker, arrays, count, 2 * result->param_count + 1));
	if (!state)
		add_sums(kept, result);
	if (!resuming->skips)
		return write_point(worker);
	resuming->skips = false;
	return spill_read(&kept->spill, state ? kept_states_slot(worker, slot) : journal->point_slot, kept->pieces,
	                  kept->piece_count, worker->diags);
}

/* The hooks of a worker that may skip. */

/* A skipped backward call still reports the gradients that it completes. */
static enum status on_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	if (!worker->walk.resuming.skips)
		return worker->walk.resuming.computing.call(context, call);
	return call->kind == CALL_BACKWARD ? gradient_events_step(worker->run, call->step, worker->diags) : STATUS_OK;
}

/*
 * The output is also written to the spill file: a command that resumes after the first sweep reads it back.
 * The worker learns whether it skips only when the input has been read.
 */
static enum status on_exchange(void *context, enum machine_input_output which, int64_t offset, const struct type *type)
{
	struct worker *worker = context;
	const struct resuming *resuming = &worker->walk.resuming;
	struct spill *spill = &worker->walk.kept.spill;
	if (which == MACHINE_OUTPUT) {
		const struct spill_piece piece = {worker->slab.base + offset, (size_t)type_bytes(type)};
		TRY(resuming->skips ? spill_read(spill, JOURNAL_VALUE, &piece, 1, worker->diags)
		                    : spill_write_at_once(spill, JOURNAL_VALUE, &piece, 1, worker->diags));
	}
	if (resuming->skips && which == MACHINE_SEED)
		return STATUS_OK;
	if (resuming->skips && which == MACHINE_GRADIENT)
		return diag_file(worker->diags, STATUS_DATA, worker->run->gradient->options->journal, -1,
		                 "names no point of this run");
	return resuming->computing.input_output(context, which, offset, type);
}

static enum status on_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	const struct resuming *resuming = &((const struct worker *)context)->walk.resuming;
	return resuming->skips ? STATUS_OK : resuming->computing.convert(context, to, from, type, narrow);
}

/* Skipped fetches are counted: the worker reads ahead from the right slot once it computes. */
static enum status on_disk(void *context, enum machine_disk access, int64_t slot, const struct machine_array *arrays,
                           size_t count)
{
	struct worker *worker = context;
	if (!worker->walk.resuming.skips)
		return worker->walk.resuming.computing.disk(context, access, slot, arrays, count);
	if (access == MACHINE_FETCH)
		(void)kept_states_next_fetch(worker);
	return STATUS_OK;
}

void resume_hook(struct worker *worker)
{
	struct machine_hooks *hooks = &worker->walk.hooks;
	worker->walk.resuming.computing = *hooks;
	hooks->call = on_call;
	hooks->input_output = on_exchange;
	hooks->convert = on_convert;
	hooks->disk = on_disk;
	hooks->point = on_point;
}
