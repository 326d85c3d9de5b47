/*
 * A chain as a policy sees it: what each of its steps costs. Bytes are those of one tile;
 * times are in any one unit.
 */
#ifndef SCHEDULE_STEP_COSTS_H
#define SCHEDULE_STEP_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct step_cost {
	double forward, backward;
	/*
	 * Time of recording the step while nobody reads the state after it. Only what its backward pass needs is computed then,
	 * often nothing.
	 * It replaces `forward` where a RECORD action ends and no other step reads that state (action_is_read). A step that
	 * is recorded before another step of its segment costs `forward`.
	 */
	double record;
	int64_t state;              /* bytes of the state before this step */
	int64_t residual;           /* bytes of its residuals, without the state before this step */
	int64_t forward_temporary;  /* bytes of workspace while the step runs forward */
	int64_t record_temporary;   /* bytes of workspace while the step is recorded */
	int64_t backward_temporary; /* bytes of workspace while its backward pass runs */
	/*
	 * What record_temporary may be in place of itself where a judge knows more (budget.h): the last of equal steps that are
	 * recorded together does not make the state after it. Below 0 where that state is larger than the workspace.
	 */
	int64_t last_temporary;
	bool keeps_input;  /* its residuals include the state before it, which `residual` does not count */
	bool keeps_output; /* its residuals include the state after it, which `residual` counts */
};

/* COUNT equal steps one after another, at least one. */
struct step_run {
	struct step_cost cost;
	int64_t count;
};

struct step_costs {
	const struct step_run *runs;
	size_t run_count;
	int64_t steps;                  /* the sum of counts */
	int64_t head;                   /* the first so many steps are recorded at once (TRAIT_HEAD) */
	int64_t output;                 /* bytes of state n */
	int64_t fixed;                  /* bytes held throughout: params, I/O blocks, accumulators */
	double spill_write, spill_read; /* time to write a state to disk, and to read it */
};

/* Returns the mean forward time of a step; 0 if there are no steps. */
static inline double step_costs_mean_forward(const struct step_costs *costs)
{
	double forward = 0;
	for (size_t i = 0; i < costs->run_count; i++)
		forward += costs->runs[i].cost.forward * (double)costs->runs[i].count;
	return costs->steps > 0 ? forward / (double)costs->steps : 0;
}

/* Returns what save-all's forward pass costs beside all steps once, mostly below 0: nobody reads the output of its last step. */
static inline double step_costs_last_record(const struct step_costs *costs)
{
	const struct step_run *last = costs->run_count ? &costs->runs[costs->run_count - 1] : NULL;
	return last ? last->cost.record - last->cost.forward : 0;
}

/* Returns the bytes of the state after the last step of RUN. */
static inline int64_t step_costs_state_after(const struct step_costs *costs, size_t run)
{
	return run + 1 < costs->run_count ? costs->runs[run + 1].cost.state : costs->output;
}

/* Returns the bytes of the largest state before a step. */
static inline int64_t step_costs_largest_state(const struct step_costs *costs)
{
	int64_t largest = 0;
	for (size_t i = 0; i < costs->run_count; i++)
		if (costs->runs[i].cost.state > largest)
			largest = costs->runs[i].cost.state;
	return largest;
}

/* The time assumed for writing or reading a state, if unmeasured: five mean steps, as in disk_revolve.c's paper. */
static inline double step_costs_assumed_spill(const struct step_costs *costs)
{
	return 5 * step_costs_mean_forward(costs);
}

#endif
