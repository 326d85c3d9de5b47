/*
 * Builds the syntax tree for the grammar's actions, and reports why a tree cannot be built.
 *
 * Invariants: a source gets at most one message, at its first wrong token, because the parser stops there. All memory,
 * the scanner's too, is the arena's: leaving at any point leaks nothing.
 * Tests: tests/unit/test_syntax.c
 */
#include "language/parse.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/suggest.h"
#include "ops/op.h"
#include "parser.h"

#include "scanner.h"

/* Errors. */

void *parse_copy(struct arena *arena, const void *from, size_t size)
{
	void *made = arena_alloc(arena, size);
	return made ? memcpy(made, from, size) : NULL;
}

const char *parse_word(struct parse *parse, const char *text, size_t length)
{
	const char **recent = &parse->recent[hash_bytes(HASH_START, text, length) % RECENT_WORDS];
	if (!*recent || strncmp(*recent, text, length) != 0 || (*recent)[length])
		*recent = arena_strndup(parse->context->arena, text, length);
	return *recent;
}

static bool has_failed(const struct parse *parse) { return parse->context->diags->errors != parse->errors; }

/* Returns the byte that opened the innermost bracket, 'r' for a `repeat`, or 0 if none is open. */
static char open_byte(const struct parse *parse)
{
	return parse->depth > 0 ? parse->source->text[parse->open[parse->depth - 1].begin] : 0;
}

int parse_fail(struct parse *parse, const struct span *span, const char *message)
{
	if (!has_failed(parse))
		PARSE_FAIL(parse, STATUS_CHAIN, *span, "syntax error: %s", message);
	return YYUNDEF;
}

void parse_too_deep(struct parse *parse, struct span span)
{
	if (!has_failed(parse))
		PARSE_FAIL(parse, STATUS_LIMIT, span, "nesting deeper than %d", MAX_NESTING);
}

static bool is_word(char c) { return c == '_' || isalnum((unsigned char)c); }

bool parse_defines(const struct parse *parse, const char *word)
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
 * Hints at the keyword nearest to the unknown word that begins the statement around byte AT: that word made the parser
 * misread the rest. Returns false if no keyword is near. A statement begins after ; { } or a newline.
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
	if (!word || op_find(word) != OP_COUNT || parse_defines(parse, word))
		return false;
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE && strcmp(known[count++] = statement_word(kind), word) == 0)
			return false;
	const char *near = suggest_nearest(word, known, count);
	if (near)
		PARSE_HINT(parse, "'%s' is no operation: did you mean '%s'?", word, near);
	return near != NULL;
}

void parse_syntax_error(struct parse *parse, struct span span, const char *const *wanted, int count, const char *hint)
{
	enum { SHOWN = 40 };
	if (has_failed(parse) || parse->context->arena->failed || parse->nodes->failed)
		return; /* the scanner failed, and left no token to report */
	char words[512] = "";
	size_t used = 0;
	for (int i = 0; i < count && used < sizeof words; i++) {
		const char *before = i == 0 ? ", expected " : i + 1 == count ? " or " : ", ";
		used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", before, wanted[i]);
	}
	const char *text = parse->source->text + span.begin;
	const int length = (int)(span.end - span.begin);
	const bool end = span.begin == parse->source->length, token = !end && *text != '\n';
	if (token)
		PARSE_FAIL(parse, STATUS_CHAIN, span, "syntax error: unexpected '%.*s'%s%s", length > SHOWN ? SHOWN : length,
		           text, length > SHOWN ? "..." : "", words);
	else
		PARSE_FAIL(parse, STATUS_CHAIN, span, "syntax error: the %s ends too early%s", end ? "chain" : "line", words);
	const char *recipe = parse_hint_recipe(parse, span);
	if (recipe) {
		PARSE_HINT(parse, "%s", recipe);
		return;
	}
	if (hint_word(parse, span.begin))
		return;
	parse_end_statement(parse); /* leaves a bracket as the innermost open one */
	const struct span *open = parse->depth > 0 ? &parse->open[parse->depth - 1] : NULL;
	if (hint)
		PARSE_HINT(parse, "%s", hint);
	else if (token && *text == '}' && !open && parse->unmatched)
		PARSE_HINT(parse, "no '{' is open here");
	else if (open && (!token || strchr(")]}", *text)))
		PARSE_HINT(parse, "the '%c' at %u:%u is still open", open_byte(parse), open->line, open->column);
}

/* Brackets and comments. */

bool parse_open(struct parse *parse, const struct span *span, bool body)
{
	if (body && open_byte(parse) == 'r')
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
	while (open_byte(parse) == 'r')
		parse->depth--;
}

void parse_close(struct parse *parse, char bracket)
{
	parse_end_statement(parse);
	const char open = open_byte(parse);
	if (open && bracket == (open == '(' ? ')' : open == '[' ? ']' : '}'))
		parse->depth--;
	else
		parse->unmatched = true;
}

bool parse_add_comment(struct parse *parse, const char *text, size_t length, const struct span *span)
{
	while (strchr(" \t\r\f\v", text[length - 1])) /* it begins with '#' */
		length--;
	char *copy = arena_strndup(parse->nodes, text, length);
	struct comment *comment = PARSE_NEW(parse, struct comment, .text = copy, .line = span->line, .offset = span->begin);
	if (!comment || !copy)
		return false;
	PARSE_APPEND(&parse->comments, comment);
	return true;
}

/* Numbers and constant expressions. */

bool parse_check_integer(struct parse *parse, const struct parse_number *number, struct span span)
{
	if (number->number.integer)
		return true;
	const double value = number->number.value;
	const bool large = isfinite(value) && fabs(value) > 0x1p53;
	PARSE_FAIL(parse, STATUS_CHAIN, span, "'%s' is not an integer%s", number->text,
	           large ? " that fits in 64 bits" : "");
	return false;
}

/* Text that grows in an arena. */
struct growing {
	struct arena *arena;
	char *bytes;
	size_t length, capacity;
};

static void grow_canonical(void *context, const char *text, size_t length)
{
	struct growing *to = context;
	for (size_t i = 0; i < length; i++) {
		char *byte = arena_append(to->arena, &to->bytes, &to->length, &to->capacity, 1);
		if (byte)
			*byte = text[i];
	}
}

/* Returns in ARENA the canonical form of the source at SPAN (syntax_write_source); NULL where memory is short. */
static const char *canonical_text(const struct parse *parse, struct arena *arena, struct span span)
{
	struct growing to = {.arena = arena};
	syntax_write_source(parse->source->text + span.begin, span.end - span.begin, grow_canonical, &to);
	return arena_append(arena, &to.bytes, &to.length, &to.capacity, 1) ? to.bytes : NULL;
}

bool parse_negate(struct parse *parse, struct parse_number *number)
{
	struct number *n = &number->number;
	n->value = -n->value;
	n->as_integer = -n->as_integer;
	if (!n->integer && !strcmp(number->text, "9223372036854775808"))
		*n = (struct number){n->value, true, INT64_MIN};
	number->text = arena_printf(parse->nodes, "-%s", number->text);
	return number->text != NULL;
}

bool parse_check_word(struct parse *parse, const char *name, struct span span)
{
	static const char *const reserved[] = {"and", "or", "not", "true", "false", "inf", "nan"};
	for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
		if (!strcmp(name, reserved[i])) {
			PARSE_FAIL(parse, STATUS_CHAIN, span, "'%s' is a word of formulas and can't be a name there", name);
			return false;
		}
	return true;
}

/* Options. */

bool parse_check_limit(struct parse *parse, const char *name, struct span name_span)
{
	if (strcmp(name, "max")) {
		PARSE_FAIL(parse, STATUS_CHAIN, name_span, "unknown option '%s' for repeat while", name);
		PARSE_HINT(parse, "repeat while takes max=, the most iterations");
	}
	return !strcmp(name, "max");
}

bool parse_is_truth(const char *word) { return !strcmp(word, "true") || !strcmp(word, "false"); }

struct option *parse_hyphenated(struct parse *parse, struct span span)
{
	const char *text =
		arena_strndup(parse->context->arena, parse->source->text + span.begin, (size_t)(span.end - span.begin));
	return text ? PARSE_NEW(parse, struct option, .kind = VALUE_NAME, .text = text) : NULL;
}

/* Types. */

bool parse_check_type(struct parse *parse, const struct declared *type, const char *name)
{
	if (type->type.shape.ndim == 0 || type->type.shape.dim[0] != -1)
		return true;
	PARSE_FAIL(parse, STATUS_CHAIN, type->span, "only the input has a streamed axis '*'");
	PARSE_HINT(parse, "give %s's extent as a number", name);
	return false;
}

bool parse_check_stage_name(struct parse *parse, enum statement_kind kind, const char *name, struct span span)
{
	for (int word = 0; word < STATEMENT_COUNT; word++)
		if (word != STATEMENT_STAGE && !strcmp(name, statement_word(word))) {
			PARSE_FAIL(parse, STATUS_CHAIN, span, "'%s' begins a statement and can't be a %s", name,
			           statement_word(kind));
			return false;
		}
	return true;
}

bool parse_check_same(struct parse *parse, const char *word, struct span span)
{
	if (!strcmp(word, "same"))
		return true;
	PARSE_FAIL(parse, STATUS_CHAIN, span, "'%s' is no result of a program", word);
	PARSE_HINT(parse, "write the result's type, such as f64[512,512], or `same` if it is that of the current value");
	return false;
}

struct declared *parse_type(struct parse *parse, const char *dtype, struct span dtype_span,
                            const struct extent_list *extents, struct span span)
{
	static const char *const names[] = {"f16", "bf16", "f32", "f64", "i32", "i64", "bool"};
	enum { NAMES = sizeof names / sizeof *names };
	static const struct shape none;
	const struct shape *shape = extents->shape ? extents->shape : &none;
	for (int i = 0; i < NAMES; i++)
		if (!strcmp(names[i], dtype))
			return PARSE_KEEP(parse, struct declared, .given = true, .span = span, .extents = extents->formulas,
			                  .type = {.dtype = dtype_find(dtype, strlen(dtype)), .shape = *shape});
	PARSE_FAIL(parse, STATUS_CHAIN, dtype_span, "unknown type '%s'", dtype);
	const char *near = suggest_nearest(dtype, names, NAMES);
	if (near)
		PARSE_HINT(parse, "did you mean '%s'?", near);
	else
		PARSE_HINT(parse, "types are f16, bf16, f32, f64, i32, i64 and bool");
	return NULL;
}

/* Initial values. */

/* Returns a copy of INIT, of KIND, with copies of its values and of SHAPE, or NULL. */
static struct init *keep_init(struct parse *parse, enum init_kind kind, const struct init *init,
                              const struct shape *shape)
{
	struct arena *arena = parse->context->arena;
	struct init *kept = parse_copy(arena, init, sizeof *init);
	if (!kept)
		return NULL;
	kept->kind = kind;
	kept->text = init->path ? NULL : canonical_text(parse, arena, init->span);
	kept->values = init->count ? parse_copy(arena, init->values, init->count * sizeof *init->values) : NULL;
	kept->shape = shape ? parse_copy(arena, shape, sizeof *shape) : NULL;
	return arena->failed ? NULL : kept;
}

struct init *parse_init_number(struct parse *parse, struct formula *formula, struct span span)
{
	struct list_formula *one = formula ? PARSE_NEW(parse, struct list_formula, .formula = formula) : NULL;
	if (!one)
		return NULL;
	const bool literal = formula->kind == FORMULA_NUMBER && !formula->first;
	const double value = literal ? formula->number.value : NAN;
	const struct init init = {
		.span = span, .values = &value, .count = 1, .formulas = literal ? NULL : one, .formula_count = !literal};
	return keep_init(parse, INIT_NUMBER, &init, NULL);
}

struct init *parse_init_list(struct parse *parse, const struct parse_list *list)
{
	const struct list *from = &list->parsed;
	const struct init init = {.span = from->span,
	                          .values = from->values,
	                          .count = from->count,
	                          .formulas = from->formulas,
	                          .formula_count = from->formula_count};
	return keep_init(parse, INIT_LIST, &init, &from->shape);
}

static const struct form {
	const char *name;
	enum init_kind kind;
	size_t arguments;
	const char *usage;
} forms[] = {{"zeros", INIT_ZEROS, 0, "zeros"},
             {"ones", INIT_ONES, 0, "ones"},
             {"eye", INIT_EYE, 0, "eye"},
             {"tril", INIT_TRIL, 0, "tril"},
             {"triu", INIT_TRIU, 0, "triu"},
             {"arange", INIT_ARANGE, 2, "arange or arange(start, step)"},
             {"full", INIT_FULL, 1, "full(v)"},
             {"normal", INIT_NORMAL, 2, "normal(std, seed)"},
             {"uniform", INIT_UNIFORM, 3, "uniform(lo, hi, seed)"},
             {"load", INIT_LOAD, 0, "load(\"FILE\") or load(\"FILE\", \"key\")"}};
enum { FORMS = sizeof forms / sizeof *forms };

static void unknown_form(struct parse *parse, const char *name, struct span span)
{
	const char *names[FORMS], *number = number_word(name);
	for (int i = 0; i < FORMS; i++)
		names[i] = forms[i].name;
	PARSE_FAIL(parse, STATUS_CHAIN, span, "unknown initial value '%s'", name);
	const char *near = suggest_nearest(name, names, FORMS);
	if (number)
		PARSE_HINT(parse, "the number is written %s", number);
	else if (near)
		PARSE_HINT(parse, "did you mean '%s'?", near);
	else if (names_constant(name))
		PARSE_HINT(parse, "a constant expression is written in parentheses: (%s)", name);
	else
		PARSE_HINT(
			parse,
			"it is a number, a list, load(\"FILE\"), zeros, ones, eye, tril, triu, arange, full, normal or uniform");
}

struct init *parse_init_form(struct parse *parse, const char *name, struct span name_span, const struct init *init)
{
	const struct form *form = forms;
	while (form < forms + FORMS && strcmp(form->name, name))
		form++;
	if (form == forms + FORMS)
		unknown_form(parse, name, name_span);
	else if ((form->kind == INIT_LOAD) != (init->path != NULL) || init->shape ||
	         (init->count != form->arguments && (form->kind != INIT_ARANGE || init->count > 0)))
		PARSE_FAIL(parse, STATUS_CHAIN, init->span, "'%s' is written %s", name, form->usage);
	return has_failed(parse) ? NULL : keep_init(parse, form->kind, init, NULL);
}

/* Runs the scanner and the parser over the source. Returns 0 if it parses. */
static int run_parser(struct parse *parse)
{
	void *scanner = NULL;
	size_t length = parse->source->length;
	/* flex writes into its buffer, which ends in two NULs. */
	char *text = arena_array(parse->nodes, length + 2, 1);
	if (!text || setjmp(parse->fatal))
		return -1;
	if (length)
		memcpy(text, parse->source->text, length);
	if (scanner_lex_init_extra(parse, &scanner) != 0 || !scanner__scan_buffer(text, length + 2, scanner))
		return -1;
	return yyparse(parse, scanner);
}

const char *number_word(const char *word)
{
	if (!strcasecmp(word, "inf") || !strcasecmp(word, "infinity"))
		return "inf";
	return strcasecmp(word, "nan") ? NULL : "nan";
}

enum status syntax_parse(const struct context *context, struct syntax *syntax, const struct source *source)
{
	return syntax_parse_apart(context, context->arena, syntax, source);
}

enum status syntax_parse_apart(const struct context *context, struct arena *nodes, struct syntax *syntax,
                               const struct source *source)
{
	struct diags *diags = context->diags;
	*syntax = (struct syntax){.source = source};
	if (source->length > MAX_SOURCE)
		return diag_file(diags, STATUS_LIMIT, source->name, -1, "a chain of %zu bytes is beyond the limit of %d MiB",
		                 source->length, MAX_SOURCE >> 20);
	struct parse *parse = arena_alloc(nodes, sizeof *parse);
	TRY_ALLOC(parse, diags);
	*parse = (struct parse){.context = context,
	                        .nodes = nodes,
	                        .source = source,
	                        .syntax = syntax,
	                        .line = 1,
	                        .stage_begin = true,
	                        .errors = diags->errors};
	const bool wrong = run_parser(parse) != 0, failed = has_failed(parse);
	syntax->comments = parse->comments.first;
	if (context->arena->failed || nodes->failed || diags->exhausted || (wrong && !failed))
		return diag_memory(diags);
	return failed ? diags->last->status : STATUS_OK;
}
