/* Budgets: the search for the fastest schedule within a number of bytes. */
#ifndef BUDGET_BUDGET_H
#define BUDGET_BUDGET_H

#include "memory/counters.h"
#include "schedule/action.h"
#include "schedule/policy.h"
#include "schedule/step_costs.h"

/* A judge's answer for one schedule. */
struct judgement {
	int64_t peak; /* bytes, costs->fixed among them */
	struct counters counters;
};

/*
 * A judge predicts the peak of SCHEDULE better than the cost walk. FAMILY is the policy that made SCHEDULE; its kind
 * is budget if the search's tables made it. If the peak exceeds MOST, the judge may stop early. JUDGEMENT then has
 * a peak above MOST, and its counters mean nothing.
 *
 * SHARE and SLACK estimate the judge's bytes from WALKED, the cost walk's bytes:
 * fixed + (WALKED - fixed) * SHARE - SLACK. A goal's *reach* is WALKED - fixed where the estimate equals the goal's
 * bytes. A walked schedule beyond the reach is judged only if it may be the least so far, although it might fit.
 *
 * RUN is the predicted cost of the run that follows, in additions of numbers. The search takes about a tenth of that,
 * but some milliseconds in any case. It counts its own work by what it does, and reads no clock. With a limit MOST, a goal
 * may find no schedule although one fits: then the caller searches without.
 */
struct budget_judge {
	enum status (*judge)(void *context, const struct policy *family, struct schedule *schedule, int64_t most,
	                     struct judgement *judgement);
	void *context;
	double share;
	int64_t slack;
	double run;
	double step; /* additions in the time in which it walks a step */
	double most; /* additions that may be done for a goal; 0: no limit, as if a long run followed */
};

/* A budget of BYTES, and the fastest schedule that was found for it. Long: over 200,000 steps, and not save-all. */
struct budget_goal {
	int64_t bytes;
	struct schedule *schedule; /* NULL: none was found */
	int64_t least;             /* without a schedule: the least peak of all that were judged */
	struct policy family;      /* the policy that made the schedule; the fields below mean nothing without one */
	bool exact;                /* no persistent schedule within BYTES takes less time by the cost walk */
	bool near;                 /* none takes as little as a percent less: tables would take longer than they save */
	double time;               /* sum of the steps' costs, forward and backward; long: in mean forward executions */
	int64_t walked;            /* its peak by the cost walk; 0: not walked */
	int64_t peak;              /* by the judge, else by the cost walk; long without a judge: an upper bound */
	struct counters counters;  /* by the judge, else by the cost walk; long without a judge: zeros */
};

/*
 * Finds for each of COUNT GOALS a fast schedule over COSTS whose peak by JUDGE (NULL: the cost walk) is at most the
 * goal's bytes, which the caller sets. A goal that finds none is no failure. The caller frees the schedules. A goal's
 * result does not depend on the other goals, and more bytes never give a longer time. One search for all goals takes
 * hardly longer than for one. Fails, with all schedules NULL, if out of memory (STATUS_LIMIT) or if JUDGE fails.
 */
enum status budget_search(const struct context *context, const struct step_costs *costs,
                          const struct budget_judge *judge, struct budget_goal *goals, size_t count);
/* Sets *LEAST to the least peak by the cost walk of all that a search for 0 bytes tries. STATUS_LIMIT if no memory. */
enum status budget_least(const struct context *context, const struct step_costs *costs, int64_t *least);
/*
 * Sets the gap_percent of COUNTERS, those of a schedule over COSTS within BYTES beyond costs->fixed, from a lower bound
 * (bound.h). STATUS_LIMIT if out of memory.
 */
enum status budget_gap(const struct context *context, const struct step_costs *costs, int64_t bytes,
                       struct counters *counters);
/*
 * Reports that BYTES, of a limit on memory if BY_MEMORY, else of a policy budget:BYTES, are too few. The hint has LEAST,
 * which are enough. Returns STATUS_LIMIT.
 */
enum status budget_infeasible(int64_t bytes, int64_t least, bool by_memory, struct diags *diags);

/* disk.c: budgets that may keep states on disk. */

struct disk_offer {
	const struct step_costs *costs;
	const struct budget_judge *judge; /* NULL: the cost walk */
	int64_t disk_bytes;               /* if LIMITED: the most bytes of states on disk at once */
	bool limited;
	bool staged; /* a state on its way to disk has a copy in memory, which should fit too */
};

/*
 * Gives GOAL, after a search, disk-revolve with as many snapshots as fit, if recomputation and disk accesses cost less
 * than GOAL's schedule recomputes or if GOAL has none. Then GOAL's least may fall. STATUS_LIMIT if no memory.
 */
enum status budget_offer_disk(const struct context *context, const struct disk_offer *offer, struct budget_goal *goal);
/*
 * Sets GOAL, whose bytes the caller sets, to the fastest schedule found by the cost walk; the caller frees it. Fails
 * with STATUS_LIMIT if none is found. If DISK is not NULL, states may go to disk. BY_MEMORY: see budget_infeasible,
 * whose LEAST is the least peak of all that were tried.
 */
enum status budget_schedule(const struct context *context, const struct step_costs *costs,
                            const struct disk_offer *disk, bool by_memory, struct budget_goal *goal);
/* Lowers *LEAST to the peak of disk-revolve:0, without copies, if that is less. */
enum status budget_least_on_disk(const struct context *context, const struct disk_offer *offer, int64_t *least);

#endif
