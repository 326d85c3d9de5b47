/*
 * Lowering: the chain's tree, walked with the types of what flows through it.
 *
 * Variables are mutable in the language (a name rebinds) and values are not in a
 * body, so the walk keeps an environment from variables to values. A body reads
 * a slot of the state when it first needs it and writes back at its end what it
 * has bound. Loops whose state has the same types before and after a turn stay
 * loops; turns that change a type are set apart until one does not.
 *
 * Streaming is decided here, use by use: a value is streamed while its leading
 * axis is the input's and its rows depend on the same rows of the input only.
 *
 * Invariant: of one lowering, equal types are one pointer.
 */
#include "chain/lower.h"

#include "base/checked.h"

#include <string.h>

enum { MAX_STEPS = 10000000 };

/* What an operand has been found to be. */
enum found_kind { FOUND_NUMBER, FOUND_VALUE, FOUND_PARAM, FOUND_BLOCK };
struct found {
	enum found_kind kind;
	double number;
	uint32_t value;
	struct param_ref param;
	const struct node *block;
	const struct frame *frame; /* of the block's names */
};

/* The def call that is being lowered. */
struct frame {
	const struct found *arguments;
	const struct frame *outer;
	const char *def;
};

/* A slot of the state between bodies. */
struct slot {
	const struct type *type; /* NULL: not bound */
	enum dtype dtype;
	bool streamed, active, weak;
	uint32_t class; /* the lowest slot that is known to hold the same value */
};

struct change { /* of a slot by a step, to be undone on the way back */
	uint32_t slot;
	struct slot before;
	struct change *next;
};

/* A step before liveness is known. */
struct draft {
	struct body *body;
	struct change *changes;
	struct span span;
	struct step *last; /* the last struct step made of it */
};

struct draft_item {
	struct draft *draft; /* or a loop */
	struct draft_item *items;
	size_t count, capacity;
	int64_t turns, first, steps;
	int32_t level;
	bool repeats; /* a loop whose counter nobody reads */
};

struct interned {
	struct type type;
	struct interned *next;
};
enum { INTERN_BUCKETS = 256, PARAM_BUCKETS = 1024 };

/* What a variable of a `for` is in a turn: element TURN of REF, as FRAME knows it. REF NULL: it is a param's. */
struct part {
	const struct ref *ref;
	const struct frame *frame;
	int64_t turn;
};

struct lowering {
	struct lowered *out;
	const struct chain *chain;
	struct arena *arena;
	struct diags *diags;
	enum lower_what what;
	int64_t rows, whole_rows;
	const bool *cut; /* params that are cut with the tile (rows > 0) */
	bool *used_streamed, *used_whole;
	struct interned *types[INTERN_BUCKETS];
	struct slot *slots;
	size_t slot_count;
	/* The body that is being built. */
	struct body *body;
	uint32_t *now;     /* by slot: its value in this body, NO_VALUE where not read */
	uint32_t *touched; /* slots with a value in NOW */
	size_t touched_count;
	bool *listed;       /* by slot: it is in TOUCHED */
	bool *written;      /* by slot */
	uint32_t *port;     /* by slot: the value that was read for the class that goes by it */
	struct slot *after; /* by slot: room to work, which a step of many would not give back */
	uint32_t *value_of; /* by slot, likewise */
	uint32_t *lowest;   /* by value of a body, then by slot, likewise */
	size_t lowest_count;
	uint32_t params[PARAM_BUCKETS]; /* a cache of param values */
	const struct frame *frame;
	struct param_ref *loops; /* by loop identity: what its variable is in this turn */
	struct part *parts;      /* by loop identity: the same where it runs over a computed value */
	int32_t level;           /* loops around this place whose counters are kept */
	uint32_t region;
	int64_t step;
	int64_t steps;
	int64_t turns; /* of loops within bodies that have been unrolled */
};

static enum status lower_nodes(struct lowering *l, const struct node *node);

static enum status memory(struct lowering *l) { return diag_memory(l->diags); }

/* Types and values. */

static const struct type *intern(struct lowering *l, const struct type *type)
{
	unsigned hash = (unsigned)type->dtype * 31u + (unsigned)type->shape.ndim;
	for (int i = 0; i < type->shape.ndim; i++)
		hash = hash * 131u + (unsigned)type->shape.dim[i];
	struct interned **bucket = &l->types[hash % INTERN_BUCKETS];
	for (struct interned *i = *bucket; i; i = i->next)
		if (type_equal(&i->type, type))
			return &i->type;
	struct interned *made = arena_alloc(l->arena, sizeof *made);
	if (!made)
		return NULL;
	made->type = *type;
	made->next = *bucket;
	*bucket = made;
	return &made->type;
}

/* A value of TYPE's shape and computing type, or NO_VALUE. */
static uint32_t add_value(struct lowering *l, const struct type *type, enum dtype dtype)
{
	struct type held = *type;
	held.dtype = dtype_compute(type->dtype);
	const struct type *interned = intern(l, &held);
	uint32_t id = interned ? body_add_value(l->body, interned) : NO_VALUE;
	if (id != NO_VALUE)
		l->body->values[id].dtype = dtype;
	return id;
}

static bool same_param(const struct param_ref *a, const struct param_ref *b)
{
	if (a->param != b->param || a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (a->index[i].loop != b->index[i].loop || a->index[i].value != b->index[i].value)
			return false;
	return true;
}

static unsigned hash_param(const struct param_ref *ref)
{
	unsigned hash = ref->param * 2654435761u;
	for (uint32_t i = 0; i < ref->count; i++)
		hash = (hash ^ (unsigned)ref->index[i].value ^ ((unsigned)ref->index[i].loop << 20)) * 16777619u;
	return hash % PARAM_BUCKETS;
}

/* The type of a param or a part of it; the tile's where it is cut. */
static struct type param_type(struct lowering *l, const struct param_ref *ref)
{
	struct type type = l->chain->params[ref->param].type;
	if (l->rows && l->cut && l->cut[ref->param])
		type.shape.dim[0] = l->rows;
	int drop = (int)ref->count;
	type.shape.ndim -= drop;
	for (int i = 0; drop && i < type.shape.ndim; i++)
		type.shape.dim[i] = type.shape.dim[i + drop];
	return type;
}

static uint32_t param_value(struct lowering *l, const struct param_ref *ref)
{
	uint32_t *cached = &l->params[hash_param(ref)];
	const struct body *body = l->body;
	if (*cached < body->value_count && body->values[*cached].from == FROM_PARAM &&
	    same_param(&body->values[*cached].param, ref))
		return *cached;
	const struct param *param = &l->chain->params[ref->param];
	struct type type = param_type(l, ref);
	uint32_t id = add_value(l, &type, type.dtype);
	if (id == NO_VALUE)
		return id;
	struct value *value = &l->body->values[id];
	value->from = FROM_PARAM;
	value->param = *ref;
	value->active = param->differentiated;
	value->weak = param->weak;
	*cached = id;
	return id;
}

static void touch(struct lowering *l, uint32_t slot)
{
	if (!l->listed[slot])
		l->touched[l->touched_count++] = slot;
	l->listed[slot] = true;
}

/* The value of a slot in this body: read from the state when it is first wanted. */
static uint32_t read_slot(struct lowering *l, uint32_t slot)
{
	if (l->now[slot] != NO_VALUE)
		return l->now[slot];
	uint32_t class = l->slots[slot].class;
	touch(l, slot);
	if (l->port[class] != NO_VALUE)
		return l->now[slot] = l->port[class];
	const struct slot *state = &l->slots[class];
	uint32_t id = add_value(l, state->type, state->dtype);
	if (id == NO_VALUE || !body_add_in(l->body, PORT_SLOT, class, id))
		return NO_VALUE;
	struct value *value = &l->body->values[id];
	value->from = FROM_PORT;
	value->port = (uint32_t)l->body->in_count - 1;
	value->streamed = state->streamed;
	value->active = state->active;
	value->weak = state->weak;
	return l->now[slot] = l->port[class] = id;
}

static void write_slot(struct lowering *l, uint32_t slot, uint32_t value)
{
	touch(l, slot);
	l->now[slot] = value;
	l->written[slot] = true;
}

static void begin_body(struct lowering *l, struct body *body)
{
	for (size_t i = 0; i < l->touched_count; i++) {
		uint32_t slot = l->touched[i];
		l->now[slot] = NO_VALUE;
		l->written[slot] = l->listed[slot] = false;
	}
	for (size_t i = 0; l->body && i < l->body->in_count; i++)
		l->port[l->body->ins[i].index] = NO_VALUE;
	l->touched_count = 0;
	l->body = body;
	l->region = 0;
	memset(l->params, 0xff, sizeof l->params);
}

/* Instructions. */

static struct instr *add_op(struct lowering *l, enum op op, const struct attrs *attrs, struct span span)
{
	struct instr *instr = body_add_instr(l->body, INSTR_OP);
	if (!instr)
		return NULL;
	instr->op = op;
	instr->attrs = attrs;
	instr->span = span;
	instr->def = l->frame ? l->frame->def : NULL;
	instr->region = l->region;
	instr->step = l->step;
	return instr;
}

static enum status set_out(struct lowering *l, struct instr *instr, const struct type *type, enum dtype dtype,
                           uint32_t *out)
{
	size_t at = (size_t)(instr - l->body->instrs);
	*out = add_value(l, type, dtype);
	if (*out == NO_VALUE)
		return memory(l);
	struct value *value = &l->body->values[*out];
	value->from = FROM_INSTR;
	value->instr = (uint32_t)at;
	instr = &l->body->instrs[at];
	instr->out = *out;
	instr->of_y = value->type;
	return STATUS_OK;
}

/* VALUE as DTYPE: a cast where the computing types differ. */
static enum status convert(struct lowering *l, uint32_t *value, enum dtype dtype, struct span span)
{
	const struct value old = l->body->values[*value];
	if (old.type->dtype == dtype_compute(dtype))
		return STATUS_OK;
	struct attrs *attrs = arena_alloc(l->arena, sizeof *attrs);
	if (!attrs)
		return memory(l);
	attrs_default(attrs, OP_cast);
	attrs->dtype = dtype_compute(dtype);
	struct instr *instr = add_op(l, OP_cast, attrs, span);
	if (!instr)
		return memory(l);
	instr->v = *value;
	instr->of_v = old.type;
	struct type type = *old.type;
	type.dtype = attrs->dtype;
	enum status status = set_out(l, instr, &type, dtype, value);
	if (status == STATUS_OK) {
		struct value *made = &l->body->values[*value];
		made->streamed = old.streamed;
		made->active = old.active;
		made->weak = old.weak;
	}
	return status;
}

/* NUMBER as a 0-d array, for general operations. */
static enum status constant_value(struct lowering *l, double number, enum dtype dtype, struct span span,
                                  uint32_t *value)
{
	struct type type = {.dtype = dtype_compute(dtype)};
	struct instr *zero = body_add_instr(l->body, INSTR_ZERO);
	if (!zero)
		return memory(l);
	zero->span = span;
	zero->region = l->region;
	zero->step = l->step;
	enum status status = set_out(l, zero, &type, dtype, value);
	if (status)
		return status;
	struct instr *add = add_op(l, OP_add, NULL, span);
	if (!add)
		return memory(l);
	add->v = *value;
	add->of_v = l->body->values[*value].type;
	add->scalar = number;
	return set_out(l, add, &type, dtype, value);
}

/* Operands. */

static enum status find_ref(struct lowering *l, const struct ref *ref, struct found *found);

/* Counts INDEX from the beginning of EXTENT where it is negative; false, and as it was, where it is beyond. */
static bool from_begin(int64_t *index, int64_t extent)
{
	if (*index >= extent || *index < -extent)
		return false;
	*index += *index < 0 ? extent : 0;
	return true;
}

/* FOUND with one more index along its leading axis. */
static enum status take_index(struct lowering *l, struct found *found, struct index index, struct span span)
{
	const struct type type = param_type(l, &found->param);
	char text[TYPE_TEXT];
	if (type.shape.ndim == 0)
		return diag_at(l->diags, STATUS_CHAIN, l->chain->source, span, "'%s' is a scalar and can't be indexed",
		               l->chain->params[found->param.param].name);
	if (index.loop < 0 && !from_begin(&index.value, type.shape.dim[0]))
		return diag_at(l->diags, STATUS_CHAIN, l->chain->source, span, "index %lld is beyond %s of '%s'",
		               (long long)index.value, type_format(&type, text), l->chain->params[found->param.param].name);
	struct index *grown = arena_array(l->arena, found->param.count + 1, sizeof *grown);
	if (!grown)
		return memory(l);
	if (found->param.count)
		memcpy(grown, found->param.index, found->param.count * sizeof *grown);
	grown[found->param.count++] = index;
	found->param.index = grown;
	return STATUS_OK;
}

/* NAME[i] of a computed value: a slice and a reshape. */
static enum status take_element(struct lowering *l, struct found *found, int64_t element, struct span span)
{
	const struct type *type = l->body->values[found->value].type;
	char text[TYPE_TEXT];
	if (type->shape.ndim == 0 || !from_begin(&element, type->shape.dim[0]))
		return diag_at(l->diags, STATUS_CHAIN, l->chain->source, span, "index %lld is beyond %s", (long long)element,
		               type_format(type, text));
	struct attrs *slice = arena_alloc(l->arena, sizeof *slice), *reshape = arena_alloc(l->arena, sizeof *reshape);
	if (!slice || !reshape)
		return memory(l);
	attrs_default(slice, OP_slice);
	attrs_default(reshape, OP_reshape);
	slice->has_start = slice->has_stop = true;
	slice->start = element;
	slice->stop = element + 1;
	struct type sliced = *type, rest = *type;
	sliced.shape.dim[0] = 1;
	rest.shape.ndim--;
	memmove(rest.shape.dim, rest.shape.dim + 1, (size_t)rest.shape.ndim * sizeof *rest.shape.dim);
	reshape->shape = rest.shape;
	const struct type *types[2] = {&sliced, &rest};
	const struct attrs *attrs[2] = {slice, reshape};
	static const enum op ops[2] = {OP_slice, OP_reshape};
	l->out->streamable = false;
	for (int i = 0; i < 2; i++) {
		bool active = l->body->values[found->value].active;
		struct instr *instr = add_op(l, ops[i], attrs[i], span);
		if (!instr)
			return memory(l);
		instr->v = found->value;
		instr->of_v = l->body->values[found->value].type;
		enum status status = set_out(l, instr, types[i], l->body->values[found->value].dtype, &found->value);
		if (status)
			return status;
		l->body->values[found->value].active = active;
	}
	return STATUS_OK;
}

static enum status find_part(struct lowering *l, const struct part *part, struct found *found)
{
	const struct frame *frame = l->frame;
	l->frame = part->frame;
	enum status status = find_ref(l, part->ref, found);
	l->frame = frame;
	return status ? status : take_element(l, found, part->turn, part->ref->span);
}

static enum status find_ref(struct lowering *l, const struct ref *ref, struct found *found)
{
	memset(found, 0, sizeof *found);
	switch (ref->kind) {
	case REF_NONE:
	case REF_NUMBER:
		found->kind = FOUND_NUMBER;
		found->number = ref->number;
		return STATUS_OK;
	case REF_BLOCK:
		found->kind = FOUND_BLOCK;
		found->block = ref->block;
		found->frame = l->frame;
		return STATUS_OK;
	case REF_PARAM:
		found->kind = FOUND_PARAM;
		found->param.param = ref->index;
		break;
	case REF_LOOP: {
		const struct part *part = &l->parts[ref->index];
		enum status status = part->ref ? find_part(l, part, found) : STATUS_OK;
		if (status)
			return status;
		if (part->ref)
			break;
		found->kind = FOUND_PARAM;
		found->param = l->loops[ref->index];
		break;
	}
	case REF_VARIABLE:
		found->kind = FOUND_VALUE;
		if (l->now[ref->index + 1] == NO_VALUE && !l->slots[ref->index + 1].type)
			return diag_at(l->diags, STATUS_CHAIN, l->chain->source, ref->span, "'%s' has no value yet here",
			               l->chain->variables[ref->index]);
		found->value = read_slot(l, ref->index + 1);
		if (found->value == NO_VALUE)
			return memory(l);
		break;
	case REF_ARGUMENT:
		*found = l->frame->arguments[ref->index];
		break;
	}
	if (ref->element == NO_INDEX)
		return STATUS_OK;
	if (found->kind == FOUND_PARAM)
		return take_index(l, found, (struct index){-1, ref->element}, ref->span);
	if (found->kind == FOUND_VALUE)
		return take_element(l, found, ref->element, ref->span);
	return diag_at(l->diags, STATUS_CHAIN, l->chain->source, ref->span, "only arrays can be indexed");
}

/* The value of a sub-chain on the current value. */
static enum status lower_block_operand(struct lowering *l, const struct found *found, uint32_t *value)
{
	uint32_t v = read_slot(l, 0);
	const struct frame *frame = l->frame;
	if (v == NO_VALUE)
		return memory(l);
	bool written = l->written[0];
	l->frame = found->frame;
	enum status status = lower_nodes(l, found->block);
	l->frame = frame;
	*value = l->now[0];
	l->now[0] = v;
	l->written[0] = written;
	return status;
}

/* Whether operand A runs along V's streamed axis when OP meets them. */
static bool runs_along(enum op op, const struct type *v, const struct type *a)
{
	int nv = v->shape.ndim, na = a->shape.ndim;
	if (nv == 0 || na == 0 || v->shape.dim[0] != a->shape.dim[0] || v->shape.dim[0] == 1)
		return false;
	if (op == OP_cross_entropy)
		return na == nv - 1 || (na == 1 && nv == 1);
	if (op == OP_matmul || op == OP_linear || op == OP_dot)
		return nv >= 3 && na == nv;
	if (op == OP_conv1d || op == OP_conv2d)
		return false;
	return na == nv;
}

/* Keeps account of streaming for one use of OP; sets a_streamed of INSTR and streamed of the result. */
static void note_scope(struct lowering *l, struct instr *instr, const struct type *result)
{
	struct body *body = l->body;
	const struct value *v = &body->values[instr->v];
	const struct value *a = instr->a == NO_VALUE ? NULL : &body->values[instr->a];
	bool along = false;
	if (a && v->streamed) {
		along = runs_along(instr->op, v->type, a->type);
		if (a->from == FROM_PARAM) {
			if (l->rows)
				along = along && l->cut[a->param.param];
			else
				(along ? l->used_streamed : l->used_whole)[a->param.param] = true;
			if (along && a->param.count)
				l->out->streamable = false;
		} else if (a->streamed != along) {
			l->out->streamable = false;
		}
	} else if (a && a->streamed) {
		l->out->streamable = false;
	} else if (a && a->from == FROM_PARAM) {
		l->used_whole[a->param.param] = true;
	}
	instr->a_streamed = along;
	/* A whole operand of more axes than one would give a row of elements another axis. */
	bool sized = a && (shape_count(&a->type->shape) != 1 || (!a->streamed && a->type->shape.ndim > 1));
	if (op_table[instr->op].class == OP_CLASS_GENERAL
	        ? instr->op != OP_cast && instr->op != OP_dropout
	        : sized && !(a->streamed && shape_equal(&a->type->shape, &v->type->shape)))
		l->out->flat = false;
	if (l->out->sums) /* there is more after the sum over all rows */
		l->out->streamable = false;
	if (!v->streamed)
		return;
	enum scope scope = op_scope(instr->op, instr->attrs, v->type, a ? a->type : NULL, along);
	bool kept = result->shape.ndim > 0 && result->shape.dim[0] == v->type->shape.dim[0];
	if (scope == SCOPE_SUM && !l->out->sums && l->level == 0) {
		l->out->sums = true;
	} else if (scope > SCOPE_ROW || !kept ||
	           (op_table[instr->op].class == OP_CLASS_BINARY && result->shape.ndim != v->type->shape.ndim)) {
		l->out->streamable = false;
	} else {
		body->values[instr->out].streamed = true;
	}
}

/* Operations. */

/* A reshape whose leading extent is the whole's, in a tile. */
static const struct attrs *tile_attrs(struct lowering *l, const struct node *node, const struct value *v)
{
	if (!l->rows || node->op != OP_reshape || !v->streamed || node->attrs->shape.ndim == 0 ||
	    node->attrs->shape.dim[0] != l->whole_rows)
		return node->attrs;
	struct attrs *attrs = arena_alloc(l->arena, sizeof *attrs);
	if (attrs) {
		*attrs = *node->attrs;
		attrs->shape.dim[0] = l->rows;
	}
	return attrs;
}

/* Brings v and a to one dtype, by NumPy's promotion; scalars that are weak take the other's. */
static enum status promote(struct lowering *l, const struct node *node, uint32_t *v, uint32_t *a, enum dtype *dtype)
{
	struct value *values = l->body->values;
	*dtype = values[*v].dtype;
	if (*a == NO_VALUE)
		return STATUS_OK;
	if (node->op != OP_cross_entropy && !values[*a].weak)
		*dtype = dtype_promote(values[*v].dtype,
		                       dtype_compute(values[*a].dtype) == DTYPE_F64 ? DTYPE_F64 : values[*a].dtype);
	enum status status = convert(l, v, *dtype, node->span);
	return status ? status : convert(l, a, *dtype, node->span);
}

static enum status infer(struct lowering *l, const struct node *node, const struct attrs *attrs, uint32_t v, uint32_t a,
                         struct type *result)
{
	const struct value *values = l->body->values;
	const char *message = NULL;
	enum status status =
		op_infer(node->op, attrs, values[v].type, a == NO_VALUE ? NULL : values[a].type, result, l->arena, &message);
	if (status == STATUS_OK) {
		if (shape_count(&result->shape) < 0 || type_bytes(result) == INT64_MAX)
			return diag_at(l->diags, STATUS_LIMIT, l->chain->source, node->span,
			               "'%s' gives an array too large to address", op_table[node->op].name);
		return STATUS_OK;
	}
	if (!message)
		return memory(l);
	diag_at(l->diags, status, l->chain->source, node->span, "%s", message);
	return status;
}

/* What an operation works on. A number is a value of the body only where the operation is general. */
struct operands {
	uint32_t v, a; /* A: NO_VALUE where there is none, or a number */
	double scalar;
};

/* The operand of NODE, whose current value is in->v. */
static enum status lower_operand(struct lowering *l, const struct node *node, struct operands *in)
{
	in->a = NO_VALUE;
	in->scalar = 0;
	if (node->operand.kind == REF_NONE)
		return STATUS_OK;
	struct found found;
	enum status status = find_ref(l, &node->operand, &found);
	if (status)
		return status;
	switch (found.kind) {
	case FOUND_NUMBER:
		if (op_table[node->op].class == OP_CLASS_GENERAL)
			return constant_value(l, found.number, l->body->values[in->v].dtype, node->operand.span, &in->a);
		in->scalar = found.number;
		return STATUS_OK;
	case FOUND_VALUE:
		in->a = found.value;
		break;
	case FOUND_PARAM:
		in->a = param_value(l, &found.param);
		break;
	case FOUND_BLOCK:
		status = lower_block_operand(l, &found, &in->a);
		break;
	}
	return status == STATUS_OK && in->a == NO_VALUE ? memory(l) : status;
}

static enum status too_many(struct lowering *l, struct span span)
{
	return diag_at(l->diags, STATUS_LIMIT, l->chain->source, span, "the chain has more than %d operations",
	               MAX_OPERATIONS);
}

/* The instruction of NODE on IN, and its RESULT of DTYPE, the current value from here on. */
static enum status add_result(struct lowering *l, const struct node *node, const struct attrs *attrs,
                              const struct operands *in, const struct type *result, enum dtype dtype)
{
	struct instr *instr = add_op(l, node->op, attrs, node->span);
	if (!instr)
		return memory(l);
	if (l->body->instr_count > MAX_OPERATIONS)
		return too_many(l, node->span);
	size_t at = l->body->instr_count - 1;
	instr->v = in->v;
	instr->a = in->a;
	instr->scalar = in->scalar;
	instr->of_v = l->body->values[in->v].type;
	instr->of_a = in->a == NO_VALUE ? NULL : l->body->values[in->a].type;
	uint32_t out;
	enum status status = set_out(l, instr, result, dtype, &out);
	if (status)
		return status;
	const struct op_info *info = &op_table[node->op];
	struct value *values = l->body->values;
	values[out].active = (values[in->v].active && info->differentiable) ||
	                     (in->a != NO_VALUE && values[in->a].active && info->operand_differentiable);
	note_scope(l, &l->body->instrs[at], result);
	write_slot(l, 0, out);
	return STATUS_OK;
}

static enum status lower_op(struct lowering *l, const struct node *node)
{
	struct operands in = {.v = read_slot(l, 0)};
	if (in.v == NO_VALUE)
		return memory(l);
	if (node->op == OP_identity) {
		write_slot(l, 0, in.v);
		return STATUS_OK;
	}
	enum dtype dtype;
	enum status status = lower_operand(l, node, &in);
	if (status == STATUS_OK)
		status = promote(l, node, &in.v, &in.a, &dtype);
	if (status)
		return status;
	const struct attrs *attrs = tile_attrs(l, node, &l->body->values[in.v]);
	struct type result;
	if (!attrs)
		return memory(l);
	status = infer(l, node, attrs, in.v, in.a, &result);
	if (status)
		return status;
	return add_result(l, node, attrs, &in, &result, node->op == OP_cast ? attrs->dtype : dtype);
}

static enum status lower_call(struct lowering *l, const struct node *node)
{
	const struct def *def = node->def;
	struct found *arguments = arena_array(l->arena, def->count + 1, sizeof *arguments);
	struct frame *frame = arena_alloc(l->arena, sizeof *frame);
	uint32_t *saved = arena_array(l->arena, def->variables + 1, sizeof *saved);
	if (!arguments || !frame || !saved)
		return memory(l);
	for (size_t i = 0; i < def->count; i++) {
		enum status status = find_ref(l, &node->arguments[i], &arguments[i]);
		if (status)
			return status;
	}
	if (l->body->instr_count > MAX_OPERATIONS)
		return too_many(l, node->span);
	*frame = (struct frame){.arguments = arguments, .outer = l->frame, .def = def->name};
	uint32_t *locals = l->now + 1 + def->first_variable;
	memcpy(saved, locals, def->variables * sizeof *saved);
	for (uint32_t i = 0; i < def->variables; i++)
		locals[i] = NO_VALUE;
	const struct frame *outer = l->frame;
	l->frame = frame;
	enum status status = lower_nodes(l, def->body);
	l->frame = outer;
	memcpy(locals, saved, def->variables * sizeof *saved);
	if (status == STATUS_OK && !l->written[0]) {
		uint32_t v = read_slot(l, 0);
		if (v == NO_VALUE)
			return memory(l);
	}
	return status;
}

/* Whether VALUE is made outside of the checkpoint block that is being lowered. */
static bool made_outside(const struct lowering *l, uint32_t value)
{
	const struct value *v = &l->body->values[value];
	uint32_t made = v->from == FROM_INSTR ? l->body->instrs[v->instr].region : 0;
	for (uint32_t r = l->region; r != made; r = l->body->regions[r].parent)
		if (r == 0)
			return false; /* in a block that has ended */
	return made != l->region;
}

static enum status lower_name(struct lowering *l, const struct node *node)
{
	uint32_t value;
	if (node->operand.kind == REF_NONE) {
		value = read_slot(l, 0);
	} else {
		struct found found;
		enum status status = find_ref(l, &node->operand, &found);
		if (status)
			return status;
		if (found.kind == FOUND_PARAM)
			value = param_value(l, &found.param);
		else if (found.kind == FOUND_VALUE)
			value = found.value;
		else
			return diag_at(l->diags, STATUS_CHAIN, l->chain->source, node->span,
			               "'%s' is bound again in a loop, where it is not an array",
			               l->chain->variables[node->variable]);
	}
	if (value == NO_VALUE)
		return memory(l);
	if (node->name) {
		struct naming *naming = arena_alloc(l->arena, sizeof *naming);
		if (!naming)
			return memory(l);
		naming->name = node->name;
		naming->span = node->span;
		naming->inner = made_outside(l, value);
		naming->next = l->body->values[value].names;
		l->body->values[value].names = naming;
	}
	write_slot(l, node->variable + 1, value);
	return STATUS_OK;
}

/* Loops. */

/*
 * The type of the array that a `for` over REF, which is a name alone, runs over. It
 * is found before there is a body. *COMPUTED: it is no param's, and PARAM is not set.
 */
static enum status type_over(struct lowering *l, const struct ref *ref, struct param_ref *param, struct type *type,
                             bool *computed)
{
	struct found found;
	*computed = true;
	if (ref->kind == REF_VARIABLE) {
		const uint32_t slot = ref->index + 1, now = l->now[slot];
		const struct type *is = now != NO_VALUE ? l->body->values[now].type : l->slots[slot].type;
		if (!is)
			return diag_at(l->diags, STATUS_CHAIN, l->chain->source, ref->span, "'%s' has no value yet here",
			               l->chain->variables[ref->index]);
		*type = *is;
		return STATUS_OK;
	}
	if (ref->kind == REF_LOOP && l->parts[ref->index].ref) {
		const struct part *part = &l->parts[ref->index];
		const struct frame *frame = l->frame;
		l->frame = part->frame;
		enum status status = type_over(l, part->ref, param, type, computed);
		l->frame = frame;
		type->shape.ndim--;
		memmove(type->shape.dim, type->shape.dim + 1, (size_t)type->shape.ndim * sizeof *type->shape.dim);
		return status;
	}
	enum status status = find_ref(l, ref, &found);
	if (status)
		return status;
	*computed = found.kind == FOUND_VALUE;
	if (found.kind == FOUND_VALUE) {
		*type = *l->body->values[found.value].type;
	} else if (found.kind == FOUND_PARAM) {
		*param = found.param;
		*type = param_type(l, &found.param);
	} else {
		return diag_at(l->diags, STATUS_CHAIN, l->chain->source, ref->span,
		               "for runs over params, consts and values that have a name");
	}
	return STATUS_OK;
}

/* The number of turns of a `for`, and what its variables run over: in REFS, or in parts where that is computed. */
static enum status for_turns(struct lowering *l, const struct node *node, struct param_ref *refs, int64_t *turns,
                             bool *computed)
{
	*turns = -1;
	*computed = false;
	for (size_t i = 0; i < node->loop_count; i++) {
		struct type type;
		bool value;
		enum status status = type_over(l, &node->over[i], &refs[i], &type, &value);
		if (status)
			return status;
		char text[TYPE_TEXT];
		if (type.shape.ndim == 0)
			return diag_at(l->diags, STATUS_CHAIN, l->chain->source, node->over[i].span,
			               "for runs over a leading axis, and %s has none", type_format(&type, text));
		if (*turns >= 0 && type.shape.dim[0] != *turns)
			return diag_at(l->diags, STATUS_CHAIN, l->chain->source, node->over[i].span,
			               "for runs over arrays of %lld and %lld turns", (long long)*turns,
			               (long long)type.shape.dim[0]);
		*turns = type.shape.dim[0];
		*computed |= value;
		l->parts[node->loops[i]] = (struct part){value ? &node->over[i] : NULL, l->frame, 0};
		if (value)
			l->out->streamable = false;
		else
			l->used_whole[refs[i].param] = true;
	}
	return STATUS_OK;
}

/* TURN, or INDEX where that is a loop's, as REFS are indexed. */
static enum status set_turn(struct lowering *l, const struct node *node, const struct param_ref *refs,
                            struct index index, int64_t turn)
{
	for (size_t i = 0; i < node->loop_count; i++) {
		struct part *part = &l->parts[node->loops[i]];
		part->turn = turn;
		if (part->ref)
			continue;
		struct found found = {.kind = FOUND_PARAM, .param = refs[i]};
		enum status status = take_index(l, &found, index, node->span);
		if (status)
			return status;
		l->loops[node->loops[i]] = found.param;
	}
	return STATUS_OK;
}

/* Slots that NODES bind (not those local to defs), appended to SET where not there. */
static void collect_bound(const struct node *node, bool *in, uint32_t *set, size_t *count)
{
	for (; node; node = node->next) {
		if (node->kind == NODE_NAME && !in[node->variable + 1]) {
			in[node->variable + 1] = true;
			set[(*count)++] = node->variable + 1;
		}
		if (node->body)
			collect_bound(node->body, in, set, count);
		if (node->operand.kind == REF_BLOCK)
			collect_bound(node->operand.block, in, set, count);
		for (size_t i = 0; node->kind == NODE_CALL && i < node->def->count; i++)
			if (node->arguments[i].kind == REF_BLOCK)
				collect_bound(node->arguments[i].block, in, set, count);
	}
}

/* A loop that is kept as one in the body: its slots, the current value's first, are carried from turn to turn. */
struct kept_loop {
	uint32_t *slots;
	struct carry *carries; /* by SLOTS */
	size_t count;
	uint32_t at; /* its instruction */
	/* What there was before it. */
	size_t instrs, values, regions;
	bool sums;
};

/* The slots that the body of NODE binds. *BOUND: all have values here, as they must where a turn is to be like the next. */
static enum status find_carried(struct lowering *l, const struct node *node, struct kept_loop *k, bool *bound)
{
	bool *in = arena_array(l->arena, l->slot_count, sizeof *in);
	k->slots = arena_array(l->arena, l->slot_count, sizeof *k->slots);
	if (!in || !k->slots || read_slot(l, 0) == NO_VALUE)
		return memory(l);
	in[0] = true;
	k->slots[k->count++] = 0;
	collect_bound(node->body, in, k->slots, &k->count);
	*bound = true;
	for (size_t i = 1; i < k->count; i++)
		*bound &= l->now[k->slots[i]] != NO_VALUE;
	return STATUS_OK;
}

static enum status open_loop(struct lowering *l, const struct node *node, int64_t turns, struct kept_loop *k)
{
	struct body *body = l->body;
	k->instrs = body->instr_count;
	k->values = body->value_count;
	k->regions = body->region_count;
	k->sums = l->out->sums;
	k->carries = arena_array(l->arena, k->count, sizeof *k->carries);
	struct instr *loop = body_add_instr(body, INSTR_LOOP);
	if (!k->carries || !loop)
		return memory(l);
	loop->turns = turns;
	loop->level = l->level;
	loop->span = node->span;
	loop->region = l->region;
	k->at = (uint32_t)body->instr_count - 1;
	for (size_t i = 0; i < k->count; i++) {
		struct carry *carry = &k->carries[i];
		carry->init = l->now[k->slots[i]];
		const struct value old = body->values[carry->init];
		carry->inner = body_add_value(body, old.type);
		if (carry->inner == NO_VALUE)
			return memory(l);
		struct value *inner = &body->values[carry->inner];
		*inner = old;
		inner->from = FROM_INSTR;
		inner->instr = k->at;
		inner->names = NULL;
		write_slot(l, k->slots[i], carry->inner);
	}
	return STATUS_OK;
}

/* Whether the slots have the same types after the turn that has been lowered as before it. */
static bool is_stable(const struct lowering *l, const struct kept_loop *k)
{
	const struct value *values = l->body->values;
	for (size_t i = 0; i < k->count; i++) {
		const struct value *was = &values[k->carries[i].inner], *is = &values[l->now[k->slots[i]]];
		if (was->type != is->type || was->dtype != is->dtype || was->streamed != is->streamed)
			return false;
	}
	return true;
}

/* Everything is as it was. */
static void drop_loop(struct lowering *l, const struct kept_loop *k)
{
	l->body->instr_count = k->instrs;
	l->body->value_count = k->values;
	l->body->region_count = k->regions;
	l->out->sums = k->sums;
	for (size_t i = 0; i < k->count; i++)
		l->now[k->slots[i]] = k->carries[i].init;
}

static enum status close_loop(struct lowering *l, const struct kept_loop *k)
{
	struct body *body = l->body;
	struct instr *end = body_add_instr(body, INSTR_END);
	if (!end)
		return memory(l);
	uint32_t end_at = (uint32_t)body->instr_count - 1;
	end->match = k->at;
	end->region = l->region;
	for (size_t i = 0; i < k->count; i++) {
		struct carry *carry = &k->carries[i];
		carry->result = l->now[k->slots[i]];
		const struct value old = body->values[carry->inner];
		carry->final = body_add_value(body, old.type);
		if (carry->final == NO_VALUE)
			return memory(l);
		body->values[carry->final] = old;
		body->values[carry->final].instr = end_at;
		l->now[k->slots[i]] = carry->final;
	}
	body->instrs[k->at].match = end_at;
	body->instrs[k->at].carries = body->instrs[end_at].carries = k->carries;
	body->instrs[k->at].carry_count = body->instrs[end_at].carry_count = (uint32_t)k->count;
	return STATUS_OK;
}

/*
 * A loop kept as one in a body: true in *STABLE where the slots that it binds
 * have the same types after a turn as before; else everything is as it was.
 */
static enum status try_loop(struct lowering *l, const struct node *node, int64_t turns, const struct param_ref *refs,
                            bool *stable)
{
	if (l->level == MAX_LOOPS)
		return diag_at(l->diags, STATUS_LIMIT, l->chain->source, node->span,
		               "loops within each other, defs included, are more than %d", MAX_LOOPS);
	struct kept_loop k = {0};
	bool bound = false;
	enum status status = find_carried(l, node, &k, &bound);
	*stable = false;
	if (status || !bound)
		return status;
	status = open_loop(l, node, turns, &k);
	if (status == STATUS_OK && node->kind == NODE_FOR)
		status = set_turn(l, node, refs, (struct index){l->level, 0}, 0);
	l->level++;
	if (status == STATUS_OK)
		status = lower_nodes(l, node->body);
	l->level--;
	if (status)
		return status;
	*stable = is_stable(l, &k);
	if (*stable)
		return close_loop(l, &k);
	drop_loop(l, &k);
	return STATUS_OK;
}

static enum status too_long(struct lowering *l, struct span span)
{
	diag_at(l->diags, STATUS_LIMIT, l->chain->source, span, "the chain has more than 10^7 steps when it is unrolled");
	diag_hint(l->diags, "a forward run (ckptc run) of a loop has no such limit");
	return STATUS_LIMIT;
}

/* A loop inside a body: kept where that can be, else turn after turn. */
static enum status lower_loop(struct lowering *l, const struct node *node)
{
	int64_t turns = node->count, turn = 0;
	struct param_ref *refs = arena_array(l->arena, node->loop_count + 1, sizeof *refs);
	enum status status = refs ? STATUS_OK : memory(l);
	bool computed = false;
	if (status == STATUS_OK && node->kind == NODE_FOR)
		status = for_turns(l, node, refs, &turns, &computed);
	bool keep = l->what == LOWER_RUN && !computed;
	if (!node->body)
		return status;
	for (; turn < turns && status == STATUS_OK; turn++) {
		bool stable = false;
		if (keep && turns - turn > 1 && (node->kind == NODE_REPEAT || turn == 0)) {
			status = try_loop(l, node, turns - turn, refs, &stable);
			if (status || stable)
				return status;
		}
		if (l->body->instr_count > MAX_OPERATIONS || ++l->turns > MAX_OPERATIONS) /* turns of nothing take time, too */
			return too_long(l, node->span);
		if (node->kind == NODE_FOR)
			status = set_turn(l, node, refs, (struct index){-1, turn}, turn);
		if (status == STATUS_OK)
			status = lower_nodes(l, node->body);
	}
	return status;
}

static enum status lower_checkpoint(struct lowering *l, const struct node *node)
{
	struct body *body = l->body;
	struct region *grown =
		arena_grow(l->arena, body->regions, body->region_count, &body->region_capacity, sizeof *grown);
	if (!grown)
		return memory(l);
	body->regions = grown;
	uint32_t id = (uint32_t)body->region_count++, outer = l->region;
	body->regions[id] = (struct region){.parent = outer,
	                                    .first = (uint32_t)body->instr_count,
	                                    .policy = node->policy,
	                                    .policy_span = node->policy_span,
	                                    .span = node->span};
	l->region = id;
	enum status status = lower_nodes(l, node->body);
	l->region = outer;
	body->regions[id].end = (uint32_t)body->instr_count;
	return status;
}

static enum status lower_node(struct lowering *l, const struct node *node)
{
	switch (node->kind) {
	case NODE_OP:
		return lower_op(l, node);
	case NODE_CALL:
		return lower_call(l, node);
	case NODE_NAME:
		return lower_name(l, node);
	case NODE_REPEAT:
	case NODE_FOR:
		return lower_loop(l, node);
	case NODE_CHECKPOINT:
		return lower_checkpoint(l, node);
	}
	return STATUS_OK;
}

static enum status lower_nodes(struct lowering *l, const struct node *node)
{
	enum status status = STATUS_OK;
	for (; node && status == STATUS_OK; node = node->next)
		status = lower_node(l, node);
	return status;
}

/* Steps. */

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

static enum status end_step(struct lowering *l, struct draft *draft)
{
	uint32_t *lowest = lowest_room(l, l->body->value_count + l->slot_count);
	struct slot *after = l->after;
	if (!lowest)
		return memory(l);
	memset(after, 0, l->slot_count * sizeof *after);
	for (uint32_t slot = (uint32_t)l->slot_count; slot-- > 0;)
		lowest[held_by(l, slot)] = slot;
	for (uint32_t slot = 0; slot < l->slot_count; slot++) {
		after[slot] = l->slots[slot];
		/* Names of defs are local: they have been made NO_VALUE again. */
		if (l->written[slot] && l->now[slot] != NO_VALUE) {
			const struct value *value = &l->body->values[l->now[slot]];
			if (!body_add_out(l->body, PORT_SLOT, slot, l->now[slot]))
				return memory(l);
			after[slot] = (struct slot){value->type, value->dtype, value->streamed, value->active, value->weak, 0};
		}
		after[slot].class = lowest[held_by(l, slot)];
	}
	for (uint32_t slot = 0; slot < l->slot_count; slot++) {
		if (!memcmp(&after[slot], &l->slots[slot], sizeof after[slot]))
			continue;
		struct change *change = arena_alloc(l->arena, sizeof *change);
		if (!change)
			return memory(l);
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

static enum status draft_step(struct lowering *l, const struct node *node, struct draft_item *list)
{
	struct draft *draft = arena_alloc(l->arena, sizeof *draft);
	struct body *body = arena_alloc(l->arena, sizeof *body);
	struct draft_item *item = add_item(l, list);
	if (!draft || !body || !item)
		return memory(l);
	body_init(body, l->arena);
	if (!body->regions)
		return memory(l);
	begin_body(l, body);
	draft->body = body;
	draft->span = node->span;
	enum status status = lower_node(l, node);
	if (status == STATUS_OK)
		status = end_step(l, draft);
	item->draft = draft;
	item->steps = 1;
	list->steps++;
	return status;
}

static bool same_slots(const struct slot *a, const struct slot *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i].type != b[i].type || a[i].dtype != b[i].dtype || a[i].active != b[i].active ||
		    a[i].streamed != b[i].streamed || a[i].class != b[i].class)
			return false;
	return true;
}

static enum status draft_nodes(struct lowering *l, const struct node *node, struct draft_item *list);

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
	bool computed = false;
	if (!refs || !before)
		return memory(l);
	if (node->kind == NODE_FOR) {
		enum status status = for_turns(l, node, refs, &turns, &computed);
		if (status)
			return status;
	}
	while (node->body && turn < turns) {
		memcpy(before, l->slots, l->slot_count * sizeof *before);
		struct draft_item turn_items = {.level = l->level, .first = turn, .turns = 1};
		enum status status = STATUS_OK;
		if (node->kind == NODE_FOR)
			status = set_turn(l, node, refs, (struct index){l->level, 0}, turn);
		l->level++;
		if (status == STATUS_OK)
			status = draft_nodes(l, node->body, &turn_items);
		l->level--;
		if (status)
			return status;
		if (!computed && same_slots(before, l->slots, l->slot_count))
			turn_items.turns = turns - turn;
		int64_t steps;
		if (!checked_mul_i64(turn_items.steps, turn_items.turns, &steps) || steps > MAX_STEPS - list->steps)
			return too_long(l, node->span);
		turn += turn_items.turns;
		turn_items.steps = steps;
		list->steps += steps;
		struct draft_item *item = add_item(l, list);
		if (!item)
			return memory(l);
		*item = turn_items;
		item->repeats = node->kind == NODE_REPEAT;
		join_loops(item);
	}
	return STATUS_OK;
}

static enum status draft_nodes(struct lowering *l, const struct node *node, struct draft_item *list)
{
	enum status status = STATUS_OK;
	for (; node && status == STATUS_OK; node = node->next) {
		if (node->kind == NODE_REPEAT || node->kind == NODE_FOR)
			status = draft_loop(l, node, list);
		else
			status = draft_step(l, node, list);
		if (status == STATUS_OK && list->steps > MAX_STEPS)
			status = too_long(l, node->span);
	}
	return status;
}

/* Liveness: from the last step to the first, over sets of slots. */

struct sets {
	bool *live, *cot; /* by slot */
};

static enum status add_item_front(struct lowering *l, struct item **items, size_t *count, size_t *capacity,
                                  struct item item)
{
	/* Items are collected back to front and reversed at the end. */
	struct item *grown = arena_grow(l->arena, *items, *count, capacity, sizeof *grown);
	if (!grown)
		return memory(l);
	*items = grown;
	grown[(*count)++] = item;
	return STATUS_OK;
}

static const uint32_t *list_of(struct lowering *l, const bool *set, uint32_t *count, const uint32_t *same,
                               uint32_t same_count)
{
	uint32_t n = 0;
	bool equal = same != NULL;
	for (size_t i = 0; i < l->slot_count; i++) {
		if (!set[i])
			continue;
		if (equal && (n >= same_count || same[n] != i))
			equal = false;
		n++;
	}
	*count = n;
	if (equal && n == same_count)
		return same;
	uint32_t *list = arena_array(l->arena, n + 1, sizeof *list);
	n = 0;
	for (size_t i = 0; list && i < l->slot_count; i++)
		if (set[i])
			list[n++] = (uint32_t)i;
	return list;
}

static bool list_equals(const uint32_t *list, uint32_t count, const bool *set, size_t slots)
{
	uint32_t n = 0;
	for (size_t i = 0; i < slots; i++)
		if (set[i] && (n >= count || list[n++] != i))
			return false;
	return n == count;
}

/*
 * Which slots before STEP its live slots after need, and where the cotangents
 * after it go: to values of its body, or past it. l->slots is the state before.
 */
static enum status flow_back(struct lowering *l, struct step *step, struct sets *sets)
{
	const struct body *body = step->body;
	bool *needed = arena_array(l->arena, body->value_count + 1, sizeof *needed);
	bool *cot = arena_array(l->arena, body->value_count + 1, sizeof *cot);
	uint32_t *value_of = l->value_of;
	uint32_t *cot_to = arena_array(l->arena, step->cot_out_count + 1, sizeof *cot_to);
	uint32_t *cot_value = arena_array(l->arena, step->cot_out_count + 1, sizeof *cot_value);
	if (!needed || !cot || !cot_to || !cot_value)
		return memory(l);
	memset(value_of, 0xff, l->slot_count * sizeof *value_of);
	memset(sets->cot, 0, l->slot_count * sizeof *sets->cot);
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
			sets->cot[class] = true;
		else
			cot[taker] |= !written || body->values[taker].active;
	}
	step->cot_to = cot_to;
	step->cot_value = cot_value;
	for (size_t i = 0; i < body->out_count; i++)
		needed[body->outs[i].value] |= sets->live[body->outs[i].index];
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
		sets->live[body->outs[i].index] = false;
	for (size_t i = 0; i < body->in_count; i++) {
		sets->live[body->ins[i].index] |= needed[body->ins[i].value];
		sets->cot[body->ins[i].index] |= cot[body->ins[i].value];
	}
	return STATUS_OK;
}

static const struct type *const *types_of(struct lowering *l, const uint32_t *slots, uint32_t count)
{
	const struct type **types = arena_array(l->arena, count + 1, sizeof *types);
	for (uint32_t i = 0; types && i < count; i++)
		types[i] = l->slots[slots[i]].type;
	return types;
}

static enum status finish_step(struct lowering *l, struct draft *draft, struct sets *sets, const struct step *after,
                               const struct step **made)
{
	struct step *old = draft->last;
	bool same = old && list_equals(old->live_out, old->live_out_count, sets->live, l->slot_count) &&
	            list_equals(old->cot_out, old->cot_out_count, sets->cot, l->slot_count);
	struct step *step = same ? old : arena_alloc(l->arena, sizeof *step);
	if (!step)
		return memory(l);
	if (!same) {
		step->body = draft->body;
		step->span = draft->span;
		step->id = (uint32_t)l->out->distinct_count++;
		step->live_out = list_of(l, sets->live, &step->live_out_count, after ? after->live_in : NULL,
		                         after ? after->live_in_count : 0);
		step->cot_out =
			list_of(l, sets->cot, &step->cot_out_count, after ? after->cot_in : NULL, after ? after->cot_in_count : 0);
		step->out_types = step->live_out ? types_of(l, step->live_out, step->live_out_count) : NULL;
	}
	for (const struct change *c = draft->changes; c; c = c->next)
		l->slots[c->slot] = c->before;
	if (same) {
		memset(sets->live, 0, l->slot_count * sizeof *sets->live);
		memset(sets->cot, 0, l->slot_count * sizeof *sets->cot);
		for (uint32_t i = 0; i < step->live_in_count; i++)
			sets->live[step->live_in[i]] = true;
		for (uint32_t i = 0; i < step->cot_in_count; i++)
			sets->cot[step->cot_in[i]] = true;
	} else {
		enum status status = flow_back(l, step, sets);
		if (status)
			return status;
		step->live_in = list_of(l, sets->live, &step->live_in_count, step->live_out, step->live_out_count);
		step->cot_in = list_of(l, sets->cot, &step->cot_in_count, step->cot_out, step->cot_out_count);
		step->in_types = step->live_in ? types_of(l, step->live_in, step->live_in_count) : NULL;
		uint32_t *class_in = arena_array(l->arena, step->live_in_count + 1, sizeof *class_in);
		for (uint32_t i = 0; class_in && step->live_in && i < step->live_in_count; i++)
			class_in[i] = l->slots[step->live_in[i]].class;
		step->class_in = class_in;
		if (!class_in || !step->in_types || !step->out_types || !step->live_out || !step->cot_out || !step->cot_in)
			return memory(l);
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
	size_t n = l->slot_count;
	bool *live = arena_array(l->arena, n, sizeof *live), *cot = arena_array(l->arena, n, sizeof *cot);
	if (!live || !cot)
		return memory(l);
	int64_t per_turn = loop->turns ? loop->steps / loop->turns : 0;
	for (int64_t left = loop->turns; left > 0;) {
		memcpy(live, sets->live, n * sizeof *live);
		memcpy(cot, sets->cot, n * sizeof *cot);
		struct item item = {.level = loop->level};
		enum status status = finish_items(l, loop, sets, &item.items, &item.count);
		if (status)
			return status;
		bool stable = !memcmp(live, sets->live, n * sizeof *live) && !memcmp(cot, sets->cot, n * sizeof *cot);
		item.turns = stable ? left : 1;
		left -= item.turns;
		item.first = loop->first + left;
		item.steps = per_turn * item.turns;
		status = add_item_front(l, items, count, capacity, item);
		if (status)
			return status;
	}
	return STATUS_OK;
}

/* Liveness of one turn of LIST; its items in order. */
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

static void number_steps(const struct step **distinct, struct item *items, size_t count)
{
	int64_t start = 0;
	for (size_t i = 0; i < count; i++) {
		items[i].start = start;
		start += items[i].steps;
		if (items[i].step)
			distinct[items[i].step->id] = items[i].step;
		else
			number_steps(distinct, items[i].items, items[i].count);
	}
}

static enum status finish_steps(struct lowering *l, const struct draft_item *list)
{
	struct lowered *out = l->out;
	struct sets sets = {arena_array(l->arena, l->slot_count, sizeof(bool)),
	                    arena_array(l->arena, l->slot_count, sizeof(bool))};
	if (!sets.live || !sets.cot)
		return memory(l);
	sets.live[0] = true;
	sets.cot[0] = l->slots[0].active;
	enum status status = finish_items(l, list, &sets, &out->items, &out->item_count);
	if (status)
		return status;
	out->steps = list->steps;
	const struct step **distinct = arena_array(l->arena, out->distinct_count + 1, sizeof *distinct);
	if (!distinct)
		return memory(l);
	number_steps(distinct, out->items, out->item_count);
	out->distinct = distinct;
	return STATUS_OK;
}

/* One body of everything: for a forward run, or unrolled for policies by value. */
static enum status lower_whole(struct lowering *l)
{
	struct lowered *out = l->out;
	out->whole = arena_alloc(l->arena, sizeof *out->whole);
	if (!out->whole)
		return memory(l);
	body_init(out->whole, l->arena);
	begin_body(l, out->whole);
	if (!out->whole->regions || read_slot(l, 0) == NO_VALUE || (l->chain->names_input && read_slot(l, 1) == NO_VALUE))
		return memory(l);
	enum status status = lower_nodes(l, l->chain->first);
	if (status)
		return status;
	const struct value *value = &out->whole->values[l->now[0]];
	l->slots[0] = (struct slot){value->type, value->dtype, value->streamed, value->active, value->weak, 0};
	out->whole->regions[0].end = (uint32_t)out->whole->instr_count;
	return body_add_out(out->whole, PORT_SLOT, 0, l->now[0]) ? STATUS_OK : memory(l);
}

/* Counts the steps of the unrolled chain as it numbers its instructions. */
static enum status lower_unrolled_nodes(struct lowering *l, const struct node *node);

static enum status lower_unrolled_loop(struct lowering *l, const struct node *node)
{
	int64_t turns = node->count;
	struct param_ref *refs = arena_array(l->arena, node->loop_count + 1, sizeof *refs);
	enum status status = refs ? STATUS_OK : memory(l);
	bool computed;
	if (status == STATUS_OK && node->kind == NODE_FOR)
		status = for_turns(l, node, refs, &turns, &computed);
	for (int64_t turn = 0; node->body && turn < turns && status == STATUS_OK; turn++) {
		if (l->steps > MAX_STEPS || ++l->turns > MAX_OPERATIONS)
			return too_long(l, node->span);
		if (node->kind == NODE_FOR)
			status = set_turn(l, node, refs, (struct index){-1, turn}, turn);
		if (status == STATUS_OK)
			status = lower_unrolled_nodes(l, node->body);
	}
	return status;
}

static enum status lower_unrolled_nodes(struct lowering *l, const struct node *node)
{
	enum status status = STATUS_OK;
	for (; node && status == STATUS_OK; node = node->next) {
		if (node->kind == NODE_REPEAT || node->kind == NODE_FOR) {
			status = lower_unrolled_loop(l, node);
			continue;
		}
		l->step = l->steps++;
		status = lower_node(l, node);
	}
	return status;
}

static enum status lower_unrolled(struct lowering *l)
{
	struct lowered *out = l->out;
	struct draft *draft = arena_alloc(l->arena, sizeof *draft);
	struct body *body = arena_alloc(l->arena, sizeof *body);
	if (!draft || !body)
		return memory(l);
	body_init(body, l->arena);
	begin_body(l, body);
	if (!body->regions || read_slot(l, 0) == NO_VALUE || (l->chain->names_input && read_slot(l, 1) == NO_VALUE))
		return memory(l);
	enum status status = lower_unrolled_nodes(l, l->chain->first);
	if (status)
		return status;
	write_slot(l, 0, l->now[0]);
	for (size_t i = 1; i < l->slot_count; i++)
		l->written[i] = false;
	draft->body = body;
	draft->span = l->chain->first ? l->chain->first->span : (struct span){0};
	status = end_step(l, draft);
	out->output = *l->slots[0].type;
	out->output.dtype = l->slots[0].dtype;
	struct draft_item item = {.draft = draft, .steps = 1}, list = {.items = &item, .count = 1, .steps = 1};
	if (status == STATUS_OK)
		status = finish_steps(l, &list);
	out->steps = l->steps;
	return status;
}

/* The input's type against its declaration. */
static enum status check_input(const struct chain *chain, const struct type *input, struct diags *diags)
{
	const struct declared *declared = &chain->input_type;
	if (!declared->given)
		return STATUS_OK;
	const struct shape *want = &declared->type.shape, *have = &input->shape;
	bool fits = want->ndim == have->ndim;
	for (int i = 0; fits && i < want->ndim; i++)
		fits = want->dim[i] == -1 || want->dim[i] == have->dim[i];
	char a[TYPE_TEXT], b[TYPE_TEXT];
	if (fits)
		return STATUS_OK;
	return diag_at(diags, STATUS_CHAIN, chain->source, declared->span, "input '%s' is declared %s and the data is %s",
	               chain->input, type_format(&declared->type, a), type_format(input, b));
}

static enum status init_lowering(struct lowering *l, const struct type *input)
{
	size_t n = l->slot_count, params = l->chain->param_count + 1;
	l->slots = arena_array(l->arena, n, sizeof *l->slots);
	l->now = arena_array(l->arena, n, sizeof *l->now);
	l->touched = arena_array(l->arena, n, sizeof *l->touched);
	l->written = arena_array(l->arena, n, sizeof *l->written);
	l->listed = arena_array(l->arena, n, sizeof *l->listed);
	l->port = arena_array(l->arena, n, sizeof *l->port);
	l->after = arena_array(l->arena, n, sizeof *l->after);
	l->value_of = arena_array(l->arena, n, sizeof *l->value_of);
	l->used_streamed = arena_array(l->arena, params, sizeof *l->used_streamed);
	l->used_whole = arena_array(l->arena, params, sizeof *l->used_whole);
	l->loops = arena_array(l->arena, l->chain->loop_count + 1, sizeof *l->loops);
	l->parts = arena_array(l->arena, l->chain->loop_count + 1, sizeof *l->parts);
	if (!l->slots || !l->now || !l->touched || !l->written || !l->listed || !l->port || !l->after || !l->value_of ||
	    !l->used_streamed || !l->used_whole || !l->loops || !l->parts)
		return memory(l);
	memset(l->now, 0xff, n * sizeof *l->now);
	memset(l->port, 0xff, n * sizeof *l->port);
	for (uint32_t i = 2; i < n; i++)
		l->slots[i].class = i;
	struct type type = *input;
	type.dtype = dtype_compute(input->dtype);
	if (l->rows)
		type.shape.dim[0] = l->rows;
	l->out->begins = type;
	const struct type *held = intern(l, &type);
	if (!held)
		return memory(l);
	bool streamed = input->shape.ndim > 0;
	l->slots[0] = (struct slot){held, input->dtype, streamed, true, false, 0};
	/* An input that is never an operand is not a part of the state. */
	l->slots[1] = l->chain->names_input ? l->slots[0] : (struct slot){.class = 1};
	return STATUS_OK;
}

static enum status lower_typed(struct lowered *lowered, const struct chain *chain, const struct type *input,
                               enum lower_what what, int64_t rows, struct arena *arena, struct diags *diags)
{
	const bool *cut = NULL;
	if (rows) {
		struct lowered whole;
		enum status status = lower_typed(&whole, chain, input, LOWER_RUN, 0, arena, diags);
		if (status)
			return status;
		cut = whole.streamed_params;
	}
	memset(lowered, 0, sizeof *lowered);
	lowered->chain = chain;
	lowered->arena = arena;
	lowered->input = *input;
	lowered->slot_count = chain->variable_count + 1;
	lowered->whole_rows = input->shape.ndim ? input->shape.dim[0] : 0;
	lowered->streamable = lowered->flat = input->shape.ndim > 0;
	struct lowering l = {.out = lowered,
	                     .chain = chain,
	                     .arena = arena,
	                     .diags = diags,
	                     .what = what,
	                     .rows = rows,
	                     .cut = cut,
	                     .whole_rows = lowered->whole_rows,
	                     .slot_count = lowered->slot_count};
	enum status status = init_lowering(&l, input);
	if (status)
		return status;
	struct draft_item list = {0};
	switch (what) {
	case LOWER_RUN:
		status = lower_whole(&l);
		break;
	case LOWER_STEPS:
		status = draft_nodes(&l, chain->first, &list);
		break;
	case LOWER_UNROLLED:
		status = lower_unrolled(&l);
		break;
	}
	if (status)
		return status;
	const struct slot *last = &l.slots[0];
	if (what != LOWER_UNROLLED) {
		lowered->output = *last->type;
		lowered->output.dtype = last->dtype;
	}
	for (size_t i = 0; i < chain->param_count; i++)
		if (l.used_streamed[i] && l.used_whole[i])
			lowered->streamable = false;
	lowered->streamed_params = rows ? cut : l.used_streamed;
	lowered->sums = lowered->sums && lowered->streamable;
	lowered->flat = lowered->flat && lowered->streamable && !lowered->sums;
	if (what == LOWER_STEPS)
		status = finish_steps(&l, &list);
	return status;
}

/* Of a tile the input may be elements in a row, whatever it was declared: that was looked at for the whole. */
enum status lower(struct lowered *lowered, const struct chain *chain, const struct type *input, enum lower_what what,
                  int64_t rows, struct arena *arena, struct diags *diags)
{
	enum status status = rows ? STATUS_OK : check_input(chain, input, diags);
	return status ? status : lower_typed(lowered, chain, input, what, rows, arena, diags);
}

/* The last of COUNT ITEMS that does not start after INDEX; NULL where it ends before. */
static const struct item *item_at(const struct item *items, size_t count, int64_t index)
{
	size_t i = 0;
	for (size_t end = count; end - i > 1;) {
		size_t middle = i + (end - i) / 2;
		if (items[middle].start <= index)
			i = middle;
		else
			end = middle;
	}
	return i < count && index < items[i].start + items[i].steps ? &items[i] : NULL;
}

const struct step *lowered_step(const struct lowered *lowered, int64_t index, int64_t *counters)
{
	const struct item *items = lowered->items, *item;
	size_t count = lowered->item_count;
	while ((item = item_at(items, count, index)) && !item->step) {
		int64_t per_turn = item->steps / item->turns;
		index -= item->start;
		if (counters)
			counters[item->level] = item->first + index / per_turn;
		index %= per_turn;
		count = item->count;
		items = item->items;
	}
	return item ? item->step : NULL;
}

int64_t lowered_period(const struct lowered *lowered, int64_t index, int64_t end, int64_t turns, int64_t *until)
{
	const struct item *items = lowered->items, *item;
	size_t count = lowered->item_count;
	int64_t before = 0; /* steps before the turn that ITEMS are of */
	while ((item = item_at(items, count, index - before)) && !item->step) {
		int64_t per_turn = item->steps / item->turns, stop = before + item->start + item->steps;
		*until = stop < end ? stop : end;
		if ((*until - index) / per_turn >= turns)
			return per_turn;
		before = index - (index - before - item->start) % per_turn;
		count = item->count;
		items = item->items;
	}
	return 0;
}
