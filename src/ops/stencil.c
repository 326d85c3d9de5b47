/*
 * laplacian: the sum over axes of second differences, divided by dx^2. For each
 * element (before - 2 v) + after is computed along each axis. These are added in
 * increasing order of the axes. The sum is divided by dx * dx unless that is 1.
 *
 * Outside an axis, `periodic` continues at the other end, and `zero` has zeros.
 * `reflect` mirrors without repeating the edge: index -1 is index 1, or 0 if the
 * extent is 1. `periodic` and `zero` are symmetric, so each is its own
 * adjoint. In the adjoint of `reflect` each end counts twice for its
 * neighbour, and the outside is zero.
 *
 * The array is read once, row by row: all differences of a row are computed while
 * the row is in the cache.
 */
#include <string.h>

#include "ops/lines.h"

struct row_axis {      /* an axis along which the neighbours of a row are rows */
	int64_t n, stride; /* extent; rows from one index to the next */
};

struct stencil {
	const struct op_call *call;
	const struct loops *loops;
	size_t size;
	bool adjoint;    /* computes the adjoint of `reflect` */
	int64_t rows, n; /* rows of n elements */
	bool along;      /* the last axis is one of the axes */
	int count;
	struct row_axis axes[MAX_DIMS];
	char *zeros, *doubled[2]; /* a row of zeros, and two for the doubled rows before and after a row */
};

static void stencil_of(struct stencil *s, const struct op_call *call, void *scratch, bool adjoint)
{
	const struct shape *shape = &call->v->shape;
	int last = shape->ndim - 1;
	*s = (struct stencil){.call = call, .loops = call->kernels->loops, .size = element_size(call->v->dtype), .n = 1};
	s->adjoint = adjoint && call->attrs->boundary == BOUNDARY_REFLECT;
	s->along = axis_named(call->attrs, last, shape->ndim);
	if (s->along)
		s->n = shape->dim[last--];
	else
		while (last >= 0 && !axis_named(call->attrs, last, shape->ndim))
			s->n *= shape->dim[last--];
	s->rows = 1;
	for (; last >= 0; last--) {
		if (axis_named(call->attrs, last, shape->ndim))
			s->axes[s->count++] = (struct row_axis){shape->dim[last], s->rows};
		s->rows *= shape->dim[last];
	}
	s->zeros = scratch;
	s->doubled[0] = s->zeros + (size_t)s->n * s->size;
	s->doubled[1] = s->doubled[0] + (size_t)s->n * s->size;
	memset(s->zeros, 0, (size_t)s->n * s->size);
}

/* Returns the index of the value at I (-1 .. N) along an axis of N, or -1 for zero. *TWICE: the value is doubled. */
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

static const void *row_beside(const struct stencil *s, const void *v, int64_t row, const struct row_axis *axis,
                              int side)
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

/* Differences along a row: first its ends, element by element, then its middle in one loop. */
static void differences_along(const struct stencil *s, void *out, const void *row, bool add)
{
	const enum dtype dtype = s->call->v->dtype;
	const int64_t ends = s->adjoint ? 2 : 1, n = s->n, middle = n > 2 * ends ? n - 2 * ends : 0;
	for (int64_t i = 0; i < n; i = i + 1 == ends && middle ? n - ends : i + 1) {
		double before, after; /* hold one element of either type */
		element_set(dtype, &before, 0, value_beside(s, row, i - 1));
		element_set(dtype, &after, 0, value_beside(s, row, i + 1));
		s->loops->differences(element_of(out, s->size, i), &before, element_at(row, s->size, i), &after, add, 1);
	}
	if (middle)
		s->loops->differences(element_of(out, s->size, ends), element_at(row, s->size, ends - 1),
		                      element_at(row, s->size, ends), element_at(row, s->size, ends + 1), add, (size_t)middle);
}

/* A laplacian, whose rows a team shares. */
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
			s.loops->differences_2d(to, row_beside(&s, l->v, row, &s.axes[0], -1), from,
			                        row_beside(&s, l->v, row, &s.axes[0], 1),
			                        (double[]){value_beside(&s, from, -1), value_beside(&s, from, s.n)}, (size_t)s.n);
		for (int k = s.count - 1; k >= 0 && !both; k--)
			s.loops->differences(to, row_beside(&s, l->v, row, &s.axes[k], -1), from,
			                     row_beside(&s, l->v, row, &s.axes[k], 1), k < s.count - 1, (size_t)s.n);
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

FORWARD(laplacian) { laplace(call, y, v, false); }

VJP(laplacian) { laplace(call, dv, g, true); }
