/* A matrix product, as gemm() and the kernels under it take it. Matrices are row-major. */
#ifndef OPS_PRODUCT_H
#define OPS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* A factor of a product: its rows lie LD elements apart. The product takes its transpose if TRANSPOSED. */
struct factor {
	const void *data;
	int64_t ld;
	bool transposed;
};

/* C[m,n] = A[m,k] B[k,n], plus what C holds if ACCUMULATE; C's rows lie LDC elements apart. */
struct product {
	int64_t m, n, k;
	struct factor a, b;
	void *c;
	int64_t ldc;
	bool accumulate;
};

#endif
