/*
 * The kernels for AVX2 with FMA. A vector has 8 floats or 4 doubles. A run keeps its tile
 * in 10 of the 16 registers. Compiled with -mavx2 -mfma -mf16c: nothing here may run
 * before kernels.c has found those features.
 * Tests: tests/unit/test_kernels.c, tests/scripts/check-isas
 */
#include "ops/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

/*
 * GCC leaves a long expression's operations in order, and each waits for the one before. Zen 1 looks ahead by less than one
 * such expression. Scheduled, functions of floats take 0.84 to 1.02 of their time. The products of loops_avx2.c gain nothing
 * by it.
 */
#ifndef __clang__
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif

#define ISA avx2
#define ISA_LOOPS loops_avx2
#define ISA_BYTES 32
#define ISA_FMA 1
#define ISA_TILE 10
#define ISA_SLEEF(NAME, ULP) Sleef_finz_##NAME##d4_##ULP##avx2
#define ISA_INTRINSIC(NAME) _mm256_##NAME
#include "ops/vector_template.h"

LANEWISE vf lookup_f(const float table[16], vui index)
{
	const vf low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), (__m256i)index);
	const vf high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), (__m256i)index);
	return _mm256_blendv_ps(low, high, (__m256)(index << 28));
}
LANEWISE vf floor_f(vf x) { return _mm256_floor_ps(x); }
LANEWISE vd floor_d(vd x) { return _mm256_floor_pd(x); }
LANEWISE vd widen_low(vf x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
LANEWISE vd widen_high(vf x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
LANEWISE vf narrow(vd low, vd high) { return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low)); }
LANEWISE unsigned bits_f(vi mask) { return (unsigned)_mm256_movemask_ps((__m256)mask); }
LANEWISE unsigned bits_d(vl mask) { return (unsigned)_mm256_movemask_pd((__m256d)mask); }
LANEWISE vf whole_f(vi x) { return _mm256_cvtepi32_ps((__m256i)x); }
/* x 2^exponent for an integer within [-252, 254]; the first of the two products is exact unless denormal */
LANEWISE vf scale_f(vf x, vf exponent)
{
	const vi whole = (vi)_mm256_cvtps_epi32(exponent), half = whole >> 1;
	return x * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

#include "ops/kernels_template.h"
#endif
