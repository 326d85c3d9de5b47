/* --dump: what a phase of the program has made. */
#include <string.h>

#include "cli/job.h"
#include "report/explanation.h"

enum status command_dump(struct session *s)
{
	static const char *const phases[] = {"syntax", "chain", "plan", "schedule"};
	size_t what = 0;
	while (what < 4 && strcmp(phases[what], s->line.values[OPTION_DUMP]))
		what++;
	if (what == 4)
		return usage_error(s, "--dump takes syntax, chain, plan or schedule, not '%s'", s->line.values[OPTION_DUMP]);
	struct text_file *file;
	struct type type;
	TRY(what == 0 ? session_load_syntax(s) : session_load_chain(s));
	TRY(session_open_report(s, &file));
	const struct text *text = &file->text;
	const struct job *job = &s->job;
	if (what == 0)
		syntax_dump(&s->syntax, text->write, text->context);
	if (what == 1)
		chain_dump(&s->chain, text->write, text->context);
	if (what < 2)
		return session_close_text(file);
	TRY(session_bind_types(s, &type));
	TRY(session_make_job(s, &s->set.policy, &type));
	if (what == 3)
		report_actions(&file->report, job->schedule, job->policy->text, job->costs.steps);
	else
		text_printf(text, "tiled %s, rows %lld, tile %lld, tiles at a time %lld, workers %d\n",
		            job->tiles.tiled ? "yes" : "no", (long long)job->tiles.rows, (long long)job->tile.rows,
		            (long long)job->tiles.per_chunk, job->tiles.workers);
	for (size_t i = 0; what == 2 && i < job->tile.lowered.distinct_count; i++) {
		const struct compiled_step *code = &job->tile.compiled.steps[i];
		text_printf(text, "step %zu\nforward\n", i);
		program_dump(&code->forward, text->write, text->context);
		text_put(text, "record\n");
		program_dump(&code->record, text->write, text->context);
		text_put(text, "backward\n");
		program_dump(&code->backward, text->write, text->context);
	}
	return session_close_text(file);
}
