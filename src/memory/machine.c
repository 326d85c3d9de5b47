/* Tests: tests/unit/test_machine.c */
#include "memory/machine_parts.h"

#include <assert.h>
#include <string.h>

/* Makes m->steps for fast look-up, of up to FEW steps; not with hooks, which want the loops' counters too. */
static bool list_steps(struct machine *m)
{
	enum { FEW = 1 << 16 };
	const int64_t count = m->lowered->steps;
	if (m->hooks || m->compiled->by_value || count > FEW)
		return true;
	const struct step **steps = allocator_get(m->context->allocator, (size_t)count + 1, sizeof *steps);
	for (int64_t i = 0; steps && i < count; i++)
		steps[i] = machine_step_at(m, i);
	m->steps = steps;
	return steps != NULL;
}

static bool make_tables(struct machine *m)
{
	const size_t slots = m->lowered->slot_count;
	m->cotangent = arena_array(&m->arena, slots, sizeof *m->cotangent);
	m->ports.by_slot = arena_array(&m->arena, slots, sizeof *m->ports.by_slot);
	for (size_t i = 0; i < slots && !m->arena.failed; i++)
		m->cotangent[i] = NO_BUFFER;
	return !m->arena.failed;
}

/* Returns the type of the chain's input in the state before the first step. Sets *FIRST to that step, or NULL. */
static const struct type *first_input_type(struct machine *m, const struct step **first)
{
	*first = machine_step_count(m) ? machine_step_at(m, 0) : NULL;
	struct slot_walk walk = slot_walk_begin(*first ? (*first)->live_in : NULL);
	const struct slot_map *lowest = slot_walk_next(&walk);
	return lowest ? lowest->type : &m->lowered->begins;
}

static enum status begin_machine(struct machine *m)
{
	const struct step *first;
	arena_init(&m->arena, m->context->allocator);
	memo_init(&m->memo, m->context->allocator);
	m->buffers.free = NO_BUFFER;
	pool_init(&m->buffers.pool, m->context->allocator);
	trees_init(&m->trees, &m->buffers, m->lowered->slot_count);
	m->state.tree.root = NO_TREE;
	TRY_ALLOC(list_steps(m) && make_tables(m), m->context->diags);
	m->alone = !m->hooks && !m->options->held && !m->compiled->by_value;
	const struct type *type = first_input_type(m, &first);
	const int32_t id = machine_make_buffer(m, type, true);
	TRY_ALLOC(id != NO_BUFFER, m->context->diags);
	m->state.exists = true;
	bool ok = machine_set_state(m, 0, id);
	struct slot_walk walk = slot_walk_begin(first ? first->live_in : NULL);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk));)
		ok &= machine_set_state(m, entry->slot, id);
	return ok ? machine_exchange(m, MACHINE_INPUT, m->buffers.items[id].offset, type, true) : machine_memory(m);
}

/* Records the steps of ACTION. The state after them is made if NEXT, which may be NULL, or the output needs it. */
static enum status record_steps(struct machine *m, const struct action *action, const struct action *next)
{
	const bool output = m->first_sweep && action->end == machine_step_count(m) && m->options->want_value;
	const bool read = output || action_is_read(next);
	if (m->recorded_from < 0)
		m->recorded_from = action->begin;
	for (int64_t i = action->begin; i < action->end; i++) {
		const bool last = i + 1 == action->end;
		TRY(machine_forward(m, i, last && !read ? FORWARD_RECORD_ONLY : FORWARD_RECORD));
	}
	return STATUS_OK;
}

/* NEXT is the action after ACTION; NULL after the last. */
static enum status run_action(struct machine *m, const struct action *action, const struct action *next)
{
	switch (action->kind) {
	case ACT_FORWARD:
	case ACT_RECORD:
		assert(m->state.exists && m->state.position == action->begin);
		TRY(action->kind == ACT_FORWARD ? machine_forward_steps(m, action->begin, action->end)
		                                : record_steps(m, action, next));
		return m->first_sweep && action->end == machine_step_count(m) ? machine_end_first_sweep(m) : STATUS_OK;
	case ACT_SAVE:
		return machine_save(m, action->slot);
	case ACT_LOAD:
		return machine_load(m, action->slot);
	case ACT_DROP:
		return machine_drop(m, action->slot);
	case ACT_SPILL:
		return machine_spill(m, action->slot);
	case ACT_FETCH:
		return machine_fetch(m, action->slot);
	case ACT_DISCARD:
		return STATUS_OK;
	case ACT_BACKWARD:
		TRY_ALLOC(machine_drop_state(m), m->context->diags);
		TRY(m->seeded ? STATUS_OK : machine_seed(m));
		for (int64_t i = action->end; i-- > action->begin;)
			TRY(machine_reverse(m, i));
		return STATUS_OK;
	}
	return STATUS_OK;
}

static enum status finish_machine(struct machine *m)
{
	const struct step *first;
	const struct type *type = first_input_type(m, &first);
	if (!first) {
		TRY(machine_end_first_sweep(m));
		TRY_ALLOC(machine_drop_state(m), m->context->diags);
		TRY(machine_seed(m));
	}
	const struct gradient_place *place = &m->lowered->gradient_at;
	int32_t *const gradient = &m->cotangent[place->slot];
	TRY(machine_exchange(m, MACHINE_GRADIENT, buffers_offset(&m->buffers, *gradient),
	                     place->slot ? place->computed : type, place->slot ? place->streamed : true));
	TRY_ALLOC(buffers_move(&m->buffers, gradient, NO_BUFFER), m->context->diags);
	for (size_t i = 0; i < m->snapshots.disk_capacity; i++)
		TRY_ALLOC(!m->snapshots.disk[i].step || tree_release(&m->trees, &m->snapshots.disk[i].collected),
		          m->context->diags);
	assert(!buffers_any_held(&m->buffers));
	return STATUS_OK;
}

static void free_machine(struct machine *m)
{
	const struct allocator *a = m->context->allocator;
	struct snapshots *s = &m->snapshots;
	trees_free(&m->trees);
	buffers_free(&m->buffers);
	allocator_put(a, s->memory, s->memory_capacity * sizeof *s->memory);
	allocator_put(a, s->disk, s->disk_capacity * sizeof *s->disk);
	allocator_put(a, s->arrays, s->array_capacity * sizeof *s->arrays);
	allocator_put(a, m->collected.items, m->collected.capacity * sizeof *m->collected.items);
	allocator_put(a, m->records.items, m->records.capacity * sizeof *m->records.items);
	allocator_put(a, m->records.residuals, m->records.residual_capacity * sizeof *m->records.residuals);
	allocator_put(a, m->ports.made, m->ports.made_capacity * sizeof *m->ports.made);
	allocator_put(a, m->steps, ((size_t)m->lowered->steps + 1) * sizeof *m->steps);
	memo_free(&m->memo);
	arena_free(&m->arena);
}

/* Calls the boundary hook after DONE actions of *SCHEDULE. If the walk goes on elsewhere, so does *SCHEDULE. */
static enum status cross_boundary(struct machine *m, struct schedule **schedule, int64_t done)
{
	struct machine_switch to = {.compiled = NULL};
	struct action action;
	if (!m->hooks || !m->hooks->boundary || !m->first_sweep || !m->state.exists)
		return STATUS_OK;
	int64_t *offsets = allocator_get(m->context->allocator, m->lowered->slot_count, sizeof *offsets);
	TRY_ALLOC(offsets, m->context->diags);
	for (size_t i = 0; i < m->lowered->slot_count; i++)
		offsets[i] = buffers_offset(&m->buffers, machine_buffer(m, (uint32_t)i));
	const enum status status = m->hooks->boundary(m->hooks->context, m->state.position, offsets, &to);
	allocator_put(m->context->allocator, offsets, m->lowered->slot_count * sizeof *offsets);
	TRY(status);
	if (!to.compiled)
		return STATUS_OK;
	m->compiled = to.compiled;
	m->lowered = to.compiled->lowered;
	m->counters->steps = m->lowered->steps;
	*schedule = to.schedule;
	schedule_rewind(to.schedule);
	while (done-- > 0 && schedule_next(to.schedule, &action))
		;
	return machine_drop_others(m, machine_step_at(m, m->state.position)->live_in) ? STATUS_OK : machine_memory(m);
}

enum status machine_run(const struct context *context, const struct compiled_chain *compiled, struct schedule *schedule,
                        const struct machine_options *options, struct counters *counters)
{
	struct machine m = {.context = context,
	                    .compiled = compiled,
	                    .lowered = compiled->lowered,
	                    .options = options,
	                    .hooks = options->hooks,
	                    .counters = counters,
	                    .first_sweep = true,
	                    .recorded_from = -1};
	const struct pool *pool = &m.buffers.pool;
	struct machine_log *log = options->log;
	struct action action, next;
	if (log && log->complete) {
		*counters = log->counters;
		return machine_replay(log, options->hooks);
	}
	memset(counters, 0, sizeof *counters);
	counters->steps = compiled->lowered->steps;
	schedule_rewind(schedule);
	int64_t done = 0;
	enum status status = begin_machine(&m);
	if (status == STATUS_OK)
		status = cross_boundary(&m, &schedule, 0);
	bool more = schedule_next(schedule, &action), within = true;
	while (more && within && status == STATUS_OK) {
		struct schedule *const before = schedule;
		more = schedule_next(schedule, &next);
		status = run_action(&m, &action, more ? &next : NULL);
		done++;
		if (status == STATUS_OK && action.kind == ACT_FORWARD)
			status = cross_boundary(&m, &schedule, done);
		if (schedule != before)
			more = schedule_next(schedule, &next);
		if (status == STATUS_OK && m.hooks && m.hooks->progress)
			status = m.hooks->progress(m.hooks->context, &action, pool->top);
		within = !options->most || pool->peak <= options->most;
		action = next;
	}
	if (status == STATUS_OK && within)
		status = finish_machine(&m);
	counters->peak_bytes = pool->peak;
	/* A policy by value may compute less than save-all. And its sums are in another order. */
	if (counters->recomputed_cost < 1e-12 * counters->forward_cost)
		counters->recomputed_cost = 0;
	if (log) {
		log->off |= status != STATUS_OK;
		log->complete = !log->off;
		log->counters = *counters;
	}
	free_machine(&m);
	return status;
}
