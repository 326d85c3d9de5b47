/*
 * Files are opened before the work, so that a wrong name fails early. If the command fails, they are removed.
 * Tests: tests/scripts/check-plots, tests/cases/grad.test
 */
#include "cli/plot.h"

#include <stdio.h>
#include <string.h>

#include "cli/job.h"

enum status plot_open(struct session *s, struct text_file **plot)
{
	const char *path = s->line.values[OPTION_PLOT], *dot = path ? strrchr(path, '.') : NULL;
	*plot = NULL;
	if (!path)
		return STATUS_OK;
	if (!dot || dot == path || (strcmp(dot, ".html") != 0 && strcmp(dot, ".svg") != 0))
		return usage_error(s, "--plot takes FILE.svg or FILE.html, not '%s'", path);
	return session_open_text(s, plot, path, false);
}

/* Returns the chain's text or file, or the file of costs, as the command line gives it. */
static const char *subject_word(const struct session *s)
{
	return s->line.text ? s->line.text : s->line.file ? s->line.file : s->line.values[OPTION_SPEC];
}

enum status plot_draw(struct session *s, struct text_file *plot, struct picture *picture)
{
	if (!plot)
		return STATUS_OK;
	picture->html = !strcmp(strrchr(s->line.values[OPTION_PLOT], '.'), ".html");
	picture->title = arena_printf(&s->arena, "ckptc %s: %s", s->command->name, subject_word(s));
	TRY_ALLOC(picture->title, &s->diags);
	picture->arena = &s->arena;
	picture_draw(picture, &plot->text);
	TRY_ALLOC(!s->arena.failed, &s->diags);
	return session_close_text(plot);
}

/* Returns what a picture shows of JOB and TIMELINE, whose times have the unit TIME. */
static struct picture_run run_of(const struct job *job, const struct timeline *timeline, enum picture_time time)
{
	return (struct picture_run){.policy = job->policy->text,
	                            .timeline = timeline,
	                            .time = time,
	                            .throughout = job->predicted.peak_bytes - job->slabs,
	                            .workers = job->tiles.workers,
	                            .share = job->tile.slab > 0 ? (double)job->slabs / (double)job->tile.slab : 1,
	                            .budget = job->policy->kind == POLICY_budget ? job->policy->number : 0};
}

static const char *subtitle_of(struct session *s, const struct job *job)
{
	char type[TYPE_TEXT], tiles[64] = "";
	const int64_t tile = job->tile.rows > 0 ? job->tile.rows : 1;
	if (job->tiles.tiled && job->tiles.rows > tile)
		snprintf(tiles, sizeof tiles, "; schedules are of one tile of %lld",
		         (long long)((job->tiles.rows + tile - 1) / tile));
	return arena_printf(&s->arena, "%s, %lld step%s%s%s", type_format(&job->input, type), (long long)job->whole.steps,
	                    job->whole.steps == 1 ? "" : "s", tiles,
	                    policy_by_value(&job->scheduled) ? "; a policy by value runs the chain as one region" : "");
}

static enum status add_run(struct subject *subject, const struct policy *policy, struct picture *picture,
                           struct picture_run *run, struct timeline *timeline)
{
	struct session *s = subject->session;
	struct job_options options = session_job_options(s, policy);
	options.unexecuted = true;
	job_free(&s->job);
	TRY(job_make(&s->context, &s->job, &s->chain, &subject->type, &options));
	TRY(timeline_plan(timeline, &s->job));
	*run = run_of(&s->job, timeline, TIME_PASSES);
	if (!picture->subtitle)
		picture->subtitle = subtitle_of(s, &s->job);
	return STATUS_OK;
}

/* Adds a schedule of --spec: its bytes are those of the cost walk, its times are in the unit of the costs. */
static enum status add_spec_run(struct subject *subject, const struct policy *policy, struct picture *picture,
                                struct picture_run *run, struct timeline *timeline)
{
	struct session *s = subject->session;
	struct schedule *schedule = NULL;
	const struct spec *spec = &subject->spec;
	TRY(spec_schedule(&s->context, spec, policy, &schedule));
	const enum status status = timeline_schedule(&s->context, timeline, schedule, &spec->costs);
	schedule_free(schedule);
	/* With --spec, `auto` is the budget of --memory; subject_policy has set its number. */
	const bool budgeted = policy->kind == POLICY_budget || policy->kind == POLICY_auto;
	*run = (struct picture_run){.policy = policy->text,
	                            .timeline = timeline,
	                            .time = TIME_COSTS,
	                            .workers = 1,
	                            .share = 1,
	                            .budget = budgeted ? policy->number : 0};
	picture->subtitle = arena_printf(&s->arena, "%s%s%lld step%s", spec->name ? spec->name : "", spec->name ? ", " : "",
	                                 (long long)spec->costs.steps, spec->costs.steps == 1 ? "" : "s");
	return status;
}

enum status plot_subject(struct text_file *plot, struct subject *subject, const struct policy *const *policies,
                         const struct policy_row *rows, size_t count)
{
	enum { SHOWN = 3 };
	struct picture_run runs[SHOWN];
	struct timeline timelines[SHOWN];
	struct picture picture = {.rows = rows, .row_count = count, .runs = runs};
	for (size_t i = 0; plot && i < count; i++) {
		if (rows[i].least_bytes || (count > SHOWN && !rows[i].knee))
			continue;
		const size_t n = picture.run_count++;
		TRY((subject->has_spec ? add_spec_run : add_run)(subject, policies[i], &picture, &runs[n], &timelines[n]));
	}
	return plot_draw(subject->session, plot, &picture);
}

enum status watch_open(struct session *s, struct watch *watch, const struct gradient_result *result)
{
	*watch = (struct watch){.session = s, .result = result};
	TRY(plot_open(s, &watch->plot));
	if (!s->line.given[OPTION_TRACE])
		return STATUS_OK;
	TRY(session_open_text(s, &watch->trace_file, s->line.values[OPTION_TRACE], false));
	const char *title = arena_printf(&s->arena, "ckptc grad --policy %s %s", s->set.policy.text, subject_word(s));
	TRY_ALLOC(title, &s->diags);
	trace_begin(&watch->trace, &watch->trace_file->text, title);
	return STATUS_OK;
}

/*
 * Adds EVENT to the timeline if it belongs to the first tile of an array; each array replaces the one before. The
 * timeline begins at the tile's first step: reading the input may take most of a short run, and is not drawn.
 */
static enum status follow_event(struct watch *watch, const struct event *event)
{
	struct session *s = watch->session;
	const int64_t steps = watch->result->job.whole.steps;
	enum { FIRST_COLUMN = 1 }; /* microseconds of a column, before the timeline widens it */
	if (event->kind == EVENT_START) {
		watch->following = event->tile == 0;
		if (!watch->following)
			return STATUS_OK;
		watch->stepping = false;
		if (watch->has_timeline)
			timeline_clear(&watch->timeline, steps, FIRST_COLUMN);
		else
			TRY(timeline_init(&s->context, &watch->timeline, steps, FIRST_COLUMN));
		watch->has_timeline = true;
		return STATUS_OK;
	}
	if (!watch->following)
		return STATUS_OK;
	if (!watch->stepping)
		watch->begun = event->from;
	watch->stepping |= event->kind < EVENT_SPILL;
	struct event moved = *event;
	/* A disk event may begin before the first step. */
	moved.from = event->from > watch->begun ? event->from - watch->begun : 0;
	moved.to = event->to > watch->begun ? event->to - watch->begun : 0;
	TRY_ALLOC(timeline_add(&watch->timeline, &moved), &s->diags);
	return STATUS_OK;
}

enum status watch_event(void *context, const struct event *event)
{
	struct watch *watch = context;
	if (watch->trace_file)
		trace_put(&watch->trace, &watch->result->job, event);
	return watch->plot && event->worker == 0 ? follow_event(watch, event) : STATUS_OK;
}

enum status watch_close(struct watch *watch)
{
	struct session *s = watch->session;
	const struct gradient_result *result = watch->result;
	if (watch->trace_file) {
		trace_end(&watch->trace);
		TRY(session_close_text(watch->trace_file));
		if (watch->trace.left_out)
			diag_warn(&s->diags, "the trace holds the first %lld slices; %lld more are left out",
			          (long long)watch->trace.slices, (long long)watch->trace.left_out);
	}
	struct picture picture = {0};
	struct picture_run run;
	struct policy_row row;
	if (result->has_job && watch->has_timeline && watch->plot) {
		TRY(gradient_row(s, result, &row));
		timeline_finish(&watch->timeline);
		run = run_of(&result->job, &watch->timeline, TIME_MICROSECONDS);
		picture = (struct picture){
			.subtitle = subtitle_of(s, &result->job), .rows = &row, .row_count = 1, .runs = &run, .run_count = 1};
	}
	return plot_draw(s, watch->plot, &picture);
}
