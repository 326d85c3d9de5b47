/*
 * Resolution: what each name in the syntax tree means.
 *
 * Names are looked up in scopes, innermost first, the latest binding first. The
 * names of a def's body are local to it; those bound in any other block are
 * visible after it, since a block is a part of its chain. A loop's body, and a
 * block that a def is given, is resolved once though it runs many times or never,
 * so a name that it rebinds is given its variable before, from whatever it meant
 * there.
 *
 * A def within a def knows the parameters of the outer one: they are its own first
 * ones, and every call hands them on, as they are where it stands (lambda lifting,
 * Johnsson 1985). All that can call it stands in the outer def, too, whose parameters
 * have the same places there. So nothing else needs to know of such defs.
 *
 * Invariant: after success every ref, op, argument and def in the tree is valid
 * but for types; lowering need not check them again.
 */
#include "language/chain.h"

#include "base/checked.h"
#include "base/dictionary.h"
#include "base/suggest.h"

#include <string.h>

struct binding {
	const char *name;
	struct ref ref;
	struct binding *next;
};

struct names {
	struct dictionary by_name; /* of bindings */
	struct binding *bindings;  /* all of them, the newest first */
	struct dictionary defs;    /* declared here: a def within a loop may know the loop's variables */
	struct names *outer;
	struct def *def; /* whose body it is, or NULL */
};

struct resolver {
	struct chain *chain;
	const struct context *context;
	const struct source *source;
	const struct block *top;
	struct names *scope;
	struct dictionary named, declared; /* the names in chain->names, of chain->params: only whether they are there */
	size_t variable_capacity, param_capacity, name_capacity;
	struct block_policy **last_block; /* where the next one of the chain is linked */
	size_t inherited;                 /* parameters, by defs and calls so far */
	bool at_top;
};

static enum status resolve_block(struct resolver *r, const struct block *block, struct node ***tail);

static enum status fail_memory(struct resolver *r) { return diag_memory(r->context->diags); }

/* Those of a block that is not run are bound to nothing after it. */
static bool is_bound(const struct binding *b) { return b && b->ref.kind != REF_NONE; }

static struct binding *find_in_scope(struct names *scope, const char *name)
{
	struct binding *b = dictionary_find(&scope->by_name, name);
	return is_bound(b) ? b : NULL;
}

static struct binding *find_binding(struct resolver *r, const char *name)
{
	for (struct names *s = r->scope; s; s = s->outer) {
		struct binding *b = find_in_scope(s, name);
		if (b)
			return b;
	}
	return NULL;
}

/* Binds NAME in the innermost scope, over an older binding of that scope. */
static enum status bind(struct resolver *r, const char *name, struct ref ref)
{
	struct binding *b = dictionary_find(&r->scope->by_name, name);
	if (!b) {
		b = arena_alloc(r->context->arena, sizeof *b);
		if (!b || !dictionary_put(&r->scope->by_name, r->context->arena, name, b))
			return fail_memory(r);
		b->name = name;
		b->next = r->scope->bindings;
		r->scope->bindings = b;
	}
	b->ref = ref;
	return STATUS_OK;
}

/* The scope that outlasts blocks: the innermost def's, or the chain's. */
static struct names *home_of(const struct resolver *r)
{
	struct names *home = r->scope;
	while (!home->def && home->outer)
		home = home->outer;
	return home;
}

/* Binds NAME there. A for variable of the same name is hidden from here on. */
static enum status bind_home(struct resolver *r, const char *name, struct ref ref)
{
	struct names *inner = r->scope, *home = home_of(r);
	r->scope = home;
	enum status status = bind(r, name, ref);
	r->scope = inner;
	for (struct names *s = inner; s != home && status == STATUS_OK; s = s->outer) {
		struct binding *hidden = find_in_scope(s, name);
		if (hidden)
			hidden->ref = ref;
	}
	return status;
}

static struct def *find_def(const struct resolver *r, const char *name)
{
	struct def *def = NULL;
	for (const struct names *s = r->scope; s && !def; s = s->outer)
		def = dictionary_find(&s->defs, name);
	return def;
}

/*
 * What gives NAME a meaning only from its end on, which is after USE: a def, or
 * where VALUES a param, a const or a `name` that USE could see.
 */
static const struct statement *find_below(const struct block *block, const char *name, struct span use, bool values)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		const bool value = s->kind == STATEMENT_PARAM || s->kind == STATEMENT_CONST || s->kind == STATEMENT_NAME;
		const bool fits = values ? value : s->kind == STATEMENT_DEF;
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

static bool hint_below(struct resolver *r, const char *name, struct span use, bool values)
{
	const struct statement *s = find_below(r->top, name, use, values);
	if (s && s->kind == STATEMENT_DEF && s->span.begin < use.begin)
		diag_hint(r->context->diags, "a def cannot call itself: `repeat` does a thing again");
	else if (s)
		diag_hint(r->context->diags, "'%s' is %s below, at %u:%u, and holds from there on", name,
		          s->kind == STATEMENT_NAME ? "named" : "declared", s->name_span.line, s->name_span.column);
	return s != NULL;
}

/* The hint for an unknown name: where it is known, a constant as it is written, or the nearest in scope. */
static void hint_name(struct resolver *r, const char *name, struct span use)
{
	if (hint_below(r, name, use, true))
		return;
	if (!strcmp(name, "pi") || !strcmp(name, "e")) {
		diag_hint(r->context->diags, "the number is written (%s): without parentheses it is the name of a value", name);
		return;
	}
	if (number_word(name)) {
		diag_hint(r->context->diags, "the number is written %s", number_word(name));
		return;
	}
	const char *near = NULL;
	size_t count = 0;
	for (struct names *s = r->scope; s; s = s->outer)
		for (struct binding *b = s->bindings; b; b = b->next)
			count += is_bound(b);
	const char **names = arena_array(r->context->arena, count + 1, sizeof *names);
	if (names) {
		count = 0;
		for (struct names *s = r->scope; s; s = s->outer)
			for (struct binding *b = s->bindings; b; b = b->next)
				if (is_bound(b))
					names[count++] = b->name;
		near = suggest_nearest(name, names, count);
	}
	if (near)
		diag_hint(r->context->diags, "did you mean '%s'?", near);
	else
		diag_hint(r->context->diags, "declare it with param or const, or give the current value a name with `name %s`",
		          name);
}

static void hint_operation(struct resolver *r, const char *name, struct span use)
{
	if (hint_below(r, name, use, false))
		return;
	size_t count = OP_COUNT + STATEMENT_COUNT;
	for (const struct names *s = r->scope; s; s = s->outer)
		count += s->defs.count;
	const char **names = arena_array(r->context->arena, count, sizeof *names);
	if (!names)
		return;
	size_t n = 0;
	for (int op = 0; op < OP_COUNT; op++)
		names[n++] = op_table[op].name;
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE)
			names[n++] = statement_word(kind);
	for (const struct names *s = r->scope; s; s = s->outer)
		for (size_t i = 0; i < s->defs.capacity; i++)
			if (s->defs.entries[i].name)
				names[n++] = s->defs.entries[i].name;
	const char *near = suggest_nearest(name, names, n);
	if (near)
		diag_hint(r->context->diags, "did you mean '%s'?", near);
	else if (find_binding(r, name))
		diag_hint(r->context->diags, "'%s' is a value: use it as an operand, as in `add %s`", name, name);
	else
		diag_hint(r->context->diags, "`ckptc ops` lists the operations");
}

static struct node *node_new(struct resolver *r, enum node_kind kind, const struct statement *s)
{
	struct node *node = arena_alloc(r->context->arena, sizeof *node);
	if (!node)
		return NULL;
	node->kind = kind;
	node->span = s->name_span.line ? s->name_span : s->span;
	node->whole = s->span;
	return node;
}

static void append(struct node ***tail, struct node *node)
{
	**tail = node;
	*tail = &node->next;
}

static enum status resolve_name(struct resolver *r, const char *name, struct span span, struct ref *ref)
{
	struct binding *b = find_binding(r, name);
	if (!b) {
		diag_at(r->context->diags, STATUS_CHAIN, r->source, span, "unknown name '%s'", name);
		hint_name(r, name, span);
		return STATUS_CHAIN;
	}
	*ref = b->ref;
	ref->span = span;
	if (ref->kind == REF_VARIABLE && ref->index == 0)
		r->chain->names_input = true;
	return STATUS_OK;
}

static enum status resolve_operand(struct resolver *r, const struct operand *operand, struct ref *ref)
{
	memset(ref, 0, sizeof *ref);
	ref->element = NO_INDEX;
	ref->span = operand->span;
	switch (operand->kind) {
	case OPERAND_NUMBER:
		ref->kind = REF_NUMBER;
		ref->number = operand->number;
		return STATUS_OK;
	case OPERAND_NAME: {
		enum status status = resolve_name(r, operand->text, operand->span, ref);
		ref->element = operand->index;
		return status;
	}
	case OPERAND_BLOCK: {
		ref->kind = REF_BLOCK;
		struct node **tail = &ref->block;
		return resolve_block(r, operand->block, &tail);
	}
	}
	return STATUS_OK;
}

static size_t operand_count(const struct operand *operand)
{
	size_t count = 0;
	for (; operand; operand = operand->next)
		count++;
	return count;
}

static struct argument argument_of_option(const struct option *option)
{
	struct argument argument = {.number = option->number,
	                            .integer = option->integer,
	                            .whole = option->whole,
	                            .boolean = option->boolean,
	                            .word = option->text,
	                            .integers = option->integers,
	                            .count = option->count};
	switch (option->kind) {
	case VALUE_NUMBER:
		argument.kind = ARGUMENT_NUMBER;
		break;
	case VALUE_NAME:
	case VALUE_STRING:
		argument.kind = ARGUMENT_WORD;
		break;
	case VALUE_BOOL:
		argument.kind = ARGUMENT_BOOL;
		break;
	case VALUE_INTEGERS:
		argument.kind = ARGUMENT_INTEGERS;
		break;
	}
	return argument;
}

/* LATE is one more of NODE's. */
static enum status add_deferred(struct resolver *r, struct node *node, struct deferred_argument late)
{
	struct deferred_argument **end = &node->deferred;
	while (*end)
		end = &(*end)->next;
	*end = arena_alloc(r->context->arena, sizeof **end);
	if (!*end)
		return fail_memory(r);
	**end = late;
	return STATUS_OK;
}

/*
 * Sets one argument of NODE's operation; the message is placed at SPAN. IS_NAME: it may be an operand
 * of the def around it, where it is no word that the operation knows.
 */
static enum status set_argument(struct resolver *r, struct node *node, const char *name, int index, struct span span,
                                const struct argument *argument, bool is_name)
{
	struct complaint complaint = {.arena = r->context->arena};
	struct attrs tried = *node->attrs;
	enum status status = attrs_set(&tried, node->op, name, index, argument, &complaint);
	struct deferred_argument late = {.name = name, .index = index, .argument = *argument, .span = span};
	if (status == STATUS_OK && node->deferred)
		return add_deferred(r, node, late);
	if (status == STATUS_OK) {
		*node->attrs = tried;
		return status;
	}
	const struct binding *binding = is_name ? find_binding(r, argument->word) : NULL;
	if (is_bound(binding) && binding->ref.kind == REF_ARGUMENT && op_takes_number(node->op, name, index)) {
		late.given = true;
		late.place = binding->ref.index;
		return add_deferred(r, node, late);
	}
	if (!complaint.message)
		return fail_memory(r);
	diag_at(r->context->diags, status, r->source, span, "%s", complaint.message);
	if (complaint.hint)
		diag_hint(r->context->diags, "did you mean '%s'?", complaint.hint);
	return status;
}

static struct argument argument_of_number(const struct operand *operand)
{
	return (struct argument){
		.kind = ARGUMENT_NUMBER, .number = operand->number, .integer = operand->integer, .whole = operand->whole};
}

static enum status resolve_positional(struct resolver *r, struct node *node, const struct operand *operand, int index)
{
	struct argument argument = {0};
	char buffer[32];
	switch (operand->kind) {
	case OPERAND_NUMBER:
		argument = argument_of_number(operand);
		break;
	case OPERAND_NAME:
		argument.kind = ARGUMENT_WORD;
		argument.word = operand->text;
		break;
	case OPERAND_BLOCK:
		return diag_at(r->context->diags, STATUS_CHAIN, r->source, operand->span, "'%s' takes a number as its %s",
		               op_table[node->op].name, op_positional_name(node->op, index, buffer));
	}
	return set_argument(r, node, NULL, index, operand->span, &argument, operand->kind == OPERAND_NAME);
}

/* The option NAME of S that stands before END (NULL: any), or NULL. */
static const struct option *find_option(const struct statement *s, const char *name, const struct option *end)
{
	const struct option *o = s->options;
	while (o != end && strcmp(o->name, name))
		o = o->next;
	return o == end ? NULL : o;
}

/* OPERAND and those after it as a list, where they are several integers; *TEXT is how it is written, or NULL. */
static struct argument argument_of_integers(struct resolver *r, const struct operand *operand, const char **text)
{
	const size_t count = operand_count(operand);
	int64_t *integers = arena_array(r->context->arena, count, sizeof *integers);
	struct argument argument = {.kind = ARGUMENT_INTEGERS, .integers = integers};
	*text = integers && count > 1 ? "[" : NULL;
	for (const struct operand *o = operand; o && *text; o = o->next) {
		const bool integer = o->kind == OPERAND_NUMBER && o->integer;
		if (integer)
			integers[argument.count++] = o->whole;
		*text = integer ? arena_printf(r->context->arena, "%s%lld%s", *text, (long long)o->whole, o->next ? "," : "]")
		                : NULL;
	}
	return argument;
}

/*
 * OPERAND, a number, stands in S beyond all that NODE's operation takes: hints at the first option that S lacks
 * and that would take it, or the list of integers that begins with it.
 */
static void hint_option(struct resolver *r, const struct statement *s, const struct node *node,
                        const struct operand *operand)
{
	struct complaint unused = {.arena = r->context->arena};
	const char *list, *names[MAX_DIMS];
	const struct argument integers = argument_of_integers(r, operand, &list), number = argument_of_number(operand);
	/* an option's value is a literal, and an operand may be an expression */
	const char *text =
		*operand->text == '(' ? arena_printf(r->context->arena, "%.17g", operand->number) : operand->text;
	const size_t count = op_argument_names(node->op, names, MAX_DIMS, r->context->arena);
	int least, most;
	op_positionals(node->op, &least, &most);
	uint32_t end = s->name_span.end;
	for (const struct operand *o = s->operands; o != operand; o = o->next)
		end = o->span.end;
	for (size_t i = (size_t)most; text && i < count; i++) {
		struct attrs attrs = *node->attrs;
		const bool takes_list = list && attrs_set(&attrs, node->op, names[i], -1, &integers, &unused) == STATUS_OK;
		if (find_option(s, names[i], NULL) ||
		    (!takes_list && attrs_set(&attrs, node->op, names[i], -1, &number, &unused)))
			continue;
		diag_hint(r->context->diags, "an option is given by name, as in `%.*s %s=%s`", (int)(end - s->name_span.begin),
		          r->source->text + s->name_span.begin, names[i], takes_list ? list : text);
		return;
	}
}

/* OPERAND stands where NODE's operation takes no more, of the MOST that it takes beside its operand. */
static enum status refuse_operand(struct resolver *r, const struct statement *s, const struct node *node,
                                  const struct operand *operand, int most)
{
	const struct op_info *info = &op_table[node->op];
	const int takes = info->operands + most;
	if (most == MAX_DIMS)
		return diag_at(r->context->diags, STATUS_LIMIT, r->source, node->span, "'%s': more than %d dimensions",
		               info->name, MAX_DIMS);
	if (takes == 0)
		diag_at(r->context->diags, STATUS_CHAIN, r->source, node->span, "'%s' takes no operand", info->name);
	else
		diag_at(r->context->diags, STATUS_CHAIN, r->source, node->span, "'%s' takes %d operand%s, not %zu", info->name,
		        takes, takes == 1 ? "" : "s", operand_count(s->operands));
	diag_caret(r->context->diags, operand->span);
	if (operand->kind == OPERAND_NUMBER)
		hint_option(r, s, node, operand);
	const char *names[MAX_DIMS];
	const size_t count =
		operand->kind == OPERAND_NAME ? op_argument_names(node->op, names, MAX_DIMS, r->context->arena) : 0;
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i], operand->text))
			diag_hint(r->context->diags, "an option is given with its value, as in `%s %s=...`", info->name, names[i]);
	if (operand->kind == OPERAND_NAME && op_find(operand->text) != OP_COUNT)
		diag_hint(r->context->diags, "stages stand apart by ; or a new line, as in add 1; sin");
	return STATUS_CHAIN;
}

/* The options of S, whose arguments by place, PLACED of them, have been taken. */
static enum status resolve_options(struct resolver *r, const struct statement *s, struct node *node, int placed)
{
	char buffer[32];
	for (const struct option *o = s->options; o; o = o->next) {
		struct argument argument = argument_of_option(o);
		if (find_option(s, o->name, o))
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, o->span, "option '%s' is given twice", o->name);
		for (int i = 0; i < placed; i++)
			if (!strcmp(op_positional_name(node->op, i, buffer), o->name))
				return diag_at(r->context->diags, STATUS_CHAIN, r->source, o->span,
				               "'%s' is given by place and by name", o->name);
		enum status status = set_argument(r, node, o->name, -1, o->span, &argument, o->kind == VALUE_NAME);
		if (status)
			return status;
	}
	return STATUS_OK;
}

/* Of the LEAST arguments that NODE's operation needs, those beyond PLACED must be options of S. */
static enum status need_arguments(struct resolver *r, const struct statement *s, const struct node *node, int placed,
                                  int least)
{
	const struct op_info *info = &op_table[node->op];
	char buffer[32];
	for (int i = placed; i < least; i++) {
		const char *name = op_positional_name(node->op, i, buffer);
		if (find_option(s, name, NULL))
			continue;
		diag_at(r->context->diags, STATUS_CHAIN, r->source, node->span, "'%s' needs its %s", info->name, name);
		diag_hint(r->context->diags, "%s %s: %s", info->name, info->arguments, info->doc);
		return STATUS_CHAIN;
	}
	return STATUS_OK;
}

static enum status resolve_op(struct resolver *r, const struct statement *s, enum op op, struct node ***tail)
{
	const struct op_info *info = &op_table[op];
	struct node *node = node_new(r, NODE_OP, s);
	if (!node || !(node->attrs = arena_alloc(r->context->arena, sizeof *node->attrs)))
		return fail_memory(r);
	node->op = op;
	attrs_default(node->attrs, op);
	enum status status = STATUS_OK;
	const struct operand *operand = s->operands;
	if (info->operands == 1) {
		if (!operand) {
			diag_at(r->context->diags, STATUS_CHAIN, r->source, node->span, "'%s' needs an operand", info->name);
			diag_hint(r->context->diags, "%s: %s", info->name, info->doc);
			return STATUS_CHAIN;
		}
		status = resolve_operand(r, operand, &node->operand);
		operand = operand->next;
	}
	int least, most, placed = 0;
	op_positionals(op, &least, &most);
	for (; operand && status == STATUS_OK; operand = operand->next, placed++)
		status =
			placed < most ? resolve_positional(r, node, operand, placed) : refuse_operand(r, s, node, operand, most);
	if (status == STATUS_OK)
		status = resolve_options(r, s, node, placed);
	if (status == STATUS_OK)
		status = need_arguments(r, s, node, placed, least);
	if (status == STATUS_OK)
		append(tail, node);
	return status;
}

static enum status new_variable(struct resolver *r, const char *name, uint32_t *index)
{
	struct chain *chain = r->chain;
	const char **grown =
		arena_grow(r->context->arena, chain->variables, chain->variable_count, &r->variable_capacity, sizeof *grown);
	if (!grown)
		return fail_memory(r);
	chain->variables = grown;
	grown[chain->variable_count] = name;
	*index = (uint32_t)chain->variable_count++;
	return STATUS_OK;
}

/* A variable for NAME, bound in the scope that holds it or in the innermost of its def. */
static enum status variable_for(struct resolver *r, const char *name, uint32_t *index)
{
	struct binding *b = find_in_scope(home_of(r), name);
	if (b && b->ref.kind == REF_VARIABLE && b->ref.index != 0) {
		*index = b->ref.index;
	} else {
		enum status status = new_variable(r, name, index);
		if (status)
			return status;
	}
	return bind_home(r, name, (struct ref){.kind = REF_VARIABLE, .index = *index, .element = NO_INDEX});
}

static bool never_runs(const struct statement *s) { return s->kind == STATEMENT_REPEAT && s->count == 0; }

/* Gives the name that S rebinds, where that is no variable yet, one that holds what it means. */
static enum status prepare_name(struct resolver *r, const struct statement *s, struct node ***tail)
{
	const struct binding *b = find_binding(r, s->name);
	if (!b || (b->ref.kind == REF_VARIABLE && b->ref.index != 0))
		return STATUS_OK;
	struct node *node = node_new(r, NODE_NAME, s);
	if (!node)
		return fail_memory(r);
	node->operand = b->ref;
	if (b->ref.kind == REF_VARIABLE)
		r->chain->names_input = true;
	append(tail, node);
	return variable_for(r, s->name, &node->variable);
}

/* Gives the names that BLOCK rebinds their variables before it (see the head). */
static enum status prepare_names(struct resolver *r, const struct block *block, struct node ***tail)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		enum status status = STATUS_OK;
		if (s->kind == STATEMENT_NAME) {
			status = prepare_name(r, s, tail);
		} else if (s->block && s->kind != STATEMENT_DEF && !never_runs(s)) {
			status = prepare_names(r, s->block, tail);
		}
		for (const struct operand *o = s->operands; o && status == STATUS_OK; o = o->next)
			if (o->kind == OPERAND_BLOCK)
				status = prepare_names(r, o->block, tail);
		if (status)
			return status;
	}
	return STATUS_OK;
}

/* The option O of a call of DEF, which has no parameter of that name. */
static enum status unknown_parameter(struct resolver *r, const struct def *def, const struct option *o)
{
	enum { SHOWN = 8 };
	const size_t own = def->count - def->inherited;
	const char **names = arena_array(r->context->arena, own, sizeof *names), *list = "";
	size_t count = 0;
	for (const struct name_list *n = def->names; names && n; n = n->next)
		names[count++] = n->name;
	for (size_t i = 0; list && i < count && count <= SHOWN; i++)
		list = arena_printf(r->context->arena, "%s%s%s", list, i ? ", " : "", names[i]);
	if (!names || !list)
		return fail_memory(r);
	diag_at(r->context->diags, STATUS_CHAIN, r->source, o->span, "'%s' has no operand '%s'", def->name, o->name);
	const char *near = suggest_nearest(o->name, names, count);
	if (near)
		diag_hint(r->context->diags, "did you mean '%s'?", near);
	else if (*list)
		diag_hint(r->context->diags, "it is declared as %s(%s)", def->name, list);
	return STATUS_CHAIN;
}

/* The operand that the option O gives by name. */
static enum status resolve_named(struct resolver *r, const struct def *def, const struct option *o, struct ref *ref)
{
	const struct operand operand = {.kind = o->kind == VALUE_NUMBER ? OPERAND_NUMBER : OPERAND_NAME,
	                                .span = o->value_span,
	                                .text = o->text,
	                                .number = o->number,
	                                .integer = o->integer,
	                                .whole = o->whole,
	                                .index = NO_INDEX};
	if (o->kind == VALUE_NUMBER || o->kind == VALUE_NAME)
		return resolve_operand(r, &operand, ref);
	return diag_at(r->context->diags, STATUS_CHAIN, r->source, o->value_span, "%s of '%s' must be a number or a name",
	               o->name, def->name);
}

/* The operands of NODE, a call, that S gives by name: all but the first PLACED, inherited ones among these. */
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
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, o->span, "'%s' is given by place and by name",
			               o->name);
		if (ref->kind != REF_NONE)
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, o->span, "operand '%s' is given twice", o->name);
		enum status status = resolve_named(r, def, o, ref);
		if (status)
			return status;
	}
	size_t i = def->inherited;
	for (const struct name_list *n = def->names; n; n = n->next, i++)
		if (node->arguments[i].kind == REF_NONE)
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, node->span, "'%s' needs its %s", def->name,
			               n->name);
	return STATUS_OK;
}

/* Each call of DEF, and itself, has room for what it inherits, which a short text could make too much. */
static enum status count_inherited(struct resolver *r, const struct def *def, struct span span)
{
	r->inherited += def->inherited;
	if (r->inherited <= MAX_INHERITED)
		return STATUS_OK;
	return diag_at(r->context->diags, STATUS_LIMIT, r->source, span,
	               "defs within defs, and calls of them, have more than %d operands of outer ones", MAX_INHERITED);
}

/* Whether S gives DEF as many operands as it takes by place, or fewer and then some by name. */
static enum status check_count(struct resolver *r, const struct statement *s, const struct def *def, struct span span)
{
	const size_t count = operand_count(s->operands), takes = def->count - def->inherited;
	if (count > takes || (count < takes && !s->options))
		return diag_at(r->context->diags, STATUS_CHAIN, r->source, span, "'%s' takes %zu operand%s, not %zu", def->name,
		               takes, takes == 1 ? "" : "s", count);
	if (s->options && takes == 0)
		return diag_at(r->context->diags, STATUS_CHAIN, r->source, s->options->span, "the def '%s' takes no options",
		               def->name);
	return STATUS_OK;
}

static enum status resolve_call(struct resolver *r, const struct statement *s, const struct def *def,
                                struct node ***tail)
{
	struct node *node = node_new(r, NODE_CALL, s);
	if (!node)
		return fail_memory(r);
	enum status status = check_count(r, s, def, node->span);
	if (status == STATUS_OK)
		status = count_inherited(r, def, node->span);
	if (status)
		return status;
	node->def = def;
	node->arguments = arena_array(r->context->arena, def->count + 1, sizeof *node->arguments);
	if (!node->arguments)
		return fail_memory(r);
	size_t i = 0;
	for (; i < def->inherited; i++)
		node->arguments[i] =
			(struct ref){.kind = REF_ARGUMENT, .index = (uint32_t)i, .element = NO_INDEX, .span = node->span};
	struct node **before = &node->body;
	for (const struct operand *o = s->operands; o && !status; o = o->next)
		if (o->kind == OPERAND_BLOCK)
			status = prepare_names(r, o->block, &before);
	for (const struct operand *o = s->operands; o && !status; o = o->next, i++)
		status = resolve_operand(r, o, &node->arguments[i]);
	if (status == STATUS_OK)
		status = resolve_named_operands(r, s, node, i);
	if (status == STATUS_OK)
		append(tail, node);
	return status;
}

static enum status resolve_stage(struct resolver *r, const struct statement *s, struct node ***tail)
{
	struct def *def = find_def(r, s->name);
	if (def)
		return resolve_call(r, s, def, tail);
	enum op op = op_find(s->name);
	if (op != OP_COUNT)
		return resolve_op(r, s, op, tail);
	diag_at(r->context->diags, STATUS_CHAIN, r->source, s->name_span, "unknown operation '%s'", s->name);
	hint_operation(r, s->name, s->name_span);
	return STATUS_CHAIN;
}

static enum status note_name(struct resolver *r, const char *name)
{
	struct chain *chain = r->chain;
	if (dictionary_find(&r->named, name))
		return STATUS_OK;
	const char **grown =
		arena_grow(r->context->arena, chain->names, chain->name_count, &r->name_capacity, sizeof *grown);
	if (!grown || !dictionary_put(&r->named, r->context->arena, name, chain))
		return fail_memory(r);
	chain->names = grown;
	grown[chain->name_count++] = name;
	return STATUS_OK;
}

static enum status resolve_naming(struct resolver *r, const struct statement *s, struct node ***tail)
{
	struct node *node = node_new(r, NODE_NAME, s);
	if (!node)
		return fail_memory(r);
	node->span = s->span;
	node->name = s->name;
	enum status status = variable_for(r, s->name, &node->variable);
	if (status == STATUS_OK)
		status = note_name(r, s->name);
	if (status == STATUS_OK)
		append(tail, node);
	return status;
}

/* The block of a loop without iterations: all in it must be right, and nothing is named by it. Its params are declared. */
static enum status resolve_unrun(struct resolver *r, const struct block *block)
{
	struct saved {
		struct binding *binding;
		struct ref ref;
	};
	size_t count = 0;
	for (struct names *s = r->scope; s; s = s->outer)
		for (struct binding *b = s->bindings; b; b = b->next)
			count++;
	const size_t room = count + 1;
	const struct allocator *allocator = r->context->allocator;
	struct saved *saved = allocator_get(allocator, room, sizeof *saved);
	if (!saved)
		return fail_memory(r);
	count = 0;
	for (struct names *s = r->scope; s; s = s->outer)
		for (struct binding *b = s->bindings; b; b = b->next)
			saved[count++] = (struct saved){b, b->ref};
	struct node *none = NULL, **tail = &none;
	const enum status status = resolve_block(r, block, &tail);
	for (struct names *s = r->scope; s; s = s->outer)
		for (struct binding *b = s->bindings; b; b = b->next)
			if (b->ref.kind == REF_VARIABLE)
				b->ref.kind = REF_NONE; /* unless it was bound before */
	for (size_t i = 0; i < count; i++)
		if (saved[i].binding->ref.kind == REF_NONE)
			saved[i].binding->ref = saved[i].ref;
	allocator_put(allocator, saved, room * sizeof *saved);
	return status;
}

static enum status resolve_repeat(struct resolver *r, const struct statement *s, struct node ***tail)
{
	if (never_runs(s))
		return resolve_unrun(r, s->block);
	enum status status = s->count != 1 ? prepare_names(r, s->block, tail) : STATUS_OK;
	struct node *node = node_new(r, NODE_REPEAT, s);
	if (!node)
		return fail_memory(r);
	if (status)
		return status;
	node->count = s->count;
	struct node **body = &node->body;
	status = resolve_block(r, s->block, &body);
	if (node->body) /* iterations of nothing are nothing, however many */
		append(tail, node);
	return status;
}

/* Whether BLOCK, in which names hold beyond it, binds NAME. */
static bool rebinds(const struct block *block, const char *name)
{
	for (const struct statement *s = block->first; s; s = s->next) {
		if (s->kind == STATEMENT_NAME
		        ? !strcmp(s->name, name)
		        : s->block && s->kind != STATEMENT_DEF && !never_runs(s) && rebinds(s->block, name))
			return true;
		for (const struct operand *o = s->operands; o; o = o->next)
			if (o->kind == OPERAND_BLOCK && rebinds(o->block, name))
				return true;
	}
	return false;
}

/* Gives what REF means before the loop S a variable of its own, which nothing rebinds. */
static enum status hold_value(struct resolver *r, const struct statement *s, struct ref *ref, struct node ***tail)
{
	struct node *node = node_new(r, NODE_NAME, s);
	if (!node)
		return fail_memory(r);
	enum status status = new_variable(r, r->chain->variables[ref->index], &node->variable);
	node->operand = *ref;
	ref->index = node->variable;
	append(tail, node);
	return status;
}

static enum status resolve_for(struct resolver *r, const struct statement *s, struct node ***tail)
{
	enum status status = prepare_names(r, s->block, tail);
	struct node *node = node_new(r, NODE_FOR, s);
	if (!node)
		return fail_memory(r);
	if (status)
		return status;
	size_t names = 0, over = 0;
	for (const struct name_list *n = s->names; n; n = n->next)
		names++;
	for (const struct name_list *n = s->over; n; n = n->next)
		over++;
	if (names != over)
		return diag_at(r->context->diags, STATUS_CHAIN, r->source, node->span, "for has %zu variable%s for %zu array%s",
		               names, names == 1 ? "" : "s", over, over == 1 ? "" : "s");
	node->loop_count = names;
	node->loops = arena_array(r->context->arena, names, sizeof *node->loops);
	node->over = arena_array(r->context->arena, names, sizeof *node->over);
	struct names *scope = arena_alloc(r->context->arena, sizeof *scope);
	if (!node->loops || !node->over || !scope)
		return fail_memory(r);
	const struct name_list *n = s->names, *o = s->over;
	for (size_t i = 0; i < names; i++, n = n->next, o = o->next) {
		status = resolve_name(r, o->name, o->span, &node->over[i]);
		if (status)
			return status;
		if (node->over[i].kind == REF_VARIABLE && rebinds(s->block, o->name))
			status = hold_value(r, s, &node->over[i], tail);
		if (status)
			return status;
		node->loops[i] = (uint32_t)r->chain->loop_count++;
	}
	scope->outer = r->scope;
	r->scope = scope;
	n = s->names;
	for (size_t i = 0; i < names && status == STATUS_OK; i++, n = n->next) {
		if (find_in_scope(scope, n->name))
			status =
				diag_at(r->context->diags, STATUS_CHAIN, r->source, n->span, "variable '%s' is named twice", n->name);
		else
			status = bind(r, n->name, (struct ref){.kind = REF_LOOP, .index = node->loops[i], .element = NO_INDEX});
	}
	struct node **body = &node->body;
	append(tail, node);
	if (status == STATUS_OK)
		status = resolve_block(r, s->block, &body);
	r->scope = scope->outer;
	return status;
}

static enum status resolve_checkpoint(struct resolver *r, const struct statement *s, struct node ***tail)
{
	struct node *node = node_new(r, NODE_CHECKPOINT, s);
	if (!node)
		return fail_memory(r);
	for (const struct option *o = s->options; o; o = o->next) {
		if (strcmp(o->name, "policy")) {
			diag_at(r->context->diags, STATUS_CHAIN, r->source, o->span, "unknown option '%s' for checkpoint", o->name);
			diag_hint(r->context->diags, "checkpoint takes policy=");
			return STATUS_CHAIN;
		}
		if (o->kind != VALUE_NAME && o->kind != VALUE_STRING)
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, o->span, "policy must be a name or a string");
		if (node->policy)
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, o->span, "option 'policy' is given twice");
		struct block_policy *block = arena_alloc(r->context->arena, sizeof *block);
		if (!block)
			return fail_memory(r);
		*block = (struct block_policy){.text = o->text, .span = o->value_span};
		*r->last_block = block;
		r->last_block = &block->next;
		node->policy = block;
	}
	struct node **body = &node->body;
	append(tail, node);
	return resolve_block(r, s->block, &body);
}

static enum status resolve_param(struct resolver *r, const struct statement *s)
{
	struct chain *chain = r->chain;
	if (dictionary_find(&r->declared, s->name))
		return diag_at(r->context->diags, STATUS_CHAIN, r->source, s->name_span, "'%s' is declared twice", s->name);
	if (!strcmp(s->name, "nan") || !strcmp(s->name, "inf"))
		return diag_at(r->context->diags, STATUS_CHAIN, r->source, s->name_span, "'%s' is a number and can't be a name",
		               s->name);
	if (!strcmp(s->name, chain->input))
		return diag_at(r->context->diags, STATUS_CHAIN, r->source, s->name_span, "'%s' is the input's name", s->name);
	struct param *grown =
		arena_grow(r->context->arena, chain->params, chain->param_count, &r->param_capacity, sizeof *grown);
	if (!grown || !dictionary_put(&r->declared, r->context->arena, s->name, chain))
		return fail_memory(r);
	chain->params = grown;
	struct param *param = &grown[chain->param_count];
	*param = (struct param){.name = s->name,
	                        .differentiated = s->kind == STATEMENT_PARAM,
	                        .declared = *s->type,
	                        .init = *s->init,
	                        .span = s->name_span};
	return bind_home(r, s->name,
	                 (struct ref){.kind = REF_PARAM, .index = (uint32_t)chain->param_count++, .element = NO_INDEX});
}

/*
 * How large a chain is once its defs are written out, which each may call the one
 * before it twice. A def is a linear function of the sizes of its block arguments,
 * so that each is looked at once.
 */

static int64_t multiply(int64_t a, int64_t b)
{
	int64_t product;
	return checked_mul_i64(a, b, &product) ? product : INT64_MAX;
}

static int64_t size_of(const struct node *node, int64_t times, int64_t *uses);

/* Of an operand that stands TIMES times. */
static int64_t size_of_operand(const struct ref *ref, int64_t times, int64_t *uses)
{
	if (ref->kind == REF_ARGUMENT)
		uses[ref->index] = saturated_add(uses[ref->index], times);
	return ref->kind == REF_BLOCK ? size_of(ref->block, times, uses) : 0;
}

/* Of NODE, TIMES times. USES of the parameters of the def that it stands in is added to. */
static int64_t size_of_node(const struct node *node, int64_t times, int64_t *uses)
{
	bool runs = node->kind != NODE_REPEAT || node->count > 0;
	int64_t size = saturated_add(times, size_of_operand(&node->operand, times, uses));
	if (runs)
		size = saturated_add(size, size_of(node->body, times, uses));
	if (node->kind != NODE_CALL)
		return size;
	size = saturated_add(size, multiply(times, node->def->size));
	for (size_t i = 0; i < node->def->count; i++)
		size = saturated_add(size, size_of_operand(&node->arguments[i], multiply(times, node->def->uses[i]), uses));
	return size;
}

static int64_t size_of(const struct node *node, int64_t times, int64_t *uses)
{
	int64_t size = 0;
	for (; node; node = node->next)
		size = saturated_add(size, size_of_node(node, times, uses));
	return size;
}

static enum status check_size(struct resolver *r)
{
	int64_t size = 0;
	for (const struct node *node = r->chain->first; node; node = node->next) {
		size = saturated_add(size, size_of_node(node, 1, NULL));
		if (size > MAX_OPERATIONS)
			return diag_at(r->context->diags, STATUS_LIMIT, r->source, node->span,
			               "the chain has more than %d operations", MAX_OPERATIONS);
	}
	return STATUS_OK;
}

static enum status check_def_name(struct resolver *r, const struct statement *s)
{
	if (op_find(s->name) != OP_COUNT)
		return diag_at(r->context->diags, STATUS_CHAIN, r->source, s->name_span,
		               "'%s' is an operation and can't be a def", s->name);
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE && !strcmp(s->name, statement_word((enum statement_kind)kind)))
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, s->name_span,
			               "'%s' begins a statement and can't be a def", s->name);
	return STATUS_OK;
}

/* Binds DEF's own parameters in the innermost scope, which is DEF's. */
static enum status bind_parameters(struct resolver *r, struct def *def)
{
	size_t *places = arena_array(r->context->arena, def->count - def->inherited + 1, sizeof *places),
		   i = def->inherited;
	if (!places)
		return fail_memory(r);
	for (const struct name_list *n = def->names; n; n = n->next, i++, places++) {
		if (find_in_scope(r->scope, n->name))
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, n->span, "parameter '%s' is named twice",
			               n->name);
		*places = i;
		if (!dictionary_put(&def->places, r->context->arena, n->name, places))
			return fail_memory(r);
		enum status status =
			bind(r, n->name, (struct ref){.kind = REF_ARGUMENT, .index = (uint32_t)i, .element = NO_INDEX});
		if (status)
			return status;
	}
	return STATUS_OK;
}

static enum status resolve_def(struct resolver *r, const struct statement *s)
{
	enum status status = check_def_name(r, s);
	if (status)
		return status;
	struct def *def = arena_alloc(r->context->arena, sizeof *def);
	struct names *scope = arena_alloc(r->context->arena, sizeof *scope);
	if (!def || !scope)
		return fail_memory(r);
	def->name = s->name;
	def->names = s->names;
	const struct def *around = home_of(r)->def;
	def->inherited = def->count = around ? around->count : 0;
	for (const struct name_list *n = s->names; n; n = n->next)
		def->count++;
	scope->outer = r->scope;
	scope->def = def;
	r->scope = scope;
	status = count_inherited(r, def, s->name_span);
	if (status == STATUS_OK)
		status = bind_parameters(r, def);
	def->first_variable = (uint32_t)r->chain->variable_count;
	struct node **body = &def->body;
	if (status == STATUS_OK)
		status = resolve_block(r, s->block, &body);
	def->variables = (uint32_t)r->chain->variable_count - def->first_variable;
	r->scope = scope->outer;
	int64_t *uses = arena_array(r->context->arena, def->count + 1, sizeof *uses);
	if (!uses)
		return fail_memory(r);
	def->size = size_of(def->body, 1, uses);
	def->uses = uses;
	if (!dictionary_put(&r->scope->defs, r->context->arena, def->name, def))
		return fail_memory(r);
	return status;
}

static enum status resolve_statement(struct resolver *r, const struct statement *s, bool top, struct node ***tail)
{
	switch (s->kind) {
	case STATEMENT_INPUT:
		if (top)
			return STATUS_OK; /* found beforehand */
		diag_at(r->context->diags, STATUS_CHAIN, r->source, s->span, "input stands inside a block");
		diag_hint(r->context->diags, "declare it at the top level of the chain, before the block");
		return STATUS_CHAIN;
	case STATEMENT_PARAM:
	case STATEMENT_CONST:
		return resolve_param(r, s);
	case STATEMENT_DEF:
		return resolve_def(r, s);
	case STATEMENT_STAGE:
		return resolve_stage(r, s, tail);
	case STATEMENT_NAME:
		return resolve_naming(r, s, tail);
	case STATEMENT_REPEAT:
		return resolve_repeat(r, s, tail);
	case STATEMENT_FOR:
		return resolve_for(r, s, tail);
	case STATEMENT_CHECKPOINT:
		return resolve_checkpoint(r, s, tail);
	}
	return STATUS_OK;
}

static enum status resolve_block(struct resolver *r, const struct block *block, struct node ***tail)
{
	bool top = r->at_top;
	r->at_top = false;
	for (const struct statement *s = block->first; s; s = s->next) {
		enum status status = resolve_statement(r, s, top, tail);
		if (status)
			return status;
	}
	r->at_top = top;
	return STATUS_OK;
}

/* The input's declaration, which holds for the whole chain wherever it stands before the first stage. */
static enum status find_input(struct resolver *r, const struct block *top)
{
	const struct statement *found = NULL, *stage = NULL;
	for (const struct statement *s = top->first; s; s = s->next) {
		if (s->kind > STATEMENT_DEF && !stage)
			stage = s;
		if (s->kind != STATEMENT_INPUT)
			continue;
		if (found)
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, s->span,
			               "a chain has one input, and it is declared on line %u", found->span.line);
		if (stage)
			return diag_at(r->context->diags, STATUS_CHAIN, r->source, s->span,
			               "input must stand before the first stage");
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
	memset(chain, 0, sizeof *chain);
	chain->source = syntax->source;
	chain->arena = context->arena;
	chain->input = "x";
	struct names top = {0};
	struct resolver r = {.chain = chain,
	                     .context = context,
	                     .source = syntax->source,
	                     .top = syntax->chain,
	                     .scope = &top,
	                     .last_block = &chain->block_policies,
	                     .at_top = true};
	uint32_t input;
	enum status status = find_input(&r, syntax->chain);
	if (status == STATUS_OK)
		status = new_variable(&r, chain->input, &input);
	if (status == STATUS_OK)
		status = bind(&r, chain->input, (struct ref){.kind = REF_VARIABLE, .index = 0, .element = NO_INDEX});
	struct node **tail = &chain->first;
	if (status == STATUS_OK)
		status = resolve_block(&r, syntax->chain, &tail);
	if (status == STATUS_OK)
		status = check_size(&r);
	if (status == STATUS_OK && context->arena->failed)
		status = fail_memory(&r);
	return status;
}
