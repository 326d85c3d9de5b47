/*
 * The inner loops of one instruction set. The includer, loops_ISA.c, defines ISA_LOOPS, the
 * name of the tables, and VECTOR_BYTES; for the matrix product GEMM_ROWS,
 * GEMM_B_KIB (of a packed panel of B) and MULTIPLY_ADD_f32, _f64; for random words MULTIPLY_LOW; for sums ADD_BESIDE.
 *
 * The compiler makes vectors of these loops at -O3. It must not reassociate a sum,
 * so the lanes of a sum are written out. The pragma ivdep promises that a result
 * overlaps an input only if both are the same block.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TYPED(NAME) N(NAME)

/*
 * A + B and A - B, by multiplying A by ONE. Zen has two pipes that add and two that multiply and add, so a chain of additions
 * takes half the time if some of them are made there. HIDE keeps the compiler from knowing that ONE is 1.
 */
#ifndef ADD_BESIDE
#define ADD_BESIDE(A, B, ONE) ((A) + (B))
#define SUBTRACT_BESIDE(A, B, ONE) ((A) - (B))
#define HIDE(ONE)
#endif

/* EACH loops over a line; the result may be the block that it reads. EACH_LINE loops over lines or rows. */
#define EACH _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++)
#define EACH_LINE(POINTERS) for (size_t line = 0; line < count; line++, POINTERS)

enum {
	SUM_BLOCK = 128,
	SUM_LANES = 16,
	SUM_FEW = 8,         /* lines of fewer floats are summed one element after another, as in NumPy */
	SUM_SHORT = 32,      /* the longest lines that are summed side by side ... */
	SUMS_ACROSS = 8,     /* ... and how many of them */
	SUMS_SOME = 64,      /* lines whose rests are stored at once, a multiple of SUMS_ACROSS */
	PREFETCH = 128,      /* doubles that are asked for ahead of a sum: processors ask for none in the next page */
	EXTREME_SHORT = 256, /* the longest lines whose extremes are found side by side */
	NEIGHBOUR_VECTORS = 4, /* of a laplacian or a stencil that are computed at once */
	/* of a matrix product (gemm_template.h) */
	PACK_K = 256,
	PACK_A_BYTES = 128 << 10,
	PACK_B_BYTES = GEMM_B_KIB << 10,
};

static inline double fold_lanes(double lane[SUM_LANES])
{
	for (int width = SUM_LANES / 2; width > 1; width /= 2)
		for (int j = 0; j < width; j++)
			lane[j] += lane[j + width];
	return lane[0] + lane[1];
}

/* Returns the mantissa of a product, in [0.5, 1), and adds the exponent to *EXPONENT. 0, infinities and NaN stay. */
static double product_split(double product, double *exponent)
{
	int own = 0;
	const double mantissa = frexp(product, &own);
	*exponent += product == 0 || !isfinite(product) ? 0 : own;
	return mantissa;
}

/*
 * Stores in REST, or adds to SUM if that is NULL, what the roundings of COUNT sums LOST. A sum that is not finite has
 * lost nothing. A NaN becomes one and the same, since the compiler chooses which of two NaNs an addition returns.
 */
static inline __attribute__((always_inline)) void finish_sums(double *sum, double *rest, const double *lost,
                                                              size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const double left = fabs(sum[i]) < INFINITY ? lost[i] : 0;
		sum[i] = sum[i] == sum[i] ? sum[i] : (double)NAN;
		if (rest)
			rest[i] = left;
		else
			sum[i] += left;
	}
}

/* Defines the sums of COUNT lines by functions for one line and for SUMS_ACROSS short ones. */
#define SUM_OF_LINES(NAME, TYPE)                                                                                       \
	static inline __attribute__((always_inline, unused)) void NAME##_lines_##TYPE(                                     \
		double *out, double *rest, const REAL *v, const REAL *a, const double *q, size_t n, size_t count)              \
	{                                                                                                                  \
		double lost[SUMS_SOME];                                                                                        \
		for (size_t first = 0; first < count; first += SUMS_SOME) {                                                    \
			const size_t end = count - first < SUMS_SOME ? count : first + SUMS_SOME;                                  \
			size_t i = first;                                                                                          \
			for (; 0 < n && n <= SUM_SHORT && i + SUMS_ACROSS <= end; i += SUMS_ACROSS)                                \
				NAME##_across_##TYPE(out + i, lost + (i - first), v + i * n, a + i * n, q ? q + i : NULL, n);          \
			for (; i < end; i++)                                                                                       \
				out[i] = NAME##_any_##TYPE(v + i * n, a + i * n, q ? q[i] : 0, n, lost + (i - first));                 \
			finish_sums(out + first, rest ? rest + first : NULL, lost, end - first);                                   \
		}                                                                                                              \
	}

/* Doubles and integers as wide as the registers. They alias arrays. */
typedef double wide_vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef double wide_loose __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
typedef long long wide_bits __attribute__((vector_size(VECTOR_BYTES), may_alias));

/*
 * Adds X to *SUM, and the rounding error to *LOST. Knuth's formula for the error has no branch. ONE is 1: see ADD_BESIDE. Once
 * the sum is infinite or NaN, *LOST is NaN (finish_sums).
 */
static inline __attribute__((always_inline)) void wide_vector_add(wide_vector *sum, wide_vector *lost, wide_vector x,
                                                                  wide_vector one MAYBE_UNUSED)
{
	const wide_vector old = *sum, all = old + x, part = SUBTRACT_BESIDE(all, old, one);
	*lost += ADD_BESIDE(SUBTRACT_BESIDE(old, all - part, one), x - part, one);
	*sum = all;
}

/* Adds X to SUM and its rounding error to LOST, as wide_vector_add does. Dekker's formula serves if no term is NEGATIVE. */
static inline __attribute__((always_inline)) void wide_add(double *sum, double *lost, double x, bool negative)
{
	const double old = *sum, all = old + x, part = all - old;
	*lost += negative ? (old - (all - part)) + (x - part) : x - part;
	*sum = all;
}

/* Adds blocks pairwise. `blocks` counts them. sum[b] is the sum of 2^b of them if bit b of `blocks` is set. */
struct levels {
	double sum[64];
	size_t blocks;
};

static inline void levels_add(struct levels *levels, double sum)
{
	int bit = 0;
	for (size_t carry = levels->blocks; carry & 1; carry >>= 1, bit++)
		sum = levels->sum[bit] + sum;
	levels->sum[bit] = sum;
	levels->blocks++;
}

static inline double levels_total(const struct levels *levels)
{
	double total = -0.0;
	for (int bit = 0; bit < 64 && levels->blocks >> bit; bit++)
		if (levels->blocks >> bit & 1)
			total = levels->sum[bit] + total;
	return levels->blocks ? total : 0;
}

/*
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as
 * easy as 1, 2, 3". A word is the low half of a lane of 64 bits. MULTIPLY_LOW, the
 * product of the low halves, ignores the high halves.
 */
typedef unsigned long long random_lanes __attribute__((vector_size(VECTOR_BYTES)));
enum {
	RANDOM_LANES = VECTOR_BYTES / 8, /* counters in a vector */
	RANDOM_VECTORS = 4,            /* computed side by side, so that their latencies overlap */
	RANDOM_WORDS = 4 * RANDOM_VECTORS * RANDOM_LANES,
};

/*
 * Stores RANDOM_WORDS words: the 4 words of each counter, from COUNTER on, in order. COUNTER is the lower half of
 * Philox's counter, STREAM the upper one, and KEY the seed.
 */
static void random_words(uint32_t words[RANDOM_WORDS], uint64_t counter, uint64_t stream, uint64_t key)
{
	random_lanes c[4][RANDOM_VECTORS], first;
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	for (int i = 0; i < RANDOM_LANES; i++)
		first[i] = counter + (uint64_t)i;
#pragma GCC unroll 4
	for (int i = 0; i < RANDOM_VECTORS; i++) {
		c[0][i] = first + (unsigned long long)(i * RANDOM_LANES);
		c[1][i] = c[0][i] >> 32;
		c[2][i] = (first ^ first) + (unsigned long long)stream;
		c[3][i] = c[2][i] >> 32;
	}
	for (int round = 0; round < 10; round++) {
#pragma GCC unroll 4
		for (int i = 0; i < RANDOM_VECTORS; i++) {
			const random_lanes p0 = MULTIPLY_LOW(c[0][i], 0xD2511F53ULL - (first ^ first));
			const random_lanes p1 = MULTIPLY_LOW(c[2][i], 0xCD9E8D57ULL - (first ^ first));
			c[0][i] = (p1 >> 32) ^ c[1][i] ^ k0;
			c[1][i] = p1;
			c[2][i] = (p0 >> 32) ^ c[3][i] ^ k1;
			c[3][i] = p0;
		}
		k0 += 0x9E3779B9U;
		k1 += 0xBB67AE85U;
	}
#pragma GCC unroll 4
	for (int i = 0; i < RANDOM_VECTORS; i++) {
		const random_lanes low = (c[0][i] & 0xffffffffULL) | c[1][i] << 32, high = (c[2][i] & 0xffffffffULL) | c[3][i] << 32;
		unsigned long long pairs[RANDOM_LANES][2];
		for (int j = 0; j < RANDOM_LANES; j++) {
			pairs[j][0] = low[j];
			pairs[j][1] = high[j];
		}
		memcpy(words + 4 * RANDOM_LANES * i, pairs, sizeof pairs);
	}
}

#define TYPE_F32
#include "ops/loops_type_template.h"
#define TYPE_F64
#include "ops/loops_type_template.h"
