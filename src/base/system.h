/* Numbers from the kernel's files, and the memory limits of control groups. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <stdint.h>

/* Returns the number after KEY at the start of a line of the file PATH, the first number if KEY is ""; else -1. */
int64_t system_read_number(const char *path, const char *key);

/* The limit of a control group in bytes, and the bytes left of it; INT64_MAX: no limit. */
struct group_memory {
	int64_t most, left;
};

/*
 * Returns the least values over the process's groups of version 1 and 2 and their parents. ROOT holds proc and sys;
 * it is "" except in tests.
 */
struct group_memory system_group_memory(const char *root);

#endif
