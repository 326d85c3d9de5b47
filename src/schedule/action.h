/*
 * A schedule: a flat list of actions over the steps 0 .. n-1 of a chain. They are emitted
 * one at a time, so millions of actions need no memory. A schedule is data: it knows no array. What interprets it (the cost walk, the memory
 * machine, another program by `plan --schedule`) knows no policy.
 *
 * State p is what step p and the steps after it need: state 0 is the input, state n
 * the output. At any time there is one current state or none. Slots hold states in memory
 * or on disk. Some steps have their residuals held. The cotangent has a position, at first n.
 */
#ifndef SCHEDULE_ACTION_H
#define SCHEDULE_ACTION_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum action_kind {
	ACT_FORWARD,  /* advances the current state from BEGIN to END; keeps nothing */
	ACT_RECORD,   /* advances the current state from BEGIN to END; keeps the residuals of steps BEGIN .. END-1 */
	ACT_SAVE,     /* copies the current state, at BEGIN, to memory slot SLOT, which is empty */
	ACT_LOAD,     /* makes the state in SLOT, BEGIN, the current one; the slot keeps it */
	ACT_DROP,     /* empties SLOT */
	ACT_SPILL,    /* writes the current state, at BEGIN, to disk slot SLOT */
	ACT_FETCH,    /* makes the state in disk slot SLOT the current one; the slot keeps it */
	ACT_DISCARD,  /* empties disk slot SLOT */
	ACT_BACKWARD, /* drops the current state; moves the cotangent from END to BEGIN by the residuals of steps
	                 BEGIN .. END-1, and frees these one by one */
};
const char *action_name(enum action_kind kind); /* "forward" ... */

struct action {
	enum action_kind kind;
	int64_t begin, end; /* steps; those of a slot are of state BEGIN */
	int64_t slot;
};

struct schedule;
/* Reads the next action; false at the end. Deterministic. Allocates nothing. */
bool schedule_next(struct schedule *schedule, struct action *action);
/* Goes back to the first action. */
void schedule_rewind(struct schedule *schedule);
/* Returns a second reader of the same actions, at the first; NULL if out of memory. */
struct schedule *schedule_copy(const struct schedule *schedule);
/*
 * Returns what SCHEDULE, of STEPS steps, holds when the first sweep ends, by position: a sum of the flags below, for
 * STEPS + 1 positions. NULL if out of memory.
 */
unsigned char *schedule_held(struct schedule *schedule, int64_t steps, struct arena *arena);
enum { HELD_RESIDUAL = 1, HELD_STATE = 2, HELD_ON_DISK = 4 };
/* The most memory slots, and disk slots, in use at once; slots are numbered below this. */
int64_t schedule_slots(const struct schedule *schedule);
int64_t schedule_disk_slots(const struct schedule *schedule);
void schedule_free(struct schedule *schedule);

/* Actions that are pushed one by one, for schedules that no rule emits. */
struct action_list {
	struct action *actions;
	size_t count, capacity;
	int64_t used, slots; /* slots in use, and the most in use at once */
	const struct allocator *allocator;
	bool failed; /* out of memory */
};

/* Appends an action, or extends the last one if a RECORD or a BACKWARD continues it. */
void action_list_push(struct action_list *list, enum action_kind kind, int64_t begin, int64_t end, int64_t slot);
/* Returns a schedule that emits LIST, whose memory is freed; NULL if out of memory, now or before. */
struct schedule *action_list_schedule(struct action_list *list);

#endif
