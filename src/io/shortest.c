/*
 * Shortest decimals by integer arithmetic: the algorithm Schubfach (R. Giulietti, "The Schubfach way to render
 * doubles", 2020).
 *
 * The decimals that read back as c 2^q lie between the middles to its two neighbours. Let w be the distance of the
 * middles: 2^q, or three quarters of that where the lower neighbour is half as far. Choose k with
 * 10^k <= w < 10^(k+1).
 *
 *   - At most one multiple of 10^(k+1) lies between the middles. If there is one, it is the shortest decimal.
 *   - Otherwise one of the two multiples of 10^k next to the number is the nearest of the shortest.
 *
 * So three products with 2^q 10^-k decide: of the number and of both middles. The algorithm needs the whole part of
 * each, and whether its fraction is 0.
 *
 * 10^-k is rounded up to 128 bits. That suffices for all q of doubles and all integers up to 2^55 + 2, because a
 * product that is not whole is at least 2^-68 away from a whole number. (The least distance, found by Euclid's
 * algorithm, is 0.37 2^-64, for q = 664.) Rounding adds less than 2^-68, since the shifted integer is below 2^60.
 * Numbers of less precision are doubles too, with fewer integers c.
 * Tests: tests/unit/test_text.c
 */
#include "io/formats.h"

#include <stdbool.h>
#include <string.h>

/* Floors of logarithms. The factors are scaled by 2^32, and exact enough for every exponent here. */
static int floor_log10_of_power_of_2(int e) { return (int)((e * INT64_C(1292913986)) >> 32); }
static int floor_log10_of_three_quarters(int e) { return (int)((e * INT64_C(1292913986) - 536607788) >> 32); }

/* Returns the whole part of X times POWER 2^-128, with the last bit set if the fraction is not 0. */
static uint64_t multiply_power(uint128 power, uint64_t x)
{
	const uint128 low = (uint128)(uint64_t)power * x, high = (power >> 64) * x + (low >> 64);
	const uint128 fraction = high << 64 | (uint64_t)low;
	return (uint64_t)(high >> 64) | (fraction >> 60 != 0); /* a fraction below 2^-68 comes of rounding */
}

/* Splits SIZE into *C 2^*Q, *C of DTYPE's precision. True if the lower neighbour is half as far as the upper one. */
static bool split_double(double size, enum dtype dtype, uint64_t *c, int *q)
{
	/* Bits of precision, and the exponent of the last bit of denormal numbers. */
	static const struct {
		int bits, least;
	} precisions[] = {
		[DTYPE_F16] = {11, -24}, [DTYPE_BF16] = {8, -133}, [DTYPE_F32] = {24, -149}, [DTYPE_F64] = {53, -1074}};
	const int least = precisions[dtype].least, precision = precisions[dtype].bits;
	enum { FRACTION = 52, BIAS = 1075 };
	uint64_t bits;
	memcpy(&bits, &size, sizeof bits);
	const int field = (int)(bits >> FRACTION);
	*c = bits & ((UINT64_C(1) << FRACTION) - 1);
	*q = (field ? field : 1) - BIAS;
	if (field)
		*c |= UINT64_C(1) << FRACTION;
	int drop = FRACTION + 1 - precision;
	if (*q + drop < least)
		drop = least - *q;
	*c >>= drop;
	*q += drop;
	return *c == UINT64_C(1) << (precision - 1) && *q > least;
}

void shortest_decimal(double size, enum dtype dtype, uint64_t *digits, int *exponent)
{
	uint64_t c;
	int q;
	const bool narrow = split_double(size, dtype, &c, &q);
	int k = narrow ? floor_log10_of_three_quarters(q) : floor_log10_of_power_of_2(q);
	const uint128 power = power_of_ten(-k);
	const int shift = q + floor_log2_of_power_of_10(-k) + 1; /* 1 to 4 */
	/* In quarters the middles are integers. They read back as the number if c is even. */
	const uint64_t odd = c & 1, value = multiply_power(power, 4 * c << shift);
	const uint64_t least = multiply_power(power, (4 * c - (narrow ? 1 : 2)) << shift) + odd;
	const uint64_t most = multiply_power(power, (4 * c + 2) << shift) - odd;
	const uint64_t unit = value / 4;
	*exponent = k;
	if (unit >= 10) { /* else both have one digit, and the nearer counts */
		const uint64_t ten = unit / 10;
		const bool below = least <= 40 * ten, above = 40 * ten + 40 <= most;
		if (below != above) {
			*digits = ten + above;
			++*exponent;
			return;
		}
	}
	const bool below = least <= 4 * unit, above = 4 * unit + 4 <= most;
	const uint64_t middle = 4 * unit + 2;
	const bool up = below != above ? above : value > middle || (value == middle && unit % 2 == 1);
	*digits = unit + up;
}
