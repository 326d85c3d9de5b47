/*
 * States that a worker keeps in reduced precision (--store-dtype), or on disk (--spill) in a file of its own.
 */
#ifndef EXEC_KEPT_STATES_H
#define EXEC_KEPT_STATES_H

#include "io/spill.h"
#include "memory/hooks.h"

struct worker;

struct kept_states {
	struct spill spill;     /* the worker's own: workers use the same slots at the same time */
	struct schedule *ahead; /* a second reader of the schedule, which finds the state that is fetched next */
	int64_t fetches;        /* of this tile, so far */
	struct spill_pieces pieces;
	char *unwanted; /* for pieces that are read and dropped: UNWANTED_SIZE bytes */
	size_t unwanted_size;
	double error; /* the largest |value - kept value| of all tiles so far */
};

void kept_states_hook(struct machine_hooks *hooks);
/*
 * Opens the worker's spill file, if the job spills, in the directory of --spill. A journal's is opened later. That of a
 * watched loop is opened once a state goes to disk. The schedule's disk slot I is its slot JOURNAL_STATES + I.
 */
enum status kept_states_open(struct worker *worker, struct diags *diags);
/* The worker continues with another schedule in the first sweep. */
enum status kept_states_go_on(struct worker *worker, struct diags *diags);
/* Sets PIECES to COUNT ARRAYS of the worker's slab. */
enum status kept_states_set_pieces(struct worker *worker, struct spill_pieces *pieces,
                                   const struct machine_array *arrays, size_t count);
/* Counts a fetch, and returns the disk slot that is fetched next; -1: none. */
int64_t kept_states_next_fetch(struct worker *worker);

#endif
