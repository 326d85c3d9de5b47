/*
 * Lowers a chain to draft steps, which a policy keeps or recomputes one by one. A draft has its body and a list of the
 * slots that it changes. An iteration that leaves all slots equal (slot_equal) stands for itself and those after it:
 * one loop. Any other, or one that binds preludes from before the loop, becomes a loop of one iteration.
 * Tests: tests/unit/test_lower.c, tests/unit/test_lower_random.c
 */
#include "ir/lowering.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/*
 * Regroups the classes when a step ends. A class is a list of slots, ascending, and its first slot stands for it. Only
 * slots that the step touched, and those of their classes, are looked at.
 */

/* True if SLOT ends with another value than CLASS's. A def's local names have no value (NO_VALUE) after their call. */
static bool holds_other(const struct lowering *l, uint32_t slot, uint32_t class)
{
	return l->env.now[slot] != NO_VALUE && l->state.lowest[l->env.now[slot]] != class;
}

/* Sets SLOT to TO, and records in DRAFT what it was. False where memory is short. */
static bool change_slot(struct lowering *l, struct draft_step *draft, uint32_t slot, struct slot to)
{
	struct change *change = arena_alloc(&l->scratch, sizeof *change);
	if (!change)
		return false;
	*change = (struct change){slot, l->state.slots[slot], draft->changes};
	draft->changes = change;
	l->state.slots[slot] = to;
	return true;
}

static bool set_class(struct lowering *l, struct draft_step *draft, uint32_t slot, uint32_t class)
{
	struct slot to = l->state.slots[slot];
	to.class = class;
	return change_slot(l, draft, slot, to);
}

/* Keeps the slots of CLASS that hold its value, under the lowest. Others have no class (NO_SLOT) until join_class. */
static bool split_class(struct lowering *l, struct draft_step *draft, uint32_t class)
{
	uint32_t first = NO_SLOT, *link = &first, *next_same = l->state.next_same;
	for (uint32_t slot = class, next; slot != NO_SLOT; slot = next) {
		const bool leaves = holds_other(l, slot, class);
		next = next_same[slot];
		next_same[slot] = NO_SLOT;
		if (!leaves) {
			*link = slot;
			link = &next_same[slot];
		}
		if (!set_class(l, draft, slot, leaves ? NO_SLOT : first))
			return false;
	}
	if (l->env.port[class] != NO_VALUE)
		l->state.lowest[l->env.port[class]] = first;
	return true;
}

/* Puts SLOT, which has no class, into the class of its value, or a new one. Its lowest slot then names it. */
static bool join_class(struct lowering *l, struct draft_step *draft, uint32_t slot)
{
	uint32_t *next_same = l->state.next_same;
	uint32_t *class = &l->state.lowest[l->env.now[slot]], *link = class;
	while (*link < slot)
		link = &next_same[*link];
	next_same[slot] = *link;
	*link = slot;
	bool joined = set_class(l, draft, slot, *class);
	for (uint32_t i = *class == slot ? next_same[slot] : NO_SLOT; i != NO_SLOT && joined; i = next_same[i])
		joined = set_class(l, draft, i, slot);
	return joined;
}

static bool regroup_classes(struct lowering *l, struct draft_step *draft)
{
	const struct body *body = l->body;
	struct state *state = &l->state;
	const uint32_t *touched = l->env.touched;
	if (body->value_count >= state->lowest_capacity) {
		state->lowest_capacity = 2 * body->value_count + 1;
		state->lowest = arena_array(&l->scratch, state->lowest_capacity, sizeof *state->lowest);
		if (!state->lowest)
			return false;
	}
	/* The classes of the body's ins are known; join_class finds the others. */
	memset(state->lowest, 0xff, body->value_count * sizeof *state->lowest);
	for (size_t i = 0; i < body->in_count; i++)
		state->lowest[body->ins[i].value] = body->ins[i].index;
	for (size_t i = 0; i < l->env.touched_count; i++) {
		const uint32_t class = state->slots[touched[i]].class;
		if (class != NO_SLOT && holds_other(l, touched[i], class) && !split_class(l, draft, class))
			return false;
	}
	for (size_t i = 0; i < l->env.touched_count; i++)
		if (state->slots[touched[i]].class == NO_SLOT && !join_class(l, draft, touched[i]))
			return false;
	return true;
}

bool lowering_end_step(struct lowering *l, struct draft_step *draft)
{
	const struct environment *env = &l->env;
	qsort(env->touched, env->touched_count, sizeof *env->touched, compare_indices);
	for (size_t i = 0; i < env->touched_count; i++) {
		const uint32_t slot = env->touched[i], now = env->now[slot];
		if (!env->written[slot] || now == NO_VALUE)
			continue;
		struct slot to = slot_of(&l->body->values[now], l->state.slots[slot].class);
		to.collected = body_collects(l->body, now);
		l->body->collects |= to.collected;
		if (!body_add_out(l->body, PORT_SLOT, slot, now) || !change_slot(l, draft, slot, to))
			return false;
	}
	draft->body = l->body;
	l->body->regions[0].end = (uint32_t)l->body->instr_count;
	return regroup_classes(l, draft);
}

/* Drafts. */

static struct draft_item *add_item(struct lowering *l, struct draft_item *list)
{
	return arena_append(&l->scratch, &list->items, &list->count, &list->capacity, sizeof *list);
}

bool lowering_defer(struct lowering *l, const struct node *node)
{
	struct preludes *preludes = &l->preludes;
	const struct node **deferred =
		arena_append(&l->scratch, &preludes->nodes, &preludes->count, &preludes->capacity, sizeof *deferred);
	if (deferred)
		*deferred = node;
	return deferred != NULL;
}

/* Appends to LIST a draft step of the unbound preludes and of NODE (NULL: none). */
static enum status draft_step(struct lowering *l, const struct node *node, struct draft_item *list)
{
	struct preludes *preludes = &l->preludes;
	struct draft_step *draft = arena_alloc(&l->scratch, sizeof *draft);
	struct draft_item *item = add_item(l, list);
	TRY_ALLOC(draft && item && lowering_begin_draft(l), l->context->diags);
	draft->span = node ? node->span : preludes->nodes[preludes->bound]->span;
	TRY(lowering_begin_pending(l, draft->span));
	while (preludes->bound < preludes->count)
		TRY(lower_node(l, preludes->nodes[preludes->bound++]));
	if (node)
		TRY(lower_node(l, node));
	if (l->env.written[0]) /* `use` of a param: a step passes a copy */
		TRY(lowering_copy_param(l, &l->env.now[0], draft->span));
	TRY(lowering_meet_step(l, draft->span));
	TRY_ALLOC(lowering_end_step(l, draft) && lowering_share_body(l, draft), l->context->diags);
	item->draft = draft;
	item->steps = 1;
	list->steps++;
	return STATUS_OK;
}

static bool same_slots(const struct slot *a, const struct slot *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!slot_equal(&a[i], &b[i]))
			return false;
	return true;
}

/* Makes `repeat M { repeat N { ... } }` one loop of M*N iterations, for policies that need equal ones. True if so. */
static bool join_loops(struct draft_item *loop)
{
	if (!loop->repeats || loop->count != 1 || loop->items[0].draft || !loop->items[0].repeats)
		return false;
	struct draft_item inner = loop->items[0];
	inner.iterations *= loop->iterations; /* at most as many as the steps */
	inner.steps = loop->steps;
	*loop = inner;
	return true;
}

/*
 * Lowers the condition before ITERATION of NODE, which begins at step START, to a body of its own: *BODY. Preludes that
 * the next step will bind are bound in it too.
 */
static enum status watch(struct lowering *l, const struct node *node, int64_t iteration, const struct body **body)
{
	struct watched *watched = &l->out->watched;
	struct body *own = lowering_begin_body(l);
	uint32_t value;
	TRY_ALLOC(own, l->context->diags);
	for (size_t i = l->preludes.bound; i < l->preludes.count; i++)
		TRY(lower_node(l, l->preludes.nodes[i]));
	TRY(lowering_condition(l, node, &value));
	const struct value *number = &own->values[value];
	if (number->from != FROM_INSTR)
		TRY(lowering_apply(l, lowering_add_op(l, OP_identity, NULL, node->span), number->type, number->dtype, &value));
	own->regions[0].end = (uint32_t)own->instr_count;
	struct watched_condition *condition =
		arena_append(l->context->arena, &watched->conditions, &watched->count, &watched->capacity, sizeof *condition);
	TRY_ALLOC(condition && body_add_out(own, PORT_SLOT, 0, value), l->context->diags);
	*condition = (struct watched_condition){iteration, own};
	*body = own;
	return STATUS_OK;
}

/*
 * Returns how many of the next MOST iterations of a loop run the `repeat while`s in them as often as the first, whose
 * counts are those from COUNTS on. That one is lowered. Moves l->conditions beyond the others.
 */
static int64_t count_alike(struct lowering *l, uint32_t counts, int64_t most)
{
	const struct portion *portion = &l->out->portion;
	const uint32_t each = l->conditions - counts;
	int64_t alike = 1;
	if (each == 0 || l->conditions > portion->counted_loops) /* all others run their most iterations */
		return most;
	for (bool same = true; alike < most && l->conditions + each <= portion->counted_loops;) {
		for (uint32_t i = 0; i < each; i++)
			same &= portion->counted[counts + i].iterations == portion->counted[l->conditions + i].iterations;
		if (!same)
			break;
		l->conditions += each;
		alike++;
	}
	return alike;
}

static enum status draft_loop(struct lowering *l, const struct node *node, struct draft_item *list)
{
	struct loop loop;
	struct slot *before = arena_array(&l->scratch, l->state.count, sizeof *before);
	uint64_t *drawn = arena_array(&l->scratch, l->streams, sizeof *drawn);
	TRY_ALLOC(before && drawn, l->context->diags);
	const struct collecting around = l->collecting;
	const uint32_t outermost = l->outermost;
	TRY(lowering_begin_loop(l, node, &loop));
	if (lowering_collects_nothing(&loop)) {
		l->outermost = outermost; /* the step begins the loop again */
		return draft_step(l, node, list);
	}
	const bool watched = l->out->portion.watched && l->loops == 0 && node->kind == NODE_REPEAT && node->conditional;
	if (watched)
		l->out->watched = (struct watched){.node = node, .outermost = l->outermost, .start = list->steps};
	l->loops++;
	for (int64_t i = 0; i < loop.iterations;) {
		struct draft_item drafted = {.level = l->level, .first = i, .iterations = 1};
		const size_t preludes = l->preludes.count;
		const uint32_t counts = l->conditions;
		const struct way way = l->way;
		/* An iteration that binds preludes from before the loop is unlike those after it; so is one that begins arrays. */
		const bool binds = l->preludes.bound < l->preludes.count || (node->collects && i == 0);
		memcpy(before, l->state.slots, l->state.count * sizeof *before);
		memcpy(drawn, l->drawn, l->streams * sizeof *drawn);
		TRY(lowering_set_iteration(l, &loop, l->level, i));
		struct stream_loop *streams = lowering_begin_streams(l, l->level++, i);
		TRY_ALLOC(streams, l->context->diags);
		TRY(watched ? watch(l, node, i, &drafted.condition) : STATUS_OK);
		TRY(lowering_draft_steps(l, node->body, &drafted));
		if (lowering_owes_step(l, preludes)) /* the next iteration would bind other values */
			TRY(draft_step(l, NULL, &drafted));
		l->level--;
		const int64_t most = 1 + lowering_before_place(l, l->way.met - way.met, loop.iterations - i - 1);
		if (!binds && same_slots(before, l->state.slots, l->state.count) && way.reached == l->way.reached)
			drafted.iterations = count_alike(l, counts, most);
		TRY(lowering_check_count(l, node, way.met));
		if (!l->way.reached)
			lowering_repeat_count(l, way.met, drafted.iterations);
		lowering_end_streams(l, drawn, drafted.iterations);
		if (watched)
			l->out->watched.steps = i == 0 || l->out->watched.steps == drafted.steps ? drafted.steps : 0;
		if (!checked_mul_i64(drafted.steps, drafted.iterations, &drafted.steps) ||
		    drafted.steps > MAX_STEPS - list->steps)
			return lowering_too_long(l, node->span);
		i += drafted.iterations;
		if (drafted.steps == 0)
			continue;
		list->steps += drafted.steps;
		drafted.repeats = node->kind == NODE_REPEAT && !watched && !node->counter;
		const bool joined = join_loops(&drafted);
		for (size_t k = 0; joined && k < l->streams; k++)
			streams[k].step = 0; /* the inner counter continues */
		struct draft_item *item = add_item(l, list);
		TRY_ALLOC(item, l->context->diags);
		*item = drafted;
	}
	l->loops--;
	l->collecting = around;
	l->way.between = true;
	TRY(lowering_meet_collected(l, node));
	l->way.between = false;
	return STATUS_OK;
}

enum status lowering_draft_steps(struct lowering *l, const struct node *node, struct draft_item *list)
{
	for (; node && node != l->end; node = node->next) {
		if (node->kind == NODE_REPEAT || node->kind == NODE_FOR)
			TRY(draft_loop(l, node, list));
		else if (is_prelude(node))
			TRY_ALLOC(lowering_defer(l, node), l->context->diags);
		else
			TRY(draft_step(l, node, list));
		if (list->steps > MAX_STEPS)
			return lowering_too_long(l, node->span);
	}
	return STATUS_OK;
}
