/* libzip's functions, found by name. */
#include "io/libzip.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/library.h"

static struct {
	pthread_once_t once;
	bool open, memory; /* whether it is open, and whether what it wanted for that was memory */
	char reason[200];  /* a copy: dlerror's own is the thread's, and changes */
	struct libzip functions;
} libzip = {.once = PTHREAD_ONCE_INIT};

/* Whether there is room for the library and for those that it wants. The dynamic linker says in words alone what failed. */
static bool has_room(void)
{
	enum { ROOM_MIB = 8 }; /* some 6 on Debian 12 */
	void *room = mmap(NULL, (size_t)ROOM_MIB << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return false;
	munmap(room, (size_t)ROOM_MIB << 20);
	return true;
}

static void load(void)
{
	void *handle = dlopen(LIBZIP_SONAME, RTLD_NOW | RTLD_LOCAL);
	libzip.memory = !handle && !has_room();
	libzip.open = handle != NULL;
#define FIND(NAME) libzip.open = libzip.open && library_find(handle, "zip_" #NAME, &libzip.functions.NAME);
	LIBZIP_FUNCTIONS(FIND)
#undef FIND
	const char *reason = libzip.open ? NULL : dlerror();
	snprintf(libzip.reason, sizeof libzip.reason, "%s", reason ? reason : LIBZIP_SONAME " cannot be opened");
}

const struct libzip *libzip_get(const char **reason, bool *memory)
{
	pthread_once(&libzip.once, load);
	*reason = libzip.reason;
	*memory = libzip.memory;
	return libzip.open ? &libzip.functions : NULL;
}
