/*
 * Tables of the best persistent schedules of equal steps, which a tail may follow, for a memory in bytes: exact for any
 * sizes. Private to budget/. All bytes are those beyond step_costs.fixed.
 */
#ifndef BUDGET_EQUAL_STEPS_H
#define BUDGET_EQUAL_STEPS_H

#include "budget/persistent.h"
#include "schedule/action.h"
#include "schedule/step_costs.h"

/* True if all steps of COSTS cost the same, and the output takes the bytes of a state. */
bool equal_steps_apply(const struct step_costs *costs);
/* True if A and B are costs of equal steps. */
bool equal_costs(const struct step_cost *a, const struct step_cost *b);

/* Which ranges: those in the middle of the chain, or those that end it, before whose first backward is no cotangent. */
enum equal_place { MIDDLE, LAST, PLACES };

/* How a range begins: in the best way, or with its first step recorded, as (2) of equal_steps.c. */
enum equal_way { BEST, RECORDED, WAYS };

/* The times of ranges for which the level's bytes are left. */
struct equal_level {
	int64_t bytes;
	int64_t right[WAYS];              /* the level of the right part in (1) and in (2); -1: none */
	int64_t at_once[PLACES];          /* r: steps that can be recorded at once, at most those of the chain */
	int64_t reach[PLACES];            /* ranges of so many steps are asked for */
	int64_t far[PLACES][WAYS];        /* the most steps that a split can advance over; 0: none */
	int64_t from[PLACES], to[PLACES]; /* the lengths of ranges that have times; none if TO is less */
	int32_t *times[PLACES][WAYS];     /* in ticks, by number of steps */
};

struct equal_dual;

/*
 * The least time of ranges of equal steps, by the bytes that are left for a range. Times are in forward executions of a
 * step. If there is a tail, it counts as the last one of STEPS, and as one execution.
 */
struct equal_table {
	/* Set by the caller: */
	struct step_cost cost;
	int64_t first;           /* index of the first equal step in the chain */
	int64_t steps;           /* the equal ones, and one more for the tail */
	const struct part *tail; /* the steps after the equal ones, recorded and reversed at once; NULL: none */
	bool all;                /* ranges of any length are asked for; else those of all steps alone */
	const struct allocator *allocator;
	/* Set by equal_table_solve: */
	double
		error; /* the schedule may take so much more than the least, and its time is so much above the least at most */
	int32_t unit;  /* ticks of a forward execution: the table's times are in ticks */
	int32_t last;  /* ticks of recording a step while nobody reads the state after it */
	double work;   /* additions that solving took; those of prices once they are dropped */
	double record; /* l: a step's time if nobody reads the state after it */
	bool windows;  /* the rows have the ranges of the best schedules alone */
	bool trimmed;  /* splits were left out, so that the table is small: then the error is unknown, and infinite */
	struct equal_dual *dual;    /* NULL: the levels have times. Else schedules follow its estimates. */
	double dual_time;           /* with DUAL: the time of its schedule for all steps */
	struct equal_level *levels; /* by falling bytes */
	size_t count, capacity;
	int32_t *cells; /* of all levels, after the corners of two hulls */
	size_t cell_count;
	double *heights; /* of the corners */
};

/* With EQUAL_SOLVED no schedule is better by more than `error`. */
enum { EQUAL_CELLS_MANY = 16 << 20 }; /* a table that may have so many numbers may take any time */

enum equal_result { EQUAL_SOLVED, EQUAL_INFEASIBLE, EQUAL_TOO_LARGE, EQUAL_NO_MEMORY };

/*
 * Finds the least times of ranges within BYTES. A step's state must take a byte or more. TOO_LARGE: the table would
 * have more than MOST_CELLS numbers of 4 bytes. The caller frees TABLE, whatever the result.
 */
enum equal_result equal_table_solve(struct equal_table *table, int64_t bytes, size_t most_cells);
void equal_table_free(struct equal_table *table);

/* N steps from BEGIN at PLACE. */
struct equal_range {
	int64_t begin, n;
	enum equal_place place;
};

/* Times above any that is possible are this at least. */
#define EQUAL_NEVER 1e15

/* Returns the time of N steps at PLACE within all bytes of TABLE, once solved. */
double equal_table_time(const struct equal_table *table, enum equal_place place, int64_t n);
/* Returns the time of N steps at PLACE that are recorded at once, once solved. */
double equal_table_once(const struct equal_table *table, enum equal_place place, int64_t n);
/* Appends the actions of RANGE within all bytes. SLOT holds the state before it; -1: it is current. */
void equal_table_extract(const struct equal_table *table, struct equal_range range, int64_t slot,
                         struct action_list *list);
/* Returns the time of N steps at PLACE that are recorded at once; WAY: the left part of a split by it. */
double equal_table_once_by(const struct equal_table *table, enum equal_place place, enum equal_way way, int64_t n);
/* True if (2) is of use: a recorded step holds the state after it, and not the one before. */
bool equal_table_has_recorded(const struct equal_table *table);
/* Returns the index of the chain's step that is STEP of TABLE's. */
int64_t equal_table_index(const struct equal_table *table, int64_t step);
/*
 * Returns how many of TABLE's steps can be recorded at once with BYTES, at PLACE. PIN: see persistent.c. Sees only what the
 * caller sets, as does the function below.
 */
int64_t equal_table_recordable(const struct equal_table *table, int64_t bytes, enum equal_place place, bool pin);
/* Returns the most steps that can be advanced over with BYTES left beside the state before them: 0, 1, or all. */
int64_t equal_table_advances(const struct equal_table *table, int64_t bytes, enum equal_place place);

/* The k of a split by WAY. */
struct equal_choice {
	enum equal_way way;
	int64_t k;
};
/*
 * Returns the choice of TABLE, which has times, for N steps at PLACE with the bytes of LEVEL. They begin by WAY, and cannot
 * be recorded at once.
 */
struct equal_choice equal_table_choose(const struct equal_table *table, int64_t level, enum equal_place place,
                                       enum equal_way way, int64_t n);
/* equal_walk.c: returns the time of the schedule of all steps of TABLE; below 0 if out of memory, EQUAL_NEVER if it finds none. */
double equal_table_walk_time(const struct equal_table *table);

/* The lower convex hull of points: its corners by rising x. */
struct hull {
	int32_t *corners;
	double *heights;     /* by corner */
	int64_t count, near; /* near: index of a corner from which the next search begins */
};

/* Adds the point (X, HEIGHT). X is greater than those before. */
void hull_add(struct hull *hull, int64_t x, double height);
/* The hulls of the times of left and right parts. Their sum bounds the splits of ranges of N steps, for one N after another. */
struct hulls {
	struct hull left, right;
	int64_t each, saved; /* a split at k advances over k - SAVED steps, each in so much time */
	int64_t middle;      /* the k where the bound was least for the N before */
};
/* Returns the bound of the split at K of N steps. */
double hulls_bound(struct hulls *hulls, int64_t n, int64_t k);
/* Sets `middle` for N to a k from LOW to HIGH. The bound is convex. */
void hulls_find_middle(struct hulls *hulls, int64_t n, int64_t low, int64_t high);

#endif
