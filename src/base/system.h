/* The clock, the processor's state and features, shared libraries, and numbers that the kernel reports in files. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#if !defined(__x86_64__)
#include <fenv.h>
#endif
#include <stdbool.h>
#include <stdint.h>

/* Returns the seconds since a fixed moment before the program began. Changes of the time of day do not affect them. */
double clock_seconds(void);

/* Returns how many processors this process may run on, at least 1. */
int system_processors(void);

/* Returns the bytes of the second-level cache of one processor; 1 MiB if the system does not say. */
int64_t system_cache_bytes(void);

/*
 * If WANTED, and if the processor can, makes this thread treat denormal operands and results as zero. Returns the
 * former setting, which the caller passes to flush_end.
 */
unsigned flush_begin(bool wanted);
void flush_end(unsigned before);

/* How this thread rounds, what it takes for zero, which exceptions trap, and so on. */
struct float_state {
#if defined(__x86_64__)
	unsigned sse;
	unsigned short x87;
#else
	fenv_t all;
#endif
};
struct float_state float_state_get(void);
/* Makes STATE this thread's again, and empties the x87 stack. It does not raise exceptions. */
void float_state_set(const struct float_state *state);

/* True if the processor converts between halves and floats (F16C), and the system saves the registers for that. */
bool processor_has_f16c(void);

/*
 * Writes the address of NAME in LIBRARY, a handle of dlopen, to FUNCTION, a pointer to a pointer to a function. If
 * LIBRARY has no such function, writes NULL and returns false; dlerror gives the reason.
 */
bool library_find(void *library, const char *name, void *function);

/* Returns the first number after KEY at the start of a line of the file PATH; -1 if none. KEY "" matches each line. */
int64_t system_read_number(const char *path, const char *key);

/* The memory limit of a control group, and what remains of it, in bytes. Both are INT64_MAX if there is no limit. */
struct group_memory {
	int64_t most, remaining;
};

/*
 * Returns the least limit and the least rest over the process's control groups, of version 1 and 2, and their parents.
 * ROOT is the folder that holds proc and sys: "" except in tests.
 */
struct group_memory system_group_memory(const char *root);

#endif
