/*
 * Shapes: the rules by which results follow from operands, how far an operation
 * reaches along the leading axis, and its cost. The rules are NumPy's; those of
 * conv1d and conv2d are torch's.
 */
#include "ops/op.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

enum rule {
	RULE_SAME,
	RULE_BROADCAST,
	RULE_MATMUL,
	RULE_LINEAR,
	RULE_DOT,
	RULE_TRANSPOSE,
	RULE_REDUCE,
	RULE_RESHAPE,
	RULE_FLATTEN,
	RULE_SLICE,
	RULE_PAD,
	RULE_CONCAT,
	RULE_CONV1D,
	RULE_CONV2D,
	RULE_LOSS,
	RULE_CLASSES,
	RULE_CAST,
};

static const enum rule rules[OP_COUNT] = {
#define UNARY(NAME, ...) [OP_##NAME] = RULE_SAME,
#define BINARY(NAME, ...) [OP_##NAME] = RULE_BROADCAST,
#define GENERAL(NAME, GROUP, OPERAND, ARGUMENTS, SCOPE, SHAPE, ...) [OP_##NAME] = RULE_##SHAPE,
#include "ops/ops.def"
};

/* One inference of a result Y. */
struct inference {
	enum op op;
	const struct attrs *attrs;
	const struct type *v, *a;
	struct type *y;
	struct complaint *complaint;
};

/* Says what does not fit. */
__attribute__((format(printf, 2, 3))) static enum status misfit(const struct inference *f, const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	f->complaint->message = arena_printf(f->complaint->arena, "'%s': %s", op_table[f->op].name, text);
	return STATUS_CHAIN;
}

/* Both shapes, for messages. */
struct texts {
	char v[TYPE_TEXT], a[TYPE_TEXT];
};

static const struct texts *texts_of(const struct inference *f, struct texts *texts)
{
	shape_format(&f->v->shape, texts->v);
	if (f->a)
		shape_format(&f->a->shape, texts->a);
	return texts;
}

bool axis_resolve(int axis, int ndim, int *resolved)
{
	if (axis < -ndim || axis >= ndim)
		return false;
	*resolved = axis < 0 ? axis + ndim : axis;
	return true;
}

static enum status find_axis(const struct inference *f, int *axis)
{
	char text[TYPE_TEXT];
	if (!axis_resolve(f->attrs->axis[0], f->v->shape.ndim, axis))
		return misfit(f, "axis %d is out of range for %s", f->attrs->axis[0], shape_format(&f->v->shape, text));
	return STATUS_OK;
}

/* True if ATTRS name axis K of NDIM, or name none. */
static bool has_axis(const struct attrs *attrs, int k, int ndim)
{
	if (!attrs->has_axis)
		return true;
	for (int i = 0; i < attrs->axis_count; i++) {
		int axis;
		if (axis_resolve(attrs->axis[i], ndim, &axis) && axis == k)
			return true;
	}
	return false;
}

static enum status check_axes(const struct inference *f)
{
	char text[TYPE_TEXT];
	bool seen[MAX_DIMS] = {false};
	for (int i = 0; f->attrs->has_axis && i < f->attrs->axis_count; i++) {
		int axis;
		if (!axis_resolve(f->attrs->axis[i], f->v->shape.ndim, &axis))
			return misfit(f, "axis %d is out of range for %s", f->attrs->axis[i], shape_format(&f->v->shape, text));
		if (seen[axis])
			return misfit(f, "axis %d is named twice", f->attrs->axis[i]);
		seen[axis] = true;
	}
	return STATUS_OK;
}

/* OUT = the shape of NumPy's matmul of V [.., m, k] and A [.., k, n]. */
static enum status infer_product(const struct inference *f, const struct shape *v, const struct shape *a,
                                 struct shape *out)
{
	struct texts t;
	texts_of(f, &t);
	if (v->ndim == 0 || a->ndim == 0)
		return misfit(f, "shapes %s and %s do not fit: a scalar is not a matrix", t.v, t.a);
	int64_t kv = v->dim[v->ndim - 1], ka = a->ndim == 1 ? a->dim[0] : a->dim[a->ndim - 2];
	if (kv != ka)
		return misfit(f, "shapes %s and %s do not fit: %lld != %lld", t.v, t.a, (long long)kv, (long long)ka);
	struct shape bv = {.ndim = v->ndim > 2 ? v->ndim - 2 : 0}, ba = {.ndim = a->ndim > 2 ? a->ndim - 2 : 0};
	memcpy(bv.dim, v->dim, (size_t)bv.ndim * sizeof *bv.dim);
	memcpy(ba.dim, a->dim, (size_t)ba.ndim * sizeof *ba.dim);
	if (!shape_broadcast(&bv, &ba, out))
		return misfit(f, "batch axes of %s and %s do not broadcast", t.v, t.a);
	if (out->ndim + 2 > MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	if (v->ndim > 1)
		out->dim[out->ndim++] = v->dim[v->ndim - 2];
	if (a->ndim > 1)
		out->dim[out->ndim++] = a->dim[a->ndim - 1];
	return STATUS_OK;
}

void transpose_axes(const struct attrs *attrs, int ndim, int axes[MAX_DIMS])
{
	for (int i = 0; i < ndim; i++)
		if (!attrs->has_axis || !axis_resolve(attrs->axis[i], ndim, &axes[i]))
			axes[i] = ndim - 1 - i;
}

static enum status infer_transpose(const struct inference *f)
{
	const struct shape *v = &f->v->shape;
	char text[TYPE_TEXT];
	int axes[MAX_DIMS];
	TRY(check_axes(f));
	if (f->attrs->has_axis && f->attrs->axis_count != v->ndim)
		return misfit(f, "axes names %d, and %s has %d", f->attrs->axis_count, shape_format(v, text), v->ndim);
	transpose_axes(f->attrs, v->ndim, axes);
	for (int i = 0; i < v->ndim; i++)
		f->y->shape.dim[i] = v->dim[axes[i]];
	return STATUS_OK;
}

/* The shape with its last two axes exchanged. */
static struct shape matrix_transposed(const struct shape *shape)
{
	struct shape t = *shape;
	if (t.ndim > 1) {
		t.dim[t.ndim - 1] = shape->dim[t.ndim - 2];
		t.dim[t.ndim - 2] = shape->dim[t.ndim - 1];
	}
	return t;
}

static enum status infer_reduce(const struct inference *f)
{
	TRY(check_axes(f));
	const struct shape *v = &f->v->shape;
	struct shape out = {0};
	char text[TYPE_TEXT];
	bool needs_elements = f->op == OP_amax || f->op == OP_amin;
	for (int i = 0; i < v->ndim; i++) {
		bool reduced = has_axis(f->attrs, i, v->ndim);
		if (reduced && needs_elements && v->dim[i] == 0)
			return misfit(f, "%s has no elements along axis %d", shape_format(v, text), i);
		if (!reduced)
			out.dim[out.ndim++] = v->dim[i];
		else if (f->attrs->keepdims)
			out.dim[out.ndim++] = 1;
	}
	f->y->shape = out;
	return STATUS_OK;
}

static enum status infer_reshape(const struct inference *f)
{
	struct shape out = f->attrs->shape;
	int64_t have = shape_count(&f->v->shape), known = 1;
	int open = -1;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	shape_format(&f->v->shape, a);
	shape_format(&out, b);
	for (int i = 0; i < out.ndim; i++) {
		if (out.dim[i] == -1 && open >= 0)
			return misfit(f, "only one extent can be -1");
		if (out.dim[i] < -1)
			return misfit(f, "an extent of %lld", (long long)out.dim[i]);
		if (out.dim[i] == -1)
			open = i;
		else if (!checked_mul_i64(known, out.dim[i], &known))
			return misfit(f, "the new shape has too many elements");
	}
	if (open >= 0) {
		if (known == 0 || have % known)
			return misfit(f, "%s has %lld elements, which %lld does not divide", a, (long long)have, (long long)known);
		out.dim[open] = have / known;
	} else if (known != have) {
		return misfit(f, "%s has %lld elements and %s %lld", a, (long long)have, b, (long long)known);
	}
	f->y->shape = out;
	return STATUS_OK;
}

/* Python's bound of a slice: a negative one counts from the end; then it is clamped to [LOW, HIGH]. */
static int64_t clamp_bound(struct slice_bound slice_bound, int64_t n, int64_t low, int64_t high)
{
	const int64_t bound = slice_bound.at < 0 ? slice_bound.at + n : slice_bound.at;
	return bound < low ? low : bound > high ? high : bound;
}

struct slice slice_of(const struct attrs *attrs, int64_t n)
{
	const bool back = attrs->step < 0;
	const int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
	const int64_t start = attrs->start.given ? clamp_bound(attrs->start, n, low, high) : back ? high : low;
	const int64_t stop = attrs->stop.given ? clamp_bound(attrs->stop, n, low, high) : back ? low : high;
	const int64_t length = back ? start - stop : stop - start;
	/* the magnitude of INT64_MIN is not an int64 */
	const uint64_t step = back ? -(uint64_t)attrs->step : (uint64_t)attrs->step;
	return (struct slice){start, length > 0 ? (int64_t)((uint64_t)(length - 1) / step) + 1 : 0};
}

static enum status infer_slice(const struct inference *f)
{
	int axis;
	TRY(find_axis(f, &axis));
	int64_t *extent = &f->y->shape.dim[axis];
	*extent = slice_of(f->attrs, *extent).count;
	return STATUS_OK;
}

static enum status infer_pad(const struct inference *f)
{
	int axis;
	TRY(find_axis(f, &axis));
	int64_t *extent = &f->y->shape.dim[axis];
	if (__builtin_add_overflow(*extent, f->attrs->before, extent) ||
	    __builtin_add_overflow(*extent, f->attrs->after, extent))
		return misfit(f, "the padded axis is too long");
	return STATUS_OK;
}

static enum status infer_concat(const struct inference *f)
{
	int axis;
	TRY(find_axis(f, &axis));
	struct texts t;
	texts_of(f, &t);
	bool fits = f->a->shape.ndim == f->v->shape.ndim;
	for (int i = 0; fits && i < f->v->shape.ndim; i++)
		fits = i == axis || f->a->shape.dim[i] == f->v->shape.dim[i];
	if (!fits)
		return misfit(f, "shapes %s and %s differ beside axis %d", t.v, t.a, axis);
	if (__builtin_add_overflow(f->v->shape.dim[axis], f->a->shape.dim[axis], &f->y->shape.dim[axis]))
		return misfit(f, "shapes %s and %s are too long together", t.v, t.a);
	return STATUS_OK;
}

static enum status infer_conv(const struct inference *f)
{
	const int spatial = rules[f->op] == RULE_CONV1D ? 1 : 2;
	const struct shape *v = &f->v->shape, *k = &f->a->shape;
	struct texts t;
	texts_of(f, &t);
	if (v->ndim != spatial + 2 || k->ndim != spatial + 2)
		return misfit(f, "shapes %s and %s: %d-d arrays are wanted, [N,Cin,...] and [Cout,Cin,...]", t.v, t.a,
		              spatial + 2);
	if (v->dim[1] != k->dim[1])
		return misfit(f, "shapes %s and %s do not fit: %lld channels != %lld", t.v, t.a, (long long)v->dim[1],
		              (long long)k->dim[1]);
	struct shape out = {.ndim = spatial + 2, .dim = {v->dim[0], k->dim[0]}};
	for (int i = 0; i < spatial; i++) {
		int64_t extent;
		if (__builtin_mul_overflow(f->attrs->padding[i], 2, &extent) ||
		    __builtin_add_overflow(extent, v->dim[2 + i], &extent))
			return misfit(f, "a padding of %lld is too much", (long long)f->attrs->padding[i]);
		extent -= k->dim[2 + i];
		if (k->dim[2 + i] == 0)
			return misfit(f, "kernel %s is empty", t.a);
		if (extent < 0)
			return misfit(f, "kernel %s is larger than the padded %s", t.a, t.v);
		out.dim[2 + i] = extent / f->attrs->stride[i] + 1;
	}
	f->y->shape = out;
	return STATUS_OK;
}

static enum status infer_classes(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *t = &f->a->shape;
	struct texts texts;
	texts_of(f, &texts);
	bool fits = v->ndim >= 1 && t->ndim == v->ndim - 1;
	for (int i = 0; fits && i < t->ndim; i++)
		fits = t->dim[i] == v->dim[i];
	if (!fits)
		return misfit(f, "logits %s want one class for each row, and the classes are %s", texts.v, texts.a);
	if (v->dim[v->ndim - 1] == 0)
		return misfit(f, "logits %s have no classes", texts.v);
	f->y->shape = (struct shape){0};
	return STATUS_OK;
}

/* The shape stays; axes that are named must exist. */
static enum status infer_same(const struct inference *f)
{
	if (f->op == OP_laplacian)
		return check_axes(f);
	int axis;
	return f->attrs && f->attrs->has_axis ? find_axis(f, &axis) : STATUS_OK;
}

static enum status infer_broadcast(const struct inference *f)
{
	struct texts t;
	if (f->a && !shape_broadcast(&f->v->shape, &f->a->shape, &f->y->shape))
		return misfit(f, "shapes %s and %s do not broadcast", texts_of(f, &t)->v, t.a);
	return STATUS_OK;
}

static enum status infer_loss(const struct inference *f)
{
	enum status status = infer_broadcast(f);
	struct texts t;
	if (status == STATUS_OK && shape_count(&f->y->shape) < 0) {
		(void)misfit(f, "shapes %s and %s have too many elements together", texts_of(f, &t)->v, t.a);
		return STATUS_LIMIT;
	}
	f->y->shape = (struct shape){0};
	return status;
}

static enum status infer_matmul(const struct inference *f)
{
	return infer_product(f, &f->v->shape, &f->a->shape, &f->y->shape);
}

static enum status infer_linear(const struct inference *f)
{
	const struct shape transposed = matrix_transposed(&f->a->shape);
	return infer_product(f, &f->v->shape, &transposed, &f->y->shape);
}

static enum status infer_dot(const struct inference *f)
{
	struct inference swapped = *f;
	swapped.v = f->a;
	swapped.a = f->v;
	return infer_product(&swapped, &f->a->shape, &f->v->shape, &f->y->shape);
}

static enum status infer_flatten(const struct inference *f)
{
	f->y->shape = (struct shape){.ndim = 1, .dim = {shape_count(&f->v->shape)}};
	return STATUS_OK;
}

static enum status infer_cast(const struct inference *f)
{
	f->y->dtype = f->attrs->dtype;
	return STATUS_OK;
}

typedef enum status infer_function(const struct inference *f);
static infer_function *const infer_functions[] = {
	[RULE_SAME] = infer_same,       [RULE_BROADCAST] = infer_broadcast,
	[RULE_MATMUL] = infer_matmul,   [RULE_LINEAR] = infer_linear,
	[RULE_DOT] = infer_dot,         [RULE_TRANSPOSE] = infer_transpose,
	[RULE_REDUCE] = infer_reduce,   [RULE_RESHAPE] = infer_reshape,
	[RULE_FLATTEN] = infer_flatten, [RULE_SLICE] = infer_slice,
	[RULE_PAD] = infer_pad,         [RULE_CONCAT] = infer_concat,
	[RULE_CONV1D] = infer_conv,     [RULE_CONV2D] = infer_conv,
	[RULE_LOSS] = infer_loss,       [RULE_CLASSES] = infer_classes,
	[RULE_CAST] = infer_cast,
};

enum status op_infer(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                     struct type *result, struct complaint *complaint)
{
	*result = *v;
	const struct inference f = {op, attrs, v, a, result, complaint};
	enum status status = infer_functions[rules[op]](&f);
	char text[TYPE_TEXT];
	if (status == STATUS_OK && shape_count(&result->shape) < 0) {
		(void)misfit(&f, "the result %s has too many elements", shape_format(&result->shape, text));
		return STATUS_LIMIT;
	}
	return status;
}

struct type op_keep_type(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                         const struct type *result, int index)
{
	struct type type = *v;
	switch (op_table[op].keeps[index].kind) {
	case KEEP_NOTHING:
		break;
	case KEEP_VALUE:
		if (op_table[op].class != OP_CLASS_GENERAL)
			type.shape = result->shape;
		else if (rules[op] == RULE_LOSS && a)
			(void)shape_broadcast(&v->shape, &a->shape, &type.shape);
		break;
	case KEEP_MASK:
		type.shape = result->shape;
		type.dtype = DTYPE_BITS;
		break;
	case KEEP_PER_ROW: {
		int axis;
		if (axis_resolve(attrs->axis[0], v->shape.ndim, &axis))
			type.shape.dim[axis] = 1;
		break;
	}
	}
	return type;
}

bool op_runs_along(enum op op, const struct type *v, const struct type *a)
{
	const int nv = v->shape.ndim, na = a->shape.ndim;
	if (nv == 0 || na == 0 || v->shape.dim[0] != a->shape.dim[0] || v->shape.dim[0] == 1)
		return false;
	switch (rules[op]) {
	case RULE_BROADCAST:
	case RULE_CONCAT:
	case RULE_LOSS:
		return na == nv;
	case RULE_CLASSES:
		return na == nv - 1 || (na == 1 && nv == 1);
	case RULE_MATMUL:
	case RULE_LINEAR:
	case RULE_DOT:
		return nv >= 3 && na == nv;
	default: /* there is no operand, or every row meets all of it */
		return false;
	}
}

/* ROW if V's leading axis is a batch axis of the result, or the rows of its matrix. */
static enum scope product_scope(const struct type *v, const struct type *a, bool a_streamed)
{
	if (v->shape.ndim < 2)
		return SCOPE_ALL;
	if (a_streamed)
		return v->shape.ndim >= 3 && a->shape.ndim == v->shape.ndim ? SCOPE_ROW : SCOPE_ALL;
	if (a->shape.ndim > v->shape.ndim)
		return SCOPE_ALL;
	if (a->shape.ndim > 2 && a->shape.ndim == v->shape.ndim)
		return a->shape.dim[0] == 1 ? SCOPE_ROW : SCOPE_ALL;
	return SCOPE_ROW;
}

/* True if the new shape has V's leading extent, written or as -1. */
static bool reshape_keeps_rows(const struct attrs *attrs, const struct type *v)
{
	int64_t row = 1, new_row = 1;
	if (attrs->shape.ndim == 0 || attrs->shape.dim[0] != -1)
		return attrs->shape.ndim > 0 && attrs->shape.dim[0] == v->shape.dim[0];
	for (int i = 1; i < v->shape.ndim; i++)
		if (!checked_mul_i64(row, v->shape.dim[i], &row))
			return false;
	for (int i = 1; i < attrs->shape.ndim; i++)
		if (!checked_mul_i64(new_row, attrs->shape.dim[i], &new_row))
			return false;
	return row == new_row;
}

/* SUM if each row of V has its own targets, or the targets are the same for every row. */
static enum scope loss_scope(const struct shape *v, const struct shape *a, bool a_streamed)
{
	if (a->ndim > v->ndim || (a->ndim == v->ndim && !a_streamed && a->dim[0] != 1))
		return SCOPE_ALL;
	for (int i = 1; i <= a->ndim && i < v->ndim; i++)
		if (a->dim[a->ndim - i] > v->dim[v->ndim - i])
			return SCOPE_ALL;
	return SCOPE_SUM;
}

/* The first axis of NDIM that ATTRS name, or -1 if it is out of range. */
static int named_axis(const struct attrs *attrs, int ndim)
{
	int axis;
	return axis_resolve(attrs->axis[0], ndim, &axis) ? axis : -1;
}

enum scope op_scope(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a, bool a_streamed)
{
	const struct op_info *info = &op_table[op];
	const int ndim = v->shape.ndim;
	int axes[MAX_DIMS];
	if (ndim == 0)
		return info->scope == SCOPE_ELEM ? SCOPE_ELEM : SCOPE_ALL;
	switch (rules[op]) {
	case RULE_MATMUL:
	case RULE_LINEAR:
		return product_scope(v, a, a_streamed);
	case RULE_DOT:
		return ndim >= 3 && a->shape.ndim <= 2 && !a_streamed ? SCOPE_ROW : SCOPE_ALL;
	case RULE_REDUCE:
		return has_axis(attrs, 0, ndim) ? info->scope : SCOPE_ROW;
	case RULE_TRANSPOSE:
		transpose_axes(attrs, ndim, axes);
		return axes[0] == 0 ? SCOPE_ROW : SCOPE_ALL;
	case RULE_FLATTEN:
		return ndim < 2 ? SCOPE_ROW : SCOPE_ALL;
	case RULE_RESHAPE:
		return reshape_keeps_rows(attrs, v) ? SCOPE_ROW : SCOPE_ALL;
	case RULE_SLICE:
	case RULE_PAD:
	case RULE_CONCAT:
		return named_axis(attrs, ndim) == 0 ? SCOPE_ALL : SCOPE_ROW;
	case RULE_SAME:
		if (info->scope == SCOPE_ELEM)
			return SCOPE_ELEM;
		return has_axis(attrs, 0, ndim) ? SCOPE_ALL : SCOPE_ROW;
	case RULE_LOSS:
		return loss_scope(&v->shape, &a->shape, a_streamed);
	case RULE_CLASSES:
		return ndim >= 2 && a_streamed ? SCOPE_SUM : SCOPE_ALL;
	default:
		return info->scope;
	}
}

double op_cost(enum op op, const struct type *v, const struct type *a, const struct type *result)
{
	double in = (double)shape_count(&v->shape), out = (double)shape_count(&result->shape);
	double flops = op_table[op].flops > 0 ? op_table[op].flops : 0.25; /* to move an element */
	switch (rules[op]) {
	case RULE_MATMUL:
	case RULE_LINEAR:
		return flops * out * (double)v->shape.dim[v->shape.ndim - 1];
	case RULE_DOT:
		return flops * out * (double)a->shape.dim[a->shape.ndim - 1];
	case RULE_CONV1D:
	case RULE_CONV2D:
		return flops * out * (double)shape_count(&a->shape) / (double)(a->shape.dim[0] ? a->shape.dim[0] : 1);
	default:
		return flops * fmax(in, out);
	}
}
