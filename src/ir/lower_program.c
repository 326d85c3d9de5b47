/*
 * Lowers a stage that a program computes: its operands, then its call.
 *
 * A program reads whole arrays, so a chain with one is not cut into tiles. Arrays keep their own types: nothing is
 * promoted. What a program says of itself (struct program_traits) decides nothing here: linearisation reads it.
 * Tests: tests/programs/steps.test
 */
#include "ir/lowering.h"

#include <string.h>

/* Sets *VALUE to what REF, an operand, refers to. A number gets DTYPE. */
static enum status lower_ref(struct lowering *l, const struct ref *ref, enum dtype dtype, uint32_t *value)
{
	struct found found;
	TRY(lowering_find_ref(l, ref, &found));
	switch (found.kind) {
	case FOUND_NONE: /* an argument is given to each name that the def reads */
	case FOUND_NUMBER:
		return lowering_add_constant(l, found.number, dtype, ref->span, value);
	case FOUND_COUNTER:
		TRY(lowering_add_counter(l, &found, ref->span, value));
		return lowering_convert(l, value, dtype, ref->span);
	case FOUND_VALUE:
		*value = found.value;
		break;
	case FOUND_PARAM:
		*value = lowering_param(l, &found.param);
		l->streaming.whole[found.param.param] = true;
		break;
	case FOUND_BLOCK:
		TRY(lower_block_operand(l, &found, value));
		break;
	}
	TRY_ALLOC(*value != NO_VALUE, l->context->diags);
	return STATUS_OK;
}

/* Returns the type of PROGRAM's result on V; *DTYPE is its logical dtype. */
static struct type program_result(const struct program_decl *program, const struct value *v, enum dtype *dtype)
{
	*dtype = program->type.given ? program->type.type.dtype : dtype_is_integer(v->dtype) ? DTYPE_F64 : v->dtype;
	return program->type.given ? program->type.type : *v->type;
}

enum status lower_program(struct lowering *l, const struct node *node, uint32_t v, uint32_t *result)
{
	const struct program_decl *program = &l->chain->programs[node->program];
	struct external_use use;
	memset(&use, 0, sizeof use); /* bytes are compared */
	memset(use.operands, 0xff, sizeof use.operands);
	memset(use.outs, 0xff, sizeof use.outs);
	use.program = program;
	use.index = node->program;
	use.count = node->operand_count;
	for (uint32_t i = 0; i < use.count; i++) {
		TRY(lower_ref(l, &node->operands[i], l->body->values[v].dtype, &use.operands[i]));
		use.types[i] = l->body->values[use.operands[i]].type;
	}
	struct instr *instr = lowering_add_op(l, OP_PROGRAM, NULL, node->span);
	TRY_ALLOC(instr, l->context->diags);
	instr->v = v;
	instr->use = byte_set_keep(&l->kept, &use, sizeof use, NULL);
	TRY_ALLOC(instr->use, l->context->diags);
	enum dtype dtype;
	const struct type type = program_result(program, &l->body->values[v], &dtype);
	if (!type_addressable(&type))
		return LOWERING_FAIL(l, STATUS_LIMIT, node->span, "the result of '%s' is too large to address", program->name);
	TRY(lowering_draw(l, instr, 1 + node->program));
	uint32_t out;
	TRY(lowering_set_out(l, instr, &type, dtype, &out));
	struct value *values = l->body->values;
	values[out].active = values[v].active;
	for (uint32_t i = 0; i < use.count; i++)
		values[out].active |= values[use.operands[i]].active;
	l->streaming.flat = false;
	lowering_need_whole(l, node->span, "another program computes it");
	*result = out;
	return STATUS_OK;
}
