/*
 * The journal of a gradient command: a killed command resumes from it.
 *
 * The journal is a text file of lines, each with a checksum. Lines are only appended:
 *
 *   identity   after a first line: a line for each journal_part, the hash of what a resumed command must share
 *   spill      the name of the spill file, which is created once this line is synced
 *   disk, cost the measured costs of a byte on disk, and of each distinct step, if there are any
 *   blob       a state, a memory image or the output that is durable in the spill file; a state or image that is a
 *              point has its number, from 1 on; others have -1
 *   done       the outputs are written
 *
 * Invariant: a blob is synced before the journal names it, and the line is synced before the command relies on it. So
 * the last point and all states can be read, whenever the kill came; only earlier images are overwritten. An incomplete
 * last line is dropped; any other malformed line is an error. Another command's journal is refused, unless it is done.
 */
#ifndef IO_JOURNAL_H
#define IO_JOURNAL_H

#include "base/diag.h"
#include "io/spill.h"

enum journal_part {
	JOURNAL_CHAIN,
	JOURNAL_RANKS, /* before those that the rows of a rank decide */
	JOURNAL_POLICY,
	JOURNAL_TYPES,
	JOURNAL_VALUE_WANTED,
	JOURNAL_COTANGENT,
	JOURNAL_VERSION,
	JOURNAL_TARGETS,
	JOURNAL_OBJECTS,
	JOURNAL_PARAMS,
	JOURNAL_INPUT,
	JOURNAL_TILES,
	JOURNAL_PARTS
};

/* A step's measured times in nanoseconds. RECORD is as in struct step_times, BACKWARD with what the step recomputes. */
struct measured_times {
	double forward, record, backward;
};

/* Measured costs. A resumed command takes those of the first one: others may lead to another schedule. */
struct journal_costs {
	struct measured_times *steps; /* by distinct step */
	size_t count;                 /* 0: none */
	double write, read;           /* of a byte on disk */
};

/* Slots of the spill file. A state has the slot JOURNAL_STATES + its disk slot. */
enum journal_slot { JOURNAL_IMAGE_A, JOURNAL_IMAGE_B, JOURNAL_VALUE, JOURNAL_STATES };

struct journal {
	/* Set by the caller. */
	const char *path;      /* of the journal, as on the command line */
	const char *directory; /* of the spill file */
	int ranks;             /* those whose journals are PATH's, which ends in the number of this one; or 1 */
	int64_t wanted;        /* bytes that must be free in DIRECTORY for a new spill file */
	struct journal_identity {
		uint64_t parts[JOURNAL_PARTS]; /* hashes by hash_bytes; VALUE_WANTED is 0 or 1, no COTANGENT 0 */
	} identity;                        /* of the command */
	struct journal_costs costs;        /* of the command: written to a new journal */
	/* Set by journal_open. */
	int fd;
	const char *file;                /* the target of PATH's links */
	const char *spill_path, *remedy; /* REMEDY: the note how to start again */
	int spill_fd;                    /* spill_close closes it */
	bool begun;                      /* journal_open has begun a new one */
	bool has_point;                  /* a command can resume from it; so after journal_open this one does */
};

/*
 * Opens and locks the journal. SPILL, which is open, then uses the spill file that the journal names, or a new one.
 * Fails with STATUS_DATA if the file is no journal, or has another identity. Fails with STATUS_IO if another process
 * has locked it, or the spill file is gone or short. After a failure, too, the caller calls journal_close.
 */
enum status journal_open(const struct context *context, struct journal *journal, struct spill *spill);
/*
 * Reads the costs that the journal at PATH has. Without a journal there, or in one that is unfinished or malformed, COSTS
 * has none: journal_open finds out. Fails with STATUS_LIMIT alone.
 */
enum status journal_read_costs(const struct context *context, const char *path, struct journal_costs *costs);
/* Appends the line `done`: the next command then starts from the beginning, even if files are left. */
void journal_finish(const struct journal *journal);
/* Finishes and closes the journal, and removes both files. Warns of a file that stays. */
void journal_remove(struct journal *journal, struct diags *diags);
/* Closes the journal and keeps the files for a later command, unless this one has begun them and they have no point. */
void journal_close(struct journal *journal);

#endif
