/*
 * Budgets that a policy by value serves better than the search's schedules of steps. A policy by value runs the whole
 * chain as one region, so the search (budget/) cannot propose it: it is planned as a job of its own.
 *
 * The list of policies (policy_choices.h) has what each recomputes, and the least that it takes. A budget compiles policies
 * from the fastest on, unless they take too much, until one fits. The list depends on the chain alone. So do the policies
 * that every budget may compile, and more bytes do not lose one of these.
 *
 * A run under a policy by value has few moments from which it can resume. With a journal such a policy is taken only if
 * no schedule of steps fits.
 *
 * One region is written out, and stays in memory during the run. So chains of more than SHORT instructions are left out
 * if their region takes more than LEAST_BYTES and a twentieth of the budget. To list policies takes a fortieth of the
 * run's cost, and to compile them two more, but LEAST_WORK in any case.
 *
 * What is left out may be faster. Then the gap says by how much at most, unless the steps show that no policy by value
 * fits: between its two passes each holds all values that derivatives read (struct floor).
 * Tests: tests/cases/plan.test, tests/scripts/check-budgets
 */
#include "plan/job_parts.h"

#include <math.h>

#include "base/checked.h"
#include "plan/policy_choices.h"

enum {
	SHORT = 3000,       /* instructions: a region takes no more than some megabytes */
	INSTR_BYTES = 4608, /* of a region, for each of its instructions, as measured */
	LEAST_BYTES = 4 << 20,
	LEAST_PLANS = 4, /* policies: the first of the list keep nothing, dots, dots-no-batch, or all, and no name alone */
};
static const double LEAST_WORK = 5e8; /* additions: about a tenth of a second */

/* What is offered to jobs. */
struct value_offer {
	const struct context *jobs; /* of the jobs that are made */
	struct policy_choices list;
	struct job region; /* for job_make_from, lowered if the list has plans */
	size_t plans; /* of so many plans in the order of the list, any may be compiled; and for a job as many others */
};

/*
 * Makes JOB, with POLICY, from BASE. PLANS: only its counters are wanted, by the costs of the op table. To measure a
 * region takes as long as to run it, and a file's costs have no parts within steps.
 */
static enum status make_value_job(const struct context *context, struct job *job, const struct job *base,
                                  const struct policy *policy, bool plans)
{
	struct job_options options = base->options;
	options.policy = policy;
	options.unexecuted |= plans;
	options.costs = plans ? NULL : options.costs;
	return job_make_from(context, job, base, &options);
}

/* Returns the cost of recomputation and of the disk by COUNTERS of JOB or of a plan for it, over a forward pass's. */
static double share_beside(const struct job *job, const struct counters *c)
{
	const double disk =
		(double)c->spill_writes * job->costs.spill_write + (double)c->spill_reads * job->costs.spill_read;
	return c->forward_cost > 0 ? (c->recomputed_cost + disk) / c->forward_cost : 0;
}

/* Sets the counters of PLAN, unless they are known. */
static enum status plan_value(const struct value_offer *offer, struct policy_choice *plan)
{
	const struct context *shared = offer->list.context;
	struct arena arena;
	struct job job;
	if (plan->planned)
		return STATUS_OK;
	arena_init(&arena, shared->allocator);
	const struct context context = {shared->allocator, &arena, shared->diags};
	const enum status status = make_value_job(&context, &job, &offer->region, &plan->policy, true);
	plan->counters = job.predicted;
	plan->planned = !status;
	job_free(&job);
	arena_free(&arena);
	return status;
}

/* Returns the bytes that a policy by value may take to serve JOB, or to lower its least. */
static int64_t bytes_for(const struct job *job)
{
	return job->schedule ? job->policy->number : greater(job->policy->number, job->least_bytes - 1);
}

/* True if a policy by value could serve JOB, whose budget no floor exceeds. */
static bool may_serve(const struct policy_choices *list, const struct job *job)
{
	const struct counters *c = &job->predicted;
	return (!job->schedule ||
	        ((!job->options.resumable || job->tiles.tiled) && (c->recomputed_cost > 0 || c->spill_writes > 0))) &&
	       policy_choices_least(list, list->floor.bytes) <= bytes_for(job);
}

/* True if a region may be made for JOB. */
static bool region_is_small(const struct policy_choices *list, const struct job *job)
{
	return list->floor.instrs <= SHORT || list->floor.instrs * INSTR_BYTES <= LEAST_BYTES + (double)bytes_for(job) / 20;
}

static const double equal_shares = 1e-9; /* costs are sums in different orders */

/* Counts the plans that a search for one job compiles, or would if it were the first. */
struct tries {
	const struct value_offer *offer;
	size_t left;     /* how many may be compiled beside those of any job */
	double left_out; /* the least share of those that were not */
};

/* Sets the counters of PLAN, unless they are known. *PLANNED: false if it may not be compiled. */
static enum status try_plan(struct tries *tries, struct policy_choice *plan, bool *planned)
{
	const bool any = plan->number < tries->offer->plans;
	*planned = any || tries->left > 0;
	if (!*planned) {
		tries->left_out = fmin(tries->left_out, plan->share);
		return STATUS_OK;
	}
	tries->left -= !any;
	return plan_value(tries->offer, plan);
}

/*
 * Sets *BEST to the fastest plan within JOB's budget that is faster than JOB's schedule, or to NULL; of equally fast ones
 * to that of the lowest peak.
 */
static enum status find_best_plan(struct tries *tries, const struct job *job, struct policy_choice **best)
{
	const struct policy_choices *list = &tries->offer->list;
	const double own = job->schedule ? share_beside(job, &job->predicted) * (1 - equal_shares) : (double)INFINITY;
	int64_t most = job->policy->number; /* the next plan takes no more */
	double least = own;                 /* and is not slower, but for rounding */
	bool planned;
	*best = NULL;
	for (size_t i = 0; i < list->count && list->plans[i].share <= least + equal_shares; i++) {
		struct policy_choice *plan = &list->plans[i];
		if (plan->least > most)
			continue;
		TRY(try_plan(tries, plan, &planned));
		const double share = share_beside(job, &plan->counters);
		if (!planned || plan->counters.peak_bytes > most || share >= own || share > least + equal_shares)
			continue;
		*best = plan;
		least = fmin(least, share);
		most = plan->counters.peak_bytes - 1;
	}
	return STATUS_OK;
}

/* Lowers the least bytes of JOB, which has no schedule, to the least of any plan. */
static enum status lower_least(struct tries *tries, struct job *job)
{
	const struct policy_choices *list = &tries->offer->list;
	for (size_t i = 0; i < list->count; i++) {
		struct policy_choice *plan = &list->plans[i];
		bool planned = false;
		if (plan->least < job->least_bytes)
			TRY(try_plan(tries, plan, &planned));
		if (planned)
			job->least_bytes = lesser(job->least_bytes, plan->counters.peak_bytes);
	}
	return STATUS_OK;
}

/* Sets COUNTERS' gap from BEFORE, those of the search's schedule: the lower bound of schedules of steps stays. */
static void keep_gap(struct counters *counters, const struct counters *before)
{
	const double least = (before->forward_cost + before->recomputed_cost) / (1 + before->gap_percent / 100);
	const double time = counters->forward_cost + counters->recomputed_cost;
	counters->bounded = before->bounded;
	counters->gap_percent = before->bounded && time > least && least > 0 ? 100 * (time - least) / least : 0;
}

void job_raise_gap(struct job *job)
{
	struct counters *c = &job->predicted;
	const double least = job->untried;
	const double own = c->forward_cost > 0 ? c->recomputed_cost / c->forward_cost : 0;
	if (job->schedule && c->bounded && least < own * (1 - equal_shares))
		c->gap_percent = fmax(c->gap_percent, 100 * (own - least) / (1 + least));
}

/* Returns POLICY with its parts copied to ARENA. *FAILED: out of memory. */
static struct policy copy_policy(const struct policy *policy, struct arena *arena, bool *failed)
{
	struct policy made = *policy;
	struct policy *sides = policy->left ? arena_array(arena, 2, sizeof *sides) : NULL;
	const char **names = arena_array(arena, policy->name_count + 1, sizeof *names);
	*failed |= !names || (policy->left && !sides);
	if (*failed)
		return made;
	for (size_t i = 0; i < policy->name_count; i++)
		names[i] = policy->names[i];
	made.names = names;
	if (sides) {
		sides[0] = copy_policy(policy->left, arena, failed);
		sides[1] = copy_policy(policy->right, arena, failed);
		made.left = &sides[0];
		made.right = &sides[1];
	}
	return made;
}

/* Makes of JOB, a budget, the job of PLAN. */
static enum status take_plan(const struct value_offer *offer, struct policy_choice *plan, struct job *job)
{
	const struct context *context = offer->jobs;
	struct job *made = arena_alloc(context->arena, sizeof *made); /* what is compiled refers to it */
	struct policy *policy = arena_alloc(context->arena, sizeof *policy);
	bool failed = !made || !policy;
	TRY_ALLOC(!failed, context->diags);
	*policy = copy_policy(&plan->policy, context->arena, &failed);
	TRY_ALLOC(!failed, context->diags);
	if (plan->job) {
		*made = *plan->job;
		made->schedule = schedule_copy(plan->job->schedule);
		TRY_ALLOC(made->schedule, context->diags);
	} else {
		TRY(make_value_job(context, made, offer->list.base, policy, false));
	}
	keep_gap(&made->predicted, &job->predicted);
	made->options = job->options;
	made->policy = job->policy;
	schedule_free(job->schedule);
	*job = *made;
	plan->job = job;
	return STATUS_OK;
}

/* Offers the policies of OFFER to JOB. */
static enum status offer_plans(const struct value_offer *offer, struct job *job)
{
	const struct policy_choices *list = &offer->list;
	struct tries tries = {offer, offer->plans, list->complete ? (double)INFINITY : list->all_share};
	struct policy_choice *best = NULL;
	job->untried = INFINITY;
	if (!may_serve(list, job))
		return STATUS_OK;
	if (list->plans && region_is_small(list, job)) {
		TRY(find_best_plan(&tries, job, &best));
		TRY(!best && !job->schedule ? lower_least(&tries, job) : STATUS_OK);
		TRY(best ? take_plan(offer, best, job) : STATUS_OK);
	} else {
		tries.left_out = 0; /* whatever is recomputed costs something */
	}
	job->untried = tries.left_out;
	job_raise_gap(job);
	return STATUS_OK;
}

/* Lowers the region of OFFER, and lists the policies. WORK: additions that may be taken to list, and to compile. */
static enum status fill_offer(struct value_offer *offer, double work)
{
	struct policy_choices *list = &offer->list;
	offer->plans = (size_t)fmax(work / (fmax(list->floor.instrs, 1) * PLAN_WORK), LEAST_PLANS);
	TRY(job_lower_region(list->context, &offer->region, list->base));
	const struct lowered *lowered = &offer->region.tile.lowered;
	return lowered->distinct_count ? policy_choices_fill(list, lowered->distinct[0], work) : STATUS_OK;
}

enum status job_offer_values(const struct context *context, const struct job *base, double run, struct job *jobs,
                             size_t count)
{
	struct arena arena;
	const struct job kept = *base; /* one of JOBS may be BASE */
	const struct context own = {context->allocator, &arena, context->diags};
	struct value_offer offer = {.jobs = context};
	bool open = false;
	arena_init(&arena, context->allocator);
	policy_choices_begin(&offer.list, &own, &kept);
	for (size_t i = 0; i < count; i++)
		open |= may_serve(&offer.list, &jobs[i]) && region_is_small(&offer.list, &jobs[i]);
	enum status status = open ? fill_offer(&offer, fmax(run / 40, LEAST_WORK)) : STATUS_OK;
	for (size_t i = 0; i < count && !status; i++)
		status = offer_plans(&offer, &jobs[i]);
	arena_free(&arena);
	allocator_trim(); /* regions may be large */
	return status;
}
