/* Functions of libraries that are opened while the program runs. */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <stdbool.h>

/*
 * Writes the address of NAME in LIBRARY, a handle of dlopen, to FUNCTION, a pointer
 * to a pointer to a function; NULL, and false, where there is none (dlerror says why).
 */
bool library_find(void *library, const char *name, void *function);

#endif
