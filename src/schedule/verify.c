/*
 * The abstract verifier: what a schedule does, without arrays and without
 * knowing any policy. It decides whether a schedule is right, and counts what
 * running it takes by the model in schedule.h.
 *
 * Invariant: between actions `bytes` is the sum of what is held: fixed, states,
 * residuals and the cotangent. A state is charged while anything holds it and
 * the residuals of the step before it do not hold it already.
 *
 * Steps that are recorded or reversed are walked one by one: that is linear
 * in the chain. Those that are only advanced over are taken at once (advance.h), so
 * that recomputing a million steps a thousand times costs nothing.
 */
#include <string.h>

#include "schedule/forward_memory.h"
#include "schedule/verify.h"

/* States that something holds, by position, each with its number of holders. */
struct held_state {
	int64_t position, holders;
};

/* Steps whose residuals are held: disjoint intervals that do not touch, ascending. */
struct interval {
	int64_t begin, end;
};

struct verifier {
	const struct step_costs *costs;
	const struct allocator *allocator;
	int64_t *starts; /* of each run; one more at the end */
	struct advance_tree tree;
	size_t run;            /* the run of the step asked for last: steps are mostly asked for in order */
	int64_t *slots, *disk; /* the state in each, or -1 */
	int64_t slot_count, disk_count;
	struct held_state *states; /* ascending; for slots and the current state */
	size_t state_count, state_capacity;
	struct interval *recorded;
	size_t recorded_count, recorded_capacity;
	int64_t current;    /* position of the current state, or -1 */
	int64_t cotangent;  /* its position */
	bool swept, turned; /* state n was reached; a BACKWARD has begun */
	int64_t in_slots;
	int64_t bytes;
	int64_t high; /* the most bytes since it was last set */
	struct verdict *verdict;
};

/* Costs. */

static const struct step_cost *cost_of(struct verifier *v, int64_t step)
{
	const int64_t *starts = v->starts + v->run;
	if (step >= starts[1] && v->run + 1 < v->costs->run_count && step < starts[2]) {
		v->run++;
	} else if (step < starts[0] && v->run > 0 && step >= starts[-1]) {
		v->run--;
	} else if (step < starts[0] || step >= starts[1]) {
		v->run = advance_run_of(&v->tree, step);
	}
	return &v->costs->runs[v->run].cost;
}

static int64_t state_bytes(struct verifier *v, int64_t position)
{
	return position >= v->costs->steps ? v->costs->output : cost_of(v, position)->state;
}

/* What is held. */

/* The first held state at POSITION or after. */
static size_t find_state(const struct verifier *v, int64_t position)
{
	size_t low = 0, high = v->state_count;
	if (high > 0 && v->states[high - 1].position < position)
		return high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (v->states[middle].position < position)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_held(const struct verifier *v, int64_t position)
{
	size_t at = find_state(v, position);
	return at < v->state_count && v->states[at].position == position;
}

/* The first interval that ends after STEP. */
static size_t find_interval(const struct verifier *v, int64_t step)
{
	size_t low = 0, high = v->recorded_count;
	if (high > 0 && v->recorded[high - 1].end <= step)
		return high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (v->recorded[middle].end <= step)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_recorded(const struct verifier *v, int64_t step)
{
	size_t at = find_interval(v, step);
	return at < v->recorded_count && v->recorded[at].begin <= step;
}

/* What state POSITION adds to the bytes now. */
static int64_t charge(struct verifier *v, int64_t position)
{
	if (position > 0 && is_recorded(v, position - 1) && cost_of(v, position - 1)->keeps_output)
		return 0;
	bool kept = is_held(v, position) ||
	            (position < v->costs->steps && is_recorded(v, position) && cost_of(v, position)->keeps_input);
	return kept ? state_bytes(v, position) : 0;
}

static void peak(struct verifier *v, int64_t extra)
{
	if (v->bytes + extra > v->high)
		v->high = v->bytes + extra;
	if (v->bytes + extra > v->verdict->peak)
		v->verdict->peak = v->bytes + extra;
}

/* Room for one more element. */
static bool grow(struct verifier *v, void **array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return true;
	size_t next = *capacity ? 2 * *capacity : 16;
	void *grown = v->allocator->resize(v->allocator->context, *array, *capacity * size, next * size);
	if (!grown)
		return false;
	*array = grown;
	*capacity = next;
	return true;
}

static bool hold_state(struct verifier *v, int64_t position)
{
	size_t at = find_state(v, position);
	if (at < v->state_count && v->states[at].position == position) {
		v->states[at].holders++;
		return true;
	}
	if (!grow(v, (void **)&v->states, v->state_count, &v->state_capacity, sizeof *v->states))
		return false;
	v->bytes -= charge(v, position);
	memmove(&v->states[at + 1], &v->states[at], (v->state_count - at) * sizeof *v->states);
	v->states[at] = (struct held_state){position, 1};
	v->state_count++;
	v->bytes += charge(v, position);
	return true;
}

static void release_state(struct verifier *v, int64_t position)
{
	if (position < 0)
		return;
	size_t at = find_state(v, position);
	if (--v->states[at].holders > 0)
		return;
	v->bytes -= charge(v, position);
	memmove(&v->states[at], &v->states[at + 1], (v->state_count - at - 1) * sizeof *v->states);
	v->state_count--;
	v->bytes += charge(v, position);
}

static bool set_current(struct verifier *v, int64_t position)
{
	int64_t old = v->current;
	if (position >= 0 && !hold_state(v, position))
		return false;
	v->current = position;
	release_state(v, old);
	return true;
}

/* Adds STEP to the intervals, joining it to its neighbours. */
static bool add_recorded(struct verifier *v, int64_t step)
{
	size_t at = find_interval(v, step);
	bool before = at > 0 && v->recorded[at - 1].end == step;
	bool after = at < v->recorded_count && v->recorded[at].begin == step + 1;
	if (before && after) {
		v->recorded[at - 1].end = v->recorded[at].end;
		memmove(&v->recorded[at], &v->recorded[at + 1], (v->recorded_count - at - 1) * sizeof *v->recorded);
		v->recorded_count--;
	} else if (before) {
		v->recorded[at - 1].end++;
	} else if (after) {
		v->recorded[at].begin--;
	} else {
		if (!grow(v, (void **)&v->recorded, v->recorded_count, &v->recorded_capacity, sizeof *v->recorded))
			return false;
		memmove(&v->recorded[at + 1], &v->recorded[at], (v->recorded_count - at) * sizeof *v->recorded);
		v->recorded[at] = (struct interval){step, step + 1};
		v->recorded_count++;
	}
	return true;
}

/* Takes STEP, the last that is recorded, out of the intervals. */
static void remove_recorded(struct verifier *v)
{
	struct interval *last = &v->recorded[v->recorded_count - 1];
	last->end--;
	if (last->begin == last->end)
		v->recorded_count--;
}

/* Actions. Each returns what is wrong, or NULL; `out_of_memory` is its own. */

static const char out_of_memory[] = "out of memory", unwanted[] = "it is not wanted";

/* How many steps from BEGIN may be taken at once: those whose states, but for the first, nothing holds or keeps. */
static int64_t stretch(struct verifier *v, int64_t begin, int64_t end)
{
	const size_t state = find_state(v, begin + 1), recorded = find_interval(v, begin - (begin > 0));
	if (state < v->state_count && v->states[state].position <= end)
		end = v->states[state].position - 1;
	if (recorded < v->recorded_count && v->recorded[recorded].begin <= end)
		end = v->recorded[recorded].begin - 1;
	return end > begin ? end - begin : 1;
}

static const char *do_forward(struct verifier *v, const struct action *a)
{
	for (int64_t step = a->begin, count; step < a->end; step += count) {
		count = stretch(v, step, a->end);
		v->verdict->evaluations += count;
		v->verdict->time += advance_over(&v->tree, step, step + count).time;
		if (!hold_state(v, step + 1))
			return out_of_memory;
		peak(v, cost_of(v, step)->forward_temporary);
		v->current = step + 1;
		release_state(v, step);
		if (count == 1)
			continue;
		/* the bytes now are those of what stays and of the state before the second */
		peak(v, advance_over(&v->tree, step + 1, step + count).need - state_bytes(v, step + 1));
		if (!set_current(v, step + count))
			return out_of_memory;
	}
	return NULL;
}

/* Bytes that a step in the midst of equal recorded ones keeps. */
static int64_t inner_bytes(const struct step_cost *cost)
{
	return cost->residual + (cost->keeps_input && !cost->keeps_output ? cost->state : 0);
}

/*
 * Records equal steps from STEP on at once, all but the last, where the step
 * before is one of them and is recorded and nothing on the way is held. Bytes
 * only grow, so the last of them is the peak. Returns how many.
 */
static int64_t record_stretch(struct verifier *v, int64_t step, int64_t end)
{
	if (step == 0 || end > v->cotangent)
		return 0;
	size_t at = find_interval(v, step - 1), held = find_state(v, step);
	if (at == v->recorded_count || v->recorded[at].begin >= step || v->recorded[at].end != step ||
	    (at + 1 < v->recorded_count && v->recorded[at + 1].begin < end))
		return 0;
	if (v->states[held].holders != 1 || (held + 1 < v->state_count && v->states[held + 1].position <= end))
		return 0;
	const struct step_cost *cost = cost_of(v, step);
	if (v->starts[v->run] == step)
		return 0;
	int64_t until = v->starts[v->run + 1] < end ? v->starts[v->run + 1] : end, count = until - step - 1;
	if (count < 1)
		return 0;
	v->recorded[at].end += count;
	v->bytes += count * inner_bytes(cost);
	peak(v, cost->record_temporary + (cost->keeps_output || cost->keeps_input ? 0 : cost->state));
	v->states[held].position += count; /* the current state moves on */
	v->current += count;
	v->verdict->evaluations += count;
	v->verdict->time += (double)count * cost->forward;
	return count;
}

static const char *do_record(struct verifier *v, const struct action *a)
{
	for (int64_t step = a->begin; step < a->end; step++) {
		step += record_stretch(v, step, a->end);
		if (is_recorded(v, step))
			return "the residuals of a step are held already";
		if (step >= v->cotangent)
			return "a step is recorded that was reversed already";
		const struct step_cost *cost = cost_of(v, step);
		if (!hold_state(v, step + 1))
			return out_of_memory;
		/* Both its states are held, so being recorded changes their charge only through keeps_output. */
		v->bytes -= charge(v, step + 1);
		if (!add_recorded(v, step))
			return out_of_memory;
		v->bytes += charge(v, step + 1) + cost->residual;
		peak(v, cost->record_temporary);
		v->current = step + 1;
		release_state(v, step);
		v->verdict->evaluations++;
		v->verdict->time += cost->forward;
	}
	return NULL;
}

/*
 * Turns equal steps back from TOP at once, all but the lowest, where they are
 * recorded together and no state among them is held otherwise. The first of them
 * is the peak. Returns how many.
 */
static int64_t backward_stretch(struct verifier *v, int64_t begin, int64_t top)
{
	if (!v->recorded_count || v->recorded[v->recorded_count - 1].end != top || top == v->costs->steps)
		return 0;
	const struct step_cost *cost = cost_of(v, top);
	int64_t low = v->recorded[v->recorded_count - 1].begin;
	low = low > begin ? low : begin;
	low = (low > v->starts[v->run] ? low : v->starts[v->run]) + 1;
	size_t held = find_state(v, low);
	if (low >= top || (held < v->state_count && v->states[held].position <= top))
		return 0;
	peak(v, cost->state + cost->backward_temporary);
	v->bytes -= (top - low) * inner_bytes(cost);
	v->verdict->time += (double)(top - low) * cost->backward;
	v->recorded[v->recorded_count - 1].end = v->cotangent = low;
	return top - low;
}

static const char *do_backward(struct verifier *v, const struct action *a)
{
	if (a->end != v->cotangent)
		return "the cotangent is not at the end of what is reversed";
	if (!set_current(v, -1))
		return out_of_memory;
	if (!v->turned)
		v->bytes += state_bytes(v, v->cotangent);
	v->turned = true;
	for (int64_t top = a->end; top > a->begin; top--) {
		top -= backward_stretch(v, a->begin, top);
		int64_t step = top - 1;
		if (!v->recorded_count || v->recorded[v->recorded_count - 1].end != step + 1)
			return "the residuals of a step are not held";
		const struct step_cost *cost = cost_of(v, step);
		v->bytes += cost->state;
		peak(v, cost->backward_temporary);
		v->bytes -= state_bytes(v, step + 1) + cost->residual + charge(v, step + 1) + charge(v, step);
		remove_recorded(v);
		v->bytes += charge(v, step + 1) + charge(v, step);
		v->verdict->time += cost_of(v, step)->backward;
		v->cotangent = step;
	}
	return NULL;
}

static const char *do_keep(struct verifier *v, const struct action *a)
{
	bool disk = a->kind == ACT_SPILL;
	if (a->slot < 0 || a->slot >= (disk ? v->disk_count : v->slot_count))
		return "there is no such slot";
	int64_t *slot = disk ? &v->disk[a->slot] : &v->slots[a->slot];
	if (*slot >= 0)
		return "the slot is not empty";
	if (v->current != a->begin)
		return "the current state is another one";
	*slot = a->begin;
	if (disk) {
		v->verdict->spill_writes++;
		v->verdict->time += v->costs->spill_write;
		return NULL;
	}
	if (++v->in_slots > v->verdict->checkpoints)
		v->verdict->checkpoints = v->in_slots;
	return hold_state(v, a->begin) ? NULL : out_of_memory;
}

static const char *do_bring(struct verifier *v, const struct action *a)
{
	bool disk = a->kind == ACT_FETCH;
	if (a->slot < 0 || a->slot >= (disk ? v->disk_count : v->slot_count))
		return "there is no such slot";
	if ((disk ? v->disk[a->slot] : v->slots[a->slot]) != a->begin)
		return "the slot does not hold that state";
	if (!v->swept)
		return "a state is brought back before the first sweep is done";
	if (disk) {
		v->verdict->spill_reads++;
		v->verdict->time += v->costs->spill_read;
		/* The state that is given up goes first: it need not be there beside the new one. */
		if (!set_current(v, -1))
			return out_of_memory;
	}
	if (!set_current(v, a->begin))
		return out_of_memory;
	peak(v, 0);
	return NULL;
}

static const char *do_empty(struct verifier *v, const struct action *a)
{
	bool disk = a->kind == ACT_DISCARD;
	if (a->slot < 0 || a->slot >= (disk ? v->disk_count : v->slot_count))
		return "there is no such slot";
	int64_t *slot = disk ? &v->disk[a->slot] : &v->slots[a->slot];
	if (*slot < 0)
		return "the slot is empty already";
	if (!disk) {
		release_state(v, *slot);
		v->in_slots--;
	}
	*slot = -1;
	return NULL;
}

static const char *interpret(struct verifier *v, const struct action *a)
{
	switch (a->kind) {
	case ACT_FORWARD:
	case ACT_RECORD: {
		if (v->current != a->begin)
			return "the current state is another one";
		if (a->end <= a->begin || a->end > v->costs->steps)
			return "its end is not after its begin, or beyond the chain";
		const char *wrong = a->kind == ACT_RECORD ? do_record(v, a) : do_forward(v, a);
		v->swept |= v->current == v->costs->steps;
		return wrong;
	}
	case ACT_BACKWARD:
		if (a->end <= a->begin || a->begin < 0)
			return "its end is not after its begin";
		return do_backward(v, a);
	case ACT_SAVE:
	case ACT_SPILL:
		return do_keep(v, a);
	case ACT_LOAD:
	case ACT_FETCH:
		return do_bring(v, a);
	case ACT_DROP:
	case ACT_DISCARD:
		return do_empty(v, a);
	}
	return "there is no such action";
}

static const char *at_end(const struct verifier *v)
{
	if (v->costs->steps == 0)
		return v->verdict->actions ? "there is nothing to do" : NULL;
	if (v->cotangent != 0)
		return "the schedule ends before every step is reversed";
	for (int64_t i = 0; i < v->slot_count; i++)
		if (v->slots[i] >= 0)
			return "the schedule ends with a state in a slot";
	for (int64_t i = 0; i < v->disk_count; i++)
		if (v->disk[i] >= 0)
			return "the schedule ends with a state on disk";
	return NULL;
}

static bool verifier_make(struct verifier *v, const struct schedule *schedule)
{
	size_t runs = v->costs->run_count;
	v->slot_count = schedule_slots(schedule);
	v->disk_count = schedule_disk_slots(schedule);
	v->starts = allocator_get(v->allocator, runs + 1, sizeof *v->starts);
	v->slots = allocator_get(v->allocator, (size_t)v->slot_count + 1, sizeof *v->slots);
	v->disk = allocator_get(v->allocator, (size_t)v->disk_count + 1, sizeof *v->disk);
	if (!v->starts || !v->slots || !v->disk)
		return false;
	v->starts[0] = 0;
	for (size_t i = 0; i < runs; i++)
		v->starts[i + 1] = v->starts[i] + v->costs->runs[i].count;
	if (!advance_tree_make(&v->tree, v->costs, v->starts, v->allocator))
		return false;
	memset(v->slots, 0xff, ((size_t)v->slot_count + 1) * sizeof *v->slots); /* -1 */
	memset(v->disk, 0xff, ((size_t)v->disk_count + 1) * sizeof *v->disk);
	v->current = -1;
	v->cotangent = v->costs->steps;
	v->bytes = v->costs->fixed;
	return set_current(v, 0);
}

static void verifier_free(struct verifier *v)
{
	advance_tree_free(&v->tree);
	allocator_put(v->allocator, v->starts, (v->costs->run_count + 1) * sizeof *v->starts);
	allocator_put(v->allocator, v->slots, ((size_t)v->slot_count + 1) * sizeof *v->slots);
	allocator_put(v->allocator, v->disk, ((size_t)v->disk_count + 1) * sizeof *v->disk);
	allocator_put(v->allocator, v->states, v->state_capacity * sizeof *v->states);
	allocator_put(v->allocator, v->recorded, v->recorded_capacity * sizeof *v->recorded);
}

/* An action in parts, each seen: what goes over many steps is the same whether it is done at once or one by one. */
static const char *interpret_watched(struct verifier *v, const struct action *a, const struct schedule_watch *watch)
{
	enum { PARTS = 64 };
	bool over = a->kind == ACT_FORWARD || a->kind == ACT_RECORD || a->kind == ACT_BACKWARD;
	int64_t steps = over && a->end > a->begin ? a->end - a->begin : 1, parts = steps < PARTS ? steps : PARTS;
	for (int64_t i = 0; i < parts; i++) {
		struct action part = *a;
		int64_t begin = (int64_t)((__int128)steps * i / parts), end = (int64_t)((__int128)steps * (i + 1) / parts);
		double from = v->verdict->time;
		bool again = v->swept;
		if (over && a->kind != ACT_BACKWARD) {
			part.begin = a->begin + begin;
			part.end = i + 1 == parts ? a->end : a->begin + end;
		} else if (over) {
			part.end = a->end - begin;
			part.begin = i + 1 == parts ? a->begin : a->end - end;
		}
		v->high = v->bytes;
		const char *wrong = interpret(v, &part);
		if (wrong)
			return wrong;
		if (v->bytes > v->high)
			v->high = v->bytes;
		if (!watch->part(watch->context, &part, from, v->verdict->time, v->high, again && a->kind != ACT_BACKWARD))
			return out_of_memory;
	}
	return NULL;
}

enum status schedule_follow(struct schedule *schedule, const struct step_costs *costs,
                            const struct allocator *allocator, const struct schedule_watch *watch,
                            struct verdict *verdict, struct diags *diags)
{
	*verdict = (struct verdict){.valid = true};
	struct verifier v = {.costs = costs, .allocator = allocator, .verdict = verdict};
	const char *wrong = verifier_make(&v, schedule) ? NULL : out_of_memory;
	peak(&v, 0);
	schedule_rewind(schedule);
	while (!wrong && schedule_next(schedule, &verdict->action)) {
		bool parts = watch && watch->part;
		wrong = parts ? interpret_watched(&v, &verdict->action, watch) : interpret(&v, &verdict->action);
		verdict->actions += !wrong;
		if (!wrong && watch && watch->wanted && !watch->wanted(watch->context, verdict))
			wrong = unwanted;
	}
	schedule_rewind(schedule);
	if (!wrong)
		wrong = at_end(&v);
	verifier_free(&v);
	verdict->valid = !wrong;
	verdict->wrong = wrong;
	return wrong == out_of_memory ? diag_memory(diags) : STATUS_OK;
}

enum status schedule_verify(struct schedule *schedule, const struct step_costs *costs,
                            const struct allocator *allocator, struct verdict *verdict, struct diags *diags)
{
	return schedule_follow(schedule, costs, allocator, NULL, verdict, diags);
}
