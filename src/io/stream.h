/*
 * Input and output over descriptors of files that users name. Handles EINTR, EAGAIN (waits by poll), short reads and
 * short writes. A run's own files, which never wait, are handled by io/spill.c and io/journal.c.
 */
#ifndef IO_STREAM_H
#define IO_STREAM_H

#include "base/diag.h"
#include "io/paths.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads up to SIZE bytes of STREAM to TO. Their number *GOT is 0 only at the end. */
typedef enum status input_pull(void *stream, void *to, size_t size, size_t *got, struct diags *diags);

/* A source of bytes, read in order (or, for a regular file, anywhere). */
struct input {
	int fd; /* -1: bytes come from PULL */
	input_pull *pull;
	void *stream;
	const char *name;      /* the path, or <stdin>, for messages */
	int64_t offset;        /* the byte, counted from BASE, that is read next */
	int64_t size;          /* bytes from BASE to the end of a regular file, when it was opened; else -1 */
	int64_t limit;         /* the most bytes that PULL gives */
	int64_t base;          /* file position where the input begins: part of stdin may have been read before */
	unsigned char *buffer; /* look-ahead: bytes BEGIN .. END-1 are read but not consumed; NULL before the first peek */
	size_t begin, end;
	bool eof;
	bool owned; /* input_close closes the descriptor */
	struct arena *arena;
};

/*
 * Opens PATH; NULL or "-" is standard input. With REGULAR_ONLY a device, FIFO or socket is refused. Sets F_SETPIPE_SZ
 * on pipes and POSIX_FADV_SEQUENTIAL on files where that helps. Fails with STATUS_IO, at a closed standard input too.
 */
enum status input_open(struct input *input, const char *path, bool regular_only, struct arena *arena,
                       struct diags *diags);
void input_close(struct input *input);
/* Points *BYTES, until the next call, at the next SIZE (<= INPUT_PEEK_MOST) bytes. *GOT < SIZE only at the end. */
enum { INPUT_PEEK_MOST = (64 << 10) + 16 };
enum status input_peek(struct input *input, size_t size, const unsigned char **bytes, size_t *got, struct diags *diags);
void input_skip(struct input *input, size_t size); /* consumes bytes that were peeked */
/* Makes byte OFFSET of INPUT, a regular file, the next one that is read. */
enum status input_seek(struct input *input, int64_t offset, struct diags *diags);
/* Reads SIZE bytes to TO. Their number *GOT is less than SIZE only at the end. */
enum status input_read(struct input *input, void *to, size_t size, size_t *got, struct diags *diags);
/* The size of a regular file and the times of its last changes, in nanoseconds. */
struct input_stamp {
	int64_t size, modified, changed;
};
/* Returns the stamp of INPUT now; zeros if it is no regular file. */
struct input_stamp input_stamp(const struct input *input);
/* Fails with STATUS_DATA if the stamp of INPUT differs from STAMP: somebody has changed the file since. */
enum status input_check_stamp(const struct input *input, const struct input_stamp *stamp, struct diags *diags);
/* Reads SIZE bytes of FD from OFFSET on. *GOT < SIZE only at the end. On failure returns false, and sets errno. */
bool io_read_at(int fd, int64_t offset, void *to, size_t size, size_t *got);
/* Reads SIZE bytes of a regular file, from byte OFFSET of INPUT on, from any thread. *GOT < SIZE only at the end. */
enum status input_read_at(const struct input *input, int64_t offset, void *to, size_t size, size_t *got,
                          struct diags *diags);
/* Reports that a read at byte OFFSET of INPUT, or -1, has failed, as errno says. Returns STATUS_IO. */
enum status input_failed(const struct input *input, int64_t offset, struct diags *diags);

/*
 * A sink of bytes. A regular file, or a path without a file, is replaced as a whole unless it is opened live. The bytes
 * go to a temporary beside it, and output_commit flushes and renames that. Without a commit nothing is left. A symbolic
 * link is followed, and its file is replaced. A device, FIFO or descriptor of this process is written directly. A file
 * that is a mount point, as containers have them, gets the temporary's bytes at the commit.
 */
struct output {
	int fd; /* -1: bytes go to PUSH */
	void (*push)(void *stream, const void *from, size_t size);
	void *stream;
	const char *name;   /* for messages */
	const char *target; /* the file to replace, or NULL */
	char *temporary;    /* the path of the temporary, which FD writes; NULL: it writes in place, or is committed */
	bool nameless;      /* the temporary has no name until it is committed */
	bool mounted;       /* the target is a mount point, which nothing can replace: output_commit writes into it */
	bool flushed;       /* output_flush has run; nothing may be written after that */
	bool owned;         /* output_commit and output_abort close the descriptor */
	bool seekable;      /* a regular file not opened for append: output_write_at takes offsets */
	bool joined;        /* another process owns the file, and writes what goes in order: here such bytes are dropped */
	int64_t base;       /* file position at which the output began */
	int64_t offset;     /* where the next bytes in order go, counted from BASE */
	struct arena *arena;
};

struct stat;
/* True if both describe the same file. */
bool io_is_same_file(const struct stat *a, const struct stat *b);
/* True if two descriptors refer to the same file, pipe or socket. False for a character device. */
bool stream_is_one(int a, int b);
/* True if FD refers to the file at PATH. */
bool stream_is_at(int fd, const char *path);
/* True if output_open would replace PATH or fail on a directory; false if it writes to a device, FIFO or descriptor. */
bool output_replaces(const char *path);
/* Writes to TO the path to which PATH leads: PATH itself unless that is a symbolic link. False, with errno, if none. */
bool output_follow(const char *path, char to[PATH_MAX]);
/* Opens PATH; NULL or "-" is standard output. Fails with STATUS_IO. */
enum status output_open(struct output *output, const char *path, struct arena *arena, struct diags *diags);
/*
 * Opens the file that another process writes as OUTPUT, of which PATH is the path, to write parts of it at their
 * offsets. PATH NULL: there is no such file, and all bytes are dropped. BASE is the other's. Messages say NAME.
 */
enum status output_join(struct output *output, const char *name, const char *path, int64_t base, struct arena *arena,
                        struct diags *diags);
/*
 * Writes the path by which other processes open OUTPUT's file. TOGETHER: they run on this machine; else a temporary gets
 * its name now. False if that fails, or if it is not a regular file.
 */
bool output_share(struct output *output, bool together, char path[PATH_MAX]);
/* Opens PATH as output_open does, but others can read the bytes at once: a regular file is emptied and written into. */
enum status output_open_live(struct output *output, const char *path, struct arena *arena, struct diags *diags);
/* Returns the descriptor of this process that PATH names ("-" is standard output), or -1. */
int output_descriptor(const char *path);
/* An offset that stands for the end of the bytes that were written in order. */
enum { IO_NEXT = -1 };
/*
 * Writes SIZE bytes, or fails with STATUS_IO. They go to byte OFFSET of the output, from any thread and only if it is
 * seekable, or to IO_NEXT.
 */
enum status output_write_at(struct output *output, int64_t offset, const void *from, size_t size, struct diags *diags);
/* The same without a message. False and errno on failure. */
bool output_try_at(struct output *output, int64_t offset, const void *from, size_t size);
/* Reports that a write has failed, as errno says. Returns STATUS_IO. */
enum status output_failed(const struct output *output, struct diags *diags);
static inline enum status output_write(struct output *output, const void *from, size_t size, struct diags *diags)
{
	return output_write_at(output, IO_NEXT, from, size, diags);
}
/*
 * Says that the next SIZE bytes will be written. A file gets its blocks then at once, where that saves time: ext4 looks
 * for them page by page else, which takes most of the time of a large file. Does nothing if that fails.
 */
void output_reserve(const struct output *output, int64_t size);
/* Writes the temporary, if there is one, to disk. */
enum status output_flush(struct output *output, struct diags *diags);
/* Flushes the temporary unless that is done, renames and closes it. Reports errors at close too. A failure aborts. */
enum status output_commit(struct output *output, struct diags *diags);
/* Closes the descriptor if it is owned, and removes the temporary; does nothing after a commit. */
void output_abort(struct output *output);

/* Writes SIZE bytes to FD, at byte OFFSET or IO_NEXT. Waits until FD is ready. On failure returns false, sets errno. */
bool io_write_at(int fd, int64_t offset, const void *from, size_t size);
enum { IO_LETTERS = 10 };
/* Writes IO_LETTERS random characters to NAME. Returns false and sets errno on failure. */
bool io_choose_letters(char *name);
/*
 * Makes a file in DIRECTORY that only its owner may read. It has no name, and ends with the program. Returns its
 * descriptor, or -1 and sets errno.
 */
int io_make_nameless(const char *directory);

/*
 * Replaces an entry OLD of the list of files that io_cleanup removes by NEW; NULL is a free entry. Returns false if no
 * entry is OLD.
 */
bool io_exchange_temporary(char *old, char *new);
/* Removes all temporaries that have a name. It is async-signal-safe, for handlers of signals that end the program. */
void io_cleanup(void);

#endif
