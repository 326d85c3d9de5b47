/*
 * General operations that go element by element.
 *
 * cast to f32 or f64 converts between the computing types. A value cast to f16 or
 * bf16 is rounded to that type and held as f32. Its cotangent is rounded to that type
 * too, as JAX's, and converted to v's computing type.
 *
 * dropout keeps element i of the whole array if its random word is at least p * 2^32.
 * That is word i mod 4 of Philox 4x32-10, with the seed as key and the counter i / 4 +
 * 2^64 stream. The caller gives the stream (ir/body.h). So every tile and every
 * recomputation draws the same mask. A kept element is multiplied by 1 / (1 - p), rounded
 * to the type. Any other, NaN included, becomes 0.
 * Tests: tests/unit/test_general.c
 */
#include <math.h>
#include <string.h>

#include "io/array.h"
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

/* The same, of elements rounded to SHORT_TYPE first if that is F16 or BF16. The rounded values are exact in f32. */
static void round_elements(enum dtype to_type, void *to, enum dtype from_type, const void *from, size_t n,
                           enum dtype short_type)
{
	enum { PIECE = 512 };
	if (short_type != DTYPE_F16 && short_type != DTYPE_BF16) {
		convert_elements(to_type, to, from_type, from, n);
		return;
	}
	const struct kernels *kernels = kernels_get(from_type);
	for (size_t i = 0; i < n; i += PIECE) {
		_Alignas(64) double piece[PIECE];
		const size_t width = n - i < PIECE ? n - i : PIECE;
		const void *source = element_at(from, element_size(from_type), (int64_t)i);
		kernels->round[short_type](&(struct kernel_args){.out = piece, .v = source, .n = width});
		convert_elements(to_type, element_of(to, element_size(to_type), (int64_t)i), from_type, piece, width);
	}
}

/* Cuts N elements of TYPE to whole numbers of DTYPE. */
static void cut_elements(enum dtype type, void *elements, size_t n, enum dtype dtype)
{
	for (size_t i = 0; i < n; i++)
		if (type == DTYPE_F32)
			((float *)elements)[i] = (float)value_cut((double)((float *)elements)[i], dtype);
		else
			((double *)elements)[i] = value_cut(((double *)elements)[i], dtype);
}

FORWARD(cast)
{
	const enum dtype to = call->attrs->dtype;
	const size_t n = (size_t)shape_count(&call->v->shape);
	if (dtype_is_integer(to)) {
		round_elements(dtype_compute(to), y, dtype_compute(call->v->dtype), v, n, DTYPE_COUNT);
		cut_elements(dtype_compute(to), y, n, to);
		return;
	}
	round_elements(dtype_compute(to), y, dtype_compute(call->v->dtype), v, (size_t)shape_count(&call->v->shape), to);
}

VJP(cast)
{
	const enum dtype from = call->attrs->dtype;
	if (dtype_is_integer(from)) { /* a cut is flat */
		memset(dv, 0, (size_t)shape_count(&call->v->shape) * dtype_size(dtype_compute(call->v->dtype)));
		return;
	}
	round_elements(dtype_compute(call->v->dtype), dv, dtype_compute(from), g, (size_t)shape_count(&call->v->shape),
	               from);
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
