/*
 * One body for all steps that differ in their particulars alone (struct particulars). A chain that is written out has
 * as many steps as stages. Most have the same few bodies, so each of these is linearised and compiled once.
 *
 * So a stage of a written-out chain takes hundreds of bytes, not thousands. tests/scripts/check-memory bounds them.
 *
 * The draft's body lies in the scratch arena. Its particulars are moved to the step, and its parts are then kept once
 * each by their bytes. What two steps share is never written again.
 *
 * Invariant: whatever the compiler decides by, such as types and operations, stays in the body. A number stays there
 * too if it chooses the operation (op_by_number), and names do if a checkpoint block's policy may look at them.
 * Tests: tests/unit/test_lower.c
 */
#include "ir/lowering.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

const struct naming NAMED_BY_STEP = {.name = ""};

/* The particulars that are being collected. */
struct collected {
	uint32_t *slots;
	double *scalars;
	struct param_ref *params;
	const struct stream **streams;
	struct span *spans;
	const struct naming **naming;
	size_t slot_count, scalar_count, param_count, stream_count, span_count;
	bool named;
};

static bool collect_begin(struct collected *to, const struct body *body, struct arena *arena)
{
	*to = (struct collected){.slots = arena_array(arena, body->in_count + body->out_count + 1, sizeof *to->slots),
	                         .scalars = arena_array(arena, MOST_CONSTANTS * body->instr_count + 1, sizeof *to->scalars),
	                         .params = arena_array(arena, body->value_count + 1, sizeof *to->params),
	                         .streams = arena_array(arena, body->instr_count + 1, sizeof *to->streams),
	                         .spans = arena_array(arena, body->instr_count + 1, sizeof *to->spans),
	                         .naming = arena_array(arena, body->value_count + 1, sizeof *to->naming)};
	return !arena->failed;
}

/* Gives the ports the indices of their slots. */
static void take_slots(struct collected *to, struct body *body)
{
	struct port *const lists[] = {body->ins, body->outs};
	const size_t counts[] = {body->in_count, body->out_count};
	size_t count = 0;
	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < counts[k]; i++)
			to->slots[count++] = lists[k][i].index;
	qsort(to->slots, count, sizeof *to->slots, compare_indices);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || to->slots[i] != to->slots[to->slot_count - 1])
			to->slots[to->slot_count++] = to->slots[i];
	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < counts[k]; i++) {
			const uint32_t *slot =
				bsearch(&lists[k][i].index, to->slots, to->slot_count, sizeof *to->slots, compare_indices);
			lists[k][i].index = (uint32_t)(slot - to->slots);
		}
}

static void take_values(struct collected *to, struct body *body)
{
	bool by_name = false;
	for (size_t i = 0; i < body->region_count; i++)
		by_name |= body->regions[i].policy != NULL;
	for (size_t i = 0; i < body->value_count; i++) {
		struct value *value = &body->values[i];
		if (value->from == FROM_PARAM) {
			to->params[to->param_count] = value->param;
			for (uint32_t k = 0; k < value->param.count; k++)
				if (value->param.index[k].loop >= body->levels)
					body->levels = value->param.index[k].loop + 1;
			value->param = (struct param_ref){.param = (uint32_t)to->param_count++};
		}
		if (value->names && !by_name) {
			to->naming[i] = value->names;
			to->named = true;
			value->names = &NAMED_BY_STEP;
		}
	}
}

static void take_scalar(struct collected *to, struct instr *instr)
{
	if (instr->kind != INSTR_OP || instr->op == OP_pow || !instr_has_number(instr))
		return;
	to->scalars[to->scalar_count] = instr->scalar;
	instr->scalar = 0;
	instr->own_scalar = (uint32_t)to->scalar_count++;
}

/* Equal arguments but for constants are one pointer, as bytes are compared. */
static bool take_constants(struct lowering *l, struct collected *to, struct instr *instr)
{
	struct attrs attrs;
	size_t count;
	double *constants = attrs_constants(&attrs, instr->op, &count);
	if (instr->kind != INSTR_OP || !instr->attrs || count == 0)
		return true;
	const size_t size = attrs_size(instr->attrs, instr->op);
	memcpy(&attrs, instr->attrs, size);
	memcpy(to->scalars + to->scalar_count, constants, count * sizeof *constants);
	memset(constants, 0, count * sizeof *constants);
	instr->own_scalar = (uint32_t)to->scalar_count;
	to->scalar_count += count;
	instr->attrs = byte_set_keep(&l->kept, &attrs, size, NULL);
	return instr->attrs != NULL;
}

static void take_stream(struct collected *to, struct body *body, struct instr *instr)
{
	if (!instr->stream)
		return;
	for (const struct stream_loop *loop = instr->stream->loops; loop; loop = loop->outer)
		if (loop->level >= body->levels)
			body->levels = loop->level + 1;
	to->streams[to->stream_count] = instr->stream;
	instr->stream = NULL;
	instr->own_stream = (uint32_t)to->stream_count++;
}

/* Equal calls of programs are one pointer, as bytes are compared. */
static bool take_use(struct lowering *l, struct instr *instr)
{
	if (instr_use(instr))
		instr->use = byte_set_keep(&l->kept, instr_use(instr), sizeof *instr_use(instr), NULL);
	return instr->op != OP_PROGRAM || instr_use(instr);
}

/* Consecutive instructions of one stage have one span. */
static void take_span(struct collected *to, struct instr *instr)
{
	const size_t count = to->span_count;
	if (count == 0 || memcmp(&to->spans[count - 1], &instr->span, sizeof instr->span) != 0)
		to->spans[to->span_count++] = instr->span;
	instr->span = (struct span){.begin = (uint32_t)to->span_count - 1};
}

static const void *keep_items(struct lowering *l, const void *items, size_t count, size_t size)
{
	return byte_set_keep(&l->kept, items, count * size, NULL);
}

/* Keeps what the particulars are, for OWN. */
static bool keep_particulars(struct lowering *l, const struct collected *from, struct particulars *own, size_t values)
{
	*own = (struct particulars){.slots = keep_items(l, from->slots, from->slot_count, sizeof *from->slots),
	                            .scalars = keep_items(l, from->scalars, from->scalar_count, sizeof *from->scalars),
	                            .params = keep_items(l, from->params, from->param_count, sizeof *from->params),
	                            .streams = keep_items(l, from->streams, from->stream_count, sizeof *from->streams),
	                            .spans = keep_items(l, from->spans, from->span_count, sizeof *from->spans)};
	if (from->named)
		own->naming = keep_items(l, from->naming, values, sizeof *from->naming);
	return own->slots && own->scalars && own->params && own->streams && own->spans && (own->naming || !from->named);
}

/* Returns the one body with the parts of BODY; NULL where memory is short. */
static const struct body *keep_body(struct lowering *l, const struct body *body)
{
	struct body kept;
	memset(&kept, 0, sizeof kept); /* bytes are compared */
	kept.value_count = body->value_count;
	kept.instr_count = body->instr_count;
	kept.region_count = body->region_count;
	kept.in_count = body->in_count;
	kept.out_count = body->out_count;
	kept.own_params = body->own_params;
	kept.levels = body->levels;
	kept.collects = body->collects;
	kept.values = (struct value *)(uintptr_t)keep_items(l, body->values, body->value_count, sizeof *body->values);
	kept.instrs = (struct instr *)(uintptr_t)keep_items(l, body->instrs, body->instr_count, sizeof *body->instrs);
	kept.regions = (struct region *)(uintptr_t)keep_items(l, body->regions, body->region_count, sizeof *body->regions);
	kept.ins = (struct port *)(uintptr_t)keep_items(l, body->ins, body->in_count, sizeof *body->ins);
	kept.outs = (struct port *)(uintptr_t)keep_items(l, body->outs, body->out_count, sizeof *body->outs);
	if (!kept.values || !kept.instrs || !kept.regions || !kept.ins || !kept.outs)
		return NULL;
	return byte_set_keep(&l->kept, &kept, sizeof kept, NULL);
}

bool lowering_share_body(struct lowering *l, struct draft_step *draft)
{
	struct body body = l->draft;
	struct collected collected;
	struct arena arena;
	for (size_t i = 0; i < body.in_count; i++)
		l->env.port[body.ins[i].index] = NO_VALUE;
	l->draft.in_count = 0; /* its ports will name no slots */
	arena_init(&arena, l->context->allocator);
	bool good = collect_begin(&collected, &body, &arena);
	if (good) {
		body.levels = 0;
		take_slots(&collected, &body);
		take_values(&collected, &body);
		for (size_t i = 0; i < body.instr_count; i++) {
			take_scalar(&collected, &body.instrs[i]);
			take_stream(&collected, &body, &body.instrs[i]);
			take_span(&collected, &body.instrs[i]);
			good &= take_constants(l, &collected, &body.instrs[i]) && take_use(l, &body.instrs[i]);
		}
		body.own_params = (uint32_t)collected.param_count;
		good = good && keep_particulars(l, &collected, &draft->own, body.value_count);
	}
	draft->body = good ? keep_body(l, &body) : NULL;
	arena_free(&arena);
	return draft->body != NULL;
}
