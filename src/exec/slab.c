/* Aligned allocation from an allocator that only aligns as malloc does. */
#include "exec/slab.h"

enum status slab_get(struct slab *slab, int64_t size, const struct allocator *allocator, struct diags *diags)
{
	slab->size = (size_t)size + ARRAY_ALIGN;
	slab->block = allocator_get(allocator, slab->size, 1);
	if (!slab->block)
		return diag_file(diags, STATUS_LIMIT, NULL, -1, "out of memory: %lld bytes are wanted at once",
		                 (long long)size);
	uintptr_t address = (uintptr_t)slab->block;
	slab->base = (char *)slab->block + ((ARRAY_ALIGN - address % ARRAY_ALIGN) % ARRAY_ALIGN);
	return STATUS_OK;
}

void slab_put(struct slab *slab, const struct allocator *allocator)
{
	allocator_put(allocator, slab->block, slab->size);
	slab->block = NULL;
}
