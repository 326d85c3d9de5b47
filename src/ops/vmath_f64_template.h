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

/* 1 - sigmoid(x + low); *S: sigmoid(x + low) */
LANEWISE vd sigmoid_rest(vd x, vd low, vd *s)
{
	const vl negative = x < splat_d(0);
	const vd z = exp_shifted(-abs_d(x), select_d(negative, low, -low), 0);
	const vd half = splat_d(1) / (splat_d(1) + z);

	*s = select_d(negative, z * half, half);
	return select_d(negative, half, z * half);
}

/*
 * Defines NAME_near_zero(x), a derivative around its zero, ZERO + REST: a polynomial (coefficients.py) times the distance to
 * the zero. The terms of the derivative's formula cancel there.
 */
#define NEAR_ZERO(NAME, ZERO, REST, ...)                                                                               \
	LANEWISE vd NAME##_near_zero(vd x)                                                                                 \
	{                                                                                                                  \
		const vd t = (x - splat_d(ZERO)) - splat_d(REST);                                                              \
		return t * POLYNOMIAL_HALVES(t, __VA_ARGS__);                                                                  \
	}
/* y, but F(x) in lanes where LOW < x < HIGH */
#define BETWEEN(LOW, HIGH, F, X, Y) select_d((X > splat_d(LOW)) & (X < splat_d(HIGH)), F(X), Y)
NEAR_ZERO(silu, -0x1.474973c84120bp+0, -0x1.f8d74bc9ac154p-54, 0x1.be1410460527fp-3, 0x1.2c563458cc0adp-3,
          0x1.353eb573ca439p-6, -0x1.f2d0e32bc2c92p-7, -0x1.b0f82c498e624p-8, 0x1.098e92bab3576p-13,
          0x1.a2a7caf037725p-11, 0x1.8574d118ad516p-13, -0x1.57238d999714fp-15, -0x1.f2d88ee32d834p-16,
          -0x1.8af3f4a0e8d1ep-19, 0x1.3adfa65b6440dp-19, 0x1.cdabe40406838p-21, -0x1.0544cc922ad76p-25,
          -0x1.8d465e9ccce8fp-24, -0x1.45a361c340fa0p-26, 0x1.277a26f010e63p-28, 0x1.7ed0087f3c1f1p-29,
          0x1.dad5f8af89c93p-32)

LANEWISE vd silu_derivative_d(vd x)
{
	vd s;
	const vd rest = sigmoid_rest(x, splat_d(0), &s);
	return BETWEEN(-2.2, -0.7, silu_near_zero, x, s * fma_d(x, rest, splat_d(1)));
}

/* w = linear (1 + cubic) = 2 sqrt(2/pi) (x + 0.044715 x^3); HIGH + LOW is w, and CUBIC_LOW what the rounding of CUBIC lost */
struct gelu_argument {
	vd high, low, linear, cubic, cubic_low;
};
LANEWISE struct gelu_argument gelu_tanh_argument(vd x)
{
	struct gelu_argument w;
	vd square_low, sum_low, linear_low, product_low;
	const vd square = two_product(x, x, &square_low);
	w.cubic = two_product(splat_d(0x1.6e4e26d4801f7p-5), square, &w.cubic_low);
	w.cubic_low += splat_d(0x1.6e4e26d4801f7p-5) * square_low + splat_d(0x1.441355475a31ap-59) * square;
	const vd sum = two_sum(splat_d(1), w.cubic, &sum_low);
	sum_low += w.cubic_low;
	w.linear = two_product(x, splat_d(0x1.9884533d43651p+0), &linear_low);
	linear_low -= x * splat_d(0x1.cbc0d30ebfd15p-54);
	w.high = two_product(w.linear, sum, &product_low);
	w.low = product_low + (w.linear * sum_low + linear_low * sum);
	return w;
}

LANEWISE vd gelu_tanh_d(vd x)
{
	const struct gelu_argument w = gelu_tanh_argument(clamp_d(x, -40, 40));
	return times_sigmoid(x, w.high, w.low);
}

NEAR_ZERO(gelu_tanh, -0x1.81429f9e97e4dp-1, 0x1.4f523ed77dbdcp-55, 0x1.b8bacd2c96b91p-2, 0x1.8cd1a2b2fff33p-2, -0x1.029615edb0723p-6, -0x1.d2b77346472d4p-4, -0x1.104a83edc322fp-6, 0x1.427996dc3ead7p-6, 0x1.58c9ed72b58fdp-8, -0x1.3d8d6428158cfp-9, -0x1.e63f2a4366107p-11, 0x1.14bf8ed5ae88ap-12, 0x1.04939e87924e7p-13, -0x1.253c9ea839c14p-15, -0x1.0ba6bbd27912ap-16, 0x1.8d34711236fd6p-18, 0x1.47d9d2e411517p-19, -0x1.08365acc9240ap-20, -0x1.e19e7133c10eap-22, 0x1.011f646c70b84p-23, 0x1.689655a3382b3p-24, 0x1.4d9e3a62a85a6p-27)

/*
 * With z = exp(-|w|), and x w' = w + 2 linear cubic: (1 + z (1 + x w')) / (1 + z)^2 for w > 0, z (z + 1 + x w') / (1 + z)^2
 * for w < 0. At infinity, x - x is NaN.
 */
LANEWISE vd gelu_tanh_derivative_d(vd x)
{
	const struct gelu_argument w = gelu_tanh_argument(clamp_d(x, -40, 40));
	const vl negative = w.high < splat_d(0);
	const vd z = exp_shifted(-abs_d(w.high), select_d(negative, w.low, -w.low), 0), sum = splat_d(1) + z;
	vd product_low, product_rest, lost;
	const vd twice = w.linear + w.linear, product = two_product(twice, w.cubic, &product_low);
	const vd grown = two_sum(splat_d(1), two_sum(w.high, product, &product_rest), &lost);
	const vd rest = (lost + product_rest + product_low) + fma_d(twice, w.cubic_low, w.low);
	const vd above = select_d(negative, z * (grown + (z + rest)), fma_d(z, grown + rest, splat_d(1)));
	return BETWEEN(-1.5, -0.25, gelu_tanh_near_zero, x, above / (sum * sum) + (x - x));
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

NEAR_ZERO(gelu, -0x1.80ead197f00b4p-1, 0x1.13e74c58cada8p-56, 0x1.b9d98fa5a3215p-2, 0x1.8d9a941de3ac6p-2, -0x1.2a2ef9bb864e6p-6, -0x1.d2fa4c17c8059p-4, -0x1.e408824500935p-7, 0x1.3e346def51fb8p-6, 0x1.297b9d71c382bp-8, -0x1.258a6d8c21bf3p-9, -0x1.8680f823e806dp-11, 0x1.86c8659acf610p-13, 0x1.69613f017e9a2p-14, -0x1.784a4f8d7a440p-17, -0x1.0406140e7ee78p-17, 0x1.cfeb7760b13a1p-22, 0x1.3317b94bf00d8p-21, 0x1.437240a484c7fp-30, -0x1.35ee362cf43c8p-25, -0x1.436ada268f42fp-28)

LANEWISE vd gelu_derivative_d(vd x)
{
	vd gauss;
	const vd phi = normal_d(clamp_d(x, -40, 40), &gauss);
	return BETWEEN(-1.5, -0.25, gelu_near_zero, x, fma_d(x, gauss * splat_d(0x1.9884533d43651p-2), phi));
}
