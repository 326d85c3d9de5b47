/*
 * Matrix products: OpenBLAS where it can be had and is the faster, else our own
 * kernel (loops).
 *
 * OpenBLAS is opened on first use, so that a chain without products neither pays
 * for its start nor needs it; it runs in the thread that calls it, and one call
 * is one product, so that the bits do not depend on how many threads call. Its
 * buffers, some 130 MiB of address space for each calling thread, are tried
 * first, because it spins for ever where they cannot be mapped. C is never read
 * unless accumulated: what it held, NaN included, does not matter.
 */
#include "ops/general.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/library.h"
#include "ops/loops.h"

/* cblas.h's numbers and types, so that its header is not needed to build. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef void sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                   int ldb, float beta, float *c, int ldc);
typedef void dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                   const double *b, int ldb, double beta, double *c, int ldc);
typedef void sgemv(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x, int step_x,
                   float beta, float *y, int step_y);
typedef void dgemv(int order, int ta, int m, int n, double alpha, const double *a, int lda, const double *x, int step_x,
                   double beta, double *y, int step_y);

/*
 * The one OpenBLAS of the process: a library is loaded once, and stays. Written
 * under ONCE, only read after.
 */
static struct {
	pthread_once_t once;
	bool no_room;
	sgemm *sgemm; /* all four, or none */
	dgemm *dgemm;
	sgemv *sgemv;
	dgemv *dgemv;
} blas = {.once = PTHREAD_ONCE_INIT};

#ifdef HAVE_OPENBLAS
#ifndef OPENBLAS_SONAME
#define OPENBLAS_SONAME "libopenblas.so.0"
#endif

/* Room for its code and a buffer for each processor. */
static bool has_room(void)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	const size_t bytes = ((size_t)(processors > 1 ? processors : 1) * 130 + 44) << 20;
	void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		return false;
	munmap(block, bytes);
	return true;
}

/* Opened with one thread, which it reads from the environment: else it starts a pool. */
static void *open_with_one_thread(void)
{
	const char *name = "OPENBLAS_NUM_THREADS", *old = getenv(name);
	char *kept = old ? strdup(old) : NULL;
	setenv(name, "1", 1);
	void *library = dlopen(OPENBLAS_SONAME, RTLD_NOW | RTLD_LOCAL);
	if (kept)
		setenv(name, kept, 1);
	else
		unsetenv(name);
	free(kept);
	return library;
}

/*
 * OpenBLAS 0.3.21 runs its AVX2 kernels on processors with AVX-512 that it does not know. On
 * AMD's (Zen 5, products of 256 to 1024): 131 GFLOP/s in f32 where our own does 240, and 64 in
 * f64 where it does 111. On Intel's (Sapphire Rapids): 2.4 s for 16 products of 65536 rows with
 * 256 x 256 in f32 where our own takes 1.4 and its own kernels for AVX-512 1.9; in f64 these are
 * as fast as ours within a fifth. CKPTC_BLAS=openblas takes it all the same.
 */
static bool own_is_faster(void)
{
#if defined(__x86_64__)
	return !strcmp(kernels_get(DTYPE_F32)->isa, "avx512");
#else
	return false;
#endif
}

static void load(void)
{
	const char *choice = getenv("CKPTC_BLAS");
	if (choice ? strcmp(choice, "openblas") != 0 : own_is_faster())
		return;
	blas.no_room = !has_room();
	if (blas.no_room)
		return;
	void *library = open_with_one_thread();
	if (!library)
		return;
	void (*set_threads)(int);
	library_find(library, "openblas_set_num_threads", &set_threads);
	library_find(library, "cblas_sgemm", &blas.sgemm);
	library_find(library, "cblas_dgemm", &blas.dgemm);
	library_find(library, "cblas_sgemv", &blas.sgemv);
	library_find(library, "cblas_dgemv", &blas.dgemv);
	if (!set_threads || !blas.sgemm || !blas.dgemm || !blas.sgemv || !blas.dgemv)
		blas.sgemm = NULL;
	else
		set_threads(1);
}
#else
static void load(void) {}
#endif

enum status blas_load(struct diags *diags)
{
	pthread_once(&blas.once, load);
	if (!blas.no_room)
		return STATUS_OK;
	enum status status = diag_file(diags, STATUS_LIMIT, NULL, -1,
	                               "OpenBLAS has no room for its buffers: it wants some 130 MiB of address space for "
	                               "each processor");
	diag_hint(diags, "raise the limit (ulimit -v), or set CKPTC_BLAS=none to multiply matrices without it");
	return status;
}

const char *blas_name(void) { return blas.sgemm ? "openblas" : "own"; }

/* A matrix and a vector, where both are laid out as gemv wants them; false where not. */
static bool multiply_vector(enum dtype dtype, bool transposed, int64_t rows, int64_t columns, const void *matrix,
                            int64_t ld, const void *x, int64_t step_x, bool accumulate, void *y, int64_t step_y)
{
	if (rows > INT_MAX || columns > INT_MAX || ld > INT_MAX || step_x > INT_MAX || step_y > INT_MAX)
		return false;
	/* a zero of beta would still multiply what was there */
	const int64_t length = transposed ? columns : rows;
	for (int64_t i = 0; !accumulate && i < length; i++)
		if (dtype == DTYPE_F32)
			((float *)y)[i * step_y] = 0;
		else
			((double *)y)[i * step_y] = 0;
	const int form = transposed ? TRANSPOSE : NO_TRANSPOSE;
	if (dtype == DTYPE_F32)
		blas.sgemv(ROW_MAJOR, form, (int)rows, (int)columns, 1, matrix, (int)ld, x, (int)step_x, 1, y, (int)step_y);
	else
		blas.dgemv(ROW_MAJOR, form, (int)rows, (int)columns, 1, matrix, (int)ld, x, (int)step_x, 1, y, (int)step_y);
	return true;
}

/* One product of extents within int. */
static void multiply_part(enum dtype dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                          const void *a, int64_t lda, const void *b, int64_t ldb, bool accumulate, void *c, int64_t ldc)
{
	const int ta = transpose_a ? TRANSPOSE : NO_TRANSPOSE, tb = transpose_b ? TRANSPOSE : NO_TRANSPOSE;
	if (n == 1 && multiply_vector(dtype, transpose_a, transpose_a ? k : m, transpose_a ? m : k, a, lda, b,
	                              transpose_b ? 1 : ldb, accumulate, c, ldc))
		return;
	if (m == 1 && multiply_vector(dtype, !transpose_b, transpose_b ? n : k, transpose_b ? k : n, b, ldb, a,
	                              transpose_a ? lda : 1, accumulate, c, 1))
		return;
	if (dtype == DTYPE_F32)
		blas.sgemm(ROW_MAJOR, ta, tb, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, accumulate ? 1 : 0, c,
		           (int)ldc);
	else
		blas.dgemm(ROW_MAJOR, ta, tb, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, accumulate ? 1 : 0, c,
		           (int)ldc);
}

/* C's rows are zeros: the empty sum. */
static void clear_rows(size_t size, int64_t m, int64_t n, void *c, int64_t ldc)
{
	for (int64_t i = 0; i < m; i++)
		memset((char *)c + (size_t)(i * ldc) * size, 0, (size_t)n * size);
}

void gemm(enum dtype dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const void *a,
          int64_t lda, const void *b, int64_t ldb, bool accumulate, void *c, int64_t ldc)
{
	enum { MOST = 1 << 30 }; /* of an extent in one call of OpenBLAS, whose ints are of 32 bits */
	const size_t size = dtype == DTYPE_F64 ? 8 : 4;
	if (m == 0 || n == 0)
		return;
	if (k == 0) {
		if (!accumulate)
			clear_rows(size, m, n, c, ldc);
		return;
	}
	if (!blas.sgemm || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX) {
		loops_get(kernels_get(dtype))->gemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, accumulate, c, ldc);
		return;
	}
	for (int64_t p = 0; p < k; p += MOST)
		for (int64_t i = 0; i < m; i += MOST)
			for (int64_t j = 0; j < n; j += MOST) {
				const int64_t rows = m - i < MOST ? m - i : MOST, columns = n - j < MOST ? n - j : MOST;
				const char *from_a = (const char *)a + (size_t)(transpose_a ? p * lda + i : i * lda + p) * size;
				const char *from_b = (const char *)b + (size_t)(transpose_b ? j * ldb + p : p * ldb + j) * size;
				multiply_part(dtype, transpose_a, transpose_b, rows, columns, k - p < MOST ? k - p : MOST, from_a, lda,
				              from_b, ldb, accumulate || p > 0, (char *)c + (size_t)(i * ldc + j) * size, ldc);
			}
}
