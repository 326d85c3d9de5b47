/*
 * Building the syntax tree. A function that fails has either given a message
 * (failed) or found memory short (exhausted); the parser stops at once.
 */
#include "chain/parse.h"

#include <math.h>
#include <string.h>

#include "parser.h"

#include "scanner.h"

static void *node(struct parse *parse, size_t size)
{
	void *made = arena_alloc(parse->arena, size);
	if (!made)
		parse->exhausted = true;
	return made;
}

static bool fail(struct parse *parse)
{
	parse->failed = true;
	return false;
}

/* Errors. */

static void hint_open(struct parse *parse)
{
	if (parse->depth > 0) {
		const struct span *open = &parse->open[parse->depth - 1];
		diag_hint(parse->diags, "the '%c' at %u:%u is still open", parse->source->text[open->begin], open->line,
		          open->column);
	}
}

int parse_fail(struct parse *parse, const struct span *span, const char *found)
{
	if (!parse->failed && !parse->exhausted)
		diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "syntax error: %s", found);
	parse->failed = true;
	return YYUNDEF;
}

void parse_syntax_error(struct parse *parse, const struct span *span, bool end, bool newline, const char *found,
                        const char *const *expected, int count)
{
	if (parse->failed || parse->exhausted)
		return;
	parse->failed = true;
	char wanted[256] = "";
	size_t used = 0;
	for (int i = 0; i < count && i < 5; i++) {
		const char *name = expected[i];
		bool last = i + 1 == (count < 5 ? count : 5);
		int n = snprintf(wanted + used, sizeof wanted - used, "%s%s", i == 0 ? "" : last ? " or " : ", ",
		                 !strcmp(name, "end of file") ? "the end" : name);
		if (n < 0 || used + (size_t)n >= sizeof wanted)
			break;
		used += (size_t)n;
	}
	const char *text = parse->source->text + span->begin;
	int length = (int)(span->end - span->begin > 40 ? 40 : span->end - span->begin);
	(void)found;
	if (end)
		diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "syntax error: the chain ends too early%s%s",
		        used && count <= 5 ? ": expected " : "", used && count <= 5 ? wanted : "");
	else if (newline)
		diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "syntax error: the line ends too early%s%s",
		        used && count <= 5 ? ": expected " : "", used && count <= 5 ? wanted : "");
	else
		diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "syntax error: unexpected '%.*s'%s%s", length, text,
		        used && count <= 5 ? ", expected " : "", used && count <= 5 ? wanted : "");
	if (end || newline)
		hint_open(parse);
	else if (count > 5 && *text == '}')
		diag_hint(parse->diags, "no '{' is open here");
}

/* Brackets and comments. */

bool parse_open(struct parse *parse, const struct span *span, char bracket)
{
	(void)bracket;
	if (parse->depth == MAX_NESTING) {
		diag_at(parse->diags, STATUS_LIMIT, parse->source, *span, "nesting deeper than %d", MAX_NESTING);
		return fail(parse);
	}
	parse->open[parse->depth++] = *span;
	return true;
}

void parse_close(struct parse *parse)
{
	if (parse->depth > 0)
		parse->depth--;
}

bool parse_add_comment(struct parse *parse, const char *text, size_t length, const struct span *span)
{
	struct comment *comment = node(parse, sizeof *comment);
	while (length && (text[length - 1] == '\r' || text[length - 1] == ' ' || text[length - 1] == '\t'))
		length--;
	char *copy = comment ? arena_strndup(parse->arena, text, length) : NULL;
	if (!copy) {
		parse->exhausted = true;
		return false;
	}
	*comment = (struct comment){.text = copy, .line = span->line, .offset = span->begin};
	if (parse->last_comment)
		parse->last_comment->next = comment;
	else
		parse->syntax->comments = comment;
	parse->last_comment = comment;
	return true;
}

/* Blocks and statements. */

struct block *parse_block(struct parse *parse)
{
	return node(parse, sizeof(struct block));
}

void parse_append(struct parse *parse, struct block *block, struct statement *statement)
{
	(void)parse;
	if (block->last)
		block->last->next = statement;
	else
		block->first = statement;
	block->last = statement;
}

void parse_finish_block(struct parse *parse, struct block *block, const struct span *open, const struct span *close)
{
	block->braced = open != NULL;
	if (open) {
		block->span = *open;
		block->span.end = close->end;
		block->end_line = close->line;
	} else {
		block->span = (struct span){0, (uint32_t)parse->source->length, 1, 1};
		block->end_line = parse->line + 1;
	}
}

struct statement *parse_statement(struct parse *parse, enum statement_kind kind, struct span span, const char *name,
                                  struct span name_span)
{
	struct statement *statement = node(parse, sizeof *statement);
	if (!statement)
		return NULL;
	statement->kind = kind;
	statement->span = span;
	statement->name = name;
	statement->name_span = name_span;
	return statement;
}

struct statement *parse_declare(struct parse *parse, enum statement_kind kind, struct span span, const char *name,
                                struct span name_span, const struct declared *declared, const struct init *init)
{
	struct statement *statement = parse_statement(parse, kind, span, name, name_span);
	if (!statement)
		return NULL;
	if (declared)
		statement->type = *declared;
	if (init)
		statement->init = *init;
	if (kind != STATEMENT_INPUT && declared)
		for (int i = 0; i < declared->type.shape.ndim; i++)
			if (declared->type.shape.dim[i] == -1) {
				diag_at(parse->diags, STATUS_CHAIN, parse->source, declared->span, "only the input has a streamed axis '*'");
				return fail(parse), NULL;
			}
	return statement;
}

struct statement *parse_repeat_stage(struct parse *parse, struct span span, struct span name_span, int64_t count,
                                     struct statement *stage)
{
	struct statement *statement = parse_statement(parse, STATEMENT_REPEAT, span, "repeat", name_span);
	struct block *block = statement ? parse_block(parse) : NULL;
	if (!block)
		return NULL;
	parse_append(parse, block, stage);
	block->span = stage->span;
	statement->count = count;
	statement->block = block;
	return statement;
}

bool parse_count(struct parse *parse, const struct parse_number *number, const struct span *span)
{
	if (number->integer)
		return true;
	diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "'%s' is not an integer%s", number->text,
	        strspn(number->text, "0123456789") == strlen(number->text) ? " that fits in 64 bits" : "");
	return fail(parse);
}

bool parse_add_name(struct parse *parse, struct name_chain *to, const struct name_chain *from, const char *name,
                    struct span span)
{
	struct name_list *item = node(parse, sizeof *item);
	if (!item)
		return false;
	*item = (struct name_list){.name = name, .span = span};
	if (from && from->last) {
		*to = *from;
		to->last->next = item;
	} else {
		to->first = item;
	}
	to->last = item;
	return true;
}

/* Operands. */

void parse_add_operand(struct operand_list *list, struct operand *operand)
{
	if (list->last)
		list->last->next = operand;
	else
		list->first = operand;
	list->last = operand;
}

static struct operand *operand_new(struct parse *parse, enum operand_kind kind, struct span span)
{
	struct operand *operand = node(parse, sizeof *operand);
	if (operand) {
		operand->kind = kind;
		operand->span = span;
		operand->index = -1;
	}
	return operand;
}

struct operand *parse_number_operand(struct parse *parse, const struct parse_number *number, struct span span)
{
	struct operand *operand = operand_new(parse, OPERAND_NUMBER, span);
	if (operand) {
		operand->text = number->text;
		operand->number = number->value;
		operand->integer = number->integer;
	}
	return operand;
}

struct operand *parse_name_operand(struct parse *parse, const char *name, int64_t index, struct span span)
{
	struct operand *operand = operand_new(parse, OPERAND_NAME, span);
	if (operand) {
		operand->text = name;
		operand->index = index;
	}
	return operand;
}

/* White space between the tokens of an expression is made one form. */
static const char *expression_text(struct parse *parse, struct span span)
{
	const char *from = parse->source->text + span.begin;
	size_t length = span.end - span.begin, used = 0;
	char *text = node(parse, 3 * length + 1);
	for (size_t i = 0; text && i < length; i++) {
		char c = from[i], before = used ? text[used - 1] : '(';
		if (c == '#')
			while (i < length && from[i] != '\n')
				i++;
		if (strchr(" \t\r\n\f\v#", c))
			continue;
		bool sign = (c == '-' || c == '+') && (strchr("(+-*/^ ", before) != NULL);
		bool exponent = (c == '-' || c == '+') && (before == 'e' || before == 'E') && used > 1 &&
		                strchr("0123456789.", text[used - 2]) != NULL;
		if (strchr("+-*/", c) && !sign && !exponent) {
			text[used++] = ' ';
			text[used++] = c;
			text[used++] = ' ';
		} else {
			text[used++] = c;
		}
	}
	return text;
}

struct operand *parse_expression_operand(struct parse *parse, double value, struct span span)
{
	struct operand *operand = operand_new(parse, OPERAND_NUMBER, span);
	if (operand) {
		operand->text = expression_text(parse, span);
		operand->number = value;
	}
	return operand && operand->text ? operand : NULL;
}

struct operand *parse_block_operand(struct parse *parse, struct block *block, struct span span)
{
	struct operand *operand = operand_new(parse, OPERAND_BLOCK, span);
	if (operand)
		operand->block = block;
	return operand;
}

bool parse_negate(struct parse *parse, struct parse_number *to, const struct parse_number *from)
{
	*to = *from;
	to->value = -from->value;
	to->whole = -from->whole;
	to->text = arena_printf(parse->arena, "-%s", from->text);
	return to->text || !(parse->exhausted = true);
}

bool parse_constant(struct parse *parse, double *value, const char *name, const struct span *span)
{
	if (!strcmp(name, "pi"))
		*value = 3.14159265358979323846;
	else if (!strcmp(name, "e"))
		*value = 2.71828182845904523536;
	else {
		diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "'%s' in a constant expression", name);
		diag_hint(parse->diags, "a constant expression has numbers, pi, e and + - * / ^ ( )");
		return fail(parse);
	}
	return true;
}

double parse_power(double base, double exponent)
{
	return pow(base, exponent);
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
	struct option *option = node(parse, sizeof *option);
	if (option)
		*option = (struct option){.name = name, .span = span, .value_span = value_span, .kind = kind, .text = text};
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

bool parse_add_integer(struct parse *parse, struct parse_integers *to, const struct parse_integers *from,
                       const struct parse_number *number, const struct span *span)
{
	struct parse_integers list = from ? *from : (struct parse_integers){0};
	if (!number->integer) {
		diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "'%s' is not an integer", number->text);
		return fail(parse);
	}
	int64_t *grown = arena_grow(parse->arena, list.items, list.count, &list.capacity, sizeof *grown);
	if (!grown)
		return !(parse->exhausted = true);
	list.items = grown;
	grown[list.count++] = number->whole;
	*to = list;
	return true;
}

/* Types and initial values. */

bool parse_type(struct parse *parse, struct declared **declared, const char *dtype, const struct span *dtype_span,
                const struct shape *shape, struct span span)
{
	static const char *const names[] = {"f16", "bf16", "f32", "f64", "i32", "i64", "bool"};
	struct declared *made = node(parse, sizeof *made);
	if (!made)
		return false;
	made->given = true;
	made->span = span;
	made->type.dtype = DTYPE_COUNT;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i], dtype))
			made->type.dtype = dtype_find(dtype, strlen(dtype));
	if (made->type.dtype == DTYPE_COUNT) {
		diag_at(parse->diags, STATUS_CHAIN, parse->source, *dtype_span, "unknown type '%s'", dtype);
		const char *near = suggest_nearest(dtype, names, sizeof names / sizeof *names);
		diag_hint(parse->diags, near ? "did you mean '%s'?" : "types are f16, bf16, f32, f64, i32, i64 and bool%s",
		          near ? near : "");
		return fail(parse);
	}
	if (shape)
		made->type.shape = *shape;
	*declared = made;
	return true;
}

bool parse_extent(struct parse *parse, struct shape **shape, const struct parse_number *number,
                  const struct span *span)
{
	if (!*shape && !(*shape = node(parse, sizeof **shape)))
		return false;
	if ((*shape)->ndim == MAX_DIMS) {
		diag_at(parse->diags, STATUS_LIMIT, parse->source, *span, "more than %d dimensions", MAX_DIMS);
		return fail(parse);
	}
	if (number && !parse_count(parse, number, span))
		return false;
	(*shape)->dim[(*shape)->ndim++] = number ? number->whole : -1;
	return true;
}

static struct init *init_new(struct parse *parse, enum init_kind kind)
{
	struct init *init = node(parse, sizeof *init);
	if (init)
		init->kind = kind;
	return init;
}

bool parse_init_number(struct parse *parse, struct init **init, double value)
{
	*init = init_new(parse, INIT_NUMBER);
	if (!*init || !((*init)->values = node(parse, sizeof *(*init)->values)))
		return false;
	(*init)->values[0] = value;
	(*init)->count = 1;
	return true;
}

bool parse_init_list(struct parse *parse, struct init **init, const struct parse_list *list)
{
	*init = init_new(parse, INIT_LIST);
	if (!*init)
		return false;
	(*init)->values = list->values;
	(*init)->count = list->count;
	(*init)->shape = list->shape;
	return true;
}

static const struct {
	const char *name;
	enum init_kind kind;
	size_t arguments;
	const char *usage;
} inits[] = {{"zeros", INIT_ZEROS, 0, "zeros"},
             {"ones", INIT_ONES, 0, "ones"},
             {"eye", INIT_EYE, 0, "eye"},
             {"full", INIT_FULL, 1, "full(v)"},
             {"normal", INIT_NORMAL, 2, "normal(std, seed)"},
             {"uniform", INIT_UNIFORM, 3, "uniform(lo, hi, seed)"},
             {"load", INIT_LOAD, 0, "load(\"FILE\") or load(\"FILE\", \"key\")"}};
enum { INITS = sizeof inits / sizeof *inits };

static int find_init(struct parse *parse, const char *word, const struct span *span)
{
	const char *names[INITS];
	for (int i = 0; i < INITS; i++) {
		if (!strcmp(inits[i].name, word))
			return i;
		names[i] = inits[i].name;
	}
	diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "unknown initial value '%s'", word);
	const char *near = suggest_nearest(word, names, INITS);
	if (near)
		diag_hint(parse->diags, "did you mean '%s'?", near);
	else
		diag_hint(parse->diags, "a number, a list, load(\"FILE\"), zeros, ones, eye, full, normal or uniform");
	fail(parse);
	return -1;
}

static bool wrong_usage(struct parse *parse, int kind, const struct span *span)
{
	diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "'%s' is written %s", inits[kind].name, inits[kind].usage);
	return fail(parse);
}

bool parse_init_word(struct parse *parse, struct init **init, const char *word, const struct span *span)
{
	int kind = find_init(parse, word, span);
	if (kind < 0)
		return false;
	if (inits[kind].arguments || inits[kind].kind == INIT_LOAD)
		return wrong_usage(parse, kind, span);
	return (*init = init_new(parse, inits[kind].kind)) != NULL;
}

bool parse_init_load(struct parse *parse, struct init **init, const char *word, const struct span *span,
                     const char *path, const char *key)
{
	int kind = find_init(parse, word, span);
	if (kind < 0)
		return false;
	if (inits[kind].kind != INIT_LOAD)
		return wrong_usage(parse, kind, span);
	if (!(*init = init_new(parse, INIT_LOAD)))
		return false;
	(*init)->path = path;
	(*init)->key = key;
	return true;
}

bool parse_init_call(struct parse *parse, struct init **init, const char *word, const struct span *span,
                     const struct parse_list *arguments)
{
	int kind = find_init(parse, word, span);
	if (kind < 0)
		return false;
	if (inits[kind].kind == INIT_LOAD || arguments->shape.ndim || arguments->count != inits[kind].arguments)
		return wrong_usage(parse, kind, span);
	if (!(*init = init_new(parse, inits[kind].kind)))
		return false;
	(*init)->values = arguments->values;
	(*init)->count = arguments->count;
	return true;
}

struct parse_list *parse_list(struct parse *parse)
{
	return node(parse, sizeof(struct parse_list));
}

struct parse_list *parse_list_number(struct parse *parse, double value)
{
	struct parse_list *list = parse_list(parse);
	if (!list || !(list->values = arena_grow(parse->arena, NULL, 0, &list->capacity, sizeof *list->values))) {
		parse->exhausted = true;
		return NULL;
	}
	list->values[0] = value;
	list->count = list->elements = 1;
	return list;
}

bool parse_list_join(struct parse *parse, struct parse_list *list, const struct parse_list *element,
                     const struct span *span)
{
	if (!shape_equal(&list->shape, &element->shape)) {
		char a[TYPE_TEXT], b[TYPE_TEXT];
		diag_at(parse->diags, STATUS_CHAIN, parse->source, *span, "a ragged list: an element of shape %s after one of %s",
		        shape_format(&element->shape, b), shape_format(&list->shape, a));
		return fail(parse);
	}
	for (size_t i = 0; i < element->count; i++) {
		double *grown = arena_grow(parse->arena, list->values, list->count, &list->capacity, sizeof *grown);
		if (!grown)
			return !(parse->exhausted = true);
		list->values = grown;
		grown[list->count++] = element->values[i];
	}
	list->elements++;
	return true;
}

bool parse_list_close(struct parse *parse, struct parse_list *list, const struct span *span)
{
	if (list->shape.ndim == MAX_DIMS) {
		diag_at(parse->diags, STATUS_LIMIT, parse->source, *span, "more than %d dimensions", MAX_DIMS);
		return fail(parse);
	}
	memmove(list->shape.dim + 1, list->shape.dim, (size_t)list->shape.ndim * sizeof *list->shape.dim);
	list->shape.dim[0] = list->elements;
	list->shape.ndim++;
	list->elements = 1;
	return true;
}

enum status syntax_parse(struct syntax *syntax, const struct source *source, struct arena *arena, struct diags *diags)
{
	memset(syntax, 0, sizeof *syntax);
	syntax->source = source;
	if (source->length > MAX_SOURCE)
		return diag_file(diags, STATUS_LIMIT, source->name, -1, "a chain of %zu bytes is beyond the limit of 16 MiB",
		                 source->length);
	struct parse *parse = arena_alloc(arena, sizeof *parse);
	if (!parse)
		return diag_memory(diags);
	*parse = (struct parse){.arena = arena, .diags = diags, .source = source, .syntax = syntax, .line = 1,
	                        .stage_begin = true};
	void *scanner = NULL;
	int errors = diags->errors;
	if (scanner_lex_init_extra(parse, &scanner) != 0)
		return diag_memory(diags);
	int result = 2;
	if (scanner__scan_bytes(source->text, (int)source->length, scanner))
		result = yyparse(parse, scanner);
	scanner_lex_destroy(scanner);
	if (parse->exhausted || arena->failed || (result && diags->errors == errors))
		return diag_memory(diags);
	return result || parse->failed ? diags->last->status : STATUS_OK;
}
