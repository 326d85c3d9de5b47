/* What is shared by those who read JSON. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* The LENGTH bytes of TEXT, with no key twice; or NULL: for want of *MEMORY, else *ERROR says why. */
json_t *json_read(const char *text, size_t length, json_error_t *error, bool *memory);

#endif
