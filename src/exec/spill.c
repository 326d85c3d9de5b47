/*
 * Slots of a schedule are used again and again, so a place in the file is too:
 * a state that fits where the last one of its slot lay goes there.
 */
#include "exec/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static enum status failed(struct spill *spill, struct diags *diags, const char *what)
{
	return diag_file(diags, STATUS_IO, spill->directory, -1, "cannot %s the spill file: %s", what, strerror(errno));
}

/* Four lanes of multiply and add over 64-bit words: finds any flipped bit, at the speed of memory. */
static uint64_t checksum(const void *from, size_t size)
{
	static const uint64_t prime = 0x9e3779b97f4a7c15u;
	uint64_t lanes[4] = {1, 2, 3, 4};
	const unsigned char *bytes = from;
	size_t i = 0;
	for (; i + 32 <= size; i += 32) {
		uint64_t words[4];
		memcpy(words, bytes + i, sizeof words);
		for (int k = 0; k < 4; k++)
			lanes[k] = (lanes[k] ^ words[k]) * prime;
	}
	for (; i < size; i++)
		lanes[0] = (lanes[0] ^ bytes[i]) * prime;
	uint64_t sum = size;
	for (int k = 0; k < 4; k++)
		sum = (sum ^ (lanes[k] >> 29) ^ lanes[k]) * prime;
	return sum;
}

enum status spill_open(struct spill *spill, const char *directory, int64_t wanted, const struct allocator *allocator,
                       struct diags *diags)
{
	*spill = (struct spill){.fd = -1, .directory = directory, .allocator = allocator};
	struct statvfs fs;
	if (statvfs(directory, &fs) != 0)
		return diag_file(diags, STATUS_IO, directory, -1, "cannot spill here: %s", strerror(errno));
	if ((double)fs.f_bavail * (double)fs.f_frsize < (double)wanted)
		return diag_file(diags, STATUS_IO, directory, -1, "%lld bytes are to be spilled and %.0f are free",
		                 (long long)wanted, (double)fs.f_bavail * (double)fs.f_frsize);
	spill->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (spill->fd >= 0)
		return STATUS_OK;
	/* File systems without O_TMPFILE. */
	size_t length = strlen(directory);
	static const char name[] = "/ckptc-spill-XXXXXX";
	char *path = allocator_get(allocator, length + sizeof name, 1);
	if (!path)
		return diag_memory(diags);
	memcpy(path, directory, length);
	memcpy(path + length, name, sizeof name);
	spill->fd = mkostemp(path, O_CLOEXEC);
	if (spill->fd >= 0)
		unlink(path);
	allocator_put(allocator, path, length + sizeof name);
	return spill->fd >= 0 ? STATUS_OK : failed(spill, diags, "create");
}

static struct spill_region *region(struct spill *spill, int64_t slot, size_t index)
{
	size_t at = (size_t)slot * SPILL_ARRAYS + index;
	if (index >= SPILL_ARRAYS)
		return NULL;
	if (at >= spill->capacity) {
		size_t capacity = spill->capacity ? spill->capacity : 64;
		while (capacity <= at)
			capacity *= 2;
		struct spill_region *grown = spill->allocator->resize(
			spill->allocator->context, spill->regions, spill->capacity * sizeof *grown, capacity * sizeof *grown);
		if (!grown)
			return NULL;
		memset(grown + spill->capacity, 0, (capacity - spill->capacity) * sizeof *grown);
		spill->regions = grown;
		spill->capacity = capacity;
	}
	return &spill->regions[at];
}

enum status spill_write(struct spill *spill, int64_t slot, size_t index, const void *from, size_t size,
                        struct diags *diags)
{
	struct spill_region *r = region(spill, slot, index);
	if (!r)
		return diag_memory(diags);
	if (r->room < size) {
		r->offset = spill->end;
		r->room = size;
		spill->end += (int64_t)size;
	}
	r->size = size;
	r->checksum = checksum(from, size);
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(spill->fd, (const char *)from + done, size - done, r->offset + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n == 0)
				errno = ENOSPC;
			return failed(spill, diags, "write");
		}
		done += (size_t)n;
	}
	return STATUS_OK;
}

enum status spill_read(struct spill *spill, int64_t slot, size_t index, void *to, size_t size, struct diags *diags)
{
	struct spill_region *r = region(spill, slot, index);
	if (!r)
		return diag_memory(diags);
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(spill->fd, (char *)to + done, size - done, r->offset + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(spill, diags, "read");
		if (n == 0)
			return diag_file(diags, STATUS_IO, spill->directory, r->offset + (int64_t)done, "the spill file is short");
		done += (size_t)n;
	}
	if (size != r->size || checksum(to, size) != r->checksum)
		return diag_file(diags, STATUS_IO, spill->directory, r->offset, "the spill file is not as it was written");
	return STATUS_OK;
}

void spill_close(struct spill *spill)
{
	if (spill->fd >= 0)
		close(spill->fd);
	spill->fd = -1;
	allocator_put(spill->allocator, spill->regions, spill->capacity * sizeof *spill->regions);
	spill->regions = NULL;
	spill->capacity = 0;
}
