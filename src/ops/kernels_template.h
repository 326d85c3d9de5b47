/*
 * All kernels of one instruction set, made from ops.def. The includer, kernels_ISA.c, first
 * includes vector_template.h and defines the functions of its set. The tables are
 * kernels_ISA_f32 and kernels_ISA_f64.
 *
 * An element-wise row becomes inline functions and loops around them: one for its FORWARD
 * expression, one that stores the kept arrays too, and one for each derivative. A derivative's
 * expression sees g and what NEEDS declares; one that reads anything else does not compile.
 */
#include "ops/vmath_template.h"

#define PASTE(A, B) A##B
#define PASTED(A, B) PASTE(A, B)
#define QUOTE(X) #X
#define QUOTED(X) QUOTE(X)
#define SPLAT(X) V(splat)((REAL)(X))

/* ---- the names that ops.def's expressions use ---- */
#define P(I) number[I]
#define M(NAME, ...) V(NAME)(__VA_ARGS__)
#define M_ZERO SPLAT(0)
#define M_HALF SPLAT(0.5)
#define M_ONE SPLAT(1)
#define M_TWO_OVER_SQRT_PI SPLAT(0x1.20dd750429b6dp+0)
#define M_NUMBER(X) SPLAT(X)
#define M_IF(FLAG, YES, NO) ((FLAG)[0] != 0 ? (YES) : (NO))

/* ---- NEEDS: what a derivative reads of vector i. FETCH reads a kept value. ---- */
#define SEE_NIL(FETCH)
#define SEE_ZERO(FETCH)
#define SEE_V(FETCH) const VEC v = V(load)(s.v, i);
#define SEE_A(FETCH) const VEC a = form && operands == 1 ? scalar : V(load)(s.a, i);
#define SEE_Y(FETCH) const VEC y = V(load)(s.y, i);
#define SEE_K(FETCH) const __auto_type k = FETCH(s.k, i);
#define SEE_KL(FETCH) const __auto_type l = FETCH(s.l, i); SEE_K(FETCH)
#define SEE_AK(FETCH) SEE_A(FETCH) SEE_K(FETCH)
#define SEE_VA(FETCH) SEE_A(FETCH) SEE_V(FETCH)
#define SEE_VY(FETCH) SEE_Y(FETCH) SEE_V(FETCH)
#define SEE_AY(FETCH) SEE_Y(FETCH) SEE_A(FETCH)
#define SEE_VAY(FETCH) SEE_Y(FETCH) SEE_VA(FETCH)
#define GIVEN(NEEDS) (NEEDS_##NEEDS != NEEDS_ZERO)

/* ---- KEEPS: its kind, how a kept value is read, and how it is stored ---- */
#define KIND_NOTHING KEEP_NOTHING
#define KIND_VALUE(...) KEEP_VALUE
#define KIND_MASK(...) KEEP_MASK
#define KIND_MASKS(...) KEEP_MASK
#define KIND_SIGN(...) KEEP_SIGN
#define BITS_OF(KEEPS) keep_bits(KIND_##KEEPS)
#define FETCH_NOTHING V(load)
#define FETCH_VALUE(...) V(load)
#define FETCH_MASK(...) N(load_mask)
#define FETCH_MASKS(...) N(load_mask)
#define FETCH_SIGN(...) N(load_sign)
#define KEEPING_NOTHING
#define KEEPING_VALUE(OP, EXPRESSION) V(store)(s.keep[0], i, EXPRESSION);
#define KEEPING_MASK(OP, CONDITION) N(store_mask)(s.keep[0], i, CONDITION);
#define KEEPING_MASKS(OP, CONDITION, OP2, CONDITION2)                                                                  \
	KEEPING_MASK(OP, CONDITION) N(store_mask)(s.keep[1], i, CONDITION2);

#define KEEPING_SIGN(OP, EXPRESSION) N(store_sign)(s.keep[0], i, EXPRESSION);

#define UNUSED __attribute__((unused))

#define REPEAT_8(X, NAME) X(NAME, 0) X(NAME, 1) X(NAME, 2) X(NAME, 3) X(NAME, 4) X(NAME, 5) X(NAME, 6) X(NAME, 7)
#define REPEAT_10(X, NAME) REPEAT_8(X, NAME) X(NAME, 8) X(NAME, 9)
#define REPEAT_16(X, NAME)                                                                                             \
	REPEAT_10(X, NAME) X(NAME, 10) X(NAME, 11) X(NAME, 12) X(NAME, 13) X(NAME, 14) X(NAME, 15)
/* X(NAME, I) for each vector I of a tile */
#define EACH_VECTOR(X, NAME) PASTED(REPEAT_, ISA_TILE)(X, NAME)

/* Copies the first BYTES bytes of FROM, a padded block, to byte START of TO and on, unless TO is NULL. */
static void unpad(void *to, const void *from, size_t start, size_t bytes)
{
	if (to)
		memcpy((char *)to + start, from, bytes);
}

#define TYPE_F32
#include "ops/kernels_type_template.h"
#define TYPE_F64
#include "ops/kernels_type_template.h"
