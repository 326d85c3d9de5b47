/* A clock that never goes back. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* Seconds since some moment before the program began, to a few nanoseconds. */
double clock_seconds(void);

#endif
