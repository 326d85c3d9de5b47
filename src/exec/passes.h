/*
 * A run whose tiles fold, forward or a gradient, in passes over its input (ir/levels.h). All tiles of a pass leave states
 * of its folds, which are added in the order of tiles. After a pass, the values without rows that depend on the results
 * are computed once. In a gradient of one pass the tiles' schedules leave the states, if the output is wanted.
 */
#ifndef EXEC_PASSES_H
#define EXEC_PASSES_H

#include "evaluate/evaluate.h"
#include "evaluate/slab.h"
#include "io/array.h"
#include "plan/passes.h"

struct passes {
	const struct levels *levels; /* NULL: the run has one pass, and no states are wanted */
	const struct pass_list *programs;
	const struct joint_passes *joint; /* of a gradient whose tiles run in passes; else NULL */
	uint32_t current;                 /* the index of the pass that runs */
	int64_t steps;                    /* that the passes of the current array have run, in part */
	struct slab slab;
	char **results; /* by value: those that a pass or a part leaves to later ones, and a cotangent without rows */
	double *state;  /* of all folds of the current pass, for the tiles so far */
	char *workspace;
	struct bound_param *params; /* of the programs between passes */
	struct input_stamp stamp;   /* of the input before the first pass */
};

#endif
