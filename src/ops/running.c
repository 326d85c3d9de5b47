/*
 * Running products, extremes and logarithms of sums along an axis: cumprod, cummax, cummin and logcumsumexp. cumprod multiplies
 * in the computing type, one element after another, with NumPy's bits. Derivatives are sums from the end of a line on, in
 * doubles. No derivative divides, so that zeros are as good as other numbers.
 * Tests: tests/unit/test_general.c, tests/cases/order.test
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

struct runs {
	const struct op_call *call;
	struct axis_view view;
	const void *v, *y, *g;
	void *to;
};

/* One line: N elements, the first FIRST elements from the start of an array, INNER apart. */
struct line {
	const struct runs *r;
	int64_t first, n, step;
};
static size_t place(const struct line *l, int64_t i) { return (size_t)(l->first + i * l->step); }
static double read_at(const struct line *l, const void *array, int64_t i)
{
	return element_get(l->r->call->v->dtype, array, place(l, i));
}
static void write_at(const struct line *l, int64_t i, double x)
{
	element_set(l->r->call->v->dtype, l->r->to, place(l, i), x);
}

static void multiply_line(const struct line *l)
{
	const bool wide = l->r->call->v->dtype == DTYPE_F64;
	double product = read_at(l, l->r->v, 0);
	write_at(l, 0, product);
	for (int64_t i = 1; i < l->n; i++) {
		product *= read_at(l, l->r->v, i); /* of floats exact, and rounded next */
		product = wide ? product : (double)(float)product;
		write_at(l, i, product);
	}
}

/* Returns true if X takes the place of the extreme BEST. A NaN does, and stays. */
static bool exceeds(enum op op, double x, double best)
{
	return !isnan(best) && (isnan(x) || (op == OP_cummax ? x > best : x < best));
}

static void extreme_line(const struct line *l)
{
	double best = read_at(l, l->r->v, 0);
	for (int64_t i = 0; i < l->n; i++) {
		const double x = read_at(l, l->r->v, i);
		best = exceeds(l->r->call->op, x, best) ? x : best;
		write_at(l, i, best);
	}
}

/* SUM adds the exponentials of the elements, each less the largest so far. */
static void log_sum_line(const struct line *l)
{
	double largest = -INFINITY, sum = 0, rest = 0;
	for (int64_t i = 0; i < l->n; i++) {
		const double x = read_at(l, l->r->v, i);
		if (x > largest) {
			const double by = isfinite(x) ? exp(largest - x) : 0;
			sum *= by;
			rest *= by;
			largest = x;
		}
		sum_add(&sum, &rest, isnan(x) || x == largest ? (isnan(x) ? x : 1) : exp(x - largest), 0);
		write_at(l, i, isinf(largest) && !isnan(sum) ? largest : largest + log_of_sum(sum, rest));
	}
}

/* P plus X, where P's exponent is 0 unless P is near the ends of the range. */
static struct split_product split_plus(struct split_product p, double x)
{
	if (p.exponent <= 0 || p.mantissa == 0)
		return x == 0 ? p : (struct split_product){x + split_value(p), 0};
	p.mantissa += split_value((struct split_product){x, -p.exponent});
	return p;
}

/*
 * dv_j = (v_0 ... v_(j-1)) (g_j + v_(j+1) (g_(j+1) + v_(j+2) ...)): the product before J, from MEMORY, times the sum from J on.
 */
static void product_slopes(const struct line *l, void *memory)
{
	struct split_product *const before = memory, product = {1, 0}, sum = {0, 0};
	for (int64_t i = 0; i < l->n; i++) {
		before[i] = product;
		product = split_times(product, read_at(l, l->r->v, i));
	}
	for (int64_t i = l->n; i-- > 0;) {
		if (i + 1 < l->n)
			sum = split_times(sum, read_at(l, l->r->v, i + 1));
		sum = split_plus(sum, read_at(l, l->r->g, i));
		const struct split_product one = split(sum.mantissa), other = split(before[i].mantissa);
		write_at(
			l, i,
			split_value((struct split_product){one.mantissa * other.mantissa,
		                                       one.exponent + other.exponent + sum.exponent + before[i].exponent}));
	}
}

static bool is_equal(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

/* The elements so far that equal an extreme share its cotangent. A result stays the same from FROM to END - 1. */
static void extreme_slopes(const struct line *l)
{
	for (int64_t from = 0, end; from < l->n; from = end) {
		const double y = read_at(l, l->r->y, from);
		double equal = 0, sum = 0;
		for (end = from; end < l->n && is_equal(read_at(l, l->r->y, end), y); end++)
			equal += is_equal(read_at(l, l->r->v, end), y);
		for (int64_t i = end; i-- > from;) {
			const bool own = is_equal(read_at(l, l->r->v, i), y);
			sum += read_at(l, l->r->g, i) / equal;
			equal -= own;
			write_at(l, i, own ? sum : 0);
		}
	}
}

/* dv_j = exp(v_j - y_j) (g_j + exp(y_j - y_(j+1)) (g_(j+1) + ...)). No exponent is above 0. An element of -inf has no part. */
static void log_sum_slopes(const struct line *l)
{
	double sum = 0, above = 0;
	for (int64_t i = l->n; i-- > 0;) {
		const double y = read_at(l, l->r->y, i), v = read_at(l, l->r->v, i);
		sum = read_at(l, l->r->g, i) + (i + 1 < l->n && isfinite(y) ? sum * exp(y - above) : 0);
		above = y;
		write_at(l, i, v == -INFINITY ? 0 : exp(v - y) * sum);
	}
}

static void run_along(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct runs *r = context;
	const struct axis_view *w = &r->view;
	const enum op op = r->call->op;
	for (int64_t i = begin; i < end; i++) {
		const struct line l = {r, i / w->inner * w->n * w->inner + i % w->inner, w->n, w->inner};
		if (op == OP_cumprod && r->g)
			product_slopes(&l, memory ? memory : r->call->scratch);
		else if (op == OP_logcumsumexp)
			(r->g ? log_sum_slopes : log_sum_line)(&l);
		else
			(op == OP_cumprod ? multiply_line : r->g ? extreme_slopes : extreme_line)(&l);
	}
}

int64_t running_scratch(const struct attrs *attrs, const struct type *v)
{
	return axis_view_named(attrs, &v->shape).n * (int64_t)sizeof(struct split_product);
}

static void run_whole(const struct op_call *call, void *to, const void *v, const void *g, const void *y)
{
	struct runs r = {call, axis_view_named(call->attrs, &call->v->shape), v, y, g, to};
	if (r.view.n > 0)
		team_run(call->team, r.view.outer * r.view.inner, greater(TEAM_PIECE / r.view.n / 4, 1), run_along, &r);
}

FORWARD(cumprod) { run_whole(call, y, v, NULL, NULL); }
VJP(cumprod) { run_whole(call, dv, needs[0], g, NULL); }
FORWARD(cummax) { run_whole(call, y, v, NULL, NULL); }
VJP(cummax) { run_whole(call, dv, needs[0], g, needs[2]); }
FORWARD(cummin) { run_whole(call, y, v, NULL, NULL); }
VJP(cummin) { run_whole(call, dv, needs[0], g, needs[2]); }
FORWARD(logcumsumexp) { run_whole(call, y, v, NULL, NULL); }
VJP(logcumsumexp) { run_whole(call, dv, needs[0], g, needs[2]); }
