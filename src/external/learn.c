/*
 * Learns programs. A first lowering, whose result is dropped, shows the types of each call. A program has one signature:
 * that of its first call. A gradient is asked for where any call has an active value.
 * Tests: tests/programs/steps.test
 */
#include "external/learn.h"

#include <string.h>

enum { VARIOUS = UINT32_MAX }; /* operands that are no whole param, or several */

/* A program's calls so far. */
struct learned {
	struct external_signature signature; /* of COUNT operands; x has no dtype (DTYPE_COUNT) before the first call */
	struct type operands[PROGRAM_OPERANDS];
	const char *names[PROGRAM_OPERANDS];
	uint32_t params[PROGRAM_OPERANDS]; /* by operand: the param that it is, or VARIOUS */
	struct span span;                  /* of the first call */
};

struct learner {
	const struct context *context;
	const struct chain *chain;
	struct learned *learned; /* by program */
	bool backward;
};

static void begin_signature(struct learned *to, const struct external_use *use, const struct type *x,
                            const struct type *y)
{
	const struct name_list *name = use->program->operands;
	to->signature = (struct external_signature){
		.x = *x, .y = *y, .count = use->count, .names = to->names, .operands = to->operands};
	for (uint32_t i = 0; i < use->count; i++, name = name->next) {
		to->names[i] = name->name;
		to->operands[i] = *use->types[i];
	}
}

/* Reports that the call at SPAN has the type IS where the first one has WAS. */
static enum status refuse_types(const struct learner *l, const struct external_use *use, struct span span,
                                const struct type *was, const struct type *is)
{
	char a[TYPE_TEXT], b[TYPE_TEXT];
	const struct span first = l->learned[use->index].span;
	diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, span,
	        "'%s' is called with %s here, and with %s at %u:%u", use->program->name, type_format(is, b),
	        type_format(was, a), first.line, first.column);
	return diag_hint(l->context->diags,
	                 "a program has one type for each of its arrays: declare another program for this");
}

static enum status learn_call(struct learner *l, const struct body *body, const struct particulars *own,
                              const struct instr *instr)
{
	const struct external_use *use = instr_use(instr);
	struct learned *to = &l->learned[use->index];
	const struct span span = own_span(own, instr->span);
	const bool first = to->signature.x.dtype == DTYPE_COUNT;
	if (first) {
		to->span = span;
		begin_signature(to, use, instr->of.v, instr->of.y);
	}
	if (!type_equal(&to->signature.x, instr->of.v))
		return refuse_types(l, use, span, &to->signature.x, instr->of.v);
	to->signature.gradient_x |= l->backward && body->values[instr->v].active;
	for (uint32_t i = 0; i < use->count; i++) {
		const struct value *value = &body->values[use->operands[i]];
		const struct param_ref *ref = value->from == FROM_PARAM ? own_param(own, &value->param) : NULL;
		const uint32_t param = ref && ref->count == 0 ? ref->param : VARIOUS;
		if (!type_equal(&to->operands[i], use->types[i]))
			return refuse_types(l, use, span, &to->operands[i], use->types[i]);
		to->signature.gradients |= (uint32_t)(l->backward && value->active) << i;
		to->params[i] = first || to->params[i] == param ? param : VARIOUS;
	}
	return STATUS_OK;
}

static enum status learn_body(struct learner *l, const struct body *body, const struct particulars *own)
{
	for (size_t i = 0; i < body->instr_count; i++)
		if (instr_use(&body->instrs[i]))
			TRY(learn_call(l, body, own, &body->instrs[i]));
	return STATUS_OK;
}

/* Opens program INDEX, and sets what the chain knows of it. */
static enum status open_program(struct learner *l, uint32_t index, struct external_set *set)
{
	const struct learned *from = &l->learned[index];
	struct program_decl *program = &l->chain->programs[index];
	program->constant = 0;
	program->differentiated = from->signature.gradient_x || from->signature.gradients;
	for (uint32_t i = 0; i < program->operand_count; i++) {
		program->params[i] = from->params[i];
		program->constant |= (uint32_t)(from->params[i] != VARIOUS) << i;
	}
	if (!set || !external_bound(set, index))
		return STATUS_OK;
	TRY(external_open(set, index, &from->signature, &program->traits, l->context->diags));
	program->traits.sums &= from->signature.gradients;
	for (uint32_t i = 0; i < program->operand_count; i++) {
		if (!(program->traits.sums & ~program->constant & 1u << i))
			continue;
		diag_at(l->context->diags, STATUS_CHAIN, l->chain->source, from->span,
		        "'%s' adds up the gradient of its operand '%s' itself, which is not the same whole param in each call",
		        program->name, from->names[i]);
		return diag_hint(l->context->diags, "without '%s' among its sums, ckptc adds the gradients up", from->names[i]);
	}
	return STATUS_OK;
}

static enum status learn(struct learner *l, const struct portion *portion, const struct type *input)
{
	struct lowered lowered;
	struct portion own = portion ? *portion : (struct portion){0};
	own.most = (int64_t)l->chain->variable_count + 2; /* no iteration after these makes a value active */
	TRY(lower(l->context, &lowered, l->chain, &own, input, l->backward ? LOWER_STEPS : LOWER_RUN));
	if (!l->backward)
		return learn_body(l, lowered.whole, NULL);
	for (size_t i = 0; i < lowered.distinct_count; i++)
		TRY(learn_body(l, lowered.distinct[i]->body, &lowered.distinct[i]->own));
	if (!l->chain->has_conditions)
		return STATUS_OK;
	l->backward = false; /* conditions have no derivative: a forward run has them */
	return learn(l, portion, input);
}

enum status external_learn(const struct context *context, const struct chain *chain, const struct portion *portion,
                           const struct type *input, bool backward, struct external_set *set)
{
	struct arena arena;
	const size_t count = chain->program_count;
	if (count == 0)
		return STATUS_OK;
	arena_init(&arena, context->allocator);
	const struct context own = {context->allocator, &arena, context->diags};
	struct learner l = {.context = &own, .chain = chain, .backward = backward};
	l.learned = arena_array(&arena, count, sizeof *l.learned);
	enum status status = l.learned ? STATUS_OK : diag_memory(context->diags);
	for (size_t i = 0; !status && i < count; i++)
		l.learned[i].signature.x.dtype = DTYPE_COUNT;
	status = status ? status : learn(&l, portion, input);
	for (uint32_t i = 0; !status && i < count; i++)
		if (l.learned[i].signature.x.dtype != DTYPE_COUNT)
			status = open_program(&l, i, set);
	arena_free(&arena);
	return status;
}

enum status external_demand(const struct chain *chain, bool backward, struct external_set *set, struct diags *diags)
{
	for (uint32_t i = 0; i < chain->program_count; i++) {
		const struct program_decl *program = &chain->programs[i];
		if (!set || !external_bound(set, i)) {
			diag_at(diags, STATUS_USAGE, chain->source, program->span, "nothing computes the program '%s'",
			        program->name);
			return diags->library ? diag_hint(diags, "bind it by ckptc_chain_program")
			                      : diag_hint(diags, "bind it: --program %s=COMMAND, or --program %s=FILE.so",
			                                  program->name, program->name);
		}
		if (backward && program->differentiated && !program->traits.backward)
			return diag_at(diags, STATUS_PROGRAM, chain->source, program->span,
			               "the program '%s' runs forward only, so the chain has no gradient", program->name);
	}
	return STATUS_OK;
}
