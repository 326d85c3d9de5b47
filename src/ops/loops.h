/*
 * Inner loops of the general operations: one table for each instruction set and
 * computing type, made by including loops_template.h. A line is N elements that
 * lie one after another. Every sum is made in double, in an order that depends
 * on N alone, so that all sets give the same bits; only the matrix products
 * (fused where the set can) may differ between sets.
 */
#ifndef OPS_LOOPS_H
#define OPS_LOOPS_H

#include "ops/kernels.h"
#include "ops/product.h"

/* A multiple of the rows that the matrix product of any set takes at a time (12, 6 or 4): whoever cuts rows cuts by it. */
enum { PRODUCT_STRIPE = 12 };

struct loops {
	const char *isa;
	enum dtype dtype;
	/* out[i] = the sum over line I of COUNT, pairwise by blocks of 128, of v, v^2, v * a, and (v - p[i])^2 */
	void (*sums)(double *out, const void *v, size_t n, size_t count);
	void (*sums_squares)(double *out, const void *v, size_t n, size_t count);
	void (*sums_products)(double *out, const void *v, const void *a, size_t n, size_t count);
	void (*sums_deviations)(double *out, const void *v, const double *p, size_t n, size_t count);
	/* Such sums over one line: of |v|, and of huber's loss of v at delta p. */
	double (*sum_magnitudes)(const void *v, size_t n);
	double (*sum_huber)(const void *v, double p, size_t n);
	/* out[i] = the largest or smallest of line I, N > 0; NaN where there is one */
	void (*largest)(double *out, const void *v, size_t n, size_t count);
	void (*smallest)(double *out, const void *v, size_t n, size_t count);
	/* out[i] = the product of line I of COUNT, one element after another; of none: 1 */
	void (*products)(double *out, const void *v, size_t n, size_t count);
	/* In line I of COUNT: out = v - p[i]; out = v / p[i]; out = v * p[i]; P is rounded to the type first */
	void (*subtract)(void *out, const void *v, const double *p, size_t n, size_t count);
	void (*divide)(void *out, const void *v, const double *p, size_t n, size_t count);
	void (*multiply)(void *out, const void *v, const double *p, size_t n, size_t count);
	/* out = (v - p[i]) * q[i], in double, rounded once */
	void (*normalize)(void *out, const void *v, const double *p, const double *q, size_t n, size_t count);
	/* out = y * (g - p[i]) */
	void (*softmax_slope)(void *out, const void *g, const void *y, const double *p, size_t n, size_t count);
	/* out = g - out * p[i] */
	void (*log_softmax_slope)(void *out, const void *g, const double *p, size_t n, size_t count);
	/* out = q[i] * ((g - p[i]) - y * s[i]), in double, rounded once */
	void (*normalize_slope)(void *out, const void *g, const void *y, const double *p, const double *s, const double *q,
	                        size_t n, size_t count);
	/* out = (before - 2 v) + after; or that added to out; in the order that stands here */
	void (*differences)(void *out, const void *before, const void *v, const void *after, bool add, size_t n);
	/* A row of a 2-d laplacian: out = ((above - 2 v) + below) + ((left - 2 v) + right), N >= 1; LEFT, RIGHT of its ends */
	void (*differences_2d)(void *out, const void *above, const void *v, const void *below, double left, double right,
	                       size_t n);
	/* out[i] = v[i] * scale where the random word of element FIRST + i is at least THRESHOLD, else 0 */
	void (*dropout)(void *out, const void *v, int64_t first, uint64_t seed, uint64_t threshold, double scale, size_t n);
	/* TO[c, r] = FROM[r, c] of [ROWS, COLUMNS]; TO_ROW and FROM_ROW elements from a row to the next */
	void (*transpose)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows, int64_t columns);
	/*
	 * In each of ROWS rows, OUT_ROW and V_ROW elements apart: out[i] = v[i * STEP]; out[i * STEP] = v[i]; that added;
	 * out[i] = 0. STEP may be negative, not 0.
	 */
	void (*take_every)(void *out, int64_t out_row, const void *v, int64_t v_row, int64_t step, size_t n, size_t rows);
	void (*put_every)(void *out, int64_t out_row, int64_t step, const void *v, int64_t v_row, size_t n, size_t rows);
	void (*add_every)(void *out, int64_t out_row, int64_t step, const void *v, int64_t v_row, size_t n, size_t rows);
	void (*clear)(void *out, int64_t out_row, size_t n, size_t rows);
	/* The own kernel of gemm(). GEMM_TILES treats vectors as matrices, so that the bits do not depend on M and N. */
	void (*gemm)(const struct product *product);
	void (*gemm_tiles)(const struct product *product);
};

extern const struct loops *const loops_portable[2]; /* [0] F32, [1] F64 */
#if defined(__x86_64__)
extern const struct loops *const loops_avx2[2];
extern const struct loops *const loops_avx512[2];
#endif

/* The loops of KERNELS' instruction set and type (portable ones for "baseline": the same code). */
const struct loops *loops_get(const struct kernels *kernels);

#endif
