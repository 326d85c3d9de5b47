/*
 * Equal steps between a short head and a short tail: the plan against the recurrence at the head of
 * budget/persistent.c, with every split and every number of bytes. CKPTC_NIGHTLY in the environment asks for more chains.
 */
#include <stdlib.h>

#include "budget/bound.h"
#include "budget/equal_chain.h"
#include "failing.h"
#include "schedule_model.h"
#include "suite.h"

enum { STEPS_MOST = 50, CHAINS = SANITIZED ? 300 : 1500 };

static const double impossible = 1e9;

/* The plain recurrence: the least forward time of steps I .. J-1 in M bytes. PIN: the state before them is free. */
struct plain {
	struct step_cost steps[STEPS_MOST];
	int64_t count, output, bytes;
	double *memo; /* 1 more; 0: not known yet */
};

static int64_t state_at(const struct plain *p, int64_t i) { return i < p->count ? p->steps[i].state : p->output; }

static double plain_time(struct plain *p, int64_t i, int64_t j, int64_t m, bool pin)
{
	if (m < 0)
		return impossible;
	double *known = &p->memo[(((i * (p->count + 1) + j) * 2) + pin) * (p->bytes + 1) + m];
	if (*known > 0)
		return *known - 1;
	const struct step_cost *c = &p->steps[i];
	const int64_t state = pin ? 0 : c->state, cotangent = j < p->count ? state_at(p, j) : 0, next = state_at(p, i + 1);
	const int64_t input = c->keeps_input ? state : 0;
	const int64_t record = state + c->residual + (c->keeps_output ? 0 : next) + c->record_temporary + cotangent;
	const int64_t backward = input + c->residual + next + c->state + c->backward_temporary;
	double best = impossible, ahead = 0;
	if (m >= record && m >= backward)
		best = j == i + 1 ? c->record : c->forward + plain_time(p, i + 1, j, m - c->residual - input, c->keeps_output);
	for (int64_t k = i + 1; k < j; k++) {
		const struct step_cost *over = &p->steps[k - 1];
		const int64_t before = k - 1 > i ? over->state : 0;
		ahead += over->forward;
		if (m < state + before + state_at(p, k) + over->forward_temporary + cotangent)
			break;
		const double right = plain_time(p, k, j, m - state, false), left = plain_time(p, i, k, m, pin);
		best = right < impossible && left < impossible && ahead + right + left < best ? ahead + right + left : best;
	}
	best = best < impossible ? best : impossible;
	*known = best + 1;
	return best;
}

static double best_time(const struct step_costs *costs, int64_t bytes)
{
	struct plain p = {.output = costs->output, .bytes = bytes};
	for (size_t r = 0; r < costs->run_count; r++)
		for (int64_t i = 0; i < costs->runs[r].count; i++)
			p.steps[p.count++] = costs->runs[r].cost;
	p.memo = calloc((size_t)((p.count + 1) * (p.count + 1) * 2 * (bytes + 1)), sizeof *p.memo);
	const double time = plain_time(&p, 0, p.count, bytes, false);
	free(p.memo);
	return time;
}

/* Checks that PLAN's schedule is right, fits in BYTES, and takes TIME. */
static void check_schedule(const struct equal_plan *plan, const struct step_costs *costs, int64_t bytes, double time)
{
	struct action_list list = {.allocator = &allocator_system};
	equal_plan_extract(plan, &list);
	struct schedule *schedule = action_list_schedule(&list);
	ck_assert_ptr_nonnull(schedule);
	const struct verdict verdict = verdict_of(schedule, costs);
	schedule_free(schedule);
	ck_assert_msg(!verdict.wrong, "%s", verdict.wrong);
	ck_assert_int_le(verdict.peak, bytes);
	ck_assert_msg(verdict.time < time + 1e-6 && verdict.time > time - 1e-6, "%g, not %g", verdict.time, time);
}

static int solved, unproven, tight; /* of the chains compared: unproven ones, and those that the bound proves exact */

static void compare(const struct step_costs *costs, int64_t bytes)
{
	struct equal_chain chain;
	struct equal_plan plan;
	double bound;
	ck_assert(equal_chain_find(&chain, costs));
	const double best = best_time(costs, bytes);
	const enum equal_result result = equal_plan_solve(&plan, &chain, bytes, EQUAL_CELLS_MOST, &allocator_system);
	ck_assert(result == EQUAL_SOLVED || result == EQUAL_INFEASIBLE);
	const double time = result == EQUAL_SOLVED ? equal_plan_time(&plan) : impossible;
	const struct bound_limits limits = {EQUAL_CELLS_MOST, {FRONTS_COMPARED_MOST, FRONTS_HELD_MOST}};
	ck_assert(budget_bound(costs, bytes, limits, &allocator_system, &bound));
	ck_assert_msg(chain.unproven ? time > best - 1e-6 : time < best + 1e-6 && time > best - 1e-6,
	              "%lld of %lld steps, %lld bytes: %g, not %g", (long long)chain.steps, (long long)costs->steps,
	              (long long)bytes, time, best);
	ck_assert_msg(best >= impossible || bound < best + 1e-6, "a bound of %g above %g", bound, best);
	const struct bound_limits few = {1 << 10, {1, 1}}; /* tables are too large */
	ck_assert(budget_bound(costs, bytes, few, &allocator_system, &bound));
	ck_assert_msg(best >= impossible || bound < best + 1e-6, "a bound of %g above %g", bound, best);
	if (result == EQUAL_SOLVED)
		check_schedule(&plan, costs, bytes, time);
	solved += result == EQUAL_SOLVED;
	unproven += result == EQUAL_SOLVED && chain.unproven;
	tight += result == EQUAL_SOLVED && chain.unproven && time < bound * (1 + 1e-6);
	equal_plan_free(&plan);
}

static int approximate; /* of the plans below, those that are no more than near the least */

/* Compares the plan of COSTS by prices, in tables that are too small for all lengths of ranges. */
static void compare_prices(const struct step_costs *costs, int64_t bytes)
{
	enum { FEW_CELLS = 1 << 14 };
	struct equal_chain chain;
	struct equal_plan plan;
	ck_assert(equal_chain_find(&chain, costs));
	if (chain.unproven)
		return;
	const double best = best_time(costs, bytes);
	const enum equal_result result = equal_plan_solve(&plan, &chain, bytes, FEW_CELLS, &allocator_system);
	if (result == EQUAL_SOLVED) {
		const double time = equal_plan_time(&plan), error = equal_plan_error(&plan);
		ck_assert_msg(time > best - 1e-6 && time - error < best + 1e-6, "%lld steps, %lld bytes: %g - %g, not %g",
		              (long long)costs->steps, (long long)bytes, time, error, best);
		ck_assert(best < impossible);
		check_schedule(&plan, costs, bytes, time);
		solved++;
		approximate += error > 0;
	} else {
		ck_assert(result == EQUAL_TOO_LARGE || best >= impossible);
	}
	equal_plan_free(&plan);
}

static struct step_cost random_cost(uint64_t *seed, bool temporary)
{
	struct step_cost cost = {.forward = (double)(1 + draw(seed, 5)),
	                         .record = (double)draw(seed, 7),
	                         .state = draw(seed, 7),
	                         .residual = draw(seed, 4) ? draw(seed, 12) : 0,
	                         .keeps_input = draw(seed, 3) == 0,
	                         .keeps_output = draw(seed, 2)};
	if (temporary) {
		cost.forward_temporary = draw(seed, 9);
		cost.record_temporary = draw(seed, 9);
		cost.backward_temporary = draw(seed, 9);
	}
	return cost;
}

/* Sets STORE's runs to random ones: HEAD steps, EQUAL equal ones, TAIL steps. */
static struct step_costs random_chain(uint64_t *seed, struct step_run *store, int64_t head, int64_t equal, int64_t tail)
{
	struct step_costs costs = {
		.runs = store, .run_count = (size_t)(head + 1 + tail), .steps = head + equal + tail, .output = draw(seed, 5)};
	const bool temporary = draw(seed, 2);
	for (int64_t i = 0; i <= head + tail; i++)
		store[i] = (struct step_run){random_cost(seed, temporary), i == head ? equal : 1};
	if (draw(seed, 2) && tail) /* as a loss follows equal steps */
		store[head + 1].cost.state = store[head].cost.state;
	if (tail == 0)
		costs.output = store[head].cost.state;
	for (int64_t i = 0; i <= head + tail; i++) {
		const int64_t next = i == head && equal > 1 ? store[i].cost.state
		                     : i < head + tail      ? store[i + 1].cost.state
		                                            : costs.output;
		store[i].cost.residual += store[i].cost.keeps_output ? next : 0;
	}
	return costs;
}

static void compare_chains(uint64_t seed, int64_t ends, int64_t equal, int64_t rounds)
{
	solved = unproven = tight = 0;
	for (int64_t round = 0; round < rounds; round++) {
		struct step_run store[9];
		const int64_t head = draw(&seed, ends + 1), tail = draw(&seed, ends + 1);
		const int64_t count = 3 * (head + tail + 1) + 1 + draw(&seed, equal);
		const struct step_costs costs = random_chain(&seed, store, head, count, tail);
		const struct step_cost *cost = &store[head].cost;
		const int64_t held = (count < 12 ? count : 12) * (cost->state + cost->residual) / 2;
		for (int i = 0; i < 3; i++)
			compare(&costs, 2 * cost->state + draw(&seed, held + 40));
	}
	ck_assert_int_gt(solved, rounds);
}

START_TEST(a_step_at_each_end_is_exact)
{
	compare_chains(11, 1, 15, getenv("CKPTC_NIGHTLY") ? 20000 : CHAINS);
	ck_assert_int_gt(solved - unproven, CHAINS);
}
END_TEST

START_TEST(others_are_bounded)
{
	compare_chains(12, 3, 10, getenv("CKPTC_NIGHTLY") ? 20000 : CHAINS);
	ck_assert_int_gt(unproven, CHAINS);
	ck_assert_int_gt(tight, unproven / 4);
}
END_TEST

/* Where the tables of all ranges are large, prices lead to the best schedules too, or the error says by how much not. */
START_TEST(prices_are_exact)
{
	const int64_t rounds = getenv("CKPTC_NIGHTLY") ? 20000 : CHAINS;
	uint64_t seed = 13;
	solved = approximate = 0;
	for (int64_t round = 0; round < rounds; round++) {
		struct step_run store[2];
		const int64_t tail = draw(&seed, 2), count = 20 + draw(&seed, 28);
		const struct step_costs costs = random_chain(&seed, store, 0, count, tail);
		store[0].cost.record = store[0].cost.forward * (double)draw(&seed, 9) / 8;
		const int64_t held = (count / 2) * (store[0].cost.state + store[0].cost.residual) / 2;
		for (int i = 0; i < 3; i++)
			compare_prices(&costs, 2 * store[0].cost.state + draw(&seed, held + 40));
	}
	ck_assert_int_gt(solved, rounds);
	ck_assert_int_lt(approximate, solved / 50);
}
END_TEST

/* Each request for memory of a plan by prices and windows may fail. */
START_TEST(out_of_memory)
{
	const struct equal_chain chain = {
		.cost = {.forward = 10, .record = 9, .state = 3, .residual = 10}, .steps = 400, .head = {0}};
	enum equal_result result = EQUAL_NO_MEMORY;
	size_t request = 0;
	while (result == EQUAL_NO_MEMORY) {
		struct failing failing = {.fail_at = ++request};
		const struct allocator allocator = failing_allocator(&failing);
		struct equal_plan plan;
		result = equal_plan_solve(&plan, &chain, 300, 1 << 17, &allocator);
		ck_assert(result == EQUAL_NO_MEMORY || result == EQUAL_SOLVED);
		equal_plan_free(&plan);
		ck_assert_uint_eq(failing.live, 0);
	}
	ck_assert_uint_gt(request, 15);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("equal_chain");
	TCase *tcase = suite_make_case(suite, "equal_chain");
	tcase_set_timeout(tcase, 3600);
	tcase_add_test(tcase, a_step_at_each_end_is_exact);
	tcase_add_test(tcase, others_are_bounded);
	tcase_add_test(tcase, prices_are_exact);
	tcase_add_test(tcase, out_of_memory);
	return suite_run(suite);
}
