/* A piece is made in a buffer on the stack, and a longer one in the heap. */
#include "base/text.h"

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

void text_put(const struct text *text, const char *piece) { text->write(text->context, piece, strlen(piece)); }

void text_printf(const struct text *text, const char *format, ...)
{
	char buffer[1024], *whole = NULL;
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);
	int n = vsnprintf(buffer, sizeof buffer, format, arguments);
	/* A long name. It is cut where memory is short. */
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
