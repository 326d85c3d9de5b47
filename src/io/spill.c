/*
 * A schedule reuses its slots, so the file reuses their regions: a state overwrites the last state of its slot if it
 * fits there. A read of a state that is still staged copies it from the staging buffer.
 * Tests: tests/unit/test_spill.c
 */
#include "io/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/hash.h"
#include "io/stream.h"

/* HANDED_OVER: from so many bytes on the thread writes or reads a state. For fewer, waking it would take longer. */
enum { NOT_STAGED = -1, HANDED_OVER = 64 << 10 };

static enum status fail_spill(const struct spill_failure *failure, struct diags *diags)
{
	return diag_file(diags, STATUS_IO, failure->path, -1, "cannot %s: %s", failure->what, strerror(failure->error));
}

/*
 * Four lanes of exclusive or and multiply over 64-bit words. Any one flipped bit changes the sum. hash_bytes also
 * guards against pairs of flipped bits; the checksum omits that step and takes three quarters of its time.
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
			lanes[k] = (lanes[k] ^ words[k]) * HASH_GOLDEN;
	}
	for (; i < size; i++)
		lanes[0] = (lanes[0] ^ bytes[i]) * HASH_GOLDEN;
	uint64_t sum = size;
	for (int k = 0; k < 4; k++)
		sum = (sum ^ (lanes[k] >> 29) ^ lanes[k]) * HASH_GOLDEN;
	return sum;
}

static uint64_t checksum_pieces(const struct spill_pieces *pieces)
{
	uint64_t sum = pieces->count;
	for (size_t i = 0; i < pieces->count; i++)
		sum = (sum ^ checksum(pieces->items[i].data, pieces->items[i].size)) * HASH_GOLDEN;
	return sum;
}

enum status spill_pieces_add(struct spill_pieces *pieces, struct arena *arena, void *data, size_t size,
                             struct diags *diags)
{
	struct spill_piece *piece =
		arena_append(arena, &pieces->items, &pieces->count, &pieces->capacity, sizeof *pieces->items);
	TRY_ALLOC(piece, diags);
	*piece = (struct spill_piece){data, size};
	return STATUS_OK;
}

size_t spill_pieces_bytes(const struct spill_pieces *pieces)
{
	size_t size = 0;
	for (size_t i = 0; i < pieces->count; i++)
		size += pieces->items[i].size;
	return size;
}

static struct spill_failure write_pieces(const struct spill *spill, int64_t at, const struct spill_pieces *pieces)
{
	for (size_t i = 0; i < pieces->count; at += (int64_t)pieces->items[i++].size)
		if (!io_write_at(spill->fd, at, pieces->items[i].data, pieces->items[i].size))
			return (struct spill_failure){spill->name, "write the spill file", errno};
	return (struct spill_failure){.error = 0};
}

/* Writes the pieces of SLOT to its region R, in any thread. */
static struct spill_failure write_region(const struct spill *spill, int64_t slot, const struct spill_region *r,
                                         const struct spill_pieces *pieces)
{
	const struct spill_failure failure = write_pieces(spill, r->offset, pieces);
	return failure.error || !spill->written ? failure : spill->written(spill->written_context, slot, r);
}

/* The loops of the team, each with one iteration. */

static void write_staged(void *context, void *memory, int64_t begin, int64_t end)
{
	struct spill *spill = context;
	struct spill_piece piece = {spill->staging, spill->staged_region.size};
	(void)memory, (void)begin, (void)end;
	spill->failure =
		write_region(spill, spill->staged, &spill->staged_region, &(struct spill_pieces){.items = &piece, .count = 1});
}

static void read_staged(void *context, void *memory, int64_t begin, int64_t end)
{
	struct spill *spill = context;
	const struct spill_region *r = &spill->staged_region;
	size_t got;
	(void)memory, (void)begin, (void)end;
	if (!io_read_at(spill->fd, r->offset, spill->staging, r->size, &got) || got < r->size)
		spill->staged = NOT_STAGED; /* spill_read then reads the file itself and reports the error */
}

/* Waits for the team, and reports its failure. */
static enum status settle_team(struct spill *spill, struct diags *diags)
{
	team_wait(spill->team);
	return spill->failure.error ? fail_spill(&spill->failure, diags) : STATUS_OK;
}

static void stage(struct spill *spill, int64_t slot, const struct spill_region *r, team_part *part)
{
	spill->staged = slot;
	spill->staged_region = *r;
	team_begin(spill->team, 1, 1, part, spill);
}

enum status spill_check_room(const char *directory, int64_t wanted, struct diags *diags)
{
	struct statvfs fs;
	const int fd = io_open(directory, O_PATH | O_DIRECTORY, 0);
	const int error = fd < 0 || fstatvfs(fd, &fs) ? errno : 0;
	if (fd >= 0)
		close(fd);
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
	*spill =
		(struct spill){.fd = -1, .number = -1, .staged = NOT_STAGED, .staging_size = staging, .allocator = allocator};
	spill->staging = allocator_get(allocator, staging + 1, 1); /* + 1: a state may have no bytes */
	TRY_ALLOC(spill->staging, diags);
	return team_open(&spill->team, 2, 0, allocator, diags);
}

enum status spill_create(struct spill *spill, const char *directory, struct diags *diags)
{
	spill->name = directory;
	spill->remedy = diags->library ? "try again; if that fails too, choose another directory in 'spill'"
	                               : "run the command again; if that fails too, choose another --spill DIR";
	spill->fd = io_make_nameless(directory);
	const struct spill_failure failure = {directory, "create the spill file", errno};
	return spill->fd >= 0 ? STATUS_OK : fail_spill(&failure, diags);
}

void spill_close(struct spill *spill)
{
	team_close(spill->team);
	if (spill->fd >= 0)
		close(spill->fd);
	allocator_put(spill->allocator, spill->staging, spill->staging_size + 1);
	allocator_put(spill->allocator, spill->regions, spill->capacity * sizeof *spill->regions);
	*spill = (struct spill){.fd = -1, .allocator = spill->allocator};
}

static struct spill_region *region_of(struct spill *spill, int64_t slot)
{
	const bool fits = allocator_grow(spill->allocator, (void **)&spill->regions, &spill->capacity, (size_t)slot + 1,
	                                 sizeof *spill->regions);
	return fits ? &spill->regions[slot] : NULL;
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

enum status spill_reserve(struct spill *spill, int64_t slot, int64_t offset, size_t room, struct diags *diags)
{
	struct spill_region region = {.offset = offset};
	if ((size_t)slot < spill->capacity)
		region = spill->regions[slot];
	region.offset = offset;
	region.room = room;
	return spill_restore(spill, slot, &region, diags);
}

/* Gives SLOT the pieces' checksum and a region, a new one at the end if its last is too small. NULL: out of memory. */
static const struct spill_region *place_state(struct spill *spill, int64_t slot, const struct spill_pieces *pieces)
{
	struct spill_region *r = region_of(spill, slot);
	if (!r)
		return NULL;
	r->size = spill_pieces_bytes(pieces);
	r->checksum = checksum_pieces(pieces);
	r->number = spill->number;
	if (r->room < r->size) {
		r->offset = spill->end;
		r->room = r->size;
		spill->end += (int64_t)r->size;
	}
	return r;
}

enum status spill_write(struct spill *spill, int64_t slot, const struct spill_pieces *pieces, struct diags *diags)
{
	const size_t size = spill_pieces_bytes(pieces);
	if (size < HANDED_OVER || size > spill->staging_size)
		return spill_write_at_once(spill, slot, pieces, diags);
	TRY(settle_team(spill, diags));
	const struct spill_region *r = place_state(spill, slot, pieces);
	TRY_ALLOC(r, diags);
	char *next = spill->staging;
	for (size_t i = 0; i < pieces->count; next += pieces->items[i++].size)
		memcpy(next, pieces->items[i].data, pieces->items[i].size);
	stage(spill, slot, r, write_staged);
	return STATUS_OK;
}

enum status spill_write_at_once(struct spill *spill, int64_t slot, const struct spill_pieces *pieces,
                                struct diags *diags)
{
	TRY(settle_team(spill, diags));
	const struct spill_region *r = place_state(spill, slot, pieces);
	TRY_ALLOC(r, diags);
	if (spill->staged == slot)
		spill->staged = NOT_STAGED;
	const struct spill_failure failure = write_region(spill, slot, r, pieces);
	return failure.error ? fail_spill(&failure, diags) : STATUS_OK;
}

enum status spill_damaged(const struct spill *spill, int64_t at, const char *what, struct diags *diags)
{
	diag_file(diags, STATUS_IO, spill->name, at, "the spill file is %s", what);
	return diag_hint(diags, "%s", spill->remedy);
}

enum status spill_write_at(const struct spill *spill, int64_t at, const struct spill_pieces *pieces,
                           struct diags *diags)
{
	const struct spill_failure failure = write_pieces(spill, at, pieces);
	return failure.error ? fail_spill(&failure, diags) : STATUS_OK;
}

enum status spill_read_at(const struct spill *spill, int64_t at, const struct spill_pieces *pieces, struct diags *diags)
{
	size_t got;
	for (size_t i = 0; i < pieces->count; at += (int64_t)pieces->items[i++].size) {
		const struct spill_piece *piece = &pieces->items[i];
		if (!io_read_at(spill->fd, at, piece->data, piece->size, &got))
			return fail_spill(&(struct spill_failure){spill->name, "read the spill file", errno}, diags);
		if (got < piece->size)
			return spill_damaged(spill, at, "short", diags);
	}
	return STATUS_OK;
}

enum status spill_read(struct spill *spill, int64_t slot, const struct spill_pieces *pieces, struct diags *diags)
{
	TRY(settle_team(spill, diags));
	const struct spill_region *r = region_of(spill, slot);
	TRY_ALLOC(r, diags);
	const bool right = r->size == spill_pieces_bytes(pieces), staged = spill->staged == slot;
	const char *next = spill->staging;
	for (size_t i = 0; i < pieces->count && right && staged; next += pieces->items[i++].size)
		memcpy(pieces->items[i].data, next, pieces->items[i].size);
	if (right && !staged)
		TRY(spill_read_at(spill, r->offset, pieces, diags));
	if (right && checksum_pieces(pieces) == r->checksum)
		return STATUS_OK;
	return spill_damaged(spill, r->offset, "not as it was written", diags);
}

void spill_read_ahead(struct spill *spill, int64_t slot)
{
	const struct spill_region *r = region_of(spill, slot);
	if (r && spill->staged != slot && r->size >= HANDED_OVER && r->size <= spill->staging_size)
		stage(spill, slot, r, read_staged);
}
