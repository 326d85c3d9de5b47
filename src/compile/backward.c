/*
 * Makes the backward body: goes from the last instruction of the recording body to the first,
 * emits the derivatives of each, and adds their cotangents. Where it enters a region, it recomputes first.
 *
 * Invariant: under every policy the cotangents of a value are added in the reverse order of its uses. So the bits of a
 * gradient do not depend on the policy. The gradient of a param is accumulated use by use, in the same order.
 * Tests: tests/unit/test_residuals.c, tests/scripts/check-gradients
 */
#include "compile/lineariser.h"

#include <stdlib.h>
#include <string.h>

/* Adding values and instructions. If out of memory, these functions return harmless ones. */

/* Adds VALUE of the recording body, or its cotangent if COTANGENT, to the backward body, with the type of LIKE. */
static uint32_t back_value(struct lineariser *l, uint32_t value, uint32_t like, bool cotangent)
{
	uint32_t id = body_add_value(l->back, l->body->values[like].type);
	if (id == NO_VALUE)
		id = 0;
	l->back->values[id].streamed = l->body->values[like].streamed;
	l->back->values[id].primal = value;
	l->back->values[id].cotangent = cotangent;
	return id;
}

/* Appends an instruction of KIND. Copies operation, types and origin from FROM, unless FROM is NULL. */
static struct instr *back_instr(struct lineariser *l, enum instr_kind kind, const struct instr *from)
{
	struct instr *instr = body_add_instr(l->back, kind);
	if (!instr)
		return &l->nowhere;
	if (from) {
		instr->op = from->op;
		instr->attrs = from->attrs;
		instr->scalar = from->scalar;
		instr->own_scalar = from->own_scalar;
		instr->of = from->of;
		instr->a_streamed = from->a_streamed;
		instr->more_streamed = from->more_streamed;
		instr->span = from->span;
		instr->def = from->def;
		instr->step = from->step;
		instr->level = from->level;
		instr->stream = from->stream;
		instr->own_stream = from->own_stream;
	}
	return instr;
}

/* Adds a value as back_value does, as the out *OUT of the last instruction. Returns it. */
static uint32_t add_made(struct lineariser *l, uint32_t *out, uint32_t value, uint32_t like, bool cotangent)
{
	*out = back_value(l, value, like, cotangent);
	l->back->values[*out].from = FROM_INSTR;
	l->back->values[*out].instr = (uint32_t)l->back->instr_count - 1;
	return *out;
}

static uint32_t back_input(struct lineariser *l, enum port_kind kind, uint32_t index, uint32_t value)
{
	const uint32_t id = back_value(l, value, value, kind == PORT_COTANGENT);
	(void)body_add_in(l->back, kind, index, id);
	l->back->values[id].from = FROM_PORT;
	l->back->values[id].port = (uint32_t)l->back->in_count - 1;
	return id;
}

/* Returns VALUE of the recording body as a value of the backward body, or NO_VALUE. Adds it if it is a param. */
static uint32_t mapped(struct lineariser *l, uint32_t value)
{
	if (value == NO_VALUE)
		return NO_VALUE;
	const struct value *from = &l->body->values[value];
	if (l->values[value].mapped == NO_VALUE && from->from == FROM_PARAM) {
		const uint32_t id = back_value(l, value, value, false);
		l->back->values[id].from = FROM_PARAM;
		l->back->values[id].param = from->param;
		l->values[value].mapped = id;
	}
	return l->values[value].mapped;
}

/* True if FROM, an operation, reads VALUE as an operand that is the same for all rows. */
static bool reads_whole(const struct instr *from, uint32_t value)
{
	bool whole = false;
	for (uint32_t k = 1; !instr_use(from) && k < instr_value_count(from); k++)
		whole |= instr_value(from, k) == value && !instr_operand_streamed(from, k);
	return whole;
}

/*
 * Adds COTANGENT to the sum for VALUE, or, if that is a param, to its gradient. Sums it first over the axes along which
 * VALUE was broadcast. FROM is the instruction whose derivative COTANGENT is, or NULL.
 */
static void add_cotangent(struct lineariser *l, uint32_t value, uint32_t cotangent, const struct instr *from)
{
	const struct value *primal = &l->body->values[value];
	uint32_t *reached = &l->values[value].cotangent;
	const struct type *const broadcast = l->back->values[cotangent].type;
	const bool streamed = l->back->values[cotangent].streamed;
	const bool has_rows = primal->streamed || (primal->from == FROM_PARAM && !(from && reads_whole(from, value)));
	/* If the tile has one row, the shapes may be equal. */
	if (!shape_equal(&primal->type->shape, &broadcast->shape) || (streamed && !has_rows)) {
		struct instr *sum = back_instr(l, INSTR_SUM_TO, from);
		sum->v = cotangent;
		sum->of = (struct forward_types){broadcast, NULL, primal->type, NULL};
		cotangent = add_made(l, &sum->out, value, value, true);
		l->back->values[cotangent].streamed |= streamed && has_rows; /* of a param that has the rows of the value */
	}
	if (primal->from == FROM_PARAM) {
		struct instr *instr = back_instr(l, INSTR_ACCUMULATE, from);
		instr->v = cotangent;
		instr->of = (struct forward_types){primal->type, NULL, NULL, NULL};
		instr->param = primal->param;
		return;
	}
	if (*reached == NO_VALUE) {
		*reached = cotangent;
		return;
	}
	struct instr *add = back_instr(l, INSTR_ADD, from);
	add->v = *reached;
	add->a = cotangent;
	*reached = add_made(l, &add->out, value, value, true);
}

/*
 * Appends an instruction of KIND: a derivative of instruction AT of the recording body. It
 * reads the cotangent of that instruction's result and the values in NEEDS, NEED_* bits.
 */
static struct instr *derivative_of(struct lineariser *l, enum instr_kind kind, size_t at, unsigned needs)
{
	const struct instr *from = &l->body->instrs[at];
	const uint32_t *keep = from->out_keep;
	struct instr *instr = back_instr(l, kind, from);
	instr->g = l->values[from->out].cotangent;
	instr->v = needs & NEED_V ? mapped(l, from->v) : NO_VALUE;
	instr->a = needs & NEED_A ? mapped(l, from->a) : NO_VALUE;
	for (uint32_t k = 2; k < MAX_VALUES && !instr_use(from); k++)
		instr->more[k - 2] = needs & need_of_value(k) ? mapped(l, from->more[k - 2]) : NO_VALUE;
	instr->y = needs & NEED_Y ? l->values[from->out].mapped : NO_VALUE;
	instr->k = needs & NEED_K ? l->values[keep[0]].mapped : NO_VALUE;
	instr->l = needs & NEED_L ? l->values[keep[1]].mapped : NO_VALUE;
	return instr;
}

/* Returns a copy of the call of FROM, a call of a program, without outs. NULL if out of memory. */
static struct external_use *copy_use(struct lineariser *l, const struct instr *from)
{
	struct external_use *use = arena_alloc(l->arena, sizeof *use);
	if (!use)
		return NULL;
	*use = *instr_use(from);
	memset(use->outs, 0xff, sizeof use->outs);
	return use;
}

static void reverse_program(struct lineariser *l, size_t at, unsigned bits)
{
	const struct instr *from = &l->body->instrs[at];
	struct external_use *use = copy_use(l, from);
	if (!use)
		return;
	for (uint32_t k = 0; k < use->count; k++)
		use->operands[k] = needs_value(l, from, k + 1) ? mapped(l, use->operands[k]) : NO_VALUE;
	struct instr *instr = derivative_of(l, INSTR_VJP, at, needs_of(l, from));
	instr->use = use;
	bits &= ~(use->program->traits.sums << 1); /* the program adds these up itself */
	if (bits & 1)
		(void)add_made(l, &instr->out, from->v, from->v, true);
	for (uint32_t k = 0; k < use->count; k++)
		if (bits >> (k + 1) & 1)
			(void)add_made(l, &use->outs[k], instr_use(from)->operands[k], instr_use(from)->operands[k], true);
	if (bits & 1)
		add_cotangent(l, from->v, instr->out, from);
	for (uint32_t k = 0; k < use->count; k++)
		if (bits >> (k + 1) & 1)
			add_cotangent(l, instr_use(from)->operands[k], use->outs[k], from);
}

/* Returns the value whose type the derivative of FROM by its operand K has: that, or the result if the operand broadcasts. */
static uint32_t derivative_like(const struct instr *from, uint32_t k)
{
	return op_is_tridiagonal(from->op) ? from->out : instr_value(from, k);
}

/* Appends the derivative of AT by its value and its first operand, as BITS say. Stores the two in MADE, else NO_VALUE. */
static struct instr *differentiate_two(struct lineariser *l, size_t at, unsigned bits, uint32_t made[2])
{
	const struct instr *from = &l->body->instrs[at];
	struct instr *instr = derivative_of(l, INSTR_VJP, at, needs_of(l, from));
	made[0] = bits & 1 ? add_made(l, &instr->out, from->v, from->v, true) : NO_VALUE;
	made[1] = bits & 2 ? add_made(l, &instr->out_a, from->a, derivative_like(from, 1), true) : NO_VALUE;
	return instr;
}

static void add_two_cotangents(struct lineariser *l, const struct instr *from, const uint32_t made[2])
{
	if (made[0] != NO_VALUE)
		add_cotangent(l, from->v, made[0], from);
	if (made[1] != NO_VALUE)
		add_cotangent(l, from->a, made[1], from);
}

static void reverse_general(struct lineariser *l, size_t at, unsigned bits)
{
	const struct instr *from = &l->body->instrs[at];
	uint32_t made[2];
	struct instr *instr = differentiate_two(l, at, bits, made);
	/* If v already has a cotangent, the derivative of a slice adds to a part of it. */
	if (from->op == OP_slice && made[0] != NO_VALUE && l->values[from->v].cotangent != NO_VALUE) {
		instr->a = l->values[from->v].cotangent;
		l->values[from->v].cotangent = made[0];
		return;
	}
	add_two_cotangents(l, from, made);
}

/*
 * Appends the derivatives of AT, an operation of several operands: by the last ones, each as an operation of its own, then by
 * its value and its first operand. They stand together, before what adds them, so that launches can be joined (joined.c).
 */
static void reverse_several(struct lineariser *l, size_t at, unsigned bits)
{
	const struct instr *from = &l->body->instrs[at];
	uint32_t made[MAX_VALUES];
	memset(made, 0xff, sizeof made); /* NO_VALUE */
	for (uint32_t k = MAX_VALUES; k-- > 2;) {
		if (!(bits >> k & 1))
			continue;
		const uint32_t value = instr_value(from, k);
		struct instr *instr = derivative_of(l, INSTR_VJP, at, op_table[from->op].needs[k]);
		instr->op = op_by_operand(from->op, k);
		if (k == 2) {
			instr->of.a = l->body->values[value].type;
			instr->a_streamed = instr_operand_streamed(from, 2);
		}
		made[k] = add_made(l, &instr->out_a, value, derivative_like(from, k), true);
	}
	if (bits & 3)
		(void)differentiate_two(l, at, bits, made);
	for (uint32_t k = MAX_VALUES; k-- > 2;)
		if (made[k] != NO_VALUE)
			add_cotangent(l, instr_value(from, k), made[k], from);
	add_two_cotangents(l, from, made);
}

/* The derivative of a part adds that part of the array's cotangent to V's. The array so far gets the cotangent itself. */
static void reverse_collect(struct lineariser *l, size_t at, unsigned bits)
{
	const struct instr *from = &l->body->instrs[at];
	const uint32_t whole = l->values[from->out].cotangent;
	if (bits & 1) {
		struct instr *instr = derivative_of(l, INSTR_VJP, at, 0);
		instr->a = l->values[from->v].cotangent;
		l->values[from->v].cotangent = add_made(l, &instr->out, from->v, from->v, true);
	}
	if (bits & 2)
		l->values[from->a].cotangent = whole;
}

/*
 * True if derivative K of FROM could be other than 0 where the cotangent of its result is 0, though FROM is guarded: that would
 * add NaN, 0 times infinity, for a value that `where` has not chosen. A derivative that reads nothing, or a mask, gives 0.
 */
static bool needs_guard(const struct instr *from, uint32_t k)
{
	const struct op_info *info = &op_table[from->op];
	const unsigned read = info->keeps[0].kind == KEEP_MASK ? info->needs[k] & ~(NEED_K | NEED_L) : info->needs[k];
	return from->guarded && read;
}

/* Returns DERIVATIVE, the cotangent that FROM gives its value PRIMAL, where the cotangent of FROM's result is not 0, else 0. */
static uint32_t guarded(struct lineariser *l, const struct instr *from, uint32_t primal, uint32_t derivative)
{
	const struct type *type = l->body->values[from->out].type;
	struct instr *where = back_instr(l, INSTR_OP, from);
	where->op = OP_where;
	where->attrs = NULL;
	where->scalar = 0;
	where->own_scalar = NO_VALUE;
	where->of = (struct forward_types){type, type, type, NULL};
	where->v = derivative;
	where->a = l->values[from->out].cotangent;
	where->a_streamed = l->back->values[where->a].streamed;
	where->more_streamed = 0;
	return add_made(l, &where->out, primal, from->out, true);
}

static void reverse_element(struct lineariser *l, size_t at, unsigned bits)
{
	static const enum instr_kind kinds[] = {INSTR_VJP_V, INSTR_VJP_A, INSTR_VJP_B};
	const struct instr *from = &l->body->instrs[at];
	for (uint32_t k = 0; bits >> k; k++) {
		if (!(bits >> k & 1))
			continue;
		struct instr *instr = derivative_of(l, kinds[k], at, op_table[from->op].needs[k]);
		const uint32_t primal = instr_value(from, k);
		uint32_t derivative = add_made(l, &instr->out, primal, from->out, true);
		if (needs_guard(from, k))
			derivative = guarded(l, from, primal, derivative);
		add_cotangent(l, primal, derivative, from);
	}
}

static void reverse_instr(struct lineariser *l, size_t at)
{
	const struct instr *from = &l->body->instrs[at];
	const unsigned bits = derivatives_of(l, from);
	if (!bits || l->values[from->out].cotangent == NO_VALUE)
		return;
	const int derivatives = instr_use(from) ? 1 + (bits == 3) : __builtin_popcount(bits);
	l->out->backward_cost += op_cost(from->op, from->attrs, from->of.v, from->of.a, from->of.y) * derivatives;
	if (instr_use(from))
		reverse_program(l, at, bits);
	else if (from->op == OP_COLLECT)
		reverse_collect(l, at, bits);
	else if (op_table[from->op].differentiable_by[2] && op_table[from->op].class == OP_CLASS_GENERAL)
		reverse_several(l, at, bits);
	else if (op_table[from->op].class == OP_CLASS_GENERAL)
		reverse_general(l, at, bits);
	else
		reverse_element(l, at, bits);
}

enum { MOST_MADE = 1 + MAX_KEEPS }; /* values that a forward instruction makes: its result and its kept values */

/* Appends instruction AT to recompute those of its values that are in the set. False if none is. */
static bool recompute_instr(struct lineariser *l, size_t at)
{
	const struct instr *from = &l->body->instrs[at];
	const uint32_t values[MOST_MADE] = {from->out, from->out_keep[0], from->out_keep[1]};
	bool wanted[MOST_MADE], any = false;
	for (int k = 0; k < MOST_MADE; k++)
		any |= wanted[k] = values[k] != NO_VALUE && is_in_set(l, values[k]);
	if (!any)
		return false;
	wanted[0] |= instr_use(from) != NULL; /* a program gives its result each time */
	const uint32_t v = mapped(l, from->v), a = mapped(l, from->a);
	const bool calls = instr_use(from);
	const uint32_t more[] = {calls ? NO_VALUE : mapped(l, from->more[0]), calls ? NO_VALUE : mapped(l, from->more[1])};
	struct external_use *use = calls ? copy_use(l, from) : NULL;
	for (uint32_t k = 0; use && k < use->count; k++)
		use->operands[k] = mapped(l, use->operands[k]);
	struct instr *instr = back_instr(l, from->kind, from);
	instr->v = v;
	instr->a = a;
	if (calls)
		instr->use = use;
	else
		memcpy(instr->more, more, sizeof more);
	instr->recomputed = true;
	uint32_t *const outs[MOST_MADE] = {&instr->out, &instr->out_keep[0], &instr->out_keep[1]};
	for (int k = 0; k < MOST_MADE; k++) {
		if (!wanted[k])
			continue;
		const uint32_t made = add_made(l, outs[k], values[k], values[k], false);
		l->back->values[made].names = l->body->values[values[k]].names;
		l->values[values[k]].mapped = made;
	}
	l->again[at] = true;
	l->out->executed_again += wanted[0] && ends_step(l->body, at);
	if (from->kind == INSTR_OP)
		l->out->recompute_cost += op_cost(from->op, from->attrs, from->of.v, from->of.a, from->of.y);
	return true;
}

/* Appends the instructions that recompute what region ID needs but did not keep. Counts their steps. */
static void recompute_region(struct lineariser *l, uint32_t id)
{
	const struct value_list *again = &l->regions[id].again;
	const struct region *region = region_at(l, id);
	int64_t last = -1;
	begin_set(l);
	for (size_t i = 0; i < again->count; i++)
		add_to_set(l, again->items[i]);
	for (uint32_t i = region->first; i < region->end && again->count; i++) {
		if (!recompute_instr(l, i))
			continue;
		const int64_t step = l->body->instrs[i].step;
		l->out->recomputed += step != last;
		last = step;
	}
}

static void reverse_region(struct lineariser *l, uint32_t id);
static void reverse_implicit(struct lineariser *l, uint32_t id, size_t at);

/* Reverses the instructions from FIRST up to END, without it, of region ID and the regions in it. */
static void reverse_range(struct lineariser *l, uint32_t id, uint32_t first, uint32_t end)
{
	for (uint32_t i = end; i > first && !l->arena->failed;) {
		const uint32_t inner = inner_region(l, id, i - 1);
		if (inner != id) {
			reverse_region(l, inner);
			i = region_at(l, inner)->first;
		} else if (instr_is_implicit(&l->body->instrs[--i])) {
			reverse_implicit(l, id, i);
		} else {
			reverse_instr(l, i);
		}
	}
}

static void reverse_region(struct lineariser *l, uint32_t id)
{
	recompute_region(l, id);
	reverse_range(l, id, region_at(l, id)->first, region_at(l, id)->end);
}

/*
 * Fixed points (ir/lower_fixed_point.c). The solution s = f(s) has the cotangent g. All iterations together give f's result the
 * cotangent w = g + J'w, where J is f's derivative by s. So w is a fixed point too, and a loop finds it in the same way (Christianson, "Reverse accumulation and attractive fixed points", Optim. Methods Softw. 3, 1994):
 *
 *     w = g, e = 1
 *     loop  while e > 0
 *         r = g + J'w         derivatives of f's operations, of those values alone that depend on s (PATH)
 *         e = 1 - (max|r - w| <= T * max(1, max|w|))
 *         w = r
 *     end
 *
 * Then f is reversed once, with w, for all values but s.
 */

/* The loop in the backward body. */
struct reverse_loop {
	const struct instr *from;    /* the OP_IMPLICIT */
	const struct instr *forward; /* the LOOP that has found the solution */
	struct carry *carries;       /* of w, and of e */
	uint32_t at;                 /* index of its LOOP */
};

/* Appends an operation, OP, on V and on A or, if that is NO_VALUE, NUMBER. Returns its result, of TYPE. */
static uint32_t back_op(struct lineariser *l, enum op op, const uint32_t values[2], double number,
                        const struct type *type)
{
	struct instr *instr = back_instr(l, INSTR_OP, NULL);
	instr->op = op;
	instr->v = values[0];
	instr->a = values[1];
	instr->scalar = number;
	const struct type *a = values[1] == NO_VALUE ? NULL : l->back->values[values[1]].type;
	instr->of = (struct forward_types){l->back->values[values[0]].type, a, type, NULL};
	const uint32_t out = instr->out = body_add_value(l->back, type);
	if (out == NO_VALUE)
		return 0;
	l->back->values[out].from = FROM_INSTR;
	l->back->values[out].instr = (uint32_t)l->back->instr_count - 1;
	l->back->values[out].cotangent = true;
	l->back->values[out].primal = l->back->values[values[0]].primal;
	return out;
}

/* Appends max|V|, of type NUMBER. */
static uint32_t back_largest(struct lineariser *l, uint32_t v, const struct type *number)
{
	const uint32_t size = back_op(l, OP_abs, (const uint32_t[]){v, NO_VALUE}, 0, l->back->values[v].type);
	if (l->back->values[v].type->shape.ndim == 0)
		return size;
	struct attrs *attrs = arena_alloc(l->arena, sizeof *attrs);
	const uint32_t largest = back_op(l, OP_amax, (const uint32_t[]){size, NO_VALUE}, 0, number);
	if (!attrs || l->arena->failed)
		return size;
	attrs_default(attrs, OP_amax);
	l->back->instrs[l->back->instr_count - 1].attrs = attrs;
	return largest;
}

/* Adds to the backward body the value, of the loop of LOOP, that CARRY begins with INIT. */
static uint32_t back_inner(struct lineariser *l, struct carry *carry, uint32_t init, uint32_t loop)
{
	carry->init = init;
	carry->inner = body_add_value(l->back, l->back->values[init].type);
	if (carry->inner == NO_VALUE)
		return carry->inner = 0;
	struct value *inner = &l->back->values[carry->inner];
	inner->primal = l->back->values[init].primal;
	inner->cotangent = true;
	inner->from = FROM_INSTR;
	inner->instr = loop;
	return carry->inner;
}

/* Begins the loop with the cotangent G. Returns w of an iteration. */
static uint32_t begin_reverse_loop(struct lineariser *l, struct reverse_loop *r, uint32_t g, const struct type *number)
{
	struct instr *zero = back_instr(l, INSTR_ZERO, NULL);
	zero->of.y = number;
	uint32_t e = body_add_value(l->back, number);
	zero->out = e = e == NO_VALUE ? 0 : e;
	l->back->values[e].from = FROM_INSTR;
	l->back->values[e].instr = (uint32_t)l->back->instr_count - 1;
	e = back_op(l, OP_add, (const uint32_t[]){e, NO_VALUE}, 1, number);
	r->at = (uint32_t)l->back->instr_count;
	struct instr *loop = back_instr(l, INSTR_LOOP, NULL);
	loop->loop.iterations = r->forward->loop.iterations;
	loop->level = r->forward->level + l->solving;
	loop->span = r->from->span;
	const uint32_t w = back_inner(l, &r->carries[0], g, r->at);
	struct instr *end = back_instr(l, INSTR_WHILE, NULL);
	end->op = OP_IMPLICIT; /* for a warning */
	end->span = r->from->span;
	end->v = back_inner(l, &r->carries[1], e, r->at);
	end->loop =
		(struct loop_part){.iterations = r->forward->loop.iterations - 1, .match = r->at, .condition = NO_VALUE};
	return w;
}

/* Ends the loop, whose iteration makes RESULT of w. Returns the last w. */
static uint32_t end_reverse_loop(struct lineariser *l, struct reverse_loop *r, uint32_t result,
                                 const struct type *number)
{
	const uint32_t w = r->carries[0].inner;
	uint32_t change = back_op(l, OP_sub, (const uint32_t[]){result, w}, 0, l->back->values[w].type);
	change = back_largest(l, change, number);
	uint32_t size = back_largest(l, w, number);
	size = back_op(l, OP_max, (const uint32_t[]){size, NO_VALUE}, 1, number);
	size = back_op(l, OP_mul, (const uint32_t[]){size, NO_VALUE}, r->from->scalar, number);
	r->carries[0].result = result;
	const uint32_t meets = back_op(l, OP_le, (const uint32_t[]){change, size}, 0, number);
	r->carries[1].result = back_op(l, OP_rsub, (const uint32_t[]){meets, NO_VALUE}, 1, number);
	const uint32_t at = (uint32_t)l->back->instr_count;
	struct instr *end = back_instr(l, INSTR_END, NULL);
	end->span = r->from->span;
	end->loop = (struct loop_part){.match = r->at, .carries = r->carries, .carry_count = 2};
	for (int k = 0; k < 2; k++) {
		const struct value inner = l->back->values[r->carries[k].inner];
		const uint32_t final = body_add_value(l->back, inner.type);
		if (final == NO_VALUE)
			return 0;
		l->back->values[final] = inner;
		l->back->values[final].instr = at;
		r->carries[k].final = final;
	}
	struct loop_part *loop = &l->back->instrs[r->at].loop;
	loop->match = at;
	loop->carries = r->carries;
	loop->carry_count = 2;
	return r->carries[0].final;
}

/*
 * Marks as the path the values that instructions FIRST up to END make from SOLUTION. A solution within depends on what its
 * iteration reads, which follows it.
 */
static void mark_path(struct lineariser *l, uint32_t solution, uint32_t first, uint32_t end)
{
	const struct body *body = l->body;
	for (size_t i = 0; i < body->value_count; i++)
		l->values[i].path = i == solution;
	for (uint32_t i = first, inner = first; i < end; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind != INSTR_OP || instr->out == NO_VALUE)
			continue;
		bool path = false;
		if (instr->op == OP_SOLUTION)
			for (inner = i + 1;
			     inner < end && !(instr_is_implicit(&body->instrs[inner]) && body->instrs[inner].v == instr->out);)
				inner++;
		for (uint32_t k = i; k <= (instr->op == OP_SOLUTION ? inner : i) && k < end; k++)
			for (uint32_t v = 0; body->instrs[k].kind == INSTR_OP && v < instr_value_count(&body->instrs[k]); v++) {
				const uint32_t value = instr_value(&body->instrs[k], v);
				path |= value != NO_VALUE && l->values[value].path;
			}
		l->values[instr->out].path = path;
	}
}

/* Forgets that instructions FIRST up to END have been reversed: the cotangents of what they make, and of SOLUTION. */
static void forget_reversed(struct lineariser *l, uint32_t solution, uint32_t first, uint32_t end)
{
	l->values[solution].cotangent = NO_VALUE;
	for (uint32_t i = first; i < end; i++) {
		const uint32_t out = l->body->instrs[i].kind == INSTR_OP ? l->body->instrs[i].out : NO_VALUE;
		if (out == NO_VALUE)
			continue;
		l->values[out].cotangent = NO_VALUE;
		l->values[out].ended = false;
	}
}

/* Appends the loop that finds w of the OP_IMPLICIT AT in region ID. Returns w. G is the solution's cotangent. */
static uint32_t solve_back(struct lineariser *l, uint32_t id, size_t at, uint32_t g)
{
	const struct body *body = l->body;
	const struct instr *from = &body->instrs[at];
	const uint32_t solution = from->v, first = body->values[solution].instr + 1;
	const uint32_t found = body->values[body->instrs[first - 1].v].instr;
	struct type *number = arena_alloc(l->arena, sizeof *number);
	struct reverse_loop loop = {.from = from,
	                            .forward = &body->instrs[body->instrs[found].loop.match],
	                            .carries = arena_array(l->arena, 2, sizeof *loop.carries)};
	bool *path = arena_array(&l->scratch, body->value_count, sizeof *path);
	if (!number || !loop.carries || !path)
		return g;
	*number = (struct type){.dtype = body->values[solution].type->dtype};
	const struct linear before = *l->out; /* each iteration counts as the one that is reversed afterwards */
	for (size_t i = 0; i < body->value_count; i++)
		path[i] = l->values[i].path;
	const uint32_t w = begin_reverse_loop(l, &loop, g, number);
	mark_path(l, solution, first, (uint32_t)at);
	l->solving++;
	forget_reversed(l, solution, first, (uint32_t)at);
	l->values[from->a].cotangent = w;
	reverse_range(l, id, first, (uint32_t)at);
	uint32_t result = l->values[solution].cotangent;
	if (result == NO_VALUE) {
		result = g;
	} else {
		struct instr *add = back_instr(l, INSTR_ADD, NULL);
		add->v = g;
		add->a = result;
		result = add_made(l, &add->out, solution, solution, true);
	}
	forget_reversed(l, solution, first, (uint32_t)at);
	for (size_t i = 0; i < body->value_count; i++)
		l->values[i].path = path[i];
	l->solving--;
	const uint32_t last = end_reverse_loop(l, &loop, result, number);
	l->out->recomputed = before.recomputed;
	l->out->executed_again = before.executed_again;
	l->out->recompute_cost = before.recompute_cost;
	return last;
}

/* Reverses the OP_IMPLICIT AT: the block's result gets the cotangent of all iterations. */
static void reverse_implicit(struct lineariser *l, uint32_t id, size_t at)
{
	const struct instr *from = &l->body->instrs[at];
	const uint32_t g = l->values[from->v].cotangent;
	if (g == NO_VALUE || !l->values[from->a].reached)
		return;
	const bool depends =
		l->body->values[from->a].from == FROM_INSTR && l->body->values[from->a].instr > l->body->values[from->v].instr;
	const uint32_t w = depends ? solve_back(l, id, at, g) : g;
	l->values[from->v].ended = true;
	l->values[from->v].cotangent = NO_VALUE;
	add_cotangent(l, from->a, w, from);
}

struct ordered_value {
	int64_t place;
	uint32_t value;
};

static int compare_places(const void *left, const void *right)
{
	const struct ordered_value *a = left, *b = right;
	return (a->place > b->place) - (a->place < b->place);
}

/* Sorts LIST in program order: inputs of the body come first. */
static void sort_values(struct lineariser *l, struct value_list *list)
{
	const struct body *body = l->body;
	struct ordered_value *order = arena_array(&l->scratch, list->count + 1, sizeof *order);
	if (!order)
		return;
	for (size_t i = 0; i < list->count; i++) {
		const uint32_t value = list->items[i];
		const struct value *v = &body->values[value];
		order[i].value = value;
		order[i].place = v->from == FROM_PORT ? v->port : (int64_t)body->in_count + linear_place(body, value);
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
	if (!out->residuals)
		return;
	for (size_t i = 0; i < kept->count; i++) {
		const uint32_t value = kept->items[i];
		const struct value *v = &l->body->values[value];
		out->residuals[i] = (struct residual){.value = value,
		                                      .in_state = v->from == FROM_PORT,
		                                      .type = v->type,
		                                      .op = v->from == FROM_INSTR ? linear_maker(l->body, value) : NULL};
		const uint32_t id = back_input(l, PORT_RESIDUAL, (uint32_t)i, value);
		l->back->values[id].names = v->names;
		l->values[value].mapped = id;
	}
}

/* The cotangents of the state after the step become inputs, unless they pass the step unchanged. */
static void add_seeds(struct lineariser *l)
{
	const struct step *step = l->step;
	for (uint32_t i = 0; i < step->cot_read.count; i++) {
		const uint32_t value = step->cot_value[i];
		const uint32_t id = back_input(l, PORT_COTANGENT, i, value);
		if (l->body->values[value].active)
			add_cotangent(l, value, id, NULL);
	}
}

/* The cotangents of the slots that the body reads become outs: zeros for a value that none has reached. */
static void add_results(struct lineariser *l)
{
	for (size_t i = 0; i < l->body->in_count; i++) {
		const struct port *in = &l->body->ins[i];
		const uint32_t value = in->value;
		uint32_t cotangent = l->values[body_cotangent_of(l->body, value)].cotangent;
		if (!has_slot(l->step->cot_in, step_slot(l->step, in)))
			continue;
		if (cotangent == NO_VALUE)
			cotangent = add_made(l, &back_instr(l, INSTR_ZERO, NULL)->out, value, value, true);
		(void)body_add_out(l->back, PORT_COTANGENT, in->index, cotangent);
	}
}

void backward_make(struct lineariser *l)
{
	add_residuals(l);
	add_seeds(l);
	reverse_region(l, 0);
	add_results(l);
	l->out->backward = l->back;
}
