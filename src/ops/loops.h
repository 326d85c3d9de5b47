/*
 * Inner loops of the general operations: a table for each instruction set and
 * computing type, made by loops_template.h. A line is N elements that lie one
 * after another. A sum is made in double, in an order that depends on N alone, so
 * that all sets give the same bits. Only matrix products differ between sets: some
 * sets fuse multiplication and addition.
 */
#ifndef OPS_LOOPS_H
#define OPS_LOOPS_H

#include "ops/kernels.h"
#include "ops/product.h"

/* A multiple of the rows of C that a tile has in any set (12, 6 or 4). Rows are shared and cut in such pieces. */
enum { PRODUCT_STRIPE = 12 };

/* Rows of an array: each begins ROW elements after the one before, and its elements lie STEP apart (not 0). */
struct rows {
	void *at;
	int64_t row, step;
};

/* Sums over COUNT lines, made pairwise by blocks of 128. out[i] is the sum of line i, and p[i] is its number. */
struct line_sums {
	void (*values)(double *out, const void *v, size_t n, size_t count);
	void (*squares)(double *out, const void *v, size_t n, size_t count);
	void (*products)(double *out, const void *v, const void *a, size_t n, size_t count);     /* of v * a */
	void (*deviations)(double *out, const void *v, const double *p, size_t n, size_t count); /* of (v - p[i])^2 */
	/* Each returns a sum over one line: of |v|, and of Huber's loss of v at delta P. */
	double (*magnitudes)(const void *v, size_t n);
	double (*huber)(const void *v, double p, size_t n);
};

/* What a line's derivative of a normalization needs: mean(g), mean(g * y), and the scale of the forward pass. */
struct normalization {
	double mean, product, scale;
};

/* Element FIRST + i is kept if its random word is at least THRESHOLD. */
struct dropout {
	int64_t first;
	uint64_t seed, threshold;
	double scale;
};

struct loops {
	const char *isa;
	enum dtype dtype;
	struct line_sums sum;
	/* out[i] = the largest or smallest element of line i, or its NaN; N > 0 */
	void (*largest)(double *out, const void *v, size_t n, size_t count);
	void (*smallest)(double *out, const void *v, size_t n, size_t count);
	/* out[i] = the product of line i, one element after another; 1 if N is 0 */
	void (*products)(double *out, const void *v, size_t n, size_t count);
	/* In line i: out = v - p[i]; out = v / p[i]; out = v * p[i]. P is rounded to the type first. */
	void (*subtract)(void *out, const void *v, const double *p, size_t n, size_t count);
	void (*divide)(void *out, const void *v, const double *p, size_t n, size_t count);
	void (*multiply)(void *out, const void *v, const double *p, size_t n, size_t count);
	/* out = (v - mean[i]) * scale[i], in double, rounded once */
	void (*normalize)(void *out, const void *v, const double *mean, const double *scale, size_t n, size_t count);
	/* out = y * (g - p[i]) */
	void (*softmax_derivative)(void *out, const void *g, const void *y, const double *p, size_t n, size_t count);
	/* out = g - out * p[i] */
	void (*log_softmax_derivative)(void *out, const void *g, const double *p, size_t n, size_t count);
	/* out = p[i].scale * ((g - p[i].mean) - y * p[i].product), in double, rounded once */
	void (*normalize_derivative)(void *out, const void *g, const void *y, const struct normalization *p, size_t n,
	                             size_t count);
	/* out = (before - 2 v) + after, in this order; added to out if ADD */
	void (*differences)(void *out, const void *before, const void *v, const void *after, bool add, size_t n);
	/* out = ((above - 2 v) + below) + ((left - 2 v) + right) in a row of N >= 1; its ends have ENDS[0] and ENDS[1] */
	void (*differences_2d)(void *out, const void *above, const void *v, const void *below, const double ends[2],
	                       size_t n);
	/* out[i] = v[i] * scale if element i is kept (random.c), else 0 */
	void (*dropout)(void *out, const void *v, size_t n, const struct dropout *dropout);
	/* TO[c, r] = FROM[r, c] of [ROWS, COLUMNS]; TO_ROW and FROM_ROW elements from a row to the next */
	void (*transpose)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows, int64_t columns);
	/* In each of ROWS rows of N elements: to = from; to += from (from.step is 1); to = 0 (to.step is 1). */
	void (*copy_rows)(const struct rows *to, const struct rows *from, size_t n, size_t rows);
	void (*add_rows)(const struct rows *to, const struct rows *from, size_t n, size_t rows);
	void (*clear_rows)(const struct rows *to, size_t n, size_t rows);
	/* Our own product, for gemm(). GEMM_TILES treats vectors as matrices: its bits do not depend on M and N. */
	void (*gemm)(const struct product *product);
	void (*gemm_tiles)(const struct product *product);
};

extern const struct loops *const loops_portable[2]; /* [0] F32, [1] F64 */
#if defined(__x86_64__)
extern const struct loops *const loops_avx2[2];
extern const struct loops *const loops_avx512[2];
#endif

/* Returns the loops of the instruction set and type of KERNELS. The baseline set has the portable ones. */
const struct loops *loops_get(const struct kernels *kernels);

#endif
