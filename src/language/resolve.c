/*
 * Resolution: the syntax tree becomes a chain, in which each name is bound to its meaning.
 *
 * Names bound in a def's body, or a `repeat 0`, are local to it. Names bound in any other block stay bound after it. A
 * loop's body, or a block that a def is called with, is resolved once, though it may run many times or never. So before
 * it, a prelude gives each known name that it rebinds a variable. A prelude is a NODE_NAME whose name is NULL.
 *
 * Invariant: refs, and all arguments but deferred ones, are valid. Lowering checks types, indices and unset names.
 */
#include "language/resolver.h"

#include <string.h>

struct node *resolver_new_node(struct resolver *r, enum node_kind kind, const struct statement *s)
{
	struct node *node = arena_alloc(r->context->arena, sizeof *node);
	if (!node)
		return NULL;
	node->kind = kind;
	node->span = s->name_span;
	return node;
}

void resolver_append(struct resolver *r, struct node *node)
{
	*r->tail = node;
	r->tail = &node->next;
}

size_t resolver_count_operands(const struct operand *operand)
{
	size_t count = 0;
	for (; operand; operand = operand->next)
		count++;
	return count;
}

enum status resolver_operand(struct resolver *r, const struct operand *operand, struct ref *ref)
{
	*ref = (struct ref){.element = NO_INDEX, .span = operand->span};
	switch (operand->kind) {
	case OPERAND_NUMBER:
		ref->kind = REF_NUMBER;
		ref->number = operand->number.value;
		break;
	case OPERAND_NAME:
		TRY(resolver_name(r, operand->text, operand->span, ref));
		ref->element = operand->index;
		break;
	case OPERAND_BLOCK:
		ref->kind = REF_BLOCK;
		return resolver_block(r, operand->block, &ref->block);
	}
	return STATUS_OK;
}

static enum status resolve_stage(struct resolver *r, const struct statement *s)
{
	struct def *def = resolver_find_def(r, s->name);
	if (def)
		return resolver_call(r, s, def);
	enum op op = op_find(s->name);
	return op != OP_COUNT ? resolver_operation(r, s, op) : resolver_unknown_operation(r, s);
}

/* Names of values. */

static enum status new_variable(struct resolver *r, const char *name, uint32_t *index)
{
	struct chain *chain = r->chain;
	*index = (uint32_t)chain->variable_count;
	const char **variable = arena_append(r->context->arena, &chain->variables, &chain->variable_count,
	                                     &r->variable_capacity, sizeof *variable);
	TRY_ALLOC(variable, r->context->diags);
	*variable = name;
	return STATUS_OK;
}

/* True if REF is a variable that can be bound again: any but the input's. */
static bool is_variable(const struct ref *ref) { return ref->kind == REF_VARIABLE && ref->index != 0; }

/* Binds NAME at home to a variable, *INDEX: the one that it has there, or a new one. */
static enum status bind_variable(struct resolver *r, const char *name, uint32_t *index)
{
	const struct binding *b = scope_find(resolver_home(r), name);
	if (b && is_variable(&b->ref))
		*index = b->ref.index;
	else
		TRY(new_variable(r, name, index));
	return resolver_bind_home(r, name, (struct ref){.kind = REF_VARIABLE, .index = *index, .element = NO_INDEX});
}

static enum status resolve_naming(struct resolver *r, const struct statement *s)
{
	struct chain *chain = r->chain;
	struct arena *arena = r->context->arena;
	struct node *node = resolver_new_node(r, NODE_NAME, s);
	TRY_ALLOC(node, r->context->diags);
	node->span = s->span;
	node->name = s->name;
	TRY(bind_variable(r, s->name, &node->variable));
	resolver_append(r, node);
	if (dictionary_find(&r->named, s->name))
		return STATUS_OK;
	const char **name = arena_append(arena, &chain->names, &chain->name_count, &r->name_capacity, sizeof *name);
	TRY_ALLOC(name && dictionary_put(&r->named, arena, s->name, chain), r->context->diags);
	*name = s->name;
	return STATUS_OK;
}

/* Loops. */

static bool never_runs(const struct statement *s) { return s->kind == STATEMENT_REPEAT && s->count == 0; }

/* True if S has a block of its own, not an operand, that may run and whose names stay bound after it. */
static bool has_open_block(const struct statement *s) { return s->block && s->kind != STATEMENT_DEF && !never_runs(s); }

/* Appends a prelude that gives VARIABLE the value of OPERAND. S gives its place in the source. */
static enum status add_prelude(struct resolver *r, const struct statement *s, struct ref operand, uint32_t variable)
{
	struct node *node = resolver_new_node(r, NODE_NAME, s);
	TRY_ALLOC(node, r->context->diags);
	node->operand = operand;
	node->variable = variable;
	resolver_append(r, node);
	return STATUS_OK;
}

/*
 * Appends a prelude for the name that S binds, unless it is new, or has a variable (not the input's) in a scope up to
 * home. A variable outside of the def is another one: the prelude gives its value to the first iteration.
 */
static enum status prepare_name(struct resolver *r, const struct statement *s)
{
	const struct binding *outside = scope_find_outward(resolver_home(r)->outer, s->name);
	const struct binding *b = resolver_find(r, s->name);
	if (!b || (is_variable(&b->ref) && b != outside))
		return STATUS_OK;
	const struct ref before = b->ref;
	r->chain->names_input |= before.kind == REF_VARIABLE && before.index == 0;
	uint32_t variable;
	TRY(bind_variable(r, s->name, &variable));
	return add_prelude(r, s, before, variable);
}

enum status resolver_prepare_operands(struct resolver *r, const struct operand *operand)
{
	for (; operand; operand = operand->next)
		if (operand->kind == OPERAND_BLOCK)
			TRY(resolver_prepare_names(r, operand->block));
	return STATUS_OK;
}

enum status resolver_prepare_names(struct resolver *r, const struct block *block)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		if (s->kind == STATEMENT_NAME)
			TRY(prepare_name(r, s));
		else if (has_open_block(s))
			TRY(resolver_prepare_names(r, s->block));
		TRY(resolver_prepare_operands(r, s->operands));
	}
	return STATUS_OK;
}

/* Resolves BLOCK, of a `repeat 0`, to check it. Its params and defs stay declared; the names that it binds do not. */
static enum status resolve_unrun(struct resolver *r, const struct block *block)
{
	struct arena *arena = r->context->arena;
	struct name_scope scope = {.outer = r->scope, .def = resolver_home(r)->def, .home = true};
	struct node *none = NULL;
	r->scope = &scope;
	TRY(resolver_block(r, block, &none));
	r->scope = scope.outer;
	for (const struct binding *b = scope.bindings; b; b = b->next)
		if (b->ref.kind == REF_PARAM)
			TRY(resolver_bind_home(r, b->name, b->ref));
	for (size_t i = 0; i < scope.defs.capacity; i++) {
		const struct dictionary_entry *def = &scope.defs.entries[i];
		TRY_ALLOC(!def->name || dictionary_put(&scope.outer->defs, arena, def->name, def->value), r->context->diags);
	}
	return STATUS_OK;
}

static enum status resolve_repeat(struct resolver *r, const struct statement *s)
{
	if (never_runs(s))
		return resolve_unrun(r, s->block);
	if (s->count != 1)
		TRY(resolver_prepare_names(r, s->block));
	struct node *node = resolver_new_node(r, NODE_REPEAT, s);
	TRY_ALLOC(node, r->context->diags);
	node->count = s->count;
	TRY(resolver_block(r, s->block, &node->body));
	if (node->body) /* a block without nodes needs none around it */
		resolver_append(r, node);
	return STATUS_OK;
}

/* True if BLOCK, or a block in it whose names stay bound, binds NAME. */
static bool rebinds(const struct block *block, const char *name)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		if (s->kind == STATEMENT_NAME ? !strcmp(s->name, name) : has_open_block(s) && rebinds(s->block, name))
			return true;
		for (const struct operand *o = s->operands; o; o = o->next)
			if (o->kind == OPERAND_BLOCK && rebinds(o->block, name))
				return true;
	}
	return false;
}

/* Appends a prelude that binds the value of REF to a new variable, which nothing rebinds. REF then refers to that. */
static enum status hold_value(struct resolver *r, const struct statement *s, struct ref *ref)
{
	const struct ref before = *ref;
	TRY(new_variable(r, r->chain->variables[ref->index], &ref->index));
	return add_prelude(r, s, before, ref->index);
}

/*
 * Resolves the arrays that NODE, the `for` S, runs over, and numbers its variables; resolve_for binds their names. If S
 * rebinds an array's name, NODE runs over a variable that a prelude binds before it. So NODE is not appended yet.
 */
static enum status resolve_over(struct resolver *r, const struct statement *s, struct node *node)
{
	const size_t names = name_list_count(s->names), over = name_list_count(s->over);
	if (names != over)
		return RESOLVE_FAIL(r, node->span, "for has %zu variable%s for %zu array%s", names, names == 1 ? "" : "s", over,
		                    over == 1 ? "" : "s");
	node->loop_count = names;
	node->loops = arena_array(r->context->arena, names, sizeof *node->loops);
	node->over = arena_array(r->context->arena, names, sizeof *node->over);
	TRY_ALLOC(node->loops && node->over, r->context->diags);
	const struct name_list *o = s->over;
	for (size_t i = 0; i < names; i++, o = o->next) {
		struct ref *ref = &node->over[i];
		TRY(resolver_name(r, o->name, o->span, ref));
		if (ref->kind == REF_VARIABLE && rebinds(s->block, o->name))
			TRY(hold_value(r, s, ref));
		node->loops[i] = (uint32_t)r->chain->loop_count++;
	}
	return STATUS_OK;
}

static enum status resolve_for(struct resolver *r, const struct statement *s)
{
	TRY(resolver_prepare_names(r, s->block));
	struct node *node = resolver_new_node(r, NODE_FOR, s);
	TRY_ALLOC(node, r->context->diags);
	TRY(resolve_over(r, s, node));
	struct name_scope scope = {.outer = r->scope};
	r->scope = &scope;
	const uint32_t *loop = node->loops;
	for (const struct name_list *n = s->names; n; n = n->next) {
		if (scope_find(&scope, n->name))
			return RESOLVE_FAIL(r, n->span, "variable '%s' is named twice", n->name);
		TRY(resolver_bind(r, &scope, n->name, (struct ref){.kind = REF_LOOP, .index = *loop++, .element = NO_INDEX}));
	}
	resolver_append(r, node);
	TRY(resolver_block(r, s->block, &node->body));
	r->scope = scope.outer;
	return STATUS_OK;
}

/* Other statements. */

static enum status resolve_checkpoint(struct resolver *r, const struct statement *s)
{
	struct node *node = resolver_new_node(r, NODE_CHECKPOINT, s);
	TRY_ALLOC(node, r->context->diags);
	for (const struct option *o = s->options; o; o = o->next) {
		if (strcmp(o->name, "policy")) {
			RESOLVE_FAIL(r, o->span, "unknown option '%s' for checkpoint", o->name);
			return RESOLVE_HINT(r, "checkpoint takes policy=");
		}
		if (o->kind != VALUE_NAME && o->kind != VALUE_STRING)
			return RESOLVE_FAIL(r, o->span, "policy must be a name or a string");
		if (node->policy)
			return RESOLVE_FAIL(r, o->span, "option 'policy' is given twice");
		struct block_policy *policy = arena_alloc(r->context->arena, sizeof *policy);
		TRY_ALLOC(policy, r->context->diags);
		*policy = (struct block_policy){.text = o->text, .span = o->value_span};
		*r->last_policy = policy;
		r->last_policy = &policy->next;
		node->policy = policy;
	}
	resolver_append(r, node);
	return resolver_block(r, s->block, &node->body);
}

static enum status resolve_param(struct resolver *r, const struct statement *s)
{
	struct chain *chain = r->chain;
	struct arena *arena = r->context->arena;
	if (dictionary_find(&r->declared, s->name))
		return RESOLVE_FAIL(r, s->name_span, "'%s' is declared twice", s->name);
	if (!strcmp(s->name, "nan") || !strcmp(s->name, "inf"))
		return RESOLVE_FAIL(r, s->name_span, "'%s' is a number and can't be a name", s->name);
	if (!strcmp(s->name, chain->input))
		return RESOLVE_FAIL(r, s->name_span, "'%s' is the input's name", s->name);
	const struct ref ref = {.kind = REF_PARAM, .index = (uint32_t)chain->param_count, .element = NO_INDEX};
	struct param *param = arena_append(arena, &chain->params, &chain->param_count, &r->param_capacity, sizeof *param);
	TRY_ALLOC(param && dictionary_put(&r->declared, arena, s->name, chain), r->context->diags);
	*param = (struct param){.name = s->name,
	                        .differentiated = s->kind == STATEMENT_PARAM,
	                        .declared = *s->type,
	                        .init = *s->init,
	                        .span = s->name_span};
	return resolver_bind_home(r, s->name, ref);
}

static enum status resolve_statement(struct resolver *r, const struct statement *s, bool top)
{
	static enum status (*const resolve[STATEMENT_COUNT])(struct resolver *, const struct statement *) = {
		[STATEMENT_PARAM] = resolve_param, [STATEMENT_CONST] = resolve_param,
		[STATEMENT_DEF] = resolver_def,    [STATEMENT_STAGE] = resolve_stage,
		[STATEMENT_NAME] = resolve_naming, [STATEMENT_REPEAT] = resolve_repeat,
		[STATEMENT_FOR] = resolve_for,     [STATEMENT_CHECKPOINT] = resolve_checkpoint};
	if (s->kind != STATEMENT_INPUT)
		return resolve[s->kind](r, s);
	if (top)
		return STATUS_OK; /* find_input has read it */
	RESOLVE_FAIL(r, s->span, "input stands inside a block");
	return RESOLVE_HINT(r, "declare it at the top level of the chain, before the block");
}

enum status resolver_block(struct resolver *r, const struct block *block, struct node **first)
{
	struct node **tail = r->tail;
	r->tail = first;
	for (const struct statement *s = block->first; s; s = s->next)
		TRY(resolve_statement(r, s, block == r->top));
	r->tail = tail;
	return STATUS_OK;
}

/* Finds the input's declaration, if there is one: at the top level, before the first stage. It holds in all blocks. */
static enum status find_input(struct resolver *r)
{
	const struct statement *found = NULL, *stage = NULL;
	for (const struct statement *s = r->top->first; s; s = s->next) {
		if (s->kind > STATEMENT_DEF && !stage)
			stage = s;
		if (s->kind != STATEMENT_INPUT)
			continue;
		if (found)
			return RESOLVE_FAIL(r, s->span, "a chain has one input, and it is declared on line %u", found->span.line);
		if (stage)
			return RESOLVE_FAIL(r, s->span, "input must stand before the first stage");
		found = s;
		r->chain->input = s->name;
		r->chain->input_type = *s->type;
	}
	return STATUS_OK;
}

struct type param_type(const struct param *param, const struct type *input)
{
	struct type type = param->type;
	if (param->weak)
		type.dtype = dtype_compute(input->dtype);
	return type;
}

enum status chain_resolve(const struct context *context, struct chain *chain, const struct syntax *syntax)
{
	*chain = (struct chain){.source = syntax->source, .input = "x"};
	struct name_scope top = {.home = true};
	struct resolver r = {
		.context = context, .chain = chain, .top = syntax->chain, .scope = &top, .last_policy = &chain->block_policies};
	uint32_t input;
	TRY(find_input(&r));
	TRY(new_variable(&r, chain->input, &input));
	TRY(resolver_bind(&r, &top, chain->input, (struct ref){.kind = REF_VARIABLE, .element = NO_INDEX}));
	TRY(resolver_block(&r, syntax->chain, &chain->first));
	TRY(resolver_check_size(&r));
	TRY_ALLOC(!context->arena->failed, context->diags);
	return STATUS_OK;
}
