/*
 * Operations that repeat elements: broadcast_to, tile and repeat_each. Each is a broadcast of V in another shape, which has an
 * axis of extent 1 for each axis of the result that repeats. The derivative is the sum over these axes. diag is beside them.
 * Tests: tests/unit/test_general.c, tests/cases/order.test
 */
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

/* Stores in FROM and TO the types of V and of the result with an axis for each repetition. */
static void split_axes(const struct op_call *call, struct type *from, struct type *to)
{
	const struct shape *v = &call->v->shape, *y = &call->y->shape;
	*from = *call->v;
	*to = *call->y;
	if (call->op == OP_broadcast_to)
		return;
	from->shape.ndim = to->shape.ndim = 0;
	for (int i = 0; i < y->ndim; i++) {
		const int own = i - (y->ndim - v->ndim);
		const int64_t extent = own >= 0 ? v->dim[own] : 1, times = extent ? y->dim[i] / extent : 1;
		const bool each = call->op == OP_repeat_each;
		const int64_t before = each ? 1 : times, behind = each ? times : 1;
		for (int k = 0; k < 3; k++)
			if ((k == 0 ? before : k == 1 ? extent : behind) != 1) {
				from->shape.dim[from->shape.ndim++] = k == 1 ? extent : 1;
				to->shape.dim[to->shape.ndim++] = k == 0 ? before : k == 1 ? extent : behind;
			}
	}
}

static void repeat_elements(const struct op_call *call, void *y, const void *v)
{
	struct type from, to;
	split_axes(call, &from, &to);
	broadcast_fill(call->kernels, y, &(struct broadcast){v, &from, &to}, 0, shape_count(&to.shape));
}

static void sum_repeated(const struct op_call *call, void *dv, const void *g)
{
	struct type from, to;
	split_axes(call, &from, &to);
	sum_to_shape(call->kernels, dv, &from, g, &to, call->scratch);
}

FORWARD(broadcast_to) { repeat_elements(call, y, v); }
VJP(broadcast_to) { sum_repeated(call, dv, g); }
FORWARD(tile) { repeat_elements(call, y, v); }
VJP(tile) { sum_repeated(call, dv, g); }
FORWARD(repeat_each) { repeat_elements(call, y, v); }
VJP(repeat_each) { sum_repeated(call, dv, g); }

/* Copies the diagonal of each matrix of WHOLE to a line of DIAGONAL or, if PUT, from there into zeros. */
static void copy_diagonal(const struct op_call *call, void *whole, void *diagonal, bool put)
{
	const bool makes = call->v->shape.ndim == 1; /* the result is the matrix */
	const struct type *type = makes ? call->y : call->v;
	const struct shape *shape = &type->shape;
	const int64_t m = shape->dim[shape->ndim - 2], n = shape->dim[shape->ndim - 1], length = lesser(m, n);
	const int64_t matrices = m && n ? shape_count(shape) / m / n : 0;
	if (put)
		memset(whole, 0, (size_t)type_bytes(type));
	for (int64_t k = 0; k < matrices; k++)
		for (int64_t i = 0; i < length; i++) {
			const size_t in = (size_t)(k * m * n + i * (n + 1)), out = (size_t)(k * length + i);
			if (put)
				element_set(type->dtype, whole, in, element_get(type->dtype, diagonal, out));
			else
				element_set(type->dtype, diagonal, out, element_get(type->dtype, whole, in));
		}
}

FORWARD(diag)
{
	if (call->v->shape.ndim == 1)
		copy_diagonal(call, y, writable(v), true);
	else
		copy_diagonal(call, writable(v), y, false);
}
VJP(diag)
{
	if (call->v->shape.ndim == 1)
		copy_diagonal(call, writable(g), dv, false);
	else
		copy_diagonal(call, dv, writable(g), true);
}
