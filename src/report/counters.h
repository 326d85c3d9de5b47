/* Reports on policies: their counters, predicted or measured, and what each policy keeps for the backward pass. */
#ifndef REPORT_COUNTERS_H
#define REPORT_COUNTERS_H

#include "plan/job.h"
#include "report/record.h"

/* One policy's figures; ckptc(1) explains them under COUNTERS. */
struct policy_row {
	const char *policy;
	struct counters counters;
	/* What row_compare sets: bytes of save-all for the same chain, input, tiles and threads. */
	int64_t save_all_peak; /* 0: unknown */
	int64_t save_all_stored;
	double predicted_ms;  /* 0: unknown */
	const char *costs;    /* that the overhead is counted in: "table", "measured" or a file's name; NULL: "table" */
	int64_t copied_bytes; /* of a run: of inputs that were copied to an unnamed file */
	const char *whole_because; /* why the array is not cut into tiles; NULL: it is, or need not be whole */
	bool pareto, knee;
	bool stored;         /* checkpoints were kept in another type (--store-dtype) */
	double store_error;  /* if STORED: the largest |value - kept value|; NAN if unknown */
	bool journalled;     /* of a run with --journal */
	bool resumed;        /* if JOURNALLED: it continued from a point of the journal */
	bool conditional;    /* of a run of a chain with `repeat while`s */
	int64_t counted;     /* if CONDITIONAL: their iterations, if a forward pass counted them before; else 0 */
	int64_t least_bytes; /* above 0: the policy is an infeasible budget, without figures; the least budget that works */
};

/* Lets saved bytes and reduction of ROW be measured against SAVE_ALL, the counters under save-all. */
void row_compare(struct policy_row *row, const struct counters *save_all);
/*
 * Returns the recomputed cost in percent of the cost of one forward and backward pass; 0 if that is 0. The rows that
 * windows share with others are computed again.
 */
double row_overhead(const struct policy_row *row);
/* Returns how far the peak is below save-all's, in percent of that: below 0 if it is higher, 0 if that is unknown. */
double row_reduction(const struct policy_row *row);

/*
 * Marks the Pareto front of COUNT feasible ROWS, and the knee: the row of the front that is nearest to zero bytes,
 * overhead and transfers to disk. The peak of save-all counts as much as an overhead of 100%, and as the most transfers
 * of a row. So bytes and overhead of other rows do not change the scale. A single row is no knee.
 */
void rows_mark_front(struct policy_row *rows, size_t count);

/* Bytes of TEXT, with the NUL. row_infeasible writes "infeasible, least 1248 bytes" to TEXT, and returns it. */
enum { ROW_TEXT = 64 };
const char *row_infeasible(const struct policy_row *row, char text[ROW_TEXT]);

/* Writes a line that says which costs ROW's overhead is counted in, unless they are those of the operations' table. */
void report_costs(struct report *report, const struct policy_row *row);
/* Writes ROW as a JSON object, the value of KEY; NULL: alone. Writes nothing in other formats. */
void report_row(struct report *report, const char *key, const struct policy_row *row);
/*
 * Writes COUNT ROWS; in JSON {"policies":[...],"pareto":[NAME...],"knee":NAME}. If all rows of a table need the whole
 * array for one reason, a line after it says why; else a column does. Another line says which costs they have, if not the table's.
 */
void report_policies(struct report *report, const struct policy_row *rows, size_t count);
/* Writes the counters of one run: MEASURED beside PREDICTED, but MEASURED alone in JSON and lines. */
void report_stats(struct report *report, const struct policy_row *measured, const struct policy_row *predicted);

/* An array that is held when the first sweep ends. */
struct kept {
	const char *what; /* "output of cos from f.ck:1:8", "state before encoder.3" */
	const char *type; /* NULL: unknown */
	int64_t bytes;
	int64_t step; /* that made it, or with --spec that reads it; -1: none, or steps are not compared */
};

struct kept_list {
	struct policy_row row;
	struct kept *rows; /* report_difference sorts them, and removes those that both lists have */
	size_t count;
	bool region;   /* the chain is one region, whose rows belong to no step of another policy */
	int64_t total; /* bytes of all rows before that; report_difference sets it */
};

/* Writes what only the first list holds and what only the second holds; in JSON and tables, the figures of both too. */
void report_difference(struct report *report, struct kept_list lists[2]);

/*
 * Writes the rows of LIST, in JSON and tables with the sum of their bytes; lines as JAX's print_saved_residuals. Unless
 * EXPAND, a table has equal rows once, with their number and the bytes of all.
 */
void report_residuals(struct report *report, const struct chain *chain, const struct held_list *list, bool expand);
/* Returns "output of sin from f.ck:6:9 (g)", "named 'a' from ..." or "from the argument W1". NULL if out of memory. */
const char *residual_describe(const struct chain *chain, const struct held *row, struct arena *arena);

#endif
