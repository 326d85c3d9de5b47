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

static void forward_product(const struct op_call *call, void *y, const void *v, const void *w)
{
	const struct product p = product_of(call);
	const void *a = call->op == OP_dot ? w : v, *b = call->op == OP_dot ? v : w;
	bool first;
	for (int64_t i = 0; i < p.count; i++)
		gemm(p.dtype, false, p.transpose_b, p.m, p.n, p.k, element(&p, a, factor_at(&p, p.step_a, i, &first)), p.k,
		     element(&p, b, factor_at(&p, p.step_b, i, &first)), p.transpose_b ? p.k : p.n, false,
		     (char *)y + (size_t)(i * p.m * p.n) * p.size, p.n);
}

/* dA = G op(B)' */
static void left_gradient(const struct product *p, void *da, const void *g, const void *b)
{
	bool first, any;
	for (int64_t i = 0; i < p->count; i++) {
		const int64_t at = factor_at(p, p->step_a, i, &first);
		gemm(p->dtype, false, !p->transpose_b, p->m, p->k, p->n, element(p, g, i * p->m * p->n), p->n,
		     element(p, b, factor_at(p, p->step_b, i, &any)), p->transpose_b ? p->k : p->n, !first,
		     (char *)da + (size_t)at * p->size, p->k);
	}
}

/* dB = A' G, or G' A where B is transposed */
static void right_gradient(const struct product *p, void *db, const void *g, const void *a)
{
	bool first, any;
	for (int64_t i = 0; i < p->count; i++) {
		const int64_t at = factor_at(p, p->step_b, i, &first);
		void *to = (char *)db + (size_t)at * p->size;
		const void *left = element(p, a, factor_at(p, p->step_a, i, &any)), *cotangent = element(p, g, i * p->m * p->n);
		if (p->transpose_b)
			gemm(p->dtype, true, false, p->n, p->k, p->m, cotangent, p->n, left, p->k, !first, to, p->k);
		else
			gemm(p->dtype, true, false, p->k, p->n, p->m, left, p->k, cotangent, p->n, !first, to, p->n);
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
			left_gradient(&p, dw, g, v);
		if (dv)
			right_gradient(&p, dv, g, w);
	} else {
		if (dv)
			left_gradient(&p, dv, g, w);
		if (dw)
			right_gradient(&p, dw, g, v);
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
