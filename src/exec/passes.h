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
#include "io/spill.h"
#include "plan/passes.h"

struct run;
struct worker;
struct pipeline;

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
};

/* Sets *MADE to the programs of LEVELS for the body of a TILE, or NULL: then the schedule of a tile leaves states. */
enum status passes_compile(struct run *run, const struct levels *levels, const struct body *tile,
                           const struct pass_list **made);
/* Allocates the results of PROGRAMS, those of a gradient if JOINT is set, which must outlive the run. */
enum status passes_open(struct run *run, const struct pass_list *programs, const struct joint_passes *joint);
void passes_close(struct run *run);
/* Runs all passes of the current array by PIPELINE, which is set for the last. */
enum status passes_run(struct run *run, const struct pipeline *pipeline);
/* Runs the worker's tile in the current pass. */
enum status passes_run_tile(struct worker *worker);
/* Adds the states of the tiles of the worker's chunk to the state of the pass, in order. */
enum status passes_add_chunk(struct worker *worker);
/* Returns the states of the current pass, and the results that passes so far have left; nothing without passes. */
struct spill_piece passes_left(const struct run *run);
/* True if the current pass makes states; if it makes rows of outputs. Without passes only the latter is true. */
bool passes_fold(const struct run *run);
bool passes_write(const struct run *run);
/* True if the output is a fold's result, so that no tile needs a result of its own rows. */
bool passes_end_in_fold(const struct run *run);

#endif
