/*
 * An arena: blocks of memory that are freed together. What lives from the text of a chain to its schedule is in one.
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
	struct arena_chunk *chunks; /* chunks that blocks share, newest first */
	struct arena_chunk *own;    /* chunks that hold one large block each */
	size_t used;                /* bytes used in the newest of CHUNKS */
	bool failed;                /* an allocation has failed; stays set */
};

void arena_init(struct arena *arena, const struct allocator *allocator);
void arena_free(struct arena *arena);
/* Returns SIZE zeroed bytes. If memory is short, returns NULL and sets ARENA's `failed`; so do the functions below. */
void *arena_alloc(struct arena *arena, size_t size);
/* Returns COUNT * SIZE zeroed bytes; fails if the product overflows, too. */
void *arena_array(struct arena *arena, size_t count, size_t size);
/* Returns a copy of the first LENGTH bytes of TEXT, terminated by a NUL. */
char *arena_strndup(struct arena *arena, const char *text, size_t length);
__attribute__((format(printf, 2, 0))) char *arena_vprintf(struct arena *arena, const char *format, va_list arguments);
__attribute__((format(printf, 2, 3))) char *arena_printf(struct arena *arena, const char *format, ...);
/*
 * Makes space for one more element of ARRAY, which has COUNT elements of SIZE bytes and capacity for *CAPACITY. Zeroes
 * that element, and updates *CAPACITY. Returns the array, which may have moved; NULL, with nothing changed, on failure.
 */
void *arena_grow(struct arena *arena, void *array, size_t count, size_t *capacity, size_t size);
/*
 * Appends a zeroed element of SIZE bytes to an array. ARRAY is the address of the caller's pointer to the array; that
 * pointer, *COUNT and *CAPACITY are updated. Returns the element; NULL, with nothing changed, on failure.
 */
void *arena_append(struct arena *arena, void *array, size_t *count, size_t *capacity, size_t size);

#endif
