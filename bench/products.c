/*
 * products: the speed of our own matrix product in one thread, for the shapes of GPT-like networks and of few rows. The right
 * factor comes from memory: each product has one of several, 40 MiB in all. Prints Gflop/s of f32, the best of 20 rounds in
 * processor time, and their part of PEAK. In a built tree, as bench/RESULTS.md has it:
 *
 *     gcc -O2 -Isrc -I. bench/products.c .libs/libinside.a -lsleef -lm -o products && ./products PEAK
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ops/kernels.h"

/* ZEROS: A has them above (1) or below (2) its diagonal, as attention's probabilities and their transpose. */
struct extents {
	const char *name;
	int m, n, k;
	bool a_transposed, b_transposed;
	int zeros;
};

static const struct extents shapes[] = {
	{"128 rows, d=256", 128, 256, 256, false, false, 0},
	{"1024 rows, d=256", 1024, 256, 256, false, false, 0},
	{"its gradient by the rows", 1024, 256, 256, false, true, 0},
	{"its gradient by a piece of the weights", 84, 384, 1024, true, false, 0},
	{"128 rows, up to 1024", 128, 1024, 256, false, false, 0},
	{"128 rows, down from 1024", 128, 256, 1024, false, false, 0},
	{"512 rows, d=512", 512, 512, 512, false, false, 0},
	{"its gradient by the rows", 512, 512, 512, false, true, 0},
	{"its gradient by a piece of the weights", 336, 384, 512, true, false, 0},
	{"512 rows, up to 2048", 512, 2048, 512, false, false, 0},
	{"its gradient by the rows", 512, 512, 2048, false, true, 0},
	{"512 rows, down from 2048", 512, 512, 2048, false, false, 0},
	{"its gradient by the rows", 512, 2048, 512, false, true, 0},
	{"attention: scores", 512, 512, 64, false, true, 0},
	{"attention: P V", 512, 64, 512, false, false, 0},
	{"attention: P' dO", 512, 64, 512, true, false, 0},
	{"attention: P V, causal", 512, 64, 512, false, false, 1},
	{"attention: P' dO, causal", 512, 64, 512, true, false, 2},
	{"1024 rows, d=1024", 1024, 1024, 1024, false, false, 0},
	{"64 rows, d=4096", 64, 4096, 4096, false, false, 0},
};

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static float *array_of(size_t count)
{
	float *array = aligned_alloc(64, (count * sizeof *array + 63) / 64 * 64);
	if (!array)
		exit(1);
	for (size_t i = 0; i < count; i++)
		array[i] = (float)(i % 17) / 16 + 0.1F;
	return array;
}

static void clear_half(const struct extents *s, float *a)
{
	for (int i = 0; i < s->m; i++)
		for (int p = 0; p < s->k; p++)
			if (s->zeros && (s->zeros == 1 ? p > i : p < i))
				a[s->a_transposed ? p * s->m + i : i * s->k + p] = 0;
}

/* Returns the flops a nanosecond. */
static double speed_of(const struct extents *s)
{
	enum { ROUNDS = 20, RIGHT_FLOATS = 40 << 18, ROUND_FLOPS = 200000000 };
	const size_t right = (size_t)s->k * (size_t)s->n, copies = RIGHT_FLOATS / right + 1;
	const double work = 2.0 * s->m * s->n * s->k;
	const int times = (int)(ROUND_FLOPS / work) + 1;
	float *a = array_of((size_t)s->m * (size_t)s->k), *b = array_of(copies * right);
	float *c = array_of((size_t)s->m * (size_t)s->n);
	double best = 1e9;
	clear_half(s, a);
	for (size_t round = 0, next = 0; round < ROUNDS; round++) {
		const double begin = now();
		for (int i = 0; i < times; i++, next = (next + 1) % copies) {
			const struct factor left = {a, s->a_transposed ? s->m : s->k, s->a_transposed};
			const struct factor factor = {b + next * right, s->b_transposed ? s->k : s->n, s->b_transposed};
			const struct product product = {s->m, s->n, s->k, left, factor, c, s->n, false, s->zeros != 0};
			kernels_get(DTYPE_F32)->loops->gemm(&product, false);
		}
		const double taken = (now() - begin) / times;
		best = taken < best ? taken : best;
	}
	free(a);
	free(b);
	free(c);
	return work / best * 1e-9;
}

int main(int argc, char **argv)
{
	const double peak = argc > 1 ? atof(argv[1]) : 0;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const struct extents *s = &shapes[i];
		const double speed = speed_of(s);
		printf("| %s | %d x %d x %d | %c%c | %.1f |", s->name, s->m, s->n, s->k, s->a_transposed ? 'T' : 'N',
		       s->b_transposed ? 'T' : 'N', speed);
		if (peak > 0)
			printf(" %.2f |", speed / peak);
		printf("\n");
	}
	return 0;
}
