/*
 * cast: to f32 or f64 between the two computing types; to f16 and bf16 rounded
 * in place, for they are held as f32. The cotangent goes back to the type that v
 * is held in.
 */
#include <string.h>

#include "ops/lines.h"

/* N elements of type FROM as type TO (computing types). */
static void convert(const struct kernels *kernels, enum dtype to_type, void *to, enum dtype from_type, const void *from,
                    size_t n)
{
	const struct kernels *own = kernels->dtype == from_type ? kernels : kernels_get(from_type);
	if (n == 0)
		return;
	if (to_type == from_type)
		memcpy(to, from, n * element_size(to_type));
	else if (to_type == DTYPE_F64)
		own->to_f64(to, from, n);
	else
		own->to_f32(to, from, n);
}

void forward_cast(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	(void)a, (void)keep;
	const enum dtype to = call->attrs->dtype, from = dtype_compute(call->v->dtype), held = dtype_compute(to);
	const size_t n = (size_t)shape_count(&call->v->shape);
	if (to == DTYPE_F16 || to == DTYPE_BF16) {
		/* rounded once: in the type that v has, whose f16 and bf16 values are exact in f32 */
		const struct kernels *kernels = call->kernels->dtype == from ? call->kernels : kernels_get(from);
		enum { PIECE = 512 };
		for (size_t i = 0; i < n; i += PIECE) {
			_Alignas(64) double piece[PIECE];
			const size_t width = n - i < PIECE ? n - i : PIECE;
			const void *source = element_at(v, element_size(from), (int64_t)i);
			(to == DTYPE_F16 ? kernels->round_f16 : kernels->round_bf16)(piece, source, width);
			convert(call->kernels, held, element_of(y, element_size(held), (int64_t)i), from, piece, width);
		}
		return;
	}
	convert(call->kernels, held, y, from, v, n);
}

void vjp_cast(const struct op_call *call, void *dv, void *da, const void *g, const void *const needs[MAX_NEEDS])
{
	(void)da, (void)needs;
	if (dv)
		convert(call->kernels, dtype_compute(call->v->dtype), dv, dtype_compute(call->attrs->dtype), g,
		        (size_t)shape_count(&call->v->shape));
}
