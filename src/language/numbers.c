/*
 * Formulas where a number is wanted, and the arithmetic of numbers.
 *
 * A formula is a number if all its parts are: literals, pi and e, consts without a type whose value is a number, names
 * that `let` gives to numbers, and operands of the enclosing def that are numbers in the call. The last are known only
 * when the chain is lowered.
 * Tests: tests/cases/formulas.test
 */
#include "language/resolver.h"

#include <math.h>
#include <string.h>

struct number number_of_double(double value)
{
	const bool integer = trunc(value) == value && fabs(value) <= 0x1p53;
	return (struct number){value, integer, integer ? (int64_t)value : 0};
}

/* Python's remainder, of the divisor's sign. */
static double remainder_of(double left, double right)
{
	const double rest = fmod(left, right);
	if (rest == 0)
		return copysign(0, right);
	return (rest < 0) != (right < 0) ? rest + right : rest;
}

bool number_compute(enum operator operator, double left, double right, double *result)
{
	switch (operator) {
	case OPERATOR_OR:
		*result = left != 0 || right != 0;
		return true;
	case OPERATOR_AND:
		*result = left != 0 && right != 0;
		return true;
	case OPERATOR_LT:
		*result = left < right;
		return true;
	case OPERATOR_LE:
		*result = left <= right;
		return true;
	case OPERATOR_GT:
		*result = left > right;
		return true;
	case OPERATOR_GE:
		*result = left >= right;
		return true;
	case OPERATOR_EQ:
		*result = left == right;
		return true;
	case OPERATOR_NE:
		*result = left != right;
		return true;
	case OPERATOR_ADD:
		*result = left + right;
		return true;
	case OPERATOR_SUB:
		*result = left - right;
		return true;
	case OPERATOR_MUL:
		*result = left * right;
		return true;
	case OPERATOR_DIV:
		*result = left / right;
		return true;
	case OPERATOR_MOD:
		*result = remainder_of(left, right);
		return true;
	case OPERATOR_POW:
		*result = pow(left, right);
		return true;
	case OPERATOR_NOT:
		*result = right == 0;
		return true;
	case OPERATOR_NEG:
		*result = -right;
		return true;
	case OPERATOR_MATMUL:
	case OPERATOR_INDEX:
		break;
	}
	return false;
}

bool number_constant(const char *name, double *value)
{
	const bool pi = !strcmp(name, "pi");
	*value = pi ? 3.14159265358979323846 : 2.71828182845904523536;
	return pi || !strcmp(name, "e");
}

bool resolver_known_number(const struct resolver *r, const struct binding *binding, struct number *number)
{
	const struct ref *ref = &binding->ref;
	if (ref->kind == REF_NUMBER)
		*number = number_of_double(ref->number);
	if (ref->kind != REF_PARAM)
		return ref->kind == REF_NUMBER;
	const struct param *param = &r->chain->params[ref->index];
	if (param->differentiated || param->declared->given || param->init->kind != INIT_NUMBER)
		return false;
	*number = number_of_double(param->init->values[0]);
	return true;
}

/* Reports that FORMULA, which should be WHAT, is no number that is known here. */
static enum status refuse_number(struct resolver *r, const struct formula *formula, const char *what, bool deferred)
{
	RESOLVE_FAIL(r, formula->span, "%s is a number%s", what, deferred ? " that does not depend on a call" : "");
	const struct binding *b = formula->kind == FORMULA_NAME ? resolver_find(r, formula->text) : NULL;
	if (b && b->ref.kind == REF_PARAM && !deferred)
		return RESOLVE_HINT(r, "the name of a number is declared without a type, as in const %s = 3", formula->text);
	return RESOLVE_HINT(r, "a number is made of literals, pi, e and consts such as const n = 3");
}

enum status resolver_number(struct resolver *r, const struct formula *formula, const char *what, struct number *number)
{
	struct formula_value value;
	TRY(resolver_formula(r, formula, &value));
	if (!value.known)
		return refuse_number(r, formula, what, value.deferred);
	resolver_take_number(r, &value);
	*number = value.number;
	return STATUS_OK;
}

enum status resolver_count(struct resolver *r, const struct statement *s, int64_t least, int64_t *value,
                           const struct ref **times)
{
	const struct formula *formula = s->count.formula;
	struct formula_value found;
	*value = s->count.value;
	*times = NULL;
	if (formula) {
		TRY(resolver_formula(r, formula, &found));
		if (!found.known && !found.deferred)
			return refuse_number(r, formula, s->condition ? "max" : "the count of repeat", false);
		if (found.known)
			resolver_take_number(r, &found);
		*value = found.number.as_integer;
		if (found.known && !found.number.integer)
			return RESOLVE_FAIL(r, formula->span, "the count of repeat is %.17g, not an integer", found.number.value);
	}
	if (formula && !found.known) {
		struct ref *ref = arena_alloc(r->context->arena, sizeof *ref);
		TRY_ALLOC(ref, r->context->diags);
		*ref = found.ref;
		*times = ref;
		*value = INT64_MAX;
		return STATUS_OK;
	}
	if (*value >= least)
		return STATUS_OK;
	if (s->condition)
		return RESOLVE_FAIL(r, s->count.span, "max of repeat while is at least 1");
	return RESOLVE_FAIL(r, s->count.span, "the count of repeat is %lld", (long long)*value);
}

enum status resolver_declared(struct resolver *r, const struct statement *s, const struct declared **declared)
{
	*declared = s->type;
	if (!s->type->extents)
		return STATUS_OK;
	struct declared *made = arena_alloc(r->context->arena, sizeof *made);
	TRY_ALLOC(made, r->context->diags);
	*made = *s->type;
	made->extents = NULL;
	for (int i = 0; i < made->type.shape.ndim; i++) {
		const struct formula *formula = s->type->extents[i];
		struct number number;
		if (!formula)
			continue;
		if (s->kind == STATEMENT_INPUT && formula->kind == FORMULA_NAME && !resolver_find(r, formula->text)) {
			RESOLVE_FAIL(r, formula->span, "unknown name '%s'", formula->text);
			return RESOLVE_HINT(r,
			                    "the first extent is * if each run may have another; a const such as const %s = 3 "
			                    "declares the others",
			                    formula->text);
		}
		TRY(resolver_number(r, formula, "an extent", &number));
		if (!number.integer || number.as_integer < 0)
			return RESOLVE_FAIL(r, formula->span, "an extent is an integer of at least 0, not %.17g", number.value);
		made->type.shape.dim[i] = number.as_integer;
	}
	*declared = made;
	return STATUS_OK;
}

/* Sets *INIT to the number GIVEN, in place of INSTEAD. */
static enum status give_number(struct resolver *r, const struct init *instead, const double *given,
                               const struct init **init)
{
	struct init *made = arena_alloc(r->context->arena, sizeof *made);
	TRY_ALLOC(made, r->context->diags);
	*made = (struct init){.kind = INIT_NUMBER, .span = instead->span, .values = given, .count = 1};
	made->text = arena_printf(r->context->arena, "%.17g", *given);
	TRY_ALLOC(made->text, r->context->diags);
	*init = made;
	return STATUS_OK;
}

enum status resolver_init(struct resolver *r, const struct statement *s, const struct init **init)
{
	const double *given = s->kind == STATEMENT_CONST && !s->type->given ? dictionary_find(&r->given, s->name) : NULL;
	*init = s->init;
	if (given)
		return give_number(r, s->init, given, init);
	if (!s->init->formula_count)
		return STATUS_OK;
	struct init *made = arena_alloc(r->context->arena, sizeof *made);
	double *values = arena_array(r->context->arena, s->init->count, sizeof *values);
	TRY_ALLOC(made && values, r->context->diags);
	*made = *s->init;
	memcpy(values, s->init->values, s->init->count * sizeof *values);
	made->values = values;
	made->formulas = NULL;
	made->formula_count = 0;
	for (size_t i = 0; i < s->init->formula_count; i++) {
		struct number number;
		TRY(resolver_number(r, s->init->formulas[i].formula, "an initial value", &number));
		values[s->init->formulas[i].at] = number.value;
	}
	*init = made;
	return STATUS_OK;
}
