/* The arrays that are held when the first sweep ends: their bytes, and the residual report. */
#include "memory/machine_parts.h"

#include <string.h>

/* A buffer that a snapshot or a residual holds. */
struct held_mark {
	bool held;
	bool narrow; /* it is a copy in fewer bits */
	struct op_names used_by;
};

static bool is_operand(const struct instr *instr, uint32_t value)
{
	return value != NO_VALUE && (instr->v == value || instr->a == value);
}

/* Adds the operations of READER's step that read the array. */
static bool add_readers(struct machine *m, struct held_mark *mark, const struct reader *reader)
{
	if (reader->step < 0)
		return true;
	const struct body *body = machine_step_at(m, reader->step)->body;
	uint32_t value = NO_VALUE;
	for (size_t i = 0; i < body->in_count; i++)
		if (body->ins[i].index == reader->class)
			value = body->ins[i].value;
	for (size_t i = 0; i < body->instr_count; i++)
		if (is_operand(&body->instrs[i], value) &&
		    !op_names_add(m->context->arena, &mark->used_by, op_reading(body, i)))
			return false;
	return true;
}

static bool mark_snapshot(struct machine *m, const struct snapshot *s, const struct reader *readers,
                          struct held_mark *marks)
{
	for (size_t k = 0; k < s->count; k++) {
		struct held_mark *mark = &marks[s->buffers[k]];
		mark->held = true;
		mark->narrow = s->narrow;
		if (!add_readers(m, mark, &readers[k]))
			return false;
	}
	return true;
}

static bool mark_residual(struct machine *m, const struct residual *residual, struct held_mark *mark)
{
	mark->held = true;
	for (size_t u = 0; u < residual->used_by.count; u++)
		if (!op_names_add(m->context->arena, &mark->used_by, residual->used_by.names[u]))
			return false;
	return true;
}

static bool mark_held(struct machine *m, struct held_mark *marks)
{
	const struct snapshots *s = &m->snapshots;
	const struct records *r = &m->records;
	struct reader **readers = machine_readers(m);
	if (!readers)
		return false;
	for (size_t i = 0; i < s->memory_capacity; i++)
		if (s->memory[i].used && !mark_snapshot(m, &s->memory[i], readers[i], marks))
			return false;
	for (size_t k = 0; k < r->count; k++) {
		const struct linear *linear = &machine_compiled_step(m, machine_step_at(m, r->items[k].step))->linear;
		for (size_t i = 0; i < linear->residual_count; i++) {
			const int32_t id = r->residuals[r->items[k].first + i];
			if (id != NO_BUFFER && !mark_residual(m, &linear->residuals[i], &marks[id]))
				return false;
		}
	}
	return true;
}

/* The bytes that snapshots and residuals hold, each buffer once; -1 if out of memory. */
static int64_t stored_bytes(struct machine *m)
{
	const struct snapshots *s = &m->snapshots;
	const struct buffers *b = &m->buffers;
	int64_t bytes = 0;
	bool *seen = allocator_get(m->context->allocator, b->count + 1, sizeof *seen);
	if (!seen)
		return -1;
	memset(seen, 0, b->count + 1);
	for (size_t i = 0; i < s->memory_capacity; i++)
		for (size_t k = 0; s->memory[i].used && k < s->memory[i].count; k++)
			seen[s->memory[i].buffers[k]] = true;
	for (size_t i = 0; i < m->records.residual_count; i++)
		if (m->records.residuals[i] != NO_BUFFER)
			seen[m->records.residuals[i]] = true;
	for (size_t i = 0; i < b->count; i++)
		if (seen[i])
			bytes += b->items[i].size;
	allocator_put(m->context->allocator, seen, b->count + 1);
	return bytes;
}

/* The dtype's type that BUFFER is kept in; NULL if out of memory. */
static const struct type *kept_type(struct machine *m, const struct buffer *buffer, const struct held_mark *mark)
{
	if (!mark->narrow)
		return buffer->type;
	struct type *kept = arena_alloc(m->context->arena, sizeof *kept);
	if (kept)
		*kept = machine_narrow_type(m, buffer->type);
	return kept;
}

/* A row, and its place in the report: arguments first, then in program order. */
struct placed_row {
	struct held row;
	int64_t sequence;
};

static bool comes_before(const struct placed_row *a, const struct placed_row *b)
{
	if (a->row.origin.argument != b->row.origin.argument)
		return a->row.origin.argument;
	return a->sequence < b->sequence;
}

static struct placed_row make_held_row(struct machine *m, const struct buffer *buffer, const struct held_mark *mark)
{
	struct placed_row made = {.row = {.type = kept_type(m, buffer, mark),
	                                  .bytes = buffer->size,
	                                  .step = buffer->step,
	                                  .used_by = mark->used_by},
	                          .sequence = buffer->sequence};
	if (buffer->origin)
		made.row.origin = *buffer->origin;
	made.row.origin.names = buffer->names;
	return made;
}

static enum status report_held(struct machine *m)
{
	struct held_list *list = m->options->held;
	const struct buffers *b = &m->buffers;
	struct arena *arena = m->context->arena;
	struct held_mark *marks = arena_array(arena, b->count + 1, sizeof *marks);
	struct placed_row *rows = arena_array(arena, b->count + 1, sizeof *rows);
	list->rows = arena_array(arena, b->count + 1, sizeof *list->rows);
	if (!marks || !rows || !list->rows || !mark_held(m, marks))
		return machine_memory(m);
	for (size_t i = 0; i < b->count; i++) {
		if (!marks[i].held)
			continue;
		const struct placed_row made = make_held_row(m, &b->items[i], &marks[i]);
		if (!made.row.type)
			return machine_memory(m);
		/* Buffers are nearly in order: insertion from the end takes few moves. */
		size_t at = list->count++;
		for (; at > 0 && comes_before(&made, &rows[at - 1]); at--)
			rows[at] = rows[at - 1];
		rows[at] = made;
	}
	for (size_t i = 0; i < list->count; i++)
		list->rows[i] = rows[i].row;
	return STATUS_OK;
}

enum status machine_end_first_sweep(struct machine *m)
{
	m->first_sweep = false;
	m->counters->stored_bytes = stored_bytes(m);
	if (m->counters->stored_bytes < 0)
		return machine_memory(m);
	if (m->options->held) {
		TRY(report_held(m));
	}
	if (m->options->want_value && m->state.exists) {
		const struct buffer *out = &m->buffers.items[m->state.buffers[0]];
		return machine_exchange(m, MACHINE_OUTPUT, out->offset, out->type);
	}
	return STATUS_OK;
}
