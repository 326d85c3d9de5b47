/*
 * Operations along an axis. softmax and log_softmax follow scipy's formulas, also for
 * lines with infinities. The largest element of a line is subtracted first, so that no
 * exponential overflows; log_softmax subtracts it only if it is finite. Means and sums
 * are doubles.
 * cumsum adds in the computing type, one element after another, with NumPy's bits.
 * Tests: tests/unit/test_general.c
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

/*
 * Calls FUNCTION for the lines along the axes that the call names. If these are not neighbours, scratch has copies of the long
 * arrays in which they are the last ones.
 */
static void walk_axis(const struct op_call *call, const struct line_arrays *arrays, line_function *function)
{
	const struct loops *loops = call->kernels->loops;
	const struct reduction r = reduction_named(call->attrs, &call->v->shape);
	struct line_arrays moved = *arrays;
	char *next = call->scratch;
	if (r.view.n == 0)
		return;
	if (!r.moved) {
		lines_walk(call, &r.view, arrays, function, call->scratch);
		return;
	}
	for (int k = 0; k < 2; k++)
		if (arrays->in[k]) {
			permute(loops, next, arrays->in[k], &r.merged, r.axes);
			moved.in[k] = next;
			next += type_bytes(call->v);
		}
	moved.out = arrays->out ? next : NULL;
	lines_walk(call, &r.view, &moved, function, NULL);
	if (arrays->out)
		permute(loops, arrays->out, moved.out, &r.last, r.back);
}

/*
 * Sets in SHOWN how many of the first elements of each line softmax computes: what follows is -inf, behind a mask, and its
 * exponentials are 0. Returns false if that is each line as a whole. LARGEST has the lines' largest elements.
 */
static bool find_shown(const struct loops *loops, struct lines lines, const double *largest, size_t shown[LINES_SOME])
{
	enum { LEAST = 64 }; /* in a shorter line, a call costs more than what it saves */
	bool less = false;
	for (size_t i = 0; i < lines.count && lines.n >= LEAST; i++) {
		const void *line = element_at(lines.data, element_size(loops->dtype), (int64_t)(i * lines.n));
		shown[i] = isfinite(largest[i]) ? loops->shown(line, lines.n) : lines.n;
		less |= shown[i] < lines.n;
	}
	return less;
}

LINES(softmax_lines)
{
	const size_t size = element_size(loops->dtype);
	double largest[LINES_SOME], sum[LINES_SOME];
	size_t shown[LINES_SOME];
	loops->largest(largest, at->in[0], n, count);
	if (!find_shown(loops, (struct lines){at->in[0], n, count}, largest, shown)) {
		loops->subtract(at->out, at->in[0], largest, n, count);
		lines_exp(call, at->out, at->out, n * count);
		loops->sum.values(sum, NULL, at->out, n, count);
		loops->divide(at->out, at->out, sum, n, count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		char *const line = element_of(at->out, size, (int64_t)(i * n));
		loops->subtract(line, element_at(at->in[0], size, (int64_t)(i * n)), &largest[i], shown[i], 1);
		lines_exp(call, line, line, shown[i]);
		memset(line + shown[i] * size, 0, (n - shown[i]) * size);
		loops->sum.values(&sum[i], NULL, line, n, 1);
		loops->divide(line, line, &sum[i], shown[i], 1);
	}
}

FORWARD(softmax) { walk_axis(call, &(struct line_arrays){.in = {v}, .out = y}, softmax_lines); }

/*
 * Derivatives need sums of their lines. A function of derivatives computes them unless the walk gives them in WIDE: those
 * of lines that go on in other blocks of rows (ops/fold.c).
 */

LINES(product_sum_lines) { loops->sum.products(at->wide[0], at->wide[1], at->in[1], at->in[0], n, count); }
LINES(cotangent_sum_lines)
{
	lines_sums(loops, (struct lines){at->in[1], n, count}, NULL,
	           (struct wide_sums){at->wide[0], at->wide[1], at->wide[2]});
}

/* Returns the index of the element of line I, of N, that is above BOUND; N if none is, or the line goes on in other blocks. */
static size_t find_dominant(const struct loops *loops, const struct line_arrays *at, double bound, size_t i, size_t n)
{
	return at->wide[0] ? n : loops->find_above(line_at(loops, at->in[0], n, i), bound, n);
}

/* Returns the sum of LINE's N elements but that at PLACE. */
static double sum_of_others(const struct loops *loops, const void *line, size_t n, size_t place)
{
	double before, before_rest, behind, behind_rest;
	loops->sum.values(&before, &before_rest, line, place, 1);
	loops->sum.values(&behind, &behind_rest, element_at(line, element_size(loops->dtype), (int64_t)place + 1),
	                  n - place - 1, 1);
	sum_add(&before, &before_rest, behind, behind_rest);
	return before + before_rest;
}

/* Makes the derivatives of lines by their SUMS of g * y. A line is made by doubles if its difference may leave the range. */
static void put_share_slopes(const struct loops *loops, const struct line_arrays *at, const double *sums, size_t n,
                             size_t count)
{
	const enum dtype dtype = loops->dtype;
	for (size_t i = 0, some; i < count; i += some) {
		const void *y = line_at(loops, at->in[0], n, i), *g = line_at(loops, at->in[1], n, i);
		void *to = element_of(at->out, element_size(dtype), (int64_t)(i * n));
		some = count_near(dtype, sums + i, count - i);
		if (some > 0)
			loops->softmax_derivative(to, g, y, sums + i, n, some);
		for (size_t j = 0; some == 0 && j < n; j++) {
			const double apart = element_get(dtype, g, j) / SUM_FAR - sums[i] / SUM_FAR;
			element_set(dtype, to, j, element_get(dtype, y, j) * apart * SUM_FAR);
		}
		some = some > 0 ? some : 1;
	}
}

/*
 * dv = y * (g - sum(g * y)). If one y is so near 1 that the difference cancels, its derivative is less the sum of the
 * others, since all together are 0.
 */
LINES(softmax_derivative_lines)
{
	const void *y = at->in[0], *g = at->in[1];
	double own[LINES_SOME];
	size_t dominant[LINES_SOME];
	if (!at->wide[0])
		loops->sum.products(own, NULL, g, y, n, count);
	for (size_t i = 0; i < count; i++)
		dominant[i] = find_dominant(loops, at, 0.5, i, n);
	put_share_slopes(loops, at, at->wide[0] ? at->wide[0] : own, n, count); /* may write over Y */
	for (size_t i = 0; i < count; i++)
		if (dominant[i] < n)
			element_set(loops->dtype, at->out, i * n + dominant[i],
			            0 - sum_of_others(loops, line_at(loops, at->out, n, i), n, dominant[i]));
}

VJP(softmax) { walk_axis(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv}, softmax_derivative_lines); }

LINES(log_softmax_lines)
{
	static const double zeros[LINES_SOME];
	double largest[LINES_SOME], sum[LINES_SOME], rest[LINES_SOME];
	lines_largest(loops, largest, (struct lines){at->in[0], n, count});
	loops->subtract(at->out, at->in[0], largest, n, count);
	lines_sum_exp(call, loops, NULL, (struct lines){at->out, n, count}, zeros, (struct wide_sums){sum, rest, NULL});
	for (size_t i = 0; i < count; i++)
		sum[i] = log_of_sum(sum[i], rest[i]);
	loops->subtract(at->out, at->out, sum, n, count);
}

FORWARD(log_softmax) { walk_axis(call, &(struct line_arrays){.in = {v}, .out = y}, log_softmax_lines); }

/* Makes the derivatives of line I again where SUM makes what they take from g large, though exp(y) underflows. */
static void put_small_shares(const struct loops *loops, const struct line_arrays *at, size_t i, double sum, size_t n)
{
	const bool all = loops->dtype == DTYPE_F32 && !(fabs(sum) < 0x1p100); /* the sum of floats may be none */
	const double underflows = all ? 1 : loops->dtype == DTYPE_F64 ? -700 : -86;
	const size_t first = loops->find_below(line_at(loops, at->in[0], n, i), underflows, n);
	for (size_t j = i * n + first; j < (i + 1) * n; j++) {
		const double y = element_get(loops->dtype, at->in[0], j), root = exp(y / 2);
		if (y < underflows)
			element_set(loops->dtype, at->out, j, element_get(loops->dtype, at->in[1], j) - sum * root * root);
	}
}

/* Makes the derivatives of line I where the sum of cotangents, SUM times SUM_FAR, is beyond the range of doubles. */
static void put_far_shares(const struct loops *loops, const struct line_arrays *at, size_t i, double sum, size_t n)
{
	const double *const y = (const double *)at->in[0] + i * n, *const g = (const double *)at->in[1] + i * n;
	double *const dv = (double *)at->out + i * n, others = 0, rest = 0;
	const size_t place = find_dominant(loops, at, -0.6875, i, n);
	for (size_t j = 0; j < n; j++) {
		const double root = exp(y[j] / 2), half = sum * root, share = half * (root * SUM_FAR);
		sum_add(&others, &rest, j == place ? 0 : g[j] / SUM_FAR, 0);
		dv[j] = is_far(DTYPE_F64, share) ? (g[j] / SUM_FAR - half * root) * SUM_FAR : g[j] - share;
	}
	if (place < n)
		dv[place] = (-(others + rest) - expm1(y[place]) * sum) * SUM_FAR;
}

/*
 * dv = g - exp(y) * sum(g). If one y is so near 0 that the difference may cancel, its derivative is that of the others'
 * cotangents: -others - expm1(y) * sum(g).
 */
LINES(log_softmax_derivative_lines)
{
	double own[2][LINES_SOME], rest[LINES_SOME];
	const double *const sum = at->wide[0] ? at->wide[0] : own[0], *const by = at->wide[0] ? at->wide[1] : own[1];
	lines_exp(call, at->out, at->in[0], n * count);
	if (!at->wide[0])
		lines_sums(loops, (struct lines){at->in[1], n, count}, NULL, (struct wide_sums){own[0], rest, own[1]});
	for (size_t i = 0; !at->wide[0] && i < count; i++)
		own[0][i] += rest[i];
	loops->log_softmax_derivative(at->out, at->in[1], sum, n, count);
	for (size_t i = 0; i < count; i++) {
		const size_t place = find_dominant(loops, at, -0.6875, i, n);
		const double others = place < n ? sum_of_others(loops, line_at(loops, at->in[1], n, i), n, place) : 0;
		const bool far = by[i] == SUM_FAR;
		if (far || (isfinite(sum[i]) && !isfinite(others))) {
			put_far_shares(loops, at, i, far ? sum[i] : sum[i] / SUM_FAR, n);
			continue;
		}
		if (fabs(sum[i]) > 1 && isfinite(sum[i]))
			put_small_shares(loops, at, i, sum[i], n);
		if (place < n && isfinite(sum[i])) {
			const double y = element_get(loops->dtype, at->in[0], i * n + place);
			element_set(loops->dtype, at->out, i * n + place, (0 - others) - expm1(y) * sum[i]);
		}
	}
}

VJP(log_softmax)
{
	walk_axis(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv}, log_softmax_derivative_lines);
}

/*
 * y = (v - mean) * scale, scale = 1 / sqrt(variance + eps); rmsnorm takes the mean as 0.
 * The scales are kept for the derivative. y is NULL if a recomputation needs only them.
 */
LINES(normalize_lines)
{
	const struct lines lines = {at->in[0], n, count};
	double mean[LINES_SOME] = {0}, rest[LINES_SOME], squares[LINES_SOME], squares_rest[LINES_SOME] = {0},
		   scale[LINES_SOME];
	if (call->op != OP_rmsnorm)
		lines_moments(loops, lines, (struct line_moments){mean, rest, squares, squares_rest, scale});
	else
		lines_sum_squares(loops, lines, squares, scale);
	for (size_t i = 0; i < count; i++) {
		if (call->op != OP_rmsnorm)
			mean[i] = sum_quotient(mean[i], rest[i], (double)n) * scale[i];
		scale[i] = normal_scale(squares[i] + squares_rest[i], scale[i], (double)n, call->attrs->eps);
	}
	if (at->out)
		lines_normalize(loops, at->out, lines, mean, scale);
	if (at->short_out)
		elements_set(loops->dtype, at->short_out, scale, count);
}

FORWARD(layernorm)
{
	walk_axis(call, &(struct line_arrays){.in = {v}, .out = y, .short_out = keep ? keep[0] : NULL}, normalize_lines);
}

LINES(normalize_sum_lines)
{
	const void *y = at->in[0], *g = at->in[1];
	const struct lines lines = {g, n, count};
	if (call->op == OP_layernorm)
		lines_sums(loops, lines, NULL, (struct wide_sums){at->wide[2], at->wide[3], at->wide[5]});
	lines_sums(loops, lines, y, (struct wide_sums){at->wide[0], at->wide[1], at->wide[4]});
}

/* True if cotangents of doubles are so large that derivatives by P may leave the range on their way. */
static bool has_far_slopes(const struct loops *loops, const struct normalization *p)
{
	return loops->dtype == DTYPE_F64 && (is_far(DTYPE_F64, p->mean) || is_far(DTYPE_F64, p->product));
}

/*
 * True if the scale of P makes derivatives of doubles large, though what it multiplies may underflow: by a small product, or in
 * an element whose output is small. A scale up to 2^24 brings what that loses at most 2^24 above the least number.
 */
static bool has_large_slopes(const struct loops *loops, const struct normalization *p)
{
	return loops->dtype == DTYPE_F64 && ((p->scale > 1 && fabs(p->product) < 0x1p-200) || p->scale > 0x1p24);
}

/* Returns the derivative of cotangent G and output Y where terms, or their difference, may be beyond the range. */
static double far_slope(double g, double y, const struct normalization *p)
{
	const double plain = (g - p->mean) - y * p->product;
	const double less = (g / SUM_FAR - p->mean / SUM_FAR) - y * (p->product / SUM_FAR);
	return isfinite(plain) ? p->scale * plain : p->scale * less * SUM_FAR;
}

/* Returns it where the scale is above 1. What would underflow is multiplied by 2^700. */
static double large_slope(double g, double y, const struct normalization *p)
{
	const double apart = g - p->mean;
	const bool small =
		fabs(apart) < 0x1p-800 && fabs(p->product) < 0x1p300; /* by a larger product, Y cannot underflow */
	return small ? (apart * 0x1p700 - y * (p->product * 0x1p700)) * (p->scale * 0x1p-700)
	             : p->scale * (apart - y * p->product);
}

/* Makes the derivatives of line I of doubles, which has far or large slopes. */
static void put_scaled_slopes(const struct loops *loops, const struct line_arrays *at, size_t i,
                              const struct normalization *p, size_t n)
{
	const double *const y = at->in[0], *const g = at->in[1];
	double *const dv = at->out; /* may be Y or G */
	const bool far = has_far_slopes(loops, p);
	for (size_t j = i * n; j < (i + 1) * n; j++)
		dv[j] = far ? far_slope(g[j], y[j], p) : large_slope(g[j], y[j], p);
}

/* Makes the derivatives of COUNT lines from FIRST on, which have neither far nor large slopes. */
static void put_slopes(const struct loops *loops, const struct line_arrays *at, size_t first,
                       const struct normalization *p, size_t n, size_t count)
{
	if (count)
		loops->normalize_derivative(element_of(at->out, element_size(loops->dtype), (int64_t)(n * first)),
		                            line_at(loops, at->in[1], n, first), line_at(loops, at->in[0], n, first), p + first,
		                            n, count);
}

/* dv = scale * (g - mean(g) - y * mean(g * y)); rmsnorm has no mean(g) */
LINES(normalize_derivative_lines)
{
	const void *y = at->in[0], *g = at->in[1];
	double own[2][LINES_SOME] = {{0}};
	struct normalization p[LINES_SOME];
	const bool given = at->wide[0] != NULL;
	const double *const product = given ? at->wide[0] : own[0], *const mean = given ? at->wide[1] : own[1];
	if (!given) {
		const struct lines lines = {g, n, count};
		lines_means(loops, lines, y, (double)n, own[0]);
		if (call->op != OP_rmsnorm)
			lines_means(loops, lines, NULL, (double)n, own[1]);
	}
	for (size_t i = 0; i < count; i++)
		p[i] = (struct normalization){
			.mean = mean[i], .product = product[i], .scale = element_get(loops->dtype, at->short_in[0], i)};
	size_t done = 0;
	for (size_t i = 0; i < count; i++) {
		if (!has_large_slopes(loops, &p[i]) && !has_far_slopes(loops, &p[i]))
			continue;
		put_slopes(loops, at, done, p, n, i - done);
		put_scaled_slopes(loops, at, i, &p[i], n);
		done = i + 1;
	}
	put_slopes(loops, at, done, p, n, count - done);
}

VJP(layernorm)
{
	walk_axis(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv, .short_in = {needs[3]}},
	          normalize_derivative_lines);
}

void axis_statistics(const struct op_call *call, struct line_arrays to, const void *g,
                     const void *const needs[MAX_NEEDS])
{
	to.in[0] = needs[2];
	to.in[1] = g;
	walk_axis(call, &to,
	          call->op == OP_softmax       ? product_sum_lines
	          : call->op == OP_log_softmax ? cotangent_sum_lines
	                                       : normalize_sum_lines);
}

void axis_apply(const struct op_call *call, struct line_arrays by, void *dv, const void *g,
                const void *const needs[MAX_NEEDS])
{
	by.in[0] = needs[2];
	by.in[1] = g;
	by.out = dv;
	by.short_in[0] = needs[3];
	walk_axis(call, &by,
	          call->op == OP_softmax       ? softmax_derivative_lines
	          : call->op == OP_log_softmax ? log_softmax_derivative_lines
	                                       : normalize_derivative_lines);
}

/* The groups of rows are lines, one after another. */
static void walk_groups(const struct op_call *call, const struct line_arrays *arrays, line_function *function)
{
	const int64_t lines = call->v->shape.dim[0] * call->attrs->groups;
	const struct axis_view view = {lines, lines ? shape_count(&call->v->shape) / lines : 0, 1};
	if (view.n > 0)
		lines_walk(call, &view, arrays, function, call->scratch);
}

FORWARD(groupnorm)
{
	walk_groups(call, &(struct line_arrays){.in = {v}, .out = y, .short_out = keep ? keep[0] : NULL}, normalize_lines);
}
VJP(groupnorm)
{
	walk_groups(call, &(struct line_arrays){.in = {needs[2], g}, .out = dv, .short_in = {needs[3]}},
	            normalize_derivative_lines);
}

FORWARD(rmsnorm) { forward_layernorm(call, y, v, a, keep); }
VJP(rmsnorm) { vjp_layernorm(call, dv, da, g, needs); }

/*
 * Running sums of V in Y, from the end of each line if BACKWARDS. A team's piece is some
 * lines or, if inner > 1, strips of at most STRIP neighbouring lines.
 */
struct running {
	struct axis_view view;
	void *y;
	const void *v;
	bool backwards;
};

enum { STRIP = 512 };

#define RUNNING(REAL, NAME)                                                                                            \
	static void NAME(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)                             \
	{                                                                                                                  \
		const struct running *r = context;                                                                             \
		const int64_t n = r->view.n, inner = r->view.inner, strips = (inner + STRIP - 1) / STRIP;                      \
		for (int64_t part = begin; part < end; part++) {                                                               \
			const int64_t low = part % strips * STRIP, high = inner - low < STRIP ? inner : low + STRIP;               \
			const REAL *v = (const REAL *)r->v + part / strips * n * inner;                                            \
			REAL *y = (REAL *)r->y + part / strips * n * inner, sum = 0;                                               \
			for (int64_t i = 0; inner == 1 && i < n; i++) {                                                            \
				const int64_t at = r->backwards ? n - 1 - i : i;                                                       \
				sum = i ? sum + v[at] : v[at];                                                                         \
				y[at] = sum;                                                                                           \
			}                                                                                                          \
			for (int64_t i = 0; inner > 1 && i < n; i++) {                                                             \
				const int64_t at = (r->backwards ? n - 1 - i : i) * inner;                                             \
				const int64_t before = r->backwards ? at + inner : at - inner;                                         \
				if (i == 0)                                                                                            \
					memcpy(y + at + low, v + at + low, (size_t)(high - low) * sizeof(REAL));                           \
				else                                                                                                   \
					for (int64_t j = low; j < high; j++)                                                               \
						y[at + j] = y[before + j] + v[at + j];                                                         \
			}                                                                                                          \
		}                                                                                                              \
	}
RUNNING(float, running_f32)
RUNNING(double, running_f64)

static void run_sums(const struct op_call *call, void *y, const void *v, bool backwards)
{
	struct running r = {axis_view_named(call->attrs, &call->v->shape), y, v, backwards};
	const int64_t strips = (r.view.inner + STRIP - 1) / STRIP;
	const int64_t each = (r.view.n > 0 ? r.view.n : 1) * (r.view.inner < STRIP ? r.view.inner : STRIP);
	if (strips > 0)
		team_run(call->team, r.view.outer * strips, TEAM_PIECE / each + 1,
		         call->v->dtype == DTYPE_F64 ? running_f64 : running_f32, &r);
}

FORWARD(cumsum) { run_sums(call, y, v, false); }
VJP(cumsum) { run_sums(call, dv, g, true); }
