/*
 * disk-revolve:S over a short chain of unequal steps, with at most D states on disk at once: the recurrences of
 * disk_bounded.c by the steps' own times. So more snapshots or more disk never take more time.
 *
 * Let c(i, j) be the forward time of steps i .. j-1, and w and r the times to write and to read a state. To reverse
 * these steps from the current state i takes
 *
 *     P(i, j, s) = min over k of  c(i, k) + P(k, j, s - 1) + P(i, k, s)                                  in memory,
 *     T(i, j, d) = min( P(i, j, S),  min over k of  w + c(i, k) + T(k, j, d - 1) + r + D(i, k, d - 1) ),
 *     D(i, j, d) = min( P(i, j, S),  min over k of  c(i, k) + T(k, j, d) + r + D(i, k, d) ),
 *
 * with s free snapshots or d free places on disk. For D, the state i has just been read from its place, which stays.
 * P of one step is its time. No table has the choices: the schedule's list finds each again.
 * Tests: tests/unit/test_schedule.c
 */
#include <math.h>

#include "base/checked.h"
#include "schedule/families.h"

struct disk_exact {
	const double *sums; /* sums[i]: the forward time of steps 0 .. i-1 */
	double *memory, *current, *read;
	double write_time, read_time;
	int64_t steps, snapshots;
	int64_t places; /* 0: no disk. As many as steps or more are no limit, and are one level of the tables */
	struct action_list *list;
};

/* A range of steps BEGIN .. END-1 with FREE snapshots or places. */
struct disk_part {
	int64_t begin, end, free;
};

static int64_t cell(const struct disk_exact *d, int64_t begin, int64_t end, int64_t level)
{
	return (level * (d->steps + 1) + begin) * (d->steps + 1) + end;
}

static bool is_unlimited(const struct disk_exact *d) { return d->places >= d->steps; }

/* The last level of the tables on disk, and the level after FREE has lost a place. */
static int64_t top_level(const struct disk_exact *d) { return is_unlimited(d) ? 1 : d->places; }
static int64_t level_below(const struct disk_exact *d, int64_t free) { return is_unlimited(d) ? free : free - 1; }

static double time_between(const struct disk_exact *d, int64_t begin, int64_t end)
{
	return d->sums[end] - d->sums[begin];
}

/* Returns P of R. *SPLIT: the k of the minimum; 0: one step, or no way. */
static double memory_time(const struct disk_exact *d, struct disk_part r, int64_t *split)
{
	double best = r.end - r.begin == 1 ? time_between(d, r.begin, r.end) : INFINITY;
	*split = 0;
	for (int64_t k = r.begin + 1; k < r.end && r.free > 0; k++) {
		const double time = time_between(d, r.begin, k) + d->memory[cell(d, k, r.end, r.free - 1)] +
		                    d->memory[cell(d, r.begin, k, r.free)];
		if (time < best) {
			best = time;
			*split = k;
		}
	}
	return best;
}

/* Returns D of R if its first state is ON_DISK, else T. *SPLIT: the k of the minimum; 0: memory alone. */
static double least_time(const struct disk_exact *d, struct disk_part r, bool on_disk, int64_t *split)
{
	const int64_t free = on_disk ? r.free : level_below(d, r.free);
	const double own = on_disk ? d->read_time : d->write_time + d->read_time;
	double best = d->memory[cell(d, r.begin, r.end, d->snapshots)];
	*split = 0;
	for (int64_t k = r.begin + 1; k < r.end && (on_disk || r.free > 0); k++) {
		const double time = own + time_between(d, r.begin, k) + d->current[cell(d, k, r.end, free)] +
		                    d->read[cell(d, r.begin, k, free)];
		if (time < best) {
			best = time;
			*split = k;
		}
	}
	return best;
}

static void fill_exact(const struct disk_exact *d)
{
	int64_t split;
	for (int64_t length = 1; length <= d->steps; length++)
		for (int64_t i = 0; i + length <= d->steps; i++) {
			for (int64_t s = 0; s <= d->snapshots; s++)
				d->memory[cell(d, i, i + length, s)] = memory_time(d, (struct disk_part){i, i + length, s}, &split);
			for (int64_t free = 0; free <= top_level(d); free++) {
				const struct disk_part part = {i, i + length, free};
				d->current[cell(d, i, i + length, free)] = least_time(d, part, false, &split);
				d->read[cell(d, i, i + length, free)] = least_time(d, part, true, &split);
			}
		}
}

/* Appends the actions that reverse R in memory. The first state is current. */
static void list_in_memory(const struct disk_exact *d, struct disk_part r)
{
	int64_t split, slot = -1;
	for (; (void)memory_time(d, r, &split), split; r.end = split) {
		slot = action_list_keep(d->list, r.begin, slot);
		action_list_push(d->list, ACT_FORWARD, r.begin, split, 0);
		list_in_memory(d, (struct disk_part){split, r.end, r.free - 1});
	}
	action_list_record(d->list, r.begin, r.end, slot);
	action_list_push(d->list, ACT_BACKWARD, r.begin, r.end, 0);
}

/* Appends the actions that reverse R. The first state is current. PLACES of the disk are taken. */
static void list_on_disk(const struct disk_exact *d, struct disk_part r, int64_t places)
{
	int64_t split;
	(void)least_time(d, r, false, &split);
	if (split) {
		action_list_push(d->list, ACT_SPILL, r.begin, r.begin, places);
		d->list->disk_slots = greater(d->list->disk_slots, places + 1);
		r.free = level_below(d, r.free);
	}
	for (bool written = split; split; r.end = split) {
		if (!written)
			(void)least_time(d, r, true, &split);
		if (!written)
			action_list_push(d->list, ACT_FETCH, r.begin, r.begin, places);
		if (!split) {
			action_list_push(d->list, ACT_DISCARD, r.begin, r.begin, places);
			break;
		}
		action_list_push(d->list, ACT_FORWARD, r.begin, split, 0);
		list_on_disk(d, (struct disk_part){split, r.end, r.free}, places + 1);
		written = false;
	}
	list_in_memory(d, (struct disk_part){r.begin, r.end, d->snapshots});
}

struct schedule *disk_exact_schedule(const struct allocator *allocator, const struct disk_costs *costs,
                                     int64_t snapshots, int64_t places)
{
	struct action_list list = {.allocator = allocator};
	struct disk_exact d = {.sums = costs->sums,
	                       .steps = costs->steps,
	                       .snapshots = lesser(places > 0 ? snapshots : greater(snapshots, 1), costs->steps),
	                       .places = places,
	                       .write_time = costs->write,
	                       .read_time = costs->read,
	                       .list = &list};
	const size_t square = (size_t)((d.steps + 1) * (d.steps + 1));
	const size_t on_disk = square * (size_t)(top_level(&d) + 1), in_memory = square * (size_t)(d.snapshots + 1);
	d.memory = allocator_get(allocator, in_memory + 2 * on_disk, sizeof *d.memory);
	if (!d.memory)
		return NULL;
	d.current = d.memory + in_memory;
	d.read = d.current + on_disk;
	fill_exact(&d);
	if (d.steps > 0)
		list_on_disk(&d, (struct disk_part){0, d.steps, top_level(&d)}, 0);
	allocator_put(allocator, d.memory, (in_memory + 2 * on_disk) * sizeof *d.memory);
	return action_list_schedule(&list);
}
