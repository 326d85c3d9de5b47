/* Tests: tests/cases/policies.test */
#include <string.h>

#include "base/hash.h"
#include "report/counters.h"

#include <math.h>

/* A row of the report. */
struct residual_row {
	const char *text; /* of residual_describe */
	const char *type, *dtype, *kind, *name, *op, *file, *def;
	const char *users; /* the first four of USED_BY, then "..." if there are more */
	struct field_list shape, used_by;
	int64_t bytes, line, column;
	double share; /* of the bytes of all rows, in percent; of the total row, NAN if these are 0 */
};

static const struct field residual_fields[] = {
	{"type", NULL, IN_JSON | IN_ROWS, 0, FIELD(residual_row, TEXT, type)},
	{"dtype", NULL, IN_JSON, 0, FIELD(residual_row, TEXT, dtype)},
	{"shape", NULL, IN_JSON, 0, FIELD(residual_row, WHOLES, shape)},
	{"bytes", NULL, IN_JSON | IN_ROWS, 0, FIELD(residual_row, WHOLE, bytes)},
	{"share_percent", "share %", IN_ROWS, 0, FIELD(residual_row, NUMBER, share), "%.1f"},
	{"residual", NULL, IN_ROWS, 0, FIELD(residual_row, TEXT, text)},
	{"used by", NULL, IN_ROWS, 0, FIELD(residual_row, TEXT, users)},
	{"kind", NULL, IN_JSON, 0, FIELD(residual_row, TEXT, kind)},
	{"name", NULL, IN_JSON, 0, FIELD(residual_row, TEXT, name)},
	{"op", NULL, IN_JSON, 0, FIELD(residual_row, TEXT, op)},
	{"file", NULL, IN_JSON, 0, FIELD(residual_row, TEXT, file)},
	{"line", NULL, IN_JSON, 0, FIELD(residual_row, WHOLE, line)},
	{"column", NULL, IN_JSON, 0, FIELD(residual_row, WHOLE, column)},
	{"def", NULL, IN_JSON, 0, FIELD(residual_row, TEXT, def)},
	{"used_by", NULL, IN_JSON, 0, FIELD(residual_row, TEXTS, used_by)},
};

/* Writes a row as JAX's print_saved_residuals does. */
static void put_jax_line(const void *record, const struct text *text)
{
	const struct residual_row *row = record;
	text_printf(text, "%s ", row->type);
	diag_escape(row->text, text->write, text->context);
	text_put(text, "\n");
}

static const struct record_kind residual_kind = RECORD_KIND("residuals", residual_fields, put_jax_line);

static const char *join_users(const struct held *held, struct arena *arena)
{
	enum { MOST = 4 };
	const char *joined = "";
	for (size_t i = 0; joined && i < held->used_by.count && i < MOST; i++)
		joined = arena_printf(arena, "%s%s%s", joined, i ? ", " : "", held->used_by.names[i]);
	return joined && held->used_by.count > MOST ? arena_printf(arena, "%s, ...", joined) : joined;
}

/* Returns HELD's row without users, type and share. The text is as of residual_describe. */
static struct residual_row held_row(const struct chain *chain, const struct held *held, struct arena *arena)
{
	const struct origin *o = &held->origin;
	const struct naming *named = o->shown;
	const bool placed = named || !o->argument;
	const struct span *span = named ? &named->span : &o->span;
	struct residual_row row = {.dtype = dtype_name(held->type->dtype),
	                           .kind = named         ? "named"
	                                   : o->argument ? "argument"
	                                                 : "output",
	                           .name = named                  ? named->name
	                                   : !o->argument         ? NULL
	                                   : o->param == NO_VALUE ? chain->input
	                                                          : chain->params[o->param].name,
	                           .op = o->op,
	                           .file = placed ? chain->source->name : NULL,
	                           .line = placed ? (int64_t)span->line : NO_WHOLE,
	                           .column = placed ? (int64_t)span->column : NO_WHOLE,
	                           .def = named ? named->def : o->def,
	                           .shape = {held->type->shape.dim, (size_t)held->type->shape.ndim},
	                           .used_by = {held->used_by.names, held->used_by.count},
	                           .bytes = held->bytes};
	const char *before = named ? "named '" : "output of ", *word = named ? named->name : o->op;
	row.text = !placed ? arena_printf(arena, "from the argument %s", row.name)
	                   : arena_printf(arena, "%s%s%s from %s:%lld:%lld%s%s%s", before, word, named ? "'" : "", row.file,
	                                  (long long)row.line, (long long)row.column, row.def ? " (" : "",
	                                  row.def ? row.def : "", row.def ? ")" : "");
	return row;
}

const char *residual_describe(const struct chain *chain, const struct held *held, struct arena *arena)
{
	return held_row(chain, held, arena).text;
}

struct short_text {
	char text[2048]; /* an escaped byte takes four */
	size_t used;
};

static void keep_short(void *context, const char *text, size_t length)
{
	struct short_text *kept = context;
	memcpy(kept->text + kept->used, text, length);
	kept->used += length;
}

/* Returns TEXT as diag_escape_cell writes it. A name may have megabytes, and the table would repeat them as blanks. */
static const char *shortened(const char *text, struct arena *arena)
{
	struct short_text kept = {.used = 0};
	diag_escape_cell(text, keep_short, &kept);
	return arena_strndup(arena, kept.text, kept.used);
}

/* Rows of the table by group: rows that a reader could not tell apart, as those of a loop's iterations. */
struct groups {
	struct byte_set known;
	struct held *rows; /* the first of each group, with the bytes of all */
	int64_t *times;    /* number of rows of a group */
	size_t count;
	int64_t *key; /* scratch */
	size_t key_capacity;
};

/* Writes all that the row of HELD shows to GROUPS' key. Returns its length in bytes; 0 if out of memory. */
static size_t write_key(struct groups *groups, const struct held *held)
{
	const struct origin *o = &held->origin;
	const struct naming *named = o->shown;
	const struct span *span = named ? &named->span : &o->span;
	const struct shape *shape = &held->type->shape;
	const void *const names[] = {named ? named->name : NULL, named ? named->def : o->def, o->op};
	const size_t words = 8 + sizeof names / sizeof *names + (size_t)shape->ndim + held->used_by.count;
	size_t count = 0;
	if (words > groups->key_capacity) {
		groups->key = arena_array(groups->known.scratch, 2 * words, sizeof *groups->key);
		groups->key_capacity = groups->key ? 2 * words : 0;
	}
	int64_t *key = groups->key;
	if (!key)
		return 0;
	key[count++] = held->type->dtype;
	key[count++] = shape->ndim;
	for (int axis = 0; axis < shape->ndim; axis++)
		key[count++] = shape->dim[axis];
	key[count++] = held->bytes;
	key[count++] = o->argument;
	key[count++] = o->argument ? (int64_t)o->param : -1;
	key[count++] = (int64_t)span->line;
	key[count++] = (int64_t)span->column;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		key[count++] = (int64_t)(intptr_t)names[i];
	for (size_t i = 0; i < held->used_by.count; i++)
		key[count++] = (int64_t)(intptr_t)held->used_by.names[i];
	return count * sizeof *key;
}

/* Groups the rows of LIST, in the order of their first ones. Returns false if out of memory. */
static bool group_rows(struct groups *groups, const struct held_list *list, struct arena *arena)
{
	*groups = (struct groups){.known = {.kept = arena, .scratch = arena},
	                          .rows = arena_array(arena, list->count + 1, sizeof *groups->rows),
	                          .times = arena_array(arena, list->count + 1, sizeof *groups->times)};
	if (!groups->rows || !groups->times)
		return false;
	for (size_t i = 0; i < list->count; i++) {
		const size_t bytes = write_key(groups, &list->rows[i]);
		size_t at;
		if (!bytes || !byte_set_keep(&groups->known, groups->key, bytes, &at))
			return false;
		if (at == groups->count) {
			groups->rows[groups->count++] = list->rows[i];
		} else {
			groups->rows[at].bytes += list->rows[i].bytes;
		}
		groups->times[at]++;
	}
	return true;
}

static void put_row(struct records *records, const struct chain *chain, const struct held *held, int64_t times,
                    int64_t total)
{
	struct report *report = records->report;
	struct arena *arena = report->arena;
	struct residual_row row = held_row(chain, held, arena);
	char type[TYPE_TEXT];
	row.type = arena_printf(arena, "%s", type_format(held->type, type));
	row.users = join_users(held, arena);
	row.share = total ? 100.0 * (double)held->bytes / (double)total : 0;
	if (report->format == REPORT_TABLE && row.text)
		row.text = shortened(row.text, arena);
	if (times > 1 && row.text)
		row.text = arena_printf(arena, "%s x%lld", row.text, (long long)times);
	if (!arena->failed)
		records_put(records, &row, 0);
}

void report_residuals(struct report *report, const struct chain *chain, const struct held_list *list, bool expand)
{
	const bool table = report->format == REPORT_TABLE, grouped = table && !expand;
	struct groups groups;
	struct records records;
	int64_t total = 0;
	for (size_t i = 0; i < list->count; i++)
		total += list->rows[i].bytes;
	if (grouped && !group_rows(&groups, list, report->arena))
		return; /* the arena's `failed` is set */
	records_begin(&records, report, &residual_kind, 0);
	for (size_t i = 0; i < (grouped ? groups.count : list->count); i++)
		put_row(&records, chain, grouped ? &groups.rows[i] : &list->rows[i], grouped ? groups.times[i] : 1, total);
	struct residual_row row = {.type = "total", .bytes = total, .share = total ? 100 : (double)NAN};
	row.text = arena_printf(report->arena, "%zu residual%s", list->count, list->count == 1 ? "" : "s");
	if (table)
		records_put(&records, &row, 0);
	records_end(&records);
	report_whole(report, "total_bytes", total);
}
