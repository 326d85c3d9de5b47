/*
 * Names that stages bind: by `name`, by `export`, and by calls of defs that export.
 *
 * Where a loop's body, or a block that a def is called with, rebinds a known name, a prelude before it gives the name a
 * variable (language/resolve.c). The same names of a def's call are found by the def's name before any def is resolved.
 *
 * An export of a def is a variable of its own. It gets the value at the `export`, which also binds the name in the def.
 * When the call ends, the caller's variable gets that value. So the def reads and binds the caller's name, whatever the
 * def's own names are.
 * Tests: tests/cases/language.test
 */
#include "language/resolver.h"

#include <string.h>

enum status resolver_new_variable(struct resolver *r, const char *name, uint32_t *index)
{
	struct chain *chain = r->chain;
	*index = (uint32_t)chain->variable_count;
	const char **variable = arena_append(r->context->arena, &chain->variables, &chain->variable_count,
	                                     &r->variable_capacity, sizeof *variable);
	TRY_ALLOC(variable && arena_append(r->context->arena, &r->uses, &r->use_count, &r->use_capacity, sizeof *r->uses),
	          r->context->diags);
	r->uses[*index] = (struct variable_use){.read = false};
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
		TRY(resolver_new_variable(r, name, index));
	return resolver_bind_home(r, name, (struct ref){.kind = REF_VARIABLE, .index = *index, .element = NO_INDEX});
}

enum status resolver_bind_name(struct resolver *r, const char *name, struct span span, uint32_t *index)
{
	TRY(bind_variable(r, name, index));
	TRY(resolver_check_collected(r, *index, "bind", span));
	struct variable_use *use = &r->uses[*index];
	*use = (struct variable_use){span, use->read && r->loops > 0, false};
	return STATUS_OK;
}

/* Appends a node that names OPERAND (REF_NONE: the current value) NAME, which policies know then, at SPAN. */
static enum status add_naming(struct resolver *r, const struct statement *s, const char *name, struct span span,
                              struct ref operand, uint32_t variable)
{
	struct chain *chain = r->chain;
	struct arena *arena = r->context->arena;
	struct node *node = resolver_new_node(r, NODE_NAME, s);
	TRY_ALLOC(node, r->context->diags);
	node->span = span;
	node->name = name;
	node->operand = operand;
	node->variable = variable;
	resolver_append(r, node);
	if (dictionary_find(&r->named, name))
		return STATUS_OK;
	const char **named = arena_append(arena, &chain->names, &chain->name_count, &r->name_capacity, sizeof *named);
	TRY_ALLOC(named && dictionary_put(&r->named, arena, name, chain), r->context->diags);
	*named = name;
	return STATUS_OK;
}

enum status resolver_naming(struct resolver *r, const struct statement *s)
{
	uint32_t variable;
	TRY(resolver_bind_name(r, s->name, s->span, &variable));
	return add_naming(r, s, s->name, s->span, (struct ref){.kind = REF_NONE}, variable);
}

enum status resolver_bind_value(struct resolver *r, const struct statement *s, struct ref ref)
{
	uint32_t variable;
	TRY(resolver_bind_name(r, s->name, s->span, &variable));
	return add_naming(r, s, s->name, s->span, ref, variable);
}

/* Preludes. */

bool resolver_opens_block(const struct statement *s)
{
	const bool runs = s->kind != STATEMENT_REPEAT || s->count.formula || s->count.value > 0 ||
	                  (s->block && resolver_collects(s->block));
	return s->block && s->kind != STATEMENT_DEF && s->kind != STATEMENT_FIXED_POINT && runs;
}

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

enum status resolver_hold_value(struct resolver *r, const struct statement *s, struct ref *ref)
{
	const struct ref before = *ref;
	TRY(resolver_new_variable(r, r->chain->variables[ref->index], &ref->index));
	return add_prelude(r, s, before, ref->index);
}

enum status resolver_hold_array(struct resolver *r, const struct statement *s, struct ref *ref)
{
	const struct ref before = *ref;
	struct node *node = resolver_new_node(r, NODE_NAME, s);
	TRY_ALLOC(node, r->context->diags);
	*ref = (struct ref){.kind = REF_VARIABLE, .element = NO_INDEX, .span = before.span};
	TRY(resolver_new_variable(r, "", &ref->index));
	node->name = "";
	node->span = before.span;
	node->operand = before;
	node->variable = ref->index;
	resolver_append(r, node);
	return STATUS_OK;
}

/* Returns the names that S binds where it stands, blocks left out: its own, stored in *OWN, or others. Or NULL. */
static const struct name_list *names_bound(const struct resolver *r, const struct statement *s, struct name_list *own)
{
	*own = (struct name_list){.name = s->name};
	if (s->kind == STATEMENT_EXPORT)
		return s->over;
	if (statement_binds(s))
		return own;
	return s->kind == STATEMENT_STAGE ? dictionary_find(&r->exporters, s->name) : NULL;
}

bool resolver_rebinds(const struct resolver *r, const struct block *block, const char *name)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		struct name_list own;
		for (const struct name_list *n = names_bound(r, s, &own); n; n = n->next)
			if (!strcmp(n->name, name))
				return true;
		if (resolver_opens_block(s) && resolver_rebinds(r, s->block, name))
			return true;
		for (const struct operand *o = s->operands; o; o = o->next)
			if (o->kind == OPERAND_BLOCK && resolver_rebinds(r, o->block, name))
				return true;
	}
	return false;
}

struct def_export *resolver_export_read(const struct resolver *r, const char *name)
{
	const struct name_scope *scope = r->scope;
	const struct binding *b;
	while (!(b = scope_find(scope, name)))
		scope = scope->outer;
	const struct def *def = scope->def;
	if (b->ref.kind != REF_ARGUMENT || b->ref.index < def->inherited + def->own)
		return NULL;
	return &def->exports[b->ref.index - def->inherited - def->own];
}

/*
 * Appends a prelude for NAME, which S binds, unless it is new, or has a variable (not the input's) in a scope up to
 * home. A variable outside of the def is another one: the prelude gives its value to the first iteration.
 */
static enum status prepare_name(struct resolver *r, const struct statement *s, const char *name)
{
	const struct binding *outside = scope_find_outward(resolver_home(r)->outer, name);
	const struct binding *b = resolver_find(r, name);
	if (!b || (is_variable(&b->ref) && b != outside))
		return STATUS_OK;
	const struct ref before = b->ref;
	r->chain->names_input |= before.kind == REF_VARIABLE && before.index == 0;
	if (before.kind == REF_PARAM)
		r->chain->params[before.index].reads++;
	struct def_export *export = resolver_export_read(r, name);
	if (export)
		export->prepared = true;
	uint32_t variable;
	TRY(bind_variable(r, name, &variable));
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
		struct name_list own;
		for (const struct name_list *n = names_bound(r, s, &own); n; n = n->next)
			TRY(prepare_name(r, s, n->name));
		if (resolver_opens_block(s))
			TRY(resolver_prepare_names(r, s->block));
		TRY(resolver_prepare_operands(r, s->operands));
	}
	return STATUS_OK;
}

/* Exports. */

/* Calls ADD for each name that the statements of BLOCK export, those of defs in it left out. */
static enum status each_export(struct resolver *r, const struct block *block, void *to,
                               enum status (*add)(struct resolver *r, void *to, const char *name))
{
	for (const struct statement *s = block->first; s; s = s->next) {
		for (const struct name_list *n = s->kind == STATEMENT_EXPORT ? s->over : NULL; n; n = n->next)
			TRY(add(r, to, n->name));
		if (resolver_opens_block(s))
			TRY(each_export(r, s->block, to, add));
	}
	return STATUS_OK;
}

/* Puts NAME before the name_list TO. */
static enum status list_name(struct resolver *r, void *to, const char *name)
{
	struct name_list **list = to, *first = arena_alloc(r->context->arena, sizeof *first);
	TRY_ALLOC(first, r->context->diags);
	*first = (struct name_list){.name = name, .next = *list};
	*list = first;
	return STATUS_OK;
}

enum status resolver_find_exporters(struct resolver *r, const struct block *block)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		if (s->block)
			TRY(resolver_find_exporters(r, s->block));
		if (s->condition)
			TRY(resolver_find_exporters(r, s->condition));
		for (const struct operand *o = s->operands; o; o = o->next)
			if (o->kind == OPERAND_BLOCK)
				TRY(resolver_find_exporters(r, o->block));
		struct name_list *names = s->kind == STATEMENT_DEF ? dictionary_find(&r->exporters, s->name) : NULL;
		if (s->kind == STATEMENT_DEF)
			TRY(each_export(r, s->block, &names, list_name));
		TRY_ALLOC(!names || dictionary_put(&r->exporters, r->context->arena, s->name, names), r->context->diags);
	}
	return STATUS_OK;
}

/* Adds NAME to the exports of the def TO, unless it is one, and gives it a variable. */
static enum status add_export(struct resolver *r, void *to, const char *name)
{
	struct def *def = to;
	if (dictionary_find(&def->export_by_name, name))
		return STATUS_OK;
	uint32_t variable;
	TRY(resolver_new_variable(r, name, &variable));
	const struct def_export *before = def->exports;
	struct def_export *export =
		arena_append(r->context->arena, &def->exports, &def->export_count, &def->export_capacity, sizeof *export);
	TRY_ALLOC(export, r->context->diags);
	*export = (struct def_export){.name = name, .variable = variable};
	/* If the exports have moved, so have those that the dictionary refers to. */
	for (size_t i = before == def->exports ? def->export_count - 1 : 0; i < def->export_count; i++)
		TRY_ALLOC(dictionary_put(&def->export_by_name, r->context->arena, def->exports[i].name, &def->exports[i]),
		          r->context->diags);
	return STATUS_OK;
}

enum status resolver_bind_exports(struct resolver *r, struct def *def, const struct block *block)
{
	TRY(each_export(r, block, def, add_export));
	for (size_t i = 0; i < def->export_count; i++, def->count++) {
		const struct ref ref = {.kind = REF_ARGUMENT, .index = (uint32_t)def->count, .element = NO_INDEX};
		if (!scope_find(r->scope, def->exports[i].name)) /* a parameter hides it */
			TRY(resolver_bind(r, r->scope, def->exports[i].name, ref));
	}
	return STATUS_OK;
}

/* True if NAME has only the meaning that it would have as an export of the def around: nothing has bound it. */
static bool is_unbound(const struct resolver *r, const char *name)
{
	const struct name_scope *home = resolver_home(r);
	return resolver_find(r, name) && resolver_export_read(r, name) && !scope_find_outward(home->outer, name);
}

/* Appends nodes that export the formulas of S. All are computed before any of its names is bound. */
static enum status resolve_exported(struct resolver *r, const struct statement *s)
{
	const struct def *def = resolver_home(r)->def;
	const struct name_list *as = s->over;
	for (const struct name_list *n = s->names; n; n = n->next, as = as->next) {
		struct formula_value value;
		const struct def_export *export = dictionary_find(&def->export_by_name, as->name);
		struct span span = n->span;
		if (!n->formula)
			continue;
		TRY(resolver_formula(r, n->formula, &value));
		span.end = as->span.end;
		if (export)
			TRY(add_naming(r, s, as->name, span, value.ref, export->variable));
	}
	return STATUS_OK;
}

/* Binds in DEF the name AS, as which it has exported a formula. */
static enum status bind_exported_formula(struct resolver *r, const struct def *def, const struct name_list *as)
{
	const struct def_export *export = dictionary_find(&def->export_by_name, as->name);
	uint32_t variable;
	if (!export)
		return STATUS_OK;
	TRY(bind_variable(r, as->name, &variable));
	const struct statement s = {.name_span = as->span};
	return add_prelude(r, &s, (struct ref){.kind = REF_VARIABLE, .index = export->variable, .element = NO_INDEX},
	                   variable);
}

enum status resolver_export(struct resolver *r, const struct statement *s)
{
	struct def *def = resolver_home(r)->def;
	if (!def) {
		RESOLVE_FAIL(r, s->name_span, "export stands outside of a def");
		return RESOLVE_HINT(r, "a name that `name` binds here holds below already");
	}
	if (r->operands) {
		RESOLVE_FAIL(r, s->name_span, "export stands in a block operand");
		return RESOLVE_HINT(r, "export the name after that stage: a name that an operand binds holds below it");
	}
	const struct name_list *as = s->over;
	TRY(resolve_exported(r, s));
	for (const struct name_list *n = s->names; n; n = n->next, as = as->next) {
		struct ref value;
		if (n->formula) {
			TRY(bind_exported_formula(r, def, as));
			continue;
		}
		if (is_unbound(r, n->name))
			return resolver_refuse_name(r, n->name, n->span);
		TRY(resolver_name(r, n->name, n->span, &value));
		const struct def_export *export = dictionary_find(&def->export_by_name, as->name);
		if (!export) /* in a `repeat 0` */
			continue;
		struct span span = n->span;
		span.end = as->span.end;
		TRY(add_naming(r, s, as->name, span, value, export->variable));
		if (!strcmp(n->name, as->name))
			continue;
		uint32_t variable;
		TRY(bind_variable(r, as->name, &variable));
		TRY(add_prelude(r, s, (struct ref){.kind = REF_VARIABLE, .index = export->variable, .element = NO_INDEX},
		                variable));
	}
	return STATUS_OK;
}

enum status resolver_import(struct resolver *r, struct node *node)
{
	const struct def *def = node->def;
	for (size_t i = 0; i < def->export_count; i++) {
		const struct def_export *export = &def->exports[i];
		if (!export->read && !export->prepared)
			continue;
		if (resolver_find(r, export->name)) {
			TRY(resolver_name(r, export->name, node->span, &node->arguments[def->inherited + def->own + i]));
		} else if (export->read) {
			RESOLVE_FAIL(r, node->span, "'%s' reads '%s', which has no value where it is called", def->name,
			             export->name);
			return RESOLVE_HINT(r, "give it a value before the call, as in `name %s`", export->name);
		}
	}
	return STATUS_OK;
}

enum status resolver_bind_exported(struct resolver *r, struct node *node)
{
	const struct def *def = node->def;
	node->exports = arena_array(r->context->arena, def->export_count + 1, sizeof *node->exports);
	TRY_ALLOC(node->exports, r->context->diags);
	for (size_t i = 0; i < def->export_count; i++)
		TRY(resolver_bind_name(r, def->exports[i].name, node->span, &node->exports[i]));
	return STATUS_OK;
}

/* Lost names. */

/* True if BLOCK computes a value after byte AT of the source: naming a value or returning to it computes none. */
static bool computes_after(const struct block *block, uint32_t at)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		if (s->span.end <= at)
			continue;
		if (s->kind == STATEMENT_STAGE && strcmp(s->name, "use") && strcmp(s->name, "identity"))
			return true;
		if (resolver_opens_block(s) && computes_after(s->block, at))
			return true;
	}
	return false;
}

/* Notes that NAME, which SPAN binds in DEF (NULL: at the top level), is bound last and not read. */
static enum status note_lost(struct resolver *r, const char *name, const char *def, struct span span)
{
	struct lost_name *lost = arena_alloc(r->context->arena, sizeof *lost);
	TRY_ALLOC(lost, r->context->diags);
	*lost = (struct lost_name){.name = name, .def = def, .span = span};
	*r->last_lost = lost;
	r->last_lost = &lost->next;
	return STATUS_OK;
}

enum status resolver_find_lost_let(struct resolver *r)
{
	const struct statement *last = r->top->first;
	while (last && last->next)
		last = last->next;
	const struct binding *b = last && last->kind == STATEMENT_LET ? resolver_find(r, last->name) : NULL;
	const bool lost = b && b->ref.kind == REF_VARIABLE && !r->uses[b->ref.index].read;
	return lost ? note_lost(r, last->name, NULL, last->name_span) : STATUS_OK;
}

enum status resolver_find_lost(struct resolver *r, const struct def *def, const struct block *block)
{
	for (uint32_t i = def->first_variable; i < def->first_variable + def->variables; i++) {
		const char *name = r->chain->variables[i];
		const struct variable_use use = r->uses[i];
		r->uses[i].bound.line = 0; /* the def around this one has the variable too */
		if (!use.bound.line || use.read || (!resolver_find(r, name) && computes_after(block, use.bound.end)))
			continue;
		TRY(note_lost(r, name, def->name, use.bound));
	}
	return STATUS_OK;
}
