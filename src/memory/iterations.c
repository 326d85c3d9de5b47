/*
 * Forward steps of loops. Without hooks most iterations of a loop need not be walked. Once an
 * iteration ends with the state of the allocator with which an earlier one began, all from that one on
 * repeat, and whole cycles are counted. Brent's algorithm finds the cycle: it compares each end with the
 * latest start of iterations 1, 2, 4, ... (tests/unit/test_machine.c checks this against full walks.)
 */
#include "memory/machine_parts.h"

#include <string.h>

/*
 * Serialises the allocator's state into *MARK. Returns its length in int64s, or 0 if out of memory. Two equal marks
 * mean that later buffers get equal offsets, as long as only the state is held and released.
 */
static size_t write_mark(struct machine *m, int64_t **mark, size_t *capacity)
{
	const struct pool *pool = &m->buffers.pool;
	const size_t slots = m->lowered->slot_count, count = 1 + 2 * (pool->count + slots);
	if (!machine_grow(m, (void **)mark, capacity, count, sizeof **mark))
		return 0;
	int64_t *to = *mark;
	*to++ = pool->top;
	for (size_t i = 0; i < pool->count; i++) {
		*to++ = pool->holes[i].offset;
		*to++ = pool->holes[i].size;
	}
	for (size_t i = 0; i < slots; i++) {
		const int32_t id = m->state.buffers[i];
		*to++ = buffers_offset(&m->buffers, id);
		*to++ = id == NO_BUFFER ? 0 : m->buffers.items[id].holds;
	}
	return count;
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
	for (int64_t since = 0, limit = 0; m->buffers.pool.count <= HOLES && *index + period <= until; since++) {
		if (since == limit) {
			length = write_mark(m, &marks->earlier, &marks->earlier_capacity);
			limit = limit ? 2 * limit : 1;
			since = 0;
		}
		double cost = 0;
		for (int64_t end = *index + period; *index < end; ++*index) {
			cost += machine_times(m, machine_step_at(m, *index))->forward;
			TRY(machine_forward(m, *index, FORWARD_ONLY));
		}
		const size_t count = write_mark(m, &marks->now, &marks->now_capacity);
		TRY_ALLOC(length && count, m->context->diags);
		if (count != length || memcmp(marks->earlier, marks->now, count * sizeof *marks->now) != 0)
			continue;
		const int64_t cycle = (since + 1) * period, times = (until - *index) / cycle;
		*index += times * cycle;
		m->state.position = *index;
		m->counters->evaluations += times * cycle;
		machine_count_forward(m, (double)(times * (since + 1)), cost);
		return STATUS_OK;
	}
	return STATUS_OK;
}

enum status machine_forward_steps(struct machine *m, int64_t begin, int64_t end)
{
	enum { LEAST = 5 };    /* fewer iterations are all walked */
	int64_t fresh = begin; /* run_iterations has seen no step from this one on */
	for (int64_t i = begin; i < end; i++) {
		int64_t until,
			period = m->counts_iterations && i >= fresh ? lowered_period(m->lowered, i, end, LEAST, &until) : 0;
		if (period) {
			TRY(run_iterations(m, &i, period, until));
			fresh = until;
		}
		TRY(i < end ? machine_forward(m, i, FORWARD_ONLY) : STATUS_OK);
	}
	return STATUS_OK;
}
