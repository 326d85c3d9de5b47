#include "evaluate/owned.h"

/* Returns where row ROW of ARRAY begins. The array has V's shape and the kept elements of OP's KEEP. */
static const void *kept_row(const struct op_call *call, int keep, const void *array, int64_t row)
{
	const int bits = keep_bits(op_table[call->op].keeps[keep].kind);
	const int64_t elements = row * (shape_count(&call->v->shape) / call->v->shape.dim[0]);
	if (!array)
		return NULL;
	return (const char *)array + (bits ? elements * bits / 8 : elements * (int64_t)dtype_size(call->v->dtype));
}

/* Cuts ROWS out of *TYPE, and returns where they begin in ARRAY, which may be NULL. */
static const void *cut_rows(struct type *type, struct owned_rows rows, const void *array)
{
	const int64_t row = type_bytes(type) / type->shape.dim[0];
	type->shape.dim[0] = rows.count;
	return array ? (const char *)array + rows.first * row : NULL;
}

void owned_call_of(struct owned_call *owned, const struct op_call *call, struct owned_rows rows, bool a_streamed,
                   const void *const needs[MAX_NEEDS], const void *g)
{
	*owned = (struct owned_call){.call = *call, .v = *call->v, .y = *call->y, .g = g, .needs = {NULL}};
	for (int k = 0; k < MAX_KEEPS; k++)
		owned->needs[3 + k] = kept_row(call, k, needs[3 + k], rows.first);
	owned->needs[0] = cut_rows(&owned->v, rows, needs[0]);
	owned->needs[1] = needs[1];
	owned->needs[2] = needs[2];
	if (call->a)
		owned->a = *call->a;
	if (a_streamed)
		owned->needs[1] = cut_rows(&owned->a, rows, needs[1]);
	if (op_is_product(call->op)) { /* the result has rows too; that of a loss or sum has not */
		const struct type y = owned->y;
		owned->needs[2] = cut_rows(&owned->y, rows, needs[2]);
		owned->y = y;
		owned->g = cut_rows(&owned->y, rows, g);
	}
	owned->call.v = &owned->v;
	owned->call.a = call->a ? &owned->a : NULL;
	owned->call.y = &owned->y;
}
