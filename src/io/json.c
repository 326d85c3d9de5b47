/* Jansson tells of memory in two ways: by its code, and where its scanner has none by no text at all. */
#include "io/json.h"

bool json_lacked_memory(const json_error_t *error)
{
	return json_error_code(error) == json_error_out_of_memory || !error->text[0];
}
