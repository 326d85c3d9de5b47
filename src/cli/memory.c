#include "cli/session.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/system.h"

int64_t session_memory_available(void)
{
	static const struct {
		int resource;
		const char *used; /* in /proc/self/status, KiB */
	} limits[] = {{RLIMIT_AS, "VmSize:"}, {RLIMIT_DATA, "VmData:"}};
	const int64_t kib = system_read_number("/proc/meminfo", "MemAvailable:"), group = system_group_memory("").left;
	const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	int64_t bytes = kib > 0 ? kib << 10 : pages > 0 ? (int64_t)pages * size : 0;
	if (group < bytes)
		bytes = group;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct rlimit limit;
		if (getrlimit(limits[i].resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
			continue;
		const int64_t used = system_read_number("/proc/self/status", limits[i].used) * 1024;
		const int64_t left = (int64_t)limit.rlim_cur > used ? (int64_t)limit.rlim_cur - used : 0;
		if (left < bytes)
			bytes = left;
	}
	return bytes;
}

size_t session_memory_most(void)
{
	struct sysinfo info;
	if (sysinfo(&info) != 0)
		return SIZE_MAX;
	const double machine = ((double)info.totalram * 7 / 8 + (double)info.totalswap) * (double)info.mem_unit;
	const double groups = (double)system_group_memory("").most * 7 / 8, bytes = groups < machine ? groups : machine;
	return bytes < (double)SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}
