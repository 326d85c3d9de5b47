/*
 * Schedules for budgets of whole jobs. The search (budget/) plans for one worker's bytes, a share of
 * all slabs. Shares are needed because the slab of the worker that has the rest may be smaller than the
 * others, or larger for the holes between its arrays. The memory machine judges what the search
 * proposes. If states may go to disk, disk-revolve is tried beside the search.
 */
#include "plan/job_parts.h"

#include "base/checked.h"
#include "base/pool.h"
#include "budget/budget.h"

struct judging {
	struct context context;
	struct job *job;
	const struct job_options *options;
	struct budget_judge judge;
};

/*
 * A worker's share of all SLABS, each a multiple of ARRAY_ALIGN. With at most ARRAY_ALIGN
 * workers, shares that are rounded down compare as the slabs do. With more, shares are rounded up.
 */
static int64_t share_of(const struct job *job, int64_t slabs)
{
	return (job->tiles.workers <= ARRAY_ALIGN ? slabs : slabs + job->tiles.workers - 1) / job->tiles.workers;
}

/* The share that BYTES of slabs allow a worker; the bytes of slabs that SHARE needs. */
static int64_t budget_share(const struct job *job, int64_t bytes)
{
	return bytes < 0 ? -1 : bytes / ARRAY_ALIGN * ARRAY_ALIGN / job->tiles.workers;
}

static int64_t share_bytes(const struct job *job, int64_t share)
{
	return job->tiles.workers <= ARRAY_ALIGN ? round_up(job->tiles.workers * share, ARRAY_ALIGN)
	                                         : job->tiles.workers * share;
}

/* Predicts FAMILY's SCHEDULE on the memory machine, for a whole tile and the rest: see struct budget_judge. */
static enum status judge_schedule(void *context, const struct policy *family, struct schedule *schedule, int64_t most,
                                  struct judgement *judgement)
{
	struct judging *judging = context;
	struct job *job = judging->job;
	struct counters *whole = &judgement->counters, rest = {0};
	const bool alone = job_rest_alone(job);
	int64_t slab = most - job->costs.fixed;
	if (alone && slab < INT64_MAX / 2) /* the bytes of a whole tile's worker if the rest took none */
		slab += slab / (job->tiles.workers - 1) + 1;
	job->schedule = schedule;
	job->scheduled = *family;
	enum status status =
		job_predict_tile(job, judging->options, &job->tile, slab > 0 ? slab : 1, whole, judging->context.diags);
	/* The rest may need more than a whole tile: its arrays may leave larger holes. */
	if (!status && job->rest.rows && (alone || whole->peak_bytes <= slab))
		status = job_predict_tile(job, judging->options, &job->rest, 0, &rest, judging->context.diags);
	job->schedule = NULL;
	const int64_t last = alone || rest.peak_bytes > whole->peak_bytes ? rest.peak_bytes : whole->peak_bytes;
	judgement->peak = job->costs.fixed + share_of(job, (job->tiles.workers - 1) * whole->peak_bytes + last);
	return status;
}

/* Returns the bytes of the state before STEP that are in the state after it too. */
static int64_t passing_bytes(const struct step *step)
{
	int64_t bytes = 0;
	for (uint32_t i = 0; i < step->live_in.count; i++) {
		bool passes = false;
		for (uint32_t k = 0; k < step->live_out.count; k++)
			passes |= step->live_out.slots[k] == step->live_in.slots[i];
		for (size_t k = 0; k < step->body->out_count; k++)
			passes &= step->body->outs[k].kind != PORT_SLOT || step->body->outs[k].index != step->live_in.slots[i];
		if (passes && !step->alias_in[i])
			bytes += type_bytes(step->in_types[i]);
	}
	return bytes;
}

/*
 * Sets how far the machine's bytes are taken to be below the cost walk's (struct budget_judge). They are below it for
 *   - a state whose buffer is reused or never made (slack);
 *   - the values that two states share, at the step that shares most;
 *   - a worker that has only the rest;
 *   - states that are kept in fewer bits;
 *   - and a tenth for other arrays.
 */
static void set_reach(struct budget_judge *judge, const struct job *job, const struct job_options *options)
{
	static const double unshared = 0.9;
	double share = 1;
	for (size_t i = 0; i < job->costs.run_count; i++)
		if (job->costs.runs[i].cost.state > judge->slack)
			judge->slack = job->costs.runs[i].cost.state;
	for (size_t i = 0; i < job->tile.lowered.distinct_count; i++) {
		const struct step *step = job->tile.lowered.distinct[i];
		int64_t all = 0, passing = passing_bytes(step);
		for (uint32_t k = 0; k < step->live_in.count; k++)
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

/* disk-revolve with SNAPSHOTS, or none where that is -1, as judged. */
struct disk_plan {
	int64_t snapshots;
	struct judgement judged;
};

/* Judges PLAN's snapshots for GOAL. No snapshots take the least bytes, which GOAL names if it has nothing. */
static enum status judge_disk(struct judging *judging, struct budget_goal *goal, struct disk_plan *plan)
{
	const struct policy policy = {.kind = POLICY_disk_revolve, .number = plan->snapshots};
	const int64_t most = plan->snapshots == 0 ? INT64_MAX : goal->bytes;
	struct job *job = judging->job;
	struct schedule *schedule = policy_schedule(&policy, &job->costs, job->allocator);
	plan->judged = (struct judgement){0};
	TRY_ALLOC(schedule, judging->context.diags);
	enum status status = judge_schedule(judging, &policy, schedule, most, &plan->judged);
	schedule_free(schedule);
	if (plan->snapshots == 0 && !goal->schedule && plan->judged.peak < goal->least)
		goal->least = plan->judged.peak;
	return status;
}

/*
 * Finds the most snapshots with which disk-revolve is within GOAL's bytes. STAGED counts the copy of
 * a state that is written while steps run.
 */
static enum status most_snapshots(struct judging *judging, struct budget_goal *goal, bool staged,
                                  struct disk_plan *found)
{
	int64_t low = -1, high = judging->job->costs.steps; /* LOW fits; HIGH does not fit or has no use */
	for (int64_t s = 0; high - low > 1; s = low + (high - low) / 2) {
		struct disk_plan plan = {.snapshots = s};
		TRY(judge_disk(judging, goal, &plan));
		const int64_t copy = staged ? plan.judged.counters.spill_state : 0;
		if (plan.judged.peak + copy <= goal->bytes) {
			low = s;
			*found = plan;
		} else {
			high = s;
		}
		if (low < 0)
			break;
	}
	found->snapshots = low;
	return STATUS_OK;
}

/*
 * Gives GOAL disk-revolve with as many snapshots as fit, if that is cheaper than GOAL's schedule or
 * if GOAL has nothing. The copy of a state on its way to disk is preferred to all snapshots but one.
 */
static enum status offer_disk(struct judging *judging, struct budget_goal *goal)
{
	struct job *job = judging->job;
	struct disk_plan plan;
	enum status status = most_snapshots(judging, goal, true, &plan);
	if (status == STATUS_OK && plan.snapshots < 1)
		status = most_snapshots(judging, goal, false, &plan);
	if (status || plan.snapshots < 0)
		return status;
	const struct counters *c = &plan.judged.counters;
	const double disk =
		(double)c->spill_writes * job->costs.spill_write + (double)c->spill_reads * job->costs.spill_read;
	if (goal->schedule && goal->counters.recomputed_cost <= c->recomputed_cost + disk)
		return STATUS_OK;
	schedule_free(goal->schedule);
	goal->schedule = NULL;
	goal->counters = *c;
	goal->peak = plan.judged.peak;
	TRY_ALLOC(policy_make(&goal->family, POLICY_disk_revolve, plan.snapshots, job->arena), judging->context.diags);
	goal->schedule = policy_schedule(&goal->family, &job->costs, job->allocator);
	return goal->schedule ? STATUS_OK : diag_memory(judging->context.diags);
}

/* Finds schedules for COUNT GOALS of one worker's bytes, in memory, and on disk if allowed; the caller frees them. */
static enum status search_goals(struct judging *judging, struct budget_goal *goals, size_t count)
{
	const struct job *job = judging->job;
	enum status status = budget_search(&judging->context, &job->costs, &judging->judge, goals, count);
	for (size_t i = 0; i < count && status == STATUS_OK && judging->options->on_disk && job->costs.steps > 1; i++)
		status = offer_disk(judging, &goals[i]);
	return status;
}

/* Gives FOUND's schedule, which takes PEAK, to those of GOALS that have none and whose bytes allow it. */
static enum status share_goal(const struct budget_goal *found, int64_t peak, struct budget_goal *goals, size_t count,
                              struct diags *diags)
{
	for (size_t i = 0; i < count; i++) {
		if (goals[i].schedule || goals[i].bytes < peak)
			continue;
		const int64_t bytes = goals[i].bytes;
		goals[i] = *found;
		goals[i].bytes = bytes;
		goals[i].schedule = schedule_copy(found->schedule);
		TRY_ALLOC(goals[i].schedule, diags);
	}
	return STATUS_OK;
}

/*
 * Sets the least bytes of those of GOALS that have no schedule. A search for few bytes tries few
 * schedules. So the search is repeated with one byte less than the least so far, until it finds none.
 */
static enum status settle_least(struct judging *judging, struct budget_goal *goals, size_t count)
{
	enum status status = STATUS_OK;
	int64_t least = INT64_MAX;
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule && goals[i].least < least)
			least = goals[i].least;
	for (bool lower = least < INT64_MAX; lower && !status;) {
		struct budget_goal goal = {.bytes = least - 1};
		status = search_goals(judging, &goal, 1);
		lower = !status && goal.schedule;
		if (lower) {
			least = goal.peak;
			status = share_goal(&goal, least, goals, count, judging->context.diags);
		}
		schedule_free(goal.schedule);
	}
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule)
			goals[i].least = least;
	return status;
}

/* Bytes of JOB's arrays, all workers together, beyond the slabs. */
static int64_t bytes_beside_slabs(const struct job *job, const struct job_options *options)
{
	int64_t worker, all;
	job_fixed_bytes(job, options, &worker, &all);
	return all + job->tiles.workers * worker;
}

/* Finds schedules for COUNT GOALS, each of a whole job's bytes. */
static enum status find_schedules(struct job *job, const struct job_options *options, struct budget_goal *goals,
                                  size_t count, struct diags *diags)
{
	struct judging judging = {
		.context = {job->allocator, job->arena, diags}, .job = job, .options = options, .judge.judge = judge_schedule};
	const int64_t beside = bytes_beside_slabs(job, options);
	judging.judge.context = &judging;
	set_reach(&judging.judge, job, options);
	for (size_t i = 0; i < count; i++)
		goals[i].bytes = budget_share(job, goals[i].bytes - beside) + job->costs.fixed;
	enum status status = search_goals(&judging, goals, count);
	if (!status)
		status = settle_least(&judging, goals, count);
	for (size_t i = 0; i < count && status; i++) {
		schedule_free(goals[i].schedule);
		goals[i].schedule = NULL;
	}
	return status;
}

/* Moves the schedule of GOAL to JOB, whose policy is a budget. */
static void take_goal(struct job *job, const struct job_options *options, const struct budget_goal *goal)
{
	job->schedule = goal->schedule;
	job->scheduled = goal->family;
	job->predicted = goal->counters;
	job->tile.slab = goal->counters.peak_bytes;
	if (!goal->schedule)
		job->least_bytes = bytes_beside_slabs(job, options) + share_bytes(job, goal->least - job->costs.fixed);
}

/* Reports that JOB's budget, which OPTION gave, is too small. Each worker has tiles of its own. */
static enum status refuse_budget(const struct job *job, const char *option, struct diags *diags)
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
	TRY(find_schedules(job, options, &goal, 1, diags));
	take_goal(job, options, &goal);
	if (!goal.schedule)
		return refuse_budget(job, is_auto ? "--memory " : "budget:", diags);
	/* Without --memory `auto` is save-all where that fits. */
	if (is_auto && !options->memory && goal.family.kind == POLICY_save_all)
		job->policy = &policy_save_all;
	return STATUS_OK;
}

enum status job_make_budgets(const struct context *context, const struct chain *chain, const struct type *input,
                             const struct job_options *options, struct job *jobs, size_t count)
{
	struct diags *diags = context->diags;
	struct job_options first = *options;
	struct budget_goal *goals = arena_array(context->arena, count, sizeof *goals);
	const struct policy **policies = arena_array(context->arena, count, sizeof *policies);
	TRY_ALLOC(goals && policies, diags);
	for (size_t i = 0; i < count; i++) {
		policies[i] = jobs[i].policy;
		jobs[i] = (struct job){0};
	}
	first.policy = policies[0];
	enum status status = job_prepare(&jobs[0], chain, input, &first, context->arena, diags);
	if (!status)
		status = job_set_costs(&jobs[0], &first, diags);
	for (size_t i = 0; i < count && !status; i++)
		goals[i].bytes = policies[i]->number;
	if (!status)
		status = find_schedules(&jobs[0], &first, goals, count, diags);
	if (status)
		return status;
	for (size_t i = count; i-- > 0;) {
		jobs[i] = jobs[0];
		jobs[i].policy = policies[i];
		take_goal(&jobs[i], &first, &goals[i]);
	}
	for (size_t i = 0; i < count && !status; i++)
		if (jobs[i].schedule)
			status = job_finish(&jobs[i], &first, diags);
	for (size_t i = 0; i < count && status; i++)
		job_free(&jobs[i]);
	return status;
}
