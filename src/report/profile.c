/* Tests: tests/cases/cli.test */
#include "report/profile.h"

#include <math.h>

enum { DEPTH = 1, POLICY = 2 };
/* The formats that have the least and the largest measurements: a table has their range in percent. */
enum { MEASURED = IN_JSON | IN_CSV | IN_LINES };

static const struct field row_fields[] = {
	{"kind", NULL, IN_CSV | IN_LINES, 0, FIELD(profile_row, TEXT, kind)},
	{"steps", NULL, IN_JSON | IN_TABLE, DEPTH, FIELD(profile_row, WHOLE, steps)},
	{"steps", NULL, IN_CSV | IN_LINES, 0, FIELD(profile_row, WHOLE, steps)},
	{"policy", NULL, IN_CSV, 0, FIELD(profile_row, TEXT, policy)},
	{"policy", NULL, IN_JSON | IN_TABLE, POLICY, FIELD(profile_row, TEXT, policy)},
	{"name", NULL, IN_LINES, POLICY, FIELD(profile_row, TEXT, policy)},
	{"evaluations", NULL, IN_ALL, POLICY, FIELD(profile_row, WHOLE, evaluations)},
	{"forward_ms", "forward ms", IN_ALL, DEPTH, FIELD(profile_row, NUMBER, forward.middle), "%.3f", true},
	{"backward_ms", "backward ms", IN_ALL, DEPTH, FIELD(profile_row, NUMBER, backward.middle), "%.3f", true, "-"},
	{"ratio", NULL, IN_TABLE, DEPTH, FIELD(profile_row, NUMBER, ratio), "%.2f", .unknown = "-"},
	{"peak_bytes", "peak bytes", IN_ALL, 0, FIELD(profile_row, WHOLE, peak_bytes)},
	{"bytes_per_step", "bytes/step", IN_ALL, DEPTH, FIELD(profile_row, NUMBER, bytes_per_step), "%.0f", true},
	{"steps_per_second", "steps/s", IN_ALL, DEPTH, FIELD(profile_row, NUMBER, steps_per_second), "%.0f", true},
	{"memory_reduction_percent", "reduction %", IN_ALL, POLICY, FIELD(profile_row, NUMBER, reduction), "%.1f", true},
	{"predicted_overhead_percent", "predicted overhead %", IN_ALL, POLICY,
     FIELD(profile_row, NUMBER, predicted_overhead), "%.1f", true},
	{"measured_overhead_percent", "measured overhead %", IN_ALL, POLICY, FIELD(profile_row, NUMBER, measured_overhead),
     "%.1f", true},
	{"ms", NULL, IN_ALL, POLICY, FIELD(profile_row, NUMBER, gradient.middle), "%.3f", true},
	{"spread_percent", "spread %", IN_TABLE, 0, FIELD(profile_row, NUMBER, spread_percent), "%.0f"},
	{"forward_ms_low", NULL, MEASURED, DEPTH, FIELD(profile_row, NUMBER, forward.low), "%.3f", true},
	{"forward_ms_high", NULL, MEASURED, DEPTH, FIELD(profile_row, NUMBER, forward.high), "%.3f", true},
	{"backward_ms_low", NULL, MEASURED, DEPTH, FIELD(profile_row, NUMBER, backward.low), "%.3f", true},
	{"backward_ms_high", NULL, MEASURED, DEPTH, FIELD(profile_row, NUMBER, backward.high), "%.3f", true},
	{"ms_low", NULL, MEASURED, POLICY, FIELD(profile_row, NUMBER, gradient.low), "%.3f", true},
	{"ms_high", NULL, MEASURED, POLICY, FIELD(profile_row, NUMBER, gradient.high), "%.3f", true},
	{"runs", NULL, IN_ALL, 0, FIELD(profile_row, WHOLE, runs)},
	{"page_faults", NULL, IN_JSON | IN_CSV | IN_LINES, 0, FIELD(profile_row, WHOLE, page_faults)},
};
static const struct record_kind depth_kind = RECORD_KIND("depth", row_fields, NULL);
static const struct record_kind policy_kind = RECORD_KIND("intervals", row_fields, NULL);

static const struct field growth_fields[] = {
	{"what", NULL, IN_JSON, 0, FIELD(profile_growth, TEXT, what)},
	{"power", NULL, IN_JSON, 0, FIELD(profile_growth, NUMBER, power), NULL, true},
	{"r2", NULL, IN_JSON, 0, FIELD(profile_growth, NUMBER, r2), NULL, true},
};

static void put_growth(const void *record, const struct text *text)
{
	const struct profile_growth *growth = record;
	if (!isnan(growth->power))
		text_printf(text, "%s grows as depth to the power %.2f (R2 %.3f)\n", growth->what, growth->power, growth->r2);
	else if (!isnan(growth->r2))
		text_printf(text, "%s grows as no power of depth (R2 %.3f)\n", growth->what, growth->r2);
	else
		text_printf(text, "%s: too few depths to tell how it grows\n", growth->what);
}

static const struct record_kind growth_kind = RECORD_KIND("growth", growth_fields, put_growth);

void report_profile(struct report *report, const struct profile_report *profile)
{
	const struct profile_verdict *verdict = &profile->verdict;
	const char *const rows[][2] = {
		{"bottleneck", verdict->bottleneck}, {"evidence", verdict->evidence}, {"advice", verdict->advice}};
	struct records records;
	const char *const blank = report->format == REPORT_TABLE ? "\n" : "";
	const bool csv = report->format == REPORT_CSV; /* one table for depths and policies */
	records_begin(&records, report, &depth_kind, csv ? DEPTH | POLICY : DEPTH);
	for (size_t i = 0; i < profile->depth_count; i++)
		records_put(&records, &profile->depths[i], DEPTH);
	if (!csv) {
		records_end(&records);
		text_put(report->text, blank);
		records_begin(&records, report, &growth_kind, 0);
		for (size_t i = 0; i < profile->growth_count; i++)
			records_put(&records, &profile->growth[i], 0);
		records_end(&records);
		text_put(report->text, blank);
		records_begin(&records, report, &policy_kind, POLICY);
	}
	for (size_t i = 0; i < profile->policy_count; i++)
		records_put(&records, &profile->policies[i], POLICY);
	records_end(&records);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		report_text(report, rows[i][0], rows[i][1]);
		if (report->format == REPORT_LINES)
			text_printf(report->text, "%s %s\n", rows[i][0], rows[i][1]);
	}
	if (report->format == REPORT_HTML)
		text_printf(report->text, "<p>bounded by: %s (%s)<br>to do: %s</p>\n", verdict->bottleneck, verdict->evidence,
		            verdict->advice);
	if (report->format == REPORT_TABLE)
		text_printf(report->text, "\nbounded by: %s (%s)\nto do: %s\n", verdict->bottleneck, verdict->evidence,
		            verdict->advice);
}
