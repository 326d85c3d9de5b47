/*
 * Hints for syntax errors around formulas, made of the source's own words so that they can be pasted.
 *
 * Each returns NULL where it has no advice, or memory is short.
 * Tests: tests/cases/formulas.test
 */
#include "language/parse.h"

#include "language/recipes.h"
#include "ops/op.h"

#include <ctype.h>
#include <string.h>

enum { MOST_SHOWN = 60 };

/* A piece of the source on one line. */
struct piece {
	const char *text;
	size_t length;
};

static bool is_name_byte(char c) { return c == '_' || isalnum((unsigned char)c); }

static struct piece trimmed(const char *begin, const char *end)
{
	while (begin < end && strchr(" \t\r", *begin))
		begin++;
	while (end > begin && strchr(" \t\r", end[-1]))
		end--;
	return (struct piece){begin, (size_t)(end - begin)};
}

/* Returns the line's part around byte AT that is between ; { } # and the line's ends. */
static struct piece statement_around(const struct parse *parse, uint32_t at)
{
	const char *text = parse->source->text, *begin = text + at, *end = begin, *last = text + parse->source->length;
	while (begin > text && !strchr(";{}\n", begin[-1]))
		begin--;
	while (end < last && !strchr(";{}\n#", *end))
		end++;
	return trimmed(begin, end);
}

/* Returns the word that begins PIECE: its length is 0 if there is none. */
static struct piece first_word(struct piece piece)
{
	size_t length = 0;
	while (length < piece.length && is_name_byte(piece.text[length]))
		length++;
	return (struct piece){piece.text, length && isdigit((unsigned char)*piece.text) ? 0 : length};
}

/* True if WORD is an operation, or a def of the source. */
static bool is_operation(const struct parse *parse, struct piece word)
{
	char name[MOST_SHOWN + 1];
	if (word.length == 0 || word.length > MOST_SHOWN)
		return false;
	memcpy(name, word.text, word.length);
	name[word.length] = '\0';
	return op_find(name) != OP_COUNT || parse_defines(parse, name);
}

static bool piece_is(struct piece piece, const char *word)
{
	return piece.length == strlen(word) && !memcmp(piece.text, word, piece.length);
}

/* True if the statement whose first word is WORD is an assignment, or a formula: an operator follows the word. */
static bool has_operator(struct piece all, struct piece word)
{
	const struct piece rest = trimmed(word.text + word.length, all.text + all.length);
	const bool sign = rest.length > 1 && strchr("+-", *rest.text) && strchr(" =", rest.text[1]);
	return rest.length && (strchr("=<>*/%@^!&|:", *rest.text) || sign);
}

/* True if PIECE is a stage, as mul 2 is, and no formula. */
static bool is_stage(const struct parse *parse, struct piece piece)
{
	const struct piece word = first_word(piece);
	const bool calls = word.length < piece.length && word.text[word.length] == '(';
	return is_operation(parse, word) && !calls && !has_operator(piece, word);
}

/* Returns the hint to give NAME to what the stage VALUE computes. */
static const char *hint_name(struct arena *arena, struct piece name, struct piece value)
{
	return arena_printf(arena, "the value of a stage gets a name by `name`, as in %.*s; name %.*s", (int)value.length,
	                    value.text, (int)name.length, name.text);
}

/* Returns the last operand of a stage of where, as 0 in x > 0 0; of no length if REST has a condition alone. */
static struct piece last_operand(struct piece rest)
{
	const char *end = rest.text + rest.length, *begin = end;
	while (begin > rest.text && !strchr(" \t", begin[-1]))
		begin--;
	const struct piece before = trimmed(rest.text, begin);
	const bool operand = before.length && !strchr("<>=!+-*/%@^,(&|", before.text[before.length - 1]);
	const bool plain = begin < end && (is_name_byte(*begin) || *begin == '.');
	return (struct piece){begin, operand && plain ? (size_t)(end - begin) : 0};
}

const char *parse_hint_stage(struct parse *parse, struct span span)
{
	struct arena *arena = parse->context->arena;
	const struct piece all = statement_around(parse, span.begin), word = first_word(all);
	if (all.length == 0 || all.length > MOST_SHOWN || parse->nested)
		return NULL;
	const char *equals = memchr(all.text, '=', all.length), *token = parse->source->text + span.begin;
	const bool assigns = span.end - span.begin == 1 && *token == '=';
	const struct piece assigned = assigns ? trimmed(token + 1, all.text + all.length) : (struct piece){token, 0};
	if (assigns && equals == token && is_stage(parse, assigned) && trimmed(all.text, token).length == word.length)
		return hint_name(arena, word, assigned);
	if (assigns && equals == token && word.length && trimmed(all.text, token).length == word.length)
		return arena_printf(arena, "a name is given to a value by let, as in let %.*s", (int)all.length, all.text);
	if (assigns)
		return NULL;
	if (token + 1 < all.text + all.length && strchr("*/%@^", *token) && token[1] == '=' && word.length) {
		const struct piece value = trimmed(token + 2, all.text + all.length);
		return arena_printf(arena, "a name is given another value by let, as in let %.*s = %.*s %c %.*s",
		                    (int)word.length, word.text, (int)word.length, word.text, *token, (int)value.length,
		                    value.text);
	}
	const struct piece rest = trimmed(word.text + word.length, all.text + all.length);
	const bool calls = rest.length && *rest.text == '(' && rest.text == word.text + word.length; /* abs(x) > 0 */
	if (!is_operation(parse, word) || calls ||
	    (rest.length && (strchr("=<>/*%@^!.", *rest.text) || *word.text == '\0')))
		return arena_printf(arena, "a formula is an operand in parentheses, as in use (%.*s)", (int)all.length,
		                    all.text);
	if (rest.text >= token)
		return NULL;
	const bool chooses = piece_is(word, "where");
	const struct piece other = chooses ? last_operand(rest) : (struct piece){rest.text, 0};
	const struct piece formula = other.length ? trimmed(rest.text, other.text) : rest;
	return arena_printf(arena, "a formula is an operand in parentheses, as in %.*s (%.*s)%s%.*s", (int)word.length,
	                    word.text, (int)formula.length, formula.text,
	                    !chooses       ? ""
	                    : other.length ? " "
	                                   : " 0",
	                    (int)other.length, other.text);
}

void parse_find_equals(const struct parse *parse, struct span *span)
{
	const uint32_t begin = span->begin;
	span->begin = span->end;
	while (parse->source->text[span->begin] != '=')
		span->begin++;
	span->column += span->begin - begin;
	span->end = span->begin + 1;
}

/* Returns the end of the call whose parenthesis opens at OPEN, or NULL if it does not close before END. */
static const char *call_end(const char *open, const char *end)
{
	int depth = 0;
	for (const char *at = open; at < end; at++) {
		depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
		if (depth == 0)
			return at + 1;
	}
	return NULL;
}

/* True if PIECE has numbers alone, perhaps with commas between them, and perhaps in parentheses. */
static bool is_numbers(struct piece piece)
{
	for (size_t i = 0; i < piece.length; i++)
		if (!memchr("0123456789.,-+() \t", piece.text[i], strlen("0123456789.,-+() \t")))
			return false;
	return true;
}

/* True if NAME is an operation with one operand, and no arguments by place. */
static bool takes_one_array(const char *name)
{
	const enum op op = op_find(name);
	int least = 0, most = 1;
	if (op != OP_COUNT && op_table[op].operands == 1)
		op_positionals(op, &least, &most);
	return most == 0;
}

/* Returns the hint at a list of NUMBERS as the operand of WORD. */
static const char *hint_list(struct arena *arena, struct piece word, struct piece numbers)
{
	const bool closed = *numbers.text == '(' && numbers.text[numbers.length - 1] == ')';
	return arena_printf(arena, "an array of numbers is a list, as in %.*s [%.*s]", (int)word.length, word.text,
	                    (int)numbers.length - 2 * closed, numbers.text + closed);
}

const char *parse_hint_recipe(struct parse *parse, struct span span)
{
	struct arena *arena = parse->context->arena;
	const struct piece all = statement_around(parse, span.begin), word = first_word(all);
	if (word.length == 0 || word.length > MOST_SHOWN)
		return NULL;
	if (piece_is(word, "for") && memmem(all.text, all.length, "in range(", strlen("in range(")))
		return recipe_hint_word(arena, "range");
	const char *name = arena_strndup(arena, word.text, word.length);
	const struct piece rest = trimmed(word.text + word.length, all.text + all.length);
	if (piece_is(word, "repeat") && rest.length && rest.text == word.text + word.length && is_numbers(rest))
		return recipe_hint_stage(arena, parse->source, (uint32_t)(word.text - parse->source->text));
	if (name && takes_one_array(name) && rest.length && is_numbers(rest) && memchr(rest.text, ',', rest.length))
		return hint_list(arena, word, rest);
	bool known = !name || parse_defines(parse, name);
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		known |= kind != STATEMENT_STAGE && piece_is(word, statement_table[kind].word);
	const bool function = piece_is(word, "lambda") || piece_is(word, "if");
	if (known || (!function && has_operator(all, word)))
		return NULL;
	return recipe_hint_stage(arena, parse->source, (uint32_t)(word.text - parse->source->text));
}

const char *parse_hint_operator(struct parse *parse, struct span span)
{
	const struct piece all = statement_around(parse, span.begin);
	const char *text = all.text, *end = text + all.length;
	const bool floors = all.length > 2 && text[0] == '/' && text[1] == '/';
	const struct piece divisor = trimmed(floors ? text + 2 : text, end);
	if (all.length > MOST_SHOWN)
		return NULL;
	return floors ? arena_printf(parse->context->arena, "write `div %.*s; floor`", (int)divisor.length, divisor.text)
	              : arena_printf(parse->context->arena, "write use (. %.*s), where . is the current value",
	                             (int)all.length, text);
}

const char *parse_hint_call(struct parse *parse, struct span span)
{
	struct arena *arena = parse->context->arena;
	const struct piece all = statement_around(parse, span.begin), first = first_word(all);
	if (parse->depth == 0 || all.length > MOST_SHOWN || first.length == 0)
		return NULL;
	const char *open = parse->source->text + parse->open[parse->depth - 1].begin, *word = open;
	while (word > all.text && word[-1] == ' ')
		word--;
	const char *name = word;
	while (name > all.text && is_name_byte(name[-1]))
		name--;
	const char *end = *open == '(' ? call_end(open, all.text + all.length) : NULL;
	const bool lists = word < open && strchr("-0123456789\"", open[1]); /* reshape (2, 2) */
	if (!end || name == word || lists || !is_operation(parse, (struct piece){name, (size_t)(word - name)}))
		return NULL;
	const struct piece rest = trimmed(end, all.text + all.length);
	const int length = (int)(end - name);
	if (name != all.text)
		return arena_printf(arena, "a call is a formula, and stands in parentheses: (%.*s)", length, name);
	if (rest.length == 0)
		return arena_printf(arena, "a call is a formula, and stands in parentheses: use (%.*s)", length, name);
	if (memchr(rest.text, '=', rest.length) && !memchr(rest.text, ' ', rest.length)) /* huber(x, y) delta=2 */
		return arena_printf(arena, "a call is a formula, and stands in parentheses: use (%.*s, %.*s))", length - 1,
		                    name, (int)rest.length, rest.text);
	return arena_printf(arena, "a call is a formula, and stands in parentheses: use (%.*s)", (int)all.length, all.text);
}

bool parse_opens_value(const struct parse *parse)
{
	const uint32_t at = parse->depth ? parse->open[parse->depth - 1].begin : 0;
	return at > 0 && parse->source->text[at - 1] == '=';
}

bool parse_opens_load(const struct parse *parse)
{
	const uint32_t at = parse->depth ? parse->open[parse->depth - 1].begin : 0;
	return at >= 4 && !memcmp(parse->source->text + at - 4, "load", 4);
}

const char *parse_hint_sum(struct parse *parse, struct span span)
{
	const char *text = parse->source->text, *begin = text + span.begin, *end = text + span.end;
	while (begin > text && !strchr(" \t\r\n=;{}([,", begin[-1]))
		begin--;
	while (end < text + parse->source->length && !strchr(" \t\r\n;{})],#", *end))
		end++;
	if (end - begin > MOST_SHOWN || end == begin)
		return NULL;
	return arena_printf(parse->context->arena, "a formula of several parts is in parentheses: (%.*s)",
	                    (int)(end - begin), begin);
}

/* Returns the last word that ends before AT, blanks left out. */
static struct piece word_before(const struct parse *parse, uint32_t at)
{
	const char *text = parse->source->text, *end = text + at;
	while (end > text && strchr(" \t\r\n", end[-1]))
		end--;
	const char *begin = end;
	while (begin > text && is_name_byte(begin[-1]))
		begin--;
	return (struct piece){begin, (size_t)(end - begin)};
}

const char *parse_hint_def(struct parse *parse, struct span span)
{
	const struct piece all = statement_around(parse, span.begin), word = first_word(all);
	const char *end = all.text + all.length, *close = memchr(all.text, ')', all.length);
	if (!close || all.length > MOST_SHOWN || !(piece_is(word, "def") || piece_is(word, "let")))
		return NULL;
	struct piece body = trimmed(close + 1, end);
	if (body.length < 2 || !strchr("=:", *body.text))
		return NULL;
	body = trimmed(body.text + 1, end);
	if (body.length > 7 && !memcmp(body.text, "return ", 7))
		body = trimmed(body.text + 7, end);
	const struct piece head = trimmed(all.text + word.length, close + 1), op = first_word(body);
	const bool calls =
		op.length < body.length && op.text[op.length] == '('; /* sin(x) is a formula, and mul a a stage */
	const bool stage = is_operation(parse, op) && !calls && !has_operator(body, op);
	return arena_printf(parse->context->arena, "a function is a def with a block, as in def %.*s { %s%.*s%s }",
	                    (int)head.length, head.text, stage ? "" : "use (", (int)body.length, body.text,
	                    stage ? "" : ")");
}

const char *parse_hint_word(struct parse *parse, struct span span)
{
	const struct piece word = word_before(parse, span.begin);
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE && piece_is(word, statement_table[kind].word))
			return arena_printf(parse->context->arena, "'%s' begins a statement, and is no value, as in: %s",
			                    statement_table[kind].word, statement_table[kind].example);
	return NULL;
}

/* Returns the byte of TEXT where the names and calls begin, joined by dots, that end before the dot at AT. */
static uint32_t path_begin(const char *text, uint32_t at)
{
	int depth = 0;
	while (at > 0 && (depth > 0 ? text[at - 1] != '\n' : is_name_byte(text[at - 1]) || strchr(").", text[at - 1]))) {
		at--;
		depth += text[at] == ')' ? 1 : text[at] == '(' ? -1 : 0;
		if (depth == 0 && text[at] == '(') /* before it stands the name of a call */
			continue;
	}
	return at;
}

const char *parse_hint_joined(struct parse *parse, struct span span)
{
	const char *text = parse->source->text;
	const struct piece last = word_before(parse, span.begin), next = {text + span.begin, span.end - span.begin};
	const char *call = piece_is(next, ".")
	                       ? recipe_hint_dotted(parse->context->arena, parse->source, path_begin(text, span.begin))
	                       : NULL;
	if (call)
		return call;
	if (piece_is(next, "if") || piece_is(next, "else") || piece_is(last, "if") || piece_is(last, "else"))
		return "a choice is where(c, a, b), as in use (where(x > 0, x, 0))";
	if (piece_is(last, "lambda") || piece_is(next, "lambda"))
		return "a function is a def, as in def twice() { use (. * 2) }";
	const struct piece all = statement_around(parse, span.begin), let = first_word(all);
	const char *equals = piece_is(let, "let") ? memchr(all.text, '=', all.length) : NULL;
	const struct piece value = equals ? trimmed(equals + 1, all.text + all.length) : all;
	if (equals && all.length <= MOST_SHOWN && value.text == last.text && is_stage(parse, value))
		return hint_name(parse->context->arena, trimmed(let.text + let.length, equals), value);
	if (last.length + next.length > MOST_SHOWN || last.length == 0)
		return "an operator is missing here";
	return arena_printf(parse->context->arena, "an operator is missing between '%.*s' and '%.*s'", (int)last.length,
	                    last.text, (int)next.length, next.text);
}
