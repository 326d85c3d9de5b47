/*
 * The vector maths of one instruction set: NAME_f of a vector of floats and NAME_d of
 * a vector of doubles, which the rows of ops.def call M(NAME, ...). This file has what
 * both types share. vmath_f32_template.h and vmath_f64_template.h have the functions that most chains call,
 * vmath_logs_template.h and vmath_special_template.h the others. vmath_slopes_template.h has derivatives that need
 * more than their product with g.
 *
 * Invariant: a lane's result depends on that lane alone. If some lanes need a slow
 * path, the whole vector takes it, and its results replace those lanes only.
 *
 * bench/ulp/coefficients.py makes the polynomials (Remez, weighted by the relative error
 * of the function), and bench/ulp/ulp.c measures the errors. Arguments are reduced after Cody and
 * Waite 1980, by parts of a constant. The product of each part but the last with the quotient is exact.
 */

/* c[0] + c[1] x + ... by Horner's rule */
#define HORNER(NAME, VECTOR, REAL, TYPE)                                                                               \
	LANEWISE VECTOR NAME(VECTOR x, const REAL *c, int count)                                                           \
	{                                                                                                                  \
		VECTOR sum = splat_##TYPE(c[count - 1]);                                                                       \
		_Pragma("GCC unroll 24")                                                                                       \
		for (int i = count - 2; i >= 0; i--)                                                                           \
			sum = fma_##TYPE(sum, x, splat_##TYPE(c[i]));                                                              \
		return sum;                                                                                                    \
	}
HORNER(polynomial, vd, double, d)
/* The same but for rounding, with half the wait: even and odd powers are two chains of operations, in x^2. */
#define HORNER_HALVES(NAME, VECTOR, REAL, TYPE)                                                                        \
	LANEWISE VECTOR NAME(VECTOR x, const REAL *c, int count)                                                           \
	{                                                                                                                  \
		const VECTOR z = x * x;                                                                                        \
		VECTOR half[2] = {splat_##TYPE(c[(count - 1) / 2 * 2]), splat_##TYPE(c[count / 2 * 2 - 1])};                   \
		_Pragma("GCC unroll 24")                                                                                       \
		for (int i = count - 3; i >= 0; i--)                                                                           \
			half[i % 2] = fma_##TYPE(half[i % 2], z, splat_##TYPE(c[i]));                                              \
		return fma_##TYPE(half[1], x, half[0]);                                                                        \
	}
HORNER_HALVES(polynomial_halves, vd, double, d)
#if ISA_FMA
HORNER(polynomial_f, vf, float, f)
HORNER_HALVES(polynomial_halves_f, vf, float, f)
#endif
#define COEFFICIENTS(REAL, ...)                                                                                        \
	(const REAL[]){__VA_ARGS__}, (int)(sizeof((const REAL[]){__VA_ARGS__}) / sizeof(REAL))
#define POLYNOMIAL(X, ...) polynomial(X, COEFFICIENTS(double, __VA_ARGS__))
#define POLYNOMIAL_HALVES(X, ...) polynomial_halves(X, COEFFICIENTS(double, __VA_ARGS__))
#define POLYNOMIAL_F(X, ...) polynomial_f(X, COEFFICIENTS(float, __VA_ARGS__))
#define POLYNOMIAL_HALVES_F(X, ...) polynomial_halves_f(X, COEFFICIENTS(float, __VA_ARGS__))

/* ---- exact sums and products of doubles (Dekker 1971, Knuth) ---- */

/* a + b and its rounding error */
LANEWISE vd two_sum(vd a, vd b, vd *error)
{
	const vd sum = a + b;
	const vd part = sum - a;

	*error = (a - (sum - part)) + (b - part);
	return sum;
}

/* a * b and its rounding error, which must not underflow. Without FMA, |a| and |b| are below 2^970. */
LANEWISE vd two_product(vd a, vd b, vd *error)
{
	const vd product = a * b;
#if ISA_FMA
	*error = fma_d(a, b, -product);
#else
	const vd split = splat_d(0x1p27 + 1);
	const vd wide_a = a * split, wide_b = b * split;
	const vd high_a = wide_a - (wide_a - a), high_b = wide_b - (wide_b - b);
	const vd low_a = a - high_a, low_b = b - high_b;
	*error = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b;
#endif
	return product;
}

/* x clamped to [low, high]; NaN stays */
LANEWISE vf clamp_f(vf x, float low, float high) { return lesser_f(splat_f(high), greater_f(splat_f(low), x)); }
LANEWISE vd clamp_d(vd x, double low, double high) { return lesser_d(splat_d(high), greater_d(splat_d(low), x)); }

static const double rounding = 0x1.8p52; /* adding and subtracting it rounds to the nearest integer */

/* ---- roundings and choices ---- */

/*
 * Rounds to a shorter type: adding and subtracting 1.5 * 2^(exponent + dropped bits) drops these bits. EXPONENT masks
 * the exponent's bits, and SHIFT is the number of dropped bits at their place. LEAST is the least normal number of the
 * shorter type, and BEYOND the least power of two above its largest number.
 */
#define ROUND_SHORT(NAME, TYPE, VECTOR, MASK, EXPONENT, SHIFT, LEAST, BEYOND)                                          \
	LANEWISE VECTOR NAME(VECTOR x)                                                                                     \
	{                                                                                                                  \
		const VECTOR a = abs_##TYPE(x);                                                                                \
		MASK exponent = (MASK)a & EXPONENT;                                                                            \
		const MASK least = (MASK)splat_##TYPE(LEAST), most = (MASK)splat_##TYPE(2 * (BEYOND));                         \
		exponent = (MASK)select_##TYPE(exponent < least, (VECTOR)least, (VECTOR)exponent);                             \
		exponent = (MASK)select_##TYPE(exponent > most, (VECTOR)most, (VECTOR)exponent);                               \
		const VECTOR magic = (VECTOR)(exponent + (SHIFT)) * splat_##TYPE(1.5F);                                        \
		const VECTOR y = (a + magic) - magic;                                                                          \
		return copysign_##TYPE(select_##TYPE(y >= splat_##TYPE(BEYOND), splat_##TYPE(INFINITY), y), x);                \
	}
ROUND_SHORT(round_f16_f, f, vf, vi, 0x7f800000, 13 << 23, 0x1p-14F, 0x1p16F)
ROUND_SHORT(round_f16_d, d, vd, vl, 0x7ff0000000000000, 42LL << 52, 0x1p-14, 0x1p16)
ROUND_SHORT(round_bf16_d, d, vd, vl, 0x7ff0000000000000, 45LL << 52, 0x1p-126, 0x1p128)

LANEWISE vf round_bf16_f(vf x)
{
	const vui bits = (vui)x;
	const vf y = (vf)((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000);
	return select_f(x == x, y, x);
}

/* ---- remainders: NumPy's, which have the sign of the divisor ---- */

/* x - a b, which is a number of the type; and whether that is computed exactly, where A is the integer of x / b or one more */
#if ISA_FMA
LANEWISE vd less_product_d(vd x, vd a, vd b) { return nfma_d(a, b, x); }
LANEWISE vf less_product_f(vf x, vf a, vf b) { return nfma_f(a, b, x); }
LANEWISE vl is_exact_d(vd x MAYBE_UNUSED, vd a, vd b) { return (a < splat_d(0x1p52)) & (b < splat_d(INFINITY)); }
#else
LANEWISE vd less_product_d(vd x, vd a, vd b)
{
	vd low;
	const vd high = two_product(a, b, &low);
	return (x - high) - low;
}
/* The product has at most 2 * 24 bits. */
LANEWISE vf less_product_f(vf x, vf a, vf b)
{
	return narrow(widen_low(x) - widen_low(a) * widen_low(b), widen_high(x) - widen_high(a) * widen_high(b));
}
/* two_product needs numbers that are neither too small nor too large. */
LANEWISE vl is_exact_d(vd x, vd a, vd b)
{
	const vd most = splat_d(0x1p900);
	return (a < splat_d(0x1p52)) & (x < most) & (b < most) & (b > splat_d(0x1p-900));
}
#endif
LANEWISE vi is_exact_f(vf x MAYBE_UNUSED, vf a, vf b) { return (a < splat_f(0x1p23F)) & (b < splat_f(INFINITY)); }

/*
 * Defines remainder_TYPE(x, d), the exact remainder of x / d for x, d >= 0. The integer of the rounded quotient is at most one
 * too large. Lanes that this does not make exact go a second way.
 */
#define REMAINDER(TYPE, VECTOR, MASK)                                                                                  \
	COLD void remainder_far_##TYPE(MASK lanes, const VECTOR from[2], VECTOR *y)                                        \
	{                                                                                                                  \
		for (size_t i = 0; i < sizeof *y / sizeof(*y)[0]; i++)                                                         \
			if (lanes[i])                                                                                              \
				(*y)[i] = (__typeof__((*y)[i] + 0))fmod((double)from[0][i], (double)from[1][i]);                       \
	}                                                                                                                  \
	LANEWISE VECTOR remainder_##TYPE(VECTOR x, VECTOR d)                                                               \
	{                                                                                                                  \
		const VECTOR quotient = floor_##TYPE(x / d), rest = less_product_##TYPE(x, quotient, d);                       \
		const MASK far = ~is_exact_##TYPE(x, quotient, d);                                                             \
		VECTOR y = select_##TYPE(rest < splat_##TYPE(0), rest + d, rest);                                              \
		if (__builtin_expect(bits_##TYPE(far) != 0, 0)) {                                                              \
			VECTOR result = y;                                                                                         \
			remainder_far_##TYPE(far, (const VECTOR[]){x, d}, &result);                                                \
			y = result;                                                                                                \
		}                                                                                                              \
		return y;                                                                                                      \
	}
REMAINDER(d, vd, vl)
REMAINDER(f, vf, vi)

/* v - floor(v / a) a, rounded where v and a have different signs; a remainder of 0 has the sign of a */
#define MOD(TYPE, VECTOR)                                                                                              \
	LANEWISE VECTOR mod_##TYPE(VECTOR v, VECTOR a)                                                                     \
	{                                                                                                                  \
		const VECTOR zero = splat_##TYPE(0), rest = copysign_##TYPE(remainder_##TYPE(abs_##TYPE(v), abs_##TYPE(a)), v); \
		const VECTOR y = select_##TYPE((rest < zero) ^ (a < zero), rest + a, rest);                                    \
		return select_##TYPE(rest == zero, copysign_##TYPE(zero, a), y);                                               \
	}
MOD(d, vd)
MOD(f, vf)

/* Returns Y. If a lane of MASK is set, REPAIR first replaces lanes of its choice, in a copy: Y stays in a register. */
LANEWISE vd repaired_d(vl mask, vd x, vd y, void repair(const vd *x, vd *y))
{
	if (__builtin_expect(bits_d(mask) == 0, 1))
		return y;
	vd from = x, result = y;
	repair(&from, &result);
	return result;
}

#include "ops/vmath_f32_template.h"
#include "ops/vmath_f64_template.h"
#include "ops/vmath_slopes_template.h"
#include "ops/vmath_logs_template.h"
#include "ops/vmath_special_template.h"
#undef NEAR_ZERO
#undef BELOW
#undef BESIDE
#undef BETWEEN
