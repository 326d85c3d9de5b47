/* The archive of all values of a run: -o FILE.npz or FILE.safetensors. */
#ifndef CLI_VALUE_ARCHIVE_H
#define CLI_VALUE_ARCHIVE_H

#include "cli/session.h"

struct value_archive {
	struct output files[MOST_VALUES]; /* unnamed */
	int descriptors[MOST_VALUES];
	struct writer writers[MOST_VALUES], *pointers[MOST_VALUES + 1]; /* by value of the run, then NULL */
	size_t opened_count;
};

/* Opens the files of session->archive's values, for whose rows the writers are. The caller closes ARCHIVE, if this fails too. */
enum status value_archive_open(struct session *session, struct value_archive *archive);
/* Writes the values, which are complete, to the session's `out`. Fails with STATUS_DATA if there are several records. */
enum status value_archive_put(struct session *session, struct value_archive *archive);
void value_archive_close(struct value_archive *archive);

#endif
