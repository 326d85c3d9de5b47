/*
 * budget:BYTES: the least recomputation whose peak is within so many bytes.
 *
 * What is decided here is which schedules are tried. They come from
 *   - the persistent schedule of least peak (persistent.c);
 *   - the best persistent schedules for a memory in units (persistent.c);
 *   - the other policies, with each number of a fixed set;
 *   - binomial checkpointing of parts of q steps with S snapshots (revolve.c), for
 *     a fixed set of q and S.
 * Each is put through the verifier, and then the judge says what it takes in truth;
 * the fastest that fits is taken. Nothing rests on a prediction but the choice.
 * One search is for any number of budgets, the goals: each is offered what it would
 * be offered alone, in the same order, of candidates that are made once.
 *
 * Invariant: which schedules are tried depends on the budget only so that more
 * bytes never lose one: the sets are fixed, units depend on the chain alone (2^-g of
 * what save-all takes, for those g whose range is more than half the budget: each as
 * small as the room for tables allows, which is known before they are made), and of a
 * table's levels, up to the budget and SLACK, the highest whose schedule fits is sought
 * along a fixed ladder; where a judge says that there will be a run, small tables are
 * made for all budgets, finer ones beside them for budgets that leave the steps more
 * than the tables take, so that planning takes no more than the run will. So the cost
 * does not rise with the budget. Where one unit divides all sizes, and the verifier is
 * the judge, the tables are exact.
 *
 * Up to MANY steps there are tables (budget_tables.c); equal steps beyond that are
 * planned by closed forms (budget_long.c).
 */
#include "budget/search_parts.h"

static enum status offer_family(const struct search *s, const struct policy *family)
{
	return search_offer(s, family, policy_schedule(family, s->costs, s->allocator));
}

/*
 * The policies with one number or none; up to NUMBERED steps every number of them, at
 * first, and beyond that those of every:N, whose walks are short.
 */
static enum status offer_families(const struct search *s)
{
	static const enum policy_kind kinds[] = {POLICY_recursive, POLICY_sqrt, POLICY_every, POLICY_revolve,
	                                         POLICY_online};
	int64_t steps = s->costs->steps;
	enum status status = STATUS_OK;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		bool numbered = policy_table[kinds[i]].argument != NULL;
		int64_t most = !numbered ? 1 : steps <= NUMBERED || kinds[i] == POLICY_every ? steps - 1 : 0;
		for (int64_t number = 1; number <= most && !status; number = search_next_number(number, 24, 20)) {
			struct policy family = {.kind = kinds[i], .number = number};
			status = offer_family(s, &family);
		}
	}
	return status;
}

static enum status offer_parts(const struct search *s)
{
	int64_t steps = s->costs->steps;
	enum status status = STATUS_OK;
	for (int64_t length = 1; length <= steps; length = search_next_number(length, 4, 40))
		for (int64_t snapshots = 1; snapshots < (steps + length - 1) / length && !status;
		     snapshots = search_next_number(snapshots, 8, 30)) {
			struct policy family = {.kind = POLICY_revolve, .number = snapshots, .length = length};
			status = offer_family(s, &family);
		}
	return status;
}

static bool all_equal(const struct step_costs *costs)
{
	const struct step_cost *first = &costs->runs[0].cost;
	for (size_t i = 1; i < costs->run_count; i++) {
		const struct step_cost *cost = &costs->runs[i].cost;
		if (cost->state != first->state || cost->residual != first->residual || cost->forward < first->forward ||
		    cost->forward > first->forward || cost->keeps_input != first->keeps_input ||
		    cost->keeps_output != first->keeps_output)
			return false;
	}
	return true;
}

/* Save-all to all goals, and its range. *OPEN: some are not settled by that. */
static enum status offer_save_all(struct search *s, bool *open)
{
	struct candidate c = {.family = &policy_save_all};
	enum verdict_on on;
	bool right = true;
	*open = false;
	c.schedule = policy_schedule(&policy_save_all, s->costs, s->allocator);
	enum status status = c.schedule ? candidate_verify(s, &c, true, &right) : diag_memory(s->diags);
	for (size_t i = 0; i < s->count && !status && right; i++) {
		status = goal_offer(s, &s->goals[i], &c, &on);
		*open |= !s->goals[i].schedule;
	}
	schedule_free(c.schedule);
	s->range = c.peak - s->costs->fixed;
	return status;
}

static enum status search_all(struct search *s)
{
	const struct step_costs *costs = s->costs;
	bool open;
	enum status status = offer_save_all(s, &open);
	if (status || !open || costs->steps <= 1)
		return status;
	const bool tables = costs->steps <= MANY || (costs->steps <= GROUPED && !all_equal(costs));
	if (tables)
		status = search_tables(s);
	if (costs->steps <= GROUPED && status == STATUS_OK)
		status = offer_families(s);
	if (tables && status == STATUS_OK && costs->steps <= MANY)
		return offer_parts(s);
	return status ? status : search_long(s);
}

enum status budget_search(const struct context *context, const struct step_costs *costs,
                          const struct budget_judge *judge, struct budget_goal *goals, size_t count)
{
	const struct allocator *allocator = context->allocator;
	struct search s = {.costs = costs,
	                   .judge = judge,
	                   .allocator = allocator,
	                   .diags = context->diags,
	                   .goals = goals,
	                   .count = count,
	                   .levels = allocator_get(allocator, 2 * count, sizeof *s.levels)};
	for (size_t i = 0; i < count; i++)
		goals[i] = (struct budget_goal){.bytes = goals[i].bytes, .least = INT64_MAX};
	s.rests = s.levels ? s.levels + count : NULL;
	enum status status = s.levels ? search_all(&s) : diag_memory(context->diags);
	allocator_put(allocator, s.levels, 2 * count * sizeof *s.levels);
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
	*least = goal.schedule ? 0 : goal.least; /* a chain that takes nothing fits in nothing */
	schedule_free(goal.schedule);
	return status;
}

enum status budget_infeasible(int64_t bytes, int64_t least, const char *option, struct diags *diags)
{
	enum status status =
		diag_file(diags, STATUS_LIMIT, NULL, -1, "the chain cannot be reversed in %lld bytes: the least is %lld bytes",
	              (long long)bytes, (long long)least);
	diag_hint(diags, "use %s%lld or more", option, (long long)least);
	return status;
}

enum status budget_schedule(const struct context *context, const struct step_costs *costs, int64_t bytes,
                            const char *option, struct schedule **schedule)
{
	struct budget_goal goal = {.bytes = bytes};
	enum status status = budget_search(context, costs, NULL, &goal, 1);
	*schedule = goal.schedule;
	return status || goal.schedule ? status : budget_infeasible(bytes, goal.least, option, context->diags);
}
