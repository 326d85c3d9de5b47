/*
 * Linearisation: of a step's forward body, what must be kept for its backward
 * pass (its residuals), the body that records them, and the body that iterations
 * cotangents back, recomputing inside checkpoint regions what was not kept.
 */
#ifndef COMPILE_LINEARISE_H
#define COMPILE_LINEARISE_H

#include "base/context.h"
#include "ir/lower.h"
#include "schedule/policy.h"

/* Where a kept value comes from, as a report says it. */
struct origin {
	bool argument;              /* the input or a param */
	uint32_t param;             /* of an argument: index, or NO_VALUE for the input */
	const char *op;             /* "sin", or what the derivative computes: "cos" */
	struct span span;           /* of its stage */
	const char *def;            /* the def it stands in, or NULL */
	const struct naming *names; /* where `name` named it; the latest first */
	const struct naming *shown; /* which of these a report gives, or NULL: see job_residuals */
};

struct residual {
	uint32_t value; /* in the recording body */
	uint32_t slot;  /* a part of the state before the step: its class's slot, else NO_VALUE */
	const struct type *type;
	struct origin origin;
	const char **used_by; /* names of the operations whose derivatives read it, each once */
	size_t used_by_count;
};

struct linear {
	const struct step *step;
	struct body *record; /* outs: the step's slots, then PORT_RESIDUAL i for what is neither in nor out */
	struct body
		*record_only;      /* the same without what only the state after needs; for segments whose end is not wanted */
	struct body *backward; /* ins: PORT_RESIDUAL i, PORT_COTANGENT slot; outs: PORT_COTANGENT slot */
	struct residual *residuals; /* params left out */
	size_t residual_count;
	struct param_ref *params; /* params that the backward pass reads, each once */
	size_t param_count;
	int64_t recomputed;                   /* steps that the backward body executes again */
	double forward_cost;                  /* of one forward execution */
	double recompute_cost, backward_cost; /* of forward operations in the backward body; of derivatives */
};

/*
 * Of VALUE, which an instruction of BODY makes whose kept values are KEEP: what makes it,
 * the operation or its row's word for what is kept; and its place, of INSTR_PLACES for
 * each instruction, among all that BODY makes in program order. What has a name is where
 * it is given that, behind what else the instruction makes.
 */
enum { INSTR_PLACES = 2 + MAX_KEEPS };
const char *linear_maker(const struct body *body, const uint32_t keep[MAX_KEEPS], uint32_t value);
int64_t linear_place(const struct body *body, const uint32_t keep[MAX_KEEPS], uint32_t value);

/* Adds OP, a name of op_table, to the names of those who use an array, unless it is there; false where memory is short. */
bool used_by_add(struct arena *arena, const char ***names, size_t *count, size_t *capacity, const char *op);
/* The operation for which the instruction at INDEX of a forward BODY reads: its own, or that which has it convert. */
const char *used_by_reader(const struct body *body, size_t index);

/*
 * Linearises STEP. POLICY (by value) holds for the whole body as one region, or
 * NULL: everything that is needed is kept. STATUS_USAGE for a policy of a
 * checkpoint block that is unknown, with its place.
 */
enum status linearise(const struct context *context, struct linear *linear, const struct step *step,
                      const struct chain *chain, const struct policy *policy);

#endif
