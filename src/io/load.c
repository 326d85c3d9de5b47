/*
 * Whole arrays from files, by what the files hold: npy, npz (a zip archive of
 * npy members), safetensors (a JSON header and raw tensors), or text.
 */
#include "io/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "io/json.h"
#include "io/libzip.h"
#include "io/npy.h"

void array_free(struct array *array, const struct allocator *allocator)
{
	if (array->data)
		allocator_put(allocator, array->data, array->size);
	array->data = NULL;
}

/* Reads the array that READER has begun. */
static enum status read_array(struct array *array, struct reader *reader, const struct allocator *allocator,
                              struct diags *diags)
{
	array->type = reader->type;
	int64_t bytes = type_bytes(&array->type), in_file = reader->count * (int64_t)dtype_size(array->type.dtype);
	const struct input *input = reader->input;
	int64_t left = !reader->held && input->size >= 0 ? input->size - reader->data : INT64_MAX;
	if (input->fd < 0) /* in memory, all of it */
		left = (int64_t)(input->end - input->begin);
	if (!reader->held && left < in_file) /* no memory is asked for that the file cannot fill */
		return diag_file(diags, STATUS_DATA, input->name, reader->data + left,
		                 "truncated: %lld of %lld bytes of array data", (long long)left, (long long)in_file);
	array->size = bytes > 0 ? (size_t)bytes : 1;
	array->data = allocator_get(allocator, array->size, 1);
	if (!array->data) {
		diag_file(diags, STATUS_LIMIT, reader->input->name, -1, "out of memory: the array has %lld bytes",
		          (long long)bytes);
		return STATUS_LIMIT;
	}
	enum status status = reader_read(reader, array->data, dtype_compute(array->type.dtype), reader->count, diags);
	if (status)
		array_free(array, allocator);
	return status;
}

static enum status load_stream(const struct loader *loader, struct array *array, struct input *input,
                               struct diags *diags)
{
	struct reader reader;
	struct reader_options options = {.assume = DTYPE_BF16, .cast = loader->cast, .raw = {.shape = {.ndim = -1}}};
	bool end;
	reader_init(&reader, input, &options, loader->arena);
	enum status status = reader_next(&reader, &end, diags);
	array->type = reader.type;
	/* A pipe is read to its end, for whoever writes to it. */
	const bool enough = loader->types && reader.format == FORMAT_NPY && input->size >= 0;
	if (!status && !enough)
		status = read_array(array, &reader, loader->allocator, diags);
	if (!status && !enough) {
		status = reader_next(&reader, &end, diags);
		if (!status && !end)
			status = diag_file(diags, STATUS_DATA, input->name, -1, "holds more than one array");
		if (status)
			array_free(array, loader->allocator);
	}
	reader_free(&reader);
	return status;
}

/* WHAT is not read from front to back. */
static enum status only_regular(const char *name, const char *what, struct diags *diags)
{
	diag_file(diags, STATUS_DATA, name, -1, "%s must be a regular file", what);
	diag_hint(diags, "save it to a file first");
	return STATUS_DATA;
}

struct npz {
	zip_t *zip;
	const struct libzip *lib;
};

/* A file of several arrays. */
struct container {
	const char *path; /* as it was asked for */
	struct input input;
	struct npz npz; /* ZIP NULL: it is a safetensors file */
	json_t *header; /* of a safetensors file, checked */
	int64_t data;   /* where its tensors begin */
};

/* npz. */

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

static enum status open_npz(struct npz *npz, const struct input *input, struct diags *diags)
{
	const char *reason, *path = input->name;
	npz->lib = libzip_get(&reason);
	if (!npz->lib)
		return diag_file(diags, STATUS_IO, path, -1, "an npz, which cannot be read: %s", reason);
	if (input->size < 0)
		return only_regular(path, "an npz", diags);
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

enum status npz_check_members(const char *path, const struct named_array *arrays, size_t count, struct arena *arena,
                              struct diags *diags)
{
	struct input input;
	struct npz from;
	enum status status = input_open(&input, path, true, arena, diags);
	if (status)
		return status;
	status = open_npz(&from, &input, diags);
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
		if (k == count)
			status = diag_file(diags, STATUS_DATA, path, -1, "holds '%.*s', which would be lost", (int)length,
			                   name ? name : "?");
	}
	from.lib->discard(from.zip);
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

static enum status load_npz(const struct loader *loader, struct array *array, const struct container *archive,
                            const char *key, struct diags *diags)
{
	const char *path = archive->input.name;
	const struct npz *from = &archive->npz;
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

/* safetensors. */

enum { SAFETENSORS_HEADER = 100000000 };

static enum dtype safetensors_dtype(const char *name)
{
	static const struct {
		const char *name;
		enum dtype dtype;
	} names[] = {{"F16", DTYPE_F16}, {"BF16", DTYPE_BF16}, {"F32", DTYPE_F32},  {"F64", DTYPE_F64}, {"I8", DTYPE_I8},
	             {"I16", DTYPE_I16}, {"I32", DTYPE_I32},   {"I64", DTYPE_I64},  {"U8", DTYPE_U8},   {"U16", DTYPE_U16},
	             {"U32", DTYPE_U32}, {"U64", DTYPE_U64},   {"BOOL", DTYPE_BOOL}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i].name, name))
			return names[i].dtype;
	return DTYPE_COUNT;
}

static enum status tensor_type(const json_t *entry, struct type *type, int64_t *begin, int64_t *end)
{
	const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
	const json_t *offsets = json_object_get(entry, "data_offsets");
	if (!json_is_string(dtype) || !json_is_array(shape) || json_array_size(offsets) != 2)
		return STATUS_DATA;
	type->dtype = safetensors_dtype(json_string_value(dtype));
	type->shape.ndim = 0;
	for (size_t i = 0; i < json_array_size(shape); i++) {
		const json_t *extent = json_array_get(shape, i);
		if (i == MAX_DIMS)
			return STATUS_LIMIT;
		if (!json_is_integer(extent) || json_integer_value(extent) < 0)
			return STATUS_DATA;
		type->shape.dim[type->shape.ndim++] = json_integer_value(extent);
	}
	if (!json_is_integer(json_array_get(offsets, 0)) || !json_is_integer(json_array_get(offsets, 1)))
		return STATUS_DATA;
	*begin = json_integer_value(json_array_get(offsets, 0));
	*end = json_integer_value(json_array_get(offsets, 1));
	return STATUS_OK;
}

static const char metadata[] = "__metadata__"; /* what is no tensor */

static const json_t *find_tensor(json_t *header, const char **key, const char *path, struct arena *arena,
                                 struct diags *diags)
{
	const char *list = "", *name, *only = NULL;
	const json_t *found = *key && strcmp(*key, metadata) != 0 ? json_object_get(header, *key) : NULL;
	json_t *entry;
	size_t count = 0;
	if (found)
		return found;
	json_object_foreach(header, name, entry)
	{
		if (!strcmp(name, metadata))
			continue;
		only = name;
		if (count++ < 20 && list)
			list = arena_printf(arena, "%s%s%s", list, *list ? ", " : "", name);
	}
	if (!*key && count == 1) {
		*key = only;
		return json_object_get(header, only);
	}
	if (*key)
		diag_file(diags, STATUS_DATA, path, -1, "has no tensor '%s'", *key);
	else
		diag_file(diags, STATUS_DATA, path, -1, "has %zu tensors, and none is named", count);
	diag_hint(diags, "its tensors: %s", list ? list : "");
	return NULL;
}

struct extent {
	int64_t begin, end;
	const char *name;
};

static int by_begin(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;
	return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin) : (x->end > y->end) - (x->end < y->end);
}

/* Every tensor must lie in the bytes from DATA on, fit its type, and share no byte with another, and none may follow. */
static enum status check_tensors(json_t *header, const struct input *input, int64_t data, struct arena *arena,
                                 struct diags *diags)
{
	const char *path = input->name;
	const int64_t size = input->size - data;
	struct extent *extents = arena_array(arena, json_object_size(header) + 1, sizeof *extents);
	const char *name;
	json_t *entry;
	size_t count = 0;
	if (!extents)
		return diag_memory(diags);
	json_object_foreach(header, name, entry)
	{
		struct type type;
		struct extent *e = &extents[count];
		if (!strcmp(name, metadata))
			continue;
		const enum status status = tensor_type(entry, &type, &e->begin, &e->end);
		if (status == STATUS_LIMIT)
			return diag_file(diags, STATUS_LIMIT, path, 8, "tensor '%s': more than %d dimensions", name, MAX_DIMS);
		if (status)
			return diag_file(diags, STATUS_DATA, path, 8, "tensor '%s': dtype, shape and data_offsets are wanted",
			                 name);
		int64_t elements = shape_count(&type.shape), bytes = -1;
		bool known = type.dtype != DTYPE_COUNT; /* a type that is not known can be passed over */
		if (known && (elements < 0 || !checked_mul_i64(elements, (int64_t)dtype_size(type.dtype), &bytes)))
			bytes = -1;
		if (e->begin < 0 || e->end < e->begin || e->end > size || (known && e->end - e->begin != bytes))
			return diag_file(diags, STATUS_DATA, path, 8, "tensor '%s': its offsets do not fit its type or the file",
			                 name);
		e->name = name;
		count += e->end > e->begin;
	}
	qsort(extents, count, sizeof *extents, by_begin);
	for (size_t i = 1; i < count; i++)
		if (extents[i].begin < extents[i - 1].end)
			return diag_file(diags, STATUS_DATA, path, 8, "tensors '%s' and '%s' overlap", extents[i - 1].name,
			                 extents[i].name);
	const int64_t end = count ? extents[count - 1].end : 0;
	return end == size ? STATUS_OK
	                   : diag_file(diags, STATUS_DATA, path, data + end, "trailing bytes after the tensors");
}

static enum status load_tensor(const struct loader *loader, struct array *array, struct container *archive,
                               const char *key, struct diags *diags)
{
	const char *path = archive->input.name;
	struct type type;
	int64_t begin, end;
	const json_t *entry = find_tensor(archive->header, &key, path, loader->arena, diags);
	if (!entry)
		return STATUS_DATA;
	if (tensor_type(entry, &type, &begin, &end) || type.dtype == DTYPE_COUNT)
		return diag_file(diags, STATUS_DATA, path, -1, "tensor '%s': type '%s' is not supported", key,
		                 json_string_value(json_object_get(entry, "dtype")));
	array->type = type;
	if (loader->types)
		return STATUS_OK;
	struct reader reader;
	struct reader_options options = {.format = FORMAT_RAW, .assume = type.dtype, .cast = loader->cast, .raw = type};
	reader_init(&reader, &archive->input, &options, loader->arena);
	reader.type = type;
	reader.count = shape_count(&type.shape);
	reader.data = archive->data + begin;
	reader.swap = !convert_little_endian() && dtype_size(type.dtype) > 1;
	array->size = type_bytes(&type) > 0 ? (size_t)type_bytes(&type) : 1;
	array->data = allocator_get(loader->allocator, array->size, 1);
	if (!array->data)
		return diag_memory(diags);
	enum status status = reader_read_at(&reader, 0, array->data, dtype_compute(type.dtype), reader.count, diags);
	if (status)
		array_free(array, loader->allocator);
	return status;
}

/* Parses the LENGTH bytes of TEXT as ARCHIVE's header, and checks it. */
static enum status parse_header(const struct loader *loader, struct container *archive, const char *text, size_t length,
                                struct diags *diags)
{
	json_error_t error;
	json_t *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	enum status status;
	archive->data = 8 + (int64_t)length;
	if (!header && json_lacked_memory(&error))
		status = diag_memory(diags);
	else if (!json_is_object(header))
		status = diag_file(diags, STATUS_DATA, archive->input.name, 8 + (error.position > 0 ? error.position : 0),
		                   "safetensors header: %s", header ? "an object is wanted" : error.text);
	else
		status = check_tensors(header, &archive->input, archive->data, loader->arena, diags);
	if (status)
		json_decref(header);
	else
		archive->header = header;
	return status;
}

static enum status open_safetensors(const struct loader *loader, struct container *archive, struct diags *diags)
{
	const struct input *input = &archive->input;
	unsigned char prefix[8];
	size_t got;
	if (input->size < 0)
		return only_regular(input->name, "a safetensors file", diags);
	enum status status = input_read_at(input, 0, prefix, sizeof prefix, &got, diags);
	if (!status && got < sizeof prefix)
		status = diag_file(diags, STATUS_DATA, input->name, (int64_t)got, "truncated safetensors header");
	if (status)
		return status;
	uint64_t length = 0;
	for (int i = 7; i >= 0; i--)
		length = length << 8 | prefix[i];
	if (length > SAFETENSORS_HEADER && length <= (uint64_t)input->size)
		return diag_file(diags, STATUS_LIMIT, input->name, 0,
		                 "a safetensors header of %llu bytes is beyond the limit of %d", (unsigned long long)length,
		                 SAFETENSORS_HEADER);
	if (length > SAFETENSORS_HEADER || (int64_t)length > input->size - 8)
		return diag_file(diags, STATUS_DATA, input->name, 0, "a safetensors header of %llu bytes in a file of %lld",
		                 (unsigned long long)length, (long long)input->size);
	char *text = allocator_get(loader->allocator, (size_t)length + 1, 1);
	if (!text)
		return diag_memory(diags);
	status = input_read_at(input, 8, text, (size_t)length, &got, diags);
	if (!status && got < length)
		status = diag_file(diags, STATUS_DATA, input->name, 8 + (int64_t)got, "truncated safetensors header");
	if (!status)
		status = parse_header(loader, archive, text, (size_t)length, diags);
	allocator_put(loader->allocator, text, (size_t)length + 1);
	return status;
}

/* Archives. */

static struct container *find_archive(const struct loader *loader, const char *path)
{
	for (size_t i = 0; i < LOADER_KEPT && i < loader->opened; i++)
		if (!strcmp(loader->kept[i]->path, path))
			return loader->kept[i];
	return NULL;
}

static void close_archive(const struct loader *loader, struct container *archive)
{
	if (archive->npz.zip)
		archive->npz.lib->discard(archive->npz.zip);
	json_decref(archive->header);
	input_close(&archive->input);
	allocator_put(loader->allocator, archive, sizeof *archive);
}

/* Makes *INPUT, which is the archive's from then on, one that is kept. */
static enum status open_archive(struct loader *loader, const char *path, struct input *input, bool zip,
                                struct container **archive, struct diags *diags)
{
	struct container *made = allocator_get(loader->allocator, 1, sizeof *made);
	if (!made) {
		input_close(input);
		return diag_memory(diags);
	}
	*made = (struct container){.path = path, .input = *input};
	const enum status status = zip ? open_npz(&made->npz, input, diags) : open_safetensors(loader, made, diags);
	if (status) {
		close_archive(loader, made);
		return status;
	}
	const size_t slot = loader->opened % LOADER_KEPT;
	if (loader->opened++ >= LOADER_KEPT)
		close_archive(loader, loader->kept[slot]);
	*archive = loader->kept[slot] = made;
	return STATUS_OK;
}

static enum status load_archived(const struct loader *loader, struct array *array, struct container *archive,
                                 const char *key, struct diags *diags)
{
	return archive->npz.zip ? load_npz(loader, array, archive, key, diags)
	                        : load_tensor(loader, array, archive, key, diags);
}

enum status loader_load(struct loader *loader, struct array *array, const char *path, const char *key,
                        struct diags *diags)
{
	struct input input;
	const unsigned char *bytes;
	size_t got, length = strlen(path);
	struct container *archive = find_archive(loader, path);
	*array = (struct array){0};
	if (archive)
		return load_archived(loader, array, archive, key, diags);
	enum status status = input_open(&input, path, !loader->special, loader->arena, diags);
	if (status)
		return status;
	status = input_peek(&input, 10, &bytes, &got, diags);
	if (!status) {
		bool zip = got >= 4 && !memcmp(bytes, "PK", 2) && (bytes[2] == 3 || bytes[2] == 5);
		bool tensors = length > 12 && !strcmp(path + length - 12, ".safetensors");
		tensors = tensors || (got == 10 && bytes[8] == '{' && bytes[6] == 0 && bytes[7] == 0 && !npy_is(bytes, got));
		if (zip || tensors) {
			status = open_archive(loader, path, &input, zip, &archive, diags);
			return status ? status : load_archived(loader, array, archive, key, diags);
		}
		status = key ? diag_file(diags, STATUS_DATA, input.name, -1, "is no archive, and '%s' is wanted of it", key)
		             : load_stream(loader, array, &input, diags);
	}
	input_close(&input);
	return status;
}

void loader_close(struct loader *loader)
{
	for (size_t i = 0; i < LOADER_KEPT && i < loader->opened; i++)
		close_archive(loader, loader->kept[i]);
	loader->opened = 0;
}

enum status array_load(struct array *array, const char *path, const char *key, bool special, bool cast,
                       const struct allocator *allocator, struct arena *arena, struct diags *diags)
{
	struct loader loader = {.special = special, .cast = cast, .allocator = allocator, .arena = arena};
	const enum status status = loader_load(&loader, array, path, key, diags);
	loader_close(&loader);
	return status;
}

/* Out. */

enum status array_put(struct output *output, const struct type *type, const void *data, struct arena *arena,
                      struct diags *diags)
{
	struct writer writer;
	struct writer_options options = {.format = FORMAT_NPY};
	writer_init(&writer, output, &options, arena);
	enum status status = writer_begin(&writer, type, diags);
	if (!status)
		status = writer_write(&writer, data, dtype_compute(type->dtype), shape_count(&type->shape), diags);
	return status ? status : writer_end(&writer, diags);
}

/*
 * npz out: a zip archive of stored members, byte for byte what numpy.savez
 * makes (zip64 sizes in each local header, no time), which makes equal gradients
 * equal files. It is written in one pass from where the arrays are; libzip would
 * want a copy of each. Fields are those of PKWARE's APPNOTE 6.3.
 */

enum { LOCAL_HEADER = 30, LOCAL_EXTRA = 20, CENTRAL_HEADER = 46, ZIP_DATE = 0x21 /* 1 January 1980 */ };

struct member {
	int64_t offset, size;
	uint32_t crc;
};

struct archive {
	struct output *output;
	struct member *members;
	uint32_t table[8][256];
};

/* Tables for eight bytes at a time: table[k][b] is the remainder of byte b followed by k zero bytes. */
static void make_crc_table(uint32_t table[8][256])
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t c = b;
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
		table[0][b] = c;
	}
	for (uint32_t b = 0; b < 256; b++)
		for (int k = 1; k < 8; k++)
			table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

static uint32_t add_crc(uint32_t table[8][256], uint32_t crc, const void *data, size_t size)
{
	const unsigned char *p = data;
	for (crc = ~crc; size >= 8; size -= 8, p += 8) {
		crc ^= p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		crc = table[7][crc & 0xff] ^ table[6][crc >> 8 & 0xff] ^ table[5][crc >> 16 & 0xff] ^ table[4][crc >> 24] ^
		      table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
	}
	while (size-- > 0)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return ~crc;
}

/* VALUE in BYTES bytes, little-endian; what comes after. */
static unsigned char *put_field(unsigned char *p, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		*p++ = (unsigned char)(value >> 8 * i & 0xff);
	return p;
}

/* Python's zipfile keeps to 31 bits; what is beyond stands in the zip64 extra field, and 32 bits say so. */
static bool is_wide(int64_t value) { return value > INT32_MAX; }

static uint32_t field32(int64_t value) { return is_wide(value) ? UINT32_MAX : (uint32_t)value; }

/*
 * The values of A as they stand in a file, a block at a time: into *CRC, or,
 * where CRC is NULL, into the output.
 */
static enum status put_values(struct archive *z, const struct named_array *a, uint32_t *crc, struct diags *diags)
{
	enum { BLOCK = 4096 };
	const size_t count = (size_t)shape_count(&a->type.shape), size = dtype_size(a->type.dtype);
	const bool half = a->type.dtype == DTYPE_F16 || a->type.dtype == DTYPE_BF16, swap = !convert_little_endian();
	const size_t step = half || swap ? BLOCK : count ? count : 1;
	_Alignas(64) unsigned char block[BLOCK * sizeof(double)];
	for (size_t done = 0; done < count; done += step) {
		size_t n = count - done < step ? count - done : step;
		const void *bytes = half || swap ? block : a->data;
		if (half)
			(a->type.dtype == DTYPE_F16 ? convert_f32_to_f16 : convert_f32_to_bf16)((void *)block,
			                                                                        (const float *)a->data + done, n);
		else if (swap)
			memcpy(block, (const char *)a->data + done * size, n * size);
		if (swap)
			convert_swap(block, size, n);
		enum status status = STATUS_OK;
		if (crc)
			*crc = add_crc(z->table, *crc, bytes, n * size);
		else
			status = output_write(z->output, bytes, n * size, diags);
		if (status)
			return status;
	}
	return STATUS_OK;
}

static bool is_ascii(const char *name)
{
	while (*name && !(*name & 0x80))
		name++;
	return !*name;
}

static enum status put_member(struct archive *z, size_t i, const char *name, const struct named_array *a,
                              struct diags *diags)
{
	char header[NPY_HEADER_MOST];
	unsigned char local[LOCAL_HEADER + LOCAL_EXTRA], *p = local;
	size_t length = npy_make_header(&a->type, header), name_length = strlen(name);
	struct member *m = &z->members[i];
	m->offset = z->output->offset;
	m->size = (int64_t)length + shape_count(&a->type.shape) * (int64_t)dtype_size(a->type.dtype);
	m->crc = add_crc(z->table, 0, header, length);
	put_values(z, a, &m->crc, diags);
	p = put_field(p, 0x04034b50, 4);
	p = put_field(p, is_wide(m->size) ? 45 : 20, 2); /* the version of the format that is wanted */
	p = put_field(p, is_ascii(name) ? 0 : 0x800, 2);
	p = put_field(p, 0, 2); /* stored */
	p = put_field(p, 0, 2);
	p = put_field(p, ZIP_DATE, 2);
	p = put_field(p, m->crc, 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, name_length, 2);
	put_field(p, LOCAL_EXTRA, 2);
	unsigned char *extra = local + LOCAL_HEADER;
	extra = put_field(extra, 1, 2);
	extra = put_field(extra, 16, 2);
	extra = put_field(extra, (uint64_t)m->size, 8);
	put_field(extra, (uint64_t)m->size, 8);
	enum status status = output_write(z->output, local, LOCAL_HEADER, diags);
	if (!status)
		status = output_write(z->output, name, name_length, diags);
	if (!status)
		status = output_write(z->output, local + LOCAL_HEADER, LOCAL_EXTRA, diags);
	if (!status)
		status = output_write(z->output, header, length, diags);
	return status ? status : put_values(z, a, NULL, diags);
}

static enum status put_central(struct archive *z, size_t i, const char *name, struct diags *diags)
{
	const struct member *m = &z->members[i];
	unsigned char header[CENTRAL_HEADER], extra[4 + 24], *p = header, *e = extra + 4;
	if (is_wide(m->size)) {
		e = put_field(e, (uint64_t)m->size, 8);
		e = put_field(e, (uint64_t)m->size, 8);
	}
	if (is_wide(m->offset))
		e = put_field(e, (uint64_t)m->offset, 8);
	size_t extra_length = e == extra + 4 ? 0 : (size_t)(e - extra);
	put_field(put_field(extra, 1, 2), extra_length - 4, 2);
	p = put_field(p, 0x02014b50, 4);
	int version = extra_length ? 45 : 20;
	p = put_field(p, (uint64_t)version | 3 << 8, 2); /* made by unix */
	p = put_field(p, (uint64_t)version, 2);
	p = put_field(p, is_ascii(name) ? 0 : 0x800, 2);
	p = put_field(p, 0, 2);
	p = put_field(p, 0, 2);
	p = put_field(p, ZIP_DATE, 2);
	p = put_field(p, m->crc, 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, field32(m->size), 4);
	p = put_field(p, strlen(name), 2);
	p = put_field(p, extra_length, 2);
	p = put_field(p, 0, 2 + 2 + 2); /* no comment, the first disk, no attributes within */
	p = put_field(p, (uint64_t)0600 << 16, 4);
	put_field(p, field32(m->offset), 4);
	enum status status = output_write(z->output, header, CENTRAL_HEADER, diags);
	if (!status)
		status = output_write(z->output, name, strlen(name), diags);
	return status ? status : output_write(z->output, extra, extra_length, diags);
}

static enum status put_end(struct archive *z, size_t count, int64_t central, struct diags *diags)
{
	unsigned char end[56 + 20 + 22], *p = end;
	int64_t at = z->output->offset, size = at - central;
	if (count >= 0xffff || is_wide(size) || is_wide(central)) {
		p = put_field(p, 0x06064b50, 4);
		p = put_field(p, 44, 8);
		p = put_field(p, 45, 2);
		p = put_field(p, 45, 2);
		p = put_field(p, 0, 4 + 4);
		p = put_field(p, count, 8);
		p = put_field(p, count, 8);
		p = put_field(p, (uint64_t)size, 8);
		p = put_field(p, (uint64_t)central, 8);
		p = put_field(p, 0x07064b50, 4);
		p = put_field(p, 0, 4);
		p = put_field(p, (uint64_t)at, 8);
		p = put_field(p, 1, 4);
	}
	uint64_t short_count = count < 0xffff ? count : 0xffff;
	p = put_field(p, 0x06054b50, 4);
	p = put_field(p, 0, 4);
	p = put_field(p, short_count, 2);
	p = put_field(p, short_count, 2);
	p = put_field(p, field32(size), 4);
	p = put_field(p, field32(central), 4);
	p = put_field(p, 0, 2);
	return output_write(z->output, end, (size_t)(p - end), diags);
}

static enum status put_archive(struct archive *z, const struct named_array *arrays, size_t count, struct arena *arena,
                               struct diags *diags)
{
	const char **names = arena_array(arena, count + 1, sizeof *names);
	z->members = arena_array(arena, count + 1, sizeof *z->members);
	enum status status = names && z->members ? STATUS_OK : diag_memory(diags);
	make_crc_table(z->table);
	for (size_t i = 0; i < count && !status; i++) {
		names[i] = arena_printf(arena, "%s.npy", arrays[i].name);
		if (!names[i])
			return diag_memory(diags);
		if (strlen(names[i]) > 0xffff)
			return diag_file(diags, STATUS_LIMIT, z->output->name, -1, "a member's name is longer than 64 KiB");
		status = put_member(z, i, names[i], &arrays[i], diags);
	}
	int64_t central = z->output->offset;
	for (size_t i = 0; i < count && !status; i++)
		status = put_central(z, i, names[i], diags);
	return status ? status : put_end(z, count, central, diags);
}

enum status npz_put(struct output *output, const struct named_array *arrays, size_t count, struct arena *arena,
                    struct diags *diags)
{
	struct archive archive = {.output = output};
	return put_archive(&archive, arrays, count, arena, diags);
}
