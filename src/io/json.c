/*
 * Jansson's scanner leaves out the bytes that it had no memory for, and goes on: what comes
 * of it is a wrong token or another number, and where that was the end of a string it reads
 * past it. So a request that is refused ends the reading there and then, and what jansson
 * had taken until then is given back here: its blocks are listed while it reads.
 */
#include "io/json.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* What stands before each block that jansson has. */
struct block {
	alignas(max_align_t) struct block *next;
	struct block **link; /* what points to it, of one that was had while a text was read, until that ends */
};

/* The reading that goes on in this thread. */
static _Thread_local struct {
	jmp_buf refused;
	struct block *blocks;
	bool goes_on;
} reading;

static void *take(size_t size)
{
	struct block *block = size <= SIZE_MAX - sizeof *block ? malloc(sizeof *block + size) : NULL;
	if (!block && reading.goes_on)
		longjmp(reading.refused, 1);
	if (!block)
		return NULL;
	block->link = NULL;
	if (reading.goes_on) {
		block->next = reading.blocks;
		block->link = &reading.blocks;
		if (block->next)
			block->next->link = &block->next;
		reading.blocks = block;
	}
	return block + 1;
}

static void give_back(void *bytes)
{
	if (!bytes)
		return;
	struct block *block = (struct block *)bytes - 1;
	if (reading.goes_on && block->link) {
		*block->link = block->next;
		if (block->next)
			block->next->link = block->link;
	}
	free(block);
}

/* Ends the reading: its blocks are given back where it had no memory for all, else on no list. */
static void end_reading(bool refused)
{
	reading.goes_on = false;
	for (struct block *block = reading.blocks, *next; block; block = next) {
		next = block->next;
		block->link = NULL;
		if (refused)
			free(block);
	}
}

json_t *json_read(const char *text, size_t length, json_error_t *error, bool *memory)
{
	json_set_alloc_funcs(take, give_back);
	reading.blocks = NULL;
	reading.goes_on = true;
	if (setjmp(reading.refused) != 0) {
		end_reading(true);
		*memory = true;
		return NULL;
	}
	json_t *read = json_loadb(text, length, JSON_REJECT_DUPLICATES, error);
	end_reading(false);
	*memory = false;
	return read;
}
