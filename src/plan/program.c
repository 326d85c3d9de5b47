/*
 * From a body to launches.
 *
 * Element-wise instructions that follow one another on one shape become a group:
 * a list of steps that is run for block after block, with what is passed between
 * them in registers, blocks that stay in the first-level cache. A loop all of
 * whose instructions are such becomes part of the group. Other instructions are
 * launches of their own over whole arrays; a loop around them passes its carried
 * values by exchanging pointers.
 *
 * Places: a value that is made and read in one group is a register; any other is
 * an array, the caller's where it is an in or an out, else in the workspace from
 * its launch to the last that reads it.
 *
 * Invariant: no two arrays or registers that are live at once share a byte; the
 * result of an instruction may take the place of an input that dies with it only
 * in registers.
 */
#include "plan/program.h"

#include <stdio.h>
#include <string.h>

#include "plan/launch.h"
#include "plan/pool.h"

enum { NO_LAUNCH = -1, BLOCK_BYTES = 24 << 10, LEAST_BLOCK = 256, MOST_BLOCK = 4096 };

struct compiler {
	struct program *out;
	const struct body *body;
	const struct chain *chain;
	struct arena *arena;
	struct diags *diags;
	bool failed;
	bool *live;         /* by instruction: its result is wanted */
	int64_t *group;     /* by instruction: its launch */
	int64_t *made_in;   /* by value: the launch that makes it, -1 for ins and params */
	int64_t *last_read; /* by value: the last launch that reads it */
	uint32_t *reads;    /* by value: how often it is read */
	bool *array;        /* by value: it needs a place beyond one group */
	uint32_t *entry;    /* by value */
	uint32_t *same_as;  /* by value: a loop's final goes by its inner inside groups */
	struct frame_plan *frame;
	size_t entry_capacity;
	struct launch *launches;
	size_t launch_count, launch_capacity;
	int64_t scratch;
	int64_t register_bytes;
	/* The group that is being made. */
	struct micro *micros;
	size_t micro_count, micro_capacity;
	uint32_t extras; /* registers that hold no value of the body */
};

static bool is_loop(const struct instr *instr) { return instr->kind == INSTR_LOOP || instr->kind == INSTR_END; }

/* Reads of an instruction, into a list of at most six. */
static size_t reads_of(const struct instr *instr, uint32_t reads[6])
{
	const uint32_t all[6] = {instr->v, instr->a, instr->y, instr->k, instr->l, instr->g};
	size_t count = 0;
	for (int i = 0; i < 6; i++)
		if (all[i] != NO_VALUE)
			reads[count++] = all[i];
	return count;
}

static size_t writes_of(const struct instr *instr, uint32_t writes[4])
{
	const uint32_t all[4] = {instr->out, instr->out_a, instr->out_keep[0], instr->out_keep[1]};
	size_t count = 0;
	for (int i = 0; i < 4; i++)
		if (all[i] != NO_VALUE)
			writes[count++] = all[i];
	return count;
}

/* Dead instructions: nothing that is wanted reads them. Loops are kept whole. */
static void find_live(struct compiler *c, bool *wanted)
{
	const struct body *body = c->body;
	int depth = 0;
	for (size_t i = 0; i < body->out_count; i++)
		wanted[body->outs[i].value] = true;
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *instr = &body->instrs[i];
		uint32_t list[6], made[4];
		depth += instr->kind == INSTR_END;
		bool live = is_loop(instr) || instr->kind == INSTR_ACCUMULATE || depth > 0;
		size_t n = writes_of(instr, made);
		for (size_t k = 0; k < n; k++)
			live |= wanted[made[k]];
		c->live[i] = live;
		n = live ? reads_of(instr, list) : 0;
		for (size_t k = 0; k < n; k++)
			wanted[list[k]] = true;
		if (instr->kind == INSTR_LOOP) {
			depth--;
			for (uint32_t k = 0; k < instr->carry_count; k++)
				wanted[instr->carries[k].init] = wanted[instr->carries[k].result] = true;
		}
	}
}

/* Grouping: which launch each instruction belongs to. */

/* Whether the loop at BEGIN can be run block by block: all element-wise, on one shape, by no counter. */
static bool loop_is_element(const struct compiler *c, size_t begin, const struct shape *shape)
{
	const struct body *body = c->body;
	const struct instr *loop = &body->instrs[begin];
	for (uint32_t k = 0; k < loop->carry_count; k++)
		if (!shape_equal(&body->values[loop->carries[k].inner].type->shape, shape))
			return false;
	for (size_t i = begin; i <= loop->match; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP && i > begin && !loop_is_element(c, i, shape))
			return false;
		if (is_loop(instr))
			continue;
		if (!instr_is_element(instr) || !shape_equal(&body->values[instr->out].type->shape, shape))
			return false;
		uint32_t list[6];
		size_t n = reads_of(instr, list);
		for (size_t r = 0; r < n; r++) {
			const struct value *value = &body->values[list[r]];
			for (uint32_t k = 0; value->from == FROM_PARAM && k < value->param.count; k++)
				if (value->param.index[k].loop >= loop->level)
					return false;
		}
	}
	return true;
}

static const struct type *result_type(const struct body *body, const struct instr *instr)
{
	uint32_t made[4];
	return writes_of(instr, made) ? body->values[made[0]].type : NULL;
}

static const struct shape *group_shape(const struct compiler *c, const struct instr *instr)
{
	if (instr->kind == INSTR_LOOP)
		return instr->carry_count ? &c->body->values[instr->carries[0].inner].type->shape : NULL;
	if (instr->kind == INSTR_VJP_V || instr->kind == INSTR_VJP_A || (instr->kind == INSTR_OP && instr->of_y))
		return &instr->of_y->shape;
	const struct type *type = result_type(c->body, instr);
	return type ? &type->shape : NULL;
}

static void find_groups(struct compiler *c)
{
	const struct body *body = c->body;
	const struct shape *open = NULL; /* of the group that is open */
	int64_t launch = -1;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		const struct shape *shape = group_shape(c, instr);
		if (!c->live[i]) {
			c->group[i] = NO_LAUNCH;
			continue;
		}
		bool block_loop = instr->kind == INSTR_LOOP && shape && loop_is_element(c, i, shape);
		if (instr_is_element(instr) || block_loop) {
			if (!open || !shape_equal(open, shape)) {
				launch++;
				open = shape;
			}
			size_t end = block_loop ? instr->match : i;
			for (; i < end; i++)
				c->group[i] = launch;
			c->group[i] = launch;
			continue;
		}
		c->group[i] = ++launch;
		open = NULL;
	}
}

/* Where values are made and read, in launches; loops at array level stretch what they read. */
static void find_spans(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->value_count; i++) {
		c->made_in[i] = c->last_read[i] = NO_LAUNCH;
		c->entry[i] = c->same_as[i] = NO_VALUE;
	}
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		int64_t at = c->group[i];
		uint32_t list[6], made[4];
		if (!c->live[i])
			continue;
		size_t n = writes_of(instr, made);
		for (size_t k = 0; k < n; k++)
			c->made_in[made[k]] = at;
		n = reads_of(instr, list);
		for (size_t k = 0; k < n; k++) {
			c->reads[list[k]]++;
			if (at > c->last_read[list[k]])
				c->last_read[list[k]] = at;
		}
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->carry_count; k++) {
			const struct carry *carry = &instr->carries[k];
			int64_t end = c->group[instr->match];
			c->made_in[carry->inner] = at;
			c->made_in[carry->final] = end;
			c->reads[carry->init]++;
			c->reads[carry->result]++;
			if (at > c->last_read[carry->init])
				c->last_read[carry->init] = at;
			c->last_read[carry->result] = end;
			if (at == end)
				c->same_as[carry->final] = carry->inner;
		}
	}
	/* What a loop reads from before it lives to the loop's end: from the inner loops out. */
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *loop = &body->instrs[i];
		if (loop->kind != INSTR_LOOP || !c->live[i])
			continue;
		int64_t begin = c->group[i], end = c->group[loop->match];
		for (size_t k = i; k < loop->match; k++) {
			uint32_t list[6];
			size_t n = c->live[k] ? reads_of(&body->instrs[k], list) : 0;
			for (size_t r = 0; r < n; r++)
				if (c->made_in[list[r]] < begin && c->last_read[list[r]] < end)
					c->last_read[list[r]] = end;
		}
	}
	for (size_t i = 0; i < body->out_count; i++)
		c->reads[body->outs[i].value]++;
}

/* Frame entries. */

static uint32_t add_entry(struct compiler *c, struct entry entry)
{
	struct entry *grown = arena_grow(c->arena, c->frame->entries, c->frame->count, &c->entry_capacity, sizeof *grown);
	if (!grown) {
		c->failed = true;
		return 0;
	}
	c->frame->entries = grown;
	grown[c->frame->count] = entry;
	return (uint32_t)c->frame->count++;
}

static bool is_dynamic(const struct compiler *c, const struct param_ref *ref)
{
	for (size_t i = 0; i < c->body->instr_count; i++)
		for (uint32_t k = 0; c->body->instrs[i].kind == INSTR_LOOP && k < ref->count; k++)
			if (ref->index[k].loop == c->body->instrs[i].level)
				return true;
	return false;
}

static uint32_t entry_of(struct compiler *c, uint32_t value)
{
	if (value == NO_VALUE)
		return NO_VALUE;
	if (c->entry[value] == NO_VALUE) {
		const struct value *v = &c->body->values[value];
		struct entry entry = {.kind = ENTRY_WORKSPACE, .type = v->type, .offset = -1};
		if (v->from == FROM_PORT) {
			entry.kind = ENTRY_IN;
			entry.port = v->port;
		} else if (v->from == FROM_PARAM) {
			entry.kind = ENTRY_PARAM;
			entry.param = v->param;
			entry.dynamic = is_dynamic(c, &v->param);
		}
		c->entry[value] = add_entry(c, entry);
	}
	return c->entry[value];
}

static void mark_outs(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->out_count; i++) {
		uint32_t value = body->outs[i].value;
		if (body->values[value].from != FROM_INSTR || c->entry[value] != NO_VALUE)
			continue;
		c->entry[value] =
			add_entry(c, (struct entry){.kind = ENTRY_OUT, .port = (uint32_t)i, .type = body->values[value].type});
		c->array[value] = true;
	}
}

/* Values that are read in another launch than they are made in. */
static void mark_arrays(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t list[6], made[4];
		if (!c->live[i])
			continue;
		bool element = instr_is_element(instr);
		size_t n = reads_of(instr, list);
		for (size_t k = 0; k < n; k++)
			if (!element || c->made_in[list[k]] != c->group[i])
				c->array[list[k]] = true;
		n = writes_of(instr, made);
		for (size_t k = 0; k < n && !element; k++)
			c->array[made[k]] = true;
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->carry_count; k++) {
			const struct carry *carry = &instr->carries[k];
			bool blocks = c->group[i] == c->group[instr->match];
			if (!blocks)
				c->array[carry->init] = c->array[carry->inner] = c->array[carry->result] = c->array[carry->final] =
					true;
			else if (c->made_in[carry->init] != c->group[i])
				c->array[carry->init] = true;
			if (blocks && c->made_in[carry->result] != c->group[i])
				c->array[carry->result] = true;
		}
	}
	/* A final that is an array outside its group is copied there. */
}

/* Groups. */

static struct micro *add_micro(struct compiler *c, enum micro_kind kind)
{
	struct micro *grown = arena_grow(c->arena, c->micros, c->micro_count, &c->micro_capacity, sizeof *grown);
	static struct micro nowhere;
	if (!grown) {
		c->failed = true;
		return &nowhere;
	}
	c->micros = grown;
	struct micro *micro = &grown[c->micro_count++];
	micro->kind = kind;
	micro->scalar_entry = -1;
	return micro;
}

static struct arg arg_of(struct compiler *c, uint32_t value)
{
	if (value == NO_VALUE)
		return (struct arg){.kind = ARG_NONE, .value = NO_VALUE};
	const struct type *type = c->body->values[value].type;
	struct arg arg = {.kind = ARG_REGISTER,
	                  .value = value,
	                  .bits = type->dtype == DTYPE_BITS,
	                  .shift = type->dtype == DTYPE_F64 ? 3 : 2};
	if (c->array[value] || c->body->values[value].from != FROM_INSTR) {
		arg.kind = ARG_ARRAY;
		arg.index = entry_of(c, value);
	}
	return arg;
}

/* A register of its own, named by a number beyond the body's values. */
static struct arg extra_register(struct compiler *c, bool wide)
{
	return (struct arg){
		.kind = ARG_REGISTER, .value = (uint32_t)c->body->value_count + c->extras++, .shift = wide ? 3 : 2};
}

/* A fill of the operand of SHAPE that VALUE is broadcast to; the same register where it has been filled before. */
static struct arg filled(struct compiler *c, uint32_t value, const struct type *to)
{
	for (size_t i = 0; i < c->micro_count; i++)
		if (c->micros[i].kind == MICRO_FILL && c->micros[i].v.value == value)
			return c->micros[i].out;
	struct arg from = arg_of(c, value);
	struct micro *micro = add_micro(c, MICRO_FILL);
	micro->v = from;
	micro->from = c->body->values[value].type;
	micro->to = to;
	micro->wide = micro->from->dtype == DTYPE_F64;
	micro->out = extra_register(c, micro->wide);
	return micro->out;
}

/* The input VALUE of an instruction whose result is shaped as TO: whole, or broadcast. */
static struct arg input_of(struct compiler *c, uint32_t value, const struct type *to)
{
	if (value == NO_VALUE || shape_equal(&c->body->values[value].type->shape, &to->shape))
		return arg_of(c, value);
	return filled(c, value, to);
}

/* Fills come before loops, so that they are not repeated in them. */
static void prefill(struct compiler *c, const struct instr *instr)
{
	const struct type *to = instr->of_y;
	if (!to || instr->kind == INSTR_ADD)
		return;
	const uint32_t wide[] = {instr->v, instr->a};
	for (int i = 0; i < 2; i++) {
		if (wide[i] == NO_VALUE || shape_equal(&c->body->values[wide[i]].type->shape, &to->shape))
			continue;
		bool scalar = i == 1 && shape_count(&c->body->values[wide[i]].type->shape) == 1 &&
		              c->body->values[wide[i]].from != FROM_INSTR;
		if (!scalar && c->body->values[wide[i]].from != FROM_INSTR)
			(void)filled(c, wide[i], to);
	}
}

static void set_numbers(struct micro *micro, const struct instr *instr)
{
	micro->op = instr->op;
	if (instr->attrs)
		memcpy(micro->number, instr->attrs->number, sizeof micro->number);
}

static void add_element(struct compiler *c, const struct instr *instr)
{
	const struct body *body = c->body;
	uint32_t made = instr->out != NO_VALUE           ? instr->out
	                : instr->out_keep[0] != NO_VALUE ? instr->out_keep[0]
	                                                 : instr->out_keep[1];
	const struct type *to =
		instr->of_y && instr->kind != INSTR_ADD && instr->kind != INSTR_ZERO ? instr->of_y : body->values[made].type;
	if (instr->kind == INSTR_ZERO) {
		struct micro *zero = add_micro(c, MICRO_ZERO);
		zero->out = arg_of(c, instr->out);
		zero->wide = to->dtype == DTYPE_F64;
		return;
	}
	if (instr->kind == INSTR_BROADCAST) {
		struct arg from = input_of(c, instr->v, to);
		struct micro *copy = add_micro(c, MICRO_COPY);
		copy->v = from;
		copy->out = arg_of(c, instr->out);
		copy->wide = to->dtype == DTYPE_F64;
		return;
	}
	bool binary = op_table[instr->op].class == OP_CLASS_BINARY && instr->kind != INSTR_ADD;
	bool scalar = binary && instr->a != NO_VALUE && shape_count(&body->values[instr->a].type->shape) == 1 &&
	              c->array[instr->a] | (body->values[instr->a].from != FROM_INSTR) && shape_count(&to->shape) != 1;
	struct arg v = input_of(c, instr->v, to), a = scalar ? (struct arg){.value = NO_VALUE} : input_of(c, instr->a, to);
	struct micro *micro = add_micro(c, MICRO_FORWARD);
	set_numbers(micro, instr);
	micro->wide = to->dtype == DTYPE_F64;
	micro->v = v;
	micro->a = a;
	micro->y = arg_of(c, instr->y);
	micro->k = arg_of(c, instr->k);
	micro->l = arg_of(c, instr->l);
	micro->g = arg_of(c, instr->g);
	micro->out = arg_of(c, instr->out);
	micro->single = instr->out != NO_VALUE && c->reads[instr->out] == 1;
	for (int k = 0; k < MAX_KEEPS; k++)
		micro->keep[k] = arg_of(c, instr->out_keep[k]);
	micro->form = binary && (scalar || instr->a == NO_VALUE);
	micro->scalar = instr->scalar;
	if (scalar)
		micro->scalar_entry = (int32_t)entry_of(c, instr->a);
	/* A derivative that does not read its operand has one form. */
	bool reads_a = instr->kind == INSTR_OP ||
	               (instr->kind == INSTR_VJP_V ? op_table[instr->op].needs_v : op_table[instr->op].needs_a) & NEED_A;
	if (instr->kind != INSTR_OP && !reads_a)
		micro->form = 0;
	if (instr->kind == INSTR_OP && (instr->out_keep[0] != NO_VALUE || instr->out_keep[1] != NO_VALUE))
		micro->kind = MICRO_KEEP;
	else if (instr->kind == INSTR_VJP_V || instr->kind == INSTR_VJP_A)
		micro->kind = instr->kind == INSTR_VJP_V ? MICRO_VJP_V : MICRO_VJP_A;
	else if (instr->kind == INSTR_ADD)
		micro->kind = MICRO_ADD;
	if (micro->kind == MICRO_ADD)
		micro->op = OP_add;
	/* Kernels write their result and all that they can keep, wanted or not. */
	if (micro->kind == MICRO_KEEP && instr->out == NO_VALUE)
		micro->out = extra_register(c, micro->wide);
	for (int k = 0; k < MAX_KEEPS && micro->kind == MICRO_KEEP; k++)
		if (instr->out_keep[k] == NO_VALUE && op_table[instr->op].keeps[k].kind != KEEP_NOTHING)
			micro->keep[k] = extra_register(c, micro->wide);
}

static void add_copy(struct compiler *c, struct arg from, struct arg to, bool single)
{
	struct micro *copy = add_micro(c, MICRO_COPY);
	copy->v = from;
	copy->out = to;
	copy->wide = to.shift == 3;
	copy->single = single;
}

static void add_block_loop(struct compiler *c, const struct instr *loop)
{
	for (uint32_t k = 0; k < loop->carry_count; k++) {
		const struct carry *carry = &loop->carries[k];
		add_copy(c, arg_of(c, carry->init), arg_of(c, carry->inner), c->reads[carry->inner] == 1);
	}
	struct micro *begin = add_micro(c, MICRO_LOOP);
	begin->turns = loop->turns;
}

static void end_block_loop(struct compiler *c, const struct instr *loop, size_t begin)
{
	/* Two copies: a result may be another carry's inner. */
	bool exchanged = false;
	for (uint32_t k = 0; k < loop->carry_count; k++)
		for (uint32_t j = 0; j < k; j++)
			exchanged |= loop->carries[k].result == loop->carries[j].inner;
	for (uint32_t k = 0; k < loop->carry_count; k++) {
		const struct carry *carry = &loop->carries[k];
		if (carry->result == carry->inner)
			continue;
		struct arg to = arg_of(c, carry->inner);
		if (exchanged)
			to = extra_register(c, to.shift == 3);
		add_copy(c, arg_of(c, carry->result), to, false);
	}
	size_t first = c->micro_count - loop->carry_count;
	for (uint32_t k = 0; k < loop->carry_count && exchanged; k++)
		for (size_t m = first; m < first + loop->carry_count; m++)
			if (c->micros[m].v.value == loop->carries[k].result && c->micros[m].kind == MICRO_COPY)
				add_copy(c, c->micros[m].out, arg_of(c, loop->carries[k].inner), false);
	struct micro *end = add_micro(c, MICRO_END);
	end->match = (uint32_t)begin;
	end->turns = loop->turns;
	c->micros[begin].match = (uint32_t)c->micro_count - 1;
	for (uint32_t k = 0; k < loop->carry_count; k++) {
		const struct carry *carry = &loop->carries[k];
		struct arg inner = arg_of(c, carry->inner);
		/* The final is the inner's register, or an array that it is copied to. */
		if (c->array[carry->final])
			add_copy(c, inner, arg_of(c, carry->final), false);
	}
}

/* Registers: the block of each value that never leaves its group. */

struct interval {
	uint32_t value;
	size_t begin, end; /* micros */
	uint32_t place;
};

/* The value whose register VALUE shares. */
static uint32_t web(const struct compiler *c, uint32_t value)
{
	while (value < c->body->value_count && c->same_as[value] != NO_VALUE)
		value = c->same_as[value];
	return value;
}

static size_t args_of(struct micro *m, struct arg *args[9])
{
	struct arg *all[9] = {&m->out, &m->keep[0], &m->keep[1], &m->v, &m->a, &m->y, &m->k, &m->l, &m->g};
	memcpy(args, all, sizeof all);
	return 9;
}

static void place_registers(struct compiler *c, struct launch *launch)
{
	size_t limit = c->body->value_count + c->extras + 1;
	struct interval *webs = arena_array(c->arena, 9 * launch->micro_count + 1, sizeof *webs);
	uint32_t *index = arena_array(c->arena, limit, sizeof *index);
	if (!webs || !index) {
		c->failed = true;
		return;
	}
	size_t count = 0;
	for (size_t m = 0; m < launch->micro_count; m++) {
		struct arg *args[9];
		size_t n = args_of(&launch->micros[m], args);
		for (size_t i = 0; i < n; i++) {
			if (args[i]->kind != ARG_REGISTER)
				continue;
			uint32_t value = web(c, args[i]->value);
			if (!index[value]) {
				webs[count] = (struct interval){value, m, m, 0};
				index[value] = (uint32_t)++count;
			}
			webs[index[value] - 1].end = m;
		}
	}
	/* What a loop touches and did not make inside it lives through the whole of it. */
	for (size_t m = launch->micro_count; m-- > 0;) {
		if (launch->micros[m].kind != MICRO_LOOP)
			continue;
		size_t end = launch->micros[m].match;
		for (size_t w = 0; w < count; w++)
			if (webs[w].begin < m && webs[w].end > m && webs[w].end < end)
				webs[w].end = end;
	}
	/* Registers that fills make once live through the whole group. */
	for (size_t m = 0; m < launch->micro_count; m++)
		if (launch->micros[m].kind == MICRO_FILL && launch->micros[m].once) {
			struct interval *w = &webs[index[web(c, launch->micros[m].out.value)] - 1];
			w->begin = 0;
			w->end = launch->micro_count;
		}
	size_t *free_at = arena_array(c->arena, count + 1, sizeof *free_at);
	if (!free_at) {
		c->failed = true;
		return;
	}
	launch->registers = 0;
	for (int pass = 0; pass < 2; pass++)
		for (size_t w = 0; w < count; w++) {
			bool whole = webs[w].end == launch->micro_count;
			if (whole != (pass == 0))
				continue;
			uint32_t place = 0;
			/* In place: a register that is read for the last time here may be written here. */
			while (place < launch->registers && free_at[place] > webs[w].begin)
				place++;
			if (place == launch->registers)
				launch->registers++;
			free_at[place] = webs[w].end > webs[w].begin ? webs[w].end : webs[w].begin + 1;
			webs[w].place = place;
		}
	for (size_t m = 0; m < launch->micro_count; m++) {
		struct arg *args[9];
		size_t n = args_of(&launch->micros[m], args);
		for (size_t i = 0; i < n; i++)
			if (args[i]->kind == ARG_REGISTER)
				args[i]->index = webs[index[web(c, args[i]->value)] - 1].place;
	}
}

/* Runs: chains of cheap steps, each reading what the last one made and nothing else does. */

static bool is_cheap(const struct micro *m)
{
	bool simple = m->kind == MICRO_FORWARD && op_runs_in_registers(m->op) && m->scalar_entry < 0 &&
	              (op_table[m->op].class == OP_CLASS_UNARY || m->form == 1);
	return simple || m->kind == MICRO_COPY;
}

static bool same_place(const struct arg *a, const struct arg *b)
{
	return a->kind == ARG_REGISTER && b->kind == ARG_REGISTER && a->index == b->index;
}

struct run_builder {
	struct run_step *steps;
	size_t count;
	const struct micro *last; /* the last step's micro */
	bool wide;
	int depth;
};

/* Adds micros from I on to RUN as far as they chain; returns the first that does not. */
static size_t extend_run(const struct launch *launch, size_t i, size_t end, struct run_builder *run, bool *whole)
{
	*whole = true;
	while (i < end) {
		const struct micro *m = &launch->micros[i];
		if (run->count + 2 >= RUN_MAX_STEPS)
			break;
		if (m->kind == MICRO_LOOP) {
			struct run_builder before = *run;
			uint32_t target = (uint32_t)run->count;
			bool inside;
			if (++run->depth > RUN_MAX_DEPTH || m->turns < 1 || !run->last || m->match == i + 1) {
				*run = before;
				break;
			}
			size_t stop = extend_run(launch, i + 1, m->match, run, &inside);
			if (!inside || stop != m->match || run->count == target) {
				*run = before;
				break;
			}
			run->steps[run->count++] = (struct run_step){.op = OP_COUNT, .target = target, .turns = (uint64_t)m->turns};
			run->depth--;
			i = m->match + 1;
			continue;
		}
		if (!is_cheap(m) || (run->last && (m->wide != run->wide || !same_place(&m->v, &run->last->out) ||
		                                   !(run->last->single || same_place(&m->out, &m->v)))))
			break;
		/* Copies move nothing when everything is in registers. */
		if (m->kind != MICRO_COPY)
			run->steps[run->count++] =
				(struct run_step){.op = m->op, .scalar = m->scalar, .number = {m->number[0], m->number[1]}};
		run->wide = m->wide;
		run->last = m;
		i++;
	}
	*whole = i == end;
	return i;
}

static void make_runs(struct compiler *c, struct launch *launch)
{
	struct micro *out = arena_array(c->arena, launch->micro_count + 1, sizeof *out);
	uint32_t *moved = arena_array(c->arena, launch->micro_count + 1, sizeof *moved);
	struct run_step *steps = arena_array(c->arena, RUN_MAX_STEPS + 1, sizeof *steps);
	if (!out || !moved || !steps) {
		c->failed = true;
		return;
	}
	size_t count = 0;
	for (size_t i = 0; i < launch->micro_count;) {
		struct run_builder run = {.steps = steps};
		bool whole;
		size_t end = is_cheap(&launch->micros[i]) ? extend_run(launch, i, launch->micro_count, &run, &whole) : i;
		if (run.count < 2) {
			moved[i] = (uint32_t)count;
			out[count++] = launch->micros[i++];
			continue;
		}
		struct micro *made = &out[count];
		*made = (struct micro){.kind = MICRO_RUN,
		                       .wide = run.wide,
		                       .v = launch->micros[i].v,
		                       .out = run.last->out,
		                       .scalar_entry = -1,
		                       .step_count = run.count};
		struct run_step *kept = arena_array(c->arena, run.count, sizeof *kept);
		if (!kept) {
			c->failed = true;
			return;
		}
		memcpy(kept, steps, run.count * sizeof *kept);
		made->steps = kept;
		for (size_t k = i; k < end; k++)
			moved[k] = (uint32_t)count;
		count++;
		i = end;
	}
	for (size_t i = 0; i < count; i++)
		if (out[i].kind == MICRO_LOOP || out[i].kind == MICRO_END)
			out[i].match = moved[out[i].match];
	launch->micros = out;
	launch->micro_count = count;
}

/* The block: as many elements as keep the registers in the first-level cache; whole periods of fills where they are short. */
static void choose_block(struct launch *launch)
{
	int64_t width = 4, period = 1, arrays = 1;
	for (size_t i = 0; i < launch->micro_count; i++) {
		struct micro *m = &launch->micros[i];
		width = m->wide ? 8 : width;
		arrays += m->out.kind == ARG_ARRAY && m->out.value != NO_VALUE;
		arrays += m->kind == MICRO_FILL;
		if (m->kind != MICRO_FILL || m->to->shape.ndim < 1)
			continue;
		/* The elements after which a trailing pattern begins again. */
		int64_t p = 1;
		bool trailing = true;
		for (int d = 0; d < m->from->shape.ndim; d++) {
			int64_t extent = m->from->shape.dim[m->from->shape.ndim - 1 - d];
			trailing &= extent == m->to->shape.dim[m->to->shape.ndim - 1 - d] || d + 1 > m->from->shape.ndim;
			p *= extent;
		}
		m->once = trailing && p % 8 == 0 && p <= MOST_BLOCK && (period % p == 0 || p % period == 0);
		if (m->once && p > period)
			period = p;
	}
	int64_t block = BLOCK_BYTES / (width * (launch->registers + (arrays > 4 ? 4 : arrays)));
	block = block < LEAST_BLOCK ? LEAST_BLOCK : block > MOST_BLOCK ? MOST_BLOCK : block;
	int64_t unit = period > 1 ? period : 512;
	if (period > 1)
		while (unit % 8)
			unit *= 2;
	launch->block = block / unit > 0 ? block / unit * unit : unit;
	if (launch->block > launch->count && launch->count > 0)
		launch->block = (launch->count + 63) / 64 * 64;
	launch->register_bytes = (launch->block * width + 63) / 64 * 64;
}

static struct launch *add_launch(struct compiler *c, enum launch_kind kind)
{
	static struct launch nowhere;
	struct launch *grown = arena_grow(c->arena, c->launches, c->launch_count, &c->launch_capacity, sizeof *grown);
	if (!grown) {
		c->failed = true;
		return &nowhere;
	}
	c->launches = grown;
	struct launch *launch = &grown[c->launch_count++];
	launch->kind = kind;
	launch->out = launch->out_a = launch->g = NO_VALUE;
	for (int i = 0; i < MAX_KEEPS; i++)
		launch->keep[i] = NO_VALUE;
	for (int i = 0; i < MAX_NEEDS; i++)
		launch->needs[i] = NO_VALUE;
	return launch;
}

/* Instructions FIRST .. END-1 as one group. */
static void compile_group(struct compiler *c, size_t first, size_t end)
{
	enum { DEEPEST = 256 };
	size_t open[DEEPEST];
	int depth = 0;
	c->micros = NULL;
	c->micro_count = c->micro_capacity = 0;
	c->extras = 0;
	const struct shape *shape = group_shape(c, &c->body->instrs[first]);
	for (size_t i = first; i < end; i++)
		if (c->live[i] && !is_loop(&c->body->instrs[i]))
			prefill(c, &c->body->instrs[i]);
	for (size_t i = first; i < end && !c->failed; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (!c->live[i])
			continue;
		if (instr->kind == INSTR_LOOP) {
			add_block_loop(c, instr);
			open[depth++] = c->micro_count - 1;
		} else if (instr->kind == INSTR_END) {
			end_block_loop(c, &c->body->instrs[instr->match], open[--depth]);
		} else {
			add_element(c, instr);
		}
	}
	struct launch *launch = add_launch(c, LAUNCH_GROUP);
	launch->micros = c->micros;
	launch->micro_count = c->micro_count;
	launch->count = shape_count(shape);
	if (c->failed)
		return;
	choose_block(launch);
	place_registers(c, launch);
	make_runs(c, launch);
	choose_block(launch);
	int64_t bytes = launch->register_bytes * launch->registers;
	if (bytes > c->register_bytes)
		c->register_bytes = bytes;
}

static void note_scratch(struct compiler *c, int64_t bytes)
{
	if (bytes > c->scratch)
		c->scratch = bytes;
}

static void compile_call(struct compiler *c, const struct instr *instr)
{
	struct launch *launch = add_launch(c, LAUNCH_CALL);
	const struct body *body = c->body;
	const uint32_t needs[MAX_NEEDS] = {instr->v, instr->a, instr->y, instr->k, instr->l};
	launch->instr = instr;
	for (int i = 0; i < MAX_NEEDS; i++) {
		uint32_t entry = entry_of(c, needs[i]);
		launch->needs[i] = entry;
	}
	launch->out = entry_of(c, instr->out);
	launch->out_a = entry_of(c, instr->out_a);
	launch->g = entry_of(c, instr->g);
	for (int k = 0; k < MAX_KEEPS; k++)
		launch->keep[k] = entry_of(c, instr->out_keep[k]);
	uint32_t seen = instr->kind == INSTR_OP ? instr->v : instr->out != NO_VALUE ? instr->out : instr->g;
	launch->v_streamed = seen != NO_VALUE && body->values[seen].streamed;
	if (instr->kind == INSTR_VJP)
		launch->v_streamed = instr->out != NO_VALUE
		                         ? body->values[instr->out].streamed
		                         : (instr->g != NO_VALUE && body->values[instr->g].streamed) || instr->a_streamed;
	if (instr->kind == INSTR_SUM_TO) {
		launch->kind = LAUNCH_SUM_TO;
		note_scratch(c, type_bytes(body->values[instr->v].type));
		return;
	}
	if (instr->kind == INSTR_ACCUMULATE) {
		launch->kind = LAUNCH_ACCUMULATE;
		return;
	}
	note_scratch(c,
	             op_scratch(instr->op, instr->attrs, instr->of_v, instr->of_a, instr->of_y, instr->kind == INSTR_VJP));
	c->out->uses_gemm |= instr->op == OP_matmul || instr->op == OP_linear || instr->op == OP_dot ||
	                     instr->op == OP_conv1d || instr->op == OP_conv2d;
}

/* A loop over whole arrays. */

static void compile_loop(struct compiler *c, const struct instr *loop)
{
	struct launch *launch = add_launch(c, LAUNCH_LOOP);
	struct carried *carried = arena_array(c->arena, loop->carry_count + 1, sizeof *carried);
	if (!carried) {
		c->failed = true;
		return;
	}
	launch->turns = loop->turns;
	launch->level = loop->level;
	launch->instr = loop;
	for (uint32_t k = 0; k < loop->carry_count; k++) {
		const struct carry *carry = &loop->carries[k];
		struct carried *to = &carried[k];
		to->init = entry_of(c, carry->init);
		to->inner = entry_of(c, carry->inner);
		to->result = entry_of(c, carry->result);
		to->final = entry_of(c, carry->final);
		c->frame->entries[to->inner].kind = ENTRY_CARRIED;
		to->bytes = type_bytes(c->body->values[carry->inner].type);
		to->copy_out = c->frame->entries[to->final].kind == ENTRY_OUT;
		if (!to->copy_out)
			c->frame->entries[to->final].kind = ENTRY_CARRIED;
		/* Written in place where it is an array of this loop's own, made for this carry alone. */
		struct entry *result = &c->frame->entries[to->result];
		bool own = result->kind == ENTRY_WORKSPACE && c->made_in[carry->result] > c->group[loop - c->body->instrs];
		for (uint32_t j = 0; j < loop->carry_count; j++)
			own &= j == k || loop->carries[j].result != carry->result;
		to->written = own;
		if (own)
			result->kind = ENTRY_CARRIED;
	}
	launch = &c->launches[c->launch_count - 1];
	launch->carried = carried;
	launch->carried_count = loop->carry_count;
}

static void end_loop(struct compiler *c, const struct instr *end)
{
	size_t begin = c->launch_count;
	int depth = 0;
	while (begin-- > 0) {
		depth += c->launches[begin].kind == LAUNCH_END;
		if (c->launches[begin].kind == LAUNCH_LOOP && depth-- == 0)
			break;
	}
	struct launch *launch = add_launch(c, LAUNCH_END);
	if (c->failed)
		return;
	struct launch *loop = &c->launches[begin];
	launch->match = begin;
	launch->instr = end;
	loop->match = c->launch_count - 1;
	launch->carried = loop->carried;
	launch->carried_count = loop->carried_count;
}

static void compile_launches(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->instr_count && !c->failed; i++) {
		const struct instr *instr = &body->instrs[i];
		if (!c->live[i])
			continue;
		size_t end = i + 1;
		bool element = instr_is_element(instr) || (instr->kind == INSTR_LOOP && c->group[i] == c->group[instr->match]);
		if (element) {
			while (end < body->instr_count && (!c->live[end] || c->group[end] == c->group[i]))
				end++;
			compile_group(c, i, end);
			i = end - 1;
		} else if (instr->kind == INSTR_LOOP) {
			compile_loop(c, instr);
		} else if (instr->kind == INSTR_END) {
			end_loop(c, instr);
		} else {
			compile_call(c, instr);
		}
	}
	/* One value for several outs: copied. */
	for (size_t i = 0; i < body->out_count && !c->failed; i++) {
		uint32_t entry = c->entry[body->outs[i].value];
		if (body->values[body->outs[i].value].from != FROM_INSTR || entry == NO_VALUE ||
		    c->frame->entries[entry].port == i)
			continue;
		uint32_t to = add_entry(
			c, (struct entry){.kind = ENTRY_OUT, .port = (uint32_t)i, .type = body->values[body->outs[i].value].type});
		struct launch *copy = add_launch(c, LAUNCH_COPY);
		copy->needs[0] = entry;
		copy->out = to;
	}
	if (c->launch_count)
		c->launches[c->launch_count - 1].last = true;
}

/* Params by loop counters: whose pointers each loop moves. */
static void find_dynamic(struct compiler *c)
{
	for (size_t i = 0; i < c->launch_count; i++) {
		struct launch *loop = &c->launches[i];
		if (loop->kind != LAUNCH_LOOP)
			continue;
		loop->dynamic = arena_array(c->arena, c->frame->count + 1, sizeof *loop->dynamic);
		for (size_t e = 0; loop->dynamic && e < c->frame->count; e++)
			if (c->frame->entries[e].kind == ENTRY_PARAM && c->frame->entries[e].dynamic)
				loop->dynamic[loop->dynamic_count++] = (uint32_t)e;
		c->failed |= !loop->dynamic;
	}
}

/* Places in the workspace, launch by launch. */
static void place_arrays(struct compiler *c, int64_t begin)
{
	struct pool pool;
	const struct body *body = c->body;
	pool_init(&pool, c->arena->allocator);
	int64_t launches = 0;
	for (size_t i = 0; i < body->instr_count; i++)
		if (c->group[i] >= launches)
			launches = c->group[i] + 1;
	/* Values by the launch that makes them, and by the last that reads them. */
	uint32_t *made = arena_array(c->arena, (size_t)launches + 2, sizeof *made);
	uint32_t *dies = arena_array(c->arena, (size_t)launches + 2, sizeof *dies);
	uint32_t *next_made = arena_array(c->arena, body->value_count + 1, sizeof *next_made);
	uint32_t *next_dies = arena_array(c->arena, body->value_count + 1, sizeof *next_dies);
	if (!made || !dies || !next_made || !next_dies) {
		c->failed = true;
		return;
	}
	for (size_t i = body->value_count; i-- > 0;) {
		uint32_t entry = c->entry[i];
		if (entry == NO_VALUE || c->frame->entries[entry].kind != ENTRY_WORKSPACE || c->made_in[i] < 0)
			continue;
		int64_t death = c->last_read[i] > c->made_in[i] ? c->last_read[i] : c->made_in[i];
		next_made[i] = made[c->made_in[i]];
		made[c->made_in[i]] = (uint32_t)i + 1;
		next_dies[i] = dies[death];
		dies[death] = (uint32_t)i + 1;
	}
	for (int64_t l = 0; l < launches && !c->failed; l++) {
		for (uint32_t v = made[l]; v; v = next_made[v - 1])
			c->frame->entries[c->entry[v - 1]].offset = begin + pool_get(&pool, type_bytes(body->values[v - 1].type));
		for (uint32_t v = dies[l]; v; v = next_dies[v - 1])
			c->failed |= !pool_put(&pool, c->frame->entries[c->entry[v - 1]].offset - begin,
			                       type_bytes(body->values[v - 1].type));
	}
	/* Carried values have their two places for themselves. */
	int64_t top = begin + pool.peak;
	for (size_t i = 0; i < c->launch_count; i++)
		for (size_t k = 0; c->launches[i].kind == LAUNCH_LOOP && k < c->launches[i].carried_count; k++)
			for (int side = 0; side < 2; side++) {
				c->launches[i].carried[k].offset[side] = top;
				top += (c->launches[i].carried[k].bytes + 63) / 64 * 64;
			}
	c->out->workspace = top;
	pool_free(&pool);
}

static void add_costs(struct compiler *c)
{
	for (size_t i = 0; i < c->body->instr_count; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (!c->live[i] || instr->kind > INSTR_VJP)
			continue;
		double cost = op_cost(instr->op, instr->attrs, instr->of_v, instr->of_a, instr->of_y);
		c->out->cost +=
			instr->kind == INSTR_VJP && instr->out != NO_VALUE && instr->out_a != NO_VALUE ? 2 * cost : cost;
	}
}

enum status program_compile(struct program *program, const struct body *body, const struct chain *chain,
                            struct arena *arena, struct diags *diags)
{
	*program = (struct program){.body = body};
	size_t values = body->value_count + 1, instrs = body->instr_count + 1;
	struct compiler c = {.out = program, .body = body, .chain = chain, .arena = arena, .diags = diags};
	bool *wanted = arena_array(arena, values, sizeof *wanted);
	c.live = arena_array(arena, instrs, sizeof *c.live);
	c.group = arena_array(arena, instrs, sizeof *c.group);
	c.made_in = arena_array(arena, values, sizeof *c.made_in);
	c.last_read = arena_array(arena, values, sizeof *c.last_read);
	c.reads = arena_array(arena, values, sizeof *c.reads);
	c.array = arena_array(arena, values, sizeof *c.array);
	c.entry = arena_array(arena, values, sizeof *c.entry);
	c.same_as = arena_array(arena, values, sizeof *c.same_as);
	c.frame = arena_alloc(arena, sizeof *c.frame);
	if (!wanted || !c.live || !c.group || !c.made_in || !c.last_read || !c.reads || !c.array || !c.entry ||
	    !c.same_as || !c.frame)
		return diag_memory(diags);
	find_live(&c, wanted);
	find_groups(&c);
	find_spans(&c);
	mark_outs(&c);
	mark_arrays(&c);
	compile_launches(&c);
	find_dynamic(&c);
	if (!c.failed) {
		int64_t frame = ((int64_t)(c.frame->count * sizeof(void *)) + 63) / 64 * 64;
		c.frame->scratch = frame;
		c.frame->registers = frame + (c.scratch + 63) / 64 * 64;
		place_arrays(&c, c.frame->registers + c.register_bytes);
		add_costs(&c);
	}
	program->launches = c.launches;
	program->launch_count = c.launch_count;
	program->frame = c.frame;
	return c.failed || arena->failed ? diag_memory(diags) : STATUS_OK;
}

void program_dump(const struct program *program, diag_write *write, void *context)
{
	static const char *const kinds[] = {"group", "call", "sum_to", "accumulate", "copy", "loop", "end"};
	static const char *const micros[] = {"forward", "keep", "vjp_v", "vjp_a", "add", "zero",
	                                     "copy",    "fill", "run",   "loop",  "end"};
	char line[256];
	for (size_t i = 0; i < program->launch_count; i++) {
		const struct launch *l = &program->launches[i];
		int n = snprintf(line, sizeof line, "  %s %s", kinds[l->kind],
		                 l->kind == LAUNCH_CALL ? op_table[l->instr->op].name : "");
		if (l->kind == LAUNCH_GROUP)
			n += snprintf(line + n, sizeof line - (size_t)n, "%lld elements, blocks of %lld, %u registers",
			              (long long)l->count, (long long)l->block, l->registers);
		write(context, line, (size_t)n);
		write(context, "\n", 1);
		for (size_t k = 0; l->kind == LAUNCH_GROUP && k < l->micro_count; k++) {
			const struct micro *m = &l->micros[k];
			n = snprintf(line, sizeof line, "    %s %s", micros[m->kind],
			             m->kind < MICRO_ADD ? op_table[m->op].name : "");
			if (m->kind == MICRO_RUN)
				n += snprintf(line + n, sizeof line - (size_t)n, "%zu steps", m->step_count);
			write(context, line, (size_t)n);
			write(context, "\n", 1);
		}
	}
	int n = snprintf(line, sizeof line, "  workspace %lld bytes\n", (long long)program->workspace);
	write(context, line, (size_t)n);
}
