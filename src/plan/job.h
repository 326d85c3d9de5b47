/*
 * A job: a chain on an input of a known type under a policy, planned to the
 * byte. Residuals, plan, explain and grad all begin with one; nothing here needs
 * data.
 */
#ifndef PLAN_JOB_H
#define PLAN_JOB_H

#include "memory/machine.h"
#include "plan/tiles.h"
#include "schedule/policy.h"

struct spill_costs {
	double write, read; /* of a state to and from disk */
	bool by_byte;       /* of a byte */
};

struct job_options {
	const struct policy *policy;
	struct portion portion; /* of the chain */
	int threads;
	int64_t tile;             /* --tile ROWS, or 0 */
	enum dtype store;         /* --store-dtype, or DTYPE_COUNT */
	bool want_value;          /* the output too */
	bool has_cotangent;       /* of the output, an array */
	bool whole;               /* not in tiles */
	bool on_disk;             /* a budget may keep states on disk */
	int64_t memory;           /* for `auto`: the budget, or 0 */
	int64_t memory_available; /* for `auto` without one; 0: unknown */
	int64_t param_bytes;      /* of the params' and consts' arrays */
	/* Sets the costs of UNITS' steps, of a tile of ROWS rows (0: whole); NULL: the table's are right. */
	enum status (*costs)(void *context, struct compiled_chain *compiled, int64_t rows, struct diags *diags);
	void *costs_context;
	const struct spill_costs *spill; /* NULL: not known */
	const struct allocator *allocator;
};

/* One size of tile, made ready. */
struct tile_plan {
	int64_t rows;
	struct lowered lowered;
	struct compiled_chain compiled;
	int64_t slab; /* bytes that the machine needs */
};

/* What a tile makes of params' gradients, where there are tiles. */
struct partials {
	int64_t bytes;    /* of all params' sums */
	const bool *once; /* by param: a tile makes each element once at most */
};

struct job {
	const struct chain *chain;
	struct type input;           /* of the whole array, its logical dtype */
	const struct policy *policy; /* `auto` resolved */
	enum dtype store;            /* that checkpoints are kept in, or DTYPE_COUNT */
	struct lowered whole;        /* steps with whole types, for reports */
	struct lowered forward;      /* where there are tiles: a forward run of the whole */
	struct tiles tiles;
	int team;                    /* who share each step, where there are no tiles; else 1 */
	int64_t member_bytes;        /* of each but the first */
	struct tile_plan tile, rest; /* rest.rows 0: the rows divide */
	struct schedule *schedule;
	struct policy scheduled; /* what made the schedule: the policy, or what budget chose */
	struct step_costs costs;
	int64_t least_bytes;       /* that a budget must have, where one was found to be infeasible; else 0 */
	struct counters predicted; /* of the whole job: all workers, params, I/O blocks */
	int64_t staging;           /* bytes of a worker's copy of a state on its way to disk, a part of the same; or 0 */
	int64_t slabs;             /* bytes of all workers' slabs at their highest, a part of predicted.peak_bytes */
	struct partials partials;
	const struct allocator *allocator;
	struct arena *arena;
};

/*
 * Plans. INPUT is the file's type with integers made f64. STATUS_CHAIN,
 * STATUS_USAGE, STATUS_LIMIT (infeasible budgets name the least feasible bytes): then
 * there is no schedule, and nothing to free. Else the caller calls job_free.
 */
enum status job_make(struct job *job, const struct chain *chain, const struct type *input,
                     const struct job_options *options, struct arena *arena, struct diags *diags);
/*
 * Plans COUNT JOBS, at least one, whose policies of kind budget the caller has set. Each becomes what
 * job_make would make of it, but one search finds all schedules. A job that is infeasible has least_bytes
 * and no schedule. The first job must outlive the others. The caller frees all of them, but after a failure none.
 */
enum status job_make_budgets(const struct context *context, const struct chain *chain, const struct type *input,
                             const struct job_options *options, struct job *jobs, size_t count);
void job_free(struct job *job);
/*
 * The residual report, of whole arrays: the rows of LIST (arguments first: params as
 * declared, the input, consts; then outputs in program order), checkpoints in the type
 * that they are kept in.
 */
enum status job_residuals(const struct job *job, struct held_list *list, struct diags *diags);
/* Whether the gradient of param I is made row by row, and not summed. */
bool job_has_rows(const struct job *job, size_t i);
/* Bytes of the accumulators of param I where its gradient is summed. */
int64_t job_sum_bytes(const struct job *job, size_t i);
/*
 * Bytes of a tile's own part of the gradient of param I, a multiple of 8, where there are tiles; 0 where the
 * gradient is not wanted or has rows. Sums; or where a tile makes each element once at most, these elements in
 * the computing type: the same bits for fewer bytes.
 */
int64_t job_partial_bytes(const struct job *job, size_t i);

#endif
