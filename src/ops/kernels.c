/*
 * Chooses the kernel tables that this processor runs best.
 *
 * The choice is computed at each call from the processor's features, which the
 * compiler's run time and glibc cache: a few loads, no global of our own, no ifunc. The
 * AVX-512 and AVX2 tables are offered only where every feature that their files
 * are compiled for is there, the operating system's saving of the registers
 * included (__builtin_cpu_supports looks at both).
 */
#include "ops/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "ops/kernels_isa.h"

bool op_runs_in_registers(enum op op)
{
	static const bool runs[OP_COUNT] = {
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, ...) [OP_##NAME] = (FLOPS) < 8,
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, ...) [OP_##NAME] = (FLOPS) < 8,
#define GENERAL(NAME, ...) [OP_##NAME] = false,
#include "ops/ops.def"
	};
	return op < OP_COUNT && runs[op];
}

size_t kernels_all(enum dtype dtype, const struct kernels *tables[4])
{
	const int index = dtype == DTYPE_F64;
	size_t count = 0;

#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
		tables[count++] = kernels_avx512[index];
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && processor_has_f16c())
		tables[count++] = kernels_avx2[index];
	tables[count++] = kernels_baseline[index];
#endif
	tables[count++] = kernels_portable[index];
	return count;
}

const struct kernels *kernels_get(enum dtype dtype)
{
	const struct kernels *tables[4];
	const size_t count = kernels_all(dtype, tables);
	const char *name = getenv("CKPTC_ISA");

	/* a name that is unknown or that the processor lacks leaves the best */
	for (size_t i = 0; name && i < count; i++)
		if (strcmp(tables[i]->isa, name) == 0)
			return tables[i];
	return tables[0];
}
