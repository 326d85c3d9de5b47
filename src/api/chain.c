/*
 * Chains: made from text, given arrays, and planned as `ckptc plan` plans them.
 * Tests: tests/unit/test_api_chain.c
 */
#include "api/chain.h"

#include <string.h>

#include "api/plan.h"
#include "api/select.h"
#include "base/suggest.h"
#include "exec/run.h"
#include "external/learn.h"
#include "report/counters.h"

/* The public dtypes are ours. */
_Static_assert((int)CKPTC_F16 == DTYPE_F16 && (int)CKPTC_I64 == DTYPE_I64 && (int)CKPTC_BOOL == DTYPE_BOOL &&
                   (int)CKPTC_MAX_DIMS == MAX_DIMS,
               "enum ckptc_dtype is enum dtype");

enum status array_type(const struct ckptc_array *array, const char *what, bool data, struct type *type,
                       struct diags *diags)
{
	if (array->dtype < 0 || array->dtype > DTYPE_BOOL || array->ndim < 0 || array->ndim > MAX_DIMS)
		return diag_file(diags, STATUS_USAGE, what, -1, "dtype %d with %d dimensions is no type", array->dtype,
		                 array->ndim);
	*type = (struct type){.dtype = (enum dtype)array->dtype, .shape.ndim = array->ndim};
	for (int i = 0; i < array->ndim; i++) {
		type->shape.dim[i] = array->shape[i];
		if (array->shape[i] < 0)
			return diag_file(diags, STATUS_USAGE, what, -1, "extent %d is %lld, below 0", i,
			                 (long long)array->shape[i]);
	}
	if (!type_addressable(type))
		return diag_file(diags, STATUS_LIMIT, what, -1, "the array is too large to address");
	if (data && !array->data && shape_count(&type->shape) > 0)
		return diag_file(diags, STATUS_USAGE, what, -1, "the array has no data");
	return STATUS_OK;
}

void array_show(struct ckptc_array *array, const struct type *type, const void *data)
{
	*array = (struct ckptc_array){.dtype = (int)type->dtype, .ndim = type->shape.ndim, .data = data};
	for (int i = 0; i < type->shape.ndim; i++)
		array->shape[i] = type->shape.dim[i];
}

int64_t ckptc_array_bytes(const struct ckptc_array *array)
{
	struct type type;
	struct arena none;
	struct diags diags;
	arena_init(&none, &allocator_system);
	diags_init(&diags, &none);
	const enum status status = array_type(array, "array", false, &type, &diags);
	arena_free(&none);
	return status ? -1 : shape_count(&type.shape) * (int64_t)dtype_size(type.dtype);
}

enum status find_declared(const struct context *context, const char *const *names, size_t count, const char *what,
                          const char **name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i], *name)) {
			*name = names[i];
			return STATUS_OK;
		}
	const char *near = suggest_nearest(*name, names, count);
	diag_file(context->diags, STATUS_USAGE, NULL, -1, "the chain has no %s '%s'", what, *name);
	return near ? diag_hint(context->diags, "did you mean '%s'?", near) : STATUS_USAGE;
}

/* Returns the names of what can be bound to CHAIN, in the context's arena; NULL if out of memory. */
static const char **bindable_names(const struct context *context, const struct chain *chain)
{
	const char **names = arena_array(context->arena, chain->param_count + 1, sizeof *names);
	for (size_t i = 0; names && i < chain->param_count; i++)
		names[i] = chain->params[i].name;
	return names;
}

/* Fails with STATUS_USAGE if a number is of no const. */
static enum status check_numbers(const struct context *context, const struct ckptc_chain *c)
{
	const char **names = bindable_names(context, &c->chain);
	TRY_ALLOC(names, context->diags);
	for (size_t i = 0; i < c->number_count; i++) {
		const char *name = c->numbers[i].name;
		TRY(find_declared(context, names, c->chain.param_count, "const", &name));
	}
	return STATUS_OK;
}

/* Copies NUMBERS, which end with one without a name, to the chain. */
static enum status keep_given_numbers(struct ckptc_chain *c, const struct ckptc_number *numbers)
{
	const struct context *context = &c->owner.context;
	size_t count = 0;
	while (numbers && numbers[count].name)
		count++;
	c->numbers = arena_array(context->arena, count + 1, sizeof *c->numbers);
	c->number_bindings = arena_array(context->arena, count + 1, sizeof *c->number_bindings);
	TRY_ALLOC(c->numbers && c->number_bindings, context->diags);
	for (; c->number_count < count; c->number_count++) {
		const struct ckptc_number *number = &numbers[c->number_count];
		const char *name = arena_printf(context->arena, "%s", number->name);
		c->numbers[c->number_count] = (struct given_number){name, number->value};
		c->number_bindings[c->number_count] =
			(struct param_binding){name, arena_printf(context->arena, "%.17g", number->value)};
	}
	TRY_ALLOC(!context->arena->failed, context->diags);
	return STATUS_OK;
}

/* Makes the chain from LENGTH bytes of TEXT. */
static enum status make_chain(struct ckptc_chain *c, const char *text, size_t length,
                              const struct ckptc_chain_options *options)
{
	const struct context *context = &c->owner.context;
	const char *name = options && options->name ? options->name : "<chain>";
	const char *directory = options && options->directory ? options->directory : ".";
	if (options)
		TRY(reserved_check(options->reserved, 3, context->diags));
	if (!text && length)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1, "the chain's text is NULL");
	c->source = (struct source){arena_printf(context->arena, "%s", name), NULL, length};
	c->directory = arena_printf(context->arena, "%s", directory);
	TRY_ALLOC(c->source.name && c->directory, context->diags);
	if (length <= MAX_SOURCE) { /* a longer one is refused before it is read */
		c->source.text = arena_strndup(context->arena, text ? text : "", length);
		TRY_ALLOC(c->source.text, context->diags);
	}
	TRY(keep_given_numbers(c, options ? options->numbers : NULL));
	const struct given_chain given = {.items = c->numbers, .count = c->number_count};
	TRY(chain_read_given(context, &c->chain, &c->source, &given));
	TRY(policy_parse_blocks(context, &c->chain));
	TRY(check_numbers(context, c));
	c->arrays = arena_array(context->arena, c->chain.param_count + 1, sizeof *c->arrays);
	c->programs = arena_array(context->arena, c->chain.program_count + 1, sizeof *c->programs);
	TRY_ALLOC(c->arrays && c->programs, context->diags);
	return STATUS_OK;
}

int ckptc_chain_new(struct ckptc_chain **made, const char *text, size_t length,
                    const struct ckptc_chain_options *options, struct ckptc_error *error)
{
	struct ckptc_chain *chain = owner_make(options ? options->allocator : NULL, sizeof *chain);
	*made = NULL;
	if (!chain)
		return error_set_memory(error);
	const enum status status = make_chain(chain, text, length, options);
	error_set(error, status, &chain->owner.diags);
	if (status)
		ckptc_chain_free(chain);
	else
		*made = chain;
	return (int)status;
}

void ckptc_chain_free(struct ckptc_chain *chain)
{
	if (chain)
		owner_free(&chain->owner);
}

const char *ckptc_chain_input(const struct ckptc_chain *chain, size_t index)
{
	if (index == 0)
		return chain->chain.input;
	return index <= chain->chain.input_count ? chain->chain.params[index - 1].name : NULL;
}

const char *ckptc_chain_output(const struct ckptc_chain *chain, size_t index)
{
	return index < chain->chain.output_count ? chain->chain.outputs[index].name : NULL;
}

const char *ckptc_chain_param(const struct ckptc_chain *chain, size_t index)
{
	return index < chain->chain.param_count ? chain->chain.params[index].name : NULL;
}

/* Returns the names of the chain's programs, in the context's arena; NULL if out of memory. */
static const char **program_names(const struct context *context, const struct chain *chain)
{
	const char **names = arena_array(context->arena, chain->program_count + 1, sizeof *names);
	for (size_t i = 0; names && i < chain->program_count; i++)
		names[i] = chain->programs[i].name;
	return names;
}

static enum status bind_array(const struct context *context, struct ckptc_chain *chain, const char *name,
                              const struct ckptc_array *array)
{
	struct memory_array made = {.name = name, .data = array->data};
	const char **names = bindable_names(context, &chain->chain);
	TRY_ALLOC(names, context->diags);
	TRY(find_declared(context, names, chain->chain.param_count, "param or const", &made.name));
	TRY(array_type(array, made.name, false, &made.type, context->diags));
	size_t i = 0;
	while (i < chain->array_count && chain->arrays[i].name != made.name)
		i++;
	chain->array_count += i == chain->array_count;
	chain->arrays[i] = made;
	return STATUS_OK;
}

static enum status bind_target(const struct context *context, struct ckptc_chain *chain, const char *name,
                               const char *target)
{
	const char **names = program_names(context, &chain->chain);
	const char *kept = arena_printf(&chain->owner.arena, "%s", target);
	TRY_ALLOC(names && kept, context->diags);
	TRY(find_declared(context, names, chain->chain.program_count, "program", &name));
	size_t i = 0;
	while (i < chain->program_count && chain->programs[i].name != name)
		i++;
	chain->program_count += i == chain->program_count;
	chain->programs[i] = (struct external_binding){name, kept};
	return STATUS_OK;
}

/* Binds NAME to ARRAY or to TARGET, the one that is not NULL. WHAT is its name in ckptc.h. */
static int bind_declared(struct ckptc_chain *chain, const char *name, const struct ckptc_array *array,
                         const char *target, const char *what, struct ckptc_error *error)
{
	struct arena arena;
	struct diags diags;
	arena_init(&arena, &chain->owner.allocator);
	diags_init(&diags, &arena);
	diags.library = true;
	const struct context context = {&chain->owner.allocator, &arena, &diags};
	enum status status;
	if (!name || (!array && !target))
		status = diag_file(&diags, STATUS_USAGE, NULL, -1, "'%s' is NULL", name ? what : "name");
	else if (target && !target[0])
		status = diag_file(&diags, STATUS_USAGE, NULL, -1, "'%s' is empty", what);
	else
		status = array ? bind_array(&context, chain, name, array) : bind_target(&context, chain, name, target);
	error_set(error, status, &diags);
	arena_free(&arena);
	return (int)status;
}

int ckptc_chain_bind(struct ckptc_chain *chain, const char *name, const struct ckptc_array *array,
                     struct ckptc_error *error)
{
	return bind_declared(chain, name, array, NULL, "array", error);
}

int ckptc_chain_program(struct ckptc_chain *chain, const char *name, const char *target, struct ckptc_error *error)
{
	return bind_declared(chain, name, NULL, target, "target", error);
}

enum status chain_bind_programs(const struct context *context, const struct ckptc_chain *chain, int threads,
                                struct external_set **set)
{
	const struct external_options options = {.workers = threads > 0 ? threads : 1};
	const struct external_bindings bindings = {chain->programs, chain->program_count};
	const char **names = program_names(context, &chain->chain);
	TRY_ALLOC(names, context->diags);
	return external_bind(context, names, (uint32_t)chain->chain.program_count, &bindings, &options, set);
}

enum status chain_read_policy(const struct context *context, const struct ckptc_chain *chain, const char *text,
                              const struct ckptc_plan_options *options, struct policy *policy)
{
	TRY(policy_read(context, policy, text, options));
	/* The number of steps is not known before a run: of the policies that take a limit, online:S needs none. */
	if (!text && chain->chain.has_conditions && options->max_checkpoints && !options->memory)
		TRY_ALLOC(policy_make(policy, POLICY_online, options->max_checkpoints, context->arena), context->diags);
	return policy_check_names(context, policy, &chain->chain);
}

enum status chain_bind_params(const struct context *context, struct ckptc_chain *chain, const struct type *type,
                              bool data, struct params *params)
{
	const struct params_options options = {.arrays = chain->arrays,
	                                       .array_count = chain->array_count,
	                                       .bindings = chain->number_bindings,
	                                       .binding_count = chain->number_count,
	                                       .directory = chain->directory,
	                                       .data = data,
	                                       .compute = dtype_compute(type->dtype),
	                                       .dtype = DTYPE_COUNT};
	for (size_t i = 0; data && i < chain->array_count; i++)
		if (!chain->arrays[i].data && shape_count(&chain->arrays[i].type.shape) > 0)
			return diag_file(context->diags, STATUS_USAGE, chain->arrays[i].name, -1, "the array has no data");
	return params_bind(context, params, &chain->chain, &options);
}

struct job_options chain_job_options(const struct ckptc_plan_options *options, const struct policy *policy,
                                     int64_t param_bytes)
{
	return (struct job_options){.policy = policy,
	                            .threads = options->threads > 0 ? options->threads : 1,
	                            .tile = options->tile,
	                            .on_disk = options->on_disk,
	                            .disk_bytes = options->disk_bytes,
	                            .may_spill = true,
	                            .store = DTYPE_COUNT,
	                            .want_value = options->want_value,
	                            .memory = options->memory,
	                            .param_bytes = param_bytes};
}

/* Copies the residual report of JOB to PLAN. */
static enum status take_residuals(struct ckptc_plan *plan, const struct ckptc_chain *chain, const struct job *job)
{
	struct held_list held;
	struct arena *arena = &plan->owner.arena;
	TRY(job_residuals(job, &held));
	plan->residuals = arena_array(arena, held.count + 1, sizeof *plan->residuals);
	TRY_ALLOC(plan->residuals, &plan->owner.diags);
	for (; plan->residual_count < held.count; plan->residual_count++) {
		const struct held *row = &held.rows[plan->residual_count];
		char type[TYPE_TEXT];
		plan->residuals[plan->residual_count] =
			(struct ckptc_residual){.bytes = row->bytes,
		                            .step = row->step,
		                            .type = arena_printf(arena, "%s", type_format(row->type, type)),
		                            .what = residual_describe(&chain->chain, row, arena)};
	}
	TRY_ALLOC(!arena->failed, &plan->owner.diags);
	return STATUS_OK;
}

/* Takes what outlives JOB. */
static enum status take_job(struct ckptc_plan *plan, const struct job *job)
{
	const struct context *context = &plan->owner.context;
	plan->counters = job->predicted;
	plan->steps = job->whole.steps;
	plan->each = policy_by_value(job->policy) ? plan->steps : 1;
	plan->schedule = schedule_copy(job->schedule);
	plan->policy.text = arena_printf(context->arena, "%s", job->policy->text);
	TRY_ALLOC(plan->schedule && plan->policy.text, context->diags);
	return STATUS_OK;
}

/* Sets TYPE to that of INPUT, or without INPUT to the one that the chain declares. */
static enum status plan_type(const struct context *context, const struct ckptc_chain *chain,
                             const struct ckptc_array *input, struct type *type)
{
	const struct declared *declared = &chain->chain.input_type;
	if (input)
		return array_type(input, "input", false, type, context->diags);
	if (!declared_whole(declared)) {
		diag_file(context->diags, STATUS_USAGE, NULL, -1, "the chain does not declare its input's type");
		return diag_hint(context->diags, "give it, or declare every extent, as in: input x: f32[64,256]");
	}
	*type = declared->type;
	return STATUS_OK;
}

static enum status plan_chain(struct ckptc_plan *plan, struct ckptc_chain *given, const struct ckptc_array *input,
                              const char *policy, const struct ckptc_plan_options *options)
{
	const struct context *owner = &plan->owner.context;
	struct arena arena;
	struct type type;
	struct params params = {0};
	struct external_set *programs = NULL;
	struct job job;
	struct ckptc_chain selected, *chain = &selected;
	TRY(chain_select(owner, given, &(struct chain_selection){.chosen = options->of_output}, chain));
	TRY(chain_read_policy(owner, chain, policy, options, &plan->policy));
	TRY(plan_type(owner, chain, input, &type));
	type = run_input_type(&chain->chain, &type, DTYPE_COUNT);
	arena_init(&arena, owner->allocator);
	const struct context context = {owner->allocator, &arena, owner->diags};
	enum status status = chain_bind_params(&context, chain, &type, false, &params);
	if (!status && chain->chain.program_count)
		status = chain_bind_programs(&context, chain, 1, &programs);
	if (!status)
		status = external_learn(&context, &chain->chain, NULL, &type, true, programs);
	struct job_options job_options = chain_job_options(options, &plan->policy, params.bytes);
	job_options.unexecuted = true;
	job_options.portion.most = options->iterations;
	if (!status && !(status = job_make(&context, &job, &chain->chain, &type, &job_options))) {
		status = take_job(plan, &job);
		if (!status && options->residuals)
			status = take_residuals(plan, chain, &job);
		job_free(&job);
	}
	external_close(programs);
	params_free(&params);
	arena_free(&arena);
	return status;
}

int ckptc_plan_chain(struct ckptc_plan **made, struct ckptc_chain *chain, const struct ckptc_array *input,
                     const char *policy, const struct ckptc_plan_options *options, struct ckptc_error *error)
{
	static const struct ckptc_plan_options defaults;
	const struct ckptc_plan_options *given = options ? options : &defaults;
	const struct ckptc_allocator inherited = {chain->owner.allocator.resize, chain->owner.allocator.context};
	struct ckptc_plan *plan = owner_make(given->allocator ? given->allocator : &inherited, sizeof *plan);
	*made = NULL;
	if (!plan)
		return error_set_memory(error);
	return plan_finish(made, plan, plan_chain(plan, chain, input, policy, given), error);
}

size_t ckptc_plan_residuals(const struct ckptc_plan *plan, const struct ckptc_residual **rows)
{
	*rows = plan->residuals;
	return plan->residual_count;
}
