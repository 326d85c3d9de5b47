/* A chain's forward and backward programs as a graph for Graphviz. */
#ifndef REPORT_DOT_H
#define REPORT_DOT_H

#include "memory/machine.h"
#include "report/text.h"

/*
 * Writes a cluster for each part, with the operations of both passes and what is saved between them. Edges join parts
 * that follow each other in the program. Sets the flag of ARENA if memory is short.
 */
void report_dot(const struct chain *chain, const struct compiled_chain *compiled, const struct text *text,
                struct arena *arena);

#endif
