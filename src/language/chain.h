/*
 * The resolved chain: each operation is found in the table, its arguments are read, and each name is bound to what it
 * means. Loops stay loops, and defs stay calls. The only types are declared ones; lowering (ir/lower.h) finds the others.
 */
#ifndef LANGUAGE_CHAIN_H
#define LANGUAGE_CHAIN_H

#include "base/hash.h"
#include "language/syntax.h"
#include "ops/op.h"

/* A param or a const, in the order of declaration. */
struct param {
	const char *name;
	bool differentiated; /* a param; else a const */
	struct declared declared;
	struct init init; /* INIT_NONE: must be bound from outside */
	struct span span;
	/* Set by the caller (exec/params.h) before lowering, once for all inputs: */
	bool typed; /* type is known */
	bool weak;  /* takes the dtype of the array that it meets */
	struct type type;
};

/* The type of PARAM for an input of type INPUT, whose computing dtype a weak param takes. */
struct type param_type(const struct param *param, const struct type *input);

/* What an operand refers to. */
enum ref_kind {
	REF_NONE,
	REF_NUMBER,   /* a weak scalar */
	REF_PARAM,    /* params[index] */
	REF_VARIABLE, /* a variable: the input or something named */
	REF_LOOP,     /* the variable of a `for`, by its identity in the chain */
	REF_ARGUMENT, /* of the def that encloses it */
	REF_BLOCK,    /* a sub-chain on the current value */
};

struct ref {
	enum ref_kind kind;
	double number;
	uint32_t index;     /* PARAM, VARIABLE, LOOP, ARGUMENT */
	int64_t element;    /* NAME[i], from the end where negative; NO_INDEX without */
	struct node *block; /* BLOCK: its first node (NULL: identity) */
	struct span span;
};

/*
 * An argument that lowering sets. It names an operand of the def around, and each call gives the value. An argument that
 * stands after such a one is deferred too, so that all are set in their order.
 */
struct deferred_argument {
	const char *name; /* NULL: the INDEX-th by place */
	int index;
	struct argument argument; /* as written */
	bool given;               /* the def's PLACE-th operand is the argument */
	uint32_t place;
	struct span span;
	struct deferred_argument *next;
};

enum node_kind { NODE_OP, NODE_CALL, NODE_NAME, NODE_REPEAT, NODE_FOR, NODE_CHECKPOINT };

/* What a `checkpoint policy=` says. */
struct block_policy {
	const char *text;
	struct span span;            /* of TEXT */
	const struct policy *policy; /* policy_parse_blocks (schedule/policy.h) sets it */
	struct block_policy *next;
};

struct node {
	enum node_kind kind;
	struct span span;    /* of its name, as messages show it */
	enum op op;          /* OP */
	struct attrs *attrs; /* OP: without deferred arguments */
	struct deferred_argument *deferred;
	struct ref operand;    /* OP: REF_NONE without; NAME: the value bound (REF_NONE: the current one) */
	const struct def *def; /* CALL */
	struct ref *arguments; /* CALL: def->count of them, the inherited ones first */
	const char *name;      /* NAME */
	uint32_t variable;     /* NAME */
	int64_t count;         /* REPEAT */
	uint32_t *loops;       /* FOR: identities of its variables */
	struct ref *over;      /* FOR: what they run over */
	size_t loop_count;
	const struct block_policy *policy; /* CHECKPOINT: policy= or NULL */
	struct node *body;                 /* REPEAT, FOR, CHECKPOINT; CALL: NAMEs that come before its operands */
	struct node *next;
};

struct def {
	const char *name;
	const struct name_list *names;      /* of its own parameters */
	struct dictionary places;           /* a size_t for each of them: its place in the arguments */
	size_t inherited;                   /* parameters of the defs around it, which come before its own */
	size_t count;                       /* all of them */
	uint32_t first_variable, variables; /* those that are local to it */
	struct node *body;
	int64_t size;        /* nodes, with those of the defs that it calls, without those of block arguments */
	const int64_t *uses; /* by parameter: how often these nodes name it */
};

/* Operations of a chain with its defs written out, and of a body with its loops unrolled. */
enum { MAX_OPERATIONS = 10000000 };
/* Parameters that defs within defs, and calls of them, inherit in all. */
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
	bool names_input; /* the input is used as an operand */
};

/*
 * Resolves SYNTAX. If an operation, a def, a name or an argument is unknown or wrong, fails with STATUS_CHAIN, the place
 * and the nearest known name. Fails with STATUS_LIMIT beyond MAX_OPERATIONS (a loop's body counts once) or MAX_INHERITED.
 */
enum status chain_resolve(const struct context *context, struct chain *chain, const struct syntax *syntax);
/* Writes CHAIN as text, for --dump chain. */
void chain_dump(const struct chain *chain, diag_write *write, void *context);

#endif
