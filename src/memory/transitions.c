/*
 * Forward steps whose effect is known. Without hooks, what a forward step does to memory depends on two things:
 *   - the mark before it: where the state's arrays lie, which of them others hold too, and which bytes are free;
 *   - its kind: its program, its time, and where its slots stand in the states before and after it.
 * So a step is a transition of an automaton from mark to mark, with kinds as symbols. Most steps of a long chain,
 * and nearly all that a policy recomputes, are transitions that the machine has walked before. The walk follows these
 * by a table, and makes the state's buffers again only where it leaves them. A chain of n unlike stages needs no more
 * marks than one of equal stages, as long as the arrays have few sizes.
 *
 * Transitions are computed when they are first needed, and all are forgotten when they are too many: lazy transition
 * evaluation (Aho, Sethi and Ullman, Compilers, 1986, section 3.7). tests/unit/test_machine.c checks them against full
 * walks.
 * Tests: tests/unit/test_machine.c
 */
#include "memory/machine_parts.h"

#include <assert.h>
#include <string.h>

enum {
	MOST_TRANSITIONS = 1 << 14, /* with more, all are forgotten; so with more words of marks and kinds: */
	MOST_WORDS = 1 << 16,
	MOST_MARK = 256, /* words; a larger mark takes longer than a step */
	MOST_SLOTS = MOST_MARK / 2,
	WORTH = 4,          /* steps that must be followed for each that is walked */
	UNPAID_MOST = 8192, /* words of marks that may be written beside those that followed steps pay for */
	PAID = 64,          /* words that take as long to write as a followed step saves */
};

/* A mark's words: the top of the pool, the number of holes, the holes, then two for each slot. See slot_words. */
static const int64_t *slot_words(const int64_t *mark, size_t k) { return mark + 2 + 2 * mark[1] + 2 * k; }
static bool held_apart(const int64_t *words) { return words[0] & 1; }
static int64_t offset_of(const int64_t *words) { return words[0] >> 1; }

size_t machine_write_mark(struct machine *m, const uint32_t *slots, size_t count, int64_t **mark, size_t *capacity)
{
	struct buffers *b = &m->buffers;
	const struct pool *pool = &b->pool;
	const size_t words = 2 + 2 * (pool->holes.count + count);
	if (!machine_grow(m, (void **)mark, capacity, words, sizeof **mark))
		return 0;
	int64_t *to = *mark;
	*to++ = pool->top;
	*to++ = (int64_t)pool->holes.count;
	const struct pair *hole;
	for (struct place at = {0, 0}; (hole = sorted_at(&pool->holes, at)); at = sorted_after(&pool->holes, at)) {
		*to++ = hole->first;
		*to++ = hole->second;
	}
	for (int pass = 0; pass < 3; pass++) { /* without the state's own holds, those of others are left */
		for (size_t k = 0; k < count; k++) {
			bool shared;
			const int32_t id = tree_get(&m->trees, m->state.tree, slots[k], &shared);
			struct buffer *buffer = id == NO_BUFFER ? NULL : &b->items[id];
			if (buffer && pass != 1) {
				buffer->holds += pass ? 1 : -1;
			} else if (pass == 1) {
				*to++ = buffer ? 2 * buffer->offset + (buffer->holds > 0 || shared) : -1;
				*to++ = buffer ? buffer->size : 0;
			}
		}
	}
	return words;
}

/* Lists the slots of MAP, of at most MOST_SLOTS, in LIST. Returns their number. */
static size_t list_slots(const struct slot_map *map, uint32_t list[MOST_SLOTS])
{
	size_t count = 0;
	struct slot_walk walk = slot_walk_begin(map);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk));)
		list[count++] = entry->slot;
	return count;
}

/* Sets the mark of the current state, whose slots are LIVE, if it is small enough. False if out of memory. */
static bool note_mark(struct machine *m, const struct slot_map *live)
{
	struct transitions *t = &m->transitions;
	size_t number;
	t->at = NO_MARK;
	t->made = true;
	t->off |= t->written > UNPAID_MOST + PAID * t->followed;
	/* The first state may have a slot that no step reads. */
	const size_t slots = slot_map_count(live);
	if (t->off || m->state.tree.count != slots || 2 + 2 * (m->buffers.pool.holes.count + slots) > MOST_MARK)
		return true;
	uint32_t list[MOST_SLOTS];
	const size_t count = machine_write_mark(m, list, list_slots(live, list), &m->marks.now, &m->marks.now_capacity);
	const int64_t *mark = count ? byte_set_keep(&t->known_marks, m->marks.now, count * sizeof *mark, &number) : NULL;
	if (!mark)
		return false;
	t->written += (int64_t)count;
	if (number == t->mark_count) {
		const int64_t **added = arena_append(&t->arena, &t->marks, &t->mark_count, &t->mark_capacity, sizeof *added);
		if (!added)
			return false;
		*added = mark;
		t->words += count;
	}
	t->at = (uint32_t)number;
	return true;
}

/*
 * Sets the kind of STEP. False if out of memory. The slots of STEP's ports have their places in the states before and
 * after it; all others pass in their order.
 */
static bool number_kind(struct machine *m, const struct step *step)
{
	struct transitions *t = &m->transitions;
	const struct body *body = step->body, *forward = machine_compiled_step(m, step)->forward.body;
	const size_t most = 4 + body->in_count + forward->out_count;
	size_t count = 0, number;
	if (!machine_grow(m, (void **)&m->marks.now, &m->marks.now_capacity, most, sizeof *m->marks.now))
		return false;
	int64_t *key = m->marks.now;
	key[count++] = m->compiled->form_of[step->id];
	memcpy(&key[count++], &machine_times(m, step)->forward, sizeof *key);
	key[count++] = slot_map_count(step->live_in);
	key[count++] = slot_map_count(step->live_out);
	for (size_t i = 0; i < body->in_count; i++)
		key[count++] = 2 * (int64_t)slot_map_rank(step->live_in, step_slot(step, &body->ins[i])) + step->ins[i].dies;
	for (size_t i = 0; i < forward->out_count; i++)
		key[count++] = slot_map_rank(step->live_out, step_slot(step, &forward->outs[i]));
	const size_t known = t->known_kinds.count;
	if (!byte_set_keep(&t->known_kinds, key, count * sizeof *key, &number))
		return false;
	t->words += number == known ? count : 0;
	t->kinds[step->id] = (uint32_t)number + 1;
	return true;
}

/* Returns the transition from mark FROM by KIND, or the free entry for it. */
static struct transition *find_transition(const struct transitions *t, uint32_t from, uint32_t kind)
{
	const size_t mask = t->capacity - 1;
	size_t at = (size_t)((from * HASH_GOLDEN + kind * (HASH_GOLDEN << 1 | 1)) >> 32) & mask;
	while (t->table[at].kind && (t->table[at].from != from || t->table[at].kind != kind))
		at = (at + 1) & mask;
	return &t->table[at];
}

/* Adds NEW, which is not known yet. False if out of memory. */
static bool add_transition(struct transitions *t, struct transition new)
{
	if (2 * (t->count + 1) > t->capacity) {
		struct transitions wider = *t;
		wider.capacity = t->capacity ? 2 * t->capacity : 64;
		wider.table = arena_array(&t->arena, wider.capacity, sizeof *wider.table);
		if (!wider.table)
			return false;
		for (size_t i = 0; i < t->capacity; i++)
			if (t->table[i].kind)
				*find_transition(&wider, t->table[i].from, t->table[i].kind) = t->table[i];
		t->capacity = wider.capacity;
		t->table = wider.table;
	}
	*find_transition(t, new.from, new.kind) = new;
	t->count++;
	return true;
}

/* Forgets all marks, kinds and transitions; for good if they were not worth their memory. */
static void forget_transitions(struct machine *m)
{
	struct transitions *t = &m->transitions;
	uint32_t *kinds = t->kinds;
	const bool off = t->followed < WORTH * (int64_t)t->count;
	transitions_free(t);
	transitions_init(t, m->context->allocator);
	memset(kinds, 0, m->lowered->distinct_count * sizeof *kinds);
	t->kinds = kinds;
	t->off = off;
}

/* Follows known transitions from step ID on, at most COUNT. Returns their number. The walk has counted their peaks. */
static int64_t follow_transitions(struct machine *m, uint32_t id, int64_t count)
{
	struct transitions *t = &m->transitions;
	struct counters *c = m->counters;
	double *sum = m->first_sweep ? &c->forward_cost : &c->recomputed_cost, cost = *sum;
	uint32_t at = t->at;
	int64_t done = 0;
	for (; done < count && at != NO_MARK && t->count; done++) {
		const uint32_t kind = t->kinds[id + done];
		const struct transition *known = find_transition(t, at, kind);
		if (!kind || !known->kind)
			break;
		at = known->to;
		cost += known->cost;
		c->executions += known->executions;
	}
	if (done == 0)
		return 0;
	t->at = at;
	t->made = false;
	t->after = m->lowered->distinct[id + done - 1];
	t->followed += done;
	*sum = cost;
	c->evaluations += done;
	m->state.position += done;
	return done;
}

/* Returns a buffer for ENTRY, which is slot K of MARK, where BEFORE has those of the earlier slots; NO_BUFFER if out of memory. */
static int32_t make_marked(struct machine *m, const int64_t *mark, uint32_t k, const int32_t *before,
                           const struct slot_map *entry)
{
	const struct state_tree state = m->state.tree;
	const int64_t *words = slot_words(mark, k);
	const int64_t offset = offset_of(words);
	for (uint32_t i = 0; i < k; i++)
		if (offset_of(slot_words(mark, i)) == offset)
			return before[i];
	/* Others have held it since before the first step that was followed. */
	for (uint32_t slot = 0; held_apart(words) && (slot = tree_next(&m->trees, state, slot)) != NO_MORE_SLOTS; slot++)
		if (buffers_offset(&m->buffers, machine_buffer(m, slot)) == offset)
			return machine_buffer(m, slot);
	assert(!held_apart(words));
	const int32_t made = buffers_make_at(&m->buffers, entry->type, words[1], offset);
	if (made != NO_BUFFER)
		m->buffers.items[made].streamed = entry->streamed;
	return made;
}

bool transitions_settle(struct machine *m)
{
	struct transitions *t = &m->transitions;
	if (t->made)
		return true;
	const int64_t *mark = t->marks[t->at];
	struct state_tree made = {.root = NO_TREE};
	int32_t *ids = m->ports.by_slot; /* by place in the state */
	uint32_t k = 0;
	struct slot_walk walk = slot_walk_begin(t->after->live_out);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk)); k++) {
		ids[k] = make_marked(m, mark, k, ids, entry);
		if (ids[k] == NO_BUFFER || !tree_set(&m->trees, &made, entry->slot, ids[k]))
			return false;
	}
	if (!machine_drop_state(m) ||
	    !pool_set(&m->buffers.pool, mark[0], (const struct pair *)(mark + 2), (size_t)mark[1]))
		return false;
	m->state.tree = made;
	m->state.exists = true;
	t->made = true;
	return true;
}

/* Walks STEP, step INDEX of the chain, and adds its transition. */
static enum status walk(struct machine *m, const struct step *step, int64_t index)
{
	struct transitions *t = &m->transitions;
	bool ok = transitions_settle(m);
	if (ok && (t->count >= MOST_TRANSITIONS || t->words >= MOST_WORDS)) {
		forget_transitions(m);
		ok = note_mark(m, step->live_in) && number_kind(m, step);
	}
	TRY_ALLOC(ok, m->context->diags);
	const uint32_t from = t->at;
	TRY(machine_forward(m, index, FORWARD_ONLY));
	TRY_ALLOC(note_mark(m, step->live_out), m->context->diags);
	if (from == NO_MARK || t->at == NO_MARK)
		return STATUS_OK;
	const struct transition new = {.from = from,
	                               .kind = t->kinds[step->id],
	                               .to = t->at,
	                               .executions = !machine_compiled_step(m, step)->linear.skipped,
	                               .cost = machine_times(m, step)->forward};
	return add_transition(t, new) ? STATUS_OK : machine_memory(m);
}

enum status transitions_run(struct machine *m, int64_t index, int64_t count, uint32_t id)
{
	struct transitions *t = &m->transitions;
	const struct step *const *distinct = m->lowered->distinct;
	if (!t->kinds) {
		t->kinds = arena_array(&m->arena, m->lowered->distinct_count, sizeof *t->kinds);
		TRY_ALLOC(t->kinds, m->context->diags);
	}
	TRY_ALLOC(t->at != NO_MARK || note_mark(m, distinct[id]->live_in), m->context->diags);
	for (int64_t i = 0, done; i < count; i += done) {
		const struct step *step = distinct[id + i];
		TRY_ALLOC(t->off || t->kinds[step->id] || number_kind(m, step), m->context->diags);
		done = follow_transitions(m, step->id, count - i);
		if (done > 0)
			continue;
		TRY(walk(m, step, index + i));
		done = 1;
	}
	return STATUS_OK;
}

void transitions_init(struct transitions *t, const struct allocator *allocator)
{
	*t = (struct transitions){.at = NO_MARK, .made = true};
	arena_init(&t->arena, allocator);
	t->known_marks = t->known_kinds = (struct byte_set){.kept = &t->arena, .scratch = &t->arena};
}

void transitions_free(struct transitions *t) { arena_free(&t->arena); }
