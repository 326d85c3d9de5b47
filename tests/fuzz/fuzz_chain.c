/*
 * Chains: any bytes parse or give one message; what parses is formatted to a text
 * that parses again, to the same tree, and is its own canonical form.
 *
 * For libFuzzer (make fuzz) and afl-clang-fast's driver; or see replay.h.
 */
#include "language/syntax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct text {
	char *bytes;
	size_t length, capacity;
};

static void text_write(void *context, const char *bytes, size_t length)
{
	struct text *text = context;
	if (text->length + length > text->capacity) {
		text->capacity = 2 * (text->length + length);
		text->bytes = realloc(text->bytes, text->capacity);
		if (!text->bytes)
			abort();
	}
	memcpy(text->bytes + text->length, bytes, length);
	text->length += length;
}

/* The dump with its places taken out: "  LINE:COLUMN" before a line's end, a ')' or a word. */
static void strip_places(struct text *dump)
{
	size_t kept = 0;
	for (size_t i = 0; i < dump->length; i++) {
		size_t at = i;
		if (at + 2 < dump->length && !memcmp(dump->bytes + at, "  ", 2)) {
			at += 2;
			while (at < dump->length && strchr("0123456789:", dump->bytes[at]) && dump->bytes[at])
				at++;
			if (at > i + 2 && (at == dump->length || strchr(")\n ", dump->bytes[at]))) {
				i = at - 1;
				continue;
			}
		}
		dump->bytes[kept++] = dump->bytes[i];
	}
	dump->length = kept;
}

/* Formats and dumps a chain of LENGTH bytes; false where it does not parse. */
static bool digest(const char *bytes, size_t length, struct text *format, struct text *dump)
{
	struct arena arena;
	struct diags diags;
	struct syntax syntax;
	struct source source = {"fuzz.ck", bytes, length};
	struct text shown = {0};
	const struct context context = {&allocator_system, &arena, &diags};
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	bool parsed = syntax_parse(&context, &syntax, &source) == STATUS_OK;
	if (parsed != (diags.errors == 0) || diags.errors > 1)
		abort();
	if (parsed) {
		syntax_format(&syntax, text_write, format);
		syntax_dump(&syntax, text_write, dump);
	} else {
		diags_render(&diags, true, text_write, &shown);
	}
	free(shown.bytes);
	arena_free(&arena);
	return parsed;
}

static void require_equal(struct text *a, struct text *b)
{
	if (a->length != b->length || (a->length && memcmp(a->bytes, b->bytes, a->length)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text first = {0}, second = {0}, tree = {0}, again = {0};
	/* Its own block, so that a read beyond its end is seen. */
	char *copy = malloc(size ? size : 1);
	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	if (digest(copy, size, &first, &tree)) {
		if (!digest(first.bytes, first.length, &second, &again))
			abort();
		require_equal(&first, &second);
		strip_places(&tree);
		strip_places(&again);
		require_equal(&tree, &again);
	}
	free(copy);
	free(first.bytes);
	free(second.bytes);
	free(tree.bytes);
	free(again.bytes);
	return 0;
}

#include "replay.h"
