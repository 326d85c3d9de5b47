/*
 * The costs of a chain that another program runs and measures, read from JSON (ckptc(1),
 * COSTS).
 */
#ifndef PLAN_SPEC_H
#define PLAN_SPEC_H

#include "memory/counters.h"
#include "schedule/action.h"
#include "schedule/policy.h"
#include "schedule/step_costs.h"

struct spec {
	const char *name;   /* of the chain, or NULL */
	const char **names; /* by run of equal steps; NULL: no name */
	struct step_costs costs;
	double milliseconds; /* per unit of its costs; 0: costs are not times */
};

/*
 * Reads SOURCE. Fails with STATUS_DATA for malformed JSON, an unknown or missing key, or a
 * number out of range. Fails with STATUS_LIMIT beyond 10^7 steps or 2^62 bytes in all.
 */
enum status spec_read(struct spec *spec, const struct source *source, struct arena *arena, struct diags *diags);
/* Makes the schedule of POLICY, by cut; `auto` is a budget of its number. STATUS_LIMIT if it is infeasible. */
enum status spec_schedule(const struct context *context, const struct spec *spec, const struct policy *policy,
                          struct schedule **schedule);
/* Makes the schedule of POLICY, which the caller frees, and its counters and time (cost_walk). */
enum status spec_plan(const struct context *context, const struct spec *spec, const struct policy *policy,
                      struct counters *counters, double *time, struct schedule **schedule);
/* spec_held returns flags for steps + 1 positions: what SCHEDULE holds there when the first sweep ends. */
enum { SPEC_RESIDUAL = 1, SPEC_STATE = 2 };
unsigned char *spec_held(const struct spec *spec, struct schedule *schedule, const struct allocator *allocator);

#endif
