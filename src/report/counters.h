/* Reports on policies: counters, predicted or measured, of one or several; what each keeps for the backward pass. */
#ifndef REPORT_COUNTERS_H
#define REPORT_COUNTERS_H

#include "plan/job.h"
#include "report/record.h"

/* One policy's figures, as ckptc(1) names them under COUNTERS. */
struct policy_row {
	const char *policy;
	struct counters counters;
	int64_t saved_bytes;   /* save-all's stored_bytes less this one's */
	int64_t save_all_peak; /* peak_bytes of save-all; 0: unknown */
	double predicted_ms;   /* 0: unknown */
	bool pareto, knee;
	bool stored; /* states were kept in another type, and this is the largest error that it made */
	double store_error;
	int64_t least_bytes; /* of a budget that is infeasible, which has no figures: what it must be; else 0 */
};

/* Recomputed cost over forward and backward cost, in percent. */
double row_overhead(const struct policy_row *row);
/* Memory that is saved against save-all's peak, in percent. */
double row_reduction(const struct policy_row *row);

/* Of a row without figures: "infeasible, least 1248 bytes". */
enum { ROW_TEXT = 64 };
const char *row_infeasible(const struct policy_row *row, char text[ROW_TEXT]);

/* ROW as a JSON object with the keys of ckptc(1). */
void report_row(struct report *report, const char *key, const struct policy_row *row);
/* All rows; in JSON {"policies":[...],"pareto":[NAME...],"knee":NAME}. */
void report_policies(struct report *report, const struct policy_row *rows, size_t count);
/* One run's counters, MEASURED beside PREDICTED; JSON and lines hold MEASURED alone. */
void report_stats(struct report *report, const struct policy_row *measured, const struct policy_row *predicted);

/* Something that is held when the first sweep ends. */
struct kept {
	const char *what; /* "output of cos from f.ck:1:8", "state before encoder.3" */
	const char *type; /* or NULL */
	int64_t bytes;
	int64_t step; /* that made it; -1: none, or not to be compared */
};

struct kept_list {
	struct policy_row row;
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
