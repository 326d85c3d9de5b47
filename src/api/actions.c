/*
 * What is done with the actions of a plan: read, verified, executed. Each reader has its own copy of the schedule.
 * Tests: tests/unit/test_api.c, tests/scripts/check-library
 */
#include "api/plan.h"

#include <stdio.h>

#include "schedule/verify.h"

/* The public kinds are ours. */
_Static_assert((int)CKPTC_FORWARD == ACT_FORWARD && (int)CKPTC_SAVE == ACT_SAVE && (int)CKPTC_DROP == ACT_DROP &&
                   (int)CKPTC_DISCARD == ACT_DISCARD && (int)CKPTC_BACKWARD == ACT_BACKWARD,
               "enum ckptc_action_kind is enum action_kind");

struct ckptc_actions {
	struct owner owner;
	const struct ckptc_plan *plan;
	struct schedule *schedule;
};

const char *ckptc_action_name(int kind) { return kind < 0 ? "unknown" : action_name((enum action_kind)kind); }

/* The allocator of PLAN, as the caller gave it. */
static struct ckptc_allocator allocator_of(const struct ckptc_plan *plan)
{
	return (struct ckptc_allocator){plan->owner.allocator.resize, plan->owner.allocator.context};
}

int ckptc_actions_new(struct ckptc_actions **made, const struct ckptc_plan *plan, struct ckptc_error *error)
{
	const struct ckptc_allocator allocator = allocator_of(plan);
	struct ckptc_actions *actions = owner_make(&allocator, sizeof *actions);
	*made = NULL;
	if (actions)
		actions->schedule = schedule_copy(plan->schedule);
	if (!actions || !actions->schedule) {
		ckptc_actions_free(actions);
		return error_set_memory(error);
	}
	actions->plan = plan;
	*made = actions;
	return error_set(error, STATUS_OK, NULL);
}

size_t ckptc_actions_read(struct ckptc_actions *actions, struct ckptc_action *to, size_t most)
{
	struct action a;
	size_t count = 0;
	while (count < most && plan_next(actions->plan, actions->schedule, &a)) {
		const bool steps = action_is_on_steps(a.kind);
		to[count++] = (struct ckptc_action){
			.kind = (int)a.kind, .begin = a.begin, .end = steps ? a.end : 0, .slot = steps ? 0 : a.slot};
	}
	return count;
}

void ckptc_actions_rewind(struct ckptc_actions *actions) { schedule_rewind(actions->schedule); }

void ckptc_actions_free(struct ckptc_actions *actions)
{
	if (!actions)
		return;
	schedule_free(actions->schedule);
	owner_free(&actions->owner);
}

struct ckptc_verifier {
	struct owner owner;
	struct verifier *verifier;
};

int ckptc_verifier_new(struct ckptc_verifier **made, int64_t steps, const struct ckptc_allocator *allocator,
                       struct ckptc_error *error)
{
	struct ckptc_verifier *v = owner_make(allocator, sizeof *v);
	*made = NULL;
	if (!v)
		return error_set_memory(error);
	const enum status status = verifier_make(&v->verifier, &v->owner.allocator, steps, &v->owner.diags);
	error_set(error, status, &v->owner.diags);
	if (status)
		ckptc_verifier_free(v);
	else
		*made = v;
	return (int)status;
}

int ckptc_verifier_see(struct ckptc_verifier *v, const struct ckptc_action *actions, size_t count,
                       struct ckptc_error *error)
{
	enum status status = STATUS_OK;
	for (size_t i = 0; i < count && !status; i++) {
		const struct ckptc_action *a = &actions[i];
		const struct action action = {(enum action_kind)a->kind, a->begin, a->end, a->slot};
		status = verifier_see(v->verifier, &action, &v->owner.diags);
	}
	return error_set(error, status, &v->owner.diags);
}

int ckptc_verifier_end(struct ckptc_verifier *v, struct ckptc_error *error)
{
	return error_set(error, verifier_end(v->verifier, &v->owner.diags), &v->owner.diags);
}

void ckptc_verifier_free(struct ckptc_verifier *v)
{
	if (!v)
		return;
	verifier_free(v->verifier);
	owner_free(&v->owner);
}

int ckptc_plan_verify(const struct ckptc_plan *plan, struct ckptc_error *error)
{
	const struct ckptc_allocator allocator = allocator_of(plan);
	struct ckptc_actions *actions;
	struct ckptc_verifier *verifier = NULL;
	struct ckptc_action block[64];
	int status = ckptc_actions_new(&actions, plan, error);
	if (!status)
		status = ckptc_verifier_new(&verifier, plan->steps, &allocator, error);
	for (size_t n; !status && (n = ckptc_actions_read(actions, block, sizeof block / sizeof *block)) > 0;)
		status = ckptc_verifier_see(verifier, block, n, error);
	if (!status)
		status = ckptc_verifier_end(verifier, error);
	ckptc_verifier_free(verifier);
	ckptc_actions_free(actions);
	return status;
}

/* Returns the name of a callback that PLAN needs and CALLBACKS lack, or NULL. */
static const char *missing_callback(const struct ckptc_plan *plan, const struct ckptc_callbacks *callbacks)
{
	const bool recomputes = plan->counters.evaluations > plan->counters.steps;
	const bool saves = schedule_slots(plan->schedule) > 0, spills = plan->counters.spill_writes > 0;
	if (plan->steps == 0)
		return NULL;
	if (!callbacks->record || !callbacks->backward)
		return callbacks->record ? "backward" : "record";
	if (recomputes && !callbacks->forward)
		return "forward";
	if (saves && (!callbacks->save || !callbacks->load))
		return callbacks->save ? "load" : "save";
	return !spills || (callbacks->spill && callbacks->fetch) ? NULL : callbacks->spill ? "fetch" : "spill";
}

static int call_steps(const struct ckptc_callbacks *callbacks, void *context, const struct action *a)
{
	int (*const call)(void *, int64_t) = a->kind == ACT_FORWARD  ? callbacks->forward
	                                     : a->kind == ACT_RECORD ? callbacks->record
	                                                             : callbacks->backward;
	int stop = 0;
	for (int64_t i = a->begin; i < a->end && !stop; i++)
		stop = call(context, a->kind == ACT_BACKWARD ? a->end - 1 - (i - a->begin) : i);
	return stop;
}

static int call_slot(const struct ckptc_callbacks *callbacks, void *context, const struct action *a)
{
	int (*const calls[])(void *, int64_t, int64_t) = {
		[ACT_SAVE] = callbacks->save,   [ACT_LOAD] = callbacks->load,   [ACT_DROP] = callbacks->drop,
		[ACT_SPILL] = callbacks->spill, [ACT_FETCH] = callbacks->fetch, [ACT_DISCARD] = callbacks->discard};
	return calls[a->kind] ? calls[a->kind](context, a->begin, a->slot) : 0;
}

int ckptc_execute(const struct ckptc_plan *plan, const struct ckptc_callbacks *callbacks, void *context,
                  struct ckptc_error *error)
{
	struct ckptc_actions *actions;
	struct action a;
	int stop = ckptc_actions_new(&actions, plan, error);
	if (stop)
		return stop;
	const char *missing = missing_callback(plan, callbacks);
	if (missing) {
		diag_file(&actions->owner.diags, STATUS_USAGE, NULL, -1, "the plan calls '%s', which is NULL", missing);
		stop = error_set(error, STATUS_USAGE, &actions->owner.diags);
	}
	while (!missing && !stop && plan_next(plan, actions->schedule, &a))
		stop = action_is_on_steps(a.kind) ? call_steps(callbacks, context, &a) : call_slot(callbacks, context, &a);
	if (stop && !missing && error) {
		*error = (struct ckptc_error){.status = CKPTC_STOPPED};
		snprintf(error->message, sizeof error->message, "action %s stopped: the callback returned %d",
		         action_name(a.kind), stop);
	}
	ckptc_actions_free(actions);
	return stop;
}
