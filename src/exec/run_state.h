/*
 * A run and its workers. Private to the files that make one:
 *
 *     run.c        the arrays of a stream; their chunks, shared among workers
 *     worker.c     a worker's memory, and its calls of the evaluator
 *     forward.c    a forward run: a tile is one program
 *     gradient.c   a gradient run: a tile is a schedule, which the machine walks
 *     carried.c    windows of a forward run, each of which goes on where the one before stopped
 *     rows.h       the rows that it reads and writes
 *     passes.h     tiles that fold, in passes over the input
 *     walk.h       how a worker walks the schedule
 *     sums.h       gradients of params, and what ranks share
 *     ordered.h    what passes from chunk to chunk: sums of params, states of folds
 *     points.h     the points of a journal, from which a run resumes
 *
 * Invariant: while workers work, a run's fields stay as they are, with two exceptions. The
 * worker that writes a chunk changes totals and outputs, in the order of chunks (outputs in any
 * order if write_anywhere). A worker with the run's lock changes what the lock guards. A worker's
 * own fields change by itself alone. A worker without tiles is the only one: it changes any field.
 */
#ifndef EXEC_RUN_STATE_H
#define EXEC_RUN_STATE_H

#include "base/pipeline.h"
#include "evaluate/neighbours.h"
#include "evaluate/wave.h"
#include "exec/ordered.h"
#include "exec/passes.h"
#include "exec/points.h"
#include "exec/rows.h"
#include "exec/run.h"
#include "exec/sums.h"
#include "exec/walk.h"
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
	struct inputs *inputs;         /* after the first; NULL: there are none, or they are params in memory */
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
	struct rows_in in;           /* of the first input */
	struct rows_in *others;      /* of the inputs after it that tiles cut: OTHER_COUNT of INPUTS */
	size_t other_count;
	bool checks_rows; /* an operation may refuse values of one of them */
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
	struct type gradient_type; /* of the input's gradient, as it is written */
	struct run_output outputs[OUTPUTS];
	struct type more_types[MOST_VALUES]; /* logical ones, by value of a forward run */
	/* By value: it is written part by part, while the loop that collects it runs. No block has it. */
	bool by_parts[MOST_VALUES];
	bool write_anywhere, outputs_begun;
	int64_t begun;                /* chunks that an earlier run has done, as the journal says */
	struct unfinished unfinished; /* a WHILE that ended its loop at the most iterations */
	const struct node *unmet;     /* the same of a watched loop */
	bool unteamed;                /* operations are not shared */
	struct ordered ordered;       /* values: the sums of params, by index in the chain, then the state of the pass */
	pthread_mutex_t lock;         /* guards rows_done, and calls of trace and progress */
	int64_t rows_done;
};

struct worker {
	struct run *run;
	int index;
	struct diags *diags; /* of the current chunk */
	struct arena arena;  /* for what grows while tiles run */
	/* Parts of BLOCKS, for one chunk; NULL if the run does not need them. */
	struct slab blocks;
	char *input, *made[OUTPUTS];
	char *apart;                    /* tile after tile: its sums of the gradients of params that are made apart */
	double *states;                 /* tile after tile: its states of folds */
	struct bound_array *rows_bound; /* by param: for rows_in_read_chunk, as the next */
	struct shape *rows_shapes;
	char *others;                  /* the chunk's rows of inputs after the first, then of their gradients */
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

/* gradient.c */

/* Makes the job of the current array, in place of the last. KEEP: the arena keeps that one's parts. */
enum status gradient_make_job(struct run *run, bool keep);

#endif
