/*
 * General operations that go element by element.
 *
 * cast to f32 or f64 converts between the computing types. A value cast to f16 or
 * bf16 is rounded to that type and held as f32. The cotangent is converted to v's
 * computing type.
 *
 * dropout keeps element i of the whole array if its random word is at least p * 2^32.
 * That is word i mod 4 of Philox 4x32-10, with the seed as key and the counter i / 4 +
 * 2^64 stream. The caller gives the stream (ir/body.h). So every tile and every
 * recomputation draws the same mask. A kept element is multiplied by 1 / (1 - p), rounded
 * to the type. Any other, NaN included, becomes 0.
 */
#include <math.h>
#include <string.h>

#include "ops/lines.h"

/* Converts N elements of FROM, of type FROM_TYPE, to TO_TYPE. Both are computing types. */
static void convert_elements(enum dtype to_type, void *to, enum dtype from_type, const void *from, size_t n)
{
	if (n == 0)
		return;
	if (to_type == from_type)
		memcpy(to, from, n * element_size(to_type));
	else if (to_type == DTYPE_F64)
		kernels_get(from_type)->loops->to_f64(to, from, n);
	else
		kernels_get(from_type)->loops->to_f32(to, from, n);
}

FORWARD(cast)
{
	const enum dtype to = call->attrs->dtype, from = dtype_compute(call->v->dtype), held = dtype_compute(to);
	const size_t n = (size_t)shape_count(&call->v->shape);
	if (to != DTYPE_F16 && to != DTYPE_BF16) {
		convert_elements(held, y, from, v, n);
		return;
	}
	/* Rounding in the type of v rounds once: the rounded values are exact in f32. */
	const struct kernels *kernels = kernels_get(from);
	enum { PIECE = 512 };
	for (size_t i = 0; i < n; i += PIECE) {
		_Alignas(64) double piece[PIECE];
		const size_t width = n - i < PIECE ? n - i : PIECE;
		const void *source = element_at(v, element_size(from), (int64_t)i);
		kernels->round[to](&(struct kernel_args){.out = piece, .v = source, .n = width});
		convert_elements(held, element_of(y, element_size(held), (int64_t)i), from, piece, width);
	}
}

VJP(cast)
{
	convert_elements(dtype_compute(call->v->dtype), dv, dtype_compute(call->attrs->dtype), g,
	                 (size_t)shape_count(&call->v->shape));
}

static void drop_elements(const struct op_call *call, void *to, const void *from)
{
	const double p = call->attrs->p;
	const struct dropout dropout = {.first = call->first,
	                                .seed = (uint64_t)call->attrs->seed,
	                                .stream = call->stream,
	                                .threshold = (uint64_t)ceil(ldexp(p, 32)),
	                                .scale = 1 / (1 - p)};
	call->kernels->loops->dropout(to, from, (size_t)shape_count(&call->v->shape), &dropout);
}

FORWARD(dropout) { drop_elements(call, y, v); }
VJP(dropout) { drop_elements(call, dv, g); }
