/*
 * Records in their formats. A table is written at its end, when its widest cells are known; the others at once.
 * Tests: tests/unit/test_records.c
 */
#include "report/record.h"

#include <math.h>
#include <stdio.h>

#include "io/array.h"

/* Writes what precedes a value in JSON: the first bracket, a comma, KEY. In other formats, writes nothing; false. */
static bool begin_value(struct report *r, const char *key)
{
	if (r->format != REPORT_JSON)
		return false;
	if (key && !r->depth)
		report_open(r, NULL, '{');
	if (r->comma)
		r->text->write(r->text->context, ",", 1);
	if (key) { /* KEY is an identifier of this program: no escapes */
		r->text->write(r->text->context, "\"", 1);
		text_put(r->text, key);
		r->text->write(r->text->context, "\":", 2);
	}
	r->comma = true;
	return true;
}

void report_open(struct report *r, const char *key, char bracket)
{
	if (!begin_value(r, key))
		return;
	text_put(r->text, (const char[]){bracket, '\0'});
	r->comma = false;
	r->depth++;
}

void report_close(struct report *r, char bracket)
{
	if (r->format == REPORT_JSON)
		text_put(r->text, (const char[]){bracket, --r->depth ? '\0' : '\n', '\0'});
	r->comma = true;
}

void report_text(struct report *r, const char *key, const char *value)
{
	if (begin_value(r, key))
		text_json(r->text, value);
}

void report_whole(struct report *r, const char *key, int64_t value)
{
	if (begin_value(r, key))
		text_printf(r->text, "%lld", (long long)value);
}

static bool has_field(const struct field *f, unsigned form, unsigned groups)
{
	return f->forms & form && (!f->groups || f->groups & groups);
}

/* Writes WHOLE at the end of DIGITS; returns where it begins. printf is too slow for schedules of 10^7 actions. */
static const char *spell_whole(int64_t whole, char digits[64])
{
	char *p = digits + 63;
	uint64_t size = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
	*p = '\0';
	do
		*--p = (char)('0' + size % 10);
	while (size /= 10);
	if (whole < 0)
		*--p = '-';
	return p;
}

/* Returns the value as text, in DIGITS if it is a number. NULL if it is unknown, a list, or in JSON infinite. */
static const char *spell_value(const struct field *f, const void *record, bool json, char digits[64])
{
	const void *at = (const char *)record + f->offset;
	double number;
	switch (f->kind) {
	case FIELD_TEXT:
		return *(const char *const *)at;
	case FIELD_FLAG:
		return *(const bool *)at ? "true" : "false";
	case FIELD_WHOLE:
		return *(const int64_t *)at == NO_WHOLE ? NULL : spell_whole(*(const int64_t *)at, digits);
	case FIELD_NUMBER:
		number = *(const double *)at;
		if (isnan(number) || (json && isinf(number)))
			return NULL;
		if (json && f->exact)
			number_format(digits, number, DTYPE_F64);
		else
			snprintf(digits, 64, f->numeral, number);
		return digits;
	case FIELD_TEXTS:
	case FIELD_WHOLES:
		break;
	}
	return NULL;
}

void report_record(struct report *r, const char *key, const struct record_kind *kind, const void *record,
                   unsigned groups)
{
	char digits[64];
	report_open(r, key, '{');
	for (size_t i = 0; i < kind->field_count; i++) {
		const struct field *f = &kind->fields[i];
		if (!has_field(f, IN_JSON, groups))
			continue;
		if (f->kind != FIELD_TEXTS && f->kind != FIELD_WHOLES) {
			const char *value = spell_value(f, record, true, digits);
			if (f->kind == FIELD_TEXT)
				report_text(r, f->key, value);
			else if (begin_value(r, f->key))
				text_put(r->text, value ? value : "null");
			continue;
		}
		const struct field_list *list = (const void *)((const char *)record + f->offset);
		report_open(r, f->key, '[');
		for (size_t k = 0; k < list->count; k++)
			if (f->kind == FIELD_TEXTS)
				report_text(r, NULL, ((const char *const *)list->items)[k]);
			else
				report_whole(r, NULL, ((const int64_t *)list->items)[k]);
		report_close(r, ']');
	}
	report_close(r, '}');
}

static void put_csv(struct records *r, const void *record, unsigned groups)
{
	const struct text *text = r->report->text;
	const char *comma = "";
	char digits[64];
	for (size_t i = 0; i < r->kind->field_count; i++) {
		const struct field *f = &r->kind->fields[i];
		if (!has_field(f, IN_CSV, r->groups))
			continue;
		text_put(text, comma);
		comma = ",";
		const char *value = !record                        ? f->key
		                    : has_field(f, IN_CSV, groups) ? spell_value(f, record, false, digits)
		                                                   : "";
		if (value && (f->kind == FIELD_TEXT || !record))
			text_csv(text, value);
		else if (value)
			text_put(text, value);
	}
	text_put(text, "\n");
}

static void put_line(const struct records *r, const void *record, unsigned groups)
{
	const struct text *text = r->report->text;
	bool first = true;
	char digits[64];
	for (size_t i = 0; i < r->kind->field_count; i++) {
		const struct field *f = &r->kind->fields[i];
		const char *value = has_field(f, IN_LINES, groups) ? spell_value(f, record, false, digits) : NULL;
		const bool flag = f->kind == FIELD_FLAG;
		if (!value || (flag && *value == 'f'))
			continue;
		const bool named = !first || flag;
		text_printf(text, "%s%s%s", first ? "" : " ", named ? f->key : "", named && !flag ? "=" : "");
		text_put(text, flag ? "" : value);
		first = false;
	}
	text_put(text, "\n");
}

static bool is_numeric(const struct field *f) { return f->kind == FIELD_WHOLE || f->kind == FIELD_NUMBER; }

static void add_cells(struct records *r, const void *record, unsigned groups)
{
	struct arena *arena = r->report->arena;
	char digits[64];
	for (size_t i = 0; i < r->kind->field_count; i++) {
		const struct field *f = &r->kind->fields[i];
		if (!has_field(f, IN_TABLE, r->groups))
			continue;
		const char *value = !record ? (f->heading ? f->heading : f->key) : spell_value(f, record, false, digits);
		if (record && !has_field(f, IN_TABLE, groups))
			value = "";
		else if (value && record && is_numeric(f))
			value = arena_printf(arena, "%s", value);
		else if (!value)
			value = f->unknown ? f->unknown : "";
		(void)text_list_add(&r->cells, value, arena);
	}
}

void records_begin(struct records *r, struct report *report, const struct record_kind *kind, unsigned groups)
{
	const bool html = report->format == REPORT_HTML;
	*r = (struct records){
		.report = report, .kind = kind, .format = html ? REPORT_TABLE : report->format, .groups = groups};
	for (size_t i = 0; i < kind->field_count; i++)
		if (has_field(&kind->fields[i], IN_TABLE, groups))
			r->right |= (uint64_t)is_numeric(&kind->fields[i]) << r->columns++;
	if (r->format == REPORT_TABLE && !r->columns)
		r->format = REPORT_LINES;
	text_put(report->text, html && r->format == REPORT_LINES ? "<pre>" : "");
	report_open(report, kind->key, '[');
	if (r->format == REPORT_CSV)
		put_csv(r, NULL, groups);
	else if (r->format == REPORT_TABLE)
		add_cells(r, NULL, groups);
}

void records_put(struct records *r, const void *record, unsigned groups)
{
	if (r->format == REPORT_JSON)
		report_record(r->report, NULL, r->kind, record, groups);
	else if (r->format == REPORT_CSV)
		put_csv(r, record, groups);
	else if (r->format == REPORT_TABLE)
		add_cells(r, record, groups);
	else if (r->kind->line)
		r->kind->line(record, r->report->text);
	else
		put_line(r, record, groups);
}

/* Writes the table as an element of a page. */
static void put_html(const struct records *r)
{
	const struct text *text = r->report->text;
	text_put(text, "<table>\n");
	for (size_t i = 0; i < r->cells.count; i++) {
		const size_t column = i % r->columns;
		const char *const tag = i < r->columns ? "th" : "td";
		text_printf(text, "%s<%s%s>", column ? "" : "<tr>", tag, r->right >> column & 1 ? " class=\"number\"" : "");
		text_xml(text, r->cells.items[i]);
		text_printf(text, "</%s>%s", tag, column + 1 < r->columns ? "" : "</tr>\n");
	}
	text_put(text, "</table>\n");
}

void records_end(struct records *r)
{
	const bool html = r->report->format == REPORT_HTML, table = r->format == REPORT_TABLE;
	report_close(r->report, ']');
	text_put(r->report->text, html && !table ? "</pre>\n" : "");
	if (!table || r->report->arena->failed)
		return;
	if (html)
		put_html(r);
	else
		text_table(r->report->text, r->cells.items, r->cells.count / r->columns, r->columns, r->right);
}

void report_figures(struct report *report, const struct record_kind *kind, unsigned groups, const void *const *records,
                    size_t count, const int widths[2])
{
	const bool csv = report->format == REPORT_CSV;
	char digits[64];
	for (size_t i = 0; i < kind->field_count; i++) {
		const struct field *f = &kind->fields[i];
		if (!has_field(f, IN_FIGURES, groups))
			continue;
		text_printf(report->text, "%-*s", csv ? 0 : widths[0], csv || !f->heading ? f->key : f->heading);
		for (size_t k = 0; k < count; k++) {
			const char *value = spell_value(f, records[k], false, digits);
			if (csv) {
				text_put(report->text, ",");
				text_csv(report->text, value ? value : "");
			} else if (value) {
				text_printf(report->text, " %*s", widths[1], value);
			}
		}
		text_put(report->text, "\n");
	}
}
