/* A lower bound for the time of a schedule within a number of bytes. Private to budget/. */
#ifndef BUDGET_BOUND_H
#define BUDGET_BOUND_H

#include "base/alloc.h"
#include "schedule/step_costs.h"

/*
 * Sets *TIME to a bound: no persistent schedule over COSTS takes less forward time, recomputation included, within
 * BYTES beyond costs->fixed by the cost walk. It is at least one evaluation of each step. Tables of equal steps
 * (equal_chain.h) have at most MOST_CELLS numbers. False if out of memory.
 */
bool budget_bound(const struct step_costs *costs, int64_t bytes, size_t most_cells, const struct allocator *allocator,
                  double *time);

#endif
