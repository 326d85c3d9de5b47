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

struct parse_number {
	const char *text;
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
struct comment_list {
	struct comment *first, *last;
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
	struct shape shape; /* the shape of each element; after parse_list_close that of the list */
};

/* Appends ITEM to LIST, which has FIRST and LAST. */
#define PARSE_APPEND(list, item)                                                                                       \
	((list)->last = (list)->last ? ((list)->last->next = (item)) : ((list)->first = (item)))
/* A new TYPE with the given fields; NULL where memory is short. */
#define PARSE_NEW(parse, type, ...) ((type *)parse_copy(parse, &(const type){__VA_ARGS__}, sizeof(type)))

struct parse {
	const struct context *context;
	const struct source *source;
	struct syntax *syntax;
	uint32_t offset, line, line_start; /* the scanner's place */
	int nested;                        /* open parentheses and square brackets */
	bool stage_begin;                  /* the next word begins a statement */
	struct span open[MAX_NESTING];     /* open brackets and `repeat`s, outermost first */
	int depth;
	struct comment_list comments;
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

/* For the parser. SPAN is the place of the part that is built or refused. */

void *parse_copy(struct parse *parse, const void *from, size_t size);
/* What was met at SPAN is not one of the COUNT things WANTED, in words. HINT: what to do, or NULL. */
void parse_syntax_error(struct parse *parse, struct span span, const char *const *wanted, int count, const char *hint);
void parse_too_deep(struct parse *parse, struct span span);

/* Each check gives a message and returns false if it fails. */

/* NUMBER is an integer that fits in 64 bits. */
bool parse_check_integer(struct parse *parse, const struct parse_number *number, struct span span);
/* TYPE, that of the param or const NAME, is not streamed. */
bool parse_check_type(struct parse *parse, const struct declared *type, const char *name);
/* DEPTH operators that open to the right are not too many. They wait on the parser's stack: they nest as brackets do. */
bool parse_check_depth(struct parse *parse, int depth, struct span span);

/* True if WORD is `true` or `false`. */
bool parse_is_truth(const char *word);
bool parse_negate(struct parse *parse, struct parse_number *number);
bool parse_constant(struct parse *parse, double *value, const char *name, struct span span);
/* SPAN covers the parentheses. */
struct operand *parse_expression_operand(struct parse *parse, double value, struct span span);
bool parse_add_integer(struct parse *parse, struct parse_integers *integers, const struct parse_number *number,
                       struct span span);
struct declared *parse_type(struct parse *parse, const char *dtype, struct span dtype_span, const struct shape *shape,
                            struct span span);
/* Adds an extent to SHAPE. SHAPE NULL: the first; NUMBER NULL: `*`. */
struct shape *parse_extent(struct parse *parse, struct shape *shape, const struct parse_number *number,
                           struct span span);
/* A number or a list. LIST NULL: memory is short. */
struct init *parse_init_list(struct parse *parse, enum init_kind kind, const struct parse_list *list, struct span span);
/* The form NAME of what INIT has: nothing, a path and perhaps a key, or numbers. */
struct init *parse_init_form(struct parse *parse, const char *name, struct span name_span, const struct init *init);
/* Appends ELEMENT, which must have the shape of those before it, to LIST (NULL: a new one). Returns LIST or NULL. */
struct parse_list *parse_list_add(struct parse *parse, struct parse_list *list, const struct parse_list *element,
                                  struct span span);
#define PARSE_ADD_NUMBER(parse, list, number, span)                                                                    \
	parse_list_add(parse, list, &(struct parse_list){.values = &(double){number}, .count = 1}, span)
/* LIST NULL: an empty one. */
struct parse_list *parse_list_close(struct parse *parse, struct parse_list *list, struct span span);

#endif
