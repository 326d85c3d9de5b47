/*
 * A compiled chain: each distinct step is linearised once and its programs are compiled
 * once, however often the step is executed.
 */
#ifndef COMPILE_COMPILED_H
#define COMPILE_COMPILED_H

#include "base/diag.h"
#include "compile/linearise.h"
#include "compile/program.h"
#include "schedule/step_costs.h"

/* A step with its linearisation and its programs, for one size of tile. */
enum { STEP_PROGRAMS = 5 };
struct compiled_step {
	struct linear linear;
	union {
		struct {
			struct program forward; /* its body lacks the outs that nothing reads */
			struct program record, record_only, backward;
			struct program backward_shared; /* writes into no cotangent: others hold one of them too */
		};
		struct program programs[STEP_PROGRAMS]; /* the same */
	};
};

struct compiled_chain {
	const struct lowered *lowered;
	struct compiled_step *steps; /* by id */
	bool by_value;               /* one compiled step is the whole chain */
	bool uses_gemm;
	int64_t ports;  /* the most ins, or outs, that a program has */
	int64_t widest; /* bytes of the largest array of the programs */
	int64_t member; /* bytes that a further member of a team needs (team_members) */
};

/* Linearises and compiles every distinct step of LOWERED (LOWER_STEPS; LOWER_UNROLLED with a policy by value). */
enum status compiled_make(const struct context *context, struct compiled_chain *compiled, const struct lowered *lowered,
                          const struct policy *policy);
/*
 * The chain as policies see it; FIXED bytes are held throughout. Runs are in the context's
 * arena. IN_ORDER gives one run after another, for searches and the cost walk. Otherwise
 * there is one run for each distinct step, which is enough for sums.
 */
enum status compiled_costs(const struct context *context, const struct compiled_chain *compiled, bool in_order,
                           int64_t fixed, struct step_costs *costs);

#endif
