/*
 * The planner under a budget: against every persistent schedule of short chains,
 * never above the budget, never slower with more bytes, and in time on long ones.
 * CKPTC_NIGHTLY in the environment asks for the full numbers of random chains.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/bound.h"
#include "budget/fronts.h"
#include "failing.h"
#include "processor.h"
#include "schedule_model.h"
#include "suite.h"

static bool nightly(void) { return getenv("CKPTC_NIGHTLY") != NULL; }

enum {
	CHAINS_OF_RUNS = SANITIZED ? 1 : 6,
	LONG_CHAIN = SANITIZED ? 100 : 700,
	DISK_ROUNDS = SANITIZED ? 8 : 40,
	LONG_RUN = SANITIZED ? SUMMED + 100 : 26000, /* bytes of fewer steps would be summed at each evaluation */
};

struct plan {
	enum status status;
	int64_t least; /* that an error names, or -1 */
	int64_t peak, evaluations;
	double time, seconds, gap; /* gap: percent of the forward time */
	bool exact;
};

static struct plan plan_within(const struct step_costs *costs, int64_t bytes)
{
	struct arena arena;
	struct diags diags;
	struct budget_goal goal = {.bytes = bytes};
	struct plan plan = {.least = -1};
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const double begun = processor_seconds();
	const struct context context = {&allocator_system, &arena, &diags};
	plan.status = budget_schedule(&context, costs, NULL, false, &goal);
	plan.seconds = processor_seconds() - begun;
	if (plan.status) {
		const char *at = strstr(diags.last->message, "the least that works is ");
		ck_assert_int_eq(plan.status, STATUS_LIMIT);
		ck_assert_msg(at != NULL, "%s", diags.last->message);
		plan.least = strtoll(at + strlen("the least that works is "), NULL, 10);
	} else {
		struct verdict verdict = verdict_of(goal.schedule, costs);
		ck_assert_msg(!verdict.wrong, "%s", verdict.wrong);
		if (verdict.peak < 0) /* too long to be summed */
			verdict.peak = walk_of(goal.schedule, costs, NULL).counters.peak_bytes;
		ck_assert_msg(verdict.peak <= bytes, "%lld bytes in %lld", (long long)verdict.peak, (long long)bytes);
		ck_assert_int_eq(verdict.checkpoints, schedule_slots(goal.schedule));
		plan.exact = goal.exact;
		plan.gap = goal.counters.bounded ? goal.counters.gap_percent : -1;
		plan.peak = verdict.peak;
		plan.evaluations = verdict.evaluations;
		plan.time = verdict.time;
	}
	schedule_free(goal.schedule);
	arena_free(&arena);
	return plan;
}

/* The bound for BYTES, with the backward passes: no schedule takes less time. */
static double bound_of(const struct step_costs *costs, int64_t bytes)
{
	double time;
	const struct bound_limits limits = {64 << 20, {FRONTS_COMPARED_MOST, FRONTS_HELD_MOST}};
	ck_assert(budget_bound(costs, bytes - costs->fixed, limits, &allocator_system, &time));
	for (size_t i = 0; i < costs->run_count; i++)
		time += costs->runs[i].cost.backward * (double)costs->runs[i].count;
	return time;
}

/* Every persistent schedule: an odometer over the choices that a recursion asks for. */
static struct {
	int digits[256], radix[256], count, at;
} odometer;

static int choose(int among)
{
	if (odometer.at == odometer.count)
		odometer.digits[odometer.count++] = 0;
	odometer.radix[odometer.at] = among;
	return odometer.digits[odometer.at++];
}

static bool advance_odometer(void)
{
	odometer.count = odometer.at;
	while (odometer.count > 0 && odometer.digits[odometer.count - 1] + 1 >= odometer.radix[odometer.count - 1])
		odometer.count--;
	odometer.at = 0;
	if (odometer.count == 0)
		return false;
	odometer.digits[odometer.count - 1]++;
	return true;
}

static void any_schedule(struct action_list *list, int64_t begin, int64_t end, int64_t slot)
{
	int64_t ahead = end - begin > 1 ? choose((int)(end - begin)) : 0;
	if (ahead == 0) {
		if (slot >= 0) {
			action_list_push(list, ACT_LOAD, begin, begin, slot);
			action_list_push(list, ACT_DROP, begin, begin, slot);
			list->used--;
		}
		action_list_push(list, ACT_RECORD, begin, begin + 1, 0);
		if (end - begin > 1)
			any_schedule(list, begin + 1, end, -1);
		action_list_push(list, ACT_BACKWARD, begin, begin + 1, 0);
		return;
	}
	if (slot < 0) {
		slot = list->used++;
		list->slots = list->used > list->slots ? list->used : list->slots;
		action_list_push(list, ACT_SAVE, begin, begin, slot);
	} else {
		action_list_push(list, ACT_LOAD, begin, begin, slot);
	}
	action_list_push(list, ACT_FORWARD, begin, begin + ahead, 0);
	any_schedule(list, begin + ahead, end, -1);
	any_schedule(list, begin, begin + ahead, slot);
}

enum { SCHEDULES = 20000 };
static struct verdict outcomes[SCHEDULES];

static int all_schedules(const struct step_costs *costs)
{
	int count = 0;
	odometer.count = odometer.at = 0;
	do {
		struct action_list list = {.allocator = &allocator_system};
		any_schedule(&list, 0, costs->steps, -1);
		struct schedule *schedule = action_list_schedule(&list);
		ck_assert_int_lt(count, SCHEDULES);
		outcomes[count++] = verdict_of(schedule, costs);
		schedule_free(schedule);
	} while (advance_odometer());
	return count;
}

/* The schedule that fronts lead to takes BEST time or, if they are thin, more. They never claim more than BEST. */
static void compare_fronts(const struct step_costs *costs, int64_t bytes, double best, int64_t width)
{
	const struct fronts_limits limits = {FRONTS_COMPARED_MOST, FRONTS_HELD_MOST};
	struct fronts f;
	double extra, backward = 0;
	ck_assert(fronts_begin(&f, costs, bytes - costs->fixed, limits, &allocator_system));
	for (size_t i = 0; i < costs->run_count; i++)
		backward += costs->runs[i].cost.backward * (double)costs->runs[i].count;
	const double once = f.ends[f.count] + backward;
	ck_assert_int_eq(fronts_solve(&f, 1e9, width), FRONTS_SOLVED);
	ck_assert_msg(once + f.least < best + 1e-9, "fronts of %lld points claim %g, not %g", (long long)width,
	              once + f.least, best);
	ck_assert(f.thinned || once + f.least > best - 1e-9);
	struct schedule *schedule = fronts_extract(&f, f.bytes, &extra);
	const struct verdict verdict = verdict_of(schedule, costs);
	ck_assert_msg(!verdict.wrong && verdict.peak <= bytes, "%s", verdict.wrong ? verdict.wrong : "too large");
	ck_assert(verdict.time < once + extra + 1e-9 && verdict.time > once + extra - 1e-9);
	ck_assert(f.thinned || verdict.time < best + 1e-9);
	schedule_free(schedule);
	fronts_free(&f);
}

/* Each run of the costs is one step, of up to seven. */
static void compare_with_all(const struct step_costs *costs)
{
	int count = all_schedules(costs);
	int64_t least = INT64_MAX, most = 0;
	for (int i = 0; i < count; i++) {
		least = outcomes[i].peak < least ? outcomes[i].peak : least;
		most = outcomes[i].peak > most ? outcomes[i].peak : most;
	}
	if (least > 1)
		ck_assert_int_eq(plan_within(costs, least - 1).least, least);
	for (int64_t bytes = least > 0 ? least : 1; bytes <= most + 1; bytes += 1 + (most - least) / 50) {
		double best = 1e300;
		for (int i = 0; i < count; i++)
			if (outcomes[i].peak <= bytes && outcomes[i].time < best)
				best = outcomes[i].time;
		struct plan plan = plan_within(costs, bytes);
		ck_assert_int_eq(plan.status, STATUS_OK);
		ck_assert_msg(plan.exact && plan.gap <= 0, "%g %% in %lld bytes", plan.gap, (long long)bytes);
		compare_fronts(costs, bytes, best, 1 + bytes % 4);
		compare_fronts(costs, bytes, best, 1000);
		ck_assert_msg(bound_of(costs, bytes) < best + 1e-9, "a bound above %g in %lld bytes", best, (long long)bytes);
		ck_assert_msg(plan.time < best + 1e-9 && plan.time > best - 1e-9, "%g in %lld bytes, not %g", plan.time,
		              (long long)bytes, best);
	}
}

START_TEST(as_good_as_any)
{
	uint64_t seed = 11;
	int rounds = nightly() ? 5000 : 250;
	for (int i = 0; i < rounds; i++) {
		struct step_run store[7];
		struct step_costs costs = random_costs(&seed, store, i % 4 ? 6 : 7, 1, draw(&seed, 2) ? 1 : 16);
		compare_with_all(&costs);
	}
}
END_TEST

/* Measured bytes have no common unit. */
START_TEST(measured_steps_as_good_as_any)
{
	uint64_t seed = 14;
	for (int i = 0; i < (nightly() ? 2000 : 60); i++) {
		struct step_run store[7];
		struct step_costs costs = random_costs(&seed, store, 7, 1, 1 + draw(&seed, 1000));
		for (size_t k = 0; k < costs.run_count; k++) {
			struct step_cost *cost = &store[k].cost;
			cost->forward += 1e-3 * (double)draw(&seed, 1000);
			cost->state += draw(&seed, 1000);
			cost->residual += draw(&seed, 100000) + (cost->keeps_output ? 1000 : 0);
			cost->forward_temporary = draw(&seed, 20000);
			cost->record_temporary = draw(&seed, 20000);
			cost->backward_temporary = draw(&seed, 20000);
		}
		compare_with_all(&costs);
	}
}
END_TEST

START_TEST(equal_steps_as_good_as_any)
{
	uint64_t seed = 12;
	for (int i = 0; i < 60; i++) {
		struct step_run store[1];
		struct step_costs costs = random_costs(&seed, store, 1, 7, 1);
		costs.output = store[0].cost.state;
		compare_with_all(&costs);
	}
}
END_TEST

START_TEST(save_all_where_it_fits)
{
	uint64_t seed = 13;
	for (int i = 0; i < 200; i++) {
		struct step_run store[9];
		struct step_costs costs = random_costs(&seed, store, 9, 30, 1000);
		struct schedule *all = schedule_of("save-all", 0, &costs);
		struct verdict verdict = verdict_of(all, &costs);
		schedule_free(all);
		ck_assert_int_eq(plan_within(&costs, verdict.peak > 0 ? verdict.peak : 1).evaluations, costs.steps);
	}
}
END_TEST

/*
 * Random chains: within the budget, the least that is named works, more bytes are never
 * worse, and what a plan takes is budget enough for it.
 */
static void random_chains(uint64_t seed, int rounds, int64_t runs, int64_t longest, int64_t budgets)
{
	struct step_run *store = calloc((size_t)runs, sizeof *store);
	for (int i = 0; i < rounds; i++) {
		struct step_costs costs = random_costs(&seed, store, runs, longest, 1);
		/* Sizes without a common quantum. */
		for (size_t r = 0; r < costs.run_count; r++) {
			store[r].cost.state = 1 + draw(&seed, 1000000);
			store[r].cost.residual = draw(&seed, 1500000) + (store[r].cost.keeps_output ? 1000000 : 0);
		}
		struct schedule *all = schedule_of("save-all", 0, &costs);
		int64_t whole = verdict_of(all, &costs).peak;
		schedule_free(all);
		int64_t least = plan_within(&costs, 1).least;
		ck_assert_int_ge(least, 1);
		struct plan before = plan_within(&costs, least);
		ck_assert_int_eq(before.status, STATUS_OK);
		for (int64_t k = 1; k <= budgets; k++) {
			int64_t bytes = least + (whole - least) * k / budgets;
			struct plan plan = plan_within(&costs, bytes);
			ck_assert_int_eq(plan.status, STATUS_OK);
			ck_assert_msg(plan.time <= before.time * (1 + 1e-9), "%lld steps: %g in %lld bytes, %g in fewer",
			              (long long)costs.steps, plan.time, (long long)bytes, before.time);
			struct plan own = plan_within(&costs, plan.peak);
			ck_assert_msg(own.status == STATUS_OK && own.time <= plan.time * (1 + 1e-9),
			              "%lld steps: %g in %lld bytes, %g in %lld, of which it takes these", (long long)costs.steps,
			              own.time, (long long)plan.peak, plan.time, (long long)bytes);
			before = plan;
		}
		ck_assert_int_eq(before.evaluations, costs.steps);
	}
	free(store);
}

START_TEST(short_chains) { random_chains(21, nightly() ? 10000 : 60, 12, 1, 9); }
END_TEST
START_TEST(chains_of_runs) { random_chains(22, nightly() ? 500 : CHAINS_OF_RUNS, 8, 12, 9); }
END_TEST
START_TEST(long_chains) { random_chains(23, nightly() ? 50 : 1, LONG_CHAIN, 2, 4); }
END_TEST

static void compare_schedules(struct schedule *a, struct schedule *b)
{
	struct action x, y;
	bool more, other;
	do {
		more = schedule_next(a, &x);
		other = schedule_next(b, &y);
		ck_assert_int_eq(more, other);
		if (!more)
			return;
		ck_assert_int_eq(x.kind, y.kind);
		ck_assert_int_eq(x.begin, y.begin);
		ck_assert_int_eq(x.end, y.end);
		if (!action_is_on_steps(x.kind))
			ck_assert_int_eq(x.slot, y.slot);
	} while (more);
}

/* What a budget is given does not depend on the others that are asked for with it, nor on their order. */
static void compare_with_single(const struct step_costs *costs, struct budget_goal *goals, size_t count)
{
	struct arena arena;
	struct diags diags;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	ck_assert_int_eq(budget_search(&context, costs, NULL, goals, count), STATUS_OK);
	for (size_t i = 0; i < count; i++) {
		struct budget_goal one = {.bytes = goals[i].bytes};
		ck_assert_int_eq(budget_search(&context, costs, NULL, &one, 1), STATUS_OK);
		ck_assert_int_eq(one.schedule == NULL, goals[i].schedule == NULL);
		if (one.schedule) {
			ck_assert_int_le(verdict_of(one.schedule, costs).peak, one.bytes);
			ck_assert_int_eq(one.family.kind, goals[i].family.kind);
			ck_assert(one.time >= goals[i].time && one.time <= goals[i].time);
			compare_schedules(one.schedule, goals[i].schedule);
		} else {
			ck_assert_int_eq(one.least, goals[i].least);
		}
		schedule_free(one.schedule);
		schedule_free(goals[i].schedule);
	}
	arena_free(&arena);
}

START_TEST(many_budgets_at_once)
{
	static const int64_t quanta[] = {1, 7, 1000};
	uint64_t seed = 25;
	const int rounds = nightly() ? 300 : SANITIZED ? 3 : 24;
	for (int i = 0; i < rounds; i++) {
		struct step_run store[60];
		struct step_costs costs = random_costs(&seed, store, i % 6 ? 12 : 60, i % 4 ? 1 : 9, quanta[i % 3]);
		costs.fixed = draw(&seed, 5000);
		struct schedule *all = schedule_of("save-all", 0, &costs);
		int64_t whole = verdict_of(all, &costs).peak - costs.fixed;
		schedule_free(all);
		struct budget_goal goals[12];
		for (size_t k = 0; k < 12; k++)
			goals[k].bytes = costs.fixed + (whole > 0 ? draw(&seed, whole + whole / 9 + 1) : 0);
		goals[3].bytes = goals[9].bytes;
		goals[5].bytes = draw(&seed, 5000);
		compare_with_single(&costs, goals, 12);
	}
}
END_TEST

START_TEST(memory_short)
{
	uint64_t seed = 26;
	struct step_run store[9];
	struct step_costs costs = random_costs(&seed, store, 9, 2, 1000);
	struct arena arena;
	enum status status = STATUS_LIMIT;
	arena_init(&arena, &allocator_system);
	for (size_t n = 1; status == STATUS_LIMIT; n++) {
		struct failing memory = {.fail_at = n, .on = true};
		const struct allocator allocator = failing_allocator(&memory);
		struct diags diags;
		diags_init(&diags, &arena);
		struct budget_goal goals[] = {{.bytes = 1}, {.bytes = 20000}, {.bytes = 40000}};
		status = budget_search(&(struct context){&allocator, &arena, &diags}, &costs, NULL, goals, 3);
		for (size_t i = 0; i < 3; i++) {
			ck_assert(status == STATUS_OK || !goals[i].schedule);
			schedule_free(goals[i].schedule);
		}
		ck_assert_uint_eq(memory.live, 0);
	}
	ck_assert_int_eq(status, STATUS_OK);
	arena_free(&arena);
}
END_TEST

/* As good as revolve, every and sqrt at the bytes that those take. */
START_TEST(no_policy_is_better)
{
	static const char *const others[] = {"revolve:2", "revolve:3", "revolve:5", "revolve:12", "every:3", "every:8",
	                                     "sqrt",      "recursive", "online:2",  "online:6",   "every:5", "save-all"};
	uint64_t seed = 31;
	for (int i = 0; i < (SANITIZED ? 4 : 12); i++) {
		struct step_run store[60];
		struct step_costs costs = random_costs(&seed, store, 60, 2, 64);
		for (size_t p = 0; p < sizeof others / sizeof *others; p++) {
			struct schedule *other = schedule_of(others[p], 0, &costs);
			struct verdict verdict = verdict_of(other, &costs);
			schedule_free(other);
			struct plan plan = plan_within(&costs, verdict.peak);
			ck_assert_msg(plan.time <= verdict.time * (1 + 1e-6), "%s: %g, budget %g", others[p], verdict.time,
			              plan.time);
		}
	}
}
END_TEST

/* One step has nearly all bytes. So all quanta are too coarse for the other steps, and every:200 takes the fewest bytes. */
START_TEST(one_step_of_most_bytes)
{
	struct step_run store[2] = {
		{.cost = {.forward = 1, .record = 1, .backward = 1, .state = 64, .residual = 64}, .count = 200},
		{.cost = {.forward = 1, .record = 1, .backward = 1, .state = 64, .residual = 10000000}, .count = 1},
	};
	struct step_costs costs = {.runs = store, .run_count = 2, .steps = 201, .output = 64};
	struct schedule *every = schedule_of("every:200", 0, &costs);
	const struct verdict verdict = verdict_of(every, &costs);
	schedule_free(every);
	ck_assert_int_le(plan_within(&costs, verdict.peak).evaluations, verdict.evaluations);
}
END_TEST

/* A larger limit on disk, or none, never takes more time, whatever the states and residuals that are then in memory. */
START_TEST(more_disk_is_no_slower)
{
	uint64_t seed = 61;
	for (int round = 0; round < (nightly() ? 300 : DISK_ROUNDS); round++) {
		struct step_run store[24];
		struct arena arena;
		struct diags diags;
		const int64_t steps = 4 + draw(&seed, 20);
		struct step_costs costs = {.runs = store, .run_count = (size_t)steps, .steps = steps, .output = 4};
		arena_init(&arena, &allocator_system);
		diags_init(&diags, &arena);
		const struct context context = {&allocator_system, &arena, &diags};
		for (int64_t i = 0; i < steps; i++)
			store[i] = (struct step_run){.cost = {.forward = (double)(1 + draw(&seed, 9)),
			                                      .record = (double)draw(&seed, 10),
			                                      .state = 1 + draw(&seed, 9),
			                                      .residual = draw(&seed, 9)},
			                             .count = 1};
		costs.spill_write = (double)draw(&seed, 4);
		costs.spill_read = (double)draw(&seed, 4);
		const int64_t bytes = 25 + draw(&seed, 30);
		double before = 1e300;
		for (int64_t limit = 0; limit < 209; limit += 9) {
			const struct disk_offer offer = {.costs = &costs, .disk_bytes = limit, .limited = limit < 198};
			struct budget_goal goal = {.bytes = bytes};
			const enum status status = budget_schedule(&context, &costs, &offer, false, &goal);
			ck_assert(!status || before > 1e299);
			if (status)
				continue;
			const struct verdict verdict = verdict_of(goal.schedule, &costs);
			ck_assert_msg(!verdict.wrong && verdict.peak <= bytes, "%s", verdict.wrong ? verdict.wrong : "too large");
			ck_assert_msg(verdict.time <= before + 1e-6, "%lld steps, %lld bytes, limit %lld: %g after %g",
			              (long long)steps, (long long)bytes, (long long)limit, verdict.time, before);
			before = verdict.time;
			schedule_free(goal.schedule);
		}
		arena_free(&arena);
	}
}
END_TEST

/* Runs of equal steps, some of a single one. The first is a step of most bytes among equal ones. */
START_TEST(no_policy_is_better_over_runs)
{
	static const char *const others[] = {"every:100", "revolve:12", "sqrt", "revolve:300"};
	uint64_t seed = 62;
	for (int round = 0; round < (nightly() ? 40 : SANITIZED ? 1 : 2); round++) {
		struct step_run store[5];
		struct step_costs costs = {.runs = store, .run_count = 2 + (size_t)draw(&seed, 4), .output = 8};
		for (size_t i = 0; i < costs.run_count; i++) {
			store[i] = (struct step_run){.cost = {.forward = (double)(1 + draw(&seed, 9)),
			                                      .record = (double)draw(&seed, 10),
			                                      .state = 1 + draw(&seed, 100),
			                                      .residual = draw(&seed, 2) * draw(&seed, 300),
			                                      .keeps_input = draw(&seed, 2)},
			                             .count = draw(&seed, 3) ? LONG_RUN + draw(&seed, LONG_RUN / 2) : 1};
			if (round == 0)
				store[i] = (struct step_run){
					.cost = {.forward = 1, .record = 1, .state = i == 1 ? 800 : 8, .residual = i == 1 ? 800 : 8},
					.count = i == 1 ? 1 : LONG_RUN};
			costs.steps += store[i].count;
		}
		for (size_t p = round % 2; p < sizeof others / sizeof *others; p += nightly() ? 1 : 2) {
			struct schedule *other = schedule_of(others[p], 0, &costs);
			const struct walked walked = walk_of(other, &costs, NULL);
			schedule_free(other);
			const struct plan plan = plan_within(&costs, walked.counters.peak_bytes);
			ck_assert_msg(plan.time <= walked.time * (1 + 1e-6), "%s: %g, budget %g", others[p], walked.time,
			              plan.time);
		}
	}
}
END_TEST

START_TEST(long_equal_chain)
{
	static const int64_t budgets[] = {60000, 400000, 4000000, 40000000, 400000000, 4000000000};
	struct step_run run = {.cost = {.forward = 1,
	                                .record = 1,
	                                .backward = 2,
	                                .state = 4096,
	                                .residual = 4096,
	                                .forward_temporary = 64,
	                                .record_temporary = 64,
	                                .backward_temporary = 64},
	                       .count = 100000};
	struct step_costs costs = {.runs = &run, .run_count = 1, .steps = run.count, .output = 4096, .fixed = 1000};
	double before = 1e300;
	for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
		struct plan plan = plan_within(&costs, budgets[i]);
		ck_assert_int_eq(plan.status, STATUS_OK);
		ck_assert(plan.time <= before);
		ck_assert_msg(plan.seconds < 0.1, "%g s", plan.seconds); /* some milliseconds */
		before = plan.time;
	}
	/* An odd step at the end. */
	struct step_run two[2] = {run, {.cost = {.forward = 3, .backward = 1, .state = 4096, .residual = 10}, .count = 1}};
	costs = (struct step_costs){.runs = two, .run_count = 2, .steps = run.count + 1, .output = 4, .fixed = 1000};
	ck_assert_int_eq(plan_within(&costs, 4000000).status, STATUS_OK);
	/* In the least bytes the evaluations, which are walked, grow with the square of the steps: too many to be summed. */
	run.count = nightly() ? 100000 : SUMMED + 900;
	costs = (struct step_costs){.runs = &run, .run_count = 1, .steps = run.count, .output = 4096, .fixed = 1000};
	ck_assert_int_eq(plan_within(&costs, plan_within(&costs, 1).least).status, STATUS_OK);
}
END_TEST

/*
 * The recurrence at the head of budget/persistent.c for equal steps, with every k and every number of bytes: the
 * least evaluations of N steps in M bytes, if they end the chain (LAST) and if the state before them is free (PIN).
 */
struct plain {
	struct step_cost cost;
	int64_t bytes;
	double *memo; /* 1 more; 0: not known yet */
};

static const double impossible = 1e15;

static double plain_time(struct plain *p, int64_t n, int64_t m, bool pin, bool last)
{
	const struct step_cost *c = &p->cost;
	if (m < 0)
		return impossible;
	double *known = &p->memo[((n * (p->bytes + 1) + m) * 2 + pin) * 2 + last], best = impossible;
	if (*known > 0)
		return *known - 1;
	const int64_t state = pin ? 0 : c->state, cotangent = last ? 0 : c->state, input = c->keeps_input ? state : 0;
	const int64_t record = state + c->residual + (c->keeps_output ? 0 : c->state) + c->record_temporary + cotangent;
	const int64_t backward = input + c->residual + 2 * c->state + c->backward_temporary;
	if (m >= record && m >= backward)
		best = n == 1 ? c->record : c->forward + plain_time(p, n - 1, m - c->residual - input, c->keeps_output, last);
	for (int64_t k = 1; k < n; k++) {
		if (m < state + (k > 1 ? 2 : 1) * c->state + c->forward_temporary + cotangent)
			break;
		const double right = plain_time(p, n - k, m - state, false, last);
		const double left = plain_time(p, k, m, pin, false);
		best = fmin(best, (double)k * c->forward + right + left);
	}
	best = fmin(best, impossible);
	*known = best + 1;
	return best;
}

static void compare_with_recurrence(const struct step_cost *cost, int64_t steps, int64_t bytes)
{
	struct step_run run = {*cost, steps};
	struct step_costs costs = {.runs = &run, .run_count = 1, .steps = steps, .output = cost->state};
	struct plain plain = {*cost, bytes, calloc((size_t)((steps + 1) * (bytes + 1) * 4), sizeof *plain.memo)};
	const double best = plain_time(&plain, steps, bytes, false, true);
	const bool possible = best < impossible;
	const struct plan plan = plan_within(&costs, bytes);
	ck_assert_msg(possible ? plan.status == STATUS_OK && fabs(plan.time - best) < 1e-6 : plan.status == STATUS_LIMIT,
	              "%lld steps of %lld and %lld bytes, %g to record, in %lld: %g, not %g", (long long)steps,
	              (long long)cost->state, (long long)cost->residual, cost->record, (long long)bytes, plan.time, best);
	ck_assert(!possible || (plan.exact && bound_of(&costs, bytes) < best + 1e-6));
	if (!possible && steps > 3) { /* then what is named is the least */
		ck_assert_int_gt(plan.least, bytes);
		ck_assert_int_eq(plan_within(&costs, plan.least).status, STATUS_OK);
		ck_assert_int_eq(plan_within(&costs, plan.least - 1).status, STATUS_LIMIT);
	}
	free(plain.memo);
}

START_TEST(equal_steps_are_exact)
{
	uint64_t seed = 33;
	const int rounds = nightly() ? 20000 : 1500;
	for (int i = 0; i < rounds; i++) {
		const int64_t steps = 1 + draw(&seed, i % 50 ? 30 : 120);
		struct step_cost cost = {.forward = 12, .record = 12, .state = draw(&seed, 7)};
		if (draw(&seed, 2))
			cost.record = draw(&seed, 3) ? (double)draw(&seed, 20) : 0;
		cost.keeps_output = draw(&seed, 10) < 6;
		cost.residual = draw(&seed, 4) ? draw(&seed, 4 * cost.state + 4) : 0;
		cost.residual += cost.keeps_output ? cost.state : 0;
		cost.keeps_input = draw(&seed, 3) == 0;
		if (draw(&seed, 2)) {
			cost.forward_temporary = draw(&seed, 6);
			cost.record_temporary = draw(&seed, 6);
			cost.backward_temporary = draw(&seed, 6);
		}
		const int64_t held = (steps < 14 ? steps : 14) * (cost.state + cost.residual) / 2;
		compare_with_recurrence(&cost, steps, 2 * cost.state + draw(&seed, held + cost.state + 8));
	}
}
END_TEST

/* The evaluations are those of the plain recurrence, which takes a minute for them. */
START_TEST(ten_thousand_equal_steps)
{
	static const struct {
		int64_t state, residual, bytes, evaluations;
		bool keeps_input;
	} cases[] = {{1, 1, 8, 165725, true}, {1, 1, 64, 28275, true}, {2, 3, 40, 46106, false}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct step_run run = {.cost = {.forward = 1,
		                                .record = 1,
		                                .state = cases[i].state,
		                                .residual = cases[i].residual,
		                                .keeps_input = cases[i].keeps_input,
		                                .keeps_output = true},
		                       .count = 10000};
		struct step_costs costs = {.runs = &run, .run_count = 1, .steps = run.count, .output = run.cost.state};
		struct plan plan = plan_within(&costs, cases[i].bytes);
		ck_assert_int_eq(plan.evaluations, cases[i].evaluations);
		if (nightly()) /* 0.1 to 0.2 s */
			ck_assert_msg(plan.seconds < 1, "%g s", plan.seconds);
	}
}
END_TEST

/* The same where recording a step costs less than advancing over it, and for more steps. */
START_TEST(many_equal_steps_that_record_for_less)
{
	static const struct {
		int64_t steps, bytes;
		double record, time;
	} cases[] = {{10000, 500000, 0, 15003},
	             {10000, 500000, 0.5, 17501},
	             {10000, 900000, 0.9, 16139.5},
	             {20000, 900000, 0.37, 34331.52}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct step_run run = {.cost = {.forward = 1, .record = cases[i].record, .state = 100, .residual = 233},
		                       .count = cases[i].steps};
		struct step_costs costs = {.runs = &run, .run_count = 1, .steps = run.count, .output = 100};
		struct plan plan = plan_within(&costs, cases[i].bytes);
		ck_assert_msg(plan.exact && fabs(plan.time - cases[i].time) < 1e-6 * plan.time, "%.9g", plan.time);
	}
}
END_TEST

/* 64 unlike steps are planned exactly, with any budget. */
START_TEST(sixty_four_unequal_steps)
{
	uint64_t seed = 44;
	static struct step_run store[64];
	struct step_costs costs = {.runs = store, .run_count = 64, .steps = 64, .output = 77, .fixed = 1000};
	for (int i = 0; i < 64; i++) {
		const int64_t state = 1 + draw(&seed, 1000000);
		const double forward = 1 + 0.01 * (double)draw(&seed, 1000);
		store[i] = (struct step_run){.cost = {.forward = forward,
		                                      .backward = 3,
		                                      .record = draw(&seed, 3) ? forward : 0.1,
		                                      .state = state,
		                                      .residual = draw(&seed, 3000000),
		                                      .forward_temporary = draw(&seed, state),
		                                      .record_temporary = draw(&seed, state),
		                                      .backward_temporary = draw(&seed, state),
		                                      .keeps_input = draw(&seed, 2)},
		                             .count = 1};
	}
	const int64_t least = plan_within(&costs, 1).least;
	for (int64_t k = SANITIZED ? 8 : 0; k < 10; k++) {
		const struct plan plan = plan_within(&costs, least + (80000000 - least) * k / 10);
		ck_assert_int_eq(plan.status, STATUS_OK);
		ck_assert_msg(plan.exact && plan.gap <= 0, "%g %%", plan.gap);
		if (nightly()) /* 0.02 to 0.2 s */
			ck_assert_msg(plan.seconds < 1, "%g s", plan.seconds);
	}
}
END_TEST

START_TEST(two_thousand_unequal_steps)
{
	uint64_t seed = 41;
	static struct step_run store[2000];
	struct step_costs costs = {.runs = store, .run_count = 2000, .steps = 2000, .output = 4, .fixed = 1000};
	for (int i = 0; i < 2000; i++)
		store[i] = (struct step_run){.cost = {.forward = 1 + 0.01 * (double)draw(&seed, 1000),
		                                      .backward = 3,
		                                      .state = 1000 + draw(&seed, 100000),
		                                      .residual = draw(&seed, 200000),
		                                      .keeps_input = draw(&seed, 2)},
		                             .count = 1};
	for (int i = 0; i < 2000; i++)
		store[i].cost.record = store[i].cost.forward;
	struct plan plan = plan_within(&costs, 20000000);
	ck_assert_int_eq(plan.status, STATUS_OK);
	ck_assert_int_ge(plan.peak, 19000000);
	ck_assert_msg(!plan.exact && plan.gap > 0 && plan.gap < 15, "%g %%", plan.gap);
	/* About 0.9 s of the 2 that are allowed, where nothing instruments the code. */
	if (nightly())
		ck_assert_msg(plan.seconds < 2, "%g s", plan.seconds);
}
END_TEST

/* The most bytes that a search takes for one GOAL over COSTS. */
static size_t bytes_to_search(const struct step_costs *costs, const struct budget_judge *judge,
                              struct budget_goal *goal)
{
	struct failing memory = {0};
	const struct allocator allocator = failing_allocator(&memory);
	struct arena arena;
	struct diags diags;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	ck_assert_int_eq(budget_search(&(struct context){&allocator, &arena, &diags}, costs, judge, goal, 1), STATUS_OK);
	ck_assert_ptr_nonnull(goal->schedule);
	schedule_free(goal->schedule);
	arena_free(&arena);
	return memory.most;
}

/* Tables grow with the budget: those for few bytes are small, unless they make the schedule exact. */
START_TEST(tables_follow_the_budget)
{
	uint64_t seed = 43;
	static struct step_run store[2000];
	struct step_costs costs = {.runs = store, .run_count = 2000, .steps = 2000, .output = 4000};
	for (int i = 0; i < 2000; i++)
		store[i] = (struct step_run){.cost = {.forward = (double)(1 + draw(&seed, 9)),
		                                      .record = (double)draw(&seed, 10),
		                                      .backward = 1,
		                                      .state = 4000 + 4000 * draw(&seed, 12) + draw(&seed, 3),
		                                      .residual = 4000 * draw(&seed, 14) + draw(&seed, 3)},
		                             .count = 1};
	ck_assert_uint_le(bytes_to_search(&costs, NULL, &(struct budget_goal){.bytes = 5000000}), 30 << 20);
	for (int i = 0; i < 150; i++)
		store[i].cost.state = 1 + draw(&seed, 40), store[i].cost.residual = draw(&seed, 40);
	costs.run_count = 150, costs.steps = 150, costs.output = 1;
	struct budget_goal goal = {.bytes = 1200};
	ck_assert_uint_gt(bytes_to_search(&costs, NULL, &goal), 25000000);
	ck_assert(goal.exact);
}
END_TEST

/* The cost walk, as a judge that a run follows. */
static enum status judge_by_walk(void *costs, const struct policy *family, struct schedule *schedule, int64_t most,
                                 struct judgement *judgement)
{
	(void)family, (void)most;
	judgement->counters = walk_of(schedule, costs, NULL).counters;
	judgement->peak = judgement->counters.peak_bytes;
	return STATUS_OK;
}

/* Once the tables of equal steps have the best schedule, no other tables are made. */
START_TEST(judged_equal_steps_need_no_other_tables)
{
	static const int64_t counts[] = {1000, 2000};
	for (size_t i = 0; i < 2; i++) {
		struct step_run run = {.cost = {.forward = 1, .record = 1, .backward = 1, .state = 80, .residual = 80},
		                       .count = counts[i]};
		struct step_costs costs = {.runs = &run, .run_count = 1, .steps = counts[i], .output = 80};
		const struct budget_judge judge = {.judge = judge_by_walk, .context = &costs, .share = 1, .run = 1e12};
		struct budget_goal goal = {.bytes = 1760};
		ck_assert_uint_le(bytes_to_search(&costs, &judge, &goal), 1 << 20);
		ck_assert(goal.exact);
		ck_assert_int_eq((int64_t)goal.counters.evaluations, plan_within(&costs, 1760).evaluations);
	}
}
END_TEST

/* Nor with a loss behind them, whose sizes have no common unit with theirs. The judge rejects the first rungs. */
START_TEST(judged_losses_need_no_other_tables)
{
	for (int64_t bytes = 4000; bytes < 40000; bytes += 777) {
		const struct step_cost step = {.forward = 1,
		                               .record = 1,
		                               .backward = 1,
		                               .state = 800,
		                               .residual = 790,
		                               .record_temporary = 7,
		                               .last_temporary = 7};
		const struct step_cost loss = {.forward = 1, .record = 1, .backward = 1, .state = 800, .residual = 801};
		struct step_run runs[] = {{step, 300}, {loss, 1}};
		struct step_costs costs = {.runs = runs, .run_count = 2, .steps = 301, .output = 8};
		const struct budget_judge judge = {
			.judge = judge_by_walk, .context = &costs, .share = 0.9, .slack = 800, .run = 1e12};
		struct budget_goal goal = {.bytes = bytes};
		const struct plan best = plan_within(&costs, bytes);
		if (best.status)
			continue;
		ck_assert_uint_le(bytes_to_search(&costs, &judge, &goal), 1 << 20);
		ck_assert(goal.exact || goal.near);
		ck_assert_double_le(goal.counters.evaluations, best.evaluations * 1.01);
	}
}
END_TEST

/* With a judge, few unequal steps are as good as without one, or they say by how much they are not. */
START_TEST(judged_unequal_steps)
{
	uint64_t seed = 45;
	for (int i = 0; i < (nightly() ? 400 : 20); i++) {
		struct step_run store[24];
		const int64_t steps = i % 2 ? 14 : 24;
		struct step_costs costs = {.runs = store, .run_count = (size_t)steps, .steps = steps, .output = 4, .fixed = 99};
		for (int64_t k = 0; k < steps; k++)
			store[k] = (struct step_run){.cost = {.forward = 1 + 0.01 * (double)draw(&seed, 300),
			                                      .backward = 3,
			                                      .record = 0.01 * (double)draw(&seed, 400),
			                                      .state = 1000 + draw(&seed, 1000),
			                                      .residual = 1 + draw(&seed, 40000),
			                                      .backward_temporary = draw(&seed, 9000),
			                                      .keeps_input = draw(&seed, 2)},
			                             .count = 1};
		const int64_t bytes = plan_within(&costs, 1).least + draw(&seed, steps * 12000);
		const struct plan best = plan_within(&costs, bytes);
		const struct budget_judge judge = {
			.judge = judge_by_walk, .context = &costs, .share = 0.9, .slack = 800, .run = i % 4 < 2 ? 0 : 1e12};
		struct budget_goal goal = {.bytes = bytes};
		(void)bytes_to_search(&costs, &judge, &goal);
		ck_assert_int_le(goal.peak, bytes);
		ck_assert_msg(goal.counters.gap_percent < 2, "%g %%", goal.counters.gap_percent);
		const double forward = goal.counters.forward_cost + goal.counters.recomputed_cost;
		ck_assert(forward / (1 + goal.counters.gap_percent / 100) <= best.time - goal.counters.backward_cost + 1e-9);
	}
}
END_TEST

/* A judge that counts the steps that it walks: a fourth of those that are advanced over, as the search takes them. */
struct counting_judge {
	struct step_costs costs;
	double steps;
};

static enum status judge_and_count(void *context, const struct policy *family, struct schedule *schedule, int64_t most,
                                   struct judgement *judgement)
{
	struct counting_judge *judge = context;
	struct action action;
	schedule_rewind(schedule);
	while (schedule_next(schedule, &action))
		if (action_is_on_steps(action.kind))
			judge->steps += (double)(action.end - action.begin) / (action.kind == ACT_FORWARD ? 4 : 1);
	schedule_rewind(schedule);
	return judge_by_walk(&judge->costs, family, schedule, most, judgement);
}

static void search_limited(struct counting_judge *counting, double most, struct budget_goal *goals, size_t count)
{
	struct arena arena;
	struct diags diags;
	const struct budget_judge judge = {.judge = judge_and_count,
	                                   .context = counting,
	                                   .share = 0.5,
	                                   .slack = 800,
	                                   .run = 1e6,
	                                   .step = 3000,
	                                   .most = most};
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	counting->steps = 0;
	const struct context context = {&allocator_system, &arena, &diags};
	ck_assert_int_eq(budget_search(&context, &counting->costs, &judge, goals, count), STATUS_OK);
	arena_free(&arena);
}

/*
 * A limit ends the search. The judge then walks as many steps as it allows at most, and one schedule more in each stage. A goal
 * has the schedule that it has alone, and its gap is true.
 */
START_TEST(limited_searches)
{
	enum { STEPS = SANITIZED ? 120 : 300, GOALS = 3 };
	uint64_t seed = 47;
	static struct step_run store[STEPS];
	struct counting_judge counting = {{.runs = store, .run_count = STEPS, .steps = STEPS, .output = 400}, 0};
	for (int i = 0; i < STEPS; i++) {
		const double forward = (double)(1 + draw(&seed, 9));
		store[i] = (struct step_run){.cost = {.forward = forward,
		                                      .record = forward,
		                                      .backward = 1,
		                                      .state = 400 + draw(&seed, 600),
		                                      .residual = draw(&seed, 2000)},
		                             .count = 1};
	}
	static const int64_t bytes[GOALS] = {20000, 60000, 200000};
	struct plan bests[GOALS];
	for (int i = 0; i < GOALS; i++)
		bests[i] = plan_within(&counting.costs, bytes[i]);
	for (double most = 2e7; most < 1e10; most *= 10) {
		struct budget_goal together[GOALS] = {{.bytes = bytes[0]}, {.bytes = bytes[1]}, {.bytes = bytes[2]}};
		search_limited(&counting, most, together, GOALS);
		for (int i = 0; i < GOALS; i++) {
			struct budget_goal alone = {.bytes = bytes[i]};
			search_limited(&counting, most, &alone, 1);
			ck_assert_ptr_nonnull(alone.schedule);
			ck_assert_msg(counting.steps * 3000 <= most + 8 * 4 * STEPS * 3000, "%g of %g", counting.steps * 3000,
			              most);
			ck_assert(fabs(alone.time - together[i].time) < 1e-9 && alone.peak == together[i].peak);
			const struct plan best = bests[i];
			const double forward = alone.counters.forward_cost + alone.counters.recomputed_cost;
			ck_assert(forward / (1 + alone.counters.gap_percent / 100) <=
			          best.time - alone.counters.backward_cost + 1e-9);
			if (most > 1e9)
				ck_assert_double_le(alone.time, 1.05 * best.time);
			schedule_free(alone.schedule);
			schedule_free(together[i].schedule);
		}
	}
}
END_TEST

/* All zero: nothing to gain, nothing to fail on. */
START_TEST(empty_costs)
{
	struct step_run run = {.count = 9};
	struct step_costs costs = {.runs = &run, .run_count = 1, .steps = 9};
	ck_assert_int_eq(plan_within(&costs, 1).evaluations, 9);
	costs.fixed = 100;
	ck_assert_int_eq(plan_within(&costs, 99).least, 100);
	ck_assert_int_eq(plan_within(&costs, 100).evaluations, 9);
	struct step_costs none = {.fixed = 5, .output = 3};
	ck_assert_int_eq(plan_within(&none, 8).status, STATUS_OK);
	ck_assert_int_eq(plan_within(&none, 7).least, 8);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("budget");
	TCase *tcase = suite_make_case(suite, "budget");
	tcase_set_timeout(tcase, 3600);
	tcase_add_test(tcase, as_good_as_any);
	tcase_add_test(tcase, measured_steps_as_good_as_any);
	tcase_add_test(tcase, equal_steps_as_good_as_any);
	tcase_add_test(tcase, save_all_where_it_fits);
	tcase_add_test(tcase, short_chains);
	tcase_add_test(tcase, chains_of_runs);
	tcase_add_test(tcase, long_chains);
	tcase_add_test(tcase, many_budgets_at_once);
	tcase_add_test(tcase, memory_short);
	tcase_add_test(tcase, no_policy_is_better);
	tcase_add_test(tcase, one_step_of_most_bytes);
	tcase_add_test(tcase, more_disk_is_no_slower);
	tcase_add_test(tcase, no_policy_is_better_over_runs);
	tcase_add_test(tcase, long_equal_chain);
	tcase_add_test(tcase, equal_steps_are_exact);
	tcase_add_test(tcase, ten_thousand_equal_steps);
	tcase_add_test(tcase, many_equal_steps_that_record_for_less);
	tcase_add_test(tcase, sixty_four_unequal_steps);
	tcase_add_test(tcase, two_thousand_unequal_steps);
	tcase_add_test(tcase, tables_follow_the_budget);
	tcase_add_test(tcase, judged_equal_steps_need_no_other_tables);
	tcase_add_test(tcase, judged_losses_need_no_other_tables);
	tcase_add_test(tcase, judged_unequal_steps);
	tcase_add_test(tcase, limited_searches);
	tcase_add_test(tcase, empty_costs);
	return suite_run(suite);
}
