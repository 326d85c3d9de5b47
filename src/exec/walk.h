/*
 * How a worker of a gradient run walks the schedule, and what looks at the walk.
 *
 *     kept_states.c   states kept in reduced precision (--store-dtype), or on disk in the worker's own file (--spill)
 *     state_hashes.c  recomputed states compared with the first ones
 *     events.c        reports: of calls with their times, and of gradients that are ready
 *     conditions.c    the iterations of each `repeat while`, counted before a gradient
 *     watched_loop.c  the same, found by the first sweep of online:S
 */
#ifndef EXEC_WALK_H
#define EXEC_WALK_H

#include "evaluate/slab.h"
#include "exec/run.h"
#include "io/spill.h"
#include "memory/hooks.h"
#include "memory/machine.h"

struct run;
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

/* How a worker of a gradient run walks the schedule. */
struct walk {
	struct machine_hooks hooks;
	struct machine_hooks untraced; /* the hooks that a trace's hooks call */
	struct schedule *schedule;     /* each worker reads its own */
	struct counters measured;
	bool counted; /* MEASURED has a tile of the current array */
	int64_t live; /* the top of the slab, as last traced */
	struct state_hashes recompute;
	struct kept_states kept;
	struct machine_log log; /* of a full tile; without an arena: no tile is replayed */
};

/* The `repeat while`s of a gradient's chain, whose iterations a forward pass has counted for the current array. */
struct conditions {
	struct counted *counted; /* in the order in which they run */
	size_t count;
	bool by_pass;      /* a forward pass of their own has counted them */
	struct slab input; /* the array, until the gradient's own forward pass begins */
	/* Of a gradient that evaluates the condition itself (watched_loop.c): */
	bool watching;      /* the iterations are not known yet */
	int64_t iterations; /* that the job has while they are not known */
	struct watched_program {
		struct program program;
		struct slab slab; /* workspace, then the number */
	} * programs;         /* by condition of the watched loop */
	size_t program_count;
};

/* kept_states.c */

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

/* state_hashes.c */

/* Clears the hashes for the next tile. The counts stay. */
void state_hashes_begin(struct state_hashes *recompute);
/*
 * Records or compares the hash of OUTS, the outputs by port of the forward or recording CALL, which ran on ROWS rows; 0:
 * on all.
 */
void state_hashes_see(struct state_hashes *recompute, const struct machine_call *call, void *const *outs, int64_t rows);
void state_hashes_add(struct state_hashes *to, const struct state_hashes *from);

/* events.c: these do nothing unless a trace or events are wanted. */

enum status gradient_events_open(struct run *run);
/* Reports the gradients that are complete once the backward pass has run step STEP. */
enum status gradient_events_step(struct run *run, int64_t step, struct diags *diags);
enum status gradient_events_finish(struct run *run);
void trace_hook(struct worker *worker);
/* Traces that the current tile begins or, if ENDS, that it ends. */
enum status trace_tile(struct worker *worker, bool ends);

/* conditions.c */

/*
 * Finds how many iterations the next array, of TYPE, has, in a gradient run: by a forward pass that reads it, unless the first
 * sweep finds them. *CHANGED: the plan for the array before does not serve.
 */
enum status conditions_find(struct run *run, const struct type *type, bool *changed);
/* Copies the array that was counted to TO, SIZE bytes, and frees it. */
void conditions_take_input(struct run *run, void *to, size_t size);
/* Warns of run->unfinished, if it is set, and clears it. */
void conditions_warn(struct run *run);

/* watched_loop.c */

/* True if online:S runs the array of TYPE without a pass that counts. Fails if the chain cannot run. */
enum status watched_begin(struct run *run, const struct type *type, bool *watches);
/* Sets the iterations of the job while they are not known. */
void watched_portion(const struct run *run, struct job_options *options);
/* The boundary hook of a worker. */
enum status watched_boundary(void *context, int64_t position, const int64_t *offsets, struct machine_switch *to);
/* Grows the worker's slab to END bytes at least, if a schedule that was not planned needs more. */
enum status watched_reach(struct worker *worker, int64_t end);
void watched_close(struct run *run);

#endif
