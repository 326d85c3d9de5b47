/*
 * The arrays that loops of steps make part by part (ops/collect.c), in states.
 *
 *     step        first ............ last | those that read the array
 *     state       the array, with more parts after each iteration
 *     snapshot         holds the same buffer, until the backward pass has come to LAST
 *
 * An iteration writes its part where the array lies, whoever holds that. No copy is made, and no disk slot has the array. A
 * snapshot within the loop holds it only because steps after the loop may run again from there. Once these are reversed, or
 * recorded in the first sweep, nobody reads the array again: snapshots release it, and iterations that run again leave
 * their parts out.
 *
 * Invariant: the entries of one slot are in the order of their first steps, and no two loops share a step.
 * Tests: tests/unit/test_machine.c, tests/cases/loops.test
 */
#include "memory/machine_parts.h"

/* Returns the latest entry of SLOT whose loop has begun before or in step INDEX; NULL if there is none. */
static struct collected_array *collected_at(struct machine *m, uint32_t slot, int64_t index)
{
	struct collected_arrays *all = &m->collected;
	for (size_t i = all->count; i-- > 0;)
		if (all->items[i].slot == slot && all->items[i].first <= index)
			return &all->items[i];
	return NULL;
}

bool machine_begin_collected(struct machine *m, uint32_t slot, const struct value *value, int64_t index,
                             int32_t *buffer)
{
	struct collected_arrays *all = &m->collected;
	*buffer = NO_BUFFER;
	if (m->first_sweep) {
		if (!machine_grow(m, (void **)&all->items, &all->capacity, all->count + 1, sizeof *all->items))
			return false;
		all->items[all->count++] = (struct collected_array){.slot = slot, .first = index, .last = index};
	}
	const struct collected_array *entry = collected_at(m, slot, index);
	if (!entry || entry->passed)
		return true;
	*buffer = machine_make_buffer(m, value->type, value->streamed);
	if (*buffer != NO_BUFFER)
		m->buffers.items[*buffer].collected = true;
	return *buffer != NO_BUFFER;
}

void machine_note_collected(struct machine *m, uint32_t slot, int64_t index)
{
	struct collected_array *entry = m->first_sweep ? collected_at(m, slot, index) : NULL;
	if (entry)
		entry->last = index;
}

void machine_count_collected(struct machine *m, const struct step *step, int64_t index)
{
	const struct body *body = step->body;
	for (size_t i = 0; i < body->out_count && body->collects; i++)
		if (body_collects(body, body->outs[i].value))
			machine_note_collected(m, step_slot(step, &body->outs[i]), index);
}

/* Removes SLOT's array of ENTRY from TREE, a state of POSITION. Returns false if out of memory. */
static bool release_part(struct machine *m, struct state_tree *tree, int64_t position,
                         const struct collected_array *entry)
{
	const int32_t id = tree->root == NO_TREE ? NO_BUFFER : tree_get(&m->trees, *tree, entry->slot, NULL);
	if (position <= entry->first || position > entry->last + 1 || id == NO_BUFFER || !m->buffers.items[id].collected)
		return true;
	return tree_set(&m->trees, tree, entry->slot, NO_BUFFER);
}

/* Notes that nobody reads the array of ENTRY again. Returns false if out of memory. */
static bool pass(struct machine *m, struct collected_array *entry)
{
	struct snapshots *all = &m->snapshots;
	bool ok = true;
	entry->passed = true;
	for (size_t i = 0; i < all->memory_capacity; i++)
		if (all->memory[i].used)
			ok &= release_part(m, &all->memory[i].tree, all->memory[i].position, entry);
	for (size_t i = 0; i < all->disk_capacity; i++)
		if (all->disk[i].step)
			ok &= release_part(m, &all->disk[i].collected, all->disk[i].position, entry);
	return ok;
}

bool machine_reverse_collected(struct machine *m, const struct step *step, int64_t index)
{
	struct collected_arrays *all = &m->collected;
	const struct body *body = step->body;
	bool ok = true;
	for (size_t i = 0; i < body->out_count && body->collects; i++) {
		if (!body_collects(body, body->outs[i].value))
			continue;
		struct collected_array *entry = collected_at(m, step_slot(step, &body->outs[i]), index);
		if (entry && !entry->passed)
			ok &= pass(m, entry);
		if (!entry || entry->first != index)
			continue;
		for (*entry = all->items[--all->count]; entry > all->items && entry[-1].first > entry->first; entry--) {
			const struct collected_array swap = entry[-1];
			entry[-1] = *entry;
			*entry = swap;
		}
	}
	return ok;
}

bool machine_pass_recorded(struct machine *m)
{
	bool ok = true;
	for (size_t i = 0; i < m->collected.count; i++)
		if (m->recorded_from >= 0 && m->recorded_from <= m->collected.items[i].last + 1)
			ok &= pass(m, &m->collected.items[i]);
	return ok;
}

bool machine_keep_collected(struct machine *m, struct disk_state *to)
{
	bool ok = tree_release(&m->trees, &to->collected);
	struct slot_walk walk = slot_walk_begin(to->step->live_in);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk));)
		if (entry->collected && machine_buffer(m, entry->slot) != NO_BUFFER)
			ok &= tree_set(&m->trees, &to->collected, entry->slot, machine_buffer(m, entry->slot));
	return ok;
}
