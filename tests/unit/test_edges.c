/*
 * Derivatives at the edges: every row of ops.def on numbers of any exponent, on every instruction set and in both types.
 * The wider type is long double, whose exponents hold all intermediate values. It evaluates the rows of element-wise
 * operations as they stand in ops.def, so a new row joins by itself. Reductions, operations along an axis and losses
 * have a test of their own, test_edges_lines. No derivative is infinite, NaN or 0 where the true one is a normal number.
 */
#include "ops/general.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"

typedef long double real;

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

#define M(FUNCTION, ...) lf_##FUNCTION(__VA_ARGS__)
#define P(I) number[I]
#define M_ONE 1.0L
#define M_ZERO 0.0L
#define M_HALF 0.5L
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
static double unit(void)
{
	state = state * 6364136223846793005U + 1442695040888963407U;
	return (double)(state >> 11) * 0x1p-53;
}

static real least_of(enum dtype dtype) { return dtype == DTYPE_F64 ? (real)DBL_MIN : (real)FLT_MIN; }
static real most_of(enum dtype dtype) { return dtype == DTYPE_F64 ? (real)DBL_MAX : (real)FLT_MAX; }
static real epsilon_of(enum dtype dtype) { return dtype == DTYPE_F64 ? 0x1p-53L : 0x1p-24L; }
static double rounded(enum dtype dtype, double x) { return dtype == DTYPE_F64 ? x : (double)(float)x; }

/* Returns a normal number with an exponent of 2 up to MOST, or down to its negative. */
static double wide_number(enum dtype dtype, int most)
{
	const double x = ldexp(1 + unit(), (int)(unit() * (2 * most + 1)) - most);
	return rounded(dtype, unit() < 0.5 ? -x : x);
}

/* Returns a number of any exponent, one around 1, one very near 1, or one at which exponentials end. */
static double any_number(enum dtype dtype)
{
	const double kind = unit(), sign = unit() < 0.5 ? -1 : 1;
	if (kind < 0.4)
		return wide_number(dtype, dtype == DTYPE_F64 ? 1021 : 125);
	if (kind < 0.6)
		return rounded(dtype, sign * ldexp(unit(), (int)(unit() * 8)));
	if (kind < 0.7)
		return rounded(dtype, sign * (1 + (unit() < 0.5 ? -1 : 1) * ldexp(1, -(int)(unit() * 52))));
	return rounded(dtype, sign * unit() * (kind < 0.8 ? 60 : dtype == DTYPE_F64 ? 1500 : 200));
}

static void put(enum dtype dtype, void *array, size_t i, double x)
{
	if (dtype == DTYPE_F64)
		((double *)array)[i] = x;
	else
		((float *)array)[i] = (float)x;
}
static double get(enum dtype dtype, const void *array, size_t i)
{
	return dtype == DTYPE_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

/* ---- element-wise operations ---- */

/* The contract has tanh and sigmoid keep the output alone. They are as exact as 1 - y. */
static bool keeps_output_alone(enum op op) { return op == OP_tanh || op == OP_sigmoid; }

/* Returns the size by which an error is measured: WANT, but around a zero of the derivative a part of G. */
static real scale_of(enum op op, const struct point *x, real want)
{
	const bool crosses = op == OP_gelu || op == OP_silu;
	return crosses && x->v > -3 && x->v < 0 ? fmaxl(fabsl(want), fabsl(x->g) / 8) : fabsl(want);
}

/* The largest error in half units of the last place: derivatives multiply up to four rounded functions. */
static real most_error(enum op op, enum dtype dtype)
{
	return (op == OP_pow && dtype == DTYPE_F64) || op == OP_gelu || op == OP_silu || op == OP_sinh ? 24 : 12;
}

enum { MANY = 512 };
struct lanes {
	_Alignas(64) double v[MANY], a[MANY], g[MANY], y[MANY], k[MANY], l[MANY], slope[MANY];
};

/* Draws numbers, computes a row's derivative by the operand or by v, and compares. Returns how many were normal. */
static long check_row(const struct kernels *kernels, const struct row *row, int operand, int variant, real *worst)
{
	static struct lanes x;
	const enum dtype dtype = kernels->dtype;
	const struct op_info *info = &op_table[row->op];
	kernel *const slope = (operand ? kernels->vjp_a : kernels->vjp_v)[row->op][0];
	kernel *const keep = kernels->forward_keep[row->op][0], *const forward = kernels->forward[row->op][0];
	struct kernel_args args = {.out = x.y, .keep = {x.k, x.l}, .v = x.v, .a = x.a, .n = MANY};
	struct point point[MANY];
	long normal = 0;
	args.number[0] = row->op == OP_clip ? -1 : row->op == OP_gelu ? variant : 0.25;
	args.number[1] = 1.5;
	for (size_t i = 0; i < MANY; i++) {
		point[i] =
			(struct point){any_number(dtype), any_number(dtype), any_number(dtype), {args.number[0], args.number[1]}};
		put(dtype, x.v, i, (double)point[i].v);
		put(dtype, x.a, i, (double)point[i].a);
		put(dtype, x.g, i, (double)point[i].g);
	}
	(keep ? keep : forward)(&args);
	args.out = x.slope;
	args.y = x.y;
	args.k = x.k;
	args.l = x.l;
	args.g = x.g;
	slope(&args);
	for (size_t i = 0; i < MANY; i++) {
		const unsigned needs = operand ? info->needs_a : info->needs_v;
		const real y = row->value(&point[i]), want = row->slope[operand](&point[i]),
				   scale = scale_of(row->op, &point[i], want);
		const double have = get(dtype, x.slope, i);
		/* an output that is kept, and a value, must be normal: it stands for its input */
		const bool lost = (needs & NEED_Y && !(fabsl(y) > 2 * least_of(dtype) && fabsl(y) < most_of(dtype) / 2)) ||
		                  (info->keeps[0].kind == KEEP_VALUE &&
		                   !(fabs(get(dtype, x.k, i)) > 2 * (double)least_of(dtype) && isfinite(get(dtype, x.k, i))));
		if (lost || !(fabsl(want) > 4 * least_of(dtype) && fabsl(want) < most_of(dtype) / 4) ||
		    (keeps_output_alone(row->op) && fabsl(point[i].v) > 1))
			continue;
		normal++;
		*worst = fmaxl(*worst, fabsl(have - want) / scale / epsilon_of(dtype));
		ck_assert_msg(have != 0 && fabsl(have - want) <= most_error(row->op, dtype) * epsilon_of(dtype) * scale,
		              "d%c of %s, %s %s, at v=%a a=%a g=%a: %a, not %La", operand ? 'a' : 'v', info->name, kernels->isa,
		              dtype == DTYPE_F64 ? "f64" : "f32", (double)point[i].v, (double)point[i].a, (double)point[i].g,
		              have, want);
	}
	return normal;
}

START_TEST(derivatives_of_elements)
{
	const int rounds = SANITIZED ? 4 : 24;
	for (int type = 0; type < 2; type++) {
		const struct kernels *tables[4];
		const size_t sets = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables);
		for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
			for (int operand = 0; operand < 2; operand++) {
				real worst = 0;
				long normal = 0;
				state = r + 1;
				for (size_t table = 0; table < sets; table++)
					for (int round = 0; round < rounds; round++)
						if ((operand ? tables[table]->vjp_a : tables[table]->vjp_v)[rows[r].op][0])
							normal += check_row(tables[table], &rows[r], operand, round % 2, &worst);
				if (normal && getenv("EDGES_TABLE"))
					printf("%s d%c %-13s %7ld derivatives, worst error %5.2Lf ulp\n", type ? "f64" : "f32",
					       operand ? 'a' : 'v', op_table[rows[r].op].name, normal, worst / 2);
			}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("edges");
	TCase *tests = suite_make_case(suite, "derivatives");
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, derivatives_of_elements);
	return suite_run(suite);
}
