/* Costs that are measured: for each type of input its own, and once. */
#include "measure/costs.h"

#include "chains.h"
#include "scratch.h"
#include "suite.h"

enum { MOST = 64 };

struct figures {
	size_t count;
	double forward[MOST], backward[MOST];
};

static struct figures measure(struct costs_source *source, const struct chain *chain, const struct type *input)
{
	struct lowered lowered;
	struct compiled_chain compiled;
	struct figures figures;
	ck_assert_int_eq(lower(&scratch, &lowered, chain, NULL, input, LOWER_STEPS), STATUS_OK);
	ck_assert_int_eq(compiled_make(&scratch, &compiled, &lowered, &policy_save_all, NULL, 0), STATUS_OK);
	ck_assert_int_eq(costs_of(source, &compiled, 0, &diags), STATUS_OK);
	figures.count = lowered.distinct_count;
	ck_assert_uint_le(figures.count, MOST);
	for (size_t i = 0; i < figures.count; i++) {
		figures.forward[i] = compiled.times[i].forward;
		figures.backward[i] = compiled.times[i].backward + compiled.times[i].recompute;
	}
	return figures;
}

/* The second type makes a step more than the first, which the operand has made as large by then: all but that are alike. */
START_TEST(each_type_has_its_own_and_once)
{
	static const struct type large = {DTYPE_F64, {2, {300, 1000}}}, small = {DTYPE_F64, {1, {1000}}};
	struct arena kept;
	struct chain chain = {0};
	arena_init(&kept, &allocator_system);
	chain_make(&chain, "param w; roll 1 axis=0; repeat 8 { add w; cos; sqrt }", &arena, &diags);
	chain.params[0].type = &large;
	struct costs_source source = {.name = "measured", .threads = 1, .allocator = &allocator_system, .arena = &kept};
	const struct figures first = measure(&source, &chain, &large);
	memset(arena_alloc(&kept, 10000), 0x7f, 10000); /* what a list that is too short would be read beyond */
	const struct figures second = measure(&source, &chain, &small), again = measure(&source, &chain, &large);
	ck_assert_uint_gt(second.count, first.count);
	ck_assert(second.forward[0] * 4 < first.forward[0]);
	ck_assert(second.backward[0] * 4 < first.backward[0]);
	for (size_t i = 0; i < second.count; i++)
		ck_assert(second.forward[i] + second.backward[i] < 1e12);
	ck_assert_uint_eq(again.count, first.count);
	for (size_t i = 0; i < first.count; i++)
		ck_assert(again.forward[i] == first.forward[i] && again.backward[i] == first.backward[i]);
	arena_free(&kept);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("costs");
	TCase *tcase = suite_make_case(suite, "costs");
	tcase_set_timeout(tcase, 600);
	tcase_add_checked_fixture(tcase, scratch_setup, scratch_teardown);
	tcase_add_test(tcase, each_type_has_its_own_and_once);
	return suite_run(suite);
}
