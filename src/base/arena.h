/*
 * A region freed at once: the lifetime of everything from text to schedule.
 * Blocks are 16-byte aligned and zeroed.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/alloc.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
	const struct allocator *allocator;
	struct arena_chunk *chunks; /* newest first */
	struct arena_chunk *own;    /* chunks that hold one large block each */
	size_t used;                /* bytes used in the newest of CHUNKS */
	bool failed;                /* an allocation has failed: sticky */
};

void arena_init(struct arena *arena, const struct allocator *allocator);
void arena_free(struct arena *arena);
/* Returns SIZE zeroed bytes, or NULL (and sets arena->failed) where memory is short. */
void *arena_alloc(struct arena *arena, size_t size);
/* Returns COUNT * SIZE zeroed bytes; NULL on overflow too. */
void *arena_array(struct arena *arena, size_t count, size_t size);
/* A copy of TEXT's first LENGTH bytes, NUL-terminated. */
char *arena_strndup(struct arena *arena, const char *text, size_t length);
__attribute__((format(printf, 2, 0))) char *arena_vprintf(struct arena *arena, const char *format, va_list arguments);
__attribute__((format(printf, 2, 3))) char *arena_printf(struct arena *arena, const char *format, ...);
/*
 * Makes space for element COUNT of an array of elements of SIZE bytes, whose capacity is
 * *CAPACITY, and zeroes that element. Returns the array, which may have moved, or NULL.
 */
void *arena_grow(struct arena *arena, void *array, size_t count, size_t *capacity, size_t size);
/*
 * Appends a zeroed element to the array that the pointer at ARRAY leads to; that pointer, *COUNT and *CAPACITY follow.
 * Returns the element, or NULL, and then nothing has changed.
 */
void *arena_append(struct arena *arena, void *array, size_t *count, size_t *capacity, size_t size);

#endif
