/*
 * gpt NPZ X LAYERS BATCH LENGTH WIDTH THREADS forward|gradient once|again|products OUT: the GPT-like network of
 * bench/networks.py, written by hand. OpenBLAS multiplies. The compiler makes vectors of the other loops (-ffast-math,
 * functions of glibc's libmvec). All states are kept. bench/networks.py compares.
 *
 * It prints seconds, elapsed and of the processor: of all it does with `once`; of a second step on arrays in memory with
 * `again`; of the products alone in a second step with `products`. The results go to OUT as plain f32: y; or the gradients of
 * the sum, by x and by the params in NPZ's order.
 *
 * X has BATCH * LENGTH rows of WIDTH columns. A head has 64 columns. Of attention's products, blocks of 64 rows have the
 * columns that a causal mask leaves.
 */
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* of libopenblas.so.0, whose headers need not be there */
enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc);
void openblas_set_num_threads(int threads);

enum { HEAD = 64, PARAMS = 12 };
/* the params in the order in which bench/networks.py writes them */
enum param { Q, K, V, O, U, D, G, H, B, C, UB, DB };
static int layers, batch, length, width, threads, rows;
static bool gradient, whole;
static float *params[PARAMS], *gradients[PARAMS]; /* all layers of each */
static size_t sizes[PARAMS];                      /* of one layer */

/* What the forward pass keeps of a layer. */
struct kept {
	float *x, *middle;        /* the layer's input, and that of its second half */
	float *normal, *normal2;  /* what layernorm, mul and add make of them */
	float *q, *k, *v, *mixed; /* mixed: the heads' results */
	float *shares;            /* softmax: LENGTH by LENGTH for each head of each sample */
	float *up, *gelu;
} * kept;
static float *end, *dx, *dnormal, *dq, *dk, *dv, *dmixed, *dup, *dshares;

static float *array_of(size_t count)
{
	float *array = calloc(count, sizeof *array);
	if (!array)
		exit(6);
	return array;
}

/* C = A B (+ C), where A is M by K and B is K by N; lda, ldb, ldc */
static void product(int ta, int tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, bool add,
                    float *c, int ldc)
{
	cblas_sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, a, lda, b, ldb, add, c, ldc);
}

/* Y = X W (+ Y); X has FROM columns, and W is of LAYER. */
static void linear(const float *x, enum param w, int layer, int from, int to, bool add, float *y)
{
	product(AS_IS, AS_IS, rows, to, from, x, from, params[w] + sizes[w] * (size_t)layer, to, add, y, to);
}

/* From DY: the gradient of W, and DX = DY W' (+ DX). */
static void linear_back(const float *x, enum param w, int layer, int from, int to, const float *dy, bool add,
                        float *to_x)
{
	const size_t at = sizes[w] * (size_t)layer;
	product(TRANSPOSED, AS_IS, from, to, rows, x, from, dy, to, false, gradients[w] + at, to);
	product(AS_IS, TRANSPOSED, rows, from, to, dy, to, params[w] + at, to, add, to_x, from);
}

/* Returns 1 / the standard deviation of WIDTH elements, and their *MEAN. */
static float spread(const float *x, float *mean)
{
	float sum = 0, squares = 0;
	for (int j = 0; j < width; j++)
		sum += x[j];
	*mean = sum / (float)width;
	for (int j = 0; j < width; j++)
		squares += (x[j] - *mean) * (x[j] - *mean);
	return 1 / sqrtf(squares / (float)width + 1e-5F);
}

/* Y = layernorm(X) * SCALE + SHIFT */
static void normalise(const float *x, enum param scale, enum param shift, int layer, float *y)
{
	const float *const g = params[scale] + width * layer, *const b = params[shift] + width * layer;
#pragma omp parallel for
	for (int i = 0; i < (whole ? rows : 0); i++) {
		const size_t at = (size_t)i * (size_t)width;
		float mean;
		const float r = spread(x + at, &mean);
		for (int j = 0; j < width; j++)
			y[at + (size_t)j] = (x[at + (size_t)j] - mean) * r * g[j] + b[j];
	}
}

/* Adds to TO, the cotangent of the sum that X begins, what DY, the cotangent of normalise's result, gives X. */
static void normalise_back(const float *x, enum param scale, enum param shift, int layer, const float *dy, float *to)
{
	const float *const g = params[scale] + width * layer;
	float *const dg = gradients[scale] + width * layer, *const db = gradients[shift] + width * layer;
	memset(dg, 0, sizeof *dg * (size_t)width), memset(db, 0, sizeof *db * (size_t)width);
#pragma omp parallel for reduction(+ : dg[:width], db[:width])
	for (int i = 0; i < (whole ? rows : 0); i++) {
		const size_t at = (size_t)i * (size_t)width;
		float mean, sum = 0, along = 0;
		const float r = spread(x + at, &mean);
		for (int j = 0; j < width; j++) {
			const float n = (x[at + (size_t)j] - mean) * r, d = dy[at + (size_t)j];
			dg[j] += d * n, db[j] += d;
			sum += d * g[j], along += d * g[j] * n;
		}
		sum /= (float)width, along /= (float)width;
		for (int j = 0; j < width; j++)
			to[at + (size_t)j] += r * (dy[at + (size_t)j] * g[j] - sum - (x[at + (size_t)j] - mean) * r * along);
	}
}

/* P = softmax(P / 8) of row I, in the columns up to I; 0 in those up to LAST. */
static void share(float *p, int i, int last)
{
	float most = p[0], sum = 0;
	for (int j = 1; j <= i; j++)
		most = fmaxf(most, p[j]);
	for (int j = 0; j <= i; j++)
		sum += p[j] = expf((p[j] - most) / 8);
	for (int j = 0; j < last; j++)
		p[j] = j <= i ? p[j] / sum : 0;
}

static void attend(const struct kept *k, int sample, int head)
{
	const size_t at = (size_t)sample * (size_t)length * (size_t)width + (size_t)head * HEAD;
	float *const p = k->shares + (size_t)(sample * (width / HEAD) + head) * (size_t)length * (size_t)length;
	for (int i = 0; i < length; i += HEAD) {
		float *const block = p + (size_t)i * (size_t)length;
		const size_t row = at + (size_t)i * (size_t)width;
		product(AS_IS, TRANSPOSED, HEAD, i + HEAD, HEAD, k->q + row, width, k->k + at, width, false, block, length);
		for (int j = 0; j < (whole ? HEAD : 0); j++)
			share(block + j * length, i + j, i + HEAD);
		product(AS_IS, AS_IS, HEAD, HEAD, i + HEAD, block, length, k->v + at, width, false, k->mixed + row, width);
	}
}

static void attend_back(const struct kept *k, int sample, int head)
{
	const int heads = width / HEAD;
	const size_t at = (size_t)sample * (size_t)length * (size_t)width + (size_t)head * HEAD;
	const size_t share_at = (size_t)(sample * heads + head) * (size_t)length * (size_t)length;
	for (int i = 0; i < length; i += HEAD) {
		const float *const block = k->shares + share_at + (size_t)i * (size_t)length;
		float *const d = dshares + share_at + (size_t)i * (size_t)length;
		const size_t row = at + (size_t)i * (size_t)width;
		product(AS_IS, TRANSPOSED, HEAD, i + HEAD, HEAD, dmixed + row, width, k->v + at, width, false, d, length);
		for (int r = 0; r < (whole ? HEAD : 0); r++) {
			float sum = 0;
			for (int j = 0; j < i + HEAD; j++)
				sum += d[r * length + j] * block[r * length + j];
			for (int j = 0; j < i + HEAD; j++)
				d[r * length + j] = block[r * length + j] * (d[r * length + j] - sum) / 8;
		}
		product(AS_IS, AS_IS, HEAD, HEAD, i + HEAD, d, length, k->k + at, width, false, dq + row, width);
	}
	for (int i = 0; i < length; i += HEAD) { /* columns of the shares, from the diagonal down */
		const size_t column = share_at + (size_t)i * (size_t)length + (size_t)i, row = at + (size_t)i * (size_t)width;
		const float *const p = k->shares + column, *const d = dshares + column;
		product(TRANSPOSED, AS_IS, HEAD, HEAD, length - i, p, length, dmixed + row, width, false, dv + row, width);
		product(TRANSPOSED, AS_IS, HEAD, HEAD, length - i, d, length, k->q + row, width, false, dk + row, width);
	}
}

/* Calls F for all heads. OpenBLAS runs in the calling thread then. */
static void for_heads(void f(const struct kept *k, int sample, int head), const struct kept *k)
{
	openblas_set_num_threads(1);
#pragma omp parallel for
	for (int i = 0; i < batch * (width / HEAD); i++)
		f(k, i / (width / HEAD), i % (width / HEAD));
	openblas_set_num_threads(threads);
}

/* The normal distribution's function. Unlike 1 + erff, erfcf is precise for negative U, as ckptc's gelu is. */
static inline float share_below(float u) { return 0.5F * erfcf(-0.70710678F * u); }

/* GELU = gelu(UP + the shift of LAYER). UP gets the shift, too. */
static void activate(float *up, float *gelu, int layer)
{
	const int columns = 4 * width;
#pragma omp parallel for
	for (int i = 0; i < (whole ? rows : 0); i++)
		for (int j = 0; j < columns; j++) {
			const size_t at = (size_t)i * (size_t)columns + (size_t)j;
			const float u = up[at] += params[UB][layer * columns + j];
			gelu[at] = u * share_below(u);
		}
}

/* DUP becomes the cotangent of activate's UP, and the shift's gradient is its sum over the rows. */
static void activate_back(const float *up, int layer)
{
	const int columns = 4 * width;
	float *const sum = gradients[UB] + layer * columns;
	memset(sum, 0, sizeof *sum * (size_t)columns);
#pragma omp parallel for reduction(+ : sum[:columns])
	for (int i = 0; i < (whole ? rows : 0); i++)
		for (int j = 0; j < columns; j++) {
			const size_t at = (size_t)i * (size_t)columns + (size_t)j;
			const float u = up[at];
			dup[at] *= share_below(u) + u * 0.39894228F * expf(-0.5F * u * u);
			sum[j] += dup[at];
		}
}

/* TO = FROM, and, if SHIFT, plus LAYER's DB. */
static void copy(const float *from, bool shift, int layer, float *to)
{
#pragma omp parallel for
	for (int i = 0; i < (whole ? rows : 0); i++)
		for (int j = 0; j < width; j++)
			to[i * width + j] = from[i * width + j] + (shift ? params[DB][layer * width + j] : 0);
}

static void forward_layer(struct kept *k, int layer, float *y)
{
	normalise(k->x, G, B, layer, k->normal);
	linear(k->normal, Q, layer, width, width, false, k->q);
	linear(k->normal, K, layer, width, width, false, k->k);
	linear(k->normal, V, layer, width, width, false, k->v);
	for_heads(attend, k);
	copy(k->x, false, layer, k->middle);
	linear(k->mixed, O, layer, width, width, true, k->middle);
	normalise(k->middle, H, C, layer, k->normal2);
	linear(k->normal2, U, layer, width, 4 * width, false, k->up);
	activate(k->up, k->gelu, layer);
	copy(k->middle, true, layer, y);
	linear(k->gelu, D, layer, 4 * width, width, true, y);
}

/* DX is the cotangent of the layer's result, and becomes that of its input. */
static void backward_layer(const struct kept *k, int layer)
{
	float *const sum = gradients[DB] + layer * width;
	memset(sum, 0, sizeof *sum * (size_t)width);
	for (int i = 0; i < (whole ? rows : 0); i++)
		for (int j = 0; j < width; j++)
			sum[j] += dx[i * width + j];
	linear_back(k->gelu, D, layer, 4 * width, width, dx, false, dup);
	activate_back(k->up, layer);
	linear_back(k->normal2, U, layer, width, 4 * width, dup, false, dnormal);
	normalise_back(k->middle, H, C, layer, dnormal, dx);
	linear_back(k->mixed, O, layer, width, width, dx, false, dmixed);
	for_heads(attend_back, k);
	linear_back(k->normal, Q, layer, width, width, dq, false, dnormal);
	linear_back(k->normal, K, layer, width, width, dk, true, dnormal);
	linear_back(k->normal, V, layer, width, width, dv, true, dnormal);
	normalise_back(k->x, G, B, layer, dnormal, dx);
}

static void step(void)
{
	for (int i = 0; i < layers; i++)
		forward_layer(kept + i, i, i + 1 < layers ? kept[i + 1].x : end);
	if (!gradient)
		return;
	for (int i = 0; i < rows * width; i++)
		dx[i] = 1;
	for (int i = layers; i-- > 0;)
		backward_layer(kept + i, i);
}

static void allocate(void)
{
	const size_t w = (size_t)width, all = (size_t)rows * w, shares = all / HEAD * (size_t)length;
	for (int i = 0; i < PARAMS; i++) {
		sizes[i] = i < U ? w * w : i < G ? 4 * w * w : i == UB ? 4 * w : w;
		params[i] = array_of((size_t)layers * sizes[i]);
		gradients[i] = array_of((size_t)layers * sizes[i]);
	}
	float **const ours[] = {&end, &dx, &dnormal, &dq, &dk, &dv, &dmixed};
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		*ours[i] = array_of(all);
	dup = array_of(4 * all), dshares = array_of(shares), kept = calloc((size_t)layers, sizeof *kept);
	for (int i = 0; kept && i < layers; i++)
		kept[i] = (struct kept){array_of(all),    array_of(all),     array_of(all),    array_of(all),
		                        array_of(all),    array_of(all),     array_of(all),    array_of(all),
		                        array_of(shares), array_of(4 * all), array_of(4 * all)};
}

/* Reads COUNT floats that follow SKIPPED bytes and the npy header. */
static void read_npy(FILE *file, long skipped, float *to, size_t count)
{
	unsigned char head[10];
	if (fseek(file, skipped, SEEK_CUR) || fread(head, sizeof head, 1, file) != 1 ||
	    fseek(file, head[8] + 256 * head[9], SEEK_CUR) || fread(to, sizeof *to, count, file) != count)
		exit(4);
}

/* Reads the members of an npz that numpy.savez wrote: a header of 30 bytes, a name, an extra field, an npy file. */
static void read_params(const char *path)
{
	unsigned char head[30];
	FILE *const file = fopen(path, "r");
	for (int i = 0; i < PARAMS; i++) {
		if (!file || fread(head, sizeof head, 1, file) != 1)
			exit(4);
		read_npy(file, head[26] + 256 * head[27] + head[28] + 256 * head[29], params[i], (size_t)layers * sizes[i]);
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
	double begin = now(CLOCK_MONOTONIC), used = 0;
	if (argc < 11)
		return 2;
	layers = atoi(argv[3]), batch = atoi(argv[4]), length = atoi(argv[5]), width = atoi(argv[6]),
	threads = atoi(argv[7]);
	rows = batch * length, gradient = !strcmp(argv[8], "gradient"), whole = strcmp(argv[9], "products") != 0;
	const bool once = !strcmp(argv[9], "once");
	openblas_set_num_threads(threads), omp_set_num_threads(threads);
	allocate();
	read_params(argv[1]);
	FILE *const x = fopen(argv[2], "r"), *const out = fopen(argv[10], "w");
	if (!x || !out)
		return 4;
	read_npy(x, 0, kept[0].x, (size_t)rows * (size_t)width);
	step();
	if (!once) {
		begin = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
		step();
	}
	double end_of = now(CLOCK_MONOTONIC), used_by = now(CLOCK_PROCESS_CPUTIME_ID);
	fwrite(gradient ? dx : end, sizeof *dx, (size_t)rows * (size_t)width, out);
	for (int i = 0; gradient && i < PARAMS; i++)
		fwrite(gradients[i], sizeof *gradients[i], (size_t)layers * sizes[i], out);
	if (ferror(out) || fclose(out) != 0)
		return 5;
	if (once)
		end_of = now(CLOCK_MONOTONIC), used_by = now(CLOCK_PROCESS_CPUTIME_ID);
	printf("%.3f %.3f\n", end_of - begin, used_by - used);
	return 0;
}
