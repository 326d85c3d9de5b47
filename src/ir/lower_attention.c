/*
 * Makes the operands of an attention what its blocks read: keys and values with the same batch axes, and a mask of numbers.
 *
 *     a condition, or bool      log(mask != 0): 0 for a key that is seen, -inf for one that is hidden
 *     other integers            an error, since they are neither
 *     numbers                   the mask itself
 *
 * A comparison gives 1 or 0 in a floating type, so values say whether they are conditions (struct value). A chain without
 * masks does not need to know.
 * Tests: tests/cases/attention.test
 */
#include "ir/lowering.h"

#include <string.h>

/* Replaces *VALUE by OP of it, with ATTRS (NULL: its defaults), for NODE. */
static enum status apply_for_attention(struct lowering *l, const struct node *node, enum op op,
                                       const struct attrs *attrs, uint32_t *value)
{
	struct operands in = operands_of(*value, NO_VALUE);
	return lowering_put_op(l, node, op, attrs, &in, value);
}

/* Gives *VALUE, a stack of matrices, the batch axes of SHAPE. */
static enum status broadcast_batch(struct lowering *l, const struct node *node, const struct shape *shape,
                                   uint32_t *value)
{
	const struct shape own = l->body->values[*value].type->shape;
	struct attrs attrs;
	attrs_default(&attrs, OP_broadcast_to);
	attrs.shape = *shape;
	attrs.shape.dim[attrs.shape.ndim++] = own.dim[own.ndim - 2];
	attrs.shape.dim[attrs.shape.ndim++] = own.dim[own.ndim - 1];
	return shape_equal(&own, &attrs.shape) ? STATUS_OK : apply_for_attention(l, node, OP_broadcast_to, &attrs, value);
}

/* Gives keys and values the same batch axes, if these broadcast. What does not fit is for the operation to report. */
static enum status match_batches(struct lowering *l, const struct node *node, struct operands *in)
{
	struct shape k = l->body->values[in->values[1]].type->shape, v = l->body->values[in->values[2]].type->shape, both;
	if (k.ndim < 2 || v.ndim < 2 || k.dim[k.ndim - 2] != v.dim[v.ndim - 2])
		return STATUS_OK;
	k.ndim -= 2;
	v.ndim -= 2;
	if (shape_equal(&k, &v) || !shape_broadcast(&k, &v, &both) || both.ndim + 2 > MAX_DIMS)
		return STATUS_OK;
	TRY(broadcast_batch(l, node, &both, &in->values[1]));
	return broadcast_batch(l, node, &both, &in->values[2]);
}

enum status lower_attention(struct lowering *l, const struct node *node, struct operands *in)
{
	uint32_t *const mask = &in->values[3];
	TRY(match_batches(l, node, in));
	if (*mask == NO_VALUE)
		return STATUS_OK;
	const struct value given = l->body->values[*mask];
	if (!value_is_condition(&given)) {
		if (!dtype_is_integer(given.dtype))
			return STATUS_OK;
		LOWERING_FAIL(l, STATUS_CHAIN, node->more[1].span, "a mask of %s is neither bool nor floating",
		              dtype_name(given.dtype));
		return diag_hint(l->context->diags, "a condition hides keys, as in mask=(M != 0)");
	}
	enum dtype dtype = l->body->values[in->values[0]].dtype;
	if (dtype_is_integer(dtype))
		dtype = l->chain->integers;
	TRY(lowering_apply(l, lowering_add_op(l, OP_ne, NULL, node->span), given.type, given.dtype, mask));
	l->body->values[*mask].active = false;
	TRY(lowering_convert(l, mask, dtype, node->span));
	return apply_for_attention(l, node, OP_log, NULL, mask);
}
