/* Figures of policies; the keys are the contract's. */
#include "report/counters.h"

#include <stdio.h>
#include <string.h>

double row_overhead(const struct policy_row *row)
{
	double all = row->counters.forward_cost + row->counters.backward_cost;
	return all > 0 ? 100.0 * row->counters.recomputed_cost / all : 0;
}

double row_reduction(const struct policy_row *row)
{
	return row->save_all_peak > 0 ? 100.0 * (1.0 - (double)row->counters.peak_bytes / (double)row->save_all_peak) : 0;
}

double row_efficiency(const struct policy_row *row)
{
	double overhead = row_overhead(row);
	return overhead > 0 ? row_reduction(row) / overhead : -1;
}

const char *row_infeasible(const struct policy_row *row, char text[ROW_TEXT])
{
	snprintf(text, ROW_TEXT, "infeasible, least %lld bytes", (long long)row->least_bytes);
	return text;
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
	text_put(text, ",\"overhead_percent\":");
	text_number(text, row_overhead(row));
	text_put(text, ",\"memory_reduction_percent\":");
	text_number(text, row_reduction(row));
	text_put(text, ",\"efficiency\":");
	if (row_efficiency(row) < 0 && row_overhead(row) <= 0)
		text_put(text, "null");
	else
		text_number(text, row_efficiency(row));
	if (row->predicted_ms > 0)
		text_printf(text, ",\"predicted_ms\":%.3f", row->predicted_ms);
	text_printf(text, ",\"pareto\":%s,\"knee\":%s}", row->pareto ? "true" : "false", row->knee ? "true" : "false");
}

static enum status table(const struct policy_row *rows, size_t count, bool csv, const struct text *text,
                         struct arena *arena, struct diags *diags)
{
	enum { COLUMNS = 12, USUAL = 8 };
	const char *heads[COLUMNS] = {"policy",     "evaluations", "recomputed", "checkpoints",
	                              "peak bytes", "reduction %", "overhead %", "efficiency"};
	bool timed = false, spilled = false;
	for (size_t i = 0; i < count; i++) {
		timed |= rows[i].predicted_ms > 0;
		spilled |= rows[i].counters.spill_writes > 0;
	}
	size_t columns = USUAL;
	if (spilled) {
		heads[columns++] = "spill writes";
		heads[columns++] = "spill reads";
	}
	if (timed)
		heads[columns++] = "predicted ms";
	size_t last = columns++;
	const char **cells = arena_array(arena, (count + 1) * columns, sizeof *cells);
	if (!cells)
		return diag_memory(diags);
	memcpy(cells, heads, columns * sizeof *heads);
	cells[last] = csv ? "front" : "";
	for (size_t i = 0; i < count; i++) {
		const struct policy_row *row = &rows[i];
		const char **cell = cells + (i + 1) * columns;
		const struct counters *c = &row->counters;
		for (size_t k = 0; k < columns; k++)
			cell[k] = "";
		cell[0] = row->policy;
		if (row->least_bytes) {
			char least[ROW_TEXT];
			cell[last] = arena_printf(arena, "%s", row_infeasible(row, least));
			continue;
		}
		cell[1] = arena_printf(arena, "%lld", (long long)c->evaluations);
		cell[2] = arena_printf(arena, "%lld", (long long)(c->evaluations - c->steps));
		cell[3] = arena_printf(arena, "%lld", (long long)c->checkpoints);
		cell[4] = arena_printf(arena, "%lld", (long long)c->peak_bytes);
		cell[5] = arena_printf(arena, "%.1f", row_reduction(row));
		cell[6] = arena_printf(arena, "%.1f", row_overhead(row));
		cell[7] = row_overhead(row) > 0 ? arena_printf(arena, "%.2f", row_efficiency(row)) : "-";
		if (spilled) {
			cell[USUAL] = arena_printf(arena, "%lld", (long long)c->spill_writes);
			cell[USUAL + 1] = arena_printf(arena, "%lld", (long long)c->spill_reads);
		}
		if (timed)
			cell[last - 1] = arena_printf(arena, "%.3f", row->predicted_ms);
		cell[last] = row->knee ? "pareto, knee" : row->pareto ? "pareto" : "";
	}
	if (arena->failed)
		return diag_memory(diags);
	if (!csv) {
		text_table(text, cells, count + 1, columns, (1U << last) - 2);
		return STATUS_OK;
	}
	for (size_t i = 0; i <= count; i++)
		for (size_t c = 0; c < columns; c++) {
			text_csv(text, cells[i * columns + c]);
			text_put(text, c + 1 == columns ? "\n" : ",");
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
		text_printf(text, "%s%s\n", row->pareto ? " pareto" : "", row->knee ? " knee" : "");
	}
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
	text_put(text, "]}\n");
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
	const struct counters *m = &measured->counters, *p = &predicted->counters;
	const struct {
		const char *name;
		int64_t measured, predicted;
	} rows[] = {{"steps", m->steps, p->steps},
	            {"evaluations", m->evaluations, p->evaluations},
	            {"recomputed", m->evaluations - m->steps, p->evaluations - p->steps},
	            {"checkpoints", m->checkpoints, p->checkpoints},
	            {"stored bytes", m->stored_bytes, p->stored_bytes},
	            {"saved bytes", measured->saved_bytes, predicted->saved_bytes},
	            {"peak bytes", m->peak_bytes, p->peak_bytes},
	            {"spill writes", m->spill_writes, p->spill_writes},
	            {"spill reads", m->spill_reads, p->spill_reads}};
	bool csv = format == REPORT_CSV || format == REPORT_LINES;
	if (csv)
		text_printf(text, "counter,measured,predicted\n");
	else
		text_printf(text, "policy        %s\n%-13s %15s %15s\n", measured->policy, "", "measured", "predicted");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		text_printf(text, csv ? "%s,%lld,%lld\n" : "%-13s %15lld %15lld\n", rows[i].name, (long long)rows[i].measured,
		            (long long)rows[i].predicted);
	if (csv)
		text_printf(text, "overhead %%,%.1f,%.1f\n", row_overhead(measured), row_overhead(predicted));
	else
		text_printf(text, "%-13s %15.1f %15.1f\n", "overhead %", row_overhead(measured), row_overhead(predicted));
}
