/*
 * Loops within a body. A loop of two iterations or more stays one in the body of a forward run if it is stable. Each
 * slot that it binds then has a value before, and the same type after an iteration. Other iterations are written out.
 *
 * The test is an attempt: lower one iteration as the loop's body, compare the types, and drop it if they differ.
 * Tests: tests/unit/test_lower.c
 */
#include "ir/lowering.h"

#include <string.h>

/* The iterations that a kept loop has: so many, from the iteration FIRST of the chain's loop on. */
struct kept_range {
	int64_t first, iterations;
};

/* An attempt to keep a loop, which carries the slots SLOTS, the current value's first. */
struct kept_loop {
	uint32_t *slots;
	struct carry *carries; /* by SLOTS */
	size_t count;
	uint32_t at; /* index of its INSTR_LOOP */
	/* What drop_loop restores: */
	size_t values, regions;
	int64_t iterations;
	uint64_t *drawn;
	uint32_t conditions;
	int64_t met, steps;
	struct preludes preludes;
	struct streaming streaming;
	bool *used; /* streaming.along, then streaming.whole, by param */
};

static void collect_bound(const struct frame *frame, const struct node *node, bool *in, struct kept_loop *k);

/* Does as collect_bound if REF, in a block of FRAME, is a block, a term, or an argument that is a block. */
static void collect_ref(const struct frame *frame, const struct ref *ref, bool *in, struct kept_loop *k)
{
	const struct found *argument = ref->kind == REF_ARGUMENT ? &frame->arguments[ref->index] : NULL;
	if (ref->kind == REF_BLOCK) {
		collect_bound(frame, ref->block, in, k);
	} else if (ref->kind == REF_TERM) {
		collect_ref(frame, &ref->term->before, in, k);
		collect_ref(frame, &ref->term->value, in, k);
		collect_bound(frame, ref->term->first, in, k);
	} else if (argument && argument->kind == FOUND_BLOCK) {
		collect_bound(argument->frame, argument->block, in, k);
	}
}

static void collect_variable(uint32_t variable, bool *in, struct kept_loop *k)
{
	if (!in[variable + 1])
		k->slots[k->count++] = variable + 1;
	in[variable + 1] = true;
}

/*
 * Appends to K->slots those that NODE and its successors, in a block of FRAME, bind. Leaves out those local to the defs
 * that they call. IN, by slot: K has it.
 */
static void collect_bound(const struct frame *frame, const struct node *node, bool *in, struct kept_loop *k)
{
	for (; node; node = node->next) {
		if (node->kind == NODE_NAME || node->kind == NODE_COLLECT)
			collect_variable(node->variable, in, k);
		if (node->body && node->kind != NODE_FIXED_POINT) /* names of its block end with it */
			collect_bound(frame, node->body, in, k);
		collect_ref(frame, &node->operand, in, k);
		for (int i = 1; node->kind == NODE_OP && i < op_most_operands(node->op); i++)
			collect_ref(frame, &node->more[i - 1], in, k);
		for (uint32_t i = 0; node->kind == NODE_PROGRAM && i < node->operand_count; i++)
			collect_ref(frame, &node->operands[i], in, k);
		if (node->kind != NODE_CALL)
			continue;
		for (size_t i = 0; i < node->def->export_count; i++)
			collect_variable(node->exports[i], in, k);
		for (size_t i = 0; i < node->def->count; i++)
			collect_ref(frame, &node->arguments[i], in, k);
	}
}

/* Sets K->slots to slot 0 and the slots that the body of NODE binds. False where memory is short. */
static bool find_carried(struct lowering *l, const struct node *node, struct kept_loop *k)
{
	bool *in = arena_array(l->context->arena, l->state.count, sizeof *in);
	k->slots = arena_array(l->context->arena, l->state.count, sizeof *k->slots);
	if (!in || !k->slots || lowering_read_slot(l, 0) == NO_VALUE)
		return false;
	in[0] = true;
	k->slots[k->count++] = 0;
	collect_bound(l->names.frame, node->body, in, k);
	return true;
}

/* Saves in K what drop_loop restores, and begins the loop in the body. False where memory is short. */
static bool open_kept_loop(struct lowering *l, const struct node *node, struct kept_range range, struct kept_loop *k)
{
	struct body *body = l->body;
	const size_t used = 2 * l->chain->param_count;
	k->at = (uint32_t)body->instr_count;
	k->values = body->value_count;
	k->regions = body->region_count;
	k->iterations = l->iterations;
	k->drawn = arena_array(l->context->arena, l->streams, sizeof *k->drawn);
	k->conditions = l->conditions;
	k->met = l->way.met;
	k->steps = l->steps;
	k->preludes = l->preludes;
	k->streaming = l->streaming;
	k->used = arena_array(l->context->arena, used + 1, sizeof *k->used);
	k->carries = arena_array(l->context->arena, k->count, sizeof *k->carries);
	struct instr *loop = body_add_instr(body, INSTR_LOOP);
	if (!k->used || !k->carries || !k->drawn || !loop)
		return false;
	memcpy(k->drawn, l->drawn, l->streams * sizeof *k->drawn);
	memcpy(k->used, l->streaming.along, used);
	loop->loop.iterations = range.iterations;
	loop->loop.first = range.first;
	loop->level = l->level;
	loop->span = node->span;
	loop->region = l->region;
	for (size_t i = 0; i < k->count; i++) {
		struct carry *carry = &k->carries[i];
		carry->init = l->env.now[k->slots[i]];
		const struct value old = body->values[carry->init];
		carry->inner = body_add_value(body, old.type);
		if (carry->inner == NO_VALUE)
			return false;
		struct value *inner = &body->values[carry->inner];
		*inner = old;
		inner->from = FROM_INSTR;
		inner->instr = k->at;
		inner->names = NULL;
		lowering_write_slot(l, k->slots[i], carry->inner);
	}
	return true;
}

/* True if the lowered iteration kept each carried slot's type, dtype, streamed, weak and condition. */
static bool is_stable(const struct lowering *l, const struct kept_loop *k)
{
	const struct value *values = l->body->values;
	for (size_t i = 0; i < k->count; i++) {
		const struct value *was = &values[k->carries[i].inner], *is = &values[l->env.now[k->slots[i]]];
		if (was->type != is->type || was->dtype != is->dtype || was->streamed != is->streamed ||
		    was->weak != is->weak || was->condition != is->condition)
			return false;
	}
	return true;
}

/* Undoes the attempt K. Only the names that it gave to older values, and marks in env.written, stay. */
static void drop_loop(struct lowering *l, const struct kept_loop *k)
{
	l->body->instr_count = k->at;
	l->body->value_count = k->values;
	l->body->region_count = k->regions;
	l->iterations = k->iterations;
	memcpy(l->drawn, k->drawn, l->streams * sizeof *k->drawn);
	l->conditions = k->conditions;
	l->way.met = k->met;
	l->steps = k->steps;
	l->preludes.count = k->preludes.count;
	l->preludes.bound = k->preludes.bound;
	l->streaming = k->streaming;
	memcpy(l->streaming.along, k->used, 2 * l->chain->param_count);
	for (size_t i = 0; i < k->count; i++)
		l->env.now[k->slots[i]] = k->carries[i].init;
}

/*
 * If the result of CARRY is the array that the loop collects, the loop carries nothing: each iteration writes a part of the
 * array that was there before the loop. Then returns true.
 */
static bool collects_in_place(struct body *body, const struct carry *carry)
{
	const struct value *result = &body->values[carry->result];
	struct instr *instr = result->from == FROM_INSTR ? &body->instrs[result->instr] : NULL;
	if (!instr || instr->op != OP_COLLECT || instr->a != carry->inner)
		return false;
	instr->a = carry->init;
	return true;
}

/* Ends the loop of K in the body. False where memory is short. */
static bool close_kept_loop(struct lowering *l, const struct kept_loop *k)
{
	struct body *body = l->body;
	struct instr *end = body_add_instr(body, INSTR_END);
	if (!end)
		return false;
	const uint32_t at = (uint32_t)body->instr_count - 1;
	end->region = l->region;
	end->loop = (struct loop_part){.match = k->at, .carries = k->carries, .carry_count = (uint32_t)k->count};
	uint32_t count = 0;
	for (size_t i = 0; i < k->count; i++) {
		struct carry *carry = &k->carries[i];
		carry->result = l->env.now[k->slots[i]];
		if (collects_in_place(body, carry))
			continue;
		const struct value old = body->values[carry->inner];
		carry->final = body_add_value(body, old.type);
		if (carry->final == NO_VALUE)
			return false;
		body->values[carry->final] = old;
		body->values[carry->final].instr = at;
		l->env.now[k->slots[i]] = carry->final;
		k->carries[count++] = *carry;
	}
	body->instrs[at].loop.carry_count = count;
	struct loop_part *loop = &body->instrs[k->at].loop;
	loop->match = at;
	loop->carry_count = count;
	loop->carries = k->carries;
	return true;
}

struct stream_loop *lowering_begin_streams(struct lowering *l, int32_t level, int64_t first)
{
	struct stream_loop *loops = arena_array(l->context->arena, l->streams, sizeof *loops);
	for (size_t i = 0; loops && i < l->streams; i++)
		loops[i] =
			(struct stream_loop){.level = level, .first = first, .outer = l->stream_loops ? &l->stream_loops[i] : NULL};
	return loops ? l->stream_loops = loops : NULL;
}

void lowering_end_streams(struct lowering *l, const uint64_t *before, int64_t iterations)
{
	struct stream_loop *loops = l->stream_loops;
	for (size_t i = 0; i < l->streams; i++) {
		loops[i].step = l->drawn[i] - before[i];
		l->drawn[i] = before[i] + loops[i].step * (uint64_t)iterations;
	}
	l->stream_loops = loops->outer;
}

/*
 * Begins an attempt, *ATTEMPT. It is worth making, and so marked in l->attempts.kept, if it is new or succeeded before.
 * The iteration written out after an attempt that failed meets the same inner loops with the same types, so what failed
 * in that fails again. Without this record, nested loops that change a type would take 3^depth attempts.
 */
static bool begin_attempt(struct lowering *l, size_t *attempt)
{
	struct attempts *attempts = &l->attempts;
	*attempt = attempts->next++;
	if (*attempt < attempts->count)
		return true;
	bool *kept = arena_append(l->context->arena, &attempts->kept, &attempts->count, &attempts->capacity, sizeof *kept);
	if (kept)
		*kept = true;
	return kept != NULL;
}

static enum status check_level(struct lowering *l, const struct loop *loop)
{
	if (l->level < MAX_LOOPS)
		return STATUS_OK;
	return LOWERING_FAIL(l, STATUS_LIMIT, loop->node->span, "loops, those of called defs included, nest deeper than %d",
	                     MAX_LOOPS);
}

/*
 * True if the loop of K, of ITERATIONS, is written out so that passes over the rows can run it. Then each iteration folds
 * the rows, and passes can run the chain so far.
 */
static bool unrolls(struct lowering *l, const struct loop *loop, const struct kept_loop *k, int64_t iterations)
{
	const int64_t folds = l->streaming.folds - k->streaming.folds;
	/* Of a tile, which may have one row and so broadcast where the array does not, the array's reasons count. */
	if (folds == 0 || (l->streaming.because.reason && !l->rows))
		return false;
	if (folds <= MAX_LEVELS && iterations <= (MAX_LEVELS - k->streaming.folds) / folds)
		return true;
	lowering_need_whole(l, loop->node->span, "its iterations fold the rows too often for passes over the input");
	return false;
}

/* Tries to keep RANGE of LOOP, its last iterations, as a loop of the body. *STABLE says if it did; if not, L is as before. */
static enum status try_loop(struct lowering *l, const struct loop *loop, struct kept_range range, bool *stable)
{
	*stable = false;
	TRY(check_level(l, loop));
	struct kept_loop k = {0};
	size_t attempt;
	TRY_ALLOC(begin_attempt(l, &attempt), l->context->diags);
	if (!l->attempts.kept[attempt])
		return STATUS_OK;
	l->attempts.kept[attempt] = false;
	TRY_ALLOC(find_carried(l, loop->node, &k), l->context->diags);
	for (size_t i = 1; i < k.count; i++)
		if (l->env.now[k.slots[i]] == NO_VALUE)
			return STATUS_OK; /* the slot has a value before each iteration but the first */
	TRY_ALLOC(open_kept_loop(l, loop->node, range, &k), l->context->diags);
	TRY(lowering_set_iteration(l, loop, l->level, range.first));
	TRY_ALLOC(lowering_begin_streams(l, l->level++, range.first), l->context->diags);
	l->way.attempts++;
	TRY(lower_nodes(l, loop->node->body));
	if (l->counts_steps && lowering_owes_step(l, k.preludes.count)) {
		lowering_count_step(l);
		TRY(lowering_meet_step(l, loop->node->span));
	}
	l->way.attempts--;
	l->level--;
	lowering_end_streams(l, k.drawn, range.iterations);
	lowering_repeat_count(l, k.met, range.iterations);
	*stable = l->attempts.kept[attempt] =
		is_stable(l, &k) && !unrolls(l, loop, &k, range.iterations) && lowering_is_before_place(l);
	if (*stable) {
		TRY_ALLOC(close_kept_loop(l, &k), l->context->diags);
		return STATUS_OK;
	}
	drop_loop(l, &k);
	l->attempts.next = attempt + 1;
	return STATUS_OK;
}

/* `repeat while`. */

enum status lowering_apart(struct lowering *l, const struct node *first, uint32_t *value)
{
	struct kept_loop bound = {.slots = arena_array(&l->scratch, l->state.count, sizeof *bound.slots)};
	bool *in = arena_array(&l->scratch, l->state.count, sizeof *in);
	uint32_t *saved = arena_array(&l->scratch, l->state.count, sizeof *saved);
	uint64_t *drawn = arena_array(&l->scratch, l->streams, sizeof *drawn);
	TRY_ALLOC(bound.slots && in && saved && drawn && lowering_read_slot(l, 0) != NO_VALUE, l->context->diags);
	collect_variable(UINT32_MAX, in, &bound); /* slot 0 */
	collect_bound(l->names.frame, first, in, &bound);
	for (size_t i = 0; i < bound.count; i++)
		saved[i] = l->env.now[bound.slots[i]];
	memcpy(drawn, l->drawn, l->streams * sizeof *drawn);
	const bool written = l->env.written[0];
	TRY(lower_nodes(l, first));
	*value = l->env.now[0];
	for (size_t i = 0; i < bound.count; i++)
		l->env.now[bound.slots[i]] = saved[i];
	l->env.written[0] = written;
	memcpy(l->drawn, drawn, l->streams * sizeof *drawn);
	return STATUS_OK;
}

enum status lowering_condition(struct lowering *l, const struct node *node, uint32_t *value)
{
	const bool within = l->in_condition;
	l->in_condition = true;
	TRY(lowering_apart(l, node->condition, value));
	l->in_condition = within;
	const struct type *type = l->body->values[*value].type;
	char text[TYPE_TEXT];
	if (shape_count(&type->shape) == 1)
		return STATUS_OK;
	LOWERING_FAIL(l, STATUS_CHAIN, node->span, "the condition of `repeat while` is one number, not %s",
	              type_format(type, text));
	return diag_hint(l->context->diags, "reduce it, as in `repeat while { norm; sub 1e-6 } max=100 { ... }`");
}

enum status lowering_make_strong(struct lowering *l, const struct node *node, uint32_t slot, enum dtype dtype)
{
	uint32_t *value = &l->env.now[slot];
	if (!l->body->values[*value].weak)
		return STATUS_OK;
	TRY(lowering_convert(l, value, dtype, node->span));
	const struct value *old = &l->body->values[*value];
	TRY(lowering_apply(l, lowering_add_op(l, OP_identity, NULL, node->span), old->type, old->dtype, value));
	l->body->values[*value].weak = false;
	return STATUS_OK;
}

/* Reports which of the slots that K, the loop NODE, carries changes its type. */
static enum status changes_type(struct lowering *l, const struct node *node, const struct kept_loop *k)
{
	const struct value *values = l->body->values;
	size_t i = 0;
	while (values[k->carries[i].inner].type == values[l->env.now[k->slots[i]]].type &&
	       values[k->carries[i].inner].dtype == values[l->env.now[k->slots[i]]].dtype)
		i++;
	const struct value *was = &values[k->carries[i].inner], *is = &values[l->env.now[k->slots[i]]];
	const struct type before = {was->dtype, was->type->shape}, after = {is->dtype, is->type->shape};
	const char *name = k->slots[i] ? l->chain->variables[k->slots[i] - 1] : NULL;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	LOWERING_FAIL(l, STATUS_CHAIN, node->span,
	              "an iteration of `repeat while` changes the type of %s%s%s: %s becomes %s", name ? "'" : "its value",
	              name ? name : "", name ? "'" : "", type_format(&before, a), type_format(&after, b));
	return diag_hint(l->context->diags, "its number of iterations is not known, so each must keep all types");
}

/* Drops from K the slots that have no value before the loop, and puts them into UNSET: they have none after it. */
static void drop_unset(const struct lowering *l, struct kept_loop *k, struct kept_loop *unset)
{
	size_t count = 0;
	for (size_t i = 0; i < k->count; i++)
		if (l->env.now[k->slots[i]] == NO_VALUE)
			unset->slots[unset->count++] = k->slots[i];
		else
			k->slots[count++] = k->slots[i];
	k->count = count;
}

/* Lowers the condition and one iteration of LOOP, which K keeps. */
static enum status lower_iteration(struct lowering *l, const struct loop *loop, struct kept_loop *k)
{
	const struct node *node = loop->node;
	uint32_t condition;
	for (size_t i = 0; i < k->count; i++)
		l->body->values[k->carries[i].inner].streamed = false;
	TRY_ALLOC(lowering_begin_streams(l, l->level++, 0), l->context->diags);
	const uint32_t number = l->in_condition ? NO_VALUE : l->outermost;
	l->conditions += !l->in_condition;
	l->out->nests |= l->in_condition;
	TRY(lowering_condition(l, node, &condition));
	struct instr *instr = body_add_instr(l->body, INSTR_WHILE);
	TRY_ALLOC(instr, l->context->diags);
	instr->v = condition;
	instr->span = node->span;
	instr->region = l->region;
	instr->loop = (struct loop_part){.iterations = loop->iterations,
	                                 .match = k->at,
	                                 .condition = number,
	                                 .streams = l->stream_loops,
	                                 .stream_count = l->streams};
	l->loops++;
	l->way.attempts++;
	TRY(lower_nodes(l, node->body));
	l->way.attempts--;
	l->loops--;
	TRY(lowering_check_count(l, node, k->met));
	for (size_t i = 0; i < k->count; i++)
		if (!l->body->values[k->carries[i].inner].weak)
			TRY(lowering_make_strong(l, node, k->slots[i], l->body->values[k->carries[i].inner].dtype));
	l->level--;
	lowering_end_streams(l, k->drawn, loop->iterations);
	return STATUS_OK;
}

/* Lowers LOOP, a `repeat while`, as a loop that carries the slots of K. */
static enum status lower_carried(struct lowering *l, const struct loop *loop, struct kept_loop *k)
{
	const int64_t most = loop->iterations + (loop->iterations < INT64_MAX);
	TRY_ALLOC(open_kept_loop(l, loop->node, (struct kept_range){.iterations = most}, k), l->context->diags);
	TRY(lower_iteration(l, loop, k));
	for (size_t i = 0; i < k->count; i++) /* rows mix anyway */
		l->body->values[l->env.now[k->slots[i]]].streamed = false;
	return STATUS_OK;
}

/*
 * Drops K, the loop NODE, if its iteration has made arrays of a type of weak values. They get this type before the loop, which
 * can be lowered again. *DONE says whether there are any.
 */
static enum status strengthen(struct lowering *l, const struct node *node, struct kept_loop *k, bool *done)
{
	enum dtype *to = arena_array(&l->scratch, k->count, sizeof *to);
	TRY_ALLOC(to, l->context->diags);
	*done = false;
	for (size_t i = 0; i < k->count; i++) {
		const struct value *was = &l->body->values[k->carries[i].inner];
		const struct value *is = &l->body->values[l->env.now[k->slots[i]]];
		to[i] = was->weak && !is->weak ? is->dtype : DTYPE_COUNT;
		*done |= to[i] != DTYPE_COUNT;
	}
	if (!*done)
		return STATUS_OK;
	drop_loop(l, k);
	for (size_t i = 0; i < k->count; i++)
		if (to[i] != DTYPE_COUNT)
			TRY(lowering_make_strong(l, node, k->slots[i], to[i]));
	return STATUS_OK;
}

/*
 * Keeps LOOP, a `repeat while`, as a loop of the body. It has an iteration more than the most that run: the last one
 * has the condition alone. A name that only its block binds has no value after it, for no iteration may run.
 */
static enum status lower_while(struct lowering *l, const struct loop *loop)
{
	const struct node *node = loop->node;
	struct kept_loop k = {0}, unset = {.slots = arena_array(&l->scratch, l->state.count, sizeof *unset.slots)};
	TRY(check_level(l, loop));
	TRY_ALLOC(unset.slots && find_carried(l, node, &k), l->context->diags);
	drop_unset(l, &k, &unset);
	bool strengthened;
	do {
		TRY(lower_carried(l, loop, &k));
		strengthened = false;
		if (!is_stable(l, &k))
			TRY(strengthen(l, node, &k, &strengthened));
	} while (strengthened);
	if (!is_stable(l, &k))
		return changes_type(l, node, &k);
	TRY_ALLOC(close_kept_loop(l, &k), l->context->diags);
	for (size_t i = 0; i < unset.count; i++)
		l->env.now[unset.slots[i]] = NO_VALUE;
	return STATUS_OK;
}

enum status lowering_too_long(struct lowering *l, struct span span)
{
	LOWERING_FAIL(l, STATUS_LIMIT, span, "the chain has more than 10^7 steps when its loops are written out");
	return diag_hint(l->context->diags, l->what == LOWER_RUN ? "a loop is written out if it changes the type of a value"
	                                                         : "a forward run (ckptc run) of a loop has no such limit");
}

/* Marks in IN, by slot, those that a `collect` of NODE and its successors makes. */
static void mark_collected(const struct node *node, bool *in)
{
	for (; node; node = node->next)
		if (node->kind == NODE_COLLECT)
			in[node->variable + 1] = true;
		else if (node->kind == NODE_CHECKPOINT)
			mark_collected(node->body, in);
}

/*
 * Lowers an iteration of LOOP, which has none, since only that tells the types that the loop collects. Arrays of no parts
 * become the values of these slots; all other slots are as before, and so are the streams of dropouts.
 */
static enum status lower_collected_types(struct lowering *l, const struct loop *loop)
{
	struct kept_loop bound = {0};
	bool *collected = arena_array(&l->scratch, l->state.count, sizeof *collected);
	bool *written = arena_array(&l->scratch, l->state.count, sizeof *written);
	uint32_t *now = arena_array(&l->scratch, l->state.count, sizeof *now);
	uint64_t *drawn = arena_array(&l->scratch, l->streams, sizeof *drawn);
	TRY_ALLOC(collected && written && now && drawn && find_carried(l, loop->node, &bound), l->context->diags);
	mark_collected(loop->node->body, collected);
	memcpy(written, l->env.written, l->state.count * sizeof *written);
	memcpy(now, l->env.now, l->state.count * sizeof *now);
	memcpy(drawn, l->drawn, l->streams * sizeof *drawn);
	const bool counts = l->counts_steps;
	if (counts) {
		l->step = l->steps;
		lowering_count_step(l);
	}
	l->counts_steps = false;
	l->loops++;
	const bool unbound = l->way.unbound;
	l->way.unbound = true;
	TRY(lowering_set_iteration(l, loop, -1, 0));
	TRY(lower_nodes(l, loop->node->body));
	l->way.unbound = unbound;
	l->loops--;
	l->counts_steps = counts;
	memcpy(l->drawn, drawn, l->streams * sizeof *drawn);
	for (size_t i = 0; i < bound.count; i++)
		if (!collected[bound.slots[i]]) {
			l->env.now[bound.slots[i]] = now[bound.slots[i]];
			l->env.written[bound.slots[i]] = written[bound.slots[i]];
		}
	return STATUS_OK;
}

enum status lower_loop(struct lowering *l, const struct node *node)
{
	struct loop loop;
	const struct collecting around = l->collecting;
	const int64_t before = l->way.met;
	TRY(lowering_begin_loop(l, node, &loop));
	if (lowering_collects_nothing(&loop)) {
		TRY(lower_collected_types(l, &loop));
		l->collecting = around;
		return lowering_meet_collected(l, node);
	}
	if (node->kind == NODE_REPEAT && node->conditional && l->what == LOWER_RUN)
		return lower_while(l, &loop);
	l->loops++;
	int64_t each = 0; /* of the way to the place: what the last iteration has met */
	for (int64_t i = 0; i < loop.iterations; i++) {
		bool stable = false;
		/* The first iterations of a `repeat` may change a type that the later ones keep. The first may begin arrays. */
		const bool may_begin =
			node->collects || lowering_seeks_end(l) ? i > 0 : node->kind == NODE_REPEAT || node->counter || i == 0;
		const int64_t met = l->way.met, most = lowering_before_place(l, each, loop.iterations - i);
		if (l->what == LOWER_RUN && most > 1 && may_begin)
			TRY(try_loop(l, &loop, (struct kept_range){i, most}, &stable));
		if (stable) {
			if (most < loop.iterations - i) /* those that follow differ from what an attempt around here has met */
				l->attempts.count = l->attempts.next;
			i += most - 1;
			continue;
		}
		/* Iterations are counted too: those of a body without operations make no instructions, but take time. */
		if (l->steps > MAX_STEPS || l->body->instr_count > MAX_OPERATIONS || ++l->iterations > MAX_OPERATIONS)
			return lowering_too_long(l, node->span);
		TRY(lowering_set_iteration(l, &loop, -1, i));
		const size_t preludes = l->preludes.count;
		TRY(lower_nodes(l, node->body));
		if (l->counts_steps && lowering_owes_step(l, preludes)) {
			lowering_count_step(l);
			TRY(lowering_meet_step(l, node->span));
		}
		each = l->way.met - met;
	}
	l->loops--;
	l->collecting = around;
	TRY(lowering_check_count(l, node, before));
	return lowering_meet_collected(l, node);
}
