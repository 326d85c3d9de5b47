/* The gradients of params and inputs, which --grads and --grad write and --accumulate adds. */
#ifndef CLI_GRADIENT_FILES_H
#define CLI_GRADIENT_FILES_H

#include "cli/session.h"
#include "exec/run.h"

/*
 * Where the gradient of an input goes while the run makes it: rows go to the files of --grad, and to the npz of --grads if
 * that takes them (struct early_gradients). Else the array is held in memory, and written in the end as those of params are.
 * Ranks gather the rows in a temporary first.
 */
struct input_sink {
	struct opened_output **outs; /* of --grad */
	size_t out_count;
	struct opened_output *gathered; /* where ranks write what is in an archive or held, for rank 0 to read; or NULL */
	bool in_archive, holds;
	int records;      /* begun so far */
	struct type type; /* of the record */
	void *array;      /* SIZE bytes, if it HOLDS */
	size_t size;
};

/* Fails with STATUS_USAGE if --grads, --grad or --accumulate are wrong for the chain, which is loaded. */
enum status gradient_files_check(struct session *session);
/*
 * The file of --grads, to which large gradients go as soon as they are complete: a thread writes them while others compute.
 * The rest of the file is written in the end.
 */
struct early_gradients {
	struct session *session;
	const struct gradient_result *result;
	struct opened_output *out;  /* NULL: all is written in the end */
	struct team *team;          /* the caller and the thread that writes; NULL: the run has one thread */
	struct named_array *arrays; /* of the file */
	uint32_t *crcs;             /* of ARRAYS that are written */
	const struct zip_crc *tables;
	struct npz_rows *rows;     /* of ARRAYS that are written row by row; others have no output */
	struct npz_values *values; /* being written; or NULL */
	size_t index;              /* in ARRAYS, of VALUES */
	struct input_sink *inputs; /* by input: 0 is the first, 1 + I chain->params[I] */
};
/*
 * Opens the file if gradients of RESULT, which the run will set, may be written early: to an npz. Opens the files of --grad
 * for inputs.
 */
enum status early_gradients_open(struct session *session, struct early_gradients *early,
                                 const struct gradient_result *result);
/* Begins to write PARAM's gradient: a gradient_options.written. */
void early_gradients_write(void *early, size_t param, const void *gradient);
/* The functions of struct gradient_rows. */
bool early_gradients_begin_rows(void *early, size_t param);
bool early_gradients_put_rows(void *early, size_t param, int64_t at, const void *from, size_t size);
enum status early_gradients_end_rows(void *early, size_t param, struct diags *diags);
/* Returns the functions for the gradients of inputs; without functions if no file wants one. */
struct input_gradients early_gradients_inputs(struct early_gradients *early);
/* Gives rank 0 the gradients of inputs that it writes for all ranks, which call this together. */
enum status early_gradients_gather(struct early_gradients *early);
/* Ends the files of --grad for inputs, in every rank; session_commit renames them. */
enum status early_gradients_put(struct early_gradients *early);
/* Waits until the thread of EARLY has written the gradient that it began. */
void early_gradients_close(struct early_gradients *early);
/*
 * Writes the files, which session_commit renames. With --accumulate, first locks their folders, and waits for other
 * commands that have; the session keeps the locks. RESULT's gradients may change.
 * EARLY has gradients that are written already.
 */
enum status gradient_files_put(struct session *session, const struct gradient_result *result,
                               struct early_gradients *early);

#endif
