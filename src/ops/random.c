/*
 * dropout: element i of the whole array is kept where word i mod 4 of Philox
 * 4x32-10, counter i / 4, key SEED, is at least p * 2^32: a function of the seed
 * and the place alone, so that every tile and every recomputation draws the same
 * mask. What is kept is multiplied by 1 / (1 - p), rounded to the type; the rest
 * is 0, NaN included.
 */
#include <math.h>

#include "ops/lines.h"

static void drop(const struct op_call *call, void *to, const void *from)
{
	const double p = call->attrs->p;
	const uint64_t threshold = (uint64_t)ceil(ldexp(p, 32));
	const int64_t count = shape_count(&call->v->shape);
	if (count > 0)
		loops_get(call->kernels)
			->dropout(to, from, call->first, (uint64_t)call->attrs->seed, threshold, 1 / (1 - p), (size_t)count);
}

void forward_dropout(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a, (void)keep;
	drop(call, y, v);
}

void vjp_dropout(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da, (void)needs;
	if (dv)
		drop(call, dv, g);
}
