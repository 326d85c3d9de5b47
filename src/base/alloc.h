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
	 * Resizes BLOCK, of OLD_SIZE bytes, to NEW_SIZE bytes as realloc does. A NEW_SIZE of 0 frees it and returns NULL; a
	 * BLOCK of NULL allocates. If memory is short, returns NULL and leaves BLOCK as it was.
	 */
	void *(*resize)(void *context, void *block, size_t old_size, size_t new_size);
	void *context;
	bool zeroes; /* RESIZE zeroes blocks of at least ALLOCATOR_ZEROED bytes when it allocates them */
};

extern const struct allocator allocator_system;

enum { ALLOCATOR_ZEROED = 4 << 20 };

/* The alignment in bytes of arrays and scratch: a cache line, the widest vector. An allocator may give blocks less. */
enum { ARRAY_ALIGN = 64 };

/*
 * A limit on the system's allocator: it refuses a request that would take the bytes in use, `used`, above `most`.
 * Without a limit the system grants more memory than it has, and kills the process that uses that memory.
 */
struct allocator_cap {
	atomic_size_t used;
	size_t most;
};
/* Initialises CAP, which must outlive the allocator. */
struct allocator allocator_capped(struct allocator_cap *cap, size_t most);

/* Returns freed memory to the system (with glibc only), since planning may need more than the run. */
void allocator_trim(void);
/* Returns COUNT * SIZE uninitialised bytes, at least one; NULL if memory is short or the product overflows. */
void *allocator_get(const struct allocator *allocator, size_t count, size_t size);
/*
 * Grows *ARRAY, of *CAPACITY elements of SIZE bytes each, unless it has WANTED elements. A growth at least doubles the
 * capacity, and zeroes the new elements. Returns false and changes nothing if memory is short.
 */
bool allocator_grow(const struct allocator *allocator, void **array, size_t *capacity, size_t wanted, size_t size);
/* Frees BLOCK, which has SIZE bytes or is NULL. */
void allocator_put(const struct allocator *allocator, void *block, size_t size);

#endif
