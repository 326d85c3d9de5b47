/*
 * Levels of folds. A body whose rows meet only in folds (body_folds) runs in passes over its input. A fold of level 1
 * depends on the rows of the ins alone. One of level K also depends on results of folds of lower levels.
 *
 *     pass 1       runs the rows up to the folds of level 1, and adds their states
 *     between      computes once the values that depend on results, and not on rows
 *     pass 2       runs the rows up to the folds of level 2, ...
 *     last pass    makes the rows of the outs, if any has rows, and adds rows to gradients of params
 *
 * A NORM is a fold in one pass: it makes statistics. In later passes it makes rows of them. So is a derivative that
 * folds. A forward run has such a body, and a gradient has one (compile/joint.h).
 *
 * If no value with rows depends on a fold, a forward run reads its input once, and the stages after the fold run
 * once. A derivative of the fold may read all rows again, so the gradient of such a chain may have more passes.
 */
#ifndef IR_LEVELS_H
#define IR_LEVELS_H

#include "ir/lower.h"

/* A chain with more folds, or levels of them, needs the whole input at once. */
enum { MAX_FOLDS = 4096 };

/* A fold, and the value that it makes: if instr_makes_rows a new value, one that the whole body does not have. */
struct fold {
	uint32_t instr, level, result;
};

struct levels {
	const struct body *body; /* of the whole array */
	struct fold *folds;      /* those that the outs and the gradients of params depend on */
	uint32_t fold_count;
	uint32_t count;  /* the highest level */
	uint32_t passes; /* number of passes */
	bool last;       /* an out has rows, or rows are added to gradients of params: in the last pass */
	/* By value, the new ones behind those of the body: */
	uint32_t value_count;
	uint32_t *level; /* the highest level that it depends on */
	bool *rows;      /* it has rows, or is a tile's part of a sum, so that it exists within passes alone */
	bool *needed;    /* an out or the gradient of a param depends on it */
	bool *passed;    /* it is an array that a later pass or part reads, or an in or out without rows */
};

/* A part of the body: a program within a pass, or between two. */
struct body_part {
	struct body *body;
	const uint32_t *ins, *outs; /* by port of BODY: the value. An in with rows is an in of the whole body */
};

/* Returns how many passes LEVELS has. */
static inline uint32_t levels_passes(const struct levels *levels) { return levels->passes; }
/* Sets LEVELS of BODY, that of a whole array. False if out of memory. */
bool levels_find(struct levels *levels, const struct body *body, struct arena *arena);
/*
 * Sets PART to the rows' part of PASS, from 1 on, of BODY, the body of a tile. Its folds, in order, are its first outs;
 * each is a call that folds (body_folds). In the last pass the outs that have rows follow. False if out of memory.
 */
bool levels_rows(const struct levels *levels, const struct body *body, uint32_t pass, struct arena *arena,
                 struct body_part *part);
/*
 * Sets PART to the instructions without rows that depend on a fold of level PASS, and on none of a higher level. In pass 1
 * also to those that depend on no fold. False if out of memory.
 */
bool levels_between(const struct levels *levels, uint32_t pass, struct arena *arena, struct body_part *part);
/* True if the body of a tile has the instructions of the whole body, so that the parts of one are those of the other. */
bool levels_fit(const struct levels *levels, const struct body *body);

#endif
