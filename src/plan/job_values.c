/*
 * Budgets that a policy by value serves better than the search's schedules of steps. A policy by value runs the whole
 * chain as one region, so the search (budget/) cannot propose it: it is planned as a job of its own. This file decides
 * which are planned:
 *
 *   - the sets of names: no name, and all; of up to MOST_ALONE names each alone, and all but each; of up to ALL_SETS
 *     names every set;
 *   - with each set, what is kept beside it (`bases`): nothing, dots, or every value without a name.
 *
 * P+Q of the table makes no others. The list depends on the chain alone, so more bytes never lose a policy.
 *
 * A run under a policy by value has few moments from which it can resume. With a journal such a policy is taken only if
 * no schedule of steps fits.
 *
 * One region is written out, and stays in memory during the run. So long chains are left out if their region takes more
 * than LEAST_BYTES and a twentieth of the budget. Planning takes a fortieth of the run's cost, but LEAST_WORK in any
 * case: of a long list the last policies are left out.
 */
#include "plan/job_parts.h"

#include <math.h>

#include "base/checked.h"
#include "ops/op.h"

enum {
	ALL_SETS = 5,
	MOST_ALONE = 32,
	INSTR_BYTES = 4608, /* of a region, for each of its instructions, as measured */
	INSTR_WORK = 40000, /* additions in the time in which a policy is planned, for each instruction, as measured */
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

/* A policy by value, and what a job with it counts. */
struct value_plan {
	struct policy policy;
	struct counters counters;
	const struct job *job; /* NULL: no budget has taken the plan yet */
};

struct value_plans {
	const struct context *context;
	const struct job *base;
	double instrs; /* of a region */
	bool dots;     /* some are matmul, linear or dot */
	struct value_plan *plans;
	size_t count;
};

/* Counts the instructions of ITEMS, written out. *DOTS: a dot is among them. */
static double count_instrs(const struct item *items, size_t count, bool *dots)
{
	double instrs = 0;
	for (size_t i = 0; i < count; i++) {
		const struct body *body = items[i].step ? items[i].step->body : NULL;
		instrs += body ? (double)body->instr_count
		               : (double)items[i].iterations * count_instrs(items[i].items, items[i].count, dots);
		for (size_t k = 0; body && k < body->instr_count && !*dots; k++)
			*dots = op_is_dot(body->instrs[k].op);
	}
	return instrs;
}

/* Returns the number of sets of NAMES names; set 0 has none of them. */
static size_t count_sets(size_t names)
{
	return names <= ALL_SETS ? (size_t)1 << names : names <= MOST_ALONE ? 2 + 2 * names : 2;
}

/* True if SET of NAMES names has name I. Set 1 has all. */
static bool set_has(size_t set, size_t names, size_t i)
{
	if (set < 2)
		return set == 1;
	if (names <= ALL_SETS)
		return (set - 1) >> i & 1;
	return ((set - 2) / 2 == i) == (set % 2 == 0);
}

/* True if SET has no name, one, all but one, or all. Such sets come first. */
static bool set_is_plain(size_t set, size_t names)
{
	size_t count = 0;
	for (size_t i = 0; i < names; i++)
		count += set_has(set, names, i);
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

/* Sets POLICY to what BASE and SET of CHAIN's names keep. False if out of memory. */
static bool make_policy(struct policy *policy, size_t base, size_t set, const struct chain *chain, struct arena *arena)
{
	struct policy named = {.kind = POLICY_names};
	const char **names = arena_array(arena, chain->name_count + 1, sizeof *names);
	*policy = (struct policy){.kind = bases[base].kind};
	if (!names)
		return false;
	for (size_t i = 0; i < chain->name_count; i++)
		if (set_has(set, chain->name_count, i))
			names[named.name_count++] = chain->names[i];
	named.names = names;
	const struct policy unnamed = {.kind = POLICY_all_but, .names = chain->names, .name_count = chain->name_count};
	return (!bases[base].unnamed || join_policies(policy, &unnamed, policy, arena)) &&
	       (!named.name_count || join_policies(policy, policy, &named, arena));
}

/* Lists the policies of SET, up to MOST policies in all. False if out of memory. */
static bool list_set(struct value_plans *list, size_t set, double most)
{
	const struct chain *chain = list->base->chain;
	bool made = true;
	for (size_t i = 0; i < BASES && made && (double)list->count < most; i++)
		/* Without names, UNNAMED is every value already, dots too. */
		if ((list->dots || !bases[i].dots) && (chain->name_count || !bases[i].unnamed || !bases[i].dots))
			made = make_policy(&list->plans[list->count++].policy, i, set, chain, list->context->arena);
	return made;
}

/* Lists the policies that are planned, RUN additions before a run. False if out of memory. */
static bool list_policies(struct value_plans *list, double run)
{
	const size_t names = list->base->chain->name_count, sets = count_sets(names);
	const double most = fmax(run / 40, LEAST_WORK) / (list->instrs * INSTR_WORK);
	bool made = true;
	list->plans = arena_array(list->context->arena, sets * BASES, sizeof *list->plans);
	for (int pass = 0; list->plans && pass < 2; pass++)
		for (size_t set = 0; set < sets && made; set++)
			if (set_is_plain(set, names) == (pass == 0))
				made = list_set(list, set, most);
	return list->plans && made;
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

static enum status plan_values(struct value_plans *list)
{
	enum status status = STATUS_OK;
	for (size_t i = 0; i < list->count && !status; i++) {
		struct arena arena;
		struct job job;
		arena_init(&arena, list->context->allocator);
		const struct context context = {list->context->allocator, &arena, list->context->diags};
		status = make_value_job(&context, &job, list->base, &list->plans[i].policy, true);
		list->plans[i].counters = job.predicted;
		job_free(&job);
		arena_free(&arena);
	}
	allocator_trim(); /* regions may be large */
	return status;
}

/* Returns the cost of recomputation and of the disk by COUNTERS of JOB or of a plan for it, over a forward pass's. */
static double share_beside(const struct job *job, const struct counters *c)
{
	const double disk =
		(double)c->spill_writes * job->costs.spill_write + (double)c->spill_reads * job->costs.spill_read;
	return c->forward_cost > 0 ? (c->recomputed_cost + disk) / c->forward_cost : 0;
}

/* True if a policy by value could serve JOB, and its region may be made. */
static bool may_serve(const struct value_plans *list, const struct job *job)
{
	const int64_t bytes = job->schedule ? job->policy->number : greater(job->policy->number, job->least_bytes);
	const struct counters *c = &job->predicted;
	return (!job->schedule ||
	        ((!job->options.resumable || job->tiles.tiled) && (c->recomputed_cost > 0 || c->spill_writes > 0))) &&
	       list->instrs * INSTR_BYTES <= LEAST_BYTES + (double)bytes / 20;
}

/*
 * Returns the fastest plan within JOB's budget that is faster than JOB's schedule, or NULL; of equally fast ones that of
 * the lowest peak. Sets JOB's least bytes.
 */
static struct value_plan *best_value_plan(const struct value_plans *list, struct job *job)
{
	static const double equal = 1e-9; /* costs are sums in different orders */
	struct value_plan *best = NULL;
	const double own = job->schedule ? share_beside(job, &job->predicted) * (1 - equal) : (double)INFINITY;
	double least = INFINITY; /* BEST's */
	for (size_t i = 0; i < list->count; i++) {
		struct value_plan *plan = &list->plans[i];
		const int64_t peak = plan->counters.peak_bytes;
		const double share = share_beside(job, &plan->counters);
		if (!job->schedule)
			job->least_bytes = lesser(job->least_bytes, peak);
		const bool better =
			share < least * (1 - equal) || (share <= least * (1 + equal) && best && peak < best->counters.peak_bytes);
		if (peak > job->policy->number || share >= own || (best && !better))
			continue;
		best = plan;
		least = share;
	}
	return best;
}

/* Sets COUNTERS' gap from BEFORE, those of the search's schedule: the lower bound of schedules of steps stays. */
static void keep_gap(struct counters *counters, const struct counters *before)
{
	const double least = (before->forward_cost + before->recomputed_cost) / (1 + before->gap_percent / 100);
	const double time = counters->forward_cost + counters->recomputed_cost;
	counters->bounded = before->bounded;
	counters->gap_percent = before->bounded && time > least && least > 0 ? 100 * (time - least) / least : 0;
}

/* Makes of JOB, a budget, the job of PLAN. */
static enum status take_plan(const struct value_plans *list, struct value_plan *plan, struct job *job)
{
	struct job *made = arena_alloc(list->context->arena, sizeof *made); /* what is compiled refers to it */
	TRY_ALLOC(made, list->context->diags);
	if (plan->job) {
		*made = *plan->job;
		made->schedule = schedule_copy(plan->job->schedule);
		TRY_ALLOC(made->schedule, list->context->diags);
	} else {
		TRY(make_value_job(list->context, made, list->base, &plan->policy, false));
	}
	keep_gap(&made->predicted, &job->predicted);
	made->options = job->options;
	made->policy = job->policy;
	schedule_free(job->schedule);
	*job = *made;
	plan->job = job;
	return STATUS_OK;
}

enum status job_offer_values(const struct context *context, const struct job *base, double run, struct job *jobs,
                             size_t count)
{
	const struct job kept = *base; /* one of JOBS may be BASE */
	const struct lowered *lowered = &kept.tile.lowered;
	struct value_plans list = {.context = context, .base = &kept};
	bool open = false;
	list.instrs = count_instrs(lowered->items, lowered->item_count, &list.dots);
	for (size_t i = 0; i < count; i++)
		open |= may_serve(&list, &jobs[i]);
	if (!open)
		return STATUS_OK;
	TRY_ALLOC(list_policies(&list, run), context->diags);
	TRY(plan_values(&list));
	for (size_t i = 0; i < count; i++) {
		struct value_plan *best = may_serve(&list, &jobs[i]) ? best_value_plan(&list, &jobs[i]) : NULL;
		TRY(best ? take_plan(&list, best, &jobs[i]) : STATUS_OK);
	}
	return STATUS_OK;
}
