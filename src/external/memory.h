/*
 * Memory that ckptc shares with its commands: one nameless file, which they get as descriptor 3. Its segments never
 * move. It only grows, but the pages of a segment that was given back are free. Any thread may call these functions.
 */
#ifndef EXTERNAL_MEMORY_H
#define EXTERNAL_MEMORY_H

#include <pthread.h>

#include "base/diag.h"

struct memory_segment {
	char *at;       /* NULL: free */
	int64_t offset; /* in the file */
	size_t size;    /* a multiple of the page size */
	size_t ready;   /* its first bytes, which have been used or readied */
};

struct shared_memory {
	int fd; /* -1: there is none */
	int64_t size;
	struct memory_segment *segments;
	size_t count, capacity;
	const struct allocator *allocator;
	pthread_mutex_t lock;
};

/* Returns false, with errno, if the system has no such files. MEMORY needs memory_close then, too. */
bool memory_open(struct shared_memory *memory, const struct allocator *allocator);
/* Returns SIZE bytes, which are 0; NULL if memory is short. */
void *memory_get(struct shared_memory *memory, size_t size);
void memory_put(struct shared_memory *memory, void *at);
/* Returns the offset of the SIZE bytes at AT, or -1 if they are elsewhere. */
int64_t memory_offset(struct shared_memory *memory, const void *at, size_t size);
/*
 * Readies pages for the array that is likely to follow the SIZE bytes at AT, which are in use. These are the SIZE bytes
 * after them, if nothing so far down their segment has been used. So a command that writes there later finds pages, which cost it a
 * third of the time of new ones. Memory that is short is no failure.
 */
void memory_ready_next(struct shared_memory *memory, const void *at, size_t size);
/* Returns the bytes of the file. */
int64_t memory_size(struct shared_memory *memory);
void memory_close(struct shared_memory *memory);

#endif
