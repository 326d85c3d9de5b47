/*
 * What a schedule counts on one tile: the machine runs it, without data.
 *
 * A chain of LONG_CHAIN steps or more is an exception if it is one loop over one step: short chains of the same step say
 * what it holds (plan/short_chains.h). The machine runs the whole chain if they do not, or if a derivative recomputes.
 * Tests: tests/cases/limits.test, tests/scripts/check-random
 */
#include "plan/job_parts.h"
#include "plan/short_chains.h"

static enum status predict_short(const struct job *job, const struct machine_options *options,
                                 const struct policy *policy, int64_t steps, struct counters *counters)
{
	const struct tile_plan *tile = &job->tile;
	struct item item = tile->lowered.items[0];
	struct lowered lowered = tile->lowered;
	struct compiled_chain compiled = tile->compiled;
	struct step_run run = job->costs.runs[0];
	struct step_costs costs = job->costs;
	item.iterations = item.steps = steps;
	lowered.items = &item;
	lowered.steps = costs.steps = run.count = steps;
	costs.head = costs.head ? steps : 0; /* all steps are equal */
	costs.runs = &run;
	compiled.lowered = &lowered;
	struct schedule *schedule = policy_schedule(policy, &costs, job->context.allocator);
	TRY_ALLOC(schedule, job->context.diags);
	enum status status = machine_run(&job->context, &compiled, schedule, options, counters);
	schedule_free(schedule);
	return status;
}

static enum status predict_long(const struct job *job, const struct machine_options *options, struct counters *counters,
                                bool *known)
{
	const struct tile_plan *tile = &job->tile;
	const struct lowered *lowered = &tile->lowered;
	struct short_chains s;
	struct counters c[SHORT_CHAINS];
	*known = false;
	if (policy_by_value(&job->scheduled) || lowered->item_count != 1 || lowered->items[0].step ||
	    lowered->items[0].count != 1 || !lowered->items[0].items[0].step || job->costs.run_count != 1 ||
	    !short_chains_of(&job->scheduled, lowered->steps, &s))
		return STATUS_OK;
	const bool once = policy_is(&job->scheduled, TRAIT_HEAD) && job->costs.head;
	int64_t steps = lowered->steps, evaluations = once ? steps : policy_evaluations(&job->scheduled, steps);
	for (int i = 0; i < SHORT_CHAINS; i++)
		TRY(predict_short(job, options, &s.policy, s.first + i * s.stride, &c[i]));
	int64_t peak[] = {c[0].peak_bytes, c[1].peak_bytes, c[2].peak_bytes};
	int64_t stored[] = {c[0].stored_bytes, c[1].stored_bytes, c[2].stored_bytes};
	int64_t held[] = {c[0].checkpoints, c[1].checkpoints, c[2].checkpoints};
	int64_t unread[] = {c[0].unread, c[1].unread, c[2].unread};
	const struct step *step = lowered->items[0].items[0].step;
	const struct linear *linear = &compiled_step_of(&tile->compiled, step)->linear;
	const struct step_times *times = &tile->compiled.times[step->id];
	*counters = (struct counters){.steps = steps};
	*known = evaluations >= 0 && linear->recomputed == 0 &&
	         short_chains_extend(peak, &s, steps, &counters->peak_bytes) &&
	         short_chains_extend(stored, &s, steps, &counters->stored_bytes) &&
	         short_chains_extend(held, &s, steps, &counters->checkpoints) &&
	         short_chains_extend(unread, &s, steps, &counters->unread);
	const int64_t first = !job->options.want_value; /* of `unread`: the chain's last step */
	const int64_t again = counters->unread - first;
	counters->evaluations = evaluations;
	counters->executions =
		(evaluations - counters->unread) * !linear->skipped + counters->unread * !linear->record_skip;
	counters->forward_cost = (double)(steps - first) * times->forward + (double)first * times->record;
	counters->backward_cost = (double)steps * times->backward;
	counters->recomputed_cost = (double)(evaluations - steps - again) * times->forward + (double)again * times->record;
	return STATUS_OK;
}

enum status job_predict_tile(struct job *job, int64_t rows, int64_t most, struct counters *counters)
{
	struct machine_options options = {.rows = rows, .want_value = job->options.want_value, .store = job->options.store};
	bool known;
	TRY(predict_long(job, &options, counters, &known));
	options.most = most;
	if (!known)
		TRY(machine_run(&job->context, &job->tile.compiled, job->schedule, &options, counters));
	*(rows ? &job->tile.rest_slab : &job->tile.slab) = counters->peak_bytes;
	return STATUS_OK;
}
