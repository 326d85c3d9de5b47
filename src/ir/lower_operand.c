/*
 * Finds what operands refer to, and what the variables of a `for` are in each iteration.
 *
 * A part of a param is a reference: the param and its indices. A part of a computed value is a slice and a reshape in
 * the body. So a loop over a computed array is a loop of slices, which move with its counter. Their derivatives add
 * to the array's cotangent where it lies (reverse_general in compile/backward.c).
 * Tests: tests/unit/test_lower.c
 */
#include "ir/lowering.h"

#include <math.h>
#include <string.h>

/* Makes a negative *INDEX, counted from the end of EXTENT, one from the beginning. False if it is out of range. */
static bool from_begin(int64_t *index, int64_t extent)
{
	if (*index >= extent || *index < -extent)
		return false;
	*index += *index < 0 ? extent : 0;
	return true;
}

/* Reports that INDEX is out of range for the array NAME (NULL: an array without a name), of TYPE. */
static enum status out_of_range(struct lowering *l, int64_t index, const char *name, const struct type *type,
                                struct span span)
{
	char text[TYPE_TEXT];
	return LOWERING_FAIL(l, STATUS_CHAIN, span, "index %lld is out of range for %s%s%s%s", (long long)index,
	                     name ? "'" : "", name ? name : "", name ? "', " : "", type_format(type, text));
}

/* Indexes FOUND, a param, along its leading axis. That needs all rows of the param, so no tile may cut it. */
static enum status take_index(struct lowering *l, struct found *found, struct index index, struct span span)
{
	struct param_ref *param = &found->param;
	const struct type type = lowering_param_type(l, param);
	const char *name = l->chain->params[param->param].name;
	if (type.shape.ndim == 0)
		return LOWERING_FAIL(l, STATUS_CHAIN, span, "'%s' is a scalar and has no elements", name);
	if (index.loop < 0 && !from_begin(&index.value, type.shape.dim[0]))
		return out_of_range(l, index.value, name, &type, span);
	struct index *grown = arena_array(l->context->arena, param->count + 1, sizeof *grown);
	TRY_ALLOC(grown, l->context->diags);
	if (param->count)
		memcpy(grown, param->index, param->count * sizeof *grown);
	grown[param->count++] = index;
	param->index = grown;
	l->streaming.whole[param->param] = true; /* even if nothing reads this part */
	return STATUS_OK;
}

/* Replaces FOUND, a value, by its row ELEMENT, plus the counter of the loop at LEVEL if LEVEL is not -1. */
static enum status take_element(struct lowering *l, struct found *found, int64_t element, int32_t level,
                                struct span span)
{
	const struct value array = l->body->values[found->value];
	const struct type *type = array.type;
	if (type->shape.ndim == 0 || !from_begin(&element, type->shape.dim[0]))
		return out_of_range(l, element, NULL, type, span);
	struct attrs *slice = arena_alloc(l->context->arena, sizeof *slice);
	struct attrs *reshape = arena_alloc(l->context->arena, sizeof *reshape);
	TRY_ALLOC(slice && reshape, l->context->diags);
	attrs_default(slice, OP_slice);
	attrs_default(reshape, OP_reshape);
	slice->start = (struct slice_bound){true, element};
	slice->stop = (struct slice_bound){true, element + 1};
	struct type row = *type, rest = *type;
	row.shape.dim[0] = 1;
	shape_drop_leading(&rest.shape);
	reshape->shape = rest.shape;
	if (array.streamed)
		lowering_need_whole(l, span, "it reads one row");
	l->streaming.streamable = false;
	TRY(lowering_apply(l, lowering_add_op(l, OP_slice, slice, span), &row, array.dtype, &found->value));
	l->body->instrs[l->body->instr_count - 1].level = level;
	TRY(lowering_apply(l, lowering_add_op(l, OP_reshape, reshape, span), &rest, array.dtype, &found->value));
	struct value *part = &l->body->values[found->value];
	part->streamed = part->weak = false;
	return STATUS_OK;
}

/* Finds what the `for` variable REF is in this iteration. */
static enum status find_for_variable(struct lowering *l, const struct ref *ref, struct found *found)
{
	const struct for_element *element = &l->names.elements[ref->index];
	if (!element->ref) {
		*found = (struct found){.kind = FOUND_PARAM, .param = l->names.params[ref->index]};
		return STATUS_OK;
	}
	const struct frame *frame = l->names.frame;
	l->names.frame = element->frame;
	enum status status = lowering_find_ref(l, element->ref, found);
	l->names.frame = frame;
	return status ? status : take_element(l, found, element->iteration, element->level, element->ref->span);
}

static enum status has_no_value(struct lowering *l, const struct ref *ref)
{
	return LOWERING_FAIL(l, STATUS_CHAIN, ref->span, "'%s' has no value yet here", l->chain->variables[ref->index]);
}

static bool is_unset(const struct lowering *l, const struct ref *ref)
{
	return ref->kind == REF_VARIABLE && l->env.now[ref->index + 1] == NO_VALUE && !l->state.slots[ref->index + 1].type;
}

/* Lowers TERM as an operand: if it sums over rows, no tile has the sum. */
static enum status find_term(struct lowering *l, const struct term *term, struct found *found)
{
	const uint32_t folds = l->streaming.folds;
	TRY(lowering_term(l, term, found));
	if (l->streaming.folds != folds)
		l->streaming.streamable = false;
	return STATUS_OK;
}

/* Finds what REF refers to, without its index. */
static enum status find_referent(struct lowering *l, const struct ref *ref, struct found *found)
{
	switch (ref->kind) {
	case REF_NONE:
		*found = (struct found){.kind = FOUND_NONE};
		return STATUS_OK;
	case REF_NUMBER:
		*found = (struct found){.kind = FOUND_NUMBER, .number = ref->number};
		return STATUS_OK;
	case REF_BLOCK:
		*found = (struct found){.kind = FOUND_BLOCK, .block = ref->block, .frame = l->names.frame};
		return STATUS_OK;
	case REF_PARAM:
		*found = (struct found){.kind = FOUND_PARAM, .param.param = ref->index};
		return STATUS_OK;
	case REF_LOOP:
		return find_for_variable(l, ref, found);
	case REF_COUNTER: {
		const struct for_element *at = &l->names.elements[ref->index];
		*found =
			(struct found){.kind = FOUND_COUNTER, .counter = {at->level, at->iteration}, .iterations = at->iterations};
		return STATUS_OK;
	}
	case REF_VARIABLE:
		if (is_unset(l, ref))
			return has_no_value(l, ref);
		*found = (struct found){.kind = FOUND_VALUE, .value = lowering_read_slot(l, ref->index + 1)};
		TRY_ALLOC(found->value != NO_VALUE, l->context->diags);
		return STATUS_OK;
	case REF_ARGUMENT:
		*found = l->names.frame->arguments[ref->index];
		break;
	case REF_CURRENT:
		*found = (struct found){.kind = FOUND_VALUE, .value = lowering_read_slot(l, 0)};
		TRY_ALLOC(found->value != NO_VALUE, l->context->diags);
		return STATUS_OK;
	case REF_HELD:
		*found = ref->index ? l->held_other : l->held_operand;
		return STATUS_OK;
	case REF_TERM:
		return find_term(l, ref->term, found);
	}
	return STATUS_OK;
}

/* Returns the type of FOUND, an array; NULL if it is none. */
static const struct type *type_of_found(struct lowering *l, const struct found *found, struct type *type)
{
	if (found->kind != FOUND_VALUE && found->kind != FOUND_PARAM)
		return NULL;
	*type = found->kind == FOUND_VALUE ? *l->body->values[found->value].type : lowering_param_type(l, &found->param);
	return type;
}

enum status lowering_check_counter(struct lowering *l, const struct ref *ref, const struct found *counter,
                                   int64_t extent, const struct type *type)
{
	char text[TYPE_TEXT];
	if (counter->iterations <= extent)
		return STATUS_OK;
	return LOWERING_FAIL(l, STATUS_CHAIN, ref->span, "'%.*s' goes to %lld, and %s has %lld parts",
	                     (int)(ref->span.end - ref->span.begin), l->chain->source->text + ref->span.begin,
	                     (long long)counter->iterations - 1, type_format(type, text), (long long)extent);
}

/* Replaces FOUND, what REF refers to, by its part at the number that the name in REF's brackets is. */
static enum status find_indexed(struct lowering *l, const struct ref *ref, struct found *found)
{
	struct found by;
	struct type type;
	const char *source = l->chain->source->text + ref->by->span.begin;
	const int length = (int)(ref->by->span.end - ref->by->span.begin);
	TRY(find_referent(l, ref->by, &by));
	const bool whole = by.kind == FOUND_NUMBER && by.number == floor(by.number) && fabs(by.number) < 0x1p53;
	if (by.kind != FOUND_COUNTER && !whole)
		return LOWERING_FAIL(l, STATUS_CHAIN, ref->by->span, "an index is an integer, and '%.*s' is none in this call",
		                     length, source);
	if (!type_of_found(l, found, &type))
		return LOWERING_FAIL(l, STATUS_CHAIN, ref->span, "only arrays have elements");
	if (by.kind == FOUND_COUNTER && type.shape.ndim > 0)
		TRY(lowering_check_counter(l, ref->by, &by, type.shape.dim[0], &type));
	const struct index index = by.kind == FOUND_COUNTER ? by.counter : (struct index){-1, (int64_t)by.number};
	return found->kind == FOUND_PARAM ? take_index(l, found, index, ref->span)
	                                  : take_element(l, found, index.value, index.loop, ref->span);
}

enum status lowering_find_ref(struct lowering *l, const struct ref *ref, struct found *found)
{
	TRY(find_referent(l, ref, found));
	const bool param = l->numeric && found->kind == FOUND_PARAM && found->param.count == 0;
	if (param && l->chain->params[found->param.param].is_number)
		*found = (struct found){.kind = FOUND_NUMBER, .number = l->chain->params[found->param.param].number};
	if (ref->by_name)
		return find_indexed(l, ref, found);
	if (!ref_has_element(ref))
		return STATUS_OK;
	if (found->kind == FOUND_PARAM)
		return take_index(l, found, (struct index){-1, ref->element}, ref->span);
	if (found->kind == FOUND_VALUE)
		return take_element(l, found, ref->element, -1, ref->span);
	return LOWERING_FAIL(l, STATUS_CHAIN, ref->span, "only arrays have elements");
}

enum status lowering_find_optional(struct lowering *l, const struct ref *ref, struct found *found)
{
	*found = (struct found){.kind = FOUND_NONE};
	return is_unset(l, ref) ? STATUS_OK : lowering_find_ref(l, ref, found);
}

/*
 * Finds the TYPE of the array that a `for` runs over: that of REF, a name without index. Adds nothing to the body, as
 * that of the `for` may not have begun. OVER is the array if it is a param; else its kind is FOUND_VALUE.
 */
static enum status type_over(struct lowering *l, const struct ref *ref, struct found *over, struct type *type)
{
	*over = (struct found){.kind = FOUND_VALUE};
	if (ref->kind == REF_VARIABLE) {
		const struct preludes *preludes = &l->preludes;
		const uint32_t slot = ref->index + 1, now = l->env.now[slot];
		struct found before;
		for (size_t i = preludes->count; i-- > preludes->bound;) /* an unbound prelude may be about to bind it */
			if (preludes->nodes[i]->variable == ref->index)
				return type_over(l, &preludes->nodes[i]->operand, &before, type);
		const struct type *known = now != NO_VALUE ? l->body->values[now].type : l->state.slots[slot].type;
		if (!known)
			return has_no_value(l, ref);
		*type = *known;
		return STATUS_OK;
	}
	if (ref->kind == REF_LOOP && l->names.elements[ref->index].ref) {
		const struct for_element *element = &l->names.elements[ref->index];
		const struct frame *frame = l->names.frame;
		l->names.frame = element->frame;
		TRY(type_over(l, element->ref, over, type));
		l->names.frame = frame;
		shape_drop_leading(&type->shape);
		return STATUS_OK;
	}
	TRY(lowering_find_ref(l, ref, over));
	if (!type_of_found(l, over, type)) {
		LOWERING_FAIL(l, STATUS_CHAIN, ref->span, "for runs over a leading axis, and a %s has none",
		              over->kind == FOUND_BLOCK ? "block" : "number");
		return diag_hint(l->context->diags, "iterations are counted by repeat, as in repeat 3 as i { mul i }");
	}
	return STATUS_OK;
}

/* Finds the arrays that LOOP, a `for`, runs over, and so the number of its iterations. */
static enum status begin_for(struct lowering *l, struct loop *loop)
{
	const struct node *node = loop->node;
	const char *source = l->chain->source->text;
	struct type first = {0};
	for (size_t i = 0; i < node->loop_count; i++) {
		const struct ref *ref = &node->over[i];
		struct found over;
		struct type type;
		TRY(type_over(l, ref, &over, &type));
		if (i == 0)
			first = type;
		const int64_t has = type.shape.dim[0], had = first.shape.dim[0];
		const struct span a = node->over[0].span, b = ref->span; /* without indices */
		char text_a[TYPE_TEXT], text_b[TYPE_TEXT];
		if (type.shape.ndim == 0) {
			LOWERING_FAIL(l, STATUS_CHAIN, b, "for runs over a leading axis, and %s has none",
			              type_format(&type, text_b));
			return diag_hint(l->context->diags, "iterations are counted by repeat, as in repeat 3 as i { mul i }");
		}
		if (has != had)
			return LOWERING_FAIL(
				l, STATUS_CHAIN, b, "for runs over '%.*s', %s, and '%.*s', %s: %lld iterations and %lld",
				(int)(a.end - a.begin), source + a.begin, type_format(&first, text_a), (int)(b.end - b.begin),
				source + b.begin, type_format(&type, text_b), (long long)had, (long long)has);
		const bool computed = over.kind == FOUND_VALUE;
		l->names.elements[node->loops[i]] =
			(struct for_element){.ref = computed ? ref : NULL, .frame = l->names.frame, .level = -1};
		loop->params[i] = over.param;
		if (computed)
			lowering_need_whole(l, node->span, "a loop runs over the rows of a value");
		else
			l->streaming.whole[over.param.param] = true;
	}
	loop->iterations = first.shape.dim[0];
	return STATUS_OK;
}

/* Sets the iterations of LOOP, a `repeat while`: in a forward run the most, else those that run. */
static enum status begin_while(struct lowering *l, struct loop *loop)
{
	const struct portion *portion = &l->out->portion;
	const int64_t max = loop->iterations;
	const bool run = l->what == LOWER_RUN;
	if (!run && l->in_fixed_point) {
		LOWERING_FAIL(l, STATUS_CHAIN, loop->node->span, "a gradient of a `repeat while` inside a fixed_point");
		return diag_hint(l->context->diags,
		                 "no pass counts its iterations at the solution; `ckptc run` takes it everywhere");
	}
	loop->iterations = !run && portion->most && portion->most < max ? portion->most : max;
	if (portion->watched && l->loops == 0)
		loop->iterations = portion->most <= max ? portion->most : max + 1;
	if (l->conditions < portion->counted_loops)
		loop->iterations = portion->counted[l->conditions].iterations;
	lowering_need_whole(l, loop->node->span, "the number of iterations depends on the values");
	l->conditions += !run; /* lower_while counts after the loop has begun */
	return STATUS_OK;
}

/* Sets *COUNT to the count of NODE, a `repeat`, in this call. */
static enum status find_count(struct lowering *l, const struct node *node, int64_t *count)
{
	double number;
	TRY(lowering_number(l, node->times, "the count of repeat", &number));
	const struct argument argument = argument_of_double(number);
	if (!argument.integer || argument.as_integer < (node->conditional ? 1 : 0))
		return LOWERING_FAIL(l, STATUS_CHAIN, node->times->span,
		                     "the count of repeat is an integer of at least %d, not %.17g", node->conditional ? 1 : 0,
		                     number);
	*count = argument.as_integer;
	return STATUS_OK;
}

enum status lowering_begin_loop(struct lowering *l, const struct node *node, struct loop *loop)
{
	const struct portion *portion = &l->out->portion;
	const double share = portion->iterations;
	const bool repeats = node->kind == NODE_REPEAT;
	*loop = (struct loop){
		.node = node, .iterations = repeats ? node->count : 0, .variables = repeats ? 0 : node->loop_count};
	if (repeats && node->times)
		TRY(find_count(l, node, &loop->iterations));
	l->outermost += l->loops == 0 && !l->in_condition;
	while (l->what != LOWER_RUN && l->conditions < portion->counted_loops &&
	       portion->counted[l->conditions].outermost < l->outermost) /* of iterations that a portion leaves out */
		l->conditions++;
	loop->params = arena_array(&l->scratch, loop->variables + 1, sizeof *loop->params);
	TRY_ALLOC(loop->params, l->context->diags);
	if (node->kind == NODE_FOR)
		TRY(begin_for(l, loop));
	else if (node->conditional)
		TRY(begin_while(l, loop));
	const struct node *stage = l->first;
	while (share > 0 && stage != l->end && stage != node)
		stage = stage->next;
	if (share > 0 && stage == node) /* an outermost loop */
		loop->iterations = (int64_t)ceil((double)loop->iterations * share);
	if (!node->body)
		loop->iterations = 0;
	return STATUS_OK;
}

enum status lowering_set_iteration(struct lowering *l, const struct loop *loop, int32_t level, int64_t iteration)
{
	const struct index index = {level, level < 0 ? iteration : 0};
	l->collecting = (struct collecting){loop->iterations, index, iteration == 0};
	if (loop->node->counter)
		l->names.elements[loop->node->counter - 1] =
			(struct for_element){.iteration = index.value, .level = level, .iterations = loop->iterations};
	for (size_t i = 0; i < loop->variables; i++) {
		const uint32_t id = loop->node->loops[i];
		struct for_element *element = &l->names.elements[id];
		element->iteration = index.value;
		element->level = level;
		if (element->ref)
			continue;
		struct found found = {.kind = FOUND_PARAM, .param = loop->params[i]};
		TRY(take_index(l, &found, index, loop->node->span));
		l->names.params[id] = found.param;
	}
	return STATUS_OK;
}
