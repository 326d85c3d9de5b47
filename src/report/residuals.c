/* Rows of the residual report in its four formats. */
#include "report/residuals.h"

#include <stdio.h>
#include <string.h>

/* Sum of the rows' bytes. */
static int64_t residuals_total(const struct held_list *list)
{
	int64_t total = 0;
	for (size_t i = 0; i < list->count; i++)
		total += list->rows[i].bytes;
	return total;
}

static const char *argument_name(const struct chain *chain, const struct held *row)
{
	return row->origin.param == NO_VALUE ? chain->input : chain->params[row->origin.param].name;
}

/* "from the argument W1", "named 'a' from f.ck:4:10", "output of sin from f.ck:6:9 (g)". */
const char *residual_describe(const struct chain *chain, const struct held *row, struct arena *arena)
{
	const struct origin *o = &row->origin;
	const struct naming *named = o->shown;
	if (o->argument && !named)
		return arena_printf(arena, "from the argument %s", argument_name(chain, row));
	const struct span *span = named ? &named->span : &o->span;
	const char *def = named ? named->def : o->def;
	const char *what =
		named ? arena_printf(arena, "named '%s'", named->name) : arena_printf(arena, "output of %s", o->op);
	return arena_printf(arena, "%s from %s:%u:%u%s%s%s", what ? what : "", chain->source->name, span->line,
	                    span->column, def ? " (" : "", def ? def : "", def ? ")" : "");
}

static void json_row(const struct chain *chain, const struct held *row, const struct text *text)
{
	const struct origin *o = &row->origin;
	char type[TYPE_TEXT];
	const struct naming *named = o->shown;
	const char *name = named ? named->name : o->argument ? argument_name(chain, row) : NULL;
	const struct span *span = named ? &named->span : &o->span;
	text_put(text, "{\"type\":");
	text_json(text, type_format(row->type, type));
	text_put(text, ",\"dtype\":");
	text_json(text, dtype_name(row->type->dtype));
	text_put(text, ",\"shape\":[");
	for (int i = 0; i < row->type->shape.ndim; i++)
		text_printf(text, "%s%lld", i ? "," : "", (long long)row->type->shape.dim[i]);
	text_printf(text, "],\"bytes\":%lld,\"kind\":\"%s\",\"name\":", (long long)row->bytes,
	            named         ? "named"
	            : o->argument ? "argument"
	                          : "output");
	text_json(text, name);
	text_put(text, ",\"op\":");
	text_json(text, o->op);
	if (o->argument && !named) {
		text_put(text, ",\"file\":null,\"line\":null,\"column\":null");
	} else {
		text_put(text, ",\"file\":");
		text_json(text, chain->source->name);
		text_printf(text, ",\"line\":%u,\"column\":%u", span->line, span->column);
	}
	text_put(text, ",\"def\":");
	text_json(text, named ? named->def : o->def);
	text_put(text, ",\"used_by\":[");
	for (size_t i = 0; i < row->used_by_count; i++) {
		text_put(text, i ? "," : "");
		text_json(text, row->used_by[i]);
	}
	text_put(text, "]}");
}

static const char *join_users(const struct held *row, struct arena *arena)
{
	const char *joined = "";
	for (size_t i = 0; joined && i < row->used_by_count && i < 4; i++)
		joined = arena_printf(arena, "%s%s%s", joined, i ? ", " : "", row->used_by[i]);
	if (joined && row->used_by_count > 4)
		joined = arena_printf(arena, "%s, ...", joined);
	return joined;
}

static enum status table(const struct chain *chain, const struct held_list *list, bool csv, const struct text *text,
                         struct arena *arena, struct diags *diags)
{
	enum { COLUMNS = 5 };
	int64_t total = residuals_total(list);
	size_t rows = list->count + 1;
	const char **cells = arena_array(arena, (rows + 1) * COLUMNS, sizeof *cells);
	if (!cells)
		return diag_memory(diags);
	static const char *const heads[COLUMNS] = {"type", "bytes", "share", "residual", "used by"};
	memcpy(cells, heads, sizeof heads);
	for (size_t i = 0; i < list->count; i++) {
		const struct held *row = &list->rows[i];
		const char **cell = cells + (i + 1) * COLUMNS;
		char type[TYPE_TEXT];
		cell[0] = arena_printf(arena, "%s", type_format(row->type, type));
		cell[1] = arena_printf(arena, "%lld", (long long)row->bytes);
		cell[2] = arena_printf(arena, "%.1f%%", total ? 100.0 * (double)row->bytes / (double)total : 0.0);
		cell[3] = residual_describe(chain, row, arena);
		cell[4] = join_users(row, arena);
	}
	const char **last = cells + rows * COLUMNS;
	last[0] = "total";
	last[1] = arena_printf(arena, "%lld", (long long)total);
	last[2] = list->count ? "100.0%" : "";
	last[3] = arena_printf(arena, "%zu residual%s", list->count, list->count == 1 ? "" : "s");
	last[4] = "";
	if (arena->failed)
		return diag_memory(diags);
	if (!csv) {
		text_table(text, cells, rows + 1, COLUMNS, 0x6);
		return STATUS_OK;
	}
	for (size_t i = 0; i < rows; i++)
		for (size_t c = 0; c < COLUMNS; c++) {
			text_csv(text, cells[i * COLUMNS + c]);
			text_put(text, c + 1 == COLUMNS ? "\n" : ",");
		}
	return STATUS_OK;
}

enum status report_residuals(const struct chain *chain, const struct held_list *list, enum report_format format,
                             const struct text *text, struct arena *arena, struct diags *diags)
{
	char type[TYPE_TEXT];
	switch (format) {
	case REPORT_TABLE:
	case REPORT_CSV:
		return table(chain, list, format == REPORT_CSV, text, arena, diags);
	case REPORT_LINES:
		for (size_t i = 0; i < list->count; i++) {
			const char *line = residual_describe(chain, &list->rows[i], arena);
			if (!line)
				return diag_memory(diags);
			text_put(text, type_format(list->rows[i].type, type));
			text_put(text, " ");
			diag_escape(line, text->write, text->context);
			text_put(text, "\n");
		}
		return STATUS_OK;
	case REPORT_JSON:
		text_put(text, "{\"residuals\":[");
		for (size_t i = 0; i < list->count; i++) {
			text_put(text, i ? "," : "");
			json_row(chain, &list->rows[i], text);
		}
		text_printf(text, "],\"total_bytes\":%lld}\n", (long long)residuals_total(list));
		return STATUS_OK;
	}
	return STATUS_OK;
}
