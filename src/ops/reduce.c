/*
 * Reductions. sum and mean use lines.c's sums; the others go line by line. Sums and
 * products are doubles, and the result is rounded once. logsumexp follows scipy's
 * formula, with exponentials in the computing type: the largest element is subtracted
 * if it is finite. So a line of -inf gives -inf, and a line with inf gives inf.
 * Tests: tests/unit/test_general.c
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

/* Stores the quotients of G by DIVISOR at the elements of TO that VIEW sums. There are fewer quotients than elements. */
static void spread_quotients(const struct loops *loops, const struct axis_view *view, void *to, const void *g,
                             double divisor)
{
	enum { COPY = 4096 };
	const size_t size = element_size(loops->dtype), n = (size_t)view->n, inner = (size_t)view->inner, all = n * inner;
	for (int64_t o = 0; o < view->outer && all > 0; o++) {
		char *const first = element_of(to, size, o * (int64_t)all);
		loops->divide(first, element_at(g, size, o * (int64_t)inner), &divisor, inner, 1);
		if (inner == 1)
			loops->fill(first, element_get(loops->dtype, first, 0), n);
		for (size_t done = inner, some; inner > 1 && done < all; done += some) {
			some = done < COPY ? done : COPY / inner * inner > inner ? COPY / inner * inner : inner;
			some = all - done < some ? all - done : some;
			memcpy(first + done * size, first, some * size);
		}
	}
}

/* Each element's derivative is the cotangent of the result that sums it, divided by the divisor. */
VJP(sum)
{
	const struct reduction r = reduction_named(call->attrs, &call->v->shape);
	struct type kept = *call->v;
	const int64_t count = shape_count(&call->v->shape);
	const double divisor = reduction_divisor(call);
	if (divisor != 1 && !r.moved) {
		spread_quotients(call->kernels->loops, &r.view, dv, g, divisor);
		return;
	}
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

void lines_true(const struct op_call *call, const struct loops *loops, struct lines lines, double *value)
{
	const double wanted = call->op == OP_any;
	for (size_t i = 0; i < lines.count; i++) {
		const size_t end = (i + 1) * lines.n;
		size_t j = i * lines.n;
		while (j < end && (element_get(loops->dtype, lines.data, j) != 0) != wanted)
			j++;
		value[i] = j < end ? wanted : 1 - wanted;
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
	case OP_any:
	case OP_all:
		lines_true(call, loops, lines, value);
		break;
	case OP_prod:
		loops->products(value, scale, lines.data, lines.n, lines.n, lines.count);
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

/* The array V, and OUT for the product of the other elements of the line at each index. */
struct other_products {
	const struct loops *loops;
	void *out;
	const void *v;
};

/* COUNT pieces of N elements that follow one another from element BEGIN on. */
struct product_pieces {
	size_t begin, n, count;
};

/* Returns P with a mantissa within 2^-100 and 2^100, unless that is 0, infinite or NaN. */
static struct split_product narrowed(struct split_product p)
{
	if (fabs(p.mantissa) > 0x1p-100 && fabs(p.mantissa) < 0x1p100)
		return p;
	const struct split_product s = split(p.mantissa);
	return (struct split_product){s.mantissa, s.exponent + p.exponent};
}

static struct split_product products_multiplied(struct split_product p, struct split_product q)
{
	p = narrowed(p);
	q = narrowed(q);
	return narrowed((struct split_product){p.mantissa * q.mantissa, p.exponent + q.exponent});
}

/* Stores the products of PIECES. */
static void products_of_pieces(const struct other_products *o, struct product_pieces pieces,
                               struct split_product *products)
{
	double mantissa[PRODUCTS_SOME], exponent[PRODUCTS_SOME];
	o->loops->products(mantissa, exponent, line_at(o->loops, o->v, 1, pieces.begin), pieces.n, pieces.n, pieces.count);
	for (size_t i = 0; i < pieces.count; i++)
		products[i] = (struct split_product){mantissa[i], exponent[i]};
}

/* Stores the other products of a piece whose products may come near the ends of the range: exponents are apart. */
static void put_far_products(const struct other_products *o, size_t begin, size_t n, struct split_product before,
                             struct split_product after)
{
	struct split_product products[PRODUCTS_SOME];
	for (size_t j = 0; j < n; j++) {
		products[j] = before;
		before = split_times(before, element_get(o->loops->dtype, o->v, begin + j));
	}
	for (size_t j = n; j-- > 0;) {
		const double own = element_get(o->loops->dtype, o->v, begin + j);
		element_set(o->loops->dtype, o->out, begin + j,
		            split_value((struct split_product){products[j].mantissa * after.mantissa,
		                                               products[j].exponent + after.exponent}));
		after = split_times(after, own);
	}
}

/* The same for pieces whose products are far from the ends. Else returns false, and stores nothing. */
static bool put_near_products(const struct other_products *o, struct product_pieces pieces,
                              const struct split_product *before, const struct split_product *after)
{
	struct product_ends ends;
	for (size_t i = 0; i < pieces.count; i++) {
		const struct split_product from = narrowed(before[i]), back = narrowed(after[i]);
		ends.before[i] = from.mantissa;
		ends.after[i] = back.mantissa;
		const double exponent = from.exponent + back.exponent;
		ends.power[i] = exponent == 0 ? 1 : split_value((struct split_product){1, exponent});
		if (!isnormal(ends.power[i]))
			return false;
	}
	return o->loops->other_products(element_of(o->out, element_size(o->loops->dtype), (int64_t)pieces.begin),
	                                line_at(o->loops, o->v, 1, pieces.begin), pieces.n, &ends, pieces.n, pieces.count);
}

/* Stores the other products of PIECES, each between BEFORE and AFTER. */
static void put_others_of_pieces(const struct other_products *o, struct product_pieces pieces,
                                 const struct split_product *before, const struct split_product *after)
{
	for (size_t i = 0, some; i < pieces.count; i += some) {
		some = pieces.count - i < PRODUCT_PIECES ? pieces.count - i : PRODUCT_PIECES;
		const struct product_pieces here = {pieces.begin + i * pieces.n, pieces.n, some};
		if (put_near_products(o, here, before + i, after + i))
			continue;
		for (size_t k = i; k < i + some; k++) {
			const struct product_pieces one = {pieces.begin + k * pieces.n, pieces.n, 1};
			if (some == 1 || !put_near_products(o, one, before + k, after + k))
				put_far_products(o, one.begin, one.n, before[k], after[k]);
		}
	}
}

enum { PRODUCTS_MOST = PRODUCTS_SOME * PRODUCTS_SOME };

/* put_other_products for at most PRODUCTS_MOST elements: the stack holds the products around each piece. */
static struct split_product put_some_products(const struct other_products *o, size_t begin, size_t end,
                                              struct split_product before, struct split_product after)
{
	struct split_product own[PRODUCTS_SOME], ahead[PRODUCTS_SOME], behind[PRODUCTS_SOME], rest;
	const size_t all = end - begin, n = all < PRODUCT_PIECES ? 1 : all / PRODUCT_PIECES,
				 width = n < PRODUCTS_SOME ? n : PRODUCTS_SOME;
	const struct product_pieces pieces = {begin, width, all / width};
	const struct product_pieces last = {begin + pieces.count * width, all - pieces.count * width, 1};
	products_of_pieces(o, pieces, own);
	for (size_t i = 0; i < pieces.count; i++) {
		ahead[i] = before;
		before = products_multiplied(before, own[i]);
	}
	if (last.n > 0) {
		products_of_pieces(o, last, &rest);
		put_others_of_pieces(o, last, &before, &after);
		after = products_multiplied(after, rest);
	}
	for (size_t i = pieces.count; i-- > 0;) {
		behind[i] = after;
		after = products_multiplied(after, own[i]);
	}
	put_others_of_pieces(o, pieces, ahead, behind);
	return after;
}

/*
 * Stores at each index BEGIN .. END-1 the cotangent times the line's other elements. BEFORE is the product of the elements
 * before BEGIN, AFTER the cotangent times the elements from END on. Returns AFTER times the elements BEGIN .. END-1. Nothing
 * is divided, so zeros need no special case. A long range is halved: the product of its first half is computed again for
 * the second half, as in recursive checkpointing.
 */
static struct split_product put_other_products(const struct other_products *o, size_t begin, size_t end,
                                               struct split_product before, struct split_product after)
{
	if (end - begin <= PRODUCTS_MOST)
		return put_some_products(o, begin, end, before, after);
	const size_t middle = begin + (end - begin) / 2 / PRODUCTS_SOME * PRODUCTS_SOME;
	struct split_product product = before, own[PRODUCTS_SOME];
	for (size_t at = begin, some; at < middle; at += some * PRODUCTS_SOME) {
		const size_t left = (middle - at) / PRODUCTS_SOME;
		some = left < PRODUCTS_SOME ? left : PRODUCTS_SOME;
		products_of_pieces(o, (struct product_pieces){at, PRODUCTS_SOME, some}, own);
		for (size_t i = 0; i < some; i++)
			product = products_multiplied(product, own[i]);
	}
	after = put_other_products(o, middle, end, product, after);
	return put_other_products(o, begin, middle, before, after);
}

/* Stores the mantissa and the exponent of the product of the other elements, the number of zeros, that of infinities. */
LINES(factor_lines)
{
	double *const *const to = at->wide;
	memset(to[2], 0, count * sizeof *to[2]);
	memset(to[3], 0, count * sizeof *to[3]);
	loops->products(to[0], to[1], at->in[0], n, n, count);
	for (size_t i = 0; i < count; i++) {
		if (to[0][i] != 0 && isfinite(to[0][i]))
			continue;
		struct split_product product = {1, 0};
		for (size_t j = i * n; j < (i + 1) * n; j++) {
			const double x = element_get(loops->dtype, at->in[0], j);
			to[2][i] += x == 0;
			to[3][i] += isinf(x);
			product = split_times(product, x == 0 || isinf(x) ? copysign(1, x) : x);
		}
		to[0][i] = product.mantissa;
		to[1][i] = product.exponent;
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

/* Stores the derivatives of line I by its STATISTICS. Returns false if an element or a number is not moderate. */
static bool put_quotients(const struct loops *loops, const struct line_arrays *at, size_t i, double g,
                          const double statistics[4], size_t n)
{
	const struct split_product all = split(statistics[0]), by = split(g);
	const double power = split_value((struct split_product){1, statistics[1] + all.exponent + by.exponent});
	bool far = statistics[2] > 0 || statistics[3] > 0 || !isnormal(power);
	for (size_t j = i * n; j < (i + 1) * n; j++)
		far |= !is_moderate(element_get(loops->dtype, at->in[0], j));
	if (far)
		return false;
	for (size_t j = i * n; j < (i + 1) * n; j++)
		element_set(loops->dtype, at->out, j,
		            by.mantissa * (all.mantissa / element_get(loops->dtype, at->in[0], j)) * power);
	return true;
}

LINES(quotient_lines)
{
	for (size_t i = 0; i < count; i++) {
		const double statistics[] = {at->wide[0][i], at->wide[1][i], at->wide[2][i], at->wide[3][i]};
		const double g = element_get(loops->dtype, at->short_in[1], i);
		if (put_quotients(loops, at, i, g, statistics, n))
			continue;
		for (size_t j = i * n; j < (i + 1) * n; j++)
			element_set(loops->dtype, at->out, j,
			            other_product(g, element_get(loops->dtype, at->in[0], j), statistics));
	}
}

LINES(prod_derivative_lines)
{
	const struct other_products o = {loops, at->out, at->in[0]};
	struct split_product before[LINES_SOME], after[LINES_SOME];
	if (at->wide[0]) {
		quotient_lines(call, loops, at, n, count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		before[i] = (struct split_product){1, 0};
		after[i] = split_times(before[i], element_get(loops->dtype, at->short_in[1], i));
	}
	if (n > 0 && n <= PRODUCTS_SOME)
		put_others_of_pieces(&o, (struct product_pieces){0, n, count}, before, after);
	for (size_t i = 0; i < count && n > PRODUCTS_SOME; i++)
		put_other_products(&o, i * n, (i + 1) * n, before[i], after[i]);
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

FORWARD(any) { reduction_walk(call, (struct line_arrays){.short_out = y}, v, result_lines); }
FORWARD(all) { reduction_walk(call, (struct line_arrays){.short_out = y}, v, result_lines); }
VJP(any) { memset(dv, 0, (size_t)type_bytes(call->v)); }
VJP(all) { memset(dv, 0, (size_t)type_bytes(call->v)); }

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
