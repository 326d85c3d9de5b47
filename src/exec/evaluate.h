/* The evaluator runs a forward, recording or backward program on arrays in a slab. */
#ifndef EXEC_EVALUATE_H
#define EXEC_EVALUATE_H

#include "compile/program.h"

/* A param's array in its computing type. */
struct bound_param {
	struct type type; /* of the whole array, dtype F32 or F64 */
	const void *data; /* NULL if only types are wanted */
	bool streamed;    /* cut into tiles: the tile's first row reads the param's row FIRST_ROW */
	/*
	 * The tile adds its gradient to the double sums HI and, for F64, their compensation LO
	 * (kernels->accumulate_wide). If the param is streamed, the tile adds to GRADIENT instead, the whole
	 * array's rows in the computing type. If a tile makes each element at most ONCE, it writes those that it
	 * makes to GRADIENT. A NULL pointer: that sum is not wanted.
	 */
	double *hi, *lo;
	void *gradient;
	bool once;
};

struct evaluation {
	const struct program *program;
	const void *const *ins; /* by port */
	void *const *outs;      /* by port; not used where the value is an in or a param */
	const struct bound_param *params;
	const int64_t *counters; /* of the loops around a step, for program->levels levels; NULL: all are 0 */
	void *workspace;         /* program->workspace bytes, 64-byte aligned */
	int64_t first_row;       /* of this tile in the whole streamed axis */
	int64_t whole_rows;      /* extent of the whole streamed axis */
	bool flat;               /* rows are elements (see struct lowered) */
	/*
	 * Receives this tile's state of the SUM or FOLD operation (fold_partial). The operation also makes
	 * a result, of this tile alone, unless FOLD_ENDS. NULL: only the result is wanted.
	 */
	double *fold;
	bool fold_ends;
	struct team *team;                /* its threads have program->member bytes each; NULL: the caller alone */
	const struct kernels *kernels[2]; /* F32, F64; NULL: evaluate finds them, which takes time */
};

/* Returns the address of PARAM's part REF, with loops at COUNTERS. A streamed param's tile begins at row FIRST_ROW. */
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

/* Allocates SIZE bytes, not zeroed. Fails with STATUS_LIMIT and the size if out of memory. The caller frees SLAB. */
enum status slab_get(struct slab *slab, int64_t size, const struct allocator *allocator, struct diags *diags);
void slab_put(struct slab *slab, const struct allocator *allocator);

#endif
