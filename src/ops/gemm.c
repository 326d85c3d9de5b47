/*
 * Matrix products: by OpenBLAS if blas_load has loaded it, else by our own kernel
 * (ops/gemm_template.h).
 *
 * OpenBLAS is opened when first needed, so that chains without products do not pay for its start. It runs in the
 * calling thread alone, so that the bits do not depend on the number of threads that call it. It computes small
 * products too: a tile's product is smaller than the array's, so a choice by size would let the bits depend on the
 * tiles.
 *
 * The old C is used only if the product accumulates: else a NaN in it does not matter.
 *
 * Its buffers need some 130 MiB of address space for each calling thread, and it loops for ever if they cannot be
 * mapped. So blas_load reserves the buffers before threads call it. Where the address space is limited, our kernel serves
 * instead. The limit decides, not the space that is left: else the bits would depend on the number of threads.
 * Tests: tests/unit/test_gemm.c
 */
#include "ops/general.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/system.h"
#include "ops/linalg.h"
#include "ops/lines.h"

/* Numbers and types of cblas.h, so that the build does not need it. */
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
 * The OpenBLAS of the process. The first blas_load writes it before threads multiply. Later calls write OWN alone: other
 * threads may multiply at that time.
 */
static struct {
	pthread_mutex_t lock;
	_Atomic(const struct kernels *) own[2]; /* of f32 and f64; NULL before blas_load */
	void *library;                          /* OpenBLAS's handle; NULL: it is not open */
	bool chosen;                            /* whether OpenBLAS multiplies, as sgemm says, stays so */
	int reserved;                           /* OpenBLAS has buffers for so many threads */
	sgemm *sgemm;                           /* NULL if OpenBLAS is not used; then the others do not matter */
	dgemm *dgemm;
	sgemv *sgemv;
	dgemv *dgemv;
	struct lapack lapack[2];       /* of f32 and f64; its functions are NULL before they are needed */
	void *(*get_buffer)(int kind); /* NULL: this OpenBLAS does not export it */
	void (*put_buffer)(void *buffer);
} blas = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { BUFFER_MIB = 130 }; /* address space of a thread's buffer */

#ifdef HAVE_OPENBLAS
#ifndef OPENBLAS_SONAME
#define OPENBLAS_SONAME "libopenblas.so.0"
#endif

enum { CODE_MIB = 44, RESERVED_MOST = 200 }; /* MiB of OpenBLAS's code; threads: it has some 250 buffers */

/* True if so many MiB can be mapped. */
static bool can_map(int mib)
{
	const size_t bytes = (size_t)mib << 20;
	void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		return false;
	munmap(block, bytes);
	return true;
}

static bool space_is_limited(void)
{
	struct rlimit space;
	return getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
}

/* Reserves buffers for THREADS threads. OpenBLAS keeps a buffer that is given back for the next call. */
static bool reserve_buffers(int threads)
{
	void *buffers[RESERVED_MOST];
	threads = threads < RESERVED_MOST ? threads : RESERVED_MOST;
	if (threads <= blas.reserved)
		return true;
	if (!can_map((threads - blas.reserved) * BUFFER_MIB))
		return false;
	for (int i = 0; i < threads && blas.get_buffer && blas.put_buffer; i++)
		buffers[i] = blas.get_buffer(0);
	for (int i = 0; i < threads && blas.get_buffer && blas.put_buffer; i++)
		blas.put_buffer(buffers[i]);
	blas.reserved = threads;
	return true;
}

/* Returns OpenBLAS's handle, or NULL. The environment tells OpenBLAS, while it loads, to start no pool of threads. */
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
 * True if our kernels are those of AVX-512 or AVX2 (kernels_get). OpenBLAS 0.3.21 runs its AVX2 kernels on processors
 * with AVX-512 that it does not know. On AMD's Zen 5, products of 256 to 1024 reach 131 GFLOP/s in f32 and 64 in f64;
 * our own reach 240 and 111. On Intel's Sapphire Rapids, 16 products of 65536 rows with 256 x 256 in f32 take 2.4 s. Its
 * AVX-512 kernels take 1.9 s, and ours 1.4 s. With AVX2 on both sides, networks take 0.93 to 1.02 of their time with
 * OpenBLAS on Zen 4 (bench/RESULTS.md), and less on Zen 3. Small matrices times less than some 60 rows, which take
 * microseconds, are slower by ours.
 */
static bool own_is_faster(void)
{
#if defined(__x86_64__)
	const char *isa = kernels_get(DTYPE_F32)->isa;
	return !strcmp(isa, "avx512") || !strcmp(isa, "avx2");
#else
	return false;
#endif
}

int blas_wanted(void)
{
	const char *choice = getenv("CKPTC_BLAS");
	return choice ? 2 * !strcmp(choice, "openblas") : !space_is_limited();
}

/* Opens OpenBLAS, for one thread, unless it is open. */
static void open_openblas(void)
{
	void (*set_threads)(int);
	if (blas.library)
		return;
	blas.library = open_with_one_thread();
	if (!blas.library)
		return;
	library_find(blas.library, "blas_memory_alloc", &blas.get_buffer);
	library_find(blas.library, "blas_memory_free", &blas.put_buffer);
	if (library_find(blas.library, "openblas_set_num_threads", &set_threads))
		set_threads(1);
	else
		blas.library = NULL;
}

/* Lets OpenBLAS multiply, if it can be opened. */
static void take_products(void)
{
	open_openblas();
	if (!blas.library)
		return;
	library_find(blas.library, "cblas_sgemm", &blas.sgemm);
	library_find(blas.library, "cblas_dgemm", &blas.dgemm);
	library_find(blas.library, "cblas_sgemv", &blas.sgemv);
	library_find(blas.library, "cblas_dgemv", &blas.dgemv);
	if (!blas.dgemm || !blas.sgemv || !blas.dgemv)
		blas.sgemm = NULL;
}

/* Finds LAPACK in OpenBLAS, which has it unless it was built without. */
static void take_lapack(void)
{
	static const char *const names[] = {"getrf_", "getrs_", "getri_", "potrf_", "trtrs_", "gttrf_", "gttrs_"};
	open_openblas();
	for (int type = 0; type < 2 && blas.library; type++)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			char name[16];
			snprintf(name, sizeof name, "%c%s", type ? 'd' : 's', names[i]);
			library_find(blas.library, name, (char *)&blas.lapack[type] + i * sizeof(void (*)(void)));
		}
}

/* Loads OpenBLAS, with buffers for THREADS threads, if LIBRARIES are to use it. False if it has no memory. */
static bool load_libraries(unsigned libraries, int threads)
{
	const bool wanted = blas_wanted() == 2, lapack = libraries & LIBRARY_LAPACK;
	const bool multiplies =
		libraries & LIBRARY_PRODUCTS && !blas.chosen && (wanted || (blas_wanted() && !own_is_faster()));
	if ((multiplies || lapack) && !blas.library) {
		const bool fits = can_map(CODE_MIB + threads * BUFFER_MIB);
		if (!fits && (wanted || lapack))
			return false;
		if (fits && multiplies)
			take_products();
	}
	if (lapack)
		take_lapack();
	blas.chosen |= libraries & LIBRARY_PRODUCTS;
	return !(blas.sgemm || lapack) || reserve_buffers(threads);
}
#else
int blas_wanted(void) { return 0; }

static bool load_libraries(unsigned libraries, int threads)
{
	(void)libraries;
	(void)threads;
	return true;
}
#endif

/* Reports that OpenBLAS has no room, or has no LAPACK. */
static enum status refuse_libraries(bool room, bool lapack, int threads, struct diags *diags)
{
	if (room)
		return diag_file(diags, STATUS_LIMIT, NULL, -1,
		                 "solve, tridiagonal, cholesky, inv and logdet need LAPACK, and there is no OpenBLAS with it");
	diag_file(diags, STATUS_LIMIT, NULL, -1,
	          "OpenBLAS has no room for its buffers: it wants %d MiB of address space for each of %d thread%s",
	          BUFFER_MIB, threads, threads == 1 ? "" : "s");
	if (lapack && threads > 1)
		return diag_hint(diags, "%s wants %d MiB; `ulimit -v` sets the limit",
		                 diags->library ? "a plan of one thread" : "--threads 1", CODE_MIB + BUFFER_MIB);
	return lapack ? diag_hint(diags, "`ulimit -v` sets the limit of address space")
	              : diag_hint(diags, "CKPTC_BLAS=openblas asks for it; without that ckptc's own product serves");
}

enum status blas_load(unsigned libraries, int threads, struct diags *diags)
{
	const bool lapack = libraries & LIBRARY_LAPACK;
	if (!libraries)
		return STATUS_OK;
	pthread_mutex_lock(&blas.lock);
	const bool room = load_libraries(libraries, threads > 1 ? threads : 1);
	atomic_store_explicit(&blas.own[0], kernels_get(DTYPE_F32), memory_order_relaxed);
	atomic_store_explicit(&blas.own[1], kernels_get(DTYPE_F64), memory_order_relaxed);
	pthread_mutex_unlock(&blas.lock);
	return room && (!lapack || blas.lapack[1].gttrs) ? STATUS_OK : refuse_libraries(room, lapack, threads, diags);
}

const struct lapack *lapack_get(enum dtype dtype) { return &blas.lapack[dtype == DTYPE_F64]; }

bool gemm_is_own(void) { return !blas.sgemm; }
const char *blas_name(void) { return blas.sgemm ? "openblas" : "own"; }

/*
 * Computes the product of a matrix and a vector. If COLUMN, B is the vector, one column; else A is, one row. The
 * matrix is the other factor, or its transpose.
 */
static void multiply_vector(enum dtype dtype, const struct product *p, bool column)
{
	const struct factor *const matrix = column ? &p->a : &p->b, *const vector = column ? &p->b : &p->a;
	const bool transpose = matrix->transposed == column, contiguous = vector->transposed == column;
	const int form = transpose ? TRANSPOSE : NO_TRANSPOSE, length = (int)(column ? p->m : p->n), k = (int)p->k;
	const int rows = transpose ? k : length, columns = transpose ? length : k, ld = (int)matrix->ld;
	const int step_x = contiguous ? 1 : (int)vector->ld, step_y = column ? (int)p->ldc : 1;
	const size_t size = element_size(dtype);
	/* y is cleared, and beta is 1: OpenBLAS may multiply a NaN in y by a beta of 0 */
	for (int64_t i = 0; !p->accumulate && i < length; i++)
		memset(element_of(p->c, size, i * step_y), 0, size);
	if (dtype == DTYPE_F32)
		blas.sgemv(ROW_MAJOR, form, rows, columns, 1, matrix->data, ld, vector->data, step_x, 1, p->c, step_y);
	else
		blas.dgemv(ROW_MAJOR, form, rows, columns, 1, matrix->data, ld, vector->data, step_x, 1, p->c, step_y);
}

/* Computes a product whose extents fit in int. */
static void multiply_part(enum dtype dtype, const struct product *p)
{
	const int ta = p->a.transposed ? TRANSPOSE : NO_TRANSPOSE, tb = p->b.transposed ? TRANSPOSE : NO_TRANSPOSE;
	const int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->a.ld, ldb = (int)p->b.ld, ldc = (int)p->ldc;
	if (n == 1 || m == 1)
		multiply_vector(dtype, p, n == 1);
	else if (dtype == DTYPE_F32)
		blas.sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, p->a.data, lda, p->b.data, ldb, p->accumulate ? 1 : 0, p->c, ldc);
	else
		blas.dgemm(ROW_MAJOR, ta, tb, m, n, k, 1, p->a.data, lda, p->b.data, ldb, p->accumulate ? 1 : 0, p->c, ldc);
}

/* Returns the address of element (ROW, COLUMN) of a factor, or of its transpose if the product uses that. */
static const void *factor_element(const struct factor *factor, size_t size, int64_t row, int64_t column)
{
	return element_at(factor->data, size, factor->transposed ? column * factor->ld + row : row * factor->ld + column);
}

/* One call of OpenBLAS gets at most this much of an extent, because its ints have 32 bits. */
enum { MOST_EXTENT = 1 << 30 };
static int64_t extent_from(int64_t begin, int64_t end) { return end - begin < MOST_EXTENT ? end - begin : MOST_EXTENT; }

void gemm(enum dtype dtype, const struct product *p)
{
	const size_t size = element_size(dtype);
	if (p->m == 0 || p->n == 0)
		return;
	if (p->k == 0) {
		for (int64_t i = 0; !p->accumulate && i < p->m; i++)
			memset(element_of(p->c, size, i * p->ldc), 0, (size_t)p->n * size);
		return;
	}
	if (!blas.sgemm || p->a.ld > INT_MAX || p->b.ld > INT_MAX || p->ldc > INT_MAX) {
		const struct kernels *own = atomic_load_explicit(&blas.own[dtype == DTYPE_F64], memory_order_relaxed);
		(own ? own : kernels_get(dtype))->loops->gemm(p, false);
		return;
	}
	for (int64_t at = 0; at < p->k; at += MOST_EXTENT)
		for (int64_t i = 0; i < p->m; i += MOST_EXTENT)
			for (int64_t j = 0; j < p->n; j += MOST_EXTENT) {
				struct product part = *p;
				part.m = extent_from(i, p->m);
				part.n = extent_from(j, p->n);
				part.k = extent_from(at, p->k);
				part.a.data = factor_element(&p->a, size, i, at);
				part.b.data = factor_element(&p->b, size, at, j);
				part.c = element_of(p->c, size, i * p->ldc + j);
				part.accumulate |= at > 0;
				multiply_part(dtype, &part);
			}
}
