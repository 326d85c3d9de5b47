/*
 * matmul, linear and dot: products of the last two axes, batches broadcast. All
 * three are one function of operands named left and right; a derivative is two
 * more products, summed over the batch axes that were broadcast.
 */
#include <string.h>

#include "ops/general.h"

/* One side: its matrix, and how batches step over it. */
struct side {
	int64_t rows, columns;     /* as the product sees it */
	bool transposed;           /* stored the other way round */
	int64_t lead;              /* elements from one stored row to the next */
	int64_t stride[MAX_DIMS];  /* elements from one batch to the next, by the result's batch axes */
};

struct product {
	struct side left, right;
	int batch_ndim;
	int64_t batch[MAX_DIMS], batches;
	int64_t m, n, k;
	enum dtype dtype;
	size_t size;
};

static void make_side(struct side *side, const struct shape *shape, bool left, bool transposed)
{
	int ndim = shape->ndim;
	int64_t last = shape->dim[ndim - 1], before = ndim > 1 ? shape->dim[ndim - 2] : 1;
	side->transposed = transposed && ndim > 1;
	side->lead = last;
	if (ndim == 1) {
		side->rows = left ? 1 : last;
		side->columns = left ? last : 1;
		side->lead = left ? last : 1;
	} else {
		side->rows = side->transposed ? last : before;
		side->columns = side->transposed ? before : last;
	}
}

static void make_strides(struct side *side, const struct shape *shape, const struct product *p)
{
	int batches = shape->ndim > 2 ? shape->ndim - 2 : 0;
	int64_t step = shape->ndim > 1 ? shape->dim[shape->ndim - 1] * shape->dim[shape->ndim - 2] : 0;
	for (int i = 0; i < p->batch_ndim; i++)
		side->stride[i] = 0;
	for (int i = batches - 1; i >= 0; i--) {
		int axis = p->batch_ndim - (batches - i);
		side->stride[axis] = shape->dim[i] == 1 ? 0 : step;
		step *= shape->dim[i];
	}
}

static void make_product(struct product *p, const struct op_call *call)
{
	bool dot = call->op == OP_dot;
	const struct shape *left = dot ? &call->a->shape : &call->v->shape, *right = dot ? &call->v->shape : &call->a->shape;
	int bl = left->ndim > 2 ? left->ndim - 2 : 0, br = right->ndim > 2 ? right->ndim - 2 : 0;
	memset(p, 0, sizeof *p);
	make_side(&p->left, left, true, false);
	make_side(&p->right, right, false, call->op == OP_linear);
	p->batch_ndim = bl > br ? bl : br;
	p->batches = 1;
	for (int i = 0; i < p->batch_ndim; i++) {
		int il = i - (p->batch_ndim - bl), ir = i - (p->batch_ndim - br);
		int64_t dl = il >= 0 ? left->dim[il] : 1, dr = ir >= 0 ? right->dim[ir] : 1;
		p->batch[i] = dl == 1 ? dr : dl;
		p->batches *= p->batch[i];
	}
	make_strides(&p->left, left, p);
	make_strides(&p->right, right, p);
	p->m = p->left.rows;
	p->k = p->left.columns;
	p->n = p->right.columns;
	p->dtype = call->y->dtype;
	p->size = p->dtype == DTYPE_F32 ? 4 : 8;
	/* Rows of all batches against one right matrix are one product. */
	bool one = true;
	for (int i = 0; i < p->batch_ndim; i++)
		one &= p->right.stride[i] == 0;
	if (one && bl == p->batch_ndim && left->ndim > 1 && !p->left.transposed) {
		p->m *= p->batches;
		p->batch_ndim = 0;
		p->batches = 1;
	}
}

static int64_t batch_offset(const struct product *p, const struct side *side, int64_t batch)
{
	int64_t offset = 0;
	for (int i = p->batch_ndim - 1; i >= 0; i--) {
		offset += batch % p->batch[i] * side->stride[i];
		batch /= p->batch[i];
	}
	return offset;
}

static void multiply(const struct op_call *call, void *y, const void *left, const void *right)
{
	struct product p;
	make_product(&p, call);
	for (int64_t b = 0; b < p.batches; b++)
		gemm(p.dtype, p.left.transposed, p.right.transposed, p.m, p.n, p.k,
		     (const char *)left + (size_t)batch_offset(&p, &p.left, b) * p.size, p.left.lead,
		     (const char *)right + (size_t)batch_offset(&p, &p.right, b) * p.size, p.right.lead, false,
		     (char *)y + (size_t)(b * p.m * p.n) * p.size, p.n);
}

/* Whether batch B is the first that meets its part of SIDE: it overwrites, the others add. */
static bool first_of(const struct product *p, const struct side *side, int64_t b)
{
	for (int i = p->batch_ndim - 1; i >= 0; i--) {
		if (side->stride[i] == 0 && b % p->batch[i] != 0)
			return false;
		b /= p->batch[i];
	}
	return true;
}

static void multiply_back(const struct op_call *call, void *dleft, void *dright, const void *g, const void *left,
                          const void *right)
{
	struct product p;
	make_product(&p, call);
	for (int64_t b = 0; b < p.batches; b++) {
		const char *gb = (const char *)g + (size_t)(b * p.m * p.n) * p.size;
		size_t lo = (size_t)batch_offset(&p, &p.left, b) * p.size, ro = (size_t)batch_offset(&p, &p.right, b) * p.size;
		if (dleft) /* dL = G R^T */
			gemm(p.dtype, false, !p.right.transposed, p.m, p.k, p.n, gb, p.n, (const char *)right + ro, p.right.lead,
			     !first_of(&p, &p.left, b), (char *)dleft + lo, p.left.lead);
		if (dright && !p.right.transposed) /* dR = L^T G */
			gemm(p.dtype, true, false, p.k, p.n, p.m, (const char *)left + lo, p.left.lead, gb, p.n,
			     !first_of(&p, &p.right, b), (char *)dright + ro, p.right.lead);
		else if (dright) /* stored the other way round: dR^T = G^T L */
			gemm(p.dtype, true, false, p.n, p.k, p.m, gb, p.n, (const char *)left + lo, p.left.lead,
			     !first_of(&p, &p.right, b), (char *)dright + ro, p.right.lead);
	}
	if (p.batches == 0) { /* sums over nothing */
		if (dleft)
			memset(dleft, 0, (size_t)type_bytes(call->op == OP_dot ? call->a : call->v));
		if (dright)
			memset(dright, 0, (size_t)type_bytes(call->op == OP_dot ? call->v : call->a));
	}
}

#define UNUSED_KEEP (void)keep
void forward_matmul(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	UNUSED_KEEP;
	multiply(call, y, v, a);
}
void forward_linear(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	UNUSED_KEEP;
	multiply(call, y, v, a);
}
void forward_dot(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	UNUSED_KEEP;
	multiply(call, y, a, v);
}
void vjp_matmul(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	multiply_back(call, dv, da, g, needs[0], needs[1]);
}
void vjp_linear(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	multiply_back(call, dv, da, g, needs[0], needs[1]);
}
void vjp_dot(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	multiply_back(call, da, dv, g, needs[1], needs[0]);
}
