/*
 * Formulas as text, for `fmt` and messages, and the table of their operators.
 *
 * A formula is written with as few parentheses as parse to the same tree. What is applied to a first part is a list, so
 * the parentheses that open before that part are counted first.
 * Tests: tests/unit/test_syntax.c
 */
#include "language/syntax.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>

enum {
	BINDS_OR = 1,
	BINDS_AND,
	BINDS_NOT,
	BINDS_COMPARISON,
	BINDS_SUM,
	BINDS_PRODUCT,
	BINDS_NEG,
	BINDS_POW,
	BINDS_ALL
};

static const struct {
	const char *operation, *text;
	int binds;
} operators[] = {
	[OPERATOR_OR] = {"or", "or", BINDS_OR},         [OPERATOR_AND] = {"and", "and", BINDS_AND},
	[OPERATOR_LT] = {"lt", "<", BINDS_COMPARISON},  [OPERATOR_LE] = {"le", "<=", BINDS_COMPARISON},
	[OPERATOR_GT] = {"gt", ">", BINDS_COMPARISON},  [OPERATOR_GE] = {"ge", ">=", BINDS_COMPARISON},
	[OPERATOR_EQ] = {"eq", "==", BINDS_COMPARISON}, [OPERATOR_NE] = {"ne", "!=", BINDS_COMPARISON},
	[OPERATOR_ADD] = {"add", "+", BINDS_SUM},       [OPERATOR_SUB] = {"sub", "-", BINDS_SUM},
	[OPERATOR_MUL] = {"mul", "*", BINDS_PRODUCT},   [OPERATOR_DIV] = {"div", "/", BINDS_PRODUCT},
	[OPERATOR_MOD] = {"mod", "%", BINDS_PRODUCT},   [OPERATOR_MATMUL] = {"matmul", "@", BINDS_PRODUCT},
	[OPERATOR_POW] = {"pow", "^", BINDS_POW},       [OPERATOR_INDEX] = {NULL, "[", BINDS_ALL},
	[OPERATOR_NOT] = {"not", "not", BINDS_NOT},     [OPERATOR_NEG] = {"neg", "-", BINDS_NEG},
};

const char *operator_operation(enum operator operator) {return operators[operator].operation; }
const char *operator_text(enum operator operator) {return operators[operator].text; }
int operator_binds(enum operator operator) {return operators[operator].binds; }

static int first_binds(const struct formula *formula)
{
	if (formula->kind == FORMULA_PREFIX)
		return operator_binds(formula->operator);
	return formula->kind == FORMULA_NUMBER && *formula->text == '-' ? BINDS_NEG : BINDS_ALL;
}

int formula_binds(const struct formula *formula)
{
	return formula->last ? operator_binds(formula->last->operator) : first_binds(formula);
}

/* True if OPERATOR's left operand, which binds as BINDS, needs parentheses. */
static bool needs_closing(enum operator operator, int binds)
{
	const int own = operator_binds(operator);
	const bool itself = operator== OPERATOR_POW || operator_compares(operator);
	return binds < own || (itself && binds == own);
}

struct formula_writer {
	const struct source *code;
	struct text text;
};

static void write_formula(const struct formula_writer *w, const struct formula *formula);

static void write_closed(const struct formula_writer *w, const struct formula *formula, bool close)
{
	text_put(&w->text, close ? "(" : "");
	write_formula(w, formula);
	text_put(&w->text, close ? ")" : "");
}

static void write_list(const struct formula_writer *w, const struct list *list)
{
	syntax_write_source(w->code->text + list->span.begin, list->span.end - list->span.begin, w->text.write,
	                    w->text.context);
}

static void write_option(const struct formula_writer *w, const struct option *o)
{
	text_printf(&w->text, "%s=", o->name);
	if (o->kind == VALUE_STRING)
		syntax_write_string(o->text, w->text.write, w->text.context);
	else if (o->kind == VALUE_LIST)
		write_list(w, o->list);
	else if (o->kind == VALUE_FORMULA)
		write_formula(w, o->formula);
	else
		text_put(&w->text, o->text);
}

static void write_call(const struct formula_writer *w, const struct formula *call)
{
	text_printf(&w->text, "%s(", call->text);
	for (const struct formula *f = call->arguments; f; f = f->next) {
		write_formula(w, f);
		text_put(&w->text, f->next || call->options ? ", " : "");
	}
	for (const struct option *o = call->options; o; o = o->next) {
		write_option(w, o);
		text_put(&w->text, o->next ? ", " : "");
	}
	text_put(&w->text, ")");
}

/* Writes FORMULA without what is applied to it. */
static void write_first(const struct formula_writer *w, const struct formula *formula)
{
	switch (formula->kind) {
	case FORMULA_NUMBER:
	case FORMULA_NAME:
		text_put(&w->text, formula->text);
		break;
	case FORMULA_CURRENT:
		text_put(&w->text, ".");
		break;
	case FORMULA_STRING:
		syntax_write_string(formula->text, w->text.write, w->text.context);
		break;
	case FORMULA_LIST:
		write_list(w, formula->items);
		break;
	case FORMULA_CALL:
		write_call(w, formula);
		break;
	case FORMULA_PREFIX:
		text_put(&w->text, formula->operator== OPERATOR_NOT ? "not " : "-");
		write_closed(w, formula->operand, formula_binds(formula->operand) < operator_binds(formula->operator));
	}
}

static void write_part(const struct formula_writer *w, const struct index_part *part)
{
	if (part->kind == INDEX_REST)
		text_put(&w->text, "...");
	if (part->kind == INDEX_NEW)
		text_put(&w->text, "None");
	if (part->start)
		write_formula(w, part->start);
	if (part->kind != INDEX_SLICE)
		return;
	text_put(&w->text, ":");
	if (part->stop)
		write_formula(w, part->stop);
	if (part->step) {
		text_put(&w->text, ":");
		write_formula(w, part->step);
	}
}

static void write_index(const struct formula_writer *w, const struct index_part *part)
{
	text_put(&w->text, "[");
	for (; part; part = part->next) {
		write_part(w, part);
		text_put(&w->text, part->next ? ", " : "]");
	}
}

static void write_applied(const struct formula_writer *w, const struct application *a)
{
	if (a->operator== OPERATOR_INDEX) {
		write_index(w, a->index);
		return;
	}
	const char *blank = a->operator== OPERATOR_POW ? "" : " ";
	const int right = formula_binds(a->operand), own = operator_binds(a->operator);
	/* An operator before the right operand of ^ is no end of it: 2^-x. */
	const bool opens = a->operator== OPERATOR_POW && right >= BINDS_NEG;
	text_printf(&w->text, "%s%s%s", blank, operator_text(a->operator), blank);
	write_closed(w, a->operand, right <= own && !opens);
}

static void write_formula(const struct formula_writer *w, const struct formula *formula)
{
	int binds = first_binds(formula);
	for (const struct application *a = formula->first; a; a = a->next) {
		text_put(&w->text, needs_closing(a->operator, binds) ? "(" : "");
		binds = operator_binds(a->operator);
	}
	write_first(w, formula);
	binds = first_binds(formula);
	for (const struct application *a = formula->first; a; a = a->next) {
		text_put(&w->text, needs_closing(a->operator, binds) ? ")" : "");
		write_applied(w, a);
		binds = operator_binds(a->operator);
	}
}

/*
 * True if FORMULA can be an operand of a stage without parentheses: it ends with an index, and begins with a name, `.` or `(`.
 * In parentheses pi and e are numbers.
 */
static bool stands_alone(const struct formula *formula)
{
	const bool name = formula->kind == FORMULA_NAME;
	const bool number = name && formula->closed && names_constant(formula->text);
	bool closes = (name && !number) || formula->kind == FORMULA_CURRENT;
	int binds = first_binds(formula);
	for (const struct application *a = formula->first; a; a = a->next) {
		closes |= needs_closing(a->operator, binds);
		binds = operator_binds(a->operator);
	}
	return closes && formula->last && formula->last->operator== OPERATOR_INDEX;
}

void syntax_write_formula(const struct source *source, const struct formula *formula, bool alone, diag_write *write,
                          void *context)
{
	const struct formula_writer w = {source, {write, context}};
	write_closed(&w, formula, alone && !stands_alone(formula));
}

/* Source. */

static bool is_word_byte(char c) { return c == '_' || isalnum((unsigned char)c); }

/* Returns the length of the number or word at TEXT, before END. */
static size_t length_of_word(const char *text, const char *end, bool number)
{
	const char *at = text;
	while (at < end && (is_word_byte(*at) || (number && (*at == '.' || (strchr("+-", *at) && strchr("eE", at[-1]))))))
		at++;
	return (size_t)(at - text);
}

/* Returns the length of the token at TEXT, before END: a number, a word, a string, an operator or a byte. */
static size_t token_length(const char *text, const char *end)
{
	const char *at = text;
	const bool number = isdigit((unsigned char)*at) || (*at == '.' && at + 1 < end && isdigit((unsigned char)at[1]));
	if (number || is_word_byte(*at))
		return length_of_word(text, end, number);
	if (*at == '"') {
		for (at++; at < end && *at != '"'; at++)
			at += *at == '\\';
		return (size_t)(at - text) + (at < end);
	}
	if (end - at > 2 && !memcmp(at, "...", 3))
		return 3;
	return 1 + (end - at > 1 && ((at[1] == '=' && strchr("<>=!", *at)) || (at[0] == '*' && at[1] == '*')));
}

static bool token_is(const char *token, size_t length, const char *word)
{
	return strlen(word) == length && !memcmp(token, word, length);
}

/* True if a sign after the token, of LENGTH bytes at BEFORE, stands before its operand. */
static bool opens_operand(const char *before, size_t length)
{
	if (!length || token_is(before, length, "and") || token_is(before, length, "or") || token_is(before, length, "not"))
		return true;
	return strchr("(+-*/%@^<>=!,[:", *before) && *before;
}

void syntax_write_source(const char *text, size_t length, diag_write *write, void *context)
{
	const char *end = text + length, *before = "";
	size_t last = 0;
	for (size_t taken; text < end; text += taken) {
		taken = 1;
		if (strchr(" \t\r\n\f\v", *text))
			continue;
		if (*text == '#') {
			while (text + taken < end && text[taken] != '\n')
				taken++;
			continue;
		}
		taken = token_length(text, end);
		const bool opens = opens_operand(before, last), power = token_is(text, taken, "**") || *text == '^';
		const bool sign = *text == '+' || *text == '-';
		const bool word = last && (is_word_byte(before[last - 1]) || (last > 1 && before[last - 1] == '.')); /* 2. */
		const bool binary =
			!power && ((sign && !opens) || (strchr("*/%@<>!", *text) && *text) || token_is(text, taken, "=="));
		const bool operator_word = last && opens && is_word_byte(*before);
		if (binary || operator_word || (word && is_word_byte(*text)))
			write(context, " ", 1);
		if (power)
			write(context, "^", 1);
		else if (!(*text == '+' && opens))
			write(context, text, taken);
		if (binary || *text == ',')
			write(context, " ", 1);
		before = text;
		last = taken;
	}
}
