/* Tests: tests/cases/plan.test, tests/cases/cli.test */
#include "report/counters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void row_compare(struct policy_row *row, const struct counters *save_all)
{
	row->save_all_peak = save_all->peak_bytes;
	row->save_all_stored = save_all->stored_bytes;
}

double row_overhead(const struct policy_row *row) { return counters_overhead(&row->counters); }

double row_reduction(const struct policy_row *row)
{
	const int64_t all = row->save_all_peak;
	return all > 0 ? 100.0 * (double)(all - row->counters.peak_bytes) / (double)all : 0;
}

static double transfers_of(const struct policy_row *row)
{
	return (double)(row->counters.spill_writes + row->counters.spill_reads);
}

/* True if A is no worse than B in overhead, peak and disk transfers, and better in at least one of them. */
static bool is_better(const struct policy_row *a, const struct policy_row *b)
{
	/* Costs are sums, so ignore differences by rounding. */
	const double same = 1e-9 * (1 + row_overhead(b)), more = row_overhead(a) - row_overhead(b);
	const int64_t larger = a->counters.peak_bytes - b->counters.peak_bytes;
	const double slower = transfers_of(a) - transfers_of(b);
	return more <= same && larger <= 0 && slower <= 0 && (more < -same || larger < 0 || slower < 0);
}

void rows_mark_front(struct policy_row *rows, size_t count)
{
	double most_peak = 1, most_transfers = 1, best = 1e300;
	size_t knee = count;
	for (size_t i = 0; i < count; i++) {
		if (rows[i].least_bytes)
			continue;
		rows[i].pareto = true;
		for (size_t k = 0; k < count && rows[i].pareto; k++)
			rows[i].pareto = rows[k].least_bytes || !is_better(&rows[k], &rows[i]);
		most_peak = fmax(most_peak, (double)rows[i].counters.peak_bytes);
		most_transfers = fmax(most_transfers, transfers_of(&rows[i]));
	}
	for (size_t i = 0; i < count; i++) {
		const double all = rows[i].save_all_peak > 0 ? (double)rows[i].save_all_peak : most_peak;
		double x = (double)rows[i].counters.peak_bytes / all, y = row_overhead(&rows[i]) / 100;
		double z = transfers_of(&rows[i]) / most_transfers;
		if (rows[i].pareto && x * x + y * y + z * z < best) {
			best = x * x + y * y + z * z;
			knee = i;
		}
	}
	if (knee < count && count > 1)
		rows[knee].knee = true;
}

const char *row_infeasible(const struct policy_row *row, char text[ROW_TEXT])
{
	snprintf(text, ROW_TEXT, "infeasible, least %lld bytes", (long long)row->least_bytes);
	return text;
}

/* A row, and the figures that are computed from it. */
struct figures {
	struct policy_row row;
	int64_t recomputed;
	int64_t saved_bytes; /* below 0 if the policy stores more than save-all, as states of a chain that keeps none */
	double overhead, reduction, efficiency; /* efficiency: reduction / overhead, NAN if overhead is 0 */
	double gap;                             /* NAN if it is unknown */
	const char *resumed, *costs;
	const char *front; /* the text of the last column */
	bool infeasible;
};

enum {
	FEASIBLE = 1,
	INFEASIBLE = 2,
	SPILLED = 4,
	TIMED = 8,
	STORED = 16,
	BOUNDED = 32,
	INEXACT = 64,
	COUNTED = 128,
	READS = 256,
	HALO = 512,
	WHOLE_ARRAY = 1024,
	COPIED = 2048,
	JOURNALLED = 4096
};

static struct figures figures_of(const struct policy_row *row, struct arena *arena)
{
	const double overhead = row_overhead(row), reduction = row_reduction(row);
	char least[ROW_TEXT];
	return (struct figures){.row = *row,
	                        .recomputed = row->counters.evaluations - row->counters.steps,
	                        .saved_bytes = row->save_all_stored - row->counters.stored_bytes,
	                        .overhead = overhead,
	                        .reduction = reduction,
	                        .efficiency = overhead > 0 ? reduction / overhead : (double)NAN,
	                        .gap = row->counters.bounded ? row->counters.gap_percent : (double)NAN,
	                        .resumed = row->resumed ? "yes" : "no",
	                        .costs = row->costs ? row->costs : "table",
	                        .front = row->least_bytes ? arena_printf(arena, "%s", row_infeasible(row, least))
	                                 : row->knee      ? "pareto, knee"
	                                 : row->pareto    ? "pareto"
	                                                  : "",
	                        .infeasible = row->least_bytes != 0};
}

static unsigned groups_of(const struct policy_row *row)
{
	if (row->least_bytes)
		return INFEASIBLE;
	return FEASIBLE | (row->counters.spill_writes > 0 ? SPILLED : 0) | (row->predicted_ms > 0 ? TIMED : 0) |
	       (row->stored ? STORED : 0) | (row->conditional ? COUNTED : 0) | (row->counters.bounded ? BOUNDED : 0) |
	       (row->counters.bounded && row->counters.gap_percent > 0 ? INEXACT : 0) | (row->counters.passes ? READS : 0) |
	       (row->counters.halo_rows ? HALO : 0) | (row->whole_because ? WHOLE_ARRAY : 0) |
	       (row->copied_bytes ? COPIED : 0) | (row->journalled ? JOURNALLED : 0);
}

/* A field has several entries if its place, its heading or its group depends on the format. */
static const struct field figure_fields[] = {
	{"policy", NULL, IN_ALL, 0, FIELD(figures, TEXT, row.policy)},
	{"infeasible", NULL, IN_JSON | IN_LINES, INFEASIBLE, FIELD(figures, FLAG, infeasible)},
	{"least_bytes", NULL, IN_JSON | IN_LINES, INFEASIBLE, FIELD(figures, WHOLE, row.least_bytes)},
	{"steps", NULL, IN_JSON | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, row.counters.steps)},
	{"evaluations", NULL, IN_ALL | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, row.counters.evaluations)},
	{"executions", NULL, IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, row.counters.executions)},
	{"recomputed", NULL, IN_ALL | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, recomputed)},
	{"checkpoints", NULL, IN_ALL | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, row.counters.checkpoints)},
	{"stored_bytes", "stored bytes", IN_JSON | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, row.counters.stored_bytes)},
	{"saved_bytes", "saved bytes", IN_JSON | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, saved_bytes)},
	{"peak_bytes", "peak bytes", IN_ALL | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, row.counters.peak_bytes)},
	{"spill_writes", "spill writes", IN_JSON | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, row.counters.spill_writes)},
	{"spill_reads", "spill reads", IN_JSON | IN_FIGURES, FEASIBLE, FIELD(figures, WHOLE, row.counters.spill_reads)},
	{"executions", NULL, IN_JSON, FEASIBLE, FIELD(figures, WHOLE, row.counters.executions)},
	{"overhead_percent", "overhead %", IN_JSON | IN_FIGURES, FEASIBLE, FIELD(figures, NUMBER, overhead), "%.1f", true},
	{"memory_reduction_percent", "reduction %", IN_ALL, FEASIBLE, FIELD(figures, NUMBER, reduction), "%.1f", true},
	{"overhead_percent", "overhead %", IN_ROWS | IN_LINES, FEASIBLE, FIELD(figures, NUMBER, overhead), "%.1f"},
	{"efficiency", NULL, IN_ALL, FEASIBLE, FIELD(figures, NUMBER, efficiency), "%.2f", true, .unknown = "-"},
	{"costs", NULL, IN_JSON, FEASIBLE, FIELD(figures, TEXT, costs)},
	{"spill_writes", "spill writes", IN_TABLE | IN_LINES, SPILLED, FIELD(figures, WHOLE, row.counters.spill_writes)},
	{"spill_reads", "spill reads", IN_TABLE | IN_LINES, SPILLED, FIELD(figures, WHOLE, row.counters.spill_reads)},
	{"spill_writes", NULL, IN_CSV, FEASIBLE, FIELD(figures, WHOLE, row.counters.spill_writes)},
	{"spill_reads", NULL, IN_CSV, FEASIBLE, FIELD(figures, WHOLE, row.counters.spill_reads)},
	{"steps", NULL, IN_CSV, FEASIBLE, FIELD(figures, WHOLE, row.counters.steps)},
	{"stored_bytes", NULL, IN_CSV, FEASIBLE, FIELD(figures, WHOLE, row.counters.stored_bytes)},
	{"saved_bytes", NULL, IN_CSV, FEASIBLE, FIELD(figures, WHOLE, saved_bytes)},
	{"predicted_ms", "predicted ms", IN_ALL, TIMED, FIELD(figures, NUMBER, row.predicted_ms), "%.3f"},
	{"gap_percent", NULL, IN_JSON | IN_LINES, BOUNDED, FIELD(figures, NUMBER, gap), "%.2f", true},
	{"gap_percent", "gap %", IN_TABLE, INEXACT, FIELD(figures, NUMBER, gap), "%.2f", .unknown = "-"},
	{"gap_percent", "gap %", IN_FIGURES, BOUNDED, FIELD(figures, NUMBER, gap), "%.2f", true},
	{"store_error", "store error", IN_JSON | IN_LINES | IN_FIGURES, STORED, FIELD(figures, NUMBER, row.store_error),
     "%.3g", true},
	{"counted_iterations", "counted", IN_JSON | IN_LINES | IN_FIGURES, COUNTED, FIELD(figures, WHOLE, row.counted)},
	{"passes", NULL, IN_JSON | IN_LINES | IN_FIGURES, READS, FIELD(figures, WHOLE, row.counters.passes)},
	{"halo_rows", "halo rows", IN_JSON | IN_LINES | IN_FIGURES, READS, FIELD(figures, WHOLE, row.counters.halo_rows)},
	{"whole_because", NULL, IN_JSON, READS, FIELD(figures, TEXT, row.whole_because)},
	{"copied_bytes", "copied bytes", IN_JSON | IN_LINES | IN_FIGURES, COPIED, FIELD(figures, WHOLE, row.copied_bytes)},
	{"resumed", NULL, IN_JSON | IN_LINES, JOURNALLED, FIELD(figures, FLAG, row.resumed)},
	{"resumed", NULL, IN_FIGURES, JOURNALLED, FIELD(figures, TEXT, resumed)},
	{"halo_rows", "halo rows", IN_TABLE, HALO, FIELD(figures, WHOLE, row.counters.halo_rows)},
	{"front", "", IN_ROWS, 0, FIELD(figures, TEXT, front)},
	{"gap_percent", NULL, IN_CSV, FEASIBLE, FIELD(figures, NUMBER, gap), "%.2f"},
	{"whole_because", "whole because", IN_TABLE, WHOLE_ARRAY, FIELD(figures, TEXT, row.whole_because)},
	{"passes", NULL, IN_CSV, READS, FIELD(figures, WHOLE, row.counters.passes)},
	{"halo_rows", NULL, IN_CSV, READS, FIELD(figures, WHOLE, row.counters.halo_rows)},
	{"whole_because", NULL, IN_CSV, READS, FIELD(figures, TEXT, row.whole_because)},
	{"pareto", NULL, IN_LINES, 0, FIELD(figures, FLAG, row.pareto)},
	{"knee", NULL, IN_LINES, 0, FIELD(figures, FLAG, row.knee)},
	{"whole_because", NULL, IN_LINES, WHOLE_ARRAY, FIELD(figures, TEXT, row.whole_because)},
};
static const struct record_kind figure_kind = RECORD_KIND("policies", figure_fields, NULL);

/* Returns what COSTS are called; NULL if they are those of the operations' table. */
static const char *costs_shown(const char *costs) { return costs && strcmp(costs, "table") != 0 ? costs : NULL; }

void report_costs(struct report *report, const struct policy_row *row)
{
	const char *costs = costs_shown(row->costs);
	if (!costs)
		return;
	text_put(report->text, "costs: ");
	diag_escape_cell(strcmp(costs, "measured") ? costs : "measured at the start", report->text->write,
	                 report->text->context);
	text_put(report->text, "\n");
}

void report_row(struct report *report, const char *key, const struct policy_row *row)
{
	const struct figures figures = figures_of(row, report->arena);
	report_record(report, key, &figure_kind, &figures, groups_of(row));
}

/* Returns why all ROWS, apart from infeasible ones, need the whole array; NULL if that is not one text. */
static const char *common_reason(const struct policy_row *rows, size_t count)
{
	const char *reason = NULL;
	for (size_t i = 0; i < count; i++) {
		const char *own = rows[i].whole_because;
		if (rows[i].least_bytes)
			continue;
		if (!own || (reason && strcmp(reason, own) != 0))
			return NULL;
		reason = own;
	}
	return reason;
}

void report_policies(struct report *report, const struct policy_row *rows, size_t count)
{
	const char *reason = report->format == REPORT_TABLE ? common_reason(rows, count) : NULL;
	const bool in_columns = report->format != REPORT_JSON && report->format != REPORT_LINES;
	struct records records;
	unsigned groups = FEASIBLE;
	for (size_t i = 0; i < count; i++)
		groups |= groups_of(&rows[i]);
	if (reason)
		groups &= ~(unsigned)WHOLE_ARRAY;
	records_begin(&records, report, &figure_kind, groups);
	for (size_t i = 0; i < count; i++) {
		const struct figures figures = figures_of(&rows[i], report->arena);
		const unsigned own = groups_of(&rows[i]);
		records_put(&records, &figures, in_columns && own & FEASIBLE ? groups : own);
	}
	records_end(&records);
	if (report->format == REPORT_TABLE && count)
		report_costs(report, &rows[0]);
	if (reason) { /* in each row it would make the table too wide */
		text_put(report->text, "whole array, because ");
		diag_escape(reason, report->text->write, report->text->context);
		text_put(report->text, "\n");
	}
	/* In JSON the front and the knee stand beside the rows, so that a row has the keys that grad --stats prints. */
	const char *knee = NULL;
	report_open(report, "pareto", '[');
	for (size_t i = 0; i < count; i++) {
		knee = rows[i].knee ? rows[i].policy : knee;
		if (rows[i].pareto)
			report_text(report, NULL, rows[i].policy);
	}
	report_close(report, ']');
	report_text(report, "knee", knee);
}

void report_stats(struct report *report, const struct policy_row *measured, const struct policy_row *predicted)
{
	static const int widths[2] = {13, 15};
	struct figures m = figures_of(measured, report->arena), p = figures_of(predicted, report->arena);
	p.row.store_error = NAN; /* a plan does not predict it */
	p.resumed = m.resumed;
	const void *both[] = {&m, &p};
	const unsigned groups = groups_of(measured);
	struct records line;
	if (report->format == REPORT_JSON) {
		report_row(report, NULL, measured);
		return;
	}
	if (report->format == REPORT_LINES) {
		records_begin(&line, report, &figure_kind, groups);
		records_put(&line, &m, groups);
		records_end(&line);
		return;
	}
	if (report->format == REPORT_CSV)
		text_put(report->text, "counter,measured,predicted\n");
	else
		text_printf(report->text, "policy        %s%s%s\n%-13s %15s %15s\n", measured->policy,
		            measured->whole_because ? " on the whole array, because " : "",
		            measured->whole_because ? measured->whole_because : "", "", "measured", "predicted");
	report_figures(report, &figure_kind, groups, both, 2, widths);
	if (report->format == REPORT_TABLE && costs_shown(measured->costs)) {
		const size_t length = strlen(measured->costs);
		text_put(report->text, "costs        ");
		for (int column = 0; column < 2; column++) {
			text_printf(report->text, "%*s", length < 15 ? 16 - (int)length : 1, "");
			diag_escape_cell(measured->costs, report->text->write, report->text->context);
		}
		text_put(report->text, "\n");
	}
	if (report->format == REPORT_CSV && measured->whole_because) {
		text_put(report->text, "whole_because,");
		text_csv(report->text, measured->whole_because);
		text_put(report->text, ",");
		text_csv(report->text, predicted->whole_because);
		text_put(report->text, "\n");
	}
}
