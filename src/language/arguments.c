/*
 * Stages that are operations. The operand comes first, then arguments by place, then options. The operation table reads
 * each argument (attrs_set). This file reports missing, repeated and surplus arguments, with hints.
 *
 * Within a def, a number may be the name of one of the def's operands. It is deferred: each call gives the value.
 * Tests: tests/cases/errors.test, tests/cases/language.test
 */
#include "language/resolver.h"

#include "language/recipes.h"

#include <string.h>

struct argument resolver_argument_of_number(const struct number *number)
{
	return (struct argument){
		.kind = ARGUMENT_NUMBER, .number = number->value, .integer = number->integer, .as_integer = number->as_integer};
}

/* Sets *ARGUMENT to a list of the COUNT numbers at NUMBERS. */
static enum status argument_of_numbers(struct resolver *r, const struct number *numbers, size_t count,
                                       struct argument *argument)
{
	struct byte_set *kept = &r->kept_attrs;
	double *values = arena_array(kept->scratch, count, sizeof *values);
	int64_t *integers = arena_array(kept->scratch, count, sizeof *integers);
	TRY_ALLOC(values && integers, r->context->diags);
	bool whole = true;
	for (size_t i = 0; i < count; i++) {
		values[i] = numbers[i].value;
		integers[i] = numbers[i].as_integer;
		whole = whole && numbers[i].integer;
	}
	*argument = (struct argument){.kind = ARGUMENT_LIST, .count = count};
	argument->numbers = byte_set_keep(kept, values, count * sizeof *values, NULL);
	argument->integers = whole ? byte_set_keep(kept, integers, count * sizeof *integers, NULL) : NULL;
	TRY_ALLOC(argument->numbers && (!whole || argument->integers), r->context->diags);
	return STATUS_OK;
}

/* Sets *GIVEN to VALUE, a number, or defers it; WHAT is what the argument should be. */
static enum status argument_of_value(struct resolver *r, const struct formula_value *value, struct span span,
                                     struct deferred_argument *given)
{
	if (value->known) {
		resolver_take_number(r, value);
		given->argument = resolver_argument_of_number(&value->number);
		return STATUS_OK;
	}
	if (!value->deferred)
		return RESOLVE_FAIL(r, span, "an argument is a number, and this is an array");
	struct ref *ref = arena_alloc(r->context->arena, sizeof *ref);
	TRY_ALLOC(ref, r->context->diags);
	*ref = value->ref;
	given->refs = ref;
	given->ref_count = 1;
	given->argument = (struct argument){.kind = ARGUMENT_NUMBER, .integer = true};
	return STATUS_OK;
}

static enum status argument_of_list(struct resolver *r, const struct list *list, struct deferred_argument *given)
{
	struct number *numbers = arena_array(r->kept_attrs.scratch, list->count + 1, sizeof *numbers);
	struct ref *refs = list->formula_count ? arena_array(r->context->arena, list->count, sizeof *refs) : NULL;
	TRY_ALLOC(numbers && (refs || !list->formula_count), r->context->diags);
	bool deferred = false;
	if (list->shape.ndim != 1)
		return RESOLVE_FAIL(r, list->span, "an argument is a list of numbers, not a list of lists");
	for (size_t i = 0; i < list->count; i++)
		numbers[i] = number_of_double(list->values[i]);
	for (size_t i = 0; i < list->formula_count; i++) {
		const struct list_formula *f = &list->formulas[i];
		struct formula_value value;
		TRY(resolver_formula(r, f->formula, &value));
		if (!value.known && !value.deferred)
			return RESOLVE_FAIL(r, f->formula->span, "an element of a list is a number, and this is an array");
		deferred |= !value.known;
		if (value.known)
			resolver_take_number(r, &value);
		numbers[f->at] = value.number;
		refs[f->at] = value.ref;
	}
	for (size_t i = 0; deferred && i < list->count; i++)
		if (refs[i].kind == REF_NONE)
			refs[i] = (struct ref){.kind = REF_NUMBER, .number = list->values[i], .span = list->span};
	given->refs = deferred ? refs : NULL;
	given->ref_count = list->count;
	return argument_of_numbers(r, numbers, list->count, &given->argument);
}

static enum status argument_of_formula(struct resolver *r, const struct formula *formula,
                                       struct deferred_argument *given)
{
	struct formula_value value;
	TRY(resolver_formula(r, formula, &value));
	return argument_of_value(r, &value, formula->span, given);
}

/* Sets *ARGUMENT to TEXT, a string. */
static enum status argument_of_string(struct resolver *r, const char *text, struct argument *argument)
{
	const char *kept = byte_set_keep(&r->kept_attrs, text, strlen(text) + 1, NULL);
	TRY_ALLOC(kept, r->context->diags);
	*argument = (struct argument){.kind = ARGUMENT_WORD, .word = kept, .quoted = true};
	return STATUS_OK;
}

static enum status argument_of_option(struct resolver *r, const struct option *option, struct deferred_argument *given)
{
	if (option->kind == VALUE_LIST)
		return argument_of_list(r, option->list, given);
	if (option->kind == VALUE_FORMULA)
		return argument_of_formula(r, option->formula, given);
	if (option->kind == VALUE_STRING)
		return argument_of_string(r, option->text, &given->argument);
	given->argument = option->kind == VALUE_NUMBER ? resolver_argument_of_number(&option->number)
	                  : option->kind == VALUE_BOOL
	                      ? (struct argument){.kind = ARGUMENT_BOOL, .boolean = *option->text == 't'}
	                      : (struct argument){.kind = ARGUMENT_WORD, .word = option->text};
	return STATUS_OK;
}

static enum status add_deferred(struct resolver *r, struct node *node, const struct deferred_argument *deferred)
{
	struct deferred_argument **end = &node->deferred;
	while (*end)
		end = &(*end)->next;
	*end = arena_alloc(r->context->arena, sizeof **end);
	TRY_ALLOC(*end, r->context->diags);
	**end = *deferred;
	return STATUS_OK;
}

/* If the word of GIVEN, at AT, names a number, here or in the call of the def around, makes that GIVEN's value. */
static enum status number_of_word(struct resolver *r, const struct span *at, struct deferred_argument *given,
                                  bool *found)
{
	const struct binding *binding = resolver_find(r, given->argument.word);
	struct formula_value value = {.known = false};
	if (binding) {
		value.ref = binding->ref;
		value.known = resolver_known_number(r, binding, &value.number);
		value.deferred = binding->ref.kind == REF_ARGUMENT;
	}
	*found = value.known || value.deferred;
	value.ref.span = *at;
	return *found ? argument_of_value(r, &value, given->span, given) : STATUS_OK;
}

/* True if the operand at SPAN opens a parenthesis right after the NAME of a stage. */
static bool begins_call(const struct source *source, struct span name, struct span span)
{
	return span.begin == name.end && source->text[span.begin] == '(';
}

/*
 * Sets the argument GIVEN of NODE, or defers it. WORD_AT: GIVEN is an unquoted word, there, which may name a number if the
 * operation refuses it; else NULL. After a deferred argument all are deferred, so that they are set in order.
 */
static enum status set_argument(struct resolver *r, struct node *node, struct deferred_argument given,
                                const struct span *word_at)
{
	struct complaint complaint = {.arena = r->context->arena};
	struct attrs attrs = *r->attrs;
	const char *word = given.argument.word;
	bool found = false;
	enum status status = STATUS_OK;
	if (!given.refs)
		status = attrs_set(&attrs, node->op, given.name, given.index, &given.argument, &complaint);
	if (status == STATUS_CHAIN && word_at && op_takes_number(node->op, given.name, given.index)) {
		TRY(number_of_word(r, word_at, &given, &found));
		if (found && !given.refs)
			return set_argument(r, node, given, NULL);
	}
	if ((status == STATUS_OK && node->deferred) || given.refs)
		return add_deferred(r, node, &given);
	if (status == STATUS_OK) {
		*r->attrs = attrs;
		return STATUS_OK;
	}
	const struct binding *binding = word_at ? resolver_find(r, word) : NULL;
	if (binding && binding->ref.kind == REF_COUNTER) {
		RESOLVE_FAIL(r, given.span, "an argument of '%s' is one number for all iterations, and '%s' differs in each",
		             op_table[node->op].name, word);
		return RESOLVE_HINT(r, "'%s' is an operand, as in `mul %s`, or an index, as in `add W[%s]`", word, word, word);
	}
	TRY_ALLOC(complaint.message, r->context->diags);
	diag_at(r->context->diags, status, r->chain->source, given.span, "%s", complaint.message);
	const char *recipe =
		given.name ? recipe_hint_use(r->context->arena, op_table[node->op].name, given.name, "") : NULL;
	if (complaint.hint)
		RESOLVE_HINT(r, "did you mean '%s'?", complaint.hint);
	else if (recipe)
		RESOLVE_HINT(r, "%s", recipe);
	if (given.index == 0 && word && begins_call(r->chain->source, node->span, given.span))
		return RESOLVE_HINT(r, "a call is a formula: use (%s(%s))", op_table[node->op].name, word);
	return status;
}

/* If FORMULA is a name alone, returns it: it may be a word that the operation takes. */
static const char *word_of_formula(const struct formula *formula)
{
	return formula->kind == FORMULA_NAME && !formula->first ? formula->text : NULL;
}

static enum status set_positional(struct resolver *r, struct node *node, const struct operand *operand, int index)
{
	struct deferred_argument given = {.index = index, .span = operand->span};
	char buffer[32];
	if (operand->kind == OPERAND_BLOCK)
		return RESOLVE_FAIL(r, operand->span, "'%s' takes a %s as its %s", op_table[node->op].name,
		                    op_takes_number(node->op, NULL, index) ? "number" : "list",
		                    op_positional_name(node->op, index, buffer));
	const char *word = operand->kind == OPERAND_NAME      ? operand->text
	                   : operand->kind == OPERAND_FORMULA ? word_of_formula(operand->formula)
	                                                      : NULL;
	double constant;
	if (operand->kind == OPERAND_LIST)
		TRY(argument_of_list(r, operand->list, &given));
	else if (operand->kind == OPERAND_NUMBER)
		given.argument = resolver_argument_of_number(&operand->number);
	else if (operand->kind == OPERAND_STRING)
		TRY(argument_of_string(r, operand->text, &given.argument));
	else if (word && (operand->kind == OPERAND_NAME || resolver_find(r, word) || !number_constant(word, &constant)))
		given.argument = (struct argument){.kind = ARGUMENT_WORD, .word = word};
	else if (operand->kind == OPERAND_FORMULA)
		TRY(argument_of_formula(r, operand->formula, &given));
	else
		return RESOLVE_FAIL(r, operand->span, "'%s' takes a number as its %s", op_table[node->op].name,
		                    op_positional_name(node->op, index, buffer));
	const bool name = given.argument.kind == ARGUMENT_WORD && operand->kind != OPERAND_STRING;
	return set_argument(r, node, given, name ? &operand->span : NULL);
}

/* Returns the option NAME of S, or NULL. Only options before END count (NULL: all). */
static const struct option *find_option(const struct statement *s, const char *name, const struct option *end)
{
	const struct option *o = s->options;
	while (o != end && strcmp(o->name, name))
		o = o->next;
	return o == end ? NULL : o;
}

/*
 * Sets *LIST to OPERAND and its successors, and *TEXT to the list's source; NULL if one is no literal number, or alone.
 */
static enum status argument_of_operands(struct resolver *r, const struct operand *operand, struct argument *list,
                                        const char **text)
{
	struct arena *arena = r->context->arena;
	const size_t count = resolver_count_operands(operand);
	struct number *numbers = arena_array(arena, count, sizeof *numbers);
	size_t used = 0;
	*text = count > 1 ? "[" : NULL;
	for (const struct operand *o = operand; numbers && o && *text; o = o->next) {
		const bool number = o->kind == OPERAND_NUMBER;
		if (number)
			numbers[used++] = o->number;
		*text = number ? arena_printf(arena, "%s%s%s", *text, o->text, o->next ? "," : "]") : NULL;
	}
	TRY_ALLOC(numbers, r->context->diags);
	return argument_of_numbers(r, numbers, used, list);
}

static bool takes(struct resolver *r, const struct node *node, const char *name, const struct argument *argument)
{
	struct attrs attrs = *r->attrs;
	struct complaint unused = {.arena = r->context->arena};
	return attrs_set(&attrs, node->op, name, -1, argument, &unused) == STATUS_OK;
}

/* True if S is made for a call in a formula. Such a statement spans its name alone. */
static bool is_call(const struct statement *s) { return s->span.end == s->name_span.end && s->operands; }

/* Hints at OPTION with VALUE in place of OPERAND of S. Of a call, the hint has the arguments before it. */
static enum status hint_named(struct resolver *r, const struct statement *s, const struct operand *operand,
                              const char *option, const char *value)
{
	const char *text = r->chain->source->text + s->name_span.begin;
	uint32_t end = s->name_span.end;
	for (const struct operand *o = s->operands; o && o->span.begin != operand->span.begin; o = o->next)
		end = o->span.end;
	if (!is_call(s))
		return RESOLVE_HINT(r, "an option is given by name, as in `%.*s %s=%s`", (int)(end - s->name_span.begin), text,
		                    option, value);
	const int before = (int)(operand->span.begin - s->name_span.begin);
	const bool line = !memchr(text, '\n', (size_t)before);
	return RESOLVE_HINT(r, "an option is given by name, as in `%.*s%s%s=%s)`", line ? before : (int)strlen(s->name),
	                    line ? text : s->name, line ? "" : "(..., ", option, value);
}

/* True if FORMULA is made of numbers and known names, and so can be computed without an error about a name. */
static bool is_known(const struct resolver *r, const struct formula *formula)
{
	double constant;
	bool known = formula->kind == FORMULA_NUMBER || (formula->kind == FORMULA_PREFIX && is_known(r, formula->operand));
	if (formula->kind == FORMULA_NAME)
		known = resolver_find(r, formula->text) || number_constant(formula->text, &constant);
	for (const struct application *a = formula->first; a && known; a = a->next)
		known = a->operator!= OPERATOR_INDEX && is_known(r, a->operand);
	return known;
}

static bool is_known_operand(const struct resolver *r, const struct operand *operand)
{
	bool known = operand->kind != OPERAND_FORMULA || is_known(r, operand->formula);
	for (size_t i = 0; operand->kind == OPERAND_LIST && i < operand->list->formula_count; i++)
		known &= is_known(r, operand->list->formulas[i].formula);
	return known;
}

/*
 * Hints at an option for OPERAND, a number or list beyond the arguments that NODE takes by place. It is the first option
 * that S lacks and that takes OPERAND, or the list of numbers that begins with it.
 */
static enum status hint_option(struct resolver *r, const struct statement *s, const struct node *node,
                               const struct operand *operand)
{
	const char *list, *text, *names[MAX_DIMS];
	struct argument numbers, number;
	struct operand computed = *operand;
	if (!is_known_operand(r, operand))
		return STATUS_OK;
	if (operand->kind == OPERAND_FORMULA) {
		struct formula_value value;
		TRY(resolver_formula(r, operand->formula, &value));
		computed.kind = value.known ? OPERAND_NUMBER : OPERAND_FORMULA;
		computed.number = value.number;
		computed.text = arena_printf(r->context->arena, "%.*s", (int)(operand->span.end - operand->span.begin),
		                             r->chain->source->text + operand->span.begin);
		operand = &computed;
	}
	if (operand->kind != OPERAND_NUMBER && operand->kind != OPERAND_LIST)
		return STATUS_OK;
	if (operand->kind == OPERAND_LIST) {
		const char *source = r->chain->source->text + operand->span.begin;
		const size_t length = operand->span.end - operand->span.begin;
		list = text =
			memchr(source, '\n', length) ? "[...]" : arena_printf(r->context->arena, "%.*s", (int)length, source);
		struct deferred_argument given = {.index = -1};
		TRY(argument_of_list(r, operand->list, &given));
		number = numbers = given.argument;
	} else {
		TRY(argument_of_operands(r, operand, &numbers, &list));
		number = resolver_argument_of_number(&operand->number);
		text = operand->text;
	}
	const size_t count = op_argument_names(node->op, names, MAX_DIMS, r->context->arena);
	int least, most;
	op_positionals(node->op, &least, &most);
	for (size_t i = (size_t)most; text && i < count; i++) {
		const bool takes_list = list && takes(r, node, names[i], &numbers);
		if (find_option(s, names[i], NULL) || (!takes_list && !takes(r, node, names[i], &number)))
			continue;
		(void)hint_named(r, s, operand, names[i], takes_list ? list : text);
		break;
	}
	return STATUS_OK;
}

/* True if nothing but blanks stands before SPAN on its line. */
static bool begins_line(const struct source *source, struct span span)
{
	uint32_t at = span.begin;
	while (at > 0 && strchr(" \t", source->text[at - 1]))
		at--;
	return at == 0 || source->text[at - 1] == '\n';
}

/* True if S looks like a call: a '(' follows its name, or the operand before OPERAND, directly. */
static bool looks_called(const struct source *source, const struct operand *operand)
{
	const char *open = source->text + operand->span.begin;
	return *open == '(' && operand->span.begin > 0 && !strchr(" \t\r\n;{}([,=", open[-1]);
}

/* Hints, if S with its surplus OPERAND looks like a formula, at what it should be. Returns false if it does not. */
static bool hint_formula(struct resolver *r, const struct statement *s, const struct operand *operand)
{
	enum { SHOWN = 60 };
	const struct source *source = r->chain->source;
	const char *text = source->text + s->span.begin;
	const struct operand *first = s->operands;
	const uint32_t length = s->span.end - s->span.begin;
	if (length > SHOWN || memchr(text, '\n', length))
		return false;
	if (looks_called(source, first) && first->span.begin == s->name_span.end && first->kind != OPERAND_NUMBER) {
		RESOLVE_HINT(r, "a call is a formula: use (%.*s)", (int)length, text);
		return true;
	}
	const struct operand *dot = first->next;
	const bool dotted = dot && dot->next && source->text[dot->span.begin] == '.' &&
	                    dot->span.begin == first->span.end && dot->next->span.begin == dot->span.end;
	const char *call = dotted ? recipe_hint_dotted(r->context->arena, source, first->span.begin) : NULL;
	if (call) {
		RESOLVE_HINT(r, "%s", call);
		return true;
	}
	const char *rest = source->text + first->span.begin, *sign = source->text + operand->span.begin;
	const bool infix = strchr("+-", *sign) && (!strchr(" \t", sign[-1]) || strchr(" \t", sign[1]));
	const bool formula = operand == first->next && (infix || looks_called(source, operand));
	if (formula)
		RESOLVE_HINT(r, "a formula is an operand in parentheses, as in %s (%.*s)", s->name, (int)(text + length - rest),
		             rest);
	return formula;
}

/* Hints, if all operands of S are numbers, that they are a list. Returns false if they are not. */
static bool hint_numbers(struct resolver *r, const struct statement *s)
{
	struct argument list;
	const char *text;
	if (is_call(s) || argument_of_operands(r, s->operands, &list, &text) || !text)
		return false;
	RESOLVE_HINT(r, "an array of numbers is a list, as in %s %s", s->name, text);
	return true;
}

/* If OPERAND of S, a call, is the name of an option that NODE takes, hints that it needs a value. */
static enum status hint_option_word(struct resolver *r, const struct statement *s, const struct node *node,
                                    const struct operand *operand)
{
	const char *names[MAX_DIMS];
	const char *word = operand->kind == OPERAND_FORMULA ? word_of_formula(operand->formula) : NULL;
	const size_t count = op_argument_names(node->op, names, MAX_DIMS, r->context->arena);
	for (size_t i = 0; word && i < count; i++)
		if (!strcmp(names[i], word))
			return hint_named(r, s, operand, word, "...");
	return STATUS_CHAIN;
}

/* Reports that OPERAND is one too many: NODE takes MOST arguments by place, after its array. Returns the status. */
static enum status refuse_operand(struct resolver *r, const struct statement *s, const struct node *node,
                                  const struct operand *operand, int most)
{
	const struct op_info *info = &op_table[node->op];
	const int takes_most = info->operands + most;
	if (most == MAX_DIMS)
		return diag_at(r->context->diags, STATUS_LIMIT, r->chain->source, node->span, "'%s': more than %d dimensions",
		               info->name, MAX_DIMS);
	if (takes_most == 0)
		RESOLVE_FAIL(r, node->span, "'%s' takes no operand", info->name);
	else
		RESOLVE_FAIL(r, node->span, "'%s' takes %d operand%s, not %zu", info->name, takes_most,
		             takes_most == 1 ? "" : "s", resolver_count_operands(s->operands));
	diag_caret(r->context->diags, operand->span);
	if (!begins_line(r->chain->source, node->span))
		(void)RESOLVE_HINT(r, "the %s begins at %u:%u", is_call(s) ? "call" : "stage", node->span.line,
		                   node->span.column);
	const uint32_t begins = operand->span.begin + (r->chain->source->text[operand->span.begin] == '(');
	const char *shown = arena_printf(r->context->arena, "%.*s", begins < s->span.end ? (int)(s->span.end - begins) : 0,
	                                 r->chain->source->text + begins);
	const char *recipe = shown ? recipe_hint_use(r->context->arena, info->name, "2", shown) : NULL;
	if (recipe && !is_call(s) && !(operand->kind == OPERAND_FORMULA && looks_called(r->chain->source, operand)))
		return RESOLVE_HINT(r, "%s", recipe);
	const bool formula = hint_formula(r, s, operand);
	if (!formula && info->operands == 1 && most == 0 && hint_numbers(r, s))
		return STATUS_CHAIN;
	TRY(formula ? STATUS_OK : hint_option(r, s, node, operand));
	if (node->op == OP_where && is_call(s))
		return RESOLVE_HINT(r, "`where(c, a, b)` gives a where c is not 0, else b");
	if (node->op == OP_where)
		return RESOLVE_HINT(r, "the current value is the first choice: `where c b` gives it where c is not 0, else b");
	if (is_call(s))
		return hint_option_word(r, s, node, operand);
	if (operand->kind != OPERAND_NAME)
		return STATUS_CHAIN;
	const char *names[MAX_DIMS];
	const size_t count = op_argument_names(node->op, names, MAX_DIMS, r->context->arena);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i], operand->text))
			RESOLVE_HINT(r, "an option is given with its value, as in `%s %s=...`", info->name, names[i]);
	if (op_find(operand->text) != OP_COUNT)
		RESOLVE_HINT(r, "separate stages by ; or a new line, as in add 1; sin");
	return STATUS_CHAIN;
}

/* True if O says that it is not given: `none` is no name here. */
static bool is_absent(const struct resolver *r, const struct option *o)
{
	return o->kind == VALUE_NAME && !strcmp(o->text, "none") && !resolver_find(r, o->text);
}

/* Sets the options of S. PLACED arguments were given by place. By place or name, the first LEAST must be given. */
static enum status set_options(struct resolver *r, const struct statement *s, struct node *node, int placed, int least)
{
	const struct op_info *info = &op_table[node->op];
	char buffer[32];
	for (const struct option *o = s->options; o; o = o->next) {
		if (find_option(s, o->name, o))
			return RESOLVE_FAIL(r, o->span, "option '%s' is given twice", o->name);
		for (int i = 0; i < placed; i++)
			if (!strcmp(op_positional_name(node->op, i, buffer), o->name))
				return RESOLVE_FAIL(r, o->span, "'%s' is given by place and by name", o->name);
		const int operand = op_option_operand(node->op, o->name);
		if (operand && !is_absent(r, o)) {
			TRY(resolver_named_operand(r, o, info->name, &node->more[operand - 2]));
			r->chain->has_masks |= node->op == OP_attention;
			continue;
		}
		struct deferred_argument given = {.name = o->name, .index = -1, .span = o->span};
		TRY(argument_of_option(r, o, &given));
		TRY(set_argument(r, node, given, o->kind == VALUE_NAME ? &o->value_span : NULL));
	}
	for (int i = placed; i < least; i++) {
		const char *name = op_positional_name(node->op, i, buffer);
		if (find_option(s, name, NULL))
			continue;
		RESOLVE_FAIL(r, node->span, "'%s' needs its %s", info->name, name);
		char usage[OP_USAGE];
		return RESOLVE_HINT(r, "%s: %s", op_usage(node->op, usage), info->doc);
	}
	return STATUS_OK;
}

/* True if NODE reads indices, or a value as classes: those of a param stay as numbers do. */
static bool selects(const struct node *node)
{
	return op_has_classes(node->op) ? node->operand.kind == REF_VARIABLE : op_indices(node->op) != 0;
}

/* Sets the operands of NODE to the first of *OPERAND. Moves *OPERAND behind them. */
static enum status set_operands(struct resolver *r, const struct statement *s, struct node *node,
                                const struct operand **operand)
{
	const struct op_info *info = &op_table[node->op];
	if (op_most_operands(node->op) > 1) {
		node->more = arena_array(r->context->arena, (size_t)op_most_operands(node->op) - 1, sizeof *node->more);
		TRY_ALLOC(node->more, r->context->diags);
	}
	for (int i = 0; i < info->operands; i++, *operand = *operand ? (*operand)->next : NULL) {
		struct ref *ref = i == 0 ? &node->operand : &node->more[i - 1];
		*ref = (struct ref){.kind = REF_NONE};
		if (!*operand && i >= info->least_operands)
			continue;
		if (*operand) {
			TRY(resolver_operand(r, *operand, ref));
			if (ref->kind == REF_PARAM && !op_promotes(node->op, (uint32_t)i + 1))
				r->chain->params[ref->index].selects++;
			continue;
		}
		if (info->operands == 1)
			RESOLVE_FAIL(r, node->span, "'%s' needs an operand", info->name);
		if (info->operands == 1 && s->options && resolver_find(r, s->options->name))
			return RESOLVE_HINT(r, "a formula is in parentheses, and a comparison is written ==, as in %s (%s == 1)",
			                    info->name, s->options->name);
		const int shown = (int)(s->span.end - s->span.begin);
		if (info->operands > 1)
			RESOLVE_FAIL(r, node->span, "'%s' needs %d operands, not %zu", info->name, info->operands,
			             resolver_count_operands(s->operands));
		if (node->op == OP_where && i == 1 && !is_call(s) && shown < 60)
			return RESOLVE_HINT(r, "what stands elsewhere follows, as in %.*s 0", shown,
			                    r->chain->source->text + s->span.begin);
		const char *reduces = arena_printf(r->context->arena, "a%s", info->name); /* amax, amin */
		if (reduces && op_find(reduces) != OP_COUNT)
			return RESOLVE_HINT(r, "%s has two arrays; over the elements of one it is %s", info->name, reduces);
		return RESOLVE_HINT(r, "%s%s%s: %s", info->name, info->operands > 1 ? " " : "",
		                    info->operands > 1 ? info->operand_names : "", info->doc);
	}
	return STATUS_OK;
}

enum status resolver_operation(struct resolver *r, const struct statement *s, enum op op)
{
	struct node *node = resolver_new_node(r, NODE_OP, s);
	struct attrs attrs;
	TRY_ALLOC(node, r->context->diags);
	node->op = op;
	attrs_default(&attrs, op);
	const struct operand *operand = s->operands;
	struct attrs *const around = r->attrs; /* an argument may be a formula, whose operations have arguments */
	int least, most, placed = 0;
	op_positionals(op, &least, &most);
	if (op_is_expanded(op) && most > 0 && operand && operand->kind == OPERAND_STRING) { /* subscripts come first */
		r->attrs = &attrs;
		TRY(set_positional(r, node, operand, placed++));
		r->attrs = around;
		operand = operand->next;
	}
	TRY(set_operands(r, s, node, &operand));
	r->attrs = &attrs; /* those of blocks in the operand are set */
	for (; operand; operand = operand->next, placed++)
		TRY(placed < most ? set_positional(r, node, operand, placed) : refuse_operand(r, s, node, operand, most));
	TRY(set_options(r, s, node, placed, least));
	r->attrs = around;
	node->attrs = byte_set_keep(&r->kept_attrs, &attrs, attrs_size(&attrs, op), NULL);
	TRY_ALLOC(node->attrs, r->context->diags);
	r->chain->selects |= selects(node);
	r->chain->keeps_integers |=
		r->chain->selects || r->chain->has_masks || op_gives_condition(op) || op_is_condition(op, 1);
	resolver_append(r, node);
	return STATUS_OK;
}
