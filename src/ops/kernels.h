/*
 * Element-wise kernels, one table for each instruction set and computing type,
 * made from ops.def by including kernels_template.h once for each. A kernel
 * walks N elements that lie one after another.
 *
 * An operand that is one number for all elements is passed as SCALAR; kernels
 * of binary operations come in two forms, [0] with an operand array and [1]
 * with a scalar.
 */
#ifndef OPS_KERNELS_H
#define OPS_KERNELS_H

#include "ops/op.h"

#include <stddef.h>
#include <stdint.h>

#define MAYBE_UNUSED __attribute__((unused))

struct kernel_args {
	void *out;             /* the result: y, dv or da; may be the same block as an input of the same type */
	void *keep[MAX_KEEPS]; /* forward_keep: where K and L go; masks as bits, element 0 in bit 0 of byte 0 */
	const void *v, *a, *y; /* inputs; a derivative's own needs only, the rest NULL */
	const void *k, *l;     /* kept values or masks */
	const void *g;         /* the cotangent */
	double scalar;         /* a, in form [1] */
	double number[2];      /* P(0), P(1) */
	size_t n;
};
typedef void kernel(const struct kernel_args *args);

/* One step of a run in registers: a cheap operation by a scalar, or a loop over the steps before. */
struct run_step {
	uint32_t op; /* enum op, or OP_COUNT: jump back to `target` while iterations are left */
	uint32_t target;
	uint64_t iterations; /* of the loop, at the step that closes it: the body runs this many times in all (>= 1) */
	double scalar;       /* the operand, where the operation has one */
	double number[2];
};
enum { RUN_MAX_STEPS = 4096, RUN_MAX_DEPTH = 8 };

struct kernels {
	const char *isa;                   /* "avx512", "avx2", "baseline" (SSE2), "portable" */
	enum dtype dtype;                  /* F32 or F64 */
	kernel *forward[OP_COUNT][2];      /* NULL for general operations */
	kernel *forward_keep[OP_COUNT][2]; /* the same, and what is kept; NULL where nothing is computed */
	kernel *vjp_v[OP_COUNT][2];        /* dv from g and needs_v; NULL where not differentiable */
	kernel *vjp_a[OP_COUNT][2];        /* da, before any sum over broadcast axes */
	/* dst[i] += src[i] */
	void (*accumulate)(void *dst, const void *src, size_t n);
	/* hi[i] += src[i] in double, the rounding errors into lo[i] where LO is there: Neumaier's sum */
	void (*accumulate_wide)(double *hi, double *lo, const void *src, size_t n);
	/* Pairwise sum of n elements, in double lanes where dtype is F32; fixed order whatever the instruction set. */
	double (*sum)(const void *v, size_t n);
	/* dst[i] = value */
	void (*fill)(void *dst, double value, size_t n);
	/*
	 * Runs STEPS over the block from V to OUT keeping a tile of 16 (AVX-512), 10 (AVX2) or
	 * 8 vectors in registers through all of them. Bit-equal to the kernels one after another. COUNT <=
	 * RUN_MAX_STEPS; takes some 64 KiB of stack.
	 */
	void (*run)(void *out, const void *v, const struct run_step *steps, size_t count, size_t n);
	/* f32 <-> f64; rounding to f16 and bf16 and back in the same type. */
	void (*to_f32)(float *out, const void *v, size_t n);
	void (*to_f64)(double *out, const void *v, size_t n);
	void (*round_f16)(void *out, const void *v, size_t n);
	void (*round_bf16)(void *out, const void *v, size_t n);
};

/* Whether OP may stand in a run: FLOPS below 8, at most one scalar operand. */
bool op_runs_in_registers(enum op op);

/*
 * The best tables for this processor. CKPTC_ISA in the environment (avx512,
 * avx2, baseline, portable) forces a lesser one, for tests. F32 or F64.
 */
const struct kernels *kernels_get(enum dtype dtype);
/* All that this processor can run, best first, for tests: up to 4; the count. */
size_t kernels_all(enum dtype dtype, const struct kernels *tables[4]);

#endif
