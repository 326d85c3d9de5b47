/* An array as NumPy prints it, for people at terminals. */
#ifndef IO_PRINT_H
#define IO_PRINT_H

#include "io/array.h"

/* Prints VALUES (w->count of them, of w->type's shape) through the writer. */
enum status print_array(struct writer *writer, const double *values, struct diags *diags);
enum status writer_put_text(struct writer *writer, const char *text, struct diags *diags);

#endif
