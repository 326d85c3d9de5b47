/* Hashes of recomputed states: one bit is enough, the order of a body's outs is nothing. */
#include <string.h>

#include "exec/run_state.h"
#include "scratch.h"
#include "suite.h"

static const struct type doubles = {.dtype = DTYPE_F64, .shape = {.ndim = 1, .dim = {3}}};
static struct value values[2] = {{.type = &doubles}, {.type = &doubles}};
static struct port forward[] = {{PORT_SLOT, 0, 0}, {PORT_SLOT, 2, 1}},
				   backward[] = {{PORT_SLOT, 2, 1}, {PORT_SLOT, 0, 0}};
static const struct slot_map first = {.slot = 0, .count = 1}, last = {.slot = 2, .count = 1};
static const struct slot_map live = {.slot = 2, .count = 2, .low = &first, .high = &last}; /* they differ in bit 1 */
static struct body body = {.values = values, .value_count = 2, .outs = forward, .out_count = 2};
static struct program program = {.body = &body};
static const struct step step = {.live_out = &live};
static struct compiled_step code = {.linear = {.step = &step}};
static struct machine_call call = {.program = &program, .compiled = &code, .step = 4};
static struct state_hashes recompute;

static void begin(void)
{
	scratch_setup();
	body.outs = forward;
	recompute = (struct state_hashes){.hashes = arena_array(&arena, 7, sizeof *recompute.hashes), .steps = 7};
}

START_TEST(the_same_and_one_bit)
{
	double a[] = {1, 2, 3}, b[] = {4, 5, 0.0};
	void *outs[] = {a, b};
	state_hashes_see(&recompute, &call, outs, 0);
	ck_assert_int_eq(recompute.compared, 0);
	state_hashes_see(&recompute, &call, outs, 0);
	ck_assert_int_eq(recompute.compared, 1);
	ck_assert_int_eq(recompute.differing, 0);
	b[2] = -0.0;
	state_hashes_see(&recompute, &call, outs, 0);
	ck_assert_int_eq(recompute.compared, 2);
	ck_assert_int_eq(recompute.differing, 1);
	ck_assert_int_eq(recompute.first_step, 4);
	/* Another tile is another first sweep. */
	state_hashes_begin(&recompute);
	state_hashes_see(&recompute, &call, outs, 0);
	ck_assert_int_eq(recompute.compared, 2);
	state_hashes_see(&recompute, &call, outs, 0);
	ck_assert_int_eq(recompute.differing, 1);
}
END_TEST

START_TEST(orders_and_slots)
{
	double a[] = {1, 2, 3}, b[] = {4, 5, 6};
	void *outs[] = {a, b}, *turned[] = {b, a}, *half[] = {a, NULL};
	state_hashes_see(&recompute, &call, outs, 0);
	body.outs = backward;
	state_hashes_see(&recompute, &call, turned, 0);
	ck_assert_int_eq(recompute.compared, 1);
	ck_assert_int_eq(recompute.differing, 0);
	/* Two slots that have changed places differ. */
	state_hashes_see(&recompute, &call, outs, 0);
	ck_assert_int_eq(recompute.differing, 1);
	/* A body that writes less says nothing. */
	body.outs = forward;
	state_hashes_see(&recompute, &call, half, 0);
	ck_assert_int_eq(recompute.compared, 2);
}
END_TEST

/* A tile may have fewer rows than its arrays have: what lies behind those is nothing. */
START_TEST(rows_behind_a_tile)
{
	double a[] = {1, 2, 3}, b[] = {4, 5, 6};
	void *outs[] = {a, b};
	values[0].streamed = true;
	state_hashes_see(&recompute, &call, outs, 2);
	a[2] = 9;
	state_hashes_see(&recompute, &call, outs, 2);
	ck_assert_int_eq(recompute.compared, 1);
	ck_assert_int_eq(recompute.differing, 0);
	b[2] = 9; /* it has no rows */
	state_hashes_see(&recompute, &call, outs, 2);
	ck_assert_int_eq(recompute.differing, 1);
	values[0].streamed = false;
}
END_TEST

START_TEST(counts_of_workers)
{
	struct state_hashes all = {0}, one = {.compared = 5}, two = {.compared = 3, .differing = 2, .first_step = 6};
	state_hashes_add(&all, &one);
	state_hashes_add(&all, &two);
	state_hashes_add(&all, &one);
	ck_assert_int_eq(all.compared, 13);
	ck_assert_int_eq(all.differing, 2);
	ck_assert_int_eq(all.first_step, 6);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("recompute");
	TCase *tcase = suite_make_case(suite, "recompute");
	tcase_add_checked_fixture(tcase, begin, scratch_teardown);
	tcase_add_test(tcase, the_same_and_one_bit);
	tcase_add_test(tcase, orders_and_slots);
	tcase_add_test(tcase, rows_behind_a_tile);
	tcase_add_test(tcase, counts_of_workers);
	return suite_run(suite);
}
