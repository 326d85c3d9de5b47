/* Lowering a portion of a chain: which stages are taken, and how many iterations of its own loops. */
#include "chains.h"
#include "ir/lower.h"
#include "scratch.h"
#include "suite.h"

static struct chain chain;

static struct lowered lower_portion(const struct portion *portion, enum lower_what what)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {6, 4}}};
	struct lowered lowered;
	ck_assert_int_eq(lower(&scratch, &lowered, &chain, portion, &input, what), STATUS_OK);
	return lowered;
}

static int64_t steps_of(const struct portion *portion)
{
	const int64_t steps = lower_portion(portion, LOWER_STEPS).steps;
	ck_assert_int_eq(lower_portion(portion, LOWER_UNROLLED).steps, steps);
	return steps;
}

static const enum op *ops_of(const struct portion *portion, size_t *count)
{
	static enum op ops[16];
	const struct lowered lowered = lower_portion(portion, LOWER_RUN);
	*count = 0;
	for (size_t i = 0; i < lowered.whole->instr_count; i++)
		if (lowered.whole->instrs[i].kind == INSTR_OP)
			ops[(*count)++] = lowered.whole->instrs[i].op;
	return ops;
}

START_TEST(stages_are_left_out_at_both_ends)
{
	size_t count;
	chain_make(&chain, "sin; cos; exp; tanh", &arena, &diags);
	ck_assert_int_eq(steps_of(NULL), 4);
	ck_assert_int_eq(steps_of(&(struct portion){0}), 4);
	ck_assert_int_eq(steps_of(&(struct portion){.before = 1, .after = 1}), 2);
	const enum op *ops = ops_of(&(struct portion){.before = 1, .after = 1}, &count);
	ck_assert_uint_eq(count, 2);
	ck_assert_int_eq(ops[0], OP_cos);
	ck_assert_int_eq(ops[1], OP_exp);
	ck_assert_int_eq(steps_of(&(struct portion){.before = 4}), 0);
	ck_assert_int_eq(steps_of(&(struct portion){.after = 4}), 0);
	ck_assert_int_eq(steps_of(&(struct portion){.before = 3, .after = 3}), 0);
	ck_assert_int_eq(steps_of(&(struct portion){.before = 9, .after = 9}), 0);
}
END_TEST

/* Rounded up, and not of loops within loops, blocks or defs. */
START_TEST(turns_of_outermost_loops_are_taken_in_part)
{
	const struct portion half = {.iterations = 0.5}, all = {.iterations = 1}, quarter = {.iterations = 0.25};
	chain_make(&chain, "param w: f32[5,4]\nrepeat 7 { repeat 3 { sin } }\nfor v in w { add v; for u in w { mul u } }",
	           &arena, &diags);
	ck_assert_int_eq(steps_of(NULL), 7 * 3 + 5 * 6);
	ck_assert_int_eq(steps_of(&all), 7 * 3 + 5 * 6);
	ck_assert_int_eq(steps_of(&half), 4 * 3 + 3 * 6);
	ck_assert_int_eq(steps_of(&quarter), 2 * 3 + 2 * 6);
	chain_make(&chain, "def f() { repeat 4 { sin } }\nf\nrepeat 2 { f }", &arena, &diags);
	ck_assert_int_eq(steps_of(&quarter), 2);
}
END_TEST

/* A tile is of the same portion as the whole. */
START_TEST(tiles_are_of_the_portion)
{
	const struct type input = {.dtype = DTYPE_F32, .shape = {.ndim = 2, .dim = {6, 4}}};
	const struct portion portion = {.before = 1, .iterations = 0.5};
	struct lowered tile;
	chain_make(&chain, "exp; repeat 6 { sin }; cos", &arena, &diags);
	const struct lowered whole = lower_portion(&portion, LOWER_STEPS);
	ck_assert_int_eq(lower_tile(&scratch, &tile, &whole, &input, LOWER_STEPS, 2), STATUS_OK);
	ck_assert_int_eq(tile.steps, 4);
	ck_assert_int_eq(tile.begins.shape.dim[0], 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lower");
	TCase *tcase = suite_make_case(suite, "lower");
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_test(tcase, stages_are_left_out_at_both_ends);
	tcase_add_test(tcase, turns_of_outermost_loops_are_taken_in_part);
	tcase_add_test(tcase, tiles_are_of_the_portion);
	return suite_run(suite);
}
