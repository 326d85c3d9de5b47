/* A team does each piece once, whatever its size; it can be made, used many times and ended. */
#include <string.h>

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
	struct team *team = team_open(members, bytes, &allocator_system);
	ck_assert_ptr_nonnull(team);
	for (int round = 0; round < 300; round++) {
		struct loop loop = {.count = round * 7 % MOST, .grain = 1 + round % 13, .bytes = bytes};
		for (int64_t i = 0; i < MOST; i++)
			done[i] = 0;
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
	team_close(NULL);
	team_close(team_open(4, 100, &allocator_system)); /* never used: nobody was started */
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
	ck_assert_ptr_null(team_open(2, 100, &empty));
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
	return suite_run(suite);
}
