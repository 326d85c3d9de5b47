/*
 * Reversing ranges of steps by binomial checkpointing (revolve.c): what revolve, online and disk-revolve
 * share. Private to schedule/.
 */
#ifndef SCHEDULE_BINOMIAL_H
#define SCHEDULE_BINOMIAL_H

#include "schedule/families.h"

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
