/*
 * Lowering makes typed bodies of the resolved chain, for an input of a given type. A forward run is one body, with
 * loops kept unless they change types. A gradient is a list of steps, with `repeat` and `for` kept as loops of steps;
 * or one unrolled step.
 */
#ifndef IR_LOWER_H
#define IR_LOWER_H

#include "ir/body.h"
#include "ir/slot_map.h"

/* A list of slots in ascending order. */
struct slot_list {
	const uint32_t *slots;
	uint32_t count;
};
static inline bool has_slot(const struct slot_map *map, uint32_t slot) { return slot_map_find(map, slot) != NULL; }

/* A class of slots of which the lowest slot changes, since a step writes to that or gives its value to a lower one. */
struct class_move {
	uint32_t before, after; /* the class in the states before and after */
};

/* What becomes of an in of a step's body. */
struct step_in {
	bool held; /* a slot of its class is in the state before */
	bool dies; /* its own slot is not in the state after */
};

/* The bytes of the arrays of a state. */
struct state_bytes {
	int64_t slab;    /* bytes in the slab, where each array lies once */
	int64_t slots;   /* sum over the slots: an array in two slots counts twice */
	int64_t passing; /* of arrays that the state after the step has in the same slot, each once */
};

/*
 * A step leads from one state to the next. Slot 0 of a state is the current value, slot 1 + i is chain->variables[i].
 *
 * Slots that are known to hold the same value form a class, and its lowest slot stands for it. A body reads a class
 * once, as that slot, and a class has one cotangent, stored for that slot. So cotangents are added in the same order
 * whether a chain is reversed step by step or in one body.
 *
 * States may have thousands of slots, of which a step touches few. So whatever a step has is as long as its ports, or
 * shared with other steps.
 */
struct step {
	const struct body *body; /* its ins are the slots that it reads, its outs the slots that it writes */
	struct particulars own;
	const struct slot_map *live_in, *live_out; /* the states before and after */
	const struct slot_map *cot_in, *cot_out;   /* classes that have a cotangent before and after */
	const struct step_in *ins;                 /* by in of the body */
	struct slot_list cot_read;      /* the cotangents after that the body reads; others pass to the same class before */
	const uint32_t *cot_value;      /* by cot_read: the body's value whose cotangent it is */
	const struct class_move *moved; /* of live slots that the step does not write */
	struct state_bytes bytes;       /* of the state before */
	struct span span;
	uint32_t moved_count; /* of MOVED */
	uint32_t id;          /* from 0, in the order in which distinct steps first run */
};

/*
 * The functions below take STEP, and a part of its body or of the bodies that linearisation makes of it. They give
 * the particulars of STEP, which its body lacks since steps share it (share_body.c).
 */

/* Returns the slot of PORT, a PORT_SLOT or a cotangent that the backward pass makes. */
static inline uint32_t step_slot(const struct step *step, const struct port *port)
{
	return step->own.slots ? step->own.slots[port->index] : port->index;
}
static inline const struct param_ref *step_param(const struct step *step, const struct param_ref *ref)
{
	return own_param(&step->own, ref);
}
static inline double step_scalar(const struct step *step, const struct instr *instr)
{
	return instr->own_scalar == NO_VALUE ? instr->scalar : step->own.scalars[instr->own_scalar];
}
static inline struct span step_span(const struct step *step, struct span span) { return own_span(&step->own, span); }
/* Returns the names of VALUE, a value of the step's body, whose names in the body are NAMES. */
static inline const struct naming *step_names(const struct step *step, uint32_t value, const struct naming *names)
{
	return names == &NAMED_BY_STEP ? step->own.naming[value] : names;
}

/* An item of a list of steps: a step, or a loop over items. Its iterations share struct steps; equal stages do not. */
struct item {
	struct step *step; /* NULL: a loop */
	struct item *items;
	size_t count;
	int64_t iterations;
	int64_t first; /* the counter in its first iteration: a loop may be cut into several items */
	int32_t level; /* level of the loop, by which params refer to its counter; -1: a step */
	uint32_t row;  /* of a step: the number of steps from it on that follow one another here and whose ids do too */
	int64_t steps; /* number of steps, with loops unrolled */
	int64_t start; /* number of steps before it in its list */
};

/*
 * How often a `repeat while` has run once. OUTERMOST is the number of the outermost loop around it, or of itself, among the
 * loops that stand in none: a portion of the chain may cut the iterations of that loop, and so leave out the rest of its
 * counts.
 */
struct counted {
	int64_t iterations;
	uint32_t outermost;
};

/*
 * The part of a chain to lower: its stages without the first BEFORE and the last AFTER. Each loop that is one of these
 * makes only its first iterations, the share ITERATIONS of all, rounded up (0: all). {0} is the whole chain.
 */
struct portion {
	size_t before, after;
	double iterations;
	bool blocks; /* folds over rows may go by blocks, though the rows could be cut into tiles */
	bool opened; /* LOWER_STEPS: if the last stage is a checkpoint block, its own stages become the steps */
	/*
	 * The iterations of each `repeat while`, in the order in which they run: one in a loop has an element for each of the
	 * loop's iterations. Those beyond COUNTED_LOOPS have MOST (0: their max), at most their max. A forward run counts them
	 * itself.
	 */
	const struct counted *counted;
	size_t counted_loops;
	int64_t most;
	/* LOWER_STEPS: MOST may exceed a max by one, and lowered.watched describes the `repeat while` of the top level. */
	bool watched;
};

/*
 * A `repeat while` of the top level whose iterations are not known. Before each, the state has all that its condition
 * reads, and all that the steps after the loop read, so that the loop may end there.
 */
struct watched {
	const struct node *node; /* NULL: there is none */
	uint32_t outermost;      /* as in struct counted */
	int64_t start, steps;    /* its first step; number of steps in each iteration, 0 if these differ */
	struct watched_condition {
		int64_t first;           /* the first iteration before which the condition is this one */
		const struct body *body; /* reads slots; its out is the number */
	} * conditions;              /* ascending */
	size_t count, capacity;
};

/*
 * How many rows before and after a row of the input the values of a chain reach, by operations of scope NEIGHBOUR. A
 * value has as many rows as the input, and GROWS more; row i of it is computed in row i of a window (plan/tiles.h).
 */
struct row_reach {
	int64_t before, after; /* the most of all streamed values: as deep as rows of a window may be wrong at its ends */
	int64_t most;          /* the most rows that one operation, or its derivative, reads on either side of a row */
	bool wraps, ends;      /* an operation goes around the ends of the array; another has a rule for rows at the ends */
	bool counts;           /* an operation on streamed rows depends on their indices (op_counts_rows) */
	struct span wraps_at, deepest; /* the first stage that wraps; the one that reads the most rows */
};

/* The place of a gradient (ir/lower_place.c). */
struct gradient_place {
	uint32_t slot;               /* before the first step, its cotangent is the gradient; 0: that of the input is */
	struct type type;            /* of the value, and of the gradient as it is written */
	const struct type *computed; /* of its arrays */
	bool streamed;
};

enum { MAX_LEVELS = 64 }; /* of folds: a chain with more may need the whole input at once */
/* Why a chain needs its whole input at once: the stage at SPAN, if that has a line, and REASON. NULL: it does not. */
struct because {
	const char *reason;
	struct span span;
};

/* Sets *TEXT to "f.ck:6:9: 'cumsum axis=0': REASON", or to NULL if there is no reason. Returns false if out of memory. */
bool because_describe(const struct because *because, const struct source *source, struct arena *arena,
                      const char **text);

struct lowered {
	const struct chain *chain;
	struct portion portion;
	size_t slot_count;
	struct type input, output; /* logical dtypes */
	struct gradient_place gradient_at;
	int64_t at;         /* how many bindings or steps there are up to the chain's place; 0: it seeks none */
	struct type begins; /* the input that the first step reads: of the computing dtype, with a tile's rows */
	int64_t whole_rows; /* extent of the streamed axis in the whole input; 0 for a 0-d input */
	/* Rows can be cut into tiles: all is row-wise, or so up to one SUM, after which nothing is read but its result. */
	bool streamable;
	bool neighbours; /* that needs windows: an operation reads neighbouring rows */
	struct because because;
	bool flat; /* element-wise, no SUM, operands scalar or streamed in the input's shape: tiles are runs of elements */
	const bool *streamed_params; /* by param: it has one row for each row of the input, and tiles cut it too */
	/* For LOWER_RUN: */
	struct body *whole; /* loops kept where types allow */
	struct row_reach reach;
	uint32_t folds; /* number of SUMs, FOLDs and NORMs over the rows */
	const struct levels
		*levels; /* the levels of these folds; NULL: passes over the rows cannot run the chain forward */
	struct watched watched;
	/* Number of `repeat while`s outside conditions. A kept loop counts its own once; LOWER_STEPS counts their runs. */
	uint32_t conditions;
	bool nests; /* a condition has a `repeat while` */
	/* For LOWER_STEPS and LOWER_UNROLLED: */
	struct item *items;
	size_t item_count;
	int64_t steps;                      /* LOWER_UNROLLED: as many as LOWER_STEPS has */
	struct dictionary bindings;         /* LOWER_UNROLLED: by name, an int64_t: how often the chain binds it */
	const struct step *const *distinct; /* by id */
	size_t distinct_count;
};

/* True if LOWERED is streamable up to a SUM. Then the derivatives of all operations after it are numbers. */
static inline bool lowered_sums(const struct lowered *lowered) { return lowered->streamable && lowered->folds > 0; }

enum lower_what { LOWER_RUN, LOWER_STEPS, LOWER_UNROLLED };
/*
 * Lowers PORTION (NULL: all) of CHAIN on a whole input of type INPUT. LOWER_RUN makes one body for a forward run,
 * LOWER_STEPS the steps of a gradient. LOWER_UNROLLED makes one unrolled step, for policies by value. Fails with
 * STATUS_CHAIN if types or indices do not fit. Beyond 10^7 steps or operations, or MAX_LOOPS, fails with STATUS_LIMIT.
 */
enum status lower(const struct context *context, struct lowered *lowered, const struct chain *chain,
                  const struct portion *portion, const struct type *input, enum lower_what what);
/* Lets the programs of LOWERED, a tile's steps, run on fewer rows, too (body->cut): on REST rows in a layout of their own. */
void lowered_cut_rows(struct lowered *lowered, int64_t rest);
/*
 * Lowers a tile of WHOLE, which must be streamable up to its end or its fold. The tile has ROWS rows of INPUT and of
 * the params that WHOLE cuts. If WHOLE is flat, INPUT may be the type of its elements as a list.
 */
enum status lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                       const struct type *input, enum lower_what what, int64_t rows);
/* Returns step INDEX, or NULL beyond the last. COUNTERS, if not NULL, gets the counters of its loops, by level. */
const struct step *lowered_step(const struct lowered *lowered, int64_t index, int64_t *counters);
/*
 * Returns the period of the steps from INDEX on: the steps in an iteration of the outermost loop around it with at
 * least ITERATIONS iterations left before END. Up to *UNTIL, steps so far apart are the same. 0: no such loop.
 */
int64_t lowered_period(const struct lowered *lowered, int64_t index, int64_t end, int64_t iterations, int64_t *until);
/*
 * Returns how many steps from INDEX on, up to END, which is beyond INDEX, have ids that follow one another and the same
 * loops around them. Sets *ID to the id of the first.
 */
int64_t lowered_row(const struct lowered *lowered, int64_t index, int64_t end, uint32_t *id);

#endif
