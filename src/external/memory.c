/*
 * Segments of a memfd. A free one serves a request of its size or less; else the file grows.
 *
 * A command that shrank the file would end ckptc, which gets SIGBUS where it reads beyond the end. So the file is sealed:
 * it cannot shrink, and no command can add a seal, such as one that forbids to grow.
 * Tests: tests/unit/test_external.c
 */
#include "external/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"

bool memory_open(struct shared_memory *memory, const struct allocator *allocator)
{
	*memory =
		(struct shared_memory){.fd = memfd_create("ckptc", MFD_CLOEXEC | MFD_ALLOW_SEALING), .allocator = allocator};
	pthread_mutex_init(&memory->lock, NULL);
	if (memory->fd < 0)
		return false;
	/* A child's standard descriptors must not overwrite it. */
	const int lifted = memory->fd > 3 ? memory->fd : fcntl(memory->fd, F_DUPFD_CLOEXEC, 4);
	if (lifted != memory->fd)
		close(memory->fd);
	memory->fd = lifted;
	if (lifted >= 0 && fcntl(lifted, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
		close(lifted);
		memory->fd = -1;
	}
	return memory->fd >= 0;
}

/* Grows the file to SIZE bytes. A command may have done so, as nothing forbids that. False, with errno, on failure. */
static bool grow_file(const struct shared_memory *memory, int64_t size)
{
	struct stat st;
	return fstat(memory->fd, &st) == 0 && (st.st_size >= size || ftruncate(memory->fd, size) == 0);
}

/* Returns the smallest free segment of SIZE bytes, or a new one at the end of the file; NULL if memory is short. */
static struct memory_segment *find_segment(struct shared_memory *memory, size_t size)
{
	struct memory_segment *best = NULL;
	for (size_t i = 0; i < memory->count; i++) {
		struct memory_segment *segment = &memory->segments[i];
		if (!segment->at && segment->size >= size && (!best || segment->size < best->size))
			best = segment;
	}
	if (best)
		return best;
	if (!allocator_grow(memory->allocator, (void **)&memory->segments, &memory->capacity, memory->count + 1,
	                    sizeof *memory->segments) ||
	    !grow_file(memory, memory->size + (int64_t)size))
		return NULL;
	best = &memory->segments[memory->count++];
	*best = (struct memory_segment){.offset = memory->size, .size = size};
	memory->size += (int64_t)size;
	return best;
}

void *memory_get(struct shared_memory *memory, size_t size)
{
	if (memory->fd < 0 || size > (size_t)INT64_MAX / 4)
		return NULL;
	size = (size_t)round_up((int64_t)size + (size == 0), sysconf(_SC_PAGESIZE));
	pthread_mutex_lock(&memory->lock);
	struct memory_segment *segment = find_segment(memory, size);
	void *at = segment ? mmap(NULL, segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, segment->offset)
	                   : MAP_FAILED;
	if (at != MAP_FAILED) {
		segment->at = at;
		segment->ready = 0;
	}
	pthread_mutex_unlock(&memory->lock);
	return at == MAP_FAILED ? NULL : at;
}

void memory_put(struct shared_memory *memory, void *at)
{
	pthread_mutex_lock(&memory->lock);
	for (size_t i = 0; at && i < memory->count; i++) {
		struct memory_segment *segment = &memory->segments[i];
		if (segment->at != at)
			continue;
		munmap(at, segment->size);
		(void)fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, segment->offset, (off_t)segment->size);
		segment->at = NULL;
	}
	pthread_mutex_unlock(&memory->lock);
}

/* Returns the segment that has the SIZE bytes at AT, or NULL. */
static struct memory_segment *segment_of(struct shared_memory *memory, const void *at, size_t size)
{
	for (size_t i = 0; i < memory->count; i++) {
		struct memory_segment *segment = &memory->segments[i];
		const size_t from = (size_t)((uintptr_t)at - (uintptr_t)segment->at);
		if (segment->at && from <= segment->size && size <= segment->size - from)
			return segment;
	}
	return NULL;
}

int64_t memory_offset(struct shared_memory *memory, const void *at, size_t size)
{
	pthread_mutex_lock(&memory->lock);
	const struct memory_segment *segment = segment_of(memory, at, size);
	const int64_t offset = segment ? segment->offset + ((const char *)at - segment->at) : -1;
	pthread_mutex_unlock(&memory->lock);
	return offset;
}

void memory_ready_next(struct shared_memory *memory, const void *at, size_t size)
{
	int64_t from = 0, length = 0;
	pthread_mutex_lock(&memory->lock);
	struct memory_segment *segment = segment_of(memory, at, size);
	const size_t end = segment ? (size_t)((const char *)at - segment->at) + size : 0;
	if (segment && segment->ready < end + size && end < segment->size) {
		const size_t begin = segment->ready > end ? segment->ready : end;
		segment->ready = segment->size - end < size ? segment->size : end + size;
		from = segment->offset + (int64_t)begin;
		length = (int64_t)(segment->ready - begin);
	}
	pthread_mutex_unlock(&memory->lock);
	if (length > 0)
		(void)fallocate(memory->fd, FALLOC_FL_KEEP_SIZE, from, length);
}

int64_t memory_size(struct shared_memory *memory)
{
	pthread_mutex_lock(&memory->lock);
	const int64_t size = memory->size;
	pthread_mutex_unlock(&memory->lock);
	return size;
}

void memory_close(struct shared_memory *memory)
{
	for (size_t i = 0; i < memory->count; i++)
		if (memory->segments[i].at)
			munmap(memory->segments[i].at, memory->segments[i].size);
	allocator_put(memory->allocator, memory->segments, memory->capacity * sizeof *memory->segments);
	if (memory->fd >= 0)
		close(memory->fd);
	pthread_mutex_destroy(&memory->lock);
}
