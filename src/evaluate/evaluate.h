/* The evaluator runs a forward, recording or backward program on arrays in a slab. */
#ifndef EVALUATE_EVALUATE_H
#define EVALUATE_EVALUATE_H

#include "compile/program.h"
#include "external/external.h"
#include "plan/tiles.h"

/*
 * What products of few rows have added to a param's gradient since the block began: a sum of the param's type and
 * shape, over ROWS rows. SUM is undefined if these are 0. A block of BLOCK_ROWS rows or more is added to the long
 * sum. An image in a journal has the block too.
 */
struct block_sum {
	void *sum;
	int64_t rows;
};
enum { BLOCK_ROWS = 512 };

/* A param's array in its computing type. */
struct bound_param {
	const struct shape *shape;     /* of the whole array; each worker has its list of these structs */
	const void *data;              /* NULL if only types are wanted */
	enum dtype dtype;              /* F32 or F64 */
	bool streamed;                 /* cut into tiles: the tile's first row reads the param's row FIRST_ROW */
	struct stored_operand *stored; /* DATA is NULL, and the values are read from a file; or NULL */
	/* The first row that DATA has: not 0 for a chunk's rows of an input, and for a window that goes around the param's end. */
	int64_t begins;
	int64_t gradient_begins; /* the first row that GRADIENT has: not 0 for a chunk's rows of an input */
	/*
	 * The gradient of the whole array, in the computing type. NULL: it is not wanted. With TAILS, GRADIENT has the heads
	 * of long sums (ops/kernels.h). ONCE: no element of it is made twice, and they are written, not added.
	 */
	void *gradient, *tails;
	struct block_sum *block; /* products add to it first; NULL: they add to the gradient */
	bool once;
	bool final; /* one product makes it, and nothing reads the param afterwards: evaluation.written is called then */
};
static inline struct type bound_type(const struct bound_param *param)
{
	return (struct type){param->dtype, *param->shape};
}

/* Where an addition to a param's gradient goes: ROWS by COLUMNS elements, row after row, which are WIDTH apart. */
struct sum_place {
	int64_t first, rows, columns, width; /* first: an element of the gradient */
};
/* Orders additions to one param's gradient, which other evaluations add to as well. */
struct turns {
	void (*begin)(void *context, uint32_t param, const struct sum_place *place); /* returns when it may begin */
	void (*end)(void *context, uint32_t param, const struct sum_place *place);
	void *context;
};

/*
 * Additions to gradients that wait for the next call of a program, which hides their time. Any other addition to a
 * gradient, and any read of one, makes these additions first. Their arrays lie in the memory of the program (struct
 * external_call).
 */
struct deferred {
	struct deferred_addition {
		const struct loops *loops;
		const struct bound_param *param;
		int64_t offset, count; /* elements */
		const void *from;
	} additions[PROGRAM_OPERANDS];
	uint32_t count;
};

/* A WHILE that has ended its loop at the most iterations, and its place in the source. NULL: there is none. */
struct unfinished {
	const struct instr *loop;
	struct span span;
};

struct evaluation {
	const struct program *program;
	const void *const *ins; /* by port */
	void *const *outs;      /* by port; not used where the value is an in or a param */
	const struct bound_param *params;
	const struct particulars *own; /* of the step; NULL: the program shares no body */
	const int64_t *counters;       /* of the loops around a step, for program->levels levels; NULL: all are 0 */
	void *workspace;               /* program->workspace bytes, 64-byte aligned */
	int64_t rows;      /* of the streamed arrays, if they have fewer than PROGRAM has been compiled for; or 0 */
	int64_t first_row; /* of this tile, or of its window, in the whole streamed axis */
	int64_t outside;   /* rows of the whole streamed axis beside those that the program's arrays have */
	const struct tiles *windows; /* if the program runs on a window; else NULL: sums are over all rows of the arrays */
	int64_t tile_row;            /* the first row of the window's tile in the whole streamed axis */
	bool flat;                   /* rows are elements (see struct lowered) */
	/*
	 * Receives this tile's states of the operations that fold (fold_partial), program->states doubles. The operations also
	 * make a result, of this tile alone, unless FOLD_ENDS. NULL: only the result is wanted.
	 */
	double *fold;
	bool fold_ends;
	int64_t block, blocks; /* of struct op_call, for the operations that fold */
	int64_t sum_block;     /* rows of a block, by which sums over rows of cotangents go; 0: they are made at once */
	/*
	 * By stream (struct loop_part): the dropouts, or calls, that the `repeat while`s so far have not run of their most
	 * iterations. Zeroed by the caller; NULL: the program has no such loop.
	 */
	uint64_t *skipped;
	/*
	 * Called each time that the WHILE OF, of a `repeat while` but in a condition, is evaluated in the loop at LEVEL: DONE iterations
	 * have run, 0 if the loop begins. NULL: not wanted.
	 */
	enum status (*count)(void *context, const struct loop_part *of, int32_t level, int64_t done);
	void *count_context;
	void (*progress)(void *context, double done); /* called after each iteration of an outermost loop; or NULL */
	void *progress_context;
	const volatile int *stop;      /* the evaluation ends with STATUS_STOPPED once this is not 0; or NULL */
	struct unfinished *unfinished; /* gets the last WHILE whose number is above 0 after the most iterations; or NULL */
	/*
	 * Gets part PART of out OUT, an array that a loop collects: of this out OUTS has NULL. FROM is an array of TYPE. NULL: no out
	 * is collected so.
	 */
	enum status (*part)(void *context, uint32_t out, int64_t part, const void *from, const struct type *type);
	void *part_context;
	void *spare;               /* for a gradient that a program makes whole, if it is not ONCE: added from here */
	const struct turns *turns; /* NULL: nobody else adds to gradients */
	void (*written)(void *context, size_t param, const void *gradient); /* or NULL */
	void *written_context;
	struct external_set *programs; /* of the chain; NULL if it has none */
	int worker;                    /* the caller's, for PROGRAMS */
	struct deferred *deferred;     /* the worker's; NULL: all additions are made at once */
	struct diags *diags;           /* for PROGRAMS and indices */
	const struct chain *chain;     /* for messages about indices; NULL: these are not checked */
	struct wave *wave; /* lets launches wait (evaluate/wave.h): the caller calls wave_run; NULL: none waits */
	struct neighbours *neighbours;    /* of a window whose rows ranks exchange (evaluate/neighbours.h); else NULL */
	struct team *team;                /* its threads have program->member bytes each; NULL: the caller alone */
	const struct kernels *kernels[2]; /* F32, F64; NULL: evaluate finds them, which takes time */
};

/* Returns the address of PARAM's part REF, with loops at COUNTERS. A streamed param's tile begins at row FIRST_ROW. */
const void *param_place(const struct bound_param *param, const struct param_ref *ref, const int64_t *counters,
                        int64_t first_row);
/*
 * Runs the program. Allocates nothing. Fails as external_call and neighbours_launch do, and with STATUS_DATA, at the
 * operation's place, if an index is out of range.
 */
enum status evaluate(const struct evaluation *evaluation);
/* Makes the additions that evaluations have deferred. */
void evaluate_deferred(struct deferred *deferred);

#endif
