/*
 * Linearisation of a step. From the step's forward body it makes
 *
 *     residuals     the values that the backward pass reads and that must be held for it
 *     record        the forward body that outputs the residuals too
 *     record_only   the same, for when the state after the step is not wanted
 *     backward      the body that maps cotangents of the outputs to cotangents of the
 *                   inputs; it recomputes the values of checkpoint regions that are not kept
 */
#ifndef COMPILE_LINEARISE_H
#define COMPILE_LINEARISE_H

#include "base/diag.h"
#include "ir/lower.h"
#include "schedule/policy.h"

/* Where a value comes from, for the residual report. */
struct origin {
	bool argument;              /* the input or a param */
	uint32_t param;             /* of an argument: its index, or NO_VALUE for the input */
	const char *op;             /* "sin", or what the derivative computes: "cos" */
	struct span span;           /* of its stage */
	const char *def;            /* the def it stands in, or NULL */
	const struct naming *names; /* its names, the latest first */
	const struct naming *shown; /* the one that a report gives, or NULL: see job_residuals */
};

/* Names of operations, each once; pointers into op_table. */
struct op_names {
	const char **names;
	size_t count, capacity;
};

struct residual {
	uint32_t value; /* in the recording body */
	uint32_t slot;  /* the slot of its class where it is a part of the state before the step; else NO_VALUE */
	const struct type *type;
	struct origin origin;
	struct op_names used_by; /* the operations whose derivatives read it */
};

struct linear {
	const struct step *step;
	struct body *record; /* outs: the step's slots, then PORT_RESIDUAL i for each residual that no other port holds */
	struct body *record_only;   /* outs: PORT_RESIDUAL i alone */
	struct body *backward;      /* ins: PORT_RESIDUAL i, PORT_COTANGENT slot; outs: PORT_COTANGENT slot */
	struct residual *residuals; /* params are none */
	size_t residual_count;
	struct param_ref *params; /* params that the backward pass reads, each once */
	size_t param_count;
	int64_t recomputed;                   /* steps that the backward body executes again */
	double forward_cost;                  /* of one forward execution */
	double recompute_cost, backward_cost; /* of the backward body: its forward operations, its derivatives */
};

/*
 * Linearises STEP. POLICY is by value and holds for the whole body as one region. With
 * POLICY NULL everything that the backward pass needs is kept. STATUS_LIMIT if out of
 * memory.
 */
enum status linearise(const struct context *context, struct linear *linear, const struct step *step,
                      const struct policy *policy);

/* Makes the outs of STEP that the state after it holds the outs of BODY. False if out of memory. */
bool add_live_outs(struct body *body, const struct step *step);

/* The rest is for reports. */

/* The operation that makes VALUE, or the word for a kept value in the operation's row. */
const char *linear_maker(const struct body *body, uint32_t value);
/*
 * The position of VALUE among all that BODY makes, in program order. An instruction has
 * INSTR_PLACES positions; a value with a name has the last of them, where the name is given.
 */
enum { INSTR_PLACES = 2 + MAX_KEEPS };
int64_t linear_place(const struct body *body, uint32_t value);
/* Where VALUE of BODY, a forward or a recording body, comes from. */
struct origin origin_of(const struct body *body, uint32_t value);
/* Adds OP unless it is there. False if out of memory. */
bool op_names_add(struct arena *arena, struct op_names *list, const char *op);
/* The operation that reads by the instruction at INDEX of a forward BODY: its own, or the one that a cast is for. */
const char *op_reading(const struct body *body, size_t index);

#endif
