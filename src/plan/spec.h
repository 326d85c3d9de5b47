/*
 * A chain that ckptc does not run. Whoever runs it has measured the costs of its steps, and gives
 * them as JSON (ckptc(1), COSTS). The cost walk counts what a policy takes.
 */
#ifndef PLAN_SPEC_H
#define PLAN_SPEC_H

#include "memory/counters.h"
#include "schedule/action.h"
#include "schedule/policy.h"
#include "schedule/step_costs.h"

struct spec {
	const char *name;   /* of the chain, or NULL */
	const char **names; /* by run of steps; NULL if the run has no name */
	struct step_costs costs;
	double milliseconds; /* time of a cost of 1; 0: costs are no times */
};

/*
 * Reads SOURCE. Fails with STATUS_DATA, at the place, if the text is not JSON, a key is unknown or missing, or a number
 * is out of range. Fails with STATUS_LIMIT beyond 10^7 steps or 2^62 bytes in all.
 */
enum status spec_read(struct spec *spec, const struct source *source, struct arena *arena, struct diags *diags);
/* Makes the schedule of POLICY, which is by cut. `auto` is a budget of its number. STATUS_LIMIT if infeasible. */
enum status spec_schedule(const struct context *context, const struct spec *spec, const struct policy *policy,
                          struct schedule **schedule);
/* Makes the schedule of POLICY, which the caller frees, and sets its counters and time by the cost walk. */
enum status spec_plan(const struct context *context, const struct spec *spec, const struct policy *policy,
                      struct counters *counters, double *time, struct schedule **schedule);
/*
 * Returns the flags of schedule_held for SPEC's SCHEDULE. A state that the residuals of the step after it hold is
 * HELD_STATE too. A state that the residuals of the step before it hold is not.
 */
unsigned char *spec_held(const struct spec *spec, struct schedule *schedule, struct arena *arena);

#endif
