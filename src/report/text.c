/* Tests: tests/unit/test_records.c, tests/cases/cli.test */
#include "report/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void grow_text(void *context, const char *piece, size_t length)
{
	struct grown_text *grown = context;
	while (grown->used + length > grown->capacity) {
		char *bytes = arena_grow(grown->arena, grown->bytes, grown->capacity, &grown->capacity, 1);
		if (!bytes)
			return;
		grown->bytes = bytes;
	}
	memcpy(grown->bytes + grown->used, piece, length);
	grown->used += length;
}

void text_grow_in(struct grown_text *grown, struct arena *arena)
{
	*grown = (struct grown_text){.text = {grow_text, grown}, .arena = arena};
}

const char *text_grown(struct grown_text *grown)
{
	const char *made = arena_strndup(grown->arena, grown->bytes ? grown->bytes : "", grown->used);
	grown->used = 0;
	return made;
}

bool text_list_add(struct text_list *list, const char *text, struct arena *arena)
{
	const char **added = text ? arena_append(arena, &list->items, &list->count, &list->capacity, sizeof *added) : NULL;
	if (added)
		*added = text;
	return added;
}

void text_json(const struct text *text, const char *string)
{
	if (!string) {
		text_put(text, "null");
		return;
	}
	text->write(text->context, "\"", 1);
	const char *end = string + strlen(string), *plain = string; /* plain .. s-1: not written yet, no escapes */
	for (const char *s = string; s < end;) {
		uint32_t c = (unsigned char)*s;
		const bool quoted = c == '"' || c == '\\';
		if (c >= 0x20 && c < 0x7f && !quoted) {
			s++;
			continue;
		}
		const size_t n = utf8_length(s, (size_t)(end - s), &c);
		if (quoted || n == 0 || !utf8_shows(c)) {
			text->write(text->context, plain, (size_t)(s - plain));
			text_printf(text, quoted ? "\\%c" : "\\u%04x", (unsigned)c);
			plain = s + (n ? n : 1);
		}
		s += n ? n : 1;
	}
	text->write(text->context, plain, (size_t)(end - plain));
	text->write(text->context, "\"", 1);
}

void text_xml(const struct text *text, const char *string)
{
	const char *end = string + strlen(string);
	for (const char *s = string; s < end;) {
		uint32_t c;
		size_t n = utf8_length(s, (size_t)(end - s), &c);
		const char *entity = *s == '&'   ? "&amp;"
		                     : *s == '<' ? "&lt;"
		                     : *s == '>' ? "&gt;"
		                     : *s == '"' ? "&quot;"
		                                 : NULL;
		if (entity)
			text_put(text, entity);
		else if (*s == '\n' || *s == '\r' || *s == '\t')
			text_put(text, " ");
		else if (n == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff)
			text_put(text, "\xef\xbf\xbd");
		else
			text->write(text->context, s, n);
		s += n ? n : 1;
		while (n == 0 && s < end && (*s & 0xc0) == 0x80) /* one U+FFFD for all bytes of a broken character */
			s++;
	}
}

/* A diag_write of a quoted field: doubles each quote. */
static void write_quoted(void *context, const char *piece, size_t length)
{
	const struct text *text = context;
	for (size_t i = 0; i < length; i++)
		text->write(text->context, piece[i] == '"' ? "\"\"" : piece + i, piece[i] == '"' ? 2 : 1);
}

void text_csv(const struct text *text, const char *field)
{
	struct text quoted = *text;
	if (!strpbrk(field, ",\"")) {
		diag_escape(field, text->write, text->context);
		return;
	}
	text_put(text, "\"");
	diag_escape(field, write_quoted, &quoted);
	text_put(text, "\"");
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
	snprintf(buffer, 32, value < 999.5 ? "%.3g %s" : "%.0f %s", value, units[unit]);
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
			const bool last = c + 1 == columns, to_right = right >> c & 1;
			text_printf(text, "%*s", to_right ? fill : 0, "");
			diag_escape(cell, text->write, text->context);
			text_printf(text, "%*s%s", to_right || last ? 0 : fill, "", last ? "\n" : "  ");
		}
	}
}
