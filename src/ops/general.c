/*
 * General operations by enum op: their functions, from ops.def, their scratch, and the
 * values that an operand may have.
 * Tests: tests/unit/test_general.c
 */
#include "ops/general.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "ops/linalg.h"
#include "ops/stencil.h"

static const struct {
	op_forward *forward;
	op_vjp *vjp;
} functions[OP_ROWS] = {
#define GENERAL(NAME, ...) [OP_##NAME] = {forward_##NAME, vjp_##NAME},
#include "ops/ops.def"
	[OP_COLLECT] = {forward_collect, vjp_collect},
	[OP_ATTENDED] = {NULL, vjp_attended},
	[OP_MASKED] = {NULL, vjp_masked},
	[OP_ON_DIAGONAL] = {NULL, vjp_on_diagonal},
	[OP_ON_UPPER] = {NULL, vjp_on_upper},
	[OP_CLASS_WEIGHT] = {forward_class_weight, NULL},
	[OP_SOLUTION] = {forward_reshape, NULL},
};

static bool has_no_elements(const struct type *type) { return shape_count(&type->shape) == 0; }

/* Computes nothing if the result has no elements: loops over its other extents could take for ever. */
static void forward_general(const struct op_call *call, void *y, const void *v, const void *a,
                            void *const keep[MAX_KEEPS])
{
	if (has_no_elements(call->y))
		return;
	if (call->block && call->v->shape.dim[0] > call->block)
		fold_blocks(call, y, v, a, keep);
	else
		functions[call->op].forward(call, y, v, a, keep);
}

/* Skips a derivative that has no elements. If the result has no elements, the derivatives are zeros. */
static void vjp_general(const struct op_call *call, void *dv, void *da, const void *g,
                        const void *const needs[MAX_NEEDS])
{
	const bool spreads = op_is_tridiagonal(call->op); /* its operands' derivatives have the result's shape */
	const struct type *const by = call->op == OP_MASKED ? call->c_type : spreads ? call->y : call->a;
	dv = dv && !has_no_elements(call->v) ? dv : NULL;
	da = da && !has_no_elements(by) ? da : NULL;
	if (!has_no_elements(call->y)) {
		if (dv && call->block && call->v->shape.dim[0] > call->block)
			fold_blocks_back(call, dv, g, needs);
		else if (dv || da)
			functions[call->op].vjp(call, dv, da, g, needs);
		return;
	}
	if (dv)
		memset(dv, 0, (size_t)type_bytes(call->v));
	if (da)
		memset(da, 0, (size_t)type_bytes(by));
}

op_forward *op_forward_get(enum op op) { return functions[op].forward ? forward_general : NULL; }
op_vjp *op_vjp_get(enum op op) { return functions[op].vjp ? vjp_general : NULL; }

static bool is_reduction(enum op op)
{
	return op_table[op].scope == SCOPE_FOLD || op == OP_sum || op == OP_mean || op == OP_prod;
}

static int64_t reduction_scratch(enum op op, const struct attrs *attrs, const struct type *v, bool backward)
{
	const struct reduction r = reduction_named(attrs, &v->shape);
	const int64_t bytes = type_bytes(v);
	if (op == OP_sum || op == OP_mean)
		return r.moved && !backward ? bytes : 0;
	if (r.moved)
		return backward ? saturated_add(bytes, bytes) : bytes;
	return lines_scratch(&r.view, element_size(v->dtype), backward ? 2 : 1);
}

op_gather *op_gather_get(enum op op, const struct attrs *attrs)
{
	switch (op) {
	case OP_laplacian:
		return gather_laplacian;
	case OP_stencil:
		return attrs->weights.count <= STENCIL_GATHERED ? gather_stencil : NULL;
	case OP_slice:
		return attrs->step == 1 ? gather_slice : NULL;
	case OP_pad:
		return gather_pad;
	case OP_roll:
		return gather_roll;
	default:
		return NULL;
	}
}

int64_t op_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                   const struct type *result, enum scratch_use use)
{
	const bool backward = use != SCRATCH_FORWARD;
	if (has_no_elements(result))
		return 0;
	if (is_reduction(op))
		return reduction_scratch(op, attrs, v, backward);
	switch (op) {
	case OP_softmax:
	case OP_log_softmax:
	case OP_layernorm:
	case OP_rmsnorm: {
		const struct reduction r = reduction_named(attrs, &v->shape);
		int64_t bytes;
		if (r.moved)
			return __builtin_mul_overflow(type_bytes(v), backward ? 3 : 2, &bytes) ? INT64_MAX : bytes;
		return lines_scratch(&r.view, element_size(v->dtype), backward ? 3 : 2);
	}
	case OP_sort:
	case OP_argsort:
	case OP_topk:
	case OP_argtopk:
	case OP_median:
	case OP_quantile:
		return order_scratch(attrs, v);
	case OP_broadcast_to:
	case OP_tile:
	case OP_repeat_each:
		return backward ? type_bytes(result) : 0;
	case OP_cumprod:
		return backward ? running_scratch(attrs, v) : 0;
	case OP_laplacian:
		return laplacian_zeros(attrs, &v->shape) * (int64_t)element_size(v->dtype);
	case OP_stencil:
		return stencil_scratch(attrs);
	case OP_solve:
		return solve_scratch(v, a, backward);
	case OP_tridiagonal:
	case OP_ON_DIAGONAL:
	case OP_ON_UPPER:
		return tridiagonal_scratch(v);
	case OP_cholesky:
	case OP_inv:
	case OP_logdet:
		return square_scratch(v, backward);
	case OP_conv1d:
	case OP_conv2d:
	case OP_conv_transpose1d:
	case OP_conv_transpose2d:
		return conv_scratch(op, attrs, v, a, result);
	case OP_attention:
	case OP_ATTENDED:
	case OP_MASKED:
		return attention_scratch(v, a, result);
	case OP_fft:
	case OP_ifft:
	case OP_rfft:
	case OP_irfft:
		return fft_scratch(op, attrs, v, result, backward, false);
	case OP_cmul:
		return pairs_scratch(v, a, result, backward);
	case OP_upsample:
		return upsample_scratch(attrs, v, result);
	case OP_mse:
	case OP_mae:
	case OP_huber:
		return backward ? loss_scratch(v, a, use == SCRATCH_BACK) : 0;
	default:
		return 0;
	}
}

int64_t op_team_scratch(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                        const struct type *result, enum scratch_use use)
{
	if (op_table[op].scope == SCOPE_SUM || has_no_elements(result))
		return 0; /* no team shares a sum, a mean or a loss */
	if (op == OP_upsample)
		return 0; /* what lies between two passes is shared */
	if (op_is_transform(op))
		return fft_scratch(op, attrs, v, result, use != SCRATCH_FORWARD, true);
	if (op == OP_cmul)
		return 0; /* no team shares it */
	/* If axes are moved, scratch is the copy that all members read, and its lines need no panels. */
	if ((is_reduction(op) || op_normalizes(op)) && reduction_named(attrs, &v->shape).moved)
		return 0;
	return op_scratch(op, attrs, v, a, result, use);
}

bool op_check_operand(enum op op, const struct attrs *attrs, const struct type *v, const struct type *a,
                      const void *adata, struct operand_wrong *wrong)
{
	/* an operand of V's shape has probabilities; a part of a loss leaves the check to the part that picks */
	if (!op_has_classes(op) || op == OP_CLASS_WEIGHT || v->shape.ndim < 1 || a->shape.ndim == v->shape.ndim)
		return true;
	const int64_t classes = v->shape.dim[op_class_axis(attrs, v->shape.ndim)], rows = shape_count(&a->shape);
	for (int64_t i = 0; i < rows; i++) {
		const double x = element_get(dtype_compute(a->dtype), adata, (size_t)i);
		if ((x >= 0 && x < (double)classes && x == floor(x)) || loss_ignores(attrs, x))
			continue;
		snprintf(wrong->message, sizeof wrong->message,
		         "element %lld of the classes is %.17g, and the classes are the integers 0 to %lld", (long long)i, x,
		         (long long)classes - 1);
		wrong->hint[0] = '\0';
		if (x < 0 && x == floor(x) && x >= -0x1p53)
			snprintf(wrong->hint, sizeof wrong->hint, "ignore=%lld leaves out the rows of that class", (long long)x);
		return false;
	}
	return true;
}
