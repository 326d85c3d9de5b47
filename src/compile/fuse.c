/*
 * A group: element-wise instructions and gathers that follow one another on one shape, and block loops of the former. It becomes a
 * list of kernel ops that runs for block after block of the arrays. Values pass from kernel op to kernel op in
 * registers, which are blocks in the first-level cache.
 *
 *     body          kernel ops
 *     b = sin a     forward sin  a[block]     -> r0
 *     c = b * w     forward mul  r0, w[block] -> r0           r0 again: b dies here
 *     out d = -c    forward neg  r0           -> out[block]   an out needs no register
 *
 * draft_reserve counts each list before it is filled, so that memory can run out in few places only.
 * Tests: tests/unit/test_fuse.c, tests/unit/test_program.c
 */

#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "compile/compiler.h"

enum { BLOCK_BYTES = 24 << 10, LEAST_BLOCK = 256, MOST_BLOCK = 4096, GATHER_BLOCK = 1 << 16, MOST_FILLS = 8 };
enum { MOST_ROWS = 64 << 10 /* bytes of the registers of a block of two rows */ };

/* The most kernel ops and registers that one carry of a loop adds to a draft. */
enum { CARRY_KERNEL_OPS = 4, CARRY_REGISTERS = 4 };

/* Returns the type of the arrays that INSTR walks. Its v and a have the shape of that, or are broadcast to it. */
static const struct type *walked_type(const struct compiler *c, const struct instr *instr)
{
	uint32_t made[INSTR_WRITES];
	if (instr->kind == INSTR_VJP)
		return instr->of.v;
	if (instr->of.y && instr->kind != INSTR_ADD && instr->kind != INSTR_ZERO)
		return instr->of.y;
	(void)instr_writes(instr, made);
	return c->body->values[made[0]].type;
}

static bool needs_broadcast(const struct compiler *c, uint32_t value, const struct type *to)
{
	return value != NO_VALUE && !shape_equal(&c->body->values[value].type->shape, &to->shape);
}

bool draft_reserve(struct compiler *c)
{
	struct draft *d = &c->draft;
	size_t kernel_ops = 0, registers = 0, loops = 0;
	int64_t group = -1;
	for (size_t i = 0; i < c->body->instr_count; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (!c->instrs[i].live)
			continue;
		if (c->instrs[i].launch != group)
			kernel_ops = registers = 0;
		group = c->instrs[i].launch;
		/* Each adds at most itself, a fill for each broadcast input, a register for each result, and its carries. */
		const struct type *to = instr_is_element(instr) ? walked_type(c, instr) : NULL;
		size_t fills = 0;
		for (uint32_t k = 0; to && k < MAX_VALUES; k++)
			fills += needs_broadcast(c, instr_value(instr, k), to);
		const size_t carries = instr->kind == INSTR_LOOP ? instr->loop.carry_count : 0;
		const bool keeps = instr->out_keep[0] != NO_VALUE || instr->out_keep[1] != NO_VALUE;
		kernel_ops += 1 + fills + CARRY_KERNEL_OPS * carries;
		registers += fills + (keeps ? 1 + MAX_KEEPS : 1) + CARRY_REGISTERS * carries;
		loops += instr->kind == INSTR_LOOP;
		d->kernel_op_limit = kernel_ops > d->kernel_op_limit ? kernel_ops : d->kernel_op_limit;
		d->register_limit = registers > d->register_limit ? (uint32_t)registers : d->register_limit;
	}
	struct arena *arena = &c->scratch_arena;
	size_t moved = d->kernel_op_limit > d->register_limit ? d->kernel_op_limit : d->register_limit;
	size_t steps = d->kernel_op_limit + 2 * UNROLLED_STEPS * loops;
	if (steps > RUN_MAX_STEPS)
		steps = RUN_MAX_STEPS;
	/* The only group of a long body keeps its draft's list: there is no second one at any time. */
	d->stays = c->launch_limit == 1 + c->body->out_count && !c->brief;
	d->kernel_ops = arena_array(d->stays ? c->arena : arena, d->kernel_op_limit + 1, sizeof *d->kernel_ops);
	d->registers = arena_array(arena, (size_t)d->register_limit + 1, sizeof *d->registers);
	d->places = arena_array(arena, (size_t)d->register_limit + 1, sizeof *d->places);
	d->ending = arena_array(arena, d->kernel_op_limit + 2, sizeof *d->ending);
	d->moved = arena_array(arena, moved + 1, sizeof *d->moved);
	d->steps = arena_array(arena, steps + 1, sizeof *d->steps);
	return !arena->failed && d->kernel_ops;
}

static void add_kernel_op(struct draft *d, struct kernel_op kernel_op)
{
	assert(d->kernel_op_count < d->kernel_op_limit);
	d->kernel_ops[d->kernel_op_count++] = kernel_op;
}

static uint32_t add_register(struct draft *d, uint8_t shift, uint8_t bits)
{
	assert(d->register_count < d->register_limit);
	d->registers[d->register_count] = (struct draft_register){.shift = shift, .bits = bits};
	return d->register_count++;
}

static struct arg arg_of(struct compiler *c, uint32_t value)
{
	if (value == NO_VALUE)
		return (struct arg){.kind = ARG_NONE};
	const struct type *type = c->body->values[value].type;
	struct draft *d = &c->draft;
	const uint32_t same_as = c->values[value].same_as;
	struct arg arg = {.kind = ARG_REGISTER,
	                  .value = same_as == NO_VALUE ? value : same_as,
	                  .bits = (uint8_t)dtype_bits(type->dtype),
	                  .shift = type->dtype == DTYPE_F64 ? 3 : 2};
	if (c->values[value].array || c->body->values[value].from != FROM_INSTR) {
		arg.kind = ARG_ARRAY;
		arg.index = compiler_entry(c, value);
		return arg;
	}
	uint32_t *reg = &c->values[arg.value].reg;
	if (*reg < d->first)
		*reg = d->first + add_register(d, arg.shift, arg.bits);
	arg.index = *reg - d->first;
	return arg;
}

/* Adds a register that holds no value of the body. In its arg `value` is a number above all values. */
static struct arg extra_register(struct compiler *c, uint8_t shift, uint8_t bits)
{
	return (struct arg){.kind = ARG_REGISTER,
	                    .index = add_register(&c->draft, shift, bits),
	                    .value = (uint32_t)c->body->value_count + c->draft.extras++,
	                    .shift = shift,
	                    .bits = bits};
}

/* Returns the register of VALUE broadcast to TO. Emits the fill unless the group has one for VALUE. */
static struct arg filled(struct compiler *c, uint32_t value, const struct type *to)
{
	struct draft *d = &c->draft;
	if (c->values[value].fill >= d->first)
		return d->kernel_ops[c->values[value].fill - d->first].out;
	const struct arg from = arg_of(c, value), out = extra_register(c, from.shift, false);
	c->values[value].fill = d->first + (uint32_t)d->kernel_op_count;
	add_kernel_op(d, (struct kernel_op){.kind = KERNEL_OP_FILL,
	                                    .v = from,
	                                    .out = out,
	                                    .from = c->body->values[value].type,
	                                    .to = to,
	                                    .wide = from.shift == 3});
	return out;
}

static bool is_binary(const struct instr *instr)
{
	return instr->kind <= INSTR_VJP_A && op_table[instr->op].class == OP_CLASS_BINARY;
}

/* True if the operand of INSTR, which walks TO, is one number in an array, and TO is not: the kernel reads it there. */
static bool is_scalar_operand(const struct compiler *c, const struct instr *instr, const struct type *to)
{
	const struct value *values = c->body->values;
	return is_binary(instr) && instr->a != NO_VALUE && shape_count(&values[instr->a].type->shape) == 1 &&
	       (c->values[instr->a].array || values[instr->a].from != FROM_INSTR) && shape_count(&to->shape) != 1;
}

/* Returns the arg of VALUE, an input of an instruction that walks TO: broadcast if its shape is another. */
static struct arg operand_of(struct compiler *c, uint32_t value, const struct type *to)
{
	return needs_broadcast(c, value, to) ? filled(c, value, to) : arg_of(c, value);
}

/*
 * Emits fills before all other kernel ops: all fills of loops, where each iteration would repeat them, and
 * those of other instructions while there are fewer than MOST_FILLS. Only these fills may be done once for all blocks.
 */
static void fill_first(struct compiler *c, size_t first, size_t end)
{
	int depth = 0;
	for (size_t i = first; i < end; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (!c->instrs[i].live)
			continue;
		depth += (instr->kind == INSTR_LOOP) - (instr->kind == INSTR_END);
		if (instr->kind == INSTR_LOOP || instr->kind == INSTR_END || c->instrs[i].gather ||
		    (depth == 0 && c->draft.kernel_op_count >= MOST_FILLS))
			continue;
		const struct type *to = walked_type(c, instr);
		if (needs_broadcast(c, instr->v, to))
			(void)filled(c, instr->v, to);
		if (needs_broadcast(c, instr->a, to) && !is_scalar_operand(c, instr, to))
			(void)filled(c, instr->a, to);
		if (needs_broadcast(c, instr_value(instr, 2), to))
			(void)filled(c, instr_value(instr, 2), to);
	}
	c->draft.fills = (uint32_t)c->draft.kernel_op_count;
}

static void add_copy(struct compiler *c, struct arg from, struct arg to, bool single)
{
	add_kernel_op(
		&c->draft,
		(struct kernel_op){.kind = KERNEL_OP_COPY, .v = from, .out = to, .wide = to.shift == 3, .single = single});
}

/* Gives a register to each result that has none: the kernel of KEEP writes every value that the operation can keep. */
static void complete_results(struct compiler *c, struct kernel_op *kernel_op)
{
	if (kernel_op->out.kind == ARG_NONE)
		kernel_op->out = extra_register(c, kernel_op->wide ? 3 : 2, 0);
	for (int k = 0; k < MAX_KEEPS; k++) {
		const enum keep_kind kind = op_table[kernel_op->op].keeps[k].kind;
		if (kernel_op->keep[k].kind == ARG_NONE && kind != KEEP_NOTHING)
			kernel_op->keep[k] = extra_register(c, kernel_op->wide ? 3 : 2, (uint8_t)keep_bits(kind));
	}
}

/* Returns the operation to run for INSTR: by op_by_number if the operand is a number. A VJP must not read more then. */
static enum op op_of(const struct instr *instr)
{
	if (instr->a != NO_VALUE || instr->kind == INSTR_VJP_A)
		return instr->op;
	const enum op op = op_by_number(instr->op, instr->scalar);
	const bool reads_more = op_table[op].needs_v & ~op_table[instr->op].needs_v;
	return instr->kind == INSTR_VJP_V && reads_more ? instr->op : op;
}

/* True if INSTR reads its last operand, a number. A derivative that does not read it has form 0 alone. */
static bool reads_number(const struct instr *instr)
{
	if (instr->kind > INSTR_VJP_B || !op_broadcasts(instr->op))
		return false;
	const struct op_info *info = &op_table[instr->op];
	const unsigned needs = instr->kind == INSTR_OP ? NEEDS_ALL : info->needs[instr->kind - INSTR_VJP_V];
	return instr_has_number(instr) && needs & need_of_value((uint32_t)info->operands);
}

static void add_kernel(struct compiler *c, const struct instr *instr, const struct type *to)
{
	static const enum kernel_op_kind kinds[] = {[INSTR_OP] = KERNEL_OP_FORWARD,
	                                            [INSTR_VJP_V] = KERNEL_OP_VJP_V,
	                                            [INSTR_VJP_A] = KERNEL_OP_VJP_A,
	                                            [INSTR_VJP_B] = KERNEL_OP_VJP_B,
	                                            [INSTR_ADD] = KERNEL_OP_ADD};
	const bool scalar = is_scalar_operand(c, instr, to);
	const bool keeps = instr->out_keep[0] != NO_VALUE || instr->out_keep[1] != NO_VALUE;
	struct kernel_op made = {.kind = keeps ? KERNEL_OP_KEEP : kinds[instr->kind],
	                         .op = instr->kind == INSTR_ADD ? OP_add : op_of(instr),
	                         .wide = to->dtype == DTYPE_F64,
	                         .single = instr->out != NO_VALUE && c->values[instr->out].reads == 1,
	                         .scalar = instr->scalar,
	                         .own_scalar = instr->own_scalar};
	/* These lines number the registers and emit the fills, in this order. */
	made.v = operand_of(c, instr->v, to);
	made.a = scalar ? (struct arg){.kind = ARG_SCALAR} : operand_of(c, instr->a, to);
	if (instr->more[0] != NO_VALUE)
		made.b = operand_of(c, instr->more[0], to);
	made.y = arg_of(c, instr->y);
	made.k = arg_of(c, instr->k);
	if (instr->l != NO_VALUE)
		made.l = arg_of(c, instr->l);
	made.g = arg_of(c, instr->g);
	made.out = arg_of(c, instr->out);
	for (int k = 0; k < MAX_KEEPS; k++)
		made.keep[k] = arg_of(c, instr->out_keep[k]);
	made.form = (scalar || reads_number(instr)) && made.op == instr->op;
	if (scalar)
		made.a.index = compiler_entry(c, instr->a);
	if (instr_adds_counter(instr))
		made.a = (struct arg){
			.kind = ARG_SCALAR, .index = compiler_counter(c, instr->level), .value = c->counter_depth[instr->level]};
	if (instr->attrs)
		memcpy(made.number, instr->attrs->number, sizeof made.number);
	if (keeps)
		complete_results(c, &made);
	add_kernel_op(&c->draft, made);
}

static void add_element(struct compiler *c, const struct instr *instr)
{
	const struct type *to = walked_type(c, instr);
	if (instr->kind == INSTR_ZERO) {
		const struct arg out = arg_of(c, instr->out);
		add_kernel_op(&c->draft,
		              (struct kernel_op){.kind = KERNEL_OP_ZERO, .out = out, .wide = to->dtype == DTYPE_F64});
	} else {
		add_kernel(c, instr, to);
	}
}

static void add_gather(struct compiler *c, const struct instr *instr)
{
	struct kernel_op made = {.kind = KERNEL_OP_GATHER,
	                         .op = instr->op,
	                         .wide = walked_type(c, instr)->dtype == DTYPE_F64,
	                         .single = c->values[instr->out].reads == 1,
	                         .own_scalar = NO_VALUE,
	                         .instr = instr,
	                         .factor = 1};
	made.v = arg_of(c, instr->kind == INSTR_VJP ? instr->g : instr->v);
	made.out = arg_of(c, instr->out);
	add_kernel_op(&c->draft, made);
}

/* True if the copy of an earlier carry overwrites the result of carry K before the copy of K reads it. */
static bool is_overwritten(const struct instr *loop, uint32_t k)
{
	for (uint32_t j = 0; j < k; j++)
		if (loop->loop.carries[k].result == loop->loop.carries[j].inner &&
		    loop->loop.carries[j].result != loop->loop.carries[j].inner)
			return true;
	return false;
}

/*
 * LOOP, from kernel op BEGIN on, passes FROM to its next iteration in register TO. Makes the kernel op that computes
 * FROM write TO at once, and later ones use TO for FROM. False, with nothing changed, if a later one touches TO, if
 * FROM is no register that LOOP itself computes, or if it is the inner of a carry. SINGLE: TO is read once after LOOP.
 */
static bool make_in_place(struct compiler *c, size_t begin, const struct instr *loop, struct arg from, struct arg to,
                          bool single)
{
	struct draft *d = &c->draft;
	struct kernel_op *end = d->kernel_ops + d->kernel_op_count, *made = end - 1;
	int depth = 0;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct arg inner = arg_of(c, loop->loop.carries[k].inner);
		if (same_register(&inner, &from))
			return false;
	}
	for (; made > d->kernel_ops + begin && !same_register(&made->out, &from); made--) {
		depth += (made->kind == KERNEL_OP_END) - (made->kind == KERNEL_OP_LOOP);
		for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
			if (same_register(&made->args[a], &to))
				return false;
	}
	if (made == d->kernel_ops + begin || depth > 0)
		return false;
	made->single &= single;
	for (struct kernel_op *m = made; m < end; m++)
		for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
			if (same_register(&m->args[a], &from))
				m->args[a] = to;
	return true;
}

static void end_block_loop(struct compiler *c, const struct instr *loop, size_t begin)
{
	struct draft *d = &c->draft;
	size_t saved = d->kernel_op_count;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		if (!is_overwritten(loop, k))
			continue;
		struct arg result = arg_of(c, loop->loop.carries[k].result);
		add_copy(c, result, extra_register(c, result.shift, false), false);
	}
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		if (carry->result == carry->inner)
			continue;
		const bool overwritten = is_overwritten(loop, k);
		const struct arg from = overwritten ? d->kernel_ops[saved++].out : arg_of(c, carry->result);
		/* After the last iteration only the final reads the register of the inner. */
		const bool single = c->values[carry->final].array || c->values[carry->final].reads == 1;
		const struct arg to = arg_of(c, carry->inner);
		if (!make_in_place(c, begin, loop, from, to, single))
			add_copy(c, from, to, single);
		else if (!overwritten)
			c->values[carry->result].same_as = carry->inner;
	}
	d->kernel_ops[begin].match = (uint32_t)d->kernel_op_count;
	add_kernel_op(d, (struct kernel_op){.kind = KERNEL_OP_END,
	                                    .match = (uint32_t)begin,
	                                    .first = loop->loop.first,
	                                    .iterations = loop->loop.iterations});
	c->counter_depth[loop->level] = 0;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		if (c->values[carry->final].array)
			add_copy(c, arg_of(c, carry->inner), arg_of(c, carry->final), false);
	}
}

/* Returns the count of M's array if it fills whole trailing axes: a multiple of 8, at most MOST_BLOCK; else 0. */
static int64_t fill_period(const struct kernel_op *m)
{
	int64_t period = 1;
	for (int d = 0; d < m->from->shape.ndim; d++) {
		int64_t extent = m->from->shape.dim[m->from->shape.ndim - 1 - d];
		if (d >= m->to->shape.ndim || extent != m->to->shape.dim[m->to->shape.ndim - 1 - d])
			return 0;
		period *= extent;
	}
	return m->to->shape.ndim > 0 && period % 8 == 0 && period <= MOST_BLOCK ? period : 0;
}

/* Marks the first fills whose pattern can repeat in every block. Returns a period: the block must be a multiple. */
static int64_t mark_once(struct draft *d)
{
	int64_t period = 1;
	for (size_t i = 0; i < d->fills; i++) {
		int64_t p = fill_period(&d->kernel_ops[i]);
		d->kernel_ops[i].once = p && (period % p == 0 || p % period == 0);
		if (d->kernel_ops[i].once && p > period)
			period = p;
	}
	return period;
}

/*
 * Returns what the block of LAUNCH is a multiple of, for elements of WIDTH bytes. If it has a laplacian, that is two rows
 * of SHAPE, as far as they fit the registers, since a laplacian computes two at once. Else it is PERIOD or, if that is 1,
 * 512.
 */
static int64_t block_unit(const struct launch *launch, int64_t period, int64_t width, const struct shape *shape)
{
	const int64_t rows = shape->ndim > 1 ? 2 * shape->dim[shape->ndim - 1] : 0;
	bool pairs = false;
	for (size_t i = 0; i < launch->kernel_op_count; i++)
		pairs |= launch->kernel_ops[i].kind == KERNEL_OP_GATHER && launch->kernel_ops[i].op == OP_laplacian;
	const int64_t registers = greater(launch->registers, 1);
	if (pairs && rows > 0 && rows % 8 == 0 && rows % period == 0 && rows * width * registers <= MOST_ROWS)
		return rows;
	return period > 1 ? period : 512;
}

/* Returns the elements of a register of LAUNCH on COUNT elements: those of a block or, if one holds all, of these. */
static int64_t least_block(const struct launch *launch, int64_t count)
{
	return launch->block > count ? round_up(greater(count, 1), 64) : launch->block;
}

/*
 * Sets the block of LAUNCH to as many elements as keep registers and arrays in the first-level cache, or to MOST_BLOCK
 * for a single kernel op without registers. It is a multiple of its unit, or of 64 if one block holds all. LAUNCH has REST
 * elements on the rest's rows.
 */
static void choose_block(struct launch *launch, int64_t period, const struct shape *shape, int64_t rest)
{
	int64_t width = 4, arrays = 1;
	for (size_t i = 0; i < launch->kernel_op_count; i++) {
		const struct kernel_op *m = &launch->kernel_ops[i];
		width = m->wide ? 8 : width;
		arrays += (m->out.kind == ARG_ARRAY) + (m->kind == KERNEL_OP_FILL);
	}
	int64_t block = launch->kernel_op_count == 1 && !launch->registers
	                    ? MOST_BLOCK
	                    : BLOCK_BYTES / (width * (launch->registers + (arrays > 4 ? 4 : arrays)));
	block = block < LEAST_BLOCK ? LEAST_BLOCK : block > MOST_BLOCK ? MOST_BLOCK : block;
	if (launch->kernel_op_count == 1 && !launch->registers && launch->kernel_ops->kind == KERNEL_OP_GATHER)
		block = GATHER_BLOCK; /* whole rows, which share what they read */
	const int64_t unit = block_unit(launch, period, width, shape);
	launch->block = block / unit > 0 ? block / unit * unit : unit;
	launch->block = least_block(launch, launch->count);
	launch->register_bytes[LAYOUT_ALL] = round_up(launch->block * width, ARRAY_ALIGN);
	launch->register_bytes[LAYOUT_REST] = round_up(least_block(launch, rest) * width, ARRAY_ALIGN);
}

/* True if M is a binary operation on its two registers or arrays that reads the result of GATHER, and nothing else does. */
static bool reads_gather(const struct kernel_op *m, const struct kernel_op *gather, enum op op)
{
	return (m->kind == KERNEL_OP_FORWARD || m->kind == KERNEL_OP_ADD) && m->op == op && gather->single &&
	       gather->out.kind == ARG_REGISTER && m->wide == gather->wide;
}

/*
 * Joins a gather with a mul by a number and an add that follow it. v + 0.1 * laplacian(v) is then one kernel op. The sums' bits do not depend on the order of the two addends.
 */
static void join_tails(struct draft *d)
{
	size_t count = 0;
	for (size_t i = 0; i < d->kernel_op_count; i++)
		if (d->kernel_ops[i].kind == KERNEL_OP_LOOP) /* its end and it name each other by index */
			return;
	for (size_t i = 0; i < d->kernel_op_count; i++) {
		const struct kernel_op *m = &d->kernel_ops[i];
		struct kernel_op *gather = count > d->fills ? &d->kernel_ops[count - 1] : NULL;
		const bool follows =
			gather && gather->kind == KERNEL_OP_GATHER && op_takes_tail(gather->op) && gather->a.kind == ARG_NONE;
		if (follows && gather->factor == 1 && gather->own_scalar == NO_VALUE && reads_gather(m, gather, OP_mul) &&
		    m->form == 1 && m->a.kind == ARG_NONE && same_register(&m->v, &gather->out)) {
			gather->factor = m->scalar;
			gather->own_scalar = m->own_scalar;
		} else if (follows && reads_gather(m, gather, OP_add) && m->form == 0 && same_register(&m->a, &gather->out) &&
		           !same_register(&m->v, &gather->out)) {
			gather->a = m->v;
		} else {
			d->kernel_ops[count++] = *m;
			continue;
		}
		gather->out = m->out;
		gather->single = m->single;
	}
	d->kernel_op_count = count;
}

/* True if the result of M is its cotangent, as of the derivatives of an addition. */
static bool is_copy(const struct kernel_op *m)
{
	return (m->kind == KERNEL_OP_VJP_V && (m->op == OP_add || m->op == OP_sub)) ||
	       (m->kind == KERNEL_OP_VJP_A && m->op == OP_add);
}

/* Returns ARG or, if that is a register that another argument has replaced, that one. */
static struct arg replaced(const struct draft *d, struct arg arg)
{
	while (arg.kind == ARG_REGISTER && d->registers[arg.index].same.kind != ARG_NONE)
		arg = d->registers[arg.index].same;
	return arg;
}

static void replace_args(const struct draft *d, struct kernel_op *m)
{
	for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
		m->args[a] = replaced(d, m->args[a]);
}

/* Notes that kernel op INDEX of D makes a register, if it does. */
static void note_maker(struct draft *d, size_t index)
{
	const struct arg *out = &d->kernel_ops[index].out;
	if (out->kind == ARG_REGISTER)
		d->registers[out->index].begin = (uint32_t)index + 1;
}

/* Returns the kernel op of D that makes REG, if that is a register with one; else NULL. */
static struct kernel_op *maker_of(struct draft *d, const struct arg *reg)
{
	const uint32_t noted = reg->kind == ARG_REGISTER ? d->registers[reg->index].begin : 0;
	return noted ? &d->kernel_ops[noted - 1] : NULL;
}

/*
 * Removes copies of cotangents: who reads the copy reads what is copied. If the copy is an array and that is a register,
 * the register becomes the array.
 */
static void drop_copies(struct draft *d)
{
	size_t count = d->fills;
	for (size_t i = 0; i < d->kernel_op_count; i++)
		if (d->kernel_ops[i].kind == KERNEL_OP_LOOP) /* a register may have another value in each iteration */
			return;
	for (size_t i = 0; i < d->fills; i++)
		note_maker(d, i);
	for (size_t i = d->fills; i < d->kernel_op_count; i++) {
		struct kernel_op m = d->kernel_ops[i];
		replace_args(d, &m);
		struct kernel_op *maker = is_copy(&m) ? maker_of(d, &m.g) : NULL;
		const bool array = m.out.kind == ARG_ARRAY;
		if (!is_copy(&m) || (array && (!maker || maker->kind == KERNEL_OP_FILL))) {
			d->kernel_ops[count] = m;
			note_maker(d, count++);
			continue;
		}
		if (maker)
			maker->single &= m.single;
		const struct arg from = array ? m.g : m.out;
		if (from.kind == ARG_REGISTER)
			d->registers[from.index].same = array ? m.out : m.g;
	}
	d->kernel_op_count = count;
	for (size_t i = 0; i < count; i++)
		replace_args(d, &d->kernel_ops[i]);
}

static void add_kernel_ops(struct compiler *c, size_t first, size_t end)
{
	size_t open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = first; i < end; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (!c->instrs[i].live)
			continue;
		if (instr->kind == INSTR_LOOP) {
			for (uint32_t k = 0; k < instr->loop.carry_count; k++) {
				const struct carry *carry = &instr->loop.carries[k];
				const struct arg init = arg_of(c, carry->init);
				add_copy(c, init, arg_of(c, carry->inner), c->values[carry->inner].reads == 1);
			}
			open[depth++] = c->draft.kernel_op_count;
			c->counter_depth[instr->level] = (uint32_t)depth;
			add_kernel_op(&c->draft, (struct kernel_op){.kind = KERNEL_OP_LOOP,
			                                            .first = instr->loop.first,
			                                            .iterations = instr->loop.iterations});
		} else if (instr->kind == INSTR_END) {
			end_block_loop(c, &c->body->instrs[instr->loop.match], open[--depth]);
		} else if (c->instrs[i].gather) {
			add_gather(c, instr);
		} else {
			add_element(c, instr);
		}
	}
}

bool compile_group(struct compiler *c, size_t first, size_t end)
{
	struct draft *d = &c->draft;
	struct launch *launch = compiler_launch(c, LAUNCH_GROUP);
	const struct shape *shape = group_shape(c, &c->body->instrs[first]);
	launch->streamed = group_streams(c, &c->body->instrs[first]) ? STREAMED_V : 0;
	launch->count = shape_count(shape);
	launch->rows = shape->ndim > 0 ? shape->dim[0] : 1;
	/* From here on, reg and fill of values in earlier groups are below d->first. */
	d->first += (uint32_t)greater((int64_t)d->kernel_op_count, d->register_count) + 1;
	d->kernel_op_count = d->register_count = d->extras = d->fills = 0;
	fill_first(c, first, end);
	add_kernel_ops(c, first, end);
	drop_copies(d);
	join_tails(d);
	const size_t names = d->kernel_op_count;
	int64_t period = mark_once(d);
	place_registers(d);
	if (!make_runs(c))
		return false;
	launch->registers = compact_registers(d);
	launch->kernel_ops =
		d->stays ? d->kernel_ops : arena_array(c->arena, d->kernel_op_count, sizeof *launch->kernel_ops);
	if (!launch->kernel_ops)
		return false;
	if (!d->stays)
		memcpy(launch->kernel_ops, d->kernel_ops, d->kernel_op_count * sizeof *launch->kernel_ops);
	launch->kernel_op_count = d->kernel_op_count;
	d->kernel_op_count = names;
	const int64_t rows = launch->streamed ? layout_rows(c, LAYOUT_REST) : 0;
	choose_block(launch, period, shape, rows ? launch->count / launch->rows * rows : launch->count);
	launch->memory = (uint32_t)(launch->register_bytes[LAYOUT_ALL] * launch->registers);
	launch->waits = launch_may_wait(launch);
	for (int layout = 0; layout < LAYOUTS; layout++)
		c->register_bytes[layout] =
			greater(c->register_bytes[layout], launch->register_bytes[layout] * launch->registers);
	if (launch->waits)
		c->out->wave = greater(c->out->wave, WAVE_LISTS + launch->memory);
	return true;
}
