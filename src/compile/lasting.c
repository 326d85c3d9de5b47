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
 * A lasting array is in the state before the middle step. Walks from there to either end find where it lives. A walk
 * looks at the slots that a step reads or writes, since all others hold the same arrays before and after it. The steps
 * of a run read and write the same slots, so a walk looks at no more of them than there are slots.
 * Tests: tests/cases/plan.test
 */
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/pool.h"
#include "compile/compiled.h"

/* An array of the middle state: it is in the states before the steps FIRST .. LAST, or in the one after all steps. */
struct array {
	int64_t first, last, bytes;
	uint32_t slots; /* number of slots that hold it in the state where the walk is */
	bool cotangent;
	bool lasting; /* the first walk counts all arrays as lasting */
};

struct walk {
	const struct compiled_chain *compiled;
	const struct step_costs *costs;
	struct step_run *runs; /* copies of the costs' runs, which a second walk settles; NULL in the first walk */
	int64_t *covered; /* by run, in the second walk: the bytes of lasting arrays in the states before all its steps */
	struct array *arrays;
	size_t count;
	size_t alive;     /* number of arrays in the state where the walk is */
	int64_t position; /* number of steps before that state */
	/* By slot: */
	uint32_t *held;  /* the array that it has in that state; NO_VALUE: none, or one of no interest */
	uint32_t *moved; /* scratch: what it has in the next one, if the step touches it */
	bool *written;   /* scratch: false between steps */
};

static const struct step *step_at(const struct walk *w, int64_t index)
{
	return lowered_step(w->compiled->lowered, index, NULL);
}

/* Makes ARRAY, which may be NO_VALUE, that of SLOT, of which scratch `moved` has the one in the next state. */
static void enter_slot(struct walk *w, uint32_t slot, uint32_t array)
{
	w->moved[slot] = array;
	if (array != NO_VALUE)
		w->arrays[array].slots++;
}

/* Makes SLOT hold what enter_slot noted. An array that no slot holds any more was last in the state at w->position. */
static void settle_slot(struct walk *w, uint32_t slot)
{
	const uint32_t old = w->held[slot];
	w->held[slot] = w->moved[slot];
	if (old == NO_VALUE || --w->arrays[old].slots > 0)
		return;
	w->arrays[old].first = lesser(w->position, w->arrays[old].first);
	w->arrays[old].last = greater(w->position, w->arrays[old].last);
	w->alive--;
}

/* Moves the walk from the state before STEP to the one after it. */
static void move_forward(struct walk *w, const struct step *step)
{
	const struct body *body = step->body;
	for (size_t i = 0; i < body->in_count; i++)
		if (step->ins[i].dies)
			enter_slot(w, step_slot(step, &body->ins[i]), NO_VALUE);
	for (size_t i = 0; i < body->out_count; i++) {
		const struct value *value = &body->values[body->outs[i].value];
		const uint32_t out = step_slot(step, &body->outs[i]);
		const bool passes = value->from == FROM_PORT && has_slot(step->live_out, out);
		enter_slot(w, out, passes ? w->held[step_slot(step, &body->ins[value->port])] : NO_VALUE);
	}
	for (size_t i = 0; i < body->out_count; i++)
		settle_slot(w, step_slot(step, &body->outs[i]));
	for (size_t i = 0; i < body->in_count; i++)
		if (step->ins[i].dies)
			settle_slot(w, step_slot(step, &body->ins[i]));
}
/* Moves the walk from the state after STEP to the one before it. */
static void move_back(struct walk *w, const struct step *step)
{
	const struct body *body = step->body;
	for (size_t i = 0; i < body->out_count; i++) {
		const uint32_t out = step_slot(step, &body->outs[i]);
		w->moved[out] = NO_VALUE;
		w->written[out] = true;
	}
	for (size_t i = 0; i < body->in_count; i++) {
		const uint32_t in = step_slot(step, &body->ins[i]);
		w->moved[in] = step->ins[i].dies || w->written[in] ? NO_VALUE : w->held[in];
	}
	for (size_t i = body->out_count; i-- > 0;) {
		const struct value *value = &body->values[body->outs[i].value];
		const uint32_t in = value->from == FROM_PORT ? step_slot(step, &body->ins[value->port]) : 0;
		if (value->from == FROM_PORT && w->moved[in] == NO_VALUE)
			w->moved[in] = w->held[step_slot(step, &body->outs[i])];
	}
	for (size_t i = 0; i < body->in_count; i++)
		enter_slot(w, step_slot(step, &body->ins[i]), w->moved[step_slot(step, &body->ins[i])]);
	for (size_t i = 0; i < body->in_count; i++) {
		settle_slot(w, step_slot(step, &body->ins[i]));
		w->written[step_slot(step, &body->ins[i])] = false;
	}
	for (size_t i = 0; i < body->out_count; i++) {
		const uint32_t out = step_slot(step, &body->outs[i]);
		if (w->written[out])
			settle_slot(w, out);
		w->written[out] = false;
	}
}

/* Passes COUNT steps like STEP, one after another. Returns whether any array is left. */
static bool pass_steps(struct walk *w, const struct step *step, int64_t count, bool back)
{
	const int64_t looks = lesser(count, (int64_t)slot_map_count(step->live_in) + 1);
	const int64_t end = w->position + (back ? -count : count);
	for (int64_t i = 0; i < looks && w->alive; i++) {
		if (back)
			move_back(w, step);
		else
			move_forward(w, step);
		w->position += back ? -1 : 1;
	}
	if (w->alive)
		w->position = end;
	return w->alive;
}

/* Returns the cost of STEP without COVERED bytes of arrays that are in the states before all steps of its run. */
static struct step_cost settled_cost(const struct walk *w, const struct step *step, int64_t covered,
                                     struct step_cost cost)
{
	const struct linear *linear = &compiled_step_of(w->compiled, step)->linear;
	cost.state -= covered;
	cost.keeps_input = false;
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct value *value = &linear->record->values[linear->residuals[i].value];
		if (linear->residuals[i].in_state)
			cost.keeps_input |= w->held[step_slot(step, &linear->record->ins[value->port])] == NO_VALUE;
	}
	cost.last_temporary = compiled_last_temporary(w->compiled, step, &cost);
	return cost;
}

/* Settles the cost of RUN, of steps like STEP. The walk is at one of its states. */
static void visit_run(struct walk *w, size_t run, const struct step *step)
{
	if (w->runs)
		w->runs[run].cost = settled_cost(w, step, w->covered[run], w->runs[run].cost);
}

/* Forgets in w->moved the classes of the state before STEP. */
static void forget_classes(struct walk *w, const struct step *step)
{
	struct slot_walk walk = slot_walk_begin(step->live_in);
	for (const struct slot_map *entry = slot_walk_next(&walk); entry; entry = slot_walk_next(&walk))
		w->moved[entry->class] = NO_VALUE;
}

/* Begins a walk at the state before the MIDDLE step, STEP. */
static void enter_middle(struct walk *w, const struct step *step, int64_t middle)
{
	uint32_t count = 0;
	w->position = middle;
	w->alive = 0;
	struct slot_walk walk = slot_walk_begin(step->live_in);
	for (const struct slot_map *entry = slot_walk_next(&walk); entry; entry = slot_walk_next(&walk)) {
		uint32_t *of_class = &w->moved[entry->class]; /* the array of an earlier slot of the class */
		if (*of_class == NO_VALUE)
			*of_class = count++;
		if (!w->arrays[*of_class].lasting)
			continue;
		w->alive += w->arrays[*of_class].slots++ == 0;
		w->held[entry->slot] = *of_class;
	}
	forget_classes(w, step);
}

/* Ends a walk. Arrays that are alive are in the state where it is. */
static void leave(struct walk *w)
{
	for (size_t i = 0; i < w->compiled->lowered->slot_count; i++) {
		w->moved[i] = NO_VALUE;
		if (w->held[i] != NO_VALUE)
			settle_slot(w, (uint32_t)i);
	}
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
	enter_middle(w, step, middle);
	visit_run(w, run, step);
	int64_t at = begin + runs[run].count;
	bool any = pass_steps(w, step, at - middle, false);
	for (size_t i = run + 1; i < w->costs->run_count && any; at += runs[i++].count) {
		visit_run(w, i, step_at(w, at));
		any = pass_steps(w, step_at(w, at), runs[i].count, false);
	}
	leave(w);
	enter_middle(w, step, middle);
	any = pass_steps(w, step, middle - begin, true);
	for (at = begin; run-- > 0 && any;) {
		step = step_at(w, at - runs[run].count);
		any = pass_steps(w, step, runs[run].count, true);
		at -= runs[run].count;
		visit_run(w, run, step);
	}
	leave(w);
}

/* Lists the arrays of the state before STEP, the middle one, each once. */
static void list_arrays(struct walk *w, const struct step *step)
{
	struct slot_walk walk = slot_walk_begin(step->live_in);
	for (const struct slot_map *entry = slot_walk_next(&walk); entry; entry = slot_walk_next(&walk)) {
		if (w->moved[entry->class] != NO_VALUE)
			continue;
		w->moved[entry->class] = 0;
		w->arrays[w->count++] = (struct array){.first = INT64_MAX,
		                                       .last = -1,
		                                       .bytes = round_up(type_bytes(entry->type), ARRAY_ALIGN),
		                                       .cotangent = has_slot(step->cot_in, entry->class),
		                                       .lasting = true};
	}
	forget_classes(w, step);
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

/* Returns the first run that begins at STEP or after. BEGINS has the begin of each. */
static size_t first_run_from(const struct walk *w, const int64_t *begins, int64_t step)
{
	size_t low = 0, high = w->costs->run_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (begins[middle] < step)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Sets w->covered: each lasting array covers neighbouring runs, so differences of neighbours are summed. */
static bool cover_runs(struct walk *w, struct arena *arena)
{
	const size_t count = w->costs->run_count;
	int64_t *begins = arena_array(arena, count + 1, sizeof *begins);
	w->covered = arena_array(arena, count + 1, sizeof *w->covered);
	if (!begins || !w->covered)
		return false;
	for (size_t i = 0; i < count; i++)
		begins[i + 1] = begins[i] + w->costs->runs[i].count;
	for (size_t i = 0; i < w->count; i++) {
		const struct array *array = &w->arrays[i];
		if (!array->lasting)
			continue;
		const size_t first = first_run_from(w, begins, array->first);
		size_t end = first_run_from(w, begins, array->last + 1); /* the run before it may end after the array */
		end -= end > 0 && begins[end] > array->last + 1;
		if (first >= end)
			continue;
		w->covered[first] += array->bytes;
		w->covered[end] -= array->bytes;
	}
	for (size_t i = 0; i < count; i++)
		w->covered[i + 1] += w->covered[i];
	return true;
}

static enum status share_arrays(struct walk *w, struct arena *arena, const struct context *context,
                                struct step_costs *shared)
{
	const int64_t middle = w->costs->steps / 2;
	const size_t slots = w->compiled->lowered->slot_count, runs = w->costs->run_count;
	const struct step *step = step_at(w, middle);
	w->arrays = arena_array(arena, slot_map_count(step->live_in) + 1, sizeof *w->arrays);
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
	TRY_ALLOC(w->runs && cover_runs(w, arena), context->diags);
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
