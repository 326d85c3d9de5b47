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

/* An archive whose stream is FD, which is its own; NULL and *ERROR. (zip_fdopen would duplicate it to the least that is free.) */
static zip_t *open_zip(const struct libzip *lib, int fd, zip_error_t *error)
{
	FILE *file = fdopen(fd, "rb");
	zip_source_t *source = file ? lib->source_filep_create(file, 0, -1, error) : NULL;
	zip_t *zip = source ? lib->open_from_source(source, 0, error) : NULL;
	if (!file) {
		lib->error_set(error, ZIP_ER_MEMORY, errno);
		close(fd);
	} else if (!source) {
		fclose(file);
	} else if (!zip) {
		lib->source_free(source);
	}
	return zip;
}

enum status npz_open(struct npz *npz, const struct input *input, struct diags *diags)
{
	const char *reason, *path = input->name;
	npz->lib = libzip_get(&reason);
	if (!npz->lib)
		return diag_file(diags, STATUS_IO, path, -1, "an npz, which cannot be read: %s", reason);
	if (input->size < 0)
		return load_only_regular(path, "an npz", diags);
	const int fd = fcntl(input->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return diag_file(diags, STATUS_IO, path, -1, "cannot open: %s", strerror(errno));
	zip_error_t error;
	npz->lib->error_init(&error);
	npz->zip = open_zip(npz->lib, fd, &error);
	const int code = npz->lib->error_code_zip(&error), cause = npz->lib->error_code_system(&error);
	enum status status = STATUS_OK;
	if (!npz->zip && code == ZIP_ER_MEMORY)
		status = diag_memory(diags);
	else if (!npz->zip && (code == ZIP_ER_OPEN || code == ZIP_ER_READ || code == ZIP_ER_SEEK))
		status = diag_file(diags, STATUS_IO, path, -1, "cannot read: %s", strerror(cause));
	else if (!npz->zip)
		status = diag_file(diags, STATUS_DATA, path, -1, "not a readable npz: %s", npz->lib->error_strerror(&error));
	npz->lib->error_fini(&error);
	return status;
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

/* Whether what failed is for want of memory, of libzip's or of zlib's. */
static bool is_memory(const struct libzip *lib, zip_file_t *file)
{
	enum { OF_ZLIB = -4 };
	const zip_error_t *error = lib->file_get_error(file);
	const int code = lib->error_code_zip(error);
	return code == ZIP_ER_MEMORY || (code == ZIP_ER_ZLIB && lib->error_code_system(error) == OF_ZLIB);
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

static enum status load_member(const struct loader *loader, struct array *array, const struct npz *from,
                               zip_uint64_t at, const char *path, const char *name, struct diags *diags)
{
	const struct allocator *allocator = loader->allocator;
	zip_stat_t st;
	if (from->lib->stat_index(from->zip, at, 0, &st) != 0 || !(st.valid & ZIP_STAT_SIZE))
		return diag_file(diags, STATUS_DATA, path, -1, "member '%s' cannot be read: %s", name,
		                 from->lib->strerror(from->zip));
	zip_file_t *file = from->lib->fopen_index(from->zip, at, 0);
	if (!file)
		return diag_file(diags, STATUS_DATA, path, -1, "member '%s' cannot be read: %s", name,
		                 from->lib->strerror(from->zip));
	/* The size that the archive claims is believed only as far as data comes. */
	enum { FIRST = 1 << 20 };
	size_t used = 0, capacity = st.size < FIRST ? (size_t)st.size + 1 : FIRST, extent = SIZE_MAX;
	char *data = allocator_get(allocator, capacity, 1);
	zip_int64_t n = 0;
	while (data && (n = from->lib->fread(file, data + used, capacity - used)) > 0) {
		used += (size_t)n;
		if (used == FIRST && capacity == FIRST)
			extent = npy_extent(data, used, loader->arena);
		if (used > extent) /* more is of no use: there is too much already */
			break;
		if (used == capacity) {
			char *grown = allocator->resize(allocator->context, data, capacity, 2 * capacity);
			if (!grown)
				break;
			data = grown;
			capacity *= 2;
		}
	}
	enum status status = STATUS_OK;
	if (!data || (used == capacity && used <= extent) || (n < 0 && is_memory(from->lib, file)))
		status = diag_memory(diags);
	else if (n < 0)
		status =
			diag_file(diags, STATUS_DATA, path, -1, "member '%s' is damaged: %s", name, from->lib->file_strerror(file));
	else if (used < st.size && used <= extent)
		status = diag_file(diags, STATUS_DATA, path, -1, "member '%s' is damaged: it ends after %zu of %llu bytes",
		                   name, used, (unsigned long long)st.size);
	if (from->lib->fclose(file) != 0 && !status)
		status = diag_file(diags, STATUS_DATA, path, -1, "member '%s' is damaged", name);
	if (!status) {
		const char *label = arena_printf(loader->arena, "%s(%s)", path, name);
		struct input input = input_of(label ? label : path, data, used, loader->arena);
		status = load_stream(loader, array, &input, diags);
	}
	if (data)
		allocator_put(allocator, data, capacity);
	return status;
}

enum status npz_load(const struct loader *loader, struct array *array, const struct npz *from, const char *path,
                     const char *key, struct diags *diags)
{
	zip_int64_t at = find_member(from, key, loader->arena);
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
