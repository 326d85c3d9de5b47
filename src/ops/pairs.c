/*
 * cmul, the product of complex numbers, each two elements along the last axis. With a conjugate it is the derivative: dv = g conj(a),
 * da = g conj(v).
 * Tests: tests/unit/test_general.c, tests/cases/fft.test
 */
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

enum { PAIRS_BLOCK = 2048 }; /* elements that a factor is broadcast to at a time */

static bool is_whole(const struct type *type, const struct type *y) { return shape_equal(&type->shape, &y->shape); }

/* Stores in TO, of Y's shape, the products of X and W, broadcast to it, or of X and W's conjugate. */
static void multiply_spread(const struct op_call *call, void *to, struct broadcast x, struct broadcast w,
                            bool conjugate)
{
	const struct loops *const loops = call->kernels->loops;
	const size_t size = element_size(call->y->dtype);
	const int64_t elements = shape_count(&call->y->shape);
	void *const blocks[2] = {call->scratch, element_of(call->scratch, size, PAIRS_BLOCK)};
	for (int64_t first = 0; first < elements; first += PAIRS_BLOCK) {
		const int64_t n = lesser(PAIRS_BLOCK, elements - first);
		const struct broadcast *const factors[2] = {&x, &w};
		const void *at[2];
		for (int i = 0; i < 2; i++) {
			const bool whole = is_whole(factors[i]->from, call->y);
			at[i] = whole ? element_at(factors[i]->data, size, first) : blocks[i];
			if (!whole)
				broadcast_fill(call->kernels, blocks[i], factors[i], first, n);
		}
		loops->multiply_pairs(element_of(to, size, first), at[0], at[1], conjugate, 1, (size_t)n / 2);
	}
}

int64_t pairs_scratch(const struct type *v, const struct type *a, const struct type *y, bool derivative)
{
	const int64_t blocks = 2 * PAIRS_BLOCK * (int64_t)sizeof(double), bytes = type_bytes(y);
	if (!derivative || (is_whole(v, y) && is_whole(a, y)))
		return blocks;
	return saturated_add(blocks, saturated_add(round_up(bytes, ARRAY_ALIGN), bytes));
}

/* Stores in TO, a cotangent of type TYPE, G times the conjugate of the other factor W. */
static void multiply_back(const struct op_call *call, void *to, const struct type *type, const void *g,
                          struct broadcast w)
{
	const struct broadcast cotangent = {g, call->y, call->y};
	if (is_whole(type, call->y)) {
		multiply_spread(call, to, cotangent, w, true);
		return;
	}
	void *const products = (char *)call->scratch + 2 * PAIRS_BLOCK * sizeof(double);
	multiply_spread(call, products, cotangent, w, true);
	sum_to_shape(call->kernels, to, type, products, call->y,
	             (char *)products + round_up(type_bytes(call->y), ARRAY_ALIGN));
}

FORWARD(cmul)
{
	multiply_spread(call, y, (struct broadcast){v, call->v, call->y}, (struct broadcast){a, call->a, call->y}, false);
}
VJP(cmul)
{
	if (dv)
		multiply_back(call, dv, call->v, g, (struct broadcast){needs[1], call->a, call->y});
	if (da)
		multiply_back(call, da, call->a, g, (struct broadcast){needs[0], call->v, call->y});
}
