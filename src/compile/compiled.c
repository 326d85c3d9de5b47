/*
 * Linearises each distinct step once, and compiles its five programs. Computes the costs of steps for policies,
 * searches and the cost walk: times are in the operations' costs, bytes are those of the slab.
 */
#include "compile/compiled.h"

#include "base/checked.h"

/*
 * Returns, by in of the backward body, if nobody reads its array after the program. A residual that
 * is no part of the state before or after is such an in: only this step holds it, and only until its backward pass.
 * With COTANGENTS, every cotangent is one too. NULL if out of memory.
 */
static const bool *owned_ins(const struct linear *linear, bool cotangents, struct arena *arena)
{
	const struct body *record = linear->record, *backward = linear->backward;
	bool *owned = arena_array(arena, backward->in_count + 1, sizeof *owned);
	bool *own = arena_array(arena, linear->residual_count + 1, sizeof *own); /* by residual: it has its own out */
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
                                const struct policy *policy, const bool *written)
{
	struct arena *arena = context->arena;
	const struct linear *linear = &compiled->linear;
	TRY(linearise(context, &compiled->linear, step, policy));
	struct body *forward = arena_alloc(arena, sizeof *forward); /* without the outs that nothing reads */
	const bool *owned = owned_ins(linear, true, arena), *residuals = owned_ins(linear, false, arena);
	TRY_ALLOC(forward && owned && residuals, context->diags);
	*forward = *step->body;
	forward->arena = arena;
	TRY_ALLOC(add_live_outs(forward, step), context->diags);
	const struct {
		const struct body *body;
		const bool *owned;
	} programs[STEP_PROGRAMS] = {{forward, NULL},
	                             {linear->record, NULL},
	                             {linear->record_only, NULL},
	                             {linear->backward, owned},
	                             {linear->backward, residuals}};
	for (size_t i = 0; i < STEP_PROGRAMS; i++)
		TRY(program_compile(context, &compiled->programs[i], programs[i].body, programs[i].owned, written));
	return STATUS_OK;
}

enum status compiled_make(const struct context *context, struct compiled_chain *compiled, const struct lowered *lowered,
                          const struct policy *policy, const bool *written)
{
	*compiled = (struct compiled_chain){.lowered = lowered, .by_value = policy && policy_by_value(policy)};
	compiled->steps = arena_array(context->arena, lowered->distinct_count + 1, sizeof *compiled->steps);
	TRY_ALLOC(compiled->steps, context->diags);
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		struct compiled_step *step = &compiled->steps[i];
		TRY(compile_step(context, step, lowered->distinct[i], compiled->by_value ? policy : NULL, written));
		for (size_t k = 0; k < STEP_PROGRAMS; k++) {
			const struct program *program = &step->programs[k];
			compiled->uses_gemm |= program->uses_gemm;
			compiled->widest = greater(compiled->widest, program->widest);
			compiled->member = greater(compiled->member, round_up(program->member, ARRAY_ALIGN));
			compiled->ports = greater(compiled->ports, (int64_t)program->body->in_count);
			compiled->ports = greater(compiled->ports, (int64_t)program->body->out_count);
		}
	}
	return STATUS_OK;
}

/* Returns the bytes of an array in the slab, as the machine counts them. */
static int64_t slab_bytes(const struct type *type) { return round_up(type_bytes(type), ARRAY_ALIGN); }

static struct step_cost cost_of_step(const struct compiled_step *compiled)
{
	const struct linear *linear = &compiled->linear;
	const struct body *record = linear->record;
	const struct step *step = linear->step;
	struct step_cost cost = {.forward = linear->forward_cost,
	                         .backward = linear->backward_cost + linear->recompute_cost,
	                         .forward_temporary = compiled->forward.workspace,
	                         .record_temporary = compiled->record.workspace,
	                         .backward_temporary = compiled->backward.workspace};
	for (uint32_t i = 0; i < step->live_in.count; i++)
		cost.state += step->alias_in[i] ? 0 : slab_bytes(step->in_types[i]);
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct residual *residual = &linear->residuals[i];
		/* Outs of slots come first. */
		for (size_t k = 0; k < record->out_count && record->outs[k].kind == PORT_SLOT; k++)
			cost.keeps_output |= record->outs[k].value == residual->value;
		if (residual->slot == NO_VALUE)
			cost.residual += slab_bytes(residual->type);
		else
			cost.keeps_input = true;
	}
	return cost;
}

struct run_list {
	const struct compiled_chain *compiled;
	struct arena *arena;
	bool in_order; /* runs are in the chain's order; else one for each distinct step, by its id */
	struct step_run *runs;
	size_t count, capacity;
	uint32_t last; /* in order: the id of the last run's step */
};

/* Adds the step of ID, TIMES times in a row, to a run of it or as a new run. False if out of memory. */
static bool append_run(struct run_list *list, uint32_t id, int64_t times)
{
	const size_t at = !list->in_order ? id : list->count - (list->count && list->last == id);
	if (at < list->count) {
		list->runs[at].count += times;
		return true;
	}
	struct step_run *run = arena_append(list->arena, &list->runs, &list->count, &list->capacity, sizeof *run);
	if (!run)
		return false;
	*run = (struct step_run){cost_of_step(&list->compiled->steps[id]), times};
	list->last = id;
	return true;
}

/* Adds ITEMS, TIMES times in a row. If in order, TIMES is 1 unless ITEMS are one step; other loops go by iteration. */
static bool add_items(struct run_list *list, const struct item *items, size_t count, int64_t times)
{
	for (const struct item *item = items; item < items + count; item++) {
		if (item->step) {
			if (!append_run(list, item->step->id, times))
				return false;
			continue;
		}
		const bool at_once = !list->in_order || (item->count == 1 && item->items[0].step);
		for (int64_t i = 0; i < (at_once ? 1 : item->iterations); i++)
			if (!add_items(list, item->items, item->count, at_once ? times * item->iterations : 1))
				return false;
	}
	return true;
}

enum status compiled_costs(const struct context *context, const struct compiled_chain *compiled, bool in_order,
                           int64_t fixed, struct step_costs *costs)
{
	const struct lowered *lowered = compiled->lowered;
	struct run_list list = {.compiled = compiled, .arena = context->arena, .in_order = in_order};
	TRY_ALLOC(add_items(&list, lowered->items, lowered->item_count, 1), context->diags);
	*costs = (struct step_costs){
		.runs = list.runs, .run_count = list.count, .fixed = fixed, .output = slab_bytes(&lowered->output)};
	for (size_t i = 0; i < list.count; i++)
		costs->steps += list.runs[i].count;
	return STATUS_OK;
}
