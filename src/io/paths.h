/*
 * Calls of the system that take a path of the user. A relative path begins at the working directory in which the
 * program began. A shared object of --program may change that of the process, and the umask. So io_hold_directory
 * keeps both before such an object is loaded. No other file makes these calls (tests/scripts/check-exits). They
 * return what the calls of the system return, and set errno.
 */
#ifndef IO_PATHS_H
#define IO_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stat;

/* From now on, relative paths begin at the working directory of this moment, and files get its umask. Returns false and sets errno on failure. */
bool io_hold_directory(void);
/* Returns the descriptor of that directory, or AT_FDCWD. */
int io_directory(void);
/*
 * Moves the standard streams to descriptors that io_standard returns. Afterwards descriptor 0 is empty, and 1 is
 * standard error, as 2 is: what a shared object reads and writes there leaves input and output alone. So other files
 * ask io_standard for the descriptors of these streams. Paths such as /dev/stdin mean the streams that were moved.
 * Returns false and sets errno on failure.
 */
bool io_hold_standard(void);
/* Returns the descriptor of standard stream NUMBER: 0, 1 or 2. It is async-signal-safe. */
int io_standard(int number);
/* Returns the descriptor that PATH names, such as /dev/stdout or /dev/fd/5, or -1. */
int io_descriptor_of(const char *path);

/*
 * Calls open, again if a signal interrupts it. The descriptor is above the standard ones, so a data file never takes
 * the place of a closed standard stream. Returns -1 and sets errno on failure.
 */
int io_open(const char *path, int flags, mode_t mode);
/* Returns FD, or in place of a standard one a duplicate above those. -1 and errno if that fails; -1 for -1. */
int io_lifted(int fd);
int io_stat(const char *path, struct stat *st);
int io_access(const char *path, int mode);
/* It is async-signal-safe. */
int io_unlink(const char *path);
int io_rename(const char *old, const char *new);
int io_make_directory(const char *path);
int io_remove_directory(const char *path);
/* Gives FD, a file made with O_TMPFILE, the name PATH. */
int io_link_nameless(int fd, const char *path);
ssize_t io_read_link(const char *path, char *to, size_t size);
/* Writes to TO the absolute path of the file at PATH, without links. Returns false and sets errno on failure. */
bool io_real_path(const char *path, char to[PATH_MAX]);

#endif
