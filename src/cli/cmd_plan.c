/* ckptc plan: what policies will cost, before anything runs. */
#include <string.h>

#include "cli/dump.h"
#include "cli/plot.h"
#include "report/counters.h"

/* Policies of a plan without --policy. */
static const char *const usual[] = {"save-all", "nothing",   "dots",      "sqrt",      "every:2",  "every:4",
                                    "every:8",  "recursive", "revolve:2", "revolve:4", "revolve:8"};
enum { USUAL = sizeof usual / sizeof *usual };

static enum status plan_one(struct session *s, const struct type *type, const struct policy *policy,
                            struct policy_row *row, struct job *job)
{
	struct job_options options = session_job_options(s, policy);
	row->policy = policy->text;
	enum status status = job_make(job, &s->chain, type, &options, &s->arena, &s->diags);
	row->counters = job->predicted;
	if (!status && policy->kind == POLICY_auto)
		row->policy = job->policy->text;
	return status;
}

/* Rows that no other beats in both overhead and peak; the knee is the one nearest to the ideal corner. */
static void mark_front(struct policy_row *rows, size_t count)
{
	double most_peak = 1, most_overhead = 1e-9, best = 1e300;
	size_t knee = count;
	for (size_t i = 0; i < count; i++) {
		if (rows[i].infeasible)
			continue;
		rows[i].pareto = true;
		for (size_t k = 0; k < count && rows[i].pareto; k++) {
			const struct policy_row *a = &rows[k], *b = &rows[i];
			bool no_worse = a->counters.peak_bytes <= b->counters.peak_bytes && row_overhead(a) <= row_overhead(b);
			bool better = a->counters.peak_bytes < b->counters.peak_bytes || row_overhead(a) < row_overhead(b);
			rows[i].pareto = a->infeasible || !(no_worse && better);
		}
		most_peak = (double)rows[i].counters.peak_bytes > most_peak ? (double)rows[i].counters.peak_bytes : most_peak;
		most_overhead = row_overhead(&rows[i]) > most_overhead ? row_overhead(&rows[i]) : most_overhead;
	}
	for (size_t i = 0; i < count; i++) {
		double x = (double)rows[i].counters.peak_bytes / most_peak, y = row_overhead(&rows[i]) / most_overhead;
		if (rows[i].pareto && x * x + y * y < best) {
			best = x * x + y * y;
			knee = i;
		}
	}
	if (knee < count && count > 1)
		rows[knee].knee = true;
}

static enum status collect(struct session *s, const struct type *type, const char *const *texts, size_t count,
                           struct policy_row *rows)
{
	static const struct policy save_all = {.kind = POLICY_save_all, .text = "save-all"};
	struct policy_row base = {0};
	struct job job = {0};
	enum status status = plan_one(s, type, &save_all, &base, &job);
	job_free(&job);
	for (size_t i = 0; i < count && !status; i++) {
		struct policy *policy = arena_alloc(&s->arena, sizeof *policy);
		if (!policy)
			return diag_memory(&s->diags);
		memset(&job, 0, sizeof job);
		status = policy_parse(policy, texts[i], &s->arena, &s->diags);
		policy->max_checkpoints = s->max_checkpoints;
		if (!status)
			status = check_policy_names(s, policy);
		if (!status)
			status = plan_one(s, type, policy, &rows[i], &job);
		rows[i].save_all_peak = base.counters.peak_bytes;
		rows[i].saved_bytes = base.counters.stored_bytes - rows[i].counters.stored_bytes;
		if (!status && count == 1)
			warn_useless(s, &job);
		job_free(&job);
	}
	return status;
}

static enum status print_schedules(struct session *s, const struct type *type, struct plot *plot)
{
	struct text_file file;
	struct job job = {0};
	struct policy_row row = {0};
	enum status status = check_policy_names(s, &s->policy);
	if (!status)
		status = plan_one(s, type, &s->policy, &row, &job);
	if (!status)
		status = session_open_text(s, &file, NULL, false);
	if (!status) {
		status = put_schedule(s, &job, &file.text, s->format == REPORT_JSON);
		enum status closed = session_close_text(&file);
		status = status ? status : closed;
	}
	job_free(&job);
	if (!status && plot->open)
		status = plot_policies(s, plot, type, &row, 1);
	return status;
}

static enum status plan(struct session *s, struct plot *plot)
{
	struct type type;
	enum status status = session_load_chain(s);
	if (!status)
		status = session_input_type(s, &type);
	if (!status)
		status = session_bind(s, false, dtype_compute(type.dtype));
	if (status)
		return status;
	if (s->given[OPTION_SCHEDULE])
		return print_schedules(s, &type, plot);
	static const char *const automatic[] = {"auto"};
	const char *const *texts = s->policy_count ? s->policies : s->memory ? automatic : usual;
	size_t count = s->policy_count ? s->policy_count : s->memory ? 1 : USUAL;
	struct policy_row *rows = arena_array(&s->arena, count, sizeof *rows);
	if (!rows)
		return diag_memory(&s->diags);
	status = collect(s, &type, texts, count, rows);
	if (status)
		return status;
	mark_front(rows, count);
	struct text_file file;
	status = session_open_text(s, &file, NULL, false);
	if (status)
		return status;
	status = report_policies(rows, count, s->format, &file.text, &s->arena, &s->diags);
	enum status closed = session_close_text(&file);
	status = status ? status : closed;
	return status || !plot->open ? status : plot_policies(s, plot, &type, rows, count);
}

enum status command_plan(struct session *s)
{
	struct plot plot;
	enum status status = plot_open(s, &plot);
	if (!status)
		status = plan(s, &plot);
	plot_abort(&plot);
	return status;
}
