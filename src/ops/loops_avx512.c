/*
 * The inner loops for AVX-512 with FMA. A tile of a product, 12 rows by 2 vectors, takes
 * 24 of the 32 registers.
 * Tests: tests/unit/test_gemm.c, tests/unit/test_kernels.c
 */
#include "ops/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ISA_LOOPS loops_avx512
#define VECTOR_BYTES 64
#define GEMM_ROWS 12
#define GEMM_B_KIB 384
#define MULTIPLY_ADD_f32(A, B, C) _mm512_fmadd_ps(A, B, C)
#define MULTIPLY_ADD_f64(A, B, C) _mm512_fmadd_pd(A, B, C)
#define MULTIPLY_LOW(A, B) ((random_lanes)_mm512_mul_epu32((__m512i)(A), (__m512i)(B)))
#define ADD_BESIDE(A, B, ONE) _mm512_fmadd_pd(A, ONE, B)
#define SUBTRACT_BESIDE(A, B, ONE) _mm512_fmsub_pd(A, ONE, B)
#define HIDE(ONE) __asm__("" : "+v"(ONE))
#include "ops/loops_template.h"
#endif
