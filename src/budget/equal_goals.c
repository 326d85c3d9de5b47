/*
 * Chains of equal steps (equal_steps.c): the schedules that are offered to goals. If the cost walk is the judge, the
 * schedule for a goal's bytes is the best there is, and nothing else is tried. With another judge, schedules for the
 * bytes of a ladder are tried. Its rungs depend on the chain alone.
 */
#include "budget/search_parts.h"

#include "base/checked.h"
#include "budget/equal_steps.h"

enum {
	CELLS_MOST = 64 << 20, /* the most numbers in a table without a judge */
	RUNGS = 4096,          /* the most rungs of a ladder */
	TRIES = 24,            /* the most schedules tried for a goal */
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
	goal->gap = 0;
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

enum status search_equal(const struct search *s, bool *solved)
{
	const int64_t fixed = s->costs->fixed;
	int64_t few = INT64_MIN, least; /* the most bytes that are too few for a goal */
	*solved = true;
	for (size_t i = 0; i < s->count; i++) {
		struct budget_goal *goal = &s->goals[i];
		bool one = true;
		if (goal_is_settled(goal))
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
