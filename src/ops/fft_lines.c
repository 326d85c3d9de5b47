/*
 * Discrete Fourier transforms of lines: plans, tables of roots of unity, and the transform of one line.
 *
 * A short line whose length has small factors alone is transformed beside others, one in each lane of a vector. A long one
 * is a matrix in the order of its rows (Gentleman and Sande 1966, "Fast Fourier transforms: for fun and profit"; Bailey 1990,
 * "FFTs in external or hierarchical memory"). With n = P Q, j = j1 Q + j2 and k = k1 + k2 P,
 *
 *     y[k] = sum_j2 exp(-2 pi i j2 k2 / Q) ( exp(-2 pi i j2 k1 / n) sum_j1 exp(-2 pi i j1 k1 / P) x[j] )
 *
 * Neighbouring columns j2, and then neighbouring rows k1, are lines side by side, and a block stays in the cache.
 *
 * A length with a large prime factor becomes a convolution (Bluestein 1970, "A linear filtering approach to the computation
 * of discrete Fourier transform"), since j k = (j^2 + k^2 - (k - j)^2) / 2. The convolution's length is 2 n - 1 at least.
 *
 * Which way a line goes follows from its length alone, so its bits do not depend on other lines.
 * Tests: tests/unit/test_fft.c
 */
#include "ops/fft.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"

enum {
	DIRECT_MOST = 256, /* the longest lines that are transformed DIRECTly */
	SPLITS_TRIED = 4,  /* divisors of a length, from the largest that is not above its root */
};

/* Stores the radices of N. Returns what is left of N: 1 if it has small factors alone. */
static int64_t find_radices(struct fft_radices *radices, int64_t n)
{
	int twos = 0;
	*radices = (struct fft_radices){.n = n};
	for (; n % 2 == 0; n /= 2)
		twos++;
	/* as many 8s as there can be with 4s beside them */
	const int fours = twos == 1 ? 0 : twos % 3 == 1 ? 2 : twos % 3 == 2;
	for (int i = 0; i < fours; i++)
		radices->radix[radices->count++] = 4;
	if (twos == 1)
		radices->radix[radices->count++] = 2;
	for (int i = 0; twos > 1 && i < (twos - 2 * fours) / 3; i++)
		radices->radix[radices->count++] = 8;
	for (int p = 3; p <= FFT_MOST_RADIX; p += 2)
		for (; n % p == 0; n /= p)
			radices->radix[radices->count++] = p;
	if (radices->count == 0)
		radices->radix[radices->count++] = 1;
	return n;
}

/* Sets the parts of PLAN's length: of some divisors those that leave the fewest lanes of blocks empty. */
static void split_length(struct fft_plan *plan)
{
	const int64_t n = plan->length;
	int64_t least = INT64_MAX, p = (int64_t)sqrt((double)n);
	for (int tried = 0; p > 0 && tried < SPLITS_TRIED; p--)
		if (n % p == 0) {
			tried++;
			for (int swap = 0; swap < 2; swap++) {
				const int64_t part[2] = {swap ? n / p : p, swap ? p : n / p};
				const int64_t lanes =
					part[0] * round_up(part[1], plan->abreast) + part[1] * round_up(part[0], plan->abreast);
				if (lanes >= least)
					continue;
				least = lanes;
				memcpy(plan->part, part, sizeof part);
			}
		}
}

/* Returns the shortest length of a convolution that has N numbers or more, and radices that are fast. */
static int64_t convolution_length(int64_t n)
{
	static const int64_t odd[] = {1, 3, 5, 9, 15};
	int64_t best = INT64_MAX;
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		int64_t length = odd[i];
		while (length < n)
			length *= 2;
		best = lesser(best, length);
	}
	return best;
}

/* Returns where COUNT elements lie behind *END, and moves that. */
static int64_t reserve(int64_t *end, int64_t count, int64_t unit)
{
	const int64_t at = *end;
	*end += round_up(count, unit);
	return at;
}

struct fft_plan fft_plan_of(enum dtype dtype, int64_t count, bool real)
{
	const bool halves = real && count % 2 == 0;
	const int64_t n = halves ? count / 2 : count;
	const int64_t size = (int64_t)dtype_size(dtype);
	struct fft_plan plan = {.n = n, .length = n, .halves = halves, .abreast = (int)(FFT_BYTES / size)};
	struct fft_radices radices;
	if (find_radices(&radices, n) > 1) {
		plan.way = FFT_CHIRP;
		plan.length = convolution_length(2 * n - 1);
	} else if (n > DIRECT_MOST) {
		plan.way = FFT_SPLIT;
	}
	plan.part[0] = n;
	plan.part[1] = 1;
	if (plan.way != FFT_DIRECT)
		split_length(&plan);
	const int64_t row = 2 * plan.abreast;
	for (int i = 0; i < (plan.way == FFT_DIRECT ? 1 : 2); i++)
		plan.roots[i] = reserve(&plan.prepared_end, 2 * plan.part[i], row);
	if (plan.way != FFT_DIRECT) {
		plan.lanes = reserve(&plan.prepared_end, plan.part[0] * row, row);
		plan.turns = reserve(&plan.prepared_end, 2 * plan.part[0] * ceil_div(plan.part[1], plan.abreast), row);
	}
	if (plan.way == FFT_CHIRP) {
		plan.chirp = reserve(&plan.prepared_end, 2 * n, row);
		plan.spectrum = reserve(&plan.prepared_end, 2 * plan.length, row);
	}
	if (halves)
		plan.half_roots = reserve(&plan.prepared_end, 2 * (n / 2 + 1), row);
	for (int i = 0; i < 2; i++)
		plan.work[i] = reserve(&plan.memory, (greater(plan.part[0], plan.part[1]) + 1) * row, row);
	if (plan.way != FFT_DIRECT) {
		/* an odd number of cache lines, so that rows begin in all sets of the cache */
		plan.pitch = round_up(plan.part[0], plan.abreast) / plan.abreast;
		plan.pitch = (plan.pitch + (plan.pitch % 2 == 0)) * plan.abreast;
		plan.matrix = reserve(&plan.memory, 2 * plan.part[1] * plan.pitch, row);
	}
	if (plan.way == FFT_CHIRP || (plan.way == FFT_SPLIT && real))
		plan.line = reserve(&plan.memory, 2 * (plan.length + 1), row);
	/* fft_prepare has doubles there, for half of a circle at most */
	plan.memory = greater(plan.memory, round_up((greater(2 * n, plan.length) / 2 + 1) * 16 / size, row));
	return plan;
}

/* Roots of unity: COSINES has pairs of cosine and sine of an eighth of a circle of N roots, 2^LOG_GAP quarters of a root apart. */
struct circle {
	int64_t n;
	int log_gap;
	double *cosines;
};

/*
 * Stores the cosine and the sine of (pi / 2) (t / n), for 0 <= T <= n / 2. The angle has a second double for its rounding
 * error, so that the results have no error but that of sin and cos.
 */
static void store_angle(double pair[2], int64_t t, int64_t n)
{
	const double half_pi = 0x1.921fb54442d18p0, half_pi_rest = 0x1.1a62633145c07p-54;
	const double part = (double)t / (double)n, rest = fma(-part, (double)n, (double)t) / (double)n;
	const double angle = part * half_pi;
	const double error = fma(part, half_pi, -angle) + (part * half_pi_rest + rest * half_pi);
	const double cosine = cos(angle), sine = sin(angle);
	pair[0] = cosine - sine * error;
	pair[1] = sine + cosine * error;
}

/*
 * Fills the table at COSINES for N roots. Of a long one each FEW-th pair is computed from its angle. Those between are by
 * the angle's difference from it, which is small, and so is the error of a product with it.
 */
static struct circle fill_circle(double *cosines, int64_t n)
{
	enum { FEW = 32 };
	const struct circle circle = {n, n % 4 == 0 ? 2 : n % 2 == 0, cosines};
	const int64_t gap = 1 << circle.log_gap, count = n / (2 * gap) + 1, step = count > 8 * FEW ? FEW : 1;
	double less[FEW][2]; /* the cosine of a difference less 1, and its sine */
	for (int64_t k = 1; k < step; k++) {
		double half[2]; /* of half the angle */
		store_angle(half, k * gap, 2 * n);
		less[k][0] = -2 * half[1] * half[1];
		less[k][1] = 2 * half[1] * half[0];
	}
	for (int64_t i = 0; i < count; i += step) {
		double *const pair = cosines + 2 * i;
		store_angle(pair, i * gap, n);
		const double cosine = pair[0], sine = pair[1];
		for (int64_t k = 1; k < lesser(step, count - i); k++) {
			pair[2 * k] = cosine + (cosine * less[k][0] - sine * less[k][1]);
			pair[2 * k + 1] = sine + (sine * less[k][0] + cosine * less[k][1]);
		}
	}
	return circle;
}

/*
 * Stores exp(-2 pi i k / n), for 0 <= K < n. Symmetries bring K, in quarters of a root, to the first eighth of the circle.
 * There are no branches: K may be anywhere.
 */
static void circle_root(const struct circle *circle, int64_t k, double root[2])
{
	const int64_t n = circle->n, upper = lesser(4 * k, 4 * n - 4 * k), right = lesser(upper, 2 * n - upper);
	const int64_t first = lesser(right, n - right);
	const double *const pair = circle->cosines + 2 * (first >> circle->log_gap);
	const bool steep = first != right;
	root[0] = pair[steep] * (right == upper ? 1 : -1);
	root[1] = pair[!steep] * (upper == 4 * k ? -1 : 1);
}

static void store_number(const struct fft *fft, int64_t at, double x)
{
	if (fft->loops->dtype == DTYPE_F32)
		((float *)fft->prepared)[at] = (float)x;
	else
		((double *)fft->prepared)[at] = x;
}

static void *fft_at(const struct fft *fft, void *array, int64_t element)
{
	return (char *)array + element * (FFT_BYTES / fft->plan->abreast);
}

/* Stores the first COUNT of N roots at element AT of the tables. */
static void store_roots(const struct fft *fft, int64_t at, int64_t n, int64_t count)
{
	const struct circle circle = fill_circle(fft->memory, n);
	for (int64_t k = 0; k < count; k++) {
		double root[2];
		circle_root(&circle, k, root);
		for (int i = 0; i < 2; i++)
			store_number(fft, at + 2 * k + i, root[i]);
	}
}

/*
 * Column j2 = c + l, lane l of a block that begins at c, has the factor exp(-2 pi i j2 k1 / length) in row k1. It is the
 * product of that of c k1, one for the block, and that of l k1, one for all blocks: two short tables.
 */
static void store_twiddles(const struct fft *fft)
{
	const struct fft_plan *const plan = fft->plan;
	const struct circle circle = fill_circle(fft->memory, plan->length);
	const int64_t rows = plan->part[0], columns = plan->part[1], abreast = plan->abreast;
	double root[2];
	for (int64_t row = 0; row < rows; row++)
		for (int64_t lane = 0; lane < abreast; lane++) {
			circle_root(&circle, row * lane % plan->length, root);
			for (int i = 0; i < 2; i++)
				store_number(fft, plan->lanes + (2 * row + i) * abreast + lane, root[i]);
		}
	for (int64_t c = 0; c < columns; c += abreast)
		for (int64_t row = 0; row < rows; row++) {
			circle_root(&circle, row * c, root);
			for (int i = 0; i < 2; i++)
				store_number(fft, plan->turns + 2 * (c / abreast * rows + row) + i, root[i]);
		}
}

static struct fft_radices radices_of(const struct fft *fft, int part)
{
	struct fft_radices radices;
	(void)find_radices(&radices, fft->plan->part[part]);
	radices.roots = fft_at(fft, fft->prepared, fft->plan->roots[part]);
	return radices;
}

/* Transforms the LENGTH numbers FROM. TO may be FROM. */
static void split_line(const struct fft *fft, void *to, const void *from, bool back, double scale)
{
	const struct fft_plan *const plan = fft->plan;
	const struct loops *const loops = fft->loops;
	const int64_t *const part = plan->part, pitch = plan->pitch, row = 2 * plan->abreast;
	const struct fft_radices columns = radices_of(fft, 0), rows = radices_of(fft, 1);
	struct fft_block block = {
		.work = {fft_at(fft, fft->memory, plan->work[0]), fft_at(fft, fft->memory, plan->work[1])}};
	void *const matrix = fft_at(fft, fft->memory, plan->matrix);
	block.radices = &columns;
	block.by = fft_at(fft, fft->prepared, plan->lanes);
	block.from = (struct fft_rows){block.work[0], plan->abreast, row};
	for (int64_t c = 0; c < part[1]; c += plan->abreast) {
		const int64_t lanes = lesser(part[1] - c, plan->abreast);
		loops->fft_take(block.work[0], fft_at(fft, (void *)(uintptr_t)from, 2 * c), 2 * part[1], (size_t)part[0],
		                (int)lanes, back);
		block.turns = fft_at(fft, fft->prepared, plan->turns + 2 * c / plan->abreast * part[0]);
		char *const done = loops->fft(&block);
		for (int i = 0; i < 2; i++)
			loops->transpose(fft_at(fft, matrix, (2 * c + i) * pitch), 2 * pitch, fft_at(fft, done, i * plan->abreast),
			                 row, part[0], lanes);
	}
	block.radices = &rows;
	block.by = NULL;
	block.scale = scale;
	for (int64_t k = 0; k < part[0]; k += plan->abreast) {
		block.from = (struct fft_rows){fft_at(fft, matrix, k), pitch, 2 * pitch};
		const void *const done = loops->fft(&block);
		loops->fft_put(fft_at(fft, to, 2 * k), 2 * part[0], done, (size_t)part[1],
		               (int)lesser(part[0] - k, plan->abreast), back);
	}
}

void fft_begin(const struct fft *fft)
{
	const struct fft_plan *const plan = fft->plan;
	const int64_t rest = round_up(plan->part[0], plan->abreast) - plan->part[0];
	for (int64_t i = 0; plan->way != FFT_DIRECT && rest > 0 && i < 2 * plan->part[1]; i++)
		memset(fft_at(fft, fft->memory, plan->matrix + i * plan->pitch + plan->part[0]), 0,
		       (size_t)(rest * (FFT_BYTES / plan->abreast)));
}

/* Stores exp(-pi i j^2 / n) for j < n. That of n - j is the same, or its negative where n is odd. */
static void store_chirp(const struct fft *fft)
{
	const int64_t n = fft->plan->n, at = fft->plan->chirp;
	const struct circle circle = fill_circle(fft->memory, 2 * n);
	int64_t square = 0; /* j^2 modulo 2 n */
	for (int64_t j = 0; j <= n / 2; j++) {
		double root[2];
		circle_root(&circle, square, root);
		for (int i = 0; i < 2; i++) {
			store_number(fft, at + 2 * j + i, root[i]);
			if (j > 0)
				store_number(fft, at + 2 * (n - j) + i, n % 2 ? -root[i] : root[i]);
		}
		square += 2 * j + 1;
		square -= square >= 2 * n ? 2 * n : 0;
	}
}

/* Stores the transform of the chirp's conjugate around element 0 of a circle of LENGTH. */
static void store_spectrum(const struct fft *fft)
{
	const struct fft_plan *const plan = fft->plan;
	const int64_t size = FFT_BYTES / plan->abreast;
	const char *const chirp = fft_at(fft, fft->prepared, plan->chirp);
	char *const line = fft_at(fft, fft->memory, plan->line);
	memset(line, 0, (size_t)(2 * plan->length * size));
	memcpy(line, chirp, (size_t)(2 * plan->n * size));
	for (int64_t j = 1; j < plan->n; j++) {
		char *const mirrored = line + 2 * (plan->length - j) * size;
		if (size == sizeof(float)) /* of a known size a copy is one move */
			memcpy(mirrored, chirp + 2 * j * size, 2 * sizeof(float));
		else
			memcpy(mirrored, chirp + 2 * j * size, 2 * sizeof(double));
	}
	/* The transform of the conjugate of an even sequence is the conjugate of its transform. */
	split_line(fft, line, line, false, 1);
	void *const spectrum = fft_at(fft, fft->prepared, plan->spectrum);
	memcpy(spectrum, line, (size_t)(2 * plan->length * size));
}

void fft_prepare(const struct fft *fft)
{
	const struct fft_plan *const plan = fft->plan;
	for (int i = 0; i < (plan->way == FFT_DIRECT ? 1 : 2); i++)
		store_roots(fft, plan->roots[i], plan->part[i], plan->part[i]);
	if (plan->halves)
		store_roots(fft, plan->half_roots, 2 * plan->n, plan->n / 2 + 1);
	if (plan->way != FFT_DIRECT)
		store_twiddles(fft);
	if (plan->way != FFT_CHIRP)
		return;
	store_chirp(fft);
	fft_begin(fft);
	store_spectrum(fft);
}

void fft_line(const struct fft *fft, void *to, const void *from, bool back, double scale)
{
	const struct fft_plan *const plan = fft->plan;
	if (plan->way != FFT_CHIRP) {
		split_line(fft, to, from, back, scale);
		return;
	}
	const void *const chirp = fft_at(fft, fft->prepared, plan->chirp);
	const size_t n = (size_t)plan->n, length = (size_t)plan->length;
	void *const line = fft_at(fft, fft->memory, plan->line);
	void *const rest = fft_at(fft, line, 2 * plan->n);
	fft->loops->multiply_pairs(line, from, chirp, back, 1, n);
	memset(rest, 0, (length - n) * 2 * (size_t)(FFT_BYTES / plan->abreast));
	split_line(fft, line, line, false, 1);
	fft->loops->multiply_pairs(line, line, fft_at(fft, fft->prepared, plan->spectrum), !back, 1, length);
	split_line(fft, line, line, true, 1 / (double)length);
	fft->loops->multiply_pairs(to, line, chirp, back, scale, n);
}

void *fft_lines(const struct fft *fft, bool back, double scale)
{
	const struct fft_plan *const plan = fft->plan;
	const struct fft_radices radices = radices_of(fft, 0);
	const int abreast = plan->abreast;
	void *const first = fft_at(fft, fft->memory, plan->work[0]);
	const struct fft_block block = {
		.radices = &radices,
		.from = {fft_at(fft, first, back ? abreast : 0), back ? -abreast : abreast, 2 * abreast},
		.work = {first, fft_at(fft, fft->memory, plan->work[1])},
		.swapped = back,
		.scale = scale};
	return fft->loops->fft(&block);
}
