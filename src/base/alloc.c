/* The system's allocator behind the injected interface. */
#include "base/alloc.h"

#include <stdlib.h>

#include "base/checked.h"

static void *system_resize(void *context, void *block, size_t old_size, size_t new_size)
{
	(void)context;
	(void)old_size;
	if (new_size == 0) {
		free(block);
		return NULL;
	}
	return realloc(block, new_size);
}

const struct allocator allocator_system = {system_resize, NULL};

void *allocator_get(const struct allocator *allocator, size_t count, size_t size)
{
	size_t bytes;
	if (!checked_mul(count, size, &bytes))
		return NULL;
	return allocator->resize(allocator->context, NULL, 0, bytes ? bytes : 1);
}

void allocator_put(const struct allocator *allocator, void *block, size_t size)
{
	if (block)
		allocator->resize(allocator->context, block, size, 0);
}
