/*
 * A compiled chain: each form of a step is linearised once and its programs are compiled once, however often the steps
 * of that form are executed.
 *
 * Steps have one form if they have one body, of which the same outs are live, and the same cotangents come and are
 * wanted. They differ in their particulars (ir/body.h) alone.
 *
 * A program may write over the arrays that it owns: residuals that are part of no state, and cotangents. If something
 * else holds a cotangent, the program backward_shared runs, which leaves cotangents as they are.
 */
#ifndef COMPILE_COMPILED_H
#define COMPILE_COMPILED_H

#include "base/diag.h"
#include "compile/linearise.h"
#include "compile/program.h"
#include "schedule/step_costs.h"

enum { STEP_PROGRAMS = 5 };
/* A form of steps with its linearisation and its programs, for one size of tile. */
struct compiled_step {
	struct linear linear;
	union {
		struct {
			struct program forward; /* its body lacks the outs that nothing reads */
			struct program record, record_only, backward;
			struct program backward_shared; /* for when a cotangent is shared: has no temporary in its array */
		};
		struct program programs[STEP_PROGRAMS]; /* the five above */
	};
};

/*
 * The costs of a step: of a forward execution, of the backward body's forward operations and of its derivatives. RECORD is
 * the cost of recording without the state after it (struct step_cost). If the step is the whole chain, ONCE is the forward
 * cost of save-all where nobody reads the output.
 */
struct step_times {
	double forward, record, once, recompute, backward;
};

struct compiled_chain {
	const struct lowered *lowered;
	struct compiled_step *forms;
	size_t form_count;
	const uint32_t *form_of;  /* by step id: the index of its form */
	struct step_times *times; /* by step id */
	bool by_value;            /* one compiled step is the whole chain */
	unsigned libraries;       /* of all programs */
	int64_t ports;            /* the most ins or outs of a program */
	int64_t widest;           /* the most `widest` of a program */
	int64_t wave;             /* the most `wave` of a program */
	int64_t member;           /* the most `member` of a program, rounded up to ARRAY_ALIGN */
};

static inline const struct compiled_step *compiled_step_of(const struct compiled_chain *compiled,
                                                           const struct step *step)
{
	return &compiled->forms[compiled->form_of[step->id]];
}

/*
 * Linearises and compiles each form of the steps of LOWERED (LOWER_STEPS, or LOWER_UNROLLED if POLICY is by value). Any
 * other POLICY, or NULL, changes nothing here. WRITTEN is program_compile's. LOWERED must outlive COMPILED. USES: COMPILED_*
 * bits. STATUS_LIMIT as program_compile.
 */
enum {
	COMPILED_SIZES = 1, /* for the machine without hooks: programs have their sizes, but no launches and no frames */
	/* A step that is the whole chain lacks the programs that no schedule calls: their body is NULL. */
	COMPILED_CALLED = 2,
	COMPILED_VALUE = 4,  /* schedules want the output */
	COMPILED_LINEAR = 8, /* all steps lack all programs */
};
enum status compiled_make(const struct context *context, struct compiled_chain *compiled, const struct lowered *lowered,
                          const struct policy *policy, const bool *written, unsigned uses);
/*
 * Writes the costs of COMPILED's steps to COSTS; FIXED bytes are held throughout. The runs are
 * in the context's arena. If IN_ORDER, they are in the chain's order, for searches and the cost walk.
 * Else each distinct step has one run, by id: enough for sums. Disk times are 0. STATUS_LIMIT if out of memory.
 */
enum status compiled_costs(const struct context *context, const struct compiled_chain *compiled, bool in_order,
                           int64_t fixed, struct step_costs *costs);
/* Returns the last_temporary of STEP, whose other costs are COST. */
int64_t compiled_last_temporary(const struct compiled_chain *compiled, const struct step *step,
                                const struct step_cost *cost);
/*
 * Sets SHARED to COSTS, which are in order, without the arrays that most states share: these and their cotangents count
 * in `fixed`, and in no state (lasting.c). The runs are those of COSTS, or in the context's arena. STATUS_LIMIT if out of
 * memory.
 */
enum status compiled_share_costs(const struct context *context, const struct compiled_chain *compiled,
                                 const struct step_costs *costs, struct step_costs *shared);

#endif
