/*
 * Offers candidates to goals. A candidate's time is a sum of costs. If it is less than a goal's, the cost walk says
 * whether the candidate is in the goal's reach, and then the judge says how many bytes it takes. Both may stop
 * once the bytes are too many. Over GROUPED steps only save-all is timed and walked so (long_chains.c).
 * Tests: tests/unit/test_budget.c
 */
#include "budget/search_parts.h"

#include <math.h>

#include "base/checked.h"
#include "memory/cost_walk.h"

bool goal_is_settled(const struct search *s, const struct budget_goal *goal)
{
	return goal->schedule && (goal->family.kind == POLICY_save_all || (s->closed && goal->exact));
}

bool goal_is_faster(const struct budget_goal *goal, double time)
{
	return !goal->schedule || time < goal->time * (1 - 1e-12);
}

int64_t goal_reach(const struct search *s, const struct budget_goal *goal)
{
	const int64_t fixed = s->costs->fixed;
	if (!s->judge)
		return goal->bytes - fixed;
	double reach = (double)(goal->bytes - fixed + s->judge->slack) / s->judge->share;
	return reach < 4e18 ? (int64_t)reach : INT64_MAX - fixed;
}

/* Returns the bytes above which a peak has no use for GOAL: it does not fit, nor does it lower the least. */
static int64_t most_wanted(const struct budget_goal *goal)
{
	return goal->bytes > goal->least || goal->schedule ? goal->bytes : goal->least;
}

/* True if a candidate of TIME is faster than GOAL's schedule, and more is tried for GOAL. */
static bool likes_time(const struct search *s, const struct budget_goal *goal, double time)
{
	return !goal_is_settled(s, goal) && search_goes_on(s, goal) && goal_is_faster(goal, time);
}

void goal_charge(const struct search *s, const struct budget_goal *goal, const struct candidate *c)
{
	double work = c->actions * ACTION_WORK;
	if (likes_time(s, goal, c->time))
		work += c->actions * WALK_WORK;
	if (s->judge && goal_wants(s, goal, c))
		work += c->steps * s->judge->step;
	search_spend(s, goal, work);
}

bool goal_wants(const struct search *s, const struct budget_goal *goal, const struct candidate *c)
{
	if (!likes_time(s, goal, c->time))
		return false;
	if (!s->judge || c->walked == 0 || c->certain)
		return true;
	const int64_t fixed = s->costs->fixed;
	const int64_t expected = fixed + (int64_t)((double)(c->walked - fixed) * s->judge->share) - s->judge->slack;
	return expected <= goal->bytes || expected < goal->least;
}

/*
 * Sets the time of C's schedule, and what goal_charge needs. Each recorded or reversed step counts as one that a judge
 * walks. A step that is advanced over counts as a fourth: the memory machine knows most of these (memory/memo.c).
 */
static void set_time(const struct search *s, struct candidate *c)
{
	struct schedule *schedule = c->schedule;
	struct action action, next;
	double forward = 0;
	c->actions = c->steps = 0;
	schedule_rewind(schedule);
	for (bool more = schedule_next(schedule, &action); more; action = next) {
		more = schedule_next(schedule, &next);
		c->actions++;
		if (action_is_on_steps(action.kind))
			c->steps += (double)(action.end - action.begin) / (action.kind == ACT_FORWARD ? 4 : 1);
		if (action.kind == ACT_FORWARD || action.kind == ACT_RECORD)
			forward += s->sums[action.end] - s->sums[action.begin];
		if (action.kind == ACT_RECORD && !action_is_read(more ? &next : NULL))
			forward -= s->unread[action.end - 1];
	}
	schedule_rewind(schedule);
	c->time = forward + s->time - s->once;
	c->timed = true;
}

/* Returns the cost walk's bytes above which no goal wants a candidate of TIME; 0: no limit. *WANTED: a goal may. */
static int64_t most_walked(const struct search *s, double time, bool *wanted)
{
	double most = 0;
	*wanted = false;
	for (size_t i = 0; i < s->count; i++) {
		const struct budget_goal *goal = &s->goals[i];
		if (!likes_time(s, goal, time))
			continue;
		const double bytes = (double)most_wanted(goal) - (double)s->costs->fixed;
		const double walked = s->judge ? (bytes + (double)s->judge->slack + 1) / s->judge->share : bytes;
		most = fmax(most, walked);
		*wanted = true;
	}
	return most < 4e18 ? s->costs->fixed + (int64_t)most + 1 : 0;
}

enum status candidate_measure(const struct search *s, struct candidate *c, bool fully)
{
	struct cost_walk_options options = {0};
	struct counters counters;
	double time;
	bool wanted;
	set_time(s, c);
	options.most = most_walked(s, c->time, &wanted);
	if (!fully && !wanted)
		return STATUS_OK;
	if (fully || c->certain)
		options.most = 0;
	enum status status = cost_walk(&s->context, c->schedule, s->costs, &options, &counters, &time);
	c->walked = counters.peak_bytes;
	if (!s->judge) {
		c->judged = true;
		c->most = options.most ? options.most : INT64_MAX;
		c->judgement = (struct judgement){.peak = counters.peak_bytes, .counters = counters};
	}
	return status;
}

/* True if C has no judgement, or the judge stopped at fewer bytes than matter to GOAL. */
static bool must_ask(const struct budget_goal *goal, const struct candidate *c)
{
	return !c->judged || (c->judgement.peak > c->most && c->most < most_wanted(goal));
}

bool candidate_is_large(const struct budget_goal *goal, const struct candidate *c)
{
	return !must_ask(goal, c) && c->judgement.peak > goal->bytes && c->judgement.peak >= goal->least;
}

enum status goal_offer(const struct search *s, struct budget_goal *goal, struct candidate *c)
{
	c->result = goal_is_faster(goal, c->time) ? TOO_LARGE : SLOWER;
	goal_charge(s, goal, c);
	if (!goal_wants(s, goal, c))
		return STATUS_OK;
	if (s->judge && must_ask(goal, c)) {
		c->most = most_wanted(goal);
		TRY(s->judge->judge(s->judge->context, c->family, c->schedule, c->most, &c->judgement));
		c->judged = true;
	}
	goal->least = lesser(c->judgement.peak, goal->least);
	if (c->judgement.peak > goal->bytes)
		return STATUS_OK;
	struct schedule *copy = schedule_copy(c->schedule);
	TRY_ALLOC(copy, s->context.diags);
	schedule_free(goal->schedule);
	*goal = (struct budget_goal){.bytes = goal->bytes,
	                             .schedule = copy,
	                             .least = goal->least,
	                             .exact = goal->exact,
	                             .near = goal->near,
	                             .family = *c->family,
	                             .time = c->time,
	                             .walked = c->walked,
	                             .peak = c->judgement.peak,
	                             .counters = c->judgement.counters};
	c->result = TAKEN;
	return STATUS_OK;
}

enum status goal_try(const struct search *s, struct budget_goal *goal, struct candidate *c, bool fully)
{
	TRY_ALLOC(c->schedule, s->context.diags);
	enum status status = s->sums ? candidate_measure(s, c, fully) : STATUS_OK;
	if (!status)
		status = goal_offer(s, goal, c);
	schedule_free(c->schedule);
	return status;
}

enum status search_offer(const struct search *s, const struct policy *family, struct schedule *schedule)
{
	struct candidate c = {.family = family, .schedule = schedule, .certain = family_is_certain(s, family)};
	TRY_ALLOC(schedule, s->context.diags);
	enum status status = candidate_measure(s, &c, false);
	for (size_t i = s->count; i-- > 0 && !status;)
		status = goal_offer(s, &s->goals[i], &c);
	schedule_free(schedule);
	return status;
}

int64_t search_next_number(int64_t number, int64_t dense, int64_t percent)
{
	return number < dense ? number + 1 : number + 1 + number * percent / 100;
}
