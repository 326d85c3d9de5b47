/*
 * The arrays that are held when the first sweep ends: their bytes, and the residual report.
 *
 * The report lists which operations read an array. For a residual they are those whose derivatives read it; for an
 * array of a kept state, those of the first step that reads it. A step such as `name` passes its state unchanged, so
 * this may be a later step. One walk over the steps from the last to the first finds it for all kept states.
 * Tests: tests/cases/plan.test, tests/scripts/check-random
 */
#include "memory/machine_parts.h"

#include <stdlib.h>

#include "base/checked.h"

/* The step that first reads an array of a kept state, or -1. CLASS is the array's class in the state before it. */
struct reader {
	int64_t step;
	uint32_t class;
};

static const struct reader nobody = {.step = -1};

struct reader_walk {
	struct machine *m;
	struct reader
		*first; /* by class of the state at the walk's position; nobody if it has no live slot or is never read */
	struct reader *best; /* scratch, by class of the state before: the same */
	bool *written;       /* scratch, by slot: false between steps */
};

static struct reader *make_nobodies(struct machine *m, size_t count)
{
	struct reader *readers = arena_array(m->context->arena, count + 1, sizeof *readers);
	for (size_t i = 0; readers && i < count; i++)
		readers[i] = nobody;
	return readers;
}

static void take_earlier(struct reader *best, struct reader other)
{
	if (other.step >= 0 && (best->step < 0 || other.step < best->step))
		*best = other;
}

static bool is_operand(const struct instr *instr, uint32_t value)
{
	bool found = false;
	for (uint32_t k = 0; value != NO_VALUE && !instr_use(instr) && k < instr_value_count(instr); k++)
		found |= instr_value(instr, k) == value;
	return found;
}

static bool body_reads(const struct body *body, uint32_t value)
{
	for (size_t i = 0; i < body->instr_count; i++)
		if (is_operand(&body->instrs[i], value))
			return true;
	return false;
}

/* Finds in walk->best the first readers of the classes that STEP reads or writes, which is at POSITION. */
static void find_best(struct reader_walk *walk, const struct step *step, int64_t position)
{
	const struct body *body = step->body;
	struct reader *first = walk->first, *best = walk->best;
	for (size_t i = 0; i < body->out_count; i++)
		best[step_slot(step, &body->outs[i])] = nobody;
	for (size_t i = 0; i < body->in_count; i++) {
		const uint32_t class = step_slot(step, &body->ins[i]);
		best[class] = walk->written[class] ? nobody : first[class];
	}
	for (uint32_t i = 0; i < step->moved_count; i++)
		best[step->moved[i].before] = first[step->moved[i].after];
	for (size_t i = 0; i < body->out_count; i++) {
		const struct value *value = &body->values[body->outs[i].value];
		const struct slot_map *out = slot_map_find(step->live_out, step_slot(step, &body->outs[i]));
		if (value->from == FROM_PORT && out)
			take_earlier(&best[step_slot(step, &body->ins[value->port])], first[out->class]);
	}
	for (size_t i = 0; i < body->in_count; i++) {
		const uint32_t class = step_slot(step, &body->ins[i]);
		if (step->ins[i].held && body_reads(body, body->ins[i].value))
			best[class] = (struct reader){.step = position, .class = class};
	}
}

/* Moves the walk from the state after the step at POSITION to the state before it. */
static void pass_step(struct reader_walk *walk, int64_t position)
{
	const struct step *step = machine_step_at(walk->m, position);
	const struct body *body = step->body;
	struct reader *first = walk->first, *best = walk->best;
	for (size_t i = 0; i < body->out_count; i++)
		walk->written[step_slot(step, &body->outs[i])] = true;
	find_best(walk, step, position);
	for (uint32_t i = 0; i < step->moved_count; i++)
		first[step->moved[i].after] = nobody;
	for (uint32_t i = 0; i < step->moved_count; i++)
		first[step->moved[i].before] = best[step->moved[i].before];
	for (size_t i = 0; i < body->out_count; i++)
		first[step_slot(step, &body->outs[i])] = best[step_slot(step, &body->outs[i])];
	for (size_t i = 0; i < body->in_count; i++)
		first[step_slot(step, &body->ins[i])] = best[step_slot(step, &body->ins[i])];
	for (size_t i = 0; i < body->out_count; i++)
		walk->written[step_slot(step, &body->outs[i])] = false;
}

static int last_first(const void *a, const void *b)
{
	const struct snapshot *const *p = a, *const *q = b;
	return (*p)->position > (*q)->position ? -1 : (*p)->position < (*q)->position;
}

/* A reader of BUFFER after the state in memory slot RANK, the lowest of those with that reader. */
struct found_reader {
	int32_t buffer;
	int64_t rank;
	struct reader reader;
};

struct found_readers {
	struct found_reader *items;
	size_t count, capacity;
	size_t *latest; /* by buffer: 1 + the index of the item that was added or met last; 0: none */
};

/* Adds READER of BUFFER, in the state of memory slot RANK. Most arrays have the reader that they have in the next state. */
static bool add_first_reader(struct machine *m, struct found_readers *found, int32_t buffer, int64_t rank,
                             const struct reader *reader)
{
	const size_t latest = found->latest[buffer];
	struct found_reader *item = latest ? &found->items[latest - 1] : NULL;
	if (item && item->reader.step == reader->step) {
		item->rank = lesser(rank, item->rank);
		return true;
	}
	item = arena_append(m->context->arena, &found->items, &found->count, &found->capacity, sizeof *item);
	if (!item)
		return false;
	*item = (struct found_reader){buffer, rank, *reader};
	found->latest[buffer] = found->count;
	return true;
}

static int by_rank(const void *a, const void *b)
{
	const struct found_reader *p = a, *q = b;
	return p->rank < q->rank ? -1 : p->rank > q->rank;
}

/* Finds the first reader after each kept state of each of its arrays. False if out of memory. */
static bool find_readers(struct machine *m, struct found_readers *found)
{
	struct arena *arena = m->context->arena;
	const struct snapshots *all = &m->snapshots;
	const size_t slots = m->lowered->slot_count;
	struct reader_walk walk = {.m = m,
	                           .first = make_nobodies(m, slots),
	                           .best = make_nobodies(m, slots),
	                           .written = arena_array(arena, slots + 1, sizeof *walk.written)};
	const struct snapshot **order = arena_array(arena, all->memory_capacity + 1, sizeof *order);
	found->latest = arena_array(arena, m->buffers.count + 1, sizeof *found->latest);
	if (!walk.first || !walk.best || !walk.written || !order || !found->latest)
		return false;
	size_t count = 0;
	for (size_t i = 0; i < all->memory_capacity; i++)
		if (all->memory[i].used)
			order[count++] = &all->memory[i];
	qsort(order, count, sizeof *order, last_first);
	int64_t at = machine_step_count(m);
	for (size_t i = 0; i < count; i++) {
		const struct snapshot *s = order[i];
		while (at > s->position)
			pass_step(&walk, --at);
		struct slot_walk live = slot_walk_begin(at < machine_step_count(m) ? machine_step_at(m, at)->live_in : NULL);
		for (const struct slot_map *entry; (entry = slot_walk_next(&live));)
			if (walk.first[entry->class].step >= 0 && tree_get(&m->trees, s->tree, entry->slot, NULL) != NO_BUFFER &&
			    !add_first_reader(m, found, tree_get(&m->trees, s->tree, entry->slot, NULL), s - all->memory,
			                      &walk.first[entry->class]))
				return false;
	}
	return true;
}

/* Adds to USERS the operations of READER's step that read the array. False if out of memory. */
static bool add_readers(struct machine *m, struct op_names *users, const struct reader *reader)
{
	const struct step *step = machine_step_at(m, reader->step);
	const struct body *body = step->body;
	uint32_t value = NO_VALUE;
	for (size_t i = 0; i < body->in_count; i++)
		if (step_slot(step, &body->ins[i]) == reader->class)
			value = body->ins[i].value;
	for (size_t i = 0; i < body->instr_count; i++)
		if (is_operand(&body->instrs[i], value) && !op_names_add(m->context->arena, users, op_reading(body, i)))
			return false;
	return true;
}

/* Adds to USERS[buffer] the operations that read the buffer. False if out of memory. */
static bool add_users(struct machine *m, struct op_names *users)
{
	const struct records *r = &m->records;
	struct found_readers found = {0};
	if (!find_readers(m, &found))
		return false;
	if (found.count)
		qsort(found.items, found.count, sizeof *found.items, by_rank);
	for (size_t i = 0; i < found.count; i++)
		if (!add_readers(m, &users[found.items[i].buffer], &found.items[i].reader))
			return false;
	for (size_t k = 0; k < r->count; k++) {
		const struct linear *linear = &machine_compiled_step(m, machine_step_at(m, r->items[k].step))->linear;
		for (size_t i = 0; i < linear->residual_count; i++) {
			const int32_t id = r->residuals[r->items[k].first + i];
			const struct op_names *names = &linear->residuals[i].used_by;
			for (size_t u = 0; id != NO_BUFFER && u < names->count; u++)
				if (!op_names_add(m->context->arena, &users[id], names->names[u]))
					return false;
		}
	}
	return true;
}

/* Marks buffer ID as stored. Returns its bytes, or 0 if it was stored already or is NO_BUFFER. */
static int64_t store(struct buffers *buffers, int32_t id)
{
	if (id == NO_BUFFER || buffers->items[id].stored)
		return 0;
	buffers->items[id].stored = true;
	return buffers->items[id].size;
}

/* Marks the buffers below node ID, at SHIFT, as stored, unless it has been seen. Returns the sum of their bytes. */
static int64_t store_node(struct machine *m, int32_t id, int shift)
{
	int64_t bytes = 0;
	if (id == NO_TREE || m->trees.nodes[id].seen)
		return 0;
	struct tree_node *node = &m->trees.nodes[id];
	node->seen = true;
	for (int i = 0; i < TREE_PARTS; i++)
		bytes += shift ? store_node(m, node->parts[i], shift - TREE_BITS) : store(&m->buffers, node->parts[i]);
	return bytes;
}

/* Marks the buffers that snapshots and residuals hold as stored. Returns the sum of their bytes. */
static int64_t store_all(struct machine *m)
{
	const struct snapshots *s = &m->snapshots;
	int64_t bytes = 0;
	for (size_t i = 0; i < s->memory_capacity; i++)
		bytes += s->memory[i].used ? store_node(m, s->memory[i].tree.root, m->trees.top) : 0;
	for (size_t i = 0; i < m->records.residual_count; i++)
		bytes += store(&m->buffers, m->records.residuals[i]);
	return bytes;
}

/* Arguments come first, then arrays in program order. */
static bool comes_before(const struct held *a, const struct held *b)
{
	return a->origin.argument != b->origin.argument ? a->origin.argument : a->sequence < b->sequence;
}

static enum status report_held(struct machine *m)
{
	struct held_list *list = m->options->held;
	const struct buffers *b = &m->buffers;
	struct op_names *users = arena_array(m->context->arena, b->count + 1, sizeof *users);
	list->rows = arena_array(m->context->arena, b->count + 1, sizeof *list->rows);
	TRY_ALLOC(users && list->rows && add_users(m, users), m->context->diags);
	for (size_t i = 0; i < b->count; i++) {
		const struct buffer *buffer = &b->items[i];
		if (!buffer->stored)
			continue;
		struct held made = {.type = buffer->type,
		                    .bytes = buffer->size,
		                    .step = buffer->step,
		                    .sequence = buffer->sequence,
		                    .used_by = users[i]};
		if (buffer->narrow) {
			struct type *kept = arena_alloc(m->context->arena, sizeof *kept);
			TRY_ALLOC(kept, m->context->diags);
			*kept = machine_narrow_type(m, buffer->type);
			made.type = kept;
		}
		const enum dtype logical =
			buffer->body ? buffer->body->values[buffer->value].dtype : m->compiled->lowered->input.dtype;
		if (dtype_is_integer(logical)) {
			struct type *integers = arena_alloc(m->context->arena, sizeof *integers);
			TRY_ALLOC(integers, m->context->diags);
			*integers = (struct type){logical, made.type->shape};
			made.type = integers;
		}
		const struct origin input = {.argument = true, .param = NO_VALUE};
		made.origin = buffer->body ? origin_of(machine_step_at(m, buffer->step), buffer->body, buffer->value) : input;
		made.origin.names = buffer->names;
		/* Buffers are nearly in order: insertion from the end takes few moves. */
		size_t at = list->count++;
		for (; at > 0 && comes_before(&made, &list->rows[at - 1]); at--)
			list->rows[at] = list->rows[at - 1];
		list->rows[at] = made;
	}
	return STATUS_OK;
}

enum status machine_end_first_sweep(struct machine *m)
{
	m->first_sweep = false;
	TRY_ALLOC(machine_pass_recorded(m), m->context->diags);
	m->counters->stored_bytes = store_all(m);
	TRY(m->options->held ? report_held(m) : STATUS_OK);
	if (!m->options->want_value || !m->state.exists)
		return STATUS_OK;
	const struct buffer *out = &m->buffers.items[machine_buffer(m, 0)];
	return machine_exchange(m, MACHINE_OUTPUT, out->offset, out->type, out->streamed);
}
