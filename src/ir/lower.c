/*
 * Lowering: the chain's tree, walked with the types of what flows through it, into
 * one body for a forward run, into steps, or into one step of all.
 */
#include "ir/lowering.h"

#include <string.h>

/* One body of everything: for a forward run, or unrolled for policies by value. */
static enum status lower_whole(struct lowering *l)
{
	struct lowered *out = l->out;
	out->whole = arena_alloc(l->context->arena, sizeof *out->whole);
	if (!out->whole)
		return lowering_memory(l);
	body_init(out->whole, l->context->arena);
	lowering_begin_body(l, out->whole);
	if (!out->whole->regions || lowering_read_slot(l, 0) == NO_VALUE ||
	    (l->chain->names_input && lowering_read_slot(l, 1) == NO_VALUE))
		return lowering_memory(l);
	enum status status = lower_nodes(l, l->first);
	if (status)
		return status;
	const struct value *value = &out->whole->values[l->now[0]];
	l->slots[0] = (struct slot){value->type, value->dtype, value->streamed, value->active, value->weak, 0};
	out->whole->regions[0].end = (uint32_t)out->whole->instr_count;
	if (!body_add_out(out->whole, PORT_SLOT, 0, l->now[0]) || !body_drop_carries(out->whole))
		return lowering_memory(l);
	return STATUS_OK;
}

/* Counts the steps of the unrolled chain as it numbers its instructions. */
static enum status lower_unrolled_nodes(struct lowering *l, const struct node *node);

static enum status lower_unrolled_loop(struct lowering *l, const struct node *node)
{
	int64_t iterations;
	struct param_ref *refs;
	enum status status = lowering_begin_loop(l, node, &refs, &iterations);
	for (int64_t iteration = 0; node->body && iteration < iterations && status == STATUS_OK; iteration++) {
		if (l->steps > MAX_STEPS || ++l->iterations > MAX_OPERATIONS)
			return lowering_too_long(l, node->span);
		if (node->kind == NODE_FOR)
			status = lowering_set_iteration(l, node, refs, (struct index){-1, iteration}, iteration);
		const size_t preludes = l->prelude_count;
		if (status == STATUS_OK)
			status = lower_unrolled_nodes(l, node->body);
		if (lowering_owes_step(l, preludes)) { /* lower_step.c has one there */
			l->preludes_bound = l->prelude_count;
			l->steps++;
		}
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
		if (is_prelude(node)) {
			status = lowering_put_off(l, node);
		} else {
			l->preludes_bound = l->prelude_count;
			l->steps++;
		}
		if (status == STATUS_OK)
			status = lower_node(l, node);
		/* as where a step ends (lower_step.c): gradients add up in one order under every policy */
		if (status == STATUS_OK && !is_prelude(node) && l->now[0] != NO_VALUE)
			status = lowering_copy_param(l, &l->now[0], node->span);
	}
	return status;
}

/* A chain whose output is made of params alone, and of no sum, has none that is cut with the input. */
static void note_output(struct lowering *l)
{
	if (!l->slots[0].streamed && l->fold == NO_VALUE)
		lowering_mix_rows(l);
}

static enum status lower_unrolled(struct lowering *l)
{
	struct lowered *out = l->out;
	struct draft_step *draft = arena_alloc(l->context->arena, sizeof *draft);
	struct body *body = arena_alloc(l->context->arena, sizeof *body);
	if (!draft || !body)
		return lowering_memory(l);
	body_init(body, l->context->arena);
	lowering_begin_body(l, body);
	if (!body->regions || lowering_read_slot(l, 0) == NO_VALUE ||
	    (l->chain->names_input && lowering_read_slot(l, 1) == NO_VALUE))
		return lowering_memory(l);
	enum status status = lower_unrolled_nodes(l, l->first);
	if (status)
		return status;
	lowering_write_slot(l, 0, l->now[0]);
	for (size_t i = 1; i < l->slot_count; i++)
		l->written[i] = false;
	draft->body = body;
	draft->span = l->first != l->end ? l->first->span : (struct span){0};
	status = lowering_end_step(l, draft);
	note_output(l);
	out->output = *l->slots[0].type;
	out->output.dtype = l->slots[0].dtype;
	struct draft_item item = {.draft = draft, .steps = 1}, list = {.items = &item, .count = 1, .steps = 1};
	if (status == STATUS_OK)
		status = lowering_finish_steps(l, &list);
	out->steps = l->steps;
	return status;
}

/* The input's type against its declaration. */
static enum status check_input(const struct chain *chain, const struct type *input, struct diags *diags)
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
	return diag_at(diags, STATUS_CHAIN, chain->source, declared->span, "input '%s' is declared %s and the data is %s",
	               chain->input, type_format(&declared->type, a), type_format(input, b));
}

static enum status init_lowering(struct lowering *l, const struct type *input)
{
	size_t n = l->slot_count, params = l->chain->param_count + 1;
	l->slots = arena_array(l->context->arena, n, sizeof *l->slots);
	l->now = arena_array(l->context->arena, n, sizeof *l->now);
	l->touched = arena_array(l->context->arena, n, sizeof *l->touched);
	l->written = arena_array(l->context->arena, n, sizeof *l->written);
	l->listed = arena_array(l->context->arena, n, sizeof *l->listed);
	l->port = arena_array(l->context->arena, n, sizeof *l->port);
	l->next_same = arena_array(l->context->arena, n, sizeof *l->next_same);
	l->value_of = arena_array(l->context->arena, n, sizeof *l->value_of);
	l->used_streamed = arena_array(l->context->arena, params, sizeof *l->used_streamed);
	l->used_whole = arena_array(l->context->arena, params, sizeof *l->used_whole);
	l->loops = arena_array(l->context->arena, l->chain->loop_count + 1, sizeof *l->loops);
	l->parts = arena_array(l->context->arena, l->chain->loop_count + 1, sizeof *l->parts);
	if (!l->slots || !l->now || !l->touched || !l->written || !l->listed || !l->port || !l->next_same || !l->value_of ||
	    !l->used_streamed || !l->used_whole || !l->loops || !l->parts)
		return lowering_memory(l);
	memset(l->now, 0xff, n * sizeof *l->now);
	memset(l->port, 0xff, n * sizeof *l->port);
	memset(l->value_of, 0xff, n * sizeof *l->value_of);
	memset(l->next_same, 0xff, n * sizeof *l->next_same);
	for (uint32_t i = 2; i < n; i++)
		l->slots[i].class = i;
	struct type type = *input;
	type.dtype = dtype_compute(input->dtype);
	if (l->rows)
		type.shape.dim[0] = l->rows;
	l->out->begins = type;
	const struct type *held = lowering_intern(l, &type);
	if (!held)
		return lowering_memory(l);
	bool streamed = input->shape.ndim > 0;
	l->slots[0] = (struct slot){held, input->dtype, streamed, true, false, 0};
	/* An input that is never an operand is not a part of the state. */
	l->slots[1] = l->chain->names_input ? l->slots[0] : (struct slot){.class = 1};
	if (l->chain->names_input)
		l->next_same[0] = 1;
	return STATUS_OK;
}

static bool is_made_after(const struct body *body, uint32_t value, uint32_t fold)
{
	const struct value *v = &body->values[value];
	return v->from == FROM_PARAM || (v->from == FROM_INSTR && v->instr >= fold);
}

/* Whether what follows instruction FOLD, and the output, read of what is before nothing but FOLD's result and params. */
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

/* The stages of the chain that PORTION is. */
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

/* What is known when all has been walked. */
static void end_lowering(struct lowering *l)
{
	struct lowered *lowered = l->out;
	if (l->what != LOWER_UNROLLED) {
		lowered->output = *l->slots[0].type;
		lowered->output.dtype = l->slots[0].dtype;
		note_output(l);
	}
	for (size_t i = 0; i < l->chain->param_count; i++)
		if (l->used_streamed[i] && l->used_whole[i])
			lowering_mix_rows(l);
	lowered->fold = l->what == LOWER_RUN && !l->mixes && is_cut(lowered->whole, l->fold) ? l->fold : NO_VALUE;
	lowered->streamed_params = l->rows ? l->cut : l->used_streamed;
	lowered->sums = lowered->sums && lowered->streamable;
	lowered->flat = lowered->flat && lowered->streamable && !lowered->sums;
	if (lowered->whole_rows == 1 && !lowered->flat) /* nothing to cut: a team shares the row */
		lowered->streamable = lowered->sums = false;
}

/* L has what is to be lowered: out, chain, what, arena, diags; rows and cut of a tile. */
static enum status lower_typed(struct lowering *l, const struct portion *portion, const struct type *input)
{
	struct lowered *lowered = l->out;
	*lowered = (struct lowered){.chain = l->chain,
	                            .arena = l->context->arena,
	                            .input = *input,
	                            .slot_count = l->chain->variable_count + 1,
	                            .whole_rows = input->shape.ndim ? input->shape.dim[0] : 0,
	                            .streamable = input->shape.ndim > 0,
	                            .flat = input->shape.ndim > 0};
	l->whole_rows = lowered->whole_rows;
	l->fold = NO_VALUE;
	l->slot_count = lowered->slot_count;
	find_portion(l, portion);
	enum status status = init_lowering(l, input);
	if (status)
		return status;
	struct draft_item list = {0};
	switch (l->what) {
	case LOWER_RUN:
		status = lower_whole(l);
		break;
	case LOWER_STEPS:
		status = lowering_draft_steps(l, l->first, &list);
		break;
	case LOWER_UNROLLED:
		status = lower_unrolled(l);
		break;
	}
	if (status)
		return status;
	end_lowering(l);
	return l->what == LOWER_STEPS ? lowering_finish_steps(l, &list) : STATUS_OK;
}

enum status lower(const struct context *context, struct lowered *lowered, const struct chain *chain,
                  const struct portion *portion, const struct type *input, enum lower_what what)
{
	static const struct portion all;
	struct lowering l = {.out = lowered, .chain = chain, .context = context, .what = what};
	enum status status = check_input(chain, input, context->diags);
	return status ? status : lower_typed(&l, portion ? portion : &all, input);
}

/* The input is not held against its declaration: the whole's was. */
enum status lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                       const struct type *input, enum lower_what what, int64_t rows)
{
	struct lowering l = {.out = lowered,
	                     .chain = whole->chain,
	                     .context = context,
	                     .what = what,
	                     .rows = rows,
	                     .cut = whole->streamed_params};
	return lower_typed(&l, &whole->portion, input);
}
