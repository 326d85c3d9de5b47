/*
 * General operations other than products: each is written once, for both
 * computing types, in general_template.h; here it is included for each and chosen
 * by the call's type.
 */
#include "ops/general.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The extents before, along and after an axis. */
struct span3 {
	int64_t outer, length, inner;
};

static struct span3 split_at(const struct shape *shape, int axis)
{
	struct span3 s = {1, 1, 1};
	for (int i = 0; i < shape->ndim; i++)
		*(i < axis ? &s.outer : i == axis ? &s.length : &s.inner) *= shape->dim[i];
	return s;
}

static struct span3 split_by(const struct op_call *call, const struct shape *shape)
{
	int axis = 0;
	(void)axis_resolve(call->attrs->axis[0], shape->ndim, &axis);
	return split_at(shape, axis);
}

static bool reduces(const struct op_call *call, int axis)
{
	const struct attrs *attrs = call->attrs;
	for (int i = 0; attrs->has_axis && i < attrs->axis_count; i++) {
		int k;
		if (axis_resolve(attrs->axis[i], call->v->shape.ndim, &k) && k == axis)
			return true;
	}
	return !attrs->has_axis;
}

/*
 * A reduction visits, for each element of the result, a grid of elements of the
 * input: the kept axes choose the grid's corner, the reduced ones span it.
 */
struct grid {
	int kept, reduced;
	int64_t kept_dim[MAX_DIMS], kept_stride[MAX_DIMS];
	int64_t reduced_dim[MAX_DIMS], reduced_stride[MAX_DIMS];
	int64_t results, terms;
};

static void make_grid(struct grid *grid, const struct op_call *call)
{
	const struct shape *shape = &call->v->shape;
	int64_t stride = 1, strides[MAX_DIMS];
	*grid = (struct grid){.results = 1, .terms = 1};
	for (int i = shape->ndim - 1; i >= 0; i--) {
		strides[i] = stride;
		stride *= shape->dim[i];
	}
	for (int i = 0; i < shape->ndim; i++) {
		if (reduces(call, i)) {
			grid->reduced_dim[grid->reduced] = shape->dim[i];
			grid->reduced_stride[grid->reduced++] = strides[i];
			grid->terms *= shape->dim[i];
		} else {
			grid->kept_dim[grid->kept] = shape->dim[i];
			grid->kept_stride[grid->kept++] = strides[i];
			grid->results *= shape->dim[i];
		}
	}
}

/* Steps INDEX through a grid of NDIM extents; the offset moves with it. */
static void step(int ndim, const int64_t *dim, const int64_t *stride, int64_t *index, int64_t *offset)
{
	for (int i = ndim - 1; i >= 0; i--) {
		*offset += stride[i];
		if (++index[i] < dim[i])
			return;
		*offset -= stride[i] * dim[i];
		index[i] = 0;
	}
}

/* An element of the result of a broadcast, as an offset into A. */
static void broadcast_strides(const struct shape *a, const struct shape *to, int64_t stride[MAX_DIMS])
{
	int64_t s = 1;
	for (int i = to->ndim - 1; i >= 0; i--) {
		int k = i - (to->ndim - a->ndim);
		int64_t extent = k >= 0 ? a->dim[k] : 1;
		stride[i] = extent == 1 ? 0 : s;
		s *= extent;
	}
}

/* Philox4x32-10 (Salmon et al. 2011): four words from a counter and a key. */
static void philox(uint64_t counter, uint64_t key, uint32_t out[4])
{
	uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
		uint32_t n[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1, (uint32_t)p0};
		memcpy(c, n, sizeof c);
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	memcpy(out, c, 4 * sizeof *out);
}

/* Losses: elements of the broadcast of v and t. */
static int64_t loss_shape(const struct op_call *call, struct shape *shape)
{
	(void)shape_broadcast(&call->v->shape, &call->a->shape, shape);
	return shape_count(shape);
}

/* Elements over which a loss or mean over all tiles is taken. */
static int64_t whole_count(const struct op_call *call, int64_t count)
{
	int64_t rows = call->v->shape.ndim ? call->v->shape.dim[0] : 1;
	return rows > 0 && call->whole > 0 ? count / rows * call->whole : count;
}

#define T float
#define X(NAME) NAME##_f32
#include "ops/general_template.h"
#undef T
#undef X
#define T double
#define X(NAME) NAME##_f64
#define WIDE
#include "ops/general_template.h"
#undef T
#undef X

#define DISPATCH(NAME)                                                                                                 \
	void forward_##NAME(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS]) \
	{                                                                                                                  \
		if (call->v->dtype == DTYPE_F32)                                                                               \
			forward_##NAME##_f32(call, y, v, a, keep);                                                                 \
		else                                                                                                           \
			forward_##NAME##_f64(call, y, v, a, keep);                                                                 \
	}                                                                                                                  \
	void vjp_##NAME(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS]) \
	{                                                                                                                  \
		if (call->v->dtype == DTYPE_F32)                                                                               \
			vjp_##NAME##_f32(call, dv, da, g, needs);                                                                  \
		else                                                                                                           \
			vjp_##NAME##_f64(call, dv, da, g, needs);                                                                  \
	}

DISPATCH(transpose)
DISPATCH(sum)
DISPATCH(mean)
DISPATCH(amax)
DISPATCH(amin)
DISPATCH(prod)
DISPATCH(logsumexp)
DISPATCH(norm)
DISPATCH(softmax)
DISPATCH(log_softmax)
DISPATCH(layernorm)
DISPATCH(rmsnorm)
DISPATCH(cumsum)
DISPATCH(reshape)
DISPATCH(flatten)
DISPATCH(slice)
DISPATCH(pad)
DISPATCH(concat)
DISPATCH(roll)
DISPATCH(laplacian)
DISPATCH(conv1d)
DISPATCH(conv2d)
DISPATCH(dropout)
DISPATCH(mse)
DISPATCH(mae)
DISPATCH(huber)
DISPATCH(cross_entropy)

/* cast: between the computing types, and rounded to what is narrower. */
void forward_cast(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	size_t n = (size_t)shape_count(&call->v->shape);
	(void)a;
	(void)keep;
	const struct kernels *from = kernels_get(call->v->dtype);
	enum dtype to = call->attrs->dtype;
	if (dtype_compute(to) == DTYPE_F64)
		from->to_f64(y, v, n);
	else
		from->to_f32(y, v, n);
	if (to == DTYPE_F16)
		kernels_get(DTYPE_F32)->round_f16(y, y, n);
	else if (to == DTYPE_BF16)
		kernels_get(DTYPE_F32)->round_bf16(y, y, n);
}

void vjp_cast(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	size_t n = (size_t)shape_count(&call->v->shape);
	(void)da;
	(void)needs;
	const struct kernels *from = kernels_get(dtype_compute(call->attrs->dtype));
	if (dv && call->v->dtype == DTYPE_F64)
		from->to_f64(dv, g, n);
	else if (dv)
		from->to_f32(dv, g, n);
}

static op_forward *const forwards[OP_COUNT] = {
#define UNARY(NAME, ...)
#define BINARY(NAME, ...)
#define GENERAL(NAME, ...) [OP_##NAME] = forward_##NAME,
#include "ops/ops.def"
};
static op_vjp *const vjps[OP_COUNT] = {
#define UNARY(NAME, ...)
#define BINARY(NAME, ...)
#define GENERAL(NAME, ...) [OP_##NAME] = vjp_##NAME,
#include "ops/ops.def"
};

op_forward *op_forward_get(enum op op)
{
	return forwards[op];
}

op_vjp *op_vjp_get(enum op op)
{
	return vjps[op];
}

int64_t op_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                   const struct type *result, bool backward)
{
	int64_t size = v->dtype == DTYPE_F32 ? 4 : 8;
	(void)attrs;
	(void)backward;
	switch (op) {
	case OP_conv1d:
	case OP_conv2d: { /* one sample's columns */
		int64_t taps = shape_count(&a->shape) / (a->shape.dim[0] ? a->shape.dim[0] : 1), places = 1;
		for (int i = 2; i < result->shape.ndim; i++)
			places *= result->shape.dim[i];
		return taps * places * size;
	}
	case OP_softmax:
	case OP_log_softmax:
	case OP_logsumexp:
	case OP_cross_entropy:
		return 2 * 4096 * 8 + 128;
	case OP_mse:
	case OP_mae:
	case OP_huber: { /* differences, and the operand's gradient before it is summed */
		struct shape shape;
		(void)shape_broadcast(&v->shape, &a->shape, &shape);
		return 3 * shape_count(&shape) * size + 64;
	}
	default:
		return 0;
	}
}

/* Sums over tiles. */

void sum_partial(const struct op_call *call, double *hi, double *lo, const void *v, const void *a,
                 void *const keep[MAX_KEEPS])
{
	if (call->v->dtype == DTYPE_F32)
		sum_partial_f32(call, hi, lo, v, a, keep);
	else
		sum_partial_f64(call, hi, lo, v, a, keep);
}

void sum_finish(const struct op_call *call, void *y, const double *hi, const double *lo, int64_t count)
{
	double divisor = 1;
	int64_t elements = shape_count(&call->v->shape), results = count > 0 ? count : 1;
	if (call->op == OP_mean) {
		divisor = (double)(whole_count(call, elements) / results);
	} else if (call->op == OP_cross_entropy) {
		divisor = (double)whole_count(call, shape_count(&call->a->shape));
	} else if (call->op != OP_sum) {
		struct shape shape;
		divisor = (double)whole_count(call, loss_shape(call, &shape));
	}
	for (int64_t i = 0; i < count; i++) {
		double sum = lo && isfinite(hi[i]) ? hi[i] + lo[i] : hi[i];
		if (call->op != OP_sum)
			sum /= divisor;
		if (call->y->dtype == DTYPE_F32)
			((float *)y)[i] = (float)sum;
		else
			((double *)y)[i] = sum;
	}
}

/* Broadcasting. */

void sum_to_shape(const struct kernels *kernels, void *to, const struct type *to_type, const void *from,
                  const struct type *from_type, void *scratch)
{
	(void)scratch;
	if (from_type->dtype == DTYPE_F32)
		sum_to_f32(kernels, to, &to_type->shape, from, &from_type->shape);
	else
		sum_to_f64(kernels, to, &to_type->shape, from, &from_type->shape);
}

void broadcast_fill(const struct kernels *kernels, void *to, const void *a, const struct type *a_type,
                    const struct type *result, int64_t first, int64_t n)
{
	if (a_type->dtype == DTYPE_F32)
		fill_f32(kernels, to, a, &a_type->shape, &result->shape, first, n);
	else
		fill_f64(kernels, to, a, &a_type->shape, &result->shape, first, n);
}
