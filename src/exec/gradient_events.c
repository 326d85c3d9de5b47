/*
 * Which gradients are ready (--events): a line of JSON for each, in backward order.
 * A param's is whole once the backward pass has run the first step that uses it.
 * Where there are tiles none is before the last tile, and where a policy is by value
 * the backward pass is one call: there all are said at the end, in the same order.
 *
 * Invariant: each param's is said once for each array, and the input's last.
 */
#include "exec/run_parts.h"

enum { UNUSED = -1 };

/* Whether the backward pass is seen to go from step to step. */
static bool steps_seen(const struct run *run)
{
	return !run->tiles->tiled && !policy_by_value(run->gradient->job->policy);
}

static void note_use(struct run *run, const struct body *body, uint32_t value, int64_t step)
{
	if (value != NO_VALUE && body->values[value].from == FROM_PARAM)
		run->gradient->first_use[body->values[value].param.param] = step;
}

/* A step uses the params that it reads, and those that it passes as a part of the state: then others read them there. */
enum status gradient_events_open(struct run *run)
{
	if (!run->gradient->options->event)
		return STATUS_OK;
	run->gradient->first_use = arena_array(&run->arena, run->params->count + 1, sizeof *run->gradient->first_use);
	TRY_ALLOC(run->gradient->first_use, run->context.diags);
	for (size_t i = 0; i < run->params->count; i++)
		run->gradient->first_use[i] = UNUSED;
	for (int64_t s = run->whole->steps; s-- > 0;) {
		const struct body *body = lowered_step(run->whole, s, NULL)->body;
		for (size_t k = 0; k < body->instr_count; k++) {
			note_use(run, body, body->instrs[k].v, s);
			note_use(run, body, body->instrs[k].a, s);
		}
		for (size_t i = 0; i < body->out_count; i++)
			note_use(run, body, body->outs[i].value, s);
	}
	return STATUS_OK;
}

static enum status say(struct run *run, const char *name, const struct type *type, int64_t step, struct diags *diags)
{
	char text[TYPE_TEXT];
	const char *line = arena_printf(&run->arena,
	                                "{\"event\":\"gradient\",\"name\":\"%s\",\"type\":\"%s\",\"bytes\":%lld,"
	                                "\"step\":%lld,\"array\":%lld}\n",
	                                name, type_format(type, text), (long long)type_bytes(type), (long long)step,
	                                (long long)run->gradient->result->arrays);
	return line ? run->gradient->options->event(run->gradient->options->event_context, line) : diag_memory(diags);
}

/* The params whose first use is at STEP. */
static enum status say_params(struct run *run, int64_t step, struct diags *diags)
{
	for (size_t i = 0; i < run->params->count; i++) {
		const struct param *param = &run->chain->params[i];
		if (run->gradient->first_use[i] == step && param->differentiated)
			TRY(say(run, param->name, &run->params->bound[i].type, step, diags));
	}
	return STATUS_OK;
}

enum status gradient_events_step(struct run *run, int64_t step, struct diags *diags)
{
	return run->gradient->options->event && steps_seen(run) ? say_params(run, step, diags) : STATUS_OK;
}

enum status gradient_events_finish(struct run *run)
{
	struct diags *diags = run->context.diags;
	if (!run->gradient->options->event)
		return STATUS_OK;
	for (int64_t s = run->whole->steps; s-- > 0 && !steps_seen(run);)
		TRY(say_params(run, s, diags));
	TRY(say_params(run, UNUSED, diags));
	return say(run, run->chain->input, &run->input, 0, diags);
}
