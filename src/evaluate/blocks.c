/*
 * Runs the kernel ops of a group on a part of its arrays, block by block. The values between kernel ops lie in
 * registers, which are blocks in the first-level cache.
 * Tests: tests/unit/test_program.c
 */
#include "evaluate/blocks.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "compile/launch.h"

/* The piece of a group from element BEGIN to END. Its block is the N from FIRST on. */
struct piece {
	const struct launch_run *run;
	char *registers;
	int64_t begin, end, first;
	size_t n;
};

static inline void *address_of(const struct piece *b, const struct arg *arg)
{
	if (arg->kind == ARG_REGISTER)
		return b->registers + (int64_t)arg->index * b->run->launch->register_bytes[b->run->layout];
	if (arg->kind != ARG_ARRAY)
		return NULL;
	char *array = b->run->frame[arg->index];
	return arg->bits ? array + b->first * arg->bits / 8 : array + (b->first << arg->shift);
}

/* Returns the operand of KERNEL_OP, if that is a number. COUNTERS are those of the block loops around it. */
static double scalar_of(const struct piece *b, const struct kernel_op *kernel_op, const int64_t *counters)
{
	if (kernel_op->a.kind == ARG_SCALAR && kernel_op->a.value)
		return kernel_op->scalar + (double)counters[kernel_op->a.value - 1];
	if (kernel_op->a.kind != ARG_SCALAR)
		return kernel_op->own_scalar == NO_VALUE ? kernel_op->scalar : b->run->own->scalars[kernel_op->own_scalar];
	const struct entry *entry = &b->run->program->frame->entries[kernel_op->a.index];
	const void *from = b->run->frame[kernel_op->a.index];
	if (entry->kind == ENTRY_COUNTER)
		return kernel_op->scalar + (double)frame_counter(b->run->frame, kernel_op->a.index);
	const bool wide = entry->type->dtype == DTYPE_F64;
	return wide ? *(const double *)from : (double)*(const float *)from;
}

/* True if the particulars have OP's constants where they have another's operand. */
static bool has_constants(enum op op) { return op_table[op].class == OP_CLASS_UNARY && op_table[op].arguments[0]; }

/* Runs the steps of KERNEL_OP, a run, with the numbers of the step of the chain. */
static void run_steps(const struct piece *b, const struct kernel_op *kernel_op, const struct kernels *kernels)
{
	const struct particulars *own = b->run->own;
	const size_t count = kernel_op->step_count;
	void *out = address_of(b, &kernel_op->out), *v = address_of(b, &kernel_op->v);
	if (!own || !own->slots) {
		kernels->run(out, v, kernel_op->steps, count, b->n);
		return;
	}
	struct run_step steps[count];
	memcpy(steps, kernel_op->steps, count * sizeof *steps);
	for (size_t i = 0; i < count; i++)
		if (steps[i].op != OP_COUNT && steps[i].target != NO_VALUE) {
			steps[i].scalar = own->scalars[steps[i].target];
			if (has_constants(steps[i].op))
				memcpy(steps[i].number, own->scalars + steps[i].target, sizeof steps[i].number);
		}
	kernels->run(out, v, steps, count, b->n);
}

static void run_gather(const struct piece *b, const struct kernel_op *kernel_op, const struct kernels *kernels)
{
	const struct instr *instr = kernel_op->instr;
	const struct op_call call = {
		.op = instr->op, .attrs = instr->attrs, .v = instr->of.v, .y = instr->of.y, .kernels = kernels};
	const double factor =
		kernel_op->own_scalar == NO_VALUE ? kernel_op->factor : b->run->own->scalars[kernel_op->own_scalar];
	const struct gather_part part = {.back = instr->kind == INSTR_VJP,
	                                 .to = address_of(b, &kernel_op->out),
	                                 .from = b->run->frame[kernel_op->v.index],
	                                 .first = b->first,
	                                 .n = (int64_t)b->n,
	                                 .factor = factor,
	                                 .add = address_of(b, &kernel_op->a)};
	op_gather_get(instr->op, instr->attrs)(&call, &part);
}

/*
 * Returns KERNEL_OP's operation or, if that divides by a power of two, mul, and sets *NUMBER to the inverse. Both round
 * the same quotient, and a division takes several times as long.
 */
static enum op cheapest_op(const struct kernel_op *kernel_op, double *number)
{
	enum { MOST = 120 }; /* a float's exponent may be that large */
	int exponent;
	const bool divides = kernel_op->op == OP_div && kernel_op->form == 1 &&
	                     (kernel_op->kind == KERNEL_OP_FORWARD || kernel_op->kind == KERNEL_OP_VJP_V);
	if (!divides || fabs(frexp(*number, &exponent)) != 0.5 || exponent < -MOST || exponent > MOST)
		return kernel_op->op;
	*number = 1 / *number;
	return OP_mul;
}

static void run_kernel_op(const struct piece *b, const struct kernel_op *kernel_op, const int64_t *counters)
{
	const struct kernels *kernels = b->run->kernels[kernel_op->wide];
	size_t width = kernel_op->wide ? 8 : 4;
	switch (kernel_op->kind) {
	case KERNEL_OP_RUN:
		run_steps(b, kernel_op, kernels);
		return;
	case KERNEL_OP_ZERO:
		memset(address_of(b, &kernel_op->out), 0, b->n * width);
		return;
	case KERNEL_OP_COPY: {
		void *to = address_of(b, &kernel_op->out), *from = address_of(b, &kernel_op->v);
		if (to != from)
			memcpy(to, from, b->n * width);
		return;
	}
	case KERNEL_OP_FILL:
		if (!kernel_op->once || b->first == b->begin)
			broadcast_fill(kernels, address_of(b, &kernel_op->out),
			               &(struct broadcast){b->run->frame[kernel_op->v.index], kernel_op->from, kernel_op->to},
			               b->first,
			               kernel_op->once ? lesser(b->run->launch->block, b->end - b->begin) : (int64_t)b->n);
		return;
	case KERNEL_OP_GATHER:
		run_gather(b, kernel_op, kernels);
		return;
	default:
		break;
	}
	const bool ternary = op_table[kernel_op->op].operands > 1; /* L and B are one */
	struct kernel_args args = {.out = address_of(b, &kernel_op->out),
	                           .keep = {address_of(b, &kernel_op->keep[0]), address_of(b, &kernel_op->keep[1])},
	                           .v = address_of(b, &kernel_op->v),
	                           .a = address_of(b, &kernel_op->a),
	                           .b = ternary ? address_of(b, &kernel_op->b) : NULL,
	                           .y = address_of(b, &kernel_op->y),
	                           .k = address_of(b, &kernel_op->k),
	                           .l = ternary ? NULL : address_of(b, &kernel_op->l),
	                           .g = address_of(b, &kernel_op->g),
	                           .scalar = scalar_of(b, kernel_op, counters),
	                           .number = {kernel_op->number[0], kernel_op->number[1]},
	                           .n = b->n};
	if (kernel_op->own_scalar != NO_VALUE && has_constants(kernel_op->op))
		memcpy(args.number, b->run->own->scalars + kernel_op->own_scalar, sizeof args.number);
	kernel *const(*const table)[2] = kernel_op->kind == KERNEL_OP_KEEP    ? kernels->forward_keep
	                                 : kernel_op->kind == KERNEL_OP_VJP_V ? kernels->vjp_v
	                                 : kernel_op->kind == KERNEL_OP_VJP_A ? kernels->vjp_a
	                                 : kernel_op->kind == KERNEL_OP_VJP_B ? kernels->vjp_b
	                                                                      : kernels->forward;
	table[cheapest_op(kernel_op, &args.scalar)][kernel_op->form](&args);
}

static void run_piece(const struct piece *b)
{
	const struct launch *launch = b->run->launch;
	int64_t counters[MAX_LOOPS];
	int depth = 0;
	for (size_t i = 0; i < launch->kernel_op_count; i++) {
		const struct kernel_op *kernel_op = &launch->kernel_ops[i];
		if (kernel_op->kind == KERNEL_OP_LOOP) {
			if (kernel_op->iterations == 0)
				i = kernel_op->match;
			else
				counters[depth++] = kernel_op->first;
		} else if (kernel_op->kind == KERNEL_OP_END) {
			if (++counters[depth - 1] < kernel_op->first + kernel_op->iterations)
				i = kernel_op->match;
			else
				depth--;
		} else {
			run_kernel_op(b, kernel_op, counters);
		}
	}
}

void group_run_part(const struct launch_run *run, void *memory, int64_t begin, int64_t end)
{
	struct piece b = {.run = run, .registers = memory ? memory : run->memory, .begin = begin, .end = end};
	const int64_t block = run->launch->block;
	for (b.first = begin; b.first < end; b.first += block) {
		b.n = (size_t)(end - b.first < block ? end - b.first : block);
		run_piece(&b);
	}
}

/* A team_part. */
static void run_part(void *context, void *memory, int64_t begin, int64_t end)
{
	group_run_part(context, memory, begin, end);
}

/* Returns what an element of LAUNCH, a group, costs: 1 for its memory, and 1 and more for each kernel op. */
static double element_cost(const struct launch *launch)
{
	const double SIMPLE = 8; /* additions that a kernel op does while it waits for memory */
	double cost = 1;
	for (size_t i = 0; i < launch->kernel_op_count; i++) {
		const struct kernel_op *op = &launch->kernel_ops[i];
		const bool forward = op->kind == KERNEL_OP_FORWARD || op->kind == KERNEL_OP_KEEP;
		cost += 1 + (forward ? op_table[op->op].flops / SIMPLE : 0);
	}
	return cost;
}

void group_run(const struct launch_run *run, struct team *team)
{
	const double MOST_COST = 8;
	const struct launch *launch = run->launch;
	const int64_t least = (int64_t)(TEAM_PIECE / fmin(element_cost(launch), MOST_COST));
	const int64_t pieces = run->count / least & -2; /* an even number, so that two threads get equal parts */
	struct launch_run own = *run;                   /* a team_part's context is not const */
	if (!team || pieces < 2)
		group_run_part(run, NULL, 0, run->count);
	else
		team_run(team, run->count, round_up(ceil_div(run->count, pieces), launch->block), run_part, &own);
}
