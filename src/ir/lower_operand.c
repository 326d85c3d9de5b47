/*
 * What operands refer to: numbers, values, params and parts of them, blocks; and in
 * each iteration of a `for` the variables that it binds.
 */
#include "ir/lowering.h"

#include <math.h>
#include <string.h>

/* Counts INDEX from the beginning of EXTENT where it is negative; false, and as it was, where it is beyond. */
static bool from_begin(int64_t *index, int64_t extent)
{
	if (*index >= extent || *index < -extent)
		return false;
	*index += *index < 0 ? extent : 0;
	return true;
}

/* FOUND with one more index along its leading axis, of all its rows: the param is not cut with the input. */
static enum status take_index(struct lowering *l, struct found *found, struct index index, struct span span)
{
	const struct type type = lowering_param_type(l, &found->param);
	char text[TYPE_TEXT];
	if (type.shape.ndim == 0)
		return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, span, "'%s' is a scalar and can't be indexed",
		               l->chain->params[found->param.param].name);
	if (index.loop < 0 && !from_begin(&index.value, type.shape.dim[0]))
		return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, span, "index %lld is beyond %s of '%s'",
		               (long long)index.value, type_format(&type, text), l->chain->params[found->param.param].name);
	struct index *grown = arena_array(l->context->arena, found->param.count + 1, sizeof *grown);
	if (!grown)
		return lowering_memory(l);
	if (found->param.count)
		memcpy(grown, found->param.index, found->param.count * sizeof *grown);
	grown[found->param.count++] = index;
	found->param.index = grown;
	l->used_whole[found->param.param] = true; /* though nothing may read this part */
	return STATUS_OK;
}

/* NAME[i] of a computed value: a slice and a reshape. With LEVEL the loop's counter there is added to ELEMENT. */
static enum status take_element(struct lowering *l, struct found *found, int64_t element, int32_t level,
                                struct span span)
{
	const struct type *type = l->body->values[found->value].type;
	char text[TYPE_TEXT];
	if (type->shape.ndim == 0 || !from_begin(&element, type->shape.dim[0]))
		return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, span, "index %lld is beyond %s",
		               (long long)element, type_format(type, text));
	struct attrs *slice = arena_alloc(l->context->arena, sizeof *slice),
				 *reshape = arena_alloc(l->context->arena, sizeof *reshape);
	if (!slice || !reshape)
		return lowering_memory(l);
	attrs_default(slice, OP_slice);
	attrs_default(reshape, OP_reshape);
	slice->has_start = slice->has_stop = true;
	slice->start = element;
	slice->stop = element + 1;
	struct type sliced = *type, rest = *type;
	sliced.shape.dim[0] = 1;
	shape_drop_leading(&rest.shape);
	reshape->shape = rest.shape;
	const struct type *types[2] = {&sliced, &rest};
	const struct attrs *attrs[2] = {slice, reshape};
	static const enum op ops[2] = {OP_slice, OP_reshape};
	if (l->body->values[found->value].streamed)
		l->mixes = true;
	l->out->streamable = false;
	for (int i = 0; i < 2; i++) {
		bool active = l->body->values[found->value].active;
		struct instr *instr = lowering_add_op(l, ops[i], attrs[i], span);
		if (!instr)
			return lowering_memory(l);
		instr->v = found->value;
		instr->of.v = l->body->values[found->value].type;
		instr->level = i == 0 ? level : -1;
		enum status status = lowering_set_out(l, instr, types[i], l->body->values[found->value].dtype, &found->value);
		if (status)
			return status;
		l->body->values[found->value].active = active;
	}
	return STATUS_OK;
}

static enum status find_part(struct lowering *l, const struct for_element *part, struct found *found)
{
	const struct frame *frame = l->frame;
	l->frame = part->frame;
	enum status status = lowering_find_ref(l, part->ref, found);
	l->frame = frame;
	return status ? status : take_element(l, found, part->iteration, part->level, part->ref->span);
}

enum status lowering_find_ref(struct lowering *l, const struct ref *ref, struct found *found)
{
	memset(found, 0, sizeof *found);
	switch (ref->kind) {
	case REF_NONE:
	case REF_NUMBER:
		found->kind = FOUND_NUMBER;
		found->number = ref->number;
		return STATUS_OK;
	case REF_BLOCK:
		found->kind = FOUND_BLOCK;
		found->block = ref->block;
		found->frame = l->frame;
		return STATUS_OK;
	case REF_PARAM:
		found->kind = FOUND_PARAM;
		found->param.param = ref->index;
		break;
	case REF_LOOP: {
		const struct for_element *part = &l->parts[ref->index];
		enum status status = part->ref ? find_part(l, part, found) : STATUS_OK;
		if (status)
			return status;
		if (part->ref)
			break;
		found->kind = FOUND_PARAM;
		found->param = l->loops[ref->index];
		break;
	}
	case REF_VARIABLE:
		found->kind = FOUND_VALUE;
		if (l->now[ref->index + 1] == NO_VALUE && !l->slots[ref->index + 1].type)
			return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, ref->span, "'%s' has no value yet here",
			               l->chain->variables[ref->index]);
		found->value = lowering_read_slot(l, ref->index + 1);
		if (found->value == NO_VALUE)
			return lowering_memory(l);
		break;
	case REF_ARGUMENT:
		*found = l->frame->arguments[ref->index];
		break;
	}
	if (ref->element == NO_INDEX)
		return STATUS_OK;
	if (found->kind == FOUND_PARAM)
		return take_index(l, found, (struct index){-1, ref->element}, ref->span);
	if (found->kind == FOUND_VALUE)
		return take_element(l, found, ref->element, -1, ref->span);
	return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, ref->span, "only arrays can be indexed");
}

/*
 * The type of the array that a `for` over REF, which is a name alone, runs over. It
 * is found before there is a body. *COMPUTED: it is no param's, and PARAM is not set.
 */
static enum status type_over(struct lowering *l, const struct ref *ref, struct param_ref *param, struct type *type,
                             bool *computed)
{
	struct found found;
	*computed = true;
	if (ref->kind == REF_VARIABLE) {
		for (size_t i = l->prelude_count; i-- > l->preludes_bound;)
			if (l->preludes[i]->variable == ref->index) {
				bool any;
				enum status status = type_over(l, &l->preludes[i]->operand, param, type, &any);
				*computed = true;
				return status;
			}
		const uint32_t slot = ref->index + 1, now = l->now[slot];
		const struct type *is = now != NO_VALUE ? l->body->values[now].type : l->slots[slot].type;
		if (!is)
			return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, ref->span, "'%s' has no value yet here",
			               l->chain->variables[ref->index]);
		*type = *is;
		return STATUS_OK;
	}
	if (ref->kind == REF_LOOP && l->parts[ref->index].ref) {
		const struct for_element *part = &l->parts[ref->index];
		const struct frame *frame = l->frame;
		l->frame = part->frame;
		enum status status = type_over(l, part->ref, param, type, computed);
		l->frame = frame;
		shape_drop_leading(&type->shape);
		return status;
	}
	enum status status = lowering_find_ref(l, ref, &found);
	if (status)
		return status;
	*computed = found.kind == FOUND_VALUE;
	if (found.kind == FOUND_VALUE) {
		*type = *l->body->values[found.value].type;
	} else if (found.kind == FOUND_PARAM) {
		*param = found.param;
		*type = lowering_param_type(l, &found.param);
	} else {
		return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, ref->span,
		               "for runs over params, consts and values that have a name");
	}
	return STATUS_OK;
}

static enum status unequal_iterations(struct lowering *l, const struct ref *a, const struct type *of_a,
                                      const struct ref *b, const struct type *of_b)
{
	const struct source *source = l->chain->source;
	const struct span x = a->span, y = b->span; /* of names alone */
	char first[TYPE_TEXT], second[TYPE_TEXT];
	return diag_at(l->context->diags, STATUS_CHAIN, source, y,
	               "for runs over '%.*s', %s, and '%.*s', %s: %lld iterations and %lld", (int)(x.end - x.begin),
	               source->text + x.begin, type_format(of_a, first), (int)(y.end - y.begin), source->text + y.begin,
	               type_format(of_b, second), (long long)of_a->shape.dim[0], (long long)of_b->shape.dim[0]);
}

static enum status begin_for(struct lowering *l, const struct node *node, struct param_ref *refs, int64_t *iterations)
{
	struct type first;
	*iterations = -1;
	for (size_t i = 0; i < node->loop_count; i++) {
		struct type type;
		bool value;
		enum status status = type_over(l, &node->over[i], &refs[i], &type, &value);
		if (status)
			return status;
		char text[TYPE_TEXT];
		if (type.shape.ndim == 0)
			return diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, node->over[i].span,
			               "for runs over a leading axis, and %s has none", type_format(&type, text));
		if (i == 0)
			first = type;
		*iterations = first.shape.dim[0];
		if (type.shape.dim[0] != *iterations)
			return unequal_iterations(l, &node->over[0], &first, &node->over[i], &type);
		l->parts[node->loops[i]] = (struct for_element){value ? &node->over[i] : NULL, l->frame, 0, -1};
		if (value)
			lowering_mix_rows(l);
		else
			l->used_whole[refs[i].param] = true;
	}
	return STATUS_OK;
}

/* Whether NODE is a stage of the chain itself, not of another. */
static bool is_outermost(const struct lowering *l, const struct node *node)
{
	const struct node *stage = l->first;
	while (stage != l->end && stage != node)
		stage = stage->next;
	return stage == node;
}

enum status lowering_begin_loop(struct lowering *l, const struct node *node, struct param_ref **refs,
                                int64_t *iterations)
{
	const double share = l->out->portion.iterations;
	*iterations = node->count;
	*refs = arena_array(l->context->arena, node->loop_count + 1, sizeof **refs);
	enum status status = *refs ? STATUS_OK : lowering_memory(l);
	if (status == STATUS_OK && node->kind == NODE_FOR)
		status = begin_for(l, node, *refs, iterations);
	if (status == STATUS_OK && share > 0 && is_outermost(l, node))
		*iterations = (int64_t)ceil((double)*iterations * share);
	return status;
}

enum status lowering_set_iteration(struct lowering *l, const struct node *node, const struct param_ref *refs,
                                   struct index index, int64_t iteration)
{
	for (size_t i = 0; i < node->loop_count; i++) {
		struct for_element *part = &l->parts[node->loops[i]];
		part->iteration = index.loop < 0 ? iteration : 0;
		part->level = index.loop;
		if (part->ref)
			continue;
		struct found found = {.kind = FOUND_PARAM, .param = refs[i]};
		enum status status = take_index(l, &found, index, node->span);
		if (status)
			return status;
		l->loops[node->loops[i]] = found.param;
	}
	return STATUS_OK;
}
