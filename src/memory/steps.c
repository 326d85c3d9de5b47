/*
 * One step of the chain: where its call reads and writes arrays.
 * Tests: tests/unit/test_machine.c
 */
#include "memory/machine_parts.h"

#include <assert.h>

static bool reserve_ports(struct machine *m, const struct body *body)
{
	struct call_ports *p = &m->ports;
	const size_t ports = body->in_count + body->out_count + 1;
	if (ports > p->capacity) {
		p->capacity = 2 * ports;
		p->ins = arena_array(&m->arena, p->capacity, sizeof *p->ins);
		p->outs = arena_array(&m->arena, p->capacity, sizeof *p->outs);
		p->out_params = arena_array(&m->arena, p->capacity, sizeof *p->out_params);
		p->in_buffers = arena_array(&m->arena, p->capacity, sizeof *p->in_buffers);
		p->in_shared = arena_array(&m->arena, p->capacity, sizeof *p->in_shared);
		p->out_buffers = arena_array(&m->arena, p->capacity, sizeof *p->out_buffers);
	}
	return !m->arena.failed &&
	       machine_grow(m, (void **)&p->made, &p->made_capacity, body->value_count + 1, sizeof *p->made);
}

static void set_in(struct machine *m, size_t port, int32_t id, bool shared)
{
	m->ports.in_buffers[port] = id;
	m->ports.in_shared[port] = shared;
	m->ports.ins[port] = buffers_offset(&m->buffers, id);
}

/* Passes CALL, of which the caller sets kind, program, compiled, step and ports, to the hook; with its workspace. */
static enum status make_call(struct machine *m, struct machine_call *call)
{
	struct pool *pool = &m->buffers.pool;
	const int64_t bytes = program_workspace(call->program, m->options->rows);
	call->workspace = pool_get(pool, bytes);
	TRY_ALLOC(call->workspace >= 0, m->context->diags);
	call->counters = m->levels;
	call->ins = m->ports.ins;
	call->outs = m->ports.outs;
	call->out_params = m->ports.out_params;
	call->live = pool->top;
	call->recomputed = call->kind != CALL_BACKWARD && !m->first_sweep;
	if (m->options->log)
		machine_log_call(m->options->log, call);
	TRY(m->hooks ? m->hooks->call(m->hooks->context, call) : STATUS_OK);
	return pool_put(pool, call->workspace, bytes) ? STATUS_OK : machine_memory(m);
}

/* True if NAMES, which may be NULL, should replace BUFFER's: it has none, or one of NAMES is not `inner`. */
static bool has_better_name(const struct buffer *buffer, const struct naming *names)
{
	bool outer = names && !buffer->names;
	for (const struct naming *n = names; n && !outer; n = n->next)
		outer = !n->inner;
	return outer;
}

/* The report lists an array at the step that gives it a name, as JAX does: its sequence becomes the next one. */
static void note_names(struct machine *m, const struct step *step)
{
	const struct body *body = step->body;
	for (size_t i = 0; i < body->in_count; i++) {
		const uint32_t value = body->ins[i].value;
		const struct naming *names = step_names(step, value, body->values[value].names);
		const int32_t id = machine_buffer(m, step_slot(step, &body->ins[i]));
		if (id == NO_BUFFER || !has_better_name(&m->buffers.items[id], names))
			continue;
		m->buffers.items[id].names = names;
		m->buffers.items[id].sequence = m->buffers.sequence++;
	}
}

/* Returns the buffer of the in whose array VALUE may reuse (body_goes_on), if it has one holder; else NO_BUFFER. */
static int32_t reusable_in(const struct machine *m, const struct body *body, uint32_t value)
{
	const uint32_t port = body_goes_on(body, value);
	const int32_t id = port == NO_VALUE ? NO_BUFFER : m->ports.in_buffers[port];
	const bool alone = id != NO_BUFFER && m->buffers.items[id].holds == 1 && !m->ports.in_shared[port];
	const bool fits = alone && (!m->options->rows || m->buffers.items[id].streamed == body->values[value].streamed);
	return fits ? id : NO_BUFFER;
}

/* Sets what BUFFER is: value ID of BODY, which step INDEX, STEP, makes. */
static void describe_made(struct machine *m, const struct step *step, const struct body *body, uint32_t id,
                          int64_t index, int32_t buffer)
{
	const struct value *value = &body->values[id];
	struct buffer *made = &m->buffers.items[buffer];
	made->step = index;
	made->names = step_names(step, id, value->names);
	made->sequence = m->ports.sequence; /* params first, then what BODY makes, in program order */
	if (value->from == FROM_INSTR)
		made->sequence += 1 + linear_place(body, id);
	made->body = body;
	made->value = id;
}

static bool reads_value(const struct body *body, uint32_t value)
{
	for (size_t i = 0; i < body->instr_count; i++) {
		uint32_t reads[INSTR_READS];
		for (size_t k = instr_reads(&body->instrs[i], reads); k-- > 0;)
			if (reads[k] == value)
				return true;
	}
	return false;
}

/*
 * Gives out I of BODY, an array that a loop collects, the buffer that it continues, or a new one. It may be NO_BUFFER. False
 * if out of memory.
 */
static bool place_collected(struct machine *m, const struct step *step, const struct body *body, size_t i,
                            int64_t index)
{
	struct call_ports *p = &m->ports;
	const uint32_t id = body->outs[i].value, port = body_goes_on(body, id), slot = step_slot(step, &body->outs[i]);
	int32_t buffer = port == NO_VALUE ? NO_BUFFER : p->in_buffers[port];
	if (port != NO_VALUE) {
		machine_note_collected(m, slot, index);
	} else {
		if (!machine_begin_collected(m, slot, &body->values[id], index, &buffer))
			return false;
		if (buffer == NO_BUFFER && reads_value(body, id)) { /* though no other step does */
			buffer = machine_make_buffer(m, body->values[id].type, body->values[id].streamed);
			if (buffer == NO_BUFFER)
				return false;
			m->buffers.items[buffer].collected = true;
		}
		if (buffer != NO_BUFFER)
			describe_made(m, step, body, id, index, buffer);
	}
	p->outs[i] = buffers_offset(&m->buffers, buffer);
	p->out_buffers[i] = buffer;
	p->made[id] = buffer + 1;
	return true;
}

/*
 * Gives each out of BODY, a body of STEP, a buffer. An out that is an in takes the in's, which may be NO_BUFFER. An
 * out that may reuse an in's array takes that in's buffer. Outs of one value share a buffer. Until
 * forget_outs, ports.made has the buffers by value, without those of ins. False if out of memory.
 */
static bool place_outs(struct machine *m, const struct step *step, const struct body *body, int64_t index)
{
	struct call_ports *p = &m->ports;
	p->sequence = m->buffers.sequence;
	for (size_t i = 0; i < body->out_count; i++) {
		const uint32_t id = body->outs[i].value;
		const struct value *value = &body->values[id];
		p->outs[i] = -1;
		p->out_params[i] = NULL;
		if (value->from == FROM_PORT) {
			p->out_buffers[i] = p->in_buffers[value->port];
			continue;
		}
		if (body->collects && body->outs[i].kind == PORT_SLOT && body_collects(body, id)) {
			if (!place_collected(m, step, body, i, index))
				return false;
			continue;
		}
		int32_t buffer = p->made[id] - 1;
		if (buffer == NO_BUFFER)
			buffer = reusable_in(m, body, id);
		if (buffer == NO_BUFFER) {
			buffer = machine_make_buffer(m, value->type, value->streamed);
			if (buffer == NO_BUFFER)
				return false;
			describe_made(m, step, body, id, index, buffer);
			p->out_params[i] = value->from == FROM_PARAM ? step_param(step, &value->param) : NULL;
		}
		p->outs[i] = m->buffers.items[buffer].offset;
		p->out_buffers[i] = buffer;
		p->made[id] = buffer + 1;
	}
	m->buffers.sequence = p->sequence + (int64_t)body->instr_count * INSTR_PLACES + 1;
	return true;
}

static void forget_outs(struct machine *m, const struct body *body)
{
	for (size_t i = 0; i < body->out_count; i++)
		m->ports.made[body->outs[i].value] = 0;
}

static void hold_outs(struct machine *m, const struct body *body)
{
	for (size_t i = 0; i < body->out_count; i++)
		buffers_hold(&m->buffers, m->ports.out_buffers[i]);
}

/*
 * Makes the current state the one after STEP, whose BODY has run. False if out of memory. A step may leave thousands of
 * slots as they are, so only those of its ports are looked at, unless the state has slots that STEP knows nothing of.
 */
static bool advance_state(struct machine *m, const struct step *step, const struct body *body)
{
	const int32_t *out_buffers = m->ports.out_buffers;
	bool ok = true;
	/* Hold the outs until every slot has its buffer, so that no buffer that stays is freed meanwhile. */
	hold_outs(m, body);
	if (m->state.tree.count > slot_map_count(step->live_in))
		ok &= machine_drop_others(m, step->live_out);
	for (size_t i = 0; i < step->body->in_count; i++)
		if (step->ins[i].dies)
			ok &= machine_set_state(m, step_slot(step, &step->body->ins[i]), NO_BUFFER);
	for (size_t i = 0; i < body->out_count; i++)
		if (body->outs[i].kind == PORT_SLOT)
			ok &= machine_set_state(m, step_slot(step, &body->outs[i]), out_buffers[i]);
	for (size_t i = 0; i < body->out_count; i++)
		ok &= buffers_release(&m->buffers, out_buffers[i]);
	return ok;
}

/* Holds the residuals of STEP, each an in or an out of its recording BODY. False if out of memory. */
static bool hold_residuals(struct machine *m, const struct step *step, const struct body *body, int64_t index)
{
	struct records *r = &m->records;
	const struct linear *linear = &machine_compiled_step(m, step)->linear;
	if (linear->residual_count == 0) /* nothing to find again */
		return true;
	if (!machine_grow(m, (void **)&r->residuals, &r->residual_capacity, r->residual_count + linear->residual_count,
	                  sizeof *r->residuals) ||
	    !machine_grow(m, (void **)&r->items, &r->capacity, r->count + 1, sizeof *r->items))
		return false;
	r->items[r->count++] = (struct record){index, r->residual_count};
	for (size_t i = 0; i < linear->residual_count; i++) {
		const struct residual *residual = &linear->residuals[i];
		const struct value *value = &body->values[residual->value];
		const bool in = value->from == FROM_PORT;
		const int32_t id = in ? m->ports.in_buffers[value->port] : m->ports.made[residual->value] - 1;
		buffers_hold(&m->buffers, id);
		r->residuals[r->residual_count++] = id;
		if (id == NO_BUFFER)
			continue;
		struct buffer *buffer = &m->buffers.items[id];
		const struct naming *names = step_names(step, residual->value, value->names);
		if (has_better_name(buffer, names))
			buffer->names = names;
	}
	return true;
}

/* Counts a forward execution by KIND of the step of LINEAR, which costs TIMES. */
static void count_execution(struct machine *m, const struct linear *linear, const struct step_times *times,
                            enum forward_kind kind)
{
	struct counters *c = m->counters;
	const bool unread = kind == FORWARD_RECORD_ONLY, by_value = m->compiled->by_value;
	const int64_t steps = by_value ? m->lowered->steps : 1;
	c->evaluations += steps;
	c->executions += steps - (unread ? linear->record_skip : linear->skipped);
	c->unread += unread;
	if (unread && m->first_sweep) {
		c->forward_cost += times->once;
		c->recomputed_cost += times->record - times->once; /* what recomputes adds the rest */
	} else {
		machine_count_forward(m, 1, unread ? times->record : times->forward);
	}
}

enum status machine_forward(struct machine *m, int64_t index, enum forward_kind kind)
{
	const struct step *step = machine_step_at(m, index);
	const struct compiled_step *compiled = machine_compiled_step(m, step);
	const struct program *programs[] = {[FORWARD_ONLY] = &compiled->forward,
	                                    [FORWARD_RECORD] = &compiled->record,
	                                    [FORWARD_RECORD_ONLY] = &compiled->record_only};
	struct machine_call call = {.kind = kind == FORWARD_ONLY ? CALL_FORWARD : CALL_RECORD,
	                            .program = programs[kind],
	                            .compiled = compiled,
	                            .own = &step->own,
	                            .times = machine_times(m, step),
	                            .step = index};
	const struct body *body = call.program->body;
	TRY_ALLOC(reserve_ports(m, body), m->context->diags);
	for (size_t i = 0; i < body->in_count; i++) {
		bool shared;
		const int32_t id = tree_get(&m->trees, m->state.tree, step_slot(step, &body->ins[i]), &shared);
		set_in(m, i, id, shared);
	}
	note_names(m, step);
	TRY_ALLOC(place_outs(m, step, body, index), m->context->diags);
	TRY(make_call(m, &call));
	bool ok = kind == FORWARD_ONLY || hold_residuals(m, step, body, index);
	forget_outs(m, body);
	ok = ok && (kind == FORWARD_RECORD_ONLY ? machine_drop_state(m) : advance_state(m, step, body));
	TRY_ALLOC(ok, m->context->diags);
	m->state.position = index + 1;
	count_execution(m, &compiled->linear, call.times, kind);
	return machine_offer_point(m, -1);
}

enum status machine_seed(struct machine *m)
{
	const int64_t steps = machine_step_count(m);
	const struct step *last = steps ? machine_step_at(m, steps - 1) : NULL;
	m->seeded = true;
	if (last && !last->cot_out)
		return STATUS_OK;
	const struct slot_map *out = last ? slot_map_find(last->live_out, 0) : NULL;
	const struct type *type = out ? out->type : &m->lowered->begins;
	const int32_t id = machine_make_buffer(m, type, !out || out->streamed);
	TRY_ALLOC(id != NO_BUFFER, m->context->diags);
	buffers_hold(&m->buffers, id);
	m->cotangent[0] = id;
	const struct buffer *seed = &m->buffers.items[id];
	return machine_exchange(m, MACHINE_SEED, seed->offset, type, seed->streamed);
}

/* Sets the ins of STEP's backward BODY: residuals from FIRST on, and cotangents. True if one of those is shared. */
static bool set_backward_ins(struct machine *m, const struct step *step, const struct body *body, size_t first)
{
	bool shared = false;
	for (size_t i = 0; i < body->in_count; i++) {
		const struct port *port = &body->ins[i];
		const bool residual = port->kind == PORT_RESIDUAL;
		const int32_t id =
			residual ? m->records.residuals[first + port->index] : m->cotangent[step->cot_read.slots[port->index]];
		set_in(m, i, id, false);
		shared |= !residual && id != NO_BUFFER && m->buffers.items[id].holds > 1;
	}
	return shared;
}

/* Sets the cotangents to those of the state before STEP, whose backward BODY has run. False if out of memory. */
static bool reverse_cotangents(struct machine *m, const struct step *step, const struct body *body)
{
	int32_t *passed = m->ports.by_slot; /* by class before */
	bool ok = true;
	hold_outs(m, body);
	for (uint32_t i = 0; i < step->cot_read.count; i++)
		ok &= buffers_move(&m->buffers, &m->cotangent[step->cot_read.slots[i]], NO_BUFFER);
	for (uint32_t i = 0; i < step->moved_count; i++) {
		passed[step->moved[i].before] = m->cotangent[step->moved[i].after];
		m->cotangent[step->moved[i].after] = NO_BUFFER;
	}
	for (uint32_t i = 0; i < step->moved_count; i++)
		m->cotangent[step->moved[i].before] = passed[step->moved[i].before];
	for (size_t i = 0; i < body->out_count; i++)
		m->cotangent[step_slot(step, &body->outs[i])] = m->ports.out_buffers[i];
	return ok;
}

enum status machine_reverse(struct machine *m, int64_t index)
{
	const struct step *step = machine_step_at(m, index);
	const struct compiled_step *compiled = machine_compiled_step(m, step);
	const struct linear *linear = &compiled->linear;
	struct records *r = &m->records;
	assert(linear->residual_count == 0 || (r->count && r->items[r->count - 1].step == index));
	const size_t first = linear->residual_count ? r->items[--r->count].first : r->residual_count;
	struct machine_call call = {.kind = CALL_BACKWARD,
	                            .program = &compiled->backward,
	                            .compiled = compiled,
	                            .own = &step->own,
	                            .times = machine_times(m, step),
	                            .step = index};
	const struct body *body = linear->backward;
	TRY_ALLOC(reserve_ports(m, body), m->context->diags);
	if (set_backward_ins(m, step, body, first) && compiled->backward.takes_cotangent)
		call.program = &compiled->backward_shared;
	TRY_ALLOC(place_outs(m, step, body, index), m->context->diags);
	forget_outs(m, body);
	TRY(make_call(m, &call));
	bool ok = reverse_cotangents(m, step, body);
	while (r->residual_count > first)
		ok &= buffers_release(&m->buffers, r->residuals[--r->residual_count]);
	ok = machine_reverse_collected(m, step, index) && ok;
	m->counters->evaluations += linear->recomputed;
	m->counters->executions += linear->executed_again;
	m->counters->recomputed_cost += machine_times(m, step)->recompute;
	m->counters->backward_cost += machine_times(m, step)->backward;
	return ok ? machine_offer_point(m, -1) : machine_memory(m);
}
