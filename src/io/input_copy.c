/* Tests: tests/cases/folds.test, tests/cases/text.test */
#include "io/input_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/stream.h"

static enum status fail_copy(const struct input_copy *copy, const char *what, struct diags *diags)
{
	const int error = errno;
	diag_file(diags, STATUS_IO, copy->directory, -1, "cannot %s a copy of the input: %s", what, strerror(error));
	return diag_hint(diags, "%s; --spill DIR names another directory, and a file with -i needs no copy", copy->why);
}

enum status input_copy_open(struct input_copy *copy, const char *directory, const char *why, struct diags *diags)
{
	const char *set = getenv("TMPDIR");
	*copy = (struct input_copy){.directory = directory ? directory : set && *set ? set : "/tmp", .why = why};
	copy->fd = io_make_nameless(copy->directory);
	return copy->fd < 0 ? fail_copy(copy, "make", diags) : STATUS_OK;
}

enum status input_copy_write(struct input_copy *copy, const void *from, int64_t size, struct diags *diags)
{
	if (!io_write_at(copy->fd, copy->bytes, from, (size_t)size))
		return fail_copy(copy, "write", diags);
	copy->bytes += size;
	return STATUS_OK;
}

enum status input_copy_read(const struct input_copy *copy, int64_t offset, void *to, int64_t size, struct diags *diags)
{
	size_t got = 0;
	errno = 0;
	if (!io_read_at(copy->fd, offset, to, (size_t)size, &got) || got < (size_t)size)
		return fail_copy(copy, "read", diags);
	return STATUS_OK;
}

void input_copy_close(struct input_copy *copy)
{
	if (copy->fd >= 0)
		close(copy->fd);
	copy->fd = -1;
}
