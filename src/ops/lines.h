/*
 * Walks over an array, line by line along an axis. An array is seen as [outer, n,
 * inner], where N is the extent along the axis; a line is the N elements of one
 * (outer, inner). If INNER is 1 the lines lie in the array itself. Else a panel
 * of LINES_PANEL neighbouring lines at a time is gathered into scratch, which
 * uses whole cache lines.
 */
#ifndef OPS_LINES_H
#define OPS_LINES_H

#include "ops/general.h"

enum {
	LINES_PANEL = 16,
	LINES_SOME = 64, /* the most lines that a line_function gets */
	FOLD_PARTS = 3,  /* the most parts of a fold's state */
};

struct axis_view {
	int64_t outer, n, inner;
};

/* The view along the first axis in ATTRS. A 0-d array is one line of one element. */
struct axis_view axis_view_named(const struct attrs *attrs, const struct shape *shape);

/* The arrays of a walk, each or NULL. A long array has N elements for each line, a short array one. */
struct line_arrays {
	void *out;         /* long */
	const void *in[2]; /* long */
	void *short_out;
	const void *short_in[2];
	double *wide[FOLD_PARTS]; /* short, of doubles whatever the type */
};
/* Computes COUNT lines, at most LINES_SOME, which lie one after another from the start of AT's arrays. */
typedef void line_function(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                           size_t n, size_t count);
#define LINES(NAME)                                                                                                    \
	static void NAME(const struct op_call *call MAYBE_UNUSED, const struct loops *loops, const struct line_arrays *at, \
	                 size_t n, size_t count)
/* Calls FUNCTION for all lines of VIEW. The call's team shares them. */
void lines_walk(const struct op_call *call, const struct axis_view *view, const struct line_arrays *arrays,
                line_function *function, void *scratch);
/* Returns the bytes of scratch of a walk over LONG_ARRAYS long arrays, results included. */
int64_t lines_scratch(const struct axis_view *view, size_t element, int long_arrays);

/* Copies FROM, of SHAPE, to TO, whose axis i is axis AXES[i] of FROM. There is an axis at least. */
void permute(const struct loops *loops, void *to, const void *from, const struct shape *shape,
             const int axes[MAX_DIMS]);

/*
 * The axes that a reduction removes, or a sum to a broadcast shape. Neighbouring
 * axes are one view. Else MOVED is set: the elements are first permuted by AXES from
 * the shape MERGED to LAST, which has the reduced axes last. BACK reverses that.
 */
struct reduction {
	struct axis_view view;
	bool moved;
	struct shape merged, last;
	int axes[MAX_DIMS], back[MAX_DIMS];
};
struct reduction reduction_of(const struct shape *shape, const bool reduced[MAX_DIMS]);
/* The reduction of the axes that ATTRS name. */
struct reduction reduction_named(const struct attrs *attrs, const struct shape *shape);

/* Sums with their rounding errors: HI + LO. */
enum { SUMS_BLOCK = 512 };
struct wide_sums {
	double *hi, *lo;
};
/* Sums the lines of a view for its outputs FIRST .. FIRST + COUNT - 1; COUNT is at most SUMS_BLOCK. */
void sums_of(const struct kernels *kernels, const struct axis_view *view, const void *v, int64_t first, size_t count,
             struct wide_sums sums);
/* out[i] = (hi[i] + lo[i]) / divisor, rounded to DTYPE */
void sums_store(enum dtype dtype, void *out, const double *hi, const double *lo, double divisor, size_t count);
/* Stores the sums of a reduction of FROM, over DIVISOR. SCRATCH holds as many elements as FROM if axes are moved. */
void reduction_sums(const struct kernels *kernels, const struct reduction *reduction, void *to, const void *from,
                    double divisor, void *scratch);

/* COUNT lines of N elements, one after another. */
struct lines {
	const void *data;
	size_t n, count;
};
/*
 * Stores the sum of exp(line - shift) of each of LINES, at most LINES_SOME, in double.
 * OUT, unless NULL, gets the exponentials.
 */
void lines_sum_exp(const struct op_call *call, const struct loops *loops, void *out, struct lines lines,
                   const double shift[LINES_SOME], double sum[LINES_SOME]);
/* Stores the largest element of each of LINES if it is finite, else 0. It shifts the exponents of that line. */
void lines_largest(const struct loops *loops, double *largest, struct lines lines);
/* out[i] = exp(v[i]) for N elements; OUT may be V */
static inline void lines_exp(const struct op_call *call, void *out, const void *v, size_t n)
{
	call->kernels->forward[OP_exp][0](&(struct kernel_args){.out = out, .v = v, .n = n});
}

/* Of a loss: the sum of a tile, with its rounding error, and its divisor. */
void sum_partial_loss(const struct op_call *call, double *hi, double *lo, const void *v, const void *a, void *k);
double loss_divisor(const struct op_call *call);
/* Bytes of scratch of a loss's derivative, and of a convolution. */
int64_t loss_scratch(const struct type *v, const struct type *a);
int64_t conv_scratch(const struct attrs *attrs, const struct type *v, const struct type *a, const struct type *y);

/* Element I of an array of DTYPE, as a double. */
static inline double element_get(enum dtype dtype, const void *array, size_t i)
{
	return dtype == DTYPE_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}
static inline void element_set(enum dtype dtype, void *array, size_t i, double value)
{
	if (dtype == DTYPE_F64)
		((double *)array)[i] = value;
	else
		((float *)array)[i] = (float)value;
}
static inline void elements_set(enum dtype dtype, void *array, const double *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		element_set(dtype, array, i, values[i]);
}
static inline size_t element_size(enum dtype dtype) { return dtype == DTYPE_F64 ? 8 : 4; }
/* The address of element I of an array whose elements have SIZE bytes. */
static inline const void *element_at(const void *array, size_t size, int64_t i)
{
	return (const char *)array + size * (size_t)i;
}
static inline void *element_of(void *array, size_t size, int64_t i) { return (char *)array + size * (size_t)i; }
/* Line I of an array of lines of N elements of LOOPS' type. */
static inline const void *line_at(const struct loops *loops, const void *array, size_t n, size_t i)
{
	return element_at(array, element_size(loops->dtype), (int64_t)(n * i));
}
/* A read-only array for a walk that can copy either way. The walk does not write it. */
static inline void *writable(const void *array) { return (void *)(uintptr_t)array; }

#endif
