/*
 * Jansson's scanner leaves out the bytes that it had no memory for, and goes on: what comes
 * of it is called a wrong token, or is another number. So its requests are watched.
 */
#include "io/json.h"

#include <stdlib.h>

static _Thread_local bool lacked;

static void *watch(size_t size)
{
	void *block = malloc(size);
	lacked |= !block;
	return block;
}

json_t *json_read(const char *text, size_t length, json_error_t *error, bool *memory)
{
	lacked = false;
	json_set_alloc_funcs(watch, free);
	json_t *read = json_loadb(text, length, JSON_REJECT_DUPLICATES, error);
	*memory = lacked;
	if (lacked)
		json_decref(read);
	return lacked ? NULL : read;
}
