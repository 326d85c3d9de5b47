/*
 * Private to the evaluator:
 *
 *     evaluate.c     the frame, and the walk over launches
 *     calls.c        operations, and calls of programs
 *     additions.c    what goes to the gradients of params
 *     loops.c        loops over whole arrays
 *
 * A launch's kind, which the compiler chooses, is a function of these files (launch_function in evaluate.c).
 */
#ifndef EVALUATE_EVALUATOR_H
#define EVALUATE_EVALUATOR_H

#include "compile/launch.h"
#include "evaluate/evaluate.h"
#include "evaluate/rows.h"

struct evaluator {
	const struct evaluation *e;
	const struct program *program;
	enum row_layout layout;
	char **frame;
	char *workspace;
	const struct kernels *kernels[2]; /* F32, F64 */
	int64_t *counters;                /* by level: the iteration, from 0 on, of each open loop */
	size_t next;                      /* the launch after the one that runs; loops change it */
	const struct launch
		*caller; /* the last call of a program; its outs in the mask ALIASED lie in the program's memory */
	uint32_t aliased;
	bool moved; /* the frame has changed since a group ran */
	bool parts; /* entries are parts of params in files: the launches that read them set them */
};

typedef enum status launch_function(struct evaluator *ev, const struct launch *launch);

static inline int64_t row_elements(const struct shape *shape)
{
	int64_t count = 1;
	for (int i = 1; i < shape->ndim; i++)
		count *= shape->dim[i];
	return count;
}
/* Returns *TYPE, of an array of LAUNCH that WHICH is the mark of, with the evaluation's rows. */
static inline struct type type_with_rows(const struct evaluator *ev, const struct launch *launch, int which,
                                         const struct type *type)
{
	return type_of_rows(type, launch->streamed & which, ev->e->rows);
}
/* Returns the rows that the tile owns of a streamed value of TYPE: all if it has no window. */
static inline struct row_range owned_of(const struct evaluator *ev, const struct type *type)
{
	const int64_t rows = type->shape.ndim ? type->shape.dim[0] : 1;
	if (!ev->e->windows)
		return (struct row_range){0, rows};
	const struct owned_rows owned = tiles_owned(ev->e->windows, ev->e->tile_row, rows);
	return (struct row_range){owned.first, owned.count};
}

/* evaluate.c */

/* Returns the number of PARAM's elements before its part REF, with loops at COUNTERS, in the tile from FIRST_ROW on. */
int64_t param_offset(const struct bound_param *param, const struct param_ref *ref, const int64_t *counters,
                     int64_t first_row);
/* As param_place, without const: the frame also holds arrays that are written; params are not. */
char *frame_param(const struct evaluator *ev, const struct param_ref *shared);

/* calls.c */

/* Sets RUN to LAUNCH, a group or a call, on the arrays of the frame. */
void launch_run_begin(const struct evaluator *ev, const struct launch *launch, struct launch_run *run);
launch_function run_operation, run_check, run_product, run_fold, run_normalization, run_vjp, run_product_vjp,
	run_fold_vjp, run_applied_vjp, run_program, run_sum_to;
/* Runs LAUNCH, the derivative of an attention by its values, with the one after it. False, with nothing done, if they run apart. */
bool run_attention_back(struct evaluator *ev, const struct launch *launch);

/* additions.c */
launch_function run_accumulate;
/*
 * Runs the derivatives of C, a product or a take, by its value and by LAUNCH's param, to whose gradient the latter is added.
 * The evaluation's WRITTEN is told of a gradient that is final.
 */
void add_derivative(struct evaluator *ev, const struct launch *launch, const struct launch_call *c);
/* Returns where the derivative by LAUNCH's param is stored, if that writes the gradient once; else NULL. */
void *written_place(const struct evaluator *ev, const struct launch *launch);
/* Tells the evaluation's WRITTEN of the gradient of LAUNCH's param, if it is final. */
void tell_written(const struct evaluator *ev, const struct launch *launch);

/* loops.c */
launch_function run_loop, run_while, run_end;

#endif
