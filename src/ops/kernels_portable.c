/*
 * The kernels for any processor: the compiler's 16-byte vectors without intrinsics. The functions
 * of doubles that vmath_f64_template.h takes from SLEEF are scalar, lane by lane: SLEEF's if the
 * build has it, else the C library's (glibc's erf errs by 1.1 ulp).
 * Tests: tests/unit/test_kernels.c, tests/scripts/check-isas
 */
#include <math.h>

#include "ops/kernels.h"

#define ISA portable
#define ISA_LOOPS loops_portable
#define ISA_BYTES 16
#define ISA_FMA 0
#define ISA_TILE 8
#include "ops/vector_template.h"

LANEWISE vf sqrt_f(vf x) { return (vf){sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3])}; }
LANEWISE vd sqrt_d(vd x) { return (vd){sqrt(x[0]), sqrt(x[1])}; }
LANEWISE vf greater_f(vf a, vf b) { return select_f(a > b, a, b); }
LANEWISE vd greater_d(vd a, vd b) { return (vd){a[0] > b[0] ? a[0] : b[0], a[1] > b[1] ? a[1] : b[1]}; }
LANEWISE vf lesser_f(vf a, vf b) { return select_f(a < b, a, b); }
LANEWISE vd lesser_d(vd a, vd b) { return (vd){a[0] < b[0] ? a[0] : b[0], a[1] < b[1] ? a[1] : b[1]}; }
/*
 * Whole vectors are converted. Of a vector made from single lanes, GCC 12 takes the doubles before the rounding, in the
 * upper half alone, where a loop does not change them.
 */
typedef float vf_half __attribute__((vector_size(8)));
LANEWISE vd widen_low(vf x) { return __builtin_convertvector(__builtin_shufflevector(x, x, 0, 1), vd); }
LANEWISE vd widen_high(vf x) { return __builtin_convertvector(__builtin_shufflevector(x, x, 2, 3), vd); }
LANEWISE vf narrow(vd low, vd high)
{
	return __builtin_shufflevector(__builtin_convertvector(low, vf_half), __builtin_convertvector(high, vf_half), 0, 1,
	                               2, 3);
}
LANEWISE unsigned bits_f(vi mask)
{
	return (mask[0] ? 1U : 0U) | (mask[1] ? 2U : 0U) | (mask[2] ? 4U : 0U) | (mask[3] ? 8U : 0U);
}
LANEWISE unsigned bits_d(vl mask) { return (mask[0] ? 1U : 0U) | (mask[1] ? 2U : 0U); }

#include "ops/kernels_template.h"
