/*
 * Which step first reads each array of the states that are kept, for the residual report.
 * A step such as `name` passes its state unchanged, and an array may wait for a later
 * step. So a walk goes over the steps from the last to the first, each once, however many
 * states there are.
 */
#include "memory/machine_parts.h"

#include <stdlib.h>

static const struct reader nobody = {.step = -1};

struct reader_walk {
	struct machine *m;
	struct reader *first; /* by slot of the state at the walk's position; nobody where the slot holds nothing */
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

static bool body_reads(const struct body *body, uint32_t value)
{
	for (size_t i = 0; i < body->instr_count; i++)
		if (body->instrs[i].v == value || body->instrs[i].a == value)
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
		walk->written[body->outs[i].index] = true;
	for (size_t k = 0; k < step->live_in.count; k++)
		if (!walk->written[step->live_in.slots[k]])
			take_earlier(&best[step->class_in[k]], first[step->live_in.slots[k]]);
	for (size_t i = 0; i < body->in_count; i++) {
		const struct port *in = &body->ins[i];
		if (body_reads(body, in->value))
			best[in->index] = (struct reader){.step = position, .class = in->index};
		for (size_t k = 0; k < body->out_count; k++)
			if (body->outs[k].value == in->value)
				take_earlier(&best[in->index], first[body->outs[k].index]);
	}
	for (size_t i = 0; i < body->out_count; i++)
		walk->written[body->outs[i].index] = false;
	for (size_t k = 0; k < step->live_out.count; k++)
		first[step->live_out.slots[k]] = nobody;
	for (size_t k = 0; k < step->live_in.count; k++)
		first[step->live_in.slots[k]] = best[step->class_in[k]];
	for (size_t k = 0; k < step->live_in.count; k++)
		best[step->class_in[k]] = nobody;
	for (size_t i = 0; i < body->in_count; i++)
		best[body->ins[i].index] = nobody;
}

struct slot_position {
	int64_t position;
	size_t slot;
};

static int last_first(const void *a, const void *b)
{
	const struct slot_position *p = a, *q = b;
	return p->position > q->position ? -1 : p->position < q->position;
}

struct reader **machine_readers(struct machine *m)
{
	struct arena *arena = m->context->arena;
	const struct snapshots *all = &m->snapshots;
	const size_t slots = m->lowered->slot_count;
	struct reader_walk walk = {.m = m,
	                           .first = make_nobodies(m, slots),
	                           .best = make_nobodies(m, slots),
	                           .written = arena_array(arena, slots + 1, sizeof *walk.written)};
	struct slot_position *order = arena_array(arena, all->memory_capacity + 1, sizeof *order);
	struct reader **readers = arena_array(arena, all->memory_capacity + 1, sizeof *readers);
	if (!walk.first || !walk.best || !walk.written || !order || !readers)
		return NULL;
	size_t count = 0;
	for (size_t i = 0; i < all->memory_capacity; i++)
		if (all->memory[i].used)
			order[count++] = (struct slot_position){all->memory[i].position, i};
	qsort(order, count, sizeof *order, last_first);
	int64_t at = machine_step_count(m);
	for (size_t i = 0; i < count; i++) {
		const struct snapshot *s = &all->memory[order[i].slot];
		while (at > s->position)
			pass_step(&walk, --at);
		struct reader *own = readers[order[i].slot] = arena_array(arena, s->count + 1, sizeof *own);
		if (!own)
			return NULL;
		for (size_t k = 0; k < s->count; k++)
			own[k] = walk.first[s->slots[k]];
	}
	return readers;
}
