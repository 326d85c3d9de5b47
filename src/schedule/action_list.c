/* A list of actions, and the schedule that emits it. */
#include "schedule/action_list.h"

#include <string.h>

#include "schedule/families.h"

void action_list_push(struct action_list *list, enum action_kind kind, int64_t begin, int64_t end, int64_t slot)
{
	struct action *last = list->count ? &list->actions[list->count - 1] : NULL;
	if (last && last->kind == kind && kind == ACT_RECORD && last->end == begin) {
		last->end = end;
		return;
	}
	if (last && last->kind == kind && kind == ACT_BACKWARD && last->begin == end) {
		last->begin = begin;
		return;
	}
	if (list->count == list->capacity) {
		size_t next = list->capacity ? 2 * list->capacity : 64;
		struct action *grown = list->allocator->resize(list->allocator->context, list->actions,
		                                               list->capacity * sizeof *grown, next * sizeof *grown);
		if (!grown) {
			list->failed = true;
			return;
		}
		list->actions = grown;
		list->capacity = next;
	}
	list->actions[list->count++] = (struct action){kind, begin, end, slot};
}

void action_list_free(struct action_list *list)
{
	allocator_put(list->allocator, list->actions, list->capacity * sizeof *list->actions);
	*list = (struct action_list){.allocator = list->allocator};
}

struct listed {
	struct schedule head;
	size_t at, count;
	struct action actions[];
};

static bool listed_next(struct schedule *schedule, struct action *action)
{
	struct listed *listed = (struct listed *)schedule;
	if (listed->at == listed->count)
		return false;
	*action = listed->actions[listed->at++];
	return true;
}

static void listed_rewind(struct schedule *schedule) { ((struct listed *)schedule)->at = 0; }

struct schedule *action_list_schedule(const struct action_list *list, const struct allocator *allocator)
{
	if (list->failed)
		return NULL;
	struct listed *listed = schedule_create(allocator, sizeof *listed, (int64_t)list->count, sizeof *list->actions,
	                                        listed_next, listed_rewind);
	if (!listed)
		return NULL;
	listed->count = list->count;
	if (list->count)
		memcpy(listed->actions, list->actions, list->count * sizeof *list->actions);
	listed->head.slots = list->slots;
	return &listed->head;
}
