/*
 * Holes are in an array sorted by offset. They are few, since most buffers are freed next to a hole. A buffer gets the
 * smallest hole that is large enough, the lowest of equals, else bytes at the top. A buffer freed at the top lowers it.
 *
 * A buffer that is far smaller than that hole goes to the top too. Otherwise the value of a loss takes 64 bytes of a
 * state's hole, and the next state finds none.
 */
#include "base/pool.h"

#include <string.h>

#include "base/checked.h"

enum { TINY = 1024 }; /* a hole of more than so many times a buffer's bytes is not split for it */

void pool_init(struct pool *pool, const struct allocator *allocator) { *pool = (struct pool){.allocator = allocator}; }

void pool_free(struct pool *pool)
{
	allocator_put(pool->allocator, pool->holes, pool->capacity * sizeof *pool->holes);
	pool->holes = NULL;
	pool->count = pool->capacity = 0;
}

static void remove_hole(struct pool *pool, size_t at)
{
	memmove(pool->holes + at, pool->holes + at + 1, (pool->count - at - 1) * sizeof *pool->holes);
	pool->count--;
}

int64_t pool_get(struct pool *pool, int64_t size)
{
	if (size > POOL_MOST)
		return -1;
	size = round_up(size > 0 ? size : 1, ARRAY_ALIGN);
	size_t best = pool->count;
	for (size_t i = 0; i < pool->count; i++)
		if (pool->holes[i].size >= size && (best == pool->count || pool->holes[i].size < pool->holes[best].size))
			best = i;
	if (best < pool->count && pool->holes[best].size / TINY <= size) {
		int64_t offset = pool->holes[best].offset;
		pool->holes[best].offset += size;
		pool->holes[best].size -= size;
		if (pool->holes[best].size == 0)
			remove_hole(pool, best);
		return offset;
	}
	int64_t offset = pool->top;
	if (size > POOL_MOST - offset)
		return -1;
	pool->top += size;
	pool->peak = greater(pool->peak, pool->top);
	return offset;
}

bool pool_put(struct pool *pool, int64_t offset, int64_t size)
{
	int64_t end = offset + round_up(size > 0 ? size : 1, ARRAY_ALIGN);
	size_t low = 0, high = pool->count;
	while (low < high) {
		const size_t middle = (low + high) / 2;
		if (pool->holes[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	const bool before = low > 0 && pool->holes[low - 1].offset + pool->holes[low - 1].size == offset;
	const bool after = low < pool->count && end == pool->holes[low].offset;
	if (before)
		offset = pool->holes[--low].offset;
	if (after)
		end += pool->holes[low + before].size;
	if (end == pool->top) {
		pool->top = offset;
		pool->count -= before;
		return true;
	}
	if (before && after) {
		remove_hole(pool, low + 1);
	} else if (!before && !after) {
		if (!allocator_grow(pool->allocator, (void **)&pool->holes, &pool->capacity, pool->count + 1,
		                    sizeof *pool->holes))
			return false;
		memmove(pool->holes + low + 1, pool->holes + low, (pool->count++ - low) * sizeof *pool->holes);
	}
	pool->holes[low] = (struct hole){offset, end - offset};
	return true;
}

bool pool_set(struct pool *pool, int64_t top, const struct hole *holes, size_t count)
{
	if (count && !allocator_grow(pool->allocator, (void **)&pool->holes, &pool->capacity, count, sizeof *pool->holes))
		return false;
	for (size_t i = 0; i < count; i++)
		pool->holes[i] = holes[i];
	pool->count = count;
	pool->top = top;
	return true;
}
