/*
 * Open addressing with linear probing (Knuth, The Art of Computer Programming,
 * volume 3, section 6.4, algorithm L), at most half full. No entry is removed, so
 * the first free entry ends every search. Outgrown tables stay in the arena; together
 * they are smaller than the current one.
 */
#include "base/dictionary.h"

#include "base/hash.h"

#include <string.h>

enum { LEAST = 8 };

/* Returns the entry of NAME, or the free one where it belongs. The capacity is not 0. */
static struct dictionary_entry *entry_of(const struct dictionary *dictionary, const char *name)
{
	const size_t mask = dictionary->capacity - 1;
	size_t at = (size_t)hash_bytes(HASH_START, name, strlen(name)) & mask;
	while (dictionary->entries[at].name && strcmp(dictionary->entries[at].name, name) != 0)
		at = (at + 1) & mask;
	return &dictionary->entries[at];
}

void *dictionary_find(const struct dictionary *dictionary, const char *name)
{
	return dictionary->capacity ? entry_of(dictionary, name)->value : NULL;
}

static bool grow_entries(struct dictionary *dictionary, struct arena *arena)
{
	struct dictionary wider = {.count = dictionary->count,
	                           .capacity = dictionary->capacity ? 2 * dictionary->capacity : LEAST};
	wider.entries = arena_array(arena, wider.capacity, sizeof *wider.entries);
	if (!wider.entries)
		return false;
	for (size_t i = 0; i < dictionary->capacity; i++)
		if (dictionary->entries[i].name)
			*entry_of(&wider, dictionary->entries[i].name) = dictionary->entries[i];
	*dictionary = wider;
	return true;
}

bool dictionary_put(struct dictionary *dictionary, struct arena *arena, const char *name, void *value)
{
	if (2 * (dictionary->count + 1) > dictionary->capacity && !grow_entries(dictionary, arena))
		return false;
	struct dictionary_entry *entry = entry_of(dictionary, name);
	dictionary->count += !entry->name;
	*entry = (struct dictionary_entry){name, value};
	return true;
}
