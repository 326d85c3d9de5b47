/*
 * Blocks fill a chunk from its front. Each new chunk is at least twice as large as the last, up to LARGEST_CHUNK. A
 * block that does not fit in a chunk of that size has a chunk of its own. Only arrays that grow move. The allocator
 * resizes an array in its own chunk; of any other array the old copy stays in the arena.
 * Tests: tests/unit/test_base.c
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

enum { FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20, ALIGN = 16 };

struct arena_chunk {
	struct arena_chunk *next, *previous;
	size_t size; /* bytes in all, this header included */
};

enum { HEADER = (sizeof(struct arena_chunk) + ALIGN - 1) / ALIGN * ALIGN };

void arena_init(struct arena *arena, const struct allocator *allocator)
{
	*arena = (struct arena){.allocator = allocator};
}

static void put_chunks(struct arena *arena, struct arena_chunk *chunk)
{
	while (chunk) {
		struct arena_chunk *next = chunk->next;
		allocator_put(arena->allocator, chunk, chunk->size);
		chunk = next;
	}
}

void arena_free(struct arena *arena)
{
	put_chunks(arena, arena->chunks);
	put_chunks(arena, arena->own);
	arena->chunks = arena->own = NULL;
	arena->used = 0;
}

/* Records that memory is short, and returns NULL. */
static void *fail_allocation(struct arena *arena)
{
	arena->failed = true;
	return NULL;
}

/* Resizes CHUNK of LIST to SIZE bytes, its header included. A CHUNK of NULL makes one at the head of LIST. */
static struct arena_chunk *put_chunk(struct arena *arena, struct arena_chunk **list, struct arena_chunk *chunk,
                                     size_t size)
{
	const struct allocator *allocator = arena->allocator;
	struct arena_chunk *made = allocator->resize(allocator->context, chunk, chunk ? chunk->size : 0, size);
	if (!made)
		return fail_allocation(arena);
	if (!chunk)
		*made = (struct arena_chunk){.next = *list};
	made->size = size;
	if (made->next)
		made->next->previous = made;
	*(made->previous ? &made->previous->next : list) = made;
	return made;
}

/* Sets *WITH_HEADER to the bytes of a chunk that holds one block of SIZE bytes. False if they overflow. */
static bool own_size(size_t size, size_t *with_header)
{
	if (!checked_add(size ? size : 1, HEADER + ALIGN - 1, with_header) || *with_header > SIZE_MAX / 2)
		return false;
	*with_header = *with_header / ALIGN * ALIGN;
	return true;
}

/* Returns SIZE bytes, not zeroed; NULL if memory is short. */
static void *take_block(struct arena *arena, size_t size)
{
	size_t own;
	if (!own_size(size, &own))
		return fail_allocation(arena);
	if (own > LARGEST_CHUNK) {
		struct arena_chunk *chunk = put_chunk(arena, &arena->own, NULL, own);
		return chunk ? (char *)chunk + HEADER : NULL;
	}
	const size_t rounded = own - HEADER;
	if (!arena->chunks || arena->chunks->size - arena->used < rounded) {
		size_t next = arena->chunks ? 2 * arena->chunks->size : FIRST_CHUNK;
		next = next > LARGEST_CHUNK ? LARGEST_CHUNK : next;
		if (!put_chunk(arena, &arena->chunks, NULL, next > own ? next : own))
			return NULL;
		arena->used = HEADER;
	}
	void *block = (char *)arena->chunks + arena->used;
	arena->used += rounded;
	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	void *block = take_block(arena, size);
	const bool zeroed = arena->allocator->zeroes && size >= ALLOCATOR_ZEROED; /* it has a new chunk of its own */
	return block && !zeroed ? memset(block, 0, size) : block;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
	size_t bytes;
	return checked_mul(count, size, &bytes) ? arena_alloc(arena, bytes) : fail_allocation(arena);
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
	if (count == *capacity) {
		const size_t wanted = *capacity ? 2 * *capacity : 2;
		size_t bytes, old, own;
		if (!checked_mul(wanted, size, &bytes))
			return fail_allocation(arena);
		if (own_size(*capacity * size, &old) && own_size(bytes, &own) && old > LARGEST_CHUNK) {
			struct arena_chunk *chunk = put_chunk(arena, &arena->own, (void *)((char *)array - HEADER), own);
			array = chunk ? (char *)chunk + HEADER : NULL;
		} else {
			void *grown = take_block(arena, bytes);
			array = grown && count ? memcpy(grown, array, count * size) : grown;
		}
		if (!array)
			return NULL;
		*capacity = wanted;
	}
	memset((char *)array + count * size, 0, size);
	return array;
}

void *arena_append(struct arena *arena, void *array, size_t *count, size_t *capacity, size_t size)
{
	void *items;
	memcpy(&items, array, sizeof items);
	items = arena_grow(arena, items, *count, capacity, size);
	if (!items)
		return NULL;
	memcpy(array, &items, sizeof items);
	return (char *)items + (*count)++ * size;
}
