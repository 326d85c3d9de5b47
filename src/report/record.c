/* Records in four formats; see record.h. A table waits for its widest cells, other formats are written at once. */
#include "report/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/array.h"

/* JSON, a piece at a time. */

/* The comma and the key of a value; false in other formats. */
static bool begin_value(struct report *r, const char *key)
{
	if (r->format != REPORT_JSON)
		return false;
	if (r->comma)
		r->text->write(r->text->context, ",", 1);
	if (key) { /* an identifier of ours */
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

void report_texts(struct report *r, const char *key, const char *const *items, size_t count)
{
	report_open(r, key, '[');
	for (size_t i = 0; i < count; i++)
		report_text(r, NULL, items[i]);
	report_close(r, ']');
}

/* Values. */

static bool has_field(const struct field *f, unsigned form, unsigned groups)
{
	return f->forms & form && (!f->groups || f->groups & groups);
}

/* Writes WHOLE at the end of DIGITS: a schedule may have 10^7 actions, and printf is slow. */
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

/* The value as text, in DIGITS where it is a number; NULL if it is not known, and for lists. */
static const char *spell_value(const struct field *f, const void *record, bool json, char digits[64])
{
	const void *at = (const char *)record + f->offset;
	const char *text = NULL;
	int64_t whole = 0;
	double number = NAN;
	bool flag = false;
	switch (f->kind) {
	case FIELD_TEXT:
		memcpy(&text, at, sizeof text);
		return text;
	case FIELD_FLAG:
		memcpy(&flag, at, sizeof flag);
		return flag ? "true" : "false";
	case FIELD_WHOLE:
		memcpy(&whole, at, sizeof whole);
		return whole == NO_WHOLE ? NULL : spell_whole(whole, digits);
	case FIELD_NUMBER:
		memcpy(&number, at, sizeof number);
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

static void put_json_value(struct report *r, const struct field *f, const void *record)
{
	char digits[64];
	struct field_list list;
	if (f->kind != FIELD_TEXTS && f->kind != FIELD_WHOLES) {
		const char *value = spell_value(f, record, true, digits);
		if (f->kind == FIELD_TEXT)
			report_text(r, f->key, value);
		else if (begin_value(r, f->key))
			text_put(r->text, value ? value : "null");
		return;
	}
	memcpy(&list, (const char *)record + f->offset, sizeof list);
	if (f->kind == FIELD_TEXTS) {
		report_texts(r, f->key, list.items, list.count);
		return;
	}
	report_open(r, f->key, '[');
	for (size_t i = 0; i < list.count; i++)
		report_whole(r, NULL, ((const int64_t *)list.items)[i]);
	report_close(r, ']');
}

void report_record(struct report *r, const char *key, const struct record_kind *kind, const void *record,
                   unsigned groups)
{
	report_open(r, key, '{');
	for (size_t i = 0; i < kind->field_count; i++)
		if (has_field(&kind->fields[i], IN_JSON, groups))
			put_json_value(r, &kind->fields[i], record);
	report_close(r, '}');
}

/* Rows. */

static void put_csv(struct records *r, const void *record, unsigned groups)
{
	const struct text *text = r->report->text;
	const char *comma = "";
	char digits[64];
	for (size_t i = 0; i < r->kind->field_count; i++) {
		const struct field *f = &r->kind->fields[i];
		if (!has_field(f, IN_CSV, r->groups))
			continue;
		if (*comma)
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
		text_put(text, first ? "" : " ");
		if (!first || flag)
			text_put(text, f->key);
		if (!first && !flag)
			text_put(text, "=");
		if (!flag)
			text_put(text, value);
		first = false;
	}
	text_put(text, "\n");
}

static void add_cell(struct records *r, const char *cell)
{
	const char **grown = arena_grow(r->report->arena, r->cells, r->used, &r->capacity, sizeof *grown);
	if (!grown)
		return;
	r->cells = grown;
	grown[r->used++] = cell;
}

static void add_cells(struct records *r, const void *record, unsigned groups)
{
	char digits[64];
	for (size_t i = 0; i < r->kind->field_count; i++) {
		const struct field *f = &r->kind->fields[i];
		if (!has_field(f, IN_TABLE, r->groups))
			continue;
		const char *value = !record ? (f->heading ? f->heading : f->key) : spell_value(f, record, false, digits);
		if (record && !has_field(f, IN_TABLE, groups))
			value = "";
		else if (value && record && (f->kind == FIELD_WHOLE || f->kind == FIELD_NUMBER))
			value = arena_printf(r->report->arena, "%s", value);
		else if (!value)
			value = f->unknown ? f->unknown : "";
		add_cell(r, value);
	}
}

static void put_table(const struct records *r)
{
	size_t columns = 0;
	uint64_t right = 0;
	for (size_t i = 0; i < r->kind->field_count; i++) {
		const struct field *f = &r->kind->fields[i];
		if (!has_field(f, IN_TABLE, r->groups))
			continue;
		if (f->kind == FIELD_WHOLE || f->kind == FIELD_NUMBER)
			right |= (uint64_t)1 << columns;
		columns++;
	}
	if (columns)
		text_table(r->report->text, r->cells, r->used / columns, columns, right);
}

void records_begin(struct records *r, struct report *report, const struct record_kind *kind, unsigned groups)
{
	*r = (struct records){.report = report, .kind = kind, .format = report->format, .groups = groups};
	bool tabled = false;
	for (size_t i = 0; i < kind->field_count; i++)
		tabled |= has_field(&kind->fields[i], IN_TABLE, groups);
	if (r->format == REPORT_TABLE && !tabled)
		r->format = REPORT_LINES;
	report_open(report, kind->key, '[');
	if (r->format == REPORT_CSV)
		put_csv(r, NULL, groups);
	else if (r->format == REPORT_TABLE)
		add_cells(r, NULL, groups);
}

void records_put(struct records *r, const void *record, unsigned groups)
{
	switch (r->format) {
	case REPORT_JSON:
		report_record(r->report, NULL, r->kind, record, groups);
		return;
	case REPORT_CSV:
		put_csv(r, record, groups);
		return;
	case REPORT_TABLE:
		add_cells(r, record, groups);
		return;
	case REPORT_LINES:
		if (r->kind->line)
			r->kind->line(record, r->report->text);
		else
			put_line(r, record, groups);
		return;
	}
}

void records_end(struct records *r)
{
	report_close(r->report, ']');
	if (r->format == REPORT_TABLE && !r->report->arena->failed)
		put_table(r);
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
