/*
 * The default policy of a chain with a `repeat while` under a number of bytes: online:S with the most snapshots whose
 * peak fits in them. The number of steps is not known, so S must not depend on it. Once all snapshots are taken, further
 * iterations add no bytes. So S is judged on twice as many iterations as snapshots, or on the max if that is less.
 * Tests: tests/cases/while.test
 */
#include "base/checked.h"
#include "budget/budget.h"
#include "plan/job_parts.h"

enum { MOST_SNAPSHOTS = 1 << 16 }; /* with these, two sweeps cover 2 * 10^9 steps */
enum { MORE_ITERATIONS = 64 };

/* Sets *PEAK to the bytes of JOB under online:SNAPSHOTS. ENDS: no chain takes more, for it keeps every state. */
static enum status judge_snapshots(const struct job *job, int64_t snapshots, int64_t *peak, bool *ends)
{
	struct job trial = {.schedule = NULL};
	struct job_options options = job->options;
	struct arena arena;
	arena_init(&arena, job->context.allocator);
	const struct context context = {job->context.allocator, &arena, job->context.diags};
	const struct policy policy = {.kind = POLICY_online, .text = "online", .number = snapshots};
	options.policy = &policy;
	options.costs = NULL; /* the bytes do not depend on them */
	options.unexecuted = true;
	options.unpredicted = false;
	options.portion.counted = NULL;
	options.portion.counted_loops = 0;
	options.portion.watched = false;
	options.portion.most = 2 * snapshots + MORE_ITERATIONS;
	const enum status status = job_make(&context, &trial, job->chain, &job->input, &options);
	*peak = trial.predicted.peak_bytes;
	*ends = trial.predicted.checkpoints < snapshots;
	job_free(&trial);
	arena_free(&arena);
	return status;
}

enum status job_choose_online(struct job *job, struct policy *policy)
{
	const int64_t bytes = job->options.memory, limit = job->options.policy->max_checkpoints;
	int64_t most = 1, peak;
	bool ends = false;
	TRY(judge_snapshots(job, 1, &peak, &ends));
	job->least_bytes = peak > bytes ? peak : 0;
	if (peak > bytes)
		return budget_infeasible(bytes, peak, true, job->context.diags);
	int64_t beyond = 2;
	for (; !ends && beyond <= MOST_SNAPSHOTS; beyond *= 2) {
		TRY(judge_snapshots(job, beyond, &peak, &ends));
		if (peak > bytes) {
			ends = false;
			break;
		}
		most = beyond;
	}
	while (beyond - most > 1 && !ends) { /* MOST fits; BEYOND does not, or is above MOST_SNAPSHOTS */
		const int64_t middle = most + (beyond - most) / 2;
		bool ignored;
		TRY(judge_snapshots(job, middle, &peak, &ignored));
		*(peak > bytes ? &beyond : &most) = middle;
	}
	most = limit ? lesser(most, limit) : most;
	TRY_ALLOC(policy_make(policy, POLICY_online, most, job->context.arena), job->context.diags);
	return STATUS_OK;
}
