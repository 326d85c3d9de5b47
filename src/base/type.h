/*
 * Element types, shapes and array types.
 *
 * A dtype is what a file or a declaration says. Values are held in one of two
 * computing types, float and double: f16 and bf16 are held as float, integers
 * and bool as double; BITS is the one-bit mask that a derivative keeps.
 */
#ifndef BASE_TYPE_H
#define BASE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
	DTYPE_F16,
	DTYPE_BF16,
	DTYPE_F32,
	DTYPE_F64,
	DTYPE_I8,
	DTYPE_I16,
	DTYPE_I32,
	DTYPE_I64,
	DTYPE_U8,
	DTYPE_U16,
	DTYPE_U32,
	DTYPE_U64,
	DTYPE_BOOL,
	DTYPE_BITS, /* a mask, one bit an element; only inside the program */
	DTYPE_COUNT
};

enum { MAX_DIMS = 32 };

struct shape {
	int ndim;
	int64_t dim[MAX_DIMS];
};

struct type {
	enum dtype dtype;
	struct shape shape;
};

/* "f32"; of BITS "bool", of DTYPE_COUNT "?". */
const char *dtype_name(enum dtype dtype);
/* The dtype with that name (f16 ... bool), or DTYPE_COUNT. */
enum dtype dtype_find(const char *name, size_t length);
/* Bytes of an element in a file. */
size_t dtype_size(enum dtype dtype);
/* The computing type: F32 for f16, bf16, f32; F64 for the rest; BITS for BITS. */
enum dtype dtype_compute(enum dtype dtype);
/* NumPy's promotion among f16, bf16, f32, f64 (f16 with bf16 gives f32). */
enum dtype dtype_promote(enum dtype a, enum dtype b);

/* Elements; -1 on overflow of int64. A 0-d array has 1. */
int64_t shape_count(const struct shape *shape);
/* Removes the leading axis of SHAPE, which has one or more. */
void shape_drop_leading(struct shape *shape);
bool shape_equal(const struct shape *a, const struct shape *b);
/* NumPy's broadcasting; false where the shapes do not fit. OUT may be A or B. */
bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out);
bool type_equal(const struct type *a, const struct type *b);
/* Bytes of the array as held: count * size of the computing type; masks (count + 7) / 8. Saturates at INT64_MAX. */
int64_t type_bytes(const struct type *type);
/*
 * The most bytes of an array: the address space of a process on 64-bit machines.
 * An int64 holds the sum of 2^15 such arrays.
 */
#define TYPE_MOST_BYTES (INT64_C(1) << 47)
/*
 * True if an array of TYPE, as it is held, has at most TYPE_MOST_BYTES. As in NumPy, the other
 * extents are checked even if one is 0: so products of extents never overflow.
 */
bool type_addressable(const struct type *type);

enum { TYPE_TEXT = 16 + 21 * MAX_DIMS };
/* "f32[5,4]", as JAX prints it; returns TEXT. */
char *type_format(const struct type *type, char text[TYPE_TEXT]);
/* "[5,4]" */
char *shape_format(const struct shape *shape, char text[TYPE_TEXT]);

#endif
