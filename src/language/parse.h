/*
 * Declarations that the scanner and the parser share, and the builders that the grammar's actions call. Only grammar/
 * and parse.c include it.
 *
 * A builder that fails returns NULL or false. It has then reported an error, or memory is short.
 */
#ifndef LANGUAGE_PARSE_H
#define LANGUAGE_PARSE_H

#include "language/syntax.h"

#include <setjmp.h>

/* Values of the grammar's symbols. */

struct parse_number {
	const char *text;
	struct number number;
};
struct operand_list {
	struct operand *first, *last;
};
struct option_list {
	struct option *first, *last;
};
struct comment_list {
	struct comment *first, *last;
};
struct name_chain {
	struct name_list *first, *last;
};
struct export_chain { /* the names in the def, and those where it is called */
	struct name_chain names, as;
};
struct formula_list {
	struct formula *first, *last;
};
struct call_arguments {
	struct formula_list values;
	struct option_list options;
};
struct index_list {
	struct index_part *first, *last;
};
struct extent { /* a formula, or NULL for `*` */
	struct formula *formula;
};
struct extent_list {
	struct shape *shape;
	struct formula **formulas; /* as of struct declared */
};
struct parse_list {
	struct list parsed; /* until parse_list_close, SHAPE is the shape of an element */
	size_t capacity, formula_capacity;
	int64_t elements; /* number of elements of the outermost list so far */
};

/* Appends ITEM to LIST, a linked list with the fields first and last. */
#define PARSE_APPEND(list, item)                                                                                       \
	((list)->last = (list)->last ? ((list)->last->next = (item)) : ((list)->first = (item)))
/* Return a new TYPE with the given fields, or NULL where memory is short. KEEP is for what a chain refers to. */
#define PARSE_NEW(parse, type, ...) ((type *)parse_copy((parse)->nodes, &(const type){__VA_ARGS__}, sizeof(type)))
#define PARSE_KEEP(parse, type, ...)                                                                                   \
	((type *)parse_copy((parse)->context->arena, &(const type){__VA_ARGS__}, sizeof(type)))

/* A word is compared with the last one of its hash: most of a written-out chain's words repeat. */
enum { RECENT_WORDS = 64 };

/* Where the scanner is in the head of a loop: after a `repeat`, a `for`, its `in`, or an array that it runs over. */
enum loop_head { HEAD_NONE, HEAD_REPEAT, HEAD_FOR, HEAD_IN, HEAD_OVER, HEAD_AS };

struct parse {
	const struct context *context; /* its arena holds what a chain refers to */
	struct arena *nodes;           /* holds all other nodes, and the scanner's memory */
	const char *recent[RECENT_WORDS];
	const struct source *source;
	struct syntax *syntax;
	uint32_t offset, line, line_start; /* the scanner's place; the offset at which LINE begins */
	int nested;                        /* number of open parentheses and square brackets */
	bool stage_begin;                  /* the next word begins a statement, or the stage of a `repeat` */
	bool exports;                  /* in an `export` or `output`: `as` is a word of its own outside of parentheses */
	bool repeats;                  /* right after a `repeat`: `while` is a word of its own */
	enum loop_head in_loop;        /* `as` is a word after a count or an array; the next is the counter's name */
	bool repeated;                 /* in the head of a `repeat`: after the counter's name a stage may follow */
	int count_nested;              /* NESTED within the parentheses of a repeat's count; 0: outside of such */
	struct span open[MAX_NESTING]; /* open brackets and `repeat`s, outermost first */
	int depth;
	bool unmatched; /* a bracket has closed none */
	struct comment_list comments;
	struct formula *spare; /* formulas that the tree does not need, by `next` */
	int errors;            /* number of errors that the context had reported before this parse */
	jmp_buf fatal;         /* the scanner jumps here when memory is short */
};

/* For the scanner. */

/* Reports MESSAGE at SPAN, unless this parse has reported an error. Returns the token YYUNDEF. */
int parse_fail(struct parse *parse, const struct span *span, const char *message);
/* Opens the bracket or `repeat` at SPAN. False beyond MAX_NESTING. BODY: '{', which replaces an innermost `repeat`. */
bool parse_open(struct parse *parse, const struct span *span, bool body);
/* Closes the `repeat`s within the innermost bracket, and the bracket itself if BRACKET matches it. */
void parse_close(struct parse *parse, char bracket);
#define PARSE_FAIL(parse, status, span, ...)                                                                           \
	diag_at((parse)->context->diags, status, (parse)->source, span, __VA_ARGS__)
#define PARSE_HINT(parse, ...) diag_hint((parse)->context->diags, __VA_ARGS__)

/* Returns the one text of the word of LENGTH bytes at TEXT, or a further one. NULL where memory is short. */
const char *parse_word(struct parse *parse, const char *text, size_t length);
/* Closes the `repeat`s of the statement that ends. */
void parse_end_statement(struct parse *parse);
bool parse_add_comment(struct parse *parse, const char *text, size_t length, const struct span *span);

/* For the parser. SPAN is the place of the part that is built or refused. */

/* Returns a copy of SIZE bytes in ARENA; NULL where memory is short. */
void *parse_copy(struct arena *arena, const void *from, size_t size);
/* Reports that the token at SPAN is none of WANTED's COUNT tokens. HINT (or NULL) yields to a hint at a keyword. */
void parse_syntax_error(struct parse *parse, struct span span, const char *const *wanted, int count, const char *hint);
void parse_too_deep(struct parse *parse, struct span span);

/* True if NAME follows the letters `def` anywhere in the source, a comment included. */
bool parse_defines(const struct parse *parse, const char *name);

/*
 * Hints for an unexpected token at SPAN, from parse_hints.c, or NULL. STAGE: the token is an operator in a stage. CALL: it
 * stands in parentheses right after the word that begins the statement. SUM: after `stop=n-` or `add -`. JOINED: it
 * follows a value in a formula. DEF: it follows the operands of a def or of a let. WORD: it follows the word of a statement in a
 * formula.
 */
const char *parse_hint_stage(struct parse *parse, struct span span);
const char *parse_hint_call(struct parse *parse, struct span span);
const char *parse_hint_sum(struct parse *parse, struct span span);
const char *parse_hint_joined(struct parse *parse, struct span span);
/* For any error at SPAN: its statement begins with a word of others, or with an operation called as theirs are. */
const char *parse_hint_recipe(struct parse *parse, struct span span);
/* For a statement that begins with the operator at SPAN. */
const char *parse_hint_operator(struct parse *parse, struct span span);
const char *parse_hint_def(struct parse *parse, struct span span);
const char *parse_hint_word(struct parse *parse, struct span span);
/* Moves SPAN, a name before '=', to that character. */
void parse_find_equals(const struct parse *parse, struct span *span);
/* True if the innermost open bracket begins the value of an option; the path of a load(). */
bool parse_opens_value(const struct parse *parse);
bool parse_opens_load(const struct parse *parse);

/* Each check reports an error and returns false if the condition does not hold. */

/* Checks that NUMBER is an integer (1e3 is one, 2.0 is none) and fits in int64_t. */
bool parse_check_integer(struct parse *parse, const struct parse_number *number, struct span span);
/* Checks that TYPE, the type of the param or const NAME, has no streamed axis. */
bool parse_check_type(struct parse *parse, const struct declared *type, const char *name);
/*
 * Checks that NAME, of a def or program, which is KIND, begins no statement: a stage of that name would be read as such a
 * statement, and the syntax error would hide this one.
 */
bool parse_check_stage_name(struct parse *parse, enum statement_kind kind, const char *name, struct span span);
/* Checks that NAME begins a statement and means something else there only: it is no word that formulas reserve. */
bool parse_check_word(struct parse *parse, const char *name, struct span span);
/* Checks that no option stands before another argument of a call. */
bool parse_check_place(struct parse *parse, const struct call_arguments *arguments, struct span span);
/* Checks that NAME is `max`, the limit of a `repeat while`. */
bool parse_check_limit(struct parse *parse, const char *name, struct span name_span);

/* Formulas. Each returns NULL if it fails. */

struct formula *parse_number_formula(struct parse *parse, const struct parse_number *number, struct span span);
/* KIND is NAME, CURRENT or STRING. */
struct formula *parse_name_formula(struct parse *parse, enum formula_kind kind, const char *text, struct span span);
struct formula *parse_list_formula(struct parse *parse, const struct parse_list *list);
/* NAME_SPAN begins SPAN. */
struct formula *parse_call(struct parse *parse, const char *name, struct span name_span,
                           const struct call_arguments *arguments, struct span span);
struct formula *parse_prefix(struct parse *parse, enum operator operator, struct span span, struct formula *operand);
/* Applies OPERATOR, at SPAN, to LEFT, which it returns. */
struct formula *parse_binary(struct parse *parse, struct formula *left, enum operator operator, struct span span,
                             struct formula *right);
/* Applies the index INDEX, between the brackets OPEN and CLOSE, to LEFT, which it returns. */
/* Returns FORMULA, a bound of a slice, or NULL if it is the name None: then the slice has no such bound. */
struct formula *parse_bound(struct parse *parse, struct formula *formula);
/* Returns the part FORMULA of an index: a place, or a new axis if it is the name None. NULL where memory is short. */
struct index_part *parse_index_part(struct parse *parse, struct formula *formula, struct span span);
struct formula *parse_index(struct parse *parse, struct formula *left, struct index_part *index, struct span open,
                            struct span close);
/* Make an operand of FORMULA; the value of an option; an option of a call; an item of a `for` or an `export`; a count. */
struct operand *parse_operand(struct parse *parse, struct formula *formula, struct span span);
struct option *parse_option_value(struct parse *parse, struct formula *formula);
struct option *parse_call_option(struct parse *parse, const char *name, struct span name_span, struct formula *value);
struct name_list *parse_formula_name(struct parse *parse, struct formula *formula, struct span span);
bool parse_count(struct parse *parse, struct count *count, struct formula *formula);

/* Options. */

bool parse_is_truth(const char *word);
/* Returns the value of an option that SPAN of the source has: names that hyphens join. */
struct option *parse_hyphenated(struct parse *parse, struct span span);
bool parse_negate(struct parse *parse, struct parse_number *number);
/* Reports an error and returns false unless WORD, the result of a program, is `same`. */
bool parse_check_same(struct parse *parse, const char *word, struct span span);
struct declared *parse_type(struct parse *parse, const char *dtype, struct span dtype_span,
                            const struct extent_list *extents, struct span span);
/* Appends EXTENT, at SPAN, to EXTENTS. `*` must be the first. */
bool parse_add_extent(struct parse *parse, struct extent_list *extents, const struct extent *extent, struct span span);
/* Build the initial value FORMULA, or LIST. SPAN is its place. NULL: memory was short; returns NULL. */
struct init *parse_init_number(struct parse *parse, struct formula *formula, struct span span);
struct init *parse_init_list(struct parse *parse, const struct parse_list *list);
/* Builds the form NAME, such as `normal`. INIT has its arguments: none, numbers, or a path and perhaps a key. */
struct init *parse_init_form(struct parse *parse, const char *name, struct span name_span, const struct init *init);
/* Appends FORMULA to LIST (NULL: a new list). All elements must have one shape. Returns the list or NULL. */
struct parse_list *parse_list_add(struct parse *parse, struct parse_list *list, struct formula *formula);
/* Ends LIST (NULL: []): its shape becomes that of the whole list, at most MAX_DIMS axes. Returns the list or NULL. */
struct parse_list *parse_list_close(struct parse *parse, struct parse_list *list, struct span span);
#endif
