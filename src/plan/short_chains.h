/*
 * Figures of a long chain of equal steps, from short chains of the same step. The policy must be save-all, every, sqrt
 * or revolve, without --max-checkpoints. Then the bytes held grow in proportion to the number of whole segments, or
 * stay as they are once all snapshots are in use. So three short chains with the same last segment say what the long
 * one holds, if their values lie on one line.
 */
#ifndef PLAN_SHORT_CHAINS_H
#define PLAN_SHORT_CHAINS_H

#include "schedule/policy.h"

enum { LONG_CHAIN = 20000 /* steps: shorter chains are walked */, SHORT_CHAINS = 3 };

struct short_chains {
	struct policy policy;  /* of the short chains */
	int64_t first, stride; /* steps of the shortest chain; each other has STRIDE more than the one before */
};

/* Sets *S to the chains that say what POLICY does on STEPS steps. Returns false if none do. */
bool short_chains_of(const struct policy *policy, int64_t steps, struct short_chains *s);
/* Extrapolates Y, values of the chains S, to STEPS. False if they are not on a line that has a whole number there. */
bool short_chains_extend(const int64_t y[SHORT_CHAINS], const struct short_chains *s, int64_t steps, int64_t *value);

#endif
