/*
 * Bodies for the tests of the compiler: random ones, which grow by operations, their
 * derivatives, loops and what else a body may hold; and pieces to make one by hand.
 */
#ifndef TESTS_BODIES_H
#define TESTS_BODIES_H

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "evaluate/evaluate.h"

enum { MOST_PARAMS = 16, MOST_VISIBLE = 512, MOST_ITERATIONS = 4, FIRST_ROW = 3 };

/* A forward operation that can be reversed. */
struct record {
	enum op op;
	const struct attrs *attrs;
	uint32_t v, a, y, k, l;
	double scalar;
	const struct type *of_v, *of_a, *of_y;
	uint32_t b; /* of a TERNARY operation */
};

struct model {
	uint64_t random;
	struct arena arena;
	struct diags diags;
	struct context context; /* of both */
	struct body body;
	const struct type *full, *row, *columns, *number, *mask; /* row, columns: NULL where the arrays have one axis */
	enum dtype dtype;
	struct bound_param params[MOST_PARAMS];
	struct type types[MOST_PARAMS]; /* of the params */
	bool stacked[MOST_PARAMS];
	const struct type *part[MOST_PARAMS]; /* of a param as it is read */
	size_t param_count;
	uint32_t visible[MOST_VISIBLE];
	size_t visible_count;
	struct record records[MOST_VISIBLE];
	size_t record_count;
	int64_t counters[256];
	bool general; /* general operations too */
	bool loops;
};

static inline uint32_t draw(struct model *m, uint32_t below)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((m->random >> 33) % below);
}

static inline double draw_number(struct model *m) { return (double)draw(m, 4001) / 1000 - 2; }

static inline const struct type *type_new(struct model *m, enum dtype dtype, int ndim, int64_t first, int64_t second)
{
	struct type *type = arena_alloc(&m->arena, sizeof *type);
	*type = (struct type){.dtype = dtype, .shape = {.ndim = ndim, .dim = {first, second}}};
	return type;
}

static inline size_t width_of(const struct type *type) { return type->dtype == DTYPE_F64 ? 8 : 4; }

static inline size_t count_of(const struct type *type) { return (size_t)shape_count(&type->shape); }

static inline void fill_array(struct model *m, void *array, const struct type *type)
{
	for (size_t i = 0; i < count_of(type); i++)
		if (type->dtype == DTYPE_F64)
			((double *)array)[i] = draw_number(m);
		else
			((float *)array)[i] = (float)draw_number(m);
}

static inline void add_param(struct model *m, const struct type *part, bool stacked, bool streamed)
{
	struct bound_param *param = &m->params[m->param_count];
	struct type *type = &m->types[m->param_count];
	*type = *part;
	if (stacked) {
		type->shape.ndim = part->shape.ndim + 1;
		for (int i = 0; i < part->shape.ndim; i++)
			type->shape.dim[i + 1] = part->shape.dim[i];
		type->shape.dim[0] = MOST_ITERATIONS + 2;
	}
	if (streamed)
		type->shape.dim[0] += FIRST_ROW + 2;
	param->dtype = type->dtype;
	param->shape = &type->shape;
	param->streamed = streamed;
	void *data = malloc((size_t)type_bytes(type) + 1);
	fill_array(m, data, type);
	param->data = data;
	param->gradient = calloc(count_of(type) + 1, width_of(part));
	if (!streamed)
		param->tails = calloc(count_of(type) + 1, width_of(part) / 2);
	m->stacked[m->param_count] = stacked;
	m->part[m->param_count++] = part;
}

static inline void show(struct model *m, uint32_t value)
{
	if (m->visible_count < MOST_VISIBLE)
		m->visible[m->visible_count++] = value;
}

static inline uint32_t add_in(struct model *m, const struct type *type)
{
	uint32_t id = body_add_value(&m->body, type);
	m->body.values[id].from = FROM_PORT;
	m->body.values[id].port = (uint32_t)m->body.in_count;
	m->body.values[id].streamed = type != m->columns && type != m->number;
	body_add_in(&m->body, PORT_SLOT, (uint32_t)m->body.in_count, id);
	show(m, id);
	return id;
}

static inline uint32_t add_made(struct model *m, const struct type *type, size_t instr)
{
	uint32_t id = body_add_value(&m->body, type);
	m->body.values[id].from = FROM_INSTR;
	m->body.values[id].instr = (uint32_t)instr;
	m->body.values[id].streamed = type != m->columns && type != m->number;
	return id;
}

/* A reading of a param; LEVEL: loops open, of which level 0 lies around the body. */
static inline uint32_t add_reading(struct model *m, int level, struct param_ref *ref)
{
	uint32_t param = draw(m, (uint32_t)m->param_count);
	uint32_t id = body_add_value(&m->body, m->part[param]);
	struct value *value = &m->body.values[id];
	value->from = FROM_PARAM;
	value->param = (struct param_ref){.param = param};
	value->streamed = m->params[param].streamed;
	if (m->stacked[param]) {
		struct index *index = arena_alloc(&m->arena, sizeof *index);
		index->loop = draw(m, 4) == 0 ? -1 : (int32_t)draw(m, (uint32_t)level + 1);
		index->value = draw(m, 2);
		value->param.count = 1;
		value->param.index = index;
	}
	if (ref)
		*ref = value->param;
	return id;
}

/* A visible value of TYPE (NULL: any that is not a mask), or NO_VALUE. */
static inline uint32_t pick(struct model *m, const struct type *type)
{
	for (int tries = 0; tries < 40 && m->visible_count; tries++) {
		/* the newest most of the time, so that chains come about */
		size_t back = draw(m, 3) ? draw(m, m->visible_count < 3 ? (uint32_t)m->visible_count : 3)
		                         : draw(m, (uint32_t)m->visible_count);
		uint32_t value = m->visible[m->visible_count - 1 - back];
		const struct type *is = m->body.values[value].type;
		if (type ? type_equal(is, type) : !dtype_bits(is->dtype))
			return value;
	}
	return NO_VALUE;
}

static inline struct attrs *attrs_new(struct model *m, enum op op)
{
	struct attrs *attrs = arena_alloc(&m->arena, sizeof *attrs);
	attrs_default(attrs, op);
	if (op == OP_clip) {
		attrs->number[0] = -0.75;
		attrs->number[1] = 0.5;
	}
	if (op == OP_dropout)
		attrs->p = 0.25;
	if (op == OP_sum || op == OP_amax) {
		attrs->has_axis = true;
		attrs->axis_count = 1;
		attrs->axis[0] = -1;
		attrs->keepdims = true;
	}
	return attrs;
}

static inline void add_element(struct model *m, int level)
{
	static const enum op tame[] = {OP_add, OP_mul, OP_sub,  OP_sin, OP_tanh, OP_neg,  OP_abs,     OP_relu, OP_clip,
	                               OP_max, OP_min, OP_rsub, OP_add, OP_mul,  OP_silu, OP_sigmoid, OP_where};
	enum op op = tame[draw(m, sizeof tame / sizeof *tame)];
	if (draw(m, 8) == 0)
		while (op = (enum op)draw(m, OP_COUNT), op_table[op].class == OP_CLASS_GENERAL)
			;
	const struct op_info *info = &op_table[op];
	uint32_t v = draw(m, 12) == 0 ? add_reading(m, level, NULL) : pick(m, draw(m, 4) ? m->full : NULL), a = NO_VALUE;
	uint32_t b = NO_VALUE;
	if (v == NO_VALUE)
		return;
	if (info->class == OP_CLASS_TERNARY || (info->class == OP_CLASS_BINARY && draw(m, 3)))
		a = draw(m, 2) ? add_reading(m, level, NULL) : pick(m, draw(m, 2) ? m->full : NULL);
	if (info->class == OP_CLASS_TERNARY && draw(m, 3))
		b = draw(m, 2) ? add_reading(m, level, NULL) : pick(m, draw(m, 2) ? m->full : NULL);
	if (info->class == OP_CLASS_TERNARY && a == NO_VALUE)
		return;
	struct type result = *m->body.values[v].type;
	if (b != NO_VALUE &&
	    !shape_broadcast(&m->body.values[v].type->shape, &m->body.values[b].type->shape, &result.shape))
		return;
	const struct shape of_both = result.shape;
	if (a != NO_VALUE && !shape_broadcast(&of_both, &m->body.values[a].type->shape, &result.shape))
		return;
	const struct type *of_y = type_new(m, m->dtype, result.shape.ndim, result.shape.dim[0], result.shape.dim[1]);
	struct record r = {op,
	                   attrs_new(m, op),
	                   v,
	                   a,
	                   NO_VALUE,
	                   NO_VALUE,
	                   NO_VALUE,
	                   draw_number(m),
	                   m->body.values[v].type,
	                   a == NO_VALUE ? NULL : m->body.values[a].type,
	                   of_y,
	                   b};
	struct instr *instr = body_add_instr(&m->body, INSTR_OP);
	size_t at = m->body.instr_count - 1;
	instr->op = op;
	instr->attrs = r.attrs;
	instr->v = v;
	instr->a = a;
	instr->more[0] = b;
	instr->scalar = r.scalar;
	instr->of.v = r.of_v;
	instr->of.a = r.of_a;
	instr->of.y = of_y;
	bool keeps = info->keeps[0].kind != KEEP_NOTHING && draw(m, 2);
	uint32_t kept[2] = {NO_VALUE, NO_VALUE};
	for (int k = 0; k < MAX_KEEPS && keeps; k++)
		if (info->keeps[k].kind != KEEP_NOTHING && draw(m, 5)) {
			const struct type *type = info->keeps[k].kind == KEEP_MASK || info->keeps[k].kind == KEEP_SIGN
			                              ? type_new(m, info->keeps[k].kind == KEEP_MASK ? DTYPE_BITS : DTYPE_SIGNS,
			                                         result.shape.ndim, result.shape.dim[0], result.shape.dim[1])
			                              : of_y;
			kept[k] = add_made(m, type, at);
			show(m, kept[k]);
		}
	if ((kept[0] == NO_VALUE && kept[1] == NO_VALUE) || draw(m, 5))
		show(m, r.y = add_made(m, of_y, at));
	instr = &m->body.instrs[at];
	instr->out = r.y;
	memcpy(instr->out_keep, kept, sizeof kept);
	r.k = kept[0];
	r.l = kept[1];
	if (m->record_count < MOST_VISIBLE)
		m->records[m->record_count++] = r;
}

/* The derivative of something that has been recorded. */
static inline void add_vjp(struct model *m)
{
	if (!m->record_count)
		return;
	const struct record *r =
		&m->records[m->record_count - 1 - draw(m, m->record_count < 4 ? (uint32_t)m->record_count : 4)];
	const struct op_info *info = &op_table[r->op];
	static const enum instr_kind kinds[] = {INSTR_VJP_V, INSTR_VJP_A, INSTR_VJP_B};
	uint32_t side = r->a != NO_VALUE && draw(m, 2) ? (uint32_t)info->operands : 0;
	unsigned needs = info->needs[side];
	uint32_t g = pick(m, r->of_y);
	if (g == NO_VALUE || !info->differentiable_by[side] || (needs & NEED_Y && r->y == NO_VALUE) ||
	    (needs & NEED_K && r->k == NO_VALUE) || (needs & NEED_L && r->l == NO_VALUE))
		return;
	bool general = info->class == OP_CLASS_GENERAL;
	struct instr *instr = body_add_instr(&m->body, general ? INSTR_VJP : kinds[side]);
	size_t at = m->body.instr_count - 1;
	instr->op = r->op;
	instr->attrs = r->attrs;
	instr->scalar = r->scalar;
	instr->of.v = r->of_v;
	instr->of.a = r->of_a;
	instr->of.y = r->of_y;
	instr->g = g;
	instr->v = needs & NEED_V ? r->v : NO_VALUE;
	instr->a = needs & NEED_A ? r->a : NO_VALUE;
	instr->more[0] = needs & NEED_B ? r->b : NO_VALUE;
	instr->y = needs & NEED_Y ? r->y : NO_VALUE;
	instr->k = needs & NEED_K ? r->k : NO_VALUE;
	instr->l = needs & NEED_L ? r->l : NO_VALUE;
	uint32_t out = add_made(m, general ? r->of_v : r->of_y, at);
	m->body.instrs[at].out = out;
	show(m, out);
}

static inline void add_general(struct model *m, int level)
{
	static const enum op ops[] = {OP_softmax, OP_cumsum, OP_rmsnorm, OP_sum, OP_dropout, OP_amax, OP_matmul};
	enum op op = ops[draw(m, sizeof ops / sizeof *ops)];
	uint32_t v = pick(m, m->full), a = NO_VALUE;
	if (v == NO_VALUE || ((op == OP_sum || op == OP_amax || op == OP_matmul) && !m->row))
		return;
	struct attrs *attrs = attrs_new(m, op);
	const struct type *of_v = m->body.values[v].type, *of_y = op == OP_sum || op == OP_amax ? m->row : m->full;
	if (op == OP_matmul) { /* the last param is a square one */
		a = body_add_value(&m->body, m->part[m->param_count]);
		m->body.values[a].from = FROM_PARAM;
		m->body.values[a].param.param = (uint32_t)m->param_count;
	}
	(void)level;
	struct record r = {op, attrs, v, a, NO_VALUE, NO_VALUE, NO_VALUE, 0, of_v, NULL, of_y, NO_VALUE};
	struct instr *instr = body_add_instr(&m->body, INSTR_OP);
	size_t at = m->body.instr_count - 1;
	instr->op = op;
	instr->attrs = attrs;
	instr->v = v;
	instr->a = a;
	instr->of.v = of_v;
	instr->of.a = r.of_a = a == NO_VALUE ? NULL : m->body.values[a].type;
	instr->of.y = of_y;
	if (op == OP_rmsnorm && draw(m, 2)) {
		struct type kept;
		kept = op_keep_type(op, attrs, of_v, NULL, of_y, 0);
		r.k = add_made(m, type_new(m, kept.dtype, kept.shape.ndim, kept.shape.dim[0], kept.shape.dim[1]), at);
		m->body.instrs[at].out_keep[0] = r.k;
	}
	r.y = add_made(m, of_y, at);
	m->body.instrs[at].out = r.y;
	show(m, r.y);
	if (op != OP_dropout && op != OP_matmul && m->record_count < MOST_VISIBLE)
		m->records[m->record_count++] = r;
}

static inline void add_plain(struct model *m, int level)
{
	enum instr_kind kind = (enum instr_kind[]){INSTR_ADD, INSTR_ADD, INSTR_ZERO, INSTR_SUM_TO,
	                                           INSTR_ACCUMULATE}[draw(m, m->general ? 5 : 3)];
	const struct type *type = m->full;
	uint32_t v = NO_VALUE, a = NO_VALUE;
	struct param_ref ref = {0};
	if (kind == INSTR_ADD) {
		v = pick(m, m->full);
		a = pick(m, m->full);
	} else if (kind == INSTR_SUM_TO) {
		v = pick(m, m->full);
		type = m->row && draw(m, 2) ? (draw(m, 2) ? m->row : m->columns) : m->number;
	} else if (kind == INSTR_ACCUMULATE) {
		uint32_t reading = add_reading(m, level, &ref);
		v = pick(m, m->body.values[reading].type);
	}
	if (kind != INSTR_ZERO && v == NO_VALUE)
		return;
	if (kind == INSTR_ADD && a == NO_VALUE)
		return;
	struct instr *instr = body_add_instr(&m->body, kind);
	size_t at = m->body.instr_count - 1;
	instr->v = v;
	instr->a = a;
	instr->param = ref;
	if (kind == INSTR_SUM_TO || kind == INSTR_ACCUMULATE)
		instr->of.v = m->body.values[v].type;
	if (kind == INSTR_SUM_TO)
		instr->of.y = type;
	if (kind == INSTR_ACCUMULATE)
		return;
	uint32_t out = add_made(m, type, at);
	m->body.instrs[at].out = out;
	show(m, out);
}

static inline void add_instrs(struct model *m, int count, int level);

static inline void add_loop(struct model *m, int count, int level)
{
	const size_t shown = m->visible_count, recorded = m->record_count;
	uint32_t carried = 1 + draw(m, 3);
	struct carry *carries = arena_array(&m->arena, carried, sizeof *carries);
	size_t begin = m->body.instr_count;
	for (uint32_t k = 0; k < carried; k++)
		if ((carries[k].init = pick(m, m->full)) == NO_VALUE)
			return;
	struct instr *loop = body_add_instr(&m->body, INSTR_LOOP);
	loop->loop.iterations = draw(m, MOST_ITERATIONS + 1);
	loop->level = level + 1;
	loop->loop.carries = carries;
	loop->loop.carry_count = carried;
	for (uint32_t k = 0; k < carried; k++)
		show(m, carries[k].inner = add_made(m, m->full, begin));
	bool general = m->general;
	m->general &= draw(m, 2);
	add_instrs(m, count, level + 1);
	m->general = general;
	for (uint32_t k = 0; k < carried; k++)
		carries[k].result = pick(m, m->full);
	for (uint32_t k = 0; k < carried; k++)
		if (carries[k].result == NO_VALUE)
			carries[k].result = carries[k].inner;
	struct instr *end = body_add_instr(&m->body, INSTR_END);
	size_t at = m->body.instr_count - 1;
	end->loop.match = (uint32_t)begin;
	end->loop.carries = carries;
	end->loop.carry_count = carried;
	m->body.instrs[begin].loop.match = (uint32_t)at;
	m->visible_count = shown;
	m->record_count = recorded;
	for (uint32_t k = 0; k < carried; k++)
		show(m, carries[k].final = add_made(m, m->full, at));
}

static inline void add_instrs(struct model *m, int count, int level)
{
	for (int i = 0; i < count; i++) {
		uint32_t what = draw(m, 20);
		if (what < 2 && m->loops && level < 4)
			add_loop(m, 1 + (int)draw(m, 6), level);
		else if (what < 5 && m->general)
			add_general(m, level);
		else if (what < 9)
			add_vjp(m);
		else if (what < 11)
			add_plain(m, level);
		else
			add_element(m, level);
	}
}

static inline void add_outs(struct model *m)
{
	size_t count = 1 + draw(m, 4);
	for (size_t i = 0; i < count; i++) {
		uint32_t value = m->visible[m->visible_count - 1 - (i && draw(m, 2) ? draw(m, (uint32_t)m->visible_count) : 0)];
		body_add_out(&m->body, PORT_SLOT, (uint32_t)i, value);
	}
}

/* ROWS by COLUMNS elements; COLUMNS 0: one axis. */
static inline void model_init(struct model *m, uint64_t seed, enum dtype dtype, int64_t rows, int64_t columns)
{
	*m = (struct model){.random = seed * 0x9e3779b97f4a7c15u + 1, .dtype = dtype};
	arena_init(&m->arena, &allocator_system);
	diags_init(&m->diags, &m->arena);
	m->context = (struct context){&allocator_system, &m->arena, &m->diags};
	body_init(&m->body, &m->arena);
	m->full = type_new(m, dtype, columns ? 2 : 1, rows, columns);
	m->mask = type_new(m, DTYPE_BITS, columns ? 2 : 1, rows, columns);
	m->number = type_new(m, dtype, 0, 0, 0);
	m->row = columns ? type_new(m, dtype, 2, rows, 1) : NULL;
	m->columns = columns ? type_new(m, dtype, 1, columns, 0) : NULL;
	add_param(m, m->number, false, false);
	add_param(m, m->number, true, false);
	add_param(m, type_new(m, dtype, 1, 1, 0), true, false);
	add_param(m, m->full, false, true);
	add_param(m, m->full, true, false);
	if (columns) {
		add_param(m, m->row, false, true);
		add_param(m, m->columns, false, false);
		add_param(m, m->columns, true, false);
		add_param(m, type_new(m, dtype, 2, 1, columns), true, false);
		add_param(m, type_new(m, dtype, 2, columns, columns), false, false);
		m->param_count--; /* matmul's: not drawn with the others */
	}
	m->counters[0] = 2;
	add_in(m, m->full);
	add_in(m, m->mask);
	if (columns)
		add_in(m, m->row);
	add_in(m, m->full);
}

static inline void model_free(struct model *m)
{
	for (size_t i = 0; i < MOST_PARAMS; i++) {
		free((void *)(uintptr_t)m->params[i].data);
		free(m->params[i].gradient);
		free(m->params[i].tails);
	}
	arena_free(&m->arena);
}

/* ---- bodies by hand ---- */

static inline uint32_t hand_op(struct model *m, enum op op, uint32_t v, uint32_t a, double scalar)
{
	struct instr *instr = body_add_instr(&m->body, INSTR_OP);
	size_t at = m->body.instr_count - 1;
	instr->op = op;
	instr->attrs = attrs_new(m, op);
	instr->v = v;
	instr->a = a;
	instr->scalar = scalar;
	instr->of.v = m->body.values[v].type;
	instr->of.a = a == NO_VALUE ? NULL : m->body.values[a].type;
	instr->of.y = instr->of.v;
	uint32_t out = add_made(m, m->body.values[v].type, at);
	return m->body.instrs[at].out = out;
}

static inline size_t hand_loop(struct model *m, int64_t iterations, int level, uint32_t init, uint32_t *inner)
{
	struct carry *carry = arena_alloc(&m->arena, sizeof *carry);
	struct instr *loop = body_add_instr(&m->body, INSTR_LOOP);
	size_t at = m->body.instr_count - 1;
	loop->loop.iterations = iterations;
	loop->level = level;
	loop->loop.carries = carry;
	loop->loop.carry_count = 1;
	carry->init = init;
	carry->inner = *inner = add_made(m, m->full, at);
	return at;
}

static inline uint32_t hand_end(struct model *m, size_t begin, uint32_t result)
{
	struct instr *end = body_add_instr(&m->body, INSTR_END);
	size_t at = m->body.instr_count - 1;
	struct instr *loop = &m->body.instrs[begin];
	end->loop.match = (uint32_t)begin;
	end->loop.carries = loop->loop.carries;
	end->loop.carry_count = 1;
	loop->loop.match = (uint32_t)at;
	loop->loop.carries->result = result;
	loop->loop.carries->final = add_made(m, m->full, at);
	return loop->loop.carries->final;
}

#endif
