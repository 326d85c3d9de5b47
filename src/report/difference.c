/*
 * Compares what two policies hold when the first sweep ends. The two lists are sorted alike and compared as multisets.
 * Arrays that differ only in their step are reported in one row, with ranges of steps.
 * Tests: tests/cases/plan.test
 */
#include "report/counters.h"

#include <stdlib.h>
#include <string.h>

static int compare_texts(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : ""); }

static int compare_alike(const struct kept *a, const struct kept *b)
{
	int order = compare_texts(a->what, b->what);
	order = order ? order : compare_texts(a->type, b->type);
	return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int compare_kept(const void *left, const void *right)
{
	const struct kept *a = left, *b = right;
	int order = compare_alike(a, b);
	return order ? order : (a->step > b->step) - (a->step < b->step);
}

/* Removes from P and Q, which are sorted, the arrays that both hold. */
static void keep_different(struct kept_list *p, struct kept_list *q)
{
	size_t i = 0, k = 0, p_only = 0, q_only = 0;
	while (i < p->count || k < q->count) {
		const int order = i == p->count ? 1 : k == q->count ? -1 : compare_kept(&p->rows[i], &q->rows[k]);
		if (order < 0)
			p->rows[p_only++] = p->rows[i];
		else if (order > 0)
			q->rows[q_only++] = q->rows[k];
		i += order <= 0;
		k += order >= 0;
	}
	p->count = p_only;
	q->count = q_only;
}

/* Returns the steps of sorted ROWS as "0 to 3, 8"; "" if they have none. Empties STEPS. NULL if memory is short. */
static const char *describe_steps(const struct kept *rows, size_t count, struct grown_text *steps)
{
	for (size_t i = 0, last; i < count; i = last + 1) {
		for (last = i; last + 1 < count && rows[last + 1].step <= rows[last].step + 1 && rows[i].step >= 0;)
			last++;
		if (rows[i].step < 0)
			continue;
		text_printf(&steps->text, "%s%lld", steps->used ? ", " : "", (long long)rows[i].step);
		if (rows[last].step != rows[i].step)
			text_printf(&steps->text, " to %lld", (long long)rows[last].step);
	}
	return text_grown(steps);
}

/* A row of the report: arrays that differ only in their step. */
struct difference_row {
	const char *policy; /* that keeps them */
	int64_t bytes, arrays;
	const char *type, *residual;
	const char *steps;  /* "0 to 3, 8"; NULL where there are none */
	const char *phrase; /* "steps 0 to 3, 8", or "" */
};

static const struct field difference_fields[] = {
	{"residual", NULL, IN_JSON, 0, FIELD(difference_row, TEXT, residual)},
	{"type", NULL, IN_JSON, 0, FIELD(difference_row, TEXT, type)},
	{"policy", NULL, IN_CSV, 0, FIELD(difference_row, TEXT, policy)},
	{"bytes", NULL, IN_JSON | IN_ROWS, 0, FIELD(difference_row, WHOLE, bytes)},
	{"arrays", NULL, IN_JSON | IN_ROWS, 0, FIELD(difference_row, WHOLE, arrays)},
	{"type", NULL, IN_ROWS, 0, FIELD(difference_row, TEXT, type)},
	{"residual", NULL, IN_ROWS, 0, FIELD(difference_row, TEXT, residual)},
	{"steps", NULL, IN_JSON | IN_CSV, 0, FIELD(difference_row, TEXT, steps)},
	{"", NULL, IN_TABLE, 0, FIELD(difference_row, TEXT, phrase)},
};

static void put_difference_line(const void *record, const struct text *text)
{
	const struct difference_row *row = record;
	text_printf(text, "%s keeps bytes=%lld arrays=%lld ", row->policy, (long long)row->bytes, (long long)row->arrays);
	text_printf(text, "%s%s%s%s%s\n", row->type ? row->type : "", row->type ? " " : "", row->residual,
	            *row->phrase ? ", " : "", row->phrase);
}

static const struct record_kind difference_kind = RECORD_KIND("only", difference_fields, put_difference_line);

static void put_groups(struct records *records, const struct kept_list *list)
{
	struct arena *arena = records->report->arena;
	struct grown_text grown;
	text_grow_in(&grown, arena);
	for (size_t i = 0, end; i < list->count && !arena->failed; i = end) {
		const struct kept *kept = &list->rows[i];
		for (end = i; end < list->count && compare_alike(kept, &list->rows[end]) == 0;)
			end++;
		const int64_t arrays = (int64_t)(end - i);
		const char *steps = describe_steps(kept, end - i, &grown);
		if (!steps)
			return;
		const char *word = strchr(steps, ' ') ? "steps" : "step";
		const struct difference_row row = {.policy = list->row.policy,
		                                   .bytes = arrays * kept->bytes,
		                                   .arrays = arrays,
		                                   .type = kept->type,
		                                   .residual = kept->what,
		                                   .steps = *steps ? steps : NULL,
		                                   .phrase = *steps ? arena_printf(arena, "%s %s", word, steps) : ""};
		if (row.phrase)
			records_put(records, &row, 0);
	}
}

static int64_t total_bytes(const struct kept_list *list)
{
	int64_t bytes = 0;
	for (size_t i = 0; i < list->count; i++)
		bytes += list->rows[i].bytes;
	return bytes;
}

/* Writes what only LIST holds: as a table, or in JSON with LIST's counters. OTHER is the policy of the other list. */
static void report_side(struct report *report, const struct kept_list *list, const char *other)
{
	const bool table = report->format == REPORT_TABLE;
	const int64_t bytes = total_bytes(list);
	struct records records;
	report_open(report, NULL, '{');
	report_text(report, "policy", list->row.policy);
	report_whole(report, "kept_bytes", list->total);
	report_whole(report, "only_bytes", bytes);
	if (table) {
		text_printf(report->text, "Kept by %s, recomputed by %s: ", list->row.policy, other);
		text_printf(report->text, list->count ? "%lld bytes\n" : "nothing\n", (long long)bytes);
	} else {
		report_row(report, "counters", &list->row);
	}
	if (!table || list->count) {
		records_begin(&records, report, &difference_kind, 0);
		put_groups(&records, list);
		records_end(&records);
	}
	text_put(report->text, table ? "\n" : "");
	report_close(report, '}');
}

/* Writes a table of the figures of both policies, with a column for each policy. */
static void put_both_figures(struct report *report, const struct kept_list lists[2])
{
	static const char *const names[] = {"kept bytes", "peak bytes", "evaluations", "checkpoints", "overhead %"};
	enum { FIGURES = sizeof names / sizeof *names, COLUMNS = 3 };
	const char *cells[(FIGURES + 1) * COLUMNS] = {"", lists[0].row.policy, lists[1].row.policy};
	for (int i = 0; i < FIGURES; i++)
		cells[COLUMNS * (i + 1)] = names[i];
	for (int k = 0; k < 2; k++) {
		const struct counters *c = &lists[k].row.counters;
		const int64_t figures[] = {lists[k].total, c->peak_bytes, c->evaluations, c->checkpoints};
		for (int i = 0; i < FIGURES - 1; i++)
			cells[COLUMNS * (i + 1) + 1 + k] = arena_printf(report->arena, "%lld", (long long)figures[i]);
		cells[COLUMNS * FIGURES + 1 + k] = arena_printf(report->arena, "%.1f", row_overhead(&lists[k].row));
	}
	if (!report->arena->failed)
		text_table(report->text, cells, FIGURES + 1, COLUMNS, 0x6);
}

void report_difference(struct report *report, struct kept_list lists[2])
{
	struct records records;
	for (int s = 0; s < 2; s++) {
		lists[s].total = total_bytes(&lists[s]);
		if (lists[s].count)
			qsort(lists[s].rows, lists[s].count, sizeof *lists[s].rows, compare_kept);
	}
	keep_different(&lists[0], &lists[1]);
	if (report->format == REPORT_CSV || report->format == REPORT_LINES) {
		records_begin(&records, report, &difference_kind, 0);
		put_groups(&records, &lists[0]);
		put_groups(&records, &lists[1]);
		records_end(&records);
		return;
	}
	report_open(report, "diff", '[');
	report_side(report, &lists[0], lists[1].row.policy);
	report_side(report, &lists[1], lists[0].row.policy);
	report_close(report, ']');
	if (report->format == REPORT_TABLE) {
		put_both_figures(report, lists);
		report_costs(report, &lists[0].row);
	}
}
