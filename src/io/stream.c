/*
 * Descriptors, with interruptions, non-blocking ones and short transfers handled.
 *
 * The list of open temporaries is global, since a signal handler has no other way to find
 * them. It is a fixed array of paths, published and withdrawn by atomic exchanges.
 */
#include "io/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	LOOK_AHEAD = INPUT_PEEK_MOST + 48,
	PIPE_SIZE = 1 << 20,
	FLUSH_BLOCK = 8 << 20,
	MAX_TEMPORARIES = 64,
	NAMES_TRIED = 100,
	MAX_LINKS = 40
};

static _Atomic(char *) temporaries[MAX_TEMPORARIES];

static bool publish(char *path)
{
	for (int i = 0; i < MAX_TEMPORARIES; i++) {
		char *none = NULL;
		if (atomic_compare_exchange_strong(&temporaries[i], &none, path))
			return true;
	}
	return false;
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

static enum status system_error(const char *name, int64_t offset, const char *what, struct diags *diags)
{
	return diag_file(diags, STATUS_IO, name, offset, "%s: %s", what, strerror(errno));
}

/* Waits until a non-blocking descriptor is ready. */
static void wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	poll(&p, 1, -1);
}

static int lift_above_standard(int fd)
{
	if (fd < 0 || fd > 2)
		return fd;
	int lifted = fcntl(fd, F_DUPFD_CLOEXEC, 3), error = errno;
	close(fd);
	errno = error;
	return lifted;
}

/* open may wait for the other end of a FIFO, hence EINTR. */
int io_open(const char *path, int flags, mode_t mode)
{
	int fd;
	do
		fd = open(path, flags | O_CLOEXEC | O_NOCTTY, mode);
	while (fd < 0 && errno == EINTR);
	return lift_above_standard(fd);
}

static int open_file(const char *path, int flags) { return io_open(path, flags, 0666); }

/* Input. */

enum status input_open(struct input *input, const char *path, bool regular_only, struct arena *arena,
                       struct diags *diags)
{
	bool standard = !path || !strcmp(path, "-");
	*input = (struct input){.name = standard ? "<stdin>" : path, .size = -1, .owned = !standard, .arena = arena};
	struct stat st;
	if (!standard) {
		input->fd = open_file(path, O_RDONLY | (regular_only ? O_NONBLOCK : 0));
		if (input->fd < 0)
			return system_error(path, -1, "cannot open", diags);
	}
	if (fstat(input->fd, &st) != 0) {
		enum status status = system_error(input->name, -1, "cannot read", diags);
		input_close(input);
		return status;
	}
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		enum status status = system_error(input->name, -1, "cannot read", diags);
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
	if (input->buffer)
		allocator_put(input->arena->allocator, input->buffer, input->capacity);
	input->buffer = NULL;
	input->begin = input->end = input->capacity = 0;
	input->fd = -1;
}

/* Reads once, up to SIZE bytes; 0 at the end. */
static enum status read_some(struct input *input, void *to, size_t size, size_t *got, struct diags *diags)
{
	if (input->pull) {
		const enum status status = input->pull(input->stream, to, size, got, diags);
		input->eof |= !status && *got == 0;
		return status;
	}
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
			return system_error(input->name, input->offset, "cannot read", diags);
	}
}

enum status input_peek(struct input *input, size_t size, const unsigned char **bytes, size_t *got, struct diags *diags)
{
	assert(size <= INPUT_PEEK_MOST);
	if (!input->buffer) {
		input->buffer = allocator_get(input->arena->allocator, LOOK_AHEAD, 1);
		TRY_ALLOC(input->buffer, diags);
		input->capacity = LOOK_AHEAD;
	}
	if (input->begin > 0 && input->begin + size > input->capacity) {
		memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
		input->end -= input->begin;
		input->begin = 0;
	}
	while (input->end - input->begin < size && !input->eof) {
		size_t n = 0;
		/* Only SIZE bytes: the bytes after them can then be read straight into the caller's arrays. */
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
		TRY(read_some(input, (char *)to + have, size - have, &n, diags));
		have += n;
		input->offset += (int64_t)n;
	}
	*got = have;
	return STATUS_OK;
}

bool io_read_at(int fd, int64_t offset, void *to, size_t size, size_t *got)
{
	*got = 0;
	while (*got < size) {
		ssize_t n = pread(fd, (char *)to + *got, size - *got, offset + (int64_t)*got);
		if (n == 0)
			break;
		if (n > 0)
			*got += (size_t)n;
		else if (errno != EINTR)
			return false;
	}
	return true;
}

enum status input_read_at(const struct input *input, int64_t offset, void *to, size_t size, size_t *got,
                          struct diags *diags)
{
	if (!io_read_at(input->fd, input->base + offset, to, size, got))
		return system_error(input->name, offset + (int64_t)*got, "cannot read", diags);
	return STATUS_OK;
}

/* Output. */

static enum status open_directly(struct output *output, const char *path, struct diags *diags)
{
	output->fd = open_file(path, O_WRONLY);
	return output->fd < 0 ? system_error(path, -1, "cannot write", diags) : STATUS_OK;
}

/* Gives FD, a file made with O_TMPFILE, the name PATH. */
static bool link_nameless(int fd, const char *path)
{
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/*
 * Makes a file in the folder of PATH that has no name until it is committed: even SIGKILL
 * leaves nothing behind. Returns -1 if the file system has no such files, or if /proc is
 * missing, which the link to a name needs.
 */
static int make_nameless(const char *path, int length, mode_t mode, struct arena *arena)
{
	const char *folder = length > 0 ? arena_printf(arena, "%.*s", length, path) : ".";
	if (!folder || access("/proc/self/fd", X_OK) != 0)
		return -1;
	return io_open(folder, O_TMPFILE | O_RDWR, mode);
}

/* Chooses IO_LETTERS random characters at NAME. Returns false and sets errno on failure. */
static bool choose_letters(char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
	unsigned char random[IO_LETTERS];
	if (getrandom(random, sizeof random, 0) != sizeof random)
		return false;
	for (int i = 0; i < IO_LETTERS; i++)
		name[i] = letters[random[i] % 32];
	return true;
}

/*
 * Gives a temporary its name PATH, whose last letters become random: makes the file with
 * MODE, or links FD, a file without a name. io_cleanup knows the name before the file has
 * it. Returns the descriptor, -1 with errno on failure.
 */
static int make_temporary(char *path, int fd, mode_t mode)
{
	for (int iteration = 0; iteration < NAMES_TRIED; iteration++) {
		if (!choose_letters(path + strlen(path) - IO_LETTERS))
			return -1;
		if (!publish(path)) {
			errno = EMFILE;
			return -1;
		}
		int made = fd < 0 ? io_open(path, O_RDWR | O_CREAT | O_EXCL, mode) : link_nameless(fd, path) ? fd : -1;
		if (made >= 0)
			return made;
		withdraw(path);
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

int io_make_unique(char *path, size_t letters)
{
	int fd = -1;
	for (int iteration = 0; iteration < NAMES_TRIED && fd < 0 && (iteration == 0 || errno == EEXIST); iteration++) {
		if (!choose_letters(path + letters))
			return -1;
		fd = io_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	}
	return fd;
}

int io_make_nameless(const char *directory)
{
	char path[PATH_MAX];
	int fd = io_open(directory, O_TMPFILE | O_RDWR, 0600);
	if (fd >= 0)
		return fd;
	if (snprintf(path, sizeof path, "%s/.ckptc-%*s", directory, IO_LETTERS, "") >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = make_temporary(path, -1, 0600);
	if (fd >= 0) {
		unlink(path);
		withdraw(path);
	}
	return fd;
}

/* Opens a temporary beside TARGET. It gets the mode of OLD, the file to replace, and its owner where that is allowed. */
static enum status open_temporary(struct output *output, const char *target, const struct stat *old,
                                  struct diags *diags)
{
	const char *slash = strrchr(target, '/');
	int length = slash ? (int)(slash - target) + 1 : 0;
	output->target = arena_printf(output->arena, "%s", target);
	output->temporary = arena_printf(output->arena, "%.*s.ckptc-%*s", length, target, IO_LETTERS, "");
	if (!output->target || !output->temporary) {
		output->temporary = NULL;
		return diag_memory(diags);
	}
	const mode_t mode = old ? 0600 : 0666; /* private until it gets the old mode */
	output->fd = make_nameless(target, length, mode, output->arena);
	output->nameless = output->fd >= 0;
	if (!output->nameless)
		output->fd = make_temporary(output->temporary, -1, mode);
	if (output->fd < 0) {
		output->temporary = NULL;
		return system_error(output->name, -1, "cannot write", diags);
	}
	output->seekable = true;
	if (!old)
		return STATUS_OK;
	if ((old->st_uid != geteuid() || old->st_gid != getegid()) && fchown(output->fd, old->st_uid, old->st_gid) != 0)
		errno = 0; /* only root can give files away: the new one then stays ours */
	/* set-id bits were granted to the old contents */
	if (fchmod(output->fd, old->st_mode & 07777 & ~(mode_t)(S_ISUID | S_ISGID)) != 0) {
		enum status status = system_error(output->name, -1, "cannot write", diags);
		output_abort(output);
		return status;
	}
	return STATUS_OK;
}

bool output_follow(const char *path, char to[PATH_MAX])
{
	char link[PATH_MAX];
	if (snprintf(to, PATH_MAX, "%s", path) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	for (int iteration = 0; iteration < MAX_LINKS; iteration++) {
		ssize_t n = readlink(to, link, sizeof link - 1);
		if (n < 0)
			return true;
		link[n] = '\0';
		char *slash = strrchr(to, '/');
		size_t kept = link[0] == '/' || !slash ? 0 : (size_t)(slash - to) + 1;
		if (kept + (size_t)n >= PATH_MAX) {
			errno = ENAMETOOLONG;
			return false;
		}
		memcpy(to + kept, link, (size_t)n + 1);
	}
	errno = ELOOP;
	return false;
}

/* Writes to an open file continue at its current position. */
static void continue_file(struct output *output, const struct stat *st)
{
	if (S_ISFIFO(st->st_mode))
		fcntl(output->fd, F_SETPIPE_SZ, PIPE_SIZE);
	off_t at = S_ISREG(st->st_mode) ? lseek(output->fd, 0, SEEK_CUR) : -1;
	output->seekable = at >= 0 && !(fcntl(output->fd, F_GETFL) & O_APPEND);
	output->base = at > 0 ? at : 0;
}

/* Returns the descriptor of this process that PATH names, or -1. The file behind it is written into, not replaced. */
static int descriptor_of(const char *path)
{
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	if (!strcmp(path, "/dev/stdout"))
		return 1;
	if (!strcmp(path, "/dev/stderr"))
		return 2;
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		size_t length = strlen(folders[i]);
		if (strncmp(path, folders[i], length) != 0)
			continue;
		size_t digits = strspn(path + length, "0123456789");
		if (digits > 0 && digits < 9 && !path[length + digits])
			return atoi(path + length);
	}
	return -1;
}

static enum status open_descriptor(struct output *output, const char *path, int fd, struct diags *diags)
{
	struct stat st;
	output->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (output->fd < 0 || fstat(output->fd, &st) != 0)
		return system_error(path, -1, "cannot write", diags);
	continue_file(output, &st);
	return STATUS_OK;
}

bool io_is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool stream_is_one(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && io_is_same_file(&x, &y) && !S_ISCHR(x.st_mode);
}

bool stream_is_at(int fd, const char *path)
{
	struct stat x, y;
	return fstat(fd, &x) == 0 && stat(path, &y) == 0 && io_is_same_file(&x, &y);
}

bool output_replaces(const char *path)
{
	struct stat st;
	return strcmp(path, "-") != 0 && descriptor_of(path) < 0 &&
	       (stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

enum status output_open(struct output *output, const char *path, struct arena *arena, struct diags *diags)
{
	bool standard = !path || !strcmp(path, "-");
	*output = (struct output){
		.fd = standard ? 1 : -1, .name = standard ? "<stdout>" : path, .owned = !standard, .arena = arena};
	struct stat st;
	char target[PATH_MAX];
	bool there = (standard ? fstat(1, &st) : stat(path, &st)) == 0;
	if (there && standard) {
		continue_file(output, &st);
		return STATUS_OK;
	}
	if (!standard && descriptor_of(path) >= 0)
		return open_descriptor(output, path, descriptor_of(path), diags);
	if (there && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return system_error(path, -1, "cannot write", diags);
	}
	if (there && !S_ISREG(st.st_mode))
		return open_directly(output, path, diags);
	if (there ? access(path, W_OK) != 0 || !realpath(path, target)
	          : standard || errno != ENOENT || !output_follow(path, target))
		return system_error(output->name, -1, "cannot write", diags);
	return open_temporary(output, target, there ? &st : NULL, diags);
}

int output_descriptor(const char *path) { return !strcmp(path, "-") ? 1 : descriptor_of(path); }

enum status output_open_live(struct output *output, const char *path, struct arena *arena, struct diags *diags)
{
	if (!output_replaces(path))
		return output_open(output, path, arena, diags);
	struct stat st;
	*output = (struct output){.name = path, .owned = true, .arena = arena};
	output->fd = io_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (output->fd < 0 || fstat(output->fd, &st) != 0)
		return system_error(path, -1, "cannot write", diags);
	continue_file(output, &st);
	return STATUS_OK;
}

size_t io_write(int fd, const void *from, size_t size)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = write(fd, (const char *)from + done, size - done);
		if (n == 0)
			errno = ENOSPC;
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			wait_for(fd, POLLOUT);
		else if (n == 0 || errno != EINTR)
			break;
	}
	return done;
}

bool io_write_at(int fd, int64_t offset, const void *from, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(fd, (const char *)from + done, size - done, offset + (int64_t)done);
		if (n == 0)
			errno = ENOSPC;
		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			return false;
	}
	return true;
}

/*
 * Starts to write the complete blocks among the bytes BEGIN to END of a temporary to disk.
 * So the flush before the rename waits only for the last blocks, and for blocks that were
 * written to again.
 */
static void begin_flush(const struct output *output, int64_t begin, int64_t end)
{
	begin = begin / FLUSH_BLOCK * FLUSH_BLOCK;
	end = end / FLUSH_BLOCK * FLUSH_BLOCK;
	if (output->temporary && begin < end)
		(void)sync_file_range(output->fd, begin, end - begin, SYNC_FILE_RANGE_WRITE);
}

enum status output_write(struct output *output, const void *from, size_t size, struct diags *diags)
{
	size_t done = io_write(output->fd, from, size);
	const int64_t begin = output->offset;
	output->offset += (int64_t)done;
	if (done < size)
		return system_error(output->name, -1, "cannot write", diags);
	begin_flush(output, begin, output->offset);
	return STATUS_OK;
}

enum status output_write_at(struct output *output, int64_t offset, const void *from, size_t size, struct diags *diags)
{
	if (!io_write_at(output->fd, output->base + offset, from, size))
		return system_error(output->name, -1, "cannot write", diags);
	begin_flush(output, offset, offset + (int64_t)size);
	return STATUS_OK;
}

/* A rename is durable when its directory is on disk. The file is complete by then, so a failure is not reported. */
static void sync_directory(const char *path)
{
	char folder[PATH_MAX] = ".";
	const char *slash = strrchr(path, '/');
	if (slash && snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path) >= PATH_MAX)
		return;
	int fd = open_file(folder, O_RDONLY | O_DIRECTORY);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

enum status output_flush(struct output *output, struct diags *diags)
{
	if (output->temporary && fsync(output->fd) && errno != EINVAL) /* some file systems have no fsync */
		return system_error(output->name, -1, "cannot write", diags);
	output->flushed = true;
	return STATUS_OK;
}

enum status output_commit(struct output *output, struct diags *diags)
{
	if (!output->owned) { /* standard output: some file systems report errors only at close */
		const int copy = output->fd == 1 ? dup(1) : -1;
		const bool full = output->fd != 1 || (copy < 0 && errno == EMFILE); /* no descriptor is left to close */
		return full || (copy >= 0 && close(copy) == 0) ? STATUS_OK
		                                               : system_error(output->name, -1, "cannot write", diags);
	}
	enum status status = output->flushed ? STATUS_OK : output_flush(output, diags);
	if (status) {
		output_abort(output);
		return status;
	}
	int fd = output->fd;
	bool ok = true;
	bool there = false; /* the file has its final name */
	if (output->nameless) {
		there = link_nameless(fd, output->target);
		ok = there || (errno == EEXIST && make_temporary(output->temporary, fd, 0) == fd);
		output->nameless = !ok;
	}
	/* The rename follows the link at once: until then a kill would leave the temporary. */
	if (ok && output->temporary && !there)
		ok = rename(output->temporary, output->target) == 0;
	int error = errno;
	output->fd = -1;
	if (close(fd) != 0 && ok && !output->temporary) { /* a flushed file is written */
		error = errno;
		ok = false;
	}
	errno = error;
	if (!ok) {
		status = system_error(output->name, -1, "cannot write", diags);
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
	if (output->temporary && !output->nameless) {
		unlink(output->temporary);
		withdraw(output->temporary);
	}
	output->temporary = NULL;
}
