/*
 * Logarithms of other bases, and functions that are logarithms of a sum or a quotient. Doubles go by one function, log_exact,
 * which takes and returns a value in two doubles. Its error is about 2^-58 of the value, so that a function errs by its last
 * rounding alone. Float lanes go by the doubles of vmath_f32_template.h.
 */

/* high + low, |low| at most half an ulp of high */
struct exact {
	vd high, low;
};

LANEWISE struct exact exact_sum(vd a, vd b)
{
	struct exact sum;
	sum.high = two_sum(a, b, &sum.low);
	return sum;
}

/* a + b, where the low parts are added last */
LANEWISE struct exact exact_add(struct exact a, struct exact b)
{
	struct exact sum = exact_sum(a.high, b.high);
	const vd rest = sum.low + (a.low + b.low), high = sum.high + rest;
	return (struct exact){high, (sum.high - high) + rest};
}

LANEWISE struct exact exact_quotient(struct exact a, struct exact b)
{
	vd lost;
	const vd q = a.high / b.high, product = two_product(q, b.high, &lost);
	const vd rest = ((a.high - product) - lost) + (a.low - q * b.low);
	return (struct exact){q, rest / b.high};
}

/* the root of a positive number, 0 of 0 */
LANEWISE struct exact exact_root(struct exact a)
{
	vd lost;
	const vd root = sqrt_d(a.high), square = two_product(root, root, &lost);
	const vd rest = ((a.high - square) - lost) + a.low;
	return (struct exact){root, select_d(root == splat_d(0), splat_d(0), rest / (root + root))};
}

/*
 * log(h) + more ln 2. H is positive, and F is h - 1, which matters where h is near 1. With h = 2^k m and f = m - 1,
 * log(m) = 2 artanh(s), s = f / (2 + f). The low part of h does not matter where |k| is large.
 */
LANEWISE struct exact log_exact(struct exact h, struct exact f, vd more)
{
	vd k;
	const vl tiny = h.high < splat_d(0x1p-1000);
	const vd m = log_split(select_d(tiny, h.high * splat_d(0x1p100), h.high), &k);
	const vd near = scale_d(splat_d(1), -clamp_d(k, -1000, 1000));
	const struct exact far = exact_sum(m - splat_d(1), h.low * near);
	const vl one = k == splat_d(0);
	const struct exact g = {select_d(one, f.high, far.high), select_d(one, f.low, far.low)};
	struct exact two = exact_sum(splat_d(2), g.high);
	two.low += g.low;
	const struct exact s = exact_quotient(g, two);
	const vd z = s.high * s.high;
	const vd p = POLYNOMIAL(z, 0x1.5555555555555p-1, 0x1.999999999998ep-2, 0x1.24924924939b3p-2, 0x1.c71c71c4bf3cdp-3,
	                        0x1.745d1878085c6p-3, 0x1.3b1353cbf9373p-3, 0x1.1122956030793p-3, 0x1.ddf2057bb6512p-4,
	                        0x1.ecef4ca6998aap-4);
	const vd tail = fma_d(s.high * z, p, (s.low + s.low) * (splat_d(1) + z));
	k = k + more - select_d(tiny, splat_d(100), splat_d(0));
	const struct exact sum = exact_sum(k * splat_d(0x1.62e42fefa3800p-1), s.high + s.high); /* the product is exact */
	const vd rest = sum.low + fma_d(k, splat_d(0x1.ef35793c76730p-45), tail);
	const vd high = sum.high + rest;
	return (struct exact){high, (sum.high - high) + rest};
}

/* log(x) for positive x */
LANEWISE struct exact log_of(vd x)
{
	const struct exact f = exact_sum(x, splat_d(-1));
	return log_exact((struct exact){x, splat_d(0)}, f, splat_d(0));
}
/* log(1 + f) for f > -1 */
LANEWISE struct exact log1p_exact(struct exact f)
{
	return log_exact(exact_add(exact_sum(splat_d(1), f.high), (struct exact){f.low, splat_d(0)}), f, splat_d(0));
}

/* y, but what a logarithm is of 0, of negative numbers, infinity and NaN */
LANEWISE vd log_ends_d(vd y, vd x)
{
	const vd special = select_d(x == splat_d(0), splat_d(-INFINITY), select_d(x < splat_d(0), splat_d(NAN), x));
	return select_d((x > splat_d(0)) & (x < splat_d(INFINITY)), y, special);
}
LANEWISE vf log_ends_f(vf y, vf x)
{
	const vf special = select_f(x == splat_f(0), splat_f(-INFINITY), select_f(x < splat_f(0), splat_f(NAN), x));
	return select_f((x > splat_f(0)) & (x < splat_f(INFINITY)), y, special);
}

/* a (high + low) + b, a and b exact */
LANEWISE vd exact_times(struct exact a, double high, double low)
{
	vd lost;
	const vd product = two_product(a.high, splat_d(high), &lost);
	return product + (lost + fma_d(a.high, splat_d(low), a.low * splat_d(high)));
}

/* The exponent is added last: the logarithm of a power of two is exact. */
LANEWISE vd log2_d(vd x)
{
	const vl tiny = x < splat_d(DBL_MIN);
	vd k, lost;
	const vd m = log_split(select_d(tiny, x * splat_d(0x1p54), x), &k);
	const struct exact log = log_of(m);
	const vd product = two_product(log.high, splat_d(0x1.71547652b82fep+0), &lost);
	const vd low = lost + fma_d(log.high, splat_d(0x1.777d0ffda0d24p-56), log.low * splat_d(0x1.71547652b82fep+0));
	const struct exact sum = exact_sum(k - select_d(tiny, splat_d(54), splat_d(0)), product);
	return log_ends_d(sum.high + (sum.low + low), x);
}
LANEWISE vd log10_d(vd x)
{
	return log_ends_d(exact_times(log_of(x), 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57), x);
}
LANEWISE vd log2_lane(vd x) { return log_lane(x) * splat_d(0x1.71547652b82fep+0); }
LANEWISE vd log10_lane(vd x) { return log_lane(x) * splat_d(0x1.bcb7b1526e50ep-2); }
LANEWISE vf log2_f(vf x) { return log_ends_f(FROM_LANES(log2, x), x); }
LANEWISE vf log10_f(vf x) { return log_ends_f(FROM_LANES(log10, x), x); }

/* ---- inverses of hyperbolic functions ---- */

/* x + x^2 / (1 + sqrt(1 + x^2)), which is exp(asinh(x)) - 1; from 2^30 on asinh(x) is log(2 x) */
LANEWISE vd asinh_d(vd x)
{
	const vd a = abs_d(x);
	const vl far = a > splat_d(0x1p30);
	const vd near = lesser_d(splat_d(0x1p30), a);
	struct exact square;
	square.high = two_product(near, near, &square.low);
	const struct exact one = {splat_d(1), splat_d(0)}, from = {near, splat_d(0)};
	const struct exact below = exact_add(one, exact_root(exact_add(one, square)));
	const struct exact f = exact_add(from, exact_quotient(square, below)), h = exact_add(one, f);
	const struct exact zero = {splat_d(0), splat_d(0)};
	const struct exact of = {select_d(far, a, h.high), select_d(far, zero.low, h.low)};
	const vd y = log_exact(of, f, select_d(far, splat_d(1), splat_d(0))).high;
	return near_zero(copysign_d(select_d(a < splat_d(INFINITY), y, a), x), x, 0x1p-27);
}
LANEWISE vd asinh_lane(vd a) { return log1p_lane(a + a * a / (splat_d(1) + sqrt_d(fma_d(a, a, splat_d(1))))); }
LANEWISE vf asinh_f(vf x)
{
	const vf a = abs_f(x), y = FROM_LANES(asinh, a);
	return copysign_f(select_f(a < splat_f(INFINITY), y, a), x);
}

/* t + sqrt(t (t + 2)), t = x - 1, which is exp(acosh(x)) - 1 */
LANEWISE vd acosh_d(vd x)
{
	const vl far = x > splat_d(0x1p30);
	const struct exact t = exact_sum(lesser_d(splat_d(0x1p30), x), splat_d(-1));
	struct exact square;
	square.high = two_product(t.high, t.high, &square.low);
	square.low += splat_d(2) * (t.high * t.low);
	const struct exact twice = {t.high + t.high, t.low + t.low}, one = {splat_d(1), splat_d(0)};
	const struct exact f = exact_add(exact_root(exact_add(twice, square)), t), h = exact_add(one, f);
	const struct exact of = {select_d(far, x, h.high), select_d(far, splat_d(0), h.low)};
	const vd y = log_exact(of, f, select_d(far, splat_d(1), splat_d(0))).high;
	const vd special = select_d(x == splat_d(1), splat_d(0), select_d(x < splat_d(1), splat_d(NAN), x));
	return select_d((x > splat_d(1)) & (x < splat_d(INFINITY)), y, special);
}
LANEWISE vd acosh_lane(vd x)
{
	const vd t = x - splat_d(1);
	return log1p_lane(t + sqrt_d(t * (t + splat_d(2))));
}
LANEWISE vf acosh_f(vf x)
{
	const vf special = select_f(x == splat_f(1), splat_f(0), select_f(x < splat_f(1), splat_f(NAN), x));
	return select_f((x > splat_f(1)) & (x < splat_f(INFINITY)), FROM_LANES(acosh, x), special);
}

/* log(1 + 2 x / (1 - x)) / 2 */
LANEWISE vd atanh_d(vd x)
{
	const vd a = abs_d(x);
	const struct exact twice = {a + a, splat_d(0)};
	const struct exact f = exact_quotient(twice, exact_sum(splat_d(1), -a));
	const vd y = splat_d(0.5) * log1p_exact(f).high;
	const vd special = select_d(a == splat_d(1), splat_d(INFINITY), splat_d(NAN));
	return near_zero(copysign_d(select_d(a < splat_d(1), y, special), x), x, 0x1p-28);
}
LANEWISE vd atanh_lane(vd a) { return splat_d(0.5) * log1p_lane((a + a) / (splat_d(1) - a)); }
LANEWISE vf atanh_f(vf x)
{
	const vf a = abs_f(x), special = select_f(a == splat_f(1), splat_f(INFINITY), splat_f(NAN));
	return copysign_f(select_f(a < splat_f(1), FROM_LANES(atanh, a), special), x);
}

/* ---- log(x / (1 - x)), and log(exp(v) + exp(a)) ---- */

LANEWISE vd logit_d(vd x)
{
	const struct exact rest = exact_sum(splat_d(1), -x), from = {x, splat_d(0)};
	const struct exact f = exact_quotient(exact_sum(x + x, splat_d(-1)), rest);
	const vd y = log_exact(exact_quotient(from, rest), f, splat_d(0)).high;
	const vd special = select_d(x == splat_d(0), splat_d(-INFINITY), select_d(x == splat_d(1), splat_d(INFINITY), splat_d(NAN)));
	return select_d((x > splat_d(0)) & (x < splat_d(1)), y, special);
}
LANEWISE vd logit_lane(vd x)
{
	vd k;
	const vd rest = splat_d(1) - x, m = log_split(x / rest, &k);
	return log_join(select_d(k == splat_d(0), (x + x - splat_d(1)) / rest, m - splat_d(1)), k);
}
LANEWISE vf logit_f(vf x)
{
	const vf special = select_f(x == splat_f(0), splat_f(-INFINITY), select_f(x == splat_f(1), splat_f(INFINITY), splat_f(NAN)));
	return select_f((x > splat_f(0)) & (x < splat_f(1)), FROM_LANES(logit, x), special);
}

/* exp(x), the sum of two doubles, for x in [-700, 0] */
LANEWISE struct exact exp_exact(struct exact x)
{
	const struct growth g = growth_reduce(x.high, x.low);
	const vd sum = splat_d(1) + g.r, rest = ((splat_d(1) - sum) + g.r) + (g.even + g.odd), high = sum + rest;
	const vd scale = scale_d(splat_d(1), g.k);
	return (struct exact){high * scale, ((sum - high) + rest) * scale};
}

/*
 * The larger, plus log(1 + exp(-|v - a|)). The sum has two doubles on both sides, as it may cancel. NaN passes; equal
 * infinities stay.
 */
LANEWISE vd logaddexp_d(vd v, vd a)
{
	const vd most = greater_d(a, v), least = lesser_d(a, v);
	const struct exact apart = exact_sum(least, -most);
	const vl close = apart.high > splat_d(-700);
	const struct exact d = {select_d(close, apart.high, splat_d(-700)), select_d(close, apart.low, splat_d(0))};
	const struct exact log = log1p_exact(exp_exact(d)), sum = exact_sum(most, log.high);
	const vd y = select_d(close, sum.high + (sum.low + log.low), most + splat_d(0));
	const vl ends = (abs_d(v) == splat_d(INFINITY)) | (abs_d(a) == splat_d(INFINITY));
	return select_d((v != v) | (a != a), v + a, select_d(ends, most + splat_d(0), y));
}
LANEWISE vd logaddexp_lane(vd v, vd a) { return logaddexp_d(v, a); }
LANEWISE vf logaddexp_f(vf v, vf a) { return FROM_LANES_2(logaddexp, v, a); }

/* g exp(v) / (exp(v) + exp(a)), half of g where both are infinite and equal */
LANEWISE struct exact log_distance(vd v, vd a)
{
	const struct exact d = exact_sum(v, -a);
	const vl finite = abs_d(d.high) < splat_d(1400);
	return (struct exact){select_d(v == a, splat_d(0), d.high), select_d(finite, d.low, splat_d(0))};
}
COLD void logaddexp_slope_far(vl lanes, const vd x[3], vd *y)
{
	const struct exact d = log_distance(x[1], x[2]);
	const vd half = exp_shifted(splat_d(0.5) * d.high, splat_d(0.5) * d.low, 0);
	*y = select_d(lanes, (x[0] * half) * half, *y);
}
LANEWISE vd logaddexp_slope_d(vd g, vd v, vd a)
{
	const struct exact d = log_distance(v, a);
	vd y = times_sigmoid(g, d.high, d.low);
	const vl far = d.high < splat_d(-690);
	if (__builtin_expect(bits_d(far) != 0, 0)) {
		vd result = y;
		logaddexp_slope_far(far, (const vd[]){g, v, a}, &result);
		y = result;
	}
	return y;
}
LANEWISE vd logaddexp_slope_lane(vd g, vd v, vd a)
{
	const vd d = select_d(v == a, splat_d(0), v - a), z = exp_lane(clamp_d(-abs_d(d), -300, 0));
	return g * select_d(d < splat_d(0), z, splat_d(1)) / (splat_d(1) + z);
}
LANEWISE vf logaddexp_slope_f(vf g, vf v, vf a) { return FROM_LANES_3(logaddexp_slope, g, v, a); }
