/*
 * The best persistent schedules of a chain of few unequal steps, for a memory in bytes: exact for any sizes. Private to
 * budget/. All bytes are those beyond step_costs.fixed.
 */
#ifndef BUDGET_FRONTS_H
#define BUDGET_FRONTS_H

#include "base/arena.h"
#include "budget/persistent.h"
#include "schedule/action.h"
#include "schedule/step_costs.h"

enum {
	FRONTS_STEPS_MOST = 64,
	/* Limits of a search that no run waits for: half a second of work, and 25 MB. */
	FRONTS_COMPARED_MOST = 48 << 20,
	FRONTS_HELD_MOST = 1562500,
};

/* How many points a search may compare, in all, and how many it may hold at once. */
struct fronts_limits {
	int64_t compared, held;
};

/*
 * A range of steps can be reversed in BYTES with EXTRA time. Extra time is beyond one execution of each step; the last
 * step is recorded while nobody reads the state after it.
 */
struct front_point {
	int64_t bytes;
	double extra;
};

/* A Pareto front: bytes rise, and extra times fall. */
struct front {
	struct front_point *points;
	int64_t count;
};

struct fronts {
	const struct allocator *allocator;
	struct fronts_limits remaining; /* so many more may be compared, and held by the fronts that are solved now */
	struct fronts_limits limits;
	struct arena arena; /* of all that lasts as long as the struct */
	int64_t bytes;      /* the budget */
	int64_t count;      /* of steps */
	struct part *parts; /* the steps */
	double *starts;     /* starts[i]: forward time of the steps before i */
	double *ends;       /* ends[j]: time of the steps before j, where nobody reads state j. ends[count] is save-all's */
	double total_time;  /* time of all steps, each advanced over and recorded */
	int64_t (*beside)[2]; /* beside[i][pin]: the least bytes that others hold while a range from i on is reversed */
	/* Of the last call of fronts_solve: */
	double most;                                /* the most extra time that is looked at */
	int64_t width;                              /* the most points of a front */
	bool thinned;                               /* some front has fewer points than it should */
	struct arena points;                        /* those of all fronts, and of the three below */
	struct front *fronts;                       /* by range, as rows of a table with pins (persistent.c) */
	struct front_point *best, *merged, *option; /* of the range that is solved now */
	/* What is known of the whole chain within `bytes`: */
	double least; /* no schedule has less extra time */
	double found; /* the least of a schedule that is known; INFINITY: none is */
	struct schedule
		*schedule; /* the best one that fronts_close made; NULL: none is better than one that the caller knew */
};

/*
 * Prepares F for COSTS, of 1 to FRONTS_STEPS_MOST steps, within BYTES. False if out of memory. The caller frees F, whatever
 * the result.
 */
bool fronts_begin(struct fronts *f, const struct step_costs *costs, int64_t bytes, struct fronts_limits limits,
                  const struct allocator *allocator);
void fronts_free(struct fronts *f);

enum fronts_result { FRONTS_SOLVED, FRONTS_STOPPED, FRONTS_NO_MEMORY };

/*
 * Sets the fronts of all ranges, as far as schedules of at most MOST extra time have them. A front gets at most WIDTH
 * points. Raises f->least. STOPPED: more points would be compared or held than F may.
 */
enum fronts_result fronts_solve(struct fronts *f, double most, int64_t width);
/* Returns the most extra time to look at next, after f->most; 0 if no schedule can have more. */
double fronts_next_most(const struct fronts *f);
/* Returns a width for the first call of fronts_solve: the work certainly stays within the limits, if they allow the least width. */
int64_t fronts_first_width(const struct fronts *f);
/*
 * Looks for the best schedule: f->least and f->found come as near to one another as the limits allow. The caller may set
 * f->found before, if it knows a schedule.
 */
enum fronts_result fronts_close(struct fronts *f);
/* True if no schedule takes less time than f->found. */
bool fronts_closed(const struct fronts *f);
/* Returns the front of the whole chain, once solved, up to f->bytes. */
const struct front *fronts_whole(const struct fronts *f);
/*
 * Makes the schedule that the fronts lead to within BYTES, at least those of the first point of the whole front. Sets
 * *EXTRA to its time. NULL if out of memory.
 */
struct schedule *fronts_extract(const struct fronts *f, int64_t bytes, double *extra);

#endif
