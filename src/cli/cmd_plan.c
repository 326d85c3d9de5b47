/*
 * ckptc plan: what policies cost, before anything runs. Without --schedule and --diff it plans those of --policy and
 * --online in their order, or that of --memory, then those of --sweep; without these options, a list of usual ones.
 * Tests: tests/cases/plan.test
 */
#include <math.h>
#include <string.h>

#include "cli/job.h"
#include "cli/plot.h"

struct planning {
	struct session *session;
	struct subject subject;
	struct text_file *plot;
	struct progress progress;
	const struct policy **policies;
	size_t count, capacity;
	struct policy_row *rows, save_all;
};

static enum status add_policy(struct planning *p, const struct policy *policy)
{
	struct session *s = p->session;
	const struct policy **added = arena_append(&s->arena, &p->policies, &p->count, &p->capacity, sizeof *added);
	TRY_ALLOC(added, &s->diags);
	return subject_policy(&p->subject, policy, added);
}

/* Adds the policy of KIND with NUMBER. */
static enum status add_numbered(struct planning *p, enum policy_kind kind, int64_t number)
{
	struct policy policy;
	TRY_ALLOC(policy_make(&policy, kind, number, &p->session->arena), &p->session->diags);
	return add_policy(p, &policy);
}

/* Plans *POLICY by subject_plan. An infeasible budget is no error: ROW then has least_bytes. The caller zeroes ROW. */
static enum status try_policy(struct planning *p, const struct policy **policy, struct policy_row *row)
{
	struct session *s = p->session;
	struct diags own;
	diags_init(&own, &s->arena);
	const enum status status = subject_plan(&p->subject, policy, row, NULL, &own);
	if (status == STATUS_LIMIT && row->least_bytes > 0 && !own.exhausted)
		return STATUS_OK;
	row->least_bytes = 0;
	diags_take(&s->diags, &own);
	return status;
}

/* Adds budgets from the least that works (1 byte if that works) to save-all's peak, in geometric progression. */
static enum status sweep_memory(struct planning *p)
{
	enum { POINTS = 24, POINTS_LONG = 12, LONG = 500 };
	const struct policy byte = {.kind = POLICY_budget, .text = "budget:1", .number = 1}, *policy;
	struct policy_row row = {0};
	int64_t most = p->save_all.counters.peak_bytes, before = 0;
	int points = p->save_all.counters.steps > LONG ? POINTS_LONG : POINTS;
	TRY(subject_policy(&p->subject, &byte, &policy));
	TRY(try_policy(p, &policy, &row));
	const int64_t least = row.least_bytes ? row.least_bytes : 1;
	for (int i = 0; i < points; i++) {
		double share = (double)i / (points - 1);
		int64_t bytes = (int64_t)((double)least * pow((double)most / (double)least, share));
		bytes = i == 0 || bytes < least ? least : i == points - 1 ? most : bytes;
		if (bytes > before && (i == 0 || bytes <= most))
			TRY(add_numbered(p, POLICY_budget, bytes));
		before = bytes;
	}
	return STATUS_OK;
}

/* Adds the policies to plan. *OTHERS is how many are not of a sweep. */
static enum status choose_policies(struct planning *p, size_t *others)
{
	struct session *s = p->session;
	const struct policy_list *given = &s->set.policies;
	const char *sweep = s->line.values[OPTION_SWEEP];
	/*
	 * Of the usual, those by value are omitted with --spec, and if they would unroll over LONG_BY_VALUE steps. Revolve
	 * takes several seconds to walk over LONG_WALK unequal steps.
	 */
	enum { LONG_BY_VALUE = 100000, LONG_WALK = 4000000 };
	static const struct {
		enum policy_kind kind;
		int64_t number;
	} usual[] = {{POLICY_save_all, 0}, {POLICY_nothing, 0}, {POLICY_dots, 0},   {POLICY_sqrt, 0},
	             {POLICY_every, 2},    {POLICY_every, 4},   {POLICY_every, 8},  {POLICY_recursive, 0},
	             {POLICY_revolve, 2},  {POLICY_revolve, 4}, {POLICY_revolve, 8}};
	const int64_t steps = p->save_all.counters.steps;
	const bool left_out = p->subject.has_spec || steps > LONG_BY_VALUE;
	for (size_t i = 0; i < given->count; i++)
		TRY(add_policy(p, &given->items[i]));
	if (s->set.memory && !given->count)
		TRY(add_policy(p, &s->set.policy));
	const bool listed = !given->count && !s->set.memory && !sweep;
	const bool walks = p->subject.has_spec && p->subject.spec.costs.run_count > 1 && steps > LONG_WALK;
	for (size_t i = 0; i < sizeof usual / sizeof *usual && listed; i++)
		if (!(left_out && policy_table[usual[i].kind].traits & TRAIT_BY_VALUE) &&
		    !(walks && usual[i].kind == POLICY_revolve))
			TRY(add_numbered(p, usual[i].kind, usual[i].number));
	if (walks && listed) {
		diag_warn(&s->diags, "the rows of revolve are left out: %lld unequal steps take long to plan",
		          (long long)steps);
		diag_hint(&s->diags, "--policy revolve:2 plans one of them");
	}
	*others = p->count;
	if (sweep && !strcmp(sweep, "memory"))
		return sweep_memory(p);
	for (int64_t n = 1; sweep && n < steps; n = sweep_next(n))
		TRY(add_numbered(p, POLICY_every, n));
	return sweep ? add_numbered(p, POLICY_every, steps > 0 ? steps : 1) : STATUS_OK;
}

/* True if A and B have the same figures. */
static bool is_same(const struct counters *a, const struct counters *b)
{
	return a->evaluations == b->evaluations && a->checkpoints == b->checkpoints && a->stored_bytes == b->stored_bytes &&
	       a->peak_bytes == b->peak_bytes && a->spill_writes == b->spill_writes && a->spill_reads == b->spill_reads &&
	       !(a->recomputed_cost < b->recomputed_cost) && !(a->recomputed_cost > b->recomputed_cost);
}

/* Leaves out rows of a sweep, the rows from FIRST on, that have the figures of the row before: one point of the curve. */
static void merge_sweep(struct planning *p, size_t first)
{
	size_t count = first;
	for (size_t i = first; i < p->count; i++) {
		if (count > first && is_same(&p->rows[count - 1].counters, &p->rows[i].counters))
			continue;
		p->rows[count] = p->rows[i];
		p->policies[count++] = p->policies[i];
	}
	p->count = count;
}

/* If two or more policies are budgets, plans these with one search, and sets their rows. */
static enum status plan_budgets(struct planning *p)
{
	struct session *s = p->session;
	size_t count = 0;
	const struct policy **budgets = arena_array(&s->arena, p->count + 1, sizeof *budgets);
	struct policy_row *rows = arena_array(&s->arena, p->count + 1, sizeof *rows);
	TRY_ALLOC(budgets && rows, &s->diags);
	for (size_t i = 0; i < p->count; i++)
		if (p->policies[i]->kind == POLICY_budget)
			budgets[count++] = p->policies[i];
	if (count < 2)
		return STATUS_OK;
	progress_policy(&p->progress, "budgets", 0, p->count);
	TRY(subject_budgets(&p->subject, budgets, count, rows));
	for (size_t i = p->count; i-- > 0;)
		if (p->policies[i]->kind == POLICY_budget)
			p->rows[i] = rows[--count];
	return STATUS_OK;
}

/* Plans all policies. Of several, an infeasible budget gets a row and a warning; it is an error only if none works. */
static enum status plan_all(struct planning *p)
{
	struct session *s = p->session;
	p->rows = arena_array(&s->arena, p->count + 1, sizeof *p->rows);
	TRY_ALLOC(p->rows, &s->diags);
	bool feasible = p->count == 0;
	int64_t least = 0;
	TRY(plan_budgets(p));
	for (size_t i = 0; i < p->count; i++) {
		struct policy_row *row = &p->rows[i];
		progress_policy(&p->progress, p->policies[i]->text, i, p->count);
		if (p->count == 1)
			TRY(subject_plan(&p->subject, &p->policies[i], row, NULL, &s->diags));
		else if (!row->policy)
			TRY(try_policy(p, &p->policies[i], row));
		if (row->least_bytes)
			diag_warn(&s->diags, "policy '%s' is too small; the least that works is %lld bytes", row->policy,
			          (long long)row->least_bytes);
		row_compare(row, &p->save_all.counters);
		feasible |= !row->least_bytes;
		least = row->least_bytes;
	}
	if (feasible)
		return STATUS_OK;
	return with_hint(s, diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "none of these budgets works"),
	                 "use budget:%lld or more", (long long)least);
}

static enum status print_schedule(struct planning *p)
{
	struct session *s = p->session;
	struct text_file *file;
	const struct policy *policy;
	struct policy_row row = {0};
	TRY(subject_policy(&p->subject, &s->set.policy, &policy));
	TRY(session_open_report(s, &file));
	TRY(subject_plan(&p->subject, &policy, &row, &file->report, &s->diags));
	TRY(session_close_text(file));
	row_compare(&row, &p->save_all.counters);
	return plot_subject(p->plot, &p->subject, &policy, &row, 1);
}

static enum status print_table(struct planning *p)
{
	struct session *s = p->session;
	size_t given;
	TRY(choose_policies(p, &given));
	p->subject.warns = s->set.policies.count <= 1 && !s->line.given[OPTION_SWEEP];
	const enum status status = plan_all(p);
	progress_end(&p->progress);
	TRY(status);
	merge_sweep(p, given);
	rows_mark_front(p->rows, p->count);
	struct text_file *file;
	TRY(session_open_report(s, &file));
	report_policies(&file->report, p->rows, p->count);
	TRY(session_close_text(file));
	return plot_subject(p->plot, &p->subject, p->policies, p->rows, p->count);
}

static enum status print_difference(struct planning *p)
{
	struct session *s = p->session;
	const struct policy *policies[2];
	struct kept_list lists[2];
	struct text_file *file;
	for (int i = 0; i < 2; i++) {
		TRY(subject_policy(&p->subject, &s->set.compared.items[i], &policies[i]));
		TRY(subject_kept(&p->subject, policies[i], &lists[i]));
		row_compare(&lists[i].row, &p->save_all.counters);
	}
	/* A policy by value makes the whole chain one step, so steps cannot be compared. */
	for (int i = 0; i < 2 && (lists[0].region || lists[1].region); i++)
		for (size_t k = 0; k < lists[i].count; k++)
			lists[i].rows[k].step = -1;
	TRY(session_open_report(s, &file));
	report_difference(&file->report, lists);
	return session_close_text(file);
}

/* Fails with STATUS_USAGE if an option that `run` lacks is given with --run: it is about the backward pass. */
static enum status check_run_options(struct session *s)
{
	for (int i = 0; i < OPTION_COUNT; i++)
		if (i != OPTION_RUN && s->line.given[i] && (!(option_table[i].commands & RUN) || option_needs_residuals(i)))
			return usage_error(s, "--%s contradicts --run: a forward run has no backward pass", option_table[i].name);
	return STATUS_OK;
}

/* Fails with STATUS_USAGE if two options contradict each other, or a value is wrong. */
static enum status check_plan_options(struct session *s)
{
	const char *sweep = s->line.values[OPTION_SWEEP];
	const struct policy_list *compared = &s->set.compared;
	const bool diff = compared->count, schedule = s->line.given[OPTION_SCHEDULE], online = s->line.given[OPTION_ONLINE];
	int which;
	TRY(choose_word(s, OPTION_SWEEP, 0, &which));
	if (compared->count > 2)
		return usage_error(s, "--diff was given twice; this command takes one");
	if (schedule && !diff && s->set.policies.count > 1)
		return usage_error(s, "--schedule prints the actions of one policy, and %zu were given", s->set.policies.count);
	const bool fixed = diff && compared->items[0].kind != POLICY_auto && compared->items[1].kind != POLICY_auto;
	const struct {
		const char *one, *other;
		bool both;
	} pairs[] = {{"--diff", online ? "--online" : "--policy", diff && s->set.policies.count},
	             {"--diff", "--memory", fixed && s->set.memory},
	             {"--diff", "--sweep", diff && sweep},
	             {"--diff", "--schedule", diff && schedule},
	             {"--diff", "--plot", diff && s->line.given[OPTION_PLOT]},
	             {"--sweep", "--schedule", sweep && schedule}};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (pairs[i].both)
			return usage_error(s, "%s contradicts %s: give one of them", pairs[i].other, pairs[i].one);
	return STATUS_OK;
}

enum status command_plan(struct session *s)
{
	struct planning p = {.session = s};
	if (s->line.given[OPTION_RUN]) {
		TRY(check_run_options(s));
		return command_plan_run(s);
	}
	const struct policy *all = &policy_save_all;
	TRY(check_plan_options(s));
	TRY(plot_open(s, &p.plot));
	TRY(subject_open(&p.subject, s));
	if (s->line.given[OPTION_SAVE_COSTS])
		TRY(subject_save_costs(&p.subject));
	const bool schedule = s->line.given[OPTION_SCHEDULE];
	if (!schedule)
		(void)progress_begin(&p.progress, s, "plan");
	if (!schedule || p.plot) /* other rows are compared with it */
		TRY(subject_plan(&p.subject, &all, &p.save_all, NULL, &s->diags));
	warn_untiled(s, p.save_all.whole_because, &p.subject.type, p.save_all.counters.peak_bytes);
	if (schedule)
		return print_schedule(&p);
	return s->set.compared.count ? print_difference(&p) : print_table(&p);
}
