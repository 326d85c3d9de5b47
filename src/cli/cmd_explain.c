/* ckptc explain: the forward and the backward program of each part of the chain, as the policy makes them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/job_options.h"
#include "report/actions.h"
#include "report/dot.h"
#include "report/explanation.h"

/* Whether the locale's characters are UTF-8, by its name: setlocale would cost start-up time. */
static bool locale_is_utf8(void)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	const char *value = NULL;
	for (size_t i = 0; i < sizeof variables / sizeof *variables && (!value || !*value); i++)
		value = getenv(variables[i]);
	const char *dot = value ? strchr(value, '.') : NULL;
	return dot && (!strncasecmp(dot, ".utf-8", 6) || !strncasecmp(dot, ".utf8", 5));
}

/* The schedule follows a table, unless the chain is one part. */
static enum status put_schedule(struct report *report, const struct job *job)
{
	enum { MOST_STEPS = 1000 };
	if (report->format != REPORT_TABLE || policy_by_value(job->policy))
		return STATUS_OK;
	text_put(report->text, "\nschedule\n");
	if (job->costs.steps <= MOST_STEPS)
		return report_actions(report, job->schedule, job->policy->text, job->costs.steps);
	text_printf(report->text, "%lld evaluations; `ckptc plan --schedule` prints the actions\n",
	            (long long)job->predicted.evaluations);
	return STATUS_OK;
}

static enum status put_explanation(struct session *s, const struct job *job, const struct compiled_chain *compiled)
{
	struct text_file file;
	enum status status = session_open_report(s, &file);
	if (status)
		return status;
	const struct explanation explanation = {.chain = &s->chain,
	                                        .compiled = compiled,
	                                        .policy = job->policy->text,
	                                        .evaluations = job->predicted.evaluations,
	                                        .bars = locale_is_utf8(),
	                                        .color = s->line.given[OPTION_COLOR] && s->set.color};
	if (s->set.dot)
		status = report_dot(&s->chain, compiled, &file.text, &s->arena, &s->diags);
	else
		status = report_explanation(&file.report, &explanation);
	if (!status && !s->set.dot)
		status = put_schedule(&file.report, job);
	return session_close_text(&file, status);
}

enum status command_explain(struct session *s)
{
	struct type type;
	struct job job = {0};
	/* Of whole types: a job's are a tile's. */
	struct lowered lowered;
	struct compiled_chain compiled;
	enum status status = session_load_chain(s);
	if (!status)
		status = session_bind_types(s, &type);
	struct job_options options = session_job_options(s, &s->set.policy);
	if (!status)
		status = job_make(&job, &s->chain, &type, &options, &s->arena, &s->diags);
	if (status)
		return status;
	status = lower(&s->context, &lowered, &s->chain, NULL, &type,
	               policy_by_value(job.policy) ? LOWER_UNROLLED : LOWER_STEPS);
	if (!status)
		status = compiled_make(&s->context, &compiled, &lowered, job.policy);
	if (!status)
		status = put_explanation(s, &job, &compiled);
	job_free(&job);
	return status;
}
