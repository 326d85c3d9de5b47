/*
 * Walking an array line by line along an axis. An array of shape [..] is seen as
 * [outer, n, inner], N the extent along the axis. Where INNER is 1 the lines lie
 * in the array itself; else PANEL of them at a time are gathered into scratch,
 * so that whole cache lines are used.
 */
#ifndef OPS_LINES_H
#define OPS_LINES_H

#include "ops/general.h"
#include "ops/loops.h"

enum { LINES_PANEL = 16, FOLD_PARTS = 3 };

struct axis_view {
	int64_t outer, n, inner;
};

/* Of the one axis that ATTRS name, or 0-d: one line of one element. */
struct axis_view axis_view_named(const struct attrs *attrs, const struct shape *shape);

/*
 * Arrays of a walk; any may be NULL. A whole array has N elements for each line,
 * a short one one for each line.
 */
struct line_arrays {
	void *out;         /* whole */
	const void *in[2]; /* whole */
	void *short_out;
	const void *short_in[2];
	double *wide[FOLD_PARTS]; /* short ones, of doubles */
};
/* Works on COUNT lines, which lie one after another. */
typedef void line_function(const struct op_call *call, const struct loops *loops, const struct line_arrays *arrays,
                           size_t n, size_t count);
void lines_walk(const struct op_call *call, const struct axis_view *view, const struct line_arrays *arrays,
                line_function *function, void *scratch);
/* Scratch of a walk with WHOLE whole arrays, results included. */
int64_t lines_scratch(const struct axis_view *view, size_t element, int whole);

/*
 * The axes that a reduction (or a sum to a broadcast shape) takes away: as one
 * view where they are neighbours, else after a copy that brings them to the end.
 */
struct reduction {
	struct axis_view view;
	bool moved; /* the axes must be brought to the end first */
	int ndim;   /* and these are: the source's extents and strides, kept axes first */
	int64_t dim[MAX_DIMS], step[MAX_DIMS];
};
void reduction_of(struct reduction *reduction, const struct shape *shape, const bool reduced[MAX_DIMS]);
/* Copies SHAPE's elements with the axes that are reduced brought to the end; or back. */
void reduction_move(const struct reduction *reduction, void *to, const void *from, size_t element, bool back);
/* Whether the axes of ATTRS hold each axis of SHAPE. */
void reduction_axes(const struct attrs *attrs, const struct shape *shape, bool reduced[MAX_DIMS]);

/* The sums of outputs FIRST .. FIRST + COUNT - 1 (COUNT <= SUMS_BLOCK) of a view: hi, and the compensation lo. */
enum { SUMS_BLOCK = 512 };
struct wide_sums {
	double *hi, *lo;
};
void sums_of(const struct kernels *kernels, const struct axis_view *view, const void *v, int64_t first, size_t count,
             struct wide_sums sums);
/* out[i] = (hi[i] + lo[i]) / divisor in the type */
void sums_store(enum dtype dtype, void *out, const double *hi, const double *lo, double divisor, size_t count);

/* TO: the sums that R takes of FROM, over DIVISOR, in the type. Where R's axes are moved SCRATCH holds FROM's elements. */
void reduction_sums(const struct kernels *kernels, const struct reduction *reduction, void *to, const void *from,
                    double divisor, void *scratch);

/*
 * How many of LEFT lines of N elements are taken at once, at most LINES_SOME: as many as are still in the cache when
 * they are looked at again, and where they are many as loops like them, which take up to 16 across.
 */
enum { LINES_SOME = 64 };
static inline size_t lines_at_once(size_t n, size_t left)
{
	enum { ELEMENTS = 4096, ACROSS = 16 };
	const size_t fit = n < ELEMENTS ? ELEMENTS / (n > 0 ? n : 1) : 1, most = fit < LINES_SOME ? fit : LINES_SOME;
	const size_t whole = most < ACROSS ? most : most / ACROSS * ACROSS;
	return left < whole ? left : whole;
}

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
/* Stores the largest element of each of LINES if it is finite, else 0: the shift of the exponents of that line. */
void lines_largest(const struct loops *loops, double *largest, struct lines lines);

/* Of amax, amin, norm and logsumexp (reduce.c): the parts of a fold's state, and results of the last two. */
void fold_partial_lines(const struct op_call *call, double *const state[FOLD_PARTS], const void *v);
double norm_of(double squares, double scale);
double logsumexp_of(double sum, double shift);
/* Of sum and mean (reduce.c): the sums of a tile, and what they are divided by in the end. */
void sum_partial_axes(const struct op_call *call, double *hi, double *lo, const void *v);
double reduction_divisor(const struct op_call *call);
/* Of the losses (loss.c): likewise. */
void sum_partial_loss(const struct op_call *call, double *hi, double *lo, const void *v, const void *a, void *k);
double loss_divisor(const struct op_call *call);
int64_t loss_scratch(const struct type *v, const struct type *a);
int64_t conv_scratch(const struct attrs *attrs, const struct type *v, const struct type *a, const struct type *y);

/* Element I of an array of DTYPE as double, and back. */
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
static inline size_t element_size(enum dtype dtype) { return dtype == DTYPE_F64 ? 8 : 4; }
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
static inline void *line_of(const struct loops *loops, void *array, size_t n, size_t i)
{
	return element_of(array, element_size(loops->dtype), (int64_t)(n * i));
}
/* An array for a walk that goes either way, of which what is read is not written. */
static inline void *writable(const void *array) { return (void *)(uintptr_t)array; }

#endif
