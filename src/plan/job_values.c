/*
 * Budgets that a policy by value serves better than the search's schedules of steps. A policy by value runs the whole
 * chain as one region, so the search (budget/) cannot propose it: it is planned as a job of its own. This file decides
 * which are planned:
 *
 *   - the sets of names: no name, and all; each name alone, and all but each; then every set. Names that no policy by
 *     value looks at are in no set;
 *   - with each set, what is kept beside it (`bases`): nothing, dots, or every value without a name.
 *
 * P+Q of the table makes no others. The list depends on the chain alone, so more bytes never lose a policy.
 *
 * A survey (compile/survey.h) counts what each policy of the list recomputes, and the least that it holds. It also shows
 * which policies are the same one. A budget compiles policies from the fastest on, unless they hold too much, until one
 * fits.
 *
 * A run under a policy by value has few moments from which it can resume. With a journal such a policy is taken only if
 * no schedule of steps fits.
 *
 * One region is written out, and stays in memory during the run. So chains of more than SHORT instructions are left out
 * if their region takes more than LEAST_BYTES and a twentieth of the budget. Planning takes a twentieth of the run's
 * cost, but LEAST_WORK in any case: of a long list the last policies are left out.
 *
 * What is left out may be faster. Then the gap says by how much at most, unless the steps show that no policy by value
 * fits: between its two passes each holds all values that derivatives read (struct floor).
 */
#include "plan/job_parts.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "compile/survey.h"
#include "ops/op.h"

enum {
	ALL_SETS = 20,      /* names, at most, of which every set is listed if the work allows that */
	SHORT = 3000,       /* instructions: a region takes no more than some megabytes */
	INSTR_BYTES = 4608, /* of a region, for each of its instructions, as measured */
	/* Additions in the time in which a policy is planned or surveyed, for each instruction, as measured. */
	INSTR_WORK = 25000,
	SURVEY_WORK = 1500,
	LEAST_PLANS = 4, /* the first policies of the list: no name with nothing, dots, dots-no-batch and all */
	LEAST_BYTES = 4 << 20,
};
static const double LEAST_WORK = 5e8; /* additions: about a tenth of a second */

/* What a policy keeps beside values with names. UNNAMED is all-but with all names of the chain. */
static const struct {
	bool unnamed, dots;
	enum policy_kind kind;
} bases[] = {{false, false, POLICY_nothing}, {false, true, POLICY_dots}, {false, true, POLICY_dots_no_batch},
             {true, false, POLICY_nothing},  {true, true, POLICY_dots},  {true, true, POLICY_dots_no_batch}};
enum { BASES = sizeof bases / sizeof *bases };

/* A policy by value: what a survey says of it, and what a job with it counts. */
struct value_plan {
	struct policy policy;
	uint64_t mark[2];
	double share;  /* share_beside, by the survey */
	int64_t least; /* no job with it takes less */
	bool open;     /* the work allows to plan it */
	bool planned;  /* COUNTERS are known */
	struct counters counters;
	const struct job *job; /* NULL: no budget has taken the plan yet */
};

/* What every region of the chain takes, by its steps. */
struct floor {
	double instrs;
	bool dots;       /* some are matmul, linear or dot */
	int64_t bytes;   /* of a slab between the two passes, at least */
	int64_t largest; /* part of BYTES that one value has, at most */
	bool whole;      /* a step that is measured works on whole arrays: before it all values are arrays */
};

struct value_plans {
	const struct context *context; /* of the list: its arena is freed at the end */
	const struct context *jobs;    /* of the jobs that are made */
	const struct job *base;
	struct job region; /* for job_make_from; unset if PLANS is NULL */
	struct floor floor;
	int64_t beside;     /* bytes of a job beside its slabs, at least */
	const char **names; /* those that a policy by value looks at */
	size_t name_count;
	struct value_plan *plans; /* by share */
	size_t count, capacity;
	bool complete;    /* the list has every policy */
	double all_share; /* of the policy that keeps every value: no other has less */
};

/* True if the backward pass of LINEAR's step has a launch that works on whole arrays. */
static bool has_whole_launch(const struct linear *linear)
{
	for (size_t i = 0; i < linear->backward->instr_count; i++)
		if (linear->backward->instrs[i].kind == INSTR_VJP && survey_is_whole(&linear->backward->instrs[i]))
			return true;
	return false;
}

/*
 * Adds to FLOOR what STEP's derivatives read of what STEP makes, TIMES times. A policy by value keeps these values, or
 * recomputes all of them before the first derivative. Steps with checkpoint blocks or loops do not count, nor do aliases of
 * other arrays.
 */
static void add_to_floor(struct floor *floor, const struct compiled_chain *compiled, const struct step *step,
                         double times)
{
	const struct linear *linear = &compiled_step_of(compiled, step)->linear;
	const struct body *body = step->body, *record = linear->record;
	double bytes = 0;
	for (size_t i = 0; i < linear->residual_count && body->region_count <= 1; i++) {
		const struct residual *residual = &linear->residuals[i];
		const struct instr *maker = residual->in_state ? NULL : &record->instrs[record->values[residual->value].instr];
		if (!maker || maker->kind != INSTR_OP || maker->level >= 0 || op_only_reshapes(maker->op))
			continue;
		const int64_t between = survey_bytes_between(residual->type, floor->whole);
		bytes += (double)between;
		floor->largest = greater(floor->largest, between);
	}
	const double sum = (double)floor->bytes + bytes * times;
	floor->bytes = sum < 4e18 ? (int64_t)sum : floor->bytes;
	floor->instrs += times * (double)body->instr_count;
	for (size_t k = 0; k < body->instr_count && !floor->dots; k++)
		floor->dots = op_is_dot(body->instrs[k].op);
	floor->whole = floor->whole || has_whole_launch(linear);
}

/*
 * Adds ITEMS of COMPILED to FLOOR from the last to the first, each TIMES times. UNLIKE: the first time may be unlike the
 * others, since none of the later ones works on whole arrays.
 */
static void measure_items(struct floor *floor, const struct compiled_chain *compiled, const struct item *items,
                          size_t count, double times, bool unlike)
{
	for (const struct item *item = items + count; item-- > items;) {
		double left = times * (item->step ? 1 : (double)item->iterations);
		if (item->step) {
			add_to_floor(floor, compiled, item->step, left);
			continue;
		}
		if (unlike && !floor->whole && left > 0) {
			measure_items(floor, compiled, item->items, item->count, 1, true);
			left--;
		}
		measure_items(floor, compiled, item->items, item->count, left, false);
	}
}

/* Sets the least bytes of any job by value on the base of LIST. */
static void measure_floor(struct value_plans *list)
{
	struct job alone = *list->base;
	struct floor *floor = &list->floor;
	const int64_t workers = alone.tiles.workers;
	int64_t worker, all;
	measure_items(floor, &alone.tile.compiled, alone.tile.lowered.items, alone.tile.lowered.item_count, 1, true);
	floor->bytes = greater(floor->bytes - SURVEY_UNPLACED * floor->largest, 0);
	alone.team = 1; /* a region may need less workspace, and no wave */
	job_fixed_bytes(&alone, &worker, &all);
	list->beside = saturated_add(all, workers * (worker - job_wave_bytes(&alone)));
}

/* Returns the least bytes of a job by value whose slab for a full tile takes at least BYTES. */
static int64_t least_of_job(const struct value_plans *list, int64_t bytes)
{
	const int64_t workers = list->base->tiles.workers - job_rest_alone(list->base);
	return saturated_add(list->beside, bytes < INT64_MAX / workers ? workers * bytes : INT64_MAX);
}

/* Returns the number of sets of NAMES names without one, with one, with all but one, or with all. */
static size_t count_plain_sets(size_t names) { return names ? 2 + 2 * names : 1; }

/* True if plain SET of NAMES names has name I. Set 1 has all. */
static bool plain_set_has(size_t set, size_t i) { return set < 2 ? set == 1 : ((set - 2) / 2 == i) == (set % 2 == 0); }

/* True if MASK, a set of NAMES names, is a plain set. */
static bool mask_is_plain(size_t mask, size_t names)
{
	size_t count = 0;
	for (size_t i = 0; i < names; i++)
		count += mask >> i & 1;
	return count < 2 || count + 1 >= names;
}

/* Sets POLICY to P+Q. False if out of memory. */
static bool join_policies(struct policy *policy, const struct policy *p, const struct policy *q, struct arena *arena)
{
	struct policy *sides = arena_array(arena, 2, sizeof *sides);
	if (!sides)
		return false;
	sides[0] = *p;
	sides[1] = *q;
	*policy = (struct policy){.kind = POLICY_either, .left = &sides[0], .right = &sides[1]};
	return true;
}

/* Sets POLICY to what BASE and the names of SET keep. False if out of memory. */
static bool make_policy(const struct value_plans *list, struct policy *policy, size_t base, const struct policy *set)
{
	const struct chain *chain = list->base->chain;
	struct arena *arena = list->context->arena;
	*policy = (struct policy){.kind = bases[base].kind};
	const struct policy unnamed = {.kind = POLICY_all_but, .names = chain->names, .name_count = chain->name_count};
	return (!bases[base].unnamed || join_policies(policy, &unnamed, policy, arena)) &&
	       (!set->name_count || join_policies(policy, policy, set, arena));
}

/* Returns what share_beside is for a policy of FIGURES. */
static double share_by_survey(const struct value_plans *list, const struct survey_figures *figures)
{
	const bool reads = list->base->options.want_value;
	const double once = reads ? figures->forward_cost : figures->once_cost;
	const double again = figures->recompute_cost + (reads ? 0 : figures->record_cost - figures->once_cost);
	return once > 0 ? fmax(again / once, 0) : 0; /* as the machine counts */
}

/* Appends POLICY with FIGURES, unless the list has a policy that does the same. */
static enum status append_plan(struct value_plans *list, const struct policy *policy,
                               const struct survey_figures *figures)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->plans[i].mark[0] == figures->mark[0] && list->plans[i].mark[1] == figures->mark[1])
			return STATUS_OK;
	struct value_plan *plan =
		arena_append(list->context->arena, &list->plans, &list->count, &list->capacity, sizeof *plan);
	TRY_ALLOC(plan, list->context->diags);
	plan->policy = *policy;
	plan->mark[0] = figures->mark[0];
	plan->mark[1] = figures->mark[1];
	plan->share = share_by_survey(list, figures);
	plan->least = least_of_job(list, greater(figures->kept_bytes, list->floor.bytes));
	return STATUS_OK;
}

/* Lists the policies of SET, each a name's. *WORK is what the surveys may still take. */
static enum status list_set(struct value_plans *list, struct survey *survey, const struct policy *set, double *work)
{
	const bool names = list->base->chain->name_count > 0;
	for (size_t i = 0; i < BASES; i++) {
		/* Without names, UNNAMED is every value already, dots too. */
		if ((bases[i].dots && !list->floor.dots) || (bases[i].unnamed && bases[i].dots && !names))
			continue;
		struct survey_figures figures;
		struct policy policy;
		TRY_ALLOC(make_policy(list, &policy, i, set), list->context->diags);
		TRY(survey_policy(survey, &policy, &figures));
		TRY(append_plan(list, &policy, &figures));
		*work -= list->floor.instrs * (SURVEY_WORK + 20 * (double)set->name_count);
	}
	return STATUS_OK;
}

/* Lists the policies of plain set NUMBER, or, if it is too high, of a set that is a mask. *WORK: as above. */
static enum status list_number(struct value_plans *list, struct survey *survey, size_t number, double *work)
{
	const size_t plain = count_plain_sets(list->name_count);
	const char **names = arena_array(list->context->arena, list->name_count + 1, sizeof *names);
	struct policy set = {.kind = POLICY_names, .names = names};
	TRY_ALLOC(names, list->context->diags);
	if (number >= plain && mask_is_plain(number - plain, list->name_count))
		return STATUS_OK;
	for (size_t i = 0; i < list->name_count; i++)
		if (number < plain ? plain_set_has(number, i) : (number - plain) >> i & 1)
			names[set.name_count++] = list->names[i];
	return list_set(list, survey, &set, work);
}

/* Sets the names that policies by value look at. */
static enum status find_names(struct value_plans *list, struct survey *survey)
{
	const struct chain *chain = list->base->chain;
	struct arena *arena = list->context->arena;
	bool *relevant = arena_array(arena, chain->name_count + 1, sizeof *relevant);
	list->names = arena_array(arena, chain->name_count + 1, sizeof *list->names);
	TRY_ALLOC(relevant && list->names, list->context->diags);
	TRY(survey_names(survey, chain->names, chain->name_count, relevant));
	for (size_t i = 0; i < chain->name_count; i++)
		if (relevant[i])
			list->names[list->name_count++] = chain->names[i];
	return STATUS_OK;
}

static int compare_shares(const void *left, const void *right)
{
	const struct value_plan *a = left, *b = right;
	if (a->share != b->share)
		return a->share < b->share ? -1 : 1;
	if (a->least != b->least)
		return a->least < b->least ? -1 : 1;
	return (a->mark[0] > b->mark[0]) - (a->mark[0] < b->mark[0]);
}

/* Lists the policies, WORK additions of which may be taken twice: to survey, and to plan them. */
static enum status list_policies(struct value_plans *list, struct survey *survey, double work)
{
	struct survey_figures all;
	const double instrs = list->floor.instrs;
	double left = work;
	TRY(find_names(list, survey));
	TRY(survey_policy(survey, &policy_save_all, &all));
	list->all_share = share_by_survey(list, &all);
	const size_t names = list->name_count, plain = count_plain_sets(names);
	const size_t sets = plain + (names <= ALL_SETS ? (size_t)1 << names : 0);
	size_t number = 0;
	for (; number < sets && (left > 0 || number == 0); number++)
		TRY(list_number(list, survey, number, &left));
	list->complete = number == sets && names <= ALL_SETS;
	for (size_t i = 0; i < list->count; i++)
		list->plans[i].open = (double)i < fmax(work / (instrs * INSTR_WORK), LEAST_PLANS);
	qsort(list->plans, list->count, sizeof *list->plans, compare_shares);
	return STATUS_OK;
}

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
static enum status plan_value(const struct value_plans *list, struct value_plan *plan)
{
	struct arena arena;
	struct job job;
	if (plan->planned)
		return STATUS_OK;
	arena_init(&arena, list->context->allocator);
	const struct context context = {list->context->allocator, &arena, list->context->diags};
	const enum status status = make_value_job(&context, &job, &list->region, &plan->policy, true);
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
static bool may_serve(const struct value_plans *list, const struct job *job)
{
	const struct counters *c = &job->predicted;
	return (!job->schedule ||
	        ((!job->options.resumable || job->tiles.tiled) && (c->recomputed_cost > 0 || c->spill_writes > 0))) &&
	       least_of_job(list, list->floor.bytes) <= bytes_for(job);
}

/* True if a region may be made for JOB. */
static bool region_is_small(const struct value_plans *list, const struct job *job)
{
	return list->floor.instrs <= SHORT || list->floor.instrs * INSTR_BYTES <= LEAST_BYTES + (double)bytes_for(job) / 20;
}

static const double equal_shares = 1e-9; /* costs are sums in different orders */

/*
 * Sets *BEST to the fastest plan within JOB's budget that is faster than JOB's schedule, or to NULL; of equally fast ones
 * to that of the lowest peak.
 */
static enum status find_best_plan(const struct value_plans *list, const struct job *job, struct value_plan **best)
{
	const double own = job->schedule ? share_beside(job, &job->predicted) * (1 - equal_shares) : (double)INFINITY;
	int64_t most = job->policy->number; /* the next plan takes no more */
	double least = own;                 /* and is not slower, but for rounding */
	*best = NULL;
	for (size_t i = 0; i < list->count && list->plans[i].share <= least + equal_shares; i++) {
		struct value_plan *plan = &list->plans[i];
		if (!plan->open || plan->least > most)
			continue;
		TRY(plan_value(list, plan));
		const double share = share_beside(job, &plan->counters);
		if (plan->counters.peak_bytes > most || share >= own || share > least + equal_shares)
			continue;
		*best = plan;
		least = fmin(least, share);
		most = plan->counters.peak_bytes - 1;
	}
	return STATUS_OK;
}

/* Lowers the least bytes of JOB, which has no schedule, to the least of any plan. */
static enum status lower_least(const struct value_plans *list, struct job *job)
{
	for (size_t i = 0; i < list->count; i++) {
		struct value_plan *plan = &list->plans[i];
		if (!plan->open || plan->least >= job->least_bytes)
			continue;
		TRY(plan_value(list, plan));
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

/* Returns the least share of the policies that LIST has not planned, and which may fit JOB; INFINITY: there are none. */
static double least_left_out(const struct value_plans *list, const struct job *job)
{
	if (!list->plans)
		return 0; /* whatever is recomputed costs something */
	double least = list->complete ? (double)INFINITY : list->all_share;
	for (size_t i = 0; i < list->count; i++)
		if (!list->plans[i].open && list->plans[i].least <= job->policy->number)
			least = fmin(least, list->plans[i].share);
	return least;
}

/* Raises JOB's gap, if it has one, to what a policy of LEAST share would save. */
static void raise_gap(struct job *job, double least)
{
	struct counters *c = &job->predicted;
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
static enum status take_plan(const struct value_plans *list, struct value_plan *plan, struct job *job)
{
	const struct context *context = list->jobs;
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
		TRY(make_value_job(context, made, list->base, policy, false));
	}
	keep_gap(&made->predicted, &job->predicted);
	made->options = job->options;
	made->policy = job->policy;
	schedule_free(job->schedule);
	*job = *made;
	plan->job = job;
	return STATUS_OK;
}

/* Offers the policies of LIST to JOB. */
static enum status offer_plans(const struct value_plans *list, struct job *job)
{
	struct value_plan *best = NULL;
	if (!may_serve(list, job))
		return STATUS_OK;
	const bool small = list->plans && region_is_small(list, job);
	TRY(small ? find_best_plan(list, job, &best) : STATUS_OK);
	TRY(small && !best && !job->schedule ? lower_least(list, job) : STATUS_OK);
	TRY(best ? take_plan(list, best, job) : STATUS_OK);
	raise_gap(job, small ? least_left_out(list, job) : 0);
	return STATUS_OK;
}

/* Makes the region of LIST, and lists the policies. */
static enum status make_list(struct value_plans *list, double work)
{
	struct survey *survey;
	TRY(job_lower_region(list->context, &list->region, list->base));
	const struct lowered *lowered = &list->region.tile.lowered;
	if (!lowered->distinct_count)
		return STATUS_OK;
	TRY(survey_begin(list->context, &survey, lowered->distinct[0]));
	list->floor.bytes = greater(list->floor.bytes, survey_between(survey));
	const enum status status = list_policies(list, survey, work);
	survey_end(survey);
	return status;
}

enum status job_offer_values(const struct context *context, const struct job *base, double run, struct job *jobs,
                             size_t count)
{
	struct arena arena;
	const struct job kept = *base; /* one of JOBS may be BASE */
	struct value_plans list = {.jobs = context, .base = &kept};
	bool open = false;
	measure_floor(&list);
	for (size_t i = 0; i < count; i++)
		open |= may_serve(&list, &jobs[i]) && region_is_small(&list, &jobs[i]);
	arena_init(&arena, context->allocator);
	const struct context own = {context->allocator, &arena, context->diags};
	list.context = &own;
	enum status status = open ? make_list(&list, fmax(run / 40, LEAST_WORK)) : STATUS_OK;
	for (size_t i = 0; i < count && !status; i++)
		status = offer_plans(&list, &jobs[i]);
	arena_free(&arena);
	allocator_trim(); /* regions may be large */
	return status;
}
