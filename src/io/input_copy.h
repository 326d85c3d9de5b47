/*
 * A copy of an input array in an unnamed file. A run in passes makes one, of values of the computing type, if it cannot
 * read the input again: that of a pipe, or of a file that the output overwrites. A reader copies the numbers of a long text
 * from such an input, since its end alone gives their number.
 */
#ifndef IO_INPUT_COPY_H
#define IO_INPUT_COPY_H

#include "base/diag.h"

struct input_copy {
	int fd;                      /* -1: there is no copy */
	const char *directory, *why; /* WHY: the copy is made; for messages */
	bool complete;               /* all has been written, and reads may begin */
	int64_t bytes;               /* written so far, in the order of the array */
};

/* Opens an unnamed file in DIRECTORY; NULL: in TMPDIR, or else in /tmp. Fails with STATUS_IO. */
enum status input_copy_open(struct input_copy *copy, const char *directory, const char *why, struct diags *diags);
/* Appends SIZE bytes. Fails with STATUS_IO. */
enum status input_copy_write(struct input_copy *copy, const void *from, int64_t size, struct diags *diags);
/* Reads SIZE bytes from byte OFFSET on, from any thread. Fails with STATUS_IO. */
enum status input_copy_read(const struct input_copy *copy, int64_t offset, void *to, int64_t size, struct diags *diags);
void input_copy_close(struct input_copy *copy);

#endif
