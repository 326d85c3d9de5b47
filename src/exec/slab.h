/* One block of 64-byte aligned memory, from the injected allocator. */
#ifndef EXEC_SLAB_H
#define EXEC_SLAB_H

#include "base/diag.h"

#include <stdint.h>

struct slab {
	void *block; /* as allocated */
	char *base;  /* aligned */
	size_t size; /* of block */
};

/* Allocates SIZE bytes, not zeroed. Fails with STATUS_LIMIT, naming the size, when out of memory. */
enum status slab_get(struct slab *slab, int64_t size, const struct allocator *allocator, struct diags *diags);
void slab_put(struct slab *slab, const struct allocator *allocator);

#endif
