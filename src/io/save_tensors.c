/*
 * safetensors files, byte for byte as the format's own package writes them. The tensors follow each other by falling
 * size of their elements, so that each is aligned to its own.
 *
 * The header is written twice: first only its bytes are counted, then it goes to a buffer of that many bytes.
 * Tests: tests/unit/test_load.c
 */
#include "io/formats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct tensor {
	const struct named_array *array;
	int64_t begin, end; /* its bytes in the data */
};

/* The order of the package: by falling DTYPE in its list, where F64 comes after F32, BF16 and F16, then by name. */
static int by_width(const void *a, const void *b)
{
	const struct named_array *x = ((const struct tensor *)a)->array, *y = ((const struct tensor *)b)->array;
	return x->type.dtype != y->type.dtype ? (x->type.dtype < y->type.dtype) - (x->type.dtype > y->type.dtype)
	                                      : strcmp(x->name, y->name);
}

/* Counts the bytes that are written and, unless AT is NULL, copies them there. */
struct pen {
	char *at;
	size_t length;
};

static void write_bytes(void *context, const char *bytes, size_t length)
{
	struct pen *pen = context;
	if (pen->at)
		memcpy(pen->at + pen->length, bytes, length);
	pen->length += length;
}

static void put_json_string(const struct text *text, const char *string)
{
	text_put(text, "\"");
	for (const char *c = string; *c; c++)
		if ((unsigned char)*c < ' ')
			text_printf(text, "\\u%04x", (unsigned)*c);
		else
			text_printf(text, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
	text_put(text, "\"");
}

static void put_tensor(const struct text *text, const struct tensor *tensor)
{
	static const char *const names[] = {
		[DTYPE_F16] = "F16", [DTYPE_BF16] = "BF16", [DTYPE_F32] = "F32",  [DTYPE_F64] = "F64", [DTYPE_I8] = "I8",
		[DTYPE_I16] = "I16", [DTYPE_I32] = "I32",   [DTYPE_I64] = "I64",  [DTYPE_U8] = "U8",   [DTYPE_U16] = "U16",
		[DTYPE_U32] = "U32", [DTYPE_U64] = "U64",   [DTYPE_BOOL] = "BOOL"};
	const struct type *type = &tensor->array->type;
	put_json_string(text, tensor->array->name);
	text_printf(text, ":{\"dtype\":\"%s\",\"shape\":[", names[type->dtype]);
	for (int i = 0; i < type->shape.ndim; i++)
		text_printf(text, "%s%" PRId64, i ? "," : "", type->shape.dim[i]);
	text_printf(text, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", tensor->begin, tensor->end);
}

static void put_header(const struct text *text, const struct tensor *tensors, size_t count, const char *metadata)
{
	text_put(text, "{");
	if (metadata)
		text_printf(text, "\"" TENSORS_METADATA "\":%s%s", metadata, count ? "," : "");
	for (size_t i = 0; i < count; i++) {
		text_put(text, i ? "," : "");
		put_tensor(text, &tensors[i]);
	}
	text_put(text, "}");
}

static enum status write_header(const struct context *context, struct output *output, const struct tensor *tensors,
                                size_t count, const char *metadata)
{
	enum { LENGTH = 8, ALIGN = 8 };
	struct pen pen = {NULL, 0};
	const struct text text = {write_bytes, &pen};
	put_header(&text, tensors, count, metadata);
	const size_t length = (pen.length + ALIGN - 1) / ALIGN * ALIGN;
	if (length > TENSORS_HEADER_MOST)
		return diag_file(context->diags, STATUS_LIMIT, output->name, -1, "a header beyond the limit of %d bytes",
		                 TENSORS_HEADER_MOST);
	char *header = arena_alloc(context->arena, LENGTH + length);
	TRY_ALLOC(header, context->diags);
	for (int i = 0; i < LENGTH; i++)
		header[i] = (char)(length >> 8 * i);
	memset(header + LENGTH, ' ', length);
	pen = (struct pen){header + LENGTH, 0};
	put_header(&text, tensors, count, metadata);
	return output_write(output, header, LENGTH + length, context->diags);
}

/* Copies the values of ARRAY from its file to OUTPUT. */
static enum status copy_tensor(struct output *output, const struct named_array *array, struct diags *diags)
{
	enum { PIECE = 1 << 14 };
	char piece[PIECE];
	const int64_t size = shape_count(&array->type.shape) * (int64_t)dtype_size(array->type.dtype);
	for (int64_t at = 0, count; at < size; at += count) {
		size_t got = 0;
		count = size - at < PIECE ? size - at : PIECE;
		if (!io_read_at(*array->file, at, piece, (size_t)count, &got) || (int64_t)got < count)
			return diag_file(diags, STATUS_IO, output->name, -1, "cannot read the values of '%s' back", array->name);
		TRY(output_write(output, piece, (size_t)count, diags));
	}
	return STATUS_OK;
}

enum status tensors_put(const struct context *context, struct output *output, const struct named_array *arrays,
                        size_t count, const char *metadata)
{
	struct diags *diags = context->diags;
	struct tensor *tensors = arena_array(context->arena, count + 1, sizeof *tensors);
	TRY_ALLOC(tensors, diags);
	for (size_t i = 0; i < count; i++)
		tensors[i].array = &arrays[i];
	qsort(tensors, count, sizeof *tensors, by_width);
	int64_t at = 0;
	for (struct tensor *t = tensors; t < tensors + count; at = t++->end) {
		t->begin = at;
		t->end = at + shape_count(&t->array->type.shape) * (int64_t)dtype_size(t->array->type.dtype);
	}
	TRY(write_header(context, output, tensors, count, metadata));
	for (const struct tensor *t = tensors; t < tensors + count; t++)
		TRY(t->array->file ? copy_tensor(output, t->array, diags)
		                   : array_write(context, output, FORMAT_RAW, &t->array->type, t->array->data));
	return STATUS_OK;
}

static void put_metadata(const struct text *text, json_t *metadata)
{
	const char *key, *separator = "{";
	json_t *value;
	json_object_foreach(metadata, key, value)
	{
		if (!json_is_string(value)) /* the format allows strings alone */
			continue;
		text_put(text, separator);
		put_json_string(text, key);
		text_put(text, ":");
		put_json_string(text, json_string_value(value));
		separator = ",";
	}
	text_put(text, *separator == '{' ? "{}" : "}");
}

enum status tensors_metadata(const struct loader *loader, const char *path, const char **metadata)
{
	const struct archive *archive = loader_kept(loader, path);
	json_t *object = archive && !archive->members ? json_object_get(archive->header.top, TENSORS_METADATA) : NULL;
	struct pen pen = {NULL, 0};
	const struct text text = {write_bytes, &pen};
	*metadata = NULL;
	if (!object)
		return STATUS_OK;
	put_metadata(&text, object);
	char *made = arena_alloc(loader->context->arena, pen.length + 1);
	TRY_ALLOC(made, loader->context->diags);
	pen = (struct pen){made, 0};
	put_metadata(&text, object);
	made[pen.length] = '\0';
	*metadata = made;
	return STATUS_OK;
}
