/*
 * What a schedule counts on one tile: the machine runs it, without data.
 *
 * A chain of LONG_CHAIN steps or more is an exception if it is one loop over one step. The policy must be save-all,
 * every, sqrt or revolve, without --max-checkpoints. Then the bytes held grow in proportion to the number of whole
 * segments, or stay as they are once all snapshots are in use. So three short chains of the same step, with the same
 * last segment, say what the long one holds. The machine runs the whole chain if their values do not lie on one line,
 * if the lengths do not suit, or if a derivative recomputes.
 */
#include "plan/job_parts.h"

#include <math.h>

enum { LONG_CHAIN = 20000, SHORT_CHAINS = 3 };

struct shortening {
	struct policy policy;  /* of the short chains */
	int64_t first, stride; /* steps of the shortest chain; each other has STRIDE more than the one before */
};

static bool shorten(const struct job *job, int64_t steps, struct shortening *s)
{
	const struct policy policy = policy_on_steps(&job->scheduled, steps);
	*s = (struct shortening){.policy = policy};
	int64_t period = policy.number, length = policy.length > 1 ? policy.length : 1;
	switch (policy.kind) {
	case POLICY_save_all:
		s->first = s->stride = 64;
		break;
	case POLICY_sqrt:
		period = (int64_t)ceil(sqrt((double)steps));
		s->policy = (struct policy){.kind = POLICY_every, .number = period};
		/* fall through */
	case POLICY_every:
		s->stride = 2 * period;
		s->first = s->stride + steps % period;
		break;
	case POLICY_revolve:
		s->stride = (4 * period + 8) * length;
		s->first = s->stride + steps % length;
		break;
	default:
		return false;
	}
	int64_t last = s->first + (SHORT_CHAINS - 1) * s->stride;
	return policy.max_checkpoints == 0 && last < steps / 2 &&
	       (policy.kind == POLICY_revolve || (steps - s->first) % (s->stride / 2 > 0 ? s->stride / 2 : 1) == 0);
}

/* Runs SCHEDULE without data on COMPILED, the steps of a tile of JOB. May stop above MOST bytes; 0: no bound. */
static enum status predict(const struct job *job, const struct compiled_chain *compiled, struct schedule *schedule,
                           int64_t most, struct counters *counters)
{
	const struct machine_options options = {
		.most = most, .want_value = job->options.want_value, .store = job->options.store};
	return machine_run(&job->context, compiled, schedule, &options, counters);
}

static enum status predict_short(const struct job *job, const struct tile_plan *tile, const struct policy *policy,
                                 int64_t steps, struct counters *counters)
{
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
	enum status status = predict(job, &compiled, schedule, 0, counters);
	schedule_free(schedule);
	return status;
}

/* Extrapolates Y to STEPS. False if the three values are not on a line or their rise is odd. */
static bool extend(const int64_t y[SHORT_CHAINS], const struct shortening *s, int64_t steps, int64_t *value)
{
	int64_t rise = y[1] - y[0], half = s->stride / 2 > 0 ? s->stride / 2 : 1;
	if (y[2] - y[1] != rise || (rise && rise % (s->stride / half)))
		return false;
	*value = y[0] + (rise ? rise / (s->stride / half) * ((steps - s->first) / half) : 0);
	return true;
}

static enum status predict_long(const struct job *job, const struct tile_plan *tile, struct counters *counters,
                                bool *known)
{
	const struct lowered *lowered = &tile->lowered;
	struct shortening s;
	struct counters c[SHORT_CHAINS];
	*known = false;
	if (policy_by_value(&job->scheduled) || lowered->steps < LONG_CHAIN || lowered->item_count != 1 ||
	    lowered->items[0].step || lowered->items[0].count != 1 || !lowered->items[0].items[0].step ||
	    job->costs.run_count != 1 || !shorten(job, lowered->steps, &s))
		return STATUS_OK;
	const bool once = policy_is(&job->scheduled, TRAIT_HEAD) && job->costs.head;
	int64_t steps = lowered->steps, evaluations = once ? steps : policy_evaluations(&job->scheduled, steps);
	for (int i = 0; i < SHORT_CHAINS; i++)
		TRY(predict_short(job, tile, &s.policy, s.first + i * s.stride, &c[i]));
	int64_t peak[] = {c[0].peak_bytes, c[1].peak_bytes, c[2].peak_bytes};
	int64_t stored[] = {c[0].stored_bytes, c[1].stored_bytes, c[2].stored_bytes};
	int64_t held[] = {c[0].checkpoints, c[1].checkpoints, c[2].checkpoints};
	int64_t unread[] = {c[0].unread, c[1].unread, c[2].unread};
	const struct step *step = lowered->items[0].items[0].step;
	const struct linear *linear = &compiled_step_of(&tile->compiled, step)->linear;
	const struct step_times *times = &tile->compiled.times[step->id];
	*counters = (struct counters){.steps = steps};
	*known = evaluations >= 0 && linear->recomputed == 0 && extend(peak, &s, steps, &counters->peak_bytes) &&
	         extend(stored, &s, steps, &counters->stored_bytes) && extend(held, &s, steps, &counters->checkpoints) &&
	         extend(unread, &s, steps, &counters->unread);
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

enum status job_predict_tile(struct job *job, struct tile_plan *tile, int64_t most, struct counters *counters)
{
	bool known;
	TRY(predict_long(job, tile, counters, &known));
	const enum status status = known ? STATUS_OK : predict(job, &tile->compiled, job->schedule, most, counters);
	tile->slab = counters->peak_bytes;
	return status;
}
