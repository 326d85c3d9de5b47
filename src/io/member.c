/*
 * Members of archives as streams of one array: an input may be one. A member that the file has as memory would is read row
 * by row where it lies. No checksum is made of it then, since its rows may be read in any order.
 * Tests: tests/cases/inputs.test
 */
#include "io/formats.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool archive_is(const char *path)
{
	const size_t length = strlen(path);
	unsigned char bytes[10];
	size_t got;
	struct stat file; /* to open a FIFO would disturb its writer */
	if (io_stat(path, &file) || !S_ISREG(file.st_mode))
		return false;
	if (length > 12 && !strcmp(path + length - 12, ".safetensors"))
		return true;
	const int fd = io_open(path, O_RDONLY, 0);
	const bool read = fd >= 0 && io_read_at(fd, 0, bytes, sizeof bytes, &got) && got == sizeof bytes;
	if (fd >= 0)
		close(fd);
	return read && ((!memcmp(bytes, "PK", 2) && (bytes[2] == 3 || bytes[2] == 5)) ||
	                (bytes[8] == '{' && bytes[6] == 0 && bytes[7] == 0 && !npy_is(bytes, sizeof bytes)));
}

/* Lets HELD have values of its type: halves are loaded as floats, and integers as doubles, which they stay. */
static enum status settle_held(const struct context *context, struct array *held)
{
	const enum dtype type = held->type.dtype, computed = dtype_compute(type);
	const size_t count = (size_t)shape_count(&held->type.shape);
	held->type.dtype = type < DTYPE_F32 ? type : computed;
	if (type >= DTYPE_F32)
		return STATUS_OK;
	const struct array loaded = *held;
	held->size = count * dtype_size(type) + 1;
	held->data = allocator_get(context->allocator, held->size, 1);
	if (held->data)
		convert_to_file(held->data, type, loaded.data, computed, count);
	allocator_put(context->allocator, loaded.data, loaded.size);
	TRY_ALLOC(held->data, context->diags);
	return STATUS_OK;
}

enum status member_open(const struct context *context, const struct reader_options *options, const char *path,
                        const char *key, struct opened_member *member)
{
	struct loader loader = {
		.cast = options->cast, .threads = options->threads, .leaves = 1, .every_type = true, .context = context};
	struct reader_options of = *options;
	const char *name = key ? arena_printf(context->arena, "%s(%s)", path, key) : path;
	TRY_ALLOC(name, context->diags);
	TRY(array_load(&loader, &member->loaded, path, key));
	const struct stored_array *stored = member->loaded.stored;
	member->input = stored ? stored->input : (struct input){.fd = -1, .size = -1, .arena = context->arena};
	member->input.name = name;
	if (!stored)
		TRY(settle_held(context, &member->loaded));
	of.format = FORMAT_MEMBER;
	of.raw = member->loaded.type;
	of.typed = false;
	of.memory = member->loaded.data;
	of.values_at = stored ? stored->at : 0;
	reader_init(&member->rows, &member->input, &of, context->arena);
	return STATUS_OK;
}
