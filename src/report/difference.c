/*
 * Compares what two policies hold when the first sweep ends. The lists are sorted in one order and merged as multisets.
 * Arrays that differ in their step alone are one line, with ranges of steps.
 */
#include "report/difference.h"

#include <stdio.h>
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

/* Arrays that differ in their step alone. */
struct group {
	const struct kept *kept;
	int64_t count, bytes;
	char *steps; /* "0 to 3, 8", or "" */
	size_t used, room;
};

struct side {
	struct group *groups;
	size_t count, capacity;
	int64_t bytes;
	int64_t first, last; /* the range that is open */
};

/* Ranges may be as many as steps. */
static void add_range(struct group *g, const char *range, struct arena *arena)
{
	const size_t length = strlen(range);
	if (g->used + length >= g->room) {
		const size_t room = 2 * (g->used + length + 1);
		char *grown = arena_alloc(arena, room);
		if (!grown)
			return;
		memcpy(grown, g->steps, g->used + 1);
		g->steps = grown;
		g->room = room;
	}
	memcpy(g->steps + g->used, range, length + 1);
	g->used += length;
}

static void close_range(struct side *side, struct arena *arena)
{
	struct group *g = &side->groups[side->count - 1];
	char range[64];
	if (side->first < 0)
		return;
	int n = snprintf(range, sizeof range, "%s%lld", g->used ? ", " : "", (long long)side->first);
	if (side->first != side->last)
		snprintf(range + n, sizeof range - (size_t)n, " to %lld", (long long)side->last);
	add_range(g, range, arena);
	side->first = -1;
}

static bool add_kept(struct side *side, const struct kept *kept, struct arena *arena)
{
	if (!side->count || compare_alike(side->groups[side->count - 1].kept, kept) != 0) {
		if (side->count)
			close_range(side, arena);
		struct group *grown = arena_grow(arena, side->groups, side->count, &side->capacity, sizeof *grown);
		if (!grown)
			return false;
		side->groups = grown;
		grown[side->count++] = (struct group){.kept = kept, .steps = arena_alloc(arena, 1), .room = 1};
		if (!grown[side->count - 1].steps)
			return false;
		side->first = -1;
	} else if (kept->step != side->last && kept->step != side->last + 1) {
		close_range(side, arena);
	}
	side->first = side->first < 0 ? kept->step : side->first;
	side->last = kept->step;
	side->groups[side->count - 1].count++;
	side->groups[side->count - 1].bytes += kept->bytes;
	side->bytes += kept->bytes;
	return true;
}

static bool split_lists(const struct kept_list lists[2], struct side sides[2], struct arena *arena)
{
	size_t i = 0, k = 0;
	const struct kept_list *p = &lists[0], *q = &lists[1];
	while (i < p->count || k < q->count) {
		int order = i == p->count ? 1 : k == q->count ? -1 : compare_kept(&p->rows[i], &q->rows[k]);
		bool good = order == 0 || add_kept(&sides[order > 0], order > 0 ? &q->rows[k] : &p->rows[i], arena);
		if (!good)
			return false;
		i += order <= 0;
		k += order >= 0;
	}
	for (int s = 0; s < 2; s++)
		if (sides[s].count)
			close_range(&sides[s], arena);
	return !arena->failed;
}

/* A group as it is reported. */
struct difference_row {
	const char *policy; /* that keeps it */
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

static bool put_groups(struct records *records, const char *policy, const struct side *side, struct arena *arena)
{
	for (size_t i = 0; i < side->count; i++) {
		const struct group *g = &side->groups[i];
		const char *word = strchr(g->steps, ' ') ? "steps" : "step";
		const struct difference_row row = {.policy = policy,
		                                   .bytes = g->bytes,
		                                   .arrays = g->count,
		                                   .type = g->kept->type,
		                                   .residual = g->kept->what,
		                                   .steps = *g->steps ? g->steps : NULL,
		                                   .phrase = *g->steps ? arena_printf(arena, "%s %s", word, g->steps) : ""};
		if (!row.phrase)
			return false;
		records_put(records, &row, 0);
	}
	return true;
}

/* In JSON and as tables each side stands alone. */
static enum status report_side(struct report *report, const struct kept_list lists[2], const struct side sides[2],
                               int s)
{
	const struct side *side = &sides[s];
	const struct policy_row *row = &lists[s].row;
	const bool table = report->format == REPORT_TABLE;
	struct records records;
	report_open(report, NULL, '{');
	report_text(report, "policy", row->policy);
	report_whole(report, "kept_bytes", lists[s].total);
	report_whole(report, "only_bytes", side->bytes);
	if (table) {
		text_printf(report->text, "Kept by %s, recomputed by %s: ", row->policy, lists[!s].row.policy);
		text_printf(report->text, side->count ? "%lld bytes\n" : "nothing\n", (long long)side->bytes);
	} else {
		report_row(report, "counters", row);
	}
	if (table && !side->count) {
		text_put(report->text, "\n");
		return STATUS_OK;
	}
	records_begin(&records, report, &difference_kind, 0);
	TRY_ALLOC(put_groups(&records, row->policy, side, report->arena), report->diags);
	const enum status status = records_end(&records);
	text_put(report->text, table ? "\n" : "");
	report_close(report, '}');
	return status;
}

/* Figures of both policies, in a column each. */
static enum status put_both_figures(struct report *report, const struct kept_list lists[2])
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
	if (report->arena->failed)
		return diag_memory(report->diags);
	text_table(report->text, cells, FIGURES + 1, COLUMNS, 0x6);
	return STATUS_OK;
}

static enum status report_sides(struct report *report, const struct kept_list lists[2], const struct side sides[2])
{
	struct records records;
	enum status status = STATUS_OK;
	if (report->format == REPORT_CSV || report->format == REPORT_LINES) {
		records_begin(&records, report, &difference_kind, 0);
		for (int s = 0; s < 2; s++)
			TRY_ALLOC(put_groups(&records, lists[s].row.policy, &sides[s], report->arena), report->diags);
		return records_end(&records);
	}
	report_open(report, NULL, '{');
	report_open(report, "diff", '[');
	for (int s = 0; s < 2 && !status; s++)
		status = report_side(report, lists, sides, s);
	report_close(report, ']');
	report_close(report, '}');
	return status || report->format == REPORT_JSON ? status : put_both_figures(report, lists);
}

enum status report_difference(struct report *report, struct kept_list lists[2])
{
	struct side sides[2] = {{.first = -1}, {.first = -1}};
	for (int s = 0; s < 2; s++) {
		lists[s].total = 0;
		for (size_t i = 0; i < lists[s].count; i++)
			lists[s].total += lists[s].rows[i].bytes;
		if (lists[s].count)
			qsort(lists[s].rows, lists[s].count, sizeof *lists[s].rows, compare_kept);
	}
	TRY_ALLOC(split_lists(lists, sides, report->arena), report->diags);
	return report_sides(report, lists, sides);
}
