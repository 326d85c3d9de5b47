/*
 * General operations: one forward and one derivative function for each GENERAL
 * row of ops.def, named by pasting. Arrays are whole tiles in C order in the
 * computing type. A derivative writes (does not add to) dv and da; either may be
 * NULL. What its row does not declare in NEEDS is NULL.
 */
#ifndef OPS_GENERAL_H
#define OPS_GENERAL_H

#include "base/team.h"
#include "ops/kernels.h"
#include "ops/product.h"

enum { TEAM_PIECE = 1 << 15 }; /* elements that are worth waking another member of a team for */

struct op_call {
	enum op op;
	const struct attrs *attrs;
	const struct type *v, *a, *y;  /* of this tile, dtype F32 or F64 (logical dtype of y for cast) */
	int64_t first;                 /* place of v's first element in the whole array, counted in elements */
	int64_t whole;                 /* extent of v's leading axis in the whole array: for means over tiles */
	void *scratch;                 /* op_scratch() bytes, 64-byte aligned */
	const struct kernels *kernels; /* of the computing type */
	int64_t iteration;             /* of the loop that a slice moves along with: it is so much further along its axis */
	struct team *team;             /* who share the work, in pieces that do not depend on it; NULL: the caller alone */
};

typedef void op_forward(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS]);
/* needs: indexed V, A, Y, K, L as the bits of enum need are numbered. */
typedef void op_vjp(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS]);

#define UNARY(NAME, ...)
#define BINARY(NAME, ...)
#define GENERAL(NAME, ...)                                                                                             \
	op_forward forward_##NAME;                                                                                         \
	op_vjp vjp_##NAME;
#include "ops/ops.def"

/* The functions of a general operation; NULL for element-wise ones. */
op_forward *op_forward_get(enum op op);
op_vjp *op_vjp_get(enum op op);
/* Bytes that a further member of a team needs for its pieces of this use; 0 where op_call.team is of no use. */
int64_t op_team_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                        const struct type *result, bool backward);
/* Bytes of scratch that forward and derivative of this use want at most; 0 for most. */
int64_t op_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                   const struct type *result, bool backward);

/*
 * Whether ADATA (of type A, held in its computing type) can be the operand of OP
 * on a value of type V: classes must be integers below their number. Else false,
 * and MESSAGE says which element is wrong. A computed operand is not checked:
 * a row whose class is none then has the loss NaN.
 */
enum { OP_CHECK_TEXT = 160 };
bool op_check_operand(enum op op, const struct type *v, const struct type *a, const void *adata,
                      char message[OP_CHECK_TEXT]);

/*
 * A SUM or FOLD operation by tiles (call->v's leading axis is a part of the whole): its
 * state in COUNT elements of the result for each of fold_parts, of nothing (fold_begin)
 * and of a tile (fold_partial); FROM's put to it, of the tiles in order (fold_add); and
 * the result (fold_finish). forward_NAME on the whole array is the same in one tile.
 */
int fold_parts(enum op op);
void fold_begin(enum op op, double *state, int64_t count);
void fold_partial(const struct op_call *call, double *state, const void *v, const void *a, void *const keep[MAX_KEEPS]);
void fold_add(enum op op, double *state, const double *from, int64_t count);
void fold_finish(const struct op_call *call, void *y, const double *state, int64_t count);

/*
 * Sums G of type FROM over the axes that were broadcast to make it, giving TO
 * (same ndim or fewer). Pairwise; fixed order. SCRATCH: type_bytes(FROM) at most.
 */
void sum_to_shape(const struct kernels *kernels, void *to, const struct type *to_type, const void *from,
                  const struct type *from_type, void *scratch);
/* DATA, of type FROM, broadcast to type TO. */
struct broadcast {
	const void *data;
	const struct type *from, *to;
};
/* Stores N elements of the broadcast array in TO, from element FIRST on. */
void broadcast_fill(const struct kernels *kernels, void *to, const struct broadcast *broadcast, int64_t first,
                    int64_t n);

/*
 * A matrix product of DTYPE. OpenBLAS computes it with one thread if blas_load has
 * loaded it; else (--without-openblas, not found, CKPTC_BLAS=none, slower here)
 * our own kernel. Neither allocates, and neither reads C unless it accumulates.
 */
enum status blas_load(struct diags *diags); /* STATUS_LIMIT where its buffers cannot be mapped */
const char *blas_name(void);
/*
 * Of OP on a V that is cut along its leading axis: rows of V's matrices for each of its rows, where all
 * of them are one matrix of one product, so that OpenBLAS may round them as their number is. 0: OP is no
 * matmul or linear, or multiplies matrix by matrix.
 */
int64_t product_rows(enum op op, const struct type *v, const struct type *a);
void gemm(enum dtype dtype, const struct product *product);

#endif
