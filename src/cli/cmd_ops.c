/*
 * ckptc ops: the table of operations.
 * Tests: tests/cases/cli.test
 */
#include <stdio.h>
#include <string.h>

#include "cli/session.h"

struct op_row {
	const char *name, *group, *arguments, *scope, *reach, *doc;
	int64_t operands;
	struct field_list options, keeps;
};

static const struct field op_fields[] = {
	{"name", NULL, IN_JSON | IN_CSV | IN_LINES, 0, FIELD(op_row, TEXT, name)},
	{"group", NULL, IN_JSON | IN_CSV, 0, FIELD(op_row, TEXT, group)},
	{"operands", NULL, IN_JSON | IN_CSV, 0, FIELD(op_row, WHOLE, operands)},
	{"options", NULL, IN_JSON, 0, FIELD(op_row, TEXTS, options)},
	{"options", NULL, IN_CSV, 0, FIELD(op_row, TEXT, arguments)},
	{"scope", NULL, IN_JSON, 0, FIELD(op_row, TEXT, scope)},
	{"keeps", NULL, IN_JSON, 0, FIELD(op_row, TEXTS, keeps)},
	{"doc", NULL, IN_JSON | IN_CSV, 0, FIELD(op_row, TEXT, doc)},
	{"reach", NULL, IN_JSON, 0, FIELD(op_row, TEXT, reach)},
};
static const struct record_kind op_kind = RECORD_KIND("ops", op_fields, NULL);

static void report_ops(struct report *report)
{
	struct records records;
	records_begin(&records, report, &op_kind, 0);
	for (int i = 0; i < OP_LISTED; i++) {
		const enum op op = op_list[i];
		const struct op_info *info = &op_table[op];
		const char *names[16], *kept[MAX_NEEDS];
		const struct op_row row = {
			info->name,
			info->group,
			info->arguments,
			op_scope_name(op),
			op_reach(op),
			info->doc,
			info->operands,
			{names, op_argument_names(op, names, 16, report->arena)},
			{kept, op_kept_names(op, kept)},
		};
		records_put(&records, &row, 0);
	}
	records_end(&records);
}

enum status command_ops(struct session *s)
{
	struct text_file *file;
	const char *group = "";
	if (s->line.file)
		return usage_error(s, "'ckptc ops' takes no chain, but got '%s'", s->line.file);
	TRY(session_open_report(s, &file));
	if (s->set.format != REPORT_TABLE)
		report_ops(&file->report);
	for (int i = 0; i < OP_LISTED && s->set.format == REPORT_TABLE; i++) { /* a table by group */
		const struct op_info *info = &op_table[op_list[i]];
		char usage[OP_USAGE];
		if (strcmp(group, info->group))
			text_printf(&file->text, "%s%s\n", *group ? "\n" : "", info->group);
		group = info->group;
		text_printf(&file->text, "  %-40s %s\n", op_usage(op_list[i], usage), info->doc);
	}
	return session_close_text(file);
}
