/* LAPACK's functions of one type, as Fortran has them: arguments by address, matrices by columns, lengths of words last. */
#ifndef OPS_LINALG_H
#define OPS_LINALG_H

#include <stddef.h>

#include "base/type.h"

enum { LAPACK_MOST = 1 << 24 }; /* rows of a matrix: LAPACK's integers have 32 bits */

typedef void lapack_getrf(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
typedef void lapack_getrs(const char *trans, const int *n, const int *columns, const void *a, const int *lda,
                          const int *pivots, void *b, const int *ldb, int *info, size_t);
typedef void lapack_getri(const int *n, void *a, const int *lda, const int *pivots, void *work, const int *length,
                          int *info);
typedef void lapack_potrf(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
typedef void lapack_trtrs(const char *uplo, const char *trans, const char *diag, const int *n, const int *columns,
                          const void *a, const int *lda, void *b, const int *ldb, int *info, size_t, size_t, size_t);

typedef void lapack_gttrf(const int *n, void *lower, void *diagonal, void *upper, void *second, int *pivots, int *info);
typedef void lapack_gttrs(const char *trans, const int *n, const int *columns, const void *lower, const void *diagonal,
                          const void *upper, const void *second, const int *pivots, void *b, const int *ldb, int *info,
                          size_t);

/* In the order of take_lapack's names. */
struct lapack {
	lapack_getrf *getrf;
	lapack_getrs *getrs;
	lapack_getri *getri;
	lapack_potrf *potrf;
	lapack_trtrs *trtrs;
	lapack_gttrf *gttrf;
	lapack_gttrs *gttrs;
};

/* Returns the functions for f32 or f64, which blas_load has found. */
const struct lapack *lapack_get(enum dtype dtype);
/* Return the bytes of scratch of solve, on A and V, and of an operation on square matrices V; INT64_MAX if too many. */
int64_t solve_scratch(const struct type *v, const struct type *a, bool backward);
int64_t square_scratch(const struct type *v, bool backward);
/* Returns that of a tridiagonal on V, or of its derivatives. */
int64_t tridiagonal_scratch(const struct type *v);

#endif
