/*
 * The best persistent schedule of a chain of unequal parts, by dynamic programming over memory in
 * quanta. All bytes are those beyond step_costs.fixed. Private to budget/; tables.c chooses the quanta.
 */
#ifndef BUDGET_PERSISTENT_H
#define BUDGET_PERSISTENT_H

#include "schedule/action.h"
#include "schedule/step_costs.h"

/*
 * Steps BEGIN .. END-1, which are advanced over, recorded or reversed together. A need is in bytes. It leaves out
 * what other parts hold and, except in `forward_inner`, the state before the part.
 */
struct part {
	int64_t begin, end;
	double time;         /* to advance over it once, in any unit; also to record it while the state after it is read */
	double last;         /* to record it while nobody reads the state after it */
	int64_t state, next; /* bytes of the states before and after */
	int64_t residual;    /* bytes that the part holds once recorded, without the state before it */
	bool keeps_input, keeps_output;
	int64_t forward_first;    /* need of advancing if a slot holds the state before */
	int64_t forward_inner;    /* need of advancing, with the state before the part */
	int64_t record, backward; /* needs of recording, and of reversing with both cotangents */
};

struct part part_of_step(const struct step_cost *cost, int64_t next, int64_t begin);
/* Returns COUNT consecutive PARTS, at least one, joined to one part. */
struct part part_join(const struct part *parts, int64_t count);

/* Parts I .. J-1; PIN: the range is pinned (persistent.c). */
struct range {
	int64_t i, j;
	bool pin;
};

/* Returns the bytes of the state before R, a range of PARTS; it costs nothing if R is pinned. */
static inline int64_t range_state(const struct part *parts, struct range r) { return r.pin ? 0 : parts[r.i].state; }
/* Returns the bytes to record R's first part now, beside COTANGENT bytes after R, and to reverse that part at the end. */
int64_t range_record_bytes(const struct part *parts, struct range r, int64_t cotangent);

/* How memory is counted: level m, 0 .. levels-1, stands for m * quantum + rest bytes. */
struct grid {
	int64_t quantum, rest, levels;
};

/*
 * The times of a range by level. Below LOW the range cannot be reversed. At HIGH all of it is recorded,
 * and the time falls no further. If the grid ends below HIGH, HIGH is its last level. If it ends below LOW,
 * LOW is the number of levels. tables.c counts the size of this struct in the bytes of tables.
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

/* The times of all ranges of a chain of parts. With `inner`, each part is a block: a stretch of smaller parts. */
struct table {
	const struct part *parts;
	int64_t count;
	bool last;       /* the whole chain ends here: no cotangent is held in the first sweep */
	bool pins;       /* some range may be pinned (persistent.c) */
	bool least_peak; /* rows have `least` alone: no level above it is looked at */
	struct grid grid;
	double *sums;              /* sums[i]: time of parts 0 .. i-1 */
	int64_t *charge;           /* charge[i]: quanta that recording part i adds, after part i-1 */
	struct row *rows;          /* by range (i, j); if PINS, followed by the pinned range's row */
	const struct table *inner; /* by part: the table of that block; NULL: no part is a block */
	float *cells;              /* of all rows; NULL unless solved */
	void *memory;              /* of sums, charge and rows */
	size_t cells_size, memory_size;
};

/* Finds the times of all ranges. `inner` must be solved on the same grid. False if out of memory: free TABLE anyway. */
bool table_solve(struct table *table, const struct allocator *allocator);
/* Finds only the rows' bounds, in a time independent of the levels. `inner` must be bound on the same grid. */
bool table_bound(struct table *table, const struct allocator *allocator);
void table_free(struct table *table, const struct allocator *allocator);

/* The size of tables, and the work of solving them. */
struct table_size {
	int64_t rows, open; /* open: rows whose times fall beyond the top level */
	double cells, work; /* levels at which times may fall; sums that are compared */
};
/* Adds the rows of TABLE, which table_bound made, to SIZE as far as level TOP. Higher rows and `inner` do not count. */
void table_measure(const struct table *table, int64_t top, struct table_size *size);

/* Returns the least level at which the chain can be reversed; grid.levels if there is none. */
int64_t table_least(const struct table *table);
/* Returns the time of the whole chain at LEVEL, which is at least table_least. */
double table_time(const struct table *table, int64_t level);

/* Appends the best actions for the whole chain at LEVEL, which is at least table_least. */
void table_extract(const struct table *table, int64_t level, struct action_list *list);
/* Appends the persistent schedule of least peak over COUNT PARTS, in one-byte quanta. LIST fails if out of memory. */
void least_peak_extract(const struct part *parts, int64_t count, struct action_list *list);

#endif
