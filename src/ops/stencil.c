/*
 * stencil: a weighted sum of neighbours along one axis, the middle weight at the element:
 *
 *     y[i] = w[0] v[i - h] + w[1] v[i - h + 1] + ... + w[2h] v[i + h]
 *
 * added in this order. The weights are rounded to the computing type. Outside of the axis, `boundary` means the same as
 * for laplacian; terms that are zero there are left out. The adjoint has the weights in reverse order. The adjoint of
 * `reflect` differs near the ends, where the weights of all paths from an element to another are added first.
 *
 * An array is planes, one for each index of the axes before the axis. In a plane, all elements but those near the ends of
 * the axis are one run: each neighbour lies a fixed number of elements away.
 * Tests: tests/unit/test_general.c
 */
#include "ops/stencil.h"

struct stencil {
	const struct op_call *call;
	const struct loops *loops;
	size_t size;
	struct axis_view view;
	int64_t half, low, high; /* weights on a side; indices LOW .. HIGH - 1 are not near an end */
	bool mirrored;           /* the adjoint of reflect */
	const void *v;
	void *y;         /* element FIRST of the result, and those behind it */
	double factor;   /* as in struct gather_part, like ADD */
	const void *add; /* begins with element FIRST too */
	int64_t first;
	double *weights; /* by place; the terms of an element: */
	double *term_weights;
	const void **terms;
	size_t count;
};

int64_t stencil_scratch(const struct attrs *attrs)
{
	return attrs->weights.count * (int64_t)(2 * sizeof(double) + sizeof(void *));
}

static void use_scratch(struct stencil *s, void *scratch, bool adjoint)
{
	const struct numbers *weights = &s->call->attrs->weights;
	s->weights = scratch;
	s->term_weights = s->weights + weights->count;
	s->terms = (const void **)(s->term_weights + weights->count);
	for (int64_t t = 0; t < weights->count; t++)
		s->weights[t] = weights->list[adjoint && !s->mirrored ? weights->count - 1 - t : t];
}

static void add_term(struct stencil *s, double weight, int64_t element)
{
	s->term_weights[s->count] = weight;
	s->terms[s->count++] = element_at(s->v, s->size, element);
}

/* Returns the sum of the weights by which element FROM reads element I, and whether there are any, with mirrors. */
static double mirrored_weight(const struct stencil *s, int64_t from, int64_t i, bool *any)
{
	const int64_t h = s->half, period = s->view.n > 1 ? 2 * (s->view.n - 1) : 1;
	const bool once = i == 0 || i == s->view.n - 1; /* it is its own mirror image */
	double sum = 0;
	*any = false;
	for (int image = 0; image < (once ? 1 : 2); image++) {
		const int64_t distance = (image ? -i : i) - from;
		for (int64_t k = -h + ((distance + h) % period + period) % period; k <= h; k += period) {
			sum = *any ? sum + s->weights[k + h] : s->weights[k + h];
			*any = true;
		}
	}
	return sum;
}

/* Lists the terms of index I, near an end, of the axis. ELEMENT: an element at index 0 of the axis, in its column. */
static void list_terms(struct stencil *s, int64_t i, int64_t element)
{
	const int64_t h = s->half, n = s->view.n, inner = s->view.inner;
	s->count = 0;
	for (int64_t t = i - h; t <= i + h; t++) {
		bool any = true;
		const int64_t at = s->mirrored ? t : neighbour_index(s->call->attrs->boundary, t, n);
		if (at < 0 || at >= n)
			continue;
		const double weight = s->mirrored ? mirrored_weight(s, at, i, &any) : s->weights[t - i + h];
		if (any)
			add_term(s, weight, element + at * inner);
	}
}

/* Computes elements BEGIN .. END - 1 of the array. */
static void stencil_elements(struct stencil *s, int64_t begin, int64_t end)
{
	const int64_t h = s->half, inner = s->view.inner, plane = s->view.n * inner;
	for (int64_t next; begin < end; begin = next) {
		const int64_t start = begin / plane * plane, i = (begin - start) / inner;
		const bool inside = i >= s->low && i < s->high;
		next = start + (inside ? s->high : i + 1) * inner;
		next = next < end ? next : end;
		s->count = 0;
		for (int64_t k = -h; k <= h && inside; k++)
			add_term(s, s->weights[s->mirrored ? h - k : h + k], begin + k * inner);
		if (!inside)
			list_terms(s, i, begin - i * inner);
		const struct weighted_sum sum = {s->terms, s->term_weights, s->count, s->factor,
		                                 s->add ? element_at(s->add, s->size, begin - s->first) : NULL};
		s->loops->weighted(element_of(s->y, s->size, begin - s->first), &sum, (size_t)(next - begin));
	}
}

/* The context of a team's pieces. */
struct stencil_job {
	const struct stencil *stencil;
	bool adjoint;
	int64_t parts; /* number of parts of a row, if rows are computed in columns; else 0 */
};

/* Computes elements or, of long rows, parts of rows: first all rows' first parts. */
static void stencil_piece(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct stencil_job *job = context;
	struct stencil s = *job->stencil;
	const int64_t n = s.view.n, inner = s.view.inner;
	use_scratch(&s, memory ? memory : s.call->scratch, job->adjoint);
	if (!job->parts)
		stencil_elements(&s, begin, end);
	for (; job->parts && begin < end; begin++) {
		const int64_t plane = begin / (n * job->parts), part = begin / n % job->parts, first = part * STENCIL_COLUMNS;
		const int64_t row = (plane * n + begin % n) * inner, left = inner - first;
		stencil_elements(&s, row + first, row + first + (left < STENCIL_COLUMNS ? left : STENCIL_COLUMNS));
	}
}

static struct stencil stencil_begin(const struct op_call *call, void *y, const void *v, bool adjoint)
{
	struct stencil s = {
		.call = call, .loops = call->kernels->loops, .size = element_size(call->v->dtype), .v = v, .y = y, .factor = 1};
	s.view = axis_view_named(call->attrs, &call->v->shape);
	s.half = call->attrs->weights.count / 2;
	s.mirrored = adjoint && call->attrs->boundary == BOUNDARY_REFLECT;
	s.low = s.half + s.mirrored;
	s.high = s.view.n - s.low;
	return s;
}

GATHER(stencil)
{
	double scratch[3 * STENCIL_GATHERED]; /* stencil_scratch() bytes or more */
	struct stencil s = stencil_begin(call, part->to, part->from, part->back);
	s.first = part->first;
	s.factor = part->factor;
	s.add = part->add;
	use_scratch(&s, scratch, part->back);
	stencil_elements(&s, part->first, part->first + part->n);
}

static void run_stencil(const struct op_call *call, void *y, const void *v, bool adjoint)
{
	const struct stencil s = stencil_begin(call, y, v, adjoint);
	struct stencil_job job = {&s, adjoint, 0};
	const int64_t rows = s.view.outer * s.view.n;
	if (s.view.inner > STENCIL_COLUMNS) {
		job.parts = (s.view.inner + STENCIL_COLUMNS - 1) / STENCIL_COLUMNS;
		team_run(call->team, rows * job.parts, TEAM_PIECE / STENCIL_COLUMNS, stencil_piece, &job);
	} else {
		team_run(call->team, rows * s.view.inner, TEAM_PIECE, stencil_piece, &job);
	}
}

FORWARD(stencil) { run_stencil(call, y, v, false); }

VJP(stencil) { run_stencil(call, dv, g, true); }
