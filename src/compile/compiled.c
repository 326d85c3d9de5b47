/* Linearises each distinct step once, and compiles its five programs. */
#include "compile/compiled.h"

#include <string.h>

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

static enum status compile_step(const struct context *context, struct compiled_step *compiled, const struct step *step,
                                const struct policy *policy)
{
	struct arena *arena = context->arena;
	const struct linear *linear = &compiled->linear;
	enum status status = linearise(context, &compiled->linear, step, policy);
	if (status)
		return status;
	const struct body *forward = live_body(step, arena);
	const bool *owned = owned_ins(linear, true, arena), *residuals = owned_ins(linear, false, arena);
	TRY_ALLOC(forward && owned && residuals, context->diags);
	const struct {
		struct program *program;
		const struct body *body;
		const bool *owned;
	} programs[] = {{&compiled->forward, forward, NULL},
	                {&compiled->record, linear->record, NULL},
	                {&compiled->record_only, linear->record_only, NULL},
	                {&compiled->backward, linear->backward, owned},
	                {&compiled->backward_shared, linear->backward, residuals}};
	for (size_t i = 0; i < sizeof programs / sizeof *programs && status == STATUS_OK; i++)
		status = program_compile(context, programs[i].program, programs[i].body, programs[i].owned);
	compiled->forward_origins = origins_of_outs(forward, arena);
	compiled->record_origins = origins_of_outs(linear->record, arena);
	return status || !arena->failed ? status : diag_memory(context->diags);
}

enum status compiled_make(const struct context *context, struct compiled_chain *compiled, const struct lowered *lowered,
                          const struct policy *policy)
{
	*compiled = (struct compiled_chain){.lowered = lowered, .by_value = policy && policy_by_value(policy)};
	compiled->steps = arena_array(context->arena, lowered->distinct_count + 1, sizeof *compiled->steps);
	TRY_ALLOC(compiled->steps, context->diags);
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		struct compiled_step *step = &compiled->steps[i];
		TRY(compile_step(context, step, lowered->distinct[i], compiled->by_value ? policy : NULL));
		compiled->uses_gemm |= step->record.uses_gemm || step->backward.uses_gemm || step->forward.uses_gemm;
	}
	return STATUS_OK;
}

enum { PROGRAMS = 5 };

static void list_programs(const struct compiled_step *step, const struct program *programs[PROGRAMS])
{
	const struct program *all[] = {&step->forward, &step->record, &step->record_only, &step->backward,
	                               &step->backward_shared};
	memcpy(programs, all, sizeof all);
}

size_t compiled_ports(const struct compiled_chain *compiled)
{
	const struct program *programs[PROGRAMS];
	size_t most = 0;
	for (size_t i = 0; compiled->lowered && i < compiled->lowered->distinct_count; i++) {
		list_programs(&compiled->steps[i], programs);
		for (size_t k = 0; k < PROGRAMS; k++) {
			const struct body *body = programs[k]->body;
			most = body->in_count > most ? body->in_count : most;
			most = body->out_count > most ? body->out_count : most;
		}
	}
	return most;
}

int compiled_team(const struct compiled_chain *compiled, int threads, int64_t *bytes)
{
	const struct program *programs[PROGRAMS];
	int64_t widest = 0;
	*bytes = 0;
	for (size_t i = 0; i < compiled->lowered->distinct_count; i++) {
		list_programs(&compiled->steps[i], programs);
		for (size_t k = 0; k < PROGRAMS; k++) {
			widest = programs[k]->widest > widest ? programs[k]->widest : widest;
			*bytes = programs[k]->member > *bytes ? programs[k]->member : *bytes;
		}
	}
	*bytes = round_up(*bytes, ARRAY_ALIGN);
	return team_members(threads, widest, *bytes);
}
