/*
 * Lowers losses to operations: what each element or row loses, then the mean or the sum of that.
 *
 *     mse, mae, huber       one operation, a mean or a sum. With reduction=none: sub, then square, abs, or both parts of huber
 *     bce, kl_div, ...      an operation of elements (ELEMENT_LOSS in ops.def), then mean or sum
 *     nll                   an operation that picks an element of each row, times the weights of the classes
 *     cross_entropy         one operation where rows have classes along the last axis, and nothing else is asked for.
 *                           Else log_softmax, then as nll. Probabilities are multiplied with, and summed along the axis
 *
 * A mean that ignores classes or has weights is the sum of the rows over the sum of the weights. These are torch's losses.
 * Weights have no derivative. A row that is ignored may hold anything: `where` replaces it before log_softmax, so no NaN of it reaches a gradient.
 * Tests: tests/cases/losses.test
 */
#include "ir/lowering.h"

#include <math.h>
#include <string.h>

/* A loss that is being lowered. */
struct loss {
	struct lowering *l;
	const struct node *stage;
	const struct attrs *attrs;
	int axis;                 /* of the classes */
	double classes;           /* their number */
	uint32_t targets, weight; /* WEIGHT: NO_VALUE if the classes have none */
};

/* Applies OP, with ATTRS (NULL: its defaults), to the values IN. *VALUE is the result. */
static enum status apply_values(const struct loss *s, enum op op, const struct attrs *attrs, struct operands in,
                                uint32_t *value)
{
	return lowering_put_op(s->l, s->stage, op, attrs, &in, value);
}

/* Replaces *VALUE by OP of it and of A, which may be NO_VALUE. */
static enum status apply_array(const struct loss *s, enum op op, const struct attrs *attrs, uint32_t a, uint32_t *value)
{
	return apply_values(s, op, attrs, operands_of(*value, a), value);
}

/* Replaces *VALUE by OP of it and of NUMBER. */
static enum status apply_number(const struct loss *s, enum op op, double number, uint32_t *value)
{
	return apply_values(
		s, op, NULL, (struct operands){.values = {*value, NO_VALUE, NO_VALUE, NO_VALUE}, .scalar = number, .level = -1},
		value);
}

/* Replaces *VALUE by OP of it along the axis of the classes. */
static enum status apply_along(const struct loss *s, enum op op, uint32_t *value)
{
	struct attrs attrs;
	attrs_default(&attrs, op);
	attrs.has_axis = true;
	attrs.axis_count = 1;
	attrs.axis[0] = s->axis;
	return apply_array(s, op, &attrs, NO_VALUE, value);
}

/* Replaces *VALUE by what the option `reduction` asks for. */
static enum status reduce(const struct loss *s, uint32_t *value)
{
	if (s->attrs->reduction == REDUCTION_NONE)
		return STATUS_OK;
	return apply_array(s, s->attrs->reduction == REDUCTION_SUM ? OP_sum : OP_mean, NULL, NO_VALUE, value);
}

/* Sets *OUT to the losses of all elements: of mse, mae or huber, on IN. */
static enum status lower_differences(const struct loss *s, const struct operands *in, uint32_t *out)
{
	struct attrs bounds;
	TRY(apply_values(s, OP_sub, NULL, *in, out));
	if (s->stage->op == OP_mse)
		return apply_array(s, OP_square, NULL, NO_VALUE, out);
	TRY(apply_array(s, OP_abs, NULL, NO_VALUE, out));
	if (s->stage->op == OP_mae)
		return STATUS_OK;
	/* With c = min(|d|, delta) it is c (|d| - c / 2). */
	uint32_t size = *out, half;
	attrs_default(&bounds, OP_clip);
	bounds.number[1] = s->attrs->delta;
	TRY(apply_array(s, OP_clip, &bounds, NO_VALUE, out));
	half = *out;
	TRY(apply_number(s, OP_mul, 0.5, &half));
	TRY(apply_array(s, OP_sub, NULL, half, &size));
	return apply_array(s, OP_mul, NULL, size, out);
}

/* Sets *OUT to the weight of each row's class, of logits V; 1 if the classes have none, 0 where it is ignored. */
static enum status weigh_classes(const struct loss *s, uint32_t v, uint32_t weight, uint32_t *out)
{
	struct attrs attrs;
	attrs_default(&attrs, OP_nll);
	attrs.axis[0] = s->axis;
	attrs.ignore = s->attrs->ignore;
	const struct operands in = {.values = {v, s->targets, weight, NO_VALUE}, .level = -1};
	return apply_values(s, OP_CLASS_WEIGHT, &attrs, in, out);
}

/* Replaces *VALUE by its product with the weights of the classes along their axis, if they have any. */
static enum status multiply_weights(const struct loss *s, uint32_t *value)
{
	const struct shape *shape = &s->l->body->values[*value].type->shape;
	uint32_t weight = s->weight;
	struct attrs attrs;
	if (weight == NO_VALUE)
		return STATUS_OK;
	attrs_default(&attrs, OP_reshape);
	attrs.shape.ndim = shape->ndim - s->axis;
	attrs.shape.dim[0] = (int64_t)s->classes;
	for (int i = 1; i < attrs.shape.ndim; i++)
		attrs.shape.dim[i] = 1;
	if (attrs.shape.ndim > 1)
		TRY(apply_array(s, OP_reshape, &attrs, NO_VALUE, &weight));
	return apply_array(s, OP_mul, NULL, weight, value);
}

/*
 * Replaces *ROWS, the losses by the targets, by those of smoothed labels. COUNTED is 0 for each row that is ignored; NO_VALUE:
 * none is.
 */
static enum status smooth_labels(const struct loss *s, uint32_t logs, uint32_t counted, uint32_t *rows)
{
	const double share = s->attrs->smoothing;
	uint32_t all = logs;
	if (share == 0)
		return STATUS_OK;
	TRY(multiply_weights(s, &all));
	TRY(apply_along(s, OP_sum, &all));
	if (counted != NO_VALUE)
		TRY(apply_array(s, OP_mul, NULL, counted, &all));
	TRY(apply_number(s, OP_mul, share / s->classes, &all));
	TRY(apply_number(s, OP_mul, 1 - share, rows));
	return apply_array(s, OP_sub, NULL, all, rows);
}

/* Sets *ROWS to the losses of all rows of probabilities, by their logarithms LOGS. */
static enum status lower_probabilities(const struct loss *s, uint32_t logs, uint32_t *rows)
{
	*rows = logs;
	TRY(apply_array(s, OP_mul, NULL, s->targets, rows));
	TRY(multiply_weights(s, rows));
	TRY(apply_along(s, OP_sum, rows));
	TRY(apply_array(s, OP_neg, NULL, NO_VALUE, rows));
	return smooth_labels(s, logs, NO_VALUE, rows);
}

/* Replaces the rows of the logits *V that COUNTED has 0 for by zeros. */
static enum status clear_ignored(const struct loss *s, uint32_t counted, uint32_t *v)
{
	struct attrs attrs;
	attrs_default(&attrs, OP_expand_dims);
	attrs.has_axis = true;
	attrs.axis_count = 1;
	attrs.axis[0] = s->axis;
	TRY(apply_array(s, OP_expand_dims, &attrs, NO_VALUE, &counted));
	return apply_values(s, OP_where, NULL, operands_of(*v, counted), v);
}

/* Sets *OUT to the loss of rows V with classes: logits if SOFTMAX, else logarithms of probabilities. */
static enum status lower_classes(const struct loss *s, uint32_t v, bool softmax, uint32_t *out)
{
	const bool ignores = s->attrs->ignore.given, weighs = s->weight != NO_VALUE;
	const bool divides = s->attrs->reduction == REDUCTION_MEAN && (ignores || weighs);
	uint32_t counted = NO_VALUE, weights;
	struct attrs attrs;
	if (softmax && ignores) {
		TRY(weigh_classes(s, v, NO_VALUE, &counted));
		TRY(clear_ignored(s, counted, &v));
	}
	if (softmax)
		TRY(apply_along(s, OP_log_softmax, &v));
	attrs_default(&attrs, OP_nll);
	attrs.axis[0] = s->axis;
	attrs.ignore = s->attrs->ignore;
	*out = v;
	TRY(apply_array(s, OP_nll, &attrs, s->targets, out));
	if (divides || weighs)
		TRY(weigh_classes(s, v, s->weight, &weights));
	if (weighs)
		TRY(apply_array(s, OP_mul, NULL, weights, out));
	if (softmax)
		TRY(smooth_labels(s, v, counted, out));
	if (!divides)
		return reduce(s, out);
	TRY(apply_array(s, OP_sum, NULL, NO_VALUE, out));
	TRY(apply_array(s, OP_sum, NULL, NO_VALUE, &weights));
	return apply_array(s, OP_div, NULL, weights, out);
}

/* True if the one operation does what S, a cross_entropy of V, asks for. */
static bool is_plain(const struct loss *s, const struct type *v)
{
	return s->weight == NO_VALUE && s->attrs->smoothing == 0 && s->attrs->reduction != REDUCTION_NONE &&
	       s->axis == v->shape.ndim - 1;
}

/* Lowers a cross_entropy or nll. */
static enum status lower_loss_of_rows(struct loss *s, struct operands *in, uint32_t *out)
{
	struct lowering *l = s->l;
	const uint32_t v = in->values[0];
	const struct type *type = l->body->values[v].type;
	struct type result;
	TRY(lowering_infer(l, s->stage, s->attrs, in, &result));
	s->axis = op_class_axis(s->attrs, type->shape.ndim);
	s->classes = (double)type->shape.dim[s->axis];
	s->targets = in->values[1];
	s->weight = in->values[2];
	if (s->weight != NO_VALUE && l->body->values[s->weight].active)
		TRY(apply_array(s, OP_stop_gradient, NULL, NO_VALUE, &s->weight));
	if (s->stage->op == OP_nll)
		return lower_classes(s, v, false, out);
	if (l->body->values[s->targets].type->shape.ndim < type->shape.ndim)
		return is_plain(s, type) ? lowering_apply_op(l, s->stage, in, out) : lower_classes(s, v, true, out);
	uint32_t logs = v;
	TRY(apply_along(s, OP_log_softmax, &logs));
	TRY(lower_probabilities(s, logs, out));
	return reduce(s, out);
}

enum status lower_loss(struct lowering *l, const struct node *node, struct operands *in, uint32_t *out)
{
	const struct value *v = &l->body->values[in->values[0]];
	struct loss s = {.l = l, .stage = node, .weight = NO_VALUE};
	TRY(lowering_attrs(l, node, v, v->dtype, &s.attrs));
	if (op_has_classes(node->op))
		return lower_loss_of_rows(&s, in, out);
	if (op_table[node->op].class == OP_CLASS_GENERAL && s.attrs->reduction == REDUCTION_NONE)
		return lower_differences(&s, in, out);
	TRY(lowering_apply_op(l, node, in, out));
	return op_table[node->op].class == OP_CLASS_GENERAL ? STATUS_OK : reduce(&s, out);
}
