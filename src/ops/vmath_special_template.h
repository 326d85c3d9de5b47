/*
 * Roundings, powers of two, cube roots, lengths and angles of two numbers, erfc, lgamma, mish, and their derivatives. As in
 * vmath_logs_template.h, doubles carry a second double where the rounding of an intermediate value would show.
 */

/* ---- roundings ---- */

/* Adding and subtracting MAGIC, the least power of two whose neighbour is 1 away, rounds to the nearest, half to even. */
#define ROUNDINGS(TYPE, VECTOR, MAGIC)                                                                                 \
	LANEWISE VECTOR round_##TYPE(VECTOR x)                                                                             \
	{                                                                                                                  \
		const VECTOR a = abs_##TYPE(x), magic = splat_##TYPE(MAGIC);                                                   \
		return select_##TYPE(a < magic, copysign_##TYPE((a + magic) - magic, x), x);                                   \
	}                                                                                                                  \
	LANEWISE VECTOR trunc_##TYPE(VECTOR x) { return copysign_##TYPE(floor_##TYPE(abs_##TYPE(x)), x); }
ROUNDINGS(f, vf, 0x1p23F)
ROUNDINGS(d, vd, 0x1p52)

/* ---- 2^x ---- */

LANEWISE vd exp2_d(vd x)
{
	const vd near = clamp_d(x, -1100, 1100);
	vd low;
	const vd high = two_product(near, splat_d(0x1.62e42fefa39efp-1), &low);
	return exp_shifted(high, fma_d(near, splat_d(0x1.abc9e3b39803fp-56), low), 0);
}
LANEWISE vd exp2_lane(vd x) { return exp_lane(x * splat_d(0x1.62e42fefa39efp-1)); }
LANEWISE vf exp2_f(vf x) { return FROM_LANES(exp2, clamp_f(x, -160, 140)); }

/* ---- cube roots: Halley's method for y^3 = m 2^r, x = m 2^(3 q + r), r = 0, 1 or 2 ---- */

/* x positive, normal; *SCALED: m 2^r, *Q: q */
LANEWISE vd cbrt_start(vd x, vd *scaled, vd *q)
{
	const vul exponent = (vul)x >> 52;
	const vd e = (vd)(exponent | (vul)splat_d(0x1p52)) - splat_d(0x1p52 + 1023);
	*q = floor_d(fma_d(e, splat_d(0x1.5555555555555p-2), splat_d(0x1p-10)));
	const vd m = (vd)(((vul)x & 0xfffffffffffff) | (vul)splat_d(1));
	*scaled = scale_d(m, e - splat_d(3) * *q);
	vd y = POLYNOMIAL(*scaled, 0x1.5d0543afec3d9p-1, 0x1.754783a1863e1p-2, -0x1.62ccdb592e5ffp-5, 0x1.2f3378db51ed8p-9);
	for (int i = 0; i < 2; i++) {
		const vd cube = y * y * y;
		y = y * ((cube + (*scaled + *scaled)) / ((cube + cube) + *scaled));
	}
	return y;
}
/* a number of a float, which is normal as a double */
LANEWISE vd cbrt_lane(vd x)
{
	vd scaled, q;
	const vd y = cbrt_start(x, &scaled, &q);
	return scale_d(y, q);
}
LANEWISE vf cbrt_f(vf x)
{
	const vf a = abs_f(x), y = FROM_LANES(cbrt, a);
	return select_f((a > splat_f(0)) & (a < splat_f(INFINITY)), copysign_f(y, x), x);
}
LANEWISE vd cbrt_d(vd x)
{
	const vd a = abs_d(x);
	const vl tiny = a < splat_d(DBL_MIN);
	vd scaled, q, square_low, cube_low;
	const vd y = cbrt_start(select_d(tiny, a * splat_d(0x1p54), a), &scaled, &q);
	const vd square = two_product(y, y, &square_low), cube = two_product(square, y, &cube_low);
	const vd rest = ((scaled - cube) - cube_low) - square_low * y;
	const vd root = fma_d(rest, splat_d(0x1.5555555555555p-2) / square, y);
	const vd result = scale_d(root, q - select_d(tiny, splat_d(18), splat_d(0)));
	return select_d((a > splat_d(0)) & (a < splat_d(INFINITY)), copysign_d(result, x), x);
}

/* ---- the length of (v, a), and its angle ---- */

LANEWISE vd hypot_d(vd v, vd a)
{
	const vd x = abs_d(v), y = abs_d(a), most = greater_d(x, y);
	const vl large = most > splat_d(0x1p500), small = most < splat_d(0x1p-400);
	const vd scale = select_d(large, splat_d(0x1p-600), select_d(small, splat_d(0x1p600), splat_d(1)));
	const vd back = select_d(large, splat_d(0x1p600), select_d(small, splat_d(0x1p-600), splat_d(1)));
	struct exact p, q;
	p.high = two_product(x * scale, x * scale, &p.low);
	q.high = two_product(y * scale, y * scale, &q.low);
	const struct exact root = exact_root(exact_add(p, q));
	const vl ends = (x == splat_d(INFINITY)) | (y == splat_d(INFINITY));
	return select_d(ends, splat_d(INFINITY), (root.high + root.low) * back);
}
LANEWISE vd hypot_lane(vd v, vd a) { return sqrt_d(fma_d(v, v, a * a)); }
LANEWISE vf hypot_f(vf v, vf a)
{
	const vi ends = (abs_f(v) == splat_f(INFINITY)) | (abs_f(a) == splat_f(INFINITY));
	return select_f(ends, splat_f(INFINITY), FROM_LANES_2(hypot, v, a));
}

/* The angle of the first quadrant, by the quotient of the smaller and the larger; then its place. */
LANEWISE vd atan2_lane(vd v, vd a)
{
	const vd y = abs_d(v), x = abs_d(a), most = greater_d(y, x), least = lesser_d(y, x);
	const vl ends = y == x, none = most == splat_d(0);
	const vd t = select_d(ends, select_d(none, splat_d(0), splat_d(1)), least / most);
	const vd near = atan_lane(t), angle = select_d(y > x, splat_d(0x1.921fb54442d18p+0) - near, near);
	const vd placed = copysign_d(select_d((vl)a < 0, splat_d(0x1.921fb54442d18p+1) - angle, angle), v);
	return select_d((v != v) | (a != a), v + a, placed);
}

/*
 * atan(y / x) = atan(c) + atan(u), y <= x, where c is 0, 1/2 or 1, and u = (y - c x) / (x + c y) is at most 1/4. Large and small
 * numbers are scaled, so that no error underflows. A small quotient is its own angle.
 */
LANEWISE struct exact atan_quotient(vd y, vd x)
{
	const vd scale = select_d(x > splat_d(0x1p900), splat_d(0x1p-100), select_d(x < splat_d(0x1p-900), splat_d(0x1p100), splat_d(1)));
	const vd least = y * scale, most = x * scale, zero = splat_d(0);
	const vl half = least >= splat_d(0.25) * most, whole = least >= splat_d(0.75) * most;
	const vd c = select_d(whole, splat_d(1), select_d(half, splat_d(0.5), zero));
	const struct exact u = exact_quotient(exact_sum(least, -c * most), exact_sum(most, c * least));
	const vd z = u.high * u.high;
	const vd tail = u.high * z * POLYNOMIAL_HALVES(z, -0x1.5555555555555p-2, 0x1.9999999999998p-3, -0x1.2492492492301p-3,
	                                               0x1.c71c71c6fcd11p-4, -0x1.745d173a38f8cp-4, 0x1.3b13ae8dc3e4cp-4,
	                                               -0x1.1110a930555b8p-4, 0x1.e1ccdcebe0e15p-5, -0x1.adbf3d60bbceap-5,
	                                               0x1.768a649da5edbp-5, -0x1.fd06d9f109027p-6);
	const vd at = select_d(whole, splat_d(0x1.921fb54442d18p-1), select_d(half, splat_d(0x1.dac670561bb4fp-2), zero));
	const vd at_low = select_d(whole, splat_d(0x1.1a62633145c07p-55), select_d(half, splat_d(0x1.a2b7f222f65e2p-56), zero));
	const struct exact sum = exact_sum(at, u.high);
	const vd rest = sum.low + (at_low + u.low + tail), high = sum.high + rest;
	const vl same = y == x, small = ~same & ~(least > splat_d(0x1p-500) * most);
	const vd alone = select_d(x == zero, zero, select_d(same, splat_d(0x1.921fb54442d18p-1), y / x));
	const vd alone_low = select_d(same & (x != zero), splat_d(0x1.1a62633145c07p-55), zero);
	return (struct exact){select_d(same | small, alone, high), select_d(same | small, alone_low, (sum.high - high) + rest)};
}
LANEWISE vd atan2_d(vd v, vd a)
{
	const vd y = abs_d(v), x = abs_d(a);
	const struct exact near = atan_quotient(lesser_d(y, x), greater_d(y, x));
	const vl steep = y > x, left = (vl)a < 0, minus = steep ^ left;
	/* the angle, or a multiple of pi / 2 with the angle added or subtracted */
	const vd quarters = select_d(steep, splat_d(1), select_d(left, splat_d(2), splat_d(0)));
	const struct exact sum = exact_sum(quarters * splat_d(0x1.921fb54442d18p+0), select_d(minus, -near.high, near.high));
	const vd rest = fma_d(quarters, splat_d(0x1.1a62633145c07p-54), select_d(minus, -near.low, near.low));
	const vd angle = copysign_d(sum.high + (sum.low + rest), v);
	return select_d((v != v) | (a != a), v + a, angle);
}
LANEWISE vf atan2_f(vf v, vf a) { return FROM_LANES_2(atan2, v, a); }

/* g a / (v^2 + a^2) */
COLD void over_squares_far(vl lanes, const vd x[3], vd *y)
{
	for (int i = 0; i < LANES_D; i++) {
		const double most = fmax(fabs(x[1][i]), fabs(x[2][i]));
		if (!lanes[i] || most == 0 || !isfinite(most))
			continue;
		const int power = ilogb(most);
		const double a = ldexp(x[1][i], -power), v = ldexp(x[2][i], -power), unit = ldexp(1, power);
		(*y)[i] = ratio_of((const double[]){x[0][i], x[1][i], a * a + v * v, unit, unit}, 2, 5);
	}
}
LANEWISE vd over_squares_d(vd g, vd a, vd v)
{
	const vd part = a / fma_d(a, a, v * v);
	vd y = g * part;
	const vl far = ~(is_moderate(a) & is_moderate(v) & is_moderate(part) & is_moderate(g)) |
	               ((part == splat_d(0)) & (a != splat_d(0)));

	if (__builtin_expect(bits_d(far) != 0, 0)) {
		vd result = y;
		over_squares_far(far, (const vd[]){g, a, v}, &result);
		y = result;
	}
	return y;
}
LANEWISE vd over_squares_lane(vd g, vd a, vd v) { return g * (a / (a * a + v * v)); }
LANEWISE vf over_squares_f(vf g, vf a, vf v) { return FROM_LANES_3(over_squares, g, a, v); }

/* a b / c */
COLD void quotient_far(vl lanes, const vd x[3], vd *y)
{
	for (int i = 0; i < LANES_D; i++)
		if (lanes[i])
			(*y)[i] = ratio_of((const double[]){x[0][i], x[1][i], x[2][i]}, 2, 3);
}
LANEWISE vd quotient_d(vd a, vd b, vd c)
{
	const vd part = b / c;
	vd y = a * part;
	const vl far = ~(is_moderate(part) & is_moderate(a)) | ((part == splat_d(0)) & (b != splat_d(0)));

	if (__builtin_expect(bits_d(far) != 0, 0)) {
		vd result = y;
		quotient_far(far, (const vd[]){a, b, c}, &result);
		y = result;
	}
	return y;
}
LANEWISE vd quotient_lane(vd a, vd b, vd c) { return a * b / c; }
LANEWISE vf quotient_f(vf a, vf b, vf c) { return FROM_LANES_3(quotient, a, b, c); }

/* ---- erfc ---- */

/* c + low + t s */
LANEWISE struct exact exact_step(struct exact s, vd t, double c, double low)
{
	vd lost;
	const vd product = two_product(s.high, t, &lost);
	struct exact sum = exact_sum(splat_d(c), product);
	sum.low += fma_d(s.low, t, lost + splat_d(low));
	return sum;
}
/*
 * erfc(a) = exp(-a^2) p(t) / (1 + 2 a), t = (a - 4) / (a + 4), for a >= 1/4; below, 1 - erf(a). The factors have a second
 * double, and so have the last three steps of p.
 */
LANEWISE vd erfc_d(vd x)
{
	const vd a = abs_d(x), b = clamp_d(a, 0.25, 27.5);
	const struct exact t2 = exact_quotient(exact_sum(b, splat_d(-4)), exact_sum(b, splat_d(4)));
	const vd t = t2.high;
	const vd rest = POLYNOMIAL_HALVES(
		t, 0x1.16ecefcfa53a4p-4, -0x1.9ddb23c3e9028p-4, 0x1.7fee004e122d0p-4,
		-0x1.0fb06dfe4a577p-4, 0x1.3079edf688e3ep-5, -0x1.09623884ded40p-6, 0x1.49c6728401ac5p-8,
		-0x1.8d4a9a105de00p-11, -0x1.a1df2393a04e4p-13, 0x1.3be03f30d24bfp-13, -0x1.995987383b52ap-16,
		-0x1.7884b4585b1b0p-17, 0x1.7f2bf11177992p-18, 0x1.397452bc4ffeap-22, -0x1.bb49641260772p-21,
		0x1.4ae933606b192p-24, 0x1.db9a53b772d7fp-24, -0x1.51dde3c3301d8p-26, -0x1.fd2c05f4bfddcp-27,
		0x1.4834d0a6c2d01p-29, 0x1.ab219fcfcaaa6p-30);
	const struct exact last = {rest, splat_d(0)};
	const struct exact second = exact_step(last, t, 0x1.f7f5df66fd7a6p-7, 0);
	const struct exact slope = exact_step(second, t, -0x1.1df1ad154a28ep-3, -0x1.51cd91ec1be38p-57);
	struct exact p = exact_step(slope, t, 0x1.3ba5916e9fd7fp+0, -0x1.a9c21e7bd7e7cp-55);
	/* p' of t, by p' of b = 2 p (b + 1 / stretch) - stretch 2 / sqrt(pi) */
	const vd stretch = fma_d(splat_d(2), b, splat_d(1)), far = b + splat_d(4), twice = p.high + p.high;
	const vd by_b = fma_d(twice, b + splat_d(1) / stretch, stretch * splat_d(-0x1.20dd750429b6dp+0));
	p.low += by_b * (far * far) * splat_d(0.125) * t2.low;
	vd lost;
	vd square_low;
	const vd square = two_product(b, b, &square_low);
	const struct growth g = growth_reduce(-square, -square_low);
	const vd sum = splat_d(1) + g.r, grown = ((splat_d(1) - sum) + g.r) + (g.even + g.odd);
	struct exact e = exact_sum(sum, grown);
	const vd high = two_product(e.high, p.high, &lost);
	const struct exact above = {high, lost + fma_d(e.high, p.low, e.low * p.high)};
	const struct exact y = exact_quotient(above, exact_sum(splat_d(1), b + b));
	const vd below = scale_far(y.high + y.low, g.k);
	const vd beyond = select_d(x < splat_d(0), splat_d(2) - below, below);
	return select_d(a >= splat_d(0.25), beyond, splat_d(1) - erf_d(x));
}
LANEWISE vd erfc_whole_lane(vd x)
{
	vd gauss;
	const vd y = erfc_lane(abs_d(x), &gauss);
	return select_d(x < splat_d(0), splat_d(2) - y, y);
}
LANEWISE vf erfc_f(vf x) { return FROM_LANES(erfc_whole, x); }

/* ---- lgamma, and its derivative, digamma ---- */

#ifndef ISA_SLEEF
/* The C library's lgamma writes a global sign. */
static inline double lgamma_alone(double x)
{
	int sign;
	return lgamma_r(x, &sign);
}
#define lgamma(X) lgamma_alone(X)
#endif
SLEEF(lgamma, u10)
#undef lgamma
LANEWISE vd lgamma_d(vd x)
{
	const vl pole = ((x <= splat_d(0)) & (floor_d(x) == x)) | (abs_d(x) == splat_d(INFINITY));
	return select_d(pole, splat_d(INFINITY), lgamma_sleef(x));
}
LANEWISE vd lgamma_lane(vd x) { return lgamma_d(x); }
LANEWISE vf lgamma_f(vf x) { return FROM_LANES(lgamma, x); }

/* digamma in [1, 2], around its zero */
NEAR_ZERO(digamma, 0x1.762d86356be3fp+0, 0x1.b86a722197829p-54, 0x1.ef72bc8ee38acp-1, -0x1.c563b54aa1a2bp-2,
          0x1.08b4294d5037cp-2, -0x1.4fc131725993dp-3, 0x1.b9a5b63711705p-4, -0x1.27baba24d4b20p-4,
          0x1.8fce02b01c1a6p-5, -0x1.0fa7eca64d713p-5, 0x1.723d68e6f871dp-6, -0x1.f97026edee1b4p-7,
          0x1.59559a06e8511p-7, -0x1.d82ca94e9ab52p-8, 0x1.42e7e2d3240f9p-8, -0x1.b95e3b8c396f7p-9,
          0x1.2da6b43ee02c0p-9, -0x1.a0d30a2648ca6p-10, 0x1.20d505be54f8fp-10, -0x1.6db5ca9149340p-11,
          0x1.b885e77ff3adfp-12, -0x1.a4709edfc9851p-12, 0x1.a5a4cf86f28efp-12, -0x1.7245dcc01c1c6p-13)

/* log(x) - 1 / (2 x) - sum of B(2k) / (2k x^2k), for x >= 10 */
LANEWISE vd digamma_far(vd x)
{
	const vd inverse = splat_d(1) / x, z = inverse * inverse;
	const vd series = z * POLYNOMIAL(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12,
	                                 -3617.0 / 8160, 43867.0 / 14364);
	return log_d(x) - fma_d(splat_d(0.5), inverse, series);
}
/*
 * digamma of the positive sum x + low. digamma(x) = digamma(x - 1) + 1 / (x - 1) leads from below 10 into [1, 2], and
 * digamma(x + 1) - 1 / x from below 1. The sum of these fractions has its rounding errors beside it. The derivative, which
 * corrects for the low part, is about 1 / x + 1 / (2 x^2) + 1 / (6 x^3).
 */
LANEWISE vd digamma_positive(vd x, vd low)
{
	const vd one = splat_d(1), zero = splat_d(0);
	const vl small = x < one, large = x >= splat_d(10);
	const struct exact above = exact_sum(x, one);
	const vd rest = select_d(small, above.low, select_d(large, zero, low));
	vd at = select_d(small, above.high, select_d(large, one, x)), lost = zero;
	vd sum = select_d(small, -one / x, zero);
	for (int i = 0; i < 8; i++) {
		const vl more = at > splat_d(2);
		if (!bits_d(more))
			break;
		vd error;
		at = select_d(more, at - one, at);
		sum = two_sum(sum, select_d(more, one / at, zero), &error);
		lost += select_d(more, error, zero);
	}
	const vd w = one / at, slope = w * fma_d(w, fma_d(w, splat_d(0x1.5555555555555p-3), splat_d(0.5)), one);
	const vd near = sum + (digamma_near_zero(at) + fma_d(rest, slope, lost));
	return select_d(large, digamma_far(x), near);
}
/* x < 0: digamma(1 - x) - pi / tan(pi x), where x less the nearest integer is exact; a pole at 0, NaN at the others */
LANEWISE vd digamma_d(vd x)
{
	const vl negative = x < splat_d(0);
	const struct exact other = exact_sum(splat_d(1), -x);
	vd y = digamma_positive(select_d(negative, other.high, x), select_d(negative, other.low, splat_d(0)));
	if (bits_d(negative)) {
		const vd r = x - round_d(x), a = abs_d(r);
		const vl outer = a > splat_d(0.25);
		const vd tangent = tan_d(splat_d(0x1.921fb54442d18p+1) * select_d(outer, splat_d(0.5) - a, a));
		const vd cotangent = copysign_d(select_d(outer, tangent, splat_d(1) / tangent), r);
		const vd reflected = nfma_d(splat_d(0x1.921fb54442d18p+1), cotangent, y);
		y = select_d(negative, select_d(r == splat_d(0), splat_d(NAN), reflected), y);
	}
	return select_d(x == splat_d(0), -splat_d(1) / x, select_d(x < splat_d(INFINITY), y, x));
}
LANEWISE vd lgamma_slope_d(vd g, vd x) { return g * digamma_d(x); }
LANEWISE vd lgamma_slope_lane(vd g, vd x) { return g * digamma_d(x); }
LANEWISE vf lgamma_slope_f(vf g, vf x) { return FROM_LANES_2(lgamma_slope, g, x); }

/* ---- v tanh(log(1 + exp(v))): with z = exp(-|v|), v (1 + 2 z) / (1 + 2 z + 2 z^2), or v z (z + 2) / (z (z + 2) + 2) ---- */

struct mish_parts {
	vd above, below;
};
LANEWISE struct mish_parts mish_parts(vl negative, vd z)
{
	const vd two = splat_d(2), up = fma_d(z, z, z + z), out = fma_d(two, z, splat_d(1));
	return (struct mish_parts){select_d(negative, up, out),
	                           select_d(negative, up + two, fma_d(two * z, z, out))};
}
LANEWISE vd mish_lane(vd x)
{
	const struct mish_parts p = mish_parts(x < splat_d(0), exp_lane(clamp_d(-abs_d(x), -300, 0)));
	return x * p.above / p.below;
}
LANEWISE vf mish_f(vf x) { return times_vanishing(FROM_LANES(mish, x), x); }
LANEWISE vd mish_d(vd x)
{
	const struct mish_parts p = mish_parts(x < splat_d(0), exp_d(-abs_d(x)));
	vd y = x * (p.above / p.below);
	const vl tiny = x < splat_d(-700);

	if (__builtin_expect(bits_d(tiny) != 0, 0))
		y = select_d(tiny, (x * exp_shifted(x, splat_d(0), 200)) * splat_d(0x1p-200), y);
	return y;
}

NEAR_ZERO(mish, -0x1.31432c0d12d84p+0, -0x1.bf319154da210p-55, 0x1.115acb42500bcp-2, 0x1.a34a251d8ad7ep-3,
          0x1.574f121a86635p-5, -0x1.4c222fe64e14fp-6, -0x1.03369d4ab85fcp-6, -0x1.b87ddfb41086dp-9,
          0x1.1e5e1836192afp-10, 0x1.0379915a9ed86p-10, 0x1.0a7957d215de1p-12, -0x1.5fff6d8ff359ap-15,
          -0x1.d4542268cfcb5p-15, -0x1.223e1da06866ap-16, 0x1.fa68f7796c4c1p-21, 0x1.86aa067c0be64p-19,
          0x1.1f934563d6eadp-20, 0x1.8e2bc50cede74p-26, -0x1.31ab36bcbbe68p-23, -0x1.f1329bfa21b58p-25,
          -0x1.63aaed19f0b9dp-29, 0x1.58ddd8f87c8c8p-28, 0x1.57fb82e5a8f8dp-30)

/* (above below + 4 v w) / below^2, w = z (1 + z), or z^2 (1 + z) if v is positive; at infinity, x - x is NaN */
LANEWISE vd mish_derivative_of(vd x, vd z)
{
	const vl negative = x < splat_d(0);
	const struct mish_parts p = mish_parts(negative, z);
	const vd once = z * (splat_d(1) + z), w = select_d(negative, once, z * once);
	const vd near = clamp_d(x, -1000, 1000);
	return fma_d(p.above, p.below, splat_d(4) * near * w) / (p.below * p.below) + (x - x);
}
LANEWISE vd mish_derivative_lane(vd x) { return mish_derivative_of(x, exp_lane(clamp_d(-abs_d(x), -300, 0))); }
LANEWISE vd mish_derivative_d(vd x)
{
	return BETWEEN(-2.2, -0.5, mish_near_zero, x, mish_derivative_of(x, exp_d(-abs_d(x))));
}
LANEWISE vf mish_derivative_f(vf x) { return derivative_or_nan(FROM_LANES(mish_derivative, x), x); }
LANEWISE vd mish_slope_lane(vd g, vd x)
{
	return g * BETWEEN(-2.2, -0.5, mish_near_zero, x, mish_derivative_lane(x));
}
TIMES_SLOPE(mish_slope, BELOW(d, -690), mish_derivative_d(x), exp_d(splat_d(0.5) * x), splat_d(1) + x)
TIMES_SLOPE_F(mish_slope, BELOW(f, -80) | BESIDE(-0x1.31432c0d12d84p+0), mish_derivative_f(x))

/* ---- g exp(v / a), with the rounding error of the quotient ---- */

LANEWISE vd celu_slope_d(vd g, vd v, vd a)
{
	const vd x = lesser_d(splat_d(0), v), q = x / a, rest = less_product_d(x, q, a) / a;
	return times_exp_d(g, q) * (splat_d(1) + select_d(abs_d(rest) < splat_d(1), rest, splat_d(0)));
}
LANEWISE vd celu_slope_lane(vd g, vd v, vd a) { return g * exp_lane(clamp_d(v / a, -300, 0)); }
LANEWISE vf celu_slope_f(vf g, vf v, vf a) { return FROM_LANES_3(celu_slope, g, v, a); }
