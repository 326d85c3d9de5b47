/*
 * text_printf formats in a buffer on the stack, or on the heap if the result is longer.
 * Tests: tests/cases/errors.test, tests/unit/test_records.c
 */
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t utf8_length(const char *text, size_t left, uint32_t *c)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *s = (const unsigned char *)text;
	uint32_t made = s[0];
	size_t n = made < 0x80                   ? 1
	           : made >= 0xc0 && made < 0xe0 ? 2
	           : made >= 0xe0 && made < 0xf0 ? 3
	           : made >= 0xf0 && made < 0xf8 ? 4
	                                         : 0;
	if (n == 0 || n > left)
		return 0;
	if (n > 1)
		made &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		made = made << 6 | (s[i] & 0x3fu);
	}
	if (made < least[n] || made > 0x10ffff || (made >= 0xd800 && made < 0xe000))
		return 0;
	*c = made;
	return n;
}

bool utf8_shows(uint32_t c)
{
	const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
	const bool misleads = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	                      (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
	return !control && !misleads;
}

const char *text_join(const char *const *names, size_t count, struct arena *arena)
{
	enum { SHOWN = 20 };
	const char *list = "";
	for (size_t i = 0; i < count && i < SHOWN && list; i++)
		list = arena_printf(arena, "%s%s%s", list, i ? ", " : "", names[i]);
	if (list && count > SHOWN)
		list = arena_printf(arena, "%s and %zu more", list, count - SHOWN);
	return list ? list : "";
}

/* Parses the digits itself: strtod accepts hexadecimal numbers, nan, and the locale's comma. */
enum status bytes_parse(const char *text, int64_t *bytes, struct diags *diags)
{
	static const char units[] = "KMGT";
	long double value = 0, place = 1;
	const char *c = text;
	bool right = false; /* there is a digit, and the unit is valid */
	for (; *c >= '0' && *c <= '9'; c++, right = true)
		value = value * 10 + (*c - '0');
	if (*c == '.')
		for (c++; *c >= '0' && *c <= '9'; c++, right = true)
			value += (*c - '0') * (place /= 10);
	const char *unit = *c ? strchr(units, toupper((unsigned char)*c)) : NULL;
	if (unit) {
		const bool binary = c[1] == 'i';
		for (const char *u = units; u <= unit; u++)
			value *= binary ? 1024 : 1000;
		c += binary ? 2 : 1;
		right = right && (!binary || *c == 'B');
	}
	if (*c == 'B')
		c++;
	if (*c || !right) {
		diag_file(diags, STATUS_USAGE, NULL, -1, "'%s' is not a number of bytes", text);
		return diag_hint(diags,
		                 "write it like 1500, 64K (thousands), 64KiB (1024s), 1.5GiB; units are K, M, G, T and KiB, "
		                 "MiB, GiB, TiB");
	}
	if (value >= 9223372036854775807.0L)
		return diag_file(diags, STATUS_USAGE, NULL, -1, "'%s' is more bytes than can be counted", text);
	*bytes = (int64_t)floorl(value + 1e-9L);
	return STATUS_OK;
}

void text_put(const struct text *text, const char *piece) { text->write(text->context, piece, strlen(piece)); }

void text_printf(const struct text *text, const char *format, ...)
{
	char buffer[1024], *whole = NULL;
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);
	int n = vsnprintf(buffer, sizeof buffer, format, arguments);
	/* A text that is longer than the buffer is cut if memory is short. */
	if (n >= (int)sizeof buffer && vasprintf(&whole, format, again) < 0) {
		whole = NULL;
		n = sizeof buffer - 1;
	}
	va_end(again);
	va_end(arguments);
	if (n > 0)
		text->write(text->context, whole ? whole : buffer, (size_t)n);
	free(whole);
}
