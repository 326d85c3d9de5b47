/*
 * Open addressing with linear probing (Knuth, The Art of Computer Programming,
 * volume 3, section 6.4, algorithm L), at most half full. Nothing is taken out, so
 * that the first free entry ends every search. What it grew out of stays in the
 * arena: together less than what it has now.
 */
#include "base/dictionary.h"

#include "base/hash.h"

#include <string.h>

enum { LEAST = 8 };

/* Where NAME is, or else the free entry where it would be. The capacity is not 0. */
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

static bool grow(struct dictionary *dictionary, struct arena *arena)
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
	if (2 * (dictionary->count + 1) > dictionary->capacity && !grow(dictionary, arena))
		return false;
	struct dictionary_entry *entry = entry_of(dictionary, name);
	dictionary->count += !entry->name;
	*entry = (struct dictionary_entry){name, value};
	return true;
}
