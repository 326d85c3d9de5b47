/*
 * Tables for each instruction set and computing type: the element-wise kernels, made from ops.def by
 * kernels_template.h, and the inner loops of general operations. A kernel computes N consecutive elements.
 *
 * A kernel of an operation with operands has two forms: [0] with an array as the last operand, [1] with one
 * number, SCALAR, for all elements. Both forms of a unary one are the same.
 */
#ifndef OPS_KERNELS_H
#define OPS_KERNELS_H

#include "ops/op.h"

#include <stddef.h>
#include <stdint.h>

#define MAYBE_UNUSED __attribute__((unused))

struct kernel_args {
	void *out; /* the result: y, dv or da; may be an input block of the same type */
	void *keep
		[MAX_KEEPS]; /* where forward_keep stores all kept arrays; masks and signs are packed (kernels_type_template.h) */
	const void *v, *a, *b, *y; /* the input; the operands, the last one in form [0]; the output, for derivatives */
	const void *k, *l;         /* kept values or masks; a derivative reads of all five those in its NEEDS (ops.def) */
	const void *g;             /* the cotangent */
	double scalar;             /* the last operand, in form [1] */
	double number[2];          /* P(0), P(1) */
	size_t n;
};
typedef void kernel(const struct kernel_args *args);

/*
 * A factor of a product. Its rows begin LD elements apart. If TRANSPOSED, the product uses its transpose. A B whose LD is 0 is
 * what gemm_pack has made of it.
 */
struct factor {
	const void *data;
	int64_t ld;
	bool transposed;
};

/*
 * C[m,n] = A[m,k] B[k,n], plus the old C if ACCUMULATE. C's rows begin LDC elements apart. All are row-major. SPARSE:
 * products with zeros at the ends of A's rows and B's columns may be left out, as far as the other factor is finite. The
 * result is the same, but the sign of a zero whose products are all too small for the type may depend on the rows beside it.
 *
 * Unless they are NULL, the row LESS[n] is subtracted from each row of the result, which then is multiplied by the elements of
 * TIMES, which lie as C's do. Only a product in tiles has these.
 */
struct product {
	int64_t m, n, k;
	struct factor a, b;
	void *c;
	int64_t ldc;
	bool accumulate, sparse;
	const void *less, *times;
};

/*
 * Blocks of at most ROWS rows of a product. For the COUNT rows from FIRST on, COLUMNS returns the number of first columns
 * that are wanted. DONE is called once they are computed.
 */
struct row_blocks {
	int64_t rows;
	int64_t (*columns)(void *context, int64_t first, int64_t count);
	void (*done)(void *context, int64_t first, int64_t count);
	void *context;
};

/* A multiple of the rows of C in a register tile of any set (12, 6 or 4). plan/tiles.c has bounds in such stripes. */
enum { PRODUCT_STRIPE = 12 };

/* Our own product adds to C once for so many products of an element: so parts of K that begin there have the same bits. */
enum { PRODUCT_DEPTH = 256 };

/* Rows of an array: each begins ROW elements after the row before. A row's elements lie STEP apart, which is not 0. */
struct rows {
	void *at;
	int64_t row, step;
};

/*
 * Sums of lines, in double. A line is N consecutive elements, and COUNT lines follow one another. out[i] + rest[i] is the
 * sum of line i, where rest[i] is what the roundings lost. If REST is NULL, out[i] is the sum rounded once. A sum that is
 * not finite has the rest 0.
 *
 * F64: each addition adds its rounding error to a second number (Ogita, Rump, Oishi 2005, "Accurate sum and dot
 * product"); if terms are never negative by Dekker's formula, within one unit of the last place of the sum. Up to 32
 * elements are added one after another. Of longer lines, lane j of 8 adds elements j, j + 8, ... Then
 * lanes j and j + 4 are added, then j + 2, j + 1.
 *
 * F32: the rest is 0, since doubles sum floats well enough. Up to 7 elements are added one after another. Longer lines
 * have blocks of 128; the last may be shorter. A block has 16 lanes, in the same way. Blocks are added pairwise.
 */
struct line_sums {
	void (*values)(double *out, double *rest, const void *v, size_t n, size_t count);
	void (*squares)(double *out, double *rest, const void *v, size_t n, size_t count);
	void (*magnitudes)(double *out, double *rest, const void *v, size_t n, size_t count); /* of |v| */
	/* of v * a; of (v - p[i])^2; of Huber's loss of v at delta p[i] */
	void (*products)(double *out, double *rest, const void *v, const void *a, size_t n, size_t count);
	void (*deviations)(double *out, double *rest, const void *v, const double *p, size_t n, size_t count);
	void (*huber)(double *out, double *rest, const void *v, const double *p, size_t n, size_t count);
	/* out[i] + rest[i] = the sum of column i of COUNT rows of N elements, ROW elements apart, added one after another */
	void (*rows)(double *out, double *rest, const void *v, int64_t row, size_t n, size_t count);
};

/* For the derivative of a line's normalization: mean(g) (rmsnorm: 0), mean(g * y), the scale of the forward pass. */
struct normalization {
	double mean, product, scale;
};

/* Element FIRST + i is kept if its random word is at least THRESHOLD. */
struct dropout {
	int64_t first;
	uint64_t seed, stream, threshold;
	double scale;
};

/*
 * The factors around pieces of lines: BEFORE a piece's first element, AFTER its last, and a POWER of two. BEFORE and AFTER
 * are within 2^-100 and 2^100, or are 0, infinite or NaN.
 */
enum { PRODUCTS_SOME = 64, PRODUCT_PIECES = 4 };
struct product_ends {
	double before[PRODUCT_PIECES], after[PRODUCT_PIECES], power[PRODUCT_PIECES];
};

enum { MAX_PAIRS = 4 * MAX_DIMS };
/* Pairs of rows: those on one side of a row and those on the other. If DOUBLES, rows count TIMES. */
struct differences {
	const void *centre;
	double divisor;
	int pairs;
	bool doubles;
	const void *sides[2][MAX_PAIRS];
	double coefficients[MAX_PAIRS], times[2][MAX_PAIRS];
};

/*
 * The sum of weights[t] * terms[t][i] over COUNT terms, in order; 0 if there are none. It is multiplied by SCALE, and
 * ADD[i] is added unless ADD is NULL. The result may overwrite ADD, and is none of the terms.
 */
struct weighted_sum {
	const void *const *terms;
	const double *weights;
	size_t count;
	double scale;
	const void *add;
};

/*
 * Two neighbouring rows of N >= 1 elements. BEFORE and AFTER are the rows around them; ENDS are the elements left and right
 * of each row. OUT is add + scale * (((above - 2 v) + below) + ((left - 2 v) + right)), or without ADD if that is NULL. OUT
 * may be ADD.
 */
struct row_pair {
	size_t n;
	void *out[2];
	const void *v[2], *add[2], *before, *after;
	double ends[2][2], scale;
};

/*
 * Transforms of lines of complex numbers, of which a block has FFT_BYTES / sizeof(element) side by side. Row j of a block has
 * number j of each line: first the real parts, then the imaginary ones. Vectors are aligned.
 */
enum { FFT_BYTES = 64, FFT_MOST_RADICES = 40, FFT_MOST_RADIX = 31 };
/* N is the product of the radices: 2, 3, 4, 5, 8, or any other odd number. ROOTS: pairs exp(-2 pi i k / n), for k < n. */
struct fft_radices {
	int64_t n;
	int count, radix[FFT_MOST_RADICES];
	const void *roots;
};
/* Rows begin ROW elements apart, with their real parts at REAL and the imaginary ones IMAGINARY elements behind these. */
struct fft_rows {
	const void *real;
	int64_t imaginary, row;
};
/*
 * The transform of the rows FROM, times SCALE or, if BY is not NULL, row by row times a pair of TURNS and then times a row of
 * the block BY. Each WORK is a block with n rows; FROM may be work[0]. SWAPPED: imaginary parts come first in the result.
 */
struct fft_block {
	const struct fft_radices *radices;
	struct fft_rows from;
	void *work[2];
	const void *turns, *by;
	double scale;
	bool swapped;
};

/*
 * A long sum is a head, the sum rounded to the type, and a tail, which is what the rounding took. A tail has half as
 * many bytes as a head: it counts units of 2^-15 (F32) or 2^-31 (F64) of the head's last place, at most half of them.
 * So a sum has 39 or 84 bits. Once all is added, the heads are the result. A head that is not finite has the tail 0.
 */
struct loops {
	enum dtype dtype; /* F32 or F64 */
	struct line_sums sum;
	/* dst[i] += src[i]; of two NaNs src's stays */
	void (*accumulate)(void *dst, const void *src, size_t n);
	/* Adds src[i] to the long sum heads[i] and tails[i]; of two NaNs the sum's stays. SRC_TAILS NULL: of zeros. */
	void (*accumulate_long)(void *heads, void *tails, const void *src, const void *src_tails, size_t n);
	/* dst[i] = value */
	void (*fill)(void *dst, double value, size_t n);
	/* conversions from the loops' type */
	void (*to_f32)(float *out, const void *v, size_t n);
	void (*to_f64)(double *out, const void *v, size_t n);
	/* out[i] = the largest or smallest element of line i, or a NaN if it has one; N > 0 */
	void (*largest)(double *out, const void *v, size_t n, size_t count);
	void (*smallest)(double *out, const void *v, size_t n, size_t count);
	/* Returns how many of the first elements of a line of N hold all that are not -inf. */
	size_t (*shown)(const void *v, size_t n);
	/* Return the index of the first element of a line of N that is above or below BOUND, rounded to the type; N if none is. */
	size_t (*find_above)(const void *v, double bound, size_t n);
	size_t (*find_below)(const void *v, double bound, size_t n);
	/* mantissa[i] * 2^exponent[i] = the product of line i, one element after another; 1 if N is 0. Lines begin STEP apart. */
	void (*products)(double *mantissa, double *exponent, const void *v, size_t step, size_t n, size_t count);
	/*
	 * Stores at each index of COUNT pieces, at most PRODUCT_PIECES, the product of BEFORE, the other elements of the piece,
	 * AFTER and POWER. Pieces have N elements, at most PRODUCTS_SOME, and begin STEP apart. OUT may be V. Returns false, and
	 * stores nothing, if an element is so far from 1 that a product may come near the ends of a double's range.
	 */
	bool (*other_products)(void *out, const void *v, size_t step, const struct product_ends *ends, size_t n,
	                       size_t count);
	/* In line i: out = v - p[i]; out = v / p[i]; out = v * p[i]. P is rounded to the type first. */
	void (*subtract)(void *out, const void *v, const double *p, size_t n, size_t count);
	void (*divide)(void *out, const void *v, const double *p, size_t n, size_t count);
	void (*multiply)(void *out, const void *v, const double *p, size_t n, size_t count);
	/* out = v * p[i], in double, rounded once: P may be beyond the type's range */
	void (*multiply_wide)(void *out, const void *v, const double *p, size_t n, size_t count);
	/* out = (v - mean[i]) * scale[i], in double, rounded once */
	void (*normalize)(void *out, const void *v, const double *mean, const double *scale, size_t n, size_t count);
	/* normalize along the other axis: out[i] = (v[i] - mean[i]) * scale[i] */
	void (*normalize_row)(void *out, const void *v, const double *mean, const double *scale, size_t n);
	/* out = y * (g - p[i]) */
	void (*softmax_derivative)(void *out, const void *g, const void *y, const double *p, size_t n, size_t count);
	/* out = g - out * p[i] */
	void (*log_softmax_derivative)(void *out, const void *g, const double *p, size_t n, size_t count);
	/* out = p[i].scale * ((g - p[i].mean) - y * p[i].product), in double, rounded once */
	void (*normalize_derivative)(void *out, const void *g, const void *y, const struct normalization *p, size_t n,
	                             size_t count);
	/*
	 * out = the sum of coefficient * ((side 0 - 2 centre) + side 1) over the pairs, in order, divided by the divisor. A
	 * factor or divisor of 1 changes nothing. OUT is none of the rows.
	 */
	void (*differences)(void *out, const struct differences *differences, size_t n);
	/* out = ((above - 2 v) + below) + ((left - 2 v) + right) in a row of N >= 1; ENDS lie left and right of the row */
	void (*differences_2d)(void *out, const void *above, const void *v, const void *below, const double ends[2],
	                       size_t n);
	void (*weighted)(void *out, const struct weighted_sum *sum, size_t n);
	/* v + scale * laplacian(v), or without v, in two rows (struct row_pair) */
	void (*laplacian_pair)(const struct row_pair *pair);
	/* out[i] = v[i] * scale if element i is kept (elements.c), else 0 */
	void (*dropout)(void *out, const void *v, size_t n, const struct dropout *dropout);
	/* TO[c, r] = FROM[r, c], where FROM is [ROWS, COLUMNS]; rows begin TO_ROW and FROM_ROW elements apart */
	void (*transpose)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows, int64_t columns);
	/* For each of ROWS rows of N elements: to = from; to += from (from.step is 1); to = 0 (to.step is 1). */
	void (*copy_rows)(const struct rows *to, const struct rows *from, size_t n, size_t rows);
	void (*add_rows)(const struct rows *to, const struct rows *from, size_t n, size_t rows);
	void (*clear_rows)(const struct rows *to, size_t n, size_t rows);
	/*
	 * In a block of ROWS rows of N elements. largest_in_columns: out[i] = the larger of out[i] and column i, or a NaN of these.
	 * add_columns: out[i] += the sum of column i, eight rows at a time. subtract_row: v[r,i] -= p[i].
	 */
	void (*largest_in_columns)(void *out, const void *v, size_t n, size_t rows);
	void (*add_columns)(double *out, const void *v, size_t n, size_t rows);
	void (*subtract_row)(void *v, const void *p, size_t n, size_t rows);
	/* out[i] = v[i * step] if that is larger, or NaN */
	void (*take_larger)(void *out, const void *v, int64_t step, size_t n);
	/* the same, and at[i] = place there */
	void (*find_larger)(void *out, int64_t *at, int64_t place, const struct rows *v, size_t n);
	/* Returns which work has the result. */
	void *(*fft)(const struct fft_block *block);
	/*
	 * Read COUNT lines of a block from pairs, with zeros for other lines, or write them: ROWS rows of pairs that begin ROW
	 * elements apart. SWAPPED: the block has its imaginary parts first.
	 */
	void (*fft_take)(void *block, const void *from, int64_t row, size_t rows, int count, bool swapped);
	void (*fft_put)(void *to, int64_t row, const void *block, size_t rows, int count, bool swapped);
	/*
	 * fft_real makes the first h + 1 numbers of the transform of 2 H real ones. Z has the transform of H pairs of them, and gets
	 * the result. fft_half is the inverse: it makes the Z whose transform back has 2 H real numbers of their spectrum X, which Z
	 * may be. HALF, 1/2 in fft_real and 1 in fft_half, scales numbers 1 to h - 1. ROOTS are pairs exp(-pi i k / h) for
	 * k <= h / 2. BLOCK: Z is a block of lines.
	 */
	void (*fft_real)(void *z, int64_t h, const void *roots, double half, bool block);
	void (*fft_half)(void *z, const void *x, int64_t h, const void *roots, double half, bool block);
	/* Number 0 of Z becomes real, and number n - k the conjugate of number k, for 0 < k < n / 2. */
	void (*fft_mirror)(void *z, int64_t n, bool block);
	/* out[i] = v[i] * a[i] * scale for N pairs, complex numbers; if CONJUGATE, with a's conjugate. OUT may be V. */
	void (*multiply_pairs)(void *out, const void *v, const void *a, bool conjugate, double scale, size_t n);
	/* Our own product; M, N, K > 0. If TILES, a vector goes as a matrix: C's bits do not depend on M and N. */
	void (*gemm)(const struct product *product, bool tiles);
	/* Packs B, K rows and N columns, to TO, product_panel() elements, for any number of products by TILES. */
	void (*gemm_pack)(void *to, const struct factor *b, int64_t k, int64_t n);
	/* The same by tiles and block by block. */
	void (*gemm_blocks)(const struct product *product, const struct row_blocks *blocks);
	/* The same by tiles, where B's row p begins at its element B_AT[p]. Up to TILE_BYTES after each row are read. */
	void (*gemm_apart)(const struct product *product, const int64_t *b_at);
};
enum { TILE_BYTES = 128 };
/* Returns the elements, of SIZE bytes, of a packed B of K rows and N columns. */
static inline int64_t product_panel(int64_t k, int64_t n, size_t size)
{
	const int64_t stripe = TILE_BYTES / (int64_t)size;
	return (n + stripe - 1) / stripe * stripe * k;
}

/* One step of a run in registers: a cheap operation with at most a scalar, or the end of a loop over earlier steps. */
struct run_step {
	uint32_t op;         /* enum op, or OP_COUNT for the end of a loop */
	uint32_t target;     /* of the end of a loop: its first step; of an operation: own_scalar of its instr */
	uint64_t iterations; /* of the end of a loop: how often its steps run, at least 1 */
	double scalar;       /* the operand, if the operation has one */
	double number[2];
};
enum { RUN_MAX_STEPS = 4096, RUN_MAX_DEPTH = 8 };

struct kernels {
	const char *isa;                   /* "avx512", "avx2", "baseline" (SSE2), "portable" */
	enum dtype dtype;                  /* F32 or F64 */
	const struct loops *loops;         /* of the same set and type; the baseline set has the portable ones */
	kernel *forward[OP_COUNT][2];      /* NULL for general operations */
	kernel *forward_keep[OP_COUNT][2]; /* also stores K and L; NULL if the operation computes none */
	kernel *vjp_v[OP_COUNT][2];        /* dv, before any sum over broadcast axes; NULL if there is no derivative */
	kernel *vjp_a[OP_COUNT][2];        /* da, likewise */
	kernel *vjp_b[OP_COUNT][2];        /* db, likewise */
	/*
	 * Applies COUNT STEPS, at most RUN_MAX_STEPS, to the N elements of V and stores the results in
	 * OUT. A tile of 16 (AVX-512), 10 (AVX2) or 8 vectors stays in registers through all steps. The
	 * bits are those of the kernels one after another. Needs some 64 KiB of stack.
	 */
	void (*run)(void *out, const void *v, const struct run_step *steps, size_t count, size_t n);
	kernel *round[2]; /* round to DTYPE_F16 or DTYPE_BF16; the results have the type of the table */
};

/* The tables of each set, from kernels_ISA.c and loops_ISA.c, which are built with the flags of that set. */
#define DECLARE_TABLES(ISA)                                                                                            \
	extern const struct kernels kernels_##ISA##_f32, kernels_##ISA##_f64;                                              \
	extern const struct loops loops_##ISA##_f32, loops_##ISA##_f64
DECLARE_TABLES(portable);
DECLARE_TABLES(baseline); /* without loops: it has the portable ones */
DECLARE_TABLES(avx2);
DECLARE_TABLES(avx512);

/* True if OP can be a step of a run: it is element-wise with one operand at most, and its FLOPS are below 8. */
bool op_runs_in_registers(enum op op);

/*
 * Returns this processor's best table for DTYPE, F32 or F64. For tests, CKPTC_ISA (avx512, avx2,
 * baseline, portable) selects another; a name that the processor cannot run is ignored.
 */
const struct kernels *kernels_get(enum dtype dtype);
/* Stores the tables that this processor can run, the best first. Returns their count. For tests. */
size_t kernels_all(enum dtype dtype, const struct kernels *tables[4]);

#endif
