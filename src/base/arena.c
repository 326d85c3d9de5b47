/*
 * Chunks that double in size up to a bound, filled from the front; a request
 * that is larger than a chunk has one of its own. Nothing moves.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

enum { FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20, ALIGN = 16 };

struct arena_chunk {
	struct arena_chunk *next;
	size_t size; /* bytes in all, this header included */
};

enum { HEADER = (sizeof(struct arena_chunk) + ALIGN - 1) / ALIGN * ALIGN };

void arena_init(struct arena *arena, const struct allocator *allocator)
{
	*arena = (struct arena){.allocator = allocator};
}

void arena_free(struct arena *arena)
{
	while (arena->chunks) {
		struct arena_chunk *next = arena->chunks->next;
		allocator_put(arena->allocator, arena->chunks, arena->chunks->size);
		arena->chunks = next;
	}
	arena->used = 0;
}

static struct arena_chunk *add_chunk(struct arena *arena, size_t wanted)
{
	size_t size = arena->chunks ? 2 * arena->chunks->size : FIRST_CHUNK;
	if (size > LARGEST_CHUNK)
		size = LARGEST_CHUNK;
	if (size < wanted)
		size = wanted;
	struct arena_chunk *chunk = allocator_get(arena->allocator, size, 1);
	if (!chunk)
		return NULL;
	chunk->size = size;
	chunk->next = arena->chunks;
	arena->chunks = chunk;
	arena->used = HEADER;
	return chunk;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	size_t rounded;
	if (!checked_add(size ? size : 1, ALIGN - 1, &rounded) || rounded > SIZE_MAX / 2) {
		arena->failed = true;
		return NULL;
	}
	rounded = rounded / ALIGN * ALIGN;
	if ((!arena->chunks || arena->chunks->size - arena->used < rounded) && !add_chunk(arena, HEADER + rounded)) {
		arena->failed = true;
		return NULL;
	}
	void *block = (char *)arena->chunks + arena->used;
	arena->used += rounded;
	return memset(block, 0, rounded);
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
	size_t bytes;
	if (!checked_mul(count, size, &bytes)) {
		arena->failed = true;
		return NULL;
	}
	return arena_alloc(arena, bytes);
}

char *arena_strndup(struct arena *arena, const char *text, size_t length)
{
	char *copy = arena_alloc(arena, length + 1);
	if (copy)
		memcpy(copy, text, length);
	return copy;
}

char *arena_vprintf(struct arena *arena, const char *format, va_list arguments)
{
	va_list again;
	va_copy(again, arguments);
	int length = vsnprintf(NULL, 0, format, arguments);
	char *text = length < 0 ? NULL : arena_alloc(arena, (size_t)length + 1);
	if (text)
		vsnprintf(text, (size_t)length + 1, format, again);
	va_end(again);
	return text;
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	char *text = arena_vprintf(arena, format, arguments);
	va_end(arguments);
	return text;
}

void *arena_grow(struct arena *arena, void *array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity) {
		memset((char *)array + count * size, 0, size);
		return array;
	}
	size_t wanted = *capacity ? 2 * *capacity : 2;
	void *grown = arena_array(arena, wanted, size);
	if (!grown)
		return NULL;
	if (count)
		memcpy(grown, array, count * size);
	*capacity = wanted;
	return grown;
}
