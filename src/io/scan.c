/*
 * The numbers of a text: rows of numbers with white space or commas between them; csv must have commas. Empty lines are
 * no rows, and "#" begins a comment that ends with its line. An error names line and column, and may hint at what the
 * text is instead. A field is missing if it is empty, NA, N/A or null: then it is the number of --missing, or an error.
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

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { AROUND = 4096, KEEP = 2 * AROUND, WINDOW = 64 << 10 };

struct scan {
	struct input *input;
	struct arena *arena;
	bool csv;
	int64_t first;          /* byte of INPUT where the text begins */
	struct text_file *file; /* of a file, which is read at any place; NULL: INPUT is read in order */
	int64_t next;           /* the number that is read next */
	char *text;             /* the window: LENGTH bytes of CAPACITY, and a zero byte */
	size_t length, capacity, at;
	int64_t begin;         /* the window's first byte, counted as the next from that of the text */
	int64_t line_begin;    /* the current line's first byte */
	bool end;              /* the text ends with the window */
	bool comma;            /* a number must come before the next comma */
	bool comment;          /* the next byte is of a comment */
	const double *missing; /* stands for a missing field; NULL: that is an error */
	uint32_t line;
	int64_t in_row; /* numbers so far in the row */
	int64_t rows, columns;
	char head[KEEP]; /* the first bytes of a line that begins before the window */
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
	char message[160];
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
	snprintf(message, sizeof message, "a row of %lld numbers after rows of %lld", (long long)s->in_row,
	         (long long)s->columns);
	return report_error(s, line < 0 ? s->head : s->text + line, shown, (struct span){0, shown, s->line, 1}, message);
}

/* Adds the option for missing fields to the last error, and returns its status. The library has no options. */
static enum status hint_missing(struct scan *s, enum status status)
{
	if (!s->diags->library)
		diag_hint(s->diags, "--missing NUMBER reads missing fields as NUMBER: --missing nan, or --missing 0");
	return status;
}

/* Ends a row at byte AT of the window, the line end or the end of the text. */
static enum status end_row(struct scan *s, size_t at)
{
	if (s->in_row == 0)
		return STATUS_OK;
	if (s->comma && s->rows > 0 && s->in_row + 1 != s->columns) /* --missing would not help */
		return text_error(s, at, at + (at < s->length), "a row of %lld fields after rows of %lld: it ends in a comma",
		                  (long long)s->in_row + 1, (long long)s->columns);
	if (s->comma)
		return hint_missing(s, text_error(s, at, at + (at < s->length), "a row ends in a comma"));
	if (s->rows > 0 && s->in_row != s->columns)
		return row_error(s, at);
	s->columns = s->in_row;
	s->rows++;
	s->in_row = 0;
	return STATUS_OK;
}

enum status scan_out_of_memory(const struct input *input, size_t read, struct diags *diags)
{
	diag_file(diags, STATUS_LIMIT, input->name, (int64_t)read,
	          "out of memory: it is read whole, and has more bytes than these");
	return diag_hint(diags, "npy, or raw data with --shape, is read in parts if the chain works row by row");
}

/* True if the LENGTH bytes of WORD stand for a missing field. */
static bool is_missing(const char *word, size_t length)
{
	static const char *const words[] = {"NA", "N/A", "null"};
	bool missing = false;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		missing |= strlen(words[i]) == length && !strncasecmp(words[i], word, length);
	return missing;
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
		hint_binary(s);
		return status;
	}
	size_t shown = end - at > 40 ? 40 : end - at;
	while (shown > 1 && shown < end - at && ((unsigned char)s->text[at + shown] & 0xc0) == 0x80)
		shown--;
	status =
		text_error(s, at, end, "'%.*s%s' is not a number", (int)shown, s->text + at, shown < end - at ? "..." : "");
	if (looks_binary(s, at))
		hint_binary(s);
	else if (is_missing(s->text + at, end - at))
		hint_missing(s, status);
	else if (end - at > 2 && c == '"' && strchr("+-.0123456789", s->text[at + 1]))
		diag_hint(s->diags, "numbers have no quotes; remove them by tr -d '\"'");
	else if (s->line == 1 && s->in_row == 0 && (isalpha(c) || c == '_' || c == '"'))
		diag_hint(s->diags, "remove a header line of names, as with: tail -n +2");
	else if (memchr(s->text + at, ';', end - at))
		diag_hint(s->diags, "white space or commas separate numbers");
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
static bool ends_word(char c) { return c == '\n' || c == ',' || c == '#' || text_is_blank(c); }

/* Reads the number at the window's next byte, if it is a plain one that ends in the window. */
static bool read_plain(struct scan *s, double *to)
{
	const char *last = s->text + s->length, *end = number_read(s->text + s->at, last, to);
	if (!end || (end < last ? !ends_word(*end) : !s->end))
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
		while (size < most && !ends_word(word[size]))
			size++;
		if (size < most || s->end || memchr(word, 0, size)) /* there may be no end of such a word */
			break;
		TRY(move_window(s));
	}
	if (s->missing && is_missing(s->text + s->at, size))
		*to = *s->missing;
	else if (!number_parse(s->text + s->at, size, to))
		return not_a_number(s, s->at, s->at + size);
	s->at += size;
	return STATUS_OK;
}

/* Makes the text's first byte the next of the scan. */
static enum status begin_scan(struct scan *s)
{
	s->length = s->at = 0;
	s->begin = s->line_begin = s->in_row = s->rows = s->columns = s->next = 0;
	s->end = s->comment = false;
	s->comma = true;
	s->line = 1;
	TRY(move_window(s));
	s->at = s->length >= 3 && !memcmp(s->text, "\xef\xbb\xbf", 3) ? 3 : 0;
	return STATUS_OK;
}

enum status scan_open(struct scan **scan, const struct reader *reader, struct text_file *file, struct diags *diags)
{
	const struct allocator *a = reader->arena->allocator;
	struct scan *s = *scan = allocator_get(a, sizeof *s, 1);
	TRY_ALLOC(s, diags);
	*s = (struct scan){.input = reader->input,
	                   .arena = reader->arena,
	                   .csv = reader->format == FORMAT_CSV,
	                   .missing = reader->options.missing,
	                   .first = file ? file->first : reader->input->offset,
	                   .file = file,
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

/* True if a field that is read as s->missing is before C: it is empty, since a comma comes before it, or it is a row's first. */
static bool lacks_field(const struct scan *s, char c)
{
	return s->missing && s->comma && (c == ',' || (s->in_row > 0 && (c == '\n' || c == '#')));
}

/* Adds the missing field to TO. */
static void add_missing(struct scan *s, double *to)
{
	*to = *s->missing;
	s->next++;
	s->in_row++;
	s->comma = false;
}

enum status scan_read(struct scan *s, double *to, size_t count, size_t *got, struct diags *diags)
{
	s->diags = diags;
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
			add_missing(s, &to[(*got)++]);
		}
		if (s->at == s->length)
			return end_row(s, s->at);
		if (c == '\n') {
			TRY(end_row(s, s->at));
			s->comma = true;
			pass_line_end(s);
		} else if (c == ',') {
			if (s->comma)
				return hint_missing(s, text_error(s, s->at, s->at + 1, "an empty field"));
			s->comma = true;
			s->at++;
		} else if (text_is_blank(c)) {
			s->at++;
		} else if (c == '#') {
			pass_comment(s);
		} else {
			if (s->csv && !s->comma)
				return text_error(s, s->at, s->at + 1, "expected a comma before the next number");
			if (*got == count)
				return STATUS_OK;
			if (!read_plain(s, &to[*got]))
				TRY(read_number(s, &to[*got]));
			++*got;
			s->next++;
			s->in_row++;
			s->comma = false;
		}
	}
}

bool scan_done(const struct scan *s) { return s->end && s->at == s->length && !lacks_field(s, '\n'); }
struct text_size scan_size(const struct scan *s) { return (struct text_size){s->rows, s->columns}; }
size_t scan_memory(void) { return sizeof(struct scan) + WINDOW; }
int64_t scan_bytes(const struct scan *s) { return s->begin + (int64_t)s->length; }

struct scan **scan_link(struct scan *s) { return &s->link; }
int64_t scan_next(const struct scan *s) { return s->next; }

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

/* The byte is no word's: white space, a line end or a comma. */
static bool is_separator(char c) { return (c == ' ') | (c == ',') | ((unsigned char)(c - '\t') < 5); }

/* Returns the high bit of each of eight bytes that are separators. No sum of seven bits carries to the next byte. */
static uint64_t separators(uint64_t eight)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), low = 0x7f * ones, seven = eight & low;
	const uint64_t no_blank = ((seven ^ ' ' * ones) + low), no_comma = ((seven ^ ',' * ones) + low);
	const uint64_t other = (seven + (0x80 - '\r' - 1) * ones) | ~(seven + (0x80 - '\t') * ones);
	return ~(no_blank & no_comma & other) & ~eight & ~low;
}

/* Returns how many words begin in the RUN bytes of TEXT. TEXT[-1] is readable. */
static int count_word_starts(const char *text)
{
	uint64_t eight, before, counts = 0; /* a count in each byte */
	for (int i = 0; i < RUN; i += (int)sizeof eight) {
		memcpy(&eight, text + i, sizeof eight);
		memcpy(&before, text + i - 1, sizeof before);
		counts += (separators(before) & ~separators(eight)) >> 7;
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
		s->file->size.columns += count_word_starts(s->text + s->at);
}

/*
 * True if a number of the first row begins with C, the window's next byte: a word, or a missing field. s->comma says
 * whether a comma or nothing is before it. A field is missing only if s->missing says what it is.
 */
static bool begins_field(struct scan *s, char c)
{
	const bool word = !is_separator(c) && (s->file->size.columns == 0 || is_separator(s->text[s->at - 1]));
	const bool missing = s->missing && s->comma && c == ',';
	if (word || c == ',')
		s->comma = c == ',';
	return word || missing;
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
			line->element = size->columns++;
			text_add_mark(s->file, line);
		}
	}
	return false;
}

enum status scan_first_row(struct scan *s, struct mark *next)
{
	*next = (struct mark){.line = 1};
	TRY(check_window(s));
	TRY(begin_scan(s));
	while (!count_words(s, next)) {
		if (s->end) {
			next->at = s->begin + (int64_t)s->length;
			break;
		}
		TRY(move_window(s));
	}
	s->file->size.columns += s->missing && s->comma && s->file->size.columns > 0;
	s->file->size.rows = s->file->size.columns > 0;
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
	s->columns = s->file->size.columns;
	s->rows = mark->element >= s->columns;
	s->in_row = s->rows ? 0 : mark->element;
	s->next = mark->element;
	s->end = s->comment = false;
	s->comma = true;
	size_t got;
	if (s->line_begin < s->begin)
		TRY(input_read_at(s->input, s->first + s->line_begin, s->head, KEEP, &got, s->diags));
	TRY(move_window(s));
	s->at = (size_t)(mark->at - s->begin);
	return s->at <= s->length ? STATUS_OK : scan_file_changed(s->input, s->diags);
}

/* Goes to the first word of the next row, without a look at the words before it. */
static enum status next_row(struct scan *s)
{
	for (bool passed = false;;) {
		if (s->at == s->length) {
			if (s->end)
				return scan_file_changed(s->input, s->diags);
			TRY(move_window(s));
			continue;
		}
		const char c = s->text[s->at];
		if (c == '\n') {
			pass_line_end(s);
			passed = true;
		} else if (!passed || c == '#') {
			passed = s->comment = false;
			const char *line_end = memchr(s->text + s->at, '\n', s->length - s->at);
			s->at = line_end ? (size_t)(line_end - s->text) : s->length;
		} else if (text_is_blank(c)) {
			s->at++;
		} else {
			return STATUS_OK;
		}
	}
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
	s->columns = columns;
	s->rows = 1;
	s->in_row = 0;
	s->comma = true;
	return STATUS_OK;
}

enum status scan_seek(struct scan *s, int64_t element, struct diags *diags)
{
	double skipped[512];
	size_t got = 1;
	const struct mark *mark = mark_before(s->file, element);
	s->diags = diags;
	if (s->next == element)
		return STATUS_OK;
	if (s->next == 0 || s->next > element || s->next < mark->element)
		TRY(go_to(s, mark));
	TRY(skip_to_row(s, element / s->file->size.columns));
	while (s->next < element && got > 0)
		TRY(scan_read(s, skipped, (size_t)lesser(sizeof skipped / sizeof *skipped, element - s->next), &got, diags));
	return s->next == element ? STATUS_OK : scan_file_changed(s->input, diags);
}

enum status scan_end_row(struct scan *s, struct diags *diags)
{
	const int64_t next = s->next;
	double value;
	for (size_t got = 1; s->in_row > 0 && got > 0;)
		TRY(scan_read(s, &value, 1, &got, diags));
	return s->next == next ? STATUS_OK : scan_file_changed(s->input, diags);
}

enum status scan_file_changed(const struct input *input, struct diags *diags)
{
	return diag_file(diags, STATUS_DATA, input->name, -1, "the file changed while it was read");
}
