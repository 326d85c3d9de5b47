/* The evaluator runs a forward, recording or backward program on arrays in a slab. */
#ifndef EXEC_EVALUATE_H
#define EXEC_EVALUATE_H

#include "compile/program.h"

/* A param's array in the computing type of its declared type. */
struct bound_param {
	struct type type; /* of the whole array, dtype F32 or F64 */
	const void *data;
	bool streamed; /* cut into tiles: its row FIRST_ROW belongs to the tile's first row */
	/*
	 * Where the gradient of this tile is summed (NULL: not wanted): double sums, and for F64 their
	 * compensation (kernels->accumulate_wide). A streamed param's gradient is not summed: GRADIENT has
	 * rows of the whole array, to be added to in the computing type. The gradient of a param that is
	 * read ONCE is not summed either: it is written to GRADIENT.
	 */
	double *hi, *lo;
	void *gradient;
	bool once;
};

struct evaluation {
	const struct program *program;
	const void *const *ins; /* by port */
	void *const *outs;      /* by port; NULL where the value is an in or a param */
	const struct bound_param *params;
	const int64_t *counters; /* of the loops around a step, by level */
	void *workspace;         /* program->workspace bytes, 64-byte aligned */
	int64_t first_row;       /* of this tile in the whole streamed axis */
	int64_t whole_rows;      /* extent of the whole streamed axis */
	bool flat;               /* rows are elements (see struct lowered) */
	/*
	 * Where the state goes that a SUM or FOLD operation leaves of this tile (fold_partial), with
	 * a result of this tile alone unless it ENDS the program; NULL: the whole array is in one tile.
	 */
	double *fold;
	bool fold_ends;
	struct team *team;                /* of members with program->member bytes; NULL: nobody shares the work */
	const struct kernels *kernels[2]; /* F32, F64: found once by who evaluates often; NULL: found here */
};

/* The address of PARAM's part REF, with loops at COUNTERS. A streamed param's tile begins at row FIRST_ROW. */
const void *param_place(const struct bound_param *param, const struct param_ref *ref, const int64_t *counters,
                        int64_t first_row);
/* Runs the program. Allocates nothing and cannot fail. */
void evaluate(const struct evaluation *evaluation);

/* One block of ARRAY_ALIGN aligned memory. */
struct slab {
	void *block; /* as allocated */
	char *base;  /* aligned */
	size_t size; /* of block */
};

/* Allocates SIZE bytes, not zeroed. Fails with STATUS_LIMIT, naming the size, when out of memory. */
enum status slab_get(struct slab *slab, int64_t size, const struct allocator *allocator, struct diags *diags);
void slab_put(struct slab *slab, const struct allocator *allocator);

#endif
