/* Files of tests: those that NumPy made (tests/golden/npy), and those that a test makes. */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include <stdio.h>
#include <stdlib.h>

#include "asserts.h"

/* The path of a golden file, until the next call. */
static inline const char *golden(const char *name, const char *suffix)
{
	static char path[500];
	const char *top = getenv("TOP");
	snprintf(path, sizeof path, "%s/tests/golden/npy/%s%s", top ? top : ".", name, suffix);
	return path;
}

/* Reads up to SIZE bytes of the file NAME; returns their number. */
static inline size_t file_read(const char *name, void *to, size_t size)
{
	FILE *f = fopen(name, "rb");
	ck_assert_ptr_nonnull(f);
	size_t n = fread(to, 1, size, f);
	fclose(f);
	return n;
}

static inline void file_write(const char *name, const void *from, size_t size)
{
	FILE *f = fopen(name, "wb");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(from, 1, size, f), size);
	fclose(f);
}

#endif
