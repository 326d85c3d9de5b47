/*
 * The best persistent schedule of a chain of equal steps, for a memory in bytes: exact for any sizes.
 * Private to budget/. All bytes are those beyond step_costs.fixed.
 */
#ifndef BUDGET_EQUAL_STEPS_H
#define BUDGET_EQUAL_STEPS_H

#include "schedule/action.h"
#include "schedule/step_costs.h"

/* True if all steps of COSTS cost the same, and the output takes the bytes of a state. */
bool equal_steps_apply(const struct step_costs *costs);
/* Returns the cost of the first step; NULL if there are no steps. */
const struct step_cost *equal_steps_cost(const struct step_costs *costs);

struct equal_level;

/* The least evaluations of ranges of a chain of equal steps, by the bytes that are left for a range. */
struct equal_table {
	struct step_cost cost;
	int64_t steps;
	struct equal_level *levels; /* by falling bytes */
	size_t count, capacity;
	int32_t *cells; /* of all levels */
	size_t cell_count;
	const struct allocator *allocator;
};

enum equal_result { EQUAL_SOLVED, EQUAL_INFEASIBLE, EQUAL_TOO_LARGE, EQUAL_NO_MEMORY };

/*
 * Finds the least evaluations of the chain of COSTS, to which equal_steps_apply, within BYTES. TOO_LARGE: the table
 * would have more than MOST_CELLS numbers of 4 bytes. The caller frees TABLE, whatever the result.
 */
enum equal_result equal_table_solve(struct equal_table *table, const struct step_costs *costs, int64_t bytes,
                                    size_t most_cells, const struct allocator *allocator);
void equal_table_free(struct equal_table *table);
/* Returns the evaluations of the whole chain, once solved. */
int64_t equal_table_evaluations(const struct equal_table *table);
/* Appends the actions of the best schedule, once solved. LIST fails if out of memory. */
void equal_table_extract(const struct equal_table *table, struct action_list *list);

#endif
