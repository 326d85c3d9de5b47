/* The machine below: its clock, the processor's state and features, libraries, and the kernel's figures. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds since some moment before the program began, to a few nanoseconds. They do not follow the time of day. */
double clock_seconds(void);

/*
 * Flushes denormal numbers to zero in this thread, as operands and results, if WANTED and if the processor can.
 * Returns the former setting, for flush_end.
 */
unsigned flush_begin(bool wanted);
void flush_end(unsigned before);

/* True if the processor converts between halves and floats (F16C), and the system saves the registers for that. */
bool processor_has_f16c(void);

/*
 * Writes the address of NAME in LIBRARY, a handle of dlopen, to FUNCTION, a pointer
 * to a pointer to a function; NULL, and false, where there is none (dlerror says why).
 */
bool library_find(void *library, const char *name, void *function);

/* Returns the number after KEY at the start of a line of the file PATH, the first number if KEY is ""; else -1. */
int64_t system_read_number(const char *path, const char *key);

/* The limit of a control group in bytes, and the bytes left of it; INT64_MAX: no limit. */
struct group_memory {
	int64_t most, left;
};

/*
 * Returns the least values over the process's groups of version 1 and 2 and their parents. ROOT holds proc and sys;
 * it is "" except in tests.
 */
struct group_memory system_group_memory(const char *root);

#endif
