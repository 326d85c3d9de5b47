/*
 * disk-revolve:S: S snapshots in memory and any number on disk, after Aupy, Herrmann, Hovland
 * and Robert, "Optimal multistage algorithm for adjoint computation", SIAM J. Sci. Comput. 38 (2016).
 * With S = 0 every state from which steps are recomputed is read from disk.
 *
 * The unit of time is the mean forward step: all are assumed to be equal. w and r are the times to write and to read
 * a state. P(l) are the evaluations of revolve with S snapshots (revolve.c). To reverse l steps whose first state
 * has just been read from disk takes
 *
 *     D(l) = min( P(l),  min over i of  i + P(l - i) + r + D(i) ),
 *
 * since reading that state again leaves all slots to the right part. To reverse a chain of l steps takes
 *
 *     T(l) = min( P(l),  min over j of  w + j + T(l - j) + r + D(j) ),
 *
 * since states are written in the first sweep only, before any is kept in memory (their Theorems 1 and 2).
 * The tables are exact up to TABLE steps. A longer chain begins with segments of the length that costs
 * least per step. The optimum tends to such segments (Aupy and Herrmann, "Periodicity in optimal
 * hierarchical checkpointing schemes for adjoint computations", 2017). The tables give T of the rest of the chain.
 * If it is cheaper, there are fewer such segments, and a longer rest is reversed in memory alone.
 *
 * Unequal steps have recurrences of their own if they are few (disk_exact.c). Else the schedule that is fastest by their
 * times is chosen among those for fewer places too.
 *
 * Invariant: disk slot i holds the state at starts[i]. Segments are reversed from the last. A disk slot is
 * discarded after its last read.
 * Tests: tests/unit/test_schedule.c
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "schedule/families.h"

enum { TABLE = 3000 };

/* The recurrences. A choice is 0 for memory alone, else the i of D or the j of T. */
struct recurrences {
	struct disk_means means;         /* l, S, w and r */
	int64_t size;                    /* the tables have the lengths 0 .. size-1 */
	double *memory, *reread, *chain; /* P, D, T by length */
	int32_t *reread_choice, *chain_choice;
};

struct disk_revolve {
	struct schedule head;
	int64_t steps, snapshots;
	int64_t capacity; /* of the binomial's stacks */
	int64_t segments; /* number of segments that begin with a state on disk */
	int64_t *starts;  /* the first step of each segment, and that of the rest of the chain */
	int32_t *choice;  /* of D, by length */
	int64_t segment;  /* the current one: counts up in the first sweep, then down */
	int64_t length;   /* steps of the segment that are still to be reversed; 0: its state was not read yet */
	bool swept;
	struct binomial binomial;
};

static void disk_sweep(struct disk_revolve *d)
{
	int64_t begin = d->starts[d->segment];
	if (d->segment < d->segments) {
		queue_push(&d->head.queue, ACT_SPILL, begin, begin, d->segment);
		queue_push(&d->head.queue, ACT_FORWARD, begin, d->starts[d->segment + 1], 0);
		d->segment++;
		return;
	}
	binomial_push(&d->binomial, begin, d->steps, d->snapshots, -1);
	binomial_step(&d->binomial, &d->head.queue);
	d->swept = true;
	d->segment--;
}

static void disk_reverse(struct disk_revolve *d)
{
	int64_t begin = d->starts[d->segment];
	if (d->length == 0)
		d->length = d->starts[d->segment + 1] - begin;
	int64_t left = d->choice[d->length], end = begin + d->length;
	queue_push(&d->head.queue, ACT_FETCH, begin, begin, d->segment);
	if (left)
		queue_push(&d->head.queue, ACT_FORWARD, begin, begin + left, 0);
	else
		queue_push(&d->head.queue, ACT_DISCARD, begin, begin, d->segment--);
	binomial_push(&d->binomial, begin + left, end, d->snapshots, -1);
	d->length = left;
}

static void disk_emit(struct schedule *schedule)
{
	struct disk_revolve *d = (struct disk_revolve *)schedule;
	if (d->binomial.depth > 0)
		binomial_step(&d->binomial, &schedule->queue);
	else if (!d->swept && d->steps > 0)
		disk_sweep(d);
	else if (d->swept && d->segment >= 0)
		disk_reverse(d);
}

static void disk_rewind(struct schedule *schedule)
{
	struct disk_revolve *d = (struct disk_revolve *)schedule;
	d->segment = d->length = 0;
	d->swept = false;
	d->starts = binomial_reset(&d->binomial, d + 1, d->capacity, d->head.slots);
	d->choice = (int32_t *)(d->starts + d->segments + 1);
}

/* Bytes of one length in the five tables, which are one block. */
enum { TABLES_EACH = 3 * sizeof(double) + 2 * sizeof(int32_t) };

static bool recurrences_solve(struct recurrences *t, const struct allocator *allocator)
{
	t->size = (t->means.steps < TABLE ? t->means.steps : TABLE) + 1;
	t->memory = allocator_get(allocator, (size_t)t->size, TABLES_EACH);
	if (!t->memory)
		return false;
	t->reread = t->memory + t->size;
	t->chain = t->reread + t->size;
	t->reread_choice = (int32_t *)(t->chain + t->size);
	t->chain_choice = t->reread_choice + t->size;
	for (int64_t l = 0; l < t->size; l++) {
		t->memory[l] = t->reread[l] = t->chain[l] = (double)binomial_evaluations(l, t->means.snapshots);
		t->reread_choice[l] = t->chain_choice[l] = 0;
		for (int64_t i = 1; i < l; i++) {
			double again = (double)i + t->memory[l - i] + t->means.read + t->reread[i];
			if (again < t->reread[l]) {
				t->reread[l] = again;
				t->reread_choice[l] = (int32_t)i;
			}
			double spilled = t->means.write + (double)i + t->chain[l - i] + t->means.read + t->reread[i];
			if (spilled < t->chain[l]) {
				t->chain[l] = spilled;
				t->chain_choice[l] = (int32_t)i;
			}
		}
	}
	return true;
}

/* Returns how many segments of *LENGTH steps begin the chain: 0, and *LENGTH is not set, if the tables cover it. */
static int64_t leading_segments(const struct recurrences *t, int64_t *length)
{
	const int64_t steps = t->means.steps;
	if (steps < t->size)
		return 0;
	double cheapest = 0;
	*length = 1;
	for (int64_t j = 1; j < t->size; j++) {
		double each = (t->means.write + t->means.read + (double)j + t->reread[j]) / (double)j;
		if (j == 1 || each < cheapest) {
			cheapest = each;
			*length = j;
		}
	}
	int64_t most = (steps - t->size) / *length + 1; /* leaves less than the table's size */
	double total = (double)most * cheapest * (double)*length + t->chain[steps - most * *length];
	/* Try fewer segments, and memory alone for the rest: the cost is convex in their number, as P is. */
	int64_t low = 0, high = most - 1;
	while (low < high) {
		int64_t middle = low + (high - low) / 2, rest = steps - middle * *length;
		double gain = (double)(binomial_evaluations(rest, t->means.snapshots) -
		                       binomial_evaluations(rest - *length, t->means.snapshots));
		if (gain > cheapest * (double)*length)
			low = middle + 1;
		else
			high = middle;
	}
	double fewer = (double)low * cheapest * (double)*length +
	               (double)binomial_evaluations(steps - low * *length, t->means.snapshots);
	return fewer <= total ? low : most;
}

/* Sets D's segments, slots and disk slots. Fills D->starts too, unless it is NULL. */
static void list_segments(const struct recurrences *t, int64_t leading, int64_t length, struct disk_revolve *d)
{
	int64_t at = 0, longest = 0;
	for (d->segments = 0;; d->segments++) {
		const int64_t left = t->means.steps - at;
		const int64_t next = d->segments < leading ? length : left < t->size ? t->chain_choice[left] : 0;
		if (d->starts)
			d->starts[d->segments] = at;
		if (next == 0) {
			longest = left > longest ? left : longest;
			break;
		}
		for (int64_t part = next; part > 0; part = t->reread_choice[part]) {
			const int64_t piece = part - t->reread_choice[part];
			longest = piece > longest ? piece : longest;
		}
		at += next;
	}
	d->head.slots = binomial_slots(longest, d->snapshots);
	d->head.disk_slots = d->segments;
}

static struct schedule *make_disk_revolve(const struct recurrences *t, const struct allocator *allocator)
{
	int64_t length = 0, leading = leading_segments(t, &length);
	struct disk_revolve made = {.head = {.emit = disk_emit, .rewind = disk_rewind},
	                            .steps = t->means.steps,
	                            .snapshots = t->means.snapshots,
	                            .capacity = binomial_slots(t->means.steps, t->means.snapshots) + 1};
	list_segments(t, leading, length, &made);
	size_t starts = (size_t)(made.segments + 1) * sizeof(int64_t), choices = (size_t)t->size * sizeof(int32_t);
	size_t size = (size_t)made.capacity * BINOMIAL_EACH + starts + choices;
	struct disk_revolve *d = schedule_create(allocator, &made.head, sizeof made, 1, size);
	if (!d)
		return NULL;
	memcpy(d->choice, t->reread_choice, choices);
	list_segments(t, leading, length, d);
	return &d->head;
}

/* True if all steps take the mean forward time, MEAN. */
static bool is_even(const struct step_costs *costs, double mean)
{
	for (size_t run = 0; run < costs->run_count; run++)
		if (fabs(costs->runs[run].cost.forward - mean) > 1e-12 * mean)
			return false;
	return true;
}

static void sum_forward(const struct step_costs *costs, double *sum)
{
	*sum = 0;
	for (size_t run = 0; run < costs->run_count; run++)
		for (int64_t i = 0; i < costs->runs[run].count; i++, sum++)
			sum[1] = sum[0] + costs->runs[run].cost.forward;
}

/* Returns the time of SCHEDULE, forward steps and disk. Rewinds it. */
static double time_on_disk(struct schedule *schedule, const struct disk_costs *costs)
{
	struct action a;
	double time = 0;
	while (schedule_next(schedule, &a))
		if (a.kind == ACT_SPILL)
			time += costs->write;
		else if (a.kind == ACT_FETCH)
			time += costs->read;
		else if (a.kind == ACT_FORWARD || a.kind == ACT_RECORD)
			time += costs->sums[a.end] - costs->sums[a.begin];
	schedule_rewind(schedule);
	return time;
}

/* The choice between schedules of mean steps by the steps' own times. */
struct choosing {
	const struct allocator *allocator;
	const struct disk_costs *costs;
	const struct disk_means *means;
	struct schedule *best; /* NULL: none yet */
	double time;           /* of BEST */
};

/* Tries TABLES with FIRST, FIRST + EACH, ... places up to LAST. Keeps TABLES as BEST, or frees them. */
static void try_tables(struct choosing *c, struct schedule *tables, int64_t first, int64_t last, int64_t each)
{
	int64_t best = -1;
	for (int64_t places = first; places <= last; places += each) {
		disk_bounded_restrict(tables, places);
		const double time = time_on_disk(tables, c->costs);
		if ((!c->best && best < 0) || time < c->time) {
			best = places;
			c->time = time;
		}
	}
	if (best >= 0)
		disk_bounded_restrict(tables, best);
	schedule_free(best >= 0 ? c->best : tables);
	c->best = best >= 0 ? tables : c->best;
}

/*
 * Tries schedules for a fixed set of places up to PLACES. Tables of mean steps or of units may be wrong. With these trials
 * more disk still takes no more time. The set has 0 to 15, powers of two and those times 1.5. One table serves all places
 * between two powers. False if out of memory. Without snapshots, schedules that keep a state in memory are tried only if
 * there is no other.
 */
static bool try_fewer_places(struct choosing *c, int64_t places)
{
	enum { DENSE = 16 };
	const int64_t steps = c->means->steps, most = lesser(places, steps);
	const bool snapshots = c->means->snapshots > 0;
	for (int64_t first = snapshots || most == 0 ? 0 : 1, end = DENSE; first <= most; first = end, end *= 2) {
		if (!snapshots && c->best && !disk_bounded_is_exact(steps, end - 1, true))
			continue;
		struct schedule *tables = disk_bounded_schedule(c->allocator, c->means, end - 1, true);
		if (!tables)
			return false;
		try_tables(c, tables, first, lesser(most, end - 1), first < DENSE ? 1 : first / 2);
	}
	return true;
}

/* The schedule of mean steps with PLACES on disk. COSTS has no sums if the chain is too long for a choice. */
static struct schedule *schedule_of_means(const struct allocator *allocator, const struct disk_costs *costs,
                                          const struct recurrences *t, int64_t places, bool even)
{
	struct choosing c = {.allocator = allocator, .costs = costs, .means = &t->means};
	struct schedule *own = make_disk_revolve(t, allocator);
	if (!own)
		return NULL;
	bool exact = even && t->means.steps < t->size;
	if (schedule_disk_slots(own) > places) {
		schedule_free(own);
		own = NULL;
		exact = even && disk_bounded_is_exact(t->means.steps, places, false);
		if (even || !costs->sums)
			own = disk_bounded_schedule(allocator, &t->means, places, false);
		if (!own && (even || !costs->sums))
			return NULL;
	}
	if (exact || !costs->sums)
		return own;
	c.best = own;
	c.time = own ? time_on_disk(own, costs) : 0;
	if (try_fewer_places(&c, places))
		return c.best;
	schedule_free(c.best);
	return NULL;
}

struct schedule *disk_revolve_schedule(const struct allocator *allocator, const struct step_costs *costs,
                                       int64_t snapshots, int64_t disk_bytes)
{
	enum { CHOSEN = 10000 }; /* the most steps of chains for which schedules are compared */
	struct recurrences t = {.means = {costs->steps, snapshots, costs->spill_write, costs->spill_read}};
	const int64_t places = disk_bytes > 0 ? disk_bytes / greater(step_costs_largest_state(costs), 1) : INT64_MAX;
	/* Times become multiples of a mean step. If steps cost nothing, a step counts as one unit of the disk's times. */
	const double mean = step_costs_mean_forward(costs), step = mean > 0 ? mean : 1;
	const bool even = is_even(costs, mean), short_chain = costs->steps <= CHOSEN;
	double *sums = short_chain ? allocator_get(allocator, (size_t)costs->steps + 1, sizeof *sums) : NULL;
	const struct disk_costs own = {costs->steps, sums, costs->spill_write, costs->spill_read};
	struct schedule *schedule = NULL;
	t.means.write /= step;
	t.means.read /= step;
	if (sums)
		sum_forward(costs, sums);
	if (sums && !even && costs->steps <= DISK_EXACT)
		schedule = disk_exact_schedule(allocator, &own, snapshots, places);
	else if ((sums || !short_chain) && recurrences_solve(&t, allocator))
		schedule = schedule_of_means(allocator, &own, &t, places, even);
	allocator_put(allocator, t.memory, (size_t)t.size * TABLES_EACH);
	allocator_put(allocator, sums, sums ? ((size_t)costs->steps + 1) * sizeof *sums : 0);
	return schedule;
}
