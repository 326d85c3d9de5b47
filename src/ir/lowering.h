/*
 * Between the files that lower a chain: lower.c begins and ends it, lower_body.c has
 * the body that is being built, lower_operand.c says what operands are, lower_stage.c
 * and lower_loop.c take stages into the body, lower_step.c makes drafts of the chain's
 * steps, and liveness.c steps of these.
 *
 * Invariant: of one lowering, equal types are one pointer.
 */
#ifndef IR_LOWERING_H
#define IR_LOWERING_H

#include "ir/lower.h"

enum { MAX_STEPS = 10000000 };
enum { NO_SLOT = UINT32_MAX };

/* What an operand has been found to be. */
enum found_kind { FOUND_NUMBER, FOUND_VALUE, FOUND_PARAM, FOUND_BLOCK };
struct found {
	enum found_kind kind;
	double number;
	uint32_t value;
	struct param_ref param;
	const struct node *block;
	const struct frame *frame; /* of the block's names */
};

/* The def call that is being lowered. */
struct frame {
	const struct found *arguments;
	const struct frame *outer;
	const char *def;
	int depth; /* of calls: 1 for the outermost */
};

/* A slot of the state between bodies. */
struct slot {
	const struct type *type; /* NULL: not bound */
	enum dtype dtype;
	bool streamed, active, weak;
	uint32_t class; /* the lowest slot that is known to hold the same value */
};

/* As far as slots are told apart; weak, one takes the types of others: a iteration with it is another. */
static inline bool slot_equal(const struct slot *a, const struct slot *b)
{
	return a->type == b->type && a->dtype == b->dtype && a->streamed == b->streamed && a->active == b->active &&
	       a->weak == b->weak && a->class == b->class;
}

struct change { /* of a slot by a step, to be undone on the way back */
	uint32_t slot;
	struct slot before;
	struct change *next;
};

/* A step before liveness is known. */
struct draft_step {
	struct body *body;
	struct change *changes;
	struct span span;
	struct step *last; /* the last struct step made of it */
};

struct draft_item {
	struct draft_step *draft; /* or a loop */
	struct draft_item *items;
	size_t count, capacity;
	int64_t iterations, first, steps;
	int32_t level;
	bool repeats; /* a loop whose counter nobody reads */
};

enum { PARAM_BUCKETS = 1024 };

/*
 * What a variable of a `for` is in a iteration: element TURN of REF, as FRAME knows it, or what the
 * counter of the loop at LEVEL says (-1: none). REF NULL: it is a param's.
 */
struct for_element {
	const struct ref *ref;
	const struct frame *frame;
	int64_t iteration;
	int32_t level;
};

struct lowering {
	struct lowered *out;
	const struct chain *chain;
	const struct context *context;
	enum lower_what what;
	const struct node *first, *end; /* of the stages that are taken; END is not */
	int64_t rows, whole_rows;
	const bool *cut; /* params that are cut with the tile (rows > 0) */
	bool *used_streamed, *used_whole;
	bool mixes;              /* rows meet in more than one SUM or FOLD, so that a forward run has no tiles either */
	uint32_t fold;           /* that one's instruction; NO_VALUE before it */
	struct interned **types; /* TYPE_BUCKETS lists, by hash */
	size_t type_buckets, type_count;
	struct slot *slots;
	size_t slot_count;
	/* The body that is being built. */
	struct body *body;
	uint32_t *now;     /* by slot: its value in this body, NO_VALUE where not read */
	uint32_t *touched; /* slots with a value in NOW */
	size_t touched_count;
	bool *listed;        /* by slot: it is in TOUCHED */
	bool *written;       /* by slot */
	uint32_t *port;      /* by slot: the value that was read for the class that goes by it */
	uint32_t *next_same; /* by slot: the next higher one of its class; NO_SLOT: it is the last */
	uint32_t *value_of;  /* by slot: room to work, which a step of many would not give back; NO_VALUE between uses */
	uint32_t *lowest;    /* by value of a body, likewise */
	size_t lowest_count;
	uint32_t params[PARAM_BUCKETS]; /* a cache of param values */
	const struct frame *frame;
	struct param_ref *loops;   /* by loop identity: what its variable is in this iteration */
	struct for_element *parts; /* by loop identity: the same where it runs over a computed value */
	int32_t level;             /* loops around this place whose counters are kept */
	uint32_t region;
	int64_t step;
	int64_t steps;
	/* Those met so far: the next step binds what is not BOUND yet. */
	const struct node **preludes;
	size_t prelude_count, preludes_bound, prelude_capacity;
	int64_t iterations; /* of loops within bodies that have been unrolled */
	/*
	 * By attempt to keep a loop, in the order that they begin in: whether it is kept. What an attempt
	 * that fails has found of the loops within it is read again when the iteration is written out.
	 */
	bool *kept;
	size_t attempt, attempt_count, attempt_capacity;
};

static inline enum status lowering_memory(struct lowering *l) { return diag_memory(l->context->diags); }

/* lower_body.c: types, values, slots and instructions of the body that is being built. */

/* The one pointer that stands for TYPE; NULL where memory is short. */
const struct type *lowering_intern(struct lowering *l, const struct type *type);
/* Says that rows meet beyond what tiles allow, in a forward run as in a gradient. */
static inline void lowering_mix_rows(struct lowering *l)
{
	l->out->streamable = false;
	l->mixes = true;
}
/* Begins BODY, which is initialised. */
void lowering_begin_body(struct lowering *l, struct body *body);
/* The type of a param or a part of it; the tile's where it is cut. */
struct type lowering_param_type(struct lowering *l, const struct param_ref *ref);
/* The value of REF in this body, or NO_VALUE. */
uint32_t lowering_param(struct lowering *l, const struct param_ref *ref);
/* The value of a slot in this body, or NO_VALUE: read from the state when it is first wanted. */
uint32_t lowering_read_slot(struct lowering *l, uint32_t slot);
void lowering_write_slot(struct lowering *l, uint32_t slot, uint32_t value);
/* An operation, which lacks its values and its result. NULL where memory is short. */
struct instr *lowering_add_op(struct lowering *l, enum op op, const struct attrs *attrs, struct span span);
/* *OUT, a new value of TYPE's shape that stands for DTYPE, is the result of INSTR, which may move. */
enum status lowering_set_out(struct lowering *l, struct instr *instr, const struct type *type, enum dtype dtype,
                             uint32_t *out);
/* VALUE as DTYPE: a cast where the computing types differ. */
enum status lowering_convert(struct lowering *l, uint32_t *value, enum dtype dtype, struct span span);
/* VALUE, or where that is a param a copy of it. */
enum status lowering_copy_param(struct lowering *l, uint32_t *value, struct span span);
/* NUMBER as a 0-d array, for general operations. */
enum status lowering_add_constant(struct lowering *l, double number, enum dtype dtype, struct span span,
                                  uint32_t *value);

/* lower_operand.c: references to what they refer to. */

enum status lowering_find_ref(struct lowering *l, const struct ref *ref, struct found *found);
/*
 * The number of iterations of a `repeat` or `for`, and what the variables of a `for` run over: in
 * *REFS, or in l->parts where that is computed.
 */
enum status lowering_begin_loop(struct lowering *l, const struct node *node, struct param_ref **refs,
                                int64_t *iterations);
/* TURN, or INDEX where that is a loop's, as REFS are indexed. */
enum status lowering_set_iteration(struct lowering *l, const struct node *node, const struct param_ref *refs,
                                   struct index index, int64_t iteration);

/* Whether NODE is a NAME that resolution has put before a loop: no stage, and so no step. */
static inline bool is_prelude(const struct node *node) { return node->kind == NODE_NAME && !node->name; }

/* lower_stage.c: NODE, or it and all that follow it, at the end of the body. */

enum status lower_node(struct lowering *l, const struct node *node);
enum status lower_nodes(struct lowering *l, const struct node *node);

/* lower_loop.c: NODE, a loop, at the end of the body: kept where that can be, else iteration after iteration. */

enum status lower_loop(struct lowering *l, const struct node *node);
/* Says that the chain has too many steps. STATUS_LIMIT. */
enum status lowering_too_long(struct lowering *l, struct span span);

/* lower_step.c: drafts of steps. */

/* The prelude NODE is a part of the next step. */
enum status lowering_put_off(struct lowering *l, const struct node *node);
/* Whether preludes have been put off since there were COUNT of them, and no step has come. */
static inline bool lowering_owes_step(const struct lowering *l, size_t count)
{
	return l->prelude_count > count && l->preludes_bound < l->prelude_count;
}

/* NODE and all that follow it, as drafts at the end of LIST. */
enum status lowering_draft_steps(struct lowering *l, const struct node *node, struct draft_item *list);
/* The body is DRAFT's, and ended: its outs, and what of the state it changes. */
enum status lowering_end_step(struct lowering *l, struct draft_step *draft);

/* liveness.c: the steps of the chain, in l->out, from LIST. */

enum status lowering_finish_steps(struct lowering *l, const struct draft_item *list);

#endif
