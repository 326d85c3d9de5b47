/*
 * Vectors of one instruction set: their types, and functions that all sets share. The
 * includer, kernels_ISA.c, defines ISA, ISA_BYTES, ISA_FMA and ISA_TILE before it. After
 * it come the functions of that set alone, and then kernels_template.h.
 *
 * No lane's result depends on another lane, so that an element has the same bits at
 * every index of an array.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANEWISE static inline __attribute__((always_inline, unused))
#define COLD static __attribute__((noinline, cold, unused))

enum { LANES_F = ISA_BYTES / 4, LANES_D = ISA_BYTES / 8 };

typedef float vf __attribute__((vector_size(ISA_BYTES)));
typedef double vd __attribute__((vector_size(ISA_BYTES)));
typedef int32_t vi __attribute__((vector_size(ISA_BYTES)));   /* lanes of float: masks are 0 or -1 */
typedef long long vl __attribute__((vector_size(ISA_BYTES))); /* lanes of double */
typedef uint32_t vui __attribute__((vector_size(ISA_BYTES)));
typedef unsigned long long vul __attribute__((vector_size(ISA_BYTES)));
typedef vf vf_memory __attribute__((aligned(4), may_alias));
typedef vd vd_memory __attribute__((aligned(8), may_alias));

/* x - 0 is x, even for negative zero, and compiles to one broadcast */
LANEWISE vf splat_f(float x) { return x - (vf){0}; }
LANEWISE vd splat_d(double x) { return x - (vd){0}; }

LANEWISE vf load_f(const void *from, size_t index) { return *(const vf_memory *)((const float *)from + index); }
LANEWISE vd load_d(const void *from, size_t index) { return *(const vd_memory *)((const double *)from + index); }
LANEWISE void store_f(void *to, size_t index, vf x) { *(vf_memory *)((float *)to + index) = x; }
LANEWISE void store_d(void *to, size_t index, vd x) { *(vd_memory *)((double *)to + index) = x; }

#ifndef ISA_SELECT
LANEWISE vf select_f(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
LANEWISE vd select_d(vl mask, vd yes, vd no) { return (vd)((mask & (vl)yes) | (~mask & (vl)no)); }
/* YES in lanes whose sign bit in BITS is set, else NO */
LANEWISE vf select_sign_f(vui bits, vf yes, vf no) { return select_f((vi)bits >> 31, yes, no); }
#else
LANEWISE vf select_sign_f(vui bits, vf yes, vf no) { return select_f(bits, yes, no); }
#endif
/* x, negated in lanes whose sign bit in BITS is set */
LANEWISE vf negated_f(vf x, vui bits) { return (vf)((vui)x ^ (bits & 0x80000000)); }
LANEWISE vf abs_f(vf x) { return (vf)((vi)x & 0x7fffffff); }
LANEWISE vd abs_d(vd x) { return (vd)((vl)x & 0x7fffffffffffffff); }
/* |magnitude| with the sign of SIGN */
LANEWISE vf copysign_f(vf magnitude, vf sign) { return (vf)(((vi)magnitude & 0x7fffffff) | ((vi)sign & INT32_MIN)); }
LANEWISE vd copysign_d(vd magnitude, vd sign) { return (vd)(((vl)magnitude & INT64_MAX) | ((vl)sign & INT64_MIN)); }

#ifndef ISA_MASK
/* Defines mask_TYPE: lane i of the result is -1 if bit i of BITS is set, else 0. */
#define MASK_OF_BITS(TYPE, MASK, INTEGER, LANES)                                                                       \
	LANEWISE MASK mask_##TYPE(unsigned bits)                                                                           \
	{                                                                                                                  \
		MASK lane;                                                                                                     \
		for (int i = 0; i < LANES; i++)                                                                                \
			lane[i] = (INTEGER)1 << i;                                                                                 \
		return (((INTEGER)bits - (MASK){0}) & lane) != 0;                                                              \
	}
MASK_OF_BITS(f, vi, int32_t, LANES_F)
MASK_OF_BITS(d, vl, long long, LANES_D)
#endif

/* floor without an instruction for it: adding 2^52 (2^23) rounds to an integer that is at most one too high */
#if !ISA_FMA
#define FLOOR(TYPE, VECTOR, MAGIC)                                                                                     \
	LANEWISE VECTOR floor_##TYPE(VECTOR x)                                                                             \
	{                                                                                                                  \
		const VECTOR magic = splat_##TYPE(MAGIC), a = abs_##TYPE(x);                                                   \
		VECTOR whole = copysign_##TYPE((a + magic) - magic, x);                                                        \
		whole = whole - select_##TYPE(whole > x, splat_##TYPE(1), splat_##TYPE(0));                                    \
		return select_##TYPE(a < magic, copysign_##TYPE(whole, x), x);                                                 \
	}
FLOOR(f, vf, 0x1p23F)
FLOOR(d, vd, 0x1p52)
/* These round twice. They are called only where that does not matter. */
LANEWISE vd fma_d(vd a, vd b, vd c) { return a * b + c; }
LANEWISE vd nfma_d(vd a, vd b, vd c) { return c - a * b; }
#else
LANEWISE vf fma_f(vf a, vf b, vf c) { return ISA_INTRINSIC(fmadd_ps)(a, b, c); }
LANEWISE vf nfma_f(vf a, vf b, vf c) { return ISA_INTRINSIC(fnmadd_ps)(a, b, c); }
LANEWISE vd fma_d(vd a, vd b, vd c) { return ISA_INTRINSIC(fmadd_pd)(a, b, c); }
LANEWISE vd nfma_d(vd a, vd b, vd c) { return ISA_INTRINSIC(fnmadd_pd)(a, b, c); }
#endif

#ifdef ISA_INTRINSIC
LANEWISE vf sqrt_f(vf x) { return ISA_INTRINSIC(sqrt_ps)(x); }
LANEWISE vd sqrt_d(vd x) { return ISA_INTRINSIC(sqrt_pd)(x); }
LANEWISE vf greater_f(vf a, vf b) { return ISA_INTRINSIC(max_ps)(a, b); }
LANEWISE vd greater_d(vd a, vd b) { return ISA_INTRINSIC(max_pd)(a, b); }
LANEWISE vf lesser_f(vf a, vf b) { return ISA_INTRINSIC(min_ps)(a, b); }
LANEWISE vd lesser_d(vd a, vd b) { return ISA_INTRINSIC(min_pd)(a, b); }
#endif

#ifndef ISA_SCALEF
/* x 2^exponent for an integer within [-1022, 1023] */
LANEWISE vd scale_d(vd x, vd exponent) { return x * (vd)(((vul)(exponent + 0x1.8p52) + 1023) << 52); }
#endif
