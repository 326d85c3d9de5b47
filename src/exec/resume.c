/*
 * A gradient command with a journal (exec/journal.c): when it writes a point, and how a
 * later command resumes from the last durable point.
 *
 * A resumed command walks the schedule from its first action, but skips: it computes,
 * reads and writes nothing before the last durable point. There it reads back the state
 * or the cotangents, and the data outside the slab: the sums of params' gradients, and
 * the largest error of the store.
 *
 * Invariant: the gradient has the bits of a command that was not killed.
 */
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "exec/run_parts.h"

/* Points take at most a tenth of the time: a point that comes too soon is left out. */
enum { POINT_SHARE = 10 };

/* Identity. */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

/* Hashes everything that decides the bits of the gradient and the contents of a point. */
static void identify(const struct run *run, const void *input, size_t size, struct journal_identity *identity)
{
	const struct job_options *options = &run->options->job;
	uint64_t *parts = identity->parts;
	char type[TYPE_TEXT];
	memset(identity, 0, sizeof *identity);
	parts[JOURNAL_CHAIN] = hash_bytes(HASH_START, run->chain->source->text, run->chain->source->length);
	/* Measured costs or memory may lead to another schedule. */
	const struct counters *c = &run->gradient->job->predicted;
	const int64_t schedule[] = {c->evaluations, c->checkpoints, c->spill_writes, c->spill_reads};
	parts[JOURNAL_POLICY] = hash_text(HASH_START, run->gradient->job->policy->text);
	parts[JOURNAL_POLICY] = hash_text(parts[JOURNAL_POLICY], run->gradient->job->scheduled.text);
	parts[JOURNAL_POLICY] = hash_bytes(parts[JOURNAL_POLICY], schedule, sizeof schedule);
	const int types[] = {run->options->dtype, options->store, run->options->flush_denormals};
	parts[JOURNAL_TYPES] = hash_bytes(HASH_START, types, sizeof types);
	parts[JOURNAL_VALUE_WANTED] = run->options->value != NULL;
	const struct array *cotangent = &run->gradient->cotangent;
	if (cotangent->data)
		parts[JOURNAL_COTANGENT] = hash_bytes(hash_text(HASH_START, dtype_name(cotangent->type.dtype)), cotangent->data,
		                                      (size_t)type_bytes(&cotangent->type));
	const char *const program[] = {run->kernels[0]->isa, blas_name(), PACKAGE_VERSION};
	for (size_t i = 0; i < sizeof program / sizeof *program; i++)
		parts[JOURNAL_PROGRAM] = hash_text(parts[JOURNAL_PROGRAM], program[i]);
	for (size_t i = 0; i < run->params->count; i++) {
		const struct bound_param *bound = &run->params->bound[i];
		parts[JOURNAL_PARAMS] = hash_text(parts[JOURNAL_PARAMS], type_format(&bound->type, type));
		parts[JOURNAL_PARAMS] = hash_bytes(parts[JOURNAL_PARAMS], bound->data, (size_t)type_bytes(&bound->type));
	}
	parts[JOURNAL_INPUT] = hash_text(HASH_START, type_format(&run->gradient->job->input, type));
	parts[JOURNAL_INPUT] = hash_bytes(parts[JOURNAL_INPUT], input, size);
}

enum status resume_open(struct worker *worker, const void *input, size_t size)
{
	struct run *run = worker->run;
	struct journal_identity identity;
	const unsigned char *more;
	size_t got = 0;
	TRY(input_peek(run->reader->input, 1, &more, &got, worker->diags));
	if (got)
		return diag_file(worker->diags, STATUS_DATA, run->reader->input->name, run->reader->input->offset,
		                 "another array follows, and a journal is of one");
	identify(run, input, size, &identity);
	struct gradient_result *result = run->gradient->result;
	result->journal = arena_alloc(run->gradient->arena, sizeof *result->journal);
	TRY_ALLOC(result->journal, worker->diags);
	enum status status = journal_open(result->journal, run->gradient->options->journal, run->gradient->options->spill,
	                                  run->gradient->job->predicted.spill_bytes, &identity, &worker->walk.kept.spill,
	                                  run->gradient->arena, worker->diags);
	worker->walk.resuming.skips = status == STATUS_OK && result->journal->goes_on;
	return status;
}

/* Points. */

/* Adds the data outside the slab to the pieces of a point. */
static void add_sums(struct worker *worker)
{
	const struct gradient_result *result = worker->run->gradient->result;
	for (size_t i = 0; i < result->param_count; i++) {
		const struct param_gradient *g = &result->params[i];
		const struct param_sums *sums = &g->of[g->type.dtype == DTYPE_F64]; /* a journal covers one array */
		if (sums->hi)
			worker->walk.kept.pieces[worker->walk.kept.piece_count++] = (struct spill_piece){sums->hi, sums->sum_size};
	}
	worker->walk.kept.pieces[worker->walk.kept.piece_count++] =
		(struct spill_piece){&worker->walk.kept.error, sizeof worker->walk.kept.error};
}

static enum status write_point(struct worker *worker)
{
	struct journal *journal = worker->run->gradient->result->journal;
	const double begun = clock_seconds();
	if (begun < worker->walk.resuming.next_point)
		return STATUS_OK;
	journal->next = worker->walk.resuming.points;
	const int64_t slot = journal->point_slot == JOURNAL_POINT_A ? JOURNAL_POINT_B : JOURNAL_POINT_A;
	enum status status = spill_write_at_once(&worker->walk.kept.spill, slot, worker->walk.kept.pieces,
	                                         worker->walk.kept.piece_count, worker->diags);
	const double now = clock_seconds();
	worker->walk.resuming.next_point = now + POINT_SHARE * (now - begun);
	return status;
}

/* A state that is on disk (SLOT >= 0) is a point already. A point of cotangents (SLOT -1) is written here. */
static enum status on_point(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	const struct journal *journal = worker->run->gradient->result->journal;
	const bool state = slot >= 0;
	if (!state)
		worker->walk.resuming.points++;
	const bool last =
		state ? journal->number < 0 && slot == journal->last_state : worker->walk.resuming.points == journal->number;
	if (worker->walk.resuming.skips ? !last : state)
		return STATUS_OK;
	TRY(kept_states_set_pieces(worker, arrays, count, worker->run->gradient->result->param_count + 1));
	if (!state)
		add_sums(worker);
	if (!worker->walk.resuming.skips)
		return write_point(worker);
	worker->walk.resuming.skips = false;
	return spill_read(&worker->walk.kept.spill, state ? kept_states_slot(worker, slot) : journal->point_slot,
	                  worker->walk.kept.pieces, worker->walk.kept.piece_count, worker->diags);
}

/* The hooks of a worker that may skip. */

/* A skipped backward call still reports its gradients, in the same order. */
static enum status on_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	if (!worker->walk.resuming.skips)
		return worker->walk.resuming.computing.call(context, call);
	return call->kind == CALL_BACKWARD ? gradient_events_step(worker->run, call->step, worker->diags) : STATUS_OK;
}

/* Writes the output to the spill file; a command that resumes after the first sweep reads it back. */
static enum status keep_output(struct worker *worker, int64_t offset, const struct type *type)
{
	const struct spill_piece piece = {worker->slab.base + offset, (size_t)type_bytes(type)};
	if (worker->walk.resuming.skips)
		return spill_read(&worker->walk.kept.spill, JOURNAL_VALUE, &piece, 1, worker->diags);
	return spill_write_at_once(&worker->walk.kept.spill, JOURNAL_VALUE, &piece, 1, worker->diags);
}

/* The worker learns whether it skips only when the input has been read. */
static enum status on_exchange(void *context, enum machine_input_output end, int64_t offset, const struct type *type)
{
	struct worker *worker = context;
	enum status status = end == MACHINE_OUTPUT ? keep_output(worker, offset, type) : STATUS_OK;
	if (worker->walk.resuming.skips && end == MACHINE_SEED)
		return STATUS_OK;
	if (worker->walk.resuming.skips && end == MACHINE_GRADIENT)
		return diag_file(worker->diags, STATUS_DATA, worker->run->gradient->options->journal, -1,
		                 "names no point of this run");
	return status ? status : worker->walk.resuming.computing.input_output(context, end, offset, type);
}

static enum status on_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	const struct worker *worker = context;
	return worker->walk.resuming.skips ? STATUS_OK
	                                   : worker->walk.resuming.computing.convert(context, to, from, type, narrow);
}

static enum status on_spill(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	const struct worker *worker = context;
	return worker->walk.resuming.skips ? STATUS_OK
	                                   : worker->walk.resuming.computing.spill(context, slot, arrays, count);
}

/* Skipped fetches are counted: the worker reads ahead from the right slot once it computes. */
static enum status on_fetch(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	if (!worker->walk.resuming.skips)
		return worker->walk.resuming.computing.fetch(context, slot, arrays, count);
	(void)kept_states_next_fetch(worker);
	return STATUS_OK;
}

void resume_hook(struct worker *worker)
{
	worker->walk.resuming.computing = worker->walk.hooks;
	worker->walk.hooks.call = on_call;
	worker->walk.hooks.input_output = on_exchange;
	worker->walk.hooks.convert = on_convert;
	worker->walk.hooks.spill = on_spill;
	worker->walk.hooks.fetch = on_fetch;
	worker->walk.hooks.point = on_point;
}
