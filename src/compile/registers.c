/*
 * Registers of a group: which of them share a place in the register file.
 *
 * Invariants. Two registers that are live at once never share a place. A result takes the
 * place of an input that dies with it only if both are of one type. Masks and kept values
 * never do (struct kernel_args). A register that was written before a loop and is read in it
 * lives to the loop's end.
 */

#include <string.h>

#include "compile/compiler.h"

bool same_register(const struct arg *a, const struct arg *b)
{
	return a->kind == ARG_REGISTER && b->kind == ARG_REGISTER && a->index == b->index;
}

static void note_touch(struct draft *d, const struct arg *arg, size_t at, const size_t *open, int depth)
{
	if (arg->kind != ARG_REGISTER)
		return;
	struct draft_register *r = &d->registers[arg->index];
	if (!r->touched)
		r->begin = at;
	r->touched = true;
	r->end = at > r->end ? at : r->end;
	/* The outermost loop that began after the register did: it lives to that loop's end. */
	for (int i = 0; i < depth; i++)
		if (open[i] > r->begin) {
			size_t end = d->kernel_ops[open[i]].match;
			r->end = end > r->end ? end : r->end;
			break;
		}
}

/* Lives of registers: a linear scan over the kernel ops, widened by loops. */
static void find_lives(struct draft *d)
{
	size_t open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = 0; i < d->kernel_op_count; i++) {
		const struct kernel_op *m = &d->kernel_ops[i];
		if (m->kind == KERNEL_OP_LOOP)
			open[depth++] = i;
		else if (m->kind == KERNEL_OP_END)
			depth--;
		else
			for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
				note_touch(d, &m->args[a], i, open, depth);
	}
	/* A register that is filled once for all blocks lives through the whole group. */
	for (size_t i = 0; i < d->fills; i++)
		if (d->kernel_ops[i].once) {
			d->registers[d->kernel_ops[i].out.index].begin = 0;
			d->registers[d->kernel_ops[i].out.index].end = d->kernel_op_count;
		}
}

/* True if register INDEX, a result, may take the place of OTHER, which dies at the kernel op where INDEX begins. */
static bool may_replace(const struct draft *d, uint32_t index, uint32_t other)
{
	const struct draft_register *r = &d->registers[index], *o = &d->registers[other];
	const struct arg *out = &d->kernel_ops[r->begin].out;
	bool result = out->kind == ARG_REGISTER && out->index == index;
	return result && o->begin < r->begin && !r->bits && !o->bits && o->shift == r->shift;
}

/* Removes from the list at *HEAD a place that register INDEX may take. Returns it, or NO_VALUE if there is none. */
static uint32_t take_ending(struct draft *d, uint32_t *head, uint32_t index)
{
	for (uint32_t *at = head; *at; at = &d->places[*at - 1].next) {
		uint32_t place = *at - 1;
		if (may_replace(d, index, d->places[place].holds)) {
			*at = d->places[place].next;
			return place;
		}
	}
	return NO_VALUE;
}

static void rename_registers(struct draft *d)
{
	for (struct kernel_op *m = d->kernel_ops; m < d->kernel_ops + d->kernel_op_count; m++)
		for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
			if (m->args[a].kind == ARG_REGISTER)
				m->args[a].index = d->moved[m->args[a].index];
}

/*
 * Registers come in the order in which they begin. Those that are filled once come earlier
 * than that, and have places of their own.
 */
void place_registers(struct draft *d)
{
	uint32_t used = 0, free = 0;
	size_t reached = 0;
	find_lives(d);
	memset(d->ending, 0, (d->kernel_op_count + 1) * sizeof *d->ending);
	for (uint32_t i = 0; i < d->register_count; i++) {
		struct draft_register *r = &d->registers[i];
		if (!r->touched)
			continue;
		if (r->end == d->kernel_op_count) {
			r->place = used++;
			continue;
		}
		for (; reached < r->begin; reached++)
			while (d->ending[reached]) {
				uint32_t place = d->ending[reached] - 1;
				d->ending[reached] = d->places[place].next;
				d->places[place].next = free;
				free = place + 1;
			}
		uint32_t place = take_ending(d, &d->ending[r->begin], i);
		if (place == NO_VALUE && free) {
			place = free - 1;
			free = d->places[place].next;
		}
		r->place = place == NO_VALUE ? used++ : place;
		d->places[r->place] = (struct place_state){i, d->ending[r->end]};
		d->ending[r->end] = r->place + 1;
	}
	for (size_t i = 0; i < d->register_count; i++)
		d->moved[i] = d->registers[i].place;
	rename_registers(d);
}

uint32_t compact_registers(struct draft *d)
{
	uint32_t left = 0;
	for (size_t i = 0; i < d->register_count; i++)
		d->moved[i] = NO_VALUE;
	for (const struct kernel_op *m = d->kernel_ops; m < d->kernel_ops + d->kernel_op_count; m++)
		for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
			if (m->args[a].kind == ARG_REGISTER && d->moved[m->args[a].index] == NO_VALUE)
				d->moved[m->args[a].index] = left++;
	rename_registers(d);
	return left;
}
