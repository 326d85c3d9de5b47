/*
 * The forward and the backward program of each part of a chain, as text in columns side by side.
 *
 *     a, b      values; one letter is one value in both columns
 *     d_a       the cotangent of a (or a with a bar); its parts, if it is a sum, are d_a.1, d_a.2
 */
#ifndef REPORT_EXPLANATION_H
#define REPORT_EXPLANATION_H

#include "compile/compiled.h"
#include "report/record.h"

struct explanation {
	const struct chain *chain;
	const struct compiled_chain *compiled;
	const char *policy;
	int64_t evaluations;
	bool bars;  /* tables show the cotangent of a as a with a macron (U+0304) */
	bool color; /* tables highlight what is recomputed */
};

void report_explanation(struct report *report, const struct explanation *explanation);

#endif
