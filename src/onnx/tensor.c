/*
 * Tensors of a model: from its own fields, from raw bytes, and from files beside it.
 *
 * External data are read from the folder of the model alone. A location that leads out of it, by `..`, as an absolute path
 * or by a link, is an error: a model from elsewhere would else copy any file of the user into its weights.
 * Tests: tests/scripts/check-import
 */
#include "onnx/importer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "io/paths.h"

/* Where the bytes of a tensor are. */
struct external {
	const char *location;
	int64_t offset, length; /* -1: not given */
};

static bool parse_offset(const char *text, int64_t *offset)
{
	char *end;
	errno = 0;
	const long long number = strtoll(text, &end, 10);
	*offset = number;
	return !errno && *text && !*end && number >= 0;
}

static enum status read_location(struct importer *im, const Onnx__TensorProto *proto, const char *name,
                                 struct external *where)
{
	bool good = true;
	*where = (struct external){NULL, 0, -1};
	for (size_t i = 0; i < proto->n_external_data; i++) {
		const Onnx__StringStringEntryProto *entry = proto->external_data[i];
		if (!entry->key || !entry->value)
			continue;
		if (!strcmp(entry->key, "location"))
			where->location = entry->value;
		if (!strcmp(entry->key, "offset"))
			good &= parse_offset(entry->value, &where->offset);
		if (!strcmp(entry->key, "length"))
			good &= parse_offset(entry->value, &where->length);
	}
	if (good && where->location && *where->location)
		return STATUS_OK;
	return diag_file(im->context->diags, STATUS_DATA, im->request->path, -1,
	                 "the external data of '%s' have no location, or a wrong offset or length", name);
}

/* Sets *PATH to that of LOCATION, once it is known to lie in the model's folder. */
static enum status find_external(struct importer *im, const char *location, const char *name, const char **path)
{
	struct arena *arena = im->context->arena;
	const char *model = im->request->path, *slash = strrchr(model, '/');
	char real[PATH_MAX], folder[PATH_MAX];
	const char *directory = slash ? arena_strndup(arena, model, (size_t)(slash - model) + 1) : "./";
	*path = directory ? arena_printf(arena, "%s%s", directory, location) : NULL;
	TRY_ALLOC(*path, im->context->diags);
	if (*location == '/')
		return diag_file(im->context->diags, STATUS_DATA, model, -1,
		                 "the external data of '%s' are at '%s', outside of the model's folder", name, location);
	if (!io_real_path(*path, real))
		return diag_file(im->context->diags, STATUS_IO, *path, -1, "cannot open the external data of '%s': %s", name,
		                 strerror(errno));
	const bool found = io_real_path(directory, folder);
	const size_t length = found ? strlen(folder) : 0;
	if (!found || strncmp(real, folder, length) || (real[length] != '/' && strcmp(folder, "/")))
		return diag_file(im->context->diags, STATUS_DATA, model, -1,
		                 "the external data of '%s' are at '%s', outside of the model's folder", name, location);
	return STATUS_OK;
}

static enum status read_external(struct importer *im, const Onnx__TensorProto *proto, const char *name, size_t bytes,
                                 const void **raw)
{
	struct external where;
	const char *path;
	struct stat st;
	struct diags *diags = im->context->diags;
	TRY(read_location(im, proto, name, &where));
	TRY(find_external(im, where.location, name, &path));
	if (where.length >= 0 && (uint64_t)where.length != bytes)
		return diag_file(diags, STATUS_DATA, im->request->path, -1,
		                 "'%s' takes %zu bytes, but its external data have %lld", name, bytes, (long long)where.length);
	const int fd = io_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		const enum status status = diag_file(diags, STATUS_IO, path, -1, "cannot read the external data of '%s': %s",
		                                     name, fd < 0 ? strerror(errno) : "no regular file");
		if (fd >= 0)
			close(fd);
		return status;
	}
	/* A size that the file does not have is refused before memory is taken for it. */
	const bool fits = st.st_size >= where.offset && (uint64_t)(st.st_size - where.offset) >= bytes;
	void *to = fits ? arena_alloc(im->context->arena, bytes ? bytes : 1) : NULL;
	size_t got = 0;
	const bool good = to && io_read_at(fd, where.offset, to, bytes, &got);
	close(fd);
	if (fits)
		TRY_ALLOC(to, diags);
	if (!good || got < bytes)
		return diag_file(diags, fits && !good ? STATUS_IO : STATUS_DATA, path, where.offset,
		                 "the file ends before the %zu bytes of '%s'", bytes, name);
	*raw = to;
	return STATUS_OK;
}

/* A field of numbers, as protobuf-c has it. */
struct field {
	size_t count;
	const void *numbers;
	enum dtype dtype;
};

/* Returns the field in which PROTO has elements of DTYPE. */
static struct field find_numbers(const Onnx__TensorProto *proto, enum dtype dtype)
{
	switch (dtype) {
	case DTYPE_F32:
		return (struct field){proto->n_float_data, proto->float_data, DTYPE_F32};
	case DTYPE_F64:
		return (struct field){proto->n_double_data, proto->double_data, DTYPE_F64};
	case DTYPE_I64:
		return (struct field){proto->n_int64_data, proto->int64_data, DTYPE_I64};
	case DTYPE_U32:
	case DTYPE_U64:
		return (struct field){proto->n_uint64_data, proto->uint64_data, DTYPE_U64};
	default:
		return (struct field){proto->n_int32_data, proto->int32_data, DTYPE_I32};
	}
}

/* Returns COUNT elements of DTYPE, made of the wider ones of FIELD. */
static const void *narrow(struct arena *arena, const struct field *field, enum dtype dtype, size_t count)
{
	const size_t size = dtype_size(dtype);
	char *to = arena_array(arena, count + 1, size);
	for (size_t i = 0; to && i < count; i++) {
		const uint64_t wide = field->dtype == DTYPE_U64 ? ((const uint64_t *)field->numbers)[i]
		                                                : (uint64_t)(int64_t)((const int32_t *)field->numbers)[i];
		const uint8_t one = (uint8_t)wide;
		const uint16_t two = (uint16_t)wide;
		const uint32_t four = (uint32_t)wide;
		memcpy(to + i * size,
		       size == 1   ? (const void *)&one
		       : size == 2 ? (const void *)&two
		       : size == 4 ? (const void *)&four
		                   : (const void *)&wide,
		       size);
	}
	return to;
}

static enum status find_elements(struct importer *im, const Onnx__TensorProto *proto, const char *name,
                                 struct tensor *tensor)
{
	const enum dtype dtype = tensor->type.dtype;
	const size_t count = (size_t)shape_count(&tensor->type.shape), bytes = count * dtype_size(dtype);
	struct diags *diags = im->context->diags;
	if (proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
		return read_external(im, proto, name, bytes, &tensor->raw);
	const struct field field = find_numbers(proto, dtype);
	if (proto->has_raw_data && (proto->raw_data.len || !field.count)) {
		if (proto->raw_data.len != bytes)
			return diag_file(diags, STATUS_DATA, im->request->path, -1, "tensor '%s' takes %zu bytes, but has %zu",
			                 name, bytes, proto->raw_data.len);
		tensor->raw = proto->raw_data.data ? (const void *)proto->raw_data.data : "";
		return STATUS_OK;
	}
	if (field.count != count)
		return diag_file(diags, STATUS_DATA, im->request->path, -1, "tensor '%s' takes %zu elements, but has %zu", name,
		                 count, field.count);
	tensor->raw = field.dtype == dtype ? field.numbers : narrow(im->context->arena, &field, dtype, count);
	if (!count)
		tensor->raw = "";
	TRY_ALLOC(tensor->raw, diags);
	return STATUS_OK;
}

static enum status settle_type(struct importer *im, const Onnx__TensorProto *proto, const char *name, struct type *type)
{
	struct diags *diags = im->context->diags;
	if (!model_dtype(proto->data_type, &type->dtype))
		return diag_file(diags, STATUS_CHAIN, im->request->path, -1,
		                 "tensor '%s' has elements of type %s, which chains do not have", name,
		                 model_dtype_name(proto->data_type));
	if (proto->n_dims > MAX_DIMS)
		return diag_file(diags, STATUS_LIMIT, im->request->path, -1, "tensor '%s' has more than %d dimensions", name,
		                 MAX_DIMS);
	type->shape.ndim = (int)proto->n_dims;
	bool good = true;
	for (size_t i = 0; i < proto->n_dims; i++)
		good &= (type->shape.dim[i] = proto->dims[i]) >= 0;
	if (!good || !type_addressable(type))
		return diag_file(diags, good ? STATUS_LIMIT : STATUS_DATA, im->request->path, -1,
		                 good ? "tensor '%s' is too large to address" : "tensor '%s' has an extent below 0", name);
	return STATUS_OK;
}

/* Returns TENSOR's elements as doubles; NULL if memory is short. */
static const double *widen_numbers(struct importer *im, const struct tensor *tensor)
{
	struct arena *arena = im->context->arena;
	const size_t count = (size_t)shape_count(&tensor->type.shape), bytes = count * dtype_size(tensor->type.dtype);
	const enum dtype dtype = tensor->type.dtype;
	double *numbers = arena_array(arena, count + 1, sizeof *numbers);
	void *aligned = arena_alloc(arena, bytes + 1);
	if (!numbers || !aligned)
		return NULL;
	memcpy(aligned, tensor->raw, bytes);
	if (!convert_little_endian())
		convert_swap(aligned, dtype_size(dtype), count);
	convert_from_file(numbers, DTYPE_F64, aligned, dtype, count);
	return numbers;
}

enum status tensor_read(struct importer *im, const Onnx__TensorProto *proto, const char *name,
                        const struct tensor **made)
{
	struct tensor *tensor = arena_alloc(im->context->arena, sizeof *tensor);
	TRY_ALLOC(tensor, im->context->diags);
	if (proto->segment)
		return diag_file(im->context->diags, STATUS_DATA, im->request->path, -1, "tensor '%s' is a segment of another",
		                 name);
	TRY(settle_type(im, proto, name, &tensor->type));
	TRY(find_elements(im, proto, name, tensor));
	if (shape_count(&tensor->type.shape) <= NUMBERS_MOST)
		TRY_ALLOC(tensor->numbers = widen_numbers(im, tensor), im->context->diags);
	*made = tensor;
	return STATUS_OK;
}

struct tensor *tensor_make(struct importer *im, enum dtype dtype, const struct shape *shape, const double *numbers,
                           bool splat)
{
	const size_t count = splat ? 1 : (size_t)shape_count(shape);
	struct tensor *tensor = arena_alloc(im->context->arena, sizeof *tensor);
	double *copy = arena_array(im->context->arena, count + 1, sizeof *copy);
	if (!tensor || !copy)
		return NULL;
	if (count)
		memcpy(copy, numbers, count * sizeof *copy);
	values_round(copy, DTYPE_F64, count, dtype);
	for (size_t i = 0; dtype == DTYPE_F32 && i < count; i++)
		copy[i] = (float)copy[i];
	*tensor = (struct tensor){{dtype, *shape}, splat, copy, NULL};
	return tensor;
}

const void *tensor_data(struct importer *im, const struct tensor *tensor)
{
	struct arena *arena = im->context->arena;
	const size_t count = (size_t)shape_count(&tensor->type.shape);
	const enum dtype dtype = tensor->type.dtype, compute = dtype_compute(dtype_written(dtype));
	const size_t size = compute == DTYPE_F32 ? sizeof(float) : sizeof(double);
	if (tensor->raw && (dtype == DTYPE_F32 || dtype == DTYPE_F64) && convert_little_endian() &&
	    (uintptr_t)tensor->raw % size == 0)
		return tensor->raw;
	char *to = arena_array(arena, count + 1, size);
	if (!to)
		return NULL;
	if (tensor->raw) {
		void *aligned = arena_alloc(arena, count * dtype_size(dtype) + 1);
		if (!aligned)
			return NULL;
		memcpy(aligned, tensor->raw, count * dtype_size(dtype));
		if (!convert_little_endian())
			convert_swap(aligned, dtype_size(dtype), count);
		convert_from_file(to, compute, aligned, dtype, count);
		return to;
	}
	for (size_t i = 0; i < count; i++)
		if (compute == DTYPE_F32)
			((float *)(void *)to)[i] = (float)tensor_at(tensor, (int64_t)i);
		else
			((double *)(void *)to)[i] = tensor_at(tensor, (int64_t)i);
	return to;
}
