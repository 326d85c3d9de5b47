/*
 * C converts no pointer to an object into one to a function, and to write the one
 * through a pointer to the other would break the rules of aliasing; POSIX says that
 * both have one size and form, so the bytes are copied.
 */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

bool library_find(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);
	memcpy(function, &symbol, sizeof symbol);
	return symbol != NULL;
}
