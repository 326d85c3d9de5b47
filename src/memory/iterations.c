/*
 * Forward steps. Without hooks most iterations of a loop need not be walked. Once an
 * iteration ends with the state of the allocator with which an earlier one began, all from that one on
 * repeat, and whole cycles are counted. Brent's algorithm finds the cycle: it compares each end with the
 * latest start of iterations 1, 2, 4, ... (tests/unit/test_machine.c checks this against full walks.)
 * All other steps go by transitions (transitions.c).
 * Tests: tests/unit/test_machine.c
 */
#include "memory/machine_parts.h"

#include <string.h>

static void list_touched(struct marks *marks, const struct step *step, const struct port *ports, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint32_t slot = step_slot(step, &ports[i]);
		if (!marks->listed[slot])
			marks->slots[marks->count++] = slot;
		marks->listed[slot] = true;
	}
}

/* Lists in m->marks the slots that the PERIOD steps from INDEX on read and write. All others keep their buffers. */
static void list_touched_slots(struct machine *m, int64_t index, int64_t period)
{
	struct marks *marks = &m->marks;
	while (marks->count > 0)
		marks->listed[marks->slots[--marks->count]] = false;
	for (int64_t i = index; i < index + period; i++) {
		const struct step *step = machine_step_at(m, i);
		list_touched(marks, step, step->body->ins, step->body->in_count);
		list_touched(marks, step, step->body->outs, step->body->out_count);
	}
}

/*
 * Runs iterations of PERIOD steps each from *INDEX on, until the allocator's state repeats. Then counts as
 * many further cycles as fit before UNTIL. Stops early if no iteration fits, or beyond HOLES holes. Moves
 * *INDEX to the step after all of them.
 */
static enum status run_iterations(struct machine *m, int64_t *index, int64_t period, int64_t until)
{
	enum { HOLES = 64 }; /* with more, a mark takes longer than an iteration */
	struct marks *marks = &m->marks;
	size_t length = 0;
	list_touched_slots(m, *index, period);
	for (int64_t since = 0, limit = 0; m->buffers.pool.holes.count <= HOLES && *index + period <= until; since++) {
		if (since == limit) {
			length = machine_write_mark(m, marks->slots, marks->count, &marks->earlier, &marks->earlier_capacity);
			limit = limit ? 2 * limit : 1;
			since = 0;
		}
		const int64_t executions = m->counters->executions;
		double cost = 0;
		for (int64_t end = *index + period; *index < end; ++*index) {
			cost += machine_times(m, machine_step_at(m, *index))->forward;
			TRY(machine_forward(m, *index, FORWARD_ONLY));
		}
		const size_t count = machine_write_mark(m, marks->slots, marks->count, &marks->now, &marks->now_capacity);
		TRY_ALLOC(length && count, m->context->diags);
		if (count != length || memcmp(marks->earlier, marks->now, count * sizeof *marks->now) != 0)
			continue;
		const int64_t cycle = (since + 1) * period, times = (until - *index) / cycle;
		*index += times * cycle;
		m->state.position = *index;
		m->counters->evaluations += times * cycle;
		m->counters->executions += times * (since + 1) * (m->counters->executions - executions);
		machine_count_forward(m, (double)(times * (since + 1)), cost);
		return STATUS_OK;
	}
	return STATUS_OK;
}

enum status machine_forward_steps(struct machine *m, int64_t begin, int64_t end)
{
	enum { LEAST = 5 };    /* fewer iterations, or steps, are all walked */
	int64_t fresh = begin; /* run_iterations has seen no step from this one on */
	if (!m->alone || end - begin < LEAST) {
		for (int64_t i = begin; i < end; i++)
			TRY(machine_forward(m, i, FORWARD_ONLY));
		return STATUS_OK;
	}
	m->transitions.at = NO_MARK;
	for (int64_t i = begin; i < end;) {
		int64_t until;
		uint32_t id;
		const int64_t period = i >= fresh ? lowered_period(m->lowered, i, end, LEAST, &until) : 0;
		if (period) {
			TRY_ALLOC(transitions_settle(m), m->context->diags);
			TRY(run_iterations(m, &i, period, until));
			m->transitions.at = NO_MARK;
			fresh = until;
			continue;
		}
		const int64_t count = lowered_row(m->lowered, i, end, &id);
		TRY(transitions_run(m, i, count, id));
		i += count;
	}
	return transitions_settle(m) ? STATUS_OK : machine_memory(m);
}
