/*
 * The resolved chain. Operations are found in the table, arguments are read, and names are bound to their meanings.
 * Loops stay loops, defs stay calls. Only declared types are known; lowering (ir/lower.h) finds the others.
 */
#ifndef LANGUAGE_CHAIN_H
#define LANGUAGE_CHAIN_H

#include "base/hash.h"
#include "language/syntax.h"
#include "ops/op.h"

/* A param or a const. struct chain holds them in the order of declaration. */
struct param {
	const char *name;
	bool differentiated; /* a param; false: a const */
	struct declared declared;
	struct init init; /* INIT_NONE: the caller must supply the value */
	struct span span;
	/* Set by the caller (exec/params.h) before lowering, once for all inputs: */
	bool typed; /* TYPE is set */
	bool weak;  /* a scalar whose dtype yields to that of the other operand */
	struct type type;
};

/* Returns the type of PARAM. A weak param takes the computing dtype of INPUT, the type of the chain's input. */
struct type param_type(const struct param *param, const struct type *input);

/* What an operand refers to. */
enum ref_kind {
	REF_NONE,
	REF_NUMBER,   /* a weak scalar */
	REF_PARAM,    /* params[index] */
	REF_VARIABLE, /* variables[index]: the input, or a name that the chain binds */
	REF_LOOP,     /* the variable of a `for`, by its identity in the chain */
	REF_ARGUMENT, /* argument INDEX of the enclosing def */
	REF_BLOCK,    /* a block argument: a sub-chain that is applied to the current value */
};

struct ref {
	enum ref_kind kind;
	double number;
	uint32_t index;     /* PARAM, VARIABLE, LOOP, ARGUMENT */
	int64_t element;    /* the i of `name[i]`, from the end if negative; NO_INDEX: no index */
	struct node *block; /* BLOCK: its first node (NULL: an empty block, the identity) */
	struct span span;
};

/*
 * An argument that names an operand of the enclosing def: each call gives its value, and lowering sets it. Arguments
 * written after a deferred one are deferred too, so that all are set in the order in which they are written.
 */
struct deferred_argument {
	const char *name; /* NULL: given by place, at INDEX */
	int index;
	struct argument argument; /* as written */
	bool given;               /* the value is argument PLACE of the call; false: ARGUMENT */
	uint32_t place;
	struct span span;
	struct deferred_argument *next;
};

enum node_kind { NODE_OP, NODE_CALL, NODE_NAME, NODE_REPEAT, NODE_FOR, NODE_CHECKPOINT };

/* The value of the option policy= of a `checkpoint`. */
struct block_policy {
	const char *text;
	struct span span;            /* of TEXT */
	const struct policy *policy; /* policy_parse_blocks (schedule/policy.h) sets it */
	struct block_policy *next;
};

struct node {
	enum node_kind kind;
	struct span span;    /* what messages underline, usually the stage's name */
	enum op op;          /* OP */
	struct attrs *attrs; /* OP: all arguments except the deferred ones */
	struct deferred_argument *deferred;
	struct ref operand;    /* OP: REF_NONE: it has none; NAME: the value bound (REF_NONE: the current one) */
	const struct def *def; /* CALL */
	struct ref *arguments; /* CALL: def->count of them, the inherited ones first */
	const char *name;      /* NAME; NULL for a prelude (language/resolve.c) */
	uint32_t variable;     /* NAME: index into chain->variables */
	int64_t count;         /* REPEAT */
	uint32_t *loops;       /* FOR: identities of its variables */
	struct ref *over;      /* FOR: the arrays that they run over */
	size_t loop_count;
	const struct block_policy *policy; /* CHECKPOINT: its option policy=, or NULL */
	struct node *body;                 /* REPEAT, FOR, CHECKPOINT; CALL: the preludes that run before its operands */
	struct node *next;
};

struct def {
	const char *name;
	const struct name_list *names;      /* of its own parameters */
	struct dictionary places;           /* for each of NAMES a size_t: its place in the arguments */
	size_t inherited;                   /* number of parameters of the enclosing defs; they come before its own */
	size_t count;                       /* number of all parameters */
	uint32_t first_variable, variables; /* its local variables: first index and number */
	struct node *body;
	int64_t size;        /* number of nodes, with the defs that it calls, without the blocks passed to it */
	const int64_t *uses; /* by parameter: how many times these nodes use it */
};

/* The most operations of a chain whose defs are written out, and of a body whose loops are unrolled. */
enum { MAX_OPERATIONS = 10000000 };
/* The most parameters that nested defs, and the calls of them, inherit in total. */
enum { MAX_INHERITED = 1000000 };

struct chain {
	const struct source *source;
	const char *input;          /* the input's name */
	struct declared input_type; /* `input x: T` */
	struct param *params;
	size_t param_count;
	const char **variables; /* names; [0] is the input */
	size_t variable_count;
	size_t loop_count;  /* identities of `for` variables */
	const char **names; /* every name that a `name` stage gives, for policies */
	size_t name_count;
	struct block_policy *block_policies; /* in the order in which they are written */
	struct node *first;
	bool names_input; /* the chain refers to the input by its name */
};

/*
 * Resolves SYNTAX to CHAIN. Fails with STATUS_CHAIN, the place and the nearest known name where a name or an argument
 * is unknown or wrong. Fails with STATUS_LIMIT beyond MAX_OPERATIONS (a loop's body counts once) or MAX_INHERITED.
 */
enum status chain_resolve(const struct context *context, struct chain *chain, const struct syntax *syntax);
/* Writes CHAIN as text, for --dump chain. */
void chain_dump(const struct chain *chain, diag_write *write, void *context);

#endif
