/*
 * Memory that all ranks share: an unnamed file of rank 0, which the others open by its place in /proc. A token in it
 * proves that they opened that file: host names may be equal, and processes have the same numbers, where they see
 * different machines. If any rank cannot open it, none uses it.
 * Tests: tests/unit/test_ranks.c
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/paths.h"
#include "ranks/calls.h"
#include "ranks/ranks.h"

enum { TAG_SHARED = RANK_TAGS - 1 };

/* What rank 0 tells of its file, which begins with TOKEN in ARRAY_ALIGN bytes. SIZE 0: it has none. */
struct offer {
	int64_t process, fd, size;
	uint64_t token[2];
};

static char *map_memory(int fd, int64_t size)
{
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

/*
 * Makes a file of SIZE bytes, whose pages it has at once: later there may be none, which would kill. The allocator is
 * asked first, since it fails where the system would take all memory that there is.
 */
static char *make(struct offer *offer, int64_t size, const struct allocator *allocator, int *fd)
{
	void *block = allocator_get(allocator, (size_t)size, 1);
	allocator_put(allocator, block, (size_t)size);
	*fd = block ? io_lifted(memfd_create("ckptc-ranks", MFD_CLOEXEC)) : -1;
	const bool whole = *fd >= 0 && fallocate(*fd, 0, 0, size) == 0;
	char *at = whole && getrandom(offer->token, sizeof offer->token, 0) > 0 ? map_memory(*fd, size) : NULL;
	if (!at)
		return NULL;
	memcpy(at, offer->token, sizeof offer->token);
	offer->process = getpid();
	offer->fd = *fd;
	offer->size = size;
	return at;
}

/* Maps the file of OFFER. NULL: this rank does not see it, or needs another size than SIZE. */
static char *map_offer(const struct offer *offer, int64_t size)
{
	char path[64];
	struct stat status;
	snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)offer->process, (long long)offer->fd);
	if (offer->size != size || stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != size)
		return NULL;
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	char *at = map_memory(fd, size);
	if (fd >= 0)
		close(fd);
	if (!at || !memcmp(at, offer->token, sizeof offer->token))
		return at;
	munmap(at, (size_t)size);
	return NULL;
}

/* Sets *HAVE to false on all ranks if it is false on one. */
static enum status agree(const struct ranks *ranks, bool *have)
{
	bool all = *have;
	for (int i = 1; i < ranks->count && ranks->index == 0; i++) {
		bool other = false;
		TRY(ranks_receive(ranks, i, TAG_SHARED, &other, sizeof other));
		all = all && other;
	}
	if (ranks->index > 0)
		TRY(ranks_send(ranks, 0, TAG_SHARED, &all, sizeof all));
	TRY(ranks_broadcast(ranks, &all, sizeof all));
	*have = all;
	return STATUS_OK;
}

enum status ranks_share(const struct ranks *ranks, int64_t size, const struct allocator *allocator, void **memory)
{
	const int64_t whole = size + ARRAY_ALIGN;
	struct offer offer = {.size = 0};
	char *at = NULL;
	int fd = -1;
	*memory = NULL;
	if (!ranks->together)
		return STATUS_OK;
	if (ranks->index == 0)
		at = make(&offer, whole, allocator, &fd);
	enum status status = ranks_broadcast(ranks, &offer, sizeof offer);
	if (ranks->index > 0 && !status)
		at = map_offer(&offer, whole);
	bool have = at != NULL;
	if (!status)
		status = agree(ranks, &have);
	if (fd >= 0)
		close(fd);
	if (at && (status || !have))
		munmap(at, (size_t)whole);
	else if (at)
		*memory = at + ARRAY_ALIGN;
	return status;
}
