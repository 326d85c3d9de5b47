/* Flushing of denormal numbers to zero in this thread, where the processor can do that. */
#ifndef BASE_FLUSH_H
#define BASE_FLUSH_H

#include <stdbool.h>

/* Sets flush-to-zero and denormals-are-zero if WANTED; returns the former setting, for flush_end. */
unsigned flush_begin(bool wanted);
void flush_end(unsigned before);

#endif
