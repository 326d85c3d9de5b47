/*
 * Making steps ready: each distinct step is linearised once and its five
 * programs compiled once, however often it is run.
 */
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
	body->outs = NULL;
	body->out_count = body->out_capacity = 0;
	body->arena = arena;
	for (size_t i = 0; i < step->body->out_count; i++)
		for (uint32_t k = 0; k < step->live_out_count; k++)
			if (step->live_out[k] == step->body->outs[i].index &&
			    !body_add_out(body, PORT_SLOT, step->live_out[k], step->body->outs[i].value))
				return NULL;
	return body;
}

static const struct origin *origins_of(const struct body *body, struct arena *arena)
{
	struct origin *origins = arena_array(arena, body->out_count + 1, sizeof *origins);
	for (size_t i = 0; origins && i < body->out_count; i++) {
		const struct value *value = &body->values[body->outs[i].value];
		origins[i].names = value->names;
		origins[i].param = NO_VALUE;
		if (value->from == FROM_PARAM) {
			origins[i].argument = true;
			origins[i].param = value->param.param;
		} else if (value->from == FROM_INSTR) {
			const struct instr *instr = &body->instrs[value->instr];
			origins[i].op = linear_maker(body, instr->out_keep, body->outs[i].value);
			origins[i].span = instr->span;
			origins[i].def = instr->def;
		}
	}
	return origins;
}

/*
 * By in of the backward body: a residual that is no part of a state, so that only
 * this step holds it, and only until it is reversed; and, with COTANGENTS, those.
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

static enum status compile_step(const struct context *context, struct compiled_step *code, const struct step *step,
                                const struct chain *chain, const struct policy *policy)
{
	struct arena *arena = context->arena;
	enum status status = linearise(context, &code->linear, step, chain, policy);
	if (status)
		return status;
	code->forward_body = live_body(step, arena);
	if (!code->forward_body)
		return diag_memory(context->diags);
	const bool *owned = owned_ins(&code->linear, true, arena), *residuals = owned_ins(&code->linear, false, arena);
	if (!owned || !residuals)
		return diag_memory(context->diags);
	const struct {
		struct program *program;
		const struct body *body;
		const bool *owned;
	} programs[] = {{&code->forward, code->forward_body, NULL},
	                {&code->record, code->linear.record, NULL},
	                {&code->record_only, code->linear.record_only, NULL},
	                {&code->backward, code->linear.backward, owned},
	                {&code->backward_shared, code->linear.backward, residuals}};
	for (size_t i = 0; i < sizeof programs / sizeof *programs && status == STATUS_OK; i++)
		status = program_compile(context, programs[i].program, programs[i].body, programs[i].owned);
	code->forward_origins = origins_of(code->forward_body, arena);
	code->record_origins = origins_of(code->linear.record, arena);
	if (status == STATUS_OK && (!code->forward_origins || !code->record_origins))
		status = diag_memory(context->diags);
	return status;
}

enum status compiled_make(const struct context *context, struct compiled_chain *compiled, const struct lowered *lowered,
                          const struct policy *policy)
{
	struct arena *arena = context->arena;
	*compiled =
		(struct compiled_chain){.lowered = lowered, .arena = arena, .by_value = policy && policy_by_value(policy)};
	compiled->steps = arena_array(arena, lowered->distinct_count + 1, sizeof *compiled->steps);
	if (!compiled->steps)
		return diag_memory(context->diags);
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		struct compiled_step *code = &compiled->steps[i];
		enum status status =
			compile_step(context, code, lowered->distinct[i], lowered->chain, compiled->by_value ? policy : NULL);
		if (status)
			return status;
		compiled->uses_gemm |= code->record.uses_gemm || code->backward.uses_gemm || code->forward.uses_gemm;
	}
	return STATUS_OK;
}

/* What an array takes in the slab: costs in these bytes make the verifier's peak close to the machine's. */
static int64_t held_bytes(const struct type *type) { return round_up(type_bytes(type), ARRAY_ALIGN); }

/* Bytes of the state before STEP, each class once. */
static int64_t state_bytes(const struct step *step)
{
	int64_t bytes = 0;
	for (uint32_t i = 0; i < step->live_in_count; i++)
		if (!step->alias_in[i])
			bytes += held_bytes(step->in_types[i]);
	return bytes;
}

static struct step_cost cost_of(const struct compiled_step *code)
{
	const struct linear *linear = &code->linear;
	struct step_cost cost = {.forward = linear->forward_cost,
	                         .backward = linear->backward_cost + linear->recompute_cost,
	                         .state = state_bytes(linear->step),
	                         .forward_temporary = code->forward.workspace,
	                         .record_temporary = code->record.workspace,
	                         .backward_temporary = code->backward.workspace};
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct residual *residual = &linear->residuals[i];
		bool output = false;
		/* Outs of slots come first. */
		for (size_t k = 0; k < linear->record->out_count && linear->record->outs[k].kind == PORT_SLOT; k++)
			output |= linear->record->outs[k].value == residual->value;
		cost.keeps_input |= residual->slot != NO_VALUE;
		cost.keeps_output |= output;
		if (residual->slot == NO_VALUE)
			cost.residual += held_bytes(residual->type);
	}
	return cost;
}

struct run_list {
	struct step_run *runs;
	size_t count, capacity;
	uint32_t last; /* step id of the last run */
	bool failed;
};

static void add_runs(const struct compiled_chain *compiled, const struct item *items, size_t count,
                     struct run_list *list, struct arena *arena)
{
	for (size_t i = 0; i < count && !list->failed; i++) {
		const struct item *item = &items[i];
		if (!item->step && item->count == 1 && item->items[0].step) {
			/* A loop of one step: one run. */
			struct item one = item->items[0];
			add_runs(compiled, &one, 1, list, arena);
			if (!list->failed)
				list->runs[list->count - 1].count += item->iterations - 1;
			continue;
		}
		if (!item->step) {
			for (int64_t iteration = 0; iteration < item->iterations && !list->failed; iteration++)
				add_runs(compiled, item->items, item->count, list, arena);
			continue;
		}
		if (list->count && list->last == item->step->id) {
			list->runs[list->count - 1].count++;
			continue;
		}
		struct step_run *grown = arena_grow(arena, list->runs, list->count, &list->capacity, sizeof *grown);
		if (!grown) {
			list->failed = true;
			return;
		}
		list->runs = grown;
		grown[list->count++] = (struct step_run){cost_of(&compiled->steps[item->step->id]), 1};
		list->last = item->step->id;
	}
}

/* Adds to COUNTS, by step id, how often ITEMS run it, TURNS times. */
static void count_steps(const struct item *items, size_t count, int64_t iterations, int64_t *counts)
{
	for (size_t i = 0; i < count; i++)
		if (items[i].step)
			counts[items[i].step->id] += iterations;
		else
			count_steps(items[i].items, items[i].count, iterations * items[i].iterations, counts);
}

/* A run for each distinct step, whatever their order: as many as are in memory anyway, however long a loop is. */
static void add_sums(const struct compiled_chain *compiled, struct run_list *list, struct arena *arena)
{
	const struct lowered *lowered = compiled->lowered;
	int64_t *counts = arena_array(arena, lowered->distinct_count + 1, sizeof *counts);
	list->runs = arena_array(arena, lowered->distinct_count + 1, sizeof *list->runs);
	list->failed = !counts || !list->runs;
	if (list->failed)
		return;
	memset(counts, 0, lowered->distinct_count * sizeof *counts);
	count_steps(lowered->items, lowered->item_count, 1, counts);
	for (size_t i = 0; i < lowered->distinct_count; i++)
		list->runs[list->count++] = (struct step_run){cost_of(&compiled->steps[i]), counts[i]};
}

size_t compiled_ports(const struct compiled_chain *compiled)
{
	size_t most = 0;
	for (size_t i = 0; compiled->lowered && i < compiled->lowered->distinct_count; i++) {
		const struct compiled_step *code = &compiled->steps[i];
		const struct body *bodies[] = {code->forward_body, code->linear.record, code->linear.record_only,
		                               code->linear.backward};
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
		const struct compiled_step *code = &compiled->steps[i];
		const struct program *programs[] = {&code->forward, &code->record, &code->record_only, &code->backward,
		                                    &code->backward_shared};
		for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
			widest = programs[k]->widest > widest ? programs[k]->widest : widest;
			*bytes = programs[k]->member > *bytes ? programs[k]->member : *bytes;
		}
	}
	*bytes = round_up(*bytes, ARRAY_ALIGN);
	return team_members(threads, widest, *bytes);
}

enum status compiled_costs(const struct context *context, const struct compiled_chain *compiled, bool in_order,
                           int64_t fixed, struct step_costs *costs)
{
	struct arena *arena = context->arena;
	struct run_list list = {0};
	if (in_order)
		add_runs(compiled, compiled->lowered->items, compiled->lowered->item_count, &list, arena);
	else
		add_sums(compiled, &list, arena);
	if (list.failed)
		return diag_memory(context->diags);
	*costs = (struct step_costs){
		.runs = list.runs, .run_count = list.count, .fixed = fixed, .output = held_bytes(&compiled->lowered->output)};
	for (size_t i = 0; i < list.count; i++)
		costs->steps += list.runs[i].count;
	return STATUS_OK;
}
