/*
 * The numbers of a text: rows of numbers with white space or commas between them; csv must have commas. Empty lines are
 * no rows. An error names line and column, and may hint at what the text is instead.
 *
 * A scan holds a window of the text, from which it reads numbers in order. The window has what messages show: some bytes
 * around the word that is read next. It grows only if a word does not fit.
 */
#include "io/formats.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { AROUND = 4096, KEEP = 2 * AROUND, WINDOW = 256 << 10 };

struct scan {
	struct input *input;
	struct arena *arena;
	bool csv;
	int64_t first, limit; /* bytes of INPUT where the text begins, and where it ends at the latest */
	char *text;           /* the window: LENGTH bytes of CAPACITY, and a zero byte */
	size_t length, capacity, at;
	int64_t begin;      /* the window's first byte, counted as the next two from that of the text */
	int64_t line_begin; /* the current line's first byte */
	bool end;           /* the text ends with the window */
	bool comma;         /* a number must come before the next comma */
	uint32_t line;
	int64_t in_row; /* numbers so far in the row */
	int64_t rows, columns;
	char head[KEEP]; /* the first bytes of a line that begins before the window */
	struct diags *diags;
};

/* Reports an error at bytes BEGIN .. END-1 of a copy of the LENGTH bytes of TEXT, as the text is freed. */
static enum status report(struct scan *s, const char *text, size_t length, struct span span, const char *message)
{
	struct source *source = arena_alloc(s->arena, sizeof *source);
	char *copy = arena_strndup(s->arena, text, length);
	TRY_ALLOC(source && copy, s->diags);
	*source = (struct source){s->input->name, copy, length};
	return diag_at(s->diags, STATUS_DATA, source, span, "%s", message);
}

/* Reports an error at bytes BEGIN .. END-1 of the window. */
__attribute__((format(printf, 4, 5))) static enum status text_error(struct scan *s, size_t begin, size_t end,
                                                                    const char *format, ...)
{
	const int64_t column = s->begin + (int64_t)begin - s->line_begin + 1;
	const size_t first = column > AROUND ? begin - AROUND : begin + 1 - (size_t)column;
	size_t last = end;
	while (last < s->length && s->text[last] != '\n' && last - begin < AROUND)
		last++;
	if (last - first > KEEP) /* a long word */
		last = first + KEEP;
	va_list arguments;
	va_start(arguments, format);
	char message[160];
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	const struct span span = {(uint32_t)(begin - first), (uint32_t)((end < last ? end : last) - first), s->line,
	                          column < UINT32_MAX ? (uint32_t)column : UINT32_MAX};
	return report(s, s->text + first, last - first, span, message);
}

/* Reports that the row that ends at byte AT of the window has another number of numbers than those before. */
static enum status row_error(struct scan *s, size_t at)
{
	const int64_t length = s->begin + (int64_t)at - s->line_begin, line = s->line_begin - s->begin;
	const uint32_t shown = length < KEEP ? (uint32_t)length : KEEP;
	char message[160];
	snprintf(message, sizeof message, "a row of %lld numbers after rows of %lld", (long long)s->in_row,
	         (long long)s->columns);
	return report(s, line < 0 ? s->head : s->text + line, shown, (struct span){0, shown, s->line, 1}, message);
}

/* Ends a row at byte AT of the window, the line end or the end of the text. */
static enum status end_row(struct scan *s, size_t at)
{
	if (s->in_row == 0)
		return STATUS_OK;
	if (s->comma)
		return text_error(s, at, at + (at < s->length), "a row ends in a comma");
	if (s->rows > 0 && s->in_row != s->columns)
		return row_error(s, at);
	s->columns = s->in_row;
	s->rows++;
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

/* Moves the window on, past all but KEEP of the bytes that have been read. */
static enum status fill(struct scan *s)
{
	const struct allocator *a = s->arena->allocator;
	const size_t gone = s->at > KEEP ? s->at - KEEP : 0;
	const int64_t line = s->line_begin - s->begin;
	if (line >= 0 && line < (int64_t)gone)
		memcpy(s->head, s->text + line, KEEP);
	memmove(s->text, s->text + gone, s->length - gone);
	s->begin += (int64_t)gone;
	s->length -= gone;
	s->at -= gone;
	if (s->length > s->capacity / 2) { /* a word that does not fit */
		char *grown = a->resize(a->context, s->text, s->capacity + 1, 2 * s->capacity + 1);
		if (!grown)
			return scan_out_of_memory(s->input, s->begin + (int64_t)s->length, s->diags);
		s->text = grown;
		s->capacity *= 2;
	}
	const int64_t left = s->limit - s->input->offset;
	const size_t free = s->capacity - s->length, size = left < (int64_t)free ? (size_t)left : free;
	size_t got;
	TRY(input_read(s->input, s->text + s->length, size, &got, s->diags));
	s->length += got;
	s->text[s->length] = '\0';
	s->end = got < free;
	return STATUS_OK;
}

/* Reads the number at the window's next byte, if it is a plain one that ends in the window. */
static bool read_plain(struct scan *s, double *to)
{
	const char *last = s->text + s->length, *end = number_read(s->text + s->at, last, to);
	if (!end || (end < last ? *end != '\n' && *end != ',' && !is_blank(*end) : !s->end))
		return false;
	s->at = (size_t)(end - s->text);
	return true;
}

/* Reads the word at the window's next byte as a number. */
static enum status read_word(struct scan *s, double *to)
{
	size_t size = 0;
	for (;;) {
		const char *word = s->text + s->at;
		const size_t most = s->length - s->at;
		while (size < most && word[size] != '\n' && word[size] != ',' && !is_blank(word[size]))
			size++;
		if (size < most || s->end || memchr(word, 0, size)) /* there may be no end of such a word */
			break;
		TRY(fill(s));
	}
	if (!number_parse(s->text + s->at, size, to))
		return not_a_number(s, s->at, s->at + size);
	s->at += size;
	return STATUS_OK;
}

/* Makes the text's first byte, which INPUT gives next, the next of the scan. */
static enum status begin_scan(struct scan *s)
{
	s->length = s->at = 0;
	s->begin = s->line_begin = s->in_row = s->rows = s->columns = 0;
	s->end = false;
	s->comma = true;
	s->line = 1;
	TRY(fill(s));
	s->at = s->length >= 3 && !memcmp(s->text, "\xef\xbb\xbf", 3) ? 3 : 0;
	return STATUS_OK;
}

enum status scan_open(struct scan **scan, const struct reader *reader, struct diags *diags)
{
	const struct allocator *a = reader->arena->allocator;
	struct input *input = reader->input;
	struct scan *s = *scan = allocator_get(a, sizeof *s, 1);
	TRY_ALLOC(s, diags);
	*s = (struct scan){.input = input,
	                   .arena = reader->arena,
	                   .csv = reader->format == FORMAT_CSV,
	                   .first = input->offset,
	                   .limit = INT64_MAX,
	                   .capacity = WINDOW,
	                   .diags = diags};
	s->text = allocator_get(a, s->capacity + 1, 1);
	TRY_ALLOC(s->text, diags);
	return begin_scan(s);
}

void scan_close(struct scan *s)
{
	const struct allocator *a = s->arena->allocator;
	allocator_put(a, s->text, s->capacity + 1);
	allocator_put(a, s, sizeof *s);
}

enum status scan_restart(struct scan *s, struct diags *diags)
{
	s->diags = diags;
	TRY(input_seek(s->input, s->first, diags));
	return begin_scan(s);
}

enum status scan_read(struct scan *s, double *to, size_t count, size_t *got, struct diags *diags)
{
	s->diags = diags;
	for (*got = 0;;) {
		if (s->at + AROUND >= s->length && !s->end)
			TRY(fill(s));
		if (s->at == s->length)
			return end_row(s, s->at);
		const char c = s->text[s->at];
		if (c == '\n') {
			TRY(end_row(s, s->at));
			s->comma = true;
			s->line++;
			s->at++;
			s->line_begin = s->begin + (int64_t)s->at;
		} else if (c == ',') {
			if (s->comma)
				return text_error(s, s->at, s->at + 1, "an empty field");
			s->comma = true;
			s->at++;
		} else if (is_blank(c)) {
			s->at++;
		} else {
			if (s->csv && !s->comma)
				return text_error(s, s->at, s->at + 1, "expected a comma before the next number");
			if (*got == count)
				return STATUS_OK;
			if (!read_plain(s, &to[*got]))
				TRY(read_word(s, &to[*got]));
			++*got;
			s->in_row++;
			s->comma = false;
		}
	}
}

bool scan_done(const struct scan *s) { return s->end && s->at == s->length; }
struct text_size scan_size(const struct scan *s) { return (struct text_size){s->rows, s->columns}; }
size_t scan_memory(const struct scan *s) { return sizeof *s + s->capacity; }
int64_t scan_bytes(const struct scan *s) { return s->begin + (int64_t)s->length; }

/* Counts the words that begin between TEXT and END, parts of a line. IN_WORD: the last byte was a word's. */
static int64_t count_words(const char *text, const char *end, bool *in_word)
{
	int64_t words = 0;
	for (; text < end; text++) {
		const bool word = *text != ',' && !is_blank(*text);
		words += word && !*in_word;
		*in_word = word;
	}
	return words;
}

/* Checks the numbers of the first window. */
static enum status check_window(struct scan *s)
{
	double values[512];
	size_t got;
	const int64_t begin = s->begin;
	while (s->begin == begin && !scan_done(s))
		TRY(scan_read(s, values, sizeof values / sizeof *values, &got, s->diags));
	return STATUS_OK;
}

enum status scan_count(struct scan *s, struct text_size *size, struct diags *diags)
{
	bool blank = true, in_word = false; /* BLANK: the line has no word so far */
	*size = (struct text_size){0, 0};
	s->limit = s->input->size;
	TRY(check_window(s));
	TRY(scan_restart(s, diags));
	for (;;) {
		const char *at = s->text + s->at, *const end = s->text + s->length;
		while (at < end) {
			while (blank && at < end && is_blank(*at))
				at++;
			const char *line_end = memchr(at, '\n', (size_t)(end - at)), *const stop = line_end ? line_end : end;
			size->rows += blank && stop > at;
			blank &= stop == at;
			if (size->rows == 1)
				size->columns += count_words(at, stop, &in_word);
			blank |= line_end != NULL;
			at = stop + (line_end != NULL);
		}
		s->at = s->length;
		if (s->end)
			break;
		TRY(fill(s));
	}
	return scan_restart(s, diags);
}
