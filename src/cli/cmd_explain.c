/*
 * ckptc explain: the forward and the backward program of each part of the chain, under a policy.
 * Tests: tests/cases/explain.test, tests/cases/cli.test
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/job.h"
#include "report/explanation.h"

/* True if the name of the locale says UTF-8. setlocale would cost start-up time. */
static bool locale_is_utf8(void)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	const char *value = NULL;
	for (size_t i = 0; i < sizeof variables / sizeof *variables && (!value || !*value); i++)
		value = getenv(variables[i]);
	const char *dot = value ? strchr(value, '.') : NULL;
	return dot && (!strncasecmp(dot, ".utf-8", 6) || !strncasecmp(dot, ".utf8", 5));
}

enum status command_explain(struct session *s)
{
	enum { MOST_STEPS = 1000 };
	const struct job *job = &s->job;
	struct type type;
	struct lowered lowered; /* with the types of the whole input; a job has a tile's */
	struct compiled_chain compiled;
	struct text_file *file;
	TRY(session_load_chain(s));
	TRY(session_bind_types(s, &type));
	TRY(session_make_job(s, &s->set.policy, &type));
	const bool by_value = policy_by_value(&job->scheduled);
	TRY(lower(&s->context, &lowered, &s->chain, &job->options.portion, &type, by_value ? LOWER_UNROLLED : LOWER_STEPS));
	TRY(compiled_make(&s->context, &compiled, &lowered, &job->scheduled, NULL, COMPILED_SIZES));
	TRY(session_open_report(s, &file));
	const struct explanation explanation = {.chain = &s->chain,
	                                        .compiled = &compiled,
	                                        .policy = job->policy->text,
	                                        .evaluations = job->predicted.evaluations,
	                                        .macrons = locale_is_utf8(),
	                                        .color = s->line.given[OPTION_COLOR] && s->set.color};
	if (s->set.dot)
		report_dot(&s->chain, &compiled, &file->text, &s->arena);
	else
		report_explanation(&file->report, &explanation);
	if (!s->set.dot && s->set.format == REPORT_TABLE) {
		TRY(lower(&s->context, &lowered, &s->chain, &job->options.portion, &type, LOWER_RUN));
		report_advice(&file->text, &s->chain, lowered.whole);
	}
	if (s->set.dot || s->set.format != REPORT_TABLE || by_value) /* a policy by value has save-all's schedule */
		return session_close_text(file);
	text_put(&file->text, "\nschedule\n");
	if (job->costs.steps <= MOST_STEPS)
		report_schedule(&file->report, job);
	else
		text_printf(&file->text, "%lld evaluations; `ckptc plan --schedule` prints the actions\n",
		            (long long)job->predicted.evaluations);
	return session_close_text(file);
}
