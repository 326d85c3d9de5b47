/*
 * The numbers of a text: rows of numbers with white space or commas between them; csv must have commas. Empty lines are
 * no rows. An error names line and column, and may hint at what the text is instead.
 */
#include "io/formats.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_NUMBERS = 1024 };

struct scan {
	const struct reader *reader;
	const char *text;
	size_t length;
	struct numbers *numbers;
	int64_t in_row; /* numbers so far in the row */
	uint32_t line;
	struct diags *diags;
};

/* Reports an error at bytes BEGIN .. END-1. The message has a copy of the text around them, as the text is freed. */
__attribute__((format(printf, 4, 5))) static enum status text_error(struct scan *s, size_t begin, size_t end,
                                                                    const char *format, ...)
{
	enum { AROUND = 4096 };
	size_t line = begin, first, last = end;
	while (line > 0 && s->text[line - 1] != '\n')
		line--;
	first = begin - line > AROUND ? begin - AROUND : line;
	while (last < s->length && s->text[last] != '\n' && last - begin < AROUND)
		last++;
	if (last - first > 2 * AROUND) /* a long row */
		last = first + 2 * AROUND;
	struct source *source = arena_alloc(s->reader->arena, sizeof *source);
	char *copy = arena_strndup(s->reader->arena, s->text + first, last - first);
	va_list arguments;
	va_start(arguments, format);
	char message[160];
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	TRY_ALLOC(source && copy, s->diags);
	size_t column = begin - line + 1;
	*source = (struct source){s->reader->input->name, copy, last - first};
	struct span span = {(uint32_t)(begin - first), (uint32_t)((end < last ? end : last) - first), s->line,
	                    column < UINT32_MAX ? (uint32_t)column : UINT32_MAX};
	return diag_at(s->diags, STATUS_DATA, source, span, "%s", message);
}

/* Ends a row at AT, the line end or the end of the text. COMMA: the row ends in a comma, or has no number. */
static enum status end_row(struct scan *s, size_t at, bool comma)
{
	struct numbers *n = s->numbers;
	if (s->in_row == 0)
		return STATUS_OK;
	if (comma)
		return text_error(s, at, at + (at < s->length), "a row ends in a comma");
	if (n->rows > 0 && s->in_row != n->columns) {
		size_t begin = at;
		while (begin > 0 && s->text[begin - 1] != '\n')
			begin--;
		return text_error(s, begin, at, "a row of %lld numbers after rows of %lld", (long long)s->in_row,
		                  (long long)n->columns);
	}
	n->columns = s->in_row;
	n->rows++;
	s->in_row = 0;
	return STATUS_OK;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

enum status scan_out_of_memory(const struct input *input, size_t read, struct diags *diags)
{
	diag_file(diags, STATUS_LIMIT, input->name, (int64_t)read,
	          "out of memory: it is read whole, and has more bytes than these");
	return diag_hint(diags, "npy, or raw data with --shape, is read in parts if the chain works row by row");
}

/* Reports that the bytes from AT to END are no number, with a hint. */
static enum status not_a_number(struct scan *s, size_t at, size_t end)
{
	const char *zero = memchr(s->text + at, 0, end - at);
	if (zero)
		at = (size_t)(zero - s->text);
	unsigned char c = (unsigned char)s->text[at];
	enum status status;
	if (c < 0x20 || c == 0x7f) {
		status = text_error(s, at, at + 1, "byte 0x%02x is neither a number nor white space", c);
		return diag_hint(s->diags, "npy data begins with \\x93NUMPY, text holds numbers%s",
		                 s->diags->library ? "" : "; --from raw reads plain binary values");
	}
	size_t shown = end - at > 40 ? 40 : end - at;
	while (shown > 1 && shown < end - at && ((unsigned char)s->text[at + shown] & 0xc0) == 0x80)
		shown--;
	status =
		text_error(s, at, end, "'%.*s%s' is not a number", (int)shown, s->text + at, shown < end - at ? "..." : "");
	if (end - at > 2 && c == '"' && strchr("+-.0123456789", s->text[at + 1]))
		diag_hint(s->diags, "numbers have no quotes; remove them by tr -d '\"'");
	else if (s->line == 1 && s->in_row == 0 && (isalpha(c) || c == '_' || c == '"'))
		diag_hint(s->diags, "remove a header line of names, as with: tail -n +2");
	else if (memchr(s->text + at, ';', end - at))
		diag_hint(s->diags, "white space or commas separate numbers");
	return status;
}

static enum status add_number(struct scan *s, size_t *at)
{
	size_t end = *at;
	while (end < s->length && s->text[end] != '\n' && s->text[end] != ',' && !is_blank(s->text[end]))
		end++;
	double value;
	if (!number_parse(s->text + *at, end - *at, &value))
		return not_a_number(s, *at, end);
	struct numbers *n = s->numbers;
	if (n->count == n->capacity) { /* allocator_grow would touch the memory that is not needed yet */
		const size_t next = n->capacity ? 2 * n->capacity : FIRST_NUMBERS;
		const struct allocator *a = s->reader->arena->allocator;
		double *grown = a->resize(a->context, n->values, n->capacity * sizeof *grown, next * sizeof *grown);
		if (!grown)
			return scan_out_of_memory(s->reader->input, *at, s->diags);
		n->values = grown;
		n->capacity = next;
	}
	n->values[n->count++] = value;
	s->in_row++;
	*at = end;
	return STATUS_OK;
}

static enum status scan_rows(struct scan *s)
{
	bool csv = s->reader->format == FORMAT_CSV, comma = true; /* `comma`: a number must come before the next comma */
	size_t i = s->length >= 3 && !memcmp(s->text, "\xef\xbb\xbf", 3) ? 3 : 0;
	while (i < s->length) {
		char c = s->text[i];
		if (c == '\n') {
			TRY(end_row(s, i, comma));
			comma = true;
			s->line++;
			i++;
		} else if (c == ',') {
			if (comma)
				return text_error(s, i, i + 1, "an empty field");
			comma = true;
			i++;
		} else if (is_blank(c)) {
			i++;
		} else {
			if (csv && !comma)
				return text_error(s, i, i + 1, "expected a comma before the next number");
			TRY(add_number(s, &i));
			comma = false;
		}
	}
	return end_row(s, i, comma);
}

static void free_numbers(const struct reader *reader, const struct numbers *numbers)
{
	allocator_put(reader->arena->allocator, numbers->values, numbers->capacity * sizeof *numbers->values);
}

enum status scan_text(const struct reader *reader, const char *text, size_t length, struct numbers *numbers,
                      struct diags *diags)
{
	struct scan s = {.reader = reader, .text = text, .length = length, .numbers = numbers, .line = 1, .diags = diags};
	*numbers = (struct numbers){0};
	const enum status status = scan_rows(&s);
	if (status)
		free_numbers(reader, numbers);
	return status;
}

/* Scans up to the last line end or, within the first row, up to the last whole number. */
enum status scan_begin(const struct reader *reader, const char *text, size_t length, struct diags *diags)
{
	size_t cut = length;
	while (cut > 0 && text[cut - 1] != '\n')
		cut--;
	if (cut == 0) {
		cut = length;
		while (cut > 0 && text[cut - 1] != ',' && !is_blank(text[cut - 1]))
			cut--;
		while (cut > 0 && (text[cut - 1] == ',' || is_blank(text[cut - 1])))
			cut--;
	}
	if (cut == 0 && memchr(text, 0, length))
		cut = length;
	struct numbers numbers;
	TRY(scan_text(reader, text, cut, &numbers, diags));
	free_numbers(reader, &numbers);
	return STATUS_OK;
}
