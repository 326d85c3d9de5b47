/*
 * A chain is planned as a job, to the byte and with its tiles; --spec by its costs alone.
 * Tests: tests/cases/plan.test, tests/cases/spec.test
 */
#include "cli/subject.h"

#include "budget/budget.h"
#include "cli/job.h"
#include "memory/cost_walk.h"
#include "report/explanation.h"

enum status subject_open(struct subject *subject, struct session *s)
{
	static const enum option_id others[] = {
		OPTION_INPUT,   OPTION_FROM,  OPTION_ASSUME,    OPTION_CAST,       OPTION_SHAPE, OPTION_DTYPE,   OPTION_PARAM,
		OPTION_PARAMS,  OPTION_STORE, OPTION_THREADS,   OPTION_TILE,       OPTION_COSTS, OPTION_JOURNAL, OPTION_MISSING,
		OPTION_SPECIAL, OPTION_VALUE, OPTION_COTANGENT, OPTION_SAVE_COSTS, OPTION_OF,    OPTION_AT};
	*subject = (struct subject){.session = s, .has_spec = s->line.given[OPTION_SPEC]};
	if (!subject->has_spec) {
		TRY(session_load_chain(s));
		TRY(session_bind_types(s, &subject->type));
		return session_open_costs(s);
	}
	const char *refused = s->line.file || s->line.text ? "chain" : NULL;
	for (size_t i = 0; i < sizeof others / sizeof *others && !refused; i++)
		if (s->line.given[others[i]])
			refused = option_shown(s, others[i]);
	if (refused)
		return usage_error(s, "--spec plans from the costs in its file alone: it takes no %s", refused);
	TRY(session_read_file(s, s->line.values[OPTION_SPEC], &s->source));
	TRY(spec_read(&subject->spec, &s->source, &s->arena, &s->diags));
	subject->spec.on_disk = s->line.given[OPTION_SPILL];
	subject->spec.disk_bytes = s->set.spill_limit;
	return STATUS_OK;
}

enum status subject_policy(struct subject *subject, const struct policy *given, const struct policy **policy)
{
	struct session *s = subject->session;
	struct policy *made = arena_alloc(&s->arena, sizeof *made);
	TRY_ALLOC(made, &s->diags);
	*policy = made;
	*made = *given;
	made->max_checkpoints = s->set.max_checkpoints;
	if (!subject->has_spec)
		return STATUS_OK;
	return spec_policy(&s->context, &subject->spec, s->set.memory, made);
}

static enum status plan_spec(struct subject *subject, const struct policy *policy, struct policy_row *row,
                             struct report *to, struct diags *diags)
{
	struct session *s = subject->session;
	struct schedule *schedule = NULL;
	double time = 0;
	const struct context context = {s->allocator, &s->arena, diags};
	enum status status = spec_plan(&context, &subject->spec, policy, &row->counters, &time, &schedule);
	row->policy = policy->text;
	row->costs = session_costs_name(s);
	row->predicted_ms = time * subject->spec.milliseconds;
	if (!status && to)
		report_actions(to, schedule, policy->text, subject->spec.costs.steps);
	schedule_free(schedule);
	if (status == STATUS_LIMIT && (policy->kind == POLICY_budget || policy->kind == POLICY_auto))
		(void)spec_least(&context, &subject->spec, &row->least_bytes);
	if (row->least_bytes <= policy->number)
		row->least_bytes = 0;
	return status;
}

/* Returns the milliseconds that JOB takes by --costs; 0 without --costs, or if these are not times. */
static double predicted_ms(const struct session *s, const struct job *job)
{
	const struct counters *c = &job->predicted;
	const double all = c->forward_cost + c->backward_cost + c->recomputed_cost;
	if (!s->costs)
		return 0;
	if (s->costs->spec)
		return all * s->costs->spec->milliseconds;
	const double tiles = job->tiles.tiled ? (double)job->tiles.rows / (double)job->tiles.tile : 1;
	return 1e-6 * all * tiles / job->tiles.workers;
}

/* Makes JOB from subject->base, which the first call prepares in the session's arena. */
static enum status make_job(struct subject *subject, const struct context *context, struct job *job,
                            const struct job_options *options)
{
	struct session *s = subject->session;
	const struct context own = {s->allocator, &s->arena, context->diags};
	struct job *base;
	if (!subject->base) {
		base = arena_alloc(&s->arena, sizeof *base);
		TRY_ALLOC(base, context->diags);
		TRY(job_prepare(&own, base, &s->chain, &subject->type, options));
		subject->base = base;
	}
	return job_make_from(context, job, subject->base, options);
}

enum status subject_plan(struct subject *subject, const struct policy **policy, struct policy_row *row,
                         struct report *to, struct diags *diags)
{
	struct session *s = subject->session;
	if (subject->has_spec)
		return plan_spec(subject, *policy, row, to, diags);
	struct job job = {0};
	struct arena arena; /* of this policy alone: there may be many, and long chains */
	arena_init(&arena, s->allocator);
	struct job_options options = session_job_options(s, *policy);
	const struct context context = {s->allocator, &arena, diags};
	options.unexecuted = true;
	if (subject->portion)
		options.portion = *subject->portion;
	enum status status = make_job(subject, &context, &job, &options);
	row->counters = job.predicted;
	row->costs = session_costs_name(s);
	row->predicted_ms = predicted_ms(s, &job);
	(void)because_describe(&job.tiles.because, s->chain.source, &s->arena, &row->whole_because); /* checked below */
	row->least_bytes = job.least_bytes;
	struct policy *kept = arena_alloc(&s->arena, sizeof *kept);
	if (kept && (*policy)->kind == POLICY_auto && job.policy && job.policy->text) {
		*kept = *job.policy;
		kept->text = arena_printf(&s->arena, "%s", kept->text);
		*policy = kept;
	}
	row->policy = (*policy)->text;
	if (!status && s->arena.failed)
		status = diag_memory(&s->diags);
	if (!status && to)
		report_schedule(to, &job);
	if (!status && subject->warns && s->set.policies.count == 1)
		warn_useless(s, &job);
	if (!status && subject->warns)
		warn_unjournalled(s, &job);
	job_free(&job);
	arena_free(&arena);
	return status;
}

/* Writes the costs of JOB's steps to --save-costs. Costs of a file keep its unit, and so are read back exactly. */
static enum status write_costs(struct session *s, struct job *job)
{
	const struct spec *given = s->costs ? s->costs->spec : NULL;
	struct step_costs costs;
	struct text_file *file;
	for (size_t i = 0; i < job->tile.lowered.distinct_count; i++) /* --costs adds what blocks recompute */
		job->tile.compiled.times[i].recompute = 0;
	TRY(compiled_costs(&job->context, &job->tile.compiled, true, job->costs.fixed, &costs));
	costs.spill_write = job->costs.spill_write;
	costs.spill_read = job->costs.spill_read;
	TRY(session_open_text(s, &file, s->line.values[OPTION_SAVE_COSTS], false));
	spec_write(file->report.text, &costs, !s->costs ? "none" : given ? given->unit : "ns");
	return session_close_text(file);
}

enum status subject_save_costs(struct subject *subject)
{
	struct session *s = subject->session;
	struct job job;
	struct job_options options = session_job_options(s, &policy_save_all);
	options.unexecuted = true;
	TRY(job_make(&s->context, &job, &s->chain, &subject->type, &options));
	const enum status status =
		job.whole.steps ? write_costs(s, &job)
						: diag_file(&s->diags, STATUS_USAGE, NULL, -1, "--save-costs: the chain has no steps");
	job_free(&job);
	return status;
}

static enum status plan_spec_budgets(struct subject *subject, const struct policy *const *policies, size_t count,
                                     struct policy_row *rows)
{
	struct session *s = subject->session;
	const struct spec *spec = &subject->spec;
	struct budget_goal *goals = arena_array(&s->arena, count, sizeof *goals);
	int64_t least = 0;
	TRY_ALLOC(goals, &s->diags);
	for (size_t i = 0; i < count; i++)
		goals[i].bytes = policies[i]->number;
	enum status status = spec_budgets(&s->context, spec, goals, count);
	for (size_t i = 0; i < count && !status; i++) {
		double time = 0;
		rows[i].policy = policies[i]->text;
		rows[i].costs = session_costs_name(s);
		if (goals[i].schedule)
			status = cost_walk(&s->context, goals[i].schedule, &spec->costs, NULL, &rows[i].counters, &time);
		if (goals[i].schedule && !status)
			status = spec_bound(&s->context, spec, &goals[i], &rows[i].counters);
		else if (!least)
			status = spec_least(&s->context, spec, &least);
		rows[i].least_bytes = goals[i].schedule ? 0 : least;
		rows[i].predicted_ms = time * spec->milliseconds;
	}
	for (size_t i = 0; i < count; i++)
		schedule_free(goals[i].schedule);
	return status;
}

enum status subject_budgets(struct subject *subject, const struct policy *const *policies, size_t count,
                            struct policy_row *rows)
{
	struct session *s = subject->session;
	if (subject->has_spec)
		return plan_spec_budgets(subject, policies, count, rows);
	struct arena arena;
	arena_init(&arena, s->allocator);
	struct job_options options = session_job_options(s, policies[0]);
	options.unexecuted = true;
	const struct context context = {s->allocator, &arena, &s->diags};
	struct job *jobs = arena_array(&arena, count, sizeof *jobs);
	for (size_t i = 0; jobs && i < count; i++)
		jobs[i] = (struct job){.policy = policies[i]};
	enum status status =
		jobs ? job_make_budgets(&context, &s->chain, &subject->type, &options, jobs, count) : diag_memory(&s->diags);
	for (size_t i = 0; i < count && !status; i++) {
		rows[i] = (struct policy_row){.policy = policies[i]->text,
		                              .counters = jobs[i].predicted,
		                              .costs = session_costs_name(s),
		                              .predicted_ms = predicted_ms(s, &jobs[i]),
		                              .least_bytes = jobs[i].least_bytes};
		if (!because_describe(&jobs[i].tiles.because, s->chain.source, &s->arena, &rows[i].whole_because))
			status = diag_memory(&s->diags);
	}
	for (size_t i = 0; jobs && i < count; i++)
		job_free(&jobs[i]);
	arena_free(&arena);
	return status;
}

int64_t sweep_next(int64_t n)
{
	enum { DENSE = 32, PERCENT = 25 };
	return n + (n < DENSE ? 1 : n * PERCENT / 100);
}

static enum status kept_of_chain(struct subject *subject, const struct policy *policy, struct kept_list *list)
{
	struct session *s = subject->session;
	struct held_list held = {0};
	TRY(session_make_job(s, policy, &subject->type));
	TRY(job_residuals(&s->job, &held));
	list->row.counters = s->job.predicted;
	list->region = policy_by_value(&s->job.scheduled);
	list->rows = arena_array(&s->arena, held.count + 1, sizeof *list->rows);
	TRY_ALLOC(list->rows, &s->diags);
	for (size_t i = 0; i < held.count; i++) {
		char type[TYPE_TEXT];
		if (held.rows[i].origin.argument && held.rows[i].origin.param != NO_VALUE)
			continue; /* a param is in memory under every policy, and none computes it again */
		held.rows[i].origin.shown = held.rows[i].origin.names; /* its latest name: the same under both policies */
		list->rows[list->count++] =
			(struct kept){.what = residual_describe(&s->chain, &held.rows[i], &s->arena),
		                  .type = arena_printf(&s->arena, "%s", type_format(held.rows[i].type, type)),
		                  .bytes = held.rows[i].bytes,
		                  .step = held.rows[i].step};
	}
	TRY_ALLOC(!s->arena.failed, &s->diags);
	return STATUS_OK;
}

static enum status kept_of_schedule(struct subject *subject, const unsigned char *flags, struct kept_list *list)
{
	struct session *s = subject->session;
	const struct spec *spec = &subject->spec;
	size_t count = 0;
	int64_t at = 0;
	for (int64_t i = 0; i < spec->costs.steps; i++)
		count += (size_t) !!(flags[i] & HELD_RESIDUAL) + !!(flags[i] & HELD_STATE);
	list->rows = arena_array(&s->arena, count + 1, sizeof *list->rows);
	TRY_ALLOC(list->rows, &s->diags);
	for (size_t run = 0; run < spec->costs.run_count; run++) {
		const struct step_run *r = &spec->costs.runs[run];
		const char *name = spec->names[run] ? spec->names[run] : "a step";
		const char *state = arena_printf(&s->arena, "input of %s", name);
		const char *residual = arena_printf(&s->arena, "residuals of %s", name);
		TRY_ALLOC(state && residual, &s->diags);
		for (int64_t i = 0; i < r->count; i++, at++) {
			if (flags[at] & HELD_STATE)
				list->rows[list->count++] = (struct kept){state, NULL, r->cost.state, at};
			if (flags[at] & HELD_RESIDUAL)
				list->rows[list->count++] = (struct kept){residual, NULL, r->cost.residual, at};
		}
	}
	return STATUS_OK;
}

enum status subject_kept(struct subject *subject, const struct policy *policy, struct kept_list *list)
{
	struct session *s = subject->session;
	struct schedule *schedule = NULL;
	double time;
	*list = (struct kept_list){.row = {.policy = policy->text, .costs = session_costs_name(s)}};
	if (!subject->has_spec)
		return kept_of_chain(subject, policy, list);
	TRY(spec_plan(&s->context, &subject->spec, policy, &list->row.counters, &time, &schedule));
	list->row.predicted_ms = time * subject->spec.milliseconds;
	const unsigned char *flags = spec_held(&subject->spec, schedule, &s->arena);
	const enum status status = flags ? kept_of_schedule(subject, flags, list) : diag_memory(&s->diags);
	schedule_free(schedule);
	return status;
}
