/*
 * Places in one slab: offsets for buffers that come and go. Deterministic, so
 * that what is planned is what happens. Best fit, freed neighbours joined.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stdint.h>

struct hole {
	int64_t offset, size;
};

struct pool {
	struct hole *holes; /* by offset; none touches another */
	size_t count, capacity;
	int64_t top;  /* nothing is in use from here on */
	int64_t peak; /* the highest top so far: bytes of slab that are needed */
	const struct allocator *allocator;
};

/* The most bytes of a slab, so that sums of a few of them are within int64. */
#define POOL_MOST (INT64_C(1) << 60)

void pool_init(struct pool *pool, const struct allocator *allocator);
void pool_free(struct pool *pool);
/* An offset for SIZE bytes, a multiple of ARRAY_ALIGN; -1, and nothing is changed, where the slab would have over POOL_MOST. */
int64_t pool_get(struct pool *pool, int64_t size);
/* Frees what pool_get gave for SIZE; false where memory for the list of holes is short. */
bool pool_put(struct pool *pool, int64_t offset, int64_t size);

#endif
