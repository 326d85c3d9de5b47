/*
 * Looks up names: from the innermost scope outwards, and within a scope the latest binding holds. For an unknown name,
 * a hint says where it is declared below, how it is written, or which known name is nearest to it.
 * Tests: tests/cases/language.test
 */
#include "language/resolver.h"

#include "base/suggest.h"
#include "language/recipes.h"

#include <ctype.h>
#include <string.h>

struct binding *scope_find(const struct name_scope *scope, const char *name)
{
	return dictionary_find(&scope->by_name, name);
}

struct binding *scope_find_outward(const struct name_scope *scope, const char *name)
{
	struct binding *b = NULL;
	for (; scope && !b; scope = scope->outer)
		b = scope_find(scope, name);
	return b;
}

struct binding *resolver_find(const struct resolver *r, const char *name) { return scope_find_outward(r->scope, name); }

struct def *resolver_find_def(const struct resolver *r, const char *name)
{
	struct def *def = NULL;
	for (const struct name_scope *s = r->scope; s && !def; s = s->outer)
		def = dictionary_find(&s->defs, name);
	return def;
}

struct name_scope *resolver_home(const struct resolver *r)
{
	struct name_scope *home = r->scope;
	while (!home->home)
		home = home->outer;
	return home;
}

enum status resolver_bind(struct resolver *r, struct name_scope *scope, const char *name, struct ref ref)
{
	struct binding *b = dictionary_find(&scope->by_name, name);
	if (!b) {
		b = arena_alloc(r->context->arena, sizeof *b);
		TRY_ALLOC(b && dictionary_put(&scope->by_name, r->context->arena, name, b), r->context->diags);
		b->name = name;
		b->next = scope->bindings;
		scope->bindings = b;
	}
	b->ref = ref;
	return STATUS_OK;
}

enum status resolver_bind_home(struct resolver *r, const char *name, struct ref ref)
{
	struct name_scope *home = resolver_home(r);
	for (struct name_scope *s = r->scope; s != home; s = s->outer) {
		struct binding *hidden = scope_find(s, name);
		if (hidden)
			hidden->ref = ref;
	}
	return resolver_bind(r, home, name, ref);
}

/*
 * Returns the first statement that ends after USE and gives NAME a meaning: if VALUES a param, a const or a `name`,
 * else a def or a program. The bodies of defs that do not contain USE are left out. NULL if there is none.
 */
static const struct statement *find_below(const struct block *block, const char *name, struct span use, bool values)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		const bool value = s->kind == STATEMENT_PARAM || s->kind == STATEMENT_CONST || statement_binds(s);
		const bool fits = values ? value : s->kind == STATEMENT_DEF || s->kind == STATEMENT_PROGRAM;
		if (fits && s->span.end > use.end && !strcmp(s->name, name))
			return s;
		const struct statement *found = NULL;
		if (s->block && (s->kind != STATEMENT_DEF || (s->span.begin <= use.begin && use.begin < s->span.end)))
			found = find_below(s->block, name, use, values);
		for (const struct operand *o = s->operands; o && !found; o = o->next)
			if (o->kind == OPERAND_BLOCK)
				found = find_below(o->block, name, use, values);
		if (found)
			return found;
	}
	return NULL;
}

/*
 * If USE of NAME stands in a def of the chain that binds NAME below USE, and the chain binds it too, the def probably
 * lacks an export: returns true after a hint that says which.
 */
static bool hint_export(struct resolver *r, const char *name, struct span use)
{
	const struct statement *def = NULL, *own = NULL, *last = NULL;
	bool outside = false;
	for (const struct statement *s = r->top->first; s; s = s->next) {
		outside |= statement_binds(s) && !strcmp(s->name, name);
		if (s->kind == STATEMENT_DEF && s->span.begin <= use.begin && use.begin < s->span.end)
			def = s;
	}
	for (const struct statement *s = def ? def->block->first : NULL; s && !own; s = s->next) {
		if (statement_binds(s) && s->span.begin > use.begin && !strcmp(s->name, name))
			own = s;
		else
			last = s;
	}
	if (!outside || !own)
		return false;
	if (last && last->kind == STATEMENT_STAGE && !strcmp(last->name, "use") && last->operands &&
	    last->operands->kind == OPERAND_NAME)
		RESOLVE_HINT(r, "'%s' ends with each call of '%s': `export %s as %s` in place of %u:%u passes it on", name,
		             def->name, last->operands->text, name, own->span.line, own->span.column);
	else
		RESOLVE_HINT(r, "'%s' ends with each call of '%s': `export %s` below %u:%u passes it on", name, def->name, name,
		             own->span.line, own->span.column);
	return true;
}

static bool hint_below(struct resolver *r, const char *name, struct span use, bool values)
{
	const struct statement *s = find_below(r->top, name, use, values);
	if (s && statement_binds(s) && hint_export(r, name, use))
		return true;
	if (s && s->kind == STATEMENT_DEF && s->span.begin < use.begin)
		RESOLVE_HINT(r, "a def cannot call itself; `repeat` runs stages again");
	else if (s)
		RESOLVE_HINT(r, "'%s' is %s only below, at %u:%u", name, statement_binds(s) ? "named" : "declared",
		             s->name_span.line, s->name_span.column);
	return s != NULL;
}

/* Returns the other name bound in R's scopes that is nearest to NAME; NULL if none is near. */
static const char *nearest_binding(struct resolver *r, const char *name)
{
	size_t count = 0;
	for (const struct name_scope *s = r->scope; s; s = s->outer)
		count += s->by_name.count;
	const char **names = arena_array(r->context->arena, count + 1, sizeof *names);
	count = 0;
	for (const struct name_scope *s = r->scope; s && names; s = s->outer)
		for (const struct binding *b = s->bindings; b; b = b->next)
			if (strcmp(b->name, name)) /* an export that nothing has bound has NAME */
				names[count++] = b->name;
	return names ? suggest_nearest(name, names, count) : NULL;
}

static bool lists(const struct name_list *names, const char *name)
{
	while (names && strcmp(names->name, name))
		names = names->next;
	return names != NULL;
}

/* True if a stage of BLOCK itself binds NAME: by `name`, or by the call of a def that exports it. */
static bool binds(const struct resolver *r, const struct block *block, const char *name)
{
	for (const struct statement *s = block->first; s; s = s->next)
		if (statement_binds(s) ? !strcmp(s->name, name)
		                       : s->kind == STATEMENT_STAGE && lists(dictionary_find(&r->exporters, s->name), name))
			return true;
	return false;
}

/* Returns the first def that ends before byte AT, binds NAME in its block and does not export it; NULL if none does. */
static const struct statement *find_binding_def(const struct resolver *r, const struct block *block, const char *name,
                                                uint32_t at)
{
	const struct statement *def = NULL;
	for (const struct statement *s = block->first; s && s->span.end <= at && !def; s = s->next) {
		const bool lost = s->kind == STATEMENT_DEF && binds(r, s->block, name) &&
		                  !lists(dictionary_find(&r->exporters, s->name), name);
		def = lost ? s : s->block ? find_binding_def(r, s->block, name, at) : NULL;
	}
	return def;
}

/* Returns OP's name if OP needs the current value alone; of max and min, amax and amin. Else NULL. */
static const char *of_one_value(struct arena *arena, enum op op)
{
	const char *name = op_table[op].name;
	const char *reduces = op_table[op].operands ? arena_printf(arena, "a%s", name) : name;
	const enum op alone = reduces ? op_find(reduces) : OP_COUNT;
	int least = 0, most;
	if (alone != OP_COUNT)
		op_positionals(alone, &least, &most);
	return alone != OP_COUNT && op_table[alone].operands == 0 && least == 0 ? reduces : NULL;
}

/* True if the name at byte AT of SOURCE follows another name, that of a stage or of an operand, after blanks. */
static bool is_stage_operand(const struct source *source, uint32_t at)
{
	const uint32_t name = at;
	while (at > 0 && strchr(" \t", source->text[at - 1]))
		at--;
	return at > 0 && at < name && source->text[name] != '(' &&
	       (isalnum((unsigned char)source->text[at - 1]) || source->text[at - 1] == '_');
}

enum status resolver_refuse_name(struct resolver *r, const char *name, struct span use)
{
	const char *near;
	RESOLVE_FAIL(r, use, "unknown name '%s'", name);
	if (hint_below(r, name, use, true))
		return STATUS_CHAIN;
	if (names_constant(name))
		return RESOLVE_HINT(r, "the number is written (%s): without parentheses it is the name of a value", name);
	if (number_word(name))
		return RESOLVE_HINT(r, "the number is written %s", number_word(name));
	const struct source *source = r->chain->source;
	if (op_find(name) != OP_COUNT && use.end < source->length && source->text[use.end] == '(')
		return RESOLVE_HINT(r, "a call is a formula, and stands in parentheses: (%s(...))", name);
	const enum op op = op_find(name);
	const bool def_named = resolver_find_def(r, name) != NULL;
	const char *alone = op != OP_COUNT && !def_named ? of_one_value(r->context->arena, op) : NULL;
	if (alone && is_stage_operand(source, use.begin))
		return RESOLVE_HINT(r, "an operation as an operand is a block, as in { %s }", alone);
	if (alone)
		return RESOLVE_HINT(r, "'%s' is an operation, and its value is a call in a formula, as in (%s(.))", alone,
		                    alone);
	if (op != OP_COUNT || def_named)
		return RESOLVE_HINT(r, "'%s' is %s, and its value is a call in a formula, as in (%s(%s))", name,
		                    def_named ? "a def" : "an operation", name,
		                    !def_named && op_table[op].operands == 0 ? "." : "...");
	if (!strcmp(name, "x") && r->chain->input)
		return RESOLVE_HINT(r, "the input is named '%s' here", r->chain->input);
	if ((near = nearest_binding(r, name)))
		return RESOLVE_HINT(r, "did you mean '%s'?", near);
	const struct statement *def = find_binding_def(r, r->top, name, use.begin);
	if (def)
		return RESOLVE_HINT(r, "it ends with the call of '%s': `export %s` there binds it where '%s' is called",
		                    def->name, name, def->name);
	return RESOLVE_HINT(r, "declare it by param or const (%s gives a value), or name a value by `name %s`",
	                    r->context->diags->library ? "ckptc_chain_bind" : "--param", name);
}

enum status resolver_name(struct resolver *r, const char *name, struct span span, struct ref *ref)
{
	const struct binding *b = resolver_find(r, name);
	if (!b)
		return resolver_refuse_name(r, name, span);
	*ref = b->ref;
	ref->span = span;
	if (ref->kind == REF_VARIABLE)
		TRY(resolver_check_collected(r, ref->index, "read", span));
	struct def_export *export = resolver_export_read(r, name);
	if (export)
		export->read = true;
	if (ref->kind == REF_VARIABLE)
		r->uses[ref->index].read = true;
	if (ref->kind == REF_VARIABLE && ref->index == 0)
		r->chain->names_input = true;
	if (ref->kind == REF_PARAM)
		r->chain->params[ref->index].reads++;
	return STATUS_OK;
}

/* Returns the operation, known def or program, or (not in a CALL) keyword nearest to NAME; NULL if none is near. */
static const char *nearest_operation(struct resolver *r, const char *name, bool call)
{
	size_t count = OP_LISTED + STATEMENT_COUNT + r->chain->program_count, n = 0;
	for (const struct name_scope *s = r->scope; s; s = s->outer)
		count += s->defs.count;
	const char **names = arena_array(r->context->arena, count, sizeof *names);
	if (!names)
		return NULL;
	for (int i = 0; i < OP_LISTED; i++)
		names[n++] = op_table[op_list[i]].name;
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE && !call)
			names[n++] = statement_word(kind);
	for (size_t i = 0; i < r->chain->program_count; i++)
		names[n++] = r->chain->programs[i].name;
	for (const struct name_scope *s = r->scope; s; s = s->outer)
		for (size_t i = 0; i < s->defs.capacity; i++)
			if (s->defs.entries[i].name)
				names[n++] = s->defs.entries[i].name;
	return suggest_nearest(name, names, n);
}

enum status resolver_unknown_operation(struct resolver *r, const struct statement *s)
{
	const char *name = s->name, *near;
	const struct operand *o = s->operands;
	const struct source *source = r->chain->source;
	const char after = s->name_span.end < source->length ? source->text[s->name_span.end] : '\0';
	const bool call = after == '(';
	RESOLVE_FAIL(r, s->name_span, "unknown operation '%s'", name);
	if (hint_below(r, name, s->name_span, false))
		return STATUS_CHAIN;
	const bool value = resolver_find(r, name) != NULL;
	const bool in_formula = call && s->span.end == s->name_span.end && !o;
	const char *recipe = in_formula ? recipe_hint_word(r->context->arena, name) : NULL;
	if (!in_formula && (!value || after == '.'))
		recipe = recipe_hint_stage(r->context->arena, source, s->name_span.begin);
	if (recipe)
		return RESOLVE_HINT(r, "%s", recipe);
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE && !strcmp(name, statement_word((enum statement_kind)kind)))
			return RESOLVE_HINT(r, "'%s' begins a statement, and is no call, as in: %s", name,
			                    statement_table[kind].example);
	if ((near = nearest_operation(r, name, call)))
		return RESOLVE_HINT(r, "did you mean '%s'?", near);
	if (value && after == '[')
		return RESOLVE_HINT(r, "a part of a value is a formula, as in use (%.*s)", (int)(s->span.end - s->span.begin),
		                    source->text + s->span.begin);
	if (value && o && strchr("+-", source->text[o->span.begin]))
		return RESOLVE_HINT(r, "a formula is an operand in parentheses, as in use (%.*s)",
		                    (int)(o->span.end - s->span.begin), source->text + s->span.begin);
	if (value)
		return RESOLVE_HINT(r, "'%s' is a value: make it the current one with `use %s`, or an operand, as in `add %s`",
		                    name, name, name);
	return RESOLVE_HINT(r, "`ckptc ops` lists the operations");
}
