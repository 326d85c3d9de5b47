/* A feature of the processor that clang 14 has no __builtin_cpu_supports for. */
#ifndef BASE_PROCESSOR_H
#define BASE_PROCESSOR_H

#include <stdbool.h>

/* True if it converts between halves and floats (F16C), and the system saves the registers for that. */
bool processor_has_f16c(void);

#endif
