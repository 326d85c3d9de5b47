/* The ordered worker pipeline: order, completeness, failure at every item and step. */
#include "exec/pipeline.h"

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 300, MAX_WORKERS = 7 };

struct test {
	int64_t taken, given;
	atomic_int computed[ITEMS], given_to[ITEMS];
	int64_t at[MAX_WORKERS]; /* the item each worker holds */
	int64_t fail_item;       /* -1: none */
	int fail_step;           /* 0 take, 1 compute, 2 give */
	bool ordered;
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
	const struct pipeline pipeline = {.items = ITEMS,
	                                  .workers = workers,
	                                  .take_in_order = ordered,
	                                  .give_in_order = ordered,
	                                  .take = take,
	                                  .compute = compute,
	                                  .give = give,
	                                  .context = test,
	                                  .allocator = &allocator_system};
	return pipeline_run(&pipeline, diags);
}

START_TEST(all_items)
{
	struct arena arena;
	struct diags diags;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	struct test test = {.fail_item = -1};
	ck_assert_int_eq(run(&test, 1 + _i / 2, _i % 2, &diags), STATUS_OK);
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
		for (int step = 0; step < 3; step++) {
			arena_init(&arena, &allocator_system);
			diags_init(&diags, &arena);
			struct test test = {.fail_item = _i, .fail_step = step};
			ck_assert_int_eq(run(&test, workers, true, &diags), STATUS_DATA);
			ck_assert_int_eq(diags.errors, 1);
			ck_assert_int_eq(diags.first->offset, _i);
			ck_assert_str_eq(diags.first->file, "file");
			ck_assert_int_le(test.given, _i);
			if (workers == 1)
				ck_assert_int_eq(test.given, _i);
			arena_free(&arena);
		}
}
END_TEST

START_TEST(nothing_to_do)
{
	struct test test = {.fail_item = 0};
	const struct pipeline pipeline = {.items = 0,
	                                  .workers = 2,
	                                  .take = take,
	                                  .compute = compute,
	                                  .give = give,
	                                  .context = &test,
	                                  .allocator = &allocator_system};
	ck_assert_int_eq(pipeline_run(&pipeline, NULL), STATUS_OK);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pipeline");
	TCase *tcase = tcase_create("pipeline");
	tcase_add_loop_test(tcase, all_items, 0, 2 * MAX_WORKERS);
	tcase_add_loop_test(tcase, failures, 0, 40);
	tcase_add_test(tcase, nothing_to_do);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
