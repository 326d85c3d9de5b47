/*
 * safetensors: eight bytes of length, a JSON header, and raw tensors. The whole header is
 * checked when the file is opened: the tensors must fill the rest of the file one after
 * another, without gap or overlap.
 */
#include "io/archives.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { LENGTH_BYTES = 8, SAFETENSORS_HEADER = 100000000 };

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

static const char metadata[] = "__metadata__"; /* the one key that names no tensor */

static const json_t *find_tensor(json_t *header, const char **key, const char *path, const struct context *context)
{
	struct diags *diags = context->diags;
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
			list = arena_printf(context->arena, "%s%s%s", list, *list ? ", " : "", name);
	}
	if (!*key && count == 1) {
		*key = only;
		return json_object_get(header, only);
	}
	if (count == 0) {
		diag_file(diags, STATUS_DATA, path, -1, "has no tensors");
		return NULL;
	}
	if (*key)
		diag_file(diags, STATUS_DATA, path, -1, "has no tensor '%s'", *key);
	else
		diag_file(diags, STATUS_DATA, path, -1, "has %zu tensors, and no name chooses one", count);
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

/* Writes *EXTENT of the tensor NAME, which must fit its type and the SIZE bytes of data. */
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
	if (fits && type.dtype != DTYPE_COUNT) { /* a tensor of an unknown type may be passed over */
		const int64_t elements = shape_count(&type.shape);
		fits = elements >= 0 && checked_mul_i64(elements, (int64_t)dtype_size(type.dtype), &bytes) &&
		       extent->end - extent->begin == bytes;
	}
	return fits ? STATUS_OK
	            : json_wrong(header, &path, STATUS_DATA, "tensor '%s': its offsets do not fit its type or the file",
	                         name);
}

/* The COUNT extents must lie one after another, and fill the SIZE bytes from byte DATA of the file on. */
static enum status check_extents(struct extent *extents, size_t count, int64_t data, int64_t size, const char *file,
                                 struct diags *diags)
{
	int64_t end = 0;
	qsort(extents, count, sizeof *extents, by_begin);
	for (size_t i = 0; i < count; i++) {
		const char *name = extents[i].name;
		if (extents[i].begin < end)
			return diag_file(diags, STATUS_DATA, file, data + extents[i].begin, "tensors '%s' and '%s' overlap",
			                 extents[i - 1].name, name);
		if (extents[i].begin > end)
			return diag_file(diags, STATUS_DATA, file, data + end, "bytes without a tensor before '%s'", name);
		end = extents[i].end;
	}
	return end == size ? STATUS_OK
	                   : diag_file(diags, STATUS_DATA, file, data + end, "trailing bytes after the tensors");
}

/* Checks all tensors of HEADER, whose data are the SIZE bytes after it. */
static enum status check_tensors(const struct json_text *header, int64_t size)
{
	const struct context *context = header->context;
	if (!json_is_object(header->top))
		return json_wrong(header, NULL, STATUS_DATA, "the safetensors header must be an object { ... }");
	struct extent *extents = arena_array(context->arena, json_object_size(header->top) + 1, sizeof *extents);
	const char *name;
	json_t *entry;
	size_t count = 0;
	TRY_ALLOC(extents, context->diags);
	json_object_foreach(header->top, name, entry)
	{
		if (!strcmp(name, metadata))
			continue;
		TRY(check_tensor(header, name, entry, size, &extents[count]));
		count += extents[count].end > extents[count].begin;
	}
	const int64_t data = header->offset + (int64_t)header->source->length;
	return check_extents(extents, count, data, size, header->source->name, context->diags);
}

enum status tensors_load(const struct loader *loader, struct array *array, const struct tensors *tensors,
                         const char *key)
{
	const struct context *context = loader->context;
	struct diags *diags = context->diags;
	const char *path = tensors->input->name;
	struct type type;
	int64_t begin, end;
	const json_t *entry = find_tensor(tensors->header, &key, path, context);
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
	reader_init(&reader, tensors->input, &options, context->arena);
	TRY(reader_begin_at(&reader, &type, tensors->data + begin, diags));
	return load_begun(loader, array, &reader);
}

/* Parses the LENGTH bytes of TEXT as the header of TENSORS, and checks it. */
static enum status parse_header(struct tensors *tensors, const char *text, size_t length, const struct context *context)
{
	const struct source source = {tensors->input->name, text, length};
	struct json_text header;
	tensors->data = LENGTH_BYTES + (int64_t)length;
	enum status status = json_open(&header, &source, LENGTH_BYTES, context);
	if (!status)
		status = check_tensors(&header, tensors->input->size - tensors->data);
	if (status)
		json_close(&header);
	tensors->header = header.top;
	return status;
}

enum status tensors_open(struct tensors *tensors, struct input *input, const struct context *context)
{
	struct diags *diags = context->diags;
	*tensors = (struct tensors){.input = input};
	unsigned char prefix[8];
	size_t got;
	if (input->size < 0)
		return load_only_regular(input->name, "a safetensors file", diags);
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
	char *text = allocator_get(context->allocator, (size_t)length + 1, 1);
	TRY_ALLOC(text, diags);
	status = input_read_at(input, 8, text, (size_t)length, &got, diags);
	if (!status && got < length)
		status = diag_file(diags, STATUS_DATA, input->name, 8 + (int64_t)got, "truncated safetensors header");
	if (!status)
		status = parse_header(tensors, text, (size_t)length, context);
	allocator_put(context->allocator, text, (size_t)length + 1);
	return status;
}

void tensors_close(struct tensors *tensors) { json_decref(tensors->header); }
