/*
 * Systems with three bands along the last axis, by LAPACK's LU factors with pivots. Each line is solved alone, so its bits do not
 * depend on the others. Lines with the same bands share the factors. A singular system gives infinities and NaN, as in JAX.
 *
 * With w the solution of the transposed system for g, the derivative by v is w; that by an element of a band is -w[i] times
 * the element of y that it multiplies: y[i - 1], y[i] or y[i + 1]. (Giles 2008, "Collected matrix derivative results for forward
 * and reverse mode algorithmic differentiation", section 2.3.1.)
 * Tests: tests/unit/test_general.c, tests/cases/linalg.test
 */
#include <string.h>

#include "base/checked.h"
#include "ops/linalg.h"
#include "ops/lines.h"

struct bands {
	const struct lapack *lapack;
	size_t size; /* of an element */
	int n;
	int64_t lines;
	const struct shape *shape; /* of v */
	const void *given[3];
	int64_t step[MAX_DIMS]; /* elements of a band to the next along each axis of v; 0: broadcast */
	char *work[5];          /* the factors: lower, diagonal, upper and second upper band; a line */
	int *pivots;
};

static int64_t line_length(const struct type *type) { return type->shape.dim[type->shape.ndim - 1]; }

int64_t tridiagonal_scratch(const struct type *v)
{
	const int64_t n = line_length(v), bytes = saturated((__int128)n * (int64_t)element_size(v->dtype));
	const int64_t line = round_up(lesser(bytes, INT64_MAX - ARRAY_ALIGN), ARRAY_ALIGN);
	return saturated((__int128)5 * line + (__int128)n * (int64_t)sizeof(int));
}

/* Returns the systems of CALL, whose bands are at LOWER, DIAGONAL and UPPER. */
static struct bands bands_of(const struct op_call *call, const void *lower, const void *diagonal, const void *upper)
{
	const struct shape *v = &call->v->shape, *a = &call->a->shape;
	struct bands s = {.lapack = lapack_get(call->v->dtype),
	                  .size = element_size(call->v->dtype),
	                  .n = (int)line_length(call->v),
	                  .shape = v,
	                  .given = {lower, diagonal, upper}};
	const int64_t line = round_up(s.n * (int64_t)s.size, ARRAY_ALIGN);
	s.lines = shape_count(v) / s.n;
	for (int i = 0; i < 5; i++)
		s.work[i] = (char *)call->scratch + i * line;
	s.pivots = (int *)(void *)((char *)call->scratch + 5 * line);
	int64_t elements = 1;
	for (int i = 1; i <= v->ndim; i++) {
		const int64_t extent = i <= a->ndim ? a->dim[a->ndim - i] : 1;
		s.step[v->ndim - i] = extent == 1 ? 0 : elements;
		elements *= extent;
	}
	return s;
}

/* Returns the first element of the bands of LINE. */
static int64_t bands_at(const struct bands *s, int64_t line)
{
	int64_t at = 0;
	for (int i = s->shape->ndim - 1; i-- > 0; line /= s->shape->dim[i])
		at += line % s->shape->dim[i] * s->step[i];
	return at;
}

/* Copies COUNT elements of a band from element AT on. STEP is 0 if the band has one element. */
static void copy_band(const struct bands *s, int band, int64_t at, int64_t skipped, int64_t count)
{
	const int64_t step = s->step[s->shape->ndim - 1];
	const char *from = (const char *)s->given[band] + (at + skipped * step) * (int64_t)s->size;
	for (int64_t i = 0; i < count; i++)
		memcpy(s->work[band] + i * (int64_t)s->size, from + i * step * (int64_t)s->size, s->size);
}

/* Factors the system of LINE, unless the line before has the same bands, at *BEFORE. */
static void factor_bands(const struct bands *s, int64_t line, int64_t *before)
{
	const int64_t at = bands_at(s, line);
	int info;
	if (at == *before)
		return;
	*before = at;
	copy_band(s, 0, at, 1, s->n - 1);
	copy_band(s, 1, at, 0, s->n);
	copy_band(s, 2, at, 0, s->n - 1);
	s->lapack->gttrf(&s->n, s->work[0], s->work[1], s->work[2], s->work[3], s->pivots, &info);
}

/* Solves the factored system, or its transpose, for the line X, which becomes the solution. */
static void solve_line(const struct bands *s, bool transposed, void *x)
{
	const int one = 1;
	int info;
	s->lapack->gttrs(transposed ? "T" : "N", &s->n, &one, s->work[0], s->work[1], s->work[2], s->work[3], s->pivots, x,
	                 &s->n, &info, 1);
}

FORWARD(tridiagonal)
{
	const struct bands s = bands_of(call, a, call->b, call->c);
	const int64_t bytes = s.n * (int64_t)s.size;
	int64_t before = -1;
	if (y != v)
		memcpy(y, v, (size_t)(s.lines * bytes));
	for (int64_t line = 0; line < s.lines; line++) {
		factor_bands(&s, line, &before);
		solve_line(&s, false, (char *)y + line * bytes);
	}
}

#define DEFINE_BY_BAND(TYPE)                                                                                           \
	static void by_band_##TYPE(TYPE *out, const TYPE *w, const TYPE *y, int n, int offset)                             \
	{                                                                                                                  \
		for (int i = 0; i < n; i++)                                                                                    \
			out[i] = i + offset < 0 || i + offset >= n ? 0 : -(w[i] * y[i + offset]);                                  \
	}
DEFINE_BY_BAND(float)
DEFINE_BY_BAND(double)

/* Stores DV, and DA: the derivative by the band that meets the element of y OFFSET further on. Either may be NULL. */
static void differentiate_bands(const struct op_call *call, void *dv, void *da, const void *g,
                                const void *const needs[MAX_NEEDS], int offset)
{
	const struct bands s = bands_of(call, needs[1], needs[4], needs[5]);
	const int64_t bytes = s.n * (int64_t)s.size;
	int64_t before = -1;
	for (int64_t line = 0; line < s.lines; line++) {
		char *const w = dv ? (char *)dv + line * bytes : s.work[4];
		memcpy(w, (const char *)g + line * bytes, (size_t)bytes);
		factor_bands(&s, line, &before);
		solve_line(&s, true, w);
		if (!da)
			continue;
		void *const to = (char *)da + line * bytes;
		const void *const y = (const char *)needs[2] + line * bytes;
		if (call->v->dtype == DTYPE_F32)
			by_band_float(to, (const float *)(const void *)w, y, s.n, offset);
		else
			by_band_double(to, (const double *)(const void *)w, y, s.n, offset);
	}
}

VJP(tridiagonal) { differentiate_bands(call, dv, da, g, needs, -1); }
VJP(on_diagonal) { differentiate_bands(call, NULL, da, g, needs, 0); }
VJP(on_upper) { differentiate_bands(call, NULL, da, g, needs, 1); }
