/*
 * The element-wise kernels: every row of ops.def, on every instruction set that this
 * processor has, in both types. The oracles are the C library in a wider type (double
 * for float, long double for double), and central differences of its functions.
 */
#include "base/checked.h"
#include "ops/kernels.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processor.h"
#include "suite.h"

typedef long double real;

/* ---- what the rows mean, in long double ---- */

/* The second operand, everywhere: that and the derivatives by it have a test of their own. */
enum { SECOND = 3 };

static real ref_add(real v, real a, const double *p)
{
	(void)p;
	return v + a;
}
static real ref_sub(real v, real a, const double *p)
{
	(void)p;
	return v - a;
}
static real ref_mul(real v, real a, const double *p)
{
	(void)p;
	return v * a;
}
static real ref_div(real v, real a, const double *p)
{
	(void)p;
	return v / a;
}
static real ref_pow(real v, real a, const double *p)
{
	(void)p;
	return powl(v, a);
}
static real ref_max(real v, real a, const double *p)
{
	(void)p;
	return isnan(v) || isnan(a) ? v + a : v > a ? v : a;
}
static real ref_min(real v, real a, const double *p)
{
	(void)p;
	return isnan(v) || isnan(a) ? v + a : v < a ? v : a;
}
static real ref_rsub(real v, real a, const double *p)
{
	(void)p;
	return a - v;
}
static real ref_rdiv(real v, real a, const double *p)
{
	(void)p;
	return a / v;
}
static real ref_rpow(real v, real a, const double *p)
{
	(void)p;
	return powl(a, v);
}
/* NumPy's remainder: fmod and, if its sign is not a's, a added. */
static real ref_mod(real v, real a, const double *p)
{
	const real rest = fmodl(v, a);
	(void)p;
	return rest == 0 ? copysignl(0, a) : (rest < 0) != (a < 0) ? rest + a : rest;
}
#define REF_CONDITION(NAME, CONDITION)                                                                                 \
	static real ref_##NAME(real v, real a, const double *p)                                                            \
	{                                                                                                                  \
		(void)a, (void)p;                                                                                              \
		return CONDITION;                                                                                              \
	}
REF_CONDITION(lt, v < a)
REF_CONDITION(le, v <= a)
REF_CONDITION(gt, v > a)
REF_CONDITION(ge, v >= a)
REF_CONDITION(eq, v == a)
REF_CONDITION(ne, v != a)
REF_CONDITION(and, (v != 0 || isnan(v)) && (a != 0 || isnan(a)))
REF_CONDITION(or, v != 0 || a != 0)
REF_CONDITION(not, v == 0)
static real ref_where(real v, real a, const double *p)
{
	(void)p;
	return a != 0 || isnan(a) ? v : (real)SECOND;
}
static real ref_identity(real v, real a, const double *p)
{
	(void)a, (void)p;
	return v;
}
static real ref_stop_gradient(real v, real a, const double *p)
{
	(void)a, (void)p;
	return v;
}
static real ref_neg(real v, real a, const double *p)
{
	(void)a, (void)p;
	return -v;
}
static real ref_abs(real v, real a, const double *p)
{
	(void)a, (void)p;
	return fabsl(v);
}
static real ref_sign(real v, real a, const double *p)
{
	(void)a, (void)p;
	return v > 0 ? 1 : v < 0 ? -1 : v == 0 ? 0 : v;
}
static real ref_use(real v, real a, const double *p)
{
	(void)v, (void)p;
	return a;
}
static real ref_sqrt(real v, real a, const double *p)
{
	(void)a, (void)p;
	return sqrtl(v);
}
static real ref_rsqrt(real v, real a, const double *p)
{
	(void)a, (void)p;
	return 1 / sqrtl(v);
}
static real ref_square(real v, real a, const double *p)
{
	(void)a, (void)p;
	return v * v;
}
static real ref_reciprocal(real v, real a, const double *p)
{
	(void)a, (void)p;
	return 1 / v;
}
static real ref_exp(real v, real a, const double *p)
{
	(void)a, (void)p;
	return expl(v);
}
static real ref_expm1(real v, real a, const double *p)
{
	(void)a, (void)p;
	return expm1l(v);
}
static real ref_log(real v, real a, const double *p)
{
	(void)a, (void)p;
	return logl(v);
}
static real ref_log1p(real v, real a, const double *p)
{
	(void)a, (void)p;
	return log1pl(v);
}
static real ref_sin(real v, real a, const double *p)
{
	(void)a, (void)p;
	return sinl(v);
}
static real ref_cos(real v, real a, const double *p)
{
	(void)a, (void)p;
	return cosl(v);
}
static real ref_tan(real v, real a, const double *p)
{
	(void)a, (void)p;
	return tanl(v);
}
static real ref_asin(real v, real a, const double *p)
{
	(void)a, (void)p;
	return asinl(v);
}
static real ref_acos(real v, real a, const double *p)
{
	(void)a, (void)p;
	return acosl(v);
}
static real ref_atan(real v, real a, const double *p)
{
	(void)a, (void)p;
	return atanl(v);
}
static real ref_sinh(real v, real a, const double *p)
{
	(void)a, (void)p;
	return sinhl(v);
}
static real ref_cosh(real v, real a, const double *p)
{
	(void)a, (void)p;
	return coshl(v);
}
static real ref_tanh(real v, real a, const double *p)
{
	(void)a, (void)p;
	return tanhl(v);
}
static real ref_sigmoid(real v, real a, const double *p)
{
	(void)a, (void)p;
	return 1 / (1 + expl(-v));
}
static real ref_softplus(real v, real a, const double *p)
{
	(void)a, (void)p;
	return fmaxl(v, 0) + log1pl(expl(-fabsl(v))) + (isnan(v) ? v : 0);
}
static real ref_relu(real v, real a, const double *p)
{
	(void)a, (void)p;
	return isnan(v) ? v : v > 0 ? v : 0;
}
static real ref_leaky_relu(real v, real a, const double *p)
{
	(void)a;
	return v > 0 ? v : v * p[0];
}
static real ref_elu(real v, real a, const double *p)
{
	(void)a, (void)p;
	return v > 0 ? v : expm1l(v);
}
static real ref_gelu(real v, real a, const double *p)
{
	(void)a;
	if (p[0] != 0)
		return v / (1 + expl(-2 * sqrtl(2 / acosl(-1)) * (v + 0.044715L * v * v * v)));
	return v * (erfcl(-v * sqrtl(0.5L)) / 2);
}
static real ref_silu(real v, real a, const double *p)
{
	(void)a, (void)p;
	return v / (1 + expl(-v));
}
static real ref_erf(real v, real a, const double *p)
{
	(void)a, (void)p;
	return erfl(v);
}
static real ref_floor(real v, real a, const double *p)
{
	(void)a, (void)p;
	return floorl(v);
}
static real ref_clip(real v, real a, const double *p)
{
	(void)a;
	return v < p[0] ? p[0] : v > p[1] ? p[1] : v;
}

/* The other functions: (void) casts suit those that read no operand or number. */
#define REF(NAME, VALUE)                                                                                               \
	static real ref_##NAME(real v, real a, const double *p)                                                            \
	{                                                                                                                  \
		(void)a, (void)p;                                                                                              \
		return VALUE;                                                                                                  \
	}
REF(ceil, ceill(v))
REF(round, rintl(v))
REF(trunc, truncl(v))
REF(exp2, exp2l(v))
REF(log2, log2l(v))
REF(log10, log10l(v))
REF(cbrt, cbrtl(v))
REF(asinh, asinhl(v))
REF(acosh, acoshl(v))
REF(atanh, atanhl(v))
REF(erfc, erfcl(v))
REF(lgamma, lgammal(v))
REF(logit, v > 0.25L && v < 0.75L ? 2 * atanhl(2 * v - 1) : logl(v / (1 - v)))
REF(log_sigmoid, -ref_softplus(-v, a, p))
REF(softsign, v / (1 + fabsl(v)))
REF(selu, 1.0507009873554804934193349852946L * (v > 0 ? v : 1.6732632423543772848170429916717L * expm1l(v)))
REF(celu, v > 0 ? v : p[0] * expm1l(v / p[0]))
REF(mish, v *tanhl(ref_softplus(v, a, p)))
REF(hardsigmoid, isnan(v) ? v : fminl(fmaxl(v + 3, 0), 6) / 6)
REF(hardswish, v *ref_hardsigmoid(v, a, p))
REF(atan2, atan2l(v, a))
REF(hypot, hypotl(v, a))
REF(prelu, v > 0 ? v : a * v)
static real floored(real x) { return isnan(x) || x > -100 ? x : -100; }
REF(bce, (a - 1) * floored(log1pl(-v)) - a * floored(logl(v)))
REF(bce_logits, (v > 0 ? 1 - a : -a) * v + log1pl(expl(-fabsl(v))))
REF(kl_div, a == 0 ? 0 : a * (logl(a) - v))
REF_CONDITION(isnan, isnan(v))
REF_CONDITION(isfinite, isfinite(v))
static real ref_logaddexp(real v, real a, const double *p)
{
	(void)p;
	return isnan(v) || isnan(a) ? v + a : fmaxl(v, a) + (isinf(v) || isinf(a) ? 0 : log1pl(expl(-fabsl(v - a))));
}

/* ---- the rows ---- */

/* The interval in which values and derivatives are sampled, and the largest error in ulp; 0: correctly rounded. */
static const struct domain {
	double low, high;
	double ulp;
} domains[OP_COUNT] = {
	[OP_pow] = {0, 20, 1},
	[OP_sqrt] = {0, 1e6, 0},
	[OP_rsqrt] = {0, 1e6, 1},
	[OP_exp] = {-104, 89, 1},
	[OP_expm1] = {-40, 89, 1},
	[OP_log] = {0, 100, 1},
	[OP_log1p] = {-1, 10, 1},
	[OP_sin] = {-3000, 3000, 1},
	[OP_cos] = {-3000, 3000, 1},
	[OP_tan] = {-100, 100, 1},
	[OP_asin] = {-1, 1, 1},
	[OP_acos] = {-1, 1, 1},
	[OP_atan] = {-10, 10, 1},
	[OP_sinh] = {-89, 89, 1},
	[OP_cosh] = {-89, 89, 1},
	[OP_tanh] = {-20, 20, 1},
	[OP_sigmoid] = {-104, 40, 4},
	[OP_softplus] = {-104, 40, 4},
	[OP_elu] = {-40, 10, 4},
	[OP_gelu] = {-14, 10, 4},
	[OP_silu] = {-104, 40, 4},
	[OP_erf] = {-7, 7, 1},
	[OP_rpow] = {-20, 20, 1},
	[OP_exp2] = {-150, 128, 1},
	[OP_log2] = {0, 100, 1},
	[OP_log10] = {0, 100, 1},
	[OP_cbrt] = {-100, 100, 1},
	[OP_asinh] = {-20, 20, 1},
	[OP_acosh] = {1, 20, 1},
	[OP_atanh] = {-1, 1, 1},
	[OP_erfc] = {-7, 14, 1},
	[OP_lgamma] = {-20, 20, 4},
	[OP_logit] = {0, 1, 4},
	[OP_log_sigmoid] = {-40, 104, 4},
	[OP_softsign] = {-20, 20, 4},
	[OP_selu] = {-40, 10, 4},
	[OP_celu] = {-40, 10, 4},
	[OP_mish] = {-104, 40, 4},
	[OP_hardswish] = {-6, 6, 4},
	[OP_hardsigmoid] = {-6, 6, 4},
	[OP_atan2] = {-6, 6, 1},
	[OP_hypot] = {-20, 20, 1},
	[OP_logaddexp] = {-20, 20, 1},
	[OP_bce] = {0, 1, 4},
	[OP_bce_logits] = {-104, 104, 4},
	[OP_kl_div] = {-20, 2, 4},
};

static double domain_low(int op) { return domains[op].low == domains[op].high ? -20 : domains[op].low; }
static double domain_high(int op) { return domains[op].low == domains[op].high ? 20 : domains[op].high; }

enum kept { KEPT_NONE, KEPT_IS_VALUE, KEPT_IS_MASK, KEPT_IS_MASKS, KEPT_IS_SIGN };
#define KEPT_NOTHING KEPT_NONE
#define KEPT_VALUE(OP, EXPRESSION) KEPT_IS_VALUE
#define KEPT_MASK(OP, CONDITION) KEPT_IS_MASK
#define KEPT_MASKS(OP, CONDITION, OP2, CONDITION2) KEPT_IS_MASKS
#define KEPT_SIGN(OP, EXPRESSION) KEPT_IS_SIGN
#define BITS_NIL 0
#define BITS_ZERO 0
#define BITS_V NEED_V
#define BITS_A NEED_A
#define BITS_Y NEED_Y
#define BITS_K NEED_K
#define BITS_KL (NEED_K | NEED_L)
#define BITS_VA (NEED_V | NEED_A)
#define BITS_VY (NEED_V | NEED_Y)
#define BITS_AK (NEED_A | NEED_K)
#define BITS_AY (NEED_A | NEED_Y)
#define BITS_VAY (NEED_V | NEED_A | NEED_Y)

static const struct row {
	const char *name;
	int op;
	bool binary, ternary; /* a TERNARY row is both */
	enum kept kept;
	unsigned needs_v, needs_a;
	bool cheap;
	real (*reference)(real v, real a, const double *p);
} rows[] = {
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, ...)                                                        \
	{#NAME, OP_##NAME, false, false, KEPT_##KEEPS, BITS_##NEEDS, 0, (FLOPS) < 8, ref_##NAME},
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, ...)                                                       \
	{#NAME, OP_##NAME, true, false, KEPT_##KEEPS, BITS_##NEEDS_V, BITS_##NEEDS_A, (FLOPS) < 8, ref_##NAME},
#define TERNARY(NAME, GROUP, NAMES, KEEPS, NEEDS_V, NEEDS_A, ...)                                                      \
	{#NAME, OP_##NAME, true, true, KEPT_##KEEPS, BITS_##NEEDS_V, BITS_##NEEDS_A, false, ref_##NAME},
#include "ops/ops.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static bool is_mask(const struct row *row) { return row->kept >= KEPT_IS_MASK; }

/* Sets P(0) and P(1) for a row. VARIANT 1 is gelu by tanh. */
static void set_numbers(const struct row *row, int variant, double number[2])
{
	number[0] = number[1] = 0;
	if (row->op == OP_leaky_relu)
		number[0] = 0.125; /* exact in both types */
	if (row->op == OP_clip)
		number[0] = -1.5, number[1] = 2.25;
	if (row->op == OP_gelu)
		number[0] = variant;
	if (row->op == OP_celu)
		number[0] = 0.75;
}

/* ---- arrays of either type ---- */

enum { MOST = 1000, ROOM = MOST + 64 };
struct array {
	_Alignas(64) unsigned char bytes[ROOM * sizeof(double)];
};
static struct array in_v, in_a, in_b, in_g;

static size_t size_of(const struct kernels *kernels) { return kernels->dtype == DTYPE_F32 ? 4 : 8; }

static void put(const struct kernels *kernels, void *array, size_t i, double x)
{
	if (kernels->dtype == DTYPE_F32)
		((float *)array)[i] = (float)x;
	else
		((double *)array)[i] = x;
}

static double get(const struct kernels *kernels, const void *array, size_t i)
{
	return kernels->dtype == DTYPE_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static uint64_t seed = 1;
static uint64_t random_bits(void)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}
static double uniform(double low, double high) { return low + (high - low) * (double)(random_bits() >> 11) * 0x1p-53; }

/* a number of random bits: any number of the type */
static double any_number(const struct kernels *kernels)
{
	const uint64_t bits = random_bits();
	const uint32_t half = (uint32_t)(bits >> 32);
	float f;
	double d;

	memcpy(&f, &half, sizeof f);
	memcpy(&d, &bits, sizeof d);
	return kernels->dtype == DTYPE_F32 ? (double)f : d;
}

static double special(size_t i)
{
	static const double list[] = {0.0,      -0.0,      1,      -1,     0.5,    -0.5,  INFINITY, -INFINITY, NAN,
	                              0x1p-149, -0x1p-149, 3,      -3,     1e30,   -1e30, 1e-30,    -1e-30,    0x1p-127,
	                              2,        -2,        710,    -710,   89,     -89,   104,      -104,      3.4e38,
	                              1e10,     -1e10,     0x1p23, -2.5,   1.5,    -1.5,  2.25,     100,       -37.5,
	                              22,       -22,       1e5,    0x1p52, 5e-324, 1e308};
	return list[i % (sizeof list / sizeof list[0])];
}

/* Numbers of the row's domain, mixed with special values. */
static void fill_inputs(const struct kernels *kernels, const struct row *row, bool specials)
{
	for (size_t i = 0; i < ROOM; i++) {
		put(kernels, in_v.bytes, i,
		    specials && random_bits() % 4 == 0 ? special(random_bits() % 64)
		                                       : uniform(domain_low(row->op), domain_high(row->op)));
		put(kernels, in_a.bytes, i, specials && random_bits() % 4 == 0 ? special(random_bits() % 64) : uniform(-4, 4));
		put(kernels, in_g.bytes, i, uniform(-2, 2));
		put(kernels, in_b.bytes, i, SECOND);
	}
}

/* True if the bits are equal, or both are NaN. */
static bool same(const struct kernels *kernels, const void *x, const void *y, size_t n)
{
	const size_t size = size_of(kernels);
	for (size_t i = 0; i < n; i++)
		if (memcmp((const char *)x + i * size, (const char *)y + i * size, size) != 0 &&
		    !(isnan(get(kernels, x, i)) && isnan(get(kernels, y, i))))
			return false;
	return true;
}

static size_t tables_of(int type, const struct kernels *tables[4])
{
	return kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables);
}

#define FOR_ALL                                                                                                        \
	const struct kernels *tables[4];                                                                                   \
	for (int type = 0; type < 2; type++)                                                                               \
		for (size_t table = 0, count = tables_of(type, tables); table < count; table++)                                \
			for (const struct row *row = rows; row < rows + ROWS; row++)

#define WHERE_AND(MORE) "%s, %s %s, form %d, n %zu" MORE, row->name, kernels->isa, dtype_label(kernels), form, n
#define WHERE WHERE_AND("")
static const char *dtype_label(const struct kernels *kernels) { return kernels->dtype == DTYPE_F32 ? "f32" : "f64"; }

/* ---- shape of the table, blocks, tails ---- */

START_TEST(test_table_is_complete)
{
	FOR_ALL
	{
		const struct kernels *kernels = tables[table];
		ck_assert_int_eq(kernels->dtype, type ? DTYPE_F64 : DTYPE_F32);
		for (int form = 0; form < 2; form++) {
			const bool condition = (row->op >= OP_lt && row->op <= OP_not) || row->op == OP_where;
			const bool differentiable = (!condition || row->ternary) && row->op != OP_sign &&
			                            !(row->op >= OP_floor && row->op <= OP_trunc) && row->op != OP_stop_gradient &&
			                            row->op != OP_use;
			ck_assert_ptr_nonnull(kernels->forward[row->op][form]);
			ck_assert_int_eq(kernels->forward_keep[row->op][form] != NULL, row->kept != KEPT_NONE);
			ck_assert_int_eq(kernels->vjp_v[row->op][form] != NULL, differentiable);
			ck_assert_int_eq(kernels->vjp_a[row->op][form] != NULL, row->binary && !condition);
		}
		ck_assert_int_eq(op_runs_in_registers((enum op)row->op), row->cheap);
	}
	ck_assert(!op_runs_in_registers(OP_matmul));
	ck_assert(!op_runs_in_registers(OP_COUNT));
}
END_TEST

/* Returns the bits of element I of a kept array of masks or signs. */
static int bits_at(const struct row *row, const unsigned char *kept, size_t i)
{
	if (row->kept == KEPT_IS_SIGN)
		return (kept[i / 4] >> i % 4 & 1) | (kept[i / 4] >> (4 + i % 4) & 1) << 1;
	return kept[i / 8] >> i % 8 & 1;
}

/* Computes all outputs of a row on N elements of the inputs from START on. */
struct outputs {
	struct array y, y_keep, kept, dv, da;
	unsigned char mask[2][ROOM / 4 + 1];
};
static struct outputs whole, part;

static void run_row(const struct kernels *kernels, const struct row *row, int form, int variant, size_t start, size_t n,
                    struct outputs *to)
{
	const size_t size = size_of(kernels);
	struct kernel_args args = {.out = to->y.bytes,
	                           .v = in_v.bytes + start * size,
	                           .a = row->ternary || (row->binary && !form) ? in_a.bytes + start * size : NULL,
	                           .b = row->ternary && !form ? in_b.bytes + start * size : NULL,
	                           .scalar = row->ternary ? SECOND : 1.75,
	                           .n = n};

	memset(to, 0x55, sizeof *to);
	set_numbers(row, variant, args.number);
	kernels->forward[row->op][form](&args);
	if (row->kept) {
		args.out = to->y_keep.bytes;
		args.keep[0] = is_mask(row) ? (void *)to->mask[0] : (void *)to->kept.bytes;
		args.keep[1] = row->kept == KEPT_IS_MASKS ? to->mask[1] : NULL;
		kernels->forward_keep[row->op][form](&args);
	}
	for (int operand = 0; operand <= (row->binary ? 1 : 0); operand++) {
		kernel *vjp = operand ? kernels->vjp_a[row->op][form] : kernels->vjp_v[row->op][form];
		const unsigned needs = operand ? row->needs_a : row->needs_v;
		struct kernel_args back = {.out = operand ? to->da.bytes : to->dv.bytes, .scalar = 1.75, .n = n};

		if (!vjp)
			continue;
		set_numbers(row, variant, back.number);
		back.g = in_g.bytes + start * size;
		back.v = needs & NEED_V ? args.v : NULL;
		back.a = needs & NEED_A ? args.a : NULL;
		back.y = needs & NEED_Y ? to->y.bytes : NULL;
		back.k = needs & NEED_K ? args.keep[0] : NULL;
		back.l = needs & NEED_L ? args.keep[1] : NULL;
		vjp(&back);
	}
}

static const size_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, MOST};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* An element has the same bits at every index, and nothing is written past the end. */
START_TEST(test_tail_equals_body)
{
	FOR_ALL
	{
		const struct kernels *kernels = tables[table];
		const size_t size = size_of(kernels);
		for (int form = 0; form <= (row->binary ? 1 : 0); form++) {
			fill_inputs(kernels, row, true);
			run_row(kernels, row, form, 0, 0, MOST, &whole);
			for (int s = 0; s < SIZES; s++) {
				const size_t n = sizes[s], start = n < MOST ? (size_t)(random_bits() % (MOST - n)) : 0;

				run_row(kernels, row, form, 0, start, n, &part);
				ck_assert_msg(same(kernels, part.y.bytes, whole.y.bytes + start * size, n), "y: " WHERE);
				ck_assert_msg(!row->kept || same(kernels, part.y_keep.bytes, part.y.bytes, n), "keep y: " WHERE);
				if (kernels->vjp_v[row->op][form])
					ck_assert_msg(same(kernels, part.dv.bytes, whole.dv.bytes + start * size, n), "dv: " WHERE);
				if (row->binary)
					ck_assert_msg(same(kernels, part.da.bytes, whole.da.bytes + start * size, n), "da: " WHERE);
				if (row->kept == KEPT_IS_VALUE)
					ck_assert_msg(same(kernels, part.kept.bytes, whole.kept.bytes + start * size, n), "kept: " WHERE);
				for (int m = 0; is_mask(row) && m <= (row->kept == KEPT_IS_MASKS); m++) {
					const size_t in_byte = row->kept == KEPT_IS_SIGN ? 4 : 8, bytes = (n + in_byte - 1) / in_byte;
					for (size_t i = 0; i < bytes * in_byte; i++)
						ck_assert_msg(bits_at(row, part.mask[m], i) ==
						                  (i < n ? bits_at(row, whole.mask[m], start + i) : 0),
						              "mask: " WHERE);
					ck_assert_msg(part.mask[m][bytes] == 0x55, "mask's end: " WHERE);
				}
				ck_assert_msg(part.y.bytes[n * size] == 0x55, "y's end: " WHERE);
				ck_assert_msg(part.dv.bytes[n * size] == 0x55, "dv's end: " WHERE);
				ck_assert_msg(part.da.bytes[n * size] == 0x55, "da's end: " WHERE);
				ck_assert_msg(part.kept.bytes[n * size] == 0x55, "kept's end: " WHERE);
			}
		}
	}
}
END_TEST

/* The result and the derivative of one element alone. */
static void run_alone(const struct kernels *kernels, const struct row *row, size_t i, struct outputs *to)
{
	const size_t at = i * size_of(kernels);
	struct kernel_args args = {.out = to->y.bytes + at, .v = in_v.bytes + at, .scalar = 1.75, .n = 1};
	struct kernel_args back = {.out = to->dv.bytes + at, .g = in_g.bytes + at, .scalar = 1.75, .n = 1};

	set_numbers(row, 0, args.number);
	set_numbers(row, 0, back.number);
	args.a = row->binary ? in_a.bytes + at : NULL;
	args.b = row->ternary ? in_b.bytes + at : NULL;
	if (row->kept) {
		args.keep[0] = is_mask(row) ? (void *)to->mask[0] : (void *)(to->kept.bytes + at);
		args.keep[1] = row->kept == KEPT_IS_MASKS ? to->mask[1] : NULL;
		kernels->forward_keep[row->op][0](&args);
	} else {
		kernels->forward[row->op][0](&args);
	}
	back.v = row->needs_v & NEED_V ? args.v : NULL;
	back.a = row->needs_v & NEED_A ? args.a : NULL;
	back.y = row->needs_v & NEED_Y ? args.out : NULL;
	back.k = row->needs_v & NEED_K ? args.keep[0] : NULL;
	back.l = row->needs_v & NEED_L ? args.keep[1] : NULL;
	if (kernels->vjp_v[row->op][0])
		kernels->vjp_v[row->op][0](&back);
}

/* An element has the same bits whatever its neighbours are, although slow paths are chosen for a whole vector. */
START_TEST(test_neighbours_do_not_matter)
{
	enum { ROUNDS = 8, FORM = 0 };
	static const int exponents[][2] = {
		{-4, 32}, {-4, 64}, {-12, 0}, {-150, 0}}; /* the latter fill vectors without a large one */
	FOR_ALL
	{
		const struct kernels *kernels = tables[table];
		for (int round = 0; round < ROUNDS; round++) {
			const size_t n = MOST;
			const int form = FORM, *between = exponents[round % 4];
			fill_inputs(kernels, row, false);
			for (size_t i = 0; i < n; i++)
				put(kernels, in_v.bytes, i,
				    i % 32 ? ldexp(uniform(-1, 1), (int)uniform(between[0], between[1])) : -0.0);
			run_row(kernels, row, form, 0, 0, n, &whole);
			for (size_t i = 0; i < n; i++)
				run_alone(kernels, row, i, &part);
			ck_assert_msg(same(kernels, part.y.bytes, whole.y.bytes, n), "y: " WHERE);
			if (kernels->vjp_v[row->op][form])
				ck_assert_msg(same(kernels, part.dv.bytes, whole.dv.bytes, n), "dv: " WHERE);
			if (row->kept == KEPT_IS_VALUE)
				ck_assert_msg(same(kernels, part.kept.bytes, whole.kept.bytes, n), "kept: " WHERE);
		}
	}
}
END_TEST

START_TEST(test_in_place_and_unaligned)
{
	static struct array copy, copy_a;
	FOR_ALL
	{
		const struct kernels *kernels = tables[table];
		const size_t size = size_of(kernels), n = 333;
		for (int form = 0; form <= (row->binary ? 1 : 0); form++) {
			struct kernel_args args = {.scalar = 1.75, .n = n};

			fill_inputs(kernels, row, true);
			run_row(kernels, row, form, 0, 0, n, &whole);
			set_numbers(row, 0, args.number);
			memcpy(copy.bytes + size, in_v.bytes, n * size); /* off a vector's alignment */
			memcpy(copy_a.bytes + 3 * size, in_a.bytes, n * size);
			args.out = copy.bytes + size;
			args.v = args.out;
			args.a = row->ternary || (row->binary && !form) ? copy_a.bytes + 3 * size : NULL;
			args.b = row->ternary && !form ? in_b.bytes : NULL;
			args.scalar = row->ternary ? SECOND : args.scalar;
			kernels->forward[row->op][form](&args);
			ck_assert_msg(same(kernels, args.out, whole.y.bytes, n), "over v: " WHERE);
			if (!args.a)
				continue;
			memcpy(copy.bytes + size, in_v.bytes, n * size);
			args.out = copy_a.bytes + 3 * size;
			kernels->forward[row->op][form](&args);
			ck_assert_msg(same(kernels, args.out, whole.y.bytes, n), "over a: " WHERE);
		}
	}
}
END_TEST

/* ---- values ---- */

/* The error of Y in ulp of WANT. */
static double ulps(const struct kernels *kernels, double y, real want)
{
	const int digits = kernels->dtype == DTYPE_F32 ? 24 : 53, least = kernels->dtype == DTYPE_F32 ? -149 : -1074;
	const real largest = kernels->dtype == DTYPE_F32 ? (real)FLT_MAX : (real)DBL_MAX;
	int exponent;

	if (isnan(want) || isnan(y))
		return isnan(want) && isnan(y) ? 0 : INFINITY;
	if (isinf(y) && fabsl(want) >= largest && (y > 0) == (want > 0))
		return 0; /* overflow at the edge is judged by largest's own ulp below */
	if (isinf(want) || isinf(y))
		return (real)y == want ? 0 : INFINITY;
	if (want == 0)
		return y == 0 ? (!signbit(y) == !signbit(want) ? 0 : INFINITY) : (double)fabsl(y / ldexpl(1, least));
	frexpl(want, &exponent);
	exponent = exponent - digits < least ? least : exponent - digits;
	return (double)(fabsl((real)y - want) / ldexpl(1, exponent));
}

static void measure(const struct kernels *kernels, const struct row *row, int variant, size_t n, double *worst,
                    double at[2])
{
	struct kernel_args args = {.out = whole.y.bytes,
	                           .v = in_v.bytes,
	                           .a = row->binary ? in_a.bytes : NULL,
	                           .b = row->ternary ? in_b.bytes : NULL,
	                           .n = n};

	for (size_t i = 0; i < n; i++)
		put(kernels, in_b.bytes, i, SECOND);
	set_numbers(row, variant, args.number);
	kernels->forward[row->op][0](&args);
	for (size_t i = 0; i < n; i++) {
		const double v = get(kernels, in_v.bytes, i), a = get(kernels, in_a.bytes, i);
		const double y = get(kernels, whole.y.bytes, i);
		if (op_is_loss((enum op)row->op) && !(a >= 0 && a <= 1)) /* a target is a probability */
			continue;
		const real want = row->reference(v, a, args.number);
		/* lgamma's error is judged by the larger of its value and 1, those of sums that cancel by their terms too */
		const real scale = row->op == OP_lgamma      ? 1
		                   : row->op == OP_logaddexp ? fmaxl(fabsl((real)v), fabsl((real)a))
		                   : row->op == OP_kl_div    ? a * fmaxl(fabsl((real)v), fabsl(logl(a)))
		                                             : 0;
		double error = ulps(kernels, y, want);
		if (isfinite(scale) && isfinite(error) && fabsl(want) < scale)
			error *= fmin(1, ldexp(1, (want != 0                     ? ilogbl(want)
			                           : kernels->dtype == DTYPE_F32 ? -149
			                                                         : -1074) -
			                              ilogbl(scale)));
		if (!(error <= *worst))
			*worst = error, at[0] = v, at[1] = a;
	}
}

static void values_of(bool specials, size_t rounds)
{
	int failures = 0;
	FOR_ALL
	{
		const struct kernels *kernels = tables[table];
		for (int variant = 0; variant <= (row->op == OP_gelu); variant++) {
			double worst = 0, at[2] = {0, 0};
			for (size_t round = 0; round < rounds; round++) {
				for (size_t i = 0; i < MOST; i++) {
					const int kind = (int)(random_bits() % 4);
					const double width = ldexp(1, -(int)(random_bits() % 40));
					double v = kind == 0   ? any_number(kernels)
					           : kind == 1 ? uniform(-width, width) * 16
					                       : uniform(domain_low(row->op), domain_high(row->op));
					double a = kind == 0 ? any_number(kernels) : uniform(-6, 6);
					if (kind == 3)
						a = floor(a);
					if (op_is_loss((enum op)row->op))
						a = kind == 3 ? (double)(random_bits() & 1) : uniform(0, 1);
					if (kind == 3 && row->op == OP_pow)
						v = random_bits() & 1 ? -v : v;
					if (specials) {
						v = random_bits() & 3 ? special(i) : v;
						a = random_bits() & 3 ? special(random_bits() % 64) : a;
					}
					put(kernels, in_v.bytes, i, v);
					put(kernels, in_a.bytes, i, a);
				}
				measure(kernels, row, variant, MOST, &worst, at);
			}
			const double bound = domains[row->op].ulp > 0 ? domains[row->op].ulp : 0.5;
			const bool good = worst <= bound;
			failures += !good;
			if (!specials || !good)
				printf("%-9s %s %-13s %7.4f ulp at %a, %a%s\n", kernels->isa, dtype_label(kernels), row->name, worst,
				       at[0], row->binary ? at[1] : 0, good ? "" : "  BEYOND ITS BOUND");
		}
	}
	ck_assert_msg(failures == 0, "%d rows are beyond their bounds: see the list above", failures);
}

START_TEST(test_special_values) { values_of(true, 4); }
END_TEST

START_TEST(test_errors_in_ulp) { values_of(false, 60); }
END_TEST

/*
 * The functions that are computed in float lanes, at every STRIDE-th float. No error is above the largest of all
 * floats (bench/RESULTS.md), and the bits of avx2 and avx512 are the same, but for gelu, which has a form for each.
 */
START_TEST(test_float_lanes)
{
	enum { STRIDE = 10007 };
	static const struct {
		int op;
		double most;
	} functions[] = {
		{OP_exp, 0.8039},  {OP_log, 0.7536},     {OP_log1p, 0.8837}, {OP_sin, 0.878},  {OP_cos, 0.8808},
		{OP_tanh, 0.6052}, {OP_sigmoid, 0.7920}, {OP_silu, 1.5214},  {OP_erf, 0.6875}, {OP_gelu, 1.7024},
	};
	const struct kernels *tables[4];
	const size_t count = kernels_all(DTYPE_F32, tables);
	for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
		const struct row *row = rows;
		while (row->op != functions[f].op)
			row++;
		for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += (uint64_t)STRIDE * MOST) {
			static struct array first;
			for (size_t i = 0; i < MOST; i++) {
				const uint32_t number = (uint32_t)(bits + STRIDE * i);
				memcpy(in_v.bytes + i * sizeof number, &number, sizeof number);
			}
			for (size_t table = 0; table < count; table++) {
				const struct kernels *kernels = tables[table];
				double worst = 0, at[2] = {0, 0};
				measure(kernels, row, 0, MOST, &worst, at);
				ck_assert_msg(worst <= functions[f].most, "%s, %s at %a: %.4f ulp", row->name, kernels->isa, at[0],
				              worst);
				if (table == 0)
					first = whole.y;
				else if (!strcmp(kernels->isa, "avx2") && row->op != OP_gelu)
					ck_assert_msg(same(kernels, first.bytes, whole.y.bytes, MOST), "%s: other bits than avx512's",
					              row->name);
			}
		}
	}
}
END_TEST

/* Checks gelu's derivative at the MOST floats from the one with BITS on, each STRIDE after the one before. */
static void check_gelu_slopes(const struct kernels *kernels, uint32_t bits, uint32_t stride)
{
	const bool fma = !strcmp(kernels->isa, "avx2") || !strcmp(kernels->isa, "avx512");
	const struct kernel_args args = {.out = whole.dv.bytes, .v = in_v.bytes, .g = in_g.bytes, .n = MOST};
	for (size_t i = 0; i < MOST; i++) {
		const uint32_t number = bits + stride * (uint32_t)i;
		memcpy(in_v.bytes + i * sizeof number, &number, sizeof number);
		put(kernels, in_g.bytes, i, 1);
	}
	kernels->vjp_v[OP_gelu][0](&args);
	for (size_t i = 0; i < MOST; i++) {
		const real v = get(kernels, in_v.bytes, i), gauss = expl(-v * v / 2) / sqrtl(2 * acosl(-1));
		const real want = erfcl(-v * sqrtl(0.5L)) / 2 + v * gauss;
		const double have = get(kernels, whole.dv.bytes, i), error = ulps(kernels, have, want);
		/* the sum of doubles cancels around the zero */
		const double most = fma ? 2.17 : 0.51 + ldexp((double)fabsl(v * gauss / want), -10);
		ck_assert_msg(error <= most, "gelu's derivative, %s at %a: %.4f ulp", kernels->isa, (double)v, error);
	}
}

/* The derivative has a zero near -0.75. There it is as precise, relative to itself, as elsewhere. */
START_TEST(test_gelu_slopes)
{
	const struct kernels *tables[4];
	const size_t count = kernels_all(DTYPE_F32, tables);
	const float zero = -0.7517916F, most = 17;
	uint32_t at_zero, end;
	memcpy(&at_zero, &zero, sizeof zero);
	memcpy(&end, &most, sizeof most);
	for (size_t table = 0; table < count; table++) {
		check_gelu_slopes(tables[table], at_zero - MOST / 2, 1);
		for (uint32_t sign = 0; sign < 2; sign++)
			for (uint32_t bits = 0; bits < end; bits += 6007 * MOST)
				check_gelu_slopes(tables[table], bits | sign << 31, 6007);
	}
}
END_TEST

/* Arithmetic has the bits of C's operators in the type, denormals and signed zeros included. */
#define ARITHMETIC(NAME, TYPE, DTYPE, SQRT)                                                                            \
	START_TEST(NAME)                                                                                                   \
	{                                                                                                                  \
		static const int ops[] = {OP_add, OP_sub, OP_mul, OP_div, OP_rsub, OP_rdiv, OP_sqrt, OP_square};               \
		const struct kernels *tables[4];                                                                               \
		const size_t count = kernels_all(DTYPE, tables);                                                               \
		TYPE v[64], a[64], y[64];                                                                                      \
		for (int round = 0; round < 1000; round++) {                                                                   \
			for (size_t i = 0; i < 64; i++) {                                                                          \
				v[i] = (TYPE)any_number(tables[0]);                                                                    \
				a[i] = random_bits() & 1 ? (TYPE)any_number(tables[0]) : (TYPE)special(i);                             \
			}                                                                                                          \
			for (size_t table = 0; table < count; table++)                                                             \
				for (int k = 0; k < 8; k++) {                                                                          \
					const struct kernel_args args = {.out = y, .v = v, .a = a, .n = 64};                               \
					tables[table]->forward[ops[k]][0](&args);                                                          \
					for (int i = 0; i < 64; i++) {                                                                     \
						const TYPE all[] = {v[i] + a[i], v[i] - a[i], v[i] * a[i], v[i] / a[i],                        \
						                    a[i] - v[i], a[i] / v[i], SQRT(v[i]),  v[i] * v[i]};                       \
						ck_assert(isnan(all[k]) ? isnan(y[i]) : memcmp(&all[k], &y[i], sizeof y[i]) == 0);             \
					}                                                                                                  \
				}                                                                                                      \
		}                                                                                                              \
	}                                                                                                                  \
	END_TEST
ARITHMETIC(test_arithmetic_f32, float, DTYPE_F32, sqrtf)
ARITHMETIC(test_arithmetic_f64, double, DTYPE_F64, sqrt)

/* Powers near the largest and smallest doubles, among ordinary ones, are exact or rounded by hand. */
START_TEST(test_powers_at_the_ends)
{
	static const double cases[][3] = {{DBL_MAX, 1, DBL_MAX},
	                                  {-DBL_MAX, 1, -DBL_MAX},
	                                  {0x1.fffffffffffffp+511, 2, 0x1.ffffffffffffep+1023},
	                                  {-0x1.fffffffffffffp+511, 2, 0x1.ffffffffffffep+1023},
	                                  {0x1.0000000000004p-1024, -1, 0x1.ffffffffffff8p+1023},
	                                  {-0x1.0000000000004p-1024, -1, -0x1.ffffffffffff8p+1023},
	                                  {-2, 1023, -0x1p+1023},
	                                  {0x1p+512, 2, INFINITY},
	                                  {-0x1p+342, 3, -INFINITY},
	                                  {-2, 1025, -INFINITY},
	                                  {0, -1, INFINITY},
	                                  {-0.0, -3, -INFINITY},
	                                  {-0.0, 3, -0.0},
	                                  {-INFINITY, 3, -INFINITY},
	                                  {DBL_MIN, 1, DBL_MIN},
	                                  {0x1p-511, 2, DBL_MIN},
	                                  {-0x1p-341, 3, -0x1p-1023},
	                                  {-0x1p-358, 3, -0x1p-1074},
	                                  {-0x1p-1074, 1, -0x1p-1074},
	                                  {0x1.8p-538, 2, 0x1p-1074},
	                                  {0x1.4p-538, 2, 0},
	                                  {-0x1p-400, 3, -0.0},
	                                  {-2, -1074, 0x1p-1074},
	                                  {3, 2, 9}};
	enum { CASES = sizeof cases / sizeof cases[0] };
	const struct kernels *tables[4];
	const size_t count = kernels_all(DTYPE_F64, tables);
	for (size_t table = 0; table < count; table++) {
		double v[CASES], a[CASES], y[CASES];
		for (size_t i = 0; i < CASES; i++) {
			v[i] = cases[i][0];
			a[i] = cases[i][1];
		}
		const struct kernel_args args = {.out = y, .v = v, .a = a, .n = CASES};
		tables[table]->forward[OP_pow][0](&args);
		for (size_t i = 0; i < CASES; i++)
			ck_assert_msg(y[i] == cases[i][2] && !signbit(y[i]) == !signbit(cases[i][2]), "%s: pow(%a, %g) is %a",
			              tables[table]->isa, v[i], a[i], y[i]);
	}
}
END_TEST

/* Of two zeros max and min return the operand, relu 0, clip and elu the value, as in NumPy. */
START_TEST(test_signs_of_zeros)
{
	static const struct {
		int op;
		double v, a, number[2], want;
	} cases[] = {
		{OP_max, -0.0, 0, {0}, 0},        {OP_max, 0, -0.0, {0}, -0.0},    {OP_min, -0.0, 0, {0}, 0},
		{OP_min, 0, -0.0, {0}, -0.0},     {OP_max, -0.0, -1, {0}, -0.0},   {OP_min, -0.0, 1, {0}, -0.0},
		{OP_relu, -0.0, 0, {0}, 0},       {OP_relu, -1, 0, {0}, 0},        {OP_elu, -0.0, 0, {0}, -0.0},
		{OP_clip, -0.0, 0, {0, 1}, -0.0}, {OP_clip, 0, 0, {-1, -0.0}, 0},  {OP_ceil, -0.5, 0, {0}, -0.0},
		{OP_ceil, 0, 0, {0}, 0},          {OP_round, -0.5, 0, {0}, -0.0},  {OP_round, 2.5, 0, {0}, 2},
		{OP_round, -0.0, 0, {0}, -0.0},   {OP_trunc, -0.75, 0, {0}, -0.0}, {OP_prelu, -0.0, 1, {0}, -0.0},
		{OP_celu, -0.0, 0, {2}, -0.0},    {OP_selu, -0.0, 0, {0}, -0.0},
	};
	enum { COUNT = 205 };
	for (int type = 0; type < 2; type++) {
		const struct kernels *tables[4];
		for (size_t table = 0, count = tables_of(type, tables); table < count; table++)
			for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
				for (int form = 0; form < 3; form++) {
					const struct kernels *kernels = tables[table];
					const struct run_step step = {.op = (uint32_t)cases[c].op,
					                              .scalar = cases[c].a,
					                              .number = {cases[c].number[0], cases[c].number[1]}};
					const struct kernel_args args = {.out = whole.y.bytes,
					                                 .v = in_v.bytes,
					                                 .a = form ? NULL : in_a.bytes,
					                                 .scalar = cases[c].a,
					                                 .number = {cases[c].number[0], cases[c].number[1]},
					                                 .n = COUNT};
					for (size_t i = 0; i < COUNT; i++) {
						put(kernels, in_v.bytes, i, cases[c].v);
						put(kernels, in_a.bytes, i, cases[c].a);
					}
					if (form < 2)
						kernels->forward[cases[c].op][form](&args);
					else if (op_runs_in_registers((enum op)cases[c].op))
						kernels->run(whole.y.bytes, in_v.bytes, &step, 1, COUNT);
					for (size_t i = 0; i < COUNT; i++) {
						const double y = get(kernels, whole.y.bytes, i);
						ck_assert_msg(y == cases[c].want && !signbit(y) == !signbit(cases[c].want),
						              "%s %s: case %zu, form %d: %g", kernels->isa, dtype_label(kernels), c, form, y);
					}
				}
	}
}
END_TEST

/* ---- derivatives ---- */

static bool near_kink(const struct row *row, double v, double a)
{
	const double d = 1e-2;
	switch (row->op) {
	case OP_max:
	case OP_min:
		return fabs(v - a) < d;
	case OP_clip:
		return fabs(v + 1.5) < d || fabs(v - 2.25) < d;
	case OP_asin:
	case OP_acos:
		return fabs(v) > 1 - d;
	case OP_div:
		return fabs(a) < 0.1;
	case OP_rpow:
		return a < 0.1;
	case OP_mod:
		return fabs(a) < 0.1 || fabs(v / a - rint(v / a)) < d;
	case OP_pow:
	case OP_log:
	case OP_sqrt:
	case OP_rsqrt:
	case OP_rdiv:
	case OP_reciprocal:
		return fabs(v) < 0.1;
	case OP_tan:
		return fabs(cos(v)) < 0.1;
	case OP_log1p:
		return v < -0.9;
	case OP_atan2:
	case OP_hypot:
		return hypot(v, a) < 0.1;
	case OP_log2:
	case OP_log10:
	case OP_cbrt:
		return fabs(v) < 0.1;
	case OP_acosh:
		return v < 1.1;
	case OP_atanh:
		return fabs(v) > 0.95;
	case OP_logit:
	case OP_bce:
		return fabs(v - 0.5) > 0.4;
	case OP_kl_div:
		return a < 0.1;
	case OP_lgamma:
		return fabs(v - rint(v)) < 0.1;
	case OP_hardswish:
	case OP_hardsigmoid:
		return fabs(fabs(v) - 3) < d;
	default:
		return fabs(v) < d;
	}
}

START_TEST(test_derivatives)
{
	FOR_ALL
	{
		const struct kernels *kernels = tables[table];
		const size_t n = 200;
		for (int variant = 0; variant <= (row->op == OP_gelu); variant++)
			for (int form = 0; form <= (row->binary ? 1 : 0); form++) {
				double number[2];
				fill_inputs(kernels, row, false);
				for (size_t i = 0; i < n; i++) { /* where the values are of moderate size */
					const double low = fmax(domain_low(row->op), -5), high = fmin(domain_high(row->op), 5);
					put(kernels, in_v.bytes, i, uniform(low, high));
				}
				run_row(kernels, row, form, variant, 0, n, &whole);
				set_numbers(row, variant, number);
				for (int operand = 0; operand <= (row->binary ? 1 : 0); operand++) {
					if (!(operand ? kernels->vjp_a : kernels->vjp_v)[row->op][form])
						continue;
					for (size_t i = 0; i < n; i++) {
						const real v = get(kernels, in_v.bytes, i), h = 1e-5L;
						const real a = form && !row->ternary ? 1.75 : get(kernels, in_a.bytes, i),
								   g = get(kernels, in_g.bytes, i);
						const double got = get(kernels, operand ? whole.da.bytes : whole.dv.bytes, i);
						if (near_kink(row, (double)v, (double)a))
							continue;
						const real up = row->reference(operand ? v : v + h, operand ? a + h : a, number);
						const real down = row->reference(operand ? v : v - h, operand ? a - h : a, number);
						const real want = g * (up - down) / (2 * h);
						const real scale = fabsl(want) + fabsl(g) * (fabsl(up) + 1) * (type ? 1 : 0.1L);
						ck_assert_msg(fabsl(got - want) <= scale * (type ? 2e-7L : 1e-4L),
						              WHERE_AND(" d%c at %Lg, %Lg: %.17g, not %.17Lg"), operand ? 'a' : 'v', v, a, got,
						              want);
					}
				}
			}
	}
}
END_TEST

/* Derivatives at ties and kinks, as specified. */
START_TEST(test_derivatives_at_kinks)
{
	const struct kernels *tables[4];
	for (int type = 0; type < 2; type++)
		for (size_t table = 0, count = tables_of(type, tables); table < count; table++) {
			static const struct {
				int op;
				double v, a, dv, da;
			} cases[] = {{OP_relu, 0, 0, 0, 0},          {OP_abs, 0, 0, 0, 0},
			             {OP_max, 3, 3, 0.5, 0.5},       {OP_min, 3, 3, 0.5, 0.5},
			             {OP_max, 4, 3, 1, 0},           {OP_min, 4, 3, 0, 1},
			             {OP_clip, 2.25, 0, 0, 0},       {OP_clip, 2, 0, 1, 0},
			             {OP_relu, 1, 0, 1, 0},          {OP_relu, -1, 0, 0, 0},
			             {OP_abs, -2, 0, -1, 0},         {OP_abs, -0.0, 0, 0, 0},
			             {OP_abs, 2, 0, 1, 0},           {OP_abs, INFINITY, 0, 1, 0},
			             {OP_abs, NAN, 0, NAN, 0},       {OP_relu, NAN, 0, 0, 0},
			             {OP_hypot, 0, 0, 0, 0},         {OP_hardswish, 3, 0, 1, 0},
			             {OP_hardswish, -3, 0, 0, 0},    {OP_hardsigmoid, 3, 0, 0, 0},
			             {OP_prelu, 0, 3, 3, 0},         {OP_logaddexp, INFINITY, INFINITY, 0.5, 0.5},
			             {OP_bce, 1, 1, -1, -100},       {OP_bce, 0, 0, 1, 100},
			             {OP_kl_div, 2, 0, 0, -INFINITY}};
			const struct kernels *kernels = tables[table];
			for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
				const struct row *row = rows;
				while (row->op != cases[c].op)
					row++;
				for (size_t i = 0; i < 20; i++) {
					put(kernels, in_v.bytes, i, cases[c].v);
					put(kernels, in_a.bytes, i, cases[c].a);
					put(kernels, in_g.bytes, i, 1);
				}
				run_row(kernels, row, 0, 0, 0, 20, &whole);
				const double dv = get(kernels, whole.dv.bytes, 19);
				ck_assert_msg(dv == cases[c].dv || (isnan(dv) && isnan(cases[c].dv)), "%s case %zu", row->name, c);
				if (row->binary)
					ck_assert_msg(get(kernels, whole.da.bytes, 19) == cases[c].da, "%s case %zu", row->name, c);
			}
		}
}
END_TEST

/* where and its derivatives choose, and never compute with a value that is not chosen. */
START_TEST(test_where)
{
	enum { COUNT = 133 };
	static const double conditions[] = {0, -0.0, 1, NAN, -2, 0x1p-149, INFINITY};
	for (int type = 0; type < 2; type++) {
		const struct kernels *tables[4];
		for (size_t table = 0, count = tables_of(type, tables); table < count; table++)
			for (int form = 0; form < 2; form++) {
				const struct kernels *kernels = tables[table];
				struct kernel_args args = {.v = in_v.bytes,
				                           .a = in_a.bytes,
				                           .b = form ? NULL : in_b.bytes,
				                           .scalar = 7,
				                           .g = in_g.bytes,
				                           .k = whole.mask[0],
				                           .keep = {whole.mask[0]},
				                           .out = whole.y.bytes,
				                           .n = COUNT};
				for (size_t i = 0; i < COUNT; i++) {
					put(kernels, in_a.bytes, i, conditions[i % 7]);
					put(kernels, in_v.bytes, i, i % 2 ? NAN : (double)i);
					put(kernels, in_b.bytes, i, i % 3 ? -(double)i : NAN);
					put(kernels, in_g.bytes, i, i % 5 ? (double)i : NAN);
				}
				kernels->forward_keep[OP_where][form](&args);
				args.out = whole.dv.bytes;
				kernels->vjp_v[OP_where][form](&args);
				args.out = whole.da.bytes;
				kernels->vjp_b[OP_where][form](&args);
				ck_assert_ptr_null(kernels->vjp_a[OP_where][form]);
				for (size_t i = 0; i < COUNT; i++) {
					const bool chosen = conditions[i % 7] != 0;
					const double b = form ? 7 : get(kernels, in_b.bytes, i), g = get(kernels, in_g.bytes, i);
					const double want[] = {chosen ? get(kernels, in_v.bytes, i) : b, chosen ? g : 0, chosen ? 0 : g};
					const double have[] = {get(kernels, whole.y.bytes, i), get(kernels, whole.dv.bytes, i),
					                       get(kernels, whole.da.bytes, i)};
					for (int k = 0; k < 3; k++)
						ck_assert_msg(have[k] == want[k] || (isnan(have[k]) && isnan(want[k])), "%s %s: %zu of %d: %g",
						              kernels->isa, dtype_label(kernels), i, k, have[k]);
				}
			}
	}
}
END_TEST

/* A kept value is as precise as the operation of its name, for zeros and tiny numbers too. */
START_TEST(test_kept_values_in_ulp)
{
	static const struct {
		int op;
		real (*kept)(real);
	} rows_kept[] = {{OP_sin, cosl}, {OP_cos, sinl}, {OP_sinh, coshl}, {OP_cosh, sinhl}};

	FOR_ALL
	for (size_t k = 0; k < sizeof rows_kept / sizeof rows_kept[0]; k++) {
		const struct kernels *kernels = tables[table];
		struct kernel_args args = {.out = whole.y.bytes, .v = in_v.bytes, .keep = {whole.kept.bytes}, .n = MOST};

		if (row->op != rows_kept[k].op)
			continue;
		for (size_t i = 0; i < MOST; i++) {
			const double width = ldexp(1, -(int)(random_bits() % 60));
			put(kernels, in_v.bytes, i,
			    random_bits() & 1   ? special(i)
			    : random_bits() & 1 ? any_number(kernels)
			                        : uniform(-width, width));
		}
		kernels->forward_keep[row->op][0](&args);
		for (size_t i = 0; i < MOST; i++) {
			const double v = get(kernels, in_v.bytes, i), y = get(kernels, whole.kept.bytes, i);
			ck_assert_msg(ulps(kernels, y, rows_kept[k].kept(v)) <= 1.01, "%s, %s %s at %a: %a", row->name,
			              kernels->isa, dtype_label(kernels), v, y);
		}
	}
}
END_TEST

/* A derivative that is infinity times 0 is NaN in both types. */
START_TEST(test_slopes_at_infinity)
{
	FOR_ALL
	for (int variant = 0; variant <= (row->op == OP_gelu); variant++) {
		const struct kernels *kernels = tables[table];

		if (row->op != OP_gelu && row->op != OP_silu && row->op != OP_mish)
			continue;
		for (size_t i = 0; i < 20; i++) {
			put(kernels, in_v.bytes, i, i % 2 ? INFINITY : -INFINITY);
			put(kernels, in_g.bytes, i, 1);
		}
		run_row(kernels, row, 0, variant, 0, 20, &whole);
		for (size_t i = 0; i < 20; i++)
			ck_assert_msg(isnan(get(kernels, whole.dv.bytes, i)), "%s, %s %s", row->name, kernels->isa,
			              dtype_label(kernels));
	}
}
END_TEST

/* At a large finite number the derivative is the asymptote's, even if the number's square overflows. */
START_TEST(test_slopes_far_out)
{
	FOR_ALL
	for (int variant = 0; variant <= (row->op == OP_gelu); variant++) {
		const struct kernels *kernels = tables[table];
		const int most = size_of(kernels) == sizeof(float) ? 127 : 1023;
		const size_t n = 400;

		if (row->op != OP_gelu && row->op != OP_silu && row->op != OP_mish)
			continue;
		for (size_t i = 0; i < n; i++) {
			put(kernels, in_v.bytes, i, ldexp(i % 2 ? 1.5 : -1.5, 11 + (most - 11) * (int)(i / 2) / 199));
			put(kernels, in_g.bytes, i, 1);
		}
		run_row(kernels, row, 0, variant, 0, n, &whole);
		for (size_t i = 0; i < n; i++)
			ck_assert_msg(get(kernels, whole.dv.bytes, i) == (double)(i % 2), "%s %d, %s %s at %a: %a", row->name,
			              variant, kernels->isa, dtype_label(kernels), get(kernels, in_v.bytes, i),
			              get(kernels, whole.dv.bytes, i));
	}
}
END_TEST

/* A derivative uses what it declares: the gradient changes if that is spoilt. */
START_TEST(test_needs_are_used)
{
	static struct array spoilt, result;
	static unsigned char flipped[ROOM / 4 + 1];
	FOR_ALL
	{
		const struct kernels *kernels = tables[table];
		const size_t size = size_of(kernels), n = 100;
		for (int operand = 0; operand <= (row->binary ? 1 : 0); operand++) {
			kernel *vjp = (operand ? kernels->vjp_a : kernels->vjp_v)[row->op][0];
			const unsigned needs = operand ? row->needs_a : row->needs_v;

			if (!vjp)
				continue;
			fill_inputs(kernels, row, false);
			for (size_t i = 0; i < n; i++) {
				const double v = i < 20 ? 1 : uniform(fmax(domain_low(row->op), -2), fmin(domain_high(row->op), 2));
				put(kernels, in_v.bytes, i, v);
				put(kernels, in_a.bytes, i, i < 20 ? 1 : uniform(-4, 4));
			}
			run_row(kernels, row, 0, 0, 0, n, &whole);
			for (unsigned need = 1; need <= NEED_L; need *= 2) {
				const unsigned char *mask = need == NEED_K ? whole.mask[0] : whole.mask[1];
				const void *want = operand ? whole.da.bytes : whole.dv.bytes;
				const void *bad = spoilt.bytes;
				struct kernel_args args = {.out = result.bytes, .g = in_g.bytes, .n = n};

				if (!(needs & need))
					continue;
				for (size_t i = 0; i < n; i++)
					put(kernels, spoilt.bytes, i, NAN);
				for (size_t i = 0; i < (n + 3) / 4; i++)
					flipped[i] = (unsigned char)~mask[i];
				if (need >= NEED_K && is_mask(row))
					bad = flipped;
				set_numbers(row, 0, args.number);
				args.v = !(needs & NEED_V) ? NULL : need == NEED_V ? bad : in_v.bytes;
				args.a = !(needs & NEED_A) ? NULL : need == NEED_A ? bad : in_a.bytes;
				args.y = !(needs & NEED_Y) ? NULL : need == NEED_Y ? bad : whole.y.bytes;
				args.k = !(needs & NEED_K) ? NULL
				         : need == NEED_K  ? bad
				         : is_mask(row)    ? (const void *)whole.mask[0]
				                           : whole.kept.bytes;
				args.l = !(needs & NEED_L) ? NULL : need == NEED_L ? bad : whole.mask[1];
				vjp(&args);
				ck_assert_msg(memcmp(result.bytes, want, n * size) != 0,
				              "%s declares need %u of d%c and does not use it", row->name, need, operand ? 'a' : 'v');
			}
		}
	}
}
END_TEST

/* ---- runs ---- */

/* The oracle of a run: the kernels of its steps, one after another. */
static void run_plainly(const struct kernels *kernels, void *out, const void *v, const struct run_step *steps,
                        size_t count, size_t n)
{
	uint64_t left[64] = {0};

	ck_assert(count <= 64);
	memcpy(out, v, n * size_of(kernels));
	for (size_t i = 0; i < count; i++) {
		const struct run_step *step = &steps[i];
		if (step->op == OP_COUNT) {
			left[i] = left[i] ? left[i] : step->iterations;
			if (--left[i])
				i = (size_t)step->target - 1;
			continue;
		}
		const struct kernel_args args = {
			.out = out, .v = out, .scalar = step->scalar, .number = {step->number[0], step->number[1]}, .n = n};
		kernels->forward[step->op][1](&args);
	}
}

static struct run_step random_step(void)
{
	for (;;) {
		const struct row *row = &rows[random_bits() % ROWS];
		if (row->cheap)
			return (struct run_step){
				.op = (uint32_t)row->op, .scalar = uniform(-2, 2), .number = {uniform(-3, 0), uniform(0, 3)}};
	}
}

START_TEST(test_runs)
{
	static struct array got, want;
	const struct kernels *tables[4];
	for (int type = 0; type < 2; type++)
		for (size_t table = 0, count = tables_of(type, tables); table < count; table++) {
			const struct kernels *kernels = tables[table];
			fill_inputs(kernels, &rows[0], true);
			for (int s = 0; s < SIZES; s++)
				for (int round = 0; round < 20; round++) {
					struct run_step steps[20];
					const size_t n = sizes[s];
					/* ( a ( b c ) x3 d ( ( e ) x2 ) x4 ) x2, then more steps */
					for (int i = 0; i < 20; i++)
						steps[i] = random_step();
					if (round & 1) {
						steps[3] = (struct run_step){.op = OP_COUNT, .target = 1, .iterations = 3};
						steps[6] = (struct run_step){.op = OP_COUNT, .target = 5, .iterations = 2};
						steps[7] = (struct run_step){.op = OP_COUNT, .target = 5, .iterations = 4};
						steps[8] = (struct run_step){.op = OP_COUNT, .target = 0, .iterations = 2};
						steps[10] = (struct run_step){.op = OP_COUNT, .target = 9, .iterations = 1};
					}
					memset(got.bytes, 0x55, sizeof got.bytes);
					kernels->run(got.bytes, in_v.bytes, steps, 20, n);
					run_plainly(kernels, want.bytes, in_v.bytes, steps, 20, n);
					ck_assert_msg(same(kernels, got.bytes, want.bytes, n), "run of %zu, round %d, %s %s", n, round,
					              kernels->isa, dtype_label(kernels));
					ck_assert_int_eq(got.bytes[n * size_of(kernels)], 0x55);
				}
			/* in place; each cheap operation alone; no step; the deepest nest of loops */
			for (const struct row *row = rows; row < rows + ROWS; row++) {
				struct run_step step = {.op = (uint32_t)row->op, .scalar = 1.5, .number = {-1, 1}};
				if (!row->cheap)
					continue;
				memcpy(got.bytes, in_v.bytes, sizeof got.bytes);
				kernels->run(got.bytes, got.bytes, &step, 1, MOST);
				run_plainly(kernels, want.bytes, in_v.bytes, &step, 1, MOST);
				ck_assert_msg(same(kernels, got.bytes, want.bytes, MOST), "run of %s", row->name);
			}
			kernels->run(got.bytes, in_v.bytes, NULL, 0, MOST);
			ck_assert(same(kernels, got.bytes, in_v.bytes, MOST));
			struct run_step nest[1 + RUN_MAX_DEPTH] = {{.op = OP_add, .scalar = 1}};
			for (int i = 1; i <= RUN_MAX_DEPTH; i++)
				nest[i] = (struct run_step){.op = OP_COUNT, .target = 0, .iterations = 2};
			kernels->loops->fill(got.bytes, 0, MOST);
			kernels->run(got.bytes, got.bytes, nest, 1 + RUN_MAX_DEPTH, MOST);
			ck_assert(get(kernels, got.bytes, MOST - 1) == 256);
		}
}
END_TEST

/* ---- sums and conversions ---- */

/* A sum of doubles in the order that kernels.h states, in plain C. */
static double plain_wide_sum(const double *v, size_t n, double *rest)
{
	double lane[8], lost[8] = {0};
	const size_t lanes = n > 32 ? 8 : 1;

	for (size_t j = 0; j < lanes; j++)
		lane[j] = -0.0;
	for (size_t i = 0; i < n; i++)
		sum_add(&lane[i % lanes], &lost[i % lanes], v[i], 0);
	for (size_t width = lanes / 2; width; width /= 2)
		for (size_t j = 0; j < width; j++)
			sum_add(&lane[j], &lost[j], lane[j + width], lost[j + width]);
	*rest = lost[0];
	return lane[0];
}

/* The same of floats; there is no rest. */
static double plain_sum(const struct kernels *kernels, const void *v, size_t n)
{
	double lane[16];

	if (n > 128) {
		size_t half = 128;
		while (half * 2 < n)
			half *= 2;
		const double left = plain_sum(kernels, v, half);
		return left + plain_sum(kernels, (const char *)v + half * size_of(kernels), n - half);
	}
	const size_t lanes = n < 8 ? 1 : 16;
	for (int j = 0; j < 16; j++)
		lane[j] = -0.0;
	for (size_t i = 0; i < n; i++)
		lane[i % lanes] += get(kernels, v, i);
	for (int width = 8; width; width /= 2)
		for (int j = 0; j < width; j++)
			lane[j] += lane[j + width];
	return lane[0];
}

START_TEST(test_sums)
{
	enum { LONG = 100003 };
	double *v = malloc(LONG * sizeof *v);
	const struct kernels *tables[4];

	ck_assert_ptr_nonnull(v);
	for (int type = 0; type < 2; type++)
		for (size_t table = 0, count = tables_of(type, tables); table < count; table++) {
			const struct kernels *kernels = tables[table];
			real exact = 0;
			for (size_t i = 0; i < LONG; i++)
				put(kernels, v, i, uniform(-1, 2));
			for (size_t i = 0; i < LONG; i++)
				exact += get(kernels, v, i);
			for (size_t n = 1; n < LONG; n = n < 1500 ? n + 1 : n * 2 + 1) {
				double rest = 0, want_rest = 0, sum;
				const double want = type ? plain_wide_sum(v, n, &want_rest) : plain_sum(kernels, v, n);
				kernels->loops->sum.values(&sum, &rest, v, n, 1);
				ck_assert_msg(memcmp(&sum, &want, sizeof sum) == 0 && fabs(rest - want_rest) <= 1e-13 * fabs(rest),
				              "%s %s, sum of %zu: %a + %a, not %a + %a", kernels->isa, dtype_label(kernels), n, sum,
				              rest, want, want_rest);
			}
			double sum[2];
			kernels->loops->sum.values(&sum[0], NULL, v, LONG, 1);
			kernels->loops->sum.values(&sum[1], NULL, v, 0, 1);
			ck_assert(fabsl(sum[0] - exact) < (type ? 0x1p-36L : 1e-10L) && sum[1] == 0);

			unsigned char dst[77 * 8];
			for (size_t n = 0; n <= 77; n += 7) {
				for (size_t i = 0; i < n; i++)
					put(kernels, dst, i, (double)i);
				kernels->loops->accumulate(dst, v, n);
				for (size_t i = 0; i < n; i++)
					ck_assert(get(kernels, dst, i) ==
					          (type ? (double)i + get(kernels, v, i) : (double)((float)i + (float)get(kernels, v, i))));
			}
		}
	free(v);
}
END_TEST

/* Sums of columns: adding and subtracting 2^60 loses nothing, in any number of rows; of infinities and NaN nothing is lost. */
START_TEST(sums_of_columns)
{
	enum { WIDEST = 77, APART = 80, HIGHEST = 19 };
	static const double terms[] = {1, 0x1p60, 1, -0x1p60, 0.5};
	const struct kernels *tables[4];
	for (int type = 0; type < 2; type++)
		for (size_t table = 0, count = tables_of(type, tables); table < count; table++)
			for (size_t n = 0; n <= WIDEST; n += 7)
				for (size_t high = 0; high <= HIGHEST; high++) {
					const struct kernels *const kernels = tables[table];
					double v[HIGHEST * APART], hi[WIDEST], rest[WIDEST], want = 0;
					for (size_t i = 0; i < HIGHEST * APART; i++)
						put(kernels, v, i,
						    i % APART < n ? terms[i / APART % 5] * (double)(i % APART + 1) : (double)NAN);
					for (size_t r = 0; r < high; r++)
						want += r % 5 == 1 || r % 5 == 3 ? 0 : terms[r % 5];
					want += high % 5 == 2 || high % 5 == 3 ? 0x1p60 : 0;
					kernels->loops->sum.rows(hi, rest, v, APART, n, high);
					for (size_t i = 0; i < n; i++)
						ck_assert_msg(hi[i] + rest[i] == want * (double)(i + 1),
						              "%s %s, column %zu of %zu, %zu rows: %a + %a", kernels->isa, dtype_label(kernels),
						              i, n, high, hi[i], rest[i]);
					for (size_t i = 0; i < n && high > 1; i++)
						put(kernels, v, i, i % 2 ? INFINITY : (double)NAN);
					kernels->loops->sum.rows(hi, rest, v, APART, n, high);
					for (size_t i = 0; i < n && high > 1; i++)
						ck_assert((i % 2 ? hi[i] == INFINITY : isnan(hi[i])) && rest[i] == 0);
				}
}
END_TEST

/* Returns the value of a long sum, by the definition of a tail in kernels.h. */
static real long_sum(const struct kernels *kernels, const void *heads, const void *tails, size_t i)
{
	const bool wide = kernels->dtype == DTYPE_F64;
	const double head = get(kernels, heads, i);
	const real tail = wide ? ((const int32_t *)tails)[i] : ((const int16_t *)tails)[i];
	return isfinite(head) && head != 0 ? head + ldexpl(tail, ilogb(head) - (wide ? 52 + 31 : 23 + 15)) : (real)head;
}

/* A long sum has a bound on its error, and its head is the sum rounded; every set makes the same bits. */
START_TEST(long_sums)
{
	enum { N = 83, TERMS = 400 };
	const struct kernels *tables[4];
	for (int type = 0; type < 2; type++) {
		double first_heads[N] = {0}, first_tails[N] = {0};
		const enum dtype dtype = type ? DTYPE_F64 : DTYPE_F32;
		for (size_t t = 0, count = kernels_all(dtype, tables); t < count; t++) {
			const struct kernels *k = tables[t];
			double heads[N] = {0}, tails[N] = {0}, half_heads[N] = {0}, half_tails[N] = {0}, terms[N];
			real exact[N] = {0}, size[N] = {0};
			for (uint32_t j = 0; j < TERMS; j++) {
				for (size_t i = 0; i < N; i++) {
					put(k, terms, i,
					    ldexp((double)((j * 7919 + i * 104729) * 2654435761u) - 0x1p31, (int)(i % 40) - 60));
					exact[i] += get(k, terms, i);
					size[i] = fmaxl(size[i], fabsl(exact[i]));
				}
				/* the second half goes by a sum apart, which is then added */
				const bool apart = j >= TERMS / 2;
				k->loops->accumulate_long(apart ? half_heads : heads, apart ? half_tails : tails, terms, NULL, N);
			}
			k->loops->accumulate_long(heads, tails, half_heads, half_tails, N);
			for (size_t i = 0; i < N; i++) {
				const real sum = long_sum(k, heads, tails, i), most = size[i] * TERMS * (type ? 0x1p-63L : 0x1p-39L);
				ck_assert_msg(fabsl(sum - exact[i]) <= most, "%s %s: %zu", k->isa, dtype_label(k), i);
				ck_assert(get(k, heads, i) == (type ? (double)sum : (double)(float)sum));
			}
			if (t == 0) {
				memcpy(first_heads, heads, sizeof heads);
				memcpy(first_tails, tails, sizeof tails);
			}
			ck_assert_mem_eq(heads, first_heads, sizeof heads);
			ck_assert_mem_eq(tails, first_tails, sizeof tails);
		}
	}
}
END_TEST

/* Ends of the range: infinities and NaNs stay, with tails of 0; denormals and the largest numbers are exact. */
START_TEST(long_sums_at_ends)
{
	const struct kernels *tables[4];
	for (int type = 0; type < 2; type++)
		for (size_t t = 0, count = kernels_all(type ? DTYPE_F64 : DTYPE_F32, tables); t < count; t++) {
			const struct kernels *k = tables[t];
			const double most = type ? 0x1p1023 : 0x1p127, least = type ? 0x1p-1074 : 0x1p-149;
			const double terms[][3] = {{most, most, -most},    {INFINITY, 1, -INFINITY}, {NAN, INFINITY, 1},
			                           {least, least, -least}, {most, least, -most},     {1, least, -1},
			                           {-0.0, -0.0, 0}};
			const double sums[] = {INFINITY, NAN, NAN, least, 0, 0, 0};
			for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
				double heads[9] = {0}, tails[9] = {0}, zeros[9] = {0}, block[9];
				for (int j = 0; j < 3; j++) {
					k->loops->fill(block, terms[i][j], 9);
					k->loops->accumulate_long(heads, tails, block, NULL, 9);
				}
				const double sum = get(k, heads, 8);
				ck_assert_msg(isnan(sums[i]) ? isnan(sum) : sum == sums[i], "%s %s, row %zu: %g", k->isa,
				              dtype_label(k), i, sum);
				ck_assert_mem_eq(tails, zeros, sizeof tails);
			}
		}
}
END_TEST

/* X rounded to P significant bits with the least exponent LEAST, by integers in long double. */
static double round_slowly(double x, int bits, int least, double beyond)
{
	int exponent;
	real y;

	if (!isfinite(x) || x == 0)
		return x;
	frexp(x, &exponent);
	exponent = exponent - bits < least ? least : exponent - bits;
	y = ldexpl(rintl(ldexpl(x, -exponent)), exponent);
	return fabsl(y) >= beyond ? copysign(INFINITY, x) : copysign((double)y, x);
}

/* What attention does with the columns of a block, element by element, with NaN and infinities among them. */
static void check_columns(const struct loops *loops, const double *values, size_t n, size_t height)
{
	enum { ELEMENTS = 70 * 70 };
	const bool is_double = loops->dtype == DTYPE_F64;
	double v[ELEMENTS], p[70], sum[70] = {0}, largest[70], sums[70] = {0};
	float v32[ELEMENTS], p32[70], largest32[70];
	const size_t count = n * height;
	for (size_t i = 0; i < count; i++)
		v32[i] = (float)(v[i] = (double)(float)values[i % 97] + (double)(i % 5));
	for (size_t i = 0; i < n; i++) {
		p32[i] = (float)(p[i] = (double)(i % 7) - 2);
		largest32[i] = (float)(largest[i] = i % 3 ? -INFINITY : 2);
	}
	void *const block = is_double ? (void *)v : v32, *const row = is_double ? (void *)p : p32;
	loops->largest_in_columns(is_double ? (void *)largest : largest32, block, n, height);
	loops->add_columns(sum, block, n, height);
	for (size_t i = 0; i < n; i++) {
		double best = i % 3 ? -INFINITY : 2, magnitude = 0;
		for (size_t r = 0; r < height; r++) {
			const double x = is_double ? v[r * n + i] : (double)v32[r * n + i];
			best = isnan(best) || isnan(x) ? NAN : fmax(best, x);
			sums[i] += x;
			magnitude += isfinite(x) ? fabs(x) : 0;
		}
		const double have = is_double ? largest[i] : (double)largest32[i];
		ck_assert(isnan(best) ? isnan(have) : have == best);
		const double error = (is_double ? 0x1p-50 : 0x1p-21) * magnitude;
		ck_assert(isfinite(sums[i]) ? fabs(sum[i] - sums[i]) <= error : isnan(sum[i]) == isnan(sums[i]));
	}
	double expected[ELEMENTS];
	for (size_t i = 0; i < count; i++)
		expected[i] = is_double ? v[i] - p[i % n] : (double)(v32[i] - p32[i % n]);
	loops->subtract_row(block, row, n, height);
	for (size_t i = 0; i < count; i++) {
		const double have = is_double ? v[i] : (double)v32[i];
		ck_assert(isnan(expected[i]) ? isnan(have) : have == expected[i]);
	}
}

START_TEST(columns_of_blocks)
{
	const struct kernels *tables[4];
	double plain[97], special[97];
	for (int i = 0; i < 97; i++) {
		plain[i] = sin(i * 1.7) * 3;
		special[i] = i % 31 == 7 ? NAN : i % 23 == 5 ? -INFINITY : plain[i];
	}
	for (size_t t = 0, count = kernels_all(_i ? DTYPE_F64 : DTYPE_F32, tables); t < count; t++)
		for (size_t n = 1; n <= 70; n += n < 4 ? 1 : 11)
			for (size_t height = 1; height <= 70; height += height < 10 ? 1 : 30) {
				check_columns(tables[t]->loops, plain, n, height);
				check_columns(tables[t]->loops, special, n, height);
			}
}
END_TEST

START_TEST(test_conversions)
{
	const struct kernels *tables[4];
	static struct array x, y;
	for (int type = 0; type < 2; type++)
		for (size_t table = 0, count = tables_of(type, tables); table < count; table++) {
			const struct kernels *kernels = tables[table];
			for (int round = 0; round < 200; round++) {
				for (size_t i = 0; i < MOST; i++) {
					const double scale = ldexp(1, (int)(random_bits() % 48) - 28);
					put(kernels, x.bytes, i,
					    round == 0   ? special(i)
					    : i % 3 == 0 ? any_number(kernels)
					    : i % 3 == 1 ? uniform(-scale, scale)
					                 : round_slowly(uniform(-scale, scale), 12, -25, 1e30));
				}
				kernels->round[DTYPE_F16](&(struct kernel_args){.out = y.bytes, .v = x.bytes, .n = MOST});
				for (size_t i = 0; i < MOST; i++) {
					const double want = round_slowly(get(kernels, x.bytes, i), 11, -24, 65536);
					const double got = get(kernels, y.bytes, i);
					ck_assert_msg(isnan(want) ? isnan(got) : want == got && !signbit(want) == !signbit(got),
					              "%s %s: f16 of %a is %a, not %a", kernels->isa, dtype_label(kernels),
					              get(kernels, x.bytes, i), got, want);
				}
				kernels->round[DTYPE_BF16](&(struct kernel_args){.out = y.bytes, .v = x.bytes, .n = MOST});
				for (size_t i = 0; i < MOST; i++) {
					const double want = round_slowly(get(kernels, x.bytes, i), 8, -133, 0x1p128);
					const double got = get(kernels, y.bytes, i);
					ck_assert_msg(isnan(want) ? isnan(got) : want == got && !signbit(want) == !signbit(got),
					              "%s %s: bf16 of %a is %a, not %a", kernels->isa, dtype_label(kernels),
					              get(kernels, x.bytes, i), got, want);
				}
			}
			float single[33];
			double wide[33];
			kernels->loops->to_f32(single, x.bytes, 33);
			kernels->loops->to_f64(wide, x.bytes, 33);
			for (size_t i = 0; i < 33; i++) {
				const double got = get(kernels, x.bytes, i);
				ck_assert(isnan(got) || (single[i] == (float)got && wide[i] == got));
			}
		}
}
END_TEST

START_TEST(test_choice)
{
	const struct kernels *tables[4];
	const size_t count = kernels_all(DTYPE_F64, tables);

	ck_assert_uint_ge(count, 1);
	unsetenv("CKPTC_ISA");
	ck_assert_ptr_eq(kernels_get(DTYPE_F64), tables[0]);
	for (size_t i = 0; i < count; i++) {
		setenv("CKPTC_ISA", tables[i]->isa, 1);
		ck_assert_str_eq(kernels_get(DTYPE_F32)->isa, tables[i]->isa);
		ck_assert_int_eq(kernels_get(DTYPE_F32)->dtype, DTYPE_F32);
	}
	setenv("CKPTC_ISA", "none such", 1);
	ck_assert_ptr_eq(kernels_get(DTYPE_F64), tables[0]);
	unsetenv("CKPTC_ISA");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("kernels");
	TCase *tcase = suite_make_case(suite, "all");
	tcase_set_timeout(tcase, 240);
	tcase_add_test(tcase, test_table_is_complete);
	tcase_add_test(tcase, test_tail_equals_body);
	tcase_add_test(tcase, test_neighbours_do_not_matter);
	tcase_add_test(tcase, test_in_place_and_unaligned);
	tcase_add_test(tcase, test_special_values);
	tcase_add_test(tcase, test_errors_in_ulp);
	tcase_add_test(tcase, test_float_lanes);
	tcase_add_test(tcase, test_gelu_slopes);
	tcase_add_test(tcase, test_arithmetic_f32);
	tcase_add_test(tcase, test_arithmetic_f64);
	tcase_add_test(tcase, test_powers_at_the_ends);
	tcase_add_test(tcase, test_signs_of_zeros);
	tcase_add_test(tcase, test_derivatives);
	tcase_add_test(tcase, test_derivatives_at_kinks);
	tcase_add_test(tcase, test_where);
	tcase_add_test(tcase, test_kept_values_in_ulp);
	tcase_add_test(tcase, test_slopes_at_infinity);
	tcase_add_test(tcase, test_slopes_far_out);
	tcase_add_test(tcase, test_needs_are_used);
	tcase_add_test(tcase, test_runs);
	tcase_add_test(tcase, test_sums);
	tcase_add_test(tcase, sums_of_columns);
	tcase_add_test(tcase, long_sums);
	tcase_add_test(tcase, long_sums_at_ends);
	tcase_add_loop_test(tcase, columns_of_blocks, 0, 2);
	tcase_add_test(tcase, test_conversions);
	tcase_add_test(tcase, test_choice);
	return suite_run(suite);
}
