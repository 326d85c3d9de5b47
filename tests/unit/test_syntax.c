/*
 * The scanner, the parser, the formatter and the dump. The oracles are trees written by hand, C's own arithmetic for
 * constant expressions, and a generator of random programs. The generator writes each program in two ways, plainly and
 * with all the noise that the language allows. Both must give one tree and one canonical text.
 */
#include "failing.h"
#include "language/resolver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* ---- parsing a text ---- */

struct text {
	char *bytes;
	size_t length, capacity;
};

static void text_write(void *context, const char *bytes, size_t length)
{
	struct text *text = context;
	if (text->length + length + 1 > text->capacity) {
		text->capacity = 2 * (text->length + length + 1);
		text->bytes = realloc(text->bytes, text->capacity);
		ck_assert_ptr_nonnull(text->bytes);
	}
	memcpy(text->bytes + text->length, bytes, length);
	text->length += length;
	text->bytes[text->length] = '\0';
}

static void text_add(struct text *text, const char *string) { text_write(text, string, strlen(string)); }

static void text_repeat(struct text *text, const char *string, int count)
{
	while (count-- > 0)
		text_add(text, string);
}

struct parsed {
	struct arena arena;
	struct diags diags;
	struct source source;
	struct syntax syntax;
	enum status status;
	char *copy; /* exactly as long as the text, so that a read beyond it is seen */
};

static struct parsed *parse_bytes(const char *bytes, size_t length, const struct allocator *allocator)
{
	struct parsed *p = calloc(1, sizeof *p);
	ck_assert_ptr_nonnull(p);
	p->copy = malloc(length ? length : 1);
	ck_assert_ptr_nonnull(p->copy);
	memcpy(p->copy, bytes, length);
	p->source = (struct source){"t.ck", p->copy, length};
	arena_init(&p->arena, allocator);
	diags_init(&p->diags, &p->arena);
	p->status = syntax_parse(&(struct context){p->arena.allocator, &p->arena, &p->diags}, &p->syntax, &p->source);
	return p;
}

static struct parsed *parse(const char *text) { return parse_bytes(text, strlen(text), &allocator_system); }

/* Parses what must parse. */
static struct parsed *parse_good(const char *text)
{
	struct parsed *p = parse(text);
	ck_assert_msg(p->status == STATUS_OK, "'%s': %s", text, p->diags.last ? p->diags.last->message : "no message");
	ck_assert_int_eq(p->diags.errors, 0);
	return p;
}

static void done(struct parsed *p)
{
	arena_free(&p->arena);
	free(p->copy);
	free(p);
}

static const struct statement *first_of(const struct parsed *p)
{
	ck_assert_ptr_nonnull(p->syntax.chain->first);
	return p->syntax.chain->first;
}

/* ---- trees compared, places left out ---- */

static bool same_text(const char *a, const char *b) { return (!a && !b) || (a && b && !strcmp(a, b)); }

static bool same_number(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

static bool same_block(const struct block *a, const struct block *b);

static bool same_formula(const struct formula *a, const struct formula *b);
static bool same_options(const struct option *a, const struct option *b);

static bool same_list(const struct list *a, const struct list *b)
{
	if (a->count != b->count || a->formula_count != b->formula_count || !shape_equal(&a->shape, &b->shape))
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!same_number(a->values[i], b->values[i]))
			return false;
	for (size_t i = 0; i < a->formula_count; i++)
		if (a->formulas[i].at != b->formulas[i].at || !same_formula(a->formulas[i].formula, b->formulas[i].formula))
			return false;
	return true;
}

static bool same_index(const struct index_part *a, const struct index_part *b)
{
	for (; a && b; a = a->next, b = b->next)
		if (a->kind != b->kind || !same_formula(a->start, b->start) || !same_formula(a->stop, b->stop) ||
		    !same_formula(a->step, b->step))
			return false;
	return a == b;
}

static bool same_first(const struct formula *a, const struct formula *b)
{
	if (a->kind != b->kind || !same_text(a->text, b->text))
		return false;
	if (a->kind == FORMULA_NUMBER)
		return same_number(a->number.value, b->number.value) && a->number.integer == b->number.integer;
	if (a->kind == FORMULA_LIST)
		return same_list(a->items, b->items);
	if (a->kind == FORMULA_PREFIX)
		return a->operator== b->operator&& same_formula(a->operand, b->operand);
	const struct formula *f = a->arguments, *g = b->arguments;
	for (; a->kind == FORMULA_CALL && f && g; f = f->next, g = g->next)
		if (!same_formula(f, g))
			return false;
	return a->kind != FORMULA_CALL || (f == g && same_options(a->options, b->options));
}

static bool same_formula(const struct formula *a, const struct formula *b)
{
	if (!a || !b)
		return a == b;
	if (!same_first(a, b))
		return false;
	const struct application *f = a->first, *g = b->first;
	for (; f && g; f = f->next, g = g->next)
		if (f->operator!= g->operator|| !(f->operator== OPERATOR_INDEX ? same_index(f->index, g->index)
		                                                               : same_formula(f->operand, g->operand)))
			return false;
	return f == g;
}

static bool same_operands(const struct operand *a, const struct operand *b)
{
	for (; a && b; a = a->next, b = b->next) {
		if (a->kind != b->kind || a->index != b->index || a->number.integer != b->number.integer ||
		    !same_text(a->text, b->text) || !same_number(a->number.value, b->number.value))
			return false;
		if (a->kind == OPERAND_LIST      ? !same_list(a->list, b->list)
		    : a->kind == OPERAND_FORMULA ? !same_formula(a->formula, b->formula)
		                                 : a->kind == OPERAND_BLOCK && !same_block(a->block, b->block))
			return false;
	}
	return a == b;
}

static bool same_options(const struct option *a, const struct option *b)
{
	for (; a && b; a = a->next, b = b->next) {
		if (!same_text(a->name, b->name) || a->kind != b->kind || a->number.integer != b->number.integer ||
		    !same_number(a->number.value, b->number.value) || !same_text(a->text, b->text))
			return false;
		if (a->kind == VALUE_LIST ? !same_list(a->list, b->list)
		                          : a->kind == VALUE_FORMULA && !same_formula(a->formula, b->formula))
			return false;
	}
	return a == b;
}

static bool same_names(const struct name_list *a, const struct name_list *b)
{
	for (; a && b; a = a->next, b = b->next)
		if (strcmp(a->name, b->name) || !same_formula(a->formula, b->formula))
			return false;
	return a == b;
}

static bool same_declaration(const struct statement *a, const struct statement *b)
{
	if (!a->type || !b->type)
		return a->type == b->type;
	if (a->type->given != b->type->given || !type_equal(&a->type->type, &b->type->type))
		return false;
	const struct init *i = a->init, *j = b->init;
	if (i->kind != j->kind || i->count != j->count || !i->shape != !j->shape ||
	    (i->shape && !shape_equal(i->shape, j->shape)))
		return false;
	if (i->count && memcmp(i->values, j->values, i->count * sizeof *i->values))
		return false;
	return same_text(i->text, j->text) && same_text(i->path, j->path) && same_text(i->key, j->key);
}

static bool same_statement(const struct statement *a, const struct statement *b)
{
	return a->kind == b->kind && same_text(a->name, b->name) && a->count.value == b->count.value &&
	       same_formula(a->count.formula, b->count.formula) && same_formula(a->formula, b->formula) &&
	       same_names(a->names, b->names) && same_names(a->over, b->over) && same_declaration(a, b) &&
	       same_operands(a->operands, b->operands) && same_options(a->options, b->options) &&
	       same_block(a->block, b->block);
}

static bool same_block(const struct block *a, const struct block *b)
{
	if (!a || !b)
		return a == b;
	if (a->braced != b->braced)
		return false;
	const struct statement *s = a->first, *t = b->first;
	for (; s && t; s = s->next, t = t->next)
		if (!same_statement(s, t))
			return false;
	return s == t;
}

/* Formats P; requires that the text keeps the tree and the comments, and is its own canonical form. */
static void format_checked(const struct parsed *p, struct text *text)
{
	struct text again = {0};
	text_add(text, "");
	text_add(&again, "");
	syntax_format(&p->syntax, text_write, text);
	struct parsed *q = parse_good(text->bytes);
	ck_assert_msg(same_block(p->syntax.chain, q->syntax.chain), "another tree:\n%.*s\n----\n%s", (int)p->source.length,
	              p->source.text, text->bytes);
	syntax_format(&q->syntax, text_write, &again);
	ck_assert_str_eq(text->bytes, again.bytes);
	const struct comment *c = p->syntax.comments, *d = q->syntax.comments;
	for (; c && d; c = c->next, d = d->next)
		ck_assert_str_eq(c->text, d->text);
	ck_assert_ptr_null(c);
	ck_assert_ptr_null(d);
	done(q);
	free(again.bytes);
}

/* ---- productions ---- */

static const struct {
	const char *text, *dump; /* without "(chain" and its ")" */
} trees[] = {
	{"", ""},
	{";;\n\r\n;", ""},
	{"sin", "\n  (stage sin  1:1)"},
	{"\xef\xbb\xbfsin", "\n  (stage sin  1:1)"},
	{"sin\r\ncos", "\n  (stage sin  1:1)\n  (stage cos  2:1)"},
	{"sin;cos ; tanh\n", "\n  (stage sin  1:1)\n  (stage cos  1:5)\n  (stage tanh  1:11)"},
	{"# a\nsin # b\n", "\n  (stage sin  2:1)"},
	{"add 1", "\n  (stage add  1:1\n    (number 1  1:5))"},
	{"clip -1.5e-3 +2", "\n  (stage clip  1:1\n    (number -1.5e-3  1:6)\n    (number 2  1:14))"},
	{"add -inf; mul nan", "\n  (stage add  1:1\n    (number -inf  1:5))\n  (stage mul  1:11\n    (number nan  1:15))"},
	{"layer W b[3]", "\n  (stage layer  1:1\n    (operand W  1:7)\n    (operand b index 3  1:9))"},
	{"add b[-3]", "\n  (stage add  1:1\n    (operand b index -3  1:5))"},
	{"add (2*pi/3)", "\n  (stage add  1:1\n    (formula 2 * pi / 3  1:5))"},
	{"add { sin; mul 2 }", "\n  (stage add  1:1\n    (block  1:5\n      (stage sin  1:7)\n"
                           "      (stage mul  1:12\n        (number 2  1:16))))"},
	{"softmax axis=-1", "\n  (stage softmax  1:1\n    (option axis -1  1:9))"},
	{"a b=c d=\"e\\n\" f=true g=[] h=[1, -2]",
     "\n  (stage a  1:1\n    (option b c  1:3)\n    (option d \"e\\n\"  1:7)\n    (option f true  1:15)\n"
     "    (option g []  1:22)\n    (option h [1, -2]  1:27))"},
	{"a b = 1", "\n  (stage a  1:1\n    (option b 1  1:3))"},
	{"name h1", "\n  (name h1  1:1)"},
	{"repeat 3 sin", "\n  (repeat 3  1:1\n    (block  1:10\n      (stage sin  1:10)))"},
	{"repeat 0 { }", "\n  (repeat 0  1:1\n    (block  1:10))"},
	{"repeat 2 name a", "\n  (repeat 2  1:1\n    (block  1:10\n      (name a  1:10)))"},
	{"for w, c in Ws, bs { add w }",
     "\n  (for  1:1\n    (variable w  1:5)\n    (variable c  1:8)\n    (over Ws  1:13)\n"
     "    (over bs  1:17)\n    (block  1:20\n      (stage add  1:22\n"
     "        (operand w  1:26))))"},
	{"checkpoint {}", "\n  (checkpoint  1:1\n    (block  1:12))"},
	{"checkpoint policy=dots {\nsin\n}",
     "\n  (checkpoint  1:1\n    (option policy dots  1:12)\n    (block  1:24\n      (stage sin  2:1)))"},
	{"def f() { sin }", "\n  (def f  1:1\n    (block  1:9\n      (stage sin  1:11)))"},
	{"def f(W,\n b) {}", "\n  (def f  1:1\n    (variable W  1:7)\n    (variable b  2:2)\n    (block  2:5))"},
	{"input x", "\n  (input x  1:1)"},
	{"input x: f32[*,256]", "\n  (input x  1:1\n    (type f32[*,256]  1:10))"},
	{"param W: bf16[]", "\n  (param W  1:1\n    (type bf16[]  1:10))"},
	{"const a = zeros", "\n  (const a  1:1\n    (init zeros  1:11))"},
	{"param a: i64[2] = full ( -2.5 )", "\n  (param a  1:1\n    (type i64[2]  1:10)\n    (init full(-2.5)  1:19))"},
	{"param a = load(\"w\", \"k\")", "\n  (param a  1:1\n    (init load \"w\" \"k\"  1:11))"},
	{"const a = [ [ 1,2 ],\n[3,-4] ]", "\n  (const a  1:1\n    (init [[1, 2], [3, -4]]  1:11))"},
};

START_TEST(productions)
{
	struct text dump = {0}, wanted = {0}, formatted = {0};
	struct parsed *p = parse_good(trees[_i].text);
	syntax_dump(&p->syntax, text_write, &dump);
	text_add(&wanted, "(chain");
	text_add(&wanted, trees[_i].dump);
	text_add(&wanted, ")\n");
	if (strstr(trees[_i].text, "f32[*,256]")) /* however `*` is printed */
		ck_assert_ptr_nonnull(strstr(dump.bytes, "256]"));
	else
		ck_assert_str_eq(dump.bytes, wanted.bytes);
	format_checked(p, &formatted);
	done(p);
	free(dump.bytes);
	free(wanted.bytes);
	free(formatted.bytes);
}
END_TEST

START_TEST(number_values)
{
	static const struct {
		const char *text;
		double value;
		bool integer;
	} rows[] = {
		{"0", 0, true},
		{"007", 7, true},
		{"-3", -3, true},
		{"1.", 1, false},
		{".5", .5, false},
		{"1e3", 1000, true},
		{"-1E-2", -.01, false},
		{"1.5e+2", 150, false},
		{"0.1", 0.1, false},
		{"1e-400", 0, false},
		{"4.9e-324", 4.9406564584124654e-324, false},
		{"1.7976931348623157e308", 1.7976931348623157e308, false},
		{"9007199254740993", 9007199254740992.0, true},
		{"9223372036854775807", 9223372036854775807.0, true},
		{"-9223372036854775808", -9223372036854775808.0, true},
		{"9223372036854775808", 9223372036854775808.0, false},
		{"18446744073709551616", 18446744073709551616.0, false},
		{"inf", INFINITY, false},
		{"-inf", -INFINITY, false},
		{"-0.0", -0.0, false},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[80];
		snprintf(text, sizeof text, "add %s axis=%s", rows[i].text, rows[i].text);
		struct parsed *p = parse_good(text);
		const struct statement *s = first_of(p);
		ck_assert_int_eq(s->operands->kind, OPERAND_NUMBER);
		ck_assert_msg(same_number(s->operands->number.value, rows[i].value), "%s is read as %.17g", text,
		              s->operands->number.value);
		ck_assert_msg(s->operands->number.integer == rows[i].integer, "%s", text);
		ck_assert_int_eq(s->options->kind, VALUE_NUMBER);
		ck_assert(same_number(s->options->number.value, rows[i].value));
		ck_assert(s->options->number.integer == rows[i].integer);
		ck_assert_str_eq(s->operands->text, rows[i].text);
		done(p);
	}
	struct parsed *p = parse_good("add nan");
	ck_assert(isnan(first_of(p)->operands->number.value));
	done(p);
}
END_TEST

/* The oracle of formulas of numbers: C's arithmetic. */
static double value_of(const struct formula *f)
{
	double constant, value = f->kind == FORMULA_NUMBER ? f->number.value : NAN;
	if (f->kind == FORMULA_NAME && number_constant(f->text, &constant))
		value = constant;
	if (f->kind == FORMULA_PREFIX)
		number_compute(f->operator, value, value_of(f->operand), &value);
	for (const struct application *a = f->first; a; a = a->next)
		ck_assert(number_compute(a->operator, value, value_of(a->operand), &value));
	return value;
}

START_TEST(constant_expressions)
{
	const double pi = acos(-1), e = exp(1);
	const struct {
		const char *text, *canonical;
		double value;
	} rows[] = {
		{"(1)", "1", 1},
		{"(7%4)", "(7 % 4)", 3},
		{"(-7 % 4)", "(-7 % 4)", 1},
		{"(7 % -4)", "(7 % -4)", -1},
		{"(1 < 2)", "(1 < 2)", 1},
		{"(1 >= 2 or 3 != 3)", "(1 >= 2 or 3 != 3)", 0},
		{"(not (1 == 2) and 5)", "(not 1 == 2 and 5)", 1},
		{"((not 1) == 0)", "((not 1) == 0)", 1},
		{"(2**3**2)", "(2^3^2)", 512},
		{"((2^3)^2)", "((2^3)^2)", 64},
		{"(2^(-1))", "(2^-1)", .5},
		{"((((1+2)))*(3*4))", "((1 + 2) * (3 * 4))", 36},
		{"(1-(2-3))", "(1 - (2 - 3))", 2},
		{"(1-(2*3))", "(1 - 2 * 3)", -5},
		{"(-(2+3))", "(-(2 + 3))", -5},
		{"(-(2^2))", "(-2^2)", -4},
		{"( 2*pi/3 )", "(2 * pi / 3)", 2 * pi / 3},
		{"(2*pi/3)", "(2 * pi / 3)", 2 * pi / 3},
		{"((2*pi/3)^2)", "((2 * pi / 3)^2)", pow(2 * pi / 3, 2)},
		{"(2^3^2)", "(2^3^2)", 512},
		{"(-2^2)", "(-2^2)", -4},
		{"((-2)^2)", "((-2)^2)", 4},
		{"(2^-1*4)", "(2^-1 * 4)", 2},
		{"(2 - - 3)", "(2 - -3)", 5},
		{"(- -3)", "(--3)", 3},
		{"(1-2-3)", "(1 - 2 - 3)", -4},
		{"(8/4/2)", "(8 / 4 / 2)", 1},
		{"(1+2*3)", "(1 + 2 * 3)", 7},
		{"(-1*-2)", "(-1 * -2)", 2},
		{"(-1+5)", "(-1 + 5)", 4},
		{"(e-1)", "(e - 1)", e - 1},
		{"(2*e-1e-5)", "(2 * e - 1e-5)", 2 * e - 1e-5},
		{"(1.e-5+2.5E+3-.5e-1)", "(1.e-5 + 2.5E+3 - .5e-1)", 1.e-5 + 2.5E+3 - .5e-1},
		{"(1 # one\n + # two\r\n 2)", "(1 + 2)", 3},
		{"(1/0)", "(1 / 0)", INFINITY},
		{"(-inf)", "-inf", -INFINITY},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct text text = {0};
		text_add(&text, "add ");
		text_add(&text, rows[i].text);
		struct parsed *p = parse_good(text.bytes);
		const struct operand *o = first_of(p)->operands;
		const double near = 4e-16 * fabs(rows[i].value);
		const double value = o->kind == OPERAND_NUMBER ? o->number.value : value_of(o->formula);
		ck_assert_msg(value == rows[i].value || fabs(value - rows[i].value) <= near, "%s is %.17g", rows[i].text,
		              value);
		ck_assert_ptr_null(o->next);
		struct text formatted = {0}, wanted = {0};
		format_checked(p, &formatted);
		text_add(&wanted, strchr(rows[i].text, '#') ? "# one\n# two\nadd " : "add ");
		text_add(&wanted, rows[i].canonical);
		text_add(&wanted, "\n");
		ck_assert_str_eq(formatted.bytes, wanted.bytes);
		free(wanted.bytes);
		free(formatted.bytes);
		done(p);
		free(text.bytes);
	}
}
END_TEST

START_TEST(initial_values)
{
	static const struct {
		const char *text;
		enum init_kind kind;
		int ndim;
		int64_t dim[3];
		size_t count;
		double values[4];
		const char *canonical;
	} rows[] = {
		{"3", INIT_NUMBER, 0, {0}, 1, {3}, "3"},
		{"-1e-5", INIT_NUMBER, 0, {0}, 1, {-1e-5}, "-1e-5"},
		{"(2*4)", INIT_NUMBER, 0, {0}, 1, {8}, "(2 * 4)"},
		{"[]", INIT_LIST, 1, {0}, 0, {0}, "[]"},
		{"[1,2]", INIT_LIST, 1, {2}, 2, {1, 2}, "[1, 2]"},
		{"[[0.5, 1], [1, -2]]", INIT_LIST, 2, {2, 2}, 4, {.5, 1, 1, -2}, "[[0.5, 1], [1, -2]]"},
		{"[[[1]],[[2]],[[3]]]", INIT_LIST, 3, {3, 1, 1}, 3, {1, 2, 3}, "[[[1]], [[2]], [[3]]]"},
		{"[[],[]]", INIT_LIST, 2, {2, 0}, 0, {0}, "[[], []]"},
		{"[2*3, -inf]", INIT_LIST, 1, {2}, 2, {6, -INFINITY}, "[2 * 3, -inf]"},
		{"zeros", INIT_ZEROS, 0, {0}, 0, {0}, "zeros"},
		{"ones", INIT_ONES, 0, {0}, 0, {0}, "ones"},
		{"eye", INIT_EYE, 0, {0}, 0, {0}, "eye"},
		{"tril", INIT_TRIL, 0, {0}, 0, {0}, "tril"},
		{"triu", INIT_TRIU, 0, {0}, 0, {0}, "triu"},
		{"arange", INIT_ARANGE, 0, {0}, 0, {0}, "arange"},
		{"arange(0.5,-2)", INIT_ARANGE, 0, {0}, 2, {0.5, -2}, "arange(0.5, -2)"},
		{"full(2)", INIT_FULL, 0, {0}, 1, {2}, "full(2)"},
		{"full(1/4)", INIT_FULL, 0, {0}, 1, {.25}, "full(1 / 4)"},
		{"normal(0.1,7)", INIT_NORMAL, 0, {0}, 2, {.1, 7}, "normal(0.1, 7)"},
		{"uniform(-1,1,3)", INIT_UNIFORM, 0, {0}, 3, {-1, 1, 3}, "uniform(-1, 1, 3)"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct text text = {0};
		text_add(&text, "param W = ");
		text_add(&text, rows[i].text);
		struct parsed *p = parse_good(text.bytes);
		const struct statement *s = first_of(p);
		ck_assert_int_eq(s->kind, STATEMENT_PARAM);
		ck_assert(!s->type->given);
		ck_assert_int_eq(s->init->kind, rows[i].kind);
		ck_assert_int_eq(s->init->shape ? s->init->shape->ndim : 0, rows[i].ndim);
		for (int d = 0; d < rows[i].ndim; d++)
			ck_assert_int_eq(s->init->shape->dim[d], rows[i].dim[d]);
		ck_assert_uint_eq(s->init->count, rows[i].count);
		for (size_t v = 0; v < rows[i].count; v++) {
			double value = s->init->values[v];
			for (size_t f = 0; f < s->init->formula_count; f++)
				value = s->init->formulas[f].at == v ? value_of(s->init->formulas[f].formula) : value;
			ck_assert_msg(value == rows[i].values[v], "%s: value %zu is %g", rows[i].text, v, value);
		}
		ck_assert_str_eq(s->init->text, rows[i].canonical);
		done(p);
		free(text.bytes);
	}
}
END_TEST

START_TEST(declared_types)
{
	static const char *const names[] = {"f16", "bf16", "f32", "f64", "i32", "i64", "bool"};
	static const enum dtype dtypes[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F64, DTYPE_I32, DTYPE_I64, DTYPE_BOOL};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char text[80];
		snprintf(text, sizeof text, "input y : %s [ * , 9223372036854775807 ,\n 3 ]", names[i]);
		struct parsed *p = parse_good(text);
		const struct declared *type = first_of(p)->type;
		ck_assert(type->given);
		ck_assert_int_eq(type->type.dtype, dtypes[i]);
		ck_assert_int_eq(type->type.shape.ndim, 3);
		ck_assert_int_eq(type->type.shape.dim[0], -1);
		ck_assert_int_eq(type->type.shape.dim[1], INT64_MAX);
		ck_assert_int_eq(type->type.shape.dim[2], 3);
		struct text formatted = {0};
		format_checked(p, &formatted);
		snprintf(text, sizeof text, "input y: %s[*,9223372036854775807,3]\n", names[i]);
		ck_assert_str_eq(formatted.bytes, text);
		free(formatted.bytes);
		done(p);
	}
}
END_TEST

START_TEST(strings)
{
	struct parsed *p = parse_good("checkpoint policy=\"a\\\"\\\\\\n\\t\\x01\\xc3\\xa9 \xc3\xa9#;{\" {}");
	const struct option *o = first_of(p)->options;
	ck_assert_int_eq(o->kind, VALUE_STRING);
	ck_assert_str_eq(o->text, "a\"\\\n\t\x01\xc3\xa9 \xc3\xa9#;{");
	struct text formatted = {0};
	format_checked(p, &formatted);
	free(formatted.bytes);
	done(p);
	/* A string, a comment and a word longer than any buffer that a scanner might keep. */
	struct text text = {0};
	text_add(&text, "add a=\"");
	text_repeat(&text, "\\x41", 100000);
	text_add(&text, "\" #");
	text_repeat(&text, "c", 100000);
	text_add(&text, "\n");
	text_repeat(&text, "w", 100000);
	p = parse_good(text.bytes);
	ck_assert_uint_eq(strlen(first_of(p)->options->text), 100000);
	ck_assert_uint_eq(strlen(p->syntax.comments->text), 100001);
	ck_assert_uint_eq(strlen(first_of(p)->next->name), 100000);
	done(p);
	free(text.bytes);
}
END_TEST

/* Statement words are reserved only where a statement begins and as names of defs, the others nowhere. */
START_TEST(words)
{
	static const char *const all[] = {"input",  "param",      "const", "def",   "name", "repeat", "for",
	                                  "in",     "checkpoint", "load",  "zeros", "ones", "eye",    "full",
	                                  "normal", "uniform",    "true",  "e",     "pi"};
	static const char *const uses[] = {"add %s",           "add %s[2]",       "add 1 %s=3",
	                                   "add a=%s",         "name %s",         "input %s",
	                                   "param %s: f32[]",  "const %s = 1",    "def f(%s) { }",
	                                   "for %s in %s { }", "repeat 2 add %s", "def f(%s, b) { add %s }"};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (size_t j = 0; j < sizeof uses / sizeof *uses; j++) {
			char text[120];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(text, sizeof text, uses[j], all[i], all[i]);
#pragma GCC diagnostic pop
			struct text formatted = {0};
			struct parsed *p = parse_good(text);
			format_checked(p, &formatted);
			done(p);
			free(formatted.bytes);
		}
	struct parsed *p = parse_good("in; e; load 3; zeros true; uniform");
	ck_assert_str_eq(first_of(p)->name, "in");
	done(p);
}
END_TEST

START_TEST(places)
{
	const char *text = "  sin ; add {\n\tmul (1 +\n 2) axis = [1,\n2]\n} # c\nparam W: f32[2] = [1, 2]\n";
	struct parsed *p = parse_good(text);
	const struct statement *s = first_of(p);
	static const char *const slices[] = {"sin", "add {\n\tmul (1 +\n 2) axis = [1,\n2]\n}", "param W: f32[2] = [1, 2]"};
	static const uint32_t lines[] = {1, 1, 6}, columns[] = {3, 9, 1};
	for (int i = 0; i < 3; i++, s = s->next) {
		ck_assert_uint_eq(s->span.end - s->span.begin, strlen(slices[i]));
		ck_assert(!strncmp(text + s->span.begin, slices[i], strlen(slices[i])));
		ck_assert_uint_eq(s->span.line, lines[i]);
		ck_assert_uint_eq(s->span.column, columns[i]);
	}
	s = first_of(p)->next;
	ck_assert_uint_eq(s->name_span.end - s->name_span.begin, 3);
	const struct operand *block = s->operands;
	ck_assert_uint_eq(block->span.begin, block->block->span.begin);
	ck_assert_uint_eq(text[block->span.end - 1], '}');
	const struct statement *mul = block->block->first;
	ck_assert_uint_eq(mul->span.line, 2);
	ck_assert_uint_eq(mul->span.column, 2);
	ck_assert(!strncmp(text + mul->operands->span.begin, "(1 +\n 2)", 8));
	ck_assert_uint_eq(mul->operands->span.end - mul->operands->span.begin, 8);
	ck_assert(!strncmp(text + mul->options->span.begin, "axis", 4));
	ck_assert(!strncmp(text + mul->options->value_span.begin, "[1,\n2]", 6));
	ck_assert_uint_eq(mul->options->value_span.end - mul->options->value_span.begin, 6);
	const struct statement *param = s->next;
	ck_assert_str_eq(param->name, "W");
	ck_assert_uint_eq(param->name_span.column, 7);
	ck_assert_uint_eq(param->type->span.column, 10);
	ck_assert_uint_eq(param->type->span.end - param->type->span.begin, 6);
	ck_assert_uint_eq(param->init->span.column, 19);
	ck_assert_uint_eq(p->syntax.comments->line, 5);
	done(p);
	/* A byte-order mark is not a column. */
	p = parse_good("\xef\xbb\xbfsin");
	ck_assert_uint_eq(first_of(p)->span.column, 1);
	ck_assert_uint_eq(first_of(p)->span.begin, 3);
	done(p);
}
END_TEST

/* ---- errors ---- */

#define END "the end of the statement"
static const struct {
	const char *text;
	size_t length; /* 0: up to the NUL */
	enum status status;
	uint32_t line, column, width;
	const char *message, *hint;
} errors[] = {
	{"repeat 2 { sin", 0, STATUS_CHAIN, 1, 15, 0,
     "syntax error: the chain ends too early, expected an operand, " END ", an option or '}'",
     "the '{' at 1:10 is still open"},
	{"add {\n add (1 }", 0, STATUS_CHAIN, 2, 9, 1, "syntax error: unexpected '}', expected an operator or ')'",
     "the '(' at 2:6 is still open"},
	{"repeat 2 repeat 3 add {", 0, STATUS_CHAIN, 1, 24, 0,
     "syntax error: the chain ends too early, expected an operation or another statement or '}'",
     "the '{' at 1:23 is still open"},
	{"sin\n}", 0, STATUS_CHAIN, 2, 1, 1, "syntax error: unexpected '}', expected an operation or another statement",
     "no '{' is open here"},
	{"add 1)", 0, STATUS_CHAIN, 1, 6, 1, "syntax error: unexpected ')', expected an operand, " END " or an option",
     NULL},
	{"3 add", 0, STATUS_CHAIN, 1, 1, 1, "syntax error: unexpected '3', expected an operation or another statement",
     "a stage begins with its operation, as in mul 2"},
	{"sin = 3", 0, STATUS_CHAIN, 1, 5, 1, "syntax error: unexpected '=', expected an operand, " END " or an option",
     "a name is given to a value by let, as in let sin = 3"},
	{"softmax axis=1 3", 0, STATUS_CHAIN, 1, 16, 1, "syntax error: unexpected '3', expected " END " or an option",
     "operands come before options"},
	{"add a=1 {}", 0, STATUS_CHAIN, 1, 9, 1, "syntax error: unexpected '{', expected " END " or an option",
     "operands come before options"},
	{"add a=1 W", 0, STATUS_CHAIN, 1, 9, 1, "syntax error: unexpected 'W', expected " END " or an option",
     "operands come before options"},
	{"add a=1 -2", 0, STATUS_CHAIN, 1, 9, 1, "syntax error: unexpected '-', expected " END " or an option",
     "operands come before options"},
	{"softmax axis=\n", 0, STATUS_CHAIN, 1, 14, 1, "syntax error: the line ends too early, expected a value", NULL},
	{"checkpoint policy=names:a { }", 0, STATUS_CHAIN, 1, 24, 1,
     "syntax error: unexpected ':', expected an option or '{'",
     "a value other than a name or a number is quoted, as in policy=\"names:a,b\""},
	{"checkpoint policy=names-but:a { }", 0, STATUS_CHAIN, 1, 28, 1,
     "syntax error: unexpected ':', expected an option or '{'",
     "a value other than a name or a number is quoted, as in policy=\"names:a,b\""},
	{"checkpoint policy=dots- { }", 0, STATUS_CHAIN, 1, 25, 1, "syntax error: unexpected '{', expected a name", NULL},
	{"checkpoint sin", 0, STATUS_CHAIN, 1, 12, 3, "syntax error: unexpected 'sin', expected an option or '{'",
     "checkpoint and fixed_point take a block, as in checkpoint { sin }"},
	{"mul x[", 0, STATUS_CHAIN, 1, 7, 0, "syntax error: the chain ends too early, expected a formula, '...' or ':'",
     "the '[' at 1:6 is still open"},
	{"mul x[1, ..., 2, ...]", 0, STATUS_CHAIN, 1, 18, 3, "an index has one '...' at most", NULL},
	{"repeat x", 0, STATUS_CHAIN, 1, 9, 0, "syntax error: the chain ends too early, expected an operation, 'as' or '{'",
     NULL},
	{"repeat 2", 0, STATUS_CHAIN, 1, 9, 0, "syntax error: the chain ends too early, expected an operation, 'as' or '{'",
     NULL},
	{"repeat 2\nsin", 0, STATUS_CHAIN, 1, 9, 1,
     "syntax error: the line ends too early, expected an operation, 'as' or '{'", NULL},
	{"repeat 2 input y", 0, STATUS_CHAIN, 1, 10, 5,
     "syntax error: unexpected 'input', expected an operation, 'as' or '{'", NULL},
	{"repeat 1e30 sin", 0, STATUS_CHAIN, 1, 8, 4, "'1e30' is not an integer that fits in 64 bits", NULL},
	{"repeat inf { }", 0, STATUS_CHAIN, 1, 8, 3, "'inf' is not an integer", NULL},
	{"let and = 1", 0, STATUS_CHAIN, 1, 5, 3, "'and' is a word of formulas and can't be a name there", NULL},
	{"let a = 1 < 2 < 3", 0, STATUS_CHAIN, 1, 15, 1, "comparisons do not chain", "write (1 < 2) and (2 < ...)"},
	{"let a = (b c)", 0, STATUS_CHAIN, 1, 12, 1, "syntax error: unexpected 'c', expected an operator, '(' or ')'",
     "an operator is missing between 'b' and 'c'"},
	{"let a = (b = c)", 0, STATUS_CHAIN, 1, 12, 1, "syntax error: unexpected '=', expected an operator",
     "a comparison is written =="},
	{"let a = b +\nc", 0, STATUS_CHAIN, 1, 12, 1, "syntax error: the line ends too early, expected a formula",
     "within ( ) a formula goes on in the next line"},
	{"let a = f(b=1, c)", 0, STATUS_CHAIN, 1, 16, 1, "an argument by place after one by name",
     "arguments by name come last; a comparison is written =="},
	{"let a = b && c", 0, STATUS_CHAIN, 1, 11, 2, "syntax error: '&&' is no operator", "it is written `and`"},
	{"let a = b || c", 0, STATUS_CHAIN, 1, 11, 2, "syntax error: '||' is no operator", "it is written `or`"},
	{"let a = !b", 0, STATUS_CHAIN, 1, 9, 1, "syntax error: '!' is no operator", "it is written `not`"},
	{"pad axes=[1", 0, STATUS_CHAIN, 1, 12, 0,
     "syntax error: the chain ends too early, expected an operator, ',' or ']'", "the '[' at 1:10 is still open"},
	{"{ sin }", 0, STATUS_CHAIN, 1, 1, 1, "syntax error: unexpected '{', expected an operation or another statement",
     NULL},
	{"add { sin } {", 0, STATUS_CHAIN, 1, 14, 0,
     "syntax error: the chain ends too early, expected an operation or another statement or '}'",
     "the '{' at 1:13 is still open"},
	{"repeat 2 { sin } cos", 0, STATUS_CHAIN, 1, 18, 3, "syntax error: unexpected 'cos', expected " END, NULL},
	{"name", 0, STATUS_CHAIN, 1, 5, 0, "syntax error: the chain ends too early, expected a name", NULL},
	{"name a b", 0, STATUS_CHAIN, 1, 8, 1, "syntax error: unexpected 'b', expected " END, NULL},
	{"def f { }", 0, STATUS_CHAIN, 1, 7, 1, "syntax error: unexpected '{', expected '('",
     "a def without operands has empty parentheses, as in def half() { mul 0.5 }"},
	{"def f(a,) { }", 0, STATUS_CHAIN, 1, 9, 1, "syntax error: unexpected ')', expected a name", NULL},
	{"def f() sin", 0, STATUS_CHAIN, 1, 9, 3, "syntax error: unexpected 'sin', expected '{'", NULL},
	{"for a, b of c { }", 0, STATUS_CHAIN, 1, 10, 2, "syntax error: unexpected 'of', expected 'in' or ','", NULL},
	{"for a in { }", 0, STATUS_CHAIN, 1, 10, 1, "syntax error: unexpected '{', expected a formula", NULL},
	{"input x: [3]", 0, STATUS_CHAIN, 1, 10, 1, "syntax error: unexpected '[', expected a type such as f32[*,256]",
     NULL},
	{"input x = 3", 0, STATUS_CHAIN, 1, 9, 1, "syntax error: unexpected '=', expected " END " or ':'", NULL},
	{"param W: f32 = 3", 0, STATUS_CHAIN, 1, 14, 1, "syntax error: unexpected '=', expected '['",
     "a type has extents, as in f32[4,2]; f32[] is 0-d"},
	{"param W: f33[2]", 0, STATUS_CHAIN, 1, 10, 3, "unknown type 'f33'", "did you mean 'f32'?"},
	{"param W: quaternion[2]", 0, STATUS_CHAIN, 1, 10, 10, "unknown type 'quaternion'",
     "types are f16, bf16, f32, f64, i32, i64 and bool"},
	{"param W: u8[2]", 0, STATUS_CHAIN, 1, 10, 2, "unknown type 'u8'",
     "types are f16, bf16, f32, f64, i32, i64 and bool"},
	{"param W: f32[*]", 0, STATUS_CHAIN, 1, 10, 6, "only the input has a streamed axis '*'",
     "give W's extent as a number"},
	{"input x: f32[2,*]", 0, STATUS_CHAIN, 1, 16, 1, "only the first axis can be streamed with '*'", NULL},
	{"input x: f32[2.5]", 0, STATUS_CHAIN, 1, 14, 3, "'2.5' is not an integer", NULL},
	{"input x: f32[-1]", 0, STATUS_CHAIN, 1, 14, 2, "an extent is not negative", NULL},
	{"param b =", 0, STATUS_CHAIN, 1, 10, 0, "syntax error: the chain ends too early, expected an initial value", NULL},
	{"param b = zeroes", 0, STATUS_CHAIN, 1, 11, 6, "unknown initial value 'zeroes'", "did you mean 'zeros'?"},
	{"param b = NaN", 0, STATUS_CHAIN, 1, 11, 3, "unknown initial value 'NaN'", "the number is written nan"},
	{"param b = rand", 0, STATUS_CHAIN, 1, 11, 4, "unknown initial value 'rand'",
     "it is a number, a list, load(\"FILE\"), zeros, ones, eye, tril, triu, arange, full, normal or uniform"},
	{"param b = pi", 0, STATUS_CHAIN, 1, 11, 2, "unknown initial value 'pi'",
     "a constant expression is written in parentheses: (pi)"},
	{"param b = something", 0, STATUS_CHAIN, 1, 11, 9, "unknown initial value 'something'",
     "it is a number, a list, load(\"FILE\"), zeros, ones, eye, tril, triu, arange, full, normal or uniform"},
	{"param b = full", 0, STATUS_CHAIN, 1, 11, 4, "'full' is written full(v)", NULL},
	{"param b = normal(1)", 0, STATUS_CHAIN, 1, 11, 9, "'normal' is written normal(std, seed)", NULL},
	{"param b = uniform([1, 2, 3])", 0, STATUS_CHAIN, 1, 11, 18, "'uniform' is written uniform(lo, hi, seed)", NULL},
	{"param b = zeros(\"f\")", 0, STATUS_CHAIN, 1, 11, 10, "'zeros' is written zeros", NULL},
	{"param b = load(3)", 0, STATUS_CHAIN, 1, 11, 7, "'load' is written load(\"FILE\") or load(\"FILE\", \"key\")",
     NULL},
	{"param b = [1, [2]]", 0, STATUS_CHAIN, 1, 15, 3, "a ragged list: an element of shape [1] after one of shape []",
     NULL},
	{"param b = [[1], 2]", 0, STATUS_CHAIN, 1, 17, 1, "a ragged list: an element of shape [] after one of shape [1]",
     NULL},
	{"param b = [[1],[2,3]]", 0, STATUS_CHAIN, 1, 16, 5,
     "a ragged list: an element of shape [2] after one of shape [1]", NULL},
	{"add (1 + )", 0, STATUS_CHAIN, 1, 10, 1, "syntax error: unexpected ')', expected a formula", NULL},
	{"add (1 2)", 0, STATUS_CHAIN, 1, 8, 1, "syntax error: unexpected '2', expected an operator or ')'",
     "an operator is missing between '1' and '2'"},
	{"add ()", 0, STATUS_CHAIN, 1, 6, 1, "syntax error: unexpected ')', expected a formula",
     "an operation is written without parentheses, as in tanh, add W and sum axis=0"},
	{"add 1e999", 0, STATUS_CHAIN, 1, 5, 5, "syntax error: the number is beyond the range of f64", NULL},
	{"add 2x", 0, STATUS_CHAIN, 1, 5, 2, "syntax error: a number runs into what follows it", NULL},
	{"add 0x10", 0, STATUS_CHAIN, 1, 5, 4, "syntax error: a number runs into what follows it", NULL},
	{"add 1.2.3", 0, STATUS_CHAIN, 1, 5, 5, "syntax error: a number runs into what follows it", NULL},
	{"add a=\"bc\nsin", 0, STATUS_CHAIN, 1, 7, 3, "syntax error: a string does not end on its line", NULL},
	{"add a=\"bc\\", 0, STATUS_CHAIN, 1, 7, 3, "syntax error: a string does not end on its line", NULL},
	{"add a=\"b\\q\"", 0, STATUS_CHAIN, 1, 9, 2,
     "syntax error: an escape is one of \\\" \\\\ \\n \\t and \\xNN (not \\x00)", NULL},
	{"add a=\"\\x4\"", 0, STATUS_CHAIN, 1, 8, 2,
     "syntax error: an escape is one of \\\" \\\\ \\n \\t and \\xNN (not \\x00)", NULL},
	{"add a=\"\\x00\"", 0, STATUS_CHAIN, 1, 8, 2,
     "syntax error: an escape is one of \\\" \\\\ \\n \\t and \\xNN (not \\x00)", NULL},
	{"add $", 0, STATUS_CHAIN, 1, 5, 1, "syntax error: unexpected character '$'", NULL},
	{"caf\xc3\xa9", 0, STATUS_CHAIN, 1, 4, 1, "syntax error: unexpected byte 0xc3", NULL},
	{"sin\xef\xbb\xbf", 0, STATUS_CHAIN, 1, 4, 3, "syntax error: unexpected byte 0xef", NULL},
	{"sin\0cos", 7, STATUS_CHAIN, 1, 4, 1, "syntax error: unexpected byte 0x00", NULL},
	{"sin # a\0b", 9, STATUS_CHAIN, 1, 8, 1, "syntax error: unexpected byte 0x00", NULL},
	{"add a=\"b\0c\"", 11, STATUS_CHAIN, 1, 9, 1, "syntax error: unexpected byte 0x00", NULL},
	{"add a=\"b\\\0c\"", 12, STATUS_CHAIN, 1, 10, 1, "syntax error: unexpected byte 0x00", NULL},
	{"sin\r\n\r\ncos ]", 0, STATUS_CHAIN, 3, 5, 1,
     "syntax error: unexpected ']', expected an operand, " END " or an option", NULL},
	{"name a_name_that_is_a_great_deal_longer_than_forty_bytes another_name_that_is_a_great_deal_longer_than_that", 0,
     STATUS_CHAIN, 1, 58, 50, "syntax error: unexpected 'another_name_that_is_a_great_deal_longer'..., expected " END,
     NULL},
};

START_TEST(messages)
{
	size_t length = errors[_i].length ? errors[_i].length : strlen(errors[_i].text);
	struct parsed *p = parse_bytes(errors[_i].text, length, &allocator_system);
	ck_assert_msg(p->status == errors[_i].status, "'%s' gives %d", errors[_i].text, p->status);
	ck_assert_int_eq(p->diags.errors, 1);
	const struct diag *d = p->diags.first;
	ck_assert_str_eq(d->message, errors[_i].message);
	if (errors[_i].hint || d->hint)
		ck_assert_pstr_eq(d->hint, errors[_i].hint);
	ck_assert_msg(d->span.line == errors[_i].line && d->span.column == errors[_i].column, "'%s' is wrong at %u:%u",
	              errors[_i].text, d->span.line, d->span.column);
	ck_assert_uint_eq(d->span.end - d->span.begin, errors[_i].width);
	ck_assert_ptr_eq(d->source, &p->source);
	done(p);
}
END_TEST

/* ---- limits ---- */

/* BEFORE and AFTER repeated COUNT times around MIDDLE. */
static enum status nest(const char *head, const char *before, int count, const char *middle, const char *after,
                        uint32_t *column)
{
	struct text text = {0};
	text_add(&text, head);
	text_repeat(&text, before, count);
	text_add(&text, middle);
	text_repeat(&text, after, count);
	struct parsed *p = parse(text.bytes);
	enum status status = p->status;
	if (status) {
		ck_assert_int_eq(p->diags.errors, 1);
		ck_assert_str_eq(p->diags.first->message, "nesting deeper than 256");
		*column = p->diags.first->span.column;
	} else {
		struct text formatted = {0}, dump = {0};
		format_checked(p, &formatted);
		syntax_dump(&p->syntax, text_write, &dump);
		free(formatted.bytes);
		free(dump.bytes);
	}
	done(p);
	free(text.bytes);
	return status;
}

START_TEST(nesting)
{
	static const struct {
		const char *head, *before, *middle, *after;
		int levels;      /* that one BEFORE opens */
		uint32_t column; /* of the one too many */
	} rows[] = {
		{"", "repeat 2 {", "sin", "}", 1, 2561}, {"", "add {", "sin", "}", 1, 1285},
		{"", "add 1 W {", "", "}", 1, 2313},     {"", "checkpoint {sin;", "", "}", 1, 4108},
		{"", "def f(a) {", "", "}", 1, 2566},    {"", "for a in b {", "", "}", 1, 3084},
		{"", "repeat 2 ", "sin", "", 1, 2305},   {"", "repeat 2 add {", "sin", "}", 2, 1793},
		{"add ", "(", "1", ")", 1, 261},         {"add ", "(1+2*3^", "(1)", ")", 1, 0},
		{"add (1", "^2", ")", "", 1, 0},         {"add (", "-", "1)", "", 1, 0},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int most = 256 / rows[i].levels;
		bool mixed = strstr(rows[i].middle, "(1)") != NULL; /* one more bracket in the middle */
		uint32_t column = 0;
		for (int count = most - 2; count <= most - mixed; count++)
			ck_assert_msg(nest(rows[i].head, rows[i].before, count, rows[i].middle, rows[i].after, &column) ==
			                  STATUS_OK,
			              "%s %d times", rows[i].before, count);
		int beyond[] = {most - mixed + 1, 5000, 50000};
		for (int j = 0; j < 3; j++) {
			enum status status = nest(rows[i].head, rows[i].before, beyond[j], rows[i].middle, rows[i].after, &column);
			ck_assert_msg(status == STATUS_LIMIT, "%s %d times", rows[i].before, beyond[j]);
			if (rows[i].column)
				ck_assert_msg(column == rows[i].column, "%s is too deep at %u", rows[i].before, column);
		}
	}
}
END_TEST

/* The parser's own stack holds the worst mixture that the limits allow. */
START_TEST(deepest_mixture)
{
	struct text text = {0};
	text_repeat(&text, "sin; repeat 2 {", 255);
	text_add(&text, "add W (1+2*");
	text_repeat(&text, "3^-", 128);
	text_add(&text, "1)");
	text_repeat(&text, "}", 255);
	done(parse_good(text.bytes));
	text.length = 0;
	text_repeat(&text, "sin; repeat 2 {", 1);
	text_add(&text, "add W ");
	text_repeat(&text, "(1+2*3^", 254);
	text_add(&text, "-1");
	text_repeat(&text, ")", 254);
	text_add(&text, "}");
	done(parse_good(text.bytes));
	free(text.bytes);
}
END_TEST

START_TEST(dimensions)
{
	struct text text = {0};
	text_add(&text, "param a: f32[1");
	text_repeat(&text, ",1", 31);
	text_add(&text, "] = ");
	text_repeat(&text, "[", 32);
	text_repeat(&text, "]", 32);
	struct parsed *p = parse_good(text.bytes);
	ck_assert_int_eq(first_of(p)->init->shape->ndim, 32);
	ck_assert_int_eq(first_of(p)->type->type.shape.ndim, 32);
	done(p);
	text.length = 0;
	text_add(&text, "param a: f32[1");
	text_repeat(&text, ",1", 32);
	text_add(&text, "]");
	p = parse(text.bytes);
	ck_assert_int_eq(p->status, STATUS_LIMIT);
	ck_assert_str_eq(p->diags.first->message, "more than 32 dimensions");
	ck_assert_uint_eq(p->diags.first->span.column, 78);
	done(p);
	text.length = 0;
	text_add(&text, "param a = ");
	text_repeat(&text, "[", 33);
	text_repeat(&text, "]", 33);
	p = parse(text.bytes);
	ck_assert_int_eq(p->status, STATUS_LIMIT);
	ck_assert_str_eq(p->diags.first->message, "more than 32 dimensions");
	done(p);
	free(text.bytes);
}
END_TEST

START_TEST(source_length)
{
	size_t most = 16u << 20;
	char *text = malloc(most + 1);
	ck_assert_ptr_nonnull(text);
	memset(text, ' ', most + 1);
	memcpy(text + most - 3, "sin", 3);
	struct parsed *p = parse_bytes(text, most, &allocator_system);
	ck_assert_int_eq(p->status, STATUS_OK);
	ck_assert_str_eq(first_of(p)->name, "sin");
	ck_assert_uint_eq(first_of(p)->span.column, most - 2);
	done(p);
	p = parse_bytes(text, most + 1, &allocator_system);
	ck_assert_int_eq(p->status, STATUS_LIMIT);
	ck_assert_str_eq(p->diags.first->message, "a chain of 16777217 bytes is beyond the limit of 16 MiB");
	done(p);
	free(text);
}
END_TEST

/* ---- memory ---- */

static const char everything[] =
	"# c\ninput x: f32[*,2]\nparam W: f32[2,2] = [[1, 2], [3, (4)]] # d\nconst k = load(\"a\\n\", \"b\")\n"
	"param n = normal(0.1, 3)\ndef f(a, b) { matmul a; add b }\nf W k[1]; name h\nrepeat 3 repeat 2 sin\n"
	"add { mul (2*pi^-2) axis=[1,2,3,4,5,6,7,8,9] m=\"s\" t=true q=z }\nfor a, b in c, d { add a }\n"
	"checkpoint policy=dots { tanh }\n"
	"param V: f32[n,2*n] = [n, 2]\nlet y = f(-h * k[1:, ..., 0], [1, n + 1], a=where(h < 1, 2), b=\"s\")\n"
	"repeat (n + 1) { use (not . or y) }\ndef g() { export (y @ k) as z }\n";

/* Every request fails once, for each of many sizes of source, so that all of them are met. */
START_TEST(allocation_fails)
{
	struct text text = {0};
	int failures = 0;
	for (int copies = 1; copies <= 12; copies++) {
		text_add(&text, everything);
		if (copies == 12)
			text_add(&text, "}"); /* and a message */
		for (size_t n = 1;; n++) {
			struct failing counted = {.fail_at = n, .on = true};
			const struct allocator allocator = failing_allocator(&counted);
			struct parsed *p = parse_bytes(text.bytes, text.length, &allocator);
			bool failed = p->arena.failed;
			if (failed) {
				failures++;
				ck_assert_int_eq(p->status, STATUS_LIMIT);
				ck_assert(p->diags.exhausted);
			} else {
				ck_assert_int_eq(p->status, copies == 12 ? STATUS_CHAIN : STATUS_OK);
			}
			done(p);
			ck_assert_uint_eq(counted.live, 0);
			if (!failed)
				break;
		}
	}
	ck_assert_int_gt(failures, 40);
	free(text.bytes);
}
END_TEST

/* Parses TEXT with LEFT bytes of the arena, whose requests to the allocator are too rare to be failed one by one. */
static struct parsed *parse_with(const char *text, size_t left, struct failing *counted,
                                 const struct allocator *allocator)
{
	struct parsed *p = calloc(1, sizeof *p);
	ck_assert_ptr_nonnull(p);
	p->source = (struct source){"t.ck", text, strlen(text)};
	arena_init(&p->arena, allocator);
	diags_init(&p->diags, &p->arena);
	while (counted->last < 65536)
		ck_assert_ptr_nonnull(arena_alloc(&p->arena, 4096));
	ck_assert_ptr_nonnull(arena_alloc(&p->arena, counted->last - p->arena.used - left));
	counted->fail_at = counted->requests + 1;
	counted->on = true;
	p->status = syntax_parse(&(struct context){p->arena.allocator, &p->arena, &p->diags}, &p->syntax, &p->source);
	return p;
}

START_TEST(every_request_fails)
{
	static const char *const texts[] = {everything,
	                                    "add (1 + 2))",
	                                    "sin $",
	                                    "param a: f33[2]",
	                                    "def f(",
	                                    "",
	                                    "add 1.5 x[2.5, ..., ...]",
	                                    "const a = [[1], [2, 3]]"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		size_t left = 0;
		for (bool failed = true; failed; left += 16) {
			struct failing counted = {0};
			const struct allocator allocator = failing_allocator(&counted);
			struct parsed *p = parse_with(texts[i], left, &counted, &allocator);
			failed = p->arena.failed;
			if (failed) {
				ck_assert_int_eq(p->status, STATUS_LIMIT);
				ck_assert(p->diags.exhausted);
			} else {
				ck_assert_int_eq(p->status, i == 0 || i == 5 ? STATUS_OK : STATUS_CHAIN);
			}
			done(p);
			ck_assert_uint_eq(counted.live, 0);
			ck_assert_uint_lt(left, 60000);
		}
		ck_assert_uint_gt(left, strlen(texts[i]));
	}
}
END_TEST

/* A long flat chain takes memory, and so time, in proportion to its length. */
START_TEST(flat_chain)
{
	enum { STATEMENTS = SANITIZED ? 60000 : 300000 };
	struct text text = {0};
	text_repeat(&text, "add 1\n", STATEMENTS);
	struct failing counted = {0};
	const struct allocator allocator = failing_allocator(&counted);
	struct parsed *p = parse_bytes(text.bytes, text.length, &allocator);
	ck_assert_int_eq(p->status, STATUS_OK);
	int count = 0;
	for (const struct statement *s = first_of(p); s; s = s->next)
		count++;
	ck_assert_int_eq(count, STATEMENTS);
	ck_assert_msg(counted.most / STATEMENTS < 400, "%zu bytes a statement", counted.most / STATEMENTS);
	struct text formatted = {0};
	syntax_format(&p->syntax, text_write, &formatted);
	ck_assert_str_eq(formatted.bytes, text.bytes);
	done(p);
	ck_assert_uint_eq(counted.live, 0);
	free(text.bytes);
	free(formatted.bytes);
}
END_TEST

/* ---- the formatter ---- */

#define A19 "aaaaaaaaaaaaaaaaaaa"
static const struct {
	const char *text, *formatted;
} formats[] = {
	{"", ""},
	{" ;\n\n; ", ""},
	{"sin", "sin\n"},
	{"sin;cos  ;;tanh", "sin\ncos\ntanh\n"},
	{"\r\n\r\nsin\r\n\r\n\r\ncos\r\n", "sin\n\ncos\n"},
	{"\xef\xbb\xbf# a\r\nsin", "# a\nsin\n"},
	{"add   1   axis = 2", "add 1 axis=2\n"},
	{"add +1e-05", "add 1e-05\n"},
	{"add - 1.50", "add -1.50\n"},
	{"pad axes=[ 1,+2 , - 3]", "pad axes=[1, 2, -3]\n"},
	{"stencil[ 1/2,- 2.50 ,+(pi*2) ]dx=[ 1e-3 ]", "stencil [1 / 2, -2.50, (pi * 2)] dx=[1e-3]\n"},
	{"stencil w[1] w [ 2 ] ([])", "stencil w[1] w[2] ([])\n"},
	{"use ( x [ 1 : , ... ,-1 ] )", "use x[1:, ..., -1]\n"},
	{"use ((x+1)[::2])", "use (x + 1)[::2]\n"},
	{"use (sin( x )[0])", "use (sin(x)[0])\n"},
	{"let y = where(a>0,.,b[0])  # c", "let y = where(a > 0, ., b[0])  # c\n"},
	{"let y = (a @ # inside\n b)", "# inside\nlet y = a @ b\n"},
	{"add (x); mul (2); sub (-1); use (.); div (e)", "add x\nmul 2\nsub -1\nuse .\ndiv (e)\n"},
	{"slice stop=( n - 1 ) axes=[0,n-1]", "slice stop=(n - 1) axes=[0, n - 1]\n"},
	{"repeat ( n ) { sin }; repeat (n+1) cos", "repeat n { sin }\nrepeat (n + 1) cos\n"},
	{"param W: f32[n,2*n] = full( 1/n )", "param W: f32[n,2 * n] = full(1 / n)\n"},
	{"def f() { export ( u+1 ) as u,v }", "def f() { export (u + 1) as u, v }\n"},
	{"let a = -b^2*(c%d)-(e-g)", "let a = -b^2 * (c % d) - (e - g)\n"},
	{"let a = (not b) and (c or d)", "let a = not b and (c or d)\n"},
	{"let a = sum(x*2,axis=[0,1],keepdims=true)", "let a = sum(x * 2, axis=[0, 1], keepdims=true)\n"},
	{"for w, v in Ws[1:],(Vs*2) { mul w }", "for w, v in Ws[1:], Vs * 2 { mul w }\n"},
	{"mul W [ 007 ]", "mul W[7]\n"},
	{"repeat 8 {\n  mul 1.1\n  sin\n}", "repeat 8 { mul 1.1; sin }\n"},
	{"repeat 010{sin}", "repeat 10 { sin }\n"},
	{"repeat 2 repeat 3   sin", "repeat 2 repeat 3 sin\n"},
	{"add{matmul W;relu}", "add { matmul W; relu }\n"},
	{"checkpoint policy=\"dots\"{ }", "checkpoint policy=\"dots\" {}\n"},
	{"checkpoint policy = dots-no-batch{ }", "checkpoint policy=dots-no-batch {}\n"},
	{"checkpoint policy=dots_saveable{ }", "checkpoint policy=dots_saveable {}\n"},
	{"def f (a,b){add a}", "def f(a, b) { add a }\n"},
	{"def f(){}", "def f() {}\n"},
	{"for a,b in c,d{add a}", "for a, b in c, d { add a }\n"},
	{"param W:f32[ 2,3 ]=load( \"w\" )", "param W: f32[2,3] = load(\"w\")\n"},
	{"const a=[[1,2],[3,4]]", "const a = [[1, 2], [3, 4]]\n"},
	/* exactly 80 columns, and one more */
	{"repeat 2 { " A19 "; " A19 "; " A19 "; bbb }", "repeat 2 { " A19 "; " A19 "; " A19 "; bbb }\n"},
	{"repeat 2 { " A19 "; " A19 "; " A19 "; bbbb }", "repeat 2 { " A19 "; " A19 "; " A19 "; bbbb }\n"},
	{"repeat 2 { " A19 "; " A19 "; " A19 "; bbbbb }",
     "repeat 2 {\n    " A19 "\n    " A19 "\n    " A19 "\n    bbbbb\n}\n"},
	/* comments */
	{"sin # a", "sin  # a\n"},
	{"sin #   a  \t\r\ncos", "sin  #   a\ncos\n"},
	{"# a\n\n\n# b\nsin\n# c\n\n# d", "# a\n\n# b\nsin\n# c\n\n# d\n"},
	{"sin; cos # a\ntanh", "sin\ncos  # a\ntanh\n"},
	{"sin;# a\ncos", "sin  # a\ncos\n"},
	{"repeat 2 { # a\nsin }", "repeat 2 {  # a\n    sin\n}\n"},
	{"repeat 2 {\n# a\n}", "repeat 2 {\n    # a\n}\n"},
	{"repeat 2 {\nsin\n\n# a\n\n}\n# b", "repeat 2 {\n    sin\n\n    # a\n}\n# b\n"},
	{"repeat 2 { sin # a\n} # b\ncos", "repeat 2 {\n    sin  # a\n}  # b\ncos\n"},
	{"repeat 2 {\n\n\nsin\n\n\ncos; # a\n}", "repeat 2 {\n    sin\n\n    cos  # a\n}\n"},
	{"add (1 # a\n + 2) # b\ncos", "# a\nadd (1 + 2)  # b\ncos\n"},
	{"sin\n\nadd (1 # a\n + 2)", "sin\n\n# a\nadd (1 + 2)\n"},
	{"add { sin # a\n} { cos }", "add {\n    sin  # a\n} { cos }\n"},
	{"repeat 2 repeat 3 {\n# a\nsin }", "repeat 2 repeat 3 {\n    # a\n    sin\n}\n"},
	{"repeat 2 { " A19 "; " A19 "; " A19 "; bbbbb } # a",
     "repeat 2 {\n    " A19 "\n    " A19 "\n    " A19 "\n    bbbbb\n}  # a\n"},
	{"checkpoint { repeat 2 { sin # a\n} }", "checkpoint {\n    repeat 2 {\n        sin  # a\n    }\n}\n"},
	/* a list that is too wide */
	{"const a = [[1111111111, 2222222222, 3333333333], [4444444444, 5555555555, 6666666666]]",
     "const a = [\n    [1111111111, 2222222222, 3333333333],\n    [4444444444, 5555555555, 6666666666]\n]\n"},
};

START_TEST(canonical)
{
	struct text formatted = {0};
	struct parsed *p = parse_good(formats[_i].text);
	format_checked(p, &formatted);
	ck_assert_str_eq(formatted.bytes, formats[_i].formatted);
	done(p);
	free(formatted.bytes);
}
END_TEST

/* ---- random programs ---- */

static uint64_t draws;

static uint32_t draw(uint32_t below)
{
	draws = draws * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(draws >> 33) % below;
}

/* One program, written plainly and with noise. */
struct writer {
	struct text plain, noisy;
	int nested; /* within brackets, where a newline is white space */
	int comments;
};

static void both(struct writer *w, const char *text)
{
	text_add(&w->plain, text);
	text_add(&w->noisy, text);
}

static void noise(struct writer *w)
{
	static const char *const blanks[] = {"", "", "", " ", "  ", "\t", "\r", " \t "};
	text_add(&w->noisy, blanks[draw(8)]);
	if (w->nested && draw(8) == 0)
		text_add(&w->noisy, draw(2) ? "\n" : "\r\n");
	if (w->nested && draw(12) == 0) {
		text_add(&w->noisy, "#in }]) \"\n");
		w->comments++;
	}
}

/* A blank that has to be there. */
static void gap(struct writer *w)
{
	both(w, " ");
	noise(w);
}

/* TEXT with noise on both sides. */
static void sign(struct writer *w, const char *text)
{
	noise(w);
	both(w, text);
	noise(w);
}

static void separate(struct writer *w)
{
	text_add(&w->plain, "\n");
	for (uint32_t i = 1 + draw(3); i > 0; i--) {
		noise(w);
		uint32_t kind = draw(6);
		if (kind == 0)
			w->comments++;
		text_add(&w->noisy, kind == 0 ? " # it's {\n" : kind < 3 ? ";" : kind == 3 ? "\r\n" : "\n");
		noise(w);
	}
}

static void write_name(struct writer *w)
{
	static const char *const names[] = {"W", "b1",  "_x", "in", "pi", "e", "zeros", "a_long_name_for_a_thing",
	                                    "x", "true"};
	both(w, names[draw(10)]);
}

static void write_number(struct writer *w)
{
	static const char *const numbers[] = {"0",     "1",   "-3",   "2.5", "1e-05",       "-1.",
	                                      ".5E+3", "inf", "-inf", "nan", "123456789012"};
	both(w, numbers[draw(11)]);
}

static void write_expression(struct writer *w, int depth)
{
	static const char *const operators[] = {"+", "-", "*", "/", "^"}, *const atoms[] = {"2", "pi", "e", "1.5e-3",
	                                                                                    "0.1"};
	uint32_t kind = depth > 4 ? 0 : draw(4);
	if (kind < 2) {
		both(w, atoms[draw(5)]);
	} else if (kind == 2) {
		write_expression(w, depth + 1);
		sign(w, operators[draw(5)]);
		write_expression(w, depth + 1);
	} else {
		bool minus = draw(3) == 0;
		both(w, minus ? "-(" : "(");
		noise(w);
		write_expression(w, depth + 1);
		sign(w, ")");
	}
}

static void write_block(struct writer *w, int depth);

static void write_operands(struct writer *w, int depth)
{
	for (uint32_t i = draw(4); i > 0; i--) {
		gap(w);
		uint32_t kind = draw(depth > 3 ? 6 : 8);
		if (kind < 2) {
			write_number(w);
		} else if (kind < 5) {
			write_name(w);
			if (kind == 4)
				both(w, "[2]");
		} else if (kind == 5) {
			both(w, "(");
			w->nested++;
			noise(w);
			write_expression(w, 0);
			noise(w);
			w->nested--;
			both(w, ")");
		} else {
			write_block(w, depth + 1);
		}
	}
}

static void write_options(struct writer *w)
{
	static const char *const values[] = {
		"3", "-1", "0.5", "dots", "true", "false", "\"names:a,b\"", "\"\\\"\\\\\\n\\x1b\"", "[]", "[1, -2]", "inf"};
	for (uint32_t i = draw(3); i > 0; i--) {
		gap(w);
		both(w, draw(2) ? "axis" : "name");
		text_add(&w->noisy, draw(2) ? "" : " \t");
		both(w, "=");
		noise(w);
		both(w, values[draw(11)]);
	}
}

static void write_names(struct writer *w)
{
	both(w, "v");
	for (uint32_t i = draw(3); i > 0; i--) {
		sign(w, ",");
		write_name(w);
	}
}

static void write_list(struct writer *w, int depth, uint32_t extent)
{
	both(w, "[");
	w->nested++;
	for (uint32_t i = 0; i < extent; i++) {
		if (i)
			sign(w, ",");
		if (depth > 1)
			write_list(w, depth - 1, 3);
		else
			write_number(w);
	}
	noise(w);
	w->nested--;
	both(w, "]");
}

static void write_declaration(struct writer *w)
{
	static const char *const types[] = {"f32[]", "bf16[3]", "f64[2,3]", "i64[9223372036854775807]", "bool[0,1]"};
	static const char *const inits[] = {"zeros",
	                                    "eye",
	                                    "load(\"a.npy\")",
	                                    "load(\"a\", \"k\")",
	                                    "full(2)",
	                                    "normal(0.1, 3)",
	                                    "uniform(-1, 1 + pi, 3)",
	                                    "-2.50",
	                                    "(2 * pi)"};
	both(w, draw(2) ? "param" : "const");
	gap(w);
	write_name(w);
	noise(w);
	if (draw(2)) {
		both(w, ":");
		noise(w);
		both(w, types[draw(5)]);
		noise(w);
	}
	if (draw(2)) {
		both(w, "=");
		noise(w);
		if (draw(3))
			both(w, inits[draw(9)]);
		else
			write_list(w, 1 + (int)draw(3), draw(7));
	}
}

static void write_statement(struct writer *w, int depth)
{
	static const char *const stages[] = {
		"sin", "matmul", "add", "layer", "in", "e", "transpose_the_thing_that_is_long"};
	uint32_t kind = draw(depth > 3 ? 8 : 13);
	if (kind < 6) {
		both(w, stages[draw(7)]);
		write_operands(w, depth);
		write_options(w);
	} else if (kind == 6) {
		both(w, "name ");
		write_name(w);
	} else if (kind == 7) {
		write_declaration(w);
	} else if (kind == 8) {
		both(w, "repeat ");
		both(w, draw(2) ? "2" : "1000000");
		gap(w);
		both(w, "tanh");
		write_operands(w, depth);
	} else if (kind == 9) {
		both(w, "repeat 3");
		noise(w);
		write_block(w, depth + 1);
	} else if (kind == 10) {
		both(w, "def f(");
		w->nested++;
		write_names(w);
		noise(w);
		w->nested--;
		both(w, ")");
		noise(w);
		write_block(w, depth + 1);
	} else if (kind == 11) {
		both(w, "for ");
		write_names(w);
		both(w, " in ");
		write_names(w);
		noise(w);
		write_block(w, depth + 1);
	} else {
		both(w, "checkpoint");
		write_options(w);
		noise(w);
		write_block(w, depth + 1);
	}
}

static void write_block(struct writer *w, int depth)
{
	both(w, "{");
	for (uint32_t i = draw(4); i > 0; i--) {
		separate(w);
		write_statement(w, depth);
	}
	separate(w);
	both(w, "}");
}

START_TEST(random_programs)
{
	int programs = getenv("CKPTC_NIGHTLY") ? 100000 : SANITIZED ? 800 : 3000, comments = 0;
	draws = 20240607;
	for (int i = 0; i < programs; i++) {
		struct writer w = {0};
		both(&w, "");
		for (uint32_t n = draw(8); n > 0; n--) {
			write_statement(&w, 0);
			separate(&w);
		}
		struct parsed *plain = parse_good(w.plain.bytes), *noisy = parse_good(w.noisy.bytes);
		ck_assert_msg(same_block(plain->syntax.chain, noisy->syntax.chain), "program %d:\n%s\n----\n%s", i,
		              w.plain.bytes, w.noisy.bytes);
		int kept = 0;
		for (const struct comment *c = noisy->syntax.comments; c; c = c->next)
			kept++;
		ck_assert_int_eq(kept, w.comments);
		comments += kept;
		struct text formatted = {0}, from_plain = {0};
		format_checked(noisy, &formatted);
		format_checked(plain, &from_plain);
		done(plain);
		done(noisy);
		free(w.plain.bytes);
		free(w.noisy.bytes);
		free(formatted.bytes);
		free(from_plain.bytes);
	}
	ck_assert_int_gt(comments, programs / 4);
}
END_TEST

/* Tokens in any order: one message, within the source, or a tree that the formatter keeps. */
START_TEST(random_tokens)
{
	static const char *const tokens[] = {
		"input", "param", "const", "def", "name", "repeat", "for", "in", "checkpoint", "sin", "x", "W", "(", ")", "[",
		"]",     "{",     "}",     ",",   ";",    "\n",     ":",   "=",  "+",          "-",   "*", "/", "^", "2", "1.5",
		"\"s\"", "# c\n", "f32",   "pi",  "true", "load",   "inf", "\r", "axis=",      "$"};
	enum { TOKENS = sizeof tokens / sizeof *tokens };
	int programs = getenv("CKPTC_NIGHTLY") ? 1000000 : 30000, good = 0;
	draws = 7;
	for (int i = 0; i < programs; i++) {
		struct text text = {0};
		text_add(&text, "");
		for (uint32_t n = draw(12); n > 0; n--) {
			text_add(&text, tokens[draw(TOKENS)]);
			text_add(&text, draw(4) ? " " : "");
		}
		struct parsed *p = parse(text.bytes);
		if (p->status == STATUS_OK) {
			struct text formatted = {0};
			format_checked(p, &formatted);
			free(formatted.bytes);
			good++;
		} else {
			ck_assert_int_eq(p->status, STATUS_CHAIN);
			ck_assert_int_eq(p->diags.errors, 1);
			const struct span *span = &p->diags.first->span;
			ck_assert_uint_le(span->begin, span->end);
			ck_assert_uint_le(span->end, text.length);
			uint32_t line = 1, column = 1;
			for (uint32_t at = 0; at < span->begin; at++) {
				column = text.bytes[at] == '\n' ? 1 : column + 1;
				line += text.bytes[at] == '\n';
			}
			ck_assert_uint_eq(span->line, line);
			ck_assert_uint_eq(span->column, column);
		}
		done(p);
		free(text.bytes);
	}
	ck_assert_int_gt(good, programs / 100);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("syntax");
	TCase *tcase = suite_make_case(suite, "syntax");
	tcase_set_timeout(tcase, getenv("CKPTC_NIGHTLY") ? 3600 : 120);
	tcase_add_loop_test(tcase, productions, 0, sizeof trees / sizeof *trees);
	tcase_add_test(tcase, number_values);
	tcase_add_test(tcase, constant_expressions);
	tcase_add_test(tcase, initial_values);
	tcase_add_test(tcase, declared_types);
	tcase_add_test(tcase, strings);
	tcase_add_test(tcase, words);
	tcase_add_test(tcase, places);
	tcase_add_loop_test(tcase, messages, 0, sizeof errors / sizeof *errors);
	tcase_add_test(tcase, nesting);
	tcase_add_test(tcase, deepest_mixture);
	tcase_add_test(tcase, dimensions);
	tcase_add_test(tcase, source_length);
	tcase_add_test(tcase, allocation_fails);
	tcase_add_test(tcase, every_request_fails);
	tcase_add_test(tcase, flat_chain);
	tcase_add_loop_test(tcase, canonical, 0, sizeof formats / sizeof *formats);
	tcase_add_test(tcase, random_programs);
	tcase_add_test(tcase, random_tokens);
	return suite_run(suite);
}
