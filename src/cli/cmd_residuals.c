/*
 * ckptc residuals: what is saved for the backward pass.
 * Tests: tests/cases/policies.test, tests/cases/cli.test
 */
#include "report/counters.h"

#include <math.h>

#include "cli/job.h"
#include "exec/run.h"

enum status put_job_residuals(struct session *s, const struct job *job, const char *path, bool to_stderr)
{
	struct held_list list;
	struct text_file *file;
	TRY(job_residuals(job, &list));
	TRY(session_open_text(s, &file, path, to_stderr));
	report_residuals(&file->report, &s->chain, &list, s->line.given[OPTION_EXPAND]);
	return session_close_text(file);
}

enum status put_residuals(struct session *s, const struct type *type, const char *path, bool to_stderr)
{
	const struct type input = run_input_type(&s->chain, type, s->set.dtype);
	TRY(session_make_job(s, &s->set.policy, &input));
	warn_useless(s, &s->job);
	warn_unstored(s, &s->job.predicted, (double)NAN);
	return put_job_residuals(s, &s->job, path, to_stderr);
}

enum status command_residuals(struct session *s)
{
	struct type type;
	TRY(session_load_chain(s));
	TRY(session_bind_types(s, &type));
	return put_residuals(s, &type, s->line.values[OPTION_OUTPUT], false);
}
