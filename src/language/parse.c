/*
 * Builds the syntax tree for the grammar's actions, and gives the message where a tree cannot be built.
 *
 * Invariants: a source gets at most one message, at its first wrong token, because the parser stops there. All memory,
 * the scanner's too, is the arena's: leaving at any point leaks nothing.
 */
#include "language/parse.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "ops/op.h"
#include "parser.h"

#include "scanner.h"

/* Errors. */

#define FAIL(parse, status, span, ...) diag_at((parse)->context->diags, status, (parse)->source, span, __VA_ARGS__)
#define HINT(parse, ...) diag_hint((parse)->context->diags, __VA_ARGS__)

/* A new TYPE with the given fields; NULL where memory is short. */
#define NEW(parse, type, ...) ((type *)new_copy(parse, &(const type){__VA_ARGS__}, sizeof(type)))

static void *new_copy(struct parse *parse, const void *from, size_t size)
{
	void *made = arena_alloc(parse->context->arena, size);
	return made ? memcpy(made, from, size) : NULL;
}

static bool has_failed(const struct parse *parse) { return parse->context->diags->errors != parse->errors; }

static bool is_repeat(const struct parse *parse, int level)
{
	return parse->source->text[parse->open[level].begin] == 'r';
}

static void hint_open(struct parse *parse)
{
	int level = parse->depth - 1;
	while (level >= 0 && is_repeat(parse, level))
		level--;
	if (level < 0)
		return;
	const struct span *open = &parse->open[level];
	HINT(parse, "the '%c' at %u:%u is still open", parse->source->text[open->begin], open->line, open->column);
}

int parse_fail(struct parse *parse, const struct span *span, const char *message)
{
	if (!has_failed(parse))
		FAIL(parse, STATUS_CHAIN, *span, "syntax error: %s", message);
	return YYUNDEF;
}

void parse_too_deep(struct parse *parse, struct span span)
{
	if (!has_failed(parse))
		FAIL(parse, STATUS_LIMIT, span, "nesting deeper than %d", MAX_NESTING);
}

static bool is_word(char c) { return c == '_' || isalnum((unsigned char)c); }

/* True if WORD follows a `def` somewhere in the source. */
static bool is_defined(const struct parse *parse, const char *word)
{
	const char *text = parse->source->text, *end = text + parse->source->length;
	const size_t length = strlen(word);
	for (const char *at = text; (at = memmem(at, (size_t)(end - at), "def", 3)); at++) {
		const char *name = at + 3;
		while (name < end && (*name == ' ' || *name == '\t'))
			name++;
		if ((size_t)(end - name) > length && !memcmp(name, word, length) && !is_word(name[length]))
			return true;
	}
	return false;
}

/*
 * Hints at the word that begins the statement around the byte AT, if it is unknown and near to one that begins a
 * statement. Then the rest was misread because of it. A statement begins after ; { } or a line's beginning.
 */
static bool hint_word(struct parse *parse, uint32_t at)
{
	const char *text = parse->source->text;
	const char *known[STATEMENT_COUNT];
	size_t begin = at, count = 0;
	while (begin > 0 && !strchr(";{}\n", text[begin - 1]))
		begin--;
	while (begin < at && (text[begin] == ' ' || text[begin] == '\t'))
		begin++;
	size_t end = begin;
	while (end < parse->source->length && is_word(text[end]))
		end++;
	const char *word = arena_strndup(parse->context->arena, text + begin, end - begin);
	if (!word || op_find(word) != OP_COUNT || is_defined(parse, word))
		return false;
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE && strcmp(known[count++] = statement_word(kind), word) == 0)
			return false;
	const char *near = suggest_nearest(word, known, count);
	if (near)
		HINT(parse, "'%s' is no operation: did you mean '%s'?", word, near);
	return near != NULL;
}

/* ", expected A, B or C", or nothing where nothing is known. */
static void list_wanted(const struct parse_mismatch *mismatch, char *words, size_t size)
{
	size_t used = 0;
	for (int i = 0; i < mismatch->count && used < size; i++) {
		const char *before = i == 0 ? ", expected " : i + 1 == mismatch->count ? " or " : ", ";
		used += (size_t)snprintf(words + used, size - used, "%s%s", before, mismatch->wanted[i]);
	}
}

void parse_syntax_error(struct parse *parse, struct span span, const struct parse_mismatch *mismatch)
{
	enum { SHOWN = 40 };
	if (has_failed(parse) || parse->context->arena->failed)
		return; /* the scanner has failed, and its token is none */
	char words[512] = "";
	list_wanted(mismatch, words, sizeof words);
	const char *text = parse->source->text + span.begin;
	const int length = (int)(span.end - span.begin);
	const bool token = mismatch->found == FOUND_TOKEN;
	if (token)
		FAIL(parse, STATUS_CHAIN, span, "syntax error: unexpected '%.*s'%s%s", length > SHOWN ? SHOWN : length, text,
		     length > SHOWN ? "..." : "", words);
	else
		FAIL(parse, STATUS_CHAIN, span, "syntax error: the %s ends too early%s",
		     mismatch->found == FOUND_END ? "chain" : "line", words);
	if (hint_word(parse, span.begin))
		return;
	if (mismatch->hint)
		HINT(parse, "%s", mismatch->hint);
	else if (token && *text == '}' && parse->depth == 0)
		HINT(parse, "no '{' is open here");
	else if (!token || strchr(")]}", *text))
		hint_open(parse);
}

/* Brackets and comments. */

bool parse_open(struct parse *parse, const struct span *span, bool body)
{
	if (body && parse->depth > 0 && is_repeat(parse, parse->depth - 1))
		parse->depth--;
	if (parse->depth == MAX_NESTING) {
		parse_too_deep(parse, *span);
		return false;
	}
	parse->open[parse->depth++] = *span;
	return true;
}

void parse_end_statement(struct parse *parse)
{
	while (parse->depth > 0 && is_repeat(parse, parse->depth - 1))
		parse->depth--;
}

void parse_close(struct parse *parse, char bracket)
{
	parse_end_statement(parse);
	if (parse->depth == 0)
		return;
	char open = parse->source->text[parse->open[parse->depth - 1].begin];
	if (bracket == (open == '(' ? ')' : open == '[' ? ']' : '}'))
		parse->depth--;
}

bool parse_add_comment(struct parse *parse, const char *text, size_t length, const struct span *span)
{
	while (strchr(" \t\r\f\v", text[length - 1])) /* it begins with '#' */
		length--;
	char *copy = arena_strndup(parse->context->arena, text, length);
	struct comment *comment = NEW(parse, struct comment, .text = copy, .line = span->line, .offset = span->begin);
	if (!comment || !copy)
		return false;
	*(parse->last_comment ? &parse->last_comment->next : &parse->syntax->comments) = comment;
	parse->last_comment = comment;
	return true;
}

/* Blocks and statements. */

struct block *parse_block(struct parse *parse) { return arena_alloc(parse->context->arena, sizeof(struct block)); }

void parse_finish_block(struct block *block, struct span open, struct span close)
{
	block->braced = true;
	block->span = open;
	block->span.end = close.end;
}

void parse_finish_chain(const struct parse *parse, struct block *chain)
{
	chain->span = (struct span){0, (uint32_t)parse->source->length, 1, 1};
}

struct statement *parse_statement(struct parse *parse, enum statement_kind kind, struct span span,
                                  const struct word *name)
{
	return NEW(parse, struct statement, .kind = kind, .span = span, .name = name->text, .name_span = name->span);
}

struct statement *parse_declare(struct parse *parse, enum statement_kind kind, struct span span,
                                const struct word *name, const struct declared *type, const struct init *init)
{
	static const struct declared no_type;
	static const struct init no_init;
	if (kind != STATEMENT_INPUT && type && type->type.shape.ndim > 0 && type->type.shape.dim[0] == -1) {
		FAIL(parse, STATUS_CHAIN, type->span, "only the input has a streamed axis '*'");
		HINT(parse, "give %s's extent as a number", name->text);
		return NULL;
	}
	return NEW(parse, struct statement, .kind = kind, .span = span, .name = name->text, .name_span = name->span,
	           .type = type ? type : &no_type, .init = init ? init : &no_init);
}

struct statement *parse_def(struct parse *parse, struct span span, const struct word *name,
                            struct name_list *parameters, struct block *block)
{
	return NEW(parse, struct statement, .kind = STATEMENT_DEF, .span = span, .name = name->text,
	           .name_span = name->span, .names = parameters, .block = block);
}

struct statement *parse_stage(struct parse *parse, struct span span, const struct word *name,
                              const struct operand_list *operands, const struct option_list *options)
{
	return NEW(parse, struct statement, .kind = STATEMENT_STAGE, .span = span, .name = name->text,
	           .name_span = name->span, .operands = operands->first, .options = options->first);
}

/* True if NUMBER is an integer that fits in 64 bits. */
static bool check_integer(struct parse *parse, const struct parse_number *number)
{
	if (number->number.integer)
		return true;
	const char *digits = number->text + (number->text[0] == '-');
	FAIL(parse, STATUS_CHAIN, number->span, "'%s' is not an integer%s", number->text,
	     digits[strspn(digits, "0123456789")] ? "" : " that fits in 64 bits");
	return false;
}

struct statement *parse_repeat(struct parse *parse, struct span span, struct span head,
                               const struct parse_number *count, struct block *block)
{
	if (!check_integer(parse, count))
		return NULL;
	return NEW(parse, struct statement, .kind = STATEMENT_REPEAT, .span = span, .name = "repeat", .name_span = head,
	           .count = count->number.whole, .block = block);
}

struct statement *parse_repeat_stage(struct parse *parse, struct span span, struct span head,
                                     const struct parse_number *count, struct statement *stage)
{
	struct block *block = parse_block(parse);
	if (!block)
		return NULL;
	PARSE_APPEND(block, stage);
	block->span = stage->span;
	return parse_repeat(parse, span, head, count, block);
}

struct statement *parse_for(struct parse *parse, struct span span, struct span head, struct name_list *names,
                            struct name_list *over, struct block *block)
{
	return NEW(parse, struct statement, .kind = STATEMENT_FOR, .span = span, .name = "for", .name_span = head,
	           .names = names, .over = over, .block = block);
}

struct statement *parse_checkpoint(struct parse *parse, struct span span, struct span head,
                                   const struct option_list *options, struct block *block)
{
	return NEW(parse, struct statement, .kind = STATEMENT_CHECKPOINT, .span = span, .name = "checkpoint",
	           .name_span = head, .options = options->first, .block = block);
}

bool parse_add_name(struct parse *parse, struct name_chain *names, const struct word *name)
{
	struct name_list *item = NEW(parse, struct name_list, .name = name->text, .span = name->span);
	if (item)
		PARSE_APPEND(names, item);
	return item != NULL;
}

/* Operands and constant expressions. */

struct operand *parse_number_operand(struct parse *parse, const struct parse_number *number)
{
	return NEW(parse, struct operand, .kind = OPERAND_NUMBER, .span = number->span, .text = number->text,
	           .number = number->number, .index = NO_INDEX);
}

struct operand *parse_name_operand(struct parse *parse, const struct word *name, const struct parse_number *index,
                                   struct span span)
{
	if (index && !check_integer(parse, index))
		return NULL;
	/* NO_INDEX is beyond any array, and so is the next number. */
	const int64_t at = !index ? NO_INDEX : index->number.whole + (index->number.whole == NO_INDEX);
	return NEW(parse, struct operand, .kind = OPERAND_NAME, .span = span, .text = name->text, .index = at);
}

/* True if a sign after TEXT belongs to a number's exponent, or stands before what it negates. */
static bool binds_right(const char *text, size_t length)
{
	if (length == 0 || strchr("(+-*/^[, ", text[length - 1]))
		return true;
	size_t digits = length - 1;
	if (text[digits] != 'e' && text[digits] != 'E')
		return false;
	/* A word that ends in e has no digit before it here: only pi and e are words. */
	return digits > 0 && strchr("0123456789.", text[digits - 1]);
}

/*
 * The source at SPAN, which holds no strings, in its canonical form. It has no comments. One blank follows a comma, and
 * one stands on each side of + - * / between operands.
 */
static const char *canonical_text(struct parse *parse, struct span span)
{
	const char *from = parse->source->text + span.begin, *end = parse->source->text + span.end;
	char *text = arena_array(parse->context->arena, span.end - span.begin + 1, 3);
	size_t used = 0;
	for (; text && from < end; from++) {
		if (*from == '#')
			while (*from != '\n') /* a comment within brackets ends before them */
				from++;
		if (strchr(" \t\r\n\f\v", *from))
			continue;
		bool apart = strchr("+-*/", *from) && (strchr("*/", *from) || !binds_right(text, used));
		if (apart)
			text[used++] = ' ';
		text[used++] = *from;
		if (apart || *from == ',')
			text[used++] = ' ';
	}
	return text;
}

struct operand *parse_expression_operand(struct parse *parse, const struct parse_value *value, struct span span)
{
	const char *text = canonical_text(parse, span);
	const bool integer = trunc(value->value) == value->value && fabs(value->value) <= 0x1p53;
	if (!text)
		return NULL;
	return NEW(parse, struct operand, .kind = OPERAND_NUMBER, .span = span, .text = text,
	           .number = {value->value, integer, integer ? (int64_t)value->value : 0}, .index = NO_INDEX);
}

struct operand *parse_block_operand(struct parse *parse, struct block *block, struct span span)
{
	return NEW(parse, struct operand, .kind = OPERAND_BLOCK, .span = span, .index = NO_INDEX, .block = block);
}

bool parse_negate(struct parse *parse, struct parse_number *number, struct span span)
{
	struct number *n = &number->number;
	n->value = -n->value;
	n->whole = -n->whole;
	if (!n->integer && !strcmp(number->text, "9223372036854775808"))
		*n = (struct number){n->value, true, INT64_MIN};
	number->span = span;
	number->text = arena_printf(parse->context->arena, "-%s", number->text);
	return number->text != NULL;
}

/* True if AT is the first byte within the parentheses of `load(`. */
static bool is_in_load(const struct parse *parse, uint32_t at)
{
	static const char open[] = "load(";
	const size_t length = sizeof open - 1;
	return at >= length && !memcmp(parse->source->text + at - length, open, length);
}

bool parse_constant(struct parse *parse, struct parse_value *value, const struct word *name)
{
	static const char *const names[] = {"pi", "e", "inf", "nan"};
	const bool pi = !strcmp(name->text, "pi");
	*value = (struct parse_value){pi ? 3.14159265358979323846 : 2.71828182845904523536, 0};
	if (pi || !strcmp(name->text, "e"))
		return true;
	FAIL(parse, STATUS_CHAIN, name->span, "'%s' in a constant expression", name->text);
	const char *near = suggest_nearest(name->text, names, sizeof names / sizeof *names);
	if (hint_word(parse, name->span.begin))
		return false;
	if (is_in_load(parse, name->span.begin))
		HINT(parse, "a path is quoted, as in load(\"w.npy\")");
	else if (near)
		HINT(parse, "did you mean '%s'?", near);
	else
		HINT(parse, "a constant expression has numbers, pi, e and + - * / ^ ( )");
	return false;
}

/* An operator that opens to the right waits on the parser's stack: it nests as a bracket does. */
static bool check_depth(struct parse *parse, int depth, struct span span)
{
	if (depth > MAX_NESTING)
		parse_too_deep(parse, span);
	return depth <= MAX_NESTING;
}

bool parse_power(struct parse *parse, struct parse_value *base, const struct parse_value *exponent, struct span span)
{
	*base = (struct parse_value){pow(base->value, exponent->value), exponent->depth + 1};
	return check_depth(parse, base->depth, span);
}

bool parse_minus(struct parse *parse, struct parse_value *value, struct span span)
{
	*value = (struct parse_value){-value->value, value->depth + 1};
	return check_depth(parse, value->depth, span);
}

/* Options. */

struct option *parse_option(struct parse *parse, const struct word *name, enum value_kind kind,
                            const struct word *value)
{
	return NEW(parse, struct option, .name = name->text, .span = name->span, .value_span = value->span, .kind = kind,
	           .text = value->text, .boolean = kind == VALUE_BOOL && value->text[0] == 't');
}

struct option *parse_number_option(struct parse *parse, const struct word *name, const struct parse_number *number)
{
	return NEW(parse, struct option, .name = name->text, .span = name->span, .value_span = number->span,
	           .kind = VALUE_NUMBER, .number = number->number, .text = number->text);
}

struct option *parse_word_option(struct parse *parse, const struct word *name, const struct word *value)
{
	const bool truth = !strcmp(value->text, "true") || !strcmp(value->text, "false");
	return parse_option(parse, name, truth ? VALUE_BOOL : VALUE_NAME, value);
}

struct option *parse_integers_option(struct parse *parse, const struct word *name,
                                     const struct parse_integers *integers, struct span span)
{
	return NEW(parse, struct option, .name = name->text, .span = name->span, .value_span = span, .kind = VALUE_INTEGERS,
	           .integers = integers->items, .count = integers->count);
}

bool parse_add_integer(struct parse *parse, struct parse_integers *integers, const struct parse_number *number)
{
	if (!check_integer(parse, number))
		return false;
	int64_t *grown =
		arena_grow(parse->context->arena, integers->items, integers->count, &integers->capacity, sizeof *grown);
	if (!grown)
		return false;
	integers->items = grown;
	grown[integers->count++] = number->number.whole;
	return true;
}

/* Types. */

struct declared *parse_type(struct parse *parse, const struct word *dtype, const struct shape *shape, struct span span)
{
	static const char *const names[] = {"f16", "bf16", "f32", "f64", "i32", "i64", "bool"};
	enum { NAMES = sizeof names / sizeof *names };
	bool known = false;
	for (int i = 0; i < NAMES; i++)
		known = known || !strcmp(names[i], dtype->text);
	if (!known) {
		FAIL(parse, STATUS_CHAIN, dtype->span, "unknown type '%s'", dtype->text);
		const char *near = suggest_nearest(dtype->text, names, NAMES);
		if (near)
			HINT(parse, "did you mean '%s'?", near);
		else
			HINT(parse, "types are f16, bf16, f32, f64, i32, i64 and bool");
		return NULL;
	}
	const struct type type = {.dtype = dtype_find(dtype->text, strlen(dtype->text)),
	                          .shape = shape ? *shape : (struct shape){0}};
	return NEW(parse, struct declared, .given = true, .type = type, .span = span);
}

struct shape *parse_extent(struct parse *parse, struct shape *shape, const struct parse_number *number,
                           struct span span)
{
	if (!number && shape) {
		FAIL(parse, STATUS_CHAIN, span, "only the first axis can be streamed with '*'");
		return NULL;
	}
	if (shape && shape->ndim == MAX_DIMS) {
		FAIL(parse, STATUS_LIMIT, span, "more than %d dimensions", MAX_DIMS);
		return NULL;
	}
	if (number && !check_integer(parse, number))
		return NULL;
	if (!shape)
		shape = arena_alloc(parse->context->arena, sizeof *shape);
	if (shape)
		shape->dim[shape->ndim++] = number ? number->number.whole : -1;
	return shape;
}

/* Initial values. */

struct init *parse_init_number(struct parse *parse, double value, struct span span)
{
	double *values = arena_alloc(parse->context->arena, sizeof *values);
	const char *text = canonical_text(parse, span);
	if (!values || !text)
		return NULL;
	*values = value;
	return NEW(parse, struct init, .kind = INIT_NUMBER, .span = span, .text = text, .values = values, .count = 1);
}

struct init *parse_init_list(struct parse *parse, const struct parse_list *list, struct span span)
{
	const char *text = canonical_text(parse, span);
	if (!text)
		return NULL;
	return NEW(parse, struct init, .kind = INIT_LIST, .span = span, .text = text, .values = list->values,
	           .count = list->count, .shape = list->shape);
}

static const struct form {
	const char *name;
	enum init_kind kind;
	size_t arguments;
	const char *usage;
} forms[] = {{"zeros", INIT_ZEROS, 0, "zeros"},
             {"ones", INIT_ONES, 0, "ones"},
             {"eye", INIT_EYE, 0, "eye"},
             {"full", INIT_FULL, 1, "full(v)"},
             {"normal", INIT_NORMAL, 2, "normal(std, seed)"},
             {"uniform", INIT_UNIFORM, 3, "uniform(lo, hi, seed)"},
             {"load", INIT_LOAD, 0, "load(\"FILE\") or load(\"FILE\", \"key\")"}};
enum { FORMS = sizeof forms / sizeof *forms };

/* The form named WORD, or NULL, with a message. */
static const struct form *find_initial_value(struct parse *parse, const struct word *word)
{
	const char *names[FORMS], *number = number_word(word->text);
	for (int i = 0; i < FORMS; i++) {
		if (!strcmp(forms[i].name, word->text))
			return &forms[i];
		names[i] = forms[i].name;
	}
	FAIL(parse, STATUS_CHAIN, word->span, "unknown initial value '%s'", word->text);
	const char *near = suggest_nearest(word->text, names, FORMS);
	if (number)
		HINT(parse, "the number is written %s", number);
	else if (near)
		HINT(parse, "did you mean '%s'?", near);
	else if (!strcmp(word->text, "pi") || !strcmp(word->text, "e"))
		HINT(parse, "a constant expression is written in parentheses: (%s)", word->text);
	else
		HINT(parse, "it is a number, a list, load(\"FILE\"), zeros, ones, eye, full, normal or uniform");
	return NULL;
}

static struct init *wrong_usage(struct parse *parse, const struct form *form, struct span span)
{
	FAIL(parse, STATUS_CHAIN, span, "'%s' is written %s", form->name, form->usage);
	return NULL;
}

struct init *parse_init_word(struct parse *parse, const struct word *word)
{
	const struct form *form = find_initial_value(parse, word);
	if (!form)
		return NULL;
	if (form->arguments || form->kind == INIT_LOAD)
		return wrong_usage(parse, form, word->span);
	return NEW(parse, struct init, .kind = form->kind, .span = word->span, .text = word->text);
}

struct init *parse_init_load(struct parse *parse, const struct word *word, const char *path, const char *key,
                             struct span span)
{
	const struct form *form = find_initial_value(parse, word);
	if (!form)
		return NULL;
	if (form->kind != INIT_LOAD)
		return wrong_usage(parse, form, span);
	return NEW(parse, struct init, .kind = INIT_LOAD, .span = span, .path = path, .key = key);
}

struct init *parse_init_call(struct parse *parse, const struct word *word, const struct parse_list *arguments,
                             struct span span)
{
	const struct form *form = find_initial_value(parse, word);
	if (!form)
		return NULL;
	if (form->kind == INIT_LOAD || arguments->shape.ndim || arguments->count != form->arguments)
		return wrong_usage(parse, form, span);
	const char *text = canonical_text(parse, span);
	if (!text)
		return NULL;
	return NEW(parse, struct init, .kind = form->kind, .span = span, .text = text, .values = arguments->values,
	           .count = arguments->count);
}

/* Lists. */

struct parse_list *parse_list(struct parse *parse)
{
	return arena_alloc(parse->context->arena, sizeof(struct parse_list));
}

static bool list_append(struct parse *parse, struct parse_list *list, double value)
{
	double *grown = arena_grow(parse->context->arena, list->values, list->count, &list->capacity, sizeof *grown);
	if (!grown)
		return false;
	list->values = grown;
	grown[list->count++] = value;
	return true;
}

static bool check_ragged(struct parse *parse, const struct parse_list *list, const struct shape *shape,
                         struct span span)
{
	char was[TYPE_TEXT], is[TYPE_TEXT];
	if (list->elements == 0 || shape_equal(&list->shape, shape))
		return true;
	FAIL(parse, STATUS_CHAIN, span, "a ragged list: an element of shape %s after one of shape %s",
	     shape_format(shape, is), shape_format(&list->shape, was));
	return false;
}

bool parse_list_add(struct parse *parse, struct parse_list *list, double value, struct span span)
{
	static const struct shape number;
	if (!check_ragged(parse, list, &number, span) || !list_append(parse, list, value))
		return false;
	list->elements++;
	return true;
}

bool parse_list_join(struct parse *parse, struct parse_list *list, const struct parse_list *element, struct span span)
{
	if (!check_ragged(parse, list, &element->shape, span))
		return false;
	for (size_t i = 0; i < element->count; i++)
		if (!list_append(parse, list, element->values[i]))
			return false;
	list->elements++;
	return true;
}

bool parse_list_close(struct parse *parse, struct parse_list *list, struct span span)
{
	struct shape *shape = &list->shape;
	if (shape->ndim == MAX_DIMS) {
		FAIL(parse, STATUS_LIMIT, span, "more than %d dimensions", MAX_DIMS);
		return false;
	}
	memmove(shape->dim + 1, shape->dim, (size_t)shape->ndim * sizeof *shape->dim);
	shape->dim[0] = list->elements;
	shape->ndim++;
	return true;
}

/* Runs the scanner and the parser over the source. 0 if it parses. */
static int run_parser(struct parse *parse)
{
	void *scanner = NULL;
	size_t length = parse->source->length;
	/* flex writes into its buffer, which ends in two NULs. */
	char *text = arena_array(parse->context->arena, length + 2, 1);
	if (!text || setjmp(parse->fatal))
		return -1;
	if (length)
		memcpy(text, parse->source->text, length);
	if (scanner_lex_init_extra(parse, &scanner) != 0 || !scanner__scan_buffer(text, length + 2, scanner))
		return -1;
	return yyparse(parse, scanner);
}

const char *statement_word(enum statement_kind kind)
{
	static const char *const words[STATEMENT_COUNT] = {
		[STATEMENT_INPUT] = "input",   [STATEMENT_PARAM] = "param", [STATEMENT_CONST] = "const",
		[STATEMENT_DEF] = "def",       [STATEMENT_STAGE] = "stage", [STATEMENT_NAME] = "name",
		[STATEMENT_REPEAT] = "repeat", [STATEMENT_FOR] = "for",     [STATEMENT_CHECKPOINT] = "checkpoint"};
	return words[kind];
}

const char *number_word(const char *word)
{
	if (!strcasecmp(word, "inf") || !strcasecmp(word, "infinity"))
		return "inf";
	return strcasecmp(word, "nan") ? NULL : "nan";
}

enum status syntax_parse(const struct context *context, struct syntax *syntax, const struct source *source)
{
	struct diags *diags = context->diags;
	*syntax = (struct syntax){.source = source};
	if (source->length > MAX_SOURCE)
		return diag_file(diags, STATUS_LIMIT, source->name, -1, "a chain of %zu bytes is beyond the limit of %d MiB",
		                 source->length, MAX_SOURCE >> 20);
	struct parse *parse = arena_alloc(context->arena, sizeof *parse);
	TRY_ALLOC(parse, diags);
	*parse = (struct parse){.context = context,
	                        .source = source,
	                        .syntax = syntax,
	                        .line = 1,
	                        .stage_begin = true,
	                        .errors = diags->errors};
	const bool wrong = run_parser(parse) != 0, failed = has_failed(parse);
	if (context->arena->failed || diags->exhausted || (wrong && !failed))
		return diag_memory(diags);
	return failed ? diags->last->status : STATUS_OK;
}
