/*
 * glibc's own finding at program start is used where it is public: in a virtual machine
 * each cpuid instruction traps to the host, which takes some 4 us.
 */
#include "base/processor.h"

#if defined(__x86_64__)
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#else
#include <cpuid.h>
#endif
#endif

bool processor_has_f16c(void)
{
#if defined(__x86_64__) && defined(CPU_FEATURE_ACTIVE)
	return CPU_FEATURE_ACTIVE(F16C);
#elif defined(__x86_64__)
	unsigned a, b, c = 0, d;
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
#else
	return false;
#endif
}
