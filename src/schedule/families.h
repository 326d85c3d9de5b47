/*
 * The families of schedules, and what they share: how a schedule is made and emitted, and reversing ranges of
 * steps. Private to schedule/; others make a schedule by policy_schedule or from an action list.
 */
#ifndef SCHEDULE_FAMILIES_H
#define SCHEDULE_FAMILIES_H

#include "schedule/action.h"
#include "schedule/step_costs.h"

/* The actions of one decision of a family, oldest first. */
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
 * The head of every schedule. A family's own state follows it in the same block, so
 * that emission allocates nothing and freeing is one call. Rewind sets all pointers
 * into the block, so that a copy of the block is a schedule.
 */
struct schedule {
	void (*emit)(struct schedule *schedule); /* pushes the actions of the next decision, or none at the end */
	void (*rewind)(struct schedule *schedule);
	const struct allocator *allocator;
	size_t size;
	int64_t slots, disk_slots;
	struct action_queue queue; /* empty where EMIT is called */
};

/*
 * Returns a schedule at its first action: a copy of the SIZE bytes at HEAD, and COUNT * EACH bytes more,
 * which nothing has written. NULL if out of memory or if the size overflows.
 */
void *schedule_create(const struct allocator *allocator, const struct schedule *head, size_t size, int64_t count,
                      size_t each);

/* Each NAME_schedule returns NULL if out of memory; NAME_evaluations counts the forward executions of its steps. */

/* Segments of LENGTH steps; the first KEPT starts at most are kept (0: all). LENGTH at least STEPS is save-all. */
struct schedule *segments_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t kept);
int64_t segments_evaluations(int64_t steps, int64_t length, int64_t kept);
struct schedule *recursive_schedule(const struct allocator *allocator, int64_t steps);
int64_t recursive_evaluations(int64_t steps);
/* Binomial checkpointing of parts of LENGTH steps, each recorded as one; HALVES as in struct binomial. */
struct schedule *revolve_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t snapshots,
                                  bool halves);
int64_t revolve_evaluations(int64_t steps, int64_t length, int64_t snapshots);
struct schedule *online_schedule(const struct allocator *allocator, int64_t steps, int64_t snapshots);
struct schedule *disk_revolve_schedule(const struct allocator *allocator, const struct step_costs *costs,
                                       int64_t snapshots);

/* Reversing ranges of steps by binomial checkpointing (revolve.c): all families but segments do. */

/* A range still to be reversed with SNAPSHOTS slots, that of its begin counted. */
struct binomial_range {
	int64_t begin, end;
	int64_t snapshots;
	int64_t slot;               /* of the state at begin, or -1 */
	int64_t repetitions, reach; /* a repetition number that is enough for the range, and its reach */
};

/* Bytes of the stacks for each range and slot. */
enum { BINOMIAL_EACH = sizeof(struct binomial_range) + sizeof(int64_t) };

/* Two stacks: the ranges, the rightmost on top, and the free slots. */
struct binomial {
	struct binomial_range *ranges;
	int64_t depth;
	int64_t *free;
	int64_t free_count;
	bool halves; /* recursive: a range is cut in the middle, and two steps are recorded as one */
};

/* Returns how many of SNAPSHOTS a chain of STEPS can use: one for each step that another follows. */
int64_t binomial_slots(int64_t steps, int64_t snapshots);
/* Empties BINOMIAL, whose stacks of CAPACITY lie at MEMORY, and frees SLOTS slots. Returns the end of the stacks. */
void *binomial_reset(struct binomial *binomial, void *memory, int64_t capacity, int64_t slots);
/* Pushes a range. SLOT is -1 if its begin is the current state. */
void binomial_push(struct binomial *binomial, int64_t begin, int64_t end, int64_t snapshots, int64_t slot);
/* Emits the next actions of the top range into an empty queue. */
void binomial_step(struct binomial *binomial, struct action_queue *queue);
/*
 * The evaluations (recording ones included) of binomial checkpointing with SNAPSHOTS over STEPS, after
 * Griewank and Walther 2000; INT64_MAX if no schedule needs so few snapshots.
 */
int64_t binomial_evaluations(int64_t steps, int64_t snapshots);

#endif
