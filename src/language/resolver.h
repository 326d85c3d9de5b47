/*
 * Declarations that the files of the resolver share:
 *
 *     resolve.c    statements, blocks and loops; chain_resolve
 *     naming.c     names that stages bind: `name`, `export`, calls that export; preludes
 *     scopes.c     the meanings of names, and hints for unknown ones
 *     arguments.c  stages that are operations
 *     collect.c    `collect`, and the loops that it belongs to
 *     programs.c   programs, and the stages that they compute
 *     defs.c       defs, their calls, and the size of a chain with its defs written out
 *     formula.c    formulas: `let`, operands, calls, indices
 *     numbers.c    formulas where a number is wanted: counts, extents, initial values
 */
#ifndef LANGUAGE_RESOLVER_H
#define LANGUAGE_RESOLVER_H

#include "language/chain.h"

#include "base/hash.h"

struct binding {
	const char *name;
	struct ref ref;
	struct binding *next;
};

/*
 * The names of a chain, a def or a `repeat 0`; or the variables of a `for`, and the defs in its block. The names that
 * any other block binds, or the block of a `for`, belong to the scope around it and outlast the block.
 */
struct name_scope {
	struct dictionary by_name; /* of bindings */
	struct binding *bindings;  /* the newest first */
	struct dictionary defs;    /* declared here; in a `for` they may use its variables, and end with it */
	struct name_scope *outer;
	struct def *def; /* the enclosing def, or NULL; always NULL in the scope of a `for` */
	bool home;       /* false: a `for`; the names that its block binds belong to an outer scope */
};

/* What happens to a variable in the def that binds it. */
struct variable_use {
	struct span bound; /* the stage that bound it last; line 0: none */
	bool read;         /* since then; or ever, if a loop binds it */
	bool collected;    /* a loop around this place collects it */
};

/* The innermost loop around a place, within the def. */
struct loop_around {
	const struct statement *s;
	int operands; /* number of block operands around it, as of the resolver */
	const struct loop_around *outer;
};

struct resolver {
	const struct context *context;
	struct chain *chain;
	const struct block *top;
	struct name_scope *scope;
	struct node **tail;                /* where the next node of the block is linked */
	struct dictionary named, declared; /* the names in chain->names, and of chain->params */
	size_t variable_capacity, param_capacity, name_capacity, program_capacity, output_capacity;
	struct block_policy **last_policy; /* where the chain's next block policy is linked */
	struct lost_name **last_lost;      /* where the chain's next lost name is linked */
	struct variable_use *uses;         /* by variable of the chain */
	size_t use_count, use_capacity;
	int loops, operands;              /* numbers of loops and block operands around this place, within the def */
	const struct loop_around *around; /* NULL: no loop is around this place, within the def */
	struct dictionary given;          /* of consts, a double: their numbers, given by the caller */
	struct dictionary exporters;      /* by a def's name: a name_list of what all defs of that name export */
	size_t inherited;                 /* parameters that defs and calls have inherited so far */
	struct attrs *attrs;              /* of the operation that is being resolved */
	struct byte_set kept_attrs;
};

/* Reports an error at SPAN. The value is STATUS_CHAIN; after RESOLVE_HINT, STATUS_LIMIT if memory has been short. */
#define RESOLVE_FAIL(r, span, ...) diag_at((r)->context->diags, STATUS_CHAIN, (r)->chain->source, span, __VA_ARGS__)
#define RESOLVE_HINT(r, ...) diag_hint((r)->context->diags, __VA_ARGS__)

static inline size_t name_list_count(const struct name_list *names)
{
	size_t count = 0;
	for (; names; names = names->next)
		count++;
	return count;
}

/* What a formula comes to. */
struct formula_value {
	struct ref ref;
	bool known;    /* a number: NUMBER. REF has it, or is a const that has it */
	bool deferred; /* it may be a number in a call of the def around, of whose operands and numbers it is made */
	struct number number;
	struct node **tail; /* of a REF_TERM: where its next node is linked */
};

/* formula.c */

enum status resolver_formula(struct resolver *r, const struct formula *formula, struct formula_value *value);
enum status resolver_let(struct resolver *r, const struct statement *s);
/* Sets *REF to LIST, a const without a name. */
enum status resolver_list(struct resolver *r, const struct list *list, struct ref *ref);
/* Sets *REF to NUMBER, whose source is SPAN, as a 0-d array: a const without a name. */
enum status resolver_array_of_number(struct resolver *r, double number, struct span span, struct ref *ref);

/* numbers.c */

/* Returns VALUE as a number: an integer if it is whole, of magnitude up to 2^53. */
struct number number_of_double(double value);
/* Computes LEFT OPERATOR RIGHT, or OPERATOR RIGHT. False if numbers have no such operator. */
bool number_compute(enum operator operator, double left, double right, double *result);
/* True if NAME, not bound by a statement, is a number: pi or e, *VALUE. */
bool number_constant(const char *name, double *value);
/* If BINDING is a name of a number known here, sets *NUMBER and returns true. */
bool resolver_known_number(const struct resolver *r, const struct binding *binding, struct number *number);
/* Notes that VALUE, which is known, is read as a number: if it is a const, no other value may be bound to it. */
static inline void resolver_take_number(const struct resolver *r, const struct formula_value *value)
{
	if (value->ref.kind == REF_PARAM)
		r->chain->params[value->ref.index].read_as_number = true;
}
/* Resolves FORMULA, which must be a number that is known here. WHAT, such as "an extent", is the subject of an error. */
enum status resolver_number(struct resolver *r, const struct formula *formula, const char *what, struct number *number);
/* Resolves COUNT of S, an integer of at least LEAST: to *VALUE or, if it depends on a call, to *TIMES. */
enum status resolver_count(struct resolver *r, const struct statement *s, int64_t least, int64_t *value,
                           const struct ref **times);
/* Set *DECLARED or *INIT to those of S, a declaration, with their formulas computed. */
enum status resolver_declared(struct resolver *r, const struct statement *s, const struct declared **declared);
enum status resolver_init(struct resolver *r, const struct statement *s, const struct init **init);

/* resolve.c */

/* Returns a new node for S, without appending it. NULL where memory is short. */
struct node *resolver_new_node(struct resolver *r, enum node_kind kind, const struct statement *s);
void resolver_append(struct resolver *r, struct node *node);
/* Resolves BLOCK to a new list of nodes. *FIRST becomes its first node; if BLOCK makes none, *FIRST does not change. */
enum status resolver_block(struct resolver *r, const struct block *block, struct node **first);
/* naming.c */

enum status resolver_new_variable(struct resolver *r, const char *name, uint32_t *index);
/* Binds NAME at home to a variable, *INDEX: the one that it has there, or a new one, for the stage at SPAN. */
enum status resolver_bind_name(struct resolver *r, const char *name, struct span span, uint32_t *index);
enum status resolver_naming(struct resolver *r, const struct statement *s);
/* Appends a node that binds the name of S, a `let`, to REF. */
enum status resolver_bind_value(struct resolver *r, const struct statement *s, struct ref ref);
/* True if S, a `name`, a `let` or a `collect`, binds its name. */
static inline bool statement_binds(const struct statement *s)
{
	return s->kind == STATEMENT_NAME || s->kind == STATEMENT_LET || s->kind == STATEMENT_COLLECT;
}
enum status resolver_export(struct resolver *r, const struct statement *s);
/* Fills r->exporters from BLOCK and all blocks in it. */
enum status resolver_find_exporters(struct resolver *r, const struct block *block);
/* Fills DEF's exports, its body being BLOCK, and binds those that are no parameters. DEF's scope is the innermost. */
enum status resolver_bind_exports(struct resolver *r, struct def *def, const struct block *block);
/* If the known NAME means the value that a def's export has at the call, returns that export; else NULL. */
struct def_export *resolver_export_read(const struct resolver *r, const char *name);
/* Sets the last arguments of NODE, a call: the values here of the names that its def exports. */
enum status resolver_import(struct resolver *r, struct node *node);
/* Binds the names that the def of NODE, a call, exports. */
enum status resolver_bind_exported(struct resolver *r, struct node *node);
/* Records the names that DEF, whose body is BLOCK and whose scope has ended, has bound last and nobody reads. */
enum status resolver_find_lost(struct resolver *r, const struct def *def, const struct block *block);
/* Notes the name of a let that ends the chain, since nobody can read it. */
enum status resolver_find_lost_let(struct resolver *r);
/* True if S has a block of its own, not an operand, that may run and whose names stay bound after it. */
bool resolver_opens_block(const struct statement *s);
/* True if BLOCK, or a block in it whose names stay bound, binds NAME. */
bool resolver_rebinds(const struct resolver *r, const struct block *block, const char *name);
/* Appends a prelude that binds the value of REF to a new variable, which nothing rebinds. REF then refers to that. */
enum status resolver_hold_value(struct resolver *r, const struct statement *s, struct ref *ref);
/* Appends a node that gives the value of REF, an array, to a new variable without a name. REF then refers to that. */
enum status resolver_hold_array(struct resolver *r, const struct statement *s, struct ref *ref);
/* Append preludes: each known name without a variable that BLOCK, or a block of the list OPERAND, rebinds gets one. */
enum status resolver_prepare_names(struct resolver *r, const struct block *block);
enum status resolver_prepare_operands(struct resolver *r, const struct operand *operand);
enum status resolver_operand(struct resolver *r, const struct operand *operand, struct ref *ref);
/* Sets *REF to the value of the option O of NAME, which is an operand given by name. */
enum status resolver_named_operand(struct resolver *r, const struct option *o, const char *name, struct ref *ref);
/* Resolves S, a stage: a call of a def, a program or an operation. */
enum status resolver_stage(struct resolver *r, const struct statement *s);
size_t resolver_count_operands(const struct operand *operand);

/* scopes.c */

/* Return the binding of NAME: the innermost in R's scopes; that in SCOPE; the innermost from SCOPE outward. Or NULL. */
struct binding *resolver_find(const struct resolver *r, const char *name);
struct binding *scope_find(const struct name_scope *scope, const char *name);
struct binding *scope_find_outward(const struct name_scope *scope, const char *name);
/* Returns home, the scope in which blocks bind names: that of the innermost def or `repeat 0`, else the chain's. */
struct name_scope *resolver_home(const struct resolver *r);
struct def *resolver_find_def(const struct resolver *r, const char *name);
/* Bind NAME to REF, in SCOPE or at home. In the latter case REF also replaces enclosing `for`s' variables of NAME. */
enum status resolver_bind(struct resolver *r, struct name_scope *scope, const char *name, struct ref ref);
enum status resolver_bind_home(struct resolver *r, const char *name, struct ref ref);
enum status resolver_name(struct resolver *r, const char *name, struct span span, struct ref *ref);
/* Reports that NAME, at USE, is unknown. Returns STATUS_CHAIN. */
enum status resolver_refuse_name(struct resolver *r, const char *name, struct span use);
/* Reports that S begins with an unknown operation. Returns STATUS_CHAIN. */
enum status resolver_unknown_operation(struct resolver *r, const struct statement *s);

/* arguments.c */

struct argument resolver_argument_of_number(const struct number *number);
enum status resolver_operation(struct resolver *r, const struct statement *s, enum op op);

/* collect.c */

/* True if a `collect` of BLOCK belongs to the loop around BLOCK. */
bool resolver_collects(const struct block *block);
/* Begins the block of S, a loop whose node is NODE. AROUND describes it until resolver_end_loop. */
enum status resolver_begin_loop(struct resolver *r, const struct statement *s, struct node *node,
                                struct loop_around *around);
void resolver_end_loop(struct resolver *r, const struct loop_around *around);
enum status resolver_collect(struct resolver *r, const struct statement *s);
/* Fails if a loop around this place collects VARIABLE, whose name stands at SPAN. VERB says what is done to it. */
enum status resolver_check_collected(struct resolver *r, uint32_t variable, const char *verb, struct span span);

/* programs.c */

enum status resolver_program(struct resolver *r, const struct statement *s);
/* Returns the program NAME that is declared above this place, or NULL. */
const struct program_decl *resolver_find_program(const struct resolver *r, const char *name);
enum status resolver_program_stage(struct resolver *r, const struct statement *s, const struct program_decl *program);

/* defs.c */

/* Fails unless S, a def or a program, may have its name: that of no program. Notes it if it is that of an operation. */
enum status resolver_check_stage_name(struct resolver *r, const struct statement *s);
enum status resolver_def(struct resolver *r, const struct statement *s);
enum status resolver_call(struct resolver *r, const struct statement *s, const struct def *def);
/* Fails with STATUS_LIMIT if the chain has more than MAX_OPERATIONS nodes with its defs written out. */
enum status resolver_check_size(struct resolver *r);

/* cotangents.c: adds the inputs for the cotangents that GIVEN names, after those that the chain declares. */
enum status resolver_cotangents(struct resolver *r, const struct given_chain *given);

#endif
