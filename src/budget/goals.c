/*
 * What is offered to a search's goals: each candidate is put through the verifier,
 * then, where some goal may want it, the judge says what it takes in truth, and each
 * goal takes what fits and is the fastest so far.
 */
#include "budget/search_parts.h"

bool goal_is_settled(const struct budget_goal *goal) { return goal->schedule && goal->family.kind == POLICY_save_all; }

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

/* Bytes that a schedule takes at least, whose peak is PEAK by the verifier. */
static int64_t truth_of(const struct search *s, int64_t peak)
{
	const int64_t fixed = s->costs->fixed;
	return s->judge ? fixed + (int64_t)((double)(peak - fixed) * s->judge->share) - s->judge->slack : peak;
}

bool goal_is_faster(const struct budget_goal *goal, double time)
{
	return !goal->schedule || time < goal->time * (1 - 1e-12);
}

bool goal_may_want(const struct search *s, const struct budget_goal *goal, double time, int64_t peak)
{
	const int64_t truth = truth_of(s, peak);
	return !goal_is_settled(goal) && goal_is_faster(goal, time) && (truth <= goal->bytes || truth < goal->least);
}

/* A schedule's time and peak only grow as it is walked: where no goal wants it any more the walk ends. */
struct walk {
	const struct search *search;
	size_t goal; /* the first that may want it */
};

static bool is_wanted(void *context, const struct verdict *verdict)
{
	struct walk *walk = context;
	const struct search *s = walk->search;
	while (walk->goal < s->count && !goal_may_want(s, &s->goals[walk->goal], verdict->time, verdict->peak))
		walk->goal++;
	return walk->goal < s->count;
}

enum status candidate_verify(const struct search *s, struct candidate *c, bool fully, bool *right)
{
	struct walk walk = {.search = s};
	const struct schedule_watch watch = {.wanted = is_wanted, .context = &walk};
	struct verdict verdict;
	*right = true;
	if (c->verified)
		return STATUS_OK;
	enum status status =
		schedule_follow(c->schedule, s->costs, s->allocator, fully ? NULL : &watch, &verdict, s->diags);
	*right = !status && verdict.valid;
	c->verified = *right;
	c->time = verdict.time;
	c->peak = verdict.peak;
	return status;
}

/* The bytes beyond which GOAL does not care what something takes. */
static int64_t most_of(const struct budget_goal *goal)
{
	return goal->bytes > goal->least || goal->schedule ? goal->bytes : goal->least;
}

bool goal_must_ask(const struct budget_goal *goal, const struct candidate *c)
{
	return !c->judged || (c->truth > c->most && c->most < most_of(goal));
}

static enum status ask_judge(const struct search *s, const struct budget_goal *goal, struct candidate *c)
{
	enum status status = STATUS_OK;
	if (!s->judge) {
		c->truth = c->peak;
		return STATUS_OK;
	}
	if (!goal_must_ask(goal, c))
		return STATUS_OK;
	struct judgement judgement = {0};
	c->most = most_of(goal);
	status = s->judge->judge(s->judge->context, c->family, c->schedule, c->most, &judgement);
	c->truth = judgement.peak;
	c->counters = judgement.counters;
	c->judged = !status;
	return status;
}

enum status goal_offer(const struct search *s, struct budget_goal *goal, struct candidate *c, enum verdict_on *on)
{
	*on = goal_is_faster(goal, c->time) ? TOO_LARGE : SLOWER;
	if (!goal_may_want(s, goal, c->time, c->peak))
		return STATUS_OK;
	enum status status = ask_judge(s, goal, c);
	if (status)
		return status;
	goal->least = c->truth < goal->least ? c->truth : goal->least;
	if (c->truth > goal->bytes)
		return STATUS_OK;
	struct schedule *copy = schedule_copy(c->schedule);
	if (!copy)
		return diag_memory(s->diags);
	schedule_free(goal->schedule);
	goal->schedule = copy;
	goal->family = *c->family;
	goal->counters = c->counters;
	goal->time = c->time;
	goal->peak = c->truth;
	*on = TAKEN;
	return STATUS_OK;
}

enum status search_offer(const struct search *s, const struct policy *family, struct schedule *schedule)
{
	struct candidate c = {.family = family, .schedule = schedule};
	enum verdict_on on;
	bool right;
	if (!schedule)
		return diag_memory(s->diags);
	enum status status = candidate_verify(s, &c, false, &right);
	for (size_t i = s->count; i-- > 0 && !status && right;)
		status = goal_offer(s, &s->goals[i], &c, &on);
	schedule_free(schedule);
	return status;
}

int64_t search_next_number(int64_t number, int64_t dense, int64_t percent)
{
	return number < dense ? number + 1 : number + 1 + number * percent / 100;
}
