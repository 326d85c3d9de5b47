/*
 * The oracle of schedules: it interprets actions the plain way, checks every precondition, and adds up
 * at each step all bytes that memory/cost_walk.h describes. It knows no policy, and nothing of how the
 * cost walk and the planner work; it judges both.
 */
#ifndef TESTS_SCHEDULE_MODEL_H
#define TESTS_SCHEDULE_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "base/arena.h"
#include "budget/budget.h"
#include "memory/cost_walk.h"
#include "schedule/action.h"
#include "schedule/policy.h"

struct verdict {
	const char *wrong; /* what is wrong with the action after ACTIONS ones; NULL if the schedule is right */
	int64_t actions;
	int64_t evaluations, most_repeated; /* of all steps; of one step */
	int64_t executions;
	int64_t checkpoints, spill_writes, spill_reads;
	double time;
	int64_t peak, stored; /* bytes; -1 beyond SUMMED steps, as summing takes a time of their square */
};

enum { SUMMED = 3100 };

struct oracle {
	const struct step_costs *costs;
	struct step_cost *steps; /* one more at the end, whose state is the output */
	int *held;               /* holders of each state: slots and the current state */
	bool *recorded;
	int64_t *slots, *disk; /* the state in each, or -1 */
	int64_t slot_count, disk_count;
	int64_t *runs; /* executions of each step */
	int64_t current, cotangent, in_slots;
	int64_t unread; /* the recorded step whose state after it nobody has read yet, or -1 */
	bool swept, reversing;
	struct verdict verdict;
};

/* Returns the bytes of the states and residuals that are held. */
static inline int64_t oracle_bytes(const struct oracle *o)
{
	int64_t n = o->costs->steps, bytes = 0;
	for (int64_t p = 0; p <= n; p++) {
		bool counted = p > 0 && o->recorded[p - 1] && o->steps[p - 1].keeps_output;
		bool kept = o->held[p] || (o->recorded[p] && o->steps[p].keeps_input);
		bytes += kept && !counted ? o->steps[p].state : 0;
		bytes += o->recorded[p] ? o->steps[p].residual : 0;
	}
	return bytes;
}

static inline void oracle_see(struct oracle *o, int64_t extra)
{
	if (o->costs->steps > SUMMED)
		return;
	int64_t bytes = o->costs->fixed + extra + oracle_bytes(o);
	bytes += o->reversing ? o->steps[o->cotangent].state : 0;
	o->verdict.peak = bytes > o->verdict.peak ? bytes : o->verdict.peak;
}

static inline void oracle_set_current(struct oracle *o, int64_t position)
{
	if (position >= 0)
		o->held[position]++;
	if (o->current >= 0)
		o->held[o->current]--;
	o->current = position;
}

/* Something reads the current state, which may be that after a recorded step: that step must have computed it. */
static inline void oracle_read(struct oracle *o)
{
	if (o->unread >= 0 && o->unread + 1 == o->current) {
		const struct step_cost *cost = &o->steps[o->unread];
		o->verdict.executions += !cost->keeps_output;
		o->verdict.time += cost->forward - cost->record;
	}
	o->unread = -1;
}

static inline const char *oracle_run(struct oracle *o, const struct action *a)
{
	if (o->current != a->begin)
		return "the current state is another one";
	if (a->end <= a->begin || a->end > o->costs->steps)
		return "its end is not after its begin, or beyond the chain";
	for (int64_t step = a->begin; step < a->end; step++) {
		const struct step_cost *cost = &o->steps[step];
		const bool record = a->kind == ACT_RECORD;
		if (record && o->recorded[step])
			return "the residuals of a step are held already";
		if (record && step >= o->cotangent)
			return "a step is recorded that was reversed already";
		oracle_read(o);
		o->held[step + 1]++;
		o->recorded[step] |= record;
		oracle_see(o, record ? cost->record_temporary : cost->forward_temporary);
		o->held[step + 1]--;
		oracle_set_current(o, step + 1);
		o->verdict.evaluations++;
		o->unread = record ? step : -1;
		o->verdict.executions += !record || cost->keeps_output;
		o->verdict.time += record ? cost->record : cost->forward;
		if (++o->runs[step] > o->verdict.most_repeated)
			o->verdict.most_repeated = o->runs[step];
	}
	if (!o->swept && o->current == o->costs->steps) {
		o->swept = true;
		o->held[o->current]--;
		o->verdict.stored = o->costs->steps > SUMMED ? -1 : oracle_bytes(o);
		o->held[o->current]++;
	}
	return NULL;
}

static inline const char *oracle_reverse(struct oracle *o, const struct action *a)
{
	if (a->end <= a->begin || a->begin < 0)
		return "its end is not after its begin";
	if (a->end != o->cotangent)
		return "the cotangent is not at the end of what is reversed";
	o->unread = -1;
	oracle_set_current(o, -1);
	o->reversing = true;
	for (int64_t step = a->end; step-- > a->begin;) {
		if (!o->recorded[step])
			return "the residuals of a step are not held";
		oracle_see(o, o->steps[step].state + o->steps[step].backward_temporary);
		o->recorded[step] = false;
		o->cotangent = step;
		o->verdict.time += o->steps[step].backward;
	}
	return NULL;
}

/* SAVE, LOAD and DROP, and the same on DISK. */
static inline const char *oracle_use_slot(struct oracle *o, const struct action *a, bool disk)
{
	if (a->slot < 0 || a->slot >= (disk ? o->disk_count : o->slot_count))
		return "there is no such slot";
	int64_t *slot = disk ? &o->disk[a->slot] : &o->slots[a->slot];
	if (a->kind == ACT_SAVE || a->kind == ACT_SPILL) {
		if (*slot >= 0)
			return "the slot is not empty";
		if (o->current != a->begin)
			return "the current state is another one";
		oracle_read(o);
		*slot = a->begin;
		o->held[a->begin] += !disk;
		o->in_slots += !disk;
		if (o->in_slots > o->verdict.checkpoints)
			o->verdict.checkpoints = o->in_slots;
		o->verdict.spill_writes += disk;
		o->verdict.time += disk ? o->costs->spill_write : 0;
		return NULL;
	}
	if (*slot < 0)
		return "the slot is empty already";
	if (*slot != a->begin)
		return "the slot does not hold that state";
	if (a->kind == ACT_DROP || a->kind == ACT_DISCARD) {
		o->held[*slot] -= !disk;
		o->in_slots -= !disk;
		*slot = -1;
		return NULL;
	}
	if (!o->swept)
		return "a state is brought back before the first sweep is done";
	o->unread = -1;
	if (disk)
		oracle_set_current(o, -1);
	oracle_set_current(o, a->begin);
	o->verdict.spill_reads += disk;
	o->verdict.time += disk ? o->costs->spill_read : 0;
	oracle_see(o, 0);
	return NULL;
}

static inline const char *oracle_act(struct oracle *o, const struct action *a)
{
	switch (a->kind) {
	case ACT_FORWARD:
	case ACT_RECORD:
		return oracle_run(o, a);
	case ACT_BACKWARD:
		return oracle_reverse(o, a);
	case ACT_SAVE:
	case ACT_LOAD:
	case ACT_DROP:
		return oracle_use_slot(o, a, false);
	case ACT_SPILL:
	case ACT_FETCH:
	case ACT_DISCARD:
		return oracle_use_slot(o, a, true);
	}
	return "there is no such action";
}

static inline const char *oracle_at_end(const struct oracle *o)
{
	if (o->costs->steps == 0)
		return o->verdict.actions ? "there is nothing to do" : NULL;
	if (o->cotangent != 0)
		return "the schedule ends before every step is reversed";
	for (int64_t i = 0; i < o->slot_count; i++)
		if (o->slots[i] >= 0)
			return "the schedule ends with a state in a slot";
	for (int64_t i = 0; i < o->disk_count; i++)
		if (o->disk[i] >= 0)
			return "the schedule ends with a state on disk";
	return NULL;
}

static inline void oracle_begin(struct oracle *o, const struct schedule *schedule, const struct step_costs *costs)
{
	size_t n = (size_t)costs->steps + 1;
	int64_t step = 0;
	*o = (struct oracle){.costs = costs,
	                     .steps = calloc(n, sizeof *o->steps),
	                     .held = calloc(n, sizeof *o->held),
	                     .recorded = calloc(n, sizeof *o->recorded),
	                     .runs = calloc(n, sizeof *o->runs),
	                     .slot_count = schedule_slots(schedule),
	                     .disk_count = schedule_disk_slots(schedule),
	                     .current = -1,
	                     .unread = -1,
	                     .cotangent = costs->steps};
	o->slots = malloc(((size_t)o->slot_count + 1) * sizeof *o->slots);
	o->disk = malloc(((size_t)o->disk_count + 1) * sizeof *o->disk);
	memset(o->slots, 0xff, ((size_t)o->slot_count + 1) * sizeof *o->slots);
	memset(o->disk, 0xff, ((size_t)o->disk_count + 1) * sizeof *o->disk);
	for (size_t run = 0; run < costs->run_count; run++)
		for (int64_t i = 0; i < costs->runs[run].count; i++)
			o->steps[step++] = costs->runs[run].cost;
	o->steps[step].state = costs->output;
	oracle_set_current(o, 0);
	oracle_see(o, 0);
}

/* Returns what SCHEDULE takes over COSTS, and what is wrong with it. */
static inline struct verdict verdict_of(struct schedule *schedule, const struct step_costs *costs)
{
	struct oracle o;
	struct action action;
	oracle_begin(&o, schedule, costs);
	schedule_rewind(schedule);
	while (!o.verdict.wrong && schedule_next(schedule, &action)) {
		o.verdict.wrong = oracle_act(&o, &action);
		o.verdict.actions += !o.verdict.wrong;
	}
	schedule_rewind(schedule);
	if (!o.verdict.wrong)
		o.verdict.wrong = oracle_at_end(&o);
	if (costs->steps > SUMMED)
		o.verdict.peak = -1;
	free(o.steps);
	free(o.held);
	free(o.recorded);
	free(o.slots);
	free(o.disk);
	free(o.runs);
	return o.verdict;
}

/* What the cost walk says of SCHEDULE over COSTS. */
struct walked {
	struct counters counters;
	double time;
};

static inline struct walked walk_of(struct schedule *schedule, const struct step_costs *costs,
                                    const struct cost_walk_options *options)
{
	struct arena arena;
	struct diags diags;
	struct walked walked;
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	ck_assert_int_eq(cost_walk(&context, schedule, costs, options, &walked.counters, &walked.time), STATUS_OK);
	arena_free(&arena);
	return walked;
}

/* A generator that draws the same on every machine. */
static inline int64_t draw(uint64_t *seed, int64_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((*seed >> 33) % (uint64_t)below);
}

/* Returns costs of up to RUNS runs of up to LONGEST steps, which are in STORE. */
static inline struct step_costs random_costs(uint64_t *seed, struct step_run *store, int64_t runs, int64_t longest,
                                             int64_t quantum)
{
	struct step_costs costs = {.runs = store,
	                           .run_count = (size_t)(1 + draw(seed, runs)),
	                           .output = quantum * draw(seed, 12),
	                           .fixed = draw(seed, 5)};
	int64_t flags = draw(seed, 3);
	for (size_t i = 0; i < costs.run_count; i++) {
		struct step_cost *cost = &store[i].cost;
		store[i].count = 1 + draw(seed, longest);
		costs.steps += store[i].count;
		*cost = (struct step_cost){.forward = (double)(1 + draw(seed, 9)),
		                           .record = (double)draw(seed, 10),
		                           .backward = (double)draw(seed, 9),
		                           .state = quantum * draw(seed, 12),
		                           .residual = quantum * draw(seed, 14),
		                           .forward_temporary = draw(seed, 6),
		                           .record_temporary = draw(seed, 6),
		                           .backward_temporary = draw(seed, 6)};
		cost->keeps_input = flags > 0 && draw(seed, 2);
		cost->keeps_output = flags > 1 && draw(seed, 2);
	}
	for (size_t i = 0; i < costs.run_count; i++)
		if (store[i].cost.keeps_output)
			store[i].cost.residual += i + 1 < costs.run_count ? store[i + 1].cost.state : costs.output;
	return costs;
}

/* The schedule of the policy TEXT; --max-checkpoints LIMIT. */
static inline struct schedule *schedule_of(const char *text, int64_t limit, const struct step_costs *costs)
{
	struct arena arena;
	struct diags diags;
	struct policy policy;
	struct budget_goal goal = {0};
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	const struct context context = {&allocator_system, &arena, &diags};
	ck_assert_int_eq(policy_parse(&context, &policy, text), STATUS_OK);
	policy.max_checkpoints = limit;
	goal.bytes = policy.number;
	if (policy.kind == POLICY_budget)
		ck_assert_int_eq(budget_schedule(&context, costs, NULL, false, &goal), STATUS_OK);
	else
		goal.schedule = policy_schedule(&policy, costs, &allocator_system);
	ck_assert_ptr_nonnull(goal.schedule);
	arena_free(&arena);
	return goal.schedule;
}

#endif
