/*
 * Rounds values to a declared type, in place in their computing type. Halves are rounded to
 * nearest even; doubles first become floats, rounded to odd. Integers are cut towards zero,
 * as a cast does in C and NumPy, but NaN and infinities stay. A bool is 0 or 1, and NaN is
 * 1. Values of f32 and f64 are left as they are.
 */
#include "io/array.h"

#include <math.h>

static void round_half(float *values, size_t count, enum dtype dtype)
{
	enum { PIECE = 512 };
	uint16_t half[PIECE];
	for (size_t done = 0; done < count; done += PIECE) {
		size_t n = count - done < PIECE ? count - done : PIECE;
		if (dtype == DTYPE_F16) {
			convert_f32_to_f16(half, values + done, n);
			convert_f16_to_f32(values + done, half, n);
		} else {
			convert_f32_to_bf16(half, values + done, n);
			convert_bf16_to_f32(values + done, half, n);
		}
	}
}

static double round_one(double value, enum dtype dtype)
{
	if (dtype == DTYPE_BOOL)
		return value != 0;
	if (dtype > DTYPE_F64)
		return trunc(value) + 0.0; /* integers have no -0 */
	float narrow;
	convert_f64_to_f32_odd(&narrow, &value, 1);
	round_half(&narrow, 1, dtype);
	return (double)narrow;
}

void values_round(void *values, enum dtype held, size_t count, enum dtype dtype)
{
	if (dtype == DTYPE_F32 || dtype == DTYPE_F64)
		return;
	if (held == DTYPE_F32 && dtype < DTYPE_F32)
		round_half(values, count, dtype);
	else if (held == DTYPE_F32)
		for (size_t i = 0; i < count; i++)
			((float *)values)[i] = (float)round_one((double)((float *)values)[i], dtype);
	else
		for (size_t i = 0; i < count; i++)
			((double *)values)[i] = round_one(((double *)values)[i], dtype);
}
