/*
 * The resolved chain. Operations are found in the table, arguments are read, and names are bound to their meanings.
 * Loops stay loops, defs stay calls. Only declared types are known. Lowering (ir/lower.h) finds the others.
 */
#ifndef LANGUAGE_CHAIN_H
#define LANGUAGE_CHAIN_H

#include "base/hash.h"
#include "language/program_traits.h"
#include "language/syntax.h"
#include "ops/op.h"

struct chain;

/*
 * A param, a const, or an input after the first: such an input is a param that -i binds, and that may be read row by row
 * with the first (load/inputs.h). struct chain holds all: those inputs, then the others, those of blocks and defs too, in
 * the order of declaration.
 */
struct param {
	const char *name;
	bool differentiated; /* a param or an input; false: a const */
	bool input;
	const struct declared *declared;
	const struct init *init; /* INIT_NONE: --param gives the value; for types alone, a declared type is enough */
	struct span span;        /* of the name */
	bool read_as_number;     /* resolution has read INIT's number: no other may be bound */
	uint32_t reads, selects; /* how often the chain names it; SELECTS: as a condition, indices or classes alone */
	/* Set by the caller (load/params.h) before lowering, once for all inputs: */
	bool is_number; /* a const that is NUMBER, so that it may stand where a number is wanted */
	double number;
	bool weak; /* a number, a list or a 0-d array without a declared type: takes the other operand's dtype */
	const struct type *type; /* of params and consts, equal ones are one */
	bool arrives;            /* an input whose arrays come one after another with those of the first (load/inputs.h) */
	int64_t columns;         /* of an input of text: the numbers of a row (text_fit); else 0 */
};

/* Returns the word that declares PARAM. */
static inline const char *param_word(const struct param *param)
{
	return param->input ? "input" : param->differentiated ? "param" : "const";
}
/*
 * True if PARAM, once typed, is an input that has a row for each row of INPUT, the type of the first. Where only the first
 * is declared with `*`, PARAM is no such input, whatever its extents.
 */
bool param_has_rows(const struct param *param, const struct chain *chain, const struct type *input);
/*
 * Returns the type that CHAIN sees of a FILE's, an input: of the DECLARED dtype; DTYPE if given; integers and bool as f64, but
 * where the chain reads indices or classes as they are, before it is known which inputs these are.
 */
struct type input_type_of(const struct chain *chain, const struct declared *declared, const struct type *file,
                          enum dtype dtype);

/* An operation that a program computes. */
struct program_decl {
	const char *name;
	const struct name_list *operands; /* their names */
	uint32_t operand_count;
	struct declared type; /* of the result, f32 or f64; if not GIVEN, that of the current value */
	struct span span;     /* of the name */
	/* Set by the caller (external/learn.h) before lowering: */
	struct program_traits traits;      /* until then PROGRAM_TRAITS_UNBOUND */
	bool differentiated;               /* a gradient needs its derivative */
	uint32_t constant;                 /* mask: operands that are one whole param or const in every call */
	uint32_t params[PROGRAM_OPERANDS]; /* by such an operand: its index in chain->params */
};

/* What an operand refers to. */
enum ref_kind {
	REF_NONE,
	REF_NUMBER,   /* a weak scalar */
	REF_PARAM,    /* params[index] */
	REF_VARIABLE, /* variables[index]: the input, or a name that the chain binds; two may have one name */
	REF_LOOP,     /* the variable of a `for`; INDEX is its identity in the chain */
	REF_COUNTER,  /* the number of a loop's iteration: the `i` of `repeat 8 as i`; INDEX likewise */
	REF_ARGUMENT, /* argument INDEX of the enclosing def; inherited ones count */
	REF_BLOCK,    /* a block operand: a sub-chain that is applied to the current value wherever the operand is used */
	REF_CURRENT,  /* the current value: `.` */
	REF_TERM,     /* a formula, computed where the operand is used; an argument of a def, where the def is called */
	REF_HELD,     /* BEFORE of the term around; INDEX is 0 but in nodes that lowering makes */
};

struct ref {
	enum ref_kind kind : 8;
	bool by_name;   /* where INDEX counts: the i of `name[i]` is a name, BY; else ELEMENT */
	uint32_t index; /* PARAM, VARIABLE, LOOP, COUNTER, ARGUMENT */
	union {
		double number;        /* NUMBER */
		int64_t element;      /* where INDEX counts: the i of `name[i]`, from the end if negative; NO_INDEX: no index */
		const struct ref *by; /* a COUNTER or an ARGUMENT */
		struct node *block;   /* BLOCK: its first node (NULL: no node, the identity) */
		struct term *term;    /* TERM */
	};
	struct span span;
};

/* True if REF is a name with an index that is a number, as in `add W[2]`. */
static inline bool ref_has_element(const struct ref *ref)
{
	return ref->kind >= REF_PARAM && ref->kind <= REF_ARGUMENT && !ref->by_name && ref->element != NO_INDEX;
}

/*
 * A formula: a value, and nodes (OP, CALL, PROGRAM, INDEX) of which each is applied to the result before it. So
 * `a + b * c` is a, then `add` with the operand b * c, which is a term: b, then `mul` with the operand c. A term binds no
 * names and does not change the current value.
 */
struct term {
	struct ref before; /* computed before VALUE, for a node that has it as operand REF_HELD; REF_NONE: nothing */
	struct ref value;
	struct node *first;
};

/* A part of an index, as struct index_part; bounds are numbers or REF_NONE. */
struct index_bounds {
	enum index_kind kind;
	struct ref begin, stop, step;
};

/*
 * An argument of an operation that lowering sets: it is computed of operands of the enclosing def, which each call gives.
 * Arguments written after it are deferred too, so that all are set in the order in which they are written.
 */
struct deferred_argument {
	const char *name;         /* NULL: given by place, at INDEX */
	int index;                /* from 0, without the operand; -1: given by NAME */
	struct argument argument; /* as written; a list if REFS are its elements */
	const struct ref *refs;   /* numbers of the call: one, or the elements of a list; NULL: ARGUMENT is the value */
	size_t ref_count;
	struct span span;
	struct deferred_argument *next;
};

enum node_kind {
	NODE_OP,
	NODE_CALL,
	NODE_PROGRAM,
	NODE_NAME,
	NODE_COLLECT,
	NODE_REPEAT,
	NODE_FOR,
	NODE_CHECKPOINT,
	NODE_FIXED_POINT,
	NODE_INDEX,
	NODE_COTANGENTS,
};

/* The value of the option policy= of a `checkpoint`. */
struct block_policy {
	const char *text;
	struct span span;            /* of TEXT */
	const struct policy *policy; /* NULL until policy_parse_blocks (schedule/policy.h) sets it */
	bool cuts;                   /* between the block's steps; likewise */
	struct block_policy *next;
};

struct node {
	enum node_kind kind : 8;
	bool conditional; /* REPEAT: a `repeat while` */
	bool collects;    /* REPEAT, FOR: a `collect` belongs to it */
	struct span span; /* what messages underline, usually the stage's name */
	union {
		enum op op;       /* OP */
		uint32_t counter; /* REPEAT, FOR: 1 + the identity of its `as`; 0: it has none */
	};
	union {
		struct {                       /* OP */
			const struct attrs *attrs; /* with defaults for those not given or deferred; equal ones are one */
			struct deferred_argument *deferred;
			struct ref *more; /* the operands after the first, as many as OP has; NULL: none */
		};
		struct { /* CALL */
			const struct def *def;
			struct ref *arguments; /* def->count of them, the inherited ones first */
			uint32_t *exports;     /* by def->exports, the variable that gets the value when the call ends */
		};
		struct {              /* PROGRAM */
			uint32_t program; /* index into chain->programs */
			uint32_t operand_count;
			struct ref *operands;
		};
		struct {               /* NAME, COLLECT */
			const char *name;  /* NULL for a prelude (language/resolve.c); "" for an array that a `for` runs over */
			uint32_t variable; /* index into chain->variables */
			int64_t every;     /* COLLECT: the iterations every-1, 2*every-1, ... are the parts */
		};
		struct {                     /* REPEAT */
			int64_t count;           /* at least 1, for `repeat 0` makes no node; if conditional, the most iterations */
			const struct ref *times; /* the count, a number of each call of the def around; NULL: COUNT */
			struct node *condition;  /* its first block (NULL: no node, the current value) */
		};
		struct {              /* FOR */
			uint32_t *loops;  /* identities of its variables */
			struct ref *over; /* the arrays that they run over, without indices */
			size_t loop_count;
		};
		const struct block_policy *policy; /* CHECKPOINT: its option policy=, or NULL */
		struct {                           /* FIXED_POINT: numbers, perhaps of a call of the def around */
			const struct ref *most, *tolerance;
		};
		struct { /* INDEX */
			const struct index_bounds *bounds;
			size_t bound_count;
		};
	};
	struct ref operand; /* OP: REF_NONE: it has none; NAME: the value bound (REF_NONE: the current one); COLLECT: every=
	                       as a number of each call of the def around (REF_NONE: EVERY) */
	struct node *body;  /* REPEAT, FOR, CHECKPOINT, FIXED_POINT (NULL: empty); CALL: preludes, before its operands */
	struct node *next;
};

/*
 * A name that a def exports. It is a parameter too: where the def does not bind it, it has its value at the call. These
 * parameters come last. Resolution gives one an argument only if the def reads it.
 */
struct def_export {
	const char *name;  /* where the def is called */
	uint32_t variable; /* holds the value until the call ends */
	bool read;         /* the def reads the value at the call */
	bool prepared;     /* a prelude in the def reads it, if there is one */
};

struct def {
	const char *name;
	const struct name_list *names; /* of its own parameters */
	struct dictionary places;      /* for each of NAMES a size_t: its place in a call's arguments */
	size_t inherited;              /* number of parameters of the enclosing defs; they come before its own */
	size_t own;                    /* number of NAMES */
	size_t count;                  /* number of all parameters: inherited, own, exports */
	struct def_export *exports;
	size_t export_count, export_capacity;
	struct dictionary export_by_name;   /* of EXPORTS */
	uint32_t first_variable, variables; /* its variables, with those of the defs in it: first index and number */
	struct node *body;
	int64_t size;        /* number of nodes, with those of each call in it, without the blocks passed to it */
	const int64_t *uses; /* by parameter: how often SIZE's nodes have it as operand; a loop's body counts once */
};

/* A named value that the chain gives beside its last value. */
struct chain_output {
	const char *name;
	struct span span; /* of the item */
	const struct declared *type;
	struct ref value;
	struct node **end; /* the link behind the stages before it */
	uint32_t variable; /* holds the value, if it is wanted beside another */
};
enum { MOST_VALUES = 16 }; /* that a run writes at once */

/* One of several outputs that are differentiated at once, and the array of its cotangents. */
struct cotangent {
	uint32_t param;                    /* the array: an input without a gradient */
	const struct chain_output *output; /* NULL: the chain's last value */
};

/*
 * Where --at points: where the chain binds NAME for the INDEX-th time, counted from 0; from the last, -1, backwards if INDEX is
 * negative. Without a NAME it is where INDEX steps have run.
 */
struct chain_place {
	const char *text; /* as the user wrote it */
	const char *name; /* or NULL */
	int64_t index;
	bool ends; /* a forward run ends there; if false, a gradient begins there, and earlier values are constant */
	const struct node *last; /* the stage that binds NAME last, if it runs once; then it is the place. Else NULL */
	const struct node
		*end; /* the first stage of the chain's after which NAME is not bound; NULL: it is bound up to the end */
	uint32_t
		variable; /* of a gradient: never bound, but it has the place's cotangent before the place (ir/lower_place.c) */
};

/* The most nodes of a chain whose defs are written out, and the most operations of a body whose loops are unrolled. */
enum { MAX_OPERATIONS = 10000000 };
/* The most parameters that nested defs, and the calls of them, inherit in total. */
enum { MAX_INHERITED = 1000000 };

/* A name that a def, or a let at the end of the chain (DEF is NULL), binds last, and nobody reads. */
struct lost_name {
	const char *name, *def;
	struct span span; /* of the stage that binds it */
	struct lost_name *next;
};

/* A def or program that has the name of an operation, which it hides. */
struct hidden_name {
	const char *name, *kind; /* KIND: "def" or "program" */
	struct span span;
	struct hidden_name *next;
};

struct chain {
	const struct source *source;
	const char *input;            /* the name of the first input, the value at the start */
	struct declared input_type;   /* `input x: T` */
	size_t input_count;           /* of the others: the first of PARAMS */
	struct cotangent *cotangents; /* if there are several: their arrays are the last of these inputs */
	size_t cotangent_count;
	struct param *params;
	size_t param_count;
	struct chain_output *outputs; /* in the order of declaration */
	size_t output_count;
	const struct chain_output *chosen;              /* it is the chain's value: see chain_choose_output; or NULL */
	const struct chain_output *wanted[MOST_VALUES]; /* see chain_want_outputs */
	size_t wanted_count;
	const struct chain_place *place; /* see chain_choose_place; or NULL */
	bool last_unwanted;              /* the wanted outputs alone are the values of a run */
	struct program_decl *programs;   /* in the order of declaration */
	size_t program_count;
	const char **variables; /* their names, which may be equal; [0] is the input */
	size_t variable_count;
	size_t loop_count;  /* number of `for` variables and counters; their identities are 0 .. loop_count - 1 */
	const char **names; /* each name that a `name` stage gives, once; for policies */
	size_t name_count;
	struct block_policy *block_policies; /* in the order in which they are written */
	struct lost_name *lost_names;        /* in the order of their defs */
	struct hidden_name *hidden_names;    /* the latest first */
	struct node *first;                  /* NULL: a chain without stages */
	/*
	 * An operation reads indices (SELECTS), or indices, conditions or masks (KEEPS_INTEGERS). Then integer inputs, params and consts keep their dtype, and are held as doubles. Where
	 * something else than indices is computed with them, they have the dtype INTEGERS: f64, or that of --dtype. In other
	 * chains all integers become that when they are read.
	 */
	bool selects, keeps_integers;
	enum dtype integers;
	enum dtype widest;    /* see chain_find_widest; DTYPE_COUNT: there is none */
	bool has_checkpoints; /* the chain has a checkpoint block */
	bool has_conditions;  /* the chain has a `repeat while` that may run */
	bool has_masks;       /* an attention has a mask, which may be a condition or bool */
	bool names_input;     /* the chain refers to the input by its name, or a prelude does */
};

/*
 * Sets CHAIN's WIDEST computing type of params, consts and inputs but the first, once their types are known, and again for
 * each record of the inputs. Integers and weak params do not decide.
 */
void chain_find_widest(struct chain *chain);
/*
 * Returns the computing type of CHAIN for a first input of dtype INPUT: the widest of all that decide. Weak values have it
 * until they meet an array that is narrower. If nothing decides, it is INTEGERS.
 */
static inline enum dtype chain_computing_type(const struct chain *chain, enum dtype input)
{
	if (dtype_is_integer(input))
		return chain->widest == DTYPE_COUNT ? chain->integers : chain->widest;
	return chain->widest == DTYPE_COUNT ? dtype_compute(input) : dtype_promote(dtype_compute(input), chain->widest);
}

/* Returns the type of param INDEX of CHAIN, once typed, beside a first input of the type INPUT. */
struct type chain_param_type(const struct chain *chain, size_t index, const struct type *input);

/*
 * Resolves SYNTAX. What syntax_parse_apart keeps in the context's arena must outlive CHAIN. Stops at the first error: STATUS_CHAIN if a name, an argument or a
 * declaration is wrong; STATUS_LIMIT beyond MAX_OPERATIONS (a loop's body counts once), MAX_INHERITED or MAX_DIMS.
 */
enum status chain_resolve(const struct context *context, struct chain *chain, const struct syntax *syntax);
/* A number that the caller will bind to a const of that name. Of several for one name the last counts. */
struct given_number {
	const char *name;
	double number;
};
struct given_chain {
	const struct given_number *items;
	size_t count;
	const char *const *cotangents; /* names, for messages, of arrays that give several outputs their cotangents */
	size_t cotangent_count;        /* at most MOST_VALUES - 1 */
};
/* Returns the number of inputs after the first that the chain declares. */
static inline size_t chain_declared_inputs(const struct chain *chain)
{
	return chain->input_count - chain->cotangent_count;
}
/*
 * Parses and resolves SOURCE, which must outlive CHAIN. Frees the parts of the syntax tree that CHAIN does not need,
 * since tests/scripts/check-memory bounds the bytes of a stage.
 */
enum status chain_read(const struct context *context, struct chain *chain, const struct source *source);
/* Does as chain_read. Consts without a type have the numbers in GIVEN, in formulas too. */
enum status chain_read_given(const struct context *context, struct chain *chain, const struct source *source,
                             const struct given_chain *given);
/* Returns the output whose name is the LENGTH bytes at NAME; NULL if there is none. */
const struct chain_output *chain_find_output(const struct chain *chain, const char *name, size_t length);
/*
 * Makes OUTPUT the value of CHAIN in place of its last value: the stages after it are left out. At most one output of a
 * chain is chosen. Lowering checks its declared type.
 */
enum status chain_choose_output(const struct context *context, struct chain *chain, const struct chain_output *output);
/*
 * Lets a forward run of CHAIN give the COUNT outputs WANTED, at most MOST_VALUES - 1: after the last value, if LAST, else in
 * place of it. Then the stages after all of them are left out.
 */
enum status chain_want_outputs(const struct context *context, struct chain *chain,
                               const struct chain_output *const *wanted, size_t count, bool last);
/*
 * Lets the value of CHAIN be what differentiates OUTPUTS at once, by the arrays that it was read with (given_chain): for each
 * the output, or NULL for the last value. At least one is no last value. The stages after all of them are left out.
 */
enum status chain_want_cotangents(const struct context *context, struct chain *chain,
                                  const struct chain_output *const *outputs);
/*
 * Lets a forward run of CHAIN end at the place TEXT, if ENDS; else lets gradients be those of the value there. The input is no
 * place: the chain is then without stages, or as before. Fails with STATUS_USAGE if TEXT names no place; lowering does if the
 * chain does not get there.
 */
enum status chain_choose_place(const struct context *context, struct chain *chain, const char *text, bool ends);
/* Returns what NODE binds NAME to: the index of a variable, NO_PLACE if it does not. Blocks of NODE are left out. */
enum { NO_PLACE = UINT32_MAX };
uint32_t node_binds(const struct node *node, const char *name);
/* Writes CHAIN as text, for --dump chain: params, then nodes, without operations' arguments and bodies of defs. */
void chain_dump(const struct chain *chain, diag_write *write, void *context);

#endif
