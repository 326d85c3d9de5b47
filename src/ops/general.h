/*
 * General operations: forward_NAME and vjp_NAME for each GENERAL row of ops.def.
 * Arrays are in C order in their computing types: tiles, or whole arrays. A derivative overwrites
 * dv and da, of which one may be NULL. da is NULL if the operation has no operand. An array that
 * the NEEDS of the wanted derivatives do not name is NULL. Exception: slice and collect may get A (shaping.c, collect.c).
 */
#ifndef OPS_GENERAL_H
#define OPS_GENERAL_H

#include "base/team.h"
#include "ops/kernels.h"

enum { TEAM_PIECE = 1 << 15 }; /* elements of a piece that is worth waking another member of a team for */

enum { LOSS_PIECE = 1024 }; /* elements that losses sum at a time */
struct op_call {
	enum op op;
	const struct attrs *attrs;
	const struct type *v, *a, *y; /* of this tile, F32 or F64, all alike; cast's y and what holds indices may differ */
	int64_t first;                /* index of v's first element in the whole array; 0 in a gather */
	int64_t whole; /* extent of v's leading axis in the whole array, for means over tiles; 1 if 0-d; 0 in a gather */
	void *scratch; /* op_scratch() bytes, 64-byte aligned */
	const struct kernels *kernels; /* of the computing type */
	int64_t iteration;             /* index in a loop over an array's slices, added to the slice's start; else 0 */
	uint64_t stream;               /* dropout: of random words */
	struct team *team;             /* shares the work in pieces that follow from shapes alone; NULL: the caller alone */
	int64_t block;  /* V's leading axis is folded by blocks of so many rows (fold_blocks); 0: V is one block */
	int64_t blocks; /* the most of them: the last has all rows that are left; 0: any number */
	const void *b;  /* the second operand of a forward call, or NULL */
	bool more;      /* fold_partial of a loss adds to the state: V follows, after pieces of LOSS_PIECE elements */
	const void *c;  /* the third operand of a forward call, or NULL */
	const struct type *c_type; /* of the third operand, as A; NULL if there is none */
	void *db;                  /* an attention's derivative makes that by B here, too, unless it is NULL */
};
/* COUNT rows of V, from row FIRST on. */
struct row_range {
	int64_t first, count;
};

/* KEEP and its arrays may be NULL, and so may Y if arrays are kept. NEEDS has V, A, Y, K, L or B, and C. */
typedef void op_forward(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS]);
typedef void op_vjp(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS]);

/* FORWARD and VJP begin the definitions of an operation's two functions. */
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
op_forward forward_collect;
op_vjp vjp_collect;
op_vjp vjp_attended;
op_vjp vjp_masked;
op_vjp vjp_on_diagonal;
op_vjp vjp_on_upper;
op_forward forward_class_weight;
struct op_call;
/* Returns the index of V among the parts of the array of CALL, an OP_COLLECT; -1 if this iteration is no part. */
int64_t op_part(const struct op_call *call);

/* Return a general operation's functions, which accept arrays without elements. NULL for an element-wise operation. */
op_forward *op_forward_get(enum op op);
op_vjp *op_vjp_get(enum op op);
/* What scratch is for: the forward function, the derivative, or the derivative by v alone. */
enum scratch_use { SCRATCH_FORWARD, SCRATCH_BACK, SCRATCH_BACK_V };

/* Returns the bytes of scratch of this USE of an operation; INT64_MAX if too many. */
int64_t op_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                   const struct type *result, enum scratch_use use);
/* Returns the bytes of scratch that each member of a team beside the caller needs for this use. */
int64_t op_team_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                        const struct type *result, enum scratch_use use);

/*
 * Elements FIRST .. FIRST + N - 1 of a result. A gather makes them at TO from the whole array FROM: of Y from V or, if
 * BACK, of dv from g. The tail multiplies them by FACTOR, and adds them to the N elements at ADD unless that is NULL; TO
 * may be ADD. Of an operation that takes no tail, FACTOR is 1 and ADD is NULL.
 */
struct gather_part {
	bool back;
	void *to;
	const void *from;
	int64_t first, n;
	double factor;
	const void *add;
};
/* Makes PART. It needs no scratch, and the bits are those of the whole result. */
typedef void op_gather(const struct op_call *call, const struct gather_part *part);
#define GATHER(NAME) void gather_##NAME(const struct op_call *call, const struct gather_part *part)
GATHER(laplacian);
GATHER(stencil);
GATHER(slice);
GATHER(pad);
GATHER(roll);
/* True if gathers of OP apply a tail. */
static inline bool op_takes_tail(enum op op) { return op == OP_laplacian || op == OP_stencil; }
/* Returns the function that makes a part of the result of OP or of its derivative; NULL if this use of OP has none. */
op_gather *op_gather_get(enum op op, const struct attrs *attrs);

/*
 * True if ADATA can be OP's operand on a value of type V. ADATA has type A and is held in
 * A's computing type. Classes of a loss must be integers from 0 to V's extent along their axis less 1, or the one that ATTRS
 * ignore. Otherwise WRONG gets a message, which names the first wrong element, and a hint, which may be empty.
 */
enum { OP_CHECK_TEXT = 240 };
struct operand_wrong {
	char message[OP_CHECK_TEXT], hint[OP_CHECK_TEXT];
};
bool op_check_operand(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                      const void *adata, struct operand_wrong *wrong);
/*
 * True if all INDICES of CALL, or the classes of a loss, are in range. Otherwise WRONG names the first that is not, and the
 * place of an index in the whole array.
 */
bool op_check_indices(const struct op_call *call, const void *indices, struct operand_wrong *wrong);

/*
 * A SUM, FOLD or NORM operation, block by block along the leading axis, or (BACK) its derivative, if op_folds_back. A
 * STATE has fold_parts() * COUNT doubles, part by part, where COUNT is fold_count(): the elements of the result, for a
 * NORM those of a row. fold_begin stores the state of no block, fold_partial that of one block. fold_add adds FROM, the
 * next block's state, to STATE; the caller keeps the blocks in order. fold_finish stores the result in Y, of fold_type().
 * If fold_applies(), that is statistics with which fold_apply computes any rows of a NORM, or of a derivative by V.
 */
struct fold_op {
	enum op op;
	bool back;
};
int fold_parts(struct fold_op fold);
int64_t fold_count(enum op op, const struct type *v, const struct type *y);
bool fold_applies(struct fold_op fold);
struct type fold_type(struct fold_op fold, const struct type *v, const struct type *y);
void fold_begin(struct fold_op fold, double *state, int64_t count);
void fold_partial(const struct op_call *call, double *state, const void *v, const void *a, void *const keep[MAX_KEEPS]);
/* The same for a derivative. Those of NORMs read G; others need none, and G may be NULL. */
void fold_partial_back(const struct op_call *call, double *state, const void *g, const void *const needs[MAX_NEEDS]);
/* The same for ROWS of V, and of all that has V's rows. There may be none. ROWS begins at a multiple of 4 if KEEP is given. */
void fold_partial_rows(const struct op_call *call, struct row_range rows, double *state, const void *v, const void *a,
                       void *const keep[MAX_KEEPS]);
void fold_partial_rows_back(const struct op_call *call, struct row_range rows, double *state, const void *g,
                            const void *const needs[MAX_NEEDS]);
/* Adds ROWS of V to STATE, block by block from their first on. BLOCK has room for a block's state. Of FOLDs without an A. */
void fold_add_rows(const struct op_call *call, struct row_range rows, double *state, double *block, const void *v);
void fold_add(struct fold_op fold, double *state, const double *from, int64_t count);
void fold_finish(const struct op_call *call, bool back, void *y, const double *state, int64_t count);
/* Stores in Y the rows V by the STATISTICS. KEPT, if not NULL, gets the array that a NORM keeps for its derivative. */
void fold_apply(const struct op_call *call, void *y, const void *v, const double *statistics, void *kept);
void fold_apply_back(const struct op_call *call, void *dv, const void *g, const void *const needs[MAX_NEEDS],
                     const double *statistics);
/* Computes as forward_NAME does, but by blocks of call->block rows, as tiles of so many rows would. */
void fold_blocks(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS]);
/* Computes dv as vjp_NAME does, but by blocks of call->block rows. */
void fold_blocks_back(const struct op_call *call, void *dv, const void *g, const void *const needs[MAX_NEEDS]);
/* Returns the bytes of scratch that fold_blocks or fold_blocks_back needs beyond op_scratch(). INT64_MAX if too many. */
int64_t fold_scratch(struct fold_op fold, const struct type *v, const struct type *y);

/*
 * Stores in TO the sums of FROM over the axes along which TO's shape was broadcast to FROM's.
 * The order of the additions follows from the shapes. SCRATCH has type_bytes(FROM_TYPE) bytes.
 */
void sum_to_shape(const struct kernels *kernels, void *to, const struct type *to_type, const void *from,
                  const struct type *from_type, void *scratch);
/* Sets ATTRS to those of the sum that does the same, where it sums over the leading axis at least. */
void sum_to_attrs(struct attrs *attrs, const struct type *to_type, const struct type *from_type);
/* The array DATA of type FROM, broadcast to type TO. */
struct broadcast {
	const void *data;
	const struct type *from, *to;
};
/* Stores N elements of the broadcast array, from index FIRST on, in TO. */
void broadcast_fill(const struct kernels *kernels, void *to, const struct broadcast *broadcast, int64_t first,
                    int64_t n);

/*
 * Before THREADS threads run what needs LIBRARIES: the first call for products chooses what multiplies, for the process. That is OpenBLAS,
 * unless the build or the system lacks it, our own products are faster here, or the address space is limited.
 * CKPTC_BLAS=openblas chooses it in the last two cases too; any other value, such as none, never. Each call reserves its
 * buffers. Fails with STATUS_LIMIT if they cannot be mapped, and OpenBLAS was chosen by CKPTC_BLAS or by an earlier call,
 * or
 * LAPACK is needed; or if there is none.
 */
enum status blas_load(unsigned libraries, int threads, struct diags *diags);
/* Returns 2 if the environment asks for OpenBLAS, 1 if OpenBLAS may multiply, and 0 if our own products do. */
int blas_wanted(void);
/* Returns "openblas" or "own". */
const char *blas_name(void);
/*
 * Returns the matrix rows at one index of V's leading axis, if OP is a matmul or linear whose
 * A is one matrix or vector; else 0. A tile of V is then a product with fewer rows than the whole
 * V's, which OpenBLAS may round differently.
 */
int64_t product_rows(enum op op, const struct type *v, const struct type *a);
/*
 * A piece of a matrix: ROWS by COLUMNS elements at DATA, row after row. The first is element FIRST of the matrix, whose
 * rows have WIDTH elements. DATA is NULL if the piece was added where it belongs.
 */
struct matrix_piece {
	const void *data;
	int64_t first, width, rows, columns;
};
/*
 * What becomes of pieces. BEGIN returns the matrix that PIECE is added to or, if NEW, stored in. It may be NULL: END gets each
 * piece's data. LARGE: pieces need not stay in the cache, and no team shares them.
 */
struct piece_user {
	void *(*begin)(void *context, const struct matrix_piece *piece);
	void (*end)(void *context, const struct matrix_piece *piece);
	void *context;
	bool new, large;
};
/* True if the derivative of OP, whose operand has type A and whose V has type V, by the operand is one product. */
bool product_in_pieces(enum op op, const struct type *v, const struct type *a);
/* Returns how many products an element of such a derivative sums: the rows of V. */
int64_t product_depth(enum op op, const struct type *v, const struct type *a);
/* Returns the bytes of scratch, the caller's and of each further member of a team, that product_pieces needs. */
int64_t product_piece_bytes(const struct type *a);
/*
 * Computes the derivative by the operand, as vjp_NAME does, but piece by piece: calls USER's functions before and after
 * each piece, in order. A team calls them in any order, and in several threads. The pieces follow from the types.
 */
void product_pieces(const struct op_call *call, const void *g, const void *const needs[MAX_NEEDS],
                    const struct piece_user *user);
/* True if the derivative of OP by its operand adds rows of the cotangent, each to the row that an index selects. */
static inline bool op_adds_rows(enum op op) { return op == OP_take; }
/* Gives USER's end these rows, in the order in which they are added: each is a piece. Other members are not called. */
void take_pieces(const struct op_call *call, const void *g, const void *const needs[MAX_NEEDS],
                 const struct piece_user *user);
/*
 * The rows of a product's operand, a matrix that is not in memory. READ stores at TO the LENGTH elements from COLUMN on of
 * the COUNT rows from ROW on. There a row begins PITCH elements after the one before. WRITE, if not NULL, gets whole rows of the
 * operand's derivative. Both run in any thread, and return false if they fail. BLOCKS is memory for THREADS threads, BYTES
 * of each: at least product_rows_bytes().
 */
struct operand_part {
	int64_t row, count, column, length, pitch;
};
struct operand_rows {
	bool (*read)(void *context, const struct operand_part *part, void *to);
	bool (*write)(void *context, const struct operand_part *part, const void *from);
	void *context;
	char *blocks;
	int64_t bytes;
	int threads;
};
/*
 * A product makes the result Z = A op(B); the derivative by A, G op(B)'; or that by B, A' G, or G' A if B is transposed.
 * A is the V of a matmul or linear.
 */
enum product_part { PART_RESULT, PART_LEFT, PART_RIGHT };
/*
 * Returns the bytes of a thread's block of rows in the product of OP that makes PART, the result or PART_LEFT, by such an
 * operand of type A, for THREADS threads. V is the type of V. Returns 0 if product_from_rows computes none, or blocks are not
 * small beside the operand. blas_load has been called.
 */
int64_t product_rows_bytes(enum op op, enum product_part part, const struct type *v, const struct type *a, int threads);
/* Computes Y as forward_NAME does, with the same bits. False if rows could not be read. */
bool product_from_rows(const struct op_call *call, void *y, const void *v, const struct operand_rows *a);
/*
 * Computes the derivatives of the cotangent G as vjp_NAME does, with the same bits: DV unless it is NULL, and, if A has
 * WRITE, that by the operand, whose rows it writes. False if rows could not be read or written.
 */
bool product_back_by_rows(const struct op_call *call, void *dv, const void *v, const void *g,
                          const struct operand_rows *a);
/* Returns the product that makes PART, of a matmul or linear by one matrix. ARRAYS: V, the operand, and Y or G. */
struct product product_by_operand(const struct op_call *call, enum product_part part, const void *const arrays[3]);
/* Returns the product that makes matrix INDEX of the Y of CALL, a matmul or linear of a stack of matrices. */
struct product product_of_matrix(const struct op_call *call, void *y, const void *v, const void *a, int64_t index);
/* True if gemm computes all products by our own kernel. Then a row's bits do not depend on the rows beside it. */
bool gemm_is_own(void);
/* Computes PRODUCT in the calling thread: by OpenBLAS if it is loaded and its ints hold all LDs, else by our own. */
void gemm(enum dtype dtype, const struct product *product);

#endif
