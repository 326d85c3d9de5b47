/*
 * Element-wise kernels: a table for each instruction set and computing type, made from
 * ops.def by kernels_template.h. A kernel computes N elements that lie one after another.
 *
 * A kernel of a binary operation has two forms: [0] with an operand array, [1] with one
 * number, SCALAR, for all elements.
 */
#ifndef OPS_KERNELS_H
#define OPS_KERNELS_H

#include "ops/op.h"

#include <stddef.h>
#include <stdint.h>

#define MAYBE_UNUSED __attribute__((unused))

struct kernel_args {
	void *out;             /* the result: y, dv or da; may be an input block of the same type */
	void *keep[MAX_KEEPS]; /* of forward_keep: K and L; a mask has element 0 in bit 0 of byte 0 */
	const void *v, *a, *y; /* inputs; a derivative gets those of its NEEDS, the others are NULL */
	const void *k, *l;     /* kept values or masks */
	const void *g;         /* the cotangent */
	double scalar;         /* a, in form [1] */
	double number[2];      /* P(0), P(1) */
	size_t n;
};
typedef void kernel(const struct kernel_args *args);

/* One step of a run in registers: a cheap operation with a scalar, or the end of a loop over the steps before. */
struct run_step {
	uint32_t op; /* enum op, or OP_COUNT: jump to `target` while iterations are left */
	uint32_t target;
	uint64_t iterations; /* of the loop, in the step that ends it; at least 1 */
	double scalar;       /* the operand, if the operation has one */
	double number[2];
};
enum { RUN_MAX_STEPS = 4096, RUN_MAX_DEPTH = 8 };

struct kernels {
	const char *isa;                   /* "avx512", "avx2", "baseline" (SSE2), "portable" */
	enum dtype dtype;                  /* F32 or F64 */
	kernel *forward[OP_COUNT][2];      /* NULL for general operations */
	kernel *forward_keep[OP_COUNT][2]; /* also stores K and L; NULL if the operation computes none */
	kernel *vjp_v[OP_COUNT][2];        /* dv from g and NEEDS_V; NULL if not differentiable */
	kernel *vjp_a[OP_COUNT][2];        /* da, before any sum over broadcast axes */
	/* dst[i] += src[i] */
	void (*accumulate)(void *dst, const void *src, size_t n);
	/* hi[i] += src[i] in double; adds the rounding errors to lo[i] unless LO is NULL (Neumaier's sum) */
	void (*accumulate_wide)(double *hi, double *lo, const void *src, size_t n);
	/* Pairwise sum of n elements in double, in the same order in every instruction set. */
	double (*sum)(const void *v, size_t n);
	/* dst[i] = value */
	void (*fill)(void *dst, double value, size_t n);
	/*
	 * Runs COUNT STEPS, at most RUN_MAX_STEPS, from V to OUT. A tile of 16 (AVX-512), 10 (AVX2)
	 * or 8 vectors stays in registers through all steps. The bits are those of the kernels one
	 * after another. Needs some 64 KiB of stack.
	 */
	void (*run)(void *out, const void *v, const struct run_step *steps, size_t count, size_t n);
	/* f32 <-> f64; rounding to f16 and bf16 and back in the same type. */
	void (*to_f32)(float *out, const void *v, size_t n);
	void (*to_f64)(double *out, const void *v, size_t n);
	void (*round_f16)(void *out, const void *v, size_t n);
	void (*round_bf16)(void *out, const void *v, size_t n);
};

/* True if a run may have OP: FLOPS below 8, and at most one scalar operand. */
bool op_runs_in_registers(enum op op);

/*
 * The best table for this processor, of F32 or F64. CKPTC_ISA in the environment (avx512,
 * avx2, baseline, portable) forces another one that the processor can run, for tests.
 */
const struct kernels *kernels_get(enum dtype dtype);
/* Stores the tables that this processor can run, the best first. Returns their count. For tests. */
size_t kernels_all(enum dtype dtype, const struct kernels *tables[4]);

#endif
