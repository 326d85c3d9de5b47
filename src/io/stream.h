/*
 * Bytes in and bytes out over file descriptors: EINTR, EAGAIN (waits by poll),
 * short reads and short writes are dealt with here, for all that comes from others
 * or goes to them. The run's own files, which never wait, are the business of those
 * who keep them (exec/spill.c, exec/journal.c).
 */
#ifndef IO_STREAM_H
#define IO_STREAM_H

#include "base/diag.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads up to SIZE bytes of STREAM to TO; *GOT is 0 only at the end. */
typedef enum status input_pull(void *stream, void *to, size_t size, size_t *got, struct diags *diags);

/* A source of bytes, read in order (or, for a regular file, anywhere). */
struct input {
	int fd; /* -1: bytes come from PULL */
	input_pull *pull;
	void *stream;
	const char *name;      /* as messages show it: the path, or <stdin> */
	int64_t offset;        /* bytes consumed so far, for messages */
	int64_t size;          /* of a regular file, else -1 */
	int64_t limit;         /* the most bytes that PULL gives */
	int64_t base;          /* file position at which the input began (stdin may be part read) */
	unsigned char *buffer; /* look-ahead */
	size_t begin, end, capacity;
	bool eof;
	bool owned; /* close the descriptor */
	struct arena *arena;
};

/*
 * PATH NULL or "-" is standard input (a closed one is STATUS_IO). With
 * REGULAR_ONLY a device, FIFO or socket is refused. Sets F_SETPIPE_SZ on pipes
 * and POSIX_FADV_SEQUENTIAL on files where that helps. STATUS_IO on failure.
 */
enum status input_open(struct input *input, const char *path, bool regular_only, struct arena *arena,
                       struct diags *diags);
void input_close(struct input *input);
/* The most bytes that INPUT can give in all; INT64_MAX where it is a pipe. */
static inline int64_t input_limit(const struct input *input)
{
	return input->pull ? input->limit : input->size >= 0 ? input->size : INT64_MAX;
}
/* Up to SIZE bytes, INPUT_PEEK_MOST at most, looked at without being consumed: *BYTES points at them; *GOT < SIZE only at the end. */
enum { INPUT_PEEK_MOST = (64 << 10) + 16 };
enum status input_peek(struct input *input, size_t size, const unsigned char **bytes, size_t *got, struct diags *diags);
void input_skip(struct input *input, size_t size); /* bytes that were peeked */
/* Reads until SIZE bytes or the end; *GOT says how many. */
enum status input_read(struct input *input, void *to, size_t size, size_t *got, struct diags *diags);
/* Up to SIZE bytes of FD from OFFSET on, however often it is interrupted; fewer, *GOT, at the end alone. Else false, and errno. */
bool io_read_at(int fd, int64_t offset, void *to, size_t size, size_t *got);
/* Regular files: SIZE bytes at OFFSET counted from the input's begin, safe from many threads. A short file is *GOT < SIZE. */
enum status input_read_at(const struct input *input, int64_t offset, void *to, size_t size, size_t *got,
                          struct diags *diags);

/*
 * A sink of bytes. A path that is (or would become) a regular file is written
 * to a temporary beside it and renamed by output_commit after fsync; a device,
 * FIFO, or the target of a symlink is written as such (a symlink's target, where
 * regular, atomically in the target's directory). Without commit nothing is left.
 */
struct output {
	int fd;
	const char *name;   /* for messages */
	const char *target; /* the file to become, or NULL */
	char *temporary;    /* its temporary, or NULL */
	bool nameless;      /* which has no name yet: it is linked when it is committed */
	bool flushed;       /* and nothing has been written since */
	bool owned;
	bool seekable;  /* a regular file not opened for append: output_write_at works */
	int64_t base;   /* file position at which the output began */
	int64_t offset; /* bytes written in order */
	struct arena *arena;
};

struct stat;
/* Whether they are of one file, whatever its names. */
bool io_is_same_file(const struct stat *a, const struct stat *b);
/* Whether two descriptors are of one file, which is no character device: there nothing meets. */
bool stream_is_one(int a, int b);
/* Whether FD is of the file that PATH names. */
bool stream_is_at(int fd, const char *path);
/* Whether an output takes PATH's place when it is committed (or fails, on a directory); else it writes into what is there. */
bool output_replaces(const char *path);
/* Where a link that leads to nothing leads: PATH itself where it is no link. False and errno where there is no telling. */
bool output_follow(const char *path, char to[PATH_MAX]);
/* PATH NULL or "-" is standard output. STATUS_IO on failure. */
enum status output_open(struct output *output, const char *path, struct arena *arena, struct diags *diags);
/* Likewise, but that others can read what has been written so far: a regular file is emptied, and written into. */
enum status output_open_live(struct output *output, const char *path, struct arena *arena, struct diags *diags);
/* The descriptor of this process that PATH names, "-" standard output's, or -1. */
int output_descriptor(const char *path);
/* All SIZE bytes, or STATUS_IO. */
enum status output_write(struct output *output, const void *from, size_t size, struct diags *diags);
/* At OFFSET from the output's begin; seekable outputs only, safe from many threads. */
enum status output_write_at(struct output *output, int64_t offset, const void *from, size_t size, struct diags *diags);
/* Has the temporary, if it has one, on disk. */
enum status output_flush(struct output *output, struct diags *diags);
/* Flushes, where that has not been done, renames, closes; reports what the system says only at close. */
enum status output_commit(struct output *output, struct diags *diags);
/* Closes and removes the temporary; does nothing after a commit. Async-signal-safe removal is io_cleanup's. */
void output_abort(struct output *output);

/* Writes SIZE bytes, waiting where FD has no room; fewer, and errno, where that fails. */
size_t io_write(int fd, const void *from, size_t size);
/* SIZE bytes at OFFSET of FD, a file; false, and errno, where that fails. */
bool io_write_at(int fd, int64_t offset, const void *from, size_t size);
/*
 * open, however often it is interrupted, by a descriptor above the standard ones: a
 * standard stream that is closed never becomes a data file. -1 with errno.
 */
int io_open(const char *path, int flags, mode_t mode);
/*
 * Makes a file of its own, which only its owner may read: named PATH, in which the
 * IO_LETTERS characters from LETTERS on are chosen by chance; or in DIRECTORY with no
 * name, so that it goes with the program. A descriptor, -1 with errno.
 */
enum { IO_LETTERS = 10 };
int io_make_unique(char *path, size_t letters);
int io_make_nameless(const char *directory);

/* Removes every temporary that is still open; async-signal-safe, for the handlers of signals that end the program. */
void io_cleanup(void);

#endif
