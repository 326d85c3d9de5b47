/* Tests: tests/unit/test_base.c, tests/cases/cli.test */
#include "base/system.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#if defined(__x86_64__)
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#else
#include <cpuid.h>
#endif
#endif

int system_processors(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set) == 0)
		return CPU_COUNT(&set);
	const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than a cpu_set_t holds */
	return online > 0 ? (int)online : 1;
}

double clock_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int64_t system_cache_bytes(void)
{
	const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
	return bytes > 0 ? bytes : 1 << 20;
}

unsigned flush_begin(bool wanted)
{
	unsigned before = 0;
#if defined(__SSE2__)
	enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x40 };
	before = _mm_getcsr();
	if (wanted)
		_mm_setcsr(before | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#endif
	(void)wanted;
	return before;
}

void flush_end(unsigned before)
{
#if defined(__SSE2__)
	_mm_setcsr(before);
#endif
	(void)before;
}

#if defined(__x86_64__)

/* fegetenv and fesetenv take 160 ns. These functions take 10 ns if nothing has changed. */
struct float_state float_state_get(void)
{
	struct float_state state = {.sse = _mm_getcsr()};
	__asm__ volatile("fnstcw %0" : "=m"(state.x87));
	return state;
}

void float_state_set(const struct float_state *state)
{
	const struct float_state now = float_state_get();
	if (now.sse != state->sse)
		_mm_setcsr(state->sse);
	if (now.x87 != state->x87)
		__asm__ volatile("fnclex; fldcw %0" ::"m"(state->x87)); /* a pending exception would trap */
	/* A value that an object has left in an x87 register makes later results NaN. Functions rely on the direction flag. */
	__asm__ volatile("emms; cld" ::: "cc");
}

#else

struct float_state float_state_get(void)
{
	struct float_state state;
	fegetenv(&state.all);
	return state;
}

void float_state_set(const struct float_state *state) { fesetenv(&state->all); }

#endif

/*
 * clang 14 has no __builtin_cpu_supports for F16C. glibc asks the processor at program start, and newer versions of
 * glibc publish the answer. In a virtual machine a further cpuid instruction traps to the host, which takes about 4 us.
 */
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

/*
 * C does not convert a pointer to an object into a pointer to a function, and its aliasing rules forbid writing the one
 * as the other. POSIX gives both the same size and representation, so the bytes are copied.
 */
bool library_find(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);
	memcpy(function, &symbol, sizeof symbol);
	return symbol != NULL;
}

int64_t system_read_number(const char *path, const char *key)
{
	char line[PATH_MAX];
	long long number = -1;
	FILE *file = fopen(path, "re");
	while (file && number < 0 && fgets(line, sizeof line, file))
		if (!strncmp(line, key, strlen(key)))
			(void)sscanf(line + strlen(key), "%lld", &number);
	if (file)
		fclose(file);
	return number;
}

/*
 * Control groups. /proc/self/cgroup gives a group's full path, but in a container the mount may have only the end of
 * that path, or only its top. So missing folders are skipped, and all parents are read up to the mount point.
 */

/* A version of control groups: its mount point, and the names of the files with a group's limit and use. */
struct version {
	const char *folder, *most, *used;
};
static const struct version versions[] = {
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
	{"/sys/fs/cgroup", "memory.max", "memory.current"},
};

/* Lowers MEMORY to the limits of GROUP, a path, and its parents. Leaves GROUP empty. */
static void add_groups(struct group_memory *memory, const char *root, const struct version *version, char *group)
{
	char path[2 * PATH_MAX];
	for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
		*end = '\0';
		snprintf(path, sizeof path, "%s%s%s/%s", root, version->folder, group, version->most);
		const int64_t most = system_read_number(path, "");
		snprintf(path, sizeof path, "%s%s%s/%s", root, version->folder, group, version->used);
		const int64_t used = system_read_number(path, ""), left = most > used ? most - used : 0;
		if (most >= 0 && most < memory->most)
			memory->most = most;
		if (most >= 0 && left < memory->remaining)
			memory->remaining = left;
	}
}

/* True if CONTROLLERS, a list separated by commas, names the memory controller. */
static bool has_memory(const char *controllers)
{
	static const char name[] = "memory";
	for (const char *at = controllers; (at = strstr(at, name)); at++) {
		const char after = at[sizeof name - 1];
		if ((at == controllers || at[-1] == ',') && (!after || after == ','))
			return true;
	}
	return false;
}

struct group_memory system_group_memory(const char *root)
{
	struct group_memory memory = {INT64_MAX, INT64_MAX};
	char line[PATH_MAX];
	snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
	FILE *file = fopen(line, "re");
	while (file && fgets(line, sizeof line, file)) { /* NUMBER:CONTROLLERS:GROUP; no controllers in version 2 */
		line[strcspn(line, "\n")] = '\0';
		char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*group++ = '\0';
		if (!controllers[1])
			add_groups(&memory, root, &versions[1], group);
		else if (has_memory(controllers + 1))
			add_groups(&memory, root, &versions[0], group);
	}
	if (file)
		fclose(file);
	return memory;
}
