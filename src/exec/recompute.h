/*
 * Whether what is recomputed has the bits that the first sweep made: a hash of
 * every step's states, kept from the one time to the next.
 */
#ifndef EXEC_RECOMPUTE_H
#define EXEC_RECOMPUTE_H

#include "plan/machine.h"

struct recompute {
	struct recompute_hash {
		uint64_t hash;
		int64_t arrays; /* that are hashed; 0: the step has not run yet */
	} * hashes;         /* by step */
	int64_t steps;
	int64_t compared;   /* runs of a step that were not its first */
	int64_t differing;  /* of them, those that made other bits */
	int64_t first_step; /* of those, the first's step */
};

/* For STEPS steps. STATUS_LIMIT. */
enum status recompute_open(struct recompute *recompute, int64_t steps, const struct allocator *allocator,
                           struct diags *diags);
/* Forgets the hashes, not the counts: another tile. */
void recompute_begin(struct recompute *recompute);
/* CALL, forward or recording, has made OUTS, by port. */
void recompute_see(struct recompute *recompute, const struct machine_call *call, void *const *outs);
/* Adds FROM's counts to TO's. */
void recompute_add(struct recompute *to, const struct recompute *from);
void recompute_close(struct recompute *recompute, const struct allocator *allocator);

#endif
