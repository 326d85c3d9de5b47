/*
 * Element types, shapes and array types.
 *
 * A dtype is the element type in a file or a declaration. In memory, values have a computing type: float for f16, bf16
 * and f32; double for f64, integers and bool. DTYPE_BITS and DTYPE_SIGNS, which a derivative keeps, are their own
 * computing types.
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
	DTYPE_BITS,  /* a mask of one bit an element; never in a file, as the next */
	DTYPE_SIGNS, /* two bits an element: -1, 0, 1 or NaN */
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

/* Returns the name, such as "f32"; "bool" for DTYPE_BITS, "i2" for DTYPE_SIGNS, "?" for DTYPE_COUNT. */
const char *dtype_name(enum dtype dtype);
/* Returns the dtype whose name (f16 ... bool) is the LENGTH bytes at NAME, or DTYPE_COUNT. */
enum dtype dtype_find(const char *name, size_t length);
/* Returns the bytes of an element in a file; 0 for DTYPE_BITS and DTYPE_SIGNS. */
size_t dtype_size(enum dtype dtype);
/* Returns the bits of an element of DTYPE_BITS or DTYPE_SIGNS, which share bytes; 0 for any other. */
int dtype_bits(enum dtype dtype);
/* Returns the computing type: DTYPE_F32, DTYPE_F64, DTYPE_BITS or DTYPE_SIGNS. */
enum dtype dtype_compute(enum dtype dtype);
/* True for i8 to u64 and bool. */
static inline bool dtype_is_integer(enum dtype dtype) { return dtype >= DTYPE_I8 && dtype <= DTYPE_BOOL; }
/* Returns the dtype of results of DTYPE in files: i64 for integers and bool, unless a cast makes them of a narrower type. */
static inline enum dtype dtype_written(enum dtype dtype) { return dtype_is_integer(dtype) ? DTYPE_I64 : dtype; }
/* Returns NumPy's promotion of two of f16, bf16, f32, f64; f16 with bf16 gives f32. */
enum dtype dtype_promote(enum dtype a, enum dtype b);

/* Returns the number of elements, 1 for a 0-d array; -1 if it overflows int64. */
int64_t shape_count(const struct shape *shape);
/* Removes the leading axis. SHAPE must have at least one axis. */
void shape_drop_leading(struct shape *shape);
bool shape_equal(const struct shape *a, const struct shape *b);
/* True if SHAPE is WANTED, whose extents below 0 stand for any. */
bool shape_fits(const struct shape *shape, const struct shape *wanted);
/* Broadcasts A and B to OUT as NumPy does. False if the shapes do not fit. OUT may be A or B. */
bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out);
bool type_equal(const struct type *a, const struct type *b);
/* Returns the bytes of the array in memory: of its computing type, or its bits rounded up; at most INT64_MAX. */
int64_t type_bytes(const struct type *type);
/*
 * The most bytes of an array: the address space of a process on 64-bit machines.
 * An int64 holds the sum of 2^15 such arrays.
 */
#define TYPE_MOST_BYTES (INT64_C(1) << 47)
/*
 * True if an array of TYPE has at most TYPE_MOST_BYTES in memory; bits count a byte an element. As in NumPy, an
 * extent of 0 is ignored: the other extents must fit too, so that no product of extents overflows.
 */
bool type_addressable(const struct type *type);

enum { TYPE_TEXT = 16 + 21 * MAX_DIMS };
/* Writes TYPE to TEXT as JAX prints it, such as "f32[5,4]". Returns TEXT. */
char *type_format(const struct type *type, char text[TYPE_TEXT]);
/* Writes SHAPE to TEXT, such as "[5,4]"; an extent of -1 is "*". Returns TEXT. */
char *shape_format(const struct shape *shape, char text[TYPE_TEXT]);

#endif
