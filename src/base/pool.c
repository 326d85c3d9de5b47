/*
 * Holes are in a list sorted by offset. A buffer gets the smallest hole that is large enough, the lowest of equals, else
 * bytes at the top. A buffer freed at the top lowers it. Holes are few where most buffers are freed next to a hole. Then
 * a search looks at each. Many holes are in a second list too, by size.
 *
 * A buffer that is far smaller than that hole goes to the top too. Otherwise the value of a loss takes 64 bytes of a
 * state's hole, and the next state finds none.
 * Tests: tests/unit/test_place.c
 */
#include "base/pool.h"

#include "base/checked.h"

enum { TINY = 1024 }; /* a hole of more than so many times a buffer's bytes is not split for it */
enum { MANY = 64 };   /* holes */

void pool_init(struct pool *pool, const struct allocator *allocator)
{
	*pool = (struct pool){.allocator = allocator};
	sorted_init(&pool->holes, allocator);
	sorted_init(&pool->sizes, allocator);
}

void pool_free(struct pool *pool)
{
	sorted_clear(&pool->holes);
	sorted_clear(&pool->sizes);
	pool->indexed = false;
}

static struct pair by_size(const struct pair *hole) { return (struct pair){hole->second, hole->first}; }

/* Adds HOLE to the list by size. If memory is short, holes are searched one by one again. */
static void index_add(struct pool *pool, const struct pair *hole)
{
	if (pool->indexed && !sorted_insert(&pool->sizes, by_size(hole))) {
		sorted_clear(&pool->sizes);
		pool->indexed = false;
	}
}

static void index_remove(struct pool *pool, const struct pair *hole)
{
	if (pool->indexed)
		sorted_remove(&pool->sizes, sorted_find(&pool->sizes, by_size(hole)));
}

/* Begins or ends the list by size. It ends with far fewer holes than it begins with, so that it pays. */
static void judge_index(struct pool *pool)
{
	if (pool->indexed && pool->holes.count < MANY / 2) {
		sorted_clear(&pool->sizes);
		pool->indexed = false;
	} else if (!pool->indexed && pool->holes.count > MANY) {
		pool->indexed = true;
		struct place place = {0, 0};
		for (; sorted_at(&pool->holes, place) && pool->indexed; place = sorted_after(&pool->holes, place))
			index_add(pool, sorted_at(&pool->holes, place));
	}
}

/* Returns the place of the smallest hole of at least SIZE bytes, the lowest of equals; behind the last if none is. */
static struct place best_hole(const struct pool *pool, int64_t size)
{
	struct place best = {pool->holes.block_count, 0}, place = {0, 0};
	if (pool->indexed) {
		const struct pair *found = sorted_at(&pool->sizes, sorted_find(&pool->sizes, (struct pair){size, 0}));
		return found ? sorted_find(&pool->holes, (struct pair){found->second, 0}) : best;
	}
	int64_t least = INT64_MAX;
	const struct pair *hole;
	for (; least > size && (hole = sorted_at(&pool->holes, place)); place = sorted_after(&pool->holes, place))
		if (hole->second >= size && hole->second < least) {
			best = place;
			least = hole->second;
		}
	return best;
}

int64_t pool_get(struct pool *pool, int64_t size)
{
	if (size > POOL_MOST)
		return -1;
	size = round_up(size > 0 ? size : 1, ARRAY_ALIGN);
	const struct place best = best_hole(pool, size);
	struct pair *hole = sorted_at(&pool->holes, best);
	if (hole && hole->second / TINY <= size) {
		const int64_t offset = hole->first;
		index_remove(pool, hole);
		hole->first += size;
		hole->second -= size;
		if (hole->second == 0)
			sorted_remove(&pool->holes, best);
		else
			index_add(pool, hole);
		judge_index(pool);
		return offset;
	}
	int64_t offset = pool->top;
	if (size > POOL_MOST - offset)
		return -1;
	pool->top += size;
	pool->peak = greater(pool->peak, pool->top);
	return offset;
}

/* Makes the hole at PLACE, next to bytes that become free, the bytes from OFFSET to END; none if these reach the top. */
static void widen_hole(struct pool *pool, struct place place, int64_t offset, int64_t end)
{
	struct pair *hole = sorted_at(&pool->holes, place);
	index_remove(pool, hole);
	if (end == pool->top) {
		pool->top = offset;
		sorted_remove(&pool->holes, place);
		return;
	}
	*hole = (struct pair){offset, end - offset};
	index_add(pool, hole);
}

bool pool_put(struct pool *pool, int64_t offset, int64_t size)
{
	const int64_t end = offset + round_up(size > 0 ? size : 1, ARRAY_ALIGN);
	const struct place next = sorted_find(&pool->holes, (struct pair){offset, 0});
	struct place last = next;
	const struct pair *above = sorted_at(&pool->holes, next);
	const struct pair *below = sorted_before(&pool->holes, &last) ? sorted_at(&pool->holes, last) : NULL;
	const bool after = above && above->first == end;
	const bool before = below && below->first + below->second == offset;
	if (before && after) {
		const struct pair joined = {below->first, above->first + above->second};
		index_remove(pool, above);
		sorted_remove(&pool->holes, next);
		last = sorted_find(&pool->holes, (struct pair){joined.first, 0});
		widen_hole(pool, last, joined.first, joined.second);
	} else if (before) {
		widen_hole(pool, last, below->first, end);
	} else if (after) {
		widen_hole(pool, next, offset, above->first + above->second);
	} else if (end == pool->top) {
		pool->top = offset;
	} else {
		const struct pair hole = {offset, end - offset};
		if (!sorted_insert(&pool->holes, hole))
			return false;
		index_add(pool, &hole);
	}
	judge_index(pool);
	return true;
}

bool pool_set(struct pool *pool, int64_t top, const struct pair *holes, size_t count)
{
	pool->top = top;
	if (pool->indexed)
		sorted_clear(&pool->sizes);
	pool->indexed = false;
	if (!sorted_set(&pool->holes, holes, count))
		return false;
	judge_index(pool);
	return true;
}
