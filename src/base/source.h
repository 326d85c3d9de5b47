/*
 * A text with a name, and places in it. Lines and columns count from 1;
 * columns count bytes, as compilers do.
 */
#ifndef BASE_SOURCE_H
#define BASE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

/* A half-open stretch of a source: offsets in bytes, with the place of its begin. */
struct span {
	uint32_t begin, end;
	uint32_t line, column;
};

struct source {
	const char *name; /* as messages show it: a path, or <command-line> */
	const char *text;
	size_t length;
};

/* The line of TEXT that holds byte OFFSET, without its line end: pointer and *LENGTH. */
const char *source_line(const struct source *source, uint32_t offset, size_t *length);

#endif
