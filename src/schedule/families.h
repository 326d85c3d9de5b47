/*
 * The families of schedules, and what they share: making and emitting a schedule, and reversing ranges of steps.
 * Private to schedule/; other folders make a schedule by policy_schedule or action_list_schedule.
 */
#ifndef SCHEDULE_FAMILIES_H
#define SCHEDULE_FAMILIES_H

#include "schedule/action.h"
#include "schedule/step_costs.h"

/* The actions that one call of `emit` pushes, in order. */
struct action_queue {
	struct action actions[6];
	int head, count;
};
static inline void queue_push(struct action_queue *queue, enum action_kind kind, int64_t begin, int64_t end,
                              int64_t slot)
{
	queue->actions[queue->count++] = (struct action){kind, begin, end, slot};
}

/*
 * The head of every schedule. A family's own state follows it in the same block. So emission allocates nothing, and
 * freeing is one call. `rewind` sets all pointers into the block: a copy of the block is a schedule once rewound.
 */
struct schedule {
	void (*emit)(struct schedule *schedule); /* pushes the next few actions to `queue`, or none at the end */
	void (*rewind)(struct schedule *schedule);
	const struct allocator *allocator;
	size_t size;
	int64_t slots, disk_slots;
	int64_t head; /* steps before those that `emit` counts from 0 (schedule_add_head) */
	enum { HEAD_AHEAD, HEAD_RECORDED, HEAD_REVERSED } stage; /* of the head, if it has steps */
	struct action_queue queue;                               /* empty when `emit` is called */
};

/*
 * Returns a schedule at its first action, for schedule_free: a copy of the SIZE bytes at HEAD, and COUNT * EACH
 * uninitialised bytes after it. NULL if out of memory or if the size overflows.
 */
void *schedule_create(const struct allocator *allocator, const struct schedule *head, size_t size, int64_t count,
                      size_t each);

/* NAME_schedule: NULL if out of memory. NAME_evaluations: its executions of forward steps, recording too; saturated. */

/* Cuts the chain into segments of LENGTH steps. Keeps the first states of the first KEPT (0: all), never the last. */
struct schedule *segments_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t kept);
int64_t segments_evaluations(int64_t steps, int64_t length, int64_t kept);
struct schedule *recursive_schedule(const struct allocator *allocator, int64_t steps);
int64_t recursive_evaluations(int64_t steps);
/* Binomial checkpointing of parts of LENGTH steps, the first perhaps fewer; HALVES is as in struct binomial. */
struct schedule *revolve_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t snapshots,
                                  bool halves);
int64_t revolve_evaluations(int64_t steps, int64_t length, int64_t snapshots);
/* ON_DISK: the most states on disk, beside the SNAPSHOTS in memory. */
struct schedule *online_schedule(const struct allocator *allocator, int64_t steps, int64_t snapshots, int64_t on_disk);
/* DISK_BYTES: the most bytes of states on disk at once, each counted as the largest; 0: any. */
struct schedule *disk_revolve_schedule(const struct allocator *allocator, const struct step_costs *costs,
                                       int64_t snapshots, int64_t disk_bytes);

/* Times of a chain that may keep states on disk, in any unit. */
struct disk_costs {
	int64_t steps;
	const double *sums; /* sums[i]: the forward time of steps 0 .. i-1 */
	double write, read; /* of a state */
};
/* The most steps of disk_exact_schedule. */
enum { DISK_EXACT = 64 };
/*
 * The fastest schedule over at most DISK_EXACT steps by their own times, with at most PLACES states on disk. If there are
 * 0 of these, one state is kept in memory for 0 snapshots.
 */
struct schedule *disk_exact_schedule(const struct allocator *allocator, const struct disk_costs *costs,
                                     int64_t snapshots, int64_t places);
/* Steps that are taken to be equal. WRITE and READ are in mean steps. */
struct disk_means {
	int64_t steps, snapshots;
	double write, read;
};
/*
 * At most PLACES states on disk. If 0 snapshots would need more places, or if tables of all lengths would be too large,
 * one state is kept in memory. SMALL: the tables take about a millisecond, and are coarser.
 */
struct schedule *disk_bounded_schedule(const struct allocator *allocator, const struct disk_means *means,
                                       int64_t places, bool small);
/* True if disk_bounded_schedule has tables of all lengths: no schedule over equal steps takes less time. */
bool disk_bounded_is_exact(int64_t steps, int64_t places, bool small);
/* Makes SCHEDULE, of disk_bounded_schedule, use at most PLACES, by its tables. Rewinds it. */
void disk_bounded_restrict(struct schedule *schedule, int64_t places);

/* Stacks of ranges of steps, which are cut and reversed (revolve.c): all families use them except segments. */

/* Steps (for revolve: parts) still to be reversed. SNAPSHOTS counts the slots for them, that of state BEGIN too. */
struct binomial_range {
	int64_t begin, end;
	int64_t snapshots;
	int64_t slot;               /* of the state at BEGIN, or -1 */
	int64_t repetitions, reach; /* an r with beta(SNAPSHOTS, r) >= END - BEGIN, and this beta: see revolve.c */
};

/* Bytes of one entry of both stacks. */
enum { BINOMIAL_EACH = sizeof(struct binomial_range) + sizeof(int64_t) };

/* Two stacks: the ranges, the rightmost on top, and the free slots. */
struct binomial {
	struct binomial_range *ranges;
	int64_t depth;
	int64_t *free;
	int64_t free_count;
	bool halves; /* for `recursive`: ranges are cut in the middle, and up to two steps are recorded together */
};

/* Returns how many of SNAPSHOTS a chain of STEPS can use: at most STEPS - 1. */
int64_t binomial_slots(int64_t steps, int64_t snapshots);
/* Resets BINOMIAL to no range and SLOTS free slots, with stacks of CAPACITY entries at MEMORY. Returns their end. */
void *binomial_reset(struct binomial *binomial, void *memory, int64_t capacity, int64_t slots);
/* Pushes a range. SLOT holds the state at BEGIN; it is -1 if that is the current state. */
void binomial_push(struct binomial *binomial, int64_t begin, int64_t end, int64_t snapshots, int64_t slot);
/* Pushes the next actions of the top range to QUEUE, which must be empty. There must be a range. */
void binomial_step(struct binomial *binomial, struct action_queue *queue);
/*
 * Returns the evaluations (recording ones included) of binomial checkpointing with SNAPSHOTS over STEPS, after
 * Griewank and Walther 2000. INT64_MAX if they are more, or if SNAPSHOTS is 0 and STEPS is above 1.
 */
int64_t binomial_evaluations(int64_t steps, int64_t snapshots);

#endif
