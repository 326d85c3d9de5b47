/*
 * General operations: forward_NAME and vjp_NAME for each GENERAL row of ops.def.
 * Arrays are whole tiles in C order in the computing type. A derivative overwrites
 * dv and da. One of them may be NULL; an operation without operand gets da NULL
 * and dv. An array that the row's NEEDS do not name is NULL.
 */
#ifndef OPS_GENERAL_H
#define OPS_GENERAL_H

#include "base/team.h"
#include "ops/kernels.h"

enum { TEAM_PIECE = 1 << 15 }; /* elements that make it worth to wake another member of a team */

struct op_call {
	enum op op;
	const struct attrs *attrs;
	const struct type *v, *a, *y;  /* of this tile, of dtype F32 or F64; cast's y has its own dtype */
	int64_t first;                 /* index of v's first element in the whole array */
	int64_t whole;                 /* extent of v's leading axis in the whole array, for means over tiles */
	void *scratch;                 /* op_scratch() bytes, 64-byte aligned */
	const struct kernels *kernels; /* of the computing type */
	int64_t iteration;             /* of the loop that a slice moves with: added to the slice's start */
	struct team *team;             /* its members share the work in pieces that follow from shapes alone; or NULL */
};

typedef void op_forward(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS]);
/* NEEDS has the arrays V, A, Y, K, L in the order of enum need. */
typedef void op_vjp(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS]);

/* The heads of an operation's two functions. */
#define FORWARD(NAME)                                                                                                  \
	void forward_##NAME(const struct op_call *call MAYBE_UNUSED, void *y MAYBE_UNUSED, const void *v MAYBE_UNUSED,     \
	                    const void *a MAYBE_UNUSED, void *const keep[MAX_KEEPS] MAYBE_UNUSED)
#define VJP(NAME)                                                                                                      \
	void vjp_##NAME(const struct op_call *call MAYBE_UNUSED, void *dv MAYBE_UNUSED, void *da MAYBE_UNUSED,             \
	                const void *g MAYBE_UNUSED, const void *const needs[MAX_NEEDS] MAYBE_UNUSED)

#define GENERAL(NAME, ...)                                                                                             \
	op_forward forward_##NAME;                                                                                         \
	op_vjp vjp_##NAME;
#include "ops/ops.def"

/* The functions of a general operation, NULL for an element-wise one. They accept arrays without elements. */
op_forward *op_forward_get(enum op op);
op_vjp *op_vjp_get(enum op op);
/* Bytes of scratch that forward, or the derivative if BACKWARD, needs for this use; 0 for most. */
int64_t op_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                   const struct type *result, bool backward);
/* Bytes that each further member of a team needs for this use; 0 if its team shares nothing, or needs nothing. */
int64_t op_team_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                        const struct type *result, bool backward);

/*
 * True if ADATA can be the operand of OP on a value of type V. It has type A, and is held
 * in A's computing type. The classes of cross_entropy must be integers below their
 * number. Else MESSAGE says which element is wrong. A computed operand is not
 * checked: a row whose class is out of range has the loss NaN.
 */
enum { OP_CHECK_TEXT = 160 };
bool op_check_operand(enum op op, const struct type *v, const struct type *a, const void *adata,
                      char message[OP_CHECK_TEXT]);

/*
 * A SUM or FOLD operation by tiles of the leading axis. A state has fold_parts doubles
 * for each of the COUNT elements of the result. fold_begin makes the state of no tile.
 * fold_partial makes that of one tile. fold_add adds the next tile's state to STATE. The tiles come
 * in order. fold_finish makes the result. forward_NAME gives the same bits as one tile.
 */
int fold_parts(enum op op);
void fold_begin(enum op op, double *state, int64_t count);
void fold_partial(const struct op_call *call, double *state, const void *v, const void *a, void *const keep[MAX_KEEPS]);
void fold_add(enum op op, double *state, const double *from, int64_t count);
void fold_finish(const struct op_call *call, void *y, const double *state, int64_t count);

/*
 * Sums FROM over the axes along which TO's shape was broadcast to FROM's. TO has as
 * many axes or fewer. The order of the sum is fixed. SCRATCH has type_bytes(FROM_TYPE).
 */
void sum_to_shape(const struct kernels *kernels, void *to, const struct type *to_type, const void *from,
                  const struct type *from_type, void *scratch);
/* DATA, of type FROM, broadcast to type TO. */
struct broadcast {
	const void *data;
	const struct type *from, *to;
};
/* Stores the N elements from FIRST on of the broadcast array in TO. */
void broadcast_fill(const struct kernels *kernels, void *to, const struct broadcast *broadcast, int64_t first,
                    int64_t n);

/*
 * Loads OpenBLAS unless it is not built in, not found, or slower here than our own
 * products. CKPTC_BLAS=none and CKPTC_BLAS=openblas override the choice. Fails with
 * STATUS_LIMIT if its buffers cannot be mapped.
 */
enum status blas_load(struct diags *diags);
/* "openblas" or "own". */
const char *blas_name(void);
/*
 * The rows of V's matrices for each index of its leading axis, if OP is a matmul or
 * linear that multiplies all of them by one matrix. A tile of V is then a product of
 * fewer rows, which OpenBLAS may round differently. Else 0.
 */
int64_t product_rows(enum op op, const struct type *v, const struct type *a);
/* Computes a product in the calling thread, by OpenBLAS if it is loaded. Does not allocate. */
void gemm(enum dtype dtype, const struct product *product);

#endif
