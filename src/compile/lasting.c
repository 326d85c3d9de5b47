/*
 * Arrays that most of a chain's states share, such as the one whose rows a `for` reads.
 *
 * The cost of a step counts all arrays of the state before it. If several states are held, an array that is in all of
 * them exists once, yet their costs count it each time. An array is *lasting* if it is in the states before at least
 * three quarters of the steps:
 *
 *     before step   0   1   2   3   4   5   6   7
 *     h                 a   b   c   d   e   f   g      an array for each state
 *     x             x   x   x   x   x   x   x   x      lasting: one array
 *
 * A lasting array, and its cotangent if it has one, count as held throughout, and no state counts them. That may be
 * too much in the first sweep, which has no cotangents, and for the first steps if these are recorded last.
 *
 * A lasting array is in the state before the middle step. Walks from there to either end find where it lives. The
 * steps of a run read and write the same slots, so a walk looks at no more of them than there are slots.
 */
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/pool.h"
#include "compile/compiled.h"

/* An array of the middle state: it is in the states before the steps FIRST .. LAST, or in the one after all steps. */
struct array {
	int64_t first, last, bytes;
	bool cotangent;
	bool lasting; /* the first walk counts all arrays as lasting */
};

struct walk {
	const struct compiled_chain *compiled;
	const struct step_costs *costs;
	struct step_run *runs; /* copies of the costs' runs, which a second walk settles; NULL in the first walk */
	struct array *arrays;
	size_t count;
	/* By slot: */
	uint32_t *held;  /* the array that it has in the state where the walk is; NO_VALUE: none, or one of no interest */
	uint32_t *moved; /* scratch: NO_VALUE between steps */
	bool *written;   /* scratch: false between steps */
};

static const struct step *step_at(const struct walk *w, int64_t index)
{
	return lowered_step(w->compiled->lowered, index, NULL);
}

/* Puts the array of slot FROM, of the state that the walk leaves, in slot TO of the next one. */
static void move_slot(struct walk *w, uint32_t from, uint32_t to)
{
	if (w->held[from] != NO_VALUE)
		w->moved[to] = w->held[from];
}

/* Moves the walk from the state before STEP to the one after it; the other way if BACK. */
static void move_walk(struct walk *w, const struct step *step, bool back)
{
	const struct body *body = step->body;
	const struct slot_list before = step->live_in, after = step->live_out;
	const struct slot_list left = back ? after : before, entered = back ? before : after;
	for (size_t i = 0; i < body->out_count; i++) {
		const struct value *value = &body->values[body->outs[i].value];
		const uint32_t out = step_slot(step, &body->outs[i]);
		w->written[out] = true;
		if (value->from != FROM_PORT)
			continue;
		const uint32_t in = step_slot(step, &body->ins[value->port]);
		move_slot(w, back ? out : in, back ? in : out);
	}
	for (uint32_t i = 0, k = 0; i < before.count && k < after.count;) {
		const uint32_t a = before.slots[i], b = after.slots[k];
		if (a == b && !w->written[a])
			move_slot(w, a, a);
		i += a <= b;
		k += b <= a;
	}
	for (uint32_t i = 0; i < left.count; i++)
		w->held[left.slots[i]] = NO_VALUE;
	for (uint32_t i = 0; i < entered.count; i++) {
		w->held[entered.slots[i]] = w->moved[entered.slots[i]];
		w->moved[entered.slots[i]] = NO_VALUE;
	}
	for (size_t i = 0; i < body->out_count; i++) {
		w->written[step_slot(step, &body->outs[i])] = false;
		w->moved[step_slot(step, &body->outs[i])] = NO_VALUE; /* no state has an out that nothing reads */
	}
}

/* Extends the arrays that SLOTS hold to the state before the step POSITION. Returns whether there are any. */
static bool note_state(struct walk *w, struct slot_list slots, int64_t position)
{
	bool any = false;
	for (uint32_t i = 0; i < slots.count; i++) {
		if (w->held[slots.slots[i]] == NO_VALUE)
			continue;
		struct array *array = &w->arrays[w->held[slots.slots[i]]];
		array->first = lesser(position, array->first);
		array->last = greater(position, array->last);
		any = true;
	}
	return any;
}

/* Passes COUNT steps like STEP, one after another, from POSITION on. Returns whether any array is left. */
static bool pass_steps(struct walk *w, const struct step *step, int64_t position, int64_t count, bool back)
{
	const struct slot_list entered = back ? step->live_in : step->live_out;
	const int64_t sign = back ? -1 : 1, looks = lesser(count, (int64_t)step->live_in.count + 1);
	bool any = true;
	for (int64_t i = 1; i <= looks && any; i++) {
		move_walk(w, step, back);
		any = note_state(w, entered, position + sign * i);
	}
	return any && note_state(w, entered, position + sign * count);
}

/* Returns the cost of STEP without the arrays that are in the states before all of the COUNT steps from BEGIN on. */
static struct step_cost settled_cost(const struct walk *w, const struct step *step, int64_t begin, int64_t count,
                                     struct step_cost cost)
{
	const struct linear *linear = &compiled_step_of(w->compiled, step)->linear;
	for (size_t i = 0; i < w->count; i++)
		if (w->arrays[i].lasting && w->arrays[i].first <= begin && w->arrays[i].last >= begin + count - 1)
			cost.state -= w->arrays[i].bytes;
	cost.keeps_input = false;
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct value *value = &linear->record->values[linear->residuals[i].value];
		if (linear->residuals[i].in_state)
			cost.keeps_input |= w->held[step_slot(step, &linear->record->ins[value->port])] == NO_VALUE;
	}
	cost.last_temporary = compiled_last_temporary(w->compiled, step, &cost);
	return cost;
}

/* Settles the cost of RUN, which begins before step BEGIN. The walk is at one of its states. */
static void visit_run(struct walk *w, size_t run, const struct step *step, int64_t begin)
{
	if (w->runs)
		w->runs[run].cost = settled_cost(w, step, begin, w->runs[run].count, w->runs[run].cost);
}

/* Moves the walk to the state before the middle step, STEP. */
static void enter_middle(struct walk *w, const struct step *step)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < step->live_in.count; i++) {
		const uint32_t slot = step->live_in.slots[i];
		w->held[slot] = step->alias_in[i] ? w->held[step->class_in[i]] : count++;
		if (w->held[slot] != NO_VALUE && !w->arrays[w->held[slot]].lasting)
			w->held[slot] = NO_VALUE;
	}
}

/* Forgets the arrays that the walk has left. */
static void leave(struct walk *w)
{
	for (size_t i = 0; i < w->compiled->lowered->slot_count; i++)
		w->held[i] = NO_VALUE;
}

/* Walks from the state before step MIDDLE to both ends of the chain, as far as there are lasting arrays. */
static void walk_chain(struct walk *w, int64_t middle)
{
	const struct step_run *runs = w->costs->runs;
	const struct step *step = step_at(w, middle);
	size_t run = 0;
	int64_t begin = 0; /* of RUN */
	while (begin + runs[run].count <= middle)
		begin += runs[run++].count;
	enter_middle(w, step);
	visit_run(w, run, step, begin);
	int64_t at = begin + runs[run].count;
	bool any = pass_steps(w, step, middle, at - middle, false);
	for (size_t i = run + 1; i < w->costs->run_count && any; at += runs[i++].count) {
		visit_run(w, i, step_at(w, at), at);
		any = pass_steps(w, step_at(w, at), at, runs[i].count, false);
	}
	leave(w);
	enter_middle(w, step);
	any = pass_steps(w, step, middle, middle - begin, true);
	for (at = begin; run-- > 0 && any;) {
		step = step_at(w, at - runs[run].count);
		any = pass_steps(w, step, at, runs[run].count, true);
		at -= runs[run].count;
		visit_run(w, run, step, at);
	}
	leave(w);
}

/* Lists the arrays of the state before STEP, the middle one, each once. */
static void list_arrays(struct walk *w, const struct step *step)
{
	for (uint32_t i = 0; i < step->live_in.count; i++)
		if (!step->alias_in[i])
			w->arrays[w->count++] = (struct array){.first = INT64_MAX,
			                                       .last = -1,
			                                       .bytes = round_up(type_bytes(step->in_types[i]), ARRAY_ALIGN),
			                                       .cotangent = has_slot(step->cot_in, step->class_in[i]),
			                                       .lasting = true};
}

/* Decides which arrays are lasting. Returns the bytes that they and their cotangents take. */
static int64_t choose_lasting(struct walk *w)
{
	const int64_t steps = w->costs->steps;
	int64_t bytes = 0;
	for (size_t i = 0; i < w->count; i++) {
		struct array *array = &w->arrays[i];
		array->lasting = array->last - array->first >= steps - steps / 4;
		bytes += array->lasting ? array->bytes * (array->cotangent ? 2 : 1) : 0;
	}
	return bytes;
}

static enum status share_arrays(struct walk *w, struct arena *arena, const struct context *context,
                                struct step_costs *shared)
{
	const int64_t middle = w->costs->steps / 2;
	const size_t slots = w->compiled->lowered->slot_count, runs = w->costs->run_count;
	const struct step *step = step_at(w, middle);
	w->arrays = arena_array(arena, step->live_in.count + 1, sizeof *w->arrays);
	w->held = arena_array(arena, slots, sizeof *w->held);
	w->moved = arena_array(arena, slots, sizeof *w->moved);
	w->written = arena_array(arena, slots, sizeof *w->written);
	TRY_ALLOC(!arena->failed, context->diags);
	for (size_t i = 0; i < slots; i++)
		w->held[i] = w->moved[i] = NO_VALUE;
	list_arrays(w, step);
	walk_chain(w, middle);
	const int64_t bytes = choose_lasting(w);
	if (bytes == 0)
		return STATUS_OK;
	w->runs = arena_array(context->arena, runs, sizeof *w->runs);
	TRY_ALLOC(w->runs, context->diags);
	memcpy(w->runs, w->costs->runs, runs * sizeof *w->runs);
	walk_chain(w, middle);
	shared->runs = w->runs;
	shared->fixed += bytes;
	for (size_t i = 0; i < w->count; i++)
		if (w->arrays[i].lasting && w->arrays[i].last == w->costs->steps)
			shared->output -= w->arrays[i].bytes;
	return STATUS_OK;
}

enum status compiled_share_costs(const struct context *context, const struct compiled_chain *compiled,
                                 const struct step_costs *costs, struct step_costs *shared)
{
	struct arena arena;
	struct walk walk = {.compiled = compiled, .costs = costs};
	*shared = *costs;
	if (costs->steps < 2)
		return STATUS_OK;
	arena_init(&arena, context->allocator);
	const enum status status = share_arrays(&walk, &arena, context, shared);
	arena_free(&arena);
	return status;
}
