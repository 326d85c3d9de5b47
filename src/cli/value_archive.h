/*
 * An archive of what a command computes row by row: all values of a run, -o FILE.npz or FILE.safetensors, or one of the files
 * of a gradient.
 */
#ifndef CLI_VALUE_ARCHIVE_H
#define CLI_VALUE_ARCHIVE_H

#include "cli/session.h"

struct value_archive {
	const char *path;
	struct opened_output *out;      /* at PATH */
	const char *names[MOST_VALUES]; /* of the COUNT arrays, in the order of WRITERS */
	size_t count;
	struct opened_output *files[MOST_VALUES]; /* which the session's end removes */
	const struct zip_crc *tables;
	struct writer *writers[MOST_VALUES + 1]; /* by array, then NULL */
};

/* Opens the files of ARCHIVE's arrays, for whose rows the writers are. The caller has set its first four members. */
enum status value_archive_open(struct session *session, struct value_archive *archive);
/*
 * Rank 0 writes the arrays to `out`, the first as the last, when all ranks have written their rows. Fails with STATUS_DATA if there are
 * several records.
 */
enum status value_archive_put(struct session *session, struct value_archive *archive);

#endif
