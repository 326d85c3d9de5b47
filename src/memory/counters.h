#ifndef MEMORY_COUNTERS_H
#define MEMORY_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

/* What a schedule costs: predicted by a walk over it, or measured by a run. */
struct counters {
	/*
	 * evaluations: forward executions of steps, recording ones too. executions: those that compute the step's value.
	 * unread: recordings of a step while nobody reads its value. checkpoints: the most memory slots used at once.
	 */
	int64_t steps, evaluations, executions, unread, checkpoints;
	int64_t stored_bytes, peak_bytes; /* stored: held by memory slots and residuals when the first sweep ends */
	int64_t spill_writes, spill_reads;
	int64_t spill_bytes;       /* all bytes written to disk */
	int64_t spill_state;       /* bytes of the largest state written to disk */
	int64_t passes, halo_rows; /* times that the input is read; rows that a tile reads beside its own. 0: no data */
	double halo_share;         /* HALO_ROWS as a part of all rows that a tile computes on */
	double forward_cost, backward_cost; /* of save-all's forward and backward pass */
	double recomputed_cost;             /* of all other computations */
	bool bounded;                       /* the schedule is a budget's, in memory: gap_percent is known */
	/* By how much its forward executions may cost more than the least by schedules of steps, and by the policies by value */
	/* that a budget has left out. */
	double gap_percent;
};

/*
 * Returns the overhead in percent of a forward and a backward pass. It is the cost of recomputed steps, and of the rows
 * that a tile computes beside its own. 0 if the passes take no time.
 */
static inline double counters_overhead(const struct counters *counters)
{
	const double all = counters->forward_cost + counters->backward_cost;
	const double once = all * (1 - counters->halo_share);
	return once > 0 ? 100 * (counters->recomputed_cost + all - once) / once : 0;
}

#endif
