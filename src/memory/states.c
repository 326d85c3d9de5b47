/* States that are kept: in slots, as they are or in fewer bits, and on disk. */
#include "memory/machine_parts.h"

#include <assert.h>

#include "base/checked.h"

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
		*count = step->live_in_count;
		return step->live_in;
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
	struct type narrow = machine_narrow_type(m, type);
	return shape_count(&narrow.shape) * (int64_t)dtype_size(narrow.dtype);
}

/* A copy of the array FROM in a buffer of BYTES, which is *COPY: in fewer bits (NARROW), or out of them. */
static enum status convert(struct machine *m, int32_t from, int64_t bytes, bool narrow, int32_t *copy)
{
	const int32_t id = *copy = machine_buffer(m, m->buffers[from].type, bytes);
	if (id == NO_BUFFER)
		return machine_memory(m);
	struct buffer *to = &m->buffers[id];
	const struct buffer *of = &m->buffers[from];
	to->origin = of->origin;
	to->names = of->names;
	to->step = of->step;
	if (!m->hooks || !m->hooks->convert)
		return STATUS_OK;
	return m->hooks->convert(m->hooks->context, to->offset, of->offset, of->type, narrow);
}

enum status machine_save(struct machine *m, int64_t slot, bool narrow)
{
	struct snapshot *s = snapshot_at(m, &m->slots, &m->slot_capacity, slot);
	uint32_t count;
	const uint32_t *live = live_slots(m, m->position, &count);
	if (!s)
		return machine_memory(m);
	assert(!s->used && m->has_state);
	if (s->capacity < count) {
		s->capacity = count > 2 * s->capacity ? count : 2 * s->capacity;
		s->buffers = arena_array(&m->arena, s->capacity, sizeof *s->buffers);
		s->slots = arena_array(&m->arena, s->capacity, sizeof *s->slots);
		if (m->arena.failed)
			return machine_memory(m);
	}
	s->used = true;
	s->position = m->position;
	s->count = count;
	s->narrow = narrow;
	for (uint32_t i = 0; i < count; i++) {
		s->slots[i] = live[i];
		int32_t full = m->state[live[i]];
		s->buffers[i] = full;
		for (uint32_t k = 0; narrow && k < i; k++)
			if (m->state[live[k]] == full)
				s->buffers[i] = s->buffers[k];
		if (narrow && s->buffers[i] == full) {
			enum status status = convert(m, full, narrow_bytes(m, m->buffers[full].type), true, &s->buffers[i]);
			if (status)
				return status;
		}
		machine_hold(m, s->buffers[i]);
	}
	m->used_slots++;
	if (m->used_slots > m->counters->checkpoints)
		m->counters->checkpoints = m->used_slots;
	return STATUS_OK;
}

enum status machine_load(struct machine *m, int64_t slot)
{
	assert((size_t)slot < m->slot_capacity && m->slots[slot].used);
	const struct snapshot *s = &m->slots[slot];
	if (!machine_drop_state(m))
		return machine_memory(m);
	for (size_t i = 0; i < s->count; i++) {
		int32_t id = s->buffers[i];
		for (size_t k = 0; s->narrow && k < i; k++)
			if (s->buffers[k] == s->buffers[i])
				id = m->state[s->slots[k]];
		if (s->narrow && id == s->buffers[i]) {
			enum status status = convert(m, s->buffers[i], type_bytes(m->buffers[id].type), false, &id);
			if (status)
				return status;
		}
		if (!machine_set_state(m, s->slots[i], id))
			return machine_memory(m);
	}
	m->has_state = true;
	m->position = s->position;
	return STATUS_OK;
}

enum status machine_drop(struct machine *m, int64_t slot)
{
	struct snapshot *s = &m->slots[slot];
	bool ok = true;
	assert(s->used);
	for (size_t i = 0; i < s->count; i++)
		ok &= machine_let_go(m, s->buffers[i]);
	s->used = false;
	m->used_slots--;
	return ok ? STATUS_OK : machine_memory(m);
}

/* On disk. */

static bool add_array(struct machine *m, size_t *count, int32_t id)
{
	if (!machine_grow(m, (void **)&m->arrays, &m->array_capacity, *count + 1, sizeof *m->arrays))
		return false;
	m->arrays[(*count)++] = (struct machine_array){m->buffers[id].offset, m->buffers[id].size};
	return true;
}

/* Tells of a place from which a run could begin, where this is one. */
static enum status report_point(struct machine *m, int64_t slot, size_t count)
{
	if (!m->hooks || !m->hooks->point || m->used_slots || m->record_count)
		return STATUS_OK;
	return m->hooks->point(m->hooks->context, slot, m->arrays, count);
}

enum status machine_spill(struct machine *m, int64_t slot)
{
	struct snapshot *s = snapshot_at(m, &m->disk, &m->disk_capacity, slot);
	const struct step *step = machine_step_at(m, m->position);
	size_t count = 0;
	int64_t bytes = 0;
	if (!s)
		return machine_memory(m);
	s->used = true;
	s->position = m->position;
	for (uint32_t i = 0; i < step->live_in_count; i++) {
		if (step->alias_in[i])
			continue;
		bytes += m->buffers[m->state[step->live_in[i]]].size;
		if (!add_array(m, &count, m->state[step->live_in[i]]))
			return machine_memory(m);
	}
	m->counters->spill_writes++;
	m->counters->spill_bytes = saturated_add(m->counters->spill_bytes, bytes);
	if (bytes > m->counters->spill_state)
		m->counters->spill_state = bytes;
	if (m->hooks && m->hooks->spill) {
		enum status status = m->hooks->spill(m->hooks->context, slot, m->arrays, count);
		if (status)
			return status;
	}
	return report_point(m, slot, count);
}

enum status machine_fetch(struct machine *m, int64_t slot)
{
	const struct snapshot *s = &m->disk[slot];
	size_t count = 0;
	if (!machine_drop_state(m))
		return machine_memory(m);
	for (size_t i = 0; i < m->buffer_count; i++)
		if (m->buffers[i].holds && !add_array(m, &count, (int32_t)i))
			return machine_memory(m);
	enum status status = report_point(m, -1, count);
	if (status)
		return status;
	m->position = s->position;
	m->has_state = true;
	m->counters->spill_reads++;
	const struct step *step = machine_step_at(m, m->position);
	count = 0;
	for (uint32_t i = 0; i < step->live_in_count; i++) {
		int32_t id = NO_BUFFER;
		for (uint32_t k = 0; step->alias_in[i] && k < i; k++)
			if (step->class_in[k] == step->class_in[i])
				id = m->state[step->live_in[k]];
		if (id == NO_BUFFER) {
			id = machine_buffer(m, step->in_types[i], type_bytes(step->in_types[i]));
			if (id == NO_BUFFER || !add_array(m, &count, id))
				return machine_memory(m);
			m->buffers[id].step = m->position - 1;
		}
		if (!machine_set_state(m, step->live_in[i], id))
			return machine_memory(m);
	}
	return m->hooks && m->hooks->fetch ? m->hooks->fetch(m->hooks->context, slot, m->arrays, count) : STATUS_OK;
}
