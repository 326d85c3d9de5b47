/*
 * Runs of chains on arrays in memory: `ckptc run` and `ckptc grad`, with other readers and writers.
 * Tests: tests/unit/test_api_chain.c, tests/scripts/check-library
 */
#include <string.h>

#include "api/chain.h"
#include "api/plan.h"
#include "api/select.h"
#include "exec/run.h"
#include "external/learn.h"

struct ckptc_result {
	struct owner owner;
	const char **names; /* of the chain's params */
	struct kept_array value, gradient;
	struct kept_array *more; /* by number of their names; or NULL */
	const char **output_names;
	size_t output_count;
	struct gradient_result grad; /* of ckptc_grad; after the run its params alone have a meaning */
	struct ckptc_counters counters;
};

/* What a run needs while it lasts. */
struct running {
	struct ckptc_result *result;
	struct ckptc_chain *chain;
	const struct ckptc_run_options *options;
	struct type type; /* of the input, as the chain sees it */
	struct params params;
	struct external_set *programs; /* or NULL */
	struct input input;
	struct reader reader;
	struct writer value, gradient;
	struct writer **more; /* of the outputs, then NULL; NULL: there are none */
	struct policy policy;
	struct ckptc_chain selected; /* CHAIN, unless nothing is selected */
	struct run_subject subject;  /* the chain, and the members above */
};

static void open_writer(struct running *run, struct writer *writer, struct kept_array *kept,
                        const struct ckptc_buffer *buffer)
{
	*kept = (struct kept_array){.data = buffer->data, .size = buffer->size};
	const struct writer_options options = {.format = FORMAT_MEMORY, .memory = kept};
	writer_init(writer, NULL, &options, &run->result->owner.arena);
}

/* Opens the writers of the outputs that are wanted. */
static enum status open_outputs(struct running *run)
{
	struct ckptc_result *result = run->result;
	const struct context *context = &result->owner.context;
	const size_t count = run->chain->chain.wanted_count;
	if (!count)
		return STATUS_OK;
	struct writer *writers = arena_array(context->arena, count, sizeof *writers);
	result->more = arena_array(context->arena, count, sizeof *result->more);
	result->output_names = arena_array(context->arena, count, sizeof *result->output_names);
	run->more = arena_array(context->arena, count + 1, sizeof(struct writer *));
	TRY_ALLOC(writers && result->more && result->output_names && run->more, context->diags);
	for (size_t i = 0; i < count; i++) {
		open_writer(run, &writers[i], &result->more[i], &(struct ckptc_buffer){0});
		result->output_names[i] = run->chain->chain.wanted[i]->name;
		run->more[i] = &writers[i];
	}
	result->output_count = count;
	return STATUS_OK;
}

/* Binds the params, and opens the input and the outputs. */
static enum status open_run(struct running *run, const struct ckptc_array *input)
{
	struct ckptc_result *result = run->result;
	const struct context *context = &result->owner.context;
	const struct chain *chain = &run->chain->chain;
	struct type type;
	TRY(reserved_check(run->options->reserved, 1, context->diags));
	TRY(reserved_check(run->options->plan.reserved, 1, context->diags));
	if (run->options->plan.iterations)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1,
		                 "iterations are for a plan: a run has as many as its conditions say");
	TRY(array_type(input, "input", true, &type, context->diags));
	run->type = run_input_type(chain, &type, DTYPE_COUNT);
	TRY(chain_bind_params(context, run->chain, &run->type, true, &run->params));
	if (chain->program_count)
		TRY(chain_bind_programs(context, run->chain, run->options->plan.threads, &run->programs));
	TRY(external_demand(chain, false, run->programs, context->diags));
	run->input = (struct input){.fd = -1, .name = "input", .arena = context->arena};
	const struct reader_options reading = {.format = FORMAT_MEMORY, .raw = type, .memory = input->data};
	reader_init(&run->reader, &run->input, &reading, context->arena);
	if (chain->input_type.given)
		run->reader.declared = chain->input_type.type.dtype;
	result->names = arena_array(context->arena, chain->param_count + 1, sizeof *result->names);
	TRY_ALLOC(result->names, context->diags);
	for (size_t i = 0; i < chain->param_count; i++)
		result->names[i] = arena_printf(context->arena, "%s", chain->params[i].name);
	TRY_ALLOC(!context->arena->failed, context->diags);
	run->subject = (struct run_subject){chain, &run->params, &run->reader, NULL, run->programs, NULL};
	open_writer(run, &run->value, &result->value, &run->options->value);
	open_writer(run, &run->gradient, &result->gradient, &run->options->gradient);
	return STATUS_OK;
}

/* Lets RUN give what is WANTED. Its chain is then one of its own. */
static enum status select_values(struct running *run, const struct chain_selection *wanted)
{
	TRY(chain_select(&run->result->owner.context, run->chain, wanted, &run->selected));
	run->chain = &run->selected;
	return STATUS_OK;
}

static enum status run_value(struct running *run, const struct ckptc_array *input)
{
	struct ckptc_result *result = run->result;
	struct run_counters counters;
	if (run->options->cotangents)
		return diag_file(result->owner.context.diags, STATUS_USAGE, NULL, -1, "'cotangents' are for ckptc_grad");
	TRY(select_values(
		run, &(struct chain_selection){.chosen = run->options->plan.of_output, .more = run->options->outputs}));
	TRY(open_run(run, input));
	TRY(open_outputs(run));
	const struct run_options options = {.job = chain_job_options(&run->options->plan, NULL, run->params.bytes),
	                                    .dtype = DTYPE_COUNT,
	                                    .value = &run->value,
	                                    .more = run->more,
	                                    .stop = run->options->stop};
	TRY(run_forward(&result->owner.context, &run->subject, &options, &counters));
	result->counters.peak_bytes = counters.peak_bytes;
	return STATUS_OK;
}

/* Reads the policy of a gradient run. */
static enum status read_policy(struct running *run)
{
	const struct context *context = &run->result->owner.context;
	TRY(chain_read_policy(context, run->chain, run->options->policy, &run->options->plan, &run->policy));
	if (run->policy.kind == POLICY_disk_revolve && !run->options->spill)
		return diag_file(context->diags, STATUS_USAGE, NULL, -1, "policy '%s' needs a directory for spill",
		                 run->policy.text);
	return STATUS_OK;
}

static enum status run_both(struct running *run, const struct ckptc_array *input)
{
	struct ckptc_result *result = run->result;
	const struct ckptc_run_options *options = run->options;
	struct memory_array cotangent = {.name = "cotangent"};
	if (options->outputs)
		return diag_file(result->owner.context.diags, STATUS_USAGE, NULL, -1,
		                 "'outputs' are for ckptc_run; 'of_output' or 'cotangents' differentiates them");
	if (options->cotangents && (options->cotangent || options->want_value))
		return diag_file(result->owner.context.diags, STATUS_USAGE, NULL, -1,
		                 options->cotangent ? "'cotangent' and 'cotangents' are both given"
		                                    : "several outputs are differentiated, so there is no one value to give");
	TRY(select_values(run,
	                  &(struct chain_selection){.chosen = options->plan.of_output, .cotangents = options->cotangents}));
	TRY(read_policy(run));
	TRY(open_run(run, input));
	if (options->cotangent)
		TRY(array_type(options->cotangent, cotangent.name, true, &cotangent.type, &result->owner.diags));
	cotangent.data = options->cotangent ? options->cotangent->data : NULL;
	struct run_options how = {.job = chain_job_options(&options->plan, &run->policy, run->params.bytes),
	                          .dtype = DTYPE_COUNT,
	                          .value = options->want_value ? &run->value : NULL};
	how.stop = options->stop;
	how.job.want_value = options->want_value;
	how.job.has_cotangent = options->cotangent;
	how.job.on_disk = options->spill;
	const struct gradient_options gradient = {.gradient = options->no_gradient ? NULL : &run->gradient,
	                                          .cotangent_array = options->cotangent ? &cotangent : NULL,
	                                          .spill = options->spill};
	const enum status status = run_gradient(&result->owner.context, &run->subject, &how, &gradient, &result->grad);
	counters_show(&result->counters, &result->grad.measured);
	if (result->grad.has_job) { /* without one there is no array, or no schedule */
		result->counters.slots = schedule_slots(result->grad.job.schedule);
		result->counters.disk_slots = schedule_disk_slots(result->grad.job.schedule);
	}
	gradient_free(&result->grad); /* the result may outlive the chain */
	return status;
}

typedef enum status run_kind(struct running *run, const struct ckptc_array *input);

static int make_result(struct ckptc_result **made, const struct running *asked, const struct ckptc_array *input,
                       run_kind *kind, struct ckptc_error *error)
{
	static const struct ckptc_run_options defaults;
	const struct allocator *allocator = &asked->chain->owner.allocator;
	const struct ckptc_allocator inherited = {allocator->resize, allocator->context};
	struct running run = *asked;
	*made = NULL;
	run.result = owner_make(&inherited, sizeof *run.result);
	if (!run.result)
		return error_set_memory(error);
	if (!run.options)
		run.options = &defaults;
	enum status status = kind(&run, input);
	if (!status && run.programs)
		status = external_finish(run.programs, &run.result->owner.diags);
	external_close(run.programs);
	params_free(&run.params);
	error_set(error, status, &run.result->owner.diags);
	if (status)
		ckptc_result_free(run.result);
	else
		*made = run.result;
	return (int)status;
}

int ckptc_run(struct ckptc_result **result, struct ckptc_chain *chain, const struct ckptc_array *input,
              const struct ckptc_run_options *options, struct ckptc_error *error)
{
	return make_result(result, &(struct running){.chain = chain, .options = options}, input, run_value, error);
}

int ckptc_grad(struct ckptc_result **result, struct ckptc_chain *chain, const struct ckptc_array *input,
               const struct ckptc_run_options *options, struct ckptc_error *error)
{
	return make_result(result, &(struct running){.chain = chain, .options = options}, input, run_both, error);
}

static int show(const struct kept_array *kept, struct ckptc_array *array)
{
	if (!kept->complete)
		return CKPTC_USAGE;
	array_show(array, &kept->type, kept->data);
	return CKPTC_OK;
}

int ckptc_result_value(const struct ckptc_result *result, struct ckptc_array *array)
{
	return show(&result->value, array);
}

int ckptc_result_output(const struct ckptc_result *result, const char *name, struct ckptc_array *array)
{
	for (size_t i = 0; name && i < result->output_count; i++)
		if (!strcmp(result->output_names[i], name))
			return show(&result->more[i], array);
	return CKPTC_USAGE;
}

int ckptc_result_gradient(const struct ckptc_result *result, struct ckptc_array *array)
{
	return show(&result->gradient, array);
}

int ckptc_result_param(const struct ckptc_result *result, const char *name, struct ckptc_array *array)
{
	for (size_t i = 0; name && i < result->grad.param_count; i++) {
		const struct param_gradient *gradient = &result->grad.params[i];
		if (!gradient->data || strcmp(result->names[i], name) != 0)
			continue;
		array_show(array, &gradient->type, gradient->data);
		return CKPTC_OK;
	}
	return CKPTC_USAGE;
}

void ckptc_result_counters(const struct ckptc_result *result, struct ckptc_counters *counters)
{
	*counters = result->counters;
}

void ckptc_result_free(struct ckptc_result *result)
{
	if (result)
		owner_free(&result->owner);
}
