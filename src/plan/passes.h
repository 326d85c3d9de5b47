/*
 * The programs of a run in passes (ir/levels.h), and the bytes that they need.
 *
 * A tile is the block by which a whole array folds (fold_blocks in ops/fold.c). So passes give the bits of the whole
 * array, and `grad --value` those of `run` (tests/scripts/check-passes).
 *
 * If rows meet their neighbours too, a pass runs on windows (plan/tiles.h). All passes have the same windows, as deep
 * as all stages reach. A gradient reaches as far as the stages do to both sides, since the result of a fold is the
 * same for all rows. The last window owns all rows that are left. So does the last block of a whole array.
 */
#ifndef PLAN_PASSES_H
#define PLAN_PASSES_H

#include "compile/joint.h"
#include "compile/program.h"
#include "ir/levels.h"

struct pass {
	struct body_part tile, between;
	struct program tile_program, between_program;
	const struct fold **folds; /* in the order of tile_program's states */
	uint32_t fold_count;
	int64_t steps; /* number of steps of which the pass runs a part forward */
	double cost;   /* of these parts, in additions */
};

struct pass_list {
	const struct levels *levels;
	struct pass *passes;
	uint32_t count;
	int64_t state;      /* doubles of the states of the folds of a pass, the most */
	int64_t workspace;  /* bytes that a tile needs: of a program, and of the results that its folds do not make */
	int64_t results;    /* bytes of the results that a part leaves to others */
	int64_t between;    /* bytes of workspace of the programs between passes */
	int64_t wave;       /* bytes of a wave of a tile's program; 0: it needs none */
	size_t ports;       /* the most ins or outs of a tile's program */
	bool apart;         /* WORKSPACE has the rows of outs too: those of a window, of which a tile owns some */
	unsigned libraries; /* of all programs */
};

/*
 * Makes the programs of list->levels for the body of a TILE. TILE is NULL if others make the states of a tile. The caller
 * has set list->levels and list->apart, and the rest of LIST to zero.
 */
enum status pass_list_make(const struct context *context, struct pass_list *list, const struct body *tile);
/* True if out K of a tile's program in PASS lies in LIST's workspace: that of a fold, or if outs are apart. */
bool pass_out_apart(const struct pass_list *list, const struct pass *pass, size_t k);
/* Returns the bytes beside those of tiles: states, results, and workspace of the programs between passes. */
int64_t pass_list_bytes(const struct pass_list *list);
/* Returns the bytes of RESULT, a value of the body of LIST's levels that a part leaves to others. */
int64_t pass_list_result(const struct pass_list *list, uint32_t result);
/* Returns the bytes of out K of BODY as an array. */
int64_t pass_out_bytes(const struct body *body, size_t k);

/* A gradient in passes: the joint bodies of the whole array and of a tile, and their programs. */
struct joint_passes {
	struct joint whole, tile;
	struct levels levels;
	struct pass_list programs;
	int64_t seed;     /* bytes of a tile's rows of the cotangent; 0 if it has none */
	int64_t distinct; /* number of steps of which some pass runs a part on tiles */
	double cost;      /* in additions: that of those parts, each once */
};

#endif
