/* For commands that run a chain many times: the input's values, and npy files in memory to read and write. */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include "cli/job.h"
#include "exec/run.h"

/* The fractional part of K + 1 golden ratios: each K falls into one of the largest gaps between earlier ones. */
double trial_fraction(int64_t k);
/* Sets TYPE to that of the stream, or of --shape if there is no stream. */
enum status trial_begin_input(struct session *session, struct type *type);
/* Reads COUNT values from number FIRST on, in order; with --shape alone, makes values in (-1, 1). */
enum status trial_read_input(struct session *session, int64_t first, double *values, int64_t count);
/* Warns if more arrays follow. STATUS_DATA for other bytes. */
enum status trial_end_input(struct session *session);

/* Opens a new file in memory. */
enum status trial_open_file(struct session *session, struct opened_output **file);
/* Empties FILE, unless it is a device, and makes its writer, in ARENA. */
void trial_write_file(struct opened_output *file, struct arena *arena);
/* Makes a READER of FILE from its begin, in ARENA. */
void trial_read_file(const struct opened_output *file, struct input *input, struct reader *reader, struct arena *arena);

struct trial {
	struct session *session;
	struct opened_output *in, *out; /* files in memory; OUT may be a device */
	struct arena *arena;            /* of the run */
	struct run_options options;
	bool compare; /* of gradient_options */
};
/* Runs the chain from `in` to `out`: forward, or if RESULT is not NULL, the gradient of the input. */
enum status trial_run(const struct trial *trial, struct gradient_result *result);

#endif
