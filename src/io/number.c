/*
 * Numbers as text, in the C locale: the program never sets another.
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/array.h"

/* "1.50000e+30" to digits and exponent as people write them. */
static int spell(char text[40], const char *scientific)
{
	bool negative = scientific[0] == '-';
	char digits[32];
	int count = 0, exponent = 0;
	for (const char *p = scientific + negative; *p && *p != 'e'; p++)
		if (*p != '.')
			digits[count++] = *p;
	exponent = atoi(strchr(scientific, 'e') + 1);
	while (count > 1 && digits[count - 1] == '0')
		count--;
	char *out = text;
	if (negative)
		*out++ = '-';
	if (exponent < -5 || exponent >= 16) {
		*out++ = digits[0];
		if (count > 1) {
			*out++ = '.';
			memcpy(out, digits + 1, (size_t)count - 1);
			out += count - 1;
		}
		out += sprintf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
	} else if (exponent < 0) {
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

int number_format(char text[40], double value, bool single)
{
	if (value != value)
		return sprintf(text, "nan");
	if (isinf(value))
		return sprintf(text, value < 0 ? "-inf" : "inf");
	if (value == floor(value) && fabs(value) < 1e15 && !(value == 0 && signbit(value)))
		return sprintf(text, "%lld", (long long)value);
	if (value == 0)
		return sprintf(text, "-0");
	char scientific[40];
	/*
	 * Fifteen digits, or six of a float, that are read and printed again are the same, so that no fewer need
	 * to be tried (zeros at the end go); but a denormal holds fewer than that.
	 */
	bool denormal = fabs(value) < (single ? (double)FLT_MIN : DBL_MIN);
	for (int digits = denormal ? 1 : single ? 6 : 15; digits <= 17; digits++) {
		snprintf(scientific, sizeof scientific, "%.*e", digits - 1, value);
		if (single ? strtof(scientific, NULL) == (float)value : strtod(scientific, NULL) == value)
			break;
	}
	return spell(text, scientific);
}

size_t number_parse(const char *text, size_t length, double *value)
{
	char copy[512];
	size_t n = 0;
	while (n < length && n + 1 < sizeof copy && text[n] && strchr("0123456789+-.eEinfatyINFATY", text[n]))
		n++;
	if (n == 0 || n + 1 == sizeof copy)
		return 0;
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
