/* Files are opened before the work, so that a wrong name fails early, and written after it; a failure leaves no file. */
#include "cli/plot.h"

#include <stdio.h>
#include <string.h>

#include "cli/job_options.h"

static bool ends_with(const char *text, const char *end)
{
	size_t a = strlen(text), b = strlen(end);
	return a > b && !strcmp(text + a - b, end);
}

enum status plot_open(struct session *s, struct plot *plot)
{
	const char *path = s->line.values[OPTION_PLOT];
	*plot = (struct plot){0};
	if (!s->line.given[OPTION_PLOT])
		return STATUS_OK;
	plot->html = ends_with(path, ".html");
	if (!plot->html && !ends_with(path, ".svg"))
		return usage_error(s, "--plot takes FILE.svg or FILE.html, not '%s'", path);
	enum status status = session_open_text(s, &plot->file, path, false);
	plot->open = !status;
	return status;
}

void plot_abort(struct plot *plot)
{
	if (plot->open)
		output_abort(&plot->file.output);
	plot->open = false;
}

enum status plot_draw(struct session *s, struct plot *plot, struct picture *picture)
{
	picture->html = plot->html;
	picture->title = arena_printf(&s->arena, "ckptc %s: %s", s->command->name,
	                              s->line.text                 ? s->line.text
	                              : s->line.file               ? s->line.file
	                              : s->line.given[OPTION_SPEC] ? s->line.values[OPTION_SPEC]
	                                                           : "");
	TRY_ALLOC(picture->title, &s->diags);
	picture_draw(picture, &plot->file.text);
	plot->open = false;
	return session_close_text(&plot->file, STATUS_OK);
}

/* What each picture shows of a job. */
static struct picture_run run_of(const struct job *job, const struct timeline *timeline)
{
	return (struct picture_run){.policy = job->policy->text,
	                            .timeline = timeline,
	                            .throughout = job->predicted.peak_bytes - job->slabs,
	                            .workers = job->tiles.workers,
	                            .share = job->tile.slab > 0 ? (double)job->slabs / (double)job->tile.slab : 1,
	                            .budget = job->policy->kind == POLICY_budget ? job->policy->number : 0};
}

static const char *subtitle_of(struct session *s, const struct job *job)
{
	char type[TYPE_TEXT];
	int64_t tile = job->tile.rows > 0 ? job->tile.rows : 1;
	const char *text = arena_printf(&s->arena, "%s, %lld step%s", type_format(&job->input, type),
	                                (long long)job->whole.steps, job->whole.steps == 1 ? "" : "s");
	if (text && job->tiles.tiled && job->tiles.rows > tile)
		text = arena_printf(&s->arena, "%s; schedules are of one tile of %lld", text,
		                    (long long)((job->tiles.rows + tile - 1) / tile));
	if (text && policy_by_value(job->policy))
		text = arena_printf(&s->arena, "%s; a policy by value runs the chain as one region", text);
	return text;
}

/* Plans. */

static enum status add_run(struct session *s, const struct type *type, const struct policy *policy, struct job *job,
                           struct picture_run *run)
{
	struct timeline *timeline = arena_alloc(&s->arena, sizeof *timeline);
	TRY_ALLOC(timeline, &s->diags);
	struct job_options options = session_job_options(s, policy);
	enum status status = job_make(job, &s->chain, type, &options, &s->arena, &s->diags);
	if (!status)
		status = timeline_plan(timeline, job, &options, &s->arena, &s->diags);
	if (!status)
		*run = run_of(job, timeline);
	return status;
}

/* A run of --spec: bytes by the cost walk, times in the unit of the costs. */
static enum status add_spec_run(struct subject *subject, const struct policy *policy, struct picture_run *run)
{
	struct session *s = subject->session;
	struct schedule *schedule = NULL;
	struct timeline *timeline = arena_alloc(&s->arena, sizeof *timeline);
	const struct step_costs *costs = &subject->spec.costs;
	TRY_ALLOC(timeline, &s->diags);
	enum status status = spec_schedule(&s->context, &subject->spec, policy, &schedule);
	if (!status)
		status = timeline_schedule(timeline, schedule, costs, &s->arena, &s->diags);
	schedule_free(schedule);
	if (!status)
		*run = (struct picture_run){
			.policy = policy->text,
			.timeline = timeline,
			.time = TIME_COSTS,
			.workers = 1,
			.share = 1,
			/* with --spec, auto is the budget of --memory */
			.budget = policy->kind == POLICY_budget || policy->kind == POLICY_auto ? policy->number : 0};
	return status;
}

static const char *spec_subtitle(struct subject *subject)
{
	const struct spec *spec = &subject->spec;
	return arena_printf(&subject->session->arena, "%s%s%lld step%s", spec->name ? spec->name : "",
	                    spec->name ? ", " : "", (long long)spec->costs.steps, spec->costs.steps == 1 ? "" : "s");
}

enum status plot_subject(struct plot *plot, struct subject *subject, const struct policy *const *policies,
                         const struct policy_row *rows, size_t count)
{
	enum { SHOWN = 3 };
	struct session *s = subject->session;
	struct picture_run runs[SHOWN];
	struct job jobs[SHOWN] = {0};
	struct picture picture = {.rows = rows, .row_count = count, .runs = runs};
	enum status status = STATUS_OK;
	for (size_t i = 0; i < count && !status; i++) {
		if (rows[i].least_bytes || (count > SHOWN && !rows[i].knee))
			continue;
		size_t n = picture.run_count++;
		if (subject->has_spec)
			status = add_spec_run(subject, policies[i], &runs[n]);
		else
			status = add_run(s, &subject->type, policies[i], &jobs[n], &runs[n]);
		if (!status && !picture.subtitle)
			picture.subtitle = subject->has_spec ? spec_subtitle(subject) : subtitle_of(s, &jobs[n]);
	}
	if (!status)
		status = plot_draw(s, plot, &picture);
	for (size_t i = 0; i < SHOWN; i++)
		job_free(&jobs[i]);
	return status;
}

/* Gradient runs. */

enum status watch_open(struct session *s, struct watch *watch, const struct gradient_result *result)
{
	*watch = (struct watch){.session = s, .result = result};
	enum status status = plot_open(s, &watch->plot);
	if (status || !s->line.given[OPTION_TRACE])
		return status;
	status = session_open_text(s, &watch->trace_file, s->line.values[OPTION_TRACE], false);
	watch->trace_open = !status;
	const char *title = arena_printf(&s->arena, "ckptc grad --policy %s %s", s->set.policy.text,
	                                 s->line.text   ? s->line.text
	                                 : s->line.file ? s->line.file
	                                                : "");
	if (!status && !title)
		status = diag_memory(&s->diags);
	if (!status)
		trace_begin(&watch->trace, &watch->trace_file.text, title);
	else
		watch_abort(watch);
	return status;
}

bool watch_wanted(const struct watch *watch) { return watch->plot.open || watch->trace_open; }

/*
 * The picture is of the first tile of the last array, and begins at its first step. Reading the input may take most of
 * a short run, and is not drawn.
 */
static enum status follow(struct watch *watch, const struct event *event)
{
	struct session *s = watch->session;
	const int64_t steps = watch->result->job.whole.steps;
	enum { FIRST_COLUMN = 1 }; /* microseconds */
	if (event->worker != 0)
		return STATUS_OK;
	if (event->kind == EVENT_START) {
		watch->following = event->tile == 0;
		if (!watch->following)
			return STATUS_OK;
		watch->stepping = false;
		if (watch->has_timeline) {
			timeline_clear(&watch->timeline, steps, FIRST_COLUMN);
			return STATUS_OK;
		}
		watch->has_timeline = true;
		return timeline_init(&watch->timeline, steps, FIRST_COLUMN, &s->arena, &s->diags);
	}
	if (!watch->following)
		return STATUS_OK;
	if (!watch->stepping)
		watch->begun = event->from;
	watch->stepping |= event->kind < EVENT_SPILL;
	struct event moved = *event;
	/* Disk events may have begun earlier. */
	moved.from = event->from > watch->begun ? event->from - watch->begun : 0;
	moved.to = event->to > watch->begun ? event->to - watch->begun : 0;
	return timeline_add(&watch->timeline, &moved) ? STATUS_OK : diag_memory(&s->diags);
}

enum status watch_event(void *context, const struct event *event)
{
	struct watch *watch = context;
	if (watch->trace_open)
		trace_put(&watch->trace, &watch->result->job, event);
	return watch->plot.open ? follow(watch, event) : STATUS_OK;
}

static enum status draw_run(struct watch *watch)
{
	struct session *s = watch->session;
	const struct gradient_result *result = watch->result;
	struct picture picture = {0};
	struct picture_run run;
	struct policy_row row = {.counters = result->measured};
	if (result->has_job && watch->has_timeline) {
		timeline_finish(&watch->timeline);
		run = run_of(&result->job, &watch->timeline);
		run.time = TIME_MICROSECONDS;
		row.policy = result->job.policy->text;
		picture = (struct picture){
			.subtitle = subtitle_of(s, &result->job), .rows = &row, .row_count = 1, .runs = &run, .run_count = 1};
	}
	return plot_draw(s, &watch->plot, &picture);
}

enum status watch_close(struct watch *watch)
{
	struct session *s = watch->session;
	enum status status = STATUS_OK;
	if (watch->trace_open) {
		trace_end(&watch->trace);
		watch->trace_open = false;
		status = session_close_text(&watch->trace_file, STATUS_OK);
		if (!status && watch->trace.left_out)
			diag_warn(&s->diags, "the trace holds the first %lld slices; %lld more are left out",
			          (long long)watch->trace.slices, (long long)watch->trace.left_out);
	}
	if (!status && watch->plot.open)
		status = draw_run(watch);
	watch_abort(watch);
	return status;
}

void watch_abort(struct watch *watch)
{
	plot_abort(&watch->plot);
	if (watch->trace_open)
		output_abort(&watch->trace_file.output);
	watch->trace_open = false;
}
