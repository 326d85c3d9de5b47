/* Tests: tests/cases/limits.test, tests/cases/spec.test, tests/scripts/check-random */
#include "plan/short_chains.h"

#include <math.h>

#include "memory/cost_walk.h"

enum { CHAINS = 3 };

/* The short chains: the shortest has FIRST steps, each other has STRIDE more than the one before. */
struct short_chains {
	struct policy policy;
	int64_t first, stride;
};

/* Sets S to the chains that give the figures of POLICY on STEPS steps. Returns false if none do. */
static bool choose_chains(const struct policy *given, int64_t steps, struct short_chains *s)
{
	const struct policy policy = policy_on_steps(given, steps);
	*s = (struct short_chains){.policy = policy};
	if (steps < LONG_CHAIN)
		return false;
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
	int64_t last = s->first + (CHAINS - 1) * s->stride;
	return policy.max_checkpoints == 0 && last < steps / 2 &&
	       (policy.kind == POLICY_revolve || (steps - s->first) % (s->stride / 2 > 0 ? s->stride / 2 : 1) == 0);
}

/* Extends the figure at OFFSET of C, counters of S, to STEPS steps. False if they are not on a line that has a whole number there. */
static bool extend_figure(const struct counters c[CHAINS], size_t offset, const struct short_chains *s, int64_t steps,
                          struct counters *to)
{
	int64_t y[CHAINS];
	for (int i = 0; i < CHAINS; i++)
		y[i] = *(const int64_t *)(const void *)((const char *)&c[i] + offset);
	const __int128 all = (__int128)(y[1] - y[0]) * (steps - s->first);
	*(int64_t *)(void *)((char *)to + offset) = (int64_t)(y[0] + all / s->stride);
	return y[2] - y[1] == y[1] - y[0] && all % s->stride == 0;
}

static enum status walk_short(const struct context *context, const struct long_chain *chain,
                              const struct policy *policy, int64_t steps, struct counters *counters)
{
	struct step_run run = chain->costs->runs[0];
	struct step_costs costs = *chain->costs;
	run.count = costs.steps = steps;
	costs.head = costs.head ? steps : 0; /* all steps are equal */
	costs.runs = &run;
	struct schedule *schedule = policy_schedule(policy, &costs, context->allocator);
	enum status status = schedule ? STATUS_OK : diag_memory(context->diags);
	if (!status && chain->compiled) {
		struct compiled_chain compiled = *chain->compiled;
		struct lowered lowered = *compiled.lowered;
		struct item loop = lowered.items[0];
		loop.iterations = loop.steps = lowered.steps = steps;
		lowered.items = &loop;
		compiled.lowered = &lowered;
		status = machine_run(context, &compiled, schedule, chain->options, counters);
	} else if (!status) {
		double time;
		status = cost_walk(context, schedule, &costs, NULL, counters, &time);
	}
	schedule_free(schedule);
	return status;
}

/* Returns the linearised step of COMPILED if that is one loop over one step, and no derivative recomputes; else NULL. */
static const struct linear *looped_step(const struct compiled_chain *compiled)
{
	const struct item *loop = compiled->lowered->items;
	const bool one = compiled->lowered->item_count == 1 && !loop->step && loop->count == 1 && loop->items[0].step;
	const struct linear *linear = one ? &compiled_step_of(compiled, loop->items[0].step)->linear : NULL;
	return linear && !linear->recomputed ? linear : NULL;
}

enum status short_chains_predict(const struct context *context, const struct long_chain *chain,
                                 struct counters *counters, bool *known)
{
	static const size_t extended[] = {offsetof(struct counters, peak_bytes), offsetof(struct counters, stored_bytes),
	                                  offsetof(struct counters, checkpoints), offsetof(struct counters, unread)};
	const int64_t steps = chain->costs->steps;
	struct short_chains s;
	struct counters c[CHAINS];
	*known = chain->costs->run_count == 1 && choose_chains(chain->policy, steps, &s);
	const struct linear *linear = *known && chain->compiled ? looped_step(chain->compiled) : NULL;
	*known &= linear || !chain->compiled;
	if (!*known)
		return STATUS_OK;
	for (int i = 0; i < CHAINS; i++)
		TRY(walk_short(context, chain, &s.policy, s.first + i * s.stride, &c[i]));
	*counters = (struct counters){.steps = steps};
	for (size_t i = 0; i < sizeof extended / sizeof *extended; i++)
		*known &= extend_figure(c, extended[i], &s, steps, counters);
	const struct step_cost *cost = &chain->costs->runs[0].cost;
	const bool once = policy_is(chain->policy, TRAIT_HEAD) && chain->costs->head;
	const int64_t evaluations = once ? steps : policy_evaluations(chain->policy, steps), unread = counters->unread;
	const bool skipped = linear && linear->skipped, record_skipped = linear ? linear->record_skip : !cost->keeps_output;
	const int64_t last =
		!linear || !chain->options->want_value; /* nobody reads the state after the chain's last step */
	const double all = (double)(evaluations - unread) * cost->forward + (double)unread * cost->record;
	*known &= evaluations >= 0;
	counters->evaluations = evaluations;
	counters->executions = (evaluations - unread) * !skipped + unread * !record_skipped;
	counters->forward_cost = (double)steps * cost->forward + (double)last * (cost->record - cost->forward);
	counters->backward_cost = (double)steps * cost->backward;
	counters->recomputed_cost = fmax(all - counters->forward_cost, 0);
	return STATUS_OK;
}
