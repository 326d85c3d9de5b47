/*
 * Reversing ranges of steps between snapshots, by binomial checkpointing.
 * What revolve, online and disk-revolve share. Private to plan/.
 */
#ifndef SCHEDULE_BINOMIAL_H
#define SCHEDULE_BINOMIAL_H

#include "schedule/families.h"

/* A range still to be reversed with SNAPSHOTS slots, its own begin's counted. */
struct binomial_range {
	int64_t begin, end;
	int64_t snapshots;
	int64_t slot;               /* that holds the state at begin, or -1 */
	int64_t repetitions, reach; /* a repetition number that is high enough, and binomial_reach of it */
};

/* The ranges, the rightmost on top, and the slots that are free, as a stack. */
struct binomial {
	struct binomial_range *ranges;
	int64_t depth;
	int64_t *free;
	int64_t free_count;
};

/* Pushes a range; *SLOT -1 where its begin is the current state. */
void binomial_push(struct binomial *binomial, int64_t begin, int64_t end, int64_t snapshots, int64_t slot);
/* Emits what comes next of the top range into an empty queue. */
void binomial_step(struct binomial *binomial, struct action_queue *queue);
/*
 * The evaluations (recording ones included) of binomial checkpointing with SNAPSHOTS over STEPS, after
 * Griewank and Walther 2000; INT64_MAX if no schedule needs so few snapshots.
 */
int64_t binomial_evaluations(int64_t steps, int64_t snapshots);

#endif
