/*
 * Operations that read indices: take, an embedding.
 *
 * An index is a whole number from -N to N - 1 along an axis of N elements. Negative ones count from the end. Arrays of
 * indices are held as all arrays are, as floats or doubles, which hold these numbers exactly. The evaluator checks them
 * before an operation reads them (op_check_indices). Here a number that is no index counts as 0. So measurements of
 * time, whose arrays hold any numbers, stay within the arrays.
 *
 * The derivative of take adds rows one after another, in the order of the indices. A team shares their columns. So the
 * bits do not depend on the team. They do not depend on tiles either, since tiles add rows to the same sum, in order
 * (take_pieces). No matrix of zeros and ones is made.
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

/* The arguments of a take that a team shares. */
struct taking {
	struct selection of;
	const struct loops *loops;
	char *to;
	const char *from;
	size_t size; /* of an element */
};

static struct taking taking_of(const struct op_call *call, const void *indices)
{
	const struct axis_view view = axis_view_named(call->attrs, &call->a->shape);
	return (struct taking){
		.of = {view.outer, view.n, view.inner, shape_count(&call->v->shape), call->v->dtype, indices},
		.loops = call->kernels->loops,
		.size = element_size(call->a->dtype)};
}

/* Returns the elements of an array of rows of INNER elements that are worth a piece of a team's. */
static int64_t piece_rows(int64_t inner) { return greater(TEAM_PIECE / greater(inner, 1), 1); }

/* Copies the rows of indices BEGIN .. END-1. */
static void take_rows(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct taking *t = context;
	const struct selection *s = &t->of;
	const size_t row = (size_t)s->inner * t->size;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = begin; i < end; i++)
			memcpy(t->to + (size_t)(o * s->count + i) * row, t->from + (size_t)(o * s->n + selected(s, i)) * row, row);
}

FORWARD(take)
{
	struct taking t = taking_of(call, v);
	t.to = y;
	t.from = a;
	team_run(call->team, t.of.count, piece_rows(t.of.inner), take_rows, &t);
}

/* Adds columns BEGIN .. END-1 of all rows of the cotangent to the rows of their indices. */
static void add_taken(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct taking *t = context;
	const struct selection *s = &t->of;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->count; i++) {
			const int64_t to = (o * s->n + selected(s, i)) * s->inner, from = (o * s->count + i) * s->inner;
			t->loops->accumulate(t->to + (size_t)(to + begin) * t->size, t->from + (size_t)(from + begin) * t->size,
			                     (size_t)(end - begin));
		}
}

/* dT[v] += g, row after row */
VJP(take)
{
	enum { LEAST_COLUMNS = 64 };
	struct taking t = taking_of(call, needs[0]);
	if (dv)
		memset(dv, 0, (size_t)type_bytes(call->v));
	if (!da)
		return;
	memset(da, 0, (size_t)type_bytes(call->a));
	t.to = da;
	t.from = g;
	team_run(call->team, t.of.inner, LEAST_COLUMNS, add_taken, &t);
}

void take_pieces(const struct op_call *call, const void *g, const void *const needs[MAX_NEEDS],
                 const struct piece_user *user)
{
	const struct taking t = taking_of(call, needs[0]);
	const struct selection *s = &t.of;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->count; i++) {
			const int64_t first = (o * s->n + selected(s, i)) * s->inner;
			const void *data = element_at(g, t.size, (o * s->count + i) * s->inner);
			user->end(user->context, &(struct matrix_piece){data, first, s->inner, 1, s->inner});
		}
}

/* Checks. */

/* Returns the number of elements of the axis that the indices of CALL are of, and sets *AXIS to that axis of *OF. */
static int64_t extent_of(const struct op_call *call, const struct type **of, int *axis)
{
	*of = call->a;
	(void)axis_resolve(call->attrs->axis[0], call->a->shape.ndim, axis);
	return call->a->shape.dim[*axis];
}

/* Writes the place of element I of an array of SHAPE, of which row FIRST is the first, to TEXT, as in "[3,0]". */
static const char *place_text(char text[OP_CHECK_TEXT], const struct shape *shape, int64_t first, int64_t i)
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
	int axis;
	const int64_t n = extent_of(call, &of, &axis);
	int64_t i = 0;
	while (i < count && is_index(element_get(type->dtype, indices, (size_t)i), (double)n))
		i++;
	if (i == count)
		return true;
	char place[OP_CHECK_TEXT], extents[TYPE_TEXT];
	const int64_t rows = call->v->shape.ndim && call->v->shape.dim[0] ? call->v->shape.dim[0] : 1;
	const int64_t first = call->first / greater(shape_count(&call->v->shape) / rows, 1);
	const double x = element_get(type->dtype, indices, (size_t)i);
	snprintf(wrong->message, sizeof wrong->message, "index %.17g at %.60s is out of range for axis %d of %.40s", x,
	         place_text(place, &type->shape, first, i), axis, shape_format(&of->shape, extents));
	snprintf(wrong->hint, sizeof wrong->hint,
	         "indices are the whole numbers %lld to %lld; negative ones count from the end", (long long)-n,
	         (long long)n - 1);
	return false;
}
