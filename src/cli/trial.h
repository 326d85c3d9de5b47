/*
 * What a chain is tried on by commands that run it again and again: the values of
 * its input, and npy files in memory that runs read and write as any others.
 */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include "cli/session.h"

/* A multiple of the golden ratio, in [0, 1): each new one falls into one of the largest gaps. */
double trial_fraction(int64_t k);
/* The input's TYPE: of the stream, or --shape where nothing else is given. */
enum status trial_begin_input(struct session *session, struct type *type);
/* Its COUNT values from value FIRST on, in order: from the stream, or, where only a type is given, spread over (-1, 1). */
enum status trial_read_input(struct session *session, int64_t first, double *values, int64_t count);
/* Nothing may follow. */
enum status trial_end_input(struct session *session);

/* A new file, empty. *FD is -1 on failure: STATUS_IO. */
enum status trial_open_file(struct session *session, int *fd);
/* Makes READER one of the file FD, from its begin. ARENA is the run's: there are many. */
void trial_read_file(int fd, struct input *input, struct reader *reader, struct arena *arena);
/* Makes WRITER one of the file FD, from where it stands. */
void trial_write_file(int fd, struct output *output, struct writer *writer, struct arena *arena);

#endif
