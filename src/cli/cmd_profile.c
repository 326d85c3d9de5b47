/*
 * ckptc profile: measures forward time, backward time and memory by depth, and memory and overhead by policy. It finds
 * which of several costs takes most of the time.
 *
 * A depth is a portion of the chain: its first stages, or a share of the iterations of each of its loops. It runs as a
 * chain of its own would, on tiles of its own. A time is the median of several runs, and its spread that of the middle half
 * of them, since a busy machine makes outliers. Backward times are differences of a gradient's time and that of the
 * forward run just before it, so that slow changes of the machine's speed cancel. So do those in the overhead of a policy,
 * whose runs take turns with save-all's.
 *
 * The best interval is the knee of `plan --sweep every`. It is measured beside every:1, every:2, every:4, ...
 * Tests: tests/cases/profile.test, tests/cases/cli.test
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/checked.h"
#include "base/system.h"
#include "cli/plot.h"
#include "cli/subject.h"
#include "cli/trial.h"
#include "report/profile.h"

enum { LEAST_RUNS = 3, MOST_RUNS = 25, QUARTERS = 4, DEPTHS = MOST_DEPTHS + 1 };
/* The most intervals that are powers of two; intervals with the best; policies given; policies. */
enum { POWERS = 12, INTERVALS = POWERS + 1, GIVEN = 16, POLICIES = INTERVALS + GIVEN };

struct profiler {
	struct session *session;
	struct type type;
	int64_t count;
	struct opened_output *data, *sink; /* the input, in memory; /dev/null */
	struct profile_row depths[DEPTHS], policies[POLICIES];
	struct picture_point forward[DEPTHS], backward[DEPTHS], memory[DEPTHS];        /* by steps */
	struct picture_point predicted[POLICIES], measured[POLICIES], peaks[POLICIES]; /* by interval */
	const struct counted *counted; /* iterations of each `repeat while` on the input, as in struct portion */
	size_t counted_loops;
	size_t depth_count, interval_count, policy_count; /* intervals are the first of the policies */
	int64_t best; /* of the intervals, the knee, or if that saves no memory, the one that saves most; 0: none */
	bool saves;   /* the knee saves memory */
	struct counters save_all; /* of the whole chain, planned */
};

/* What the process has used: page faults of first touches, and processor time of all threads. */
struct usage {
	int64_t faults;
	double cpu_ms;
};

static double now_ms(void) { return 1e3 * clock_seconds(); }

static struct usage usage_now(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return (struct usage){r.ru_minflt, 1e3 * (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	                                       1e-3 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec)};
}

/* Milliseconds that one thread of this machine takes to touch a new page, and to copy a byte; 0: unknown. */
struct memory_ms {
	double fault, copy;
};

static struct memory_ms measure_memory(void)
{
	enum { TOUCHED = 16 << 20, COPIED = 32 << 20, STRIDE = 4096 };
	volatile char *map = mmap(NULL, 2 * (size_t)COPIED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return (struct memory_ms){0};
	char *bytes = (char *)(uintptr_t)map;
	const struct usage begun = usage_now();
	double since = now_ms();
	for (size_t i = 0; i < TOUCHED; i += STRIDE)
		map[i] = 1;
	const double touch = now_ms() - since;
	const int64_t faults = usage_now().faults - begun.faults;
	memset(bytes, 1, 2 * (size_t)COPIED);
	since = now_ms();
	memcpy(bytes + COPIED, bytes, COPIED);
	const struct memory_ms ms = {faults > 0 ? touch / (double)faults : 0, (now_ms() - since) / COPIED};
	munmap(bytes, 2 * (size_t)COPIED);
	return ms;
}

/* Copies the input, or makes it for --shape, to a file in memory, in the computing type. Opens /dev/null for output. */
static enum status get_data(struct profiler *p)
{
	struct session *s = p->session;
	TRY(trial_begin_input(s, &p->type));
	if (p->type.dtype > DTYPE_F64)
		p->type.dtype = DTYPE_F64;
	p->type.dtype = s->set.dtype != DTYPE_COUNT ? s->set.dtype : dtype_compute(p->type.dtype);
	p->count = shape_count(&p->type.shape);
	if ((uint64_t)type_bytes(&p->type) > session_memory_most())
		return diag_memory(&s->diags); /* the input is held in memory, so that all runs begin alike */
	TRY(trial_open_file(s, &p->data));
	TRY(session_open_output(s, &p->sink, "/dev/null", false));
	trial_write_file(p->data, &s->arena);
	TRY(writer_begin(&p->data->writer, &p->type, &s->diags));
	double block[512];
	for (int64_t done = 0; done < p->count; done += 512) {
		int64_t n = p->count - done < 512 ? p->count - done : 512;
		TRY(trial_read_input(s, done, block, n));
		TRY(writer_write(&p->data->writer, block, DTYPE_F64, n, &s->diags));
	}
	return trial_end_input(s);
}

/* Returns PORTION with the iterations of the chain's `repeat while`s, if they are known. */
static struct portion counted_portion(const struct profiler *p, struct portion portion)
{
	portion.counted = p->counted;
	portion.counted_loops = p->counted_loops;
	return portion;
}

/* Keeps the iterations that a gradient of the whole chain has counted. */
static void keep_counted(struct profiler *p, const struct portion *counted)
{
	struct counted *kept = arena_array(&p->session->arena, counted->counted_loops + 1, sizeof *kept);
	if (p->counted || !counted->counted || !kept)
		return;
	memcpy(kept, counted->counted, counted->counted_loops * sizeof *kept);
	p->counted = kept;
	p->counted_loops = counted->counted_loops;
}

/* Runs the gradient of PORTION once, or forward if POLICY is NULL. Sets ROW's counters and *MS. */
static enum status run_once(struct profiler *p, const struct policy *policy, const struct portion *portion,
                            struct profile_row *row, double *ms)
{
	struct session *s = p->session;
	struct gradient_result result = {0};
	struct arena arena;
	arena_init(&arena, s->allocator);
	struct trial trial = {s, p->data, p->sink, &arena, {.dtype = DTYPE_COUNT}, .compare = false};
	trial.options.job = session_job_options(s, policy ? policy : &s->set.policy);
	trial.options.job.want_value = false;
	trial.options.job.portion = counted_portion(p, *portion);
	const struct usage begun = usage_now();
	const double called = external_seconds(s->programs), since = now_ms();
	const enum status status = trial_run(&trial, policy ? &result : NULL);
	*ms = now_ms() - since - 1e3 * result.planning; /* a gradient's planning is not counted */
	if (row->runs == 0 || *ms < row->gradient.low) {
		const struct usage now = usage_now();
		row->gradient.low = *ms;
		row->page_faults = now.faults - begun.faults;
		row->cpu_ms = now.cpu_ms - begun.cpu_ms;
		row->program_ms = 1e3 * (external_seconds(s->programs) - called);
	}
	row->runs++;
	row->steps = result.measured.steps;
	row->evaluations = result.measured.evaluations;
	row->peak_bytes = result.measured.peak_bytes;
	row->tile_rows = result.has_job && result.job.tiles.tiled ? result.job.tiles.tile : NO_WHOLE;
	row->predicted_overhead = row_overhead(&(struct policy_row){.counters = result.predicted});
	keep_counted(p, &result.portion);
	gradient_free(&result);
	arena_free(&arena);
	return status;
}

/* True if COUNT runs, which took SPENT milliseconds, need another. Short runs need more: they are noisier. */
static bool wants_run(int count, double spent)
{
	static const double enough = 60;
	return count < LEAST_RUNS || (count < MOST_RUNS && spent < enough);
}

/* Returns the spread of COUNT times, which it sorts. */
static struct spread spread_of_times(double *times, int count)
{
	qsort(times, (size_t)count, sizeof *times, compare_doubles);
	return (struct spread){(times[(count - 1) / 2] + times[count / 2]) / 2, times[count / 4],
	                       times[count - 1 - count / 4]};
}

static void set_gradient(struct profile_row *row, double *times, int count)
{
	row->gradient = spread_of_times(times, count);
	row->spread_percent = 100 * (row->gradient.high - row->gradient.low) / fmax(row->gradient.middle, 1e-6);
}

/* Measures forward runs of PORTION to ROW: gradient, page_faults and cpu_ms alone. */
static enum status measure_forward(struct profiler *p, const struct portion *portion, struct profile_row *row)
{
	double times[MOST_RUNS], spent = 0;
	int count = 0;
	*row = (struct profile_row){0};
	for (; wants_run(count, spent); spent += times[count++])
		TRY(run_once(p, NULL, portion, row, &times[count]));
	set_gradient(row, times, count);
	return STATUS_OK;
}

static size_t count_stages(const struct chain *chain)
{
	size_t stages = 0;
	for (const struct node *node = chain->first; node; node = node->next)
		stages++;
	return stages;
}

/* Lowers PORTION of the chain (NULL: all) in ARENA, which the caller frees in any case. False if lowering fails. */
static bool lower_portion(const struct profiler *p, const struct portion *portion, enum lower_what what,
                          struct arena *arena, struct lowered *lowered)
{
	const struct session *s = p->session;
	const struct type input = run_input_type(&s->chain, &p->type, DTYPE_COUNT);
	struct diags ignored;
	arena_init(arena, s->allocator);
	diags_init(&ignored, arena);
	const struct context context = {s->allocator, arena, &ignored};
	const struct portion counted = counted_portion(p, portion ? *portion : (struct portion){.before = 0});
	return lower(&context, lowered, &s->chain, &counted, &input, what) == STATUS_OK;
}

/* Returns the number of steps of PORTION; 0 if it cannot be lowered. */
static int64_t portion_steps(const struct profiler *p, struct portion portion)
{
	struct arena arena;
	struct lowered lowered;
	const int64_t steps = lower_portion(p, &portion, LOWER_STEPS, &arena, &lowered) ? lowered.steps : 0;
	arena_free(&arena);
	return steps;
}

/* Returns a portion of about TARGET steps, SHARE of all: that share of each loop's iterations, or the first stages. */
static struct portion find_depth(const struct profiler *p, double share, double target)
{
	const size_t stages = count_stages(&p->session->chain);
	size_t low = 0, high = stages; /* the first `low` stages have fewer steps than TARGET, `high` have not */
	while (low + 1 < high) {
		const size_t middle = low + (high - low) / 2;
		const bool few = (double)portion_steps(p, (struct portion){.after = stages - middle}) < target;
		*(few ? &low : &high) = middle;
	}
	const struct portion choices[] = {{.iterations = share}, {.after = stages - high}, {.after = stages - low}};
	struct portion best = choices[0];
	double least = HUGE_VAL;
	for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
		const double off = fabs((double)portion_steps(p, choices[i]) - target);
		if (off < least) {
			least = off;
			best = choices[i];
		}
	}
	return best;
}

/* Measures forward runs and gradients of PORTION in turn, to ROW. */
static enum status measure_pairs(struct profiler *p, const struct portion *portion, struct profile_row *row)
{
	double forward[MOST_RUNS], backward[MOST_RUNS], both[MOST_RUNS], spent = 0;
	struct profile_row ignored = {0};
	int count = 0;
	*row = (struct profile_row){.kind = "depth"};
	for (; wants_run(count, spent); count++) {
		TRY(run_once(p, NULL, portion, &ignored, &forward[count]));
		TRY(run_once(p, &policy_save_all, portion, row, &both[count]));
		backward[count] = both[count] - forward[count];
		spent += forward[count] + both[count];
	}
	row->forward = spread_of_times(forward, count);
	row->backward = spread_of_times(backward, count);
	set_gradient(row, both, count);
	if (row->backward.middle <= 0) /* noise has hidden it */
		row->backward.middle = (double)NAN;
	return STATUS_OK;
}

static enum status measure_depth(struct profiler *p, const struct portion *portion)
{
	const size_t i = p->depth_count++;
	struct profile_row *row = &p->depths[i];
	TRY(measure_pairs(p, portion, row));
	const double steps = (double)row->steps;
	p->forward[i] = (struct picture_point){steps, row->forward.middle, row->forward.low, row->forward.high};
	p->backward[i] = (struct picture_point){steps, row->backward.middle, row->backward.low, row->backward.high};
	p->memory[i] = (struct picture_point){.x = steps, .y = (double)row->peak_bytes};
	row->ratio = row->backward.middle / fmax(row->forward.middle, 1e-6);
	row->bytes_per_step = (double)row->peak_bytes / fmax(steps, 1);
	row->steps_per_second = 1e3 * steps / fmax(row->forward.middle, 1e-6);
	return STATUS_OK;
}

/* Measures a depth of about TARGET steps, SHARE of all, unless it is less than APART steps from *LAST, or from ALL. */
static enum status try_depth(struct profiler *p, double share, int64_t all, int64_t apart, int64_t *last)
{
	const struct portion portion = find_depth(p, share, share * (double)all);
	const int64_t steps = portion_steps(p, portion);
	if (steps < 1 || (*last > 0 && steps < *last + apart) || steps > all - apart)
		return STATUS_OK;
	*last = steps;
	return measure_depth(p, &portion);
}

/*
 * Measures the depths of --depths, and the whole chain. By default these are near 1/4, 1/2 and 3/4 of the steps, and at
 * least an eighth of all apart.
 */
static enum status profile_depths(struct profiler *p)
{
	struct session *s = p->session;
	const struct portion whole = {0};
	const int64_t all = p->save_all.steps, apart = (all + 2 * QUARTERS - 1) / (2 * QUARTERS), *given = s->set.depths;
	const size_t count = s->set.depth_count;
	int64_t last = 0;
	if (count && given[count - 1] > all)
		return usage_error(s, "--depths goes up to %lld, and the chain has %lld step%s", (long long)given[count - 1],
		                   (long long)all, all == 1 ? "" : "s");
	for (size_t i = 0; i < count; i++)
		TRY(try_depth(p, (double)given[i] / (double)all, all, 1, &last));
	for (int i = 1; i < QUARTERS && !count; i++)
		TRY(try_depth(p, (double)i / QUARTERS, all, apart, &last));
	return measure_depth(p, &whole);
}

/* Measures gradients under POLICY and under save-all in turn: a machine that slows down slows both. */
static enum status measure_policy(struct profiler *p, const struct policy *policy)
{
	const struct profile_row *whole = &p->depths[p->depth_count - 1];
	const struct portion all = {0};
	const size_t i = p->policy_count++;
	struct profile_row *row = &p->policies[i], ignored = {0};
	double times[MOST_RUNS], ratios[MOST_RUNS], base, spent = 0;
	int count = 0;
	*row = (struct profile_row){.kind = "policy", .policy = policy->text};
	for (; wants_run(count, spent); count++) {
		TRY(run_once(p, &policy_save_all, &all, &ignored, &base));
		TRY(run_once(p, policy, &all, row, &times[count]));
		ratios[count] = times[count] / fmax(base, 1e-6);
		spent += base + times[count];
	}
	set_gradient(row, times, count);
	const struct spread ratio = spread_of_times(ratios, count);
	const double number = (double)policy->number;
	row->measured_overhead = 100 * (ratio.middle - 1);
	row->reduction =
		row_reduction(&(struct policy_row){.counters.peak_bytes = row->peak_bytes, .save_all_peak = whole->peak_bytes});
	p->predicted[i] = (struct picture_point){.x = number, .y = row->predicted_overhead};
	p->measured[i] =
		(struct picture_point){number, row->measured_overhead, 100 * (ratio.low - 1), 100 * (ratio.high - 1)};
	p->peaks[i] = (struct picture_point){.x = number, .y = (double)row->peak_bytes};
	return STATUS_OK;
}

/* Plans every:N for each N that `plan --sweep every` has. */
static enum status plan_intervals(struct profiler *p, struct subject *subject, struct policy_row **rows, size_t *count)
{
	struct session *s = p->session;
	size_t capacity = 0;
	bool last = p->save_all.steps == 0;
	for (int64_t n = 1; !last; n = sweep_next(n)) {
		struct policy interval;
		const struct policy *policy;
		last = n >= p->save_all.steps;
		struct policy_row *row = arena_append(&s->arena, rows, count, &capacity, sizeof *row);
		TRY_ALLOC(row && policy_make(&interval, POLICY_every, last ? p->save_all.steps : n, &s->arena), &s->diags);
		*row = (struct policy_row){0};
		TRY(subject_policy(subject, &interval, &policy));
		TRY(subject_plan(subject, &policy, row, NULL, &s->diags));
		row_compare(row, &p->save_all);
	}
	rows_mark_front(*rows, *count);
	return STATUS_OK;
}

/* Sets `best` and `saves`. */
static enum status choose_interval(struct profiler *p, struct subject *subject)
{
	struct policy_row *rows = NULL;
	size_t count = 0, most = 0, knee = 0;
	TRY(plan_intervals(p, subject, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		most = row_reduction(&rows[i]) > row_reduction(&rows[most]) ? i : most;
		knee = rows[i].knee ? i : knee;
	}
	p->saves = count > 0 && row_reduction(&rows[knee]) > 0;
	const size_t best = p->saves ? knee : most;
	if (count == 0 || row_reduction(&rows[best]) <= 0)
		return STATUS_OK;
	p->best = 1;
	for (size_t i = 0; i < best; i++)
		p->best = sweep_next(p->best);
	p->best = p->best < p->save_all.steps ? p->best : p->save_all.steps;
	return STATUS_OK;
}

static enum status measure_interval(struct profiler *p, struct subject *subject, int64_t interval)
{
	struct session *s = p->session;
	struct policy made;
	const struct policy *policy;
	TRY_ALLOC(policy_make(&made, POLICY_every, interval, &s->arena), &s->diags);
	TRY(subject_policy(subject, &made, &policy));
	TRY(measure_policy(p, policy));
	if (p->saves && interval == p->best)
		p->policies[p->policy_count - 1].mark = "best";
	return STATUS_OK;
}

/* True if an interval that is measured is POLICY. */
static bool is_measured(const struct profiler *p, const struct policy *policy)
{
	for (size_t i = 0; i < p->interval_count; i++)
		if (!strcmp(p->policies[i].policy, policy->text))
			return true;
	return false;
}

/* Measures every:N for N = 1, 2, 4, ... and for the best N, then the policies of --policy or --memory. */
static enum status profile_policies(struct profiler *p, struct subject *subject)
{
	struct session *s = p->session;
	const struct policy_list *given = &s->set.policies;
	const int64_t steps = p->save_all.steps;
	int64_t last = 0;
	TRY(choose_interval(p, subject));
	for (int64_t interval = 1; interval <= steps && interval < 1 << POWERS; interval *= 2) {
		if (p->best > last && p->best < interval)
			TRY(measure_interval(p, subject, p->best));
		TRY(measure_interval(p, subject, interval));
		last = interval;
	}
	if (p->best > last)
		TRY(measure_interval(p, subject, p->best));
	p->interval_count = p->policy_count;
	if (given->count > GIVEN)
		return usage_error(s, "profile measures at most %d policies, not %zu", GIVEN, given->count);
	for (size_t i = 0; i < given->count; i++) {
		if (given->items[i].kind == POLICY_disk_revolve)
			return usage_error(s, "profile keeps all states in memory: it takes no '%s'", given->items[i].text);
		if (!is_measured(p, &given->items[i]))
			TRY(measure_policy(p, &given->items[i]));
	}
	return !given->count && s->set.memory ? measure_policy(p, &s->set.policy) : STATUS_OK;
}

/* Returns the share of matrix products in the cost of a forward run by the table of costs, 0 to 1. */
static double products_share(const struct profiler *p)
{
	double all = 0, products = 0;
	struct arena arena;
	struct lowered run; /* a chain that cannot be lowered has no products */
	const size_t count = lower_portion(p, NULL, LOWER_RUN, &arena, &run) ? run.whole->instr_count : 0;
	for (size_t i = 0; i < count; i++) {
		const struct instr *instr = &run.whole->instrs[i];
		const double cost =
			instr->kind == INSTR_OP ? op_cost(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y) : 0;
		all += cost;
		products += instr->kind == INSTR_OP && op_is_dot(instr->op) ? cost : 0;
	}
	arena_free(&arena);
	return all > 0 ? products / all : 0;
}

static const char *faster_arithmetic(const struct profiler *p)
{
	if (p->session->set.threads < system_processors())
		return "more --threads";
	return p->type.dtype == DTYPE_F64 ? "--dtype f32" : "fewer operations: all processors are in use";
}

struct bound_cost {
	const char *bottleneck, *advice;
	double share; /* of a gradient's time, estimated */
};
enum { COST_FAULTS, COST_FILES, COST_MEMORY, COST_PROGRAMS, COSTS };

/*
 * Scales the shares of COSTS so that their sum is at most 1, and returns the rest. They may exceed 1, as they are estimated
 * one by one from different runs, and memory that is touched for the first time counts as page faults and as bandwidth.
 */
static double scale_shares(struct bound_cost costs[COSTS])
{
	double sum = 0;
	for (int i = 0; i < COSTS; i++)
		sum += costs[i].share;
	for (int i = 0; i < COSTS && sum > 1; i++)
		costs[i].share /= sum;
	return fmax(1 - sum, 0);
}

/* Rounds the shares of COSTS and the REST to PERCENT, whose sum is 100. A larger share is never the smaller number. */
static void round_shares(const struct bound_cost costs[COSTS], double rest, int percent[COSTS + 1])
{
	double exact[COSTS + 1];
	int left = 100;
	for (int i = 0; i <= COSTS; i++) {
		exact[i] = 100 * (i < COSTS ? costs[i].share : rest);
		percent[i] = (int)exact[i];
		left -= percent[i];
	}
	for (; left > 0; left--) { /* the largest fractions are rounded up */
		int most = 0;
		for (int i = 1; i <= COSTS; i++)
			most = exact[i] - percent[i] > exact[most] - percent[most] ? i : most;
		percent[most]++;
	}
}

/* Returns the shares of COSTS and of the REST, that of programs if the chain has any; NULL if out of memory. */
static const char *shares_text(const struct profiler *p, const struct bound_cost costs[COSTS], double rest)
{
	struct arena *arena = &p->session->arena;
	int percent[COSTS + 1];
	round_shares(costs, rest, percent);
	const char *programs =
		p->session->chain.program_count == 0 ? "" : arena_printf(arena, "programs %d%%, ", percent[COST_PROGRAMS]);
	if (!programs)
		return NULL;
	return arena_printf(arena, "page faults take %d%% of the time, input and output %d%%, memory %d%%, %sthe rest %d%%",
	                    percent[COST_FAULTS], percent[COST_FILES], percent[COST_MEMORY], programs, percent[COSTS]);
}

/*
 * Finds what bounds a gradient: its start if it is TOO_SHORT. Else the COSTS are estimated; the largest is the bound if
 * it takes more than the time that they leave. Else it is the backward pass, if that is SLOW; else arithmetic. Page faults
 * take a share of the threads' processor time, or of the elapsed time if a program lets the threads wait longer.
 */
static enum status find_bound(struct profiler *p, struct profile_verdict *verdict)
{
	static const double too_short = 0.5, slow = 4; /* milliseconds of a gradient; backward over forward time */
	const struct profile_row *full = &p->depths[p->depth_count - 1];
	struct arena *arena = &p->session->arena;
	struct profile_row none;
	const struct memory_ms ms = measure_memory();
	TRY(measure_forward(p, &(struct portion){.after = count_stages(&p->session->chain)}, &none));
	struct bound_cost costs[COSTS] = {
		{"page faults", "touch less memory for the first time: `ckptc plan` shows policies with a lower peak",
	     (double)full->page_faults * ms.fault / fmax(fmax(full->cpu_ms, full->gradient.middle), 1e-6)},
		{"input and output", "chain more operations in one run; -i and -o files are faster than pipes",
	     2 * none.gradient.middle / fmax(full->gradient.middle, 1e-6)},
		{"memory bandwidth", "keep less: `ckptc plan` shows what sqrt, recursive or --memory would hold",
	     2 * (double)full->peak_bytes * ms.copy / fmax(full->gradient.middle, 1e-6)},
		{"programs", "make the program faster; a shared object or shared memory is quicker than a pipe",
	     fmin(full->program_ms / fmax(full->gradient.low, 1e-6), 1)}};
	const double rest = scale_shares(costs);
	int most = 0;
	for (int i = 0; i < COSTS; i++)
		most = costs[i].share > costs[most].share ? i : most;
	const char *shares = shares_text(p, costs, rest);
	if (full->gradient.middle < too_short)
		*verdict = (struct profile_verdict){"the start of a run",
		                                    arena_printf(arena, "a gradient takes %.3f ms", full->gradient.middle),
		                                    "profile a larger --shape: nothing is to be gained in a run so short"};
	else if (costs[most].share > rest)
		*verdict = (struct profile_verdict){costs[most].bottleneck, shares, costs[most].advice};
	else if (full->backward.middle > slow * full->forward.middle)
		*verdict = (struct profile_verdict){
			"the backward pass",
			arena_printf(arena, "it takes %.1f times the forward pass", full->backward.middle / full->forward.middle),
			"look at `ckptc residuals` for what it reads"};
	else
		*verdict = (struct profile_verdict){products_share(p) > 0.5 ? "matrix products" : "arithmetic", shares,
		                                    faster_arithmetic(p)};
	TRY_ALLOC(verdict->evidence, &p->session->diags);
	return STATUS_OK;
}

/* Draws time by depth, and memory and overhead by interval. */
static enum status draw_curves(struct profiler *p, const struct profile_report *report, struct text_file *plot)
{
	const size_t depths = p->depth_count, count = p->interval_count;
	char type[TYPE_TEXT];
	const struct picture_series times[] = {{"forward", "forward", p->forward, depths},
	                                       {"backward", "backward", p->backward, depths}};
	size_t best = 0; /* the place of the best interval; drawn only if there is one */
	while (best < count && !p->policies[best].mark)
		best++;
	const size_t series = best < count ? 1 : 0;
	const struct picture_series bytes[] = {{"peak bytes", "live", p->peaks, count},
	                                       {"the best interval", "knee", p->peaks + best * series, series}};
	const struct picture_series overheads[] = {{"predicted", "other", p->predicted, count},
	                                           {"measured", "record", p->measured, count},
	                                           {"the best interval", "knee", p->measured + best * series, series}};
	const struct svg_axis interval = {.unit = SVG_COUNT, .log = true, .label = "checkpoint interval, in steps"};
	const struct picture_curves curves[] = {
		{"time by depth", {.unit = SVG_COUNT, .label = "depth, in steps"}, {.unit = SVG_MS, .label = "time"}, times, 2},
		{"memory by interval", interval, {.unit = SVG_BYTES, .label = "peak bytes"}, bytes, 1 + series},
		{"overhead by interval", interval, {.unit = SVG_PERCENT, .label = "overhead"}, overheads, 2 + series}};
	struct picture picture = {
		.subtitle = type_format(&p->type, type), .curves = curves, .curve_count = count ? 3 : 1, .profile = report};
	return plot_draw(p->session, plot, &picture);
}

static struct profile_growth fit_growth(const char *what, const struct profiler *p, const struct picture_point *points)
{
	double steps[DEPTHS], figures[DEPTHS];
	for (size_t i = 0; i < p->depth_count; i++) {
		steps[i] = points[i].x;
		figures[i] = points[i].y;
	}
	return profile_fit(what, steps, figures, p->depth_count);
}

enum status command_profile(struct session *s)
{
	struct profiler p = {.session = s};
	struct text_file *file, *plot;
	TRY(plot_open(s, &plot));
	TRY(session_load_chain(s));
	TRY(get_data(&p));
	TRY(session_bind(s, true, p.type.dtype));
	const struct type input = run_input_type(&s->chain, &p.type, DTYPE_COUNT);
	const struct portion whole = {0};
	struct profile_row ignored = {0};
	double ms;
	if (s->chain.has_conditions)
		TRY(run_once(&p, &policy_save_all, &whole, &ignored, &ms));
	/* Plan the whole chain first, so that its errors are found before portions are measured. */
	const struct portion counted = counted_portion(&p, whole);
	TRY(save_all_counters(s, &input, &counted, &p.save_all));
	TRY(profile_depths(&p));
	struct subject subject = {.session = s, .type = input, .portion = &counted};
	TRY(profile_policies(&p, &subject));
	const struct profile_growth growth[] = {fit_growth("forward time", &p, p.forward),
	                                        fit_growth("backward time", &p, p.backward),
	                                        fit_growth("peak memory", &p, p.memory)};
	struct profile_report report = {.depths = p.depths,
	                                .policies = p.policies,
	                                .depth_count = p.depth_count,
	                                .policy_count = p.policy_count,
	                                .interval_count = p.interval_count,
	                                .growth = growth,
	                                .growth_count = sizeof growth / sizeof *growth};
	TRY(find_bound(&p, &report.verdict));
	TRY(session_open_report(s, &file));
	report_profile(&file->report, &report);
	TRY(session_close_text(file));
	return draw_curves(&p, &report, plot);
}
