/*
 * The injected allocator. All heap memory of ckptc comes from a struct allocator, so that a test can count and
 * fail each request. Exceptions: other libraries (zlib, BLAS, the dynamic linker, threads), and in the C library qsort
 * of a long list, strdup and setenv (ops/gemm.c), fopen (base/system.c) and vasprintf (base/text.c).
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct allocator {
	/*
	 * Resizes BLOCK to NEW_SIZE bytes. A NEW_SIZE of 0 frees it and returns NULL; a BLOCK of NULL allocates.
	 * Returns NULL and leaves BLOCK as it was if memory is short.
	 */
	void *(*resize)(void *context, void *block, size_t old_size, size_t new_size);
	void *context;
};

extern const struct allocator allocator_system;

/* The alignment in bytes of arrays, blocks and scratch: that of a cache line and of the widest vector. */
enum { ARRAY_ALIGN = 64 };

/*
 * A limit on the system's allocator: it refuses requests beyond MOST bytes in all. Without a limit the system grants
 * more memory than it has, and kills the process that uses that memory.
 */
struct allocator_cap {
	atomic_size_t used;
	size_t most;
};
/* Initialises CAP, which must outlive the allocator. */
struct allocator allocator_capped(struct allocator_cap *cap, size_t most);

/* Returns freed memory to the system, since planning may need more than the run. */
void allocator_trim(void);
/* Returns COUNT * SIZE uninitialised bytes; NULL if memory is short or the product overflows. */
void *allocator_get(const struct allocator *allocator, size_t count, size_t size);
/*
 * Grows *ARRAY, of *CAPACITY elements of SIZE bytes each, to at least WANTED elements; a growth at least doubles the
 * capacity. Zeroes the new elements. Returns false and changes nothing if memory is short.
 */
bool allocator_grow(const struct allocator *allocator, void **array, size_t *capacity, size_t wanted, size_t size);
/* Frees BLOCK, of SIZE bytes; does nothing if it is NULL. */
void allocator_put(const struct allocator *allocator, void *block, size_t size);

#endif
