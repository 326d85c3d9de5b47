/* Tests: tests/unit/test_run.c */
#include "evaluate/slab.h"

#include <stdlib.h>
#include <string.h>

/*
 * Fills SLAB with NaNs in a build with ASan, and where CKPTC_POISON is set, as tests do. So an array that is read before
 * it is written shows.
 */
static void poison_slab(const struct slab *slab)
{
#ifdef __SANITIZE_ADDRESS__
	const bool poisons = true;
#else
	const bool poisons = getenv("CKPTC_POISON") != NULL;
#endif
	enum { ALL_BITS = 0xff };
	if (poisons)
		memset(slab->block, ALL_BITS, slab->size);
}

enum status slab_get(struct slab *slab, int64_t size, const struct allocator *allocator, struct diags *diags)
{
	slab->programs = NULL;
	slab->size = (size_t)size + ARRAY_ALIGN;
	slab->block = allocator_get(allocator, slab->size, 1);
	if (!slab->block)
		return diag_file(diags, STATUS_LIMIT, NULL, -1, "out of memory: %lld bytes are wanted at once",
		                 (long long)size);
	slab->base = (char *)slab->block + (ARRAY_ALIGN - (uintptr_t)slab->block % ARRAY_ALIGN) % ARRAY_ALIGN;
	poison_slab(slab);
	return STATUS_OK;
}

enum status slab_get_shared(struct slab *slab, int64_t size, struct external_set *programs,
                            const struct allocator *allocator, struct diags *diags)
{
	void *memory = NULL;
	if (programs)
		TRY(external_memory(programs, (size_t)size, &memory, diags));
	if (!memory)
		return slab_get(slab, size, allocator, diags);
	*slab = (struct slab){.block = memory, .base = memory, .size = (size_t)size, .programs = programs};
	poison_slab(slab);
	return STATUS_OK;
}

void slab_put(struct slab *slab, const struct allocator *allocator)
{
	if (slab->programs)
		external_memory_put(slab->programs, slab->block);
	else
		allocator_put(allocator, slab->block, slab->size);
	slab->block = NULL;
}
