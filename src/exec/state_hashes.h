/*
 * Checks that recomputed states have the bits of the first sweep: keeps a hash of
 * every step's states.
 */
#ifndef EXEC_STATE_HASHES_H
#define EXEC_STATE_HASHES_H

#include "memory/hooks.h"

struct state_hashes {
	struct recompute_hash {
		uint64_t hash;
		int64_t arrays; /* hashed arrays; 0: the step has not run yet */
	} * hashes;         /* by step */
	int64_t steps;
	int64_t compared;   /* repeated calls of a step */
	int64_t differing;  /* compared calls whose bits differ */
	int64_t first_step; /* step of the first differing call */
};

/* Allocates the hashes for STEPS steps. Fails with STATUS_LIMIT when out of memory. */
enum status state_hashes_open(struct state_hashes *recompute, int64_t steps, const struct allocator *allocator,
                              struct diags *diags);
/* Clears the hashes for another tile; the counts stay. */
void state_hashes_begin(struct state_hashes *recompute);
/* Records or compares the hash of OUTS, the outputs by port of the forward or recording CALL. */
void state_hashes_see(struct state_hashes *recompute, const struct machine_call *call, void *const *outs);
void state_hashes_add(struct state_hashes *to, const struct state_hashes *from);
void state_hashes_close(struct state_hashes *recompute, const struct allocator *allocator);

#endif
