/*
 * The walk over a schedule: what each action does (machine_parts.h says where), and iterations
 * of a loop that need not be walked.
 */
#include "memory/machine_parts.h"

#include <assert.h>
#include <string.h>

/* The steps that a walk asks for again and again. */
static bool list_steps(struct machine *m)
{
	enum { FEW = 1 << 16 };
	const int64_t count = m->lowered->steps;
	if (m->hooks || m->compiled->by_value || count > FEW)
		return true;
	const struct step **steps = allocator_get(m->allocator, (size_t)count + 1, sizeof *steps);
	for (int64_t i = 0; steps && i < count; i++)
		steps[i] = machine_step_at(m, i);
	m->steps = steps;
	return steps != NULL;
}

static enum status begin(struct machine *m)
{
	const size_t slots = m->lowered->slot_count;
	arena_init(&m->arena, m->allocator);
	pool_init(&m->pool, m->allocator);
	if (!list_steps(m))
		return machine_memory(m);
	for (size_t i = 0; i < m->lowered->item_count; i++)
		m->looped |= !m->lowered->items[i].step && !m->hooks && !m->options->held && !m->compiled->by_value;
	m->state = arena_array(&m->arena, slots, sizeof *m->state);
	m->held = arena_array(&m->arena, slots, sizeof *m->held);
	m->cotangent = arena_array(&m->arena, slots, sizeof *m->cotangent);
	m->work = arena_array(&m->arena, slots, sizeof *m->work);
	if (m->arena.failed)
		return machine_memory(m);
	for (size_t i = 0; i < slots; i++)
		m->state[i] = m->cotangent[i] = NO_BUFFER;
	const struct step *first = machine_step_count(m) ? machine_step_at(m, 0) : NULL;
	const struct type *type = first && first->live_in_count ? first->in_types[0] : &m->lowered->begins;
	int32_t id = machine_buffer(m, type, type_bytes(type));
	if (id == NO_BUFFER)
		return machine_memory(m);
	m->input_origin = (struct origin){.argument = true, .param = NO_VALUE};
	m->buffers[id].origin = &m->input_origin;
	m->has_state = true;
	bool ok = machine_set_state(m, 0, id);
	for (uint32_t i = 0; first && i < first->live_in_count; i++)
		ok &= machine_set_state(m, first->live_in[i], id);
	if (!ok)
		return machine_memory(m);
	return machine_exchange(m, MACHINE_INPUT, m->buffers[id].offset, type);
}

/* Turns of a loop. */

/* Writes what decides on where all that follows lies, while no more is held or let go than the state: 0 is failure. */
static size_t write_mark(struct machine *m, int64_t **mark, size_t *capacity)
{
	const size_t slots = m->lowered->slot_count, count = 1 + 2 * (m->pool.count + slots);
	if (!machine_grow(m, (void **)mark, capacity, count, sizeof **mark))
		return 0;
	int64_t *to = *mark;
	*to++ = m->pool.top;
	for (size_t i = 0; i < m->pool.count; i++) {
		*to++ = m->pool.holes[i].offset;
		*to++ = m->pool.holes[i].size;
	}
	for (size_t i = 0; i < slots; i++) {
		const struct buffer *buffer = m->state[i] == NO_BUFFER ? NULL : &m->buffers[m->state[i]];
		*to++ = buffer ? buffer->offset : -1;
		*to++ = buffer ? buffer->holds : 0;
	}
	return count;
}

/* Advances over a iteration of PERIOD steps from *INDEX. *COST: what it cost. */
static enum status run_iteration(struct machine *m, int64_t *index, int64_t period, double *cost)
{
	enum status status = STATUS_OK;
	*cost = 0;
	for (int64_t end = *index + period; *index < end && !status; ++*index) {
		*cost += machine_compiled_step(m, machine_step_at(m, *index))->linear.forward_cost;
		status = machine_advance(m, *index, false, true);
	}
	return status;
}

/*
 * Advances from *INDEX over iterations of PERIOD steps that are alike, to less than some
 * iterations before UNTIL. Once a iteration ends with everything as it was after an earlier one,
 * those between come again and again, and are counted instead of run (Brent's way to
 * find a cycle: the one remembered is the latest of iterations 1, 2, 4, ...).
 */
static enum status run_iterations(struct machine *m, int64_t *index, int64_t period, int64_t until)
{
	enum { HOLES = 64 }; /* beyond which remembering takes longer than running */
	size_t marked = 0;
	for (int64_t iterations = 0, limit = 0; m->pool.count <= HOLES && *index + period <= until; iterations++) {
		if (iterations == limit) {
			marked = write_mark(m, &m->mark, &m->mark_capacity);
			limit = limit ? 2 * limit : 1;
			iterations = 0;
		}
		double cost;
		enum status status = run_iteration(m, index, period, &cost);
		if (status)
			return status;
		size_t count = write_mark(m, &m->now, &m->now_capacity);
		if (!marked || !count)
			return machine_memory(m);
		if (count != marked || memcmp(m->mark, m->now, count * sizeof *m->mark) != 0)
			continue;
		int64_t cycle = (iterations + 1) * period, times = (until - *index) / cycle;
		*index += times * cycle;
		m->position = *index;
		m->counters->evaluations += times * cycle;
		*(m->first_sweep ? &m->counters->forward_cost : &m->counters->recomputed_cost) +=
			(double)(times * (iterations + 1)) * cost;
		return STATUS_OK;
	}
	return STATUS_OK;
}

static enum status forward(struct machine *m, int64_t begin, int64_t end)
{
	enum { TURNS = 5 }; /* of fewer nothing can be spared */
	enum status status = STATUS_OK;
	int64_t alike = begin; /* from here on iterations may be alike */
	for (int64_t i = begin; i < end && !status; i++) {
		int64_t until, period = m->looped && i >= alike ? lowered_period(m->lowered, i, end, TURNS, &until) : 0;
		if (period) {
			status = run_iterations(m, &i, period, until);
			alike = until;
		}
		if (!status && i < end)
			status = machine_advance(m, i, false, true);
	}
	return status;
}

static enum status act(struct machine *m, const struct action *action, const struct action *next)
{
	enum status status = STATUS_OK;
	switch (action->kind) {
	case ACT_FORWARD:
	case ACT_RECORD:
		assert(m->has_state && m->position == action->begin);
		if (action->kind == ACT_FORWARD)
			status = forward(m, action->begin, action->end);
		for (int64_t i = action->begin; i < action->end && action->kind == ACT_RECORD && status == STATUS_OK; i++) {
			bool last = i + 1 == action->end;
			bool iterations = last && (!next || next->kind == ACT_BACKWARD);
			bool output = last && m->first_sweep && i + 1 == machine_step_count(m) && m->options->want_value;
			status = machine_advance(m, i, true, !iterations || output);
		}
		if (status == STATUS_OK && m->first_sweep && action->end == machine_step_count(m))
			status = machine_end_first_sweep(m);
		return status;
	case ACT_SAVE:
		return machine_save(m, action->slot, m->options->store != DTYPE_COUNT);
	case ACT_LOAD:
		return machine_load(m, action->slot);
	case ACT_DROP:
		return machine_drop(m, action->slot);
	case ACT_SPILL:
		return machine_spill(m, action->slot);
	case ACT_FETCH:
		return machine_fetch(m, action->slot);
	case ACT_DISCARD:
		m->disk[action->slot].used = false;
		return STATUS_OK;
	case ACT_BACKWARD:
		if (!machine_drop_state(m))
			return machine_memory(m);
		if (!m->seeded)
			status = machine_seed(m);
		for (int64_t i = action->end; i-- > action->begin && status == STATUS_OK;)
			status = machine_reverse(m, i);
		return status;
	}
	return status;
}

static bool holds_any(const struct machine *m)
{
	for (size_t i = 0; i < m->buffer_count; i++)
		if (m->buffers[i].holds)
			return true;
	return false;
}

static enum status finish(struct machine *m)
{
	enum status status = STATUS_OK;
	if (machine_step_count(m) == 0) {
		status = machine_end_first_sweep(m);
		if (status == STATUS_OK && !machine_drop_state(m))
			status = machine_memory(m);
		if (status == STATUS_OK)
			status = machine_seed(m);
	}
	if (status == STATUS_OK) {
		const struct step *first = machine_step_count(m) ? machine_step_at(m, 0) : NULL;
		const struct type *type = first && first->live_in_count ? first->in_types[0] : &m->lowered->begins;
		int32_t id = m->cotangent[0];
		status = machine_exchange(m, MACHINE_GRADIENT, id == NO_BUFFER ? -1 : m->buffers[id].offset, type);
	}
	if (status == STATUS_OK && !machine_set_holder(m, &m->cotangent[0], NO_BUFFER))
		status = machine_memory(m);
	assert(status || !holds_any(m));
	return status;
}

static void free_machine(struct machine *m)
{
	const struct allocator *a = m->allocator;
	allocator_put(a, m->slots, m->slot_capacity * sizeof *m->slots);
	allocator_put(a, m->disk, m->disk_capacity * sizeof *m->disk);
	allocator_put(a, m->buffers, m->buffer_capacity * sizeof *m->buffers);
	allocator_put(a, m->records, m->record_capacity * sizeof *m->records);
	allocator_put(a, m->residuals, m->residual_capacity * sizeof *m->residuals);
	allocator_put(a, m->made, m->made_capacity * sizeof *m->made);
	allocator_put(a, m->arrays, m->array_capacity * sizeof *m->arrays);
	allocator_put(a, m->mark, m->mark_capacity * sizeof *m->mark);
	allocator_put(a, m->now, m->now_capacity * sizeof *m->now);
	allocator_put(a, m->steps, ((size_t)m->lowered->steps + 1) * sizeof *m->steps);
	arena_free(&m->arena);
	pool_free(&m->pool);
}

enum status machine_run(const struct context *context, const struct compiled_chain *compiled, struct schedule *schedule,
                        const struct machine_options *options, struct counters *counters)
{
	struct machine m = {.compiled = compiled,
	                    .lowered = compiled->lowered,
	                    .options = options,
	                    .hooks = options->hooks,
	                    .allocator = context->allocator,
	                    .report_arena = context->arena,
	                    .diags = context->diags,
	                    .counters = counters,
	                    .free_buffer = NO_BUFFER,
	                    .first_sweep = true};
	memset(counters, 0, sizeof *counters);
	counters->steps = compiled->lowered->steps;
	struct action action, next;
	schedule_rewind(schedule);
	enum status status = begin(&m);
	bool more = schedule_next(schedule, &action), within = true;
	while (more && within && status == STATUS_OK) {
		more = schedule_next(schedule, &next);
		status = act(&m, &action, more ? &next : NULL);
		if (status == STATUS_OK && m.hooks && m.hooks->progress)
			status = m.hooks->progress(m.hooks->context, &action, m.pool.top);
		within = !options->most || m.pool.peak <= options->most;
		action = next;
	}
	if (status == STATUS_OK && within)
		status = finish(&m);
	counters->peak_bytes = m.pool.peak;
	free_machine(&m);
	return status;
}
