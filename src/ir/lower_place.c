/*
 * The place of the chain (language/place.c): where a forward run ends, or whose value a gradient is for.
 *
 * How often a loop binds a name, or how many steps it has, shows only as it is lowered. So bindings or steps are counted on
 * the way. A loop that is kept, or a list of steps that stands for many iterations, counts its first one that often. It ends
 * before the iteration that has the place, which is lowered alone.
 *
 * A forward run ends where the place is met: each function returns STATUS_PLACE, up to lower_whole.
 *
 * In a gradient, whatever is computed before the place is constant. At the place, a copy of the value replaces it in all slots
 * that hold it, and from there on values depend on the copy. The copy's cotangent is the gradient:
 *
 *     slot h      ---- sin ----> v   v' = v ---- the stages after it ---->
 *     slot G      <------------------ |      its cotangent: that of v'
 *
 * The place's step has an in from slot G that no instruction reads. So G is never live, and no array is in it. Only its
 * cotangent is: it passes the steps before as those of other slots do, and is left where the input's gradient would be.
 * Tests: tests/cases/places.test, tests/scripts/check-places
 */
#include "ir/lowering.h"

#include "base/checked.h"

#include <inttypes.h>

/* True if bindings or steps before the place are counted here. */
static bool counts(const struct lowering *l)
{
	return l->way.to && !l->way.reached && !l->in_condition && !l->in_fixed_point && !l->way.unbound;
}

bool lowering_is_constant(const struct lowering *l) { return l->way.to && !l->way.to->ends && !l->way.reached; }

bool lowering_seeks_end(const struct lowering *l) { return counts(l) && l->way.to->ends && !l->way.dry; }

bool lowering_is_before_place(const struct lowering *l)
{
	return !counts(l) || l->way.attempts || l->way.met < l->way.wanted;
}

bool lowering_counts_steps(const struct lowering *l) { return l->way.to && !l->way.to->name; }

/* Replaces VALUE by MADE in all slots that hold it. */
static void replace_value(struct lowering *l, uint32_t value, uint32_t made)
{
	const struct environment *env = &l->env;
	const struct value *old = &l->body->values[value];
	const size_t count = env->touched_count;
	for (size_t i = 0; i < count; i++)
		if (env->now[env->touched[i]] == value)
			lowering_write_slot(l, env->touched[i], made);
	if (old->from != FROM_PORT)
		return;
	for (uint32_t slot = l->body->ins[old->port].index; slot != NO_SLOT; slot = l->state.next_same[slot])
		if (env->now[slot] == NO_VALUE)
			lowering_write_slot(l, slot, made);
}

/* Records the place whose value is OLD. Tiles may leave rows of its gradient, and passes its sum over tiles. */
static void note_place(struct lowering *l, const struct slot *old, struct span span)
{
	const bool passes = !old->streamed && l->streaming.folds;
	const uint32_t to = l->way.to->variable + 1;
	l->way.reached = true;
	l->out->gradient_at =
		(struct gradient_place){.slot = to, .type = *old->type, .computed = old->type, .streamed = old->streamed};
	l->out->gradient_at.type.dtype = dtype_written(old->dtype);
	if (passes)
		l->streaming.streamable = false;
	else if (!old->streamed || old->type->shape.dim[0] != (l->rows ? l->rows : l->whole_rows))
		lowering_need_whole(l, span, "--at: its value does not have the rows of the input");
}

/* Lets the gradient be that of the value in SLOT. The stage at SPAN has made it. */
static enum status begin_gradient(struct lowering *l, uint32_t slot, struct span span)
{
	const uint32_t to = l->way.to->variable + 1;
	if (l->way.between) {
		l->way.pending = slot;
		note_place(l, &l->state.slots[l->state.slots[slot].class], span);
		return STATUS_OK;
	}
	const uint32_t value = lowering_read_slot(l, slot);
	TRY_ALLOC(value != NO_VALUE, l->context->diags);
	const struct value old = l->body->values[value];
	uint32_t made = value;
	TRY(lowering_apply(l, lowering_add_op(l, OP_identity, NULL, span), old.type, old.dtype, &made));
	replace_value(l, value, made);
	struct value *copy = &l->body->values[made];
	copy->active = !dtype_is_integer(old.dtype);
	copy->names = old.names;
	l->state.slots[to] = slot_of(copy, to);
	const uint32_t in = lowering_read_slot(l, to);
	TRY_ALLOC(in != NO_VALUE, l->context->diags);
	l->body->values[in].cotangent = true;
	l->body->values[in].primal = made;
	note_place(l, &l->state.slots[to], span);
	return STATUS_OK;
}

enum status lowering_begin_pending(struct lowering *l, struct span span)
{
	const uint32_t slot = l->way.pending;
	l->way.pending = 0;
	return slot ? begin_gradient(l, slot, span) : STATUS_OK;
}

/* Notes that the place may be met here: the value in SLOT, which the stage at SPAN has made. */
static enum status meet_place(struct lowering *l, uint32_t slot, struct span span)
{
	l->way.met++;
	if (l->way.met != l->way.wanted || l->way.attempts)
		return STATUS_OK;
	if (!l->way.to->ends)
		return begin_gradient(l, slot, span);
	l->way.reached = true;
	l->way.value = lowering_read_slot(l, slot);
	TRY_ALLOC(l->way.value != NO_VALUE, l->context->diags);
	return STATUS_PLACE;
}

enum status lowering_meet_binding(struct lowering *l, const struct node *node)
{
	const struct chain_place *place = l->way.to;
	if (!counts(l) || !place->name || l->names.frame)
		return STATUS_OK;
	const uint32_t variable = node_binds(node, place->name);
	if (variable == NO_PLACE || (place->last && place->last != node))
		return STATUS_OK;
	return meet_place(l, variable + 1, node->span);
}

enum status lowering_meet_step(struct lowering *l, struct span span)
{
	return counts(l) && !l->way.to->name ? meet_place(l, 0, span) : STATUS_OK;
}

/* Calls lowering_meet_binding for each `collect` of NODE and its successors. */
static enum status meet_nodes(struct lowering *l, const struct node *node)
{
	for (; node; node = node->next)
		if (node->kind == NODE_COLLECT)
			TRY(lowering_meet_binding(l, node));
		else if (node->kind == NODE_CHECKPOINT)
			TRY(meet_nodes(l, node->body));
	return STATUS_OK;
}

enum status lowering_meet_collected(struct lowering *l, const struct node *node)
{
	return node->collects && counts(l) && l->way.to->name ? meet_nodes(l, node->body) : STATUS_OK;
}

int64_t lowering_before_place(const struct lowering *l, int64_t each, int64_t most)
{
	if (!counts(l) || each == 0 || l->way.attempts)
		return most;
	return lesser(most, (l->way.wanted - 1 - l->way.met) / each);
}

void lowering_repeat_count(struct lowering *l, int64_t before, int64_t iterations)
{
	int64_t all;
	if (!checked_mul_i64(l->way.met - before, iterations, &all) || all > INT64_MAX - before)
		all = INT64_MAX - before;
	l->way.met = before + all;
}

enum status lowering_check_count(struct lowering *l, const struct node *node, int64_t before)
{
	if (!l->way.to || !node->conditional || l->way.met == before)
		return STATUS_OK;
	diag_at(l->context->diags, STATUS_USAGE, l->chain->source, node->span,
	        "--at %s: how often this `repeat while` iterates before the place is not known", l->way.to->text);
	return diag_hint(l->context->diags, "name the value after the loop, as in `name %s`",
	                 l->way.to->name ? l->way.to->name : "h");
}

/* Reports that the chain does not get to the place. */
static enum status refuse_place(struct lowering *l)
{
	const struct chain_place *place = l->way.to;
	const char *plural = l->way.met == 1 ? "" : "s";
	if (place->name)
		return diag_file(l->context->diags, STATUS_USAGE, NULL, -1, "--at %s: the chain binds '%s' %" PRId64 " time%s",
		                 place->text, place->name, l->way.met, plural);
	return diag_file(l->context->diags, STATUS_USAGE, NULL, -1, "--at %s: the chain has %" PRId64 " step%s",
	                 place->text, l->way.met, plural);
}

enum status lowering_check_place(struct lowering *l)
{
	return l->way.to && !l->way.reached && !l->way.dry ? refuse_place(l) : STATUS_OK;
}

/* Sets *COUNT to how often the chain, on INPUT, binds the name of its place: a forward run that is dropped shows it. */
static enum status count_bindings(struct lowering *l, const struct type *input, int64_t *count)
{
	struct arena arena;
	struct lowered lowered;
	arena_init(&arena, l->context->allocator);
	const struct context context = {l->context->allocator, &arena, l->context->diags};
	struct lowering all = {.context = &context,
	                       .out = &lowered,
	                       .chain = l->chain,
	                       .what = LOWER_RUN,
	                       .way = {.to = l->chain->place, .dry = true, .wanted = INT64_MAX}};
	const enum status status = lower_typed(&all, &(struct portion){0}, input);
	*count = all.way.met;
	arena_free(&arena);
	return status;
}

enum status lowering_find_way(struct lowering *l, const struct portion *portion, const struct type *input)
{
	const struct chain_place *place = l->chain->place;
	const bool part = portion->before || portion->after || portion->iterations > 0; /* for an estimate */
	if (!place || l->way.dry || (!place->ends && l->what == LOWER_RUN) || part)
		return STATUS_OK;
	int64_t count = place->index;
	l->way.to = place;
	if (l->way.wanted) /* a tile might have other types after the place than the array */
		return STATUS_OK;
	if (place->last)
		count = 0;
	else if (count < 0)
		TRY(count_bindings(l, input, &count));
	l->way.wanted = place->name && (place->index >= 0 || place->last) ? count + 1 : count;
	if (place->index >= 0 || place->last)
		return STATUS_OK;
	l->way.wanted += place->index + 1;
	l->way.met = l->way.wanted < 1 ? count : 0;
	return l->way.wanted < 1 ? refuse_place(l) : STATUS_OK;
}
