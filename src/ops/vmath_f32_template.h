/*
 * The functions of floats. NAME_lane computes in double lanes by a short polynomial,
 * with a relative error of about 2^-34, and the result is rounded once. So the largest
 * error is about 0.501 ulp (0.507 for expm1), denormal results included. With FMA the
 * functions that are the most frequent in deep chains have another polynomial, in float
 * lanes, and err by at most 0.89 ulp (silu 1.6, gelu 1.8, its derivative 2.3). That is faster: a vector has
 * twice as many lanes, nothing is converted, and sine and cosine share a reduction.
 */

/* x = k ln 2 + r, |r| <= ln2 / 2 */
struct reduced {
	vd k;
	vd even; /* cosh(r) - 1 */
	vd odd;  /* sinh(r) */
};

/* |x| <= 700 */
LANEWISE struct reduced exp_reduce(vd x)
{
	struct reduced e;

	e.k = fma_d(x, splat_d(0x1.71547652b82fep+0), splat_d(rounding)) - splat_d(rounding);
	const vd r = nfma_d(e.k, splat_d(0x1.62e42fefa39efp-1), x), z = r * r;
	e.even = z * POLYNOMIAL(z, 0x1.00000043f0f66p-1, 0x1.55547ee1cb9acp-5, 0x1.6d977efab9597p-10);
	e.odd =
		r * POLYNOMIAL(z, 0x1.fffffffff61e4p-1, 0x1.5555557e75032p-3, 0x1.1110a61c99c56p-7, 0x1.a17dfaf8bf68dp-13);
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

/* sinh, or cosh if EVEN. Nothing cancels: at k = 0 `up` equals `down`, and sinh is exactly that of r. */
LANEWISE vd hyperbolic_lane(vd x, bool even)
{
	const struct reduced e = exp_reduce(x);
	const vd up = scale_d(splat_d(0.5), e.k), down = scale_d(splat_d(0.5), -e.k);
	return fma_d(even ? up + down : up - down, splat_d(1) + e.even, (even ? up - down : up + down) * e.odd);
}

LANEWISE vd sinh_lane(vd x) { return hyperbolic_lane(x, false); }
LANEWISE vd cosh_lane(vd x) { return hyperbolic_lane(x, true); }

LANEWISE vd tanh_lane(vd x)
{
	const vd e = expm1_lane(x + x);
	return e / (e + splat_d(2));
}

/* x = 2^k m, m in [sqrt(1/2), sqrt(2)); x positive, normal */
LANEWISE vd log_split(vd x, vd *k)
{
	const vul root = (vul)splat_d(0x1.6a09e667f3bcdp-1);
	const vul offset = ((vul)x - root) + (1024ULL << 52);

	*k = (vd)((vl)(offset >> 52) | (vl)splat_d(0x1p52)) - splat_d(0x1p52 + 1024);
	return (vd)((vul)x - (((offset >> 52) - 1024) << 52));
}

/* log(1 + f) + k ln 2, where log(1 + f) = 2 artanh(f / (2 + f)) */
LANEWISE vd log_join(vd f, vd k)
{
	const vd s = f / (splat_d(2) + f);
	const vd z = s * s;
	const vd p =
		POLYNOMIAL(z, 2.0, 0x1.555554fd8bef7p-1, 0x1.999a7aab3ce11p-2, 0x1.2438cef028a55p-2, 0x1.e2f7c3009ce9fp-3);
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

/* log(x) for pow_lane, with a relative error of about 2^-50 */
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

/* x > 0; pow_f does the sign and the special cases */
LANEWISE vd pow_lane(vd x, vd y) { return exp_lane(clamp_d(y * log_fine_lane(x), -120, 100)); }

/* x - quotient * pi * scale, for |x| up to trig_bound */
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
	return (vd)((vul)s ^ ((vul)n << 63));
}

LANEWISE vd sin_lane(vd x)
{
	const vd n = fma_d(x, splat_d(0x1.45f306dc9c883p-2), splat_d(rounding));
	return sin_signed(less_pi(x, n - splat_d(rounding), 1), (vl)n);
}

/* cos x = (-1)^n sin(x - (n - 1/2) pi). So the argument of the sine is small where the cosine is. */
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
	const vd c =
		POLYNOMIAL(z, 1.0, -0x1.ffffffcb8206dp-2, 0x1.55553c7840514p-5, -0x1.6c07f144dae7ap-10, 0x1.9916970f191ecp-16);
	const vl odd = ((vl)n & 1) != 0;
	return select_d(odd, -c, s) / select_d(odd, s, c);
}

LANEWISE vd atan_lane(vd x)
{
	const vd a = abs_d(x);
	const vl far = a > splat_d(1);
	const vd t = select_d(far, splat_d(1) / a, a);
	const vd r = t * POLYNOMIAL(t * t, 1.0, -0x1.5555552f29665p-2, 0x1.9999846cce777p-3, -0x1.249039288a8a9p-3,
	                            0x1.c6e85b1cd0afdp-4, -0x1.72d6310cace1ap-4, 0x1.33a16d41fdf4cp-4,
	                            -0x1.f02f96476c63cp-5, 0x1.69ea44ea808d4p-5, -0x1.b2f558551867cp-6,
	                            0x1.81f636583d22ap-7, -0x1.b40203b00d4d0p-9, 0x1.ce191ad106f9dp-12);
	return copysign_d(select_d(far, splat_d(0x1.921fb54442d18p+0) - r, r), x);
}

/* asin(|x|) if |x| <= 1/2; else asin(sqrt((1 - |x|) / 2)), and *FAR is set */
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

/* erfc(a) = exp(-a^2) p((a - 2) / (a + 2)) / (1 + 2 a) for a >= 0 (Shepherd and Laframboise 1981); *GAUSS: exp(-a^2) */
LANEWISE vd erfc_lane(vd a, vd *gauss)
{
	const vd b = lesser_d(splat_d(11), a);
	const vd up = b + splat_d(2), stretch = splat_d(1) + (b + b);
	const vd inverse = splat_d(1) / (up * stretch);
	const vd t = (b - splat_d(2)) * stretch * inverse;
	const vd p =
		POLYNOMIAL(t, 0x1.46e80e227b21fp+0, -0x1.7bf5ec12808a8p-4, -0x1.5407bed31cec3p-3, 0x1.4ffa1d89dcc71p-3,
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
	const vd near =
		x * POLYNOMIAL(z, 0x1.20dd75040080ap+0, -0x1.8127465fb9b98p-2, 0x1.ce2f0798bec50p-4, -0x1.b829a7a7b1373p-6,
	                   0x1.5628ee0585dbbp-8, -0x1.bcbe9b9115df5p-11, 0x1.d826984312309p-14, -0x1.43841457d2fa6p-17);
	return select_d(a < splat_d(1), near, copysign_d(splat_d(1) - erfc_lane(a, &gauss), x));
}

/* the normal distribution's function; *GAUSS: exp(-x^2 / 2) */
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

LANEWISE vd gelu_derivative_lane(vd x)
{
	vd gauss;
	const vd phi = normal_lane(x, &gauss);
	return fma_d(x, gauss * splat_d(0x1.9884533d43651p-2), phi);
}

/* exp(w), w = -2 sqrt(2 / pi) (x + 0.044715 x^3): gelu's tanh form is x / (1 + exp(w)) */
LANEWISE vd gelu_tanh_exp_lane(vd x)
{
	const vd w = x * splat_d(-0x1.9884533d43651p+0) * fma_d(x * x, splat_d(0.044715), splat_d(1));
	return exp_lane(clamp_d(w, -300, 300));
}

LANEWISE vd gelu_tanh_lane(vd x) { return x / (splat_d(1) + gelu_tanh_exp_lane(x)); }

/* beyond 40 the derivative is 0 or 1; x is clamped in dw, so that dw does not outgrow the factor that vanishes there */
LANEWISE vd gelu_tanh_derivative_lane(vd x)
{
	const vd e = gelu_tanh_exp_lane(x);
	const vd s = splat_d(1) / (splat_d(1) + e);
	const vd near = clamp_d(x, -40, 40);
	const vd dw = splat_d(0x1.9884533d43651p+0) * fma_d(near * near, splat_d(3 * 0.044715), splat_d(1));
	return fma_d(x * s, (e * s) * dw, s);
}

LANEWISE vd sigmoid_lane(vd x) { return splat_d(1) / (splat_d(1) + exp_lane(-x)); }
LANEWISE vd silu_lane(vd x) { return x / (splat_d(1) + exp_lane(clamp_d(-x, -300, 300))); }

LANEWISE vd silu_derivative_lane(vd x)
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

/* true if x <= BOUND in all lanes, so false if one is NaN */
#ifndef ISA_WITHIN
LANEWISE bool within_f(vf x, float bound) { return bits_f(~(x <= splat_f(bound))) == 0; }
#endif

#define FROM_LANES(NAME, X) narrow(NAME##_lane(widen_low(X)), NAME##_lane(widen_high(X)))

LANEWISE vf expm1_f(vf x) { return copysign_f(FROM_LANES(expm1, clamp_f(x, -120, 100)), x); }
LANEWISE vf sinh_f(vf x) { return copysign_f(FROM_LANES(sinh, clamp_f(x, -120, 120)), x); }
LANEWISE vf cosh_f(vf x) { return FROM_LANES(cosh, clamp_f(x, -120, 120)); }
#if ISA_FMA
/* exp(x) = (y + low) 2^k, |low| at most half an ulp of y */
struct power {
	vf y, low, k;
	vf rounded; /* k in its low bits */
};

/* p of exp(r) = 1 + r + p r^2, |r| <= ln2 / 2 */
LANEWISE vf exp_tail_f(vf r)
{
	return POLYNOMIAL_F(r, 0x1.fffffcp-2F, 0x1.555492p-3F, 0x1.5558fp-5F, 0x1.1239d4p-7F, 0x1.6a247cp-10F);
}

/* |x| <= 200. Here and in log_join_f no square is stored: that of a small x would be denormal, which is slow. */
LANEWISE struct power power_f(vf x)
{
	struct power e;

	e.rounded = fma_f(x, splat_f(0x1.715476p+0F), splat_f(0x1.8p23F));
	e.k = e.rounded - splat_f(0x1.8p23F);
	const vf r = nfma_f(e.k, splat_f(0x1.7f7d1cp-20F), nfma_f(e.k, splat_f(0x1.62e4p-1F), x));
	const vf sum = splat_f(1) + r;
	const vf rest = fma_f(r * exp_tail_f(r), r, (splat_f(1) - sum) + r);

	e.y = sum + rest;
	e.low = rest - (e.y - sum);
	return e;
}

LANEWISE vf exp_f(vf x)
{
	const struct power e = power_f(clamp_f(x, -104, 89));
	return scale_f(e.y, e.k);
}

/* The logistic function 1 / (1 + exp(-x)) = s 2^k, s in [0.3, 1.5). */
struct logistic {
	vf s, k;
};

/*
 * With u = exp(-|x|) the result is 1 / (1 + u), or u / (1 + u) if x is negative. The power
 * of two of u is left out of s, so that s is not denormal where x is multiplied by s. The
 * rounding errors of the divisor and the quotient are added at the end.
 */
LANEWISE struct logistic logistic_f(vf x)
{
	const struct power e = power_f(greater_f(splat_f(-128), -abs_f(x)));
	const vf scale = (vf)(((vui)greater_f(splat_f(0x1.8p23F - 126), e.rounded) << 23) + 0x3f800000);
	const vf u = scale * e.y, divisor = splat_f(1) + u;
	const vf divisor_lost = fma_f(scale, e.low, (splat_f(1) - divisor) + u);
	const vf above = select_sign_f((vui)x, e.y, splat_f(1)), above_low = select_sign_f((vui)x, e.low, splat_f(0));
	const vf inverse = splat_f(1) / divisor, quotient = above * inverse;
	const vf rest = nfma_f(quotient, divisor, above) + nfma_f(quotient, divisor_lost, above_low);

	return (struct logistic){fma_f(rest, inverse, quotient), select_sign_f((vui)x, e.k, splat_f(0))};
}

LANEWISE vf sigmoid_f(vf x)
{
	const struct logistic l = logistic_f(x);
	return scale_f(l.s, l.k);
}

/* Newton's step for 1 / sqrt(x): adds Y ERROR / 2 to Y, where ERROR = 1 - x Y^2. The new error is about ERROR^2. */
LANEWISE vf rsqrt_step_f(vf y, vf error) { return fma_f(splat_f(0.5F) * y, error, y); }

/* x positive, normal. Halving x's bits errs by 1/30; two steps leave 2^-9 and 2^-18; the last has 1 - x y^2 exact. */
LANEWISE vf rsqrt_plain_f(vf x)
{
	vf y = (vf)(0x5f3759df - ((vui)x >> 1));
	y = rsqrt_step_f(y, nfma_f(x * y, y, splat_f(1)));
	y = rsqrt_step_f(y, nfma_f(x * y, y, splat_f(1)));
	const vf root = x * y, lost = fma_f(x, y, -root);

	return rsqrt_step_f(y, nfma_f(lost, y, nfma_f(root, y, splat_f(1))));
}

LANEWISE vf silu_plain_f(vf x)
{
	const vf v = greater_f(splat_f(-128), x);
	const struct logistic l = logistic_f(v);
	return scale_f(v * l.s, l.k);
}

/* (f + p f^2) + k ln 2, f + p f^2 = log(1 + f), f in [-1/3, 1/2]; both sums' rounding errors are added at the end */
LANEWISE vf log_join_f(vf f, vf k, vf p)
{
	const vf rest = p * f;
	const vf of_f = fma_f(rest, f, f), of_k = k * splat_f(0x1.62e4p-1F), sum = of_k + of_f;
	const vf lost = fma_f(rest, f, f - of_f) + (of_f - (sum - of_k));

	return sum + fma_f(k, splat_f(0x1.7f7d1cp-20F), lost);
}

/* x = 2^k (1 + f), f in [-1/3, 1/3); x positive, normal */
LANEWISE vf log_plain_f(vf x)
{
	const vui exponent = ((vui)x - 0x3f2aaaab) & 0xff800000;
	const vf f = (vf)((vui)x - exponent) - splat_f(1);
	return log_join_f(f, whole_f((vi)exponent >> 23),
	                  POLYNOMIAL_F(f, -0.5F, 0x1.555506p-2F, -0x1.fffefp-3F, 0x1.99d02ap-3F, -0x1.559dd4p-3F,
	                               0x1.1ed6fap-3F, -0x1.f3104cp-4F, 0x1.1e6764p-3F, -0x1.080788p-3F));
}

/* x > -1; 1 + x = 2^k (1 + f), f in [-1/4, 1/2). f is exact. Unless k = 0, 2^-k x and 2^-k - 1 are of one size. */
LANEWISE vf log1p_plain_f(vf x)
{
	const vui exponent = ((vui)(x + splat_f(1)) - 0x3f400000) & 0xff800000;
	const vf f = (vf)((vui)x - exponent) + fma_f((vf)(0x40800000 - exponent), splat_f(0.25F), splat_f(-1));
	return log_join_f(f, whole_f((vi)exponent >> 23),
	                  POLYNOMIAL_F(f, -0.5F, 0x1.5555a4p-2F, -0x1.00004p-2F, 0x1.9969aep-3F, -0x1.54efd6p-3F,
	                               0x1.288488p-3F, -0x1.0d8aeep-3F, 0x1.ac91dap-4F, -0x1.71418ep-5F));
}

/*
 * A function f in sixteen pieces of [0, last]. The piece of a is (bits of t >> 21) % 16, where t = 1 + scale a. Row 0
 * has each piece's centre c, row 1 f(c), and the others the polynomial p of f(c + r) = f(c) + r p(r). At these centres
 * f(c) and its derivative are almost exactly floats (Gal 1986), so that the rounding of the last sum is nearly all of
 * the error. The two pieces of an odd function nearest to zero have the p of f(a) = a + a p(a).
 */
struct pieces {
	_Alignas(64) float rows[8][16];
	float scale, last;
};

/* f(a), a in [0, last] or NaN; NaN stays */
LANEWISE vf by_pieces_f(const struct pieces *f, vf a, bool odd)
{
	const vf t = fma_f(a, splat_f(f->scale), splat_f(1));
	const vui piece = (vui)t >> 21;
	const vf r = a - lookup_f(f->rows[0], piece);
	vf start = lookup_f(f->rows[1], piece), p = lookup_f(f->rows[7], piece);
	if (odd)
		start = select_f(t < splat_f(1.5F), a, start);
#pragma GCC unroll 8
	for (int k = 6; k > 1; k--)
		p = fma_f(p, r, lookup_f(f->rows[k], piece));

	return fma_f(r, p, start);
}

/* f(x), where f is odd and rounds to 1 from f->last on */
LANEWISE vf odd_by_pieces_f(const struct pieces *f, vf x)
{
	return negated_f(by_pieces_f(f, lesser_f(splat_f(f->last), abs_f(x)), true), (vui)x);
}

static const struct pieces tanh_pieces = {
	.scale = 1.65F,
	.last = 9.02F,
	.rows = {
		{0x1.73cf3ep-1F, 0x1.072c68p+0F, 0x1.5d3512p+0F, 0x1.a9db64p+0F, 0x1.0f6d8cp+1F, 0x1.5c5bdcp+1F,
		 0x1.aa0814p+1F, 0x1.f87d6p+1F, 0x1.373d24p+2F, 0x1.83cf9ap+2F, 0x1.d1cdbep+2F, 0x1.0a2f14p+3F, 0, 0,
		 0x1.705cf2p-2F, 0x1.0a5e88p-1F},
		{0x1.3dd038p-1F, 0x1.8bd58ap-1F, 0x1.c13284p-1F, 0x1.dc8316p-1F, 0x1.f178acp-1F, 0x1.fb96d8p-1F,
		 0x1.feaf7ep-1F, 0x1.ff9d26p-1F, 0x1.fff05ap-1F, 0x1.fffe92p-1F, 0x1.ffffep-1F, 0x1.fffffcp-1F, 0, 0,
		 0x1.614156p-2F, 0x1.e95d44p-2F},
		{0x1.3ab956p-1F, 0x1.9bf356p-2F, 0x1.d79b86p-3F, 0x1.121086p-3F, 0x1.ca51dap-5F, 0x1.1912b8p-6F,
		 0x1.501372p-8F, 0x1.8b41ep-10F, 0x1.f4b8fep-13F, 0x1.6e087ap-16F, 0x1.ffdbfp-20F, 0x1.ff820ap-23F,
		 0x1.4796aap-32F, 0x1.faf15cp-19F, 0x1.c31158p-1F, 0x1.8b1152p-1F},
		{-0x1.86b758p-2F, -0x1.3e7c0ap-2F, -0x1.9dc26ap-3F, -0x1.fe231p-4F, -0x1.bd5074p-5F, -0x1.16a6dp-6F,
		 -0x1.4f368ap-8F, -0x1.8af5a6p-10F, -0x1.f4b394p-13F, -0x1.6e0a8ep-16F, -0x1.ffe292p-20F,
		 -0x1.ff6918p-23F, -0x1.318e8ep-23F, -0x1.c82d7p-14F, -0x1.373704p-2F, -0x1.799a02p-2F},
		{0x1.05b048p-5F, 0x1.b3a17ep-4F, 0x1.9b9d92p-4F, 0x1.241234p-4F, 0x1.17eafap-5F, 0x1.6d1b06p-7F,
		 0x1.bc9f9p-9F, 0x1.06e358p-10F, 0x1.4d3f16p-13F, 0x1.e75cap-17F, 0x1.54c5a8p-20F, 0x1.54fp-23F,
		 -0x1.555272p-2F, -0x1.540064p-2F, -0x1.82b31ep-3F, -0x1.4bb2a2p-4F},
		{0x1.b7514p-4F, 0x1.5f6eacp-6F, -0x1.552292p-6F, -0x1.971b24p-6F, -0x1.ee27a8p-7F, -0x1.6070bap-8F,
		 -0x1.b8176ep-10F, -0x1.0613bcp-11F, -0x1.4c6f22p-14F, -0x1.e73ba6p-18F, -0x1.5472dp-21F,
		 -0x1.57d26cp-24F, -0x1.475f3ep-12F, -0x1.10388cp-7F, 0x1.54dd6ap-3F, 0x1.4af8b4p-3F},
		{-0x1.02b9c8p-4F, -0x1.60d114p-5F, -0x1.511cdap-7F, 0x1.26375p-9F, 0x1.241f66p-8F, 0x1.07c7cap-9F,
		 0x1.5cb032p-11F, 0x1.a61992p-13F, 0x1.18a206p-15F, 0x1.9b2f48p-19F, 0x1.1f8c4ap-22F, 0x1.16cc0ep-25F,
		 0x1.19477ep-3F, 0x1.4ed908p-3F, 0x1.9a71dep-6F, -0x1.0e0402p-5F},
		{-0x1.d07b7ep-12F, 0x1.39067cp-6F, 0x1.743192p-7F, 0x1.b5c9b6p-9F, -0x1.0e0788p-11F, -0x1.26ca84p-11F,
		 -0x1.b8ceaep-13F, -0x1.170f6p-14F, -0x1.814132p-17F, -0x1.12093p-20F, -0x1.84633ep-24F,
		 -0x1.25a6bcp-27F, -0x1.87012ep-6F, -0x1.ece3c6p-5F, -0x1.1a3bc8p-4F, -0x1.68ea54p-5F},
	},
};

LANEWISE vf tanh_f(vf x) { return odd_by_pieces_f(&tanh_pieces, x); }

static const struct pieces erf_pieces = {
	.scale = 3.75F,
	.last = 3.97F,
	.rows = {
		{0x1.47b378p-2F, 0x1.d2f818p-2F, 0x1.2ebb0cp-1F, 0x1.73ad3ap-1F, 0x1.d0937cp-1F, 0x1.33fb18p+0F,
		 0x1.7779a8p+0F, 0x1.bb5a88p+0F, 0x1.10d95ep+1F, 0x1.556d6p+1F, 0x1.999dfap+1F, 0x1.df3546p+1F, 0, 0,
		 0x1.48a774p-3F, 0x1.d36b4ep-3F},
		{0x1.6586c6p-2F, 0x1.ec9018p-2F, 0x1.31a33p-1F, 0x1.640ba2p-1F, 0x1.99e662p-1F, 0x1.d27f2ap-1F,
		 0x1.ec83a2p-1F, 0x1.f8ab6cp-1F, 0x1.feaeb6p-1F, 0x1.ffeaccp-1F, 0x1.ffff36p-1F, 0x1.fffffcp-1F, 0, 0,
		 0x1.6fbp-3F, 0x1.03346cp-2F},
		{0x1.04bef6p+0F, 0x1.d5418ap-1F, 0x1.97482ep-1F, 0x1.5515b4p-1F, 0x1.fb35a6p-2F, 0x1.0fc2eap-2F,
		 0x1.0cdc4p-3F, 0x1.cc892cp-5F, 0x1.892016p-7F, 0x1.e0d96ep-11F, 0x1.51c092p-15F, 0x1.efabcep-21F,
		 0x1.06eba8p-3F, 0x1.06ebacp-3F, 0x1.198564p+0F, 0x1.12340cp+0F},
		{-0x1.4dc6b8p-2F, -0x1.abfc08p-2F, -0x1.e1a0bap-2F, -0x1.ef354p-2F, -0x1.cc3aaap-2F, -0x1.46f14ep-2F,
		 -0x1.8a5666p-3F, -0x1.8eca1ep-4F, -0x1.a2ff8ap-6F, -0x1.40a7aep-9F, -0x1.0e3aa6p-13F, -0x1.d0691p-19F,
		 -0x1.5400aap-30F, -0x1.727468p-20F, -0x1.696b0ep-3F, -0x1.f4a7e2p-3F},
		{-0x1.14741ep-2F, -0x1.6d6f5p-3F, -0x1.46b446p-4F, 0x1.8894ep-7F, 0x1.b55186p-4F, 0x1.5742ep-3F,
		 0x1.27f6f6p-3F, 0x1.7fad5ap-4F, 0x1.08ff0ep-5F, 0x1.08f47ep-8F, 0x1.11994ep-12F, 0x1.1618f6p-17F,
		 -0x1.812738p-2F, -0x1.811dc6p-2F, -0x1.640418p-2F, -0x1.478494p-2F},
		{0x1.3702e6p-3F, 0x1.709a68p-3F, 0x1.716512p-3F, 0x1.41399p-3F, 0x1.9effdcp-4F, 0x1.6fa208p-8F,
		 -0x1.5663a8p-5F, -0x1.8e98f8p-5F, -0x1.a93e5ap-6F, -0x1.2c0f4ep-8F, -0x1.88ff1p-12F, -0x1.daa35ep-17F,
		 -0x1.d14b6cp-17F, -0x1.07489p-11F, 0x1.62d916p-4F, 0x1.e354cep-4F},
		{0x1.fcbf06p-5F, 0x1.3f474ep-6F, -0x1.27c4b6p-6F, -0x1.921fe6p-5F, -0x1.18c22cp-4F, -0x1.b0ad44p-5F,
		 -0x1.366a2ep-6F, 0x1.64d64p-8F, 0x1.90b672p-7F, 0x1.eaa46cp-9F, 0x1.bca20ap-12F, 0x1.596d42p-16F,
		 0x1.cfd418p-4F, 0x1.de0e0cp-4F, 0x1.6616c8p-4F, 0x1.63e2a8p-4F},
		{-0x1.ac6454p-5F, -0x1.57988p-5F, -0x1.892296p-5F, -0x1.d8a0b8p-6F, -0x1.93848ap-9F, 0x1.3e72p-6F,
		 0x1.4c09dcp-6F, 0x1.3dd9bep-7F, -0x1.c5305cp-10F, -0x1.0c8ee4p-9F, -0x1.6763ccp-12F, -0x1.9e2448p-16F,
		 -0x1.5f401cp-8F, -0x1.0336ep-6F, 0x1.21e992p-3F, -0x1.017234p-4F},
	},
};

LANEWISE vf erf_f(vf x) { return odd_by_pieces_f(&erf_pieces, x); }

/*
 * gelu and its derivative have two forms. Where a lookup is one instruction, pieces of polynomials are the faster one.
 * AVX2 needs seven micro-operations for a lookup. There one polynomial after a division takes two thirds of the time.
 */
#ifdef ISA_LOOKUP
/* exp(a^2 / 2) times the normal distribution's tail beyond a */
static const struct pieces tail_pieces = {
	.scale = 1.03F,
	.last = 14.4F,
	.rows = {
		{0x1.35c55cp+0F, 0x1.b2cddp+0F, 0x1.175404p+1F, 0x1.55bd66p+1F, 0x1.b59f96p+1F, 0x1.18b8eep+2F,
		 0x1.55037cp+2F, 0x1.946b62p+2F, 0x1.f18dbp+2F, 0x1.371366p+3F, 0x1.74b1f6p+3F, 0x1.b18d1ap+3F,
		 0x1.f392c4p-4F, 0x1.75bb6ep-2F, 0x1.36449cp-1F, 0x1.b175d2p-1F},
		{0x1.e1caf2p-3F, 0x1.83666ap-3F, 0x1.423a0ap-3F, 0x1.12599p-3F, 0x1.bca46p-4F, 0x1.639c28p-4F,
		 0x1.28da04p-4F, 0x1.f91aap-5F, 0x1.9dbe1p-5F, 0x1.4cbd32p-5F, 0x1.1694bep-5F, 0x1.dfd97ap-6F,
		 0x1.d1bfd6p-2F, 0x1.875d3ep-2F, 0x1.4efc48p-2F, 0x1.23072cp-2F},
		{-0x1.d41684p-4F, -0x1.3e1b26p-4F, -0x1.c76a92p-5F, -0x1.524068p-5F, -0x1.c777p-6F, -0x1.290a4ap-6F,
		 -0x1.a2bc32p-7F, -0x1.316c28p-7F, -0x1.9cb568p-8F, -0x1.0c513ap-8F, -0x1.794348p-9F, -0x1.1854e6p-9F,
		 -0x1.5fb614p-2F, -0x1.09adfap-2F, -0x1.9b096p-3F, -0x1.444394p-3F},
		{0x1.8d2dd6p-5F, 0x1.d5061ep-6F, 0x1.2712fp-6F, 0x1.84a456p-7F, 0x1.babad4p-8F, 0x1.de2544p-9F,
		 0x1.1f4d3p-9F, 0x1.69bd3ep-10F, 0x1.95b86p-11F, 0x1.ac8bep-12F, 0x1.fb5d58p-13F, 0x1.45d772p-13F,
		 0x1.a6da3ep-3F, 0x1.2665fep-3F, 0x1.a4e2cep-4F, 0x1.338892p-4F},
		{-0x1.2fb598p-6F, -0x1.3d338ap-7F, -0x1.63dfb8p-8F, -0x1.a4854ep-9F, -0x1.9ae802p-10F, -0x1.7409eap-11F,
		 -0x1.804346p-12F, -0x1.a41354p-13F, -0x1.8944b8p-14F, -0x1.52fe1ap-15F, -0x1.52d852p-16F,
		 -0x1.78cc36p-17F, -0x1.b290f4p-4F, -0x1.1a9bc8p-4F, -0x1.7a03a8p-5F, -0x1.02c7aep-5F},
		{0x1.aadedep-8F, 0x1.8f4958p-9F, 0x1.93b136p-10F, 0x1.afd40cp-11F, 0x1.6dd82ap-12F, 0x1.18991ep-13F,
		 0x1.f5d3b2p-15F, 0x1.dec6eep-16F, 0x1.781bdap-17F, 0x1.09af42p-18F, 0x1.c19a64p-20F, 0x1.b17fcap-21F,
		 0x1.8c5a38p-5F, 0x1.e5a752p-6F, 0x1.325a64p-6F, 0x1.8bfd78p-7F},
		{-0x1.1986e4p-9F, -0x1.dbdc1cp-11F, -0x1.b43c1p-12F, -0x1.a9a194p-13F, -0x1.3e8d26p-14F,
		 -0x1.a0233p-16F, -0x1.42f6bep-17F, -0x1.0ded8p-18F, -0x1.6a3ce6p-20F, -0x1.a21dc2p-22F,
		 -0x1.2b1bf6p-23F, -0x1.f36e24p-25F, -0x1.48f6c6p-6F, -0x1.7dbf82p-7F, -0x1.c8a018p-8F,
		 -0x1.1842fcp-8F},
		{0x1.57056cp-11F, 0x1.0a31d4p-12F, 0x1.bcd7aep-14F, 0x1.903e84p-15F, 0x1.0f56dp-16F, 0x1.2f1e84p-18F,
		 0x1.8e68a4p-20F, 0x1.2b637ep-21F, 0x1.537d34p-23F, 0x1.447bd8p-25F, 0x1.86ce5p-27F, 0x1.20d7eep-28F,
		 0x1.f6889p-8F, 0x1.15ea92p-8F, 0x1.3af1d8p-9F, 0x1.6ebd82p-10F},
	},
};

/* a number as (high + low) 2^k */
struct scaled {
	vf high, low, k;
};

/* exp(-a^2 / 2) f(a). The square has its rounding error beside it. b bounds a from below: no square is denormal. */
LANEWISE struct scaled gauss_times_f(vf a, const struct pieces *f)
{
	const vf b = greater_f(splat_f(0x1p-40F), a), square = b * b, low = fma_f(b, b, -square);
	const struct power e = power_f(square * splat_f(-0.5F));
	const vf factor = by_pieces_f(f, a, false), high = factor * e.y;
	const vf lost = fma_f(factor, fma_f(low * splat_f(-0.5F), e.y, e.low), fma_f(factor, e.y, -high));

	return (struct scaled){high, lost, e.k};
}

/* x Phi(x) = max(x, 0) - a Phi(-a), a = |x|, which does not subtract nearly equal numbers */
LANEWISE vf gelu_plain_f(vf x)
{
	const vf a = lesser_f(splat_f(tail_pieces.last), abs_f(x));
	const struct scaled tail = gauss_times_f(a, &tail_pieces);
	const vf beyond = scale_f(fma_f(a, tail.high, a * tail.low), tail.k);

	return select_sign_f((vui)x, -beyond, x - beyond);
}

/*
 * exp(a^2 / 2) times gelu's derivative at -a. Its zero, near 0.75, is in the middle of a piece. The centre of that piece
 * is the float next to the zero, so nothing cancels.
 */
static const struct pieces slope_pieces = {
	.scale = 0.83F,
	.last = 14.6F,
	.rows = {
		{0x1.81d9c6p+0F, 0x1.0d5d28p+1F, 0x1.5aea6cp+1F, 0x1.a7cc32p+1F, 0x1.0d9d5p+2F, 0x1.5be266p+2F, 0x1.a99c14p+2F, 0x1.f70456p+2F, 0x1.34fceep+3F, 0x1.82d438p+3F, 0x1.be097cp+3F, 0x1.ebcf9ap+3F, 0x1.2e618ap-3F, 0x1.c853eep-2F, 0x1.80ead2p-1F, 0x1.0e7672p+0F},
		{-0x1.95acf2p-2F, -0x1.5b034ep-1F, -0x1.e5dadep-1F, -0x1.358fe4p+0F, -0x1.972ea6p+0F, -0x1.0c77a6p+1F, -0x1.4c125ap+1F, -0x1.8af3ecp+1F, -0x1.e7d70ep+1F, -0x1.328c02p+2F, -0x1.621048p+2F, -0x1.86c108p+2F, 0x1.8c89d8p-2F, 0x1.799da8p-3F, -0x1.dc87p-28F, -0x1.56f9d8p-3F},
		{-0x1.f46f8cp-2F, -0x1.d46b5cp-2F, -0x1.c1d5p-2F, -0x1.b6893p-2F, -0x1.ac727ep-2F, -0x1.a52214p-2F, -0x1.a13068p-2F, -0x1.9ed50ep-2F, -0x1.9cc3b6p-2F, -0x1.9b41c8p-2F, -0x1.9a968p-2F, -0x1.9a399p-2F, -0x1.76ca5p-1F, -0x1.45e25p-1F, -0x1.25126cp-1F, -0x1.0f1d92p-1F},
		{0x1.1e0a8ap-5F, 0x1.3ccd4ep-6F, 0x1.782624p-7F, 0x1.ddaf1ep-8F, 0x1.08f608p-8F, 0x1.105bd8p-9F, 0x1.3a258ep-10F, 0x1.8961d8p-11F, 0x1.b4f296p-12F, 0x1.c71d9ap-13F, 0x1.2bc0b4p-13F, 0x1.c191e2p-14F, 0x1.967f68p-3F, 0x1.0674a8p-3F, 0x1.5b297ep-4F, 0x1.db5be6p-5F},
		{-0x1.959ca8p-7F, -0x1.85000ap-8F, -0x1.937afcp-9F, -0x1.c4d4p-10F, -0x1.a8d982p-11F, -0x1.666fecp-12F, -0x1.5d3642p-13F, -0x1.79aa46p-14F, -0x1.5bc0a6p-15F, -0x1.256768p-16F, -0x1.511dcap-17F, -0x1.cc9ce2p-18F, -0x1.9ebcfcp-4F, -0x1.ecb8cp-5F, -0x1.2bacd2p-5F, -0x1.7a55b4p-6F},
		{0x1.0a5cep-8F, 0x1.c092d8p-10F, 0x1.9b05f8p-11F, 0x1.9b6382p-12F, 0x1.49b766p-13F, 0x1.ccbf1p-15F, 0x1.7d79e8p-16F, 0x1.65ad54p-17F, 0x1.123ab4p-18F, 0x1.77d4ccp-20F, 0x1.7a0f9cp-21F, 0x1.d20f16p-22F, 0x1.77e788p-5F, 0x1.9f2caap-6F, 0x1.d507d2p-7F, 0x1.13791p-7F},
		{-0x1.4b94a2p-10F, -0x1.eea874p-12F, -0x1.930fcap-13F, -0x1.6d0884p-14F, -0x1.f9fc6cp-16F, -0x1.256bb8p-17F, -0x1.9e615p-19F, -0x1.4db7d2p-20F, -0x1.b6fc72p-22F, -0x1.e52146p-24F, -0x1.fa7096p-25F, -0x1.36ffdep-26F, -0x1.36cap-6F, -0x1.41825ep-7F, -0x1.53aac8p-8F, -0x1.74b27ap-9F},
		{0x1.846dc2p-12F, 0x1.ff0f2ap-14F, 0x1.787814p-15F, 0x1.2df58ep-16F, 0x1.724dc4p-18F, 0x1.730b1ap-20F, 0x1.c239bap-22F, 0x1.4a9cap-23F, 0x1.56c33ep-25F, 0x1.3d7dbcp-27F, 0x1.2f221ep-29F, 0x1.c61aecp-27F, 0x1.d0967ap-8F, 0x1.bdfbf6p-9F, 0x1.c86b32p-10F, 0x1.ed13fp-11F},
	},
};

/* With s = the derivative at -|x|, that at |x| is 1 - s. */
LANEWISE vf gelu_derivative_plain_f(vf x)
{
	const struct scaled slope = gauss_times_f(lesser_f(splat_f(slope_pieces.last), abs_f(x)), &slope_pieces);
	const vf below = scale_f(slope.high + slope.low, slope.k);

	return select_sign_f((vui)x, below, splat_f(1) - below);
}
#else
/* exp(-a^2 / 2) = (1 + r + tail) 2^k, |r| <= ln2 / 2 */
struct bell {
	vf r, tail;
	vf rounded; /* k in its low bits */
};

/* a in [0, 17]. The square has its rounding error beside it. b bounds a from below: no square is denormal. */
LANEWISE struct bell bell_f(vf a)
{
	const vf b = greater_f(splat_f(0x1p-30F), a), half = b * splat_f(-0.5F), x = half * b, low = fma_f(half, b, -x);
	const vf rounded = fma_f(x, splat_f(0x1.715476p+0F), splat_f(0x1.8p23F)), k = rounded - splat_f(0x1.8p23F);
	const vf r = nfma_f(k, splat_f(0x1.62e4p-1F), x) + nfma_f(k, splat_f(0x1.7f7d1cp-20F), low);

	return (struct bell){r, r * exp_tail_f(r) * r, rounded};
}

/*
 * unit (high + low) exp(-a^2 / 2). unit is a power of two. Of the two products with powers of two only the last can be
 * inexact: if k is not 0, |high| is in [2^-5, 8).
 */
LANEWISE vf times_bell_f(vf high, vf low, struct bell bell, float unit)
{
	const vf sum = high + low, y = fma_f(sum, bell.r, fma_f(sum, bell.tail, low)) + high;

	return y * (vf)(((vui)bell.rounded << 23) + ((127U + 64) << 23)) * splat_f(unit * 0x1p-64F);
}

/* (a - centre) / (a + centre). The quotient a / (a + centre), which is precise near 0, comes first. */
LANEWISE vf centred_f(vf a, float centre) { return fma_f(splat_f(2), a / (a + splat_f(centre)), splat_f(-1)); }

/*
 * x Phi(x) = max(x, 0) - a Phi(-a), a = |x|, which does not subtract nearly equal numbers. 2 a Phi(-a) exp(a^2 / 2) is
 * v (1 + p t): v = a / (a + shift), p is a polynomial in t = centred_f, and p t is in [-0.21, 0.3]. v = quotient + rest /
 * sum, where rest is exact but for its last rounding. (1 + p t) / sum is nearly 1 - 1.04 v: rest needs no second division.
 */
LANEWISE vf gelu_plain_f(vf x)
{
	const vf a = lesser_f(splat_f(14.4F), abs_f(x)), t = centred_f(a, 0x1.00d80ap+2F);
	const vf shift = splat_f(0x1.4c7p+0F), sum = a + shift, sum_lost = a - (sum - shift);
	const vf quotient = a / sum, rest = nfma_f(quotient, sum_lost, nfma_f(quotient, sum, a));
	const vf pt = t * POLYNOMIAL_HALVES_F(t, -0x1.2de6bcp-2F, 0x1.a5306ep-4F, 0x1.c2371p-7F, -0x1.77051ap-5F,
	                                      0x1.fc14bep-6F, -0x1.46670cp-7F, -0x1.a0d772p-14F, 0x1.4ff92ap-10F,
	                                      -0x1.7f679ap-13F, -0x1.2f5a6p-13F);
	const vf high = fma_f(quotient, pt, quotient);
	const vf low = fma_f(rest, nfma_f(quotient, splat_f(1.04F), splat_f(1)), fma_f(quotient, pt, quotient - high));

	return greater_f(splat_f(-0.0F), x) - times_bell_f(high, low, bell_f(a), 0.5F);
}

/*
 * With s = gelu's derivative at -|x|, that at |x| is 1 - s. s is (zero - a) h exp(-a^2 / 2), where zero is the zero of s,
 * and h = middle + p t, p a polynomial in t = centred_f. zero is the sum of two floats, and near it zero - a is exact.
 * So s is precise, relative to itself, around its zero.
 */
LANEWISE vf gelu_derivative_plain_f(vf x)
{
	const vf a = lesser_f(splat_f(14.6F), abs_f(x)), t = centred_f(a, 0x1.0023p+2F), middle = splat_f(0x1.d946acp-2F);
	const vf pt = t * POLYNOMIAL_HALVES_F(t, -0x1.a74126p-4F, 0x1.ef5a98p-5F, -0x1.cc7acep-6F, 0x1.3820f2p-7F,
	                                      -0x1.d78daep-10F, -0x1.4297f4p-13F, 0x1.85c1a2p-13F, -0x1.c2fa22p-17F,
	                                      -0x1.0ecb14p-16F);
	const vf h = middle + pt, h_low = pt - (h - middle);
	const vf from_zero = splat_f(0x1.80ead2p-1F) - a, high = from_zero * h;
	const vf low = fma_f(from_zero, h_low, fma_f(splat_f(-0x1.a03fd4p-27F), h, fma_f(from_zero, h, -high)));
	const vf below = times_bell_f(high, low, bell_f(a), 1);

	return select_sign_f((vui)x, below, splat_f(1) - below);
}
#endif
#else
LANEWISE vf exp_f(vf x) { return FROM_LANES(exp, clamp_f(x, -120, 100)); }
LANEWISE vf tanh_f(vf x) { return copysign_f(FROM_LANES(tanh, clamp_f(x, -20, 20)), x); }
LANEWISE vf sigmoid_f(vf x) { return FROM_LANES(sigmoid, clamp_f(x, -120, 120)); }
LANEWISE vf erf_f(vf x) { return FROM_LANES(erf, x); }
LANEWISE vf gelu_plain_f(vf x) { return FROM_LANES(gelu, x); }
LANEWISE vf gelu_derivative_plain_f(vf x) { return FROM_LANES(gelu_derivative, x); }
LANEWISE vf rsqrt_plain_f(vf x) { return FROM_LANES(rsqrt, x); }
LANEWISE vf silu_plain_f(vf x) { return FROM_LANES(silu, x); }
LANEWISE vf log_plain_f(vf x) { return FROM_LANES(log, x); }
LANEWISE vf log1p_plain_f(vf x) { return FROM_LANES(log1p, x); }
#endif
LANEWISE vf softplus_f(vf x) { return FROM_LANES(softplus, x); }
LANEWISE vf atan_f(vf x) { return FROM_LANES(atan, x); }
LANEWISE vf asin_f(vf x) { return FROM_LANES(asin, x); }
LANEWISE vf acos_f(vf x) { return FROM_LANES(acos, x); }
LANEWISE vf gauss_f(vf x) { return FROM_LANES(gauss, x); }

/* NaN if x is infinite: the derivatives have infinity times 0 there */
LANEWISE vf derivative_or_nan(vf y, vf x) { return select_f(abs_f(x) == splat_f(INFINITY), splat_f(NAN), y); }
LANEWISE vf gelu_derivative_f(vf x) { return derivative_or_nan(gelu_derivative_plain_f(x), x); }
LANEWISE vf gelu_tanh_derivative_f(vf x) { return derivative_or_nan(FROM_LANES(gelu_tanh_derivative, x), x); }
LANEWISE vf silu_derivative_f(vf x) { return derivative_or_nan(FROM_LANES(silu_derivative, x), x); }

/* NaN if x is -inf: the functions have -inf times 0 there, as in NumPy */
LANEWISE vf times_vanishing(vf y, vf x) { return select_f(x == splat_f(-INFINITY), splat_f(NAN), y); }
LANEWISE vf gelu_f(vf x) { return times_vanishing(gelu_plain_f(x), x); }
LANEWISE vf gelu_tanh_f(vf x) { return times_vanishing(FROM_LANES(gelu_tanh, x), x); }
LANEWISE vf silu_f(vf x) { return times_vanishing(silu_plain_f(x), x); }

LANEWISE vf log_f(vf x)
{
	vf y = log_plain_f(x);
	const vi plain = (x >= splat_f(FLT_MIN)) & (x < splat_f(INFINITY));

	if (__builtin_expect(bits_f(~plain) != 0, 0)) {
		const vi denormal = (x > splat_f(0)) & (x < splat_f(FLT_MIN));
		const vf special = select_f(x == splat_f(0), splat_f(-INFINITY), select_f(x < splat_f(0), splat_f(NAN), x));
		y = select_f(plain, y, special);
		if (bits_f(denormal))
			y = select_f(denormal, FROM_LANES(log, x), y);
	}
	return y;
}

LANEWISE vf rsqrt_f(vf x)
{
	vf y = rsqrt_plain_f(x);
	const vi plain = (x >= splat_f(FLT_MIN)) & (x < splat_f(INFINITY));

	if (ISA_FMA && __builtin_expect(bits_f(~plain) != 0, 0))
		y = select_f(plain, y, FROM_LANES(rsqrt, x));
	return y;
}

LANEWISE vf log1p_f(vf x)
{
	vf y = copysign_f(log1p_plain_f(x), x);
	const vi plain = (x > splat_f(-1)) & (x < splat_f(INFINITY));

	if (__builtin_expect(bits_f(~plain) != 0, 0)) {
		const vf special = select_f(x == splat_f(-1), splat_f(-INFINITY), select_f(x < splat_f(-1), splat_f(NAN), x));
		y = select_f(plain, y, special);
	}
	return y;
}

/* NAME_near_f: sine, cosine and tangent of x, |x| up to near_bound (tangent: trig_bound). */
LANEWISE vf tan_near_f(vf x) { return FROM_LANES(tan, x); }
#if ISA_FMA
static const float near_bound = 0x1p10F;

/*
 * x = n pi/2 + r - over, |r| <= pi/4. pi/2 has parts of 23, 13 and 24 bits. x less n
 * times the first part is exact, and so is n < 2^11 times the second. So OVER is the exact
 * rounding error of r (Dekker) plus n times the third part. -0 stays -0.
 */
struct quarter {
	vui n;
	vf r, over;
	vf z; /* (r - over)^2 */
};

LANEWISE struct quarter quarter_f(vf x)
{
	struct quarter q;
	const vf rounded = fma_f(x, splat_f(0x1.45f306p-1F), splat_f(0x1.8p23F));
	const vf n = rounded - splat_f(0x1.8p23F);
	const vf rest = nfma_f(n, splat_f(0x1.921fb4p+0F), x);

	q.r = nfma_f(n, splat_f(0x1.444p-24F), rest);
	q.over = fma_f(n, splat_f(0x1.444p-24F), q.r - rest);
	q.over = fma_f(n, splat_f(0x1.68c234p-39F), q.over);
	q.z = fma_f(q.r, q.r, (q.r * splat_f(-2)) * q.over);
	q.n = (vui)rounded;
	return q;
}

/* What quarter_f returns if n is 0. n is 0 if x^2 is at most zeroth_bound. */
static const float zeroth_bound = 0x1.3bp-1F;
LANEWISE struct quarter zeroth_quarter_f(vf x) { return (struct quarter){.r = x, .over = splat_f(0), .z = x * x}; }

LANEWISE vf sine_of(struct quarter q)
{
	const vf s = POLYNOMIAL_F(q.z, 0x1.555546p-3F, -0x1.110736p-7F, 0x1.994232p-13F);
	return q.r - fma_f(q.r * q.z, s, q.over);
}

LANEWISE vf cosine_of(struct quarter q)
{
	return POLYNOMIAL_F(q.z, 1, -0.5F, 0x1.55554ap-5F, -0x1.6c0c2ep-10F, 0x1.99ea06p-16F);
}

/*
 * Returns the sine of the x that quarter_f reduced to Q, or its cosine if COSINE. Let s and c be the sine and cosine of
 * the reduced angle. Then the sine in quarters 0 to 3 is s, c, -s, -c. The cosine is c, -s, -c, s.
 */
LANEWISE vf sine_or_cosine_f(struct quarter q, bool cosine)
{
	const vui odd = q.n << 31, second = q.n << 30;
	const vf of_sine = sine_of(q), of_cosine = cosine_of(q);

	if (cosine)
		return negated_f(select_sign_f(odd, of_sine, of_cosine), second ^ odd);
	return negated_f(select_sign_f(odd, of_cosine, of_sine), second);
}

LANEWISE vf sin_near_f(vf x) { return sine_or_cosine_f(quarter_f(x), false); }
LANEWISE vf cos_near_f(vf x) { return sine_or_cosine_f(quarter_f(x), true); }
/* If all lanes are in quarter 0, as in most sines of sines, a third of the operations gives the same bits. */
#define IF_ZEROTH(FUNCTION)                                                                                            \
	if (within_f(x * x, zeroth_bound))                                                                                 \
		return FUNCTION(zeroth_quarter_f(x));
#else
#define IF_ZEROTH(FUNCTION)
static const float near_bound = trig_bound;
LANEWISE vf sin_near_f(vf x) { return FROM_LANES(sin, x); }
LANEWISE vf cos_near_f(vf x) { return FROM_LANES(cos, x); }
#endif

/*
 * Lanes beyond BOUND are computed in double lanes, those beyond trig_bound and NaN by
 * the C library, which reduces every double exactly. The branch comes first: then a sine
 * and the cosine kept beside it are one block of code, in which the compiler shares what
 * both compute. NEAREST is empty, or returns early if all lanes are in quarter 0.
 */
#define TRIG(NAME, BOUND, NEAREST)                                                                                     \
	COLD void NAME##_far(const vf *x, vf *y)                                                                           \
	{                                                                                                                  \
		*y = select_f(abs_f(*x) > splat_f(BOUND), FROM_LANES(NAME, *x), NAME##_near_f(*x));                            \
		if (!within_f(abs_f(*x), trig_bound))                                                                          \
			for (int i = 0; i < LANES_F; i++)                                                                          \
				if (!(fabsf((*x)[i]) <= trig_bound))                                                                   \
					(*y)[i] = (float)NAME((double)(*x)[i]);                                                            \
	}                                                                                                                  \
	LANEWISE vf NAME##_f(vf x)                                                                                         \
	{                                                                                                                  \
		NEAREST                                                                                                        \
		if (__builtin_expect(!within_f(x * x, BOUND * BOUND), 0)) {                                                    \
			vf far = x, y;                                                                                             \
			NAME##_far(&far, &y);                                                                                      \
			return y;                                                                                                  \
		}                                                                                                              \
		return NAME##_near_f(x);                                                                                       \
	}
TRIG(sin, near_bound, IF_ZEROTH(sine_of))
TRIG(cos, near_bound, IF_ZEROTH(cosine_of))
TRIG(tan, trig_bound, )

/* Replaces lanes where x is 0, or x or y is infinite or NaN: the C library's pow has C99's special cases. */
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
