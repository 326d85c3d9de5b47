/*
 * Goes back from the indices that operations read to what they are made of. An operation without a derivative ends the way
 * back: its result, such as a rounded number, does not change with a small change of its operands. A loop carries
 * values, so that the walk is repeated until it finds nothing more.
 * Tests: tests/cases/indices.test
 */
#include "ir/index_reads.h"

/* Marks VALUE, which may be NO_VALUE. Returns true if it was not marked. */
static bool mark_value(bool *marked, uint32_t value)
{
	if (value == NO_VALUE || marked[value])
		return false;
	return marked[value] = true;
}

/* Marks what INSTR reads as indices, or to make what is marked. Returns true if that is something new. */
static bool mark_reads(bool *marked, const struct instr *instr)
{
	const unsigned which = instr->kind == INSTR_OP && !instr_use(instr) ? op_indices(instr->op) : 0;
	bool more = which && mark_value(marked, which == NEED_V ? instr->v : instr->a);
	for (uint32_t k = 0; instr->kind == INSTR_OP && instr->out != NO_VALUE && marked[instr->out]; k++) {
		if (k == instr_value_count(instr))
			break;
		more |= instr_differentiable(instr, k) && mark_value(marked, instr_value(instr, k));
	}
	for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->loop.carry_count; k++) {
		const struct carry *carry = &instr->loop.carries[k];
		if (!marked[carry->inner] && !marked[carry->final])
			continue;
		more |= mark_value(marked, carry->result);
		more |= mark_value(marked, carry->init);
	}
	return more;
}

bool index_reads_find(struct index_reads *reads, const struct body *body, size_t params, struct arena *arena)
{
	bool *const marked = arena_array(arena, body->value_count + 1, sizeof *marked);
	*reads = (struct index_reads){.params = arena_array(arena, params + 1, sizeof *reads->params)};
	if (!marked || !reads->params)
		return false;
	for (bool more = true; more;) {
		more = false;
		for (size_t i = body->instr_count; i-- > 0;)
			more |= mark_reads(marked, &body->instrs[i]);
	}
	for (size_t i = 0; i < body->value_count; i++) {
		reads->input |= marked[i] && body->values[i].from == FROM_PORT;
		if (marked[i] && body->values[i].from == FROM_PARAM)
			reads->params[body->values[i].param.param] = true;
	}
	return true;
}
