/*
 * Derivatives times a cotangent G, where an intermediate value may overflow or underflow though the result does not. In
 * float lanes, doubles hold every intermediate value. In double lanes, a vector with a lane whose intermediate values are
 * beyond a bound goes a second way, which replaces the results of such lanes alone. There mantissas and exponents are
 * computed apart, or an exponential is the square of that of half the argument.
 */

#define FROM_LANES_2(NAME, X, Y)                                                                                       \
	narrow(NAME##_lane(widen_low(X), widen_low(Y)), NAME##_lane(widen_high(X), widen_high(Y)))
#define FROM_LANES_3(NAME, X, Y, Z)                                                                                    \
	narrow(NAME##_lane(widen_low(X), widen_low(Y), widen_low(Z)),                                                      \
	       NAME##_lane(widen_high(X), widen_high(Y), widen_high(Z)))

/* Returns the product of the first ABOVE of COUNT numbers over the product of the others. */
COLD double ratio_of(const double *x, int above, int count)
{
	double mantissa = 1;
	int exponent = 0, own = 0;
	for (int i = 0; i < count; i++) {
		const double m = frexp(x[i], &own);
		own = isfinite(x[i]) ? own : 0;
		mantissa = i < above ? mantissa * m : mantissa / m;
		exponent += i < above ? own : -own;
	}
	return ldexp(mantissa, exponent);
}

/* True where two numbers of the magnitude of X have a normal product, and of zeros. */
LANEWISE vl is_moderate(vd x)
{
	const vd a = abs_d(x);
	return ((a > splat_d(0x1p-500)) & (a < splat_d(0x1p500))) | (x == splat_d(0));
}

/* ---- products and quotients of three numbers ---- */

/* a b c */
COLD void product_far(vl lanes, const vd x[3], vd *y)
{
	for (int i = 0; i < LANES_D; i++)
		if (lanes[i])
			(*y)[i] = ratio_of((const double[]){x[0][i], x[1][i], x[2][i]}, 3, 3);
}
LANEWISE vd product_d(vd a, vd b, vd c)
{
	const vd part = a * b;
	vd y = part * c;
	const vl far =
		~(is_moderate(part) & is_moderate(c)) | ((part == splat_d(0)) & (a != splat_d(0)) & (b != splat_d(0)));

	if (__builtin_expect(bits_d(far) != 0, 0)) {
		vd result = y;
		product_far(far, (const vd[]){a, b, c}, &result);
		y = result;
	}
	return y;
}
LANEWISE vd product_lane(vd a, vd b, vd c) { return a * b * c; }
LANEWISE vf product_f(vf a, vf b, vf c) { return FROM_LANES_3(product, a, b, c); }

/* a b / c^2 */
COLD void by_square_far(vl lanes, const vd x[3], vd *y)
{
	for (int i = 0; i < LANES_D; i++)
		if (lanes[i])
			(*y)[i] = ratio_of((const double[]){x[0][i], x[1][i], x[2][i], x[2][i]}, 2, 4);
}
LANEWISE vd by_square_d(vd a, vd b, vd c)
{
	const vd first = a / c, second = b / c;
	vd y = first * second;
	const vl underflow = ((first == splat_d(0)) & (a != splat_d(0))) | ((second == splat_d(0)) & (b != splat_d(0)));
	const vl far = ~(is_moderate(first) & is_moderate(second)) | underflow;

	if (__builtin_expect(bits_d(far) != 0, 0)) {
		vd result = y;
		by_square_far(far, (const vd[]){a, b, c}, &result);
		y = result;
	}
	return y;
}
LANEWISE vd by_square_lane(vd a, vd b, vd c) { return a * b / (c * c); }
LANEWISE vf by_square_f(vf a, vf b, vf c) { return FROM_LANES_3(by_square, a, b, c); }

/* floor(v / a), where a rounded quotient may be an integer that the true one does not reach, or 0 by underflow */
LANEWISE vd floor_quotient(vd v, vd a)
{
	const vd zero = splat_d(0), one = splat_d(1), x = abs_d(v), d = abs_d(a), quotient = v / a;
	const vd near = floor_d(x / d), rest = less_product_d(x, near, d);
	const vd whole = select_d(rest < zero, near - one, near), left = select_d(rest < zero, rest + d, rest);
	const vl opposite = (v < zero) ^ (a < zero), below = (quotient == zero) & (v != zero) & opposite;
	const vd exact = select_d(opposite, -whole - select_d(left != zero, one, zero), whole);
	return select_d(is_exact_d(x, near, d), exact, select_d(below, -one, floor_d(quotient)));
}
/* -g floor(v / a): the derivative of mod by a */
COLD void mod_slope_far(vl lanes, const vd x[3], vd *y)
{
	for (int i = 0; i < LANES_D; i++)
		if (lanes[i])
			(*y)[i] = -ratio_of((const double[]){x[0][i], x[1][i], x[2][i]}, 2, 3);
}
LANEWISE vd mod_slope_lane(vd g, vd v, vd a) { return -(g * floor_quotient(v, a)); }
LANEWISE vd mod_slope_d(vd g, vd v, vd a)
{
	vd y = mod_slope_lane(g, v, a);
	const vl far = (abs_d(v / a) > splat_d(0x1p1000)) & (a != splat_d(0));

	if (__builtin_expect(bits_d(far) != 0, 0)) {
		vd result = y;
		mod_slope_far(far, (const vd[]){g, v, a}, &result);
		y = result;
	}
	return y;
}
LANEWISE vf mod_slope_f(vf g, vf v, vf a) { return FROM_LANES_3(mod_slope, g, v, a); }

/* g / (1 + x^2). A large x is scaled, so that its square does not overflow. Powers of two round nothing. */
#define OVER_ONE_PLUS_SQUARE(TYPE, VECTOR, BOUND, SCALE)                                                               \
	LANEWISE VECTOR over_one_plus_square_##TYPE(VECTOR g, VECTOR x)                                                    \
	{                                                                                                                  \
		const VECTOR s = select_##TYPE(abs_##TYPE(x) > splat_##TYPE(BOUND), splat_##TYPE(SCALE), splat_##TYPE(1));     \
		const VECTOR scaled = x * s;                                                                                   \
		return (g * s) / (s * s + scaled * scaled) * s;                                                                \
	}
OVER_ONE_PLUS_SQUARE(d, vd, 0x1p500, 0x1p-600)
OVER_ONE_PLUS_SQUARE(f, vf, 0x1p60F, 0x1p-70F)

/* ---- powers: g a x^(a - 1), where a is not 0 ---- */

/*
 * If a < 1/2 or a > 2^53, a - 1 may be rounded, which a large power would show. There x^a / x serves, but for an x whose
 * powers are exact.
 */
LANEWISE vl is_power_over(vd x, vd a)
{
	return ((a < splat_d(0.5)) | (a > splat_d(0x1p53))) & (x != splat_d(0)) & (abs_d(x) < splat_d(INFINITY));
}

/* The power is the fourth one of a root, which is in range. An integer A that is even makes the sign of X's odd power. */
COLD void pow_slope_far(vl lanes, const vd from[3], vd *y)
{
	for (int i = 0; i < LANES_D; i++) {
		const double x = from[1][i], a = from[2][i];
		const bool over = a < 0.5 || a > 0x1p53;
		if (!lanes[i] || x == 0 || !isfinite(x) || !isfinite(a) || (x < 0 && a != floor(a)))
			continue;
		const double root = pow(fabs(x), (over ? a : a - 1) / 4), sign = x < 0 && a == 2 * floor(a / 2) ? -1 : 1;
		(*y)[i] = sign * ratio_of((const double[]){from[0][i], a, root, root, root, root, over ? fabs(x) : 1}, 6, 7);
	}
}
LANEWISE vd pow_slope_d(vd g, vd x, vd a)
{
	const vl over = is_power_over(x, a);
	vd power = pow_d(x, select_d(over, a, a - splat_d(1)));
	power = select_d(over, power / x, power);
	const vd part = g * a;
	vd y = part * power;
	const vl far = ~(is_moderate(part) & is_moderate(power)) | ((part == splat_d(0)) & (g != splat_d(0))) |
	               (power == splat_d(0)) |
	               ((x < splat_d(0)) & (abs_d(a) >= splat_d(0x1p53))); /* a - 1 is odd, and a rounded */

	if (__builtin_expect(bits_d(far) != 0, 0)) {
		vd result = y;
		pow_slope_far(far, (const vd[]){g, x, a}, &result);
		y = result;
	}
	return y;
}

/* x > 0 */
LANEWISE vd pow_slope_lane(vd g, vd x, vd a)
{
	return g * a * exp_lane(clamp_d((a - splat_d(1)) * log_fine_lane(x), -600, 600));
}
COLD void pow_slope_special(const vf from[3], vf *y)
{
	for (int i = 0; i < LANES_F; i++) {
		const double g = (double)from[0][i], x = (double)from[1][i], a = (double)from[2][i];
		if (!isfinite(x) || !isfinite(a) || x == 0)
			(*y)[i] = (float)(g * a * pow(x, a - 1));
	}
}
LANEWISE vf pow_slope_f(vf g, vf x, vf a)
{
	const vf magnitude = abs_f(x);
	vf y = FROM_LANES_3(pow_slope, g, magnitude, a);
	const vi negative = x < splat_f(0);
	const vi plain = (magnitude > splat_f(0)) & (magnitude < splat_f(INFINITY)) & (abs_f(a) < splat_f(INFINITY));

	if (bits_f(negative)) {
		const vf half = a * splat_f(0.5F);
		const vi even = floor_f(half) == half;
		y = select_f(negative, select_f(floor_f(a) == a, select_f(even, -y, y), splat_f(NAN)), y);
	}
	if (__builtin_expect(bits_f(~plain) != 0, 0)) {
		vf result = y;
		pow_slope_special((const vf[]){g, x, a}, &result);
		y = result;
	}
	return y;
}

/* ---- exponentials ---- */

/*
 * Defines NAME_d(g, x) = g SLOPE(x). In lanes where FAR, SLOPE might underflow or overflow: it is HALF^2 FACTOR, and HALF
 * stays far from both ends. NAME_f does it by doubles, or in such lanes alone: NAME_lane(g, x), where FAR_F.
 */
#define TIMES_SLOPE(NAME, FAR, SLOPE, HALF, FACTOR)                                                                    \
	COLD void NAME##_far_d(vl lanes, const vd from[2], vd *y)                                                          \
	{                                                                                                                  \
		const vd g = from[0], x = from[1], half = HALF;                                                                \
		*y = select_d(lanes, ((g * half) * (FACTOR)) * half, *y);                                                      \
	}                                                                                                                  \
	LANEWISE vd NAME##_d(vd g, vd x)                                                                                   \
	{                                                                                                                  \
		vd y = g * (SLOPE);                                                                                            \
		const vl far = FAR;                                                                                            \
		if (__builtin_expect(bits_d(far) != 0, 0)) {                                                                   \
			vd result = y;                                                                                             \
			NAME##_far_d(far, (const vd[]){g, x}, &result);                                                            \
			y = result;                                                                                                \
		}                                                                                                              \
		return y;                                                                                                      \
	}
#define TIMES_SLOPE_F(NAME, FAR_F, SLOPE)                                                                              \
	COLD void NAME##_far_f(vi lanes, const vf from[2], vf *y)                                                          \
	{                                                                                                                  \
		*y = select_f(lanes, FROM_LANES_2(NAME, from[0], from[1]), *y);                                                \
	}                                                                                                                  \
	LANEWISE vf NAME##_f(vf g, vf x)                                                                                   \
	{                                                                                                                  \
		vf y = g * (SLOPE);                                                                                            \
		const vi far = FAR_F;                                                                                          \
		if (__builtin_expect(bits_f(far) != 0, 0)) {                                                                   \
			vf result = y;                                                                                             \
			NAME##_far_f(far, (const vf[]){g, x}, &result);                                                            \
			y = result;                                                                                                \
		}                                                                                                              \
		return y;                                                                                                      \
	}
#define BELOW(TYPE, BOUND) ((x < splat_##TYPE(BOUND)) & (x > splat_##TYPE(-INFINITY)))
/*
 * True in lanes of floats so near to the ZERO of a derivative that its terms cancel: the double lanes have some 34 bits of
 * each. The polynomial around the zero, which derivatives of doubles use, replaces them there.
 */
#define BESIDE(ZERO) (abs_f(x - splat_f((float)(ZERO))) < splat_f(0x1p-8F))

/* g exp(x) */
LANEWISE vd times_exp_lane(vd g, vd x) { return g * exp_lane(clamp_d(x, -300, 300)); }
TIMES_SLOPE(times_exp, BELOW(d, -700) | ((x > splat_d(700)) & (x < splat_d(INFINITY))), exp_d(x),
            exp_d(splat_d(0.5) * x), splat_d(1))
TIMES_SLOPE_F(times_exp, BELOW(f, -86) | ((x > splat_f(88)) & (x < splat_f(INFINITY))), exp_f(x))

/* exp(-PART x^2), with the rounding error of the square in the exponent; PART is a power of two */
LANEWISE vd gauss_root(vd x, double part)
{
	vd low;
	const vd square = two_product(clamp_d(x, -60, 60), clamp_d(x, -60, 60), &low);
	return exp_shifted(splat_d(-part) * square, splat_d(-part) * low, 0);
}
/* g exp(-x^2) */
TIMES_SLOPE(times_gauss, (abs_d(x) > splat_d(26)) & (abs_d(x) < splat_d(INFINITY)), gauss_d(x), gauss_root(x, 0.5),
            splat_d(1))
LANEWISE vd times_gauss_lane(vd g, vd x) { return g * gauss_lane(x); }
LANEWISE vf times_gauss_f(vf g, vf x) { return FROM_LANES_2(times_gauss, g, x); }

/* g silu'(x), which is near exp(x) (1 + x) for x far below 0 */
LANEWISE vd silu_slope_lane(vd g, vd x)
{
	return g * BETWEEN(-2.2, -0.7, silu_near_zero, x, silu_derivative_lane(x));
}
TIMES_SLOPE(silu_slope, BELOW(d, -690), silu_derivative_d(x), exp_d(splat_d(0.5) * x), splat_d(1) + x)
TIMES_SLOPE_F(silu_slope, BELOW(f, -80) | BESIDE(-0x1.474973c84120bp+0), silu_derivative_f(x))

/* x + Phi(x) / phi(x) for x far below 0, by Mills' ratio (gelu_tail). gelu'(x) is phi(x) times that. */
LANEWISE vd gelu_tail_factor(vd x)
{
	const vd w = splat_d(1) / (x * x);
	return x - POLYNOMIAL(w, 1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0) / x;
}
/* gelu'(x) of floats below -12 or, without FMA, beside its zero */
LANEWISE vd gelu_slope_lane(vd g, vd x)
{
	const vd near = clamp_d(x, -24, 0);
	const vd tail = exp_lane(splat_d(-0.5) * near * near) * (splat_d(0x1.9884533d43651p-2) * gelu_tail_factor(near));
	return g * BETWEEN(-1.5, -0.25, gelu_near_zero, x, tail);
}
TIMES_SLOPE(gelu_slope, BELOW(d, -36), gelu_derivative_d(x), gauss_root(x, 0.25),
            splat_d(0x1.9884533d43651p-2) * gelu_tail_factor(clamp_d(x, -60, 0)))
TIMES_SLOPE_F(gelu_slope, ISA_FMA ? BELOW(f, -12) : BELOW(f, -12) | BESIDE(-0x1.80ead197f00b4p-1),
              gelu_derivative_f(x))

/* The same with the approximation by tanh, which is near exp(w) (1 + x w') for x far below 0. */
LANEWISE vd gelu_tanh_slope_lane(vd g, vd x)
{
	return g * BETWEEN(-1.5, -0.25, gelu_tanh_near_zero, x, gelu_tanh_derivative_lane(x));
}
LANEWISE vd gelu_tanh_root(vd x)
{
	const struct gelu_argument w = gelu_tanh_argument(clamp_d(x, -40, 40));
	return exp_shifted(splat_d(0.5) * w.high, splat_d(0.5) * w.low, 0);
}
LANEWISE vd gelu_tanh_tail_factor(vd x)
{
	const vd near = clamp_d(x, -40, 40);
	return splat_d(1) + near * (splat_d(0x1.9884533d43651p+0) * (splat_d(1) + splat_d(3 * 0.044715) * near * near));
}
TIMES_SLOPE(gelu_tanh_slope, BELOW(d, -20.5), gelu_tanh_derivative_d(x), gelu_tanh_root(x), gelu_tanh_tail_factor(x))
TIMES_SLOPE_F(gelu_tanh_slope, BELOW(f, -9.5F) | BESIDE(-0x1.81429f9e97e4dp-1), gelu_tanh_derivative_f(x))
