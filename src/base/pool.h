/*
 * Places in one slab: offsets for buffers that come and go, by best fit. Equal requests
 * get equal offsets, so that a run does what was planned.
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
	struct hole *holes; /* by offset; no two touch, and none touches TOP */
	size_t count, capacity;
	int64_t top;  /* from here on no byte is in use */
	int64_t peak; /* the highest top so far: the bytes that the slab needs */
	const struct allocator *allocator;
};

/* The most bytes of a slab, so that sums of a few of them are within int64. */
#define POOL_MOST (INT64_C(1) << 60)

void pool_init(struct pool *pool, const struct allocator *allocator);
void pool_free(struct pool *pool);
/* An offset for SIZE bytes, a multiple of ARRAY_ALIGN. -1, with nothing changed, if the slab would exceed POOL_MOST. */
int64_t pool_get(struct pool *pool, int64_t size);
/* Frees the place that pool_get returned for SIZE bytes. False if there is no memory for the list of holes. */
bool pool_put(struct pool *pool, int64_t offset, int64_t size);

#endif
