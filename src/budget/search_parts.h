/*
 * A search for schedules that fit budgets: what its parts share. Private to plan/;
 * budget.c says what is tried.
 */
#ifndef BUDGET_SEARCH_PARTS_H
#define BUDGET_SEARCH_PARTS_H

#include "budget/budget.h"
#include "schedule/verify.h"

enum {
	MANY = 3200,     /* steps that tables are made for */
	GROUPED = 20000, /* steps, joined to MANY parts at most, likewise */
	NUMBERED = 1000, /* steps that revolve:S and online:S are tried for */
};

/*
 * Something to offer to goals: what is known of it, by the verifier and by the
 * judge, which is asked when it must be.
 */
struct candidate {
	const struct policy *family;
	struct schedule *schedule; /* NULL: to be made again */
	bool verified, judged;
	double time;
	int64_t peak;  /* by the verifier */
	int64_t truth; /* by the judge, asked for at MOST; without one the same */
	int64_t most;
	struct counters counters;
};

struct search {
	const struct step_costs *costs;
	const struct budget_judge *judge;
	const struct allocator *allocator;
	struct diags *diags;
	struct budget_goal *goals;
	size_t count;
	int64_t range;   /* save-all's peak beyond what is fixed */
	int64_t room;    /* of the tables at hand, bytes */
	int64_t exact;   /* bytes beyond what is fixed up to which there were exact tables */
	int64_t *levels; /* by goal: how many of the grid at hand are for it */
	int64_t *rests;  /* by goal: of its grid that has not been had, or -1 */
};

enum verdict_on { SLOWER, TOO_LARGE, TAKEN };

/* Whether save-all fits, so that nothing is to be sought. */
bool goal_is_settled(const struct budget_goal *goal);
/* Bytes by the verifier beyond which nothing can fit. */
int64_t goal_reach(const struct search *s, const struct budget_goal *goal);
/* Bytes beyond what is fixed that GOAL's schedules can take by the verifier. */
int64_t goal_needed_range(const struct search *s, const struct budget_goal *goal);
/* Whether what takes TIME is quicker than what GOAL has. */
bool goal_is_faster(const struct budget_goal *goal, double time);
/* Whether GOAL may want, as the best or for its bytes, what takes at least TIME, and PEAK by the verifier. */
bool goal_may_want(const struct search *s, const struct budget_goal *goal, double time, int64_t peak);
/* Asks the verifier, unless it was asked. *RIGHT: whether there is an answer; FULLY: there is, wanted or not. */
enum status candidate_verify(const struct search *s, struct candidate *c, bool fully, bool *right);
/* Whether GOAL, which may want C, must have the judge asked. */
bool goal_must_ask(const struct budget_goal *goal, const struct candidate *c);
/* GOAL takes C, whose schedule is there, if it fits and is the fastest so far. */
enum status goal_offer(const struct search *s, struct budget_goal *goal, struct candidate *c, enum verdict_on *on);
/* Offers SCHEDULE, which FAMILY made, to all goals, and frees it. */
enum status search_offer(const struct search *s, const struct policy *family, struct schedule *schedule);
/* The sets of q and of S: the number after NUMBER, every one up to DENSE, then one in PERCENT more. */
int64_t search_next_number(int64_t number, int64_t dense, int64_t percent);
/* The persistent schedules of tables, offered to each goal that they are made for. */
enum status search_tables(struct search *s);
/* Parts of equal length, from bounds; to each goal of the same list as far as its bytes go, the smallest at last. */
enum status search_long(const struct search *s);

#endif
