/*
 * matmul, linear and dot: products Z = A op(B) of stacks of matrices, as NumPy's
 * matmul. A is the left factor as it lies, B may be transposed (linear). A stack
 * is walked matrix by matrix; where B is one matrix for the whole stack, the
 * stack of A is one tall matrix, and each product and derivative is one call.
 * A broadcast factor's gradient adds up over the stack, in order.
 */
#include "ops/general.h"

#include <string.h>

struct stack {
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

static const void *element(const struct stack *p, const void *base, int64_t index)
{
	return (const char *)base + (size_t)index * p->size;
}

/*
 * A product in pieces of C's rows or columns, which members of a team share. The
 * pieces follow from the extents alone: OpenBLAS may round by the extents of a
 * call, and so gives the same bits for every team.
 */
struct shared_product {
	enum dtype dtype;
	size_t size;
	struct product all;
};

static void multiply_rows(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared_product *p = context;
	struct product part = p->all;
	(void)memory;
	part.m = end - begin;
	part.a.data = (const char *)part.a.data + (size_t)(part.a.transposed ? begin : begin * part.a.ld) * p->size;
	part.c = (char *)part.c + (size_t)(begin * part.ldc) * p->size;
	gemm(p->dtype, &part);
}

/* B is not transposed. */
static void multiply_columns(void *context, void *memory, int64_t begin, int64_t end)
{
	const struct shared_product *p = context;
	struct product part = p->all;
	(void)memory;
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
	/* A weight's gradient has few rows and columns; each element is a sum over many. */
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
		                                 .a = {element(&p, a, factor_at(&p, p.step_a, i, &first)), p.k, false},
		                                 .b = {element(&p, b, factor_at(&p, p.step_b, i, &first)),
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
		                                 .a = {element(p, g, i * p->m * p->n), p->n, false},
		                                 .b = {element(p, b, factor_at(p, p->step_b, i, &any)),
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
		const struct factor left = {element(p, a, factor_at(p, p->step_a, i, &any)), p->k, true};
		const struct factor cotangent = {element(p, g, i * p->m * p->n), p->n, true};
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

static void vjp_product(const struct op_call *call, void *dv, void *dw, const void *g,
                        const void *const needs[MAX_NEEDS])
{
	const struct stack p = stack_of(call);
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
