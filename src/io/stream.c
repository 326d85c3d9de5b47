/*
 * Descriptors. Every read and write of the program goes through here, where
 * interruptions, non-blocking descriptors and short transfers are dealt with.
 *
 * The one mutable global of the library is the list of temporaries that are
 * open: a signal handler has nothing else to find them by. It is a fixed array of
 * paths that are published and withdrawn with atomic stores.
 */
#include "io/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_AHEAD = (64 << 10) + 64, PIPE_SIZE = 1 << 20, MAX_TEMPORARIES = 64 };

static _Atomic(char *) temporaries[MAX_TEMPORARIES];

static void publish(char *path)
{
	for (int i = 0; i < MAX_TEMPORARIES; i++) {
		char *none = NULL;
		if (atomic_compare_exchange_strong(&temporaries[i], &none, path))
			return;
	}
}

static void withdraw(char *path)
{
	for (int i = 0; i < MAX_TEMPORARIES; i++) {
		char *mine = path;
		if (atomic_compare_exchange_strong(&temporaries[i], &mine, NULL))
			return;
	}
}

void io_cleanup(void)
{
	for (int i = 0; i < MAX_TEMPORARIES; i++) {
		char *path = atomic_exchange(&temporaries[i], NULL);
		if (path)
			unlink(path);
	}
}

static enum status failed(const char *name, int64_t offset, const char *what, struct diags *diags)
{
	return diag_file(diags, STATUS_IO, name, offset, "%s: %s", what, strerror(errno));
}

/* Waits until a non-blocking descriptor is ready. */
static void wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	poll(&p, 1, -1);
}

/* A descriptor above the standard ones, so that a closed standard stream never becomes a data file. */
static int lift(int fd)
{
	if (fd < 0 || fd > 2)
		return fd;
	int lifted = fcntl(fd, F_DUPFD_CLOEXEC, 3), error = errno;
	close(fd);
	errno = error;
	return lifted;
}

/* Input. */

enum status input_open(struct input *input, const char *path, bool regular_only, struct arena *arena,
                       struct diags *diags)
{
	bool standard = !path || !strcmp(path, "-");
	*input =
		(struct input){.fd = 0, .name = standard ? "<stdin>" : path, .size = -1, .owned = !standard, .arena = arena};
	struct stat st;
	if (!standard) {
		input->fd = lift(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular_only ? O_NONBLOCK : 0)));
		if (input->fd < 0)
			return failed(path, -1, "cannot open", diags);
	}
	if (fstat(input->fd, &st) != 0) {
		enum status status = failed(input->name, -1, "cannot read", diags);
		input_close(input);
		return status;
	}
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		enum status status = failed(input->name, -1, "cannot read", diags);
		input_close(input);
		return status;
	}
	if (regular_only && !S_ISREG(st.st_mode)) {
		diag_file(diags, STATUS_IO, path, -1, "not a regular file");
		diag_hint(diags, "--allow-special-files lets devices and FIFOs be read");
		input_close(input);
		return STATUS_IO;
	}
	if (S_ISREG(st.st_mode)) {
		off_t at = lseek(input->fd, 0, SEEK_CUR);
		input->base = at > 0 ? at : 0;
		input->size = st.st_size > input->base ? st.st_size - input->base : 0;
		posix_fadvise(input->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	} else if (S_ISFIFO(st.st_mode)) {
		fcntl(input->fd, F_SETPIPE_SZ, PIPE_SIZE);
	}
	return STATUS_OK;
}

void input_close(struct input *input)
{
	if (input->owned && input->fd >= 0)
		close(input->fd);
	input->fd = -1;
}

/* One read, as much as comes; 0 at the end. */
static enum status read_some(struct input *input, void *to, size_t size, size_t *got, struct diags *diags)
{
	for (;;) {
		ssize_t n = read(input->fd, to, size);
		if (n >= 0) {
			*got = (size_t)n;
			input->eof |= n == 0;
			return STATUS_OK;
		}
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			wait_for(input->fd, POLLIN);
		else if (errno != EINTR)
			return failed(input->name, input->offset, "cannot read", diags);
	}
}

enum status input_peek(struct input *input, size_t size, const unsigned char **bytes, size_t *got, struct diags *diags)
{
	if (!input->buffer) {
		input->buffer = arena_alloc(input->arena, LOOK_AHEAD);
		if (!input->buffer)
			return diag_memory(diags);
		input->capacity = LOOK_AHEAD;
	}
	if (input->begin > 0 && input->begin + size > input->capacity) {
		memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
		input->end -= input->begin;
		input->begin = 0;
	}
	while (input->end - input->begin < size && !input->eof) {
		size_t n = 0;
		/* No more than is wanted: what is not peeked can be read straight into the caller's arrays. */
		enum status status =
			read_some(input, input->buffer + input->end, size - (input->end - input->begin), &n, diags);
		if (status)
			return status;
		input->end += n;
	}
	*bytes = input->buffer + input->begin;
	*got = input->end - input->begin < size ? input->end - input->begin : size;
	return STATUS_OK;
}

void input_skip(struct input *input, size_t size)
{
	input->begin += size;
	input->offset += (int64_t)size;
	if (input->begin == input->end)
		input->begin = input->end = 0;
}

enum status input_read(struct input *input, void *to, size_t size, size_t *got, struct diags *diags)
{
	size_t have = input->end - input->begin < size ? input->end - input->begin : size;
	if (have) {
		memcpy(to, input->buffer + input->begin, have);
		input_skip(input, have);
	}
	while (have < size && !input->eof) {
		size_t n = 0;
		enum status status = read_some(input, (char *)to + have, size - have, &n, diags);
		if (status)
			return status;
		have += n;
		input->offset += (int64_t)n;
	}
	*got = have;
	return STATUS_OK;
}

enum status input_read_at(const struct input *input, int64_t offset, void *to, size_t size, size_t *got,
                          struct diags *diags)
{
	*got = 0;
	while (*got < size) {
		ssize_t n = pread(input->fd, (char *)to + *got, size - *got, input->base + offset + (int64_t)*got);
		if (n == 0)
			break;
		if (n > 0)
			*got += (size_t)n;
		else if (errno != EINTR)
			return failed(input->name, offset + (int64_t)*got, "cannot read", diags);
	}
	return STATUS_OK;
}

/* Output. */

static enum status open_directly(struct output *output, const char *path, struct diags *diags)
{
	output->fd = lift(open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY));
	return output->fd < 0 ? failed(path, -1, "cannot write", diags) : STATUS_OK;
}

/* A temporary beside TARGET, with its mode. */
static enum status open_temporary(struct output *output, const char *target, const struct stat *old,
                                  struct diags *diags)
{
	const char *slash = strrchr(target, '/');
	int length = slash ? (int)(slash - target) + 1 : 0;
	output->target = target;
	output->temporary = arena_printf(output->arena, "%.*s.ckptc-XXXXXX", length, target);
	if (!output->temporary)
		return diag_memory(diags);
	output->fd = lift(mkostemp(output->temporary, O_CLOEXEC));
	if (output->fd < 0) {
		output->temporary = NULL;
		return failed(output->name, -1, "cannot write", diags);
	}
	publish(output->temporary);
	mode_t mask = umask(0);
	umask(mask);
	if (fchmod(output->fd, old ? old->st_mode & 07777 : 0666 & ~mask) != 0) {
		enum status status = failed(output->name, -1, "cannot write", diags);
		output_abort(output);
		return status;
	}
	output->seekable = true;
	return STATUS_OK;
}

enum status output_open(struct output *output, const char *path, struct arena *arena, struct diags *diags)
{
	bool standard = !path || !strcmp(path, "-");
	*output = (struct output){.fd = 1, .name = standard ? "<stdout>" : path, .owned = !standard, .arena = arena};
	struct stat st;
	if (standard) {
		if (fstat(1, &st) != 0)
			return failed(output->name, -1, "cannot write", diags);
		if (S_ISFIFO(st.st_mode))
			fcntl(1, F_SETPIPE_SZ, PIPE_SIZE);
		off_t at = S_ISREG(st.st_mode) ? lseek(1, 0, SEEK_CUR) : -1;
		output->seekable = at >= 0 && !(fcntl(1, F_GETFL) & O_APPEND);
		output->base = at > 0 ? at : 0;
		return STATUS_OK;
	}
	if (stat(path, &st) != 0) {
		/* Nothing there, or a link to nothing: its target is made. */
		char *link = realpath(path, NULL);
		free(link);
		if (errno != ENOENT)
			return failed(path, -1, "cannot write", diags);
		return open_temporary(output, path, NULL, diags);
	}
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return failed(path, -1, "cannot write", diags);
	}
	if (!S_ISREG(st.st_mode))
		return open_directly(output, path, diags);
	if (access(path, W_OK) != 0)
		return failed(path, -1, "cannot write", diags);
	char *target = realpath(path, NULL);
	if (!target)
		return failed(path, -1, "cannot write", diags);
	const char *kept = arena_printf(arena, "%s", target);
	free(target);
	return kept ? open_temporary(output, kept, &st, diags) : diag_memory(diags);
}

enum status output_write(struct output *output, const void *from, size_t size, struct diags *diags)
{
	const char *bytes = from;
	while (size > 0) {
		ssize_t n = write(output->fd, bytes, size);
		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
			output->offset += n;
		} else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			wait_for(output->fd, POLLOUT);
		} else if (n == 0 || errno != EINTR) {
			return failed(output->name, -1, "cannot write", diags);
		}
	}
	return STATUS_OK;
}

enum status output_write_at(struct output *output, int64_t offset, const void *from, size_t size, struct diags *diags)
{
	const char *bytes = from;
	while (size > 0) {
		ssize_t n = pwrite(output->fd, bytes, size, output->base + offset);
		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
			offset += n;
		} else if (n == 0 || errno != EINTR) {
			return failed(output->name, -1, "cannot write", diags);
		}
	}
	return STATUS_OK;
}

/* A rename is durable when its directory is. */
static void sync_directory(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *copy = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	int fd = copy ? open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(copy);
}

enum status output_commit(struct output *output, struct diags *diags)
{
	if (!output->owned) /* standard output: its errors come at close for some file systems */
		return output->fd == 1 && close(dup(1)) != 0 ? failed(output->name, -1, "cannot write", diags) : STATUS_OK;
	int fd = output->fd;
	bool ok = true;
	if (output->temporary)
		ok = fsync(fd) == 0;
	output->fd = -1;
	ok = close(fd) == 0 && ok;
	if (ok && output->temporary)
		ok = rename(output->temporary, output->target) == 0;
	if (!ok) {
		enum status status = failed(output->name, -1, "cannot write", diags);
		output_abort(output);
		return status;
	}
	if (output->temporary) {
		withdraw(output->temporary);
		output->temporary = NULL;
		sync_directory(output->target);
	}
	return STATUS_OK;
}

void output_abort(struct output *output)
{
	if (output->owned && output->fd >= 0)
		close(output->fd);
	output->fd = -1;
	if (output->temporary) {
		withdraw(output->temporary);
		unlink(output->temporary);
		output->temporary = NULL;
	}
}
