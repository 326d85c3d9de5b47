/*
 * The numbers of a text: rows of fields, which a delimiter or blanks separate (io/table.c). Empty lines are no rows, and "#"
 * begins a comment that ends with its line. An error names line and column, and may hint at what the text is instead. A field
 * is missing if it is empty, NA, N/A or null: then it is the number of --missing, or an error. Fields of columns that are not
 * read may be any words. There a "#" begins a comment only after a blank or a number.
 *
 * A scan holds a window of the text, from which it reads numbers in order. The window has what messages show: some bytes
 * around the word that is read next. It grows only if a word does not fit.
 *
 * In a file a scan can also begin at a mark. Marks are places of rows, and of words in the first row, which may be the
 * only one.
 * Tests: tests/unit/test_text.c, tests/cases/text.test
 */
#include "base/checked.h"
#include "io/formats.h"
#include "io/table.h"

#include <endian.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { AROUND = 4096, KEEP = 2 * AROUND, WINDOW = 64 << 10 };

struct scan {
	struct input *input;
	struct arena *arena;
	const struct table *table;
	char delimiter;         /* '\n': blanks separate fields, and nothing else does */
	bool strict;            /* blanks alone do not */
	int64_t first;          /* byte of INPUT where the text begins */
	struct text_file *file; /* of a file, which is read at any place; NULL: INPUT is read in order */
	int64_t next;           /* the number that is read next from the text */
	char *text;             /* the window: LENGTH bytes of CAPACITY, and a zero byte */
	size_t length, capacity, at;
	int64_t begin;         /* the window's first byte, counted as the next from that of the text */
	int64_t line_begin;    /* the current line's first byte */
	bool end;              /* the text ends with the window */
	bool comma;            /* a field must come before the next delimiter */
	bool comment;          /* the next byte is of a comment */
	const double *missing; /* stands for a missing field; NULL: that is an error */
	uint32_t line;
	int64_t in_row;        /* fields so far in the row */
	int64_t values;        /* numbers of them that were read */
	int64_t rows, columns; /* COLUMNS: fields of a row */
	double *row;           /* the chosen numbers of a row, in the order of the text, if that is another; or NULL */
	int64_t row_at;        /* of these, the next that is returned; table->chosen_count: none is left */
	char head[KEEP];       /* the first bytes of a line that begins before the window */
	struct diags *diags;
	struct scan *link; /* the next of a list */
};

/* Reports an error at bytes BEGIN .. END-1 of a copy of the LENGTH bytes of TEXT, as the text is freed. */
static enum status report_error(struct scan *s, const char *text, size_t length, struct span span, const char *message)
{
	if (s->file)
		pthread_mutex_lock(&s->file->lock); /* other scans have the same arena */
	struct source *source = arena_alloc(s->arena, sizeof *source);
	char *copy = arena_strndup(s->arena, text, length);
	if (s->file)
		pthread_mutex_unlock(&s->file->lock);
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
	char message[240];
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	const struct span span = {(uint32_t)(begin - first), (uint32_t)((end < last ? end : last) - first), s->line,
	                          column < UINT32_MAX ? (uint32_t)column : UINT32_MAX};
	return report_error(s, s->text + first, last - first, span, message);
}

/* Reports that the row that ends at byte AT of the window has another number of numbers than those before. */
static enum status row_error(struct scan *s, size_t at)
{
	const int64_t length = s->begin + (int64_t)at - s->line_begin, line = s->line_begin - s->begin;
	const uint32_t shown = length < KEEP ? (uint32_t)length : KEEP;
	char message[160];
	const char *const text = line < 0 ? s->head : s->text + line;
	if (s->rows == 0)
		snprintf(message, sizeof message, "a row of %lld fields under a header of %lld", (long long)s->in_row,
		         (long long)s->columns);
	else
		snprintf(message, sizeof message, "a row of %lld %s after rows of %lld", (long long)s->in_row,
		         s->table->names || s->table->reads ? "fields" : "numbers", (long long)s->columns);
	const enum status status = report_error(s, text, shown, (struct span){0, shown, s->line, 1}, message);
	if (s->rows == 0 && s->in_row == s->columns + 1 && *text == '"')
		diag_hint(s->diags, "names of rows need one too: R omits them by row.names=FALSE");
	return status;
}

/* Adds the option for missing fields to the last error, and returns its status. The library has no options. */
static enum status hint_missing(struct scan *s, enum status status)
{
	if (!s->diags->library)
		diag_hint(s->diags, "--missing NUMBER reads missing fields as NUMBER: --missing nan, or --missing 0");
	return status;
}

/* True if the column of the field that is read next is wanted. */
static bool is_wanted(const struct scan *s)
{
	const struct table *t = s->table;
	return !t->reads || (s->in_row < t->fields && t->reads[s->in_row]);
}

/* Names the delimiter, in messages. */
static const char *delimiter_name(const struct scan *s, char quoted[4])
{
	if (s->delimiter == ',')
		return "comma";
	if (s->delimiter == '\t')
		return "tab";
	if (s->delimiter == '\n')
		return "blank";
	snprintf(quoted, 4, "'%c'", s->delimiter);
	return quoted;
}

enum { COLUMN_TEXT = 64 };

/* Writes " in column 'NAME'", as the header calls the column of the next field, to TO; "" if there is no header. */
static const char *column_name(const struct scan *s, char to[COLUMN_TEXT])
{
	const struct table *t = s->table;
	*to = '\0';
	if (t->names && s->in_row < t->fields)
		snprintf(to, COLUMN_TEXT, " in column '%.40s'", t->names[s->in_row]);
	else if (t->reads)
		snprintf(to, COLUMN_TEXT, " in column %lld", (long long)s->in_row);
	return to;
}

/* Ends a row at byte AT of the window, the line end or the end of the text. */
static enum status end_row(struct scan *s, size_t at)
{
	char name[4], column[COLUMN_TEXT];
	if (s->in_row == 0)
		return STATUS_OK;
	if (s->comma && !is_wanted(s)) {
		s->in_row++;
		s->comma = false;
	}
	if (s->comma && s->columns > 0 && s->in_row + 1 != s->columns) /* --missing would not help */
		return text_error(s, at, at + (at < s->length), "a row of %lld fields after rows of %lld: it ends in a %s",
		                  (long long)s->in_row + 1, (long long)s->columns, delimiter_name(s, name));
	if (s->comma && *column_name(s, column))
		return hint_missing(s, text_error(s, at, at + (at < s->length), "an empty field%s", column));
	if (s->comma)
		return hint_missing(s, text_error(s, at, at + (at < s->length), "a row ends in a %s", delimiter_name(s, name)));
	if (s->columns > 0 && s->in_row != s->columns)
		return row_error(s, at);
	s->columns = s->in_row;
	s->rows++;
	s->in_row = s->values = 0;
	return STATUS_OK;
}

enum status scan_out_of_memory(const struct input *input, size_t read, struct diags *diags)
{
	diag_file(diags, STATUS_LIMIT, input->name, (int64_t)read,
	          "out of memory: it is read whole, and has more bytes than these");
	return diag_hint(diags, "npy, or raw data with --shape, is read in parts if the chain works row by row");
}

/* True if C is a control code other than white space. */
static bool is_control(unsigned char c) { return (c < 0x20 && !strchr("\t\n\v\f\r", c)) || c == 0 || c == 0x7f; }

/* True if bytes from AT on are not those of a text. */
static bool looks_binary(const struct scan *s, size_t at)
{
	const size_t left = s->length - at, end = at + (left < AROUND ? left : AROUND);
	while (at < end && !is_control((unsigned char)s->text[at]))
		at++;
	return at < end;
}

static void hint_binary(struct scan *s)
{
	diag_hint(s->diags, "npy data begins with \\x93NUMPY, text holds numbers%s",
	          s->diags->library ? "" : "; --from raw reads plain binary values");
}

/* True if the bytes from AT to END are a number but for a comma in place of the point. */
static bool has_decimal_comma(const char *at, const char *end)
{
	char word[64];
	double value;
	const char *comma = memchr(at, ',', (size_t)(end - at));
	const size_t length = (size_t)(end - at);
	if (!comma || comma == at || length >= sizeof word)
		return false;
	memcpy(word, at, length);
	word[length] = '\0';
	word[comma - at] = '.';
	return number_parse(word, length, &value);
}

/* Sets the hint of the error that a word from AT to END, the next field, is no number. */
static void hint_other_columns(struct scan *s, size_t at, size_t end)
{
	const struct table *t = s->table;
	const int64_t line = s->line_begin - s->begin;
	if (s->rows == 0 && s->in_row == 0 && strchr("[{", s->text[at]))
		diag_hint(s->diags, "rows of JSON: jq -r '.[] | @csv', or '.[] | [.a, .b] | @csv' where each has names");
	else if (t->strict && s->rows == 0 && !t->names)
		diag_hint(s->diags, "a first line of names is a header if each begins with a letter, _ or a quote");
	else if (t->strict && line >= 0)
		table_hint_columns(t, s->text + line, s->text + s->length, s->in_row, s->diags);
	else if (!t->strict && memchr(s->text + at, ';', end - at))
		diag_hint(s->diags, "white space, commas or the delimiter of the first line separate numbers");
}

/* Reports that the bytes from AT to END are no number, with a hint. */
static enum status not_a_number(struct scan *s, size_t at, size_t end)
{
	const char *zero = memchr(s->text + at, 0, end - at);
	char column[COLUMN_TEXT];
	if (zero)
		at = (size_t)(zero - s->text);
	unsigned char c = (unsigned char)s->text[at];
	enum status status;
	if (at < end && (c < 0x20 || c == 0x7f)) {
		status = text_error(s, at, at + 1, "byte 0x%02x is neither a number nor white space", c);
		hint_binary(s);
		return status;
	}
	size_t shown = end - at > 40 ? 40 : end - at;
	while (shown > 1 && shown < end - at && ((unsigned char)s->text[at + shown] & 0xc0) == 0x80)
		shown--;
	const char *word = s->text + at, *more = shown < end - at ? "..." : "";
	if (has_decimal_comma(word, s->text + end)) {
		status =
			text_error(s, at, end, "'%.*s%s'%s has a decimal comma", (int)shown, word, more, column_name(s, column));
		return diag_hint(s->diags, "numbers have a decimal point, as in 1.5%s",
		                 s->delimiter == ',' ? "" : ": tr , . exchanges them"),
		       status;
	}
	status = text_error(s, at, end, "'%.*s%s' is not a number%s", (int)shown, word, more, column_name(s, column));
	if (looks_binary(s, at))
		hint_binary(s);
	else if (table_is_missing(s->text + at, end - at))
		hint_missing(s, status);
	else
		hint_other_columns(s, at, end);
	return status;
}

/* Moves the window on, past all but KEEP of the bytes that have been read. */
static enum status move_window(struct scan *s)
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
	const size_t free = s->capacity - s->length;
	const int64_t offset = s->first + s->begin + (int64_t)s->length, left = greater(s->input->size - offset, 0);
	size_t got;
	if (s->file) { /* bytes that the file has got since it was opened are not the input's */
		const size_t wanted = (size_t)lesser((int64_t)free, left);
		TRY(input_read_at(s->input, offset, s->text + s->length, wanted, &got, s->diags));
		if (got < wanted)
			return scan_file_changed(s->input, s->diags);
	} else {
		TRY(input_read(s->input, s->text + s->length, free, &got, s->diags));
	}
	s->length += got;
	s->text[s->length] = '\0';
	s->end = got < free;
	return STATUS_OK;
}

/* True if C may follow a word. */
static bool ends_word(const struct scan *s, char c)
{
	return c == '\n' || c == s->delimiter || c == '#' || text_is_blank(c);
}

/* Reads the number at the window's next byte, if it is a plain one that ends in the window. */
static bool read_plain(struct scan *s, double *to)
{
	const char *last = s->text + s->length, *end = number_read(s->text + s->at, last, to);
	if (!end || (end < last ? !ends_word(s, *end) : !s->end))
		return false;
	s->at = (size_t)(end - s->text);
	return true;
}

/* Reads the word at the window's next byte as a number. */
static enum status read_number(struct scan *s, double *to)
{
	size_t size = 0;
	for (;;) {
		const char *word = s->text + s->at;
		const size_t most = s->length - s->at;
		while (size < most && !ends_word(s, word[size]))
			size++;
		if (size < most || s->end || memchr(word, 0, size)) /* there may be no end of such a word */
			break;
		TRY(move_window(s));
	}
	if (s->missing && table_is_missing(s->text + s->at, size))
		*to = *s->missing;
	else if (!number_parse(s->text + s->at, size, to))
		return not_a_number(s, s->at, s->at + size);
	s->at += size;
	return STATUS_OK;
}

enum { QUOTED_MOST = 16 << 20 }; /* a quote too many must not take the memory of all text behind it */

/* Moves the window until the quote that ends the next field, a quoted one, is in it. Sets *SIZE to the field's bytes. */
static enum status find_quote(struct scan *s, size_t *size)
{
	for (*size = 1;;) {
		const char *word = s->text + s->at;
		const size_t most = s->length - s->at;
		const char *quote = *size < most ? memchr(word + *size, '"', most - *size) : NULL;
		*size = quote ? (size_t)(quote - word) + 1 : most;
		if (quote && *size < most && word[*size] == '"') {
			++*size;
			continue;
		}
		const bool line = !s->strict && memchr(word, '\n', *size); /* only in a strict text fields have line ends */
		if (quote && !line && (*size < most || s->end))
			return STATUS_OK;
		if (s->end || line)
			return text_error(s, s->at, s->at + 1, "no quote ends this field");
		if (*size > QUOTED_MOST)
			return text_error(s, s->at, s->at + 1, "no quote ends this field within %d MiB", QUOTED_MOST >> 20);
		*size -= quote != NULL; /* the next byte may be another quote */
		TRY(move_window(s));
	}
}

/* Passes the next SIZE bytes, of a quoted field, in which there may be line ends. */
static enum status pass_quoted(struct scan *s, size_t size)
{
	const char *end = s->text + s->at + size, *line;
	while ((line = memchr(s->text + s->at, '\n', (size_t)(end - s->text) - s->at))) {
		s->at = (size_t)(line - s->text) + 1;
		s->line++;
		s->line_begin = s->begin + (int64_t)s->at;
	}
	s->at = (size_t)(end - s->text);
	return STATUS_OK;
}

/* Reads the quoted field at the window's next byte as a number. */
static enum status read_quoted(struct scan *s, double *to)
{
	size_t size;
	TRY(find_quote(s, &size));
	size_t begin = s->at + 1, end = s->at + size - 1;
	while (begin < end && text_is_blank(s->text[begin]))
		begin++;
	while (begin < end && text_is_blank(s->text[end - 1]))
		end--;
	if (table_is_missing(s->text + begin, end - begin)) {
		if (!s->missing && begin == end) {
			char column[COLUMN_TEXT];
			return hint_missing(s, text_error(s, s->at, s->at + size, "an empty field%s", column_name(s, column)));
		}
		if (!s->missing)
			return not_a_number(s, begin, end);
		*to = *s->missing;
	} else if (!number_parse(s->text + begin, end - begin, to)) {
		return not_a_number(s, begin, end);
	}
	return pass_quoted(s, size);
}

/* Passes the field at the window's next byte, of a column that is not read, or not now. */
static enum status pass_field(struct scan *s)
{
	const bool number = is_wanted(s) || (strchr("+-.0123456789", s->text[s->at]) && s->text[s->at]);
	size_t size;
	if (s->text[s->at] == '"') {
		TRY(find_quote(s, &size));
		return pass_quoted(s, size);
	}
	for (char before = 'a', c;; before = c, s->at++) {
		while (s->at == s->length) {
			if (s->end)
				return STATUS_OK;
			TRY(move_window(s));
		}
		c = s->text[s->at];
		if (c == '\n' || c == s->delimiter || (!s->strict && text_is_blank(c)) ||
		    (c == '#' && (number || text_is_blank(before))))
			return STATUS_OK;
	}
}

/* Makes the text's first row the next of the scan; of a text that is not in a file, its first byte. */
static enum status begin_scan(struct scan *s)
{
	s->length = s->at = 0;
	s->begin = s->line_begin = s->file ? s->table->begin : 0;
	s->in_row = s->values = s->rows = s->next = 0;
	s->columns = s->table->fields;
	s->row_at = s->table->chosen_count;
	s->end = s->comment = false;
	s->comma = true;
	s->line = s->file ? s->table->lines + 1 : 1;
	TRY(move_window(s));
	s->at = s->begin == 0 && s->length >= 3 && !memcmp(s->text, "\xef\xbb\xbf", 3) ? 3 : 0;
	return STATUS_OK;
}

enum status scan_go(struct scan *s, int64_t at, uint32_t lines, struct diags *diags)
{
	s->diags = diags;
	while (at > s->begin + (int64_t)s->length && !s->end) {
		s->at = s->length;
		TRY(move_window(s));
	}
	s->at = (size_t)lesser(at - s->begin, (int64_t)s->length);
	s->line_begin = s->begin + (int64_t)s->at;
	s->line = lines + 1;
	return STATUS_OK;
}

enum status scan_window(struct scan *s, bool grow, const char **text, size_t *length, bool *end, struct diags *diags)
{
	s->diags = diags;
	if (grow)
		TRY(move_window(s));
	*text = s->text + s->at;
	*length = s->length - s->at;
	*end = s->end;
	return STATUS_OK;
}

enum status scan_set_table(struct scan *s, struct diags *diags)
{
	const struct table *t = s->table;
	s->columns = t->fields;
	s->row_at = t->chosen_count;
	if (!t->places || s->row)
		return STATUS_OK;
	s->row = allocator_get(s->arena->allocator, (size_t)t->chosen_count, sizeof *s->row);
	TRY_ALLOC(s->row, diags);
	return STATUS_OK;
}

enum status scan_open(struct scan **scan, const struct reader *reader, struct text_file *file, struct diags *diags)
{
	const struct allocator *a = reader->arena->allocator;
	struct scan *s = *scan = allocator_get(a, sizeof *s, 1);
	TRY_ALLOC(s, diags);
	*s = (struct scan){.input = reader->input,
	                   .arena = reader->arena,
	                   .table = reader->table,
	                   .delimiter = reader->table->delimiter == ' ' ? '\n' : reader->table->delimiter,
	                   .strict = reader->table->strict && reader->table->delimiter != ' ',
	                   .missing = reader->options.missing,
	                   .first = file ? file->first : reader->input->offset,
	                   .file = file,
	                   .capacity = WINDOW,
	                   .diags = diags};
	s->text = allocator_get(a, s->capacity + 1, 1);
	TRY_ALLOC(s->text, diags);
	TRY(scan_set_table(s, diags));
	return begin_scan(s);
}

void scan_close(struct scan *s)
{
	const struct allocator *a = s->arena->allocator;
	allocator_put(a, s->text, s->capacity + 1);
	if (s->row)
		allocator_put(a, s->row, (size_t)s->table->chosen_count * sizeof *s->row);
	allocator_put(a, s, sizeof *s);
}

static void pass_line_end(struct scan *s)
{
	s->at++;
	s->line++;
	s->line_begin = s->begin + (int64_t)s->at;
}

/* Passes the bytes of a comment that are in the window. The line end stays. */
static void pass_comment(struct scan *s)
{
	const char *line_end = memchr(s->text + s->at, '\n', s->length - s->at);
	s->at = line_end ? (size_t)(line_end - s->text) : s->length;
	s->comment = !line_end;
}

/* True if a field that is read as s->missing is before C: it is empty, since a delimiter comes before it, or it is a row's first. */
static bool lacks_field(const struct scan *s, char c)
{
	const bool ends_row = c == '\n' || c == '#';
	return s->missing && s->comma && (ends_row ? s->in_row > 0 : c == s->delimiter) && is_wanted(s);
}

/* Ends a field. READ: its number was read. */
static void end_field(struct scan *s, bool read)
{
	s->next += read;
	s->values += read;
	s->in_row++;
	s->comma = false;
}

/* True if the window's next byte, a '#', begins a comment. Directly behind a delimiter it is a byte of a field that is not read. */
static bool begins_comment(const struct scan *s)
{
	return !s->strict || s->at == 0 || s->text[s->at - 1] != s->delimiter || is_wanted(s);
}

/* Returns the high bit of each of eight bytes that are C, an ASCII character. */
static uint64_t bytes_that_are(uint64_t eight, char c)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), low = 0x7f * ones;
	const uint64_t other = eight ^ (uint64_t)(unsigned char)c * ones;
	return ~(((other & low) + low) | other | low);
}

/*
 * Passes up to MOST fields of a strict text, from the one that begins at the window's next byte on, with their delimiters.
 * Stops before a field with a line end, a comment or a quote that begins no field, and at the end of the window: pass_field
 * goes on.
 */
static void pass_plain_fields(struct scan *s, int64_t most)
{
	const char *const first = s->text + s->at, *const end = s->text + s->length;
	bool quoted = false;
	for (const char *at = first; end - at >= (int64_t)sizeof(uint64_t); at += sizeof(uint64_t)) {
		uint64_t eight, found;
		memcpy(&eight, at, sizeof eight);
		eight = le64toh(eight);
		found = bytes_that_are(eight, '\n') | bytes_that_are(eight, '"') | bytes_that_are(eight, '#') |
		        bytes_that_are(eight, s->delimiter);
		for (; found; found &= found - 1) {
			const char *here = at + __builtin_ctzll(found) / 8;
			if (*here == s->delimiter && !quoted) {
				s->at = (size_t)(here - s->text) + 1;
				s->in_row++;
				if (--most == 0)
					return;
			} else if (*here == '"') { /* it begins or ends a field, or is the second of two in a field */
				if (!quoted && here > first && here[-1] != s->delimiter && here[-1] != '"')
					return;
				quoted = !quoted;
			} else if (*here == '\n' || (*here == '#' && !quoted)) {
				return;
			}
		}
	}
}

/* Returns the number of fields that are not read, from the next on. */
static int64_t count_unwanted(const struct scan *s)
{
	const struct table *t = s->table;
	return s->in_row < t->fields ? t->next_read[s->in_row] - s->in_row : INT64_MAX;
}

/* Passes the window's next byte, a delimiter, and the empty field before it. */
static void pass_empty(struct scan *s)
{
	s->in_row += s->comma;
	s->comma = true;
	s->at++;
}

/* Passes a delimiter in a row that is read. */
static enum status pass_delimiter(struct scan *s)
{
	char column[COLUMN_TEXT];
	if (s->comma && is_wanted(s))
		return hint_missing(s, text_error(s, s->at, s->at + 1, "an empty field%s", column_name(s, column)));
	pass_empty(s);
	return STATUS_OK;
}

/* Passes the field at the window's next byte, and perhaps some of up to MOST that follow it. */
static enum status pass_unwanted(struct scan *s, int64_t most)
{
	const size_t at = s->at;
	if (s->strict)
		pass_plain_fields(s, most);
	s->comma |= s->at > at;
	if (s->at > at) /* it is behind a delimiter */
		return STATUS_OK;
	TRY(pass_field(s));
	end_field(s, false);
	return STATUS_OK;
}

/* Reads the number at the window's next byte to TO. */
static enum status read_wanted(struct scan *s, double *to)
{
	if (s->text[s->at] == '"')
		TRY(read_quoted(s, to));
	else if (!read_plain(s, to))
		TRY(read_number(s, to));
	end_field(s, true);
	return STATUS_OK;
}

/* Does as scan_read, in the order of the text. */
static enum status read_in_order(struct scan *s, double *to, size_t count, size_t *got)
{
	char name[4];
	for (*got = 0;;) {
		if (s->at + AROUND >= s->length && !s->end) {
			TRY(move_window(s));
			if (s->comment) {
				pass_comment(s);
				continue;
			}
		}
		const char c = s->at < s->length ? s->text[s->at] : '\n';
		if (lacks_field(s, c)) {
			if (*got == count)
				return STATUS_OK;
			to[(*got)++] = *s->missing;
			end_field(s, true);
		}
		if (s->at == s->length)
			return end_row(s, s->at);
		if (c == '\n') {
			TRY(end_row(s, s->at));
			s->comma = true;
			pass_line_end(s);
		} else if (c == s->delimiter) {
			TRY(pass_delimiter(s));
		} else if (text_is_blank(c)) {
			s->at++;
		} else if (c == '#' && begins_comment(s)) {
			pass_comment(s);
		} else {
			if (!s->comma && (s->strict || s->text[s->at - 1] == '"'))
				return text_error(s, s->at, s->at + 1, "expected a %s before the next number", delimiter_name(s, name));
			if (!is_wanted(s)) {
				TRY(pass_unwanted(s, count_unwanted(s)));
				continue;
			}
			if (*got == count)
				return STATUS_OK;
			TRY(read_wanted(s, &to[*got]));
			++*got;
		}
	}
}

enum status scan_read(struct scan *s, double *to, size_t count, size_t *got, struct diags *diags)
{
	const struct table *t = s->table;
	size_t read;
	s->diags = diags;
	if (!t->places)
		return read_in_order(s, to, count, got);
	for (*got = 0; *got < count; to[(*got)++] = s->row[t->places[s->row_at++]]) {
		if (s->row_at < t->chosen_count)
			continue;
		TRY(read_in_order(s, s->row, (size_t)t->chosen_count, &read));
		if (read == 0)
			return STATUS_OK;
		s->row_at = 0;
	}
	return STATUS_OK;
}

/* Returns the number of numbers in s->row that are to be returned. */
static int64_t left_in_row(const struct scan *s) { return s->table->chosen_count - s->row_at; }

bool scan_done(const struct scan *s)
{
	return s->end && s->at == s->length && !lacks_field(s, '\n') && left_in_row(s) == 0;
}

/* Returns how many numbers are read from a row of COLUMNS fields. */
static int64_t numbers_of(const struct table *t, int64_t columns) { return t->reads ? t->chosen_count : columns; }

struct text_size scan_size(const struct scan *s)
{
	return (struct text_size){s->rows, numbers_of(s->table, s->columns)};
}
size_t scan_memory(void) { return sizeof(struct scan) + WINDOW; }
int64_t scan_bytes(const struct scan *s) { return s->begin + (int64_t)s->length; }

struct scan **scan_link(struct scan *s) { return &s->link; }
int64_t scan_next(const struct scan *s) { return s->next - left_in_row(s); }

void text_add_mark(struct text_file *text, const struct mark *mark)
{
	if (text->mark_count > 0 && mark->at - text->marks[text->mark_count - 1].at < text->gap)
		return;
	if (text->mark_count == TEXT_MARKS) {
		text->gap *= 2;
		for (text->mark_count = 0; text->mark_count < TEXT_MARKS / 2; text->mark_count++)
			text->marks[text->mark_count] = text->marks[2 * text->mark_count];
	}
	text->marks[text->mark_count++] = *mark;
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

enum { RUN = 64 };

/* The byte is no word's: white space, a line end or the delimiter, which is an ASCII character. */
static bool is_separator(char c, char delimiter)
{
	return (c == ' ') | (c == delimiter) | ((unsigned char)(c - '\t') < 5);
}

/* Returns the high bit of each of eight bytes that are separators. No sum of seven bits carries to the next byte. */
static uint64_t separators(uint64_t eight, char delimiter)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), low = 0x7f * ones, seven = eight & low;
	const uint64_t no_blank = ((seven ^ ' ' * ones) + low);
	const uint64_t no_comma = ((seven ^ (uint64_t)(unsigned char)delimiter * ones) + low);
	const uint64_t other = (seven + (0x80 - '\r' - 1) * ones) | ~(seven + (0x80 - '\t') * ones);
	return ~(no_blank & no_comma & other) & ~eight & ~low;
}

/* Returns how many words begin in the RUN bytes of TEXT. TEXT[-1] is readable. */
static int count_word_starts(const char *text, char delimiter)
{
	uint64_t eight, before, counts = 0; /* a count in each byte */
	for (int i = 0; i < RUN; i += (int)sizeof eight) {
		memcpy(&eight, text + i, sizeof eight);
		memcpy(&before, text + i - 1, sizeof before);
		counts += (separators(before, delimiter) & ~separators(eight, delimiter)) >> 7;
	}
	return (int)(counts * UINT64_C(0x0101010101010101) >> 56);
}

/*
 * Counts the words that begin in the window in runs of bytes, as far as no line or comment is there and no mark is wanted.
 * The first word has been counted.
 */
static void count_runs(struct scan *s)
{
	const struct text_file *text = s->file;
	const char *line_end = memchr(s->text + s->at, '\n', s->length - s->at);
	const char *comment =
		memchr(s->text + s->at, '#', line_end ? (size_t)(line_end - s->text) - s->at : s->length - s->at);
	const int64_t end = comment ? comment - s->text : line_end ? line_end - s->text : (int64_t)s->length;
	const int64_t stop = lesser(end, text->marks[text->mark_count - 1].at + text->gap - s->begin);
	for (; (int64_t)s->at + RUN <= stop; s->at += RUN)
		s->file->size.columns += count_word_starts(s->text + s->at, s->delimiter);
}

/*
 * True if a number of the first row begins with C, the window's next byte: a word, or a missing field. s->comma says
 * whether a delimiter or nothing is before it. A field is missing only if s->missing says what it is.
 */
static bool begins_field(struct scan *s, char c)
{
	const bool first = s->file->size.columns == 0;
	const bool word = !is_separator(c, s->delimiter) && (first || is_separator(s->text[s->at - 1], s->delimiter));
	const bool missing = s->missing && s->comma && c == s->delimiter;
	if (word || c == s->delimiter)
		s->comma = c == s->delimiter;
	return word || missing;
}

/* Counts a field of the first row, which begins at PLACE. Its number may be read from there, if all are read. */
static void count_field(struct scan *s, struct mark *place)
{
	place->element = s->file->size.columns++;
	if (!s->table->reads || place->element == 0)
		text_add_mark(s->file, place);
}

/*
 * Counts the words of the first row that begin in the window, and marks some. True at the row's end. LINE is the line of
 * the next byte.
 */
static bool count_words(struct scan *s, struct mark *line)
{
	struct text_size *size = &s->file->size;
	int64_t marks = -1; /* their number before the last runs */
	for (; s->at < s->length; s->at++) {
		if (s->comment || s->text[s->at] == '#')
			pass_comment(s);
		if (s->at == s->length)
			break;
		if (size->columns > 0 && !s->missing && marks != (int64_t)s->file->mark_count) {
			marks = (int64_t)s->file->mark_count;
			count_runs(s);
			if (s->at == s->length)
				break;
		}
		const char c = s->text[s->at];
		line->at = s->begin + (int64_t)s->at;
		if (c == '\n') {
			line->line++;
			line->line_begin = ++line->at;
			if (size->columns > 0)
				return true;
		} else if (begins_field(s, c)) {
			count_field(s, line);
		}
	}
	return false;
}

/* Counts the first row of a text whose fields blanks separate, too. */
static enum status count_by_words(struct scan *s, struct mark *next)
{
	while (!count_words(s, next)) {
		if (s->end) {
			next->at = s->begin + (int64_t)s->length;
			break;
		}
		TRY(move_window(s));
	}
	s->file->size.columns += s->missing && s->comma && s->file->size.columns > 0;
	return STATUS_OK;
}

/* Moves the window on where its bytes have been read. True at the end of the text. */
static enum status need_byte(struct scan *s, bool *end)
{
	*end = false;
	while (s->at == s->length && !*end) {
		*end = s->end;
		if (*end)
			break;
		TRY(move_window(s));
		if (s->comment)
			pass_comment(s);
	}
	return STATUS_OK;
}

/* Returns the place of the window's next byte. */
static struct mark next_place(const struct scan *s)
{
	return (struct mark){0, s->begin + (int64_t)s->at, s->line_begin, s->line};
}

/* Counts the first row of a text whose fields only the delimiter separates. */
static enum status count_by_delimiters(struct scan *s, struct mark *next)
{
	for (bool end, row = false;;) {
		TRY(need_byte(s, &end));
		const char c = end ? '\n' : s->text[s->at];
		struct mark place = next_place(s);
		if (c == '\n') {
			if (row && s->comma)
				count_field(s, &place);
			if (!end)
				pass_line_end(s);
			*next = next_place(s);
			if (row || end)
				return STATUS_OK;
		} else if (c == s->delimiter) {
			if (s->comma)
				count_field(s, &place);
			pass_empty(s);
			row = true;
		} else if (text_is_blank(c)) {
			s->at++;
		} else if (c == '#' && begins_comment(s)) {
			pass_comment(s);
		} else {
			count_field(s, &place);
			s->file->quoted |= c == '"';
			TRY(pass_field(s));
			end_field(s, false);
			row = true;
		}
	}
}

/* Passes blanks, comments and empty lines. Sets *END at the end of the text. */
static enum status reach_row(struct scan *s, bool *end)
{
	for (;;) {
		TRY(need_byte(s, end));
		if (*end)
			return STATUS_OK;
		const char c = s->text[s->at];
		if (c == '\n')
			pass_line_end(s);
		else if (c == '#')
			pass_comment(s);
		else if (c != s->delimiter && text_is_blank(c))
			s->at++;
		else
			return STATUS_OK;
	}
}

/* Passes the rest of a line. */
static enum status pass_line(struct scan *s)
{
	for (bool end;;) {
		TRY(need_byte(s, &end));
		const char *line_end = memchr(s->text + s->at, '\n', s->length - s->at);
		s->at = line_end ? (size_t)(line_end - s->text) : s->length;
		if (line_end)
			pass_line_end(s);
		if (line_end || end)
			return STATUS_OK;
	}
}

/* Marks the first row of a text of which some columns are read: they have counted its fields. */
static enum status mark_first_row(struct scan *s, struct mark *next)
{
	bool end;
	TRY(reach_row(s, &end));
	*next = next_place(s);
	if (!end)
		count_field(s, next);
	TRY(pass_line(s));
	*next = next_place(s);
	return STATUS_OK;
}

enum status scan_first_row(struct scan *s, struct mark *next)
{
	TRY(check_window(s));
	TRY(begin_scan(s));
	*next = next_place(s);
	TRY(s->strict ? count_by_delimiters(s, next) : s->table->reads ? mark_first_row(s, next) : count_by_words(s, next));
	s->file->size.rows = s->file->size.columns > 0;
	s->file->fields = s->table->fields ? s->table->fields : s->file->size.columns;
	s->file->size.columns = numbers_of(s->table, s->file->fields);
	return begin_scan(s);
}

/* Returns the last mark of TEXT that is not beyond number ELEMENT. */
static const struct mark *mark_before(const struct text_file *text, int64_t element)
{
	size_t at = 0;
	for (size_t end = text->mark_count; end - at > 1;) {
		const size_t middle = at + (end - at) / 2;
		if (text->marks[middle].element <= element)
			at = middle;
		else
			end = middle;
	}
	return &text->marks[at];
}

/* Makes the number of MARK the next. */
static enum status go_to(struct scan *s, const struct mark *mark)
{
	s->length = s->at = 0;
	s->begin = greater(mark->line_begin, mark->at - KEEP);
	s->line_begin = mark->line_begin;
	s->line = mark->line;
	s->columns = s->file->fields;
	s->rows = mark->element >= s->file->size.columns;
	s->in_row = s->values = s->rows ? 0 : mark->element;
	s->next = mark->element;
	s->row_at = s->table->chosen_count;
	s->end = s->comment = false;
	s->comma = true;
	size_t got;
	if (s->line_begin < s->begin)
		TRY(input_read_at(s->input, s->first + s->line_begin, s->head, KEEP, &got, s->diags));
	TRY(move_window(s));
	s->at = (size_t)(mark->at - s->begin);
	return s->at <= s->length ? STATUS_OK : scan_file_changed(s->input, s->diags);
}

/* Passes the rest of a row, in which a quoted field may have line ends. */
static enum status pass_row(struct scan *s)
{
	for (bool end;;) {
		TRY(need_byte(s, &end));
		if (end)
			return STATUS_OK;
		const char c = s->text[s->at];
		if (c == '\n') {
			pass_line_end(s);
			s->in_row = 0;
			s->comma = true;
			return STATUS_OK;
		}
		if (c == s->delimiter) {
			pass_empty(s);
		} else if (text_is_blank(c)) {
			s->at++;
		} else if (c == '#' && begins_comment(s)) {
			pass_comment(s);
		} else {
			TRY(pass_unwanted(s, INT64_MAX));
		}
	}
}

enum status scan_count_rows(struct scan *s, const struct mark *from)
{
	struct text_file *text = s->file;
	struct mark first = *from;
	bool end;
	text->quoted = true;
	TRY(go_to(s, &first));
	TRY(reach_row(s, &end));
	for (; !end; text->size.rows++) {
		struct mark row = next_place(s);
		row.element = text->size.rows * text->size.columns;
		text_add_mark(text, &row);
		TRY(pass_row(s));
		TRY(reach_row(s, &end));
	}
	return begin_scan(s);
}

/* Goes to the first word of the next row, without a look at the words before it. */
static enum status next_row(struct scan *s)
{
	bool end;
	if (s->file->quoted)
		TRY(pass_row(s));
	else
		TRY(pass_line(s));
	TRY(reach_row(s, &end));
	return end ? scan_file_changed(s->input, s->diags) : STATUS_OK;
}

/* Goes to row ROW, or stays if it is the current one. Whoever reads the numbers between checks them. */
static enum status skip_to_row(struct scan *s, int64_t row)
{
	const int64_t columns = s->file->size.columns, here = s->next / columns;
	if (row == here)
		return STATUS_OK;
	for (int64_t at = here; at < row; at++)
		TRY(next_row(s));
	s->next = row * columns;
	s->columns = s->file->fields;
	s->rows = 1;
	s->in_row = s->values = 0;
	s->comma = true;
	return STATUS_OK;
}

/* True if number ELEMENT is in s->row. Then it is the next that is returned. */
static bool seek_in_row(struct scan *s, int64_t element)
{
	const int64_t columns = s->table->chosen_count;
	if (!s->row || s->next == 0 || element / columns + 1 != s->next / columns)
		return false;
	s->row_at = element % columns;
	return true;
}

enum status scan_seek(struct scan *s, int64_t element, struct diags *diags)
{
	double skipped[512];
	size_t got = 1;
	const struct mark *mark = mark_before(s->file, element);
	s->diags = diags;
	if (scan_next(s) == element || seek_in_row(s, element))
		return STATUS_OK;
	s->row_at = s->table->chosen_count;
	if (s->next == 0 || s->next > element || s->next < mark->element)
		TRY(go_to(s, mark));
	TRY(skip_to_row(s, element / s->file->size.columns));
	while (scan_next(s) < element && got > 0)
		TRY(scan_read(s, skipped, (size_t)lesser(sizeof skipped / sizeof *skipped, element - scan_next(s)), &got,
		              diags));
	return scan_next(s) == element ? STATUS_OK : scan_file_changed(s->input, diags);
}

enum status scan_end_row(struct scan *s, struct diags *diags)
{
	const int64_t next = s->next;
	double value;
	size_t got = 1;
	s->diags = diags;
	while (s->values > 0 && got > 0)
		TRY(read_in_order(s, &value, 1, &got));
	return s->next == next ? STATUS_OK : scan_file_changed(s->input, diags);
}

enum status scan_file_changed(const struct input *input, struct diags *diags)
{
	return diag_file(diags, STATUS_DATA, input->name, -1, "the file changed while it was read");
}
