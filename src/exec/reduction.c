#include "exec/reduction.h"

#include <string.h>

#include "base/checked.h"
#include "base/system.h"
#include "plan/tiles.h"

const struct body *reduction_head(const struct body *body, uint32_t fold, struct arena *arena)
{
	struct body *head = arena_alloc(arena, sizeof *head);
	struct port *out = arena_alloc(arena, sizeof *out);
	if (!head || !out)
		return NULL;
	*out = (struct port){.kind = PORT_SLOT, .value = body->instrs[fold].out};
	*head = *body;
	head->instr_count = fold + 1;
	head->outs = out;
	return head;
}

/* Returns the part of BODY after instruction FOLD, with FOLD's result as its only input. NULL if out of memory. */
static struct body *cut(const struct body *body, uint32_t fold, struct arena *arena)
{
	const uint32_t first = fold + 1, result = body->instrs[fold].out;
	struct body *rest = arena_alloc(arena, sizeof *rest);
	if (!rest)
		return NULL;
	*rest = *body;
	rest->instr_count = body->instr_count - first;
	rest->instrs = arena_array(arena, rest->instr_count + 1, sizeof *rest->instrs);
	rest->values = arena_array(arena, body->value_count, sizeof *rest->values);
	rest->ins = arena_alloc(arena, sizeof *rest->ins);
	if (!rest->instrs || !rest->values || !rest->ins)
		return NULL;
	memcpy(rest->instrs, body->instrs + first, rest->instr_count * sizeof *rest->instrs);
	memcpy(rest->values, body->values, body->value_count * sizeof *rest->values);
	for (size_t i = 0; i < rest->instr_count; i++)
		if (rest->instrs[i].kind == INSTR_LOOP || rest->instrs[i].kind == INSTR_END)
			rest->instrs[i].loop.match -= first;
	for (size_t i = 0; i < rest->value_count; i++)
		if (rest->values[i].from == FROM_INSTR)
			rest->values[i].instr -= first;
	rest->ins[0] = (struct port){.kind = PORT_SLOT, .value = result};
	rest->in_count = 1;
	rest->values[result].from = FROM_PORT;
	rest->values[result].port = 0;
	return rest;
}

enum status reduction_open(const struct context *context, struct reduction *reduction, const struct lowered *lowered,
                           bool wanted, int64_t *bytes)
{
	const struct instr *fold = &lowered->whole->instrs[lowered->fold];
	*reduction = (struct reduction){
		.fold = fold, .folded = *fold->of.y, .output = lowered->output, .count = shape_count(&fold->of.y->shape)};
	reduction->output.dtype = dtype_compute(lowered->output.dtype);
	const struct body *rest = cut(lowered->whole, lowered->fold, context->arena);
	TRY_ALLOC(rest, context->diags);
	reduction->passes = rest->values[rest->outs[0].value].from == FROM_PORT;
	TRY(program_compile(context, &reduction->program, rest, NULL, NULL));
	const int64_t state = round_up(tiles_state(lowered) * (int64_t)sizeof(double), ARRAY_ALIGN);
	const int64_t result = round_up(type_bytes(&reduction->folded), ARRAY_ALIGN);
	const int64_t out = round_up(type_bytes(&reduction->output), ARRAY_ALIGN);
	const int64_t size = state + (wanted ? result + out + reduction->program.workspace : 0);
	TRY(slab_get(&reduction->slab, size, context->allocator, context->diags));
	reduction->state = (double *)(void *)reduction->slab.base;
	if (wanted) {
		reduction->result = reduction->slab.base + state;
		reduction->out = reduction->result + result;
		reduction->workspace = reduction->out + out;
	}
	*bytes += size;
	return STATUS_OK;
}

const void *reduction_finish(struct reduction *reduction, const struct bound_param *params, bool flush_denormals)
{
	static const int64_t counters[MAX_LOOPS];
	const struct instr *instr = reduction->fold;
	const struct op_call call = {.op = instr->op,
	                             .attrs = instr->attrs,
	                             .v = instr->of.v,
	                             .a = instr->of.a,
	                             .y = instr->of.y,
	                             .whole = instr->of.v->shape.dim[0],
	                             .kernels = kernels_get(instr->of.y->dtype)};
	const unsigned before = flush_begin(flush_denormals);
	fold_finish(&call, false, reduction->result, reduction->state, reduction->count);
	if (!reduction->passes) /* it calls no program, so it cannot fail: a chain with a call is whole */
		(void)evaluate(&(struct evaluation){.program = &reduction->program,
		                                    .ins = (const void *[]){reduction->result},
		                                    .outs = (void *[]){reduction->out},
		                                    .params = params,
		                                    .counters = counters,
		                                    .workspace = reduction->workspace});
	flush_end(before);
	return reduction->passes ? reduction->result : reduction->out;
}
