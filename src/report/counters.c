/* Figures of policies; the keys are those of ckptc(1). */
#include "report/counters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/array.h"

double row_overhead(const struct policy_row *row)
{
	double all = row->counters.forward_cost + row->counters.backward_cost;
	return all > 0 ? 100.0 * row->counters.recomputed_cost / all : 0;
}

double row_reduction(const struct policy_row *row)
{
	const int64_t all = row->save_all_peak;
	return all > 0 ? 100.0 * (double)(all - row->counters.peak_bytes) / (double)all : 0;
}

/* Reduction over overhead; -1 where there is no overhead. */
static double row_efficiency(const struct policy_row *row)
{
	double overhead = row_overhead(row);
	return overhead > 0 ? row_reduction(row) / overhead : -1;
}

const char *row_infeasible(const struct policy_row *row, char text[ROW_TEXT])
{
	snprintf(text, ROW_TEXT, "infeasible, least %lld bytes", (long long)row->least_bytes);
	return text;
}

/* All digits, so that what is computed of several of these agrees. */
static void put_ratio(const struct text *text, const char *key, double value)
{
	char digits[40] = "null";
	if (isfinite(value))
		number_format(digits, value, false);
	text_printf(text, "%s%s", key, digits);
}

void report_row_json(const struct policy_row *row, const struct text *text)
{
	const struct counters *c = &row->counters;
	text_put(text, "{\"policy\":");
	text_json(text, row->policy);
	if (row->least_bytes) {
		text_printf(text, ",\"infeasible\":true,\"least_bytes\":%lld}", (long long)row->least_bytes);
		return;
	}
	text_printf(text, ",\"steps\":%lld,\"evaluations\":%lld,\"recomputed\":%lld,\"checkpoints\":%lld",
	            (long long)c->steps, (long long)c->evaluations, (long long)(c->evaluations - c->steps),
	            (long long)c->checkpoints);
	text_printf(
		text,
		",\"stored_bytes\":%lld,\"saved_bytes\":%lld,\"peak_bytes\":%lld,\"spill_writes\":%lld,\"spill_reads\":%lld",
		(long long)c->stored_bytes, (long long)row->saved_bytes, (long long)c->peak_bytes, (long long)c->spill_writes,
		(long long)c->spill_reads);
	put_ratio(text, ",\"overhead_percent\":", row_overhead(row));
	put_ratio(text, ",\"memory_reduction_percent\":", row_reduction(row));
	put_ratio(text, ",\"efficiency\":", row_overhead(row) > 0 ? row_efficiency(row) : NAN);
	if (row->predicted_ms > 0)
		text_printf(text, ",\"predicted_ms\":%.3f", row->predicted_ms);
	if (row->stored)
		put_ratio(text, ",\"store_error\":", row->store_error);
	text_put(text, "}");
}

/* ---- the table and the csv ---- */

static const char *whole(struct arena *arena, int64_t value) { return arena_printf(arena, "%lld", (long long)value); }

/* What stands in a column for ROW, which is feasible; NULL where memory is short. */
typedef const char *cell_of(const struct policy_row *row, struct arena *arena);

static const char *policy(const struct policy_row *row, struct arena *arena)
{
	(void)arena;
	return row->policy;
}
static const char *evaluations(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->counters.evaluations);
}
static const char *recomputed(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->counters.evaluations - row->counters.steps);
}
static const char *checkpoints(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->counters.checkpoints);
}
static const char *peak_bytes(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->counters.peak_bytes);
}
static const char *reduction(const struct policy_row *row, struct arena *arena)
{
	return arena_printf(arena, "%.1f", row_reduction(row));
}
static const char *overhead(const struct policy_row *row, struct arena *arena)
{
	return arena_printf(arena, "%.1f", row_overhead(row));
}
static const char *efficiency(const struct policy_row *row, struct arena *arena)
{
	return row_overhead(row) > 0 ? arena_printf(arena, "%.2f", row_efficiency(row)) : "-";
}
static const char *efficiency_or_none(const struct policy_row *row, struct arena *arena)
{
	return row_overhead(row) > 0 ? efficiency(row, arena) : "";
}
static const char *spill_writes(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->counters.spill_writes);
}
static const char *spill_reads(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->counters.spill_reads);
}
static const char *steps(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->counters.steps);
}
static const char *stored_bytes(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->counters.stored_bytes);
}
static const char *saved_bytes(const struct policy_row *row, struct arena *arena)
{
	return whole(arena, row->saved_bytes);
}
static const char *predicted_ms(const struct policy_row *row, struct arena *arena)
{
	return arena_printf(arena, "%.3f", row->predicted_ms);
}
static const char *front(const struct policy_row *row, struct arena *arena)
{
	(void)arena;
	return row->knee ? "pareto, knee" : row->pareto ? "pareto" : "";
}

/*
 * The columns in their order: the table's heading and the csv's, each NULL where it
 * has no such column. A column that tells of a disk or of times is in the table only
 * where a row has any; the last stands for the whole of an infeasible row.
 */
static const struct column {
	const char *shown, *key;
	enum { ALWAYS, WHERE_SPILLED, WHERE_TIMED } when;
	cell_of *cell;
} columns[] = {
	{"policy", "policy", ALWAYS, policy},
	{"evaluations", "evaluations", ALWAYS, evaluations},
	{"recomputed", "recomputed", ALWAYS, recomputed},
	{"checkpoints", "checkpoints", ALWAYS, checkpoints},
	{"peak bytes", "peak_bytes", ALWAYS, peak_bytes},
	{"reduction %", "memory_reduction_percent", ALWAYS, reduction},
	{"overhead %", "overhead_percent", ALWAYS, overhead},
	{"efficiency", NULL, ALWAYS, efficiency},
	{NULL, "efficiency", ALWAYS, efficiency_or_none},
	{"spill writes", NULL, WHERE_SPILLED, spill_writes},
	{"spill reads", NULL, WHERE_SPILLED, spill_reads},
	{NULL, "spill_writes", ALWAYS, spill_writes},
	{NULL, "spill_reads", ALWAYS, spill_reads},
	{NULL, "steps", ALWAYS, steps},
	{NULL, "stored_bytes", ALWAYS, stored_bytes},
	{NULL, "saved_bytes", ALWAYS, saved_bytes},
	{"predicted ms", "predicted_ms", WHERE_TIMED, predicted_ms},
	{"", "front", ALWAYS, front},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Those of COLUMNS that ROWS have, in CHOSEN; how many. */
static size_t choose_columns(const struct policy_row *rows, size_t count, bool csv, const struct column **chosen)
{
	bool timed = false, spilled = false;
	for (size_t i = 0; i < count; i++) {
		timed |= rows[i].predicted_ms > 0;
		spilled |= rows[i].counters.spill_writes > 0;
	}
	size_t made = 0;
	for (const struct column *c = columns; c < columns + COLUMNS; c++) {
		const bool wanted = c->when == ALWAYS || (c->when == WHERE_TIMED ? timed : spilled);
		if (wanted && (csv ? c->key : c->shown))
			chosen[made++] = c;
	}
	return made;
}

static enum status table(const struct policy_row *rows, size_t count, bool csv, const struct text *text,
                         struct arena *arena, struct diags *diags)
{
	const struct column *chosen[COLUMNS];
	const size_t width = choose_columns(rows, count, csv, chosen);
	const char **cells = arena_array(arena, (count + 1) * width, sizeof *cells);
	if (!cells)
		return diag_memory(diags);
	for (size_t c = 0; c < width; c++)
		cells[c] = csv ? chosen[c]->key : chosen[c]->shown;
	for (size_t i = 0; i < count; i++) {
		const char **cell = cells + (i + 1) * width;
		char least[ROW_TEXT];
		for (size_t c = 0; c < width; c++)
			cell[c] = c > 0 && rows[i].least_bytes ? "" : chosen[c]->cell(&rows[i], arena);
		if (rows[i].least_bytes)
			cell[width - 1] = arena_printf(arena, "%s", row_infeasible(&rows[i], least));
	}
	if (arena->failed)
		return diag_memory(diags);
	if (!csv) {
		text_table(text, cells, count + 1, width, (1U << (width - 1)) - 2);
		return STATUS_OK;
	}
	for (size_t i = 0; i <= count; i++)
		for (size_t c = 0; c < width; c++) {
			text_csv(text, cells[i * width + c]);
			text_put(text, c + 1 == width ? "\n" : ",");
		}
	return STATUS_OK;
}

/* A line a policy: its name, then what a search or a cut by blanks finds. */
static void lines(const struct policy_row *rows, size_t count, const struct text *text)
{
	for (size_t i = 0; i < count; i++) {
		const struct policy_row *row = &rows[i];
		const struct counters *c = &row->counters;
		text_put(text, row->policy);
		if (row->least_bytes) {
			text_printf(text, " infeasible least_bytes=%lld\n", (long long)row->least_bytes);
			continue;
		}
		text_printf(text, " evaluations=%lld recomputed=%lld checkpoints=%lld peak_bytes=%lld",
		            (long long)c->evaluations, (long long)(c->evaluations - c->steps), (long long)c->checkpoints,
		            (long long)c->peak_bytes);
		text_printf(text, " memory_reduction_percent=%.1f overhead_percent=%.1f", row_reduction(row),
		            row_overhead(row));
		if (row_overhead(row) > 0)
			text_printf(text, " efficiency=%.2f", row_efficiency(row));
		if (c->spill_writes > 0)
			text_printf(text, " spill_writes=%lld spill_reads=%lld", (long long)c->spill_writes,
			            (long long)c->spill_reads);
		if (row->predicted_ms > 0)
			text_printf(text, " predicted_ms=%.3f", row->predicted_ms);
		if (row->stored)
			text_printf(text, " store_error=%.3g", row->store_error);
		text_printf(text, "%s%s\n", row->pareto ? " pareto" : "", row->knee ? " knee" : "");
	}
}

/* What depends on the other policies stands beside them: a row has what grad --stats has of one. */
static void front_json(const struct policy_row *rows, size_t count, const struct text *text)
{
	const char *knee = NULL, *comma = "";
	text_put(text, "],\"pareto\":[");
	for (size_t i = 0; i < count; i++) {
		if (rows[i].knee)
			knee = rows[i].policy;
		if (!rows[i].pareto)
			continue;
		text_put(text, comma);
		text_json(text, rows[i].policy);
		comma = ",";
	}
	text_put(text, "],\"knee\":");
	text_json(text, knee);
	text_put(text, "}\n");
}

enum status report_policies(const struct policy_row *rows, size_t count, enum report_format format,
                            const struct text *text, struct arena *arena, struct diags *diags)
{
	if (format == REPORT_LINES) {
		lines(rows, count, text);
		return STATUS_OK;
	}
	if (format != REPORT_JSON)
		return table(rows, count, format == REPORT_CSV, text, arena, diags);
	text_put(text, "{\"policies\":[");
	for (size_t i = 0; i < count; i++) {
		text_put(text, i ? "," : "");
		report_row_json(&rows[i], text);
	}
	front_json(rows, count, text);
	return STATUS_OK;
}

void report_stats(const struct policy_row *measured, const struct policy_row *predicted, enum report_format format,
                  const struct text *text)
{
	if (format == REPORT_JSON) {
		report_row_json(measured, text);
		text_put(text, "\n");
		return;
	}
	if (format == REPORT_LINES) {
		lines(measured, 1, text);
		return;
	}
	const struct counters *m = &measured->counters, *p = &predicted->counters;
	const struct {
		const char *key, *name;
		int64_t measured, predicted;
	} rows[] = {{"steps", "steps", m->steps, p->steps},
	            {"evaluations", "evaluations", m->evaluations, p->evaluations},
	            {"recomputed", "recomputed", m->evaluations - m->steps, p->evaluations - p->steps},
	            {"checkpoints", "checkpoints", m->checkpoints, p->checkpoints},
	            {"stored_bytes", "stored bytes", m->stored_bytes, p->stored_bytes},
	            {"saved_bytes", "saved bytes", measured->saved_bytes, predicted->saved_bytes},
	            {"peak_bytes", "peak bytes", m->peak_bytes, p->peak_bytes},
	            {"spill_writes", "spill writes", m->spill_writes, p->spill_writes},
	            {"spill_reads", "spill reads", m->spill_reads, p->spill_reads}};
	const bool csv = format == REPORT_CSV;
	if (csv)
		text_printf(text, "counter,measured,predicted\n");
	else
		text_printf(text, "policy        %s\n%-13s %15s %15s\n", measured->policy, "", "measured", "predicted");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		text_printf(text, csv ? "%s,%lld,%lld\n" : "%-13s %15lld %15lld\n", csv ? rows[i].key : rows[i].name,
		            (long long)rows[i].measured, (long long)rows[i].predicted);
	text_printf(text, csv ? "%s,%.1f,%.1f\n" : "%-13s %15.1f %15.1f\n", csv ? "overhead_percent" : "overhead %",
	            row_overhead(measured), row_overhead(predicted));
	if (measured->stored)
		text_printf(text, csv ? "%s,%.3g,\n" : "%-13s %15.3g\n", csv ? "store_error" : "store error",
		            measured->store_error);
}
