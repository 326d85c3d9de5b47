/* The archive of all values of a run: -o FILE.npz or FILE.safetensors. */
#ifndef CLI_VALUE_ARCHIVE_H
#define CLI_VALUE_ARCHIVE_H

#include "cli/session.h"

struct value_archive {
	struct opened_output *files[MOST_VALUES]; /* which the session's end removes */
	struct writer *writers[MOST_VALUES + 1];  /* by value of the run, then NULL */
};

/* Opens the files of session->archive's values, for whose rows the writers are. ARCHIVE is all zeros. */
enum status value_archive_open(struct session *session, struct value_archive *archive);
/*
 * Rank 0 writes the values to the session's `out` when all ranks have written their rows. Fails with STATUS_DATA if there are
 * several records.
 */
enum status value_archive_put(struct session *session, struct value_archive *archive);

#endif
