/*
 * Shortest decimals in integers: the algorithm is Schubfach (R. Giulietti, "The
 * Schubfach way to render doubles", 2020). What reads back as c 2^q lies between the
 * middles to its neighbours, which are w apart: 2^q, or three quarters of it where the
 * number below is half as far. With 10^k <= w < 10^(k+1) at most one multiple of
 * 10^(k+1) lies there, and is the shortest if there is one; else one of the two
 * multiples of 10^k next to the number is the nearest of the shortest. So three products
 * of an integer and 2^q 10^-k tell all: of the number, and of both middles. Of each only
 * its whole part counts, and whether anything follows it.
 *
 * 10^-k is taken as 128 bits, rounded up. That is enough: for each q of a double, and all
 * integers up to 2^55 + 2, a product that is not whole is 2^-68 or more from any whole
 * number. (Euclid's algorithm finds the least of an integer's products modulo another: it
 * is 0.37 2^-64, where q is 664.) Rounding adds less than 2^-68 to a product, since its
 * integer, shifted, is below 2^60. Numbers of less precision are doubles of fewer integers.
 */
#include "io/shortest.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* Powers of ten that doubles need. */
enum { LEAST_POWER = -292, MOST_POWER = 324, POWERS = MOST_POWER - LEAST_POWER + 1 };

/* The first 128 bits of each power, and one of the last added. Written under ONCE, only read after. */
static struct {
	pthread_once_t once;
	wide entries[POWERS];
} powers = {.once = PTHREAD_ONCE_INIT};

/*
 * A number of fixed point: the least digit, of base 2^32, comes first. 10^324 has 34
 * digits; and 128 bits of 10^-292 go back to the 36th digit after the point. Four more
 * lie below a whole number's last, so that there are always 128 bits.
 */
enum { BASE_BITS = 32, BELOW = 4, DIGITS = 40 };

static wide first_bits(const uint32_t number[DIGITS])
{
	int top = DIGITS - 1;
	while (number[top] == 0)
		top--;
	wide bits = 0;
	for (int i = 0; i < 4; i++)
		bits = bits << BASE_BITS | number[top - i];
	const int zeros = __builtin_clz(number[top]);
	return zeros ? bits << zeros | number[top - 4] >> (BASE_BITS - zeros) : bits;
}

static void multiply_by_ten(uint32_t number[DIGITS])
{
	uint64_t carry = 0;
	for (int i = 0; i < DIGITS; i++) {
		carry += (uint64_t)number[i] * 10;
		number[i] = (uint32_t)carry;
		carry >>= BASE_BITS;
	}
}

/* Rounds down, which adds up to nothing: the floor of a tenth of x's floor is that of x / 10. */
static void divide_by_ten(uint32_t number[DIGITS])
{
	uint64_t rest = 0;
	for (int i = DIGITS - 1; i >= 0; i--) {
		rest = rest << BASE_BITS | number[i];
		number[i] = (uint32_t)(rest / 10);
		rest %= 10;
	}
}

static void make_powers(void)
{
	uint32_t number[DIGITS] = {[BELOW] = 1};
	for (int e = 0; e <= MOST_POWER; e++, multiply_by_ten(number))
		powers.entries[e - LEAST_POWER] = first_bits(number) + 1;
	memset(number, 0, sizeof number);
	number[DIGITS - 1] = 1;
	for (int e = -1; e >= LEAST_POWER; e--) {
		divide_by_ten(number);
		powers.entries[e - LEAST_POWER] = first_bits(number) + 1;
	}
}

/* The floor of a logarithm: the factors are those of 2^32, and exact enough for any exponent here. */
static int floor_log2_of_power_of_10(int e) { return (int)((e * INT64_C(14267572527)) >> 32); }
static int floor_log10_of_power_of_2(int e) { return (int)((e * INT64_C(1292913986)) >> 32); }
static int floor_log10_of_three_quarters(int e) { return (int)((e * INT64_C(1292913986) - 536607788) >> 32); }

/* X times POWER 2^-128: its whole part, and 1 in the last bit where anything follows. */
static uint64_t multiply(wide power, uint64_t x)
{
	const wide low = (wide)(uint64_t)power * x, high = (power >> 64) * x + (low >> 64);
	const wide fraction = high << 64 | (uint64_t)low;
	return (uint64_t)(high >> 64) | (fraction >> 60 != 0); /* less than 2^-68 is what rounding added */
}

/* SIZE as *C 2^*Q, the last bit of C being the last of the precision; true where the number below is half as far as that above. */
static bool split(double size, const struct precision *precision, uint64_t *c, int *q)
{
	enum { FRACTION = 52, BIAS = 1075 };
	uint64_t bits;
	memcpy(&bits, &size, sizeof bits);
	const int field = (int)(bits >> FRACTION);
	*c = bits & ((UINT64_C(1) << FRACTION) - 1);
	*q = (field ? field : 1) - BIAS;
	if (field)
		*c |= UINT64_C(1) << FRACTION;
	int drop = FRACTION + 1 - precision->bits;
	if (*q + drop < precision->least)
		drop = precision->least - *q;
	*c >>= drop;
	*q += drop;
	return *c == UINT64_C(1) << (precision->bits - 1) && *q > precision->least;
}

void shortest_decimal(double size, const struct precision *precision, uint64_t *digits, int *exponent)
{
	uint64_t c;
	int q;
	const bool narrow = split(size, precision, &c, &q);
	int k = narrow ? floor_log10_of_three_quarters(q) : floor_log10_of_power_of_2(q);
	pthread_once(&powers.once, make_powers);
	const wide power = powers.entries[-k - LEAST_POWER];
	const int shift = q + floor_log2_of_power_of_10(-k) + 1; /* 1 to 4 */
	/* In quarters, so that the middles are integers; these count where c is even, as reading rounds to even. */
	const uint64_t odd = c & 1, value = multiply(power, 4 * c << shift);
	const uint64_t least = multiply(power, (4 * c - (narrow ? 1 : 2)) << shift) + odd;
	const uint64_t most = multiply(power, (4 * c + 2) << shift) - odd;
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
