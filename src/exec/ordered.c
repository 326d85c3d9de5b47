/*
 * Carriers of ordered values:
 *
 *     process          the value stays in its place. A board says which chunk has left it. Workers wait for the board.
 *     shared memory    the same for ranks of one machine: the board and the value lie in memory that all of them share
 *     message          each rank has a copy. The owner of a chunk sends the value to the owner of the next.
 *
 * To add one, write its begin and end (a file of its own, if they are long), and a row in CARRIERS before those that would
 * take its values: the first whose applies is true carries a value. Begin returns once the chunk before has ended the value, or the piece, and
 * the value's memory has it. End makes that so for the next chunk, and never waits for it. Each must end with a failure if a
 * worker (ordered_fail) or a rank (ranks_check) fails. Begin is not called for the first chunk. End without a place comes
 * also for a value to which the chunk has not added.
 *
 * The board has a number for each value and each chunk that runs, which only grows:
 *
 *     |moves, waiters|value 0, 1, 2, ... of chunk C|of chunk C + 1|...      C: a multiple of ranks * workers
 *
 *     number = chunk << SHIFT | additions of the chunk so far; (chunk + 1) << SHIFT once the chunk has left the value
 *
 * Invariant: a chunk waits only for the one before, which its worker has begun or will begin without waiting for a later
 * one. So the first unfinished chunk never waits. A worker that fails is past all chunks, and whoever waits for it fails
 * too. Nobody holds a lock: a process that is killed leaves the board as it is.
 *
 * Tests: tests/unit/test_ordered.c, tests/scripts/check-ranks, tests/scripts/check-param-sums
 */
#include "exec/ordered.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"

enum {
	SLEEP = 2000000, /* nanoseconds that a rank sleeps before it looks whether another has failed */
	SHIFT = 24,
	MOST = (1 << SHIFT) - 1, /* additions that are counted. Later ones wait for the end of the chunk before. */
	/* Of messages. Numbers below are of others. */
	TAG_PIECE = 256,
	TAG_WHOLE = TAG_PIECE + (1 << 19),
};

struct ordered_board {
	atomic_uint moves, waiters; /* moves: counts changes of the board, on which the waiters sleep */
	atomic_int_least64_t numbers[];
};

/* PLACE: of an addition; NULL: all of the value. */
struct ordered_carrier {
	bool (*applies)(const struct ordered *ordered, const struct ordered_value *value);
	enum status (*begin)(struct ordered_turn *turn, uint32_t value, const struct sum_place *place);
	enum status (*end)(struct ordered_turn *turn, uint32_t value, const struct sum_place *place);
};

/* Returns the chunks that run at once: those after have the same places on the board. */
static int64_t chunks_at_once(const struct ordered *ordered) { return ranks_count(ordered->ranks) * ordered->workers; }

/* Returns the index of a number. Those of a chunk fill cache lines: the ends of two chunks alone may meet in one. */
static int64_t number_index(const struct ordered *ordered, int64_t chunk, uint32_t value)
{
	return chunk * round_up(ordered->count, ARRAY_ALIGN / sizeof(int64_t)) + value;
}

static atomic_int_least64_t *board_number(const struct ordered *ordered, int64_t chunk, uint32_t value)
{
	return &ordered->board->numbers[number_index(ordered, chunk % chunks_at_once(ordered), value)];
}

static int64_t number_of(const struct ordered *ordered, int64_t chunk, int64_t additions)
{
	return (ordered->before + chunk) << SHIFT | additions;
}

/* Wakes those that wait, after a change of the board. */
static void wake_waiting(struct ordered_board *board)
{
	atomic_fetch_add(&board->moves, 1);
	if (atomic_load(&board->waiters) > 0)
		syscall(SYS_futex, &board->moves, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits until the number AT is NUMBER at least. */
static enum status await_number(const struct ordered *ordered, const atomic_int_least64_t *at, int64_t number)
{
	struct ordered_board *board = ordered->board;
	const struct timespec sleep = {.tv_nsec = SLEEP};
	while (atomic_load(at) < number) {
		atomic_fetch_add(&board->waiters, 1);
		const unsigned moves = atomic_load(&board->moves);
		if (atomic_load(at) < number)
			syscall(SYS_futex, &board->moves, FUTEX_WAIT, moves, ordered->shared ? &sleep : NULL, NULL, 0);
		atomic_fetch_sub(&board->waiters, 1);
		TRY(ranks_check(ordered->ranks));
	}
	return atomic_load(at) == INT64_MAX ? STATUS_OTHER_RANK : STATUS_OK;
}

static bool in_pieces(const struct ordered_turn *turn, uint32_t value)
{
	return turn->ordered->values[value].unit == ORDERED_PIECES;
}

static enum status begin_on_board(struct ordered_turn *turn, uint32_t value, const struct sum_place *place MAYBE_UNUSED)
{
	const struct ordered *ordered = turn->ordered;
	const bool counted = in_pieces(turn, value) && turn->made[value] < MOST;
	const int64_t number =
		counted ? number_of(ordered, turn->chunk - 1, turn->made[value] + 1) : number_of(ordered, turn->chunk, 0);
	return await_number(ordered, board_number(ordered, turn->chunk - 1, value), number);
}

static enum status end_on_board(struct ordered_turn *turn, uint32_t value, const struct sum_place *place)
{
	const struct ordered *ordered = turn->ordered;
	const int64_t number = place ? number_of(ordered, turn->chunk, lesser(turn->made[value] + 1, MOST))
	                             : number_of(ordered, turn->chunk + 1, 0);
	atomic_store(board_number(ordered, turn->chunk, value), number);
	wake_waiting(ordered->board);
	return STATUS_OK;
}

/* Returns the tag of a message to CHUNK. Messages to different workers of a rank, and of different values, do not mix. */
static int tag_of(const struct ordered_turn *turn, int64_t chunk, uint32_t value)
{
	const int64_t worker = chunk / ranks_count(turn->ordered->ranks) & 15;
	if (!in_pieces(turn, value))
		return (int)(TAG_WHOLE + ((int64_t)value & ((1 << 14) - 1)) * 16 + worker);
	return (int)(TAG_PIECE + worker * (1 << 15) + ((int64_t)value & 63) * (1 << 9) + (turn->made[value] & 511));
}

/* Receives SIZE bytes from the chunk before or, if SENDS, sends them to the next chunk. */
static enum status exchange_data(const struct ordered_turn *turn, uint32_t value, void *data, size_t size, bool sends)
{
	const struct ranks *ranks = turn->ordered->ranks;
	const int64_t to = turn->chunk + sends, other = sends ? to : turn->chunk - 1;
	const int rank = (int)(other % ranks->count), tag = tag_of(turn, to, value);
	return sends ? ranks_send(ranks, rank, tag, data, size) : ranks_receive(ranks, rank, tag, data, size);
}

/* Copies the elements at PLACE of an array, each of SIZE bytes, to PACKED or, if BACK, from it. */
static void pack_elements(char *array, char *packed, const struct sum_place *place, size_t size, bool back)
{
	const size_t bytes = (size_t)place->columns * size;
	for (int64_t row = 0; row < place->rows; row++, packed += bytes) {
		char *at = array + (size_t)(place->first + row * place->width) * size;
		memcpy(back ? at : packed, back ? packed : at, bytes);
	}
}

static enum status exchange_piece(struct ordered_turn *turn, uint32_t value, const struct sum_place *place, bool sends)
{
	const struct ordered_value *v = &turn->ordered->values[value];
	const size_t heads = (size_t)(place->rows * place->columns) * v->element, all = heads + (v->tails ? heads / 2 : 0);
	if (all > turn->piece_size)
		TRY_ALLOC(turn->piece = arena_alloc(turn->arena, all), turn->diags);
	turn->piece_size = (size_t)greater((int64_t)turn->piece_size, (int64_t)all);
	TRY(sends ? STATUS_OK : exchange_data(turn, value, turn->piece, all, false));
	pack_elements(v->heads, turn->piece, place, v->element, !sends);
	if (v->tails)
		pack_elements(v->tails, turn->piece + heads, place, v->element / 2, !sends);
	return sends ? exchange_data(turn, value, turn->piece, all, true) : STATUS_OK;
}

static enum status exchange_value(struct ordered_turn *turn, uint32_t value, const struct sum_place *place, bool sends)
{
	const struct ordered_value *v = &turn->ordered->values[value];
	if (v->unit == ORDERED_PIECES)
		return exchange_piece(turn, value, place, sends);
	TRY(exchange_data(turn, value, v->heads, v->bytes, sends));
	return v->tails ? exchange_data(turn, value, v->tails, v->bytes / 2, sends) : STATUS_OK;
}

static enum status begin_by_message(struct ordered_turn *turn, uint32_t value, const struct sum_place *place)
{
	return exchange_value(turn, value, place, false);
}

/* If no chunk adds to a value, none waits for it. All pieces of a chunk have gone when it ends. */
static enum status end_by_message(struct ordered_turn *turn, uint32_t value, const struct sum_place *place)
{
	const enum ordered_unit unit = turn->ordered->values[value].unit;
	const bool gone = (unit == ORDERED_PIECES && !place) || (unit == ORDERED_ADDITIONS && turn->made[value] == 0);
	return gone || turn->chunk + 1 == turn->ordered->chunks ? STATUS_OK : exchange_value(turn, value, place, true);
}

static bool one_process(const struct ordered *o, const struct ordered_value *v MAYBE_UNUSED) { return !o->ranks; }
static bool one_machine(const struct ordered *o, const struct ordered_value *v) { return o->shared && v->in_shared; }
static bool by_ranks(const struct ordered *o, const struct ordered_value *v MAYBE_UNUSED) { return o->ranks; }

static const struct ordered_carrier carriers[] = {
	{one_process, begin_on_board, end_on_board},
	{one_machine, begin_on_board, end_on_board},
	{by_ranks, begin_by_message, end_by_message},
};

enum status ordered_begin(struct ordered_turn *turn, uint32_t value, const struct sum_place *place)
{
	const struct ordered_value *v = &turn->ordered->values[value];
	if (v->unit == ORDERED_NEVER || turn->chunk == *turn->ordered->begun)
		return STATUS_OK;
	return v->unit == ORDERED_ADDITIONS && turn->made[value] > 0 ? STATUS_OK : v->carrier->begin(turn, value, place);
}

enum status ordered_end(struct ordered_turn *turn, uint32_t value, const struct sum_place *place)
{
	const struct ordered_value *v = &turn->ordered->values[value];
	const bool ends = v->unit == ORDERED_WHOLE || v->unit == ORDERED_PIECES;
	const enum status status = ends ? v->carrier->end(turn, value, place) : STATUS_OK;
	turn->made[value]++;
	return status;
}

/* True if an addition to VALUE is in order. What a chunk adds apart belongs to it alone. */
static bool has_turn(const struct ordered_turn *turn, uint32_t value)
{
	return !turn->status && turn->ordered->values[value].unit >= ORDERED_ADDITIONS;
}

static void begin_addition_in_order(void *context, uint32_t param, const struct sum_place *place)
{
	struct ordered_turn *turn = context;
	if (has_turn(turn, param))
		turn->status = ordered_begin(turn, param, place);
}

static void end_addition_in_order(void *context, uint32_t param, const struct sum_place *place)
{
	struct ordered_turn *turn = context;
	if (has_turn(turn, param))
		turn->status = ordered_end(turn, param, place);
}

enum status ordered_end_chunk(struct ordered_turn *turn)
{
	const struct ordered *ordered = turn->ordered;
	for (uint32_t i = 0; i < ordered->count && !turn->status; i++)
		if (ordered->values[i].unit >= ORDERED_ADDITIONS)
			turn->status = ordered->values[i].carrier->end(turn, i, NULL);
	return turn->status;
}

void ordered_begin_chunk(struct ordered_turn *turn, int64_t chunk, struct diags *diags)
{
	turn->chunk = chunk;
	turn->diags = diags;
	turn->status = STATUS_OK;
	memset(turn->made, 0, turn->ordered->count * sizeof *turn->made);
}

void ordered_fail(struct ordered *ordered, int index)
{
	const int64_t chunk = ranks_index(ordered->ranks) + (int64_t)ranks_count(ordered->ranks) * index;
	for (uint32_t i = 0; i < ordered->count; i++)
		atomic_store(board_number(ordered, chunk, i), INT64_MAX);
	wake_waiting(ordered->board);
}

enum status ordered_open(struct ordered *ordered, const struct context *context, int64_t in_shared, void **memory)
{
	const int64_t numbers = number_index(ordered, chunks_at_once(ordered), 0) * (int64_t)sizeof(int64_t);
	const int64_t board = round_up((int64_t)sizeof(struct ordered_board) + numbers, ARRAY_ALIGN);
	void *all = NULL;
	if (ordered->ranks && in_shared >= 0)
		TRY(ranks_share(ordered->ranks, board + in_shared, context->allocator, &all));
	ordered->shared = all != NULL;
	*memory = all ? (char *)all + board : NULL;
	if (!all)
		TRY_ALLOC(all = arena_alloc(context->arena, (size_t)board), context->diags);
	ordered->board = all;
	for (struct ordered_value *v = ordered->values; v < ordered->values + ordered->count; v++) {
		ordered->additions |= v->unit >= ORDERED_ADDITIONS;
		for (v->carrier = carriers; !v->carrier->applies(ordered, v); v->carrier++)
			;
	}
	return STATUS_OK;
}

void ordered_begin_sweep(struct ordered *ordered, int64_t chunks)
{
	ordered->before += ordered->chunks;
	ordered->chunks = chunks;
}

bool ordered_open_turn(struct ordered_turn *turn, struct ordered *ordered, struct arena *arena)
{
	*turn = (struct ordered_turn){
		.ordered = ordered, .arena = arena, .additions = {begin_addition_in_order, end_addition_in_order, turn}};
	turn->made = arena_array(arena, ordered->count + 1, sizeof *turn->made);
	return turn->made;
}

const struct turns *ordered_additions(const struct ordered_turn *turn)
{
	return turn->ordered->additions ? &turn->additions : NULL;
}
