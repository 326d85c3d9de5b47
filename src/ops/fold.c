/*
 * Operations over the leading axis that are made of blocks of it: each block leaves a
 * state, and these are put together in order. Sums and means of doubles have two parts
 * (Neumaier 1974); a norm has those of its squares, and what these have been divided
 * by; logsumexp those of the exponentials, and what has been taken from the exponents,
 * as in Milakov and Gimelshein (2018), "Online normalizer calculation for softmax".
 */
#include "ops/general.h"

#include <math.h>
#include <string.h>

#include "base/sum.h"
#include "ops/lines.h"

int fold_parts(enum op op)
{
	switch (op) {
	case OP_amax:
	case OP_amin:
		return 1;
	case OP_norm:
	case OP_logsumexp:
		return 3;
	default: /* sums */
		return 2;
	}
}

void fold_begin(enum op op, double *state, int64_t count)
{
	const double first = op == OP_amax ? -INFINITY : op == OP_amin ? INFINITY : 0;
	for (int64_t i = 0; i < fold_parts(op) * count; i++)
		state[i] = first;
}

void fold_partial(const struct op_call *call, double *state, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	const int64_t count = shape_count(&call->y->shape);
	switch (call->op) {
	case OP_sum:
	case OP_mean:
		sum_partial_axes(call, state, state + count, v);
		break;
	case OP_amax:
	case OP_amin:
	case OP_norm:
	case OP_logsumexp:
		fold_partial_lines(call, (double *[FOLD_PARTS]){state, state + count, state + 2 * count}, v);
		break;
	default:
		sum_partial_loss(call, state, state + count, v, a, keep ? keep[0] : NULL);
		break;
	}
}

/* A and B, or the one that is NaN. */
static double larger(double a, double b) { return isnan(a) || b <= a ? a : b; }
static double smaller(double a, double b) { return isnan(a) || b >= a ? a : b; }

/* Multiplies a sum in two parts, which rounds both: seldom, where a block has a larger scale than all before. */
static void rescale(double *hi, double *lo, double factor)
{
	*hi *= factor;
	*lo *= factor;
}

/*
 * Adds a block's sum to that of those before. A sum stands for itself times the square of
 * its scale (norm) or times exp(scale) (logsumexp); both together take the larger scale.
 */
static void add_scaled(enum op op, double *hi, double *lo, double *scale, double from_hi, double from_lo,
                       double from_scale)
{
	if (from_hi == 0)
		return;
	if (*hi == 0 || !isfinite(from_hi)) {
		*hi = *hi == 0 ? from_hi : *hi + from_hi;
		*lo = from_lo;
		*scale = from_scale;
		return;
	}
	if (!isfinite(*hi))
		return;
	const bool grows = from_scale > *scale;
	const double ratio = grows ? *scale / from_scale : from_scale / *scale;
	const double factor = op == OP_norm ? ratio * ratio : exp(-fabs(from_scale - *scale));
	if (grows)
		rescale(hi, lo, factor);
	else
		rescale(&from_hi, &from_lo, factor);
	*scale = grows ? from_scale : *scale;
	sum_add(hi, lo, from_hi, from_lo);
}

void fold_add(enum op op, double *state, const double *from, int64_t count)
{
	switch (op) {
	case OP_amax:
		for (int64_t i = 0; i < count; i++)
			state[i] = larger(state[i], from[i]);
		break;
	case OP_amin:
		for (int64_t i = 0; i < count; i++)
			state[i] = smaller(state[i], from[i]);
		break;
	case OP_norm:
	case OP_logsumexp:
		for (int64_t i = 0; i < count; i++)
			add_scaled(op, &state[i], &state[count + i], &state[2 * count + i], from[i], from[count + i],
			           from[2 * count + i]);
		break;
	default:
		for (int64_t i = 0; i < count; i++)
			sum_add(&state[i], &state[count + i], from[i], from[count + i]);
		break;
	}
}

void fold_finish(const struct op_call *call, void *y, const double *state, int64_t count)
{
	const double *hi = state, *lo = state + count, *scale = state + 2 * count;
	const enum dtype dtype = call->y->dtype;
	switch (call->op) {
	case OP_amax:
	case OP_amin:
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i, hi[i]);
		break;
	case OP_norm:
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i, norm_of(hi[i] + lo[i], scale[i]));
		break;
	case OP_logsumexp:
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i, logsumexp_of(hi[i] + lo[i], scale[i]));
		break;
	case OP_sum:
	case OP_mean:
		sums_store(dtype, y, hi, lo, reduction_divisor(call), (size_t)count);
		break;
	default:
		sums_store(dtype, y, hi, lo, loss_divisor(call), (size_t)count);
		break;
	}
}
