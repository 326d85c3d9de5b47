/*
 * A schedule reuses its slots, so the file reuses their regions: a state overwrites
 * the last state of its slot if it fits there.
 *
 * One staging buffer serves writes and reads. It belongs to the worker thread while
 * that has a task, else to the caller. A read copies a state that is still staged
 * from the buffer.
 */
#include "exec/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/stream.h"

/* A smaller state is written or read at once: waking the worker thread would take longer. */
enum { NOT_STAGED = -1, HANDED_OVER = 64 << 10 };
static const char write_file[] = "write the spill file";
/* 2^64 over the golden ratio, odd. */
static const uint64_t golden = 0x9e3779b97f4a7c15u;

static enum status failed(const struct spill_failure *failure, struct diags *diags)
{
	return diag_file(diags, STATUS_IO, failure->path, -1, "cannot %s: %s", failure->what, strerror(failure->error));
}

/*
 * Four lanes of exclusive or and multiply over 64-bit words. Any one flipped bit changes
 * the sum. hash_bytes also guards against pairs of flipped bits; the checksum omits that
 * step and takes three quarters of its time.
 */
static uint64_t checksum(const void *from, size_t size)
{
	uint64_t lanes[4] = {1, 2, 3, 4};
	const unsigned char *bytes = from;
	size_t i = 0;
	for (; i + 32 <= size; i += 32) {
		uint64_t words[4];
		memcpy(words, bytes + i, sizeof words);
		for (int k = 0; k < 4; k++)
			lanes[k] = (lanes[k] ^ words[k]) * golden;
	}
	for (; i < size; i++)
		lanes[0] = (lanes[0] ^ bytes[i]) * golden;
	uint64_t sum = size;
	for (int k = 0; k < 4; k++)
		sum = (sum ^ (lanes[k] >> 29) ^ lanes[k]) * golden;
	return sum;
}

static uint64_t checksum_pieces(const struct spill_piece *pieces, size_t count)
{
	uint64_t sum = count;
	for (size_t i = 0; i < count; i++)
		sum = (sum ^ checksum(pieces[i].data, pieces[i].size)) * golden;
	return sum;
}

static size_t total_size(const struct spill_piece *pieces, size_t count)
{
	size_t size = 0;
	for (size_t i = 0; i < count; i++)
		size += pieces[i].size;
	return size;
}

/* The file. The functions return 0, an errno or SHORT_FILE. */

static int write_bytes(int fd, const char *from, size_t size, int64_t offset)
{
	return io_write_at(fd, offset, from, size) ? 0 : errno;
}

enum { SHORT_FILE = -1 };

static int read_bytes(int fd, char *to, size_t size, int64_t offset)
{
	size_t got;
	if (!io_read_at(fd, offset, to, size, &got))
		return errno;
	return got < size ? SHORT_FILE : 0;
}

static struct spill_failure report_written(const struct spill *spill, int64_t slot, const struct spill_region *region)
{
	return spill->written ? spill->written(spill->written_context, slot, region) : (struct spill_failure){.error = 0};
}

/* The worker. */

static struct spill_failure write_staged(const struct spill *spill)
{
	const struct spill_region *r = &spill->staged_region;
	const int error = write_bytes(spill->fd, spill->staging, r->size, r->offset);
	return error ? (struct spill_failure){spill->name, write_file, error} : report_written(spill, spill->staged, r);
}

static void *worker_main(void *context)
{
	struct spill *spill = context;
	pthread_mutex_lock(&spill->lock);
	while (spill->task != SPILL_END) {
		if (spill->task == SPILL_IDLE) {
			pthread_cond_wait(&spill->changed, &spill->lock);
			continue;
		}
		const enum spill_task task = spill->task;
		const struct spill_region *r = &spill->staged_region;
		struct spill_failure failure = {.error = 0};
		pthread_mutex_unlock(&spill->lock);
		if (task == SPILL_WRITE)
			failure = write_staged(spill);
		else if (read_bytes(spill->fd, spill->staging, r->size, r->offset))
			spill->staged = NOT_STAGED; /* spill_read then reads the file itself and reports the error */
		pthread_mutex_lock(&spill->lock);
		spill->failure = failure;
		if (spill->task != SPILL_END)
			spill->task = SPILL_IDLE;
		pthread_cond_broadcast(&spill->changed);
	}
	pthread_mutex_unlock(&spill->lock);
	return NULL;
}

/* Waits for the worker thread, and reports its failure. */
static enum status settle(struct spill *spill, struct diags *diags)
{
	pthread_mutex_lock(&spill->lock);
	while (spill->task != SPILL_IDLE)
		pthread_cond_wait(&spill->changed, &spill->lock);
	const struct spill_failure failure = spill->failure;
	pthread_mutex_unlock(&spill->lock);
	return failure.error ? failed(&failure, diags) : STATUS_OK;
}

static void hand_over(struct spill *spill, enum spill_task task)
{
	pthread_mutex_lock(&spill->lock);
	spill->task = task;
	pthread_cond_broadcast(&spill->changed);
	pthread_mutex_unlock(&spill->lock);
}

/* Opening and closing. */

enum status spill_check_room(const char *directory, int64_t wanted, struct diags *diags)
{
	struct statvfs fs;
	struct stat file;
	int error = stat(directory, &file) ? errno : !S_ISDIR(file.st_mode) ? ENOTDIR : statvfs(directory, &fs) ? errno : 0;
	if (error)
		return diag_file(diags, STATUS_IO, directory, -1, "cannot spill here: %s", strerror(error));
	double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
	if (free_bytes < (double)wanted)
		return diag_file(diags, STATUS_IO, directory, -1, "%lld bytes are to be spilled and %.0f are free",
		                 (long long)wanted, free_bytes);
	return STATUS_OK;
}

enum status spill_open(struct spill *spill, size_t staging, const struct allocator *allocator, struct diags *diags)
{
	*spill = (struct spill){.fd = -1, .staged = NOT_STAGED, .staging_size = staging, .allocator = allocator};
	spill->staging = allocator_get(allocator, staging + 1, 1); /* + 1: a state may have no bytes */
	TRY_ALLOC(spill->staging, diags);
	pthread_mutex_init(&spill->lock, NULL);
	pthread_cond_init(&spill->changed, NULL);
	spill->started = pthread_create(&spill->worker, NULL, worker_main, spill) == 0;
	if (spill->started)
		return STATUS_OK;
	pthread_cond_destroy(&spill->changed);
	pthread_mutex_destroy(&spill->lock);
	allocator_put(allocator, spill->staging, staging + 1);
	spill->staging = NULL;
	return diag_file(diags, STATUS_LIMIT, NULL, -1, "cannot start the worker that writes states to disk");
}

enum status spill_create(struct spill *spill, const char *directory, struct diags *diags)
{
	spill->name = directory;
	spill->fd = io_make_nameless(directory);
	const struct spill_failure failure = {directory, "create the spill file", errno};
	return spill->fd >= 0 ? STATUS_OK : failed(&failure, diags);
}

void spill_use(struct spill *spill, int fd, const char *name)
{
	spill->fd = fd;
	spill->name = name;
}

void spill_close(struct spill *spill)
{
	if (spill->started) {
		hand_over(spill, SPILL_END);
		pthread_join(spill->worker, NULL);
		pthread_cond_destroy(&spill->changed);
		pthread_mutex_destroy(&spill->lock);
	}
	if (spill->fd >= 0)
		close(spill->fd);
	spill->fd = -1;
	spill->started = false;
	allocator_put(spill->allocator, spill->staging, spill->staging_size + 1);
	allocator_put(spill->allocator, spill->regions, spill->capacity * sizeof *spill->regions);
	spill->staging = NULL;
	spill->regions = NULL;
	spill->capacity = 0;
}

/* Slots. */

static struct spill_region *region_of(struct spill *spill, int64_t slot)
{
	size_t at = (size_t)slot;
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

enum status spill_restore(struct spill *spill, int64_t slot, const struct spill_region *region, struct diags *diags)
{
	struct spill_region *r = region_of(spill, slot);
	TRY_ALLOC(r, diags);
	*r = *region;
	if (r->offset + (int64_t)r->room > spill->end)
		spill->end = r->offset + (int64_t)r->room;
	return STATUS_OK;
}

/* Returns a region of SLOT that holds the pieces, or NULL when out of memory. */
static struct spill_region *place(struct spill *spill, int64_t slot, const struct spill_piece *pieces, size_t count)
{
	struct spill_region *r = region_of(spill, slot);
	if (!r)
		return NULL;
	size_t size = total_size(pieces, count);
	if (r->room < size) {
		r->offset = spill->end;
		r->room = size;
		spill->end += (int64_t)size;
	}
	r->size = size;
	r->checksum = checksum_pieces(pieces, count);
	return r;
}

enum status spill_write(struct spill *spill, int64_t slot, const struct spill_piece *pieces, size_t count,
                        struct diags *diags)
{
	TRY(settle(spill, diags));
	const size_t size = total_size(pieces, count);
	if (size < HANDED_OVER || size > spill->staging_size)
		return spill_write_at_once(spill, slot, pieces, count, diags);
	const struct spill_region *r = place(spill, slot, pieces, count);
	TRY_ALLOC(r, diags);
	size_t done = 0;
	for (size_t i = 0; i < count; i++) {
		memcpy(spill->staging + done, pieces[i].data, pieces[i].size);
		done += pieces[i].size;
	}
	spill->staged = slot;
	spill->staged_region = *r;
	hand_over(spill, SPILL_WRITE);
	return STATUS_OK;
}

enum status spill_write_at_once(struct spill *spill, int64_t slot, const struct spill_piece *pieces, size_t count,
                                struct diags *diags)
{
	TRY(settle(spill, diags));
	const struct spill_region *r = place(spill, slot, pieces, count);
	TRY_ALLOC(r, diags);
	if (spill->staged == slot)
		spill->staged = NOT_STAGED;
	int64_t at = r->offset;
	for (size_t i = 0; i < count; i++) {
		const int error = write_bytes(spill->fd, pieces[i].data, pieces[i].size, at);
		if (error)
			return failed(&(struct spill_failure){spill->name, write_file, error}, diags);
		at += (int64_t)pieces[i].size;
	}
	const struct spill_failure failure = report_written(spill, slot, r);
	return failure.error ? failed(&failure, diags) : STATUS_OK;
}

static enum status read_piece(struct spill *spill, const struct spill_piece *piece, bool staged, int64_t at,
                              const struct spill_region *r, struct diags *diags)
{
	if (staged) {
		memcpy(piece->data, spill->staging + at, piece->size);
		return STATUS_OK;
	}
	int error = read_bytes(spill->fd, piece->data, piece->size, r->offset + at);
	if (error == SHORT_FILE)
		return diag_file(diags, STATUS_IO, spill->name, r->offset + at, "the spill file is short");
	return error ? failed(&(struct spill_failure){spill->name, "read the spill file", error}, diags) : STATUS_OK;
}

enum status spill_read(struct spill *spill, int64_t slot, const struct spill_piece *pieces, size_t count,
                       struct diags *diags)
{
	enum status status = settle(spill, diags);
	if (status)
		return status;
	const struct spill_region *r = region_of(spill, slot);
	TRY_ALLOC(r, diags);
	bool right = r->size == total_size(pieces, count);
	int64_t at = 0;
	for (size_t i = 0; i < count && right && !status; i++) {
		status = read_piece(spill, &pieces[i], spill->staged == slot, at, r, diags);
		at += (int64_t)pieces[i].size;
	}
	if (status)
		return status;
	if (!right || checksum_pieces(pieces, count) != r->checksum)
		return diag_file(diags, STATUS_IO, spill->name, r->offset, "the spill file is not as it was written");
	return STATUS_OK;
}

void spill_read_ahead(struct spill *spill, int64_t slot)
{
	const struct spill_region *r = region_of(spill, slot);
	if (!r || spill->staged == slot || r->size < HANDED_OVER || r->size > spill->staging_size)
		return;
	spill->staged = slot;
	spill->staged_region = *r;
	hand_over(spill, SPILL_READ);
}
