/*
 * revolve and recursive cut a range of steps in two, and reverse the right part first, then the left from a kept state.
 *
 * revolve:S is binomial checkpointing, after Griewank and Walther, "Algorithm 799: revolve",
 * ACM TOMS 26 (2000).
 *
 * Let P(l, s) be the least evaluations (recording ones included) that reverse l
 * steps from a state with s snapshots, one of which is that state's. One step is recorded:
 * P(1, s) = 1. Else the state is kept, and m steps are advanced over. The rest is reversed with s - 1
 * snapshots, and then the first m steps from the kept state:
 *
 *     P(l, s) = min over m of  m + P(l - m, s - 1) + P(m, s).
 *
 * With beta(s, r) = C(s + r, s) and r such that beta(s, r-1) < l <= beta(s, r),
 * P(l, s) = l + r l - beta(s + 1, r - 1): P is convex in l, of slope r + 1 there.
 * So m is best when beta(s, r-2) <= m <= beta(s, r-1) and
 * beta(s-1, r-1) <= l - m <= beta(s-1, r), which the least such m below meets.
 *
 * recursive is f2(checkpoint(f1)(x)), where f1 is the first half, the larger if the number of steps is odd. Both
 * halves are split in the same way, down to two steps or fewer.
 *
 * Invariant: the ranges on the stack are disjoint, the rightmost on top. Each range below the top has its first state
 * in a slot. For binomial cuts, a range's snapshots are its own slot and those that are free when it is on top. The
 * stack has at most S + 1 ranges. The r of either side of a cut (`repetitions`) is at most that of the whole range, so
 * binomial_cut finds it by counting down, without a table.
 * Tests: tests/unit/test_schedule.c
 */
#include "base/checked.h"
#include "schedule/families.h"

/* Returns beta(s, r), saturated, 0 if s or r is negative: the most steps that take at most r + 1 evaluations each. */
static int64_t binomial_reach(int64_t snapshots, int64_t repetitions)
{
	if (snapshots < 0 || repetitions < 0)
		return 0;
	int64_t small = snapshots < repetitions ? snapshots : repetitions;
	int64_t large = snapshots < repetitions ? repetitions : snapshots;
	__int128 value = 1;
	for (int64_t i = 1; i <= small; i++) {
		value = value * (large + i) / i;
		if (value > INT64_MAX)
			return INT64_MAX;
	}
	return (int64_t)value;
}

/* Returns beta(S, R - 1); fewer_snapshots returns beta(S - 1, R). REACH is beta(S, R), saturated. */
static int64_t fewer_repetitions(int64_t s, int64_t r, int64_t reach)
{
	return reach == INT64_MAX ? binomial_reach(s, r - 1) : (int64_t)((__int128)reach * r / (s + r));
}

static int64_t fewer_snapshots(int64_t s, int64_t r, int64_t reach)
{
	return reach == INT64_MAX ? binomial_reach(s - 1, r) : (int64_t)((__int128)reach * s / (s + r));
}

/* Returns the least r with beta(SNAPSHOTS, r) >= STEPS, and sets *REACH to that beta. 0 SNAPSHOTS allow one step. */
static int64_t repetitions_of(int64_t steps, int64_t snapshots, int64_t *reach)
{
	int64_t r = 0, value = 1;
	if (snapshots == 1) {
		*reach = steps;
		return steps - 1; /* beta(1, r) = r + 1 */
	}
	while (value < steps) {
		r++;
		value = saturated((__int128)value * (snapshots + r) / r);
	}
	*reach = value;
	return r;
}

int64_t binomial_slots(int64_t steps, int64_t snapshots)
{
	int64_t most = steps > 1 ? steps - 1 : 0;
	return snapshots < most ? snapshots : most;
}

void *binomial_reset(struct binomial *binomial, void *memory, int64_t capacity, int64_t slots)
{
	binomial->ranges = memory;
	binomial->free = (int64_t *)(binomial->ranges + capacity);
	binomial->depth = 0;
	binomial->free_count = slots;
	for (int64_t i = 0; i < slots; i++)
		binomial->free[i] = slots - 1 - i;
	return binomial->free + capacity;
}

void binomial_push(struct binomial *binomial, int64_t begin, int64_t end, int64_t snapshots, int64_t slot)
{
	struct binomial_range *range = &binomial->ranges[binomial->depth++];
	*range = (struct binomial_range){.begin = begin, .end = end, .snapshots = snapshots, .slot = slot};
	range->repetitions = repetitions_of(end - begin, snapshots, &range->reach);
}

/* Returns the best length of RANGE's left side. Lowers RANGE's `repetitions` and `reach` to the least that suffice. */
static int64_t binomial_cut(struct binomial_range *range)
{
	int64_t length = range->end - range->begin, s = range->snapshots;
	int64_t below = fewer_repetitions(s, range->repetitions, range->reach);
	while (below >= length) {
		range->reach = below;
		range->repetitions--;
		below = fewer_repetitions(s, range->repetitions, range->reach);
	}
	int64_t right = fewer_snapshots(s, range->repetitions, range->reach);
	int64_t m = fewer_repetitions(s, range->repetitions - 1, below); /* beta(s, r-2) */
	if (m < length - right)
		m = length - right;
	return m > 1 ? m : 1;
}

void binomial_step(struct binomial *binomial, struct action_queue *queue)
{
	struct binomial_range *top = &binomial->ranges[binomial->depth - 1];
	int64_t begin = top->begin, end = top->end;
	bool split = end - begin > (binomial->halves ? 2 : 1);
	if (top->slot >= 0) {
		queue_push(queue, ACT_LOAD, begin, begin, top->slot);
	} else if (split) {
		top->slot = binomial->free[--binomial->free_count];
		queue_push(queue, ACT_SAVE, begin, begin, top->slot);
	}
	if (!split) {
		if (top->slot >= 0) {
			queue_push(queue, ACT_DROP, begin, begin, top->slot);
			binomial->free[binomial->free_count++] = top->slot;
		}
		queue_push(queue, ACT_RECORD, begin, end, 0);
		queue_push(queue, ACT_BACKWARD, begin, end, 0);
		binomial->depth--;
		return;
	}
	int64_t middle = begin + (binomial->halves ? ceil_div(end - begin, 2) : binomial_cut(top));
	queue_push(queue, ACT_FORWARD, begin, middle, 0);
	struct binomial_range *right = top + 1;
	*right = (struct binomial_range){.begin = middle, .end = end, .snapshots = top->snapshots - 1, .slot = -1};
	right->repetitions = top->repetitions;
	right->reach = fewer_snapshots(top->snapshots, top->repetitions, top->reach);
	top->end = middle;
	binomial->depth++;
}

/*
 * The chain in parts of `length` steps, each recorded as one. `length` is 1 unless a budget chose it. The first part,
 * which is run most often, has fewer steps if `length` does not divide the chain.
 */
struct revolve {
	struct schedule head;
	int64_t steps, snapshots;
	int64_t parts, length; /* the number of parts, and the steps of one */
	struct binomial binomial;
};

/* Returns the first step of PART; for the number of parts, the number of steps. */
static int64_t step_of(const struct revolve *r, int64_t part)
{
	int64_t step = r->steps - (r->parts - part) * r->length;
	return step > 0 ? step : 0;
}

static void revolve_emit(struct schedule *schedule)
{
	struct revolve *r = (struct revolve *)schedule;
	struct action_queue *queue = &schedule->queue;
	if (r->binomial.depth > 0)
		binomial_step(&r->binomial, queue);
	for (int i = 0; i < queue->count; i++) {
		queue->actions[i].begin = step_of(r, queue->actions[i].begin);
		queue->actions[i].end = step_of(r, queue->actions[i].end);
	}
}

static void revolve_rewind(struct schedule *schedule)
{
	struct revolve *r = (struct revolve *)schedule;
	(void)binomial_reset(&r->binomial, r + 1, schedule->slots + 1, schedule->slots);
	if (r->parts > 0)
		binomial_push(&r->binomial, 0, r->parts, r->snapshots, -1);
}

struct schedule *revolve_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t snapshots,
                                  bool halves)
{
	const int64_t parts = ceil_div(steps, length), slots = binomial_slots(parts, snapshots);
	const struct revolve made = {.head = {.emit = revolve_emit, .rewind = revolve_rewind, .slots = slots},
	                             .steps = steps,
	                             .parts = parts,
	                             .length = length,
	                             .snapshots = slots > 0 ? slots : 1,
	                             .binomial.halves = halves};
	return schedule_create(allocator, &made.head, sizeof made, slots + 1, BINOMIAL_EACH);
}

struct schedule *recursive_schedule(const struct allocator *allocator, int64_t steps)
{
	int64_t slots = 0;
	for (int64_t left = steps; left > 2; left /= 2)
		slots++;
	return revolve_schedule(allocator, steps, 1, slots, true);
}

/* Returns the first step's (or part's) evaluations: one for each cut of its range, and the recording one. */
static int64_t first_evaluations(int64_t steps, int64_t snapshots)
{
	struct binomial_range range;
	struct binomial one = {.ranges = &range};
	int64_t count = 1;
	if (snapshots == 1)
		return steps;
	binomial_push(&one, 0, steps, snapshots, 0);
	for (; range.end > 1; count++)
		range.end = binomial_cut(&range);
	return count;
}

int64_t revolve_evaluations(int64_t steps, int64_t length, int64_t snapshots)
{
	const int64_t parts = ceil_div(steps, length), missing = parts * length - steps;
	__int128 all = (__int128)length * binomial_evaluations(parts, snapshots);
	return saturated(missing ? all - (__int128)missing * first_evaluations(parts, snapshots) : all);
}

int64_t binomial_evaluations(int64_t steps, int64_t snapshots)
{
	if (steps <= 0)
		return 0;
	if (snapshots < 1)
		return steps == 1 ? 1 : INT64_MAX;
	int64_t reach, r = repetitions_of(steps, snapshots, &reach);
	/* beta(s + 1, r - 1) is the sum of beta(s, i) for i < r, which is at most r l: the result is at least l. */
	return saturated(steps + (__int128)r * steps - binomial_reach(snapshots + 1, r - 1));
}

/*
 * Returns n and, for each range that is split, the length of its first half. The ranges of one depth have at most
 * two lengths, m and m + 1, so two counts describe a depth.
 */
int64_t recursive_evaluations(int64_t steps)
{
	__int128 total = steps, small = 1, large = 0; /* ranges of length m and of m + 1 */
	for (int64_t m = steps; m > 1 || (m == 1 && large > 0); m /= 2) {
		if (m > 2)
			total += small * (m - m / 2);
		if (m + 1 > 2)
			total += large * (m + 1 - (m + 1) / 2);
		/* The counts split ranges of two or fewer too, which the schedule does not: their parts add nothing. */
		if (m % 2 == 0)
			small = 2 * small + large;
		else
			large = small + 2 * large;
	}
	return saturated(total);
}
