/*
 * Defs and their calls.
 *
 * A def within a def can use the parameters of the outer one. They become its own first parameters, and every call
 * passes them (lambda lifting, Johnsson 1985). Every call of it stands in the outer def too, where these parameters
 * have the same places. So nothing after the resolver needs to know of nested defs.
 * Tests: tests/cases/language.test
 */
#include "language/resolver.h"

#include "base/checked.h"
#include "base/suggest.h"

#include <string.h>

/* Calls. */

static enum status unknown_parameter(struct resolver *r, const struct def *def, const struct option *o)
{
	enum { SHOWN = 8 };
	struct arena *arena = r->context->arena;
	const char **names = arena_array(arena, def->own, sizeof *names), *list = "";
	size_t count = 0;
	for (const struct name_list *n = def->names; names && n; n = n->next)
		names[count++] = n->name;
	for (size_t i = 0; list && i < count && count <= SHOWN; i++)
		list = arena_printf(arena, "%s%s%s", list, i ? ", " : "", names[i]);
	TRY_ALLOC(names && list, r->context->diags);
	RESOLVE_FAIL(r, o->span, "'%s' has no operand '%s'", def->name, o->name);
	const char *near = suggest_nearest(o->name, names, count);
	if (near)
		return RESOLVE_HINT(r, "did you mean '%s'?", near);
	return *list ? RESOLVE_HINT(r, "it is declared as %s(%s)", def->name, list) : STATUS_CHAIN;
}

/* Resolves to NODE, the call S, the operands given by name. The first PLACED are set already; then all must be. */
static enum status resolve_named_operands(struct resolver *r, const struct statement *s, struct node *node,
                                          size_t placed)
{
	const struct def *def = node->def;
	for (const struct option *o = s->options; o; o = o->next) {
		const size_t *place = dictionary_find(&def->places, o->name);
		if (!place)
			return unknown_parameter(r, def, o);
		struct ref *ref = &node->arguments[*place];
		if (*place < placed)
			return RESOLVE_FAIL(r, o->span, "'%s' is given by place and by name", o->name);
		if (ref->kind != REF_NONE)
			return RESOLVE_FAIL(r, o->span, "operand '%s' is given twice", o->name);
		TRY(resolver_named_operand(r, o, def->name, ref));
	}
	size_t i = def->inherited;
	for (const struct name_list *n = def->names; n; n = n->next, i++)
		if (node->arguments[i].kind == REF_NONE)
			return RESOLVE_FAIL(r, node->span, "'%s' needs its %s", def->name, n->name);
	return STATUS_OK;
}

/* Counts the parameters that DEF, or a call of it at SPAN, inherits. A limit on the total bounds their memory. */
static enum status count_inherited(struct resolver *r, const struct def *def, struct span span)
{
	r->inherited += def->inherited;
	if (r->inherited <= MAX_INHERITED)
		return STATUS_OK;
	return diag_at(r->context->diags, STATUS_LIMIT, r->chain->source, span,
	               "defs within defs, and calls of them, inherit more than %d operands", MAX_INHERITED);
}

enum status resolver_call(struct resolver *r, const struct statement *s, const struct def *def)
{
	const size_t count = resolver_count_operands(s->operands), takes = def->own;
	if (count > takes || (count < takes && !s->options))
		return RESOLVE_FAIL(r, s->name_span, "'%s' takes %zu operand%s, not %zu", def->name, takes,
		                    takes == 1 ? "" : "s", count);
	if (s->options && takes == 0)
		return RESOLVE_FAIL(r, s->options->span, "the def '%s' takes no options", def->name);
	TRY(count_inherited(r, def, s->name_span));
	struct node *node = resolver_new_node(r, NODE_CALL, s);
	struct ref *arguments = arena_array(r->context->arena, def->count, sizeof *arguments);
	TRY_ALLOC(node && arguments, r->context->diags);
	node->def = def;
	node->arguments = arguments;
	struct node **tail = r->tail;
	r->tail = &node->body;
	TRY(resolver_prepare_operands(r, s->operands));
	r->tail = tail;
	size_t placed = 0;
	for (; placed < def->inherited; placed++)
		arguments[placed] =
			(struct ref){.kind = REF_ARGUMENT, .index = (uint32_t)placed, .element = NO_INDEX, .span = node->span};
	for (const struct operand *o = s->operands; o; o = o->next, placed++)
		TRY(resolver_operand(r, o, &arguments[placed]));
	TRY(resolve_named_operands(r, s, node, placed));
	TRY(resolver_import(r, node));
	resolver_append(r, node);
	return resolver_bind_exported(r, node);
}

/*
 * The number of nodes of a chain whose defs are written out. If each def calls the one before it twice, that is 2^defs.
 * But a call adds its def's SIZE, and for each block passed to it USES times its nodes. So each def is counted once.
 */

static int64_t saturated_product(int64_t a, int64_t b)
{
	int64_t product;
	return checked_mul_i64(a, b, &product) ? product : INT64_MAX;
}

static int64_t count_nodes(const struct node *node, int64_t times, int64_t *uses);

/* Returns TIMES the nodes of REF; 0 if it is no block. Adds TIMES to USES (NULL outside of defs) if an argument. */
static int64_t count_operand(const struct ref *ref, int64_t times, int64_t *uses)
{
	if (ref->kind == REF_ARGUMENT)
		uses[ref->index] = saturated_add(uses[ref->index], times);
	if (ref->kind == REF_TERM)
		return saturated_add(
			count_operand(&ref->term->before, times, uses),
			saturated_add(count_operand(&ref->term->value, times, uses), count_nodes(ref->term->first, times, uses)));
	return ref->kind == REF_BLOCK ? count_nodes(ref->block, times, uses) : 0;
}

/* Counts NODE and its successors TIMES times, a loop's body once each time. Adds each parameter's uses to USES. */
static int64_t count_nodes(const struct node *node, int64_t times, int64_t *uses)
{
	int64_t size = 0;
	for (; node; node = node->next) {
		size = saturated_add(saturated_add(size, times), count_operand(&node->operand, times, uses));
		for (int i = 1; node->kind == NODE_OP && i < op_most_operands(node->op); i++)
			size = saturated_add(size, count_operand(&node->more[i - 1], times, uses));
		size = saturated_add(size, count_nodes(node->body, times, uses));
		for (uint32_t i = 0; node->kind == NODE_PROGRAM && i < node->operand_count; i++)
			size = saturated_add(size, count_operand(&node->operands[i], times, uses));
		if (node->kind == NODE_REPEAT)
			size = saturated_add(size, count_nodes(node->condition, times, uses));
		if (node->kind != NODE_CALL)
			continue;
		const struct def *def = node->def;
		size = saturated_add(size, saturated_product(times, def->size));
		for (size_t i = 0; i < def->count; i++)
			size =
				saturated_add(size, count_operand(&node->arguments[i], saturated_product(times, def->uses[i]), uses));
	}
	return size;
}

enum status resolver_check_size(struct resolver *r)
{
	int64_t size = 0;
	for (const struct node *node = r->chain->first; node; node = node->next) {
		struct node alone = *node;
		alone.next = NULL;
		size = saturated_add(size, count_nodes(&alone, 1, NULL));
		if (size > MAX_OPERATIONS)
			return diag_at(r->context->diags, STATUS_LIMIT, r->chain->source, node->span,
			               "the chain has more than %d operations", MAX_OPERATIONS);
	}
	return STATUS_OK;
}

/* Defs. */

/* Binds DEF's own parameters. The inherited ones are bound in outer scopes. DEF's scope is the innermost one. */
static enum status bind_parameters(struct resolver *r, struct def *def)
{
	struct arena *arena = r->context->arena;
	size_t *places = arena_array(arena, def->own + 1, sizeof *places), i = def->inherited;
	TRY_ALLOC(places, r->context->diags);
	for (const struct name_list *n = def->names; n; n = n->next, i++, places++) {
		if (scope_find(r->scope, n->name))
			return RESOLVE_FAIL(r, n->span, "parameter '%s' is named twice", n->name);
		*places = i;
		TRY_ALLOC(dictionary_put(&def->places, arena, n->name, places), r->context->diags);
		const struct ref ref = {.kind = REF_ARGUMENT, .index = (uint32_t)i, .element = NO_INDEX};
		TRY(resolver_bind(r, r->scope, n->name, ref));
	}
	return STATUS_OK;
}

enum status resolver_check_stage_name(struct resolver *r, const struct statement *s)
{
	if (op_find(s->name) != OP_COUNT) {
		struct hidden_name *hidden = arena_alloc(r->context->arena, sizeof *hidden);
		TRY_ALLOC(hidden, r->context->diags);
		*hidden = (struct hidden_name){s->name, statement_word(s->kind), s->name_span, r->chain->hidden_names};
		r->chain->hidden_names = hidden;
	}
	if (resolver_find_program(r, s->name))
		return RESOLVE_FAIL(r, s->name_span, "'%s' is a program already", s->name);
	return STATUS_OK;
}

enum status resolver_def(struct resolver *r, const struct statement *s)
{
	TRY(resolver_check_stage_name(r, s));
	struct arena *arena = r->context->arena;
	struct def *def = arena_alloc(arena, sizeof *def);
	TRY_ALLOC(def, r->context->diags);
	const struct def *around = resolver_home(r)->def;
	def->name = s->name;
	def->names = s->names;
	def->inherited = around ? around->count : 0;
	def->own = name_list_count(s->names);
	def->count = def->inherited + def->own;
	TRY(count_inherited(r, def, s->name_span));
	struct name_scope scope = {.outer = r->scope, .def = def, .home = true};
	r->scope = &scope;
	def->first_variable = (uint32_t)r->chain->variable_count;
	TRY(bind_parameters(r, def));
	TRY(resolver_bind_exports(r, def, s->block));
	const int loops = r->loops, operands = r->operands;
	const struct loop_around *around_def = r->around;
	r->loops = r->operands = 0;
	r->around = NULL;
	TRY(resolver_block(r, s->block, &def->body));
	r->loops = loops;
	r->operands = operands;
	r->around = around_def;
	def->variables = (uint32_t)r->chain->variable_count - def->first_variable;
	r->scope = scope.outer;
	TRY(resolver_find_lost(r, def, s->block));
	int64_t *uses = arena_array(arena, def->count + 1, sizeof *uses);
	TRY_ALLOC(uses, r->context->diags);
	def->size = count_nodes(def->body, 1, uses);
	def->uses = uses;
	TRY_ALLOC(dictionary_put(&scope.outer->defs, arena, def->name, def), r->context->diags);
	return STATUS_OK;
}
