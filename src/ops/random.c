/*
 * dropout keeps element i of the whole array if word i mod 4 of Philox 4x32-10,
 * with counter i / 4 and key SEED, is at least p * 2^32. The mask depends on the
 * seed and the element's index alone, so that every tile and every recomputation
 * draws the same mask. A kept element is multiplied by 1 / (1 - p), rounded to
 * the type. Any other, NaN included, becomes 0.
 */
#include <math.h>

#include "ops/lines.h"

static void drop_elements(const struct op_call *call, void *to, const void *from)
{
	const double p = call->attrs->p;
	const struct dropout dropout = {.first = call->first,
	                                .seed = (uint64_t)call->attrs->seed,
	                                .threshold = (uint64_t)ceil(ldexp(p, 32)),
	                                .scale = 1 / (1 - p)};
	call->kernels->loops->dropout(to, from, (size_t)shape_count(&call->v->shape), &dropout);
}

FORWARD(dropout) { drop_elements(call, y, v); }
VJP(dropout) { drop_elements(call, dv, g); }
