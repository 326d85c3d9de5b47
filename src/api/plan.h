/* A plan as the library holds it. It does not change once it is made, so threads share it. */
#ifndef API_PLAN_H
#define API_PLAN_H

#include "api/owner.h"
#include "plan/spec.h"

struct ckptc_plan {
	struct owner owner;
	struct spec spec; /* of a plan from costs */
	struct policy policy;
	struct counters counters;
	struct schedule *schedule;
	int64_t steps; /* of the chain */
	int64_t each;  /* steps of the chain that a step of SCHEDULE stands for */
	struct ckptc_residual *residuals;
	size_t residual_count;
};

/* Fails with STATUS_USAGE if one of the COUNT RESERVED fields of options is not 0. */
enum status reserved_check(const int64_t *reserved, size_t count, struct diags *diags);
/* Reads TEXT, a policy's or NULL for "auto", to POLICY, with the limits of OPTIONS. STATUS_USAGE if one is wrong. */
enum status policy_read(const struct context *context, struct policy *policy, const char *text,
                        const struct ckptc_plan_options *options);
/* Ends the function that makes PLAN: sets *MADE to it and ERROR, or frees it if STATUS is a failure. Returns STATUS. */
int plan_finish(struct ckptc_plan **made, struct ckptc_plan *plan, enum status status, struct ckptc_error *error);
/* Sets what COUNTERS know in TO; other fields become 0. */
void counters_show(struct ckptc_counters *to, const struct counters *counters);
/* Writes the next action of SCHEDULE, which PLAN made or copied, in steps of the chain. False at the end. */
bool plan_next(const struct ckptc_plan *plan, struct schedule *schedule, struct action *action);

#endif
