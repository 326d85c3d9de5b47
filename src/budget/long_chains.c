/*
 * Chains of more than MANY steps: binomial checkpointing of parts of q steps with S snapshots. A bound says how many
 * bytes are enough: it counts each of a step's sizes at its largest, and one state more than may be needed. So a choice
 * needs closed forms alone, which take hardly longer for more steps.
 * Tests: tests/cases/plan.test, tests/unit/test_budget.c, tests/scripts/check-budgets
 */
#include "budget/search_parts.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "memory/cost_walk.h"

/* Returns a step whose sizes are the largest of all steps. Residuals include a kept input, if no output is kept. */
static struct step_cost largest_cost(const struct step_costs *costs)
{
	struct step_cost large = {.state = costs->output};
	for (size_t i = 0; i < costs->run_count; i++) {
		const struct step_cost *cost = &costs->runs[i].cost;
		int64_t kept = cost->residual + (cost->keeps_input && !cost->keeps_output ? cost->state : 0);
		large.state = greater(cost->state, large.state);
		large.residual = greater(kept, large.residual);
		large.forward_temporary = greater(cost->forward_temporary, large.forward_temporary);
		large.record_temporary = greater(cost->record_temporary, large.record_temporary);
		large.backward_temporary = greater(cost->backward_temporary, large.backward_temporary);
	}
	return large;
}

/* Parts of LENGTH steps with SNAPSHOTS, the bytes that are enough for them, and their time in mean forward executions. */
struct choice {
	int64_t bytes, length, snapshots;
	double time;
};

struct choices {
	const struct step_costs *costs;
	struct step_cost large;
	double saved; /* what a mean step costs less, in forward executions, if nothing reads the state after it */
	int64_t most; /* limit on a choice's bytes */
	struct choice *rows;
	size_t capacity, count;
	struct arena *arena;
};

static struct policy policy_of(int64_t length, int64_t snapshots)
{
	return (struct policy){.kind = POLICY_revolve, .number = snapshots, .length = length};
}

/* Returns that choice. Its bytes are enough to record, to reverse, and to advance a part, with all SNAPSHOTS held. */
static struct choice choice_of(const struct choices *c, int64_t length, int64_t snapshots)
{
	const struct step_cost *large = &c->large;
	const struct policy policy = policy_of(length, snapshots);
	const __int128 states = (__int128)large->state * (snapshots + 3), kept = (__int128)large->residual * length;
	const __int128 recorded = kept + greater(large->record_temporary, large->backward_temporary);
	const __int128 most = recorded > large->forward_temporary ? recorded : large->forward_temporary;
	const int64_t steps = c->costs->steps - c->costs->head;
	const double evaluations = (double)policy_evaluations(&policy, steps) + (double)c->costs->head;
	/* Nothing reads the state after the last step of a part. */
	return (struct choice){.bytes = saturated(c->costs->fixed + states + most),
	                       .length = length,
	                       .snapshots = snapshots,
	                       .time = evaluations - c->saved * (double)ceil_div(steps, length)};
}

/* Adds the choice of LENGTH and SNAPSHOTS to TO. False, and it is not added, if its bytes exceed to->most. */
static bool add_choice(struct choices *to, int64_t length, int64_t snapshots)
{
	const struct choice choice = choice_of(to, length, snapshots);
	if (choice.bytes > to->most)
		return false;
	struct choice *row = arena_append(to->arena, &to->rows, &to->count, &to->capacity, sizeof *row);
	if (row)
		*row = choice;
	return true;
}

/* Adds pairs of a fixed set; and for each number of either, the least other by which no part is advanced over twice. */
static void list_choices(struct choices *to)
{
	const int64_t steps = to->costs->steps;
	for (int64_t snapshots = 1; snapshots < steps; snapshots = search_next_number(snapshots, 64, 5)) {
		(void)add_choice(to, ceil_div(steps, snapshots + 1), snapshots);
		for (int64_t length = 1; length <= steps; length = search_next_number(length, 64, 3))
			if (!add_choice(to, length, snapshots))
				break;
	}
	for (int64_t length = 1; length < steps; length = search_next_number(length, 64, 3))
		(void)add_choice(to, length, (steps - 1) / length);
	const int64_t root = (int64_t)ceil(sqrt((double)steps)); /* sqrt's own, which the sets may just miss */
	(void)add_choice(to, root, (steps - 1) / root);
}

static int by_bytes(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return (x->time > y->time) - (x->time < y->time);
}

/* Sorts COUNT CHOICES to their Pareto front: rising bytes, falling times. Returns the number of choices left. */
static size_t keep_front(struct choice *choices, size_t count)
{
	size_t kept = 0;
	if (count)
		qsort(choices, count, sizeof *choices, by_bytes);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || choices[i].time < choices[kept - 1].time)
			choices[kept++] = choices[i];
	return kept;
}

/*
 * Offers CHOICE to GOAL. *FITS: CHOICE fits, or is slower than GOAL's schedule. Without a judge, chains of more than
 * GROUPED steps are judged by the bound, since the cost walk would take long.
 */
static enum status offer_choice(const struct search *s, struct budget_goal *goal, const struct choice *choice,
                                bool *fits)
{
	const struct policy family = policy_of(choice->length, choice->snapshots);
	const bool bound = !s->judge && !s->sums;
	struct candidate c = {.family = &family,
	                      .time = choice->time,
	                      .judged = bound,
	                      .most = INT64_MAX,
	                      .judgement.peak = choice->bytes,
	                      .schedule = policy_schedule(&family, s->costs, s->context.allocator)};
	const enum status status = goal_try(s, goal, &c, false);
	*fits = c.result != TOO_LARGE;
	return status;
}

/* Returns the index of the last of COUNT choices, by rising bytes, that has at most BYTES; -1 if there is none. */
static int64_t last_within(const struct choice *choices, size_t count, double bytes)
{
	int64_t low = -1, high = (int64_t)count;
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;
		if ((double)choices[middle].bytes <= bytes)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * Offers GOAL choices of ever fewer bytes until one fits or is slow. The bytes tried are rungs of a ladder that depends
 * on the chain alone: first each COARSE-th rung. Then the gap between the choice that fits and the one above it is
 * searched likewise, by each FINER-th rung, by each rung, and at last by each choice.
 */
static enum status offer_choices(const struct search *s, struct budget_goal *goal, const struct choice *choices,
                                 size_t count)
{
	enum { COARSE = 32, FINER = 8 };
	const double fixed = (double)s->costs->fixed, growth = log(1.025);
	const double least = fmax((double)choices[0].bytes - fixed, 1);
	int top = (int)(log(fmax((double)choices[count - 1].bytes - fixed, 1) / least) / growth) / COARSE * COARSE + COARSE;
	int below = 0;                             /* the rungs from here to `top` are untried */
	int64_t best = -1, above = (int64_t)count; /* the choice that fits, or is slow, and the next that does not */
	bool fits = false;
	for (int step = COARSE; step > 0; step = step == COARSE ? FINER : step == FINER ? 1 : 0) {
		int rung = top;
		for (; rung >= below; rung -= step) {
			int64_t i = last_within(choices, count, fixed + least * exp(rung * growth));
			if (i >= above || i <= best)
				continue;
			TRY(offer_choice(s, goal, &choices[i], &fits));
			if (fits) {
				best = i;
				break;
			}
			above = i;
		}
		below = rung < below ? below : rung + 1;
		top = rung + step - 1;
	}
	for (fits = false; above - 1 > best && !fits;)
		TRY(offer_choice(s, goal, &choices[--above], &fits));
	return STATUS_OK;
}

/*
 * Returns the largest bound of the choices for GOAL. A choice may take fewer bytes than its bound, above all if steps
 * are unequal or small. So bounds above the budget are tried too, unless the bound alone decides what fits.
 */
static int64_t most_bound(const struct search *s, const struct budget_goal *goal)
{
	enum { EQUAL = 2, UNEQUAL = 8, SMALL = 16 << 10 };
	const int64_t times = s->sums && s->costs->run_count > 1 ? UNEQUAL : EQUAL;
	const __int128 available = (__int128)goal->bytes - s->costs->fixed;
	return saturated(s->costs->fixed + (s->judge || s->sums ? available * times + SMALL : available));
}

/* Offers GOAL, which has no schedule, SMALLEST. If no judge says what that takes, the cost walk does. */
static enum status offer_smallest(const struct search *s, struct budget_goal *goal, struct choice smallest)
{
	bool fits;
	if (!s->judge && !s->sums) {
		const struct policy family = policy_of(smallest.length, smallest.snapshots);
		struct schedule *schedule = policy_schedule(&family, s->costs, s->context.allocator);
		struct counters counters;
		double time;
		TRY_ALLOC(schedule, s->context.diags);
		const enum status status = cost_walk(&s->context, schedule, s->costs, NULL, &counters, &time);
		schedule_free(schedule);
		TRY(status);
		smallest.bytes = counters.peak_bytes;
	}
	return offer_choice(s, goal, &smallest, &fits);
}

/* Returns what a step's recording costs less than its forward execution on average, over the latter; 0 if that is 0. */
static double mean_saved(const struct step_costs *costs)
{
	double forward = 0, record = 0;
	for (size_t i = 0; i < costs->run_count; i++) {
		forward += costs->runs[i].cost.forward * (double)costs->runs[i].count;
		record += costs->runs[i].cost.record * (double)costs->runs[i].count;
	}
	return forward > 0 ? 1 - record / forward : 0;
}

static struct choices begin_choices(const struct search *s)
{
	return (struct choices){
		.costs = s->costs, .large = largest_cost(s->costs), .saved = mean_saved(s->costs), .arena = s->context.arena};
}

enum status search_within_bound(const struct search *s, struct budget_goal *goal)
{
	struct choices choices = begin_choices(s);
	bool fits;
	choices.most = goal->bytes;
	list_choices(&choices);
	TRY_ALLOC(!choices.arena->failed, s->context.diags);
	const size_t front = keep_front(choices.rows, choices.count);
	return front ? offer_choice(s, goal, &choices.rows[front - 1], &fits) : STATUS_OK;
}

enum status search_long(const struct search *s)
{
	struct choices choices = begin_choices(s);
	const struct choice smallest = choice_of(&choices, 1, 1);
	for (size_t i = 0; i < s->count; i++)
		if (!goal_is_settled(s, &s->goals[i]))
			choices.most = greater(most_bound(s, &s->goals[i]), choices.most);
	list_choices(&choices);
	TRY_ALLOC(!choices.arena->failed, s->context.diags);
	const size_t front = keep_front(choices.rows, choices.count);
	for (size_t i = 0; i < s->count; i++) {
		struct budget_goal *goal = &s->goals[i];
		if (goal_is_settled(s, goal))
			continue;
		const int64_t last = last_within(choices.rows, front, (double)most_bound(s, goal));
		TRY(last >= 0 ? offer_choices(s, goal, choices.rows, (size_t)last + 1) : STATUS_OK);
		TRY(goal->schedule ? STATUS_OK : offer_smallest(s, goal, smallest));
	}
	return STATUS_OK;
}
