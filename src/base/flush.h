/* Denormals flushed to zero, of this thread, where the processor can. */
#ifndef BASE_FLUSH_H
#define BASE_FLUSH_H

#include <stdbool.h>

/* Flush-to-zero and denormals-are-zero if WANTED; returns what was set before, for flush_end. */
unsigned flush_begin(bool wanted);
void flush_end(unsigned before);

#endif
