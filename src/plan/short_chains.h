/*
 * Figures of a long chain of equal steps, from three short chains of the same step. This is no memo of a step (see
 * memory/memo.c): it knows only how figures grow with the number of steps, which may be too many to look up each.
 *
 * The policy must be save-all, every, sqrt or revolve, without --max-checkpoints. Then the bytes held grow in proportion
 * to the number of whole segments, or stay as they are once all snapshots are in use. So three short chains with the same
 * last segment give the figures of the long one, if their values lie on one line.
 */
#ifndef PLAN_SHORT_CHAINS_H
#define PLAN_SHORT_CHAINS_H

#include "memory/machine.h"
#include "schedule/policy.h"

enum { LONG_CHAIN = 20000 /* steps: shorter chains are walked */ };

struct long_chain {
	const struct policy *policy;
	const struct step_costs *costs;
	const struct compiled_chain *compiled; /* the memory machine walks it; NULL: the cost walk takes its costs */
	const struct machine_options *options; /* of the machine */
};

/*
 * Sets COUNTERS to the figures of CHAIN if its short chains give them, which sets *KNOWN. They do not where CHAIN is not one
 * loop over one step, or where a derivative recomputes. STATUS_LIMIT if out of memory.
 */
enum status short_chains_predict(const struct context *context, const struct long_chain *chain,
                                 struct counters *counters, bool *known);

#endif
