/*
 * Stages become instructions of the body, operations after their operands.
 *
 * Streaming is decided here, use by use: a value is streamed while its leading
 * axis is the input's and its rows depend on the same rows of the input only.
 */
#include "ir/lowering.h"

#include <string.h>

#include "ops/kernels.h"

/* The value of a sub-chain on the current value. */
static enum status lower_block_operand(struct lowering *l, const struct found *found, uint32_t *value)
{
	uint32_t v = lowering_read_slot(l, 0);
	const struct frame *frame = l->frame;
	if (v == NO_VALUE)
		return lowering_memory(l);
	bool written = l->written[0];
	l->frame = found->frame;
	enum status status = lower_nodes(l, found->block);
	l->frame = frame;
	*value = l->now[0];
	l->now[0] = v;
	l->written[0] = written;
	return status;
}

/* Keeps account of how operand A of INSTR goes along with the rows of V: whether it runs along them. */
static bool note_operand(struct lowering *l, const struct instr *instr, const struct value *v, const struct value *a)
{
	if (!v->streamed) {
		if (a->streamed)
			lowering_mix_rows(l);
		else if (a->from == FROM_PARAM)
			l->used_whole[a->param.param] = true;
		return false;
	}
	bool along = op_runs_along(instr->op, v->type, a->type);
	if (a->from != FROM_PARAM) {
		if (a->streamed != along)
			lowering_mix_rows(l);
		return along;
	}
	if (l->rows)
		along = along && l->cut[a->param.param];
	else
		(along ? l->used_streamed : l->used_whole)[a->param.param] = true;
	if (along && a->param.count)
		lowering_mix_rows(l);
	return along;
}

/* Whether INSTR works on each element as if it were alone, so that rows may be cut anywhere. */
static bool is_flat(const struct instr *instr, const struct value *v, const struct value *a)
{
	if (op_table[instr->op].class == OP_CLASS_GENERAL)
		return op_table[instr->op].scope == SCOPE_ELEM;
	/* A whole operand of more axes than one would give a row of elements another axis. */
	const bool sized = a && (shape_count(&a->type->shape) != 1 || (!a->streamed && a->type->shape.ndim > 1));
	return !sized || (a->streamed && shape_equal(&a->type->shape, &v->type->shape));
}

/* Keeps account of streaming for one use of OP; sets a_streamed of INSTR and streamed of the result. */
static void note_scope(struct lowering *l, struct instr *instr, const struct type *result)
{
	struct body *body = l->body;
	const struct value *v = &body->values[instr->v];
	const struct value *a = instr->a == NO_VALUE ? NULL : &body->values[instr->a];
	instr->a_streamed = a && note_operand(l, instr, v, a);
	l->out->flat = l->out->flat && is_flat(instr, v, a);
	/* a sum's parts are taken as the sum is where the derivative of what follows is a number */
	if (l->out->sums && (a || !op_slope_is_number(instr->op)))
		l->out->streamable = false;
	if (!v->streamed)
		return;
	enum scope scope = op_scope(instr->op, instr->attrs, v->type, a ? a->type : NULL, instr->a_streamed);
	bool kept = result->shape.ndim > 0 && result->shape.dim[0] == v->type->shape.dim[0];
	const bool first = l->fold == NO_VALUE && l->level == 0;
	l->mixes |= l->fold != NO_VALUE;
	if (first && (scope == SCOPE_SUM || scope == SCOPE_FOLD)) {
		l->fold = body->values[instr->out].instr;
		l->out->sums = scope == SCOPE_SUM;
		l->out->streamable &= l->out->sums;
	} else if (scope > SCOPE_ROW || !kept ||
	           (op_table[instr->op].class == OP_CLASS_BINARY && result->shape.ndim != v->type->shape.ndim)) {
		lowering_mix_rows(l);
	} else {
		body->values[instr->out].streamed = true;
	}
}

/* Operations. */

/* Brings v and a to one dtype, by NumPy's promotion; scalars that are weak take the other's. Classes stay as they are. */
static enum status promote(struct lowering *l, const struct node *node, uint32_t *v, uint32_t *a, enum dtype *dtype)
{
	struct value *values = l->body->values;
	*dtype = values[*v].dtype;
	if (*a == NO_VALUE || node->op == OP_cross_entropy)
		return STATUS_OK;
	if (!values[*a].weak)
		*dtype = dtype_promote(values[*v].dtype,
		                       dtype_compute(values[*a].dtype) == DTYPE_F64 ? DTYPE_F64 : values[*a].dtype);
	enum status status = lowering_convert(l, v, *dtype, node->span);
	return status ? status : lowering_convert(l, a, *dtype, node->span);
}

static enum status infer(struct lowering *l, const struct node *node, const struct attrs *attrs, uint32_t v, uint32_t a,
                         struct type *result)
{
	const struct value *values = l->body->values;
	const char *message = NULL;
	enum status status = op_infer(node->op, attrs, values[v].type, a == NO_VALUE ? NULL : values[a].type, result,
	                              l->context->arena, &message);
	if (status == STATUS_OK) {
		if (!type_addressable(result))
			return diag_at(l->context->diags, STATUS_LIMIT, l->chain->source, node->span,
			               "'%s' gives an array too large to address", op_table[node->op].name);
		return STATUS_OK;
	}
	if (!message)
		return lowering_memory(l);
	diag_at(l->context->diags, status, l->chain->source, node->span, "%s", message);
	return status;
}

/* What an operation works on. A number is a value of the body only where the operation is general. */
struct operands {
	uint32_t v, a; /* A: NO_VALUE where there is none, or a number */
	double scalar;
};

/* A number takes the dtype of the array that it meets. Kernels round to f32 themselves. */
static double rounded_to(enum dtype dtype, double number)
{
	const struct kernels *kernels = kernels_get(DTYPE_F64);
	double rounded = number;
	if (dtype == DTYPE_F16)
		kernels->round_f16(&rounded, &number, 1);
	else if (dtype == DTYPE_BF16)
		kernels->round_bf16(&rounded, &number, 1);
	return rounded;
}

/* Sets what of NODE's arguments the operands of the def around it give, and what is written after these. */
static enum status set_deferred(struct lowering *l, const struct node *node, struct attrs *attrs)
{
	for (const struct deferred_argument *late = node->late; late; late = late->next) {
		struct argument argument = late->argument;
		const char *message = NULL, *hint = NULL;
		if (late->given) {
			const struct found *found = &l->frame->arguments[late->place];
			const char *name = late->argument.word;
			if (found->kind != FOUND_NUMBER)
				return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, late->span,
				               "an argument of '%s' is a number, and '%s' is none in this call",
				               op_table[node->op].name, name);
			argument = argument_of_double(found->number);
		}
		enum status status =
			attrs_set(attrs, node->op, late->name, late->index, &argument, l->context->arena, &message, &hint);
		if (status && message)
			return diag_at(l->context->diags, status, l->chain->source, late->span, "%s", message);
		if (status)
			return lowering_memory(l);
	}
	return STATUS_OK;
}

/*
 * The arguments of NODE on V, of DTYPE: numbers take that, and of a reshape whose
 * leading extent is the whole's it is the tile's.
 */
static enum status attrs_for(struct lowering *l, const struct node *node, const struct value *v, enum dtype dtype,
                             const struct attrs **found)
{
	const bool half = dtype == DTYPE_F16 || dtype == DTYPE_BF16, tile = l->rows && node->op == OP_reshape;
	*found = node->attrs;
	if (!half && !tile && !node->late)
		return STATUS_OK;
	struct attrs *attrs = arena_alloc(l->context->arena, sizeof *attrs);
	if (!attrs)
		return lowering_memory(l);
	*found = attrs;
	*attrs = *node->attrs;
	enum status status = set_deferred(l, node, attrs);
	if (tile && v->streamed && attrs->shape.ndim > 0 && attrs->shape.dim[0] == l->whole_rows)
		attrs->shape.dim[0] = l->rows;
	for (int i = 0; i < 2 && half; i++)
		attrs->number[i] = rounded_to(dtype, attrs->number[i]);
	return status;
}

/* The operand of NODE, whose current value is in->v. */
static enum status lower_operand(struct lowering *l, const struct node *node, struct operands *in)
{
	in->a = NO_VALUE;
	in->scalar = 0;
	if (node->operand.kind == REF_NONE)
		return STATUS_OK;
	struct found found;
	enum status status = lowering_find_ref(l, &node->operand, &found);
	if (status)
		return status;
	switch (found.kind) {
	case FOUND_NUMBER:
		if (op_table[node->op].class == OP_CLASS_GENERAL)
			return lowering_add_constant(l, rounded_to(l->body->values[in->v].dtype, found.number),
			                             l->body->values[in->v].dtype, node->operand.span, &in->a);
		in->scalar = rounded_to(l->body->values[in->v].dtype, found.number);
		return STATUS_OK;
	case FOUND_VALUE:
		in->a = found.value;
		break;
	case FOUND_PARAM:
		in->a = lowering_param(l, &found.param);
		break;
	case FOUND_BLOCK:
		status = lower_block_operand(l, &found, &in->a);
		break;
	}
	return status == STATUS_OK && in->a == NO_VALUE ? lowering_memory(l) : status;
}

static enum status too_many(struct lowering *l, struct span span)
{
	return diag_at(l->context->diags, STATUS_LIMIT, l->chain->source, span, "the chain has more than %d operations",
	               MAX_OPERATIONS);
}

/* The instruction of NODE on IN, and its RESULT of DTYPE, the current value from here on. */
static enum status add_result(struct lowering *l, const struct node *node, const struct attrs *attrs,
                              const struct operands *in, const struct type *result, enum dtype dtype)
{
	struct instr *instr = lowering_add_op(l, node->op, attrs, node->span);
	if (!instr)
		return lowering_memory(l);
	if (l->body->instr_count > MAX_OPERATIONS)
		return too_many(l, node->span);
	size_t at = l->body->instr_count - 1;
	instr->v = in->v;
	instr->a = in->a;
	instr->scalar = in->scalar;
	instr->of.v = l->body->values[in->v].type;
	instr->of.a = in->a == NO_VALUE ? NULL : l->body->values[in->a].type;
	uint32_t out;
	enum status status = lowering_set_out(l, instr, result, dtype, &out);
	if (status)
		return status;
	const struct op_info *info = &op_table[node->op];
	struct value *values = l->body->values;
	values[out].active = (values[in->v].active && info->differentiable) ||
	                     (in->a != NO_VALUE && values[in->a].active && info->operand_differentiable);
	note_scope(l, &l->body->instrs[at], result);
	lowering_write_slot(l, 0, out);
	return STATUS_OK;
}

/*
 * The value that NODE names is the current one. Where it is not cut with the input every tile makes anew
 * what comes of it, which is the same for each, as a param is; but behind a sum each tile would add it.
 */
static enum status lower_use(struct lowering *l, const struct node *node, const struct operands *in)
{
	if (in->a == NO_VALUE)
		return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, node->operand.span,
		               "'use' takes an array, not a number");
	const struct value *a = &l->body->values[in->a];
	uint32_t value = in->a;
	enum status status = STATUS_OK;
	if (a->from == FROM_PARAM)
		l->used_whole[a->param.param] = true;
	if (l->out->sums)
		l->out->streamable = false;
	if (l->what == LOWER_RUN) /* results and carries are no params */
		status = lowering_copy_param(l, &value, node->span);
	lowering_write_slot(l, 0, value);
	return status;
}

static enum status lower_op(struct lowering *l, const struct node *node)
{
	struct operands in = {.v = lowering_read_slot(l, 0)};
	if (in.v == NO_VALUE)
		return lowering_memory(l);
	if (node->op == OP_identity) {
		lowering_write_slot(l, 0, in.v);
		return STATUS_OK;
	}
	enum dtype dtype;
	enum status status = lower_operand(l, node, &in);
	if (status == STATUS_OK && node->op == OP_use)
		return lower_use(l, node, &in);
	if (status == STATUS_OK)
		status = promote(l, node, &in.v, &in.a, &dtype);
	if (status)
		return status;
	const struct attrs *attrs;
	struct type result;
	status = attrs_for(l, node, &l->body->values[in.v], dtype, &attrs);
	if (status)
		return status;
	status = infer(l, node, attrs, in.v, in.a, &result);
	if (status)
		return status;
	return add_result(l, node, attrs, &in, &result, node->op == OP_cast ? attrs->dtype : dtype);
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

/* NODE binds its variable. One that is no array cannot be: then it has none where LENIENT, else that is an error. */
static enum status lower_name(struct lowering *l, const struct node *node, bool lenient)
{
	uint32_t value;
	if (node->operand.kind == REF_NONE) {
		value = lowering_read_slot(l, 0);
	} else {
		struct found found;
		enum status status = lowering_find_ref(l, &node->operand, &found);
		if (status)
			return status;
		if (found.kind == FOUND_PARAM)
			value = lowering_param(l, &found.param);
		else if (found.kind == FOUND_VALUE)
			value = found.value;
		else if (lenient)
			return STATUS_OK;
		else
			return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, node->span,
			               "'%s' is bound again in a loop, where it is not an array",
			               l->chain->variables[node->variable]);
	}
	if (value == NO_VALUE)
		return lowering_memory(l);
	if (node->name) {
		struct naming *naming = arena_alloc(l->context->arena, sizeof *naming);
		if (!naming)
			return lowering_memory(l);
		naming->name = node->name;
		naming->span = node->span;
		naming->def = l->frame ? l->frame->def : NULL;
		naming->inner = made_outside(l, value);
		naming->next = l->body->values[value].names;
		l->body->values[value].names = naming;
	}
	lowering_write_slot(l, node->variable + 1, value);
	return STATUS_OK;
}

static enum status lower_call(struct lowering *l, const struct node *node)
{
	const struct def *def = node->def;
	struct found *arguments = arena_array(l->context->arena, def->count + 1, sizeof *arguments);
	struct frame *frame = arena_alloc(l->context->arena, sizeof *frame);
	uint32_t *saved = arena_array(l->context->arena, def->variables + 1, sizeof *saved);
	if (!arguments || !frame || !saved)
		return lowering_memory(l);
	enum status status = STATUS_OK;
	for (const struct node *name = node->body; name && !status; name = name->next)
		status = lower_name(l, name, true);
	for (size_t i = 0; i < def->count && !status; i++)
		status = lowering_find_ref(l, &node->arguments[i], &arguments[i]);
	if (status)
		return status;
	if (l->body->instr_count > MAX_OPERATIONS)
		return too_many(l, node->span);
	const int depth = l->frame ? l->frame->depth + 1 : 1;
	if (depth > MAX_NESTING)
		return diag_at(l->context->diags, STATUS_LIMIT, l->chain->source, node->span,
		               "calls of defs nest deeper than %d", MAX_NESTING);
	*frame = (struct frame){.arguments = arguments, .outer = l->frame, .def = def->name, .depth = depth};
	uint32_t *locals = l->now + 1 + def->first_variable;
	memcpy(saved, locals, def->variables * sizeof *saved);
	for (uint32_t i = 0; i < def->variables; i++)
		locals[i] = NO_VALUE;
	const struct frame *outer = l->frame;
	l->frame = frame;
	status = lower_nodes(l, def->body);
	l->frame = outer;
	memcpy(locals, saved, def->variables * sizeof *saved);
	if (status == STATUS_CHAIN)
		diag_hint_more(l->context->diags, "in the call of '%s' at %u:%u", def->name, node->span.line,
		               node->span.column);
	if (status == STATUS_OK && !l->written[0]) {
		uint32_t v = lowering_read_slot(l, 0);
		if (v == NO_VALUE)
			return lowering_memory(l);
	}
	return status;
}

static enum status lower_checkpoint(struct lowering *l, const struct node *node)
{
	struct body *body = l->body;
	struct region *grown =
		arena_grow(l->context->arena, body->regions, body->region_count, &body->region_capacity, sizeof *grown);
	if (!grown)
		return lowering_memory(l);
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

enum status lower_node(struct lowering *l, const struct node *node)
{
	switch (node->kind) {
	case NODE_OP:
		return lower_op(l, node);
	case NODE_CALL:
		return lower_call(l, node);
	case NODE_NAME:
		return lower_name(l, node, false);
	case NODE_REPEAT:
	case NODE_FOR:
		return lower_loop(l, node);
	case NODE_CHECKPOINT:
		return lower_checkpoint(l, node);
	}
	return STATUS_OK;
}

enum status lower_nodes(struct lowering *l, const struct node *node)
{
	enum status status = STATUS_OK;
	for (; node && node != l->end && status == STATUS_OK; node = node->next)
		status = lower_node(l, node);
	return status;
}
