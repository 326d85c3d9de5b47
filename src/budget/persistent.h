/*
 * The best persistent schedule of a chain of unequal parts, by dynamic
 * programming over memory in units. Private to plan/; budget.c chooses units and
 * checks what comes out.
 */
#ifndef BUDGET_PERSISTENT_H
#define BUDGET_PERSISTENT_H

#include "schedule/action_list.h"
#include "schedule/step_costs.h"

/*
 * Steps BEGIN .. END-1 that are advanced over, recorded or reversed as one.
 * The needs are bytes beyond what is held by others and beyond the state before
 * the part.
 */
struct part {
	int64_t begin, end;
	double time;
	int64_t state, next; /* the states before and after */
	int64_t residual;    /* held once it is recorded */
	bool keeps_input, keeps_output;
	int64_t forward_first;    /* need of advancing, the state before it held by a slot */
	int64_t forward_inner;    /* need of advancing with the state before it counted */
	int64_t record, backward; /* needs of recording, and of reversing, with both cotangents */
};

struct part part_of_step(const struct step_cost *cost, int64_t next, int64_t begin);
/* COUNT parts in a row, at least one, as one. */
struct part part_join(const struct part *parts, int64_t count);

/* What memory is counted in: level m stands for m * unit + rest bytes. */
struct grid {
	int64_t unit, rest, levels; /* levels 0 .. levels-1 */
};

/*
 * The times of a range by level. Below LOW it cannot be reversed; at HIGH all of
 * it is recorded, and the time does not fall beyond. Where the grid ends before, HIGH
 * is its last level, and LOW the one after where there is no time at all.
 */
struct row {
	int32_t low, high;
	float *cells; /* at levels LOW .. HIGH */
};

/* Tables for the ranges of a chain of parts, each of which may have tables of its own parts. */
struct table {
	const struct part *parts;
	int64_t count;
	bool last;                 /* the chain ends here: no cotangent is there in the first sweep */
	bool pins;                 /* some part keeps its output */
	struct grid grid;          /* of levels that an int32_t holds */
	double *sums;              /* time before each part */
	int64_t *charge;           /* units held by part i once recorded, after part i-1 was */
	struct row *rows;          /* of range (i, j), of pinned range (i, j) */
	const struct table *inner; /* by part, or NULL */
	float *cells;
	void *block;
	size_t cells_size, block_size;
};

/* Solves for all ranges. False where memory is short. INNER must be solved on the same grid. */
bool table_solve(struct table *table, const struct allocator *allocator);
/* Only where each range's times lie, which takes no longer on more levels. INNER likewise. */
bool table_bound(struct table *table, const struct allocator *allocator);
void table_free(struct table *table, const struct allocator *allocator);

/* What tables take: rows, those of them whose times fall beyond, levels at which times may fall, sums compared. */
struct table_size {
	int64_t rows, open;
	double cells, work;
};
/* Adds to SIZE what TABLE, of which the bounds are known, would take up to level TOP, less that of INNER. */
void table_measure(const struct table *table, int64_t top, struct table_size *size);

/* The least level at which the chain can be reversed, or grid.levels. */
int64_t table_least(const struct table *table);
/* The time of the whole chain at LEVEL, at least table_least. */
double table_time(const struct table *table, int64_t level);

/* Appends the whole chain's best actions at LEVEL, at least table_least. */
void table_extract(const struct table *table, int64_t level, struct action_list *list);
/* Appends the actions of least peak, by the scalar recurrence, over COUNT parts. False where memory is short. */
bool least_peak_extract(const struct part *parts, int64_t count, struct action_list *list);

#endif
