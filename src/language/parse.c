/*
 * Builds the syntax tree for the grammar's actions, and says what is wrong where
 * a tree cannot be built.
 *
 * Invariant: at most one message is given for a source, the one at the first
 * wrong token, since the parser stops at once. Everything is in the arena, the
 * scanner's memory too, so leaving at any point leaks nothing.
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

static void *fail(struct parse *parse)
{
	parse->failed = true;
	return NULL;
}

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
	diag_hint(parse->context->diags, "the '%c' at %u:%u is still open", parse->source->text[open->begin], open->line,
	          open->column);
}

int parse_fail(struct parse *parse, const struct span *span, const char *message)
{
	if (!parse->failed)
		diag_at(parse->context->diags, STATUS_CHAIN, parse->source, *span, "syntax error: %s", message);
	fail(parse);
	return YYUNDEF;
}

void parse_too_deep(struct parse *parse, struct span span)
{
	if (!parse->failed)
		diag_at(parse->context->diags, STATUS_LIMIT, parse->source, span, "nesting deeper than %d", MAX_NESTING);
	fail(parse);
}

static bool is_word(char c) { return c == '_' || isalnum((unsigned char)c); }

/* Whether WORD stands behind a `def` somewhere. */
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
 * Where the statement around the byte AT begins with a word that is known to nobody,
 * and near to one that begins a statement, what follows was not understood for that:
 * says so. A statement is taken to begin behind ; { } or the line's begin.
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
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE)
			known[count++] = statement_word(kind);
	for (size_t i = 0; word && i < count; i++)
		if (!strcmp(known[i], word))
			return false;
	const char *near =
		word && op_find(word) == OP_COUNT && !is_defined(parse, word) ? suggest_nearest(word, known, count) : NULL;
	if (near)
		diag_hint(parse->context->diags, "'%s' is no operation: did you mean '%s'?", word, near);
	return near != NULL;
}

void parse_syntax_error(struct parse *parse, struct span span, enum parse_found found, const char *const *wanted,
                        int count, const char *hint)
{
	enum { SHOWN = 40 };
	if (parse->failed || parse->context->arena->failed)
		return; /* the token that is none: its message has been given */
	fail(parse);
	char words[512] = "";
	size_t used = 0;
	for (int i = 0; i < count && used < sizeof words; i++)
		used += (size_t)snprintf(words + used, sizeof words - used, "%s%s",
		                         i == 0           ? ""
		                         : i + 1 == count ? " or "
		                                          : ", ",
		                         wanted[i]);
	const char *text = parse->source->text + span.begin;
	int length = (int)(span.end - span.begin);
	if (found == FOUND_TOKEN)
		diag_at(parse->context->diags, STATUS_CHAIN, parse->source, span, "syntax error: unexpected '%.*s'%s%s%s",
		        length > SHOWN ? SHOWN : length, text, length > SHOWN ? "..." : "", count ? ", expected " : "", words);
	else
		diag_at(parse->context->diags, STATUS_CHAIN, parse->source, span, "syntax error: the %s ends too early%s%s",
		        found == FOUND_END ? "chain" : "line", count ? ", expected " : "", words);
	if (hint_word(parse, span.begin))
		return;
	if (hint)
		diag_hint(parse->context->diags, "%s", hint);
	else if (found == FOUND_TOKEN && *text == '}' && parse->depth == 0)
		diag_hint(parse->context->diags, "no '{' is open here");
	else if (found != FOUND_TOKEN || strchr(")]}", *text))
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
	struct comment *comment = arena_alloc(parse->context->arena, sizeof *comment);
	char *copy = arena_strndup(parse->context->arena, text, length);
	if (!comment || !copy)
		return false;
	*comment = (struct comment){.text = copy, .line = span->line, .offset = span->begin};
	if (parse->last_comment)
		parse->last_comment->next = comment;
	else
		parse->syntax->comments = comment;
	parse->last_comment = comment;
	return true;
}

/* Blocks and statements. */

struct block *parse_block(struct parse *parse) { return arena_alloc(parse->context->arena, sizeof(struct block)); }

void parse_append(struct block *block, struct statement *statement)
{
	if (block->last)
		block->last->next = statement;
	else
		block->first = statement;
	block->last = statement;
}

void parse_finish_block(struct block *block, struct span open, struct span close)
{
	block->braced = true;
	block->span = open;
	block->span.end = close.end;
	block->end_line = close.line;
}

void parse_finish_chain(const struct parse *parse, struct block *chain)
{
	chain->span = (struct span){0, (uint32_t)parse->source->length, 1, 1};
	chain->end_line = parse->line;
}

struct statement *parse_statement(struct parse *parse, enum statement_kind kind, struct span span, const char *name,
                                  struct span name_span)
{
	struct statement *statement = arena_alloc(parse->context->arena, sizeof *statement);
	if (statement)
		*statement = (struct statement){.kind = kind, .span = span, .name = name, .name_span = name_span};
	return statement;
}

struct statement *parse_declare(struct parse *parse, enum statement_kind kind, struct span span, const char *name,
                                struct span name_span, const struct declared *type, const struct init *init)
{
	static const struct declared no_type;
	static const struct init no_init;
	if (kind != STATEMENT_INPUT && type && type->type.shape.ndim > 0 && type->type.shape.dim[0] == -1) {
		diag_at(parse->context->diags, STATUS_CHAIN, parse->source, type->span,
		        "only the input has a streamed axis '*'");
		diag_hint(parse->context->diags, "give %s's extent as a number", name);
		return fail(parse);
	}
	struct statement *statement = parse_statement(parse, kind, span, name, name_span);
	if (statement) {
		statement->type = type ? type : &no_type;
		statement->init = init ? init : &no_init;
	}
	return statement;
}

struct statement *parse_def(struct parse *parse, struct span span, const char *name, struct span name_span,
                            struct name_list *parameters, struct block *block)
{
	struct statement *statement = parse_statement(parse, STATEMENT_DEF, span, name, name_span);
	if (statement) {
		statement->names = parameters;
		statement->block = block;
	}
	return statement;
}

struct statement *parse_stage(struct parse *parse, struct span span, const char *name, struct span name_span,
                              const struct operand_list *operands, const struct option_list *options)
{
	struct statement *statement = parse_statement(parse, STATEMENT_STAGE, span, name, name_span);
	if (statement) {
		statement->operands = operands->first;
		statement->options = options->first;
	}
	return statement;
}

/* Whether NUMBER is an integer that fits int64. */
static bool check_integer(struct parse *parse, const struct parse_number *number, struct span span)
{
	if (number->integer)
		return true;
	const char *digits = number->text + (number->text[0] == '-');
	diag_at(parse->context->diags, STATUS_CHAIN, parse->source, span, "'%s' is not an integer%s", number->text,
	        digits[strspn(digits, "0123456789")] ? "" : " that fits in 64 bits");
	fail(parse);
	return false;
}

struct statement *parse_repeat(struct parse *parse, struct span span, struct span name_span,
                               const struct parse_number *count, struct span count_span, struct block *block)
{
	if (!check_integer(parse, count, count_span))
		return NULL;
	struct statement *statement = parse_statement(parse, STATEMENT_REPEAT, span, "repeat", name_span);
	if (statement) {
		statement->count = count->whole;
		statement->block = block;
	}
	return statement;
}

struct statement *parse_repeat_stage(struct parse *parse, struct span span, struct span name_span,
                                     const struct parse_number *count, struct span count_span, struct statement *stage)
{
	struct block *block = parse_block(parse);
	if (!block)
		return NULL;
	parse_append(block, stage);
	block->span = stage->span;
	block->end_line = parse->line;
	return parse_repeat(parse, span, name_span, count, count_span, block);
}

struct statement *parse_for(struct parse *parse, struct span span, struct span name_span, struct name_list *names,
                            struct name_list *over, struct block *block)
{
	struct statement *statement = parse_statement(parse, STATEMENT_FOR, span, "for", name_span);
	if (statement) {
		statement->names = names;
		statement->over = over;
		statement->block = block;
	}
	return statement;
}

struct statement *parse_checkpoint(struct parse *parse, struct span span, struct span name_span,
                                   const struct option_list *options, struct block *block)
{
	struct statement *statement = parse_statement(parse, STATEMENT_CHECKPOINT, span, "checkpoint", name_span);
	if (statement) {
		statement->options = options->first;
		statement->block = block;
	}
	return statement;
}

bool parse_add_name(struct parse *parse, struct name_chain *to, const struct name_chain *from, const char *name,
                    struct span span)
{
	struct name_list *item = arena_alloc(parse->context->arena, sizeof *item);
	if (!item)
		return false;
	*item = (struct name_list){.name = name, .span = span};
	if (from) {
		from->last->next = item;
		*to = (struct name_chain){from->first, item};
	} else {
		*to = (struct name_chain){item, item};
	}
	return true;
}

/* Operands and constant expressions. */

void parse_add_operand(struct operand_list *list, struct operand *operand)
{
	if (list->last)
		list->last->next = operand;
	else
		list->first = operand;
	list->last = operand;
}

static struct operand *operand_new(struct parse *parse, enum operand_kind kind, const char *text, struct span span)
{
	struct operand *operand = arena_alloc(parse->context->arena, sizeof *operand);
	if (operand)
		*operand = (struct operand){.kind = kind, .span = span, .text = text, .index = NO_INDEX};
	return operand;
}

struct operand *parse_number_operand(struct parse *parse, const struct parse_number *number, struct span span)
{
	struct operand *operand = operand_new(parse, OPERAND_NUMBER, number->text, span);
	if (operand) {
		operand->number = number->value;
		operand->integer = number->integer;
		operand->whole = number->whole;
	}
	return operand;
}

struct operand *parse_name_operand(struct parse *parse, const char *name, const struct parse_number *index,
                                   struct span index_span, struct span span)
{
	if (index && !check_integer(parse, index, index_span))
		return NULL;
	struct operand *operand = operand_new(parse, OPERAND_NAME, name, span);
	if (operand && index)
		operand->index = index->whole == NO_INDEX ? NO_INDEX + 1 : index->whole; /* beyond any array, both */
	return operand;
}

/* Whether the sign at the end of TEXT belongs to a number's exponent, or stands before what it negates. */
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
 * The source at SPAN in one form: no comments, one blank after a comma and on both
 * sides of + - * / between operands, none elsewhere. (Such text has no strings.)
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
	struct operand *operand = text ? operand_new(parse, OPERAND_NUMBER, text, span) : NULL;
	if (!operand)
		return NULL;
	operand->number = value->value;
	operand->integer = trunc(value->value) == value->value && fabs(value->value) <= 0x1p53;
	if (operand->integer)
		operand->whole = (int64_t)value->value;
	return operand;
}

struct operand *parse_block_operand(struct parse *parse, struct block *block, struct span span)
{
	struct operand *operand = operand_new(parse, OPERAND_BLOCK, NULL, span);
	if (operand)
		operand->block = block;
	return operand;
}

bool parse_negate(struct parse *parse, struct parse_number *to, const struct parse_number *from)
{
	*to = *from;
	to->value = -from->value;
	to->whole = -from->whole;
	if (!from->integer && !strcmp(from->text, "9223372036854775808")) {
		to->integer = true;
		to->whole = INT64_MIN;
	}
	to->text = arena_printf(parse->context->arena, "-%s", from->text);
	return to->text != NULL;
}

/* Whether what begins at AT is the first word within the parentheses of load. */
static bool is_in_load(const struct parse *parse, uint32_t at)
{
	static const char open[] = "load(";
	const size_t length = sizeof open - 1;
	return at >= length && !memcmp(parse->source->text + at - length, open, length);
}

bool parse_constant(struct parse *parse, struct parse_value *value, const char *name, struct span span)
{
	static const char *const names[] = {"pi", "e", "inf", "nan"};
	*value = (struct parse_value){0};
	if (!strcmp(name, "pi")) {
		value->value = 3.14159265358979323846;
	} else if (!strcmp(name, "e")) {
		value->value = 2.71828182845904523536;
	} else {
		diag_at(parse->context->diags, STATUS_CHAIN, parse->source, span, "'%s' in a constant expression", name);
		const char *near = suggest_nearest(name, names, sizeof names / sizeof *names);
		if (hint_word(parse, span.begin))
			;
		else if (is_in_load(parse, span.begin))
			diag_hint(parse->context->diags, "a path is quoted, as in load(\"w.npy\")");
		else if (near)
			diag_hint(parse->context->diags, "did you mean '%s'?", near);
		else
			diag_hint(parse->context->diags, "a constant expression has numbers, pi, e and + - * / ^ ( )");
		fail(parse);
		return false;
	}
	return true;
}

/* Operators that open to the right wait on the parser's stack: they nest as brackets do. */
static bool check_depth(struct parse *parse, int depth, struct span span)
{
	if (depth <= MAX_NESTING)
		return true;
	parse_too_deep(parse, span);
	return false;
}

bool parse_power(struct parse *parse, struct parse_value *to, const struct parse_value *base,
                 const struct parse_value *exponent, struct span span)
{
	*to = (struct parse_value){pow(base->value, exponent->value), exponent->depth + 1};
	return check_depth(parse, to->depth, span);
}

bool parse_minus(struct parse *parse, struct parse_value *to, const struct parse_value *from, struct span span)
{
	*to = (struct parse_value){-from->value, from->depth + 1};
	return check_depth(parse, to->depth, span);
}

/* Options. */

void parse_add_option(struct option_list *list, struct option *option)
{
	if (list->last)
		list->last->next = option;
	else
		list->first = option;
	list->last = option;
}

struct option *parse_option(struct parse *parse, const char *name, struct span span, enum value_kind kind,
                            const char *text, struct span value_span)
{
	struct option *option = arena_alloc(parse->context->arena, sizeof *option);
	if (option)
		*option = (struct option){.name = name, .span = span, .value_span = value_span, .kind = kind, .text = text};
	return option;
}

struct option *parse_number_option(struct parse *parse, const char *name, struct span span,
                                   const struct parse_number *number, struct span value_span)
{
	struct option *option = parse_option(parse, name, span, VALUE_NUMBER, number->text, value_span);
	if (option) {
		option->number = number->value;
		option->integer = number->integer;
		option->whole = number->whole;
	}
	return option;
}

struct option *parse_word_option(struct parse *parse, const char *name, struct span span, const char *word,
                                 struct span value_span)
{
	bool truth = !strcmp(word, "true") || !strcmp(word, "false");
	struct option *option = parse_option(parse, name, span, truth ? VALUE_BOOL : VALUE_NAME, word, value_span);
	if (option)
		option->boolean = truth && word[0] == 't';
	return option;
}

struct option *parse_integers_option(struct parse *parse, const char *name, struct span span,
                                     const struct parse_integers *integers, struct span open, struct span close)
{
	open.end = close.end;
	struct option *option = parse_option(parse, name, span, VALUE_INTEGERS, NULL, open);
	if (option && integers) {
		option->integers = integers->items;
		option->count = integers->count;
	}
	return option;
}

bool parse_add_integer(struct parse *parse, struct parse_integers *to, const struct parse_integers *from,
                       const struct parse_number *number, struct span span)
{
	struct parse_integers list = from ? *from : (struct parse_integers){0};
	if (!check_integer(parse, number, span))
		return false;
	int64_t *grown = arena_grow(parse->context->arena, list.items, list.count, &list.capacity, sizeof *grown);
	if (!grown)
		return false;
	list.items = grown;
	grown[list.count++] = number->whole;
	*to = list;
	return true;
}

/* Types. */

struct declared *parse_type(struct parse *parse, const char *dtype, struct span dtype_span, const struct shape *shape,
                            struct span span)
{
	static const char *const names[] = {"f16", "bf16", "f32", "f64", "i32", "i64", "bool"};
	enum { NAMES = sizeof names / sizeof *names };
	bool known = false;
	for (int i = 0; i < NAMES; i++)
		known = known || !strcmp(names[i], dtype);
	if (!known) {
		diag_at(parse->context->diags, STATUS_CHAIN, parse->source, dtype_span, "unknown type '%s'", dtype);
		const char *near = suggest_nearest(dtype, names, NAMES);
		if (near)
			diag_hint(parse->context->diags, "did you mean '%s'?", near);
		else
			diag_hint(parse->context->diags, "types are f16, bf16, f32, f64, i32, i64 and bool");
		return fail(parse);
	}
	struct declared *declared = arena_alloc(parse->context->arena, sizeof *declared);
	if (declared) {
		declared->given = true;
		declared->span = span;
		declared->type.dtype = dtype_find(dtype, strlen(dtype));
		if (shape)
			declared->type.shape = *shape;
	}
	return declared;
}

struct shape *parse_extent(struct parse *parse, struct shape *shape, const struct parse_number *number,
                           struct span span)
{
	if (!number && shape) {
		diag_at(parse->context->diags, STATUS_CHAIN, parse->source, span,
		        "only the first axis can be streamed with '*'");
		return fail(parse);
	}
	if (shape && shape->ndim == MAX_DIMS) {
		diag_at(parse->context->diags, STATUS_LIMIT, parse->source, span, "more than %d dimensions", MAX_DIMS);
		return fail(parse);
	}
	if (number && !check_integer(parse, number, span))
		return NULL;
	if (!shape)
		shape = arena_alloc(parse->context->arena, sizeof *shape);
	if (shape)
		shape->dim[shape->ndim++] = number ? number->whole : -1;
	return shape;
}

/* Initial values. */

static struct init *init_new(struct parse *parse, enum init_kind kind, struct span span)
{
	const char *text = kind == INIT_LOAD ? NULL : canonical_text(parse, span);
	struct init *init = arena_alloc(parse->context->arena, sizeof *init);
	if (!init || (kind != INIT_LOAD && !text))
		return NULL;
	*init = (struct init){.kind = kind, .span = span, .text = text};
	return init;
}

struct init *parse_init_number(struct parse *parse, double value, struct span span)
{
	struct init *init = init_new(parse, INIT_NUMBER, span);
	if (!init || !(init->values = arena_alloc(parse->context->arena, sizeof *init->values)))
		return NULL;
	init->values[0] = value;
	init->count = 1;
	return init;
}

struct init *parse_init_list(struct parse *parse, const struct parse_list *list, struct span span)
{
	struct init *init = init_new(parse, INIT_LIST, span);
	if (init) {
		init->values = list->values;
		init->count = list->count;
		init->shape = list->shape;
	}
	return init;
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
static const struct form *find_form(struct parse *parse, const char *word, struct span span)
{
	const char *names[FORMS], *number = number_word(word);
	for (int i = 0; i < FORMS; i++) {
		if (!strcmp(forms[i].name, word))
			return &forms[i];
		names[i] = forms[i].name;
	}
	diag_at(parse->context->diags, STATUS_CHAIN, parse->source, span, "unknown initial value '%s'", word);
	const char *near = suggest_nearest(word, names, FORMS);
	if (number)
		diag_hint(parse->context->diags, "the number is written %s", number);
	else if (near)
		diag_hint(parse->context->diags, "did you mean '%s'?", near);
	else if (!strcmp(word, "pi") || !strcmp(word, "e"))
		diag_hint(parse->context->diags, "a constant expression is written in parentheses: (%s)", word);
	else
		diag_hint(parse->context->diags,
		          "it is a number, a list, load(\"FILE\"), zeros, ones, eye, full, normal or uniform");
	return fail(parse);
}

static void *wrong_usage(struct parse *parse, const struct form *form, struct span span)
{
	diag_at(parse->context->diags, STATUS_CHAIN, parse->source, span, "'%s' is written %s", form->name, form->usage);
	return fail(parse);
}

struct init *parse_init_word(struct parse *parse, const char *word, struct span span)
{
	const struct form *form = find_form(parse, word, span);
	if (!form)
		return NULL;
	if (form->arguments || form->kind == INIT_LOAD)
		return wrong_usage(parse, form, span);
	return init_new(parse, form->kind, span);
}

struct init *parse_init_load(struct parse *parse, const char *word, struct span word_span, const char *path,
                             const char *key, struct span span)
{
	const struct form *form = find_form(parse, word, word_span);
	if (!form)
		return NULL;
	if (form->kind != INIT_LOAD)
		return wrong_usage(parse, form, span);
	struct init *init = init_new(parse, INIT_LOAD, span);
	if (init) {
		init->path = path;
		init->key = key;
	}
	return init;
}

struct init *parse_init_call(struct parse *parse, const char *word, struct span word_span,
                             const struct parse_list *arguments, struct span span)
{
	const struct form *form = find_form(parse, word, word_span);
	if (!form)
		return NULL;
	if (form->kind == INIT_LOAD || arguments->shape.ndim || arguments->count != form->arguments)
		return wrong_usage(parse, form, span);
	struct init *init = init_new(parse, form->kind, span);
	if (init) {
		init->values = arguments->values;
		init->count = arguments->count;
	}
	return init;
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
	diag_at(parse->context->diags, STATUS_CHAIN, parse->source, span,
	        "a ragged list: an element of shape %s after one of shape %s", shape_format(shape, is),
	        shape_format(&list->shape, was));
	fail(parse);
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
		diag_at(parse->context->diags, STATUS_LIMIT, parse->source, span, "more than %d dimensions", MAX_DIMS);
		fail(parse);
		return false;
	}
	memmove(shape->dim + 1, shape->dim, (size_t)shape->ndim * sizeof *shape->dim);
	shape->dim[0] = list->elements;
	shape->ndim++;
	return true;
}

/* Runs the scanner and the parser over the parse's source: 0, or not. */
static int run(struct parse *parse)
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
	if (!parse)
		return diag_memory(diags);
	parse->context = context;
	parse->source = source;
	parse->syntax = syntax;
	parse->line = 1;
	parse->stage_begin = true;
	bool wrong = run(parse) != 0;
	if (context->arena->failed || diags->exhausted || (wrong && !parse->failed))
		return diag_memory(diags);
	return parse->failed ? diags->last->status : STATUS_OK;
}
