/* The residual report: what is held for the backward pass when the first sweep ends. */
#ifndef REPORT_RESIDUALS_H
#define REPORT_RESIDUALS_H

#include "plan/job.h"
#include "report/record.h"

/* The rows of LIST and their bytes. Lines are the text of JAX's print_saved_residuals. */
void report_residuals(struct report *report, const struct chain *chain, const struct held_list *list);
/* Describes a row with its place in the source: "output of sin from f.ck:6:9 (g)". NULL if memory is short. */
const char *residual_describe(const struct chain *chain, const struct held *row, struct arena *arena);

#endif
