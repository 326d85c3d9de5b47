/*
 * The functions of doubles. Ours replace those of SLEEF's that err by more than 1 ulp,
 * lose special cases, do not compute a pair in one pass, or are slower. The others are
 * SLEEF's u10 (erfc: u15) or, in a build without SLEEF, the C library's. If a function would
 * amplify the rounding of an intermediate value, a second double holds that rounding.
 */
#if !defined(WITHOUT_SLEEF) && (defined(ISA_SLEEF) || __has_include(<sleef.h>))
#include <sleef.h>
#define SCALAR(NAME, ULP) Sleef_##NAME##_##ULP
#else
#undef ISA_SLEEF
#define SCALAR(NAME, ULP) NAME
#endif

#ifdef ISA_SLEEF
#define SLEEF(NAME, ULP)                                                                                               \
	LANEWISE vd NAME##_sleef(vd x) { return ISA_SLEEF(NAME, ULP)(x); }
LANEWISE vd pow_sleef(vd x, vd y) { return ISA_SLEEF(pow, u10)(x, y); }
#else
/* Calls a scalar function for each lane. */
#define SLEEF(NAME, ULP)                                                                                               \
	static __attribute__((noinline)) vd NAME##_sleef(vd x)                                                             \
	{                                                                                                                  \
		vd y;                                                                                                          \
		for (int i = 0; i < LANES_D; i++)                                                                              \
			y[i] = SCALAR(NAME, ULP)(x[i]);                                                                            \
		return y;                                                                                                      \
	}
LANEWISE vd pow_sleef(vd x, vd y)
{
	vd z;
	for (int i = 0; i < LANES_D; i++)
		z[i] = SCALAR(pow, u10)(x[i], y[i]);
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

/* Near the largest double (within 2e-6 of it) SLEEF's pow is already infinite. The C library's is not. */
COLD void pow_large(const vd *x, const vd *y, vd *z)
{
	for (int i = 0; i < LANES_D; i++)
		if (isinf((*z)[i]))
			(*z)[i] = pow((*x)[i], (*y)[i]);
}
LANEWISE vd pow_d(vd x, vd y)
{
	vd z = pow_sleef(x, y);
	if (__builtin_expect(bits_d(abs_d(z) == splat_d(INFINITY)) != 0, 0)) {
		vd base = x, exponent = y, result = z;
		pow_large(&base, &exponent, &result);
		z = result;
	}
	return z;
}

/* x if |x| is below BOUND, where the function is x to less than half an ulp; else y */
LANEWISE vd near_zero(vd y, vd x, double bound) { return select_d(abs_d(x) < splat_d(bound), x, y); }

LANEWISE vd tan_d(vd x) { return near_zero(tan_sleef(x), x, 0x1p-27); }

/* without FMA SLEEF's erf is wrong for small numbers */
LANEWISE vd erf_d(vd x)
{
	const vd small = x * splat_d(0x1.20dd750429b6dp+0) + x * splat_d(0x1.1ae3a914fed80p-56);
	return select_d(abs_d(x) < splat_d(0x1p-28), small, erf_sleef(x));
}

/* SLEEF's log1p is infinite from 1e307 on */
COLD void log1p_large(const vd *x, vd *y) { *y = select_d(*x > splat_d(0x1p1000), log_sleef(*x), *y); }
LANEWISE vd log1p_d(vd x)
{
	return repaired_d(x > splat_d(0x1p1000), x, near_zero(log1p_sleef(x), x, 0x1p-54), log1p_large);
}

/*
 * The exponential family of doubles. SLEEF's are slower, and err by more than 1 ulp
 * or are infinite near the overflow.
 *
 * x + low = k ln 2 + r + d, where d holds low and the rounding error of r.
 *
 * cosh(r) - 1 and sinh(r) - r are so small that their rounding errors are at most about
 * a tenth of the result's.
 */
struct growth {
	vd k, r;
	vd even;   /* cosh(r + d) - 1 */
	vd odd;    /* sinh(r + d) - r */
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
	g.fourth = (z * z) * POLYNOMIAL(z, 0x1.5555555555558p-5, 0x1.6c16c16c15052p-10, 0x1.a01a01ad61a04p-16,
	                                0x1.27e4cc533bc22p-22, 0x1.1f8b72ff2d904p-29);
	const vd even = fma_d(splat_d(0.5), z, g.fourth);
	const vd odd = (g.r * z) * POLYNOMIAL(z, 0x1.5555555555559p-3, 0x1.111111110f6b3p-7, 0x1.a01a01afe3295p-13,
	                                      0x1.71ddf85932da6p-19, 0x1.af5eb46017597p-26);
	g.even = fma_d(d, g.r + odd, even);
	g.odd = odd + fma_d(d, even, d);
	return g;
}

/* x 2^exponent for an integer within [-2044, 2046], rounded once if the result is denormal */
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

/* 2^k (1 + r + ...) - 1, computed at half its size, so that 2^k does not overflow before the result */
LANEWISE vd expm1_d(vd x)
{
	const struct growth g = growth_reduce(clamp_d(x, -60, 709.9), splat_d(0));
	const vd up = scale_d(splat_d(1), g.k - splat_d(1));
	vd whole_low, low;
	const vd whole = two_sum(up, splat_d(-0.5), &whole_low);
	const vd sum = two_sum(whole, up * g.r, &low);
	/* r^2 exactly: at k = 1 the term 2^k r^2 / 2 is up to 0.29 of the result, so the rounding of r^2 would matter */
	vd square_low, low2;
	const vd square = two_product(g.r, g.r, &square_low);
	const vd sum2 = two_sum(sum, up * (splat_d(0.5) * square), &low2);
	const vd rest = fma_d(splat_d(0.5), square_low, fma_d(g.d, g.r, g.fourth) + g.odd);
	const vd y = sum2 + ((low + low2 + whole_low) + up * rest);
	return near_zero(copysign_d(y + y, x), x, 0x1p-54);
}

/*
 * sinh, or cosh if EVEN, times 2^-60, as a sum of two doubles: (up -+ down)(1 + even) +
 * (up +- down)(r + odd), up = 2^(k-61), down = 2^(-k-61), k >= 0
 */
LANEWISE vd hyperbolic(struct growth g, bool even, vd *low)
{
	const vd up = scale_d(splat_d(1), g.k - splat_d(61));
	/* bounded, so that it is normal: where it is far below `up`, its value does not matter */
	const vd down = scale_d(splat_d(1), greater_d(splat_d(-1000), splat_d(-61) - g.k));
	vd less_low, more_low, product_low, sum_low;
	const vd less = two_sum(up, -down, &less_low), more = two_sum(up, down, &more_low);
	const vd main = even ? more : less, other = even ? less : more;
	const vd product = two_product(other, g.r, &product_low);
	const vd sum = two_sum(main, product, &sum_low);
	const vd low_parts = (sum_low + (even ? more_low : less_low)) + fma_d(even ? less_low : more_low, g.r, product_low);
	const vd rest = low_parts + fma_d(main, g.even, other * g.odd);
	const vd y = sum + rest;

	*low = (sum - y) + rest;
	return y;
}

LANEWISE vd sinh_d(vd x)
{
	vd low;
	const vd y = hyperbolic(growth_reduce(lesser_d(splat_d(710.6), abs_d(x)), splat_d(0)), false, &low);
	return near_zero(copysign_d(y * splat_d(0x1p60), x), x, 0x1p-27);
}

LANEWISE vd cosh_d(vd x)
{
	vd low;
	const vd y = hyperbolic(growth_reduce(lesser_d(splat_d(710.6), abs_d(x)), splat_d(0)), true, &low);
	return y * splat_d(0x1p60);
}

/* sinh / cosh: the rounded quotient, corrected by its error */
LANEWISE vd tanh_d(vd x)
{
	const struct growth g = growth_reduce(lesser_d(splat_d(20), abs_d(x)), splat_d(0));
	vd s_low, c_low, low;
	const vd s = hyperbolic(g, false, &s_low), c = hyperbolic(g, true, &c_low);
	const vd inverse = splat_d(1) / c;
	const vd q = s * inverse;
	const vd product = two_product(q, c, &low);
	const vd y = fma_d(((s - product) - low) + (s_low - q * c_low), inverse, q);
	return near_zero(copysign_d(y, x), x, 0x1p-27);
}

/*
 * Sine and cosine of doubles: x - k pi/2 = r + low with an error of about 2^-100. A double
 * other than 0 and within the bound is at least 2^-62 away from a multiple of pi/2 other than 0.
 * Each function has the polynomials of both for |r| <= pi/4, so that the pair costs as much as one.
 */
#if ISA_FMA
static const double quarters_bound = 0x1p30;
#else
static const double quarters_bound = 0x1p19;
#endif
struct quarters {
	vd r, low;
	vl k;
};

LANEWISE struct quarters quarters_of(vd x)
{
	struct quarters t;
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

LANEWISE vd quarters_sine(struct quarters t)
{
	const vd z = t.r * t.r;
	const vd p = POLYNOMIAL(z, -0x1.5555555555549p-3, 0x1.111111110f880p-7, -0x1.a01a019c1256dp-13,
	                        0x1.71de357860a38p-19, -0x1.ae5e66c435402p-26, 0x1.5d932a2a556b9p-33);
	return t.r + fma_d(t.r * z, p, nfma_d(t.low, splat_d(0.5) * z, t.low));
}

LANEWISE vd quarters_cosine(struct quarters t)
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
	const struct quarters t = quarters_of(x);
	const vd s = select_d((t.k & 1) != 0, quarters_cosine(t), quarters_sine(t));
	return select_d(x == splat_d(0), x, (vd)((vul)s ^ (((vul)t.k & 2) << 62)));
}

LANEWISE vd cos_near(vd x)
{
	const struct quarters t = quarters_of(x);
	const vd c = select_d((t.k & 1) != 0, quarters_sine(t), quarters_cosine(t));
	return (vd)((vul)c ^ ((((vul)t.k + 1) & 2) << 62));
}

/* beyond quarters_bound, SLEEF's function, which reduces as Payne and Hanek, or the C library's if SLEEF is absent */
#define TRIG_DOUBLE(NAME)                                                                                              \
	COLD void NAME##_far_d(const vd *x, vd *y)                                                                         \
	{                                                                                                                  \
		*y = select_d(abs_d(*x) > splat_d(quarters_bound), NAME##_sleef(*x), *y);                                          \
	}                                                                                                                  \
	LANEWISE vd NAME##_d(vd x)                                                                                         \
	{                                                                                                                  \
		return repaired_d(abs_d(x) > splat_d(quarters_bound), x, NAME##_near(x), NAME##_far_d);                        \
	}
TRIG_DOUBLE(sin)
TRIG_DOUBLE(cos)

/*
 * 1 / sqrt(x): y = 1 / s, where s is the rounded root, corrected to first order by the
 * errors of both roundings. Small and large x are scaled, so that no error underflows
 * and no square overflows.
 */
LANEWISE vd rsqrt_scaled_d(vd x)
{
	const vl small = x<splat_d(0x1p-500), large = x> splat_d(0x1p+500);
	const vd scaled = x * select_d(small, splat_d(0x1p+600), select_d(large, splat_d(0x1p-600), splat_d(1)));
	const vd s = sqrt_d(scaled);
	const vd y = splat_d(1) / s;
	vd square_low, one_low;
	const vd square = two_product(s, s, &square_low);
	const vd one = two_product(y, s, &one_low);
	const vd root_error = (scaled - square) - square_low;  /* x - s^2 */
	const vd inverse_error = (splat_d(1) - one) - one_low; /* 1 - y s */
	const vd better = fma_d(y, inverse_error - splat_d(0.5) * root_error * y * y, y);
	const vd result = better * select_d(small, splat_d(0x1p+300), select_d(large, splat_d(0x1p-300), splat_d(1)));
	return select_d((x > splat_d(0)) & (x < splat_d(INFINITY)), result, splat_d(1) / sqrt_d(x));
}

#if ISA_FMA
LANEWISE vd rsqrt_step_d(vd y, vd error) { return fma_d(splat_d(0.5) * y, error, y); }

COLD void rsqrt_special_d(const vd *x, vd *y)
{
	*y = select_d((*x >= splat_d(DBL_MIN)) & (*x < splat_d(INFINITY)), *y, rsqrt_scaled_d(*x));
}

/* rsqrt_plain_f with one more step. Numbers that are not positive and normal go to rsqrt_scaled_d. */
LANEWISE vd rsqrt_d(vd x)
{
	vd y = (vd)(0x5fe6eb50c7b537a9 - ((vul)x >> 1));
	for (int i = 0; i < 3; i++)
		y = rsqrt_step_d(y, nfma_d(x * y, y, splat_d(1)));
	const vd root = x * y, lost = fma_d(x, y, -root);
	y = rsqrt_step_d(y, nfma_d(lost, y, nfma_d(root, y, splat_d(1))));
	return repaired_d(~((x >= splat_d(DBL_MIN)) & (x < splat_d(INFINITY))), x, y, rsqrt_special_d);
}
#else
LANEWISE vd rsqrt_d(vd x) { return rsqrt_scaled_d(x); }
#endif

/* exp(-x^2), with the rounding error of the square in the exponent */
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

/* x sigmoid(high + low); an exponential that would be denormal is scaled, so that the product is rounded once */
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

/* 1 - sigmoid(x); *S: sigmoid(x) */
LANEWISE vd sigmoid_rest(vd x, vl negative, vd *s)
{
	const vd z = exp_d(-abs_d(x));
	const vd half = splat_d(1) / (splat_d(1) + z);

	*s = select_d(negative, z * half, half);
	return select_d(negative, half, z * half);
}

LANEWISE vd silu_derivative_d(vd x)
{
	vd s;
	const vd rest = sigmoid_rest(x, x < splat_d(0), &s);
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

/* dw uses a clamped x: the square of a large x would overflow, and s or `rest` is 0 there. At infinity x * 0 is NaN. */
LANEWISE vd gelu_tanh_derivative_d(vd x)
{
	vd low;
	const vd near = clamp_d(x, -40, 40);
	const vd high = gelu_tanh_argument(near, &low);
	vd s;
	vd rest = sigmoid_rest(high, x < splat_d(0), &s);
	const vd by_low = s * rest * low; /* the sigmoid's derivative times what its argument lacks */
	s = s + by_low;
	rest = rest - by_low;
	const vd dw = splat_d(0x1.9884533d43651p+0) * (splat_d(1) + splat_d(3 * 0.044715) * near * near);
	return s + x * s * (rest * dw);
}

/* The normal distribution function, |x| <= 40; *GAUSS: exp(-x^2 / 2). erfc' corrects for `low`, u's rounding error. */
LANEWISE vd normal_d(vd x, vd *gauss)
{
	vd low, square_low;
	const vd u = two_product(x, splat_d(-0x1.6a09e667f3bcdp-1), &low);
	low += x * splat_d(0x1.bdd3413b26456p-55);
	const vd square = two_product(u, u, &square_low);
	*gauss = exp_shifted(-square, -square_low - splat_d(2) * u * low, 0);
	return splat_d(0.5) * (erfc_sleef(u) - low * splat_d(0x1.20dd750429b6dp+0) * *gauss);
}

/*
 * gelu for finite x < -37, where the distribution function becomes denormal. Its asymptotic series is
 * -phi(x) (1 - 1/x^2 + 3/x^4 - 15/x^6 ...). phi is scaled, so that the result is rounded once.
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
	return repaired_d(x < splat_d(-37), x, x * normal_d(clamp_d(x, -40, 40), &gauss), gelu_tail);
}

LANEWISE vd gelu_derivative_d(vd x)
{
	vd gauss;
	const vd phi = normal_d(clamp_d(x, -40, 40), &gauss);
	return phi + x * (gauss * splat_d(0x1.9884533d43651p-2));
}
