/* For commands that run a chain many times: the input's values, and npy files in memory to read and write. */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include "cli/session.h"

/* The fractional part of K + 1 golden ratios: each K falls into one of the largest gaps between earlier ones. */
double trial_fraction(int64_t k);
/* Sets TYPE to that of the stream, or of --shape if there is no stream. */
enum status trial_begin_input(struct session *session, struct type *type);
/* Reads COUNT values from number FIRST on, in order; with --shape alone, makes values in (-1, 1). */
enum status trial_read_input(struct session *session, int64_t first, double *values, int64_t count);
/* Warns if more arrays follow. STATUS_DATA for other bytes. */
enum status trial_end_input(struct session *session);

/* A new file, empty. *FD is -1 on failure: STATUS_IO. */
enum status trial_open_file(struct session *session, int *fd);
/* Makes a READER of the file FD, from its begin, in the ARENA of the run. */
void trial_read_file(int fd, struct input *input, struct reader *reader, struct arena *arena);
/* Makes a WRITER of the file FD, from its current offset. */
void trial_write_file(int fd, struct output *output, struct writer *writer, struct arena *arena);

#endif
