/*
 * ckptc profile: measures. Depth against forward time, backward time and
 * memory, with the exponents at which they grow; checkpoint interval against
 * memory and overhead, predicted beside measured; and what bounds the chain,
 * from these figures, with what to do about it.
 *
 * Depth is a part of the chain: its first stages, and the same part of the iterations
 * of its loops. Times are the least of several runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/job_options.h"
#include "cli/plot.h"
#include "cli/trial.h"
#include "exec/run.h"
#include "report/counters.h"

enum { RUNS = 3, DEPTHS = 4, INTERVALS = 12, GIVEN = 16 };

struct profiler {
	struct session *session;
	struct type type;
	int64_t count;
	int data; /* a file in memory: the input */
	int sink; /* /dev/null */
};

/* What a run took of the processors, all threads together, and of memory that it had not touched before. */
struct usage {
	int64_t faults;
	double cpu_ms;
};

struct point {
	const char *name;       /* of its policy */
	struct portion portion; /* of the chain: what was run */
	int64_t steps, evaluations, peak;
	double forward_ms, backward_ms, predicted_overhead;
	struct usage usage; /* of the quickest run with gradients */
};

static double now_ms(void) { return 1e3 * clock_seconds(); }

static struct usage usage_now(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return (struct usage){r.ru_minflt, 1e3 * (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	                                       1e-3 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec)};
}

static struct usage usage_since(struct usage begun)
{
	const struct usage now = usage_now();
	return (struct usage){now.faults - begun.faults, now.cpu_ms - begun.cpu_ms};
}

/* Milliseconds that the first touch of a page takes on this machine; 0: not known. */
static double fault_ms(void)
{
	enum { BYTES = 16 << 20, STRIDE = 4096 };
	volatile char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return 0;
	const struct usage begun = usage_now();
	const double since = now_ms();
	for (size_t i = 0; i < BYTES; i += STRIDE)
		bytes[i] = 1;
	const double ms = now_ms() - since;
	const struct usage used = usage_since(begun);
	munmap((void *)(uintptr_t)bytes, BYTES);
	return used.faults > 0 ? ms / (double)used.faults : 0;
}

/* The input, in memory. */
static enum status get_data(struct profiler *p)
{
	struct session *s = p->session;
	enum status status = trial_begin_input(s, &p->type);
	if (status)
		return status;
	if (p->type.dtype > DTYPE_F64)
		p->type.dtype = DTYPE_F64;
	p->type.dtype = s->set.dtype != DTYPE_COUNT ? s->set.dtype : dtype_compute(p->type.dtype);
	p->count = shape_count(&p->type.shape);
	if ((uint64_t)type_bytes(&p->type) > session_memory_most())
		return diag_memory(&s->diags); /* where the input is held, so that every run begins alike */
	status = trial_open_file(s, &p->data);
	p->sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (!status && p->sink < 0)
		status = diag_file(&s->diags, STATUS_IO, "/dev/null", -1, "cannot open it: %s", strerror(errno));
	if (status)
		return status;
	struct output output;
	struct writer writer;
	trial_write_file(p->data, &output, &writer, &s->arena);
	status = writer_begin(&writer, &p->type, &s->diags);
	double block[512];
	for (int64_t done = 0; done < p->count && !status; done += 512) {
		int64_t n = p->count - done < 512 ? p->count - done : 512;
		status = trial_read_input(s, done, block, n);
		if (!status)
			status = writer_write(&writer, block, DTYPE_F64, n, &s->diags);
	}
	return status ? status : trial_end_input(s);
}

static enum status run_once(struct profiler *p, const struct policy *policy, const struct portion *portion, double *ms,
                            struct gradient_result *result, struct arena *arena)
{
	struct session *s = p->session;
	struct input input;
	struct reader reader;
	struct writer writer;
	struct output output = {.fd = p->sink, .name = "/dev/null", .arena = arena};
	struct writer_options writing = {.format = FORMAT_NPY};
	trial_read_file(p->data, &input, &reader, arena);
	writer_init(&writer, &output, &writing, arena);
	double begun = now_ms();
	const struct run_subject subject = {&s->chain, &s->bound, &reader};
	const struct context context = {s->allocator, arena, &s->diags};
	struct run_options options = {.job = session_job_options(s, policy ? policy : &s->set.policy),
	                              .dtype = DTYPE_COUNT};
	options.job.want_value = false;
	options.job.portion = *portion;
	enum status status;
	if (policy) {
		status = run_gradient(&context, &subject, &options, &(struct gradient_options){.gradient = &writer}, result);
	} else {
		struct run_counters counters;
		options.value = &writer;
		status = run_forward(&context, &subject, &options, &counters);
	}
	*ms = now_ms() - begun - 1e3 * result->planning; /* which is once, and not of the chain */
	input_close(&input);
	return status;
}

/* The least time of several runs of the portion that POINT is of. POLICY NULL: forward. */
static enum status measure(struct profiler *p, const struct policy *policy, double *ms, struct point *point)
{
	*ms = HUGE_VAL;
	for (int i = 0; i < RUNS; i++) {
		struct gradient_result result = {0};
		struct arena arena;
		double once;
		arena_init(&arena, p->session->allocator);
		const struct usage begun = usage_now();
		enum status status = run_once(p, policy, &point->portion, &once, &result, &arena);
		if (policy && once < *ms)
			point->usage = usage_since(begun);
		if (!status && policy) {
			struct policy_row row = {.counters = result.predicted};
			point->steps = result.measured.steps;
			point->evaluations = result.measured.evaluations;
			point->peak = result.measured.peak_bytes;
			point->predicted_overhead = row_overhead(&row);
		}
		gradient_free(&result);
		arena_free(&arena);
		if (status)
			return status;
		*ms = once < *ms ? once : *ms;
	}
	return STATUS_OK;
}

/* The first PART of the chain's depth: of its stages, or, where these are few, of the iterations of its loops. */
static struct portion first_part(const struct chain *chain, double part)
{
	enum { FEW = 4 };
	size_t stages = 0;
	for (const struct node *n = chain->first; n; n = n->next)
		stages++;
	if (stages <= FEW)
		return (struct portion){.iterations = part};
	return (struct portion){.after = stages - (size_t)ceil((double)stages * part)};
}

/* The slope of log y against log x, of those that have one; NAN where fewer than two depths do. */
static double exponent(const struct point *points, size_t count, double (*y)(const struct point *))
{
	double sx = 0, sy = 0, sxx = 0, sxy = 0, n = 0;
	for (size_t i = 0; i < count; i++) {
		if (!(y(&points[i]) > 0) || points[i].steps < 1)
			continue;
		double a = log((double)points[i].steps), b = log(y(&points[i]));
		n++;
		sx += a;
		sy += b;
		sxx += a * a;
		sxy += a * b;
	}
	double spread = n * sxx - sx * sx;
	return spread > 1e-12 ? (n * sxy - sx * sy) / spread : (double)NAN;
}

static double forward_of(const struct point *point) { return point->forward_ms; }
static double backward_of(const struct point *point) { return point->backward_ms; }
static double peak_of(const struct point *point) { return (double)point->peak; }

/* The three exponents, each after its LABEL in FORMAT; NONE stands for one that is not there. */
static void put_exponents(const struct text *text, const struct point *depth, const char *const labels[3],
                          const char *format, const char *none)
{
	double (*const of[])(const struct point *) = {forward_of, backward_of, peak_of};
	for (int i = 0; i < 3; i++) {
		const double power = exponent(depth, DEPTHS, of[i]);
		text_put(text, labels[i]);
		if (isnan(power))
			text_put(text, none);
		else
			text_printf(text, format, power);
	}
}

static enum status profile_depth(struct profiler *p, struct point *points)
{
	enum status status = STATUS_OK;
	for (int i = 0; i < DEPTHS && !status; i++) {
		double all;
		points[i].portion = first_part(&p->session->chain, (double)(i + 1) / DEPTHS);
		status = measure(p, NULL, &points[i].forward_ms, &points[i]);
		if (!status)
			status = measure(p, &policy_save_all, &all, &points[i]);
		if (!status)
			points[i].backward_ms = fmax(all - points[i].forward_ms, 0);
	}
	return status;
}

static enum status profile_intervals(struct profiler *p, int64_t steps, struct point *points, size_t *count)
{
	enum status status = STATUS_OK;
	for (int64_t interval = 1; interval <= steps && *count < INTERVALS && !status; interval *= 2) {
		struct policy policy;
		struct point *point = &points[*count];
		if (!policy_make(&policy, POLICY_every, interval, &p->session->arena))
			return diag_memory(&p->session->diags);
		point->name = policy.text;
		status = measure(p, &policy, &point->backward_ms, point);
		++*count;
	}
	return status;
}

/* The policies that are asked for, beside the intervals. */
static enum status profile_given(struct profiler *p, struct point *points, size_t *count)
{
	struct session *s = p->session;
	size_t given = s->set.policies.count + (s->set.memory && !s->set.policies.count);
	if (given > GIVEN)
		return diag_file(&s->diags, STATUS_USAGE, NULL, -1, "profile measures at most %d policies", GIVEN);
	for (size_t i = 0; i < given; i++) {
		const struct policy *policy = s->set.policies.count ? &s->set.policies.items[i] : &s->set.policy;
		struct point *point = &points[*count];
		if (policy->kind == POLICY_disk_revolve)
			return diag_file(&s->diags, STATUS_USAGE, NULL, -1, "profile keeps all states in memory: not '%s'",
			                 policy->text);
		point->name = policy->text;
		enum status status = measure(p, policy, &point->backward_ms, point);
		if (status)
			return status;
		++*count;
	}
	return STATUS_OK;
}

struct verdict_text {
	const char *what, *todo;
};

/* What bounds the chain, from its figures. */
static struct verdict_text bottleneck(struct profiler *p, const struct point *full)
{
	bool products = false;
	const struct chain *chain = &p->session->chain;
	double work = 0;
	struct lowered run;
	struct diags told; /* what cannot be looked at is no product */
	diags_init(&told, &p->session->arena);
	const struct context context = {p->session->arena.allocator, &p->session->arena, &told};
	if (lower(&context, &run, chain, NULL, &p->type, LOWER_RUN) == STATUS_OK)
		for (size_t i = 0; i < run.whole->instr_count; i++) {
			const struct instr *instr = &run.whole->instrs[i];
			if (instr->kind != INSTR_OP)
				continue;
			products |= op_is_dot(instr->op);
			work += op_cost(instr->op, instr->of.v, instr->of.a, instr->of.y);
		}
	double bytes = (double)type_bytes(&p->type), rate = bytes / (full->forward_ms * 1e-3);
	static const double too_short = 0.5; /* ms: what starting a run takes is a part of it */
	if (full->forward_ms < too_short && full->backward_ms < too_short)
		return (struct verdict_text){"the start of a run", "nothing to gain in one so short: profile a larger --shape"};
	static const double much = 0.4; /* of the processors' time */
	if ((double)full->usage.faults * fault_ms() > much * full->usage.cpu_ms)
		return (struct verdict_text){
			"page faults", "touch less memory for the first time: `ckptc plan` shows policies with a lower peak"};
	const char *more = dtype_compute(p->type.dtype) == DTYPE_F64 ? "more --threads, or --dtype f32" : "more --threads";
	if (products) {
		const char *todo = arena_printf(
			&p->session->arena, "%s; leave products out of what runs again: checkpoint policy=dots { ... }", more);
		return (struct verdict_text){"matrix multiply", todo ? todo : more};
	}
	if (full->peak > (int64_t)1 << 30)
		return (struct verdict_text){"memory bandwidth",
		                             "keep less: `ckptc plan` shows what sqrt, recursive or --memory would hold"};
	if (work / (bytes > 0 ? bytes : 1) < 2 && rate > 2e9)
		return (struct verdict_text){"input and output",
		                             "chain more operations in one run; -i and -o files are faster than pipes"};
	if (full->backward_ms > 4 * full->forward_ms)
		return (struct verdict_text){"the backward pass", "look at `ckptc residuals` for what it reads"};
	return (struct verdict_text){"arithmetic", more};
}

static double backward_ratio(const struct point *point) { return point->backward_ms / fmax(point->forward_ms, 1e-6); }
static double steps_a_second(const struct point *point)
{
	return 1e3 * (double)point->steps / fmax(point->forward_ms, 1e-6);
}
/* Percent beyond save-all of the whole depth. */
static double measured_overhead(const struct point *depth, const struct point *point)
{
	const double base = depth[DEPTHS - 1].forward_ms + depth[DEPTHS - 1].backward_ms;
	return 100 * (point->backward_ms - base) / fmax(base, 1e-6);
}
static double bytes_a_step(const struct point *point) { return (double)point->peak / fmax((double)point->steps, 1); }

/* csv, or a line each with keys. */
static void put_rows(const struct text *text, bool csv, const struct point *depth, const struct point *intervals,
                     size_t count, const struct verdict_text *verdict)
{
	if (csv)
		text_put(text,
		         "what,steps,policy,evaluations,forward_ms,backward_ms,peak_bytes,bytes_per_step,steps_per_second,"
		         "predicted_overhead_percent,measured_overhead_percent,page_faults\n");
	for (int i = 0; i < DEPTHS; i++)
		text_printf(text,
		            csv ? "depth,%lld,save-all,,%.6g,%.6g,%lld,%.6g,%.6g,,,%lld\n"
		                : "depth steps=%lld forward_ms=%.6g backward_ms=%.6g peak_bytes=%lld bytes_per_step=%.6g "
		                  "steps_per_second=%.6g page_faults=%lld\n",
		            (long long)depth[i].steps, depth[i].forward_ms, depth[i].backward_ms, (long long)depth[i].peak,
		            bytes_a_step(&depth[i]), steps_a_second(&depth[i]), (long long)depth[i].usage.faults);
	for (size_t i = 0; i < count; i++) {
		text_printf(text, csv ? "policy,%lld," : "policy steps=%lld name=", (long long)intervals[i].steps);
		if (csv)
			text_csv(text, intervals[i].name);
		else
			text_put(text, intervals[i].name);
		text_printf(text,
		            csv ? ",%lld,,%.6g,%lld,,,%.6g,%.6g,%lld\n"
		                : " evaluations=%lld ms=%.6g peak_bytes=%lld predicted_overhead_percent=%.6g "
		                  "measured_overhead_percent=%.6g page_faults=%lld\n",
		            (long long)intervals[i].evaluations, intervals[i].backward_ms, (long long)intervals[i].peak,
		            intervals[i].predicted_overhead, measured_overhead(depth, &intervals[i]),
		            (long long)intervals[i].usage.faults);
	}
	if (!csv)
		text_printf(text, "bottleneck %s\nadvice %s\n", verdict->what, verdict->todo);
}

static void put_table(const struct text *text, const struct point *depth, const struct point *intervals, size_t count,
                      const struct verdict_text *verdict)
{
	text_printf(text, "%10s %12s %12s %8s %14s %14s %14s\n", "steps", "forward ms", "backward ms", "ratio",
	            "peak bytes", "bytes/step", "steps/s");
	for (int i = 0; i < DEPTHS; i++)
		text_printf(text, "%10lld %12.3f %12.3f %8.2f %14lld %14.0f %14.0f\n", (long long)depth[i].steps,
		            depth[i].forward_ms, depth[i].backward_ms, backward_ratio(&depth[i]), (long long)depth[i].peak,
		            bytes_a_step(&depth[i]), steps_a_second(&depth[i]));
	static const char *const labels[] = {"grows as depth to the power: forward ", ", backward ", ", peak "};
	put_exponents(text, depth, labels, "%.2f", "-");
	text_put(text, "\n\n");
	text_printf(text, "%-12s %12s %14s %12s %12s %12s %12s\n", "interval", "evaluations", "peak bytes", "reduction %",
	            "predicted %", "measured %", "ms");
	for (size_t i = 0; i < count; i++)
		text_printf(text, "%-12s %12lld %14lld %12.1f %12.1f %12.1f %12.3f\n", intervals[i].name,
		            (long long)intervals[i].evaluations, (long long)intervals[i].peak,
		            100 * (1 - (double)intervals[i].peak / fmax((double)depth[DEPTHS - 1].peak, 1)),
		            intervals[i].predicted_overhead, measured_overhead(depth, &intervals[i]), intervals[i].backward_ms);
	text_printf(text, "\nbounded by: %s\nto do: %s\n", verdict->what, verdict->todo);
}

static void put_json(const struct text *text, const struct point *depth, const struct point *intervals, size_t count,
                     const struct verdict_text *verdict)
{
	text_put(text, "{\"depth\":[");
	for (int i = 0; i < DEPTHS; i++)
		text_printf(text,
		            "%s{\"steps\":%lld,\"forward_ms\":%.6g,\"backward_ms\":%.6g,\"peak_bytes\":%lld,"
		            "\"bytes_per_step\":%.6g,\"steps_per_second\":%.6g,\"page_faults\":%lld}",
		            i ? "," : "", (long long)depth[i].steps, depth[i].forward_ms, depth[i].backward_ms,
		            (long long)depth[i].peak, bytes_a_step(&depth[i]), steps_a_second(&depth[i]),
		            (long long)depth[i].usage.faults);
	static const char *const labels[] = {"],\"exponents\":{\"forward\":", ",\"backward\":", ",\"peak\":"};
	put_exponents(text, depth, labels, "%.4g", "null");
	text_put(text, "},\"intervals\":[");
	for (size_t i = 0; i < count; i++)
		text_printf(text,
		            "%s{\"policy\":\"%s\",\"evaluations\":%lld,\"peak_bytes\":%lld,\"predicted_overhead_percent\":%.6g,"
		            "\"measured_overhead_percent\":%.6g,\"ms\":%.6g,\"page_faults\":%lld}",
		            i ? "," : "", intervals[i].name, (long long)intervals[i].evaluations, (long long)intervals[i].peak,
		            intervals[i].predicted_overhead, measured_overhead(depth, &intervals[i]), intervals[i].backward_ms,
		            (long long)intervals[i].usage.faults);
	text_put(text, "],\"bottleneck\":");
	text_json(text, verdict->what);
	text_put(text, ",\"advice\":");
	text_json(text, verdict->todo);
	text_put(text, "}\n");
}

/* Depth against time, and interval against memory and overhead. */
static enum status draw(struct profiler *p, struct plot *plot, const struct point *depth, const struct point *intervals,
                        size_t count)
{
	double steps[DEPTHS], forward[DEPTHS], backward[DEPTHS];
	double every[INTERVALS], peak[INTERVALS], predicted[INTERVALS], measured[INTERVALS];
	char type[TYPE_TEXT];
	for (int i = 0; i < DEPTHS; i++) {
		steps[i] = (double)depth[i].steps;
		forward[i] = depth[i].forward_ms;
		backward[i] = depth[i].backward_ms;
	}
	for (size_t i = 0; i < count; i++) {
		every[i] = ldexp(1, (int)i);
		peak[i] = (double)intervals[i].peak;
		predicted[i] = intervals[i].predicted_overhead;
		measured[i] = measured_overhead(depth, &intervals[i]);
	}
	const struct picture_series times[] = {{"forward", "forward", steps, forward, DEPTHS},
	                                       {"backward", "backward", steps, backward, DEPTHS}};
	const struct picture_series bytes[] = {{"peak bytes", "live", every, peak, count}};
	const struct picture_series overheads[] = {{"predicted", "other", every, predicted, count},
	                                           {"measured", "recompute", every, measured, count}};
	const struct svg_axis interval = {.unit = SVG_COUNT, .log = true, .label = "checkpoint interval, in steps"};
	const struct picture_curves curves[] = {
		{"time by depth", {.unit = SVG_COUNT, .label = "depth, in steps"}, {.unit = SVG_MS, .label = "time"}, times, 2},
		{"memory by interval", interval, {.unit = SVG_BYTES, .label = "peak bytes"}, bytes, 1},
		{"overhead by interval", interval, {.unit = SVG_PERCENT, .label = "overhead"}, overheads, 2}};
	struct picture picture = {.subtitle = type_format(&p->type, type), .curves = curves, .curve_count = 3};
	return plot_draw(p->session, plot, &picture);
}

static enum status profile(struct session *s, struct plot *plot)
{
	struct profiler p = {.session = s, .data = -1, .sink = -1};
	struct point depth[DEPTHS] = {0}, intervals[INTERVALS + GIVEN] = {0};
	size_t count = 0, measured = 0;
	struct counters all;
	struct text_file file;
	enum status status = session_load_chain(s);
	if (!status)
		status = get_data(&p);
	if (!status)
		status = session_bind(s, true, p.type.dtype);
	const struct type input = run_input_type(&s->chain, &p.type, DTYPE_COUNT);
	if (!status) /* what is wrong with the whole chain is found before its parts are measured */
		status = save_all_counters(s, NULL, &input, &all, &s->diags);
	if (!status)
		status = profile_depth(&p, depth);
	if (!status)
		status = profile_intervals(&p, depth[DEPTHS - 1].steps, intervals, &count);
	measured = count;
	if (!status)
		status = profile_given(&p, intervals, &count);
	if (!status)
		status = session_open_report(s, &file);
	if (p.data >= 0)
		close(p.data);
	if (p.sink >= 0)
		close(p.sink);
	if (status)
		return status;
	struct verdict_text verdict = bottleneck(&p, &depth[DEPTHS - 1]);
	if (s->set.format == REPORT_JSON)
		put_json(&file.text, depth, intervals, count, &verdict);
	else if (s->set.format == REPORT_TABLE)
		put_table(&file.text, depth, intervals, count, &verdict);
	else
		put_rows(&file.text, s->set.format == REPORT_CSV, depth, intervals, count, &verdict);
	status = session_close_text(&file, STATUS_OK);
	return status || !plot->open ? status : draw(&p, plot, depth, intervals, measured);
}

enum status command_profile(struct session *s)
{
	struct plot plot;
	enum status status = plot_open(s, &plot);
	if (!status)
		status = profile(s, &plot);
	plot_abort(&plot);
	return status;
}
