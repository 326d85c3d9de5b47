/*
 * The arrays that are held when the first sweep ends: their bytes, and the residual report.
 *
 * The report lists which operations read an array. For a residual they are those whose derivatives read it; for an
 * array of a kept state, those of the first step that reads it. A step such as `name` passes its state unchanged, so
 * this may be a later step. One walk over the steps from the last to the first finds it for all kept states.
 */
#include "memory/machine_parts.h"

#include <stdlib.h>

/* The step that first reads an array of a kept state, or -1. CLASS is the array's class in the state before it. */
struct reader {
	int64_t step;
	uint32_t class;
};

static const struct reader nobody = {.step = -1};

struct reader_walk {
	struct machine *m;
	struct reader *first; /* by slot of the state at the walk's position; nobody if it is not live or never read */
	struct reader *best;  /* scratch, by class of the state before; nobody between steps */
	bool *written;        /* scratch, by slot */
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
	return value != NO_VALUE && (instr->v == value || instr->a == value);
}

static bool body_reads(const struct body *body, uint32_t value)
{
	for (size_t i = 0; i < body->instr_count; i++)
		if (is_operand(&body->instrs[i], value))
			return true;
	return false;
}

/* Moves the walk from the state after the step at POSITION to the state before it. */
static void pass_step(struct reader_walk *walk, int64_t position)
{
	const struct step *step = machine_step_at(walk->m, position);
	const struct body *body = step->body;
	struct reader *first = walk->first, *best = walk->best;
	for (size_t i = 0; i < body->out_count; i++)
		walk->written[step_slot(step, &body->outs[i])] = true;
	for (size_t k = 0; k < step->live_in.count; k++)
		if (!walk->written[step->live_in.slots[k]])
			take_earlier(&best[step->class_in[k]], first[step->live_in.slots[k]]);
	for (size_t i = 0; i < body->in_count; i++) {
		const struct port *in = &body->ins[i];
		const uint32_t slot = step_slot(step, in);
		if (body_reads(body, in->value))
			best[slot] = (struct reader){.step = position, .class = slot};
		for (size_t k = 0; k < body->out_count; k++)
			if (body->outs[k].value == in->value)
				take_earlier(&best[slot], first[step_slot(step, &body->outs[k])]);
	}
	for (size_t i = 0; i < body->out_count; i++)
		walk->written[step_slot(step, &body->outs[i])] = false;
	for (size_t k = 0; k < step->live_out.count; k++)
		first[step->live_out.slots[k]] = nobody;
	for (size_t k = 0; k < step->live_in.count; k++)
		first[step->live_in.slots[k]] = best[step->class_in[k]];
	for (size_t k = 0; k < step->live_in.count; k++)
		best[step->class_in[k]] = nobody;
	for (size_t i = 0; i < body->in_count; i++)
		best[step_slot(step, &body->ins[i])] = nobody;
}

static int last_first(const void *a, const void *b)
{
	const struct snapshot *const *p = a, *const *q = b;
	return (*p)->position > (*q)->position ? -1 : (*p)->position < (*q)->position;
}

/* Returns, by memory slot, the first reader of each of its arrays; NULL where unused. NULL if out of memory. */
static struct reader **find_readers(struct machine *m)
{
	struct arena *arena = m->context->arena;
	const struct snapshots *all = &m->snapshots;
	const size_t slots = m->lowered->slot_count;
	struct reader_walk walk = {.m = m,
	                           .first = make_nobodies(m, slots),
	                           .best = make_nobodies(m, slots),
	                           .written = arena_array(arena, slots + 1, sizeof *walk.written)};
	const struct snapshot **order = arena_array(arena, all->memory_capacity + 1, sizeof *order);
	struct reader **readers = arena_array(arena, all->memory_capacity + 1, sizeof *readers);
	if (!walk.first || !walk.best || !walk.written || !order || !readers)
		return NULL;
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
		struct reader *own = readers[s - all->memory] = arena_array(arena, s->count + 1, sizeof *own);
		if (!own)
			return NULL;
		for (size_t k = 0; k < s->count; k++)
			own[k] = walk.first[s->slots[k]];
	}
	return readers;
}

/* Adds to USERS the operations of READER's step that read the array. False if out of memory. */
static bool add_readers(struct machine *m, struct op_names *users, const struct reader *reader)
{
	if (reader->step < 0)
		return true;
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
	const struct snapshots *s = &m->snapshots;
	const struct records *r = &m->records;
	struct reader **readers = find_readers(m);
	if (!readers)
		return false;
	for (size_t i = 0; i < s->memory_capacity; i++)
		for (size_t k = 0; s->memory[i].used && k < s->memory[i].count; k++)
			if (!add_readers(m, &users[s->memory[i].buffers[k]], &readers[i][k]))
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

/* Marks the buffers that snapshots and residuals hold as stored. Returns the sum of their bytes. */
static int64_t store_all(struct machine *m)
{
	const struct snapshots *s = &m->snapshots;
	int64_t bytes = 0;
	for (size_t i = 0; i < s->memory_capacity; i++)
		for (size_t k = 0; s->memory[i].used && k < s->memory[i].count; k++)
			bytes += store(&m->buffers, s->memory[i].buffers[k]);
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
	m->counters->stored_bytes = store_all(m);
	TRY(m->options->held ? report_held(m) : STATUS_OK);
	if (!m->options->want_value || !m->state.exists)
		return STATUS_OK;
	const struct buffer *out = &m->buffers.items[m->state.buffers[0]];
	return machine_exchange(m, MACHINE_OUTPUT, out->offset, out->type);
}
