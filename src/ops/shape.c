/*
 * The shapes of results, how far an operation reaches along the leading axis, and
 * its cost. The rules for shapes are NumPy's; those of conv1d and conv2d are torch's.
 * Tests: tests/unit/test_ops.c
 */
#include "ops/op.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "ops/linalg.h"
#include "ops/subscripts.h"

/* The arguments of op_infer. Y is the result: at first V's type. */
struct inference {
	enum op op;
	const struct attrs *attrs;
	const struct type *v, *a, *more[MAX_OPERANDS - 1];
	struct type *y;
	struct complaint *complaint;
};

/* Stores what does not fit as the complaint's message. Returns STATUS_CHAIN. */
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

/* Returns SHAPE as text for misfit(). */
static const char *text_of(const struct inference *f, const struct shape *shape)
{
	char text[TYPE_TEXT];
	const char *kept = arena_printf(f->complaint->arena, "%s", shape_format(shape, text));
	return kept ? kept : "";
}

bool axis_resolve(int axis, int ndim, int *resolved)
{
	if (axis < -ndim || axis >= ndim)
		return false;
	*resolved = axis < 0 ? axis + ndim : axis;
	return true;
}

bool axis_named(const struct attrs *attrs, int k, int ndim)
{
	bool named = !attrs->has_axis;
	for (int i = 0; attrs->has_axis && i < attrs->axis_count && !named; i++) {
		int axis;
		named = axis_resolve(attrs->axis[i], ndim, &axis) && axis == k;
	}
	return named;
}

/* The result has V's shape. Each axis in the attributes, if there are any, must exist and be named once. */
static enum status infer_same(const struct inference *f)
{
	bool seen[MAX_DIMS] = {false};
	for (int i = 0; f->attrs && f->attrs->has_axis && i < f->attrs->axis_count; i++) {
		int axis;
		if (!axis_resolve(f->attrs->axis[i], f->v->shape.ndim, &axis))
			return misfit(f, "axis %d is out of range for %s", f->attrs->axis[i], text_of(f, &f->v->shape));
		if (seen[axis])
			return misfit(f, "axis %d is named twice", f->attrs->axis[i]);
		seen[axis] = true;
	}
	return STATUS_OK;
}

static enum status infer_laplacian(const struct inference *f)
{
	TRY(infer_same(f));
	const int axes = f->attrs->has_axis ? f->attrs->axis_count : f->v->shape.ndim;
	if (f->attrs->dx.list && f->attrs->dx.count != axes)
		return misfit(f, "dx has %lld number%s, and %s %d ax%ss", (long long)f->attrs->dx.count,
		              f->attrs->dx.count == 1 ? "" : "s", f->attrs->has_axis ? "axes names" : text_of(f, &f->v->shape),
		              axes, axes == 1 ? "i" : "e");
	return STATUS_OK;
}

static enum status find_axis(const struct inference *f, int *axis)
{
	*axis = 0;
	TRY(infer_same(f));
	(void)axis_resolve(f->attrs->axis[0], f->v->shape.ndim, axis);
	return STATUS_OK;
}

/* NumPy's matmul of M [.., m, k] or [k] and N [.., k, n] or [k]; linear writes N as [.., n, k]. */
static enum status infer_product(const struct inference *f)
{
	const bool swapped = f->op == OP_dot;
	const struct shape *m = swapped ? &f->a->shape : &f->v->shape, *written = swapped ? &f->v->shape : &f->a->shape;
	struct shape n = *written, *out = &f->y->shape;
	if (f->op == OP_linear && n.ndim > 1) {
		n.dim[n.ndim - 1] = written->dim[n.ndim - 2];
		n.dim[n.ndim - 2] = written->dim[n.ndim - 1];
	}
	if (m->ndim == 0 || n.ndim == 0)
		return misfit(f, "shapes %s and %s do not fit: a scalar is not a matrix", text_of(f, m), text_of(f, written));
	const int64_t km = m->dim[m->ndim - 1], kn = n.dim[n.ndim == 1 ? 0 : n.ndim - 2];
	if (km != kn)
		return misfit(f, "shapes %s and %s do not fit: %lld != %lld", text_of(f, m), text_of(f, written), (long long)km,
		              (long long)kn);
	struct shape batch_m = *m, batch_n = n;
	batch_m.ndim = m->ndim > 2 ? m->ndim - 2 : 0;
	batch_n.ndim = n.ndim > 2 ? n.ndim - 2 : 0;
	if (!shape_broadcast(&batch_m, &batch_n, out))
		return misfit(f, "batch axes of %s and %s do not broadcast", text_of(f, m), text_of(f, written));
	if (out->ndim + 2 > MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	if (m->ndim > 1)
		out->dim[out->ndim++] = m->dim[m->ndim - 2];
	if (n.ndim > 1)
		out->dim[out->ndim++] = n.dim[n.ndim - 1];
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
	int axes[MAX_DIMS];
	TRY(infer_same(f));
	if (f->attrs->has_axis && f->attrs->axis_count != v->ndim)
		return misfit(f, "axes names %d, and %s has %d", f->attrs->axis_count, text_of(f, v), v->ndim);
	transpose_axes(f->attrs, v->ndim, axes);
	for (int i = 0; i < v->ndim; i++)
		f->y->shape.dim[i] = v->dim[axes[i]];
	return STATUS_OK;
}

/* True if the reduction of no elements has no value. */
static bool needs_elements(const struct inference *f)
{
	return f->op == OP_amax || f->op == OP_amin || f->op == OP_median || f->op == OP_quantile ||
	       f->y->dtype == DTYPE_I64;
}

static enum status infer_reduce(const struct inference *f)
{
	TRY(infer_same(f));
	const struct shape *v = &f->v->shape;
	struct shape *out = &f->y->shape;
	out->ndim = 0;
	for (int i = 0; i < v->ndim; i++) {
		const bool reduced = axis_named(f->attrs, i, v->ndim);
		if (reduced && v->dim[i] == 0 && needs_elements(f))
			return misfit(f, "%s has no elements along axis %d", text_of(f, v), i);
		if (!reduced || f->attrs->keepdims)
			out->dim[out->ndim++] = reduced ? 1 : v->dim[i];
	}
	return STATUS_OK;
}

/* flatten is a reshape to [-1]. */
static enum status infer_reshape(const struct inference *f)
{
	struct shape out = f->op == OP_flatten ? (struct shape){.ndim = 1, .dim = {-1}} : f->attrs->shape;
	const long long have = shape_count(&f->v->shape);
	int64_t known = 1;
	int open = -1;
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
	if (open < 0 && known != have)
		return misfit(f, "%s has %lld elements and %s %lld", text_of(f, &f->v->shape), have, text_of(f, &out),
		              (long long)known);
	if (open >= 0 && (known == 0 || have % known))
		return misfit(f, "%s has %lld elements, which %lld does not divide", text_of(f, &f->v->shape), have,
		              (long long)known);
	if (open >= 0)
		out.dim[open] = have / known;
	f->y->shape = out;
	return STATUS_OK;
}

/* Returns a slice's bound on an axis of N, as in Python: a negative one gets N added. Clamps it to [LOW, HIGH]. */
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
	const struct shape *v = &f->v->shape, *a = &f->a->shape;
	int axis;
	TRY(find_axis(f, &axis));
	bool fits = a->ndim == v->ndim;
	for (int i = 0; fits && i < v->ndim; i++)
		fits = i == axis || a->dim[i] == v->dim[i];
	if (!fits)
		return misfit(f, "shapes %s and %s differ beside axis %d", text_of(f, v), text_of(f, a), axis);
	if (__builtin_add_overflow(v->dim[axis], a->dim[axis], &f->y->shape.dim[axis]))
		return misfit(f, "shapes %s and %s are too long together", text_of(f, v), text_of(f, a));
	return STATUS_OK;
}

/* Stores the place of a new axis in the result. The axis that ATTRS name counts in the result. */
static enum status find_new_axis(const struct inference *f, int *axis)
{
	const struct shape *v = &f->v->shape;
	if (v->ndim == MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	if (!axis_resolve(f->attrs->axis[0], v->ndim + 1, axis))
		return misfit(f, "axis %d is out of range for %s with a new axis", f->attrs->axis[0], text_of(f, v));
	return STATUS_OK;
}

static void insert_axis(struct shape *shape, int axis, int64_t extent)
{
	for (int i = shape->ndim++; i > axis; i--)
		shape->dim[i] = shape->dim[i - 1];
	shape->dim[axis] = extent;
}

static enum status infer_stack(const struct inference *f)
{
	int axis;
	if (!shape_equal(&f->v->shape, &f->a->shape))
		return misfit(f, "shapes %s and %s differ", text_of(f, &f->v->shape), text_of(f, &f->a->shape));
	TRY(find_new_axis(f, &axis));
	insert_axis(&f->y->shape, axis, 2);
	return STATUS_OK;
}

static enum status infer_expand_dims(const struct inference *f)
{
	int axis;
	TRY(find_new_axis(f, &axis));
	insert_axis(&f->y->shape, axis, 1);
	return STATUS_OK;
}

static enum status infer_squeeze(const struct inference *f)
{
	TRY(infer_same(f));
	const struct shape *v = &f->v->shape;
	struct shape *out = &f->y->shape;
	out->ndim = 0;
	for (int i = 0; i < v->ndim; i++) {
		const bool named = axis_named(f->attrs, i, v->ndim);
		if (f->attrs->has_axis && named && v->dim[i] != 1)
			return misfit(f, "axis %d of %s has the extent %lld, not 1", i, text_of(f, v), (long long)v->dim[i]);
		if (!named || v->dim[i] != 1)
			out->dim[out->ndim++] = v->dim[i];
	}
	return STATUS_OK;
}

static enum status infer_triangle(const struct inference *f)
{
	if (f->v->shape.ndim < 2)
		return misfit(f, "%s has fewer than two axes", text_of(f, &f->v->shape));
	return STATUS_OK;
}

/* The last two axes of TYPE are square matrices that LAPACK takes. */
static enum status check_square(const struct inference *f, const struct shape *shape)
{
	if (shape->ndim < 2 || shape->dim[shape->ndim - 1] != shape->dim[shape->ndim - 2])
		return misfit(f, "%s has no square matrices in its last two axes", text_of(f, shape));
	if (shape->dim[shape->ndim - 1] > LAPACK_MOST)
		return misfit(f, "the matrices of %s have more than %d rows", text_of(f, shape), LAPACK_MOST);
	return STATUS_OK;
}

static enum status infer_square(const struct inference *f) { return check_square(f, &f->v->shape); }

static enum status infer_logdet(const struct inference *f)
{
	TRY(infer_square(f));
	f->y->shape.ndim -= 2;
	return STATUS_OK;
}

/* Notes in EXTENT the extents of X, operand I of an einsum from 0, by its LABEL. They are -1 before the first; one of 1 broadcasts. */
static enum status note_extents(const struct inference *f, const struct shape *x, const unsigned char *label,
                                int64_t extent[LABELS])
{
	for (int i = 0; i < x->ndim; i++) {
		const unsigned char *const first = memchr(label, label[i], (size_t)i);
		int64_t *const noted = &extent[label[i]];
		const int64_t own = x->dim[i];
		if (first && x->dim[first - label] != own)
			return misfit(f, "axis %c is %lld and %lld in one operand, which has no diagonal",
			              subscript_letter(label[i]), (long long)x->dim[first - label], (long long)own);
		if (own == *noted || (own == 1 && *noted >= 0))
			continue;
		if (*noted >= 0 && *noted != 1)
			return misfit(f, "axis %c is %lld and %lld", subscript_letter(label[i]), (long long)*noted, (long long)own);
		*noted = own;
	}
	return STATUS_OK;
}

static enum status infer_einsum(const struct inference *f)
{
	const struct type *const all[MAX_VALUES] = {f->v, f->a, f->more[0], f->more[1]};
	struct subscripts s;
	int64_t extent[LABELS];
	int given = 0;
	(void)subscripts_read(&s, f->attrs->subscripts); /* attrs_set has checked them */
	for (int i = 0; i < LABELS; i++)
		extent[i] = -1;
	while (given < MAX_VALUES && all[given])
		given++;
	if (given != s.operands)
		return misfit(f, "subscripts for %d array%s, and there %s %d, the value included", s.operands,
		              s.operands == 1 ? "" : "s", given == 1 ? "is" : "are", given);
	for (int i = 0; i < given; i++) {
		const struct subscript *const subscript = &s.operand[i];
		const struct shape *const x = &all[i]->shape;
		const int rest = x->ndim - subscript->count;
		unsigned char label[MAX_DIMS];
		if (subscript->rest < 0 ? rest != 0 : rest < 0)
			return misfit(f, "the subscripts of %s name %d ax%s, and it is %s", i ? "an operand" : "the value",
			              subscript->count, subscript->count == 1 ? "is" : "es", text_of(f, x));
		if (rest > REST_AXES)
			return misfit(f, "'...' stands for more than %d axes", REST_AXES);
		subscript_labels(subscript, x->ndim, label);
		TRY(note_extents(f, x, label, extent));
	}
	f->y->shape.ndim = 0;
	for (int k = 0; k <= s.result.count; k++) {
		for (int label = LETTERS; k == s.result.rest && label < LABELS; label++)
			if (extent[label] >= 0)
				f->y->shape.dim[f->y->shape.ndim++] = extent[label]; /* at most REST_AXES of them */
		if (f->y->shape.ndim + REST_AXES >= MAX_DIMS && k < s.result.count)
			return misfit(f, "more than %d dimensions", MAX_DIMS - REST_AXES);
		if (k < s.result.count)
			f->y->shape.dim[f->y->shape.ndim++] = extent[s.result.label[k]];
	}
	return STATUS_OK;
}

static enum status infer_outer(const struct inference *f)
{
	TRY(infer_same(f));
	if (f->v->shape.ndim + f->a->shape.ndim > MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	for (int i = 0; i < f->a->shape.ndim; i++)
		f->y->shape.dim[f->y->shape.ndim++] = f->a->shape.dim[i];
	return STATUS_OK;
}

/* Each band broadcasts to V [.., n]. */
static enum status infer_tridiagonal(const struct inference *f)
{
	const struct shape *v = &f->v->shape;
	struct shape both;
	TRY(infer_same(f));
	if (v->ndim == 0)
		return misfit(f, "a scalar has no axis");
	if (v->dim[v->ndim - 1] > INT_MAX)
		return misfit(f, "%s has more than %d elements along its last axis", text_of(f, v), INT_MAX);
	if (!shape_broadcast(&f->a->shape, v, &both) || !shape_equal(&both, v))
		return misfit(f, "a band %s does not broadcast to %s", text_of(f, &f->a->shape), text_of(f, v));
	return STATUS_OK;
}

/* A @ x = V: A [.., n, n], V [.., n, k], or [n] for each matrix. The axes before the matrices broadcast. */
static enum status infer_solve(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *a = &f->a->shape;
	struct shape *out = &f->y->shape, batch_v = *v, batch_a = *a;
	const int last = v->ndim == 1 ? 1 : 2;
	TRY(check_square(f, a));
	const int64_t n = a->dim[a->ndim - 1];
	if (v->ndim == 0 || v->dim[v->ndim - last] != n)
		return misfit(f, "%s has not the %lld rows of the matrices %s", text_of(f, v), (long long)n, text_of(f, a));
	if (last == 2 && v->dim[v->ndim - 1] > LAPACK_MOST)
		return misfit(f, "%s has more than %d columns", text_of(f, v), LAPACK_MOST);
	batch_v.ndim = v->ndim - last;
	batch_a.ndim = a->ndim - 2;
	if (!shape_broadcast(&batch_v, &batch_a, out))
		return misfit(f, "batch axes of %s and %s do not broadcast", text_of(f, v), text_of(f, a));
	if (out->ndim + last > MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	for (int i = v->ndim - last; i < v->ndim; i++)
		out->dim[out->ndim++] = v->dim[i];
	return STATUS_OK;
}

/* Checks the numbers of dimensions of V and the kernel, and the channels: CHANNELS are those of one group in the kernel. */
static enum status check_channels(const struct inference *f, const char *kernel, int64_t channels, int64_t others)
{
	const int ndim = op_window_axes(f->op) + 2;
	const struct shape *v = &f->v->shape, *k = &f->a->shape;
	const int64_t groups = f->attrs->groups;
	if (v->ndim != ndim || k->ndim != ndim)
		return misfit(f, "shapes %s and %s: %d-d arrays are wanted, [N,Cin,...] and %s", text_of(f, v), text_of(f, k),
		              ndim, kernel);
	if (groups > 1 && (v->dim[1] % groups || others % groups))
		return misfit(f, "%lld groups do not divide the channels of %s and %s", (long long)groups, text_of(f, v),
		              text_of(f, k));
	if (v->dim[1] / groups != channels)
		return misfit(f, "shapes %s and %s do not fit: %lld channels%s != %lld", text_of(f, v), text_of(f, k),
		              (long long)(v->dim[1] / groups), groups > 1 ? " of a group" : "", (long long)channels);
	for (int i = 2; i < ndim; i++)
		if (k->dim[i] == 0)
			return misfit(f, "kernel %s is empty", text_of(f, k));
	return STATUS_OK;
}

static enum status infer_conv(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *k = &f->a->shape;
	TRY(check_channels(f, "[Cout,Cin,...]", k->dim[1], k->dim[0]));
	f->y->shape.dim[1] = k->dim[0];
	for (int i = 2; i < v->ndim; i++) {
		const struct window w = op_window(f->op, f->attrs, i - 2, k->dim[i]);
		int64_t extent;
		if (f->attrs->same && w.stride != 1)
			return misfit(f, "padding=same wants a stride of 1");
		if (__builtin_add_overflow(w.before, w.after, &extent) || __builtin_add_overflow(extent, v->dim[i], &extent))
			return misfit(f, "a padding of %lld is too much", (long long)(w.before > w.after ? w.before : w.after));
		if (extent < w.extent)
			return misfit(f, "kernel %s is larger than the padded %s%s", text_of(f, k), text_of(f, v),
			              w.gap > 1 ? ", with its dilation" : "");
		f->y->shape.dim[i] = (extent - w.extent) / w.stride + 1;
	}
	return STATUS_OK;
}

/* As torch's: the shape of the input of a convolution whose result has V's shape, and OUTPUT_PADDING elements more. */
static enum status infer_conv_transpose(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *k = &f->a->shape;
	struct shape *out = &f->y->shape;
	TRY(check_channels(f, "[Cin,Cout,...]", k->dim[0] / f->attrs->groups, k->dim[0]));
	if (__builtin_mul_overflow(k->dim[1], f->attrs->groups, &out->dim[1]))
		return misfit(f, "%lld groups are too many", (long long)f->attrs->groups);
	for (int i = 2; i < v->ndim; i++) {
		const struct window w = op_window(f->op, f->attrs, i - 2, k->dim[i]);
		const int64_t more = f->attrs->output_padding[i - 2];
		int64_t extent, padding;
		if (more >= w.stride && more >= w.gap)
			return misfit(f, "an output_padding of %lld is not below the stride of %lld or the dilation of %lld",
			              (long long)more, (long long)w.stride, (long long)w.gap);
		if (v->dim[i] == 0)
			return misfit(f, "%s has no elements along axis %d", text_of(f, v), i);
		if (__builtin_mul_overflow(v->dim[i] - 1, w.stride, &extent) ||
		    __builtin_add_overflow(extent, w.extent + more, &extent) ||
		    __builtin_add_overflow(w.before, w.after, &padding))
			return misfit(f, "the result is too long along axis %d", i);
		if (extent <= padding)
			return misfit(f, "a padding of %lld leaves nothing of %lld elements along axis %d",
			              (long long)(w.before > w.after ? w.before : w.after), (long long)extent, i);
		out->dim[i] = extent - padding;
	}
	return STATUS_OK;
}

/*
 * Stores in *COUNT how many windows an axis of EXTENT has. As torch does, CEIL leaves out a last window that would begin
 * behind the elements and the padding before them.
 */
static enum status count_windows(const struct inference *f, const struct window *w, int64_t extent, int64_t *count)
{
	int64_t padded;
	if (extent == 0)
		return misfit(f, "%s has no elements along an axis of windows", text_of(f, &f->v->shape));
	if (w->before > w->extent / 2 || w->after > w->extent / 2)
		return misfit(f, "a padding of %lld is more than half of the window of %lld",
		              (long long)(w->before > w->extent / 2 ? w->before : w->after), (long long)w->extent);
	if (__builtin_add_overflow(extent, w->before + w->after, &padded) || padded > INT64_MAX / 2)
		return misfit(f, "a window of %lld is too long", (long long)w->extent);
	const int64_t room = padded - w->extent;
	if (room < 0)
		return misfit(f, "a window of %lld is larger than the padded axis of %lld", (long long)w->extent,
		              (long long)padded);
	*count = room / w->stride + 1;
	if (f->attrs->ceil && room % w->stride && *count * w->stride < extent + w->before)
		++*count;
	return STATUS_OK;
}

static enum status infer_pool(const struct inference *f)
{
	const struct shape *v = &f->v->shape;
	const int axes = op_window_axes(f->op);
	if (v->ndim < axes)
		return misfit(f, "%s has fewer than %d ax%ss", text_of(f, v), axes, axes == 1 ? "i" : "e");
	for (int i = 0; i < axes; i++) {
		const struct window window = op_window(f->op, f->attrs, i, 0);
		const int axis = v->ndim - axes + i;
		TRY(count_windows(f, &window, v->dim[axis], &f->y->shape.dim[axis]));
	}
	return STATUS_OK;
}

static enum status infer_upsample(const struct inference *f)
{
	const struct shape *v = &f->v->shape;
	const double most = 0x1p53; /* up to here a double counts indices */
	int axes = 0;
	TRY(infer_same(f));
	if (f->attrs->align_corners && !f->attrs->linear)
		return misfit(f, "align_corners is for mode=linear");
	for (int i = 0; i < v->ndim; i++)
		axes += op_is_resampled(f->attrs, i, v->ndim);
	if (axes == 0)
		return misfit(f, "%s has no axis to resample", text_of(f, v));
	if (f->attrs->factors.list && f->attrs->factors.count != axes)
		return misfit(f, "%lld factors for %d ax%ss", (long long)f->attrs->factors.count, axes, axes == 1 ? "i" : "e");
	for (int i = 0; i < v->ndim; i++) {
		if (!op_is_resampled(f->attrs, i, v->ndim))
			continue;
		const double extent = floor((double)v->dim[i] * op_resampling_factor(f->attrs, i, v->ndim));
		if (extent > most)
			return misfit(f, "axis %d would have %.17g elements", i, extent);
		if (extent < 1 && v->dim[i] > 0)
			return misfit(f, "nothing of axis %d of %s is left", i, text_of(f, v));
		f->y->shape.dim[i] = (int64_t)extent;
	}
	return STATUS_OK;
}

/*
 * q [.., L, d], K [.., S, d] and V [.., S, e] give [.., L, e]. K and V have the same batch axes, which broadcast with q's. A mask
 * broadcasts to the scores [.., L, S].
 */
static enum status infer_attention(const struct inference *f)
{
	const struct shape *q = &f->v->shape, *k = &f->a->shape, *v = &f->more[0]->shape;
	struct shape of_q = *q, of_k = *k, of_v = *v, *out = &f->y->shape;
	if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
		return misfit(f, "shapes %s, %s and %s: matrices are wanted", text_of(f, q), text_of(f, k), text_of(f, v));
	of_v.dim[v->ndim - 1] = k->dim[k->ndim - 1];
	if (!shape_equal(&of_v, k))
		return misfit(f, "keys %s and values %s differ before the last axis", text_of(f, k), text_of(f, v));
	if (q->dim[q->ndim - 1] != k->dim[k->ndim - 1])
		return misfit(f, "queries %s and keys %s differ in the last axis", text_of(f, q), text_of(f, k));
	of_q.ndim -= 2;
	of_k.ndim -= 2;
	if (!shape_broadcast(&of_q, &of_k, out))
		return misfit(f, "batch axes of %s and %s do not broadcast", text_of(f, q), text_of(f, k));
	struct shape scores = *out, with_mask;
	scores.dim[scores.ndim++] = q->dim[q->ndim - 2];
	scores.dim[scores.ndim++] = k->dim[k->ndim - 2];
	const struct shape *mask = f->more[1] ? &f->more[1]->shape : NULL;
	if (mask && (!shape_broadcast(&scores, mask, &with_mask) || !shape_equal(&with_mask, &scores)))
		return misfit(f, "mask %s does not broadcast to the scores %s", text_of(f, mask), text_of(f, &scores));
	out->dim[out->ndim++] = q->dim[q->ndim - 2];
	out->dim[out->ndim++] = v->dim[v->ndim - 1];
	return STATUS_OK;
}

/* A loss over classes, or a part of one: V [.., C, ..] has the classes along an axis, and T [.., ..] has one for each row. */
static enum status infer_classes(const struct inference *f)
{
	const char *const values = f->op == OP_nll ? "log-probabilities" : "logits";
	const struct shape *v = &f->v->shape, *t = &f->a->shape, *w = f->more[0] ? &f->more[0]->shape : NULL;
	struct shape rows = *v;
	int axis = 0;
	TRY(v->ndim > 0 ? infer_same(f) : STATUS_OK);
	if (v->ndim > 0)
		axis = op_class_axis(f->attrs, v->ndim);
	for (int i = axis + 1; i < v->ndim; i++)
		rows.dim[i - 1] = v->dim[i];
	rows.ndim = v->ndim - 1;
	const bool probabilities = f->op == OP_cross_entropy && v->ndim > 0 && shape_equal(v, t);
	if (v->ndim < 1 || (!probabilities && !shape_equal(t, &rows)))
		return misfit(f, "%s %s want one class for each row, and the classes are %s", values, text_of(f, v),
		              text_of(f, t));
	if (v->dim[axis] == 0)
		return misfit(f, "%s %s have no classes", values, text_of(f, v));
	if (probabilities && f->attrs->ignore.given)
		return misfit(f, "ignore is for classes, and %s are probabilities", text_of(f, t));
	if (w && (w->ndim != 1 || w->dim[0] != v->dim[axis]))
		return misfit(f, "weight %s is no vector of the weights of %lld classes", text_of(f, w),
		              (long long)v->dim[axis]);
	const bool each = f->op != OP_cross_entropy || (f->attrs && f->attrs->reduction == REDUCTION_NONE);
	f->y->shape = each ? rows : (struct shape){0};
	return STATUS_OK;
}

static enum status infer_broadcast(const struct inference *f)
{
	const struct type *const others[] = {f->a, f->more[0], f->more[1]};
	for (int k = 0; k < MAX_OPERANDS; k++) {
		const struct shape so_far = f->y->shape;
		if (others[k] && !shape_broadcast(&so_far, &others[k]->shape, &f->y->shape))
			return misfit(f, "shapes %s and %s do not broadcast", text_of(f, &so_far), text_of(f, &others[k]->shape));
	}
	return STATUS_OK;
}

static enum status infer_loss(const struct inference *f)
{
	TRY(infer_broadcast(f));
	if (shape_count(&f->y->shape) < 0) {
		(void)misfit(f, "shapes %s and %s have too many elements together", text_of(f, &f->v->shape),
		             text_of(f, &f->a->shape));
		return STATUS_LIMIT;
	}
	if (!f->attrs || f->attrs->reduction != REDUCTION_NONE)
		f->y->shape = (struct shape){0};
	return STATUS_OK;
}

/* The result is of A's type, since V holds indices alone. Their axes replace the axis of A that they select from. */
static enum status infer_take(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *t = &f->a->shape;
	struct shape *out = &f->y->shape;
	int axis;
	if (!axis_resolve(f->attrs->axis[0], t->ndim, &axis))
		return misfit(f, "axis %d is out of range for %s", f->attrs->axis[0], text_of(f, t));
	if (t->ndim - 1 + v->ndim > MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	if (t->dim[axis] == 0 && shape_count(v) != 0)
		return misfit(f, "%s has no elements along axis %d, and there are indices %s", text_of(f, t), axis,
		              text_of(f, v));
	f->y->dtype = f->a->dtype;
	out->ndim = 0;
	for (int i = 0; i < axis; i++)
		out->dim[out->ndim++] = t->dim[i];
	for (int i = 0; i < v->ndim; i++)
		out->dim[out->ndim++] = v->dim[i];
	for (int i = axis + 1; i < t->ndim; i++)
		out->dim[out->ndim++] = t->dim[i];
	return STATUS_OK;
}

/* As NumPy's take_along_axis: the indices have as many axes. All but the one that they select along broadcast. */
static enum status infer_along(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *i = &f->a->shape;
	int axis;
	TRY(find_axis(f, &axis));
	bool fits = v->ndim == i->ndim;
	for (int k = 0; fits && k < v->ndim; k++) {
		fits = k == axis || v->dim[k] == i->dim[k] || v->dim[k] == 1 || i->dim[k] == 1;
		f->y->shape.dim[k] = k == axis || v->dim[k] == 1 ? i->dim[k] : v->dim[k];
	}
	if (!fits)
		return misfit(f, "shapes %s and indices %s do not broadcast beside axis %d", text_of(f, v), text_of(f, i),
		              axis);
	if (v->dim[axis] == 0 && shape_count(&f->y->shape) != 0)
		return misfit(f, "%s has no elements along axis %d, and there are indices %s", text_of(f, v), axis,
		              text_of(f, i));
	return STATUS_OK;
}

/* The n rows replace the axes of V that the indices have. */
static enum status infer_scatter(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *i = &f->a->shape;
	struct shape *out = &f->y->shape;
	const int given = f->attrs->axis[0], rest = v->ndim - i->ndim;
	int axis;
	if (rest < 0 || !axis_resolve(given, rest + 1, &axis))
		return misfit(f, "axis %d is out of range for %s and the indices %s", given, text_of(f, v), text_of(f, i));
	for (int k = 0; k < i->ndim; k++)
		if (v->dim[axis + k] != i->dim[k])
			return misfit(f, "shape %s and the indices %s differ from axis %d on", text_of(f, v), text_of(f, i), axis);
	if (rest + 1 > MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	if (f->attrs->n == 0 && shape_count(i) != 0)
		return misfit(f, "there are indices %s, and no rows", text_of(f, i));
	out->ndim = rest + 1;
	out->dim[axis] = f->attrs->n;
	for (int k = axis + 1; k <= rest; k++)
		out->dim[k] = v->dim[k + i->ndim - 1];
	return STATUS_OK;
}

static enum status infer_one_hot(const struct inference *f)
{
	struct shape *out = &f->y->shape;
	if (out->ndim == MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	if (f->attrs->n == 0 && shape_count(out) != 0)
		return misfit(f, "there are indices %s, and no classes", text_of(f, out));
	out->dim[out->ndim++] = f->attrs->n;
	return STATUS_OK;
}

static enum status infer_position(const struct inference *f)
{
	if (f->attrs->has_axis && f->attrs->axis_count != 1)
		return misfit(f, "takes one axis");
	f->y->dtype = DTYPE_I64;
	return infer_reduce(f);
}

static enum status infer_quantile(const struct inference *f) { return infer_reduce(f); }

static enum status infer_broadcast_to(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *to = &f->attrs->shape;
	struct shape out;
	for (int i = 0; i < to->ndim; i++)
		if (to->dim[i] < 0)
			return misfit(f, "an extent of %lld", (long long)to->dim[i]);
	if (!shape_broadcast(v, to, &out) || !shape_equal(&out, to))
		return misfit(f, "%s does not broadcast to %s", text_of(f, v), text_of(f, to));
	f->y->shape = *to;
	return STATUS_OK;
}

/* As NumPy's tile: counts are those of the last axes, and there may be more of them than axes. */
static enum status infer_tile(const struct inference *f)
{
	const struct shape *v = &f->v->shape, *counts = &f->attrs->shape;
	struct shape *const out = &f->y->shape;
	const int ndim = v->ndim > counts->ndim ? v->ndim : counts->ndim;
	for (int i = 0; i < ndim; i++) {
		const int own = i - (ndim - v->ndim), at = i - (ndim - counts->ndim);
		const int64_t extent = own >= 0 ? v->dim[own] : 1, times = at >= 0 ? counts->dim[at] : 1;
		if (times < 0)
			return misfit(f, "a count of %lld", (long long)times);
		if (!checked_mul_i64(extent, times, &out->dim[i]))
			return misfit(f, "the result has too many elements");
	}
	out->ndim = ndim;
	if (2 * ndim > MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS / 2);
	return STATUS_OK;
}

static enum status infer_repeat_each(const struct inference *f)
{
	int axis;
	TRY(find_axis(f, &axis));
	if (!checked_mul_i64(f->v->shape.dim[axis], f->attrs->n, &f->y->shape.dim[axis]))
		return misfit(f, "the result has too many elements");
	if (2 * f->v->shape.ndim > MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS / 2);
	return STATUS_OK;
}

static enum status infer_diag(const struct inference *f)
{
	struct shape *const out = &f->y->shape;
	if (out->ndim == 0)
		return misfit(f, "a number has no diagonal");
	if (out->ndim == 1) {
		out->dim[out->ndim++] = out->dim[0];
		return STATUS_OK;
	}
	out->ndim--;
	if (out->dim[out->ndim] < out->dim[out->ndim - 1])
		out->dim[out->ndim - 1] = out->dim[out->ndim];
	return STATUS_OK;
}

static enum status infer_groups(const struct inference *f)
{
	const struct shape *v = &f->v->shape;
	if (v->ndim < 2)
		return misfit(f, "%s has no axis of channels: an array [N,C,...] is wanted", text_of(f, v));
	if (v->dim[1] % f->attrs->groups)
		return misfit(f, "the %lld channels of %s are not %lld equal groups", (long long)v->dim[1], text_of(f, v),
		              (long long)f->attrs->groups);
	return STATUS_OK;
}

static enum status infer_positions(const struct inference *f)
{
	f->y->dtype = DTYPE_I64;
	return infer_same(f);
}

static enum status infer_top(const struct inference *f)
{
	int axis;
	TRY(find_axis(f, &axis));
	int64_t *const extent = &f->y->shape.dim[axis];
	if (f->attrs->n > *extent)
		return misfit(f, "n is %lld, and %s has %lld elements along axis %d", (long long)f->attrs->n,
		              text_of(f, &f->v->shape), (long long)*extent, axis);
	*extent = f->attrs->n;
	if (f->op == OP_argtopk)
		f->y->dtype = DTYPE_I64;
	return STATUS_OK;
}

bool op_transform_axis(enum op op, const struct attrs *attrs, int ndim, int *axis)
{
	return axis_resolve(attrs->axis[0], op == OP_rfft ? ndim : ndim - 1, axis);
}

/* The last axis of SHAPE holds complex numbers. */
static enum status check_pairs(const struct inference *f, const struct shape *shape)
{
	if (shape->ndim == 0 || shape->dim[shape->ndim - 1] != 2)
		return misfit(f, "%s has no complex numbers: a last axis of 2, their real and imaginary parts",
		              text_of(f, shape));
	return STATUS_OK;
}

/* The transform of a real line of n numbers has n / 2 + 1 complex ones, rounded down. */
static enum status infer_transform(const struct inference *f)
{
	const struct shape *v = &f->v->shape;
	struct shape *const out = &f->y->shape;
	int axis;
	if (f->op != OP_rfft)
		TRY(check_pairs(f, v));
	if (!op_transform_axis(f->op, f->attrs, v->ndim, &axis))
		return misfit(f, "axis %d is out of range for %s%s", f->attrs->axis[0], text_of(f, v),
		              f->op == OP_rfft ? "" : ", whose last axis does not count");
	if (f->op == OP_rfft && v->ndim == MAX_DIMS)
		return misfit(f, "more than %d dimensions", MAX_DIMS);
	if (v->dim[axis] == 0)
		return misfit(f, "%s has no elements along axis %d", text_of(f, v), axis);
	int64_t n = v->dim[axis];
	if (f->op == OP_irfft && f->attrs->n)
		n = f->attrs->n;
	else if (f->op == OP_irfft && n == 1)
		return misfit(f, "%s has one number along axis %d, and n=1 must say so", text_of(f, v), axis);
	else if (f->op == OP_irfft)
		n = 2 * (n - 1);
	if (n > FFT_MOST)
		return misfit(f, "a line of %lld numbers has more than %d", (long long)n, FFT_MOST);
	if (f->op == OP_rfft) {
		out->dim[axis] = n / 2 + 1;
		out->dim[out->ndim++] = 2;
	} else if (f->op == OP_irfft) {
		out->dim[axis] = n;
		out->ndim--;
	}
	return STATUS_OK;
}

/* The axes before those of the complex numbers broadcast. */
static enum status infer_pairs(const struct inference *f)
{
	TRY(check_pairs(f, &f->v->shape));
	TRY(check_pairs(f, &f->a->shape));
	return infer_broadcast(f);
}

static enum status infer_cast(const struct inference *f)
{
	f->y->dtype = f->attrs->dtype;
	return STATUS_OK;
}

static enum status (*const infer_functions[OP_ROWS])(const struct inference *f) = {
#define UNARY(NAME, ...) [OP_##NAME] = infer_same,
#define BINARY(NAME, ...) [OP_##NAME] = infer_broadcast,
#define TERNARY(NAME, ...) [OP_##NAME] = infer_broadcast,
#define GENERAL(NAME, GROUP, OPERAND, ARGUMENTS, SCOPE, SHAPE, ...) [OP_##NAME] = infer_##SHAPE,
#define EXPANDED(NAME, GROUP, LEAST, MOST, OPERANDS, ARGUMENTS, SCOPE, SHAPE, DOC) [OP_##NAME] = infer_##SHAPE,
#include "ops/ops.def"
	[OP_CLASS_WEIGHT] = infer_classes,
};

bool op_has_classes(enum op op) { return infer_functions[op] == infer_classes; }

enum status op_infer(enum op op, const struct attrs *attrs, const struct type *v,
                     const struct type *const operands[MAX_OPERANDS], struct type *result, struct complaint *complaint)
{
	*result = *v;
	struct inference f = {.op = op, .attrs = attrs, .v = v, .y = result, .complaint = complaint};
	if (operands) {
		f.a = operands[0];
		memcpy(f.more, operands + 1, sizeof f.more);
	}
	TRY(infer_functions[op](&f));
	if (shape_count(&result->shape) >= 0)
		return STATUS_OK;
	(void)misfit(&f, "the result %s has too many elements", text_of(&f, &result->shape));
	return STATUS_LIMIT;
}

unsigned op_indices(enum op op)
{
	enum status (*const infers)(const struct inference *f) = infer_functions[op];
	if (infers == infer_take || infers == infer_one_hot)
		return NEED_V;
	return infers == infer_along || infers == infer_scatter || infers == infer_classes ? NEED_A : 0;
}

struct type op_keep_type(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                         const struct type *result, int index)
{
	const enum keep_kind kind = op_table[op].keeps[index].kind;
	struct type type = *v;
	if (kind == KEEP_MASK || kind == KEEP_SIGN)
		type.dtype = kind == KEEP_MASK ? DTYPE_BITS : DTYPE_SIGNS;
	if (op == OP_attention) {
		type.shape = result->shape;
		type.shape.dim[type.shape.ndim - 1] = 1;
	} else if (op == OP_groupnorm)
		type.shape = (struct shape){2, {v->shape.dim[0], attrs->groups}};
	else if (kind == KEEP_PER_ROW && v->shape.ndim > 0)
		for (int i = 0; i < v->shape.ndim; i++)
			type.shape.dim[i] = axis_named(attrs, i, v->shape.ndim) ? 1 : v->shape.dim[i];
	else if (op_table[op].class != OP_CLASS_GENERAL)
		type.shape = result->shape;
	else if (infer_functions[op] == infer_loss && a)
		(void)shape_broadcast(&v->shape, &a->shape, &type.shape);
	return type;
}

void op_name_squeezed(struct attrs *attrs, const struct shape *shape)
{
	if (attrs->has_axis)
		return;
	attrs->has_axis = true;
	for (int i = 0; i < shape->ndim; i++)
		if (shape->dim[i] == 1)
			attrs->axis[attrs->axis_count++] = i;
}

bool op_runs_along(enum op op, const struct type *v, const struct type *a)
{
	const int nv = v->shape.ndim, na = a->shape.ndim;
	if (nv == 0 || na == 0 || v->shape.dim[0] != a->shape.dim[0] || v->shape.dim[0] == 1)
		return false;
	if (op_has_classes(op))
		return na == nv - 1 || (na == 1 && nv == 1);
	if (op_is_dot(op) || op == OP_solve)
		return nv >= 3 && na == nv;
	if (op == OP_attention || op == OP_ATTENDED || op == OP_MASKED)
		return nv >= 3 && na == nv;
	const bool alike = op == OP_concat || op == OP_cmul || op == OP_stack || op == OP_take_along || op_broadcasts(op) ||
	                   op_is_tridiagonal(op) || infer_functions[op] == infer_loss;
	return alike && na == nv;
}

/* Returns ROW if a row of the result needs the same row of V alone and, if A_STREAMED, of A; else ALL. */
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

/* Returns ROW if no row of V meets another, and A broadcasts none; else ALL. */
static enum scope pairs_scope(const struct shape *v, const struct shape *a, bool a_streamed)
{
	if (a->ndim > v->ndim || v->ndim < 2)
		return SCOPE_ALL;
	return a->ndim < v->ndim || a_streamed || a->dim[0] == 1 ? SCOPE_ROW : SCOPE_ALL;
}

/* True if the new shape has V's leading extent, written or as -1. */
static bool reshape_keeps_rows(const struct attrs *attrs, const struct type *v)
{
	struct shape row = v->shape, new_row = attrs->shape;
	if (new_row.ndim == 0 || new_row.dim[0] != -1)
		return new_row.ndim > 0 && new_row.dim[0] == row.dim[0];
	shape_drop_leading(&row);
	shape_drop_leading(&new_row);
	return shape_count(&row) >= 0 && shape_count(&row) == shape_count(&new_row);
}

/* Returns SUM if each row of V has its own targets, or all rows the same, and A broadcasts no row; else ALL. */
static enum scope loss_scope(const struct shape *v, const struct shape *a, bool a_streamed)
{
	if (a->ndim > v->ndim || (a->ndim == v->ndim && !a_streamed && a->dim[0] != 1))
		return SCOPE_ALL;
	for (int i = 1; i <= a->ndim && i < v->ndim; i++)
		if (a->dim[a->ndim - i] > v->dim[v->ndim - i])
			return SCOPE_ALL;
	return SCOPE_SUM;
}

enum scope op_scope(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a, bool a_streamed)
{
	const struct op_info *info = &op_table[op];
	const int ndim = v->shape.ndim;
	int axes[MAX_DIMS], axis;
	if (ndim == 0)
		return info->scope == SCOPE_ELEM ? SCOPE_ELEM : SCOPE_ALL;
	switch (op) {
	case OP_matmul:
	case OP_linear:
		return product_scope(v, a, a_streamed);
	case OP_dot:
		return ndim >= 3 && a->shape.ndim <= 2 && !a_streamed ? SCOPE_ROW : SCOPE_ALL;
	case OP_solve:
		return ndim >= 3 ? product_scope(v, a, a_streamed) : SCOPE_ALL;
	case OP_tridiagonal:
	case OP_ON_DIAGONAL:
	case OP_ON_UPPER:
		return ndim >= 2 ? SCOPE_ROW : SCOPE_ALL;
	case OP_cholesky:
	case OP_inv:
	case OP_logdet:
		return ndim >= 3 ? SCOPE_ROW : SCOPE_ALL;
	case OP_transpose:
		transpose_axes(attrs, ndim, axes);
		return axes[0] == 0 ? SCOPE_ROW : SCOPE_ALL;
	case OP_flatten:
		return ndim < 2 ? SCOPE_ROW : SCOPE_ALL;
	case OP_reshape:
		return reshape_keeps_rows(attrs, v) ? SCOPE_ROW : SCOPE_ALL;
	case OP_stack:
	case OP_expand_dims:
		return axis_resolve(attrs->axis[0], ndim + 1, &axis) && axis > 0 ? SCOPE_ROW : SCOPE_ALL;
	case OP_squeeze:
		return v->shape.dim[0] != 1 || !axis_named(attrs, 0, ndim) ? SCOPE_ROW : SCOPE_ALL;
	case OP_tril:
	case OP_triu:
	case OP_groupnorm:
		return SCOPE_ROW;
	case OP_diag:
		return ndim > 2 ? SCOPE_ROW : SCOPE_ALL;
	case OP_broadcast_to: /* the rows stay, one by one */
		return attrs->shape.ndim == ndim && attrs->shape.dim[0] == v->shape.dim[0] ? SCOPE_ROW : SCOPE_ALL;
	case OP_tile:
		return attrs->shape.ndim < ndim || (attrs->shape.ndim == ndim && attrs->shape.dim[0] == 1) ? SCOPE_ROW
		                                                                                           : SCOPE_ALL;
	case OP_take:
		return axis_resolve(attrs->axis[0], a->shape.ndim, &axis) && axis == 0 ? SCOPE_ROW : SCOPE_ALL;
	case OP_take_along: /* each row of V has its own indices, or all rows the same */
		return axis_named(attrs, 0, ndim) || !(a_streamed || a->shape.dim[0] == 1) ? SCOPE_ALL : SCOPE_ROW;
	case OP_scatter_add:
		return axis_resolve(attrs->axis[0], ndim - a->shape.ndim + 1, &axis) && axis > 0 ? SCOPE_ROW : SCOPE_ALL;
	case OP_one_hot:
		return SCOPE_ROW;
	case OP_fft:
	case OP_ifft:
	case OP_rfft:
	case OP_irfft:
		return op_transform_axis(op, attrs, ndim, &axis) && axis > 0 ? SCOPE_ROW : SCOPE_ALL;
	case OP_cmul:
		return pairs_scope(&v->shape, &a->shape, a_streamed);
	case OP_attention:
	case OP_ATTENDED:
	case OP_MASKED:
		return ndim >= 3 && a_streamed && a->shape.ndim == ndim ? SCOPE_ROW : SCOPE_ALL;
	case OP_upsample:
		return op_is_resampled(attrs, 0, ndim) ? SCOPE_ALL : SCOPE_ROW;
	case OP_mse:
	case OP_mae:
	case OP_huber:
		return loss_scope(&v->shape, &a->shape, a_streamed);
	case OP_cross_entropy:
		/* If rows are ignored, the divisor is known at the end. So the derivative of a tile waits for it. */
		if (ndim < 2 || !a_streamed)
			return SCOPE_ALL;
		return attrs->ignore.given && attrs->reduction == REDUCTION_MEAN ? SCOPE_FOLD : SCOPE_SUM;
	case OP_nll:
	case OP_CLASS_WEIGHT: /* each row of V has its own classes */
		return a_streamed && op_class_axis(attrs, ndim) > 0 ? SCOPE_ROW : SCOPE_ALL;
	default:
		if (info->scope == SCOPE_ELEM || op_is_product(op))
			return info->scope;
		if (op_window_axes(op))
			return ndim > op_window_axes(op) ? SCOPE_ROW : SCOPE_ALL;
		if (!axis_named(attrs, 0, ndim))
			return SCOPE_ROW;
		if (op_normalizes(op)) /* over other axes too, rows meet otherwise than in folds */
			return attrs->axis_count == 1 ? SCOPE_NORM : SCOPE_ALL;
		if (op == OP_slice && attrs->step != 1)
			return SCOPE_ALL;
		return infer_functions[op] == infer_reduce || info->scope == SCOPE_NEIGHBOUR ? info->scope : SCOPE_ALL;
	}
}

/* Returns the rows by which a roll moves N rows down or, if negative, up: at most half of them. */
static int64_t shift_of(const struct attrs *attrs, int64_t n)
{
	const int64_t down = n > 0 ? (attrs->shift % n + n) % n : 0;
	return down > n / 2 ? down - n : down;
}

struct halo op_halo(enum op op, const struct attrs *attrs, const struct type *v)
{
	struct halo halo = {0};
	if (op_table[op].scope != SCOPE_NEIGHBOUR || op_scope(op, attrs, v, NULL, false) != SCOPE_NEIGHBOUR)
		return halo;
	const int64_t n = v->shape.dim[0];
	switch (op) {
	case OP_roll:
		halo.before = shift_of(attrs, n);
		halo.wraps = true;
		break;
	case OP_pad:
		halo.before = attrs->before;
		halo.grows = attrs->before + attrs->after;
		break;
	case OP_slice:
		halo.before = -slice_of(attrs, n).start;
		halo.grows = slice_of(attrs, n).count - n;
		halo.edge_after = halo.before - halo.grows;
		break;
	default:
		halo.before = halo.after = op == OP_stencil ? attrs->weights.count / 2 : attrs->order / 2;
		halo.wraps = attrs->boundary == BOUNDARY_PERIODIC;
		halo.edge_before = halo.edge_after = attrs->boundary == BOUNDARY_REFLECT;
	}
	if (halo.before < 0) {
		halo.after = -halo.before;
		halo.before = 0;
	}
	return halo;
}

void op_attrs_for_window(enum op op, struct attrs *attrs, const struct type *v)
{
	const int64_t n = v->shape.dim[0];
	if (op == OP_roll)
		attrs->shift = shift_of(attrs, n);
	if (op == OP_slice) {
		const struct slice slice = slice_of(attrs, n);
		const int64_t cut = n - slice.start - slice.count;
		attrs->start = (struct slice_bound){true, slice.start};
		attrs->stop = (struct slice_bound){cut > 0, -cut};
	}
}

double op_cost(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
               const struct type *result)
{
	if (op == OP_IMPLICIT || op == OP_SOLUTION) /* their cost is that of the loop */
		return 0;
	const double in = (double)shape_count(&v->shape);
	const double out = op == OP_COLLECT ? in : (double)shape_count(&result->shape); /* it writes one part */
	const double flops = op_table[op].flops > 0 ? op_table[op].flops : 0.25;        /* to move an element */
	if (op_is_dot(op)) {
		const struct shape *left = op == OP_dot ? &a->shape : &v->shape;
		return flops * out * (double)left->dim[left->ndim - 1];
	}
	if (op == OP_attention) { /* two products, and the exponentials of all scores */
		const double keys = (double)a->shape.dim[a->shape.ndim - 2], depth = (double)a->shape.dim[a->shape.ndim - 1];
		const double last = (double)result->shape.dim[result->shape.ndim - 1];
		return out / fmax(last, 1) * keys * (2 * depth + 2 * last + flops);
	}
	if (op_is_product(op))
		return flops * (op_is_transposed(op) ? in : out) * (double)shape_count(&a->shape) /
		       (double)(a->shape.dim[0] ? a->shape.dim[0] : 1);
	if (op_libraries(op) & LIBRARY_LAPACK && !op_is_tridiagonal(op)) { /* each element meets each row of its matrix */
		const struct shape *square = op == OP_solve ? &a->shape : &v->shape;
		return flops * fmax(in, (double)shape_count(square)) * (double)square->dim[square->ndim - 1];
	}
	if (op_is_transform(op)) {
		int axis = 0;
		(void)op_transform_axis(op, attrs, v->shape.ndim, &axis);
		const double n = (double)(op == OP_irfft ? result : v)->shape.dim[axis];
		return flops * fmax(in, out) * (1 + log2(fmax(n, 1)));
	}
	if (op_window_axes(op)) {
		const bool flat = op_window_axes(op) == 1;
		return flops * fmax(in, out * (double)attrs->window[0] * (flat ? 1 : (double)attrs->window[1]));
	}
	const double neighbours = op == OP_stencil     ? (double)attrs->weights.count
	                          : op == OP_laplacian ? (double)attrs->order / 2
	                                               : 1;
	return neighbours * flops * fmax(in, out);
}
