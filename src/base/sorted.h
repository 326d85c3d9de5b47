/*
 * A sorted list of pairs of numbers, in blocks. It finds a pair by two binary searches, and moves the pairs of one block
 * to insert or remove one. A list of few pairs is one array.
 */
#ifndef BASE_SORTED_H
#define BASE_SORTED_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stdint.h>

struct pair {
	int64_t first, second;
};

enum { SORTED_BLOCK = 128 };
struct sorted_block {
	size_t count; /* at least 1 */
	struct pair pairs[SORTED_BLOCK];
};

/* Pairs ascend by FIRST, those of one FIRST by SECOND. No pair is there twice. */
struct sorted {
	const struct allocator *allocator;
	struct sorted_block **blocks;
	size_t block_count, block_capacity;
	struct sorted_block *spare; /* a block that became empty, or NULL: the list may grow again at once */
	size_t count;               /* of all pairs */
};

/* The place of a pair. Behind the last pair BLOCK is block_count. An insertion or a removal makes places invalid. */
struct place {
	size_t block, index;
};

void sorted_init(struct sorted *sorted, const struct allocator *allocator);
/* Frees all memory. The list is then empty. */
void sorted_clear(struct sorted *sorted);
/* Makes the list the COUNT PAIRS, which ascend. Returns false if memory is short. */
bool sorted_set(struct sorted *sorted, const struct pair *pairs, size_t count);
/* Returns the place of the first pair that is not below PAIR. */
struct place sorted_find(const struct sorted *sorted, struct pair pair);
/* Inserts PAIR. Returns false and changes nothing if memory is short. */
bool sorted_insert(struct sorted *sorted, struct pair pair);
void sorted_remove(struct sorted *sorted, struct place place);

/* Returns the pair at PLACE, or NULL behind the last one. A change must keep it between its neighbours. */
static inline struct pair *sorted_at(const struct sorted *sorted, struct place place)
{
	return place.block < sorted->block_count ? &sorted->blocks[place.block]->pairs[place.index] : NULL;
}
/* Returns the place after PLACE, at which there is a pair. */
static inline struct place sorted_after(const struct sorted *sorted, struct place place)
{
	const bool last = place.index + 1 == sorted->blocks[place.block]->count;
	return last ? (struct place){place.block + 1, 0} : (struct place){place.block, place.index + 1};
}
/* Moves *PLACE to the one before. Returns false if there is none. */
static inline bool sorted_before(const struct sorted *sorted, struct place *place)
{
	if (place->index == 0 && place->block == 0)
		return false;
	if (place->index == 0)
		place->index = sorted->blocks[--place->block]->count;
	place->index--;
	return true;
}

#endif
