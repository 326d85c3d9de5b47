/*
 * Chains of equal steps between a short head and a short tail (equal_chain.c): the schedules that are offered to goals. If
 * the cost walk is the judge, the schedule for a goal's bytes is offered. With another judge, schedules for the bytes of
 * a ladder are tried. Its rungs depend on the chain alone. A schedule is the best there is if the head and the tail have
 * a step each at most, or if the relaxed chain takes as much time.
 * Tests: tests/unit/test_budget.c, tests/cases/plan.test
 */
#include "budget/search_parts.h"

#include "base/checked.h"
#include "budget/bound.h"
#include "budget/equal_chain.h"

enum {
	CELLS_LEAST = 1 << 20, /* with a judge: so many for every budget, and more for larger ones */
	RUNGS = 1 << 16,       /* the most rungs of a ladder */
	CLIMBS = 24,           /* the most schedules tried for a goal */
};

static const double ROUNDING = 1e-8; /* a share of the time that is no difference */
static const struct policy from_equal = {.kind = POLICY_budget};

/* What equal_plan_solve found: RESULT, and with EQUAL_SOLVED a schedule and by how much it may be slower than the least. */
struct found {
	enum equal_result result;
	struct schedule *schedule;
	double error, work;
};

/* Finds the best schedule within BYTES beyond costs->fixed. */
static enum status make_equal_schedule(const struct search *s, int64_t bytes, size_t most_cells, struct found *found)
{
	struct equal_plan plan;
	*found = (struct found){.result = equal_plan_solve(&plan, s->equal, bytes, most_cells, s->context.allocator)};
	if (found->result == EQUAL_SOLVED) {
		struct action_list list = {.allocator = s->context.allocator};
		equal_plan_extract(&plan, &list);
		found->schedule = action_list_schedule(&list);
		found->error = equal_plan_error(&plan);
	}
	equal_plan_free(&plan);
	found->work = equal_plan_work(&plan);
	return found->result == EQUAL_NO_MEMORY || (found->result == EQUAL_SOLVED && !found->schedule)
	           ? diag_memory(s->context.diags)
	           : STATUS_OK;
}

size_t search_equal_cells(const struct search *s, const struct budget_goal *goal)
{
	if (!s->judge)
		return EQUAL_CELLS_MOST;
	const int64_t cells = lesser(greater(CELLS_LEAST, (goal->bytes - s->costs->fixed) / 8), EQUAL_CELLS_MOST);
	return (size_t)lesser(cells, (int64_t)s->effort.cells);
}

/* Returns the forward time of GOAL's schedule. */
static double forward_time(const struct search *s, const struct budget_goal *goal)
{
	return goal->time - s->time + s->once;
}

/* Sets whether GOAL's schedule is exact, and near, by a bound for the time of all schedules within GOAL's bytes. */
static enum status compare_with_bound(const struct search *s, struct budget_goal *goal)
{
	const double time = forward_time(s, goal);
	double least;
	const bool bounded = budget_bound(s->costs, goal->bytes - s->costs->fixed, search_bound_limits(s, goal),
	                                  s->context.allocator, &least);
	TRY_ALLOC(bounded, s->context.diags);
	goal->exact = time <= least * (1 + ROUNDING);
	goal->near = s->judge && time <= least * 1.01;
	return STATUS_OK;
}

/* Offers GOAL the best schedule within its bytes. *SOLVED: there is none better, or none at all. */
static enum status offer_best(const struct search *s, struct budget_goal *goal, bool *solved)
{
	const int64_t bytes = goal->bytes - s->costs->fixed;
	struct candidate c = {.family = &from_equal};
	struct found found;
	TRY(make_equal_schedule(s, bytes, EQUAL_CELLS_MOST, &found));
	c.schedule = found.schedule;
	*solved = found.result == EQUAL_INFEASIBLE && !s->equal->unproven;
	if (!c.schedule)
		return STATUS_OK;
	TRY(goal_try(s, goal, &c, false));
	goal->exact = !s->equal->unproven && found.error <= ROUNDING * forward_time(s, goal);
	TRY(goal->exact ? STATUS_OK : compare_with_bound(s, goal));
	*solved = goal->exact;
	return STATUS_OK;
}

/* Sets *FEASIBLE to whether BYTES beyond costs->fixed are enough for any schedule. */
static enum status is_feasible(const struct search *s, int64_t bytes, bool *feasible)
{
	struct equal_plan plan;
	const enum equal_result result = equal_plan_solve(&plan, s->equal, bytes, EQUAL_CELLS_MOST, s->context.allocator);
	equal_plan_free(&plan);
	*feasible = result == EQUAL_SOLVED || result == EQUAL_TOO_LARGE;
	return result == EQUAL_NO_MEMORY ? diag_memory(s->context.diags) : STATUS_OK;
}

/* Sets *LEAST to the least bytes beyond costs->fixed that are enough for a schedule. They are more than BELOW. */
static enum status find_least(const struct search *s, int64_t below, int64_t *least)
{
	bool feasible = false;
	int64_t low = greater(below, 0), high = low; /* LOW is too few, HIGH is enough once FEASIBLE */
	while (!feasible) {
		low = high;
		high = lesser(2 * high + 1, s->range);
		TRY(high < s->range ? is_feasible(s, high, &feasible) : STATUS_OK);
		feasible |= high == s->range;
	}
	while (high - low > 1) {
		const int64_t middle = low + (high - low) / 2;
		TRY(is_feasible(s, middle, &feasible));
		*(feasible ? &high : &low) = middle;
	}
	*least = high;
	return STATUS_OK;
}

/* Returns the bytes between two rungs. */
static int64_t rung_bytes(const struct search *s)
{
	int64_t unit = s->costs->output;
	for (size_t run = 0; run < s->costs->run_count; run++) {
		const struct step_cost *c = &s->costs->runs[run].cost;
		const int64_t sizes[] = {c->state, c->residual, c->forward_temporary, c->record_temporary,
		                         c->backward_temporary};
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			unit = common_divisor(unit, sizes[i]);
	}
	return greater(unit, s->range / RUNGS + 1);
}

/*
 * Offers GOAL the best schedule within BYTES by the cost walk. *BELOW is 0 if it fits or is slow. Else schedules of BELOW
 * bytes or more need not be tried: by so many bytes the judge says it is too large, and all those of its own bytes or more
 * take as much time.
 */
static enum status offer_equal_rung(const struct search *s, struct budget_goal *goal, int64_t bytes, int64_t *below)
{
	struct candidate c = {.family = &from_equal};
	struct found found;
	TRY(make_equal_schedule(s, bytes, search_equal_cells(s, goal), &found));
	search_spend(s, goal, found.work);
	c.schedule = found.schedule;
	*below = found.result == EQUAL_TOO_LARGE ? 1 : 0;
	if (!c.schedule)
		return STATUS_OK;
	const enum status status = goal_try(s, goal, &c, false);
	if (c.result == TOO_LARGE) {
		const int64_t excess = c.judged ? greater(c.judgement.peak - goal->bytes, 1) : 1;
		*below = greater(lesser(bytes - excess + 1, c.walked > 0 ? c.walked - s->costs->fixed : bytes), 1);
	}
	return status;
}

/*
 * Looks for the highest rung whose schedule fits GOAL: downwards from its reach, past those that need not be tried, then by
 * bisection.
 */
static enum status climb(const struct search *s, struct budget_goal *goal)
{
	const int64_t unit = rung_bytes(s), reach = lesser(goal_reach(s, goal), s->range);
	int64_t low = 0, high = reach / unit + 1, below; /* rung HIGH does not fit, rung LOW does or is 0 */
	for (int64_t rung = high - 1, tries = 0; rung > low && tries < CLIMBS && search_goes_on(s, goal); tries++) {
		TRY(offer_equal_rung(s, goal, rung * unit, &below));
		*(below == 0 ? &low : &high) = rung;
		rung = low > 0 ? low + (high - low) / 2 : ceil_div(below, unit) - 1;
	}
	return goal->schedule && goal->family.kind == POLICY_budget ? compare_with_bound(s, goal) : STATUS_OK;
}

enum status search_equal_judged(const struct search *s)
{
	enum status status = STATUS_OK;
	for (size_t i = 0; i < s->count && !status; i++)
		if (!goal_is_settled(s, &s->goals[i]) && s->goals[i].bytes > s->costs->fixed)
			status = climb(s, &s->goals[i]);
	return status;
}

enum status search_equal(const struct search *s, bool *solved)
{
	const int64_t fixed = s->costs->fixed;
	int64_t few = INT64_MIN, least; /* the most bytes that are too few for a goal */
	*solved = true;
	for (size_t i = 0; i < s->count; i++) {
		struct budget_goal *goal = &s->goals[i];
		bool one = true;
		if (goal_is_settled(s, goal))
			continue;
		TRY(offer_best(s, goal, &one));
		*solved &= one;
		if (one && !goal->schedule)
			few = greater(goal->bytes - fixed, few);
	}
	if (few == INT64_MIN)
		return STATUS_OK;
	TRY(find_least(s, few, &least));
	for (size_t i = 0; i < s->count; i++)
		s->goals[i].least = lesser(least + fixed, s->goals[i].least);
	return STATUS_OK;
}
