/*
 * Gradients in passes over the input (ir/levels.h), if rows of the chain meet in several folds. All policies run the same
 * passes: a pass needs a tile's values alone, so there is nothing to keep. A tile is the block of the forward run.
 * Tests: tests/scripts/check-passes, tests/cases/folds.test
 */
#include "base/checked.h"
#include "budget/budget.h"
#include "plan/job_parts.h"

enum { MOST_STEPS = 1 << 14 }; /* of a gradient in passes: its bodies are unrolled */

/* Returns why JOB, whose forward pass FORWARD has levels, stays whole before its joint body is made. */
static struct because refuse_chain(const struct job *job, const struct lowered *forward)
{
	const struct levels *levels = forward->levels;
	const char *reason = NULL;
	if (job->chain->has_conditions)
		reason = "it folds the rows, and the iterations of `repeat while` are counted before the gradient";
	else if (job->chain->program_count)
		reason = "it folds the rows, and the chain calls programs";
	else if (job->whole.steps > MOST_STEPS)
		reason = "it folds the rows, and the chain has too many steps for passes over the input";
	return (struct because){reason, levels->body->instrs[levels->folds[0].instr].span};
}

/* Makes the joint body of the whole array and its levels. Sets *BECAUSE if passes cannot run it. */
static enum status join_whole(const struct job *job, struct joint_passes *passes, struct because *because)
{
	struct lowered lowered;
	const struct joint *whole = &passes->whole;
	uint32_t folds = 0;
	TRY(lower(&job->context, &lowered, job->chain, &job->whole.portion, &job->input, LOWER_UNROLLED));
	TRY(joint_make(&job->context, &passes->whole, &lowered, job->options.want_value));
	if (!whole->body) {
		because->reason = "nobody reads what it folds";
		return STATUS_OK;
	}
	TRY(joint_refuses(&job->context, whole, because));
	for (size_t i = 0; i < whole->body->instr_count; i++)
		folds += body_folds(whole->body, &whole->body->instrs[i]);
	if (folds > MAX_FOLDS && !because->reason)
		because->reason = "its gradient's folds are too many for passes over the input";
	if (because->reason)
		return STATUS_OK;
	TRY_ALLOC(levels_find(&passes->levels, whole->body, job->context.arena), job->context.diags);
	if (passes->levels.count > MAX_LEVELS)
		because->reason = "its gradient's folds have too many levels for passes over the input";
	return STATUS_OK;
}

/* Counts the steps of which some pass runs a part on tiles. */
static enum status count_distinct(const struct job *job, struct joint_passes *passes)
{
	bool *seen = arena_array(job->context.arena, (size_t)job->whole.steps + 1, sizeof *seen);
	TRY_ALLOC(seen, job->context.diags);
	for (uint32_t p = 0; p < passes->programs.count; p++) {
		const struct body *body = passes->programs.passes[p].tile.body;
		for (size_t i = 0; i < body->instr_count; i++) {
			const struct instr *instr = &body->instrs[i];
			if (instr->kind != INSTR_OP || instr->step == NO_VALUE)
				continue;
			passes->distinct += !seen[instr->step];
			seen[instr->step] = true;
		}
	}
	return STATUS_OK;
}

/* Makes the body and the programs of a tile. Sets *BECAUSE if a tile's body is not like the whole array's. */
static enum status join_tile(struct job *job, struct joint_passes *passes, struct because *because)
{
	const struct tiles *tiles = &job->tiles;
	const struct levels *levels = &passes->levels;
	struct lowered lowered;
	TRY(lower_tile(&job->context, &lowered, &job->whole, &job->input, LOWER_UNROLLED, tiles->window));
	TRY(joint_make(&job->context, &passes->tile, &lowered, job->options.want_value));
	if (!levels_fit(levels, passes->tile.body)) {
		because->reason = "a tile's gradient has other operations than the array's";
		return STATUS_OK;
	}
	passes->programs.levels = levels;
	passes->programs.apart = tiles->windows;
	TRY(pass_list_make(&job->context, &passes->programs, passes->tile.body));
	const uint32_t seed = passes->whole.cotangent;
	if (seed != NO_VALUE && levels->rows[seed])
		passes->seed = round_up(type_bytes(passes->tile.body->values[seed].type), ARRAY_ALIGN);
	job->passes = passes;
	return count_distinct(job, passes);
}

enum status job_cut_passes(struct job *job, const struct lowered *forward, struct tile_wants *wants)
{
	struct joint_passes *passes = arena_alloc(job->context.arena, sizeof *passes);
	struct because because = refuse_chain(job, forward);
	TRY_ALLOC(passes, job->context.diags);
	*passes = (struct joint_passes){.distinct = 0};
	wants->block = tiles_block(forward, wants);
	job->tiles.block = wants->block;
	if (wants->block >= forward->whole_rows || job_keeps_whole(&job->options))
		return STATUS_OK;
	struct tiles tiles;
	tiles_cut(&tiles, forward, wants);
	job->tiles.because = tiles.because;
	if (!tiles.tiled) /* windows do not serve it */
		return STATUS_OK;
	const bool known = because.reason != NULL;
	const struct span fold = because.span;
	TRY(known ? STATUS_OK : join_whole(job, passes, &because));
	if (!because.reason) {
		struct lowered both = *forward;
		both.levels = &passes->levels;
		tiles_cut(&job->tiles, &both, wants);
		TRY(join_tile(job, passes, &because));
	}
	if (job->passes)
		return STATUS_OK;
	job->tiles.tiled = false;
	job->tiles.block = wants->block;
	job->tiles.because = because;
	if (!because.span.line)
		job->tiles.because.span = fold;
	return STATUS_OK;
}

/* Sets the figures of JOB's passes. */
static enum status predict_passes(struct job *job)
{
	const struct joint_passes *passes = job->passes;
	const struct pass_list *programs = &passes->programs;
	struct counters *c = &job->predicted;
	int64_t worker, all, steps = 0;
	double cost = 0;
	job_fixed_bytes(job, &worker, &all);
	for (uint32_t i = 0; i < programs->count; i++) {
		steps += programs->passes[i].steps;
		cost += programs->passes[i].cost;
	}
	*c = (struct counters){.steps = job->whole.steps,
	                       .evaluations = job->whole.steps + steps - passes->distinct,
	                       .executions = job->whole.steps + steps - passes->distinct - passes->whole.unread,
	                       .stored_bytes = programs->results,
	                       .forward_cost = passes->tile.forward_cost,
	                       .backward_cost = passes->tile.backward_cost,
	                       .recomputed_cost = cost > passes->tile.forward_cost ? cost - passes->tile.forward_cost : 0};
	job->tile.slab = saturated_add(programs->workspace, passes->seed);
	const int64_t results = saturated_add(programs->results, programs->between);
	const double slabs = (double)job->tiles.workers * (double)job->tile.slab + (double)results;
	TRY(job_check_bytes(job, (double)all + (double)job->tiles.workers * (double)worker + slabs));
	job->slabs = job->tiles.workers * job->tile.slab + results;
	c->peak_bytes = all + job->tiles.workers * worker + job->slabs;
	job_count_rows(job, c);
	return STATUS_OK;
}

bool job_passes_fit(struct job *job)
{
	const bool fits = job->policy->kind != POLICY_budget || job->predicted.peak_bytes <= job->policy->number;
	job->least_bytes = fits ? 0 : job->predicted.peak_bytes;
	return fits;
}

enum status job_plan_passes(struct job *job)
{
	const bool is_auto = job->options.policy->kind == POLICY_auto;
	TRY(predict_passes(job));
	if (!job_passes_fit(job))
		return budget_infeasible(job->policy->number, job->least_bytes, is_auto, job->context.diags);
	if (is_auto && !job->options.memory)
		job->policy = &policy_save_all;
	return STATUS_OK;
}

const struct policy *job_tile_policy(const struct job *job)
{
	return job->passes && job->policy->kind == POLICY_budget ? &policy_save_all : job->policy;
}
