/*
 * All schedules: making, reading and freeing them. Also the schedule that emits a list of actions. A schedule is one
 * block of memory, whose size never changes: the head, then the state of its family.
 * Tests: tests/unit/test_schedule.c
 */
#include <string.h>

#include "base/checked.h"
#include "schedule/families.h"

void *schedule_create(const struct allocator *allocator, const struct schedule *head, size_t size, int64_t count,
                      size_t each)
{
	size_t total;
	if (count < 0 || !checked_mul((size_t)count, each, &total) || !checked_add(total, size, &total))
		return NULL;
	struct schedule *schedule = allocator_get(allocator, 1, total);
	if (!schedule)
		return NULL;
	memcpy(schedule, head, size);
	schedule->allocator = allocator;
	schedule->size = total;
	schedule_rewind(schedule);
	return schedule;
}

bool schedule_next(struct schedule *schedule, struct action *action)
{
	struct action_queue *queue = &schedule->queue;
	const int64_t head = schedule->head;
	if (head > 0 && schedule->stage == HEAD_AHEAD) {
		schedule->stage = HEAD_RECORDED;
		*action = (struct action){ACT_RECORD, 0, head, 0};
		return true;
	}
	if (queue->head == queue->count) {
		queue->head = queue->count = 0;
		schedule->emit(schedule);
	}
	if (queue->head < queue->count) {
		*action = queue->actions[queue->head++];
		action->begin += head;
		action->end += head;
		return true;
	}
	const bool reverse = head > 0 && schedule->stage == HEAD_RECORDED;
	if (reverse) {
		schedule->stage = HEAD_REVERSED;
		*action = (struct action){ACT_BACKWARD, 0, head, 0};
	}
	return reverse;
}

void schedule_add_head(struct schedule *schedule, int64_t steps)
{
	schedule->head = steps;
	schedule_rewind(schedule);
}

void schedule_rewind(struct schedule *schedule)
{
	schedule->queue.head = schedule->queue.count = 0;
	schedule->stage = HEAD_AHEAD;
	schedule->rewind(schedule);
}

struct schedule *schedule_copy(const struct schedule *schedule)
{
	struct schedule *copy = allocator_get(schedule->allocator, 1, schedule->size);
	if (!copy)
		return NULL;
	memcpy(copy, schedule, schedule->size);
	schedule_rewind(copy);
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

unsigned char *schedule_held(struct schedule *schedule, int64_t steps, struct arena *arena)
{
	int64_t *slots = arena_array(arena, (size_t)schedule->slots + 1, sizeof *slots);
	int64_t *disk = arena_array(arena, (size_t)schedule->disk_slots + 1, sizeof *disk);
	unsigned char *held = arena_alloc(arena, (size_t)steps + 1);
	struct action a;
	if (!slots || !disk || !held)
		return NULL;
	schedule_rewind(schedule);
	for (bool swept = steps == 0; !swept && schedule_next(schedule, &a);) {
		const bool on_disk = a.kind == ACT_SPILL || a.kind == ACT_DISCARD;
		const unsigned char flag = on_disk ? HELD_ON_DISK : HELD_STATE;
		int64_t *position = on_disk ? &disk[a.slot] : &slots[a.slot];
		if (a.kind == ACT_SAVE || a.kind == ACT_SPILL) {
			*position = a.begin;
			held[a.begin] |= flag;
		} else if (a.kind == ACT_DROP || a.kind == ACT_DISCARD) {
			held[*position] &= (unsigned char)~flag;
		} else if (a.kind == ACT_RECORD) {
			for (int64_t i = a.begin; i < a.end; i++)
				held[i] |= HELD_RESIDUAL;
		}
		swept = (a.kind == ACT_RECORD || a.kind == ACT_FORWARD) && a.end == steps;
	}
	return held;
}

void action_list_push(struct action_list *list, enum action_kind kind, int64_t begin, int64_t end, int64_t slot)
{
	struct action *last = list->count ? &list->actions[list->count - 1] : NULL;
	if (last && last->kind == kind && kind == ACT_RECORD && last->end == begin)
		last->end = end;
	else if (last && last->kind == kind && kind == ACT_BACKWARD && last->begin == end)
		last->begin = begin;
	else if (allocator_grow(list->allocator, (void **)&list->actions, &list->capacity, list->count + 1,
	                        sizeof *list->actions))
		list->actions[list->count++] = (struct action){kind, begin, end, slot};
	else
		list->failed = true;
}

int64_t action_list_keep(struct action_list *list, int64_t begin, int64_t slot)
{
	if (slot >= 0) {
		action_list_push(list, ACT_LOAD, begin, begin, slot);
		return slot;
	}
	slot = list->used++;
	list->slots = greater(list->slots, list->used);
	action_list_push(list, ACT_SAVE, begin, begin, slot);
	return slot;
}

void action_list_record(struct action_list *list, int64_t begin, int64_t end, int64_t slot)
{
	if (slot >= 0) {
		action_list_push(list, ACT_LOAD, begin, begin, slot);
		action_list_push(list, ACT_DROP, begin, begin, slot);
		list->used--; /* slots are a stack */
	}
	action_list_push(list, ACT_RECORD, begin, end, 0);
}

struct listed {
	struct schedule head;
	size_t at, count;
	struct action actions[];
};

static void listed_emit(struct schedule *schedule)
{
	struct listed *listed = (struct listed *)schedule;
	if (listed->at < listed->count)
		schedule->queue.actions[schedule->queue.count++] = listed->actions[listed->at++];
}

static void listed_rewind(struct schedule *schedule) { ((struct listed *)schedule)->at = 0; }

struct schedule *action_list_schedule(struct action_list *list)
{
	const struct listed made = {
		.head = {.emit = listed_emit, .rewind = listed_rewind, .slots = list->slots, .disk_slots = list->disk_slots},
		.count = list->count};
	struct listed *listed = NULL;
	if (!list->failed)
		listed = schedule_create(list->allocator, &made.head, sizeof made, (int64_t)list->count, sizeof *list->actions);
	if (listed && list->count)
		memcpy(listed->actions, list->actions, list->count * sizeof *list->actions);
	allocator_put(list->allocator, list->actions, list->capacity * sizeof *list->actions);
	return listed ? &listed->head : NULL;
}
