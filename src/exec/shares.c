/*
 * Rows shared among ranks (ranks/ranks.h). Each rank runs every COUNTth chunk. What adds up over tiles goes from rank to
 * rank in the order of tiles. A rank gets the sum from the owner of the tile before, adds its own part, and passes it
 * on. So the sums are added in the order that one process adds them in, and have its bits.
 *
 * Ranks of one machine keep the sums of params in memory that they share, and say whose turn it is on the board of
 * turns.c: then no sums are sent. Otherwise there are messages:
 *
 *     the states of the folds of a pass  a message for each chunk, and one to all ranks after the pass
 *     sums made apart                    a message for each chunk and param
 *     shared sums, each element once     a message for each addition, of the elements that it adds to
 *     other shared sums                  a message for each tile and param
 *     rows of params                     messages to rank 0, in the end
 *
 * In the end the last tile's owner sends all sums to rank 0, which writes them.
 */
#include <string.h>

#include "base/checked.h"
#include "exec/run_parts.h"

/* Tags of messages. Additions have tags of their own, so that those of several workers do not mix. */
enum { TAG_STATE, TAG_SUMS, TAG_ROWS, TAG_END, TAG_TILE, TAG_ADDITION = 256 };

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
bool shares_sends(const struct run *run) { return shares_rows(run) && !run->turns.shared; }
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
	return STATUS_OK;
}

/* Gets SIZE bytes from the owner of the chunk before CHUNK, or passes them to that of the next chunk, if there is one. */
static enum status get(const struct run *run, int64_t chunk, int tag, void *data, size_t size)
{
	if (!shares_rows(run) || chunk == run->begun)
		return STATUS_OK;
	return ranks_receive(run->ranks, owner(run, chunk - 1), tag, data, size);
}

static enum status pass(const struct run *run, int64_t chunk, int tag, const void *data, size_t size)
{
	if (!shares_rows(run) || chunk + 1 == tiles_chunks(run->tiles))
		return STATUS_OK;
	return ranks_send(run->ranks, owner(run, chunk + 1), tag, data, size);
}

static size_t folded_bytes(const struct run *run) { return (size_t)run->tiles->state * sizeof(double); }

enum status shares_get_state(struct run *run, int64_t chunk)
{
	return get(run, chunk, TAG_STATE, run->passes.state, folded_bytes(run));
}

enum status shares_pass_state(struct run *run, int64_t chunk)
{
	return pass(run, chunk, TAG_STATE, run->passes.state, folded_bytes(run));
}

static enum sum_kind sum_kind_of(const struct run *run, size_t i) { return run->gradient->job->sums.kinds[i]; }

static size_t sum_bytes(const struct run *run, size_t i)
{
	const struct type type = bound_type(&run->bound[i]);
	return (size_t)type_bytes(&type);
}

typedef enum status exchange(const struct run *run, int64_t chunk, int tag, void *data, size_t size);
static enum status get_part(const struct run *run, int64_t chunk, int tag, void *data, size_t size)
{
	return get(run, chunk, tag, data, size);
}
static enum status pass_part(const struct run *run, int64_t chunk, int tag, void *data, size_t size)
{
	return pass(run, chunk, tag, data, size);
}

/* Exchanges the heads and the tails, if there are any, of the sums of param I. */
static enum status exchange_sum(struct run *run, size_t i, int64_t chunk, int tag, exchange *one)
{
	const struct param_sums *sums = totals_of(run, i);
	const size_t bytes = sum_bytes(run, i);
	TRY(one(run, chunk, tag, sums->heads, bytes));
	return sums->tails ? one(run, chunk, tag, sums->tails, bytes / 2) : STATUS_OK;
}

static enum status exchange_apart(struct run *run, int64_t chunk, exchange *one)
{
	for (size_t i = 0; run->gradient && shares_rows(run) && i < run->params->count; i++)
		if (sum_kind_of(run, i) == SUM_APART)
			TRY(exchange_sum(run, i, chunk, TAG_SUMS, one));
	return STATUS_OK;
}

enum status shares_get_sums(struct run *run, int64_t chunk)
{
	return run->turns.shared ? turns_wait_chunk(run, chunk) : exchange_apart(run, chunk, get_part);
}

enum status shares_pass_sums(struct run *run, int64_t chunk)
{
	if (!run->turns.shared)
		return exchange_apart(run, chunk, pass_part);
	turns_pass_chunk(run, chunk);
	return STATUS_OK;
}

/* Copies the part at PLACE of an array of elements of SIZE bytes, from the array to PACKED or back. */
static void pack_part(char *array, char *packed, const struct sum_place *place, size_t size, bool back)
{
	const size_t bytes = (size_t)place->columns * size;
	for (int64_t row = 0; row < place->rows; row++, packed += bytes) {
		char *at = array + (size_t)(place->first + row * place->width) * size;
		memcpy(back ? at : packed, back ? packed : at, bytes);
	}
}

static int addition_tag(const struct worker *worker, int64_t chunk, uint32_t param)
{
	const int64_t number = worker->turn.additions[param];
	return (int)(TAG_ADDITION + (chunk & 15) * (1 << 15) + (int64_t)(param & 63) * (1 << 9) + (number & 511));
}

/* Sets the worker's part to hold SIZE bytes. */
static bool reserve(struct worker *worker, size_t size)
{
	struct turn *turn = &worker->turn;
	if (size <= turn->part_size)
		return true;
	turn->part = arena_alloc(&worker->arena, size);
	turn->part_size = turn->part ? size : 0;
	if (!turn->part)
		(void)diag_memory(worker->diags);
	return turn->part;
}

/* Gets, or passes on, the elements at PLACE of the sum of PARAM. */
static enum status move_part(struct worker *worker, uint32_t param, const struct sum_place *place, bool gets)
{
	struct run *run = worker->run;
	const struct param_sums *sums = totals_of(run, param);
	const size_t size = dtype_size(run->bound[param].dtype), count = (size_t)(place->rows * place->columns);
	const size_t heads = count * size, all = heads + (sums->tails ? heads / 2 : 0);
	/* the number of the addition belongs to this tile, and so to the message that it gets; the next tile's is the same */
	const int tag = addition_tag(worker, worker->chunk + (gets ? 0 : 1), param);
	TRY(reserve(worker, all) ? STATUS_OK : STATUS_LIMIT);
	if (gets)
		TRY(get(run, worker->chunk, tag, worker->turn.part, all));
	pack_part(sums->heads, worker->turn.part, place, size, gets);
	if (sums->tails)
		pack_part(sums->tails, worker->turn.part + heads, place, size / 2, gets);
	return gets ? STATUS_OK : pass(run, worker->chunk, tag, worker->turn.part, all);
}

static bool by_addition(const struct worker *worker, uint32_t param)
{
	return worker->run->gradient->job->sums.once[param];
}

void shares_get_addition(struct worker *worker, uint32_t param, const struct sum_place *place)
{
	struct turn *turn = &worker->turn;
	if (worker->chunk == worker->run->begun || turn->lost)
		return;
	if (by_addition(worker, param))
		turn->lost = move_part(worker, param, place, true) != STATUS_OK;
	else if (turn->additions[param] == 0)
		turn->lost = exchange_sum(worker->run, param, worker->chunk, TAG_TILE, get_part) != STATUS_OK;
}

void shares_pass_addition(struct worker *worker, uint32_t param, const struct sum_place *place)
{
	if (by_addition(worker, param) && worker->chunk + 1 < tiles_chunks(worker->run->tiles) && !worker->turn.lost)
		worker->turn.lost = move_part(worker, param, place, false) != STATUS_OK;
}

void shares_pass_tile(struct worker *worker)
{
	struct run *run = worker->run;
	for (size_t i = 0; shares_sends(run) && turns_of(worker) && i < run->params->count && !worker->turn.lost; i++)
		if (sum_kind_of(run, i) == SUM_SHARED && !by_addition(worker, (uint32_t)i))
			worker->turn.lost = exchange_sum(run, i, worker->chunk, TAG_TILE, pass_part) != STATUS_OK;
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
	const size_t row = sum_bytes(run, i) / (size_t)tiles->rows;
	char *at = totals_of(run, i)->heads;
	for (int64_t chunk = 0; chunk < tiles_chunks(tiles); chunk++) {
		const size_t bytes = (size_t)tiles_rows_of(tiles, chunk) * row;
		TRY(move_data(run, owner(run, chunk), 0, at, bytes));
		at += bytes;
	}
	return STATUS_OK;
}

enum status shares_spread_state(struct run *run)
{
	if (!shares_rows(run))
		return STATUS_OK;
	TRY(move_data(run, owner(run, tiles_chunks(run->tiles) - 1), 0, run->passes.state, folded_bytes(run)));
	return ranks_broadcast(run->ranks, run->passes.state, folded_bytes(run));
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

/* Rank FROM says to rank TO that it has added to the sums that they share. */
static enum status say_added(const struct run *run, int from, int to)
{
	bool added = true;
	return run->turns.shared ? move_data(run, from, to, &added, sizeof added) : STATUS_OK;
}

enum status shares_meet(const struct run *run)
{
	int64_t nothing = 0;
	return shares_least(run, &nothing);
}

enum status shares_await_sums(struct run *run) { return say_added(run, owner(run, tiles_chunks(run->tiles) - 1), 0); }

/* Copies the sums of params that are not shared from rank FROM to rank TO. */
static enum status move_sums(struct run *run, int from, int to)
{
	TRY(say_added(run, from, to));
	for (size_t i = 0; run->gradient && i < run->params->count; i++) {
		const enum sum_kind kind = sum_kind_of(run, i);
		if (kind == SUM_NONE || kind == SUM_ROWS || (run->turns.shared && kind != SUM_ONCE))
			continue;
		const struct param_sums *sums = totals_of(run, i);
		TRY(move_data(run, from, to, sums->heads, sum_bytes(run, i)));
		if (sums->tails)
			TRY(move_data(run, from, to, sums->tails, sum_bytes(run, i) / 2));
	}
	return STATUS_OK;
}

enum status shares_move_sums(struct run *run, int64_t chunk)
{
	if (!shares_rows(run))
		return STATUS_OK;
	if (passes_fold(run))
		TRY(move_data(run, owner(run, chunk - 1), owner(run, chunk), run->passes.state, folded_bytes(run)));
	return move_sums(run, owner(run, chunk - 1), owner(run, chunk));
}

enum status shares_collect(struct run *run)
{
	if (!shares_rows(run))
		return STATUS_OK;
	for (size_t i = 0; run->gradient && i < run->params->count; i++)
		if (sum_kind_of(run, i) == SUM_ROWS)
			TRY(collect_rows(run, i));
	return move_sums(run, owner(run, tiles_chunks(run->tiles) - 1), 0);
}
