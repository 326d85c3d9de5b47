/*
 * The cost walk: the time and memory of a schedule over a chain of which only the steps' costs are known. It is the
 * memory model of `plan --spec` and of the tables of a budget search. Compiled chains have the memory machine.
 *
 * The bytes at any time are the sum of:
 *   - step_costs.fixed;
 *   - each state that is current, in a memory slot, or kept as its input by a recorded step. It counts once.
 *     If the step before is recorded and its residuals include the state, it does not count at all;
 *   - the residuals of recorded steps;
 *   - the cotangent, from the first BACKWARD on.
 * While a step runs forward, the states on both sides of it and its workspace count too, and its residuals if
 * it is recorded. While it runs backward, the cotangents on both sides and its workspace count.
 */
#ifndef MEMORY_COST_WALK_H
#define MEMORY_COST_WALK_H

#include "base/diag.h"
#include "memory/counters.h"
#include "schedule/action.h"
#include "schedule/step_costs.h"

struct cost_walk_options {
	int64_t most; /* the walk ends after the action that takes the peak above these bytes; 0: no limit */
	/*
	 * NULL, or called after each action; an action over many steps comes in at most 64 parts. PART lasts from
	 * time FROM to TO, with at most LIVE bytes in use. AGAIN: the first sweep ended before PART, which is no
	 * BACKWARD. Returns false if out of memory, which ends the walk.
	 */
	bool (*part)(void *context, const struct action *part, double from, double to, int64_t live, bool again);
	void *part_context;
};

/*
 * Walks SCHEDULE, which must be right, over COSTS. Nobody reads the output. The state after a step is computed where
 * the step is recorded if it is read, or if the step's residuals include it. *TIME is the sum of all costs, writes to and reads from disk
 * included; recomputed_cost of COUNTERS is without those. spill_bytes and spill_state stay 0. If the peak exceeds
 * OPTIONS->most, the walk ends, and only peak_bytes has a meaning. OPTIONS may be NULL. STATUS_LIMIT if out of memory.
 */
enum status cost_walk(const struct context *context, struct schedule *schedule, const struct step_costs *costs,
                      const struct cost_walk_options *options, struct counters *counters, double *time);

#endif
