/*
 * Arrays that stay in their files until their values are used. A read takes them in parts, by any threads, in any order.
 * The checksum of an npz's member is made of those of the parts.
 * Tests: tests/cases/stored.test, tests/cases/errors.test
 */
#include "io/formats.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"

/* Sets *CRC to the checksum of the SIZE bytes of INPUT from byte AT on. */
static enum status checksum_bytes(const struct input *input, int64_t at, int64_t size, uint32_t *crc,
                                  struct diags *diags)
{
	struct zip_crc tables;
	unsigned char block[4096];
	zip_crc_init(&tables);
	for (size_t got = 0; size > 0; at += (int64_t)got, size -= (int64_t)got) {
		TRY(input_read_at(input, at, block, (size_t)lesser(size, sizeof block), &got, diags));
		if (got == 0)
			return STATUS_OK; /* the read of the values will find it */
		*crc = zip_crc_add(&tables, *crc, block, got);
	}
	return STATUS_OK;
}

enum status stored_leave(struct loader *loader, struct array *array, const struct reader *reader,
                         const struct stored_array *where)
{
	const struct context *context = loader->context;
	const int64_t bytes = type_bytes(&reader->type);
	const bool fits = reader->direct || (loader->every_type && !reader->swap && !reader->fortran);
	if (!loader->leaves || bytes < loader->leaves || loader->left_in_files == LOADER_LEFT || !fits)
		return STATUS_OK;
	struct stored_array *made = arena_alloc(context->arena, sizeof *made);
	TRY_ALLOC(made, context->diags);
	*made = *where;
	made->at = where->at + reader->data;
	made->bytes = bytes;
	if (where->member)
		TRY(checksum_bytes(&where->input, where->at, reader->data, &made->before, context->diags));
	made->input.buffer = NULL;
	made->input.owned = true;
	made->input.fd = fcntl(where->input.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (made->input.fd < 0)
		return STATUS_OK; /* it is loaded */
	made->stamp = input_stamp(&made->input);
	array->stored = made;
	loader->left_in_files++;
	return STATUS_OK;
}

void stored_close(struct stored_array *array) { input_close(&array->input); }

enum status stored_read_open(struct stored_read *read, const struct stored_array *array, const struct context *context)
{
	*read = (struct stored_read){.array = array, .tables = zip_crc_tables(context->arena)};
	TRY_ALLOC(read->tables, context->diags);
	return STATUS_OK;
}

/* A part's rows that one system call reads at most. */
enum { ROWS_AT_ONCE = 16 };
enum { AT_END = -1 }; /* a part's failure: the file ends before it does */

/*
 * Reads COUNT rows of PART from row FIRST on to TO. They follow one another in the file, or COUNT is 1. False if that
 * fails: errno is 0 if the file ends before the rows do.
 */
static bool read_rows(const struct stored_array *array, const struct stored_part *part, int64_t first, int64_t count,
                      char *to)
{
	const int64_t at = array->input.base + array->at + part->at + first * part->stride;
	struct iovec rows[ROWS_AT_ONCE];
	for (int64_t i = 0; i < count; i++)
		rows[i] = (struct iovec){to + i * part->pitch, (size_t)part->bytes};
	if (count > 1 && preadv(array->input.fd, rows, (int)count, at) == count * part->bytes)
		return true;
	for (int64_t i = 0; i < count; i++) {
		size_t got;
		errno = 0;
		if (!io_read_at(array->input.fd, at + i * part->stride, rows[i].iov_base, rows[i].iov_len, &got) ||
		    got < rows[i].iov_len)
			return false;
	}
	return true;
}

/* The read of a part: the next rows go TO there. CRC is the checksum of the rows before, if the read is checked. */
struct part_read {
	const struct stored_read *read;
	char *to;
	bool checked;
	uint32_t crc;
};

/* As read_rows. Moves the checksum of the rows before by POWER to the end of these rows, and adds theirs. */
static bool read_checked(struct part_read *r, const struct stored_part *part, int64_t first, int64_t count,
                         uint32_t power)
{
	uint32_t own = 0;
	if (!read_rows(r->read->array, part, first, count, r->to))
		return false;
	for (int64_t i = 0; r->checked && i < count; i++)
		own = zip_crc_add(r->read->tables, own, r->to + i * part->pitch, (size_t)part->bytes);
	if (r->checked)
		r->crc = zip_crc_move(r->crc, power) ^ own;
	r->to += count * part->pitch;
	return true;
}

bool stored_read_part(struct stored_read *read, const struct stored_part *part, void *to)
{
	struct stored_part p = *part;
	if (p.bytes == p.stride && p.bytes == p.pitch) { /* rows without gaps are read by blocks */
		p.bytes = p.stride = p.pitch = lesser(p.rows * part->bytes, ZIP_BLOCK);
		p.rows = p.rows * part->bytes / p.bytes;
	}
	const int64_t end = part->at + (part->rows - 1) * part->stride + part->bytes;
	const int64_t rest = part->rows * part->bytes - p.rows * p.bytes;
	const int64_t most = p.bytes == p.stride ? greater(1, lesser(ROWS_AT_ONCE, ZIP_BLOCK / p.bytes)) : 1;
	struct part_read r = {.read = read, .to = to, .checked = read->array->member && !read->right};
	const uint32_t power = r.checked ? zip_crc_power((size_t)(most * p.stride)) : 0;
	bool good = true;
	for (int64_t i = 0, count; i < p.rows && good; i += count) {
		count = lesser(most, p.rows - i);
		good = read_checked(&r, &p, i, count,
		                    count < most && r.checked ? zip_crc_power((size_t)(count * p.stride)) : power);
	}
	if (good && rest)
		good =
			read_checked(&r, &(struct stored_part){end - rest, 1, rest, rest, rest}, 0, 1, zip_crc_power((size_t)rest));
	if (!good)
		atomic_store(&read->failed, errno ? errno : AT_END);
	else if (r.checked)
		atomic_fetch_xor(&read->crc, zip_crc_move(r.crc, zip_crc_power((size_t)(read->array->bytes - end))));
	return good;
}

/* Reports why a part could not be read: FAILED is errno or AT_END. */
static enum status report_failed_part(const struct stored_array *array, int failed, struct diags *diags)
{
	const struct input *input = &array->input;
	const int64_t end = input_stamp(input).size - input->base - array->at;
	if (failed != AT_END) {
		errno = failed;
		return input_failed(input, -1, diags);
	}
	if (end < 0 || end >= array->bytes)
		return diag_file(diags, STATUS_DATA, input->name, -1, "the file changed while it was read");
	return diag_file(diags, STATUS_DATA, input->name, array->at + end,
	                 "the file changed while it was read: it ends after %lld of %lld bytes of array data",
	                 (long long)end, (long long)array->bytes);
}

enum status stored_read_end(struct stored_read *read, struct diags *diags)
{
	const struct stored_array *array = read->array;
	const int failed = atomic_exchange(&read->failed, 0);
	const uint32_t crc = atomic_exchange(&read->crc, 0);
	if (failed)
		return report_failed_part(array, failed, diags);
	if (array->member && !read->right && zip_crc_join(array->before, crc, (size_t)array->bytes) != array->crc)
		return diag_file(diags, STATUS_DATA, array->input.name, -1, "member '%s' is damaged: its checksum is wrong",
		                 array->member);
	read->right = true;
	const struct input_stamp now = input_stamp(&array->input);
	if (now.size == array->stamp.size && now.modified == array->stamp.modified)
		return STATUS_OK;
	return diag_file(diags, STATUS_DATA, array->input.name, -1, "the file changed while it was read");
}

/* A read of bytes from AT on. */
struct shared_bytes {
	struct stored_read *read;
	int64_t at;
	char *to;
};

/* A team_part. */
static void read_bytes_shared(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared_bytes *shared = context;
	const int64_t bytes = end - begin;
	(void)memory;
	stored_read_part(shared->read, &(struct stored_part){shared->at + begin, 1, bytes, bytes, bytes},
	                 shared->to + begin);
}

bool stored_read_bytes(struct stored_read *read, int64_t at, int64_t bytes, void *to, struct team *team)
{
	enum { PIECES = 8, LEAST_PIECE = 32 << 10 }; /* a smaller piece takes less time than to share it */
	struct shared_bytes shared = {read, at, to};
	team_run(team, bytes, lesser(ZIP_BLOCK, greater(bytes / PIECES, LEAST_PIECE)), read_bytes_shared, &shared);
	return !read->failed;
}

enum status stored_load(const struct stored_array *array, void *to, struct team *team, const struct context *context)
{
	struct stored_read read;
	TRY(stored_read_open(&read, array, context));
	stored_read_bytes(&read, 0, array->bytes, to, team);
	return stored_read_end(&read, context->diags);
}
