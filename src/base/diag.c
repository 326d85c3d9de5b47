/*
 * Diagnostics live in an arena. They are rendered in a buffer on the stack, so that "out of memory" can be shown too.
 * Each part of a diagnostic is bounded, and the buffer holds the longest diagnostic. So each is one write, and no
 * other program's output can come between its lines.
 * Tests: tests/unit/test_base.c, tests/cases/errors.test
 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/shell.h"
#include "base/text.h"

/*
 * At most MAX_DIAGS of each severity are shown, so that warnings cannot hide an error. The other limits are bytes: of
 * a source line, of a word or file name, and of a message or hint, which may have up to two words more.
 */
enum { MAX_DIAGS = 100, LINE_WIDTH = 100, WORD_MOST = 400, TEXT_MOST = 2000 };
/* No rendered diagnostic is longer than three texts, a source line and its underline. An escaped byte takes four. */
enum { RENDERED_MOST = 4 * (2 * (TEXT_MOST + 2 * WORD_MOST) + WORD_MOST + 2 * LINE_WIDTH) + 1024 };

void diags_init(struct diags *diags, struct arena *arena) { *diags = (struct diags){.arena = arena}; }

/* Appends a copy of DIAG, its file and its hint. MESSAGE, which is in DIAGS's arena, is NULL if memory was short. */
static void append_diag(struct diags *diags, const struct diag *diag, const char *message)
{
	struct diag *made = arena_alloc(diags->arena, sizeof *made);
	diags->errors += diag->status != STATUS_OK;
	diags->exhausted |= !made || !message;
	if (!made || !message)
		return;
	*made = *diag;
	made->message = message;
	made->file = diag->file ? arena_printf(diags->arena, "%s", diag->file) : NULL;
	made->hint = diag->hint ? arena_printf(diags->arena, "%s", diag->hint) : NULL;
	made->next = NULL;
	*(diags->last ? &diags->last->next : &diags->first) = made;
	diags->last = made;
}

enum status diag_at(struct diags *diags, enum status status, const struct source *source, struct span span,
                    const char *format, ...)
{
	const struct diag diag = {.status = status, .source = source, .span = span, .caret = span, .offset = -1};
	va_list arguments;
	va_start(arguments, format);
	append_diag(diags, &diag, arena_vprintf(diags->arena, format, arguments));
	va_end(arguments);
	return status;
}

enum status diag_file(struct diags *diags, enum status status, const char *file, int64_t offset, const char *format,
                      ...)
{
	va_list arguments;
	va_start(arguments, format);
	append_diag(diags, &(struct diag){.status = status, .file = file, .offset = offset},
	            arena_vprintf(diags->arena, format, arguments));
	va_end(arguments);
	return status;
}

enum status diag_hint(struct diags *diags, const char *format, ...)
{
	if (!diags->last || diags->exhausted) /* the diagnostic that the hint is for may be missing */
		return STATUS_LIMIT;
	va_list arguments;
	va_start(arguments, format);
	diags->last->hint = arena_vprintf(diags->arena, format, arguments);
	diags->last->command = false;
	va_end(arguments);
	return diags->last->status;
}

enum status diag_hint_command(struct diags *diags, const char *format, ...)
{
	if (!diags->last || diags->exhausted)
		return STATUS_LIMIT;
	va_list arguments;
	va_start(arguments, format);
	diags->last->hint = shell_vprintf(diags->arena, format, arguments);
	diags->last->command = true;
	va_end(arguments);
	return diags->last->status;
}

void diag_hint_more(struct diags *diags, const char *format, ...)
{
	enum { LONG = 200 };
	if (!diags->last || diags->exhausted)
		return;
	const char *before = diags->last->hint;
	const bool command = before && diags->last->command;
	if (before && !command && strlen(before) > LONG)
		return;
	va_list arguments;
	va_start(arguments, format);
	const char *more = arena_vprintf(diags->arena, format, arguments);
	va_end(arguments);
	if (more)
		diags->last->hint =
			before ? arena_printf(diags->arena, "%s; %s", command ? more : before, command ? before : more) : more;
}

void diag_items(struct diags *diags, const char *const *items, size_t count)
{
	if (diags->last && !diags->exhausted) {
		diags->last->items = items;
		diags->last->item_count = count;
	}
}

void diag_caret(struct diags *diags, struct span caret)
{
	if (diags->last && !diags->exhausted)
		diags->last->caret = caret;
}

enum status diag_move(struct diags *diags, enum status status, const struct source *source, struct span span)
{
	if (diags->last && !diags->exhausted) {
		diags->last->status = status;
		diags->last->source = source;
		diags->last->span = diags->last->caret = span;
	}
	return status;
}

void diags_take(struct diags *diags, const struct diags *from)
{
	for (const struct diag *d = from->first; d; d = d->next)
		append_diag(diags, d, arena_printf(diags->arena, "%s", d->message));
	if (from->exhausted)
		(void)diag_memory(diags);
}

enum status diag_memory(struct diags *diags)
{
	diags->exhausted = true;
	diags->errors++;
	return STATUS_LIMIT;
}

const char *source_line(const struct source *source, uint32_t offset, size_t *length)
{
	size_t begin = offset < source->length ? offset : source->length, end = begin;
	while (begin > 0 && source->text[begin - 1] != '\n')
		begin--;
	while (end < source->length && source->text[end] != '\n')
		end++;
	if (end > begin && source->text[end - 1] == '\r')
		end--;
	*length = end - begin;
	return source->text + begin;
}

/* Rendering. */

struct renderer {
	diag_write *write;
	void *context;
	bool color;
	size_t used;
	char text[RENDERED_MOST];
};

static void write_out(struct renderer *r)
{
	if (r->used)
		r->write(r->context, r->text, r->used);
	r->used = 0;
}

/* A diag_write that appends to the text of CONTEXT, a struct renderer. */
static void buffer_text(void *context, const char *text, size_t length)
{
	struct renderer *r = context;
	if (length > sizeof r->text - r->used)
		write_out(r);
	memcpy(r->text + r->used, text, length);
	r->used += length;
}

static void put_plain(struct renderer *r, const char *text) { buffer_text(r, text, strlen(text)); }

/* Escapes the first LENGTH bytes of TEXT as diag_escape does. */
static size_t escape(const char *text, size_t length, diag_write *write, void *context)
{
	size_t columns = 0, plain = 0; /* bytes plain .. i-1 need no escape and are not written yet */
	for (size_t i = 0; i < length;) {
		const unsigned char c = (unsigned char)text[i];
		uint32_t character = c;
		const size_t n = utf8_length(text + i, length - i, &character);
		if (n && utf8_shows(character)) {
			columns++;
			i += n;
			continue;
		}
		char escaped[5] = " ";
		if (c != '\t')
			snprintf(escaped, sizeof escaped, "\\x%02x", c);
		if (write && i > plain)
			write(context, text + plain, i - plain);
		if (write)
			write(context, escaped, strlen(escaped));
		columns += strlen(escaped);
		plain = ++i;
	}
	if (write && length > plain)
		write(context, text + plain, length - plain);
	return columns;
}

size_t diag_escape(const char *text, diag_write *write, void *context)
{
	return escape(text, strlen(text), write, context);
}

static void put_repeated(struct renderer *r, char c, size_t count)
{
	while (count-- > 0)
		buffer_text(r, &c, 1);
}

/* True if byte AT of TEXT, of LENGTH bytes, continues a character that begins before it. No text is cut there. */
static bool inside_character(const char *text, size_t length, size_t at)
{
	enum { LONGEST = 4 };
	for (size_t back = 1; back < LONGEST && back <= at; back++) {
		uint32_t character;
		if (utf8_length(text + at - back, length - at + back, &character) > back)
			return true;
	}
	return false;
}

/* Escapes the first LENGTH bytes of TEXT. Above WORD_MOST bytes it loses its middle. Returns the number of columns. */
static size_t escape_word(const char *text, size_t length, diag_write *write, void *context)
{
	static const char gap[] = "...";
	if (length <= WORD_MOST)
		return escape(text, length, write, context);
	size_t head = WORD_MOST / 2, tail = WORD_MOST - head - strlen(gap);
	while (inside_character(text, length, head))
		head--;
	while (inside_character(text, length, length - tail))
		tail--;
	const size_t before = escape(text, head, write, context) + strlen(gap);
	if (write)
		write(context, gap, strlen(gap));
	return before + escape(text + length - tail, tail, write, context);
}

size_t diag_escape_cell(const char *text, diag_write *write, void *context)
{
	return escape_word(text, strlen(text), write, context);
}

/* Returns the length of what TEXT begins with: a word, a run of spaces, or a user's text in quotes, which may have any. */
static size_t word_length(const char *text)
{
	for (const char *end = *text == '\'' ? strchr(text + 1, '\'') : NULL; end; end = strchr(end + 1, '\''))
		if (!end[1] || strchr(" ,:;)", end[1]))
			return (size_t)(end + 1 - text);
	return *text == ' ' ? strspn(text, " ") : strcspn(text, " ");
}

static size_t shown_length(size_t length) { return length < WORD_MOST ? length : WORD_MOST; }

/* Shows TEXT. A word or a run of spaces above WORD_MOST bytes loses its middle. So does TEXT above TEXT_MOST. */
static void put_text(struct renderer *r, const char *text)
{
	size_t all = 0, before = 0, length;
	for (const char *word = text; *word; word += length)
		all += shown_length(length = word_length(word));
	bool gap = false;
	for (; *text; text += length) {
		length = word_length(text);
		if (all <= TEXT_MOST || before < TEXT_MOST / 2 || all - before <= TEXT_MOST / 2)
			escape_word(text, length, buffer_text, r);
		else if (!gap)
			put_plain(r, "...");
		gap |= all > TEXT_MOST && before >= TEXT_MOST / 2;
		before += shown_length(length);
	}
}

/* Bytes FIRST .. LAST-1 of a source line are shown. BEGIN .. END-1 are underlined; only BEGIN if END exceeds LAST. */
struct excerpt {
	size_t first, last, begin, end;
};

/* Chooses at most LINE_WIDTH bytes of LINE, around BEGIN. The caret has WIDTH bytes. Leaves out the indentation. */
static struct excerpt choose_excerpt(const char *line, size_t length, size_t begin, size_t width)
{
	struct excerpt e = {.last = length};
	while (e.first < length && e.first < begin && (line[e.first] == ' ' || line[e.first] == '\t'))
		e.first++;
	if (begin > e.first + LINE_WIDTH / 2 && length > e.first + LINE_WIDTH)
		e.first = begin - LINE_WIDTH / 2;
	while (e.first < begin && inside_character(line, length, e.first))
		e.first++;
	if (length > e.first + LINE_WIDTH)
		e.last = e.first + LINE_WIDTH;
	while (e.last < length && e.last > e.first && inside_character(line, length, e.last))
		e.last--;
	e.begin = begin < e.first ? e.first : begin > e.last ? e.last : begin;
	e.end = e.begin + width;
	while (e.end < e.last && inside_character(line, e.last, e.end))
		e.end++;
	return e;
}

static void render_line(struct renderer *r, const struct diag *diag)
{
	size_t length;
	const struct span *caret = &diag->caret;
	const char *line = source_line(diag->source, caret->begin, &length);
	const size_t begin = (size_t)(diag->source->text + caret->begin - line);
	const struct excerpt e =
		choose_excerpt(line, length, begin, caret->end > caret->begin ? caret->end - caret->begin : 1);
	char number[32];
	const int gutter = snprintf(number, sizeof number, "%5u | ", caret->line);
	put_plain(r, number);
	escape(line + e.first, e.last - e.first, buffer_text, r);
	put_plain(r, "\n");
	put_repeated(r, ' ', (size_t)gutter - 2);
	put_plain(r, "| ");
	put_repeated(r, ' ', escape(line + e.first, e.begin - e.first, NULL, NULL));
	put_plain(r, r->color ? "\033[1;31m^" : "^");
	const size_t width = e.end <= e.last ? escape(line + e.begin, e.end - e.begin, NULL, NULL) : 1;
	put_repeated(r, '~', width ? width - 1 : 0);
	put_plain(r, r->color ? "\033[0m\n" : "\n");
}

enum { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITIES, LABEL_NOTE = SEVERITIES };

static int severity_of(const struct diag *diag) { return diag->status ? SEVERITY_ERROR : SEVERITY_WARNING; }

/* By severity, then without and with colour. The last label is for notes. */
static const char *const labels[][2] = {{"error: ", "\033[1;31merror:\033[0m "},
                                        {"warning: ", "\033[1;35mwarning:\033[0m "},
                                        {"note: ", "\033[1;36mnote:\033[0m "}};

static void render_one(struct renderer *r, const struct diag *diag)
{
	char place[64] = "";
	put_plain(r, "ckptc: ");
	if (diag->source) {
		escape_word(diag->source->name, strlen(diag->source->name), buffer_text, r);
		const struct span *at = diag->caret.line ? &diag->caret : &diag->span;
		snprintf(place, sizeof place, ":%u:%u: ", at->line, at->column);
	} else if (diag->file) {
		escape_word(diag->file, strlen(diag->file), buffer_text, r);
		put_plain(r, *diag->file ? ": " : "'': ");
		if (diag->offset >= 0)
			snprintf(place, sizeof place, "byte %lld: ", (long long)diag->offset);
	}
	put_plain(r, place);
	put_plain(r, labels[severity_of(diag)][r->color]);
	put_text(r, diag->message);
	put_plain(r, "\n");
	for (size_t i = 0; i < diag->item_count; i++) {
		if (r->used > RENDERED_MOST / 2) /* a long list is more than one write */
			write_out(r);
		put_plain(r, "    ");
		put_text(r, diag->items[i]);
		put_plain(r, "\n");
	}
	if (diag->source && diag->caret.line)
		render_line(r, diag);
	if (diag->hint) {
		put_plain(r, "ckptc: ");
		put_plain(r, labels[LABEL_NOTE][r->color]);
		put_text(r, diag->hint);
		put_plain(r, "\n");
	}
	write_out(r);
}

/* Writes a note of how many diagnostics are not shown, if any. COUNT has the number of each severity. */
static void render_rest(struct renderer *r, const int64_t count[SEVERITIES])
{
	static const char *const names[] = {"error", "warning"};
	bool any = false;
	for (int s = 0; s < SEVERITIES; s++) {
		const int64_t more = count[s] - MAX_DIAGS;
		char said[64];
		if (more <= 0)
			continue;
		snprintf(said, sizeof said, "%lld more %s%s", (long long)more, names[s], more == 1 ? "" : "s");
		put_plain(r, any ? ", " : "ckptc: ");
		put_plain(r, any ? "" : labels[LABEL_NOTE][r->color]);
		put_plain(r, said);
		any = true;
	}
	put_plain(r, any ? "\n" : "");
}

void diags_render(const struct diags *diags, bool color, diag_write *write, void *context)
{
	if (!diags->first && !diags->exhausted)
		return;
	struct renderer r; /* `text` stays uninitialised: most of it is never used */
	r.write = write;
	r.context = context;
	r.color = color;
	r.used = 0;
	int64_t count[SEVERITIES] = {0};
	for (const struct diag *d = diags->first; d; d = d->next)
		if (count[severity_of(d)]++ < MAX_DIAGS)
			render_one(&r, d);
	render_rest(&r, count);
	if (diags->exhausted) {
		put_plain(&r, "ckptc: ");
		put_plain(&r, labels[SEVERITY_ERROR][color]);
		put_plain(&r, "out of memory\n");
	}
	write_out(&r);
}
