/*
 * Groups: which instructions share a launch, and where values are made and read in terms of launches.
 *
 * Element-wise instructions that follow one another on one shape are one group. A loop is a part of a group if all its
 * instructions are element-wise on one shape and none reads a param by its counter or an inner one (a block loop).
 *
 * A reshape is no launch if its result and its input can be one array: then one is the other's alias, and who reads or
 * makes the alias reads or makes that array.
 *
 * A gather, such as laplacian or roll, makes each element from others of an array (op_gather_get). It joins the group
 * of its result's shape unless that group makes the array, which must be whole before. So v + 0.1 * laplacian(v) is
 * one walk over the rows. Every other live instruction is a launch of its own over whole arrays.
 * Tests: tests/unit/test_fuse.c
 */

#include "compile/compiler.h"

/* Notes which instructions are LIVE, and which levels have loops. */
static void note_live(struct compiler *c, const bool *live)
{
	for (size_t i = 0; i < c->body->instr_count; i++) {
		const struct instr *instr = &c->body->instrs[i];
		c->instrs[i].live = live[i];
		if (instr->kind == INSTR_LOOP)
			c->counter_level[instr->level] = true;
	}
}

/* Marks in FIXED the values that loops carry, by 2, and outs, by 1. */
static void find_fixed(const struct body *body, uint8_t *fixed)
{
	for (size_t i = 0; i < body->out_count; i++)
		fixed[body->outs[i].value] = 1;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->loop.carry_count; k++) {
			const struct carry *carry = &instr->loop.carries[k];
			fixed[carry->init] = fixed[carry->inner] = fixed[carry->result] = fixed[carry->final] = 2;
		}
	}
}

/*
 * Makes one array of TO and of FROM, which lacks one of TO's parts, unless both are fixed or FROM is an in: then the caller
 * may give both the same array.
 */
static void alias_collected(struct compiler *c, uint32_t from, uint32_t to, const uint8_t *fixed)
{
	const bool into = fixed[to] && !fixed[from];
	if (c->body->values[from].from != FROM_INSTR || (fixed[to] && fixed[from]))
		return;
	c->values[into ? from : to].alias = into ? to : from;
	c->values[from].array = c->values[to].array = true;
}

/*
 * Makes aliases of reshapes, and of arrays that are collected: one array has their parts. The result is an alias of the input. If the result is an out, the input, which an
 * instruction makes, is an alias of it. FIXED is zeroed memory by value.
 */
static void find_aliases(struct compiler *c, uint8_t *fixed)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->value_count; i++)
		c->values[i].alias = NO_VALUE;
	find_fixed(body, fixed);
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		const bool back = instr->kind == INSTR_VJP;
		if (!c->instrs[i].live || (instr->kind != INSTR_OP && !back) || instr_use(instr) || instr->out == NO_VALUE)
			continue;
		const uint32_t to = instr->out;
		if (instr->op == OP_COLLECT && !back && instr->a != NO_VALUE) {
			alias_collected(c, array_value(c, instr->a), to, fixed);
			continue;
		}
		if (!op_only_reshapes(instr->op))
			continue;
		const uint32_t from = array_value(c, back ? instr->g : instr->v);
		const bool into = fixed[to] == 1 && !fixed[from] && body->values[from].from == FROM_INSTR;
		if (fixed[from] == 2 || (fixed[to] && !into))
			continue;
		c->values[into ? from : to].alias = into ? to : from;
		c->values[from].array = c->values[to].array = true;
		c->instrs[i].live = false;
		c->instrs[i].alias = true;
	}
}

const struct shape *group_shape(const struct compiler *c, const struct instr *instr)
{
	const struct value *values = c->body->values;
	uint32_t made[INSTR_WRITES];
	if (instr->kind == INSTR_LOOP)
		return instr->loop.carry_count ? &values[instr->loop.carries[0].inner].type->shape : NULL;
	if (instr->kind == INSTR_VJP)
		return &instr->of.v->shape;
	if ((instr->kind >= INSTR_VJP_V && instr->kind <= INSTR_VJP_B) || (instr->kind == INSTR_OP && instr->of.y))
		return &instr->of.y->shape;
	return instr_writes(instr, made) ? &values[made[0]].type->shape : NULL;
}

bool group_streams(const struct compiler *c, const struct instr *instr)
{
	const struct value *values = c->body->values;
	uint32_t made[INSTR_WRITES];
	if (instr->kind == INSTR_LOOP)
		return instr->loop.carry_count && values[instr->loop.carries[0].inner].streamed;
	return instr_writes(instr, made) && values[made[0]].streamed;
}

/* True if INSTR and the group of OTHER walk the same elements. */
static bool walks_alike(const struct compiler *c, const struct instr *instr, const struct instr *other)
{
	return (!c->body->cut || group_streams(c, instr) == group_streams(c, other)) &&
	       shape_equal(group_shape(c, instr), group_shape(c, other));
}

/*
 * True if the loop at AT iterates within each block of a group. It has a carry, all its instructions work element by
 * element on one shape, and none reads a part of a param at its counter. The same then holds for the loops in it.
 */
static bool is_block_loop(const struct compiler *c, size_t at)
{
	const struct value *values = c->body->values;
	const struct instr *loop = &c->body->instrs[at];
	const struct shape *shape = group_shape(c, loop);
	bool whole = shape != NULL;
	for (const struct instr *instr = loop; whole && instr < &c->body->instrs[loop->loop.match]; instr++) {
		uint32_t list[INSTR_READS], made[INSTR_WRITES];
		if (instr->kind == INSTR_LOOP)
			whole = instr->loop.carry_count > 0;
		else if (instr->kind != INSTR_END)
			whole = instr_is_element(instr) && instr_writes(instr, made) > 0 && walks_alike(c, instr, loop) &&
			        shape_equal(&values[made[0]].type->shape, shape);
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->loop.carry_count; k++)
			whole &= shape_equal(&values[instr->loop.carries[k].inner].type->shape, shape);
		for (size_t r = instr_reads(instr, list); r-- > 0;) {
			const struct value *value = &values[list[r]];
			for (uint32_t k = 0; value->from == FROM_PARAM && k < value->param.count; k++)
				whole &= value->param.index[k].loop < loop->level;
		}
	}
	return whole;
}

/* True if INSTR is a gather: it has one array in and one out, and op_gather makes any part of that. */
static bool is_gather(const struct instr *instr)
{
	const bool back = instr->kind == INSTR_VJP;
	if ((instr->kind != INSTR_OP && !back) || instr_use(instr) || instr->a != NO_VALUE || instr->out == NO_VALUE ||
	    instr->out_a != NO_VALUE || instr->level >= 0 || !op_gather_get(instr->op, instr->attrs))
		return false;
	return instr->of.v->shape.ndim > 0 && instr->of.y->dtype == instr->of.v->dtype;
}

/* Sets the maker of all values that instruction I of the group LAUNCH makes. */
static void note_makers(struct compiler *c, const struct instr *instr, int32_t launch)
{
	uint32_t made[INSTR_WRITES];
	for (size_t k = instr_writes(instr, made); k-- > 0;)
		c->values[made[k]].made_in = launch;
	for (uint32_t k = 0; instr->kind == INSTR_END && k < instr->loop.carry_count; k++)
		c->values[c->body->instrs[instr->loop.match].loop.carries[k].final].made_in = launch;
}

static uint32_t gathered(const struct instr *instr) { return instr->kind == INSTR_VJP ? instr->g : instr->v; }

static void find_groups(struct compiler *c)
{
	const struct body *body = c->body;
	const struct instr *open = NULL; /* of the group that may still grow */
	int32_t launch = -1;
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		c->instrs[i].launch = NO_LAUNCH;
		open = c->instrs[i].alias ? NULL : open; /* a group that reads the alias must not make its array */
		if (!c->instrs[i].live)
			continue;
		if (!instr_fuses(c, i)) {
			c->instrs[i].launch = ++launch;
			open = NULL;
			continue;
		}
		const bool makes = c->instrs[i].gather && c->values[gathered(instr)].made_in == launch;
		if (!open || !walks_alike(c, instr, open) || makes) {
			launch++;
			open = instr;
		}
		for (size_t end = c->instrs[i].block_loop ? instr->loop.match : i; i < end; i++)
			c->instrs[i].launch = launch;
		c->instrs[i].launch = launch;
		note_makers(c, &body->instrs[i], launch);
	}
	c->launch_limit = (size_t)(launch + 1) + body->out_count;
}

/* Notes that launch AT, a group if FUSED, reads VALUE, which needs an array unless that group makes it. */
static void note_value_read(struct compiler *c, uint32_t value, int32_t at, bool fused)
{
	struct value_plan *v = &c->values[array_value(c, value)];
	v->reads++;
	v->last_read = at > v->last_read ? at : v->last_read;
	v->array |= !fused || v->made_in != at;
}

/* Notes that launch AT, a group if FUSED, makes VALUE, which needs an array unless FUSED. */
static void note_value_made(struct compiler *c, uint32_t value, int32_t at, bool fused)
{
	struct value_plan *v = &c->values[array_value(c, value)];
	v->made_in = at;
	v->array |= !fused;
}

/* Notes what LOOP reads and makes by its carries. It begins in launch BEGIN and ends in END, one launch if fused. */
static void note_carries(struct compiler *c, const struct instr *loop, int32_t begin, int32_t end)
{
	const bool fused = begin == end;
	for (uint32_t k = 0; k < loop->loop.carry_count; k++) {
		const struct carry *carry = &loop->loop.carries[k];
		/* The first iteration reads the init in its own place, so the init lives to END. */
		note_value_read(c, carry->init, end, fused);
		note_value_read(c, carry->result, end, fused);
		note_value_made(c, carry->final, end, fused);
		c->values[carry->final].same_as = fused ? carry->inner : NO_VALUE;
		c->values[carry->final].array_final = !fused;
	}
}

/* True if INSTR writes a part of an array that was made before. */
static bool continues(const struct compiler *c, const struct instr *instr)
{
	return instr->kind == INSTR_OP && instr->op == OP_COLLECT && instr->a != NO_VALUE &&
	       array_value(c, instr->a) == array_value(c, instr->out);
}

static void find_spans(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->value_count; i++) {
		c->values[i].last_read = NO_LAUNCH;
		c->values[i].entry = c->values[i].same_as = NO_VALUE;
	}
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		const int32_t at = c->instrs[i].launch;
		const bool fused = instr_fuses(c, i);
		uint32_t list[INSTR_READS];
		if (!c->instrs[i].live)
			continue;
		for (size_t k = instr_reads(instr, list); k-- > 0;)
			note_value_read(c, list[k], at, fused && !c->instrs[i].gather);
		for (size_t k = instr_writes(instr, list); k-- > 0;)
			if (!continues(c, instr))
				note_value_made(c, list[k], at, fused);
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->loop.carry_count; k++)
			note_value_made(c, instr->loop.carries[k].inner, at, fused);
		if (instr->kind == INSTR_END)
			note_carries(c, &body->instrs[instr->loop.match], c->instrs[instr->loop.match].launch, at);
	}
	for (size_t i = 0; i < body->out_count; i++)
		c->values[body->outs[i].value].reads++;
}

/*
 * True if VJP, whose derivative by its operand ADDITION adds to a param's gradient, can do that itself. An attention stores the
 * derivative there, if the gradient is written once.
 */
static bool adds_itself(const struct compiler *c, const struct instr *vjp, const struct instr *addition)
{
	const bool attends = vjp->op == OP_attention || vjp->op == OP_ATTENDED || vjp->op == OP_MASKED;
	return product_in_pieces(vjp->op, vjp->of.v, vjp->of.a) || op_adds_rows(vjp->op) ||
	       (attends && c->written && c->written[addition->param.param]);
}

/* Lets a product, an attention or a take add its derivative by a param to the param's gradient: nothing else reads that derivative. */
static void join_sums(struct compiler *c)
{
	for (size_t i = 0; i < c->body->instr_count; i++) {
		const struct instr *instr = &c->body->instrs[i];
		if (instr->kind != INSTR_ACCUMULATE || c->body->values[instr->v].from != FROM_INSTR)
			continue;
		const uint32_t maker = c->body->values[instr->v].instr;
		const struct instr *product = &c->body->instrs[maker];
		if (product->kind != INSTR_VJP || product->out_a != instr->v || !adds_itself(c, product, instr))
			continue;
		c->instrs[i].live = false;
		c->instrs[maker].adds = (uint32_t)i + 1;
	}
}

/* Finds live instructions and aliases. What that needs is freed at once: a long body has much of it. */
static bool find_live_and_aliases(struct compiler *c)
{
	struct arena arena;
	arena_init(&arena, c->scratch_arena.allocator);
	const bool *live = body_find_live(c->body, &arena);
	uint8_t *fixed = arena_array(&arena, c->body->value_count + 1, sizeof *fixed);
	if (live && fixed) {
		note_live(c, live);
		find_aliases(c, fixed);
	}
	const bool good = !arena.failed;
	arena_free(&arena);
	return good;
}

bool plan_groups(struct compiler *c)
{
	if (!find_live_and_aliases(c))
		return false;
	join_sums(c);
	for (size_t i = 0; i < c->body->value_count; i++)
		c->values[i].made_in = NO_LAUNCH;
	for (size_t i = 0; i < c->body->instr_count; i++) {
		c->instrs[i].block_loop = c->body->instrs[i].kind == INSTR_LOOP && is_block_loop(c, i);
		c->instrs[i].gather = c->instrs[i].live && is_gather(&c->body->instrs[i]);
	}
	find_groups(c);
	find_spans(c);
	return true;
}
