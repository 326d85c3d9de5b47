/*
 * A group: element-wise instructions that follow one another on one shape, as a
 * list of kernel_ops that is run for block after block of the arrays. What is passed
 * between kernel_ops stays in registers, blocks in the first-level cache; chains of
 * cheap kernel_ops become runs, which stay in the processor's own registers.
 *
 * Invariants. No two registers that are live at once share a place. A result
 * takes the place of an input that dies with it only where both are of one type
 * and it is the kernel's own result (struct kernel_args): masks and kept values
 * have places of their own. What a loop reads from outside lives through all of
 * it. A run writes its last result alone: each value before it is read by the
 * next step and by nothing else.
 */
#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "compile/compiler.h"

enum { BLOCK_BYTES = 24 << 10, LEAST_BLOCK = 256, MOST_BLOCK = 4096, MOST_FILLS = 8, UNROLLED_STEPS = 32 };

/* The most that a carry of a loop adds to a draft. */
enum { CARRY_MICROS = 4, CARRY_REGISTERS = 4 };

/* The type of what INSTR walks: its inputs are of it, or broadcast to it. */
static const struct type *walked_type(const struct compiler *c, const struct instr *instr)
{
	uint32_t made[4];
	if (instr->of.y && instr->kind != INSTR_ADD && instr->kind != INSTR_ZERO && instr->kind != INSTR_BROADCAST)
		return instr->of.y;
	(void)instr_writes(instr, made);
	return c->body->values[made[0]].type;
}

static bool is_broadcast(const struct compiler *c, uint32_t value, const struct type *to)
{
	return value != NO_VALUE && !shape_equal(&c->body->values[value].type->shape, &to->shape);
}

/* The most that INSTR adds: itself, what is broadcast for it, and what it makes, be it wanted or not. */
static void most_of(const struct compiler *c, const struct instr *instr, size_t *kernel_ops, size_t *registers)
{
	uint32_t made[4];
	const size_t makes = instr_writes(instr, made);
	size_t fills = 0;
	if (makes && instr->kind != INSTR_LOOP && instr->kind != INSTR_END) {
		const struct type *to = walked_type(c, instr);
		fills = (size_t)is_broadcast(c, instr->v, to) + (size_t)is_broadcast(c, instr->a, to);
	}
	*kernel_ops = 1 + fills;
	const bool keeps = instr->out_keep[0] != NO_VALUE || instr->out_keep[1] != NO_VALUE;
	*registers = fills + (keeps ? 1 + MAX_KEEPS : makes);
	if (instr->kind == INSTR_LOOP) {
		*kernel_ops += CARRY_MICROS * (size_t)instr->loop.carry_count;
		*registers += CARRY_REGISTERS * (size_t)instr->loop.carry_count;
	}
}

bool draft_reserve(struct compiler *c)
{
	struct draft *d = &c->draft;
	size_t kernel_ops = 0, registers = 0, loops = 0;
	int64_t group = -1;
	for (size_t i = 0; i < c->body->instr_count; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (!c->live[i])
			continue;
		if (c->group[i] != group)
			kernel_ops = registers = 0;
		group = c->group[i];
		size_t more_kernel_ops, more_registers;
		most_of(c, instr, &more_kernel_ops, &more_registers);
		kernel_ops += more_kernel_ops;
		registers += more_registers;
		loops += instr->kind == INSTR_LOOP;
		d->kernel_op_limit = kernel_ops > d->kernel_op_limit ? kernel_ops : d->kernel_op_limit;
		d->register_limit = registers > d->register_limit ? (uint32_t)registers : d->register_limit;
	}
	struct arena *arena = &c->scratch_arena;
	size_t moved = d->kernel_op_limit > d->register_limit ? d->kernel_op_limit : d->register_limit;
	size_t steps = d->kernel_op_limit + 2 * UNROLLED_STEPS * loops;
	if (steps > RUN_MAX_STEPS)
		steps = RUN_MAX_STEPS;
	d->kernel_ops = arena_array(arena, d->kernel_op_limit + 1, sizeof *d->kernel_ops);
	d->registers = arena_array(arena, (size_t)d->register_limit + 1, sizeof *d->registers);
	d->places = arena_array(arena, (size_t)d->register_limit + 1, sizeof *d->places);
	d->ending = arena_array(arena, d->kernel_op_limit + 2, sizeof *d->ending);
	d->moved = arena_array(arena, moved + 1, sizeof *d->moved);
	d->steps = arena_array(arena, steps + 1, sizeof *d->steps);
	return d->kernel_ops && d->registers && d->places && d->ending && d->moved && d->steps;
}

static struct kernel_op *add_kernel_op(struct draft *d, enum kernel_op_kind kind)
{
	assert(d->kernel_op_count < d->kernel_op_limit);
	struct kernel_op *kernel_op = &d->kernel_ops[d->kernel_op_count++];
	*kernel_op = (struct kernel_op){.kind = kind, .scalar_entry = -1};
	return kernel_op;
}

/* Registers and places of values. */

static uint32_t add_register(struct draft *d, uint8_t shift, bool bits)
{
	assert(d->register_count < d->register_limit);
	d->registers[d->register_count] = (struct draft_register){.shift = shift, .bits = bits};
	return d->register_count++;
}

/* The value whose register VALUE shares. */
static uint32_t web_of(const struct compiler *c, uint32_t value)
{
	while (c->same_as[value] != NO_VALUE)
		value = c->same_as[value];
	return value;
}

static struct arg arg_of(struct compiler *c, uint32_t value)
{
	if (value == NO_VALUE)
		return (struct arg){.kind = ARG_NONE, .value = NO_VALUE};
	const struct type *type = c->body->values[value].type;
	struct draft *d = &c->draft;
	struct arg arg = {.kind = ARG_REGISTER,
	                  .value = value,
	                  .bits = type->dtype == DTYPE_BITS,
	                  .shift = type->dtype == DTYPE_F64 ? 3 : 2};
	if (c->array[value] || c->body->values[value].from != FROM_INSTR) {
		arg.kind = ARG_ARRAY;
		arg.index = compiler_entry(c, value);
		return arg;
	}
	uint32_t web = web_of(c, value);
	if (c->reg[web] < d->first)
		c->reg[web] = d->first + add_register(d, arg.shift, arg.bits);
	arg.index = c->reg[web] - d->first;
	return arg;
}

/* A register of its own, named by a number beyond the body's values. */
static struct arg extra_register(struct compiler *c, uint8_t shift, bool bits)
{
	return (struct arg){.kind = ARG_REGISTER,
	                    .index = add_register(&c->draft, shift, bits),
	                    .value = (uint32_t)c->body->value_count + c->draft.extras++,
	                    .shift = shift,
	                    .bits = bits};
}

/* VALUE broadcast to TO, in the register that it was broadcast into before where it was. */
static struct arg filled(struct compiler *c, uint32_t value, const struct type *to)
{
	struct draft *d = &c->draft;
	if (c->fill[value] >= d->first)
		return d->kernel_ops[c->fill[value] - d->first].out;
	struct arg from = arg_of(c, value);
	c->fill[value] = d->first + (uint32_t)d->kernel_op_count;
	struct kernel_op *kernel_op = add_kernel_op(d, KERNEL_OP_FILL);
	kernel_op->v = from;
	kernel_op->from = c->body->values[value].type;
	kernel_op->to = to;
	kernel_op->wide = kernel_op->from->dtype == DTYPE_F64;
	kernel_op->out = extra_register(c, from.shift, false);
	return kernel_op->out;
}

static bool is_binary(const struct instr *instr)
{
	return instr->kind <= INSTR_VJP_A && op_table[instr->op].class == OP_CLASS_BINARY;
}

/* Whether the operand of INSTR is one number, read from where it lies. */
static bool is_scalar_operand(const struct compiler *c, const struct instr *instr, const struct type *to)
{
	const struct value *values = c->body->values;
	return is_binary(instr) && instr->a != NO_VALUE && shape_count(&values[instr->a].type->shape) == 1 &&
	       (c->array[instr->a] || values[instr->a].from != FROM_INSTR) && shape_count(&to->shape) != 1;
}

/* The input VALUE of an instruction that walks TO: whole, or broadcast. */
static struct arg input_of(struct compiler *c, uint32_t value, const struct type *to)
{
	return is_broadcast(c, value, to) ? filled(c, value, to) : arg_of(c, value);
}

/*
 * Fills that come before all else: those that are read in a loop, where they
 * would be repeated, and a few more, whose registers then may be filled once for
 * all blocks.
 */
static void fill_first(struct compiler *c, size_t first, size_t end)
{
	int depth = 0;
	for (size_t i = first; i < end; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (!c->live[i])
			continue;
		depth += (instr->kind == INSTR_LOOP) - (instr->kind == INSTR_END);
		if (instr->kind == INSTR_LOOP || instr->kind == INSTR_END ||
		    (depth == 0 && c->draft.kernel_op_count >= MOST_FILLS))
			continue;
		const struct type *to = walked_type(c, instr);
		if (is_broadcast(c, instr->v, to))
			(void)filled(c, instr->v, to);
		if (is_broadcast(c, instr->a, to) && !is_scalar_operand(c, instr, to))
			(void)filled(c, instr->a, to);
	}
	c->draft.fills = (uint32_t)c->draft.kernel_op_count;
}

/* Instructions as kernel_ops. */

static void add_copy(struct compiler *c, struct arg from, struct arg to, bool single)
{
	struct kernel_op *copy = add_kernel_op(&c->draft, KERNEL_OP_COPY);
	copy->v = from;
	copy->out = to;
	copy->wide = to.shift == 3;
	copy->single = single;
}

/* Kernels write their result and all that they can keep, wanted or not. */
static void complete_results(struct compiler *c, struct kernel_op *kernel_op)
{
	if (kernel_op->out.kind == ARG_NONE)
		kernel_op->out = extra_register(c, kernel_op->wide ? 3 : 2, false);
	for (int k = 0; k < MAX_KEEPS; k++)
		if (kernel_op->keep[k].kind == ARG_NONE && op_table[kernel_op->op].keeps[k].kind != KEEP_NOTHING)
			kernel_op->keep[k] =
				extra_register(c, kernel_op->wide ? 3 : 2, op_table[kernel_op->op].keeps[k].kind == KEEP_MASK);
}

/* What is run for INSTR: by a number it may be another operation, and its derivative where that reads nothing more. */
static enum op op_of(const struct instr *instr)
{
	if (instr->a != NO_VALUE || instr->kind == INSTR_VJP_A)
		return instr->op;
	const enum op op = op_by_number(instr->op, instr->scalar);
	const bool reads_more = op_table[op].needs_v & ~op_table[instr->op].needs_v;
	return instr->kind == INSTR_VJP_V && reads_more ? instr->op : op;
}

static void add_kernel(struct compiler *c, const struct instr *instr, const struct type *to)
{
	const bool binary = is_binary(instr), scalar = is_scalar_operand(c, instr, to);
	struct kernel_op made = {
		.kind = KERNEL_OP_FORWARD, .op = op_of(instr), .wide = to->dtype == DTYPE_F64, .scalar_entry = -1};
	made.v = input_of(c, instr->v, to);
	made.a = scalar ? arg_of(c, NO_VALUE) : input_of(c, instr->a, to);
	made.y = arg_of(c, instr->y);
	made.k = arg_of(c, instr->k);
	made.l = arg_of(c, instr->l);
	made.g = arg_of(c, instr->g);
	made.out = arg_of(c, instr->out);
	for (int k = 0; k < MAX_KEEPS; k++)
		made.keep[k] = arg_of(c, instr->out_keep[k]);
	made.single = instr->out != NO_VALUE && c->reads[instr->out] == 1;
	made.form = binary && (scalar || instr->a == NO_VALUE);
	made.scalar = instr->scalar;
	if (made.op != instr->op)
		made.form = 0;
	if (scalar)
		made.scalar_entry = (int32_t)compiler_entry(c, instr->a);
	if (instr->attrs)
		memcpy(made.number, instr->attrs->number, sizeof made.number);
	if (instr->kind == INSTR_ADD) {
		made.kind = KERNEL_OP_ADD;
		made.op = OP_add;
	} else if (instr->kind == INSTR_OP) {
		bool keeps = instr->out_keep[0] != NO_VALUE || instr->out_keep[1] != NO_VALUE;
		made.kind = keeps ? KERNEL_OP_KEEP : KERNEL_OP_FORWARD;
	} else {
		/* A derivative that does not read its operand has one form. */
		bool of_v = instr->kind == INSTR_VJP_V;
		if (!((of_v ? op_table[instr->op].needs_v : op_table[instr->op].needs_a) & NEED_A))
			made.form = 0;
		made.kind = of_v ? KERNEL_OP_VJP_V : KERNEL_OP_VJP_A;
	}
	if (made.kind == KERNEL_OP_KEEP)
		complete_results(c, &made);
	*add_kernel_op(&c->draft, made.kind) = made;
}

static void add_element(struct compiler *c, const struct instr *instr)
{
	const struct type *to = walked_type(c, instr);
	if (instr->kind == INSTR_ZERO) {
		struct arg out = arg_of(c, instr->out);
		struct kernel_op *zero = add_kernel_op(&c->draft, KERNEL_OP_ZERO);
		zero->out = out;
		zero->wide = to->dtype == DTYPE_F64;
	} else if (instr->kind == INSTR_BROADCAST) {
		struct arg from = input_of(c, instr->v, to);
		add_copy(c, from, arg_of(c, instr->out), false);
	} else {
		add_kernel(c, instr, to);
	}
}

static void open_loop(struct compiler *c, const struct instr *loop)
{
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		struct arg init = arg_of(c, carry->init);
		add_copy(c, init, arg_of(c, carry->inner), c->reads[carry->inner] == 1);
	}
	struct kernel_op *begin = add_kernel_op(&c->draft, KERNEL_OP_LOOP);
	begin->iterations = loop->loop.iterations;
}

/* Whether the carry's result is what an earlier one has just been overwritten with the next of. */
static bool is_overwritten(const struct instr *loop, uint32_t k)
{
	for (uint32_t j = 0; j < k; j++)
		if (loop->loop.carries[k].result == loop->loop.carries[j].inner &&
		    loop->loop.carries[j].result != loop->loop.carries[j].inner)
			return true;
	return false;
}

static void close_loop(struct compiler *c, const struct instr *loop, size_t begin)
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
		struct arg from = is_overwritten(loop, k) ? d->kernel_ops[saved++].out : arg_of(c, carry->result);
		/* After the last iteration its register is read as the final, if at all. */
		add_copy(c, from, arg_of(c, carry->inner), c->array[carry->final] || c->reads[carry->final] == 1);
	}
	struct kernel_op *end = add_kernel_op(d, KERNEL_OP_END);
	end->match = (uint32_t)begin;
	end->iterations = loop->loop.iterations;
	d->kernel_ops[begin].match = (uint32_t)d->kernel_op_count - 1;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		if (c->array[carry->final])
			add_copy(c, arg_of(c, carry->inner), arg_of(c, carry->final), false);
	}
}

enum { KERNEL_OP_ARGS = 9 };

static void kernel_op_args(struct kernel_op *m, struct arg *args[KERNEL_OP_ARGS])
{
	struct arg *all[KERNEL_OP_ARGS] = {&m->v, &m->a, &m->y, &m->k, &m->l, &m->g, &m->out, &m->keep[0], &m->keep[1]};
	memcpy(args, all, sizeof all);
}

/* Copies at the ends of loops. */

static bool same_place(const struct arg *a, const struct arg *b)
{
	return a->kind == ARG_REGISTER && b->kind == ARG_REGISTER && a->index == b->index;
}

/* After kernel_ops have moved. */
static void move_matches(struct draft *d)
{
	for (size_t i = 0; i < d->kernel_op_count; i++)
		if (d->kernel_ops[i].kind == KERNEL_OP_LOOP || d->kernel_ops[i].kind == KERNEL_OP_END)
			d->kernel_ops[i].match = d->moved[d->kernel_ops[i].match];
}

static bool touches(struct kernel_op *m, const struct arg *reg)
{
	struct arg *args[KERNEL_OP_ARGS];
	bool touched = false;
	kernel_op_args(m, args);
	for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
		touched |= same_place(args[a], reg);
	return touched;
}

/* Whether REG is what a copy before the loop at BEGIN is put into: carried, and of before it in the order of registers. */
static bool is_carried(const struct draft *d, size_t begin, const struct arg *reg)
{
	while (begin-- > 0 && d->kernel_ops[begin].kind == KERNEL_OP_COPY)
		if (same_place(&d->kernel_ops[begin].out, reg))
			return true;
	return false;
}

/* Whether the copy at AT hands on what the loop at BEGIN carries, to the next iteration, and of what is not carried itself. */
static bool ends_turn(const struct draft *d, size_t begin, size_t at)
{
	const struct kernel_op *copy = &d->kernel_ops[at];
	while (at < d->kernel_op_count && d->kernel_ops[at].kind == KERNEL_OP_COPY)
		at++;
	return d->kernel_ops[at].kind == KERNEL_OP_END && is_carried(d, begin, &copy->out) &&
	       !is_carried(d, begin, &copy->v);
}

/*
 * The kernel_op in the body of the loop at BEGIN that makes what the copy at AT hands to the
 * next iteration, where it may make it in that place: no kernel_op after it has to do with what
 * this iteration was handed. NULL where there is none, or the copy is another.
 */
static struct kernel_op *maker_of_copied(struct draft *d, size_t begin, size_t at)
{
	const struct kernel_op *copy = &d->kernel_ops[at];
	int depth = 0;
	if (!ends_turn(d, begin, at) || copy->v.kind != ARG_REGISTER)
		return NULL;
	for (size_t i = at; --i > begin;) {
		struct kernel_op *m = &d->kernel_ops[i];
		if (m->kind == KERNEL_OP_LOOP || m->kind == KERNEL_OP_END)
			depth += m->kind == KERNEL_OP_END ? 1 : -1;
		else if (same_place(&m->out, &copy->v))
			return depth == 0 ? m : NULL;
		else if (touches(m, &copy->out))
			return NULL;
	}
	return NULL;
}

/* What MADE makes lies where COPY would take it, to the end of the iteration: COPY then copies it to itself. */
static void make_in_place(struct kernel_op *made, struct kernel_op *copy)
{
	const struct arg from = copy->v, to = copy->out;
	made->single &= copy->single;
	for (struct kernel_op *m = made; m <= copy || m->kind == KERNEL_OP_COPY; m++) {
		struct arg *args[KERNEL_OP_ARGS];
		kernel_op_args(m, args);
		for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
			if (same_place(args[a], &from))
				*args[a] = to;
	}
}

/* Leaves out the copies at the ends of loops of what can be made in its place at once. */
static void join_copies(struct draft *d)
{
	size_t open[MAX_LOOPS], count = 0;
	int depth = 0;
	for (size_t i = 0; i < d->kernel_op_count; i++) {
		struct kernel_op *m = &d->kernel_ops[i];
		if (m->kind == KERNEL_OP_LOOP)
			open[depth++] = i;
		else if (m->kind == KERNEL_OP_END)
			depth--;
		struct kernel_op *made = m->kind == KERNEL_OP_COPY && depth > 0 ? maker_of_copied(d, open[depth - 1], i) : NULL;
		if (made)
			make_in_place(made, m);
	}
	for (size_t i = 0; i < d->kernel_op_count; i++) {
		const struct kernel_op *m = &d->kernel_ops[i];
		d->moved[i] = (uint32_t)count;
		if (m->kind != KERNEL_OP_COPY || !same_place(&m->v, &m->out))
			d->kernel_ops[count++] = *m;
	}
	d->kernel_op_count = count;
	move_matches(d);
}

/* Places of registers: a linear scan over the kernel_ops, loops widened. */

static void note_touch(struct draft *d, const struct arg *arg, size_t at, const size_t *open, int depth)
{
	if (arg->kind != ARG_REGISTER)
		return;
	struct draft_register *r = &d->registers[arg->index];
	if (!r->touched)
		r->begin = at;
	r->touched = true;
	r->end = at > r->end ? at : r->end;
	/* What comes from before a loop lives to its end: the outermost such. */
	for (int i = 0; i < depth; i++)
		if (open[i] > r->begin) {
			size_t end = d->kernel_ops[open[i]].match;
			r->end = end > r->end ? end : r->end;
			break;
		}
}

static void find_lives(struct draft *d)
{
	size_t open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = 0; i < d->kernel_op_count; i++) {
		struct arg *args[KERNEL_OP_ARGS];
		kernel_op_args(&d->kernel_ops[i], args);
		if (d->kernel_ops[i].kind == KERNEL_OP_LOOP)
			open[depth++] = i;
		else if (d->kernel_ops[i].kind == KERNEL_OP_END)
			depth--;
		else
			for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
				note_touch(d, args[a], i, open, depth);
	}
	/* Registers that are filled once for all blocks live through the whole group. */
	for (size_t i = 0; i < d->fills; i++)
		if (d->kernel_ops[i].once) {
			d->registers[d->kernel_ops[i].out.index].begin = 0;
			d->registers[d->kernel_ops[i].out.index].end = d->kernel_op_count;
		}
}

/* Whether register INDEX, the result of the kernel_op that it begins at, may lie where OTHER does, which dies there. */
static bool may_replace(const struct draft *d, uint32_t index, uint32_t other)
{
	const struct draft_register *r = &d->registers[index], *o = &d->registers[other];
	const struct arg *out = &d->kernel_ops[r->begin].out;
	bool result = out->kind == ARG_REGISTER && out->index == index;
	return result && o->begin < r->begin && !r->bits && !o->bits && o->shift == r->shift;
}

/* Takes a place out of the list at *HEAD that register INDEX may lie in; NO_VALUE where there is none. */
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
	for (size_t i = 0; i < d->kernel_op_count; i++) {
		struct arg *args[KERNEL_OP_ARGS];
		kernel_op_args(&d->kernel_ops[i], args);
		for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
			if (args[a]->kind == ARG_REGISTER)
				args[a]->index = d->moved[args[a]->index];
	}
}

/* Registers come in the order in which they begin, but for those that are filled once, which have places of their own. */
static void place_registers(struct draft *d)
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

/* Places that only runs used are given back; the number of those that are left. */
static uint32_t compact_registers(struct draft *d)
{
	uint32_t left = 0;
	for (size_t i = 0; i < d->register_count; i++)
		d->moved[i] = NO_VALUE;
	for (size_t i = 0; i < d->kernel_op_count; i++) {
		struct arg *args[KERNEL_OP_ARGS];
		kernel_op_args(&d->kernel_ops[i], args);
		for (size_t a = 0; a < KERNEL_OP_ARGS; a++)
			if (args[a]->kind == ARG_REGISTER && d->moved[args[a]->index] == NO_VALUE)
				d->moved[args[a]->index] = left++;
	}
	rename_registers(d);
	return left;
}

/* Runs: chains of cheap steps, each reading what the last one made and nothing else does. */

static bool is_cheap(const struct kernel_op *m)
{
	bool simple = m->kind == KERNEL_OP_FORWARD && op_runs_in_registers(m->op) && m->scalar_entry < 0 &&
	              (op_table[m->op].class == OP_CLASS_UNARY || m->form == 1);
	return simple || m->kind == KERNEL_OP_COPY;
}

struct run_builder {
	const struct draft *draft;
	struct run_step *steps;
	size_t count;
	const struct kernel_op *last; /* the last step's kernel_op */
	int depth;
};

static bool extends(const struct run_builder *run, const struct kernel_op *m)
{
	const struct kernel_op *last = run->last;
	return is_cheap(m) && (!last || (m->wide == last->wide && same_place(&m->v, &last->out) &&
	                                 (last->single || same_place(&m->out, &m->v))));
}

static size_t extend_run(struct run_builder *run, size_t i, size_t end);

/* Adds the steps from FROM to TO once more. A loop within them closes its own copy. */
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
 * Makes TURNS iterations of the steps from FROM on. To jump back takes as long as two
 * operations, so that a short loop makes some iterations at a time; the iterations that these
 * leave over come after it.
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
	/* extend_run leaves room: it has come past the copy to what the loop carries, which adds no step */
	assert(run->count < RUN_MAX_STEPS);
	if (iterations / copies > 1)
		run->steps[run->count++] =
			(struct run_step){.op = OP_COUNT, .target = (uint32_t)from, .iterations = iterations / copies};
	for (size_t i = 0; i < iterations % copies; i++)
		repeat_steps(run, from, to);
}

/* Adds the loop at I as a whole, or nothing: its iterations pass one value, from its last step to its first. */
static bool add_loop_to_run(struct run_builder *run, size_t i)
{
	const struct kernel_op *loop = &run->draft->kernel_ops[i];
	const struct run_builder before = *run;
	if (run->depth == RUN_MAX_DEPTH || loop->iterations < 1 || !run->last)
		return false;
	run->depth++;
	bool whole = extend_run(run, i + 1, loop->match) == loop->match;
	if (!whole || run->count == before.count || run->last == before.last ||
	    !same_place(&run->last->out, &before.last->out)) {
		*run = before;
		return false;
	}
	add_iterations(run, before.count, (uint64_t)loop->iterations);
	run->depth--;
	return true;
}

/* Adds kernel_ops from I on to RUN as far as they chain; returns the first that does not. */
static size_t extend_run(struct run_builder *run, size_t i, size_t end)
{
	while (i < end && run->count + 2 < RUN_MAX_STEPS) {
		const struct kernel_op *m = &run->draft->kernel_ops[i];
		if (m->kind == KERNEL_OP_LOOP) {
			if (!add_loop_to_run(run, i))
				break;
			i = m->match + 1;
			continue;
		}
		if (!extends(run, m))
			break;
		/* Copies move nothing when everything is in registers. */
		if (m->kind != KERNEL_OP_COPY)
			run->steps[run->count++] =
				(struct run_step){.op = m->op, .scalar = m->scalar, .number = {m->number[0], m->number[1]}};
		run->last = m;
		i++;
	}
	return i;
}

/* False where memory is short. */
static bool make_runs(struct compiler *c)
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
		                         .scalar_entry = -1,
		                         .steps = kept,
		                         .step_count = run.count};
		d->kernel_ops[count] = made;
		for (; i < end; i++)
			d->moved[i] = (uint32_t)count;
		count++;
	}
	d->kernel_op_count = count;
	move_matches(d);
	return true;
}

/* Blocks. */

/* The elements after which the pattern of a fill begins again; 0 where it has no short period. */
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

/* Marks the fills that are the same in every block; the elements that a block must then be a multiple of. */
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
 * As many elements as keep the registers in the first-level cache, the most where a
 * single kernel_op passes nothing on; whole periods of fills where they are short.
 */
static void choose_block(struct launch *launch, int64_t period)
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
	int64_t unit = period > 1 ? period : 512;
	launch->block = block / unit > 0 ? block / unit * unit : unit;
	if (launch->block > launch->count)
		launch->block = round_up(launch->count > 0 ? launch->count : 1, 64);
	launch->register_bytes = round_up(launch->block * width, ARRAY_ALIGN);
}

static void draft_begin(struct draft *d)
{
	/* Names that are given from here on are above all that were given before. */
	d->first += (uint32_t)(d->kernel_op_count > d->register_count ? d->kernel_op_count : d->register_count) + 1;
	d->kernel_op_count = d->register_count = d->extras = d->fills = 0;
}

static void add_kernel_ops(struct compiler *c, size_t first, size_t end)
{
	size_t open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = first; i < end; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (!c->live[i])
			continue;
		if (instr->kind == INSTR_LOOP) {
			open_loop(c, instr);
			open[depth++] = c->draft.kernel_op_count - 1;
		} else if (instr->kind == INSTR_END) {
			close_loop(c, &c->body->instrs[instr->loop.match], open[--depth]);
		} else {
			add_element(c, instr);
		}
	}
}

bool compile_group(struct compiler *c, size_t first, size_t end)
{
	struct draft *d = &c->draft;
	struct launch *launch = compiler_launch(c, LAUNCH_GROUP);
	launch->count = shape_count(group_shape(c, &c->body->instrs[first]));
	draft_begin(d);
	fill_first(c, first, end);
	add_kernel_ops(c, first, end);
	const size_t names = d->kernel_op_count;
	join_copies(d);
	int64_t period = mark_once(d);
	place_registers(d);
	if (!make_runs(c))
		return false;
	launch->registers = compact_registers(d);
	launch->kernel_ops = arena_array(c->arena, d->kernel_op_count + 1, sizeof *launch->kernel_ops);
	if (!launch->kernel_ops)
		return false;
	memcpy(launch->kernel_ops, d->kernel_ops, d->kernel_op_count * sizeof *launch->kernel_ops);
	launch->kernel_op_count = d->kernel_op_count;
	d->kernel_op_count = names;
	choose_block(launch, period);
	int64_t bytes = launch->register_bytes * launch->registers;
	if (bytes > c->register_bytes)
		c->register_bytes = bytes;
	return true;
}
