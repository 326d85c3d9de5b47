/* The processor's time, which another program's work beside a test does not lengthen. */
#ifndef TESTS_PROCESSOR_H
#define TESTS_PROCESSOR_H

#include <time.h>

/* Seconds that this process has taken so far, of all its threads. */
static inline double processor_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
