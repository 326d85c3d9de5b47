/*
 * The syntax tree: what is written, and where, with the comments for the formatter. The words of dtypes and of initial
 * values are checked; names, operations and their arguments are not yet.
 */
#ifndef LANGUAGE_SYNTAX_H
#define LANGUAGE_SYNTAX_H

#include "base/diag.h"
#include "base/type.h"

#include <string.h>

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

struct formula;

/* A list of numbers, perhaps of lists of one shape. Elements that are no literal numbers are formulas. */
struct list_formula {
	size_t at; /* index in VALUES */
	struct formula *formula;
};
struct list {
	struct span span; /* brackets included */
	double *values;   /* all numbers in order; of a formula, NaN */
	size_t count;
	struct shape shape;
	struct list_formula *formulas; /* in order */
	size_t formula_count;
};

/* In the order of a table in formula_text.c. The last two stand before their operand. */
enum operator{
	OPERATOR_OR,
	OPERATOR_AND,
	OPERATOR_LT,
	OPERATOR_LE,
	OPERATOR_GT,
	OPERATOR_GE,
	OPERATOR_EQ,
	OPERATOR_NE,
	OPERATOR_ADD,
	OPERATOR_SUB,
	OPERATOR_MUL,
	OPERATOR_DIV,
	OPERATOR_MOD,
	OPERATOR_MATMUL,
	OPERATOR_POW,
	OPERATOR_INDEX,
	OPERATOR_NOT,
	OPERATOR_NEG,
};

/* A part of an index, between commas. */
enum index_kind {
	INDEX_AT,    /* START alone: one element, whose axis goes */
	INDEX_SLICE, /* START:STOP:STEP; each may be NULL */
	INDEX_REST,  /* `...`: all axes that no other part is for */
	INDEX_NEW    /* None: a new axis of extent 1 */
};
struct index_part {
	enum index_kind kind;
	struct span span;
	struct formula *start, *stop, *step;
	struct index_part *next;
};

/* What is done to the formula so far, its left operand. */
struct application {
	enum operator operator;
	struct span span; /* of the operator, or of the index with its brackets */
	union {
		struct formula *operand;
		struct index_part *index; /* INDEX */
	};
	struct application *next;
};

enum formula_kind {
	FORMULA_NUMBER,
	FORMULA_NAME,
	FORMULA_CURRENT, /* `.` */
	FORMULA_STRING,  /* an argument of a call */
	FORMULA_LIST,
	FORMULA_CALL,
	FORMULA_PREFIX /* an operator before its operand */
};

/*
 * A formula: a first part of KIND, and what is applied to it, in order. So `a + b * c + d` is a, then + with b * c, then
 * + with d. A chain of operators that open to the left is a list, which may be long; only what opens to the right nests.
 */
struct formula {
	enum formula_kind kind;
	bool closed;            /* it stands in parentheses, as far as it is applied */
	uint16_t depth;         /* levels of `^` and of operators before operands in it */
	enum operator operator; /* PREFIX */
	struct span span;       /* the whole, without parentheses around it */
	struct span at;         /* of the first part's name or operator */
	const char *text;       /* NUMBER: as written, with a minus; NAME, CALL: the name; STRING: decoded */
	union {
		struct number number;
		const struct list *items;
		struct formula *operand; /* PREFIX */
		struct {                 /* CALL */
			struct formula *arguments;
			struct option *options;
		};
	};
	struct application *first, *last;
	struct formula *next; /* of a list of arguments */
};

enum operand_kind {
	OPERAND_NUMBER,
	OPERAND_NAME,
	OPERAND_BLOCK,
	OPERAND_LIST,
	OPERAND_STRING,
	OPERAND_CURRENT, /* `.` */
	OPERAND_FORMULA,
	OPERAND_REF /* not of the syntax tree: language/formula.c has resolved it */
};

struct ref;

struct operand {
	enum operand_kind kind;
	struct span span;
	const char *text; /* NUMBER: as written, without a `+`; NAME: the name; STRING: decoded; else NULL */
	struct number number;
	int64_t index; /* the i of `name[i]`, from the end if negative; NO_INDEX: no index */
	union {
		struct block *block;     /* BLOCK; NULL for kinds not named here */
		const struct list *list; /* LIST */
		struct formula *formula; /* FORMULA */
		const struct ref *ref;   /* REF */
	};
	struct operand *next;
};

enum value_kind { VALUE_NUMBER, VALUE_NAME, VALUE_STRING, VALUE_BOOL, VALUE_LIST, VALUE_FORMULA };

/* An option: NAME "=" value. */
struct option {
	const char *name;
	struct span span, value_span; /* of NAME; of the value */
	enum value_kind kind;
	struct number number;
	const char *text; /* NUMBER: as written, without a `+`; NAME: the name; BOOL: true or false; STRING: decoded */
	union {
		const struct list *list; /* LIST; NULL for kinds not named here */
		struct formula *formula; /* FORMULA */
	};
	struct option *next;
};

/* Where a number is wanted: its literal, or a formula. */
struct count {
	int64_t value;
	struct formula *formula; /* NULL: VALUE */
	struct span span;
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
	const char *text;                    /* canonical source; NULL for NONE and LOAD */
	const double *values;                /* NUMBER: one; LIST: all; FULL, NORMAL, UNIFORM: the arguments */
	size_t count;                        /* of VALUES */
	const struct list_formula *formulas; /* of VALUES that are no literals, until resolution computes them */
	size_t formula_count;
	const struct shape *shape; /* LIST; else NULL */
	const char *path, *key;    /* LOAD; KEY: NULL if not given */
};

/* A declared type; extent -1 is `*`, the streamed axis. */
struct declared {
	bool given;
	struct type type; /* an extent that is no literal is 0 until resolution computes it */
	struct span span;
	struct formula **extents; /* by axis, NULL for a literal; or NULL: all are */
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
	const char *name; /* "" if it is a formula */
	struct span span;
	struct formula *formula;     /* of a `for`, an `export` or an `output`; or NULL */
	const struct declared *type; /* of an output's item; else NULL */
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
	STATEMENT_LET,
	STATEMENT_FIXED_POINT,
	STATEMENT_OUTPUT,
};
enum { STATEMENT_COUNT = STATEMENT_OUTPUT + 1 };
/* What a kind of statement is, for `ckptc help WORD`. A stage has no word of its own: its WORD is "stage". */
struct statement_info {
	const char *word, *form, *doc, *example;
};
extern const struct statement_info statement_table[STATEMENT_COUNT];
/* Returns the word that a statement of KIND begins with; "stage" for STATEMENT_STAGE. */
const char *statement_word(enum statement_kind kind);
/* True if formulas take NAME for a constant wherever no statement binds it. */
static inline bool names_constant(const char *name) { return !strcmp(name, "pi") || !strcmp(name, "e"); }
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
	const char *name;      /* INPUT, PARAM, CONST, DEF, PROGRAM, STAGE, NAME, COLLECT, LET */
	const struct declared
		*type; /* INPUT, PARAM, CONST, though perhaps not GIVEN; PROGRAM: if not, `same`; NULL elsewhere */
	const struct init *init; /* INPUT (INIT_NONE), PARAM, CONST; NULL elsewhere */
	struct name_list
		*names; /* DEF, PROGRAM: parameters; FOR: loop variables; EXPORT: names in the def; OUTPUT: items */
	struct name_list *
		over; /* FOR: the arrays that they run over; EXPORT: by NAMES, the name at the call; OUTPUT: that of the output */
	struct count count;        /* REPEAT; with a condition, the most iterations */
	struct name_list *counter; /* REPEAT, FOR: the name of its iteration's number, or NULL */
	struct formula *formula;   /* LET */
	struct block *condition;   /* REPEAT: of `repeat while`, else NULL */
	struct operand *operands;  /* STAGE */
	struct option *options;    /* STAGE, CHECKPOINT, COLLECT, FIXED_POINT */
	struct block *block;       /* DEF, REPEAT, FOR, CHECKPOINT, FIXED_POINT */
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
/*
 * Writes FORMULA with as few parentheses as parse to the same tree. ALONE: as an operand or an option's value, in
 * parentheses where it needs them there.
 */
void syntax_write_formula(const struct source *source, const struct formula *formula, bool alone, diag_write *write,
                          void *context);
/*
 * Writes the LENGTH bytes at TEXT, numbers and formulas, without comments, and without white space but a blank after each
 * comma and on both sides of operators other than `^`.
 */
void syntax_write_source(const char *text, size_t length, diag_write *write, void *context);
void syntax_write_type(const struct source *source, const struct declared *type, diag_write *write, void *context);
/* Returns how tightly FORMULA binds as an operand. */
int formula_binds(const struct formula *formula);
/* Returns the operation of OPERATOR, such as "add"; NULL for INDEX. Returns its own text, such as "+". */
const char *operator_operation(enum operator operator);
const char *operator_text(enum operator operator);
/*
 * How tightly OPERATOR binds: a higher number, the tighter. A PREFIX operator has the number of its operand. The
 * right operand of one that opens to the right (POW) may have the same.
 */
int operator_binds(enum operator operator);
static inline bool operator_compares(enum operator operator)
{
	return operator>= OPERATOR_LT && operator<= OPERATOR_NE;
}
/* Writes TEXT as a string of the language, quoted and escaped. */
void syntax_write_string(const char *text, diag_write *write, void *context);
/* Writes the tree with its places, for --dump syntax. Allocates no memory. */
void syntax_dump(const struct syntax *syntax, diag_write *write, void *context);

#endif
