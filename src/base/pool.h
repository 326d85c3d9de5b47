/*
 * A pool assigns offsets in one slab to buffers, by best fit; the slab itself is elsewhere. Equal sequences of requests
 * get equal offsets, so that a run uses the offsets of its plan.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/sorted.h"

struct pool {
	struct sorted holes; /* free places, by offset and size; none touches another or TOP */
	struct sorted sizes; /* the same by size and offset, if there are many (INDEXED) */
	bool indexed;
	int64_t top;  /* the bytes from here on are free */
	int64_t peak; /* the highest top so far: the bytes that the slab needs */
	const struct allocator *allocator;
};

/* The most bytes of a slab. An int64 holds the sum of seven such numbers. */
#define POOL_MOST (INT64_C(1) << 60)

void pool_init(struct pool *pool, const struct allocator *allocator);
void pool_free(struct pool *pool);
/* Returns an offset, a multiple of ARRAY_ALIGN, for SIZE bytes, rounded up to one; -1 if the slab exceeds POOL_MOST. */
int64_t pool_get(struct pool *pool, int64_t size);
/* Frees OFFSET, which pool_get returned for SIZE bytes. False, with nothing changed, if memory for holes is short. */
bool pool_put(struct pool *pool, int64_t offset, int64_t size);
/* Makes the COUNT HOLES and the bytes from TOP on the free places. The peak stays. False if out of memory. */
bool pool_set(struct pool *pool, int64_t top, const struct pair *holes, size_t count);

#endif
