/*
 * A forward run in passes over its input (ir/levels.h). All tiles of a pass leave states of its folds, which are added
 * in the order of tiles. Between two passes, what follows from the results is computed once.
 */
#ifndef EXEC_PASSES_H
#define EXEC_PASSES_H

#include "exec/evaluate.h"
#include "io/array.h"
#include "ir/levels.h"

struct pass {
	struct body_part tile, rest, between;
	struct program tile_program, rest_program, between_program;
	const struct fold **folds; /* in the order of tile_program's states */
	uint32_t fold_count;
};

struct passes {
	const struct levels *levels; /* NULL: the run has one pass */
	struct pass *list;
	uint32_t count, current; /* CURRENT: the index of the pass that runs */
	struct slab slab;
	char **results; /* by value: those that a pass or a part leaves to later ones */
	double *state;  /* of all folds of the current pass, for the tiles so far */
	char *workspace;
	int64_t workspace_bytes; /* the most that a tile needs */
	size_t ports;            /* the most ins or outs of a tile's program */
	struct input_copy copy;
	struct input_stamp stamp; /* of the input before the first pass */
};

#endif
