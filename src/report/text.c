/* Pieces of text; see text.h. */
#include "report/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at S, or 0. */
static size_t sequence(const unsigned char *s)
{
	size_t n = s[0] < 0x80                   ? 1
	           : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
	           : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
	           : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
	                                         : 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* The same where it is valid. */
static size_t valid_sequence(const unsigned char *s)
{
	size_t n = sequence(s);
	bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
	bool surrogate = s[0] == 0xed && s[1] >= 0xa0, beyond = s[0] == 0xf4 && s[1] >= 0x90;
	return n == 0 || overlong || surrogate || beyond ? 0 : n;
}

void text_json(const struct text *text, const char *string)
{
	if (!string) {
		text_put(text, "null");
		return;
	}
	text_put(text, "\"");
	for (const unsigned char *s = (const unsigned char *)string; *s;) {
		size_t n = valid_sequence(s);
		if (*s == '"' || *s == '\\')
			text_printf(text, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f || n == 0)
			text_printf(text, "\\u%04x", *s);
		else
			text->write(text->context, (const char *)s, n);
		s += n ? n : 1;
	}
	text_put(text, "\"");
}

/* Bytes of the character at S that XML may hold, or 0. */
static size_t xml_sequence(const unsigned char *s)
{
	size_t n = valid_sequence(s);
	if (n == 1)
		return *s >= 0x20 && *s != 0x7f;
	bool control = s[0] == 0xc2 && s[1] < 0xa0, none = s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe;
	return n == 0 || control || none ? 0 : n;
}

void text_xml(const struct text *text, const char *string)
{
	for (const unsigned char *s = (const unsigned char *)string; *s;) {
		size_t n = xml_sequence(s);
		const char *entity = *s == '&'   ? "&amp;"
		                     : *s == '<' ? "&lt;"
		                     : *s == '>' ? "&gt;"
		                     : *s == '"' ? "&quot;"
		                                 : NULL;
		if (entity)
			text_put(text, entity);
		else if (*s == '\n' || *s == '\r' || *s == '\t')
			text_put(text, " ");
		else if (n == 0)
			text_put(text, "\xef\xbf\xbd");
		else
			text->write(text->context, (const char *)s, n);
		s += n ? n : sequence(s) ? sequence(s) : 1;
	}
}

void text_csv(const struct text *text, const char *field)
{
	if (!strpbrk(field, ",\"\n\r")) {
		text_put(text, field);
		return;
	}
	text_put(text, "\"");
	for (; *field; field++)
		text_printf(text, *field == '"' ? "\"\"" : "%c", *field);
	text_put(text, "\"");
}

void text_number(const struct text *text, double value)
{
	if (!isfinite(value))
		text_put(text, "null");
	else if (value == floor(value) && fabs(value) < 1e15)
		text_printf(text, "%.0f", value);
	else
		text_printf(text, "%.6g", value);
}

const char *text_bytes(int64_t bytes, char buffer[32])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)bytes;
	int unit = 0;
	while (value >= 1024 && unit < 5) {
		value /= 1024;
		unit++;
	}
	if (unit == 0 || value == floor(value))
		snprintf(buffer, 32, "%.0f %s", value, units[unit]);
	else
		snprintf(buffer, 32, "%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, units[unit]);
	return buffer;
}

void text_table(const struct text *text, const char *const *cells, size_t rows, size_t columns, uint64_t right)
{
	enum { MOST = 64 };
	size_t widths[MOST] = {0};
	for (size_t i = 0; i < rows * columns; i++) {
		size_t width = diag_escape(cells[i], NULL, NULL);
		if (width > widths[i % columns])
			widths[i % columns] = width;
	}
	for (size_t r = 0; r < rows; r++) {
		for (size_t c = 0; c < columns; c++) {
			const char *cell = cells[r * columns + c];
			int fill = (int)(widths[c] - diag_escape(cell, NULL, NULL));
			bool last = c + 1 == columns;
			if (right >> c & 1)
				text_printf(text, "%*s", fill, "");
			diag_escape(cell, text->write, text->context);
			if (!(right >> c & 1) && !last)
				text_printf(text, "%*s", fill, "");
			text_put(text, last ? "\n" : "  ");
		}
	}
}
