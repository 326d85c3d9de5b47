#include "report/explanation.h"

enum { ON_STEPS = 1, ON_STATE = 2 };

struct action_row {
	const char *name;
	struct action action;
};

static const struct field action_fields[] = {
	{"action", NULL, IN_JSON | IN_CSV, 0, FIELD(action_row, TEXT, name)},
	{"begin", NULL, IN_JSON, ON_STEPS, FIELD(action_row, WHOLE, action.begin)},
	{"begin", NULL, IN_CSV, 0, FIELD(action_row, WHOLE, action.begin)},
	{"end", NULL, IN_JSON | IN_CSV, ON_STEPS, FIELD(action_row, WHOLE, action.end)},
	{"state", NULL, IN_JSON, ON_STATE, FIELD(action_row, WHOLE, action.begin)},
	{"slot", NULL, IN_JSON | IN_CSV, ON_STATE, FIELD(action_row, WHOLE, action.slot)},
};

static bool is_on_steps(const struct action *action)
{
	return action->kind == ACT_FORWARD || action->kind == ACT_RECORD || action->kind == ACT_BACKWARD;
}

static void put_action_line(const void *record, const struct text *text)
{
	const struct action_row *row = record;
	const struct action *action = &row->action;
	if (is_on_steps(action))
		text_printf(text, "%-9s steps %lld to %lld\n", row->name, (long long)action->begin, (long long)action->end - 1);
	else if (action->kind == ACT_DROP || action->kind == ACT_DISCARD)
		text_printf(text, "%-9s slot %lld\n", row->name, (long long)action->slot);
	else
		text_printf(text, "%-9s state %lld, slot %lld\n", row->name, (long long)action->begin, (long long)action->slot);
}

static const struct record_kind action_kind = RECORD_KIND("actions", action_fields, put_action_line);

void report_actions(struct report *report, struct schedule *schedule, const char *policy, int64_t steps)
{
	struct action_row row;
	struct records records;
	report_text(report, "policy", policy);
	report_whole(report, "steps", steps);
	records_begin(&records, report, &action_kind, ON_STEPS | ON_STATE);
	schedule_rewind(schedule);
	while (schedule_next(schedule, &row.action)) {
		row.name = action_name(row.action.kind);
		records_put(&records, &row, is_on_steps(&row.action) ? ON_STEPS : ON_STATE);
	}
	records_end(&records);
}
