/*
 * ckptc check compares gradients with central differences in f64, on elements spread over the input and each param.
 * It also compares the bits of gradients: under every policy, with one worker and several, in small tiles, and run
 * again. A check that fails is reported with its element, and the status is 1.
 *
 * Runs go through the functions of run and grad, on files in memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sum.h"
#include "cli/job_options.h"
#include "cli/trial.h"
#include "exec/derivative.h"
#include "exec/run.h"

enum { SAMPLES = 48, QUADRATIC_STEPS = 5000 };
static const double MOST_ERROR = 2e-5;

struct checker {
	struct session *session;
	struct type type; /* of the input, F64 */
	double *input;
	int64_t count;
	struct text_file out;
	struct records records; /* one for each check */
	const char *blind;      /* why differences and the gradient may rightly differ; or NULL */
	int passed, failed, skipped;
};

enum verdict_word { CHECK_OK, CHECK_FAIL, CHECK_SKIP };

/* The files in memory of one run, its input and its output. ARENA holds the memory of the run. */
struct run_files {
	struct arena arena;
	int in, out;
	struct input input;
	struct reader reader;
	struct output output;
	struct writer writer;
};

static void close_files(struct run_files *files)
{
	input_close(&files->input);
	if (files->in >= 0)
		close(files->in);
	if (files->out >= 0)
		close(files->out);
	arena_free(&files->arena);
}

/* If this fails, there is nothing to close. */
static enum status open_files(struct checker *c, const double *data, struct run_files *files)
{
	struct session *s = c->session;
	*files = (struct run_files){.out = -1, .input.fd = -1};
	arena_init(&files->arena, s->allocator);
	enum status status = trial_open_file(s, &files->in);
	if (!status)
		status = trial_open_file(s, &files->out);
	if (!status) {
		trial_write_file(files->in, &files->output, &files->writer, &files->arena);
		status = writer_begin(&files->writer, &c->type, &s->diags);
	}
	if (!status)
		status = writer_write(&files->writer, data, DTYPE_F64, c->count, &s->diags);
	if (status) {
		close_files(files);
		return status;
	}
	trial_read_file(files->in, &files->input, &files->reader, &files->arena);
	trial_write_file(files->out, &files->output, &files->writer, &files->arena);
	return STATUS_OK;
}

static enum status read_back(int fd, double **values, int64_t *count, struct arena *arena, struct diags *diags)
{
	struct input input;
	struct reader reader;
	bool end;
	trial_read_file(fd, &input, &reader, arena);
	enum status status = reader_next(&reader, &end, diags);
	*count = reader.count;
	*values = status ? NULL : arena_array(arena, (size_t)reader.count + 1, sizeof **values);
	if (!status && !*values)
		status = diag_memory(diags);
	if (!status)
		status = reader_read(&reader, *values, DTYPE_F64, reader.count, diags);
	input_close(&input);
	return status;
}

/* The sum of the outputs at INPUT, compensated. */
static enum status objective(struct checker *c, const double *data, double *sum)
{
	struct session *s = c->session;
	struct run_files files;
	const struct run_options options = {.job.threads = 1, .dtype = DTYPE_F64, .value = &files.writer};
	const struct run_subject subject = {&s->chain, &s->bound, &files.reader};
	const struct context context = {s->allocator, &files.arena, &s->diags};
	struct run_counters counters;
	double *values = NULL, low = 0;
	int64_t count = 0;
	TRY(open_files(c, data, &files));
	enum status status = run_forward(&context, &subject, &options, &counters);
	if (!status)
		status = read_back(files.out, &values, &count, &files.arena, &s->diags);
	*sum = 0;
	for (int64_t i = 0; !status && i < count; i++)
		sum_add(sum, &low, values[i], 0);
	*sum += low;
	close_files(&files);
	return status;
}

struct gradient {
	double *input;
	struct gradient_result result;
	struct arena arena; /* of its run alone */
};

static void outcome_free(struct gradient *gradient)
{
	gradient_free(&gradient->result);
	arena_free(&gradient->arena);
}

/* GRADIENT is all zeros before. The caller frees it unless this fails. */
static enum status differentiate(struct checker *c, const struct policy *policy, int threads, int64_t tile,
                                 struct gradient *gradient)
{
	struct session *s = c->session;
	struct run_files files;
	int64_t count;
	TRY(open_files(c, c->input, &files));
	arena_init(&gradient->arena, s->allocator);
	struct run_options options = {.job = session_job_options(s, policy), .dtype = DTYPE_F64};
	const struct gradient_options backward = {.gradient = &files.writer, .compare = true};
	const struct run_subject subject = {&s->chain, &s->bound, &files.reader};
	const struct context context = {s->allocator, &gradient->arena, &s->diags};
	options.job.threads = threads;
	options.job.tile = tile;
	options.job.store = DTYPE_COUNT;
	options.job.want_value = false;
	enum status status = run_gradient(&context, &subject, &options, &backward, &gradient->result);
	if (!status)
		status = read_back(files.out, &gradient->input, &count, &gradient->arena, &s->diags);
	close_files(&files);
	if (status)
		outcome_free(gradient);
	return status;
}

enum { JUDGED = 1, SKIPPED = 2 };

struct check_row {
	const char *what, *result;
	bool ok;
	const char *detail;
	const char *none; /* NULL: a check that is skipped has no `ok` */
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
	*(word == CHECK_OK ? &c->passed : word == CHECK_FAIL ? &c->failed : &c->skipped) += 1;
	records_put(&c->records, &row, word == CHECK_SKIP ? SKIPPED : JUDGED);
}

/* Finds the first operation of JOB's chain that makes differences useless: it stops the gradient, or rounds values. */
static enum status find_blind(struct checker *c, const struct job *job)
{
	for (size_t i = 0; i < job->whole.distinct_count; i++) {
		const struct body *body = job->whole.distinct[i]->body;
		for (size_t k = 0; k < body->instr_count; k++) {
			const struct instr *instr = &body->instrs[k];
			const bool stops = instr->op == OP_stop_gradient;
			const bool rounds = instr->op == OP_cast && instr->attrs->dtype != DTYPE_F64;
			if (instr->kind != INSTR_OP || !(stops || rounds))
				continue;
			c->blind = arena_printf(&c->session->arena, "the %s at %u:%u %s", op_table[instr->op].name,
			                        instr->span.line, instr->span.column,
			                        stops ? "stops gradients, not differences" : "rounds what differences tell apart");
			return c->blind ? STATUS_OK : diag_memory(&c->session->diags);
		}
	}
	return STATUS_OK;
}

/* The objective as a function of one element. */
struct element {
	struct checker *checker;
	double *at;
};

static enum status objective_at(void *context, double x, double *value)
{
	const struct element *element = context;
	const double old = *element->at;
	*element->at = x;
	const enum status status = objective(element->checker, element->checker->input, value);
	*element->at = old;
	return status;
}

/* The element to check as number K: each of a small array; else they are spread over the array, whatever its axes. */
static int64_t sample(int64_t k, int64_t count)
{
	return count > SAMPLES ? (int64_t)((double)count * trial_fraction(k)) : k;
}

/* The checked element with the largest error. */
struct worst {
	int64_t at; /* -1: none has an error */
	double have;
	struct slope slope;
};

/* Describes the differences of an array in DETAIL: its WORST element, and its KINKS, elements that lie on a kink. */
static void describe(const struct worst *worst, int kinks, const char *blind, char *detail, size_t size)
{
	const struct slope *slope = &worst->slope;
	const char *end = worst->at < 0 ? "" : "; ";
	int n = blind ? snprintf(detail, size, "%s%s", blind, end) : 0;
	if (kinks)
		n += snprintf(detail + n, size - (size_t)n,
		              "%d element%s on a kink, where any slope between both sides' is one%s", kinks,
		              kinks == 1 ? "" : "s", end);
	if (worst->at < 0)
		return;
	n += snprintf(detail + n, size - (size_t)n, "worst at element %lld: %.9g, ", (long long)worst->at, worst->have);
	if (slope->kink)
		n += snprintf(detail + n, size - (size_t)n, "slopes %.9g and %.9g", slope->left, slope->right);
	else /* the sign of a NaN means nothing */
		n += snprintf(detail + n, size - (size_t)n, "difference %.9g", isnan(slope->want) ? (double)NAN : slope->want);
	snprintf(detail + n, size - (size_t)n, " (error %.2g)", slope->error);
}

/* Differences on elements of ARRAY, which is the input or a param's data. */
static enum status check_array(struct checker *c, const char *name, double *array, int64_t count, const double *slope)
{
	struct worst worst = {.at = -1};
	int kinks = 0;
	for (int64_t k = 0; k < count && k < SAMPLES; k++) {
		const int64_t i = sample(k, count);
		struct element element = {c, &array[i]};
		const struct derivative_function function = {objective_at, &element};
		struct slope found;
		TRY(derivative_judge(&function, array[i], slope[i], MOST_ERROR, &found));
		kinks += found.kink;
		/* Of equal errors the first counts. NaN is the largest error. */
		if (!isnan(worst.slope.error) && !(found.error <= worst.slope.error * (1 + 1e-6)))
			worst = (struct worst){i, slope[i], found};
	}
	char what[128], detail[400] = "";
	const bool good = worst.slope.error <= MOST_ERROR, skips = !good && c->blind;
	snprintf(what, sizeof what, "gradient of %s against differences", name);
	describe(&worst, kinks, skips ? c->blind : NULL, detail, sizeof detail);
	put_check(c, good ? CHECK_OK : skips ? CHECK_SKIP : CHECK_FAIL, what, detail);
	return STATUS_OK;
}

/* True if two gradients have the same bits; else DETAIL says what differs. */
static bool same_bits(struct checker *c, const struct gradient *a, const struct gradient *b, char detail[200])
{
	detail[0] = '\0';
	for (int64_t i = 0; i < c->count; i++)
		if (memcmp(&a->input[i], &b->input[i], sizeof *a->input) != 0) {
			snprintf(detail, 200, "element %lld of the input's gradient is %.17g, not %.17g", (long long)i, b->input[i],
			         a->input[i]);
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

/* With one checkpoint each step is recomputed from the start of the chain, or from that checkpoint. */
static bool is_quadratic(const struct policy *policy)
{
	return (policy->kind == POLICY_revolve || policy->kind == POLICY_online) && policy->number == 1;
}

static enum status check_policies(struct checker *c, const struct gradient *base)
{
	static const struct {
		enum policy_kind kind;
		int64_t number;
	} policies[] = {{POLICY_nothing, 0}, {POLICY_dots, 0},  {POLICY_dots_no_batch, 0}, {POLICY_every, 1},
	                {POLICY_every, 3},   {POLICY_sqrt, 0},  {POLICY_recursive, 0},     {POLICY_revolve, 1},
	                {POLICY_revolve, 3}, {POLICY_online, 3}};
	struct session *s = c->session;
	size_t usual = sizeof policies / sizeof *policies,
		   given = s->set.policies.count + (s->set.memory && !s->set.policies.count);
	for (size_t i = 0; i < usual + given; i++) {
		struct policy policy = s->set.policy;
		struct gradient other = {0};
		char what[128], detail[200] = "";
		if (i >= usual && s->set.policies.count)
			policy = s->set.policies.items[i - usual];
		if (i < usual && !policy_make(&policy, policies[i].kind, policies[i].number, &s->arena))
			return diag_memory(&s->diags);
		snprintf(what, sizeof what, "same bits under %s", policy.text);
		if (is_quadratic(&policy) && base->result.job.whole.steps > QUADRATIC_STEPS) {
			snprintf(detail, sizeof detail, "its evaluations grow with the square of %lld steps",
			         (long long)base->result.job.whole.steps);
			put_check(c, CHECK_SKIP, what, detail);
			continue;
		}
		TRY(differentiate(c, &policy, 1, 0, &other));
		bool ok = same_bits(c, base, &other, detail);
		const struct counters *p = &other.result.predicted, *m = &other.result.measured;
		if (ok && (p->evaluations != m->evaluations || p->peak_bytes != m->peak_bytes ||
		           p->stored_bytes != m->stored_bytes)) {
			snprintf(detail, sizeof detail, "predicted %lld evaluations and %lld bytes, measured %lld and %lld",
			         (long long)p->evaluations, (long long)p->peak_bytes, (long long)m->evaluations,
			         (long long)m->peak_bytes);
			ok = false;
		}
		const struct state_hashes *again = &other.result.recomputed;
		if (ok && again->differing)
			snprintf(detail, sizeof detail,
			         "of %lld states that were recomputed %lld differ, first that after step %lld",
			         (long long)again->compared, (long long)again->differing, (long long)again->first_step);
		else if (ok && again->compared)
			snprintf(detail, sizeof detail, "%lld recomputed state%s as in the first sweep", (long long)again->compared,
			         again->compared == 1 ? "" : "s");
		ok &= !again->differing;
		put_check(c, ok ? CHECK_OK : CHECK_FAIL, what, detail);
		outcome_free(&other);
	}
	return STATUS_OK;
}

static enum status check_repeats(struct checker *c, const struct gradient *base)
{
	static const struct {
		const char *what;
		int threads;
		int64_t tile;
	} runs[] = {{"same bits when it is run again", 1, 0},
	            {"same bits with 4 workers", 4, 0},
	            {"same bits in tiles of 3 rows", 2, 3}};
	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
		struct gradient other = {0};
		char detail[200];
		TRY(differentiate(c, &policy_save_all, runs[i].threads, runs[i].tile, &other));
		put_check(c, same_bits(c, base, &other, detail) ? CHECK_OK : CHECK_FAIL, runs[i].what, detail);
		outcome_free(&other);
	}
	return STATUS_OK;
}

static enum status get_input(struct checker *c)
{
	struct session *s = c->session;
	TRY(trial_begin_input(s, &c->type));
	c->type.dtype = DTYPE_F64;
	c->count = shape_count(&c->type.shape);
	c->input = arena_array(&s->arena, (size_t)c->count + 1, sizeof *c->input);
	TRY_ALLOC(c->input, &s->diags);
	enum status status = trial_read_input(s, 0, c->input, c->count);
	return status ? status : trial_end_input(s);
}

static enum status run_checks(struct checker *c)
{
	struct session *s = c->session;
	struct gradient base = {0};
	TRY(differentiate(c, &policy_save_all, 1, 0, &base));
	enum status status = find_blind(c, &base.result.job);
	if (!status)
		status = check_array(c, s->chain.input, c->input, c->count, base.input);
	for (size_t i = 0; i < s->chain.param_count && !status; i++) {
		const struct param *param = &s->chain.params[i];
		struct bound_param *bound = &s->bound.bound[i];
		/* Each run converts a weak param again from its exact values. */
		const void *values = param->weak ? s->bound.exact[i].data : bound->data;
		if (param->differentiated && bound->type.dtype == DTYPE_F64)
			status = check_array(c, param->name, (double *)(uintptr_t)values, shape_count(&bound->type.shape),
			                     base.result.params[i].data);
	}
	if (!status)
		status = check_repeats(c, &base);
	if (!status)
		status = check_policies(c, &base);
	outcome_free(&base);
	return status;
}

enum status command_check(struct session *s)
{
	struct checker c = {.session = s};
	enum status status = session_load_chain(s);
	if (!status)
		status = get_input(&c);
	s->set.dtype = DTYPE_F64; /* params are held in it, too */
	if (!status)
		status = session_bind(s, true, DTYPE_F64);
	if (!status)
		status = session_open_report(s, &c.out);
	if (status)
		return status;
	report_open(&c.out.report, NULL, '{');
	records_begin(&c.records, &c.out.report, &check_kind, JUDGED | SKIPPED);
	status = run_checks(&c);
	if (!status)
		status = records_end(&c.records);
	if (status) {
		output_abort(&c.out.output);
		return status;
	}
	report_whole(&c.out.report, "passed", c.passed);
	report_whole(&c.out.report, "failed", c.failed);
	report_whole(&c.out.report, "skipped", c.skipped);
	report_close(&c.out.report, '}');
	if (s->set.format == REPORT_TABLE || s->set.format == REPORT_LINES)
		text_printf(&c.out.text, c.skipped ? "%d passed, %d failed, %d skipped\n" : "%d passed, %d failed\n", c.passed,
		            c.failed, c.skipped);
	status = session_close_text(&c.out, STATUS_OK);
	return status ? status : c.failed ? STATUS_CHECK : STATUS_OK;
}
