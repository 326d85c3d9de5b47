/* A hash table from names to pointers. It lives in an arena, and only grows. */
#ifndef BASE_DICTIONARY_H
#define BASE_DICTIONARY_H

#include "base/arena.h"

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
