/*
 * Linearises each form of a step once, and compiles its five programs. Computes the costs of steps for policies,
 * searches and the cost walk: times are in the operations' costs, bytes are those of the slab.
 * Tests: tests/unit/test_costs.c, tests/unit/test_machine.c
 */
#include "compile/compiled.h"

#include <string.h>

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

/* Returns WRITTEN, which is by param and may be NULL, by the params of STEP's body. *FAILED: out of memory. */
static const bool *written_by_step(const struct step *step, const bool *written, struct arena *arena, bool *failed)
{
	if (!written || !step->own.slots)
		return written;
	bool *own = arena_array(arena, step->body->own_params + 1, sizeof *own);
	*failed = !own;
	for (uint32_t i = 0; own && i < step->body->own_params; i++)
		own[i] = written[step->own.params[i].param];
	return own;
}

/* Compiles PROGRAM, in an arena of its own if it is for SIZES alone: then only one program is in memory at a time. */
static enum status compile_program(const struct context *context, struct program *program, const struct body *body,
                                   const bool *owned, const bool *written, bool sizes)
{
	struct arena arena;
	if (!sizes)
		return program_compile(context, program, body, owned, written);
	arena_init(&arena, context->allocator);
	const struct context own = {context->allocator, &arena, context->diags};
	const enum status status = program_compile(&own, program, body, owned, written);
	program->launches = NULL;
	program->launch_count = 0;
	program->frame = NULL;
	arena_free(&arena);
	return status;
}

/* Returns whether a walk by USES calls program I of STEP_PROGRAMS of a step, which may be the WHOLE chain. */
static bool is_called(unsigned uses, bool whole, size_t i)
{
	/*
	 * A step that is the whole chain is recorded once, and nothing else holds the cotangent of its output. The residual
	 * report wants no output.
	 */
	const bool called[STEP_PROGRAMS] = {false, uses & COMPILED_VALUE, true, true, false};
	return !(uses & COMPILED_LINEAR) && (!whole || !(uses & COMPILED_CALLED) || called[i]);
}

static enum status compile_step(const struct context *context, struct compiled_step *compiled, const struct step *step,
                                const struct policy *policy, const bool *written, unsigned uses)
{
	struct arena *arena = context->arena;
	const struct linear *linear = &compiled->linear;
	TRY(linearise(context, &compiled->linear, step, policy));
	struct body *forward = arena_alloc(arena, sizeof *forward); /* without the outs that nothing reads */
	const bool *owned = owned_ins(linear, true, arena), *residuals = owned_ins(linear, false, arena);
	TRY_ALLOC(forward && owned && residuals, context->diags);
	bool failed = false;
	written = written_by_step(step, written, arena, &failed);
	TRY_ALLOC(!failed, context->diags);
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
	for (size_t i = 0; i < STEP_PROGRAMS; i++) {
		struct program *program = &compiled->programs[i];
		if (!is_called(uses, policy != NULL, i))
			continue;
		if (program == &compiled->backward_shared && !compiled->backward.takes_cotangent)
			*program = compiled->backward; /* neither writes over a cotangent */
		else if (program == &compiled->record && compiled->forward.body &&
		         linear->record->out_count == forward->out_count)
			*program = compiled->forward; /* nothing is kept but what the state has */
		else
			TRY(compile_program(context, program, programs[i].body, programs[i].owned, written, uses & COMPILED_SIZES));
	}
	return STATUS_OK;
}

/* What a form is known by, for one step after another. */
struct form_finder {
	struct arena arena;
	struct byte_set known;
	uint64_t *key;
	size_t capacity;
	const bool *written; /* by param, or NULL */
};

/* Sets *FORM to the number of STEP's form: by its body, and by what else of STEP linearisation and compiler read. */
static bool find_form(struct form_finder *f, const struct step *step, size_t *form)
{
	const struct body *body = step->body;
	const size_t most = 1 + body->out_count + body->in_count + step->cot_read.count + body->own_params;
	size_t count = 0;
	if (most > f->capacity) {
		f->capacity = 2 * most;
		f->key = arena_array(&f->arena, f->capacity, sizeof *f->key);
		if (!f->key)
			return false;
	}
	f->key[count++] = (uint64_t)(uintptr_t)body;
	for (size_t i = 0; i < body->out_count; i++)
		f->key[count++] = has_slot(step->live_out, step_slot(step, &body->outs[i]));
	for (size_t i = 0; i < body->in_count; i++)
		f->key[count++] = has_slot(step->cot_in, step_slot(step, &body->ins[i]));
	for (uint32_t i = 0; i < step->cot_read.count; i++)
		f->key[count++] = step->cot_value[i];
	for (uint32_t i = 0; f->written && i < body->own_params; i++)
		f->key[count++] = f->written[step->own.params[i].param];
	return byte_set_keep(&f->known, f->key, count * sizeof *f->key, form);
}

/* Sets FORM_OF, by step id, and FIRST, by form: the id of its first step. Returns the number of forms; 0: no memory. */
static size_t number_forms(const struct context *context, const struct lowered *lowered, const bool *written,
                           uint32_t *form_of, uint32_t *first)
{
	struct form_finder finder = {.written = written};
	size_t count = 0, form;
	bool good = true;
	arena_init(&finder.arena, context->allocator);
	finder.known = (struct byte_set){.kept = &finder.arena, .scratch = &finder.arena};
	for (size_t i = 0; i < lowered->distinct_count && good; i++) {
		good = find_form(&finder, lowered->distinct[i], &form);
		form_of[i] = (uint32_t)form;
		if (good && form == count)
			first[count++] = (uint32_t)i;
	}
	arena_free(&finder.arena);
	return good ? count : 0;
}

static void note_program(struct compiled_chain *compiled, const struct program *program)
{
	compiled->libraries |= program->libraries;
	compiled->widest = greater(compiled->widest, program->widest);
	compiled->wave = greater(compiled->wave, program->wave);
	compiled->member = greater(compiled->member, round_up(program->member, ARRAY_ALIGN));
	compiled->ports = greater(compiled->ports, (int64_t)program->body->in_count);
	compiled->ports = greater(compiled->ports, (int64_t)program->body->out_count);
}

enum status compiled_make(const struct context *context, struct compiled_chain *compiled, const struct lowered *lowered,
                          const struct policy *policy, const bool *written, unsigned uses)
{
	struct arena *arena = context->arena;
	const size_t count = lowered->distinct_count;
	*compiled = (struct compiled_chain){.lowered = lowered, .by_value = policy && policy_by_value(policy)};
	uint32_t *form_of = arena_array(arena, count + 1, sizeof *form_of);
	uint32_t *first = arena_array(arena, count + 1, sizeof *first);
	compiled->times = arena_array(arena, count + 1, sizeof *compiled->times);
	TRY_ALLOC(form_of && first && compiled->times, context->diags);
	compiled->form_of = form_of;
	compiled->form_count = number_forms(context, lowered, written, form_of, first);
	compiled->forms = arena_array(arena, compiled->form_count + 1, sizeof *compiled->forms);
	TRY_ALLOC((compiled->form_count || !count) && compiled->forms, context->diags);
	for (size_t i = 0; i < compiled->form_count; i++) {
		struct compiled_step *form = &compiled->forms[i];
		TRY(compile_step(context, form, lowered->distinct[first[i]], compiled->by_value ? policy : NULL, written,
		                 uses));
		for (size_t k = 0; k < STEP_PROGRAMS; k++)
			if (form->programs[k].body)
				note_program(compiled, &form->programs[k]);
	}
	for (size_t i = 0; i < count; i++) {
		const struct linear *linear = &compiled->forms[form_of[i]].linear;
		compiled->times[i] = (struct step_times){.forward = linear->forward_cost,
		                                         .record = linear->record_cost,
		                                         .once = linear->once_cost,
		                                         .recompute = linear->recompute_cost,
		                                         .backward = linear->backward_cost};
	}
	return STATUS_OK;
}

/* Returns the bytes of an array in the slab, as the machine counts them. */
static int64_t slab_bytes(const struct type *type) { return round_up(type_bytes(type), ARRAY_ALIGN); }

int64_t compiled_last_temporary(const struct compiled_chain *compiled, const struct step *step,
                                const struct step_cost *cost)
{
	const struct compiled_step *form = compiled_step_of(compiled, step);
	/* The steps before the last make the state after them, but hold the residuals of one step less. */
	const int64_t made = cost->keeps_output ? 0 : cost->state;
	return greater(form->record_only.workspace - made, form->record.workspace - lesser(cost->residual, made));
}

static struct step_cost cost_of_step(const struct compiled_chain *compiled, const struct step *step)
{
	const struct compiled_step *form = compiled_step_of(compiled, step);
	const struct linear *linear = &form->linear;
	const struct body *record = linear->record;
	const struct step_times *times = &compiled->times[step->id];
	struct step_cost cost = {.state = step->bytes.slab,
	                         .forward = times->forward,
	                         .backward = times->backward + times->recompute,
	                         .record = times->record,
	                         .forward_temporary = form->forward.workspace,
	                         .record_temporary = form->record.workspace,
	                         .backward_temporary = form->backward.workspace};
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct residual *residual = &linear->residuals[i];
		/* Outs of slots come first. */
		for (size_t k = 0; k < record->out_count && record->outs[k].kind == PORT_SLOT; k++)
			cost.keeps_output |= record->outs[k].value == residual->value;
		if (!residual->in_state)
			cost.residual += slab_bytes(residual->type);
		else
			cost.keeps_input = true;
	}
	cost.last_temporary = compiled_last_temporary(compiled, step, &cost);
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
	*run = (struct step_run){cost_of_step(list->compiled, list->compiled->lowered->distinct[id]), times};
	list->last = id;
	return true;
}

/* Adds ITEMS, TIMES times in a row. If in order, TIMES is 1 unless ITEMS are one step; other loops go by iteration. */
static bool add_items(struct run_list *list, const struct item *items, size_t count, int64_t times)
{
	for (size_t k = 0; k < count; k++) {
		const struct item *item = &items[k];
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
