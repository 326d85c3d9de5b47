/*
 * Lowers a stage to the end of the body: its operands, then its instruction.
 *
 * This file also decides, use by use, whether the chain can run in tiles of rows. A value is streamed if its leading
 * axis is the input's, and each of its rows depends on the same row of the input alone.
 * Tests: tests/unit/test_lower.c
 */
#include "ir/lowering.h"

#include <stdio.h>
#include <string.h>

#include "ops/general.h"
#include "ops/kernels.h"

enum status lower_block_operand(struct lowering *l, const struct found *found, uint32_t *value)
{
	const uint32_t v = lowering_read_slot(l, 0);
	const struct frame *frame = l->names.frame;
	const bool written = l->env.written[0];
	TRY_ALLOC(v != NO_VALUE, l->context->diags);
	l->names.frame = found->frame;
	TRY(lower_nodes(l, found->block));
	l->names.frame = frame;
	*value = l->env.now[0];
	l->env.now[0] = v;
	l->env.written[0] = written;
	return STATUS_OK;
}

/* True if the value V, which has no rows of the input, broadcasts to those of A. */
static bool spreads(enum op op, const struct value *v, const struct value *a)
{
	return op_broadcasts(op) && v->type->shape.ndim <= a->type->shape.ndim &&
	       (v->type->shape.ndim < a->type->shape.ndim || v->type->shape.dim[0] == 1);
}

/*
 * Returns the value that A is converted from: by a cast, or, of a condition, by a comparison with 0, and then by a logarithm to
 * a mask. NULL: by none of them.
 */
static struct value *converted_from(const struct body *body, const struct value *a)
{
	const struct instr *instr = a->from == FROM_INSTR ? &body->instrs[a->instr] : NULL;
	const bool of_condition = instr && (instr->op == OP_ne || (instr->op == OP_log && !a->active));
	const bool converts = instr && instr->kind == INSTR_OP && (instr->op == OP_cast || of_condition);
	return converts && instr->a == NO_VALUE ? &body->values[instr->v] : NULL;
}

/* Returns the param that A is, or is converted from. NULL if it is neither, or an input that is read row by row. */
static struct value *source_param(const struct lowering *l, struct value *a)
{
	while (a && a->from != FROM_PARAM)
		a = converted_from(l->body, a);
	return a && !(a->streamed && l->chain->params[a->param.param].input) ? a : NULL;
}

/* Returns why OP does not read a streamed operand along the rows of its streamed value. */
static const char *other_rows(enum op op)
{
	if (op_indices(op) == NEED_V)
		return "an index may select any row of its operand, which has rows of the input";
	if (op_indices(op) == NEED_A)
		return "an index may add a row of its value to any row of its result";
	return "the rows of its operand are not those of its value";
}

/*
 * Records how INSTR on V reads its operand K, A. True if V is streamed and A has a row for each of its rows. Then A, if it
 * is a param's rows, is marked as streamed: in a tile the param itself too, in the whole only what it is converted to.
 */
static bool note_operand(struct lowering *l, const struct instr *instr, const struct value *v, uint32_t k)
{
	struct value *a = &l->body->values[instr_value(instr, k)];
	struct streaming *streaming = &l->streaming;
	struct value *param = source_param(l, a);
	if (!v->streamed) {
		if (a->streamed && spreads(instr->op, v, a))
			l->streaming.streamable = false;
		else if (a->streamed)
			lowering_need_whole(l, instr->span, "its operand has the rows of the input, and its value does not");
		else if (param)
			streaming->whole[param->param.param] = true;
		return false;
	}
	bool along = op_runs_along(instr->op, v->type, a->type) && !(instr->op == OP_CLASS_WEIGHT && k == 2);
	if (!param) {
		if (a->streamed != along)
			lowering_need_whole(l, instr->span, other_rows(instr->op));
		return along;
	}
	if (l->rows)
		along = along && l->cut[param->param.param];
	else
		(along ? streaming->along : streaming->whole)[param->param.param] = true;
	if (along && param->param.count)
		lowering_need_whole(l, instr->span, "its operand is a part of an array");
	for (; a != param; a = converted_from(l->body, a))
		a->streamed = along;
	if (l->rows)
		param->streamed = along;
	return along;
}

/* True if INSTR computes each element of V alone, so that a tile may be any run of elements. */
static bool is_flat(const struct lowering *l, const struct instr *instr, const struct value *v)
{
	const struct body *body = l->body;
	bool flat = op_table[instr->op].class != OP_CLASS_GENERAL || op_table[instr->op].scope == SCOPE_ELEM;
	for (uint32_t k = 1; flat && op_broadcasts(instr->op) && k < instr_value_count(instr); k++) {
		struct value *a = instr_value(instr, k) == NO_VALUE ? NULL : &body->values[instr_value(instr, k)];
		/* A tile has one axis: an operand of more axes would broadcast it to more. */
		const bool sized = a && (shape_count(&a->type->shape) != 1 || (!a->streamed && a->type->shape.ndim > 1));
		flat = !sized || (a->streamed && !source_param(l, a) && shape_equal(&a->type->shape, &v->type->shape));
	}
	return flat;
}

/* Notes how INSTR reads its operands. Sets its a_streamed and more_streamed. Returns whether an operand spreads V to its rows. */
static bool note_operands(struct lowering *l, struct instr *instr)
{
	struct body *body = l->body;
	const struct value *v = &body->values[instr->v];
	bool spread = false;
	for (uint32_t k = 1; k < instr_value_count(instr); k++) {
		struct value *a = instr_value(instr, k) == NO_VALUE ? NULL : &body->values[instr_value(instr, k)];
		if (!a)
			continue;
		const bool along = note_operand(l, instr, v, k);
		spread |= !v->streamed && a->streamed && spreads(instr->op, v, a);
		if (k == 1)
			instr->a_streamed = along;
		else
			instr->more_streamed |= (unsigned)along << (k - 2);
	}
	return spread;
}

/* Records how INSTR, whose result has type RESULT, combines rows. Sets its a_streamed, and streamed of its result. */
static void note_scope(struct lowering *l, struct instr *instr, const struct type *result)
{
	struct body *body = l->body;
	struct streaming *streaming = &l->streaming;
	const struct value *v = &body->values[instr->v];
	struct value *a = instr->a == NO_VALUE ? NULL : &body->values[instr->a];
	const bool spread = note_operands(l, instr);
	streaming->flat = streaming->flat && is_flat(l, instr, v);
	/* After a SUM a tile has only its part: a derivative would need the whole, and each tile would add A's gradient. */
	if (streaming->folds && (a || v->streamed || !op_derivative_is_number(instr->op)))
		streaming->streamable = false;
	if (!v->streamed) {
		body->values[instr->out].streamed = spread;
		return;
	}
	enum scope scope = op_scope(instr->op, instr->attrs, v->type, a ? a->type : NULL, instr->a_streamed);
	if (instr->op == OP_attention && instr_operand_streamed(instr, 2) != instr->a_streamed)
		scope = SCOPE_ALL; /* keys and values are cut alike */
	const bool kept = result->shape.ndim > 0 && result->shape.dim[0] == v->type->shape.dim[0];
	const bool adds_axes = op_broadcasts(instr->op) && result->shape.ndim != v->type->shape.ndim;
	if (scope == SCOPE_SUM || scope == SCOPE_FOLD || scope == SCOPE_NORM) {
		streaming->folds++;
		streaming->meets |= scope != SCOPE_NORM && l->level == 0;
		streaming->streamable &= scope == SCOPE_SUM && l->level == 0;
		body->values[instr->out].streamed = scope == SCOPE_NORM;
	} else if (scope > SCOPE_NEIGHBOUR || (scope <= SCOPE_ROW && !kept) || adds_axes) {
		lowering_need_whole(l, instr->span, "a row of its result depends on several rows");
	} else {
		streaming->neighbours |= scope == SCOPE_NEIGHBOUR;
		body->values[instr->out].streamed = true;
	}
}

/* Operations. */

/* Returns the dtype with which OP computes the value V. Integers are compared exactly. */
static enum dtype computing_dtype(const struct lowering *l, enum op op, uint32_t v)
{
	const enum dtype dtype = l->body->values[v].dtype, integers = l->chain->integers;
	return dtype_is_integer(dtype) ? op_gives_condition(op) ? DTYPE_F64 : integers : dtype;
}

/* True if OP moves integers alone, which stay integers. */
static bool moves_integers(const struct lowering *l, enum op op, const struct operands *in)
{
	const struct value *values = l->body->values;
	return op_only_moves(op) && dtype_is_integer(values[in->values[0]].dtype) &&
	       (in->values[1] == NO_VALUE || dtype_is_integer(values[in->values[1]].dtype));
}

/* Makes *VALUE, a condition, 0 or 1 in DTYPE's computing type if it has another: a conversion might make a small number 0. */
static enum status convert_condition(struct lowering *l, uint32_t *value, enum dtype dtype, struct span span)
{
	const struct value old = l->body->values[*value];
	if (old.type->dtype == dtype_compute(dtype))
		return STATUS_OK;
	TRY(lowering_apply(l, lowering_add_op(l, OP_ne, NULL, span), old.type, old.dtype, value));
	l->body->values[*value].active = false;
	return lowering_convert(l, value, dtype, span);
}

/* True if operand K, or V for 0, of OP in IN decides on the result's type unless it is weak. */
static bool decides(enum op op, const struct operands *in, uint32_t k)
{
	return in->values[k] != NO_VALUE && (k == 0 ? op_indices(op) != NEED_V : op_promotes(op, k));
}

/*
 * True if OP on IN has a weak result: of weak values alone, or of integers that are compared, as indices or classes are. The
 * result then takes the type of the array that it meets.
 */
static bool is_weak(const struct lowering *l, enum op op, const struct operands *in)
{
	bool weak = op != OP_cast;
	for (uint32_t k = 0; k < MAX_VALUES; k++) {
		const struct value *value = decides(op, in, k) ? &l->body->values[in->values[k]] : NULL;
		weak &= !value || value->weak || (op_gives_condition(op) && dtype_is_integer(value->dtype));
	}
	return weak;
}

/*
 * Converts the values IN to *DTYPE, the result's, by NumPy's promotion. Weak values decide only if there are no others.
 * Indices, classes and conditions do not decide. Other integers are computed with, unless they are only moved.
 */
static enum status promote(struct lowering *l, const struct node *node, struct operands *in, enum dtype *dtype)
{
	const struct value *values = l->body->values;
	*dtype = values[in->values[0]].dtype;
	if (moves_integers(l, node->op, in))
		return STATUS_OK;
	if (op_indices(node->op) == NEED_V) {
		*dtype = in->values[1] == NO_VALUE ? chain_computing_type(l->chain, l->out->input.dtype)
		                                   : values[in->values[1]].dtype;
		return STATUS_OK;
	}
	bool converts = dtype_is_integer(*dtype);
	enum dtype strong = DTYPE_COUNT;
	for (uint32_t k = 0; k < MAX_VALUES; k++) {
		if (!decides(node->op, in, k))
			continue;
		const enum dtype own = computing_dtype(l, node->op, in->values[k]);
		converts |= k > 0;
		if (!values[in->values[k]].weak)
			strong = strong == DTYPE_COUNT ? own : dtype_promote(strong, own);
	}
	*dtype = strong == DTYPE_COUNT ? computing_dtype(l, node->op, in->values[0]) : strong;
	for (uint32_t k = 0; k < MAX_VALUES; k++)
		if (in->values[k] != NO_VALUE && op_is_condition(node->op, k))
			TRY(convert_condition(l, &in->values[k], *dtype, node->span));
		else if (in->values[k] != NO_VALUE && op_promotes(node->op, k) && converts)
			TRY(lowering_convert(l, &in->values[k], *dtype, node->span));
	return STATUS_OK;
}

static bool reads_integers(const struct lowering *l, const struct operands *in)
{
	bool integers = false;
	for (uint32_t k = 0; k < 2; k++)
		integers |= in->values[k] != NO_VALUE && dtype_is_integer(l->body->values[in->values[k]].dtype);
	return integers;
}

/*
 * Returns the type of the 1 or 0 that NODE, a condition, gives for IN: that of those values that are no integers. Integers
 * that are compared do not decide on it.
 */
static enum dtype condition_dtype(const struct lowering *l, const struct operands *in)
{
	enum dtype dtype = DTYPE_COUNT;
	for (uint32_t k = 0; k < 2; k++) {
		const struct value *value = in->values[k] == NO_VALUE ? NULL : &l->body->values[in->values[k]];
		if (!value || value->weak || dtype_is_integer(value->dtype))
			continue;
		dtype = dtype == DTYPE_COUNT ? value->dtype : dtype_promote(dtype, value->dtype);
	}
	return dtype == DTYPE_COUNT ? chain_computing_type(l->chain, l->out->input.dtype) : dtype;
}

/* Reports COMPLAINT at SPAN if STATUS is not STATUS_OK. Returns STATUS. */
static enum status complain(struct lowering *l, enum status status, struct span span, const struct complaint *complaint)
{
	if (status)
		TRY_ALLOC(complaint->message, l->context->diags);
	return status ? LOWERING_FAIL(l, status, span, "%s", complaint->message) : STATUS_OK;
}

/* The inputs that have the leading extents of two values. */
struct row_givers {
	bool of_v, of_a; /* there is one */
	bool free;       /* the data, not the chain, say how many rows one of them has */
};

static void add_givers(struct row_givers *givers, const struct shape *shape, const struct declared *declared,
                       const int64_t extents[2])
{
	if (shape->ndim == 0 || (shape->dim[0] != extents[0] && shape->dim[0] != extents[1]))
		return;
	givers->of_v |= shape->dim[0] == extents[0];
	givers->of_a |= shape->dim[0] == extents[1];
	givers->free |= !declared->given || declared->type.shape.ndim == 0 || declared->type.shape.dim[0] < 0;
}

/* True if the values of IN have the rows of two inputs with unequal numbers of rows: then the data are wrong, not the chain. */
static bool has_other_rows(const struct lowering *l, enum op op, const struct operands *in)
{
	const bool by_rows = op_broadcasts(op) || op_table[op].scope == SCOPE_SUM || op_indices(op) == NEED_A ||
	                     op == OP_concat || op == OP_stack;
	const struct shape *v = &l->body->values[in->values[0]].type->shape;
	const struct shape *a = in->values[1] == NO_VALUE ? v : &l->body->values[in->values[1]].type->shape;
	struct row_givers givers = {false};
	if (!by_rows || v->ndim == 0 || a->ndim == 0 || v->dim[0] == a->dim[0])
		return false;
	const int64_t extents[2] = {v->dim[0], a->dim[0]};
	add_givers(&givers, &l->out->input.shape, &l->chain->input_type, extents);
	for (size_t i = 0; i < l->chain->input_count; i++)
		add_givers(&givers, &l->chain->params[i].type->shape, l->chain->params[i].declared, extents);
	return givers.of_v && givers.of_a && givers.free;
}

enum status lowering_infer(struct lowering *l, const struct node *node, const struct attrs *attrs,
                           const struct operands *in, struct type *result)
{
	const struct value *values = l->body->values;
	const struct type *operands[MAX_OPERANDS];
	for (int k = 0; k < MAX_OPERANDS; k++)
		operands[k] = in->values[1 + k] == NO_VALUE ? NULL : values[in->values[1 + k]].type;
	struct complaint complaint = {.arena = l->context->arena};
	const enum status status = op_infer(node->op, attrs, values[in->values[0]].type, operands, result, &complaint);
	TRY(complain(l, status == STATUS_CHAIN && has_other_rows(l, node->op, in) ? STATUS_DATA : status, node->span,
	             &complaint));
	if (!type_addressable(result))
		return LOWERING_FAIL(l, STATUS_LIMIT, node->span, "the result of '%s' is too large to address",
		                     op_table[node->op].name);
	return STATUS_OK;
}

/* Returns NUMBER rounded to DTYPE if that is f16 or bf16. Kernels round to f32 themselves. */
static double rounded_to(enum dtype dtype, double number)
{
	double rounded = number;
	if (dtype == DTYPE_F16 || dtype == DTYPE_BF16)
		kernels_get(DTYPE_F64)->round[dtype](&(struct kernel_args){.out = &rounded, .v = &number, .n = 1});
	return rounded;
}

/* Sets *ARGUMENT to D, an argument of NODE, in this call: one number, or a list of numbers. */
static enum status compute_argument(struct lowering *l, const struct node *node, const struct deferred_argument *d,
                                    struct argument *argument)
{
	double *numbers = arena_array(&l->scratch, d->ref_count, sizeof *numbers);
	int64_t *integers = arena_array(&l->scratch, d->ref_count, sizeof *integers);
	bool whole = true;
	char what[64];
	TRY_ALLOC(numbers && integers, l->context->diags);
	snprintf(what, sizeof what, "an argument of '%s'", op_table[node->op].name);
	for (size_t i = 0; i < d->ref_count; i++) {
		TRY(lowering_number(l, &d->refs[i], what, &numbers[i]));
		const struct argument one = argument_of_double(numbers[i]);
		integers[i] = one.as_integer;
		whole &= one.integer;
	}
	if (d->argument.kind != ARGUMENT_LIST) {
		*argument = argument_of_double(numbers[0]);
		return STATUS_OK;
	}
	argument->numbers = byte_set_keep(&l->kept, numbers, d->ref_count * sizeof *numbers, NULL);
	argument->integers = whole ? byte_set_keep(&l->kept, integers, d->ref_count * sizeof *integers, NULL) : NULL;
	TRY_ALLOC(argument->numbers && (!whole || argument->integers), l->context->diags);
	return STATUS_OK;
}

/* Sets the deferred arguments of NODE in ATTRS, from the arguments of this call. */
static enum status set_deferred(struct lowering *l, const struct node *node, struct attrs *attrs)
{
	for (const struct deferred_argument *d = node->deferred; d; d = d->next) {
		struct argument argument = d->argument;
		struct complaint complaint = {.arena = l->context->arena};
		if (d->refs)
			TRY(compute_argument(l, node, d, &argument));
		TRY(complain(l, attrs_set(attrs, node->op, d->name, d->index, &argument, &complaint), d->span, &complaint));
	}
	return STATUS_OK;
}

/*
 * Sets ATTRS, of a use of OP on V, to mean in a tile what they mean in the whole, whose V is streamed. A reshape or
 * broadcast to the leading extent of the whole becomes one to the tile's. A squeeze names its axes, since a tile may have one row. A slice
 * leaves as many rows fewer.
 */
static void set_for_tile(const struct lowering *l, enum op op, const struct value *v, struct attrs *attrs)
{
	struct type whole = *v->type;
	whole.shape.dim[0] += l->whole_rows - l->rows;
	if (op == OP_squeeze)
		op_name_squeezed(attrs, &whole.shape);
	if ((op == OP_reshape || op == OP_broadcast_to) && attrs->shape.ndim > 0 &&
	    attrs->shape.dim[0] == whole.shape.dim[0])
		attrs->shape.dim[0] = v->type->shape.dim[0];
	if (op_scope(op, attrs, &whole, NULL, false) != SCOPE_NEIGHBOUR)
		return;
	const struct halo halo = op_halo(op, attrs, &whole);
	op_attrs_for_window(op, attrs, &whole);
	if (op == OP_slice)
		attrs->stop = (struct slice_bound){true, attrs->start.at + v->type->shape.dim[0] + halo.grows};
}

enum status lowering_attrs(struct lowering *l, const struct node *node, const struct value *v, enum dtype dtype,
                           const struct attrs **found)
{
	const bool half = dtype == DTYPE_F16 || dtype == DTYPE_BF16;
	const bool by_rows =
		op_only_reshapes(node->op) || node->op == OP_broadcast_to || op_table[node->op].scope == SCOPE_NEIGHBOUR;
	const bool tile = l->rows && v->streamed && by_rows;
	*found = node->attrs;
	if (!half && !tile && !node->deferred)
		return STATUS_OK;
	struct attrs attrs;
	memset(&attrs, 0, sizeof attrs);
	memcpy(&attrs, node->attrs, attrs_size(node->attrs, node->op));
	TRY(set_deferred(l, node, &attrs));
	if (tile)
		set_for_tile(l, node->op, v, &attrs);
	for (int i = 0; i < 2 && half; i++)
		attrs.number[i] = rounded_to(dtype, attrs.number[i]);
	*found = byte_set_keep(&l->kept, &attrs, attrs_size(&attrs, node->op), NULL);
	TRY_ALLOC(*found, l->context->diags);
	return STATUS_OK;
}

/*
 * Sets operand K of NODE, at SPAN, in IN to COUNTER: a number that differs in each iteration. It is an array for operations that
 * take no number, in half types, since it must be rounded, and for pow, whose kernel a number chooses.
 */
static enum status lower_counter(struct lowering *l, const struct node *node, const struct found *counter, uint32_t k,
                                 struct operands *in)
{
	const enum dtype dtype = l->body->values[in->values[0]].dtype;
	if (op_table[node->op].class != OP_CLASS_BINARY || node->op == OP_pow || node->op == OP_use || dtype == DTYPE_F16 ||
	    dtype == DTYPE_BF16)
		return lowering_add_counter(l, counter, node->operand.span, &in->values[k]);
	in->scalar = (double)counter->counter.value;
	in->level = counter->counter.loop;
	return STATUS_OK;
}

/* Finds operand K of NODE, REF, for IN, whose V the caller has set to the current value. */
static enum status lower_operand(struct lowering *l, const struct node *node, uint32_t k, struct operands *in)
{
	struct found found;
	struct operand_wrong wrong;
	const struct ref *ref = k == 1 ? &node->operand : &node->more[k - 2];
	const struct op_info *info = &op_table[node->op];
	const struct value *v = &l->body->values[in->values[0]];
	const enum dtype dtype = v->dtype;
	if (ref->kind == REF_NONE)
		return STATUS_OK;
	l->guards += node->op == OP_where;
	if (node->op == OP_use && ref->kind == REF_TERM)
		TRY(lowering_term(l, ref->term, &found));
	else
		TRY(lowering_find_ref(l, ref, &found));
	l->guards -= node->op == OP_where;
	switch (found.kind) {
	case FOUND_NONE: /* an argument is given to each name that the def reads */
	case FOUND_NUMBER:
		if (k == 1 && !op_check_operand(node->op, node->attrs, v->type, &(struct type){.dtype = DTYPE_F64},
		                                &found.number, &wrong)) {
			LOWERING_FAIL(l, STATUS_CHAIN, ref->span, "'%s': %s", info->name, wrong.message);
			return *wrong.hint ? diag_hint(l->context->diags, "%s", wrong.hint) : STATUS_CHAIN;
		}
		found.number = op_is_condition(node->op, k) ? found.number != 0 : rounded_to(dtype, found.number);
		if (info->class == OP_CLASS_GENERAL || k < (uint32_t)info->operands) {
			const bool weak = v->weak;
			TRY(lowering_add_constant(l, found.number, dtype, ref->span, &in->values[k]));
			l->body->values[in->values[k]].weak = weak;
			return STATUS_OK;
		}
		in->scalar = found.number;
		return STATUS_OK;
	case FOUND_COUNTER:
		return lower_counter(l, node, &found, k, in);
	case FOUND_VALUE:
		in->values[k] = found.value;
		break;
	case FOUND_PARAM:
		in->values[k] = lowering_param(l, &found.param);
		break;
	case FOUND_BLOCK:
		l->guards += node->op == OP_where;
		TRY(lower_block_operand(l, &found, &in->values[k]));
		l->guards -= node->op == OP_where;
		break;
	}
	TRY_ALLOC(in->values[k] != NO_VALUE, l->context->diags);
	return STATUS_OK;
}

static enum status too_many(struct lowering *l, struct span span)
{
	return LOWERING_FAIL(l, STATUS_LIMIT, span, "the chain has more than %d operations", MAX_OPERATIONS);
}

enum status lowering_draw(struct lowering *l, struct instr *instr, size_t stream)
{
	struct stream *drawn = arena_alloc(l->context->arena, sizeof *drawn);
	TRY_ALLOC(drawn, l->context->diags);
	*drawn = (struct stream){l->drawn[stream]++, l->stream_loops ? &l->stream_loops[stream] : NULL};
	instr->stream = drawn;
	return STATUS_OK;
}

/* Gives INSTR, a dropout with ATTRS, its stream, and counts it. */
static enum status set_stream(struct lowering *l, struct instr *instr, const struct attrs *attrs)
{
	TRY(lowering_draw(l, instr, 0));
	if (!attrs->stream.given)
		return STATUS_OK;
	struct stream *named = arena_alloc(l->context->arena, sizeof *named);
	TRY_ALLOC(named, l->context->diags);
	*named = (struct stream){.at = (uint64_t)attrs->stream.at};
	instr->stream = named;
	return STATUS_OK;
}

/* True if OP on IN gives a condition: it compares, or moves one. */
static bool gives_condition(const struct lowering *l, enum op op, const struct operands *in)
{
	const struct value *values = l->body->values;
	const bool moves = op_only_moves(op) || op == OP_broadcast_to || op == OP_tile || op == OP_repeat_each ||
	                   op == OP_tril || op == OP_triu;
	const bool both = in->values[1] == NO_VALUE || value_is_condition(&values[in->values[1]]);
	return op_gives_condition(op) || op == OP_any || op == OP_all ||
	       (moves && both && value_is_condition(&values[in->values[0]]));
}

/* What an operation gives: its type, the logical dtype, and the value, which add_result sets. */
struct result {
	struct type type;
	enum dtype dtype;
	uint32_t value;
};

/* Adds the instruction of NODE on IN, whose result is OUT. */
static enum status add_result(struct lowering *l, const struct node *node, const struct attrs *attrs,
                              const struct operands *in, struct result *out)
{
	struct instr *instr = lowering_add_op(l, node->op, attrs, node->span);
	TRY_ALLOC(instr, l->context->diags);
	if (l->body->instr_count > MAX_OPERATIONS)
		return too_many(l, node->span);
	instr->v = in->values[0];
	instr->a = in->values[1];
	memcpy(instr->more, &in->values[2], sizeof instr->more);
	instr->scalar = in->scalar;
	instr->level = in->level;
	if (node->op == OP_dropout)
		TRY(set_stream(l, instr, attrs));
	TRY(lowering_set_out(l, instr, &out->type, out->dtype, &out->value));
	struct value *values = l->body->values;
	for (uint32_t k = 0; k < MAX_VALUES; k++)
		if (in->values[k] != NO_VALUE && values[in->values[k]].active)
			values[out->value].active |= op_table[node->op].differentiable_by[k];
	values[out->value].weak = is_weak(l, node->op, in) && !dtype_is_integer(out->dtype);
	values[out->value].condition = l->chain->has_masks && gives_condition(l, node->op, in);
	note_scope(l, instr, &out->type);
	return STATUS_OK;
}

/*
 * Lowers `use`: the operand becomes the current value. If it is not streamed, each tile computes the same result from
 * it, as from a param. After a SUM that would be wrong, because the tiles' results are added.
 */
static enum status lower_use(struct lowering *l, const struct node *node, const struct operands *in, uint32_t *out)
{
	if (in->values[1] == NO_VALUE)
		return LOWERING_FAIL(l, STATUS_CHAIN, node->operand.span, "'use' takes an array, not a number");
	struct value *a = &l->body->values[in->values[1]];
	uint32_t value = in->values[1];
	if (a->from == FROM_PARAM && source_param(l, a))
		l->streaming.whole[a->param.param] = true;
	if (l->streaming.folds && node->operand.kind != REF_TERM) /* lowering_term has noted what a formula reads */
		l->streaming.streamable = false;
	if (l->what == LOWER_RUN) /* a result or a carry must not be a param */
		TRY(lowering_copy_param(l, &value, node->span));
	*out = value;
	return STATUS_OK;
}

enum status lowering_apply_op(struct lowering *l, const struct node *node, struct operands *in, uint32_t *out)
{
	struct result result;
	const struct attrs *attrs;
	TRY(promote(l, node, in, &result.dtype));
	TRY(lowering_attrs(l, node, &l->body->values[in->values[0]], result.dtype, &attrs));
	TRY(lowering_infer(l, node, attrs, in, &result.type));
	if (op_indices(node->op) == NEED_V)
		result.type.dtype = dtype_compute(result.dtype);
	if (node->op == OP_cast || dtype_is_integer(result.type.dtype))
		result.dtype = result.type.dtype;
	TRY(add_result(l, node, attrs, in, &result));
	*out = result.value;
	return STATUS_OK;
}

enum status lowering_op_on(struct lowering *l, const struct node *node, uint32_t v, uint32_t a, uint32_t *out)
{
	struct operands in = operands_of(v, a);
	return lowering_apply_op(l, node, &in, out);
}

enum status lowering_put_op(struct lowering *l, const struct node *node, enum op op, const struct attrs *attrs,
                            struct operands *in, uint32_t *out)
{
	struct attrs defaults;
	attrs_default(&defaults, op);
	const struct attrs *const given = attrs ? attrs : &defaults;
	const struct attrs *kept = byte_set_keep(&l->kept, given, attrs_size(given, op), NULL);
	TRY_ALLOC(kept, l->context->diags);
	const struct node made = {.kind = NODE_OP, .span = node->span, .op = op, .attrs = kept};
	return lowering_apply_op(l, &made, in, out);
}

enum status lowering_op(struct lowering *l, const struct node *node, uint32_t v, uint32_t *out)
{
	struct operands in = operands_of(v, NO_VALUE);
	*out = v;
	if (node->op == OP_identity)
		return STATUS_OK;
	for (uint32_t k = 1; k <= (uint32_t)op_most_operands(node->op); k++)
		TRY(lower_operand(l, node, k, &in));
	if (node->op == OP_use)
		return lower_use(l, node, &in, out);
	if (op_is_expanded(node->op))
		return lower_expanded(l, node, &in, out);
	if (op_is_loss(node->op))
		return lower_loss(l, node, &in, out);
	if (node->op == OP_attention)
		TRY(lower_attention(l, node, &in));
	if (node->op == OP_tridiagonal)
		TRY(lower_bands(l, node, &in));
	const bool integers = op_gives_condition(node->op) && reads_integers(l, &in);
	const enum dtype condition = condition_dtype(l, &in);
	TRY(lowering_apply_op(l, node, &in, out));
	return integers ? lowering_convert(l, out, condition, node->span) : STATUS_OK;
}

/* Lowers NODE, an operation on the current value, which its result becomes. */
static enum status lower_op(struct lowering *l, const struct node *node)
{
	uint32_t v = lowering_read_slot(l, 0), out;
	TRY_ALLOC(v != NO_VALUE, l->context->diags);
	TRY(lowering_op(l, node, v, &out));
	lowering_write_slot(l, 0, out);
	return STATUS_OK;
}

/* Names, calls and checkpoint blocks. */

/* True if VALUE was made before the checkpoint block that is being lowered, in a block around it or in none. */
static bool made_outside(const struct lowering *l, uint32_t value)
{
	const struct value *v = &l->body->values[value];
	uint32_t made = v->from == FROM_INSTR ? l->body->instrs[v->instr].region : 0;
	for (uint32_t r = l->region; r != made; r = l->body->regions[r].parent)
		if (r == 0)
			return false; /* in a block that has ended */
	return made != l->region;
}

/* Reports that the operand of NODE, a number or a block, cannot be bound. */
static enum status is_no_array(struct lowering *l, const struct node *node)
{
	const char *name = l->chain->variables[node->variable];
	if (node->name)
		return LOWERING_FAIL(l, STATUS_CHAIN, node->span,
		                     "export binds '%s' to an array, and this is none in this call", name);
	return LOWERING_FAIL(l, STATUS_CHAIN, node->span, "a loop binds '%s' again, which is no array before the loop",
	                     name);
}

/* Sets the index of NAMING, and counts it. */
static enum status count_binding(struct lowering *l, struct naming *naming)
{
	int64_t *count = l->last_bound == naming->name ? l->last_count : dictionary_find(&l->out->bindings, naming->name);
	if (!count) {
		count = arena_alloc(l->context->arena, sizeof *count);
		TRY_ALLOC(count && dictionary_put(&l->out->bindings, l->context->arena, naming->name, count),
		          l->context->diags);
	}
	l->last_bound = naming->name;
	l->last_count = count;
	naming->index = (*count)++;
	return STATUS_OK;
}

/*
 * Binds the variable of NODE to its operand, or to the current value. A number or a block cannot be bound: if LENIENT,
 * the variable of a prelude then stays unbound; otherwise that is an error. A prelude for a name without a value before
 * it does nothing.
 */
static enum status lower_name(struct lowering *l, const struct node *node, bool lenient)
{
	struct found found = {.kind = FOUND_VALUE};
	if (node->operand.kind == REF_NONE) {
		found.value = lowering_read_slot(l, 0);
	} else {
		TRY(lowering_find_ref(l, &node->operand, &found));
		const bool number = node->name || node->operand.kind == REF_NUMBER || node->operand.kind == REF_TERM;
		if (found.kind == FOUND_PARAM)
			found.value = lowering_param(l, &found.param);
		else if (found.kind == FOUND_COUNTER)
			TRY(lowering_add_counter(l, &found, node->operand.span, &found.value));
		else if (found.kind == FOUND_NUMBER && number)
			TRY(lowering_value_of(l, &found, node->span, &found.value));
		else if (found.kind != FOUND_VALUE)
			return lenient || found.kind == FOUND_NONE ? STATUS_OK : is_no_array(l, node);
	}
	TRY_ALLOC(found.value != NO_VALUE, l->context->diags);
	if (node->name) /* an export: where the value goes, it must not be a param */
		TRY(lowering_copy_param(l, &found.value, node->span));
	lowering_write_slot(l, node->variable + 1, found.value);
	if (!node->name || !*node->name)
		return STATUS_OK;
	struct naming *naming = arena_alloc(l->context->arena, sizeof *naming); /* for reports and policies */
	TRY_ALLOC(naming, l->context->diags);
	*naming = (struct naming){.name = node->name,
	                          .span = node->span,
	                          .def = l->names.frame ? l->names.frame->def : NULL,
	                          .inner = made_outside(l, found.value),
	                          .next = l->body->values[found.value].names};
	l->body->values[found.value].names = naming;
	TRY(l->what == LOWER_UNROLLED ? count_binding(l, naming) : STATUS_OK);
	return lowering_meet_binding(l, node);
}

/* Binds the names that DEF exports where NODE, which has just run, calls it. EXPORTED are their values. */
static enum status bind_exports(struct lowering *l, const struct node *node, const uint32_t *exported)
{
	for (size_t i = 0; i < node->def->export_count; i++) {
		if (exported[i] == NO_VALUE)
			return LOWERING_FAIL(l, STATUS_CHAIN, node->span, "'%s' has no '%s' to export: its loop ran no iteration",
			                     node->def->name, node->def->exports[i].name);
		lowering_write_slot(l, node->exports[i] + 1, exported[i]);
	}
	return lowering_meet_binding(l, node);
}

/*
 * Lowers the body of the def that NODE calls, with FRAME's arguments. Its variables begin each call without values. If
 * VALUE is not NULL, the body has *VALUE as its current value, and its result becomes that; the current value stays.
 */
static enum status lower_def(struct lowering *l, const struct node *node, const struct frame *frame, uint32_t *value)
{
	const struct def *def = node->def;
	uint32_t *locals = l->env.now + 1 + def->first_variable;
	uint32_t *saved = arena_array(&l->scratch, def->variables + 1, sizeof *saved);
	uint32_t *exported = arena_array(&l->scratch, def->export_count + 1, sizeof *exported);
	TRY_ALLOC(saved && exported, l->context->diags);
	memcpy(saved, locals, def->variables * sizeof *saved);
	for (uint32_t i = 0; i < def->variables; i++)
		locals[i] = NO_VALUE;
	const uint32_t current = l->env.now[0];
	const bool written = l->env.written[0];
	if (value)
		lowering_write_slot(l, 0, *value);
	l->names.frame = frame;
	enum status status = lower_nodes(l, def->body);
	l->names.frame = frame->outer;
	if (value) {
		*value = l->env.now[0];
		l->env.now[0] = current;
		l->env.written[0] = written;
	}
	for (size_t i = 0; i < def->export_count; i++)
		exported[i] = l->env.now[def->exports[i].variable + 1];
	memcpy(locals, saved, def->variables * sizeof *saved);
	if (status == STATUS_CHAIN)
		diag_hint_more(l->context->diags, "in the call of '%s' at %u:%u", def->name, node->span.line,
		               node->span.column);
	return status ? status : bind_exports(l, node, exported);
}

enum status lowering_call(struct lowering *l, const struct node *node, uint32_t *value)
{
	const struct def *def = node->def;
	struct found *arguments = arena_array(&l->scratch, def->count, sizeof *arguments);
	struct frame *frame = arena_alloc(&l->scratch, sizeof *frame); /* block arguments point to it */
	TRY_ALLOC(arguments && frame, l->context->diags);
	for (const struct node *name = node->body; name; name = name->next)
		TRY(lower_name(l, name, true));
	const size_t needed = def->count - def->export_count;
	for (size_t i = 0; i < def->count; i++)
		TRY((i < needed || def->exports[i - needed].read ? lowering_find_ref : lowering_find_optional)(
			l, &node->arguments[i], &arguments[i]));
	if (l->body->instr_count > MAX_OPERATIONS)
		return too_many(l, node->span);
	const struct frame *outer = l->names.frame;
	*frame =
		(struct frame){.arguments = arguments, .outer = outer, .def = def->name, .depth = outer ? outer->depth + 1 : 1};
	if (frame->depth > MAX_NESTING)
		return LOWERING_FAIL(l, STATUS_LIMIT, node->span, "calls of defs nest deeper than %d", MAX_NESTING);
	if (value && l->what == LOWER_RUN) /* a result or a carry must not be a param */
		TRY(lowering_copy_param(l, value, node->span));
	TRY(lower_def(l, node, frame, value));
	if (!value) /* a def without stages is the identity */
		TRY_ALLOC(lowering_read_slot(l, 0) != NO_VALUE, l->context->diags);
	return STATUS_OK;
}

/* Lowers NODE, a call of a program on the current value, which its result becomes. */
static enum status lower_program_stage(struct lowering *l, const struct node *node)
{
	uint32_t v = lowering_read_slot(l, 0), out;
	TRY_ALLOC(v != NO_VALUE, l->context->diags);
	TRY(lower_program(l, node, v, &out));
	lowering_write_slot(l, 0, out);
	return STATUS_OK;
}

/* Lowers the stages of NODE, a checkpoint block, in the region ID. Notes the ends of its steps if its policy cuts it. */
static enum status lower_checkpointed(struct lowering *l, const struct node *node, uint32_t id)
{
	struct step_ends *const around = l->ends, ends = {0};
	const bool cuts = node->policy && node->policy->cuts && l->what != LOWER_RUN;
	const uint32_t outer = l->region;
	l->region = id;
	l->ends = cuts ? &ends : NULL;
	TRY(lower_nodes(l, node->body));
	l->region = outer;
	l->ends = around;
	struct region *region = &l->body->regions[id];
	region->end = (uint32_t)l->body->instr_count;
	if (!cuts)
		return STATUS_OK;
	region->step_count = ends.count;
	region->steps = byte_set_keep(&l->kept, ends.items, ends.count * sizeof *ends.items, NULL);
	TRY_ALLOC(region->steps || ends.count == 0, l->context->diags);
	return STATUS_OK;
}

static enum status lower_checkpoint(struct lowering *l, const struct node *node)
{
	struct body *body = l->body;
	const uint32_t id = (uint32_t)body->region_count;
	struct region *region =
		arena_append(body->arena, &body->regions, &body->region_count, &body->region_capacity, sizeof *region);
	TRY_ALLOC(region, l->context->diags);
	*region = (struct region){.parent = l->region,
	                          .first = (uint32_t)body->instr_count,
	                          .policy = node->policy ? node->policy->policy : NULL};
	if (l->what == LOWER_UNROLLED)
		region->span = node->span;
	return lower_checkpointed(l, node, id);
}

/* Reports that an iteration collects TYPE, which is not that of the parts of the array IS. */
static enum status collects_other(struct lowering *l, const struct node *node, const struct type *type,
                                  const struct value *is)
{
	struct type part = {is->dtype, is->type->shape};
	char a[TYPE_TEXT], b[TYPE_TEXT];
	shape_drop_leading(&part.shape);
	LOWERING_FAIL(l, STATUS_CHAIN, node->span, "'collect' stacks values of one type: iterations make %s and %s",
	              type_format(&part, a), type_format(type, b));
	return part.dtype == type->dtype ? STATUS_CHAIN
	                                 : diag_hint(l->context->diags, "convert it in each iteration, as in `cast f64`");
}

/* Sets *EVERY to that of NODE, a `collect`, in this call. */
static enum status find_every(struct lowering *l, const struct node *node, int64_t *every)
{
	double number;
	*every = node->every;
	if (node->operand.kind == REF_NONE)
		return STATUS_OK;
	TRY(lowering_number(l, &node->operand, "every", &number));
	const struct argument argument = argument_of_double(number);
	if (!argument.integer || argument.as_integer < 1)
		return LOWERING_FAIL(l, STATUS_CHAIN, node->operand.span, "every is an integer of at least 1, not %.17g",
		                     number);
	*every = argument.as_integer;
	return STATUS_OK;
}

/* Lowers NODE: the current value becomes a part of the array that the loop around collects. */
static enum status lower_collect(struct lowering *l, const struct node *node)
{
	const struct collecting *in = &l->collecting;
	int64_t every;
	TRY(find_every(l, node, &every));
	const int64_t parts = in->iterations / every;
	const uint32_t slot = node->variable + 1, v = lowering_read_slot(l, 0);
	TRY_ALLOC(v != NO_VALUE, l->context->diags);
	const struct value value = l->body->values[v];
	struct type type = {.dtype = value.dtype, .shape.ndim = value.type->shape.ndim + 1, .shape.dim = {parts}};
	if (value.type->shape.ndim == MAX_DIMS)
		return LOWERING_FAIL(l, STATUS_LIMIT, node->span, "'collect': more than %d dimensions", MAX_DIMS);
	for (int i = 0; i < value.type->shape.ndim; i++)
		type.shape.dim[i + 1] = value.type->shape.dim[i];
	if (!type_addressable(&type))
		return LOWERING_FAIL(l, STATUS_LIMIT, node->span, "the array that 'collect' makes is too large to address");
	struct attrs attrs;
	attrs_default(&attrs, OP_COLLECT);
	attrs.start = (struct slice_bound){true, in->iteration.value};
	attrs.step = parts ? every : INT64_MAX;
	const struct attrs *kept = byte_set_keep(&l->kept, &attrs, attrs_size(&attrs, OP_COLLECT), NULL);
	const uint32_t a = in->first ? NO_VALUE : lowering_read_slot(l, slot);
	TRY_ALLOC(kept && (in->first || a != NO_VALUE), l->context->diags);
	const struct type held = {dtype_compute(type.dtype), type.shape};
	if (!in->first && (!type_equal(l->body->values[a].type, &held) || l->body->values[a].dtype != type.dtype))
		return collects_other(l, node, &(struct type){value.dtype, value.type->shape}, &l->body->values[a]);
	struct instr *instr = lowering_add_op(l, OP_COLLECT, kept, node->span);
	TRY_ALLOC(instr, l->context->diags);
	instr->v = v;
	instr->a = a;
	instr->level = in->iteration.loop;
	uint32_t out;
	TRY(lowering_set_out(l, instr, &type, type.dtype, &out));
	l->body->values[out].active = parts > 0 && (value.active || (a != NO_VALUE && l->body->values[a].active));
	l->streaming.flat = false;
	lowering_need_whole(l, node->span, "the values of all iterations are stacked along a new leading axis");
	lowering_write_slot(l, slot, out);
	return STATUS_OK;
}

enum status lower_node(struct lowering *l, const struct node *node)
{
	switch (node->kind) {
	case NODE_OP:
		return lower_op(l, node);
	case NODE_CALL:
		return lowering_call(l, node, NULL);
	case NODE_PROGRAM:
		return lower_program_stage(l, node);
	case NODE_NAME:
		return lower_name(l, node, false);
	case NODE_REPEAT:
	case NODE_FOR:
		return lower_loop(l, node);
	case NODE_COLLECT:
		return lower_collect(l, node);
	case NODE_CHECKPOINT:
		return lower_checkpoint(l, node);
	case NODE_COTANGENTS:
		return lower_cotangents(l, node);
	case NODE_FIXED_POINT:
		return lower_fixed_point(l, node);
	case NODE_INDEX: /* of terms alone */
		break;
	}
	return STATUS_OK;
}

/* Lowers NODE, which is no loop, as a step or a prelude of LOWER_UNROLLED. */
static enum status lower_step(struct lowering *l, const struct node *node)
{
	l->step = l->steps;
	if (is_prelude(node)) {
		TRY_ALLOC(lowering_defer(l, node), l->context->diags);
		return lower_node(l, node);
	}
	lowering_count_step(l);
	l->counts_steps = false;
	TRY(lower_node(l, node));
	l->counts_steps = true;
	/* draft_step copies too, so gradients are added in one order under every policy. */
	TRY(l->env.now[0] != NO_VALUE ? lowering_copy_param(l, &l->env.now[0], node->span) : STATUS_OK);
	return lowering_meet_step(l, node->span);
}

/* Lowers NODE, which is no loop, as a step or a prelude of a checkpoint block that its policy cuts. */
static enum status lower_block_step(struct lowering *l, const struct node *node)
{
	struct step_ends *const ends = l->ends;
	l->ends = NULL;
	TRY(lower_node(l, node));
	l->ends = ends;
	if (is_prelude(node))
		return STATUS_OK;
	uint32_t *end = arena_append(&l->scratch, &ends->items, &ends->count, &ends->capacity, sizeof *end);
	TRY_ALLOC(end, l->context->diags);
	*end = (uint32_t)l->body->instr_count;
	return STATUS_OK;
}

enum status lower_nodes(struct lowering *l, const struct node *node)
{
	for (; node && node != l->end; node = node->next) {
		const bool loop = node->kind == NODE_REPEAT || node->kind == NODE_FOR;
		if (l->counts_steps && !loop)
			TRY(lower_step(l, node));
		else if (l->ends && !loop)
			TRY(lower_block_step(l, node));
		else
			TRY(lower_node(l, node));
	}
	return STATUS_OK;
}
