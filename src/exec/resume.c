/*
 * A gradient run with a journal: when it writes a point to go on from, and how a
 * run that goes on takes the last of them up. The journal itself is
 * exec/journal.c's.
 *
 * A run that goes on carries the schedule out from its first action, but skips:
 * nothing is computed, read or written until it comes to the last durable point,
 * of which it takes up all that the run held then: the state or the cotangents,
 * and what stands beside the slab (the sums of params' gradients, the store's
 * largest error). Invariant: what follows has the bits of a run that was not killed.
 */
#include "exec/worker.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"

/* Points cost a run a tenth of its time at most: those that come too soon are left out. */
enum { POINT_SHARE = 10 };

/* Whose the journal is. */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

/* All that decides the bits of the gradient, and what of it a point holds. */
static void identify(const struct run *run, const void *input, size_t size, struct journal_identity *identity)
{
	const struct job_options *options = &run->options->job;
	uint64_t *parts = identity->parts;
	char type[TYPE_TEXT];
	memset(identity, 0, sizeof *identity);
	parts[JOURNAL_CHAIN] = hash_bytes(HASH_START, run->chain->source->text, run->chain->source->length);
	/* Where costs are measured, or memory is, another schedule may be chosen than was. */
	const struct counters *c = &run->job->predicted;
	const int64_t schedule[] = {c->evaluations, c->checkpoints, c->spill_writes, c->spill_reads};
	parts[JOURNAL_POLICY] = hash_text(HASH_START, run->job->policy->text);
	parts[JOURNAL_POLICY] = hash_text(parts[JOURNAL_POLICY], run->job->scheduled.text);
	parts[JOURNAL_POLICY] = hash_bytes(parts[JOURNAL_POLICY], schedule, sizeof schedule);
	const int types[] = {run->options->dtype, options->store, run->options->flush_denormals};
	parts[JOURNAL_TYPES] = hash_bytes(HASH_START, types, sizeof types);
	parts[JOURNAL_VALUE_WANTED] = run->options->value != NULL;
	if (run->cotangent)
		parts[JOURNAL_COTANGENT] = hash_bytes(hash_text(HASH_START, dtype_name(run->cotangent->type.dtype)),
		                                      run->cotangent->data, (size_t)type_bytes(&run->cotangent->type));
	const char *const program[] = {run->kernels[0]->isa, blas_name(), PACKAGE_VERSION};
	for (size_t i = 0; i < sizeof program / sizeof *program; i++)
		parts[JOURNAL_PROGRAM] = hash_text(parts[JOURNAL_PROGRAM], program[i]);
	for (size_t i = 0; i < run->params->count; i++) {
		const struct bound_param *bound = &run->params->bound[i];
		parts[JOURNAL_PARAMS] = hash_text(parts[JOURNAL_PARAMS], type_format(&bound->type, type));
		parts[JOURNAL_PARAMS] = hash_bytes(parts[JOURNAL_PARAMS], bound->data, (size_t)type_bytes(&bound->type));
	}
	parts[JOURNAL_INPUT] = hash_text(HASH_START, type_format(&run->job->input, type));
	parts[JOURNAL_INPUT] = hash_bytes(parts[JOURNAL_INPUT], input, size);
}

enum status resume_open(struct worker *worker, const void *input, size_t size)
{
	struct run *run = worker->run;
	struct journal_identity identity;
	const unsigned char *more;
	size_t got = 0;
	enum status status = input_peek(run->reader->input, 1, &more, &got, worker->diags);
	if (status)
		return status;
	if (got)
		return diag_file(worker->diags, STATUS_DATA, run->reader->input->name, run->reader->input->offset,
		                 "another array follows, and a journal is of one");
	identify(run, input, size, &identity);
	run->result->has_journal = true;
	status = journal_open(&run->result->journal, run->options->journal, run->options->spill,
	                      run->job->predicted.spill_bytes, &identity, &worker->spill, run->arena, worker->diags);
	worker->skips = status == STATUS_OK && run->result->journal.goes_on;
	return status;
}

/* Points. */

/* What stands beside the machine's arrays in a point of cotangents. */
static void add_sums(struct worker *worker)
{
	const struct grad_result *result = worker->run->result;
	for (size_t i = 0; i < result->param_count; i++) {
		const struct param_gradient *g = &result->params[i];
		const struct param_sums *sums = &g->of[g->type.dtype == DTYPE_F64]; /* a journal is of one array */
		if (sums->hi)
			worker->pieces[worker->piece_count++] = (struct spill_piece){sums->hi, sums->sum_size};
	}
	worker->pieces[worker->piece_count++] = (struct spill_piece){&worker->store_error, sizeof worker->store_error};
}

static enum status write_point(struct worker *worker)
{
	struct journal *journal = &worker->run->result->journal;
	const double begun = clock_seconds();
	if (begun < worker->next_point)
		return STATUS_OK;
	journal->next = worker->points;
	const int64_t slot = journal->point_slot == JOURNAL_POINT_A ? JOURNAL_POINT_B : JOURNAL_POINT_A;
	enum status status = spill_write_at_once(&worker->spill, slot, worker->pieces, worker->piece_count, worker->diags);
	const double now = clock_seconds();
	worker->next_point = now + POINT_SHARE * (now - begun);
	return status;
}

/* A state that has gone to disk is a point as it lies there; of cotangents (SLOT -1) one is written. */
static enum status on_point(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	const struct journal *journal = &worker->run->result->journal;
	const bool state = slot >= 0;
	if (!state)
		worker->points++;
	const bool last = state ? journal->number < 0 && slot == journal->last_state : worker->points == journal->number;
	if (worker->skips ? !last : state)
		return STATUS_OK;
	enum status status = store_set_pieces(worker, arrays, count, worker->run->result->param_count + 1);
	if (status)
		return status;
	if (!state)
		add_sums(worker);
	if (!worker->skips)
		return write_point(worker);
	worker->skips = false;
	return spill_read(&worker->spill, state ? store_slot(worker, slot) : journal->point_slot, worker->pieces,
	                  worker->piece_count, worker->diags);
}

/* What a worker does, or leaves out where it skips. */

/* Gradients are ready again in the order in which they were. */
static enum status on_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	if (!worker->skips)
		return worker->computing.call(context, call);
	return call->kind == CALL_BACKWARD ? gradient_events_step(worker->run, call->step, worker->diags) : STATUS_OK;
}

/* Keeps the output for a run that goes on after the first sweep; such a run has it from there. */
static enum status keep_output(struct worker *worker, int64_t offset, const struct type *type)
{
	const struct spill_piece piece = {worker->slab.base + offset, (size_t)type_bytes(type)};
	if (worker->skips)
		return spill_read(&worker->spill, JOURNAL_VALUE, &piece, 1, worker->diags);
	return spill_write_at_once(&worker->spill, JOURNAL_VALUE, &piece, 1, worker->diags);
}

/* It is not known before the input is read whether the worker skips. */
static enum status on_end(void *context, enum machine_input_output end, int64_t offset, const struct type *type)
{
	struct worker *worker = context;
	enum status status = end == MACHINE_OUTPUT ? keep_output(worker, offset, type) : STATUS_OK;
	if (worker->skips && end == MACHINE_SEED)
		return STATUS_OK;
	if (worker->skips && end == MACHINE_GRADIENT)
		return diag_file(worker->diags, STATUS_DATA, worker->run->options->journal, -1, "names no point of this run");
	return status ? status : worker->computing.input_output(context, end, offset, type);
}

static enum status on_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	const struct worker *worker = context;
	return worker->skips ? STATUS_OK : worker->computing.convert(context, to, from, type, narrow);
}

static enum status on_spill(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	const struct worker *worker = context;
	return worker->skips ? STATUS_OK : worker->computing.spill(context, slot, arrays, count);
}

/* What is not fetched is counted, so that the worker reads ahead rightly once it computes. */
static enum status on_fetch(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	if (!worker->skips)
		return worker->computing.fetch(context, slot, arrays, count);
	(void)store_note_fetch(worker);
	return STATUS_OK;
}

void resume_hook(struct worker *worker)
{
	worker->computing = worker->hooks;
	worker->hooks.call = on_call;
	worker->hooks.input_output = on_end;
	worker->hooks.convert = on_convert;
	worker->hooks.spill = on_spill;
	worker->hooks.fetch = on_fetch;
	worker->hooks.point = on_point;
}
