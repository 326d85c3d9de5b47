/*
 * A compiled chain: each distinct step linearised once and its programs compiled
 * once, however often the step is executed.
 */
#ifndef COMPILE_COMPILED_H
#define COMPILE_COMPILED_H

#include "base/context.h"
#include "compile/linearise.h"
#include "compile/program.h"

/* A step made ready: its linearisation and its programs for one size of tile. */
struct compiled_step {
	struct linear linear;
	struct program forward, record, record_only, backward;
	struct program backward_shared; /* the same where a cotangent is held elsewhere too, and must stay */
	const struct body *forward_body;
	/* By out of forward_body and record: where the value comes from, for reports. */
	const struct origin *forward_origins, *record_origins;
};

struct compiled_chain {
	const struct lowered *lowered;
	struct compiled_step *steps; /* by id */
	bool by_value;               /* one unit for the whole chain */
	bool uses_gemm;
	struct arena *arena;
};

/* Linearises and compiles every distinct step of LOWERED (LOWER_STEPS; LOWER_UNROLLED with a policy by value). */
enum status compiled_make(const struct context *context, struct compiled_chain *compiled, const struct lowered *lowered,
                          const struct policy *policy);
/* The most ins, or outs, that a program of COMPILED has; 0 where COMPILED are all zeros. */
size_t compiled_ports(const struct compiled_chain *compiled);
/*
 * How many share each program of COMPILED, of whole arrays, where THREADS may: 1
 * where the arrays are not worth it. *BYTES: what each but the first needs.
 */
int compiled_team(const struct compiled_chain *compiled, int threads, int64_t *bytes);
/*
 * The chain as policies see it. FIXED: bytes held throughout. Runs in ARENA: one after another where they are
 * wanted IN_ORDER, by budgets and the verifier; else, where only sums are taken of them, one for each distinct step.
 */
enum status compiled_costs(const struct context *context, const struct compiled_chain *compiled, bool in_order,
                           int64_t fixed, struct step_costs *costs);

#endif
