/*
 * Operations that read indices, and those that find them: argmax and argmin.
 *
 * An index is a whole number from -N to N - 1 along an axis of N elements. Negative ones count from the end. Arrays of
 * indices are held as all arrays are, as floats or doubles, which hold these numbers exactly. The evaluator checks them
 * before an operation reads them (op_check_indices). Here a number that is no index counts as 0. So measurements of
 * time, whose arrays hold any numbers, stay within the arrays.
 *
 * take copies rows of its operand, and scatter_add adds rows of its value: each is the other's derivative. Rows are added
 * one after another, in the order of the indices. A team shares their columns. So the bits do not depend on the team. They
 * do not depend on tiles either, since tiles add rows to the same sum, in order (take_pieces). No matrix of zeros and ones
 * is made.
 * Tests: tests/unit/test_general.c, tests/cases/indices.test
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

/* The array that an index selects from: [outer, n, inner]. COUNT indices replace its n. */
struct selection {
	int64_t outer, n, inner, count;
	enum dtype dtype; /* of the indices */
	const void *indices;
};

static bool is_index(double x, double n) { return x >= -n && x < n && x == floor(x); }

/* Returns element I of the indices, from 0 on; 0 if it is none. */
static int64_t selected(const struct selection *s, int64_t i)
{
	const double x = element_get(s->dtype, s->indices, (size_t)i);
	if (!is_index(x, (double)s->n))
		return 0;
	return (int64_t)x + (x < 0 ? s->n : 0);
}

/* The arguments of a copy or an addition of rows that a team shares. ROWS have S's n, PARTS its count. */
struct moving {
	struct selection of;
	const struct loops *loops;
	char *to;
	const char *from;
	size_t size; /* of an element */
};

/* Returns the moving of CALL, a take or a scatter_add, by INDICES. */
static struct moving moving_of(const struct op_call *call, const void *indices)
{
	const bool takes = call->op == OP_take;
	const struct type *type = takes ? call->v : call->a, *rows = takes ? call->a : call->y;
	const struct axis_view view = axis_view_named(call->attrs, &rows->shape);
	return (struct moving){.of = {view.outer, view.n, view.inner, shape_count(&type->shape), type->dtype, indices},
	                       .loops = call->kernels->loops,
	                       .size = element_size(rows->dtype)};
}

/* Copies the rows of indices BEGIN .. END-1. */
static void copy_selected(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct moving *m = context;
	const struct selection *s = &m->of;
	const size_t row = (size_t)s->inner * m->size;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = begin; i < end; i++)
			memcpy(m->to + (size_t)(o * s->count + i) * row, m->from + (size_t)(o * s->n + selected(s, i)) * row, row);
}

/* Stores in TO the rows of FROM that INDICES select. */
static void gather_rows(const struct op_call *call, void *to, const void *from, const void *indices)
{
	struct moving m = moving_of(call, indices);
	m.to = to;
	m.from = from;
	team_run(call->team, m.of.count, greater(TEAM_PIECE / greater(m.of.inner, 1), 1), copy_selected, &m);
}

/* Adds columns BEGIN .. END-1 of all rows to those of their indices. */
static void add_selected(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct moving *m = context;
	const struct selection *s = &m->of;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->count; i++) {
			const int64_t to = (o * s->n + selected(s, i)) * s->inner, from = (o * s->count + i) * s->inner;
			m->loops->accumulate(m->to + (size_t)(to + begin) * m->size, m->from + (size_t)(from + begin) * m->size,
			                     (size_t)(end - begin));
		}
}

/* Stores in TO, of TYPE, the sums of the rows of FROM that have the same index. */
static void scatter_rows(const struct op_call *call, const struct type *type, void *to, const void *from,
                         const void *indices)
{
	enum { LEAST_COLUMNS = 64 };
	struct moving m = moving_of(call, indices);
	m.to = memset(to, 0, (size_t)type_bytes(type));
	m.from = from;
	team_run(call->team, m.of.inner, LEAST_COLUMNS, add_selected, &m);
}

/* The derivative of an operation by what it has none of. */
static void no_derivative(const struct type *type, void *d)
{
	if (d)
		memset(d, 0, (size_t)type_bytes(type));
}

FORWARD(take) { gather_rows(call, y, a, v); }

/* da[v] += g */
VJP(take)
{
	no_derivative(call->v, dv);
	if (da)
		scatter_rows(call, call->a, da, g, needs[0]);
}

FORWARD(scatter_add) { scatter_rows(call, call->y, y, v, a); }

/* dv = g[a] */
VJP(scatter_add)
{
	if (dv)
		gather_rows(call, dv, g, needs[1]);
	no_derivative(call->a, da);
}

void take_pieces(const struct op_call *call, const void *g, const void *const needs[MAX_NEEDS],
                 const struct piece_user *user)
{
	const struct moving m = moving_of(call, needs[0]);
	const struct selection *s = &m.of;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->count; i++) {
			const int64_t first = (o * s->n + selected(s, i)) * s->inner;
			const void *data = element_at(g, m.size, (o * s->count + i) * s->inner);
			user->end(user->context, &(struct matrix_piece){data, first, s->inner, 1, s->inner});
		}
}

FORWARD(one_hot)
{
	const struct selection s = {1, call->attrs->n, 1, shape_count(&call->v->shape), call->v->dtype, v};
	memset(y, 0, (size_t)(s.count * s.n) * element_size(call->y->dtype));
	for (int64_t i = 0; i < s.count; i++)
		element_set(call->y->dtype, y, (size_t)(i * s.n + selected(&s, i)), 1);
}
VJP(one_hot) { no_derivative(call->v, dv); }

/* Along an axis. */

/* Counts through the elements of SHAPE in order; AT are the offsets of one in arrays that have STEP from index to index. */
struct walk_along {
	const struct shape *shape;
	int64_t counted[MAX_DIMS], step[2][MAX_DIMS], at[2];
};

/* Begins at the first element of the result: [0] is V's element with the index 0, [1] the index. */
static void walk_begin(struct walk_along *w, const struct op_call *call, int axis)
{
	const struct shape *shapes[] = {&call->v->shape, &call->a->shape};
	*w = (struct walk_along){.shape = &call->y->shape};
	for (int k = 0; k < 2; k++) {
		int64_t step = 1;
		for (int d = shapes[k]->ndim; d-- > 0; step *= shapes[k]->dim[d])
			w->step[k][d] = shapes[k]->dim[d] == 1 || (k == 0 && d == axis) ? 0 : step;
	}
}

static void walk_next(struct walk_along *w)
{
	for (int d = w->shape->ndim; d-- > 0;) {
		const bool ends = ++w->counted[d] == w->shape->dim[d];
		for (int k = 0; k < 2; k++)
			w->at[k] += ends ? -(w->shape->dim[d] - 1) * w->step[k][d] : w->step[k][d];
		if (!ends)
			return;
		w->counted[d] = 0;
	}
}

/* Reads v[..., index, ...] to Y for each index or, if Y is NULL, adds G there to DV. */
static void move_along(const struct op_call *call, const void *indices, void *y, const void *v, void *dv, const void *g)
{
	const enum dtype dtype = call->v->dtype;
	const struct axis_view view = axis_view_named(call->attrs, &call->v->shape);
	const struct selection s = {view.outer, view.n, view.inner, shape_count(&call->a->shape), call->a->dtype, indices};
	const int64_t count = shape_count(&call->y->shape);
	struct walk_along w;
	int axis = 0;
	(void)axis_resolve(call->attrs->axis[0], call->v->shape.ndim, &axis);
	walk_begin(&w, call, axis);
	for (int64_t i = 0; i < count; i++, walk_next(&w)) {
		const int64_t at = w.at[0] + selected(&s, w.at[1]) * s.inner;
		if (y)
			element_set(dtype, y, (size_t)i, element_get(dtype, v, (size_t)at));
		else
			call->kernels->loops->accumulate(element_of(dv, element_size(dtype), at),
			                                 element_at(g, element_size(dtype), i), 1);
	}
}

FORWARD(take_along) { move_along(call, a, y, v, NULL, NULL); }
VJP(take_along)
{
	no_derivative(call->a, da);
	if (!dv)
		return;
	memset(dv, 0, (size_t)type_bytes(call->v));
	move_along(call, needs[1], NULL, NULL, dv, g);
}

/* Positions. */

struct finding {
	struct axis_view view;
	const void *v;
	double *y; /* positions */
	enum dtype dtype;
	bool least;
};

/* True if X comes before BEST, the element found so far: a NaN comes before all others. */
static bool comes_first(const struct finding *f, double x, double best)
{
	return isnan(best) ? false : isnan(x) || (f->least ? x < best : x > best);
}

/* Finds the positions of lines BEGIN .. END-1 of those at one outer index after another. */
static void find_positions(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct finding *f = context;
	const struct axis_view *w = &f->view;
	for (int64_t line = begin; line < end; line++) {
		const int64_t first = line / w->inner * w->n * w->inner + line % w->inner;
		double best = element_get(f->dtype, f->v, (size_t)first);
		int64_t found = 0;
		for (int64_t k = 1; k < w->n; k++) {
			const double x = element_get(f->dtype, f->v, (size_t)(first + k * w->inner));
			if (comes_first(f, x, best)) {
				best = x;
				found = k;
			}
		}
		f->y[line] = (double)found;
	}
}

/* Positions are doubles, whatever the type of the values. */
static void find_position(const struct op_call *call, void *y, const void *v)
{
	struct finding f = {.v = v, .y = y, .dtype = call->v->dtype, .least = call->op == OP_argmin};
	f.view = call->attrs->has_axis ? axis_view_named(call->attrs, &call->v->shape)
	                               : (struct axis_view){1, shape_count(&call->v->shape), 1};
	team_run(call->team, f.view.outer * f.view.inner, greater(TEAM_PIECE / greater(f.view.n, 1), 1), find_positions,
	         &f);
}

FORWARD(argmax) { find_position(call, y, v); }
FORWARD(argmin) { find_position(call, y, v); }
VJP(argmax) { no_derivative(call->v, dv); }
VJP(argmin) { no_derivative(call->v, dv); }

/* Checks. */

/*
 * Returns the number of elements that the indices of CALL select from: those of *AXIS of *OF, or n.
 * Returns -1 if CALL does not select by indices, as a loss by classes.
 */
static int64_t extent_of(const struct op_call *call, const struct type **of, int *axis)
{
	*of = call->op == OP_take ? call->a : call->op == OP_take_along ? call->v : NULL;
	if (!*of)
		return call->op == OP_scatter_add || call->op == OP_one_hot ? call->attrs->n : -1;
	(void)axis_resolve(call->attrs->axis[0], (*of)->shape.ndim, axis);
	return (*of)->shape.dim[*axis];
}

/* Writes the place of element I of an array of SHAPE, of which row FIRST is the first, to TEXT, as in "[3,0]". */
static const char *element_text(char text[OP_CHECK_TEXT], const struct shape *shape, int64_t first, int64_t i)
{
	int64_t rest = shape_count(shape);
	size_t used = (size_t)snprintf(text, OP_CHECK_TEXT, "[");
	for (int k = 0; k < shape->ndim && used < OP_CHECK_TEXT; k++) {
		rest /= shape->dim[k];
		const long long at = i / rest + (k == 0 ? first : 0);
		used += (size_t)snprintf(text + used, OP_CHECK_TEXT - used, "%s%lld", k ? "," : "", at);
		i %= rest;
	}
	if (used < OP_CHECK_TEXT)
		snprintf(text + used, OP_CHECK_TEXT - used, "]");
	return text;
}

bool op_check_indices(const struct op_call *call, const void *indices, struct operand_wrong *wrong)
{
	const struct type *type = op_indices(call->op) == NEED_V ? call->v : call->a, *of;
	const int64_t count = shape_count(&type->shape);
	int axis = 0;
	const int64_t n = extent_of(call, &of, &axis);
	int64_t i = 0;
	if (n < 0)
		return op_check_operand(call->op, call->attrs, call->v, type, indices, wrong);
	while (i < count && is_index(element_get(type->dtype, indices, (size_t)i), (double)n))
		i++;
	if (i == count)
		return true;
	char place[OP_CHECK_TEXT], extents[TYPE_TEXT], beyond[OP_CHECK_TEXT];
	const struct shape *v = &call->v->shape;
	const int64_t row = v->ndim && v->dim[0] ? shape_count(v) / v->dim[0] : 1;
	const bool rows = type->shape.ndim && v->ndim && type->shape.dim[0] == v->dim[0]; /* of a tile, after others */
	if (of)
		snprintf(beyond, sizeof beyond, "axis %d of %.40s", axis, shape_format(&of->shape, extents));
	else
		snprintf(beyond, sizeof beyond, "n=%lld", (long long)n);
	snprintf(wrong->message, sizeof wrong->message, "index %.17g at %.60s is out of range for %.80s",
	         element_get(type->dtype, indices, (size_t)i),
	         element_text(place, &type->shape, rows ? call->first / greater(row, 1) : 0, i), beyond);
	snprintf(wrong->hint, sizeof wrong->hint,
	         "indices are the whole numbers %lld to %lld; negative ones count from the end", (long long)-n,
	         (long long)n - 1);
	return false;
}
