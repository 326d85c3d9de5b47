/*
 * The families of schedules, a file each, and what they share: how a schedule is made and
 * emitted. Private to schedule/; others make a schedule by policy_schedule or from an action list.
 */
#ifndef SCHEDULE_FAMILIES_H
#define SCHEDULE_FAMILIES_H

#include "schedule/action.h"
#include "schedule/step_costs.h"

/*
 * The head of every schedule. A family's own state follows it in the same block, so
 * that emission allocates nothing and freeing is one call. Rewind sets all pointers
 * into the block, so that a copy of the block is a schedule.
 */
struct schedule {
	bool (*next)(struct schedule *schedule, struct action *action);
	void (*rewind)(struct schedule *schedule);
	const struct allocator *allocator;
	size_t size;
	int64_t slots, disk_slots;
};

/*
 * Returns a block of SIZE zeroed bytes, which begins with a struct schedule, and COUNT * EACH
 * bytes more; NULL if out of memory or if the size overflows.
 */
void *schedule_create(const struct allocator *allocator, size_t size, int64_t count, size_t each,
                      bool (*next)(struct schedule *, struct action *), void (*rewind)(struct schedule *));

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
static inline bool queue_pop(struct action_queue *queue, struct action *action)
{
	if (queue->head == queue->count)
		return false;
	*action = queue->actions[queue->head++];
	if (queue->head == queue->count)
		queue->head = queue->count = 0;
	return true;
}

/* Each NAME_schedule returns NULL if out of memory; NAME_evaluations counts the forward executions of its steps. */

/* Segments of LENGTH steps; the first KEPT starts at most are kept (0: all). LENGTH at least STEPS is save-all. */
struct schedule *segments_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t kept);
int64_t segments_evaluations(int64_t steps, int64_t length, int64_t kept);
struct schedule *recursive_schedule(const struct allocator *allocator, int64_t steps);
int64_t recursive_evaluations(int64_t steps);
/* Binomial checkpointing of parts of LENGTH steps, each recorded as one. */
struct schedule *revolve_schedule(const struct allocator *allocator, int64_t steps, int64_t length, int64_t snapshots);
int64_t revolve_evaluations(int64_t steps, int64_t length, int64_t snapshots);
struct schedule *online_schedule(const struct allocator *allocator, int64_t steps, int64_t snapshots);
struct schedule *disk_revolve_schedule(const struct allocator *allocator, const struct step_costs *costs,
                                       int64_t snapshots);

#endif
