/*
 * The kernels for AVX-512 (F, DQ, BW, VL) with FMA. A vector has 16 floats or 8 doubles. A
 * run keeps its tile in 16 of the 32 registers. Compiled with -mavx512f -mavx512dq
 * -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512: nothing here may run before
 * kernels.c has found those features.
 * Tests: tests/unit/test_kernels.c, tests/scripts/check-isas
 */
#include "ops/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ISA avx512
#define ISA_LOOPS loops_avx512
#define ISA_BYTES 64
#define ISA_FMA 1
#define ISA_SCALEF 1
#define ISA_LOOKUP 1
#define ISA_TILE 16
#define ISA_SELECT 1
#define ISA_SLEEF(NAME, ULP) Sleef_finz_##NAME##d8_##ULP##avx512f
#define ISA_WITHIN 1
#define ISA_RELU 1
#define ISA_MASK 1
#define select_f(MASK, YES, NO) ((vf)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)(MASK)), NO, YES))
#define select_d(MASK, YES, NO) ((vd)_mm512_mask_blend_pd(_mm512_movepi64_mask((__m512i)(MASK)), NO, YES))
#define ISA_INTRINSIC(NAME) _mm512_##NAME
#include "ops/vector_template.h"

LANEWISE bool within_f(vf x, float bound) { return _mm512_cmp_ps_mask(x, _mm512_set1_ps(bound), _CMP_NLE_UQ) == 0; }
LANEWISE vf lookup_f(const float table[16], vui index)
{
	return _mm512_permutexvar_ps((__m512i)index, _mm512_load_ps(table));
}
LANEWISE vf floor_f(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
LANEWISE vd floor_d(vd x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
/* Hex digits, from the lowest: NaN, signalling NaN, 0, 1, -inf, inf, negative, positive. 8 returns 0; 0 keeps v. */
#define RELU_CLASSES 0x08080800
LANEWISE vf relu_f(vf v) { return _mm512_fixupimm_ps(v, v, _mm512_set1_epi32(RELU_CLASSES), 0); }
LANEWISE vd relu_d(vd v) { return _mm512_fixupimm_pd(v, v, _mm512_set1_epi64(RELU_CLASSES), 0); }
LANEWISE vd widen_low(vf x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
LANEWISE vd widen_high(vf x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
LANEWISE vf narrow(vd low, vd high)
{
	return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
LANEWISE unsigned bits_f(vi mask) { return _mm512_movepi32_mask((__m512i)mask); }
LANEWISE unsigned bits_d(vl mask) { return _mm512_movepi64_mask((__m512i)mask); }
LANEWISE vi mask_f(unsigned bits) { return (vi)_mm512_movm_epi32((__mmask16)bits); }
LANEWISE vl mask_d(unsigned bits) { return (vl)_mm512_movm_epi64((__mmask8)bits); }
LANEWISE vf whole_f(vi x) { return _mm512_cvtepi32_ps((__m512i)x); }
LANEWISE vf scale_f(vf x, vf exponent) { return _mm512_scalef_ps(x, exponent); }
LANEWISE vd scale_d(vd x, vd exponent) { return _mm512_scalef_pd(x, exponent); }

#include "ops/kernels_template.h"
#endif
