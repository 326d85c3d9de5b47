/*
 * The costs of a chain's steps, given as JSON (ckptc(1), COSTS). With --spec they stand for a chain that ckptc does not
 * run, and the cost walk counts what a policy takes.
 */
#ifndef PLAN_SPEC_H
#define PLAN_SPEC_H

#include "base/text.h"
#include "budget/budget.h"
#include "memory/counters.h"
#include "schedule/action.h"
#include "schedule/policy.h"
#include "schedule/step_costs.h"

struct spec {
	const char *name;   /* of the chain, or NULL */
	const char **names; /* by run of steps; NULL if the run has no name */
	struct step_costs costs;
	const bool *records; /* by run of steps: its "record" was given; else that is `forward` */
	const char *unit;    /* its "time_unit" */
	double milliseconds; /* time of a cost of 1; 0: costs are no times */
	/* Set by the caller: */
	bool on_disk;       /* budgets may keep states on disk */
	int64_t disk_bytes; /* the most bytes of states on disk at once; 0: any */
};

/*
 * Reads SOURCE to SPEC, whose parts are in ARENA. Fails with STATUS_DATA, at the place, if the text is not JSON, a key
 * is unknown or missing, or a value is of the wrong kind or out of range. Fails with STATUS_LIMIT beyond 10^7 steps or
 * 2^62 bytes, where the states and residuals of all steps count twice.
 */
enum status spec_read(struct spec *spec, const struct source *source, struct arena *arena, struct diags *diags);
/* Writes COSTS, whose runs are in order, as spec_read reads them. UNIT is their "time_unit". */
void spec_write(const struct text *text, const struct step_costs *costs, const char *unit);
/*
 * Sets SPEC to COSTS, whose `steps` it counts, with a copy of the runs in ARENA. An output or a spill cost below 0 is
 * what spec_read assumes if it is not given. Fails as spec_read does, and names the run by its index.
 */
enum status spec_make(struct spec *spec, const struct step_costs *costs, struct arena *arena, struct diags *diags);
/*
 * Makes POLICY one that plans SPEC: `auto` gets a budget of MEMORY bytes, or becomes save-all if that is 0. Fails with
 * STATUS_USAGE, and a hint, for a policy by value, as a spec has no values.
 */
enum status spec_policy(const struct context *context, const struct spec *spec, int64_t memory, struct policy *policy);
/* Makes the schedule, for schedule_free, of POLICY, which is by cut. `auto` is a budget. STATUS_LIMIT if infeasible. */
enum status spec_schedule(const struct context *context, const struct spec *spec, const struct policy *policy,
                          struct schedule **schedule);
/* As budget_search over the costs of SPEC, with disk-revolve if its states may go to disk. */
enum status spec_budgets(const struct context *context, const struct spec *spec, struct budget_goal *goals,
                         size_t count);
/* Sets *LEAST to the least bytes that a budget of SPEC works with. */
enum status spec_least(const struct context *context, const struct spec *spec, int64_t *least);
/* Sets gap_percent of COUNTERS, those of GOAL's schedule by the cost walk. STATUS_LIMIT if out of memory. */
enum status spec_bound(const struct context *context, const struct spec *spec, const struct budget_goal *goal,
                       struct counters *counters);
/* As spec_schedule, and sets the counters and the time by the cost walk. After a failure *SCHEDULE is NULL. */
enum status spec_plan(const struct context *context, const struct spec *spec, const struct policy *policy,
                      struct counters *counters, double *time, struct schedule **schedule);
/*
 * Returns the flags of schedule_held for SPEC's SCHEDULE, with two changes. HELD_STATE is set for a state that the
 * residuals of the step after it hold. It is cleared for a state before the last that the residuals of the step before
 * it hold. NULL if out of memory.
 */
unsigned char *spec_held(const struct spec *spec, struct schedule *schedule, struct arena *arena);

#endif
