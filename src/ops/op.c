/*
 * The table of operations, from ops.def, and the arguments of operations.
 *
 * An ARGUMENTS string is parsed at each use. The strings are few and short, and a
 * parsed copy could differ from the table.
 * Tests: tests/unit/test_ops.c
 */
#include "ops/op.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "ops/subscripts.h"

/* ops.def's KEEPS as initialisers of op_info's keeps. */
#define KEEPS_NOTHING .keeps = {{KEEP_NOTHING, NULL}}
#define KEEPS_VALUE(OP, EXPRESSION) .keeps = {{KEEP_VALUE, #OP}}
#define KEEPS_ARRAY(OP) .keeps = {{KEEP_VALUE, #OP}}
#define KEEPS_PER_ROW(OP) .keeps = {{KEEP_PER_ROW, #OP}}
#define KEEPS_MASK(OP, CONDITION) .keeps = {{KEEP_MASK, #OP}}
#define KEEPS_SIGN(OP, ...) .keeps = {{KEEP_SIGN, #OP}}
#define KEEPS_MASKS(OP, CONDITION, OP2, CONDITION2) .keeps = {{KEEP_MASK, #OP}, {KEEP_MASK, #OP2}}
#define IN_GROUP_ARITHMETIC "arithmetic"
#define IN_GROUP_CONDITION "conditions"
#define IN_GROUP_VALUE "one value"
#define IN_GROUP_LINEAR "linear algebra"
#define IN_GROUP_TRANSFORM "transforms"
#define IN_GROUP_REDUCTION "reductions"
#define IN_GROUP_AXIS "along an axis"
#define IN_GROUP_SHAPE "shape"
#define IN_GROUP_INDICES "indices"
#define IN_GROUP_STENCIL "stencils"
#define IN_GROUP_POOL "pooling and resampling"
#define IN_GROUP_ATTENTION "attention"
#define IN_GROUP_RANDOM "random"
#define IN_GROUP_LOSS "losses"
#define IN_GROUP_OTHER "other"

#define DIFFERENTIABLE(NEEDS) (NEEDS_##NEEDS != NEEDS_ZERO)
#define NEEDED(NEEDS) (NEEDS_##NEEDS & NEEDS_ALL)
/* COUNTS are the numbers of operands and of those that are options. */
#define ALL_OPERANDS(OPERANDS, OPTIONAL) (OPERANDS + OPTIONAL)
#define REQUIRED(OPERANDS, OPTIONAL) OPERANDS
#define OPTIONAL(OPERANDS, OPTIONAL) OPTIONAL
#define OP_ROW(NAME, CLASS, GROUP, ARGUMENTS, SCOPE, KEEPS, COUNTS, NAMES, NEEDS_V, NEEDS_A, NEEDS_B, NEEDS_C, FLOPS,  \
               DOC)                                                                                                    \
	[OP_##NAME] = {.name = #NAME,                                                                                      \
	               .group = IN_GROUP_##GROUP,                                                                          \
	               .class = OP_CLASS_##CLASS,                                                                          \
	               .operands = REQUIRED COUNTS,                                                                        \
	               .least_operands = REQUIRED COUNTS,                                                                  \
	               .optional = OPTIONAL COUNTS,                                                                        \
	               .operand_names = NAMES,                                                                             \
	               .arguments = ARGUMENTS,                                                                             \
	               .scope = SCOPE_##SCOPE,                                                                             \
	               .differentiable_by = {DIFFERENTIABLE(NEEDS_V), ALL_OPERANDS COUNTS > 0 && DIFFERENTIABLE(NEEDS_A),  \
	                                     ALL_OPERANDS COUNTS > 1 && DIFFERENTIABLE(NEEDS_B),                           \
	                                     ALL_OPERANDS COUNTS > 2 && DIFFERENTIABLE(NEEDS_C)},                          \
	               .needs = {NEEDED(NEEDS_V), NEEDED(NEEDS_A), NEEDED(NEEDS_B), NEEDED(NEEDS_C)},                      \
	               KEEPS_##KEEPS,                                                                                      \
	               .flops = FLOPS,                                                                                     \
	               .doc = DOC},

const struct op_info op_table[OP_ROWS] = {
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, FORWARD, DERIVATIVE, DOC)                                   \
	OP_ROW(NAME, UNARY, GROUP, ARGUMENTS, ELEM, KEEPS, (0, 0), "", NEEDS, NIL, NIL, NIL, FLOPS, DOC)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, FORWARD, DERIVATIVE_V, DERIVATIVE_A, DOC)                  \
	OP_ROW(NAME, BINARY, GROUP, "", ELEM, KEEPS, (1, 0), "a", NEEDS_V, NEEDS_A, NIL, NIL, FLOPS, DOC)
#define ELEMENT_LOSS(NAME, KEEPS, NEEDS_V, NEEDS_A, FLOPS, FORWARD, DERIVATIVE_V, DERIVATIVE_A, DOC)                   \
	OP_ROW(NAME, BINARY, LOSS, "reduction=mean", ELEM, KEEPS, (1, 0), "a", NEEDS_V, NEEDS_A, NIL, NIL, FLOPS, DOC)
#define TERNARY(NAME, GROUP, NAMES, KEEPS, NEEDS_V, NEEDS_A, NEEDS_B, FLOPS, FORWARD, BY_V, BY_A, BY_B, DOC)           \
	OP_ROW(NAME, TERNARY, GROUP, "", ELEM, KEEPS, (2, 0), NAMES, NEEDS_V, NEEDS_A, NEEDS_B, NIL, FLOPS, DOC)
#define GENERAL(NAME, GROUP, OPERAND, ARGUMENTS, SCOPE, SHAPE, KEEPS, NEEDS_V, NEEDS_A, FLOPS, DOC)                    \
	OP_ROW(NAME, GENERAL, GROUP, ARGUMENTS, SCOPE, KEEPS, (OPERAND, 0), OPERAND ? "a" : "", NEEDS_V, NEEDS_A, NIL,     \
	       NIL, FLOPS, DOC)
#define GENERAL_TWO(NAME, GROUP, NAMES, ARGUMENTS, SCOPE, SHAPE, KEEPS, NEEDS_V, NEEDS_A, NEEDS_B, FLOPS, DOC)         \
	OP_ROW(NAME, GENERAL, GROUP, ARGUMENTS, SCOPE, KEEPS, (2, 0), NAMES, NEEDS_V, NEEDS_A, NEEDS_B, NIL, FLOPS, DOC)
#define GENERAL_THREE(NAME, GROUP, NAMES, ARGUMENTS, SCOPE, SHAPE, KEEPS, NEEDS_V, NEEDS_A, NEEDS_B, NEEDS_C, FLOPS,   \
                      DOC)                                                                                             \
	OP_ROW(NAME, GENERAL, GROUP, ARGUMENTS, SCOPE, KEEPS, (3, 0), NAMES, NEEDS_V, NEEDS_A, NEEDS_B, NEEDS_C, FLOPS, DOC)
#define GENERAL_OPTION(NAME, GROUP, OPERANDS, NAMES, ARGUMENTS, SCOPE, SHAPE, KEEPS, NEEDS_V, NEEDS_A, NEEDS_B,        \
                       NEEDS_C, FLOPS, DOC)                                                                            \
	OP_ROW(NAME, GENERAL, GROUP, ARGUMENTS, SCOPE, KEEPS, (OPERANDS, 1), NAMES, NEEDS_V, NEEDS_A, NEEDS_B, NEEDS_C,    \
	       FLOPS, DOC)
#define EXPANDED(NAME, GROUP, LEAST, MOST, NAMES, ARGUMENTS, SCOPE, SHAPE, DOC)                                        \
	[OP_##NAME] = {.name = #NAME,                                                                                      \
	               .group = IN_GROUP_##GROUP,                                                                          \
	               .class = OP_CLASS_GENERAL,                                                                          \
	               .operands = MOST,                                                                                   \
	               .least_operands = LEAST,                                                                            \
	               .operand_names = NAMES,                                                                             \
	               .arguments = ARGUMENTS,                                                                             \
	               .scope = SCOPE_##SCOPE,                                                                             \
	               .differentiable_by = {true, true, true, true},                                                      \
	               .needs = {NEED_A, NEED_V},                                                                          \
	               .doc = DOC},
#include "ops/ops.def"
	[OP_PROGRAM] = {.name = "program",
                    .group = IN_GROUP_OTHER,
                    .class = OP_CLASS_GENERAL,
                    .arguments = "",
                    .operand_names = "",
                    .scope = SCOPE_ALL,
                    .differentiable = true,
                    .operand_differentiable = true,
                    .keeps = {{KEEP_VALUE, "record"}},
                    .flops = 10,
                    .doc = "what another program computes"},
	[OP_COLLECT] = {.name = "collect",
                    .group = IN_GROUP_OTHER,
                    .class = OP_CLASS_GENERAL,
                    .operands = 1,
                    .arguments = "",
                    .scope = SCOPE_ALL,
                    .differentiable = true,
                    .operand_differentiable = true,
                    .doc = "the value of each iteration, stacked"},
	[OP_ATTENDED] = {.name = "attention",
                     .group = IN_GROUP_ATTENTION,
                     .class = OP_CLASS_GENERAL,
                     .operands = 1,
                     .arguments = "",
                     .scope = SCOPE_ROW,
                     .doc = "the derivative of an attention by its values"},
	[OP_MASKED] = {.name = "attention",
                   .group = IN_GROUP_ATTENTION,
                   .class = OP_CLASS_GENERAL,
                   .operands = 2,
                   .arguments = "",
                   .scope = SCOPE_ROW,
                   .doc = "the derivative of an attention by its mask"},
#define ON_BAND(OP, BAND)                                                                                              \
	[OP] = {.name = "tridiagonal",                                                                                     \
	        .group = IN_GROUP_LINEAR,                                                                                  \
	        .class = OP_CLASS_GENERAL,                                                                                 \
	        .operands = 3,                                                                                             \
	        .arguments = "",                                                                                           \
	        .scope = SCOPE_ROW,                                                                                        \
	        .doc = "the derivative of a tridiagonal by its " BAND}
	ON_BAND(OP_ON_DIAGONAL, "diagonal"),
	ON_BAND(OP_ON_UPPER, "upper band"),
#undef ON_BAND
	[OP_CLASS_WEIGHT] = {.name = "class_weight",
                         .group = IN_GROUP_OTHER,
                         .class = OP_CLASS_GENERAL,
                         .operands = 2,
                         .arguments = "",
                         .operand_names = "",
                         .scope = SCOPE_ROW,
                         .flops = 1,
                         .doc = "the weight of each class of a loss"},
	[OP_SOLUTION] = {.name = "fixed_point",
                     .group = IN_GROUP_OTHER,
                     .class = OP_CLASS_GENERAL,
                     .arguments = "",
                     .scope = SCOPE_ALL,
                     .doc = "the solution of a fixed point"},
	[OP_IMPLICIT] = {.name = "fixed_point",
                     .group = IN_GROUP_OTHER,
                     .class = OP_CLASS_GENERAL,
                     .operands = 1,
                     .arguments = "",
                     .scope = SCOPE_ALL,
                     .doc = "the derivative of a fixed point"},
};

bool op_gives_condition(enum op op)
{
	return !strcmp(op_table[op].group, IN_GROUP_CONDITION) && !op_table[op].differentiable;
}

const enum op op_list[OP_LISTED] = {
#define LISTED(NAME, ...) OP_##NAME,
#define UNARY LISTED
#define BINARY LISTED
#define TERNARY LISTED
#define GENERAL LISTED
#define EXPANDED LISTED
#include "ops/ops.def"
};
bool op_is_loss(enum op op) { return !strcmp(op_table[op].group, IN_GROUP_LOSS); }

enum op op_find(const char *name)
{
	for (int i = 0; i < OP_LISTED; i++)
		if (!strcmp(op_table[op_list[i]].name, name))
			return op_list[i];
	return OP_COUNT;
}

/* An argument in an ARGUMENTS string: "name", "name=default" or, if MANY, "name...". */
struct token {
	char name[32], value[32];
	bool has_value, many;
};

/* Reads the token at *TEXT and advances *TEXT. Returns false at the end. */
static bool next_token(const char **text, struct token *token)
{
	while (**text == ' ')
		++*text;
	if (!**text)
		return false;
	size_t length = strcspn(*text, " "), name = strcspn(*text, " =.");
	memset(token, 0, sizeof *token);
	memcpy(token->name, *text, name);
	token->has_value = (*text)[name] == '=';
	token->many = (*text)[name] == '.';
	if (token->has_value)
		memcpy(token->value, *text + name + 1, length - name - 1);
	*text += length;
	return true;
}

static bool token_at(enum op op, int index, struct token *token)
{
	const char *text = op_table[op].arguments;
	for (int i = 0; next_token(&text, token); i++)
		if (i == index)
			return true;
	return false;
}

/* Options of element-wise operations but `tanh`, and `k`, may be given by place too, as in `leaky_relu 0.2` and `tril -1`. */
static bool is_positional(enum op op, const struct token *token)
{
	return !token->has_value || !strcmp(token->name, "k") ||
	       (op_table[op].class == OP_CLASS_UNARY && strcmp(token->name, "tanh"));
}

void op_positionals(enum op op, int *least, int *most)
{
	const char *text = op_table[op].arguments;
	struct token token;
	*least = *most = 0;
	while (next_token(&text, &token)) {
		if (!is_positional(op, &token))
			continue;
		*least += !token.has_value;
		*most += token.many ? MAX_DIMS : 1;
	}
}

const char *op_positional_name(enum op op, int index, char name[32])
{
	struct token token;
	if (token_at(op, 0, &token) && token.many)
		index = 0;
	if (!token_at(op, index, &token))
		return "operand";
	return memcpy(name, token.name, sizeof token.name);
}

size_t op_argument_names(enum op op, const char *names[], size_t limit, struct arena *arena)
{
	const char *text = op_table[op].arguments;
	struct token token;
	size_t count = 0;
	while (count < limit && next_token(&text, &token)) {
		names[count] = arena_strndup(arena, token.name, strlen(token.name));
		count += names[count] != NULL;
	}
	return count;
}

enum op op_by_number(enum op op, double number)
{
	if (op != OP_pow)
		return op;
	return number == 2 ? OP_square : number == 0.5 ? OP_sqrt : number == -1 ? OP_reciprocal : OP_pow;
}

const char *op_scope_name(enum op op)
{
	const enum scope scope = op_table[op].scope;
	if (op_is_loss(op)) /* with its mean or sum */
		return "all";
	return scope == SCOPE_ELEM ? "element" : scope <= SCOPE_NEIGHBOUR ? "row" : "all";
}

const char *op_reach(enum op op)
{
	static const char *const names[] = {"element", "row", "neighbour", "fold", "fold", "fold", "all"};
	return op_is_loss(op) ? "fold" : names[op_table[op].scope];
}

const char *op_usage(enum op op, char text[OP_USAGE])
{
	const struct op_info *info = &op_table[op];
	const char *first = info->operand_names, *second = info->arguments;
	if (op_is_expanded(op) && *second) {
		first = info->arguments;
		second = info->operand_names;
	}
	snprintf(text, OP_USAGE, "%s%s%s%s%s", info->name, *first ? " " : "", first, *second ? " " : "", second);
	return text;
}

size_t op_kept_names(enum op op, const char *names[MAX_NEEDS])
{
	static const char *const needs[] = {"input", "operand", "output"};
	const struct op_info *info = &op_table[op];
	size_t count = 0;
	for (size_t bit = 0; bit < sizeof needs / sizeof *needs; bit++)
		if ((info->needs_v | info->needs_a) >> bit & 1)
			names[count++] = needs[bit];
	for (int k = 0; k < MAX_KEEPS; k++)
		if (info->keeps[k].name)
			names[count++] = info->keeps[k].name;
	return count;
}

enum argument_id {
	ID_NONE,
#define ARGUMENT(NAME, KIND, FIELD) ID_##NAME,
#include "ops/arguments.def"
};

/* What an argument's value must be. Kinds up to CHECK_STRIDES are numbers: from CHECK_INTEGER on, integers alone. */
enum argument_check {
	CHECK_NUMBER,
	CHECK_POSITIVE,     /* a finite number above 0 */
	CHECK_SCALE,        /* a finite number */
	CHECK_NOT_NEGATIVE, /* a number of 0 or more, or infinity */
	CHECK_PROBABILITY,  /* a number in [0, 1) */
	CHECK_SHARE,        /* a number in [0, 1] */
	CHECK_SPACINGS,     /* a finite number above 0, or a list of them */
	CHECK_INTEGER,
	CHECK_BOUND,    /* of a slice: an integer */
	CHECK_STREAM,   /* an integer of 0 or more */
	CHECK_ORDER,    /* 2, 4, 6 or 8 */
	CHECK_EXTENT,   /* of a shape: an integer, appended to the extents before it */
	CHECK_COUNT,    /* an integer of 0 or more */
	CHECK_NOT_ZERO, /* an integer other than 0 */
	CHECK_POSITIVE_INTEGER,
	CHECK_AXES,    /* an integer or a list of integers */
	CHECK_COUNTS,  /* an integer of 0 or more, or a list of one or two */
	CHECK_PADDING, /* `same`, or an integer of 0 or more, or a list of one, two or four */
	CHECK_STRIDES, /* an integer of 1 or more, or a list of one or two */
	CHECK_WEIGHTS, /* a list of an odd number of finite numbers */
	CHECK_BOOL,
	CHECK_BOUNDARY,
	CHECK_MODE,
	CHECK_NORM,
	CHECK_DTYPE,
	CHECK_SUBSCRIPTS, /* a string */
	CHECK_REDUCTION,
	CHECK_OPERAND, /* an array, which the resolver takes as an operand */
};

static const struct {
	const char *name;
	enum argument_check check;
} arguments[] = {
	[ID_NONE] = {"", CHECK_NUMBER},
#define ARGUMENT(NAME, KIND, FIELD) [ID_##NAME] = {#NAME, CHECK_##KIND},
#include "ops/arguments.def"
};

/* Words that arguments may be. The third names of boundaries, reductions and norms are the last of their enums. */
static const char *const boundaries[3] = {"periodic", "zero", "reflect"}, *const modes[] = {"nearest", "linear"};
static const char *const reductions[3] = {"mean", "sum", "none"}, *const norms[3] = {"backward", "ortho", "forward"};

/* Returns the index of WORD in three WORDS; -1 if it is none of them. */
static int word_find(const char *const words[3], const char *word)
{
	for (int i = 0; i < 3; i++)
		if (!strcmp(word, words[i]))
			return i;
	return -1;
}

/* True if A is one integer of at least LEAST, or a list of 1 to MOST of them. */
static bool integers_fit(const struct argument *a, int64_t least, size_t most)
{
	if (a->kind == ARGUMENT_NUMBER)
		return a->integer && a->number >= (double)least;
	if (a->kind != ARGUMENT_LIST || !a->integers || a->count == 0 || a->count > most)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->integers[i] < least)
			return false;
	return true;
}

/* True if A is one finite number above LEAST, or a list of them. */
static bool numbers_fit(const struct argument *a, double least)
{
	bool fits =
		a->kind == ARGUMENT_NUMBER ? a->number > least && !isinf(a->number) : a->kind == ARGUMENT_LIST && a->count;
	for (size_t i = 0; fits && a->kind == ARGUMENT_LIST && i < a->count; i++)
		fits = a->numbers[i] > least && !isinf(a->numbers[i]);
	return fits;
}

/* True if A is the padding with which the result of a convolution has the extents of its input. */
static bool is_word_same(const struct argument *a) { return a->kind == ARGUMENT_WORD && !strcmp(a->word, "same"); }

static const char *check_weights(const struct argument *a)
{
	if (a->kind != ARGUMENT_LIST)
		return "must be a list, as in [1, -2, 1]";
	if (a->count % 2 == 0)
		return "must be an odd number of weights: the middle one is for the element";
	return numbers_fit(a, -INFINITY) ? NULL : "must be finite";
}

/* Returns NULL if A passes CHECK, else what A must be, for a message. */
static const char *check_argument(enum argument_check check, const struct argument *a)
{
	bool number = a->kind == ARGUMENT_NUMBER, integer = number && a->integer;
	switch (check) {
	case CHECK_NUMBER:
		return number ? NULL : "must be a number";
	case CHECK_POSITIVE:
		return number && a->number > 0 && !isinf(a->number) ? NULL : "must be a number above 0";
	case CHECK_SCALE:
		return number && isfinite(a->number) ? NULL : "must be a finite number";
	case CHECK_NOT_NEGATIVE:
		return number && a->number >= 0 ? NULL : "must be a number of 0 or more";
	case CHECK_PROBABILITY:
		return number && a->number >= 0 && a->number < 1 ? NULL : "must be in [0, 1)";
	case CHECK_SHARE:
		return number && a->number >= 0 && a->number <= 1 ? NULL : "must be in [0, 1]";
	case CHECK_SPACINGS:
		return numbers_fit(a, 0) ? NULL : "must be a number above 0, or a list of them";
	case CHECK_ORDER:
		return integer && (a->number == 2 || a->number == 4 || a->number == 6 || a->number == 8)
		           ? NULL
		           : "must be 2, 4, 6 or 8";
	case CHECK_WEIGHTS:
		return check_weights(a);
	case CHECK_INTEGER:
	case CHECK_BOUND:
	case CHECK_EXTENT:
		return integer ? NULL : "must be an integer";
	case CHECK_STREAM:
	case CHECK_COUNT:
		return integer && a->number >= 0 ? NULL : "must be an integer of 0 or more";
	case CHECK_POSITIVE_INTEGER:
		return integer && a->number >= 1 ? NULL : "must be a positive integer";
	case CHECK_NOT_ZERO:
		return integer && a->number != 0 ? NULL : "must be an integer other than 0";
	case CHECK_AXES:
		return integers_fit(a, INT64_MIN, MAX_DIMS) ? NULL : "must be an integer or a list of integers";
	case CHECK_COUNTS:
		return integers_fit(a, 0, 2) ? NULL : "must be an integer of 0 or more, or two of them";
	case CHECK_PADDING:
		return (integers_fit(a, 0, 4) && a->count != 3) || is_word_same(a)
		           ? NULL
		           : "must be an integer of 0 or more, two or four of them, or same";
	case CHECK_STRIDES:
		return integers_fit(a, 1, 2) ? NULL : "must be a positive integer, or two of them";
	case CHECK_BOOL:
		return a->kind == ARGUMENT_BOOL ? NULL : "must be true or false";
	case CHECK_BOUNDARY:
		return a->kind == ARGUMENT_WORD && word_find(boundaries, a->word) >= 0 ? NULL
		                                                                       : "must be periodic, zero or reflect";
	case CHECK_REDUCTION:
		return a->kind == ARGUMENT_WORD && word_find(reductions, a->word) >= 0 ? NULL : "must be mean, sum or none";
	case CHECK_OPERAND:
		return "must be an array";
	case CHECK_NORM:
		return a->kind == ARGUMENT_WORD && word_find(norms, a->word) >= 0 ? NULL : "must be backward, ortho or forward";
	case CHECK_MODE:
		return a->kind == ARGUMENT_WORD && (!strcmp(a->word, modes[0]) || !strcmp(a->word, modes[1]))
		           ? NULL
		           : "must be nearest or linear";
	case CHECK_DTYPE: {
		enum dtype dtype = a->kind == ARGUMENT_WORD ? dtype_find(a->word, strlen(a->word)) : DTYPE_COUNT;
		return dtype < DTYPE_BITS ? NULL : "must be f16, bf16, f32, f64, bool, or an integer type, i8 to u64";
	}
	case CHECK_SUBSCRIPTS: {
		struct subscripts subscripts;
		return a->kind == ARGUMENT_WORD ? subscripts_read(&subscripts, a->word)
		                                : "must be a string, as in einsum \"ij,jk->ik\" a";
	}
	}
	return NULL;
}

/* True if A, one axis or a list, has one that no int holds. Sets *FAR to it. */
static bool has_far_axis(const struct argument *a, int64_t *far)
{
	const int64_t *axes = a->kind == ARGUMENT_NUMBER ? &a->as_integer : a->integers;
	const size_t count = a->kind == ARGUMENT_NUMBER ? 1 : a->count;
	size_t i = 0;
	while (i < count && axes[i] >= INT_MIN && axes[i] <= INT_MAX)
		i++;
	if (i < count)
		*far = axes[i];
	return i < count;
}

static void store_axes(struct attrs *attrs, const struct argument *a)
{
	attrs->has_axis = true;
	attrs->axis_count = a->kind == ARGUMENT_NUMBER ? 1 : (int)a->count;
	for (int i = 0; i < attrs->axis_count; i++) {
		attrs->axis[i] = (int)(a->kind == ARGUMENT_NUMBER ? a->as_integer : a->integers[i]);
	}
}

static void store_pair(int64_t pair[2], const struct argument *a)
{
	for (int i = 0; i < 2; i++)
		pair[i] = a->kind == ARGUMENT_NUMBER ? a->as_integer : a->integers[a->count > 1 ? i : 0];
}

static void store_padding(struct attrs *attrs, const struct argument *a)
{
	attrs->same = is_word_same(a);
	attrs->padding_count = a->kind == ARGUMENT_LIST ? (int)a->count : 1;
	for (int i = 0; i < 4; i++)
		attrs->padding[i] = a->kind == ARGUMENT_LIST ? a->integers[i % attrs->padding_count] : a->as_integer;
}

static void store_numbers(struct numbers *numbers, const struct argument *a)
{
	numbers->list = a->kind == ARGUMENT_LIST ? a->numbers : NULL;
	numbers->count = a->kind == ARGUMENT_LIST ? (int64_t)a->count : 0;
	numbers->one = a->kind == ARGUMENT_NUMBER ? a->number : 0;
}

static void store_extent(struct shape *shape, int64_t extent)
{
	if (shape->ndim < MAX_DIMS)
		shape->dim[shape->ndim++] = extent;
}

/* How an argument of each kind is stored in FIELD. */
#define STORE_NUMBER(FIELD) attrs->FIELD = a->number
#define STORE_POSITIVE STORE_NUMBER
#define STORE_SCALE(FIELD) (attrs->number[0] = a->number, attrs->FIELD = true)
#define STORE_NOT_NEGATIVE STORE_NUMBER
#define STORE_PROBABILITY STORE_NUMBER
#define STORE_SHARE STORE_NUMBER
#define STORE_SPACINGS(FIELD) store_numbers(&attrs->FIELD, a)
#define STORE_WEIGHTS STORE_SPACINGS
#define STORE_INTEGER(FIELD) attrs->FIELD = a->as_integer
#define STORE_BOUND(FIELD)                                                                                             \
	attrs->FIELD = (struct slice_bound) { true, a->as_integer }
#define STORE_EXTENT(FIELD) store_extent(&attrs->FIELD, a->as_integer)
#define STORE_STREAM STORE_BOUND
#define STORE_ORDER STORE_INTEGER
#define STORE_COUNT STORE_INTEGER
#define STORE_POSITIVE_INTEGER STORE_INTEGER
#define STORE_NOT_ZERO STORE_INTEGER
#define STORE_AXES(FIELD) store_axes(attrs, a)
#define STORE_PADDING(FIELD) store_padding(attrs, a)
#define STORE_COUNTS(FIELD) store_pair(attrs->FIELD, a)
#define STORE_STRIDES STORE_COUNTS
#define STORE_BOOL(FIELD) attrs->FIELD = a->boolean
#define STORE_BOUNDARY(FIELD) attrs->FIELD = (enum boundary)word_find(boundaries, a->word)
#define STORE_REDUCTION(FIELD) attrs->FIELD = (uint8_t)word_find(reductions, a->word)
#define STORE_OPERAND(FIELD)
#define STORE_NORM(FIELD) attrs->FIELD = (enum fft_norm)word_find(norms, a->word)
#define STORE_MODE(FIELD) attrs->FIELD = !strcmp(a->word, modes[1])
#define STORE_DTYPE(FIELD) attrs->FIELD = dtype_find(a->word, strlen(a->word))
#define STORE_SUBSCRIPTS(FIELD) attrs->FIELD = a->word

static void store_argument(struct attrs *attrs, enum argument_id id, const struct argument *a)
{
	switch (id) {
	case ID_NONE:
		break;
#define ARGUMENT(NAME, KIND, FIELD)                                                                                    \
	case ID_##NAME:                                                                                                    \
		STORE_##KIND(FIELD);                                                                                           \
		break;
#include "ops/arguments.def"
	}
}

struct argument argument_of_double(double number)
{
	const bool integer = number == floor(number) && fabs(number) <= 0x1p53;
	return (struct argument){
		.kind = ARGUMENT_NUMBER, .number = number, .integer = integer, .as_integer = integer ? (int64_t)number : 0};
}

static enum argument_id find_argument(const char *name)
{
	for (size_t i = 1; i < sizeof arguments / sizeof *arguments; i++)
		if (!strcmp(arguments[i].name, name))
			return (enum argument_id)i;
	return ID_NONE;
}

/* True if the default WORD means that the argument is absent. */
static bool means_absent(const char *word) { return !strcmp(word, "none") || !strcmp(word, "all"); }

void attrs_default(struct attrs *attrs, enum op op)
{
	const char *text = op_table[op].arguments;
	struct token token;
	memset(attrs, 0, sizeof *attrs); /* bytes are compared */
	while (next_token(&text, &token)) {
		if (!token.has_value || means_absent(token.value))
			continue;
		struct argument a = {.kind = ARGUMENT_NUMBER, .integer = true, .word = token.value};
		if (!strcmp(token.value, "true") || !strcmp(token.value, "false")) {
			a.kind = ARGUMENT_BOOL;
			a.boolean = token.value[0] == 't';
		} else if (sscanf(token.value, "%lf", &a.number) != 1) {
			a.kind = ARGUMENT_WORD;
		}
		a.as_integer = (int64_t)a.number; /* the defaults in the table are small */
		store_argument(attrs, find_argument(token.name), &a);
	}
}

size_t attrs_size(const struct attrs *attrs, enum op op)
{
	if (op_takes_extents(op))
		return sizeof *attrs;
	if (op_window_axes(op))
		return offsetof(struct attrs, count_padding) + sizeof attrs->count_padding;
	return offsetof(struct attrs, axis) + (size_t)(attrs->axis_count ? attrs->axis_count : 1) * sizeof attrs->axis[0];
}

double *attrs_constants(struct attrs *attrs, enum op op, size_t *count)
{
	*count = 1;
	switch (op) {
	case OP_layernorm:
	case OP_rmsnorm:
	case OP_groupnorm:
		return &attrs->eps;
	case OP_huber:
		return &attrs->delta;
	case OP_quantile:
		return &attrs->q;
	case OP_dropout:
		return &attrs->p;
	default:
		*count = op_table[op].class == OP_CLASS_UNARY && op_table[op].arguments[0] ? MOST_CONSTANTS : 0;
		return attrs->number;
	}
}

/* True if TOKEN is argument NAME. One letter may be a capital, as in `tril K=1`. */
static bool has_name(const struct token *token, const char *name)
{
	return !strcmp(token->name, name) || (name[0] && !name[1] && !token->name[1] && (name[0] | ' ') == token->name[0]);
}

/* Finds the token of argument NAME or, if NAME is NULL, of the INDEX-th positional one. Returns false if none. */
static bool find_token(enum op op, const char *name, int index, struct token *token)
{
	const char *text = op_table[op].arguments;
	while (name && next_token(&text, token))
		if (has_name(token, name))
			return true;
	if (name || index < 0)
		return false;
	if (token_at(op, 0, token) && token->many)
		return true;
	return token_at(op, index, token) && is_positional(op, token);
}

/* Returns "a, b and c", or "" if memory runs out. */
static const char *join_names(const char *const *names, size_t count, struct arena *arena)
{
	const char *text = "";
	for (size_t i = 0; i < count && text; i++)
		text = arena_printf(arena, "%s%s%s", text, i == 0 ? "" : i + 1 == count ? " and " : ", ", names[i]);
	return text ? text : "";
}

static enum status unknown_argument(enum op op, const char *name, struct complaint *complaint)
{
	const char *names[16];
	const size_t count = op_argument_names(op, names, 16, complaint->arena);
	int least, most;
	op_positionals(op, &least, &most);
	if (name) {
		complaint->hint = suggest_nearest(name, names, count);
		complaint->message = count ? arena_printf(complaint->arena, "unknown option '%s' for '%s'%s%s", name,
		                                          op_table[op].name, complaint->hint ? "" : ", which has ",
		                                          complaint->hint ? "" : join_names(names, count, complaint->arena))
		                           : arena_printf(complaint->arena, "'%s' takes no options", op_table[op].name);
	} else {
		complaint->message = arena_printf(complaint->arena, "'%s' takes %d arguments at most", op_table[op].name, most);
	}
	return STATUS_CHAIN;
}

static bool is_of_numbers(enum argument_id id) { return arguments[id].check <= CHECK_STRIDES; }
static bool is_of_integers(enum argument_id id) { return is_of_numbers(id) && arguments[id].check >= CHECK_INTEGER; }

/* The same for an operation with windows. That of one axis takes one number, and a padding of two. */
static const char *check_window_use(enum op op, enum argument_id id, const struct argument *a)
{
	const enum argument_check check = arguments[id].check;
	const bool flat = op_window_axes(op) == 1, wrong = check_argument(check, a) != NULL;
	const bool same = op == OP_conv1d || op == OP_conv2d;
	if (flat && check == CHECK_STRIDES && (wrong || a->count > 1))
		return "must be a positive integer";
	if (flat && check == CHECK_COUNTS && (wrong || a->count > 1))
		return "must be an integer of 0 or more";
	if (check == CHECK_PADDING && (wrong || (flat && a->count > 2) || (!same && is_word_same(a))))
		return flat   ? same ? "must be an integer of 0 or more, two of them, or same"
		                     : "must be an integer of 0 or more, or two of them"
		       : same ? "must be an integer of 0 or more, two or four of them, or same"
		              : "must be an integer of 0 or more, or two or four of them";
	return check_argument(check, a);
}

/* Returns NULL if A suits argument ID of OP, else what A must be: by its kind, or one number where OP takes no list. */
static const char *check_use(enum op op, enum argument_id id, const struct argument *a)
{
	const bool several = a->kind == ARGUMENT_LIST && a->count != 1;
	if (is_of_integers(id) && a->kind == ARGUMENT_NUMBER && fabs(a->number) >= 0x1p63 && !isinf(a->number) &&
	    !a->integer)
		return id == ID_stream ? "must be an integer from 0 to 2^63 - 1"
		       : id == ID_seed ? "must be an integer from -2^63 to 2^63 - 1"
		                       : "must be an integer that fits in 64 bits";
	const bool one = !strstr(op_table[op].arguments, "axis=none") && !op_normalizes(op);
	if (id == ID_axis && one && (several || check_argument(CHECK_AXES, a)))
		return "must be an integer";
	if (id == ID_n && op == OP_irfft) /* 0 stands for none */
		return check_argument(CHECK_POSITIVE_INTEGER, a);
	return op_window_axes(op) ? check_window_use(op, id, a) : check_argument(arguments[id].check, a);
}

/* Returns the value of argument TOKEN, of kind CHECK, that WORD may be a misspelling of, or NULL. */
static const char *nearest_value(enum argument_check check, const struct token *token, const char *word)
{
	static const char *const truths[] = {"true", "false"}, *const absent[] = {"none", "all"};
	static const char *const dtypes[] = {"f16", "bf16", "f32", "f64", "i8",  "i16", "i32",
	                                     "i64", "u8",   "u16", "u32", "u64", "bool"};
	if (check == CHECK_BOOL)
		return suggest_nearest(word, truths, 2);
	if (check == CHECK_BOUNDARY)
		return suggest_nearest(word, boundaries, 3);
	if (check == CHECK_NORM)
		return suggest_nearest(word, norms, 3);
	if (check == CHECK_MODE)
		return suggest_nearest(word, modes, 2);
	if (check == CHECK_REDUCTION)
		return suggest_nearest(word, reductions, 3);
	if (check == CHECK_DTYPE && dtype_find(word, strlen(word)) == DTYPE_COUNT)
		return suggest_nearest(word, dtypes, sizeof dtypes / sizeof *dtypes);
	return means_absent(token->value) ? suggest_nearest(word, &absent[!strcmp(token->value, "all")], 1) : NULL;
}

enum status attrs_set(struct attrs *attrs, enum op op, const char *name, int index, const struct argument *argument,
                      struct complaint *complaint)
{
	struct token token;
	if (!find_token(op, name, index, &token))
		return unknown_argument(op, name, complaint);
	if (name && argument->kind == ARGUMENT_WORD && means_absent(token.value) && !strcmp(argument->word, token.value))
		return STATUS_OK;
	if (token.many && argument->kind == ARGUMENT_LIST && argument->integers && argument->count <= MAX_DIMS) {
		for (size_t i = 0; i < argument->count; i++)
			store_extent(&attrs->shape, argument->integers[i]);
		return STATUS_OK;
	}
	const enum argument_id id = find_argument(token.name);
	const char *wrong = check_use(op, id, argument);
	int64_t far;
	if (wrong) {
		const bool named = argument->kind == ARGUMENT_WORD && is_of_numbers(id);
		const char *kind = argument->quoted ? "' is a string" : "' is a name";
		complaint->message =
			arena_printf(complaint->arena, "%s of '%s' %s%s%s%s", token.name, op_table[op].name, wrong,
		                 named ? ", written out: '" : "", named ? argument->word : "", named ? kind : "");
		complaint->hint =
			argument->kind == ARGUMENT_WORD ? nearest_value(arguments[id].check, &token, argument->word) : NULL;
		return STATUS_CHAIN;
	}
	if (arguments[id].check == CHECK_AXES && has_far_axis(argument, &far)) {
		complaint->message =
			arena_printf(complaint->arena, "axis %" PRId64 " of '%s' is no axis: arrays have at most %d", far,
		                 op_table[op].name, MAX_DIMS);
		return STATUS_CHAIN;
	}
	store_argument(attrs, id, argument);
	return STATUS_OK;
}

int op_option_operand(enum op op, const char *name)
{
	struct token token;
	const bool found = op_table[op].optional && find_token(op, name, -1, &token);
	return found && arguments[find_argument(token.name)].check == CHECK_OPERAND ? op_table[op].operands + 1 : 0;
}

int op_class_axis(const struct attrs *attrs, int ndim)
{
	int axis = ndim - 1;
	if (attrs && attrs->has_axis)
		(void)axis_resolve(attrs->axis[0], ndim, &axis);
	return axis;
}

bool op_takes_number(enum op op, const char *name, int index)
{
	struct token token;
	return find_token(op, name, index, &token) && is_of_numbers(find_argument(token.name));
}

bool op_is_dot(enum op op) { return op == OP_matmul || op == OP_linear || op == OP_dot; }

bool op_derivative_is_number(enum op op)
{
	const struct op_info *info = &op_table[op];
	return info->class != OP_CLASS_GENERAL && info->differentiable && !(info->needs_v & ~NEED_A);
}

enum op op_by_operand(enum op op, uint32_t k)
{
	if (op == OP_attention)
		return k == 2 ? OP_ATTENDED : OP_MASKED;
	return k == 2 ? OP_ON_DIAGONAL : OP_ON_UPPER;
}

unsigned op_libraries(enum op op)
{
	const bool lapack = op_is_tridiagonal(op) || op == OP_solve || op == OP_cholesky || op == OP_inv || op == OP_logdet;
	return lapack ? LIBRARY_LAPACK : op_is_product(op) ? LIBRARY_PRODUCTS : 0;
}

int op_window_axes(enum op op)
{
	switch (op) {
	case OP_conv1d:
	case OP_conv_transpose1d:
	case OP_maxpool1d:
	case OP_avgpool1d:
		return 1;
	case OP_conv2d:
	case OP_conv_transpose2d:
	case OP_maxpool2d:
	case OP_avgpool2d:
		return 2;
	default:
		return 0;
	}
}

bool op_is_resampled(const struct attrs *attrs, int k, int ndim)
{
	return attrs->has_axis ? axis_named(attrs, k, ndim) : k >= 2 || ndim <= 2;
}

double op_resampling_factor(const struct attrs *attrs, int k, int ndim)
{
	int place = 0, axis;
	if (!attrs->factors.list)
		return attrs->factors.one;
	for (int i = 0; i < k && !attrs->has_axis; i++)
		place += op_is_resampled(attrs, i, ndim);
	for (int i = 0; attrs->has_axis && i < attrs->axis_count; i++)
		if (axis_resolve(attrs->axis[i], ndim, &axis) && axis == k)
			place = i;
	return attrs->factors.list[place];
}

struct window op_window(enum op op, const struct attrs *attrs, int i, int64_t kernel)
{
	const int64_t longest = INT64_MAX / 4; /* no array has an axis so long */
	const int axes = op_window_axes(op), count = attrs->padding_count;
	const bool pools = attrs->window[0] > 0;
	struct window w = {.stride = attrs->stride[i], .gap = pools ? 1 : attrs->dilation[i]};
	if (pools)
		w.extent = attrs->window[i];
	else if (kernel > 0 && (__builtin_mul_overflow(kernel - 1, w.gap, &w.extent) || w.extent++ > longest))
		w.extent = longest;
	if (w.stride == 0)
		w.stride = w.extent;
	w.stride = w.stride > longest ? longest : w.stride;
	w.before = attrs->padding[count == 2 * axes ? 2 * i : i];
	w.after = count == 2 * axes ? attrs->padding[2 * i + 1] : w.before;
	if (attrs->same) {
		w.before = (w.extent - 1) / 2;
		w.after = w.extent - 1 - w.before;
	}
	return w;
}

bool op_is_product(enum op op) { return op_is_dot(op) || op == OP_conv1d || op == OP_conv2d || op_is_transposed(op); }
