/* Tests: tests/unit/test_place.c */
#include "base/sorted.h"

#include <string.h>

static bool is_below(struct pair a, struct pair b)
{
	return a.first != b.first ? a.first < b.first : a.second < b.second;
}

void sorted_init(struct sorted *sorted, const struct allocator *allocator)
{
	*sorted = (struct sorted){.allocator = allocator};
}

void sorted_clear(struct sorted *sorted)
{
	for (size_t i = 0; i < sorted->block_count; i++)
		allocator_put(sorted->allocator, sorted->blocks[i], sizeof *sorted->blocks[i]);
	allocator_put(sorted->allocator, sorted->spare, sizeof *sorted->spare);
	allocator_put(sorted->allocator, sorted->blocks, sorted->block_capacity * sizeof(struct sorted_block *));
	sorted_init(sorted, sorted->allocator);
}

struct place sorted_find(const struct sorted *sorted, struct pair pair)
{
	size_t low = 0, high = sorted->block_count;
	while (low < high) { /* for the first block whose last pair is not below PAIR */
		const size_t middle = low + (high - low) / 2;
		const struct sorted_block *block = sorted->blocks[middle];
		if (is_below(block->pairs[block->count - 1], pair))
			low = middle + 1;
		else
			high = middle;
	}
	struct place place = {low, 0};
	if (low == sorted->block_count)
		return place;
	for (high = sorted->blocks[low]->count; place.index < high;) {
		const size_t middle = place.index + (high - place.index) / 2;
		if (is_below(sorted->blocks[low]->pairs[middle], pair))
			place.index = middle + 1;
		else
			high = middle;
	}
	return place;
}

/* Makes an empty block at index AT. Returns it, or NULL if memory is short. */
static struct sorted_block *add_block(struct sorted *sorted, size_t at)
{
	if (!allocator_grow(sorted->allocator, (void **)&sorted->blocks, &sorted->block_capacity, sorted->block_count + 1,
	                    sizeof(struct sorted_block *)))
		return NULL;
	struct sorted_block *block = sorted->spare ? sorted->spare : allocator_get(sorted->allocator, 1, sizeof *block);
	if (!block)
		return NULL;
	sorted->spare = NULL;
	block->count = 0;
	memmove(sorted->blocks + at + 1, sorted->blocks + at, (sorted->block_count++ - at) * sizeof(struct sorted_block *));
	return sorted->blocks[at] = block;
}

/* Removes block AT, whose pairs nothing counts any more. */
static void drop_block(struct sorted *sorted, size_t at)
{
	allocator_put(sorted->allocator, sorted->spare, sizeof *sorted->spare);
	sorted->spare = sorted->blocks[at];
	memmove(sorted->blocks + at, sorted->blocks + at + 1, (--sorted->block_count - at) * sizeof(struct sorted_block *));
}

/* Moves the upper half of the block at PLACE, which is full, to a new one. Returns false if memory is short. */
static bool split_block(struct sorted *sorted, struct place *place)
{
	enum { HALF = SORTED_BLOCK / 2 };
	struct sorted_block *new = add_block(sorted, place->block + 1);
	if (!new)
		return false;
	struct sorted_block *old = sorted->blocks[place->block];
	memcpy(new->pairs, old->pairs + HALF, HALF * sizeof *new->pairs);
	old->count = new->count = HALF;
	if (place->index > HALF)
		*place = (struct place){place->block + 1, place->index - HALF};
	return true;
}

bool sorted_insert(struct sorted *sorted, struct pair pair)
{
	struct place place = sorted_find(sorted, pair);
	if (place.block == sorted->block_count && !sorted_before(sorted, &place)) {
		if (!add_block(sorted, 0))
			return false;
	} else if (place.block < sorted->block_count && is_below(sorted->blocks[place.block]->pairs[place.index], pair)) {
		place.index++; /* it becomes the last of all */
	}
	if (sorted->blocks[place.block]->count == SORTED_BLOCK && !split_block(sorted, &place))
		return false;
	struct sorted_block *block = sorted->blocks[place.block];
	memmove(block->pairs + place.index + 1, block->pairs + place.index,
	        (block->count++ - place.index) * sizeof *block->pairs);
	block->pairs[place.index] = pair;
	sorted->count++;
	return true;
}

void sorted_remove(struct sorted *sorted, struct place place)
{
	struct sorted_block *block = sorted->blocks[place.block];
	memmove(block->pairs + place.index, block->pairs + place.index + 1,
	        (--block->count - place.index) * sizeof *block->pairs);
	sorted->count--;
	if (block->count == 0)
		drop_block(sorted, place.block);
}

bool sorted_set(struct sorted *sorted, const struct pair *pairs, size_t count)
{
	while (sorted->block_count)
		drop_block(sorted, sorted->block_count - 1);
	sorted->count = 0;
	for (size_t i = 0; i < count; i += SORTED_BLOCK) {
		struct sorted_block *block = add_block(sorted, sorted->block_count);
		if (!block)
			return false;
		block->count = count - i < SORTED_BLOCK ? count - i : SORTED_BLOCK;
		memcpy(block->pairs, pairs + i, block->count * sizeof *pairs);
		sorted->count += block->count;
	}
	return true;
}
