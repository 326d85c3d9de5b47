/*
 * The best persistent schedules of equal steps between a short head and a short tail, for a memory in bytes. Private to
 * budget/. All bytes are those beyond step_costs.fixed.
 */
#ifndef BUDGET_EQUAL_CHAIN_H
#define BUDGET_EQUAL_CHAIN_H

#include "budget/equal_steps.h"

/* A *head*, equal steps, and a *tail*: the steps before and after these, each joined to one part. */
struct equal_chain {
	struct step_cost cost;  /* of an equal step */
	int64_t steps;          /* the equal ones */
	struct part head, tail; /* without steps: begin == end */
	double once;            /* time of steps that run once and belong to neither */
	bool unproven;          /* other schedules may be better than those of a plan */
};

enum {
	EQUAL_MOST = 200000,                     /* the most equal steps of such a chain */
	EQUAL_HEADED_MOST = 10000,               /* the same after a head: there all lengths of ranges have times */
	EQUAL_CELLS_MOST = 4 * EQUAL_CELLS_MANY, /* the most numbers in the tables of a plan */
};

/*
 * Sets CHAIN to what COSTS are. False if there are more equal steps than the above, or too few beside the others, or if the
 * head takes far longer than one of them.
 */
bool equal_chain_find(struct equal_chain *chain, const struct step_costs *costs);
/* Sets CHAIN to equal steps that take at most the time of COSTS, within any bytes. False where equal_chain_find is. */
bool equal_chain_relax(struct equal_chain *chain, const struct step_costs *costs);

/* Ranges that begin with the head, or after it while its residuals hold the state before the equal steps. */
struct opening {
	bool head;
	const struct equal_table *right; /* of the right parts of splits */
	double *times; /* in forward executions of an equal step, by the number of equal steps of a MIDDLE range */
	double last;   /* of the range to the chain's end */
};

struct equal_plan {
	struct equal_chain chain;
	int64_t bytes;
	struct equal_table table; /* all bytes; with a head: those left while its input is kept */
	struct equal_table held;  /* with a head: those left while its residuals are held */
	struct opening opened, pinned;
	double *memory;
	size_t memory_count;
	const struct allocator *allocator;
};

/*
 * Finds the least time of CHAIN within BYTES. TOO_LARGE: the tables would have more than MOST_CELLS numbers of 4 bytes.
 * The caller frees PLAN, whatever the result.
 */
enum equal_result equal_plan_solve(struct equal_plan *plan, const struct equal_chain *chain, int64_t bytes,
                                   size_t most_cells, const struct allocator *allocator);
void equal_plan_free(struct equal_plan *plan);
/* Returns by how much PLAN's schedule may be slower than the least, and its time above the least; once solved. */
double equal_plan_error(const struct equal_plan *plan);
/* Returns the additions of numbers in the time that solving took, whatever the result, once PLAN is freed. */
double equal_plan_work(const struct equal_plan *plan);
/* Returns the forward time of the whole chain, once solved. */
double equal_plan_time(const struct equal_plan *plan);
/* Appends the actions of the best schedule, once solved. LIST fails if out of memory. */
void equal_plan_extract(const struct equal_plan *plan, struct action_list *list);

#endif
