/* The residual report: what is held for the backward pass when the first sweep ends. */
#ifndef REPORT_RESIDUALS_H
#define REPORT_RESIDUALS_H

#include "plan/job.h"
#include "report/text.h"

/* LINES is the text of JAX's print_saved_residuals. STATUS_LIMIT where memory is short. */
enum status report_residuals(const struct chain *chain, const struct held_list *list, enum report_format format,
                             const struct text *text, struct arena *arena, struct diags *diags);
/* What a row is, and its place in the source: "output of sin from f.ck:6:9 (g)". NULL where memory is short. */
const char *residual_describe(const struct chain *chain, const struct held *row, struct arena *arena);

#endif
