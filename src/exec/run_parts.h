/*
 * The parts of a run. Private to the files that make one:
 *
 *     run.c           the arrays of a stream; their chunks, shared among workers
 *     rows_in.c       the array's input, and the rows around a tile, from a file or from a stream
 *     rows_out.c      its outputs
 *     exchange.c      what the machine exchanges with them, and the cotangent
 *     carried.c       windows of a forward run, each of which goes on where the one before stopped
 *     worker.c        a worker's memory, and its calls of the evaluator
 *     forward.c       a forward run: a tile is one program
 *     passes.c        tiles that fold, in passes: in a forward run a tile is one program in each pass
 *     gradient.c      a gradient run: a tile is a schedule, which the machine walks
 *     conditions.c    the iterations of each `repeat while`, counted before a gradient
 *     watched_loop.c  the same, found by the first sweep of online:S
 *     totals.c        gradients of params, added up over tiles and arrays
 *     ordered.h       what passes from chunk to chunk: sums of params, states of folds
 *     shares.c        the chunks of this rank, and what ranks collect in the end
 *     kept_states.c   states kept in reduced precision or on disk
 *     points.c        the points of a journal, from which a run resumes
 *     resume.c        those between two calls of the machine
 *     tile_journal.c  those between two chunks, of a run with tiles
 *     replay.c        the machine's calls for one tile, recorded for the others
 *     state_hashes.c  recomputed states compared with the first ones
 *     events.c        reports: of calls with their times, and of gradients that are ready
 *
 * Invariant: while workers work, a run's fields stay as they are, with two exceptions. The
 * worker that writes a chunk changes totals and outputs, in the order of chunks (outputs in any
 * order if write_anywhere). A worker with the run's lock changes what the lock guards. A worker's
 * own fields change by itself alone. A worker without tiles is the only one: it changes any field.
 */
#ifndef EXEC_RUN_PARTS_H
#define EXEC_RUN_PARTS_H

#include "base/pipeline.h"
#include "evaluate/neighbours.h"
#include "evaluate/wave.h"
#include "exec/kept_states.h"
#include "exec/ordered.h"
#include "exec/passes.h"
#include "exec/points.h"
#include "exec/rows.h"
#include "exec/run.h"
#include "io/journal.h"
#include "memory/hooks.h"
#include "ranks/ranks.h"

#include <pthread.h>
#include <stdatomic.h>

/* The tile of a forward run, compiled. The last tile may have fewer rows. */
struct tile_program {
	struct lowered lowered;
	struct program program;
	bool passes; /* its output is its input */
};

/* A forward run's programs for arrays of one type, and its counters. */
struct forward_pass {
	struct lowered whole;
	struct tiles tiles;
	struct tile_program tile;
	const struct pass_list *passes; /* if tiles fold, in place of TILE's program; else NULL */
	int members;                    /* of the team, */
	int64_t member;                 /* with so many bytes each */
	int64_t bytes;                  /* of all array storage, params in memory included; not the reader's */
	struct run_counters *counters;
};

struct gradient_pass {
	const struct gradient_options *options;
	struct gradient_result *result;
	struct job *job;
	struct arena *arena;    /* lives as long as the result */
	struct array cotangent; /* loaded with the first array; without data: ones, or rows of SEED */
	struct input seed_input;
	struct reader seed; /* of the cotangent's file, if SEED_OPEN */
	bool seed_open;
	void *spare; /* for one param's gradient, of an array that is not the first; or NULL */
	int64_t spare_bytes;
	int64_t *first_use;  /* by param: the first step that reads it or passes it on, or -1; only for events */
	double start;        /* of the run, by clock_seconds */
	double actions_done; /* forward and backward executions of steps so far, in an array that is not tiled */
};

/* The `repeat while`s of a gradient's chain, whose iterations a forward pass has counted for the current array. */
struct conditions {
	int64_t *counted; /* by number: iterations */
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

/* Where a forward run reads and writes: whether in any order, and whether the output is written over the input. */
struct run_ends {
	bool read_anywhere, write_anywhere, in_place;
};

struct run {
	const struct run_kind *kind;
	const struct chain *chain;
	struct params *params;
	struct bound_param *bound; /* as programs read PARAMS, by index in the chain */
	struct reader *reader;
	struct external_set *programs; /* or NULL */
	const struct ranks *ranks;     /* or NULL */
	const struct run_options *options;
	struct context context;           /* its arena is the type's */
	const struct kernels *kernels[2]; /* F32, F64 */
	struct forward_pass *forward;     /* NULL in a gradient run; gradient is NULL in a forward run */
	struct gradient_pass *gradient;
	/* For arrays of one type, made by prepare. */
	bool ready;
	struct type made_for, input; /* made_for: of the array; input: of its window */
	struct rows_in in;
	struct arena arena;
	const struct lowered *whole;
	const struct tiles *tiles;
	struct passes passes;
	struct points points; /* of a journal */
	struct team *team;    /* the workers; without tiles, the threads that share each operation */
	struct run_ends ends;
	const struct stays *stays; /* the choice of stays.c; NULL: no param is in its file */
	struct slab blocks;        /* for what is read of params that stay in their files */
	struct worker *workers;
	int open; /* workers to close: the last may have failed to open */
	struct conditions conditions;
	/* The current array. */
	struct run_output outputs[OUTPUTS];
	bool write_anywhere, outputs_begun;
	int64_t begun;                  /* chunks that an earlier run has done, as the journal says */
	const struct instr *unfinished; /* a WHILE that ended its loop at the most iterations; or NULL */
	const struct node *unmet;       /* the same of a watched loop */
	bool unteamed;                  /* operations are not shared */
	struct ordered ordered;         /* values: the sums of params, by index in the chain, then the state of the pass */
	pthread_mutex_t lock;           /* guards rows_done, and calls of trace and progress */
	int64_t rows_done;
};

/* A recorded call or, if call.program is NULL, a recorded exchange of an array. */
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
	struct replay_log replay;
};

struct worker {
	struct run *run;
	int index;
	struct diags *diags; /* of the current chunk */
	struct arena arena;  /* for what grows while tiles run */
	/* Parts of BLOCKS, for one chunk; NULL if the run does not need them. */
	struct slab blocks;
	char *input, *made[OUTPUTS];
	char *apart;                   /* tile after tile: its sums of the gradients of params that are made apart */
	double *states;                /* tile after tile: its states of folds */
	char *param_rows;              /* of streamed params, for a window that goes around the end of the array */
	uint64_t *skipped;             /* of struct evaluation, in a forward run; or NULL */
	struct slab slab;              /* the machine's arrays, or a forward program's workspace */
	struct wave *wave;             /* of launches that wait; a hook that reads or writes arrays calls wave_run first */
	struct neighbours *neighbours; /* of a tile whose rows ranks exchange; else NULL */
	struct bound_param *params;
	struct deferred deferred;
	const void **ins; /* of a call; as long as any program needs */
	void **outs;
	/* The current tile: the TILEth of CHUNK, from 0 on. */
	int64_t chunk, tile;
	int64_t tile_row;        /* its first row in the array */
	int64_t first_row, rows; /* of the arrays on which it runs: its own, or those of its window */
	struct walk walk;        /* of a gradient run */
	struct ordered_turn turn;
};

/* worker.c */

/* Allocates all that worker INDEX needs. The caller calls worker_close, after a failure too. */
enum status worker_open(struct worker *worker, struct run *run, int index);
/* Return the bytes of a worker's wave (0: it needs none), and of its blocks for a chunk. */
int64_t worker_wave_bytes(const struct run *run);
int64_t worker_block_bytes(const struct run *run);
/* Runs the tiles of CHUNK in worker INDEX of RUN: the pipeline's compute. */
enum status worker_run_chunk(void *run, int index, int64_t chunk, struct diags *diags);
void worker_close(struct worker *worker);
/* Evaluates on the worker's ins and outs. The caller sets EVALUATION's program, counters, workspace and folds. */
enum status worker_evaluate(struct worker *worker, struct evaluation *evaluation);
/* Returns the rows of the current tile if it is the last and has fewer than the others; else 0. */
int64_t worker_fewer_rows(const struct worker *worker);
/* Returns where the current tile leaves its states of folds; NULL if nobody wants them. */
double *worker_state(const struct worker *worker);

/* forward.c and gradient.c: the two kinds of runs. */

struct run_kind {
	/* Makes RUN, without its workers, ready for arrays of type run->made_for. */
	enum status (*prepare)(struct run *run);
	/* The part of worker_open. Sets *SLAB in bytes, and *PORTS to the most ports of a program. */
	enum status (*open_worker)(struct worker *worker, int64_t *slab, size_t *ports);
	void (*close_worker)(struct worker *worker);
	enum status (*run_tile)(struct worker *worker);
	/* Before an array is read: resets counters, and allocates sums. */
	enum status (*begin_array)(struct run *run);
	/* When it is computed: counts it. Of several ranks, rank 0 gets the most of each counter. */
	enum status (*count_array)(struct run *run);
	/* When its outputs are written. */
	enum status (*end_array)(struct run *run);
};
extern const struct run_kind forward_kind, gradient_kind;
/* Cuts the array, compiles the programs, and counts the bytes of a forward run, which needs run->ends. Allocates no arrays. */
enum status forward_plan(struct run *run);
/* Adds the array to the run's counters. */
enum status forward_count_array(struct run *run);
/* Runs the worker's tile by the program that serves all tiles. */
enum status forward_run_tile(struct worker *worker);

/* passes.c */

/* Sets *MADE to the programs of LEVELS for the body of a TILE, or NULL: then the schedule of a tile leaves states. */
enum status passes_compile(struct run *run, const struct levels *levels, const struct body *tile,
                           const struct pass_list **made);
/* Allocates the results of PROGRAMS, those of a gradient if JOINT is set, which must outlive the run. */
enum status passes_open(struct run *run, const struct pass_list *programs, const struct joint_passes *joint);
void passes_close(struct run *run);
/* Runs all passes of the current array by PIPELINE, which is set for the last. */
enum status passes_run(struct run *run, const struct pipeline *pipeline);
/* Runs the worker's tile in the current pass. */
enum status passes_run_tile(struct worker *worker);
/* Adds the states of the tiles of the worker's chunk to the state of the pass, in order. */
enum status passes_add_chunk(struct worker *worker);
/* Returns the states of the current pass, and the results that passes so far have left; nothing without passes. */
struct spill_piece passes_left(const struct run *run);
/* True if the current pass makes states; if it makes rows of outputs. Without passes only the latter is true. */
bool passes_fold(const struct run *run);
bool passes_write(const struct run *run);
/* True if the output is a fold's result, so that no tile needs a result of its own rows. */
bool passes_end_in_fold(const struct run *run);

/* run.c */

/* Sets what programs read of the params to their arrays. Weak params are converted to COMPUTE (F32 or F64). */
void run_bind_params(struct run *run, enum dtype compute);

/* Runs the chunks of the current array, or of a pass over it, by PIPELINE. */
enum status run_chunks(struct run *run, const struct pipeline *pipeline);
/* Reports the progress of a run by ROWS more rows. */
void run_report_rows(struct run *run, int64_t rows);

/* carried.c: of tiles that carry rows */

/*
 * Sets *DEPTH to the rows that two windows must have in common, of which the run's tile has a program; -1: that cannot
 * carry rows.
 */
enum status carried_find_depth(const struct run *run, int64_t *depth);
/* Reads, computes and writes CHUNK. */
enum status carried_run_chunk(struct worker *worker, int64_t chunk);

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

/* stays.c */

/* Lets the WORKER's list of params have what the worker reads of those in files. */
void stored_operands_aim(struct worker *worker);
/*
 * Chooses which params stay in their files: BODY, a forward run's chain, reads them there. BODY is NULL for a gradient: there
 * the steps do.
 */
enum status stored_operands_plan(struct run *run, const struct body *body);
/* Return the bytes of the params that stay, and of the memory that reads them. */
int64_t stored_left(const struct run *run);
int64_t stored_bytes(const struct run *run);
/* Loads the other params that are left in their files, and allocates that memory. */
enum status stored_operands_open(struct run *run);

/* gradient.c */

/* Makes the job of the current array, in place of the last. KEEP: the arena keeps that one's parts. */
enum status gradient_make_job(struct run *run, bool keep);

/* totals.c */

/* Returns the sums of param I's gradient over the arrays of the current array's computing type. */
struct param_sums *totals_of(const struct run *run, size_t i);
/* Makes the list of gradients, unless an earlier array did. Sums of earlier arrays stay. */
enum status totals_open(struct run *run);
/* Allocates the sums that the current array adds to, unless an earlier one did. */
enum status totals_begin_array(struct run *run);
/* True if this rank adds to the gradient of param I: the last rank alone adds what ranks that exchange rows sum together. */
bool totals_adds(const struct run *run, size_t i);
/* Directs the gradients of the worker's tile to the totals, or to sums apart, which it zeroes. */
void totals_aim(struct worker *worker);
/* Directs the gradients of all PARAMS to the totals: an addition to them belongs to no tile. Rank 0 alone adds to shared ones. */
void totals_aim_all(const struct run *run, struct bound_param *params);
/* Adds the blocks that the worker's tile has begun to the totals. */
void totals_end_blocks(const struct worker *worker);
/* Adds the apart sums of the worker's chunk to the totals, in the order of tiles. */
enum status totals_add(struct worker *worker);
/* Returns how the sum of param I passes from chunk to chunk. Where it lies follows in totals_begin_array. */
struct ordered_value totals_value(const struct run *run, size_t i);
/* Returns the bytes of the sums that ranks may share, if no earlier array has made them; -1: they may not be shared. */
int64_t totals_shareable(const struct run *run);
/* Puts these sums into MEMORY. */
void totals_share(const struct run *run, char *memory);
/* Adds the sums that programs have made of the current array to the totals. */
enum status totals_add_programs(const struct run *run);
/* Sets the gradients of params, after the last array. Without FINISHES another rank does that in the same memory. */
void totals_finish(struct gradient_result *result, bool finishes);

/* shares.c: chunk I belongs to rank I % ranks */

/* Makes run->ordered, without what its values have. Ranks of one machine put the sums of params into memory that they share. */
enum status shares_open(struct run *run);
/* Returns the number of this rank's chunks, and the chunk that is its item ITEM. */
int64_t shares_items(const struct run *run);
int64_t shares_chunk(const struct run *run, int64_t item);
/* Returns the number of this rank's chunks before CHUNK. */
int64_t shares_before(const struct run *run, int64_t chunk);
/* True if CHUNK is this rank's. */
bool shares_owns(const struct run *run, int64_t chunk);
/* Sets *VALUE to the least value of all ranks. It waits for them. */
enum status shares_least(const struct run *run, int64_t *value);
/* Waits until all ranks have called it. */
enum status shares_meet(const struct run *run);
/* Sets rank 0's *VALUE to the greatest value of all ranks. */
enum status shares_most(const struct run *run, int64_t *value);
/* Gives the sums and states so far to the owner of CHUNK. The owner of the chunk before has them. */
enum status shares_move_sums(struct run *run, int64_t chunk);
/* True if the current array is cut into chunks that several ranks share. */
bool shares_rows(const struct run *run);
/* Fails if RUN has ranks and no regular file as input: standard input is there for rank 0 alone. Comes before a read. */
enum status shares_check_input(const struct run *run);
/* Fails if RUN's rows are shared but its input or its outputs cannot be read or written at any place. */
enum status shares_begin_array(struct run *run);
/* Gives all ranks the states of the pass that has ended. */
enum status shares_spread_state(struct run *run);
/* After the last chunk of a pass, rank 0 waits until all have added to the sums that ranks share. */
enum status shares_await_sums(struct run *run);
/* After the last chunk, rank 0 gets all gradients of params. */
enum status shares_collect(struct run *run);

/* events.c: these do nothing unless a trace or events are wanted. */

enum status gradient_events_open(struct run *run);
/* Reports the gradients that are complete once the backward pass has run step STEP. */
enum status gradient_events_step(struct run *run, int64_t step, struct diags *diags);
enum status gradient_events_finish(struct run *run);
void trace_hook(struct worker *worker);
/* Traces that the current tile begins or, if ENDS, that it ends. */
enum status trace_tile(struct worker *worker, bool ends);

/* state_hashes.c */

/* Clears the hashes for the next tile. The counts stay. */
void state_hashes_begin(struct state_hashes *recompute);
/*
 * Records or compares the hash of OUTS, the outputs by port of the forward or recording CALL, which ran on ROWS rows; 0:
 * on all.
 */
void state_hashes_see(struct state_hashes *recompute, const struct machine_call *call, void *const *outs, int64_t rows);
void state_hashes_add(struct state_hashes *to, const struct state_hashes *from);

/* replay.c */

void replay_open(struct worker *worker);
/* Runs the worker's tile as machine_run does, or from the log of a tile of equal rows if there is one. */
enum status replay_run(struct worker *worker, const struct machine_options *options, struct counters *counters);

#endif
