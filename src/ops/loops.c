/*
 * Finds the inner loops for a table of kernels, so that one choice of instruction
 * set (kernels_get) serves both.
 */
#include "ops/loops.h"

#include <string.h>

const struct loops *loops_get(const struct kernels *kernels)
{
	int type = kernels->dtype == DTYPE_F64;
#if defined(__x86_64__)
	if (!strcmp(kernels->isa, "avx512"))
		return loops_avx512[type];
	if (!strcmp(kernels->isa, "avx2"))
		return loops_avx2[type];
#endif
	return loops_portable[type];
}
