/*
 * A lower bound for the time of persistent schedules: a relaxation of the recurrence of persistent.c.
 *
 * A range that is d splits to the right holds d states beside its own, at least the d smallest of the chain: A(d)
 * bytes. Steps that are recorded at once there are a *leaf*. Its residuals take at most c(d) = M - A(d) - c0 bytes: any
 * step takes c0 or more beside them while it is recorded or reversed. A step that is t splits to the left is advanced
 * over t times before it is recorded. So all steps that a range runs t + 1 times or less have residuals of at most
 *
 *     B(d, t) = max(c(d), B(d+1, t) + B(d, t-1)),     B(d, 0) = c(d)
 *
 * bytes, as in the binomial numbers of Griewank and Walther 2000, where a leaf is one step. A recorded step whose
 * residuals hold the state after it makes that state free, but takes no less than a state itself, so B covers it too.
 *
 * If the first sweep ends in a leaf under D splits, these have D parts to their left, and in all
 *
 *     B_D(t) = c(D) + B(0, t-1) + ... + B(D-1, t-1)
 *
 * bytes of residuals may belong to steps that run at most t + 1 times. Where residuals hold the state after their step,
 * a split may have its first step recorded, so B_D(0) is c(0) then. The forward time is the sum over t of the times
 * of the steps that run more than t times. Those that do not are at best the steps of most time for each byte, as in a
 * fractional knapsack of B_D(t) bytes. The bound is the least over D.
 *
 * The last step of a leaf may be recorded without the state after it, which takes `record`. Unless the leaf ends the chain,
 * that step was advanced over before. So of each step the second run counts at the lesser of both costs, and all others
 * at `forward`; the chain's last step runs once, at `record`.
 *
 * Of equal steps between a short head and a short tail the relaxed chain (equal_chain.c) is a second bound, mostly a far
 * higher one. Of few steps of any kind their fronts (fronts.c) are a third one, mostly the least time itself. The tests
 * hold the highest against all schedules of short chains and against the exact times of
 * equal steps.
 * Tests: tests/unit/test_equal_chain.c, tests/unit/test_budget.c
 */
#include "budget/bound.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"
#include "budget/equal_chain.h"

/*
 * COUNT equal steps: the bytes that keep the state before a step; those it holds once recorded; its time, and that of its
 * second run; the one of both times for each byte by which the items are sorted.
 */
struct item {
	double state, held, time, again, worth;
	int64_t count;
};

/* Items by falling worth, and the sums over the first of them of what they hold and of their time. */
struct sums {
	double *worth, *held, *time; /* HELD and TIME have one more */
	size_t count;
};

struct bound {
	const struct step_costs *costs;
	struct arena *arena;
	struct item *items;
	size_t count;
	struct sums first, rest;    /* of second runs, and of all later ones */
	double beside, beside_last; /* c0; what the last step takes in the leaf that ends the chain, with no cotangent */
	bool keeps_output;          /* some step does */
	double *leaf;               /* c(d), for all d where it is above 0, or would be in the leaf that ends the chain */
	int64_t depths;
};

static int by_state(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return (x->state > y->state) - (x->state < y->state);
}

static int by_worth(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return (x->worth < y->worth) - (x->worth > y->worth);
}

/* Adds COUNT steps like COST. The steps before them are like BEFORE (NULL: none), the states after take NEXT bytes. */
static void add_steps(struct bound *b, const struct step_cost *cost, int64_t count, int64_t next,
                      const struct step_cost *before)
{
	const bool counted = before && before->keeps_output;
	const int64_t state = counted ? lesser(cost->state, before->residual) : cost->state;
	const int64_t held = cost->residual + (cost->keeps_input && !counted ? cost->state : 0);
	const int64_t backward = next + cost->state + cost->backward_temporary;
	const int64_t record =
		(counted || cost->keeps_input ? 0 : cost->state) + (cost->keeps_output ? 0 : next) + cost->record_temporary;
	if (count == 0)
		return;
	if (b->count == 0) /* the last step */
		b->beside_last = (double)greater(backward, record);
	else
		b->beside = fmin(b->beside, (double)greater(backward, record + next));
	b->items[b->count++] = (struct item){.state = (double)state,
	                                     .held = (double)held,
	                                     .time = cost->forward,
	                                     .again = fmin(cost->forward, cost->record),
	                                     .count = count};
}

/* Lists the steps as items, the last step first. The first step of a run has an item of its own, since the step before it is another. */
static void list_items(struct bound *b)
{
	const struct step_costs *costs = b->costs;
	b->beside = INFINITY;
	for (size_t i = costs->run_count; i-- > 0;) {
		const struct step_run *run = &costs->runs[i];
		const int64_t next = step_costs_state_after(costs, i);
		b->keeps_output |= run->cost.keeps_output;
		const struct step_cost *first = i > 0 ? &costs->runs[i - 1].cost : NULL;
		if (run->count > 1) {
			add_steps(b, &run->cost, 1, next, &run->cost);
			add_steps(b, &run->cost, run->count - 2, run->cost.state, &run->cost);
		}
		add_steps(b, &run->cost, 1, run->count > 1 ? run->cost.state : next, first);
	}
	if (b->costs->steps == 1)
		b->beside = b->beside_last;
}

/* Sets c(d) for BYTES. */
static void set_leaves(struct bound *b, double bytes)
{
	const double least = fmin(b->beside, b->beside_last); /* a leaf within these bytes has no residuals */
	double left = bytes;
	qsort(b->items, b->count, sizeof *b->items, by_state);
	b->leaf = arena_array(b->arena, (size_t)b->costs->steps, sizeof *b->leaf);
	for (size_t i = 0; i < b->count && b->leaf; i++)
		for (int64_t k = 0; k < b->items[i].count && left > least; k++) {
			b->leaf[b->depths++] = left - b->beside;
			left -= b->items[i].state;
		}
}

/* Sorts the items by their worth, of second runs if AGAIN, and sums them up. */
static void set_sums(struct bound *b, struct sums *sums, bool again)
{
	sums->worth = arena_array(b->arena, b->count + 1, sizeof *sums->worth);
	sums->held = arena_array(b->arena, b->count + 1, sizeof *sums->held);
	sums->time = arena_array(b->arena, b->count + 1, sizeof *sums->time);
	sums->count = b->count;
	for (size_t i = 0; i < b->count; i++) {
		struct item *item = &b->items[i];
		item->worth = item->held > 0 ? (again ? item->again : item->time) / item->held : INFINITY;
	}
	qsort(b->items, b->count, sizeof *b->items, by_worth);
	for (size_t i = 0; i < b->count && !b->arena->failed; i++) {
		const struct item *item = &b->items[i];
		sums->worth[i] = item->worth;
		sums->held[i + 1] = sums->held[i] + item->held * (double)item->count;
		sums->time[i + 1] = sums->time[i] + (again ? item->again : item->time) * (double)item->count;
	}
}

/* Returns the time of the steps that BYTES of residuals leave out, if those of most time for each byte are in. */
static double time_beyond(const struct sums *s, double bytes)
{
	size_t low = 0, high = s->count; /* held[low] <= bytes */
	if (bytes >= s->held[s->count])
		return 0;
	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;
		*(s->held[middle] <= bytes ? &low : &high) = middle;
	}
	return s->time[s->count] - s->time[low] - (bytes - s->held[low]) * s->worth[low];
}

/* Returns the least over D of the sums over t. They are summed up together, a D only while its sum is below the best. */
static double least_sum(const struct bound *b)
{
	enum { ROUNDS = 100000 };                                                /* sums that end early are bounds too */
	double *parts = arena_array(b->arena, (size_t)b->depths, sizeof *parts); /* B(d, t-1) */
	double *sums = arena_array(b->arena, (size_t)b->depths, sizeof *sums), best = INFINITY, least = 0;
	if (b->arena->failed)
		return 0;
	bool open = b->depths > 0;
	for (int64_t t = 0; open && t < ROUNDS; t++) {
		double before = 0; /* B(0, t-1) + ... + B(D-1, t-1) */
		open = false;
		least = best;
		for (int64_t d = 0; d < b->depths; d++) {
			const double last = b->leaf[b->keeps_output && t == 0 ? 0 : d] + b->beside - b->beside_last;
			const double run = last + before; /* bytes of steps that run at most t + 1 times */
			const double beyond = sums[d] < best ? time_beyond(t == 0 ? &b->first : &b->rest, run) : INFINITY;
			sums[d] += beyond;
			if (beyond <= 0 && (t > 0 || run >= b->rest.held[b->count]))
				best = fmin(best, sums[d]);
			open |= sums[d] < best;
			least = fmin(least, sums[d]);
			before += parts[d];
		}
		for (int64_t d = b->depths; d-- > 0;) {
			const double right = d + 1 < b->depths ? parts[d + 1] : 0;
			parts[d] = fmax(fmax(b->leaf[d], 0), right + parts[d]);
		}
	}
	return least;
}

/* Raises *TIME to that of CHAIN, if its tables are small enough. *KNOWN: they are, and complete. False if out of memory. */
static bool raise_by_chain(const struct equal_chain *chain, int64_t bytes, size_t most_cells,
                           const struct allocator *allocator, double *time, bool *known)
{
	struct equal_plan plan;
	const enum equal_result result = equal_plan_solve(&plan, chain, bytes, most_cells, allocator);
	const double error = result == EQUAL_SOLVED ? equal_plan_error(&plan) : 0;
	*known = result != EQUAL_TOO_LARGE && isfinite(error);
	if (result == EQUAL_SOLVED && *known)
		*time = fmax(equal_plan_time(&plan) * (1 - 1e-9) - error, *time);
	equal_plan_free(&plan);
	return result != EQUAL_NO_MEMORY;
}

/*
 * Raises *TIME to that of CHAIN without its head. Prices bound that time where the head makes tables too large. Any schedule
 * of CHAIN becomes one of the other steps within one state's bytes more: it keeps the state after the head, in place of all
 * that CHAIN's schedule keeps of the head.
 */
static bool raise_after_head(const struct equal_chain *chain, int64_t bytes, size_t most_cells,
                             const struct allocator *allocator, double *time)
{
	struct equal_chain rest = *chain;
	bool known;
	rest.once += fmin(chain->head.time, chain->head.last);
	rest.head = (struct part){.begin = chain->head.end, .end = chain->head.end};
	return raise_by_chain(&rest, bytes + chain->cost.state, most_cells, allocator, time, &known);
}

/*
 * Raises *TIME to that of the relaxed chain, if COSTS have one whose tables are small enough. Else workspaces are lowered to
 * that of a forward execution, with which some chains have small tables. False if out of memory.
 */
static bool raise_by_relaxed(const struct step_costs *costs, int64_t bytes, size_t most_cells,
                             const struct allocator *allocator, double *time)
{
	struct equal_chain chain;
	bool known;
	if (!equal_chain_relax(&chain, costs))
		return true;
	if (!raise_by_chain(&chain, bytes, most_cells, allocator, time, &known))
		return false;
	if (!known && chain.head.end > chain.head.begin && !raise_after_head(&chain, bytes, most_cells, allocator, time))
		return false;
	struct step_cost *cost = &chain.cost;
	const int64_t most = cost->forward_temporary;
	if (known || (cost->record_temporary <= most && cost->backward_temporary <= most))
		return true;
	cost->record_temporary = lesser(cost->record_temporary, most);
	cost->backward_temporary = lesser(cost->backward_temporary, most);
	return raise_by_chain(&chain, bytes, most_cells, allocator, time, &known);
}

/* Raises *TIME to that of the fronts of COSTS, of few steps. False if out of memory. */
static bool raise_by_fronts(const struct step_costs *costs, int64_t bytes, struct fronts_limits limits,
                            const struct allocator *allocator, double *time)
{
	struct fronts f;
	bool done = fronts_begin(&f, costs, bytes, limits, allocator);
	done = done && fronts_close(&f) != FRONTS_NO_MEMORY;
	if (done)
		*time = fmax(f.ends[f.count] + f.least * (1 - 1e-9), *time);
	fronts_free(&f);
	return done;
}

bool budget_bound(const struct step_costs *costs, int64_t bytes, struct bound_limits limits,
                  const struct allocator *allocator, double *time)
{
	struct arena arena;
	arena_init(&arena, allocator);
	struct bound b = {.costs = costs, .arena = &arena};
	b.items = arena_array(&arena, 3 * costs->run_count + 1, sizeof *b.items);
	if (b.items) {
		list_items(&b);
		set_leaves(&b, (double)bytes);
		set_sums(&b, &b.first, true);
		set_sums(&b, &b.rest, false);
	}
	*time = arena.failed ? 0 : b.rest.time[b.count] + least_sum(&b) * (1 - 1e-9) + step_costs_last_record(costs);
	bool done = !arena.failed;
	arena_free(&arena);
	if (done && costs->steps > 0 && costs->steps <= FRONTS_STEPS_MOST)
		done = raise_by_fronts(costs, bytes, limits.fronts, allocator, time);
	return done && raise_by_relaxed(costs, bytes, limits.cells, allocator, time);
}
