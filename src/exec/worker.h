/*
 * Private to a gradient run: for the files that it is made of, and no other. Each
 * has one concern; those that have a part in the machine's calls put themselves
 * into its hooks, where CONTEXT is the worker.
 *
 *     grad.c     the arrays of a stream; chunks of tiles, dealt to workers
 *     worker.c     a worker: its memory, one tile, and what the evaluator does at each call
 *     ends.c     where input and cotangent come from, and value and gradient go to
 *     store.c    states that are kept in reduced precision or on disk
 *     resume.c   what of a run its journal holds, and how another takes it up
 *     totals.c   what all tiles add up to: gradients of params, an output that is a sum
 *     ready.c    which gradients are ready, as events
 *     replay.c     what the machine told of a tile, for the tiles that are like it
 *     trace.c    the hooks with a clock around them
 *
 * Invariant: a run's fields stay as they are while workers work, but for what is
 * given in order, one chunk at a time (totals, writers), and what LOCK guards; a
 * worker's fields are its own worker's.
 */
#ifndef EXEC_WORKER_H
#define EXEC_WORKER_H

#include "exec/after_reduction.h"
#include "exec/grad.h"
#include "exec/slab.h"
#include "exec/spill.h"
#include "io/load.h"
#include "memory/hooks.h"

#include <pthread.h>

/* One array of the stream. */
struct run {
	const struct chain *chain;
	const struct params *params;
	const struct grad_options *options;
	struct grad_result *result;
	struct job *job;
	struct reader *reader;
	const struct kernels *kernels[2]; /* F32, F64 */
	struct team *team;                /* who share each step, where there are no tiles, or NULL */
	struct worker *workers;           /* job->workers of them */
	struct arena *arena;              /* for what is there to the end */
	struct arena scratch;             /* for one array */
	/* ends.c */
	struct array *cotangent; /* of all arrays of the stream, loaded with the first; NULL: ones */
	bool outputs_begun;
	/* totals.c */
	int64_t loss_count;           /* elements of an output that is summed over tiles */
	double *loss;                 /* that sum, hi and lo */
	struct after_reduction after; /* what follows it */
	/* ready.c */
	int64_t *first_use; /* by param: the first step that reads it; only for events */
	/* Traces and progress, which are told one at a time: under LOCK. */
	pthread_mutex_t lock;
	double begun;        /* the run, by clock_seconds */
	double actions_done; /* where there is one tile */
	int64_t rows_done;   /* where there are several */
};

struct replay_event {
	struct machine_call call; /* without a program: it is not a call but an end */
	enum machine_input_output end;
	int64_t offset;
	const struct type *type;
};

struct replay_log {
	enum { REPLAY_OFF, REPLAY_EMPTY, REPLAY_NOTING, REPLAY_WHOLE } state;
	struct replay_event *events;
	size_t count, capacity;
	struct counters counters; /* of the tile */
};

struct worker {
	struct run *run;
	int index;
	struct diags *diags; /* of the tile at hand */
	struct arena arena;  /* to the worker's end */
	struct slab slab, blocks;
	/* In blocks, where there are tiles: of a chunk. */
	char *input, *gradient, *value;
	char *partials;             /* per_chunk times a tile's part of the gradients of all params */
	double *loss;               /* per_chunk partial sums of the output: hi and lo */
	struct bound_param *params; /* with this tile's partials */
	const void **ins;           /* of a call: room for the most that any has */
	void **outs;
	/* The tile at hand. */
	int64_t chunk, tile;     /* the chunk; the tile within it */
	int64_t first_row, rows; /* of the tile */
	const struct tile_plan *plan;
	struct machine_hooks hooks;
	struct schedule *schedule; /* each worker reads its own */
	struct counters measured;
	bool counted; /* a tile */
	struct state_hashes recompute;
	/* store.c */
	struct spill spill;     /* its own: workers use the same slots at the same time */
	struct schedule *ahead; /* the schedule again, to know which state is fetched next */
	int64_t fetches;        /* of this tile, so far */
	struct spill_piece *pieces;
	size_t piece_count, piece_capacity;
	double store_error;
	/* resume.c */
	struct machine_hooks computing; /* what the worker does where it does not skip */
	bool skips;                     /* goes on: nothing is computed until the last durable point */
	int64_t points;                 /* so far */
	double next_point;              /* none is written before, in seconds */
	/* replay.c */
	struct replay_log replay;
	/* trace.c */
	struct machine_hooks untraced;
	int64_t live; /* bytes of the slab in use, as last traced */
};

/* worker.c */

/* A worker with all its memory and no tile yet. To be closed whatever is returned. */
enum status worker_open(struct worker *worker, struct run *run, int index, struct diags *diags);
/* Runs tile TILE of CHUNK, wholly. */
enum status worker_run_tile(struct worker *worker, int64_t chunk, int64_t tile, struct diags *diags);
void worker_close(struct worker *worker);

/* ends.c */

void input_output_hook(struct machine_hooks *hooks);
/* Reads the cotangent's file, where that has not been done. STATUS_DATA where it is not of the output's shape. */
enum status input_output_open(struct run *run, struct diags *diags);
/* What cannot begin writes nothing: outputs begin only when an input is read, or the first chunk is to be given. */
enum status input_output_begin_outputs(struct run *run, struct diags *diags);
/* ROWS rows of the input into the worker's block; of gradient and value out of its blocks. */
enum status input_output_read_rows(struct worker *worker, int64_t rows, struct diags *diags);
enum status input_output_write_rows(const struct worker *worker, int64_t rows, struct diags *diags);
enum status input_output_finish_outputs(struct run *run, struct diags *diags);

/* store.c */

void store_hook(struct machine_hooks *hooks);
/* The worker's disk, where --spill names a directory. */
enum status store_open(struct worker *worker, struct diags *diags);
/* Sets the worker's pieces to ARRAYS, and makes room for MORE. */
enum status store_set_pieces(struct worker *worker, const struct machine_array *arrays, size_t count, size_t more);
/* Notes that a state is fetched, and returns the disk slot of the one that will be after it, or -1. */
int64_t store_note_fetch(struct worker *worker);
/* Where in the spill file the schedule's disk slot SLOT is. */
int64_t store_slot(const struct worker *worker, int64_t slot);

/* resume.c: with a journal there is one worker and one tile. */

/* Puts hooks of its own before those that the worker has. */
void resume_hook(struct worker *worker);
/* Opens the journal: with the input, of SIZE bytes, it is known whose it must be. The worker skips where it goes on. */
enum status resume_open(struct worker *worker, const void *input, size_t size);

/* totals.c */

/* Makes room for what the array at hand adds to; what earlier ones have added to stays. */
enum status totals_open(struct run *run, struct diags *diags);
/* Zeroes the sums of the worker's tile, and aims its params at these or at where what is made once is put. */
void totals_aim(struct worker *worker);
/* Where the output's partial sums go that CALL makes, hi and then lo; or NULL. */
double *totals_of_call(const struct worker *worker, const struct machine_call *call);
/* Adds those of TILE to the totals. In the order of tiles, so that no bit depends on who made them. */
void totals_add(const struct worker *worker, int64_t tile);
/* Writes the output that is a sum over all tiles. */
enum status totals_write_output(struct run *run, struct diags *diags);
/* Rounds the gradients of params, when the last array is done. */
void totals_finish(struct grad_result *result);
void totals_free(struct grad_result *result, const struct allocator *allocator);

/* ready.c: nothing where no events are wanted. */

enum status gradient_events_open(struct run *run, struct diags *diags);
/* The backward pass has run step STEP. */
enum status gradient_events_step(struct run *run, int64_t step, struct diags *diags);
/* All is done. */
enum status gradient_events_finish(struct run *run, struct diags *diags);

/* replay.c */

void replay_open(struct worker *worker);
/* As machine_run, of the worker's tile; from what was noted of an earlier one, where there is such. */
enum status replay_run(struct worker *worker, const struct machine_options *options, struct counters *counters,
                       struct diags *diags);

/* trace.c: nothing where no trace is wanted. */

void trace_hook(struct worker *worker);
enum status trace_begin_tile(struct worker *worker);
enum status trace_end_tile(struct worker *worker);

#endif
