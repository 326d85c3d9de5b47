/*
 * The body that is being built.
 *
 * A name of the language can be rebound; a value of a body is assigned once. So the environment maps slots to values. A
 * body reads a class of slots when a stage first needs it. lower_step.c writes the bound slots.
 * Tests: tests/unit/test_lower.c
 */
#include "ir/lowering.h"

#include <string.h>

#include "base/hash.h"

/* Types. */

enum { FIRST_BUCKETS = 64 };

struct interned {
	struct type type;
	struct interned *next;
};

static struct interned **bucket_of(const struct type_table *types, const struct type *type)
{
	const int head[2] = {(int)type->dtype, type->shape.ndim};
	const uint64_t hash = hash_bytes(hash_bytes(HASH_START, head, sizeof head), type->shape.dim,
	                                 (size_t)type->shape.ndim * sizeof *type->shape.dim);
	return &types->buckets[hash % types->bucket_count];
}

/* Doubles the number of buckets. There may be 10^7 types, as each iteration of a loop may have another type. */
static bool add_buckets(struct type_table *types, struct arena *arena)
{
	const struct type_table old = *types;
	types->bucket_count = old.count ? 2 * old.bucket_count : FIRST_BUCKETS;
	types->buckets = arena_array(arena, types->bucket_count, sizeof(struct interned *));
	if (!types->buckets) {
		*types = old;
		return false;
	}
	for (size_t i = 0; i < old.bucket_count; i++)
		for (struct interned *type = old.buckets[i], *next; type; type = next) {
			struct interned **bucket = bucket_of(types, &type->type);
			next = type->next;
			type->next = *bucket;
			*bucket = type;
		}
	return true;
}

const struct type *lowering_intern(struct lowering *l, const struct type *type)
{
	if (l->types.count == l->types.bucket_count && !add_buckets(&l->types, l->context->arena))
		return NULL;
	struct interned **bucket = bucket_of(&l->types, type);
	for (struct interned *i = *bucket; i; i = i->next)
		if (type_equal(&i->type, type))
			return &i->type;
	struct interned *made = arena_alloc(l->context->arena, sizeof *made);
	if (!made)
		return NULL;
	made->type = *type;
	made->next = *bucket;
	*bucket = made;
	l->types.count++;
	return &made->type;
}

/* Values. */

/* Adds a value of TYPE's shape and computing dtype that stands for DTYPE. Returns NO_VALUE where memory is short. */
static uint32_t add_value(struct lowering *l, const struct type *type, enum dtype dtype)
{
	struct type held = *type;
	held.dtype = dtype_compute(type->dtype);
	const struct type *interned = lowering_intern(l, &held);
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

struct type lowering_param_type(struct lowering *l, const struct param_ref *ref)
{
	struct type type = chain_param_type(l->chain, ref->param, &l->out->input);
	if (l->rows && l->cut && l->cut[ref->param])
		type.shape.dim[0] += l->rows - l->whole_rows;
	for (size_t i = 0; i < ref->count; i++)
		shape_drop_leading(&type.shape);
	return type;
}

/* True if REF is an input that is read row by row with the first. Then tiles cut it, and they are runs of rows. */
static bool note_rows(struct lowering *l, const struct param_ref *ref)
{
	const bool rows = ref->count == 0 && param_has_rows(&l->chain->params[ref->param], l->chain, &l->out->input);
	if (!rows || l->rows)
		return rows && l->cut[ref->param];
	l->streaming.along[ref->param] = true;
	l->streaming.flat = false;
	return true;
}

uint32_t lowering_param(struct lowering *l, const struct param_ref *ref)
{
	uint32_t *cached = &l->env.params[hash_param(ref)];
	const struct body *body = l->body;
	const struct param *param = &l->chain->params[ref->param];
	struct type type = lowering_param_type(l, ref);
	const bool active = param->differentiated && !dtype_is_integer(type.dtype) && !lowering_is_constant(l);
	if (*cached < body->value_count && body->values[*cached].from == FROM_PARAM &&
	    body->values[*cached].active == active && same_param(&body->values[*cached].param, ref))
		return *cached;
	uint32_t id = add_value(l, &type, type.dtype);
	if (id == NO_VALUE)
		return id;
	struct value *value = &l->body->values[id];
	value->from = FROM_PARAM;
	value->param = *ref;
	value->streamed = note_rows(l, ref);
	value->active = active;
	value->weak = param->weak;
	return *cached = id;
}

/* Slots. */

static void touch(struct environment *env, uint32_t slot)
{
	if (!env->listed[slot])
		env->touched[env->touched_count++] = slot;
	env->listed[slot] = true;
}

uint32_t lowering_read_slot(struct lowering *l, uint32_t slot)
{
	struct environment *env = &l->env;
	if (env->now[slot] != NO_VALUE)
		return env->now[slot];
	uint32_t class = l->state.slots[slot].class;
	touch(env, slot);
	if (env->port[class] != NO_VALUE)
		return env->now[slot] = env->port[class];
	const struct slot *state = &l->state.slots[class];
	uint32_t id = add_value(l, state->type, state->dtype);
	if (id == NO_VALUE || !body_add_in(l->body, PORT_SLOT, class, id))
		return NO_VALUE;
	struct value *value = &l->body->values[id];
	value->from = FROM_PORT;
	value->port = (uint32_t)l->body->in_count - 1;
	value->streamed = state->streamed;
	value->active = state->active && !dtype_is_integer(state->dtype);
	value->weak = state->weak;
	value->condition = state->condition;
	return env->now[slot] = env->port[class] = id;
}

void lowering_write_slot(struct lowering *l, uint32_t slot, uint32_t value)
{
	touch(&l->env, slot);
	l->env.now[slot] = value;
	l->env.written[slot] = true;
}

/* Forgets the values of the last body. */
static void clear_environment(struct lowering *l)
{
	struct environment *env = &l->env;
	for (size_t i = 0; i < env->touched_count; i++) {
		env->now[env->touched[i]] = NO_VALUE;
		env->written[env->touched[i]] = env->listed[env->touched[i]] = false;
	}
	for (size_t i = 0; l->body && i < l->body->in_count; i++)
		env->port[l->body->ins[i].index] = NO_VALUE;
	env->touched_count = 0;
	memset(env->params, 0xff, sizeof env->params);
	l->region = 0;
}

bool lowering_begin_draft(struct lowering *l)
{
	struct body *draft = &l->draft;
	clear_environment(l);
	draft->collects = false;
	draft->value_count = draft->instr_count = draft->region_count = draft->in_count = draft->out_count = 0;
	draft->arena = &l->scratch;
	l->body = draft;
	return arena_append(&l->scratch, &draft->regions, &draft->region_count, &draft->region_capacity,
	                    sizeof *draft->regions) != NULL;
}

struct body *lowering_begin_body(struct lowering *l)
{
	clear_environment(l);
	l->body = arena_alloc(l->context->arena, sizeof *l->body);
	if (l->body)
		body_init(l->body, l->context->arena);
	return l->body && l->body->regions ? l->body : NULL;
}

/* Instructions. */

struct instr *lowering_add_op(struct lowering *l, enum op op, const struct attrs *attrs, struct span span)
{
	struct instr *instr = body_add_instr(l->body, INSTR_OP);
	if (!instr)
		return NULL;
	instr->op = op;
	instr->attrs = attrs;
	instr->span = span;
	instr->def = l->names.frame ? l->names.frame->def : NULL;
	instr->region = l->region;
	instr->step = (uint32_t)l->step;
	instr->guarded = l->guards > 0;
	return instr;
}

enum status lowering_set_out(struct lowering *l, struct instr *instr, const struct type *type, enum dtype dtype,
                             uint32_t *out)
{
	instr->out = *out = add_value(l, type, dtype);
	TRY_ALLOC(*out != NO_VALUE, l->context->diags);
	struct value *values = l->body->values, *value = &values[*out];
	value->from = FROM_INSTR;
	value->instr = (uint32_t)(instr - l->body->instrs);
	instr->of.v = instr->v == NO_VALUE ? NULL : values[instr->v].type;
	instr->of.a = instr->a == NO_VALUE ? NULL : values[instr->a].type;
	instr->of.c = instr_sixth(instr) == NO_VALUE ? NULL : values[instr->more[1]].type;
	instr->of.y = value->type;
	return STATUS_OK;
}

enum status lowering_apply(struct lowering *l, struct instr *instr, const struct type *type, enum dtype dtype,
                           uint32_t *value)
{
	const struct value old = l->body->values[*value];
	TRY_ALLOC(instr, l->context->diags);
	instr->v = *value;
	TRY(lowering_set_out(l, instr, type, dtype, value));
	struct value *made = &l->body->values[*value];
	made->streamed = old.streamed;
	made->active = old.active;
	made->weak = old.weak;
	made->condition = l->chain->has_masks && value_is_condition(&old);
	return STATUS_OK;
}

enum status lowering_copy_param(struct lowering *l, uint32_t *value, struct span span)
{
	const struct value *old = &l->body->values[*value];
	if (old->from != FROM_PARAM)
		return STATUS_OK;
	return lowering_apply(l, lowering_add_op(l, OP_identity, NULL, span), old->type, old->dtype, value);
}

enum status lowering_convert(struct lowering *l, uint32_t *value, enum dtype dtype, struct span span)
{
	const struct value old = l->body->values[*value];
	/* Half types compute as f32. A weak value was never rounded to one, so the cast must round. */
	const bool half = old.weak && old.dtype != dtype && (dtype == DTYPE_F16 || dtype == DTYPE_BF16);
	if (old.type->dtype == dtype_compute(dtype) && !half)
		return STATUS_OK;
	struct attrs attrs;
	attrs_default(&attrs, OP_cast);
	attrs.dtype = half ? dtype : dtype_compute(dtype);
	const struct attrs *kept = byte_set_keep(&l->kept, &attrs, attrs_size(&attrs, OP_cast), NULL);
	TRY_ALLOC(kept, l->context->diags);
	struct type type = *old.type;
	type.dtype = dtype_compute(dtype);
	return lowering_apply(l, lowering_add_op(l, OP_cast, kept, span), &type, dtype, value);
}

/* Makes *VALUE a 0-d array of NUMBER, or of NUMBER and the counter of the kept loop at LEVEL if LEVEL is not -1. */
static enum status add_number(struct lowering *l, double number, int32_t level, enum dtype dtype, struct span span,
                              uint32_t *value)
{
	const struct type type = {.dtype = dtype_compute(dtype)};
	struct instr *zero = body_add_instr(l->body, INSTR_ZERO);
	TRY_ALLOC(zero, l->context->diags);
	zero->span = span;
	zero->region = l->region;
	zero->step = (uint32_t)l->step;
	TRY(lowering_set_out(l, zero, &type, dtype, value));
	struct instr *add = lowering_add_op(l, OP_add, NULL, span);
	TRY_ALLOC(add, l->context->diags);
	add->v = *value;
	add->scalar = number;
	add->level = level;
	return lowering_set_out(l, add, &type, dtype, value);
}

enum status lowering_add_constant(struct lowering *l, double number, enum dtype dtype, struct span span,
                                  uint32_t *value)
{
	return add_number(l, number, -1, dtype, span, value);
}

enum status lowering_add_counter(struct lowering *l, const struct found *counter, struct span span, uint32_t *value)
{
	const enum dtype dtype = chain_computing_type(l->chain, l->out->input.dtype);
	TRY(add_number(l, (double)counter->counter.value, counter->counter.loop, dtype, span, value));
	l->body->values[*value].weak = true;
	return STATUS_OK;
}
