/*
 * The system's allocator behind the injected interface. It asks for large pages within a large block, because the first
 * touch of a small page costs more than most operations on its bytes. The large pages add no bytes to the block. A new
 * large block is zeroed, since its pages mostly are: to zero them again, and early, would cost as much as to read them.
 * Tests: tests/unit/test_base.c
 */
#include "base/alloc.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"

/* Bytes of a large page, and of the smallest block for which large pages are asked. */
enum { LARGE_PAGE = 2 << 20, LARGE_BLOCK = ALLOCATOR_ZEROED };

static void *system_resize(void *context, void *block, size_t old_size, size_t new_size)
{
	(void)context, (void)old_size;
	if (new_size == 0) {
		free(block);
		return NULL;
	}
	void *made = block || new_size < ALLOCATOR_ZEROED ? realloc(block, new_size) : calloc(1, new_size);
	const size_t before = (LARGE_PAGE - (uintptr_t)made % LARGE_PAGE) % LARGE_PAGE;
	/* A refusal is no error: the block keeps small pages. */
	if (made && new_size >= LARGE_BLOCK)
		(void)madvise((char *)made + before, (new_size - before) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
	return made;
}

const struct allocator allocator_system = {system_resize, NULL, true};

/*
 * Counts each block by its usable size, which may exceed the request by up to a page and is known only after the
 * allocation. So `used` may exceed `most` by these bytes. The cap never refuses a block that shrinks.
 */
static void *capped_resize(void *context, void *block, size_t old_size, size_t new_size)
{
	struct allocator_cap *cap = context;
	const size_t before = block ? malloc_usable_size(block) : 0, more = new_size > before ? new_size - before : 0;
	if (more && (new_size > cap->most || atomic_fetch_add(&cap->used, more) > cap->most - more)) {
		if (new_size <= cap->most)
			atomic_fetch_sub(&cap->used, more);
		return NULL;
	}
	void *made = system_resize(NULL, block, old_size, new_size);
	const size_t after = made ? malloc_usable_size(made) : new_size ? before : 0;
	/* The block is counted with before + more bytes; it has `after`. */
	atomic_fetch_add(&cap->used, after - before - more);
	return made;
}

struct allocator allocator_capped(struct allocator_cap *cap, size_t most)
{
	cap->used = 0;
	cap->most = most;
	return (struct allocator){capped_resize, cap, true};
}

static void trim(void)
{
#ifdef __GLIBC__
	(void)malloc_trim(0);
#endif
}

/*
 * Where another malloc stands for glibc's, as with jemalloc or ASan, the first trim is what initialises glibc's. Two
 * threads that do so at once abort when they end: each has counted itself as the main arena's only thread.
 */
static pthread_once_t first_trim = PTHREAD_ONCE_INIT;

void allocator_trim(void)
{
	pthread_once(&first_trim, trim);
	trim();
}

void *allocator_get(const struct allocator *allocator, size_t count, size_t size)
{
	size_t bytes;
	if (!checked_mul(count, size, &bytes))
		return NULL;
	return allocator->resize(allocator->context, NULL, 0, bytes ? bytes : 1);
}

bool allocator_grow(const struct allocator *allocator, void **array, size_t *capacity, size_t wanted, size_t size)
{
	enum { FIRST = 16 };
	if (wanted <= *capacity)
		return true;
	const size_t doubled = *capacity ? 2 * *capacity : FIRST, next = doubled < wanted ? wanted : doubled;
	void *grown = allocator->resize(allocator->context, *array, *capacity * size, next * size);
	if (!grown)
		return false;
	memset((char *)grown + *capacity * size, 0, (next - *capacity) * size);
	*array = grown;
	*capacity = next;
	return true;
}

void allocator_put(const struct allocator *allocator, void *block, size_t size)
{
	if (block)
		allocator->resize(allocator->context, block, size, 0);
}
