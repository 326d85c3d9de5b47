/*
 * Two policies compared by what they hold when the first sweep ends. Both lists
 * are sorted alike and merged as multisets; what differs in its step alone is
 * said in one line, with its steps as ranges.
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

/* Several of one kind. */
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

static bool split(const struct kept_list lists[2], struct side sides[2], struct arena *arena)
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

static const char *steps_text(const struct group *g, struct arena *arena)
{
	bool several = strchr(g->steps, ' ') != NULL;
	return *g->steps ? arena_printf(arena, "%s %s", several ? "steps" : "step", g->steps) : "";
}

static enum status table(const struct kept_list lists[2], const struct side sides[2], const struct text *text,
                         struct arena *arena, struct diags *diags)
{
	enum { COLUMNS = 5 };
	static const char *const heads[COLUMNS] = {"bytes", "arrays", "type", "residual", ""};
	for (int s = 0; s < 2; s++) {
		const struct side *side = &sides[s];
		text_printf(text, "Kept by %s, recomputed by %s: ", lists[s].row.policy, lists[!s].row.policy);
		text_printf(text, side->count ? "%lld bytes\n" : "nothing\n", (long long)side->bytes);
		const char **cells = arena_array(arena, (side->count + 1) * COLUMNS, sizeof *cells);
		if (!cells)
			return diag_memory(diags);
		memcpy(cells, heads, sizeof heads);
		for (size_t i = 0; i < side->count; i++) {
			const struct group *g = &side->groups[i];
			const char **cell = cells + (i + 1) * COLUMNS;
			cell[0] = arena_printf(arena, "%lld", (long long)g->bytes);
			cell[1] = arena_printf(arena, "%lld", (long long)g->count);
			cell[2] = g->kept->type ? g->kept->type : "";
			cell[3] = g->kept->what;
			cell[4] = steps_text(g, arena);
		}
		if (arena->failed)
			return diag_memory(diags);
		if (side->count)
			text_table(text, cells, side->count + 1, COLUMNS, 0x3);
		text_put(text, "\n");
	}
	const struct policy_row *p = &lists[0].row, *q = &lists[1].row;
	const struct {
		const char *name;
		int64_t p, q;
	} figures[] = {{"kept bytes", lists[0].total, lists[1].total},
	               {"peak bytes", p->counters.peak_bytes, q->counters.peak_bytes},
	               {"evaluations", p->counters.evaluations, q->counters.evaluations},
	               {"checkpoints", p->counters.checkpoints, q->counters.checkpoints}};
	enum { FIGURES = sizeof figures / sizeof *figures };
	const char *cells[(FIGURES + 2) * 3] = {"", p->policy, q->policy};
	for (size_t i = 0; i < FIGURES; i++) {
		cells[3 * (i + 1)] = figures[i].name;
		cells[3 * (i + 1) + 1] = arena_printf(arena, "%lld", (long long)figures[i].p);
		cells[3 * (i + 1) + 2] = arena_printf(arena, "%lld", (long long)figures[i].q);
	}
	cells[3 * (FIGURES + 1)] = "overhead %";
	cells[3 * (FIGURES + 1) + 1] = arena_printf(arena, "%.1f", row_overhead(p));
	cells[3 * (FIGURES + 1) + 2] = arena_printf(arena, "%.1f", row_overhead(q));
	if (arena->failed)
		return diag_memory(diags);
	text_table(text, cells, FIGURES + 2, 3, 0x6);
	return STATUS_OK;
}

static void json(const struct kept_list lists[2], const struct side sides[2], const struct text *text)
{
	text_put(text, "{\"diff\":[");
	for (int s = 0; s < 2; s++) {
		text_printf(text, "%s{\"policy\":", s ? "," : "");
		text_json(text, lists[s].row.policy);
		text_printf(text, ",\"kept_bytes\":%lld,\"only_bytes\":%lld,\"counters\":", (long long)lists[s].total,
		            (long long)sides[s].bytes);
		report_row_json(&lists[s].row, text);
		text_put(text, ",\"only\":[");
		for (size_t i = 0; i < sides[s].count; i++) {
			const struct group *g = &sides[s].groups[i];
			text_printf(text, "%s{\"residual\":", i ? "," : "");
			text_json(text, g->kept->what);
			text_put(text, ",\"type\":");
			text_json(text, g->kept->type);
			text_printf(text, ",\"bytes\":%lld,\"arrays\":%lld,\"steps\":", (long long)g->bytes, (long long)g->count);
			text_json(text, *g->steps ? g->steps : NULL);
			text_put(text, "}");
		}
		text_put(text, "]}");
	}
	text_put(text, "]}\n");
}

/* A line each: the policy that keeps it first. */
static enum status lines(const struct kept_list lists[2], const struct side sides[2], bool csv, const struct text *text,
                         struct arena *arena, struct diags *diags)
{
	text_put(text, csv ? "policy,bytes,arrays,type,residual,steps\n" : "");
	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < sides[s].count; i++) {
			const struct group *g = &sides[s].groups[i];
			const char *steps = steps_text(g, arena);
			if (!steps)
				return diag_memory(diags);
			if (csv) {
				text_csv(text, lists[s].row.policy);
				text_printf(text, ",%lld,%lld,", (long long)g->bytes, (long long)g->count);
				text_csv(text, g->kept->type ? g->kept->type : "");
				text_put(text, ",");
				text_csv(text, g->kept->what);
				text_put(text, ",");
				text_csv(text, g->steps);
				text_put(text, "\n");
				continue;
			}
			text_printf(text, "%s keeps bytes=%lld arrays=%lld ", lists[s].row.policy, (long long)g->bytes,
			            (long long)g->count);
			text_printf(text, "%s%s%s%s%s\n", g->kept->type ? g->kept->type : "", g->kept->type ? " " : "",
			            g->kept->what, *steps ? ", " : "", steps);
		}
	return STATUS_OK;
}

enum status report_difference(struct kept_list lists[2], enum report_format format, const struct text *text,
                              struct arena *arena, struct diags *diags)
{
	struct side sides[2] = {{.first = -1}, {.first = -1}};
	for (int s = 0; s < 2; s++) {
		lists[s].total = 0;
		for (size_t i = 0; i < lists[s].count; i++)
			lists[s].total += lists[s].rows[i].bytes;
		if (lists[s].count)
			qsort(lists[s].rows, lists[s].count, sizeof *lists[s].rows, compare_kept);
	}
	if (!split(lists, sides, arena))
		return diag_memory(diags);
	if (format == REPORT_TABLE)
		return table(lists, sides, text, arena, diags);
	if (format != REPORT_JSON)
		return lines(lists, sides, format == REPORT_CSV, text, arena, diags);
	json(lists, sides, text);
	return STATUS_OK;
}
