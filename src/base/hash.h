/* The one hash of bytes, which tells changes and names apart and does not resist an attacker; and dictionaries. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/arena.h"

#include <stdint.h>

enum { HASH_START = 0 };
/* 2^64 over the golden ratio, odd. */
#define HASH_GOLDEN UINT64_C(0x9e3779b97f4a7c15)
/*
 * Returns the hash of SIZE bytes that follow those of HASH, a former result or HASH_START.
 * Another division of the bytes among calls gives another hash. Words are read in the
 * processor's byte order, so hashes are compared only on one machine.
 */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size);

/* A hash table from names to pointers, which lives in an arena and only grows. */
struct dictionary_entry {
	const char *name; /* NULL: free */
	void *value;
};

/* All zeros: empty. */
struct dictionary {
	struct dictionary_entry *entries;
	size_t count, capacity; /* capacity: 0 or a power of two, more than count */
};

/* Returns the value of NAME, or NULL. */
void *dictionary_find(const struct dictionary *dictionary, const char *name);
/*
 * Sets the value of NAME, which must outlive the dictionary, to VALUE, which is not
 * NULL. Returns false and changes nothing where memory is short.
 */
bool dictionary_put(struct dictionary *dictionary, struct arena *arena, const char *name, void *value);

#endif
