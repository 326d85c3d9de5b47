/*
 * A chain as draft steps, which a policy keeps or recomputes one by one. A draft has its body and a list of the slots
 * that it changes. A loop stays a loop of steps if the state is the same, but for values, before and after an iteration.
 * An iteration that changes the state is a loop of its own, and the next one is tried again.
 */
#include "ir/lowering.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/*
 * Classes when a step ends. A class is a list of slots, ascending, and goes by its first. Only slots that the step
 * touched, and those of their classes, are looked at.
 */

/* Fills state.lowest with the classes of the body's ins; the others, NO_SLOT, are found as they come. */
static enum status list_classes(struct lowering *l)
{
	const struct body *body = l->body;
	struct state *state = &l->state;
	if (body->value_count >= state->lowest_capacity) {
		state->lowest_capacity = 2 * body->value_count + 1;
		state->lowest = arena_array(l->context->arena, state->lowest_capacity, sizeof *state->lowest);
		TRY_ALLOC(state->lowest, l->context->diags);
	}
	memset(state->lowest, 0xff, body->value_count * sizeof *state->lowest);
	for (size_t i = 0; i < body->in_count; i++)
		state->lowest[body->ins[i].value] = body->ins[i].index;
	return STATUS_OK;
}

/* True if SLOT ends with another value than CLASS. The local names of defs have none (NO_VALUE) after their call. */
static bool holds_other(const struct lowering *l, uint32_t slot, uint32_t class)
{
	return l->env.now[slot] != NO_VALUE && l->state.lowest[l->env.now[slot]] != class;
}

static enum status note_change(struct lowering *l, struct draft_step *draft, uint32_t slot)
{
	struct change *change = arena_alloc(l->context->arena, sizeof *change);
	TRY_ALLOC(change, l->context->diags);
	*change = (struct change){slot, l->state.slots[slot], draft->changes};
	draft->changes = change;
	return STATUS_OK;
}

static enum status set_class(struct lowering *l, struct draft_step *draft, uint32_t slot, uint32_t class)
{
	enum status status = note_change(l, draft, slot);
	l->state.slots[slot].class = class;
	return status;
}

/* Leaves in CLASS the slots that still hold its value. The others have no class (NO_SLOT) then. */
static enum status split_class(struct lowering *l, struct draft_step *draft, uint32_t class)
{
	uint32_t first = NO_SLOT, *link = &first, *next_same = l->state.next_same;
	enum status status = STATUS_OK;
	for (uint32_t slot = class, next; slot != NO_SLOT && status == STATUS_OK; slot = next) {
		next = next_same[slot];
		next_same[slot] = NO_SLOT;
		if (holds_other(l, slot, class)) {
			status = set_class(l, draft, slot, NO_SLOT);
		} else {
			*link = slot;
			link = &next_same[slot];
			status = set_class(l, draft, slot, first);
		}
	}
	if (l->env.port[class] != NO_VALUE)
		l->state.lowest[l->env.port[class]] = first;
	return status;
}

/* Puts SLOT, which has no class, into that of its value. */
static enum status join_class(struct lowering *l, struct draft_step *draft, uint32_t slot)
{
	uint32_t *next_same = l->state.next_same;
	uint32_t *class = &l->state.lowest[l->env.now[slot]], *link = class;
	while (*link < slot)
		link = &next_same[*link];
	next_same[slot] = *link;
	*link = slot;
	enum status status = set_class(l, draft, slot, *class);
	for (uint32_t i = *class == slot ? next_same[slot] : NO_SLOT; i != NO_SLOT && !status; i = next_same[i])
		status = set_class(l, draft, i, slot);
	return status;
}

static enum status regroup_classes(struct lowering *l, struct draft_step *draft)
{
	const struct slot *slots = l->state.slots;
	const uint32_t *touched = l->env.touched;
	enum status status = STATUS_OK;
	for (size_t i = 0; i < l->env.touched_count && status == STATUS_OK; i++) {
		const uint32_t class = slots[touched[i]].class;
		if (class != NO_SLOT && holds_other(l, touched[i], class))
			status = split_class(l, draft, class);
	}
	for (size_t i = 0; i < l->env.touched_count && status == STATUS_OK; i++)
		if (slots[touched[i]].class == NO_SLOT)
			status = join_class(l, draft, touched[i]);
	return status;
}

static int compare_slots(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

enum status lowering_end_step(struct lowering *l, struct draft_step *draft)
{
	const struct environment *env = &l->env;
	enum status status = list_classes(l);
	qsort(env->touched, env->touched_count, sizeof *env->touched, compare_slots);
	for (size_t i = 0; i < env->touched_count && status == STATUS_OK; i++) {
		const uint32_t slot = env->touched[i], now = env->now[slot];
		if (!env->written[slot] || now == NO_VALUE)
			continue;
		TRY_ALLOC(body_add_out(l->body, PORT_SLOT, slot, now), l->context->diags);
		const struct value *v = &l->body->values[now];
		struct slot *to = &l->state.slots[slot];
		status = note_change(l, draft, slot);
		*to = (struct slot){v->type, v->dtype, v->streamed, v->active, v->weak, to->class};
	}
	draft->body = l->body;
	l->body->regions[0].end = (uint32_t)l->body->instr_count;
	return status ? status : regroup_classes(l, draft);
}

/* Drafts. */

static struct draft_item *add_item(struct lowering *l, struct draft_item *list)
{
	struct draft_item *grown = arena_grow(l->context->arena, list->items, list->count, &list->capacity, sizeof *grown);
	if (!grown)
		return NULL;
	list->items = grown;
	return &grown[list->count++];
}

enum status lowering_defer(struct lowering *l, const struct node *node)
{
	struct preludes *preludes = &l->preludes;
	const struct node **grown =
		arena_grow(l->context->arena, preludes->nodes, preludes->count, &preludes->capacity, sizeof *grown);
	TRY_ALLOC(grown, l->context->diags);
	preludes->nodes = grown;
	grown[preludes->count++] = node;
	return STATUS_OK;
}

/* Drafts a step of the preludes that are not bound yet and of NODE, unless that is NULL. */
static enum status draft_step(struct lowering *l, const struct node *node, struct draft_item *list)
{
	struct preludes *preludes = &l->preludes;
	struct draft_step *draft = arena_alloc(l->context->arena, sizeof *draft);
	struct draft_item *item = add_item(l, list);
	TRY_ALLOC(draft && item && lowering_begin_body(l), l->context->diags);
	draft->span = node ? node->span : preludes->nodes[preludes->bound]->span;
	enum status status = STATUS_OK;
	while (preludes->bound < preludes->count && status == STATUS_OK)
		status = lower_node(l, preludes->nodes[preludes->bound++]);
	if (node && status == STATUS_OK)
		status = lower_node(l, node);
	if (status == STATUS_OK && l->env.written[0]) /* `use` of a param: what a step passes on is its own */
		status = lowering_copy_param(l, &l->env.now[0], draft->span);
	if (status == STATUS_OK)
		status = lowering_end_step(l, draft);
	item->draft = draft;
	item->steps = 1;
	list->steps++;
	return status;
}

static bool same_slots(const struct slot *a, const struct slot *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!slot_equal(&a[i], &b[i]))
			return false;
	return true;
}

/* Makes `repeat M { repeat N { ... } }` one loop of M*N iterations, which policies of equal iterations know. */
static void join_loops(struct draft_item *loop)
{
	if (!loop->repeats || loop->count != 1 || loop->items[0].draft || !loop->items[0].repeats)
		return;
	struct draft_item inner = loop->items[0];
	inner.iterations *= loop->iterations; /* at most as many as steps; if there are none, nothing reads it */
	inner.steps = loop->steps;
	*loop = inner;
}

/* Drafts the iteration FIRST of NODE as LOOP. */
static enum status draft_iteration(struct lowering *l, const struct node *node, const struct param_ref *params,
                                   int64_t first, struct draft_item *loop)
{
	*loop = (struct draft_item){.level = l->level, .first = first, .iterations = 1};
	enum status status = node->kind == NODE_FOR ? lowering_set_iteration(l, node, params, l->level, first) : STATUS_OK;
	const size_t preludes = l->preludes.count;
	l->level++;
	if (status == STATUS_OK)
		status = lowering_draft_steps(l, node->body, loop);
	if (status == STATUS_OK && lowering_owes_step(l, preludes)) /* the next iteration would bind other values */
		status = draft_step(l, NULL, loop);
	l->level--;
	return status;
}

static enum status draft_loop(struct lowering *l, const struct node *node, struct draft_item *list)
{
	int64_t iterations;
	struct param_ref *params;
	struct slot *before = arena_array(l->context->arena, l->state.count, sizeof *before);
	TRY_ALLOC(before, l->context->diags);
	enum status status = lowering_begin_loop(l, node, &params, &iterations);
	for (int64_t i = 0; node->body && i < iterations && status == STATUS_OK;) {
		struct draft_item loop;
		/* An iteration that binds what was deferred before the loop is unlike those after it. */
		const bool binds = l->preludes.bound < l->preludes.count;
		memcpy(before, l->state.slots, l->state.count * sizeof *before);
		status = draft_iteration(l, node, params, i, &loop);
		if (status)
			return status;
		if (!binds && same_slots(before, l->state.slots, l->state.count))
			loop.iterations = iterations - i;
		if (!checked_mul_i64(loop.steps, loop.iterations, &loop.steps) || loop.steps > MAX_STEPS - list->steps)
			return lowering_too_long(l, node->span);
		i += loop.iterations;
		list->steps += loop.steps;
		loop.repeats = node->kind == NODE_REPEAT;
		struct draft_item *item = add_item(l, list);
		TRY_ALLOC(item, l->context->diags);
		*item = loop;
		join_loops(item);
	}
	return status;
}

enum status lowering_draft_steps(struct lowering *l, const struct node *node, struct draft_item *list)
{
	enum status status = STATUS_OK;
	for (; node && node != l->end && status == STATUS_OK; node = node->next) {
		if (node->kind == NODE_REPEAT || node->kind == NODE_FOR)
			status = draft_loop(l, node, list);
		else if (is_prelude(node))
			status = lowering_defer(l, node);
		else
			status = draft_step(l, node, list);
		if (status == STATUS_OK && list->steps > MAX_STEPS)
			status = lowering_too_long(l, node->span);
	}
	return status;
}
