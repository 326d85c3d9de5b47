/* What is shared by those who read JSON. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Whether a text that was not loaded, with ERROR, was not for want of memory. */
bool json_lacked_memory(const json_error_t *error);

#endif
