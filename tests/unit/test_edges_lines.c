/*
 * Values and derivatives at the edges of reductions, operations along an axis, losses and products, on numbers of any
 * exponent, on every instruction set, in both types, along either axis and in blocks of rows. The wider type is long
 * double. What is compared is a normal number in the type, and is neither infinite, NaN nor 0 there.
 *
 * An error is measured in half units of the last place of the SIZE of the result: its magnitude, and where terms cancel,
 * as in sums, deviations from a mean and g - sum(g y), that of the terms as far as an element's rounding moves them.
 *
 * Left out, because the program does not promise them (ckptc-chain(5)): sums, but not means, of magnitudes beyond the range;
 * derivatives from an output or a kept array that is no normal number; layernorm and rmsnorm whose scale is none, where
 * eps is 0.
 */
#include "ops/general.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edge_lines.h"
#include "suite.h"
#include "wide_numbers.h"

enum { LONGEST = 130, LINES_MOST = 20, BLOCK_ROWS = 8 };

/* One line of a case: N elements, the cotangents G of its results, and its operand A, or class A[0]. */
struct line {
	enum dtype dtype;
	enum op op;
	size_t n;
	real v[LONGEST], a[LONGEST], g[LONGEST];
	real eps, delta, rows; /* rows: over which the loss is a mean */
	bool folded;           /* in blocks of rows */
};
/* The true values and derivatives by v, and by a. SIZE is what an error is measured by. A derivative of 0 is not compared. */
struct truth {
	real y[LONGEST], y_size[LONGEST], dv[LONGEST], dv_size[LONGEST];
};

static bool is_normal(enum dtype dtype, real x)
{
	return fabsl(x) > 4 * least_of(dtype) && fabsl(x) < most_of(dtype) * 0.999L;
}
/* The error of a sum in double (f32) and of this test's in long double, of N terms, over half a last place. */
static real loose(const struct line *x) { return (real)x->n * (x->dtype == DTYPE_F64 ? 0x1p-10L : 0x1p-28L); }

/* ---- reductions: the formulas, in long double ---- */

static real sum_line(const real *v, size_t n)
{
	real sum = 0;
	for (size_t j = 0; j < n; j++)
		sum += v[j];
	return sum;
}
static real sum_magnitudes_line(const real *v, size_t n)
{
	real sum = 0;
	for (size_t j = 0; j < n; j++)
		sum += fabsl(v[j]);
	return sum;
}

static void true_sum(const struct line *x, struct truth *t)
{
	const real count = x->op == OP_mean ? (real)x->n : 1, magnitudes = sum_magnitudes_line(x->v, x->n) / count;
	t->y[0] = magnitudes < most_of(x->dtype) ? sum_line(x->v, x->n) / count : 0;
	t->y_size[0] = fabsl(t->y[0]) + loose(x) * magnitudes;
	for (size_t j = 0; j < x->n; j++) {
		t->dv[j] = x->g[0] / count;
		t->dv_size[j] = fabsl(t->dv[j]);
	}
}

struct moments {
	real mean, variance, deviation[LONGEST];
	real moved; /* how far the rounding of the mean moves each deviation, in half units */
};

static struct moments moments_of(const struct line *x)
{
	struct moments m = {.mean = sum_line(x->v, x->n) / (real)x->n};
	const real size = sum_magnitudes_line(x->v, x->n) / (real)x->n;
	for (size_t j = 0; j < x->n; j++) {
		m.deviation[j] = x->v[j] - m.mean;
		m.variance += m.deviation[j] * m.deviation[j];
	}
	m.variance /= (real)x->n;
	m.moved = fmaxl(fabsl(m.mean), DBL_MIN) * (x->dtype == DTYPE_F64 ? 1 : 0x1p-29L) + loose(x) * size;
	return m;
}

static void true_variance(const struct line *x, struct truth *t)
{
	const struct moments m = moments_of(x);
	const real deviation = sqrtl(m.variance), squared = m.moved * m.moved * epsilon_of(x->dtype);
	const bool root = x->op == OP_std;
	t->y[0] = root ? deviation : m.variance;
	t->y_size[0] = root ? deviation + m.moved * loose(x) + (deviation > 0 ? squared / deviation : 0)
	                    : m.variance + 2 * deviation * m.moved * loose(x) + squared;
	for (size_t j = 0; j < x->n; j++) {
		const real factor = root ? x->g[0] / ((real)x->n * deviation) : 2 * x->g[0] / (real)x->n;
		const bool lost = root && !is_normal(x->dtype, deviation);
		t->dv[j] = lost ? 0 : factor * m.deviation[j];
		t->dv_size[j] = fabsl(factor) * (fabsl(m.deviation[j]) + m.moved);
		if (root && !lost)
			t->dv_size[j] += fabsl(t->dv[j]) * (t->y_size[0] / deviation);
	}
}

static void true_norm(const struct line *x, struct truth *t)
{
	real squares = 0;
	for (size_t j = 0; j < x->n; j++)
		squares += x->v[j] * x->v[j];
	t->y[0] = t->y_size[0] = sqrtl(squares);
	for (size_t j = 0; j < x->n; j++) {
		t->dv[j] = is_normal(x->dtype, t->y[0]) ? x->g[0] * x->v[j] / t->y[0] : 0;
		t->dv_size[j] = 2 * fabsl(t->dv[j]);
	}
}

static void true_extreme(const struct line *x, struct truth *t)
{
	real best = x->v[0], ties = 0;
	for (size_t j = 0; j < x->n; j++)
		best = x->op == OP_amax ? fmaxl(best, x->v[j]) : fminl(best, x->v[j]);
	for (size_t j = 0; j < x->n; j++)
		ties += x->v[j] == best;
	t->y[0] = best;
	t->y_size[0] = fabsl(best);
	for (size_t j = 0; j < x->n; j++) {
		t->dv[j] = x->v[j] == best ? x->g[0] / ties : 0;
		t->dv_size[j] = fabsl(t->dv[j]);
	}
}

/* Returns FIRST times the elements of X but element BUT, whose product may leave the range of a long double on its way. */
static real product_but(const struct line *x, real first, size_t but)
{
	int part, exponent = 0;
	real product = frexpl(first, &exponent);
	for (size_t j = 0; j < x->n; j++)
		if (j != but) {
			product = frexpl(product * x->v[j], &part);
			exponent += part;
		}
	return ldexpl(product, exponent);
}

static void true_product(const struct line *x, struct truth *t)
{
	const real roundings = 1 + (real)x->n * (x->dtype == DTYPE_F64 ? 1 : 0x1p-29L);
	t->y[0] = product_but(x, 1, x->n);
	t->y_size[0] = fabsl(t->y[0]) * roundings;
	for (size_t j = 0; j < x->n; j++) {
		t->dv[j] = product_but(x, x->g[0], j);
		t->dv_size[j] = fabsl(t->dv[j]) * roundings;
	}
}

/* The exponentials of a line over the largest, and what logsumexp, softmax and their likes make of them. */
struct exponentials {
	real largest, others, log, share[LONGEST], depth[LONGEST], mean_depth;
};

/* OTHERS is their sum less 1. The depth below the largest is what an exponential's error grows with. */
static struct exponentials exponentials_of(const struct line *x)
{
	struct exponentials e = {.largest = x->v[0]};
	size_t first = 0;
	for (size_t j = 0; j < x->n; j++)
		first = x->v[j] > x->v[first] ? j : first;
	e.largest = x->v[first];
	for (size_t j = 0; j < x->n; j++)
		e.others += j == first ? 0 : expl(x->v[j] - e.largest);
	e.log = log1pl(e.others);
	for (size_t j = 0; j < x->n; j++) {
		e.depth[j] = e.largest - x->v[j];
		e.share[j] = expl(x->v[j] - e.largest) / (1 + e.others);
		e.mean_depth += j == first || e.others == 0 ? 0 : expl(-e.depth[j]) * e.depth[j] / e.others;
	}
	return e;
}

static void true_logsumexp(const struct line *x, struct truth *t)
{
	const struct exponentials e = exponentials_of(x);
	t->y[0] = e.largest + e.log;
	t->y_size[0] = fabsl(e.largest) * loose(x) + fabsl(t->y[0]) + e.log * (3 + e.mean_depth);
	for (size_t j = 0; j < x->n; j++) {
		t->dv[j] = is_normal(x->dtype, t->y[0]) || t->y[0] == 0 ? x->g[0] * e.share[j] : 0;
		t->dv_size[j] = fabsl(t->dv[j]) * (4 + e.depth[j] + e.log + e.mean_depth * e.others / (1 + e.others));
	}
}

/* ---- along an axis ---- */

static void true_softmax(const struct line *x, struct truth *t)
{
	const struct exponentials e = exponentials_of(x);
	const real most = 4 + e.mean_depth * e.others / (1 + e.others);
	real product = 0, magnitudes = 0;
	for (size_t j = 0; j < x->n; j++) {
		product += x->g[j] * e.share[j];
		magnitudes += fabsl(x->g[j]) * e.share[j] *
		              (is_normal(x->dtype, e.share[j]) ? most + e.depth[j] : 1 / epsilon_of(x->dtype));
	}
	for (size_t j = 0; j < x->n; j++) {
		t->y[j] = e.share[j];
		t->y_size[j] = e.share[j] * (most + e.depth[j]);
		t->dv[j] = is_normal(x->dtype, e.share[j]) ? e.share[j] * (x->g[j] - product) : 0;
		t->dv_size[j] = e.share[j] * (magnitudes + (most + e.depth[j]) * fabsl(x->g[j] - product));
	}
	/* one whose share is near 1 follows from the others: no term of its own cancels */
	for (size_t j = 0; j < x->n && !x->folded; j++)
		if (e.share[j] > 0.5L) {
			t->dv[j] = t->dv_size[j] = 0;
			for (size_t k = 0; k < x->n; k++) {
				const real part = k == j ? 0 : e.share[j] * e.share[k] * (x->g[j] - x->g[k]);
				t->dv[j] += part;
				t->dv_size[j] += k == j ? 0 : t->dv_size[k] + e.share[k] * (most + e.depth[k]) * fabsl(x->g[j]);
				const bool kept =
					is_normal(x->dtype, e.share[k]) || e.share[k] * (fabsl(x->g[j]) + fabsl(x->g[k])) == 0;
				t->dv_size[j] +=
					kept ? 0 : least_of(x->dtype) * (fabsl(x->g[j]) + fabsl(x->g[k])) / epsilon_of(x->dtype);
			}
		}
}

static void true_log_softmax(const struct line *x, struct truth *t)
{
	const struct exponentials e = exponentials_of(x);
	const real sum = sum_line(x->g, x->n), magnitudes = sum_magnitudes_line(x->g, x->n);
	for (size_t j = 0; j < x->n; j++) {
		t->y[j] = -e.depth[j] - e.log;
		t->y_size[j] = e.depth[j] + e.log * (3 + e.mean_depth);
		t->dv[j] = x->g[j] - e.share[j] * sum;
		t->dv_size[j] = fabsl(x->g[j]) + e.share[j] * (fabsl(sum) * (3 + t->y_size[j]) + magnitudes * loose(x));
		if (!(e.share[j] > 0.51L) || x->folded)
			continue;
		/* one whose share is near 1: its own cotangent is all but taken back, and the rest of 1 is expm1 of the output */
		real others = 0, other_magnitudes = 0, rest = 0;
		for (size_t k = 0; k < x->n; k++) {
			others += k == j ? 0 : x->g[k];
			other_magnitudes += k == j ? 0 : fabsl(x->g[k]);
			rest += k == j ? 0 : e.share[k];
		}
		const bool kept = is_normal(x->dtype, t->y[j]) || t->y[j] == 0;
		t->dv[j] = kept ? rest * sum - others : 0;
		t->dv_size[j] = other_magnitudes * (1 + loose(x)) +
		                rest * (fabsl(sum) * (3 + t->y_size[j] / e.log) + magnitudes * loose(x));
	}
}

/* layernorm and rmsnorm, whose mean is 0 */
static void true_normalization(const struct line *x, struct truth *t)
{
	struct moments m = {0};
	real g_mean = 0, product = 0, error = 0;
	const real n = (real)x->n;
	if (x->op == OP_layernorm)
		m = moments_of(x);
	for (size_t j = 0; j < x->n && x->op == OP_rmsnorm; j++) {
		m.deviation[j] = x->v[j];
		m.variance += x->v[j] * x->v[j] / n;
	}
	const real scale = 1 / sqrtl(m.variance + x->eps), deviation = sqrtl(m.variance);
	const real rough = 2 + (2 * deviation * m.moved * loose(x) + m.moved * m.moved * epsilon_of(x->dtype)) /
	                           (2 * (m.variance + x->eps));
	for (size_t j = 0; j < x->n; j++) {
		t->y[j] = m.deviation[j] * scale;
		t->y_size[j] = scale * (rough * fabsl(m.deviation[j]) + m.moved);
		g_mean += x->op == OP_layernorm ? x->g[j] / n : 0;
		product += x->g[j] * t->y[j] / n;
		const real term = x->g[j] * t->y[j] / n; /* a sum of derivatives cannot hold one that underflows */
		const bool kept = t->y[j] == 0 || (is_normal(x->dtype, t->y[j]) && (term == 0 || is_normal(DTYPE_F64, term)));
		error += fabsl(x->g[j]) / n * (kept ? t->y_size[j] : fabsl(t->y[j]) / epsilon_of(x->dtype));
	}
	for (size_t j = 0; j < x->n && !(scale < most_of(x->dtype)); j++)
		t->y[j] = 0;
	const real g_size = x->op == OP_layernorm ? loose(x) * sum_magnitudes_line(x->g, x->n) / n : 0;
	for (size_t j = 0; j < x->n; j++) {
		const bool kept = scale < most_of(x->dtype) && (t->y[j] == 0 || is_normal(x->dtype, t->y[j]));
		t->dv[j] = kept ? scale * (x->g[j] - g_mean - t->y[j] * product) : 0;
		t->dv_size[j] =
			scale * (fabsl(x->g[j] - g_mean) + g_size + fabsl(g_mean) + t->y_size[j] * fabsl(product) +
		             fabsl(t->y[j]) * error) +
			(rough + (is_normal(x->dtype, scale) ? 0 : 2)) * fabsl(t->dv[j]); /* a kept scale below has 21 bits */
		if (x->dtype == DTYPE_F64 && scale < 0x1p25L)
			t->dv_size[j] += scale * DBL_MIN; /* what the underflow of y times the product takes */
	}
}

static void true_cumsum(const struct line *x, struct truth *t)
{
	real sum = 0, magnitudes = 0;
	for (size_t j = 0; j < x->n; j++) {
		t->y[j] = sum += x->v[j];
		t->y_size[j] = (magnitudes += fabsl(x->v[j])) * (real)(j + 1);
	}
	sum = magnitudes = 0;
	for (size_t j = x->n; j-- > 0;) {
		t->dv[j] = sum += x->g[j];
		t->dv_size[j] = (magnitudes += fabsl(x->g[j])) * (real)(x->n - j);
	}
}

/* ---- losses: means over one line, or of cross_entropy over lines ---- */

static void true_difference(const struct line *x, struct truth *t)
{
	const real n = (real)x->n;
	real sum = 0;
	for (size_t j = 0; j < x->n; j++) {
		const real d = x->v[j] - x->a[j], size = fabsl(d);
		const bool inside = size <= x->delta;
		sum += x->op == OP_mse ? d * d : x->op == OP_mae ? size : inside ? d * d / 2 : x->delta * (size - x->delta / 2);
		const real slope = x->op == OP_mse               ? 2 * d
		                   : x->op == OP_huber && inside ? d
		                                                 : (x->op == OP_mae ? 1 : x->delta) * (d > 0   ? 1
		                                                                                       : d < 0 ? -1
		                                                                                               : 0);
		const bool lost = x->op == OP_mse && size > most_of(x->dtype); /* mse keeps the difference */
		t->dv[j] = lost ? 0 : x->g[0] * slope / n;
		t->dv_size[j] = 3 * fabsl(t->dv[j]);
	}
	t->y[0] = sum / n;
	t->y_size[0] = 3 * t->y[0] * (1 + loose(x));
}

static void true_cross_entropy(const struct line *x, struct truth *t)
{
	const struct exponentials e = exponentials_of(x);
	const size_t class = (size_t)x->a[0];
	real rest = 0;
	for (size_t j = 0; j < x->n; j++)
		rest += j == class ? 0 : e.share[j];
	t->y[0] = e.depth[class] + e.log;
	t->y_size[0] = e.depth[class] + e.log * (3 + e.mean_depth);
	for (size_t j = 0; j < x->n; j++) {
		const real factor = j == class ? -rest : e.share[j];
		t->dv[j] = is_normal(x->dtype, factor) ? x->g[0] / x->rows * factor : 0;
		t->dv_size[j] = fabsl(t->dv[j]) * (6 + (j == class ? 0 : e.depth[j]) + e.mean_depth);
	}
}

/* ---- the operations ---- */

enum shape_of { REDUCES, ALONG, LOSES };
static const struct edge_row {
	enum op op;
	enum shape_of shape;
	bool exponential; /* half its lines are numbers around 0, at which exponentials end */
	void (*truth)(const struct line *, struct truth *);
} edge_rows[] = {
#define EDGE_ROW(NAME, SHAPE, EXPONENTIAL, TRUTH) {OP_##NAME, SHAPE, EXPONENTIAL, TRUTH},
	EDGE_LINES(EDGE_ROW)};

/* ---- drawing ---- */

static uint64_t seed;
static double draw(void) { return wide_unit(&seed); }

/* Returns X rounded, or the largest number of its sign if that is beyond the range. */
static real held(enum dtype dtype, real x)
{
	const real most = most_of(dtype);
	return wide_rounded(dtype, (double)fmaxl(-most, fminl(x, most)));
}

/* Returns a number whose exponent is within SPREAD of CENTRE. A line's sum may be beyond the range, its mean is not. */
static real number_near(enum dtype dtype, int centre, int spread)
{
	const int most = dtype == DTYPE_F64 ? 1023 : 127, least = dtype == DTYPE_F64 ? -1021 : -125;
	int exponent = centre + (int)(draw() * (2 * spread + 1)) - spread;
	exponent = exponent > most ? most : exponent < least ? least : exponent;
	return held(dtype, (draw() < 0.5 ? -1 : 1) * ldexpl(1 + (real)draw(), exponent));
}

/* Fills a line: of one exponent, of near ones, or of any; of equal elements; with zeros; with one element unlike the others. */
static void draw_numbers(enum dtype dtype, real *to, size_t n)
{
	static const int spreads[] = {0, 3, 40, 400, 2100};
	const int whole = dtype == DTYPE_F64 ? 1023 : 127, spread = spreads[(int)(draw() * 5)];
	const int ends[] = {whole, -whole, whole / 2}; /* squares of the last come to the end of the range */
	const int centre = draw() < 0.3 ? ends[(int)(draw() * 3)] : (int)(draw() * 2 * whole) - whole;
	const double kind = draw(), base = draw() < 0.5 ? 1 : -1;
	const real same = number_near(dtype, centre, 0);
	for (size_t j = 0; j < n; j++) {
		to[j] = kind < 0.1 ? same : number_near(dtype, centre, spread);
		if (kind > 0.1 && kind < 0.2) /* near to each other, so that deviations cancel */
			to[j] = held(dtype, same * (1 + (real)base * ldexpl((real)draw(), -(int)(draw() * 50))));
		if (kind > 0.9 && draw() < 0.3)
			to[j] = 0;
	}
	if (kind > 0.2 && kind < 0.3)
		to[(size_t)(draw() * (double)n)] = number_near(dtype, 0, whole);
}

static void draw_exponents(enum dtype dtype, real *to, size_t n)
{
	const double ends = dtype == DTYPE_F64 ? 760 : 110, kind = draw(), base = draw() < 0.5 ? 0 : 300 * (draw() - 0.5);
	const double width = kind < 0.3 ? 1 : kind < 0.6 ? 30 : ends;
	for (size_t j = 0; j < n; j++)
		to[j] = wide_rounded(dtype, base + width * (draw() - 0.5) * 2);
	if (draw() < 0.5) /* one that leaves the others in its tail; of 0, so that the logarithm is all there is */
		to[(size_t)(draw() * (double)n)] = wide_rounded(dtype, draw() < 0.5 ? 0 : base + width + draw() * ends);
}

static void draw_line(const struct edge_row *row, struct line *x)
{
	if (row->exponential && draw() < 0.7)
		draw_exponents(x->dtype, x->v, x->n);
	else
		draw_numbers(x->dtype, x->v, x->n);
	draw_numbers(x->dtype, x->g, x->n);
	draw_numbers(x->dtype, x->a, x->n);
	if (row->op == OP_cross_entropy)
		x->a[0] = (real)(int)(draw() * (double)x->n);
	for (size_t j = 0; j < x->n && row->shape == LOSES && row->op != OP_cross_entropy; j++)
		if (draw() < 0.3) /* a target near the value */
			x->a[j] = held(x->dtype, x->v[j] * (1 + ldexpl((real)draw(), -(int)(draw() * 30))));
}

/* ---- running ---- */

/* A case: COUNT lines along axis AXIS; BLOCK rows at a time unless it is 0. */
struct edge_case {
	const struct edge_row *row;
	size_t n, count;
	int axis;
	int64_t block;
	struct line lines[LINES_MOST];
	struct truth truths[LINES_MOST];
	struct attrs attrs;
	struct type v, a, y, k;
};
struct edge_arrays {
	_Alignas(64) double v[LINES_MOST * LONGEST], a[LONGEST], y[LINES_MOST * LONGEST], k[LINES_MOST * LONGEST],
		g[LINES_MOST * LONGEST], dv[LINES_MOST * LONGEST], da[LONGEST];
};
struct edge_score {
	long values, slopes;
	real value, slope; /* the worst errors */
};

/* Makes the losses of lines the one loss of line 0, their mean. */
static void join_losses(struct edge_case *c)
{
	struct truth *const all = c->truths;
	for (size_t i = 1; i < c->count; i++) {
		all[0].y[0] += all[i].y[0];
		all[0].y_size[0] += all[i].y_size[0];
		all[i].y[0] = 0; /* is not compared */
	}
	all[0].y[0] /= (real)c->count;
	all[0].y_size[0] /= (real)c->count;
}

static void draw_case(struct edge_case *c, const struct edge_row *row, enum dtype dtype, int round)
{
	static const size_t lengths[] = {1, 2, 3, 5, 8, 9, 17, 33, 64, 65, LONGEST};
	c->row = row;
	c->n = lengths[(int)(draw() * 11)];
	c->axis = row->shape == LOSES ? 0 : round % 3 != 0 ? 0 : 1;
	c->block = round % 3 == 2 && row->op != OP_cumsum && row->op != OP_cross_entropy ? BLOCK_ROWS : 0;
	c->count = row->shape == LOSES && row->op != OP_cross_entropy ? 1 : 1 + (size_t)(draw() * LINES_MOST);
	attrs_default(&c->attrs, row->op);
	const int64_t n = (int64_t)c->n, m = (int64_t)c->count;
	c->v = (struct type){dtype, {2, {c->axis ? m : n, c->axis ? n : m}}};
	c->a = c->v;
	c->y = c->v;
	if (row->shape == REDUCES) {
		c->attrs.has_axis = true;
		c->attrs.axis_count = 1;
		c->y.shape = (struct shape){1, {m}};
	}
	if (row->shape == LOSES) {
		c->v.shape = c->a.shape = (struct shape){1, {n}};
		c->y.shape = (struct shape){0};
	} else {
		c->attrs.axis[0] = c->axis;
	}
	if (row->op == OP_cross_entropy) {
		c->v.shape = (struct shape){2, {m, n}};
		c->a.shape = (struct shape){1, {m}};
	}
	if (row->op == OP_layernorm || row->op == OP_rmsnorm)
		c->attrs.eps = draw() < 0.5 ? 0 : 1e-5;
	if (row->op == OP_huber)
		c->attrs.delta = fabs((double)number_near(dtype, (int)(draw() * 100) - 50, 100));
	if (op_table[row->op].keeps[0].kind != KEEP_NOTHING)
		c->k = op_keep_type(row->op, &c->attrs, &c->v, &c->a, &c->y, 0);
	for (size_t i = 0; i < c->count; i++) {
		struct line *x = &c->lines[i];
		x->dtype = dtype;
		x->op = row->op;
		x->n = c->n;
		x->folded = c->block != 0;
		x->rows = row->op == OP_cross_entropy ? (real)m : 1;
		x->eps = row->shape == ALONG ? (real)c->attrs.eps : 0;
		x->delta = row->op == OP_huber ? (real)wide_rounded(dtype, c->attrs.delta) : 0;
		if (row->op == OP_huber)
			c->attrs.delta = (double)x->delta;
		draw_line(row, x);
		if (row->shape == LOSES)
			x->g[0] = c->lines[0].g[0];
		memset(&c->truths[i], 0, sizeof c->truths[i]);
		row->truth(x, &c->truths[i]);
	}
	if (row->shape == LOSES)
		join_losses(c);
}

/* Returns the index of element J of line I. */
static size_t place_of(const struct edge_case *c, size_t i, size_t j)
{
	return c->axis || c->row->shape == LOSES ? i * c->n + j : j * c->count + i;
}

static struct op_call edge_call(const struct edge_case *c, const struct kernels *kernels, bool back)
{
	struct op_call call = {.op = c->row->op,
	                       .attrs = &c->attrs,
	                       .v = &c->v,
	                       .a = &c->a,
	                       .y = &c->y,
	                       .whole = c->v.shape.dim[0],
	                       .kernels = kernels,
	                       .block = back && !op_folds_back(c->row->op) ? 0 : c->block};
	int64_t bytes = op_scratch(call.op, &c->attrs, &c->v, &c->a, &c->y, back ? SCRATCH_BACK : SCRATCH_FORWARD);
	if (call.block)
		bytes += fold_scratch((struct fold_op){call.op, back}, &c->v, &c->y) + 64;
	ck_assert_int_eq(posix_memalign(&call.scratch, 64, (size_t)bytes + 64), 0);
	return call;
}

/* A normalization's derivative has the same bits where it is written over the cotangent, or over the value. */
static void check_in_place(const struct op_call *call, const struct edge_arrays *x)
{
	static struct edge_arrays over;
	const size_t bytes = (size_t)type_bytes(call->v);
	memcpy(over.g, x->g, bytes);
	op_vjp_get(call->op)(call, over.g, NULL, over.g, (const void *const[MAX_NEEDS]){x->v, NULL, x->y, x->k});
	ck_assert_msg(memcmp(over.g, x->dv, bytes) == 0, "%s: dv over g", op_table[call->op].name);
	memcpy(over.y, x->y, bytes);
	op_vjp_get(call->op)(call, over.y, NULL, x->g, (const void *const[MAX_NEEDS]){x->v, NULL, over.y, x->k});
	ck_assert_msg(memcmp(over.y, x->dv, bytes) == 0, "%s: dv over y", op_table[call->op].name);
}

static void run_case(const struct edge_case *c, const struct kernels *kernels, struct edge_arrays *x)
{
	const struct op_info *info = &op_table[c->row->op];
	const enum dtype dtype = kernels->dtype;
	for (size_t i = 0; i < c->count; i++)
		for (size_t j = 0; j < c->n; j++) {
			const struct line *line = &c->lines[i];
			wide_put(dtype, x->v, place_of(c, i, j), (double)line->v[j]);
			if (c->row->shape == ALONG)
				wide_put(dtype, x->g, place_of(c, i, j), (double)line->g[j]);
			if (c->row->op == OP_cross_entropy)
				wide_put(dtype, x->a, i, (double)line->a[0]);
			else if (c->row->shape == LOSES)
				wide_put(dtype, x->a, j, (double)line->a[j]);
			if (c->row->shape != ALONG && j == 0)
				wide_put(dtype, x->g, i, (double)line->g[0]);
		}
	const bool keeps = info->keeps[0].kind != KEEP_NOTHING, both = info->operand_differentiable;
	struct op_call call = edge_call(c, kernels, false);
	op_forward_get(call.op)(&call, x->y, x->v, x->a, keeps ? (void *const[MAX_KEEPS]){x->k} : NULL);
	free(call.scratch);
	call = edge_call(c, kernels, true);
	const void *const needs[MAX_NEEDS] = {x->v, x->a, x->y, x->k};
	op_vjp_get(call.op)(&call, x->dv, both ? x->da : NULL, x->g, needs);
	if (op_normalizes(call.op) && call.op != OP_log_softmax)
		check_in_place(&call, x);
	free(call.scratch);
}

enum { MOST_HALVES = 4 }; /* the largest error, in half units of the last place of the size */

/* Compares HAVE to WANT, unless that is no normal number. What names the number. */
static void compare(const struct edge_case *c, const struct kernels *kernels, const char *what, size_t i, size_t j,
                    double have, real want, real size, long *count, real *worst)
{
	const enum dtype dtype = kernels->dtype;
	if (!is_normal(dtype, want) || !(size < most_of(dtype) * 0.999L))
		return;
	const real error = fabsl(have - want) / size / epsilon_of(dtype);
	++*count;
	*worst = fmaxl(*worst, error);
	const bool cancels = size * epsilon_of(dtype) * MOST_HALVES >= fabsl(want);
	if (error <= MOST_HALVES && (have != 0 || cancels))
		return;
	const struct line *x = &c->lines[i];
	fprintf(stderr, "v, g and a of the line:\n");
	for (size_t at = 0; at < c->n && (at < 8 || getenv("EDGES_TABLE")); at++)
		fprintf(stderr, "\t%a %a %a\n", (double)x->v[at], (double)x->g[at], (double)x->a[at]);
	ck_abort_msg(
		"%s of %s, %s %s, axis %d, blocks of %d, %zu elements of %zu lines, element %zu: %a, not %La, off by %Lg", what,
		op_table[c->row->op].name, kernels->isa, dtype == DTYPE_F64 ? "f64" : "f32", c->axis, (int)c->block, c->n,
		c->count, j, have, want, error);
}

static void check_case(const struct edge_case *c, const struct kernels *kernels, struct edge_score *score)
{
	static struct edge_arrays x;
	const enum dtype dtype = kernels->dtype;
	const bool both = op_table[c->row->op].operand_differentiable;
	run_case(c, kernels, &x);
	for (size_t i = 0; i < c->count; i++) {
		const struct truth *t = &c->truths[i];
		for (size_t j = 0; j < (c->row->shape == ALONG ? c->n : 1); j++)
			compare(c, kernels, "value", i, j, wide_get(dtype, x.y, c->row->shape == ALONG ? place_of(c, i, j) : i),
			        t->y[j], t->y_size[j], &score->values, &score->value);
		for (size_t j = 0; j < c->n; j++) {
			compare(c, kernels, "dv", i, j, wide_get(dtype, x.dv, place_of(c, i, j)), t->dv[j], t->dv_size[j],
			        &score->slopes, &score->slope);
			if (both)
				compare(c, kernels, "da", i, j, wide_get(dtype, x.da, j), -t->dv[j], t->dv_size[j], &score->slopes,
				        &score->slope);
		}
	}
}

/* Prints a row of the table that the environment asks for. */
static void print_score(const char *name, const struct edge_score score[2])
{
	if (!getenv("EDGES_TABLE"))
		return;
	for (int type = 0; type < 2; type++)
		printf("%-13s %s %7ld values %6.2Lf ulp %8ld derivatives %6.2Lf ulp\n", name, type ? "f64" : "f32",
		       score[type].values, score[type].value / 2, score[type].slopes, score[type].slope / 2);
}

START_TEST(lines_at_edges)
{
	static struct edge_case c;
	const struct edge_row *row = &edge_rows[_i];
	const int rounds = (SANITIZED ? 30 : 150) * (row->shape == LOSES ? 8 : 1);
	struct edge_score score[2] = {{0}};
	seed = (uint64_t)_i + 1;
	for (int type = 0; type < 2; type++) {
		const struct kernels *tables[4];
		const size_t sets = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables);
		for (int round = 0; round < rounds; round++) {
			draw_case(&c, row, tables[0]->dtype, round);
			for (size_t table = 0; table < sets; table++)
				check_case(&c, tables[table], &score[type]);
		}
		ck_assert_msg(score[type].values > rounds / 4 && score[type].slopes > rounds / 4, "%s: %ld values",
		              op_table[row->op].name, score[type].values);
	}
	print_score(op_table[row->op].name, score);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("edges_lines");
	TCase *tests = suite_make_case(suite, "lines");
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, lines_at_edges, 0, sizeof edge_rows / sizeof *edge_rows);
	return suite_run(suite);
}
