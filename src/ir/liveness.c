/*
 * From drafts to steps: liveness, from the last step to the first, over sets of slots.
 * Turns of a loop that need and leave the same sets are one step, done again; those
 * before the sets are stable are set apart.
 */
#include "ir/lowering.h"

#include <string.h>

static const uint32_t UNNUMBERED = UINT32_MAX;

/* A set of slots: which are in it, and those that are, ascending. */
struct set {
	bool *has; /* by slot */
	uint32_t *list;
	uint32_t count;
};

struct sets {
	struct set live, cot;
};

static bool set_init(struct set *set, struct lowering *l)
{
	*set = (struct set){arena_array(l->context->arena, l->slot_count, sizeof *set->has),
	                    arena_array(l->context->arena, l->slot_count, sizeof *set->list), 0};
	return set->has && set->list;
}

static void set_add(struct set *set, uint32_t slot)
{
	if (set->has[slot])
		return;
	set->has[slot] = true;
	uint32_t at = set->count++;
	for (; at > 0 && set->list[at - 1] > slot; at--)
		set->list[at] = set->list[at - 1];
	set->list[at] = slot;
}

static void set_remove(struct set *set, uint32_t slot)
{
	if (!set->has[slot])
		return;
	set->has[slot] = false;
	uint32_t at = 0;
	while (set->list[at] != slot)
		at++;
	memmove(&set->list[at], &set->list[at + 1], (--set->count - at) * sizeof *set->list);
}

static void set_empty(struct set *set)
{
	while (set->count)
		set->has[set->list[--set->count]] = false;
}

static void set_fill(struct set *set, const uint32_t *list, uint32_t count)
{
	set_empty(set);
	for (uint32_t i = 0; i < count; i++)
		set_add(set, list[i]);
}

static bool set_equals(const struct set *set, const uint32_t *list, uint32_t count)
{
	return set->count == count && memcmp(set->list, list, count * sizeof *list) == 0;
}

/* SET as it is now; SAME, of SAME_COUNT slots, where that is equal (or NULL). NULL where memory is short. */
static const uint32_t *list_of(struct lowering *l, const struct set *set, uint32_t *count, const uint32_t *same,
                               uint32_t same_count)
{
	*count = set->count;
	if (same && set_equals(set, same, same_count))
		return same;
	uint32_t *list = arena_array(l->context->arena, set->count + 1, sizeof *list);
	if (list)
		memcpy(list, set->list, set->count * sizeof *list);
	return list;
}

static enum status add_item_front(struct lowering *l, struct item **items, size_t *count, size_t *capacity,
                                  struct item item)
{
	/* Items are collected back to front and reversed at the end. */
	struct item *grown = arena_grow(l->context->arena, *items, *count, capacity, sizeof *grown);
	if (!grown)
		return lowering_memory(l);
	*items = grown;
	grown[(*count)++] = item;
	return STATUS_OK;
}

/*
 * Which slots before STEP its live slots after need, and where the cotangents
 * after it go: to values of its body, or past it. l->slots is the state before.
 */
static enum status flow_back(struct lowering *l, struct step *step, struct sets *sets)
{
	const struct body *body = step->body;
	bool *needed = arena_array(l->context->arena, body->value_count + 1, sizeof *needed);
	bool *cot = arena_array(l->context->arena, body->value_count + 1, sizeof *cot);
	uint32_t *value_of = l->value_of;
	uint32_t *cot_to = arena_array(l->context->arena, step->cot_out_count + 1, sizeof *cot_to);
	uint32_t *cot_value = arena_array(l->context->arena, step->cot_out_count + 1, sizeof *cot_value);
	if (!needed || !cot || !cot_to || !cot_value)
		return lowering_memory(l);
	set_empty(&sets->cot);
	for (size_t i = 0; i < body->in_count; i++)
		value_of[body->ins[i].index] = body->ins[i].value;
	for (uint32_t i = 0; i < step->cot_out_count; i++) {
		uint32_t class = l->slots[step->cot_out[i]].class;
		uint32_t taker = value_of[class];
		bool written = false;
		for (size_t k = 0; k < body->out_count; k++)
			if (body->outs[k].index == step->cot_out[i]) {
				written = true;
				taker = body->outs[k].value;
			}
		cot_value[i] = taker;
		cot_to[i] = taker == NO_VALUE ? class : NO_VALUE;
		if (taker == NO_VALUE)
			set_add(&sets->cot, class);
		else
			cot[taker] |= !written || body->values[taker].active;
	}
	for (size_t i = 0; i < body->in_count; i++)
		value_of[body->ins[i].index] = NO_VALUE;
	step->cot_to = cot_to;
	step->cot_value = cot_value;
	for (size_t i = 0; i < body->out_count; i++)
		needed[body->outs[i].value] |= sets->live.has[body->outs[i].index];
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *instr = &body->instrs[i];
		const struct op_info *info = &op_table[instr->op];
		if (instr->out == NO_VALUE)
			continue;
		bool wanted = needed[instr->out], carries = cot[instr->out] && instr->kind == INSTR_OP;
		if (instr->v != NO_VALUE) {
			needed[instr->v] |= wanted;
			cot[instr->v] |= carries && info->differentiable && body->values[instr->v].active;
		}
		if (instr->a != NO_VALUE) {
			needed[instr->a] |= wanted;
			cot[instr->a] |= carries && info->operand_differentiable && body->values[instr->a].active;
		}
	}
	for (size_t i = 0; i < body->out_count; i++)
		set_remove(&sets->live, body->outs[i].index);
	for (size_t i = 0; i < body->in_count; i++) {
		if (needed[body->ins[i].value])
			set_add(&sets->live, body->ins[i].index);
		if (cot[body->ins[i].value])
			set_add(&sets->cot, body->ins[i].index);
	}
	return STATUS_OK;
}

static const struct type *const *types_of(struct lowering *l, const uint32_t *slots, uint32_t count)
{
	const struct type **types = arena_array(l->context->arena, count + 1, sizeof *types);
	for (uint32_t i = 0; types && i < count; i++)
		types[i] = l->slots[slots[i]].type;
	return types;
}

/* Which slots before STEP, l->slots, hold the same array. */
static bool note_classes(struct lowering *l, struct step *step)
{
	uint32_t *class_in = arena_array(l->context->arena, step->live_in_count + 1, sizeof *class_in);
	bool *alias_in = arena_array(l->context->arena, step->live_in_count + 1, sizeof *alias_in);
	if (!class_in || !alias_in || !step->live_in)
		return false;
	uint32_t *first = l->value_of; /* by class: not NO_VALUE where there was one */
	for (uint32_t i = 0; i < step->live_in_count; i++) {
		const uint32_t class = class_in[i] = l->slots[step->live_in[i]].class;
		alias_in[i] = first[class] != NO_VALUE;
		first[class] = i;
	}
	for (uint32_t i = 0; i < step->live_in_count; i++)
		first[class_in[i]] = NO_VALUE;
	step->class_in = class_in;
	step->alias_in = alias_in;
	return true;
}

static enum status finish_step(struct lowering *l, struct draft_step *draft, struct sets *sets,
                               const struct step *after, struct step **made)
{
	struct step *old = draft->last;
	bool same = old && set_equals(&sets->live, old->live_out, old->live_out_count) &&
	            set_equals(&sets->cot, old->cot_out, old->cot_out_count);
	struct step *step = same ? old : arena_alloc(l->context->arena, sizeof *step);
	if (!step)
		return lowering_memory(l);
	if (!same) {
		step->body = draft->body;
		step->span = draft->span;
		step->id = UNNUMBERED;
		l->out->distinct_count++;
		step->live_out = list_of(l, &sets->live, &step->live_out_count, after ? after->live_in : NULL,
		                         after ? after->live_in_count : 0);
		step->cot_out =
			list_of(l, &sets->cot, &step->cot_out_count, after ? after->cot_in : NULL, after ? after->cot_in_count : 0);
		step->out_types = step->live_out ? types_of(l, step->live_out, step->live_out_count) : NULL;
	}
	for (const struct change *c = draft->changes; c; c = c->next)
		l->slots[c->slot] = c->before;
	if (same) {
		set_fill(&sets->live, step->live_in, step->live_in_count);
		set_fill(&sets->cot, step->cot_in, step->cot_in_count);
	} else {
		enum status status = flow_back(l, step, sets);
		if (status)
			return status;
		step->live_in = list_of(l, &sets->live, &step->live_in_count, step->live_out, step->live_out_count);
		step->cot_in = list_of(l, &sets->cot, &step->cot_in_count, step->cot_out, step->cot_out_count);
		step->in_types = step->live_in ? types_of(l, step->live_in, step->live_in_count) : NULL;
		if (!note_classes(l, step) || !step->in_types || !step->out_types || !step->live_out || !step->cot_out ||
		    !step->cot_in)
			return lowering_memory(l);
	}
	draft->last = step;
	*made = step;
	return STATUS_OK;
}

static enum status finish_items(struct lowering *l, const struct draft_item *list, struct sets *sets,
                                struct item **items, size_t *count);

static enum status finish_loop(struct lowering *l, const struct draft_item *loop, struct sets *sets,
                               struct item **items, size_t *count, size_t *capacity)
{
	int64_t per_iteration = loop->iterations ? loop->steps / loop->iterations : 0;
	for (int64_t left = loop->iterations; left > 0;) {
		uint32_t live_count, cot_count;
		const uint32_t *live = list_of(l, &sets->live, &live_count, NULL, 0);
		const uint32_t *cot = list_of(l, &sets->cot, &cot_count, NULL, 0);
		if (!live || !cot)
			return lowering_memory(l);
		struct item item = {.level = loop->level};
		enum status status = finish_items(l, loop, sets, &item.items, &item.count);
		if (status)
			return status;
		bool stable = set_equals(&sets->live, live, live_count) && set_equals(&sets->cot, cot, cot_count);
		item.iterations = stable ? left : 1;
		left -= item.iterations;
		item.first = loop->first + left;
		item.steps = per_iteration * item.iterations;
		status = add_item_front(l, items, count, capacity, item);
		if (status)
			return status;
	}
	return STATUS_OK;
}

/* Liveness of one iteration of LIST; its items in order. */
static enum status finish_items(struct lowering *l, const struct draft_item *list, struct sets *sets,
                                struct item **items, size_t *count)
{
	size_t capacity = 0;
	const struct step *after = NULL;
	*items = NULL;
	*count = 0;
	for (size_t i = list->count; i-- > 0;) {
		const struct draft_item *draft = &list->items[i];
		enum status status;
		if (draft->draft) {
			struct item item = {.level = -1, .steps = 1};
			status = finish_step(l, draft->draft, sets, after, &item.step);
			after = item.step;
			if (status == STATUS_OK)
				status = add_item_front(l, items, count, &capacity, item);
		} else {
			after = NULL;
			status = finish_loop(l, draft, sets, items, count, &capacity);
		}
		if (status)
			return status;
	}
	for (size_t i = 0; i < *count / 2; i++) {
		struct item swap = (*items)[i];
		(*items)[i] = (*items)[*count - 1 - i];
		(*items)[*count - 1 - i] = swap;
	}
	return STATUS_OK;
}

/* Numbers the *NUMBERED and on distinct steps in the order in which they first run. */
static void number_steps(const struct step **distinct, uint32_t *numbered, struct item *items, size_t count)
{
	int64_t start = 0;
	for (size_t i = 0; i < count; i++) {
		items[i].start = start;
		start += items[i].steps;
		if (!items[i].step) {
			number_steps(distinct, numbered, items[i].items, items[i].count);
		} else if (items[i].step->id == UNNUMBERED) {
			items[i].step->id = *numbered;
			distinct[(*numbered)++] = items[i].step;
		}
	}
}

enum status lowering_finish_steps(struct lowering *l, const struct draft_item *list)
{
	struct lowered *out = l->out;
	struct sets sets;
	if (!set_init(&sets.live, l) || !set_init(&sets.cot, l))
		return lowering_memory(l);
	set_add(&sets.live, 0);
	if (l->slots[0].active)
		set_add(&sets.cot, 0);
	enum status status = finish_items(l, list, &sets, &out->items, &out->item_count);
	if (status)
		return status;
	out->steps = list->steps;
	const struct step **distinct = arena_array(l->context->arena, out->distinct_count + 1, sizeof *distinct);
	if (!distinct)
		return lowering_memory(l);
	uint32_t numbered = 0;
	number_steps(distinct, &numbered, out->items, out->item_count);
	out->distinct = distinct;
	return STATUS_OK;
}
