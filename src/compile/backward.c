/*
 * The backward body: from the last instruction of the recording body to the first it
 * emits the derivatives of each, and adds their cotangents.
 *
 * Invariant: the cotangents of a value are added in the reverse order of its uses,
 * whatever the policy, so that the bits of a gradient do not depend on it. The gradient
 * of a param is accumulated use by use, in the same order.
 */
#include "compile/lineariser.h"

#include <stdlib.h>

/* Values and instructions. Once memory is out they return harmless ones. */

static uint32_t back_value(struct lineariser *l, const struct type *type, bool streamed)
{
	const uint32_t id = body_add_value(l->back, type);
	if (id == NO_VALUE) {
		l->failed = true;
		return 0;
	}
	l->back->values[id].dtype = type->dtype;
	l->back->values[id].streamed = streamed;
	return id;
}

/* The value of the backward body that is VALUE of the recording body. */
static uint32_t back_copy(struct lineariser *l, uint32_t value)
{
	const uint32_t id = back_value(l, l->body->values[value].type, l->body->values[value].streamed);
	if (!l->failed)
		l->back->values[id].primal = value;
	return id;
}

/* ID of the backward body is a cotangent of VALUE of the recording body, or a part of one. */
static uint32_t mark_cotangent(struct lineariser *l, uint32_t id, uint32_t value)
{
	if (!l->failed) {
		l->back->values[id].primal = value;
		l->back->values[id].cotangent = true;
	}
	return id;
}

static uint32_t back_cotangent(struct lineariser *l, uint32_t value)
{
	return mark_cotangent(l, back_copy(l, value), value);
}

/* An instruction of KIND, otherwise a copy of FROM where that is not NULL. */
static struct instr *back_instr(struct lineariser *l, enum instr_kind kind, const struct instr *from)
{
	struct instr *instr = body_add_instr(l->back, kind);
	if (!instr) {
		l->failed = true;
		return &l->nowhere;
	}
	if (from) {
		instr->op = from->op;
		instr->attrs = from->attrs;
		instr->scalar = from->scalar;
		instr->of = from->of;
		instr->a_streamed = from->a_streamed;
		instr->span = from->span;
		instr->def = from->def;
		instr->step = from->step;
		instr->level = from->level;
	}
	return instr;
}

/* The last instruction makes VALUE. */
static void mark_made(struct lineariser *l, uint32_t value)
{
	l->back->values[value].from = FROM_INSTR;
	l->back->values[value].instr = (uint32_t)l->back->instr_count - 1;
}

static uint32_t back_input(struct lineariser *l, enum port_kind kind, uint32_t index, uint32_t value)
{
	const uint32_t id = kind == PORT_COTANGENT ? back_cotangent(l, value) : back_copy(l, value);
	if (!body_add_in(l->back, kind, index, id))
		l->failed = true;
	l->back->values[id].from = FROM_PORT;
	l->back->values[id].port = (uint32_t)l->back->in_count - 1;
	return id;
}

/* VALUE of the recording body, in the backward body. */
static uint32_t mapped(struct lineariser *l, uint32_t value)
{
	if (value == NO_VALUE)
		return NO_VALUE;
	const struct value *from = &l->body->values[value];
	if (l->values[value].mapped == NO_VALUE && from->from == FROM_PARAM) {
		const uint32_t id = back_copy(l, value);
		l->back->values[id].from = FROM_PARAM;
		l->back->values[id].param = from->param;
		l->values[value].mapped = id;
	}
	return l->values[value].mapped;
}

/* Cotangents. */

/* Adds COTANGENT to those that have reached VALUE. FROM is the operation that it comes from. */
static void add_cotangent(struct lineariser *l, uint32_t value, uint32_t cotangent, const struct instr *from)
{
	const struct value *primal = &l->body->values[value];
	uint32_t *reached = &l->values[value].cotangent;
	if (primal->from == FROM_PARAM) {
		struct instr *instr = back_instr(l, INSTR_ACCUMULATE, from);
		instr->v = cotangent;
		instr->param = primal->param;
		return;
	}
	if (*reached == NO_VALUE) {
		*reached = cotangent;
		return;
	}
	const uint32_t sum = back_cotangent(l, value);
	struct instr *add = back_instr(l, INSTR_ADD, from);
	add->v = *reached;
	add->a = cotangent;
	add->out = sum;
	mark_made(l, sum);
	*reached = sum;
}

/* Adds COTANGENT, which has the result's shape of FROM, to VALUE: summed over the axes along which that was broadcast. */
static void add_broadcast_cotangent(struct lineariser *l, uint32_t value, uint32_t cotangent, const struct instr *from)
{
	if (!shape_equal(&l->body->values[value].type->shape, &from->of.y->shape)) {
		const uint32_t sum = back_cotangent(l, value);
		struct instr *instr = back_instr(l, INSTR_SUM_TO, from);
		instr->v = cotangent;
		instr->out = sum;
		mark_made(l, sum);
		cotangent = sum;
	}
	add_cotangent(l, value, cotangent, from);
}

/* Derivatives. */

/*
 * A derivative of FROM, the instruction at AT, of KIND: it reads the values of NEEDS. A
 * param enters the backward body before the first instruction that reads it.
 */
static struct instr *derivative_of(struct lineariser *l, enum instr_kind kind, size_t at, unsigned needs)
{
	const struct instr *from = &l->body->instrs[at];
	const uint32_t *keep = l->keep[at];
	struct instr *instr = back_instr(l, kind, from);
	instr->g = l->values[from->out].cotangent;
	instr->v = needs & NEED_V ? mapped(l, from->v) : NO_VALUE;
	instr->a = needs & NEED_A ? mapped(l, from->a) : NO_VALUE;
	instr->y = needs & NEED_Y ? l->values[from->out].mapped : NO_VALUE;
	instr->k = needs & NEED_K ? l->values[keep[0]].mapped : NO_VALUE;
	instr->l = needs & NEED_L ? l->values[keep[1]].mapped : NO_VALUE;
	return instr;
}

static void reverse_general(struct lineariser *l, size_t at, unsigned bits)
{
	const struct instr *from = &l->body->instrs[at];
	const struct value *values = l->body->values;
	struct instr *instr = derivative_of(l, INSTR_VJP, at, needs_of(l, from));
	uint32_t dv = NO_VALUE, da = NO_VALUE;
	if (bits & 1)
		dv = mark_cotangent(l, back_value(l, from->of.v, values[from->v].streamed), from->v);
	if (bits & 2)
		da = mark_cotangent(l, back_value(l, from->of.a, values[from->a].streamed), from->a);
	instr->out = dv;
	instr->out_a = da;
	if (dv != NO_VALUE)
		mark_made(l, dv);
	if (da != NO_VALUE)
		mark_made(l, da);
	/* A slice's derivative adds to a part of the cotangent that is there. */
	if (from->op == OP_slice && dv != NO_VALUE && l->values[from->v].cotangent != NO_VALUE) {
		instr->a = l->values[from->v].cotangent;
		l->values[from->v].cotangent = dv;
		return;
	}
	if (dv != NO_VALUE)
		add_cotangent(l, from->v, dv, from);
	if (da != NO_VALUE)
		add_cotangent(l, from->a, da, from);
}

static void reverse_element(struct lineariser *l, size_t at, unsigned bits)
{
	const struct instr *from = &l->body->instrs[at];
	const struct op_info *info = &op_table[from->op];
	for (int side = 0; side < 2; side++) {
		if (!(bits & (1u << side)))
			continue;
		struct instr *instr =
			derivative_of(l, side ? INSTR_VJP_A : INSTR_VJP_V, at, side ? info->needs_a : info->needs_v);
		const uint32_t out = back_value(l, from->of.y, l->body->values[from->out].streamed);
		const uint32_t primal = side ? from->a : from->v;
		instr->out = mark_cotangent(l, out, primal);
		mark_made(l, out);
		add_broadcast_cotangent(l, primal, out, from);
	}
}

static void reverse_instr(struct lineariser *l, size_t at)
{
	const struct instr *from = &l->body->instrs[at];
	const unsigned bits = derivatives_of(l, from);
	if (!bits || l->values[from->out].cotangent == NO_VALUE)
		return;
	l->out->backward_cost += op_cost(from->op, from->of.v, from->of.a, from->of.y) * (bits == 3 ? 2 : 1);
	if (op_table[from->op].class == OP_CLASS_GENERAL)
		reverse_general(l, at, bits);
	else
		reverse_element(l, at, bits);
}

/* Recomputation. */

enum { MOST_MADE = 1 + MAX_KEEPS }; /* values that a forward instruction makes: its result and what it keeps */

/* Executes the instruction at AT once more, for those values that are in the set. False if there are none. */
static bool recompute_instr(struct lineariser *l, size_t at)
{
	const struct instr *from = &l->body->instrs[at];
	const uint32_t values[MOST_MADE] = {from->out, l->keep[at][0], l->keep[at][1]};
	uint32_t made[MOST_MADE];
	bool wanted[MOST_MADE], any = false;
	for (int k = 0; k < MOST_MADE; k++)
		any |= wanted[k] = values[k] != NO_VALUE && is_in_set(l, values[k]);
	if (!any)
		return false;
	const uint32_t v = mapped(l, from->v), a = mapped(l, from->a);
	for (int k = 0; k < MOST_MADE; k++) {
		made[k] = wanted[k] ? back_copy(l, values[k]) : NO_VALUE;
		if (wanted[k])
			l->back->values[made[k]].names = l->body->values[values[k]].names;
	}
	struct instr *instr = back_instr(l, from->kind, from);
	instr->v = v;
	instr->a = a;
	instr->recomputed = true;
	instr->out = made[0];
	for (int k = 0; k < MOST_MADE; k++) {
		if (k)
			instr->out_keep[k - 1] = made[k];
		if (!wanted[k])
			continue;
		mark_made(l, made[k]);
		l->values[values[k]].mapped = made[k];
	}
	if (from->kind == INSTR_OP)
		l->out->recompute_cost += op_cost(from->op, from->of.v, from->of.a, from->of.y);
	return true;
}

/* Recomputes the values that region ID did not keep. */
static void recompute_region(struct lineariser *l, uint32_t id)
{
	const struct value_list *again = &l->regions[id].again;
	const struct region *region = region_at(l, id);
	int64_t last = -1;
	begin_set(l);
	for (size_t i = 0; i < again->count; i++)
		add_to_set(l, again->items[i]);
	for (uint32_t i = region->first; i < region->end && again->count && !l->failed; i++) {
		if (!recompute_instr(l, i))
			continue;
		const int64_t step = l->body->instrs[i].step;
		l->out->recomputed += step != last;
		last = step;
	}
}

static bool region_is_empty(const struct region *region) { return region->first == region->end; }

static void reverse_region(struct lineariser *l, uint32_t id)
{
	const struct region_plan *plan = &l->regions[id];
	const struct region *region = region_at(l, id);
	recompute_region(l, id);
	size_t child = plan->child_count;
	for (uint32_t i = region->end; i > region->first && !l->failed;) {
		while (child && region_is_empty(region_at(l, plan->children[child - 1])))
			child--;
		const struct region *inner = child ? region_at(l, plan->children[child - 1]) : NULL;
		if (inner && i == inner->end) {
			reverse_region(l, plan->children[--child]);
			i = inner->first;
			continue;
		}
		reverse_instr(l, --i);
	}
}

/* Inputs and outputs. */

struct ordered_value {
	int64_t place;
	uint32_t value;
};

static int compare_places(const void *left, const void *right)
{
	const struct ordered_value *a = left, *b = right;
	return (a->place > b->place) - (a->place < b->place);
}

/* Sorts LIST in program order; inputs of the body come first. */
static void sort_values(struct lineariser *l, struct value_list *list)
{
	const struct body *body = l->body;
	struct ordered_value *order = arena_array(l->arena, list->count + 1, sizeof *order);
	if (!order) {
		l->failed = true;
		return;
	}
	for (size_t i = 0; i < list->count; i++) {
		const uint32_t value = list->items[i];
		const struct value *v = &body->values[value];
		order[i].value = value;
		order[i].place =
			v->from == FROM_PORT ? v->port : (int64_t)body->in_count + linear_place(body, l->keep[v->instr], value);
	}
	qsort(order, list->count, sizeof *order, compare_places);
	for (size_t i = 0; i < list->count; i++)
		list->items[i] = order[i].value;
}

static void add_residuals(struct lineariser *l)
{
	struct value_list *kept = &l->regions[0].kept;
	struct linear *out = l->out;
	sort_values(l, kept);
	out->residual_count = kept->count;
	out->residuals = arena_array(l->arena, kept->count + 1, sizeof *out->residuals);
	if (!out->residuals) {
		l->failed = true;
		return;
	}
	for (size_t i = 0; i < kept->count; i++) {
		const uint32_t value = kept->items[i];
		residual_describe_origin(l, &out->residuals[i], value);
		const uint32_t id = back_input(l, PORT_RESIDUAL, (uint32_t)i, value);
		l->back->values[id].names = l->body->values[value].names;
		l->values[value].mapped = id;
	}
}

/* The cotangents of the state after the step become inputs, unless they pass the step unchanged. */
static void add_seeds(struct lineariser *l)
{
	const struct step *step = l->step;
	for (uint32_t i = 0; i < step->cot_out.count; i++) {
		const uint32_t value = step->cot_value[i];
		if (value == NO_VALUE)
			continue;
		const uint32_t id = back_input(l, PORT_COTANGENT, step->cot_out.slots[i], value);
		if (l->body->values[value].active)
			add_cotangent(l, value, id, NULL);
	}
}

/* The cotangents of the state before the step: zeros where none has reached it. */
static void add_results(struct lineariser *l)
{
	const struct step *step = l->step;
	for (size_t i = 0; i < l->body->in_count && !l->failed; i++) {
		const uint32_t slot = l->body->ins[i].index, value = l->body->ins[i].value;
		bool wanted = false;
		for (uint32_t k = 0; k < step->cot_in.count; k++)
			wanted |= step->cot_in.slots[k] == slot;
		if (!wanted)
			continue;
		uint32_t cotangent = l->values[value].cotangent;
		if (cotangent == NO_VALUE) {
			cotangent = back_cotangent(l, value);
			back_instr(l, INSTR_ZERO, NULL)->out = cotangent;
			mark_made(l, cotangent);
		}
		if (!body_add_out(l->back, PORT_COTANGENT, slot, cotangent))
			l->failed = true;
	}
}

void backward_make(struct lineariser *l)
{
	add_residuals(l);
	if (!l->failed)
		add_seeds(l);
	if (!l->failed)
		reverse_region(l, 0);
	if (!l->failed)
		add_results(l);
	l->out->backward = l->back;
}
