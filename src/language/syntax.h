/*
 * The syntax tree: what was written, where, with comments kept for the
 * formatter. It knows no operation, no type and no name's meaning.
 */
#ifndef LANGUAGE_SYNTAX_H
#define LANGUAGE_SYNTAX_H

#include "base/context.h"
#include "base/type.h"

/* Bytes of a chain's text at most. */
enum { MAX_SOURCE = 16 << 20 };

struct block;

/* A constant expression has been folded to its value; TEXT keeps how it was written. */
#define NO_INDEX INT64_MIN
enum operand_kind { OPERAND_NUMBER, OPERAND_NAME, OPERAND_BLOCK };

enum { MAX_NESTING = 256 }; /* of brackets and blocks, and of calls of defs */

struct operand {
	enum operand_kind kind;
	struct span span;
	const char *text; /* NUMBER: canonical source, "(pi / 2)" where an expression; NAME: the name */
	double number;
	bool integer;  /* NUMBER: an integer literal that fits int64, or an expression of a whole number */
	int64_t whole; /* ... and what it is: its double may have lost digits */
	int64_t index; /* NAME [ INDEX ], from the end where negative; NO_INDEX without */
	struct block *block;
	struct operand *next;
};

enum value_kind { VALUE_NUMBER, VALUE_NAME, VALUE_STRING, VALUE_BOOL, VALUE_INTEGERS };

/* An option: NAME "=" value. */
struct option {
	const char *name;
	struct span span, value_span;
	enum value_kind kind;
	double number;
	bool integer;
	int64_t whole; /* of an INTEGER */
	bool boolean;
	const char *text; /* NUMBER: as written; NAME, STRING: unescaped text */
	int64_t *integers;
	size_t count; /* INTEGERS */
	struct option *next;
};

enum init_kind {
	INIT_NONE,
	INIT_NUMBER,
	INIT_LIST, /* literal values and their shape */
	INIT_LOAD,
	INIT_ZEROS,
	INIT_ONES,
	INIT_EYE,
	INIT_FULL,    /* arguments: v */
	INIT_NORMAL,  /* std, seed */
	INIT_UNIFORM, /* lo, hi, seed */
};

struct init {
	enum init_kind kind;
	struct span span;
	const char *text; /* canonical source; NULL: LOAD, whose strings are written anew */
	double *values;   /* NUMBER (one), LIST, FULL, NORMAL, UNIFORM */
	size_t count;
	struct shape shape;     /* LIST */
	const char *path, *key; /* LOAD */
};

/* A declared type; extent -1 is `*`, the streamed axis. */
struct declared {
	bool given;
	struct type type;
	struct span span;
};

struct name_list {
	const char *name;
	struct span span;
	struct name_list *next;
};

enum statement_kind {
	STATEMENT_INPUT,
	STATEMENT_PARAM,
	STATEMENT_CONST,
	STATEMENT_DEF,
	STATEMENT_STAGE, /* an op or a def, with operands and options */
	STATEMENT_NAME,
	STATEMENT_REPEAT,
	STATEMENT_FOR,
	STATEMENT_CHECKPOINT,
};
enum { STATEMENT_COUNT = STATEMENT_CHECKPOINT + 1 };
/* The word that a statement of KIND begins with; "stage" for those that begin with an operation's or a def's name. */
const char *statement_word(enum statement_kind kind);
/* How the number is written that WORD, in other letters or at length, is: "nan" or "inf"; else NULL. */
const char *number_word(const char *word);

/* A comment: on a line of its own before a statement, or at the end of its line. */
struct comment {
	const char *text; /* from '#', without the line end */
	uint32_t line;
	uint32_t offset;
	struct comment *next;
};

struct statement {
	enum statement_kind kind;
	struct span span;            /* the whole statement */
	struct span name_span;       /* its name's */
	const char *name;            /* INPUT, PARAM, CONST, DEF, STAGE, NAME */
	const struct declared *type; /* INPUT, PARAM, CONST; NULL elsewhere */
	const struct init *init;     /* INPUT, PARAM, CONST; NULL elsewhere */
	struct name_list *names;     /* DEF: parameters; FOR: loop variables */
	struct name_list *over;      /* FOR: what they run over */
	int64_t count;               /* REPEAT */
	struct operand *operands;
	struct option *options; /* STAGE, CHECKPOINT */
	struct block *block;    /* DEF, REPEAT (a stage becomes a block of one), FOR, CHECKPOINT */
	struct statement *next;
};

struct block {
	struct span span; /* from '{' to '}'; the whole source at the top */
	struct statement *first, *last;
	uint32_t end_line; /* of its '}' */
	bool braced;       /* REPEAT of a stage alone is not */
};

struct syntax {
	const struct source *source;
	struct block *chain;
	struct comment *comments; /* in order of place */
};

/*
 * Parses SOURCE (at most 16 MiB, nesting at most 256: STATUS_LIMIT). All nodes
 * live in ARENA, and so does all that the parser needs. STATUS_CHAIN with a
 * diagnostic at the first wrong token. An op's or a def's name is not looked up.
 */
enum status syntax_parse(const struct context *context, struct syntax *syntax, const struct source *source);

/*
 * The canonical text of a chain, in pieces: idempotent, comments and single blank
 * lines kept, one statement a line, blocks indented by four spaces (a block without
 * comments that fits in 80 columns stays on its line). Needs no memory.
 */
void syntax_format(const struct syntax *syntax, diag_write *write, void *context);
/* TEXT as a string of the language, quoted and escaped. */
void syntax_write_string(const char *text, diag_write *write, void *context);
/* The tree itself, with places, for --dump syntax. Needs no memory. */
void syntax_dump(const struct syntax *syntax, diag_write *write, void *context);

#endif
