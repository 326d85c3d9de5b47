/*
 * upsample: along one axis after another, the last one first, an element of the result is an element of the input
 * (nearest), or lies between two of them (linear). Backward, the axes go the other way, and each element of the gradient is
 * the sum, in order, of the weighted cotangents of the elements that read it.
 *
 * Along an axis the array is [stacks, n, row], and the result [stacks, m, row]. Index i of m is at the place
 *     i / factor                      nearest, rounded down
 *     (i + 0.5) / factor - 0.5        linear, at least 0
 *     i (n - 1) / (m - 1)             linear with align_corners: the first and last elements stay
 * of n. It reads the elements on both sides of that place, the nearer one more. As torch's.
 * Tests: tests/unit/test_general.c
 */
#include "ops/lines.h"

#include "base/checked.h"

enum { SOME = 256 }; /* indices whose places are found at a time, or columns that are summed at a time */

/* One axis of a resampling. */
struct resampled {
	int64_t stacks, n, m, row;
	double factor;
	bool linear, corners;
	enum dtype dtype;
	size_t size;
	const struct loops *loops;
	const void *from;
	void *to;
};

/* Where an index of the result is: element AT has the weight 1 - REST, and the next one the REST. */
struct spot {
	int64_t at;
	double rest;
};

static struct spot spot_of(const struct resampled *r, int64_t i)
{
	const double last = (double)(r->n - 1);
	double place = (double)i / r->factor;
	if (r->corners)
		place = r->m > 1 ? (double)i * last / (double)(r->m - 1) : 0;
	else if (r->linear)
		place = fmax(((double)i + 0.5) / r->factor - 0.5, 0);
	place = fmin(place, last);
	const double at = floor(place);
	return (struct spot){(int64_t)at, r->linear ? place - at : 0};
}

/* Returns the first index of the result whose spot is at element AT or behind it. */
static int64_t first_at(const struct resampled *r, int64_t at)
{
	int64_t low = 0, high = r->m;
	while (low < high) {
		const int64_t middle = low + (high - low) / 2;
		if (spot_of(r, middle).at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Makes lines BEGIN .. END-1 of the result, of single elements that are neighbours. */
static void spread_elements(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct resampled *r = context;
	struct spot spots[SOME];
	for (int64_t first = 0; first < r->m; first += SOME) {
		const int64_t count = lesser(SOME, r->m - first);
		for (int64_t i = 0; i < count; i++)
			spots[i] = spot_of(r, first + i);
		for (int64_t line = begin; line < end; line++)
			for (int64_t i = 0; i < count; i++) {
				const struct spot *s = &spots[i];
				double x = element_get(r->dtype, r->from, (size_t)(line * r->n + s->at));
				if (s->rest != 0)
					x = x * (1 - s->rest) + element_get(r->dtype, r->from, (size_t)(line * r->n + s->at + 1)) * s->rest;
				element_set(r->dtype, r->to, (size_t)(line * r->m + first + i), x);
			}
	}
}

/* Makes rows BEGIN .. END-1 of the result, of `row` elements each. */
static void spread_rows(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct resampled *r = context;
	for (int64_t row = begin; row < end; row++) {
		const struct spot s = spot_of(r, row % r->m);
		const void *terms[2] = {element_at(r->from, r->size, (row / r->m * r->n + s.at) * r->row)};
		const double weights[2] = {1 - s.rest, s.rest};
		void *const to = element_of(r->to, r->size, row * r->row);
		if (s.rest == 0) {
			memcpy(to, terms[0], (size_t)r->row * r->size);
			continue;
		}
		terms[1] = element_at(terms[0], r->size, r->row);
		r->loops->weighted(to, &(struct weighted_sum){terms, weights, 2, 1, NULL}, (size_t)r->row);
	}
}

/* Returns the sum of what LINE of the cotangent gives to element AT: indices before I do not read it. */
static double gather_element(const struct resampled *r, int64_t line, int64_t at, int64_t i)
{
	double sum = 0, rest = 0;
	for (; i < r->m; i++) {
		const struct spot s = spot_of(r, i);
		if (s.at > at)
			break;
		const double weight = s.at == at ? 1 - s.rest : s.rest;
		if (s.at + 1 < at || weight == 0)
			continue;
		sum_add(&sum, &rest, weight * element_get(r->dtype, r->from, (size_t)(line * r->m + i)), 0);
	}
	return sum + rest;
}

/* Makes lines BEGIN .. END-1 of the gradient, of single elements that are neighbours. */
static void gather_elements(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct resampled *r = context;
	for (int64_t at = 0; at < r->n; at++) {
		const int64_t first = first_at(r, at > 0 && r->linear ? at - 1 : at);
		for (int64_t line = begin; line < end; line++)
			element_set(r->dtype, r->to, (size_t)(line * r->n + at), gather_element(r, line, at, first));
	}
}

/* Adds COLUMNS of the rows of the cotangent that read element AT of OUTER to SUMS. The rests are SOME behind the sums. */
static void add_rows_at(const struct resampled *r, int64_t at, int64_t stack, struct row_range columns, double *sums)
{
	const int64_t first = first_at(r, at > 0 && r->linear ? at - 1 : at);
	for (int64_t i = first; i < r->m; i++) {
		const struct spot s = spot_of(r, i);
		const double weight = s.at == at ? 1 - s.rest : s.rest;
		if (s.at > at)
			break;
		if (s.at + 1 < at || weight == 0)
			continue;
		const void *row = element_at(r->from, r->size, (stack * r->m + i) * r->row + columns.first);
		if (r->dtype == DTYPE_F32)
			for (int64_t c = 0; c < columns.count; c++)
				sums[c] += weight * (double)((const float *)row)[c];
		else
			for (int64_t c = 0; c < columns.count; c++)
				sum_add(&sums[c], &sums[SOME + c], weight * ((const double *)row)[c], 0);
	}
}

/* Makes rows BEGIN .. END-1 of the gradient, of `row` elements each. */
static void gather_rows_of(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct resampled *r = context;
	double sums[2 * SOME];
	for (int64_t row = begin; row < end; row++)
		for (int64_t first = 0; first < r->row; first += SOME) {
			const struct row_range columns = {first, lesser(SOME, r->row - first)};
			memset(sums, 0, sizeof sums);
			add_rows_at(r, row % r->n, row / r->n, columns, sums);
			for (int64_t c = 0; c < columns.count; c++)
				element_set(r->dtype, r->to, (size_t)(row * r->row + first + c), sums[c] + sums[SOME + c]);
		}
}

/* Resamples along the axis of R or, if BACK, computes the gradient. */
static void resample_axis(const struct op_call *call, struct resampled *r, bool back)
{
	const int64_t made = back ? r->n : r->m;
	if (r->row == 1)
		team_run(call->team, r->stacks, greater(1, TEAM_PIECE / greater(made, 1)),
		         back ? gather_elements : spread_elements, r);
	else
		team_run(call->team, r->stacks * made, greater(1, TEAM_PIECE / r->row), back ? gather_rows_of : spread_rows, r);
}

/* The passes of a resampling, in order: pass i is along AXIS[i], from SHAPE[i] to SHAPE[i + 1]. There is at least one. */
struct passes {
	int count, axis[MAX_DIMS];
	struct shape shape[MAX_DIMS + 1];
};

static struct passes passes_of(const struct attrs *attrs, const struct shape *v, const struct shape *y)
{
	struct passes p = {.shape = {*v}};
	for (int axis = v->ndim; axis-- > 0;)
		if (op_is_resampled(attrs, axis, v->ndim)) {
			p.axis[p.count] = axis;
			p.shape[p.count + 1] = p.shape[p.count];
			p.shape[++p.count].dim[axis] = y->dim[axis];
		}
	return p;
}

/* Returns the elements of the largest array between two passes. */
static int64_t between_count(const struct passes *p)
{
	int64_t most = 0;
	for (int i = 1; i < p->count; i++)
		most = greater(most, shape_count(&p->shape[i]));
	return most;
}

int64_t upsample_scratch(const struct attrs *attrs, const struct type *v, const struct type *y)
{
	const struct passes p = passes_of(attrs, &v->shape, &y->shape);
	const int64_t bytes = round_up(between_count(&p) * (int64_t)element_size(v->dtype), ARRAY_ALIGN);
	return p.count > 2 ? saturated_add(bytes, bytes) : bytes;
}

/* Resamples FROM to TO or, if BACK, the cotangent FROM to the gradient TO. */
static void resample(const struct op_call *call, void *to, const void *from, bool back)
{
	const struct passes p = passes_of(call->attrs, &call->v->shape, &call->y->shape);
	const size_t size = element_size(call->v->dtype);
	const int64_t between = round_up(between_count(&p) * (int64_t)size, ARRAY_ALIGN);
	for (int k = 0; k < p.count; k++) {
		const int i = back ? p.count - 1 - k : k;
		void *const here = k == p.count - 1 ? to : (char *)call->scratch + k % 2 * between;
		struct resampled r = {.stacks = 1,
		                      .n = p.shape[i].dim[p.axis[i]],
		                      .m = p.shape[i + 1].dim[p.axis[i]],
		                      .row = 1,
		                      .factor = op_resampling_factor(call->attrs, p.axis[i], call->v->shape.ndim),
		                      .linear = call->attrs->linear,
		                      .corners = call->attrs->align_corners,
		                      .dtype = call->v->dtype,
		                      .size = size,
		                      .loops = call->kernels->loops,
		                      .from = from,
		                      .to = here};
		for (int d = 0; d < p.shape[i].ndim; d++)
			*(d < p.axis[i] ? &r.stacks : &r.row) *= d == p.axis[i] ? 1 : p.shape[i].dim[d];
		resample_axis(call, &r, back);
		from = here;
	}
}

FORWARD(upsample) { resample(call, y, v, false); }
VJP(upsample) { resample(call, dv, g, true); }
