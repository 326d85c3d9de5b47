/* ckptc residuals: what is saved for the backward pass. */
#include "cli/residuals.h"

#include "cli/job_options.h"
#include "cli/warnings.h"
#include "exec/run.h"
#include "report/residuals.h"

enum status put_job_residuals(struct session *s, const struct job *job, const char *path, bool error)
{
	struct held_list list;
	struct text_file file;
	enum status status = job_residuals(job, &list, &s->diags);
	if (!status)
		status = session_open_text(s, &file, path, error);
	if (status)
		return status;
	return session_close_text(&file, report_residuals(&file.report, &s->chain, &list));
}

enum status put_residuals(struct session *s, const struct type *type, const char *path, bool error)
{
	struct type input = run_input_type(&s->chain, type, s->set.dtype);
	struct job job;
	struct job_options options = session_job_options(s, &s->set.policy);
	TRY(job_make(&job, &s->chain, &input, &options, &s->arena, &s->diags));
	warn_useless(s, &job);
	warn_unstored(s, &job.predicted);
	enum status status = put_job_residuals(s, &job, path, error);
	job_free(&job);
	return status;
}

enum status command_residuals(struct session *s)
{
	struct type type;
	enum status status = session_load_chain(s);
	if (!status)
		status = session_bind_types(s, &type);
	return status ? status : put_residuals(s, &type, s->line.values[OPTION_OUTPUT], false);
}
