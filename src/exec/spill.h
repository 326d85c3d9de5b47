/*
 * States on disk: one file in a directory of the user's. It has no name, so that
 * no end of the program leaves it behind; but with a journal (journal.h), which
 * is there to go on from it, it has. Each state has a checksum.
 *
 * A worker of its own writes a state from a copy while the run goes on, and reads
 * ahead the one that is wanted next.
 */
#ifndef EXEC_SPILL_H
#define EXEC_SPILL_H

#include "base/diag.h"

#include <pthread.h>
#include <stdint.h>

struct spill_piece {
	void *data;
	size_t size;
};

/* Where the pieces of a slot lie, one after another. */
struct spill_region {
	int64_t offset;
	size_t size, room; /* bytes written; bytes of the place. size 0: nothing */
	uint64_t checksum;
};

/* What of writing a slot failed, of which file, and its errno; 0: nothing did. */
struct spill_failure {
	const char *path, *what;
	int error;
};

/* What the worker does. */
enum spill_task { SPILL_IDLE, SPILL_WRITE, SPILL_READ, SPILL_END };

struct spill {
	int fd;                       /* -1: no file yet */
	const char *name;             /* in messages: the file's, or the directory's */
	struct spill_region *regions; /* by slot */
	size_t capacity;
	int64_t end; /* of the file */
	char *staging;
	size_t staging_size;
	int64_t staged; /* the slot that staging holds, or -1 */
	struct spill_region staged_region;
	/* Called when a slot is on disk, by whoever wrote it, or NULL. */
	struct spill_failure (*written)(void *context, int64_t slot, const struct spill_region *region);
	void *written_context;
	pthread_t worker;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum spill_task task;
	struct spill_failure failure; /* the worker's */
	const struct allocator *allocator;
};

/* STATUS_IO where fewer than WANTED bytes are free in DIRECTORY. */
enum status spill_check_room(const char *directory, int64_t wanted, struct diags *diags);
/*
 * Starts the worker, with STAGING bytes for the largest state. The file comes by
 * spill_create or spill_use. Where it fails it leaves nothing to close.
 */
enum status spill_open(struct spill *spill, size_t staging, const struct allocator *allocator, struct diags *diags);
/* A file without a name in DIRECTORY. */
enum status spill_create(struct spill *spill, const char *directory, struct diags *diags);
/* The file FD, which it closes. */
void spill_use(struct spill *spill, int fd, const char *name);
/* Slot SLOT lies at REGION: of a file that is gone on with. */
enum status spill_restore(struct spill *spill, int64_t slot, const struct spill_region *region, struct diags *diags);

/*
 * Writes the COUNT pieces as SLOT, over what was there; they have been copied when
 * it returns, and an error of the disk is told by the next call. At once: it is
 * done when it returns, and what is read ahead stays.
 */
enum status spill_write(struct spill *spill, int64_t slot, const struct spill_piece *pieces, size_t count,
                        struct diags *diags);
enum status spill_write_at_once(struct spill *spill, int64_t slot, const struct spill_piece *pieces, size_t count,
                                struct diags *diags);
/* Reads them back; STATUS_IO where they are short or are not what was written. */
enum status spill_read(struct spill *spill, int64_t slot, const struct spill_piece *pieces, size_t count,
                       struct diags *diags);
/* Begins to read SLOT, which is wanted next. */
void spill_read_ahead(struct spill *spill, int64_t slot);
void spill_close(struct spill *spill);

#endif
