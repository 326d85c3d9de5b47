/*
 * A search for schedules that fit budgets: what its files share. Private to budget/.
 *
 *     search.c       which schedules are tried
 *     goals.c        who judges a candidate, and which goals take it
 *     tables.c       schedules of the tables of persistent.c
 *     long_chains.c  schedules of closed forms
 *
 * A *goal* is a budget and the best schedule found for it so far. A *candidate* is a schedule that is
 * offered to goals: each goal takes it if it fits and is faster than what the goal has.
 */
#ifndef BUDGET_SEARCH_PARTS_H
#define BUDGET_SEARCH_PARTS_H

#include "budget/budget.h"

enum {
	MANY = 3200,     /* the most steps of a chain that tables are made for */
	GROUPED = 20000, /* the same if steps are joined to MANY parts */
	NUMBERED = 1000, /* the most steps of a chain that revolve:S and online:S are tried for */
};

enum offered { SLOWER, TOO_LARGE, TAKEN };

struct candidate {
	const struct policy *family;
	struct schedule *schedule; /* NULL: to be made again */
	int64_t level;             /* of the table that makes it */
	bool timed, judged;
	double time;
	int64_t walked; /* peak by the cost walk; 0: it was not asked */
	int64_t most;   /* that the judge was asked with */
	struct judgement judgement;
	enum offered result; /* of the last goal_offer */
};

struct search {
	struct context context; /* with an arena of the search */
	const struct step_costs *costs;
	const struct budget_judge *judge; /* NULL: the cost walk */
	struct budget_goal *goals;
	size_t count;
	double *sums;        /* forward time before each step, and of all; NULL beyond GROUPED steps */
	double time;         /* of one forward and backward pass */
	int64_t range;       /* save-all's peak by the cost walk, beyond what is fixed */
	int64_t table_bytes; /* the most that the tables at hand may take */
	int64_t exact;       /* bytes beyond what is fixed up to which exact tables were made */
	int64_t *levels;     /* by goal: how many levels of the grid at hand are for it */
	int64_t *rests;      /* by goal: the rest of a grid that is still to be made for it, or -1 */
};

/* True if GOAL has save-all: nothing is faster. */
bool goal_is_settled(const struct budget_goal *goal);
/* True if a candidate that takes TIME is faster than what GOAL has. */
bool goal_is_faster(const struct budget_goal *goal, double time);
/* The cost walk's bytes, beyond what is fixed, up to which schedules are tried for GOAL: its reach (budget.h). */
int64_t goal_reach(const struct search *s, const struct budget_goal *goal);
/*
 * Sets the time of C, a sum of costs, and, if some goal likes the time, the peak by the cost walk. If there is no
 * judge, the cost walk is the judge. FULLY: C will be offered again, so the peak is exact in any case.
 */
enum status candidate_measure(const struct search *s, struct candidate *c, bool fully);
/* True if the judge was asked for C, and what it said says that C is too large for GOAL and teaches nothing new. */
bool candidate_is_large(const struct budget_goal *goal, const struct candidate *c);
/* True if GOAL may take C, measured, or learn fewer bytes from it. */
bool goal_wants(const struct search *s, const struct budget_goal *goal, const struct candidate *c);
/* GOAL takes C, whose schedule and time are there, if it fits and is the fastest so far. */
enum status goal_offer(const struct search *s, struct budget_goal *goal, struct candidate *c);
/* Offers SCHEDULE, which FAMILY made, to all goals, and frees it. NULL is out of memory. */
enum status search_offer(const struct search *s, const struct policy *family, struct schedule *schedule);
/* The fixed sets of numbers: each up to DENSE, then one in PERCENT. */
int64_t search_next_number(int64_t number, int64_t dense, int64_t percent);
/* Offers the persistent schedules of tables, to each goal that these are made for. */
enum status search_tables(struct search *s);
/* Offers binomial checkpointing of parts of equal length: for each goal those of a fixed list that its bytes allow. */
enum status search_long(const struct search *s);

#endif
