/*
 * The machine alone, which counts turns of a loop that are alike instead of running
 * them, against the machine with hooks, which runs every one: all counters are the same.
 */
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "chain/syntax.h"
#include "plan/machine.h"

static struct arena arena;
static struct diags diags;
static struct chain chain;
static struct lowered lowered;
static struct units units;
static struct step_costs costs;

static enum status nothing(void *context, const struct machine_call *call)
{
	(void)call;
	++*(int64_t *)context;
	return STATUS_OK;
}

/* What SCHEDULE takes, every step run; the calls to run a step that there were. */
static struct counters count(struct schedule *schedule, enum dtype store, int64_t *calls)
{
	const struct machine_hooks hooks = {.call = nothing, .context = calls};
	const struct machine_options options = {
		.want_value = true, .store = store, .hooks = calls ? &hooks : NULL, .allocator = &allocator_system};
	struct counters counters;
	ck_assert_int_eq(machine_run(&units, schedule, &options, &counters, &diags), STATUS_OK);
	return counters;
}

static void compare(const char *text, const char *named, enum dtype store)
{
	struct policy policy;
	struct schedule *schedule;
	int64_t calls = 0;
	ck_assert_int_eq(policy_parse(&policy, named, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(policy_schedule(&policy, &costs, &allocator_system, &schedule, &diags), STATUS_OK);
	const struct counters alone = count(schedule, store, NULL), run = count(schedule, store, &calls);
	schedule_free(schedule);
	ck_assert_int_eq(calls, run.evaluations + run.steps);
	ck_assert_msg(alone.steps == run.steps && alone.evaluations == run.evaluations, "%s, %s", text, named);
	ck_assert_msg(alone.peak_bytes == run.peak_bytes, "%s, %s: %lld bytes, not %lld", text, named,
	              (long long)alone.peak_bytes, (long long)run.peak_bytes);
	ck_assert_msg(alone.stored_bytes == run.stored_bytes && alone.checkpoints == run.checkpoints, "%s, %s", text,
	              named);
	ck_assert_msg(alone.spill_writes == run.spill_writes && alone.spill_bytes == run.spill_bytes, "%s, %s", text,
	              named);
	/* Costs of the table are whole numbers, so their sums are exact. */
	const double a[] = {alone.forward_cost, alone.backward_cost, alone.recomputed_cost};
	const double b[] = {run.forward_cost, run.backward_cost, run.recomputed_cost};
	ck_assert_msg(memcmp(a, b, sizeof a) == 0, "%s, %s: costs of %g, %g, not %g, %g", text, named, a[0], a[2], b[0],
	              b[2]);
	ck_assert_msg(alone.spill_reads == run.spill_reads && alone.spill_state == run.spill_state, "%s, %s", text, named);
	/* And whatever is counted besides: numbers of eight bytes, with nothing between them. */
	ck_assert_msg(memcmp(&alone, &run, sizeof alone) == 0, "%s, %s", text, named);
}

static void make(const char *text)
{
	struct source source = {"chain", text, strlen(text)};
	struct syntax syntax;
	const struct type input = {.dtype = DTYPE_F64, .shape = {.ndim = 2, .dim = {7, 9}}};
	memset(&chain, 0, sizeof chain);
	ck_assert_int_eq(syntax_parse(&syntax, &source, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(chain_resolve(&chain, &syntax, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(lower(&lowered, &chain, &input, LOWER_STEPS, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(units_make(&units, &lowered, &policy_save_all, &arena, &diags), STATUS_OK);
	ck_assert_int_eq(units_costs(&units, true, 0, &costs, &arena, &diags), STATUS_OK);
}

START_TEST(counted_as_run)
{
	static const char *const chains[] = {
		"repeat 200 { sin }",
		"repeat 200 { sin; gelu; mul 1.1 }",
		"exp; repeat 150 { laplacian; sin }; tanh; repeat 60 { roll 1 axis=0; cos }; sum",
		"repeat 12 { repeat 15 { sin; roll 1 axis=1 }; gelu; repeat 3 { tanh } }",
		"repeat 7 { repeat 7 { repeat 7 { sin }; laplacian }; exp }",
		"repeat 90 { add { laplacian; mul 0.1 }; sin }",
		"repeat 40 { add { roll 1 axis=0; sin; roll 1 axis=1 }; mul { cos } }",
		"add { repeat 100 { sin; roll 1 axis=0 } }; repeat 50 { tanh }",
		"name x; repeat 80 { sin; add x; roll 1 axis=0; gelu }",
		"repeat 50 { name x; sin; roll 1 axis=0; tanh; add x }",
	};
	static const char *const policies[] = {"save-all",  "every:3",   "every:17",      "sqrt",
	                                       "recursive", "revolve:1", "revolve:2",     "revolve:3",
	                                       "revolve:9", "online:3",  "disk-revolve:2"};
	for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
		arena_init(&arena, &allocator_system);
		diags_init(&diags, &arena);
		make(chains[i]);
		for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
			compare(chains[i], policies[p], DTYPE_COUNT);
			compare(chains[i], policies[p], DTYPE_F16);
		}
		arena_free(&arena);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("machine");
	TCase *tcase = tcase_create("machine");
	tcase_set_timeout(tcase, 600);
	tcase_add_test(tcase, counted_as_run);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
