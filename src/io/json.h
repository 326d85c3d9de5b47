/* What is shared by those who read JSON. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Whether it was for want of memory that a text was not loaded, given the ERROR that came of it. */
bool json_lacked_memory(const json_error_t *error);

#endif
