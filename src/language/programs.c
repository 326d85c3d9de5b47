/*
 * Programs: operations that another program computes, and the stages that are calls of them.
 *
 * A program is declared at the top level of the chain, before its first stage. A stage gives all operands by place.
 * Tests: tests/programs/steps.test, tests/cases/errors.test
 */
#include "language/resolver.h"

#include <string.h>

const struct program_decl *resolver_find_program(const struct resolver *r, const char *name)
{
	for (size_t i = 0; i < r->chain->program_count; i++)
		if (!strcmp(r->chain->programs[i].name, name))
			return &r->chain->programs[i];
	return NULL;
}

/* True if NAME cannot be an operand of S: messages to programs call another array so (ckptc-program(7)). */
static bool is_reserved(const struct statement *s, const char *name)
{
	static const char *const taken[] = {"x", "y", "g", "dx", "gradients"};
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (!strcmp(taken[i], name))
			return true;
	for (const struct name_list *n = s->names; n; n = n->next)
		if (*name == 'd' && !strcmp(name + 1, n->name))
			return true;
	return false;
}

static enum status check_operands(struct resolver *r, const struct statement *s)
{
	if (name_list_count(s->names) > PROGRAM_OPERANDS)
		return diag_at(r->context->diags, STATUS_LIMIT, r->chain->source, s->name_span,
		               "a program has at most %d operands", PROGRAM_OPERANDS);
	for (const struct name_list *n = s->names; n; n = n->next) {
		if (is_reserved(s, n->name))
			return RESOLVE_FAIL(r, n->span,
			                    "'%s' can't be an operand's name: messages to programs call another array so", n->name);
		for (const struct name_list *before = s->names; before != n; before = before->next)
			if (!strcmp(before->name, n->name))
				return RESOLVE_FAIL(r, n->span, "operand '%s' is named twice", n->name);
	}
	return STATUS_OK;
}

enum status resolver_program(struct resolver *r, const struct statement *s)
{
	struct chain *chain = r->chain;
	TRY(resolver_check_stage_name(r, s));
	if (resolver_find_def(r, s->name))
		return RESOLVE_FAIL(r, s->name_span, "'%s' is a def already", s->name);
	TRY(check_operands(r, s));
	const enum dtype dtype = s->type->type.dtype;
	if (s->type->given && dtype != DTYPE_F32 && dtype != DTYPE_F64)
		return RESOLVE_FAIL(r, s->type->span, "a program computes in f32 or f64, not in %s", dtype_name(dtype));
	struct program_decl *program =
		arena_append(r->context->arena, &chain->programs, &chain->program_count, &r->program_capacity, sizeof *program);
	TRY_ALLOC(program, r->context->diags);
	*program = (struct program_decl){.name = s->name,
	                                 .operands = s->names,
	                                 .operand_count = (uint32_t)name_list_count(s->names),
	                                 .type = *s->type,
	                                 .span = s->name_span,
	                                 .traits = PROGRAM_TRAITS_UNBOUND};
	return STATUS_OK;
}

enum status resolver_program_stage(struct resolver *r, const struct statement *s, const struct program_decl *program)
{
	const size_t count = resolver_count_operands(s->operands);
	if (count != program->operand_count)
		return RESOLVE_FAIL(r, s->name_span, "'%s' takes %u operand%s, not %zu", s->name, program->operand_count,
		                    program->operand_count == 1 ? "" : "s", count);
	if (s->options)
		return RESOLVE_FAIL(r, s->options->span, "the program '%s' takes no options", s->name);
	struct node *node = resolver_new_node(r, NODE_PROGRAM, s);
	struct ref *operands = arena_array(r->context->arena, count + 1, sizeof *operands);
	TRY_ALLOC(node && operands, r->context->diags);
	node->program = (uint32_t)(program - r->chain->programs);
	node->operand_count = (uint32_t)count;
	node->operands = operands;
	for (const struct operand *o = s->operands; o; o = o->next)
		TRY(resolver_operand(r, o, operands++));
	resolver_append(r, node);
	return STATUS_OK;
}
