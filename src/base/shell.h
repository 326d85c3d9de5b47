/* Commands in messages, which a user can paste into a POSIX shell. */
#ifndef BASE_SHELL_H
#define BASE_SHELL_H

#include "base/arena.h"

#include <stdarg.h>

/*
 * Returns FORMAT, in ARENA, in which each %s is replaced by one of the strings that follow, as one word of the shell. A
 * word that begins with "-" gets "./" before it, since commands would take it for an option: words are names of files.
 * Messages show the result as it is: a byte that they would escape is written as `printf` of the shell takes it. A word
 * that messages would shorten becomes "...". FORMAT has no other directive. NULL if out of memory.
 */
__attribute__((format(printf, 2, 3))) const char *shell_printf(struct arena *arena, const char *format, ...);
const char *shell_vprintf(struct arena *arena, const char *format, va_list arguments);

#endif
