/*
 * Big-endian Patricia trees (Okasaki and Gill, Fast mergeable integer maps, 1998). A branch stands at the highest bit in
 * which its slots differ.
 * Tests: tests/unit/test_lower_random.c
 */
#include "ir/slot_map.h"

#include <stddef.h>

static uint32_t bit_of(const struct slot_map *branch) { return branch->slot & -branch->slot; }

/* True if SLOT has the bits that all slots of BRANCH have in common. */
static bool belongs_to(const struct slot_map *branch, uint32_t slot)
{
	return ((slot ^ branch->slot) & ~(2 * bit_of(branch) - 1)) == 0;
}

static const struct slot_map *new_branch(struct arena *arena, uint32_t slot, const struct slot_map *low,
                                         const struct slot_map *high)
{
	struct slot_map *branch = arena_alloc(arena, sizeof *branch);
	if (!branch)
		return NULL;
	branch->slot = slot;
	branch->count = low->count + high->count;
	branch->low = low;
	branch->high = high;
	return branch;
}

static const struct slot_map *new_entry(struct arena *arena, const struct slot_map *entry)
{
	struct slot_map *made = arena_alloc(arena, sizeof *made);
	if (!made)
		return NULL;
	made->slot = entry->slot;
	made->count = 1;
	made->type = entry->type;
	made->class = entry->class;
	made->streamed = entry->streamed;
	made->collected = entry->collected;
	return made;
}

/* Returns a branch of MAP and ENTRY, whose slot does not belong to it. */
static const struct slot_map *join_entry(struct arena *arena, const struct slot_map *map, const struct slot_map *entry)
{
	const struct slot_map *made = new_entry(arena, entry);
	uint32_t bit = map->slot ^ entry->slot;
	if (!made)
		return NULL;
	for (int shift = 1; shift < 32; shift *= 2) /* keep the highest bit alone */
		bit |= bit >> shift;
	bit ^= bit >> 1;
	const bool high = entry->slot & bit;
	return new_branch(arena, (entry->slot & ~(2 * bit - 1)) | bit, high ? map : made, high ? made : map);
}

const struct slot_map *slot_map_put(struct arena *arena, const struct slot_map *map, const struct slot_map *entry)
{
	const uint32_t slot = entry->slot;
	if (!map)
		return new_entry(arena, entry);
	if (map->count == 1) {
		if (map->slot != slot)
			return join_entry(arena, map, entry);
		return map->type == entry->type && map->class == entry->class && map->collected == entry->collected
		           ? map
		           : new_entry(arena, entry);
	}
	if (!belongs_to(map, slot))
		return join_entry(arena, map, entry);
	const bool high = slot & bit_of(map);
	const struct slot_map *old = high ? map->high : map->low, *new = slot_map_put(arena, old, entry);
	if (!new || new == old)
		return new ? map : NULL;
	return new_branch(arena, map->slot, high ? map->low : new, high ? new : map->high);
}

const struct slot_map *slot_map_remove(struct arena *arena, const struct slot_map *map, uint32_t slot)
{
	if (!map || map->count == 1)
		return map && map->slot == slot ? NULL : map;
	const bool high = slot & bit_of(map);
	const struct slot_map *old = high ? map->high : map->low, *other = high ? map->low : map->high;
	const struct slot_map *new = slot_map_remove(arena, old, slot);
	if (new == old)
		return map;
	if (!new)
		return other;
	return new_branch(arena, map->slot, high ? other : new, high ? new : other);
}

bool slot_map_equal(const struct slot_map *a, const struct slot_map *b)
{
	if (a == b)
		return true;
	if (!a || !b || a->count != b->count || a->slot != b->slot)
		return false;
	return a->count == 1 || (slot_map_equal(a->low, b->low) && slot_map_equal(a->high, b->high));
}
