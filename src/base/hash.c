/*
 * Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4) in four lanes of 64-bit
 * words, so that four multiplications run at once. It is not a published function. Each operation on a lane is
 * invertible: the exclusive or with a word, the product with an odd number, and the exclusive or with the lane's own
 * high bits. The last brings high bits down, while a product only moves bits up. So two arrays of one size never have
 * the same hash if they differ only in one word of the 32-byte blocks, or only in one byte after the last block.
 * Tests: tests/unit/test_base.c
 */
#include "base/hash.h"

#include <string.h>

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *from = bytes;
	uint64_t lanes[4] = {hash ^ 1, hash ^ 2, hash ^ 3, hash ^ 4};
	size_t i = 0;
	for (; i + 32 <= size; i += 32)
		for (int k = 0; k < 4; k++) {
			uint64_t word;
			memcpy(&word, from + i + 8 * (size_t)k, sizeof word);
			lanes[k] = (lanes[k] ^ word) * HASH_GOLDEN;
			lanes[k] ^= lanes[k] >> 32;
		}
	for (; i < size; i++)
		lanes[0] = (lanes[0] ^ from[i]) * HASH_GOLDEN;
	uint64_t sum = hash ^ size;
	for (int k = 0; k < 4; k++) {
		sum = (sum ^ lanes[k]) * HASH_GOLDEN;
		sum ^= sum >> 29;
	}
	return sum;
}

/*
 * The dictionary: open addressing with linear probing (Knuth, The Art of Computer Programming, volume 3, section 6.4,
 * algorithm L), at most half full. No entry is removed, so the first free entry ends every search. Former tables stay
 * in the arena; together they are smaller than the current table.
 */

enum { LEAST = 8 };

/* Returns the entry of NAME, or the free entry for it. The dictionary's capacity must not be 0. */
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

/* Sets of bytes: tables as those of dictionaries. */

struct byte_string {
	const void *bytes; /* NULL: free */
	size_t size, number;
	uint64_t hash;
};

/* Returns the entry of the SIZE bytes at BYTES, or the free entry for them. The set's capacity must not be 0. */
static struct byte_string *string_of(const struct byte_set *set, const void *bytes, size_t size, uint64_t hash)
{
	const size_t mask = set->capacity - 1;
	size_t at = (size_t)hash & mask;
	for (const struct byte_string *s = &set->strings[at]; s->bytes; s = &set->strings[at]) {
		if (s->hash == hash && s->size == size && memcmp(s->bytes, bytes, size) == 0)
			break;
		at = (at + 1) & mask;
	}
	return &set->strings[at];
}

static bool grow_strings(struct byte_set *set)
{
	struct byte_set wider = *set;
	wider.capacity = set->capacity ? 2 * set->capacity : LEAST;
	wider.strings = arena_array(set->scratch, wider.capacity, sizeof *wider.strings);
	if (!wider.strings)
		return false;
	for (size_t i = 0; i < set->capacity; i++)
		if (set->strings[i].bytes)
			*string_of(&wider, set->strings[i].bytes, set->strings[i].size, set->strings[i].hash) = set->strings[i];
	*set = wider;
	return true;
}

const void *byte_set_keep(struct byte_set *set, const void *bytes, size_t size, size_t *number)
{
	if (2 * (set->count + 1) > set->capacity && !grow_strings(set))
		return NULL;
	const uint64_t hash = size ? hash_bytes(HASH_START, bytes, size) : HASH_START;
	struct byte_string *string = string_of(set, size ? bytes : "", size, hash);
	if (!string->bytes) {
		void *copy = arena_alloc(set->kept, size);
		if (!copy)
			return NULL;
		if (size)
			memcpy(copy, bytes, size);
		*string = (struct byte_string){copy, size, set->count++, hash};
	}
	if (number)
		*number = string->number;
	return string->bytes;
}
