/*
 * The steps of a chain as drafts, each with its body and what it changes of the state.
 * Loops whose state has the same types before and after a iteration stay loops; iterations that
 * change a type are set apart until one does not.
 */
#include "ir/lowering.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/*
 * Classes of slots when a step ends. A class is a list, ascending, from the slot that it goes
 * by; a step touches few of many slots, so these and those of their classes are all that is
 * looked at. By value of the body, l->lowest is the class that holds it at the end.
 */

static enum status list_classes(struct lowering *l)
{
	const struct body *body = l->body;
	if (body->value_count >= l->lowest_count) {
		l->lowest_count = 2 * body->value_count + 1;
		l->lowest = arena_array(l->context->arena, l->lowest_count, sizeof *l->lowest);
		if (!l->lowest)
			return lowering_memory(l);
	}
	memset(l->lowest, 0xff, body->value_count * sizeof *l->lowest);
	for (size_t i = 0; i < body->in_count; i++)
		l->lowest[body->ins[i].value] = body->ins[i].index;
	return STATUS_OK;
}

/* Whether SLOT ends with another value than CLASS has. Names of defs are local: they have been made NO_VALUE again. */
static bool holds_other(const struct lowering *l, uint32_t slot, uint32_t class)
{
	return l->now[slot] != NO_VALUE && l->lowest[l->now[slot]] != class;
}

static enum status note_change(struct lowering *l, struct draft_step *draft, uint32_t slot)
{
	struct change *change = arena_alloc(l->context->arena, sizeof *change);
	if (!change)
		return lowering_memory(l);
	*change = (struct change){slot, l->slots[slot], draft->changes};
	draft->changes = change;
	return STATUS_OK;
}

static enum status set_class(struct lowering *l, struct draft_step *draft, uint32_t slot, uint32_t class)
{
	enum status status = note_change(l, draft, slot);
	l->slots[slot].class = class;
	return status;
}

/* Leaves in CLASS what still holds its value; the others have none (NO_SLOT). */
static enum status split_class(struct lowering *l, struct draft_step *draft, uint32_t class)
{
	uint32_t first = NO_SLOT, *link = &first;
	enum status status = STATUS_OK;
	for (uint32_t slot = class, next; slot != NO_SLOT && status == STATUS_OK; slot = next) {
		next = l->next_same[slot];
		l->next_same[slot] = NO_SLOT;
		if (holds_other(l, slot, class)) {
			status = set_class(l, draft, slot, NO_SLOT);
		} else {
			*link = slot;
			link = &l->next_same[slot];
			status = set_class(l, draft, slot, first);
		}
	}
	if (l->port[class] != NO_VALUE)
		l->lowest[l->port[class]] = first;
	return status;
}

/* Puts SLOT, which has no class, to those that hold the same value. */
static enum status join_class(struct lowering *l, struct draft_step *draft, uint32_t slot)
{
	uint32_t *class = &l->lowest[l->now[slot]], *link = class;
	while (*link < slot)
		link = &l->next_same[*link];
	l->next_same[slot] = *link;
	*link = slot;
	enum status status = set_class(l, draft, slot, *class);
	for (uint32_t i = *class == slot ? l->next_same[slot] : NO_SLOT; i != NO_SLOT && !status; i = l->next_same[i])
		status = set_class(l, draft, i, slot);
	return status;
}

static int compare_slots(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

enum status lowering_end_step(struct lowering *l, struct draft_step *draft)
{
	enum status status = list_classes(l);
	qsort(l->touched, l->touched_count, sizeof *l->touched, compare_slots);
	for (size_t i = 0; i < l->touched_count && status == STATUS_OK; i++) {
		const uint32_t slot = l->touched[i];
		if (!l->written[slot] || l->now[slot] == NO_VALUE)
			continue;
		const struct value *value = &l->body->values[l->now[slot]];
		if (!body_add_out(l->body, PORT_SLOT, slot, l->now[slot]))
			return lowering_memory(l);
		status = note_change(l, draft, slot);
		l->slots[slot] =
			(struct slot){value->type, value->dtype, value->streamed, value->active, value->weak, l->slots[slot].class};
	}
	for (size_t i = 0; i < l->touched_count && status == STATUS_OK; i++) {
		const uint32_t class = l->slots[l->touched[i]].class;
		if (class != NO_SLOT && holds_other(l, l->touched[i], class))
			status = split_class(l, draft, class);
	}
	for (size_t i = 0; i < l->touched_count && status == STATUS_OK; i++)
		if (l->slots[l->touched[i]].class == NO_SLOT)
			status = join_class(l, draft, l->touched[i]);
	l->body->regions[0].end = (uint32_t)l->body->instr_count;
	return status;
}

static struct draft_item *add_item(struct lowering *l, struct draft_item *list)
{
	struct draft_item *grown = arena_grow(l->context->arena, list->items, list->count, &list->capacity, sizeof *grown);
	if (!grown)
		return NULL;
	list->items = grown;
	return &grown[list->count++];
}

enum status lowering_put_off(struct lowering *l, const struct node *node)
{
	const struct node **grown =
		arena_grow(l->context->arena, l->preludes, l->prelude_count, &l->prelude_capacity, sizeof *grown);
	if (!grown)
		return lowering_memory(l);
	l->preludes = grown;
	grown[l->prelude_count++] = node;
	return STATUS_OK;
}

/* The step of NODE; where that is NULL, of nothing but what has been put off. */
static enum status draft_step(struct lowering *l, const struct node *node, struct draft_item *list)
{
	struct draft_step *draft = arena_alloc(l->context->arena, sizeof *draft);
	struct body *body = arena_alloc(l->context->arena, sizeof *body);
	struct draft_item *item = add_item(l, list);
	if (!draft || !body || !item)
		return lowering_memory(l);
	body_init(body, l->context->arena);
	if (!body->regions)
		return lowering_memory(l);
	lowering_begin_body(l, body);
	draft->body = body;
	draft->span = node ? node->span : l->preludes[l->preludes_bound]->span;
	enum status status = STATUS_OK;
	while (l->preludes_bound < l->prelude_count && status == STATUS_OK)
		status = lower_node(l, l->preludes[l->preludes_bound++]);
	if (node && status == STATUS_OK)
		status = lower_node(l, node);
	if (status == STATUS_OK && l->written[0]) /* by `use`: what steps hand on is theirs */
		status = lowering_copy_param(l, &l->now[0], draft->span);
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

/* repeat M { repeat N { ... } } is repeat M*N { ... }: one loop of equal iterations is what closed forms know. */
static void join_loops(struct draft_item *loop)
{
	if (!loop->repeats || loop->count != 1 || loop->items[0].draft || !loop->items[0].repeats)
		return;
	struct draft_item inner = loop->items[0];
	inner.iterations *=
		loop->iterations; /* at most as many as steps; where a iteration has none, nothing looks at them */
	inner.steps = loop->steps;
	*loop = inner;
}

static enum status draft_loop(struct lowering *l, const struct node *node, struct draft_item *list)
{
	int64_t iterations, iteration = 0;
	struct param_ref *refs;
	struct slot *before = arena_array(l->context->arena, l->slot_count, sizeof *before);
	if (!before)
		return lowering_memory(l);
	enum status status = lowering_begin_loop(l, node, &refs, &iterations);
	if (status)
		return status;
	while (node->body && iteration < iterations) {
		memcpy(before, l->slots, l->slot_count * sizeof *before);
		struct draft_item iteration_items = {.level = l->level, .first = iteration, .iterations = 1};
		if (node->kind == NODE_FOR)
			status = lowering_set_iteration(l, node, refs, (struct index){l->level, 0}, iteration);
		const size_t preludes = l->prelude_count;
		const bool binds = l->preludes_bound < preludes; /* as no other iteration does */
		l->level++;
		if (status == STATUS_OK)
			status = lowering_draft_steps(l, node->body, &iteration_items);
		if (status == STATUS_OK && lowering_owes_step(l, preludes))
			status = draft_step(l, NULL, &iteration_items); /* as it is in this iteration */
		l->level--;
		if (status)
			return status;
		if (!binds && same_slots(before, l->slots, l->slot_count))
			iteration_items.iterations = iterations - iteration;
		int64_t steps;
		if (!checked_mul_i64(iteration_items.steps, iteration_items.iterations, &steps) ||
		    steps > MAX_STEPS - list->steps)
			return lowering_too_long(l, node->span);
		iteration += iteration_items.iterations;
		iteration_items.steps = steps;
		list->steps += steps;
		struct draft_item *item = add_item(l, list);
		if (!item)
			return lowering_memory(l);
		*item = iteration_items;
		item->repeats = node->kind == NODE_REPEAT;
		join_loops(item);
	}
	return STATUS_OK;
}

enum status lowering_draft_steps(struct lowering *l, const struct node *node, struct draft_item *list)
{
	enum status status = STATUS_OK;
	for (; node && node != l->end && status == STATUS_OK; node = node->next) {
		if (node->kind == NODE_REPEAT || node->kind == NODE_FOR)
			status = draft_loop(l, node, list);
		else if (is_prelude(node))
			status = lowering_put_off(l, node);
		else
			status = draft_step(l, node, list);
		if (status == STATUS_OK && list->steps > MAX_STEPS)
			status = lowering_too_long(l, node->span);
	}
	return status;
}
