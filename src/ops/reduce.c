/*
 * Reductions. sum and mean use lines.c's sums; the others go line by line. Sums and
 * products are doubles, and the result is rounded once. logsumexp follows scipy's
 * formula, with exponentials in the computing type: the largest element is subtracted
 * if it is finite. So a line of -inf gives -inf, and a line with inf gives inf.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

/* Returns V or, if R moves axes, a copy in the call's scratch whose last axes are the reduced ones. */
static const void *reduced_last(const struct op_call *call, const struct reduction *r, const void *v)
{
	if (!r->moved)
		return v;
	permute(call->kernels->loops, call->scratch, v, &r->merged, r->axes);
	return call->scratch;
}

/* sum and mean */

void sum_partial_axes(const struct op_call *call, struct wide_sums sums, const void *v)
{
	const struct reduction r = reduction_named(call->attrs, &call->v->shape);
	const int64_t outs = r.view.outer * r.view.inner;
	v = reduced_last(call, &r, v);
	for (int64_t i = 0; i < outs; i += SUMS_BLOCK)
		sums_of(call->kernels, &r.view, v, i, outs - i < SUMS_BLOCK ? (size_t)(outs - i) : SUMS_BLOCK,
		        (struct wide_sums){sums.hi + i, sums.lo + i, sums.scale ? sums.scale + i : NULL});
}

/* Returns the elements that the whole array has for each element of the result. */
static double reduced_count(const struct op_call *call)
{
	const int ndim = call->v->shape.ndim;
	double count = 1;
	for (int i = 0; i < ndim; i++)
		if (axis_named(call->attrs, i, ndim))
			count *= (double)(i == 0 ? call->whole : call->v->shape.dim[i]);
	return count;
}

double reduction_divisor(const struct op_call *call) { return call->op == OP_mean ? reduced_count(call) : 1; }

FORWARD(sum)
{
	const struct reduction r = reduction_named(call->attrs, &call->v->shape);
	reduction_sums(call->kernels, &r, y, v, reduction_divisor(call), call->scratch);
}

/* Each element's derivative is the cotangent of the result that sums it, divided by the divisor. */
VJP(sum)
{
	struct type kept = *call->v;
	const int64_t count = shape_count(&call->v->shape);
	const double divisor = reduction_divisor(call);
	for (int i = 0; i < kept.shape.ndim; i++)
		if (axis_named(call->attrs, i, kept.shape.ndim))
			kept.shape.dim[i] = 1;
	broadcast_fill(call->kernels, dv, &(struct broadcast){g, &kept, call->v}, 0, count);
	if (divisor != 1)
		call->kernels->loops->divide(dv, dv, &divisor, (size_t)count, 1);
}

FORWARD(mean) { forward_sum(call, y, v, a, keep); }
VJP(mean) { vjp_sum(call, dv, da, g, needs); }

/* The other reductions. Each computes a double for a line; norm also computes its scale, logsumexp its shift. */

void reduction_walk(const struct op_call *call, struct line_arrays to, const void *v, line_function *function)
{
	const struct reduction r = reduction_named(call->attrs, &call->v->shape);
	to.in[0] = reduced_last(call, &r, v);
	lines_walk(call, &r.view, &to, function, call->scratch);
}

/*
 * Computes dv line by line: sets OUT, IN and SHORT_IN of ARRAYS. If axes are moved, scratch has v's copy and behind it
 * dv, whose axes are moved back.
 */
static void differentiate_lines(const struct op_call *call, struct line_arrays arrays, void *dv, const void *g,
                                const void *const needs[MAX_NEEDS], line_function *function)
{
	const size_t size = element_size(call->v->dtype);
	const struct reduction r = reduction_named(call->attrs, &call->v->shape);
	arrays.in[0] = reduced_last(call, &r, needs[0]);
	arrays.out = dv;
	arrays.short_in[0] = needs[2];
	arrays.short_in[1] = g;
	if (r.moved)
		arrays.out = element_of(call->scratch, size, r.view.outer * r.view.n);
	lines_walk(call, &r.view, &arrays, function, r.moved ? NULL : call->scratch);
	if (r.moved)
		permute(call->kernels->loops, dv, arrays.out, &r.last, r.back);
}

/* Sets *SCALE to a line's largest |x|, returns the sum of (x / *SCALE)^2. If |x| is 0 or inf, only returns it. */
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

/* True if a sum of squares of DTYPE may have lost squares that overflow or underflow in double. */
static bool loses_squares(enum dtype dtype, double squares)
{
	return dtype == DTYPE_F64 && !(squares > 0x1p-900 && squares <= DBL_MAX);
}

void lines_sum_squares(const struct loops *loops, struct lines lines, double *sum, double *scale)
{
	loops->sum.squares(sum, NULL, lines.data, lines.n, lines.count);
	for (size_t i = 0; i < lines.count; i++) {
		scale[i] = 1;
		if (!isnan(sum[i]) && loses_squares(loops->dtype, sum[i]))
			sum[i] = scaled_squares(loops, line_at(loops, lines.data, lines.n, i), lines.n, &scale[i]);
	}
}

/*
 * Computes the moments of line I once more, of its elements over a power of two near the largest. Leaves them as they are
 * if the line has an infinity or NaN, or its elements are equal.
 */
static void scale_moments(struct lines lines, size_t i, struct line_moments m)
{
	const double *const line = (const double *)lines.data + i * lines.n;
	double largest = 0;
	int exponent = 0;
	for (size_t j = 0; j < lines.n; j++)
		largest = fabs(line[j]) <= largest ? largest : fabs(line[j]); /* a NaN stays, unless a number follows */
	const bool equal = m.squares[i] == 0 && (largest == 0 || largest > 0x1p-400);
	if (equal || !isfinite(largest))
		return;
	(void)frexp(largest, &exponent);
	m.scale[i] = ldexp(1, exponent < -1000 ? -1000 : exponent - 1);
	m.sum[i] = m.rest[i] = m.squares[i] = m.squares_rest[i] = 0;
	for (size_t j = 0; j < lines.n; j++)
		sum_add(&m.sum[i], &m.rest[i], line[j] / m.scale[i], 0);
	const double mean = sum_quotient(m.sum[i], m.rest[i], (double)lines.n);
	for (size_t j = 0; j < lines.n; j++) {
		const double apart = line[j] / m.scale[i] - mean;
		sum_add(&m.squares[i], &m.squares_rest[i], apart * apart, 0);
	}
}

void lines_moments(const struct loops *loops, struct lines lines, struct line_moments m)
{
	double mean[LINES_SOME];
	loops->sum.values(m.sum, m.rest, lines.data, lines.n, lines.count);
	for (size_t i = 0; i < lines.count; i++)
		mean[i] = sum_quotient(m.sum[i], m.rest[i], (double)lines.n);
	loops->sum.deviations(m.squares, m.squares_rest, lines.data, mean, lines.n, lines.count);
	for (size_t i = 0; i < lines.count; i++) {
		m.scale[i] = 1;
		if (loses_squares(loops->dtype, m.squares[i]))
			scale_moments(lines, i, m);
	}
}

/* Stores the value of each of LINES, at most LINES_SOME, and its scale, shift or exponent (reduction_result). */
static void line_values(const struct op_call *call, const struct loops *loops, struct lines lines, double *value,
                        double *scale)
{
	switch (call->op) {
	case OP_amax:
		loops->largest(value, lines.data, lines.n, lines.count);
		break;
	case OP_amin:
		loops->smallest(value, lines.data, lines.n, lines.count);
		break;
	case OP_prod:
		loops->products(value, scale, lines.data, lines.n, lines.count);
		break;
	case OP_norm:
		lines_sum_squares(loops, lines, value, scale);
		break;
	case OP_var:
	case OP_std: {
		double sum[LINES_SOME], rest[LINES_SOME], squares_rest[LINES_SOME];
		lines_moments(loops, lines, (struct line_moments){sum, rest, value, squares_rest, scale});
		for (size_t i = 0; i < lines.count; i++)
			value[i] = sum_quotient(value[i], squares_rest[i], (double)lines.n);
		break;
	}
	default: { /* logsumexp */
		double rest[LINES_SOME];
		lines_largest(loops, scale, lines);
		lines_sum_exp(call, loops, NULL, lines, scale, (struct wide_sums){value, rest, NULL});
		for (size_t i = 0; i < lines.count; i++)
			value[i] = log_of_sum(value[i], rest[i]);
	}
	}
}

double reduction_result(enum op op, double value, double scale)
{
	switch (op) {
	case OP_norm:
		return sqrt(value) * scale;
	case OP_logsumexp:
		return value + scale;
	case OP_prod:
		return split_value((struct split_product){value, scale});
	case OP_var:
		return value * scale * scale;
	case OP_std:
		return sqrt(value) * scale;
	default:
		return value;
	}
}

LINES(result_lines)
{
	double value[LINES_SOME], scale[LINES_SOME] = {0};
	line_values(call, loops, (struct lines){at->in[0], n, count}, value, scale);
	for (size_t i = 0; i < count; i++)
		element_set(loops->dtype, at->short_out, i, reduction_result(call->op, value[i], scale[i]));
}

/*
 * Derivatives. Some need statistics of a line, in doubles. A function of derivatives computes them unless the walk gives
 * them in WIDE: those of lines that go on in other blocks of rows (ops/fold.c).
 */

static bool is_extreme(double x, double y) { return x == y || (isnan(y) && isnan(x)); }

LINES(tie_lines)
{
	for (size_t i = 0; i < count; i++) {
		const double y = element_get(loops->dtype, at->short_in[0], i);
		at->wide[0][i] = 0;
		for (size_t j = i * n; j < (i + 1) * n; j++)
			at->wide[0][i] += is_extreme(element_get(loops->dtype, at->in[0], j), y);
	}
}

/* The elements that equal the result share its cotangent, as in JAX. If the result is NaN, the NaNs share it. */
LINES(extreme_derivative_lines)
{
	const enum dtype dtype = loops->dtype;
	double own[LINES_SOME];
	struct line_arrays with = *at;
	if (!at->wide[0]) {
		with.wide[0] = own;
		tie_lines(call, loops, &with, n, count);
	}
	for (size_t i = 0; i < count; i++) {
		const double y = element_get(dtype, at->short_in[0], i), g = element_get(dtype, at->short_in[1], i);
		for (size_t j = i * n; j < (i + 1) * n; j++)
			element_set(dtype, at->out, j, is_extreme(element_get(dtype, at->in[0], j), y) ? g / with.wide[0][i] : 0);
	}
}

/* The lines V, and OUT for the derivative of a line's product at each index. */
struct other_products {
	const struct loops *loops;
	void *out;
	const void *v;
};

/* Returns P Q, with a mantissa in [0.5, 1) unless it is 0, infinite or NaN. */
static struct split_product products_multiplied(struct split_product p, struct split_product q)
{
	const struct split_product one = split(p.mantissa), other = split(q.mantissa);
	const struct split_product both = split(one.mantissa * other.mantissa);
	return (struct split_product){both.mantissa,
	                              both.exponent + one.exponent + other.exponent + p.exponent + q.exponent};
}

/*
 * put_few_other_products without exponents of their own. *AFTER is replaced. Returns false if a product comes near the ends
 * of the range: what is stored then is wrong.
 */
static bool put_plain_products(const struct other_products *o, size_t begin, size_t end, struct split_product before,
                               struct split_product *after)
{
	const struct split_product one = {1, 0}, from = products_multiplied(before, one),
							   back = products_multiplied(*after, one);
	const double power = split_value((struct split_product){1, from.exponent + back.exponent});
	double others = back.mantissa;
	const size_t size = element_size(o->loops->dtype);
	if (!isnormal(power) ||
	    !o->loops->other_products(element_of(o->out, size, (int64_t)begin), element_at(o->v, size, (int64_t)begin),
	                              from.mantissa, &others, power, end - begin))
		return false;
	*after = (struct split_product){others, back.exponent};
	return true;
}

/* put_other_products for at most PRODUCTS_SOME elements: the stack holds the product of the elements before each. */
static struct split_product put_few_other_products(const struct other_products *o, size_t begin, size_t end,
                                                   struct split_product before, struct split_product after)
{
	struct split_product products[PRODUCTS_SOME];
	if (put_plain_products(o, begin, end, before, &after))
		return after;
	for (size_t j = begin; j < end; j++) {
		products[j - begin] = before;
		before = split_times(before, element_get(o->loops->dtype, o->v, j));
	}
	for (size_t j = end; j-- > begin;) {
		const struct split_product *const p = &products[j - begin];
		element_set(o->loops->dtype, o->out, j,
		            split_value((struct split_product){p->mantissa * after.mantissa, p->exponent + after.exponent}));
		after = split_times(after, element_get(o->loops->dtype, o->v, j));
	}
	return after;
}

/*
 * Stores at each index BEGIN .. END-1 the cotangent times the line's other elements.
 * BEFORE is the product of the elements before BEGIN, AFTER the cotangent times the
 * elements from END on. Returns AFTER times the elements BEGIN .. END-1. Nothing is
 * divided, so zeros need no special case. Exponents are apart, so that no product overflows or underflows before the
 * result. A long range is halved: the product of its first half is computed again for the second half, as in recursive
 * checkpointing.
 */
static struct split_product put_other_products(const struct other_products *o, size_t begin, size_t end,
                                               struct split_product before, struct split_product after)
{
	if (end - begin <= PRODUCTS_SOME)
		return put_few_other_products(o, begin, end, before, after);
	const size_t middle = begin + (end - begin) / 2;
	const void *const first = element_at(o->v, element_size(o->loops->dtype), (int64_t)begin);
	struct split_product product;
	o->loops->products(&product.mantissa, &product.exponent, first, middle - begin, 1);
	product = products_multiplied(before, product);
	after = put_other_products(o, middle, end, product, after);
	return put_other_products(o, begin, middle, before, after);
}

/* Stores the mantissa and the exponent of the product of the other elements, the number of zeros, that of infinities. */
LINES(factor_lines)
{
	for (size_t i = 0; i < count; i++) {
		struct split_product product = {1, 0};
		double zeros = 0, infinities = 0;
		for (size_t j = i * n; j < (i + 1) * n; j++) {
			const double x = element_get(loops->dtype, at->in[0], j);
			zeros += x == 0;
			infinities += isinf(x);
			product = split_times(product, x == 0 || isinf(x) ? copysign(1, x) : x);
		}
		const double made[] = {product.mantissa, product.exponent, zeros, infinities};
		for (int k = 0; k < 4; k++)
			at->wide[k][i] = made[k];
	}
}

/* Returns G times the product of a line's elements but X, by the line's statistics (factor_lines). */
static double other_product(double g, double x, const double statistics[4])
{
	const bool special = x == 0 || isinf(x);
	const struct split_product all = split(statistics[0]), own = split(special ? copysign(1, x) : x), by = split(g);
	const bool zero = statistics[2] - (x == 0) > 0, infinite = statistics[3] - isinf(fabs(x)) > 0;
	const double others = by.mantissa * (all.mantissa / own.mantissa);
	if (zero || infinite)
		return others * (zero ? 0 : 1) * (infinite ? (double)INFINITY : 1);
	return split_value((struct split_product){others, statistics[1] + all.exponent + by.exponent - own.exponent});
}

LINES(prod_derivative_lines)
{
	for (size_t i = 0; at->wide[0] && i < count; i++) {
		const double statistics[] = {at->wide[0][i], at->wide[1][i], at->wide[2][i], at->wide[3][i]};
		const double g = element_get(loops->dtype, at->short_in[1], i);
		for (size_t j = i * n; j < (i + 1) * n; j++)
			element_set(loops->dtype, at->out, j,
			            other_product(g, element_get(loops->dtype, at->in[0], j), statistics));
	}
	if (at->wide[0])
		return;
	const struct other_products o = {loops, at->out, at->in[0]};
	for (size_t i = 0; i < count; i++)
		put_other_products(&o, i * n, (i + 1) * n, (struct split_product){1, 0},
		                   split_times((struct split_product){1, 0}, element_get(loops->dtype, at->short_in[1], i)));
}

/* Returns G V / Y, where |V| is at most Y. The quotient may underflow, though the result does not. */
static double norm_share(double g, double v, double y)
{
	const double share = v / y;
	if (v == 0 || !(fabs(share) < 0x1p-1000))
		return g * share;
	const struct split_product a = split(g), b = split(v), c = split(y);
	return split_value(
		(struct split_product){a.mantissa * b.mantissa / c.mantissa, a.exponent + b.exponent - c.exponent});
}

/* dv = g * v / y; 0 if y is 0. Of doubles, a small quotient makes a line be computed again. */
LINES(norm_derivative_lines)
{
	const enum dtype dtype = loops->dtype;
	const double *const v = at->in[0];
	for (size_t i = 0; i < count; i++) {
		const double y = element_get(dtype, at->short_in[0], i), g = element_get(dtype, at->short_in[1], i);
		double least = INFINITY;
		if (y == 0)
			loops->fill(element_of(at->out, element_size(dtype), (int64_t)(i * n)), 0, n);
		else if (dtype == DTYPE_F32)
			for (size_t j = i * n; j < (i + 1) * n; j++)
				((float *)at->out)[j] = (float)(g * ((double)((const float *)at->in[0])[j] / y));
		else
			for (size_t j = i * n; j < (i + 1) * n; j++) {
				const double share = v[j] / y, size = v[j] == 0 ? INFINITY : fabs(share);
				((double *)at->out)[j] = g * share;
				least = size < least ? size : least;
			}
		for (size_t j = i * n; least < 0x1p-1000 && j < (i + 1) * n; j++)
			((double *)at->out)[j] = norm_share(g, v[j], y);
	}
}

/* Stores the derivatives of line I, whose factor g / (n y) or deviations may overflow or underflow though they do not. */
static void put_deviations(const struct op_call *call, const struct line_arrays *at, size_t i, double mean, size_t n)
{
	const enum dtype dtype = call->kernels->dtype;
	const double y = call->op == OP_std ? element_get(dtype, at->short_in[0], i) : 0.5;
	const struct split_product g = split(element_get(dtype, at->short_in[1], i)), over = split(y);
	const double each = g.mantissa / reduced_count(call), part = is_far(DTYPE_F64, mean) ? SUM_FAR : 1;
	const struct split_product of_part = split(part);
	for (size_t j = i * n; j < (i + 1) * n; j++) {
		const struct split_product d = split(element_get(dtype, at->in[0], j) / part - mean / part);
		const double mantissa = each * d.mantissa * of_part.mantissa / over.mantissa;
		element_set(
			dtype, at->out, j,
			split_value((struct split_product){mantissa, g.exponent + d.exponent + of_part.exponent - over.exponent}));
	}
}

/* var: dv = 2 g (v - mean) / n; std: dv = g (v - mean) / (n y), 0 if y is 0 */
LINES(variance_derivative_lines)
{
	double own[LINES_SOME], factor[LINES_SOME], *const mean = at->wide[0] ? at->wide[0] : own;
	const double elements = reduced_count(call);
	if (!at->wide[0])
		lines_means(loops, (struct lines){at->in[0], n, count}, NULL, elements, own);
	for (size_t i = 0; i < count; i++) {
		const double g = element_get(loops->dtype, at->short_in[1], i) / elements;
		const double y = call->op == OP_std ? element_get(loops->dtype, at->short_in[0], i) : 0.5;
		factor[i] = y == 0 ? 0 : g / y;
	}
	loops->normalize(at->out, at->in[0], mean, factor, n, count);
	for (size_t i = 0; i < count; i++)
		if ((!is_moderate(factor[i]) || is_far(DTYPE_F64, mean[i])) &&
		    (call->op == OP_var || element_get(loops->dtype, at->short_in[0], i) != 0))
			put_deviations(call, at, i, mean[i], n);
}

LINES(value_sum_lines)
{
	lines_sums(loops, (struct lines){at->in[0], n, count}, NULL,
	           (struct wide_sums){at->wide[0], at->wide[1], at->wide[2]});
}

/* Stores the derivatives of line I that FACTOR makes large enough, though their exponentials may underflow. */
static void put_small_exponentials(const struct op_call *call, const struct line_arrays *at, size_t i, double factor,
                                   size_t n)
{
	const enum dtype dtype = call->kernels->dtype;
	const double y = element_get(dtype, at->short_in[0], i), least = dtype == DTYPE_F64 ? -700 : -86;
	for (size_t j = i * n; j < (i + 1) * n; j++) {
		const double apart = element_get(dtype, at->in[0], j) - y, root = exp(apart / 2);
		if (apart < least)
			element_set(dtype, at->out, j, factor * root * root);
	}
}

/*
 * dv = g * exp(v - y) / sum(exp(v - y)). The sum would be 1 if y were exact, but the rounding
 * of a large y matters. A NaN, the sum if y is infinite, is replaced by 1: finite elements
 * beside an infinite one keep a derivative of 0.
 */
LINES(logsumexp_derivative_lines)
{
	double factor[LINES_SOME], own[LINES_SOME], *const sum = at->wide[0] ? at->wide[0] : own;
	bool half[LINES_SOME];
	for (size_t i = 0; i < count; i++)
		factor[i] = element_get(loops->dtype, at->short_in[0], i);
	loops->subtract(at->out, at->in[0], factor, n, count);
	lines_exp(call, at->out, at->out, n * count);
	if (!at->wide[0])
		loops->sum.values(own, NULL, at->out, n, count);
	for (size_t i = 0; i < count; i++) {
		const double g = element_get(loops->dtype, at->short_in[1], i), by = isnan(sum[i]) ? 1 : sum[i];
		factor[i] = g / by;
		half[i] = isinf(factor[i]) && isfinite(g); /* a sum just below 1 */
		factor[i] = half[i] ? g / 2 / by : factor[i];
	}
	loops->multiply_wide(at->out, at->out, factor, n, count);
	for (size_t i = 0; i < count; i++) {
		void *const line = element_of(at->out, element_size(loops->dtype), (int64_t)(i * n));
		if (fabs(factor[i]) > 1 && isfinite(factor[i]))
			put_small_exponentials(call, at, i, factor[i], n);
		if (half[i])
			loops->multiply_wide(line, line, &(double){2}, n, 1);
	}
}

LINES(exponent_sum_lines)
{
	double shift[LINES_SOME];
	for (size_t i = 0; i < count; i++)
		shift[i] = element_get(loops->dtype, at->short_in[0], i);
	lines_sum_exp(call, loops, NULL, (struct lines){at->in[0], n, count}, shift,
	              (struct wide_sums){at->wide[0], NULL, NULL});
}

#define REDUCTION(NAME, DERIVATIVE)                                                                                    \
	FORWARD(NAME) { reduction_walk(call, (struct line_arrays){.short_out = y}, v, result_lines); }                     \
	VJP(NAME) { differentiate_lines(call, (struct line_arrays){.out = NULL}, dv, g, needs, DERIVATIVE); }
REDUCTION(amax, extreme_derivative_lines)
REDUCTION(amin, extreme_derivative_lines)
REDUCTION(prod, prod_derivative_lines)
REDUCTION(logsumexp, logsumexp_derivative_lines)
REDUCTION(norm, norm_derivative_lines)
REDUCTION(var, variance_derivative_lines)
REDUCTION(std, variance_derivative_lines)

void reduction_statistics(const struct op_call *call, struct line_arrays to, const void *const needs[MAX_NEEDS])
{
	const enum op op = call->op;
	to.short_in[0] = needs[2];
	reduction_walk(call, to, needs[0],
	               op == OP_amax || op == OP_amin ? tie_lines
	               : op == OP_prod                ? factor_lines
	               : op == OP_logsumexp           ? exponent_sum_lines
	                                              : value_sum_lines);
}

void reduction_apply(const struct op_call *call, struct line_arrays by, void *dv, const void *g,
                     const void *const needs[MAX_NEEDS])
{
	const enum op op = call->op;
	differentiate_lines(call, by, dv, g, needs,
	                    op == OP_amax || op == OP_amin ? extreme_derivative_lines
	                    : op == OP_prod                ? prod_derivative_lines
	                    : op == OP_logsumexp           ? logsumexp_derivative_lines
	                                                   : variance_derivative_lines);
}

double reduction_mean(const struct op_call *call, struct mean_sum sum)
{
	return sum_quotient(sum.hi, sum.lo, reduced_count(call)) * sum.scale;
}
