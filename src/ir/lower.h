/*
 * Lowering: the resolved chain and the type of its input become typed bodies. A forward run is one body with its loops
 * kept. A gradient is a list of steps, with `repeat` and `for` kept as loops of steps; or one step of everything.
 */
#ifndef IR_LOWER_H
#define IR_LOWER_H

#include "ir/body.h"

/* Slots, ascending. */
struct slot_list {
	const uint32_t *slots;
	uint32_t count;
};
static inline bool has_slot(struct slot_list list, uint32_t slot)
{
	for (uint32_t i = 0; i < list.count; i++)
		if (list.slots[i] == slot)
			return true;
	return false;
}

/*
 * A step, between two states. Slot 0 of a state is the current value, slot 1 + i is chain->variables[i].
 *
 * Slots that are known to hold one value form a class, which goes by its lowest slot. A body reads a class once, by that
 * slot, and a class has one cotangent, kept by that slot. So cotangents are added in one order, whether a chain is
 * reversed step by step or in one body.
 */
struct step {
	struct body *body;                  /* its ins are the slots that it reads, its outs those that it writes */
	struct slot_list live_in, live_out; /* the states before and after */
	struct slot_list cot_in, cot_out;   /* slots that have a cotangent before and after */
	const uint32_t *class_in;           /* by live_in: the slot that its class goes by before */
	const bool *alias_in;               /* by live_in: an earlier one is of its class, and so the same array */
	const uint32_t *cot_to; /* by cot_out: the slot before to which it passes unchanged; NO_VALUE: the body takes it */
	const uint32_t *cot_value; /* by cot_out: the body's value whose cotangent it is; NO_VALUE where it passes */
	const struct type *const *in_types; /* of live_in's slots */
	const struct type *const *out_types;
	struct span span;
	uint32_t id; /* from 0, in the order in which distinct steps first run */
};

/* A step, or a loop of items. Equal steps are one struct step. */
struct item {
	struct step *step; /* NULL: a loop */
	struct item *items;
	size_t count;
	int64_t iterations;
	int64_t first; /* the counter in its first iteration: a loop may be cut into several items */
	int32_t level; /* whose counter params are indexed by; -1: none */
	int64_t steps; /* in all, unrolled */
	int64_t start; /* steps before it in its list */
};

/*
 * The part of a chain that is lowered: its stages without the first BEFORE and the last AFTER. Each loop among them
 * makes its first iterations, the share ITERATIONS rounded up (0: all). {0} is the whole chain.
 */
struct portion {
	size_t before, after;
	double iterations;
	bool opened; /* a checkpoint block that ends the chain is lowered to steps as if it were its stages */
};

struct lowered {
	const struct chain *chain;
	struct portion portion;
	size_t slot_count;
	struct type input, output; /* logical dtypes */
	struct type begins;        /* the input that the first step reads: of the computing dtype, with a tile's rows */
	int64_t whole_rows;        /* extent of the streamed axis in the whole input; 0 for a 0-d input */
	bool streamable;           /* rows can be cut into tiles: every operation works row by row; a SUM may be the last */
	bool sums;                 /* ... there is that SUM: the output is the sum of those of all tiles */
	bool flat;                 /* element-wise with scalar operands: a tile may be any run of elements */
	const bool *streamed_params; /* by param: it has a row for each of the input's, and is cut with it */
	/* LOWER_RUN's: */
	struct body *whole; /* loops kept */
	/*
	 * The SUM or FOLD over rows in WHOLE before which all is row-wise, and after which all is made of its result, params
	 * and numbers; NO_VALUE if there is none. A forward run reads tiles up to it even if the chain is not streamable,
	 * since only a derivative would need the tiles again.
	 */
	uint32_t fold;
	/* LOWER_STEPS's and LOWER_UNROLLED's: */
	struct item *items;
	size_t item_count;
	int64_t steps;                      /* LOWER_UNROLLED: as many as LOWER_STEPS has */
	const struct step *const *distinct; /* by id */
	size_t distinct_count;
};

enum lower_what { LOWER_RUN, LOWER_STEPS, LOWER_UNROLLED };
/*
 * Lowers PORTION (NULL: all) of CHAIN on a whole input of type INPUT. LOWER_RUN makes one body for a forward run,
 * LOWER_STEPS the steps of a gradient, and LOWER_UNROLLED one step, unrolled, for policies by value. Fails with STATUS_CHAIN if
 * types do not fit, with STATUS_LIMIT beyond 10^7 steps or operations.
 */
enum status lower(const struct context *context, struct lowered *lowered, const struct chain *chain,
                  const struct portion *portion, const struct type *input, enum lower_what what);
/*
 * Lowers a tile of WHOLE, which must be streamable up to its end or its fold. The tile has ROWS rows, of INPUT and of
 * the params that WHOLE cuts. If WHOLE is flat, INPUT may be its elements as a list.
 */
enum status lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                       const struct type *input, enum lower_what what, int64_t rows);
/* The step at INDEX, or NULL beyond the last. COUNTERS, unless NULL, gets the counters of the loops around it, by level. */
const struct step *lowered_step(const struct lowered *lowered, int64_t index, int64_t *counters);
/*
 * The period of the steps from INDEX on: the steps of an iteration of the outermost loop around it of which at least
 * ITERATIONS iterations are left before END. Up to *UNTIL, the step that many steps later is the same. 0: no such loop.
 */
int64_t lowered_period(const struct lowered *lowered, int64_t index, int64_t end, int64_t iterations, int64_t *until);

#endif
