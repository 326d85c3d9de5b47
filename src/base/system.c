/*
 * Control groups. /proc/self/cgroup gives a group's full name, but a container may have
 * only the end of that path mounted, or only its top. So a missing folder is passed over,
 * and its parents are read up to the top of the mount.
 */
#include "base/system.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

/* A version of control groups: its mount point, and its files of a group's limit and use. */
struct version {
	const char *folder, *most, *used;
};
static const struct version versions[] = {
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
	{"/sys/fs/cgroup", "memory.max", "memory.current"},
};

/* Lowers MEMORY to the limits of GROUP and its parents. Cuts GROUP. */
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
		if (most >= 0 && left < memory->left)
			memory->left = left;
	}
}

/* True if CONTROLLERS, a list with commas, names the memory controller. */
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
	while (file && fgets(line, sizeof line, file)) { /* NUMBER:CONTROLLERS:GROUP; version 2 names no controllers */
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
