/*
 * Reports what a chain does: the forward and the backward program of each part, and the actions of a schedule. A part
 * is a distinct step; all steps that are alike are one part. Programs are text (in tables, side by side in two columns)
 * or a graph for Graphviz. In the text:
 *
 *     a, b      values; within a part, one letter is one value in both programs
 *     d_a       the cotangent of a, or a with a macron; if it is a sum, its parts are d_a.1, d_a.2
 */
#ifndef REPORT_EXPLANATION_H
#define REPORT_EXPLANATION_H

#include "compile/compiled.h"
#include "plan/job.h"
#include "report/record.h"
#include "schedule/action.h"

struct explanation {
	const struct chain *chain;
	const struct compiled_chain *compiled;
	const char *policy;
	int64_t evaluations;
	bool macrons; /* tables show cotangents with a macron (U+0304), not as d_a */
	bool color;   /* tables colour the operations that are recomputed */
};

void report_explanation(struct report *report, const struct explanation *explanation);

/* Writes a line for each formula of BODY, CHAIN's for a forward run, that an attention computes in less memory. */
void report_advice(const struct text *text, const struct chain *chain, const struct body *body);

/*
 * Writes a graph for Graphviz. Each part is a cluster of the operations of both passes and the values saved between
 * them; edges are values and cotangents. If memory is short, sets ARENA's `failed`, and the graph is not whole.
 */
void report_dot(const struct chain *chain, const struct compiled_chain *compiled, const struct text *text,
                struct arena *arena);
/* Writes the actions of JOB's schedule. Those of a policy by value are on the whole chain, its one region. */
void report_schedule(struct report *report, const struct job *job);
/* Writes all actions of SCHEDULE, which POLICY made for STEPS steps. Rewinds SCHEDULE first. */
void report_actions(struct report *report, struct schedule *schedule, const char *policy, int64_t steps);

#endif
