/*
 * Numbers as text, in the C locale; the program never sets another.
 *
 * Printing lays out digits as Python does, but whole numbers without ".0". The digits are the shortest that read back
 * the same (io/shortest.c), or all of a whole number below 10^15. Reading first tries Clinger's fast path (1990):
 * integers up to 2^53 and powers of ten up to 10^22 are exact doubles, so one division rounds once. Otherwise strtod
 * reads the word.
 */
#include "io/array.h"

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

/* Clinger's fast path, for the LENGTH > 0 bytes of TEXT. Returns false if it does not apply, as with an exponent. */
static bool parse_exactly(const char *text, size_t length, double *value)
{
	uint64_t mantissa = 0;
	int digits = 0, power = 0;
	bool point = false, any = false;
	for (size_t i = text[0] == '-' || text[0] == '+'; i < length; i++) {
		unsigned d = (unsigned)(unsigned char)text[i] - '0';
		if (d < 10) {
			any = true;
			mantissa = mantissa * 10 + d;
			digits += mantissa != 0;
			power -= point;
			if (digits > 18 || power < -4 * MAX_POWER)
				return false;
		} else if (text[i] == '.' && !point) {
			point = true;
		} else {
			return false;
		}
	}
	if (!any || mantissa > UINT64_C(1) << 53 || power < -MAX_POWER)
		return false;
	double result = (double)mantissa / exact_powers[-power];
	*value = text[0] == '-' ? -result : result;
	return true;
}

bool number_parse(const char *text, size_t length, double *value)
{
	if (length > 0 && parse_exactly(text, length, value))
		return true;
	/* strtod would also read white space, hexadecimal digits and nan(...). */
	if (length == 0 || strspn(text, "0123456789+-.eEinfatyINFATY") != length)
		return false;
	char *end;
	*value = strtod(text, &end);
	return end == text + length;
}
