/*
 * The memory model of schedule/verify.h, the plain way: an array of holders for
 * every state, everything added up anew at each step. It knows nothing of how
 * the verifier works, and checks it and the planner.
 */
#ifndef TESTS_SCHEDULE_MODEL_H
#define TESTS_SCHEDULE_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "base/arena.h"
#include "budget/budget.h"
#include "schedule/action_list.h"
#include "schedule/policy.h"
#include "schedule/verify.h"

struct outcome {
	int64_t peak, evaluations, most_repeated;
	double time;
};

struct model {
	const struct step_costs *costs;
	int *held, *recorded;
	int64_t *slots, *runs; /* state in each slot; executions of each step */
	int64_t current, cotangent;
	struct outcome outcome;
};

static inline const struct step_cost *model_cost(const struct step_costs *costs, int64_t step)
{
	const struct step_run *run = costs->runs;
	while (step >= run->count)
		step -= run++->count;
	return &run->cost;
}

static inline int64_t model_state(const struct step_costs *costs, int64_t position)
{
	return position == costs->steps ? costs->output : model_cost(costs, position)->state;
}

static inline void model_see(struct model *m, int64_t extra)
{
	int64_t n = m->costs->steps, bytes = m->costs->fixed + extra;
	for (int64_t p = 0; p <= n; p++) {
		bool counted = p > 0 && m->recorded[p - 1] && model_cost(m->costs, p - 1)->keeps_output;
		bool kept = m->held[p] || (p < n && m->recorded[p] && model_cost(m->costs, p)->keeps_input);
		if (kept && !counted)
			bytes += model_state(m->costs, p);
		if (p < n && m->recorded[p])
			bytes += model_cost(m->costs, p)->residual;
	}
	if (m->cotangent >= 0)
		bytes += model_state(m->costs, m->cotangent);
	if (bytes > m->outcome.peak)
		m->outcome.peak = bytes;
}

static inline void model_current(struct model *m, int64_t position)
{
	if (position >= 0)
		m->held[position]++;
	if (m->current >= 0)
		m->held[m->current]--;
	m->current = position;
}

static inline void model_run(struct model *m, int64_t step, bool record)
{
	const struct step_cost *cost = model_cost(m->costs, step);
	m->held[step + 1]++;
	m->recorded[step] |= record;
	model_see(m, record ? cost->record_temporary : cost->forward_temporary);
	m->held[step + 1]--;
	model_current(m, step + 1);
	m->outcome.evaluations++;
	m->outcome.time += cost->forward;
	if (++m->runs[step] > m->outcome.most_repeated)
		m->outcome.most_repeated = m->runs[step];
}

static inline void model_turn(struct model *m, int64_t step)
{
	const struct step_cost *cost = model_cost(m->costs, step);
	ck_assert(m->recorded[step]);
	m->cotangent = step + 1;
	model_see(m, cost->state + cost->backward_temporary);
	m->recorded[step] = 0;
	m->cotangent = step;
	m->outcome.time += cost->backward;
}

/* What SCHEDULE, without disk actions, takes. */
static inline struct outcome model_schedule(struct schedule *schedule, const struct step_costs *costs)
{
	size_t n = (size_t)costs->steps + 2, slots = (size_t)schedule_slots(schedule) + 1;
	struct model m = {.costs = costs,
	                  .held = calloc(n, sizeof(int)),
	                  .recorded = calloc(n, sizeof(int)),
	                  .slots = calloc(slots, sizeof(int64_t)),
	                  .runs = calloc(n, sizeof(int64_t)),
	                  .current = -1,
	                  .cotangent = -1};
	struct action a;
	model_current(&m, 0);
	model_see(&m, 0);
	schedule_rewind(schedule);
	while (schedule_next(schedule, &a)) {
		switch (a.kind) {
		case ACT_FORWARD:
		case ACT_RECORD:
			ck_assert_int_eq(m.current, a.begin);
			for (int64_t step = a.begin; step < a.end; step++)
				model_run(&m, step, a.kind == ACT_RECORD);
			break;
		case ACT_SAVE:
			ck_assert_int_eq(m.current, a.begin);
			m.slots[a.slot] = a.begin;
			m.held[a.begin]++;
			break;
		case ACT_LOAD:
			ck_assert_int_eq(m.slots[a.slot], a.begin);
			model_current(&m, a.begin);
			break;
		case ACT_DROP:
			m.held[m.slots[a.slot]]--;
			break;
		case ACT_BACKWARD:
			model_current(&m, -1);
			for (int64_t step = a.end; step-- > a.begin;)
				model_turn(&m, step);
			break;
		default:
			ck_abort_msg("a disk action");
		}
	}
	schedule_rewind(schedule);
	free(m.held);
	free(m.recorded);
	free(m.slots);
	free(m.runs);
	return m.outcome;
}

/* A small generator of our own, so that every machine draws the same. */
static inline int64_t draw(uint64_t *seed, int64_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((*seed >> 33) % (uint64_t)below);
}

/* Costs of up to RUNS runs of up to LONGEST steps, in ROOM. */
static inline struct step_costs random_costs(uint64_t *seed, struct step_run *room, int64_t runs, int64_t longest,
                                             int64_t unit)
{
	struct step_costs costs = {.runs = room,
	                           .run_count = (size_t)(1 + draw(seed, runs)),
	                           .output = unit * draw(seed, 12),
	                           .fixed = draw(seed, 5)};
	int64_t flags = draw(seed, 3);
	for (size_t i = 0; i < costs.run_count; i++) {
		struct step_cost *cost = &room[i].cost;
		room[i].count = 1 + draw(seed, longest);
		costs.steps += room[i].count;
		*cost = (struct step_cost){.forward = (double)(1 + draw(seed, 9)),
		                           .backward = (double)draw(seed, 9),
		                           .state = unit * draw(seed, 12),
		                           .residual = unit * draw(seed, 14),
		                           .forward_temporary = draw(seed, 6),
		                           .record_temporary = draw(seed, 6),
		                           .backward_temporary = draw(seed, 6)};
		cost->keeps_input = flags > 0 && draw(seed, 2);
		cost->keeps_output = flags > 1 && draw(seed, 2);
	}
	for (size_t i = 0; i < costs.run_count; i++)
		if (room[i].cost.keeps_output)
			room[i].cost.residual += i + 1 < costs.run_count ? room[i + 1].cost.state : costs.output;
	return costs;
}

/* The schedule of the policy TEXT; --max-checkpoints LIMIT. */
static inline struct schedule *schedule_of(const char *text, int64_t limit, const struct step_costs *costs)
{
	struct arena arena;
	struct diags diags;
	struct policy policy;
	struct schedule *schedule = NULL;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	ck_assert_int_eq(policy_parse(&context, &policy, text), STATUS_OK);
	policy.max_checkpoints = limit;
	if (policy.kind == POLICY_budget)
		ck_assert_int_eq(budget_schedule(&context, costs, policy.number, "budget:", &schedule), STATUS_OK);
	else
		schedule = policy_schedule(&policy, costs, &allocator_system);
	ck_assert_ptr_nonnull(schedule);
	arena_free(&arena);
	return schedule;
}

static inline struct verdict verdict_of(struct schedule *schedule, const struct step_costs *costs)
{
	struct arena arena;
	struct diags diags;
	struct verdict verdict;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	ck_assert_int_eq(schedule_verify(schedule, costs, &allocator_system, &verdict, &diags), STATUS_OK);
	arena_free(&arena);
	return verdict;
}

#endif
