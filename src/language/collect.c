/*
 * `collect`: the value of each iteration of a loop becomes a part of an array, which has a name after the loop.
 *
 * It belongs to the innermost `repeat` or `for` around it within the def, through checkpoint blocks. Its variable is bound
 * where the loop begins. Until the loop ends, nothing else may read or bind it.
 * Tests: tests/cases/loops.test
 */
#include "language/resolver.h"

#include <string.h>

enum status resolver_check_collected(struct resolver *r, uint32_t variable, const char *verb, struct span span)
{
	if (!r->uses[variable].collected)
		return STATUS_OK;
	RESOLVE_FAIL(r, span, "'%s' is collected in this loop, which can't %s it", r->chain->variables[variable], verb);
	return RESOLVE_HINT(r, "it is an array of all iterations after the loop; `name` binds the value of one iteration");
}

/* Calls VISIT for each `collect` of BLOCK that belongs to the loop around BLOCK. */
static enum status each_collect(struct resolver *r, const struct block *block,
                                enum status (*visit)(struct resolver *r, const struct statement *s, struct node *node),
                                struct node *node)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		if (s->kind == STATEMENT_COLLECT)
			TRY(visit(r, s, node));
		else if (s->kind == STATEMENT_CHECKPOINT)
			TRY(each_collect(r, s->block, visit, node));
	}
	return STATUS_OK;
}

bool resolver_collects(const struct block *block)
{
	for (const struct statement *s = block->first; s; s = s->next)
		if (s->kind == STATEMENT_COLLECT || (s->kind == STATEMENT_CHECKPOINT && resolver_collects(s->block)))
			return true;
	return false;
}

static enum status begin_collect(struct resolver *r, const struct statement *s, struct node *node)
{
	uint32_t variable;
	TRY(resolver_bind_name(r, s->name, s->name_span, &variable));
	r->uses[variable].collected = r->uses[variable].read = true;
	node->collects = true;
	return STATUS_OK;
}

static enum status end_collect(struct resolver *r, const struct statement *s, struct node *node)
{
	(void)node;
	const struct binding *b = scope_find(resolver_home(r), s->name);
	r->uses[b->ref.index].collected = false;
	return STATUS_OK;
}

enum status resolver_begin_loop(struct resolver *r, const struct statement *s, struct node *node,
                                struct loop_around *around)
{
	*around = (struct loop_around){s, r->operands, r->around};
	r->around = around;
	return s->condition ? STATUS_OK : each_collect(r, s->block, begin_collect, node);
}

void resolver_end_loop(struct resolver *r, const struct loop_around *around)
{
	r->around = around->outer;
	if (!around->s->condition)
		(void)each_collect(r, around->s->block, end_collect, NULL);
}

/* Fails unless S, a `collect`, stands where the innermost loop runs it once in each iteration. */
static enum status check_collect(struct resolver *r, const struct statement *s)
{
	if (!r->around) {
		RESOLVE_FAIL(r, s->name_span, "collect stands outside of a loop");
		return RESOLVE_HINT(r, "%s",
		                    resolver_home(r)->def ? "a loop that calls the def collects the value after the call"
		                                          : "it stands in a repeat or for, as in repeat 8 { sin; collect ys }");
	}
	if (r->around->s->condition) {
		RESOLVE_FAIL(r, s->name_span, "collect stands in a `repeat while`, whose number of iterations is not known");
		return RESOLVE_HINT(r, "a repeat or for collects");
	}
	if (r->around->s->kind == STATEMENT_FIXED_POINT) {
		RESOLVE_FAIL(r, s->name_span, "collect stands in a fixed_point, whose number of iterations is not known");
		return RESOLVE_HINT(r, "a repeat or for collects");
	}
	if (r->around->operands == r->operands)
		return STATUS_OK;
	RESOLVE_FAIL(r, s->name_span, "collect stands in a block operand");
	return RESOLVE_HINT(r, "collect the value after that stage");
}

/* Sets every= of NODE, a `collect`, to O: an integer, or a number of each call of the def around. */
static enum status set_every(struct resolver *r, const struct option *o, struct node *node)
{
	struct formula_value value = {.known = o->kind == VALUE_NUMBER, .number = o->number};
	const struct binding *binding = o->kind == VALUE_NAME ? resolver_find(r, o->text) : NULL;
	if (o->kind == VALUE_FORMULA)
		TRY(resolver_formula(r, o->formula, &value));
	else if (binding)
		TRY(resolver_name(r, o->text, o->value_span, &value.ref));
	if (binding) {
		value.known = resolver_known_number(r, binding, &value.number);
		value.deferred = value.ref.kind == REF_ARGUMENT;
	}
	if (value.known)
		resolver_take_number(r, &value);
	if (value.deferred && !value.known) {
		node->operand = value.ref;
		node->operand.span = o->value_span;
		return STATUS_OK;
	}
	if (!value.known || !value.number.integer || value.number.as_integer < 1)
		return RESOLVE_FAIL(r, o->value_span, "every must be an integer of at least 1");
	node->every = value.number.as_integer;
	return STATUS_OK;
}

enum status resolver_collect(struct resolver *r, const struct statement *s)
{
	TRY(check_collect(r, s));
	struct node *node = resolver_new_node(r, NODE_COLLECT, s);
	TRY_ALLOC(node, r->context->diags);
	node->span = s->span;
	node->every = 1;
	for (const struct option *o = s->options; o; o = o->next) {
		if (strcmp(o->name, "every")) {
			RESOLVE_FAIL(r, o->span, "unknown option '%s' for collect", o->name);
			return RESOLVE_HINT(r, "collect takes every=");
		}
		if (o != s->options)
			return RESOLVE_FAIL(r, o->span, "option 'every' is given twice");
		TRY(set_every(r, o, node));
	}
	node->name = s->name;
	node->variable = scope_find(resolver_home(r), s->name)->ref.index;
	resolver_append(r, node);
	return STATUS_OK;
}
