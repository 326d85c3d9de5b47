/*
 * Budgets that may keep states on disk: disk-revolve, with as many snapshots in memory as fit.
 */
#include "base/checked.h"
#include "budget/budget.h"
#include "memory/cost_walk.h"

/* disk-revolve with SNAPSHOTS and its judgement. SNAPSHOTS -1: no number fits. */
struct disk_plan {
	int64_t snapshots;
	struct judgement judged;
};

static struct schedule *make_schedule(const struct context *context, const struct disk_offer *offer,
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
	struct schedule *schedule = make_schedule(context, offer, &family, plan->snapshots);
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

enum status budget_offer_disk(const struct context *context, const struct disk_offer *offer, struct budget_goal *goal)
{
	const struct step_costs *costs = offer->costs;
	struct disk_plan plan = {.snapshots = -1};
	if (costs->steps < 2)
		return STATUS_OK;
	TRY(most_snapshots(context, offer, goal, offer->staged, &plan));
	TRY(plan.snapshots < 1 && offer->staged ? most_snapshots(context, offer, goal, false, &plan) : STATUS_OK);
	if (plan.snapshots < 0)
		return STATUS_OK;
	const struct counters *c = &plan.judged.counters;
	const double disk = (double)c->spill_writes * costs->spill_write + (double)c->spill_reads * costs->spill_read;
	double time;
	if (goal->schedule && !offer->judge) /* the search of a long chain leaves its counters zero */
		TRY(cost_walk(context, goal->schedule, costs, NULL, &goal->counters, &time));
	if (goal->schedule && goal->counters.recomputed_cost <= c->recomputed_cost + disk)
		return STATUS_OK;
	schedule_free(goal->schedule);
	goal->counters = *c;
	goal->peak = plan.judged.peak;
	goal->schedule = make_schedule(context, offer, &goal->family, plan.snapshots);
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
