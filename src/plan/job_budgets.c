/*
 * Schedules for budgets, of whole jobs: budget.c searches for one worker, states on
 * disk are tried beside it, and bytes are those of all workers with what is held
 * whatever the schedule does. What the search takes for a worker's bytes is a worker's
 * share of all slabs, since that of a worker which has but the rest is smaller, or larger by holes.
 *
 * The verifier, which policies ask, knows of a worker's slab only what arrays take,
 * and takes no account of values that two states hold both; what holes and copies
 * add, and such values save, the machine says: it is the judge.
 */
#include "plan/job_parts.h"

#include <string.h>

#include "base/checked.h"
#include "base/pool.h"

struct judging {
	struct job *job;
	const struct job_options *options;
};

/*
 * A worker's share of all SLABS. These are of whole lines, so that
 * where there are no more workers than a line has bytes shares that are rounded down
 * compare as the bytes do; else each slab's share is rounded up.
 */
static int64_t share_of(const struct job *job, int64_t slabs)
{
	return (job->tiles.workers <= ARRAY_ALIGN ? slabs : slabs + job->tiles.workers - 1) / job->tiles.workers;
}

/* The share for which there are BYTES in all, and the bytes in all for which there is SHARE. */
static int64_t budget_share(const struct job *job, int64_t bytes)
{
	return bytes < 0 ? -1 : bytes / ARRAY_ALIGN * ARRAY_ALIGN / job->tiles.workers;
}

static int64_t share_bytes(const struct job *job, int64_t share)
{
	return job->tiles.workers <= ARRAY_ALIGN ? round_up(job->tiles.workers * share, ARRAY_ALIGN)
	                                         : job->tiles.workers * share;
}

static enum status judge_peak(void *context, const struct policy *family, struct schedule *schedule, int64_t most,
                              struct counters *counters, int64_t *peak, struct diags *diags)
{
	struct judging *judging = context;
	struct job *job = judging->job;
	const bool alone = job_rest_alone(job);
	int64_t slab = most - job->costs.fixed;
	if (alone && slab < INT64_MAX / 2) /* of a full worker, were there no other */
		slab += slab / (job->tiles.workers - 1) + 1;
	job->schedule = schedule;
	job->scheduled = *family;
	struct counters rest = {0};
	enum status status = job_predict_tile(job, judging->options, &job->tile, slab > 0 ? slab : 1, counters, diags);
	/* the rest may take more than a full tile, for the holes between its arrays */
	if (!status && job->rest.rows && (alone || counters->peak_bytes <= slab))
		status = job_predict_tile(job, judging->options, &job->rest, 0, &rest, diags);
	job->schedule = NULL;
	const int64_t last = alone || rest.peak_bytes > counters->peak_bytes ? rest.peak_bytes : counters->peak_bytes;
	*peak = job->costs.fixed + share_of(job, (job->tiles.workers - 1) * counters->peak_bytes + last);
	return status;
}

/* Bytes of the state before STEP that are in the state after it too. */
static int64_t passing_bytes(const struct step *step)
{
	int64_t bytes = 0;
	for (uint32_t i = 0; i < step->live_in_count; i++) {
		bool passes = false;
		for (uint32_t k = 0; k < step->live_out_count; k++)
			passes |= step->live_out[k] == step->live_in[i];
		for (size_t k = 0; k < step->body->out_count; k++)
			passes &= step->body->outs[k].kind != PORT_SLOT || step->body->outs[k].index != step->live_in[i];
		if (passes && !step->alias_in[i])
			bytes += type_bytes(step->in_types[i]);
	}
	return bytes;
}

/*
 * How far the truth may be below the verifier's bytes: by a state that is lent or
 * never made, by a tenth for other arrays, by the values that states share, by what
 * a worker of the rest has less, and by the bits that states are not kept in.
 */
static void set_bounds(struct budget_judge *judge, const struct job *job, const struct job_options *options)
{
	static const double unshared = 0.9;
	double share = 1;
	for (size_t i = 0; i < job->costs.run_count; i++)
		if (job->costs.runs[i].cost.state > judge->slack)
			judge->slack = job->costs.runs[i].cost.state;
	for (size_t i = 0; i < job->tile.lowered.distinct_count; i++) {
		const struct step *step = job->tile.lowered.distinct[i];
		int64_t all = 0, passing = passing_bytes(step);
		for (uint32_t k = 0; k < step->live_in_count; k++)
			all += type_bytes(step->in_types[k]);
		if (passing < all && (double)(all - passing) < share * (double)all)
			share = (double)(all - passing) / (double)all;
	}
	if (job_rest_alone(job))
		share *= 1 - (1 - (double)job->rest.rows / (double)job->tile.rows) / job->tiles.workers;
	if (options->store != DTYPE_COUNT)
		share *= (double)dtype_size(options->store) / (double)dtype_size(dtype_compute(job->input.dtype));
	judge->share = share * unshared;
}

/*
 * Whether disk-revolve:SNAPSHOTS, with the copy of a state on its way to disk or
 * without, is within GOAL's bytes; none says the least bytes too, where GOAL has
 * nothing.
 */
static enum status disk_fits(struct judging *judging, struct budget_goal *goal, int64_t snapshots, bool staged,
                             struct counters *counters, int64_t *peak, bool *fits, struct diags *diags)
{
	const struct policy policy = {.kind = POLICY_disk_revolve, .number = snapshots};
	const int64_t most = snapshots == 0 ? INT64_MAX : goal->bytes; /* of none all bytes are wanted */
	struct job *job = judging->job;
	struct schedule *schedule;
	*peak = 0;
	*counters = (struct counters){0};
	enum status status = policy_schedule(&policy, &job->costs, job->allocator, &schedule, diags);
	if (status == STATUS_OK)
		status = judge_peak(judging, &policy, schedule, most, counters, peak, diags);
	schedule_free(schedule);
	*fits = *peak + (staged ? counters->spill_state : 0) <= goal->bytes;
	if (snapshots == 0 && !goal->schedule && *peak < goal->least)
		goal->least = *peak;
	return status;
}

/* The most snapshots that fit, what they count and take; -1 where none do. */
static enum status most_snapshots(struct judging *judging, struct budget_goal *goal, bool staged, int64_t *snapshots,
                                  struct counters *counters, int64_t *peak, struct diags *diags)
{
	int64_t low = -1, high = judging->job->costs.steps; /* low fits, high does not, or is of no use */
	for (int64_t s = 0; high - low > 1; s = low + (high - low) / 2) {
		struct counters tried;
		int64_t bytes;
		bool fits;
		enum status status = disk_fits(judging, goal, s, staged, &tried, &bytes, &fits, diags);
		if (status)
			return status;
		*(fits ? &low : &high) = s;
		if (fits) {
			*counters = tried;
			*peak = bytes;
		}
		if (low < 0)
			break;
	}
	*snapshots = low;
	return STATUS_OK;
}

/*
 * States on disk, where that is cheaper than what GOAL has, which fits in memory
 * alone, or where it has nothing: disk-revolve with as many snapshots as there is
 * room for. The copy that is written while the run goes on comes before all of
 * them but the first.
 */
static enum status offer_disk(struct judging *judging, struct budget_goal *goal, struct diags *diags)
{
	struct job *job = judging->job;
	struct counters counters;
	int64_t snapshots, peak;
	enum status status = most_snapshots(judging, goal, true, &snapshots, &counters, &peak, diags);
	if (status == STATUS_OK && snapshots < 1)
		status = most_snapshots(judging, goal, false, &snapshots, &counters, &peak, diags);
	if (status || snapshots < 0)
		return status;
	const double disk =
		(double)counters.spill_writes * job->costs.spill_write + (double)counters.spill_reads * job->costs.spill_read;
	if (goal->schedule && goal->counters.recomputed_cost <= counters.recomputed_cost + disk)
		return STATUS_OK;
	schedule_free(goal->schedule);
	goal->schedule = NULL;
	goal->counters = counters;
	goal->peak = peak;
	goal->family = (struct policy){.kind = POLICY_disk_revolve, .number = snapshots};
	goal->family.text = arena_printf(job->arena, "disk-revolve:%lld", (long long)snapshots);
	if (!goal->family.text)
		return diag_memory(diags);
	return policy_schedule(&goal->family, &job->costs, job->allocator, &goal->schedule, diags);
}

/* Schedules for COUNT budgets of bytes of one worker, in memory, and on disk where that may be; the caller frees them. */
static enum status search_goals(struct judging *judging, const struct budget_judge *judge, struct budget_goal *goals,
                                size_t count, struct diags *diags)
{
	struct job *job = judging->job;
	enum status status = budget_search(&job->costs, goals, count, judge, job->allocator, diags);
	for (size_t i = 0; i < count && status == STATUS_OK && judging->options->on_disk && job->costs.steps > 1; i++)
		status = offer_disk(judging, &goals[i], diags);
	return status;
}

/* GOALS that have nothing, and room for what FOUND has, take that. */
static enum status share_goal(const struct budget_goal *found, int64_t peak, struct budget_goal *goals, size_t count,
                              struct diags *diags)
{
	for (size_t i = 0; i < count; i++) {
		if (goals[i].schedule || goals[i].bytes < peak)
			continue;
		goals[i] = (struct budget_goal){.bytes = goals[i].bytes,
		                                .schedule = schedule_copy(found->schedule),
		                                .family = found->family,
		                                .time = found->time,
		                                .peak = found->peak,
		                                .counters = found->counters};
		if (!goals[i].schedule)
			return diag_memory(diags);
	}
	return STATUS_OK;
}

/*
 * A search for few bytes tries little, and the least that it names is of what it
 * tried. So GOALS that have nothing name bytes for which there is something while a
 * search for one byte less finds nothing.
 */
static enum status settle_least(struct judging *judging, const struct budget_judge *judge, struct budget_goal *goals,
                                size_t count, struct diags *diags)
{
	enum status status = STATUS_OK;
	int64_t least = INT64_MAX;
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule && goals[i].least < least)
			least = goals[i].least;
	for (bool lower = least < INT64_MAX; lower && !status;) {
		struct budget_goal goal = {.bytes = least - 1};
		status = search_goals(judging, judge, &goal, 1, diags);
		lower = !status && goal.schedule;
		if (lower) {
			least = goal.peak;
			status = share_goal(&goal, least, goals, count, diags);
		}
		schedule_free(goal.schedule);
	}
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule)
			goals[i].least = least;
	return status;
}

/* Schedules for COUNT budgets of BYTES each, of whole jobs. */
static enum status seek_budgets(struct job *job, const struct job_options *options, struct budget_goal *goals,
                                size_t count, struct diags *diags)
{
	struct judging judging = {.job = job, .options = options};
	struct budget_judge judge = {.peak = judge_peak, .context = &judging};
	int64_t worker, all;
	job_fixed_bytes(job, options, &worker, &all);
	set_bounds(&judge, job, options);
	for (size_t i = 0; i < count; i++)
		goals[i].bytes = budget_share(job, goals[i].bytes - all - job->tiles.workers * worker) + job->costs.fixed;
	enum status status = search_goals(&judging, &judge, goals, count, diags);
	if (!status)
		status = settle_least(&judging, &judge, goals, count, diags);
	for (size_t i = 0; i < count && status; i++) {
		schedule_free(goals[i].schedule);
		goals[i].schedule = NULL;
	}
	return status;
}

/* JOB, for POLICY, has what was found, if anything was. */
static void take_goal(struct job *job, const struct job_options *options, const struct policy *policy,
                      const struct budget_goal *goal)
{
	int64_t worker, all;
	job_fixed_bytes(job, options, &worker, &all);
	job->policy = policy;
	job->schedule = goal->schedule;
	job->scheduled = goal->family;
	job->predicted = goal->counters;
	job->tile.slab = goal->counters.peak_bytes;
	if (!goal->schedule)
		job->least_bytes = all + job->tiles.workers * worker + share_bytes(job, goal->least - job->costs.fixed);
}

/* The least is that of all workers: each has tiles of its own, as large as --tile lets them be. */
static enum status say_infeasible(const struct job *job, const char *option, struct diags *diags)
{
	const enum status status = budget_infeasible(job->policy->number, job->least_bytes, option, diags);
	if (job->tiles.workers > 1)
		diag_hint_more(diags, "that is for %d workers: --threads 1 takes less, and --tile with fewer rows may",
		               job->tiles.workers);
	return status;
}

enum status job_make_budget(struct job *job, const struct job_options *options, struct diags *diags)
{
	const bool is_auto = options->policy->kind == POLICY_auto;
	struct budget_goal goal = {.bytes = job->policy->number};
	enum status status = seek_budgets(job, options, &goal, 1, diags);
	if (status)
		return status;
	take_goal(job, options, job->policy, &goal);
	if (!goal.schedule)
		return say_infeasible(job, is_auto ? "--memory " : "budget:", diags);
	/* Without --memory `auto` is save-all where that fits. */
	if (is_auto && !options->memory && goal.family.kind == POLICY_save_all)
		job->policy = &policy_save_all;
	return STATUS_OK;
}

enum status job_make_budgets(struct job *jobs, const struct policy *const *policies, size_t count,
                             const struct chain *chain, const struct type *input, const struct job_options *options,
                             struct arena *arena, struct diags *diags)
{
	struct job_options first = *options;
	first.policy = policies[0];
	memset(jobs, 0, count * sizeof *jobs);
	struct budget_goal *goals = arena_array(arena, count, sizeof *goals);
	if (!goals)
		return diag_memory(diags);
	enum status status = job_prepare(&jobs[0], chain, input, &first, arena, diags);
	if (!status)
		status = job_set_costs(&jobs[0], &first, diags);
	for (size_t i = 0; i < count && !status; i++)
		goals[i].bytes = policies[i]->number;
	if (!status)
		status = seek_budgets(&jobs[0], &first, goals, count, diags);
	if (status)
		return status;
	for (size_t i = count; i-- > 0;) {
		jobs[i] = jobs[0];
		take_goal(&jobs[i], &first, policies[i], &goals[i]);
	}
	for (size_t i = 0; i < count && !status; i++)
		if (jobs[i].schedule)
			status = job_finish(&jobs[i], &first, diags);
	for (size_t i = 0; i < count && status; i++)
		job_free(&jobs[i]);
	return status;
}
