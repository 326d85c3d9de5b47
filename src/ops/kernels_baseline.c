/*
 * The kernels for any x86-64 (SSE2, no FMA). A vector has 4 floats or 2 doubles. A run
 * keeps its tile in 8 of the 16 registers.
 * Tests: tests/unit/test_kernels.c, tests/scripts/check-isas
 */
#include "ops/kernels.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define ISA baseline
#define ISA_LOOPS loops_portable
#define ISA_BYTES 16
#define ISA_FMA 0
#define ISA_TILE 8
#define ISA_SLEEF(NAME, ULP) Sleef_cinz_##NAME##d2_##ULP##sse2
#define ISA_INTRINSIC(NAME) _mm_##NAME
#include "ops/vector_template.h"

LANEWISE vd widen_low(vf x) { return _mm_cvtps_pd(x); }
LANEWISE vd widen_high(vf x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); }
LANEWISE vf narrow(vd low, vd high) { return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high)); }
LANEWISE unsigned bits_f(vi mask) { return (unsigned)_mm_movemask_ps((__m128)mask); }
LANEWISE unsigned bits_d(vl mask) { return (unsigned)_mm_movemask_pd((__m128d)mask); }

#include "ops/kernels_template.h"
#endif
