/*
 * The kernel tables of each instruction set, from kernels_ISA.c, which is built with the
 * flags of that set. kernels.c chooses among them.
 */
#ifndef OPS_KERNELS_ISA_H
#define OPS_KERNELS_ISA_H

#include "ops/kernels.h"

/* [0] F32, [1] F64 */
extern const struct kernels *const kernels_portable[2];
#if defined(__x86_64__)
extern const struct kernels *const kernels_avx512[2];
extern const struct kernels *const kernels_avx2[2];
extern const struct kernels *const kernels_baseline[2];
#endif

#endif
