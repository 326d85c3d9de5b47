/* Numbers of any exponent in arrays of both computing types, and what a type holds, for tests at the edges. */
#ifndef TESTS_WIDE_NUMBERS_H
#define TESTS_WIDE_NUMBERS_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/type.h"

typedef long double real;

/* Returns a number in [0, 1), and moves *STATE on. */
static inline double wide_unit(uint64_t *state)
{
	*state = *state * 6364136223846793005U + 1442695040888963407U;
	return (double)(*state >> 11) * 0x1p-53;
}

static inline real least_of(enum dtype dtype) { return dtype == DTYPE_F64 ? (real)DBL_MIN : (real)FLT_MIN; }
static inline real most_of(enum dtype dtype) { return dtype == DTYPE_F64 ? (real)DBL_MAX : (real)FLT_MAX; }
static inline real epsilon_of(enum dtype dtype) { return dtype == DTYPE_F64 ? 0x1p-53L : 0x1p-24L; }
static inline double wide_rounded(enum dtype dtype, double x) { return dtype == DTYPE_F64 ? x : (double)(float)x; }

static inline void wide_put(enum dtype dtype, void *array, size_t i, double x)
{
	if (dtype == DTYPE_F64)
		((double *)array)[i] = x;
	else
		((float *)array)[i] = (float)x;
}
static inline double wide_get(enum dtype dtype, const void *array, size_t i)
{
	return dtype == DTYPE_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

#endif
