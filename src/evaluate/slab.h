/* Slabs: the one block of memory that a run's arrays lie in. */
#ifndef EVALUATE_SLAB_H
#define EVALUATE_SLAB_H

#include "external/external.h"

/* One block of ARRAY_ALIGN aligned memory. */
struct slab {
	void *block;                   /* as allocated */
	char *base;                    /* aligned */
	size_t size;                   /* of block */
	struct external_set *programs; /* whose commands share it; NULL: it is an allocator's */
};

/* Allocates SIZE bytes, not zeroed. Fails with STATUS_LIMIT and the size if out of memory. The caller frees SLAB. */
enum status slab_get(struct slab *slab, int64_t size, const struct allocator *allocator, struct diags *diags);
/* The same, in memory that the commands of PROGRAMS share if one of them asks for that. PROGRAMS may be NULL. */
enum status slab_get_shared(struct slab *slab, int64_t size, struct external_set *programs,
                            const struct allocator *allocator, struct diags *diags);
void slab_put(struct slab *slab, const struct allocator *allocator);

#endif
