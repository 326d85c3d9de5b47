/*
 * Names, sizes and shapes of arrays.
 * Tests: tests/unit/test_base.c
 */
#include "base/type.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

static const struct {
	const char *name;
	size_t size;
	enum dtype compute;
} dtypes[DTYPE_COUNT] = {
	[DTYPE_F16] = {"f16", 2, DTYPE_F32},    [DTYPE_BF16] = {"bf16", 2, DTYPE_F32},
	[DTYPE_F32] = {"f32", 4, DTYPE_F32},    [DTYPE_F64] = {"f64", 8, DTYPE_F64},
	[DTYPE_I8] = {"i8", 1, DTYPE_F64},      [DTYPE_I16] = {"i16", 2, DTYPE_F64},
	[DTYPE_I32] = {"i32", 4, DTYPE_F64},    [DTYPE_I64] = {"i64", 8, DTYPE_F64},
	[DTYPE_U8] = {"u8", 1, DTYPE_F64},      [DTYPE_U16] = {"u16", 2, DTYPE_F64},
	[DTYPE_U32] = {"u32", 4, DTYPE_F64},    [DTYPE_U64] = {"u64", 8, DTYPE_F64},
	[DTYPE_BOOL] = {"bool", 1, DTYPE_F64},  [DTYPE_BITS] = {"bool", 0, DTYPE_BITS},
	[DTYPE_SIGNS] = {"i2", 0, DTYPE_SIGNS},
};

const char *dtype_name(enum dtype dtype) { return dtype < DTYPE_COUNT ? dtypes[dtype].name : "?"; }

enum dtype dtype_find(const char *name, size_t length)
{
	for (int i = 0; i < DTYPE_BITS; i++)
		if (strlen(dtypes[i].name) == length && !memcmp(dtypes[i].name, name, length))
			return (enum dtype)i;
	return DTYPE_COUNT;
}

size_t dtype_size(enum dtype dtype) { return dtypes[dtype].size; }

int dtype_bits(enum dtype dtype) { return dtype == DTYPE_BITS ? 1 : dtype == DTYPE_SIGNS ? 2 : 0; }

enum dtype dtype_compute(enum dtype dtype) { return dtypes[dtype].compute; }

enum dtype dtype_promote(enum dtype a, enum dtype b)
{
	const bool wide = dtype_compute(a) == DTYPE_F64 || dtype_compute(b) == DTYPE_F64;
	return a == b ? a : wide ? DTYPE_F64 : DTYPE_F32;
}

int64_t shape_count(const struct shape *shape)
{
	int64_t count = 1;
	for (int i = 0; i < shape->ndim; i++)
		if (shape->dim[i] == 0)
			return 0;
	for (int i = 0; i < shape->ndim; i++)
		if (!checked_mul_i64(count, shape->dim[i], &count))
			return -1;
	return count;
}

void shape_drop_leading(struct shape *shape)
{
	shape->ndim--;
	memmove(shape->dim, shape->dim + 1, (size_t)shape->ndim * sizeof *shape->dim);
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
	return a->ndim == b->ndim && !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim);
}

bool shape_fits(const struct shape *shape, const struct shape *wanted)
{
	bool fits = shape->ndim == wanted->ndim;
	for (int i = 0; fits && i < shape->ndim; i++)
		fits = wanted->dim[i] < 0 || wanted->dim[i] == shape->dim[i];
	return fits;
}

bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out)
{
	struct shape made = {.ndim = a->ndim > b->ndim ? a->ndim : b->ndim};
	for (int i = 0; i < made.ndim; i++) {
		int ia = i - (made.ndim - a->ndim), ib = i - (made.ndim - b->ndim);
		int64_t da = ia >= 0 ? a->dim[ia] : 1, db = ib >= 0 ? b->dim[ib] : 1;
		if (da != db && da != 1 && db != 1)
			return false;
		made.dim[i] = da == 1 ? db : da;
	}
	*out = made;
	return true;
}

bool type_equal(const struct type *a, const struct type *b)
{
	return a->dtype == b->dtype && shape_equal(&a->shape, &b->shape);
}

int64_t type_bytes(const struct type *type)
{
	int64_t count = shape_count(&type->shape), bytes;
	if (count < 0)
		return INT64_MAX;
	enum dtype held = dtype_compute(type->dtype);
	const int in_byte = dtype_bits(held) ? 8 / dtype_bits(held) : 0;
	if (in_byte)
		return count / in_byte + (count % in_byte != 0);
	return checked_mul_i64(count, (int64_t)dtype_size(held), &bytes) ? bytes : INT64_MAX;
}

bool type_addressable(const struct type *type)
{
	const enum dtype held = dtype_compute(type->dtype);
	int64_t bytes = dtype_bits(held) ? 1 : (int64_t)dtype_size(held);
	for (int i = 0; i < type->shape.ndim; i++)
		if (type->shape.dim[i] != 0 && (!checked_mul_i64(bytes, type->shape.dim[i], &bytes) || bytes > TYPE_MOST_BYTES))
			return false;
	return true;
}

char *shape_format(const struct shape *shape, char text[TYPE_TEXT])
{
	char *p = text;
	*p++ = '[';
	for (int i = 0; i < shape->ndim; i++) {
		if (i)
			*p++ = ',';
		p += shape->dim[i] == -1 ? sprintf(p, "*") : sprintf(p, "%lld", (long long)shape->dim[i]);
	}
	strcpy(p, "]");
	return text;
}

char *type_format(const struct type *type, char text[TYPE_TEXT])
{
	shape_format(&type->shape, text + sprintf(text, "%s", dtype_name(type->dtype)));
	return text;
}
