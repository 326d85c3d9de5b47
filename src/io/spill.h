/*
 * States on disk, in one file of a directory that the user names. The file has no
 * name, so it vanishes with the process however that ends. A journal (journal.h)
 * resumes from the file and therefore gives it a name. Each state has a checksum.
 *
 * A team with one more thread writes a copy of a state while the caller computes, and
 * reads the next state ahead. Without that thread the caller does both at its next call.
 */
#ifndef IO_SPILL_H
#define IO_SPILL_H

#include "base/team.h"

struct spill_piece {
	void *data;
	size_t size;
};

/* Pieces, one after another. Zeros: none. */
struct spill_pieces {
	struct spill_piece *items;
	size_t count, capacity;
};

/* The bytes of the file that belong to a slot; its pieces lie one after another. */
struct spill_region {
	int64_t offset;
	size_t size, room; /* bytes: of the slot's state (0: none); of the region, which may be longer */
	uint64_t checksum;
	int64_t number; /* that of struct spill when the state was written */
};

/* A failed write: its file, the operation, and its errno (0: no failure). */
struct spill_failure {
	const char *path, *what;
	int error;
};

struct spill {
	int fd;                       /* -1: no file yet */
	const char *name;             /* of the file or its directory, for messages */
	const char *remedy;           /* the note if the file is damaged */
	struct spill_region *regions; /* by slot */
	size_t capacity;
	int64_t end;    /* of the file */
	int64_t number; /* the caller's, for `written`; at first -1 */
	/* Called once the file holds SLOT, by the thread that wrote it; may be NULL. */
	struct spill_failure (*written)(void *context, int64_t slot, const struct spill_region *region);
	void *written_context;
	/* Only the team may use these from team_begin to team_wait. */
	char *staging;
	size_t staging_size;
	int64_t staged; /* the slot that staging holds, or -1 */
	struct spill_region staged_region;
	struct spill_failure failure; /* of the last staged write */
	struct team *team;
	const struct allocator *allocator;
};

/* Appends a piece to PIECES, whose memory is ARENA's. */
enum status spill_pieces_add(struct spill_pieces *pieces, struct arena *arena, void *data, size_t size,
                             struct diags *diags);
/* Returns the bytes of all PIECES. */
size_t spill_pieces_bytes(const struct spill_pieces *pieces);

/* Fails with STATUS_IO if DIRECTORY is none, or has fewer than WANTED bytes free. */
enum status spill_check_room(const char *directory, int64_t wanted, struct diags *diags);
/*
 * Allocates a staging buffer of STAGING bytes and the team, which leaves larger states to the caller.
 * Then spill_create or the caller sets the file. The caller calls spill_close in any case.
 */
enum status spill_open(struct spill *spill, size_t staging, const struct allocator *allocator, struct diags *diags);
/* Creates a nameless file in DIRECTORY. */
enum status spill_create(struct spill *spill, const char *directory, struct diags *diags);
/* Records that the file of an earlier process holds SLOT at REGION. */
enum status spill_restore(struct spill *spill, int64_t slot, const struct spill_region *region, struct diags *diags);
/* Reserves ROOM bytes from OFFSET on for SLOT, whose last state, if it has one, begins there. The file does not grow. */
enum status spill_reserve(struct spill *spill, int64_t slot, int64_t offset, size_t room, struct diags *diags);

/* True if SLOT has a state. */
static inline bool spill_holds(const struct spill *spill, int64_t slot)
{
	return (size_t)slot < spill->capacity && spill->regions[slot].size > 0;
}

/*
 * Writes PIECES as SLOT, in place of the slot's last state. spill_write copies the pieces and returns; the
 * next write or read reports an error of the disk. It writes a state that is small or beyond the staging buffer at
 * once. spill_write_at_once returns when the write is done. It keeps a state of another slot that was read ahead.
 */
enum status spill_write(struct spill *spill, int64_t slot, const struct spill_pieces *pieces, struct diags *diags);
enum status spill_write_at_once(struct spill *spill, int64_t slot, const struct spill_pieces *pieces,
                                struct diags *diags);
/* Reads SLOT back to pieces of the sizes written. STATUS_IO if the file is short, or bytes or sizes have changed. */
enum status spill_read(struct spill *spill, int64_t slot, const struct spill_pieces *pieces, struct diags *diags);
/* Begins to read SLOT, which is wanted next, unless it is small. The call before must be spill_read. */
void spill_read_ahead(struct spill *spill, int64_t slot);
/* Write or read PIECES at byte AT, which no slot has, in any thread. STATUS_IO if the file is short. */
enum status spill_write_at(const struct spill *spill, int64_t at, const struct spill_pieces *pieces,
                           struct diags *diags);
enum status spill_read_at(const struct spill *spill, int64_t at, const struct spill_pieces *pieces,
                          struct diags *diags);
/* Fails with STATUS_IO: the file is WHAT from byte AT on. */
enum status spill_damaged(const struct spill *spill, int64_t at, const char *what, struct diags *diags);
void spill_close(struct spill *spill);

#endif
