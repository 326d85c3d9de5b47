/*
 * What is known of an operation without any data: made from ops.def.
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
#define GENERAL(NAME, ...) OP_##NAME,
#include "ops/ops.def"
	OP_COUNT
};

enum op_class { OP_CLASS_UNARY, OP_CLASS_BINARY, OP_CLASS_GENERAL };

/*
 * ELEM: an element of the result depends on the elements at its place.
 * ROW: a row (all that shares an index of the leading axis) on that row.
 * SUM: a sum over the leading axis, which may come in blocks, in order.
 * FOLD: made of blocks, too, but its derivative wants the result of all of them first.
 * ALL: anything may depend on anything.
 */
enum scope { SCOPE_ELEM, SCOPE_ROW, SCOPE_SUM, SCOPE_FOLD, SCOPE_ALL };

/* What a derivative needs, as bits. */
enum need {
	NEED_V = 1, /* the input */
	NEED_A = 2, /* the operand */
	NEED_Y = 4, /* the output */
	NEED_K = 8, /* the first computed value */
	NEED_L = 16 /* the second */
};
enum { MAX_NEEDS = 5, MAX_KEEPS = 2 };

enum keep_kind { KEEP_NOTHING, KEEP_VALUE, KEEP_MASK, KEEP_PER_ROW };

struct keep {
	enum keep_kind kind; /* VALUE: shaped as the input; MASK: the same in bits; PER_ROW: extent 1 along the axis */
	const char *name;    /* what a report calls it: "output of NAME" */
};

struct op_info {
	const char *name;
	const char *group; /* the heading of ckptc-chain(5) that it is under */
	enum op_class class;
	int operands;          /* array operands: 0 or 1 */
	const char *arguments; /* ops.def's ARGUMENTS */
	enum scope scope;      /* the widest */
	bool differentiable;   /* false: no gradient passes to the input */
	bool operand_differentiable;
	unsigned needs_v, needs_a; /* enum need bits for the gradient of v, of a */
	struct keep keeps[MAX_KEEPS];
	double flops; /* for one element of the input (MATMUL-like: of each multiply-add) */
	const char *doc;
};

extern const struct op_info op_table[OP_COUNT];

/* The operation of that name, or OP_COUNT. */
enum op op_find(const char *name);

/* Arguments: the closed set of names that ops.def uses, and their kinds, are in arguments.def. */
enum boundary { BOUNDARY_PERIODIC, BOUNDARY_ZERO, BOUNDARY_REFLECT };

struct attrs {
	double number[2]; /* P(0), P(1) of element-wise rows: slope; lo, hi; tanh */
	bool has_axis;    /* false: all axes */
	int axis_count;
	int axis[MAX_DIMS]; /* as written: may be negative */
	bool keepdims;
	double eps, value, delta, dx, p;
	int64_t seed;
	bool has_start, has_stop;
	int64_t start, stop, step;
	int64_t before, after, shift;
	int64_t stride[2], padding[2];
	enum boundary boundary;
	enum dtype dtype;   /* cast */
	struct shape shape; /* reshape, as written, -1 allowed */
};

/* An argument's value, positional or by name. */
enum argument_kind { ARGUMENT_NUMBER, ARGUMENT_WORD, ARGUMENT_BOOL, ARGUMENT_INTEGERS };
struct argument {
	enum argument_kind kind;
	double number;
	bool integer;  /* NUMBER that is an integer within int64 ... */
	int64_t whole; /* ... and what it is: its double may have lost digits */
	bool boolean;
	const char *word;
	const int64_t *integers;
	size_t count;
};

/* NUMBER as an argument: an integer where it is one that a double holds as it was written. */
struct argument argument_of_double(double number);
/* All defaults of OP. */
void attrs_default(struct attrs *attrs, enum op op);
/* Positional arguments that OP takes: at least *LEAST and at most *MOST (reshape: 32), array operand not counted. */
void op_positionals(enum op op, int *least, int *most);
/* The name of OP's INDEX-th positional argument. */
const char *op_positional_name(enum op op, int index, char name[32]);
/*
 * What is wrong with a use of an operation, without a place: the caller knows it.
 * ARENA gets the text. MESSAGE NULL beside a status that is not OK: out of memory.
 */
struct complaint {
	struct arena *arena;
	const char *message;
	const char *hint; /* the nearest name or value, or NULL */
};
/*
 * Sets argument NAME (or, NAME NULL, the INDEX-th positional). A wrong name,
 * kind or range gives STATUS_CHAIN and COMPLAINT.
 */
enum status attrs_set(struct attrs *attrs, enum op op, const char *name, int index, const struct argument *argument,
                      struct complaint *complaint);
/* Whether argument NAME of OP, or where that is NULL its INDEX-th by place, can be a number. */
bool op_takes_number(enum op op, const char *name, int index);
/* Appends OP's argument names to NAMES (at most LIMIT); the count. For suggestions, help and completions. */
size_t op_argument_names(enum op op, const char *names[], size_t limit, struct arena *arena);

/*
 * What OP with the number NUMBER as its operand is: powers that are operations of one
 * value, as in NumPy, to the bit and with their special values; else OP.
 */
enum op op_by_number(enum op op, double number);
/* How far OP may reach at most, as it is said: element, row, all. */
const char *op_reach(enum op op);
/* What OP's derivatives may need, by name, in NAMES; the count. */
size_t op_kept_names(enum op op, const char *names[MAX_NEEDS]);

/*
 * The result's type. V and A as values are typed (A NULL without operand; a weak scalar
 * has been given v's dtype by the caller). Where they do not fit: STATUS_CHAIN
 * and COMPLAINT has both shapes; where there are too many elements: STATUS_LIMIT.
 */
enum status op_infer(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                     struct type *result, struct complaint *complaint);
/* What `slice` takes along an axis of N: its first element and how many, as Python counts v[start:stop:step]. */
struct slice {
	int64_t start, count;
};
struct slice slice_of(const struct attrs *attrs, int64_t n);
/* The type of keep INDEX (0: K, 1: L). */
struct type op_keep_type(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                         const struct type *result, int index);
/*
 * The reach of this use of OP. A_STREAMED: the operand runs along the same
 * leading axis as v (it is cut with it); else it is the same for every row.
 */
enum scope op_scope(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a, bool a_streamed);
/* Whether operand A of OP is cut along with V's leading axis where that is cut: each row of V meets its own of A. */
bool op_runs_along(enum op op, const struct type *v, const struct type *a);
/* Whether OP by a number, or by nothing, has a derivative that is a number whatever the value is. */
bool op_slope_is_number(enum op op);
/* Whether OP is made of blocks of the leading axis where it goes over that (ops/fold.c). */
static inline bool op_folds(enum op op) { return op_table[op].scope == SCOPE_SUM || op_table[op].scope == SCOPE_FOLD; }
/* Cost of one forward execution, in flops of an addition. */
double op_cost(enum op op, const struct type *v, const struct type *a, const struct type *result);
/* Whether OP multiplies matrices, by gemm (ops/gemm.c). */
bool op_is_product(enum op op);
/* Whether it is what policies mean by dots: matmul, linear or dot. */
bool op_is_dot(enum op op);
/* AXIS of V made non-negative; false where it is out of range. */
bool axis_resolve(int axis, int ndim, int *resolved);
/* Of an array of NDIM axes, that which each axis of its transpose is; ATTRS have been checked by op_infer. */
void transpose_axes(const struct attrs *attrs, int ndim, int axes[MAX_DIMS]);

#endif
