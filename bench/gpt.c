/*
 * gpt LAYERS BATCH LENGTH WIDTH THREADS forward|gradient: the matrix products of a GPT-like network by OpenBLAS, and nothing
 * else, on arrays in memory. Heads have 64 columns. Of attention's products, the half that a causal mask leaves is computed.
 * It prints the seconds of a second round, elapsed and of the processor: no program that multiplies as fast as OpenBLAS takes
 * less. bench/networks.py compares.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* of libopenblas.so.0, whose headers need not be there */
enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc);
void openblas_set_num_threads(int threads);

enum { HEAD = 64 };
static int layers, batch, length, width;
static float *weights, *weight_gradients, *state, *hidden, *scores, *result;

static float *array_of(size_t count)
{
	float *array = malloc(count * sizeof *array);
	if (!array)
		exit(6);
	for (size_t i = 0; i < count; i++)
		array[i] = (float)(i % 17) / 64;
	return array;
}

/* X[ROWS,FROM] times W[FROM,TO]; with GRADIENT also the two products of its derivative. */
static void linear(float *x, float *y, size_t weight, int from, int to, int gradient)
{
	const int rows = batch * length;
	float *const w = weights + weight, *const dw = weight_gradients + weight;
	cblas_sgemm(ROW_MAJOR, AS_IS, AS_IS, rows, to, from, 1, x, from, w, to, 0, y, to);
	if (!gradient)
		return;
	cblas_sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, rows, from, to, 1, y, to, w, to, 0, result, from);
	cblas_sgemm(ROW_MAJOR, TRANSPOSED, AS_IS, from, to, rows, 1, x, from, y, to, 0, dw, to);
}

/* The products of one head, whose Q, K and V are columns of X; with GRADIENT also the four of its derivative. */
static void attend(const float *x, float *y, int gradient)
{
	const int half = length / 2;
	cblas_sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, length, half, HEAD, 1, x, width, x, width, 0, scores, half);
	cblas_sgemm(ROW_MAJOR, AS_IS, AS_IS, length, HEAD, half, 1, scores, half, x, width, 0, y, width);
	if (!gradient)
		return;
	cblas_sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, length, half, HEAD, 1, x, width, x, width, 0, scores, half);
	cblas_sgemm(ROW_MAJOR, TRANSPOSED, AS_IS, half, HEAD, length, 1, scores, half, x, width, 0, y, width);
	cblas_sgemm(ROW_MAJOR, AS_IS, AS_IS, length, HEAD, half, 1, scores, half, x, width, 0, y, width);
	cblas_sgemm(ROW_MAJOR, TRANSPOSED, AS_IS, half, HEAD, length, 1, scores, half, x, width, 0, y, width);
}

static void round_of(int gradient)
{
	const size_t square = (size_t)width * (size_t)width;
	for (int i = 0; i < layers; i++) {
		const size_t first = 12 * square * (size_t)i;
		for (size_t k = 0; k < 4; k++)
			linear(state, result, first + k * square, width, width, gradient);
		for (int sample = 0; sample < batch; sample++)
			for (int column = 0; column < width; column += HEAD)
				attend(state + sample * length * width + column, result + sample * length * width + column, gradient);
		linear(state, hidden, first + 4 * square, width, 4 * width, gradient);
		linear(hidden, result, first + 8 * square, 4 * width, width, gradient);
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
	if (argc < 7)
		return 2;
	const int gradient = !strcmp(argv[6], "gradient");
	layers = atoi(argv[1]), batch = atoi(argv[2]), length = atoi(argv[3]), width = atoi(argv[4]);
	openblas_set_num_threads(atoi(argv[5]));
	const size_t rows = (size_t)batch * (size_t)length, columns = (size_t)width,
				 all = 12 * (size_t)layers * columns * columns;
	weights = array_of(all), weight_gradients = array_of(all);
	state = array_of(rows * columns), hidden = array_of(4 * rows * columns), result = array_of(4 * rows * columns);
	scores = array_of((size_t)length * (size_t)length);
	round_of(gradient);
	const double begin = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
	round_of(gradient);
	printf("%.3f %.3f\n", now(CLOCK_MONOTONIC) - begin, now(CLOCK_PROCESS_CPUTIME_ID) - used);
	return 0;
}
