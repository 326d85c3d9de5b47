/* States: the current one, those in memory slots (perhaps in fewer bits), and those on disk. */
#include "memory/machine_parts.h"

#include <assert.h>

#include "base/checked.h"

bool machine_set_state(struct machine *m, uint32_t slot, int32_t id)
{
	struct state *s = &m->state;
	if (id == s->buffers[slot])
		return true;
	if (s->buffers[slot] == NO_BUFFER)
		state_add_held(s, slot);
	return buffers_move(&m->buffers, &s->buffers[slot], id);
}

bool machine_drop_state(struct machine *m)
{
	struct state *s = &m->state;
	bool ok = true;
	while (s->held_count)
		ok &= buffers_move(&m->buffers, &s->buffers[s->held[--s->held_count]], NO_BUFFER);
	s->exists = false;
	s->known = NULL;
	return ok;
}

struct type machine_narrow_type(const struct machine *m, const struct type *type)
{
	struct type narrow = *type;
	narrow.dtype = m->options->store;
	return narrow;
}

/* Sets *COPY to a new buffer: FROM in options->store's dtype, or, if FROM is narrow, in its full type. */
static enum status convert_buffer(struct machine *m, int32_t from, int32_t *copy)
{
	const struct buffer of = m->buffers.items[from];
	const struct type narrow = machine_narrow_type(m, of.type);
	const int64_t narrow_bytes = shape_count(&narrow.shape) * (int64_t)dtype_size(narrow.dtype);
	*copy = buffers_make(&m->buffers, of.type, of.narrow ? type_bytes(of.type) : narrow_bytes);
	TRY_ALLOC(*copy != NO_BUFFER, m->context->diags);
	struct buffer *to = &m->buffers.items[*copy];
	to->narrow = !of.narrow;
	to->body = of.body;
	to->value = of.value;
	to->names = of.names;
	to->step = of.step;
	if (!m->hooks || !m->hooks->convert)
		return STATUS_OK;
	return m->hooks->convert(m->hooks->context, to->offset, of.offset, of.type, to->narrow);
}

static bool reserve_snapshot(struct machine *m, struct snapshot *s, size_t count)
{
	if (s->capacity < count) {
		s->capacity = count > 2 * s->capacity ? count : 2 * s->capacity;
		s->buffers = arena_array(&m->arena, s->capacity, sizeof *s->buffers);
		s->slots = arena_array(&m->arena, s->capacity, sizeof *s->slots);
	}
	return !m->arena.failed;
}

enum status machine_save(struct machine *m, int64_t slot)
{
	static const uint32_t output[1] = {0};
	struct snapshots *all = &m->snapshots;
	const bool narrow = m->options->store != DTYPE_COUNT, ends = m->state.position == machine_step_count(m);
	const struct step *step = ends ? NULL : machine_step_at(m, m->state.position);
	const uint32_t *live = step ? step->live_in.slots : output;
	const size_t count = step ? step->live_in.count : 1;
	TRY_ALLOC(machine_grow(m, (void **)&all->memory, &all->memory_capacity, (size_t)slot + 1, sizeof *all->memory) &&
	              reserve_snapshot(m, &all->memory[slot], count),
	          m->context->diags);
	struct snapshot *s = &all->memory[slot];
	assert(!s->used && m->state.exists);
	s->used = true;
	s->position = m->state.position;
	s->count = count;
	for (size_t i = 0; i < count; i++) {
		const int32_t full = s->buffers[i] = m->state.buffers[live[i]];
		s->slots[i] = live[i];
		for (size_t k = 0; narrow && k < i; k++)
			if (m->state.buffers[live[k]] == full)
				s->buffers[i] = s->buffers[k];
		TRY(narrow && s->buffers[i] == full ? convert_buffer(m, full, &s->buffers[i]) : STATUS_OK);
		buffers_hold(&m->buffers, s->buffers[i]);
	}
	m->counters->checkpoints = greater(m->counters->checkpoints, ++all->used);
	return STATUS_OK;
}

enum status machine_load(struct machine *m, int64_t slot)
{
	const struct snapshot *s = &m->snapshots.memory[slot];
	assert((size_t)slot < m->snapshots.memory_capacity && s->used);
	TRY_ALLOC(machine_drop_state(m), m->context->diags);
	for (size_t i = 0; i < s->count; i++) {
		int32_t id = s->buffers[i];
		const bool narrow = m->buffers.items[id].narrow;
		for (size_t k = 0; narrow && k < i; k++)
			if (s->buffers[k] == s->buffers[i])
				id = m->state.buffers[s->slots[k]];
		TRY(narrow && id == s->buffers[i] ? convert_buffer(m, id, &id) : STATUS_OK);
		TRY_ALLOC(machine_set_state(m, s->slots[i], id), m->context->diags);
	}
	m->state.exists = true;
	m->state.position = s->position;
	return STATUS_OK;
}

enum status machine_drop(struct machine *m, int64_t slot)
{
	struct snapshot *s = &m->snapshots.memory[slot];
	bool ok = true;
	assert(s->used);
	for (size_t i = 0; i < s->count; i++)
		ok &= buffers_release(&m->buffers, s->buffers[i]);
	s->used = false;
	m->snapshots.used--;
	return ok ? STATUS_OK : machine_memory(m);
}

static bool append_array(struct machine *m, size_t *count, struct machine_array array)
{
	struct snapshots *all = &m->snapshots;
	if (!machine_grow(m, (void **)&all->arrays, &all->array_capacity, *count + 1, sizeof *all->arrays))
		return false;
	all->arrays[(*count)++] = array;
	return true;
}

static bool add_array(struct machine *m, size_t *count, int32_t id)
{
	return append_array(m, count, (struct machine_array){m->buffers.items[id].offset, m->buffers.items[id].size});
}

enum status machine_offer_point(struct machine *m, int64_t slot)
{
	const struct pool *pool = &m->buffers.pool;
	struct machine_moment moment = {.bytes = pool->top, .recorded = m->records.count > 0, .slot = slot};
	size_t count = 0;
	if (!m->hooks || !m->hooks->wants_point)
		return STATUS_OK;
	for (size_t i = 0; i < pool->count; i++)
		moment.bytes -= pool->holes[i].size;
	if (!m->hooks->wants_point(m->hooks->context, &moment))
		return STATUS_OK;
	for (size_t i = 0; i < m->buffers.count; i++)
		TRY_ALLOC(!m->buffers.items[i].holds || add_array(m, &count, (int32_t)i), m->context->diags);
	return m->hooks->point(m->hooks->context, m->snapshots.arrays, count);
}

enum status machine_spill(struct machine *m, int64_t slot)
{
	struct snapshots *s = &m->snapshots;
	const struct step *step = machine_step_at(m, m->state.position);
	size_t count = 0;
	int64_t bytes = 0;
	TRY(machine_offer_point(m, slot));
	TRY_ALLOC(machine_grow(m, (void **)&s->disk, &s->disk_capacity, (size_t)slot + 1, sizeof *s->disk),
	          m->context->diags);
	s->disk[slot] = (struct disk_state){m->state.position, step};
	for (uint32_t i = 0; i < step->live_in.count; i++) {
		const int32_t id = m->state.buffers[step->live_in.slots[i]];
		if (step->alias_in[i])
			continue;
		bytes += m->buffers.items[id].size;
		TRY_ALLOC(add_array(m, &count, id), m->context->diags);
	}
	m->counters->spill_writes++;
	m->counters->spill_bytes = saturated_add(m->counters->spill_bytes, bytes);
	m->counters->spill_state = greater(m->counters->spill_state, bytes);
	const bool alone = m->first_sweep && !s->used && !m->records.count;
	const enum machine_disk access = alone ? MACHINE_SPILL_ALONE : MACHINE_SPILL;
	return m->hooks && m->hooks->disk ? m->hooks->disk(m->hooks->context, access, slot, s->arrays, count) : STATUS_OK;
}

/* Gives live slot I of the state before STEP an earlier slot's buffer of its class, or a new one, counted in *COUNT. */
static enum status make_fetched(struct machine *m, const struct step *step, uint32_t i, size_t *count)
{
	int32_t id = NO_BUFFER;
	for (uint32_t k = 0; step->alias_in[i] && k < i; k++)
		if (step->class_in[k] == step->class_in[i])
			id = m->state.buffers[step->live_in.slots[k]];
	if (id == NO_BUFFER) {
		id = buffers_make(&m->buffers, step->in_types[i], type_bytes(step->in_types[i]));
		TRY_ALLOC(id != NO_BUFFER && add_array(m, count, id), m->context->diags);
		m->buffers.items[id].step = m->state.position - 1;
	}
	return machine_set_state(m, step->live_in.slots[i], id) ? STATUS_OK : machine_memory(m);
}

/*
 * Lists, in *COUNT arrays, those of the state before WRITTEN, as they lie on disk. The current state, before STEP, has
 * some of them: the walk has gone on with another chain, which needs no more (struct machine_hooks).
 */
static bool list_written(struct machine *m, const struct step *written, const struct step *step, size_t *count)
{
	*count = 0;
	for (uint32_t i = 0; i < written->live_in.count; i++) {
		int32_t id = NO_BUFFER;
		if (written->alias_in[i])
			continue;
		for (uint32_t k = 0; k < step->live_in.count && id == NO_BUFFER; k++)
			if (step->class_in[k] == written->class_in[i])
				id = m->state.buffers[step->live_in.slots[k]];
		if (id != NO_BUFFER ? !add_array(m, count, id)
		                    : !append_array(m, count, (struct machine_array){-1, type_bytes(written->in_types[i])}))
			return false;
	}
	return true;
}

enum status machine_fetch(struct machine *m, int64_t slot)
{
	size_t count = 0;
	TRY_ALLOC(machine_drop_state(m), m->context->diags);
	const struct disk_state *from = &m->snapshots.disk[slot];
	m->state.position = from->position;
	m->state.exists = true;
	m->counters->spill_reads++;
	const struct step *step = machine_step_at(m, m->state.position);
	for (uint32_t i = 0; i < step->live_in.count; i++)
		TRY(make_fetched(m, step, i, &count));
	if (!m->hooks || !m->hooks->disk)
		return STATUS_OK;
	if (step != from->step)
		TRY_ALLOC(list_written(m, from->step, step, &count), m->context->diags);
	return m->hooks->disk(m->hooks->context, MACHINE_FETCH, slot, m->snapshots.arrays, count);
}
