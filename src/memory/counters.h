#ifndef MEMORY_COUNTERS_H
#define MEMORY_COUNTERS_H

#include <stdint.h>

/* What a schedule takes: predicted by a walk over it, or measured by a run. */
struct counters {
	int64_t steps, evaluations, checkpoints;
	int64_t stored_bytes, peak_bytes;
	int64_t spill_writes, spill_reads;
	int64_t spill_bytes;                /* written to disk in all */
	int64_t spill_state;                /* of the largest state that is */
	double forward_cost, backward_cost; /* of one forward and backward pass */
	double recomputed_cost;
};

#endif
