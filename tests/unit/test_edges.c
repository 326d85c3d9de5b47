/*
 * Values and derivatives at the edges: every element-wise row of ops.def on numbers of any exponent, on every instruction set
 * and in both types. The wider type is long double, whose exponents hold all intermediate values. It evaluates the rows as
 * they stand in ops.def, so a new row joins by itself. General operations are in test_edges_lines and test_edges_linear. No
 * value or derivative is infinite, NaN or 0 where the true one is a normal number.
 */
#include "ops/general.h"

#include <stdio.h>
#include <string.h>

#include "suite.h"
#include "wide_numbers.h"

/* ---- the functions of ops.def in long double ---- */

static real lf_select(bool c, real yes, real no) { return c ? yes : no; }
static real lf_pow(real v, real a) { return powl(v, a); }
static real lf_pow_slope(real g, real v, real a)
{
	const real odd = v < 0 && fmodl(a, 2) == 0 ? -1 : 1; /* of a - 1, which may be rounded */
	return v < 0 && a != floorl(a) ? (real)NAN : odd * g * a * powl(fabsl(v), a - 1);
}
static real lf_product(real a, real b, real c) { return a * b * c; }
static real lf_by_square(real g, real v, real a) { return g * v / a / a; }
static real lf_mod(real v, real a)
{
	const real rest = fmodl(v, a);
	return rest == 0 ? copysignl(0, a) : (rest < 0) != (a < 0) ? rest + a : rest;
}
static real lf_mod_slope(real g, real v, real a) { return -g * floorl(v / a); }
static real lf_max(real v, real a) { return v > a ? v : a; }
static real lf_min(real v, real a) { return v < a ? v : a; }
static real lf_abs(real v) { return fabsl(v); }
static real lf_sign(real v) { return v > 0 ? 1 : v < 0 ? -1 : v; }
static real lf_sqrt(real v) { return sqrtl(v); }
static real lf_rsqrt(real v) { return 1 / sqrtl(v); }
static real lf_exp(real v) { return expl(v); }
static real lf_expm1(real v) { return expm1l(v); }
static real lf_times_exp(real g, real v) { return g * expl(v); }
static real lf_log(real v) { return logl(v); }
static real lf_log1p(real v) { return log1pl(v); }
static real lf_sin(real v) { return sinl(v); }
static real lf_cos(real v) { return cosl(v); }
static real lf_tan(real v) { return tanl(v); }
static real lf_asin(real v) { return asinl(v); }
static real lf_acos(real v) { return acosl(v); }
static real lf_atan(real v) { return atanl(v); }
static real lf_over_one_plus_square(real g, real v) { return g / (1 + v * v); }
static real lf_sinh(real v) { return sinhl(v); }
static real lf_cosh(real v) { return coshl(v); }
static real lf_tanh(real v) { return tanhl(v); }
static real lf_sigmoid(real v) { return v < 0 ? expl(v) / (1 + expl(v)) : 1 / (1 + expl(-v)); }
static real lf_softplus(real v) { return v > 0 ? v + log1pl(expl(-v)) : log1pl(expl(v)); }
static real lf_relu(real v) { return v > 0 ? v : 0; }
static real lf_silu(real v) { return v * lf_sigmoid(v); }
static real lf_silu_slope(real g, real v) { return g * (lf_sigmoid(v) * (1 + v * lf_sigmoid(-v))); }
static real lf_gelu(real v) { return v * erfcl(-v * sqrtl(0.5L)) / 2; }
static real lf_gelu_slope(real g, real v)
{
	return g * (erfcl(-v * sqrtl(0.5L)) / 2 + v * expl(-v * v / 2) / sqrtl(2 * acosl(-1)));
}
static real tanh_argument(real v) { return 2 * sqrtl(2 / acosl(-1)) * (v + 0.044715L * v * v * v); }
static real lf_gelu_tanh(real v) { return v * lf_sigmoid(tanh_argument(v)); }
static real lf_gelu_tanh_slope(real g, real v)
{
	const real s = lf_sigmoid(tanh_argument(v)), rest = lf_sigmoid(-tanh_argument(v));
	return g * (s + v * s * rest * (2 * sqrtl(2 / acosl(-1)) * (1 + 3 * 0.044715L * v * v)));
}
static real lf_erf(real v) { return erfl(v); }
static real lf_times_gauss(real g, real v) { return g * expl(-v * v); }
static real lf_floor(real v) { return floorl(v); }
static real lf_round(real v) { return rintl(v); }
static real lf_trunc(real v) { return truncl(v); }
static real lf_exp2(real v) { return exp2l(v); }
static real lf_log2(real v) { return log2l(v); }
static real lf_log10(real v) { return log10l(v); }
static real lf_cbrt(real v) { return cbrtl(v); }
static real lf_asinh(real v) { return asinhl(v); }
static real lf_acosh(real v) { return acoshl(v); }
static real lf_atanh(real v) { return atanhl(v); }
static real lf_erfc(real v) { return erfcl(v); }
static real lf_lgamma(real v) { return lgammal(v); }
/* By the asymptotic series, from 30 on; digamma(v) = digamma(v + 1) - 1 / v below, and by reflection of a negative v. */
static real digamma(real v)
{
	static const real c[] = {1 / 12.0L,  -1 / 120.0L,     1 / 252.0L, -1 / 240.0L,
	                         1 / 132.0L, -691 / 32760.0L, 1 / 12.0L,  -3617 / 8160.0L};
	const real pi = acosl(-1);
	real sum = 0, series = 0;
	if (v < 0)
		return digamma(1 - v) - pi / tanl(pi * (v - rintl(v)));
	for (; v < 30; v++)
		sum -= 1 / v;
	for (int i = 7; i >= 0; i--)
		series = (series + c[i]) / v / v;
	return sum + logl(v) - 1 / (2 * v) - series;
}
static real lf_lgamma_slope(real g, real v) { return g * digamma(v); }
static real lf_logit(real v) { return v > 0.25L && v < 0.75L ? 2 * atanhl(2 * v - 1) : logl(v / (1 - v)); }
static real lf_mish(real v) { return v * tanhl(lf_softplus(v)); }
static real lf_mish_slope(real g, real v)
{
	const real t = tanhl(lf_softplus(v)), c = coshl(lf_softplus(v));
	return g * (t + v * lf_sigmoid(v) / c / c);
}
static real lf_celu_slope(real g, real v, real a) { return g * expl(v / a); }
static real lf_atan2(real v, real a) { return atan2l(v, a); }
static real lf_over_squares(real g, real a, real v) { return g * a / (a * a + v * v); }
static real lf_hypot(real v, real a) { return hypotl(v, a); }
static real lf_quotient(real a, real b, real c) { return a * b / c; }
static real lf_logaddexp(real v, real a) { return fmaxl(v, a) + log1pl(expl(-fabsl(v - a))); }
static real lf_logaddexp_slope(real g, real v, real a) { return g * lf_sigmoid(v - a); }

#define M(FUNCTION, ...) lf_##FUNCTION(__VA_ARGS__)
#define P(I) number[I]
#define M_ONE 1.0L
#define M_ZERO 0.0L
#define M_HALF 0.5L
#define M_NUMBER(X) ((real)(X))
#define M_TWO_OVER_SQRT_PI (2 / sqrtl(acosl(-1)))
#define M_IF(FLAG, YES, NO) ((FLAG) != 0 ? (YES) : (NO))

struct point {
	real v, a, g;
	real number[2];
};

#define KEPT_NOTHING
#define KEPT_VALUE(OP, EXPRESSION) const real k MAYBE_UNUSED = EXPRESSION;
#define KEPT_MASK(OP, CONDITION) const bool k MAYBE_UNUSED = CONDITION;
#define KEPT_MASKS(OP, CONDITION, OP2, CONDITION2) KEPT_MASK(OP, CONDITION) const bool l MAYBE_UNUSED = CONDITION2;
#define KEPT_SIGN(OP, EXPRESSION) KEPT_VALUE(OP, lf_sign(EXPRESSION))
#define FUNCTION(NAME, KEEPS, Y, RESULT)                                                                               \
	static real NAME(const struct point *x)                                                                            \
	{                                                                                                                  \
		const real v MAYBE_UNUSED = x->v, a MAYBE_UNUSED = x->a, g MAYBE_UNUSED = x->g;                                \
		const real *const number MAYBE_UNUSED = x->number;                                                             \
		KEPT_##KEEPS const real y MAYBE_UNUSED = Y;                                                                    \
		return RESULT;                                                                                                 \
	}
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, FORWARD, DERIVATIVE, DOC)                                   \
	FUNCTION(value_##NAME, KEEPS, 0, FORWARD)                                                                          \
	FUNCTION(slope_v_##NAME, KEEPS, FORWARD, DERIVATIVE)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, FORWARD, DERIVATIVE_V, DERIVATIVE_A, DOC)                  \
	FUNCTION(value_##NAME, KEEPS, 0, FORWARD)                                                                          \
	FUNCTION(slope_v_##NAME, KEEPS, FORWARD, DERIVATIVE_V)                                                             \
	FUNCTION(slope_a_##NAME, KEEPS, FORWARD, DERIVATIVE_A)
#include "ops/ops.def"

static const struct row {
	enum op op;
	real (*value)(const struct point *), (*slope[2])(const struct point *);
} rows[] = {
#define UNARY(NAME, ...) {OP_##NAME, value_##NAME, {slope_v_##NAME, NULL}},
#define BINARY(NAME, ...) {OP_##NAME, value_##NAME, {slope_v_##NAME, slope_a_##NAME}},
#include "ops/ops.def"
};

/* ---- numbers ---- */

static uint64_t state;
static double unit(void) { return wide_unit(&state); }

/* Returns a normal number with an exponent of 2 up to MOST, or down to its negative. */
static double wide_number(enum dtype dtype, int most)
{
	const double x = ldexp(1 + unit(), (int)(unit() * (2 * most + 1)) - most);
	return wide_rounded(dtype, unit() < 0.5 ? -x : x);
}

/*
 * Returns a number beside a zero of the derivative of silu, gelu, gelu tanh=true, mish or lgamma. Those of floats may be next to it. Long
 * doubles have few bits of derivatives of doubles there.
 */
static double number_beside_zero(enum dtype dtype)
{
	static const double zeros[] = {-0x1.474973c84120bp+0, -0x1.80ead197f00b4p-1, -0x1.81429f9e97e4dp-1,
	                               -0x1.31432c0d12d84p+0, 0x1.762d86356be3fp+0};
	const double zero = zeros[(int)(unit() * 5)], sign = unit() < 0.5 ? -1 : 1;
	return wide_rounded(dtype, zero + sign * (1 + unit()) * ldexp(1, -(int)(unit() * (dtype == DTYPE_F64 ? 8 : 26))));
}

/* Returns a number of any exponent, one around 1, one very near 1, or one at which exponentials end. */
static double any_number(enum dtype dtype)
{
	const double kind = unit(), sign = unit() < 0.5 ? -1 : 1;
	if (kind < 0.4)
		return wide_number(dtype, dtype == DTYPE_F64 ? 1023 : 127);
	if (kind < 0.6)
		return wide_rounded(dtype, sign * ldexp(unit(), (int)(unit() * 8)));
	if (kind < 0.7)
		return wide_rounded(dtype, sign * (1 + (unit() < 0.5 ? -1 : 1) * ldexp(1, -(int)(unit() * 52))));
	if (kind < 0.72)
		return wide_rounded(dtype, -3 * unit());
	if (kind < 0.78)
		return number_beside_zero(dtype);
	return wide_rounded(dtype, sign * unit() * (kind < 0.85 ? 60 : dtype == DTYPE_F64 ? 1500 : 200));
}

/* ---- element-wise operations ---- */

/* The contract has tanh and sigmoid keep the output alone. They are as exact as 1 - y. */
static bool keeps_output_alone(enum op op) { return op == OP_tanh || op == OP_sigmoid; }

/* The largest error in half units of the last place: derivatives multiply up to four rounded functions. */
static real most_error(enum op op, enum dtype dtype)
{
	return (op == OP_pow || op == OP_rpow) && dtype == DTYPE_F64 ? 12 : 8;
}

enum { MANY = 512 };
struct lanes {
	_Alignas(64) double v[MANY], a[MANY], g[MANY], y[MANY], k[MANY], l[MANY], slope[MANY];
	struct point point[MANY];
};
/* How many numbers were compared, and the worst error in half units of the last place. */
struct tally {
	long normal;
	real worst;
};

static bool is_normal(enum dtype dtype, real x)
{
	return fabsl(x) > 4 * least_of(dtype) && fabsl(x) < most_of(dtype) * 0.999L;
}

/* Draws numbers, and computes a row's value and what its derivative keeps. ARGS are set for the derivative. */
static struct kernel_args run_row(const struct kernels *kernels, const struct row *row, int variant, struct lanes *x)
{
	const enum dtype dtype = kernels->dtype;
	kernel *const keep = kernels->forward_keep[row->op][0], *const forward = kernels->forward[row->op][0];
	struct kernel_args args = {.out = x->y, .keep = {x->k, x->l}, .v = x->v, .a = x->a, .n = MANY};
	args.number[0] = row->op == OP_clip ? -1 : row->op == OP_gelu ? variant : 0.25;
	args.number[1] = 1.5;
	for (size_t i = 0; i < MANY; i++) {
		x->point[i] =
			(struct point){any_number(dtype), any_number(dtype), any_number(dtype), {args.number[0], args.number[1]}};
		wide_put(dtype, x->v, i, (double)x->point[i].v);
		wide_put(dtype, x->a, i, (double)x->point[i].a);
		wide_put(dtype, x->g, i, (double)x->point[i].g);
	}
	(keep ? keep : forward)(&args);
	args.out = x->slope;
	args.y = x->y;
	args.k = x->k;
	args.l = x->l;
	args.g = x->g;
	return args;
}

/*
 * Returns what the error of OP's value or derivative at POINT is relative to, if that is more than WANT: 1 for lgamma, and for its
 * derivative the terms that cancel below 0; the operands of logaddexp; the terms of losses that cancel.
 */
static real least_scale(enum op op, bool value, const struct point *point)
{
	const real v = point->v, a = point->a;
	if (op == OP_kl_div)
		return fmaxl(fabsl(logl(a)), fmaxl(fabsl(v), 1)) * (value ? a : fabsl(point->g));
	if (op == OP_bce_logits && !value)
		return fabsl(point->g) * fmaxl((1 - a) * lf_sigmoid(v), a * lf_sigmoid(-v));
	if (op == OP_lgamma && !value && v < 0)
		return fabsl(point->g) * (fabsl(digamma(1 - v)) + fabsl(acosl(-1) / tanl(acosl(-1) * (v - rintl(v)))));
	return op == OP_lgamma && value ? 1 : op == OP_logaddexp && value ? fmaxl(fabsl(v), fabsl(point->a)) : 0;
}

/* Compares HAVE at POINT to WANT, which errs by at most MOST half units of its last place. */
static void compare(const struct kernels *kernels, const char *what, enum op op, const struct point *point, double have,
                    real want, real most, struct tally *tally)
{
	const enum dtype dtype = kernels->dtype;
	const real scale = fmaxl(fabsl(want), least_scale(op, *what == 'v', point));
	const real error = fabsl(have - want) / scale / epsilon_of(dtype);
	tally->normal++;
	tally->worst = fmaxl(tally->worst, error);
	ck_assert_msg((have != 0 || scale > fabsl(want)) && error <= most,
	              "%s of %s, %s %s, at v=%a a=%a g=%a: %a, not %La", what, op_table[op].name, kernels->isa,
	              dtype == DTYPE_F64 ? "f64" : "f32", (double)point->v, (double)point->a, (double)point->g, have, want);
}

/* Half units of the last place: a result that is rounded once; functions; those made of several (ckptc-chain(5)). */
static real most_value_error(enum op op)
{
	static const enum op several[] = {OP_sigmoid,   OP_softplus, OP_silu, OP_gelu,       OP_logit,       OP_log_sigmoid,
	                                  OP_softsign,  OP_selu,     OP_celu, OP_hardswish,  OP_hardsigmoid, OP_mish,
	                                  OP_logaddexp, OP_lgamma,   OP_bce,  OP_bce_logits, OP_kl_div};
	static const enum op functions[] = {OP_pow, OP_rpow, OP_atan2, OP_hypot};
	bool is_several = false, is_function = !op_table[op].operands && op != OP_sqrt && op != OP_reciprocal;
	for (size_t i = 0; i < sizeof several / sizeof *several; i++)
		is_several |= several[i] == op;
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		is_function |= functions[i] == op;
	return is_several ? 8 : is_function ? 2 : 1.001L;
}

/* True if OP is a loss whose target at POINT is no probability. */
static bool is_no_target(enum op op, const struct point *point)
{
	return op_is_loss(op) && !(point->a >= 0 && point->a <= 1);
}

static void check_values(const struct kernels *kernels, const struct row *row, int variant, struct tally *tally)
{
	static struct lanes x;
	run_row(kernels, row, variant, &x);
	for (size_t i = 0; i < MANY; i++) {
		const real want = row->value(&x.point[i]);
		if (is_normal(kernels->dtype, want) && !is_no_target(row->op, &x.point[i]))
			compare(kernels, "value", row->op, &x.point[i], wide_get(kernels->dtype, x.y, i), want,
			        most_value_error(row->op), tally);
	}
}

/* True if a kept value, or an output that is kept, is no normal number at lane I. It stands for its input. */
static bool lost(const struct row *row, unsigned needs, const struct lanes *x, enum dtype dtype, size_t i)
{
	const real y = row->value(&x->point[i]);
	const double k = wide_get(dtype, x->k, i);
	return (needs & NEED_Y && !(fabsl(y) > 2 * least_of(dtype) && fabsl(y) < most_of(dtype) * 0.999L)) ||
	       (op_table[row->op].keeps[0].kind == KEEP_VALUE && !(fabs(k) > 2 * (double)least_of(dtype) && isfinite(k)));
}

/* Compares a row's derivative by v or, if OPERAND, by the operand. */
static void check_slopes(const struct kernels *kernels, const struct row *row, int operand, int variant,
                         struct tally *tally)
{
	static struct lanes x;
	const enum dtype dtype = kernels->dtype;
	const unsigned needs = operand ? op_table[row->op].needs_a : op_table[row->op].needs_v;
	const struct kernel_args args = run_row(kernels, row, variant, &x);
	(operand ? kernels->vjp_a : kernels->vjp_v)[row->op][0](&args);
	for (size_t i = 0; i < MANY; i++) {
		const struct point *point = &x.point[i];
		const real want = row->slope[operand](point);
		if (is_normal(dtype, want) && !is_no_target(row->op, point) && !lost(row, needs, &x, dtype, i) &&
		    !(keeps_output_alone(row->op) && fabsl(point->v) > 1))
			compare(kernels, operand ? "da" : "dv", row->op, point, wide_get(dtype, x.slope, i), want,
			        most_error(row->op, dtype), tally);
	}
}

enum { PARTS = 3 }; /* derivatives by v and by the operand, and values */

/* Checks one PART of a row on all sets of a type. */
static void check_part(const struct row *row, int type, int part)
{
	const int rounds = SANITIZED ? 4 : 24;
	const struct kernels *tables[4];
	const size_t sets = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables);
	struct tally tally = {0};
	for (size_t table = 0; table < sets; table++)
		for (int round = 0; round < rounds; round++)
			if (part == 2)
				check_values(tables[table], row, round % 2, &tally);
			else if ((part ? tables[table]->vjp_a : tables[table]->vjp_v)[row->op][0])
				check_slopes(tables[table], row, part, round % 2, &tally);
	if (tally.normal && getenv("EDGES_TABLE"))
		printf("%s %s %-13s %7ld numbers, worst error %5.2Lf ulp\n", type ? "f64" : "f32",
		       part == 2 ? "y "
		       : part    ? "da"
		                 : "dv",
		       op_table[row->op].name, tally.normal, tally.worst / 2);
}

START_TEST(elements_at_edges)
{
	for (int type = 0; type < 2; type++)
		for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
			for (int part = 0; part < PARTS; part++) {
				state = r + 1;
				check_part(&rows[r], type, part);
			}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("edges");
	TCase *tests = suite_make_case(suite, "elements");
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, elements_at_edges);
	return suite_run(suite);
}
