/* States: the current one, and those that are kept in slots, as they are or in fewer bits, or on disk. */
#include "memory/machine_parts.h"

#include <assert.h>

#include "base/checked.h"

/* The current state. */

bool machine_set_state(struct machine *m, uint32_t slot, int32_t id)
{
	struct state *s = &m->state;
	if (id == s->buffers[slot])
		return true;
	if (s->buffers[slot] == NO_BUFFER)
		s->held[s->held_count++] = slot;
	return buffers_move(&m->buffers, &s->buffers[slot], id);
}

bool machine_drop_state(struct machine *m)
{
	struct state *s = &m->state;
	bool ok = true;
	while (s->held_count)
		ok &= buffers_move(&m->buffers, &s->buffers[s->held[--s->held_count]], NO_BUFFER);
	s->exists = false;
	return ok;
}

/* In slots. */

static struct snapshot *snapshot_at(struct machine *m, struct snapshot **list, size_t *capacity, int64_t slot)
{
	return machine_grow(m, (void **)list, capacity, (size_t)slot + 1, sizeof **list) ? &(*list)[slot] : NULL;
}

/* The slots of the state at POSITION. */
static const uint32_t *live_slots(struct machine *m, int64_t position, uint32_t *count)
{
	static const uint32_t current[1] = {0};
	if (position < machine_step_count(m)) {
		const struct step *step = machine_step_at(m, position);
		*count = step->live_in.count;
		return step->live_in.slots;
	}
	*count = 1;
	return current;
}

struct type machine_narrow_type(const struct machine *m, const struct type *type)
{
	struct type narrow = *type;
	narrow.dtype = m->options->store;
	return narrow;
}

static int64_t narrow_bytes(const struct machine *m, const struct type *type)
{
	const struct type narrow = machine_narrow_type(m, type);
	return shape_count(&narrow.shape) * (int64_t)dtype_size(narrow.dtype);
}

/* Copies the array of buffer FROM into a new buffer *COPY of BYTES: into fewer bits (NARROW) or back out of them. */
static enum status convert_buffer(struct machine *m, int32_t from, int64_t bytes, bool narrow, int32_t *copy)
{
	const int32_t id = *copy = buffers_make(&m->buffers, m->buffers.items[from].type, bytes);
	if (id == NO_BUFFER)
		return machine_memory(m);
	struct buffer *to = &m->buffers.items[id];
	const struct buffer *of = &m->buffers.items[from];
	to->origin = of->origin;
	to->names = of->names;
	to->step = of->step;
	if (!m->hooks || !m->hooks->convert)
		return STATUS_OK;
	return m->hooks->convert(m->hooks->context, to->offset, of->offset, of->type, narrow);
}

static bool reserve_snapshot(struct machine *m, struct snapshot *s, uint32_t count)
{
	if (s->capacity < count) {
		s->capacity = count > 2 * s->capacity ? count : 2 * s->capacity;
		s->buffers = arena_array(&m->arena, s->capacity, sizeof *s->buffers);
		s->slots = arena_array(&m->arena, s->capacity, sizeof *s->slots);
	}
	return !m->arena.failed;
}

enum status machine_save(struct machine *m, int64_t slot, bool narrow)
{
	struct snapshots *all = &m->snapshots;
	struct snapshot *s = snapshot_at(m, &all->memory, &all->memory_capacity, slot);
	uint32_t count;
	const uint32_t *live = live_slots(m, m->state.position, &count);
	if (!s || !reserve_snapshot(m, s, count))
		return machine_memory(m);
	assert(!s->used && m->state.exists);
	s->used = true;
	s->position = m->state.position;
	s->count = count;
	s->narrow = narrow;
	for (uint32_t i = 0; i < count; i++) {
		const int32_t full = m->state.buffers[live[i]];
		s->slots[i] = live[i];
		s->buffers[i] = full;
		for (uint32_t k = 0; narrow && k < i; k++)
			if (m->state.buffers[live[k]] == full)
				s->buffers[i] = s->buffers[k];
		if (narrow && s->buffers[i] == full) {
			enum status status =
				convert_buffer(m, full, narrow_bytes(m, m->buffers.items[full].type), true, &s->buffers[i]);
			if (status)
				return status;
		}
		buffers_hold(&m->buffers, s->buffers[i]);
	}
	all->used++;
	if (all->used > m->counters->checkpoints)
		m->counters->checkpoints = all->used;
	return STATUS_OK;
}

enum status machine_load(struct machine *m, int64_t slot)
{
	const struct snapshot *s = &m->snapshots.memory[slot];
	assert((size_t)slot < m->snapshots.memory_capacity && s->used);
	if (!machine_drop_state(m))
		return machine_memory(m);
	for (size_t i = 0; i < s->count; i++) {
		int32_t id = s->buffers[i];
		for (size_t k = 0; s->narrow && k < i; k++)
			if (s->buffers[k] == s->buffers[i])
				id = m->state.buffers[s->slots[k]];
		if (s->narrow && id == s->buffers[i]) {
			TRY(convert_buffer(m, id, type_bytes(m->buffers.items[id].type), false, &id));
		}
		if (!machine_set_state(m, s->slots[i], id))
			return machine_memory(m);
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

/* On disk. */

static bool add_array(struct machine *m, size_t *count, int32_t id)
{
	struct snapshots *all = &m->snapshots;
	if (!machine_grow(m, (void **)&all->arrays, &all->array_capacity, *count + 1, sizeof *all->arrays))
		return false;
	all->arrays[(*count)++] = (struct machine_array){m->buffers.items[id].offset, m->buffers.items[id].size};
	return true;
}

/* Reports that a run could begin here, unless a slot in memory or a recorded step holds an array. */
static enum status report_point(struct machine *m, int64_t slot, size_t count)
{
	if (!m->hooks || !m->hooks->point || m->snapshots.used || m->records.count)
		return STATUS_OK;
	return m->hooks->point(m->hooks->context, slot, m->snapshots.arrays, count);
}

enum status machine_spill(struct machine *m, int64_t slot)
{
	struct snapshot *s = snapshot_at(m, &m->snapshots.disk, &m->snapshots.disk_capacity, slot);
	const struct step *step = machine_step_at(m, m->state.position);
	size_t count = 0;
	int64_t bytes = 0;
	if (!s)
		return machine_memory(m);
	s->used = true;
	s->position = m->state.position;
	for (uint32_t i = 0; i < step->live_in.count; i++) {
		const int32_t id = m->state.buffers[step->live_in.slots[i]];
		if (step->alias_in[i])
			continue;
		bytes += m->buffers.items[id].size;
		if (!add_array(m, &count, id))
			return machine_memory(m);
	}
	m->counters->spill_writes++;
	m->counters->spill_bytes = saturated_add(m->counters->spill_bytes, bytes);
	if (bytes > m->counters->spill_state)
		m->counters->spill_state = bytes;
	if (m->hooks && m->hooks->spill) {
		TRY(m->hooks->spill(m->hooks->context, slot, m->snapshots.arrays, count));
	}
	return report_point(m, slot, count);
}

/* Reports the arrays that are held while no current state exists. */
static enum status report_held_point(struct machine *m)
{
	size_t count = 0;
	for (size_t i = 0; i < m->buffers.count; i++)
		if (m->buffers.items[i].holds && !add_array(m, &count, (int32_t)i))
			return machine_memory(m);
	return report_point(m, -1, count);
}

/* Makes a buffer for live slot I of the state before STEP, unless an earlier one of the same class has one. */
static enum status make_fetched(struct machine *m, const struct step *step, uint32_t i, size_t *count)
{
	int32_t id = NO_BUFFER;
	for (uint32_t k = 0; step->alias_in[i] && k < i; k++)
		if (step->class_in[k] == step->class_in[i])
			id = m->state.buffers[step->live_in.slots[k]];
	if (id == NO_BUFFER) {
		id = buffers_make(&m->buffers, step->in_types[i], type_bytes(step->in_types[i]));
		if (id == NO_BUFFER || !add_array(m, count, id))
			return machine_memory(m);
		m->buffers.items[id].step = m->state.position - 1;
	}
	return machine_set_state(m, step->live_in.slots[i], id) ? STATUS_OK : machine_memory(m);
}

enum status machine_fetch(struct machine *m, int64_t slot)
{
	size_t count = 0;
	if (!machine_drop_state(m))
		return machine_memory(m);
	enum status status = report_held_point(m);
	m->state.position = m->snapshots.disk[slot].position;
	m->state.exists = true;
	m->counters->spill_reads++;
	const struct step *step = machine_step_at(m, m->state.position);
	for (uint32_t i = 0; i < step->live_in.count && !status; i++)
		status = make_fetched(m, step, i, &count);
	if (status || !m->hooks || !m->hooks->fetch)
		return status;
	return m->hooks->fetch(m->hooks->context, slot, m->snapshots.arrays, count);
}
