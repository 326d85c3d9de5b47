/* The monotonic clock: it does not follow the time of day when that is set. */
#include "base/clock.h"

#include <time.h>

double clock_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
