/*
 * The steps of a chain as drafts, each with its body and what it changes of the state.
 * Loops whose state has the same types before and after a turn stay loops; turns that
 * change a type are set apart until one does not.
 */
#include "chain/lowering.h"

#include "base/checked.h"

#include <string.h>

/* What a slot holds at the end of a body, as a number: values first, then classes that were not read. */
static size_t held_by(const struct lowering *l, uint32_t slot)
{
	if (l->now[slot] != NO_VALUE)
		return l->now[slot];
	uint32_t class = l->slots[slot].class;
	return l->port[class] != NO_VALUE ? l->port[class] : l->body->value_count + class;
}

static uint32_t *lowest_room(struct lowering *l, size_t count)
{
	if (count > l->lowest_count) {
		l->lowest = arena_array(l->arena, 2 * count, sizeof *l->lowest);
		l->lowest_count = l->lowest ? 2 * count : 0;
	}
	return l->lowest;
}

enum status lowering_end_step(struct lowering *l, struct draft_step *draft)
{
	uint32_t *lowest = lowest_room(l, l->body->value_count + l->slot_count);
	struct slot *after = l->after;
	if (!lowest)
		return lowering_memory(l);
	memset(after, 0, l->slot_count * sizeof *after);
	for (uint32_t slot = (uint32_t)l->slot_count; slot-- > 0;)
		lowest[held_by(l, slot)] = slot;
	for (uint32_t slot = 0; slot < l->slot_count; slot++) {
		after[slot] = l->slots[slot];
		/* Names of defs are local: they have been made NO_VALUE again. */
		if (l->written[slot] && l->now[slot] != NO_VALUE) {
			const struct value *value = &l->body->values[l->now[slot]];
			if (!body_add_out(l->body, PORT_SLOT, slot, l->now[slot]))
				return lowering_memory(l);
			after[slot] = (struct slot){value->type, value->dtype, value->streamed, value->active, value->weak, 0};
		}
		after[slot].class = lowest[held_by(l, slot)];
	}
	for (uint32_t slot = 0; slot < l->slot_count; slot++) {
		if (slot_equal(&after[slot], &l->slots[slot]))
			continue;
		struct change *change = arena_alloc(l->arena, sizeof *change);
		if (!change)
			return lowering_memory(l);
		*change = (struct change){slot, l->slots[slot], draft->changes};
		draft->changes = change;
	}
	memcpy(l->slots, after, l->slot_count * sizeof *after);
	l->body->regions[0].end = (uint32_t)l->body->instr_count;
	return STATUS_OK;
}

static struct draft_item *add_item(struct lowering *l, struct draft_item *list)
{
	struct draft_item *grown = arena_grow(l->arena, list->items, list->count, &list->capacity, sizeof *grown);
	if (!grown)
		return NULL;
	list->items = grown;
	return &grown[list->count++];
}

enum status lowering_put_off(struct lowering *l, const struct node *node)
{
	const struct node **grown =
		arena_grow(l->arena, l->preludes, l->prelude_count, &l->prelude_capacity, sizeof *grown);
	if (!grown)
		return lowering_memory(l);
	l->preludes = grown;
	grown[l->prelude_count++] = node;
	return STATUS_OK;
}

/* The step of NODE; where that is NULL, of nothing but what has been put off. */
static enum status draft_step(struct lowering *l, const struct node *node, struct draft_item *list)
{
	struct draft_step *draft = arena_alloc(l->arena, sizeof *draft);
	struct body *body = arena_alloc(l->arena, sizeof *body);
	struct draft_item *item = add_item(l, list);
	if (!draft || !body || !item)
		return lowering_memory(l);
	body_init(body, l->arena);
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

/* repeat M { repeat N { ... } } is repeat M*N { ... }: one loop of equal turns is what closed forms know. */
static void join_loops(struct draft_item *loop)
{
	if (!loop->repeats || loop->count != 1 || loop->items[0].draft || !loop->items[0].repeats)
		return;
	struct draft_item inner = loop->items[0];
	inner.turns *= loop->turns; /* at most as many as steps; where a turn has none, nothing looks at them */
	inner.steps = loop->steps;
	*loop = inner;
}

static enum status draft_loop(struct lowering *l, const struct node *node, struct draft_item *list)
{
	int64_t turns = node->count, turn = 0;
	struct param_ref *refs = arena_array(l->arena, node->loop_count + 1, sizeof *refs);
	struct slot *before = arena_array(l->arena, l->slot_count, sizeof *before);
	if (!refs || !before)
		return lowering_memory(l);
	if (node->kind == NODE_FOR) {
		enum status status = lowering_begin_for(l, node, refs, &turns);
		if (status)
			return status;
	}
	while (node->body && turn < turns) {
		memcpy(before, l->slots, l->slot_count * sizeof *before);
		struct draft_item turn_items = {.level = l->level, .first = turn, .turns = 1};
		enum status status = STATUS_OK;
		if (node->kind == NODE_FOR)
			status = lowering_set_turn(l, node, refs, (struct index){l->level, 0}, turn);
		const size_t preludes = l->prelude_count;
		const bool binds = l->preludes_bound < preludes; /* as no other turn does */
		l->level++;
		if (status == STATUS_OK)
			status = lowering_draft_steps(l, node->body, &turn_items);
		if (status == STATUS_OK && lowering_owes_step(l, preludes))
			status = draft_step(l, NULL, &turn_items); /* as it is in this turn */
		l->level--;
		if (status)
			return status;
		if (!binds && same_slots(before, l->slots, l->slot_count))
			turn_items.turns = turns - turn;
		int64_t steps;
		if (!checked_mul_i64(turn_items.steps, turn_items.turns, &steps) || steps > MAX_STEPS - list->steps)
			return lowering_too_long(l, node->span);
		turn += turn_items.turns;
		turn_items.steps = steps;
		list->steps += steps;
		struct draft_item *item = add_item(l, list);
		if (!item)
			return lowering_memory(l);
		*item = turn_items;
		item->repeats = node->kind == NODE_REPEAT;
		join_loops(item);
	}
	return STATUS_OK;
}

enum status lowering_draft_steps(struct lowering *l, const struct node *node, struct draft_item *list)
{
	enum status status = STATUS_OK;
	for (; node && status == STATUS_OK; node = node->next) {
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
