/* Schedules that are made action by action. */
#ifndef SCHEDULE_ACTION_LIST_H
#define SCHEDULE_ACTION_LIST_H

#include "schedule/action.h"

#include <stddef.h>

struct action_list {
	struct action *actions;
	size_t count, capacity;
	int64_t used, slots; /* slots in use, and the most in use at once */
	const struct allocator *allocator;
	bool failed; /* out of memory */
};

/* Appends an action, or extends the last one where it is a RECORD or a BACKWARD that goes on. */
void action_list_push(struct action_list *list, enum action_kind kind, int64_t begin, int64_t end, int64_t slot);
void action_list_free(struct action_list *list);
/* Returns a schedule that emits a copy of LIST; NULL if out of memory, now or before. */
struct schedule *action_list_schedule(const struct action_list *list, const struct allocator *allocator);

#endif
