/*
 * Loops within a body. One whose slots have the same types before and after a iteration
 * stays a loop in the body of a forward run; else its iterations are written out.
 */
#include "ir/lowering.h"

#include <string.h>

/* Slots that NODES bind (not those local to defs), appended to SET where not there. */
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

/* A loop that is kept as one in the body: its slots, the current value's first, are carried from iteration to iteration. */
struct kept_loop {
	uint32_t *slots;
	struct carry *carries; /* by SLOTS */
	size_t count;
	uint32_t at; /* its instruction */
	/* What there was before it. */
	size_t instrs, values, regions;
	int64_t iterations;
	bool sums, mixes, streamable, flat;
	bool *used; /* streamed, then whole, by params */
};

/* The slots that the body of NODE binds. *BOUND: all have values here, as they must where a iteration is to be like the next. */
static enum status find_carried(struct lowering *l, const struct node *node, struct kept_loop *k, bool *bound)
{
	bool *in = arena_array(l->context->arena, l->slot_count, sizeof *in);
	k->slots = arena_array(l->context->arena, l->slot_count, sizeof *k->slots);
	if (!in || !k->slots || lowering_read_slot(l, 0) == NO_VALUE)
		return lowering_memory(l);
	in[0] = true;
	k->slots[k->count++] = 0;
	collect_bound(node->body, in, k->slots, &k->count);
	*bound = true;
	for (size_t i = 1; i < k->count; i++)
		*bound &= l->now[k->slots[i]] != NO_VALUE;
	return STATUS_OK;
}

static enum status open_loop(struct lowering *l, const struct node *node, int64_t iterations, struct kept_loop *k)
{
	struct body *body = l->body;
	k->instrs = body->instr_count;
	k->values = body->value_count;
	k->regions = body->region_count;
	k->iterations = l->iterations;
	k->sums = l->out->sums;
	k->mixes = l->mixes;
	k->streamable = l->out->streamable;
	k->flat = l->out->flat;
	k->carries = arena_array(l->context->arena, k->count, sizeof *k->carries);
	k->used = arena_array(l->context->arena, 2 * l->chain->param_count + 1, sizeof *k->used);
	struct instr *loop = body_add_instr(body, INSTR_LOOP);
	if (!k->carries || !k->used || !loop)
		return lowering_memory(l);
	const size_t params = l->chain->param_count;
	memcpy(k->used, l->used_streamed, params);
	memcpy(k->used + params, l->used_whole, params);
	loop->loop.iterations = iterations;
	loop->level = l->level;
	loop->span = node->span;
	loop->region = l->region;
	k->at = (uint32_t)body->instr_count - 1;
	for (size_t i = 0; i < k->count; i++) {
		struct carry *carry = &k->carries[i];
		carry->init = l->now[k->slots[i]];
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

/* Whether the slots have the same types after the iteration that has been lowered as before it. */
static bool is_stable(const struct lowering *l, const struct kept_loop *k)
{
	const struct value *values = l->body->values;
	for (size_t i = 0; i < k->count; i++) {
		const struct value *was = &values[k->carries[i].inner], *is = &values[l->now[k->slots[i]]];
		if (was->type != is->type || was->dtype != is->dtype || was->streamed != is->streamed || was->weak != is->weak)
			return false;
	}
	return true;
}

/* Everything is as it was. */
static void drop_loop(struct lowering *l, const struct kept_loop *k)
{
	const size_t params = l->chain->param_count;
	l->body->instr_count = k->instrs;
	l->body->value_count = k->values;
	l->body->region_count = k->regions;
	l->iterations = k->iterations;
	l->out->sums = k->sums;
	l->mixes = k->mixes;
	l->out->streamable = k->streamable;
	l->out->flat = k->flat;
	memcpy(l->used_streamed, k->used, params);
	memcpy(l->used_whole, k->used + params, params);
	for (size_t i = 0; i < k->count; i++)
		l->now[k->slots[i]] = k->carries[i].init;
}

static enum status close_loop(struct lowering *l, const struct kept_loop *k)
{
	struct body *body = l->body;
	struct instr *end = body_add_instr(body, INSTR_END);
	if (!end)
		return lowering_memory(l);
	uint32_t end_at = (uint32_t)body->instr_count - 1;
	end->loop.match = k->at;
	end->region = l->region;
	for (size_t i = 0; i < k->count; i++) {
		struct carry *carry = &k->carries[i];
		carry->result = l->now[k->slots[i]];
		const struct value old = body->values[carry->inner];
		carry->final = body_add_value(body, old.type);
		if (carry->final == NO_VALUE)
			return lowering_memory(l);
		body->values[carry->final] = old;
		body->values[carry->final].instr = end_at;
		l->now[k->slots[i]] = carry->final;
	}
	body->instrs[k->at].loop.match = end_at;
	body->instrs[k->at].loop.carries = body->instrs[end_at].loop.carries = k->carries;
	body->instrs[k->at].loop.carry_count = body->instrs[end_at].loop.carry_count = (uint32_t)k->count;
	return STATUS_OK;
}

/*
 * The number of the attempt that begins, in *ATTEMPT, and in *WORTH whether it is to be made: a iteration that is
 * written out after an attempt meets the same loops with the same types, so that what failed in it fails again.
 * Without this, loops within each other that change a type would take a time of three to the power of their depth.
 */
static enum status begin_attempt(struct lowering *l, size_t *attempt, bool *worth)
{
	*attempt = l->attempt++;
	if (*attempt == l->attempt_count) {
		bool *grown = arena_grow(l->context->arena, l->kept, l->attempt_count, &l->attempt_capacity, sizeof *grown);
		if (!grown)
			return lowering_memory(l);
		l->kept = grown;
		grown[l->attempt_count++] = true;
	}
	*worth = l->kept[*attempt];
	return STATUS_OK;
}

/*
 * A loop kept as one in a body: true in *STABLE where the slots that it binds
 * have the same types after a iteration as before; else everything is as it was.
 */
static enum status try_loop(struct lowering *l, const struct node *node, int64_t iterations,
                            const struct param_ref *refs, bool *stable)
{
	if (l->level == MAX_LOOPS)
		return diag_at(l->context->diags, STATUS_LIMIT, l->chain->source, node->span,
		               "loops within each other, defs included, are more than %d", MAX_LOOPS);
	struct kept_loop k = {0};
	bool bound = false, worth = false;
	size_t attempt;
	enum status status = begin_attempt(l, &attempt, &worth);
	*stable = false;
	if (status || !worth)
		return status;
	l->kept[attempt] = false;
	status = find_carried(l, node, &k, &bound);
	if (status || !bound)
		return status;
	status = open_loop(l, node, iterations, &k);
	if (status == STATUS_OK && node->kind == NODE_FOR)
		status = lowering_set_iteration(l, node, refs, (struct index){l->level, 0}, 0);
	l->level++;
	if (status == STATUS_OK)
		status = lower_nodes(l, node->body);
	l->level--;
	if (status)
		return status;
	*stable = l->kept[attempt] = is_stable(l, &k);
	if (*stable)
		return close_loop(l, &k);
	drop_loop(l, &k);
	l->attempt = attempt + 1;
	return STATUS_OK;
}

enum status lowering_too_long(struct lowering *l, struct span span)
{
	diag_at(l->context->diags, STATUS_LIMIT, l->chain->source, span,
	        "the chain has more than 10^7 steps when it is unrolled");
	diag_hint(l->context->diags, l->what == LOWER_RUN
	                                 ? "iterations of a loop that change the type of a value are written out"
	                                 : "a forward run (ckptc run) of a loop has no such limit");
	return STATUS_LIMIT;
}

enum status lower_loop(struct lowering *l, const struct node *node)
{
	int64_t iterations, iteration = 0;
	struct param_ref *refs;
	enum status status = lowering_begin_loop(l, node, &refs, &iterations);
	bool keep = l->what == LOWER_RUN;
	if (!node->body)
		return status;
	for (; iteration < iterations && status == STATUS_OK; iteration++) {
		bool stable = false;
		if (keep && iterations - iteration > 1 && (node->kind == NODE_REPEAT || iteration == 0)) {
			status = try_loop(l, node, iterations - iteration, refs, &stable);
			if (status || stable)
				return status;
		}
		if (l->body->instr_count > MAX_OPERATIONS ||
		    ++l->iterations > MAX_OPERATIONS) /* iterations of nothing take time, too */
			return lowering_too_long(l, node->span);
		if (node->kind == NODE_FOR)
			status = lowering_set_iteration(l, node, refs, (struct index){-1, iteration}, iteration);
		if (status == STATUS_OK)
			status = lower_nodes(l, node->body);
	}
	return status;
}
