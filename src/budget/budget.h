/*
 * Budgets: the search for the schedule of least time that takes at most so many bytes.
 */
#ifndef BUDGET_BUDGET_H
#define BUDGET_BUDGET_H

#include "memory/counters.h"
#include "schedule/action.h"
#include "schedule/policy.h"
#include "schedule/step_costs.h"

/* What a judge says of a schedule. */
struct judgement {
	int64_t peak; /* bytes, costs->fixed among them */
	struct counters counters;
};

/*
 * Says what a schedule takes, where the caller knows better than the cost walk. FAMILY made SCHEDULE;
 * if its kind is budget, the search's tables did. If the peak is above MOST the judge may stop there:
 * JUDGEMENT then has some peak above MOST and no counters.
 *
 * SHARE and SLACK define a goal's *reach*. Of a schedule's bytes by the cost walk, SHARE of those above
 * costs->fixed, less SLACK, are expected. The search tries for a goal the schedules whose expected bytes are
 * within the goal's. The reach limits the search. It does not bound the judge's bytes: a few schedules
 * beyond it fit too.
 */
struct budget_judge {
	enum status (*judge)(void *context, const struct policy *family, struct schedule *schedule, int64_t most,
	                     struct judgement *judgement);
	void *context;
	double share;
	int64_t slack;
};

/* A budget of BYTES, and the schedule of least time that was found for it. */
struct budget_goal {
	int64_t bytes;
	struct schedule *schedule; /* NULL where there is none; then */
	int64_t least;             /* is the least bytes for which there is one */
	struct policy family;      /* what made the schedule */
	double time;               /* by the cost walk */
	int64_t peak;              /* by the judge, where there is one, else by the cost walk */
	struct counters counters;  /* by the judge, where there is one */
};

/*
 * Finds for each of COUNT GOALS, by its bytes, the schedule of least time over COSTS that takes at most
 * so many, as JUDGE (NULL: the cost walk) says. The result for a goal does not depend on the others, and
 * one search for all takes hardly more time than for one. More bytes never give a longer time. STATUS_LIMIT
 * if out of memory; then no schedule is left.
 */
enum status budget_search(const struct context *context, const struct step_costs *costs,
                          const struct budget_judge *judge, struct budget_goal *goals, size_t count);
/* Sets *LEAST to the least bytes for which budget:BYTES is feasible, as the cost walk counts. STATUS_LIMIT. */
enum status budget_least(const struct context *context, const struct step_costs *costs, int64_t *least);
/*
 * Sets *SCHEDULE to that of least time within BYTES, as the cost walk counts. STATUS_LIMIT, with the least bytes, if
 * there is none; OPTION ("budget:", "--memory ") is what gave BYTES.
 */
enum status budget_schedule(const struct context *context, const struct step_costs *costs, int64_t bytes,
                            const char *option, struct schedule **schedule);
/* Reports that BYTES, which OPTION gave, are too few, and that LEAST are enough. Returns STATUS_LIMIT. */
enum status budget_infeasible(int64_t bytes, int64_t least, const char *option, struct diags *diags);

#endif
