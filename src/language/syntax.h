/*
 * The syntax tree: what is written, and where, with the comments for the formatter. The words of dtypes and of initial
 * values are checked; names, operations and their arguments are not yet.
 */
#ifndef LANGUAGE_SYNTAX_H
#define LANGUAGE_SYNTAX_H

#include "base/diag.h"
#include "base/type.h"

enum { MAX_SOURCE = 16 << 20 }; /* bytes of a chain's text */
enum { MAX_NESTING = 256 };     /* levels of brackets, blocks and `repeat`s; of `^` and unary `-`; of calls of defs */
#define NO_INDEX INT64_MIN

struct block;

/* A number as it was written. WHOLE is exact where VALUE, a double, has lost digits. */
struct number {
	double value;
	bool integer;       /* digits and perhaps a sign, within int64_t; an expression: whole, of magnitude up to 2^53 */
	int64_t as_integer; /* the value, if INTEGER */
};

/* A list of numbers. TEXT: canonical source. */
struct list_item {
	struct number number;
	const char *text;
};
struct list {
	const struct list_item *items;
	size_t count;
};

enum operand_kind { OPERAND_NUMBER, OPERAND_NAME, OPERAND_BLOCK, OPERAND_LIST };

struct operand {
	enum operand_kind kind;
	struct span span;
	const char *text; /* NUMBER: canonical source, such as "(pi / 2)" for an expression; NAME: the name; else NULL */
	struct number number;
	int64_t index;  /* the i of `name[i]`, from the end if negative; NO_INDEX: none, or a name */
	const char *by; /* the i of `name[i]`, if that is a name; else NULL */
	struct span by_span;
	union {
		struct block *block;     /* BLOCK; else NULL, but for LIST */
		const struct list *list; /* LIST */
	};
	struct operand *next;
};

enum value_kind { VALUE_NUMBER, VALUE_NAME, VALUE_STRING, VALUE_BOOL, VALUE_LIST };

/* An option: NAME "=" value. */
struct option {
	const char *name;
	struct span span, value_span; /* of NAME; of the value */
	enum value_kind kind;
	struct number number;
	const char *text; /* NUMBER: as written, without a `+`; NAME: the name; BOOL: true or false; STRING: decoded */
	struct list list;
	struct option *next;
};

enum init_kind {
	INIT_NONE,
	INIT_NUMBER,
	INIT_LIST,
	INIT_LOAD,
	INIT_ZEROS,
	INIT_ONES,
	INIT_EYE,
	INIT_TRIL,
	INIT_TRIU,
	INIT_ARANGE,  /* (start, step), or no arguments */
	INIT_FULL,    /* (v) */
	INIT_NORMAL,  /* (std, seed) */
	INIT_UNIFORM, /* (lo, hi, seed) */
};

struct init {
	enum init_kind kind;
	struct span span;
	const char *text;          /* canonical source; NULL for NONE and LOAD */
	const double *values;      /* NUMBER: one; LIST: all; FULL, NORMAL, UNIFORM: the arguments */
	size_t count;              /* of VALUES */
	const struct shape *shape; /* LIST; else NULL */
	const char *path, *key;    /* LOAD; KEY: NULL if not given */
};

/* A declared type; extent -1 is `*`, the streamed axis. */
struct declared {
	bool given;
	struct type type;
	struct span span;
};

/* True if DECLARED gives every extent. */
static inline bool declared_whole(const struct declared *declared)
{
	bool whole = declared->given;
	for (int i = 0; i < declared->type.shape.ndim; i++)
		whole &= declared->type.shape.dim[i] >= 0;
	return whole;
}

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
	STATEMENT_EXPORT,
	STATEMENT_PROGRAM,
	STATEMENT_COLLECT,
};
enum { STATEMENT_COUNT = STATEMENT_COLLECT + 1 };
/* Returns the word that a statement of KIND begins with; "stage" for STATEMENT_STAGE, which has none of its own. */
const char *statement_word(enum statement_kind kind);
/* Returns "nan" or "inf" if WORD means that number, in letters of any case or as "infinity"; else NULL. */
const char *number_word(const char *word);

struct comment {
	const char *text; /* from '#', without the white space at its end */
	uint32_t line;
	uint32_t offset; /* of '#' in the source */
	struct comment *next;
};

struct statement {
	enum statement_kind kind;
	struct span span;      /* the whole statement */
	struct span name_span; /* of the name, or of the word `repeat`, `for`, `checkpoint` or `export` */
	const char *name;      /* INPUT, PARAM, CONST, DEF, PROGRAM, STAGE, NAME, COLLECT */
	const struct declared
		*type; /* INPUT, PARAM, CONST, though perhaps not GIVEN; PROGRAM: if not, `same`; NULL elsewhere */
	const struct init *init;   /* INPUT (INIT_NONE), PARAM, CONST; NULL elsewhere */
	struct name_list *names;   /* DEF, PROGRAM: parameters; FOR: loop variables; EXPORT: names in the def */
	struct name_list *over;    /* FOR: the arrays that they run over; EXPORT: by NAMES, the name at the call */
	int64_t count;             /* REPEAT; with a condition, the most iterations */
	struct name_list *counter; /* REPEAT, FOR: the name of its iteration's number, or NULL */
	struct block *condition;   /* REPEAT: of `repeat while`, else NULL */
	struct operand *operands;  /* STAGE */
	struct option *options;    /* STAGE, CHECKPOINT, COLLECT */
	struct block *block;       /* DEF, REPEAT, FOR, CHECKPOINT */
	struct statement *next;
};

struct block {
	struct span span; /* from '{' to '}'; of the top block, the whole source; else of the stage */
	struct statement *first, *last;
	bool braced; /* false: the top block, or the stage of `repeat N stage` */
};

struct syntax {
	const struct source *source;
	struct block *chain;      /* the top block */
	struct comment *comments; /* all, in order of place */
};

/*
 * Parses SOURCE, which must outlive SYNTAX. The nodes live in the context's arena. Reports one error at most:
 * STATUS_CHAIN at the first wrong token, or STATUS_LIMIT beyond MAX_SOURCE, MAX_NESTING or MAX_DIMS.
 */
enum status syntax_parse(const struct context *context, struct syntax *syntax, const struct source *source);
/*
 * Does as syntax_parse, but NODES owns the nodes that a resolved chain does not refer to. The others, in the context's
 * arena, are words, lists of names, declared types and initial values.
 */
enum status syntax_parse_apart(const struct context *context, struct arena *nodes, struct syntax *syntax,
                               const struct source *source);

/*
 * Writes the canonical text of a chain by calls of WRITE. Formatting that text changes nothing. Comments are kept, and
 * one of several blank lines between statements. A block without comments is on one line if its '}' is within 80
 * columns. Any other is indented by four spaces, each statement on its own line. Allocates no memory.
 */
void syntax_format(const struct syntax *syntax, diag_write *write, void *context);
/* Writes TEXT as a string of the language, quoted and escaped. */
void syntax_write_string(const char *text, diag_write *write, void *context);
/* Writes the tree with its places, for --dump syntax. Allocates no memory. */
void syntax_dump(const struct syntax *syntax, diag_write *write, void *context);

#endif
