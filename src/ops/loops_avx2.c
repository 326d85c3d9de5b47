/*
 * The inner loops for AVX2 with FMA: matrix tiles of 6 by 2 vectors take 12 of
 * the 16 registers.
 * Tests: tests/unit/test_gemm.c, tests/unit/test_kernels.c
 */
#include "ops/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ISA_LOOPS loops_avx2
#define VECTOR_BYTES 32
#define GEMM_ROWS 6
#define GEMM_B_KIB 512
#define MULTIPLY_ADD_f32(A, B, C) _mm256_fmadd_ps(A, B, C)
#define MULTIPLY_ADD_f64(A, B, C) _mm256_fmadd_pd(A, B, C)
#define MULTIPLY_LOW(A, B) ((random_lanes)_mm256_mul_epu32((__m256i)(A), (__m256i)(B)))
#define ADD_BESIDE(A, B, ONE) _mm256_fmadd_pd(A, ONE, B)
#define SUBTRACT_BESIDE(A, B, ONE) _mm256_fmsub_pd(A, ONE, B)
#define HIDE(ONE) __asm__("" : "+x"(ONE))
#include "ops/loops_template.h"
#endif
