/*
 * How a forward run is cut up, from the chain and its types: which rows of the input it
 * begins with, what its tiles are, and how much a worker reads and writes at a time.
 */
#ifndef PLAN_FORWARD_H
#define PLAN_FORWARD_H

#include "ir/lower.h"

/* What is known of the run besides the chain. */
struct forward_wants {
	int64_t tile;        /* --tile ROWS, or 0 */
	bool read_anywhere;  /* the input can be read, */
	bool write_anywhere; /* and the output written, in any order */
};

struct pieces {
	bool tiled;              /* else one chunk and one tile, the whole array */
	bool flat;               /* where tiled: rows are elements */
	bool folds;              /* where tiled: each tile leaves a state of the chain's fold, and no output */
	int64_t rows;            /* of the streamed axis, or elements; 1 where not tiled */
	int64_t tile, chunk;     /* rows; CHUNK a multiple of TILE but where it is all of them; 1 where not tiled */
	int64_t in_row, out_row; /* elements of a row; OUT_ROW 0 where it folds */
};

/* Of WHOLE, which is LOWER_RUN's. */
void forward_cut(struct pieces *pieces, const struct lowered *whole, const struct forward_wants *wants);
/* Doubles of the state that the rows of WHOLE, which has a fold, meet in. */
int64_t forward_fold_size(const struct lowered *whole);
/*
 * Whether CHAIN begins with a slice of rows of its input, of type INPUT, which it has no other use for, nor for how
 * long it is: then *ROWS, at least one, are all that is to be read, and its first stage is done.
 */
bool forward_window(const struct chain *chain, const struct type *input, struct slice *rows);

#endif
