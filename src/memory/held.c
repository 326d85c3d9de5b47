/* What is held when the first sweep ends: its bytes, and the residual report. */
#include "memory/machine_parts.h"

#include <string.h>

struct mark {
	int32_t buffer;
	bool narrow; /* it is a copy in fewer bits */
	struct op_names used_by;
};

/* Operations of READER's step that read the state's array. */
static bool add_readers(struct machine *m, struct mark *mark, const struct reader *reader)
{
	if (reader->step < 0)
		return true;
	const struct body *body = machine_step_at(m, reader->step)->body;
	uint32_t value = NO_VALUE;
	for (size_t i = 0; i < body->in_count; i++)
		if (body->ins[i].index == reader->class)
			value = body->ins[i].value;
	for (size_t i = 0; value != NO_VALUE && i < body->instr_count; i++)
		if ((body->instrs[i].v == value || body->instrs[i].a == value) &&
		    !op_names_add(m->report_arena, &mark->used_by, op_reading(body, i)))
			return false;
	return true;
}

/* Marks what the state S holds, which READERS read. */
static bool mark_state(struct machine *m, const struct snapshot *s, const struct reader *readers, struct mark *marks)
{
	for (size_t k = 0; k < s->count; k++) {
		struct mark *mark = &marks[s->buffers[k]];
		mark->buffer = s->buffers[k];
		mark->narrow = s->narrow;
		if (!add_readers(m, mark, &readers[k]))
			return false;
	}
	return true;
}

/* Marks ID, which holds RESIDUAL. */
static bool mark_residual(struct machine *m, int32_t id, const struct residual *residual, struct mark *marks)
{
	struct mark *mark = &marks[id];
	mark->buffer = id;
	for (size_t u = 0; u < residual->used_by.count; u++)
		if (!op_names_add(m->report_arena, &mark->used_by, residual->used_by.names[u]))
			return false;
	return true;
}

static bool held_by_sweep(struct machine *m, struct mark *marks)
{
	struct reader **readers = machine_readers(m);
	if (!readers)
		return false;
	for (size_t i = 0; i < m->slot_capacity; i++)
		if (m->slots[i].used && !mark_state(m, &m->slots[i], readers[i], marks))
			return false;
	for (size_t r = 0; r < m->record_count; r++) {
		const struct compiled_step *code = machine_compiled_step(m, machine_step_at(m, m->records[r].step));
		for (size_t i = 0; i < code->linear.residual_count; i++) {
			const int32_t id = m->residuals[m->records[r].base + i];
			if (id != NO_BUFFER && !mark_residual(m, id, &code->linear.residuals[i], marks))
				return false;
		}
	}
	return true;
}

static int64_t held_bytes(struct machine *m)
{
	int64_t bytes = 0;
	bool *seen = m->allocator->resize(m->allocator->context, NULL, 0, m->buffer_count + 1);
	if (!seen)
		return -1;
	memset(seen, 0, m->buffer_count + 1);
	for (size_t i = 0; i < m->slot_capacity; i++)
		for (size_t k = 0; m->slots[i].used && k < m->slots[i].count; k++)
			seen[m->slots[i].buffers[k]] = true;
	for (size_t i = 0; i < m->residual_count; i++)
		if (m->residuals[i] != NO_BUFFER)
			seen[m->residuals[i]] = true;
	for (size_t i = 0; i < m->buffer_count; i++)
		if (seen[i])
			bytes += m->buffers[i].size;
	m->allocator->resize(m->allocator->context, seen, m->buffer_count + 1, 0);
	return bytes;
}

static int compare_rows(const struct held *a, int64_t sa, const struct held *b, int64_t sb)
{
	if (a->origin.argument != b->origin.argument)
		return a->origin.argument ? -1 : 1;
	return sa < sb ? -1 : sa > sb;
}

/* The type that the marked buffer is kept in; NULL for want of memory. */
static const struct type *kept_type(struct machine *m, const struct mark *mark)
{
	const struct type *full = m->buffers[mark->buffer].type;
	struct type *kept = mark->narrow ? arena_alloc(m->report_arena, sizeof *kept) : NULL;
	if (kept)
		*kept = machine_narrow_type(m, full);
	return mark->narrow ? kept : full;
}

static enum status report_held(struct machine *m)
{
	struct held_list *list = m->options->held;
	struct arena *arena = m->report_arena;
	struct mark *marks = arena_array(arena, m->buffer_count + 1, sizeof *marks);
	if (!marks)
		return machine_memory(m);
	for (size_t i = 0; i < m->buffer_count; i++)
		marks[i].buffer = NO_BUFFER;
	if (!held_by_sweep(m, marks))
		return machine_memory(m);
	size_t count = 0;
	for (size_t i = 0; i < m->buffer_count; i++)
		count += marks[i].buffer != NO_BUFFER;
	list->rows = arena_array(arena, count + 1, sizeof *list->rows);
	int64_t *sequence = arena_array(arena, count + 1, sizeof *sequence);
	if (!list->rows || !sequence)
		return machine_memory(m);
	for (size_t i = 0; i < m->buffer_count; i++) {
		if (marks[i].buffer == NO_BUFFER)
			continue;
		const struct buffer *buffer = &m->buffers[i];
		struct held row = {
			.type = kept_type(m, &marks[i]), .bytes = buffer->size, .step = buffer->step, .used_by = marks[i].used_by};
		if (!row.type)
			return machine_memory(m);
		if (buffer->origin)
			row.origin = *buffer->origin;
		row.origin.names = buffer->names;
		/* Mostly in order already: insert from the end. */
		size_t at = list->count++;
		while (at > 0 && compare_rows(&row, buffer->sequence, &list->rows[at - 1], sequence[at - 1]) < 0) {
			list->rows[at] = list->rows[at - 1];
			sequence[at] = sequence[at - 1];
			at--;
		}
		list->rows[at] = row;
		sequence[at] = buffer->sequence;
	}
	return STATUS_OK;
}

enum status machine_end_first_sweep(struct machine *m)
{
	m->first_sweep = false;
	m->counters->stored_bytes = held_bytes(m);
	if (m->counters->stored_bytes < 0)
		return machine_memory(m);
	if (m->options->held) {
		enum status status = report_held(m);
		if (status)
			return status;
	}
	if (m->options->want_value && m->has_state) {
		const struct buffer *out = &m->buffers[m->state[0]];
		return machine_exchange(m, MACHINE_OUTPUT, out->offset, out->type);
	}
	return STATUS_OK;
}
