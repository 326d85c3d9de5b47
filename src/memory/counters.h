#ifndef MEMORY_COUNTERS_H
#define MEMORY_COUNTERS_H

#include <stdint.h>

/* What a schedule costs: predicted by a walk over it, or measured by a run. */
struct counters {
	int64_t steps, evaluations, checkpoints; /* checkpoints: the most memory slots in use at once */
	int64_t stored_bytes, peak_bytes;        /* stored: held by slots and residuals when the first sweep ends */
	int64_t spill_writes, spill_reads;
	int64_t spill_bytes;                /* all bytes written to disk */
	int64_t spill_state;                /* bytes of the largest state written to disk */
	double forward_cost, backward_cost; /* of one forward and backward pass */
	double recomputed_cost;
};

#endif
