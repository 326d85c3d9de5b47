/* libzip's functions, found by name. */
#include "io/libzip.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/library.h"

static struct {
	pthread_once_t once;
	bool open;
	char reason[200]; /* a copy: dlerror's own is the thread's, and changes */
	struct libzip functions;
} libzip = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
	void *handle = dlopen(LIBZIP_SONAME, RTLD_NOW | RTLD_LOCAL);
	libzip.open = handle != NULL;
#define FIND(NAME) libzip.open = libzip.open && library_find(handle, "zip_" #NAME, &libzip.functions.NAME);
	LIBZIP_FUNCTIONS(FIND)
#undef FIND
	const char *reason = libzip.open ? NULL : dlerror();
	snprintf(libzip.reason, sizeof libzip.reason, "%s", reason ? reason : LIBZIP_SONAME " cannot be opened");
}

const struct libzip *libzip_get(const char **reason)
{
	pthread_once(&libzip.once, load);
	*reason = libzip.reason;
	return libzip.open ? &libzip.functions : NULL;
}
