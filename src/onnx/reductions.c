/*
 * Operators that reduce axes, and those that normalise along axes.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <math.h>

#define OPERATOR(DOMAIN, NAME, TRANSLATOR, OPERATION) translate translate_##TRANSLATOR;
#include "onnx/operators.def"

static bool has_axis(const struct integers *axes, int axis)
{
	bool found = !axes;
	for (size_t i = 0; axes && i < axes->count; i++)
		found |= axes->at[i] == axis;
	return found;
}

/* True if V has no elements along one of AXES; all if NULL. */
static bool is_empty(const struct value *v, const struct integers *axes)
{
	for (int i = 0; i < v->type.shape.ndim; i++)
		if (v->type.shape.dim[i] == 0 && has_axis(axes, i))
			return true;
	return false;
}

/* Returns the largest, or smallest, of no elements: the least, or greatest, number. */
static struct value *empty_extreme(struct node *n, const struct value *v, const struct integers *axes, bool keeps,
                                   const char *operation)
{
	struct shape shape = {0, {0}};
	const bool condition = v->type.dtype == DTYPE_BOOL, most = !strcmp(operation, "amin");
	if (dtype_is_integer(v->type.dtype) && !condition)
		return refuse(n, "it reduces an axis without elements");
	for (int i = 0; i < v->type.shape.ndim; i++)
		if (!has_axis(axes, i) || keeps)
			shape.dim[shape.ndim++] = has_axis(axes, i) ? 1 : v->type.shape.dim[i];
	return filled(n, v->type.dtype, &shape, condition ? most : most ? INFINITY : -INFINITY);
}

void translate_reduce(struct node *n)
{
	struct value *v = needed(n, 0);
	const char *operation = operation_of(n);
	const int64_t since = !strcmp(operation, "sum") ? 13 : 18;
	struct integers axes = axes_of(n, "axes", 1, since);
	const bool keeps = attribute_integer(n, "keepdims", 1), idle = attribute_integer(n, "noop_with_empty_axes", 0);
	if (!v || n->reason)
		return;
	for (size_t i = 0; i < axes.count; i++) {
		int axis;
		if (!resolve_axis(n, axes.at[i], v->type.shape.ndim, &axis))
			return;
		axes.at[i] = axis;
	}
	const bool all = !axes.count && !idle;
	const enum dtype dtype = v->type.dtype;
	struct integers none = {0, axes.at};
	const struct integers *over = all ? NULL : axes.count ? &axes : &none;
	if (!strcmp(operation, "l1"))
		v = reduced(n, "sum", unary(n, "abs", v), over, keeps);
	else if (!strcmp(operation, "sum_square"))
		v = reduced(n, "sum", unary(n, "square", v), over, keeps);
	else if (!strcmp(operation, "log_sum"))
		v = unary(n, "log", reduced(n, "sum", v, over, keeps));
	else if (over == &none && !strcmp(operation, "norm"))
		v = unary(n, "abs", v);
	else
		v = is_empty(v, over) && *operation == 'a' ? empty_extreme(n, v, over, keeps, operation)
		                                           : reduced(n, operation, v, over, keeps);
	give(n, 0, typed(n, v, dtype));
}

void translate_cumulative(struct node *n)
{
	struct value *v = needed(n, 0);
	const char *operation = operation_of(n);
	const bool exclusive = attribute_integer(n, "exclusive", 0), reverse = attribute_integer(n, "reverse", 0);
	double given;
	int axis;
	if (!v || !input_number(n, 1, "axis", &given) || !resolve_axis(n, to_integer(given), v->type.shape.ndim, &axis))
		return;
	const enum dtype dtype = v->type.dtype;
	if (reverse)
		v = apply(n, "flip", v, "axis=%d", axis);
	if (exclusive && v && v->type.shape.dim[axis] > 0) /* the first result is of no elements */
		v = padded(n, range_of(n, v, axis, 0, v->type.shape.dim[axis] - 1), axis, 1, 0, !strcmp(operation, "cumprod"));
	v = apply(n, operation, v, "axis=%d", axis);
	give(n, 0, typed(n, reverse ? apply(n, "flip", v, "axis=%d", axis) : v, dtype));
}

void translate_softmax(struct node *n)
{
	struct value *v = needed(n, 0);
	int axis;
	if (!v || !resolve_axis(n, attribute_integer(n, "axis", n->version < 13 ? 1 : -1), v->type.shape.ndim, &axis))
		return;
	const struct shape *s = &v->type.shape;
	if (n->version >= 13 || axis == s->ndim - 1) {
		give(n, 0, apply(n, operation_of(n), v, axis == s->ndim - 1 ? " " : "axis=%d", axis));
		return;
	}
	/* Before opset 13: along all axes from AXIS on. */
	struct shape flat = {2, {1, 1}};
	for (int i = 0; i < s->ndim; i++)
		flat.dim[i >= axis] *= s->dim[i];
	give(n, 0, reshape(n, unary(n, operation_of(n), reshape(n, v, &flat)), s));
}

void translate_hardmax(struct node *n)
{
	struct value *v = needed(n, 0);
	int axis;
	if (!v || !resolve_axis(n, attribute_integer(n, "axis", n->version < 13 ? 1 : -1), v->type.shape.ndim, &axis))
		return;
	const struct shape s = v->type.shape;
	struct shape flat = {2, {1, 1}};
	for (int i = 0; i < s.ndim; i++)
		flat.dim[i >= axis] *= s.dim[i];
	const bool flattens = n->version < 13 && axis != s.ndim - 1;
	if (flattens) {
		v = reshape(n, v, &flat);
		axis = 1;
	}
	if (!v)
		return;
	const int64_t extent = v->type.shape.dim[axis];
	struct shape along = {v->type.shape.ndim, {0}};
	for (int i = 0; i < along.ndim; i++)
		along.dim[i] = i == axis ? extent : 1;
	if (extent > NUMBERS_MOST || symbol_in(n->importer, (double)extent)) {
		refuse(n, "its axis is open or too long");
		return;
	}
	double *numbers = arena_array(n->importer->context->arena, (size_t)extent + 1, sizeof *numbers);
	for (int64_t i = 0; numbers && i < extent; i++)
		numbers[i] = (double)i;
	if (!numbers) {
		short_of_memory(n);
		return;
	}
	struct value *top = apply(n, "argmax", v, "axis=%d keepdims=true", axis);
	v = typed(n, binary(n, "eq", top, numbers_of(n, DTYPE_I64, numbers, &along, 0)), v->type.dtype);
	give(n, 0, flattens ? reshape(n, v, &s) : v);
}

void translate_lp_normalization(struct node *n)
{
	struct value *v = once(n, needed(n, 0));
	const int64_t p = attribute_integer(n, "p", 2);
	int axis;
	if (!v || !resolve_axis(n, attribute_integer(n, "axis", -1), v->type.shape.ndim, &axis))
		return;
	struct value *size = p == 1 ? apply(n, "sum", unary(n, "abs", v), "axis=%d keepdims=true", axis)
	                            : apply(n, "norm", v, "axis=%d keepdims=true", axis);
	size = once(n, size);
	if (size)
		give(
			n, 0,
			choose(n, binary(n, "eq", size, number_like(n, size, 0)), number_like(n, v, 0), binary(n, "div", v, size)));
}

/* Returns OPERATION, layernorm or rmsnorm, of V along its axes from AXIS on. */
static struct value *normalise(struct node *n, const char *operation, struct value *v, int axis, double eps)
{
	if (!v)
		return NULL;
	const struct shape s = v->type.shape;
	const char *number = number_text(n, eps, DTYPE_F32);
	struct shape flat = {axis + 1, {0}};
	for (int i = 0; i < axis; i++)
		flat.dim[i] = s.dim[i];
	flat.dim[axis] = 1;
	for (int i = axis; i < s.ndim; i++)
		flat.dim[axis] *= s.dim[i];
	if (!number)
		return NULL;
	v = apply(n, operation, reshape(n, v, &flat), strcmp(number, "1e-05") ? "eps=%s" : " ", number);
	return reshape(n, v, &s);
}

void translate_layer_normalization(struct node *n)
{
	struct value *v = needed(n, 0), *scale = needed(n, 1), *bias = input(n, 2);
	int axis;
	const double eps = attribute_number(n, "epsilon", (double)1e-5F);
	if (!v || !scale || !resolve_axis(n, attribute_integer(n, "axis", -1), v->type.shape.ndim, &axis))
		return;
	struct integers axes = {0, arena_array(n->importer->context->arena, MAX_DIMS, sizeof *axes.at)};
	if (!axes.at) {
		short_of_memory(n);
		return;
	}
	for (int i = axis; i < v->type.shape.ndim; i++)
		axes.at[axes.count++] = i;
	if (is_wanted(n, 1) || is_wanted(n, 2))
		v = once(n, v);
	struct value *y = binary(n, "mul", normalise(n, "layernorm", v, axis, eps), scale);
	give(n, 0, bias ? binary(n, "add", y, bias) : y);
	if (is_wanted(n, 1))
		give(n, 1, reduced(n, "mean", v, &axes, true));
	if (is_wanted(n, 2))
		give(n, 2, unary(n, "rsqrt", plus(n, reduced(n, "var", v, &axes, true), eps)));
}

void translate_rms_normalization(struct node *n)
{
	struct value *v = needed(n, 0), *scale = needed(n, 1);
	int axis;
	if (v && scale && resolve_axis(n, attribute_integer(n, "axis", -1), v->type.shape.ndim, &axis))
		give(n, 0,
		     binary(n, "mul", normalise(n, "rmsnorm", v, axis, attribute_number(n, "epsilon", (double)1e-5F)), scale));
}

/* Returns V, one number a channel, as an array that broadcasts over NDIM axes, of which the channels are axis 1. */
static struct value *by_channel(struct node *n, struct value *v, int ndim)
{
	if (!v)
		return NULL;
	struct shape shape = {ndim > 1 ? ndim - 1 : 1, {shape_count(&v->type.shape)}};
	for (int i = 1; i < shape.ndim; i++)
		shape.dim[i] = 1;
	return reshape(n, v, &shape);
}

void translate_batch_normalization(struct node *n)
{
	struct value *v = needed(n, 0), *scale = needed(n, 1), *bias = needed(n, 2), *mean = needed(n, 3),
				 *variance = needed(n, 4);
	const double eps = attribute_number(n, "epsilon", (double)1e-5F),
				 momentum = attribute_number(n, "momentum", (double)0.9F);
	if (!v || !scale || !bias || !mean || !variance)
		return;
	const int ndim = v->type.shape.ndim;
	/* The statistics are no weights: nobody trains them. */
	mean->is_statistic = variance->is_statistic = true;
	if (attribute_integer(n, "training_mode", 0)) {
		struct integers axes = {0, arena_array(n->importer->context->arena, MAX_DIMS, sizeof *axes.at)};
		for (int i = 0; axes.at && i < ndim; i++)
			if (i != 1)
				axes.at[axes.count++] = i;
		v = once(n, v);
		struct value *own_mean = axes.at ? once(n, reduced(n, "mean", v, &axes, false)) : short_of_memory(n);
		struct value *own_variance = axes.at ? bind(n, reduced(n, "var", v, &axes, false), "variance") : NULL;
		if (is_wanted(n, 1))
			give(n, 1, binary(n, "add", times(n, mean, momentum), times(n, own_mean, 1 - momentum)));
		if (is_wanted(n, 2))
			give(n, 2, binary(n, "add", times(n, variance, momentum), times(n, own_variance, 1 - momentum)));
		mean = own_mean;
		variance = own_variance;
	}
	const enum dtype dtype = v ? v->type.dtype : DTYPE_F32;
	struct value *factor = binary(n, "div", scale, unary(n, "sqrt", plus(n, variance, eps)));
	struct value *y = binary(n, "mul", binary(n, "sub", v, by_channel(n, mean, ndim)), by_channel(n, factor, ndim));
	give(n, 0, typed(n, binary(n, "add", y, by_channel(n, bias, ndim)), dtype));
}

/* Normalises each of COUNT groups of V's channels, and returns the result with V's shape. */
static struct value *group_normalized(struct node *n, struct value *v, int64_t groups, double eps)
{
	if (!v || v->type.shape.ndim < 2 || groups < 1 || v->type.shape.dim[1] % groups)
		return refuse(n, "its groups do not fit");
	const struct shape s = v->type.shape;
	struct shape parts = {3, {s.dim[0], groups, s.dim[1] / groups}};
	for (int i = 2; i < s.ndim; i++)
		parts.dim[2] *= s.dim[i];
	return reshape(n, normalise(n, "layernorm", reshape(n, v, &parts), 2, eps), &s);
}

void translate_instance_normalization(struct node *n)
{
	struct value *v = needed(n, 0), *scale = needed(n, 1), *bias = needed(n, 2);
	if (!v || !scale || !bias)
		return;
	const int ndim = v->type.shape.ndim;
	struct value *y =
		group_normalized(n, v, ndim > 1 ? v->type.shape.dim[1] : 0, attribute_number(n, "epsilon", (double)1e-5F));
	give(n, 0, binary(n, "add", binary(n, "mul", y, by_channel(n, scale, ndim)), by_channel(n, bias, ndim)));
}

void translate_group_normalization(struct node *n)
{
	struct value *v = needed(n, 0), *scale = needed(n, 1), *bias = needed(n, 2);
	const int64_t groups = attribute_integer(n, "num_groups", 0);
	if (!v || !scale || !bias)
		return;
	const int ndim = v->type.shape.ndim;
	struct value *y = group_normalized(n, v, groups, attribute_number(n, "epsilon", (double)1e-5F));
	if (y && n->version < 21 && groups != v->type.shape.dim[1]) { /* one number a group */
		const struct shape column = {2, {groups, 1}}, wide = {2, {groups, v->type.shape.dim[1] / groups}};
		scale = expand(n, reshape(n, scale, &column), &wide);
		bias = expand(n, reshape(n, bias, &column), &wide);
	}
	give(n, 0, binary(n, "add", binary(n, "mul", y, by_channel(n, scale, ndim)), by_channel(n, bias, ndim)));
}

void translate_mean_variance_normalization(struct node *n)
{
	struct value *v = once(n, needed(n, 0));
	struct integers axes = attribute_integers(n, "axes");
	int64_t usual[] = {0, 2, 3};
	if (!axes.at)
		axes = (struct integers){3, usual};
	if (!v)
		return;
	struct value *deviation = reduced(n, "std", v, &axes, true);
	give(n, 0, binary(n, "div", binary(n, "sub", v, reduced(n, "mean", v, &axes, true)), plus(n, deviation, 1e-9)));
}

void translate_lrn(struct node *n)
{
	struct value *v = once(n, needed(n, 0));
	const int64_t size = attribute_integer(n, "size", 1);
	const double alpha = attribute_number(n, "alpha", (double)1e-4F), beta = attribute_number(n, "beta", 0.75),
				 bias = attribute_number(n, "bias", 1);
	if (!v || v->type.shape.ndim < 2 || size < 1 || size > 64) {
		if (v)
			refuse(n, "its window has %lld channels", (long long)size);
		return;
	}
	const int64_t before = (size - 1) / 2, channels = v->type.shape.dim[1];
	struct value *squares = bind(n, padded(n, unary(n, "square", v), 1, before, size - 1 - before, 0), "squares"),
				 *sum = NULL;
	for (int64_t i = 0; i < size && squares; i++) {
		struct value *part = range_of(n, squares, 1, i, channels);
		sum = sum ? binary(n, "add", sum, part) : part;
	}
	struct value *base = plus(n, times(n, sum, alpha / (double)size), bias);
	give(n, 0, base ? binary(n, "div", v, binary(n, "pow", base, number_like(n, v, beta))) : NULL);
}
