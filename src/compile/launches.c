/*
 * Launches: each group, call and loop over whole arrays, and the frame entries of the arrays
 * that it reads and writes.
 *
 * A value that is made and read in one group is a register. Every other value is an array:
 * the caller's if it is an in or an out, else a part of the workspace. A loop over whole
 * arrays passes its carried values by exchanging pointers.
 */

#include "compile/compiler.h"

/* Frame entries. */

static uint32_t add_entry(struct compiler *c, struct entry entry)
{
	c->frame->entries[c->frame->count] = entry;
	return (uint32_t)c->frame->count++;
}

/* True if a loop of this program moves the param. The counters of loops around the program stand still. */
static bool is_dynamic(const struct compiler *c, const struct param_ref *ref)
{
	for (uint32_t k = 0; k < ref->count; k++)
		if (ref->index[k].loop >= 0 && c->counter_level[ref->index[k].loop])
			return true;
	return false;
}

uint32_t compiler_entry(struct compiler *c, uint32_t value)
{
	if (value == NO_VALUE)
		return NO_VALUE;
	if (c->values[value].entry == NO_VALUE) {
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
		c->values[value].entry = add_entry(c, entry);
	}
	return c->values[value].entry;
}

static void mark_outs(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->out_count; i++) {
		uint32_t value = body->outs[i].value;
		if (body->values[value].from != FROM_INSTR || c->values[value].entry != NO_VALUE)
			continue;
		c->values[value].entry =
			add_entry(c, (struct entry){.kind = ENTRY_OUT, .port = (uint32_t)i, .type = body->values[value].type});
		c->values[value].array = true;
	}
}

/* Marks the values that need an array: they are read or made outside of a group, or read in another launch. */
static void mark_arrays(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t list[6], made[4];
		if (!c->instrs[i].live)
			continue;
		bool element = instr_is_element(instr);
		size_t n = instr_reads(instr, list);
		for (size_t k = 0; k < n; k++)
			if (!element || c->values[list[k]].made_in != c->instrs[i].launch)
				c->values[list[k]].array = true;
		n = instr_writes(instr, made);
		for (size_t k = 0; k < n && !element; k++)
			c->values[made[k]].array = true;
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->loop.carry_count; k++) {
			const struct carry *carry = &instr->loop.carries[k];
			if (!c->instrs[i].block_loop)
				c->values[carry->inner].array = c->values[carry->final].array = true;
			if (!c->instrs[i].block_loop || c->values[carry->init].made_in != c->instrs[i].launch)
				c->values[carry->init].array = true;
			if (!c->instrs[i].block_loop || c->values[carry->result].made_in != c->instrs[i].launch)
				c->values[carry->result].array = true;
		}
	}
}

/* Launches. */

struct launch *compiler_launch(struct compiler *c, enum launch_kind kind)
{
	struct launch *launch = &c->launches[c->launch_count++];
	launch->kind = kind;
	launch->out = launch->out_a = launch->g = NO_VALUE;
	for (int i = 0; i < MAX_KEEPS; i++)
		launch->keep[i] = NO_VALUE;
	for (int i = 0; i < MAX_NEEDS; i++)
		launch->needs[i] = NO_VALUE;
	return launch;
}

static void note_scratch(struct compiler *c, int64_t bytes)
{
	if (bytes > c->scratch)
		c->scratch = bytes;
}

static void compile_call(struct compiler *c, const struct instr *instr)
{
	struct launch *launch = compiler_launch(c, LAUNCH_CALL);
	const struct body *body = c->body;
	const uint32_t needs[MAX_NEEDS] = {instr->v, instr->a, instr->y, instr->k, instr->l};
	launch->instr = instr;
	for (int i = 0; i < MAX_NEEDS; i++) {
		uint32_t entry = compiler_entry(c, needs[i]);
		launch->needs[i] = entry;
	}
	launch->out = compiler_entry(c, instr->out);
	launch->out_a = compiler_entry(c, instr->out_a);
	launch->g = compiler_entry(c, instr->g);
	for (int k = 0; k < MAX_KEEPS; k++)
		launch->keep[k] = compiler_entry(c, instr->out_keep[k]);
	uint32_t seen = instr->kind == INSTR_OP ? instr->v : instr->out != NO_VALUE ? instr->out : instr->g;
	launch->v_streamed = seen != NO_VALUE && body->values[seen].streamed;
	launch->folds = instr->kind == INSTR_OP && op_folds(instr->op) && launch->v_streamed && instr->out != NO_VALUE &&
	                !body->values[instr->out].streamed;
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
	const bool back = instr->kind == INSTR_VJP;
	note_scratch(c, op_scratch(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y, back));
	int64_t team = op_team_scratch(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y, back);
	c->team_scratch = team > c->team_scratch ? team : c->team_scratch;
	c->out->uses_gemm |= op_is_product(instr->op);
}

/* True if the result of carry K is an array of the loop's own and of this carry alone: the iteration writes it where the next reads it. */
static bool is_written(const struct compiler *c, const struct instr *loop, uint32_t k)
{
	uint32_t result = loop->loop.carries[k].result;
	bool own = c->frame->entries[c->values[result].entry].kind == ENTRY_WORKSPACE && !c->values[result].array_final &&
	           c->values[result].made_in > c->instrs[loop - c->body->instrs].launch;
	for (uint32_t j = 0; j < loop->loop.carry_count; j++)
		own &= j == k || loop->loop.carries[j].result != result;
	return own;
}

static bool compile_loop(struct compiler *c, const struct instr *loop)
{
	struct launch *launch = compiler_launch(c, LAUNCH_LOOP);
	launch->iterations = loop->loop.iterations;
	launch->level = loop->level;
	launch->instr = loop;
	launch->carried_count = loop->loop.carry_count;
	launch->carried = arena_array(c->arena, (size_t)loop->loop.carry_count + 1, sizeof *launch->carried);
	if (!launch->carried)
		return false;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		struct carried *to = &launch->carried[k];
		to->init = compiler_entry(c, carry->init);
		to->inner = compiler_entry(c, carry->inner);
		to->result = compiler_entry(c, carry->result);
		to->final = compiler_entry(c, carry->final);
		c->frame->entries[to->inner].kind = ENTRY_CARRIED;
		to->bytes = type_bytes(c->body->values[carry->inner].type);
		to->copy_out = c->frame->entries[to->final].kind == ENTRY_OUT;
		if (!to->copy_out)
			c->frame->entries[to->final].kind = ENTRY_CARRIED;
	}
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		struct carried *to = &launch->carried[k];
		to->written = is_written(c, loop, k);
		if (to->written)
			c->frame->entries[to->result].kind = ENTRY_CARRIED;
	}
	return true;
}

static void end_loop(struct compiler *c, const struct instr *end, size_t begin)
{
	struct launch *launch = compiler_launch(c, LAUNCH_END), *loop = &c->launches[begin];
	launch->match = begin;
	launch->instr = end;
	loop->match = c->launch_count - 1;
	launch->carried = loop->carried;
	launch->carried_count = loop->carried_count;
}

/* A value that is several outs is copied to all but the first. */
static void copy_outs(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->out_count; i++) {
		const struct value *value = &body->values[body->outs[i].value];
		uint32_t entry = c->values[body->outs[i].value].entry;
		if (value->from != FROM_INSTR || c->frame->entries[entry].port == i)
			continue;
		struct launch *copy = compiler_launch(c, LAUNCH_COPY);
		copy->needs[0] = entry;
		copy->out = add_entry(c, (struct entry){.kind = ENTRY_OUT, .port = (uint32_t)i, .type = value->type});
	}
}

static bool add_launches(struct compiler *c)
{
	const struct body *body = c->body;
	size_t open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = 0, end; i < body->instr_count; i = end) {
		const struct instr *instr = &body->instrs[i];
		end = i + 1;
		if (!c->instrs[i].live)
			continue;
		if (instr_is_element(instr) || c->instrs[i].block_loop) {
			while (end < body->instr_count && (!c->instrs[end].live || c->instrs[end].launch == c->instrs[i].launch))
				end++;
			if (!compile_group(c, i, end))
				return false;
		} else if (instr->kind == INSTR_LOOP) {
			open[depth++] = c->launch_count;
			if (!compile_loop(c, instr))
				return false;
		} else if (instr->kind == INSTR_END) {
			end_loop(c, instr, open[--depth]);
		} else {
			compile_call(c, instr);
		}
	}
	copy_outs(c);
	return true;
}

/* Params that are indexed by loop counters: each loop moves the pointers that are read within it. */

struct dynamic_finder {
	const struct frame_plan *frame;
	size_t *seen; /* by entry: the last loop that has it, plus 1 */
	size_t loop;
	struct launch *launch;
	size_t capacity;
	struct arena *arena;
};

static bool note_entry(struct dynamic_finder *f, uint32_t entry)
{
	if (entry == NO_VALUE || !f->frame->entries[entry].dynamic || f->seen[entry] == f->loop + 1)
		return true;
	struct launch *l = f->launch;
	uint32_t *grown = arena_grow(f->arena, l->dynamic, l->dynamic_count, &f->capacity, sizeof *grown);
	if (!grown)
		return false;
	f->seen[entry] = f->loop + 1;
	l->dynamic = grown;
	l->dynamic[l->dynamic_count++] = entry;
	return true;
}

static bool note_launch(struct dynamic_finder *f, const struct launch *launch)
{
	bool good = true;
	for (int i = 0; i < MAX_NEEDS; i++)
		good &= note_entry(f, launch->needs[i]);
	good &= note_entry(f, launch->g);
	for (size_t i = 0; i < launch->carried_count; i++)
		good &= note_entry(f, launch->carried[i].init) && note_entry(f, launch->carried[i].result);
	for (size_t i = 0; i < launch->kernel_op_count; i++) {
		struct kernel_op *m = &launch->kernel_ops[i];
		struct arg *args[KERNEL_OP_ARGS];
		kernel_op_args(m, args);
		for (size_t a = 0; a < KERNEL_OP_READS; a++)
			good &= args[a]->kind != ARG_ARRAY || note_entry(f, args[a]->index);
		good &= m->scalar_entry < 0 || note_entry(f, (uint32_t)m->scalar_entry);
	}
	return good;
}

static bool find_dynamic(struct compiler *c)
{
	struct dynamic_finder f = {.frame = c->frame, .arena = c->arena};
	f.seen = arena_array(&c->scratch_arena, c->frame->count + 1, sizeof *f.seen);
	if (!f.seen)
		return false;
	for (f.loop = 0; f.loop < c->launch_count; f.loop++) {
		f.launch = &c->launches[f.loop];
		f.capacity = 0;
		for (size_t i = f.loop + 1; f.launch->kind == LAUNCH_LOOP && i <= f.launch->match; i++)
			if (!note_launch(&f, &c->launches[i]))
				return false;
	}
	return true;
}

bool compile_launches(struct compiler *c)
{
	mark_outs(c);
	mark_arrays(c);
	return add_launches(c) && find_dynamic(c);
}
