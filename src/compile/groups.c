/*
 * Groups: which instructions share a launch, and where values are made and read in terms
 * of launches.
 *
 * Element-wise instructions that follow one another on one shape are one group. A loop is a
 * part of a group if all its instructions are element-wise on one shape and none depends on
 * its counter (a block loop). Every other instruction is a launch of its own over whole
 * arrays.
 *
 * Invariant: a value that a loop reads, and that was made before the loop, is live to the
 * loop's end.
 */

#include "compile/compiler.h"

static bool is_loop(const struct instr *instr) { return instr->kind == INSTR_LOOP || instr->kind == INSTR_END; }

/* Finds the instructions that an out, a gradient or another live instruction needs. Loops are kept whole. */
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
		size_t n = instr_writes(instr, made);
		for (size_t k = 0; k < n; k++)
			live |= wanted[made[k]];
		c->instrs[i].live = live;
		n = live ? instr_reads(instr, list) : 0;
		for (size_t k = 0; k < n; k++)
			wanted[list[k]] = true;
		if (instr->kind == INSTR_LOOP) {
			depth--;
			c->counter_level[instr->level] = true;
			for (uint32_t k = 0; k < instr->loop.carry_count; k++)
				wanted[instr->loop.carries[k].init] = wanted[instr->loop.carries[k].result] = true;
		}
	}
}

const struct shape *group_shape(const struct compiler *c, const struct instr *instr)
{
	const struct value *values = c->body->values;
	uint32_t made[4];
	if (instr->kind == INSTR_LOOP)
		return instr->loop.carry_count ? &values[instr->loop.carries[0].inner].type->shape : NULL;
	if (instr->kind == INSTR_VJP_V || instr->kind == INSTR_VJP_A || (instr->kind == INSTR_OP && instr->of.y))
		return &instr->of.y->shape;
	return instr_writes(instr, made) ? &values[made[0]].type->shape : NULL;
}

/* What is known of a loop while its instructions are looked at. */
struct loop_look {
	const struct instr *instr;
	const struct shape *shape;
	bool element;  /* every instruction so far is element-wise, on SHAPE */
	int32_t reads; /* the highest level of a counter that it reads; -1: none */
};

static void look_into_loop(const struct compiler *c, struct loop_look *loop, const struct instr *instr)
{
	uint32_t list[6], made[4];
	size_t n = instr_reads(instr, list);
	loop->element &= loop->shape && instr_is_element(instr) && instr_writes(instr, made) > 0 &&
	                 shape_equal(group_shape(c, instr), loop->shape) &&
	                 shape_equal(&c->body->values[made[0]].type->shape, loop->shape);
	for (size_t r = 0; r < n; r++) {
		const struct value *value = &c->body->values[list[r]];
		for (uint32_t k = 0; value->from == FROM_PARAM && k < value->param.count; k++)
			if (value->param.index[k].loop > loop->reads)
				loop->reads = value->param.index[k].loop;
	}
}

static struct loop_look begin_loop_look(const struct compiler *c, const struct instr *instr)
{
	struct loop_look loop = {.instr = instr, .shape = group_shape(c, instr), .element = true, .reads = -1};
	for (uint32_t k = 0; k < instr->loop.carry_count; k++)
		loop.element &= shape_equal(&c->body->values[instr->loop.carries[k].inner].type->shape, loop.shape);
	return loop;
}

static void find_block_loops(struct compiler *c)
{
	const struct body *body = c->body;
	struct loop_look open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP) {
			open[depth++] = begin_loop_look(c, instr);
		} else if (instr->kind == INSTR_END) {
			struct loop_look *loop = &open[--depth], *outer = depth ? &open[depth - 1] : NULL;
			c->instrs[instr->loop.match].block_loop = loop->element && loop->shape && loop->reads < loop->instr->level;
			if (outer) {
				outer->element &=
					c->instrs[instr->loop.match].block_loop && outer->shape && shape_equal(loop->shape, outer->shape);
				outer->reads = loop->reads > outer->reads ? loop->reads : outer->reads;
			}
		} else if (depth) {
			look_into_loop(c, &open[depth - 1], instr);
		}
	}
}

static void find_groups(struct compiler *c)
{
	const struct body *body = c->body;
	const struct shape *open = NULL; /* of the group that is open */
	int64_t launch = -1;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (!c->instrs[i].live) {
			c->instrs[i].launch = NO_LAUNCH;
			continue;
		}
		if (!instr_is_element(instr) && !c->instrs[i].block_loop) {
			c->instrs[i].launch = ++launch;
			open = NULL;
			continue;
		}
		const struct shape *shape = group_shape(c, instr);
		if (!open || !shape_equal(open, shape)) {
			launch++;
			open = shape;
		}
		for (size_t end = c->instrs[i].block_loop ? instr->loop.match : i; i < end; i++)
			c->instrs[i].launch = launch;
		c->instrs[i].launch = launch;
	}
	c->launch_limit = (size_t)(launch + 1) + body->out_count;
}

static void note_value_read(struct compiler *c, uint32_t value, int64_t at)
{
	if (at > c->values[value].last_read)
		c->values[value].last_read = at;
}

static void note_carries(struct compiler *c, const struct instr *loop, int64_t begin)
{
	int64_t end = c->instrs[loop->loop.match].launch;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		c->values[carry->inner].made_in = begin;
		c->values[carry->final].made_in = end;
		c->values[carry->init].reads++;
		c->values[carry->result].reads++;
		/* The first iteration reads what it starts from where it lies. */
		note_value_read(c, carry->init, end);
		note_value_read(c, carry->result, end);
		if (begin == end)
			c->values[carry->final].same_as = carry->inner;
		else
			c->values[carry->final].array_final = true;
	}
}

/* Extends to the end of the loop at AT the lives of values that it reads from before it. */
static void stretch_reads(struct compiler *c, size_t at)
{
	const struct body *body = c->body;
	int64_t begin = c->instrs[at].launch, end = c->instrs[body->instrs[at].loop.match].launch;
	for (size_t k = at + 1; begin != end && k < body->instrs[at].loop.match; k++) {
		const struct instr *instr = &body->instrs[k];
		uint32_t list[6];
		size_t n = instr_reads(instr, list);
		for (size_t r = 0; r < n; r++)
			if (c->values[list[r]].made_in < begin)
				note_value_read(c, list[r], end);
		for (uint32_t r = 0; instr->kind == INSTR_LOOP && r < instr->loop.carry_count; r++) {
			const struct carry *carry = &instr->loop.carries[r];
			if (c->values[carry->init].made_in < begin)
				note_value_read(c, carry->init, end);
			if (c->values[carry->result].made_in < begin)
				note_value_read(c, carry->result, end);
		}
	}
}

static void find_spans(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->value_count; i++) {
		c->values[i].made_in = c->values[i].last_read = NO_LAUNCH;
		c->values[i].entry = c->values[i].same_as = NO_VALUE;
	}
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t list[6], made[4];
		if (!c->instrs[i].live)
			continue;
		size_t n = instr_writes(instr, made);
		for (size_t k = 0; k < n; k++)
			c->values[made[k]].made_in = c->instrs[i].launch;
		n = instr_reads(instr, list);
		for (size_t k = 0; k < n; k++) {
			c->values[list[k]].reads++;
			note_value_read(c, list[k], c->instrs[i].launch);
		}
		if (instr->kind == INSTR_LOOP)
			note_carries(c, instr, c->instrs[i].launch);
	}
	for (size_t i = 0; i < body->instr_count; i++)
		if (body->instrs[i].kind == INSTR_LOOP && c->instrs[i].live)
			stretch_reads(c, i);
	for (size_t i = 0; i < body->out_count; i++)
		c->values[body->outs[i].value].reads++;
}

bool plan_groups(struct compiler *c)
{
	bool *wanted = arena_array(&c->scratch_arena, c->body->value_count + 1, sizeof *wanted);
	if (!wanted)
		return false;
	find_live(c, wanted);
	find_block_loops(c);
	find_groups(c);
	find_spans(c);
	return true;
}
