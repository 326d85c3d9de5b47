/* What names mean: pointers by NUL-terminated strings. Lives in an arena, and only grows. */
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

/* What was put for NAME; NULL where nothing was. */
void *dictionary_find(const struct dictionary *dictionary, const char *name);
/*
 * From now on NAME, which must outlive the dictionary, means VALUE, which is not
 * NULL. False where memory is short: then all is as before.
 */
bool dictionary_put(struct dictionary *dictionary, struct arena *arena, const char *name, void *value);

#endif
