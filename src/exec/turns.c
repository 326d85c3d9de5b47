/*
 * The order in which tiles add to gradients that all workers share (SUM_PLAIN and SUM_SHARED). Every tile makes the same
 * additions to a param in the same order. So if a tile makes an element once at most, its Nth addition to a param waits
 * for the Nth of the tile before. Otherwise it waits for the end of the tile before.
 *
 * Each worker shows on a board which tile it runs, and how many additions to each param it has made for that tile:
 *
 *     |moves, waiters, chunks|tile, additions by param|tile, additions by param|...
 *                             worker 0 of rank 0       worker 1 of rank 0
 *
 * Ranks of one machine share the board, and the sums. Where several ranks share the tiles but not the board, the tile
 * before belongs to another rank, which sends what it has added up (shares.c).
 *
 * Invariant: a tile waits only for the tile before, which its worker has begun or will begin without waiting for a later
 * one. So the first unfinished tile never waits. A worker that fails is past all tiles, and whoever waits for it fails
 * too. Nobody holds a lock: a process that is killed leaves the board as it is.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "exec/run_parts.h"

/* Nanoseconds that a rank sleeps before it looks whether another has failed. */
enum { SLEEP = 2000000 };

struct turn_board {
	atomic_uint moves, waiters;  /* moves: counts changes of the board, on which the waiters sleep */
	atomic_int_least64_t chunks; /* of ranks that share sums: chunks whose apart sums are added */
	atomic_int_least64_t slots[];
};

/* Returns the numbers in a slot, a multiple of those in a cache line: the ends of two slots alone may meet in one. */
static int64_t slot_size(const struct run *run)
{
	return round_up(1 + (int64_t)run->params->count, ARRAY_ALIGN / sizeof(int64_t));
}

/* Returns the slot of worker INDEX of rank RANK. */
static atomic_int_least64_t *worker_slot(const struct run *run, int64_t rank, int64_t index)
{
	return run->turns.board->slots + (rank * run->tiles->workers + index) * slot_size(run);
}

/* Returns the number of the worker's tile in all arrays of the board. */
static int64_t number_of(const struct worker *worker)
{
	const struct run *run = worker->run;
	return (run->turns.begun + worker->chunk) * run->tiles->per_chunk + worker->tile;
}

/* What a worker waits for: that *AT is past NUMBER or, if it is NUMBER, that *ADDITIONS is more than COUNT. */
struct awaited {
	const atomic_int_least64_t *at, *additions; /* ADDITIONS may be NULL */
	int64_t number, count;
};

/* *ADDITIONS may be of a later tile than *AT was. Then the tile that is awaited has ended, or the count is too small. */
static bool has_come(const struct awaited *awaited)
{
	const int64_t at = atomic_load(awaited->at);
	return at > awaited->number ||
	       (at == awaited->number && awaited->additions && atomic_load(awaited->additions) > awaited->count);
}

/* Wakes those that wait, after a change of the board. */
static void wake_waiting(struct turn_board *board)
{
	atomic_fetch_add(&board->moves, 1);
	if (atomic_load(&board->waiters) > 0)
		syscall(SYS_futex, &board->moves, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Fails with STATUS_OTHER_RANK if what is awaited does not come, since a worker or a rank has failed. */
static enum status wait_for(const struct run *run, const struct awaited *awaited)
{
	struct turn_board *board = run->turns.board;
	const struct timespec sleep = {.tv_nsec = SLEEP};
	while (!has_come(awaited)) {
		atomic_fetch_add(&board->waiters, 1);
		const unsigned moves = atomic_load(&board->moves);
		if (!has_come(awaited))
			syscall(SYS_futex, &board->moves, FUTEX_WAIT, moves, run->turns.shared ? &sleep : NULL, NULL, 0);
		atomic_fetch_sub(&board->waiters, 1);
		TRY(ranks_check(run->ranks));
	}
	return atomic_load(awaited->at) == INT64_MAX ? STATUS_OTHER_RANK : STATUS_OK;
}

enum status turns_wait_chunk(const struct run *run, int64_t chunk)
{
	const int64_t before = run->turns.begun + chunk - 1;
	return chunk == run->begun ? STATUS_OK
	                           : wait_for(run, &(struct awaited){&run->turns.board->chunks, NULL, before, 0});
}

void turns_pass_chunk(const struct run *run, int64_t chunk)
{
	atomic_store(&run->turns.board->chunks, run->turns.begun + chunk + 1);
	wake_waiting(run->turns.board);
}

static bool is_shared(const struct worker *worker, uint32_t param)
{
	const enum sum_kind kind = worker->run->gradient->job->sums.kinds[param];
	return kind == SUM_PLAIN || kind == SUM_SHARED;
}

/* Waits for the turn of the worker's next addition to PARAM. */
static enum status wait_turn(const struct worker *worker, uint32_t param)
{
	const struct run *run = worker->run;
	const int64_t chunk = worker->chunk - (worker->tile == 0), ranks = shares_rows(run) ? ranks_count(run->ranks) : 1;
	if (chunk < run->begun)
		return STATUS_OK;
	const atomic_int_least64_t *other = worker_slot(run, chunk % ranks, chunk / ranks % run->tiles->workers);
	const bool once = run->gradient->job->sums.once[param];
	const struct awaited awaited = {other, once ? other + 1 + param : NULL, number_of(worker) - 1,
	                                atomic_load(&worker->turn.additions[param])};
	return other == worker->turn.at ? STATUS_OK : wait_for(run, &awaited);
}

static void begin_turn(void *context, uint32_t param, const struct sum_place *place)
{
	struct worker *worker = context;
	if (!is_shared(worker, param) || worker->turn.lost)
		return;
	if (shares_sends(worker->run))
		shares_get_addition(worker, param, place);
	else
		worker->turn.lost = wait_turn(worker, param) != STATUS_OK;
}

static void end(void *context, uint32_t param, const struct sum_place *place)
{
	struct worker *worker = context;
	if (!is_shared(worker, param))
		return;
	if (shares_sends(worker->run))
		shares_pass_addition(worker, param, place);
	atomic_fetch_add(&worker->turn.additions[param], 1);
	wake_waiting(worker->run->turns.board);
}

enum status turns_open(struct run *run)
{
	const int64_t ranks = shares_rows(run) ? ranks_count(run->ranks) : 1, bytes = totals_shareable(run);
	const int64_t slots = ranks * run->tiles->workers * slot_size(run) * (int64_t)sizeof(int64_t);
	const int64_t board = round_up((int64_t)sizeof(struct turn_board) + slots, ARRAY_ALIGN);
	void *memory = NULL;
	if (shares_rows(run) && bytes >= 0)
		TRY(ranks_share(run->ranks, board + bytes, run->context.allocator, &memory));
	run->turns.shared = memory != NULL;
	run->turns.begun = run->turns.next = 0;
	if (memory)
		totals_share(run, (char *)memory + board);
	else
		TRY_ALLOC(memory = arena_alloc(&run->arena, (size_t)board), run->context.diags);
	run->turns.board = memory;
	return STATUS_OK;
}

void turns_open_worker(struct worker *worker)
{
	const struct run *run = worker->run;
	worker->turn.hooks = (struct turns){begin_turn, end, worker};
	worker->turn.at = worker_slot(run, shares_rows(run) ? ranks_index(run->ranks) : 0, worker->index);
	worker->turn.additions = worker->turn.at + 1;
}

void turns_begin_array(struct run *run)
{
	run->turns.begun = run->turns.next;
	run->turns.next += tiles_chunks(run->tiles);
}

const struct turns *turns_of(const struct worker *worker)
{
	return worker->run->gradient && worker->run->gradient->job->sums.ordered ? &worker->turn.hooks : NULL;
}

/* Says that the worker runs TILE from now on. Its additions are cleared first: nobody takes them for that tile's. */
static void begin_tile(struct worker *worker, int64_t tile)
{
	if (!turns_of(worker))
		return;
	for (size_t i = 0; i < worker->run->params->count; i++)
		atomic_store(&worker->turn.additions[i], 0);
	atomic_store(worker->turn.at, tile);
	wake_waiting(worker->run->turns.board);
}

void turns_begin_tile(struct worker *worker) { begin_tile(worker, number_of(worker)); }

void turns_end_tile(struct worker *worker)
{
	shares_pass_tile(worker);
	begin_tile(worker, number_of(worker) + 1);
}

void turns_fail(struct worker *worker) { begin_tile(worker, INT64_MAX); }
