/* A team does each piece once, whatever its size; it can be made, used many times and ended. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/team.h"
#include "suite.h"

enum { MOST = 1000 };
static _Atomic int done[MOST];
static _Atomic int wrong;

struct loop {
	int64_t count, grain;
	int64_t bytes;
};

static void part(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct loop *loop = context;
	wrong += begin % loop->grain != 0 || end > loop->count || end - begin > loop->grain || begin >= end;
	wrong += end - begin < loop->grain && end != loop->count;
	wrong += memory && (uintptr_t)memory % 64 != 0;
	if (memory) /* its own: what is written stays */
		memset(memory, (int)(begin % 251), (size_t)loop->bytes);
	for (int64_t i = begin; i < end; i++)
		done[i]++;
	for (int64_t i = 0; memory && i < loop->bytes; i++)
		wrong += ((unsigned char *)memory)[i] != begin % 251;
}

static void check_team(int members, int64_t bytes)
{
	struct team *team;
	ck_assert(!team_open(&team, members, bytes, &allocator_system, NULL));
	for (int round = 0; round < 300; round++) {
		struct loop loop = {.count = round * 7 % MOST, .grain = 1 + round % 13, .bytes = bytes};
		for (int64_t i = 0; i < MOST; i++)
			done[i] = 0;
		if (round % 30 == 0)
			usleep(1000); /* threads that spin for the next loop sleep by then */
		team_run(team, loop.count, loop.grain, part, &loop);
		for (int64_t i = 0; i < MOST; i++)
			ck_assert_int_eq(done[i], i < loop.count);
	}
	ck_assert_int_eq(wrong, 0);
	team_close(team);
}

START_TEST(every_piece_once)
{
	static const int members[] = {1, 2, 3, 8};
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		check_team(members[i], 1000);
		check_team(members[i], 0);
	}
}
END_TEST

START_TEST(nobody)
{
	struct loop loop = {.count = 10, .grain = 3};
	for (int64_t i = 0; i < MOST; i++)
		done[i] = 0;
	team_run(NULL, loop.count, loop.grain, part, &loop);
	for (int64_t i = 0; i < MOST; i++)
		ck_assert_int_eq(done[i], i < 10);
	struct team *team;
	ck_assert(!team_open(&team, 4, 100, &allocator_system, NULL));
	team_close(team); /* never used: nobody was started */
	ck_assert(!team_open(&team, 1, 100, &allocator_system, NULL));
	ck_assert_ptr_null(team);
	ck_assert_int_eq(team_start(NULL), 1);
	team_close(NULL);
}
END_TEST

static void *none(void *context, void *old, size_t from, size_t to)
{
	(void)context, (void)old, (void)from, (void)to;
	return NULL;
}

START_TEST(no_memory)
{
	const struct allocator empty = {.resize = none};
	struct team *team;
	struct diags diags = {0};
	ck_assert_int_eq(team_open(&team, 2, 100, &empty, &diags), STATUS_LIMIT);
	ck_assert(diags.exhausted);
	ck_assert_ptr_null(team);
}
END_TEST

/* The caller works meanwhile; what a loop has not been waited for does not outlive the team. */
START_TEST(begin_and_wait)
{
	struct team *team;
	ck_assert(!team_open(&team, 2, 0, &allocator_system, NULL));
	team_wait(team); /* for no loop at all */
	for (int round = 0; round < 300; round++) {
		struct loop loop = {.count = 1 + round % 3, .grain = 1};
		for (int64_t i = 0; i < MOST; i++)
			done[i] = 0;
		team_begin(team, loop.count, loop.grain, part, &loop);
		team_wait(team);
		team_wait(team);
		for (int64_t i = 0; i < MOST; i++)
			ck_assert_int_eq(done[i], i < loop.count);
	}
	static struct loop last = {.count = 1, .grain = 1};
	team_begin(team, last.count, last.grain, part, &last);
	team_close(team);
	ck_assert_int_le(done[0], 2);
	ck_assert_int_eq(wrong, 0);
}
END_TEST

/* Where the system refuses threads the caller is all of the team. */
START_TEST(refused)
{
	struct team *team;
	pthread_attr_t usual, none;
	ck_assert(!pthread_getattr_default_np(&usual) && !pthread_attr_init(&none));
	ck_assert(!pthread_attr_setstacksize(&none, (size_t)1 << 47));
	ck_assert(!pthread_setattr_default_np(&none));
	ck_assert(!team_open(&team, 3, 0, &allocator_system, NULL));
	const int members = team_start(team);
	ck_assert(!pthread_setattr_default_np(&usual));
	ck_assert_int_eq(members, 1);
	struct loop loop = {.count = 7, .grain = 2};
	for (int64_t i = 0; i < MOST; i++)
		done[i] = 0;
	team_run(team, loop.count, loop.grain, part, &loop);
	for (int64_t i = 0; i < MOST; i++)
		ck_assert_int_eq(done[i], i < 7);
	team_close(team);
	pthread_attr_destroy(&usual);
	pthread_attr_destroy(&none);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("team");
	TCase *tcase = suite_make_case(suite, "team");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, every_piece_once);
	tcase_add_test(tcase, nobody);
	tcase_add_test(tcase, no_memory);
	tcase_add_test(tcase, begin_and_wait);
	tcase_add_test(tcase, refused);
	return suite_run(suite);
}
