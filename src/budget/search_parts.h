/*
 * A search for schedules that fit budgets: what its files share. Private to budget/.
 *
 *     search.c       which schedules are tried
 *     goals.c        who judges a candidate, and which goals take it
 *     tables.c       the schedules of tables (persistent.h)
 *     equal_goals.c  the schedules of chains of equal steps (equal_steps.h)
 *     front_goals.c  the schedules of chains of few steps (fronts.h)
 *     families.c     the schedules of other policies
 *     long_chains.c  binomial schedules, chosen by closed forms
 *
 * A *goal* is a budget and the best schedule found for it so far. A *candidate* is a schedule that is
 * offered to goals: a goal takes it if it fits and is faster than the goal's schedule.
 */
#ifndef BUDGET_SEARCH_PARTS_H
#define BUDGET_SEARCH_PARTS_H

#include "budget/bound.h"
#include "budget/budget.h"
#include "budget/equal_chain.h"

enum {
	MANY = 3200, /* the most parts of a chain; up to so many steps, each step is a part */
	/* The most steps of chains with tables, if unequal, and with families.c. Over longer ones only save-all is walked. */
	GROUPED = 200000,
	GROUPED_EQUAL = 50000,
	BLOCKS = 160, /* the most blocks of tables */
	TRIES = 150,  /* about the most schedules of a long ladder that each pass over it tries */
	/* Additions in the time in which a sum of a table and a point of a front are compared, in which an action of a */
	/* schedule is made and timed, and in which the cost walk takes it: */
	SUM_WORK = 4,
	POINT_WORK = 40,
	ACTION_WORK = 100,
	WALK_WORK = 500,
	NUMBERED = 1000, /* the most steps of a chain for which families.c tries revolve:S and online:S */
};

enum offered { SLOWER, TOO_LARGE, TAKEN }; /* SLOWER: no faster than the goal's schedule */

struct candidate {
	const struct policy *family;
	struct schedule *schedule; /* NULL: the table makes it again */
	int64_t level;             /* of its table: table_extract makes the schedule there */
	bool timed, judged;
	bool certain; /* judged even where the walk takes more than a goal's reach */
	double time;
	double actions; /* of the schedule, once timed */
	double steps;   /* about how many steps a judge walks */
	int64_t walked; /* peak by the cost walk; 0: not walked */
	int64_t most;   /* limit of the last judge or walk: a judged peak above it may be too low */
	struct judgement judgement;
	enum offered result; /* of the last goal_offer */
};

/* How much a search may try. Without a judge, or before a long run, as much as is of use. */
struct effort {
	int64_t blocks, parts; /* the most of tables */
	int64_t tries;         /* see TRIES */
	double sums;           /* the most that are compared to make a table */
	size_t cells;          /* the most of a table of equal steps */
	int64_t points;        /* the most that fronts compare */
	double thin;           /* by so many times fewer numbers are tried than otherwise; 1 or more */
	double most;           /* additions for a goal; INFINITY: no limit */
};

struct search {
	struct context context; /* with an arena of the search */
	const struct step_costs *costs;
	const struct budget_judge *judge; /* NULL: the cost walk */
	struct budget_goal *goals;
	size_t count;
	struct effort effort;
	struct step_costs nearer; /* with a judge and equal steps: what costs are (find_equal) */
	struct equal_chain chain;
	const struct equal_chain *equal; /* `chain`, which the costs are; NULL: they are no such chain */
	bool closed;         /* nothing else is tried for exact goals: the tables of equal steps have their schedules */
	double *sums;        /* sums[i]: forward time of the first i steps; NULL beyond GROUPED or GROUPED_EQUAL steps */
	double *unread;      /* where SUMS are, by step: what recording it costs less if nobody reads the state after it */
	double once;         /* forward time of save-all */
	double time;         /* save-all's, by the cost walk */
	int64_t range;       /* save-all's peak by the cost walk, beyond costs->fixed */
	int64_t table_bytes; /* limit on the bytes of the current tables */
	int64_t exact;       /* exact tables reach to these bytes beyond costs->fixed; 0: there are none */
	double *remaining;   /* by goal: additions that may still be done for it: see search_spend */
	int64_t *levels;     /* by goal: levels of the current grid that are offered to it */
	int64_t *rests;      /* by goal: rest of the grid that it still needs, or -1 */
};

/* Takes WORK, in additions, from what may still be done for GOAL: what it would take if GOAL were alone. */
void search_spend(const struct search *s, const struct budget_goal *goal, double work);
/*
 * True if more is tried for GOAL. Once its work is spent, a goal keeps the schedule that it has. A goal without one gets as
 * much work again.
 */
bool search_goes_on(const struct search *s, const struct budget_goal *goal);
/* True if more is tried for some goal that is not settled. */
bool search_continues(const struct search *s);
/* True if nothing else is tried for GOAL: its schedule is save-all, or is exact and exact goals are closed. */
bool goal_is_settled(const struct search *s, const struct budget_goal *goal);
/* True if TIME is less than that of GOAL's schedule by more than rounding, or GOAL has no schedule. */
bool goal_is_faster(const struct budget_goal *goal, double time);
/* Returns GOAL's reach (budget.h): bytes of the cost walk beyond costs->fixed. */
int64_t goal_reach(const struct search *s, const struct budget_goal *goal);
/*
 * Sets C's time. If some goal may want it, also sets C's peak by the cost walk, which is then the judgement if there
 * is no judge. The walk may stop above the bytes that any goal wants. FULLY: C is always walked, to its end.
 */
enum status candidate_measure(const struct search *s, struct candidate *c, bool fully);
/* Takes what it costs to offer C to GOAL from GOAL's work: to make it, to walk it, and to judge it. */
void goal_charge(const struct search *s, const struct budget_goal *goal, const struct candidate *c);
/* True if C's judgement shows that C does not fit GOAL and cannot lower GOAL's least. False without a judgement. */
bool candidate_is_large(const struct budget_goal *goal, const struct candidate *c);
/* True if C, which is timed, is faster than GOAL's schedule and, as far as walked, may fit or lower GOAL's least. */
bool goal_wants(const struct search *s, const struct budget_goal *goal, const struct candidate *c);
/*
 * Measures C, if candidates can be timed, and offers it to GOAL. Frees C's schedule. STATUS_LIMIT if that is NULL. FULLY: see
 * candidate_measure.
 */
enum status goal_try(const struct search *s, struct budget_goal *goal, struct candidate *c, bool fully);
/* If GOAL wants C, judges C's schedule unless it is judged, and copies it to GOAL if it fits. Sets C's result. */
enum status goal_offer(const struct search *s, struct budget_goal *goal, struct candidate *c);
/* Offers SCHEDULE, which FAMILY made, to all goals, and frees it. STATUS_LIMIT if it is NULL. At most GROUPED steps. */
enum status search_offer(const struct search *s, const struct policy *family, struct schedule *schedule);
/* True if no goal gets anything from tables. */
bool search_needs_no_tables(const struct search *s);
/* Returns the number after NUMBER in a fixed set: every one up to DENSE, then each about PERCENT percent larger. */
int64_t search_next_number(int64_t number, int64_t dense, int64_t percent);
/*
 * Offers the persistent schedule of least peak to all goals, if the chain has at most LEAST_PARTS parts. Then makes
 * tables, and offers each goal some schedules of those made for it (offer_ladder).
 */
enum status search_tables(struct search *s);
/*
 * Without a judge: offers each goal that is not settled the best schedule of s->equal within its bytes. *SOLVED: for all
 * goals that is the best there is. False where a table would be too large.
 */
enum status search_equal(const struct search *s, bool *solved);
/* With a judge: offers each goal that is not settled some schedules that are the best within bytes of a fixed set. */
enum status search_equal_judged(const struct search *s);
/* Returns the most numbers that the tables of s->equal may have for GOAL. */
size_t search_equal_cells(const struct search *s, const struct budget_goal *goal);
/* Offers the goals that are not settled the best schedules that fronts.h finds. At most FRONTS_STEPS_MOST steps. */
enum status search_fronts(const struct search *s);
struct fronts_limits search_fronts_limits(const struct search *s, const struct budget_goal *goal);
/* Returns how much work a bound for GOAL may take. */
struct bound_limits search_bound_limits(const struct search *s, const struct budget_goal *goal);
/* Returns the largest number that divides both A and B; the other one if one is 0. */
int64_t common_divisor(int64_t a, int64_t b);
/* Offers GOAL the fastest binomial checkpointing of parts whose bound is within its bytes: one schedule, if there is one. */
enum status search_within_bound(const struct search *s, struct budget_goal *goal);
/*
 * Offers each goal without a schedule few schedules, none of them very slow: one that certainly fits (search_within_bound),
 * and if there is none, the largest revolve:S that fits.
 */
enum status search_quickly(const struct search *s);
/* Offers schedules of other policies (families.c), of chains of at most GROUPED steps. */
enum status search_families(const struct search *s);
/* True if the judge sees every policy of another family that is faster: the walk may take far more than the judge. */
bool families_are_certain(const struct search *s);
/* True if the judge sees FAMILY if it is faster: also over at most MANY steps, if it cuts without regard to snapshots. */
bool family_is_certain(const struct search *s, const struct policy *family);
/*
 * Offers each goal that is not settled binomial checkpointing of parts of equal length, from a fixed list of lengths
 * and snapshots (offer_choices). A goal still without a schedule is offered parts of one step with one snapshot.
 */
enum status search_long(const struct search *s);

#endif
