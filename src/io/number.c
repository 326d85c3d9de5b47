/*
 * Numbers as text, in the C locale: the program never sets another.
 *
 * Printing finds the shortest digits that read back the same, and of those the
 * nearest. Between 1e-6 and 1e17 that is done exactly in integers of 128 bits:
 * the value times a power of ten, its distance to a candidate and the gap to its
 * neighbours are all whole numbers there (the question is that of Steele and
 * White, 1990). Beyond, printf and strtod answer it. Reading takes Clinger's fast path (1990): up to 2^53 and powers of
 * ten up to 10^22 are exact doubles, so that one division or product rounds once.
 * Where that path does not serve, strtod reads; words of any length are right, since
 * a long one is cut to digits that decide the same.
 */
#include "io/array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double exact_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { MAX_POWER = 22, SIGNIFICANT = 17 };

/* Bits of precision, the exponent of the last bit of the least numbers, and the digits that always survive. */
static const struct precision {
	int bits, least, digits;
} precisions[] = {[DTYPE_F16] = {11, -24, 3},
                  [DTYPE_BF16] = {8, -133, 2},
                  [DTYPE_F32] = {24, -149, 6},
                  [DTYPE_F64] = {53, -1074, 15}};

/* COUNT digits, the first worth 10^EXPONENT, with an exponent of two digits or more, as Python has it. */
static int spell_scientific(char text[40], bool negative, const char *digits, int count, int exponent)
{
	return sprintf(text, "%s%c%s%.*se%c%02d", negative ? "-" : "", digits[0], count > 1 ? "." : "", count - 1,
	               digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
}

/* The same as people write it: positional from 1e-4 to 1e16, as Python does. */
static int spell(char text[40], bool negative, const char *digits, int count, int exponent)
{
	if (exponent < -4 || exponent >= 16)
		return spell_scientific(text, negative, digits, count, exponent);
	char *out = text;
	if (negative)
		*out++ = '-';
	if (exponent < 0) {
		*out++ = '0';
		*out++ = '.';
		for (int i = -1; i > exponent; i--)
			*out++ = '0';
		memcpy(out, digits, (size_t)count);
		out += count;
	} else {
		for (int i = 0; i <= exponent || i < count; i++) {
			if (i == exponent + 1)
				*out++ = '.';
			*out++ = i < count ? digits[i] : '0';
		}
	}
	*out = '\0';
	return (int)(out - text);
}

__extension__ typedef unsigned __int128 wide;

static const uint64_t powers[] = {1,
                                  10,
                                  100,
                                  1000,
                                  10000,
                                  100000,
                                  1000000,
                                  10000000,
                                  100000000,
                                  1000000000,
                                  10000000000,
                                  100000000000,
                                  1000000000000,
                                  10000000000000,
                                  100000000000000,
                                  1000000000000000,
                                  10000000000000000,
                                  100000000000000000};

/* A positive number m 2^-s, and V = m 10^P in units of 2^-s 10^-P: q 2^s + rest. */
struct scaled {
	uint64_t m;
	int s, p;
	wide gap; /* to the next number */
	wide rest;
	uint64_t q;  /* 17 digits */
	bool narrow; /* the gap below is half as wide: m is a power of two */
};

static void scale_by(struct scaled *v, int p, int up)
{
	wide ten = (wide)powers[p / 2] * powers[p - p / 2], value = ((wide)v->m << up) * ten;
	v->p = p;
	v->gap = ten << up;
	v->q = (uint64_t)(value >> v->s);
	v->rest = value - ((wide)v->q << v->s);
}

/* Splits SIZE, in [1e-6, 1e17), so that q has 17 digits; true for a denormal of that precision. */
static bool scale(struct scaled *v, double size, const struct precision *precision)
{
	int binary, p = SIGNIFICANT - 1 - (int)floor(log10(size));
	v->m = (uint64_t)ldexp(frexp(size, &binary), precision->bits);
	int last = binary - precision->bits; /* SIZE is m 2^last */
	bool denormal = last < precision->least;
	if (denormal) {
		last = precision->least;
		v->m = (uint64_t)ldexp(size, -last);
	}
	v->narrow = v->m == UINT64_C(1) << (precision->bits - 1) && last > precision->least;
	v->s = last < 0 ? -last : 0;
	p = p < 0 ? 0 : p > MAX_POWER ? MAX_POWER : p;
	scale_by(v, p, last > 0 ? last : 0);
	/* The logarithm may have been rounded across a power of ten. */
	if (v->q >= powers[SIGNIFICANT] && p > 0)
		scale_by(v, p - 1, last > 0 ? last : 0);
	else if (v->q < powers[SIGNIFICANT - 1] && p < MAX_POWER)
		scale_by(v, p + 1, last > 0 ? last : 0);
	return denormal;
}

/* Whether the multiple of UNIT above V is nearer than the one below; of two as near, the even one. */
static bool nearer_above(const struct scaled *v, uint64_t unit)
{
	uint64_t below = v->q % unit;
	wide twice = 2 * (((wide)below << v->s) + v->rest), one = (wide)unit << v->s;
	return twice > one || (twice == one && v->q / unit % 2 == 1);
}

/* Whether the multiple of UNIT next to V, the one above where UP, lies within half a gap of V. */
static bool reads_back(const struct scaled *v, uint64_t unit, bool up)
{
	uint64_t below = v->q % unit, off = up ? unit - below : below;
	if (off > (v->gap >> v->s) + 1)
		return false;
	wide distance = up ? ((wide)off << v->s) - v->rest : ((wide)off << v->s) + v->rest;
	wide room = v->narrow && !up ? v->gap / 2 : v->gap;
	return 2 * distance < room || (2 * distance == room && v->m % 2 == 0); /* halves go to even when read */
}

/* The digits of SIZE, in [1e-6, 1e17), to DIGITS; their number. */
static int shortest_exact(char digits[SIGNIFICANT + 2], int *exponent, double size, const struct precision *precision)
{
	struct scaled v;
	int j = scale(&v, size, precision) ? SIGNIFICANT - 1 : SIGNIFICANT - precision->digits;
	bool up;
	for (;; j--) {
		uint64_t unit = powers[j];
		up = nearer_above(&v, unit);
		if (j == 0 || reads_back(&v, unit, up))
			break;
		up = !up;
		if (v.narrow && reads_back(&v, unit, up))
			break;
	}
	int count = sprintf(digits, "%llu", (unsigned long long)(v.q / powers[j] + up));
	*exponent = count - 1 + j - v.p;
	return count;
}

/* Whether the decimal TEXT is SIZE when it is read as a DTYPE. */
static bool is_read_as(const char *text, double size, enum dtype dtype)
{
	if (dtype == DTYPE_F32)
		return strtof(text, NULL) == (float)size;
	double value = strtod(text, NULL);
	values_round(&value, DTYPE_F64, 1, dtype);
	return value == size;
}

/* "1.25e-30" to "1.26e-30"; false where all digits are nines. */
static bool increment(char *text)
{
	for (char *p = strchr(text, 'e') - 1; p >= text; p--) {
		if (*p == '.')
			continue;
		if (*p != '9') {
			++*p;
			return true;
		}
		*p = '0';
	}
	return false;
}

/* The same for any other SIZE: the fewest digits of printf's that read back. */
static int shortest_tried(char digits[SIGNIFICANT + 2], int *exponent, double size, enum dtype dtype)
{
	char text[40];
	int binary, count = 0;
	bool narrow =
		frexp(size, &binary) == 0.5; /* the next decimal above may read back where the nearest, below, does not */
	bool denormal = binary - precisions[dtype].bits < precisions[dtype].least;
	for (int n = denormal ? 1 : precisions[dtype].digits; n <= SIGNIFICANT; n++) {
		snprintf(text, sizeof text, "%.*e", n - 1, size);
		if (is_read_as(text, size, dtype) || (narrow && increment(text) && is_read_as(text, size, dtype)))
			break;
	}
	for (const char *t = text; *t != 'e'; t++)
		if (*t != '.')
			digits[count++] = *t;
	*exponent = atoi(strchr(text, 'e') + 1);
	return count;
}

/* The digits of SIZE, positive and finite, without zeros at their end; their number, and the exponent of the first. */
static int shortest(char digits[SIGNIFICANT + 2], int *exponent, double size, enum dtype dtype)
{
	int count;
	if (size >= 1e-6 && size < 1e17)
		count = shortest_exact(digits, exponent, size, &precisions[dtype]);
	else
		count = shortest_tried(digits, exponent, size, dtype);
	while (count > 1 && digits[count - 1] == '0')
		count--;
	return count;
}

static int format_special(char text[40], double value)
{
	if (value != value)
		return sprintf(text, "nan");
	if (isinf(value))
		return sprintf(text, value < 0 ? "-inf" : "inf");
	return sprintf(text, signbit(value) ? "-0" : "0");
}

int number_format_as(char text[40], double value, enum dtype dtype)
{
	double size = fabs(value);
	if (!isfinite(value) || value == 0)
		return format_special(text, value);
	if (size < 1e15 && size == floor(size))
		return sprintf(text, "%lld", (long long)value);
	char digits[SIGNIFICANT + 2];
	int exponent, count = shortest(digits, &exponent, size, dtype);
	return spell(text, value < 0, digits, count, exponent);
}

int number_format_scientific(char text[40], double value, enum dtype dtype)
{
	if (!isfinite(value) || value == 0)
		return format_special(text, value);
	char digits[SIGNIFICANT + 2];
	int exponent, count = shortest(digits, &exponent, fabs(value), dtype);
	return spell_scientific(text, value < 0, digits, count, exponent);
}

int number_format(char text[40], double value, bool single)
{
	return number_format_as(text, value, single ? DTYPE_F32 : DTYPE_F64);
}

/* Clinger's fast path, for TEXT that begins with a digit, a point or a sign; bytes taken, or 0 for another way. */
static size_t parse_exactly(const char *text, size_t length, double *value)
{
	size_t i = text[0] == '-' || text[0] == '+';
	uint64_t mantissa = 0;
	int digits = 0, power = 0;
	bool point = false, any = false;
	for (; i < length; i++) {
		unsigned d = (unsigned)(unsigned char)text[i] - '0';
		if (d < 10) {
			any = true;
			mantissa = mantissa * 10 + d;
			digits += mantissa != 0;
			power -= point;
			if (digits > 18 || power < -4 * MAX_POWER)
				return 0;
		} else if (text[i] == '.' && !point) {
			point = true;
		} else {
			break;
		}
	}
	if (i < length && strchr("eEinfatyINFATY+-.", text[i]) && text[i])
		return 0;
	if (!any || mantissa > UINT64_C(1) << 53 || power < -MAX_POWER)
		return 0;
	double result = (double)mantissa / exact_powers[-power];
	*value = text[0] == '-' ? -result : result;
	return i;
}

enum { KEPT = 800, WORD = KEPT + 32, LARGE_EXPONENT = 1 << 30 };

/* Adds the exponent that is all of TEXT, "e-12", to *EXPONENT. */
static bool add_exponent(const char *text, size_t length, int64_t *exponent)
{
	if (length < 2 || (text[0] != 'e' && text[0] != 'E'))
		return false;
	size_t i = 1 + (text[1] == '-' || text[1] == '+');
	int64_t value = 0;
	if (i == length)
		return false;
	for (; i < length; i++) {
		unsigned d = (unsigned)(unsigned char)text[i] - '0';
		if (d > 9)
			return false;
		value = value < INT64_MAX / 16 ? value * 10 + d : value; /* more than any word has digits */
	}
	*exponent += text[1] == '-' ? -value : value;
	return true;
}

/*
 * A decimal of any LENGTH as one that reads the same and fits COPY: without the zeros
 * before its digits, and without those after KEPT digits, but for a last one that says
 * whether any of them was not 0. That is enough: what lies half way between two
 * doubles is a multiple of 2^-1075 and has at most 768 digits.
 */
static bool condense(const char *text, size_t length, char copy[WORD])
{
	size_t i = 0, used = 0;
	int64_t exponent = 0;
	bool point = false, any = false, more = false;
	if (text[0] == '-' || text[0] == '+')
		copy[used++] = text[i++];
	const size_t first = used;
	for (; i < length; i++) {
		unsigned d = (unsigned)(unsigned char)text[i] - '0';
		if (text[i] == '.' && !point) {
			point = true;
			continue;
		}
		if (d > 9)
			break;
		any = true;
		if (used - first == KEPT) {
			more |= d != 0;
			exponent += !point;
			continue;
		}
		if (d || used > first)
			copy[used++] = text[i];
		exponent -= point;
	}
	if (!any || (i < length && !add_exponent(text + i, length - i, &exponent)))
		return false;
	if (used == first || more) {
		copy[used++] = more ? '1' : '0';
		exponent -= more;
	}
	exponent = exponent > LARGE_EXPONENT ? LARGE_EXPONENT : exponent < -LARGE_EXPONENT ? -LARGE_EXPONENT : exponent;
	sprintf(copy + used, "e%d", (int)exponent);
	return true;
}

size_t number_parse(const char *text, size_t length, double *value)
{
	enum { SHORT = 64 };
	char copy[WORD];
	size_t n = length ? parse_exactly(text, length, value) : 0;
	if (n)
		return n;
	while (n < length && text[n] && strchr("0123456789+-.eEinfatyINFATY", text[n]))
		n++;
	if (n == 0)
		return 0;
	if (n >= SHORT) { /* too long for a word of letters */
		if (!condense(text, n, copy))
			return 0;
		*value = strtod(copy, NULL);
		return n;
	}
	memcpy(copy, text, n);
	copy[n] = '\0';
	const char *word = copy + (copy[0] == '-' || copy[0] == '+');
	char *end;
	*value = strtod(copy, &end);
	bool digits = (word[0] >= '0' && word[0] <= '9') || word[0] == '.';
	static const char *const words[] = {"inf", "nan", "infinity"};
	bool known = false;
	for (int i = 0; i < 3; i++)
		known |= !strcasecmp(word, words[i]);
	if (!digits && !known)
		return 0;
	return *end ? 0 : n;
}
