/*
 * budget:BYTES: finds a fast schedule whose peak is at most BYTES.
 *
 * This file decides which schedules are tried, in this order:
 *
 *     save-all           and no other if that fits all budgets
 *     equal_chain.c      the best persistent schedule of equal steps between a short head and a short tail
 *     persistent.c       the persistent schedule of least peak, for at most LEAST_PARTS parts
 *     front_goals.c      the best persistent schedules of at most FRONTS_STEPS_MOST steps
 *     tables.c           the best persistent schedules for a memory in quanta
 *     families.c         recursive, sqrt, every:N, revolve:S and online:S, with numbers of a fixed set; and binomial
 *                        checkpointing of parts of q steps with S snapshots (schedule/revolve.c)
 *     long_chains.c      the latter for longer chains
 *
 * If the schedule of equal_chain.c is exact, no tables follow, unless there is a judge, and a head or a tail. Families then
 * follow only with a judge and for at most NUMBERED steps. No tables follow fronts that are within a percent of the best.
 *
 * The cost walk says whether a schedule is in a goal's reach (budget.h), and the judge says how many bytes it takes.
 * The goal takes the fastest that fits. With a judge, a wrong cost walk can lose a schedule, but exceeds no budget.
 *
 * One search serves any number of budgets, the goals. Each goal is offered the same candidates in the same order as
 * alone. Except in search_long, a candidate is timed and walked once, and judged again only if the judge stopped early.
 *
 * Invariant: more bytes never lose a schedule, so they never cost time.
 *   - The sets are fixed.
 *   - Quanta depend on the chain alone. A range is save-all's bytes times 2^-g. Each range above half the budget
 *     has one quantum: the smallest whose tables are small enough. Their size is known before they are made.
 *   - Of a table's levels, up to the budget and SLACK, the search finds the highest whose schedule fits along a fixed
 *     ladder.
 *
 * Small tables are made for all budgets, and finer ones for budgets that leave the steps more bytes than the finer tables
 * take. If there is a judge, a run follows: thus planning takes at most the memory of the run or of small tables. If the
 * cost walk is the judge, tables whose quantum divides all sizes are exact, as far as their levels reach. They may be large
 * even for small budgets, if each part is a step.
 *
 * Before a short run less is tried (struct effort): planning takes at most about a tenth of the run's predicted cost. The
 * search ends once a goal's work is spent. Then the invariant does not hold, and the gap says how much is lost at most.
 *
 * Chains of up to MANY steps have tables, and those of unequal steps up to GROUPED. Closed forms plan all chains of
 * more than MANY steps, beside tables.
 * Tests: tests/unit/test_budget.c, tests/cases/plan.test
 */
#include "budget/search_parts.h"

#include <math.h>

#include "base/checked.h"
#include "budget/bound.h"
#include "budget/equal_chain.h"
#include "memory/cost_walk.h"

/* Offers save-all to all goals, and sets the search's time and range. *OPEN: it does not fit some goal. */
static enum status offer_save_all(struct search *s, bool *open)
{
	struct candidate c = {.family = &policy_save_all, .timed = true, .judged = !s->judge, .most = INT64_MAX};
	struct counters *counters = &c.judgement.counters;
	*open = false;
	c.schedule = policy_schedule(&policy_save_all, s->costs, s->context.allocator);
	TRY_ALLOC(c.schedule, s->context.diags);
	enum status status = cost_walk(&s->context, c.schedule, s->costs, NULL, counters, &s->time);
	c.time = s->time;
	s->once = counters->forward_cost;
	c.judgement.peak = counters->peak_bytes;
	s->range = c.judgement.peak - s->costs->fixed;
	for (size_t i = 0; i < s->count && !status; i++) {
		status = goal_offer(s, &s->goals[i], &c);
		*open |= !s->goals[i].schedule;
	}
	schedule_free(c.schedule);
	return status;
}

void search_spend(const struct search *s, const struct budget_goal *goal, double work)
{
	s->remaining[goal - s->goals] -= work;
}

bool search_goes_on(const struct search *s, const struct budget_goal *goal)
{
	/* A goal without a schedule gets as much work again. */
	return s->remaining[goal - s->goals] > (goal->schedule ? 0 : -s->effort.most);
}

bool search_continues(const struct search *s)
{
	bool any = false;
	for (size_t i = 0; i < s->count; i++)
		any |= !goal_is_settled(s, &s->goals[i]) && search_goes_on(s, &s->goals[i]);
	return any;
}

/*
 * Sets S->equal, if candidates can be timed. With a judge, also sets S->costs to costs nearer to it (last_temporary). False
 * if out of memory.
 */
static bool find_equal(struct search *s)
{
	const struct step_costs *costs = s->costs;
	if (!s->sums || !equal_chain_find(&s->chain, costs))
		return true;
	s->equal = &s->chain;
	const struct step_cost equal = s->chain.cost;
	if (!s->judge)
		return true;
	struct step_run *runs = arena_array(s->context.arena, costs->run_count, sizeof *runs);
	for (size_t i = 0; i < costs->run_count && runs; i++) {
		runs[i] = costs->runs[i];
		if (equal_costs(&runs[i].cost, &equal))
			runs[i].cost.record_temporary = equal.last_temporary;
	}
	s->nearer = *costs;
	s->nearer.runs = runs;
	s->costs = &s->nearer;
	return runs && equal_chain_find(&s->chain, s->costs);
}

bool search_needs_no_tables(const struct search *s)
{
	bool none = true;
	for (size_t i = 0; i < s->count; i++)
		none &= s->goals[i].near || goal_is_settled(s, &s->goals[i]) || !search_goes_on(s, &s->goals[i]);
	return none;
}

static enum status search_all(struct search *s)
{
	const int64_t steps = s->costs->steps;
	bool open, solved = false;
	TRY(offer_save_all(s, &open));
	if (!open || steps <= 1)
		return STATUS_OK;
	TRY_ALLOC(find_equal(s), s->context.diags);
	if (s->equal)
		TRY(s->judge ? search_equal_judged(s) : search_equal(s, &solved));
	if (solved)
		return STATUS_OK;
	s->closed = s->equal != NULL;
	/*
	 * The work may be spent before tables have more than the schedule of least peak, which may be very slow. Where
	 * memory has holes, all that tables find may be slower.
	 */
	if (s->sums && steps > FRONTS_STEPS_MOST)
		TRY(search_quickly(s));
	const bool tables = steps <= MANY || (s->sums && !equal_steps_apply(s->costs));
	TRY(tables && !search_needs_no_tables(s) ? search_tables(s) : STATUS_OK);
	s->closed &= !families_are_certain(s);
	if (!search_continues(s))
		return STATUS_OK;
	TRY(s->sums ? search_families(s) : STATUS_OK);
	return steps <= MANY ? STATUS_OK : search_long(s);
}

/*
 * Sets the effort, by rough costs in additions:
 *
 *     160 * blocks^3    the bounds of all tables
 *     400               a step of a schedule that is made, timed, walked and judged
 *     15                a sum of a table; a budget has up to three large tables
 *     750               a cell of a table of equal steps, for all tables of a budget
 *     POINT_WORK        a point of fronts that is compared
 *
 * Each part may take about a quarter of the allowed work, and tables all of it. WALKED limits the schedules even without
 * a judge. Tables of equal steps may take LEAST_EQUAL, a tenth of a second or two, so that they are exact.
 *
 * Thus the sets of candidates do not depend on a budget. The work for a goal is counted by search_parts.h's costs
 * (search_spend), and ends once the judge's limit is reached.
 */
static void set_effort(struct search *s)
{
	static const double least = 1e8, least_sums = 8e6, least_equal = 1e9, unlimited = 1e12, walked = 2.4e10;
	const double steps = (double)s->costs->steps, work = s->judge ? fmax(s->judge->run / 10, least) : unlimited;
	const double blocks = fmin(cbrt(work / 160), BLOCKS), walks = fmin(work, walked) / 4 / (400 * steps);
	const double tries = fmin(walks, TRIES), most = s->judge && s->judge->most > 0 ? s->judge->most : INFINITY;
	s->effort = (struct effort){.blocks = (int64_t)blocks,
	                            .parts = blocks < BLOCKS ? (int64_t)pow(blocks, 1.5) : MANY,
	                            .tries = (int64_t)fmax(tries, 2),
	                            .sums = fmin(fmax(work / 40, least_sums), 7e8),
	                            .cells = (size_t)(fmax(work, least_equal) / 750),
	                            .points = (int64_t)fmin(work / (4 * POINT_WORK), FRONTS_COMPARED_MOST),
	                            .thin = fmax(450 / walks, 1),
	                            .most = equal_steps_apply(s->costs) ? fmax(most, least_equal) : most};
}

/* Allocates the arrays of S, and fills its sums for at most GROUPED steps, or GROUPED_EQUAL equal ones. False if out of memory. */
static bool search_begin(struct search *s)
{
	struct arena *arena = s->context.arena;
	const struct step_costs *costs = s->costs;
	s->levels = arena_array(arena, s->count, sizeof *s->levels);
	s->remaining = arena_array(arena, s->count, sizeof *s->remaining);
	for (size_t i = 0; i < s->count && s->remaining; i++)
		s->remaining[i] = s->effort.most;
	s->rests = arena_array(arena, s->count, sizeof *s->rests);
	if (costs->steps > (equal_steps_apply(costs) ? GROUPED_EQUAL : GROUPED))
		return !arena->failed;
	double *sum = s->sums = arena_array(arena, (size_t)costs->steps + 1, sizeof *s->sums);
	double *unread = s->unread = arena_array(arena, (size_t)costs->steps + 1, sizeof *s->unread);
	for (size_t run = 0; !arena->failed && run < costs->run_count; run++) {
		const struct step_cost *cost = &costs->runs[run].cost;
		for (int64_t i = 0; i < costs->runs[run].count; i++, sum++) {
			sum[1] = sum[0] + cost->forward;
			*unread++ = cost->forward - cost->record;
		}
	}
	return !arena->failed;
}

struct bound_limits search_bound_limits(const struct search *s, const struct budget_goal *goal)
{
	return (struct bound_limits){search_equal_cells(s, goal), search_fronts_limits(s, goal)};
}

/*
 * Sets the gap of COUNTERS from LEAST, a bound for the forward time by the cost walk, where the schedule takes TIME. The
 * counters may have more, which no schedule saves: the output's value, and what regions recompute.
 */
static void gap_from(struct counters *counters, double time, double least)
{
	least += counters->forward_cost + counters->recomputed_cost - time;
	time = counters->forward_cost + counters->recomputed_cost;
	counters->bounded = true;
	counters->gap_percent = time > least && least > 0 ? 100 * (time - least) / least : 0;
}

enum status budget_gap(const struct context *context, const struct step_costs *costs, int64_t bytes,
                       struct counters *counters)
{
	const struct bound_limits limits = {EQUAL_CELLS_MOST, {FRONTS_COMPARED_MOST, FRONTS_HELD_MOST}};
	double least;
	if (!budget_bound(costs, bytes, limits, context->allocator, &least))
		return diag_memory(context->diags);
	gap_from(counters, counters->forward_cost + counters->recomputed_cost, least);
	return STATUS_OK;
}

/*
 * Returns the bytes of the cost walk beyond costs->fixed that stand for GOAL's bytes by the judge. The judge is taken to
 * count as much less than the walk for every schedule as it does for GOAL's, and never more.
 */
static int64_t walked_bytes(const struct search *s, const struct budget_goal *goal)
{
	const int64_t fixed = s->costs->fixed, bytes = goal->bytes - fixed;
	const double ratio = (double)(goal->walked - fixed) / fmax((double)(goal->peak - fixed), 1);
	const double walked = s->judge ? (double)bytes * fmax(ratio, 1) : 0;
	return walked < 4e18 ? greater(bytes, (int64_t)walked) : bytes;
}

/* Sets the gap of GOAL's schedule, if there is one and its counters are known. */
static enum status set_gap(const struct search *s, struct budget_goal *goal)
{
	goal->exact |= goal_is_settled(s, goal);
	if (!goal->schedule || (!s->judge && !s->sums))
		return STATUS_OK;
	goal->counters.bounded = true;
	if (goal->exact)
		return STATUS_OK;
	double least;
	if (!budget_bound(s->costs, walked_bytes(s, goal), search_bound_limits(s, goal), s->context.allocator, &least))
		return diag_memory(s->context.diags);
	const struct counters *c = &goal->counters;
	gap_from(&goal->counters, s->sums ? goal->time - s->time + s->once : c->forward_cost + c->recomputed_cost, least);
	return STATUS_OK;
}

enum status budget_search(const struct context *context, const struct step_costs *costs,
                          const struct budget_judge *judge, struct budget_goal *goals, size_t count)
{
	struct arena arena;
	struct search s = {.context = {context->allocator, &arena, context->diags},
	                   .costs = costs,
	                   .judge = judge,
	                   .goals = goals,
	                   .count = count};
	arena_init(&arena, context->allocator);
	set_effort(&s);
	for (size_t i = 0; i < count; i++)
		goals[i] = (struct budget_goal){.bytes = goals[i].bytes, .least = INT64_MAX};
	enum status status = search_begin(&s) ? search_all(&s) : diag_memory(context->diags);
	for (size_t i = 0; i < count && !status; i++)
		status = set_gap(&s, &goals[i]);
	arena_free(&arena);
	for (size_t i = 0; i < count && status; i++) {
		schedule_free(goals[i].schedule);
		goals[i].schedule = NULL;
	}
	return status;
}

enum status budget_least(const struct context *context, const struct step_costs *costs, int64_t *least)
{
	struct budget_goal goal = {.bytes = 0};
	enum status status = budget_search(context, costs, NULL, &goal, 1);
	*least = goal.schedule ? 0 : goal.least; /* save-all of a chain without bytes fits in 0 bytes */
	schedule_free(goal.schedule);
	return status;
}

enum status budget_infeasible(int64_t bytes, int64_t least, bool by_memory, struct diags *diags)
{
	const char *option = !by_memory ? "budget:" : diags->library ? "a 'memory' of " : "--memory ";
	diag_file(diags, STATUS_LIMIT, NULL, -1,
	          "cannot run the backward pass within %lld byte%s; the least that works is %lld bytes", (long long)bytes,
	          bytes == 1 ? "" : "s", (long long)least);
	return diag_hint(diags, "use %s%lld or more", option, (long long)least);
}

enum status budget_schedule(const struct context *context, const struct step_costs *costs,
                            const struct disk_offer *disk, bool by_memory, struct budget_goal *goal)
{
	TRY(budget_search(context, costs, NULL, goal, 1));
	const enum status status = disk ? budget_offer_disk(context, disk, goal) : STATUS_OK;
	if (status) {
		schedule_free(goal->schedule);
		goal->schedule = NULL;
		return status;
	}
	return goal->schedule ? STATUS_OK : budget_infeasible(goal->bytes, goal->least, by_memory, context->diags);
}
