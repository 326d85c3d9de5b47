/*
 * A chain that ckptc does not run: the costs of its steps, measured by whoever
 * runs it, as JSON (ckptc(1), COSTS). Everything else in plan/ works on it as on
 * a chain of its own.
 */
#ifndef PLAN_SPEC_H
#define PLAN_SPEC_H

#include "memory/counters.h"
#include "schedule/action.h"
#include "schedule/policy.h"
#include "schedule/step_costs.h"

struct spec {
	const char *name;   /* of the chain, or NULL */
	const char **names; /* of each run of steps; NULL where it has none */
	struct step_costs costs;
	double milliseconds; /* of a unit of its costs; 0: they are no times */
};

/*
 * Reads SOURCE. STATUS_DATA with the place for what is no JSON, an unknown or
 * missing key, a number out of range; STATUS_LIMIT beyond 10^7 steps or 2^62
 * bytes in all.
 */
enum status spec_read(struct spec *spec, const struct source *source, struct arena *arena, struct diags *diags);
/* Makes the schedule of POLICY, by cut; `auto` is a budget of its number. STATUS_LIMIT if it is infeasible. */
enum status spec_schedule(const struct context *context, const struct spec *spec, const struct policy *policy,
                          struct schedule **schedule);
/* Makes the schedule of POLICY, which the caller frees, and counts what it takes: see cost_walk. */
enum status spec_plan(const struct context *context, const struct spec *spec, const struct policy *policy,
                      struct counters *counters, double *time, struct schedule **schedule);
/* What SCHEDULE holds, by position, when the first sweep ends: a sum of these, for steps + 1 positions. */
enum { SPEC_RESIDUAL = 1, SPEC_STATE = 2 };
unsigned char *spec_held(const struct spec *spec, struct schedule *schedule, const struct allocator *allocator);

#endif
