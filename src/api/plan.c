/*
 * Plans from costs, as `ckptc plan --spec` makes them, and what they cost.
 * Tests: tests/unit/test_api.c
 */
#include "api/plan.h"

#include <string.h>

#include "budget/budget.h"

const char *ckptc_version(void) { return PACKAGE_VERSION; }

enum status reserved_check(const int64_t *reserved, size_t count, struct diags *diags)
{
	for (size_t i = 0; i < count; i++)
		if (reserved[i])
			return diag_file(diags, STATUS_USAGE, NULL, -1, "a reserved field of the options is not 0");
	return STATUS_OK;
}

enum status policy_read(const struct context *context, struct policy *policy, const char *text,
                        const struct ckptc_plan_options *options)
{
	const char *kept = arena_printf(context->arena, "%s", text ? text : "auto"); /* the policy refers to its text */
	TRY_ALLOC(kept, context->diags);
	if (options->memory < 0 || options->max_checkpoints < 0 || options->disk_bytes < 0 || options->threads < 0 ||
	    options->tile < 0 || options->iterations < 0)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1, "an option of the plan is below 0");
	TRY(reserved_check(options->reserved, 1, context->diags));
	TRY(policy_parse(context, policy, kept));
	if (options->max_checkpoints && policy->kind != POLICY_auto && !policy_is(policy, TRAIT_LIMITED))
		return diag_file(context->diags, STATUS_USAGE, NULL, -1, "policy '%s' takes no max_checkpoints", policy->text);
	policy->max_checkpoints = options->max_checkpoints;
	return STATUS_OK;
}

/* Plans plan->spec under plan->policy. */
static enum status plan_by_policy(struct ckptc_plan *plan, const char *policy, const struct ckptc_plan_options *options)
{
	double time;
	plan->steps = plan->spec.costs.steps;
	plan->each = 1;
	plan->spec.on_disk = options->on_disk;
	plan->spec.disk_bytes = options->disk_bytes;
	TRY(policy_read(&plan->owner.context, &plan->policy, policy, options));
	TRY(spec_policy(&plan->owner.context, &plan->spec, options->memory, &plan->policy));
	return spec_plan(&plan->owner.context, &plan->spec, &plan->policy, &plan->counters, &time, &plan->schedule);
}

static const struct ckptc_plan_options defaults;

int plan_finish(struct ckptc_plan **made, struct ckptc_plan *plan, enum status status, struct ckptc_error *error)
{
	error_set(error, status, &plan->owner.diags);
	if (status)
		ckptc_plan_free(plan);
	*made = status ? NULL : plan;
	return (int)status;
}

/* Sets PLAN's spec to COSTS. RECORD has the times of recording without the state after, by element, or is NULL. */
static enum status take_costs(struct ckptc_plan *plan, const struct ckptc_costs *costs, const double *record)
{
	const struct context *context = &plan->owner.context;
	if (!costs)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1, "'costs' is NULL");
	if (!costs->steps && costs->step_count)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1, "'steps' is NULL, but 'step_count' is not 0");
	struct step_run *runs = arena_array(context->arena, costs->step_count + 1, sizeof *runs);
	TRY_ALLOC(runs, context->diags);
	for (size_t i = 0; i < costs->step_count; i++) {
		const struct ckptc_step_cost *s = &costs->steps[i];
		runs[i] = (struct step_run){.count = s->count,
		                            .cost = {.forward = s->forward,
		                                     .backward = s->backward,
		                                     .record = record ? record[i] : s->forward,
		                                     .state = s->state_bytes,
		                                     .residual = s->residual_bytes,
		                                     .forward_temporary = s->forward_temporary_bytes,
		                                     .record_temporary = s->record_temporary_bytes,
		                                     .backward_temporary = s->backward_temporary_bytes,
		                                     .keeps_input = !s->drops_input,
		                                     .keeps_output = s->keeps_output}};
	}
	const struct step_costs made = {.runs = runs,
	                                .run_count = costs->step_count,
	                                .fixed = costs->fixed_bytes,
	                                .output = costs->output_bytes,
	                                .spill_write = costs->spill_write,
	                                .spill_read = costs->spill_read};
	return spec_make(&plan->spec, &made, context->arena, context->diags);
}

int ckptc_plan_costs(struct ckptc_plan **made, const struct ckptc_costs *costs, const char *policy,
                     const struct ckptc_plan_options *options, struct ckptc_error *error)
{
	struct ckptc_plan *plan = owner_make(options ? options->allocator : NULL, sizeof *plan);
	*made = NULL;
	if (!plan)
		return error_set_memory(error);
	options = options ? options : &defaults;
	enum status status = take_costs(plan, costs, options->record);
	if (!status)
		status = plan_by_policy(plan, policy, options);
	return plan_finish(made, plan, status, error);
}

int ckptc_plan_spec(struct ckptc_plan **made, const char *json, size_t length, const char *policy,
                    const struct ckptc_plan_options *options, struct ckptc_error *error)
{
	struct ckptc_plan *plan = owner_make(options ? options->allocator : NULL, sizeof *plan);
	*made = NULL;
	if (!plan)
		return error_set_memory(error);
	const struct source source = {"<costs>", json ? json : "", json ? length : 0};
	enum status status = spec_read(&plan->spec, &source, &plan->owner.arena, &plan->owner.diags);
	if (!status)
		status = plan_by_policy(plan, policy, options ? options : &defaults);
	return plan_finish(made, plan, status, error);
}

void ckptc_plan_free(struct ckptc_plan *plan)
{
	if (!plan)
		return;
	schedule_free(plan->schedule);
	owner_free(&plan->owner);
}

void counters_show(struct ckptc_counters *to, const struct counters *c)
{
	*to = (struct ckptc_counters){.steps = c->steps,
	                              .evaluations = c->evaluations,
	                              .executions = c->executions,
	                              .recomputed = c->evaluations - c->steps,
	                              .checkpoints = c->checkpoints,
	                              .stored_bytes = c->stored_bytes,
	                              .peak_bytes = c->peak_bytes,
	                              .spill_writes = c->spill_writes,
	                              .spill_reads = c->spill_reads,
	                              .forward_time = c->forward_cost,
	                              .backward_time = c->backward_cost,
	                              .recomputed_time = c->recomputed_cost,
	                              .overhead_percent = counters_overhead(c),
	                              .gap_percent = c->bounded ? c->gap_percent : -1};
}

void ckptc_plan_counters(const struct ckptc_plan *plan, struct ckptc_counters *counters)
{
	counters_show(counters, &plan->counters);
	counters->slots = schedule_slots(plan->schedule);
	counters->disk_slots = schedule_disk_slots(plan->schedule);
}

const char *ckptc_plan_policy(const struct ckptc_plan *plan) { return plan->policy.text; }

bool plan_next(const struct ckptc_plan *plan, struct schedule *schedule, struct action *action)
{
	if (plan->each == 0 || !schedule_next(schedule, action)) /* 0: no steps, by a policy by value */
		return false;
	action->begin *= plan->each;
	action->end *= plan->each;
	return true;
}
