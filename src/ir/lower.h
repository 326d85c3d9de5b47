/*
 * From the resolved chain and the type of its input to typed bodies: one for a
 * forward run, loops kept; and the chain's steps, repeat and for kept as loops
 * of steps, or all steps in one body.
 */
#ifndef IR_LOWER_H
#define IR_LOWER_H

#include "ir/body.h"

/*
 * The state between steps: slot 0 is the current value, slot 1 + i is
 * chain->variables[i]. Slots that are known to hold one value form a class, which
 * goes by its lowest slot: a body reads a class once, by that slot, and a class
 * has one cotangent, kept by that slot. So cotangents are added in the same order
 * whether a chain is reversed step by step or in one body.
 */
struct step {
	struct body *body; /* ins are slots it reads, outs slots it writes */
	/* Sets of slots, ascending. */
	const uint32_t *live_in, *live_out; /* the states before and after */
	const uint32_t *cot_in, *cot_out;   /* slots that have a cotangent before and after */
	uint32_t live_in_count, live_out_count, cot_in_count, cot_out_count;
	const uint32_t *class_in; /* by live_in: the slot that its class goes by before */
	const bool *alias_in;     /* by live_in: an earlier one is of the same class, and is the same array */
	const uint32_t *cot_to; /* by cot_out: the slot before to which it passes unchanged; NO_VALUE: the body takes it */
	const uint32_t *cot_value; /* by cot_out: the body's value whose cotangent it is; NO_VALUE where it passes */
	const struct type *const *in_types; /* of live_in's slots */
	const struct type *const *out_types;
	struct span span;
	uint32_t id; /* equal steps are one struct step; ids count from 0, in the order of first runs */
};

struct item {
	struct step *step; /* or a loop: */
	struct item *items;
	size_t count;
	int64_t iterations;
	int64_t first; /* the counter's value in its first iteration (an iteration set apart has a loop of its own) */
	int32_t level; /* whose counter params are indexed by; -1: none */
	int64_t steps; /* in all, unrolled */
	int64_t start; /* steps before it in its list */
};

/*
 * What is lowered of a chain: its stages without the first BEFORE and the last AFTER of them. Of each loop among these
 * ITERATIONS is the share of its iterations, the first ones, rounded up; 0: all. {0} is the whole chain.
 */
struct portion {
	size_t before, after;
	double iterations;
	bool opened; /* a checkpoint block that ends the chain is lowered to steps as if it were its stages */
};

struct lowered {
	const struct chain *chain;
	struct portion portion;
	struct arena *arena;
	size_t slot_count;
	struct type input, output;   /* logical dtypes */
	struct type begins;          /* the input as the first step takes it: the computing type, ROWS rows where cut */
	int64_t whole_rows;          /* extent of the streamed axis in the whole input; 0 for a 0-d input */
	bool streamable;             /* every operation is element- or row-wise, or it ends in one SUM over rows */
	bool sums;                   /* ... it ends in a SUM, and what moves that by numbers: all tiles make the output */
	bool flat;                   /* element-wise with scalar operands only: any split of the elements is a tile */
	const bool *streamed_params; /* by param: it runs along the streamed axis, and is cut into tiles with it */
	/* LOWER_RUN's: */
	struct body *whole; /* loops kept */
	/*
	 * Of WHOLE, NO_VALUE where there is none: the instruction up to which all is row-wise, a SUM or
	 * FOLD over rows, and after which all is made of its result, params and numbers. A forward run
	 * takes what is before by tiles, streamable or not; a derivative may want the tiles once more.
	 */
	uint32_t fold;
	/* LOWER_STEPS's and LOWER_UNROLLED's: */
	struct item *items;
	size_t item_count;
	int64_t steps;                      /* of LOWER_UNROLLED, too, as many as LOWER_STEPS has */
	const struct step *const *distinct; /* by id */
	size_t distinct_count;
};

enum lower_what { LOWER_RUN, LOWER_STEPS, LOWER_UNROLLED };
/*
 * WHAT: the whole body for a forward run; the steps for a gradient; or all steps
 * unrolled into one body (a single struct step from slot 0 to slot 0), for
 * policies by value. PORTION NULL: of the whole chain. INPUT is the type of the whole
 * input. STATUS_CHAIN where shapes do not fit (both are named), STATUS_LIMIT beyond
 * 10^7 steps or operations.
 */
enum status lower(const struct context *context, struct lowered *lowered, const struct chain *chain,
                  const struct portion *portion, const struct type *input, enum lower_what what);
/*
 * The same of a tile of the chain that is lowered to WHOLE, which must be streamable
 * up to its end or fold: the extent of the streamed axis is ROWS instead of INPUT's, in
 * the input and in the params that by WHOLE run along it. Where WHOLE is flat INPUT may
 * be its elements in a row.
 */
enum status lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                       const struct type *input, enum lower_what what, int64_t rows);
/*
 * The step at INDEX (0 .. steps-1) and, where COUNTERS is not NULL, the counters
 * of the loops around it, by level.
 */
const struct step *lowered_step(const struct lowered *lowered, int64_t index, int64_t *counters);
/*
 * How many steps there are in a iteration of the outermost loop around step INDEX of which
 * at least TURNS iterations are left before step END: as many steps on, up to *UNTIL, comes
 * the same step again. 0 where there is none.
 */
int64_t lowered_period(const struct lowered *lowered, int64_t index, int64_t end, int64_t iterations, int64_t *until);

#endif
