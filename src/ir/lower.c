/*
 * Lowering walks the chain's tree with the types of what flows through it. It makes one body for a forward run, steps
 * for a gradient, or one step of everything.
 */
#include "ir/lowering.h"

#include <string.h>

/* Begins a body that reads the input at once: as the current value, and as a name if the chain uses that. */
static struct body *begin_whole(struct lowering *l)
{
	struct body *body = lowering_begin_body(l);
	if (!body || lowering_read_slot(l, 0) == NO_VALUE ||
	    (l->chain->names_input && lowering_read_slot(l, 1) == NO_VALUE))
		return NULL;
	return body;
}

/* LOWER_RUN. */
static enum status lower_whole(struct lowering *l)
{
	struct body *body = l->out->whole = begin_whole(l);
	TRY_ALLOC(body, l->context->diags);
	TRY(lower_nodes(l, l->first));
	const struct value *value = &body->values[l->env.now[0]];
	l->state.slots[0] = (struct slot){value->type, value->dtype, value->streamed, value->active, value->weak, 0};
	body->regions[0].end = (uint32_t)body->instr_count;
	TRY_ALLOC(body_add_out(body, PORT_SLOT, 0, l->env.now[0]) && body_drop_carries(body), l->context->diags);
	return STATUS_OK;
}

/* LOWER_UNROLLED. Steps are counted where lower_step.c would begin one, and number the instructions. */

static enum status lower_unrolled_nodes(struct lowering *l, const struct node *node);

static void count_step(struct lowering *l)
{
	l->preludes.bound = l->preludes.count;
	l->steps++;
}

static enum status lower_unrolled_loop(struct lowering *l, const struct node *node)
{
	int64_t iterations;
	struct param_ref *params;
	enum status status = lowering_begin_loop(l, node, &params, &iterations);
	for (int64_t i = 0; node->body && i < iterations && status == STATUS_OK; i++) {
		if (l->steps > MAX_STEPS || ++l->iterations > MAX_OPERATIONS)
			return lowering_too_long(l, node->span);
		if (node->kind == NODE_FOR)
			status = lowering_set_iteration(l, node, params, -1, i);
		const size_t preludes = l->preludes.count;
		if (status == STATUS_OK)
			status = lower_unrolled_nodes(l, node->body);
		if (lowering_owes_step(l, preludes))
			count_step(l);
	}
	return status;
}

static enum status lower_unrolled_nodes(struct lowering *l, const struct node *node)
{
	enum status status = STATUS_OK;
	for (; node && node != l->end && status == STATUS_OK; node = node->next) {
		if (node->kind == NODE_REPEAT || node->kind == NODE_FOR) {
			status = lower_unrolled_loop(l, node);
			continue;
		}
		l->step = l->steps;
		if (is_prelude(node))
			status = lowering_defer(l, node);
		else
			count_step(l);
		if (status == STATUS_OK)
			status = lower_node(l, node);
		/* As where a step ends: so gradients are added in one order under every policy. */
		if (status == STATUS_OK && !is_prelude(node) && l->env.now[0] != NO_VALUE)
			status = lowering_copy_param(l, &l->env.now[0], node->span);
	}
	return status;
}

/* A chain whose output is made of params alone has nothing to cut, unless it ends in a SUM or FOLD. */
static void note_output(struct lowering *l)
{
	if (!l->state.slots[0].streamed && l->streaming.fold == NO_VALUE)
		lowering_mix_rows(l);
	l->out->output = *l->state.slots[0].type;
	l->out->output.dtype = l->state.slots[0].dtype;
}

static enum status lower_unrolled(struct lowering *l)
{
	struct draft_step *draft = arena_alloc(l->context->arena, sizeof *draft);
	TRY_ALLOC(draft && begin_whole(l), l->context->diags);
	TRY(lower_unrolled_nodes(l, l->first));
	lowering_write_slot(l, 0, l->env.now[0]);
	for (size_t i = 1; i < l->state.count; i++)
		l->env.written[i] = false;
	draft->span = l->first != l->end ? l->first->span : (struct span){0};
	enum status status = lowering_end_step(l, draft);
	note_output(l);
	struct draft_item item = {.draft = draft, .steps = 1}, list = {.items = &item, .count = 1, .steps = 1};
	if (status == STATUS_OK)
		status = lowering_finish_steps(l, &list);
	l->out->steps = l->steps;
	return status;
}

/* Drafts all steps; those of a block that ends the chain one by one if the portion has it opened. */
static enum status draft_chain(struct lowering *l, struct draft_item *list)
{
	const struct node *const end = l->end, *block = l->first;
	while (block && block->next != end)
		block = block->next;
	if (!l->out->portion.opened || !block || block->kind != NODE_CHECKPOINT)
		return lowering_draft_steps(l, l->first, list);
	l->end = block;
	enum status status = lowering_draft_steps(l, l->first, list);
	l->end = end;
	return status ? status : lowering_draft_steps(l, block->body, list);
}

/* LOWER_STEPS. */
static enum status lower_steps(struct lowering *l)
{
	struct draft_item list = {0};
	TRY(draft_chain(l, &list));
	note_output(l);
	return lowering_finish_steps(l, &list);
}

/* The input's type against its declaration. */
static enum status check_input(const struct context *context, const struct chain *chain, const struct type *input)
{
	const struct declared *declared = &chain->input_type;
	if (!declared->given)
		return STATUS_OK;
	const struct shape *want = &declared->type.shape, *have = &input->shape;
	bool fits = want->ndim == have->ndim;
	for (int i = 0; fits && i < want->ndim; i++)
		fits = want->dim[i] == -1 || want->dim[i] == have->dim[i];
	char a[TYPE_TEXT], b[TYPE_TEXT];
	if (fits)
		return STATUS_OK;
	return diag_at(context->diags, STATUS_CHAIN, chain->source, declared->span,
	               "input '%s' is declared as %s, and the data is %s", chain->input, type_format(&declared->type, a),
	               type_format(input, b));
}

/* COUNT numbers that are all NO_VALUE. */
static uint32_t *new_numbers(struct lowering *l, size_t count)
{
	uint32_t *numbers = arena_array(l->context->arena, count, sizeof *numbers);
	return numbers ? memset(numbers, 0xff, count * sizeof *numbers) : NULL;
}

static bool new_arrays(struct lowering *l)
{
	struct arena *arena = l->context->arena;
	struct state *state = &l->state;
	struct environment *env = &l->env;
	struct streaming *streaming = &l->streaming;
	struct names *names = &l->names;
	const size_t params = l->chain->param_count + 1, loops = l->chain->loop_count + 1;
	state->slots = arena_array(arena, state->count, sizeof *state->slots);
	state->next_same = new_numbers(l, state->count);
	state->work = new_numbers(l, state->count);
	env->now = new_numbers(l, state->count);
	env->port = new_numbers(l, state->count);
	env->touched = new_numbers(l, state->count);
	env->written = arena_array(arena, state->count, sizeof *env->written);
	env->listed = arena_array(arena, state->count, sizeof *env->listed);
	streaming->along = arena_array(arena, params, sizeof *streaming->along);
	streaming->whole = arena_array(arena, params, sizeof *streaming->whole);
	names->params = arena_array(arena, loops, sizeof *names->params);
	names->elements = arena_array(arena, loops, sizeof *names->elements);
	return state->slots && state->next_same && state->work && env->now && env->port && env->touched && env->written &&
	       env->listed && streaming->along && streaming->whole && names->params && names->elements;
}

static enum status init_lowering(struct lowering *l, const struct type *input)
{
	TRY_ALLOC(new_arrays(l), l->context->diags);
	struct slot *slots = l->state.slots;
	for (uint32_t i = 1; i < l->state.count; i++)
		slots[i].class = i;
	struct type type = *input;
	type.dtype = dtype_compute(input->dtype);
	if (l->rows)
		type.shape.dim[0] = l->rows;
	l->out->begins = type;
	const struct type *held = lowering_intern(l, &type);
	TRY_ALLOC(held, l->context->diags);
	slots[0] = (struct slot){held, input->dtype, input->shape.ndim > 0, true, false, 0};
	if (l->chain->names_input) { /* otherwise the input is no part of the state */
		slots[1] = slots[0];
		l->state.next_same[0] = 1;
	}
	return STATUS_OK;
}

static bool is_made_after(const struct body *body, uint32_t value, uint32_t fold)
{
	const struct value *v = &body->values[value];
	return v->from == FROM_PARAM || (v->from == FROM_INSTR && v->instr >= fold);
}

/* True if the instructions after FOLD, and the output, read only its result and params. */
static bool is_cut(const struct body *body, uint32_t fold)
{
	bool cut = fold != NO_VALUE && is_made_after(body, body->outs[0].value, fold);
	for (size_t i = cut ? fold + 1 : body->instr_count; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t reads[6];
		const size_t count = instr_reads(instr, reads);
		for (size_t k = 0; k < count; k++)
			cut &= is_made_after(body, reads[k], fold);
		for (uint32_t k = 0; k < instr->loop.carry_count; k++)
			cut &= is_made_after(body, instr->loop.carries[k].init, fold);
	}
	return cut;
}

/* Sets l->first and l->end to the stages of PORTION. */
static void find_portion(struct lowering *l, const struct portion *portion)
{
	size_t count = 0;
	for (const struct node *node = l->chain->first; node; node = node->next)
		count++;
	l->out->portion = *portion;
	l->first = l->chain->first;
	for (size_t i = 0; i < portion->before && l->first; i++)
		l->first = l->first->next;
	l->end = l->first;
	for (size_t i = portion->before; i + portion->after < count; i++)
		l->end = l->end->next;
}

/* What tiles the chain allows is known when all of it has been walked. */
static void end_streaming(struct lowering *l)
{
	struct lowered *lowered = l->out;
	const struct streaming *streaming = &l->streaming;
	for (size_t i = 0; i < l->chain->param_count; i++)
		if (streaming->along[i] && streaming->whole[i])
			lowering_mix_rows(l);
	const bool cut = l->what == LOWER_RUN && !streaming->mixes && is_cut(lowered->whole, streaming->fold);
	lowered->fold = cut ? streaming->fold : NO_VALUE;
	lowered->streamed_params = l->rows ? l->cut : streaming->along;
	lowered->streamable = streaming->streamable;
	lowered->sums = streaming->sums && streaming->streamable;
	lowered->flat = streaming->flat && streaming->streamable && !streaming->sums;
	if (lowered->whole_rows == 1 && !lowered->flat) /* one row is no tile: a team of threads shares it */
		lowered->streamable = lowered->sums = false;
}

/* Lowers PORTION for L, which has its context, out, chain and what, and of a tile rows and cut. */
static enum status lower_typed(struct lowering *l, const struct portion *portion, const struct type *input)
{
	const bool rows = input->shape.ndim > 0;
	l->whole_rows = rows ? input->shape.dim[0] : 0;
	l->state.count = l->chain->variable_count + 1;
	l->streaming = (struct streaming){.streamable = rows, .flat = rows, .fold = NO_VALUE};
	*l->out =
		(struct lowered){.chain = l->chain, .input = *input, .slot_count = l->state.count, .whole_rows = l->whole_rows};
	find_portion(l, portion);
	enum status status = init_lowering(l, input);
	if (status)
		return status;
	if (l->what == LOWER_RUN) {
		status = lower_whole(l);
		if (status == STATUS_OK)
			note_output(l);
	} else {
		status = l->what == LOWER_STEPS ? lower_steps(l) : lower_unrolled(l);
	}
	if (status == STATUS_OK)
		end_streaming(l);
	return status;
}

enum status lower(const struct context *context, struct lowered *lowered, const struct chain *chain,
                  const struct portion *portion, const struct type *input, enum lower_what what)
{
	static const struct portion all;
	struct lowering l = {.context = context, .out = lowered, .chain = chain, .what = what};
	enum status status = check_input(context, chain, input);
	return status ? status : lower_typed(&l, portion ? portion : &all, input);
}

/* The whole's input was held against its declaration; a tile's need not be. */
enum status lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                       const struct type *input, enum lower_what what, int64_t rows)
{
	struct lowering l = {.context = context,
	                     .out = lowered,
	                     .chain = whole->chain,
	                     .what = what,
	                     .rows = rows,
	                     .cut = whole->streamed_params};
	return lower_typed(&l, &whole->portion, input);
}
