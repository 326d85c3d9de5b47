#include "exec/after_reduction.h"

#include <string.h>

#include "base/checked.h"
#include "base/flush.h"
#include "exec/evaluate.h"
#include "exec/slab.h"
#include "plan/tiles.h"

/* All but the program. */
static void find(struct after_reduction *after, const struct lowered *lowered)
{
	*after = (struct after_reduction){.fold = &lowered->whole->instrs[lowered->fold], .output = lowered->output};
	after->output.dtype = dtype_compute(lowered->output.dtype);
	after->folded = *after->fold->of.y;
	after->count = shape_count(&after->folded.shape);
	after->size = tiles_state(lowered);
}

const struct body *after_head(const struct body *body, uint32_t fold, struct arena *arena)
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

/* The part of BODY after instruction FOLD, whose result is its input. */
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
		rest->instrs[i].loop.match -= first;
	for (size_t i = 0; i < rest->value_count; i++)
		rest->values[i].instr -= first;
	rest->ins[0] = (struct port){.kind = PORT_SLOT, .value = result};
	rest->in_count = 1;
	rest->values[result].from = FROM_PORT;
	rest->values[result].port = 0;
	return rest;
}

enum status after_compile(struct after_reduction *after, const struct lowered *lowered, struct arena *arena,
                          struct diags *diags)
{
	find(after, lowered);
	const struct body *rest = cut(lowered->whole, lowered->fold, arena);
	if (!rest)
		return diag_memory(diags);
	after->passes = rest->values[rest->outs[0].value].from == FROM_PORT;
	return program_compile(&(struct context){arena->allocator, arena, diags}, &after->program, rest, NULL);
}

static int64_t result_bytes(const struct after_reduction *after)
{
	return round_up(type_bytes(&after->folded), ARRAY_ALIGN);
}

int64_t after_bytes(const struct after_reduction *after)
{
	return result_bytes(after) + round_up(type_bytes(&after->output), ARRAY_ALIGN) + after->program.workspace;
}

const void *after_run(const struct after_reduction *after, const double *state, int64_t whole_rows,
                      const struct bound_param *params, bool flush_denormals, void *memory)
{
	static const int64_t counters[MAX_LOOPS];
	const struct instr *instr = after->fold;
	const struct op_call call = {.op = instr->op,
	                             .attrs = instr->attrs,
	                             .v = instr->of.v,
	                             .a = instr->of.a,
	                             .y = instr->of.y,
	                             .whole = whole_rows,
	                             .kernels = kernels_get(instr->of.y->dtype)};
	char *result = memory, *out = result + result_bytes(after);
	const unsigned before = flush_begin(flush_denormals);
	fold_finish(&call, result, state, after->count);
	if (!after->passes)
		evaluate(&(struct evaluation){.program = &after->program,
		                              .ins = (const void *[]){result},
		                              .outs = (void *[]){out},
		                              .params = params,
		                              .counters = counters,
		                              .workspace = out + round_up(type_bytes(&after->output), ARRAY_ALIGN),
		                              .whole_rows = 1});
	flush_end(before);
	return after->passes ? result : out;
}
