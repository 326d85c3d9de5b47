/* --dump: what a phase of the program has made. */
#include "cli/dump.h"

#include <string.h>

#include "cli/job_options.h"
#include "report/actions.h"

static enum status dump_plan(struct session *s, struct report *report, bool schedule)
{
	const struct text *text = report->text;
	struct type type;
	struct job job;
	enum status status = session_bind_types(s, &type);
	struct job_options options = session_job_options(s, &s->set.policy);
	if (!status)
		status = job_make(&job, &s->chain, &type, &options, &s->arena, &s->diags);
	if (status)
		return status;
	if (schedule) {
		status = report_actions(report, job.schedule, job.policy->text, job.costs.steps);
	} else {
		text_printf(text, "tiled %s, rows %lld, tile %lld, tiles at a time %lld, workers %d\n",
		            job.tiles.tiled ? "yes" : "no", (long long)job.tiles.rows, (long long)job.tile.rows,
		            (long long)job.tiles.per_chunk, job.tiles.workers);
		for (size_t i = 0; i < job.tile.lowered.distinct_count; i++) {
			const struct compiled_step *code = &job.tile.compiled.steps[i];
			text_printf(text, "step %zu\nforward\n", i);
			program_dump(&code->forward, text->write, text->context);
			text_put(text, "record\n");
			program_dump(&code->record, text->write, text->context);
			text_put(text, "backward\n");
			program_dump(&code->backward, text->write, text->context);
		}
	}
	job_free(&job);
	return status;
}

enum status command_dump(struct session *s)
{
	static const char *const phases[] = {"syntax", "chain", "plan", "schedule"};
	size_t what = 0;
	while (what < 4 && strcmp(phases[what], s->line.values[OPTION_DUMP]))
		what++;
	if (what == 4)
		return usage_error(s, "--dump takes syntax, chain, plan or schedule, not '%s'", s->line.values[OPTION_DUMP]);
	struct text_file file;
	enum status status = what == 0 ? session_load_syntax(s) : session_load_chain(s);
	if (!status)
		status = session_open_report(s, &file);
	if (status)
		return status;
	if (what == 0)
		syntax_dump(&s->syntax, file.text.write, file.text.context);
	else if (what == 1)
		chain_dump(&s->chain, file.text.write, file.text.context);
	else
		status = dump_plan(s, &file.report, what == 3);
	return session_close_text(&file, status);
}
