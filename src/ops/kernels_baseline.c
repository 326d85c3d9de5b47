/*
 * The kernels for any x86-64 (SSE2, no FMA). A vector has 4 floats or 2 doubles. A run
 * keeps its tile in 8 of the 16 registers.
 */
#include "ops/kernels_isa.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define ISA baseline
#define ISA_BYTES 16
#define ISA_FMA 0
#define ISA_TILE 8
#define ISA_SLEEF(NAME, ULP) Sleef_cinz_##NAME##d2_##ULP##sse2
#include "ops/vector_template.h"

LANEWISE vf sqrt_f(vf x) { return _mm_sqrt_ps(x); }
LANEWISE vd sqrt_d(vd x) { return _mm_sqrt_pd(x); }
LANEWISE vf floor_f(vf x) { return floor_plain_f(x); }
LANEWISE vd floor_d(vd x) { return floor_plain_d(x); }
LANEWISE vf greater_f(vf a, vf b) { return _mm_max_ps(a, b); }
LANEWISE vd greater_d(vd a, vd b) { return _mm_max_pd(a, b); }
LANEWISE vf lesser_f(vf a, vf b) { return _mm_min_ps(a, b); }
LANEWISE vd lesser_d(vd a, vd b) { return _mm_min_pd(a, b); }
LANEWISE vd widen_low(vf x) { return _mm_cvtps_pd(x); }
LANEWISE vd widen_high(vf x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); }
LANEWISE vf narrow(vd low, vd high) { return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high)); }
LANEWISE unsigned bits_f(vi mask) { return (unsigned)_mm_movemask_ps((__m128)mask); }
LANEWISE unsigned bits_d(vl mask) { return (unsigned)_mm_movemask_pd((__m128d)mask); }
LANEWISE vi mask_f(unsigned bits) { return spread_f(bits); }
LANEWISE vl mask_d(unsigned bits) { return spread_d(bits); }
LANEWISE vd scale_d(vd x, vd exponent) { return x * power_of_two(exponent); }

#include "ops/vmath_template.h"

#define TYPE_F32
#include "ops/kernels_template.h"
#define TYPE_F64
#include "ops/kernels_template.h"

const struct kernels *const kernels_baseline[2] = {&table_f32, &table_f64};
#endif
