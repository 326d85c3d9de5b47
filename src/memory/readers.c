/*
 * Which steps read the arrays of the states that are kept, for the residual report. A
 * step such as `name` passes its state on, and some arrays wait for a later one: steps
 * are looked at from the last to the first, each once, however many states there are.
 */
#include "memory/machine_parts.h"

#include <stdlib.h>
#include <string.h>

static const struct reader nobody = {.step = -1};

struct walk {
	struct machine *m;
	struct reader *first; /* by slot of the state that is looked at; nobody's where it holds nothing */
	struct reader *best;  /* room: by class of the state before; nobody's between steps */
	bool *written;        /* room: by slot */
};

static struct reader *all_nobodys(struct machine *m, size_t count)
{
	struct reader *readers = arena_array(m->report_arena, count + 1, sizeof *readers);
	for (size_t i = 0; readers && i < count; i++)
		readers[i] = nobody;
	return readers;
}

static void take_earlier(struct reader *best, struct reader other)
{
	if (other.step >= 0 && (best->step < 0 || other.step < best->step))
		*best = other;
}

/* Whether an instruction of BODY reads VALUE. */
static bool is_read(const struct body *body, uint32_t value)
{
	for (size_t i = 0; i < body->instr_count; i++)
		if (body->instrs[i].v == value || body->instrs[i].a == value)
			return true;
	return false;
}

/* From the state behind the step at POSITION to the one in front of it. */
static void walk_back(struct walk *walk, int64_t position)
{
	const struct step *step = machine_step_at(walk->m, position);
	const struct body *body = step->body;
	struct reader *first = walk->first, *best = walk->best;
	for (size_t i = 0; i < body->out_count; i++)
		walk->written[body->outs[i].index] = true;
	for (size_t k = 0; k < step->live_in_count; k++)
		if (!walk->written[step->live_in[k]])
			take_earlier(&best[step->class_in[k]], first[step->live_in[k]]);
	for (size_t i = 0; i < body->in_count; i++) {
		const struct port *in = &body->ins[i];
		if (is_read(body, in->value))
			best[in->index] = (struct reader){.step = position, .class = in->index};
		for (size_t k = 0; k < body->out_count; k++)
			if (body->outs[k].value == in->value)
				take_earlier(&best[in->index], first[body->outs[k].index]);
	}
	for (size_t i = 0; i < body->out_count; i++)
		walk->written[body->outs[i].index] = false;
	for (size_t k = 0; k < step->live_out_count; k++)
		first[step->live_out[k]] = nobody;
	for (size_t k = 0; k < step->live_in_count; k++)
		first[step->live_in[k]] = best[step->class_in[k]];
	for (size_t k = 0; k < step->live_in_count; k++)
		best[step->class_in[k]] = nobody;
	for (size_t i = 0; i < body->in_count; i++)
		best[body->ins[i].index] = nobody;
}

struct place {
	int64_t position;
	size_t slot;
};

static int last_first(const void *a, const void *b)
{
	const struct place *p = a, *q = b;
	return p->position > q->position ? -1 : p->position < q->position;
}

struct reader **machine_readers(struct machine *m)
{
	struct arena *arena = m->report_arena;
	const size_t slots = m->lowered->slot_count;
	struct walk walk = {.m = m,
	                    .first = all_nobodys(m, slots),
	                    .best = all_nobodys(m, slots),
	                    .written = arena_array(arena, slots + 1, sizeof *walk.written)};
	struct place *places = arena_array(arena, m->slot_capacity + 1, sizeof *places);
	struct reader **readers = arena_array(arena, m->slot_capacity + 1, sizeof *readers);
	if (!walk.first || !walk.best || !walk.written || !places || !readers)
		return NULL;
	size_t count = 0;
	for (size_t i = 0; i < m->slot_capacity; i++)
		if (m->slots[i].used)
			places[count++] = (struct place){.position = m->slots[i].position, .slot = i};
	qsort(places, count, sizeof *places, last_first);
	int64_t at = machine_step_count(m);
	for (size_t i = 0; i < count; i++) {
		const struct snapshot *s = &m->slots[places[i].slot];
		while (at > s->position)
			walk_back(&walk, --at);
		struct reader *own = readers[places[i].slot] = arena_array(arena, s->count + 1, sizeof *own);
		if (!own)
			return NULL;
		for (size_t k = 0; k < s->count; k++)
			own[k] = walk.first[s->slots[k]];
	}
	return readers;
}
