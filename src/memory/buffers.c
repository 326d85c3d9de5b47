/* Tests: tests/unit/test_machine.c */
#include "memory/buffers.h"

#include <assert.h>

void buffers_free(struct buffers *b)
{
	allocator_put(b->pool.allocator, b->items, b->capacity * sizeof *b->items);
	pool_free(&b->pool);
}

int32_t buffers_make_at(struct buffers *b, const struct type *type, int64_t size, int64_t offset)
{
	int32_t id = b->free;
	if (id != NO_BUFFER) {
		b->free = b->items[id].next_free;
	} else {
		if (!allocator_grow(b->pool.allocator, (void **)&b->items, &b->capacity, b->count + 1, sizeof *b->items))
			return NO_BUFFER;
		id = (int32_t)b->count++;
	}
	b->items[id] = (struct buffer){
		.offset = offset, .size = size, .type = type, .copy = NO_BUFFER, .step = -1, .sequence = b->sequence++};
	return id;
}

int32_t buffers_make(struct buffers *b, const struct type *type, int64_t size)
{
	const int64_t offset = pool_get(&b->pool, size);
	return offset < 0 ? NO_BUFFER : buffers_make_at(b, type, size, offset);
}

bool buffers_release(struct buffers *b, int32_t id)
{
	if (id == NO_BUFFER || --b->items[id].holds > 0)
		return true;
	assert(b->items[id].holds == 0);
	if (!pool_put(&b->pool, b->items[id].offset, b->items[id].size))
		return false;
	b->items[id].next_free = b->free;
	b->free = id;
	return true;
}

bool buffers_move(struct buffers *b, int32_t *holder, int32_t id)
{
	const int32_t old = *holder;
	buffers_hold(b, id);
	*holder = id;
	return buffers_release(b, old);
}

bool buffers_any_held(const struct buffers *b)
{
	for (size_t i = 0; i < b->count; i++)
		if (b->items[i].holds)
			return true;
	return false;
}
