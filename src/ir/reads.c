/* Tests: tests/unit/test_lower.c */
#include "ir/reads.h"

/* Values of an instruction: V and A, others, MORE. The operands of a program, or the gradient to which it adds, follow. */
enum { VALUES = INSTR_VALUES, MORE = 6 };

/* Returns how many places of instruction AT may have a param: its values, or those that a loop carries; at last, outs. */
static uint32_t count_places(const struct body *body, uint32_t at)
{
	if (at == body->instr_count)
		return (uint32_t)body->out_count;
	const struct instr *by = &body->instrs[at];
	if (by->kind == INSTR_LOOP)
		return 2 * by->loop.carry_count;
	return VALUES + (instr_use(by) ? instr_use(by)->count : by->kind == INSTR_ACCUMULATE);
}

/* Returns the value in PLACE of instruction AT; NO_VALUE if there is none. */
static uint32_t value_in(const struct body *body, uint32_t at, uint32_t place)
{
	if (at == body->instr_count)
		return body->outs[place].value;
	const struct instr *by = &body->instrs[at];
	if (by->kind == INSTR_LOOP)
		return place % 2 ? by->loop.carries[place / 2].result : by->loop.carries[place / 2].init;
	if (place >= VALUES)
		return instr_use(by) ? instr_use(by)->operands[place - VALUES] : NO_VALUE;
	if (place >= MORE)
		return instr_use(by) ? NO_VALUE : by->more[place - MORE];
	return (const uint32_t[MORE]){by->v, by->a, by->y, by->k, by->l, by->g}[place];
}

/* Sets READ to what instruction BY, or an out (NULL), reads as VALUE in PLACE. False if that is no param. */
static bool set_read(const struct reads *reads, const struct instr *by, uint32_t value, uint32_t place,
                     struct param_read *read)
{
	const struct value *v = value == NO_VALUE ? NULL : &reads->body->values[value];
	const bool carried = by && by->kind == INSTR_LOOP, adds = by && by->kind == INSTR_ACCUMULATE && place == VALUES;
	if (!adds && (!v || v->from != FROM_PARAM))
		return false;
	*read = (struct param_read){.by = carried ? NULL : by,
	                            .ref = own_param(reads->own, adds ? &by->param : &v->param),
	                            .operand = NO_VALUE,
	                            .adds = adds};
	if (read->by && !adds && (place < 2 || place >= MORE))
		read->operand = place < 2 ? place : place >= VALUES ? place - VALUES + 1 : place - MORE + 2;
	return true;
}

bool reads_next(struct reads *reads, struct param_read *read)
{
	const struct body *body = reads->body;
	for (; reads->at <= body->instr_count; reads->at++, reads->next = 0) {
		const struct instr *by = reads->at < body->instr_count ? &body->instrs[reads->at] : NULL;
		if (by && by->kind == INSTR_LOOP && reads->next == 0)
			reads_enter(reads, by, by->level, by->loop.first, by->loop.iterations);
		reads->depth -= by && by->kind == INSTR_END;
		for (const uint32_t count = count_places(body, reads->at); reads->next < count;) {
			const uint32_t place = reads->next++;
			if (set_read(reads, by, value_in(body, reads->at, place), place, read))
				return true;
		}
	}
	return false;
}

bool reads_vary(const struct reads *reads, const struct param_read *read)
{
	for (uint32_t d = 0; d < reads->depth; d++) {
		uint32_t k = 0;
		while (k < read->ref->count && read->ref->index[k].loop != reads->loops[d].level)
			k++;
		if (k == read->ref->count)
			return false;
	}
	return true;
}
