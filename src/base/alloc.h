/*
 * The injected allocator. Every byte of heap that the library takes for itself comes
 * from a struct allocator, so that a test can count and fail each request. Exceptions
 * are other libraries (zlib, BLAS, the dynamic linker, threads), and in the C
 * library qsort of a long list, strdup and setenv (ops/gemm.c) and vasprintf (base/text.c).
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct allocator {
	/*
	 * new_size 0 frees and returns NULL; block NULL allocates; else resizes.
	 * Returns NULL and leaves the block as it was where memory is short.
	 */
	void *(*resize)(void *context, void *block, size_t old_size, size_t new_size);
	void *context;
};

extern const struct allocator allocator_system;

/* The alignment of arrays, blocks and scratch: a cache line, and the widest vector. */
enum { ARRAY_ALIGN = 64 };

/*
 * The system's allocator up to MOST bytes in all; beyond them memory is short. Without
 * a cap the system grants more memory than it has, and kills the process that uses it.
 */
struct allocator_cap {
	atomic_size_t used;
	size_t most;
};
struct allocator allocator_capped(struct allocator_cap *cap, size_t most);

/* Returns freed memory to the system: planning may take more than the run. */
void allocator_trim(void);

/* count * size bytes, uninitialised; NULL where short or where the product overflows. */
void *allocator_get(const struct allocator *allocator, size_t count, size_t size);
/*
 * Makes *ARRAY, of *CAPACITY elements of SIZE bytes, hold at least WANTED of them. At least
 * doubles the capacity where it grows; the new elements are zero. False, with nothing
 * changed, if memory is short.
 */
bool allocator_grow(const struct allocator *allocator, void **array, size_t *capacity, size_t wanted, size_t size);
/* Frees a block of SIZE bytes; NULL is fine. */
void allocator_put(const struct allocator *allocator, void *block, size_t size);

#endif
