/*
 * Decides which registers of a group share a place in the register file.
 *
 * Invariants. Two registers that are live at once never share a place. A result takes the place of an input that dies
 * in its kernel op only if both have elements of one size. Masks and kept values never do (struct kernel_args). A
 * register that was written before a loop and is touched in it lives to the loop's end.
 * Tests: tests/unit/test_fuse.c
 */

#include <string.h>

#include "compile/compiler.h"

bool same_register(const struct arg *a, const struct arg *b)
{
	return a->kind == ARG_REGISTER && b->kind == ARG_REGISTER && a->index == b->index;
}

/* Finds the life of each register by one scan over the kernel ops. Loops lengthen lives. */
static void find_lives(struct draft *d)
{
	size_t open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = 0; i < d->kernel_op_count; i++) {
		const struct kernel_op *m = &d->kernel_ops[i];
		if (m->kind == KERNEL_OP_LOOP)
			open[depth++] = i;
		depth -= m->kind == KERNEL_OP_END;
		for (size_t a = 0; a < KERNEL_OP_ARGS; a++) {
			if (m->args[a].kind != ARG_REGISTER)
				continue;
			struct draft_register *r = &d->registers[m->args[a].index];
			if (!r->touched)
				r->begin = (uint32_t)i;
			r->touched = true;
			/* If open loops began after the register did, it lives to the end of the outermost of them. */
			int within = 0;
			while (within < depth && open[within] <= r->begin)
				within++;
			const uint32_t end = within < depth ? d->kernel_ops[open[within]].match : (uint32_t)i;
			r->end = end > r->end ? end : r->end;
		}
	}
	/* A register that is filled once for all blocks lives through the whole group. */
	for (size_t i = 0; i < d->fills; i++)
		if (d->kernel_ops[i].once) {
			d->registers[d->kernel_ops[i].out.index].begin = 0;
			d->registers[d->kernel_ops[i].out.index].end = (uint32_t)d->kernel_op_count;
		}
}

/*
 * Finds a place for register INDEX in the list at *HEAD, whose registers die at the kernel op where INDEX begins. Only
 * that op's result may take a place there. Removes the place from the list and returns it, or NO_VALUE.
 */
static uint32_t take_ending(struct draft *d, uint32_t *head, uint32_t index)
{
	const struct draft_register *r = &d->registers[index];
	const struct arg *out = &d->kernel_ops[r->begin].out;
	const bool result = out->kind == ARG_REGISTER && out->index == index && !r->bits;
	for (uint32_t *at = head; result && *at; at = &d->places[*at - 1].next) {
		const uint32_t place = *at - 1;
		const struct draft_register *dying = &d->registers[d->places[place].holds];
		if (dying->begin < r->begin && !dying->bits && dying->shift == r->shift) {
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
 * Registers are numbered in the order in which they begin. Those that are filled once for all blocks, which
 * find_lives makes begin at 0, have places of their own.
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
