/*
 * Descriptors, with interruptions, non-blocking ones and short transfers handled.
 *
 * The list of temporaries that have a name is global, since a signal handler has no other way to find them. It is a
 * fixed array of paths, published and withdrawn by atomic exchanges.
 * Tests: tests/unit/test_stream.c
 */
#include "io/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
	LOOK_AHEAD = INPUT_PEEK_MOST + 48,
	PIPE_SIZE = 1 << 20,
	FLUSH_BLOCK = 8 << 20,
	/* Bytes of a write to a file: the kernel copies 4 MiB at once at half the speed (ext4 on Linux 6.18, cold pages). */
	WRITE_PIECE = 512 << 10,
	RESERVE_LEAST = 1 << 20, /* bytes: smaller files are written at once */
	MAX_TEMPORARIES = 64,
	NAMES_TRIED = 100,
	MAX_LINKS = 40,
	MOUNT_ROOT = 0x2000 /* STATX_ATTR_MOUNT_ROOT, which older headers lack */
};

static _Atomic(char *) temporaries[MAX_TEMPORARIES];

bool io_exchange_temporary(char *old, char *new)
{
	for (int i = 0; i < MAX_TEMPORARIES; i++) {
		char *expected = old;
		if (atomic_compare_exchange_strong(&temporaries[i], &expected, new))
			return true;
	}
	return false;
}

void io_cleanup(void)
{
	for (int i = 0; i < MAX_TEMPORARIES; i++) {
		char *path = atomic_exchange(&temporaries[i], NULL);
		if (path)
			io_unlink(path);
	}
}

static enum status system_error(const char *name, int64_t offset, const char *what, struct diags *diags)
{
	return diag_file(diags, STATUS_IO, name, offset, "%s: %s", what, strerror(errno));
}

/* Waits until a non-blocking descriptor is ready. */
static void wait_until_ready(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	poll(&p, 1, -1);
}

enum status input_open(struct input *input, const char *path, bool regular_only, struct arena *arena,
                       struct diags *diags)
{
	const bool standard = !path || !strcmp(path, "-");
	*input = (struct input){.name = standard ? "<stdin>" : path, .size = -1, .owned = !standard, .arena = arena};
	struct stat st;
	input->fd = standard ? io_standard(0) : io_open(path, O_RDONLY | (regular_only ? O_NONBLOCK : 0), 0);
	if (input->fd < 0)
		return system_error(path, -1, "cannot open", diags);
	enum status status = STATUS_OK;
	const bool failed = fstat(input->fd, &st) != 0;
	if (failed || S_ISDIR(st.st_mode)) {
		errno = failed ? errno : EISDIR;
		status = system_error(input->name, -1, "cannot read", diags);
	} else if (regular_only && !S_ISREG(st.st_mode)) {
		status = diag_file(diags, STATUS_IO, path, -1, "not a regular file");
		diag_hint(diags, diags->library ? "ckptc_chain_bind takes values that were read elsewhere"
		                                : "--allow-special-files lets devices and FIFOs be read");
	} else if (S_ISREG(st.st_mode)) {
		off_t at = lseek(input->fd, 0, SEEK_CUR);
		input->base = at > 0 ? at : 0;
		input->size = st.st_size > input->base ? st.st_size - input->base : 0;
		posix_fadvise(input->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	} else if (S_ISFIFO(st.st_mode)) {
		fcntl(input->fd, F_SETPIPE_SZ, PIPE_SIZE);
	}
	if (status)
		input_close(input);
	return status;
}

void input_close(struct input *input)
{
	if (input->owned && input->fd >= 0)
		close(input->fd);
	if (input->buffer)
		allocator_put(input->arena->allocator, input->buffer, LOOK_AHEAD);
	input->buffer = NULL;
	input->begin = input->end = 0;
	input->fd = -1;
}

/* Reads once, up to SIZE bytes, past the look-ahead. *GOT is 0 only at the end, which sets input->eof. */
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
			wait_until_ready(input->fd, POLLIN);
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
	}
	if (input->begin > 0 && input->begin + size > LOOK_AHEAD) {
		memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
		input->end -= input->begin;
		input->begin = 0;
	}
	while (input->end - input->begin < size && !input->eof) {
		size_t n = 0;
		/* Only SIZE bytes: the bytes after them can then be read straight into the caller's arrays. */
		TRY(read_some(input, input->buffer + input->end, size - (input->end - input->begin), &n, diags));
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

enum status input_seek(struct input *input, int64_t offset, struct diags *diags)
{
	if (lseek(input->fd, input->base + offset, SEEK_SET) < 0)
		return system_error(input->name, input->offset, "cannot seek", diags);
	input->begin = input->end = 0;
	input->eof = false;
	input->offset = offset;
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
		return input_failed(input, offset + (int64_t)*got, diags);
	return STATUS_OK;
}

enum status input_failed(const struct input *input, int64_t offset, struct diags *diags)
{
	return system_error(input->name, offset, "cannot read", diags);
}

struct input_stamp input_stamp(const struct input *input)
{
	struct stat st;
	if (input->size < 0 || fstat(input->fd, &st) != 0)
		return (struct input_stamp){0};
	return (struct input_stamp){st.st_size, st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
	                            st.st_ctim.tv_sec * INT64_C(1000000000) + st.st_ctim.tv_nsec};
}

enum status input_check_stamp(const struct input *input, const struct input_stamp *stamp, struct diags *diags)
{
	const struct input_stamp now = input_stamp(input);
	if (now.size == stamp->size && now.modified == stamp->modified && now.changed == stamp->changed)
		return STATUS_OK;
	return diag_file(diags, STATUS_DATA, input->name, -1, "the file changed while it was read");
}

enum status output_failed(const struct output *output, struct diags *diags)
{
	return system_error(output->name, -1, "cannot write", diags);
}

bool io_choose_letters(char *name)
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
 * Gives a new file the name PATH, whose last IO_LETTERS characters it makes random. It makes the file with MODE, or,
 * unless FD is -1, links the nameless file FD. io_cleanup knows the name before the file has it. Returns the
 * descriptor, or -1 and sets errno.
 */
static int make_temporary(char *path, int fd, mode_t mode)
{
	for (int iteration = 0; iteration < NAMES_TRIED; iteration++) {
		if (!io_choose_letters(path + strlen(path) - IO_LETTERS))
			return -1;
		if (!io_exchange_temporary(NULL, path)) {
			errno = EMFILE;
			return -1;
		}
		const int made = fd < 0                            ? io_open(path, O_RDWR | O_CREAT | O_EXCL, mode)
		                 : io_link_nameless(fd, path) == 0 ? fd
		                                                   : -1;
		if (made >= 0)
			return made;
		io_exchange_temporary(path, NULL);
		if (errno != EEXIST)
			return -1;
	}
	return -1;
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
		io_unlink(path);
		io_exchange_temporary(path, NULL);
	}
	return fd;
}

/* True if PATH is a mount point. False before Linux 5.8, which does not say so: then a rename fails with EBUSY. */
static bool is_mount_point(const char *path)
{
	struct statx st;
	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &st) == 0 && st.stx_attributes & MOUNT_ROOT;
}

/*
 * Makes the temporary in FOLDER, which is empty or ends in "/". It has no name until it is committed, so even SIGKILL
 * leaves nothing behind. It has a name at once if the file system has no nameless files, or without /proc, which naming
 * such a file needs. False, with errno, if that fails or memory is short.
 */
static bool make_output_file(struct output *output, const char *folder, mode_t mode)
{
	output->temporary = arena_printf(output->arena, "%s.ckptc-%*s", folder, IO_LETTERS, "");
	if (output->temporary && io_access("/proc/self/fd", X_OK) == 0)
		output->fd = io_open(*folder ? folder : ".", O_TMPFILE | O_RDWR, mode);
	output->nameless = output->fd >= 0;
	if (output->temporary && !output->nameless)
		output->fd = make_temporary(output->temporary, -1, mode);
	if (output->fd < 0)
		output->temporary = NULL;
	return output->fd >= 0;
}

/*
 * Gives the file FD the owner, the group and the mode of OLD, which it will replace, as far as the user may: only root
 * gives files away. Set-id bits were granted to the old contents, and the group's bits to the old group. False, with
 * errno, if the mode cannot be set.
 */
static bool copy_rights(int fd, const struct stat *old)
{
	struct stat made;
	mode_t mode = old->st_mode & 07777 & ~(mode_t)(S_ISUID | S_ISGID);
	if (fstat(fd, &made) != 0)
		return false;
	if (made.st_uid != old->st_uid && fchown(fd, old->st_uid, (gid_t)-1) != 0)
		errno = 0; /* the new file stays ours */
	if (made.st_gid != old->st_gid && fchown(fd, (uid_t)-1, old->st_gid) != 0)
		mode &= ~(mode_t)S_IRWXG;
	return fchmod(fd, mode) == 0;
}

/* Opens a temporary for TARGET, beside it. It gets the rights of OLD, the file to replace; NULL: there is none. */
static enum status open_temporary(struct output *output, const char *target, const struct stat *old,
                                  struct diags *diags)
{
	const char *slash = strrchr(target, '/'), *shared = getenv("TMPDIR");
	const char *folder = arena_printf(output->arena, "%.*s", slash ? (int)(slash - target) + 1 : 0, target);
	const char *other = arena_printf(output->arena, "%s/", shared && *shared ? shared : "/tmp");
	output->target = arena_printf(output->arena, "%s", target);
	TRY_ALLOC(folder && other && output->target, diags);
	const mode_t mode = old ? 0600 : 0666; /* private until it gets the old mode */
	output->mounted = old && is_mount_point(target);
	/* The folder of a mounted file may be read-only. */
	if (!make_output_file(output, folder, mode) && !(output->mounted && make_output_file(output, other, mode)))
		return output_failed(output, diags);
	output->seekable = true;
	if (!old || copy_rights(output->fd, old))
		return STATUS_OK;
	const enum status status = output_failed(output, diags);
	output_abort(output);
	return status;
}

bool output_follow(const char *path, char to[PATH_MAX])
{
	char link[PATH_MAX];
	if (snprintf(to, PATH_MAX, "%s", path) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	for (int iteration = 0; iteration < MAX_LINKS; iteration++) {
		ssize_t n = io_read_link(to, link, sizeof link - 1);
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

/* Makes FD the output's descriptor, without a temporary. Writes begin at its position. If FD is -1, reports errno. */
static enum status continue_file(struct output *output, int fd, struct diags *diags)
{
	struct stat st;
	output->fd = fd;
	if (fd < 0 || fstat(fd, &st) != 0)
		return output_failed(output, diags);
	if (S_ISFIFO(st.st_mode))
		fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE);
	const off_t at = S_ISREG(st.st_mode) ? lseek(fd, 0, SEEK_CUR) : -1;
	output->seekable = at >= 0 && !(fcntl(fd, F_GETFL) & O_APPEND);
	output->base = at > 0 ? at : 0;
	return STATUS_OK;
}

int output_descriptor(const char *path)
{
	if (!strcmp(path, "-"))
		return io_standard(1);
	return strcmp(path, "/dev/stdin") ? io_descriptor_of(path) : -1;
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
	return fstat(fd, &x) == 0 && io_stat(path, &y) == 0 && io_is_same_file(&x, &y);
}

bool output_replaces(const char *path)
{
	struct stat st;
	return output_descriptor(path) < 0 && (io_stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

enum status output_open(struct output *output, const char *path, struct arena *arena, struct diags *diags)
{
	const bool standard = !path || !strcmp(path, "-");
	*output = (struct output){.fd = -1, .name = standard ? "<stdout>" : path, .owned = !standard, .arena = arena};
	if (standard)
		return continue_file(output, io_standard(1), diags);
	if (output_descriptor(path) >= 0)
		return continue_file(output, fcntl(output_descriptor(path), F_DUPFD_CLOEXEC, 3), diags);
	struct stat st;
	char target[PATH_MAX];
	const bool there = io_stat(path, &st) == 0;
	if (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return continue_file(output, io_open(path, O_WRONLY, 0), diags);
	if (there && S_ISDIR(st.st_mode))
		errno = EISDIR;
	else if (there ? io_access(path, W_OK) == 0 && io_real_path(path, target)
	               : errno == ENOENT && output_follow(path, target))
		return open_temporary(output, target, there ? &st : NULL, diags);
	return output_failed(output, diags);
}

enum status output_join(struct output *output, const char *name, const char *path, int64_t base, struct arena *arena,
                        struct diags *diags)
{
	*output = (struct output){
		.fd = -1, .name = name, .owned = true, .seekable = path, .joined = true, .base = base, .arena = arena};
	if (path)
		output->fd = io_open(path, O_WRONLY, 0);
	return path && output->fd < 0 ? output_failed(output, diags) : STATUS_OK;
}

bool output_share(struct output *output, bool together, char path[PATH_MAX])
{
	if (!output->seekable || (!together && !output->temporary))
		return false;
	if (output->nameless && !together) {
		if (make_temporary(output->temporary, output->fd, 0) < 0)
			return false;
		output->nameless = false;
	}
	if (output->temporary && !output->nameless)
		return snprintf(path, PATH_MAX, "%s", output->temporary) < PATH_MAX;
	snprintf(path, PATH_MAX, "/proc/%ld/fd/%d", (long)getpid(), output->fd);
	return true;
}

enum status output_open_live(struct output *output, const char *path, struct arena *arena, struct diags *diags)
{
	if (!output_replaces(path))
		return output_open(output, path, arena, diags);
	*output = (struct output){.name = path, .owned = true, .arena = arena};
	return continue_file(output, io_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666), diags);
}

bool io_write_at(int fd, int64_t offset, const void *from, size_t size)
{
	for (size_t done = 0; done < size;) {
		const char *rest = (const char *)from + done;
		const size_t piece = size - done < WRITE_PIECE ? size - done : WRITE_PIECE;
		const ssize_t n = offset == IO_NEXT ? write(fd, rest, piece) : pwrite(fd, rest, piece, offset + (int64_t)done);
		if (n == 0)
			errno = ENOSPC;
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			wait_until_ready(fd, POLLOUT);
		else if (n == 0 || errno != EINTR)
			return false;
	}
	return true;
}

void output_reserve(const struct output *output, int64_t size)
{
	struct statfs system;
	if (output->temporary && size >= RESERVE_LEAST && fstatfs(output->fd, &system) == 0 &&
	    system.f_type == EXT4_SUPER_MAGIC)
		(void)fallocate(output->fd, FALLOC_FL_KEEP_SIZE, output->base + output->offset, size);
}

/*
 * Starts to write the blocks of a temporary that end among the bytes BEGIN to END to disk. Then the flush before the
 * rename waits only for the last blocks, and for blocks that were written again.
 */
static void begin_flush(const struct output *output, int64_t begin, int64_t end)
{
	begin = begin / FLUSH_BLOCK * FLUSH_BLOCK;
	end = end / FLUSH_BLOCK * FLUSH_BLOCK;
	if (output->temporary && begin < end)
		(void)sync_file_range(output->fd, begin, end - begin, SYNC_FILE_RANGE_WRITE);
}

bool output_try_at(struct output *output, int64_t offset, const void *from, size_t size)
{
	if (output->push)
		output->push(output->stream, from, size);
	else if (output->joined && (offset == IO_NEXT || output->fd < 0))
		;
	else if (!io_write_at(output->fd, offset == IO_NEXT ? IO_NEXT : output->base + offset, from, size))
		return false;
	if (offset == IO_NEXT) {
		offset = output->offset;
		output->offset += (int64_t)size;
	}
	begin_flush(output, offset, offset + (int64_t)size);
	return true;
}

enum status output_write_at(struct output *output, int64_t offset, const void *from, size_t size, struct diags *diags)
{
	return output_try_at(output, offset, from, size) ? STATUS_OK : output_failed(output, diags);
}

/* A rename is durable when its directory is on disk. The file is complete by then, so a failure is not reported. */
static void sync_directory(const char *path)
{
	char folder[PATH_MAX] = ".";
	const char *slash = strrchr(path, '/');
	if (slash && snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path) >= PATH_MAX)
		return;
	int fd = io_open(folder, O_RDONLY | O_DIRECTORY, 0);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

enum status output_flush(struct output *output, struct diags *diags)
{
	if ((output->temporary || (output->joined && output->fd >= 0)) && fsync(output->fd) &&
	    errno != EINVAL) /* some file systems have no fsync */
		return output_failed(output, diags);
	output->flushed = true;
	return STATUS_OK;
}

/* Gives the temporary the name of the target, which it replaces. Returns false and sets errno on failure. */
static bool name_target(struct output *output)
{
	if (output->nameless) {
		if (io_link_nameless(output->fd, output->target) == 0)
			return true;
		if (errno != EEXIST || make_temporary(output->temporary, output->fd, 0) < 0)
			return false;
		output->nameless = false;
	}
	/* The rename follows the link at once: until then a kill would leave the temporary. */
	return io_rename(output->temporary, output->target) == 0;
}

/*
 * Writes the bytes of the temporary into the target. Its blocks are reserved first, so a full disk is noticed while the
 * old bytes are there. False, with errno, on failure.
 */
static bool fill_target(const struct output *output)
{
	char block[1 << 15];
	struct stat st;
	const int fd = io_open(output->target, O_WRONLY, 0);
	bool good = fd >= 0 && fstat(output->fd, &st) == 0;
	if (good && st.st_size > 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, st.st_size) != 0)
		good = errno == EOPNOTSUPP || errno == ENOSYS;
	size_t got = sizeof block;
	for (int64_t at = 0; good && got == sizeof block; at += (int64_t)got)
		good = io_read_at(output->fd, at, block, sizeof block, &got) && io_write_at(fd, at, block, got);
	good = good && ftruncate(fd, st.st_size) == 0 && (fsync(fd) == 0 || errno == EINVAL);
	const int error = errno;
	if (fd >= 0 && close(fd) != 0 && good)
		return false;
	errno = error;
	return good;
}

/* Makes the temporary's bytes those of the target. */
static enum status replace_target(struct output *output, struct diags *diags)
{
	if (!output->mounted && name_target(output))
		return STATUS_OK;
	if (!output->mounted && errno != EBUSY)
		return output_failed(output, diags);
	if (!fill_target(output)) {
		output_failed(output, diags);
		return diag_hint(diags, "it is a mount point, so it is written in place: it may hold a part of the new bytes");
	}
	if (!output->nameless)
		io_unlink(output->temporary);
	return STATUS_OK;
}

enum status output_commit(struct output *output, struct diags *diags)
{
	if (!output->owned) { /* standard output: some file systems report errors only at close */
		const int copy = output->fd == 1 ? dup(1) : -1;
		const bool full = output->fd != 1 || (copy < 0 && errno == EMFILE); /* no descriptor is left to close */
		return full || (copy >= 0 && close(copy) == 0) ? STATUS_OK : output_failed(output, diags);
	}
	enum status status = output->flushed ? STATUS_OK : output_flush(output, diags);
	if (!status && output->temporary)
		status = replace_target(output, diags);
	const int fd = output->fd;
	if (!status) {
		output->fd = -1;
		if (fd >= 0 && close(fd) != 0 && !output->temporary) /* a flushed file is written */
			status = output_failed(output, diags);
	}
	if (status) {
		output_abort(output);
	} else if (output->temporary) {
		io_exchange_temporary(output->temporary, NULL);
		output->temporary = NULL;
		sync_directory(output->target);
	}
	return status;
}

void output_abort(struct output *output)
{
	if (output->owned && output->fd >= 0)
		close(output->fd);
	output->fd = -1;
	if (output->temporary && !output->nameless) {
		io_unlink(output->temporary);
		io_exchange_temporary(output->temporary, NULL);
	}
	output->temporary = NULL;
}
