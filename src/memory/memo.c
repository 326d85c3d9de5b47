/*
 * The memo: what forward steps do to memory, as far as the machine has walked them. It serves walks without hooks, where
 * nobody asks for a step's calls.
 *
 * What a forward step does depends on two things, which are the memo's key:
 *
 *     mark    where the state's arrays lie, which of them others hold too, and which bytes are free
 *     kind    the step's program, its time, and where its slots stand in the states before and after it
 *
 * A step is a transition of an automaton from mark to mark, with kinds as symbols. The machine has walked most steps of
 * a long chain before, and nearly all that a policy recomputes. It follows these by a table, and makes the state's
 * buffers again only where it leaves the table. Unlike stages need as few marks as equal ones if their arrays have few sizes.
 *
 * Iterations of a loop are a path of the automaton. Once one ends at the mark at which an earlier one began, all from
 * that one on repeat, and whole cycles are counted. Brent's algorithm finds the cycle: it compares each end with the
 * latest start of iterations 1, 2, 4, ...
 *
 * Invariant: equal marks and kinds have the same mark after the step, executions and cost.
 *
 * Transitions are computed when they are first needed, and all are forgotten when they are too many: lazy transition
 * evaluation (Aho, Sethi and Ullman, Compilers, 1986, section 3.7). Two others keep what the memo does not:
 * plan/short_chains.c the figures of a schedule by its number of steps, and replay.c the calls of a walk.
 * Tests: tests/unit/test_machine.c
 */
#include "memory/machine_parts.h"

#include <assert.h>
#include <string.h>

enum {
	LEAST = 5,                  /* fewer steps, or iterations, are all walked */
	MOST_TRANSITIONS = 1 << 14, /* with more, all are forgotten; so with more words of marks and kinds: */
	MOST_WORDS = 1 << 16,
	MOST_MARK = 256, /* words of a mark or a kind; a larger mark takes longer than a step */
	MOST_SLOTS = MOST_MARK / 2,
	WORTH = 4,          /* steps that must be followed for each that is walked */
	UNPAID_MOST = 8192, /* words of marks that may be written beside those that followed steps pay for */
	PAID = 64,          /* words that take as long to write as a followed step saves */
};

/* A mark's words: the top of the pool, the number of holes, the holes, then two for each slot. See slot_words. */
static const int64_t *slot_words(const int64_t *mark, size_t k) { return mark + 2 + 2 * mark[1] + 2 * k; }
static bool held_apart(const int64_t *words) { return words[0] & 1; }
static int64_t offset_of(const int64_t *words) { return words[0] >> 1; }

/* Writes the mark of COUNT SLOTS of the current state. A slot may have no buffer. */
static void write_mark(struct machine *m, const uint32_t *slots, size_t count, int64_t *to)
{
	const struct pool *pool = &m->buffers.pool;
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
			struct buffer *buffer = id == NO_BUFFER ? NULL : &m->buffers.items[id];
			if (buffer && pass != 1) {
				buffer->holds += pass ? 1 : -1;
			} else if (pass == 1) {
				*to++ = buffer ? 2 * buffer->offset + (buffer->holds > 0 || shared) : -1;
				*to++ = buffer ? buffer->size : 0;
			}
		}
	}
}

/* True if followed steps save more time than marks take. */
static bool pays(const struct memo *memo) { return memo->written <= UNPAID_MOST + PAID * memo->followed; }

/* Keeps the COUNT WORDS of a mark or a kind in SET. Sets *NUMBER to that of equal words. Returns NULL if out of memory. */
static const int64_t *keep_words(struct memo *memo, struct byte_set *set, const int64_t *words, size_t count,
                                 size_t *number)
{
	const size_t known = set->count;
	const int64_t *kept = byte_set_keep(set, words, count * sizeof *words, number);
	memo->words += set->count > known ? count : 0;
	return kept;
}

/* Sets *MARK to that of COUNT SLOTS of the current state; to NULL if it is large. False if out of memory. */
static bool keep_mark(struct machine *m, const uint32_t *slots, size_t count, const int64_t **mark)
{
	const size_t size = 2 + 2 * (m->buffers.pool.holes.count + count);
	int64_t words[MOST_MARK];
	size_t number;
	*mark = NULL;
	if (size > MOST_MARK)
		return true;
	write_mark(m, slots, count, words);
	*mark = keep_words(&m->memo, &m->memo.known_marks, words, size, &number);
	return *mark;
}

/* Sets the mark of the current state, whose slots are LIVE, if marks pay and it is small. False if out of memory. */
static bool note_mark(struct machine *m, const struct slot_map *live)
{
	struct memo *memo = &m->memo;
	uint32_t slots[MOST_SLOTS];
	size_t count = 0;
	memo->at = NULL;
	memo->made = true;
	/* The first state may have a slot that no step reads. */
	if (!pays(memo) || m->state.tree.count != slot_map_count(live) || m->state.tree.count > MOST_SLOTS)
		return true;
	struct slot_walk walk = slot_walk_begin(live);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk));)
		slots[count++] = entry->slot;
	memo->written += 2 + 2 * (int64_t)(m->buffers.pool.holes.count + count);
	return keep_mark(m, slots, count, &memo->at);
}

/*
 * Sets the kind of STEP, unless it has very many ports or writes a part of an array that a loop collects, for which the mark
 * does not suffice. False if out of memory. The slots of STEP's ports have their places in the states before and after it;
 * all others pass in their order.
 */
static bool number_kind(struct machine *m, const struct step *step)
{
	struct memo *memo = &m->memo;
	const struct body *body = step->body, *forward = machine_compiled_step(m, step)->forward.body;
	int64_t key[MOST_MARK];
	size_t count = 0, number;
	if (body->collects || 4 + body->in_count + forward->out_count > MOST_MARK)
		return true;
	key[count++] = m->compiled->form_of[step->id];
	memcpy(&key[count++], &machine_times(m, step)->forward, sizeof *key);
	key[count++] = slot_map_count(step->live_in);
	key[count++] = slot_map_count(step->live_out);
	for (size_t i = 0; i < body->in_count; i++)
		key[count++] = 2 * (int64_t)slot_map_rank(step->live_in, step_slot(step, &body->ins[i])) + step->ins[i].dies;
	for (size_t i = 0; i < forward->out_count; i++)
		key[count++] = slot_map_rank(step->live_out, step_slot(step, &forward->outs[i]));
	if (!keep_words(memo, &memo->known_kinds, key, count, &number))
		return false;
	memo->kinds[step->id] = (uint32_t)number + 1;
	return true;
}

/* Returns the transition from mark FROM by KIND, or the free entry for it. */
static struct transition *find_transition(const struct memo *memo, const int64_t *from, uint32_t kind)
{
	const size_t mask = memo->capacity - 1;
	size_t at = (size_t)(((uintptr_t)from * HASH_GOLDEN + kind * (HASH_GOLDEN << 1 | 1)) >> 32) & mask;
	while (memo->table[at].kind && (memo->table[at].from != from || memo->table[at].kind != kind))
		at = (at + 1) & mask;
	return &memo->table[at];
}

/* Adds NEW, which is not known yet. False if out of memory. */
static bool add_transition(struct memo *memo, struct transition new)
{
	if (2 * (memo->count + 1) > memo->capacity) {
		struct memo wider = *memo;
		wider.capacity = memo->capacity ? 2 * memo->capacity : 64;
		wider.table = arena_array(&memo->arena, wider.capacity, sizeof *wider.table);
		if (!wider.table)
			return false;
		for (size_t i = 0; i < memo->capacity; i++)
			if (memo->table[i].kind)
				*find_transition(&wider, memo->table[i].from, memo->table[i].kind) = memo->table[i];
		memo->capacity = wider.capacity;
		memo->table = wider.table;
	}
	*find_transition(memo, new.from, new.kind) = new;
	memo->count++;
	return true;
}

/* Forgets all marks, kinds and transitions; for good if they were not worth their memory. */
static void forget_transitions(struct machine *m)
{
	struct memo *memo = &m->memo;
	uint32_t *kinds = memo->kinds;
	const int64_t forgotten = memo->forgotten + 1;
	const bool worth = memo->followed >= WORTH * (int64_t)memo->count;
	memo_free(memo);
	memo_init(memo, m->context->allocator);
	memset(kinds, 0, m->lowered->distinct_count * sizeof *kinds);
	memo->kinds = kinds;
	memo->forgotten = forgotten;
	memo->written = worth ? 0 : INT64_MAX / 2;
}

/* Follows known transitions from step ID on, at most COUNT. Returns their number. The walk has counted their peaks. */
static int64_t follow_transitions(struct machine *m, uint32_t id, int64_t count)
{
	struct memo *memo = &m->memo;
	struct counters *c = m->counters;
	double *sum = m->first_sweep ? &c->forward_cost : &c->recomputed_cost, cost = *sum;
	const int64_t *at = memo->at;
	int64_t done = 0;
	for (; done < count && at && memo->count; done++) {
		const uint32_t kind = memo->kinds[id + done];
		const struct transition *known = find_transition(memo, at, kind);
		if (!kind || !known->kind)
			break;
		at = known->to;
		cost += known->cost;
		c->executions += known->executions;
	}
	if (done == 0)
		return 0;
	memo->at = at;
	memo->made = false;
	memo->after = m->lowered->distinct[id + done - 1];
	memo->followed += done;
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
	/* Others have held it since before the first step that was followed. It is mostly in the same slot. */
	const int32_t same = machine_buffer(m, entry->slot);
	if (held_apart(words) && buffers_offset(&m->buffers, same) == offset)
		return same;
	for (uint32_t i = 0; i < k; i++)
		if (offset_of(slot_words(mark, i)) == offset)
			return before[i];
	for (uint32_t slot = 0; held_apart(words) && (slot = tree_next(&m->trees, state, slot)) != NO_MORE_SLOTS; slot++)
		if (buffers_offset(&m->buffers, machine_buffer(m, slot)) == offset)
			return machine_buffer(m, slot);
	assert(!held_apart(words));
	const int32_t made = buffers_make_at(&m->buffers, entry->type, words[1], offset);
	if (made != NO_BUFFER)
		m->buffers.items[made].streamed = entry->streamed;
	if (made != NO_BUFFER)
		m->buffers.items[made].collected = entry->collected;
	return made;
}

/* Makes the buffers of the state at the mark. False if out of memory. */
static bool settle_state(struct machine *m)
{
	struct memo *memo = &m->memo;
	if (memo->made)
		return true;
	const int64_t *mark = memo->at;
	const struct slot_map *live = memo->after->live_out;
	struct state_tree made = tree_hold(&m->trees, m->state.tree);
	int32_t *ids = m->ports.by_slot; /* by place in the state */
	uint32_t k = 0;
	struct slot_walk walk = slot_walk_begin(live);
	for (const struct slot_map *entry; (entry = slot_walk_next(&walk)); k++) {
		ids[k] = make_marked(m, mark, k, ids, entry);
		if (ids[k] == NO_BUFFER || !tree_set(&m->trees, &made, entry->slot, ids[k]))
			return false;
	}
	if (!machine_drop_state(m))
		return false;
	m->state.tree = made;
	m->state.exists = true;
	memo->made = true;
	return (made.count == k || machine_drop_others(m, live)) &&
	       pool_set(&m->buffers.pool, mark[0], (const struct pair *)(mark + 2), (size_t)mark[1]);
}

/* Walks STEP, step INDEX of the chain, and adds its transition. */
static enum status walk(struct machine *m, const struct step *step, int64_t index)
{
	struct memo *memo = &m->memo;
	bool ok = settle_state(m);
	if (ok && (memo->count >= MOST_TRANSITIONS || memo->words >= MOST_WORDS)) {
		forget_transitions(m);
		ok = note_mark(m, step->live_in) && number_kind(m, step);
	}
	TRY_ALLOC(ok, m->context->diags);
	const int64_t *from = memo->at;
	const uint32_t kind = memo->kinds[step->id];
	TRY(machine_forward(m, index, FORWARD_ONLY));
	TRY_ALLOC(note_mark(m, step->live_out), m->context->diags);
	if (!from || !memo->at || !kind)
		return STATUS_OK;
	const struct transition new = {.from = from,
	                               .kind = kind,
	                               .to = memo->at,
	                               .executions = !machine_compiled_step(m, step)->linear.skipped,
	                               .cost = machine_times(m, step)->forward};
	return add_transition(memo, new) ? STATUS_OK : machine_memory(m);
}

/* Runs COUNT steps from INDEX on, whose ids begin with ID and follow one another. */
static enum status run_row(struct machine *m, int64_t index, int64_t count, uint32_t id)
{
	struct memo *memo = &m->memo;
	const struct step *const *distinct = m->lowered->distinct;
	TRY_ALLOC(memo->at || note_mark(m, distinct[id]->live_in), m->context->diags);
	for (int64_t i = 0, done; i < count; i += done) {
		const struct step *step = distinct[id + i];
		TRY_ALLOC(memo->kinds[step->id] || !pays(memo) || number_kind(m, step), m->context->diags);
		done = follow_transitions(m, step->id, count - i);
		if (done > 0)
			continue;
		TRY(walk(m, step, index + i));
		done = 1;
	}
	return STATUS_OK;
}

/* Lists in SLOTS, of MOST_SLOTS, those that the PERIOD steps from INDEX on read or write. Returns their number; 0 if there are more. */
static size_t list_touched(struct machine *m, int64_t index, int64_t period, uint32_t *slots)
{
	size_t count = 0;
	for (int64_t i = index; i < index + period; i++) {
		const struct step *step = machine_step_at(m, i);
		const struct body *body = step->body;
		for (size_t port = 0, k = 0; port < body->in_count + body->out_count; port++, k = 0) {
			const bool out = port >= body->in_count;
			const uint32_t slot = step_slot(step, out ? &body->outs[port - body->in_count] : &body->ins[port]);
			while (k < count && slots[k] != slot)
				k++;
			if (k == MOST_SLOTS)
				return 0;
			slots[k] = slot;
			count += k == count;
		}
	}
	return count;
}

/* Counts TIMES iterations, with EXECUTIONS each, like the one of PERIOD steps that ends before step *INDEX, and moves *INDEX. */
static void count_cycles(struct machine *m, int64_t *index, int64_t period, int64_t executions, int64_t times)
{
	double cost = 0;
	for (int64_t i = *index - period; i < *index; i++) {
		const struct step *step = machine_step_at(m, i);
		cost += machine_times(m, step)->forward;
		machine_count_collected(m, step, i + times * period);
	}
	*index += times * period;
	m->state.position = *index;
	m->counters->evaluations += times * period;
	m->counters->executions += times * executions;
	machine_count_forward(m, (double)times, cost);
	m->memo.followed += times * period;
}

static enum status advance_steps(struct machine *m, int64_t begin, int64_t end);

/*
 * Runs iterations of PERIOD steps each from *INDEX on, until their marks repeat. Then counts as many further cycles as
 * fit before UNTIL. Moves *INDEX to the step after all of them. Where the state has no mark, that of the slots that
 * an iteration reads or writes serves: all others keep their buffers.
 */
static enum status run_iterations(struct machine *m, int64_t *index, int64_t period, int64_t until)
{
	struct memo *memo = &m->memo;
	uint32_t slots[MOST_SLOTS];
	const int64_t *now = memo->at, *earlier = NULL;
	int64_t forgotten = 0;
	size_t count = 0;
	for (int64_t since = 0, limit = 0; *index + period <= until; since++) {
		if (since == limit) {
			earlier = now;
			forgotten = memo->forgotten;
			limit = limit ? 2 * limit : 1;
			since = 0;
		}
		const int64_t executions = m->counters->executions;
		TRY(advance_steps(m, *index, *index + period));
		*index += period;
		now = memo->at;
		if (!now && !count)
			count = list_touched(m, *index - period, period, slots);
		TRY_ALLOC(now || !count || keep_mark(m, slots, count, &now), m->context->diags);
		if (!now || now != earlier || memo->forgotten != forgotten)
			continue;
		const int64_t cycle = since + 1, cycles = (until - *index) / (cycle * period);
		count_cycles(m, index, period, m->counters->executions - executions, cycles * cycle);
		return STATUS_OK;
	}
	return STATUS_OK;
}

/* Runs steps BEGIN .. END-1 forward. The state's buffers are made by `settle_state`, before anything else looks at them. */
static enum status advance_steps(struct machine *m, int64_t begin, int64_t end)
{
	for (int64_t i = begin; i < end;) {
		int64_t until;
		uint32_t id;
		const int64_t period = lowered_period(m->lowered, i, end, LEAST, &until);
		if (period) {
			TRY(run_iterations(m, &i, period, until));
			continue;
		}
		const int64_t count = lowered_row(m->lowered, i, end, &id);
		TRY(run_row(m, i, count, id));
		i += count;
	}
	return STATUS_OK;
}

enum status machine_forward_steps(struct machine *m, int64_t begin, int64_t end)
{
	struct memo *memo = &m->memo;
	if (!m->alone || end - begin < LEAST) {
		for (int64_t i = begin; i < end; i++)
			TRY(machine_forward(m, i, FORWARD_ONLY));
		return STATUS_OK;
	}
	if (!memo->kinds)
		memo->kinds = arena_array(&m->arena, m->lowered->distinct_count, sizeof *memo->kinds);
	TRY_ALLOC(memo->kinds, m->context->diags);
	memo->at = NULL; /* buffers may have changed */
	TRY(advance_steps(m, begin, end));
	return settle_state(m) ? STATUS_OK : machine_memory(m);
}

void memo_init(struct memo *memo, const struct allocator *allocator)
{
	*memo = (struct memo){.made = true};
	arena_init(&memo->arena, allocator);
	memo->known_marks = memo->known_kinds = (struct byte_set){.kept = &memo->arena, .scratch = &memo->arena};
}

void memo_free(struct memo *memo) { arena_free(&memo->arena); }
