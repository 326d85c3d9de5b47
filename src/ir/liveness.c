/*
 * From drafts to steps: liveness, from the last step to the first, over sets of slots. A slot is live if a later step
 * or the output reads it; another set has the slots whose values have a cotangent.
 *
 * Iterations of a loop that need and leave the same sets share their steps. The last iterations, before the sets are
 * stable, are loops of their own.
 */
#include "ir/lowering.h"

#include <string.h>

static const uint32_t UNNUMBERED = UINT32_MAX;

/* A set of slots. */
struct set {
	bool *has;      /* by slot */
	uint32_t *list; /* those in it, ascending */
	uint32_t count;
};

struct sets {
	struct set live, cot;
};

static bool set_init(struct set *set, struct lowering *l)
{
	*set = (struct set){arena_array(l->context->arena, l->state.count, sizeof *set->has),
	                    arena_array(l->context->arena, l->state.count, sizeof *set->list), 0};
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

/* A list of SET: the list SAME of SAME_COUNT slots where that is equal (SAME may be NULL), or a new one, or NULL. */
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

/* A list of items that grows from its back to its front: the last comes first until it is turned around. */
struct item_list {
	struct item *items;
	size_t count, capacity;
};

static enum status add_front(struct lowering *l, struct item_list *list, struct item item)
{
	struct item *grown = arena_grow(l->context->arena, list->items, list->count, &list->capacity, sizeof *grown);
	TRY_ALLOC(grown, l->context->diags);
	list->items = grown;
	grown[list->count++] = item;
	return STATUS_OK;
}

/* Marks in a bool for each value of a step's body. */
struct marks {
	bool *needed; /* what a live slot is made of */
	bool *cot;    /* what has a cotangent */
};

/*
 * Where each cotangent after STEP goes: to the value of its body that the slot ends with, or, past the body, to the
 * slot's class before it.
 */
static enum status take_cotangents(struct lowering *l, struct step *step, struct set *before, bool *cot)
{
	const struct body *body = step->body;
	uint32_t *read_as = l->state.work; /* by class */
	uint32_t *cot_to = arena_array(l->context->arena, step->cot_out_count + 1, sizeof *cot_to);
	uint32_t *cot_value = arena_array(l->context->arena, step->cot_out_count + 1, sizeof *cot_value);
	TRY_ALLOC(cot_to && cot_value, l->context->diags);
	for (size_t i = 0; i < body->in_count; i++)
		read_as[body->ins[i].index] = body->ins[i].value;
	for (uint32_t i = 0; i < step->cot_out_count; i++) {
		const uint32_t class = l->state.slots[step->cot_out[i]].class;
		uint32_t taker = read_as[class];
		bool written = false;
		for (size_t k = 0; k < body->out_count; k++)
			if (body->outs[k].index == step->cot_out[i]) {
				written = true;
				taker = body->outs[k].value;
			}
		cot_value[i] = taker;
		cot_to[i] = taker == NO_VALUE ? class : NO_VALUE;
		if (taker == NO_VALUE)
			set_add(before, class);
		else
			cot[taker] |= !written || body->values[taker].active;
	}
	for (size_t i = 0; i < body->in_count; i++)
		read_as[body->ins[i].index] = NO_VALUE;
	step->cot_to = cot_to;
	step->cot_value = cot_value;
	return STATUS_OK;
}

/* Passes the marks of each instruction's result to what it reads, from the last to the first. */
static void mark_back(const struct body *body, const struct marks *marks)
{
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *instr = &body->instrs[i];
		const struct op_info *info = &op_table[instr->op];
		if (instr->out == NO_VALUE)
			continue;
		const bool needed = marks->needed[instr->out], cot = marks->cot[instr->out] && instr->kind == INSTR_OP;
		if (instr->v != NO_VALUE) {
			marks->needed[instr->v] |= needed;
			marks->cot[instr->v] |= cot && info->differentiable && body->values[instr->v].active;
		}
		if (instr->a != NO_VALUE) {
			marks->needed[instr->a] |= needed;
			marks->cot[instr->a] |= cot && info->operand_differentiable && body->values[instr->a].active;
		}
	}
}

/* Makes SETS, the sets after STEP, those before it. l->state.slots is the state before. */
static enum status flow_back(struct lowering *l, struct step *step, struct sets *sets)
{
	const struct body *body = step->body;
	const struct marks marks = {arena_array(l->context->arena, body->value_count + 1, sizeof *marks.needed),
	                            arena_array(l->context->arena, body->value_count + 1, sizeof *marks.cot)};
	TRY_ALLOC(marks.needed && marks.cot, l->context->diags);
	set_empty(&sets->cot);
	TRY(take_cotangents(l, step, &sets->cot, marks.cot));
	for (size_t i = 0; i < body->out_count; i++)
		marks.needed[body->outs[i].value] |= sets->live.has[body->outs[i].index];
	mark_back(body, &marks);
	for (size_t i = 0; i < body->out_count; i++)
		set_remove(&sets->live, body->outs[i].index);
	for (size_t i = 0; i < body->in_count; i++) {
		if (marks.needed[body->ins[i].value])
			set_add(&sets->live, body->ins[i].index);
		if (marks.cot[body->ins[i].value])
			set_add(&sets->cot, body->ins[i].index);
	}
	return STATUS_OK;
}

static const struct type *const *types_of(struct lowering *l, const uint32_t *slots, uint32_t count)
{
	const struct type **types = arena_array(l->context->arena, count + 1, sizeof *types);
	for (uint32_t i = 0; types && i < count; i++)
		types[i] = l->state.slots[slots[i]].type;
	return types;
}

/* Notes which slots before STEP hold the same array. l->state.slots is the state before. */
static bool note_classes(struct lowering *l, struct step *step)
{
	uint32_t *class_in = arena_array(l->context->arena, step->live_in_count + 1, sizeof *class_in);
	bool *alias_in = arena_array(l->context->arena, step->live_in_count + 1, sizeof *alias_in);
	if (!class_in || !alias_in || !step->live_in)
		return false;
	uint32_t *first = l->state.work; /* by class; NO_VALUE before its first slot */
	for (uint32_t i = 0; i < step->live_in_count; i++) {
		const uint32_t class = class_in[i] = l->state.slots[step->live_in[i]].class;
		alias_in[i] = first[class] != NO_VALUE;
		first[class] = i;
	}
	for (uint32_t i = 0; i < step->live_in_count; i++)
		first[class_in[i]] = NO_VALUE;
	step->class_in = class_in;
	step->alias_in = alias_in;
	return true;
}

/* A new step of DRAFT. SETS, the sets after it, become those before it. AFTER, the next step or NULL, shares lists. */
static enum status new_step(struct lowering *l, struct draft_step *draft, struct sets *sets, const struct step *after,
                            struct step *step)
{
	static const struct step none;
	const struct step *next = after ? after : &none;
	step->body = draft->body;
	step->span = draft->span;
	step->id = UNNUMBERED;
	l->out->distinct_count++;
	step->live_out = list_of(l, &sets->live, &step->live_out_count, next->live_in, next->live_in_count);
	step->cot_out = list_of(l, &sets->cot, &step->cot_out_count, next->cot_in, next->cot_in_count);
	step->out_types = step->live_out ? types_of(l, step->live_out, step->live_out_count) : NULL;
	for (const struct change *c = draft->changes; c; c = c->next)
		l->state.slots[c->slot] = c->before;
	TRY(flow_back(l, step, sets));
	step->live_in = list_of(l, &sets->live, &step->live_in_count, step->live_out, step->live_out_count);
	step->cot_in = list_of(l, &sets->cot, &step->cot_in_count, step->cot_out, step->cot_out_count);
	step->in_types = step->live_in ? types_of(l, step->live_in, step->live_in_count) : NULL;
	TRY_ALLOC(step->in_types && step->out_types && step->live_out && step->cot_out && step->cot_in &&
	              note_classes(l, step),
	          l->context->diags);
	return STATUS_OK;
}

/* *STEP is the step of DRAFT: the one that was made of it before, if the sets after it are the same. */
static enum status finish_step(struct lowering *l, struct draft_step *draft, struct sets *sets,
                               const struct step *after, struct step **step)
{
	struct step *old = draft->last;
	if (!old || !set_equals(&sets->live, old->live_out, old->live_out_count) ||
	    !set_equals(&sets->cot, old->cot_out, old->cot_out_count)) {
		*step = draft->last = arena_alloc(l->context->arena, sizeof **step);
		return *step ? new_step(l, draft, sets, after, *step) : lowering_memory(l);
	}
	for (const struct change *c = draft->changes; c; c = c->next)
		l->state.slots[c->slot] = c->before;
	set_fill(&sets->live, old->live_in, old->live_in_count);
	set_fill(&sets->cot, old->cot_in, old->cot_in_count);
	*step = old;
	return STATUS_OK;
}

static enum status finish_items(struct lowering *l, const struct draft_item *list, struct sets *sets,
                                struct item_list *items);

static enum status finish_iterations(struct lowering *l, const struct draft_item *loop, struct sets *sets,
                                     struct item_list *items)
{
	int64_t per_iteration = loop->iterations ? loop->steps / loop->iterations : 0;
	for (int64_t left = loop->iterations; left > 0;) {
		uint32_t live_count, cot_count;
		const uint32_t *live = list_of(l, &sets->live, &live_count, NULL, 0);
		const uint32_t *cot = list_of(l, &sets->cot, &cot_count, NULL, 0);
		TRY_ALLOC(live && cot, l->context->diags);
		struct item_list body = {0};
		TRY(finish_items(l, loop, sets, &body));
		bool stable = set_equals(&sets->live, live, live_count) && set_equals(&sets->cot, cot, cot_count);
		struct item item = {
			.items = body.items, .count = body.count, .level = loop->level, .iterations = stable ? left : 1};
		left -= item.iterations;
		item.first = loop->first + left;
		item.steps = per_iteration * item.iterations;
		TRY(add_front(l, items, item));
	}
	return STATUS_OK;
}

/* The ITEMS, in order, of one iteration of LIST. */
static enum status finish_items(struct lowering *l, const struct draft_item *list, struct sets *sets,
                                struct item_list *items)
{
	const struct step *after = NULL;
	enum status status = STATUS_OK;
	for (size_t i = list->count; i-- > 0 && status == STATUS_OK;) {
		const struct draft_item *draft = &list->items[i];
		if (draft->draft) {
			struct item item = {.level = -1, .steps = 1};
			status = finish_step(l, draft->draft, sets, after, &item.step);
			after = item.step;
			if (status == STATUS_OK)
				status = add_front(l, items, item);
		} else {
			after = NULL;
			status = finish_iterations(l, draft, sets, items);
		}
	}
	for (size_t i = 0; i < items->count / 2; i++) {
		struct item *front = &items->items[i], *back = &items->items[items->count - 1 - i], swap = *front;
		*front = *back;
		*back = swap;
	}
	return status;
}

/* Numbers steps that have no number, from *NUMBERED on, in the order in which they first run. */
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
	TRY_ALLOC(set_init(&sets.live, l) && set_init(&sets.cot, l), l->context->diags);
	set_add(&sets.live, 0);
	if (l->state.slots[0].active)
		set_add(&sets.cot, 0);
	struct item_list items = {0};
	TRY(finish_items(l, list, &sets, &items));
	out->items = items.items;
	out->item_count = items.count;
	out->steps = list->steps;
	const struct step **distinct = arena_array(l->context->arena, out->distinct_count + 1, sizeof *distinct);
	TRY_ALLOC(distinct, l->context->diags);
	uint32_t numbered = 0;
	number_steps(distinct, &numbered, out->items, out->item_count);
	out->distinct = distinct;
	return STATUS_OK;
}
