/* Buffers in the slab, and their holders. */
#include "memory/machine_parts.h"

#include <assert.h>
#include <string.h>

bool machine_grow(struct machine *m, void **array, size_t *capacity, size_t wanted, size_t size)
{
	if (wanted <= *capacity)
		return true;
	size_t next = *capacity ? 2 * *capacity : 16;
	if (next < wanted)
		next = wanted;
	void *grown = m->allocator->resize(m->allocator->context, *array, *capacity * size, next * size);
	if (!grown)
		return false;
	memset((char *)grown + *capacity * size, 0, (next - *capacity) * size);
	*array = grown;
	*capacity = next;
	return true;
}

int32_t machine_buffer(struct machine *m, const struct type *type, int64_t size)
{
	int32_t id = m->free_buffer;
	if (id != NO_BUFFER) {
		m->free_buffer = m->buffers[id].next_free;
	} else {
		if (!machine_grow(m, (void **)&m->buffers, &m->buffer_capacity, m->buffer_count + 1, sizeof *m->buffers))
			return NO_BUFFER;
		id = (int32_t)m->buffer_count++;
	}
	m->buffers[id] = (struct buffer){.size = size, .type = type, .step = -1, .sequence = m->sequence++};
	m->buffers[id].offset = pool_get(&m->pool, size);
	return m->buffers[id].offset < 0 ? NO_BUFFER : id;
}

bool machine_let_go(struct machine *m, int32_t id)
{
	if (id == NO_BUFFER || --m->buffers[id].holds > 0)
		return true;
	assert(m->buffers[id].holds == 0);
	if (!pool_put(&m->pool, m->buffers[id].offset, m->buffers[id].size))
		return false;
	m->buffers[id].next_free = m->free_buffer;
	m->free_buffer = id;
	return true;
}

bool machine_set_holder(struct machine *m, int32_t *holder, int32_t id)
{
	int32_t old = *holder;
	machine_hold(m, id);
	*holder = id;
	return machine_let_go(m, old);
}

bool machine_set_state(struct machine *m, uint32_t slot, int32_t id)
{
	if (id == m->state[slot])
		return true;
	if (m->state[slot] == NO_BUFFER)
		m->held[m->held_count++] = slot;
	return machine_set_holder(m, &m->state[slot], id);
}

bool machine_drop_state(struct machine *m)
{
	bool ok = true;
	while (m->held_count)
		ok &= machine_set_holder(m, &m->state[m->held[--m->held_count]], NO_BUFFER);
	m->has_state = false;
	return ok;
}
