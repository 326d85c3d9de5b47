/*
 * The points of a gradient run with a journal: how it opens the journal, when it writes a point, and from which point it
 * resumes. resume.c and tile_journal.c say where points can lie, and what an image has beside the sums.
 */
#ifndef EXEC_POINTS_H
#define EXEC_POINTS_H

#include "io/spill.h"
#include "memory/hooks.h"

struct pipeline;
struct run;
struct worker;

struct points {
	enum { POINTS_NOWHERE, POINTS_BETWEEN_CALLS, POINTS_BETWEEN_CHUNKS } lie; /* nowhere: there is no journal */
	struct spill *spill;                                                      /* has the images */
	struct spill_pieces pieces;                                               /* of an image */
	int64_t sums, image; /* the most bytes of an image beside the machine's arrays, and with them */
	int64_t number;      /* of the last moment that can be a point, from 1 on in each run */
	int64_t from;        /* of the point from which the run resumes; 0: it begins */
	int64_t slot;        /* of the last image */
	double error;        /* the largest of the store, for an image */
	double last, asked;  /* by clock_seconds: the last point or, before the first, the begin; the last decision */
	double rate, share;  /* seconds a byte to write an image; so many times as long must pass before the next one */
	int64_t step, next;  /* moments between two decisions; the moment of the next one */
	/* Between calls: */
	struct machine_hooks computing; /* the hooks of a run that does not skip */
	bool recordless;                /* a program keeps records, which are in no image */
	/* Between chunks: */
	struct spill file;
	int64_t item;  /* bytes of the rows of a chunk */
	uint64_t hash; /* of this rank's rows so far */
};

/*
 * Opens the journal, whose input INPUT identifies and whose spill file needs WANTED bytes beside images, and sets
 * points.from. The caller has set the pieces to those of the largest image, without arrays of the machine. Fails with
 * STATUS_DATA if the journal is of another run, or another array follows.
 */
enum status points_open(struct run *run, uint64_t input, int64_t wanted, struct diags *diags);
/* Returns HASH, continued with the name of TYPE. */
uint64_t points_hash_type(uint64_t hash, const struct type *type);
/* Append DATA, or the sums of param I, to the pieces. */
enum status points_add(struct run *run, void *data, size_t size, struct diags *diags);
enum status points_add_sums(struct run *run, size_t i, struct diags *diags);
/*
 * Sets *DUE if an image, with ARRAYS bytes of the machine, is due now or a rank says that it MUST be. All ranks that share
 * rows call it at the same moments. They need not before points.next.
 */
enum status points_decide(struct run *run, bool must, int64_t arrays, bool *due);
/* Writes the pieces, and the store's error, as the image of points.number. All ranks do so together. */
enum status points_write(struct run *run, struct diags *diags);
/* Reads the image of points.from back to its pieces. */
enum status points_read(struct run *run, struct diags *diags);

/* resume.c, of points between calls: else these do nothing */

/* Wraps the worker's hooks in hooks that skip up to the point from which the run resumes. */
void resume_hook(struct worker *worker);
/* Opens the journal. The run's input or its window is at INPUT, of TYPE. */
enum status resume_open(struct worker *worker, const struct type *type, const void *input);

/* tile_journal.c, of points between chunks: else these do nothing, but that the chunks run */

/*
 * Opens the journal of the run, which then resumes from the last point of all ranks: run->begun, sums and outputs are as
 * they were there. Fails with STATUS_USAGE if the input is no file. tile_journal_close is called after a failure too.
 */
enum status tile_journal_open(struct run *run);
void tile_journal_close(struct run *run);
/* Writes the rows of CHUNK, which are in the worker's blocks, to the spill file. Calls come in the order of chunks. */
enum status tile_journal_keep(struct worker *worker, int64_t chunk, struct diags *diags);
/* Runs the chunks from run->begun on by PIPELINE, and writes points between them. */
enum status tile_journal_run(struct run *run, const struct pipeline *pipeline);

#endif
