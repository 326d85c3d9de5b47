/*
 * States: the current one, those in memory slots (perhaps in fewer bits), and those on disk.
 * Tests: tests/unit/test_machine.c
 */
#include "memory/machine_parts.h"

#include <assert.h>

#include "base/checked.h"

enum { LISTED = NO_BUFFER - 1 }; /* list_written has listed the array of a class */

bool machine_drop_state(struct machine *m)
{
	m->state.exists = false;
	return tree_release(&m->trees, &m->state.tree);
}

/* Releases the slots of *TREE that LIVE lacks. False if out of memory. */
static bool drop_slots(struct machine *m, struct state_tree *tree, const struct slot_map *live)
{
	bool ok = true;
	for (uint32_t slot = 0; (slot = tree_next(&m->trees, *tree, slot)) != NO_MORE_SLOTS; slot++)
		ok &= has_slot(live, slot) || tree_set(&m->trees, tree, slot, NO_BUFFER);
	return ok;
}

bool machine_drop_others(struct machine *m, const struct slot_map *live) { return drop_slots(m, &m->state.tree, live); }

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
	const struct type full = machine_type(m, of.type, of.streamed), narrow = machine_narrow_type(m, &full);
	const int64_t narrow_bytes = shape_count(&narrow.shape) * (int64_t)dtype_size(narrow.dtype);
	*copy = buffers_make(&m->buffers, of.type, of.narrow ? type_bytes(&full) : narrow_bytes);
	TRY_ALLOC(*copy != NO_BUFFER, m->context->diags);
	struct buffer *to = &m->buffers.items[*copy];
	to->narrow = !of.narrow;
	to->streamed = of.streamed;
	to->body = of.body;
	to->value = of.value;
	to->names = of.names;
	to->step = of.step;
	if (!m->hooks || !m->hooks->convert)
		return STATUS_OK;
	return m->hooks->convert(m->hooks->context, to->offset, of.offset, &full, to->narrow);
}

/* Sets *COPY to convert_buffer's of FROM. If an earlier slot of the state holds FROM, that is the same buffer. */
static enum status convert_once(struct machine *m, int32_t from, int32_t *copy)
{
	const int32_t known = m->buffers.items[from].collected ? from : m->buffers.items[from].copy;
	*copy = known;
	TRY(known == NO_BUFFER ? convert_buffer(m, from, copy) : STATUS_OK);
	m->buffers.items[from].copy = *copy;
	return STATUS_OK;
}

/* Makes *TO a tree of converted copies of FROM's buffers, each once. */
static enum status convert_tree(struct machine *m, struct state_tree from, struct state_tree *to)
{
	const struct state_trees *trees = &m->trees;
	int32_t copy;
	*to = (struct state_tree){.root = NO_TREE};
	for (uint32_t slot = 0; (slot = tree_next(trees, from, slot)) != NO_MORE_SLOTS; slot++) {
		TRY(convert_once(m, tree_get(trees, from, slot, NULL), &copy));
		TRY_ALLOC(tree_set(&m->trees, to, slot, copy), m->context->diags);
	}
	for (uint32_t slot = 0; (slot = tree_next(trees, from, slot)) != NO_MORE_SLOTS; slot++)
		m->buffers.items[tree_get(trees, from, slot, NULL)].copy = NO_BUFFER;
	return STATUS_OK;
}

enum status machine_save(struct machine *m, int64_t slot)
{
	static const struct slot_map output = {.slot = 0, .count = 1};
	struct snapshots *all = &m->snapshots;
	const bool ends = m->state.position == machine_step_count(m);
	const struct slot_map *live = ends ? &output : machine_step_at(m, m->state.position)->live_in;
	TRY_ALLOC(machine_grow(m, (void **)&all->memory, &all->memory_capacity, (size_t)slot + 1, sizeof *all->memory),
	          m->context->diags);
	struct snapshot *s = &all->memory[slot];
	assert(!s->used && m->state.exists);
	s->used = true;
	s->position = m->state.position;
	struct state_tree tree = tree_hold(&m->trees, m->state.tree);
	if (tree.count > slot_map_count(live))
		TRY_ALLOC(drop_slots(m, &tree, live), m->context->diags);
	if (m->options->store != DTYPE_COUNT) {
		TRY(convert_tree(m, tree, &s->tree));
		TRY_ALLOC(tree_release(&m->trees, &tree), m->context->diags);
	} else {
		s->tree = tree;
	}
	m->counters->checkpoints = greater(m->counters->checkpoints, ++all->used);
	return STATUS_OK;
}

enum status machine_load(struct machine *m, int64_t slot)
{
	const struct snapshot *s = &m->snapshots.memory[slot];
	assert((size_t)slot < m->snapshots.memory_capacity && s->used);
	TRY_ALLOC(machine_drop_state(m), m->context->diags);
	if (m->options->store != DTYPE_COUNT)
		TRY(convert_tree(m, s->tree, &m->state.tree));
	else
		m->state.tree = tree_hold(&m->trees, s->tree);
	m->state.exists = true;
	m->state.position = s->position;
	return STATUS_OK;
}

enum status machine_drop(struct machine *m, int64_t slot)
{
	struct snapshot *s = &m->snapshots.memory[slot];
	assert(s->used);
	s->used = false;
	m->snapshots.used--;
	return tree_release(&m->trees, &s->tree) ? STATUS_OK : machine_memory(m);
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
	const struct pair *hole;
	for (struct place at = {0, 0}; (hole = sorted_at(&pool->holes, at)); at = sorted_after(&pool->holes, at))
		moment.bytes -= hole->second;
	if (!m->hooks->wants_point(m->hooks->context, &moment))
		return STATUS_OK;
	for (size_t i = 0; i < m->buffers.count; i++)
		TRY_ALLOC(!m->buffers.items[i].holds || add_array(m, &count, (int32_t)i), m->context->diags);
	return m->hooks->point(m->hooks->context, m->snapshots.arrays, count);
}

/* Makes scratch m->ports.by_slot NO_BUFFER for each class of the state before STEP. */
static void begin_classes(struct machine *m, const struct step *step)
{
	struct slot_walk walk = slot_walk_begin(step->live_in);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk));)
		m->ports.by_slot[entry->class] = NO_BUFFER;
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
	if (!s->disk[slot].step)
		s->disk[slot].collected = (struct state_tree){.root = NO_TREE};
	s->disk[slot].position = m->state.position;
	s->disk[slot].step = step;
	TRY_ALLOC(machine_keep_collected(m, &s->disk[slot]), m->context->diags);
	begin_classes(m, step);
	struct slot_walk walk = slot_walk_begin(step->live_in);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk));) {
		const int32_t id = machine_buffer(m, entry->slot);
		if (entry->collected || m->ports.by_slot[entry->class] != NO_BUFFER)
			continue;
		m->ports.by_slot[entry->class] = id;
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

/*
 * Gives the slot of ENTRY in the current state the buffer of its class, or a new one, counted in *COUNT. Arrays that were
 * not written are in COLLECTED.
 */
static enum status make_fetched(struct machine *m, const struct slot_map *entry, struct state_tree collected,
                                size_t *count)
{
	int32_t *id = &m->ports.by_slot[entry->class];
	if (entry->collected) {
		const int32_t kept = collected.root == NO_TREE ? NO_BUFFER : tree_get(&m->trees, collected, entry->slot, NULL);
		return machine_set_state(m, entry->slot, kept) ? STATUS_OK : machine_memory(m);
	}
	if (*id == NO_BUFFER) {
		*id = machine_make_buffer(m, entry->type, entry->streamed);
		TRY_ALLOC(*id != NO_BUFFER && add_array(m, count, *id), m->context->diags);
		m->buffers.items[*id].step = m->state.position - 1;
	}
	return machine_set_state(m, entry->slot, *id) ? STATUS_OK : machine_memory(m);
}

/*
 * Lists, in *COUNT arrays, those of the state before WRITTEN, as they lie on disk. The current state has some of them, by
 * class in m->ports.by_slot: the walk has gone on with another chain, which needs no more (struct machine_hooks).
 */
static bool list_written(struct machine *m, const struct step *written, size_t *count)
{
	*count = 0;
	struct slot_walk walk = slot_walk_begin(written->live_in);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk));) {
		int32_t *id = &m->ports.by_slot[entry->class];
		if (entry->collected || *id == LISTED)
			continue;
		if (*id != NO_BUFFER ? !add_array(m, count, *id)
		                     : !append_array(m, count, (struct machine_array){-1, type_bytes(entry->type)}))
			return false;
		*id = LISTED;
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
	begin_classes(m, from->step);
	begin_classes(m, step);
	struct slot_walk walk = slot_walk_begin(step->live_in);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk));)
		TRY(make_fetched(m, entry, from->collected, &count));
	if (!m->hooks || !m->hooks->disk)
		return STATUS_OK;
	if (step != from->step)
		TRY_ALLOC(list_written(m, from->step, &count), m->context->diags);
	return m->hooks->disk(m->hooks->context, MACHINE_FETCH, slot, m->snapshots.arrays, count);
}
