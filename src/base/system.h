/* What the kernel says in its files: single numbers, and the memory of control groups. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <stdint.h>

/* The number behind KEY, which begins a line of the file PATH, KEY "" for the first; -1 where there is none. */
int64_t system_read_number(const char *path, const char *key);

/* Bytes that control groups allow to all that is in them, and that are left of these; INT64_MAX: any number. */
struct group_memory {
	int64_t most, left;
};

/*
 * The least of the groups that the process is in and those above them, of version 1 and 2. ROOT is the folder that
 * has proc and sys: "" but for tests.
 */
struct group_memory system_group_memory(const char *root);

#endif
