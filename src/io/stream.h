/*
 * Input and output over file descriptors that users give: EINTR, EAGAIN (waits by poll),
 * short reads and short writes are handled here. A run's own files never wait; exec/spill.c
 * and exec/journal.c handle them.
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
	const char *name;      /* the path, or <stdin>, for messages */
	int64_t offset;        /* bytes consumed so far, for messages */
	int64_t size;          /* of a regular file, else -1 */
	int64_t limit;         /* the most bytes that PULL gives */
	int64_t base;          /* file position where the input begins: part of stdin may have been read before */
	unsigned char *buffer; /* look-ahead */
	size_t begin, end;
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
/* Points *BYTES at the next SIZE bytes, at most INPUT_PEEK_MOST, without consuming them. *GOT < SIZE only at the end. */
enum { INPUT_PEEK_MOST = (64 << 10) + 16 };
enum status input_peek(struct input *input, size_t size, const unsigned char **bytes, size_t *got, struct diags *diags);
void input_skip(struct input *input, size_t size); /* consumes bytes that were peeked */
/* The next byte read is the one at OFFSET of INPUT, a regular file. */
enum status input_seek(struct input *input, int64_t offset, struct diags *diags);
/* Reads SIZE bytes, *GOT; fewer only at the end. */
enum status input_read(struct input *input, void *to, size_t size, size_t *got, struct diags *diags);
/* Reads SIZE bytes of FD from OFFSET on, *GOT; fewer only at the end. Returns false and sets errno on failure. */
bool io_read_at(int fd, int64_t offset, void *to, size_t size, size_t *got);
/* Reads SIZE bytes of a regular file from OFFSET on, counted from the input's begin, from any thread; *GOT as above. */
enum status input_read_at(const struct input *input, int64_t offset, void *to, size_t size, size_t *got,
                          struct diags *diags);

/*
 * A sink of bytes. A path that is a regular file, or that nothing is at, is replaced as a
 * whole: bytes go to a temporary beside it, and output_commit flushes and renames that.
 * Without a commit nothing is left. A symbolic link is followed, and the file it leads to is
 * replaced. A device or FIFO is written directly.
 */
struct output {
	int fd; /* -1: bytes go to PUSH */
	void (*push)(void *stream, const void *from, size_t size);
	void *stream;
	const char *name;   /* for messages */
	const char *target; /* the file to replace, or NULL */
	char *temporary;    /* its temporary, or NULL */
	bool nameless;      /* the temporary has no name until it is committed */
	bool flushed;       /* nothing has been written since the last flush */
	bool owned;
	bool seekable;  /* a regular file not opened for append: output_write_at works */
	int64_t base;   /* file position at which the output began */
	int64_t offset; /* bytes written in order */
	struct arena *arena;
};

struct stat;
/* True if both describe the same file. */
bool io_is_same_file(const struct stat *a, const struct stat *b);
/* True if two descriptors refer to the same file, unless that is a character device. */
bool stream_is_one(int a, int b);
/* True if FD refers to the file at PATH. */
bool stream_is_at(int fd, const char *path);
/* True if an output replaces PATH at its commit, or fails on a directory; false if it writes into the existing file. */
bool output_replaces(const char *path);
/* Follows a symbolic link to a path where nothing is; copies a PATH that is no link. Returns false and sets errno on failure. */
bool output_follow(const char *path, char to[PATH_MAX]);
/* PATH NULL or "-" is standard output. STATUS_IO on failure. */
enum status output_open(struct output *output, const char *path, struct arena *arena, struct diags *diags);
/* The same, but others can read the bytes at once: a regular file is emptied and written into. */
enum status output_open_live(struct output *output, const char *path, struct arena *arena, struct diags *diags);
/* Returns the descriptor of this process that PATH names ("-" is standard output), or -1. */
int output_descriptor(const char *path);
/* As an offset: the bytes follow those that were written in order before. */
enum { IO_NEXT = -1 };
/*
 * Writes SIZE bytes, or fails with STATUS_IO: at OFFSET from the output's begin, from any
 * thread and only to a seekable output, or at IO_NEXT.
 */
enum status output_write_at(struct output *output, int64_t offset, const void *from, size_t size, struct diags *diags);
static inline enum status output_write(struct output *output, const void *from, size_t size, struct diags *diags)
{
	return output_write_at(output, IO_NEXT, from, size, diags);
}
/* Writes the temporary, if there is one, to disk. */
enum status output_flush(struct output *output, struct diags *diags);
/* Flushes the temporary unless that is done, renames and closes it. Reports errors that show only at close. */
enum status output_commit(struct output *output, struct diags *diags);
/* Closes and removes the temporary; does nothing after a commit. */
void output_abort(struct output *output);

/* Writes SIZE bytes at OFFSET of the file FD, or at IO_NEXT; waits while FD is not ready. Returns false and sets errno on failure. */
bool io_write_at(int fd, int64_t offset, const void *from, size_t size);
/*
 * open, repeated when a signal interrupts it. The descriptor is above the standard ones, so
 * a data file never takes the place of a closed standard stream. Returns -1 with errno on failure.
 */
int io_open(const char *path, int flags, mode_t mode);
/*
 * Makes a new file that only its owner may read. Returns its descriptor, or -1 with errno.
 * io_make_unique names it PATH, and makes IO_LETTERS characters of it from LETTERS on random. A
 * file of io_make_nameless has no name, and ends with the program.
 */
enum { IO_LETTERS = 10 };
int io_make_unique(char *path, size_t letters);
int io_make_nameless(const char *directory);

/* Removes all temporaries that are open. Async-signal-safe, for handlers of signals that end the program. */
void io_cleanup(void);

#endif
