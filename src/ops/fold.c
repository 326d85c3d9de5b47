/*
 * Operations over the leading axis that are computed in blocks: each block leaves a
 * state, and the states are added in order. The state of a sum has two doubles, the
 * sum and its rounding error (Neumaier 1974). norm and logsumexp have a third: the
 * scale of the squares, or the shift of the exponents. See Milakov and Gimelshein
 * (2018), "Online normalizer calculation for softmax".
 */
#include "ops/general.h"

#include <math.h>
#include <string.h>

#include "base/sum.h"
#include "ops/lines.h"

int fold_parts(enum op op) { return op == OP_amax || op == OP_amin ? 1 : op == OP_norm || op == OP_logsumexp ? 3 : 2; }

void fold_begin(enum op op, double *state, int64_t count)
{
	const double first = op == OP_amax ? -INFINITY : op == OP_amin ? INFINITY : 0;
	for (int64_t i = 0; i < fold_parts(op) * count; i++)
		state[i] = first;
}

void fold_partial(const struct op_call *call, double *state, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	const int64_t count = shape_count(&call->y->shape);
	if (op_table[call->op].scope == SCOPE_FOLD)
		fold_partial_lines(call, (double *[FOLD_PARTS]){state, state + count, state + 2 * count}, v);
	else if (call->op == OP_sum || call->op == OP_mean)
		sum_partial_axes(call, state, state + count, v);
	else
		sum_partial_loss(call, state, state + count, v, a, keep ? keep[0] : NULL);
}

/* (HI + LO) times the square of SCALE (norm), or times exp(SCALE) (logsumexp). */
struct scaled_sum {
	double hi, lo, scale;
};

/* Adds a block's sum to the sum of the blocks before it, both expressed in the larger scale. */
static struct scaled_sum add_scaled(enum op op, struct scaled_sum sum, struct scaled_sum block)
{
	if (block.hi == 0)
		return sum;
	if (sum.hi == 0 || !isfinite(block.hi)) {
		block.hi = sum.hi == 0 ? block.hi : sum.hi + block.hi;
		return block;
	}
	if (!isfinite(sum.hi))
		return sum;
	const bool grows = block.scale > sum.scale;
	const double ratio = grows ? sum.scale / block.scale : block.scale / sum.scale;
	const double factor = op == OP_norm ? ratio * ratio : exp(-fabs(block.scale - sum.scale));
	struct scaled_sum *const smaller = grows ? &sum : &block;
	smaller->hi *= factor;
	smaller->lo *= factor;
	sum.scale = grows ? block.scale : sum.scale;
	sum_add(&sum.hi, &sum.lo, block.hi, block.lo);
	return sum;
}

void fold_add(enum op op, double *state, const double *from, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		if (fold_parts(op) == 1) { /* the larger or smaller one, or that which is NaN */
			const bool stays = isnan(state[i]) || (op == OP_amax ? from[i] <= state[i] : from[i] >= state[i]);
			state[i] = stays ? state[i] : from[i];
		} else if (fold_parts(op) == 2) {
			sum_add(&state[i], &state[count + i], from[i], from[count + i]);
		} else {
			const struct scaled_sum sum = {state[i], state[count + i], state[2 * count + i]};
			const struct scaled_sum made =
				add_scaled(op, sum, (struct scaled_sum){from[i], from[count + i], from[2 * count + i]});
			state[i] = made.hi;
			state[count + i] = made.lo;
			state[2 * count + i] = made.scale;
		}
	}
}

void fold_finish(const struct op_call *call, void *y, const double *state, int64_t count)
{
	const double *hi = state, *lo = state + count, *scale = state + 2 * count;
	const bool axes = call->op == OP_sum || call->op == OP_mean;
	const enum dtype dtype = call->y->dtype;
	if (fold_parts(call->op) == 1)
		elements_set(dtype, y, hi, (size_t)count);
	else if (fold_parts(call->op) == 2)
		sums_store(dtype, y, hi, lo, axes ? reduction_divisor(call) : loss_divisor(call), (size_t)count);
	else
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i, reduction_result(call->op, hi[i] + lo[i], scale[i]));
}
