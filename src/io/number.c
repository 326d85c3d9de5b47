/*
 * Numbers as text, in the C locale; the program never sets another.
 *
 * Printing lays out digits as Python does, but whole numbers without ".0". The digits are the shortest that read back
 * the same (io/shortest.c), or all of a whole number below 10^15. Reading takes up to 19 digits, and rounds their product
 * with a power of ten once. strtod reads the few words for which that does not suffice.
 * Tests: tests/unit/test_text.c
 */
#include "io/array.h"

#include <endian.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/formats.h"

static const double exact_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { MAX_POWER = 22, DIGITS_MOST = 20 /* of 64 bits */ };

/* A number's decimal digits: COUNT of them, from FIRST on. The place of the first is worth 10^EXPONENT. */
struct digits {
	char space[2 * DIGITS_MOST]; /* the second half is zeros, so that DIGITS_MOST bytes can be copied from any digit */
	const char *first;
	int count, exponent;
};

static void keep_digits(struct digits *d, uint64_t value)
{
	char *end = d->space + DIGITS_MOST, *first = end;
	memset(end, 0, DIGITS_MOST);
	for (; value >= 10; value /= 100) { /* two digits at once */
		const unsigned two = (unsigned)(value % 100);
		*--first = (char)('0' + two % 10);
		*--first = (char)('0' + two / 10);
	}
	if (value > 0 || first == end)
		*--first = (char)('0' + value);
	d->first = first;
	d->count = (int)(end - first);
}

/*
 * Copies COUNT digits to TO, and returns where they end. The copy has a constant size, which needs no call. Later text
 * overwrites the surplus, which ends within a number's 40 bytes.
 */
static char *put_digits(char *to, const char *digits, int count)
{
	memcpy(to, digits, DIGITS_MOST);
	return to + count;
}

/* Writes a number as "1.25e-30", with an exponent of two or more digits, as Python does. Returns the length. */
static int spell_scientific(char text[40], bool negative, const struct digits *d)
{
	const int exponent = abs(d->exponent);
	char *out = text;
	if (negative)
		*out++ = '-';
	*out++ = d->first[0];
	if (d->count > 1) {
		*out++ = '.';
		out = put_digits(out, d->first + 1, d->count - 1);
	}
	*out++ = 'e';
	*out++ = d->exponent < 0 ? '-' : '+';
	if (exponent >= 100)
		*out++ = (char)('0' + exponent / 100);
	*out++ = (char)('0' + exponent / 10 % 10);
	*out++ = (char)('0' + exponent % 10);
	*out = '\0';
	return (int)(out - text);
}

/* Writes a number, without an exponent from 1e-4 to below 1e16, as Python does. Returns the length. */
static int spell_number(char text[40], bool negative, const struct digits *d)
{
	if (d->exponent < -4 || d->exponent >= 16)
		return spell_scientific(text, negative, d);
	const int whole = d->exponent < 0 ? 0 : d->exponent < d->count ? d->exponent + 1 : d->count; /* before the point */
	char *out = text;
	if (negative)
		*out++ = '-';
	if (whole == 0)
		*out++ = '0';
	out = put_digits(out, d->first, whole);
	for (int i = d->count; i <= d->exponent; i++)
		*out++ = '0';
	if (whole < d->count) {
		*out++ = '.';
		for (int i = -1; i > d->exponent; i--)
			*out++ = '0';
		out = put_digits(out, d->first + whole, d->count - whole);
	}
	*out = '\0';
	return (int)(out - text);
}

/* Writes the shortest digits of SIZE, positive and finite, to D, without trailing zeros. */
static void shortest_digits(struct digits *d, double size, enum dtype dtype)
{
	uint64_t decimal;
	int last;
	shortest_decimal(size, dtype, &decimal, &last);
	keep_digits(d, decimal);
	d->exponent = last + d->count - 1;
	while (d->count > 1 && d->first[d->count - 1] == '0')
		d->count--;
}

static int format_special(char text[40], double value)
{
	if (value != value)
		return sprintf(text, "nan");
	if (isinf(value))
		return sprintf(text, value < 0 ? "-inf" : "inf");
	return sprintf(text, signbit(value) ? "-0" : "0");
}

int number_format(char text[40], double value, enum dtype dtype)
{
	struct digits d;
	double size = fabs(value);
	if (!isfinite(value) || value == 0)
		return format_special(text, value);
	if (dtype > DTYPE_F64) /* an integer, whose digits all count */
		return sprintf(text, "%.0f", value);
	if (size < 1e15 && size == floor(size)) {
		keep_digits(&d, (uint64_t)size);
		d.exponent = d.count - 1;
	} else {
		shortest_digits(&d, size, dtype);
	}
	return spell_number(text, value < 0, &d);
}

int number_format_scientific(char text[40], double value, enum dtype dtype)
{
	struct digits d;
	if (!isfinite(value) || value == 0)
		return format_special(text, value);
	shortest_digits(&d, fabs(value), dtype);
	return spell_scientific(text, value < 0, &d);
}

/* A decimal: MANTISSA 10^EXPONENT, or more by less than 10^EXPONENT if digits were left OUT. */
struct decimal {
	uint64_t mantissa;
	int64_t exponent;
	bool out;
};

/* Returns how many of the eight bytes of EIGHT, the first in the lowest place, are digits before the first other. */
static int leading_digits(uint64_t eight)
{
	const uint64_t high = UINT64_C(0xf0f0f0f0f0f0f0f0), threes = UINT64_C(0x3030303030303030);
	const uint64_t six = UINT64_C(0x0606060606060606), above = (eight + six) & high; /* a digit is below 0x3a */
	const uint64_t others = ((eight & high) ^ threes) | (above ^ threes);
	return others ? __builtin_ctzll(others) / 8 : 8;
}

/* Returns the value of eight digits. Neighbours are joined to pairs, these to fours, and these to eight. */
static uint32_t value_of(uint64_t eight)
{
	eight -= UINT64_C(0x3030303030303030);
	eight = (eight * 10 + (eight >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
	eight = (eight * 100 + (eight >> 16)) & UINT64_C(0x0000ffff0000ffff);
	return (uint32_t)(eight * 10000 + (eight >> 32));
}

/* Adds the digits at AT to D. STEP is 0 before the point, and -1 after it. Returns where they end, at most END. */
static const char *take_digits(const char *at, const char *end, struct decimal *d, int step)
{
	static const uint64_t tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
	/* a mantissa below ROOMS[N] has room for N more digits */
	static const uint64_t rooms[] = {UINT64_MAX,        1000000000000000000, 100000000000000000,
	                                 10000000000000000, 1000000000000000,    100000000000000,
	                                 10000000000000,    1000000000000,       100000000000};
	const uint64_t room = rooms[1], zeros = UINT64_C(0x3030303030303030);
	for (uint64_t eight; end - at >= 8;) {
		memcpy(&eight, at, sizeof eight);
		eight = le64toh(eight);
		const int count = leading_digits(eight);
		if (count == 0)
			return at;
		if (d->mantissa >= rooms[count] || (count < 8 && step == 0)) /* most whole parts are short: no need to shift */
			break;
		if (count == 8) { /* the usual case, for which the next bytes need not wait for COUNT */
			d->mantissa = d->mantissa * tens[8] + value_of(eight);
			d->exponent += 8 * step;
			at += 8;
			continue;
		}
		eight = eight << (64 - 8 * count) | zeros >> 8 * count; /* zeros come before the digits */
		d->mantissa = d->mantissa * tens[count] + value_of(eight);
		d->exponent += count * step;
		return at + count;
	}
	for (unsigned digit; at < end && (digit = (unsigned)(unsigned char)*at - '0') < 10; at++) {
		if (d->mantissa < room) {
			d->mantissa = d->mantissa * 10 + digit;
			d->exponent += step;
		} else {
			d->out |= digit != 0;
			d->exponent += step + 1;
		}
	}
	return at;
}

/*
 * Sets *VALUE to the double nearest to MANTISSA 10^EXPONENT, MANTISSA > 0. The product with the power's first 128 bits,
 * rounded down, is less than MANTISSA too small in its last place (D. Lemire, "Number parsing at a gigabyte per
 * second", 2021, after M. Eisel). Returns false if that leaves open which double is nearest, or if that may be infinite.
 * None is below the normal ones, since the powers begin at 10^LEAST_POWER.
 */
static bool nearest_double(uint64_t mantissa, int64_t exponent, double *value)
{
	enum { FRACTION = 52, BIAS = 1075, MOST = 2045 /* rounding may add one to the field */, EXACT = 55 };
	if (exponent < LEAST_POWER || exponent > MOST_POWER)
		return false;
	const uint128 power = power_of_ten((int)exponent) - 1;
	const int zeros = __builtin_clzll(mantissa);
	const uint64_t shifted = mantissa << zeros;
	const uint128 low = (uint128)(uint64_t)power * shifted, high = (power >> 64) * shifted + (low >> 64);
	const int drop = 64 - FRACTION - 2 + (int)(high >> 127); /* bits of the upper half beyond a double's 53 */
	const uint128 half = (uint128)1 << (63 + drop), rest = high & (2 * half - 1);
	const bool exact = exponent >= 0 && exponent <= EXACT, middle = exact && rest == half && (uint64_t)low == 0;
	const int field = drop + floor_log2_of_power_of_10((int)exponent) + 1 - zeros + BIAS;
	if ((!exact && rest + 1 == half) || field > MOST)
		return false;
	const uint64_t kept = (uint64_t)(high >> (64 + drop)), up = middle ? kept & 1 : rest >= half;
	const uint64_t bits = ((uint64_t)(field - 1) << FRACTION) + kept + up;
	memcpy(value, &bits, sizeof bits);
	return true;
}

/*
 * Sets *VALUE to the double nearest to D. Clinger's fast path (1990) comes first: integers up to 2^53 and powers of ten
 * up to 10^22 are exact doubles, so one product or quotient rounds once. Returns false if that and 128 bits of a power
 * do not suffice.
 */
static bool double_of(const struct decimal *d, double *value)
{
	double above;
	if (d->mantissa == 0 ||
	    (d->mantissa <= UINT64_C(1) << 53 && d->exponent >= -MAX_POWER && d->exponent <= MAX_POWER)) {
		const double whole = (double)d->mantissa;
		const bool some = d->mantissa > 0;
		*value = !some ? 0 : d->exponent < 0 ? whole / exact_powers[-d->exponent] : whole * exact_powers[d->exponent];
		return true;
	}
	if (!nearest_double(d->mantissa, d->exponent, value))
		return false;
	return !d->out || (nearest_double(d->mantissa + 1, d->exponent, &above) && above == *value);
}

/* Adds the exponent at AT, if there is one, to D. Returns where it ends, at END at the latest; NULL if it has no digit. */
static const char *take_exponent(const char *at, const char *end, struct decimal *d)
{
	enum { LARGE = 100000 }; /* beyond any number of digits that decides */
	int64_t exponent = 0;
	if (at == end || (*at != 'e' && *at != 'E'))
		return at;
	at++;
	const bool negative = at < end && *at == '-';
	at += at < end && (*at == '-' || *at == '+');
	const char *first = at;
	for (unsigned digit; at < end && (digit = (unsigned)(unsigned char)*at - '0') < 10; at++)
		exponent = exponent < LARGE ? exponent * 10 + digit : exponent;
	d->exponent += negative ? -exponent : exponent;
	return at > first ? at : NULL;
}

const char *number_read(const char *text, const char *end, double *value)
{
	struct decimal d = {0, 0, false};
	const char *first = text + (text < end && (*text == '-' || *text == '+'));
	const char *at = take_digits(first, end, &d, 0);
	bool any = at > first;
	if (at < end && *at == '.') {
		first = at + 1;
		at = take_digits(first, end, &d, -1);
		any |= at > first;
	}
	at = any ? take_exponent(at, end, &d) : NULL;
	if (!at || !double_of(&d, value))
		return NULL;
	const double signs[] = {1, -1}; /* no branch, as signs are hard to guess */
	*value *= signs[*text == '-'];
	return at;
}

/*
 * Returns the double nearest to TEXT, which strtod read as VALUE, a number below the normal doubles. There strtod of
 * glibc 2.36 drops the first bit after a normal double's 53. The drop changes the result only if TEXT has no more bits.
 * Then a long double holds TEXT. A long double in the middle between two doubles does not tell which is nearer.
 */
static double nearest_below_normal(const char *text, double value)
{
	const long double wide = strtold(text, NULL);
	const double near = (double)wide;
	return fabsl(wide - near) == 0x1p-1075L ? value : near;
}

bool number_parse(const char *text, size_t length, double *value)
{
	if (number_read(text, text + length, value) == text + length && length > 0)
		return true;
	/* strtod would also read white space, hexadecimal digits and nan(...). */
	if (length == 0 || strspn(text, "0123456789+-.eEinfatyINFATY") != length)
		return false;
	char *end;
	*value = strtod(text, &end);
	if (fabs(*value) < DBL_MIN)
		*value = nearest_below_normal(text, *value);
	return end == text + length;
}
