/*
 * Offering candidates to goals. A candidate's time is a sum of costs. Only if a goal would like
 * that time does the judge say what the candidate takes, and it stops once that is too much.
 */
#include "budget/search_parts.h"

#include "memory/cost_walk.h"

bool goal_is_settled(const struct budget_goal *goal) { return goal->schedule && goal->family.kind == POLICY_save_all; }

bool goal_is_faster(const struct budget_goal *goal, double time)
{
	return !goal->schedule || time < goal->time * (1 - 1e-12);
}

int64_t goal_reach(const struct search *s, const struct budget_goal *goal)
{
	if (!s->judge)
		return goal->bytes;
	double reach = (double)(goal->bytes - s->costs->fixed + s->judge->slack) / s->judge->share;
	return reach < 4e18 ? s->costs->fixed + (int64_t)reach : INT64_MAX;
}

int64_t goal_needed_range(const struct search *s, const struct budget_goal *goal)
{
	int64_t reach = goal_reach(s, goal) - s->costs->fixed;
	return reach < s->range ? reach : s->range;
}

void candidate_set_time(const struct search *s, struct candidate *c)
{
	struct action action;
	double forward = 0;
	schedule_rewind(c->schedule);
	while (schedule_next(c->schedule, &action))
		if (action.kind == ACT_FORWARD || action.kind == ACT_RECORD)
			forward += s->sums[action.end] - s->sums[action.begin];
	schedule_rewind(c->schedule);
	c->time = forward + s->time - s->sums[s->costs->steps];
	c->timed = true;
}

/* The bytes above which GOAL does not care what a candidate takes. */
static int64_t most_of(const struct budget_goal *goal)
{
	return goal->bytes > goal->least || goal->schedule ? goal->bytes : goal->least;
}

/* True if the judge was not asked for C, or stopped at fewer bytes than matter to GOAL. */
static bool must_ask(const struct budget_goal *goal, const struct candidate *c)
{
	return !c->judged || (c->judgement.peak > c->most && c->most < most_of(goal));
}

bool candidate_is_large(const struct budget_goal *goal, const struct candidate *c)
{
	return !must_ask(goal, c) && c->judgement.peak > goal->bytes && c->judgement.peak >= goal->least;
}

static enum status ask_judge(const struct search *s, const struct budget_goal *goal, struct candidate *c)
{
	enum status status;
	c->most = most_of(goal);
	if (s->judge) {
		status = s->judge->judge(s->judge->context, c->family, c->schedule, c->most, &c->judgement);
	} else {
		const struct cost_walk_options options = {.most = c->most};
		double time;
		status = cost_walk(&s->context, c->schedule, s->costs, &options, &c->judgement.counters, &time);
		c->judgement.peak = c->judgement.counters.peak_bytes;
	}
	c->judged = !status;
	return status;
}

enum status goal_offer(const struct search *s, struct budget_goal *goal, struct candidate *c, enum offered *result)
{
	const bool faster = goal_is_faster(goal, c->time);
	*result = faster ? TOO_LARGE : SLOWER;
	if (goal_is_settled(goal) || !faster)
		return STATUS_OK;
	enum status status = must_ask(goal, c) ? ask_judge(s, goal, c) : STATUS_OK;
	if (status)
		return status;
	goal->least = c->judgement.peak < goal->least ? c->judgement.peak : goal->least;
	if (c->judgement.peak > goal->bytes)
		return STATUS_OK;
	struct schedule *copy = schedule_copy(c->schedule);
	if (!copy)
		return diag_memory(s->context.diags);
	schedule_free(goal->schedule);
	goal->schedule = copy;
	goal->family = *c->family;
	goal->counters = c->judgement.counters;
	goal->time = c->time;
	goal->peak = c->judgement.peak;
	*result = TAKEN;
	return STATUS_OK;
}

enum status search_offer(const struct search *s, const struct policy *family, struct schedule *schedule)
{
	struct candidate c = {.family = family, .schedule = schedule};
	enum status status = STATUS_OK;
	enum offered result;
	if (!schedule)
		return diag_memory(s->context.diags);
	candidate_set_time(s, &c);
	for (size_t i = s->count; i-- > 0 && !status;)
		status = goal_offer(s, &s->goals[i], &c, &result);
	schedule_free(schedule);
	return status;
}

int64_t search_next_number(int64_t number, int64_t dense, int64_t percent)
{
	return number < dense ? number + 1 : number + 1 + number * percent / 100;
}
