/* The one hash of bytes, for comparing contents and names, not against attackers; dictionaries; sets of bytes. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/arena.h"

#include <stdint.h>

enum { HASH_START = 0 };
/* 2^64 divided by the golden ratio, rounded to an odd number. */
#define HASH_GOLDEN UINT64_C(0x9e3779b97f4a7c15)
/*
 * Continues HASH, a former result or HASH_START, with SIZE bytes, and returns the new hash. The same bytes in calls of
 * other sizes give another hash. Words are read in the processor's byte order, on which the hash depends.
 */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size);

struct dictionary_entry {
	const char *name; /* NULL: free */
	void *value;
};

/* A hash table from names to pointers, which lives in an arena and only grows. A dictionary of zeros is empty. */
struct dictionary {
	struct dictionary_entry *entries;
	size_t count, capacity; /* capacity: 0, or a power of two of at least 2 * count */
};

/* Returns the value of NAME, or NULL. */
void *dictionary_find(const struct dictionary *dictionary, const char *name);
/*
 * Sets the value of NAME, which may have one, to VALUE, which is not NULL. NAME is not copied and must outlive the
 * dictionary. Returns false and changes nothing if memory is short.
 */
bool dictionary_put(struct dictionary *dictionary, struct arena *arena, const char *name, void *value);

/*
 * A set of byte strings: equal ones are kept once, at one address. It only grows. The caller sets the two arenas: the
 * strings lie in KEPT, aligned as blocks of an arena, and the table in SCRATCH.
 */
struct byte_set {
	struct arena *kept, *scratch;
	struct byte_string *strings;
	size_t count, capacity; /* as of a dictionary */
};

/*
 * Returns the set's copy of the SIZE bytes at BYTES. Unless NUMBER is NULL, sets *NUMBER to the number of strings that
 * were kept before that copy. Returns NULL and changes nothing if memory is short.
 */
const void *byte_set_keep(struct byte_set *set, const void *bytes, size_t size, size_t *number);

#endif
