/*
 * Schedules for budgets of whole jobs. The search (budget/) plans for one worker's bytes: job->costs.fixed and an equal
 * share of all slabs. Slabs may differ: that of the worker that has the rest may be smaller than the others, or larger
 * because of holes between its arrays. The memory machine judges the schedules that the search proposes. If states may
 * go to disk and there are two steps or more, disk-revolve is tried after the search. Policies by value are tried last
 * (job_values.c).
 * Tests: tests/cases/plan.test
 */
#include "plan/job_parts.h"

#include <math.h>

#include "base/checked.h"
#include "base/pool.h"
#include "budget/budget.h"

/* Additions in the time in which the memory machine walks a step, as measured, and in which any run may be planned. */
static const double STEP_WORK = 3000, LEAST_PLANNING = 3e9;

/* What a search for a job's budgets needs. */
struct job_search {
	struct job *job;
	struct step_costs costs; /* job->costs, but an array that most states share counts once (compile/lasting.c) */
	struct budget_judge judge;
};

/* Predicts FAMILY's SCHEDULE on the memory machine, for a full tile and the rest: see struct budget_judge. */
static enum status judge_schedule(void *context, const struct policy *family, struct schedule *schedule, int64_t most,
                                  struct judgement *judgement)
{
	struct job *job = context;
	struct counters *whole = &judgement->counters, rest = {0};
	const int64_t workers = job->tiles.workers;
	const bool alone = job_rest_alone(job);
	int64_t slab = most - job->costs.fixed;
	if (alone && slab < INT64_MAX / 2) /* the bytes of a full tile's worker if the rest took none */
		slab += slab / (workers - 1) + 1;
	job->schedule = schedule;
	job->scheduled = *family;
	enum status status = job_predict_tile(job, 0, greater(slab, 1), whole);
	/* The rest may need more than a full tile: its arrays may leave larger holes. */
	if (!status && job->tiles.rest && (alone || whole->peak_bytes <= slab))
		status = job_predict_tile(job, job->tiles.rest, 0, &rest);
	job->schedule = NULL;
	const int64_t last = alone ? rest.peak_bytes : greater(rest.peak_bytes, whole->peak_bytes);
	const int64_t slabs = (workers - 1) * whole->peak_bytes + last;
	/* Slabs are multiples of ARRAY_ALIGN. With at most ARRAY_ALIGN workers, shares rounded down compare as slabs do. */
	judgement->peak = job->costs.fixed + (workers <= ARRAY_ALIGN ? slabs / workers : ceil_div(slabs, workers));
	return status;
}

/* Returns the cost of JOB's run without recomputation, in additions. */
static double additions_of_run(const struct job *job)
{
	const double tiles = job->tiles.tiled ? (double)job->tiles.rows / (double)job->tiles.tile : 1;
	return job->tile.additions * tiles / (job->tiles.workers * job->team);
}

/* True if the costs of SEARCH are not those of its job: an array is in most states. */
static bool counts_shared_once(const struct job_search *search)
{
	return search->costs.fixed > search->job->costs.fixed;
}

/*
 * Returns the memory machine as a judge of JOB's schedules, for a search over COSTS. SLACK and SHARE (struct
 * budget_judge) lower the cost walk's bytes. SLACK is the largest state, whose buffer may be reused or never made.
 * SHARE is the product of four factors:
 *
 *   - the least part of a state that a step replaces (no step that replaces nothing), since two states share the rest;
 *   - the workers' mean rows, in full tiles, if one worker has only the rest;
 *   - the bytes of --store-dtype in those of the computing type;
 *   - nine tenths, for all else.
 */
static struct budget_judge make_judge(struct job *job, const struct step_costs *costs)
{
	static const double unshared = 0.9;
	const enum dtype store = job->options.store;
	struct budget_judge judge = {.judge = judge_schedule, .context = job};
	int64_t lasting = 0; /* bytes of a state's arrays that COSTS count as held throughout */
	double share = 1;
	for (size_t i = 0; i < costs->run_count; i++) {
		judge.slack = greater(judge.slack, costs->runs[i].cost.state);
		lasting = greater(lasting, job->costs.runs[i].cost.state - costs->runs[i].cost.state);
	}
	for (size_t i = 0; i < job->tile.lowered.distinct_count; i++) {
		const struct step *step = job->tile.lowered.distinct[i];
		int64_t all = step->bytes.slots, passing = step->bytes.passing;
		if (passing >= lasting) {
			all -= lasting;
			passing -= lasting;
		}
		if (passing < all && (double)(all - passing) < share * (double)all)
			share = (double)(all - passing) / (double)all;
	}
	if (job_rest_alone(job))
		share *= 1 - (1 - (double)job->tiles.rest / (double)job->tile.rows) / job->tiles.workers;
	if (store != DTYPE_COUNT)
		share *= (double)dtype_size(store) / (double)dtype_size(dtype_compute(job->input.dtype));
	judge.share = share * unshared;
	judge.run = additions_of_run(job);
	judge.step = STEP_WORK;
	if (!job->options.unexecuted)
		judge.most = fmax(judge.run / 10, LEAST_PLANNING);
	return judge;
}

static struct disk_offer make_offer(struct job *job, const struct budget_judge *judge)
{
	return (struct disk_offer){.costs = &job->costs,
	                           .judge = judge,
	                           .disk_bytes = job->options.disk_bytes / job->tiles.workers,
	                           .limited = job->options.disk_bytes > 0,
	                           .staged = true};
}

/* Gives GOAL the schedule of OTHER, made with job->costs, if that takes less time. Frees the schedule of neither. */
static enum status take_faster(const struct job_search *search, const struct budget_goal *other,
                               struct budget_goal *goal)
{
	const int64_t least = lesser(other->least, goal->least), bytes = goal->bytes - search->costs.fixed;
	const bool faster = other->schedule && (!goal->schedule || other->time < goal->time);
	if (faster)
		*goal = *other;
	goal->least = least;
	/* The bound behind the gap must count a shared array once. */
	return faster ? budget_gap(&search->job->context, &search->costs, greater(bytes, 0), &goal->counters) : STATUS_OK;
}

/* True if GOAL, after a search that counts shared arrays once, is searched for with job->costs too. */
static bool wants_second(const struct job_search *search, const struct budget_goal *goal)
{
	enum { SHORT = 1000 }; /* steps */
	return !goal->schedule || (search->job->costs.steps <= SHORT && goal->family.kind != POLICY_save_all);
}

/*
 * Searches for COUNT GOALS with job->costs, which count shared arrays in each state, and takes what is faster. These
 * costs are right for schedules that hold no states but those before the first with a shared array. Such a
 * schedule may be the only one for few bytes, or the best of a short chain.
 */
static enum status search_again(const struct job_search *search, struct budget_goal *goals, size_t count)
{
	struct job *job = search->job;
	struct budget_judge judge = make_judge(job, &job->costs);
	struct budget_goal *others = arena_array(job->context.arena, count, sizeof *others);
	struct budget_goal **of = arena_array(job->context.arena, count, sizeof *of); /* by index in others */
	size_t wanted = 0;
	judge.most = search->judge.most;
	TRY_ALLOC(others && of, job->context.diags);
	for (size_t i = 0; i < count; i++)
		if (wants_second(search, &goals[i])) {
			of[wanted] = &goals[i];
			others[wanted++].bytes = goals[i].bytes;
		}
	enum status status = wanted ? budget_search(&job->context, &job->costs, &judge, others, wanted) : STATUS_OK;
	for (size_t i = 0; i < wanted; i++) {
		struct schedule *before = of[i]->schedule;
		if (!status)
			status = take_faster(search, &others[i], of[i]);
		schedule_free(of[i]->schedule == before ? others[i].schedule : before);
	}
	return status;
}

/* Finds schedules for COUNT GOALS of one worker's bytes, in memory, and on disk if allowed; the caller frees them. */
static enum status search_goals(const struct job_search *search, struct budget_goal *goals, size_t count)
{
	struct job *job = search->job;
	const struct disk_offer offer = make_offer(job, &search->judge);
	TRY(budget_search(&job->context, &search->costs, &search->judge, goals, count));
	if (counts_shared_once(search))
		TRY(search_again(search, goals, count));
	for (size_t i = 0; i < count && job->options.on_disk; i++)
		TRY(budget_offer_disk(&job->context, &offer, &goals[i]));
	return STATUS_OK;
}

/* Copies FOUND, whose schedule takes PEAK bytes, to each of COUNT GOALS that has no schedule and enough bytes. */
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
 * Sets the least bytes of each of GOALS that has no schedule. A search for few bytes tries few schedules. So the search
 * is repeated with one byte less than the least so far, until it finds none. A goal with enough bytes for a schedule
 * found on the way gets it.
 */
static enum status settle_least(const struct job_search *search, struct budget_goal *goals, size_t count)
{
	enum status status = STATUS_OK;
	int64_t least = INT64_MAX;
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule)
			least = lesser(goals[i].least, least);
	for (bool lower = least < INT64_MAX; lower && !status;) {
		struct budget_goal goal = {.bytes = least - 1};
		status = search_goals(search, &goal, 1);
		lower = !status && goal.schedule;
		if (lower) {
			least = goal.peak;
			status = share_goal(&goal, least, goals, count, search->job->context.diags);
		}
		schedule_free(goal.schedule);
	}
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule)
			goals[i].least = least;
	return status;
}

/* Bytes of JOB beside the slabs, all workers together. */
static int64_t bytes_beside_slabs(const struct job *job)
{
	int64_t worker, all;
	job_fixed_bytes(job, &worker, &all);
	return all + job->tiles.workers * worker;
}

/*
 * Searches without a limit on the work for those of COUNT GOALS that have no schedule, nor a job of JOBS (NULL: none) that
 * has one. Settles the least bytes of those that still have none.
 */
static enum status search_fully(struct job_search *search, struct budget_goal *goals, const struct job *jobs,
                                size_t count)
{
	struct budget_goal *open = arena_array(search->job->context.arena, count, sizeof *open);
	const bool limited = search->judge.most > 0;
	size_t wanted = 0;
	TRY_ALLOC(open, search->job->context.diags);
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule && !(jobs && jobs[i].schedule))
			open[wanted++] = goals[i];
	if (!wanted)
		return STATUS_OK;
	search->judge.most = 0;
	enum status status = limited ? search_goals(search, open, wanted) : STATUS_OK;
	if (!status)
		status = settle_least(search, open, wanted);
	for (size_t i = 0, next = 0; i < count; i++)
		if (!goals[i].schedule && !(jobs && jobs[i].schedule))
			goals[i] = open[next++];
	return status;
}

/*
 * True if a policy by value that fits ends the search for JOB. A full search for schedules of steps takes longer than such
 * policies. With a journal, such a policy is taken only if no schedule of steps fits.
 */
static bool settles_last(const struct job *job) { return !job->options.resumable || job->tiles.tiled; }

/* Finds schedules for COUNT GOALS. Replaces their bytes, those of a whole job, by those of one worker. */
static enum status find_schedules(struct job *job, struct job_search *search, struct budget_goal *goals, size_t count)
{
	const int64_t beside = bytes_beside_slabs(job);
	*search = (struct job_search){.job = job};
	TRY(compiled_share_costs(&job->context, &job->tile.compiled, &job->costs, &search->costs));
	search->judge = make_judge(job, &search->costs);
	if (counts_shared_once(search)) /* two searches share what planning may take */
		search->judge.most /= 2;
	for (size_t i = 0; i < count; i++) {
		const int64_t slabs = goals[i].bytes - beside;
		goals[i].bytes = job->costs.fixed + (slabs < 0 ? -1 : slabs / ARRAY_ALIGN * ARRAY_ALIGN / job->tiles.workers);
	}
	enum status status = search_goals(search, goals, count);
	if (!status && !settles_last(job))
		status = search_fully(search, goals, NULL, count);
	for (size_t i = 0; i < count && status; i++) {
		schedule_free(goals[i].schedule);
		goals[i].schedule = NULL;
	}
	return status;
}

/* Passes GOAL's schedule, with its counters of one tile, to JOB. Without a schedule it sets JOB's least_bytes. */
static void take_goal(struct job *job, const struct budget_goal *goal)
{
	job->schedule = goal->schedule;
	job->scheduled = goal->family;
	job->predicted = goal->counters;
	job->tile.slab = goal->counters.peak_bytes;
	if (goal->schedule)
		return;
	const int64_t slabs = job->tiles.workers * (goal->least - job->costs.fixed);
	job->least_bytes =
		bytes_beside_slabs(job) + (job->tiles.workers <= ARRAY_ALIGN ? round_up(slabs, ARRAY_ALIGN) : slabs);
}

/*
 * Searches fully for those of COUNT JOBS that have no schedule, whose GOALS have none either. A job that still has none
 * gets the least bytes that work.
 */
static enum status settle_jobs(struct job_search *search, struct budget_goal *goals, struct job *jobs, size_t count)
{
	if (!settles_last(search->job))
		return STATUS_OK;
	const enum status status = search_fully(search, goals, jobs, count);
	for (size_t i = 0; i < count; i++) {
		if (jobs[i].schedule)
			continue;
		const int64_t least = jobs[i].least_bytes; /* by policies by value */
		take_goal(&jobs[i], &goals[i]);
		jobs[i].least_bytes = lesser(jobs[i].least_bytes, least);
		job_raise_gap(&jobs[i]);
	}
	return status;
}

/* Reports that nothing fits the budget, with what would. GOAL is that of JOB's search. Returns STATUS_LIMIT. */
static enum status report_infeasible(struct job *job, struct budget_goal *goal)
{
	struct diags *diags = job->context.diags;
	const bool library = diags->library;
	const char *disk = !library ? "--spill DIR" : job->options.unexecuted ? "'on_disk'" : "'spill'";
	(void)budget_infeasible(job->policy->number, job->least_bytes, job->options.policy->kind == POLICY_auto, diags);
	if (job->options.may_spill && !job->options.on_disk) {
		const int64_t least = job->least_bytes;
		const struct budget_judge judge = make_judge(job, &job->costs);
		const struct disk_offer offer = make_offer(job, &judge);
		TRY(budget_least_on_disk(&job->context, &offer, &goal->least));
		take_goal(job, goal);
		if (job->least_bytes < least)
			diag_hint_more(diags, "%s lowers that to %lld", disk, (long long)job->least_bytes);
		job->least_bytes = least;
	}
	enum { SMALL = 1 << 20 }; /* bytes that need no tiles */
	const char *why = NULL;
	TRY_ALLOC(because_describe(&job->tiles.because, job->chain->source, job->context.arena, &why), diags);
	if (why && job->least_bytes > SMALL)
		diag_hint_more(diags, "no tile has fewer rows than the array, because of %s", why);
	if (job->tiles.workers > 1) /* each has tiles of its own */
		diag_hint_more(diags, "that is for %d workers: %s takes less, and %s with fewer rows may", job->tiles.workers,
		               library ? "'threads' = 1" : "--threads 1", library ? "a 'tile'" : "--tile");
	return STATUS_LIMIT;
}

enum status job_make_budget(struct job *job)
{
	const bool is_auto = job->options.policy->kind == POLICY_auto;
	struct budget_goal goal = {.bytes = job->policy->number};
	struct job_search search;
	TRY(find_schedules(job, &search, &goal, 1));
	take_goal(job, &goal);
	/* Without --memory `auto` is save-all if the search chose that. */
	if (is_auto && !job->options.memory && goal.schedule && goal.family.kind == POLICY_save_all)
		job->policy = &policy_save_all;
	else
		TRY(job_offer_values(&job->context, job, additions_of_run(job), job, 1));
	TRY(settle_jobs(&search, &goal, job, 1));
	if (job->schedule)
		return policy_by_value(&job->scheduled) ? STATUS_OK : job_finish(job);
	return report_infeasible(job, &goal);
}

/* Sets COUNT JOBS to the passes of FIRST. All have the same figures. */
static enum status plan_passes(const struct job *first, const struct job_options *options, struct job *jobs,
                               size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct job_options own = *options;
		own.policy = jobs[i].policy;
		own.unexecuted = true;
		struct diags ignored;
		diags_init(&ignored, first->context.arena);
		const struct context context = {first->context.allocator, first->context.arena, &ignored};
		const enum status status = job_make_from(&context, &jobs[i], first, &own);
		jobs[i].context = first->context;
		if (status && !jobs[i].least_bytes)
			return status;
	}
	return STATUS_OK;
}

enum status job_make_budgets(const struct context *context, const struct chain *chain, const struct type *input,
                             const struct job_options *options, struct job *jobs, size_t count)
{
	struct job_options own = *options;
	struct job *first = arena_alloc(context->arena, sizeof *first); /* what is compiled refers to it */
	struct budget_goal *goals = arena_array(context->arena, count, sizeof *goals);
	struct job_search search;
	enum status status = STATUS_OK;
	TRY_ALLOC(goals && first, context->diags);
	own.policy = jobs[0].policy;
	TRY(job_prepare(context, first, chain, input, &own));
	if (first->passes)
		return plan_passes(first, options, jobs, count);
	TRY(job_set_costs(first));
	for (size_t i = 0; i < count; i++)
		goals[i].bytes = jobs[i].policy->number;
	TRY(find_schedules(first, &search, goals, count));
	for (size_t i = 0; i < count; i++) {
		const struct policy *policy = jobs[i].policy;
		jobs[i] = *first;
		jobs[i].policy = policy;
		take_goal(&jobs[i], &goals[i]);
	}
	status = job_offer_values(context, first, additions_of_run(first), jobs, count);
	if (!status)
		status = settle_jobs(&search, goals, jobs, count);
	for (size_t i = 0; i < count && !status; i++)
		if (jobs[i].schedule && !policy_by_value(&jobs[i].scheduled))
			status = job_finish(&jobs[i]);
	for (size_t i = 0; i < count && status; i++)
		job_free(&jobs[i]);
	return status;
}
