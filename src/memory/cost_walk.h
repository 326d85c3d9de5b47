/*
 * The cost walk: what a schedule takes over a chain of which only the steps' costs are known. It is the
 * memory model of `plan --spec` and of the tables of a budget search; chains of ckptc's own have the
 * memory machine.
 *
 * The bytes at any time are the sum of:
 *   - what is fixed;
 *   - each state that is current, in a slot, or the input of a recorded step. It counts once, and not at
 *     all if the residuals of the step before hold it;
 *   - the residuals of recorded steps;
 *   - the cotangent, from the first BACKWARD on.
 * While a step runs forward the states on both sides of it are there too, while it runs backward the
 * cotangents on both sides, and each time its workspace.
 */
#ifndef MEMORY_COST_WALK_H
#define MEMORY_COST_WALK_H

#include "base/diag.h"
#include "memory/counters.h"
#include "schedule/action.h"
#include "schedule/step_costs.h"

struct cost_walk_options {
	int64_t most; /* the walk may end once the peak is above these bytes; 0: it does not */
	/*
	 * Sees each action, or each of at most 64 parts of an action over many steps: from FROM to TO by the
	 * time, LIVE the most bytes meanwhile. AGAIN: a FORWARD or RECORD after the first sweep. False if out
	 * of memory, which ends the walk.
	 */
	bool (*part)(void *context, const struct action *part, double from, double to, int64_t live, bool again);
	void *part_context;
};

/*
 * Walks SCHEDULE, which must be right, over COSTS. COUNTERS: recomputed_cost is without writes to and reads
 * from disk; *TIME is the sum of all costs with them. If the peak exceeds OPTIONS->most, the walk ends and only
 * peak_bytes has a meaning. OPTIONS may be NULL. STATUS_LIMIT if out of memory.
 */
enum status cost_walk(const struct context *context, struct schedule *schedule, const struct step_costs *costs,
                      const struct cost_walk_options *options, struct counters *counters, double *time);

#endif
