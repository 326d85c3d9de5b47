/* Tests: tests/unit/test_profile.c, tests/cases/profile.test, tests/cases/cli.test */
#include "report/profile.h"

#include <math.h>
#include <stdio.h>

/* In tables, a policy may have a mark (MARKED), and rows may have tiles (TILED). */
enum { DEPTH = 1, POLICY = 2, MARKED = 4, TILED = 8 };
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
	{"tile_rows", NULL, IN_JSON | IN_CSV | IN_LINES, 0, FIELD(profile_row, WHOLE, tile_rows)},
	{"tile_rows", "tile rows", IN_TABLE, TILED, FIELD(profile_row, WHOLE, tile_rows), .unknown = "-"},
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
	{"mark", NULL, IN_LINES | IN_CSV, POLICY, FIELD(profile_row, TEXT, mark)},
	{"runs", NULL, IN_ALL, 0, FIELD(profile_row, WHOLE, runs)},
	{"page_faults", NULL, IN_JSON | IN_CSV | IN_LINES, 0, FIELD(profile_row, WHOLE, page_faults)},
	{"mark", "", IN_TABLE, MARKED, FIELD(profile_row, TEXT, mark)},
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
	if (isnan(growth->r2))
		text_printf(text, "%s: too few depths to tell how it grows\n", growth->what);
	else if (isnan(growth->power))
		text_printf(text, "%s follows no power of depth (R2 %.3f)\n", growth->what, growth->r2);
	else if (growth->power > 0 || growth->power < 0)
		text_printf(text, "%s %s as depth to the power %.2f (R2 %.3f)\n", growth->what,
		            growth->power > 0 ? "grows" : "falls", growth->power, growth->r2);
	else
		text_printf(text, "%s does not depend on depth\n", growth->what);
}

struct profile_growth profile_fit(const char *what, const double *steps, const double *figures, size_t count)
{
	enum { LEAST_DEPTHS = 3 };
	/* The least R2 of a fit. A figure that changes by less than STILL, while depth grows by WIDE, does not depend on it. */
	static const double good = 0.9, still = 1.2, wide = 2;
	double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
	double shortest = HUGE_VAL, deepest = 0, least = HUGE_VAL, most = 0;
	for (size_t i = 0; i < count; i++) {
		if (!(figures[i] > 0) || steps[i] < 1)
			continue;
		const double x = log(steps[i]), y = log(figures[i]);
		n++;
		sx += x;
		sy += y;
		sxx += x * x;
		sxy += x * y;
		syy += y * y;
		shortest = fmin(shortest, steps[i]);
		deepest = fmax(deepest, steps[i]);
		least = fmin(least, figures[i]);
		most = fmax(most, figures[i]);
	}
	const double xx = n * sxx - sx * sx, xy = n * sxy - sx * sy, yy = n * syy - sy * sy;
	struct profile_growth growth = {what, (double)NAN, (double)NAN};
	if (n < LEAST_DEPTHS || xx < 1e-12)
		return growth;
	growth.r2 = yy < 1e-12 ? 1 : xy * xy / (xx * yy); /* a constant fits the power 0 */
	if (most <= still * least && deepest >= wide * shortest)
		growth.power = 0;
	else if (growth.r2 >= good)
		growth.power = xy / xx;
	return growth;
}

/* Returns the interval that has a mark; NULL if none has. */
static const struct profile_row *marked_interval(const struct profile_report *profile)
{
	for (size_t i = 0; i < profile->interval_count; i++)
		if (profile->policies[i].mark)
			return &profile->policies[i];
	return NULL;
}

/* Writes what ROW saves and costs. */
static const char *bargain_of(const struct profile_row *row, struct arena *arena)
{
	char measured[48] = "no measurable time";
	if (row->measured_overhead > 0)
		snprintf(measured, sizeof measured, "%.1f%% more time", row->measured_overhead);
	return arena_printf(arena, "%s saves %.1f%% of the peak and costs %s (predicted %.1f%%)", row->policy,
	                    row->reduction, measured, row->predicted_overhead);
}

/* Says which interval is the best, or why none is. Returns NULL if memory is short. */
static const char *describe_best(const struct profile_report *profile, struct arena *arena)
{
	const struct profile_row *best = marked_interval(profile);
	if (profile->interval_count == 0)
		return "none: the chain has no steps";
	if (best)
		return bargain_of(best, arena);
	for (size_t i = 0; i < profile->interval_count; i++)
		if (profile->policies[i].reduction > (best ? best->reduction : 0))
			best = &profile->policies[i];
	if (!best)
		return "none: nothing saves memory here";
	const char *bargain = bargain_of(best, arena);
	return bargain ? arena_printf(arena, "none is worth its time: at most, %s", bargain) : NULL;
}

static const struct record_kind growth_kind = RECORD_KIND("growth", growth_fields, put_growth);

/* Returns TILED if the tiles of the measured runs differ, else 0: only then do their rows explain figures. */
static unsigned tiled_of(const struct profile_report *profile)
{
	const int64_t rows = profile->depth_count ? profile->depths[0].tile_rows : NO_WHOLE;
	for (size_t i = 0; i < profile->depth_count; i++)
		if (profile->depths[i].tile_rows != rows)
			return TILED;
	for (size_t i = 0; i < profile->policy_count; i++)
		if (profile->policies[i].tile_rows != rows)
			return TILED;
	return 0;
}

static void put_depths(struct report *report, const struct profile_report *profile)
{
	struct records records;
	const unsigned groups = DEPTH | tiled_of(profile);
	records_begin(&records, report, &depth_kind, groups);
	for (size_t i = 0; i < profile->depth_count; i++)
		records_put(&records, &profile->depths[i], groups);
	records_end(&records);
	text_put(report->text, report->format == REPORT_TABLE ? "\n" : "");
	records_begin(&records, report, &growth_kind, 0);
	for (size_t i = 0; i < profile->growth_count; i++)
		records_put(&records, &profile->growth[i], 0);
	records_end(&records);
}

/* Writes the policies; in CSV, the depths before them, in one table. */
static void put_policies(struct report *report, const struct profile_report *profile, unsigned groups)
{
	struct records records;
	const bool csv = report->format == REPORT_CSV;
	groups |= tiled_of(profile);
	text_put(report->text, report->format == REPORT_TABLE ? "\n" : "");
	records_begin(&records, report, csv ? &depth_kind : &policy_kind, groups);
	for (size_t i = 0; i < profile->depth_count && csv; i++)
		records_put(&records, &profile->depths[i], DEPTH);
	for (size_t i = 0; i < profile->policy_count; i++)
		records_put(&records, &profile->policies[i], groups & ~(unsigned)DEPTH);
	records_end(&records);
}

void report_profile(struct report *report, const struct profile_report *profile)
{
	const struct profile_verdict *verdict = &profile->verdict;
	const struct profile_row *marked = marked_interval(profile);
	const char *best = describe_best(profile, report->arena);
	const char *const rows[][2] = {{"best_interval", marked ? marked->policy : NULL},
	                               {"bottleneck", verdict->bottleneck},
	                               {"evidence", verdict->evidence},
	                               {"advice", verdict->advice}};
	const bool csv = report->format == REPORT_CSV;
	if (!csv)
		put_depths(report, profile);
	if (profile->policy_count || csv || report->format == REPORT_JSON)
		put_policies(report, profile, POLICY | (csv ? DEPTH : 0) | (marked ? MARKED : 0));
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		report_text(report, rows[i][0], rows[i][1]);
		if (report->format == REPORT_LINES && rows[i][1])
			text_printf(report->text, "%s %s\n", rows[i][0], rows[i][1]);
	}
	best = best ? best : "";
	if (report->format == REPORT_HTML)
		text_printf(report->text, "<p>best interval: %s<br/>bounded by: %s (%s)<br/>to do: %s</p>\n", best,
		            verdict->bottleneck, verdict->evidence, verdict->advice);
	if (report->format == REPORT_TABLE)
		text_printf(report->text, "\nbest interval: %s\nbounded by: %s (%s)\nto do: %s\n", best, verdict->bottleneck,
		            verdict->evidence, verdict->advice);
}
