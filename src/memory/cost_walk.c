/*
 * The walk keeps the bytes that are held, as an action or a step changes them.
 *
 * Invariant: between actions `bytes` is the sum that cost_walk.h describes.
 *
 * Equal steps that are recorded or reversed together, and steps that are advanced over, are taken at
 * once (forward_range.h). So recomputing a million steps a thousand times costs nothing.
 */
#include "memory/cost_walk.h"

#include <assert.h>
#include <string.h>

#include "memory/forward_range.h"

/* A state that slots or the current state hold, with the number of holders. */
struct held_state {
	int64_t position, holders;
};

/* Steps whose residuals are held. */
struct interval {
	int64_t begin, end;
};

struct walk {
	const struct step_costs *costs;
	const struct allocator *allocator;
	int64_t *starts; /* the first step of each run; one more at the end */
	struct forward_tree tree;
	size_t run;                /* of the step that was asked for last: most are asked for in order */
	struct held_state *states; /* ascending */
	size_t state_count, state_capacity;
	struct interval *recorded; /* disjoint and not touching, ascending */
	size_t recorded_count, recorded_capacity;
	int64_t current;       /* position of the current state, or -1 */
	int64_t cotangent;     /* its position */
	bool swept, reversing; /* state n was reached; a BACKWARD has begun */
	int64_t in_slots;
	int64_t bytes;
	int64_t high; /* the most bytes since it was last set */
	double time;
	struct counters *counters;
};

/* Costs. */

static const struct step_cost *cost_of(struct walk *w, int64_t step)
{
	const int64_t *starts = w->starts + w->run;
	if (step >= starts[1] && w->run + 1 < w->costs->run_count && step < starts[2])
		w->run++;
	else if (step < starts[0] && w->run > 0 && step >= starts[-1])
		w->run--;
	else if (step < starts[0] || step >= starts[1])
		w->run = forward_tree_run(&w->tree, step);
	return &w->costs->runs[w->run].cost;
}

static int64_t bytes_of_state(struct walk *w, int64_t position)
{
	return position >= w->costs->steps ? w->costs->output : cost_of(w, position)->state;
}

/* What is held. */

/* Returns the index of the first held state at POSITION or after. */
static size_t find_state(const struct walk *w, int64_t position)
{
	size_t low = 0, high = w->state_count;
	if (high > 0 && w->states[high - 1].position < position)
		return high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (w->states[middle].position < position)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* True if a state from position BEGIN to END is held. */
static bool holds_state(const struct walk *w, int64_t begin, int64_t end)
{
	size_t at = find_state(w, begin);
	return at < w->state_count && w->states[at].position <= end;
}

/* Returns the index of the first interval that ends after STEP. */
static size_t find_interval(const struct walk *w, int64_t step)
{
	size_t low = 0, high = w->recorded_count;
	if (high > 0 && w->recorded[high - 1].end <= step)
		return high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (w->recorded[middle].end <= step)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_recorded(const struct walk *w, int64_t step)
{
	size_t at = find_interval(w, step);
	return at < w->recorded_count && w->recorded[at].begin <= step;
}

/* Returns the bytes that state POSITION adds now. */
static int64_t state_charge(struct walk *w, int64_t position)
{
	if (position > 0 && is_recorded(w, position - 1) && cost_of(w, position - 1)->keeps_output)
		return 0;
	bool kept = holds_state(w, position, position) ||
	            (position < w->costs->steps && is_recorded(w, position) && cost_of(w, position)->keeps_input);
	return kept ? bytes_of_state(w, position) : 0;
}

/* Notes that EXTRA bytes are there for a moment. */
static void note_peak(struct walk *w, int64_t extra)
{
	const int64_t bytes = w->bytes + extra;
	if (bytes > w->high)
		w->high = bytes;
	if (bytes > w->counters->peak_bytes)
		w->counters->peak_bytes = bytes;
}

/* Makes place for one element more; false if out of memory. */
static bool grow(struct walk *w, void **array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return true;
	size_t next = *capacity ? 2 * *capacity : 16;
	void *grown = w->allocator->resize(w->allocator->context, *array, *capacity * size, next * size);
	if (!grown)
		return false;
	*array = grown;
	*capacity = next;
	return true;
}

static bool hold_state(struct walk *w, int64_t position)
{
	size_t at = find_state(w, position);
	if (at < w->state_count && w->states[at].position == position) {
		w->states[at].holders++;
		return true;
	}
	if (!grow(w, (void **)&w->states, w->state_count, &w->state_capacity, sizeof *w->states))
		return false;
	w->bytes -= state_charge(w, position);
	memmove(&w->states[at + 1], &w->states[at], (w->state_count - at) * sizeof *w->states);
	w->states[at] = (struct held_state){position, 1};
	w->state_count++;
	w->bytes += state_charge(w, position);
	return true;
}

static void release_state(struct walk *w, int64_t position)
{
	if (position < 0)
		return;
	size_t at = find_state(w, position);
	if (--w->states[at].holders > 0)
		return;
	w->bytes -= state_charge(w, position);
	memmove(&w->states[at], &w->states[at + 1], (w->state_count - at - 1) * sizeof *w->states);
	w->state_count--;
	w->bytes += state_charge(w, position);
}

static bool set_current(struct walk *w, int64_t position)
{
	int64_t old = w->current;
	if (position >= 0 && !hold_state(w, position))
		return false;
	w->current = position;
	release_state(w, old);
	return true;
}

/* Adds STEP to the intervals and joins it to its neighbours. */
static bool add_recorded(struct walk *w, int64_t step)
{
	size_t at = find_interval(w, step);
	bool before = at > 0 && w->recorded[at - 1].end == step;
	bool after = at < w->recorded_count && w->recorded[at].begin == step + 1;
	if (before && after) {
		w->recorded[at - 1].end = w->recorded[at].end;
		memmove(&w->recorded[at], &w->recorded[at + 1], (w->recorded_count - at - 1) * sizeof *w->recorded);
		w->recorded_count--;
	} else if (before) {
		w->recorded[at - 1].end++;
	} else if (after) {
		w->recorded[at].begin--;
	} else {
		if (!grow(w, (void **)&w->recorded, w->recorded_count, &w->recorded_capacity, sizeof *w->recorded))
			return false;
		memmove(&w->recorded[at + 1], &w->recorded[at], (w->recorded_count - at) * sizeof *w->recorded);
		w->recorded[at] = (struct interval){step, step + 1};
		w->recorded_count++;
	}
	return true;
}

/* Removes the last step that is recorded. */
static void remove_recorded(struct walk *w)
{
	struct interval *last = &w->recorded[w->recorded_count - 1];
	last->end--;
	if (last->begin == last->end)
		w->recorded_count--;
}

/* Actions. Each returns false if out of memory. */

/* Returns how many steps from BEGIN can be taken at once: nothing holds the states after them but the first. */
static int64_t forward_stretch(struct walk *w, int64_t begin, int64_t end)
{
	const size_t state = find_state(w, begin + 1), recorded = find_interval(w, begin - (begin > 0));
	if (state < w->state_count && w->states[state].position <= end)
		end = w->states[state].position - 1;
	if (recorded < w->recorded_count && w->recorded[recorded].begin <= end)
		end = w->recorded[recorded].begin - 1;
	return end > begin ? end - begin : 1;
}

static bool take_forward(struct walk *w, const struct action *a)
{
	for (int64_t step = a->begin, count; step < a->end; step += count) {
		count = forward_stretch(w, step, a->end);
		w->counters->evaluations += count;
		w->time += forward_tree_range(&w->tree, step, step + count).time;
		if (!hold_state(w, step + 1))
			return false;
		note_peak(w, cost_of(w, step)->forward_temporary);
		w->current = step + 1;
		release_state(w, step);
		if (count == 1)
			continue;
		/* The bytes now are those of what stays and of the state before the second step. */
		note_peak(w, forward_tree_range(&w->tree, step + 1, step + count).need - bytes_of_state(w, step + 1));
		if (!set_current(w, step + count))
			return false;
	}
	return true;
}

/* Bytes that a recorded step between equal recorded ones keeps. */
static int64_t inner_bytes(const struct step_cost *cost)
{
	return cost->residual + (cost->keeps_input && !cost->keeps_output ? cost->state : 0);
}

/*
 * Records equal steps from STEP on at once, all but the last. The step before must be equal and recorded,
 * and nothing on the way may be held. Bytes only grow, so the peak is at the last. Returns how many.
 */
static int64_t record_stretch(struct walk *w, int64_t step, int64_t end)
{
	if (step == 0)
		return 0;
	size_t at = find_interval(w, step - 1), held = find_state(w, step);
	if (at == w->recorded_count || w->recorded[at].begin >= step || w->recorded[at].end != step ||
	    (at + 1 < w->recorded_count && w->recorded[at + 1].begin < end))
		return 0;
	if (w->states[held].holders != 1 || holds_state(w, step + 1, end))
		return 0;
	const struct step_cost *cost = cost_of(w, step);
	if (w->starts[w->run] == step)
		return 0;
	int64_t until = w->starts[w->run + 1] < end ? w->starts[w->run + 1] : end, count = until - step - 1;
	if (count < 1)
		return 0;
	w->recorded[at].end += count;
	w->bytes += count * inner_bytes(cost);
	note_peak(w, cost->record_temporary + (cost->keeps_output || cost->keeps_input ? 0 : cost->state));
	w->states[held].position += count; /* the current state */
	w->current += count;
	w->counters->evaluations += count;
	w->time += (double)count * cost->forward;
	return count;
}

static bool take_record(struct walk *w, const struct action *a)
{
	for (int64_t step = a->begin; step < a->end; step++) {
		step += record_stretch(w, step, a->end);
		const struct step_cost *cost = cost_of(w, step);
		if (!hold_state(w, step + 1))
			return false;
		/* Both states are held, so recording changes their charge through keeps_output alone. */
		w->bytes -= state_charge(w, step + 1);
		if (!add_recorded(w, step))
			return false;
		w->bytes += state_charge(w, step + 1) + cost->residual;
		note_peak(w, cost->record_temporary);
		w->current = step + 1;
		release_state(w, step);
		w->counters->evaluations++;
		w->time += cost->forward;
	}
	return true;
}

/*
 * Reverses equal steps below TOP at once, all but the lowest. They must be recorded together, and nothing
 * else may hold a state among them. The peak is at the first. Returns how many.
 */
static int64_t backward_stretch(struct walk *w, int64_t begin, int64_t top)
{
	if (top == w->costs->steps)
		return 0;
	struct interval *last = &w->recorded[w->recorded_count - 1];
	const struct step_cost *cost = cost_of(w, top);
	int64_t low = last->begin > begin ? last->begin : begin;
	low = (low > w->starts[w->run] ? low : w->starts[w->run]) + 1;
	if (low >= top || holds_state(w, low, top))
		return 0;
	note_peak(w, cost->state + cost->backward_temporary);
	w->bytes -= (top - low) * inner_bytes(cost);
	w->time += (double)(top - low) * cost->backward;
	last->end = w->cotangent = low;
	return top - low;
}

static bool take_backward(struct walk *w, const struct action *a)
{
	if (!set_current(w, -1))
		return false;
	if (!w->reversing)
		w->bytes += bytes_of_state(w, w->cotangent);
	w->reversing = true;
	for (int64_t top = a->end; top > a->begin; top--) {
		assert(w->recorded_count && w->recorded[w->recorded_count - 1].end == top);
		top -= backward_stretch(w, a->begin, top);
		int64_t step = top - 1;
		const struct step_cost *cost = cost_of(w, step);
		w->bytes += cost->state;
		note_peak(w, cost->backward_temporary);
		w->bytes -= bytes_of_state(w, step + 1) + cost->residual + state_charge(w, step + 1) + state_charge(w, step);
		remove_recorded(w);
		w->bytes += state_charge(w, step + 1) + state_charge(w, step);
		w->time += cost_of(w, step)->backward;
		w->cotangent = step;
	}
	return true;
}

static bool take_load(struct walk *w, const struct action *a)
{
	if (a->kind == ACT_FETCH) {
		w->counters->spill_reads++;
		w->time += w->costs->spill_read;
		/* The current state is dropped first: it need not be there beside the new one. */
		if (!set_current(w, -1))
			return false;
	}
	if (!set_current(w, a->begin))
		return false;
	note_peak(w, 0);
	return true;
}

static bool walk_action(struct walk *w, const struct action *a)
{
	struct counters *c = w->counters;
	switch (a->kind) {
	case ACT_FORWARD:
	case ACT_RECORD:
		assert(w->current == a->begin);
		if (!(a->kind == ACT_RECORD ? take_record(w, a) : take_forward(w, a)))
			return false;
		if (!w->swept && w->current == w->costs->steps) {
			w->swept = true;
			c->stored_bytes = w->bytes - w->costs->fixed - state_charge(w, w->current);
		}
		return true;
	case ACT_BACKWARD:
		return take_backward(w, a);
	case ACT_SAVE:
		if (++w->in_slots > c->checkpoints)
			c->checkpoints = w->in_slots;
		return hold_state(w, a->begin);
	case ACT_SPILL:
		c->spill_writes++;
		w->time += w->costs->spill_write;
		return true;
	case ACT_LOAD:
	case ACT_FETCH:
		return take_load(w, a);
	case ACT_DROP:
		release_state(w, a->begin);
		w->in_slots--;
		return true;
	case ACT_DISCARD:
		return true;
	}
	return true;
}

/* Walks ACTION in parts, and shows each: many steps at once take what they take one by one. */
static bool walk_parts(struct walk *w, const struct action *a, const struct cost_walk_options *options)
{
	enum { PARTS = 64 };
	bool over = a->kind == ACT_FORWARD || a->kind == ACT_RECORD || a->kind == ACT_BACKWARD;
	int64_t steps = over ? a->end - a->begin : 1, parts = steps < PARTS ? steps : PARTS;
	for (int64_t i = 0; i < parts; i++) {
		struct action part = *a;
		int64_t begin = (int64_t)((__int128)steps * i / parts), end = (int64_t)((__int128)steps * (i + 1) / parts);
		double from = w->time;
		bool again = w->swept;
		if (over && a->kind != ACT_BACKWARD) {
			part.begin = a->begin + begin;
			part.end = a->begin + end;
		} else if (over) {
			part.end = a->end - begin;
			part.begin = a->end - end;
		}
		w->high = w->bytes;
		if (!walk_action(w, &part))
			return false;
		if (w->bytes > w->high)
			w->high = w->bytes;
		if (!options->part(options->part_context, &part, from, w->time, w->high, again && a->kind != ACT_BACKWARD))
			return false;
	}
	return true;
}

static bool walk_begin(struct walk *w)
{
	size_t runs = w->costs->run_count;
	w->starts = allocator_get(w->allocator, runs + 1, sizeof *w->starts);
	if (!w->starts)
		return false;
	w->starts[0] = 0;
	for (size_t i = 0; i < runs; i++)
		w->starts[i + 1] = w->starts[i] + w->costs->runs[i].count;
	if (!forward_tree_make(&w->tree, w->costs, w->starts, w->allocator))
		return false;
	w->current = -1;
	w->cotangent = w->costs->steps;
	w->bytes = w->costs->fixed;
	if (!set_current(w, 0))
		return false;
	note_peak(w, 0);
	return true;
}

static void walk_end(struct walk *w)
{
	forward_tree_free(&w->tree);
	allocator_put(w->allocator, w->starts, (w->costs->run_count + 1) * sizeof *w->starts);
	allocator_put(w->allocator, w->states, w->state_capacity * sizeof *w->states);
	allocator_put(w->allocator, w->recorded, w->recorded_capacity * sizeof *w->recorded);
}

static void set_costs(struct walk *w)
{
	struct counters *c = w->counters;
	const struct step_costs *costs = w->costs;
	for (size_t i = 0; i < costs->run_count; i++) {
		c->forward_cost += (double)costs->runs[i].count * costs->runs[i].cost.forward;
		c->backward_cost += (double)costs->runs[i].count * costs->runs[i].cost.backward;
	}
	double disk = (double)c->spill_writes * costs->spill_write + (double)c->spill_reads * costs->spill_read;
	double recomputed = w->time - disk - c->forward_cost - c->backward_cost;
	/* Sums in another order differ by their rounding. */
	c->recomputed_cost = c->evaluations > costs->steps && recomputed > 0 ? recomputed : 0;
}

enum status cost_walk(const struct context *context, struct schedule *schedule, const struct step_costs *costs,
                      const struct cost_walk_options *options, struct counters *counters, double *time)
{
	static const struct cost_walk_options plain = {0};
	struct walk w = {.costs = costs, .allocator = context->allocator, .counters = counters};
	struct action action;
	if (!options)
		options = &plain;
	*counters = (struct counters){.steps = costs->steps};
	bool ok = walk_begin(&w), within = true;
	schedule_rewind(schedule);
	while (ok && within && schedule_next(schedule, &action)) {
		ok = options->part ? walk_parts(&w, &action, options) : walk_action(&w, &action);
		within = !options->most || counters->peak_bytes <= options->most;
	}
	schedule_rewind(schedule);
	set_costs(&w);
	*time = w.time;
	walk_end(&w);
	return ok ? STATUS_OK : diag_memory(context->diags);
}
