/*
 * matmul, linear and dot: products Z = A op(B) of stacks of matrices, as NumPy's
 * matmul. A is the left factor as it lies, B may be transposed (linear). A stack
 * is walked matrix by matrix; where B is one matrix for the whole stack, the
 * stack of A is one tall matrix, and each product and derivative is one call.
 * A broadcast factor's gradient adds up over the stack, in order.
 */
#include "ops/general.h"

#include <string.h>

struct product {
	enum dtype dtype;
	size_t size; /* of an element */
	int64_t m, n, k;
	bool transpose_b;
	struct shape stack; /* of the results */
	int64_t count;      /* of matrices in it */
	/* elements from a matrix to the next along each axis of the stack; 0: the same one */
	int64_t step_a[MAX_DIMS], step_b[MAX_DIMS];
};

static void find_steps(int64_t step[MAX_DIMS], const struct shape *shape, const struct shape *stack, int64_t matrix)
{
	for (int i = 0; i < stack->ndim; i++) {
		int own = shape->ndim - 3 - i;
		int64_t extent = own >= 0 ? shape->dim[own] : 1;
		step[stack->ndim - 1 - i] = extent == 1 ? 0 : matrix;
		matrix *= extent;
	}
}

/* Whether B is one matrix: then A's stack is part of its rows. */
static bool is_single(const struct shape *shape)
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
	if (!is_single(&a->shape))
		return 0;
	int64_t rows = 1;
	for (int i = 1; i < v->shape.ndim - 1; i++)
		rows *= v->shape.dim[i];
	return rows;
}

static struct product product_of(const struct op_call *call)
{
	const bool swapped = call->op == OP_dot;
	const struct shape *a = swapped ? &call->a->shape : &call->v->shape;
	const struct shape *b = swapped ? &call->v->shape : &call->a->shape;
	struct product p = {.dtype = call->v->dtype, .size = call->v->dtype == DTYPE_F64 ? 8 : 4, .count = 1};
	p.transpose_b = call->op == OP_linear && b->ndim > 1;
	p.m = a->ndim > 1 ? a->dim[a->ndim - 2] : 1;
	p.k = a->dim[a->ndim - 1];
	p.n = b->ndim == 1 ? 1 : b->dim[b->ndim - (p.transpose_b ? 2 : 1)];
	if (is_single(b)) {
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

/* Where matrix INDEX of the stack has its factor; *FIRST: no matrix before had the same. */
static int64_t factor_at(const struct product *p, const int64_t step[MAX_DIMS], int64_t index, bool *first)
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

static const void *element(const struct product *p, const void *base, int64_t index)
{
	return (const char *)base + (size_t)index * p->size;
}

/*
 * A product C[m,n] = op(A) op(B) (+ C) in pieces of C's rows or columns, which
 * members of a team share. The pieces follow from the extents alone, so that a
 * library whose bits depend on those of a call gives the same for every team.
 */
struct pieces {
	enum dtype dtype;
	size_t size;
	bool transpose_a, transpose_b, accumulate;
	int64_t m, n, k, lda, ldb;
	const char *a, *b;
	char *c;
};

static void multiply_rows(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct pieces *p = context;
	(void)memory;
	gemm(p->dtype, p->transpose_a, p->transpose_b, end - begin, p->n, p->k,
	     p->a + (size_t)(p->transpose_a ? begin : begin * p->lda) * p->size, p->lda, p->b, p->ldb, p->accumulate,
	     p->c + (size_t)(begin * p->n) * p->size, p->n);
}

/* B is not transposed. */
static void multiply_columns(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct pieces *p = context;
	(void)memory;
	gemm(p->dtype, p->transpose_a, false, p->m, end - begin, p->k, p->a, p->lda, p->b + (size_t)begin * p->size, p->ldb,
	     p->accumulate, p->c + (size_t)begin * p->size, p->n);
}

static void multiply(struct team *team, struct pieces pieces)
{
	enum { ROWS = 512, LEAST = 96 };
	/* A weight's gradient has few rows and columns, each element a sum over many. */
	const bool summed = pieces.transpose_a && pieces.k >= 2 * ROWS;
	if (summed && pieces.n >= 2 * LEAST && pieces.n > pieces.m)
		team_run(team, pieces.n, LEAST, multiply_columns, &pieces);
	else
		team_run(team, pieces.m, summed ? LEAST : pieces.m >= 2 * ROWS ? ROWS : pieces.m + 1, multiply_rows, &pieces);
}

static void forward_product(const struct op_call *call, void *y, const void *v, const void *w)
{
	const struct product p = product_of(call);
	const void *a = call->op == OP_dot ? w : v, *b = call->op == OP_dot ? v : w;
	bool first;
	for (int64_t i = 0; i < p.count; i++) {
		const struct pieces pieces = {.dtype = p.dtype,
		                              .size = p.size,
		                              .transpose_b = p.transpose_b,
		                              .m = p.m,
		                              .n = p.n,
		                              .k = p.k,
		                              .lda = p.k,
		                              .ldb = p.transpose_b ? p.k : p.n,
		                              .a = element(&p, a, factor_at(&p, p.step_a, i, &first)),
		                              .b = element(&p, b, factor_at(&p, p.step_b, i, &first)),
		                              .c = (char *)y + (size_t)(i * p.m * p.n) * p.size};
		multiply(call->team, pieces);
	}
}

/* dA = G op(B)' */
static void left_gradient(struct team *team, const struct product *p, void *da, const void *g, const void *b)
{
	bool first, any;
	for (int64_t i = 0; i < p->count; i++) {
		const int64_t at = factor_at(p, p->step_a, i, &first);
		const struct pieces pieces = {.dtype = p->dtype,
		                              .size = p->size,
		                              .transpose_b = !p->transpose_b,
		                              .accumulate = !first,
		                              .m = p->m,
		                              .n = p->k,
		                              .k = p->n,
		                              .lda = p->n,
		                              .ldb = p->transpose_b ? p->k : p->n,
		                              .a = element(p, g, i * p->m * p->n),
		                              .b = element(p, b, factor_at(p, p->step_b, i, &any)),
		                              .c = (char *)da + (size_t)at * p->size};
		multiply(team, pieces);
	}
}

/* dB = A' G, or G' A where B is transposed */
static void right_gradient(struct team *team, const struct product *p, void *db, const void *g, const void *a)
{
	bool first, any;
	for (int64_t i = 0; i < p->count; i++) {
		const int64_t at = factor_at(p, p->step_b, i, &first);
		const void *left = element(p, a, factor_at(p, p->step_a, i, &any)), *cotangent = element(p, g, i * p->m * p->n);
		const bool turned = p->transpose_b;
		const struct pieces pieces = {.dtype = p->dtype,
		                              .size = p->size,
		                              .transpose_a = true,
		                              .accumulate = !first,
		                              .m = turned ? p->n : p->k,
		                              .n = turned ? p->k : p->n,
		                              .k = p->m,
		                              .lda = turned ? p->n : p->k,
		                              .ldb = turned ? p->k : p->n,
		                              .a = turned ? cotangent : left,
		                              .b = turned ? left : cotangent,
		                              .c = (char *)db + (size_t)at * p->size};
		multiply(team, pieces);
	}
}

static void vjp_product(const struct op_call *call, void *dv, void *dw, const void *g,
                        const void *const needs[MAX_NEEDS])
{
	const struct product p = product_of(call);
	const void *v = needs[0], *w = needs[1];
	/* an empty stack leaves zeros */
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
	void forward_##NAME(const struct op_call *call, void *y, const void *v, const void *a,                             \
	                    void *const keep[MAX_KEEPS])                                                                   \
	{                                                                                                                  \
		(void)keep;                                                                                                    \
		forward_product(call, y, v, a);                                                                                \
	}                                                                                                                  \
	void vjp_##NAME(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS]) \
	{                                                                                                                  \
		vjp_product(call, dv, da, g, needs);                                                                           \
	}
PRODUCT(matmul)
PRODUCT(linear)
PRODUCT(dot)
