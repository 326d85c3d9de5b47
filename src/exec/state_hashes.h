/*
 * Whether what is recomputed has the bits that the first sweep made: a hash of
 * every step's states, kept from the one time to the next.
 */
#ifndef EXEC_STATE_HASHES_H
#define EXEC_STATE_HASHES_H

#include "memory/hooks.h"

struct state_hashes {
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
enum status state_hashes_open(struct state_hashes *recompute, int64_t steps, const struct allocator *allocator,
                              struct diags *diags);
/* Forgets the hashes, not the counts: another tile. */
void state_hashes_begin(struct state_hashes *recompute);
/* CALL, forward or recording, has made OUTS, by port. */
void state_hashes_see(struct state_hashes *recompute, const struct machine_call *call, void *const *outs);
/* Adds FROM's counts to TO's. */
void state_hashes_add(struct state_hashes *to, const struct state_hashes *from);
void state_hashes_close(struct state_hashes *recompute, const struct allocator *allocator);

#endif
