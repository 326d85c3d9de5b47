/*
 * Holders and buffers. Every holder (a slot of the current state, a snapshot, a
 * residual, a cotangent) holds a buffer by its number; a buffer counts its
 * holders and gives its place back when there are none. Numbers of freed buffers
 * are used again.
 *
 * Invariant: between calls every buffer in use has a holder, and the sum of
 * holds equals the number of holders; at the end there are none.
 */
#include "plan/machine.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"

enum { NO_BUFFER = -1 };

struct buffer {
	int64_t offset, size;
	int32_t holds;
	int32_t next_free;
	const struct type *type;
	const struct origin *origin;
	const struct naming *names;
	int64_t step;     /* that made it; -1: the input */
	int64_t sequence; /* of its making */
};

struct snapshot {
	bool used;
	int64_t position;
	int32_t *buffers; /* by live slot of that position */
	uint32_t *slots;
	size_t count, capacity;
	bool narrow;
};

/* Residuals of recorded steps, the last on top. */
struct record {
	int64_t step;
	size_t base;
};

struct machine {
	const struct units *units;
	const struct lowered *lowered;
	const struct machine_options *options;
	const struct machine_hooks *hooks;
	const struct allocator *allocator;
	struct arena arena; /* for what does not grow with the steps, but snapshots' lists */
	struct diags *diags;
	bool looped;         /* some steps are of a loop, and what they do alone matters */
	int64_t *mark, *now; /* what the machine held, and holds, while turns are run */
	size_t mark_capacity, now_capacity;
	const struct step **steps; /* by index, where no hooks want the loops' counters and there are few; or NULL */
	struct counters *counters;
	struct pool pool;
	struct buffer *buffers;
	size_t buffer_count, buffer_capacity;
	int32_t free_buffer;
	int64_t sequence;
	int32_t *state; /* by slot */
	bool has_state;
	int64_t position;
	int32_t *cotangent; /* by slot */
	int64_t cot_position;
	bool seeded;
	struct snapshot *slots;
	size_t slot_capacity;
	struct snapshot *disk; /* positions only */
	size_t disk_capacity;
	int64_t used_slots;
	struct record *records;
	size_t record_count, record_capacity;
	int32_t *residuals;
	size_t residual_count, residual_capacity;
	bool first_sweep;
	struct origin input_origin;
	struct machine_array *arrays; /* of a state, for the disk */
	size_t array_capacity;
	int64_t *ins, *outs; /* offsets for a call */
	const struct param_ref **out_params;
	int32_t *in_buffers, *out_buffers;
	size_t port_capacity;
	int32_t *made; /* by value of the body that is called: the buffer of the out that it is, counted from 1; 0: none */
	size_t made_capacity;
	int32_t *work; /* by slot: room to work */
	int64_t levels[MAX_LOOP_LEVELS];
};

static enum status memory(struct machine *m) { return diag_memory(m->diags); }

static bool grow(struct machine *m, void **array, size_t *capacity, size_t wanted, size_t size)
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

/* Buffers. */

static int32_t buffer_new(struct machine *m, const struct type *type, int64_t size)
{
	int32_t id = m->free_buffer;
	if (id != NO_BUFFER) {
		m->free_buffer = m->buffers[id].next_free;
	} else {
		if (!grow(m, (void **)&m->buffers, &m->buffer_capacity, m->buffer_count + 1, sizeof *m->buffers))
			return NO_BUFFER;
		id = (int32_t)m->buffer_count++;
	}
	m->buffers[id] = (struct buffer){.size = size, .type = type, .step = -1, .sequence = m->sequence++};
	m->buffers[id].offset = pool_get(&m->pool, size);
	return m->buffers[id].offset < 0 ? NO_BUFFER : id;
}

static void hold(struct machine *m, int32_t id)
{
	if (id != NO_BUFFER)
		m->buffers[id].holds++;
}

static bool let_go(struct machine *m, int32_t id)
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

/* Makes HOLDER hold ID instead of what it held. */
static bool set_holder(struct machine *m, int32_t *holder, int32_t id)
{
	int32_t old = *holder;
	hold(m, id);
	*holder = id;
	return let_go(m, old);
}

static bool drop_state(struct machine *m)
{
	bool ok = true;
	for (size_t i = 0; m->has_state && i < m->lowered->slot_count; i++)
		ok &= set_holder(m, &m->state[i], NO_BUFFER);
	m->has_state = false;
	return ok;
}

static const struct step *step_at(struct machine *m, int64_t index)
{
	return m->steps ? m->steps[index] : lowered_step(m->lowered, index, m->levels);
}

static const struct unit *unit_of(const struct machine *m, const struct step *step)
{
	return &m->units->units[step->id];
}

static int64_t steps_of(const struct machine *m) { return m->units->by_value ? 1 : m->lowered->steps; }

/* Calls. */

static bool room_for(struct machine *m, const struct body *body)
{
	const size_t ports = body->in_count + body->out_count + 1;
	if (ports > m->port_capacity) {
		m->port_capacity = 2 * ports;
		m->ins = arena_array(&m->arena, m->port_capacity, sizeof *m->ins);
		m->outs = arena_array(&m->arena, m->port_capacity, sizeof *m->outs);
		m->out_params = arena_array(&m->arena, m->port_capacity, sizeof *m->out_params);
		m->in_buffers = arena_array(&m->arena, m->port_capacity, sizeof *m->in_buffers);
		m->out_buffers = arena_array(&m->arena, m->port_capacity, sizeof *m->out_buffers);
	}
	return !m->arena.failed && grow(m, (void **)&m->made, &m->made_capacity, body->value_count + 1, sizeof *m->made);
}

static enum status call(struct machine *m, enum call_kind kind, const struct program *program, const struct unit *unit,
                        int64_t step, int64_t workspace)
{
	if (!m->hooks)
		return STATUS_OK;
	struct machine_call made = {.kind = kind,
	                            .program = program,
	                            .unit = unit,
	                            .step = step,
	                            .counters = m->levels,
	                            .ins = m->ins,
	                            .outs = m->outs,
	                            .out_params = m->out_params,
	                            .workspace = workspace,
	                            .live = m->pool.top,
	                            .recomputed = kind != CALL_BACKWARD && !m->first_sweep};
	return m->hooks->call(m->hooks->context, &made);
}

/* Whether NAMES are better than those that BUFFER has: a name from within a checkpoint block is not. */
static bool names_more(const struct buffer *buffer, const struct naming *names)
{
	bool outer = names && !buffer->names;
	for (const struct naming *n = names; n && !outer; n = n->next)
		outer = !n->inner;
	return outer;
}

/* What a step gives a name is known by it from there on, and reported there, as JAX does. */
static void note_names(struct machine *m, const struct body *body)
{
	for (size_t i = 0; i < body->in_count; i++) {
		const struct naming *names = body->values[body->ins[i].value].names;
		int32_t id = m->state[body->ins[i].index];
		if (id == NO_BUFFER || !names_more(&m->buffers[id], names))
			continue;
		m->buffers[id].names = names;
		m->buffers[id].sequence = m->sequence++;
	}
}

/* The place of an out of BODY among all that it makes, in program order. */
static int64_t program_order(const struct body *body, uint32_t id)
{
	const struct value *value = &body->values[id];
	if (value->from != FROM_INSTR)
		return 0;
	int64_t order = 1 + (int64_t)value->instr * (1 + MAX_KEEPS);
	for (int k = 0; k < MAX_KEEPS; k++)
		if (body->instrs[value->instr].out_keep[k] == id)
			order += 1 + k;
	return order;
}

/* Gives each out of BODY a buffer: its own, or that of the in it is. Until forget_outs m->made has them by value. */
static bool place_outs(struct machine *m, const struct body *body, const struct origin *origins, int64_t step)
{
	int64_t first = m->sequence;
	for (size_t i = 0; i < body->out_count; i++) {
		const struct value *value = &body->values[body->outs[i].value];
		m->outs[i] = -1;
		m->out_params[i] = NULL;
		if (value->from == FROM_PORT) {
			m->out_buffers[i] = m->in_buffers[value->port];
			continue;
		}
		int32_t same = m->made[body->outs[i].value] - 1;
		if (same == NO_BUFFER) {
			same = buffer_new(m, value->type, type_bytes(value->type));
			if (same == NO_BUFFER)
				return false;
			m->buffers[same].step = step;
			m->buffers[same].sequence = first + program_order(body, body->outs[i].value);
			m->buffers[same].origin = origins ? &origins[i] : NULL;
			m->buffers[same].names = value->names;
			m->outs[i] = m->buffers[same].offset;
			if (value->from == FROM_PARAM)
				m->out_params[i] = &value->param;
		} else {
			m->outs[i] = m->buffers[same].offset; /* one array for two outs */
		}
		m->out_buffers[i] = same;
		m->made[body->outs[i].value] = same + 1;
	}
	m->sequence = first + (int64_t)body->instr_count * (1 + MAX_KEEPS) + 1;
	return true;
}

static void forget_outs(struct machine *m, const struct body *body)
{
	for (size_t i = 0; i < body->out_count; i++)
		m->made[body->outs[i].value] = 0;
}

/* The state after a step: what it wrote, and what it left. */
static bool advance_state(struct machine *m, const struct step *step, const struct body *body)
{
	/* New holders first, so that nothing that stays is freed. */
	bool ok = true;
	for (size_t i = 0; i < body->out_count; i++)
		if (m->out_buffers[i] != NO_BUFFER)
			hold(m, m->out_buffers[i]);
	int32_t *next = m->work;
	for (uint32_t slot = 0; slot < m->lowered->slot_count; slot++)
		next[slot] = NO_BUFFER;
	for (uint32_t i = 0; i < step->live_out_count; i++)
		next[step->live_out[i]] = m->state[step->live_out[i]];
	for (size_t i = 0; i < body->out_count; i++)
		if (body->outs[i].kind == PORT_SLOT)
			next[body->outs[i].index] = m->out_buffers[i];
	for (uint32_t slot = 0; slot < m->lowered->slot_count; slot++)
		if (next[slot] != m->state[slot])
			ok &= set_holder(m, &m->state[slot], next[slot]);
	for (size_t i = 0; i < body->out_count; i++)
		ok &= let_go(m, m->out_buffers[i]);
	return ok;
}

/* Step INDEX, which BODY has recorded, holds its residuals: ins of BODY, and outs. */
static bool hold_residuals(struct machine *m, const struct linear *linear, const struct body *body, int64_t index)
{
	if (!grow(m, (void **)&m->residuals, &m->residual_capacity, m->residual_count + linear->residual_count,
	          sizeof *m->residuals) ||
	    !grow(m, (void **)&m->records, &m->record_capacity, m->record_count + 1, sizeof *m->records))
		return false;
	m->records[m->record_count++] = (struct record){index, m->residual_count};
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct residual *residual = &linear->residuals[i];
		const struct value *value = &body->values[residual->value];
		const bool in = value->from == FROM_PORT;
		const int32_t id = in ? m->in_buffers[value->port] : m->made[residual->value] - 1;
		hold(m, id);
		m->residuals[m->residual_count++] = id;
		if (id == NO_BUFFER)
			continue;
		struct buffer *buffer = &m->buffers[id];
		if (!in && !buffer->origin)
			buffer->origin = &residual->origin;
		if (names_more(buffer, residual->origin.names))
			buffer->names = residual->origin.names;
	}
	return true;
}

static enum status run_step(struct machine *m, int64_t index, bool record, bool end_wanted)
{
	const struct step *step = step_at(m, index);
	const struct unit *unit = unit_of(m, step);
	bool only = record && !end_wanted;
	const struct program *program = only ? &unit->record_only : record ? &unit->record : &unit->forward;
	const struct body *body = only ? unit->linear.record_only : record ? unit->linear.record : unit->forward_body;
	const struct origin *origins = only ? NULL : record ? unit->record_origins : unit->forward_origins;
	if (!room_for(m, body))
		return memory(m);
	for (size_t i = 0; i < body->in_count; i++) {
		int32_t id = m->in_buffers[i] = m->state[body->ins[i].index];
		m->ins[i] = id == NO_BUFFER ? -1 : m->buffers[id].offset;
	}
	note_names(m, step->body);
	if (!place_outs(m, body, origins, index))
		return memory(m);
	int64_t workspace = pool_get(&m->pool, program->workspace);
	if (workspace < 0)
		return memory(m);
	enum status status = call(m, record ? CALL_RECORD : CALL_FORWARD, program, unit, index, workspace);
	if (status)
		return status;
	if (!pool_put(&m->pool, workspace, program->workspace) ||
	    (record && !hold_residuals(m, &unit->linear, body, index)))
		return memory(m);
	forget_outs(m, body);
	if (only) {
		for (size_t i = 0; i < body->out_count; i++)
			assert(m->buffers[m->out_buffers[i]].holds > 0);
		if (!drop_state(m))
			return memory(m);
	} else if (!advance_state(m, step, body)) {
		return memory(m);
	}
	m->position = index + 1;
	m->counters->evaluations += m->units->by_value ? m->lowered->steps : 1;
	*(m->first_sweep ? &m->counters->forward_cost : &m->counters->recomputed_cost) += unit->linear.forward_cost;
	return STATUS_OK;
}

static enum status seed(struct machine *m)
{
	const struct step *last = steps_of(m) ? step_at(m, steps_of(m) - 1) : NULL;
	m->seeded = true;
	m->cot_position = steps_of(m);
	if (last && last->cot_out_count == 0)
		return STATUS_OK;
	const struct type *type = last ? last->out_types[0] : &m->lowered->begins;
	int32_t id = buffer_new(m, type, type_bytes(type));
	if (id == NO_BUFFER)
		return memory(m);
	hold(m, id);
	m->cotangent[0] = id;
	return m->hooks && m->hooks->seed ? m->hooks->seed(m->hooks->context, m->buffers[id].offset, type) : STATUS_OK;
}

static enum status turn_step(struct machine *m, int64_t index)
{
	const struct step *step = step_at(m, index);
	const struct unit *unit = unit_of(m, step);
	const struct body *body = unit->linear.backward;
	assert(m->record_count && m->records[m->record_count - 1].step == index);
	struct record record = m->records[--m->record_count];
	if (!room_for(m, body))
		return memory(m);
	bool shared = false;
	for (size_t i = 0; i < body->in_count; i++) {
		const struct port *port = &body->ins[i];
		int32_t id = m->in_buffers[i] =
			port->kind == PORT_RESIDUAL ? m->residuals[record.base + port->index] : m->cotangent[port->index];
		m->ins[i] = id == NO_BUFFER ? -1 : m->buffers[id].offset;
		shared |= port->kind == PORT_COTANGENT && id != NO_BUFFER && m->buffers[id].holds > 1;
	}
	const struct program *program = shared && unit->backward.takes_cotangent ? &unit->backward_shared : &unit->backward;
	if (!place_outs(m, body, NULL, index))
		return memory(m);
	forget_outs(m, body);
	int64_t workspace = pool_get(&m->pool, program->workspace);
	if (workspace < 0)
		return memory(m);
	enum status status = call(m, CALL_BACKWARD, program, unit, index, workspace);
	if (status)
		return status;
	bool ok = pool_put(&m->pool, workspace, program->workspace);
	for (size_t i = 0; i < body->out_count; i++)
		hold(m, m->out_buffers[i]);
	/* Cotangents that pass the step by. */
	int32_t *passed = m->work;
	for (uint32_t i = 0; i < step->cot_out_count; i++) {
		passed[i] = m->cotangent[step->cot_out[i]];
		m->cotangent[step->cot_out[i]] = NO_BUFFER;
	}
	for (uint32_t i = 0; i < step->cot_out_count; i++) {
		if (step->cot_to[i] == NO_VALUE)
			ok &= let_go(m, passed[i]);
		else
			m->cotangent[step->cot_to[i]] = passed[i];
	}
	for (size_t i = 0; i < body->out_count; i++)
		m->cotangent[body->outs[i].index] = m->out_buffers[i];
	while (m->residual_count > record.base)
		ok &= let_go(m, m->residuals[--m->residual_count]);
	m->cot_position = index;
	m->counters->evaluations += unit->linear.recomputed;
	m->counters->recomputed_cost += unit->linear.recompute_cost;
	m->counters->backward_cost += unit->linear.backward_cost;
	return ok ? STATUS_OK : memory(m);
}

/* Snapshots. */

static struct snapshot *snapshot_at(struct machine *m, struct snapshot **list, size_t *capacity, int64_t slot)
{
	return grow(m, (void **)list, capacity, (size_t)slot + 1, sizeof **list) ? &(*list)[slot] : NULL;
}

/* The slots of the state at POSITION. */
static const uint32_t *live_slots(struct machine *m, int64_t position, uint32_t *count)
{
	static const uint32_t current[1] = {0};
	if (position < steps_of(m)) {
		const struct step *step = step_at(m, position);
		*count = step->live_in_count;
		return step->live_in;
	}
	*count = 1;
	return current;
}

static struct type narrow_type(const struct machine *m, const struct type *type)
{
	struct type narrow = *type;
	narrow.dtype = m->options->store;
	return narrow;
}

static int64_t narrow_bytes(const struct machine *m, const struct type *type)
{
	struct type narrow = narrow_type(m, type);
	return shape_count(&narrow.shape) * (int64_t)dtype_size(narrow.dtype);
}

static enum status save_state(struct machine *m, int64_t slot, bool narrow)
{
	struct snapshot *s = snapshot_at(m, &m->slots, &m->slot_capacity, slot);
	uint32_t count;
	const uint32_t *live = live_slots(m, m->position, &count);
	if (!s)
		return memory(m);
	assert(!s->used && m->has_state);
	if (s->capacity < count) {
		s->capacity = count > 2 * s->capacity ? count : 2 * s->capacity;
		s->buffers = arena_array(&m->arena, s->capacity, sizeof *s->buffers);
		s->slots = arena_array(&m->arena, s->capacity, sizeof *s->slots);
		if (m->arena.failed)
			return memory(m);
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
			int32_t id = buffer_new(m, m->buffers[full].type, narrow_bytes(m, m->buffers[full].type));
			if (id == NO_BUFFER)
				return memory(m);
			const struct buffer *from = &m->buffers[full];
			m->buffers[id].origin = from->origin;
			m->buffers[id].names = from->names;
			m->buffers[id].step = from->step;
			s->buffers[i] = id;
			if (m->hooks && m->hooks->convert) {
				enum status status =
					m->hooks->convert(m->hooks->context, m->buffers[id].offset, from->offset, from->type, true);
				if (status)
					return status;
			}
		}
		hold(m, s->buffers[i]);
	}
	m->used_slots++;
	if (m->used_slots > m->counters->checkpoints)
		m->counters->checkpoints = m->used_slots;
	return STATUS_OK;
}

static enum status load_state(struct machine *m, int64_t slot)
{
	assert((size_t)slot < m->slot_capacity && m->slots[slot].used);
	const struct snapshot *s = &m->slots[slot];
	if (!drop_state(m))
		return memory(m);
	for (size_t i = 0; i < s->count; i++) {
		int32_t id = s->buffers[i];
		for (size_t k = 0; s->narrow && k < i; k++)
			if (s->buffers[k] == s->buffers[i])
				id = m->state[s->slots[k]];
		if (s->narrow && id == s->buffers[i]) {
			const struct type *type = m->buffers[id].type;
			int32_t wide = buffer_new(m, type, type_bytes(type));
			if (wide == NO_BUFFER)
				return memory(m);
			m->buffers[wide].origin = m->buffers[id].origin;
			m->buffers[wide].names = m->buffers[id].names;
			m->buffers[wide].step = m->buffers[id].step;
			if (m->hooks && m->hooks->convert) {
				enum status status =
					m->hooks->convert(m->hooks->context, m->buffers[wide].offset, m->buffers[id].offset, type, false);
				if (status)
					return status;
			}
			id = wide;
		}
		hold(m, id);
		m->state[s->slots[i]] = id;
	}
	m->has_state = true;
	m->position = s->position;
	return STATUS_OK;
}

static enum status drop_slot(struct machine *m, int64_t slot)
{
	struct snapshot *s = &m->slots[slot];
	bool ok = true;
	assert(s->used);
	for (size_t i = 0; i < s->count; i++)
		ok &= let_go(m, s->buffers[i]);
	s->used = false;
	m->used_slots--;
	return ok ? STATUS_OK : memory(m);
}

/* Disk. */

static bool add_array(struct machine *m, size_t *count, int32_t id)
{
	if (!grow(m, (void **)&m->arrays, &m->array_capacity, *count + 1, sizeof *m->arrays))
		return false;
	m->arrays[(*count)++] = (struct machine_array){m->buffers[id].offset, m->buffers[id].size};
	return true;
}

/* Tells of a place from which a run could begin, where this is one. */
static enum status tell_point(struct machine *m, int64_t slot, size_t count)
{
	if (!m->hooks || !m->hooks->point || m->used_slots || m->record_count)
		return STATUS_OK;
	return m->hooks->point(m->hooks->context, slot, m->arrays, count);
}

/* The I-th slot of the state before STEP holds the array of an earlier one. */
static bool is_alias(const struct step *step, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (step->class_in[k] == step->class_in[i])
			return true;
	return false;
}

/* Writes the current state to disk slot SLOT, each array once. */
static enum status spill_state(struct machine *m, int64_t slot)
{
	struct snapshot *s = snapshot_at(m, &m->disk, &m->disk_capacity, slot);
	const struct step *step = step_at(m, m->position);
	size_t count = 0;
	int64_t bytes = 0;
	if (!s)
		return memory(m);
	s->used = true;
	s->position = m->position;
	for (uint32_t i = 0; i < step->live_in_count; i++) {
		if (is_alias(step, i))
			continue;
		bytes += m->buffers[m->state[step->live_in[i]]].size;
		if (!add_array(m, &count, m->state[step->live_in[i]]))
			return memory(m);
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
	return tell_point(m, slot, count);
}

static enum status fetch_state(struct machine *m, int64_t slot)
{
	const struct snapshot *s = &m->disk[slot];
	size_t count = 0;
	if (!drop_state(m))
		return memory(m);
	for (size_t i = 0; i < m->buffer_count; i++)
		if (m->buffers[i].holds && !add_array(m, &count, (int32_t)i))
			return memory(m);
	enum status status = tell_point(m, -1, count);
	if (status)
		return status;
	m->position = s->position;
	m->has_state = true;
	m->counters->spill_reads++;
	const struct step *step = step_at(m, m->position);
	count = 0;
	for (uint32_t i = 0; i < step->live_in_count; i++) {
		int32_t id = NO_BUFFER;
		for (uint32_t k = 0; k < i; k++)
			if (step->class_in[k] == step->class_in[i])
				id = m->state[step->live_in[k]];
		if (id == NO_BUFFER) {
			id = buffer_new(m, step->in_types[i], type_bytes(step->in_types[i]));
			if (id == NO_BUFFER || !add_array(m, &count, id))
				return memory(m);
			m->buffers[id].step = m->position - 1;
		}
		hold(m, id);
		m->state[step->live_in[i]] = id;
	}
	return m->hooks && m->hooks->fetch ? m->hooks->fetch(m->hooks->context, slot, m->arrays, count) : STATUS_OK;
}

/* The report at the end of the first sweep. */

struct mark {
	int32_t buffer;
	const char **used_by;
	size_t count, capacity;
};

static bool add_use(struct machine *m, struct mark *mark, const char *op)
{
	for (size_t i = 0; i < mark->count; i++)
		if (mark->used_by[i] == op)
			return true;
	const char **grown = arena_grow(m->options->arena, mark->used_by, mark->count, &mark->capacity, sizeof *grown);
	if (!grown)
		return false;
	mark->used_by = grown;
	grown[mark->count++] = op;
	return true;
}

/* Operations of STEP that read the state's array CLASS. */
static bool add_readers(struct machine *m, struct mark *mark, const struct step *step, uint32_t class)
{
	const struct body *body = step->body;
	uint32_t value = NO_VALUE;
	for (size_t i = 0; i < body->in_count; i++)
		if (body->ins[i].index == class)
			value = body->ins[i].value;
	for (size_t i = 0; value != NO_VALUE && i < body->instr_count; i++)
		if ((body->instrs[i].v == value || body->instrs[i].a == value) &&
		    !add_use(m, mark, op_table[body->instrs[i].op].name))
			return false;
	return true;
}

static bool held_by_sweep(struct machine *m, struct mark *marks)
{
	for (size_t i = 0; i < m->slot_capacity; i++) {
		const struct snapshot *s = &m->slots[i];
		const struct step *step = s->used && s->position < steps_of(m) ? step_at(m, s->position) : NULL;
		for (size_t k = 0; s->used && k < s->count; k++) {
			marks[s->buffers[k]].buffer = s->buffers[k];
			if (step && !add_readers(m, &marks[s->buffers[k]], step, step->class_in[k]))
				return false;
		}
	}
	for (size_t r = 0; r < m->record_count; r++) {
		const struct unit *unit = unit_of(m, step_at(m, m->records[r].step));
		for (size_t i = 0; i < unit->linear.residual_count; i++) {
			int32_t id = m->residuals[m->records[r].base + i];
			if (id == NO_BUFFER)
				continue;
			marks[id].buffer = id;
			const struct residual *residual = &unit->linear.residuals[i];
			for (size_t u = 0; u < residual->used_by_count; u++)
				if (!add_use(m, &marks[id], residual->used_by[u]))
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

static enum status report_held(struct machine *m)
{
	struct held_list *list = m->options->held;
	struct arena *arena = m->options->arena;
	struct mark *marks = arena_array(arena, m->buffer_count + 1, sizeof *marks);
	if (!marks)
		return memory(m);
	for (size_t i = 0; i < m->buffer_count; i++)
		marks[i].buffer = NO_BUFFER;
	if (!held_by_sweep(m, marks))
		return memory(m);
	size_t count = 0;
	for (size_t i = 0; i < m->buffer_count; i++)
		count += marks[i].buffer != NO_BUFFER;
	list->rows = arena_array(arena, count + 1, sizeof *list->rows);
	int64_t *sequence = arena_array(arena, count + 1, sizeof *sequence);
	if (!list->rows || !sequence)
		return memory(m);
	for (size_t i = 0; i < m->buffer_count; i++) {
		if (marks[i].buffer == NO_BUFFER)
			continue;
		const struct buffer *buffer = &m->buffers[i];
		struct held row = {
			.type = buffer->type, .step = buffer->step, .used_by = marks[i].used_by, .used_by_count = marks[i].count};
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

static enum status end_first_sweep(struct machine *m)
{
	m->first_sweep = false;
	m->counters->stored_bytes = held_bytes(m);
	if (m->counters->stored_bytes < 0)
		return memory(m);
	if (m->options->held) {
		enum status status = report_held(m);
		if (status)
			return status;
	}
	if (m->options->want_value && m->hooks && m->hooks->output && m->has_state) {
		const struct buffer *out = &m->buffers[m->state[0]];
		return m->hooks->output(m->hooks->context, out->offset, out->type);
	}
	return STATUS_OK;
}

/* The steps that a walk asks for again and again. */
static bool list_steps(struct machine *m)
{
	enum { FEW = 1 << 16 };
	const int64_t count = m->lowered->steps;
	if (m->hooks || m->units->by_value || count > FEW)
		return true;
	const struct step **steps = allocator_get(m->allocator, (size_t)count + 1, sizeof *steps);
	for (int64_t i = 0; steps && i < count; i++)
		steps[i] = step_at(m, i);
	m->steps = steps;
	return steps != NULL;
}

static enum status begin(struct machine *m)
{
	const size_t slots = m->lowered->slot_count;
	arena_init(&m->arena, m->allocator);
	pool_init(&m->pool, m->allocator);
	if (!list_steps(m))
		return memory(m);
	for (size_t i = 0; i < m->lowered->item_count; i++)
		m->looped |= !m->lowered->items[i].step && !m->hooks && !m->options->held && !m->units->by_value;
	m->state = arena_array(&m->arena, slots, sizeof *m->state);
	m->cotangent = arena_array(&m->arena, slots, sizeof *m->cotangent);
	m->work = arena_array(&m->arena, slots, sizeof *m->work);
	if (m->arena.failed)
		return memory(m);
	for (size_t i = 0; i < slots; i++)
		m->state[i] = m->cotangent[i] = NO_BUFFER;
	const struct step *first = steps_of(m) ? step_at(m, 0) : NULL;
	const struct type *type = first && first->live_in_count ? first->in_types[0] : &m->lowered->begins;
	int32_t id = buffer_new(m, type, type_bytes(type));
	if (id == NO_BUFFER)
		return memory(m);
	m->input_origin = (struct origin){.argument = true, .param = NO_VALUE};
	m->buffers[id].origin = &m->input_origin;
	hold(m, id);
	m->has_state = true;
	m->state[0] = id;
	for (uint32_t i = 0; first && i < first->live_in_count; i++)
		if (first->live_in[i] != 0)
			(void)set_holder(m, &m->state[first->live_in[i]], id);
	return m->hooks && m->hooks->input ? m->hooks->input(m->hooks->context, m->buffers[id].offset, type) : STATUS_OK;
}

/* Turns of a loop. */

/* Writes what decides on where all that follows lies, while no more is held or let go than the state: 0 is failure. */
static size_t write_mark(struct machine *m, int64_t **mark, size_t *capacity)
{
	const size_t slots = m->lowered->slot_count, count = 1 + 2 * (m->pool.count + slots);
	if (!grow(m, (void **)mark, capacity, count, sizeof **mark))
		return 0;
	int64_t *to = *mark;
	*to++ = m->pool.top;
	for (size_t i = 0; i < m->pool.count; i++) {
		*to++ = m->pool.holes[i].offset;
		*to++ = m->pool.holes[i].size;
	}
	for (size_t i = 0; i < slots; i++) {
		const struct buffer *buffer = m->state[i] == NO_BUFFER ? NULL : &m->buffers[m->state[i]];
		*to++ = buffer ? buffer->offset : -1;
		*to++ = buffer ? buffer->holds : 0;
	}
	return count;
}

/* Advances over a turn of PERIOD steps from *INDEX. *COST: what it cost. */
static enum status run_turn(struct machine *m, int64_t *index, int64_t period, double *cost)
{
	enum status status = STATUS_OK;
	*cost = 0;
	for (int64_t end = *index + period; *index < end && !status; ++*index) {
		*cost += unit_of(m, step_at(m, *index))->linear.forward_cost;
		status = run_step(m, *index, false, true);
	}
	return status;
}

/*
 * Advances from *INDEX over turns of PERIOD steps that are alike, to less than some
 * turns before UNTIL. Once a turn ends with everything as it was after an earlier one,
 * those between come again and again, and are counted instead of run (Brent's way to
 * find a cycle: the one remembered is the latest of turns 1, 2, 4, ...).
 */
static enum status run_turns(struct machine *m, int64_t *index, int64_t period, int64_t until)
{
	enum { HOLES = 64 }; /* beyond which remembering takes longer than running */
	size_t marked = 0;
	for (int64_t turns = 0, limit = 0; m->pool.count <= HOLES && *index + period <= until; turns++) {
		if (turns == limit) {
			marked = write_mark(m, &m->mark, &m->mark_capacity);
			limit = limit ? 2 * limit : 1;
			turns = 0;
		}
		double cost;
		enum status status = run_turn(m, index, period, &cost);
		if (status)
			return status;
		size_t count = write_mark(m, &m->now, &m->now_capacity);
		if (!marked || !count)
			return memory(m);
		if (count != marked || memcmp(m->mark, m->now, count * sizeof *m->mark) != 0)
			continue;
		int64_t cycle = (turns + 1) * period, times = (until - *index) / cycle;
		*index += times * cycle;
		m->position = *index;
		m->counters->evaluations += times * cycle;
		*(m->first_sweep ? &m->counters->forward_cost : &m->counters->recomputed_cost) +=
			(double)(times * (turns + 1)) * cost;
		return STATUS_OK;
	}
	return STATUS_OK;
}

static enum status forward(struct machine *m, int64_t begin, int64_t end)
{
	enum { TURNS = 5 }; /* of fewer nothing can be spared */
	enum status status = STATUS_OK;
	int64_t alike = begin; /* from here on turns may be alike */
	for (int64_t i = begin; i < end && !status; i++) {
		int64_t until, period = m->looped && i >= alike ? lowered_period(m->lowered, i, end, TURNS, &until) : 0;
		if (period) {
			status = run_turns(m, &i, period, until);
			alike = until;
		}
		if (!status && i < end)
			status = run_step(m, i, false, true);
	}
	return status;
}

static enum status act(struct machine *m, const struct action *action, const struct action *next)
{
	enum status status = STATUS_OK;
	switch (action->kind) {
	case ACT_FORWARD:
	case ACT_RECORD:
		assert(m->has_state && m->position == action->begin);
		if (action->kind == ACT_FORWARD)
			status = forward(m, action->begin, action->end);
		for (int64_t i = action->begin; i < action->end && action->kind == ACT_RECORD && status == STATUS_OK; i++) {
			bool last = i + 1 == action->end;
			bool turns = last && (!next || next->kind == ACT_BACKWARD);
			bool output = last && m->first_sweep && i + 1 == steps_of(m) && m->options->want_value;
			status = run_step(m, i, true, !turns || output);
		}
		if (status == STATUS_OK && m->first_sweep && action->end == steps_of(m))
			status = end_first_sweep(m);
		return status;
	case ACT_SAVE:
		return save_state(m, action->slot, m->options->store != DTYPE_COUNT);
	case ACT_LOAD:
		return load_state(m, action->slot);
	case ACT_DROP:
		return drop_slot(m, action->slot);
	case ACT_SPILL:
		return spill_state(m, action->slot);
	case ACT_FETCH:
		return fetch_state(m, action->slot);
	case ACT_DISCARD:
		m->disk[action->slot].used = false;
		return STATUS_OK;
	case ACT_BACKWARD:
		if (!drop_state(m))
			return memory(m);
		if (!m->seeded)
			status = seed(m);
		for (int64_t i = action->end; i-- > action->begin && status == STATUS_OK;)
			status = turn_step(m, i);
		return status;
	}
	return status;
}

static enum status finish(struct machine *m)
{
	enum status status = STATUS_OK;
	if (steps_of(m) == 0) {
		status = end_first_sweep(m);
		if (status == STATUS_OK && !drop_state(m))
			status = memory(m);
		if (status == STATUS_OK)
			status = seed(m);
	}
	if (status == STATUS_OK && m->hooks && m->hooks->gradient) {
		const struct step *first = steps_of(m) ? step_at(m, 0) : NULL;
		const struct type *type = first && first->live_in_count ? first->in_types[0] : &m->lowered->begins;
		int32_t id = m->cotangent[0];
		status = m->hooks->gradient(m->hooks->context, id == NO_BUFFER ? -1 : m->buffers[id].offset, type);
	}
	return status;
}

static void free_machine(struct machine *m)
{
	const struct allocator *a = m->allocator;
	allocator_put(a, m->slots, m->slot_capacity * sizeof *m->slots);
	allocator_put(a, m->disk, m->disk_capacity * sizeof *m->disk);
	allocator_put(a, m->buffers, m->buffer_capacity * sizeof *m->buffers);
	allocator_put(a, m->records, m->record_capacity * sizeof *m->records);
	allocator_put(a, m->residuals, m->residual_capacity * sizeof *m->residuals);
	allocator_put(a, m->made, m->made_capacity * sizeof *m->made);
	allocator_put(a, m->arrays, m->array_capacity * sizeof *m->arrays);
	allocator_put(a, m->mark, m->mark_capacity * sizeof *m->mark);
	allocator_put(a, m->now, m->now_capacity * sizeof *m->now);
	allocator_put(a, m->steps, ((size_t)m->lowered->steps + 1) * sizeof *m->steps);
	arena_free(&m->arena);
	pool_free(&m->pool);
}

enum status machine_run(const struct units *units, struct schedule *schedule, const struct machine_options *options,
                        struct counters *counters, struct diags *diags)
{
	struct machine m = {.units = units,
	                    .lowered = units->lowered,
	                    .options = options,
	                    .hooks = options->hooks,
	                    .allocator = options->allocator,
	                    .diags = diags,
	                    .counters = counters,
	                    .free_buffer = NO_BUFFER,
	                    .first_sweep = true};
	memset(counters, 0, sizeof *counters);
	counters->steps = units->lowered->steps;
	struct action action, next;
	schedule_rewind(schedule);
	enum status status = begin(&m);
	bool more = schedule_next(schedule, &action), within = true;
	while (more && within && status == STATUS_OK) {
		more = schedule_next(schedule, &next);
		status = act(&m, &action, more ? &next : NULL);
		if (status == STATUS_OK && m.hooks && m.hooks->progress)
			status = m.hooks->progress(m.hooks->context, &action, m.pool.top);
		within = !options->most || m.pool.peak <= options->most;
		action = next;
	}
	if (status == STATUS_OK && within)
		status = finish(&m);
	counters->peak_bytes = m.pool.peak;
	free_machine(&m);
	return status;
}
