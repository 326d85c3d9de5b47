/*
 * The inner loops for any processor, in the compiler's vectors of 16 bytes. On x86-64,
 * where these are SSE2, the baseline kernels go with them.
 * Tests: tests/unit/test_gemm.c, tests/unit/test_kernels.c
 */
#include "ops/kernels.h"

#define ISA_LOOPS loops_portable
#define VECTOR_BYTES 16
#define GEMM_ROWS 4
#define GEMM_B_KIB 384
#define MULTIPLY_ADD_f32(A, B, C) ((A) * (B) + (C))
#define MULTIPLY_ADD_f64(A, B, C) ((A) * (B) + (C))
#if defined(__SSE2__)
#include <emmintrin.h>
#define MULTIPLY_LOW(A, B) ((random_lanes)_mm_mul_epu32((__m128i)(A), (__m128i)(B)))
#else
#define MULTIPLY_LOW(A, B) (((A)&0xffffffffULL) * ((B)&0xffffffffULL))
#endif
#include "ops/loops_template.h"
