/*
 * The vector maths of one instruction set: functions NAME_f of a vector of
 * floats and NAME_d of a vector of doubles, which the rows of ops.def call M_NAME.
 *
 * Floats are computed in double lanes by short polynomials and rounded once:
 * the largest error is about 0.501 ulp, and the same polynomials serve every
 * instruction set. Doubles are our own where SLEEF's are beyond 1 ulp, lose special
 * cases or are slower, else SLEEF's u10 functions; where a composite would amplify
 * the rounding of an argument, it is carried along as a second double.
 *
 * Invariant: a lane's result depends on that lane alone. Where some lanes need
 * a slow path, the branch is taken for the vector and its results are put into
 * those lanes only.
 *
 * Polynomials: bench/ulp/coefficients.py (Remez, weighted by the relative error
 * of the function). Reductions: Cody and Waite 1980, in parts whose products
 * with the quotient are exact.
 */
#if defined(ISA_SLEEF) || __has_include(<sleef.h>)
#include <sleef.h>
#define HAVE_SLEEF 1
#else
#define HAVE_SLEEF 0
#endif

/* c[0] + c[1] x + ... by Horner's rule */
LANEWISE vd polynomial(vd x, const double *c, int count)
{
	vd sum = splat_d(c[count - 1]);
#pragma GCC unroll 16
	for (int i = count - 2; i >= 0; i--)
		sum = fma_d(sum, x, splat_d(c[i]));
	return sum;
}
#define POLYNOMIAL(X, ...)                                                                                             \
	polynomial(X, (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* ---- exact sums and products of doubles (Dekker 1971, Knuth) ---- */

LANEWISE vd two_sum(vd a, vd b, vd *error)
{
	const vd sum = a + b;
	const vd part = sum - a;

	*error = (a - (sum - part)) + (b - part);
	return sum;
}

/* |a|, |b| below 2^970, and without FMA their product's error must not underflow */
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

/* ---- pieces in double lanes, for floats: relative error about 2^-34 ---- */

/* (v or bound) so that NaN stays: bound where v is beyond it */
LANEWISE vf clamp_f(vf x, float low, float high) { return lesser_f(splat_f(high), greater_f(splat_f(low), x)); }
LANEWISE vd clamp_d(vd x, double low, double high) { return lesser_d(splat_d(high), greater_d(splat_d(low), x)); }

static const double rounding = 0x1.8p52; /* added and subtracted: to the nearest integer */

struct reduced {
	vd r;        /* x - k ln 2, |r| <= ln2 / 2 */
	vd k;
	vd even;     /* cosh(r) - 1 */
	vd odd;      /* sinh(r) */
};

/* |x| <= 700 */
LANEWISE struct reduced exp_reduce(vd x)
{
	struct reduced e;

	e.k = fma_d(x, splat_d(0x1.71547652b82fep+0), splat_d(rounding)) - splat_d(rounding);
	e.r = nfma_d(e.k, splat_d(0x1.62e42fefa39efp-1), x);
	const vd z = e.r * e.r;
	e.even = z * POLYNOMIAL(z, 0x1.00000043f0f66p-1, 0x1.55547ee1cb9acp-5, 0x1.6d977efab9597p-10);
	e.odd = e.r * POLYNOMIAL(z, 0x1.fffffffff61e4p-1, 0x1.5555557e75032p-3, 0x1.1110a61c99c56p-7, 0x1.a17dfaf8bf68dp-13);
	return e;
}

LANEWISE vd exp_lane(vd x)
{
	const struct reduced e = exp_reduce(x);
	return scale_d(splat_d(1) + (e.even + e.odd), e.k);
}

LANEWISE vd expm1_lane(vd x)
{
	const struct reduced e = exp_reduce(x);
	const vd scale = scale_d(splat_d(1), e.k);
	return fma_d(scale, e.even + e.odd, scale - splat_d(1));
}

/* sinh and cosh as k = 0 leaves exactly r's: no cancellation */
LANEWISE vd sinh_lane(vd x)
{
	const struct reduced e = exp_reduce(x);
	const vd up = scale_d(splat_d(0.5), e.k), down = scale_d(splat_d(0.5), -e.k);
	return fma_d(up - down, splat_d(1) + e.even, (up + down) * e.odd);
}

LANEWISE vd cosh_lane(vd x)
{
	const struct reduced e = exp_reduce(x);
	const vd up = scale_d(splat_d(0.5), e.k), down = scale_d(splat_d(0.5), -e.k);
	return fma_d(up + down, splat_d(1) + e.even, (up - down) * e.odd);
}

LANEWISE vd tanh_lane(vd x)
{
	const vd e = expm1_lane(x + x);
	return e / (e + splat_d(2));
}

/* x = 2^k m, m in [sqrt(1/2), sqrt(2)); x positive, normal */
LANEWISE vd log_split(vd x, vd *k)
{
	const vl root = (vl)splat_d(0x1.6a09e667f3bcdp-1);
	const vul offset = (vul)((vl)x - root) + ((vul){0} + (1024ULL << 52));

	*k = (vd)((vl)(offset >> 52) | (vl)splat_d(0x1p52)) - splat_d(0x1p52 + 1024);
	return (vd)((vl)x - (vl)(((offset >> 52) - 1024) << 52));
}

/* log(1 + f) + k ln 2 = 2 artanh(f / (2 + f)) + k ln 2 */
LANEWISE vd log_join(vd f, vd k)
{
	const vd s = f / (splat_d(2) + f);
	const vd z = s * s;
	const vd p = POLYNOMIAL(z, 2.0, 0x1.555554fd8bef7p-1, 0x1.999a7aab3ce11p-2, 0x1.2438cef028a55p-2, 0x1.e2f7c3009ce9fp-3);
	return fma_d(k, splat_d(0x1.62e42fefa39efp-1), s * p);
}

LANEWISE vd log_lane(vd x)
{
	vd k;
	const vd m = log_split(x, &k);
	return log_join(m - splat_d(1), k);
}

/* x > -1 */
LANEWISE vd log1p_lane(vd x)
{
	vd k;
	const vd m = log_split(splat_d(1) + x, &k);
	return log_join(select_d(k == splat_d(0), x, m - splat_d(1)), k);
}

/* relative error about 2^-50, for pow */
LANEWISE vd log_fine_lane(vd x)
{
	vd k;
	const vd m = log_split(x, &k);
	const vd f = m - splat_d(1);
	const vd s = f / (splat_d(2) + f);
	const vd z = s * s;
	const vd p = POLYNOMIAL(z, 0x1.5555555553958p-1, 0x1.999999a296ef7p-2, 0x1.24924175506cap-2, 0x1.c7227982636f4p-3,
	                        0x1.732bf4c5d00a7p-3, 0x1.5879e89f6e99ep-3);
	return fma_d(k, splat_d(0x1.62e42fefa39efp-1), s * fma_d(z, p, splat_d(2)));
}

/* x > 0: the sign and the special cases are pow_f's */
LANEWISE vd pow_lane(vd x, vd y) { return exp_lane(clamp_d(y * log_fine_lane(x), -120, 100)); }

/* x - quotient * pi * scale; floats up to trig_bound */
#if ISA_FMA
static const float trig_bound = 0x1p32F;
#else
static const float trig_bound = 0x1p20F;
#endif
LANEWISE vd less_pi(vd x, vd quotient, double scale)
{
#if ISA_FMA
	const vd r = nfma_d(quotient, splat_d(scale * 0x1.921fb54442d18p+1), x);
	return nfma_d(quotient, splat_d(scale * 0x1.1a62633145c07p-53), r);
#else
	const vd r = (x - quotient * splat_d(scale * 0x1.921fb544p+1)) - quotient * splat_d(scale * 0x1.0b4611a6p-33);
	return r - quotient * splat_d(scale * 0x1.3198a2e037073p-68);
#endif
}

/* sine of r, |r| <= pi / 2, negated where the lowest bit of n is set */
LANEWISE vd sin_signed(vd r, vl n)
{
	const vd z = r * r;
	const vd s = r * POLYNOMIAL(z, 1.0, -0x1.5555554769725p-3, 0x1.11110c49fd1b3p-7, -0x1.a017d99c8e75fp-13,
	                            0x1.71707f6c0962bp-19, -0x1.9a68735cfcb4bp-26);
	return (vd)((vl)s ^ (n << 63));
}

LANEWISE vd sin_lane(vd x)
{
	const vd n = fma_d(x, splat_d(0x1.45f306dc9c883p-2), splat_d(rounding));
	return sin_signed(less_pi(x, n - splat_d(rounding), 1), (vl)n);
}

/* cos x = (-1)^n sin(x - (n - 1/2) pi): its own reduction, exact where the cosine is small */
LANEWISE vd cos_lane(vd x)
{
	const vd n = fma_d(x, splat_d(0x1.45f306dc9c883p-2), splat_d(0.5)) + splat_d(rounding);
	return sin_signed(less_pi(x, (n - splat_d(rounding)) - splat_d(0.5), 1), (vl)n);
}

LANEWISE vd tan_lane(vd x)
{
	const vd n = fma_d(x, splat_d(0x1.45f306dc9c883p-1), splat_d(rounding));
	const vd r = less_pi(x, n - splat_d(rounding), 0.5);
	const vd z = r * r;
	const vd s = r * POLYNOMIAL(z, 1.0, -0x1.5555554cbad03p-3, 0x1.11110896f325ap-7, -0x1.a00f9e2d99ba4p-13,
	                            0x1.6cd87874b9a9dp-19);
	const vd c = POLYNOMIAL(z, 1.0, -0x1.ffffffcb8206dp-2, 0x1.55553c7840514p-5, -0x1.6c07f144dae7ap-10,
	                        0x1.9916970f191ecp-16);
	const vl odd = ((vl)n & 1) != 0;
	return select_d(odd, -c, s) / select_d(odd, s, c);
}

LANEWISE vd atan_lane(vd x)
{
	const vd a = abs_d(x);
	const vl far = a > splat_d(1);
	const vd t = select_d(far, splat_d(1) / a, a);
	const vd r = t * POLYNOMIAL(t * t, 1.0, -0x1.5555552f29665p-2, 0x1.9999846cce777p-3, -0x1.249039288a8a9p-3,
	                            0x1.c6e85b1cd0afdp-4, -0x1.72d6310cace1ap-4, 0x1.33a16d41fdf4cp-4, -0x1.f02f96476c63cp-5,
	                            0x1.69ea44ea808d4p-5, -0x1.b2f558551867cp-6, 0x1.81f636583d22ap-7, -0x1.b40203b00d4d0p-9,
	                            0x1.ce191ad106f9dp-12);
	return copysign_d(select_d(far, splat_d(0x1.921fb54442d18p+0) - r, r), x);
}

/* asin of |x| <= 1/2; beyond, asin of sqrt((1 - |x|) / 2) and *FAR set */
LANEWISE vd asin_half(vd x, vl *far)
{
	const vd a = abs_d(x);
	*far = a > splat_d(0.5);
	const vd z = select_d(*far, (splat_d(1) - a) * splat_d(0.5), a * a);
	const vd s = select_d(*far, sqrt_d(z), a);
	return s * POLYNOMIAL(z, 1.0, 0x1.555555565ba38p-3, 0x1.333331f13f245p-4, 0x1.6db7632596064p-5,
	                      0x1.f1ab2ec3bc688p-6, 0x1.7028f18282801p-6, 0x1.0e09d337c4939p-6, 0x1.30fa8950f1074p-6,
	                      -0x1.7241867f60f79p-9, 0x1.059292f4d1295p-5);
}

LANEWISE vd asin_lane(vd x)
{
	vl far;
	const vd r = asin_half(x, &far);
	return copysign_d(select_d(far, splat_d(0x1.921fb54442d18p+0) - (r + r), r), x);
}

LANEWISE vd acos_lane(vd x)
{
	vl far;
	const vd r = asin_half(x, &far);
	const vd beyond = select_d(x < splat_d(0), splat_d(0x1.921fb54442d18p+1) - (r + r), r + r);
	return select_d(far, beyond, splat_d(0x1.921fb54442d18p+0) - copysign_d(r, x));
}

/* erfc(a) for a >= 0, and exp(-a^2) beside it: exp(-a^2) p((a - 2) / (a + 2)) / (1 + 2 a), after Shepherd and Laframboise 1981 */
LANEWISE vd erfc_lane(vd a, vd *gauss)
{
	const vd b = lesser_d(splat_d(11), a);
	const vd up = b + splat_d(2), slope = splat_d(1) + (b + b);
	const vd inverse = splat_d(1) / (up * slope);
	const vd t = (b - splat_d(2)) * slope * inverse;
	const vd p = POLYNOMIAL(t, 0x1.46e80e227b21fp+0, -0x1.7bf5ec12808a8p-4, -0x1.5407bed31cec3p-3, 0x1.4ffa1d89dcc71p-3,
	                        -0x1.bc2b8cb7b1c1dp-5, -0x1.074190e4d774bp-7, 0x1.1dd199c81b424p-7, 0x1.4d1a3468ed4efp-10,
	                        -0x1.7dba176cdbbb8p-10, -0x1.d94b3424e042bp-12, 0x1.af23a1f603c58p-13, 0x1.2d667511746dbp-13,
	                        -0x1.ba604669d723fp-19, -0x1.cb92eb5011635p-16, -0x1.f460eb8597299p-18);
	*gauss = exp_lane(clamp_d(-(a * a), -300, 0));
	return *gauss * (p * (up * inverse));
}

LANEWISE vd erf_lane(vd x)
{
	vd gauss;
	const vd a = abs_d(x);
	const vd z = x * x;
	const vd near = x * POLYNOMIAL(z, 0x1.20dd75040080ap+0, -0x1.8127465fb9b98p-2, 0x1.ce2f0798bec50p-4,
	                               -0x1.b829a7a7b1373p-6, 0x1.5628ee0585dbbp-8, -0x1.bcbe9b9115df5p-11,
	                               0x1.d826984312309p-14, -0x1.43841457d2fa6p-17);
	return select_d(a < splat_d(1), near, copysign_d(splat_d(1) - erfc_lane(a, &gauss), x));
}

/* the normal distribution's function, and exp(-x^2 / 2) */
LANEWISE vd normal_lane(vd x, vd *gauss)
{
	const vd half = splat_d(0.5) * erfc_lane(abs_d(x) * splat_d(0x1.6a09e667f3bcdp-1), gauss);
	return select_d(x > splat_d(0), splat_d(1) - half, half);
}

LANEWISE vd gelu_lane(vd x)
{
	vd gauss;
	return x * normal_lane(x, &gauss);
}

LANEWISE vd gelu_slope_lane(vd x)
{
	vd gauss;
	const vd phi = normal_lane(x, &gauss);
	return fma_d(x, gauss * splat_d(0x1.9884533d43651p-2), phi);
}

/* exp(-2w), w = sqrt(2 / pi) (x + 0.044715 x^3): gelu's tanh form is x / (1 + exp(-2w)) */
LANEWISE vd gelu_tanh_exp_lane(vd x)
{
	const vd w = x * splat_d(-0x1.9884533d43651p+0) * fma_d(x * x, splat_d(0.044715), splat_d(1));
	return exp_lane(clamp_d(w, -300, 300));
}

LANEWISE vd gelu_tanh_lane(vd x) { return x / (splat_d(1) + gelu_tanh_exp_lane(x)); }

LANEWISE vd gelu_tanh_slope_lane(vd x)
{
	const vd e = gelu_tanh_exp_lane(x);
	const vd s = splat_d(1) / (splat_d(1) + e);
	const vd dw = splat_d(0x1.9884533d43651p+0) * fma_d(x * x, splat_d(3 * 0.044715), splat_d(1));
	return fma_d(x * s, (e * s) * dw, s);
}

LANEWISE vd sigmoid_lane(vd x) { return splat_d(1) / (splat_d(1) + exp_lane(-x)); }
LANEWISE vd silu_lane(vd x) { return x / (splat_d(1) + exp_lane(clamp_d(-x, -300, 300))); }

LANEWISE vd silu_slope_lane(vd x)
{
	const vd e = exp_lane(clamp_d(-x, -300, 300));
	const vd s = splat_d(1) / (splat_d(1) + e);
	return fma_d(x * s, e * s, s);
}

/* max(x, 0) + log1p(u), u = exp(-|x|) in (0, 1] */
LANEWISE vd softplus_lane(vd x)
{
	const vd u = exp_lane(greater_d(splat_d(-200), -abs_d(x)));
	const vd p = POLYNOMIAL(u, 0x1.ffffffffd699bp-1, -0x1.ffffff8f9a40ap-2, 0x1.55553be673eb9p-2, -0x1.fffb70cb0457ep-3,
	                        0x1.9962a640cead0p-3, -0x1.53c5480d32776p-3, 0x1.1d1c977631581p-3, -0x1.cebcf71d9fb22p-4,
	                        0x1.5223ef4967c71p-4, -0x1.95db0e4a8847fp-5, 0x1.67026c0908defp-6, -0x1.93f1fc6bacfadp-8,
	                        0x1.aa4c1224a5b87p-11);
	return fma_d(u, p, greater_d(splat_d(0), x));
}

LANEWISE vd rsqrt_lane(vd x) { return splat_d(1) / sqrt_d(x); }
LANEWISE vd gauss_lane(vd x) { return exp_lane(clamp_d(-(x * x), -300, 0)); }

/* ---- floats ---- */

#define FROM_LANES(NAME, X) narrow(NAME##_lane(widen_low(X)), NAME##_lane(widen_high(X)))

LANEWISE vf exp_f(vf x) { return FROM_LANES(exp, clamp_f(x, -120, 100)); }
LANEWISE vf expm1_f(vf x) { return copysign_f(FROM_LANES(expm1, clamp_f(x, -120, 100)), x); }
LANEWISE vf sinh_f(vf x) { return copysign_f(FROM_LANES(sinh, clamp_f(x, -120, 120)), x); }
LANEWISE vf cosh_f(vf x) { return FROM_LANES(cosh, clamp_f(x, -120, 120)); }
LANEWISE vf tanh_f(vf x) { return copysign_f(FROM_LANES(tanh, clamp_f(x, -20, 20)), x); }
LANEWISE vf sigmoid_f(vf x) { return FROM_LANES(sigmoid, clamp_f(x, -120, 120)); }
LANEWISE vf softplus_f(vf x) { return FROM_LANES(softplus, x); }
LANEWISE vf atan_f(vf x) { return FROM_LANES(atan, x); }
LANEWISE vf asin_f(vf x) { return FROM_LANES(asin, x); }
LANEWISE vf acos_f(vf x) { return FROM_LANES(acos, x); }
LANEWISE vf erf_f(vf x) { return FROM_LANES(erf, x); }
LANEWISE vf rsqrt_f(vf x) { return FROM_LANES(rsqrt, x); }
LANEWISE vf gauss_f(vf x) { return FROM_LANES(gauss, x); }
LANEWISE vf gelu_slope_f(vf x) { return FROM_LANES(gelu_slope, x); }
LANEWISE vf gelu_tanh_slope_f(vf x) { return FROM_LANES(gelu_tanh_slope, x); }
LANEWISE vf silu_slope_f(vf x) { return FROM_LANES(silu_slope, x); }

/* -inf times 0, as in NumPy */
LANEWISE vf times_vanishing(vf y, vf x) { return select_f(x == splat_f(-INFINITY), splat_f(NAN), y); }
LANEWISE vf gelu_f(vf x) { return times_vanishing(FROM_LANES(gelu, x), x); }
LANEWISE vf gelu_tanh_f(vf x) { return times_vanishing(FROM_LANES(gelu_tanh, x), x); }
LANEWISE vf silu_f(vf x) { return times_vanishing(FROM_LANES(silu, x), x); }

LANEWISE vf log_f(vf x)
{
	vf y = FROM_LANES(log, x);
	const vi plain = (x > splat_f(0)) & (x < splat_f(INFINITY));

	if (__builtin_expect(bits_f(~plain) != 0, 0)) {
		const vf special = select_f(x == splat_f(0), splat_f(-INFINITY), select_f(x < splat_f(0), splat_f(NAN), x));
		y = select_f(plain, y, special);
	}
	return y;
}

LANEWISE vf log1p_f(vf x)
{
	vf y = copysign_f(FROM_LANES(log1p, x), x);
	const vi plain = (x > splat_f(-1)) & (x < splat_f(INFINITY));

	if (__builtin_expect(bits_f(~plain) != 0, 0)) {
		const vf special = select_f(x == splat_f(-1), splat_f(-INFINITY), select_f(x < splat_f(-1), splat_f(NAN), x));
		y = select_f(plain, y, special);
	}
	return y;
}

/* Lanes beyond the reduction: the C library reduces a double exactly, and a float is one. */
#define TRIG(NAME)                                                                                                     \
	COLD void NAME##_far(const vf *x, vf *y)                                                                           \
	{                                                                                                                  \
		for (int i = 0; i < LANES_F; i++)                                                                              \
			if (fabsf((*x)[i]) > trig_bound)                                                                           \
				(*y)[i] = (float)NAME((double)(*x)[i]);                                                                \
	}                                                                                                                  \
	LANEWISE vf NAME##_f(vf x)                                                                                         \
	{                                                                                                                  \
		vf y = FROM_LANES(NAME, x);                                                                                    \
		if (__builtin_expect(bits_f(abs_f(x) > splat_f(trig_bound)) != 0, 0)) {                                        \
			vf far = x, result = y;                                                                                    \
			NAME##_far(&far, &result);                                                                                 \
			y = result;                                                                                                \
		}                                                                                                              \
		return y;                                                                                                      \
	}
TRIG(sin)
TRIG(cos)
TRIG(tan)

/* x = 0 and whatever is not finite: the C library's pow has C99's special cases, and is good beyond a float. */
COLD void pow_special(const vf *x, const vf *y, vf *z)
{
	for (int i = 0; i < LANES_F; i++)
		if (!isfinite((*x)[i]) || !isfinite((*y)[i]) || (*x)[i] == 0)
			(*z)[i] = (float)pow((double)(*x)[i], (double)(*y)[i]);
}

LANEWISE vf pow_f(vf x, vf y)
{
	const vf a = abs_f(x);
	vf z = narrow(pow_lane(widen_low(a), widen_low(y)), pow_lane(widen_high(a), widen_high(y)));
	const vi negative = x < splat_f(0);
	const vi plain = (a > splat_f(0)) & (a < splat_f(INFINITY)) & (abs_f(y) < splat_f(INFINITY));

	if (bits_f(negative)) {
		const vf half = y * splat_f(0.5F);
		const vi odd = floor_f(half) != half;
		const vf power = select_f(floor_f(y) == y, select_f(odd, -z, z), splat_f(NAN));
		z = select_f(negative, power, z);
	}
	if (__builtin_expect(bits_f(~plain) != 0, 0)) {
		vf base = x, exponent = y, result = z;
		pow_special(&base, &exponent, &result);
		z = result;
	}
	return z;
}

/* ---- doubles ---- */

/* One lane after another through a scalar function. */
#define SCALARS(NAME, FUNCTION)                                                                                        \
	static __attribute__((noinline)) vd NAME(vd x)                                                                     \
	{                                                                                                                  \
		vd y;                                                                                                          \
		for (int i = 0; i < LANES_D; i++)                                                                              \
			y[i] = FUNCTION(x[i]);                                                                                     \
		return y;                                                                                                      \
	}
#ifdef ISA_SLEEF
#define SLEEF(NAME, ULP)                                                                                               \
	LANEWISE vd NAME##_sleef(vd x) { return ISA_SLEEF(NAME, ULP)(x); }
LANEWISE vd pow_sleef(vd x, vd y) { return ISA_SLEEF(pow, u10)(x, y); }
#elif HAVE_SLEEF
#define SLEEF(NAME, ULP) SCALARS(NAME##_sleef, Sleef_##NAME##_##ULP)
LANEWISE vd pow_sleef(vd x, vd y)
{
	vd z;
	for (int i = 0; i < LANES_D; i++)
		z[i] = Sleef_pow_u10(x[i], y[i]);
	return z;
}
#else
#define SLEEF(NAME, ULP) SCALARS(NAME##_sleef, NAME)
LANEWISE vd pow_sleef(vd x, vd y)
{
	vd z;
	for (int i = 0; i < LANES_D; i++)
		z[i] = pow(x[i], y[i]);
	return z;
}
#endif
SLEEF(sin, u10)
SLEEF(cos, u10)
SLEEF(log, u10)
SLEEF(log1p, u10)
SLEEF(tan, u10)
SLEEF(asin, u10)
SLEEF(acos, u10)
SLEEF(atan, u10)
SLEEF(erf, u10)
SLEEF(erfc, u15)

LANEWISE vd log_d(vd x) { return log_sleef(x); }
LANEWISE vd asin_d(vd x) { return asin_sleef(x); }
LANEWISE vd acos_d(vd x) { return acos_sleef(x); }
LANEWISE vd atan_d(vd x) { return atan_sleef(x); }
LANEWISE vd pow_d(vd x, vd y) { return pow_sleef(x, y); }

/* where |x| is so small that the function is x, to less than half a place */
LANEWISE vd near_zero(vd y, vd x, double bound) { return select_d(abs_d(x) < splat_d(bound), x, y); }

LANEWISE vd tan_d(vd x) { return near_zero(tan_sleef(x), x, 0x1p-27); }

/* SLEEF's loses small numbers on processors without FMA */
LANEWISE vd erf_d(vd x)
{
	const vd small = x * splat_d(0x1.20dd750429b6dp+0) + x * splat_d(0x1.1ae3a914fed80p-56);
	return select_d(abs_d(x) < splat_d(0x1p-28), small, erf_sleef(x));
}

/* SLEEF's is infinite from 1e307 on */
COLD void log1p_large(const vd *x, vd *y) { *y = select_d(*x > splat_d(0x1p1000), log_sleef(*x), *y); }
LANEWISE vd log1p_d(vd x)
{
	vd y = near_zero(log1p_sleef(x), x, 0x1p-54);
	if (__builtin_expect(bits_d(x > splat_d(0x1p1000)) != 0, 0)) {
		vd from = x, result = y;
		log1p_large(&from, &result);
		y = result;
	}
	return y;
}

/*
 * The exponential family of doubles (SLEEF's are beyond 1 ulp or infinite near
 * the overflow, and slower): x + low = k ln 2 + r + d, d what rounding left, and
 * cosh(r) - 1 and sinh(r) - r, small enough that their own rounding is a tenth
 * of the result's.
 */
struct growth {
	vd k, r;
	vd even; /* cosh(r + d) - 1 */
	vd odd;  /* sinh(r + d) - r */
	vd fourth; /* cosh(r) - 1 - r^2 / 2 */
	vd d;
};

/* |x| <= 1400 */
LANEWISE struct growth growth_reduce(vd x, vd low)
{
	struct growth g;
	vd rest;

	g.k = fma_d(x, splat_d(0x1.71547652b82fep+0), splat_d(rounding)) - splat_d(rounding);
	const vd near = nfma_d(g.k, splat_d(0x1.62e42fefa3800p-1), x); /* exact: 42 bits by 11 */
	g.r = two_sum(near, -(g.k * splat_d(0x1.ef35793c76730p-45)), &rest);
	const vd d = g.d = rest + low;
	const vd z = g.r * g.r;
	g.fourth = (z * z) * POLYNOMIAL(z, 0x1.5555555555558p-5, 0x1.6c16c16c15052p-10, 0x1.a01a01ad61a04p-16, 0x1.27e4cc533bc22p-22, 0x1.1f8b72ff2d904p-29);
	const vd even = fma_d(splat_d(0.5), z, g.fourth);
	const vd odd = (g.r * z) * POLYNOMIAL(z, 0x1.5555555555559p-3, 0x1.111111110f6b3p-7, 0x1.a01a01afe3295p-13,
	                                      0x1.71ddf85932da6p-19, 0x1.af5eb46017597p-26);
	g.even = fma_d(d, g.r + odd, even);
	g.odd = odd + fma_d(d, even, d);
	return g;
}

/* x 2^exponent for any exponent, rounded once where the result is denormal */
LANEWISE vd scale_far(vd x, vd exponent)
{
#ifdef ISA_SCALEF
	return scale_d(x, exponent);
#else
	const vd half = (splat_d(0.5) * exponent + splat_d(rounding)) - splat_d(rounding);
	return scale_d(scale_d(x, half), exponent - half);
#endif
}

/* 2^shift exp(x + low) */
LANEWISE vd exp_shifted(vd x, vd low, double shift)
{
	const struct growth g = growth_reduce(clamp_d(x, -1400, 720), low);
	const vd sum = splat_d(1) + g.r;
	const vd rest = ((splat_d(1) - sum) + g.r) + (g.even + g.odd);
	return scale_far(sum + rest, g.k + splat_d(shift));
}

LANEWISE vd exp_d(vd x) { return exp_shifted(x, splat_d(0), 0); }

/* 2^k (1 + r + ...) - 1, in halves, so that 2^k does not overflow before the result */
LANEWISE vd expm1_d(vd x)
{
	const struct growth g = growth_reduce(clamp_d(x, -60, 709.9), splat_d(0));
	const vd up = scale_d(splat_d(1), g.k - splat_d(1));
	vd whole_low, low;
	const vd whole = two_sum(up, splat_d(-0.5), &whole_low);
	const vd sum = two_sum(whole, up * g.r, &low);
	/* r^2 / 2 exactly: at k = 1 the result is small beside it */
	vd square_low, low2;
	const vd square = two_product(g.r, g.r, &square_low);
	const vd sum2 = two_sum(sum, up * (splat_d(0.5) * square), &low2);
	const vd rest = fma_d(splat_d(0.5), square_low, fma_d(g.d, g.r, g.fourth) + g.odd);
	const vd y = sum2 + ((low + low2 + whole_low) + up * rest);
	return near_zero(copysign_d(y + y, x), x, 0x1p-54);
}

/*
 * sinh and cosh, times 2^-60, as sums of two doubles: (up -+ down)(1 + even) +
 * (up +- down)(r + odd), up = 2^(k-61), down = 2^(-k-61), k >= 0
 */
LANEWISE vd hyperbolic(vd main, vd main_low, vd other, vd other_low, struct growth g, vd *low)
{
	vd product_low, sum_low;
	const vd product = two_product(other, g.r, &product_low);
	const vd sum = two_sum(main, product, &sum_low);
	const vd low_parts = (sum_low + main_low) + fma_d(other_low, g.r, product_low);
	const vd rest = low_parts + fma_d(main, g.even, other * g.odd);
	const vd y = sum + rest;

	*low = (sum - y) + rest;
	return y;
}

LANEWISE vd hyperbolic_up(struct growth g) { return scale_d(splat_d(1), g.k - splat_d(61)); }
/* far below UP, it may be anything that is as far */
LANEWISE vd hyperbolic_down(struct growth g)
{
	return scale_d(splat_d(1), greater_d(splat_d(-1000), splat_d(-61) - g.k));
}

LANEWISE vd sinh_pair(struct growth g, vd *low)
{
	const vd up = hyperbolic_up(g), down = hyperbolic_down(g);
	vd less_low, more_low;
	const vd less = two_sum(up, -down, &less_low), more = two_sum(up, down, &more_low);
	return hyperbolic(less, less_low, more, more_low, g, low);
}

LANEWISE vd cosh_pair(struct growth g, vd *low)
{
	const vd up = hyperbolic_up(g), down = hyperbolic_down(g);
	vd less_low, more_low;
	const vd less = two_sum(up, -down, &less_low), more = two_sum(up, down, &more_low);
	return hyperbolic(more, more_low, less, less_low, g, low);
}

LANEWISE vd sinh_d(vd x)
{
	vd low;
	const vd y = sinh_pair(growth_reduce(lesser_d(splat_d(710.6), abs_d(x)), splat_d(0)), &low);
	return near_zero(copysign_d(y * splat_d(0x1p60), x), x, 0x1p-27);
}

LANEWISE vd cosh_d(vd x)
{
	vd low;
	const vd y = cosh_pair(growth_reduce(lesser_d(splat_d(710.6), abs_d(x)), splat_d(0)), &low);
	return y * splat_d(0x1p60);
}

/* the quotient of the two, its rounding put back */
LANEWISE vd tanh_d(vd x)
{
	const struct growth g = growth_reduce(lesser_d(splat_d(20), abs_d(x)), splat_d(0));
	vd s_low, c_low, low;
	const vd s = sinh_pair(g, &s_low), c = cosh_pair(g, &c_low);
	const vd inverse = splat_d(1) / c;
	const vd q = s * inverse;
	const vd product = two_product(q, c, &low);
	const vd y = fma_d(((s - product) - low) + (s_low - q * c_low), inverse, q);
	return near_zero(copysign_d(y, x), x, 0x1p-27);
}

/*
 * Sine and cosine of doubles: x - k pi/2 as r + low, to about 2^-100 of x's
 * quantum (the nearest that a double within the bound comes to a multiple of
 * pi/2 is about 2^-62), then both polynomials on a quarter turn, so that the
 * pair costs what one does.
 */
#if ISA_FMA
static const double turn_bound = 0x1p30;
#else
static const double turn_bound = 0x1p19;
#endif
struct turn {
	vd r, low;
	vl k;
};

LANEWISE struct turn turn_reduce(vd x)
{
	struct turn t;
	const vd n = fma_d(x, splat_d(0x1.45f306dc9c883p-1), splat_d(rounding));
	const vd k = n - splat_d(rounding);
	vd error;

	t.k = (vl)n;
#if ISA_FMA
	const vd first = nfma_d(k, splat_d(0x1.921fb54442d18p+0), x); /* exact */
	const vd second = k * splat_d(0x1.1a62633145c07p-54);
	const vd second_low = fma_d(k, splat_d(0x1.1a62633145c07p-54), -second);
	t.r = two_sum(first, -second, &error);
	t.low = (error - second_low) - k * splat_d(-0x1.f1976b7ed8fbcp-110);
#else
	const vd first = x - k * splat_d(0x1.921fb544p+0); /* exact, as are the products */
	vd error2;
	const vd second = two_sum(first, -(k * splat_d(0x1.0b4611a6p-34)), &error);
	t.r = two_sum(second, -(k * splat_d(0x1.3198a2ep-69)), &error2);
	t.low = (error + error2) - k * splat_d(0x1.b839a252049c1p-104);
#endif
	return t;
}

LANEWISE vd turn_sin(struct turn t)
{
	const vd z = t.r * t.r;
	const vd p = POLYNOMIAL(z, -0x1.5555555555549p-3, 0x1.111111110f880p-7, -0x1.a01a019c1256dp-13,
	                        0x1.71de357860a38p-19, -0x1.ae5e66c435402p-26, 0x1.5d932a2a556b9p-33);
	return t.r + fma_d(t.r * z, p, nfma_d(t.low, splat_d(0.5) * z, t.low));
}

LANEWISE vd turn_cos(struct turn t)
{
	const vd z = t.r * t.r;
	const vd p = POLYNOMIAL(z, 0x1.555555555554cp-5, -0x1.6c16c16c15184p-10, 0x1.a01a019cb25fbp-16,
	                        -0x1.27e4f80a6a71cp-22, 0x1.1ee9ec3f094cep-29, -0x1.8faeca6be6226p-37);
	const vd half = splat_d(0.5) * z;
	const vd w = splat_d(1) - half;
	return w + (((splat_d(1) - w) - half) + nfma_d(t.r, t.low, z * z * p));
}

LANEWISE vd sin_near(vd x)
{
	const struct turn t = turn_reduce(x);
	const vd s = select_d((t.k & 1) != 0, turn_cos(t), turn_sin(t));
	return select_d(x == splat_d(0), x, (vd)((vl)s ^ ((t.k & 2) << 62)));
}

LANEWISE vd cos_near(vd x)
{
	const struct turn t = turn_reduce(x);
	const vd c = select_d((t.k & 1) != 0, turn_sin(t), turn_cos(t));
	return (vd)((vl)c ^ (((t.k + 1) & 2) << 62));
}

/* beyond the bound, SLEEF's Payne and Hanek reduction (the C library's is 8 ulp off at its worst) */
#define TRIG_DOUBLE(NAME)                                                                                              \
	COLD void NAME##_far_d(const vd *x, vd *y)                                                                         \
	{                                                                                                                  \
		*y = select_d(abs_d(*x) > splat_d(turn_bound), NAME##_sleef(*x), *y);                                          \
	}                                                                                                                  \
	LANEWISE vd NAME##_d(vd x)                                                                                         \
	{                                                                                                                  \
		vd y = NAME##_near(x);                                                                                         \
		if (__builtin_expect(bits_d(abs_d(x) > splat_d(turn_bound)) != 0, 0)) {                                        \
			vd far = x, result = y;                                                                                    \
			NAME##_far_d(&far, &result);                                                                               \
			y = result;                                                                                                \
		}                                                                                                              \
		return y;                                                                                                      \
	}
TRIG_DOUBLE(sin)
TRIG_DOUBLE(cos)

/*
 * 1 / sqrt(x): s the rounded root, y = 1 / s, and what both roundings left out,
 * to first order. Small and large x are scaled, so that no error underflows and no
 * square overflows.
 */
LANEWISE vd rsqrt_d(vd x)
{
	const vl small = x < splat_d(0x1p-500), large = x > splat_d(0x1p+500);
	const vd scaled = x * select_d(small, splat_d(0x1p+600), select_d(large, splat_d(0x1p-600), splat_d(1)));
	const vd s = sqrt_d(scaled);
	const vd y = splat_d(1) / s;
	vd square_low, one_low;
	const vd square = two_product(s, s, &square_low);
	const vd one = two_product(y, s, &one_low);
	const vd root_error = (scaled - square) - square_low;    /* x - s^2 */
	const vd inverse_error = (splat_d(1) - one) - one_low;   /* 1 - y s */
	const vd better = fma_d(y, inverse_error - splat_d(0.5) * root_error * y * y, y);
	const vd result = better * select_d(small, splat_d(0x1p+300), select_d(large, splat_d(0x1p-300), splat_d(1)));
	return select_d((x > splat_d(0)) & (x < splat_d(INFINITY)), result, splat_d(1) / sqrt_d(x));
}

/* exp(-x^2): the rounding of the square is put back */
LANEWISE vd gauss_d(vd x)
{
	vd low;
	const vd square = two_product(clamp_d(x, -40, 40), clamp_d(x, -40, 40), &low);
	return exp_shifted(-square, -low, 0);
}

LANEWISE vd sigmoid_d(vd x)
{
	const vd z = exp_d(-abs_d(x));
	return select_d(x < splat_d(0), z, splat_d(1)) / (splat_d(1) + z);
}

LANEWISE vd softplus_d(vd x) { return greater_d(splat_d(0), x) + log1p_d(exp_d(-abs_d(x))); }

/* x sigmoid(high + low): where the exponential would be denormal, it is scaled, and the product rounded once */
LANEWISE vd times_sigmoid(vd x, vd high, vd low)
{
	const vl negative = high < splat_d(0);
	const vd z = exp_shifted(-abs_d(high), select_d(negative, low, -low), 0);
	vd y = x * select_d(negative, z, splat_d(1)) / (splat_d(1) + z);
	const vl tiny = high < splat_d(-700);

	if (__builtin_expect(bits_d(tiny) != 0, 0))
		y = select_d(tiny, (x * exp_shifted(high, low, 200)) * splat_d(0x1p-200), y);
	return y;
}

LANEWISE vd silu_d(vd x) { return times_sigmoid(x, x, splat_d(0)); }

LANEWISE vd silu_slope_d(vd x)
{
	const vd z = exp_d(-abs_d(x));
	const vd half = splat_d(1) / (splat_d(1) + z);
	const vd s = select_d(x < splat_d(0), z * half, half), rest = select_d(x < splat_d(0), half, z * half);
	return fma_d(x * s, rest, s);
}

/* 2 sqrt(2/pi) (x + 0.044715 x^3) as a sum of two doubles */
LANEWISE vd gelu_tanh_argument(vd x, vd *low)
{
	vd square_low, cubic_low, sum_low, scaled_low, product_low;
	const vd square = two_product(x, x, &square_low);
	const vd cubic = two_product(splat_d(0x1.6e4e26d4801f7p-5), square, &cubic_low);
	cubic_low += splat_d(0x1.6e4e26d4801f7p-5) * square_low + splat_d(0x1.441355475a31ap-59) * square;
	const vd sum = two_sum(splat_d(1), cubic, &sum_low);
	sum_low += cubic_low;
	const vd scaled = two_product(x, splat_d(0x1.9884533d43651p+0), &scaled_low);
	scaled_low -= x * splat_d(0x1.cbc0d30ebfd15p-54);
	const vd product = two_product(scaled, sum, &product_low);
	*low = product_low + (scaled * sum_low + scaled_low * sum);
	return product;
}

LANEWISE vd gelu_tanh_d(vd x)
{
	vd low;
	const vd high = gelu_tanh_argument(clamp_d(x, -40, 40), &low);
	return times_sigmoid(x, high, low);
}

LANEWISE vd gelu_tanh_slope_d(vd x)
{
	vd low;
	const vd high = gelu_tanh_argument(clamp_d(x, -40, 40), &low);
	const vd z = exp_d(-abs_d(high));
	const vd half = splat_d(1) / (splat_d(1) + z);
	const vl negative = x < splat_d(0);
	const vd s = select_d(negative, z * half, half), rest = select_d(negative, half, z * half);
	const vd dw = splat_d(0x1.9884533d43651p+0) * (splat_d(1) + splat_d(3 * 0.044715) * x * x);
	return s + x * s * (rest * dw);
}

/* The normal distribution's function at x / 1, |x| <= 40, with the rounding of x / sqrt(2) put back through erfc's slope */
LANEWISE vd normal_d(vd x, vd *gauss)
{
	vd low;
	const vd u = two_product(x, splat_d(-0x1.6a09e667f3bcdp-1), &low);
	low += x * splat_d(0x1.bdd3413b26456p-55);
	*gauss = exp_d(-(u * u));
	return splat_d(0.5) * (erfc_sleef(u) - low * splat_d(0x1.20dd750429b6dp+0) * *gauss);
}

/*
 * x < -37, where the distribution is denormal: its asymptotic series
 * -phi(x) (1 - 1/x^2 + 3/x^4 - 15/x^6 ...), phi scaled so that it is rounded once.
 */
COLD void gelu_tail(const vd *from, vd *y)
{
	const vd x = clamp_d(*from, -40, 40);
	vd low;
	const vd square = two_product(x, x, &low);
	const vd e = exp_shifted(splat_d(-0.5) * square, splat_d(-0.5) * low, 200);
	const vd w = splat_d(1) / square;
	const vd p = POLYNOMIAL(w, 1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0);
	const vd tail = -(splat_d(0x1.9884533d43651p-2) * p * e) * splat_d(0x1p-200);
	*y = select_d((*from < splat_d(-37)) & (*from > splat_d(-INFINITY)), tail, *y);
}

LANEWISE vd gelu_d(vd x)
{
	vd gauss;
	vd y = x * normal_d(clamp_d(x, -40, 40), &gauss);

	if (__builtin_expect(bits_d(x < splat_d(-37)) != 0, 0)) {
		vd from = x, result = y;
		gelu_tail(&from, &result);
		y = result;
	}
	return y;
}

LANEWISE vd gelu_slope_d(vd x)
{
	vd gauss;
	const vd phi = normal_d(clamp_d(x, -40, 40), &gauss);
	return phi + x * (gauss * splat_d(0x1.9884533d43651p-2));
}

/* ---- both types ---- */

/* The rounding of doubles and floats to a shorter type: adding 1.5 * 2^(exponent + dropped bits) rounds at the wanted place. */
LANEWISE vf round_f16_f(vf x)
{
	const vf a = abs_f(x);
	vi exponent = (vi)a & 0x7f800000;
	const vi least = (vi)splat_f(0x1p-14F), most = (vi)splat_f(0x1p17F);

	exponent = (vi)select_f(exponent < least, (vf)least, (vf)exponent);
	exponent = (vi)select_f(exponent > most, (vf)most, (vf)exponent);
	const vf magic = (vf)(exponent + (13 << 23)) * splat_f(1.5F);
	const vf y = (a + magic) - magic;
	return copysign_f(select_f(y >= splat_f(65536), splat_f(INFINITY), y), x);
}

/* LEAST and LARGEST: the least normal number, and the least power of two beyond the largest; KEPT bits after the leading one */
LANEWISE vd round_short_d(vd x, int kept, double least_normal, double beyond)
{
	const vd a = abs_d(x);
	vl exponent = (vl)a & 0x7ff0000000000000;
	const vl least = (vl)splat_d(least_normal), most = (vl)splat_d(2 * beyond);

	exponent = (vl)select_d(exponent < least, (vd)least, (vd)exponent);
	exponent = (vl)select_d(exponent > most, (vd)most, (vd)exponent);
	const vd magic = (vd)(exponent + ((long long)(52 - kept) << 52)) * splat_d(1.5);
	const vd y = (a + magic) - magic;
	return copysign_d(select_d(y >= splat_d(beyond), splat_d(INFINITY), y), x);
}

LANEWISE vd round_f16_d(vd x) { return round_short_d(x, 10, 0x1p-14, 0x1p16); }
LANEWISE vd round_bf16_d(vd x) { return round_short_d(x, 7, 0x1p-126, 0x1p128); }

LANEWISE vf round_bf16_f(vf x)
{
	const vui bits = (vui)x;
	const vf y = (vf)((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000);
	return select_f(x == x, y, x);
}

/* as NumPy: NaN from either side, the operand where both are equal or the first where a is not larger */
LANEWISE vf max_f(vf v, vf a) { return select_f(a != a, a, greater_f(a, v)); }
LANEWISE vd max_d(vd v, vd a) { return select_d(a != a, a, greater_d(a, v)); }
LANEWISE vf min_f(vf v, vf a) { return select_f(a != a, a, lesser_f(a, v)); }
LANEWISE vd min_d(vd v, vd a) { return select_d(a != a, a, lesser_d(a, v)); }
LANEWISE vf relu_f(vf v) { return greater_f(splat_f(0), v); }
LANEWISE vd relu_d(vd v) { return greater_d(splat_d(0), v); }
LANEWISE vf sign_f(vf v)
{
	return select_f(v > splat_f(0), splat_f(1), select_f(v < splat_f(0), splat_f(-1), v + splat_f(0)));
}
LANEWISE vd sign_d(vd v)
{
	return select_d(v > splat_d(0), splat_d(1), select_d(v < splat_d(0), splat_d(-1), v + splat_d(0)));
}
