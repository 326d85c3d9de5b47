/* Tests: tests/cases/limits.test, tests/cases/plan.test */
#include "cli/job.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/system.h"

size_t session_memory_most(void)
{
	struct sysinfo info;
	if (sysinfo(&info) != 0)
		return SIZE_MAX;
	const double machine = ((double)info.totalram * 7 / 8 + (double)info.totalswap) * (double)info.mem_unit;
	const double groups = (double)system_group_memory("").most * 7 / 8, bytes = groups < machine ? groups : machine;
	return bytes < (double)SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

/*
 * Returns the bytes that this process can still get, or 0 if they are unknown. They are the machine's free memory and
 * its caches of files. The limits of the process and of its control groups may leave less.
 */
static int64_t memory_available(void)
{
	static const struct {
		int resource;
		const char *used; /* the line of /proc/self/status with the use in KiB */
	} limits[] = {{RLIMIT_AS, "VmSize:"}, {RLIMIT_DATA, "VmData:"}};
	const int64_t kib = system_read_number("/proc/meminfo", "MemAvailable:"), group = system_group_memory("").remaining;
	const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	int64_t bytes = kib > 0 ? kib << 10 : pages > 0 ? (int64_t)pages * size : 0;
	if (group < bytes)
		bytes = group;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct rlimit limit;
		if (getrlimit(limits[i].resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
			continue;
		const int64_t used = system_read_number("/proc/self/status", limits[i].used) * 1024;
		const int64_t left = (int64_t)limit.rlim_cur > used ? (int64_t)limit.rlim_cur - used : 0;
		if (left < bytes)
			bytes = left;
	}
	return bytes;
}

/* True if tiles can read their rows of the file of --cotangent. A journal needs all of it, to know it again. */
static bool has_cotangent_rows(const struct session *s)
{
	const struct loader loader = {.cast = s->line.given[OPTION_CAST], .context = &s->context};
	struct input input;
	struct reader reader;
	if (!s->line.given[OPTION_COTANGENT] || s->line.given[OPTION_JOURNAL] ||
	    !array_open_rows(&loader, &input, &reader, s->line.values[OPTION_COTANGENT]))
		return false;
	reader_free(&reader);
	input_close(&input);
	return true;
}

struct job_options session_job_options(const struct session *s, const struct policy *policy)
{
	const bool measures = policy->kind == POLICY_auto && !s->set.memory; /* only `auto` without --memory needs it */
	return (struct job_options){.policy = policy,
	                            .portion.most = s->set.iterations,
	                            .threads = s->set.threads,
	                            .ranks = s->command->letter & (CHECK | PROFILE) ? 1 : s->launched,
	                            .tile = s->set.tile,
	                            .resumable = s->line.given[OPTION_JOURNAL],
	                            .on_disk = s->line.given[OPTION_SPILL],
	                            .disk_bytes = s->set.spill_limit,
	                            .may_spill = option_table[OPTION_SPILL].commands & s->command->letter,
	                            .store = s->set.store,
	                            .every_program = s->line.given[OPTION_DUMP],
	                            .want_value = s->line.given[OPTION_VALUE],
	                            .has_cotangent = s->line.given[OPTION_COTANGENT],
	                            .cotangent_rows = has_cotangent_rows(s),
	                            .memory = s->set.memory,
	                            .memory_available = measures ? memory_available() : 0,
	                            .param_bytes = s->params.bytes,
	                            .costs = s->costs ? costs_of : NULL,
	                            .costs_context = s->costs,
	                            .costs_measured = s->costs && !s->costs->spec,
	                            .spill = s->costs && s->costs->spill_known ? &s->costs->spill : NULL};
}

enum status session_make_job(struct session *s, const struct policy *policy, const struct type *input)
{
	const struct job_options options = session_job_options(s, policy);
	job_free(&s->job);
	return job_make(&s->context, &s->job, &s->chain, input, &options);
}

enum status save_all_counters(struct session *s, const struct type *input, const struct portion *portion,
                              struct counters *counters)
{
	struct job job;
	struct job_options options = session_job_options(s, &policy_save_all);
	options.costs = NULL; /* the bytes do not depend on them */
	options.portion = *portion;
	options.unexecuted = true;
	const enum status status = job_make(&s->context, &job, &s->chain, input, &options);
	*counters = job.predicted;
	job_free(&job);
	return status;
}

const char *session_costs_name(const struct session *s)
{
	if (s->line.given[OPTION_SPEC])
		return s->line.values[OPTION_SPEC];
	return !s->costs ? "table" : s->costs->spec ? s->costs->name : "measured";
}

enum status gradient_row(struct session *s, const struct gradient_result *result, struct policy_row *row)
{
	struct counters all = result->predicted;
	*row = (struct policy_row){.policy = result->job.policy->text,
	                           .counters = result->measured,
	                           .costs = session_costs_name(s),
	                           .conditional = s->chain.has_conditions,
	                           .counted = result->counted,
	                           .copied_bytes = result->copied_bytes,
	                           .stored = s->set.store != DTYPE_COUNT,
	                           .journalled = s->journal,
	                           .resumed = result->resumed,
	                           .store_error = result->store_error};
	TRY_ALLOC(because_describe(&result->because, s->chain.source, &s->arena, &row->whole_because), &s->diags);
	if (result->job.policy->kind != POLICY_save_all)
		TRY(save_all_counters(s, &result->most, &result->portion, &all));
	row_compare(row, &all);
	return STATUS_OK;
}

/* Warns on one line at SPAN: it is where the block stands, and needs no excerpt. */
static void warn_block(struct session *s, struct span span, const char *why)
{
	diag_at(&s->diags, STATUS_OK, s->chain.source, span, "this checkpoint saves no memory: %s", why);
	diag_caret(&s->diags, (struct span){0});
}

/* Warns of checkpoint blocks that save nothing. */
static void warn_blocks(struct session *s, const struct job *job)
{
	const struct node *last = s->chain.first;
	struct span_list useless;
	while (last && last->next)
		last = last->next;
	if (job->policy->kind != POLICY_save_all || job_useless_blocks(job, &useless))
		return;
	bool ends = last && last->kind == NODE_CHECKPOINT;
	for (size_t i = 0; i < useless.count; i++) {
		warn_block(s, useless.spans[i], "what it keeps takes as many bytes as what it recomputes");
		ends = ends && useless.spans[i].begin != last->span.begin;
	}
	if (ends && job->predicted.recomputed_cost > 0 && job_saves_nothing(job, true))
		warn_block(s, last->span, "it ends the chain, so it is recomputed right after it has run");
}

void warn_useless(struct session *s, const struct job *job)
{
	if (job->passes) /* all policies run the same passes */
		return;
	if (policy_by_value(job->policy) && job->predicted.evaluations > job->predicted.steps &&
	    job_saves_nothing(job, false)) {
		diag_warn(&s->diags, "policy '%s' saves no memory at the peak: it recomputes the whole chain at once",
		          job->policy->text);
		diag_hint(&s->diags,
		          "cut the chain: every:N, sqrt, recursive or revolve:S, or checkpoint { } around parts of it");
	}
	warn_blocks(s, job);
}

void warn_untiled(struct session *s, const char *why, const struct type *input, int64_t peak)
{
	enum { SMALL = 8 << 20 }; /* bytes of an array that needs no tiles */
	if (s->set.tile && why && peak > SMALL && input->shape.ndim > 0 && s->set.tile < input->shape.dim[0])
		diag_warn(&s->diags, "--tile has no effect: the array is one tile, because of %s", why);
}

void warn_unjournalled(struct session *s, const struct job *job)
{
	const char *rest = "a run that is killed resumes from the end of its forward pass, or from the start";
	const bool tiled = job->tiles.tiled;
	if (!s->line.given[OPTION_JOURNAL] || (tiled && tiles_chunks(&job->tiles) > 1))
		return;
	if (tiled)
		diag_warn(&s->diags, "the array is one chunk of tiles: a run that is killed starts again");
	else if (policy_by_value(&job->scheduled))
		diag_warn(&s->diags, "policy '%s' runs the chain at once: %s", job->policy->text, rest);
	else if (job->whole.steps == 1)
		diag_warn(&s->diags, "the chain is one step: %s", rest);
}

void warn_unstored(struct session *s, const struct counters *counters, double error)
{
	if (s->set.store != DTYPE_COUNT && counters->checkpoints == 0)
		diag_warn(&s->diags, "--store-dtype has no effect: the policy keeps no checkpoints");
	else if (s->set.store != DTYPE_COUNT && !isnan(error))
		diag_warn(&s->diags, "checkpoints kept as %s: the largest error of a kept value is %.3g",
		          dtype_name(s->set.store), error);
}

void warn_unassumed(struct session *s)
{
	bool used = !s->line.given[OPTION_ASSUME] || s->in.reader.assumed;
	for (size_t i = 0; i < s->chain.param_count; i++) {
		const struct param *param = &s->chain.params[i]; /* without a type if nothing was loaded */
		used |= !param->weak && param->type && param->type->dtype == s->set.reading.assume; /* may have been |V2 */
	}
	if (used)
		return;
	diag_warn(&s->diags, "--assume-dtype %s has no effect: it says what raw input, or npy of type |V2, holds",
	          dtype_name(s->set.reading.assume));
}

bool progress_begin(struct progress *progress, const struct session *session, const char *name)
{
	const bool wanted = session->line.given[OPTION_PROGRESS] || isatty(io_standard(2));
	*progress =
		(struct progress){.name = name, .on = wanted && ranks_index(session->ranks) == 0, .begun = clock_seconds()};
	return progress->on;
}

static void draw(struct progress *progress, const char *what, double done, int64_t live, int64_t peak)
{
	double time = clock_seconds(), spent = time - progress->begun;
	if (spent < 1 || time - progress->last < 0.1)
		return;
	char line[160], left[32] = "", bytes[32], most[32];
	if (done > 0.001 && done <= 1)
		snprintf(left, sizeof left, ", %.0f s left", spent * (1 - done) / done);
	int n = peak ? snprintf(line, sizeof line, "\r%s %3.0f%%%s, %s of %s\033[K", what, 100 * done, left,
	                        text_bytes(live, bytes), text_bytes(peak, most))
	             : snprintf(line, sizeof line, "\r%s %3.0f%%%s\033[K", what, 100 * done, left);
	if (n > 0 && write(io_standard(2), line, (size_t)n) == n)
		progress->drawn = true;
	progress->last = time;
}

void progress_action(void *context, const struct action *action, double done, int64_t live, int64_t peak)
{
	struct progress *progress = context;
	draw(progress, action ? action_name(action->kind) : progress->name, done, live, peak);
}

void progress_show(struct progress *progress, const char *what, double done)
{
	if (progress->on)
		draw(progress, what, done, 0, 0);
}

void progress_policy(struct progress *progress, const char *policy, size_t done, size_t all)
{
	char what[64];
	snprintf(what, sizeof what, "plan %.48s", policy);
	progress_show(progress, what, (double)done / (double)all);
}

void progress_end(struct progress *progress)
{
	if (progress->drawn && write(io_standard(2), "\r\033[K", 4) != 4)
		progress->on = false;
	progress->drawn = false;
}
