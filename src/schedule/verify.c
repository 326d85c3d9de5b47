/*
 * A bit for each step whose residuals are held, and a position for each slot, are all that the verifier keeps.
 * Tests: tests/unit/test_schedule.c, tests/unit/test_api.c
 */
#include "schedule/verify.h"

#include <stdio.h>
#include <string.h>

/* The positions that slots of one kind hold, -1 for none. Slots from COUNT on are empty. */
struct slot_table {
	int64_t *held;
	size_t count;
};

struct verifier {
	const struct allocator *allocator;
	int64_t steps, actions;
	int64_t current;         /* position of the current state, or -1 */
	int64_t cotangent;       /* position of the cotangent */
	unsigned char *recorded; /* by step */
	struct slot_table memory, disk;
};

enum status verifier_make(struct verifier **verifier, const struct allocator *allocator, int64_t steps,
                          struct diags *diags)
{
	*verifier = NULL;
	if (steps < 0 || steps > VERIFY_MOST)
		return diag_file(diags, STATUS_LIMIT, NULL, -1, "%lld steps: from 0 to %d can be verified", (long long)steps,
		                 VERIFY_MOST);
	struct verifier *v = allocator_get(allocator, 1, sizeof *v);
	TRY_ALLOC(v, diags);
	*v = (struct verifier){.allocator = allocator, .steps = steps, .cotangent = steps};
	v->recorded = allocator_get(allocator, (size_t)steps + 1, 1);
	*verifier = v;
	if (v->recorded) {
		memset(v->recorded, 0, (size_t)steps + 1);
		return STATUS_OK;
	}
	verifier_free(v);
	*verifier = NULL;
	return diag_memory(diags);
}

void verifier_free(struct verifier *v)
{
	if (!v)
		return;
	allocator_put(v->allocator, v->recorded, (size_t)v->steps + 1);
	allocator_put(v->allocator, v->memory.held, v->memory.count * sizeof *v->memory.held);
	allocator_put(v->allocator, v->disk.held, v->disk.count * sizeof *v->disk.held);
	allocator_put(v->allocator, v, sizeof *v);
}

int64_t verifier_actions(const struct verifier *v) { return v->actions; }

/* Reports that ACTION breaks a rule: WHAT, about NUMBER if WHAT ends in a space. */
static enum status broken(const struct verifier *v, const struct action *a, struct diags *diags, const char *what,
                          int64_t number)
{
	char action[96], about[32] = "";
	if (action_is_on_steps(a->kind))
		snprintf(action, sizeof action, "%s %lld to %lld", action_name(a->kind), (long long)a->begin,
		         (long long)a->end);
	else
		snprintf(action, sizeof action, "%s %lld, slot %lld", action_name(a->kind), (long long)a->begin,
		         (long long)a->slot);
	if (what[strlen(what) - 1] == ' ')
		snprintf(about, sizeof about, "%lld", (long long)number);
	return diag_file(diags, STATUS_CHECK, NULL, -1, "action %lld (%s): %s%s", (long long)v->actions, action, what,
	                 about);
}

static enum status not_current(const struct verifier *v, const struct action *a, struct diags *diags)
{
	return v->current < 0 ? broken(v, a, diags, "there is no current state", 0)
	                      : broken(v, a, diags, "the current state is state ", v->current);
}

static enum status verify_steps(struct verifier *v, const struct action *a, struct diags *diags)
{
	if (a->begin < 0 || a->end <= a->begin || a->end > v->steps)
		return broken(v, a, diags, "it must run one of the steps or more, and these end at ", v->steps);
	if (v->current != a->begin)
		return not_current(v, a, diags);
	for (int64_t step = a->begin; a->kind == ACT_RECORD && step < a->end; step++) {
		if (v->recorded[step])
			return broken(v, a, diags, "residuals are held already of step ", step);
		if (step >= v->cotangent)
			return broken(v, a, diags, "it records a step that was reversed already, step ", step);
		v->recorded[step] = 1;
	}
	v->current = a->end;
	return STATUS_OK;
}

static enum status reverse_steps(struct verifier *v, const struct action *a, struct diags *diags)
{
	if (a->begin < 0 || a->end <= a->begin)
		return broken(v, a, diags, "its end must be after its begin", 0);
	if (a->end != v->cotangent)
		return broken(v, a, diags, "its end must be the position of the cotangent, ", v->cotangent);
	for (int64_t step = a->end; step-- > a->begin;) {
		if (!v->recorded[step])
			return broken(v, a, diags, "residuals are not held of step ", step);
		v->recorded[step] = 0;
	}
	v->current = -1;
	v->cotangent = a->begin;
	return STATUS_OK;
}

/* Gives TABLE an entry for SLOT. */
static enum status reach_slot(const struct verifier *v, struct slot_table *table, int64_t slot, struct diags *diags)
{
	const size_t before = table->count;
	if ((size_t)slot < before)
		return STATUS_OK;
	if (slot > VERIFY_MOST)
		return diag_file(diags, STATUS_LIMIT, NULL, -1, "slot %lld: slots up to %d can be verified", (long long)slot,
		                 VERIFY_MOST);
	TRY_ALLOC(allocator_grow(v->allocator, (void **)&table->held, &table->count, (size_t)slot + 1, sizeof *table->held),
	          diags);
	memset(table->held + before, 0xff, (table->count - before) * sizeof *table->held);
	return STATUS_OK;
}

/* Puts the current state into SLOT, which is empty. */
static enum status fill_slot(struct verifier *v, struct slot_table *table, const struct action *a, struct diags *diags)
{
	if (v->current != a->begin)
		return not_current(v, a, diags);
	TRY(reach_slot(v, table, a->slot, diags));
	int64_t *held = &table->held[a->slot];
	if (*held >= 0)
		return broken(v, a, diags, "the slot already holds state ", *held);
	*held = a->begin;
	return STATUS_OK;
}

/* Reads or empties a slot that holds state a->begin. */
static enum status use_slot(struct verifier *v, struct slot_table *table, const struct action *a, struct diags *diags)
{
	int64_t *held = (size_t)a->slot < table->count ? &table->held[a->slot] : NULL;
	if (!held || *held < 0)
		return broken(v, a, diags, "the slot is empty", 0);
	if (*held != a->begin)
		return broken(v, a, diags, "the slot holds state ", *held);
	if (a->kind == ACT_DROP || a->kind == ACT_DISCARD)
		*held = -1;
	else
		v->current = a->begin;
	return STATUS_OK;
}

static enum status interpret(struct verifier *v, const struct action *a, struct diags *diags)
{
	struct slot_table *table =
		a->kind == ACT_SAVE || a->kind == ACT_LOAD || a->kind == ACT_DROP ? &v->memory : &v->disk;
	if (!action_is_on_steps(a->kind) && (a->slot < 0 || a->begin < 0))
		return broken(v, a, diags, "a state and a slot have numbers from 0 on", 0);
	switch (a->kind) {
	case ACT_FORWARD:
	case ACT_RECORD:
		return verify_steps(v, a, diags);
	case ACT_BACKWARD:
		return reverse_steps(v, a, diags);
	case ACT_SAVE:
	case ACT_SPILL:
		return fill_slot(v, table, a, diags);
	case ACT_LOAD:
	case ACT_FETCH:
	case ACT_DROP:
	case ACT_DISCARD:
		return use_slot(v, table, a, diags);
	}
	return broken(v, a, diags, "no action has kind ", (int)a->kind);
}

enum status verifier_see(struct verifier *v, const struct action *action, struct diags *diags)
{
	TRY(interpret(v, action, diags));
	v->actions++;
	return STATUS_OK;
}

static enum status check_empty(const struct slot_table *table, const char *kind, struct diags *diags)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->held[i] >= 0)
			return diag_file(diags, STATUS_CHECK, NULL, -1, "at the end %s slot %zu still holds state %lld", kind, i,
			                 (long long)table->held[i]);
	return STATUS_OK;
}

enum status verifier_end(const struct verifier *v, struct diags *diags)
{
	if (v->cotangent > 0)
		return diag_file(diags, STATUS_CHECK, NULL, -1, "at the end steps 0 to %lld are not reversed",
		                 (long long)v->cotangent - 1);
	TRY(check_empty(&v->memory, "memory", diags));
	return check_empty(&v->disk, "disk", diags);
}
