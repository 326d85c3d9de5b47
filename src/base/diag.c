/*
 * Collecting and rendering diagnostics. Rendering takes no memory, so that even
 * "out of memory" comes out, and shows text from files with every byte escaped
 * that could move a terminal.
 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* MAX_DIAGS: of each severity, so that warnings cannot hide an error. */
enum { MAX_DIAGS = 100, LINE_WIDTH = 100 };

void diags_init(struct diags *diags, struct arena *arena) { *diags = (struct diags){.arena = arena}; }

static struct diag *link_last(struct diags *diags, struct diag *diag)
{
	diags->errors += diag->severity == SEVERITY_ERROR;
	if (diags->last)
		diags->last->next = diag;
	else
		diags->first = diag;
	return diags->last = diag;
}

static struct diag *append(struct diags *diags, enum severity severity, enum status status, const char *format,
                           va_list arguments)
{
	struct diag *diag = arena_alloc(diags->arena, sizeof *diag);
	char *message = arena_vprintf(diags->arena, format, arguments);
	if (!diag || !message) {
		diags->errors += severity == SEVERITY_ERROR;
		diags->exhausted = true;
		return NULL;
	}
	*diag = (struct diag){.severity = severity, .status = status, .offset = -1, .message = message};
	return link_last(diags, diag);
}

static void put_at(struct diag *diag, const struct source *source, struct span span)
{
	if (!diag)
		return;
	diag->source = source;
	diag->span = diag->caret = span;
}

enum status diag_at(struct diags *diags, enum status status, const struct source *source, struct span span,
                    const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	put_at(append(diags, SEVERITY_ERROR, status, format, arguments), source, span);
	va_end(arguments);
	return status;
}

enum status diag_file(struct diags *diags, enum status status, const char *file, int64_t offset, const char *format,
                      ...)
{
	va_list arguments;
	va_start(arguments, format);
	struct diag *diag = append(diags, SEVERITY_ERROR, status, format, arguments);
	va_end(arguments);
	if (diag) {
		diag->file = file ? arena_printf(diags->arena, "%s", file) : NULL; /* it may live shorter */
		diag->offset = offset;
	}
	return status;
}

void diag_warn(struct diags *diags, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	append(diags, SEVERITY_WARNING, STATUS_OK, format, arguments);
	va_end(arguments);
}

void diag_warn_at(struct diags *diags, const struct source *source, struct span span, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	put_at(append(diags, SEVERITY_WARNING, STATUS_OK, format, arguments), source, span);
	va_end(arguments);
}

void diag_hint(struct diags *diags, const char *format, ...)
{
	if (!diags->last || diags->exhausted) /* the last one may be missing, and this is no hint for the one before */
		return;
	va_list arguments;
	va_start(arguments, format);
	diags->last->hint = arena_vprintf(diags->arena, format, arguments);
	va_end(arguments);
}

void diag_hint_more(struct diags *diags, const char *format, ...)
{
	enum { LONG = 200 };
	if (!diags->last || diags->exhausted)
		return;
	const char *before = diags->last->hint;
	if (before && strlen(before) > LONG)
		return;
	va_list arguments;
	va_start(arguments, format);
	const char *more = arena_vprintf(diags->arena, format, arguments);
	va_end(arguments);
	if (more)
		diags->last->hint = before ? arena_printf(diags->arena, "%s; %s", before, more) : more;
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
		put_at(diags->last, source, span);
	}
	return status;
}

void diags_take(struct diags *diags, const struct diags *from)
{
	for (const struct diag *d = from->first; d; d = d->next) {
		struct diag *copy = arena_alloc(diags->arena, sizeof *copy);
		if (!copy) {
			(void)diag_memory(diags);
			return;
		}
		*copy = *d;
		copy->message = arena_printf(diags->arena, "%s", d->message);
		copy->file = d->file ? arena_printf(diags->arena, "%s", d->file) : NULL;
		copy->hint = d->hint ? arena_printf(diags->arena, "%s", d->hint) : NULL;
		copy->next = NULL;
		if (!copy->message || (d->file && !copy->file))
			(void)diag_memory(diags);
		else
			link_last(diags, copy);
	}
	if (from->exhausted)
		(void)diag_memory(diags);
}

enum status diag_memory(struct diags *diags)
{
	diags->exhausted = true;
	diags->errors++;
	return STATUS_LIMIT;
}

/* Rendering. */

struct renderer {
	diag_write *write;
	void *context;
};

static void put(const struct renderer *r, const char *text) { r->write(r->context, text, strlen(text)); }

/* The columns that put_escaped makes of the first LENGTH bytes; prints them where R is not NULL. */
static size_t put_escaped(const struct renderer *r, const char *text, size_t length)
{
	size_t columns = 0;
	for (size_t i = 0; i < length;) {
		unsigned char c = (unsigned char)text[i];
		uint32_t character = c;
		size_t n = utf8_length(text + i, length - i, &character);
		if (c == '\t') {
			if (r)
				put(r, " ");
			columns++;
			i++;
		} else if (n && utf8_shows(character)) {
			if (r)
				r->write(r->context, text + i, n);
			columns++;
			i += n;
		} else {
			char escaped[5];
			snprintf(escaped, sizeof escaped, "\\x%02x", c);
			if (r)
				put(r, escaped);
			columns += 4;
			i++;
		}
	}
	return columns;
}

size_t diag_escape(const char *text, diag_write *write, void *context)
{
	const struct renderer r = {write, context};
	return put_escaped(write ? &r : NULL, text, strlen(text));
}

static void put_spaces(const struct renderer *r, size_t count)
{
	while (count-- > 0)
		put(r, " ");
}

/* Whether the byte at AT of TEXT goes on a character that begins before it: one of none may stand where text is cut. */
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

static void render_line(const struct renderer *r, const struct diag *diag, bool color)
{
	size_t length;
	const char *line = source_line(diag->source, diag->caret.begin, &length);
	size_t begin = (size_t)((diag->source->text + diag->caret.begin) - line);
	size_t indent = 0;
	while (indent < length && indent < begin && (line[indent] == ' ' || line[indent] == '\t'))
		indent++;
	/* A long line is shown around the caret. */
	if (begin > indent + LINE_WIDTH / 2 && length > indent + LINE_WIDTH)
		indent = begin - LINE_WIDTH / 2;
	while (indent < begin && inside_character(line, length, indent))
		indent++;
	const size_t whole = length;
	if (length > indent + LINE_WIDTH)
		for (length = indent + LINE_WIDTH; length > indent && inside_character(line, whole, length);)
			length--;
	if (begin > length)
		begin = length;
	if (begin < indent)
		begin = indent;
	size_t end = begin + (diag->caret.end > diag->caret.begin ? diag->caret.end - diag->caret.begin : 1);
	while (end < length && inside_character(line, length, end))
		end++;
	char number[32];
	int gutter = snprintf(number, sizeof number, "%5u | ", diag->caret.line);
	put(r, number);
	put_escaped(r, line + indent, length - indent);
	put(r, "\n");
	put_spaces(r, (size_t)gutter - 2);
	put(r, "| ");
	put_spaces(r, put_escaped(NULL, line + indent, begin - indent));
	put(r, color ? "\033[1;31m^" : "^");
	size_t width = end <= length ? put_escaped(NULL, line + begin, end - begin) : 1;
	for (size_t i = 1; i < width; i++)
		put(r, "~");
	put(r, color ? "\033[0m\n" : "\n");
}

static void render_place(const struct renderer *r, const struct diag *diag)
{
	char place[64];
	if (diag->source) {
		put_escaped(r, diag->source->name, strlen(diag->source->name));
		snprintf(place, sizeof place, ":%u:%u: ", diag->span.line, diag->span.column);
		put(r, place);
	} else if (diag->file) {
		put_escaped(r, diag->file, strlen(diag->file));
		put(r, *diag->file ? ": " : "'': ");
		if (diag->offset >= 0) {
			snprintf(place, sizeof place, "byte %lld: ", (long long)diag->offset);
			put(r, place);
		}
	}
}

static void render_one(const struct renderer *r, const struct diag *diag, bool color)
{
	static const char *const plain[] = {"error: ", "warning: ", "note: "};
	static const char *const colored[] = {"\033[1;31merror:\033[0m ", "\033[1;35mwarning:\033[0m ",
	                                      "\033[1;36mnote:\033[0m "};
	put(r, "ckptc: ");
	render_place(r, diag);
	put(r, (color ? colored : plain)[diag->severity]);
	put_escaped(r, diag->message, strlen(diag->message));
	put(r, "\n");
	if (diag->source && diag->caret.line)
		render_line(r, diag, color);
	if (diag->hint) {
		put(r, color ? "ckptc: \033[1;36mnote:\033[0m " : "ckptc: note: ");
		put_escaped(r, diag->hint, strlen(diag->hint));
		put(r, "\n");
	}
}

/* How many there are beyond those that are shown. */
static void render_rest(const struct renderer *r, const int64_t count[], bool color)
{
	static const char *const names[] = {"error", "warning", "note"};
	const char *between = color ? "ckptc: \033[1;36mnote:\033[0m " : "ckptc: note: ";
	bool any = false;
	for (int s = SEVERITY_ERROR; s <= SEVERITY_NOTE; s++) {
		const int64_t more = count[s] - MAX_DIAGS;
		char said[64];
		if (more <= 0)
			continue;
		snprintf(said, sizeof said, "%lld more %s%s", (long long)more, names[s], more == 1 ? "" : "s");
		put(r, any ? ", " : between);
		put(r, said);
		any = true;
	}
	if (any)
		put(r, "\n");
}

void diags_render(const struct diags *diags, bool color, diag_write *write, void *context)
{
	struct renderer r = {write, context};
	int64_t count[SEVERITY_NOTE + 1] = {0};
	for (const struct diag *d = diags->first; d; d = d->next)
		if (count[d->severity]++ < MAX_DIAGS)
			render_one(&r, d, color);
	render_rest(&r, count, color);
	if (diags->exhausted)
		put(&r, color ? "ckptc: \033[1;31merror:\033[0m out of memory\n" : "ckptc: error: out of memory\n");
}
