/*
 * The fold is the instruction in which all rows meet (struct lowered). Each tile leaves a state of the fold. The states
 * are added in the order of tiles. The rest, the instructions after the fold, run once, on the result.
 */
#ifndef EXEC_REDUCTION_H
#define EXEC_REDUCTION_H

#include "exec/evaluate.h"
#include "ir/lower.h"

struct reduction {
	const struct instr *fold;
	struct type folded;     /* of the instruction's result */
	struct type output;     /* the result of the rest, as it is computed */
	int64_t count;          /* elements of FOLDED */
	struct program program; /* the rest: the instructions after the fold */
	bool passes;            /* the output is the fold's result: the rest need not run */
	struct slab slab;
	double *state;                  /* of all tiles that fold_add has added since fold_begin */
	char *result, *out, *workspace; /* for the rest; only where the output is wanted */
};

/* Returns BODY up to instruction FOLD included, whose result becomes the only output. NULL if out of memory. */
const struct body *reduction_head(const struct body *body, uint32_t fold, struct arena *arena);
/*
 * Compiles the instructions after the fold of LOWERED, which LOWER_RUN made of the whole
 * array. Allocates the state and, where the output is WANTED, the memory for the rest.
 * Adds the bytes allocated to *BYTES. The caller frees the slab. Fails with STATUS_LIMIT.
 */
enum status reduction_open(const struct context *context, struct reduction *reduction, const struct lowered *lowered,
                           bool wanted, int64_t *bytes);
/*
 * Returns the chain's output, of type reduction->output, for all rows, which have been added.
 * It lies in REDUCTION's slab, opened as WANTED. PARAMS are by index.
 */
const void *reduction_finish(struct reduction *reduction, const struct bound_param *params, bool flush_denormals);

#endif
