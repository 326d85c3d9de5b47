/*
 * Rows shared among ranks (ranks/ranks.h). Chunk I belongs to rank I % ranks. What adds up over chunks passes from chunk to
 * chunk (ordered.h): the state of the folds of a pass, and the sums of params, which ranks of one machine keep in memory
 * that they share. So the sums are added in the order that one process adds them in, and have its bits.
 *
 * After a pass, all ranks get its state. In the end rank 0 gets all sums from the last chunk's owner, and rows of params
 * from all, and writes them.
 * Tests: tests/scripts/check-ranks
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_state.h"

enum { TAG_END }; /* of messages; others are those of ordered.c and neighbours.c */

bool shares_rows(const struct run *run) { return run->ranks && run->tiles->tiled; }

int64_t shares_items(const struct run *run) { return shares_before(run, tiles_chunks(run->tiles)); }

int64_t shares_before(const struct run *run, int64_t chunk)
{
	const int64_t count = ranks_count(run->ranks), index = ranks_index(run->ranks);
	return chunk > index ? (chunk - index - 1) / count + 1 : 0;
}

int64_t shares_chunk(const struct run *run, int64_t item)
{
	return item * ranks_count(run->ranks) + ranks_index(run->ranks);
}

static int owner(const struct run *run, int64_t chunk) { return (int)(chunk % ranks_count(run->ranks)); }
static int last_owner(const struct run *run) { return owner(run, tiles_chunks(run->tiles) - 1); }
bool shares_owns(const struct run *run, int64_t chunk) { return owner(run, chunk) == ranks_index(run->ranks); }

/* Says at which stage, and why, one rank computes alone. */
static void warn_alone(const struct run *run)
{
	const struct because *because = &run->tiles->because;
	const char *reason = because->reason ? because->reason : "all of them depend on one another";
	static const char *const what = "the chain's rows cannot be shared out among ranks, so one rank computes alone";
	if (because->span.line)
		diag_at(run->context.diags, STATUS_OK, run->chain->source, because->span, "%s: %s", what, reason);
	else
		diag_warn(run->context.diags, "%s: %s", what, reason);
}

static enum status refuse_sharing(const struct run *run, const char *wrong)
{
	return diag_file(run->context.diags, STATUS_USAGE, NULL, -1, "ranks read and write rows in their places: %s",
	                 wrong);
}

static enum status refuse_input(const struct run *run)
{
	return refuse_sharing(run, "the input must be a regular file (-i FILE), npy in C order, raw, text or csv");
}

enum status shares_check_input(const struct run *run)
{
	return run->ranks && run->reader->input->size < 0 ? refuse_input(run) : STATUS_OK;
}

enum status shares_begin_array(struct run *run)
{
	const struct writer *gradient = run->gradient ? run->gradient->options->gradient : NULL;
	const struct writer *value = run->tiles->output_row > 0 ? run->options->value : NULL;
	if (!run->ranks)
		return STATUS_OK;
	if (!run->tiles->tiled) {
		if (ranks_index(run->ranks) == 0)
			warn_alone(run);
		return STATUS_OK;
	}
	if (!reader_seekable(run->reader))
		return refuse_input(run);
	if ((value && !writer_seekable(value)) || (gradient && !writer_seekable(gradient)))
		return refuse_sharing(run, "the output must be a regular file (-o FILE), npy or raw");
	for (size_t k = 1; k < rows_out_values(run); k++)
		if (!writer_seekable(run->outputs[OUTPUT_VALUE + k].writer))
			return refuse_sharing(run, "the output must be a regular file (-o FILE), npy or raw");
	return STATUS_OK;
}

static enum sum_kind sum_kind_of(const struct run *run, size_t i) { return run->gradient->job->sums.kinds[i]; }

/* Returns the state of the folds of a pass: the value after those of params. */
static struct ordered_value *pass_state(const struct run *run) { return &run->ordered.values[run->params->count]; }

enum status shares_open(struct run *run)
{
	const size_t count = run->params->count;
	void *memory;
	run->ordered = (struct ordered){.ranks = shares_rows(run) ? run->ranks : NULL,
	                                .workers = run->tiles->workers,
	                                .begun = &run->begun,
	                                .values = arena_array(&run->arena, count + 1, sizeof *run->ordered.values),
	                                .count = (uint32_t)count + 1};
	TRY_ALLOC(run->ordered.values, run->context.diags);
	for (size_t i = 0; run->gradient && i < count; i++)
		run->ordered.values[i] = totals_value(run, i);
	*pass_state(run) =
		(struct ordered_value){ORDERED_WHOLE, (size_t)run->tiles->state * sizeof(double), .element = sizeof(double)};
	TRY(ordered_open(&run->ordered, &run->context, run->gradient ? totals_shareable(run) : -1, &memory));
	if (memory)
		totals_share(run, memory);
	return STATUS_OK;
}

/* Copies what rank FROM has at DATA to rank TO. */
static enum status move_data(const struct run *run, int from, int to, void *data, size_t size)
{
	const int index = ranks_index(run->ranks);
	if (from == to || (index != to && index != from))
		return STATUS_OK;
	return index == to ? ranks_receive(run->ranks, from, TAG_END, data, size)
	                   : ranks_send(run->ranks, to, TAG_END, data, size);
}

/* Collects the rows of a streamed param's gradient. */
static enum status collect_rows(struct run *run, size_t i)
{
	const struct tiles *tiles = run->tiles;
	const size_t row = run->ordered.values[i].bytes / (size_t)tiles->rows;
	char *at = run->ordered.values[i].heads;
	for (int64_t chunk = 0; chunk < tiles_chunks(tiles); chunk++) {
		const size_t bytes = (size_t)tiles_rows_of(tiles, chunk) * row;
		TRY(move_data(run, owner(run, chunk), 0, at, bytes));
		at += bytes;
	}
	return STATUS_OK;
}

enum status shares_spread_state(struct run *run)
{
	const struct ordered_value *state = pass_state(run);
	if (!shares_rows(run))
		return STATUS_OK;
	TRY(move_data(run, last_owner(run), 0, state->heads, state->bytes));
	return ranks_broadcast(run->ranks, state->heads, state->bytes);
}

enum status shares_most(const struct run *run, int64_t *value)
{
	for (int i = 1; shares_rows(run) && i < ranks_count(run->ranks); i++) {
		int64_t other = *value;
		TRY(move_data(run, i, 0, &other, sizeof other));
		*value = greater(*value, other);
	}
	return STATUS_OK;
}

enum status shares_least(const struct run *run, int64_t *value)
{
	int64_t most = -*value;
	TRY(shares_most(run, &most));
	*value = -most;
	return shares_rows(run) ? ranks_broadcast(run->ranks, value, sizeof *value) : STATUS_OK;
}

/* Moves VALUE from rank FROM to rank TO, unless all ranks share it. */
static enum status move_value(const struct run *run, const struct ordered_value *value, int from, int to)
{
	if (run->ordered.shared && value->in_shared)
		return STATUS_OK;
	TRY(move_data(run, from, to, value->heads, value->bytes));
	return value->tails ? move_data(run, from, to, value->tails, value->bytes / 2) : STATUS_OK;
}

enum status shares_meet(const struct run *run)
{
	int64_t nothing = 0;
	return shares_least(run, &nothing);
}

/* Rank FROM says to rank TO that it has added to the sums that they share. */
static enum status say_added(const struct run *run, int from, int to)
{
	bool added = true;
	return run->ordered.shared ? move_data(run, from, to, &added, sizeof added) : STATUS_OK;
}

enum status shares_await_sums(struct run *run) { return say_added(run, last_owner(run), 0); }

/* Moves the sums of params from rank FROM to rank TO. */
static enum status move_sums(struct run *run, int from, int to)
{
	TRY(say_added(run, from, to));
	for (size_t i = 0; run->gradient && i < run->params->count; i++)
		if (sum_kind_of(run, i) != SUM_NONE && sum_kind_of(run, i) != SUM_ROWS)
			TRY(move_value(run, &run->ordered.values[i], from, to));
	return STATUS_OK;
}

enum status shares_move_sums(struct run *run, int64_t chunk)
{
	if (!shares_rows(run))
		return STATUS_OK;
	if (passes_fold(run))
		TRY(move_value(run, pass_state(run), owner(run, chunk - 1), owner(run, chunk)));
	return move_sums(run, owner(run, chunk - 1), owner(run, chunk));
}

enum status shares_collect(struct run *run)
{
	if (!shares_rows(run))
		return STATUS_OK;
	for (size_t i = 0; run->gradient && i < run->params->count; i++)
		if (sum_kind_of(run, i) == SUM_ROWS && !job_row_bytes(run->gradient->job, i))
			TRY(collect_rows(run, i));
	return move_sums(run, last_owner(run), 0);
}
