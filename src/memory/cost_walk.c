/*
 * The walk updates the bytes that are held with each action and step.
 *
 * Invariant: between actions `bytes` is the sum that cost_walk.h describes.
 *
 * Equal steps that are recorded or reversed together are handled at once, and so are steps that are advanced
 * over. A segment tree over the runs has the sums of times and the maxima of bytes. So recomputing a million equal
 * steps a thousand times takes a thousand operations, and n advances over n unlike steps take n log n.
 * Tests: tests/unit/test_budget.c, tests/unit/test_schedule.c
 */
#include "memory/cost_walk.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"

/* The time and memory of advancing over a range of steps. */
struct forward_range {
	double time;  /* of all steps */
	int64_t need; /* the bytes of the step that takes most: the states on both sides and its workspace */
};

/* Positions BEGIN .. LAST: one held state with its number of HOLDERS, or recorded steps (HOLDERS has no meaning). */
struct span_held {
	int64_t begin, last, holders;
};

/* Spans that are disjoint and ascend. */
struct held_spans {
	struct span_held *items;
	size_t count, capacity;
};

struct walk {
	const struct step_costs *costs;
	const struct allocator *allocator;
	int64_t *starts;              /* the first step of each run; one more at the end */
	struct forward_range *ranges; /* 2 * blocks: node i covers nodes 2 i and 2 i + 1, node blocks + k block k of runs */
	size_t blocks;
	size_t run;                 /* the run that cost_of returned last: the next is mostly near */
	struct held_spans states;   /* held by slots or as the current state, each a span of its own */
	struct held_spans recorded; /* steps whose residuals are held; no two spans touch */
	int64_t current;            /* position of the current state, or -1 */
	int64_t cotangent;          /* position of the cotangent */
	bool swept, reversing;      /* swept: state n was reached; reversing: a BACKWARD has begun */
	int64_t in_slots;           /* number of memory slots in use */
	int64_t bytes;
	int64_t high; /* the most bytes since walk_parts set it */
	double time;
	struct counters *counters;
};

enum { BLOCK = 32 }; /* runs in a leaf, so that the tree is smaller than the costs */

static struct forward_range join_ranges(struct forward_range a, struct forward_range b)
{
	return (struct forward_range){a.time + b.time, a.need > b.need ? a.need : b.need};
}

/* Returns what steps BEGIN .. END-1, all of RUN, take. The state after a run's last step is the next run's. */
static struct forward_range part_of_run(const struct walk *w, size_t run, int64_t begin, int64_t end)
{
	const struct step_cost *cost = &w->costs->runs[run].cost;
	const int64_t next = step_costs_state_after(w->costs, run);
	const bool whole = end == w->starts[run + 1];
	struct forward_range range = {.time = (double)(end - begin) * cost->forward};
	if (end - begin > whole)
		range.need = cost->state + cost->state + cost->forward_temporary;
	if (whole)
		range.need = greater(range.need, cost->state + next + cost->forward_temporary);
	return range;
}

/* Returns what runs FIRST .. LAST-1 take, by a loop over them. */
static struct forward_range whole_runs(const struct walk *w, size_t first, size_t last)
{
	struct forward_range range = {0};
	for (size_t run = first; run < last; run++)
		range = join_ranges(range, part_of_run(w, run, w->starts[run], w->starts[run + 1]));
	return range;
}

/* Returns what blocks FIRST .. LAST-1 take, by the tree. */
static struct forward_range whole_blocks(const struct walk *w, size_t first, size_t last)
{
	struct forward_range range = {0};
	for (first += w->blocks, last += w->blocks; first < last; first /= 2, last /= 2) {
		if (first % 2)
			range = join_ranges(range, w->ranges[first++]);
		if (last % 2)
			range = join_ranges(range, w->ranges[--last]);
	}
	return range;
}

static size_t find_run(const struct walk *w, int64_t step)
{
	size_t low = 0, high = w->costs->run_count;
	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;
		if (w->starts[middle] <= step)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Returns what steps BEGIN .. END-1, at least one, take. */
static struct forward_range forward_range(const struct walk *w, int64_t begin, int64_t end)
{
	const size_t first = find_run(w, begin), last = find_run(w, end - 1);
	if (first == last)
		return part_of_run(w, first, begin, end);
	struct forward_range range =
		join_ranges(part_of_run(w, first, begin, w->starts[first + 1]), part_of_run(w, last, w->starts[last], end));
	const size_t low = first / BLOCK + 1, high = last / BLOCK; /* the blocks between */
	if (low >= high)
		return join_ranges(range, whole_runs(w, first + 1, last));
	range = join_ranges(range, whole_runs(w, first + 1, low * BLOCK));
	range = join_ranges(range, whole_runs(w, high * BLOCK, last));
	return join_ranges(range, whole_blocks(w, low, high));
}

static const struct step_cost *cost_of(struct walk *w, int64_t step)
{
	const int64_t *starts = w->starts + w->run;
	if (step >= starts[1] && w->run + 1 < w->costs->run_count && step < starts[2])
		w->run++;
	else if (step < starts[0] && w->run > 0 && step >= starts[-1])
		w->run--;
	else if (step < starts[0] || step >= starts[1])
		w->run = find_run(w, step);
	return &w->costs->runs[w->run].cost;
}

static int64_t bytes_of_state(struct walk *w, int64_t position)
{
	return position >= w->costs->steps ? w->costs->output : cost_of(w, position)->state;
}

/* Returns the index of the first span that ends at POSITION or after; the number of spans if none does. */
static size_t find_span(const struct held_spans *spans, int64_t position)
{
	size_t low = 0, high = spans->count;
	for (size_t near = 0; high > 0 && near < 4; near++) { /* a schedule works near the latest checkpoint */
		if (spans->items[high - 1].last < position)
			return high;
		high--;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (spans->items[middle].last < position)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* True if a position from BEGIN to LAST is in a span. */
static bool holds_any(const struct held_spans *spans, int64_t begin, int64_t last)
{
	size_t at = find_span(spans, begin);
	return at < spans->count && spans->items[at].begin <= last;
}

/* Returns LAST if no span has a position from BEGIN to LAST; else the position before the first such span. */
static int64_t free_until(const struct held_spans *spans, int64_t begin, int64_t last)
{
	size_t at = find_span(spans, begin);
	return at < spans->count && spans->items[at].begin <= last ? spans->items[at].begin - 1 : last;
}

/* Inserts a span of POSITION alone at index AT, with one holder. False if out of memory. */
static bool insert_span(struct walk *w, struct held_spans *spans, size_t at, int64_t position)
{
	if (!allocator_grow(w->allocator, (void **)&spans->items, &spans->capacity, spans->count + 1, sizeof *spans->items))
		return false;
	memmove(&spans->items[at + 1], &spans->items[at], (spans->count++ - at) * sizeof *spans->items);
	spans->items[at] = (struct span_held){position, position, 1};
	return true;
}

static void remove_span(struct held_spans *spans, size_t at)
{
	memmove(&spans->items[at], &spans->items[at + 1], (--spans->count - at) * sizeof *spans->items);
}

/* Returns the bytes that state POSITION adds now: 0 if nothing holds it, or if residuals of the step before have it. */
static int64_t state_charge(struct walk *w, int64_t position)
{
	if (position > 0 && holds_any(&w->recorded, position - 1, position - 1) && cost_of(w, position - 1)->keeps_output)
		return 0;
	bool kept = holds_any(&w->states, position, position) ||
	            (position < w->costs->steps && holds_any(&w->recorded, position, position) &&
	             cost_of(w, position)->keeps_input);
	return kept ? bytes_of_state(w, position) : 0;
}

/* Raises the two peaks to at least the bytes held now and EXTRA more. */
static void note_peak(struct walk *w, int64_t extra)
{
	w->high = greater(w->high, w->bytes + extra);
	w->counters->peak_bytes = greater(w->counters->peak_bytes, w->bytes + extra);
}

static bool hold_state(struct walk *w, int64_t position)
{
	size_t at = find_span(&w->states, position);
	if (at < w->states.count && w->states.items[at].begin == position) {
		w->states.items[at].holders++;
		return true;
	}
	w->bytes -= state_charge(w, position);
	if (!insert_span(w, &w->states, at, position))
		return false;
	w->bytes += state_charge(w, position);
	return true;
}

static void release_state(struct walk *w, int64_t position)
{
	if (position < 0)
		return;
	size_t at = find_span(&w->states, position);
	if (--w->states.items[at].holders > 0)
		return;
	w->bytes -= state_charge(w, position);
	remove_span(&w->states, at);
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

/* Adds STEP to the recorded steps and joins it to its neighbours. */
static bool add_recorded(struct walk *w, int64_t step)
{
	struct held_spans *recorded = &w->recorded;
	size_t at = find_span(recorded, step);
	struct span_held *next = recorded->items ? &recorded->items[at] : NULL; /* no list yet: it is empty */
	bool before = at > 0 && next[-1].last == step - 1;
	bool after = at < recorded->count && next->begin == step + 1;
	if (!before && !after)
		return insert_span(w, recorded, at, step);
	if (before)
		next[-1].last = after ? next->last : step;
	else
		next->begin = step;
	if (before && after)
		remove_span(recorded, at);
	return true;
}

/* Removes the steps from BEGIN on from the last recorded span, which must contain BEGIN. */
static void remove_recorded(struct walk *w, int64_t begin)
{
	struct span_held *last = &w->recorded.items[w->recorded.count - 1];
	last->last = begin - 1;
	w->recorded.count -= last->last < last->begin;
}

/* Actions. A function that returns a bool returns false if out of memory. */

/*
 * Returns how many of the steps BEGIN .. END-1 can be advanced over at once: neither they nor their neighbours are
 * recorded, and no state after BEGIN, up to the one after the last of them, is held. If none can, returns 1.
 */
static int64_t forward_stretch(struct walk *w, int64_t begin, int64_t end)
{
	end = free_until(&w->states, begin + 1, end);
	end = free_until(&w->recorded, begin - (begin > 0), end);
	return end > begin ? end - begin : 1;
}

static bool take_forward(struct walk *w, const struct action *a)
{
	for (int64_t step = a->begin, count; step < a->end; step += count) {
		count = forward_stretch(w, step, a->end);
		w->counters->evaluations += count;
		w->counters->executions += count;
		w->time += forward_range(w, step, step + count).time;
		if (!hold_state(w, step + 1))
			return false;
		note_peak(w, cost_of(w, step)->forward_temporary);
		w->current = step + 1;
		release_state(w, step);
		if (count == 1)
			continue;
		/* Now the bytes include the state before the second step, which `need` counts again. */
		note_peak(w, forward_range(w, step + 1, step + count).need - bytes_of_state(w, step + 1));
		if (!set_current(w, step + count))
			return false;
	}
	return true;
}

/* Returns the bytes that a recorded step between two equal recorded steps adds. */
static int64_t inner_bytes(const struct step_cost *cost)
{
	return cost->residual + (cost->keeps_input && !cost->keeps_output ? cost->state : 0);
}

/*
 * Records the steps from STEP on that are of its run, except the last, at once. Returns their number: 0 unless the
 * step before is of the run and recorded, and nothing up to END is held. Bytes only grow, so the peak is at the end.
 */
static int64_t record_stretch(struct walk *w, int64_t step, int64_t end)
{
	if (step == 0)
		return 0;
	size_t at = find_span(&w->recorded, step - 1);
	struct span_held *state = &w->states.items[find_span(&w->states, step)];
	if (!holds_any(&w->recorded, step - 1, step - 1) || holds_any(&w->recorded, step, end - 1) || state->holders != 1 ||
	    holds_any(&w->states, step + 1, end))
		return 0;
	const struct step_cost *cost = cost_of(w, step);
	const int64_t *starts = w->starts + w->run;
	int64_t count = (starts[1] < end ? starts[1] : end) - step - 1;
	if (starts[0] == step || count < 1)
		return 0;
	w->recorded.items[at].last += count;
	w->bytes += count * inner_bytes(cost);
	note_peak(w, cost->record_temporary + (cost->keeps_output || cost->keeps_input ? 0 : cost->state));
	state->begin = state->last = w->current += count; /* the current state */
	w->counters->evaluations += count;
	w->counters->executions += count;
	w->time += (double)count * cost->forward;
	return count;
}

/* READ: the state after A is read. */
static bool take_record(struct walk *w, const struct action *a, bool read)
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
		const bool unread = !read && step + 1 == a->end;
		w->counters->evaluations++;
		w->counters->unread += unread;
		w->counters->executions += !unread || cost->keeps_output;
		w->time += unread ? cost->record : cost->forward;
	}
	return true;
}

/*
 * Reverses the recorded steps below TOP that are of the run of step TOP, except the lowest, at once. Returns their
 * number: 0 if a slot holds a state among them, or state TOP. The peak is at the first that is reversed.
 */
static int64_t backward_stretch(struct walk *w, int64_t begin, int64_t top)
{
	if (top == w->costs->steps)
		return 0;
	const struct span_held *last = &w->recorded.items[w->recorded.count - 1];
	const struct step_cost *cost = cost_of(w, top);
	int64_t low = last->begin > begin ? last->begin : begin;
	low = (low > w->starts[w->run] ? low : w->starts[w->run]) + 1;
	if (low >= top || holds_any(&w->states, low, top))
		return 0;
	note_peak(w, cost->state + cost->backward_temporary);
	w->bytes -= (top - low) * inner_bytes(cost);
	w->time += (double)(top - low) * cost->backward;
	remove_recorded(w, low);
	w->cotangent = low;
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
		assert(w->recorded.count && w->recorded.items[w->recorded.count - 1].last == top - 1);
		top -= backward_stretch(w, a->begin, top);
		int64_t step = top - 1;
		const struct step_cost *cost = cost_of(w, step);
		w->bytes += cost->state;
		note_peak(w, cost->backward_temporary);
		w->bytes -= bytes_of_state(w, step + 1) + cost->residual + state_charge(w, step + 1) + state_charge(w, step);
		remove_recorded(w, step);
		w->bytes += state_charge(w, step + 1) + state_charge(w, step);
		w->time += cost_of(w, step)->backward;
		w->cotangent = step;
	}
	return true;
}

static bool load_state(struct walk *w, int64_t position)
{
	if (!set_current(w, position))
		return false;
	note_peak(w, 0);
	return true;
}

/* READ: if A is a RECORD, the state after it is read. */
static bool walk_action(struct walk *w, const struct action *a, bool read)
{
	struct counters *c = w->counters;
	switch (a->kind) {
	case ACT_FORWARD:
	case ACT_RECORD:
		assert(w->current == a->begin);
		if (!(a->kind == ACT_RECORD ? take_record(w, a, read) : take_forward(w, a)))
			return false;
		if (!w->swept && w->current == w->costs->steps) {
			w->swept = true;
			c->stored_bytes = w->bytes - w->costs->fixed - state_charge(w, w->current);
		}
		return true;
	case ACT_BACKWARD:
		return take_backward(w, a);
	case ACT_SAVE:
		c->checkpoints = greater(c->checkpoints, ++w->in_slots);
		return hold_state(w, a->begin);
	case ACT_SPILL:
		c->spill_writes++;
		w->time += w->costs->spill_write;
		return true;
	case ACT_FETCH:
		c->spill_reads++;
		w->time += w->costs->spill_read;
		/* Drop the current state first: it and the new one need not be in memory at once. */
		return set_current(w, -1) && load_state(w, a->begin);
	case ACT_LOAD:
		return load_state(w, a->begin);
	case ACT_DROP:
		release_state(w, a->begin);
		w->in_slots--;
		return true;
	case ACT_DISCARD:
		return true;
	}
	return true;
}

/* Walks action A in at most 64 parts and passes each to options->part. The parts' costs add up to those of A. */
static bool walk_parts(struct walk *w, const struct action *a, bool read, const struct cost_walk_options *options)
{
	enum { PARTS = 64 };
	bool over = action_is_on_steps(a->kind);
	int64_t steps = over ? a->end - a->begin : 1, parts = steps < PARTS ? steps : PARTS;
	for (int64_t i = 0; i < parts; i++) {
		struct action part = *a;
		int64_t begin = (int64_t)((__int128)steps * i / parts), end = (int64_t)((__int128)steps * (i + 1) / parts);
		double from = w->time;
		bool again = w->swept && a->kind != ACT_BACKWARD;
		if (over) {
			part.begin = a->kind == ACT_BACKWARD ? a->end - end : a->begin + begin;
			part.end = part.begin + end - begin;
		}
		w->high = w->bytes;
		if (!walk_action(w, &part, read || i + 1 < parts))
			return false;
		w->high = greater(w->high, w->bytes);
		if (!options->part(options->part_context, &part, from, w->time, w->high, again))
			return false;
	}
	return true;
}

static bool make_ranges(struct walk *w)
{
	const size_t runs = w->costs->run_count;
	w->blocks = (runs + BLOCK - 1) / BLOCK;
	w->starts = allocator_get(w->allocator, runs + 1, sizeof *w->starts);
	w->ranges = allocator_get(w->allocator, 2 * w->blocks + 1, sizeof *w->ranges);
	if (!w->starts || !w->ranges)
		return false;
	w->starts[0] = 0;
	for (size_t i = 0; i < runs; i++)
		w->starts[i + 1] = w->starts[i] + w->costs->runs[i].count;
	for (size_t k = 0; k < w->blocks; k++)
		w->ranges[w->blocks + k] = whole_runs(w, k * BLOCK, (k + 1) * BLOCK < runs ? (k + 1) * BLOCK : runs);
	for (size_t i = w->blocks; i-- > 1;)
		w->ranges[i] = join_ranges(w->ranges[2 * i], w->ranges[2 * i + 1]);
	return true;
}

static void walk_end(struct walk *w)
{
	allocator_put(w->allocator, w->starts, (w->costs->run_count + 1) * sizeof *w->starts);
	allocator_put(w->allocator, w->ranges, (2 * w->blocks + 1) * sizeof *w->ranges);
	allocator_put(w->allocator, w->states.items, w->states.capacity * sizeof *w->states.items);
	allocator_put(w->allocator, w->recorded.items, w->recorded.capacity * sizeof *w->recorded.items);
}

static void set_costs(struct walk *w)
{
	struct counters *c = w->counters;
	const struct step_costs *costs = w->costs;
	for (size_t i = 0; i < costs->run_count; i++) {
		c->forward_cost += (double)costs->runs[i].count * costs->runs[i].cost.forward;
		c->backward_cost += (double)costs->runs[i].count * costs->runs[i].cost.backward;
	}
	c->forward_cost += step_costs_last_record(costs);
	double disk = (double)c->spill_writes * costs->spill_write + (double)c->spill_reads * costs->spill_read;
	double recomputed = w->time - disk - c->forward_cost - c->backward_cost;
	/* The sums are in different orders, so without recomputation the rest is rounding alone. */
	c->recomputed_cost = c->evaluations > costs->steps && recomputed > 0 ? recomputed : 0;
}

enum status cost_walk(const struct context *context, struct schedule *schedule, const struct step_costs *costs,
                      const struct cost_walk_options *options, struct counters *counters, double *time)
{
	static const struct cost_walk_options plain = {0};
	struct walk w = {.costs = costs,
	                 .allocator = context->allocator,
	                 .current = -1,
	                 .cotangent = costs->steps,
	                 .bytes = costs->fixed,
	                 .counters = counters};
	struct action action, next;
	if (!options)
		options = &plain;
	*counters = (struct counters){.steps = costs->steps};
	bool ok = make_ranges(&w) && set_current(&w, 0), within = true;
	note_peak(&w, 0);
	schedule_rewind(schedule);
	for (bool more = schedule_next(schedule, &action); ok && within && more; action = next) {
		more = schedule_next(schedule, &next);
		const bool read = action_is_read(more ? &next : NULL);
		ok = options->part ? walk_parts(&w, &action, read, options) : walk_action(&w, &action, read);
		within = !options->most || counters->peak_bytes <= options->most;
	}
	schedule_rewind(schedule);
	set_costs(&w);
	*time = w.time;
	walk_end(&w);
	return ok ? STATUS_OK : diag_memory(context->diags);
}
