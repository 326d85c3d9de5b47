/* A piece is made in a buffer of its own, and in memory of its own only where it is longer. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_put(const struct text *text, const char *piece) { text->write(text->context, piece, strlen(piece)); }

void text_printf(const struct text *text, const char *format, ...)
{
	char buffer[1024], *whole = NULL;
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);
	int n = vsnprintf(buffer, sizeof buffer, format, arguments);
	/* A long name; cut where memory is short. */
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
