/*
 * npz: a zip archive of npy members, read by libzip. A member is unpacked into
 * memory, as far as its own header has a use for, and read as a file is.
 */
#include "io/archives.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "io/npy.h"

static const char *list_members(const struct npz *from, struct arena *arena)
{
	const char *list = "";
	zip_int64_t count = from->lib->get_num_entries(from->zip, 0);
	for (zip_int64_t i = 0; i < count && i < 20 && list; i++) {
		const char *name = from->lib->get_name(from->zip, (zip_uint64_t)i, 0);
		size_t length = name ? strlen(name) : 0;
		if (length > 4 && !strcmp(name + length - 4, ".npy"))
			length -= 4;
		list = arena_printf(arena, "%s%s%.*s", list, i ? ", " : "", (int)length, name ? name : "?");
	}
	return list ? list : "";
}

/*
 * What a call of libzip failed for, which it told as ERROR. It takes a read that fails for
 * the end of the file, and a request for memory that fails for what it found no sign of:
 * but the file has noted the one, and errno, 0 before the call, the other.
 */
static enum status cause_of(const struct npz *npz, const zip_error_t *error)
{
	enum { OF_ZLIB = -4 };
	const bool memory = errno == ENOMEM;
	const int code = npz->lib->error_code_zip(error);
	if (memory || code == ZIP_ER_MEMORY || (code == ZIP_ER_ZLIB && npz->lib->error_code_system(error) == OF_ZLIB))
		return STATUS_LIMIT;
	if (ferror(npz->file) || code == ZIP_ER_OPEN || code == ZIP_ER_READ || code == ZIP_ER_SEEK || code == ZIP_ER_TELL)
		return STATUS_IO;
	return STATUS_DATA;
}

/* Tells of ERROR; where the data are to blame, that MEMBER, or the whole where that is NULL, is WHAT. */
static enum status failed(const struct npz *npz, zip_error_t *error, const char *path, const char *member,
                          const char *what, struct diags *diags)
{
	const enum status cause = cause_of(npz, error);
	const int system = npz->lib->error_code_system(error);
	if (cause == STATUS_LIMIT)
		return diag_memory(diags);
	if (cause == STATUS_IO)
		return diag_file(diags, cause, path, -1, "cannot read: %s", strerror(system > 0 ? system : EIO));
	const char *reason = npz->lib->error_strerror(error);
	if (!member)
		return diag_file(diags, cause, path, -1, "%s: %s", what, reason);
	return diag_file(diags, cause, path, -1, "member '%s' %s: %s", member, what, reason);
}

/* Opens the archive whose stream is FD, which is its own. (zip_fdopen would duplicate it to the least that is free.) */
static enum status open_zip(struct npz *npz, int fd, const char *path, struct diags *diags)
{
	const struct libzip *lib = npz->lib;
	npz->file = fdopen(fd, "rb");
	if (!npz->file) {
		close(fd);
		return diag_memory(diags);
	}
	zip_error_t error;
	lib->error_init(&error);
	errno = 0;
	zip_source_t *source = lib->source_filep_create(npz->file, 0, -1, &error);
	npz->zip = source ? lib->open_from_source(source, 0, &error) : NULL;
	const enum status status = npz->zip ? STATUS_OK : failed(npz, &error, path, NULL, "not a readable npz", diags);
	if (!source)
		fclose(npz->file);
	else if (!npz->zip)
		lib->source_free(source);
	lib->error_fini(&error);
	return status;
}

enum status npz_open(struct npz *npz, const struct input *input, struct diags *diags)
{
	const char *reason, *path = input->name;
	bool memory;
	npz->lib = libzip_get(&reason, &memory);
	if (!npz->lib && memory)
		return diag_file(diags, STATUS_LIMIT, path, -1, "out of memory for the library that reads an npz: %s", reason);
	if (!npz->lib)
		return diag_file(diags, STATUS_IO, path, -1, "an npz, which cannot be read: %s", reason);
	if (input->size < 0)
		return load_only_regular(path, "an npz", diags);
	const int fd = fcntl(input->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return diag_file(diags, STATUS_IO, path, -1, "cannot open: %s", strerror(errno));
	return open_zip(npz, fd, path, diags);
}

enum status npz_find_members(const char *path, const struct named_array *arrays, size_t count, bool *found,
                             struct arena *arena, struct diags *diags)
{
	struct input input;
	struct npz from;
	enum status status = input_open(&input, path, true, arena, diags);
	if (status)
		return status;
	status = npz_open(&from, &input, diags);
	input_close(&input);
	if (status)
		return status;
	zip_int64_t members = from.lib->get_num_entries(from.zip, 0);
	for (zip_int64_t i = 0; i < members && !status; i++) {
		const char *name = from.lib->get_name(from.zip, (zip_uint64_t)i, 0);
		size_t length = name ? strlen(name) : 0, k = 0;
		if (length > 4 && !strcmp(name + length - 4, ".npy"))
			length -= 4;
		while (k < count &&
		       (strlen(arrays[k].name) != length || strncmp(arrays[k].name, name ? name : "", length) != 0))
			k++;
		if (k < count)
			found[k] = true;
		else
			status = diag_file(diags, STATUS_DATA, path, -1, "holds '%.*s', which would be lost", (int)length,
			                   name ? name : "?");
	}
	npz_close(&from);
	return status;
}

/* Whether a member after AT has the name of that one. */
static bool is_double(const struct npz *from, zip_uint64_t at)
{
	const char *name = from->lib->get_name(from->zip, at, 0);
	const zip_int64_t members = from->lib->get_num_entries(from->zip, 0);
	for (zip_uint64_t i = at + 1; name && i < (zip_uint64_t)members; i++) {
		const char *other = from->lib->get_name(from->zip, i, 0);
		if (other && !strcmp(other, name))
			return true;
	}
	return false;
}

static zip_int64_t find_member(const struct npz *from, const char *key, struct arena *arena)
{
	if (!key)
		return from->lib->get_num_entries(from->zip, 0) == 1 ? 0 : -1;
	zip_int64_t at = from->lib->name_locate(from->zip, key, 0);
	const char *npy = at < 0 ? arena_printf(arena, "%s.npy", key) : NULL;
	return npy ? from->lib->name_locate(from->zip, npy, 0) : at;
}

/* An input of the USED bytes at DATA. */
static struct input input_of(const char *name, char *data, size_t used, struct arena *arena)
{
	return (struct input){.fd = -1,
	                      .name = name,
	                      .size = -1,
	                      .buffer = (unsigned char *)data,
	                      .end = used,
	                      .capacity = used,
	                      .eof = true,
	                      .arena = arena};
}

/* The bytes of the npy array whose first USED are at DATA, as its header says; SIZE_MAX where that is not to be known. */
static size_t npy_extent(char *data, size_t used, struct arena *arena)
{
	struct diags ignored;
	struct npy_header header;
	struct input input = input_of("", data, used, arena);
	diags_init(&ignored, arena);
	int64_t bytes;
	if (npy_read_header(&input, DTYPE_BF16, &header, &ignored) ||
	    !checked_mul_i64(shape_count(&header.type.shape), (int64_t)dtype_size(header.type.dtype), &bytes))
		return SIZE_MAX;
	return input.begin + (size_t)bytes;
}

/* A member's bytes, as far as they have been unpacked: no more than its own header has a use for, its EXTENT. */
struct unpacked {
	char *data;
	size_t used, capacity, extent;
};

/* Unpacks FILE, of SIZE bytes as the archive claims: that is believed only as far as data comes. */
static enum status unpack(const struct loader *loader, struct unpacked *u, const struct npz *from, zip_file_t *file,
                          uint64_t size, const char *path, const char *name, struct diags *diags)
{
	enum { FIRST = 1 << 20 };
	const struct allocator *allocator = loader->allocator;
	u->capacity = size < FIRST ? (size_t)size + 1 : FIRST;
	u->data = allocator_get(allocator, u->capacity, 1);
	if (!u->data)
		return diag_memory(diags);
	zip_int64_t n;
	errno = 0;
	while ((n = from->lib->fread(file, u->data + u->used, u->capacity - u->used)) > 0) {
		u->used += (size_t)n;
		if (u->used == FIRST && u->capacity == FIRST)
			u->extent = npy_extent(u->data, u->used, loader->arena);
		if (u->used > u->extent) /* more is of no use: there is too much already */
			return STATUS_OK;
		if (u->used < u->capacity)
			continue;
		char *grown = allocator->resize(allocator->context, u->data, u->capacity, 2 * u->capacity);
		if (!grown)
			return diag_memory(diags);
		u->data = grown;
		u->capacity *= 2;
	}
	if (n < 0)
		return failed(from, from->lib->file_get_error(file), path, name, "is damaged", diags);
	if (u->used < size)
		return diag_file(diags, STATUS_DATA, path, -1, "member '%s' is damaged: it ends after %zu of %llu bytes", name,
		                 u->used, (unsigned long long)size);
	return STATUS_OK;
}

static enum status load_member(const struct loader *loader, struct array *array, const struct npz *from,
                               zip_uint64_t at, const char *path, const char *name, struct diags *diags)
{
	zip_stat_t st;
	errno = 0;
	zip_file_t *file = NULL;
	if (!from->lib->stat_index(from->zip, at, 0, &st) && st.valid & ZIP_STAT_SIZE)
		file = from->lib->fopen_index(from->zip, at, 0);
	if (!file)
		return failed(from, from->lib->get_error(from->zip), path, name, "cannot be read", diags);
	struct unpacked u = {.extent = SIZE_MAX};
	enum status status = unpack(loader, &u, from, file, st.size, path, name, diags);
	if (from->lib->fclose(file) != 0 && !status)
		status = diag_file(diags, STATUS_DATA, path, -1, "member '%s' is damaged", name);
	if (!status) {
		const char *label = arena_printf(loader->arena, "%s(%s)", path, name);
		struct input input = input_of(label ? label : path, u.data, u.used, loader->arena);
		status = load_stream(loader, array, &input, diags);
	}
	if (u.data)
		allocator_put(loader->allocator, u.data, u.capacity);
	return status;
}

enum status npz_load(const struct loader *loader, struct array *array, const struct npz *from, const char *path,
                     const char *key, struct diags *diags)
{
	errno = 0;
	zip_int64_t at = find_member(from, key, loader->arena);
	if (at < 0 && (loader->arena->failed || errno == ENOMEM)) /* it is perhaps there */
		return diag_memory(diags);
	if (at >= 0 && is_double(from, (zip_uint64_t)at))
		return diag_file(diags, STATUS_DATA, path, -1, "has two members '%s'", key);
	if (at >= 0)
		return load_member(loader, array, from, (zip_uint64_t)at, path,
		                   key ? key : from->lib->get_name(from->zip, 0, 0), diags);
	if (from->lib->get_num_entries(from->zip, 0) == 0)
		return diag_file(diags, STATUS_DATA, path, -1, "has no members");
	if (key)
		diag_file(diags, STATUS_DATA, path, -1, "has no member '%s'", key);
	else
		diag_file(diags, STATUS_DATA, path, -1, "has several members, and none is named");
	diag_hint(diags, "its members: %s; a chain names one by load(\"FILE\", \"MEMBER\")",
	          list_members(from, loader->arena));
	return STATUS_DATA;
}

void npz_close(struct npz *npz)
{
	if (npz->zip)
		npz->lib->discard(npz->zip);
}
