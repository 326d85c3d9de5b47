/*
 * Operations that move elements and compute nothing: each is a walk over
 * [outer, axis, inner] that copies stretches of INNER elements; the derivatives
 * are the same walks the other way.
 */
#include <string.h>

#include "ops/lines.h"

#define FORWARD(NAME)                                                                                                  \
	void forward_##NAME(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
#define VJP(NAME)                                                                                                      \
	void vjp_##NAME(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])

/* memcpy that may be given nothing. */
static void copy(void *to, const void *from, size_t bytes)
{
	if (bytes)
		memcpy(to, from, bytes);
}

static size_t bytes_of(const struct type *type)
{
	return (size_t)shape_count(&type->shape) * element_size(type->dtype);
}

FORWARD(reshape)
{
	(void)a, (void)keep;
	copy(y, v, bytes_of(call->v));
}

VJP(reshape)
{
	(void)da, (void)needs;
	if (dv)
		copy(dv, g, bytes_of(call->v));
}

FORWARD(flatten) { forward_reshape(call, y, v, a, keep); }

VJP(flatten) { vjp_reshape(call, dv, da, g, needs); }

/* All axes reversed: the first and the last as matrices, the rest by place. */
static void reverse_axes(const struct loops *loops, void *to, const void *from, const struct shape *shape)
{
	const size_t size = element_size(loops->dtype);
	const int64_t total = shape_count(shape);
	if (total == 0)
		return;
	if (shape->ndim < 2) {
		copy(to, from, (size_t)total * size);
		return;
	}
	const int64_t rows = shape->dim[0], columns = shape->dim[shape->ndim - 1], middle = total / rows / columns;
	for (int64_t m = 0; m < middle; m++) {
		int64_t reversed = 0, rest = m, stride = middle;
		for (int i = shape->ndim - 2; i >= 1; i--) {
			stride /= shape->dim[i];
			reversed += rest % shape->dim[i] * stride;
			rest /= shape->dim[i];
		}
		loops->transpose(element_of(to, size, reversed * rows), middle * rows, element_at(from, size, m * columns),
		                 middle * columns, rows, columns);
	}
}

FORWARD(transpose)
{
	(void)a, (void)keep;
	reverse_axes(loops_get(call->kernels), y, v, &call->v->shape);
}

VJP(transpose)
{
	(void)da, (void)needs;
	if (dv)
		reverse_axes(loops_get(call->kernels), dv, g, &call->y->shape);
}

enum slice_way { SLICE_TAKE, SLICE_PUT, SLICE_ADD }; /* into SLICED; into WHOLE; to it */

static void slice_elements(const struct op_call *call, void *sliced, void *whole, enum slice_way way)
{
	const size_t size = element_size(call->v->dtype);
	const struct axis_view v = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view y = axis_view_named(call->attrs, &call->y->shape);
	const int64_t start = slice_of(call->attrs, v.n).start + call->turn, step = call->attrs->step;
	for (int64_t o = 0; o < y.outer; o++) {
		/* neighbours in one piece */
		const int64_t pieces = step == 1 ? (y.n > 0) : y.n, length = step == 1 ? y.n * y.inner : y.inner;
		for (int64_t i = 0; i < pieces; i++) {
			void *a = element_of(sliced, size, (o * y.n + i) * y.inner);
			void *b = element_of(whole, size, (o * v.n + start + i * step) * v.inner);
			if (way == SLICE_ADD)
				call->kernels->accumulate(b, a, (size_t)length);
			else
				copy(way == SLICE_PUT ? b : a, way == SLICE_PUT ? a : b, (size_t)length * size);
		}
	}
}

/* Both ways go through one walk; what is read is not written. */
static void *writable(const void *array)
{
	void *p;
	memcpy(&p, &array, sizeof p);
	return p;
}

FORWARD(slice)
{
	(void)a, (void)keep;
	slice_elements(call, y, writable(v), SLICE_TAKE);
}

/* The operand is the cotangent of v so far, which may be DV itself: a loop over an array takes its slices one by one. */
VJP(slice)
{
	const void *so_far = needs[1];
	(void)da;
	if (!dv)
		return;
	if (!so_far)
		memset(dv, 0, bytes_of(call->v));
	else if (so_far != dv)
		copy(dv, so_far, bytes_of(call->v));
	slice_elements(call, writable(g), dv, so_far ? SLICE_ADD : SLICE_PUT);
}

FORWARD(pad)
{
	(void)a, (void)keep;
	const size_t size = element_size(call->v->dtype);
	const struct axis_view from = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view to = axis_view_named(call->attrs, &call->y->shape);
	const int64_t before = call->attrs->before * to.inner, inside = from.n * from.inner,
				  after = call->attrs->after * to.inner;
	for (int64_t o = 0; o < to.outer; o++) {
		void *row = element_of(y, size, o * to.n * to.inner);
		call->kernels->fill(row, call->attrs->value, (size_t)before);
		copy(element_of(row, size, before), element_at(v, size, o * inside), (size_t)inside * size);
		call->kernels->fill(element_of(row, size, before + inside), call->attrs->value, (size_t)after);
	}
}

VJP(pad)
{
	(void)da, (void)needs;
	const size_t size = element_size(call->v->dtype);
	const struct axis_view to = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view from = axis_view_named(call->attrs, &call->y->shape);
	const int64_t inside = to.n * to.inner;
	for (int64_t o = 0; dv && o < to.outer; o++)
		copy(element_of(dv, size, o * inside), element_at(g, size, (o * from.n + call->attrs->before) * from.inner),
		     (size_t)inside * size);
}

FORWARD(concat)
{
	(void)keep;
	const size_t size = element_size(call->v->dtype);
	const struct axis_view first = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view second = axis_view_named(call->attrs, &call->a->shape);
	const int64_t n = first.n * first.inner, m = second.n * second.inner;
	for (int64_t o = 0; o < first.outer; o++) {
		copy(element_of(y, size, o * (n + m)), element_at(v, size, o * n), (size_t)n * size);
		copy(element_of(y, size, o * (n + m) + n), element_at(a, size, o * m), (size_t)m * size);
	}
}

VJP(concat)
{
	(void)needs;
	const size_t size = element_size(call->v->dtype);
	const struct axis_view first = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view second = axis_view_named(call->attrs, &call->a->shape);
	const int64_t n = first.n * first.inner, m = second.n * second.inner;
	for (int64_t o = 0; o < first.outer; o++) {
		if (dv)
			copy(element_of(dv, size, o * n), element_at(g, size, o * (n + m)), (size_t)n * size);
		if (da)
			copy(element_of(da, size, o * m), element_at(g, size, o * (n + m) + n), (size_t)m * size);
	}
}

/* to[(i + shift) mod n] = from[i] */
static void roll_elements(const struct op_call *call, void *to, const void *from, bool back)
{
	const size_t size = element_size(call->v->dtype);
	const struct axis_view view = axis_view_named(call->attrs, &call->v->shape);
	if (view.n == 0)
		return;
	int64_t shift = call->attrs->shift % view.n;
	shift = back ? -shift : shift;
	shift = (shift < 0 ? shift + view.n : shift) * view.inner;
	const int64_t row = view.n * view.inner;
	for (int64_t o = 0; o < view.outer; o++) {
		copy(element_of(to, size, o * row + shift), element_at(from, size, o * row), (size_t)(row - shift) * size);
		copy(element_of(to, size, o * row), element_at(from, size, o * row + row - shift), (size_t)shift * size);
	}
}

FORWARD(roll)
{
	(void)a, (void)keep;
	roll_elements(call, y, v, false);
}

VJP(roll)
{
	(void)da, (void)needs;
	if (dv)
		roll_elements(call, dv, g, true);
}
