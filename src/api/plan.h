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
};

/* Reads TEXT, a policy's or NULL for "auto", to the policy of PLAN, with the limits of OPTIONS. */
enum status plan_read_policy(struct ckptc_plan *plan, const char *text, const struct ckptc_plan_options *options);
/* Writes the next action of SCHEDULE, which PLAN made or copied, in steps of the chain. False at the end. */
bool plan_next(const struct ckptc_plan *plan, struct schedule *schedule, struct action *action);

#endif
