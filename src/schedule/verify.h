/*
 * The cost walk: what a schedule takes over a chain of which only the costs are known.
 */
#ifndef SCHEDULE_VERIFY_H
#define SCHEDULE_VERIFY_H

#include "base/diag.h"
#include "schedule/action.h"
#include "schedule/step_costs.h"

/*
 * The abstract verifier: interprets a schedule over COSTS, checks every
 * precondition, that the first sweep comes first, that each step is reversed
 * exactly once, that no slot leaks, and counts.
 *
 * Bytes at any time: fixed; each state that is current, in a slot or kept as an
 * input by a recorded step, once however many hold it, unless it is counted in
 * the residuals of the step before it; the residuals held; the cotangent at its
 * position, from the first BACKWARD on. While a step runs forward the states on
 * both sides of it are there, while it is reversed the cotangents on both
 * sides, and its workspace.
 */
struct verdict {
	bool valid;
	int64_t actions;      /* interpreted before the end or the first wrong one */
	const char *wrong;    /* what is wrong with the action at that index */
	struct action action; /* that action */
	int64_t evaluations;  /* forward executions of a step, recording ones included */
	int64_t checkpoints;  /* states in slots at once at most */
	int64_t spill_writes, spill_reads;
	double time;  /* sum of forward and backward costs executed, and of writes and reads on disk */
	int64_t peak; /* bytes, by the model above */
};
/* STATUS_LIMIT where memory for its tables is short. */
enum status schedule_verify(struct schedule *schedule, const struct step_costs *costs,
                            const struct allocator *allocator, struct verdict *verdict, struct diags *diags);

/*
 * The same, and WATCH sees what is done as it is done. PART, unless NULL: an action,
 * or one of at most 64 parts of an action that goes over many steps; from FROM to TO
 * by the time of the verdict, LIVE the most bytes in use meanwhile; AGAIN where a
 * FORWARD or RECORD is not of the first sweep. False from it ends the walk as
 * where memory is short. WANTED, unless NULL: the verdict so far, after each action;
 * false from it ends the walk with a verdict that is not valid.
 */
struct schedule_watch {
	bool (*part)(void *context, const struct action *part, double from, double to, int64_t live, bool again);
	void *context;
	bool (*wanted)(void *context, const struct verdict *verdict);
};
enum status schedule_follow(struct schedule *schedule, const struct step_costs *costs,
                            const struct allocator *allocator, const struct schedule_watch *watch,
                            struct verdict *verdict, struct diags *diags);

#endif
