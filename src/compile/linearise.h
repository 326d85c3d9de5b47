/*
 * Linearisation of a step. From the step's forward body it makes
 *
 *     residuals     the values that the backward pass reads and that must be held for it
 *     record        the forward body that outputs the live slots and the residuals
 *     record_only   the same without the slots, for when the state after the step is not wanted; it checks indices all the
 *                   same (INSTR_CHECK)
 *     backward      the body that maps cotangents of the outputs to cotangents of the
 *                   inputs and adds up those of params; it recomputes what checkpoint regions do not keep
 */
#ifndef COMPILE_LINEARISE_H
#define COMPILE_LINEARISE_H

#include "base/diag.h"
#include "ir/lower.h"
#include "schedule/policy.h"

/* Where a value comes from, for the residual report. */
struct origin {
	bool argument;              /* the input or a param; origin_of sets it for a param alone */
	uint32_t param;             /* an argument's index among the params; NO_VALUE for the input */
	const char *op;             /* "sin", or a kept value's name: "cos"; NULL if no operation made it */
	struct span span;           /* of its stage */
	const char *def;            /* the def it stands in, or NULL */
	const struct naming *names; /* its names, the latest first */
	const struct naming *shown; /* the name that a report shows, or NULL: job_residuals sets it */
};

/* Names of operations: pointers into op_table, each once. */
struct op_names {
	const char **names;
	size_t count, capacity;
};

struct residual {
	uint32_t value; /* in the recording body */
	bool in_state;  /* it is a part of the state before the step */
	const struct type *type;
	const char *op;          /* as in struct origin */
	struct op_names used_by; /* the operations whose derivatives or recomputations read it */
};

struct linear {
	const struct step *step; /* the first one of its form (compile/compiled.h): others have other particulars */
	struct body *record;     /* outs: the live slots, then PORT_RESIDUAL i for each residual that no other port holds */
	struct body *record_only;   /* outs: PORT_RESIDUAL i for each residual but those that are ins */
	struct body *backward;      /* ins: PORT_RESIDUAL i, PORT_COTANGENT i of cot_read; outs: PORT_COTANGENT of a slot */
	struct residual *residuals; /* without params */
	size_t residual_count;
	struct param_ref *params; /* params and parts of params that the backward body reads */
	size_t param_count;
	int64_t recomputed;     /* steps of which a region executes a part again, summed over the regions */
	int64_t executed_again; /* those of `recomputed` whose value is computed again */
	int64_t skipped,
		record_skip; /* steps whose value `record`, or a forward execution, and record_only do not compute */
	double forward_cost, record_cost; /* of one forward execution, and of one of record_only */
	/* Without what the last step computes for its value alone, but with what regions of it recompute. */
	double once_cost;
	double recompute_cost, backward_cost; /* of the backward body's forward operations, and of its derivatives */
};

/*
 * Linearises STEP. POLICY, by value, decides what the whole body keeps as one region. If it is NULL, the whole body
 * keeps everything that its backward pass needs. Checkpoint regions in it have their own policies either way. The
 * context's arena owns the result. STATUS_LIMIT if out of memory.
 */
enum status linearise(const struct context *context, struct linear *linear, const struct step *step,
                      const struct policy *policy);

/* Sets BODY's outs to those of STEP's body whose slots are live after STEP. False if out of memory. */
bool add_live_outs(struct body *body, const struct step *step);

/* The functions below are for reports. Linearisation itself uses all but op_reading. */

/* Returns the name of the operation that makes VALUE, no in or param; of a kept one, its name in that row. */
const char *linear_maker(const struct body *body, uint32_t value);
/*
 * Returns the position of VALUE among the values that BODY's instructions make, in program order.
 * Each instruction has INSTR_PLACES positions. A value with a name has the last of them.
 */
enum { INSTR_PLACES = 2 + MAX_KEEPS };
int64_t linear_place(const struct body *body, uint32_t value);
/* Returns where VALUE of BODY, STEP's forward or recording body, comes from. Of an in it knows the names alone. */
struct origin origin_of(const struct step *step, const struct body *body, uint32_t value);
/* Adds OP to LIST unless LIST has it. False if out of memory. */
bool op_names_add(struct arena *arena, struct op_names *list, const char *op);
/* Returns the name of the operation INDEX of a forward BODY; for a cast, of the first in its stage that reads it. */
const char *op_reading(const struct body *body, size_t index);

#endif
