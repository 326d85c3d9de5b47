/*
 * laplacian: the sum over axes of second differences, over dx^2. In floating
 * point, for each element: along each axis of the list in increasing order,
 * (before - 2 v) + after; these are added in that order; the sum is divided by
 * dx * dx where dx is not 1.
 *
 * Outside, a periodic axis goes round; boundary zero has zeros; reflect mirrors
 * without repeating the edge (index -1 is 1), and an axis of extent 1 mirrors
 * itself. Periodic and zero are symmetric, and are their own adjoints. The
 * adjoint of reflect counts the ends twice where they are neighbours and has
 * zeros outside.
 *
 * The array is walked once, row by row: the differences of a row along all axes
 * are made while it is in the cache.
 */
#include <string.h>

#include "ops/lines.h"

struct across {        /* an axis whose neighbours are whole rows */
	int64_t n, stride; /* in rows */
};

struct stencil {
	const struct op_call *call;
	const struct loops *loops;
	size_t size;
	bool adjoint;    /* of reflect */
	int64_t rows, n; /* rows of n elements */
	bool along;      /* the last axis is among the axes */
	int count;
	struct across across[MAX_DIMS];
	char *zeros, *doubled[2]; /* a row each */
};

static void stencil_of(struct stencil *s, const struct op_call *call, void *scratch, bool adjoint)
{
	const struct shape *shape = &call->v->shape;
	bool named[MAX_DIMS];
	int last = shape->ndim - 1;
	*s =
		(struct stencil){.call = call, .loops = loops_get(call->kernels), .size = element_size(call->v->dtype), .n = 1};
	s->adjoint = adjoint && call->attrs->boundary == BOUNDARY_REFLECT;
	reduction_axes(call->attrs, shape, named);
	s->along = named[last];
	if (s->along)
		s->n = shape->dim[last--];
	else
		while (last >= 0 && !named[last])
			s->n *= shape->dim[last--];
	s->rows = 1;
	for (; last >= 0; last--) {
		if (named[last])
			s->across[s->count++] = (struct across){shape->dim[last], s->rows};
		s->rows *= shape->dim[last];
	}
	s->zeros = scratch;
	s->doubled[0] = s->zeros + (size_t)s->n * s->size;
	s->doubled[1] = s->doubled[0] + (size_t)s->n * s->size;
	memset(s->zeros, 0, (size_t)s->n * s->size);
}

/* The neighbour of place I (-1 .. n) along an axis of N; -1: zero; *TWICE: counted twice. */
static int64_t neighbour(const struct stencil *s, int64_t i, int64_t n, bool *twice)
{
	*twice = s->adjoint && n > 1 && (i == 0 || i == n - 1);
	if (i >= 0 && i < n)
		return i;
	if (n == 1 && s->call->attrs->boundary != BOUNDARY_ZERO)
		return 0;
	*twice = false;
	switch (s->adjoint ? BOUNDARY_ZERO : s->call->attrs->boundary) {
	case BOUNDARY_PERIODIC:
		return i < 0 ? n - 1 : 0;
	case BOUNDARY_REFLECT:
		return i < 0 ? 1 : n - 2;
	case BOUNDARY_ZERO:
		break;
	}
	return -1;
}

static const void *row_beside(const struct stencil *s, const void *v, int64_t row, const struct across *axis, int side)
{
	const int64_t i = row / axis->stride % axis->n;
	bool twice;
	const int64_t j = neighbour(s, i + side, axis->n, &twice);
	if (j < 0)
		return s->zeros;
	const void *beside = element_at(v, s->size, (row + (j - i) * axis->stride) * s->n);
	if (!twice)
		return beside;
	char *to = s->doubled[side > 0];
	s->loops->multiply(to, beside, &(double){2}, (size_t)s->n, 1);
	return to;
}

static double value_beside(const struct stencil *s, const void *row, int64_t i)
{
	bool twice;
	const int64_t j = neighbour(s, i, s->n, &twice);
	return j < 0 ? 0 : element_get(s->call->v->dtype, row, (size_t)j) * (twice ? 2 : 1);
}

/* Differences within a row: the ends by themselves, the middle at once. */
static void differences_along(const struct stencil *s, void *out, const void *row, bool add)
{
	const enum dtype dtype = s->call->v->dtype;
	const int64_t ends = s->adjoint ? 2 : 1, n = s->n, middle = n > 2 * ends ? n - 2 * ends : 0;
	for (int64_t i = 0; i < n; i = i + 1 == ends && middle ? n - ends : i + 1) {
		double before, after; /* room for either type */
		element_set(dtype, &before, 0, value_beside(s, row, i - 1));
		element_set(dtype, &after, 0, value_beside(s, row, i + 1));
		s->loops->differences(element_of(out, s->size, i), &before, element_at(row, s->size, i), &after, add, 1);
	}
	if (middle)
		s->loops->differences(element_of(out, s->size, ends), element_at(row, s->size, ends - 1),
		                      element_at(row, s->size, ends), element_at(row, s->size, ends + 1), add, (size_t)middle);
}

/* A laplacian, as members of a team share it: by rows. */
struct laplace {
	const struct op_call *call;
	void *y;
	const void *v;
	bool adjoint;
};

static void laplace_rows(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct laplace *l = context;
	const double scale = l->call->attrs->dx * l->call->attrs->dx;
	struct stencil s;
	stencil_of(&s, l->call, memory ? memory : l->call->scratch, l->adjoint);
	for (int64_t row = begin; row < end; row++) {
		const void *from = element_at(l->v, s.size, row * s.n);
		void *to = element_of(l->y, s.size, row * s.n);
		const bool both = s.count == 1 && s.along && !s.adjoint;
		if (both)
			s.loops->differences_2d(to, row_beside(&s, l->v, row, &s.across[0], -1), from,
			                        row_beside(&s, l->v, row, &s.across[0], 1), value_beside(&s, from, -1),
			                        value_beside(&s, from, s.n), (size_t)s.n);
		for (int k = s.count - 1; k >= 0 && !both; k--)
			s.loops->differences(to, row_beside(&s, l->v, row, &s.across[k], -1), from,
			                     row_beside(&s, l->v, row, &s.across[k], 1), k < s.count - 1, (size_t)s.n);
		if (s.along && !both)
			differences_along(&s, to, from, s.count > 0);
		if (scale != 1)
			s.loops->divide(to, to, &scale, (size_t)s.n, 1);
	}
}

static void laplace(const struct op_call *call, void *y, const void *v, bool adjoint)
{
	struct laplace l = {call, y, v, adjoint};
	struct stencil s;
	if (shape_count(&call->v->shape) == 0)
		return;
	if (call->v->shape.ndim == 0) {
		element_set(call->v->dtype, y, 0, 0);
		return;
	}
	stencil_of(&s, call, call->scratch, adjoint);
	team_run(call->team, s.rows, TEAM_PIECE / s.n + 1, laplace_rows, &l);
}

void forward_laplacian(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a, (void)keep;
	laplace(call, y, v, false);
}

void vjp_laplacian(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da, (void)needs;
	if (dv)
		laplace(call, dv, g, true);
}
