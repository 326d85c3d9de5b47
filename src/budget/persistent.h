/*
 * The best persistent schedule of a chain of unequal parts, by dynamic programming over memory in
 * quanta. Private to budget/; tables.c chooses the quanta.
 */
#ifndef BUDGET_PERSISTENT_H
#define BUDGET_PERSISTENT_H

#include "schedule/action.h"
#include "schedule/step_costs.h"

/*
 * Steps BEGIN .. END-1 that are advanced over, recorded or reversed as one. Each need counts the bytes that
 * are neither held by others nor the state before the part.
 */
struct part {
	int64_t begin, end;
	double time;
	int64_t state, next; /* the states before and after */
	int64_t residual;    /* bytes that it holds once recorded */
	bool keeps_input, keeps_output;
	int64_t forward_first;    /* need of advancing if a slot holds the state before it */
	int64_t forward_inner;    /* the same with the state before it counted */
	int64_t record, backward; /* needs of recording, and of reversing with both cotangents */
};

struct part part_of_step(const struct step_cost *cost, int64_t next, int64_t begin);
/* Returns COUNT parts in a row, at least one, as one. */
struct part part_join(const struct part *parts, int64_t count);

/* How memory is counted: level m, 0 .. levels-1, stands for m * quantum + rest bytes. */
struct grid {
	int64_t quantum, rest, levels;
};

/*
 * The times of a range by level. Below LOW the range cannot be reversed. At HIGH all of it is recorded,
 * and the time falls no further. A grid that ends before HIGH cuts it to its last level, and one that
 * ends before LOW cuts LOW to its number of levels. Tables are mostly rows: their size is a promise (tables.c).
 */
struct row {
	union {
		struct {
			int32_t low, high;
		};
		int64_t least; /* LOW in a table of least peak, which has more levels and nothing else */
	};
	float *cells; /* at levels LOW .. HIGH */
};

/* The times of all ranges of a chain of parts. A part may be a block, which has a table of its own parts. */
struct table {
	const struct part *parts;
	int64_t count;
	bool last; /* the chain ends here: there is no cotangent in the first sweep */
	bool pins; /* some range may be pinned (persistent.c) */
	bool least_peak;
	struct grid grid;
	double *sums;              /* time before each part */
	int64_t *charge;           /* quanta that part i holds once recorded, after part i-1 was */
	struct row *rows;          /* of range (i, j), of pinned range (i, j) */
	const struct table *inner; /* by part, or NULL */
	float *cells;
	void *block;
	size_t cells_size, block_size;
};

/* Finds the times of all ranges. False if out of memory. INNER must be solved on the same grid. */
bool table_solve(struct table *table, const struct allocator *allocator);
/* Finds only the bounds of all ranges, LOW and HIGH: more levels take no longer. INNER must be bound on the same grid. */
bool table_bound(struct table *table, const struct allocator *allocator);
void table_free(struct table *table, const struct allocator *allocator);

/* What tables take. */
struct table_size {
	int64_t rows, open; /* open: rows whose times fall beyond the top level */
	double cells, work; /* levels at which times may fall; sums that are compared */
};
/* Adds to SIZE what TABLE, whose bounds are known, takes up to level TOP, without INNER. */
void table_measure(const struct table *table, int64_t top, struct table_size *size);

/* Returns the least level at which the chain can be reversed, or grid.levels. */
int64_t table_least(const struct table *table);
/* Returns the time of the whole chain at LEVEL, at least table_least. */
double table_time(const struct table *table, int64_t level);

/* Appends the best actions for the whole chain at LEVEL, at least table_least. */
void table_extract(const struct table *table, int64_t level, struct action_list *list);
/* Appends the actions of least peak over COUNT parts: what the bounds of a table with a quantum of one byte choose. */
void least_peak_extract(const struct part *parts, int64_t count, struct action_list *list);

#endif
