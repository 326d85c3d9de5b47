/*
 * The directory is global: a handler of signals, which removes temporaries, has no other way to find it. Where none is
 * held, these functions make the plain calls.
 */
#include "io/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int held_directory = AT_FDCWD, held_umask;

int io_directory(void) { return held_directory; }

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
	int fd;
	if (held && (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE))
		umask((mode_t)held_umask);
	do /* open may wait for the other end of a FIFO, hence EINTR */
		fd = held ? openat(io_directory(), path, flags | O_CLOEXEC | O_NOCTTY, mode)
		          : open(path, flags | O_CLOEXEC | O_NOCTTY, mode);
	while (fd < 0 && errno == EINTR);
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
	return from == AT_FDCWD ? stat(path, st) : fstatat(from, path, st, 0);
}

int io_access(const char *path, int mode)
{
	const int from = io_directory();
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
	char from[PATH_MAX];
	if (path[0] == '/' || io_directory() == AT_FDCWD)
		return realpath(path, to);
	if (snprintf(from, sizeof from, "/proc/self/fd/%d/%s", io_directory(), path) < PATH_MAX)
		return realpath(from, to);
	errno = ENAMETOOLONG;
	return false;
}
