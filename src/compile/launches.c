/*
 * Makes the launches (groups, calls and loops over whole arrays) and the frame entries of the
 * arrays that they read and write.
 *
 * A value that one group makes, that only this group reads and that is no out is a register. Every other value is an
 * array: the caller's if it is an in, an out or a param, else a part of the workspace. A loop over whole
 * arrays passes its carried values by exchanging pointers.
 *
 * Invariant: a value that a loop reads, and that was made before the loop, is live to the loop's end.
 * Tests: tests/unit/test_fuse.c, tests/unit/test_program.c
 */

#include "base/checked.h"
#include "compile/compiler.h"

static uint32_t add_entry(struct compiler *c, struct entry entry)
{
	c->frame->entries[c->frame->count] = entry;
	return (uint32_t)c->frame->count++;
}

uint32_t compiler_entry(struct compiler *c, uint32_t value)
{
	value = array_value(c, value);
	if (value == NO_VALUE)
		return NO_VALUE;
	if (c->values[value].entry == NO_VALUE) {
		const struct value *v = &c->body->values[value];
		struct entry entry = {.kind = ENTRY_WORKSPACE, .streamed = v->streamed, .type = v->type, .offset = {-1, -1}};
		if (v->from == FROM_PORT) {
			entry.kind = ENTRY_IN;
			entry.port = v->port;
		} else if (v->from == FROM_PARAM) {
			entry.kind = ENTRY_PARAM;
			entry.param = v->param;
			/* The counters of loops around the program are constant. */
			for (uint32_t k = 0; k < v->param.count; k++)
				entry.dynamic |= v->param.index[k].loop >= 0 && c->counter_level[v->param.index[k].loop];
		}
		c->values[value].entry = add_entry(c, entry);
	}
	return c->values[value].entry;
}

uint32_t compiler_counter(struct compiler *c, int32_t level)
{
	if (!c->counter_entry[level])
		c->counter_entry[level] =
			1 + add_entry(c, (struct entry){.kind = ENTRY_COUNTER, .dynamic = c->counter_level[level], .level = level});
	return c->counter_entry[level] - 1;
}

static void mark_outs(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->out_count; i++) {
		uint32_t value = body->outs[i].value;
		if (body->values[value].from != FROM_INSTR || c->values[value].entry != NO_VALUE)
			continue;
		const struct value *v = &body->values[value];
		c->values[value].entry = add_entry(
			c, (struct entry){.kind = ENTRY_OUT, .streamed = v->streamed, .port = (uint32_t)i, .type = v->type});
		c->values[value].array = true;
	}
}

struct launch *compiler_launch(struct compiler *c, enum launch_kind kind)
{
	c->launches[c->launch_count].kind = kind;
	return &c->launches[c->launch_count++];
}

/* True if VALUE, which INSTR makes, is read only by one of the ACCUMULATEs that follow INSTR. */
static bool is_only_accumulated(const struct compiler *c, const struct instr *instr, uint32_t value)
{
	const struct instr *end = c->body->instrs + c->body->instr_count;
	if (value == NO_VALUE || c->values[value].reads != 1)
		return false;
	for (const struct instr *next = instr + 1; next < end && next->kind == INSTR_ACCUMULATE; next++)
		if (next->v == value)
			return true;
	return false;
}

/* Returns the entries of INSTR's call of a program. NULL if out of memory. */
static const struct launch_use *compile_use(struct compiler *c, const struct instr *instr)
{
	struct launch_use *use = arena_alloc(c->arena, sizeof *use);
	for (uint32_t k = 0; use && k < PROGRAM_OPERANDS; k++) {
		const bool has = k < instr_use(instr)->count;
		use->operands[k] = has ? compiler_entry(c, instr_use(instr)->operands[k]) : NO_VALUE;
		use->outs[k] = has ? compiler_entry(c, instr_use(instr)->outs[k]) : NO_VALUE;
		use->summed |= (uint32_t)(has && is_only_accumulated(c, instr, instr_use(instr)->outs[k])) << k;
	}
	return use;
}

/* True if the V of INSTR's operation is streamed. A derivative by A alone shows it by one of the values that it reads. */
static bool is_streamed(const struct compiler *c, const struct instr *instr)
{
	const struct value *values = c->body->values;
	const bool back = instr->kind == INSTR_VJP, by_v = back && instr->out != NO_VALUE;
	const uint32_t seen[] = {by_v   ? instr->out
	                         : back ? instr->g
	                                : instr->v,
	                         by_v || !back ? NO_VALUE : instr->v, by_v || !back ? NO_VALUE : instr->k};
	bool streamed = (back && !by_v && instr->a_streamed) || body_folds(c->body, instr);
	for (int i = 0; i < 3; i++)
		streamed |= seen[i] != NO_VALUE && values[seen[i]].streamed;
	return streamed;
}

/* Returns the arrays of INSTR that are streamed. A param with rows is not marked so, but the result of its cast is. */
static uint8_t streamed_arrays(const struct compiler *c, const struct instr *instr)
{
	const struct value *values = c->body->values;
	const bool back = instr->kind == INSTR_VJP;
	const uint32_t y = back ? instr->g : instr->out;
	const bool cast = (back || instr->kind == INSTR_OP) && instr->op == OP_cast && y != NO_VALUE && values[y].streamed;
	const bool v = cast || is_streamed(c, instr), a = instr->a != NO_VALUE && values[instr->a].streamed;
	const bool rows = y == NO_VALUE ? v && !body_folds(c->body, instr) : values[y].streamed;
	const bool third = instr->of.c && instr_operand_streamed(instr, 3);
	return (uint8_t)((v ? STREAMED_V : 0) | (a || instr->a_streamed ? STREAMED_A : 0) | (rows ? STREAMED_Y : 0) |
	                 (third ? STREAMED_C : 0));
}

static enum launch_kind kind_of_launch(const struct body *body, const struct instr *instr)
{
	if (instr->kind == INSTR_SUM_TO || instr->kind == INSTR_ACCUMULATE)
		return instr->kind == INSTR_SUM_TO ? LAUNCH_SUM_TO : LAUNCH_ACCUMULATE;
	if (instr->kind == INSTR_CHECK)
		return LAUNCH_CHECK;
	const bool back = instr->kind == INSTR_VJP;
	if (instr_use(instr))
		return LAUNCH_PROGRAM;
	if (op_is_product(instr->op))
		return back ? LAUNCH_PRODUCT_VJP : LAUNCH_PRODUCT;
	if (body_folds(body, instr))
		return back ? LAUNCH_FOLD_VJP : LAUNCH_FOLD;
	if (back)
		return instr->l != NO_VALUE && op_folds_back(instr->op) ? LAUNCH_APPLIED_VJP : LAUNCH_VJP;
	return instr->k != NO_VALUE && op_normalizes(instr->op) ? LAUNCH_NORMALIZATION : LAUNCH_OPERATION;
}

/*
 * Gives LAUNCH, a call that needs SCRATCH bytes, rows if it can run on any of them with as much. Products have none: each
 * range of rows would pack the right factor again. Nor have transforms, which would make their tables again, operations that
 * read indices, which are checked at once, and those with three operands, whose teams share blocks.
 */
static void find_rows(struct launch *launch, int64_t scratch)
{
	const struct instr *instr = launch->instr;
	const struct type *v = instr->of.v, *a = instr->of.a, *y = instr->of.y;
	if ((launch->kind != LAUNCH_OPERATION && launch->kind != LAUNCH_VJP) || v->shape.ndim == 0 || y->shape.ndim == 0 ||
	    op_indices(instr->op) || op_is_transform(instr->op) || instr->of.c || v->shape.dim[0] != y->shape.dim[0] ||
	    op_scope(instr->op, instr->attrs, v, a, true) > SCOPE_ROW ||
	    (instr->a != NO_VALUE && (!a || !op_runs_along(instr->op, v, a))) || scratch > UINT32_MAX)
		return;
	launch->rows = v->shape.dim[0];
	launch->count = shape_count(&v->shape);
	launch->memory = (uint32_t)scratch;
	launch->waits = launch_may_wait(launch);
}

static enum scratch_use scratch_use_of(const struct instr *instr)
{
	if (instr->kind != INSTR_VJP)
		return SCRATCH_FORWARD;
	return instr->out_a == NO_VALUE ? SCRATCH_BACK_V : SCRATCH_BACK;
}

/* Returns the bytes of scratch that LAUNCH, a call or SUM_TO, needs in LAYOUT, without those of a product's pieces. */
static int64_t scratch_of(const struct compiler *c, const struct launch *launch, enum row_layout layout)
{
	const struct instr *instr = launch->instr;
	const int64_t rows = layout_rows(c, layout);
	const bool sum_to = launch->kind == LAUNCH_SUM_TO;
	const struct type v = type_of_rows(instr->of.v, launch->streamed & STREAMED_V, rows);
	const struct type y = type_of_rows(instr->of.y, launch->streamed & STREAMED_Y, rows);
	struct type a;
	if (instr->of.a)
		a = type_of_rows(instr->of.a, launch->streamed & STREAMED_A, rows);
	const int64_t bytes =
		sum_to ? type_bytes(&v)
			   : op_scratch(instr->op, instr->attrs, &v, instr->of.a ? &a : NULL, &y, scratch_use_of(instr));
	if (!launch->folds || !c->body->blocks)
		return bytes;
	const struct fold_op fold = sum_to ? (struct fold_op){OP_sum, false} : instr_fold(instr);
	return saturated_add(round_up(bytes, ARRAY_ALIGN), fold_scratch(fold, &v, &y));
}

static void compile_call(struct compiler *c, const struct instr *instr)
{
	const bool back = instr->kind == INSTR_VJP;
	struct launch *launch = compiler_launch(c, kind_of_launch(c->body, instr));
	const struct value *values = c->body->values;
	const uint32_t needs[MAX_NEEDS] = {instr->v, instr->a, instr->y, instr->k, instr_fifth(instr), instr_sixth(instr)};
	launch->instr = instr;
	const uint32_t checked = instr->kind == INSTR_CHECK ? instr_indices(instr) : NO_VALUE; /* it reads nothing else */
	for (int i = 0; i < MAX_NEEDS; i++)
		launch->needs[i] = checked == NO_VALUE || needs[i] == checked ? compiler_entry(c, needs[i]) : NO_VALUE;
	launch->out = compiler_entry(c, instr->out);
	launch->use = instr_use(instr) ? compile_use(c, instr) : NULL;
	const size_t at = (size_t)(instr - c->body->instrs);
	const size_t adds = instr->kind == INSTR_ACCUMULATE ? at + 1 : c->instrs[at].adds;
	launch->sum = adds ? &c->body->instrs[adds - 1].param : NULL;
	launch->out_a = launch->sum ? NO_VALUE : compiler_entry(c, instr->out_a);
	launch->g = compiler_entry(c, instr->g);
	for (int k = 0; k < MAX_KEEPS; k++)
		launch->keep[k] = compiler_entry(c, instr->out_keep[k]);
	launch->streamed = streamed_arrays(c, instr);
	launch->folds = instr->kind == INSTR_SUM_TO
	                    ? (launch->streamed & STREAMED_V) && instr->out != NO_VALUE && !values[instr->out].streamed
	                    : launch->kind == LAUNCH_FOLD || launch->kind == LAUNCH_FOLD_VJP;
	int64_t scratch[LAYOUTS] = {0}, team_scratch = 0;
	const bool call = launch_is_call(launch) && !launch->use && launch->kind != LAUNCH_CHECK;
	for (int layout = 0; layout < LAYOUTS && (call || launch->kind == LAUNCH_SUM_TO); layout++)
		scratch[layout] = scratch_of(c, launch, layout);
	if (call) {
		team_scratch =
			op_team_scratch(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->of.y, scratch_use_of(instr));
		if (launch->folds) {
			launch->state = c->out->states;
			c->out->states += instr_state(instr);
		}
		c->out->libraries |= op_libraries(instr->op);
		if (scratch[LAYOUT_ALL] == team_scratch)
			find_rows(launch, team_scratch);
	}
	launch->whole = back && launch->sum && c->written && c->written[launch->sum->param];
	if (back && launch->sum && !launch->whole && op_is_product(instr->op)) {
		for (int layout = 0; layout < LAYOUTS; layout++)
			scratch[layout] = greater(scratch[layout], product_piece_bytes(instr->of.a));
		team_scratch = scratch[LAYOUT_ALL];
	}
	for (int layout = 0; layout < LAYOUTS; layout++)
		c->scratch[layout] = greater(c->scratch[layout], scratch[layout]);
	c->team_scratch = greater(c->team_scratch, team_scratch);
}

/* True if LOOP may write the result of carry K where the next iteration reads it: LOOP makes it for K alone. */
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
	launch->loop = loop;
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
		to->array[0] = to->array[1] = NO_VALUE;
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
		for (uint32_t j = 0; j < launch->carried_count && j < MOST_ROTATED; j++)
			launch->rotates |= j != k && to->result == launch->carried[j].inner;
	}
	launch->rotates &= launch->carried_count <= MOST_ROTATED;
	return true;
}

/*
 * Notes that LOOP reads VALUE, which lives to the loop's end if it was made before the loop. If the counter of any
 * loop of this program indexes VALUE's param, VALUE's entry joins loop->dynamic, once.
 */
static void note_loop_read(struct compiler *c, struct launch *loop, uint32_t value, size_t *capacity)
{
	struct value_plan *v = &c->values[array_value(c, value)];
	const size_t begin = (size_t)(loop - c->launches);
	const bool is_dynamic = v->entry != NO_VALUE && c->frame->entries[v->entry].dynamic;
	if (v->made_in < (int64_t)begin)
		v->last_read = (int32_t)greater(v->last_read, loop->match);
	if (v->made_in < (int64_t)begin && !is_dynamic)
		v->within = (uint32_t)begin + 1;
	if (!is_dynamic || v->moved_by == begin + 1)
		return;
	uint32_t *dynamic = arena_append(c->arena, &loop->dynamic, &loop->dynamic_count, capacity, sizeof *dynamic);
	if (dynamic)
		*dynamic = v->entry;
	v->moved_by = (uint32_t)begin + 1;
}

/* Adds ENTRY, which is dynamic, to what LOOP sets in each iteration, unless it is there. */
static void note_dynamic(struct compiler *c, struct launch *loop, uint32_t entry, size_t *capacity)
{
	for (size_t i = 0; i < loop->dynamic_count; i++)
		if (loop->dynamic[i] == entry)
			return;
	uint32_t *dynamic = arena_append(c->arena, &loop->dynamic, &loop->dynamic_count, capacity, sizeof *dynamic);
	if (dynamic)
		*dynamic = entry;
}

static bool end_loop(struct compiler *c, const struct instr *end)
{
	const size_t begin = (size_t)c->instrs[end->loop.match].launch;
	struct launch *launch = compiler_launch(c, LAUNCH_END), *loop = &c->launches[begin];
	launch->match = (uint32_t)begin;
	launch->loop = end;
	loop->match = (uint32_t)c->launch_count - 1;
	launch->carried = loop->carried;
	launch->carried_count = loop->carried_count;
	size_t capacity = 0;
	for (const struct instr *instr = loop->loop; instr < end; instr++) {
		uint32_t reads[INSTR_READS];
		for (size_t r = instr_reads(instr, reads); r-- > 0;)
			note_loop_read(c, loop, reads[r], &capacity);
		if (instr_adds_counter(instr) && c->counter_level[instr->level])
			note_dynamic(c, loop, compiler_counter(c, instr->level), &capacity);
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->loop.carry_count; k++) {
			struct value_plan *init = &c->values[array_value(c, instr->loop.carries[k].init)];
			const uint32_t within = init->within;
			note_loop_read(c, loop, instr->loop.carries[k].init, &capacity);
			if (instr == loop->loop)
				init->within = within;
			note_loop_read(c, loop, instr->loop.carries[k].result, &capacity);
		}
	}
	return !c->arena->failed;
}

static void compile_while(struct compiler *c, const struct instr *instr)
{
	struct launch *launch = compiler_launch(c, LAUNCH_WHILE);
	launch->loop = instr;
	launch->match = (uint32_t)c->instrs[instr->loop.match].launch;
	launch->condition = compiler_entry(c, instr->v);
	c->launches[launch->match].conditional = true;
}

/* Appends a copy for each out whose value is an earlier out too. */
static void copy_outs(struct compiler *c)
{
	const struct body *body = c->body;
	for (size_t i = 0; i < body->out_count; i++) {
		const struct value *value = &body->values[body->outs[i].value];
		uint32_t entry = c->values[body->outs[i].value].entry;
		if (value->from != FROM_INSTR || c->frame->entries[entry].port == i)
			continue;
		const uint32_t out = add_entry(
			c,
			(struct entry){.kind = ENTRY_OUT, .streamed = value->streamed, .port = (uint32_t)i, .type = value->type});
		*compiler_launch(c, LAUNCH_COPY) = (struct launch){.kind = LAUNCH_COPY,
		                                                   .streamed = value->streamed ? STREAMED_V : 0,
		                                                   .out = out,
		                                                   .out_a = NO_VALUE,
		                                                   .keep = {NO_VALUE, NO_VALUE},
		                                                   .needs = {entry, NO_VALUE, NO_VALUE, NO_VALUE, NO_VALUE},
		                                                   .g = NO_VALUE};
	}
}

bool compile_launches(struct compiler *c)
{
	const struct body *body = c->body;
	mark_outs(c);
	for (size_t i = 0, end; i < body->instr_count; i = end) {
		const struct instr *instr = &body->instrs[i];
		end = i + 1;
		if (!c->instrs[i].live)
			continue;
		if (instr_fuses(c, i)) {
			while (end < body->instr_count && (!c->instrs[end].live || c->instrs[end].launch == c->instrs[i].launch))
				end++;
			if (!compile_group(c, i, end))
				return false;
		} else if (instr->kind == INSTR_LOOP) {
			if (!compile_loop(c, instr))
				return false;
		} else if (instr->kind == INSTR_WHILE) {
			compile_while(c, instr);
		} else if (instr->kind == INSTR_END) {
			if (!end_loop(c, instr))
				return false;
		} else {
			compile_call(c, instr);
		}
	}
	copy_outs(c);
	return true;
}
