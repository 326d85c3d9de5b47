/* Counters of a job, predicted or measured, and tables of several policies. */
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

#endif
