/*
 * Matrix products: OpenBLAS where it can be had, else our own.
 *
 * OpenBLAS costs start-up time, so it is opened when the first product is about
 * to run, and with one thread: tiles are shared out among our own workers. Where
 * its buffers cannot be mapped it spins or exits, so that memory is tried first.
 *
 * The handle is the library's: one for the process, set once before any worker
 * runs (see tests/scripts/globals.allow).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ops/general.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef void sgemm_function(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);
typedef void dgemm_function(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                            const double *b, int ldb, double beta, double *c, int ldc);

static struct {
	bool tried, short_of_memory;
	sgemm_function *sgemm;
	dgemm_function *dgemm;
} blas;
static pthread_mutex_t blas_lock = PTHREAD_MUTEX_INITIALIZER;

static void open_blas(void)
{
	enum { BUFFERS = 64 << 20 };
	const char *wanted = getenv("CKPTC_BLAS");
	if (wanted && !strcmp(wanted, "none"))
		return;
#ifdef HAVE_OPENBLAS
	void *trial = mmap(NULL, BUFFERS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (trial == MAP_FAILED) {
		blas.short_of_memory = true;
		return;
	}
	munmap(trial, BUFFERS);
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	/* POSIX lets a pointer from dlsym be a function. */
	void *s = dlsym(library, "cblas_sgemm"), *d = dlsym(library, "cblas_dgemm");
	memcpy(&blas.sgemm, &s, sizeof s);
	memcpy(&blas.dgemm, &d, sizeof d);
#endif
}

enum status blas_load(struct diags *diags)
{
	pthread_mutex_lock(&blas_lock);
	if (!blas.tried)
		open_blas();
	blas.tried = true;
	pthread_mutex_unlock(&blas_lock);
	if (blas.short_of_memory)
		return diag_file(diags, STATUS_LIMIT, NULL, -1, "out of memory for matrix products");
	return STATUS_OK;
}

const char *blas_name(void)
{
	return !blas.tried ? "none" : blas.sgemm ? "openblas" : "own";
}

/*
 * Our own: C in blocks of rows, an axpy of B's rows for each element of A, which
 * the compiler makes vectors of; A and B transposed into packed blocks.
 */
#define DEFINE_GEMM(T, NAME)                                                                                           \
	static void NAME(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T *a, int64_t lda, const T *b,           \
	                 int64_t ldb, bool accumulate, T *c, int64_t ldc)                                                  \
	{                                                                                                                  \
		enum { KB = 128, NB = 256 };                                                                                   \
		T pack[KB * NB];                                                                                               \
		for (int64_t i = 0; i < m && !accumulate; i++)                                                                 \
			memset(c + i * ldc, 0, (size_t)n * sizeof *c);                                                             \
		for (int64_t k0 = 0; k0 < k; k0 += KB) {                                                                       \
			int64_t kn = k - k0 < KB ? k - k0 : KB;                                                                    \
			for (int64_t n0 = 0; n0 < n; n0 += NB) {                                                                   \
				int64_t nn = n - n0 < NB ? n - n0 : NB;                                                                \
				for (int64_t p = 0; p < kn; p++)                                                                       \
					for (int64_t j = 0; j < nn; j++)                                                                   \
						pack[p * NB + j] = tb ? b[(n0 + j) * ldb + k0 + p] : b[(k0 + p) * ldb + n0 + j];               \
				for (int64_t i = 0; i < m; i++) {                                                                      \
					T *row = c + i * ldc + n0;                                                                         \
					for (int64_t p = 0; p < kn; p++) {                                                                 \
						T x = ta ? a[(k0 + p) * lda + i] : a[i * lda + k0 + p];                                        \
						const T *from = pack + p * NB;                                                                 \
						for (int64_t j = 0; j < nn; j++)                                                               \
							row[j] += x * from[j];                                                                     \
					}                                                                                                  \
				}                                                                                                      \
			}                                                                                                          \
		}                                                                                                              \
	}
DEFINE_GEMM(float, own_sgemm)
DEFINE_GEMM(double, own_dgemm)

void gemm(enum dtype dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const void *a,
          int64_t lda, const void *b, int64_t ldb, bool accumulate, void *c, int64_t ldc)
{
	enum { PIECE = 1 << 30 };
	size_t size = dtype == DTYPE_F32 ? 4 : 8;
	if (m == 0 || n == 0)
		return;
	if (k == 0) {
		for (int64_t i = 0; i < m && !accumulate; i++)
			memset((char *)c + (size_t)(i * ldc) * size, 0, (size_t)n * size);
		return;
	}
	bool small = n < PIECE && k < PIECE && lda < PIECE && ldb < PIECE && ldc < PIECE;
	if (!blas.sgemm || !small) {
		if (dtype == DTYPE_F32)
			own_sgemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, accumulate, c, ldc);
		else
			own_dgemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, accumulate, c, ldc);
		return;
	}
	int ta = transpose_a ? TRANSPOSE : NO_TRANSPOSE, tb = transpose_b ? TRANSPOSE : NO_TRANSPOSE;
	for (int64_t i = 0; i < m; i += PIECE) {
		int rows = (int)(m - i < PIECE ? m - i : PIECE);
		const char *pa = (const char *)a + (size_t)(transpose_a ? i : i * lda) * size;
		char *pc = (char *)c + (size_t)(i * ldc) * size;
		if (dtype == DTYPE_F32)
			blas.sgemm(ROW_MAJOR, ta, tb, rows, (int)n, (int)k, 1, (const void *)pa, (int)lda, b, (int)ldb, accumulate ? 1 : 0,
			           (void *)pc, (int)ldc);
		else
			blas.dgemm(ROW_MAJOR, ta, tb, rows, (int)n, (int)k, 1, (const void *)pa, (int)lda, b, (int)ldb, accumulate ? 1 : 0,
			           (void *)pc, (int)ldc);
	}
}
