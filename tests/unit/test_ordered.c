/*
 * Ordered values: workers, and ranks that send one another messages, leave what one worker leaves that runs all chunks. If
 * one fails, all waits end. Ranks are threads, whose messages lie in a list.
 */
#include "exec/ordered.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "ranks/calls.h"
#include "suite.h"

enum { CHUNKS = SANITIZED ? 40 : 100, MOST_RANKS = 3, MOST_WORKERS = 4, VALUES = 4, ROWS = 6, COLUMNS = 8, PIECES = 6 };
enum { FIRST, SECOND, PARTS, WHOLE }; /* the values */
enum { COUNT = ROWS * COLUMNS };

struct message {
	struct message *next;
	int from, to, tag;
	size_t size;
	char data[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sent = PTHREAD_COND_INITIALIZER;
static struct message *messages; /* the oldest first */
static bool failed;
static _Thread_local int this_rank;

static bool send_to(int to, int tag, const void *data, size_t size)
{
	struct message *message = malloc(sizeof *message + size), **last = &messages;
	ck_assert(tag >= 0 && tag < RANK_TAGS && to != this_rank);
	*message = (struct message){.from = this_rank, .to = to, .tag = tag, .size = size};
	memcpy(message->data, data, size);
	pthread_mutex_lock(&lock);
	while (*last)
		last = &(*last)->next;
	*last = message;
	pthread_cond_broadcast(&sent);
	pthread_mutex_unlock(&lock);
	return true;
}

static struct message **find_message(int from, int tag)
{
	struct message **at = &messages;
	while (*at && ((*at)->from != from || (*at)->to != this_rank || (*at)->tag != tag))
		at = &(*at)->next;
	return at;
}

static bool receive_from(int from, int tag, void *data, size_t size)
{
	pthread_mutex_lock(&lock);
	struct message **at;
	while (!*(at = find_message(from, tag)) && !failed)
		pthread_cond_wait(&sent, &lock);
	struct message *message = *at;
	*at = message ? message->next : NULL;
	pthread_mutex_unlock(&lock);
	if (!message)
		return false;
	ck_assert_uint_eq(message->size, size);
	memcpy(data, message->data, size);
	free(message);
	return true;
}

static bool is_good(void)
{
	pthread_mutex_lock(&lock);
	const bool good = !failed;
	pthread_mutex_unlock(&lock);
	return good;
}

static void fail_all(void)
{
	pthread_mutex_lock(&lock);
	failed = true;
	pthread_cond_broadcast(&sent);
	pthread_mutex_unlock(&lock);
}

static const struct rank_calls calls = {.send = send_to, .receive = receive_from, .good = is_good, .fail = fail_all};

/* A rank: its values and their memory. */
struct test_rank {
	struct arena arena;
	struct diags diags;
	struct ranks ranks;
	struct ordered ordered;
	struct ordered_value values[VALUES];
	uint64_t heads[VALUES][COUNT];
	uint32_t tails[VALUES][COUNT];
	int64_t begun, fail_at; /* fail_at: a chunk whose worker fails, or -1 */
};

struct test_worker {
	pthread_t thread;
	struct test_rank *rank;
	int index;
	enum status status;
};

/* Adds CHUNK to elements of VALUE at PLACE: the result depends on the order. */
static void add(struct test_rank *rank, uint32_t value, int64_t chunk, const struct sum_place *place)
{
	for (int64_t row = 0; row < place->rows; row++)
		for (int64_t at = place->first + row * place->width, end = at + place->columns; at < end; at++) {
			rank->heads[value][at] = rank->heads[value][at] * 31 + (uint64_t)(chunk + at);
			rank->tails[value][at] = rank->tails[value][at] * 33 + (uint32_t)(chunk + at);
		}
}

static void add_in_turn(struct test_rank *rank, const struct turns *turns, uint32_t value, int64_t chunk, int64_t n)
{
	static const struct sum_place all = {0, 1, COUNT, COUNT};
	const struct sum_place piece = {n / 2 * 2 * COLUMNS + n % 2 * 5, 2, n % 2 ? 3 : 5, COLUMNS};
	const struct sum_place *place = value == PARTS ? &piece : &all;
	turns->begin(turns->context, value, place);
	if (((struct ordered_turn *)turns->context)->status == STATUS_OK)
		add(rank, value, chunk, place);
	if ((chunk + n) % 5 == 0)
		sched_yield();
	turns->end(turns->context, value, place);
}

static enum status run_chunk(struct test_rank *rank, struct ordered_turn *turn, int64_t chunk)
{
	static const struct sum_place all = {0, 1, COUNT, COUNT};
	const struct turns *turns = ordered_additions(turn);
	ordered_begin_chunk(turn, chunk, &rank->diags);
	if (chunk == rank->fail_at)
		return STATUS_DATA;
	for (int64_t n = 0; n < PIECES; n++) {
		turns->begin(turns->context, WHOLE, &all); /* an addition apart, which is in no order */
		turns->end(turns->context, WHOLE, &all);
		add_in_turn(rank, turns, PARTS, chunk, n);
		if (n % 2)
			add_in_turn(rank, turns, n < PIECES / 2 ? SECOND : FIRST, chunk, n);
	}
	TRY(ordered_end_chunk(turn));
	TRY(ordered_begin(turn, WHOLE, NULL));
	add(rank, WHOLE, chunk, &all);
	return ordered_end(turn, WHOLE, NULL);
}

static void *work(void *context)
{
	struct test_worker *worker = context;
	struct test_rank *rank = worker->rank;
	const int64_t all = (int64_t)rank->ranks.count * rank->ordered.workers;
	struct arena arena;
	struct ordered_turn turn;
	this_rank = rank->ranks.index;
	arena_init(&arena, &allocator_system);
	ck_assert(ordered_open_turn(&turn, &rank->ordered, &arena));
	for (int64_t chunk = this_rank + rank->ranks.count * worker->index; chunk < CHUNKS && !worker->status; chunk += all)
		worker->status = run_chunk(rank, &turn, chunk);
	if (worker->status)
		ordered_fail(&rank->ordered, worker->index);
	if (worker->status && rank->ordered.ranks)
		ranks_fail(rank->ordered.ranks);
	arena_free(&arena);
	return NULL;
}

static void open_rank(struct test_rank *rank, int index, int count, int workers, int64_t fail_at)
{
	static const enum ordered_unit units[] = {ORDERED_ADDITIONS, ORDERED_ADDITIONS, ORDERED_PIECES, ORDERED_WHOLE};
	void *memory;
	*rank = (struct test_rank){.ranks = {.index = index, .count = count, .calls = &calls}, .fail_at = fail_at};
	arena_init(&rank->arena, &allocator_system);
	diags_init(&rank->diags, &rank->arena);
	for (int i = 0; i < VALUES; i++)
		rank->values[i] = (struct ordered_value){.unit = units[i],
		                                         .bytes = sizeof rank->heads[i],
		                                         .element = sizeof(uint64_t),
		                                         .heads = (char *)rank->heads[i],
		                                         .tails = (char *)rank->tails[i],
		                                         .in_shared = true};
	rank->ordered = (struct ordered){.ranks = count > 1 ? &rank->ranks : NULL,
	                                 .workers = workers,
	                                 .begun = &rank->begun,
	                                 .values = rank->values,
	                                 .count = VALUES};
	const struct context context = {&allocator_system, &rank->arena, &rank->diags};
	ck_assert_int_eq(ordered_open(&rank->ordered, &context, 0, &memory), STATUS_OK);
	ck_assert_ptr_null(memory);
}

/* Runs all chunks SWEEPS times by COUNT ranks of WORKERS workers. Counts the workers that end with each status. */
static void run_all(struct test_rank *ranks, int count, int workers, int sweeps, int64_t fail_at, int statuses[16])
{
	struct test_worker all[MOST_RANKS * MOST_WORKERS];
	failed = false;
	memset(statuses, 0, 16 * sizeof *statuses);
	for (int r = 0; r < count; r++)
		open_rank(&ranks[r], r, count, workers, fail_at);
	for (int sweep = 0; sweep < sweeps; sweep++) {
		for (int r = 0; r < count; r++)
			ordered_begin_sweep(&ranks[r].ordered, CHUNKS);
		for (int i = 0; i < count * workers; i++) {
			all[i] = (struct test_worker){.rank = &ranks[i % count], .index = i / count};
			ck_assert_int_eq(pthread_create(&all[i].thread, NULL, work, &all[i]), 0);
		}
		for (int i = 0; i < count * workers; i++) {
			pthread_join(all[i].thread, NULL);
			statuses[all[i].status]++;
		}
		struct test_rank *last = &ranks[(CHUNKS - 1) % count];
		for (int r = 0; r < count; r++) { /* the next sweep begins with the sums of this one */
			memmove(ranks[r].heads, last->heads, sizeof last->heads);
			memmove(ranks[r].tails, last->tails, sizeof last->tails);
		}
	}
	for (struct message *next; messages; messages = next) {
		ck_assert(failed);
		next = messages->next;
		free(messages);
	}
	for (int r = 0; r < count; r++)
		arena_free(&ranks[r].arena);
}

static struct test_rank ranks[MOST_RANKS], alone[1];

/* Test I: 1 to 3 ranks of 1 to 4 workers. */
START_TEST(order)
{
	const int count = 1 + _i / MOST_WORKERS, workers = 1 + _i % MOST_WORKERS;
	int statuses[16];
	run_all(alone, 1, 1, 2, -1, statuses);
	run_all(ranks, count, workers, 2, -1, statuses);
	ck_assert_int_eq(statuses[STATUS_OK], 2 * count * workers);
	ck_assert_mem_eq(ranks[0].heads, alone[0].heads, sizeof alone[0].heads);
	ck_assert_mem_eq(ranks[0].tails, alone[0].tails, sizeof alone[0].tails);
}
END_TEST

START_TEST(failures)
{
	const int count = 1 + _i / MOST_WORKERS, workers = 1 + _i % MOST_WORKERS;
	int statuses[16];
	for (int64_t chunk = 0; chunk < CHUNKS - MOST_RANKS * MOST_WORKERS; chunk += 1 + CHUNKS / 3) {
		run_all(ranks, count, workers, 1, chunk, statuses);
		ck_assert_int_eq(statuses[STATUS_DATA], 1);
		ck_assert_int_eq(statuses[STATUS_DATA] + statuses[STATUS_OTHER_RANK], count * workers);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ordered");
	TCase *tests = suite_make_case(suite, "ordered");
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, order, 0, MOST_RANKS * MOST_WORKERS);
	tcase_add_loop_test(tests, failures, 0, MOST_RANKS * MOST_WORKERS);
	return suite_run(suite);
}
