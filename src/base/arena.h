/*
 * An arena: blocks of memory that are freed together, such as the text of a chain, its parse, its compiled form and the
 * diagnostics. Blocks are 16-byte aligned and zeroed, except the unused capacity of an array that arena_grow made.
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
	size_t used;                /* bytes used in the newest of `chunks`, its header included */
	bool failed;                /* an allocation has failed; stays set */
};

void arena_init(struct arena *arena, const struct allocator *allocator);
void arena_free(struct arena *arena);
/* Returns SIZE zeroed bytes. If memory is short, returns NULL and sets ARENA's `failed`; so do the functions below. */
void *arena_alloc(struct arena *arena, size_t size);
/* Returns COUNT * SIZE zeroed bytes. Fails if the product overflows, too. */
void *arena_array(struct arena *arena, size_t count, size_t size);
/* Returns a copy of the first LENGTH bytes of TEXT, which has that many, and appends a NUL. */
char *arena_strndup(struct arena *arena, const char *text, size_t length);
__attribute__((format(printf, 2, 0))) char *arena_vprintf(struct arena *arena, const char *format, va_list arguments);
__attribute__((format(printf, 2, 3))) char *arena_printf(struct arena *arena, const char *format, ...);
/*
 * Makes space for one more element of ARRAY, with COUNT of SIZE bytes and capacity for *CAPACITY; NULL if that is 0.
 * Zeroes that element, updates *CAPACITY, and returns the array, which may have moved. On failure ARRAY stays valid.
 */
void *arena_grow(struct arena *arena, void *array, size_t count, size_t *capacity, size_t size);
/*
 * Appends a zeroed element of SIZE bytes. ARRAY is the address of the caller's pointer to the array. Updates that
 * pointer, *COUNT and *CAPACITY. Returns the element. On failure returns NULL, and the array stays as it was.
 */
void *arena_append(struct arena *arena, void *array, size_t *count, size_t *capacity, size_t size);

#endif
