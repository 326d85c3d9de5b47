/* Discrete Fourier transforms of lines of complex numbers: the plan for a length, its tables, and one line. */
#ifndef OPS_FFT_H
#define OPS_FFT_H

#include "ops/kernels.h"

/*
 * How a line of N numbers is transformed. DIRECT: in blocks of lines side by side. SPLIT: as a matrix of PART[0] by PART[1],
 * whose columns and then rows are such blocks. CHIRP: as a convolution of LENGTH numbers, which is split.
 */
enum fft_way { FFT_DIRECT, FFT_SPLIT, FFT_CHIRP };
struct fft_plan {
	enum fft_way way;
	int64_t n, length, part[2];
	bool halves;   /* a line of 2 N real numbers is transformed as one of N complex ones */
	int abreast;   /* lines of a block */
	int64_t pitch; /* elements between the parts of the numbers in a row of the transposed matrix */
	/* At which elements of struct fft's PREPARED the tables begin, and their end. */
	int64_t roots[2], lanes, turns, chirp, spectrum, half_roots, prepared_end;
	/* At which elements of its MEMORY two blocks, the transposed matrix and a line begin, and their end. */
	int64_t work[2], matrix, line, memory;
};

/*
 * Returns the plan for lines of COUNT numbers of DTYPE, from 1 to FFT_MOST. REAL: either the line or its transform is real. Those
 * of even length have half as many complex numbers. Then, or in a CHIRP, the memory has a line.
 */
struct fft_plan fft_plan_of(enum dtype dtype, int64_t count, bool real);

/* A plan with its tables and the memory of a member of a team. Both are ARRAY_ALIGN aligned. */
struct fft {
	const struct fft_plan *plan;
	const struct loops *loops; /* of the type */
	void *prepared, *memory;
};
/* Fills the tables. Uses the memory. */
void fft_prepare(const struct fft *fft);
/* Clears what fft_line reads and does not write. It is called once for each memory. */
void fft_begin(const struct fft *fft);
/*
 * Transforms the N numbers FROM, times SCALE, in a way that is not DIRECT. TO may be FROM, and either may be the line
 * in the memory. BACK: the sums are of exp(2 pi i j k / n).
 */
void fft_line(const struct fft *fft, void *to, const void *from, bool back, double scale);
/* Transforms DIRECTly the block at work[0] of the memory. Returns where the result lies in the memory. */
void *fft_lines(const struct fft *fft, bool back, double scale);

#endif
