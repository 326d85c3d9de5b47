/*
 * From a body to launches.
 *
 * Element-wise instructions that follow one another on one shape become a group
 * (compile/fuse.c). A loop all of whose instructions are such becomes part of the
 * group. Other instructions are launches of their own over whole arrays; a loop
 * around them passes its carried values by exchanging pointers.
 *
 * Places: a value that is made and read in one group is a register; any other is
 * an array, the caller's where it is an in or an out, else in the workspace from
 * its launch to the last that reads it. A value carried through a loop of launches
 * has two places, from the loop's begin on: one is read while the other is written.
 *
 * Invariant: no two arrays that are live at once share a byte; what a loop reads
 * from outside, and what it starts from, is live to its end.
 */
#include "compile/program.h"

#include <string.h>

#include "base/checked.h"
#include "base/pool.h"
#include "base/text.h"
#include "compile/compiler.h"

enum { NO_LAUNCH = -1 };

static bool is_loop(const struct instr *instr) { return instr->kind == INSTR_LOOP || instr->kind == INSTR_END; }

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
		size_t n = instr_writes(instr, made);
		for (size_t k = 0; k < n; k++)
			live |= wanted[made[k]];
		c->live[i] = live;
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

/* Grouping: which launch each instruction belongs to. */

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

/* A loop while its instructions are looked at. */
struct loop_look {
	const struct instr *instr;
	const struct shape *shape;
	bool element;  /* all so far is element-wise, on SHAPE */
	int32_t reads; /* the innermost loop's level whose counter it reads; -1: none */
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

static struct loop_look begin_look(const struct compiler *c, const struct instr *instr)
{
	struct loop_look loop = {.instr = instr, .shape = group_shape(c, instr), .element = true, .reads = -1};
	for (uint32_t k = 0; k < instr->loop.carry_count; k++)
		loop.element &= shape_equal(&c->body->values[instr->loop.carries[k].inner].type->shape, loop.shape);
	return loop;
}

/* Which loops can be run block by block: all element-wise, on one shape, by no counter of their own. */
static void find_block_loops(struct compiler *c)
{
	const struct body *body = c->body;
	struct loop_look open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP) {
			open[depth++] = begin_look(c, instr);
		} else if (instr->kind == INSTR_END) {
			struct loop_look *loop = &open[--depth], *outer = depth ? &open[depth - 1] : NULL;
			c->block_loop[instr->loop.match] = loop->element && loop->shape && loop->reads < loop->instr->level;
			if (outer) {
				outer->element &=
					c->block_loop[instr->loop.match] && outer->shape && shape_equal(loop->shape, outer->shape);
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
		if (!c->live[i]) {
			c->group[i] = NO_LAUNCH;
			continue;
		}
		if (!instr_is_element(instr) && !c->block_loop[i]) {
			c->group[i] = ++launch;
			open = NULL;
			continue;
		}
		const struct shape *shape = group_shape(c, instr);
		if (!open || !shape_equal(open, shape)) {
			launch++;
			open = shape;
		}
		for (size_t end = c->block_loop[i] ? instr->loop.match : i; i < end; i++)
			c->group[i] = launch;
		c->group[i] = launch;
	}
	c->launch_limit = (size_t)(launch + 1) + body->out_count;
}

/* Where values are made and read, in launches. */

static void note_read(struct compiler *c, uint32_t value, int64_t at)
{
	if (at > c->last_read[value])
		c->last_read[value] = at;
}

static void note_carries(struct compiler *c, const struct instr *loop, int64_t begin)
{
	int64_t end = c->group[loop->loop.match];
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		c->made_in[carry->inner] = begin;
		c->made_in[carry->final] = end;
		c->reads[carry->init]++;
		c->reads[carry->result]++;
		/* The first iteration reads what it starts from where it lies. */
		note_read(c, carry->init, end);
		note_read(c, carry->result, end);
		if (begin == end)
			c->same_as[carry->final] = carry->inner;
		else
			c->array_final[carry->final] = true;
	}
}

/* What a loop reads from before it lives to the loop's end. */
static void stretch_reads(struct compiler *c, size_t at)
{
	const struct body *body = c->body;
	int64_t begin = c->group[at], end = c->group[body->instrs[at].loop.match];
	for (size_t k = at + 1; begin != end && k < body->instrs[at].loop.match; k++) {
		const struct instr *instr = &body->instrs[k];
		uint32_t list[6];
		size_t n = instr_reads(instr, list);
		for (size_t r = 0; r < n; r++)
			if (c->made_in[list[r]] < begin)
				note_read(c, list[r], end);
		for (uint32_t r = 0; instr->kind == INSTR_LOOP && r < instr->loop.carry_count; r++) {
			const struct carry *carry = &instr->loop.carries[r];
			if (c->made_in[carry->init] < begin)
				note_read(c, carry->init, end);
			if (c->made_in[carry->result] < begin)
				note_read(c, carry->result, end);
		}
	}
}

static void find_spans(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->value_count; i++) {
		c->made_in[i] = c->last_read[i] = NO_LAUNCH;
		c->entry[i] = c->same_as[i] = NO_VALUE;
	}
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t list[6], made[4];
		if (!c->live[i])
			continue;
		size_t n = instr_writes(instr, made);
		for (size_t k = 0; k < n; k++)
			c->made_in[made[k]] = c->group[i];
		n = instr_reads(instr, list);
		for (size_t k = 0; k < n; k++) {
			c->reads[list[k]]++;
			note_read(c, list[k], c->group[i]);
		}
		if (instr->kind == INSTR_LOOP)
			note_carries(c, instr, c->group[i]);
	}
	for (size_t i = 0; i < body->instr_count; i++)
		if (body->instrs[i].kind == INSTR_LOOP && c->live[i])
			stretch_reads(c, i);
	for (size_t i = 0; i < body->out_count; i++)
		c->reads[body->outs[i].value]++;
}

/* Frame entries. */

static uint32_t add_entry(struct compiler *c, struct entry entry)
{
	c->frame->entries[c->frame->count] = entry;
	return (uint32_t)c->frame->count++;
}

/* Whether a loop of this program moves the param; counters of loops around it stand still. */
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

/* Values that are read in another launch than they are made in. A final that is one is copied there by its group. */
static void mark_arrays(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t list[6], made[4];
		if (!c->live[i])
			continue;
		bool element = instr_is_element(instr);
		size_t n = instr_reads(instr, list);
		for (size_t k = 0; k < n; k++)
			if (!element || c->made_in[list[k]] != c->group[i])
				c->array[list[k]] = true;
		n = instr_writes(instr, made);
		for (size_t k = 0; k < n && !element; k++)
			c->array[made[k]] = true;
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->loop.carry_count; k++) {
			const struct carry *carry = &instr->loop.carries[k];
			if (!c->block_loop[i])
				c->array[carry->inner] = c->array[carry->final] = true;
			if (!c->block_loop[i] || c->made_in[carry->init] != c->group[i])
				c->array[carry->init] = true;
			if (!c->block_loop[i] || c->made_in[carry->result] != c->group[i])
				c->array[carry->result] = true;
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

/* A loop over whole arrays. */

/* Whether the carry's result is an array of the loop's own, made for this carry alone: written where it is read next. */
static bool is_written(const struct compiler *c, const struct instr *loop, uint32_t k)
{
	uint32_t result = loop->loop.carries[k].result;
	bool own = c->frame->entries[c->entry[result]].kind == ENTRY_WORKSPACE && !c->array_final[result] &&
	           c->made_in[result] > c->group[loop - c->body->instrs];
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

/* One value for several outs: copied. */
static void copy_outs(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->out_count; i++) {
		const struct value *value = &body->values[body->outs[i].value];
		uint32_t entry = c->entry[body->outs[i].value];
		if (value->from != FROM_INSTR || c->frame->entries[entry].port == i)
			continue;
		struct launch *copy = compiler_launch(c, LAUNCH_COPY);
		copy->needs[0] = entry;
		copy->out = add_entry(c, (struct entry){.kind = ENTRY_OUT, .port = (uint32_t)i, .type = value->type});
	}
}

static bool compile_launches(struct compiler *c)
{
	const struct body *body = c->body;
	size_t open[MAX_LOOPS];
	int depth = 0;
	for (size_t i = 0, end; i < body->instr_count; i = end) {
		const struct instr *instr = &body->instrs[i];
		end = i + 1;
		if (!c->live[i])
			continue;
		if (instr_is_element(instr) || c->block_loop[i]) {
			while (end < body->instr_count && (!c->live[end] || c->group[end] == c->group[i]))
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

/* Params by loop counters: whose pointers each loop moves, which are those that are read within it. */

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
		const struct kernel_op *m = &launch->kernel_ops[i];
		const struct arg *args[] = {&m->v, &m->a, &m->y, &m->k, &m->l, &m->g};
		for (size_t a = 0; a < sizeof args / sizeof *args; a++)
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

/* Places in the workspace, launch by launch. */

/* Something that has a place from launch MADE through launch DIES. */
struct placed {
	int64_t bytes, made, dies;
	int64_t *offset;
	uint32_t next_made, next_dead; /* plus 1; of those of the same launch */
};

static void add_placed(struct placed *list, size_t *count, int64_t bytes, int64_t made, int64_t dies, int64_t *offset)
{
	list[(*count)++] = (struct placed){bytes, made, dies > made ? dies : made, offset, 0, 0};
}

/* The two places of what a loop carries: one is let go with the loop, the other holds the final. */
static void add_carried(struct compiler *c, struct placed *list, size_t *count, size_t at)
{
	struct launch *loop = &c->launches[at];
	for (size_t k = 0; k < loop->carried_count; k++) {
		struct carried *carried = &loop->carried[k];
		uint32_t final = loop->instr->loop.carries[k].final;
		int held = loop->iterations > 0 && (loop->iterations - 1) % 2 == 1;
		for (int side = 0; side < 2; side++) {
			int64_t dies = (int64_t)loop->match;
			if (side == held && c->last_read[final] > dies)
				dies = c->last_read[final];
			add_placed(list, count, carried->bytes, (int64_t)at, dies, &carried->offset[side]);
		}
	}
}

static size_t list_placed(struct compiler *c, struct placed *list)
{
	size_t count = 0;
	for (size_t i = 0; i < c->body->value_count; i++) {
		struct entry *entry = c->entry[i] == NO_VALUE ? NULL : &c->frame->entries[c->entry[i]];
		if (entry && entry->kind == ENTRY_WORKSPACE && c->made_in[i] >= 0)
			add_placed(list, &count, type_bytes(entry->type), c->made_in[i], c->last_read[i], &entry->offset);
	}
	for (size_t i = 0; i < c->launch_count; i++)
		if (c->launches[i].kind == LAUNCH_LOOP)
			add_carried(c, list, &count, i);
	return count;
}

static bool place_arrays(struct compiler *c, int64_t begin)
{
	size_t limit = c->frame->count + 1;
	for (size_t i = 0; i < c->launch_count; i++)
		limit += 2 * c->launches[i].carried_count;
	struct placed *list = arena_array(&c->scratch_arena, limit, sizeof *list);
	uint32_t *made = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *made);
	uint32_t *dead = arena_array(&c->scratch_arena, c->launch_count + 1, sizeof *dead);
	if (!list || !made || !dead)
		return false;
	for (size_t i = list_placed(c, list); i-- > 0;) {
		list[i].next_made = made[list[i].made];
		made[list[i].made] = (uint32_t)i + 1;
		list[i].next_dead = dead[list[i].dies];
		dead[list[i].dies] = (uint32_t)i + 1;
	}
	struct pool pool;
	bool good = true;
	pool_init(&pool, c->arena->allocator);
	for (size_t l = 0; l < c->launch_count && good; l++) {
		for (uint32_t i = made[l]; i && good; i = list[i - 1].next_made) {
			const int64_t offset = pool_get(&pool, list[i - 1].bytes);
			*list[i - 1].offset = begin + offset;
			good = offset >= 0;
		}
		for (uint32_t i = dead[l]; i && good; i = list[i - 1].next_dead)
			good = pool_put(&pool, *list[i - 1].offset - begin, list[i - 1].bytes);
	}
	c->out->workspace = begin + pool.peak;
	pool_free(&pool);
	return good;
}

/* Lists whose sizes the body tells. */
static bool reserve(struct compiler *c)
{
	struct arena *arena = &c->scratch_arena;
	size_t values = c->body->value_count + 1, instrs = c->body->instr_count + 1;
	c->live = arena_array(arena, instrs, sizeof *c->live);
	c->block_loop = arena_array(arena, instrs, sizeof *c->block_loop);
	c->group = arena_array(arena, instrs, sizeof *c->group);
	c->made_in = arena_array(arena, values, sizeof *c->made_in);
	c->last_read = arena_array(arena, values, sizeof *c->last_read);
	c->reads = arena_array(arena, values, sizeof *c->reads);
	c->array = arena_array(arena, values, sizeof *c->array);
	c->array_final = arena_array(arena, values, sizeof *c->array_final);
	c->entry = arena_array(arena, values, sizeof *c->entry);
	c->same_as = arena_array(arena, values, sizeof *c->same_as);
	c->reg = arena_array(arena, values, sizeof *c->reg);
	c->fill = arena_array(arena, values, sizeof *c->fill);
	c->counter_level = arena_array(arena, MAX_LOOPS, sizeof *c->counter_level);
	c->frame = arena_alloc(c->arena, sizeof *c->frame);
	return c->live && c->block_loop && c->group && c->made_in && c->last_read && c->reads && c->array &&
	       c->array_final && c->entry && c->same_as && c->reg && c->fill && c->counter_level && c->frame;
}

static bool compile(struct compiler *c)
{
	bool *wanted = arena_array(&c->scratch_arena, c->body->value_count + 1, sizeof *wanted);
	if (!wanted || !reserve(c))
		return false;
	find_live(c, wanted);
	find_block_loops(c);
	find_groups(c);
	find_spans(c);
	/* Each value has at most one entry, and each out one more where it is a copy. */
	c->frame->entries = arena_array(c->arena, c->body->value_count + c->body->out_count + 1, sizeof(struct entry));
	c->launches = arena_array(c->arena, c->launch_limit + 1, sizeof *c->launches);
	if (!c->frame->entries || !c->launches || !draft_reserve(c))
		return false;
	mark_outs(c);
	mark_arrays(c);
	if (!compile_launches(c) || !find_dynamic(c))
		return false;
	if (!reuse_arrays(c) || c->scratch > POOL_MOST || c->team_scratch > POOL_MOST)
		return false;
	c->frame->scratch = round_up((int64_t)(c->frame->count * sizeof(void *)), ARRAY_ALIGN);
	c->frame->registers = c->frame->scratch + round_up(c->scratch, ARRAY_ALIGN);
	if (!place_arrays(c, c->frame->registers + c->register_bytes))
		return false;
	c->out->member = c->register_bytes > c->team_scratch ? c->register_bytes : c->team_scratch;
	for (size_t i = 0; i < c->body->value_count; i++) {
		int64_t bytes = c->body->values[i].type ? type_bytes(c->body->values[i].type) : 0;
		c->out->widest = bytes > c->out->widest ? bytes : c->out->widest;
	}
	return true;
}

static int32_t count_levels(const struct body *body)
{
	int32_t levels = 0;
	for (size_t i = 0; i < body->instr_count; i++)
		if (body->instrs[i].level >= levels)
			levels = body->instrs[i].level + 1;
	for (size_t i = 0; i < body->instr_count + body->value_count; i++) {
		const struct param_ref *ref =
			i < body->instr_count ? &body->instrs[i].param : &body->values[i - body->instr_count].param;
		for (uint32_t k = 0; k < ref->count; k++)
			if (ref->index[k].loop >= levels)
				levels = ref->index[k].loop + 1;
	}
	return levels;
}

int team_members(int threads, int64_t widest, int64_t member)
{
	enum { LEAST_BYTES = 256 << 10 }; /* some tens of microseconds of work, which waking a thread takes a part of */
	const int64_t most = 1 + widest / (member > 0 ? member : 1);
	if (widest < LEAST_BYTES || threads < 1)
		return 1;
	return threads < most ? threads : (int)most;
}

enum status program_compile(const struct context *context, struct program *program, const struct body *body,
                            const bool *owned)
{
	*program = (struct program){.body = body};
	struct compiler c = {.out = program, .body = body, .owned = owned, .arena = context->arena};
	arena_init(&c.scratch_arena, context->arena->allocator);
	bool good = compile(&c);
	arena_free(&c.scratch_arena);
	if (!good)
		return diag_memory(context->diags);
	program->launches = c.launches;
	program->launch_count = c.launch_count;
	program->frame = c.frame;
	program->levels = count_levels(body);
	return STATUS_OK;
}

void program_dump(const struct program *program, diag_write *write, void *context)
{
	static const char *const kinds[] = {"group", "call", "sum_to", "accumulate", "copy", "loop", "end"};
	static const char *const kernel_ops[] = {"forward", "keep", "vjp_v", "vjp_a", "add", "zero",
	                                         "copy",    "fill", "run",   "loop",  "end"};
	const struct text text = {write, context};
	for (size_t i = 0; i < program->launch_count; i++) {
		const struct launch *l = &program->launches[i];
		text_printf(&text, "  %s %s", kinds[l->kind], l->kind == LAUNCH_CALL ? op_table[l->instr->op].name : "");
		if (l->kind == LAUNCH_GROUP)
			text_printf(&text, "%lld elements, blocks of %lld, %u registers", (long long)l->count, (long long)l->block,
			            l->registers);
		text_put(&text, "\n");
		for (size_t k = 0; l->kind == LAUNCH_GROUP && k < l->kernel_op_count; k++) {
			const struct kernel_op *m = &l->kernel_ops[k];
			text_printf(&text, "    %s %s", kernel_ops[m->kind], m->kind < KERNEL_OP_ADD ? op_table[m->op].name : "");
			if (m->kind == KERNEL_OP_RUN)
				text_printf(&text, "%zu steps", m->step_count);
			text_put(&text, "\n");
		}
	}
	text_printf(&text, "  workspace %lld bytes\n", (long long)program->workspace);
}
