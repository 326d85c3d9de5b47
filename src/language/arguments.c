/*
 * Stages that are operations. The operand comes first, then arguments by place, then options. The operation table reads
 * each argument (attrs_set). This file reports missing, repeated and surplus arguments, with hints.
 *
 * Within a def, a number may be the name of one of the def's operands. It is deferred: each call gives the value.
 * Tests: tests/cases/errors.test, tests/cases/language.test
 */
#include "language/resolver.h"

#include <string.h>

static struct argument argument_of_number(const struct number *number)
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

static enum status argument_of_list(struct resolver *r, const struct list *list, struct argument *argument)
{
	struct number *numbers = arena_array(r->kept_attrs.scratch, list->count, sizeof *numbers);
	TRY_ALLOC(numbers, r->context->diags);
	for (size_t i = 0; i < list->count; i++)
		numbers[i] = list->items[i].number;
	return argument_of_numbers(r, numbers, list->count, argument);
}

static enum status argument_of_option(struct resolver *r, const struct option *option, struct argument *argument)
{
	if (option->kind == VALUE_LIST)
		return argument_of_list(r, &option->list, argument);
	*argument = option->kind == VALUE_NUMBER ? argument_of_number(&option->number)
	            : option->kind == VALUE_BOOL ? (struct argument){.kind = ARGUMENT_BOOL, .boolean = *option->text == 't'}
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

/*
 * Sets the argument GIVEN of NODE, or defers it. IS_NAME: GIVEN is an unquoted word, which may name an operand of the
 * enclosing def if the operation refuses it. After a deferred argument all are deferred, so that they are set in order.
 */
static enum status set_argument(struct resolver *r, struct node *node, struct deferred_argument given, bool is_name)
{
	struct complaint complaint = {.arena = r->context->arena};
	struct attrs attrs = *r->attrs;
	enum status status = attrs_set(&attrs, node->op, given.name, given.index, &given.argument, &complaint);
	if (status == STATUS_OK && node->deferred)
		return add_deferred(r, node, &given);
	if (status == STATUS_OK) {
		*r->attrs = attrs;
		return STATUS_OK;
	}
	const struct binding *binding = is_name ? resolver_find(r, given.argument.word) : NULL;
	if (binding && binding->ref.kind == REF_ARGUMENT && op_takes_number(node->op, given.name, given.index)) {
		given.given = true;
		given.place = binding->ref.index;
		return add_deferred(r, node, &given);
	}
	if (binding && binding->ref.kind == REF_COUNTER) {
		RESOLVE_FAIL(r, given.span, "an argument of '%s' is one number for all iterations, and '%s' differs in each",
		             op_table[node->op].name, given.argument.word);
		return RESOLVE_HINT(r, "'%s' is an operand, as in `mul %s`, or an index, as in `add W[%s]`",
		                    given.argument.word, given.argument.word, given.argument.word);
	}
	TRY_ALLOC(complaint.message, r->context->diags);
	diag_at(r->context->diags, status, r->chain->source, given.span, "%s", complaint.message);
	if (complaint.hint)
		RESOLVE_HINT(r, "did you mean '%s'?", complaint.hint);
	return status;
}

static enum status set_positional(struct resolver *r, struct node *node, const struct operand *operand, int index)
{
	struct deferred_argument given = {.index = index, .span = operand->span};
	char buffer[32];
	if (operand->kind == OPERAND_BLOCK)
		return RESOLVE_FAIL(r, operand->span, "'%s' takes a %s as its %s", op_table[node->op].name,
		                    op_takes_number(node->op, NULL, index) ? "number" : "list",
		                    op_positional_name(node->op, index, buffer));
	const bool is_name = operand->kind == OPERAND_NAME;
	if (operand->kind == OPERAND_LIST)
		TRY(argument_of_list(r, operand->list, &given.argument));
	else
		given.argument = is_name ? (struct argument){.kind = ARGUMENT_WORD, .word = operand->text}
		                         : argument_of_number(&operand->number);
	return set_argument(r, node, given, is_name);
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
 * Sets *LIST to OPERAND and its successors, and *TEXT to the list's source; NULL if one is no number, or alone. The
 * value of an option is a literal, and an operand may be an expression in parentheses.
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

/*
 * Hints at an option for OPERAND, a number or list beyond the arguments that NODE takes by place. It is the first option
 * that S lacks and that takes OPERAND, or the list of numbers that begins with it.
 */
static enum status hint_option(struct resolver *r, const struct statement *s, const struct node *node,
                               const struct operand *operand)
{
	const char *list, *text, *names[MAX_DIMS];
	struct argument numbers, number;
	if (operand->kind == OPERAND_LIST) {
		const char *source = r->chain->source->text + operand->span.begin;
		const size_t length = operand->span.end - operand->span.begin;
		list = text =
			memchr(source, '\n', length) ? "[...]" : arena_printf(r->context->arena, "%.*s", (int)length, source);
		TRY(argument_of_list(r, operand->list, &numbers));
		number = numbers;
	} else {
		TRY(argument_of_operands(r, operand, &numbers, &list));
		number = argument_of_number(&operand->number);
		/* The value of an option is a literal, and an operand may be an expression. */
		text = *operand->text == '(' ? arena_printf(r->context->arena, "%.17g", operand->number.value) : operand->text;
	}
	const size_t count = op_argument_names(node->op, names, MAX_DIMS, r->context->arena);
	int least, most;
	op_positionals(node->op, &least, &most);
	uint32_t end = s->name_span.end;
	for (const struct operand *o = s->operands; o != operand; o = o->next)
		end = o->span.end;
	for (size_t i = (size_t)most; text && i < count; i++) {
		const bool takes_list = list && takes(r, node, names[i], &numbers);
		if (find_option(s, names[i], NULL) || (!takes_list && !takes(r, node, names[i], &number)))
			continue;
		RESOLVE_HINT(r, "an option is given by name, as in `%.*s %s=%s`", (int)(end - s->name_span.begin),
		             r->chain->source->text + s->name_span.begin, names[i], takes_list ? list : text);
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
		(void)RESOLVE_HINT(r, "the stage begins at %u:%u", node->span.line, node->span.column);
	if (operand->kind == OPERAND_NUMBER || operand->kind == OPERAND_LIST)
		TRY(hint_option(r, s, node, operand));
	const char *sign = r->chain->source->text + operand->span.begin;
	const bool infix = strchr("+-", *sign) && (!strchr(" \t", sign[-1]) || strchr(" \t", sign[1]));
	if (infix && operand == s->operands->next && s->operands->kind == OPERAND_NUMBER)
		RESOLVE_HINT(r, "an expression of numbers is in parentheses, as in %s (1+2)", info->name);
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
		struct deferred_argument given = {.name = o->name, .index = -1, .span = o->span};
		TRY(argument_of_option(r, o, &given.argument));
		TRY(set_argument(r, node, given, o->kind == VALUE_NAME));
	}
	for (int i = placed; i < least; i++) {
		const char *name = op_positional_name(node->op, i, buffer);
		if (find_option(s, name, NULL))
			continue;
		RESOLVE_FAIL(r, node->span, "'%s' needs its %s", info->name, name);
		return RESOLVE_HINT(r, "%s %s: %s", info->name, info->arguments, info->doc);
	}
	return STATUS_OK;
}

/* True if NODE reads indices, or a value as classes: those of a param stay as numbers do. */
static bool selects(const struct node *node)
{
	const bool loss = op_table[node->op].scope == SCOPE_SUM;
	return loss ? op_indices(node->op) && node->operand.kind == REF_VARIABLE : op_indices(node->op) != 0;
}

enum status resolver_operation(struct resolver *r, const struct statement *s, enum op op)
{
	const struct op_info *info = &op_table[op];
	struct node *node = resolver_new_node(r, NODE_OP, s);
	struct attrs attrs;
	TRY_ALLOC(node, r->context->diags);
	node->op = op;
	attrs_default(&attrs, op);
	const struct operand *operand = s->operands;
	if (info->operands == 1) {
		if (!operand) {
			RESOLVE_FAIL(r, node->span, "'%s' needs an operand", info->name);
			return RESOLVE_HINT(r, "%s: %s", info->name, info->doc);
		}
		TRY(resolver_operand(r, operand, &node->operand));
		operand = operand->next;
	}
	r->attrs = &attrs; /* those of blocks in the operand are set */
	int least, most, placed = 0;
	op_positionals(op, &least, &most);
	for (; operand; operand = operand->next, placed++)
		TRY(placed < most ? set_positional(r, node, operand, placed) : refuse_operand(r, s, node, operand, most));
	TRY(set_options(r, s, node, placed, least));
	node->attrs = byte_set_keep(&r->kept_attrs, &attrs, attrs_size(&attrs, op), NULL);
	TRY_ALLOC(node->attrs, r->context->diags);
	r->chain->selects |= selects(node);
	resolver_append(r, node);
	return STATUS_OK;
}
