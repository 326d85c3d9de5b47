/* What policies keep for the backward pass: the residual report, and what one keeps that another recomputes. */
#ifndef REPORT_DIFFERENCE_H
#define REPORT_DIFFERENCE_H

#include "report/counters.h"

/* Something that is held when the first sweep ends. */
struct kept {
	const char *what; /* "output of cos from f.ck:1:8", "state before encoder.3" */
	const char *type; /* or NULL */
	int64_t bytes;
	int64_t step; /* that made it; -1: none, or not to be compared */
};

struct kept_list {
	const struct policy_row *row;
	struct kept *rows; /* report_difference sorts them, and keeps those that the other list has not */
	size_t count;
	int64_t total; /* bytes of all of them */
};

/* Two lists: what is only in the one, what is only in the other, and the figures of both. */
void report_difference(struct report *report, struct kept_list lists[2]);

/* The rows of LIST and their bytes. Lines are the text of JAX's print_saved_residuals. */
void report_residuals(struct report *report, const struct chain *chain, const struct held_list *list);
/* Describes a row with its place in the source: "output of sin from f.ck:6:9 (g)". NULL if memory is short. */
const char *residual_describe(const struct chain *chain, const struct held *row, struct arena *arena);

#endif
