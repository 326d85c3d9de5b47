/*
 * Chains of few unequal steps (fronts.c): the schedules that are offered to goals. If the cost walk is the judge, the best
 * schedule within a goal's bytes is offered. With another judge, those of the chain's whole front are offered, which
 * reaches up to the goal's reach (budget.h): the fastest first, until one fits. The limit on their times grows until one does.
 * Tests: tests/cases/plan.test, tests/unit/test_budget.c
 */
#include "budget/search_parts.h"

#include <math.h>

#include "base/checked.h"
#include "budget/fronts.h"

enum { HELD_LEAST = 100000 }; /* with a judge: so many points for every budget, and more for larger ones */

static const struct policy from_fronts = {.kind = POLICY_budget};

struct fronts_limits search_fronts_limits(const struct search *s, const struct budget_goal *goal)
{
	struct fronts_limits limits = {FRONTS_COMPARED_MOST, FRONTS_HELD_MOST};
	if (s->judge) {
		const int64_t points = (goal->bytes - s->costs->fixed) / (int64_t)sizeof(struct front_point);
		limits.compared = s->effort.points;
		limits.held = lesser(greater(points, HELD_LEAST), limits.held);
	}
	return limits;
}

/* Returns the extra time (fronts.h) of GOAL's schedule; INFINITY if there is none. */
static double extra_of_goal(const struct search *s, const struct fronts *f, const struct budget_goal *goal)
{
	const double backward = s->time - s->once;
	return goal->schedule ? fmax(goal->time - backward - f->ends[f->count], 0) : INFINITY;
}

/* Offers SCHEDULE to GOAL, and frees it. *RESULT is the answer of goal_offer. */
static enum status offer_schedule(const struct search *s, struct budget_goal *goal, struct schedule *schedule,
                                  enum offered *result)
{
	struct candidate c = {.family = &from_fronts, .schedule = schedule};
	const enum status status = goal_try(s, goal, &c, false);
	*result = c.result;
	return status;
}

/* Offers GOAL the best schedule within its bytes. */
static enum status offer_closest(const struct search *s, struct fronts *f, struct budget_goal *goal)
{
	enum offered result;
	f->found = extra_of_goal(s, f, goal);
	TRY_ALLOC(fronts_close(f) != FRONTS_NO_MEMORY, s->context.diags);
	if (f->schedule) {
		struct schedule *schedule = f->schedule;
		f->schedule = NULL;
		TRY(offer_schedule(s, goal, schedule, &result));
	}
	goal->exact |= fronts_closed(f);
	goal->near |= f->found - f->least <= (f->ends[f->count] + f->least) * 0.01;
	return STATUS_OK;
}

/*
 * Offers GOAL the schedules of F's whole front whose extra time is above BEFORE, from the fastest on until one fits or is
 * slower than GOAL's, which sets *DONE. If the effort does not allow all, some are left out.
 */
static enum status descend(const struct search *s, const struct fronts *f, struct budget_goal *goal, double before,
                           bool *done)
{
	const struct front *whole = fronts_whole(f);
	const int64_t each = ceil_div(greater(whole->count, 1), s->effort.tries);
	*done = false;
	for (int64_t k = whole->count - 1; k >= 0 && !*done && search_goes_on(s, goal); k -= each) {
		enum offered result = TOO_LARGE;
		double extra;
		if (whole->points[k].extra > before)
			TRY(offer_schedule(s, goal, fronts_extract(f, whole->points[k].bytes, &extra), &result));
		*done = result != TOO_LARGE;
	}
	return STATUS_OK;
}

/*
 * With a judge: offers GOAL schedules of growing time. Schedules that take more by the cost walk, in time or bytes, may take
 * less by the judge. So tables follow, unless the fastest schedule within GOAL's reach fits.
 */
static enum status climb_fronts(const struct search *s, struct fronts *f, struct budget_goal *goal)
{
	const int64_t width = fronts_first_width(f);
	bool done = false;
	for (double most, before = -1; !done && (most = fronts_next_most(f)) > 0; before = f->most) {
		const double known = extra_of_goal(s, f, goal);
		const enum fronts_result result = fronts_solve(f, fmin(most, known), width);
		TRY_ALLOC(result != FRONTS_NO_MEMORY, s->context.diags);
		if (result == FRONTS_STOPPED)
			return STATUS_OK;
		TRY(descend(s, f, goal, before, &done));
		done |= most >= known;
	}
	f->found = extra_of_goal(s, f, goal);
	goal->exact |= fronts_closed(f);
	goal->near |= goal->exact;
	return STATUS_OK;
}

enum status search_fronts(const struct search *s)
{
	for (size_t i = 0; i < s->count; i++) {
		struct budget_goal *goal = &s->goals[i];
		const int64_t reach = lesser(goal_reach(s, goal), s->range);
		/* Without a judge, a goal without a schedule is infeasible: the schedule of least peak was offered. */
		if (goal_is_settled(s, goal) || reach <= 0 || (!s->judge && !goal->schedule))
			continue;
		struct fronts f;
		const bool begun = fronts_begin(&f, s->costs, reach, search_fronts_limits(s, goal), s->context.allocator);
		enum status status = begun ? STATUS_OK : diag_memory(s->context.diags);
		if (!status)
			status = s->judge ? climb_fronts(s, &f, goal) : offer_closest(s, &f, goal);
		search_spend(s, goal, (double)(f.limits.compared - f.remaining.compared) * POINT_WORK);
		fronts_free(&f);
		TRY(status);
	}
	return STATUS_OK;
}
