/*
 * mlp NPZ X THREADS [OUT]: three times a tanh of the product with a weight f32[4096,4096], on the rows of X, by OpenBLAS. The
 * weights are the members of NPZ, as numpy.savez has written them, in the order of the file. With OUT: the gradient of the sum by
 * the weights, which are read again, to OUT as it is computed. It prints its seconds, elapsed and of the
 * processor. bench/networks.py compares. This is
 * what the kernel's copies, the products and the writes cost by themselves: it makes no checksums, no npz, and no message.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* of libopenblas.so.0, whose headers need not be there */
enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc);
void openblas_set_num_threads(int threads);

enum { LAYERS = 3, WIDTH = 4096, ROWS_MOST = 1024, BLOCK = 256 };
enum { LOCAL = 30, SIGNATURE = 0x04034b50, NPY_FIXED = 10 };
static float values[LAYERS + 1][ROWS_MOST * WIDTH], cotangents[2][ROWS_MOST * WIDTH], block[BLOCK * WIDTH];
static off_t weights[LAYERS];
static int npz, out = -1, rows;

/* Returns the byte after the npy header that begins at byte AT of FD. */
static off_t after_header(int fd, off_t at)
{
	unsigned char head[NPY_FIXED];
	if (pread(fd, head, sizeof head, at) != sizeof head || memcmp(head, "\x93NUMPY\x01", 7) != 0)
		exit(4);
	return at + NPY_FIXED + head[8] + 256 * head[9];
}

static void find_weights(void)
{
	off_t at = 0;
	for (int i = 0; i < LAYERS; i++, at = weights[i - 1] + (off_t)sizeof(float) * WIDTH * WIDTH) {
		unsigned char head[LOCAL];
		unsigned signature;
		if (pread(npz, head, LOCAL, at) != LOCAL || (memcpy(&signature, head, 4), signature != SIGNATURE))
			exit(4);
		weights[i] = after_header(npz, at + LOCAL + head[26] + 256 * head[27] + head[28] + 256 * head[29]);
	}
}

/* Reads rows ROW .. ROW + BLOCK - 1 of weight LAYER. */
static void read_rows(int layer, int row)
{
	if (pread(npz, block, sizeof block, weights[layer] + (off_t)sizeof(float) * WIDTH * row) != sizeof block)
		exit(5);
}

static void forward(int layer)
{
	for (int row = 0; row < WIDTH; row += BLOCK) {
		read_rows(layer, row);
		cblas_sgemm(ROW_MAJOR, AS_IS, AS_IS, rows, WIDTH, BLOCK, 1, values[layer] + row, WIDTH, block, WIDTH, row > 0,
		            values[layer + 1], WIDTH);
	}
	for (int i = 0; i < rows * WIDTH; i++)
		values[layer + 1][i] = tanhf(values[layer + 1][i]);
}

/* From the cotangent of layer LAYER's result, in G: that of its input, in DV, and the weight's gradient to OUT. */
static void backward(int layer, float *g, float *dv)
{
	const size_t most = sizeof block;
	for (int i = 0; i < rows * WIDTH; i++)
		g[i] *= 1 - values[layer + 1][i] * values[layer + 1][i];
	for (int row = 0; row < WIDTH; row += BLOCK) {
		read_rows(layer, row);
		cblas_sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, rows, BLOCK, WIDTH, 1, g, WIDTH, block, WIDTH, 0, dv + row, WIDTH);
		cblas_sgemm(ROW_MAJOR, TRANSPOSED, AS_IS, BLOCK, WIDTH, rows, 1, values[layer] + row, WIDTH, g, WIDTH, 0, block,
		            WIDTH);
		if (pwrite(out, block, most, (off_t)sizeof(float) * WIDTH * ((off_t)layer * WIDTH + row)) != (ssize_t)most)
			exit(5);
	}
}

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
	const double begin = now(CLOCK_MONOTONIC);
	struct stat stat;
	const int x = argc < 4 ? -1 : open(argv[2], O_RDONLY);
	npz = x < 0 ? -1 : open(argv[1], O_RDONLY);
	if (npz < 0 || fstat(x, &stat))
		return 2;
	openblas_set_num_threads(atoi(argv[3]));
	const off_t first = after_header(x, 0);
	rows = (int)((stat.st_size - first) / (off_t)sizeof(float) / WIDTH);
	const ssize_t bytes = (ssize_t)sizeof(float) * WIDTH * rows;
	if (rows > ROWS_MOST || pread(x, values[0], (size_t)bytes, first) != bytes)
		return 4;
	find_weights();
	for (int layer = 0; layer < LAYERS; layer++)
		forward(layer);
	for (int i = 0; i < rows * WIDTH; i++)
		cotangents[0][i] = 1;
	if (argc > 4 && (out = open(argv[4], O_RDWR | O_CREAT | O_TRUNC, 0666)) < 0)
		return 5;
	if (out >= 0)
		(void)fallocate(out, FALLOC_FL_KEEP_SIZE, 0, (off_t)sizeof(float) * WIDTH * WIDTH * LAYERS); /* as ckptc does */
	for (int layer = LAYERS; out >= 0 && layer-- > 0;)
		backward(layer, cotangents[layer % 2], cotangents[(layer + 1) % 2]);
	printf("%.3f %.3f\n", now(CLOCK_MONOTONIC) - begin, now(CLOCK_PROCESS_CPUTIME_ID));
	return out >= 0 && fsync(out) != 0 ? 5 : 0;
}
