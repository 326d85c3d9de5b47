/*
 * Makes steps of drafts, from the last to the first, with two sets of slots. A slot is live if the output depends on
 * its value. The other set has the slots whose values have a cotangent.
 *
 * The walk begins with the last iteration of a loop. Until an iteration has equal sets before and after it, each is a
 * loop of its own. All earlier iterations share the steps of that one.
 */
#include "ir/lowering.h"

#include <string.h>

static const uint32_t UNNUMBERED = UINT32_MAX;

/* A set of slots. */
struct set {
	bool *has;      /* by slot */
	uint32_t *list; /* its slots, ascending */
	uint32_t count;
};

struct sets {
	struct set live, cot;
};

static bool set_init(struct set *set, struct lowering *l)
{
	*set = (struct set){arena_array(&l->scratch, l->state.count, sizeof *set->has),
	                    arena_array(&l->scratch, l->state.count, sizeof *set->list), 0};
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

static void set_fill(struct set *set, struct slot_list list)
{
	set_empty(set);
	for (uint32_t i = 0; i < list.count; i++)
		set_add(set, list.slots[i]);
}

static bool set_equals(const struct set *set, struct slot_list list)
{
	return set->count == list.count && memcmp(set->list, list.slots, list.count * sizeof *list.slots) == 0;
}

/* Returns SET as a list, whose slots are NULL where memory is short. */
static struct slot_list list_of(struct lowering *l, const struct set *set)
{
	return (struct slot_list){byte_set_keep(&l->kept, set->list, set->count * sizeof *set->list, NULL), set->count};
}

/* A list of items in reverse order: the last comes first, until finish_items reverses the list. */
struct item_list {
	struct item *items;
	size_t count, capacity;
};

static bool add_front(struct lowering *l, struct item_list *list, struct item item)
{
	struct item *added = arena_append(l->context->arena, &list->items, &list->count, &list->capacity, sizeof *added);
	if (added)
		*added = item;
	return added != NULL;
}

/* Returns the one list of the COUNT ITEMS of SIZE bytes each. NULL where memory is short. */
static const void *keep_list(struct lowering *l, const void *items, size_t count, size_t size)
{
	return byte_set_keep(&l->kept, items, count * size, NULL);
}

/*
 * Finds where each cotangent after STEP goes: to the value that the body writes to the slot, or as which it reads the
 * slot's class. Otherwise it passes to that class, in BEFORE. COT marks the values, a written one only if active.
 */
static bool take_cotangents(struct lowering *l, struct step *step, struct set *before, bool *cot)
{
	const struct body *body = step->body;
	const uint32_t count = step->cot_out.count;
	uint32_t *read_as = l->state.work; /* by class */
	uint32_t *cot_to = l->lists.cot_to, *cot_value = l->lists.cot_value, *read = l->lists.read;
	for (size_t i = 0; i < body->in_count; i++)
		read_as[step_slot(step, &body->ins[i])] = body->ins[i].value;
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t slot = step->cot_out.slots[i], class = l->state.slots[slot].class;
		uint32_t taker = read_as[class];
		bool written = false;
		for (size_t k = 0; k < body->out_count; k++)
			if (step_slot(step, &body->outs[k]) == slot) {
				written = true;
				taker = body->outs[k].value;
			}
		cot_value[i] = taker;
		cot_to[i] = taker == NO_VALUE ? class : NO_VALUE;
		if (cot_to[i] != slot)
			l->lists.moved[step->moved_count++] = i;
		if (taker == NO_VALUE)
			set_add(before, class);
		else
			cot[taker] |= !written || body->values[taker].active;
		if (taker != NO_VALUE)
			read[step->cot_read.count++] = slot;
	}
	for (size_t i = 0; i < body->in_count; i++)
		read_as[step_slot(step, &body->ins[i])] = NO_VALUE;
	step->cot_to = keep_list(l, cot_to, count, sizeof *cot_to);
	step->cot_value = keep_list(l, cot_value, count, sizeof *cot_value);
	step->cot_read.slots = keep_list(l, read, step->cot_read.count, sizeof *read);
	step->moved = keep_list(l, l->lists.moved, step->moved_count, sizeof *step->moved);
	return step->cot_to && step->cot_value && step->moved && step->cot_read.slots;
}

/*
 * Passes the marks of each instruction's result to the values that it reads, from the last instruction to the first.
 * NEEDED: a live slot depends on the value. COT: the value has a cotangent.
 */
static void mark_back(const struct body *body, bool *needed, bool *cot)
{
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *instr = &body->instrs[i];
		if (instr->out == NO_VALUE)
			continue;
		const bool differs = cot[instr->out] && instr->kind == INSTR_OP;
		for (uint32_t k = 0; k < instr_value_count(instr); k++) {
			const uint32_t value = instr_value(instr, k);
			if (value == NO_VALUE)
				continue;
			needed[value] |= needed[instr->out];
			cot[value] |= differs && instr_differentiable(instr, k) && body->values[value].active;
		}
	}
}

/* Replaces SETS, the sets after STEP, by those before it. Returns false where memory is short. */
static bool flow_back(struct lowering *l, struct step *step, struct sets *sets)
{
	const struct body *body = step->body;
	struct value_marks *marks = &l->marks;
	const size_t count = body->value_count;
	if (count >= marks->capacity) { /* a body may have no values, but memset wants an array */
		marks->capacity = 2 * count + 1;
		marks->needed = arena_array(&l->scratch, marks->capacity, sizeof *marks->needed);
		marks->cot = arena_array(&l->scratch, marks->capacity, sizeof *marks->cot);
	}
	bool *needed = marks->needed, *cot = marks->cot;
	set_empty(&sets->cot);
	if (l->scratch.failed)
		return false;
	memset(needed, 0, count * sizeof *needed);
	memset(cot, 0, count * sizeof *cot);
	if (!take_cotangents(l, step, &sets->cot, cot))
		return false;
	for (size_t i = 0; i < body->out_count; i++)
		needed[body->outs[i].value] |= sets->live.has[step_slot(step, &body->outs[i])];
	mark_back(body, needed, cot);
	for (size_t i = 0; i < body->out_count; i++)
		set_remove(&sets->live, step_slot(step, &body->outs[i]));
	for (size_t i = 0; i < body->in_count; i++) {
		if (needed[body->ins[i].value])
			set_add(&sets->live, step_slot(step, &body->ins[i]));
		if (cot[body->ins[i].value])
			set_add(&sets->cot, step_slot(step, &body->ins[i]));
	}
	return true;
}

static const struct type *const *types_of(struct lowering *l, struct slot_list list)
{
	const struct type **types = l->lists.types;
	for (uint32_t i = 0; list.slots && i < list.count; i++)
		types[i] = l->state.slots[list.slots[i]].type;
	return keep_list(l, types, list.count, sizeof(const struct type *));
}

/* Makes a step of DRAFT with the lists of the state after it. */
static struct step *new_step(struct lowering *l, const struct draft_step *draft, const struct sets *sets)
{
	struct step *step = arena_alloc(l->context->arena, sizeof *step);
	if (!step)
		return NULL;
	step->body = draft->body;
	step->own = draft->own;
	step->span = draft->span;
	step->id = UNNUMBERED;
	l->out->distinct_count++;
	step->live_out = list_of(l, &sets->live);
	step->cot_out = list_of(l, &sets->cot);
	step->out_types = types_of(l, step->live_out);
	return step->live_out.slots && step->cot_out.slots && step->out_types ? step : NULL;
}

/* Describes in STEP, which is new, the state before it, l->state.slots. SETS become those before it. */
static bool begin_step(struct lowering *l, struct step *step, struct sets *sets)
{
	if (!flow_back(l, step, sets))
		return false;
	const struct slot_list in = step->live_in = list_of(l, &sets->live);
	uint32_t *class_in = l->lists.class_in;
	bool *alias_in = l->lists.alias_in;
	step->cot_in = list_of(l, &sets->cot);
	if (!in.slots || !step->cot_in.slots)
		return false;
	uint32_t *first = l->state.work; /* by class; NO_VALUE before its first slot */
	for (uint32_t i = 0; i < in.count; i++) {
		const uint32_t class = class_in[i] = l->state.slots[in.slots[i]].class;
		alias_in[i] = first[class] != NO_VALUE;
		first[class] = i;
	}
	for (uint32_t i = 0; i < in.count; i++)
		first[class_in[i]] = NO_VALUE;
	step->in_types = types_of(l, in);
	step->class_in = keep_list(l, class_in, in.count, sizeof *class_in);
	step->alias_in = keep_list(l, alias_in, in.count, sizeof *alias_in);
	return step->in_types && step->class_in && step->alias_in;
}

/* Returns a step of DRAFT: draft->last if it has SETS after it. Undoes DRAFT's changes. SETS become those before it. */
static struct step *finish_step(struct lowering *l, struct draft_step *draft, struct sets *sets)
{
	struct step *step = draft->last;
	const bool old = step && set_equals(&sets->live, step->live_out) && set_equals(&sets->cot, step->cot_out);
	if (!old)
		step = draft->last = new_step(l, draft, sets);
	for (const struct change *c = draft->changes; c; c = c->next)
		l->state.slots[c->slot] = c->before;
	if (!old)
		return step && begin_step(l, step, sets) ? step : NULL;
	set_fill(&sets->live, step->live_in);
	set_fill(&sets->cot, step->cot_in);
	return step;
}

static bool finish_items(struct lowering *l, const struct draft_item *list, struct sets *sets, struct item_list *items);

/* Adds to LIVE, before an iteration of a watched LOOP, what its condition and the steps after the loop read. */
static void keep_watched(const struct lowering *l, const struct draft_item *loop, struct slot_list after,
                         struct set *live)
{
	const struct body *condition = loop->condition;
	for (size_t i = 0; condition && i < condition->in_count; i++)
		set_add(live, condition->ins[i].index);
	for (uint32_t i = 0; condition && i < after.count; i++)
		if (l->state.slots[after.slots[i]].type)
			set_add(live, after.slots[i]);
}

static bool finish_iterations(struct lowering *l, const struct draft_item *loop, struct sets *sets,
                              struct item_list *items)
{
	int64_t per_iteration = loop->iterations ? loop->steps / loop->iterations : 0;
	for (int64_t left = loop->iterations; left > 0;) {
		const struct slot_list live = list_of(l, &sets->live), cot = list_of(l, &sets->cot);
		struct item_list body = {0};
		if (!live.slots || !cot.slots || !finish_items(l, loop, sets, &body))
			return false;
		keep_watched(l, loop, live, &sets->live);
		bool stable = set_equals(&sets->live, live) && set_equals(&sets->cot, cot);
		struct item item = {
			.items = body.items, .count = body.count, .level = loop->level, .iterations = stable ? left : 1};
		left -= item.iterations;
		item.first = loop->first + left;
		item.steps = per_iteration * item.iterations;
		if (!add_front(l, items, item))
			return false;
	}
	return true;
}

/* Fills ITEMS, in order, with the items of one iteration of LIST. */
static bool finish_items(struct lowering *l, const struct draft_item *list, struct sets *sets, struct item_list *items)
{
	items->items = arena_array(l->context->arena, list->count, sizeof *items->items);
	items->capacity = list->count; /* a loop may become several items */
	if (!items->items)
		return false;
	for (size_t i = list->count; i-- > 0;) {
		const struct draft_item *draft = &list->items[i];
		if (draft->draft) {
			struct step *step = finish_step(l, draft->draft, sets);
			if (!step || !add_front(l, items, (struct item){.level = -1, .steps = 1, .step = step}))
				return false;
		} else if (!finish_iterations(l, draft, sets, items)) {
			return false;
		}
	}
	for (size_t i = 0; i < items->count / 2; i++) {
		struct item *front = &items->items[i], *back = &items->items[items->count - 1 - i], swap = *front;
		*front = *back;
		*back = swap;
	}
	return true;
}

/*
 * Sets each item's start and row. Numbers the steps without a number, from *NUMBERED on, in the order of their first
 * run.
 */
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
	for (size_t i = count; i-- > 0;) {
		const struct step *step = items[i].step, *next = i + 1 < count ? items[i + 1].step : NULL;
		items[i].row = step && next && next->id == step->id + 1 ? items[i + 1].row + 1 : 1;
	}
}

static bool lists_init(struct lowering *l)
{
	const size_t count = l->state.count;
	l->lists = (struct slot_lists){.cot_to = arena_array(&l->scratch, count, sizeof *l->lists.cot_to),
	                               .cot_value = arena_array(&l->scratch, count, sizeof *l->lists.cot_value),
	                               .moved = arena_array(&l->scratch, count, sizeof *l->lists.moved),
	                               .read = arena_array(&l->scratch, count, sizeof *l->lists.read),
	                               .class_in = arena_array(&l->scratch, count, sizeof *l->lists.class_in),
	                               .alias_in = arena_array(&l->scratch, count, sizeof *l->lists.alias_in),
	                               .types = arena_array(&l->scratch, count, sizeof *l->lists.types)};
	return !l->scratch.failed;
}

enum status lowering_finish_steps(struct lowering *l, const struct draft_item *list)
{
	struct lowered *out = l->out;
	struct sets sets;
	TRY_ALLOC(set_init(&sets.live, l) && set_init(&sets.cot, l) && lists_init(l), l->context->diags);
	set_add(&sets.live, 0);
	if (l->state.slots[0].active)
		set_add(&sets.cot, 0);
	struct item_list items = {0};
	TRY_ALLOC(finish_items(l, list, &sets, &items), l->context->diags);
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
