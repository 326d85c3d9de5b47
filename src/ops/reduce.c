/*
 * Reductions. Sums are made in double (lines.c) and rounded once; so are the
 * others, line by line. logsumexp follows scipy's: the largest element is taken
 * out where it is finite, so that a line of -inf gives -inf and one with inf inf.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/sum.h"
#include "ops/lines.h"

static void reduction_named(struct reduction *r, const struct op_call *call)
{
	bool reduced[MAX_DIMS];
	reduction_axes(call->attrs, &call->v->shape, reduced);
	reduction_of(r, &call->v->shape, reduced);
}

/* sum and mean */

void sum_partial_axes(const struct op_call *call, double *hi, double *lo, const void *v)
{
	struct reduction r;
	reduction_named(&r, call);
	if (r.moved) {
		reduction_move(&r, call->scratch, v, element_size(call->v->dtype), false);
		v = call->scratch;
	}
	const int64_t outs = r.view.outer * r.view.inner;
	for (int64_t i = 0; i < outs; i += SUMS_BLOCK)
		sums_of(call->kernels, &r.view, v, i, outs - i < SUMS_BLOCK ? (size_t)(outs - i) : SUMS_BLOCK,
		        (struct wide_sums){hi + i, lo + i});
}

/* Elements of the whole array that one result of a mean takes in. */
static double mean_count(const struct op_call *call)
{
	bool reduced[MAX_DIMS];
	double count = 1;
	reduction_axes(call->attrs, &call->v->shape, reduced);
	for (int i = 0; i < call->v->shape.ndim; i++)
		if (reduced[i])
			count *= (double)(i == 0 ? call->whole : call->v->shape.dim[i]);
	return count;
}

static void forward_sums(const struct op_call *call, void *y, const void *v, double divisor)
{
	struct reduction r;
	reduction_named(&r, call);
	reduction_sums(call->kernels, &r, y, v, divisor, call->scratch);
}

/* Each result's cotangent, over DIVISOR, to every element that went into it. */
static void spread_cotangent(const struct op_call *call, void *dv, const void *g, double divisor)
{
	struct type kept = *call->v;
	bool reduced[MAX_DIMS];
	const int64_t count = shape_count(&call->v->shape);
	reduction_axes(call->attrs, &call->v->shape, reduced);
	for (int i = 0; i < kept.shape.ndim; i++)
		if (reduced[i])
			kept.shape.dim[i] = 1;
	if (!dv || count == 0)
		return;
	broadcast_fill(call->kernels, dv, &(struct broadcast){g, &kept, call->v}, 0, count);
	if (divisor != 1)
		loops_get(call->kernels)->divide(dv, dv, &divisor, (size_t)count, 1);
}

void forward_sum(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a, (void)keep;
	forward_sums(call, y, v, 1);
}

void vjp_sum(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da, (void)needs;
	spread_cotangent(call, dv, g, 1);
}

void forward_mean(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a, (void)keep;
	forward_sums(call, y, v, mean_count(call));
}

void vjp_mean(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da, (void)needs;
	spread_cotangent(call, dv, g, mean_count(call));
}

double reduction_divisor(const struct op_call *call) { return call->op == OP_mean ? mean_count(call) : 1; }

/* The others: by lines; where axes are moved, v and dv go through scratch. */

static void reduce_lines(const struct op_call *call, struct line_arrays *to, const void *v, line_function *function)
{
	struct reduction r;
	reduction_named(&r, call);
	if (r.moved) {
		reduction_move(&r, call->scratch, v, element_size(call->v->dtype), false);
		v = call->scratch;
	}
	to->in[0] = v;
	lines_walk(call, &r.view, to, function, call->scratch);
}

static void spread_lines(const struct op_call *call, void *dv, const void *v, const void *y, const void *g,
                         line_function *function)
{
	const size_t size = element_size(call->v->dtype);
	struct reduction r;
	if (!dv)
		return;
	reduction_named(&r, call);
	struct line_arrays arrays = {.in = {v}, .out = dv, .short_in = {y, g}};
	if (!r.moved) {
		lines_walk(call, &r.view, &arrays, function, call->scratch);
		return;
	}
	void *moved = element_of(call->scratch, size, r.view.outer * r.view.n);
	reduction_move(&r, call->scratch, v, size, false);
	arrays.in[0] = call->scratch;
	arrays.out = moved;
	lines_walk(call, &r.view, &arrays, function, NULL);
	reduction_move(&r, dv, moved, size, true);
}

#define REDUCTION(NAME)                                                                                                \
	void forward_##NAME(const struct op_call *call, void *y, const void *v, const void *a,                             \
	                    void *const keep[MAX_KEEPS])                                                                   \
	{                                                                                                                  \
		(void)a, (void)keep;                                                                                           \
		reduce_lines(call, &(struct line_arrays){.short_out = y}, v, NAME##_lines);                                    \
	}                                                                                                                  \
	void vjp_##NAME(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS]) \
	{                                                                                                                  \
		(void)da;                                                                                                      \
		spread_lines(call, dv, needs[0], needs[2], g, NAME##_slope_lines);                                             \
	}

static void extremes_of(const struct op_call *call, const struct loops *loops, double *out, const void *lines, size_t n,
                        size_t count)
{
	(call->op == OP_amax ? loops->largest : loops->smallest)(out, lines, n, count);
}

static void amax_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at, size_t n,
                       size_t count)
{
	for (size_t first = 0, here; first < count; first += here) {
		double extreme[LINES_SOME];
		here = lines_at_once(n, count - first);
		extremes_of(call, loops, extreme, line_at(loops, at->in[0], n, first), n, here);
		for (size_t i = 0; i < here; i++)
			element_set(loops->dtype, at->short_out, first + i, extreme[i]);
	}
}

static void extreme_fold(const struct op_call *call, const struct loops *loops, const struct line_arrays *at, size_t n,
                         size_t count)
{
	extremes_of(call, loops, at->wide[0], at->in[0], n, count);
}
#define amin_lines amax_lines

/* The cotangent is shared by the elements that equal the result, as JAX does; by the NaN ones where it is NaN. */
static void amax_slope_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                             size_t n, size_t count)
{
	const enum dtype dtype = loops->dtype;
	(void)call;
	for (size_t i = 0; i < count; i++) {
		const double y = element_get(dtype, at->short_in[0], i), g = element_get(dtype, at->short_in[1], i);
		double ties = 0;
		for (size_t j = i * n; j < (i + 1) * n; j++) {
			const double x = element_get(dtype, at->in[0], j);
			ties += x == y || (isnan(y) && isnan(x));
		}
		for (size_t j = i * n; j < (i + 1) * n; j++) {
			const double x = element_get(dtype, at->in[0], j);
			element_set(dtype, at->out, j, x == y || (isnan(y) && isnan(x)) ? g / ties : 0);
		}
	}
}
#define amin_slope_lines amax_slope_lines

static void prod_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at, size_t n,
                       size_t count)
{
	(void)call;
	for (size_t first = 0, here; first < count; first += here) {
		double product[LINES_SOME];
		here = lines_at_once(n, count - first);
		loops->products(product, line_at(loops, at->in[0], n, first), n, here);
		for (size_t i = 0; i < here; i++)
			element_set(loops->dtype, at->short_out, first + i, product[i]);
	}
}

/* A line V, and OUT for the product of the other elements at each place. */
struct other_products {
	enum dtype dtype;
	void *out;
	const void *v;
};

enum { PRODUCTS_SOME = 256 };

/* put_other_products for at most PRODUCTS_SOME elements: the products of those before lie on the stack. */
static double put_few_other_products(const struct other_products *o, size_t begin, size_t end, double before,
                                     double after)
{
	double products[PRODUCTS_SOME];
	for (size_t j = begin; j < end; j++) {
		products[j - begin] = before;
		before *= element_get(o->dtype, o->v, j);
	}
	for (size_t j = end; j-- > begin;) {
		element_set(o->dtype, o->out, j, products[j - begin] * after);
		after *= element_get(o->dtype, o->v, j);
	}
	return after;
}

/*
 * Stores at each place from BEGIN to END the product of the other elements: BEFORE is
 * the product of those before BEGIN, AFTER of those from END on. Nothing is divided, so
 * zeros need no care. Returns AFTER times the elements BEGIN .. END-1. All products are
 * doubles, which do not overflow where floats would. A long range goes by halves: the
 * first half's product is computed again for the second, as recursive schedules do.
 */
static double put_other_products(const struct other_products *o, size_t begin, size_t end, double before, double after)
{
	if (end - begin <= PRODUCTS_SOME)
		return put_few_other_products(o, begin, end, before, after);
	const size_t middle = begin + (end - begin) / 2;
	double product = before;
	for (size_t j = begin; j < middle; j++)
		product *= element_get(o->dtype, o->v, j);
	after = put_other_products(o, middle, end, product, after);
	return put_other_products(o, begin, middle, before, after);
}

static void prod_slope_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                             size_t n, size_t count)
{
	const struct other_products o = {loops->dtype, at->out, at->in[0]};
	(void)call;
	for (size_t i = 0; i < count; i++)
		put_other_products(&o, i * n, (i + 1) * n, 1, element_get(loops->dtype, at->short_in[1], i));
}

/* The sum of the squares of a line, which overflows or vanishes, over that of *SCALE, its largest element. */
static double scaled_squares(const struct loops *loops, const void *line, size_t n, double *scale)
{
	double largest = 0, sum = 0, rest = 0;
	for (size_t j = 0; j < n; j++)
		largest = fmax(largest, fabs(element_get(loops->dtype, line, j)));
	if (largest == 0 || isinf(largest))
		return largest;
	for (size_t j = 0; j < n; j++) {
		const double x = element_get(loops->dtype, line, j) / largest;
		sum_add(&sum, &rest, x * x, 0);
	}
	*scale = largest;
	return sum + rest;
}

/* Of each line the sum of the squares, over that of its SCALE, which is 1 but where those of doubles overflow or vanish. */
static void squares_of(const struct loops *loops, double *sum, double *scale, const void *lines, size_t n, size_t count)
{
	loops->sums_squares(sum, lines, n, count);
	for (size_t i = 0; i < count; i++) {
		scale[i] = 1;
		if (!isnan(sum[i]) && !(sum[i] > 0x1p-900 && sum[i] <= DBL_MAX))
			sum[i] = scaled_squares(loops, line_at(loops, lines, n, i), n, &scale[i]);
	}
}

double norm_of(double squares, double scale) { return sqrt(squares) * scale; }

static void norm_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at, size_t n,
                       size_t count)
{
	(void)call;
	for (size_t first = 0, here; first < count; first += here) {
		double sum[LINES_SOME], scale[LINES_SOME];
		here = lines_at_once(n, count - first);
		squares_of(loops, sum, scale, line_at(loops, at->in[0], n, first), n, here);
		for (size_t i = 0; i < here; i++)
			element_set(loops->dtype, at->short_out, first + i, norm_of(sum[i], scale[i]));
	}
}

static void norm_fold(const struct op_call *call, const struct loops *loops, const struct line_arrays *at, size_t n,
                      size_t count)
{
	(void)call;
	squares_of(loops, at->wide[0], at->wide[2], at->in[0], n, count);
	memset(at->wide[1], 0, count * sizeof *at->wide[1]);
}

static void norm_slope_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                             size_t n, size_t count)
{
	const enum dtype dtype = loops->dtype;
	(void)call;
	for (size_t i = 0; i < count; i++) {
		const double y = element_get(dtype, at->short_in[0], i), g = element_get(dtype, at->short_in[1], i);
		for (size_t j = i * n; j < (i + 1) * n; j++)
			element_set(dtype, at->out, j, y == 0 ? 0 : g * (element_get(dtype, at->in[0], j) / y));
	}
}

/* Stores the sum of exp(v - shift) of each of LINES, at most LINES_SOME, and the shift: lines_largest. */
static void exponentials_of(const struct op_call *call, const struct loops *loops, struct lines lines, double *sum,
                            double *shift)
{
	lines_largest(loops, shift, lines);
	lines_sum_exp(call, loops, NULL, lines, shift, sum);
}

double logsumexp_of(double sum, double shift) { return log(sum) + shift; }

static void logsumexp_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                            size_t n, size_t count)
{
	for (size_t first = 0, here; first < count; first += here) {
		double shift[LINES_SOME], sum[LINES_SOME];
		here = lines_at_once(n, count - first);
		exponentials_of(call, loops, (struct lines){line_at(loops, at->in[0], n, first), n, here}, sum, shift);
		for (size_t i = 0; i < here; i++)
			element_set(loops->dtype, at->short_out, first + i, logsumexp_of(sum[i], shift[i]));
	}
}

static void logsumexp_fold(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                           size_t n, size_t count)
{
	for (size_t first = 0, here; first < count; first += here) {
		here = lines_at_once(n, count - first);
		exponentials_of(call, loops, (struct lines){line_at(loops, at->in[0], n, first), n, here}, at->wide[0] + first,
		                at->wide[2] + first);
		memset(at->wide[1] + first, 0, here * sizeof *at->wide[1]);
	}
}

/*
 * exp(v - y), whose sum is only nearly 1: y is rounded, by much where it is large. So it is divided by that sum, which is
 * NaN where y is infinite, and not for what is finite beside it.
 */
static void logsumexp_slope_lines(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                                  size_t n, size_t count)
{
	for (size_t first = 0, here; first < count; first += here) {
		double factor[LINES_SOME], sum[LINES_SOME];
		here = lines_at_once(n, count - first);
		void *out = line_of(loops, at->out, n, first);
		for (size_t i = 0; i < here; i++)
			factor[i] = element_get(loops->dtype, at->short_in[0], first + i);
		loops->subtract(out, line_at(loops, at->in[0], n, first), factor, n, here);
		call->kernels->forward[OP_exp][0](&(struct kernel_args){.out = out, .v = out, .n = n * here});
		loops->sums(sum, out, n, here);
		for (size_t i = 0; i < here; i++)
			factor[i] = element_get(loops->dtype, at->short_in[1], first + i) / (isnan(sum[i]) ? 1 : sum[i]);
		loops->multiply(out, out, factor, n, here);
	}
}

REDUCTION(amax)
REDUCTION(amin)
REDUCTION(prod)
REDUCTION(logsumexp)
REDUCTION(norm)

void fold_partial_lines(const struct op_call *call, double *const state[FOLD_PARTS], const void *v)
{
	line_function *const function = call->op == OP_norm        ? norm_fold
	                                : call->op == OP_logsumexp ? logsumexp_fold
	                                                           : extreme_fold;
	reduce_lines(call, &(struct line_arrays){.wide = {state[0], state[1], state[2]}}, v, function);
}
