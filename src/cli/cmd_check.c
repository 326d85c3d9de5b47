/*
 * ckptc check compares gradients with differences in f64, at elements spread over the input and each param. It also
 * compares the bits of gradients: in a second run, with four workers, in small tiles, and under several policies. A
 * check that fails is reported, and the exit status is 1.
 *
 * Runs go through the functions of run and grad, on files in memory.
 *
 * A task is the difference at an element, or a gradient that is compared. Task I belongs to rank I modulo their number.
 * Each rank has the whole input, and a gradient to compare with. Rank 0 receives the results in the order of tasks, and
 * reports them.
 * Tests: tests/scripts/check-gradients, tests/cases/cli.test
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "cli/trial.h"
#include "external/learn.h"
#include "ir/index_reads.h"
#include "ir/lower.h"
#include "measure/derivative.h"

enum { SAMPLES = 48, FEW_SAMPLES = 2, QUADRATIC_STEPS = 5000 };
/* GRADIENT: about the forward runs in whose time a gradient runs. */
enum { GRADIENT = 3 };
static const double MOST_ERROR = 2e-5;
/* Seconds. By default, differences take about so many, and a usual policy that would take more is skipped. */
static const double PATIENCE = 100;

enum verdict_word { CHECK_OK, CHECK_FAIL, CHECK_SKIP, VERDICTS };

struct checker {
	struct session *session;
	struct type type; /* of the input; its dtype is DTYPE_F64 */
	double *input;
	int64_t count;
	struct opened_output *in, *out; /* files in memory */
	struct text_file *report;
	struct records records; /* a record for each check */
	const char *blind;      /* why the gradient may rightly differ from differences; or NULL */
	int counts[VERDICTS];
	struct progress progress;
	const char *what; /* the check that runs */
	/* In forward runs: what is done, what the current run takes, and about all there is to do. */
	double done, weight, all;
	double seconds;   /* of a gradient under save-all */
	int64_t elements; /* number of an array's elements that are compared with differences */
	int64_t task;     /* the number of the next one */
};

/* True if the next task is this rank's. */
static bool is_mine(const struct checker *c)
{
	const struct ranks *ranks = c->session->ranks;
	return c->task % ranks_count(ranks) == ranks_index(ranks);
}

/* Ends the next task: rank 0 gets its RESULT of SIZE bytes. */
static enum status end_task(struct checker *c, void *result, size_t size)
{
	const struct ranks *ranks = c->session->ranks;
	const int owner = (int)(c->task++ % ranks_count(ranks));
	if (owner == 0)
		return STATUS_OK;
	if (ranks_index(ranks) == 0)
		return ranks_receive(ranks, owner, 0, result, size);
	return ranks_index(ranks) == owner ? ranks_send(ranks, 0, 0, result, size) : STATUS_OK;
}

/* The array that a run has written. VALUES is NULL if it cannot be read. */
struct written {
	double *values;
	int64_t count;
};

static void show_progress(void *context, const struct action *action, double done, int64_t live, int64_t peak)
{
	struct checker *c = context;
	(void)action, (void)live, (void)peak;
	progress_show(&c->progress, c->what, fmin((c->done + c->weight * done) / c->all, 1));
}

/* Runs the chain on the input: forward if RESULT is NULL, else its gradient. WRITTEN, in ARENA, is what it writes. */
static enum status run_on_input(struct checker *c, const struct job_options *job, struct arena *arena,
                                struct gradient_result *result, struct written *written)
{
	struct session *s = c->session;
	const struct run_options options = {
		.job = *job, .dtype = DTYPE_F64, .progress = c->progress.on ? show_progress : NULL, .progress_context = c};
	const struct trial trial = {s, c->in, c->out, arena, options, .compare = true};
	struct input input;
	struct reader reader;
	bool end;
	trial_write_file(c->in, arena);
	TRY(writer_begin(&c->in->writer, &c->type, &s->diags));
	TRY(writer_write(&c->in->writer, c->input, DTYPE_F64, c->count, &s->diags));
	c->weight = result ? GRADIENT : 1;
	TRY(trial_run(&trial, result));
	c->done += c->weight;
	trial_read_file(c->out, &input, &reader, arena);
	enum status status = reader_next(&reader, &end, &s->diags);
	written->count = reader.count;
	written->values = status ? NULL : arena_array(arena, (size_t)reader.count + 1, sizeof *written->values);
	if (!status)
		status = written->values ? reader_read(&reader, written->values, DTYPE_F64, reader.count, &s->diags)
		                         : diag_memory(&s->diags);
	input_close(&input);
	return status;
}

/* An element of the input or of a param, on which the objective depends. */
struct element {
	struct checker *checker;
	double *at;
};

/* Sets *SUM to the objective, the compensated sum of the outputs, with X in place of the element at CONTEXT. */
static enum status objective_at(void *context, double x, double *sum)
{
	const struct element *element = context;
	const double old = *element->at;
	double low = 0;
	struct written written = {0};
	struct arena arena;
	arena_init(&arena, element->checker->session->allocator);
	*element->at = x;
	const enum status status =
		run_on_input(element->checker, &(struct job_options){.threads = 1}, &arena, NULL, &written);
	*element->at = old;
	*sum = 0;
	for (int64_t i = 0; !status && i < written.count; i++)
		sum_add(sum, &low, written.values[i], 0);
	*sum += low;
	arena_free(&arena);
	return status;
}

struct gradient {
	struct written input;
	struct gradient_result result;
	struct arena arena; /* for this run alone */
};

static void outcome_free(struct gradient *gradient)
{
	gradient_free(&gradient->result);
	arena_free(&gradient->arena);
}

/* Runs the gradient under POLICY; TILE 0: automatic. The caller frees GRADIENT by outcome_free, unless this fails. */
static enum status differentiate(struct checker *c, const struct policy *policy, int threads, int64_t tile,
                                 struct gradient *gradient)
{
	*gradient = (struct gradient){0};
	arena_init(&gradient->arena, c->session->allocator);
	struct job_options job = session_job_options(c->session, policy);
	job.threads = threads;
	job.tile = tile;
	job.store = DTYPE_COUNT;
	job.want_value = false;
	const enum status status = run_on_input(c, &job, &gradient->arena, &gradient->result, &gradient->input);
	if (status)
		outcome_free(gradient);
	return status;
}

enum { JUDGED = 1, SKIPPED = 2 };

struct check_row {
	const char *what, *result;
	bool ok;
	const char *detail;
	const char *none; /* always NULL: the `ok` of a check that is skipped */
};

static const struct field check_fields[] = {
	{"check", NULL, IN_JSON | IN_CSV, 0, FIELD(check_row, TEXT, what)},
	{"result", NULL, IN_CSV, 0, FIELD(check_row, TEXT, result)},
	{"ok", NULL, IN_JSON, JUDGED, FIELD(check_row, FLAG, ok)},
	{"ok", NULL, IN_JSON, SKIPPED, FIELD(check_row, TEXT, none)},
	{"detail", NULL, IN_JSON | IN_CSV, 0, FIELD(check_row, TEXT, detail)},
};

static void put_check_line(const void *record, const struct text *text)
{
	const struct check_row *row = record;
	text_printf(text, "%-4s %s%s%s\n", row->result, row->what, *row->detail ? ": " : "", row->detail);
}

static const struct record_kind check_kind = RECORD_KIND("checks", check_fields, put_check_line);

static void put_check(struct checker *c, enum verdict_word word, const char *what, const char *detail)
{
	static const char *const words[] = {"ok", "FAIL", "skip"};
	const struct check_row row = {what, words[word], word == CHECK_OK, detail, NULL};
	c->counts[word]++;
	progress_end(&c->progress);
	records_put(&c->records, &row, word == CHECK_SKIP ? SKIPPED : JUDGED);
}

/* Sets `blind` to a text on the first operation, if any, that stops the gradient or rounds: differences are useless. */
static void find_blind(struct checker *c, const struct job *job)
{
	for (size_t i = 0; i < job->whole.distinct_count; i++) {
		const struct step *step = job->whole.distinct[i];
		const struct body *body = step->body;
		for (size_t k = 0; k < body->instr_count; k++) {
			const struct instr *instr = &body->instrs[k];
			const bool stops = instr->op == OP_stop_gradient;
			const bool rounds = (instr->op == OP_cast && instr->attrs->dtype != DTYPE_F64) ||
			                    (instr_use(instr) && instr->of.y->dtype != DTYPE_F64);
			if (instr->kind != INSTR_OP || !(stops || rounds))
				continue;
			const struct span span = step_span(step, instr->span);
			c->blind = arena_printf(&c->session->arena, "the %s at %u:%u %s", instr_name(instr), span.line, span.column,
			                        stops ? "stops gradients, not differences" : "rounds what differences tell apart");
			return;
		}
	}
}

/* Skips NAME, the input or a param, whose elements are indices or classes: differences would make them other numbers. */
static void skip_indices(struct checker *c, const char *name)
{
	char what[128];
	snprintf(what, sizeof what, "gradient of %s against differences", name);
	put_check(c, CHECK_SKIP, what, "its elements are indices or classes");
}

/* The checked element with the largest error. */
struct worst {
	int64_t at; /* -1: none has an error */
	double have;
	struct slope slope;
};

/* Writes BLIND unless it is NULL, the number of KINKS (elements on a kink) unless it is 0, and WORST if it has one. */
static void describe(const struct text *text, const struct worst *worst, int kinks, const char *blind)
{
	const struct slope *slope = &worst->slope;
	const char *end = worst->at < 0 ? "" : "; ";
	if (blind)
		text_printf(text, "%s%s", blind, end);
	if (kinks)
		text_printf(text, "%d element%s on a kink, where any slope between both sides' is one%s", kinks,
		            kinks == 1 ? "" : "s", end);
	if (worst->at < 0)
		return;
	text_printf(text, "worst at element %lld: %.9g, ", (long long)worst->at, worst->have);
	if (slope->kink)
		text_printf(text, "slopes %.9g and %.9g", slope->left, slope->right);
	else /* a NaN is shown without its sign */
		text_printf(text, "difference %.9g", isnan(slope->want) ? (double)NAN : slope->want);
	text_printf(text, " (error %.2g)", slope->error);
}

/* Compares SLOPE, the gradient of ARRAY, with differences at some elements of ARRAY: the input or a param. */
static enum status check_array(struct checker *c, const char *name, double *array, int64_t count, const double *slope)
{
	struct worst worst = {.at = -1};
	int kinks = 0;
	char what[128];
	snprintf(what, sizeof what, "gradient of %s against differences", name);
	c->what = what;
	for (int64_t k = 0; k < count && k < c->elements; k++) {
		/* Take each element of a small array; spread the elements over a larger one. */
		const int64_t i = count > c->elements ? (int64_t)((double)count * trial_fraction(k)) : k;
		struct element element = {c, &array[i]};
		struct slope found = {0};
		if (is_mine(c))
			TRY(derivative_judge(objective_at, &element, array[i], slope[i], MOST_ERROR, &found));
		TRY(end_task(c, &found, sizeof found));
		kinks += found.kink;
		/* Of nearly equal errors the first counts. NaN is the largest error. */
		if (!isnan(worst.slope.error) && !(found.error <= worst.slope.error * (1 + 1e-6)))
			worst = (struct worst){i, slope[i], found};
	}
	struct grown_text grown;
	const bool good = worst.slope.error <= MOST_ERROR, skips = !good && c->blind;
	text_grow_in(&grown, &c->session->arena);
	if (c->elements < SAMPLES && c->elements < count)
		text_printf(&grown.text, "at %lld of %lld elements%s", (long long)c->elements, (long long)count,
		            kinks || worst.at >= 0 || skips ? "; " : "");
	describe(&grown.text, &worst, kinks, skips ? c->blind : NULL);
	const char *detail = text_grown(&grown);
	TRY_ALLOC(detail, &c->session->diags);
	put_check(c, good ? CHECK_OK : skips ? CHECK_SKIP : CHECK_FAIL, what, detail);
	return STATUS_OK;
}

/* True if A and B have the same bits. Writes the first difference, or "", to DETAIL. */
static bool same_bits(struct checker *c, const struct gradient *a, const struct gradient *b, char detail[200])
{
	detail[0] = '\0';
	for (int64_t i = 0; i < c->count; i++)
		if (memcmp(&a->input.values[i], &b->input.values[i], sizeof *a->input.values) != 0) {
			snprintf(detail, 200, "element %lld of the input's gradient is %.17g, not %.17g", (long long)i,
			         b->input.values[i], a->input.values[i]);
			return false;
		}
	for (size_t p = 0; p < a->result.param_count; p++) {
		const struct param_gradient *x = &a->result.params[p], *y = &b->result.params[p];
		if (x->data && memcmp(x->data, y->data, x->size) != 0) {
			snprintf(detail, 200, "the gradient of %s differs", c->session->chain.params[p].name);
			return false;
		}
	}
	return true;
}

/* Writes how recomputed states differ to DETAIL. A program in the step that is named has state of its own. */
static void describe_differing(const struct state_hashes *again, const struct job *job, char *detail, size_t size)
{
	const struct step *step = lowered_step(&job->whole, again->first_step, NULL);
	const char *program = NULL;
	for (size_t i = 0; step && i < step->body->instr_count && !program; i++)
		program = instr_use(&step->body->instrs[i]) ? instr_name(&step->body->instrs[i]) : NULL;
	snprintf(detail, size, "of %lld states that were recomputed %lld differ, first that after step %lld%s%.60s%s",
	         (long long)again->compared, (long long)again->differing, (long long)again->first_step,
	         program ? ", of program '" : "", program ? program : "", program ? "': it has hidden state" : "");
}

struct verdict {
	enum verdict_word word;
	char detail[200];
};

/* Compares the bits of OTHER with BASE, its counters with its plan, and recomputed states with the first ones. */
static void judge_gradient(struct checker *c, const struct gradient *base, const struct gradient *other,
                           struct verdict *verdict)
{
	const struct counters *p = &other->result.predicted, *m = &other->result.measured;
	const struct state_hashes *again = &other->result.recomputed;
	char *detail = verdict->detail;
	const size_t size = sizeof verdict->detail;
	const bool same = same_bits(c, base, other, detail);
	const bool planned =
		p->evaluations == m->evaluations && p->peak_bytes == m->peak_bytes && p->stored_bytes == m->stored_bytes;
	if (again->differing)
		describe_differing(again, &other->result.job, detail, size);
	else if (same && !planned)
		snprintf(detail, size, "predicted %lld evaluations and %lld bytes, measured %lld and %lld",
		         (long long)p->evaluations, (long long)p->peak_bytes, (long long)m->evaluations,
		         (long long)m->peak_bytes);
	else if (same && again->compared)
		snprintf(detail, size, "%lld recomputed state%s as in the first sweep", (long long)again->compared,
		         again->compared == 1 ? "" : "s");
	verdict->word = same && planned && !again->differing ? CHECK_OK : CHECK_FAIL;
}

/* Runs a gradient, and judges it. */
static enum status check_run(struct checker *c, const struct gradient *base, const char *what,
                             const struct policy *policy, int threads, int64_t tile)
{
	struct gradient other;
	struct verdict verdict = {0};
	c->what = what;
	if (is_mine(c)) {
		TRY(differentiate(c, policy, threads, tile, &other));
		judge_gradient(c, base, &other, &verdict);
		outcome_free(&other);
	}
	TRY(end_task(c, &verdict, sizeof verdict));
	put_check(c, verdict.word, what, verdict.detail);
	return STATUS_OK;
}

/* Returns about the seconds of a gradient under POLICY, by those under save-all; too few if policy_evaluations knows none. */
static double seconds_under(const struct checker *c, const struct policy *policy, int64_t steps)
{
	const struct policy known = policy_on_steps(policy, steps);
	const double evaluations = fmax((double)policy_evaluations(&known, steps), (double)steps);
	return steps > 0 ? c->seconds * (evaluations / (double)steps + GRADIENT - 1) / GRADIENT : 0;
}

/* Compares bits under POLICY. USUAL: it is one of the default policies, and is skipped if it takes long. */
static enum status check_policy_bits(struct checker *c, const struct gradient *base, const struct policy *policy,
                                     bool usual)
{
	/* The input counts as a checkpoint. If it is the only one, each step is recomputed from the chain's start. */
	const bool quadratic = (policy->kind == POLICY_revolve || policy->kind == POLICY_online) && policy->number == 1;
	const int64_t steps = base->result.job.whole.steps;
	char what[128], detail[200];
	const double seconds = seconds_under(c, policy, steps);
	snprintf(what, sizeof what, "same bits under %s", policy->text);
	if (quadratic && steps > QUADRATIC_STEPS)
		snprintf(detail, sizeof detail, "its evaluations grow with the square of %lld steps", (long long)steps);
	else if (usual && seconds > PATIENCE && seconds > 2 * c->seconds)
		snprintf(detail, sizeof detail, "it would take about %.0f s: --policy %s asks for it", seconds, policy->text);
	else
		return check_run(c, base, what, policy, 1, 0);
	put_check(c, CHECK_SKIP, what, detail);
	return STATUS_OK;
}

static const struct {
	enum policy_kind kind;
	int64_t number;
} usual[] = {{POLICY_nothing, 0}, {POLICY_dots, 0},  {POLICY_dots_no_batch, 0}, {POLICY_every, 1},
             {POLICY_every, 3},   {POLICY_sqrt, 0},  {POLICY_recursive, 0},     {POLICY_revolve, 1},
             {POLICY_revolve, 3}, {POLICY_online, 3}};
enum { USUAL = sizeof usual / sizeof *usual };

/* Chooses the number of elements, and estimates the work for the progress line. */
static void plan_checks(struct checker *c)
{
	const struct session *s = c->session;
	int64_t arrays = 1;
	for (size_t i = 0; i < s->chain.param_count; i++)
		arrays += s->chain.params[i].differentiated && s->params.bound[i].dtype == DTYPE_F64;
	const double affordable = PATIENCE * GRADIENT / (2 * c->seconds * (double)arrays);
	c->elements = affordable < SAMPLES ? greater((int64_t)affordable, FEW_SAMPLES) : SAMPLES;
	if (s->set.elements >= 0)
		c->elements = s->set.elements;
	const size_t policies = s->set.policies.count + (s->set.given_policies ? 0 : USUAL);
	const double left = 2 * (double)(arrays * c->elements) + GRADIENT * (3 + (double)policies);
	c->all = c->done + left / ranks_count(s->ranks);
}

static enum status check_arrays(struct checker *c, const struct gradient *base)
{
	struct session *s = c->session;
	struct lowered forward;
	struct index_reads indices;
	TRY(lower(&s->context, &forward, &s->chain, NULL, &c->type, LOWER_RUN));
	TRY_ALLOC(index_reads_find(&indices, forward.whole, s->chain.param_count, &s->arena), &s->diags);
	if (indices.input)
		skip_indices(c, s->chain.input);
	else
		TRY(check_array(c, s->chain.input, c->input, c->count, base->input.values));
	for (size_t i = 0; i < s->chain.param_count; i++) {
		const struct param *param = &s->chain.params[i];
		const struct bound_array *bound = &s->params.bound[i];
		/* Change the exact values of a weak param: each run converts them again. */
		const void *values = param->weak ? s->params.exact[i] : bound->data;
		if (param->differentiated && indices.params[i]) {
			skip_indices(c, param->name);
		} else if (param->differentiated && bound->dtype == DTYPE_F64) {
			TRY(check_array(c, param->name, (double *)(uintptr_t)values, shape_count(bound->shape),
			                base->result.params[i].data));
		}
	}
	return STATUS_OK;
}

static enum status run_checks(struct checker *c, const struct gradient *base)
{
	struct session *s = c->session;
	find_blind(c, &base->result.job);
	plan_checks(c);
	TRY(c->elements ? check_arrays(c, base) : STATUS_OK);
	TRY(check_run(c, base, "same bits when it is run again", &policy_save_all, 1, 0));
	TRY(check_run(c, base, "same bits with 4 workers", &policy_save_all, 4, 0));
	TRY(check_run(c, base, "same bits in tiles of 3 rows", &policy_save_all, 2, 3));
	for (size_t i = 0; i < USUAL && !s->set.given_policies; i++) {
		struct policy policy;
		TRY_ALLOC(policy_make(&policy, usual[i].kind, usual[i].number, &s->arena), &s->diags);
		TRY(check_policy_bits(c, base, &policy, true));
	}
	for (size_t i = 0; i < s->set.policies.count; i++)
		TRY(check_policy_bits(c, base, &s->set.policies.items[i], false));
	return s->set.memory && !s->set.policies.count ? check_policy_bits(c, base, &s->set.policy, false) : STATUS_OK;
}

static enum status check_backward(struct checker *c)
{
	struct gradient base;
	const double begun = clock_seconds();
	TRY(differentiate(c, &policy_save_all, 1, 0, &base));
	c->seconds = clock_seconds() - begun;
	enum status status = ranks_broadcast(c->session->ranks, &c->seconds, sizeof c->seconds);
	if (!status)
		status = run_checks(c, &base);
	outcome_free(&base);
	return status;
}

static const struct program_decl *find_forward_only(const struct chain *chain)
{
	for (size_t i = 0; i < chain->program_count; i++)
		if (!chain->programs[i].traits.backward)
			return &chain->programs[i];
	return NULL;
}

/* Checks a chain that has no gradient, because of PROGRAM: its output has the same bits in each run. */
static enum status check_forward(struct checker *c, const struct program_decl *program)
{
	static const char *const whats[] = {"same output when it is run again", "same output with 4 workers"};
	struct written first, again;
	struct arena *arena = &c->session->arena;
	struct verdict verdict;
	char *detail = verdict.detail;
	snprintf(detail, sizeof verdict.detail, "the program '%.100s' runs forward only", program->name);
	put_check(c, CHECK_SKIP, "gradients", detail);
	TRY(run_on_input(c, &(struct job_options){.threads = 1}, arena, NULL, &first));
	for (int i = 0; i < 2; i++) {
		verdict = (struct verdict){CHECK_OK, ""};
		if (is_mine(c)) {
			TRY(run_on_input(c, &(struct job_options){.threads = i ? 4 : 1}, arena, NULL, &again));
			int64_t at = 0;
			while (at < first.count && !memcmp(&first.values[at], &again.values[at], sizeof *first.values))
				at++;
			verdict.word = at < first.count ? CHECK_FAIL : CHECK_OK;
			if (verdict.word == CHECK_FAIL)
				snprintf(detail, sizeof verdict.detail, "element %lld of the output is %.17g, not %.17g", (long long)at,
				         again.values[at], first.values[at]);
		}
		TRY(end_task(c, &verdict, sizeof verdict));
		put_check(c, verdict.word, whats[i], detail);
	}
	return STATUS_OK;
}

/* Gives all ranks the input, which rank 0 reads. */
static enum status share_input(struct checker *c)
{
	struct session *s = c->session;
	const bool first = ranks_index(s->ranks) == 0;
	TRY(first ? trial_begin_input(s, &c->type) : STATUS_OK);
	TRY(ranks_broadcast(s->ranks, &c->type, sizeof c->type));
	c->type.dtype = DTYPE_F64;
	c->count = shape_count(&c->type.shape);
	c->input = arena_array(&s->arena, (size_t)c->count + 1, sizeof *c->input);
	TRY_ALLOC(c->input, &s->diags);
	TRY(first ? trial_read_input(s, 0, c->input, c->count) : STATUS_OK);
	TRY(first ? trial_end_input(s) : STATUS_OK);
	return ranks_broadcast(s->ranks, c->input, (size_t)c->count * sizeof *c->input);
}

enum status command_check(struct session *s)
{
	struct checker c = {.session = s, .what = "check", .all = 2 * GRADIENT};
	TRY(session_load_chain(s));
	TRY(share_input(&c));
	s->set.dtype = DTYPE_F64; /* for params, too */
	TRY(session_bind(s, true, DTYPE_F64));
	TRY(session_open_report(s, &c.report));
	TRY(trial_open_file(s, &c.in));
	TRY(trial_open_file(s, &c.out));
	struct report *report = &c.report->report;
	records_begin(&c.records, report, &check_kind, JUDGED | SKIPPED);
	TRY(external_learn(&s->context, &s->chain, NULL, &c.type, true, s->programs));
	const struct program_decl *forward = find_forward_only(&s->chain);
	(void)progress_begin(&c.progress, s, "check");
	const enum status status = forward ? check_forward(&c, forward) : check_backward(&c);
	progress_end(&c.progress);
	TRY(status);
	records_end(&c.records);
	TRY(ranks_broadcast(s->ranks, c.counts, sizeof c.counts)); /* a check that fails is the status of all ranks */
	const int passed = c.counts[CHECK_OK], failed = c.counts[CHECK_FAIL], skipped = c.counts[CHECK_SKIP];
	report_whole(report, "passed", passed);
	report_whole(report, "failed", failed);
	report_whole(report, "skipped", skipped);
	if (s->set.format == REPORT_TABLE || s->set.format == REPORT_LINES)
		text_printf(report->text, skipped ? "%d passed, %d failed, %d skipped\n" : "%d passed, %d failed\n", passed,
		            failed, skipped);
	TRY(session_close_text(c.report));
	return failed ? STATUS_CHECK : STATUS_OK;
}
