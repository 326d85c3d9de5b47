/*
 * A job: the plan of a chain on an input of a known type under a policy, exact to the
 * byte. The commands residuals, plan, explain and grad begin with a job. It needs no data.
 */
#ifndef PLAN_JOB_H
#define PLAN_JOB_H

#include "memory/machine.h"
#include "plan/passes.h"
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
	int ranks;                /* as of struct tile_wants */
	int64_t tile;             /* --tile ROWS, or 0 */
	enum dtype store;         /* --store-dtype, or DTYPE_COUNT */
	bool want_value;          /* the output is wanted */
	bool has_cotangent;       /* an array gives the output's cotangent */
	bool cotangent_rows;      /* it is a file whose rows can be read in any order */
	bool resumable;           /* there is a journal: the array is cut into tiles only if --tile or ranks ask for it */
	int64_t whole_bytes;      /* the most of an array that is not cut into windows (tests); 0: the default */
	bool unpredicted;         /* the schedule is not counted: predicted has no meaning, and slabs are unknown */
	bool unexecuted;          /* the job only plans: its programs need not be kept */
	bool every_program;       /* programs that no schedule calls are compiled, too */
	bool on_disk, may_spill;  /* a budget may keep states on disk; the command has --spill */
	int64_t disk_bytes;       /* of all workers: the most bytes of states on disk at once; 0: any */
	int64_t memory;           /* for `auto`: the budget, or 0 */
	int64_t memory_available; /* for `auto` without MEMORY: the budget is half of it; 0: unknown, so save-all */
	int64_t param_bytes;      /* of the params' and consts' arrays */
	/* Sets the costs of the compiled steps, for a tile of ROWS rows (0: whole). NULL: costs come from the table. */
	enum status (*costs)(void *context, struct compiled_chain *compiled, int64_t rows, struct diags *diags);
	void *costs_context;
	bool costs_measured;             /* so they are others on each rank */
	const struct spill_costs *spill; /* NULL: unknown */
};

/* The lowered and compiled steps of a tile. The last tile runs them on its own number of rows. */
struct tile_plan {
	int64_t rows; /* 0: the whole array, which is not cut */
	struct lowered lowered;
	struct compiled_chain compiled;
	int64_t slab;      /* peak bytes of the schedule on the memory machine */
	int64_t rest_slab; /* the same for the last tile if it has fewer rows; else 0 */
	double additions;  /* cost of a forward and backward pass by the op table; set for budgets, and if unexecuted */
};

/* How the gradient of a param is summed over the reads, tiles and arrays (job_sums.c). */
enum sum_kind { SUM_NONE, SUM_ROWS, SUM_ONCE, SUM_PLAIN, SUM_SHARED, SUM_APART };

struct sums {
	enum sum_kind *kinds; /* by param */
	bool *once;           /* by param: no tile makes an element twice */
	bool *products;       /* by param: only products of V and one matrix read it */
	bool *taken;          /* by param: one take reads each element, and nothing else does */
	bool *blocks;  /* by param: such products of few rows read all of it; then (job_settle_sums) they add in blocks */
	bool *written; /* by param: SUM_ONCE */
	int64_t apart; /* bytes of a tile's sums that are made apart */
	bool any;      /* there are sums over tiles */
	bool ordered;  /* several workers add to shared sums, in the order of tiles */
};

struct job {
	struct context context;     /* the CONTEXT of job_make */
	struct job_options options; /* of job_make_budgets: with the first job's policy */
	const struct chain *chain;
	struct type input;           /* of the whole array, its logical dtype */
	const struct policy *policy; /* the policy to plan, for reports; `auto` has become a budget or save-all */
	struct lowered whole;        /* steps with whole types, for reports */
	struct lowered forward;      /* the forward pass of the whole array, if its value is folded from tiles of steps */
	struct tiles tiles;
	int team;             /* threads that share each step if there is one worker; else 1 */
	int64_t member_bytes; /* workspace of each thread of the team beyond the first */
	struct tile_plan tile;
	struct schedule *schedule;
	struct policy scheduled; /* what is carried out: the policy, or the search's choice for a budget */
	struct step_costs costs; /* of a tile's steps; for a policy by value one step without costs */
	int64_t least_bytes;     /* the least feasible budget if the policy's is infeasible, else 0 */
	double
		untried; /* of a budget: the least recomputation, over a forward pass, of policies by value that were not tried */
	struct counters predicted; /* peak_bytes and stored_bytes of all workers together; the others of one full tile */
	int64_t staging; /* a worker's copy of a state on its way to disk, part of predicted.peak_bytes; 0: no copy */
	int64_t slabs;   /* bytes, part of predicted.peak_bytes: of all workers' slabs, the blocks that hold their arrays */
	struct sums sums;
	const struct joint_passes *passes; /* the gradient runs in passes over the input; NULL: it does not */
};

/*
 * Plans a job. INPUT is the file's type, with integers as f64. All that CONTEXT and OPTIONS point to must outlive the
 * job. The caller calls job_free. Fails with STATUS_CHAIN, STATUS_LIMIT or the status of options->costs. If a budget is
 * infeasible (STATUS_LIMIT), the message and JOB's least_bytes have the least bytes. A failed job needs no freeing.
 */
enum status job_make(const struct context *context, struct job *job, const struct chain *chain,
                     const struct type *input, const struct job_options *options);
/* Does the first part of job_make: everything that a schedule needs, except job->costs. JOB needs no freeing. */
enum status job_prepare(const struct context *context, struct job *job, const struct chain *chain,
                        const struct type *input, const struct job_options *options);
/*
 * Does the rest of job_make, on the chain and input of BASE, which job_prepare has made and which must outlive JOB.
 * OPTIONS may have another policy and other memory than BASE's. Policies by cut share BASE's compiled steps.
 */
enum status job_make_from(const struct context *context, struct job *job, const struct job *base,
                          const struct job_options *options);
/*
 * Plans COUNT JOBS, at least one, whose policies of kind budget the caller has set; options->policy counts for none.
 * Each becomes what job_make would make of it, but one search finds all schedules. An infeasible job is no failure: it
 * has least_bytes and no schedule. The jobs share the compiled steps. After a failure no job needs freeing.
 */
enum status job_make_budgets(const struct context *context, const struct chain *chain, const struct type *input,
                             const struct job_options *options, struct job *jobs, size_t count);
void job_free(struct job *job);
/* Sets the passes and the halo of COUNTERS, which are of JOB's tiles. */
void job_count_rows(const struct job *job, struct counters *counters);
/*
 * True if save-all, on the same tiles, has no higher peak than JOB. OPENED: save-all runs the stages of a checkpoint
 * block that ends the chain as steps (struct portion). False if save-all cannot be planned.
 */
bool job_saves_nothing(const struct job *job, bool opened);
/* Places in the source. */
struct span_list {
	struct span *spans;
	size_t count;
};
/*
 * Sets LIST, in the job's arena, to the checkpoint blocks that keep at least as many bytes as the chain would without
 * them, though they recompute. Very long chains are not looked at. Fails if out of memory.
 */
enum status job_useless_blocks(const struct job *job, struct span_list *list);
/*
 * Sets LIST, in the job's arena, to the residuals of whole arrays: params in order of declaration, the input, consts.
 * The arrays that the first sweep makes and holds follow, in program order. Params and consts that only the first sweep
 * reads are left out. Checkpoints have the type they are kept in.
 */
enum status job_residuals(const struct job *job, struct held_list *list);
/* True if param I is streamed and JOB has tiles: its gradient has rows, which are not summed. */
bool job_has_rows(const struct job *job, size_t i);
/* True if elements of param I's gradient are, for the first array, written or plain sums; if they are always long sums. */
bool job_sums_once(const struct job *job, size_t i);
bool job_sums_plain(const struct job *job, size_t i);
bool job_sums_long(const struct job *job, size_t i);
/* True if tiles of JOB read their rows of the cotangent from its file. */
bool job_reads_cotangent(const struct job *job);
/* Returns the bytes of a worker's wave (evaluate/wave.h), or 0. */
int64_t job_wave_bytes(const struct job *job);
/* Returns the bytes of the sums of param I's gradient, for all tiles together, and of its block. 0 for a const. */
int64_t job_sum_bytes(const struct job *job, size_t i);
/*
 * Return the bytes of a chunk's rows of the gradient of param I, with their tails, if it is an input after the first and has
 * such rows; else 0. In a worker each such block begins at a multiple of ARRAY_ALIGN; job_rows_bytes has all of them.
 */
int64_t job_row_bytes(const struct job *job, size_t i);
int64_t job_rows_bytes(const struct job *job);
/* Returns the bytes of a long sum of param I. */
int64_t job_long_bytes(const struct job *job, size_t i);
/* Returns the bytes of the sums of param I's gradient that each tile makes apart, a multiple of ARRAY_ALIGN, or 0. */
int64_t job_apart_bytes(const struct job *job, size_t i);

#endif
