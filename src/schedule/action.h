/*
 * A schedule: a flat list of actions over the steps 0 .. n-1 of a chain. They are emitted one at a time, so
 * millions of actions need no memory, unless they come from an action_list. A schedule is data: it knows no array. Its
 * interpreters (the cost walk, the memory machine, another program by `plan --schedule`) know no policy.
 *
 * State p is what step p and the steps after it need: state 0 is the input, state n the output. At any time there is
 * one current state or none. Slots hold states in memory or on disk. Residuals of some steps are held. The cotangent
 * has the position of its state, at first n. The first sweep ends when state n is first reached.
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
	ACT_SAVE,     /* memory slot SLOT, empty before, shares the current state BEGIN; --store-dtype makes a copy */
	ACT_LOAD,     /* makes state BEGIN, which slot SLOT holds, the current one; the slot still holds it */
	ACT_DROP,     /* empties memory slot SLOT */
	ACT_SPILL,    /* writes the current state, at BEGIN, to disk slot SLOT */
	ACT_FETCH,    /* reads state BEGIN from disk slot SLOT as the current one; the slot still holds it */
	ACT_DISCARD,  /* empties disk slot SLOT */
	ACT_BACKWARD, /* drops the current state; reverses steps END-1 .. BEGIN by their residuals and frees each step's;
	                 then the cotangent is at BEGIN */
};
const char *action_name(enum action_kind kind); /* "forward" ... */

struct action {
	enum action_kind kind;
	int64_t begin, end; /* FORWARD, RECORD, BACKWARD: steps BEGIN .. END-1; else BEGIN is the position of a state */
	int64_t slot;
};

/* True if BEGIN and END of such an action are steps. The other actions have a state and a slot. */
static inline bool action_is_on_steps(enum action_kind kind)
{
	return kind == ACT_FORWARD || kind == ACT_RECORD || kind == ACT_BACKWARD;
}
/* True if the state that a RECORD ends with is read. NEXT is the action after it, or NULL. */
static inline bool action_is_read(const struct action *next) { return next && next->kind != ACT_BACKWARD; }

struct schedule;
/* Writes the next action to *ACTION; false at the end. Allocates nothing. Every pass gives the same actions. */
bool schedule_next(struct schedule *schedule, struct action *action);
/* Goes back to the first action. */
void schedule_rewind(struct schedule *schedule);
/* Makes SCHEDULE that of STEPS and of its own steps after them: the former are recorded first, and reversed last. Rewinds it. */
void schedule_add_head(struct schedule *schedule, int64_t steps);
/* Returns another schedule of the same actions, at the first one, for schedule_free; NULL if out of memory. */
struct schedule *schedule_copy(const struct schedule *schedule);
/*
 * Returns, in ARENA, what SCHEDULE holds when the first sweep ends: a sum of the flags below for each of STEPS + 1
 * positions; the current state has none. Rewinds SCHEDULE, and leaves it there. NULL if out of memory.
 */
unsigned char *schedule_held(struct schedule *schedule, int64_t steps, struct arena *arena);
enum { HELD_RESIDUAL = 1, HELD_STATE = 2, HELD_ON_DISK = 4 }; /* step's residuals; state in a memory slot; on disk */
/* The number of memory slots, and of disk slots: slots are numbered 0, 1, ... below it. */
int64_t schedule_slots(const struct schedule *schedule);
int64_t schedule_disk_slots(const struct schedule *schedule);
void schedule_free(struct schedule *schedule);

/* Actions that are pushed one by one, for schedules that no rule emits. */
struct action_list {
	struct action *actions;
	size_t count, capacity;
	int64_t used,
		slots; /* memory slots in use, and the most in use at once: keep and record count them, or the caller */
	int64_t disk_slots; /* the caller counts them */
	const struct allocator *allocator;
	bool failed; /* out of memory */
};

/* Appends an action, or extends the last one if a RECORD or a BACKWARD continues it. Sets failed if out of memory. */
void action_list_push(struct action_list *list, enum action_kind kind, int64_t begin, int64_t end, int64_t slot);
/* Appends: if SLOT is -1, saves the current state BEGIN to a new slot, else loads it from SLOT. Returns the slot. */
int64_t action_list_keep(struct action_list *list, int64_t begin, int64_t slot);
/*
 * Appends: records steps BEGIN .. END-1 from the current state or, if SLOT is not -1, from that in SLOT, the last slot
 * in use, which is emptied.
 */
void action_list_record(struct action_list *list, int64_t begin, int64_t end, int64_t slot);
/* Returns a schedule that emits a copy of LIST; NULL if out of memory or LIST has failed. Always frees the actions. */
struct schedule *action_list_schedule(struct action_list *list);

#endif
