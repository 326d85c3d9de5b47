/*
 * Makes steps of drafts, from the last to the first, with two sets of slots. A slot is live if the output depends on
 * its value. The other set has the classes whose values have a cotangent.
 *
 * The walk begins with the last iteration of a loop. Until an iteration has equal sets before and after it, each is a
 * loop of its own. All earlier iterations share the steps of that one.
 *
 * A step changes only what its draft touches: the slots of its ports and those whose classes it changes. So nothing
 * here looks at all slots of a state. Both sets are persistent maps, which the steps keep.
 * Tests: tests/unit/test_lower.c
 */
#include "ir/lowering.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static const uint32_t UNNUMBERED = UINT32_MAX;

/* The live slots, and the sums of their bytes. Sums are unsigned, since those of arrays too large for a run may wrap. */
struct live_set {
	const struct slot_map *map;
	uint32_t *first;       /* by class: its lowest live slot; NO_SLOT: none */
	uint32_t *next, *prev; /* by live slot: the neighbours in its class's list, ascending; NO_SLOT ends it */
	uint64_t slab, slots, once;
};

struct sets {
	struct live_set live;
	const struct slot_map *cot;
};

/* Adds ENTRY to the list of its class. */
static void link_entry(struct live_set *live, const struct slot_map *entry)
{
	const int64_t bytes = type_bytes(entry->type);
	uint32_t before = NO_SLOT, after = live->first[entry->class];
	if (entry->collected) /* it is in memory once, and no kept state has it */
		return;
	live->slots += (uint64_t)bytes;
	live->once += after == NO_SLOT ? (uint64_t)bytes : 0;
	live->slab += after == NO_SLOT ? (uint64_t)round_up(bytes, ARRAY_ALIGN) : 0;
	for (; after != NO_SLOT && after < entry->slot; after = live->next[after])
		before = after;
	live->next[entry->slot] = after;
	live->prev[entry->slot] = before;
	*(before == NO_SLOT ? &live->first[entry->class] : &live->next[before]) = entry->slot;
	if (after != NO_SLOT)
		live->prev[after] = entry->slot;
}

/* Removes ENTRY from the list of its class. */
static void unlink_entry(struct live_set *live, const struct slot_map *entry)
{
	const int64_t bytes = type_bytes(entry->type);
	const uint32_t before = live->prev[entry->slot], after = live->next[entry->slot];
	if (entry->collected)
		return;
	*(before == NO_SLOT ? &live->first[entry->class] : &live->next[before]) = after;
	if (after != NO_SLOT)
		live->prev[after] = before;
	const bool none = live->first[entry->class] == NO_SLOT;
	live->slots -= (uint64_t)bytes;
	live->once -= none ? (uint64_t)bytes : 0;
	live->slab -= none ? (uint64_t)round_up(bytes, ARRAY_ALIGN) : 0;
}

/* Makes ENTRY that of SLOT in LIVE; NULL: SLOT is not live. Sets the arena's `failed` if memory is short. */
static void set_live(struct lowering *l, struct live_set *live, uint32_t slot, const struct slot_map *entry)
{
	const struct slot_map *old = slot_map_find(live->map, slot);
	if (l->context->arena->failed ||
	    (old && entry && old->type == entry->type && old->class == entry->class && old->collected == entry->collected))
		return;
	if (old)
		unlink_entry(live, old);
	if (entry)
		link_entry(live, entry);
	live->map =
		entry ? slot_map_put(l->context->arena, live->map, entry) : slot_map_remove(l->context->arena, live->map, slot);
}

/* Returns the entry of SLOT as it is in l->state. */
static struct slot_map entry_of_slot(const struct lowering *l, uint32_t slot)
{
	const struct slot *now = &l->state.slots[slot];
	return (struct slot_map){.slot = slot,
	                         .count = 1,
	                         .type = now->type,
	                         .class = now->class,
	                         .streamed = now->streamed,
	                         .collected = now->collected};
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

static int compare_touched(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void touch_slot(struct touched *touched, uint32_t slot)
{
	if (!touched->listed[slot])
		touched->slots[touched->count++] = slot;
	touched->listed[slot] = true;
}

/*
 * Lists the slots of STEP's ports, and those of the state after it whose class changes by DRAFT. Notes by slot what the
 * body reads and writes there.
 */
static struct touched *begin_touched(struct lowering *l, const struct draft_step *draft, const struct step *step)
{
	struct touched *touched = &l->touched_slots;
	const struct body *body = step->body;
	touched->count = 0;
	for (size_t i = 0; i < body->in_count; i++) {
		const uint32_t slot = step_slot(step, &body->ins[i]);
		touch_slot(touched, slot);
		touched->read_as[slot] = body->ins[i].value;
	}
	for (size_t i = 0; i < body->out_count; i++) {
		const uint32_t slot = step_slot(step, &body->outs[i]);
		touch_slot(touched, slot);
		touched->written_as[slot] = body->outs[i].value;
	}
	for (const struct change *c = draft->changes; c; c = c->next)
		if (has_slot(step->live_out, c->slot) || has_slot(step->cot_out, c->slot))
			touch_slot(touched, c->slot);
	qsort(touched->slots, touched->count, sizeof *touched->slots, compare_touched);
	return touched;
}

static void end_touched(struct touched *touched)
{
	for (uint32_t i = 0; i < touched->count; i++) {
		touched->listed[touched->slots[i]] = false;
		touched->read_as[touched->slots[i]] = touched->written_as[touched->slots[i]] = NO_VALUE;
	}
}

/*
 * Finds where each cotangent after STEP goes: to the value that the body writes to the slot, or as which it reads the
 * slot's class. Otherwise it passes to that class. *BEFORE, those after STEP, become those that pass. COT marks the
 * values, a written one only if active.
 */
static bool take_cotangents(struct lowering *l, struct step *step, const struct slot_map **before, bool *cot)
{
	const struct touched *touched = &l->touched_slots;
	struct arena *arena = l->context->arena;
	uint32_t *read = l->lists.read, *value = l->lists.value;
	for (uint32_t i = 0; i < touched->count; i++) {
		const uint32_t slot = touched->slots[i], class = l->state.slots[slot].class;
		const bool written = touched->written_as[slot] != NO_VALUE;
		const uint32_t taker = written ? touched->written_as[slot] : touched->read_as[class];
		if (!has_slot(step->cot_out, slot) || (taker == NO_VALUE && class == slot))
			continue;
		*before = slot_map_remove(arena, *before, slot);
		if (taker == NO_VALUE) {
			*before = slot_map_put(arena, *before, &(struct slot_map){.slot = class});
			continue;
		}
		cot[taker] |= !written || step->body->values[taker].active;
		value[step->cot_read.count] = taker;
		read[step->cot_read.count++] = slot;
	}
	step->cot_value = keep_list(l, value, step->cot_read.count, sizeof *value);
	step->cot_read.slots = keep_list(l, read, step->cot_read.count, sizeof *read);
	return step->cot_value && step->cot_read.slots;
}

/* Lists the classes that move. A cotangent may stand for a class that has no live slot but its lowest one. */
static bool list_moved(struct lowering *l, struct step *step)
{
	const struct touched *touched = &l->touched_slots;
	struct class_move *moved = l->lists.moved;
	bool *listed = l->lists.listed;
	for (uint32_t i = 0; i < touched->count; i++) {
		const uint32_t slot = touched->slots[i], before = l->state.slots[slot].class;
		const struct slot_map *entry = slot_map_find(step->live_out, slot);
		const uint32_t after = entry ? entry->class : has_slot(step->cot_out, slot) ? slot : before;
		if (touched->written_as[slot] != NO_VALUE || after == before || listed[before])
			continue;
		listed[before] = true;
		moved[step->moved_count++] = (struct class_move){before, after};
	}
	for (uint32_t i = 0; i < step->moved_count; i++)
		listed[moved[i].before] = false;
	step->moved = keep_list(l, moved, step->moved_count, sizeof *moved);
	return step->moved != NULL;
}

/* Marks in NEEDED what each iteration of the loop of INSTR, its LOOP or END, leaves or begins with, if its results are needed. */
static void mark_carries(const struct body *body, const struct instr *instr, bool *needed)
{
	const struct loop_part *loop =
		&body->instrs[instr->kind == INSTR_LOOP ? instr->loop.match : (uint32_t)(instr - body->instrs)].loop;
	bool any = false;
	for (uint32_t k = 0; k < loop->carry_count; k++)
		any |= needed[loop->carries[k].final];
	for (uint32_t k = 0; k < loop->carry_count; k++)
		needed[instr->kind == INSTR_LOOP ? loop->carries[k].init : loop->carries[k].result] |= any;
}

/*
 * Passes the marks of each instruction's result to the values that it reads, from the last instruction to the first.
 * NEEDED: a live slot depends on the value. COT: the value has a cotangent.
 */
static void mark_back(const struct body *body, bool *needed, bool *cot)
{
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP || instr->kind == INSTR_END)
			mark_carries(body, instr, needed);
		if (instr_is_implicit(instr)) {
			needed[instr->a] |= needed[instr->v];
			cot[instr->a] |= cot[instr->v] && body->values[instr->a].active;
		}
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

/* Makes l->marks those of the values of BODY, all false. Returns false where memory is short. */
static bool begin_marks(struct lowering *l, const struct body *body)
{
	struct value_marks *marks = &l->marks;
	const size_t count = body->value_count;
	if (count >= marks->capacity) { /* a body may have no values, but memset wants an array */
		marks->capacity = 2 * count + 1;
		marks->needed = arena_array(&l->scratch, marks->capacity, sizeof *marks->needed);
		marks->cot = arena_array(&l->scratch, marks->capacity, sizeof *marks->cot);
	}
	if (l->scratch.failed)
		return false;
	memset(marks->needed, 0, count * sizeof *marks->needed);
	memset(marks->cot, 0, count * sizeof *marks->cot);
	return true;
}

/* Moves SETS over the slots that STEP touches, by l->marks. Describes the state before STEP. */
static void flow_slots(struct lowering *l, struct step *step, struct sets *sets)
{
	const struct touched *touched = &l->touched_slots;
	struct live_set *live = &sets->live;
	for (uint32_t i = 0; i < touched->count; i++) {
		const uint32_t slot = touched->slots[i], value = touched->read_as[slot];
		const bool stays = touched->written_as[slot] == NO_VALUE && has_slot(step->live_out, slot);
		const struct slot_map entry = entry_of_slot(l, slot);
		set_live(l, live, slot, stays || (value != NO_VALUE && l->marks.needed[value]) ? &entry : NULL);
		if (value != NO_VALUE && l->marks.cot[value])
			sets->cot = slot_map_put(l->context->arena, sets->cot, &(struct slot_map){.slot = slot});
	}
	uint64_t passing = live->once;
	for (uint32_t i = 0; i < touched->count; i++) {
		const uint32_t slot = touched->slots[i];
		const struct slot_map *entry = slot_map_find(live->map, slot);
		if (entry && live->first[entry->class] == slot &&
		    (touched->written_as[slot] != NO_VALUE || !has_slot(step->live_out, slot)))
			passing -= (uint64_t)type_bytes(entry->type);
	}
	step->live_in = live->map;
	step->cot_in = sets->cot;
	step->bytes = (struct state_bytes){(int64_t)live->slab, (int64_t)live->slots, (int64_t)passing};
}

/* Replaces SETS, the sets after STEP, which is new, by those before it. Returns false where memory is short. */
static bool flow_back(struct lowering *l, struct step *step, struct sets *sets)
{
	const struct body *body = step->body;
	if (!begin_marks(l, body) || !take_cotangents(l, step, &sets->cot, l->marks.cot) || !list_moved(l, step))
		return false;
	struct step_in *ins = l->lists.ins;
	for (size_t i = 0; i < body->out_count; i++)
		l->marks.needed[body->outs[i].value] |= has_slot(step->live_out, step_slot(step, &body->outs[i]));
	mark_back(body, l->marks.needed, l->marks.cot);
	for (size_t i = 0; i < body->in_count; i++)
		l->marks.cot[body->ins[i].value] = l->marks.cot[body_cotangent_of(body, body->ins[i].value)];
	flow_slots(l, step, sets);
	for (size_t i = 0; i < body->in_count; i++) {
		const uint32_t slot = step_slot(step, &body->ins[i]);
		ins[i] = (struct step_in){.held = sets->live.first[slot] != NO_SLOT, .dies = !has_slot(step->live_out, slot)};
	}
	step->ins = keep_list(l, ins, body->in_count, sizeof *ins);
	return step->ins && !l->context->arena->failed;
}

/* Makes a step of DRAFT with the sets after it. */
static struct step *new_step(struct lowering *l, const struct draft_step *draft, const struct sets *sets)
{
	struct step *step = arena_alloc(l->context->arena, sizeof *step);
	if (!step)
		return NULL;
	step->body = draft->body;
	step->own = draft->own;
	step->span = draft->span;
	step->id = UNNUMBERED;
	step->live_out = sets->live.map;
	step->cot_out = sets->cot;
	l->out->distinct_count++;
	return step;
}

/* Replaces SETS, the sets after STEP, by those before it, which it has already. */
static void flow_again(struct lowering *l, const struct step *step, struct sets *sets)
{
	const struct touched *touched = &l->touched_slots;
	for (uint32_t i = 0; i < touched->count; i++)
		set_live(l, &sets->live, touched->slots[i], slot_map_find(step->live_in, touched->slots[i]));
	sets->live.map = step->live_in;
	sets->cot = step->cot_in;
}

/* Returns a step of DRAFT: draft->last if it has SETS after it. Undoes DRAFT's changes. SETS become those before it. */
static struct step *finish_step(struct lowering *l, struct draft_step *draft, struct sets *sets)
{
	struct step *step = draft->last;
	const bool old = step && slot_map_equal(sets->live.map, step->live_out) && slot_map_equal(sets->cot, step->cot_out);
	if (!old)
		step = draft->last = new_step(l, draft, sets);
	for (const struct change *c = draft->changes; c; c = c->next)
		l->state.slots[c->slot] = c->before;
	if (!step)
		return NULL;
	struct touched *touched = begin_touched(l, draft, step);
	bool good = true;
	if (old)
		flow_again(l, step, sets);
	else
		good = flow_back(l, step, sets);
	end_touched(touched);
	return good && !l->context->arena->failed ? step : NULL;
}

static bool finish_items(struct lowering *l, const struct draft_item *list, struct sets *sets, struct item_list *items);

static void keep_live(struct lowering *l, struct live_set *live, uint32_t slot)
{
	const struct slot_map entry = entry_of_slot(l, slot);
	if (!has_slot(live->map, slot))
		set_live(l, live, slot, &entry);
}

/* Adds to LIVE, before an iteration of a watched LOOP, what its condition and the steps after the loop read. */
static void keep_watched(struct lowering *l, const struct draft_item *loop, const struct slot_map *after,
                         struct live_set *live)
{
	const struct body *condition = loop->condition;
	for (size_t i = 0; condition && i < condition->in_count; i++)
		keep_live(l, live, condition->ins[i].index);
	struct slot_walk walk = slot_walk_begin(condition ? after : NULL);
	for (const struct slot_map *entry = slot_walk_next(&walk); entry; entry = slot_walk_next(&walk))
		if (l->state.slots[entry->slot].type)
			keep_live(l, live, entry->slot);
}

static bool finish_iterations(struct lowering *l, const struct draft_item *loop, struct sets *sets,
                              struct item_list *items)
{
	int64_t per_iteration = loop->iterations ? loop->steps / loop->iterations : 0;
	for (int64_t left = loop->iterations; left > 0;) {
		const struct slot_map *live = sets->live.map, *cot = sets->cot;
		struct item_list body = {0};
		if (!finish_items(l, loop, sets, &body))
			return false;
		keep_watched(l, loop, live, &sets->live);
		bool stable = slot_map_equal(sets->live.map, live) && slot_map_equal(sets->cot, cot);
		struct item item = {
			.items = body.items, .count = body.count, .level = loop->level, .iterations = stable ? left : 1};
		left -= item.iterations;
		item.first = loop->first + left;
		item.steps = per_iteration * item.iterations;
		if (l->context->arena->failed || !add_front(l, items, item))
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

/* Makes the arrays by slot that the walk needs. Returns false where memory is short. */
static bool begin_walk(struct lowering *l, struct live_set *live)
{
	struct arena *arena = &l->scratch;
	const size_t count = l->state.count;
	uint32_t **const numbers[] = {&l->touched_slots.read_as, &l->touched_slots.written_as, &live->first, &live->next,
	                              &live->prev};
	l->touched_slots.slots = arena_array(arena, count, sizeof *l->touched_slots.slots);
	l->touched_slots.listed = arena_array(arena, count, sizeof *l->touched_slots.listed);
	l->lists = (struct step_lists){.read = arena_array(arena, count, sizeof *l->lists.read),
	                               .value = arena_array(arena, count, sizeof *l->lists.value),
	                               .moved = arena_array(arena, count, sizeof *l->lists.moved),
	                               .listed = arena_array(arena, count, sizeof *l->lists.listed),
	                               .ins = arena_array(arena, count, sizeof *l->lists.ins)};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if ((*numbers[i] = arena_array(arena, count, sizeof **numbers[i])))
			memset(*numbers[i], 0xff, count * sizeof **numbers[i]); /* NO_VALUE or NO_SLOT */
	return !arena->failed;
}

enum status lowering_finish_steps(struct lowering *l, const struct draft_item *list)
{
	struct lowered *out = l->out;
	struct sets sets = {0};
	TRY_ALLOC(begin_walk(l, &sets.live), l->context->diags);
	keep_live(l, &sets.live, 0);
	if (l->state.slots[0].active)
		sets.cot = slot_map_put(l->context->arena, NULL, &(struct slot_map){.slot = 0});
	struct item_list items = {0};
	TRY_ALLOC(!l->context->arena->failed && finish_items(l, list, &sets, &items), l->context->diags);
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
