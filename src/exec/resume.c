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
#include "exec/lane.h"

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

enum status resume_open(struct lane *lane, const void *input, size_t size)
{
	struct run *run = lane->run;
	struct journal_identity identity;
	const unsigned char *more;
	size_t got = 0;
	enum status status = input_peek(run->reader->input, 1, &more, &got, lane->diags);
	if (status)
		return status;
	if (got)
		return diag_file(lane->diags, STATUS_DATA, run->reader->input->name, run->reader->input->offset,
		                 "another array follows, and a journal is of one");
	identify(run, input, size, &identity);
	run->result->has_journal = true;
	status = journal_open(&run->result->journal, run->options->journal, run->options->spill,
	                      run->job->predicted.spill_bytes, &identity, &lane->spill, run->arena, lane->diags);
	lane->skips = status == STATUS_OK && run->result->journal.goes_on;
	return status;
}

/* Points. */

/* What stands beside the machine's arrays in a point of cotangents. */
static void add_sums(struct lane *lane)
{
	const struct grad_result *result = lane->run->result;
	for (size_t i = 0; i < result->param_count; i++) {
		const struct param_gradient *g = &result->params[i];
		const struct param_sums *sums = &g->of[g->type.dtype == DTYPE_F64]; /* a journal is of one array */
		if (sums->hi)
			lane->pieces[lane->piece_count++] = (struct spill_piece){sums->hi, sums->sum_size};
	}
	lane->pieces[lane->piece_count++] = (struct spill_piece){&lane->store_error, sizeof lane->store_error};
}

static enum status write_point(struct lane *lane)
{
	struct journal *journal = &lane->run->result->journal;
	const double begun = clock_seconds();
	if (begun < lane->next_point)
		return STATUS_OK;
	journal->next = lane->points;
	const int64_t slot = journal->point_slot == JOURNAL_POINT_A ? JOURNAL_POINT_B : JOURNAL_POINT_A;
	enum status status = spill_write_at_once(&lane->spill, slot, lane->pieces, lane->piece_count, lane->diags);
	const double now = clock_seconds();
	lane->next_point = now + POINT_SHARE * (now - begun);
	return status;
}

/* A state that has gone to disk is a point as it lies there; of cotangents (SLOT -1) one is written. */
static enum status on_point(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	const struct journal *journal = &lane->run->result->journal;
	const bool state = slot >= 0;
	if (!state)
		lane->points++;
	const bool last = state ? journal->number < 0 && slot == journal->last_state : lane->points == journal->number;
	if (lane->skips ? !last : state)
		return STATUS_OK;
	enum status status = store_set_pieces(lane, arrays, count, lane->run->result->param_count + 1);
	if (status)
		return status;
	if (!state)
		add_sums(lane);
	if (!lane->skips)
		return write_point(lane);
	lane->skips = false;
	return spill_read(&lane->spill, state ? store_slot(lane, slot) : journal->point_slot, lane->pieces,
	                  lane->piece_count, lane->diags);
}

/* What a lane does, or leaves out where it skips. */

/* Gradients are ready again in the order in which they were. */
static enum status on_call(void *context, const struct machine_call *call)
{
	struct lane *lane = context;
	if (!lane->skips)
		return lane->computing.call(context, call);
	return call->kind == CALL_BACKWARD ? ready_step(lane->run, call->step, lane->diags) : STATUS_OK;
}

/* Keeps the output for a run that goes on after the first sweep; such a run has it from there. */
static enum status keep_output(struct lane *lane, int64_t offset, const struct type *type)
{
	const struct spill_piece piece = {lane->slab.base + offset, (size_t)type_bytes(type)};
	if (lane->skips)
		return spill_read(&lane->spill, JOURNAL_VALUE, &piece, 1, lane->diags);
	return spill_write_at_once(&lane->spill, JOURNAL_VALUE, &piece, 1, lane->diags);
}

/* It is not known before the input is read whether the lane skips. */
static enum status on_end(void *context, enum machine_end end, int64_t offset, const struct type *type)
{
	struct lane *lane = context;
	enum status status = end == MACHINE_OUTPUT ? keep_output(lane, offset, type) : STATUS_OK;
	if (lane->skips && end == MACHINE_SEED)
		return STATUS_OK;
	if (lane->skips && end == MACHINE_GRADIENT)
		return diag_file(lane->diags, STATUS_DATA, lane->run->options->journal, -1, "names no point of this run");
	return status ? status : lane->computing.end(context, end, offset, type);
}

static enum status on_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	const struct lane *lane = context;
	return lane->skips ? STATUS_OK : lane->computing.convert(context, to, from, type, narrow);
}

static enum status on_spill(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	const struct lane *lane = context;
	return lane->skips ? STATUS_OK : lane->computing.spill(context, slot, arrays, count);
}

/* What is not fetched is counted, so that the lane reads ahead rightly once it computes. */
static enum status on_fetch(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	if (!lane->skips)
		return lane->computing.fetch(context, slot, arrays, count);
	(void)store_note_fetch(lane);
	return STATUS_OK;
}

void resume_hook(struct lane *lane)
{
	lane->computing = lane->hooks;
	lane->hooks.call = on_call;
	lane->hooks.end = on_end;
	lane->hooks.convert = on_convert;
	lane->hooks.spill = on_spill;
	lane->hooks.fetch = on_fetch;
	lane->hooks.point = on_point;
}
