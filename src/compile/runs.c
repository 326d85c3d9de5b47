/*
 * Makes runs: a chain of cheap kernel ops becomes one kernel op, whose values stay in the processor's
 * own registers. A loop of such kernel ops becomes a part of the run.
 *
 * Invariant: a run writes its last result alone. Only the next step reads an earlier one: in a loop, the first
 * step reads that of the last.
 * Tests: tests/unit/test_fuse.c
 */

#include <assert.h>
#include <string.h>

#include "compile/compiler.h"

static bool is_cheap(const struct kernel_op *m)
{
	bool simple = m->kind == KERNEL_OP_FORWARD && op_runs_in_registers(m->op) && m->a.kind != ARG_SCALAR &&
	              (op_table[m->op].class == OP_CLASS_UNARY || m->form == 1);
	return simple || m->kind == KERNEL_OP_COPY;
}

struct run_builder {
	const struct draft *draft;
	struct run_step *steps;
	size_t count;
	const struct kernel_op *last; /* the kernel op that was added last; NULL at first */
	int depth;
};

static size_t extend_run(struct run_builder *run, size_t i, size_t end);

/* Appends a copy of steps FROM .. TO-1. The jumps of loops in the copy stay within the copy. */
static void repeat_steps(struct run_builder *run, size_t from, size_t to)
{
	const uint32_t moved = (uint32_t)(run->count - from);
	for (size_t i = from; i < to; i++) {
		struct run_step step = run->steps[i];
		if (step.op == OP_COUNT)
			step.target += moved;
		run->steps[run->count++] = step;
	}
}

/*
 * Makes the steps from FROM on run ITERATIONS times, at least 1. A jump takes as long as two operations, so a short
 * loop executes several iterations between jumps if RUN_MAX_STEPS allows. Iterations left over come after it.
 */
static void add_iterations(struct run_builder *run, size_t from, uint64_t iterations)
{
	const size_t to = run->count, body = to - from;
	size_t copies = body < UNROLLED_STEPS ? UNROLLED_STEPS / body : 1;
	if (copies > iterations)
		copies = iterations;
	if (to + 2 * copies * body > RUN_MAX_STEPS)
		copies = 1;
	for (size_t i = 1; i < copies; i++)
		repeat_steps(run, from, to);
	/* The last kernel op of a loop is an operation or a copy, so extend_run has left capacity for one step. */
	assert(run->count < RUN_MAX_STEPS);
	if (iterations / copies > 1)
		run->steps[run->count++] =
			(struct run_step){.op = OP_COUNT, .target = (uint32_t)from, .iterations = iterations / copies};
	for (size_t i = 0; i < iterations % copies; i++)
		repeat_steps(run, from, to);
}

/* Adds the loop at I as a whole, or nothing (false). Its last kernel op must write the register that RUN wrote last. */
static bool add_loop_to_run(struct run_builder *run, size_t i)
{
	const struct kernel_op *loop = &run->draft->kernel_ops[i];
	const struct run_builder before = *run;
	if (run->depth == RUN_MAX_DEPTH || loop->iterations < 1 || !run->last)
		return false;
	run->depth++;
	bool whole = extend_run(run, i + 1, loop->match) == loop->match;
	if (!whole || run->count == before.count || run->last == before.last ||
	    !same_register(&run->last->out, &before.last->out)) {
		*run = before;
		return false;
	}
	add_iterations(run, before.count, (uint64_t)loop->iterations);
	run->depth--;
	return true;
}

/* Appends kernel ops I .. END-1 while each is cheap and reads the last result. Returns the index of the first left. */
static size_t extend_run(struct run_builder *run, size_t i, size_t end)
{
	while (i < end && run->count + 2 < RUN_MAX_STEPS) {
		const struct kernel_op *m = &run->draft->kernel_ops[i], *last = run->last;
		if (m->kind == KERNEL_OP_LOOP) {
			if (!add_loop_to_run(run, i))
				break;
			i = m->match + 1;
			continue;
		}
		if (!is_cheap(m) || (last && (m->wide != last->wide || !same_register(&m->v, &last->out) ||
		                              (!last->single && !same_register(&m->out, &m->v)))))
			break;
		/* A copy needs no step: its value stays in the processor's register. */
		if (m->kind != KERNEL_OP_COPY)
			run->steps[run->count++] = (struct run_step){
				.op = m->op, .target = m->own_scalar, .scalar = m->scalar, .number = {m->number[0], m->number[1]}};
		run->last = m;
		i++;
	}
	return i;
}

bool make_runs(struct compiler *c)
{
	struct draft *d = &c->draft;
	size_t count = 0;
	for (size_t i = 0; i < d->kernel_op_count;) {
		struct run_builder run = {.draft = d, .steps = d->steps};
		size_t end = is_cheap(&d->kernel_ops[i]) ? extend_run(&run, i, d->kernel_op_count) : i;
		if (run.count < 2) {
			d->moved[i] = (uint32_t)count;
			d->kernel_ops[count++] = d->kernel_ops[i++];
			continue;
		}
		struct run_step *kept = arena_array(c->arena, run.count, sizeof *kept);
		if (!kept)
			return false;
		memcpy(kept, d->steps, run.count * sizeof *kept);
		struct kernel_op made = {.kind = KERNEL_OP_RUN,
		                         .wide = run.last->wide,
		                         .v = d->kernel_ops[i].v,
		                         .out = run.last->out,
		                         .steps = kept,
		                         .step_count = run.count};
		d->kernel_ops[count] = made;
		for (; i < end; i++)
			d->moved[i] = (uint32_t)count;
		count++;
	}
	d->kernel_op_count = count;
	for (size_t i = 0; i < count; i++)
		if (d->kernel_ops[i].kind == KERNEL_OP_LOOP || d->kernel_ops[i].kind == KERNEL_OP_END)
			d->kernel_ops[i].match = d->moved[d->kernel_ops[i].match];
	return true;
}
