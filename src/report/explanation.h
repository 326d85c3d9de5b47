/*
 * What a chain does: the forward and the backward program of each part, and the actions of a schedule. Programs are text
 * in two columns, or a graph for Graphviz. In the text:
 *
 *     a, b      values; one letter is one value in both columns
 *     d_a       the cotangent of a (or a with a bar); its parts, if it is a sum, are d_a.1, d_a.2
 */
#ifndef REPORT_EXPLANATION_H
#define REPORT_EXPLANATION_H

#include "compile/compiled.h"
#include "report/record.h"
#include "schedule/action.h"

struct explanation {
	const struct chain *chain;
	const struct compiled_chain *compiled;
	const char *policy;
	int64_t evaluations;
	bool bars;  /* tables show the cotangent of a as a with a macron (U+0304) */
	bool color; /* tables highlight what is recomputed */
};

void report_explanation(struct report *report, const struct explanation *explanation);

/*
 * Writes a cluster for each part, with the operations of both passes and what is saved between them. Edges join parts
 * that follow each other in the program. Sets the flag of ARENA if memory is short.
 */
void report_dot(const struct chain *chain, const struct compiled_chain *compiled, const struct text *text,
                struct arena *arena);
/* SCHEDULE from its first action on, made by POLICY for STEPS steps. */
void report_actions(struct report *report, struct schedule *schedule, const char *policy, int64_t steps);

#endif
