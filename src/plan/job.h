/*
 * A job: the plan of a chain on an input of a known type under a policy, exact to the
 * byte. The commands residuals, plan, explain and grad begin with a job. It needs no data.
 */
#ifndef PLAN_JOB_H
#define PLAN_JOB_H

#include "memory/machine.h"
#include "plan/tiles.h"
#include "schedule/policy.h"

struct spill_costs {
	double write, read; /* cost of writing a state to disk; of reading it back */
	bool by_byte;       /* costs are per byte, not per state */
};

struct job_options {
	const struct policy *policy;
	struct portion portion; /* part of the chain that runs */
	int threads;
	int64_t tile;             /* --tile ROWS, or 0 */
	enum dtype store;         /* --store-dtype, or DTYPE_COUNT */
	bool want_value;          /* the output is wanted */
	bool has_cotangent;       /* an array gives the output's cotangent */
	bool whole;               /* do not cut into tiles */
	bool on_disk;             /* a budget may keep states on disk */
	int64_t memory;           /* for `auto`: the budget, or 0 */
	int64_t memory_available; /* for `auto` without MEMORY, which then is half of it; 0: unknown */
	int64_t param_bytes;      /* of the params' and consts' arrays */
	/* Sets the costs of the compiled steps, for a tile of ROWS rows (0: whole). NULL: costs come from the table. */
	enum status (*costs)(void *context, struct compiled_chain *compiled, int64_t rows, struct diags *diags);
	void *costs_context;
	const struct spill_costs *spill; /* NULL: unknown */
};

/* The lowered and compiled steps for one size of tile. */
struct tile_plan {
	int64_t rows;
	struct lowered lowered;
	struct compiled_chain compiled;
	int64_t slab; /* peak bytes of a worker on the memory machine */
};

/* A tile's part of the params' gradients; empty without tiles. */
struct partials {
	int64_t bytes;    /* of all params' sums */
	const bool *once; /* by param: a tile makes each element once at most */
};

struct job {
	struct context context; /* the CONTEXT of job_make */
	struct job_options options;
	const struct chain *chain;
	struct type input;           /* of the whole array, its logical dtype */
	const struct policy *policy; /* `auto` resolved */
	struct lowered whole;        /* steps with whole types, for reports */
	struct lowered forward;      /* with tiles: the forward pass of the whole array */
	struct tiles tiles;
	int team;                    /* threads that share each step without tiles; else 1 */
	int64_t member_bytes;        /* workspace of each thread of the team beyond the first */
	struct tile_plan tile, rest; /* rest.rows 0: all tiles have equally many rows */
	struct schedule *schedule;
	struct policy scheduled; /* the policy that made the schedule; a budget chooses one */
	struct step_costs costs;
	int64_t least_bytes;       /* the least feasible budget if the policy's is infeasible, else 0 */
	struct counters predicted; /* of the whole job: all workers, params, I/O blocks */
	int64_t staging;           /* part of predicted: a worker's copy of a state on its way to disk; 0: no copy */
	int64_t slabs;             /* part of predicted.peak_bytes: the slabs of all workers */
	struct partials partials;
};

/*
 * Plans a job. INPUT is the file's type, with integers as f64. All that CONTEXT and OPTIONS point to must outlive the
 * job. The caller calls job_free. Fails with STATUS_CHAIN, STATUS_USAGE or STATUS_LIMIT (an infeasible budget: the
 * message names the least feasible bytes). After a failure the job needs no freeing.
 */
enum status job_make(const struct context *context, struct job *job, const struct chain *chain,
                     const struct type *input, const struct job_options *options);
/*
 * Plans COUNT JOBS, at least one, whose policies of kind budget the caller has set. Each becomes what
 * job_make would make of it, but one search finds all schedules. An infeasible job has least_bytes and no
 * schedule. The jobs share the compiled steps. The caller frees all jobs, but after a failure none.
 */
enum status job_make_budgets(const struct context *context, const struct chain *chain, const struct type *input,
                             const struct job_options *options, struct job *jobs, size_t count);
void job_free(struct job *job);
/*
 * True if save-all, on the same tiles, has no higher peak than JOB. OPENED: save-all runs the stages of a checkpoint
 * block that ends the chain as steps (struct portion). False if save-all cannot be planned.
 */
bool job_saves_nothing(const struct job *job, bool opened);
/*
 * Lists the residuals of whole arrays: the params as declared, the input and the consts,
 * then the outputs of steps in program order. Checkpoints have the type they are kept in.
 */
enum status job_residuals(const struct job *job, struct held_list *list);
/* True if param I is streamed: its gradient has rows, which are not summed. */
bool job_has_rows(const struct job *job, size_t i);
/* Returns the bytes of the sums of param I's gradient. */
int64_t job_sum_bytes(const struct job *job, size_t i);
/*
 * Returns the bytes of a tile's part of param I's gradient, a multiple of 8; 0 if it is not wanted or has rows.
 * The part holds sums. If a tile makes each element at most once, it holds the elements in the computing type: the
 * same bits in fewer bytes.
 */
int64_t job_partial_bytes(const struct job *job, size_t i);

#endif
