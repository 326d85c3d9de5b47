/*
 * Prices of equal steps: a lower bound for the least time of a range, from a relaxation that takes hardly longer for more
 * steps, and schedules that are near that bound. Private to budget/.
 */
#ifndef BUDGET_EQUAL_DUAL_H
#define BUDGET_EQUAL_DUAL_H

#include "budget/equal_steps.h"

enum { EQUAL_PRICES = 9 };

/* The least of (time - price * steps) over ranges of any length, and the shortest and the longest range that have it. */
struct equal_least {
	double value;
	int64_t low, high;
};

/* The least values of all nodes at one price. */
struct equal_priced {
	double price;
	int64_t depth; /* ranges that are advanced over fewer times have values */
	struct equal_least *least;
	size_t count;
	size_t set; /* values, in all, at all prices that were tried */
};

struct equal_dual {
	const struct equal_table *table;
	int64_t steps;
	double bound;                             /* no schedule of the whole range takes less */
	struct equal_priced priced[EQUAL_PRICES]; /* first the price at which the bound is highest */
	int count;
};

/* The ranges of one level and place that begin by WAY, once they have been advanced over TIMES times. */
struct equal_node {
	int64_t level, times;
	enum equal_place place;
	enum equal_way way;
};

/*
 * Sets DUAL's bound and prices for all steps of TABLE, whose levels are listed. INFEASIBLE: there is no schedule.
 * TOO_LARGE: the values would take more than MOST_CELLS numbers of 4 bytes. The caller frees DUAL, whatever the result.
 */
enum equal_result equal_dual_solve(struct equal_dual *dual, const struct equal_table *table, size_t most_cells);
void equal_dual_free(struct equal_dual *dual);
/* Returns how many values were set in all. */
size_t equal_dual_values(const struct equal_dual *dual);
/* Returns an estimate of the time of N steps of NODE: a lower bound, mostly a high one. */
double equal_dual_estimate(const struct equal_dual *dual, struct equal_node node, int64_t n);
/* Returns the k of a good split of N steps of NODE by its way, 0 if there is none. *TIME: its estimate. */
int64_t equal_dual_split(const struct equal_dual *dual, struct equal_node node, int64_t n, double *time);
/*
 * Sets the rows of TABLE's levels to the lengths of ranges that schedules of at most TIME have. False if out of memory.
 */
bool equal_dual_windows(const struct equal_dual *dual, struct equal_table *table, double time);

/* Returns about how many values equal_dual_windows sets. */
size_t equal_dual_window_work(const struct equal_dual *dual, double time);

#endif
