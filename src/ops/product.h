/* A matrix product, for gemm() and the kernels under it. Matrices are row-major. */
#ifndef OPS_PRODUCT_H
#define OPS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* A factor, whose rows lie LD elements apart. If TRANSPOSED the product has its transpose. */
struct factor {
	const void *data;
	int64_t ld;
	bool transposed;
};

/* C[m,n] = A[m,k] B[k,n], plus C if ACCUMULATE. C's rows lie LDC elements apart. */
struct product {
	int64_t m, n, k;
	struct factor a, b;
	void *c;
	int64_t ldc;
	bool accumulate;
};

#endif
