/*
 * Budgets that may keep states on disk: disk-revolve, with as many snapshots in memory as fit.
 * Tests: tests/scripts/check-specs, tests/cases/plan.test
 */
#include "base/checked.h"
#include "budget/budget.h"
#include "budget/equal_steps.h"
#include "memory/cost_walk.h"

/* disk-revolve with SNAPSHOTS and its judgement. SNAPSHOTS -1: no number fits. */
struct disk_plan {
	int64_t snapshots;
	struct judgement judged;
};

static struct schedule *make_disk_schedule(const struct context *context, const struct disk_offer *offer,
                                           struct policy *family, int64_t snapshots)
{
	if (!policy_make(family, POLICY_disk_revolve, snapshots, context->arena))
		return NULL;
	family->disk_bytes = offer->limited ? greater(offer->disk_bytes, 1) : 0;
	return policy_schedule(family, offer->costs, context->allocator);
}

static enum status judge_plan(const struct context *context, const struct disk_offer *offer, int64_t most,
                              struct disk_plan *plan)
{
	struct policy family;
	double time;
	struct schedule *schedule = make_disk_schedule(context, offer, &family, plan->snapshots);
	TRY_ALLOC(schedule, context->diags);
	const struct budget_judge *judge = offer->judge;
	enum status status = judge ? judge->judge(judge->context, &family, schedule, most, &plan->judged)
	                           : cost_walk(context, schedule, offer->costs, NULL, &plan->judged.counters, &time);
	if (!judge)
		plan->judged.peak = plan->judged.counters.peak_bytes;
	schedule_free(schedule);
	return status;
}

/*
 * Finds, by bisection, the most snapshots below the number of steps with which disk-revolve is within GOAL's bytes. If
 * STAGED, the copy of a state that is written while steps run counts too. 0 snapshots take the least bytes. If GOAL has
 * no schedule, these bytes, without the copy, may lower its least.
 */
static enum status most_snapshots(const struct context *context, const struct disk_offer *offer,
                                  struct budget_goal *goal, bool staged, struct disk_plan *found)
{
	int64_t low = -1, high = offer->costs->steps; /* low fits (-1: none); high does not fit or has no use */
	for (int64_t s = 0; high - low > 1; s = low + (high - low) / 2) {
		struct disk_plan plan = {.snapshots = s};
		TRY(judge_plan(context, offer, s == 0 ? INT64_MAX : goal->bytes, &plan));
		if (s == 0 && !goal->schedule)
			goal->least = lesser(plan.judged.peak, goal->least);
		const int64_t copy = staged ? plan.judged.counters.spill_state : 0;
		if (plan.judged.peak + copy <= goal->bytes) {
			low = s;
			*found = plan;
		} else {
			high = s;
		}
		if (low < 0)
			break;
	}
	found->snapshots = low;
	return STATUS_OK;
}

static double disk_time(const struct step_costs *costs, const struct counters *c)
{
	return c->recomputed_cost + (double)c->spill_writes * costs->spill_write +
	       (double)c->spill_reads * costs->spill_read;
}

/* Makes *BEST, of the limit *BYTES, the plan of OFFER with the most snapshots that fit GOAL, if that is faster. */
static enum status try_limit(const struct context *context, const struct disk_offer *offer, struct budget_goal *goal,
                             struct disk_plan *best, struct disk_offer *limit)
{
	const struct step_costs *costs = offer->costs;
	struct disk_plan plan = {.snapshots = -1};
	TRY(most_snapshots(context, offer, goal, offer->staged, &plan));
	TRY(plan.snapshots < 1 && offer->staged ? most_snapshots(context, offer, goal, false, &plan) : STATUS_OK);
	const double time = disk_time(costs, &plan.judged.counters);
	if (plan.snapshots >= 0 && (best->snapshots < 0 || time < disk_time(costs, &best->judged.counters))) {
		*best = plan;
		*limit = *offer;
	}
	return STATUS_OK;
}

/*
 * Finds the best plan of OFFER for GOAL, and its LIMIT. With fewer places on disk, other states are on disk, and more
 * snapshots may fit. A short chain is therefore tried with each of a fixed set of places up to the limit. Thus more disk
 * never costs time. Equal steps need no such trials.
 */
static enum status best_plan(const struct context *context, const struct disk_offer *offer, struct budget_goal *goal,
                             struct disk_plan *best, struct disk_offer *limit)
{
	enum { SHORT = 64, WORK = 100000, DENSE_JUDGED = 4 };
	const int64_t steps = offer->costs->steps, state = step_costs_largest_state(offer->costs);
	const int64_t most = lesser(offer->limited ? offer->disk_bytes / greater(state, 1) : steps, steps);
	const int64_t dense = offer->judge ? DENSE_JUDGED : WORK / (steps * steps);
	TRY(try_limit(context, offer, goal, best, limit));
	if (steps > SHORT || equal_steps_apply(offer->costs))
		return STATUS_OK;
	for (int64_t places = 0; places <= most; places = places < dense ? places + 1 : 2 * places) {
		struct disk_offer fewer = *offer;
		fewer.limited = true;
		fewer.disk_bytes = places * state;
		TRY(try_limit(context, &fewer, goal, best, limit));
	}
	return STATUS_OK;
}

enum status budget_offer_disk(const struct context *context, const struct disk_offer *offer, struct budget_goal *goal)
{
	const struct step_costs *costs = offer->costs;
	struct disk_plan plan = {.snapshots = -1};
	struct disk_offer limit;
	double time;
	if (costs->steps < 2)
		return STATUS_OK;
	TRY(best_plan(context, offer, goal, &plan, &limit));
	if (plan.snapshots < 0)
		return STATUS_OK;
	const struct counters *c = &plan.judged.counters;
	if (goal->schedule && !offer->judge) /* the search of a long chain leaves its counters zero */
		TRY(cost_walk(context, goal->schedule, costs, NULL, &goal->counters, &time));
	if (goal->schedule && goal->counters.recomputed_cost <= disk_time(costs, c))
		return STATUS_OK;
	schedule_free(goal->schedule);
	goal->counters = *c;
	goal->peak = plan.judged.peak;
	goal->schedule = make_disk_schedule(context, &limit, &goal->family, plan.snapshots);
	TRY_ALLOC(goal->schedule, context->diags);
	return STATUS_OK;
}

enum status budget_least_on_disk(const struct context *context, const struct disk_offer *offer, int64_t *least)
{
	struct disk_plan plan = {.snapshots = 0};
	if (offer->costs->steps < 2)
		return STATUS_OK;
	TRY(judge_plan(context, offer, INT64_MAX, &plan));
	*least = lesser(plan.judged.peak, *least);
	return STATUS_OK;
}
