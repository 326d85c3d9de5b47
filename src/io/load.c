/*
 * Whole arrays from files, by what the files hold: npy, npz (a zip archive of
 * npy members), safetensors (a JSON header and raw tensors), or text.
 */
#include "io/load.h"

#include <jansson.h>
#include <string.h>
#include <zip.h>

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
	int64_t bytes = type_bytes(&array->type);
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

static enum status load_stream(struct array *array, struct input *input, bool cast, const struct allocator *allocator,
                               struct arena *arena, struct diags *diags)
{
	struct reader reader;
	struct reader_options options = {.assume = DTYPE_BF16, .cast = cast, .raw = {.shape = {.ndim = -1}}};
	bool end;
	reader_init(&reader, input, &options, arena);
	enum status status = reader_next(&reader, &end, diags);
	if (!status)
		status = read_array(array, &reader, allocator, diags);
	if (!status) {
		status = reader_next(&reader, &end, diags);
		if (!status && !end)
			status = diag_file(diags, STATUS_DATA, input->name, -1, "holds more than one array");
		if (status)
			array_free(array, allocator);
	}
	reader_free(&reader);
	return status;
}

/* npz. */

static const char *list_members(zip_t *zip, struct arena *arena)
{
	const char *list = "";
	zip_int64_t count = zip_get_num_entries(zip, 0);
	for (zip_int64_t i = 0; i < count && i < 20 && list; i++) {
		const char *name = zip_get_name(zip, (zip_uint64_t)i, 0);
		size_t length = name ? strlen(name) : 0;
		if (length > 4 && !strcmp(name + length - 4, ".npy"))
			length -= 4;
		list = arena_printf(arena, "%s%s%.*s", list, i ? ", " : "", (int)length, name ? name : "?");
	}
	return list ? list : "";
}

static zip_int64_t find_member(zip_t *zip, const char *key, struct arena *arena)
{
	if (!key)
		return zip_get_num_entries(zip, 0) == 1 ? 0 : -1;
	zip_int64_t at = zip_name_locate(zip, key, 0);
	const char *npy = at < 0 ? arena_printf(arena, "%s.npy", key) : NULL;
	return npy ? zip_name_locate(zip, npy, 0) : at;
}

static enum status load_member(struct array *array, zip_t *zip, zip_uint64_t at, const char *path, const char *name,
                               const struct allocator *allocator, struct arena *arena, struct diags *diags)
{
	zip_stat_t st;
	if (zip_stat_index(zip, at, 0, &st) != 0 || !(st.valid & ZIP_STAT_SIZE))
		return diag_file(diags, STATUS_DATA, path, -1, "member '%s' cannot be read: %s", name, zip_strerror(zip));
	zip_file_t *file = zip_fopen_index(zip, at, 0);
	if (!file)
		return diag_file(diags, STATUS_DATA, path, -1, "member '%s' cannot be read: %s", name, zip_strerror(zip));
	/* The size that the archive claims is believed only as far as data comes. */
	size_t used = 0, capacity = st.size < ((size_t)1 << 20) ? (size_t)st.size + 1 : (size_t)1 << 20;
	char *data = allocator_get(allocator, capacity, 1);
	zip_int64_t n = 0;
	while (data && (n = zip_fread(file, data + used, capacity - used)) > 0) {
		used += (size_t)n;
		if (used == capacity) {
			char *grown = allocator->resize(allocator->context, data, capacity, 2 * capacity);
			if (!grown)
				break;
			data = grown;
			capacity *= 2;
		}
	}
	enum status status = STATUS_OK;
	if (!data || used == capacity)
		status = diag_memory(diags);
	else if (n < 0 || used < st.size)
		status = diag_file(diags, STATUS_DATA, path, -1, "member '%s' is damaged: %s", name, zip_file_strerror(file));
	if (zip_fclose(file) != 0 && !status)
		status = diag_file(diags, STATUS_DATA, path, -1, "member '%s' is damaged", name);
	if (!status) {
		const char *label = arena_printf(arena, "%s(%s)", path, name);
		struct input input = {.fd = -1,
		                      .name = label ? label : path,
		                      .size = -1,
		                      .buffer = (unsigned char *)data,
		                      .end = used,
		                      .capacity = used,
		                      .eof = true,
		                      .arena = arena};
		status = load_stream(array, &input, true, allocator, arena, diags);
	}
	if (data)
		allocator_put(allocator, data, capacity);
	return status;
}

static enum status load_npz(struct array *array, const char *path, const char *key, const struct allocator *allocator,
                            struct arena *arena, struct diags *diags)
{
	int code = 0;
	zip_t *zip = zip_open(path, ZIP_RDONLY, &code);
	if (!zip) {
		zip_error_t error;
		zip_error_init_with_code(&error, code);
		diag_file(diags, STATUS_DATA, path, -1, "not a readable npz: %s", zip_error_strerror(&error));
		zip_error_fini(&error);
		return STATUS_DATA;
	}
	enum status status;
	zip_int64_t at = find_member(zip, key, arena);
	if (at >= 0) {
		status = load_member(array, zip, (zip_uint64_t)at, path, key ? key : zip_get_name(zip, 0, 0), allocator, arena,
		                     diags);
	} else {
		status = key ? diag_file(diags, STATUS_DATA, path, -1, "has no member '%s'", key)
		             : diag_file(diags, STATUS_DATA, path, -1, "has several members, and none is named");
		diag_hint(diags, "its members: %s", list_members(zip, arena));
	}
	zip_discard(zip);
	return status;
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
		if (i == MAX_DIMS || !json_is_integer(extent) || json_integer_value(extent) < 0)
			return STATUS_DATA;
		type->shape.dim[type->shape.ndim++] = json_integer_value(extent);
	}
	if (!json_is_integer(json_array_get(offsets, 0)) || !json_is_integer(json_array_get(offsets, 1)))
		return STATUS_DATA;
	*begin = json_integer_value(json_array_get(offsets, 0));
	*end = json_integer_value(json_array_get(offsets, 1));
	return STATUS_OK;
}

static const json_t *find_tensor(const json_t *header, const char *key, const char *path, struct arena *arena,
                                 struct diags *diags)
{
	const char *list = "", *name;
	const json_t *found = NULL, *entry;
	size_t count = 0;
	json_object_foreach((json_t *)(uintptr_t)header, name, entry)
	{
		if (!strcmp(name, "__metadata__"))
			continue;
		if (key ? !strcmp(name, key) : true)
			found = entry;
		if (count++ < 20 && list)
			list = arena_printf(arena, "%s%s%s", list, *list ? ", " : "", name);
	}
	if (found && (key || count == 1))
		return found;
	if (key)
		diag_file(diags, STATUS_DATA, path, -1, "has no tensor '%s'", key);
	else
		diag_file(diags, STATUS_DATA, path, -1, "has %zu tensors, and none is named", count);
	diag_hint(diags, "its tensors: %s", list ? list : "");
	return NULL;
}

static enum status load_tensor(struct array *array, struct input *input, const json_t *header, int64_t data,
                               const char *key, bool cast, const struct allocator *allocator, struct arena *arena,
                               struct diags *diags)
{
	const char *path = input->name;
	const json_t *entry = find_tensor(header, key, path, arena, diags);
	struct type type;
	int64_t begin, end;
	if (!entry)
		return STATUS_DATA;
	if (tensor_type(entry, &type, &begin, &end) || type.dtype == DTYPE_COUNT)
		return diag_file(diags, STATUS_DATA, path, -1, "tensor '%s': a type that is not known", key ? key : "");
	int64_t count = shape_count(&type.shape);
	if (count < 0 || begin < 0 || end < begin || (end - begin) / (int64_t)dtype_size(type.dtype) != count ||
	    (end - begin) % (int64_t)dtype_size(type.dtype) || end > input->size - data)
		return diag_file(diags, STATUS_DATA, path, -1, "tensor '%s': its offsets do not fit its type or the file",
		                 key ? key : "");
	struct reader reader;
	struct reader_options options = {.format = FORMAT_RAW, .assume = type.dtype, .cast = cast, .raw = type};
	reader_init(&reader, input, &options, arena);
	reader.type = type;
	reader.count = count;
	reader.data = data + begin;
	array->type = type;
	array->size = type_bytes(&type) > 0 ? (size_t)type_bytes(&type) : 1;
	array->data = allocator_get(allocator, array->size, 1);
	if (!array->data)
		return diag_memory(diags);
	enum status status = reader_read_at(&reader, 0, array->data, dtype_compute(type.dtype), count, diags);
	if (status)
		array_free(array, allocator);
	return status;
}

static enum status load_safetensors(struct array *array, struct input *input, const char *key, bool cast,
                                    const struct allocator *allocator, struct arena *arena, struct diags *diags)
{
	unsigned char prefix[8];
	size_t got;
	enum status status = input_read_at(input, 0, prefix, sizeof prefix, &got, diags);
	uint64_t length = 0;
	for (int i = 7; i >= 0 && !status; i--)
		length = length << 8 | prefix[i];
	if (status)
		return status;
	if (got < sizeof prefix || length > SAFETENSORS_HEADER || (int64_t)length > input->size - 8)
		return diag_file(diags, STATUS_DATA, input->name, 0, "a safetensors header of %llu bytes in a file of %lld",
		                 (unsigned long long)length, (long long)input->size);
	char *text = allocator_get(allocator, (size_t)length + 1, 1);
	if (!text)
		return diag_memory(diags);
	status = input_read_at(input, 8, text, (size_t)length, &got, diags);
	if (!status && got < length)
		status = diag_file(diags, STATUS_DATA, input->name, 8 + (int64_t)got, "truncated safetensors header");
	if (!status) {
		json_error_t error;
		json_t *header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
		if (!json_is_object(header))
			status = diag_file(diags, STATUS_DATA, input->name, 8 + (error.position > 0 ? error.position : 0),
			                   "safetensors header: %s", error.text);
		else
			status = load_tensor(array, input, header, 8 + (int64_t)length, key, cast, allocator, arena, diags);
		json_decref(header);
	}
	allocator_put(allocator, text, (size_t)length + 1);
	return status;
}

enum status array_load(struct array *array, const char *path, const char *key, bool special, bool cast,
                       const struct allocator *allocator, struct arena *arena, struct diags *diags)
{
	struct input input;
	const unsigned char *bytes;
	size_t got, length = strlen(path);
	*array = (struct array){0};
	enum status status = input_open(&input, path, !special, arena, diags);
	if (status)
		return status;
	status = input_peek(&input, 10, &bytes, &got, diags);
	if (!status) {
		bool zip = got >= 4 && !memcmp(bytes, "PK", 2) && (bytes[2] == 3 || bytes[2] == 5);
		bool tensors = length > 12 && !strcmp(path + length - 12, ".safetensors");
		tensors = tensors || (got == 10 && bytes[8] == '{' && bytes[6] == 0 && bytes[7] == 0 && !npy_is(bytes, got));
		if (zip)
			status = load_npz(array, path, key, allocator, arena, diags);
		else if (tensors && input.size >= 0)
			status = load_safetensors(array, &input, key, cast, allocator, arena, diags);
		else if (key)
			status = diag_file(diags, STATUS_DATA, path, -1, "is no archive, and '%s' is wanted of it", key);
		else
			status = load_stream(array, &input, cast, allocator, arena, diags);
	}
	input_close(&input);
	return status;
}

/* Out. */

enum status array_save(const char *path, const struct type *type, const void *data, struct arena *arena,
                       struct diags *diags)
{
	struct output output;
	struct writer writer;
	struct writer_options options = {.format = FORMAT_NPY};
	enum status status = output_open(&output, path, arena, diags);
	if (status)
		return status;
	writer_init(&writer, &output, &options, arena);
	status = writer_begin(&writer, type, diags);
	if (!status)
		status = writer_write(&writer, data, dtype_compute(type->dtype), shape_count(&type->shape), diags);
	if (!status)
		status = writer_end(&writer, diags);
	if (!status)
		return output_commit(&output, diags);
	output_abort(&output);
	return status;
}

/* An npy file's bytes as a zip source. */
static zip_source_t *member_source(zip_t *zip, const struct named_array *a, struct arena *arena)
{
	char header[NPY_HEADER_MOST];
	size_t length = npy_make_header(&a->type, header), size = (size_t)type_bytes(&a->type);
	char *bytes = arena_alloc(arena, length + size);
	if (!bytes)
		return NULL;
	memcpy(bytes, header, length);
	memcpy(bytes + length, a->data, size);
	return zip_source_buffer(zip, bytes, length + size, 0);
}

enum status npz_save(const char *path, const struct named_array *arrays, size_t count, struct arena *arena,
                     struct diags *diags)
{
	struct output output;
	zip_error_t error;
	enum status status = output_open(&output, path, arena, diags);
	if (status)
		return status;
	/* The archive is made in memory, so that writing it has one path and one way to fail. */
	zip_error_init(&error);
	zip_source_t *sink = zip_source_buffer_create(NULL, 0, 0, &error);
	zip_t *zip = sink ? zip_open_from_source(sink, ZIP_TRUNCATE, &error) : NULL;
	if (!zip) {
		output_abort(&output);
		return diag_memory(diags);
	}
	zip_source_keep(sink);
	bool ok = true;
	for (size_t i = 0; i < count && ok; i++) {
		const char *name = arena_printf(arena, "%s.npy", arrays[i].name);
		zip_source_t *member = name ? member_source(zip, &arrays[i], arena) : NULL;
		zip_int64_t at = member ? zip_file_add(zip, name, member, ZIP_FL_ENC_UTF_8) : -1;
		ok = at >= 0 && zip_set_file_compression(zip, (zip_uint64_t)at, ZIP_CM_STORE, 0) == 0;
	}
	if (!ok)
		zip_discard(zip);
	ok = ok && zip_close(zip) == 0;
	if (!ok)
		status = diag_memory(diags);
	if (ok && count == 0) /* libzip makes no file of an archive without members */
		status = output_write(&output, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22, diags);
	if (ok && count && zip_source_open(sink) == 0) {
		char block[1 << 14];
		zip_int64_t n;
		while (!status && (n = zip_source_read(sink, block, sizeof block)) > 0)
			status = output_write(&output, block, (size_t)n, diags);
		zip_source_close(sink);
	}
	zip_source_free(sink);
	zip_error_fini(&error);
	if (!status)
		return output_commit(&output, diags);
	output_abort(&output);
	return status;
}
