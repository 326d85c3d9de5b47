/*
 * Reads any bytes as a stream of arrays (npy, text, csv, raw), or as a file of params
 * (npy, npz, safetensors, text). The result is arrays, or one message.
 *   - A regular file and a pipe give the same arrays and the same status; only the length
 *     of a pipe is not known beforehand.
 *   - Values read at a place equal those read in order.
 *   - The arrays, written as npy, read back to the same bits.
 * The first two bytes choose how the rest is read: the format, and columns and the delimiter of tables.
 */
#include "io/array.h"
#include "io/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A stream of arrays is read into at most this much; a header may well promise more. */
enum { VALUES_MOST = 1 << 16, ARRAYS_MOST = 8, PIPE_HOLDS = 32 << 10 };

struct arrays {
	enum status status;
	int count;
	struct type types[ARRAYS_MOST];
	size_t used;
	_Alignas(64) unsigned char values[8 * VALUES_MOST];
};

static struct arrays from_file, from_pipe, again;

/* Memory for what can be meant: a header may promise exabytes. */
static void *bounded_resize(void *context, void *block, size_t old_size, size_t new_size)
{
	enum { MOST = 64 << 20 };
	(void)context;
	return new_size > MOST ? NULL : allocator_system.resize(allocator_system.context, block, old_size, new_size);
}
static const struct allocator bounded = {.resize = bounded_resize};

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void nowhere(void *context, const char *text, size_t length)
{
	(void)context;
	(void)text;
	(void)length;
}

static int memory_file(const void *bytes, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static int full_pipe(const void *bytes, size_t size)
{
	int ends[2];
	require(!pipe(ends) && write(ends[1], bytes, size) == (ssize_t)size);
	close(ends[1]);
	return ends[0];
}

/* The current array's values, appended to ALL; read again at places, where that can be done. */
static enum status read_values(struct reader *reader, struct arrays *all, struct diags *diags)
{
	enum dtype compute = dtype_compute(reader->type.dtype);
	size_t each = dtype_size(compute), room = (sizeof all->values - all->used) / each;
	size_t count = reader->count < (int64_t)room ? (size_t)reader->count : room;
	size_t first = count / 3;
	unsigned char *to = all->values + all->used;
	enum status status = reader_read(reader, to, compute, (int64_t)first, diags);
	if (!status)
		status = reader_read(reader, to + first * each, compute, (int64_t)(count - first), diags);
	if (status)
		return status;
	if (reader_seekable(reader) && count > first) {
		unsigned char *copy = malloc((count - first) * each);
		require(copy);
		require(!reader_read_at(reader, (int64_t)first, copy, compute, (int64_t)(count - first), diags));
		require(!memcmp(copy, to + first * each, (count - first) * each));
		free(copy);
	}
	const size_t end = (count * each + 7) / 8 * 8; /* the next array may be of doubles */
	memset(to + count * each, 0, end - count * each);
	all->used += end;
	return reader_skip(reader, diags);
}

static void read_stream(int fd, const struct reader_options *options, struct arrays *all)
{
	struct arena arena;
	struct diags diags;
	struct input input;
	struct reader reader;
	char path[32];
	all->count = 0;
	all->used = 0;
	arena_init(&arena, &bounded);
	diags_init(&diags, &arena);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	require(!input_open(&input, path, false, &arena, &diags));
	reader_init(&reader, &input, options, &arena);
	bool end = false;
	all->status = reader_next(&reader, &end, &diags);
	while (!all->status && !end && all->count < ARRAYS_MOST) {
		all->types[all->count] = reader.type;
		all->status = read_values(&reader, all, &diags);
		all->count++;
		if (!all->status)
			all->status = reader_next(&reader, &end, &diags);
	}
	require(all->status ? diags.errors == 1 : diags.errors == 0);
	diags_render(&diags, true, nowhere, NULL);
	reader_free(&reader);
	input_close(&input);
	arena_free(&arena);
	close(fd);
}

static void require_same(const struct arrays *a, const struct arrays *b)
{
	require(a->count == b->count && a->used == b->used && !memcmp(a->values, b->values, a->used));
	for (int i = 0; i < a->count; i++)
		require(type_equal(&a->types[i], &b->types[i]));
}

/* The first array, where it was read in whole and is of a floating type, goes out as npy and comes back. */
static void write_and_read(const struct arrays *all)
{
	const struct type *type = &all->types[0];
	int64_t count = all->count ? shape_count(&type->shape) : 0;
	size_t bytes = (size_t)count * dtype_size(dtype_compute(type->dtype));
	if (all->status || all->count != 1 || type->dtype > DTYPE_F64 || (bytes + 7) / 8 * 8 != all->used)
		return;
	struct arena arena;
	struct diags diags;
	struct output output;
	struct writer writer;
	const struct writer_options options = {.format = FORMAT_NPY};
	const struct reader_options back = {.format = FORMAT_NPY, .assume = DTYPE_BF16, .raw.shape.ndim = -1};
	char path[32];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0);
	arena_init(&arena, &bounded);
	diags_init(&diags, &arena);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	output = (struct output){.fd = fd, .name = "fuzz", .seekable = true, .arena = &arena};
	writer_init(&writer, &output, &options, &arena);
	require(!writer_begin(&writer, type, &diags));
	require(!writer_write(&writer, all->values, dtype_compute(type->dtype), count, &diags));
	require(!writer_end(&writer, &diags) && !writer_finish(&writer, &diags));
	writer_free(&writer);
	arena_free(&arena);
	require(lseek(fd, 0, SEEK_SET) == 0);
	read_stream(fd, &back, &again);
	require(!again.status);
	if (type->dtype == DTYPE_F32 || type->dtype == DTYPE_F64)
		require_same(all, &again);
	else
		require(again.count == 1 && again.used == all->used);
}

static void load(const unsigned char *bytes, size_t size, const char *key, bool cast)
{
	struct arena arena;
	struct diags diags;
	struct array array;
	char path[32];
	int fd = memory_file(bytes, size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	arena_init(&arena, &bounded);
	diags_init(&diags, &arena);
	struct loader loader = {.cast = cast, .context = &(struct context){&bounded, &arena, &diags}};
	enum status status = array_load(&loader, &array, path, key);
	require(status ? diags.errors == 1 : diags.errors == 0);
	diags_render(&diags, true, nowhere, NULL);
	if (!status) {
		const unsigned char *values = array.data;
		unsigned sum = 0;
		for (size_t i = 0; i < array.size; i++)
			sum += values[i];
		require(array.size >= (size_t)type_bytes(&array.type) && sum + 1 > 0);
		array_free(&array, &bounded);
	}
	arena_free(&arena);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum dtype raw[] = {DTYPE_F32, DTYPE_F64,  DTYPE_I64, DTYPE_BOOL,
	                                 DTYPE_F16, DTYPE_BF16, DTYPE_U8,  DTYPE_I16};
	static const char *const columns[] = {NULL, "0", "1,0", "a,0", "1:", "2:,0", "\"b\"", ":2"};
	static const char delimiters[] = {0, ';', '\t', ' '};
	static const double missing = 7;
	if (size < 2)
		return 0;
	unsigned how = data[0] % (FORMAT_RAW + 2);
	const unsigned table = data[0] / (FORMAT_RAW + 2); /* 0: of most inputs that are kept */
	const unsigned char *bytes = data + 2;
	size -= 2;
	if (how > FORMAT_RAW) {
		load(bytes, size, data[1] & 2 ? "w" : NULL, data[1] & 1);
		return 0;
	}
	struct reader_options options = {
		.format = (enum format)how,
		.assume = data[1] & 1 ? DTYPE_BF16 : DTYPE_COUNT,
		.cast = data[1] & 2,
		.columns = columns[table % 8],
		.delimiter = delimiters[table / 8 % 4],
		.missing = table && data[1] & 8 ? &missing : NULL,
		.anywhere = table && data[1] & 16,
		.raw = {.dtype = raw[data[1] >> 5], .shape = {.ndim = data[1] & 4 ? 2 : -1, .dim = {2, data[1] >> 3 & 3}}},
	};
	read_stream(memory_file(bytes, size), &options, &from_file);
	write_and_read(&from_file);
	if (size <= PIPE_HOLDS) {
		read_stream(full_pipe(bytes, size), &options, &from_pipe);
		require(from_file.status == from_pipe.status ||
		        (from_file.status == STATUS_DATA && from_pipe.status == STATUS_LIMIT));
		if (!from_file.status)
			require_same(&from_file, &from_pipe);
	}
	return 0;
}

#include "replay.h"
