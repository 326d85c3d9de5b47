/*
 * Reads a model: the bytes of the file, the nesting of its messages, and then the messages by protobuf-c.
 *
 * protobuf-c reads nested messages by recursion without a limit. So the nesting is checked first, by the tables that
 * protobuf-c itself reads by.
 * Tests: tests/scripts/check-import
 */
#include "onnx/importer.h"

#include <string.h>

enum { MESSAGES_NEST = 100, WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
#define MODEL_MOST_BYTES (INT64_C(1) << 31) /* of a message of protobuf */

struct wire {
	const uint8_t *bytes;
	size_t at, end;
};

static bool read_varint(struct wire *wire, uint64_t *value)
{
	*value = 0;
	for (int shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
		const uint8_t byte = wire->bytes[wire->at++];
		*value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return true;
	}
	return false;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *message, uint64_t number)
{
	for (unsigned i = 0; i < message->n_fields; i++)
		if (message->fields[i].id == number)
			return &message->fields[i];
	return NULL;
}

/* Checks the message that WIRE has, at DEPTH. Returns NULL, or what is wrong; then WIRE is where. */
static const char *check_message(struct wire *wire, const ProtobufCMessageDescriptor *message, int depth)
{
	if (depth > MESSAGES_NEST)
		return "messages nest more than 100 deep";
	while (wire->at < wire->end) {
		uint64_t key, length = 0;
		if (!read_varint(wire, &key) || key >> 3 == 0)
			return "no field of a message begins here";
		const unsigned kind = key & 7;
		if (kind == WIRE_VARINT && !read_varint(wire, &length))
			return "a number has no end";
		if (kind == WIRE_VARINT)
			continue;
		if (kind == WIRE_BYTES && !read_varint(wire, &length))
			return "a field has no length";
		if (kind != WIRE_BYTES && kind != WIRE_64 && kind != WIRE_32)
			return "a field has a kind that does not exist";
		length = kind == WIRE_64 ? 8 : kind == WIRE_32 ? 4 : length;
		if (length > wire->end - wire->at)
			return "the file ends within a field";
		const ProtobufCFieldDescriptor *field = kind == WIRE_BYTES ? find_field(message, key >> 3) : NULL;
		if (field && field->type == PROTOBUF_C_TYPE_MESSAGE) {
			struct wire inner = {wire->bytes, wire->at, wire->at + (size_t)length};
			const char *wrong = check_message(&inner, field->descriptor, depth + 1);
			if (wrong) {
				wire->at = inner.at;
				return wrong;
			}
		}
		wire->at += (size_t)length;
	}
	return NULL;
}

static void *arena_take(void *arena, size_t size) { return arena_alloc(arena, size ? size : 1); }
static void arena_keep(void *arena, void *block)
{
	(void)arena;
	(void)block;
}

static enum status read_whole(const struct context *context, struct input *input, struct wire *wire)
{
	struct diags *diags = context->diags;
	size_t capacity = input->size >= 0 ? (size_t)input->size + 1 : 1 << 16;
	if (input->size > MODEL_MOST_BYTES)
		return diag_file(diags, STATUS_LIMIT, input->name, -1, "a model has at most 2 GiB beside its external data");
	uint8_t *bytes = arena_alloc(context->arena, capacity);
	TRY_ALLOC(bytes, diags);
	for (;;) {
		size_t got;
		TRY(input_read(input, bytes + wire->end, capacity - wire->end, &got, diags));
		wire->end += got;
		if (wire->end < capacity)
			break;
		if (capacity > (size_t)MODEL_MOST_BYTES)
			return diag_file(diags, STATUS_LIMIT, input->name, -1,
			                 "a model has at most 2 GiB beside its external data");
		uint8_t *more = arena_alloc(context->arena, 2 * capacity);
		TRY_ALLOC(more, diags);
		memcpy(more, bytes, capacity);
		bytes = more;
		capacity *= 2;
	}
	wire->bytes = bytes;
	return STATUS_OK;
}

enum status model_read(const struct context *context, struct input *input, Onnx__ModelProto **model)
{
	struct wire wire = {NULL, 0, 0};
	TRY(read_whole(context, input, &wire));
	const char *wrong = wire.end ? check_message(&wire, &onnx__model_proto__descriptor, 0) : "the file is empty";
	if (wrong)
		return diag_file(context->diags, STATUS_DATA, input->name, (int64_t)wire.at, "no ONNX model: %s", wrong);
	ProtobufCAllocator allocator = {arena_take, arena_keep, context->arena};
	*model = onnx__model_proto__unpack(&allocator, wire.end, wire.bytes);
	TRY_ALLOC(!context->arena->failed, context->diags);
	if (!*model)
		return diag_file(context->diags, STATUS_DATA, input->name, -1, "no ONNX model: its messages do not fit");
	if (!(*model)->graph)
		return diag_file(context->diags, STATUS_DATA, input->name, -1, "no ONNX model: it has no graph");
	return STATUS_OK;
}

static const struct {
	const char *name;
	enum dtype dtype;
} model_types[] = {
	{"undefined", DTYPE_COUNT}, {"float", DTYPE_F32},  {"uint8", DTYPE_U8},        {"int8", DTYPE_I8},
	{"uint16", DTYPE_U16},      {"int16", DTYPE_I16},  {"int32", DTYPE_I32},       {"int64", DTYPE_I64},
	{"string", DTYPE_COUNT},    {"bool", DTYPE_BOOL},  {"float16", DTYPE_F16},     {"double", DTYPE_F64},
	{"uint32", DTYPE_U32},      {"uint64", DTYPE_U64}, {"complex64", DTYPE_COUNT}, {"complex128", DTYPE_COUNT},
	{"bfloat16", DTYPE_BF16},
};
enum { MODEL_TYPES = sizeof model_types / sizeof *model_types };

bool model_dtype(int32_t type, enum dtype *dtype)
{
	*dtype = type > 0 && type < MODEL_TYPES ? model_types[type].dtype : DTYPE_COUNT;
	return *dtype != DTYPE_COUNT;
}

const char *model_dtype_name(int32_t type)
{
	return type >= 0 && type < MODEL_TYPES ? model_types[type].name : "of less than a byte or quantised";
}
