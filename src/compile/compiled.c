/* Linearises each distinct step once, and compiles its five programs. */
#include "compile/compiled.h"

#include "base/checked.h"

/* The forward body of STEP without the outs that nothing reads. */
static const struct body *live_body(const struct step *step, struct arena *arena)
{
	struct body *body = arena_alloc(arena, sizeof *body);
	if (!body)
		return NULL;
	*body = *step->body;
	body->arena = arena;
	return add_live_outs(body, step) ? body : NULL;
}

/*
 * By in of the backward body: nobody reads its array after the program. That holds for a
 * residual that is no part of a state, since only this step holds it and only until its
 * backward pass; and, with COTANGENTS, for cotangents.
 */
static const bool *owned_ins(const struct linear *linear, bool cotangents, struct arena *arena)
{
	const struct body *record = linear->record, *backward = linear->backward;
	bool *owned = arena_array(arena, backward->in_count + 1, sizeof *owned);
	bool *own = arena_array(arena, linear->residual_count + 1, sizeof *own); /* by residual: it is an out of its own */
	if (!owned || !own)
		return NULL;
	for (size_t k = 0; k < record->out_count; k++)
		if (record->outs[k].kind == PORT_RESIDUAL)
			own[record->outs[k].index] = true;
	for (size_t i = 0; i < backward->in_count; i++) {
		const struct port *in = &backward->ins[i];
		owned[i] = in->kind == PORT_RESIDUAL ? own[in->index] : cotangents && in->kind == PORT_COTANGENT;
	}
	return owned;
}

static enum status compile_programs(const struct context *context, struct compiled_step *compiled)
{
	const struct linear *linear = &compiled->linear;
	const bool *owned = owned_ins(linear, true, context->arena), *residuals = owned_ins(linear, false, context->arena);
	const struct {
		struct program *program;
		const struct body *body;
		const bool *owned;
	} programs[] = {{&compiled->forward, compiled->forward_body, NULL},
	                {&compiled->record, linear->record, NULL},
	                {&compiled->record_only, linear->record_only, NULL},
	                {&compiled->backward, linear->backward, owned},
	                {&compiled->backward_shared, linear->backward, residuals}};
	enum status status = owned && residuals ? STATUS_OK : diag_memory(context->diags);
	for (size_t i = 0; i < sizeof programs / sizeof *programs && status == STATUS_OK; i++)
		status = program_compile(context, programs[i].program, programs[i].body, programs[i].owned);
	return status;
}

static enum status compile_step(const struct context *context, struct compiled_step *compiled, const struct step *step,
                                const struct policy *policy)
{
	enum status status = linearise(context, &compiled->linear, step, policy);
	if (status)
		return status;
	compiled->forward_body = live_body(step, context->arena);
	if (!compiled->forward_body)
		return diag_memory(context->diags);
	status = compile_programs(context, compiled);
	if (status)
		return status;
	compiled->forward_origins = origins_of_outs(compiled->forward_body, context->arena);
	compiled->record_origins = origins_of_outs(compiled->linear.record, context->arena);
	return compiled->forward_origins && compiled->record_origins ? STATUS_OK : diag_memory(context->diags);
}

enum status compiled_make(const struct context *context, struct compiled_chain *compiled, const struct lowered *lowered,
                          const struct policy *policy)
{
	*compiled = (struct compiled_chain){
		.lowered = lowered, .arena = context->arena, .by_value = policy && policy_by_value(policy)};
	compiled->steps = arena_array(context->arena, lowered->distinct_count + 1, sizeof *compiled->steps);
	if (!compiled->steps)
		return diag_memory(context->diags);
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		struct compiled_step *step = &compiled->steps[i];
		enum status status = compile_step(context, step, lowered->distinct[i], compiled->by_value ? policy : NULL);
		if (status)
			return status;
		compiled->uses_gemm |= step->record.uses_gemm || step->backward.uses_gemm || step->forward.uses_gemm;
	}
	return STATUS_OK;
}

size_t compiled_ports(const struct compiled_chain *compiled)
{
	size_t most = 0;
	for (size_t i = 0; compiled->lowered && i < compiled->lowered->distinct_count; i++) {
		const struct compiled_step *step = &compiled->steps[i];
		const struct body *bodies[] = {step->forward_body, step->linear.record, step->linear.record_only,
		                               step->linear.backward};
		for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
			most = bodies[k]->in_count > most ? bodies[k]->in_count : most;
			most = bodies[k]->out_count > most ? bodies[k]->out_count : most;
		}
	}
	return most;
}

int compiled_team(const struct compiled_chain *compiled, int threads, int64_t *bytes)
{
	int64_t widest = 0;
	*bytes = 0;
	for (size_t i = 0; i < compiled->lowered->distinct_count; i++) {
		const struct compiled_step *step = &compiled->steps[i];
		const struct program *programs[] = {&step->forward, &step->record, &step->record_only, &step->backward,
		                                    &step->backward_shared};
		for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
			widest = programs[k]->widest > widest ? programs[k]->widest : widest;
			*bytes = programs[k]->member > *bytes ? programs[k]->member : *bytes;
		}
	}
	*bytes = round_up(*bytes, ARRAY_ALIGN);
	return team_members(threads, widest, *bytes);
}
