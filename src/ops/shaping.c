/*
 * Operations that move elements and compute nothing. Most copy stretches of elements
 * of a view [outer, axis, inner]. The derivative makes the same copies in the other
 * direction; that of slice may add. slice, pad and roll are gathers too: any part of the
 * result can be made of the whole array.
 * Tests: tests/unit/test_general.c
 */
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

FORWARD(reshape) { memcpy(y, v, (size_t)type_bytes(call->v)); }
VJP(reshape) { memcpy(dv, g, (size_t)type_bytes(call->v)); }
FORWARD(flatten) { forward_reshape(call, y, v, a, keep); }
VJP(flatten) { vjp_reshape(call, dv, da, g, needs); }

FORWARD(expand_dims) { forward_reshape(call, y, v, a, keep); }
VJP(expand_dims) { vjp_reshape(call, dv, da, g, needs); }
FORWARD(squeeze) { forward_reshape(call, y, v, a, keep); }
VJP(squeeze) { vjp_reshape(call, dv, da, g, needs); }

/* Stores the row-major strides of SHAPE, in elements. */
static void strides_of(const struct shape *shape, int64_t stride[MAX_DIMS])
{
	int64_t step = 1;
	for (int i = shape->ndim; i-- > 0; step *= shape->dim[i])
		stride[i] = step;
}

/*
 * If FROM and TO have the same last axis, its rows are copied. Else FROM's and TO's last axes
 * span matrices, which are transposed. `place` counts through the other axes.
 */
void permute(const struct loops *loops, void *to, const void *from, const struct shape *shape, const int axes[MAX_DIMS])
{
	const size_t size = element_size(loops->dtype);
	const int last = shape->ndim - 1;
	struct shape permuted = *shape;
	int64_t stride[MAX_DIMS], step[MAX_DIMS], place[MAX_DIMS] = {0}, at = 0, source = 0;
	int inner = last;
	if (shape_count(shape) == 0)
		return;
	for (int i = 0; i <= last; i++)
		permuted.dim[i] = shape->dim[axes[i]];
	strides_of(&permuted, stride);
	strides_of(shape, step);
	while (axes[inner] != last)
		inner--;
	const int64_t columns = permuted.dim[inner], rows = inner == last ? 1 : permuted.dim[last];
	const int64_t total = shape_count(shape) / columns / rows;
	for (int64_t i = 0; i < total; i++) {
		if (inner == last)
			memcpy(element_of(to, size, at), element_at(from, size, source), (size_t)columns * size);
		else
			loops->transpose(element_of(to, size, at), stride[inner], element_at(from, size, source), step[axes[last]],
			                 rows, columns);
		for (int d = last; d >= 0; d--) {
			if (d == inner || d == last)
				continue;
			at += stride[d];
			source += step[axes[d]];
			if (++place[d] < permuted.dim[d])
				break;
			at -= stride[d] * permuted.dim[d];
			source -= step[axes[d]] * permuted.dim[d];
			place[d] = 0;
		}
	}
}

/* Transposes FROM, of v's shape, to TO; if BACK, reverses that for FROM of y's shape. */
static void transpose(const struct op_call *call, void *to, const void *from, bool back)
{
	const int ndim = call->v->shape.ndim;
	int axes[MAX_DIMS], inverse[MAX_DIMS];
	transpose_axes(call->attrs, ndim, axes);
	for (int i = 0; i < ndim; i++)
		inverse[axes[i]] = i;
	if (ndim < 2)
		memcpy(to, from, (size_t)type_bytes(call->v));
	else
		permute(call->kernels->loops, to, from, back ? &call->y->shape : &call->v->shape, back ? inverse : axes);
}

FORWARD(transpose) { transpose(call, y, v, false); }

VJP(transpose) { transpose(call, dv, g, true); }

/*
 * Rows of FROM elements that move to rows of TO elements: element I of a row goes to element I + BY. Elements that none
 * goes to are VALUE or, if the rows wrap, those that leave at the other end: then TO is FROM, and BY is in 0 .. FROM-1.
 */
struct shift {
	int64_t from, to, by;
	bool wraps;
	double value;
};

/* Makes PART of the result of S. */
static void shift_elements(const struct loops *loops, const struct shift *s, const struct gather_part *part)
{
	const size_t size = element_size(loops->dtype);
	for (int64_t at = part->first, end = at + part->n, count; at < end; at += count) {
		const int64_t row = at / s->to, i = at % s->to;
		const bool before = i < s->by, behind = !before && i - s->by >= s->from;
		const int64_t stop = before ? lesser(s->by, s->to) : behind ? s->to : lesser(s->by + s->from, s->to);
		void *const to = element_of(part->to, size, at - part->first);
		count = lesser(stop - i, end - at);
		if ((before || behind) && !s->wraps)
			loops->fill(to, s->value, (size_t)count);
		else
			memcpy(to, element_at(part->from, size, row * s->from + i - s->by + (before ? s->from : 0)),
			       (size_t)count * size);
	}
}

/* Returns the shift of an operation along an axis that puts V behind BEFORE indices of Y or, if BACK, its derivative. */
static struct shift shift_along(const struct op_call *call, bool back, int64_t before)
{
	const struct axis_view v = axis_view_named(call->attrs, &call->v->shape);
	const int64_t from = v.n * v.inner, to = axis_view_named(call->attrs, &call->y->shape).n * v.inner;
	return (struct shift){back ? to : from, back ? from : to, (back ? -before : before) * v.inner, false, 0};
}

GATHER(slice)
{
	const struct axis_view view = axis_view_named(call->attrs, &call->v->shape);
	const struct shift s = shift_along(call, part->back, -slice_of(call->attrs, view.n).start);
	shift_elements(call->kernels->loops, &s, part);
}

GATHER(pad)
{
	struct shift s = shift_along(call, part->back, call->attrs->before);
	s.value = call->attrs->value;
	shift_elements(call->kernels->loops, &s, part);
}

GATHER(roll)
{
	struct shift s =
		shift_along(call, part->back, call->attrs->shift % axis_view_named(call->attrs, &call->v->shape).n);
	s.wraps = true;
	s.by = s.by < 0 ? s.by + s.from : s.by;
	shift_elements(call->kernels->loops, &s, part);
}

/* What move_rows does with a part of a whole array's rows: copies it out, copies it in, or adds it to them. */
enum part_way { PART_TAKE, PART_PUT, PART_ADD };

static void move_rows(const struct loops *loops, enum part_way way, const struct rows *part, const struct rows *whole,
                      int64_t n, int64_t count)
{
	if (way == PART_TAKE)
		loops->copy_rows(part, whole, (size_t)n, (size_t)count);
	else
		(way == PART_ADD ? loops->add_rows : loops->copy_rows)(whole, part, (size_t)n, (size_t)count);
}

static void slice_elements(const struct op_call *call, void *sliced, void *whole, enum part_way way)
{
	const struct loops *loops = call->kernels->loops;
	const size_t size = element_size(loops->dtype);
	const struct axis_view v = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view y = axis_view_named(call->attrs, &call->y->shape);
	const int64_t start = slice_of(call->attrs, v.n).start + call->iteration, step = call->attrs->step;
	const int64_t sliced_row = y.n * y.inner, whole_row = v.n * v.inner;
	void *const first = element_of(whole, size, start * v.inner);
	if (step == 1) /* the slice of each row is one piece */
		move_rows(loops, way, &(struct rows){sliced, sliced_row, 1}, &(struct rows){first, whole_row, 1}, sliced_row,
		          y.outer);
	else if (v.inner == 1 && v.n == y.n * step) /* one line, which continues from row to row */
		move_rows(loops, way, &(struct rows){sliced, 0, 1}, &(struct rows){first, 0, step}, y.outer * y.n, 1);
	else if (v.inner == 1)
		move_rows(loops, way, &(struct rows){sliced, y.n, 1}, &(struct rows){first, v.n, step}, y.n, y.outer);
	else
		for (int64_t o = 0; o < y.outer; o++)
			move_rows(loops, way, &(struct rows){element_of(sliced, size, o * sliced_row), y.inner, 1},
			          &(struct rows){element_of(first, size, o * whole_row), step * y.inner, 1}, y.inner, y.n);
}

FORWARD(slice) { slice_elements(call, y, writable(v), PART_TAKE); }

/*
 * The operand is v's cotangent so far, to which this adds, or NULL. It may be DV itself: a loop
 * over the slices of an array adds their cotangents one by one.
 */
VJP(slice)
{
	const void *so_far = needs[1];
	if (!so_far)
		memset(dv, 0, (size_t)type_bytes(call->v));
	else if (so_far != dv)
		memcpy(dv, so_far, (size_t)type_bytes(call->v));
	slice_elements(call, writable(g), dv, so_far ? PART_ADD : PART_PUT);
}

/* Copies N contiguous elements of SIZE bytes from each of COUNT rows of FROM to a row of TO. */
static void copy_stretches(size_t size, const struct rows *to, const struct rows *from, int64_t n, int64_t count)
{
	const int64_t bytes = n * (int64_t)size, to_row = to->row * (int64_t)size, from_row = from->row * (int64_t)size;
	char *out = to->at;
	const char *in = from->at;
	for (int64_t i = 0; bytes > 0 && i < count; i++, out += to_row, in += from_row)
		memcpy(out, in, (size_t)bytes);
}

/* Where a part lies in a whole array: from element AT of each of its ROWS rows on, which have ROW elements. */
struct place {
	int64_t at, row, rows;
};

/* Copies PART, rows of N elements, to PLACE in WHOLE or, if TAKE, from there to PART. */
static void copy_part(const struct op_call *call, bool take, const void *part, int64_t n, const void *whole,
                      struct place place)
{
	const size_t size = element_size(call->v->dtype);
	const struct rows inside = {writable(part), n, 1};
	const struct rows around = {element_of(writable(whole), size, place.at), place.row, 1};
	copy_stretches(size, take ? &inside : &around, take ? &around : &inside, n, place.rows);
}

/* Makes all of Y at TO from V at FROM or, if BACK, all of dv from g. */
static void gather_all(const struct op_call *call, op_gather *gather, bool back, void *to, const void *from)
{
	gather(call, &(struct gather_part){.back = back,
	                                   .to = to,
	                                   .from = from,
	                                   .n = shape_count(back ? &call->v->shape : &call->y->shape),
	                                   .factor = 1});
}

FORWARD(pad) { gather_all(call, gather_pad, false, y, v); }
VJP(pad) { gather_all(call, gather_pad, true, dv, g); }

/* Copies FIRST and SECOND to their concatenation WHOLE or, if TAKE, from there. Either may be NULL. */
static void copy_both(const struct op_call *call, bool take, const void *first, const void *second, const void *whole)
{
	const struct axis_view v = axis_view_named(call->attrs, &call->v->shape);
	const struct axis_view a = axis_view_named(call->attrs, &call->a->shape);
	const int64_t n = v.n * v.inner, m = a.n * a.inner;
	if (first)
		copy_part(call, take, first, n, whole, (struct place){0, n + m, v.outer});
	if (second)
		copy_part(call, take, second, m, whole, (struct place){n, n + m, v.outer});
}

FORWARD(concat) { copy_both(call, false, v, a, y); }
VJP(concat) { copy_both(call, true, dv, da, g); }

/* Copies FIRST and SECOND to their stack WHOLE or, if TAKE, from there. Either may be NULL. */
static void copy_stacked(const struct op_call *call, bool take, const void *first, const void *second,
                         const void *whole)
{
	const struct axis_view y = axis_view_named(call->attrs, &call->y->shape);
	if (first)
		copy_part(call, take, first, y.inner, whole, (struct place){0, 2 * y.inner, y.outer});
	if (second)
		copy_part(call, take, second, y.inner, whole, (struct place){y.inner, 2 * y.inner, y.outer});
}

FORWARD(stack) { copy_stacked(call, false, v, a, y); }
VJP(stack) { copy_stacked(call, true, dv, da, g); }

/*
 * Copies FROM to TO in reverse order along the named axes. A line has the last such axis and those after it. `place` counts
 * through the axes before it.
 */
static void flip_elements(const struct op_call *call, void *to, const void *from)
{
	const struct loops *loops = call->kernels->loops;
	const struct shape *shape = &call->v->shape;
	const size_t size = element_size(loops->dtype);
	int64_t step[MAX_DIMS], place[MAX_DIMS] = {0}, inner = 1, source = 0;
	int last = shape->ndim - 1;
	for (; last >= 0 && !axis_named(call->attrs, last, shape->ndim); last--)
		inner *= shape->dim[last];
	if (last < 0) {
		memcpy(to, from, (size_t)type_bytes(call->v));
		return;
	}
	const int64_t n = shape->dim[last], line = n * inner, lines = shape_count(shape) / line;
	int64_t stride = line;
	for (int d = last - 1; d >= 0; d--) {
		const bool flipped = axis_named(call->attrs, d, shape->ndim);
		source += flipped ? (shape->dim[d] - 1) * stride : 0;
		step[d] = flipped ? -stride : stride;
		stride *= shape->dim[d];
	}
	for (int64_t i = 0; i < lines; i++) {
		void *const begin = element_of(to, size, i * line);
		if (inner == 1)
			loops->copy_rows(&(struct rows){begin, 0, 1},
			                 &(struct rows){writable(element_at(from, size, source + n - 1)), 0, -1}, (size_t)n, 1);
		else
			loops->copy_rows(&(struct rows){begin, inner, 1},
			                 &(struct rows){writable(element_at(from, size, source + line - inner)), -inner, 1},
			                 (size_t)inner, (size_t)n);
		for (int d = last - 1; d >= 0; d--) {
			source += step[d];
			if (++place[d] < shape->dim[d])
				break;
			source -= step[d] * shape->dim[d];
			place[d] = 0;
		}
	}
}

FORWARD(flip) { flip_elements(call, y, v); }
VJP(flip) { flip_elements(call, dv, g); }

/* Copies to TO the elements of FROM on one side of the diagonal of each matrix, and zeros. A tile may begin within a matrix. */
static void copy_triangle(const struct op_call *call, void *to, const void *from, bool lower)
{
	const struct shape *shape = &call->v->shape;
	const size_t size = element_size(call->v->dtype);
	const int64_t n = shape->dim[shape->ndim - 1], lines = shape_count(shape) / n, first = call->first / n;
	const int64_t rows = shape->ndim == 2 ? first + lines : shape->dim[shape->ndim - 2];
	for (int64_t i = 0; i < lines; i++) {
		const __int128 beyond = (__int128)call->attrs->diagonal + (first + i) % rows + lower;
		const int64_t edge = beyond < 0 ? 0 : lesser(saturated(beyond), n); /* elements before the diagonal's */
		const size_t before = (size_t)edge * size, after = (size_t)(n - edge) * size;
		char *const row = element_of(to, size, i * n);
		const char *const source = element_at(from, size, i * n);
		if (lower) {
			memcpy(row, source, before);
			memset(row + before, 0, after);
		} else {
			memset(row, 0, before);
			memcpy(row + before, source + before, after);
		}
	}
}

FORWARD(tril) { copy_triangle(call, y, v, true); }
VJP(tril) { copy_triangle(call, dv, g, true); }
FORWARD(triu) { copy_triangle(call, y, v, false); }
VJP(triu) { copy_triangle(call, dv, g, false); }

FORWARD(roll) { gather_all(call, gather_roll, false, y, v); }
VJP(roll) { gather_all(call, gather_roll, true, dv, g); }
