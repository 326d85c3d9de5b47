/*
 * disk-revolve:S with at most D states on disk at once, a part of the problem that Herrmann and Pallez solve for any
 * hierarchy of memories ("H-Revolve", ACM Trans. Math. Softw. 46, 2020). No state is in memory while one is written.
 *
 * The unit of time is the mean forward step. w and r are the times to write and to read a state. P(l) are the
 * evaluations of revolve with S snapshots (revolve.c). To reverse l steps whose first state is the current one, with d
 * free places on disk, takes
 *
 *     T(l, d) = min( P(l),  min over j of  w + j + T(l - j, d - 1) + r + D(j, d - 1) ),
 *
 * and if that state has just been read from its place on disk, which stays, it takes
 *
 *     D(l, d) = min( P(l),  min over i of  i + T(l - i, d) + r + D(i, d) ).
 *
 * Where tables of all lengths would take too long, states go to disk at multiples of UNIT steps alone.
 * Tests: tests/unit/test_schedule.c
 */
#include <string.h>

#include "base/checked.h"
#include "schedule/families.h"

/*
 * The most terms of all minima together, with all lengths and without; those of small tables; and the most lengths. A
 * million terms take about a millisecond.
 */
enum { TERMS = 1 << 24, COARSE = 1 << 22, SMALL = 1 << 20, SIZE_MOST = 1 << 12 };

/* A range of steps to reverse. Their first state is the current one if SLOT is -1, else it is in that disk slot. */
struct disk_range {
	int64_t begin, end;
	int64_t slot, free; /* FREE: places on disk that they may use */
};

struct disk_bounded {
	struct schedule head;
	int64_t steps, snapshots, unit;
	int64_t places;            /* on disk, of the tables: D, or as many as are of use */
	int64_t limit;             /* places that the schedule may use: PLACES unless it is restricted */
	int64_t size;              /* the tables have the lengths 0 .. size-1, in units */
	int64_t capacity;          /* of the binomial's stacks */
	struct disk_range *ranges; /* a stack, the rightmost on top; at most one for each unit */
	int64_t depth;
	int32_t *choices; /* by free places and length: 0 for memory alone, else j of T, then i of D */
	struct binomial binomial;
};

/* The index in a table of LENGTH with FREE places; of D if the first state is ON_DISK, else of T. */
static int64_t entry(const struct disk_bounded *d, bool on_disk, int64_t free, int64_t length)
{
	return ((on_disk * (d->places + 1)) + free) * d->size + length;
}

static void push_range(struct disk_bounded *d, int64_t begin, int64_t end, int64_t slot, int64_t free)
{
	d->ranges[d->depth++] = (struct disk_range){begin, end, slot, free};
}

/* Cuts R, unless memory alone reverses it: pushes its parts, the right one on top. Returns the steps of the left. */
static int64_t cut_range(struct disk_bounded *d, const struct disk_range *r)
{
	const int64_t length = ceil_div(r->end - r->begin, d->unit);
	const int64_t left = d->choices[entry(d, r->slot >= 0, r->free, length)] * d->unit;
	if (!left)
		return 0;
	const bool on_disk = r->slot >= 0;
	const int64_t free = on_disk ? r->free : r->free - 1;
	push_range(d, r->begin, r->begin + left, on_disk ? r->slot : d->limit - r->free, free);
	push_range(d, r->begin + left, r->end, -1, free);
	return left;
}

static void bounded_emit(struct schedule *schedule)
{
	struct disk_bounded *d = (struct disk_bounded *)schedule;
	struct action_queue *queue = &schedule->queue;
	if (d->binomial.depth > 0) {
		binomial_step(&d->binomial, queue);
		return;
	}
	if (d->depth == 0)
		return;
	const struct disk_range r = d->ranges[--d->depth];
	const int64_t left = cut_range(d, &r);
	if (r.slot >= 0)
		queue_push(queue, ACT_FETCH, r.begin, r.begin, r.slot);
	else if (left)
		queue_push(queue, ACT_SPILL, r.begin, r.begin, d->limit - r.free);
	if (left) {
		queue_push(queue, ACT_FORWARD, r.begin, r.begin + left, 0);
		return;
	}
	binomial_push(&d->binomial, r.begin, r.end, d->snapshots, -1);
	if (r.slot >= 0)
		queue_push(queue, ACT_DISCARD, r.begin, r.begin, r.slot);
	else
		binomial_step(&d->binomial, queue);
}

static void bounded_rewind(struct schedule *schedule)
{
	struct disk_bounded *d = (struct disk_bounded *)schedule;
	d->ranges = binomial_reset(&d->binomial, d + 1, d->capacity, d->head.slots);
	d->choices = (int32_t *)(d->ranges + d->size);
	d->depth = 0;
	if (d->steps > 0)
		push_range(d, 0, d->steps, -1, d->limit);
}

/* Fills CHOICES, and TIMES, which has the same entries. MEMORY has P by length. W and R are in steps. */
static void fill_tables(const struct disk_bounded *d, const double *memory, double w, double r, double *times,
                        int32_t *choices)
{
	const double unit = (double)d->unit;
	for (int64_t free = 0; free <= d->places; free++)
		for (int64_t l = 0; l < d->size; l++) {
			const int64_t current = entry(d, false, free, l), read = entry(d, true, free, l);
			times[current] = times[read] = memory[l];
			choices[current] = choices[read] = 0;
			for (int64_t j = 1; j < l && free > 0; j++) {
				const double time = w + unit * (double)j + times[entry(d, false, free - 1, l - j)] + r +
				                    times[entry(d, true, free - 1, j)];
				if (time < times[current]) {
					times[current] = time;
					choices[current] = (int32_t)j;
				}
			}
			for (int64_t i = 1; i < l; i++) {
				const double time =
					unit * (double)i + times[entry(d, false, free, l - i)] + r + times[entry(d, true, free, i)];
				if (time < times[read]) {
					times[read] = time;
					choices[read] = (int32_t)i;
				}
			}
		}
}

/* Sets the slots of D, in memory and on disk, to those that it uses. */
static void count_slots(struct disk_bounded *d)
{
	int64_t longest = 0;
	d->head.slots = d->capacity - 1;
	d->head.disk_slots = 0;
	bounded_rewind(&d->head);
	while (d->depth > 0) {
		const struct disk_range r = d->ranges[--d->depth];
		if (!cut_range(d, &r))
			longest = greater(longest, r.end - r.begin);
		else if (r.slot < 0)
			d->head.disk_slots = greater(d->head.disk_slots, d->limit - r.free + 1);
	}
	d->head.slots = binomial_slots(longest, d->snapshots);
	bounded_rewind(&d->head);
}

/* Returns the terms of tables of SIZE lengths with PLACES places. More places than lengths are of no use. */
static int64_t terms_of(int64_t size, int64_t places) { return size * size * (lesser(places, size) + 1); }

bool disk_bounded_is_exact(int64_t steps, int64_t places, bool small)
{
	return steps < SIZE_MOST && terms_of(steps + 1, places) <= (small ? SMALL : TERMS);
}

/*
 * Sets UNIT, SIZE and PLACES. Tables that have not all lengths have at most COARSE terms, or SMALL ones. UNIT is that of
 * the next power of two of places, so that more places take no more time between two powers.
 */
static void choose_unit(struct disk_bounded *d, bool small)
{
	int64_t places = 1;
	while (places < lesser(d->places, d->steps))
		places *= 2;
	d->unit = 1;
	if (!disk_bounded_is_exact(d->steps, d->places, small))
		while (d->steps / d->unit >= SIZE_MOST ||
		       terms_of(ceil_div(d->steps, d->unit) + 1, places) > (small ? SMALL : COARSE))
			d->unit += 1 + d->unit / 8;
	d->size = ceil_div(d->steps, d->unit) + 1;
	d->limit = d->places = lesser(d->places, d->size);
}

struct schedule *disk_bounded_schedule(const struct allocator *allocator, const struct disk_means *means,
                                       int64_t places, bool small)
{
	struct disk_bounded made = {.head = {.emit = bounded_emit, .rewind = bounded_rewind},
	                            .steps = means->steps,
	                            .snapshots = means->snapshots,
	                            .places = places};
	choose_unit(&made, small);
	if (made.unit > 1 || made.places == 0)
		made.snapshots = greater(means->snapshots, 1);
	made.capacity = binomial_slots(means->steps, made.snapshots) + 1;
	made.head.slots = made.capacity - 1;
	const size_t entries = 2 * (size_t)(made.places + 1) * (size_t)made.size;
	const size_t size = (size_t)made.capacity * BINOMIAL_EACH + (size_t)made.size * sizeof *made.ranges +
	                    entries * sizeof *made.choices;
	double *times = allocator_get(allocator, entries + (size_t)made.size, sizeof *times);
	struct disk_bounded *d = times ? schedule_create(allocator, &made.head, sizeof made, 1, size) : NULL;
	if (d) {
		double *memory = times + entries;
		for (int64_t l = 0; l < d->size; l++)
			memory[l] = (double)binomial_evaluations(lesser(l * d->unit, means->steps), d->snapshots);
		fill_tables(d, memory, means->write, means->read, times, d->choices);
		count_slots(d);
	}
	allocator_put(allocator, times, (entries + (size_t)made.size) * sizeof *times);
	return d ? &d->head : NULL;
}

void disk_bounded_restrict(struct schedule *schedule, int64_t places)
{
	struct disk_bounded *d = (struct disk_bounded *)schedule;
	d->limit = lesser(places, d->places);
	count_slots(d);
}
