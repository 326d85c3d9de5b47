/*
 * Loops within a body. A loop stays a loop in the body of a forward run if its slots have the same types after an
 * iteration as before it. Otherwise its iterations are written out.
 *
 * The way to find out is to try: lower one iteration as the loop's, compare, and drop it where the types differ.
 */
#include "ir/lowering.h"

#include <string.h>

/* Appends to SET the slots that NODE and its followers bind, without those local to defs. IN: by slot, it is in SET. */
static void collect_bound(const struct node *node, bool *in, uint32_t *set, size_t *count)
{
	for (; node; node = node->next) {
		if (node->kind == NODE_NAME && !in[node->variable + 1]) {
			in[node->variable + 1] = true;
			set[(*count)++] = node->variable + 1;
		}
		if (node->body)
			collect_bound(node->body, in, set, count);
		if (node->operand.kind == REF_BLOCK)
			collect_bound(node->operand.block, in, set, count);
		for (size_t i = 0; node->kind == NODE_CALL && i < node->def->count; i++)
			if (node->arguments[i].kind == REF_BLOCK)
				collect_bound(node->arguments[i].block, in, set, count);
	}
}

/* An attempt to keep a loop. It carries SLOTS, the current value's first. */
struct kept_loop {
	uint32_t *slots;
	struct carry *carries; /* by SLOTS */
	size_t count;
	uint32_t at; /* its instruction */
	/* The lowering before it: */
	size_t instrs, values, regions;
	int64_t iterations;
	struct streaming streaming;
	bool *used; /* streaming.along, then streaming.whole, by param */
};

/* The slots that the body of NODE binds. *BOUND: all have values here, so that each iteration can begin like the first. */
static enum status find_carried(struct lowering *l, const struct node *node, struct kept_loop *k, bool *bound)
{
	bool *in = arena_array(l->context->arena, l->state.count, sizeof *in);
	k->slots = arena_array(l->context->arena, l->state.count, sizeof *k->slots);
	if (!in || !k->slots || lowering_read_slot(l, 0) == NO_VALUE)
		return lowering_memory(l);
	in[0] = true;
	k->slots[k->count++] = 0;
	collect_bound(node->body, in, k->slots, &k->count);
	*bound = true;
	for (size_t i = 1; i < k->count; i++)
		*bound &= l->env.now[k->slots[i]] != NO_VALUE;
	return STATUS_OK;
}

/* Notes in K all that drop_loop needs. */
static bool save_lowering(const struct lowering *l, struct kept_loop *k)
{
	const size_t params = l->chain->param_count;
	k->instrs = l->body->instr_count;
	k->values = l->body->value_count;
	k->regions = l->body->region_count;
	k->iterations = l->iterations;
	k->streaming = l->streaming;
	k->used = arena_array(l->context->arena, 2 * params + 1, sizeof *k->used);
	if (!k->used)
		return false;
	memcpy(k->used, l->streaming.along, params);
	memcpy(k->used + params, l->streaming.whole, params);
	return true;
}

static enum status open_kept_loop(struct lowering *l, const struct node *node, int64_t iterations, struct kept_loop *k)
{
	struct body *body = l->body;
	k->carries = arena_array(l->context->arena, k->count, sizeof *k->carries);
	const bool saved = save_lowering(l, k);
	struct instr *loop = body_add_instr(body, INSTR_LOOP);
	TRY_ALLOC(k->carries && saved && loop, l->context->diags);
	loop->loop.iterations = iterations;
	loop->level = l->level;
	loop->span = node->span;
	loop->region = l->region;
	k->at = (uint32_t)body->instr_count - 1;
	for (size_t i = 0; i < k->count; i++) {
		struct carry *carry = &k->carries[i];
		carry->init = l->env.now[k->slots[i]];
		const struct value old = body->values[carry->init];
		carry->inner = body_add_value(body, old.type);
		if (carry->inner == NO_VALUE)
			return lowering_memory(l);
		struct value *inner = &body->values[carry->inner];
		*inner = old;
		inner->from = FROM_INSTR;
		inner->instr = k->at;
		inner->names = NULL;
		lowering_write_slot(l, k->slots[i], carry->inner);
	}
	return STATUS_OK;
}

/* True if the slots have the same types after the iteration that was lowered as before it. */
static bool is_stable(const struct lowering *l, const struct kept_loop *k)
{
	const struct value *values = l->body->values;
	for (size_t i = 0; i < k->count; i++) {
		const struct value *was = &values[k->carries[i].inner], *is = &values[l->env.now[k->slots[i]]];
		if (was->type != is->type || was->dtype != is->dtype || was->streamed != is->streamed || was->weak != is->weak)
			return false;
	}
	return true;
}

/* Makes the lowering what it was before K. */
static void drop_loop(struct lowering *l, const struct kept_loop *k)
{
	const size_t params = l->chain->param_count;
	l->body->instr_count = k->instrs;
	l->body->value_count = k->values;
	l->body->region_count = k->regions;
	l->iterations = k->iterations;
	l->streaming = k->streaming;
	memcpy(l->streaming.along, k->used, params);
	memcpy(l->streaming.whole, k->used + params, params);
	for (size_t i = 0; i < k->count; i++)
		l->env.now[k->slots[i]] = k->carries[i].init;
}

static enum status close_kept_loop(struct lowering *l, const struct kept_loop *k)
{
	struct body *body = l->body;
	struct instr *end = body_add_instr(body, INSTR_END);
	TRY_ALLOC(end, l->context->diags);
	const uint32_t at = (uint32_t)body->instr_count - 1;
	end->region = l->region;
	end->loop = (struct loop_part){.match = k->at, .carries = k->carries, .carry_count = (uint32_t)k->count};
	for (size_t i = 0; i < k->count; i++) {
		struct carry *carry = &k->carries[i];
		carry->result = l->env.now[k->slots[i]];
		const struct value old = body->values[carry->inner];
		carry->final = body_add_value(body, old.type);
		if (carry->final == NO_VALUE)
			return lowering_memory(l);
		body->values[carry->final] = old;
		body->values[carry->final].instr = at;
		l->env.now[k->slots[i]] = carry->final;
	}
	struct loop_part *loop = &body->instrs[k->at].loop;
	loop->match = at;
	loop->carries = k->carries;
	loop->carry_count = (uint32_t)k->count;
	return STATUS_OK;
}

/*
 * *ATTEMPT is the number of the attempt that begins. *WORTH: it was not made before, or succeeded. An iteration that is
 * written out meets the same inner loops with the same types as the attempt that failed, so what failed in that
 * fails again. Without this memory, nested loops that change a type would take 3^depth attempts.
 */
static enum status begin_attempt(struct lowering *l, size_t *attempt, bool *worth)
{
	struct attempts *attempts = &l->attempts;
	*attempt = attempts->next++;
	if (*attempt == attempts->count) {
		bool *grown =
			arena_grow(l->context->arena, attempts->kept, attempts->count, &attempts->capacity, sizeof *grown);
		TRY_ALLOC(grown, l->context->diags);
		attempts->kept = grown;
		grown[attempts->count++] = true;
	}
	*worth = attempts->kept[*attempt];
	return STATUS_OK;
}

/* Keeps NODE as a loop of the body if that can be: *STABLE. Otherwise the lowering is as it was. */
static enum status try_loop(struct lowering *l, const struct node *node, int64_t iterations,
                            const struct param_ref *params, bool *stable)
{
	*stable = false;
	if (l->level == MAX_LOOPS)
		return LOWERING_FAIL(l, STATUS_LIMIT, node->span, "loops, those of called defs included, nest deeper than %d",
		                     MAX_LOOPS);
	struct kept_loop k = {0};
	bool bound = false, worth = false;
	size_t attempt;
	enum status status = begin_attempt(l, &attempt, &worth);
	if (status || !worth)
		return status;
	l->attempts.kept[attempt] = false;
	status = find_carried(l, node, &k, &bound);
	if (status || !bound)
		return status;
	status = open_kept_loop(l, node, iterations, &k);
	if (status == STATUS_OK && node->kind == NODE_FOR)
		status = lowering_set_iteration(l, node, params, l->level, 0);
	l->level++;
	if (status == STATUS_OK)
		status = lower_nodes(l, node->body);
	l->level--;
	if (status)
		return status;
	*stable = l->attempts.kept[attempt] = is_stable(l, &k);
	if (*stable)
		return close_kept_loop(l, &k);
	drop_loop(l, &k);
	l->attempts.next = attempt + 1;
	return STATUS_OK;
}

enum status lowering_too_long(struct lowering *l, struct span span)
{
	LOWERING_FAIL(l, STATUS_LIMIT, span, "the chain has more than 10^7 steps when its loops are written out");
	diag_hint(l->context->diags, l->what == LOWER_RUN ? "a loop is written out if it changes the type of a value"
	                                                  : "a forward run (ckptc run) of a loop has no such limit");
	return STATUS_LIMIT;
}

enum status lower_loop(struct lowering *l, const struct node *node)
{
	int64_t iterations;
	struct param_ref *params;
	enum status status = lowering_begin_loop(l, node, &params, &iterations);
	if (!node->body)
		return status;
	for (int64_t i = 0; i < iterations && status == STATUS_OK; i++) {
		bool stable = false;
		/* The first iterations of a `repeat` may change a type, and the others be alike. */
		if (l->what == LOWER_RUN && iterations - i > 1 && (node->kind == NODE_REPEAT || i == 0))
			status = try_loop(l, node, iterations - i, params, &stable);
		if (status || stable)
			return status;
		/* Iterations are counted too: those of an empty body make no instructions, but take time. */
		if (l->body->instr_count > MAX_OPERATIONS || ++l->iterations > MAX_OPERATIONS)
			return lowering_too_long(l, node->span);
		if (node->kind == NODE_FOR)
			status = lowering_set_iteration(l, node, params, -1, i);
		if (status == STATUS_OK)
			status = lower_nodes(l, node->body);
	}
	return status;
}
