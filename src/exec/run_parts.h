/*
 * The parts of a run. Private to the files that make one:
 *
 *     run.c           the arrays of a stream; their chunks, shared among workers
 *     input_output.c  the array's input, and its outputs
 *     worker.c        a worker's memory, and its calls of the evaluator
 *     forward.c       a forward run: a tile is one program
 *     gradient.c      a gradient run: a tile is a schedule, which the machine walks
 *     totals.c        gradients of params, added up over tiles and arrays
 *     kept_states.c   states kept in reduced precision or on disk
 *     resume.c        points in a journal, and the run that resumes from one
 *     replay.c        the machine's calls for one tile, recorded for the others
 *     state_hashes.c  recomputed states compared with the first ones
 *     events.c        reports: of calls with their times, and of gradients that are ready
 *
 * Invariant: while workers work, a run's fields stay as they are, with two exceptions. The
 * writer of the chunk at hand changes totals and outputs, in order; LOCK guards the others.
 * A worker alone changes its own fields.
 */
#ifndef EXEC_RUN_PARTS_H
#define EXEC_RUN_PARTS_H

#include "exec/journal.h"
#include "exec/reduction.h"
#include "exec/run.h"
#include "exec/spill.h"
#include "io/files.h"
#include "memory/hooks.h"

#include <pthread.h>

/* One size of tile of a forward run, compiled. */
struct tile_program {
	struct lowered lowered;
	struct program program;
	bool passes; /* its output is its input */
};

/* What a forward run has for arrays of one type. */
struct forward_pass {
	struct lowered whole;
	struct tiles tiles;
	struct tile_program tile, rest;
	int64_t bytes; /* of all array storage, params included */
	struct run_counters *counters;
};

struct gradient_pass {
	const struct gradient_options *options;
	struct gradient_result *result;
	struct job *job;
	struct arena *arena;    /* lives as long as the result */
	struct array cotangent; /* loaded with the first array; without data: ones */
	int64_t *first_use;     /* by param: the first step that reads it; only for events */
	double begun;           /* the run, by clock_seconds */
	double actions_done;    /* of the array, where it is not tiled */
};

/* The rows of the input that are read: all, or those that the chain begins with a slice of. */
struct window {
	bool part;
	int64_t first; /* element of the array */
};

struct run {
	const struct chain *chain;
	struct params *params;
	struct reader *reader;
	const struct run_options *options;
	struct context context;           /* its arena is the type's */
	const struct kernels *kernels[2]; /* F32, F64 */
	struct forward_pass *forward;     /* one of the two */
	struct gradient_pass *gradient;
	/* Made ready for arrays of one type. */
	bool ready;
	struct type made_for, input; /* of the array; of its window */
	struct window window;
	struct arena arena;
	const struct lowered *whole;
	const struct tiles *tiles;
	struct reduction reduction; /* where tiles fold */
	struct team *team;          /* of the workers; where there are no tiles, of who share each operation */
	struct worker *workers;
	int open; /* of the workers */
	/* The array at hand. */
	bool read_anywhere, write_anywhere, outputs_begun;
	pthread_mutex_t lock; /* traces and progress come one at a time */
	int64_t rows_done;
};

/* A recorded call, or without a program an exchange of an array. */
struct replay_event {
	struct machine_call call;
	enum machine_input_output which;
	int64_t offset;
	const struct type *type;
};

struct replay_log {
	enum { REPLAY_OFF, REPLAY_EMPTY, REPLAY_RECORDING, REPLAY_COMPLETE } state;
	struct replay_event *events;
	size_t count, capacity;
	struct counters counters; /* of the tile */
};

/* States on disk, and in reduced precision. */
struct kept_states {
	struct spill spill;     /* the worker's own: workers use the same slots at the same time */
	struct schedule *ahead; /* the schedule again, to know which state is fetched next */
	int64_t fetches;        /* of this tile, so far */
	struct spill_piece *pieces;
	size_t piece_count, piece_capacity;
	double error; /* the largest |value - kept value| */
};

struct resuming {
	struct machine_hooks computing; /* the hooks of a run that does not skip */
	bool skips;                     /* computes nothing until the last durable point */
	int64_t points;                 /* so far */
	double next_point;              /* none is written before, in seconds */
};

/* How a worker of a gradient run walks the schedule. */
struct walk {
	const struct tile_plan *plan; /* of the tile at hand */
	struct machine_hooks hooks;
	struct machine_hooks untraced; /* those that a trace's hooks call */
	struct schedule *schedule;     /* each worker reads its own */
	struct counters measured;
	bool counted; /* a tile */
	int64_t live; /* bytes of the slab in use, as last traced */
	struct state_hashes recompute;
	struct kept_states kept;
	struct resuming resuming;
	struct replay_log replay;
};

struct worker {
	struct run *run;
	int index;
	struct diags *diags; /* of the chunk at hand */
	struct arena arena;  /* for what grows while tiles run */
	/* In BLOCKS, of a chunk; NULL where the run has none. */
	struct slab blocks;
	char *input, *gradient, *value;
	char *partials;   /* tile after tile: its part of the gradients of all params */
	double *states;   /* tile after tile: its state of the reduction */
	struct slab slab; /* the machine's arrays, or a forward program's workspace */
	struct bound_param *params;
	const void **ins; /* of a call: as many as any program has */
	void **outs;
	/* The tile at hand: the TILEth of CHUNK. */
	int64_t chunk, tile;
	int64_t first_row, rows;
	struct walk walk; /* of a gradient run */
};

/* worker.c */

/* Allocates all that worker INDEX needs. To be closed whatever is returned. */
enum status worker_open(struct worker *worker, struct run *run, int index);
/* Runs the tiles of CHUNK in worker INDEX of RUN: the pipeline's compute. */
enum status worker_run_chunk(void *run, int index, int64_t chunk, struct diags *diags);
void worker_close(struct worker *worker);
/* Evaluates on the worker's ins and outs. EVALUATION has the program, its counters and workspace, and the fold. */
void worker_evaluate(const struct worker *worker, struct evaluation *evaluation);
/* Where the tile at hand leaves its state of the reduction; NULL where tiles do not fold. */
double *worker_state(const struct worker *worker);

/* forward.c and gradient.c: the two kinds of runs. */

/* Makes RUN, without its workers, ready for arrays of type run->made_for. */
enum status forward_prepare(struct run *run);
enum status gradient_prepare(struct run *run);
/* What worker_open leaves to the kind of run. */
enum status forward_open_worker(struct worker *worker, int64_t *slab, size_t *ports);
enum status gradient_open_worker(struct worker *worker, int64_t *slab, size_t *ports);
void gradient_close_worker(struct worker *worker);
void forward_run_tile(struct worker *worker);
enum status gradient_run_tile(struct worker *worker);
/* An array begins, or has been computed: its counters. */
void gradient_begin_array(struct run *run);
void forward_count_array(struct run *run);
void gradient_count_array(struct run *run);

/* input_output.c */

/* The machine's exchange of arrays with blocks, reader and writers. */
enum status input_output_exchange(void *context, enum machine_input_output which, int64_t offset,
                                  const struct type *type);
/* Loads the cotangent where it is not there. Fails with STATUS_DATA if it has another shape than the output. */
enum status input_output_load_cotangent(struct run *run);
/* Chooses in which order chunks are read and written, and reads a stream up to the window. */
enum status input_output_begin_array(struct run *run);
enum status input_output_begin_outputs(struct run *run, struct diags *diags);
/* The pipeline's read. */
enum status input_output_read_chunk(void *context, int index, int64_t chunk, struct diags *diags);
enum status input_output_write_chunk(struct worker *worker, int64_t chunk, struct diags *diags);
enum status input_output_end_array(struct run *run);

/* kept_states.c */

void kept_states_hook(struct machine_hooks *hooks);
/* Opens the worker's disk, where --spill names a directory. */
enum status kept_states_open(struct worker *worker, struct diags *diags);
/* Sets the worker's pieces to ARRAYS, with capacity for MORE. */
enum status kept_states_set_pieces(struct worker *worker, const struct machine_array *arrays, size_t count,
                                   size_t more);
/* Counts a fetch, and returns the disk slot of the next one, or -1. */
int64_t kept_states_next_fetch(struct worker *worker);
/* The place in the spill file of the schedule's disk slot SLOT. */
int64_t kept_states_slot(const struct worker *worker, int64_t slot);

/* resume.c: with a journal there is one worker and one tile. */

/* Puts its hooks before those that the worker has. */
void resume_hook(struct worker *worker);
/* Opens the journal of the run whose input is at INPUT. The worker skips if the run resumes from it. */
enum status resume_open(struct worker *worker, const void *input);

/* totals.c */

/* Allocates sums for arrays of this type, where an earlier type has not; sums of earlier arrays stay. */
enum status totals_open(struct run *run);
/* Zeroes the sums of the worker's tile, and directs the gradients of its params there. */
void totals_aim(struct worker *worker);
/* Adds the sums of the chunk's tile TILE. Called in the order of tiles, so that no bit depends on the workers. */
void totals_add(const struct worker *worker, int64_t tile);
/* Rounds the gradients of params, when the last array is done. */
void totals_finish(struct gradient_result *result);

/* events.c: nothing where no trace, and no events, are wanted. */

enum status gradient_events_open(struct run *run);
/* The backward pass has run step STEP. */
enum status gradient_events_step(struct run *run, int64_t step, struct diags *diags);
enum status gradient_events_finish(struct run *run);
void trace_hook(struct worker *worker);
/* The tile at hand begins, or ENDS. */
enum status trace_tile(struct worker *worker, bool ends);

/* state_hashes.c */

/* Clears the hashes for another tile; the counts stay. */
void state_hashes_begin(struct state_hashes *recompute);
/* Records or compares the hash of OUTS, the outputs by port of the forward or recording CALL. */
void state_hashes_see(struct state_hashes *recompute, const struct machine_call *call, void *const *outs);
void state_hashes_add(struct state_hashes *to, const struct state_hashes *from);

/* replay.c */

void replay_open(struct worker *worker);
/* Does what machine_run does for the worker's tile, from the log of an equal tile if there is one. */
enum status replay_run(struct worker *worker, const struct machine_options *options, struct counters *counters);

#endif
