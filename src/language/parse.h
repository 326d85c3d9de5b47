/*
 * What the scanner and the parser share, and the functions that the grammar's
 * actions build nodes with. Only grammar/ and parse.c include it.
 *
 * A builder that cannot do its work returns NULL or false: it has either given a
 * message (failed) or found memory short (the arena says so).
 */
#ifndef LANGUAGE_PARSE_H
#define LANGUAGE_PARSE_H

#include "language/syntax.h"

#include <setjmp.h>

/* Values of the grammar's symbols. */
struct parse_number {
	const char *text;
	double value;
	int64_t whole; /* where INTEGER: written as an integer that fits */
	bool integer;
};
struct parse_value { /* of a constant expression */
	double value;
	int depth; /* operators within it that open to the right */
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
	int64_t elements;   /* so far, while it is open */
	struct shape shape; /* of each element while it is open; of the whole when closed */
};

struct parse {
	const struct context *context;
	const struct source *source;
	struct syntax *syntax;
	uint32_t offset, line, line_start; /* the scanner's place */
	int nested;                        /* open parentheses and square brackets */
	bool stage_begin;                  /* the next word begins a statement */
	struct span open[MAX_NESTING];     /* brackets and `repeat`s that are open, outermost first */
	int depth;
	struct comment *last_comment;
	bool failed;   /* a message has been given */
	jmp_buf fatal; /* the scanner is out of memory */
};

/* For the scanner. */

/* Gives the message; always returns the token that is none. */
int parse_fail(struct parse *parse, const struct span *span, const char *message);
/*
 * A bracket or a `repeat` opens, and is one level deeper than what it stands in.
 * BODY: it is the block of the `repeat` that is open, and takes its level.
 */
bool parse_open(struct parse *parse, const struct span *span, bool body);
/* The innermost bracket closes, and each `repeat` within it; one that does not match is left open, for the message. */
void parse_close(struct parse *parse, char bracket);
/* The statement ends: its `repeat`s are closed. */
void parse_end_statement(struct parse *parse);
bool parse_add_comment(struct parse *parse, const char *text, size_t length, const struct span *span);

/* For the parser: errors. */

enum parse_found { FOUND_TOKEN, FOUND_NEWLINE, FOUND_END };
/* What is at SPAN is not one of WANTED, which are in words; HINT may be NULL. */
void parse_syntax_error(struct parse *parse, struct span span, enum parse_found found, const char *const *wanted,
                        int count, const char *hint);
void parse_too_deep(struct parse *parse, struct span span);

/* Statements. */

struct block *parse_block(struct parse *parse);
void parse_append(struct block *block, struct statement *statement);
void parse_finish_block(struct block *block, struct span open, struct span close);
void parse_finish_chain(const struct parse *parse, struct block *chain);
struct statement *parse_statement(struct parse *parse, enum statement_kind kind, struct span span, const char *name,
                                  struct span name_span);
/* TYPE and INIT may be NULL. */
struct statement *parse_declare(struct parse *parse, enum statement_kind kind, struct span span, const char *name,
                                struct span name_span, const struct declared *type, const struct init *init);
struct statement *parse_def(struct parse *parse, struct span span, const char *name, struct span name_span,
                            struct name_list *parameters, struct block *block);
struct statement *parse_stage(struct parse *parse, struct span span, const char *name, struct span name_span,
                              const struct operand_list *operands, const struct option_list *options);
struct statement *parse_repeat(struct parse *parse, struct span span, struct span name_span,
                               const struct parse_number *count, struct span count_span, struct block *block);
struct statement *parse_repeat_stage(struct parse *parse, struct span span, struct span name_span,
                                     const struct parse_number *count, struct span count_span, struct statement *stage);
struct statement *parse_for(struct parse *parse, struct span span, struct span name_span, struct name_list *names,
                            struct name_list *over, struct block *block);
struct statement *parse_checkpoint(struct parse *parse, struct span span, struct span name_span,
                                   const struct option_list *options, struct block *block);
/* FROM NULL: the first. */
bool parse_add_name(struct parse *parse, struct name_chain *to, const struct name_chain *from, const char *name,
                    struct span span);

/* Operands and constant expressions. */

void parse_add_operand(struct operand_list *list, struct operand *operand);
struct operand *parse_number_operand(struct parse *parse, const struct parse_number *number, struct span span);
/* INDEX NULL: none. */
struct operand *parse_name_operand(struct parse *parse, const char *name, const struct parse_number *index,
                                   struct span index_span, struct span span);
struct operand *parse_expression_operand(struct parse *parse, const struct parse_value *value, struct span span);
struct operand *parse_block_operand(struct parse *parse, struct block *block, struct span span);
bool parse_negate(struct parse *parse, struct parse_number *to, const struct parse_number *from);
bool parse_constant(struct parse *parse, struct parse_value *value, const char *name, struct span span);
bool parse_power(struct parse *parse, struct parse_value *to, const struct parse_value *base,
                 const struct parse_value *exponent, struct span span);
bool parse_minus(struct parse *parse, struct parse_value *to, const struct parse_value *from, struct span span);

/* Options. */

void parse_add_option(struct option_list *list, struct option *option);
struct option *parse_option(struct parse *parse, const char *name, struct span span, enum value_kind kind,
                            const char *text, struct span value_span);
struct option *parse_number_option(struct parse *parse, const char *name, struct span span,
                                   const struct parse_number *number, struct span value_span);
struct option *parse_word_option(struct parse *parse, const char *name, struct span span, const char *word,
                                 struct span value_span);
/* INTEGERS NULL: an empty list. OPEN and CLOSE are its brackets. */
struct option *parse_integers_option(struct parse *parse, const char *name, struct span span,
                                     const struct parse_integers *integers, struct span open, struct span close);
bool parse_add_integer(struct parse *parse, struct parse_integers *to, const struct parse_integers *from,
                       const struct parse_number *number, struct span span);

/* Types and initial values. */

/* SHAPE NULL: 0-d. */
struct declared *parse_type(struct parse *parse, const char *dtype, struct span dtype_span, const struct shape *shape,
                            struct span span);
/* One more extent, SHAPE NULL: the first; NUMBER NULL: `*`. */
struct shape *parse_extent(struct parse *parse, struct shape *shape, const struct parse_number *number,
                           struct span span);
struct init *parse_init_number(struct parse *parse, double value, struct span span);
struct init *parse_init_list(struct parse *parse, const struct parse_list *list, struct span span);
struct init *parse_init_word(struct parse *parse, const char *word, struct span span);
struct init *parse_init_load(struct parse *parse, const char *word, struct span word_span, const char *path,
                             const char *key, struct span span);
struct init *parse_init_call(struct parse *parse, const char *word, struct span word_span,
                             const struct parse_list *arguments, struct span span);
struct parse_list *parse_list(struct parse *parse);
/* Both append an element, of the same shape as those before. */
bool parse_list_add(struct parse *parse, struct parse_list *list, double value, struct span span);
bool parse_list_join(struct parse *parse, struct parse_list *list, const struct parse_list *element, struct span span);
bool parse_list_close(struct parse *parse, struct parse_list *list, struct span span);

#endif
