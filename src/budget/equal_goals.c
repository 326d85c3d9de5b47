/*
 * Chains of equal steps (equal_steps.c): the schedules that are offered to goals. If the cost walk is the judge, the
 * schedule for a goal's bytes is the best there is, and nothing else is tried. With another judge, schedules for the
 * bytes of a ladder are tried. Its rungs depend on the chain alone.
 */
#include "budget/search_parts.h"

#include "base/checked.h"
#include "budget/equal_steps.h"

enum {
	CELLS_MOST = 64 << 20, /* the most numbers in a table */
	CELLS_LEAST = 1 << 20, /* with a judge: so many for every budget, and more for larger ones */
	RUNGS = 1 << 16,       /* the most rungs of a ladder */
	CLIMBS = 24,           /* the most schedules tried for a goal */
};

static const struct policy from_equal = {.kind = POLICY_budget};

/* Makes the best schedule within BYTES beyond costs->fixed. *SCHEDULE is NULL where RESULT is not EQUAL_SOLVED. */
static enum status make_schedule(const struct search *s, int64_t bytes, size_t most_cells, struct schedule **schedule,
                                 enum equal_result *result)
{
	struct equal_table table;
	*schedule = NULL;
	*result = equal_table_solve(&table, s->costs, bytes, most_cells, s->context.allocator);
	if (*result == EQUAL_SOLVED) {
		struct action_list list = {.allocator = s->context.allocator};
		equal_table_extract(&table, &list);
		*schedule = action_list_schedule(&list);
	}
	equal_table_free(&table);
	return *result == EQUAL_NO_MEMORY || (*result == EQUAL_SOLVED && !*schedule) ? diag_memory(s->context.diags)
	                                                                             : STATUS_OK;
}

/* Offers GOAL the best schedule within its bytes. *SOLVED: there is none better, or none at all. */
static enum status offer_best(const struct search *s, struct budget_goal *goal, bool *solved)
{
	struct candidate c = {.family = &from_equal};
	enum equal_result result;
	TRY(make_schedule(s, goal->bytes - s->costs->fixed, CELLS_MOST, &c.schedule, &result));
	*solved = result != EQUAL_TOO_LARGE;
	if (!c.schedule)
		return STATUS_OK;
	enum status status = candidate_measure(s, &c, false);
	if (!status)
		status = goal_offer(s, goal, &c);
	schedule_free(c.schedule);
	goal->exact = true;
	return status;
}

/* Sets *FEASIBLE to whether BYTES beyond costs->fixed are enough for any schedule. */
static enum status is_feasible(const struct search *s, int64_t bytes, bool *feasible)
{
	struct equal_table table;
	const enum equal_result result = equal_table_solve(&table, s->costs, bytes, CELLS_MOST, s->context.allocator);
	equal_table_free(&table);
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

/* Returns the bytes between two rungs. *EXACT: they divide all sizes of the steps. Else there are RUNGS of them. */
static int64_t rung_bytes(const struct search *s, bool *exact)
{
	const struct step_cost *c = equal_steps_cost(s->costs);
	const int64_t sizes[] = {c->residual, c->forward_temporary, c->record_temporary, c->backward_temporary};
	int64_t unit = c->state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		unit = common_divisor(unit, sizes[i]);
	*exact = unit > s->range / RUNGS;
	return greater(unit, s->range / RUNGS + 1);
}

/*
 * Offers GOAL the best schedule within BYTES by the cost walk. *EXCESS: by so many bytes the judge says it is large; all
 * BYTES if the table would be too large.
 */
static enum status offer_rung(const struct search *s, struct budget_goal *goal, int64_t bytes, int64_t *excess)
{
	const int64_t cells = lesser(greater(CELLS_LEAST, (goal->bytes - s->costs->fixed) / 8), CELLS_MOST);
	struct candidate c = {.family = &from_equal};
	enum equal_result result;
	TRY(make_schedule(s, bytes, (size_t)lesser(cells, (int64_t)s->effort.cells), &c.schedule, &result));
	*excess = result == EQUAL_TOO_LARGE ? bytes : 0;
	if (!c.schedule)
		return STATUS_OK;
	enum status status = candidate_measure(s, &c, false);
	if (!status)
		status = goal_offer(s, goal, &c);
	if (c.result == TOO_LARGE)
		*excess = c.judged ? greater(c.judgement.peak - goal->bytes, 1) : 1;
	schedule_free(c.schedule);
	return status;
}

/*
 * Looks for the highest rung whose schedule fits GOAL: downwards from its reach by as many bytes as the judge says are
 * too many, then by bisection. GOAL is exact if the rungs are, no table was too large, and the rung above that one does
 * not fit.
 */
static enum status climb(const struct search *s, struct budget_goal *goal)
{
	bool exact;
	const int64_t unit = rung_bytes(s, &exact), reach = lesser(goal_reach(s, goal), s->range);
	int64_t low = 0, high = reach / unit + 1, excess; /* rung HIGH does not fit, rung LOW does or is 0 */
	for (int64_t rung = high - 1, tries = 0; rung > low && tries < CLIMBS; tries++) {
		TRY(offer_rung(s, goal, rung * unit, &excess));
		exact &= excess < rung * unit;
		*(excess == 0 ? &low : &high) = rung;
		rung = low > 0 ? low + (high - low) / 2 : greater(rung - ceil_div(excess, unit), 1);
	}
	goal->exact = exact && low > 0 && high == low + 1 && goal->schedule && goal->family.kind == POLICY_budget;
	return STATUS_OK;
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
