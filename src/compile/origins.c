/*
 * Where residuals come from, and which operations read them: the words of the
 * residual report, of explain and of `names` in a policy.
 */
#include "compile/lineariser.h"

const char *linear_maker(const struct body *body, uint32_t value)
{
	const struct instr *instr = &body->instrs[body->values[value].instr];
	for (int k = 0; k < MAX_KEEPS; k++)
		if (instr->out_keep[k] == value)
			return op_table[instr->op].keeps[k].name;
	return op_table[instr->op].name;
}

int64_t linear_place(const struct body *body, uint32_t value)
{
	const struct value *v = &body->values[value];
	int64_t place = (int64_t)v->instr * INSTR_PLACES;
	for (int k = 0; k < MAX_KEEPS; k++)
		if (body->instrs[v->instr].out_keep[k] == value)
			place += 1 + k;
	return v->names ? place + INSTR_PLACES - 1 : place;
}

struct origin origin_of(const struct body *body, uint32_t value)
{
	const struct value *v = &body->values[value];
	struct origin origin = {.names = v->names, .param = NO_VALUE};
	if (v->from == FROM_PARAM) {
		origin.argument = true;
		origin.param = v->param.param;
	} else if (v->from == FROM_INSTR) {
		const struct instr *instr = &body->instrs[v->instr];
		origin.op = linear_maker(body, value);
		origin.span = instr->span;
		origin.def = instr->def;
	}
	return origin;
}

const struct origin *origins_of_outs(const struct body *body, struct arena *arena)
{
	struct origin *origins = arena_array(arena, body->out_count + 1, sizeof *origins);
	for (size_t i = 0; origins && i < body->out_count; i++)
		origins[i] = origin_of(body, body->outs[i].value);
	return origins;
}

bool op_names_add(struct arena *arena, struct op_names *list, const char *op)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->names[i] == op)
			return true;
	const char **name = arena_append(arena, &list->names, &list->count, &list->capacity, sizeof *name);
	if (name)
		*name = op;
	return name != NULL;
}

const char *op_reading(const struct body *body, size_t index)
{
	const struct instr *read = &body->instrs[index];
	const bool converts = read->kind == INSTR_OP && read->op == OP_cast;
	for (size_t i = index + 1; converts && i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->span.begin != read->span.begin)
			break;
		if (instr->v == read->out || instr->a == read->out)
			return op_table[instr->op].name;
	}
	return op_table[read->op].name;
}

void note_uses(struct lineariser *l)
{
	struct linear *out = l->out;
	const struct body *back = l->back;
	size_t capacity = 0;
	bool *seen = arena_array(l->arena, back->value_count + 1, sizeof *seen);
	for (size_t i = 0; i < back->instr_count && !l->arena->failed; i++) {
		const struct instr *instr = &back->instrs[i];
		/* Sums of cotangents read no value by an operation of the chain. */
		const bool only_adds =
			instr->kind == INSTR_ADD || instr->kind == INSTR_SUM_TO || instr->kind == INSTR_ACCUMULATE;
		uint32_t reads[6];
		const size_t count = instr_reads(instr, reads);
		for (size_t r = 0; r < count; r++) {
			const struct value *value = &back->values[reads[r]];
			if (value->from == FROM_PARAM && !seen[reads[r]]) {
				struct param_ref *ref = arena_append(l->arena, &out->params, &out->param_count, &capacity, sizeof *ref);
				if (ref)
					*ref = value->param;
				seen[reads[r]] = true;
			}
			if (value->from == FROM_PORT && back->ins[value->port].kind == PORT_RESIDUAL && !only_adds)
				(void)op_names_add(l->arena, &out->residuals[back->ins[value->port].index].used_by,
				                   op_table[instr->op].name);
		}
	}
}
