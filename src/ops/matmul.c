/*
 * matmul, linear and dot: products Z = A op(B) of stacks of matrices, as NumPy's
 * matmul. A is the left factor; linear transposes B. A stack is computed matrix by
 * matrix. If B is one matrix for the whole stack, the stack of A is one tall
 * matrix, and each product and each derivative is one call. The gradient of a
 * broadcast factor is summed over the stack, in order.
 */
#include <string.h>

#include "ops/lines.h"

struct stack {
	enum dtype dtype;
	size_t size; /* of an element */
	int64_t m, n, k;
	bool transpose_b;
	struct shape stack; /* the batch axes of the result */
	int64_t count;      /* matrices in the stack */
	/* elements from one matrix to the next along each axis of the stack; 0 if the factor is broadcast there */
	int64_t step_a[MAX_DIMS], step_b[MAX_DIMS];
};

/* Sets STEP for a factor of SHAPE whose matrices have MATRIX elements. */
static void find_steps(int64_t step[MAX_DIMS], const struct shape *shape, const struct shape *stack, int64_t matrix)
{
	for (int i = 0; i < stack->ndim; i++) {
		int own = shape->ndim - 3 - i;
		int64_t extent = own >= 0 ? shape->dim[own] : 1;
		step[stack->ndim - 1 - i] = extent == 1 ? 0 : matrix;
		matrix *= extent;
	}
}

/* True if the shape is one matrix. If B's is, the stack of A is one matrix with the rows of all. */
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
	struct stack p = {.dtype = call->v->dtype, .size = call->v->dtype == DTYPE_F64 ? 8 : 4, .count = 1};
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

/* Returns the offset of the factor of matrix INDEX of the stack. *FIRST: no earlier matrix has the same factor. */
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

static const void *element_in(const struct stack *p, const void *base, int64_t index)
{
	return element_at(base, p->size, index);
}

/*
 * The context of a product that a team shares by pieces of C's rows or columns. The
 * pieces follow from the extents alone: the rounding of OpenBLAS may depend on the
 * extents of a call, and must be the same for every team.
 */
struct shared_product {
	enum dtype dtype;
	size_t size;
	struct product all;
};

static void multiply_rows(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct shared_product *p = context;
	struct product part = p->all;
	part.m = end - begin;
	part.a.data = (const char *)part.a.data + (size_t)(part.a.transposed ? begin : begin * part.a.ld) * p->size;
	part.c = (char *)part.c + (size_t)(begin * part.ldc) * p->size;
	gemm(p->dtype, &part);
}

/* B must not be transposed. */
static void multiply_columns(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct shared_product *p = context;
	struct product part = p->all;
	part.n = end - begin;
	part.b.data = (const char *)part.b.data + (size_t)begin * p->size;
	part.c = (char *)part.c + (size_t)begin * p->size;
	gemm(p->dtype, &part);
}

static void multiply_shared(struct team *team, const struct stack *stack, struct product product)
{
	enum { ROWS = 512, LEAST = 96 };
	struct shared_product shared = {stack->dtype, stack->size, product};
	const int64_t m = product.m, n = product.n;
	/* The gradient of a weight has few rows and columns, and each element sums many products. */
	const bool summed = product.a.transposed && product.k >= 2 * ROWS;
	if (summed && n >= 2 * LEAST && n > m)
		team_run(team, n, LEAST, multiply_columns, &shared);
	else
		team_run(team, m, summed ? LEAST : m >= 2 * ROWS ? ROWS : m + 1, multiply_rows, &shared);
}

static void forward_product(const struct op_call *call, void *y, const void *v, const void *w)
{
	const struct stack p = stack_of(call);
	const void *a = call->op == OP_dot ? w : v, *b = call->op == OP_dot ? v : w;
	bool first;
	for (int64_t i = 0; i < p.count; i++)
		multiply_shared(call->team, &p,
		                (struct product){.m = p.m,
		                                 .n = p.n,
		                                 .k = p.k,
		                                 .a = {element_in(&p, a, factor_at(&p, p.step_a, i, &first)), p.k, false},
		                                 .b = {element_in(&p, b, factor_at(&p, p.step_b, i, &first)),
		                                       p.transpose_b ? p.k : p.n, p.transpose_b},
		                                 .c = (char *)y + (size_t)(i * p.m * p.n) * p.size,
		                                 .ldc = p.n});
}

/* dA = G op(B)' */
static void left_gradient(struct team *team, const struct stack *p, void *da, const void *g, const void *b)
{
	bool first, any;
	for (int64_t i = 0; i < p->count; i++) {
		const int64_t at = factor_at(p, p->step_a, i, &first);
		multiply_shared(team, p,
		                (struct product){.m = p->m,
		                                 .n = p->k,
		                                 .k = p->n,
		                                 .a = {element_in(p, g, i * p->m * p->n), p->n, false},
		                                 .b = {element_in(p, b, factor_at(p, p->step_b, i, &any)),
		                                       p->transpose_b ? p->k : p->n, !p->transpose_b},
		                                 .c = (char *)da + (size_t)at * p->size,
		                                 .ldc = p->k,
		                                 .accumulate = !first});
	}
}

/* dB = A' G, or G' A where B is transposed */
static void right_gradient(struct team *team, const struct stack *p, void *db, const void *g, const void *a)
{
	bool first, any;
	for (int64_t i = 0; i < p->count; i++) {
		const int64_t at = factor_at(p, p->step_b, i, &first);
		const struct factor left = {element_in(p, a, factor_at(p, p->step_a, i, &any)), p->k, true};
		const struct factor cotangent = {element_in(p, g, i * p->m * p->n), p->n, true};
		struct product product = {.m = p->k,
		                          .n = p->n,
		                          .k = p->m,
		                          .a = left,
		                          .b = {cotangent.data, cotangent.ld, false},
		                          .c = (char *)db + (size_t)at * p->size,
		                          .ldc = p->n,
		                          .accumulate = !first};
		if (p->transpose_b) {
			product.m = p->n;
			product.n = product.ldc = p->k;
			product.a = cotangent;
			product.b = (struct factor){left.data, left.ld, false};
		}
		multiply_shared(team, p, product);
	}
}

static void vjp_product(const struct op_call *call, void *dv, void *dw, const void *g, const void *v, const void *w)
{
	const struct stack p = stack_of(call);
	/* without a matrix in the stack the derivatives are zero */
	if (p.count == 0 && dv)
		memset(dv, 0, (size_t)type_bytes(call->v));
	if (p.count == 0 && dw)
		memset(dw, 0, (size_t)type_bytes(call->a));
	if (call->op == OP_dot) {
		if (dw)
			left_gradient(call->team, &p, dw, g, v);
		if (dv)
			right_gradient(call->team, &p, dv, g, w);
	} else {
		if (dv)
			left_gradient(call->team, &p, dv, g, w);
		if (dw)
			right_gradient(call->team, &p, dw, g, v);
	}
}

#define PRODUCT(NAME)                                                                                                  \
	FORWARD(NAME) { forward_product(call, y, v, a); }                                                                  \
	VJP(NAME) { vjp_product(call, dv, da, g, needs[0], needs[1]); }
PRODUCT(matmul)
PRODUCT(linear)
PRODUCT(dot)
