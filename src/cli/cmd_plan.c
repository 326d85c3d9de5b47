/*
 * ckptc plan: what policies cost, before anything runs. The policies are those of --policy and --online in their order,
 * then those of --sweep; without these options, the usual ones.
 */
#include <math.h>
#include <string.h>

#include "cli/plot.h"
#include "cli/progress.h"
#include "cli/subject.h"

static const struct {
	enum policy_kind kind;
	int64_t number;
} usual[] = {{POLICY_save_all, 0}, {POLICY_nothing, 0}, {POLICY_dots, 0},   {POLICY_sqrt, 0},
             {POLICY_every, 2},    {POLICY_every, 4},   {POLICY_every, 8},  {POLICY_recursive, 0},
             {POLICY_revolve, 2},  {POLICY_revolve, 4}, {POLICY_revolve, 8}};
enum { USUAL = sizeof usual / sizeof *usual };
/* With more steps the usual policies omit those by value, which unroll the whole chain into one region. */
enum { LONG_BY_VALUE = 100000 };

struct planning {
	struct session *session;
	struct subject subject;
	struct plot plot;
	struct progress progress;
	const struct policy **policies;
	size_t count, capacity;
	struct policy_row *rows, save_all;
};

static double transfers_of(const struct policy_row *row)
{
	return (double)(row->counters.spill_writes + row->counters.spill_reads);
}

/* True if A is no worse than B in overhead, peak and disk transfers, and better in one of them. */
static bool is_better(const struct policy_row *a, const struct policy_row *b)
{
	/* Costs are sums: ignore their rounding. */
	const double same = 1e-9 * (1 + row_overhead(b)), more = row_overhead(a) - row_overhead(b);
	const int64_t larger = a->counters.peak_bytes - b->counters.peak_bytes;
	const double slower = transfers_of(a) - transfers_of(b);
	return more <= same && larger <= 0 && slower <= 0 && (more < -same || larger < 0 || slower < 0);
}

/*
 * Marks the Pareto front, and the knee: the row of the front that is nearest to no bytes and no overhead. The bytes of
 * save-all count as much as an overhead of one forward and backward pass, so that the knee does not depend on the
 * scale of other rows.
 */
static void mark_front(struct policy_row *rows, size_t count)
{
	double most_peak = 1, most_transfers = 1, best = 1e300;
	size_t knee = count;
	for (size_t i = 0; i < count; i++) {
		if (rows[i].least_bytes)
			continue;
		rows[i].pareto = true;
		for (size_t k = 0; k < count && rows[i].pareto; k++)
			rows[i].pareto = rows[k].least_bytes || !is_better(&rows[k], &rows[i]);
		most_peak = fmax(most_peak, (double)rows[i].counters.peak_bytes);
		most_transfers = fmax(most_transfers, transfers_of(&rows[i]));
	}
	for (size_t i = 0; i < count; i++) {
		const double all = rows[i].save_all_peak > 0 ? (double)rows[i].save_all_peak : most_peak;
		double x = (double)rows[i].counters.peak_bytes / all, y = row_overhead(&rows[i]) / 100;
		double z = transfers_of(&rows[i]) / most_transfers;
		if (rows[i].pareto && x * x + y * y + z * z < best) {
			best = x * x + y * y + z * z;
			knee = i;
		}
	}
	if (knee < count && count > 1)
		rows[knee].knee = true;
}

/* Choosing policies. */

static enum status add_policy(struct planning *p, const struct policy *policy)
{
	struct session *s = p->session;
	const struct policy **grown = arena_grow(&s->arena, p->policies, p->count, &p->capacity, sizeof *grown);
	TRY_ALLOC(grown, &s->diags);
	p->policies = grown;
	return subject_policy(&p->subject, policy, &p->policies[p->count++]);
}

/* Adds the policy of KIND with NUMBER. */
static enum status add_numbered(struct planning *p, enum policy_kind kind, int64_t number)
{
	struct policy policy;
	bool made = policy_make(&policy, kind, number, &p->session->arena);
	return made ? add_policy(p, &policy) : diag_memory(&p->session->diags);
}

/* every:N, each N up to SWEEP_DENSE, then geometrically to the number of steps, which keeps everything. */
static enum status sweep_every(struct planning *p)
{
	enum { SWEEP_DENSE = 32, SWEEP_PERCENT = 25 };
	int64_t steps = p->save_all.counters.steps;
	enum status status = STATUS_OK;
	for (int64_t n = 1; n < steps && !status; n += n < SWEEP_DENSE ? 1 : n * SWEEP_PERCENT / 100)
		status = add_numbered(p, POLICY_every, n);
	if (!status)
		status = add_numbered(p, POLICY_every, steps > 0 ? steps : 1);
	return status;
}

/* As subject_plan, but an infeasible POLICY is no error: *LEAST is then its least feasible bytes, else 0. */
static enum status try_policy(struct planning *p, const struct policy **policy, struct policy_row *row, int64_t *least)
{
	struct session *s = p->session;
	struct diags told;
	diags_init(&told, &s->arena);
	const enum status status = subject_plan(&p->subject, policy, row, NULL, least, &told);
	if (status == STATUS_LIMIT && *least > 0 && !told.exhausted)
		return STATUS_OK;
	*least = 0;
	diags_take(&s->diags, &told);
	return status;
}

/* Sets *LEAST to the bytes of the smallest feasible budget; 1 if one byte is enough. */
static enum status find_least(struct planning *p, int64_t *least)
{
	const struct policy byte = {.kind = POLICY_budget, .text = "budget:1", .number = 1}, *policy;
	struct policy_row row;
	enum status status = subject_policy(&p->subject, &byte, &policy);
	if (!status)
		status = try_policy(p, &policy, &row, least);
	if (!status && *least == 0)
		*least = 1;
	return status;
}

/* Budgets from the smallest feasible to the peak of save-all, in geometric progression. */
static enum status sweep_memory(struct planning *p)
{
	enum { POINTS = 24, POINTS_LONG = 12, LONG = 500 };
	int64_t most = p->save_all.counters.peak_bytes, least = 0, before = 0;
	int points = p->save_all.counters.steps > LONG ? POINTS_LONG : POINTS;
	enum status status = find_least(p, &least);
	for (int i = 0; i < points && !status; i++) {
		double share = (double)i / (points - 1);
		int64_t bytes = (int64_t)((double)least * pow((double)most / (double)least, share));
		bytes = i == 0 || bytes < least ? least : i == points - 1 ? most : bytes;
		if (bytes > before && (i == 0 || bytes <= most))
			status = add_numbered(p, POLICY_budget, bytes);
		before = bytes;
	}
	return status;
}

static enum status choose_policies(struct planning *p)
{
	struct session *s = p->session;
	enum status status = STATUS_OK;
	for (size_t i = 0; i < s->set.policies.count && !status; i++)
		status = add_policy(p, &s->set.policies.items[i]);
	const char *sweep = s->line.values[OPTION_SWEEP];
	if (!status && s->set.memory && !s->set.policies.count)
		status = add_policy(p, &s->set.policy);
	if (!status && sweep)
		return !strcmp(sweep, "every") ? sweep_every(p) : sweep_memory(p);
	if (s->set.memory)
		return status;
	for (size_t i = 0; i < USUAL && !status && !s->set.policies.count; i++) {
		const bool left_out = p->subject.has_spec || p->save_all.counters.steps > LONG_BY_VALUE;
		if (!(left_out && policy_table[usual[i].kind].traits & TRAIT_BY_VALUE))
			status = add_numbered(p, usual[i].kind, usual[i].number);
	}
	return status;
}

/* Planning and printing. */

/* Other rows are compared to save-all. */
static enum status plan_save_all(struct planning *p)
{
	const struct policy *policy = &policy_save_all;
	return subject_plan(&p->subject, &policy, &p->save_all, NULL, NULL, &p->session->diags);
}

static void compare_row(const struct planning *p, struct policy_row *row)
{
	row->save_all_peak = p->save_all.counters.peak_bytes;
	row->saved_bytes = p->save_all.counters.stored_bytes - row->counters.stored_bytes;
}

/* Among several policies an infeasible one gets a row and a warning, and no error. */
static void warn_infeasible(struct session *s, const struct policy_row *row)
{
	diag_warn(&s->diags, "policy '%s' is too small; the least that works is %lld bytes", row->policy,
	          (long long)row->least_bytes);
}

static enum status plan_one(struct planning *p, const struct policy **policy, struct policy_row *row)
{
	struct session *s = p->session;
	if (p->count == 1)
		return subject_plan(&p->subject, policy, row, NULL, NULL, &s->diags);
	const enum status status = try_policy(p, policy, row, &row->least_bytes);
	if (row->least_bytes)
		warn_infeasible(s, row);
	return status;
}

/* Plans all budgets among the policies with one search, if there are several. */
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
	enum status status = subject_budgets(&p->subject, budgets, count, rows);
	for (size_t i = p->count; i-- > 0 && !status;)
		if (p->policies[i]->kind == POLICY_budget)
			p->rows[i] = rows[--count];
	return status;
}

static enum status plan_all(struct planning *p)
{
	struct session *s = p->session;
	p->rows = arena_array(&s->arena, p->count + 1, sizeof *p->rows);
	TRY_ALLOC(p->rows, &s->diags);
	bool feasible = p->count == 0;
	int64_t least = 0;
	enum status status = plan_budgets(p);
	for (size_t i = 0; i < p->count && !status; i++) {
		struct policy_row *row = &p->rows[i];
		progress_policy(&p->progress, p->policies[i]->text, i, p->count);
		if (!row->policy)
			status = plan_one(p, &p->policies[i], row);
		else if (row->least_bytes)
			warn_infeasible(s, row);
		compare_row(p, row);
		feasible |= !row->least_bytes;
		least = row->least_bytes;
	}
	if (status || feasible)
		return status;
	status = diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "none of these budgets works");
	diag_hint(&s->diags, "use budget:%lld or more", (long long)least);
	return status;
}

static enum status print_schedule(struct planning *p)
{
	struct session *s = p->session;
	struct text_file file;
	const struct policy *policy;
	struct policy_row row = {0};
	enum status status = subject_policy(&p->subject, &s->set.policy, &policy);
	if (!status)
		status = session_open_report(s, &file);
	if (status)
		return status;
	status = subject_plan(&p->subject, &policy, &row, &file.report, NULL, &s->diags);
	status = session_close_text(&file, status);
	return status || !p->plot.open ? status : plot_subject(&p->plot, &p->subject, &policy, &row, 1);
}

static enum status print_table(struct planning *p)
{
	struct session *s = p->session;
	(void)progress_begin(&p->progress, s, "plan");
	enum status status = plan_save_all(p);
	if (!status)
		status = choose_policies(p);
	p->subject.warns = s->set.policies.count <= 1 && !s->line.given[OPTION_SWEEP];
	if (!status)
		status = plan_all(p);
	progress_end(&p->progress);
	if (status)
		return status;
	mark_front(p->rows, p->count);
	struct text_file file;
	TRY(session_open_report(s, &file));
	status = session_close_text(&file, report_policies(&file.report, p->rows, p->count));
	return status || !p->plot.open ? status : plot_subject(&p->plot, &p->subject, p->policies, p->rows, p->count);
}

static enum status print_difference(struct planning *p)
{
	struct session *s = p->session;
	struct kept_list lists[2];
	const struct policy *policies[2];
	struct policy_row rows[2];
	enum status status = plan_save_all(p);
	for (int i = 0; i < 2 && !status; i++) {
		status = subject_policy(&p->subject, &s->set.compared.items[i], &policies[i]);
		if (!status)
			status = subject_kept(&p->subject, policies[i], &lists[i]);
	}
	if (status)
		return status;
	for (int i = 0; i < 2; i++) {
		compare_row(p, &lists[i].row);
		rows[i] = lists[i].row;
	}
	mark_front(rows, 2);
	for (int i = 0; i < 2; i++)
		lists[i].row = rows[i];
	/* A policy by value makes one step of the chain, so steps cannot be compared. */
	for (int i = 0; i < 2 && (policy_by_value(policies[0]) || policy_by_value(policies[1])); i++)
		for (size_t k = 0; k < lists[i].count; k++)
			lists[i].rows[k].step = -1;
	struct text_file file;
	TRY(session_open_report(s, &file));
	return session_close_text(&file, report_difference(&file.report, lists));
}

static enum status clash(struct session *s, const char *a, const char *b)
{
	return usage_error(s, "%s contradicts %s: give one of them", b, a);
}

static enum status check_plan_options(struct session *s)
{
	const char *sweep = s->line.values[OPTION_SWEEP];
	if (sweep && strcmp(sweep, "every") != 0 && strcmp(sweep, "memory") != 0)
		return usage_error(s, "--sweep takes every or memory, not '%s'", sweep);
	if (s->set.compared.count > 2)
		return usage_error(s, "--diff was given twice; this command takes one");
	if (s->set.compared.count && s->set.policies.count)
		return clash(s, "--diff", s->line.given[OPTION_ONLINE] ? "--online" : "--policy");
	if (s->set.compared.count && s->set.memory && s->set.compared.items[0].kind != POLICY_auto &&
	    s->set.compared.items[1].kind != POLICY_auto)
		return clash(s, "--diff", "--memory");
	if (s->set.compared.count && sweep)
		return clash(s, "--diff", "--sweep");
	if (s->set.compared.count && s->line.given[OPTION_SCHEDULE])
		return clash(s, "--diff", "--schedule");
	if (s->set.compared.count && s->line.given[OPTION_PLOT])
		return clash(s, "--diff", "--plot");
	if (s->set.policies.count > 1 && s->line.given[OPTION_SCHEDULE])
		return usage_error(s, "--schedule prints the actions of one policy, and %zu were given", s->set.policies.count);
	if (sweep && s->line.given[OPTION_SCHEDULE])
		return clash(s, "--sweep", "--schedule");
	return STATUS_OK;
}

enum status command_plan(struct session *s)
{
	struct planning p = {.session = s};
	enum status status = check_plan_options(s);
	if (!status)
		status = plot_open(s, &p.plot);
	if (!status)
		status = subject_open(&p.subject, s);
	if (!status)
		status = s->set.compared.count            ? print_difference(&p)
		         : s->line.given[OPTION_SCHEDULE] ? print_schedule(&p)
		                                          : print_table(&p);
	plot_abort(&p.plot);
	return status;
}
