/*
 * Finds the row of recipes.def for a word, and fills its placeholders with the operands that the user wrote.
 *
 * A stage of others is a path of names with dots between them, and perhaps arguments in parentheses:
 *
 *     np.exp(x)     a module's name, left out; then a call      use (exp(x))
 *     x.sum()       a value, and an operation of it             use (sum(x))
 *     ReLU()        an operation alone                          relu
 *     clip(0, 1)    an operation with numbers alone             clip 0 1
 *
 * Tests: tests/unit/test_recipes.c, tests/cases/recipes.test
 */
#include "language/recipes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ops/op.h"

static const struct recipe {
	const char *words, *text, *note;
} recipes[] = {
#define RECIPE(WORDS, TEXT, NOTE) {WORDS, TEXT, NOTE},
#include "language/recipes.def"
};

enum { WORD_MOST = 64, TEXT_MOST = 400, ARGUMENTS_MOST = 100 };

/* Text that grows to TEXT_MOST bytes at most; OVER is true if it would have been longer. */
struct built {
	char bytes[TEXT_MOST + 1];
	size_t length;
	bool over;
};

__attribute__((format(printf, 2, 3))) static void build(struct built *to, const char *format, ...)
{
	va_list arguments;
	if (to->over)
		return;
	va_start(arguments, format);
	const int length = vsnprintf(to->bytes + to->length, sizeof to->bytes - to->length, format, arguments);
	va_end(arguments);
	to->over |= length < 0 || to->length + (size_t)length > TEXT_MOST;
	to->length = to->over ? to->length : to->length + (size_t)length;
}

/* Bytes BEGIN .. END-1 of a source. */
struct cut {
	const char *begin, *end;
};

static size_t cut_length(struct cut c) { return (size_t)(c.end - c.begin); }

static bool cut_is(struct cut c, const char *word)
{
	return cut_length(c) == strlen(word) && !memcmp(c.begin, word, cut_length(c));
}

static bool begins_name(char c) { return c == '_' || isalpha((unsigned char)c); }
static bool continues_name(char c) { return c == '_' || isalnum((unsigned char)c); }

/* Returns the name at AT, which is empty if there is none. */
static struct cut name_at(const char *at, const char *end)
{
	struct cut name = {at, at};
	while (name.end < end && (name.end == at ? begins_name(*at) : continues_name(*name.end)))
		name.end++;
	return name;
}

static const char *past_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	return at;
}

static struct cut trimmed_cut(struct cut c)
{
	c.begin = past_blanks(c.begin, c.end);
	while (c.end > c.begin && strchr(" \t\r", c.end[-1]))
		c.end--;
	return c;
}

/* Returns the byte after the bracket that closes the one at OPEN; NULL if it does not close before END. */
static const char *past_bracket(const char *open, const char *end)
{
	int depth = 0;
	for (const char *at = open; at < end; at++) {
		depth += strchr("([", *at) ? 1 : strchr(")]", *at) ? -1 : 0;
		if (depth == 0)
			return at + 1;
	}
	return NULL;
}

static bool lists_word(const char *words, const char *word)
{
	const size_t length = strlen(word);
	for (const char *at = words; (at = strstr(at, word)); at += length)
		if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return true;
	return false;
}

/* Copies WORD to TO as recipes.def has words. Returns false if it is too long, or empty then. */
static bool plain_word(char to[WORD_MOST], struct cut word)
{
	size_t n = 0;
	for (const char *c = word.begin; c < word.end; c++)
		if (*c != '_' && *c != '-') {
			if (n + 1 == WORD_MOST)
				return false;
			to[n++] = (char)tolower((unsigned char)*c);
		}
	to[n] = '\0';
	return n > 0;
}

static const struct recipe *find_recipe(struct cut word)
{
	char plain[WORD_MOST];
	const size_t count = sizeof recipes / sizeof *recipes;
	if (!plain_word(plain, word))
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (lists_word(recipes[i].words, plain))
			return &recipes[i];
	return NULL;
}

/* Returns the operation that WORD is, as others spell it: LayerNorm is layernorm. OP_COUNT if it is none. */
static enum op operation_of(struct cut word)
{
	char plain[WORD_MOST], other[WORD_MOST];
	if (!plain_word(plain, word))
		return OP_COUNT;
	for (int i = 0; i < OP_LISTED; i++) {
		const char *name = op_table[op_list[i]].name;
		if (plain_word(other, (struct cut){name, name + strlen(name)}) && !strcmp(plain, other))
			return op_list[i];
	}
	return OP_COUNT;
}

static bool is_operation_name(struct cut word)
{
	char name[WORD_MOST];
	if (cut_length(word) == 0 || cut_length(word) >= sizeof name)
		return false;
	memcpy(name, word.begin, cut_length(word));
	name[cut_length(word)] = '\0';
	return op_find(name) != OP_COUNT;
}

/*
 * Returns the operation that does what WORD does, or NULL. If a recipe says more than the operation's name, sets *ROW to it
 * and returns NULL. The table comes first: Linear has weights, and is not linear in other letters.
 */
static const char *operation_for(struct cut word, const struct recipe **row)
{
	*row = is_operation_name(word) ? NULL : find_recipe(word);
	const enum op op = *row ? (*(*row)->note ? OP_COUNT : op_find((*row)->text)) : operation_of(word);
	if (op != OP_COUNT)
		*row = NULL;
	return op != OP_COUNT ? op_table[op].name : NULL;
}

/* Arguments. */

/* Names of modules, which have no meaning here. */
static bool is_module(struct cut name)
{
	static const char modules[] = " np numpy torch jnp jax nn F functional tf keras layers scipy sp special linalg fft "
								  "random math lax pd pandas df ";
	char padded[WORD_MOST];
	if (cut_length(name) == 0 || cut_length(name) > WORD_MOST - 3)
		return false;
	snprintf(padded, sizeof padded, " %.*s ", (int)cut_length(name), name.begin);
	return strstr(modules, padded);
}

/* Returns NAME in our words, where it is an argument, the name of an option, or a call that CALLED tells. */
static struct cut our_word(struct cut name, bool called)
{
	static const char *const pairs[][2] = {
		{"True", "true"},        {"False", "false"},   {"None", "none"},   {"dim", "axis"},
		{"keepdim", "keepdims"}, {"float32", "f32"},   {"float64", "f64"}, {"float16", "f16"},
		{"half", "f16"},         {"bfloat16", "bf16"}, {"double", "f64"},  {"float", "f64"},
		{"int32", "i32"},        {"int64", "i64"},     {"int", "i64"},     {"long", "i64"}};
	const struct recipe *row;
	const char *other = called ? operation_for(name, &row) : NULL;
	for (size_t i = 0; !called && i < sizeof pairs / sizeof *pairs; i++)
		if (cut_is(name, pairs[i][0]))
			other = pairs[i][1];
	return other ? (struct cut){other, other + strlen(other)} : name;
}

/*
 * Appends the arguments FROM in our words to TO, without modules' names. With BLANKS a comma outside of brackets is a blank.
 * A tuple after = becomes a list.
 */
static void build_arguments(struct built *to, struct cut from, bool blanks)
{
	const char *list = NULL;
	int depth = 0;
	for (const char *at = from.begin; at < from.end;) {
		const struct cut name = name_at(at, from.end);
		const char *after = past_blanks(name.end, from.end);
		if (cut_length(name) && is_module(name) && after + 1 < from.end && *after == '.') {
			at = after + 1;
			continue;
		}
		if (cut_length(name)) {
			const struct cut ours = our_word(name, after < from.end && *after == '(');
			build(to, "%.*s", (int)cut_length(ours), ours.begin);
			at = name.end;
			continue;
		}
		const bool tuple = *at == '(' && at > from.begin && at[-1] == '=';
		list = tuple ? past_bracket(at, from.end) : list;
		depth += strchr("([", *at) ? 1 : strchr(")]", *at) ? -1 : 0;
		if (blanks && *at == ',' && depth == 0) {
			at = past_blanks(at + 1, from.end);
			build(to, " ");
			continue;
		}
		build(to, "%c", tuple ? '[' : list == at + 1 ? ']' : *at);
		at++;
	}
}

/* True if NAME names a type for cast, in our words or in others. */
static bool is_type_name(struct cut name)
{
	const struct cut ours = our_word(name, false);
	return dtype_find(ours.begin, cut_length(ours)) != DTYPE_COUNT;
}

/* True if the arguments FROM are numbers, types, strings, lists, and options with such or with words. */
static bool are_literal(struct cut from)
{
	for (const char *at = from.begin; at < from.end;) {
		const struct cut name = name_at(at, from.end);
		if (cut_length(name) == 0) {
			const char *quoted = strchr("'\"", *at) ? memchr(at + 1, *at, (size_t)(from.end - at) - 1) : NULL;
			const bool digit = isdigit((unsigned char)*at);
			at = quoted ? quoted + 1 : at + 1;
			while (digit && at < from.end && (continues_name(*at) || *at == '.')) /* 1e-5 is two of them */
				at++;
			continue;
		}
		const char *after = past_blanks(name.end, from.end);
		if (is_type_name(name)) {
			at = name.end;
			continue;
		}
		if (after == from.end || *after != '=' || (after + 1 < from.end && after[1] == '='))
			return false;
		const struct cut value = name_at(past_blanks(after + 1, from.end), from.end);
		at = cut_length(value) ? value.end : after + 1;
	}
	return true;
}

/* Returns the bytes of the number at AT, or of a list or a name if they may stand there; 0 if there is none. */
static size_t operand_length(struct cut from, bool lists, bool names)
{
	const char *at = from.begin;
	if (at < from.end && lists && *at == '[') {
		const char *end = past_bracket(at, from.end);
		return end ? (size_t)(end - at) : 0;
	}
	if (names && cut_length(name_at(at, from.end)))
		return cut_length(name_at(at, from.end));
	at += at < from.end && *at == '-';
	const char *digits = at;
	while (at < from.end && (isdigit((unsigned char)*at) || *at == '.' ||
	                         (at > digits && (*at == 'e' || (at[-1] == 'e' && *at == '-')))))
		at++;
	return at > digits ? (size_t)(at - from.begin) : 0;
}

/* Returns operand INDEX, from 0, of those FROM: a number, or what DEFAULT_ allows. Empty if there is none. */
static struct cut nth_operand(struct cut from, int index, char default_)
{
	struct cut left = from;
	for (int i = 0;; i++) {
		while (left.begin < left.end && strchr(" \t,", *left.begin))
			left.begin++;
		const bool wanted = i == index;
		const size_t length = operand_length(left, !wanted || default_ == '[', !wanted || default_ == '.');
		if (wanted || length == 0)
			return (struct cut){left.begin, left.begin + (wanted ? length : 0)};
		left.begin += length;
	}
}

/* Appends the text of ROW to TO, with the operands FROM in its placeholders. */
static void build_recipe(struct built *to, const struct recipe *row, struct cut from)
{
	for (const char *at = row->text; *at;) {
		if (*at != '$') {
			build(to, "%c", *at++);
			continue;
		}
		const int index = at[1] - '1';
		const struct cut rest = {at + 3, at + strlen(at)};
		const struct cut given = nth_operand(from, index, *rest.begin);
		const size_t own = *rest.begin == '.' ? 1 : operand_length(rest, true, false);
		const struct cut chosen = cut_length(given) ? given : (struct cut){rest.begin, rest.begin + own};
		build(to, "%.*s", (int)cut_length(chosen), chosen.begin);
		at = rest.begin + own;
	}
}

static const char *built_text(struct arena *arena, const struct built *built)
{
	return built->over ? NULL : arena_strndup(arena, built->bytes, built->length);
}

/* Returns the hint of ROW with the operands FROM. */
static const char *advise_row(struct arena *arena, const struct recipe *row, struct cut from)
{
	struct built text = {.length = 0};
	if (!*row->text)
		return row->note;
	build(&text, "write `");
	build_recipe(&text, row, from);
	build(&text, "`%s%s", *row->note ? ": " : "", row->note);
	return built_text(arena, &text);
}

const char *recipe_hint_word(struct arena *arena, const char *word)
{
	const struct recipe *row;
	const char *name = operation_for((struct cut){word, word + strlen(word)}, &row);
	if (name && strcmp(name, word) != 0)
		return arena_printf(arena, "did you mean '%s'?", name);
	return row ? advise_row(arena, row, (struct cut){"", ""}) : NULL;
}

/* Returns the row for USE of WORD, as recipes.def has it: WORD.USE. Or NULL. */
static const struct recipe *find_use(struct cut word, const char *use)
{
	char both[WORD_MOST];
	const int length = snprintf(both, sizeof both, "%.*s.%s", (int)cut_length(word), word.begin, use);
	return length < WORD_MOST ? find_recipe((struct cut){both, both + length}) : NULL;
}

const char *recipe_hint_use(struct arena *arena, const char *operation, const char *word, const char *text)
{
	const struct recipe *row = find_use((struct cut){operation, operation + strlen(operation)}, word);
	const struct cut operands = {text, text + strlen(text)};
	const bool lacks = !strcmp(word, "2") && !cut_length(nth_operand(operands, 0, '0')); /* log.2 is of numbers */
	return row && !lacks ? advise_row(arena, row, operands) : NULL;
}

/* Stages. */

/* A path of names. ARGUMENTS follow it: those in parentheses if it is CALLED, else the rest of the statement. */
struct path {
	struct cut value; /* a name or a call whose operation WORD is; empty if only modules stand before WORD */
	struct cut word, arguments;
	bool dotted, called;
	const char *end;
};

/* Reads the path at AT. Returns false if there is none. */
static bool read_path(struct path *path, const char *at, const char *end)
{
	const char *begin = at;
	*path = (struct path){.word = name_at(at, end)};
	if (cut_length(path->word) == 0)
		return false;
	for (;;) {
		const char *after = path->word.end, *call = NULL;
		while (after + 1 < end && *after == '-' && begins_name(after[1])) /* z-score */
			after = path->word.end = name_at(after + 1, end).end;
		if (after < end && *after == '(')
			call = past_bracket(after, end);
		const char *dot = call ? call : after;
		const struct cut next = dot < end && *dot == '.' ? name_at(dot + 1, end) : (struct cut){at, at};
		if (cut_length(next) == 0)
			break;
		path->dotted = true;
		if (call || !is_module(path->word) || cut_length(path->value))
			path->value = (struct cut){begin, dot};
		path->word = next;
	}
	path->called = path->word.end < end && *path->word.end == '(';
	const char *close = path->called ? past_bracket(path->word.end, end) : NULL;
	path->end = close ? close : end;
	path->arguments = trimmed_cut((struct cut){path->word.end + path->called, close ? close - 1 : end});
	path->called = close != NULL;
	return true;
}

/* Returns the end of the statement that begins at AT. */
static const char *statement_end(const struct source *source, const char *at)
{
	const char *end = source->text + source->length;
	while (at < end && !strchr(";{}\n#", *at))
		at++;
	return at;
}

/* Returns the row for a method of a function of NumPy's, such as np.add.reduce, if PATH is one. Or NULL. */
static const struct recipe *find_method(const struct path *path)
{
	struct cut function = {path->value.end, path->value.end};
	char method[WORD_MOST];
	while (function.begin > path->value.begin && continues_name(function.begin[-1]))
		function.begin--;
	return plain_word(method, path->word) ? find_use(function, method) : NULL;
}

/* Appends NAME as a call of PATH's value and arguments. */
static void build_call(struct built *to, const char *name, const struct path *path)
{
	const bool both = cut_length(path->value) && path->called && cut_length(path->arguments);
	build(to, "%s(", name);
	build_arguments(to, path->value, false);
	build(to, "%s", both ? ", " : "");
	if (path->called)
		build_arguments(to, path->arguments, false);
	build(to, ")");
}

const char *recipe_hint_stage(struct arena *arena, const struct source *source, uint32_t at)
{
	const char *begin = source->text + at, *end = statement_end(source, begin);
	const struct recipe *row;
	struct path path;
	struct built text = {.length = 0};
	if (!read_path(&path, begin, end) || cut_length(path.value) > ARGUMENTS_MOST)
		return NULL;
	const char *name = operation_for(path.word, &row);
	const struct recipe *applied =
		!path.called && cut_length(name_at(path.arguments.begin, path.arguments.end)) ? find_use(path.word, "a") : NULL;
	if (applied)
		return arena_printf(arena, "did you mean '%s'?", applied->text);
	const bool same = name && cut_is(path.word, name) && !path.dotted, ends = past_blanks(path.end, end) == end;
	const bool literal = are_literal(path.arguments);
	const struct recipe *method = cut_length(path.value) ? find_method(&path) : NULL;
	if (method)
		return arena_printf(arena, "write `%s`", method->text);
	const struct recipe *placed = same && path.called && literal ? find_use(path.word, "2") : NULL;
	if (placed && cut_length(nth_operand(path.arguments, 0, '0')))
		return advise_row(arena, placed, path.arguments);
	if (row)
		return advise_row(arena, row, path.arguments);
	if (!name || (same && (!path.called || !literal)) || cut_length(path.arguments) > ARGUMENTS_MOST)
		return NULL;
	if (!path.dotted && !path.called && (!literal || past_blanks(path.word.end, end) == end))
		return arena_printf(arena, "did you mean '%s'?", name);
	if (cut_length(path.value) || (path.called && !literal)) {
		build(&text, "a call is a formula: use (");
		build_call(&text, name, &path);
		build_arguments(&text, (struct cut){path.end, end}, false);
		build(&text, ")");
		return path.called || ends || path.dotted ? built_text(arena, &text) : NULL;
	}
	build(&text, "write `%s%s", name, cut_length(path.arguments) ? " " : "");
	build_arguments(&text, path.arguments, true);
	build(&text, "`");
	return !path.called || ends ? built_text(arena, &text) : NULL;
}

const char *recipe_hint_dotted(struct arena *arena, const struct source *source, uint32_t at)
{
	static const char *const numbers[] = {"pi", "e", "inf", "nan"};
	const char *begin = source->text + at;
	const struct recipe *row;
	struct path path;
	struct built text = {.length = 0};
	if (!read_path(&path, begin, statement_end(source, begin)) || !path.dotted ||
	    cut_length(path.value) + cut_length(path.arguments) > ARGUMENTS_MOST)
		return NULL;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !cut_length(path.value); i++)
		if (cut_is(path.word, numbers[i]))
			return arena_printf(arena, "the number is written %s", numbers[i]);
	const char *name = operation_for(path.word, &row);
	if (row)
		return advise_row(arena, row, path.arguments);
	if (!name || (!cut_length(path.value) && !path.called))
		return NULL;
	build(&text, cut_length(path.value) ? "an operation of a value is a call: " : "a name has no prefix: ");
	build_call(&text, name, &path);
	return built_text(arena, &text);
}
