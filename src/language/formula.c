/*
 * Formulas: a formula becomes a number, if all its parts are numbers that are known here; or a name; or a term, whose
 * nodes are those of the stages that would say the same.
 *
 * An operator is the operation of its name (operator_operation), with the right operand as its operand. A call is a stage
 * with the value before it. So both are resolved as a statement that is made for them, and have its messages.
 *
 * Invariant: a term belongs to one formula, so what is applied to a part may be appended to the part's term.
 * Tests: tests/cases/formulas.test
 */
#include "language/resolver.h"

#include "base/suggest.h"
#include "ops/op.h"

#include <string.h>

static struct ref name_ref(enum ref_kind kind, struct span span)
{
	return (struct ref){.kind = kind, .element = NO_INDEX, .span = span};
}

static void set_number(struct formula_value *value, struct number number, struct span span)
{
	*value = (struct formula_value){.ref = {.kind = REF_NUMBER, .number = number.value, .span = span}, .known = true};
	value->number = number;
}

/* Makes VALUE a term to which nodes can be appended. */
static enum status open_term(struct resolver *r, struct formula_value *value)
{
	if (value->ref.kind == REF_TERM)
		return STATUS_OK;
	struct term *term = arena_alloc(r->context->arena, sizeof *term);
	TRY_ALLOC(term, r->context->diags);
	term->value = value->ref;
	value->ref = (struct ref){.kind = REF_TERM, .term = term, .span = value->ref.span};
	value->tail = &term->first;
	return STATUS_OK;
}

/*
 * Appends to VALUE's term the node of S, a stage that is made for a part of a formula. It is the operation OP, or (OP_COUNT)
 * what its name means.
 */
static enum status append_stage(struct resolver *r, const struct statement *s, enum op op, struct formula_value *value)
{
	TRY(open_term(r, value));
	struct node **tail = r->tail;
	r->tail = value->tail;
	TRY(op == OP_COUNT ? resolver_stage(r, s) : resolver_operation(r, s, op));
	value->tail = r->tail;
	r->tail = tail;
	value->known = false;
	return STATUS_OK;
}

static enum status refuse_operator(struct resolver *r, enum operator operator, struct span span)
{
	const char *name = operator_operation(operator);
	return RESOLVE_FAIL(r, span, "'%s' needs the operation '%s', which is not built yet", operator_text(operator),
	                    name);
}

/* Applies OPERATOR, at SPAN, to VALUE, with the operand RIGHT (NULL: none). */
static enum status apply_operator(struct resolver *r, enum operator operator, struct span span,
                                  const struct formula_value *right, struct formula_value *value)
{
	double result;
	const double left = value->number.value;
	if (value->known && (!right || right->known) &&
	    number_compute(operator, left, right ? right->number.value : left, &result)) {
		struct number number = number_of_double(result);
		const struct number *own = &value->number;
		resolver_take_number(r, value);
		if (right)
			resolver_take_number(r, right);
		if (operator== OPERATOR_NEG && own->integer && own->as_integer> INT64_MIN)
			number = (struct number){result, true, -own->as_integer};
		set_number(value, number, value->ref.span);
		return STATUS_OK;
	}
	const enum op op = op_find(operator_operation(operator));
	if (op == OP_COUNT)
		return refuse_operator(r, operator, span);
	struct operand operand = {.kind = OPERAND_REF, .index = NO_INDEX};
	if (right) {
		operand.span = right->ref.span;
		operand.ref = &right->ref;
	}
	const struct statement s = {.kind = STATEMENT_STAGE,
	                            .span = span,
	                            .name_span = span,
	                            .name = op_table[op].name,
	                            .operands = right ? &operand : NULL};
	const bool numbers = (value->known || value->deferred) && (!right || right->known || right->deferred);
	TRY(append_stage(r, &s, op, value));
	value->deferred = numbers;
	return STATUS_OK;
}

/* Names, lists. */

static enum status resolve_formula_name(struct resolver *r, const struct formula *formula, struct formula_value *value)
{
	static const char *const reserved[] = {"and", "or", "not", "true", "false"};
	double constant;
	const char *name = formula->text;
	const struct binding *binding = resolver_find(r, name);
	for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
		if (!strcmp(name, reserved[i])) {
			RESOLVE_FAIL(r, formula->at, "'%s' is no value in a formula", name);
			return RESOLVE_HINT(r, "a condition is 1 or 0");
		}
	if (!binding && number_constant(name, &constant)) {
		set_number(value, number_of_double(constant), formula->at);
		return STATUS_OK;
	}
	struct number number;
	TRY(resolver_name(r, name, formula->at, &value->ref));
	value->known = resolver_known_number(r, binding, &number);
	value->deferred = value->ref.kind == REF_ARGUMENT;
	if (value->known)
		value->number = number;
	return STATUS_OK;
}

/* Sets *REF to a new const without a name, which is INIT. SPAN is its source. */
static enum status add_unnamed(struct resolver *r, struct init *init, struct span span, struct ref *ref)
{
	static const struct declared none;
	struct chain *chain = r->chain;
	struct arena *arena = r->context->arena;
	struct param *param = arena_append(arena, &chain->params, &chain->param_count, &r->param_capacity, sizeof *param);
	TRY_ALLOC(param, r->context->diags);
	const char *text = chain->source->text + span.begin;
	const char *line = memchr(text, '\n', span.end - span.begin);
	init->span = span;
	init->text = arena_printf(arena, "%.*s", (int)(line ? line - text : span.end - span.begin), text);
	TRY_ALLOC(init->text, r->context->diags);
	*param = (struct param){.name = init->text, .declared = &none, .init = init, .span = span};
	*ref = name_ref(REF_PARAM, span);
	ref->index = (uint32_t)chain->param_count - 1;
	return STATUS_OK;
}

enum status resolver_list(struct resolver *r, const struct list *list, struct ref *ref)
{
	struct arena *arena = r->context->arena;
	struct init *init = arena_alloc(arena, sizeof *init);
	struct shape *shape = arena_alloc(arena, sizeof *shape);
	double *values = arena_array(arena, list->count, sizeof *values);
	TRY_ALLOC(init && shape && values, r->context->diags);
	*shape = list->shape;
	if (list->count)
		memcpy(values, list->values, list->count * sizeof *values);
	*init = (struct init){.kind = INIT_LIST, .values = values, .count = list->count, .shape = shape};
	TRY(add_unnamed(r, init, list->span, ref));
	for (size_t i = 0; i < list->formula_count; i++) {
		const struct formula *element = list->formulas[i].formula;
		const struct binding *b = element->kind == FORMULA_NAME ? resolver_find(r, element->text) : NULL;
		struct number number;
		if (b && b->ref.kind == REF_VARIABLE) {
			RESOLVE_FAIL(r, element->span, "an element of a list is a number, and '%s' is an array", element->text);
			return RESOLVE_HINT(r, "arrays are joined as arguments of their own, as in concat(a, b) and stack(a, b)");
		}
		TRY(resolver_number(r, element, "an element of a list", &number));
		values[list->formulas[i].at] = number.value;
	}
	return STATUS_OK;
}

enum status resolver_array_of_number(struct resolver *r, double number, struct span span, struct ref *ref)
{
	struct init *init = arena_alloc(r->context->arena, sizeof *init);
	double *value = arena_alloc(r->context->arena, sizeof *value);
	TRY_ALLOC(init && value, r->context->diags);
	*value = number;
	*init = (struct init){.kind = INIT_NUMBER, .values = value, .count = 1};
	return add_unnamed(r, init, span, ref);
}

/* Calls. */

/* Sets *OPERAND to FORMULA as an argument of a call. */
static void operand_of_formula(struct formula *formula, struct operand *operand)
{
	*operand = (struct operand){.kind = OPERAND_FORMULA, .span = formula->span, .formula = formula, .index = NO_INDEX};
	if (formula->first)
		return;
	if (formula->kind == FORMULA_NUMBER) {
		operand->kind = OPERAND_NUMBER;
		operand->number = formula->number;
		operand->formula = NULL;
	} else if (formula->kind == FORMULA_LIST) {
		operand->kind = OPERAND_LIST;
		operand->list = formula->items;
	} else if (formula->kind == FORMULA_STRING) {
		operand->kind = OPERAND_STRING;
		operand->formula = NULL;
	}
	operand->text = formula->text;
}

/* What a call's name means, and which of its arguments is the value. */
struct callee {
	enum op op; /* OP_COUNT: none */
	const struct def *called;
	const struct program_decl *program;
	size_t value; /* the value's place among the arguments */
	bool current; /* the value is the current one */
};

static size_t count_options(const struct option *o)
{
	size_t count = 0;
	for (; o; o = o->next)
		count++;
	return count;
}

/* Finds where the value of a call of NAME, which takes TAKES operands, is among its GIVEN arguments. */
static enum status place_value(struct resolver *r, const struct formula *call, size_t takes, size_t given,
                               struct callee *callee)
{
	callee->current = given == takes;
	if (given == takes || given == takes + 1)
		return STATUS_OK;
	RESOLVE_FAIL(r, call->at, "'%s' takes %zu operand%s, not %zu", call->text, takes, takes == 1 ? "" : "s", given);
	return RESOLVE_HINT(r, "in a formula the value may stand before them: %zu or %zu arguments", takes, takes + 1);
}

static enum status find_callee(struct resolver *r, const struct formula *call, struct callee *callee)
{
	size_t places = 0;
	for (const struct formula *f = call->arguments; f; f = f->next)
		places++;
	*callee = (struct callee){.op = OP_COUNT};
	callee->called = resolver_find_def(r, call->text);
	if (callee->called && callee->called->export_count) {
		RESOLVE_FAIL(r, call->at, "'%s' exports names, so it is no call in a formula", call->text);
		return RESOLVE_HINT(r, "write it as a stage, and read '%s' after it", callee->called->exports[0].name);
	}
	if (callee->called)
		return place_value(r, call, callee->called->own, places + count_options(call->options), callee);
	callee->program = resolver_find_program(r, call->text);
	if (callee->program)
		return place_value(r, call, callee->program->operand_count, places, callee);
	callee->op = op_find(call->text);
	if (callee->op == OP_COUNT) {
		const struct statement s = {
			.kind = STATEMENT_STAGE, .name = call->text, .name_span = call->at, .span = call->at};
		return resolver_unknown_operation(r, &s);
	}
	callee->value = !strcmp(call->text, "where") || !strcmp(call->text, "einsum");
	if (places > callee->value)
		return STATUS_OK;
	RESOLVE_FAIL(r, call->at, "'%s' needs a value", call->text);
	return callee->value ? STATUS_CHAIN : RESOLVE_HINT(r, "the value is the first argument, as in %s(x)", call->text);
}

/* True if what REF refers to is computed where it is used. */
static bool is_term(const struct ref *ref) { return ref->kind == REF_TERM; }

/*
 * Makes OPERAND, the first argument of a call whose value is the second one, computed before VALUE, the second one: both
 * are given as they are written, left to right.
 */
static enum status hold_first(struct resolver *r, struct operand *operand, struct formula *first,
                              struct formula_value *value, struct ref *held)
{
	if (first->kind == FORMULA_STRING)
		return STATUS_OK;
	TRY(resolver_formula(r, first, value));
	*held = value->ref;
	*operand = (struct operand){.kind = OPERAND_REF, .span = first->span, .ref = held, .index = NO_INDEX};
	return STATUS_OK;
}

/* If HELD and VALUE are both computed, makes VALUE's term compute HELD first, and *HELD refer to that. */
static enum status hold_in_term(struct resolver *r, struct ref *held, struct formula_value *value)
{
	if (!is_term(held) || !is_term(&value->ref))
		return STATUS_OK;
	if (value->ref.term->before.kind != REF_NONE) {
		struct term *around = arena_alloc(r->context->arena, sizeof *around);
		TRY_ALLOC(around, r->context->diags);
		around->value = value->ref;
		value->ref.term = around;
		value->tail = &around->first;
	}
	value->ref.term->before = *held;
	*held = name_ref(REF_HELD, held->span);
	return STATUS_OK;
}

/* Computes the call of a known operation on numbers, if it is element-wise. Returns false if it is not. */
static bool compute_call(const struct resolver *r, const struct callee *callee, const struct statement *s,
                         const struct formula_value *operand, struct formula_value *value)
{
	double result;
	if (callee->op == OP_COUNT || !value->known || s->options ||
	    (s->operands && (s->operands->next || !operand->known)))
		return false;
	if (!op_of_numbers(callee->op, value->number.value, s->operands ? &operand->number.value : NULL, &result))
		return false;
	resolver_take_number(r, value);
	if (s->operands)
		resolver_take_number(r, operand);
	set_number(value, number_of_double(result), s->span);
	return true;
}

static bool stands_for_number(const struct formula_value *value) { return value->known || value->deferred; }

/* What the condition and the choices of a `where` are: not all numbers; numbers in each call; numbers that are known here. */
enum choice { CHOICE_ARRAYS, CHOICE_NUMBERS, CHOICE_KNOWN };

/*
 * If the condition C and the first choice VALUE of CALL, a `where`, are numbers, resolves the second choice, for which S has an
 * operand. *CHOICE: what all three are. If they are known, VALUE is the one that C chooses.
 */
static enum status choose_number(struct resolver *r, const struct formula *call, const struct formula_value *c,
                                 const struct statement *s, struct formula_value *value, enum choice *choice)
{
	struct formula *last = call->arguments->next->next;
	struct formula_value *other = arena_alloc(r->context->arena, sizeof *other);
	TRY_ALLOC(other, r->context->diags);
	*choice = CHOICE_ARRAYS;
	if (!stands_for_number(c) || !stands_for_number(value) || !last || last->next || last->kind == FORMULA_STRING ||
	    s->options)
		return STATUS_OK;
	*other = (struct formula_value){.known = false};
	TRY(resolver_formula(r, last, other));
	*s->operands->next =
		(struct operand){.kind = OPERAND_REF, .span = last->span, .ref = &other->ref, .index = NO_INDEX};
	if (stands_for_number(other))
		*choice = c->known && value->known && other->known ? CHOICE_KNOWN : CHOICE_NUMBERS;
	if (*choice != CHOICE_KNOWN)
		return STATUS_OK;
	resolver_take_number(r, c);
	resolver_take_number(r, value);
	resolver_take_number(r, other);
	set_number(value, c->number.value != 0 ? value->number : other->number, call->at);
	return STATUS_OK;
}

static enum status resolve_formula_call(struct resolver *r, const struct formula *call, struct formula_value *value)
{
	struct callee callee;
	TRY(find_callee(r, call, &callee));
	size_t count = 0, at = 0;
	for (const struct formula *f = call->arguments; f; f = f->next)
		count++;
	struct operand *operands = arena_array(r->context->arena, count + 1, sizeof *operands), *last = NULL;
	TRY_ALLOC(operands, r->context->diags);
	struct statement s = {
		.kind = STATEMENT_STAGE, .span = call->at, .name = call->text, .name_span = call->at, .options = call->options};
	struct ref held = {.kind = REF_NONE};
	struct formula_value operand = {.known = false}, before = {.known = false};
	enum choice choice = CHOICE_ARRAYS;
	value->ref = name_ref(REF_CURRENT, call->at);
	for (struct formula *f = call->arguments; f; f = f->next, at++) {
		if (at == callee.value && !callee.current) {
			TRY(resolver_formula(r, f, value));
			continue;
		}
		struct operand *o = last ? last + 1 : operands;
		if (last)
			last->next = o;
		else
			s.operands = o;
		last = o;
		operand_of_formula(f, o);
		if (at < callee.value)
			TRY(hold_first(r, o, f, &before, &held));
	}
	if (callee.op == OP_where && !callee.current && count > 1)
		TRY(choose_number(r, call, &before, &s, value, &choice));
	if (choice == CHOICE_KNOWN)
		return STATUS_OK;
	if (held.kind != REF_NONE)
		TRY(hold_in_term(r, &held, value));
	if (value->known && callee.op != OP_COUNT && op_table[callee.op].class == OP_CLASS_BINARY && s.operands &&
	    !s.operands->next && call->arguments->next->kind != FORMULA_STRING) {
		struct formula *f = call->arguments->next;
		TRY(resolver_formula(r, f, &operand));
		*s.operands = (struct operand){.kind = OPERAND_REF, .span = f->span, .ref = &operand.ref, .index = NO_INDEX};
	}
	if (compute_call(r, &callee, &s, &operand, value))
		return STATUS_OK;
	const bool by_element = callee.op != OP_COUNT && op_table[callee.op].class != OP_CLASS_GENERAL;
	const bool numbers = callee.op == OP_where ? choice == CHOICE_NUMBERS : by_element && stands_for_number(value);
	TRY(append_stage(r, &s, callee.op, value));
	value->deferred = numbers;
	return STATUS_OK;
}

/* Indices. */

/* Returns the name of a loop's counter that stands in FORMULA, outside of calls; NULL if none does. */
static const char *counter_in(const struct resolver *r, const struct formula *formula)
{
	const char *found = NULL;
	if (formula->kind == FORMULA_NAME) {
		const struct binding *binding = resolver_find(r, formula->text);
		found = binding && binding->ref.kind == REF_COUNTER ? formula->text : NULL;
	} else if (formula->kind == FORMULA_PREFIX) {
		found = counter_in(r, formula->operand);
	}
	for (const struct application *a = formula->first; a && !found; a = a->next)
		if (a->operator!= OPERATOR_INDEX)
			found = counter_in(r, a->operand);
	return found;
}

/* Reports that BOUND, of an index of KIND, is no integer that is known. */
static enum status refuse_bound(struct resolver *r, enum index_kind kind, const struct formula *bound)
{
	const char *counter = counter_in(r, bound);
	if (!counter) {
		RESOLVE_FAIL(r, bound->span, "an index is an integer, and this is an array");
		return RESOLVE_HINT(r, "the rows that an array names are taken by `take`");
	}
	if (kind == INDEX_SLICE) {
		RESOLVE_FAIL(r, bound->span, "a slice has the same bounds in all iterations, and '%s' differs in each",
		             counter);
		return RESOLVE_HINT(r, "the part of one iteration is an index, as in W[%s]", counter);
	}
	RESOLVE_FAIL(r, bound->span, "an index that differs in each iteration is the name '%s' alone, as in W[%s]", counter,
	             counter);
	return RESOLVE_HINT(r, "W[1:][%s] is the part after W[%s], and flip(W, axis=0)[%s] counts from the end", counter,
	                    counter, counter);
}

/* Sets *REF to BOUND (NULL: none) of an index of KIND, an integer here or in each iteration or call; *KNOWN if here. */
static enum status resolve_bound(struct resolver *r, enum index_kind kind, const struct formula *bound, struct ref *ref,
                                 int64_t *known)
{
	struct formula_value value;
	*ref = (struct ref){.kind = REF_NONE};
	*known = NO_INDEX;
	if (!bound)
		return STATUS_OK;
	TRY(resolver_formula(r, bound, &value));
	const bool counter = value.ref.kind == REF_COUNTER && kind == INDEX_AT;
	if (!value.known && !value.deferred && !counter)
		return refuse_bound(r, kind, bound);
	if (value.known && !value.number.integer)
		return RESOLVE_FAIL(r, bound->span, "an index is an integer, not %.17g", value.number.value);
	if (value.known)
		resolver_take_number(r, &value);
	if (value.known) { /* NO_INDEX is beyond any array, and so is the next number. */
		*known = value.number.as_integer == NO_INDEX ? NO_INDEX + 1 : value.number.as_integer;
		value.ref = (struct ref){.kind = REF_NUMBER, .number = (double)*known, .span = bound->span};
	}
	*ref = value.ref;
	return STATUS_OK;
}

/* True if REF is a name that has no index yet. */
static bool takes_element(const struct ref *ref)
{
	return ref->kind >= REF_PARAM && ref->kind <= REF_ARGUMENT && !ref->by_name && ref->element == NO_INDEX;
}

/*
 * If A begins with a name, the number of an iteration or an operand of the def around, makes REF its part at that number.
 * *FOUND: it does. The rest of A applies to that part.
 */
static enum status index_by_name(struct resolver *r, const struct application *a, struct ref *ref, bool *found)
{
	const struct index_part *part = a->index;
	const bool name =
		takes_element(ref) && part->kind == INDEX_AT && part->start->kind == FORMULA_NAME && !part->start->first;
	const struct binding *binding = name ? resolver_find(r, part->start->text) : NULL;
	*found = binding && (binding->ref.kind == REF_COUNTER || binding->ref.kind == REF_ARGUMENT);
	if (!*found)
		return STATUS_OK;
	struct ref *by = arena_alloc(r->context->arena, sizeof *by);
	TRY_ALLOC(by, r->context->diags);
	*by = (struct ref){.element = NO_INDEX, .span = part->start->at};
	ref->by_name = true;
	ref->by = by;
	ref->span.end = a->span.end;
	return resolver_name(r, part->start->text, part->start->at, by);
}

static enum status apply_index(struct resolver *r, const struct application *a, struct formula_value *value)
{
	size_t count = 0, used = 0;
	const bool row = takes_element(&value->ref) && a->index->kind == INDEX_AT && !a->index->next;
	for (const struct index_part *part = a->index; part; part = part->next)
		count++;
	struct index_bounds *parts = arena_array(r->context->arena, count, sizeof *parts);
	TRY_ALLOC(parts, r->context->diags);
	for (const struct index_part *part = value->ref.kind == REF_NUMBER ? a->index : NULL; part; part = part->next)
		if (part->kind == INDEX_AT || part->kind == INDEX_SLICE)
			return RESOLVE_FAIL(r, part->span, "a number has no elements");
	value->known = value->deferred = false;
	bool by_name;
	TRY(index_by_name(r, a, &value->ref, &by_name));
	for (const struct index_part *part = by_name ? a->index->next : a->index; part; part = part->next) {
		struct index_bounds *bounds = &parts[used++];
		int64_t at, stop, step;
		bounds->kind = part->kind;
		TRY(resolve_bound(r, part->kind, part->start, &bounds->begin, &at));
		TRY(resolve_bound(r, part->kind, part->stop, &bounds->stop, &stop));
		TRY(resolve_bound(r, part->kind, part->step, &bounds->step, &step));
		if (step == 0)
			return RESOLVE_FAIL(r, part->step->span, "the step of an index is not 0");
		if (row && at != NO_INDEX) {
			value->ref.element = at;
			value->ref.span.end = a->span.end;
			used--;
		}
	}
	if (used == 0)
		return STATUS_OK;
	TRY(open_term(r, value));
	struct node *node = resolver_new_node(r, NODE_INDEX, &(const struct statement){.name_span = a->span});
	TRY_ALLOC(node, r->context->diags);
	node->bounds = parts;
	node->bound_count = used;
	*value->tail = node;
	value->tail = &node->next;
	return STATUS_OK;
}

/* Formulas. */

static enum status resolve_first(struct resolver *r, const struct formula *formula, struct formula_value *value)
{
	switch (formula->kind) {
	case FORMULA_NUMBER:
		set_number(value, formula->number, formula->at);
		return STATUS_OK;
	case FORMULA_NAME:
		return resolve_formula_name(r, formula, value);
	case FORMULA_CURRENT:
		value->ref = name_ref(REF_CURRENT, formula->at);
		return STATUS_OK;
	case FORMULA_LIST:
		return resolver_list(r, formula->items, &value->ref);
	case FORMULA_CALL:
		return resolve_formula_call(r, formula, value);
	case FORMULA_PREFIX:
		TRY(resolver_formula(r, formula->operand, value));
		return apply_operator(r, formula->operator, formula->at, NULL, value);
	case FORMULA_STRING:
		break;
	}
	return RESOLVE_FAIL(r, formula->at, "a string is no value");
}

enum status resolver_formula(struct resolver *r, const struct formula *formula, struct formula_value *value)
{
	*value = (struct formula_value){.ref = name_ref(REF_NONE, formula->span)};
	TRY(resolve_first(r, formula, value));
	for (const struct application *a = formula->first; a; a = a->next) {
		struct formula_value right;
		if (a->operator== OPERATOR_INDEX) {
			TRY(apply_index(r, a, value));
			continue;
		}
		TRY(resolver_formula(r, a->operand, &right));
		TRY(apply_operator(r, a->operator, a->span, &right, value));
	}
	return STATUS_OK;
}

enum status resolver_let(struct resolver *r, const struct statement *s)
{
	struct formula_value value;
	TRY(resolver_formula(r, s->formula, &value));
	const struct binding *b = scope_find(resolver_home(r), s->name);
	const bool variable = b && b->ref.kind == REF_VARIABLE;
	if (!value.known || variable)
		return resolver_bind_value(r, s, value.ref);
	resolver_take_number(r, &value);
	return resolver_bind_home(r, s->name,
	                          (struct ref){.kind = REF_NUMBER, .number = value.number.value, .span = s->name_span});
}
