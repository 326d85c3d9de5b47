/*
 * Two jobs: it makes jansson safe against a failed allocation, and gives values places.
 *
 * When jansson's scanner gets no memory for a byte, it drops the byte and continues. The result is a wrong token or
 * another number, and after a dropped end of a string a read past the buffer. So a refused allocation leaves the parser
 * at once by longjmp. All blocks of a text are in its arena, which json_close frees.
 * Tests: tests/unit/test_load.c
 */
#include "io/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The parse that is under way in this thread; without one the arena is NULL. */
static _Thread_local struct {
	jmp_buf refused;
	struct arena *arena;
} parse;

/* jansson's functions serve the whole process. Other users of jansson, who are no parse of ours, get the heap. */
static void *allocate_block(size_t size)
{
	if (!parse.arena)
		return malloc(size);
	void *block = arena_alloc(parse.arena, size);
	if (!block)
		longjmp(parse.refused, 1);
	return block;
}

static void leave_block(void *block)
{
	if (!parse.arena)
		free(block);
}

/* Places. The text is valid JSON in all functions but report_at. */

/* A message underlines BEGIN to END, the key or the first byte of a value; the value begins at VALUE. */
struct place {
	size_t begin, end, value;
};

static size_t skip_blanks(const struct source *source, size_t at)
{
	while (at < source->length && source->text[at] && strchr(" \t\n\r", source->text[at]))
		at++;
	return at;
}

/* Returns the end of the string that begins at AT. */
static size_t string_end(const struct source *source, size_t at)
{
	for (at++; at < source->length && source->text[at] != '"'; at++)
		at += source->text[at] == '\\';
	return at < source->length ? at + 1 : source->length;
}

/* Returns the end of the value or key that begins at AT. */
static size_t value_end(const struct source *source, size_t at)
{
	int depth = 0;
	while (at < source->length) {
		const char c = source->text[at];
		if (depth == 0 && strchr(" \t\n\r,:]}", c))
			break;
		depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		at = c == '"' ? string_end(source, at) : at + 1;
	}
	return at;
}

/* Writes the place of PATH to *PLACE; if it is missing, that of the nearest value around it, and returns false. */
static bool find_place(const struct source *source, const struct json_path *path, struct place *place)
{
	if (!path) {
		const size_t at = skip_blanks(source, 0);
		*place = (struct place){at, at + (at < source->length), at};
		return true;
	}
	if (!find_place(source, path->parent, place))
		return false;
	const size_t length = path->key ? strlen(path->key) : 0;
	size_t at = skip_blanks(source, place->value + 1);
	for (size_t i = 0; at < source->length && source->text[at] != ']' && source->text[at] != '}'; i++) {
		size_t end = value_end(source, at);
		const size_t value = path->key ? skip_blanks(source, skip_blanks(source, end) + 1) : at;
		if (path->key ? end - at == length + 2 && !memcmp(source->text + at + 1, path->key, length)
		              : i == path->index) {
			*place = (struct place){at, path->key ? end : at + 1, value};
			return true;
		}
		at = skip_blanks(source, value_end(source, value));
		if (at < source->length && source->text[at] == ',')
			at = skip_blanks(source, at + 1);
	}
	return false;
}

static enum status report_at(const struct json_text *text, size_t begin, size_t end, enum status status,
                             const char *message)
{
	const struct source *source = text->source;
	if (text->offset >= 0)
		return diag_file(text->context->diags, status, source->name, text->offset + (int64_t)begin, "%s", message);
	struct span span = {(uint32_t)begin, (uint32_t)end, 1, 1};
	for (size_t i = 0; i < begin && i < source->length; i++) {
		span.column++;
		if (source->text[i] == '\n') {
			span.line++;
			span.column = 1;
		}
	}
	return diag_at(text->context->diags, status, source, span, "%s", message);
}

/* Returns PATH as "a.b[3]", or NULL where memory is short. */
static const char *path_text(const struct json_path *path, struct arena *arena)
{
	const char *parent = path ? path_text(path->parent, arena) : "";
	if (!path || !parent)
		return parent;
	return path->key ? arena_printf(arena, "%s%s%s", parent, *parent ? "." : "", path->key)
	                 : arena_printf(arena, "%s[%zu]", parent, path->index);
}

enum status json_wrong(const struct json_text *text, const struct json_path *path, enum status status,
                       const char *format, ...)
{
	struct arena *arena = text->context->arena;
	va_list arguments;
	va_start(arguments, format);
	const char *message = arena_vprintf(arena, format, arguments);
	va_end(arguments);
	const char *holder = path_text(path && path->key ? path->parent : path, arena);
	message = message && holder ? arena_printf(arena, "%s%s%s", holder, *holder ? ": " : "", message) : NULL;
	TRY_ALLOC(message, text->context->diags);
	struct place place;
	find_place(text->source, path, &place);
	return report_at(text, place.begin, place.end, status, message);
}

void json_close(struct json_text *text)
{
	arena_free(&text->arena);
	text->top = NULL;
}

enum status json_open(struct json_text *text, const struct source *source, int64_t offset,
                      const struct context *context)
{
	json_error_t error;
	*text = (struct json_text){.source = source, .offset = offset, .context = context};
	arena_init(&text->arena, context->allocator);
	json_set_alloc_funcs(allocate_block, leave_block);
	parse.arena = &text->arena;
	if (setjmp(parse.refused) != 0) {
		parse.arena = NULL;
		json_close(text);
		return diag_memory(context->diags);
	}
	text->top = json_loadb(source->text, source->length, JSON_REJECT_DUPLICATES, &error);
	parse.arena = NULL;
	if (text->top)
		return STATUS_OK;
	const size_t at = error.position > 0 ? (size_t)error.position - 1 : 0;
	const size_t begin = at < source->length ? at : source->length;
	const char *message = arena_printf(context->arena, "not valid JSON: %s", error.text);
	json_close(text);
	TRY_ALLOC(message, context->diags);
	return report_at(text, begin, begin + 1, STATUS_DATA, message);
}
