/*
 * A copy of an input array that is read more than once and cannot be: that of a pipe, or of a file that the output
 * overwrites. The first pass writes it to an unnamed file, as values of the computing type.
 */
#ifndef EXEC_INPUT_COPY_H
#define EXEC_INPUT_COPY_H

#include "base/diag.h"

struct input_copy {
	int fd; /* -1: there is no copy */
	const char *directory;
	bool complete; /* all has been written, and reads may begin */
	int64_t bytes; /* written so far, in the order of the array */
};

/* Opens an unnamed file in DIRECTORY; NULL: in TMPDIR, or else in /tmp. Fails with STATUS_IO. */
enum status input_copy_open(struct input_copy *copy, const char *directory, struct diags *diags);
/* Appends SIZE bytes. Fails with STATUS_IO. */
enum status input_copy_write(struct input_copy *copy, const void *from, int64_t size, struct diags *diags);
/* Reads SIZE bytes from byte OFFSET on, from any thread. Fails with STATUS_IO. */
enum status input_copy_read(const struct input_copy *copy, int64_t offset, void *to, int64_t size, struct diags *diags);
void input_copy_close(struct input_copy *copy);

#endif
