/*
 * What the policy families share: how a schedule is made and emitted. Private
 * to the files of plan/ that emit schedules.
 */
#ifndef SCHEDULE_EMIT_H
#define SCHEDULE_EMIT_H

#include "schedule/policy.h"

/*
 * The head of every schedule; a family's own state follows it in the same
 * block, so that emission allocates nothing and freeing is one call. What points
 * into the block is set by rewind, so that a copy of the block is a schedule.
 */
struct schedule {
	bool (*next)(struct schedule *schedule, struct action *action);
	void (*rewind)(struct schedule *schedule);
	const struct allocator *allocator;
	size_t size;
	int64_t slots, disk_slots;
};

/*
 * A zeroed block of SIZE bytes plus COUNT * EACH, which begins with a struct
 * schedule; NULL where memory is short or the size overflows.
 */
void *schedule_create(const struct allocator *allocator, size_t size, int64_t count, size_t each,
                      bool (*next)(struct schedule *, struct action *), void (*rewind)(struct schedule *));

/* Actions that one decision of a family gives at once, oldest first. */
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

/* The families. Each returns STATUS_OK and *SCHEDULE, or STATUS_LIMIT where memory is short. */
struct emit_context {
	const struct allocator *allocator;
	struct diags *diags;
	struct schedule **schedule;
};
/* Segments of LENGTH steps; the first KEPT starts at most are kept (0: all). LENGTH at least STEPS is save-all. */
enum status segments_schedule(const struct emit_context *context, int64_t steps, int64_t length, int64_t kept);
int64_t segments_evaluations(int64_t steps, int64_t length, int64_t kept);
enum status recursive_schedule(const struct emit_context *context, int64_t steps);
int64_t recursive_evaluations(int64_t steps);
/* Revolve over parts of LENGTH steps, each recorded as one, and its evaluations. */
enum status revolve_parts_schedule(const struct emit_context *context, int64_t steps, int64_t length,
                                   int64_t snapshots);
int64_t revolve_parts_evaluations(int64_t steps, int64_t length, int64_t snapshots);
enum status online_schedule(const struct emit_context *context, int64_t steps, int64_t snapshots);
enum status budget_schedule(const struct emit_context *context, const struct step_costs *costs, int64_t bytes,
                            const char *option);
enum status disk_revolve_schedule(const struct emit_context *context, const struct step_costs *costs,
                                  int64_t snapshots);

/* min(sum, INT64_MAX), for counts of actions that no machine would finish. */
static inline int64_t saturate(__int128 value) { return value > INT64_MAX ? INT64_MAX : (int64_t)value; }

#endif
