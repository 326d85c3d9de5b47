/* A lower bound for the time of a schedule within a number of bytes. Private to budget/. */
#ifndef BUDGET_BOUND_H
#define BUDGET_BOUND_H

#include "base/alloc.h"
#include "budget/fronts.h"
#include "schedule/step_costs.h"

/* The most numbers in tables of equal steps (equal_chain.h), and points of fronts of few steps (fronts.h). */
struct bound_limits {
	size_t cells;
	struct fronts_limits fronts;
};

/*
 * Sets *TIME to a bound: no persistent schedule over COSTS takes less forward time, recomputation included, within
 * BYTES beyond costs->fixed by the cost walk. It is at least one evaluation of each step. False if out of memory.
 */
bool budget_bound(const struct step_costs *costs, int64_t bytes, struct bound_limits limits,
                  const struct allocator *allocator, double *time);

#endif
