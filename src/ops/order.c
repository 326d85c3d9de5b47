/*
 * Operations that sort the elements of lines: sort, argsort, topk and argtopk along one axis, median and quantile over any
 * axes. Equal elements stay in their order. A NaN is larger than any number, as in NumPy and torch. A derivative goes to the elements
 * that were chosen. It sorts again, so that nothing but the value is kept.
 * Tests: tests/unit/test_general.c, tests/cases/order.test
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

/* An element of a line, and its place in the line. */
struct entry {
	double x;
	int64_t at;
};

/*
 * The lines of an array: N elements each, along the axes LONG; the others, SHORT, count the lines. COUNT is the number of axes,
 * EXTENT and STEP those of each, in order. Of one axis, STEPS[0] is the number of elements behind it.
 */
struct axes {
	int count;
	int64_t extent[MAX_DIMS], step[MAX_DIMS], elements;
};
struct ordering {
	const struct op_call *call;
	struct axes along, beside;
	const void *v, *g;
	void *to; /* y, or dv */
	bool descending;
};

/* Returns the offset of element I of those that AXES count. */
static int64_t axes_offset(const struct axes *axes, int64_t i)
{
	int64_t offset = 0;
	for (int k = axes->count; k-- > 0; i /= axes->extent[k])
		offset += i % axes->extent[k] * axes->step[k];
	return offset;
}

static void add_axis(struct axes *axes, int64_t extent, int64_t step)
{
	axes->extent[axes->count] = extent;
	axes->step[axes->count++] = step;
	axes->elements *= extent;
}

/* Stores in O the axes of SHAPE, those that ATTRS name as the axes of its lines. */
static void find_lines(struct ordering *o, const struct attrs *attrs, const struct shape *shape)
{
	int64_t step[MAX_DIMS], size = 1;
	o->along = o->beside = (struct axes){.elements = 1};
	for (int k = shape->ndim; k-- > 0; size *= shape->dim[k])
		step[k] = size;
	for (int k = 0; k < shape->ndim; k++)
		add_axis(axis_named(attrs, k, shape->ndim) ? &o->along : &o->beside, shape->dim[k], step[k]);
}

static bool precedes(double x, double y, bool descending)
{
	if (descending)
		return x > y || (isnan(x) && !isnan(y));
	return x < y || (isnan(y) && !isnan(x));
}

/* Merges entries of two sorted runs, FROM[0 .. HALF-1] and FROM[HALF .. N-1], in TO. */
static void merge_runs(struct entry *to, const struct entry *from, int64_t half, int64_t n, bool descending)
{
	int64_t left = 0, right = half;
	for (int64_t i = 0; i < n; i++) {
		const bool second = left == half || (right < n && precedes(from[right].x, from[left].x, descending));
		to[i] = second ? from[right++] : from[left++];
	}
}

/* Sorts N entries at E, by runs that grow twofold, with as many behind them as memory. Returns where the result is. */
static struct entry *sort_entries(struct entry *e, int64_t n, bool descending)
{
	enum { RUN = 16 };
	struct entry *from = e, *to = e + n;
	for (int64_t begin = 0; begin < n; begin += RUN)
		for (int64_t i = begin + 1; i < n && i < begin + RUN; i++) {
			const struct entry own = e[i];
			int64_t at = i;
			for (; at > begin && precedes(own.x, e[at - 1].x, descending); at--)
				e[at] = e[at - 1];
			e[at] = own;
		}
	for (int64_t run = RUN; run < n; run *= 2) {
		for (int64_t begin = 0; begin < n; begin += 2 * run) {
			const int64_t some = lesser(n - begin, 2 * run);
			merge_runs(to + begin, from + begin, lesser(run, some), some, descending);
		}
		struct entry *const other = from;
		from = to;
		to = other;
	}
	return from;
}

/* Returns line LINE of O, sorted, in MEMORY. */
static const struct entry *sorted_line(const struct ordering *o, void *memory, int64_t line)
{
	struct entry *const e = memory;
	const int64_t n = o->along.elements, first = axes_offset(&o->beside, line);
	for (int64_t i = 0; i < n; i++)
		e[i] = (struct entry){element_get(o->call->v->dtype, o->v, (size_t)(first + axes_offset(&o->along, i))), i};
	return sort_entries(e, n, o->descending);
}

/* Returns the offset in the result, of COUNT elements along the axis, of line LINE's first. */
static int64_t result_offset(const struct ordering *o, int64_t line, int64_t count)
{
	const int64_t inner = o->along.step[0];
	return line / inner * count * inner + line % inner;
}

/* Stores the elements of lines BEGIN .. END-1 in order, or their places, or hands their cotangents back. */
static void order_lines(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct ordering *o = context;
	const struct op_call *call = o->call;
	const enum dtype dtype = call->v->dtype;
	const int64_t n = o->along.elements, inner = o->along.step[0];
	const int64_t count = call->op == OP_topk || call->op == OP_argtopk ? call->attrs->n : n;
	for (int64_t line = begin; line < end; line++) {
		const struct entry *e = sorted_line(o, memory ? memory : call->scratch, line);
		const int64_t to = result_offset(o, line, count), from = result_offset(o, line, n);
		for (int64_t i = 0; i < count; i++) {
			const size_t at = (size_t)(to + i * inner);
			if (call->op == OP_argsort || call->op == OP_argtopk)
				((double *)o->to)[at] = (double)e[i].at;
			else if (o->g)
				element_set(dtype, o->to, (size_t)(from + e[i].at * inner), element_get(dtype, o->g, at));
			else
				element_set(dtype, o->to, at, e[i].x);
		}
	}
}

/* Where a quantile lies in a sorted line: PART of the way from element BELOW to element ABOVE. */
struct quantile {
	int64_t below, above;
	double part;
};

static struct quantile quantile_of(const struct op_call *call, int64_t n)
{
	const double at = (call->op == OP_median ? 0.5 : call->attrs->q) * (double)(n - 1), below = floor(at);
	return (struct quantile){(int64_t)below, (int64_t)ceil(at), at - below};
}

/* Returns the number PART of the way from X to Y, as NumPy rounds it. Equal infinities have no difference. */
static double between(double x, double y, double part)
{
	if (x == y || part == 0)
		return x;
	if (part == 0.5 && isfinite(x + y))
		return (x + y) / 2;
	if (part == 0.5)
		return x / 2 + y / 2;
	return part < 0.5 ? x + (y - x) * part : y - (y - x) * (1 - part);
}

static void quantile_lines(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct ordering *o = context;
	const enum dtype dtype = o->call->v->dtype;
	const struct quantile q = quantile_of(o->call, o->along.elements);
	for (int64_t line = begin; line < end; line++) {
		const struct entry *e = sorted_line(o, memory ? memory : o->call->scratch, line);
		const double last = e[o->along.elements - 1].x;
		if (!o->g) {
			element_set(dtype, o->to, (size_t)line, isnan(last) ? last : between(e[q.below].x, e[q.above].x, q.part));
			continue;
		}
		const double g = element_get(dtype, o->g, (size_t)line);
		const int64_t first = axes_offset(&o->beside, line);
		if (isnan(last))
			continue;
		element_set(dtype, o->to, (size_t)(first + axes_offset(&o->along, e[q.below].at)), g * (1 - q.part));
		if (q.part > 0)
			element_set(dtype, o->to, (size_t)(first + axes_offset(&o->along, e[q.above].at)), g * q.part);
	}
}

int64_t order_scratch(const struct attrs *attrs, const struct type *v)
{
	struct ordering o;
	int64_t bytes;
	find_lines(&o, attrs, &v->shape);
	return __builtin_mul_overflow(o.along.elements, 2 * (int64_t)sizeof(struct entry), &bytes) ? INT64_MAX : bytes;
}

/* Makes Y of V or, if G is given, dv of G. */
static void put_in_order(const struct op_call *call, void *to, const void *v, const void *g)
{
	struct ordering o = {.call = call, .v = v, .g = g, .to = to, .descending = call->attrs->number[0] != 0};
	const bool quantile = call->op == OP_median || call->op == OP_quantile;
	find_lines(&o, call->attrs, &call->v->shape);
	if (quantile)
		o.descending = false;
	if (g)
		memset(to, 0, (size_t)type_bytes(call->v));
	team_run(call->team, o.beside.elements, greater(TEAM_PIECE / greater(o.along.elements, 1) / 16, 1),
	         quantile ? quantile_lines : order_lines, &o);
}

static void put_zeros(const struct op_call *call, void *dv) { memset(dv, 0, (size_t)type_bytes(call->v)); }

FORWARD(sort) { put_in_order(call, y, v, NULL); }
VJP(sort) { put_in_order(call, dv, needs[0], g); }
FORWARD(argsort) { put_in_order(call, y, v, NULL); }
VJP(argsort) { put_zeros(call, dv); }
FORWARD(topk) { put_in_order(call, y, v, NULL); }
VJP(topk) { put_in_order(call, dv, needs[0], g); }
FORWARD(argtopk) { put_in_order(call, y, v, NULL); }
VJP(argtopk) { put_zeros(call, dv); }
FORWARD(median) { put_in_order(call, y, v, NULL); }
VJP(median) { put_in_order(call, dv, needs[0], g); }
FORWARD(quantile) { put_in_order(call, y, v, NULL); }
VJP(quantile) { put_in_order(call, dv, needs[0], g); }
