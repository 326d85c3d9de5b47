/*
 * The properties of operations that do not depend on data, from ops.def.
 */
#ifndef OPS_OP_H
#define OPS_OP_H

#include "base/diag.h"
#include "base/type.h"

#include <stdbool.h>
#include <stdint.h>

enum op {
#define UNARY(NAME, ...) OP_##NAME,
#define BINARY(NAME, ...) OP_##NAME,
#define TERNARY(NAME, ...) OP_##NAME,
#define GENERAL(NAME, ...) OP_##NAME,
#include "ops/ops.def"
	OP_COUNT,
	/* No operations of a chain, but they have rows of the table: */
	OP_PROGRAM = OP_COUNT, /* a call of a program */
	OP_COLLECT,            /* V becomes a part of A, the array of the parts of a loop's iterations (collect.c) */
	OP_SOLUTION,           /* V, which a fixed_point has found, as the value at which its block is differentiated */
	OP_IMPLICIT,           /* makes nothing: A is the block's result on V, a solution (compile/backward.c) */
	OP_ATTENDED,           /* the derivative of an attention by B, whose type its A has (attention.c) */
	OP_MASKED,             /* the derivative of an attention by its mask (attention.c) */
	OP_ON_DIAGONAL,        /* the derivatives of a tridiagonal by B and by C (tridiagonal.c) */
	OP_ON_UPPER,
	OP_CLASS_WEIGHT, /* the weight B[a] of each class of A, 1 without a B, 0 if it is ignored; V: the logits (loss.c) */
/* Operations of a chain, but of no body: lowering puts them together from others. */
#define EXPANDED(NAME, ...) OP_##NAME,
#include "ops/ops.def"
	OP_ROWS
};

enum op_class { OP_CLASS_UNARY, OP_CLASS_BINARY, OP_CLASS_TERNARY, OP_CLASS_GENERAL };

/* The values of an operation are V, number 0, and its operands, numbers 1 and more: A, B, C. */
enum { MAX_OPERANDS = 3, MAX_VALUES = 1 + MAX_OPERANDS };

/*
 * How far an operation reaches, the least first: which elements of V a part of the result depends on. The operand
 * is cut as V is, or read whole (op_scope).
 * ELEM: an element of the result depends on the element at its index alone.
 * ROW: a row of the result (one index of the leading axis) depends on the same row of V alone.
 * NEIGHBOUR: a row of the result depends on rows of V near the row at its index (op_halo).
 * SUM: the result is a sum or mean over the leading axis, whose blocks are added in order.
 * FOLD: the blocks are combined in order too, but the derivative needs the whole result first.
 * NORM: blocks are combined likewise, and a row of the result depends on the same row of V and on what they give.
 * ALL: an element of the result may depend on all elements.
 */
enum scope { SCOPE_ELEM, SCOPE_ROW, SCOPE_NEIGHBOUR, SCOPE_SUM, SCOPE_FOLD, SCOPE_NORM, SCOPE_ALL };

/* A bit for each array that a derivative may need. */
enum need {
	NEED_V = 1,  /* the input */
	NEED_A = 2,  /* the first operand */
	NEED_Y = 4,  /* the output */
	NEED_K = 8,  /* the first kept array */
	NEED_L = 16, /* the second kept array */
	NEED_B = 32, /* the second operand */
	NEED_C = 64, /* the third operand */
};
/* Returns the bit of value K of an operation. */
static inline unsigned need_of_value(uint32_t k)
{
	static const unsigned bits[MAX_VALUES] = {NEED_V, NEED_A, NEED_B, NEED_C};
	return bits[k];
}
/* The words of ops.def's NEEDS columns as sets of these bits; NEEDS_ZERO: there is no derivative. ALL is all bits. */
enum {
	NEEDS_NIL = 0,
	NEEDS_V = NEED_V,
	NEEDS_A = NEED_A,
	NEEDS_Y = NEED_Y,
	NEEDS_K = NEED_K,
	NEEDS_KL = NEED_K | NEED_L,
	NEEDS_VA = NEED_V | NEED_A,
	NEEDS_VY = NEED_V | NEED_Y,
	NEEDS_AY = NEED_A | NEED_Y,
	NEEDS_VAY = NEED_V | NEED_A | NEED_Y,
	NEEDS_YK = NEED_Y | NEED_K,
	NEEDS_AK = NEED_A | NEED_K,
	NEEDS_VAKC = NEED_V | NEED_A | NEED_K | NEED_C,
	NEEDS_BANDS = NEED_A | NEED_B | NEED_C,
	NEEDS_BANDS_Y = NEEDS_BANDS | NEED_Y,
	NEEDS_ALL_OF = NEED_V | NEED_A | NEED_B | NEED_C | NEED_Y | NEED_K,
	NEEDS_ALL = 127,
	NEEDS_ZERO = 128
};
enum { MAX_NEEDS = 6 /* arrays of a general operation: V, A, Y, K, L, or B in its place, C */, MAX_KEEPS = 2 };

enum keep_kind { KEEP_NOTHING, KEEP_VALUE, KEEP_MASK, KEEP_SIGN, KEEP_PER_ROW };

/* Returns the bits of an element of a kept array whose elements share bytes; 0 for any other KIND. */
static inline int keep_bits(enum keep_kind kind) { return kind == KEEP_MASK ? 1 : kind == KEEP_SIGN ? 2 : 0; }

struct keep {
	/* VALUE: an array; MASK: a bit an element; SIGN: two; PER_ROW: extent 1 along the axis (shapes: op_keep_type). */
	enum keep_kind kind;
	const char *name; /* reports call it "output of NAME" */
};

struct op_info {
	const char *name;
	const char *group; /* its heading in ckptc-chain(5) */
	enum op_class class;
	int operands;              /* how many a use has at most, arrays or numbers */
	int least_operands;        /* those after so many may be left out */
	int optional;              /* 1: an option is one more, the last (op_option_operand); else 0 */
	const char *operand_names; /* in the manual, such as "c b"; without the option */
	const char *arguments;     /* ops.def's ARGUMENTS */
	enum scope scope;          /* ops.def's SCOPE; op_scope() returns that of one use, which may be narrower or wider */
	union {
		struct {
			bool differentiable; /* false: no gradient passes to the input */
			bool operand_differentiable;
		};
		bool differentiable_by[MAX_VALUES]; /* the same, and further operands */
	};
	union {
		struct {
			unsigned needs_v, needs_a; /* enum need bits: what the gradients of v and of a read */
		};
		unsigned needs[MAX_VALUES]; /* the same, and further operands */
	};
	struct keep keeps[MAX_KEEPS];
	double flops; /* cost in additions of a product's multiply-add, else of an element of V or result (the more) */
	const char *doc;
};

extern const struct op_info op_table[OP_ROWS];

/* All operations of a chain, in the order of ops.def. */
enum {
#define COUNTED(NAME, ...) COUNTED_##NAME,
#define UNARY COUNTED
#define BINARY COUNTED
#define TERNARY COUNTED
#define GENERAL COUNTED
#define EXPANDED COUNTED
#include "ops/ops.def"
#undef COUNTED
	OP_LISTED
};
extern const enum op op_list[OP_LISTED];
/* True if lowering puts OP together from others. */
static inline bool op_is_expanded(enum op op) { return op > OP_CLASS_WEIGHT; }
/* Returns the operation NAME, or OP_COUNT if there is none. */
enum op op_find(const char *name);

enum boundary { BOUNDARY_PERIODIC, BOUNDARY_ZERO, BOUNDARY_REFLECT };
/* What becomes of the losses of all elements, or rows. */
enum loss_reduction { REDUCTION_MEAN, REDUCTION_SUM, REDUCTION_NONE };

/* Which transform is scaled by the number of elements: the one back, each by its root, or the one forward. */
enum fft_norm { FFT_BACKWARD, FFT_ORTHO, FFT_FORWARD };
enum { FFT_MOST = 1 << 30 }; /* the most numbers of a line */

/* START or STOP of a slice, or STREAM of a dropout. */
struct slice_bound {
	bool given;
	int64_t at;
};

/* One number for all, or a list of COUNT. */
struct numbers {
	const double *list; /* NULL: one */
	int64_t count;
	double one;
};

/*
 * The arguments of one use of an operation; arguments.def says which member each one sets. Operations with members of one
 * union have no argument in common. A chain has many of these. So it keeps only the bytes that each uses (attrs_size).
 */
struct attrs {
	double number[2]; /* P(0), P(1) of element-wise rows: slope, or lo and hi, or tanh */
	union {
		double delta, q;
		struct { /* layernorm, rmsnorm; groupnorm */
			double eps;
			int64_t groups; /* groupnorm, convolutions */
		};
		enum dtype dtype;              /* cast */
		struct {                       /* cross_entropy, nll */
			struct slice_bound ignore; /* a class; not given: none */
			double smoothing;
		};
		int64_t shift;
		int64_t diagonal; /* tril, triu */
		struct {          /* N: scatter_add, one_hot, topk, repeat_each; irfft's is 0 if not given */
			int64_t n;
			enum fft_norm norm;
		};
		struct { /* slice; collect: START is the number of the iteration, and each STEP-th is a part */
			struct slice_bound start, stop;
			int64_t step;
		};
		struct { /* pad */
			double value;
			int64_t before, after;
		};
		struct { /* stencils */
			union {
				struct numbers dx, weights;
			};
			int64_t order;
			enum boundary boundary;
		};
		struct { /* upsample */
			struct numbers factors;
			bool linear, align_corners;
		};
		const char *subscripts; /* einsum */
		bool scaled;            /* attention: NUMBER[0] is the scale, which is 1 / sqrt(last extent) by default */
		struct {                /* dropout */
			double p;
			int64_t seed;
			struct slice_bound stream; /* not given: by the place in the forward pass */
		};
	};
	bool keepdims;
	bool has_axis;     /* false: all axes */
	uint8_t reduction; /* of a loss: an enum loss_reduction */
	int axis_count;    /* the first of which are in AXIS */
	union {
		int axis[MAX_DIMS]; /* as written: a negative one counts from the end */
		struct shape shape; /* reshape, broadcast_to; tile: its counts. As written, -1 allowed in reshape */
		struct {            /* operations with windows; those of one axis read [0] alone */
			int64_t window[2], stride[2]; /* of pooling: a stride of 0 is that of the window */
			int64_t padding[4];           /* as written */
			int64_t dilation[2], output_padding[2];
			int padding_count;
			bool same, ceil, count_padding;
		};
	};
};

/* The value of an argument, given by position or by name. */
enum argument_kind { ARGUMENT_NUMBER, ARGUMENT_WORD, ARGUMENT_BOOL, ARGUMENT_LIST };
struct argument {
	enum argument_kind kind;
	double number;
	bool integer;       /* NUMBER is an integer within int64 */
	int64_t as_integer; /* then the integer itself: NUMBER may have lost digits */
	bool boolean;
	const char *word;
	bool quoted; /* WORD was a string */
	/* LIST: COUNT numbers. Attributes refer to them, and are compared by bytes: equal lists are one in memory. */
	const double *numbers;
	const int64_t *integers; /* the same, if all are integers; else NULL */
	size_t count;
};

/* Returns NUMBER as an argument. Only integers of magnitude up to 2^53 count as integers. */
struct argument argument_of_double(double number);
/* Sets ATTRS to the defaults of OP. */
void attrs_default(struct attrs *attrs, enum op op);
/* Returns over how many of the last axes OP moves a window: 1 or 2, or 0 if it moves none. */
int op_window_axes(enum op op);
/* The window of an operation along one of the axes that it moves over. Its elements are GAP apart, from the first to the last. */
struct window {
	int64_t extent, stride, before, after, gap; /* EXTENT is with the gaps. BEFORE and AFTER are the padding */
};
/* Returns the window along axis I of those that OP moves over. A convolution's has KERNEL elements, of pooling 0. */
struct window op_window(enum op op, const struct attrs *attrs, int i, int64_t kernel);
/* True if an upsample with ATTRS resamples axis K of NDIM: one that it names, by default all after the first two. */
bool op_is_resampled(const struct attrs *attrs, int k, int ndim);
/* Returns the factor of axis K, which is resampled. op_infer has checked ATTRS. */
double op_resampling_factor(const struct attrs *attrs, int k, int ndim);
/* Returns how many of the first bytes of ATTRS OP uses. */
size_t attrs_size(const struct attrs *attrs, enum op op);
/*
 * Returns where ATTRS has the constants of OP and stores their number: arguments that decide on values alone, not on
 * types, on rows that are read, or on how they are computed.
 */
enum { MOST_CONSTANTS = 2 };
double *attrs_constants(struct attrs *attrs, enum op op, size_t *count);
/* Stores the least and the most positional arguments of OP. The operand does not count. */
void op_positionals(enum op op, int *least, int *most);
/* Returns the name of OP's argument INDEX, from 0, options included, stored in NAME; "operand" if there is none. */
const char *op_positional_name(enum op op, int index, char name[32]);
/*
 * What is wrong with a use of an operation. The caller adds the place in the source.
 * ARENA holds the texts. If a function fails and MESSAGE is NULL, memory ran out.
 */
struct complaint {
	struct arena *arena;
	const char *message;
	const char *hint; /* the nearest name or value, or NULL */
};
/*
 * Sets argument NAME or, if NAME is NULL, positional argument INDEX, from 0. Fails with STATUS_CHAIN
 * and a COMPLAINT if there is no such argument, or its kind or range is wrong.
 */
enum status attrs_set(struct attrs *attrs, enum op op, const char *name, int index, const struct argument *argument,
                      struct complaint *complaint);
/* True if argument NAME of OP or, if NAME is NULL, its positional argument INDEX, from 0, can be a number. */
bool op_takes_number(enum op op, const char *name, int index);
/* Stores the names of OP's arguments, at most LIMIT, in NAMES. Returns their count. ARENA holds the texts. */
size_t op_argument_names(enum op op, const char *names[], size_t limit, struct arena *arena);

/*
 * Returns square, sqrt or reciprocal if OP is pow and NUMBER is 2, 0.5 or -1, else OP.
 * NumPy does the same, so these powers have its bits and its special values.
 */
enum op op_by_number(enum op op, double number);
/*
 * Computes the element-wise OP of the number V and, if it has an operand, the number A (else NULL), with default
 * arguments. + - * / and powers are C's. Returns false if OP is general or does not take such operands.
 */
bool op_of_numbers(enum op op, double v, const double *a, double *result);
/* Returns OP's SCOPE in ops.def in three words: "element", "row" (also for NEIGHBOUR), or "all" for SUM, FOLD and ALL. */
const char *op_scope_name(enum op op);
/* Returns it in five words: "element", "row", "neighbour", "fold" for SUM and FOLD, or "all". */
const char *op_reach(enum op op);
/* Stores OP with its operands and arguments, in the order in which they are written, in TEXT. Returns TEXT. */
enum { OP_USAGE = 96 };
const char *op_usage(enum op op, char text[OP_USAGE]);
/* Stores the names of the arrays that OP's derivatives may need in NAMES. Returns their count. */
size_t op_kept_names(enum op op, const char *names[MAX_NEEDS]);

/* Returns the most operands that a use of OP has. */
static inline int op_most_operands(enum op op) { return op_table[op].operands + op_table[op].optional; }
/* Returns the number of the operand that option NAME of OP gives, as in `weight=W`; 0 if it gives none. */
int op_option_operand(enum op op, const char *name);
/* True if OP is a loss: it has the option `reduction`. */
bool op_is_loss(enum op op);
/* True if OP reads classes: an index along an axis of V for each of its other indices (op_class_axis). */
bool op_has_classes(enum op op);
/* Returns the axis of NDIM, at least 1, along which V has the classes. ATTRS may be NULL: the last. */
int op_class_axis(const struct attrs *attrs, int ndim);

/* True if OP is element-wise and its values broadcast to one shape. */
static inline bool op_broadcasts(enum op op)
{
	return op_table[op].class == OP_CLASS_BINARY || op_table[op].class == OP_CLASS_TERNARY;
}
/*
 * Returns the array of OP that holds indices or classes, NEED_V or NEED_A; 0 if none does. Its numbers select. They are no
 * part of what is computed, so the computing type does not depend on theirs. It knows them by their shape rule.
 */
unsigned op_indices(enum op op);
/* True if value K of OP is a condition: it counts as 1 unless it is 0, and does not decide on the type of the result. */
static inline bool op_is_condition(enum op op, uint32_t k) { return op == OP_where && k == 1; }
/* True if OP gives 1 or 0: it compares its values, or takes them as conditions. */
bool op_gives_condition(enum op op);
/* True if the type of value K of OP decides on that of the result. Indices, classes and conditions do not. */
static inline bool op_promotes(enum op op, uint32_t k)
{
	return !op_is_condition(op, k) && !(k == 1 && op_indices(op) == NEED_A);
}

/*
 * Infers the type of the result. OPERANDS are the types of the operands, NULL where one is a number or missing; NULL if there is
 * none. The result has V's dtype (of a cast, the one asked for; of a take, A's). Fails with a COMPLAINT: with STATUS_CHAIN if
 * shapes or arguments do not fit, with STATUS_LIMIT if the result, or a loss's broadcast array, has too many elements.
 */
enum status op_infer(enum op op, const struct attrs *attrs, const struct type *v,
                     const struct type *const operands[MAX_OPERANDS], struct type *result, struct complaint *complaint);
/* The first index of a slice, as in Python, and the number of its elements. */
struct slice {
	int64_t start, count;
};
/* Returns the slice that ATTRS select along an axis of N elements. */
struct slice slice_of(const struct attrs *attrs, int64_t n);
/* Returns the type of the kept array INDEX (0: K, 1: L), which OP must have. */
struct type op_keep_type(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                         const struct type *result, int index);
/*
 * Returns how far this use of OP reaches. If A_STREAMED, the operand is cut into tiles along
 * its leading axis as V is; else every tile of V has all of the operand.
 */
enum scope op_scope(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a, bool a_streamed);
/*
 * The rows of V that an operation of scope NEIGHBOUR reads, along the leading axis. Row i of the result depends on rows
 * i - BEFORE .. i + AFTER alone. If it WRAPS, these rows go around the ends of V, and count as all others do: a window may
 * go around them, too, and the operation does not know where. Else rows outside V do not exist. The result has GROWS more rows than V, or fewer if that is negative.
 *
 * A window is some neighbouring rows of V, computed as if they were a whole array. Where V has more rows beyond an end of
 * the window, the BEFORE first or the AFTER last rows of the window's result may differ from V's. Of the derivative,
 * as many of halo_of_derivative: EDGE_BEFORE and EDGE_AFTER are rows that differ since the window's ends are mirrored
 * or cut off.
 */
struct halo {
	int64_t before, after, grows, edge_before, edge_after;
	bool wraps;
};
/* Returns the halo of this use of OP on V, if op_scope is NEIGHBOUR. It is all zeros for other scopes. */
struct halo op_halo(enum op op, const struct attrs *attrs, const struct type *v);
/* Returns the halo of the derivative by V of an operation whose halo is HALO: the rows of g that a row of dv needs. */
static inline struct halo halo_of_derivative(struct halo halo)
{
	return (struct halo){.before = halo.after + halo.edge_before,
	                     .after = halo.before + halo.edge_after,
	                     .grows = -halo.grows,
	                     .wraps = halo.wraps};
}
/*
 * Changes ATTRS, of a use of OP on V whose op_scope is NEIGHBOUR, so that they mean the same on a window of at least
 * BEFORE + AFTER rows. If the window's first row is row w of V, row j of its result is row w + j of V's result.
 */
void op_attrs_for_window(enum op op, struct attrs *attrs, const struct type *v);
/* Lets ATTRS, of a squeeze, name the axes of extent 1 of SHAPE, unless they name axes already. */
void op_name_squeezed(struct attrs *attrs, const struct shape *shape);
/* True if the result of OP on V depends on the index of V's leading axis at which a row stands. */
static inline bool op_counts_rows(enum op op, const struct type *v)
{
	return op == OP_dropout || ((op == OP_tril || op == OP_triu) && v->shape.ndim == 2);
}
/* True if each row of V meets one row of A, the first operand: where V is cut along its leading axis, A must be cut too. */
bool op_runs_along(enum op op, const struct type *v, const struct type *a);
/* True if OP is element-wise and dv / g exists and is one number for all V. The operand must be a number or absent. */
bool op_derivative_is_number(enum op op);
/* True if OP can be computed tile by tile where it reduces the leading axis (fold_begin). */
/* True if an argument of OP is a list of extents, or of counts for axes. */
static inline bool op_takes_extents(enum op op) { return op == OP_reshape || op == OP_broadcast_to || op == OP_tile; }
/* True if the result has the elements of the input in their order: one array can be both. */
static inline bool op_only_reshapes(enum op op)
{
	return op == OP_reshape || op == OP_flatten || op == OP_expand_dims || op == OP_squeeze || op == OP_SOLUTION;
}
/* True if the elements of the result are those of the input and of the operand, moved. */
static inline bool op_only_moves(enum op op)
{
	return op_only_reshapes(op) || op == OP_transpose || op == OP_slice || op == OP_roll || op == OP_flip ||
	       op == OP_concat || op == OP_stack;
}
static inline bool op_folds(enum op op) { return op_table[op].scope == SCOPE_SUM || op_table[op].scope == SCOPE_FOLD; }
/* True if OP is a NORM along the leading axis: softmax, log_softmax, layernorm and rmsnorm. */
static inline bool op_normalizes(enum op op)
{
	return op == OP_softmax || op == OP_log_softmax || op == OP_layernorm || op == OP_rmsnorm;
}
/*
 * True if the derivative of OP along the leading axis needs statistics of all rows, beside the cotangent of the result. That
 * of cross_entropy does so if it is a mean that ignores a class: op_scope is FOLD then.
 */
static inline bool op_folds_back(enum op op)
{
	return op_normalizes(op) || op == OP_amax || op == OP_amin || op == OP_prod || op == OP_logsumexp || op == OP_var ||
	       op == OP_std || op == OP_cross_entropy;
}
/* Returns the cost of one forward execution, in additions. */
double op_cost(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
               const struct type *result);
/* True for matmul, linear, dot and convolutions, which multiply matrices. */
bool op_is_product(enum op op);
/* Returns what OP needs of a library of linear algebra, as bits; 0: nothing. blas_load makes it ready. */
enum { LIBRARY_PRODUCTS = 1, LIBRARY_LAPACK = 2 };
unsigned op_libraries(enum op op);
/* True for a tridiagonal, or a derivative of one that is an operation of its own. Operands broadcast to V. */
static inline bool op_is_tridiagonal(enum op op)
{
	return op == OP_tridiagonal || op == OP_ON_DIAGONAL || op == OP_ON_UPPER;
}
/*
 * An operation has derivatives by V and A alone. Returns the operation that stands in the backward pass for the derivative of OP
 * by operand K, from 2 on.
 */
enum op op_by_operand(enum op op, uint32_t k);
/* True for conv_transpose1d and conv_transpose2d, which are the derivative of a convolution by its input. */
static inline bool op_is_transposed(enum op op) { return op == OP_conv_transpose1d || op == OP_conv_transpose2d; }
/* True for fft, ifft, rfft and irfft. */
static inline bool op_is_transform(enum op op)
{
	return op == OP_fft || op == OP_ifft || op == OP_rfft || op == OP_irfft;
}
/*
 * Stores the axis along which a transform OP goes, on a V with NDIM axes. That of complex numbers does not count. Returns false
 * if there is none.
 */
bool op_transform_axis(enum op op, const struct attrs *attrs, int ndim, int *axis);
/* True for matmul, linear and dot: the `dots` of policies. */
bool op_is_dot(enum op op);
/* Stores AXIS, which counts from the end if negative, as *RESOLVED. Returns false if NDIM axes have no such axis. */
bool axis_resolve(int axis, int ndim, int *resolved);
/* True if ATTRS name axis K of NDIM axes, or name no axis, which means all. */
bool axis_named(const struct attrs *attrs, int k, int ndim);
/* Stores in AXES[i] the axis, of NDIM, that is axis i of the transpose. op_infer has checked ATTRS. */
void transpose_axes(const struct attrs *attrs, int ndim, int axes[MAX_DIMS]);

#endif
