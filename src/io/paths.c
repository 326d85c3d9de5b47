/*
 * The directory and the standard streams are global: a handler of signals, which removes temporaries and reports the end,
 * has no other way to find them. Where none is held, these functions make the plain calls.
 * Tests: tests/unit/test_stream.c
 */
#include "io/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int held_directory = AT_FDCWD, held_umask;

/* A stream that is closed has a number that no descriptor has. */
static atomic_int held_streams[3] = {0, 1, 2};
enum { CLOSED_STREAM = INT_MAX, STREAM_PATH = 32 };

int io_directory(void) { return held_directory; }

int io_standard(int number) { return held_streams[number]; }

int io_descriptor_of(const char *path)
{
	static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	for (int i = 0; i < 3; i++)
		if (!strcmp(path, streams[i]))
			return held_streams[i];
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		const char *number = path + strlen(folders[i]);
		if (strncmp(path, folders[i], strlen(folders[i])) != 0)
			continue;
		const size_t digits = strspn(number, "0123456789");
		if (digits > 0 && digits < 9 && !number[digits])
			return atoi(number) < 3 ? held_streams[atoi(number)] : atoi(number);
	}
	return -1;
}

/* Returns PATH, or in TO the path of the standard stream that PATH meant before the stream was moved. */
static const char *moved_path(const char *path, char to[STREAM_PATH])
{
	const int fd = held_streams[0] == 0 ? -1 : io_descriptor_of(path);
	if (fd < 0)
		return path;
	snprintf(to, STREAM_PATH, "/proc/self/fd/%d", fd);
	return to;
}

bool io_hold_standard(void)
{
	if (held_streams[0] != 0)
		return true;
	const int nothing = io_open("/dev/null", O_RDWR, 0);
	int held[3];
	bool good = nothing >= 0;
	for (int i = 0; i < 3 && good; i++) {
		held[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
		held[i] = held[i] < 0 && errno == EBADF ? CLOSED_STREAM : held[i];
		good = held[i] >= 0;
	}
	good = good && dup2(nothing, 0) == 0 && dup2(held[2] == CLOSED_STREAM ? nothing : held[2], 1) == 1 &&
	       (held[2] != CLOSED_STREAM || dup2(nothing, 2) == 2);
	for (int i = 0; i < 3 && good; i++)
		held_streams[i] = held[i];
	if (nothing >= 0)
		close(nothing);
	return good;
}

bool io_hold_directory(void)
{
	if (io_directory() != AT_FDCWD)
		return true;
	const int fd = io_open(".", O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return false;
	held_umask = (int)umask(0); /* there is no other way to read it */
	umask((mode_t)held_umask);
	held_directory = fd;
	return true;
}

int io_open(const char *path, int flags, mode_t mode)
{
	const bool held = io_directory() != AT_FDCWD;
	char moved[STREAM_PATH];
	int fd;
	path = moved_path(path, moved);
	if (held && (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE))
		umask((mode_t)held_umask);
	do /* open may wait for the other end of a FIFO, hence EINTR */
		fd = held ? openat(io_directory(), path, flags | O_CLOEXEC | O_NOCTTY, mode)
		          : open(path, flags | O_CLOEXEC | O_NOCTTY, mode);
	while (fd < 0 && errno == EINTR);
	return io_lifted(fd);
}

int io_lifted(int fd)
{
	if (fd < 0 || fd > 2)
		return fd;
	const int lifted = fcntl(fd, F_DUPFD_CLOEXEC, 3), error = errno;
	close(fd);
	errno = error;
	return lifted;
}

int io_stat(const char *path, struct stat *st)
{
	const int from = io_directory();
	char moved[STREAM_PATH];
	path = moved_path(path, moved);
	return from == AT_FDCWD ? stat(path, st) : fstatat(from, path, st, 0);
}

int io_access(const char *path, int mode)
{
	const int from = io_directory();
	char moved[STREAM_PATH];
	path = moved_path(path, moved);
	return from == AT_FDCWD ? access(path, mode) : faccessat(from, path, mode, 0);
}

int io_unlink(const char *path)
{
	const int from = io_directory();
	return from == AT_FDCWD ? unlink(path) : unlinkat(from, path, 0);
}

int io_rename(const char *old, const char *new)
{
	const int from = io_directory();
	return from == AT_FDCWD ? rename(old, new) : renameat(from, old, from, new);
}

int io_make_directory(const char *path) { return mkdirat(io_directory(), path, 0777); }

int io_remove_directory(const char *path) { return unlinkat(io_directory(), path, AT_REMOVEDIR); }

int io_link_nameless(int fd, const char *path)
{
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, io_directory(), path, AT_SYMLINK_FOLLOW);
}

ssize_t io_read_link(const char *path, char *to, size_t size)
{
	const int from = io_directory();
	return from == AT_FDCWD ? readlink(path, to, size) : readlinkat(from, path, to, size);
}

bool io_real_path(const char *path, char to[PATH_MAX])
{
	char from[PATH_MAX], moved[STREAM_PATH];
	path = moved_path(path, moved);
	if (path[0] == '/' || io_directory() == AT_FDCWD)
		return realpath(path, to);
	if (snprintf(from, sizeof from, "/proc/self/fd/%d/%s", io_directory(), path) < PATH_MAX)
		return realpath(from, to);
	errno = ENAMETOOLONG;
	return false;
}
