/*
 * Lowering walks the chain's tree with the types of the values that flow through it. It makes one body for a forward
 * run, steps for a gradient, or one unrolled step.
 * Tests: tests/unit/test_lower.c, tests/unit/test_lower_random.c
 */
#include "ir/lowering.h"

#include <string.h>

#include "ir/levels.h"

/* Begins a body that reads the input at once: as the current value, and as a named value if the chain uses its name. */
static struct body *begin_whole(struct lowering *l)
{
	struct body *body = lowering_begin_body(l);
	if (!body || lowering_read_slot(l, 0) == NO_VALUE ||
	    (l->chain->names_input && lowering_read_slot(l, 1) == NO_VALUE))
		return NULL;
	return body;
}

/* Records the output's type. If it is not streamed, and the rows never met, only params make it: no tiles. */
static void note_output(struct lowering *l)
{
	if (!l->state.slots[0].streamed && !l->streaming.meets)
		lowering_need_whole(l, (struct span){0}, "the output does not depend on the rows of the input");
	l->out->output = *l->state.slots[0].type;
	l->out->output.dtype = dtype_written(l->state.slots[0].dtype);
}

/* Makes VALUE an out of the body. Of several outs, none is an in, a param or another out. */
static enum status add_value_out(struct lowering *l, uint32_t value, uint32_t index)
{
	struct body *body = l->out->whole;
	const struct value *v = &body->values[value];
	bool copies = v->from != FROM_INSTR;
	for (size_t i = 0; i < body->out_count; i++)
		copies |= body->outs[i].value == value;
	if (l->chain->wanted_count && copies)
		TRY(lowering_apply(l, lowering_add_op(l, OP_identity, NULL, (struct span){0}), v->type, v->dtype, &value));
	body->regions[0].end = (uint32_t)body->instr_count;
	TRY_ALLOC(body_add_out(body, PORT_SLOT, index, value), l->context->diags);
	return STATUS_OK;
}

static enum status refuse_output_type(struct lowering *l, const struct chain_output *output, const struct type *type)
{
	char a[TYPE_TEXT], b[TYPE_TEXT];
	if (!output->type->given || l->rows ||
	    (shape_fits(&type->shape, &output->type->type.shape) && type->dtype == output->type->type.dtype))
		return STATUS_OK;
	return LOWERING_FAIL(l, STATUS_CHAIN, output->type->span, "output '%s' is declared as %s, and its value is %s",
	                     output->name, type_format(&output->type->type, a), type_format(type, b));
}

/* Adds the wanted outputs to the outs of the body. Tiles can make them if each has the rows of the input, or is folded. */
static enum status add_wanted(struct lowering *l)
{
	const struct chain *chain = l->chain;
	const struct body *body = l->out->whole;
	for (size_t k = 0; k < chain->wanted_count; k++) {
		const uint32_t value = l->env.now[chain->wanted[k]->variable + 1];
		if (value == NO_VALUE)
			return LOWERING_FAIL(l, STATUS_CHAIN, chain->wanted[k]->span, "output '%s' is no array",
			                     chain->wanted[k]->name);
		struct type type = *body->values[value].type;
		type.dtype = body->values[value].dtype;
		TRY(refuse_output_type(l, chain->wanted[k], &type));
		TRY(add_value_out(l, value, (uint32_t)body->out_count));
	}
	for (size_t k = 0; k < body->out_count && chain->wanted_count; k++) {
		const struct value *v = &body->values[body->outs[k].value];
		if (v->streamed && v->type->shape.dim[0] != (l->rows ? l->rows : l->whole_rows))
			lowering_need_whole(l, (struct span){0}, "an output has other rows than the input");
		else if (!v->streamed && !l->streaming.folds)
			lowering_need_whole(l, (struct span){0}, "an output does not depend on the rows of the input");
	}
	return STATUS_OK;
}

/* Lowers all stages to one body, for LOWER_RUN. */
static enum status lower_whole(struct lowering *l)
{
	struct body *body = l->out->whole = begin_whole(l);
	TRY_ALLOC(body, l->context->diags);
	l->counts_steps = lowering_counts_steps(l);
	const enum status status = lower_nodes(l, l->first);
	TRY(status == STATUS_PLACE ? STATUS_OK : status);
	TRY(lowering_check_place(l));
	if (!l->chain->last_unwanted)
		TRY(add_value_out(l, status == STATUS_PLACE ? l->way.value : l->env.now[0], 0));
	TRY(add_wanted(l));
	l->state.slots[0] = slot_of(&body->values[body->outs[0].value], 0);
	TRY_ALLOC(body_drop_carries(body), l->context->diags);
	note_output(l);
	l->out->output.dtype = body_dtype_written(body, body->outs[0].value);
	return STATUS_OK;
}

/* Lowers all stages to one unrolled step, for LOWER_UNROLLED. */
static enum status lower_unrolled(struct lowering *l)
{
	struct draft_step *draft = arena_alloc(&l->scratch, sizeof *draft);
	TRY_ALLOC(draft && begin_whole(l), l->context->diags);
	l->counts_steps = true;
	TRY(lower_nodes(l, l->first));
	TRY(lowering_check_place(l));
	lowering_write_slot(l, 0, l->env.now[0]);
	for (size_t i = 1; i < l->state.count; i++)
		l->env.written[i] = false;
	draft->span = l->first != l->end ? l->first->span : (struct span){0};
	TRY_ALLOC(lowering_end_step(l, draft), l->context->diags);
	note_output(l);
	struct draft_item item = {.draft = draft, .steps = 1}, list = {.items = &item, .count = 1, .steps = 1};
	TRY(lowering_finish_steps(l, &list));
	l->out->steps = l->steps;
	return STATUS_OK;
}

/* Lowers the stages to steps, for LOWER_STEPS. If the portion is OPENED, those of a last block are steps too. */
static enum status lower_steps(struct lowering *l)
{
	struct draft_item list = {0};
	const struct node *const end = l->end, *block = l->first;
	while (block && block->next != end)
		block = block->next;
	const bool opened = l->out->portion.opened && block && block->kind == NODE_CHECKPOINT;
	if (opened)
		l->end = block;
	TRY(lowering_draft_steps(l, l->first, &list));
	l->end = end;
	if (opened)
		TRY(lowering_draft_steps(l, block->body, &list));
	TRY(lowering_check_place(l));
	note_output(l);
	return lowering_finish_steps(l, &list);
}

/* Returns COUNT numbers, all NO_VALUE, or NULL where memory is short. */
static uint32_t *new_numbers(struct lowering *l, size_t count)
{
	uint32_t *numbers = arena_array(&l->scratch, count, sizeof *numbers);
	return numbers ? memset(numbers, 0xff, count * sizeof *numbers) : NULL;
}

static enum status init_lowering(struct lowering *l, const struct type *input)
{
	struct arena *arena = &l->scratch;
	struct environment *env = &l->env;
	lowering_find_swapped(l);
	const size_t count = l->state.count, params = l->chain->param_count, loops = l->chain->loop_count + 1;
	struct slot *slots = l->state.slots = arena_array(arena, count, sizeof *slots);
	l->state.next_same = new_numbers(l, count);
	env->now = new_numbers(l, count);
	env->port = new_numbers(l, count);
	env->touched = new_numbers(l, count);
	env->written = arena_array(arena, count, sizeof *env->written);
	env->listed = arena_array(arena, count, sizeof *env->listed);
	bool *used = arena_array(l->context->arena, 2 * params + 1, sizeof *used);
	l->names.params = arena_array(arena, loops, sizeof *l->names.params);
	l->names.elements = arena_array(arena, loops, sizeof *l->names.elements);
	l->streams = 1 + l->chain->program_count;
	l->drawn = arena_array(arena, l->streams, sizeof *l->drawn);
	TRY_ALLOC(!arena->failed && used, l->context->diags);
	l->streaming.along = used;
	l->streaming.whole = used + params;
	for (uint32_t i = 1; i < count; i++)
		slots[i].class = i;
	struct type type = *input;
	type.dtype = dtype_compute(input->dtype);
	if (l->rows)
		type.shape.dim[0] = l->rows;
	l->out->begins = type;
	const struct type *held = lowering_intern(l, &type);
	TRY_ALLOC(held, l->context->diags);
	slots[0] =
		(struct slot){held, input->dtype, input->shape.ndim > 0, !lowering_is_constant(l), false, false, false, 0};
	if (l->chain->names_input) { /* otherwise the named input is no part of the state */
		slots[1] = slots[0];
		l->state.next_same[0] = 1;
	}
	return STATUS_OK;
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

/* Finds the passes of a forward run in which rows meet in several folds. */
static enum status find_levels(struct lowering *l)
{
	struct lowered *lowered = l->out;
	if (l->what != LOWER_RUN || l->rows || lowered->because.reason || !lowered->folds || lowered->whole_rows < 2)
		return STATUS_OK;
	struct levels *levels = arena_alloc(l->context->arena, sizeof *levels);
	if (lowered->folds > MAX_FOLDS)
		lowered->because.reason = "its folds are too many for passes over the input";
	else
		TRY_ALLOC(levels && levels_find(levels, lowered->whole, l->context->arena), l->context->diags);
	if (!lowered->because.reason && levels->count > MAX_LEVELS)
		lowered->because.reason = "its folds have too many levels for passes over the input";
	for (size_t i = 0; i < lowered->whole->out_count && !lowered->because.reason; i++) {
		const uint32_t value = lowered->whole->outs[i].value;
		if (levels->rows[value] && !lowered->whole->values[value].streamed)
			lowered->because.reason = "a loop makes the output beside rows";
	}
	if (!lowered->because.reason && (levels->count > 0 || !(levels->last || lowered->neighbours)))
		lowered->levels = levels;
	lowered->whole->blocks = lowered->levels && lowered->neighbours; /* a whole array has the blocks of windows */
	return STATUS_OK;
}

/* Records which tiles the chain allows. That is known only after the walk. */
static enum status end_streaming(struct lowering *l)
{
	struct lowered *lowered = l->out;
	const struct streaming *streaming = &l->streaming;
	for (size_t i = 0; i < l->chain->param_count; i++)
		if (streaming->along[i] && streaming->whole[i])
			lowering_need_whole(l, (struct span){0}, "a param is read both by rows and whole");
	lowered->streamed_params = l->rows ? l->cut : streaming->along;
	lowered->folds = streaming->folds;
	const bool tiles = streaming->streamable && !lowered->portion.blocks;
	const bool folds = !l->rows && streaming->folds && !tiles && !streaming->because.reason;
	const bool blocks = folds || (tiles && streaming->neighbours); /* these may be an array that ranks share */
	for (size_t i = 0; blocks && i < lowered->distinct_count; i++)
		((struct body *)(uintptr_t)lowered->distinct[i]->body)->blocks = true;
	lowered->streamable = streaming->streamable;
	lowered->neighbours = streaming->neighbours;
	lowered->because = streaming->because;
	const bool reaches = l->what == LOWER_RUN && streaming->neighbours && !l->rows && !streaming->because.reason;
	TRY_ALLOC(!reaches || reach_find(l, lowered->whole, &lowered->reach), l->context->diags);
	lowered->flat = streaming->flat && streaming->streamable && !streaming->folds;
	if (lowered->whole_rows == 1 && !lowered->flat) /* one row is no tile: a team of threads shares it */
		lowered->streamable = false;
	return STATUS_OK;
}

enum status lower_typed(struct lowering *l, const struct portion *portion, const struct type *input)
{
	const bool rows = input->shape.ndim > 0;
	l->whole_rows = rows ? input->shape.dim[0] : 0;
	l->state.count = l->chain->variable_count + 1;
	l->streaming = (struct streaming){.streamable = rows, .flat = rows};
	*l->out =
		(struct lowered){.chain = l->chain, .input = *input, .slot_count = l->state.count, .whole_rows = l->whole_rows};
	find_portion(l, portion);
	if (l->way.dry)
		l->end = l->way.to->end;
	arena_init(&l->scratch, l->context->allocator);
	l->kept = (struct byte_set){.kept = l->context->arena, .scratch = &l->scratch};
	enum status status = lowering_find_way(l, portion, input);
	if (!status)
		status = init_lowering(l, input);
	if (!status)
		status = l->what == LOWER_RUN ? lower_whole(l) : l->what == LOWER_STEPS ? lower_steps(l) : lower_unrolled(l);
	l->out->conditions = l->conditions;
	if (!status)
		status = end_streaming(l);
	l->out->at = l->way.wanted;
	if (!status)
		status = find_levels(l);
	arena_free(&l->scratch);
	if (!status && l->chain->chosen && !l->out->portion.after)
		status = refuse_output_type(l, l->chain->chosen, &l->out->output);
	return status;
}

static enum status refuse_input_type(struct lowering *l, const char *name, const struct declared *declared,
                                     const struct shape *shape)
{
	char a[TYPE_TEXT], b[TYPE_TEXT];
	return LOWERING_FAIL(l, STATUS_CHAIN, declared->span, "input '%s' is declared as %s, and the data has shape %s",
	                     name, type_format(&declared->type, a), shape_format(shape, b));
}

/* True if an input that is DECLARED so streams: as `*` says or, for the first, as it does without a declaration. */
static bool declares_rows(const struct declared *declared, bool first)
{
	return declared->given ? declared->type.shape.ndim > 0 && declared->type.shape.dim[0] < 0 : first;
}

/* Checks the types of the inputs against their declarations, and that those which stream have equally many rows. */
static enum status check_inputs(struct lowering *l, const struct type *input)
{
	const struct chain *chain = l->chain;
	const struct declared *first = &chain->input_type;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	if (first->given && !shape_fits(&input->shape, &first->type.shape))
		return refuse_input_type(l, chain->input, first, &input->shape);
	for (size_t i = 0; i < chain->input_count; i++) {
		const struct param *other = &chain->params[i];
		const struct shape *shape = &other->type->shape;
		if (other->declared->given && !shape_fits(shape, &other->declared->type.shape))
			return refuse_input_type(l, other->name, other->declared, shape);
		if (!declares_rows(first, true) || !declares_rows(other->declared, false) || input->shape.ndim == 0 ||
		    shape->dim[0] == input->shape.dim[0])
			continue;
		return LOWERING_FAIL(l, STATUS_DATA, other->declared->span,
		                     "inputs that stream have equally many rows: '%s' is %s, and '%s' is %s", chain->input,
		                     type_format(input, a), other->name, type_format(other->type, b));
	}
	return STATUS_OK;
}

enum status lower(const struct context *context, struct lowered *lowered, const struct chain *chain,
                  const struct portion *portion, const struct type *input, enum lower_what what)
{
	static const struct portion all;
	struct lowering l = {.context = context, .out = lowered, .chain = chain, .what = what};
	TRY(check_inputs(&l, input));
	return lower_typed(&l, portion ? portion : &all, input);
}

/* The input of WHOLE has been checked against its declaration; that of a tile need not fit it. */
enum status lower_tile(const struct context *context, struct lowered *lowered, const struct lowered *whole,
                       const struct type *input, enum lower_what what, int64_t rows)
{
	struct lowering l = {.context = context,
	                     .out = lowered,
	                     .chain = whole->chain,
	                     .what = what,
	                     .rows = rows,
	                     .cut = whole->streamed_params,
	                     .way.wanted = whole->at};
	return lower_typed(&l, &whole->portion, input);
}

void lowered_cut_rows(struct lowered *lowered, int64_t rest)
{
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		struct body *body = (struct body *)(uintptr_t)lowered->distinct[i]->body;
		body->cut = true;
		body->rest = rest;
	}
}

/* Steps of a lowered chain. Loops are walked down, never unrolled. */

/* Returns the step or loop that holds step INDEX of ITEMS. In a loop, INDEX is that in one iteration. NULL: beyond. */
static const struct item *item_at(const struct item *items, size_t count, int64_t index)
{
	size_t i = 0;
	if ((uint64_t)index < count && items[index].start == index) /* the items before it are all steps */
		return &items[index];
	for (size_t end = count; end - i > 1;) {
		size_t middle = i + (end - i) / 2;
		if (items[middle].start <= index)
			i = middle;
		else
			end = middle;
	}
	return i < count && index < items[i].start + items[i].steps ? &items[i] : NULL;
}

/* Returns the item of step INDEX, or NULL beyond the last. COUNTERS is lowered_step's. */
static const struct item *find_item(const struct lowered *lowered, int64_t index, int64_t *counters)
{
	const struct item *items = lowered->items, *item;
	size_t count = lowered->item_count;
	while ((item = item_at(items, count, index)) && !item->step) {
		int64_t per_iteration = item->steps / item->iterations;
		index -= item->start;
		if (counters)
			counters[item->level] = item->first + index / per_iteration;
		index %= per_iteration;
		count = item->count;
		items = item->items;
	}
	return item;
}

const struct step *lowered_step(const struct lowered *lowered, int64_t index, int64_t *counters)
{
	const struct item *item = find_item(lowered, index, counters);
	return item ? item->step : NULL;
}

int64_t lowered_row(const struct lowered *lowered, int64_t index, int64_t end, uint32_t *id)
{
	const struct item *item = find_item(lowered, index, NULL);
	*id = item->step->id;
	return item->row < end - index ? item->row : end - index;
}

int64_t lowered_period(const struct lowered *lowered, int64_t index, int64_t end, int64_t iterations, int64_t *until)
{
	const struct item *items = lowered->items, *item;
	size_t count = lowered->item_count;
	int64_t before = 0; /* steps before the iteration in which the search is now */
	while ((item = item_at(items, count, index - before)) && !item->step) {
		int64_t per_iteration = item->steps / item->iterations, stop = before + item->start + item->steps;
		*until = stop < end ? stop : end;
		if ((*until - index) / per_iteration >= iterations)
			return per_iteration;
		before = index - (index - before - item->start) % per_iteration;
		count = item->count;
		items = item->items;
	}
	return 0;
}

bool because_describe(const struct because *because, const struct source *source, struct arena *arena,
                      const char **text)
{
	enum { MOST = 60 };
	const struct span *at = &because->span;
	const char *stage = source->text + at->begin;
	const int length = (int)strcspn(stage, "\r\n;}#");
	const int whole = (int)(at->end - at->begin), shown = whole < length ? whole : length;
	*text = !because->reason ? NULL
	        : at->line == 0  ? because->reason
	                         : arena_printf(arena, "%s:%u:%u: '%.*s': %s", source->name, at->line, at->column,
                                           shown < MOST ? shown : MOST, stage, because->reason);
	return !because->reason || *text;
}
