/*
 * What the scanner and the parser share, and the builders that the grammar's actions call. Only grammar/ and parse.c
 * include it.
 *
 * A builder that fails returns NULL or false. Then either a message has been given, or memory is short.
 */
#ifndef LANGUAGE_PARSE_H
#define LANGUAGE_PARSE_H

#include "language/syntax.h"

#include <setjmp.h>

/* Values of the grammar's symbols. */

struct word { /* a name, or the text of a string */
	const char *text;
	struct span span;
};
struct parse_number {
	const char *text;
	struct span span;
	struct number number;
};
struct parse_value { /* of a constant expression */
	double value;
	int depth; /* operators in it that open to the right */
};
struct operand_list {
	struct operand *first, *last;
};
struct option_list {
	struct option *first, *last;
};
struct name_chain {
	struct name_list *first, *last;
};
struct parse_integers {
	int64_t *items;
	size_t count, capacity;
};
struct parse_list { /* a nested list of numbers */
	double *values;
	size_t count, capacity;
	int64_t elements;   /* of the outermost list, so far */
	struct shape shape; /* of each element until parse_list_close; then of the whole */
};

/* Appends ITEM to LIST, which has FIRST and LAST. */
#define PARSE_APPEND(list, item)                                                                                       \
	((list)->last = (list)->last ? ((list)->last->next = (item)) : ((list)->first = (item)))

struct parse {
	const struct context *context;
	const struct source *source;
	struct syntax *syntax;
	uint32_t offset, line, line_start; /* the scanner's place */
	int nested;                        /* open parentheses and square brackets */
	bool stage_begin;                  /* the next word begins a statement */
	struct span open[MAX_NESTING];     /* open brackets and `repeat`s, outermost first */
	int depth;
	struct comment *last_comment;
	int errors;    /* messages of the context before this parse */
	jmp_buf fatal; /* where the scanner goes when memory is short */
};

/* For the scanner. */

/* Gives the message; returns the token YYUNDEF. */
int parse_fail(struct parse *parse, const struct span *span, const char *message);
/* Opens a bracket or a `repeat`. BODY: a '{' that begins the block of the open `repeat`, and takes its level. */
bool parse_open(struct parse *parse, const struct span *span, bool body);
/* Closes the innermost bracket and each `repeat` in it. One that does not match stays open, for the message. */
void parse_close(struct parse *parse, char bracket);
/* Closes the `repeat`s of the statement that ends. */
void parse_end_statement(struct parse *parse);
bool parse_add_comment(struct parse *parse, const char *text, size_t length, const struct span *span);

/* For the parser: errors. */

enum parse_found { FOUND_TOKEN, FOUND_NEWLINE, FOUND_END };
/* What the parser met, the COUNT things that it wanted instead, in words, and what to do (NULL: nothing is known). */
struct parse_mismatch {
	enum parse_found found;
	const char *const *wanted;
	int count;
	const char *hint;
};
void parse_syntax_error(struct parse *parse, struct span span, const struct parse_mismatch *mismatch);
void parse_too_deep(struct parse *parse, struct span span);

/* Statements. SPAN is the whole statement's; HEAD the span of the word that it begins with. */

struct block *parse_block(struct parse *parse);
void parse_finish_block(struct block *block, struct span open, struct span close);
void parse_finish_chain(const struct parse *parse, struct block *chain);
struct statement *parse_statement(struct parse *parse, enum statement_kind kind, struct span span,
                                  const struct word *name);
/* TYPE and INIT may be NULL. */
struct statement *parse_declare(struct parse *parse, enum statement_kind kind, struct span span,
                                const struct word *name, const struct declared *type, const struct init *init);
struct statement *parse_def(struct parse *parse, struct span span, const struct word *name,
                            struct name_list *parameters, struct block *block);
struct statement *parse_stage(struct parse *parse, struct span span, const struct word *name,
                              const struct operand_list *operands, const struct option_list *options);
struct statement *parse_repeat(struct parse *parse, struct span span, struct span head,
                               const struct parse_number *count, struct block *block);
struct statement *parse_repeat_stage(struct parse *parse, struct span span, struct span head,
                                     const struct parse_number *count, struct statement *stage);
struct statement *parse_for(struct parse *parse, struct span span, struct span head, struct name_list *names,
                            struct name_list *over, struct block *block);
struct statement *parse_checkpoint(struct parse *parse, struct span span, struct span head,
                                   const struct option_list *options, struct block *block);
bool parse_add_name(struct parse *parse, struct name_chain *names, const struct word *name);

/* Operands and constant expressions. */

struct operand *parse_number_operand(struct parse *parse, const struct parse_number *number);
/* INDEX NULL: none. */
struct operand *parse_name_operand(struct parse *parse, const struct word *name, const struct parse_number *index,
                                   struct span span);
struct operand *parse_expression_operand(struct parse *parse, const struct parse_value *value, struct span span);
struct operand *parse_block_operand(struct parse *parse, struct block *block, struct span span);
bool parse_negate(struct parse *parse, struct parse_number *number, struct span span);
bool parse_constant(struct parse *parse, struct parse_value *value, const struct word *name);
/* *BASE to the power of EXPONENT, and *VALUE negated; SPAN is the operator's. */
bool parse_power(struct parse *parse, struct parse_value *base, const struct parse_value *exponent, struct span span);
bool parse_minus(struct parse *parse, struct parse_value *value, struct span span);

/* Options. */

struct option *parse_option(struct parse *parse, const struct word *name, enum value_kind kind,
                            const struct word *value);
struct option *parse_number_option(struct parse *parse, const struct word *name, const struct parse_number *number);
struct option *parse_word_option(struct parse *parse, const struct word *name, const struct word *value);
/* SPAN covers the brackets. */
struct option *parse_integers_option(struct parse *parse, const struct word *name,
                                     const struct parse_integers *integers, struct span span);
bool parse_add_integer(struct parse *parse, struct parse_integers *integers, const struct parse_number *number);

/* Types and initial values. */

/* SHAPE NULL: 0-d. */
struct declared *parse_type(struct parse *parse, const struct word *dtype, const struct shape *shape, struct span span);
/* Adds an extent to SHAPE. SHAPE NULL: the first; NUMBER NULL: `*`. */
struct shape *parse_extent(struct parse *parse, struct shape *shape, const struct parse_number *number,
                           struct span span);
struct init *parse_init_number(struct parse *parse, double value, struct span span);
struct init *parse_init_list(struct parse *parse, const struct parse_list *list, struct span span);
struct init *parse_init_word(struct parse *parse, const struct word *word);
/* KEY NULL: none. */
struct init *parse_init_load(struct parse *parse, const struct word *word, const char *path, const char *key,
                             struct span span);
struct init *parse_init_call(struct parse *parse, const struct word *word, const struct parse_list *arguments,
                             struct span span);
struct parse_list *parse_list(struct parse *parse);
/* Both append an element, which must have the shape of those before it. */
bool parse_list_add(struct parse *parse, struct parse_list *list, double value, struct span span);
bool parse_list_join(struct parse *parse, struct parse_list *list, const struct parse_list *element, struct span span);
bool parse_list_close(struct parse *parse, struct parse_list *list, struct span span);

#endif
