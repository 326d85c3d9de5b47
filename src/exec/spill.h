/*
 * States on disk: one file in a directory of the user's, without a name (it is
 * unlinked as soon as it is open, so that no end of the program leaves it
 * behind), with a checksum for each array that is brought back.
 */
#ifndef EXEC_SPILL_H
#define EXEC_SPILL_H

#include "base/diag.h"

#include <stdint.h>

struct spill_region {
	int64_t offset;
	size_t size, room; /* bytes written; bytes of the place */
	uint64_t checksum;
};

struct spill {
	int fd; /* -1: not open */
	const char *directory;
	struct spill_region *regions; /* by slot * SPILL_ARRAYS + index */
	size_t capacity;
	int64_t end;
	const struct allocator *allocator;
};
enum { SPILL_ARRAYS = 64 }; /* arrays of a state at most */

/* Opens the file. WANTED bytes must be free in DIRECTORY. STATUS_IO. */
enum status spill_open(struct spill *spill, const char *directory, int64_t wanted, const struct allocator *allocator,
                       struct diags *diags);
/* Writes SIZE bytes as array INDEX of SLOT, over what was there. */
enum status spill_write(struct spill *spill, int64_t slot, size_t index, const void *from, size_t size,
                        struct diags *diags);
/* Reads them back; STATUS_IO where they are short or are not what was written. */
enum status spill_read(struct spill *spill, int64_t slot, size_t index, void *to, size_t size, struct diags *diags);
void spill_close(struct spill *spill);

#endif
