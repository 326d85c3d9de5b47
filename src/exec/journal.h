/*
 * The journal of a gradient run, by which one that was killed goes on.
 *
 * It is a text file of lines, each with its own checksum, only ever added to: who
 * the run is (chain, options, params, input, as hashes), the spill file, and what
 * has become durable there. A blob is in the spill file, and synced, before the
 * journal names it, and the line is synced before anything is built on it; so
 * whatever the moment of the kill, what the journal names can be read. A last line
 * without its end is dropped; any other that is not right is an error, and a
 * journal of another run is refused.
 */
#ifndef EXEC_JOURNAL_H
#define EXEC_JOURNAL_H

#include "exec/spill.h"

enum journal_part {
	JOURNAL_CHAIN,
	JOURNAL_POLICY,
	JOURNAL_TYPES,
	JOURNAL_VALUE_WANTED,
	JOURNAL_COTANGENT,
	JOURNAL_PROGRAM,
	JOURNAL_PARAMS,
	JOURNAL_INPUT,
	JOURNAL_PARTS
};

/* Who a run is: a hash for each part, by hash_bytes (base/hash.h). */
struct journal_identity {
	uint64_t parts[JOURNAL_PARTS];
};

/* Slots of the spill file: a state's is its disk slot and JOURNAL_STATES. */
enum journal_slot { JOURNAL_POINT_A, JOURNAL_POINT_B, JOURNAL_VALUE, JOURNAL_STATES };

struct journal {
	int fd;
	const char *path; /* as it was given, for messages */
	const char *file; /* what that leads to, if it is a link */
	char *spill_path;
	int spill_fd;
	int64_t number;     /* of the last point that is durable, or -1 */
	int64_t point_slot; /* where it lies */
	int64_t next;       /* the number of the point that is being written, or -1 */
	int64_t last_state; /* the disk slot of the last durable state, or -1 */
	bool goes_on;       /* there is something to go on from */
};

/*
 * Opens PATH, and of DIRECTORY the spill file that it names or a new one (WANTED
 * bytes must be free for a new one), which SPILL then uses. STATUS_DATA where the journal is
 * not a journal or is not IDENTITY's; STATUS_IO where another process has it or the
 * spill file is gone or short.
 */
enum status journal_open(struct journal *journal, const char *path, const char *directory, int64_t wanted,
                         const struct journal_identity *identity, struct spill *spill, struct arena *arena,
                         struct diags *diags);
/* Says in it that the run has given what it was to give: another then begins anew, whatever of the files is left. */
void journal_finish(struct journal *journal);
/* That, and removes both files: a warning where one stays. Closes it. */
void journal_remove(struct journal *journal, struct diags *diags);
/* Closes it, to go on from. */
void journal_close(struct journal *journal);

#endif
