/* A step of the chain: where its call finds what it reads, and puts what it makes. */
#include "memory/machine_parts.h"

#include <assert.h>

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
	return !m->arena.failed &&
	       machine_grow(m, (void **)&m->made, &m->made_capacity, body->value_count + 1, sizeof *m->made);
}

static enum status call(struct machine *m, enum call_kind kind, const struct program *program,
                        const struct compiled_step *code, int64_t step, int64_t workspace)
{
	if (!m->hooks)
		return STATUS_OK;
	struct machine_call made = {.kind = kind,
	                            .program = program,
	                            .compiled = code,
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

/* The place of an out of BODY among all that it hands on, in program order: what it does not make first. */
static int64_t out_place(const struct body *body, uint32_t id)
{
	const struct value *value = &body->values[id];
	return value->from == FROM_INSTR ? 1 + linear_place(body, body->instrs[value->instr].out_keep, id) : 0;
}

/* The buffer of the in that VALUE goes on in, where nobody else holds that; or NO_BUFFER. */
static int32_t goes_on_in(const struct machine *m, const struct body *body, uint32_t value)
{
	const uint32_t port = body_goes_on(body, value);
	const int32_t id = port == NO_VALUE ? NO_BUFFER : m->in_buffers[port];
	return id != NO_BUFFER && m->buffers[id].holds == 1 ? id : NO_BUFFER;
}

/* Gives each out of BODY a buffer: its own, or that of the in it is or goes on in. Until forget_outs m->made has them by value. */
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
		if (same == NO_BUFFER)
			same = goes_on_in(m, body, body->outs[i].value);
		if (same == NO_BUFFER) {
			same = machine_buffer(m, value->type, type_bytes(value->type));
			if (same == NO_BUFFER)
				return false;
			m->buffers[same].step = step;
			m->buffers[same].sequence = first + out_place(body, body->outs[i].value);
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
	m->sequence = first + (int64_t)body->instr_count * INSTR_PLACES + 1;
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
			machine_hold(m, m->out_buffers[i]);
	int32_t *next = m->work; /* by slot, of those that hold something before or after */
	for (size_t i = 0; i < m->held_count; i++)
		next[m->held[i]] = NO_BUFFER;
	for (uint32_t i = 0; i < step->live_out_count; i++)
		next[step->live_out[i]] = m->state[step->live_out[i]];
	for (size_t i = 0; i < body->out_count; i++)
		if (body->outs[i].kind == PORT_SLOT)
			next[body->outs[i].index] = m->out_buffers[i];
	size_t still = 0;
	for (size_t i = 0; i < m->held_count; i++) {
		const uint32_t slot = m->held[i];
		if (next[slot] != m->state[slot])
			ok &= machine_set_holder(m, &m->state[slot], next[slot]);
		if (next[slot] != NO_BUFFER)
			m->held[still++] = slot;
	}
	m->held_count = still;
	for (size_t i = 0; i < body->out_count; i++)
		if (body->outs[i].kind == PORT_SLOT && m->out_buffers[i] != NO_BUFFER)
			ok &= machine_set_state(m, body->outs[i].index, m->out_buffers[i]);
	for (size_t i = 0; i < body->out_count; i++)
		ok &= machine_let_go(m, m->out_buffers[i]);
	return ok;
}

/* Step INDEX, which BODY has recorded, holds its residuals: ins of BODY, and outs. */
static bool hold_residuals(struct machine *m, const struct linear *linear, const struct body *body, int64_t index)
{
	if (!machine_grow(m, (void **)&m->residuals, &m->residual_capacity, m->residual_count + linear->residual_count,
	                  sizeof *m->residuals) ||
	    !machine_grow(m, (void **)&m->records, &m->record_capacity, m->record_count + 1, sizeof *m->records))
		return false;
	m->records[m->record_count++] = (struct record){index, m->residual_count};
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct residual *residual = &linear->residuals[i];
		const struct value *value = &body->values[residual->value];
		const bool in = value->from == FROM_PORT;
		const int32_t id = in ? m->in_buffers[value->port] : m->made[residual->value] - 1;
		machine_hold(m, id);
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

enum status machine_advance(struct machine *m, int64_t index, bool record, bool end_wanted)
{
	const struct step *step = machine_step_at(m, index);
	const struct compiled_step *code = machine_compiled_step(m, step);
	bool only = record && !end_wanted;
	const struct program *program = only ? &code->record_only : record ? &code->record : &code->forward;
	const struct body *body = only ? code->linear.record_only : record ? code->linear.record : code->forward_body;
	const struct origin *origins = only ? NULL : record ? code->record_origins : code->forward_origins;
	if (!room_for(m, body))
		return machine_memory(m);
	for (size_t i = 0; i < body->in_count; i++) {
		int32_t id = m->in_buffers[i] = m->state[body->ins[i].index];
		m->ins[i] = id == NO_BUFFER ? -1 : m->buffers[id].offset;
	}
	note_names(m, step->body);
	if (!place_outs(m, body, origins, index))
		return machine_memory(m);
	int64_t workspace = pool_get(&m->pool, program->workspace);
	if (workspace < 0)
		return machine_memory(m);
	enum status status = call(m, record ? CALL_RECORD : CALL_FORWARD, program, code, index, workspace);
	if (status)
		return status;
	if (!pool_put(&m->pool, workspace, program->workspace) ||
	    (record && !hold_residuals(m, &code->linear, body, index)))
		return machine_memory(m);
	forget_outs(m, body);
	if (only) {
		for (size_t i = 0; i < body->out_count; i++)
			assert(m->buffers[m->out_buffers[i]].holds > 0);
		if (!machine_drop_state(m))
			return machine_memory(m);
	} else if (!advance_state(m, step, body)) {
		return machine_memory(m);
	}
	m->position = index + 1;
	m->counters->evaluations += m->compiled->by_value ? m->lowered->steps : 1;
	*(m->first_sweep ? &m->counters->forward_cost : &m->counters->recomputed_cost) += code->linear.forward_cost;
	return STATUS_OK;
}

enum status machine_seed(struct machine *m)
{
	const struct step *last = machine_step_count(m) ? machine_step_at(m, machine_step_count(m) - 1) : NULL;
	m->seeded = true;
	m->cot_position = machine_step_count(m);
	if (last && last->cot_out_count == 0)
		return STATUS_OK;
	const struct type *type = last ? last->out_types[0] : &m->lowered->begins;
	int32_t id = machine_buffer(m, type, type_bytes(type));
	if (id == NO_BUFFER)
		return machine_memory(m);
	machine_hold(m, id);
	m->cotangent[0] = id;
	return machine_exchange(m, MACHINE_SEED, m->buffers[id].offset, type);
}

enum status machine_reverse(struct machine *m, int64_t index)
{
	const struct step *step = machine_step_at(m, index);
	const struct compiled_step *code = machine_compiled_step(m, step);
	const struct body *body = code->linear.backward;
	assert(m->record_count && m->records[m->record_count - 1].step == index);
	struct record record = m->records[--m->record_count];
	if (!room_for(m, body))
		return machine_memory(m);
	bool shared = false;
	for (size_t i = 0; i < body->in_count; i++) {
		const struct port *port = &body->ins[i];
		int32_t id = m->in_buffers[i] =
			port->kind == PORT_RESIDUAL ? m->residuals[record.base + port->index] : m->cotangent[port->index];
		m->ins[i] = id == NO_BUFFER ? -1 : m->buffers[id].offset;
		shared |= port->kind == PORT_COTANGENT && id != NO_BUFFER && m->buffers[id].holds > 1;
	}
	const struct program *program = shared && code->backward.takes_cotangent ? &code->backward_shared : &code->backward;
	if (!place_outs(m, body, NULL, index))
		return machine_memory(m);
	forget_outs(m, body);
	int64_t workspace = pool_get(&m->pool, program->workspace);
	if (workspace < 0)
		return machine_memory(m);
	enum status status = call(m, CALL_BACKWARD, program, code, index, workspace);
	if (status)
		return status;
	bool ok = pool_put(&m->pool, workspace, program->workspace);
	for (size_t i = 0; i < body->out_count; i++)
		machine_hold(m, m->out_buffers[i]);
	/* Cotangents that pass the step by. */
	int32_t *passed = m->work;
	for (uint32_t i = 0; i < step->cot_out_count; i++) {
		passed[i] = m->cotangent[step->cot_out[i]];
		m->cotangent[step->cot_out[i]] = NO_BUFFER;
	}
	for (uint32_t i = 0; i < step->cot_out_count; i++) {
		if (step->cot_to[i] == NO_VALUE)
			ok &= machine_let_go(m, passed[i]);
		else
			m->cotangent[step->cot_to[i]] = passed[i];
	}
	for (size_t i = 0; i < body->out_count; i++)
		m->cotangent[body->outs[i].index] = m->out_buffers[i];
	while (m->residual_count > record.base)
		ok &= machine_let_go(m, m->residuals[--m->residual_count]);
	m->cot_position = index;
	m->counters->evaluations += code->linear.recomputed;
	m->counters->recomputed_cost += code->linear.recompute_cost;
	m->counters->backward_cost += code->linear.backward_cost;
	return ok ? STATUS_OK : machine_memory(m);
}
