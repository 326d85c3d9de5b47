/*
 * The best persistent schedule of a chain of unequal parts, by dynamic programming over memory in
 * quanta. Private to budget/; tables.c chooses the quanta.
 */
#ifndef BUDGET_PERSISTENT_H
#define BUDGET_PERSISTENT_H

#include "schedule/action.h"
#include "schedule/step_costs.h"

/*
 * Steps BEGIN .. END-1, which are advanced over, recorded or reversed together. A need is in bytes. It leaves out
 * what other parts hold and the state before the part.
 */
struct part {
	int64_t begin, end;
	double time;
	int64_t state, next; /* bytes of the states before and after */
	int64_t residual;    /* bytes that the part holds once recorded */
	bool keeps_input, keeps_output;
	int64_t forward_first;    /* need of advancing if a slot holds the state before */
	int64_t forward_inner;    /* need of advancing, with the state before the part */
	int64_t record, backward; /* needs of recording, and of reversing with both cotangents */
};

struct part part_of_step(const struct step_cost *cost, int64_t next, int64_t begin);
/* Returns COUNT consecutive PARTS, at least one, joined to one part. */
struct part part_join(const struct part *parts, int64_t count);

/* How memory is counted: level m, 0 .. levels-1, stands for m * quantum + rest bytes. */
struct grid {
	int64_t quantum, rest, levels;
};

/*
 * The times of a range by level. Below LOW the range cannot be reversed. At HIGH all of it is recorded,
 * and the time falls no further. On a grid that ends below them, HIGH is the last level and LOW the number of
 * levels. Tables are mostly rows, so tables.c bounds their bytes by the size of this struct.
 */
struct row {
	union {
		struct {
			int32_t low, high;
		};
		int64_t least; /* LOW in a table of least peak, which has more levels and no times */
	};
	float *cells; /* at levels LOW .. HIGH */
};

/* The times of all ranges of a chain of parts. A part may be a block, with an inner table of the block's parts. */
struct table {
	const struct part *parts;
	int64_t count;
	bool last; /* the whole chain ends here: no cotangent is held in the first sweep */
	bool pins; /* some range may be pinned (persistent.c) */
	bool least_peak;
	struct grid grid;
	double *sums;              /* sums[i]: time of parts 0 .. i-1 */
	int64_t *charge;           /* charge[i]: quanta that recording part i adds, after part i-1 */
	struct row *rows;          /* by range (i, j); if PINS, followed by the pinned range's row */
	const struct table *inner; /* by part: the table of that block; NULL: no part is a block */
	float *cells;
	void *block;
	size_t cells_size, block_size;
};

/* Finds the times of all ranges. INNER must be solved on the same grid. False if out of memory: free TABLE anyway. */
bool table_solve(struct table *table, const struct allocator *allocator);
/* Finds only LOW and HIGH of all ranges, in a time independent of the levels. INNER must be bound on the same grid. */
bool table_bound(struct table *table, const struct allocator *allocator);
void table_free(struct table *table, const struct allocator *allocator);

/* The size of tables, and the work of solving them. */
struct table_size {
	int64_t rows, open; /* open: rows whose times fall beyond the top level */
	double cells, work; /* levels at which times may fall; sums that are compared */
};
/* Adds to SIZE the size of TABLE, which table_bound made, up to level TOP. INNER is not counted. */
void table_measure(const struct table *table, int64_t top, struct table_size *size);

/* Returns the least level at which the chain can be reversed; grid.levels if there is none. */
int64_t table_least(const struct table *table);
/* Returns the time of the whole chain at LEVEL, at least table_least. */
double table_time(const struct table *table, int64_t level);

/* Appends the best actions for the whole chain at LEVEL, at least table_least. */
void table_extract(const struct table *table, int64_t level, struct action_list *list);
/* Appends the actions of least peak over COUNT PARTS: those that the bounds choose on a grid of one-byte quanta. */
void least_peak_extract(const struct part *parts, int64_t count, struct action_list *list);

#endif
