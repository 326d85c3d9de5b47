/* For commands that run a chain many times: the values of the input, and npy files in memory. */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include "cli/job.h"
#include "exec/run.h"

/* Returns the fractional part of (K + 1) * 0.618...: each next K falls into a largest gap between earlier values. */
double trial_fraction(int64_t k);
/* Opens the input and sets TYPE to its type; with --shape alone, or declared and at a terminal, to the type that is given. */
enum status trial_begin_input(struct session *session, struct type *type);
/* Reads the next COUNT values of the input; with --shape alone, makes those from number FIRST on, in (-1, 1), whole ones of integers. */
enum status trial_read_input(struct session *session, int64_t first, double *values, int64_t count);
/* Warns if the input has more arrays. Fails with STATUS_DATA if other bytes follow. */
enum status trial_end_input(struct session *session);

/* Makes *FILE, an empty file in memory. */
enum status trial_open_file(struct session *session, struct opened_output **file);
/* Empties FILE, unless it is a device, and makes its writer for npy, in ARENA. */
void trial_write_file(struct opened_output *file, struct arena *arena);
/* Makes READER read FILE, which is npy, from its begin, through INPUT. Their buffers are in ARENA. */
void trial_read_file(const struct opened_output *file, struct input *input, struct reader *reader, struct arena *arena);

struct trial {
	struct session *session;
	struct opened_output *in, *out; /* files in memory; OUT may be a device */
	struct arena *arena;            /* for results of the run */
	struct run_options options;
	bool compare; /* as in gradient_options */
};
/* Runs the chain on `in`. Writes its output, or with RESULT its gradient, to `out`. The caller always frees RESULT. */
enum status trial_run(const struct trial *trial, struct gradient_result *result);

#endif
