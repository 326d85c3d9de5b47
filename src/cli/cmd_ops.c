/* ckptc ops: the table of operations. */
#include <stdio.h>
#include <string.h>

#include "cli/session.h"

static void put_json(const struct text *text, struct arena *arena)
{
	text_put(text, "{\"ops\":[");
	for (int op = 0; op < OP_COUNT; op++) {
		const struct op_info *info = &op_table[op];
		const char *names[16], *kept[MAX_NEEDS];
		size_t count = op_argument_names((enum op)op, names, 16, arena);
		text_printf(text, "%s{\"name\":\"%s\",\"group\":\"%s\",\"operands\":%d,\"options\":[", op ? "," : "",
		            info->name, info->group, info->operands);
		for (size_t i = 0; i < count; i++)
			text_printf(text, "%s\"%s\"", i ? "," : "", names[i]);
		text_printf(text, "],\"scope\":\"%s\",\"keeps\":[", op_reach((enum op)op));
		count = op_kept_names((enum op)op, kept);
		for (size_t i = 0; i < count; i++)
			text_printf(text, "%s\"%s\"", i ? "," : "", kept[i]);
		text_put(text, "],\"doc\":");
		text_json(text, info->doc);
		text_put(text, "}");
	}
	text_put(text, "]}\n");
}

static void put_table(const struct text *text, bool csv)
{
	const char *group = "";
	if (csv)
		text_put(text, "name,group,operands,options,doc\n");
	for (int op = 0; op < OP_COUNT; op++) {
		const struct op_info *info = &op_table[op];
		char left[96];
		if (csv) {
			text_printf(text, "%s,%s,%d,", info->name, info->group, info->operands);
			text_csv(text, info->arguments);
			text_put(text, ",");
			text_csv(text, info->doc);
			text_put(text, "\n");
			continue;
		}
		if (strcmp(group, info->group))
			text_printf(text, "%s%s\n", *group ? "\n" : "", info->group);
		group = info->group;
		snprintf(left, sizeof left, "%s%s%s%s", info->name, info->operands ? " a" : "", *info->arguments ? " " : "",
		         info->arguments);
		text_printf(text, "  %-40s %s\n", left, info->doc);
	}
}

enum status command_ops(struct session *s)
{
	struct text_file file;
	if (s->file) {
		diag_file(&s->diags, STATUS_USAGE, NULL, -1, "'ckptc ops' takes no chain");
		return STATUS_USAGE;
	}
	enum status status = session_open_report(s, &file);
	if (status)
		return status;
	if (s->format == REPORT_JSON)
		put_json(&file.text, &s->arena);
	else if (s->format == REPORT_LINES)
		for (int op = 0; op < OP_COUNT; op++)
			text_printf(&file.text, "%s\n", op_table[op].name);
	else
		put_table(&file.text, s->format == REPORT_CSV);
	return session_close_text(&file);
}
