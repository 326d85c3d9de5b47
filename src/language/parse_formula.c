/*
 * Builds formulas for the grammar's actions, and what formulas become: operands, options, counts, extents, lists.
 *
 * A formula that is a literal or a name alone becomes what it would be without parentheses. So `mul (2)` and `mul 2`
 * have one tree.
 *
 * Invariant: what opens to the right nests to MAX_NESTING levels at most (formula.depth), beside brackets.
 * Tests: tests/unit/test_syntax.c
 */
#include "language/parse.h"

#include <math.h>
#include <string.h>

/* Returns a new formula of KIND at SPAN; NULL where memory is short. */
static struct formula *new_formula(struct parse *parse, enum formula_kind kind, struct span span)
{
	struct formula *formula = parse->spare;
	if (formula)
		parse->spare = formula->next;
	else
		formula = arena_alloc(parse->nodes, sizeof *formula);
	if (formula)
		*formula = (struct formula){.kind = kind, .span = span, .at = span};
	return formula;
}

/* A list may have millions of literals: their formulas are used again. */
static void spare_formula(struct parse *parse, struct formula *formula)
{
	formula->next = parse->spare;
	parse->spare = formula;
}

struct formula *parse_number_formula(struct parse *parse, const struct parse_number *number, struct span span)
{
	struct formula *formula = new_formula(parse, FORMULA_NUMBER, span);
	if (formula) {
		formula->text = number->text;
		formula->number = number->number;
	}
	return formula;
}

struct formula *parse_name_formula(struct parse *parse, enum formula_kind kind, const char *text, struct span span)
{
	struct formula *formula = new_formula(parse, kind, span);
	if (formula)
		formula->text = text;
	return formula;
}

struct formula *parse_list_formula(struct parse *parse, const struct parse_list *list)
{
	struct formula *formula = new_formula(parse, FORMULA_LIST, list->parsed.span);
	if (formula)
		formula->items = &list->parsed;
	return formula;
}

struct formula *parse_call(struct parse *parse, const char *name, struct span name_span,
                           const struct call_arguments *arguments, struct span span)
{
	struct formula *formula = new_formula(parse, FORMULA_CALL, span);
	if (!formula)
		return NULL;
	formula->at = name_span;
	formula->text = name;
	formula->arguments = arguments->values.first;
	formula->options = arguments->options.first;
	return formula;
}

/* Reports an error at SPAN and returns false if FORMULA nests too deep. */
static bool check_nesting(struct parse *parse, const struct formula *formula, struct span span)
{
	if (formula->depth > MAX_NESTING)
		parse_too_deep(parse, span);
	return formula->depth <= MAX_NESTING;
}

struct formula *parse_prefix(struct parse *parse, enum operator operator, struct span span, struct formula *operand)
{
	const struct span whole = {span.begin, operand->span.end, span.line, span.column};
	const bool literal = operand->kind == FORMULA_NUMBER && !operand->first && *operand->text != '-';
	if (operator== OPERATOR_NEG && literal) {
		struct parse_number number = {operand->text, operand->number};
		if (!parse_negate(parse, &number))
			return NULL;
		operand->text = number.text;
		operand->number = number.number;
		operand->span = operand->at = whole;
		operand->closed = false;
		operand->depth = 1;
		return operand;
	}
	struct formula *formula = new_formula(parse, FORMULA_PREFIX, whole);
	if (!formula)
		return NULL;
	formula->operator= operator;
	formula->at = span;
	formula->operand = operand;
	formula->depth = (uint16_t)(operand->depth + 1);
	return check_nesting(parse, formula, span) ? formula : NULL;
}

static struct application *apply(struct parse *parse, struct formula *left, enum operator operator, struct span span)
{
	struct application *application = PARSE_NEW(parse, struct application, .operator= operator, .span = span);
	if (!application)
		return NULL;
	PARSE_APPEND(left, application);
	left->closed = false;
	return application;
}

/* True if FORMULA is a comparison that no parentheses close. */
static bool is_open_comparison(const struct formula *formula)
{
	return !formula->closed && formula->last && operator_compares(formula->last->operator);
}

/* Reports that OPERATOR, at SPAN, compares LEFT, which is a comparison. */
static void refuse_chained(struct parse *parse, const struct formula *left, enum operator operator, struct span span)
{
	const struct application *last = left->last;
	const char *text = parse->source->text;
	const struct span middle = last->operand->span;
	const uint32_t length = last->span.begin - left->span.begin;
	PARSE_FAIL(parse, STATUS_CHAIN, span, "comparisons do not chain");
	if (length + (middle.end - middle.begin) < 60 &&
	    !memchr(text + left->span.begin, '\n', middle.end - left->span.begin))
		PARSE_HINT(parse, "write (%.*s) and (%.*s %s ...)", (int)(middle.end - left->span.begin),
		           text + left->span.begin, (int)(middle.end - middle.begin), text + middle.begin,
		           operator_text(operator));
	else
		PARSE_HINT(parse, "write (a < b) and (b < c)");
}

struct formula *parse_binary(struct parse *parse, struct formula *left, enum operator operator, struct span span,
                             struct formula *right)
{
	if (operator_compares(operator) && is_open_comparison(left)) {
		refuse_chained(parse, left, operator, span);
		return NULL;
	}
	struct application *application = apply(parse, left, operator, span);
	if (!application)
		return NULL;
	application->operand = right;
	const int depth = right->depth + (operator== OPERATOR_POW);
	left->span.end = right->span.end;
	left->depth = (uint16_t)(depth > left->depth ? depth : left->depth);
	return check_nesting(parse, left, span) ? left : NULL;
}

static bool is_none(const struct formula *formula)
{
	return formula->kind == FORMULA_NAME && !formula->first && !strcmp(formula->text, "None");
}

struct formula *parse_bound(struct parse *parse, struct formula *formula)
{
	if (!is_none(formula))
		return formula;
	spare_formula(parse, formula);
	return NULL;
}

struct index_part *parse_index_part(struct parse *parse, struct formula *formula, struct span span)
{
	if (!is_none(formula))
		return PARSE_NEW(parse, struct index_part, .kind = INDEX_AT, .span = span, .start = formula);
	spare_formula(parse, formula);
	return PARSE_NEW(parse, struct index_part, .kind = INDEX_NEW, .span = span);
}

struct formula *parse_index(struct parse *parse, struct formula *left, struct index_part *index, struct span open,
                            struct span close)
{
	open.end = close.end;
	struct application *application = apply(parse, left, OPERATOR_INDEX, open);
	if (!application)
		return NULL;
	application->index = index;
	left->span.end = close.end;
	int rests = 0;
	for (const struct index_part *part = index; part; part = part->next)
		if (part->kind == INDEX_REST && rests++) {
			PARSE_FAIL(parse, STATUS_CHAIN, part->span, "an index has one '...' at most");
			return NULL;
		}
	return left;
}

/* Arguments and options. */

bool parse_check_place(struct parse *parse, const struct call_arguments *arguments, struct span span)
{
	if (arguments->options.first) {
		PARSE_FAIL(parse, STATUS_CHAIN, span, "an argument by place after one by name");
		PARSE_HINT(parse, "arguments by name come last; a comparison is written ==");
	}
	return !arguments->options.first;
}

/* True if FORMULA is a name that means the same outside of formulas. */
static bool is_plain_name(const struct formula *formula)
{
	static const char *const own[] = {"pi", "e", "true", "false", "and", "or", "not"};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (formula->kind == FORMULA_NAME && !strcmp(formula->text, own[i]))
			return false;
	return formula->kind == FORMULA_NAME && !formula->first;
}

struct operand *parse_operand(struct parse *parse, struct formula *formula, struct span span)
{
	struct operand operand = {.kind = OPERAND_FORMULA, .span = span, .formula = formula, .index = NO_INDEX};
	const struct application *first = formula->first;
	const bool bare = !formula->closed && formula->kind == FORMULA_NAME, alone = !first;
	if (formula->kind == FORMULA_NUMBER && alone)
		operand = (struct operand){.kind = OPERAND_NUMBER, .text = formula->text, .number = formula->number};
	else if (is_plain_name(formula) || (bare && alone))
		operand = (struct operand){.kind = OPERAND_NAME, .text = formula->text};
	else if (formula->kind == FORMULA_CURRENT && alone)
		operand = (struct operand){.kind = OPERAND_CURRENT};
	operand.span = span;
	operand.index = NO_INDEX;
	const struct index_part *part = first && !first->next && first->operator== OPERATOR_INDEX ? first->index : NULL;
	const bool number =
		part && part->kind == INDEX_AT && !part->next && part->start->kind == FORMULA_NUMBER && !part->start->first;
	const bool name = formula->kind == FORMULA_NAME;
	if (!name || !number || !part->start->number.integer || (formula->closed && names_constant(formula->text)))
		return parse_copy(parse->nodes, &operand, sizeof operand);
	/* NO_INDEX is beyond any array, and so is the next number. */
	const int64_t at = part->start->number.as_integer;
	operand = (struct operand){
		.kind = OPERAND_NAME, .span = span, .text = formula->text, .index = at == NO_INDEX ? NO_INDEX + 1 : at};
	return parse_copy(parse->nodes, &operand, sizeof operand);
}

struct option *parse_option_value(struct parse *parse, struct formula *formula)
{
	struct option option = {.kind = VALUE_FORMULA, .formula = formula};
	if (formula->kind == FORMULA_NUMBER && !formula->first)
		option = (struct option){.kind = VALUE_NUMBER, .text = formula->text, .number = formula->number};
	else if (formula->kind == FORMULA_LIST && !formula->first)
		option = (struct option){.kind = VALUE_LIST, .list = formula->items};
	else if (is_plain_name(formula))
		option = (struct option){.kind = VALUE_NAME, .text = formula->text};
	return parse_copy(parse->nodes, &option, sizeof option);
}

struct option *parse_call_option(struct parse *parse, const char *name, struct span name_span, struct formula *value)
{
	struct option *option = value->kind == FORMULA_STRING ? PARSE_NEW(parse, struct option, .kind = VALUE_STRING)
	                                                      : parse_option_value(parse, value);
	if (!option)
		return NULL;
	if (value->kind == FORMULA_STRING)
		option->text = value->text;
	if (value->kind == FORMULA_NAME && !value->first && parse_is_truth(value->text)) {
		option->kind = VALUE_BOOL;
		option->text = value->text;
		option->formula = NULL;
	}
	option->name = name;
	option->span = name_span;
	option->value_span = value->span;
	return option;
}

struct name_list *parse_formula_name(struct parse *parse, struct formula *formula, struct span span)
{
	const bool plain = is_plain_name(formula) || (formula->kind == FORMULA_NAME && !formula->first && !formula->closed);
	return PARSE_KEEP(parse, struct name_list, .name = plain ? formula->text : "", .span = plain ? formula->span : span,
	                  .formula = plain ? NULL : formula);
}

bool parse_count(struct parse *parse, struct count *count, struct formula *formula)
{
	if (!formula)
		return false;
	*count = (struct count){0, formula, formula->span};
	if (is_plain_name(formula))
		formula->closed = false; /* as it is written without parentheses */
	if (formula->kind != FORMULA_NUMBER || formula->first)
		return true;
	*count = (struct count){formula->number.as_integer, NULL, formula->span};
	return parse_check_integer(parse, &(struct parse_number){formula->text, formula->number}, formula->span);
}

/* Extents. */

/* Reports an error and returns false if SHAPE has MAX_DIMS dimensions already. */
static bool check_dims(struct parse *parse, const struct shape *shape, struct span span)
{
	if (shape->ndim == MAX_DIMS)
		PARSE_FAIL(parse, STATUS_LIMIT, span, "more than %d dimensions", MAX_DIMS);
	return shape->ndim < MAX_DIMS;
}

bool parse_add_extent(struct parse *parse, struct extent_list *extents, const struct extent *extent, struct span span)
{
	struct formula *formula = extent->formula;
	if (!formula && extents->shape) {
		PARSE_FAIL(parse, STATUS_CHAIN, span, "only the first axis can be streamed with '*'");
		return false;
	}
	if (!extents->shape)
		extents->shape = PARSE_NEW(parse, struct shape, .ndim = 0);
	struct shape *shape = extents->shape;
	if (!shape || !check_dims(parse, shape, span))
		return false;
	const int axis = shape->ndim++;
	shape->dim[axis] = -1;
	if (!formula)
		return true;
	if (formula->kind == FORMULA_NUMBER && !formula->first) {
		shape->dim[axis] = formula->number.as_integer;
		if (*formula->text == '-') {
			PARSE_FAIL(parse, STATUS_CHAIN, span, "an extent is not negative");
			return false;
		}
		return parse_check_integer(parse, &(struct parse_number){formula->text, formula->number}, span);
	}
	shape->dim[axis] = 0;
	if (!extents->formulas)
		extents->formulas = arena_array(parse->nodes, MAX_DIMS, sizeof *extents->formulas);
	if (extents->formulas)
		extents->formulas[axis] = formula;
	return extents->formulas != NULL;
}

/* Lists. */

/* Appends the COUNT VALUES to LIST. */
static bool append_values(struct parse *parse, struct parse_list *list, const double *values, size_t count)
{
	struct list *to = &list->parsed;
	for (size_t i = 0; i < count; i++) {
		double *value = arena_append(parse->nodes, &to->values, &to->count, &list->capacity, sizeof *value);
		if (!value)
			return false;
		*value = values[i];
	}
	return true;
}

static bool append_formula(struct parse *parse, struct parse_list *list, size_t at, struct formula *formula)
{
	struct list_formula *added = arena_append(parse->nodes, &list->parsed.formulas, &list->parsed.formula_count,
	                                          &list->formula_capacity, sizeof *added);
	if (added)
		*added = (struct list_formula){at, formula};
	return added != NULL;
}

struct parse_list *parse_list_add(struct parse *parse, struct parse_list *list, struct formula *formula)
{
	char was[TYPE_TEXT], is[TYPE_TEXT];
	const bool nested = formula->kind == FORMULA_LIST && !formula->first;
	const bool literal = formula->kind == FORMULA_NUMBER && !formula->first;
	const struct shape *shape = nested ? &formula->items->shape : &(const struct shape){.ndim = 0};
	if (!list)
		list = PARSE_NEW(parse, struct parse_list, .elements = 0);
	if (!list)
		return NULL;
	if (list->elements > 0 && !shape_equal(&list->parsed.shape, shape)) {
		PARSE_FAIL(parse, STATUS_CHAIN, formula->span, "a ragged list: an element of shape %s after one of shape %s",
		           shape_format(shape, is), shape_format(&list->parsed.shape, was));
		return NULL;
	}
	list->parsed.shape = *shape;
	list->elements++;
	const size_t before = list->parsed.count;
	const double value = literal ? formula->number.value : NAN;
	if (nested ? !append_values(parse, list, formula->items->values, formula->items->count)
	           : !append_values(parse, list, &value, 1))
		return NULL;
	for (size_t i = 0; nested && i < formula->items->formula_count; i++)
		if (!append_formula(parse, list, before + formula->items->formulas[i].at, formula->items->formulas[i].formula))
			return NULL;
	if (nested || literal)
		spare_formula(parse, formula);
	else if (!append_formula(parse, list, before, formula))
		return NULL;
	return list;
}

struct parse_list *parse_list_close(struct parse *parse, struct parse_list *list, struct span span)
{
	if (!list)
		list = PARSE_NEW(parse, struct parse_list, .elements = 0);
	if (!list || !check_dims(parse, &list->parsed.shape, span))
		return NULL;
	struct shape *shape = &list->parsed.shape;
	memmove(shape->dim + 1, shape->dim, (size_t)shape->ndim * sizeof *shape->dim);
	shape->dim[0] = list->elements;
	shape->ndim++;
	list->parsed.span = span;
	return list;
}
