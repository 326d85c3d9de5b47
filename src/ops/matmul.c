/*
 * matmul, linear and dot: products Z = A op(B) of stacks of matrices, as NumPy's matmul.
 * A is the left factor (dot's operand); linear transposes B unless it is a vector. A stack is
 * computed matrix by matrix. If B is one matrix for the whole stack, the stack of A is one tall
 * matrix. The gradient of a broadcast factor is summed over the stack, in order.
 *
 * Stacks of products, such as attention's, are sparse (struct product): they skip the zeros that a masked softmax
 * leaves, if the other factor is finite. A product by one matrix is not, since its tiles would decide what is
 * skipped.
 * Tests: tests/unit/test_gemm.c
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

struct stack {
	enum dtype dtype;
	size_t size; /* of an element */
	int64_t m, n, k;
	bool transpose_b;
	struct shape stack; /* the batch axes of the result; none if B is one matrix */
	int64_t count;      /* matrices in the stack; 1 if B is one matrix */
	/* a factor's elements from one matrix to the next along each axis of the stack; 0 if it is broadcast there */
	int64_t step_a[MAX_DIMS], step_b[MAX_DIMS];
};

/* Sets STEP, along the axes of STACK, for a factor of SHAPE whose matrices have MATRIX elements. */
static void find_steps(int64_t step[MAX_DIMS], const struct shape *shape, const struct shape *stack, int64_t matrix)
{
	for (int i = 0; i < stack->ndim; i++) {
		int own = shape->ndim - 3 - i;
		int64_t extent = own >= 0 ? shape->dim[own] : 1;
		step[stack->ndim - 1 - i] = extent == 1 ? 0 : matrix;
		matrix *= extent;
	}
}

/* True if SHAPE is one matrix or vector, leading extents of 1 aside. */
static bool is_one_matrix(const struct shape *shape)
{
	for (int i = 0; i < shape->ndim - 2; i++)
		if (shape->dim[i] != 1)
			return false;
	return true;
}

int64_t product_rows(enum op op, const struct type *v, const struct type *a)
{
	if (op != OP_matmul && op != OP_linear)
		return 0;
	if (!is_one_matrix(&a->shape))
		return 0;
	int64_t rows = 1;
	for (int i = 1; i < v->shape.ndim - 1; i++)
		rows *= v->shape.dim[i];
	return rows;
}

static struct stack stack_of(const struct op_call *call)
{
	const bool swapped = call->op == OP_dot;
	const struct shape *a = swapped ? &call->a->shape : &call->v->shape;
	const struct shape *b = swapped ? &call->v->shape : &call->a->shape;
	struct stack p; /* not cleared: its shape and steps are large, and most products are no stack */
	p.dtype = call->v->dtype;
	p.size = element_size(call->v->dtype);
	p.count = 1;
	p.stack.ndim = 0;
	p.transpose_b = call->op == OP_linear && b->ndim > 1;
	p.m = a->ndim > 1 ? a->dim[a->ndim - 2] : 1;
	p.k = a->dim[a->ndim - 1];
	p.n = b->ndim == 1 ? 1 : b->dim[b->ndim - (p.transpose_b ? 2 : 1)];
	if (is_one_matrix(b)) {
		for (int i = 0; i < a->ndim - 2; i++)
			p.m *= a->dim[i];
		return p;
	}
	p.stack = call->y->shape;
	p.stack.ndim -= (a->ndim > 1) + (b->ndim > 1);
	p.count = shape_count(&p.stack);
	find_steps(p.step_a, a, &p.stack, p.m * p.k);
	find_steps(p.step_b, b, &p.stack, p.n * p.k);
	return p;
}

/* Returns the offset, in elements, of the factor of matrix INDEX. *FIRST: no matrix before it has the same factor. */
static int64_t factor_at(const struct stack *p, const int64_t step[MAX_DIMS], int64_t index, bool *first)
{
	int64_t at = 0;
	*first = true;
	for (int i = p->stack.ndim - 1; i >= 0; i--) {
		const int64_t place = index % p->stack.dim[i];
		index /= p->stack.dim[i];
		at += place * step[i];
		*first &= step[i] != 0 || place == 0;
	}
	return at;
}

/*
 * A product that a team shares by pieces of C's rows or columns. The pieces follow from
 * the extents alone: OpenBLAS's rounding may depend on the extents of a call, and must
 * be the same for every team.
 */
struct shared_product {
	const struct stack *stack;
	struct product all;
	bool by_columns; /* pieces are columns */
};

static void multiply_piece(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct shared_product *p = context;
	const size_t size = p->stack->size;
	struct product part = p->all;
	if (p->by_columns) {
		part.n = end - begin;
		part.b.data = element_at(part.b.data, size, part.b.transposed ? begin * part.b.ld : begin);
		part.c = element_of(part.c, size, begin);
	} else {
		part.m = end - begin;
		part.a.data = element_at(part.a.data, size, part.a.transposed ? begin : begin * part.a.ld);
		part.c = element_of(part.c, size, begin * part.ldc);
	}
	gemm(p->stack->dtype, &part);
}

/* Returns the rows of a piece of PRODUCT or, if *BY_COLUMNS, its columns: more than there are if it is not cut. */
static int64_t piece_extent(const struct product *product, bool *by_columns)
{
	/* COLUMNS: what our kernel packs at once; LEAST_WORK: multiplications, some tens of microseconds */
	enum { ROWS = 512, FEW_ROWS = 96, LEAST = 96, COLUMNS = 384, LEAST_COLUMNS = 64, LEAST_WORK = 1 << 20 };
	const int64_t m = product->m, n = product->n;
	/* The gradient of a weight has few rows and columns, and each element sums many products. */
	const bool summed = product->a.transposed && product->k >= 2 * ROWS;
	const bool wide = m < 2 * ROWS && n >= 2 * COLUMNS && m * product->k >= LEAST_WORK / COLUMNS;
	/* Few rows are packed again for each piece at little cost. */
	const bool few = m <= FEW_ROWS && n < 2 * COLUMNS && n * m * product->k >= 2 * LEAST_WORK;
	*by_columns = summed ? n >= 2 * LEAST && n > m : wide || few;
	if (few && !summed)
		return round_up(greater(LEAST_WORK / (m * product->k), LEAST_COLUMNS), LEAST_COLUMNS);
	return summed ? LEAST : wide ? COLUMNS : m >= 2 * ROWS ? ROWS : m + 1;
}

static void multiply_shared(struct team *team, const struct stack *stack, struct product product)
{
	struct shared_product shared = {.stack = stack, .all = product};
	int64_t grain = piece_extent(&product, &shared.by_columns);
	const int64_t extent = shared.by_columns ? product.n : product.m;
	/* One row or column alone would be a product with a vector, which adds in another order. */
	while (grain < extent && extent % grain == 1)
		grain += PRODUCT_STRIPE;
	team_run(team, extent, grain, multiply_piece, &shared);
}

static struct factor transposed(struct factor factor)
{
	return (struct factor){factor.data, factor.ld, !factor.transposed};
}

/* Returns the product of matrix I of the stack that makes PART; the arrays are those of multiply_stack. */
static struct product product_of(const struct stack *p, enum product_part part, const void *const arrays[3], int64_t i)
{
	bool first_left, first_right;
	const int64_t at_left = factor_at(p, p->step_a, i, &first_left);
	const int64_t at_right = factor_at(p, p->step_b, i, &first_right);
	void *const left = arrays[0] ? writable(element_at(arrays[0], p->size, at_left)) : NULL;
	void *const right = arrays[1] ? writable(element_at(arrays[1], p->size, at_right)) : NULL;
	void *const result = arrays[2] ? writable(element_at(arrays[2], p->size, i * p->m * p->n)) : NULL;
	const struct factor l = {left, p->k, false}, r = {right, p->transpose_b ? p->k : p->n, p->transpose_b};
	const struct factor g = {result, p->n, false};
	struct product product = {p->m, p->n, p->k, l, r, result, p->n, .accumulate = false};
	if (part == PART_LEFT)
		product = (struct product){p->m, p->k, p->n, g, transposed(r), left, p->k, .accumulate = !first_left};
	else if (part == PART_RIGHT && p->transpose_b)
		product = (struct product){p->n, p->k, p->m, transposed(g), l, right, p->k, .accumulate = !first_right};
	else if (part == PART_RIGHT)
		product = (struct product){p->k, p->n, p->m, transposed(l), g, right, p->n, .accumulate = !first_right};
	product.sparse = p->stack.ndim > 0; /* such as attention's probabilities behind a mask */
	return product;
}

struct product product_of_matrix(const struct op_call *call, void *y, const void *v, const void *a, int64_t index)
{
	const struct stack p = stack_of(call);
	const void *const arrays[3] = {v, a, y};
	return product_of(&p, PART_RESULT, arrays, index);
}

struct product product_by_operand(const struct op_call *call, enum product_part part, const void *const arrays[3])
{
	const struct stack p = stack_of(call);
	return product_of(&p, part, arrays, 0);
}

/* The stack of products that make PART. */
struct shared_stack {
	const struct stack *stack;
	enum product_part part;
	const void *arrays[3]; /* A, B and Z */
};

/* Computes products BEGIN .. END-1: a team_part. */
static void multiply_products(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct shared_stack *s = context;
	for (int64_t i = begin; i < end; i++) {
		const struct product product = product_of(s->stack, s->part, s->arrays, i);
		gemm(s->stack->dtype, &product);
	}
}

/* True if no two products of the stack P write the same matrix for PART, the gradient of a broadcast factor. */
static bool are_apart(const struct stack *p, enum product_part part)
{
	const int64_t *step = part == PART_LEFT ? p->step_a : p->step_b;
	for (int i = 0; i < p->stack.ndim && part != PART_RESULT; i++)
		if (step[i] == 0 && p->stack.dim[i] > 1)
			return false;
	return true;
}

/* Stores PART in its array: Z, A or B. For a gradient Z has the result's cotangent, and A or B the other factor. */
static void multiply_stack(const struct op_call *call, enum product_part part, void *a, void *b, void *z)
{
	enum { LEAST_WORK = 1 << 21 }; /* multiplications of a piece of the stack */
	const struct stack p = stack_of(call);
	struct shared_stack shared = {&p, part, {a, b, z}};
	const double work = (double)p.m * (double)p.n * (double)p.k;
	bool columns;
	if (p.count == 0)
		return;
	const struct product first = product_of(&p, part, shared.arrays, 0);
	if (p.count > 1 && are_apart(&p, part) && piece_extent(&first, &columns) >= (columns ? first.n : first.m)) {
		team_run(call->team, p.count, (int64_t)(LEAST_WORK / fmax(work, 1)) + 1, multiply_products, &shared);
		return;
	}
	for (int64_t i = 0; i < p.count; i++)
		multiply_shared(call->team, &p, product_of(&p, part, shared.arrays, i));
}

/* Stores the gradients that are not NULL. dot exchanges the factors. */
static void vjp_product(const struct op_call *call, void *dv, void *dw, const void *g,
                        const void *const needs[MAX_NEEDS])
{
	const bool swapped = call->op == OP_dot;
	void *const v = writable(needs[0]), *const w = writable(needs[1]), *const z = writable(g);
	if (dv)
		multiply_stack(call, swapped ? PART_RIGHT : PART_LEFT, swapped ? w : dv, swapped ? dv : w, z);
	if (dw)
		multiply_stack(call, swapped ? PART_LEFT : PART_RIGHT, swapped ? dw : v, swapped ? v : dw, z);
}

/*
 * Pieces of about as many rows as columns cost least: each packs its rows of one factor, and its columns of the other.
 * They have up to an eighth of the matrix, so that small params do not have large pieces.
 */
enum {
	PIECE_LEAST = 128 << 10,
	PIECE_MOST = 504 << 10,
	PLACED_MOST = 2 << 20, /* of a piece that is added in place: it need not stay in the cache */
	PIECE_COLUMNS = 384,
	COLUMN_UNIT = 32,
};

bool product_in_pieces(enum op op, const struct type *v, const struct type *a)
{
	return op_is_dot(op) && is_one_matrix(op == OP_dot ? &v->shape : &a->shape);
}

int64_t product_depth(enum op op, const struct type *v, const struct type *a)
{
	const struct stack p = stack_of(&(struct op_call){.op = op, .v = v, .a = a}); /* no stack, so it needs no Y */
	return op == OP_dot ? p.n : p.m;
}

int64_t product_piece_bytes(const struct type *a)
{
	const int64_t bytes = type_bytes(a);
	return lesser(bytes, lesser(greater(bytes / 8, PIECE_LEAST), PIECE_MOST));
}

/*
 * Cuts EXTENT in as few parts as MOST does. Returns the extent of a part: EXTENT, or a multiple of UNIT if MOST permits.
 * One row or column is not left alone if MOST is 3 or more: a product with a vector adds in another order.
 */
static int64_t extent_of_part(int64_t extent, int64_t most, int64_t unit)
{
	const int64_t parts = ceil_div(extent, most);
	int64_t part = parts > 1 ? lesser(round_up(ceil_div(extent, parts), unit), most) : extent;
	while (part > 2 && extent % part == 1)
		part--;
	return part;
}

struct pieces {
	const struct op_call *call;
	struct product all;
	int64_t rows, columns, across; /* of a piece; pieces side by side */
	const struct piece_user *user;
};

/* Computes pieces BEGIN .. END-1: a team_part. */
static void multiply_pieces(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct pieces *p = context;
	const enum dtype dtype = p->call->v->dtype;
	const size_t size = element_size(dtype);
	for (int64_t i = begin; i < end; i++) {
		const int64_t row = i / p->across * p->rows, column = i % p->across * p->columns;
		struct product part = p->all;
		part.m = lesser(part.m - row, p->rows);
		part.n = lesser(part.n - column, p->columns);
		part.a.data = element_at(part.a.data, size, part.a.transposed ? row : row * part.a.ld);
		part.b.data = element_at(part.b.data, size, part.b.transposed ? column * part.b.ld : column);
		struct matrix_piece piece = {NULL, row * p->all.n + column, p->all.n, part.m, part.n};
		char *const sum = p->user->begin ? p->user->begin(p->user->context, &piece) : NULL;
		part.accumulate = sum && !p->user->new;
		part.c = sum ? element_of(sum, size, piece.first) : memory ? memory : p->call->scratch;
		part.ldc = sum ? piece.width : part.n;
		gemm(dtype, &part);
		piece.data = sum ? NULL : part.c;
		p->user->end(p->user->context, &piece);
	}
}

void product_pieces(const struct op_call *call, const void *g, const void *const needs[MAX_NEEDS],
                    const struct piece_user *user)
{
	const struct stack stack = stack_of(call);
	const bool left = call->op == OP_dot;
	const void *const arrays[3] = {left ? NULL : needs[0], left ? needs[0] : NULL, g};
	struct pieces p = {.call = call, .user = user};
	p.all = product_of(&stack, left ? PART_LEFT : PART_RIGHT, arrays, 0);
	if (shape_count(&call->a->shape) == 0)
		return;
	const int64_t bytes = user->large ? PLACED_MOST : product_piece_bytes(call->a), most = bytes / (int64_t)stack.size;
	p.columns = extent_of_part(p.all.n, lesser(most, PIECE_COLUMNS), COLUMN_UNIT);
	p.rows = extent_of_part(p.all.m, most / p.columns, PRODUCT_STRIPE);
	p.across = ceil_div(p.all.n, p.columns);
	team_run(call->team, ceil_div(p.all.m, p.rows) * p.across, 1, multiply_pieces, &p);
}

#define PRODUCT(NAME, A, B)                                                                                            \
	FORWARD(NAME) { multiply_stack(call, PART_RESULT, writable(A), writable(B), y); }                                  \
	VJP(NAME) { vjp_product(call, dv, da, g, needs); }
PRODUCT(matmul, v, a)
PRODUCT(linear, v, a)
PRODUCT(dot, a, v)
