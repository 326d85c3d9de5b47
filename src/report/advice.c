/*
 * Finds formulas that say what one operation computes in less memory: softmax(q @ k' + mask) @ v is an attention. The
 * formula keeps its own bits, so the chain is not changed; the report names the operation.
 * Tests: tests/cases/attention.test
 */
#include "report/explanation.h"

#include <math.h>

#include "base/checked.h"

/* Returns the operation of BODY that makes VALUE, or NULL. */
static const struct instr *find_maker(const struct body *body, uint32_t value)
{
	for (size_t i = 0; i < body->instr_count && value != NO_VALUE; i++)
		if (body->instrs[i].kind == INSTR_OP && body->instrs[i].out == value)
			return &body->instrs[i];
	return NULL;
}

/* True if INSTR multiplies or divides V by one number. */
static bool is_scaling(const struct body *body, const struct instr *instr)
{
	const bool scales = instr->op == OP_mul || instr->op == OP_div;
	return scales && (instr->a == NO_VALUE || shape_count(&body->values[instr->a].type->shape) == 1);
}

/* True if INSTR exchanges the last two axes. */
static bool exchanges_last(const struct instr *instr)
{
	int axes[MAX_DIMS];
	const int ndim = instr->of.v->shape.ndim;
	bool exchanges = instr->op == OP_transpose && ndim >= 2;
	if (exchanges)
		transpose_axes(instr->attrs, ndim, axes);
	for (int i = 0; i < ndim && exchanges; i++)
		exchanges = axes[i] == (i == ndim - 1 ? ndim - 2 : i == ndim - 2 ? ndim - 1 : i);
	return exchanges;
}

/* True if INSTR adds a mask to V, or puts -inf where a condition hides V. */
static bool is_masking(const struct body *body, const struct instr *instr)
{
	if (instr->op == OP_where)
		return instr->more[0] == NO_VALUE && instr->scalar == -INFINITY;
	return instr->op == OP_add && instr->a != NO_VALUE && shape_count(&body->values[instr->a].type->shape) > 1;
}

/* True if VALUE is a product of queries and keys, scaled or not, perhaps masked. */
static bool is_scores(const struct body *body, uint32_t value, bool *masked)
{
	const struct instr *made = find_maker(body, value);
	*masked = made && is_masking(body, made);
	if (*masked)
		made = find_maker(body, made->v);
	while (made && is_scaling(body, made))
		made = find_maker(body, made->v);
	if (!made || made->of.v->shape.ndim < 2)
		return false;
	const struct instr *keys = made->op == OP_matmul ? find_maker(body, made->a) : NULL;
	return (keys && exchanges_last(keys)) || (made->op == OP_linear && made->of.a->shape.ndim == 2);
}

/* Returns the softmax whose result INSTR, a product, multiplies with values, if its input are scores; else NULL. */
static const struct instr *weights_of(const struct body *body, const struct instr *instr, bool *masked)
{
	int axis;
	if (instr->kind != INSTR_OP || instr->op != OP_matmul || instr->of.a->shape.ndim < 2)
		return NULL;
	const struct instr *weights = find_maker(body, instr->v);
	if (!weights || weights->op != OP_softmax || !is_scores(body, weights->v, masked))
		return NULL;
	const int ndim = weights->of.v->shape.ndim;
	return axis_resolve(weights->attrs->axis[0], ndim, &axis) && axis == ndim - 1 ? weights : NULL;
}

void report_advice(const struct text *text, const struct chain *chain, const struct body *body)
{
	bool any = false;
	for (size_t i = 0; i < body->instr_count; i++) {
		bool masked;
		const struct instr *weights = weights_of(body, &body->instrs[i], &masked);
		char type[TYPE_TEXT];
		if (!weights)
			continue;
		text_printf(
			text,
			"%s%s:%u:%u: softmax(q @ transpose(k)%s) @ v has an array of all scores, %s; attention K V%s has none\n",
			any ? "" : "\n", chain->source->name, weights->span.line, weights->span.column, masked ? " + mask" : "",
			type_format(weights->of.y, type), masked ? " mask=M" : "");
		any = true;
	}
}
