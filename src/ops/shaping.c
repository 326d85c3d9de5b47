/*
 * Operations that move elements and compute nothing. Each is a walk over [outer,
 * axis, inner] that copies stretches of INNER elements. Its derivative is the same
 * walk in the other direction.
 */
#include <string.h>

#include "ops/lines.h"

/* memcpy, but NULL is allowed if BYTES is 0. */
static void copy_bytes(void *to, const void *from, size_t bytes)
{
	if (bytes)
		memcpy(to, from, bytes);
}

static size_t bytes_of(const struct type *type)
{
	return (size_t)shape_count(&type->shape) * element_size(type->dtype);
}

FORWARD(reshape) { copy_bytes(y, v, bytes_of(call->v)); }

VJP(reshape) { copy_bytes(dv, g, bytes_of(call->v)); }

FORWARD(flatten) { forward_reshape(call, y, v, a, keep); }

VJP(flatten) { vjp_reshape(call, dv, da, g, needs); }

/* Row-major strides, in elements. */
static void strides_of(const struct shape *shape, int64_t stride[MAX_DIMS])
{
	int64_t step = 1;
	for (int i = shape->ndim; i-- > 0; step *= shape->dim[i])
		stride[i] = step;
}

/*
 * Copies FROM to TO, which has SHAPE. Axis i of TO is axis AXES[i] of FROM, along which
 * elements of FROM lie STEP[i] apart. If the last axis of FROM is the last axis of TO
 * its rows are copied. Else it makes a matrix with TO's last axis, which is transposed.
 * PLACE counts through the other axes.
 */
static void permute(const struct loops *loops, void *to, const struct shape *shape, const void *from,
                    const int axes[MAX_DIMS], const int64_t step[MAX_DIMS])
{
	const size_t size = element_size(loops->dtype);
	const int last = shape->ndim - 1;
	int64_t stride[MAX_DIMS], place[MAX_DIMS] = {0}, at = 0, source = 0;
	int inner = last;
	strides_of(shape, stride);
	while (axes[inner] != last)
		inner--;
	const int64_t columns = shape->dim[inner], rows = inner == last ? 1 : shape->dim[last];
	const int64_t total = shape_count(shape) / columns / rows;
	for (int64_t i = 0; i < total; i++) {
		if (inner == last)
			copy_bytes(element_of(to, size, at), element_at(from, size, source), (size_t)columns * size);
		else
			loops->transpose(element_of(to, size, at), stride[inner], element_at(from, size, source), step[last], rows,
			                 columns);
		for (int d = last; d >= 0; d--) {
			if (d == inner || d == last)
				continue;
			at += stride[d];
			source += step[d];
			if (++place[d] < shape->dim[d])
				break;
			at -= stride[d] * shape->dim[d];
			source -= step[d] * shape->dim[d];
			place[d] = 0;
		}
	}
}

/* Transposes V to Y; or, if BACK, Y to V. */
static void transpose(const struct op_call *call, void *to, const void *from, bool back)
{
	const struct shape *v = &call->v->shape, *shape = back ? v : &call->y->shape;
	int forth[MAX_DIMS], axes[MAX_DIMS];
	int64_t stride[MAX_DIMS], step[MAX_DIMS];
	if (v->ndim < 2 || shape_count(v) == 0) {
		copy_bytes(to, from, bytes_of(call->v));
		return;
	}
	transpose_axes(call->attrs, v->ndim, forth);
	for (int i = 0; i < v->ndim; i++)
		axes[back ? forth[i] : i] = back ? i : forth[i];
	strides_of(back ? &call->y->shape : v, stride);
	for (int i = 0; i < v->ndim; i++)
		step[i] = stride[axes[i]];
	permute(call->kernels->loops, to, shape, from, axes, step);
}

FORWARD(transpose) { transpose(call, y, v, false); }

VJP(transpose) { transpose(call, dv, g, true); }

/* A slice is copied out of the whole array, copied into it, or added to it. */
enum slice_way { SLICE_TAKE, SLICE_PUT, SLICE_ADD };
struct slicing {
	const struct loops *loops;
	enum slice_way way;
};

static void move_rows(const struct slicing *s, const struct rows *sliced, const struct rows *whole, int64_t n,
                      int64_t rows)
{
	if (s->way == SLICE_TAKE)
		s->loops->copy_rows(sliced, whole, (size_t)n, (size_t)rows);
	else
		(s->way == SLICE_ADD ? s->loops->add_rows : s->loops->copy_rows)(whole, sliced, (size_t)n, (size_t)rows);
}

static void slice_elements(const struct op_call *call, void *sliced, void *whole, enum slice_way way)
{
	const struct slicing s = {call->kernels->loops, way};
	const size_t size = element_size(s.loops->dtype);
	const struct axis_view v = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view y = axis_view_named(call->attrs, &call->y->shape);
	const int64_t start = slice_of(call->attrs, v.n).start + call->iteration, step = call->attrs->step;
	const int64_t sliced_row = y.n * y.inner, whole_row = v.n * v.inner;
	if (y.n == 0 || y.inner == 0)
		return;
	void *const first = element_of(whole, size, start * v.inner);
	if (step == 1) /* the slice of each row is one piece */
		move_rows(&s, &(struct rows){sliced, sliced_row, 1}, &(struct rows){first, whole_row, 1}, sliced_row, y.outer);
	else if (v.inner == 1 && v.n == y.n * step) /* one line, which continues from row to row */
		move_rows(&s, &(struct rows){sliced, 0, 1}, &(struct rows){first, 0, step}, y.outer * y.n, 1);
	else if (v.inner == 1)
		move_rows(&s, &(struct rows){sliced, y.n, 1}, &(struct rows){first, v.n, step}, y.n, y.outer);
	else
		for (int64_t o = 0; o < y.outer; o++)
			move_rows(&s, &(struct rows){element_of(sliced, size, o * sliced_row), y.inner, 1},
			          &(struct rows){element_of(first, size, o * whole_row), step * y.inner, 1}, y.inner, y.n);
}

FORWARD(slice) { slice_elements(call, y, writable(v), SLICE_TAKE); }

/*
 * The operand is the cotangent of v so far, or NULL. It may be DV itself: a loop over the slices of
 * an array adds their cotangents one by one.
 */
VJP(slice)
{
	const void *so_far = needs[1];
	if (!so_far)
		memset(dv, 0, bytes_of(call->v));
	else if (so_far != dv)
		copy_bytes(dv, so_far, bytes_of(call->v));
	slice_elements(call, writable(g), dv, so_far ? SLICE_ADD : SLICE_PUT);
}

FORWARD(pad)
{
	const size_t size = element_size(call->v->dtype);
	const struct axis_view from = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view to = axis_view_named(call->attrs, &call->y->shape);
	const int64_t before = call->attrs->before * to.inner, inside = from.n * from.inner,
				  after = call->attrs->after * to.inner;
	for (int64_t o = 0; o < to.outer; o++) {
		void *row = element_of(y, size, o * to.n * to.inner);
		call->kernels->loops->fill(row, call->attrs->value, (size_t)before);
		copy_bytes(element_of(row, size, before), element_at(v, size, o * inside), (size_t)inside * size);
		call->kernels->loops->fill(element_of(row, size, before + inside), call->attrs->value, (size_t)after);
	}
}

VJP(pad)
{
	const size_t size = element_size(call->v->dtype);
	const struct axis_view to = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view from = axis_view_named(call->attrs, &call->y->shape);
	const int64_t inside = to.n * to.inner;
	for (int64_t o = 0; o < to.outer; o++)
		copy_bytes(element_of(dv, size, o * inside),
		           element_at(g, size, (o * from.n + call->attrs->before) * from.inner), (size_t)inside * size);
}

FORWARD(concat)
{
	const size_t size = element_size(call->v->dtype);
	const struct axis_view first = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view second = axis_view_named(call->attrs, &call->a->shape);
	const int64_t n = first.n * first.inner, m = second.n * second.inner;
	for (int64_t o = 0; o < first.outer; o++) {
		copy_bytes(element_of(y, size, o * (n + m)), element_at(v, size, o * n), (size_t)n * size);
		copy_bytes(element_of(y, size, o * (n + m) + n), element_at(a, size, o * m), (size_t)m * size);
	}
}

VJP(concat)
{
	const size_t size = element_size(call->v->dtype);
	const struct axis_view first = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view second = axis_view_named(call->attrs, &call->a->shape);
	const int64_t n = first.n * first.inner, m = second.n * second.inner;
	for (int64_t o = 0; o < first.outer; o++) {
		if (dv)
			copy_bytes(element_of(dv, size, o * n), element_at(g, size, o * (n + m)), (size_t)n * size);
		if (da)
			copy_bytes(element_of(da, size, o * m), element_at(g, size, o * (n + m) + n), (size_t)m * size);
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
		copy_bytes(element_of(to, size, o * row + shift), element_at(from, size, o * row),
		           (size_t)(row - shift) * size);
		copy_bytes(element_of(to, size, o * row), element_at(from, size, o * row + row - shift), (size_t)shift * size);
	}
}

FORWARD(roll) { roll_elements(call, y, v, false); }

VJP(roll) { roll_elements(call, dv, g, true); }
