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

/* Row-major strides, in elements. */
static void strides_of(const struct shape *shape, int64_t stride[MAX_DIMS])
{
	int64_t step = 1;
	for (int i = shape->ndim; i-- > 0; step *= shape->dim[i])
		stride[i] = step;
}

/*
 * Axis i of TO, of SHAPE, is axis AXES[i] of FROM, whose elements along it are STEP[i]
 * apart. What of FROM lies together is a row, copied where it does so in TO too, or a
 * matrix with TO's last axis; the other axes are counted through.
 */
static void permute(const struct loops *loops, void *to, const struct shape *shape, const void *from,
                    const int axes[MAX_DIMS], const int64_t step[MAX_DIMS])
{
	const size_t size = element_size(loops->dtype);
	const int last = shape->ndim - 1;
	int64_t stride[MAX_DIMS], place[MAX_DIMS] = {0}, at = 0, taken = 0;
	int inner = last;
	strides_of(shape, stride);
	while (axes[inner] != last)
		inner--;
	const int64_t columns = shape->dim[inner], rows = inner == last ? 1 : shape->dim[last];
	const int64_t total = shape_count(shape) / columns / rows;
	for (int64_t i = 0; i < total; i++) {
		if (inner == last)
			copy(element_of(to, size, at), element_at(from, size, taken), (size_t)columns * size);
		else
			loops->transpose(element_of(to, size, at), stride[inner], element_at(from, size, taken), step[last], rows,
			                 columns);
		for (int d = last; d >= 0; d--) {
			if (d == inner || d == last)
				continue;
			at += stride[d];
			taken += step[d];
			if (++place[d] < shape->dim[d])
				break;
			at -= stride[d] * shape->dim[d];
			taken -= step[d] * shape->dim[d];
			place[d] = 0;
		}
	}
}

/* Y from V; or BACK, V from Y. */
static void transpose(const struct op_call *call, void *to, const void *from, bool back)
{
	const struct shape *v = &call->v->shape, *shape = back ? v : &call->y->shape;
	int forth[MAX_DIMS], axes[MAX_DIMS];
	int64_t stride[MAX_DIMS], step[MAX_DIMS];
	if (v->ndim < 2 || shape_count(v) == 0) {
		copy(to, from, bytes_of(call->v));
		return;
	}
	transpose_axes(call->attrs, v->ndim, forth);
	for (int i = 0; i < v->ndim; i++)
		axes[back ? forth[i] : i] = back ? i : forth[i];
	strides_of(back ? &call->y->shape : v, stride);
	for (int i = 0; i < v->ndim; i++)
		step[i] = stride[axes[i]];
	permute(loops_get(call->kernels), to, shape, from, axes, step);
}

FORWARD(transpose)
{
	(void)a, (void)keep;
	transpose(call, y, v, false);
}

VJP(transpose)
{
	(void)da, (void)needs;
	if (dv)
		transpose(call, dv, g, true);
}

/* A slice is taken out of the whole array, put into it, or added to it. */
enum slice_way { SLICE_TAKE, SLICE_PUT, SLICE_ADD };
struct slicing {
	const struct loops *loops;
	enum slice_way way;
};

/* Rows that lie ROW elements apart. */
struct row_list {
	void *at;
	int64_t row;
};

/* ROWS rows of N elements, which lie STEP apart in WHOLE. */
static void slice_rows(const struct slicing *s, struct row_list sliced, struct row_list whole, int64_t step, int64_t n,
                       int64_t rows)
{
	if (s->way == SLICE_TAKE)
		s->loops->take_every(sliced.at, sliced.row, whole.at, whole.row, step, (size_t)n, (size_t)rows);
	else if (s->way == SLICE_ADD)
		s->loops->add_every(whole.at, whole.row, step, sliced.at, sliced.row, (size_t)n, (size_t)rows);
	else if (step == 1)
		s->loops->take_every(whole.at, whole.row, sliced.at, sliced.row, 1, (size_t)n, (size_t)rows);
	else
		s->loops->put_every(whole.at, whole.row, step, sliced.at, sliced.row, (size_t)n, (size_t)rows);
}

static void slice_elements(const struct op_call *call, void *sliced, void *whole, enum slice_way way)
{
	const struct slicing s = {loops_get(call->kernels), way};
	const size_t size = element_size(s.loops->dtype);
	const struct axis_view v = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view y = axis_view_named(call->attrs, &call->y->shape);
	const int64_t start = slice_of(call->attrs, v.n).start + call->iteration, step = call->attrs->step;
	const int64_t sliced_row = y.n * y.inner, whole_row = v.n * v.inner;
	if (y.n == 0 || y.inner == 0)
		return;
	void *const first = element_of(whole, size, start * v.inner);
	if (step == 1) /* neighbours in one piece */
		slice_rows(&s, (struct row_list){sliced, sliced_row}, (struct row_list){first, whole_row}, 1, sliced_row,
		           y.outer);
	else if (v.inner == 1 && v.n == y.n * step) /* one line, which continues from row to row */
		slice_rows(&s, (struct row_list){sliced, 0}, (struct row_list){first, 0}, step, y.outer * y.n, 1);
	else if (v.inner == 1)
		slice_rows(&s, (struct row_list){sliced, y.n}, (struct row_list){first, v.n}, step, y.n, y.outer);
	else
		for (int64_t o = 0; o < y.outer; o++)
			slice_rows(&s, (struct row_list){element_of(sliced, size, o * sliced_row), y.inner},
			           (struct row_list){element_of(first, size, o * whole_row), step * y.inner}, 1, y.inner, y.n);
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
