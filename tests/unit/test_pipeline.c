/* The ordered worker pipeline: order, completeness, who gets what, failure at every item and step. */
#include "base/pipeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "suite.h"

enum { ITEMS = 300, MAX_WORKERS = 7 };

struct test {
	int64_t taken, given;
	atomic_int computed[ITEMS], given_to[ITEMS];
	int64_t at[MAX_WORKERS]; /* the item each worker holds */
	int64_t fail_item;       /* -1: none */
	int fail_step;           /* 0 take, 1 compute, 2 give */
	bool ordered;
	int dealt; /* round so many workers; 0: not dealt */
};

static enum status failing(const struct test *test, int step, int64_t item, struct diags *diags)
{
	if (item < test->fail_item || step != test->fail_step || test->fail_item < 0)
		return STATUS_OK;
	return diag_file(diags, STATUS_DATA, "file", item, "item %d", (int)item);
}

static enum status take(void *context, int worker, int64_t item, struct diags *diags)
{
	struct test *test = context;
	if (test->ordered)
		ck_assert_int_eq(test->taken++, item);
	if (test->dealt)
		ck_assert_int_eq(worker, item % test->dealt);
	test->at[worker] = item;
	return failing(test, 0, item, diags);
}

static enum status compute(void *context, int worker, int64_t item, struct diags *diags)
{
	struct test *test = context;
	ck_assert_int_eq(test->at[worker], item);
	atomic_fetch_add(&test->computed[item], 1);
	for (volatile int i = 0; i < (int)(item * 7919 % 501); i++) /* uneven work */
		;
	return failing(test, 1, item, diags);
}

static enum status give(void *context, int worker, int64_t item, struct diags *diags)
{
	struct test *test = context;
	ck_assert_int_eq(test->at[worker], item);
	enum status status = failing(test, 2, item, diags);
	if (status)
		return status;
	if (test->ordered)
		ck_assert_int_eq(test->given++, item);
	atomic_fetch_add(&test->given_to[item], 1);
	return STATUS_OK;
}

static enum status run(struct test *test, int workers, bool ordered, struct diags *diags)
{
	test->ordered = ordered;
	struct team *team;
	ck_assert(!team_open(&team, workers, 0, &allocator_system, diags));
	const struct pipeline pipeline = {.items = ITEMS,
	                                  .workers = workers,
	                                  .team = team,
	                                  .read_in_order = ordered,
	                                  .write_in_order = ordered,
	                                  .dealt = test->dealt > 0,
	                                  .read = take,
	                                  .compute = compute,
	                                  .write = give,
	                                  .context = test,
	                                  .allocator = &allocator_system};
	const enum status status = pipeline_run(&pipeline, diags);
	team_close(team);
	return status;
}

START_TEST(all_items)
{
	struct arena arena;
	struct diags diags;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const int workers = 1 + _i / 4;
	struct test test = {.fail_item = -1, .dealt = _i & 2 ? workers : 0};
	ck_assert_int_eq(run(&test, workers, _i & 1, &diags), STATUS_OK);
	for (int i = 0; i < ITEMS; i++) {
		ck_assert_int_eq(test.computed[i], 1);
		ck_assert_int_eq(test.given_to[i], 1);
	}
	ck_assert_int_eq(diags.errors, 0);
	arena_free(&arena);
}
END_TEST

/* From some item on all fail: the first of them is the one that is named, and what went before is given. */
START_TEST(failures)
{
	struct arena arena;
	struct diags diags;
	for (int workers = 1; workers <= 4; workers++)
		for (int way = 0; way < 6; way++) {
			arena_init(&arena, &allocator_system);
			diags_init(&diags, &arena);
			struct test test = {.fail_item = _i, .fail_step = way / 2, .dealt = way % 2 ? workers : 0};
			ck_assert_int_eq(run(&test, workers, true, &diags), STATUS_DATA);
			ck_assert_int_eq(diags.errors, 1);
			ck_assert_int_eq(diags.first->offset, _i);
			ck_assert_str_eq(diags.first->file, "file");
			ck_assert_int_le(test.given, _i);
			if (test.fail_step == 0) /* nobody reads on where one could not */
				ck_assert_int_eq(test.taken, _i + 1);
			if (workers == 1)
				ck_assert_int_eq(test.given, _i);
			arena_free(&arena);
		}
}
END_TEST

/* A thread's items are taken by others, or where they are its own the run says that it cannot be. */
START_TEST(refused)
{
	struct arena arena;
	struct diags diags;
	pthread_attr_t usual, none;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	ck_assert(!pthread_getattr_default_np(&usual) && !pthread_attr_init(&none));
	ck_assert(!pthread_attr_setstacksize(&none, (size_t)1 << 47));
	ck_assert(!pthread_setattr_default_np(&none));
	struct test test = {.fail_item = -1}, dealt = {.fail_item = -1, .dealt = 3};
	const enum status first = run(&test, 3, true, &diags);
	const int errors = diags.errors;
	const enum status last = run(&dealt, 3, true, &diags);
	ck_assert(!pthread_setattr_default_np(&usual));
	ck_assert_int_eq(first, STATUS_OK);
	ck_assert_int_eq(errors, 0);
	ck_assert_int_eq(test.given, ITEMS);
	ck_assert_int_eq(last, STATUS_LIMIT);
	ck_assert_int_eq(diags.errors, 1);
	ck_assert_str_eq(diags.first->message, "cannot start 3 workers: --threads asks for fewer");
	ck_assert_int_eq(dealt.given, 0);
	pthread_attr_destroy(&usual);
	pthread_attr_destroy(&none);
	arena_free(&arena);
}
END_TEST

START_TEST(nothing_to_do)
{
	struct test test = {.fail_item = 0};
	const struct pipeline pipeline = {.items = 0,
	                                  .workers = 2,
	                                  .read = take,
	                                  .compute = compute,
	                                  .write = give,
	                                  .context = &test,
	                                  .allocator = &allocator_system};
	ck_assert_int_eq(pipeline_run(&pipeline, NULL), STATUS_OK);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pipeline");
	TCase *tcase = suite_make_case(suite, "pipeline");
	tcase_add_loop_test(tcase, all_items, 0, 4 * MAX_WORKERS);
	tcase_add_loop_test(tcase, failures, 0, 40);
	tcase_add_test(tcase, refused);
	tcase_add_test(tcase, nothing_to_do);
	return suite_run(suite);
}
