/*
 * Chooses the kernel tables that this processor runs best.
 *
 * Each call chooses by CKPTC_ISA and the processor's features. The compiler's run time and glibc
 * cache the features, so a choice costs little, and needs no global variable and no ifunc.
 * The AVX-512 and AVX2 tables need every feature that their files are compiled for, and
 * an operating system that saves the registers; __builtin_cpu_supports checks both.
 * Tests: tests/unit/test_kernels.c
 */
#include "ops/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/system.h"

bool op_runs_in_registers(enum op op)
{
	return op < OP_COUNT && op_table[op].class != OP_CLASS_GENERAL && op_table[op].operands < 2 &&
	       op_table[op].flops < 8;
}

size_t kernels_all(enum dtype dtype, const struct kernels *tables[4])
{
	size_t count = 0;

#define TABLE(ISA) (dtype == DTYPE_F64 ? &kernels_##ISA##_f64 : &kernels_##ISA##_f32)
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
		tables[count++] = TABLE(avx512);
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && processor_has_f16c())
		tables[count++] = TABLE(avx2);
	tables[count++] = TABLE(baseline);
#endif
	tables[count++] = TABLE(portable);
	return count;
}

const struct kernels *kernels_get(enum dtype dtype)
{
	const struct kernels *tables[4];
	const size_t count = kernels_all(dtype, tables);
	const char *name = getenv("CKPTC_ISA");

	/* an unknown name, or one whose set the processor lacks, is ignored */
	for (size_t i = 0; name && i < count; i++)
		if (strcmp(tables[i]->isa, name) == 0)
			return tables[i];
	return tables[0];
}
