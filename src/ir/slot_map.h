/*
 * Persistent maps from slots of a state to their type and class. An update makes a new map, which shares all but some
 * log n nodes with the old one. So the states before and after thousands of steps take no more than their differences.
 *
 * Invariant: maps with the same slots have the same shape, so that two maps are compared by the nodes that they do not
 * share.
 */
#ifndef IR_SLOT_MAP_H
#define IR_SLOT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/type.h"

/* A map of one slot, or a branch of two maps. NULL is the empty map. */
struct slot_map {
	uint32_t slot;  /* in a branch: the bits that all its slots have in common, then a 1, then zeros */
	uint32_t count; /* number of slots */
	union {
		struct {
			const struct type *type; /* NULL in a map of cotangents */
			uint32_t class;          /* the lowest slot of its class */
			bool streamed;           /* as of its value (ir/body.h) */
			bool collected;          /* a loop makes it part by part: it is no part of a kept state */
		};
		struct {
			const struct slot_map *low, *high; /* the slots with a 0 and with a 1 in place of that 1 */
		};
	};
};

static inline uint32_t slot_map_count(const struct slot_map *map) { return map ? map->count : 0; }

/* Returns the entry of SLOT, or NULL. */
static inline const struct slot_map *slot_map_find(const struct slot_map *map, uint32_t slot)
{
	while (map && map->count > 1)
		map = slot & map->slot & -map->slot ? map->high : map->low;
	return map && map->slot == slot ? map : NULL;
}

/* Returns the number of slots of MAP below SLOT; UINT32_MAX if SLOT is not in it. */
static inline uint32_t slot_map_rank(const struct slot_map *map, uint32_t slot)
{
	uint32_t rank = 0;
	while (map && map->count > 1) {
		const bool high = slot & map->slot & -map->slot;
		rank += high ? map->low->count : 0;
		map = high ? map->high : map->low;
	}
	return map && map->slot == slot ? rank : UINT32_MAX;
}

/* Returns MAP with ENTRY, whose slot may be in it already; only its slot, type, class, streamed and collected are read. Sets arena->failed. */
const struct slot_map *slot_map_put(struct arena *arena, const struct slot_map *map, const struct slot_map *entry);
/* Returns MAP without SLOT. Sets arena->failed if memory is short. */
const struct slot_map *slot_map_remove(struct arena *arena, const struct slot_map *map, uint32_t slot);
/* True if A and B have the same slots. */
bool slot_map_equal(const struct slot_map *a, const struct slot_map *b);

/* A walk over the entries of a map, by ascending slots. */
struct slot_walk {
	const struct slot_map *left[33]; /* the maps that are left, the next on top */
	int count;
};

static inline struct slot_walk slot_walk_begin(const struct slot_map *map)
{
	return (struct slot_walk){.left = {map}, .count = map != NULL};
}
/* Returns the next entry, or NULL after the last. */
static inline const struct slot_map *slot_walk_next(struct slot_walk *walk)
{
	if (walk->count == 0)
		return NULL;
	const struct slot_map *map = walk->left[--walk->count];
	for (; map->count > 1; map = map->low)
		walk->left[walk->count++] = map->high;
	return map;
}

#endif
