/*
 * What all schedules share: making, reading and freeing them. A schedule is one block of memory of a fixed
 * size; a family keeps its state behind the head. Reading an action is a call through a pointer.
 */
#include <string.h>

#include "base/checked.h"
#include "schedule/families.h"

void *schedule_create(const struct allocator *allocator, size_t size, int64_t count, size_t each,
                      bool (*next)(struct schedule *, struct action *), void (*rewind)(struct schedule *))
{
	size_t total;
	if (count < 0 || !checked_mul((size_t)count, each, &total) || !checked_add(total, size, &total))
		return NULL;
	struct schedule *schedule = allocator_get(allocator, 1, total);
	if (!schedule)
		return NULL;
	/* Only the head is cleared: a family writes its tables before it reads them. */
	memset(schedule, 0, size);
	schedule->next = next;
	schedule->rewind = rewind;
	schedule->allocator = allocator;
	schedule->size = total;
	return schedule;
}

bool schedule_next(struct schedule *schedule, struct action *action) { return schedule->next(schedule, action); }

void schedule_rewind(struct schedule *schedule) { schedule->rewind(schedule); }

struct schedule *schedule_copy(const struct schedule *schedule)
{
	struct schedule *copy = allocator_get(schedule->allocator, 1, schedule->size);
	if (!copy)
		return NULL;
	memcpy(copy, schedule, schedule->size);
	copy->rewind(copy);
	return copy;
}

int64_t schedule_slots(const struct schedule *schedule) { return schedule->slots; }

int64_t schedule_disk_slots(const struct schedule *schedule) { return schedule->disk_slots; }

void schedule_free(struct schedule *schedule)
{
	if (schedule)
		allocator_put(schedule->allocator, schedule, schedule->size);
}

const char *action_name(enum action_kind kind)
{
	static const char *const names[] = {
		[ACT_FORWARD] = "forward", [ACT_RECORD] = "record",   [ACT_SAVE] = "save",
		[ACT_LOAD] = "load",       [ACT_DROP] = "drop",       [ACT_SPILL] = "spill",
		[ACT_FETCH] = "fetch",     [ACT_DISCARD] = "discard", [ACT_BACKWARD] = "backward",
	};
	return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}
