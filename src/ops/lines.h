/*
 * Walks over an array, line by line along an axis. A view of the array is [outer, n, inner],
 * where n is the extent along the axis; a line is the n elements at one (outer, inner). If
 * inner is 1, each line is contiguous. Else a panel of at most LINES_PANEL neighbouring lines at a
 * time is gathered into scratch, so that whole cache lines are read.
 */
#ifndef OPS_LINES_H
#define OPS_LINES_H

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/general.h"

enum {
	LINES_PANEL = 16,
	LINES_SOME = 64, /* the most lines of one call of a line_function */
	FOLD_PARTS = 6,  /* the largest fold_parts() */
};

struct axis_view {
	int64_t outer, n, inner;
};

/* Returns the view along the first axis in ATTRS. A 0-d array is one line of one element. */
struct axis_view axis_view_named(const struct attrs *attrs, const struct shape *shape);

/* The arrays of a walk; unused ones are NULL. A long array has n elements for each line, a short array one. */
struct line_arrays {
	void *out;         /* long */
	const void *in[2]; /* long */
	void *short_out;
	const void *short_in[2];
	double *wide[FOLD_PARTS]; /* short, of doubles whatever the type */
};
/* Computes COUNT lines, at most LINES_SOME, of N elements. They lie one after another from the start of AT's arrays. */
typedef void line_function(const struct op_call *call, const struct loops *loops, const struct line_arrays *at,
                           size_t n, size_t count);
#define LINES(NAME)                                                                                                    \
	static void NAME(const struct op_call *call MAYBE_UNUSED, const struct loops *loops, const struct line_arrays *at, \
	                 size_t n, size_t count)
/* Calls FUNCTION for all lines of VIEW, which CALL's team shares. SCRATCH has lines_scratch() bytes; NULL if 0. */
void lines_walk(const struct op_call *call, const struct axis_view *view, const struct line_arrays *arrays,
                line_function *function, void *scratch);
/* Returns the bytes of scratch of a walk over LONG_ARRAYS long arrays, results included; INT64_MAX if too many. */
int64_t lines_scratch(const struct axis_view *view, size_t element, int long_arrays);

/* Copies FROM, of SHAPE, to TO, whose axis i is axis AXES[i] of FROM. SHAPE has at least one axis. */
void permute(const struct loops *loops, void *to, const void *from, const struct shape *shape,
             const int axes[MAX_DIMS]);

/*
 * How to walk over the axes that a reduction removes. MERGED is the array's shape without axes of
 * extent 1, where neighbours that are both reduced or both kept are one axis. If it has one reduced
 * axis, that is VIEW's n; if none, n is 1. Else MOVED is set: permute(AXES) first copies the array to
 * shape LAST, whose last axes are the reduced ones, and VIEW is of the copy. BACK reverses AXES.
 */
struct reduction {
	struct axis_view view;
	bool moved;
	struct shape merged, last;
	int axes[MAX_DIMS], back[MAX_DIMS];
};
struct reduction reduction_of(const struct shape *shape, const bool reduced[MAX_DIMS]);
/* Returns the reduction of the axes that ATTRS name. */
struct reduction reduction_named(const struct attrs *attrs, const struct shape *shape);

/*
 * Sums HI[i] + LO[i], times SCALE[i] unless SCALE is NULL; LO has the rounding errors of HI, or zeros. The scale is 1, but
 * SUM_FAR where a sum of finite doubles is beyond their range: their mean is not.
 */
enum { SUMS_BLOCK = 512 };
#define SUM_FAR 0x1p64
struct wide_sums {
	double *hi, *lo, *scale;
};
/* The sum that a mean is made of, or of none: all zeros. */
struct mean_sum {
	double hi, lo, scale;
};
/* Adds X, the sum of a block, to SUM, which leaves the range only if X does. */
static inline void mean_add(struct mean_sum *sum, struct mean_sum x)
{
	const struct mean_sum before = *sum;
	double scale = before.scale > x.scale ? before.scale : x.scale;
	for (; x.scale > 0; scale = SUM_FAR) {
		const double by = before.scale == scale ? 1 : before.scale / scale,
					 x_by = x.scale == scale ? 1 : x.scale / scale;
		*sum = (struct mean_sum){before.hi * by, before.lo * by, scale};
		sum_add(&sum->hi, &sum->lo, x.hi * x_by, x.lo * x_by);
		if (isfinite(sum->hi) || scale == SUM_FAR || !isfinite(before.hi) || !isfinite(x.hi))
			return;
	}
}
/* Stores the sums of lines FIRST .. FIRST + COUNT - 1 of VIEW in SUMS. COUNT is at most SUMS_BLOCK. */
void sums_of(const struct kernels *kernels, const struct axis_view *view, const void *v, int64_t first, size_t count,
             struct wide_sums sums);
/* out[i] = the sum i / divisor, rounded to DTYPE */
void sums_store(enum dtype dtype, void *out, struct wide_sums sums, double divisor, size_t count);
/* Stores the sums of FROM, divided by DIVISOR, in TO. If axes are moved, SCRATCH holds as many elements as FROM. */
void reduction_sums(const struct kernels *kernels, const struct reduction *reduction, void *to, const void *from,
                    double divisor, void *scratch);

/* COUNT lines of N elements, one after another. */
struct lines {
	const void *data;
	size_t n, count;
};
/* Stores the sums of LINES, each element multiplied by OTHER's unless that is NULL. SUMS has scales. */
void lines_sums(const struct loops *loops, struct lines lines, const void *other, struct wide_sums sums);
/* Stores such sums divided by COUNT in MEAN. */
void lines_means(const struct loops *loops, struct lines lines, const void *other, double count, double *mean);
/*
 * Stores in SUMS the sum of exp(x - SHIFT[i]) over the elements x of line i, for at most LINES_SOME lines. Stores the
 * exponentials in OUT unless it is NULL. Of a sum near 1, the rest is as exact as the sum less 1. SUMS.lo may be NULL: SUMS.hi
 * gets all.
 */
void lines_sum_exp(const struct op_call *call, const struct loops *loops, void *out, struct lines lines,
                   const double shift[LINES_SOME], struct wide_sums sums);
/* Returns log(HI + LO), precisely too where one element is so far above the others that their sum is 1. */
static inline double log_of_sum(double hi, double lo)
{
	return hi > 0.75 && hi < 1.25 ? log1p((hi - 1) + lo) : log(hi + lo);
}
/* Stores the shift of each line for lines_sum_exp in LARGEST: its largest element if that is finite, else 0. */
void lines_largest(const struct loops *loops, double *largest, struct lines lines);
/* out[i] = exp(v[i]) for N elements; OUT may be V */
static inline void lines_exp(const struct op_call *call, void *out, const void *v, size_t n)
{
	call->kernels->forward[OP_exp][0](&(struct kernel_args){.out = out, .v = v, .n = n});
}

/* True if the difference of X and another finite number of DTYPE may be beyond the type's range. That over SUM_FAR is not. */
static inline bool is_far(enum dtype dtype, double x) { return fabs(x) >= (dtype == DTYPE_F64 ? 0x1p960 : 0x1p100); }
/* Returns how many of the first of COUNT numbers X of DTYPE are not far. */
static inline size_t count_near(enum dtype dtype, const double *x, size_t count)
{
	size_t i = 0;
	while (i < count && !is_far(dtype, x[i]))
		i++;
	return i;
}
/* Returns (X - MEAN) SCALE, in the range wherever the result is. */
static inline double normalized(double x, double mean, double scale)
{
	const double part = is_far(DTYPE_F64, mean) ? SUM_FAR : 1;
	return (x / part - mean / part) * (scale * part);
}
/* Stores LINES, each less MEAN[i] and times SCALE[i], in OUT, which may be their array. */
void lines_normalize(const struct loops *loops, void *out, struct lines lines, const double *mean, const double *scale);

/* Stores the sum of each line's squares over SCALE[i] squared. SCALE[i] is 1 unless the plain sum is out of range. */
void lines_sum_squares(const struct loops *loops, struct lines lines, double *sum, double *scale);

/*
 * The moments of lines: a line's SUM over its SCALE, and the sum of SQUARES of deviations from the mean, over the scale
 * squared. Each has a REST. The scale is a power of two. It is 1 unless squares are out of range.
 */
struct line_moments {
	double *sum, *rest, *squares, *squares_rest, *scale;
};
void lines_moments(const struct loops *loops, struct lines lines, struct line_moments moments);
/*
 * Returns 1 / sqrt(SQUARES SCALE^2 / COUNT + EPS), with which layernorm and rmsnorm multiply. Where EPS over the square of
 * the scale is beyond the range, the squares are nothing beside it.
 */
static inline double normal_scale(double squares, double scale, double count, double eps)
{
	if (scale == 1 && squares > 0)
		return 1 / sqrt(squares / count + eps);
	if (squares == 0 || (isinf(eps / scale / scale) && isfinite(squares)))
		return 1 / sqrt(eps);
	return 1 / sqrt(squares / count + eps / scale / scale) / scale;
}
/* Calls FUNCTION for the lines of V that the call's axes name, and that are reduced, with TO's other arrays. */
void reduction_walk(const struct op_call *call, struct line_arrays to, const void *v, line_function *function);
/* Stores the sums of a tile's lines. Those of a mean have scales. */
void sum_partial_axes(const struct op_call *call, struct wide_sums sums, const void *v);
/* Stores 1 for each of LINES in which an element (of OP_all: each) is not 0, else 0. */
void lines_true(const struct op_call *call, const struct loops *loops, struct lines lines, double *value);
/* Returns the number by which the sums are divided: 1, or for a mean the elements of a line of the whole array. */
double reduction_divisor(const struct op_call *call);
/*
 * Returns the result of OP. For norm, VALUE is the sum of squares by SCALE squared. For logsumexp, VALUE is the log of the
 * sum of exponentials, and SCALE their shift. For var and std, VALUE is the mean squared deviation by SCALE squared. For prod,
 * SCALE is the exponent.
 */
double reduction_result(enum op op, double value, double scale);
/*
 * Stores the state of a tile's losses: their sum, as struct mean_sum, and the number of rows that count, of
 * cross_entropy alone. K gets the array kept for the derivative unless it is NULL.
 */
void loss_partial(const struct op_call *call, double *state, const void *v, const void *a, void *k);
/* Returns the number by which the sum of STATE, that of all tiles, is divided: 1 if the loss is a sum. */
double loss_divisor(const struct op_call *call, const double *state);
/* Returns the number of CLASSES that CALL does not ignore. */
double loss_rows(const struct op_call *call, const void *classes);
/* Stores cross_entropy's derivative by V. ROWS of the whole array count in a mean. */
void loss_apply(const struct op_call *call, void *dv, const void *g, const void *const needs[MAX_NEEDS], double rows);
/* True if a loss with these ATTRS, which may be NULL, ignores rows of CLASS. */
static inline bool loss_ignores(const struct attrs *attrs, double class)
{
	return attrs && attrs->ignore.given && class == (double)attrs->ignore.at;
}
/* Returns where K, which a loss keeps of the whole call, begins for V's row ROW, a multiple of 4. */
void *loss_kept_at(const struct op_call *call, void *k, int64_t row);
/* Return the bytes of scratch of a loss's derivative, by the target too if BY_A, and of a convolution or its derivative. */
int64_t loss_scratch(const struct type *v, const struct type *a, bool by_a);
int64_t conv_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                     const struct type *y);
/* Returns the bytes of scratch of an attention or its derivative. */
int64_t attention_scratch(const struct type *v, const struct type *a, const struct type *result);
/* Returns the bytes of scratch of an upsample, which its team shares. */
int64_t upsample_scratch(const struct attrs *attrs, const struct type *v, const struct type *y);
/* Returns the bytes of scratch of a transform or its DERIVATIVE: those of a MEMBER of a team, or the caller's. */
int64_t fft_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *y, bool derivative,
                    bool member);
/* Returns the bytes of scratch of a cmul or its DERIVATIVE. */
int64_t pairs_scratch(const struct type *v, const struct type *a, const struct type *y, bool derivative);
/* Return the bytes of scratch of an operation that sorts, and of the derivative of a running product. */
int64_t order_scratch(const struct attrs *attrs, const struct type *v);
int64_t running_scratch(const struct attrs *attrs, const struct type *v);

/* Returns element I of an array of DTYPE as a double. Here and below DTYPE is F32 or F64. */
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
/* Returns the address of element I of an array whose elements have SIZE bytes; element_of returns a writable one. */
static inline const void *element_at(const void *array, size_t size, int64_t i)
{
	return (const char *)array + (int64_t)size * i;
}
static inline void *element_of(void *array, size_t size, int64_t i) { return (char *)array + (int64_t)size * i; }
/* Returns the address of line I of an array of lines of N elements of LOOPS' type. */
static inline const void *line_at(const struct loops *loops, const void *array, size_t n, size_t i)
{
	return element_at(array, element_size(loops->dtype), (int64_t)(n * i));
}
/*
 * The derivatives of reductions and of operations along an axis, from statistics of their lines. The first two store the
 * sums of a block of rows in TO's wide arrays, each with its rest behind it. The others compute a block's dv by the
 * statistics of all rows in BY. For each line these are:
 *
 *                          TO                                   BY
 *     var, std             the sum, its scale                   the mean
 *     log_softmax          the sum, its scale                   the sum, its scale
 *     rmsnorm, layernorm   two sums, then their scales          two means
 *     prod                 four numbers without a rest          the same
 *     others               the sum                              the sum
 */
void reduction_statistics(const struct op_call *call, struct line_arrays to, const void *const needs[MAX_NEEDS]);
void axis_statistics(const struct op_call *call, struct line_arrays to, const void *g,
                     const void *const needs[MAX_NEEDS]);
void reduction_apply(const struct op_call *call, struct line_arrays by, void *dv, const void *g,
                     const void *const needs[MAX_NEEDS]);
void axis_apply(const struct op_call *call, struct line_arrays by, void *dv, const void *g,
                const void *const needs[MAX_NEEDS]);
/* Returns SUM by the elements of the whole array that one element of the result reduces. */
double reduction_mean(const struct op_call *call, struct mean_sum sum);
/* A product MANTISSA * 2^EXPONENT. The exponent is whole. */
struct split_product {
	double mantissa, exponent;
};
/* Returns X with a mantissa in [0.5, 1). 0, infinities and NaN are their own mantissas. */
static inline struct split_product split(double x)
{
	int exponent = 0;
	const double mantissa = frexp(x, &exponent);
	return (struct split_product){mantissa, x == 0 || !isfinite(x) ? 0 : exponent};
}
/* True if X, and its product with another such number, are far from the ends of a double's range. */
static inline bool is_moderate(double x) { return fabs(x) > 0x1p-400 && fabs(x) < 0x1p400; }
/* Returns P X. Only a number near the ends of a double's range is split, which rounds nothing. */
static inline struct split_product split_times(struct split_product p, double x)
{
	if (!is_moderate(x)) {
		const struct split_product s = split(x);
		x = s.mantissa;
		p.exponent += s.exponent;
	}
	p.mantissa *= x;
	if (!is_moderate(p.mantissa)) {
		const struct split_product s = split(p.mantissa);
		p.mantissa = s.mantissa;
		p.exponent += s.exponent;
	}
	return p;
}
/* Returns P as one double. A power of two that is a normal number is made of its bits, since ldexp is slow. */
static inline double split_value(struct split_product p)
{
	if (!(fabs(p.exponent) < 1022))
		return ldexp(p.mantissa, (int)fmax(-5000, fmin(p.exponent, 5000)));
	const uint64_t bits = (uint64_t)(1023 + (int)p.exponent) << 52;
	double power;
	memcpy(&power, &bits, sizeof power);
	return p.mantissa * power;
}

/* Casts const away for a function that can copy either way. The caller has it only read ARRAY. */
static inline void *writable(const void *array) { return (void *)(uintptr_t)array; }

#endif
