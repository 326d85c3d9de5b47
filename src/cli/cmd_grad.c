/*
 * ckptc grad: the gradients of the input and of params.
 * Tests: tests/cases/grad.test, tests/cases/cli.test
 */
#include <string.h>

#include "cli/gradient_files.h"
#include "cli/job.h"
#include "cli/plot.h"
#include "cli/value_archive.h"

/* What a run writes while it runs, in addition to the gradient of the input. */
struct beside {
	struct session *session;
	struct opened_output *value, *events;                 /* NULL: not open */
	struct value_archive gradient_archive, value_archive; /* if their path is set, -o and --value are archives */
	struct watch watch;
	struct early_gradients early;
};

/* Opens ARCHIVE, if PATH ends as one: then the rows of OUT go to it, as the member NAME. */
static enum status open_member_archive(struct session *s, const char *path, struct opened_output *out, const char *name,
                                       struct value_archive *archive)
{
	if (!path || !output_is_archive(path) || s->line.given[OPTION_TO])
		return STATUS_OK;
	*archive = (struct value_archive){.path = path, .out = out, .names = {name}, .count = 1};
	return value_archive_open(s, archive);
}

/* Returns the writer of rows of ARCHIVE, if there is one, else that of OUT. */
static struct writer *writer_of(struct opened_output *out, const struct value_archive *archive)
{
	return archive->path ? archive->writers[0] : &out->writer;
}

/* Writes what is left of the array of OUT. */
static enum status end_array(struct session *s, struct opened_output *out, struct value_archive *archive)
{
	return archive->path ? value_archive_put(s, archive) : writer_finish(&out->writer, &s->diags);
}

/* Opens --events, unless it is open. This empties a regular file, so it waits for the first event or the run's end. */
static enum status open_events(struct beside *beside)
{
	if (beside->events)
		return STATUS_OK;
	return session_open_output(beside->session, &beside->events, beside->session->line.values[OPTION_EVENTS], true);
}

static enum status put_event(void *context, const char *line)
{
	struct beside *beside = context;
	TRY(open_events(beside));
	return output_write(&beside->events->output, line, strlen(line), &beside->session->diags);
}

static enum status open_beside(struct session *s, struct beside *beside)
{
	const char *value = s->line.values[OPTION_VALUE], *events = s->line.values[OPTION_EVENTS];
	*beside = (struct beside){.session = s};
	TRY(open_member_archive(s, s->line.values[OPTION_OUTPUT], s->out, s->chain.input, &beside->gradient_archive));
	if (value) {
		TRY(session_open_rows(s, &beside->value, value));
		session_make_writer(s, beside->value);
		TRY(open_member_archive(s, value, beside->value, "out", &beside->value_archive));
	}
	return events && !output_replaces(events) ? open_events(beside) : STATUS_OK;
}

static enum status put_grad_stats(struct session *s, const struct gradient_result *result)
{
	struct text_file *file;
	struct policy_row measured, predicted;
	TRY(gradient_row(s, result, &measured));
	TRY(session_open_text(s, &file, s->line.values[OPTION_STATS], true));
	predicted = measured;
	predicted.counters = result->predicted;
	report_stats(&file->report, &measured, &predicted);
	return session_close_text(file);
}

static enum status check_grad_options(struct session *s)
{
	TRY(gradient_files_check(s));
	if (s->set.policy.kind == POLICY_disk_revolve && !s->line.given[OPTION_SPILL])
		return usage_error(s, "policy '%s' needs --spill DIR", s->set.policy.text);
	if (!s->line.given[OPTION_JOURNAL])
		return STATUS_OK;
	if (!s->line.given[OPTION_SPILL])
		return usage_error(s, "--journal needs --spill DIR, where it keeps what a resumed run reads");
	if (s->set.policy.kind == POLICY_auto && !s->set.memory)
		return usage_error(s,
		                   "--journal contradicts policy 'auto' without --memory: the memory that is free may change");
	const bool online = s->set.policy.kind == POLICY_online || (s->chain.has_conditions && s->set.memory);
	if (online && s->set.spill_limit)
		return usage_error(s,
		                   "--spill-limit contradicts --journal under online:S, which resumes from all states on disk");
	if (s->line.given[OPTION_ACCUMULATE])
		return usage_error(s, "--accumulate contradicts --journal: a resumed run could add its gradients twice");
	return STATUS_OK;
}

/* Reads chain, params and costs, opens the input, and opens or probes the outputs: their errors precede the work. */
static enum status open_all(struct session *s, struct beside *beside, struct gradient_result *result)
{
	TRY(session_load_chain(s));
	TRY(check_grad_options(s));
	TRY(outputs_check_grads(s));
	TRY(outputs_probe(s));
	TRY(session_open_input(s));
	if (!s->programs && !s->chain.has_conditions && !s->line.given[OPTION_JOURNAL])
		s->leaves = PARAM_LEAVES;
	TRY(session_bind(s, true, s->set.dtype == DTYPE_COUNT ? DTYPE_F32 : s->set.dtype));
	TRY(session_open_costs(s));
	TRY(session_open_arrays(s));
	TRY(open_beside(s, beside));
	TRY(watch_open(s, &beside->watch, result));
	return outputs_check_apart(s, beside->value, beside->events);
}

/*
 * Writes the rest of the outputs, warns of options without effect, and renames the files. The gradient of the input is
 * renamed last, but before files of --accumulate: it may replace the input, by which a journal recognises its run.
 */
static enum status finish(struct session *s, struct beside *beside, struct gradient_result *result)
{
	TRY(external_finish(s->programs, &s->diags)); /* before a file gets its place, or a report is written */
	TRY(end_array(s, s->out, &beside->gradient_archive));
	if (beside->value)
		TRY(end_array(s, beside->value, &beside->value_archive));
	if (s->line.given[OPTION_EVENTS])
		TRY(open_events(beside));
	TRY(watch_close(&beside->watch));
	if (result->has_job) {
		const char *why = NULL;
		TRY_ALLOC(because_describe(&result->because, s->chain.source, &s->arena, &why), &s->diags);
		warn_untiled(s, why, &result->most, result->measured.peak_bytes);
		warn_useless(s, &result->job);
		warn_unjournalled(s, &result->job);
	}
	if (s->line.given[OPTION_RESIDUALS])
		TRY(put_job_residuals(s, &result->job, s->line.values[OPTION_RESIDUALS], true));
	if (s->line.given[OPTION_STATS])
		TRY(put_grad_stats(s, result));
	else
		warn_unstored(s, &result->measured, result->store_error);
	TRY(early_gradients_gather(&beside->early));
	if (ranks_index(s->ranks) == 0) /* last: it may hold a lock from here until the session ends */
		TRY(gradient_files_put(s, result, &beside->early));
	TRY(early_gradients_put(&beside->early));
	if (beside->value)
		TRY(session_put(s, beside->value));
	if (beside->events)
		TRY(session_put(s, beside->events));
	TRY(session_put(s, s->out));
	TRY(session_commit(s));
	gradient_done(result, &s->diags);
	return STATUS_OK;
}

enum status command_grad(struct session *s)
{
	if (s->line.given[OPTION_DUMP])
		return command_dump(s);
	struct beside beside;
	struct gradient_result result = {0};
	struct progress progress;
	TRY(open_all(s, &beside, &result));
	TRY(early_gradients_open(s, &beside.early, &result));
	const struct run_options options = {.job = session_job_options(s, &s->set.policy),
	                                    .dtype = s->set.dtype,
	                                    .flush_denormals = s->line.given[OPTION_FAST_MATH],
	                                    .value = beside.value ? writer_of(beside.value, &beside.value_archive) : NULL,
	                                    .one_pass = s->line.given[OPTION_ONE_PASS],
	                                    .progress = progress_begin(&progress, s, "grad") ? progress_action : NULL,
	                                    .progress_context = &progress};
	const struct gradient_options gradient = {
		.gradient = writer_of(s->out, &beside.gradient_archive),
		.cotangent = s->line.values[OPTION_COTANGENT],
		.special = s->line.given[OPTION_SPECIAL],
		.cast = s->line.given[OPTION_CAST],
		.missing = s->set.reading.missing,
		.spill = s->line.values[OPTION_SPILL],
		.journal = s->journal,
		.written = early_gradients_write,
		.written_context = &beside.early,
		.rows = {early_gradients_begin_rows, early_gradients_put_rows, early_gradients_end_rows, &beside.early},
		.inputs = early_gradients_inputs(&beside.early),
		.reuse_params = true,
		.event = s->line.given[OPTION_EVENTS] ? put_event : NULL,
		.event_context = &beside,
		.trace = beside.watch.plot || beside.watch.trace_file ? watch_event : NULL,
		.trace_context = &beside.watch};
	const struct run_subject subject = {&s->chain, &s->params, &s->in.reader, &s->inputs, s->programs, s->ranks};
	enum status status = run_gradient(&s->context, &subject, &options, &gradient, &result);
	progress_end(&progress);
	early_gradients_close(&beside.early);
	if (!status)
		status = finish(s, &beside, &result);
	gradient_free(&result);
	return status;
}
