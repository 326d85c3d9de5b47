/*
 * safetensors: eight bytes of length, a JSON header, and raw tensors. The whole header is checked when the file is
 * opened: the tensors, in any order, must fill the rest of the file without gap or overlap. Dtypes may be unknown.
 * Tests: tests/unit/test_load.c
 */
#include "io/formats.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { LENGTH_BYTES = 8 };

/* Returns the dtype whose name in capitals is NAME, or DTYPE_COUNT. */
static enum dtype safetensors_dtype(const char *name)
{
	char small[8];
	const size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
	if (name[length] || length > sizeof small)
		return DTYPE_COUNT;
	for (size_t i = 0; i < length; i++)
		small[i] = (char)tolower(name[i]);
	return dtype_find(small, length);
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

size_t tensors_names(const struct archive *archive, const char **names)
{
	const char *name;
	json_t *entry;
	size_t count = 0;
	json_object_foreach(archive->header.top, name, entry)
	{
		if (!strcmp(name, TENSORS_METADATA))
			continue;
		if (names)
			names[count] = arena_strndup(archive->context->arena, name, strlen(name));
		count++;
	}
	return count;
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

/* Sets *EXTENT to the range of the tensor NAME. It must lie in the SIZE bytes of data, and fit the type if known. */
static enum status check_tensor(const struct json_text *header, const char *name, const json_t *entry, int64_t size,
                                struct extent *extent)
{
	const struct json_path path = {.key = name};
	struct type type;
	int64_t bytes;
	const enum status status = tensor_type(entry, &type, &extent->begin, &extent->end);
	if (status == STATUS_LIMIT)
		return json_wrong(header, &path, STATUS_LIMIT, "tensor '%s': more than %d dimensions", name, MAX_DIMS);
	if (status)
		return json_wrong(header, &path, STATUS_DATA, "tensor '%s': dtype, shape and data_offsets must be there", name);
	extent->name = name;
	bool fits = extent->begin >= 0 && extent->end >= extent->begin && extent->end <= size;
	if (fits && type.dtype != DTYPE_COUNT) { /* a file may hold tensors of unknown types */
		const int64_t elements = shape_count(&type.shape);
		fits = elements >= 0 && checked_mul_i64(elements, (int64_t)dtype_size(type.dtype), &bytes) &&
		       extent->end - extent->begin == bytes;
	}
	return fits ? STATUS_OK
	            : json_wrong(header, &path, STATUS_DATA, "tensor '%s': its offsets do not fit its type or the file",
	                         name);
}

/* Checks all tensors of HEADER, listed in any order: together they must fill the SIZE bytes from byte DATA of the file on. */
static enum status check_tensors(const struct json_text *header, int64_t data, int64_t size)
{
	const struct context *context = header->context;
	const char *file = header->source->name, *name;
	if (!json_is_object(header->top))
		return json_wrong(header, NULL, STATUS_DATA, "the safetensors header must be an object { ... }");
	struct extent *extents = arena_array(context->arena, json_object_size(header->top) + 1, sizeof *extents);
	json_t *entry;
	size_t count = 0;
	TRY_ALLOC(extents, context->diags);
	json_object_foreach(header->top, name, entry)
	{
		if (!strcmp(name, TENSORS_METADATA))
			continue;
		TRY(check_tensor(header, name, entry, size, &extents[count]));
		count += extents[count].end > extents[count].begin;
	}
	int64_t end = 0;
	qsort(extents, count, sizeof *extents, by_begin);
	for (const struct extent *e = extents; e < extents + count; end = e++->end) {
		if (e->begin < end)
			return diag_file(context->diags, STATUS_DATA, file, data + e->begin, "tensors '%s' and '%s' overlap",
			                 e[-1].name, e->name);
		if (e->begin > end)
			return diag_file(context->diags, STATUS_DATA, file, data + end, "bytes without a tensor before '%s'",
			                 e->name);
	}
	return end == size ? STATUS_OK
	                   : diag_file(context->diags, STATUS_DATA, file, data + end, "trailing bytes after the tensors");
}

enum status tensors_load(struct loader *loader, struct array *array, struct archive *archive, const char *key)
{
	struct diags *diags = archive->context->diags;
	struct type type;
	int64_t begin, end;
	if (!key && tensors_names(archive, NULL) == 1) {
		const char *const *names;
		size_t count;
		TRY(archive_names(archive, &names, &count));
		key = names[0];
	}
	const json_t *entry = key && strcmp(key, TENSORS_METADATA) != 0 ? json_object_get(archive->header.top, key) : NULL;
	if (!entry)
		return archive_lacks(archive, key);
	if (tensor_type(entry, &type, &begin, &end) || type.dtype == DTYPE_COUNT)
		return diag_file(diags, STATUS_DATA, archive->input.name, -1, "tensor '%s': type '%s' is not supported", key,
		                 json_string_value(json_object_get(entry, "dtype")));
	array->type = type;
	if (loader->types && !loader->leaves)
		return STATUS_OK;
	struct reader reader;
	const struct reader_options options = {.format = FORMAT_RAW, .cast = loader->cast};
	reader_init(&reader, &archive->input, &options, archive->context->arena);
	TRY(reader_begin_at(&reader, &type, archive->data + begin, diags));
	TRY(stored_leave(loader, array, &reader, &(struct stored_array){.input = archive->input}));
	return array->stored || loader->types ? STATUS_OK : load_begun(loader, array, &reader);
}

/* Reads SIZE bytes of the header from byte OFFSET of INPUT on. */
static enum status read_header(const struct input *input, int64_t offset, void *to, size_t size, struct diags *diags)
{
	size_t got;
	TRY(input_read_at(input, offset, to, size, &got, diags));
	return got == size
	           ? STATUS_OK
	           : diag_file(diags, STATUS_DATA, input->name, offset + (int64_t)got, "truncated safetensors header");
}

enum status tensors_open(struct archive *archive)
{
	const struct context *context = archive->context;
	const struct input *input = &archive->input;
	struct diags *diags = context->diags;
	unsigned char prefix[LENGTH_BYTES];
	uint64_t length = 0;
	TRY(read_header(input, 0, prefix, sizeof prefix, diags));
	for (int i = LENGTH_BYTES - 1; i >= 0; i--)
		length = length << 8 | prefix[i];
	if (length > TENSORS_HEADER_MOST && length <= (uint64_t)input->size)
		return diag_file(diags, STATUS_LIMIT, input->name, 0,
		                 "a safetensors header of %llu bytes is beyond the limit of %d", (unsigned long long)length,
		                 TENSORS_HEADER_MOST);
	if (length > TENSORS_HEADER_MOST || (int64_t)length > input->size - LENGTH_BYTES)
		return diag_file(diags, STATUS_DATA, input->name, 0, "a safetensors header of %llu bytes in a file of %lld",
		                 (unsigned long long)length, (long long)input->size);
	char *text = allocator_get(context->allocator, (size_t)length + 1, 1);
	TRY_ALLOC(text, diags);
	struct source source = {input->name, text, (size_t)length};
	archive->data = LENGTH_BYTES + (int64_t)length;
	enum status status = read_header(input, LENGTH_BYTES, text, (size_t)length, diags);
	while (!status && source.length > 0 && text[source.length - 1] == '\0') /* some writers pad by NULs, not blanks */
		source.length--;
	if (!status)
		status = json_open(&archive->header, &source, LENGTH_BYTES, context);
	if (!status)
		status = check_tensors(&archive->header, archive->data, input->size - archive->data);
	allocator_put(context->allocator, text, (size_t)length + 1);
	return status;
}
