/*
 * What the scanner and the parser share, and the functions that the grammar's
 * actions build nodes with. Only grammar/ and parse.c include it.
 */
#ifndef CHAIN_PARSE_H
#define CHAIN_PARSE_H

#include "chain/syntax.h"

enum { MAX_NESTING = 256, MAX_SOURCE = 16 << 20 };

struct parse_number {
	const char *text;
	double value;
	int64_t whole; /* where INTEGER: written as an integer that fits */
	bool integer;
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
struct parse_list { /* a nested list of numbers; of one extent more than its elements when closed */
	double *values;
	size_t count, capacity;
	int64_t elements;    /* so far, at this level */
	struct shape shape;  /* of each element; of the whole when closed */
	bool nested;         /* an element that is a list itself */
};

struct parse {
	struct arena *arena;
	struct diags *diags;
	const struct source *source;
	struct syntax *syntax;
	uint32_t offset, line, line_start;
	int nested;          /* open parentheses and brackets */
	bool stage_begin;    /* the next word begins a statement */
	bool was_begin;      /* the last one did */
	struct span open[MAX_NESTING + 1]; /* what is open, outermost first */
	int depth;
	struct comment *last_comment;
	bool exhausted;      /* memory was short */
	bool failed;         /* a message has been given */
};

/* Says what was found instead of something; always returns YYUNDEF's number, for the scanner. */
int parse_fail(struct parse *parse, const struct span *span, const char *found);
bool parse_open(struct parse *parse, const struct span *span, char bracket);
void parse_close(struct parse *parse);
bool parse_add_comment(struct parse *parse, const char *text, size_t length, const struct span *span);
void parse_syntax_error(struct parse *parse, const struct span *span, bool end, bool newline, const char *found,
                        const char *const *expected, int count);

struct block *parse_block(struct parse *parse);
void parse_append(struct parse *parse, struct block *block, struct statement *statement);
void parse_finish_block(struct parse *parse, struct block *block, const struct span *open, const struct span *close);
struct statement *parse_statement(struct parse *parse, enum statement_kind kind, struct span span, const char *name,
                                  struct span name_span);
struct statement *parse_declare(struct parse *parse, enum statement_kind kind, struct span span, const char *name,
                                struct span name_span, const struct declared *declared, const struct init *init);
struct statement *parse_repeat_stage(struct parse *parse, struct span span, struct span name_span, int64_t count,
                                     struct statement *stage);
bool parse_count(struct parse *parse, const struct parse_number *number, const struct span *span);
bool parse_add_name(struct parse *parse, struct name_chain *to, const struct name_chain *from, const char *name,
                    struct span span);
void parse_add_operand(struct operand_list *list, struct operand *operand);
struct operand *parse_number_operand(struct parse *parse, const struct parse_number *number, struct span span);
struct operand *parse_name_operand(struct parse *parse, const char *name, int64_t index, struct span span);
struct operand *parse_expression_operand(struct parse *parse, double value, struct span span);
struct operand *parse_block_operand(struct parse *parse, struct block *block, struct span span);
bool parse_negate(struct parse *parse, struct parse_number *to, const struct parse_number *from);
bool parse_constant(struct parse *parse, double *value, const char *name, const struct span *span);
double parse_power(double base, double exponent);
void parse_add_option(struct option_list *list, struct option *option);
struct option *parse_option(struct parse *parse, const char *name, struct span span, enum value_kind kind,
                            const char *text, struct span value_span);
struct option *parse_word_option(struct parse *parse, const char *name, struct span span, const char *word,
                                 struct span value_span);
bool parse_add_integer(struct parse *parse, struct parse_integers *to, const struct parse_integers *from,
                       const struct parse_number *number, const struct span *span);
bool parse_type(struct parse *parse, struct declared **declared, const char *dtype, const struct span *dtype_span,
                const struct shape *shape, struct span span);
/* One more extent; NUMBER NULL: `*`. */
bool parse_extent(struct parse *parse, struct shape **shape, const struct parse_number *number,
                  const struct span *span);
bool parse_init_number(struct parse *parse, struct init **init, double value);
bool parse_init_list(struct parse *parse, struct init **init, const struct parse_list *list);
bool parse_init_word(struct parse *parse, struct init **init, const char *word, const struct span *span);
bool parse_init_load(struct parse *parse, struct init **init, const char *word, const struct span *span,
                     const char *path, const char *key);
bool parse_init_call(struct parse *parse, struct init **init, const char *word, const struct span *span,
                     const struct parse_list *arguments);
struct parse_list *parse_list(struct parse *parse);
struct parse_list *parse_list_number(struct parse *parse, double value);
/* Appends ELEMENT to LIST, of the same shape as those before. */
bool parse_list_join(struct parse *parse, struct parse_list *list, const struct parse_list *element,
                     const struct span *span);
bool parse_list_close(struct parse *parse, struct parse_list *list, const struct span *span);

#endif
