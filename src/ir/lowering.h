/*
 * What the files that lower a chain share:
 *
 *     lower.c          begins a lowering, chooses what it makes, and ends it; finds steps of what is lowered
 *     lower_body.c     types, values, slots and instructions of the body that is being built
 *     lower_operand.c  what operands and the variables of a `for` refer to
 *     lower_stage.c    a stage, at the end of the body; whether rows can be cut into tiles
 *     lower_loop.c     a loop within a body: kept, or written out
 *     lower_step.c     the chain as draft steps, each with its body
 *     liveness.c       draft steps to steps, which know the slots that they need
 *
 * A draft is a step whose live slots are not known yet. A prelude is a NAME that resolution put before a loop.
 *
 * Invariant: within one lowering, equal types are one pointer.
 */
#ifndef IR_LOWERING_H
#define IR_LOWERING_H

#include "ir/lower.h"

enum { MAX_STEPS = 10000000 };
enum { NO_SLOT = UINT32_MAX };
enum { PARAM_BUCKETS = 1024 };

/* What an operand refers to. */
enum found_kind { FOUND_NUMBER, FOUND_VALUE, FOUND_PARAM, FOUND_BLOCK };
struct found {
	enum found_kind kind;
	double number;
	uint32_t value;
	struct param_ref param;
	const struct node *block;
	const struct frame *frame; /* the call in which the block's names have their meaning */
};

/* A call of a def that is being lowered. */
struct frame {
	const struct found *arguments;
	const struct frame *outer;
	const char *def;
	int depth; /* 1 for the outermost call */
};

/* A variable of a `for` that runs over a computed value. */
struct for_element {
	const struct ref *ref;     /* the value; NULL where the variable is a part of a param */
	const struct frame *frame; /* the call in which REF has its meaning */
	int64_t iteration;         /* the element, where LEVEL is -1 */
	int32_t level;             /* the loop whose counter is the element; -1: none */
};

/* A slot of the state between bodies. */
struct slot {
	const struct type *type; /* NULL: not bound */
	enum dtype dtype;
	bool streamed, active, weak;
	uint32_t class; /* the lowest slot that is known to hold the same value; NO_SLOT while a step regroups them */
};

static inline struct slot slot_of(const struct value *v, uint32_t class)
{
	return (struct slot){v->type, v->dtype, v->streamed, v->active, v->weak, class};
}

/* True if a body that reads A cannot tell it from B. A weak scalar is unlike one that is not: its dtype gives way. */
static inline bool slot_equal(const struct slot *a, const struct slot *b)
{
	return a->type == b->type && a->dtype == b->dtype && a->streamed == b->streamed && a->active == b->active &&
	       a->weak == b->weak && a->class == b->class;
}

/* What a step did to a slot. Liveness, which walks the steps backwards, restores it. */
struct change {
	uint32_t slot;
	struct slot before;
	struct change *next;
};

struct draft_step {
	struct body *body;
	struct change *changes; /* the newest first */
	struct span span;
	struct step *last; /* the struct step that was made of it last */
};

/* A step, or a loop of items. */
struct draft_item {
	struct draft_step *draft; /* NULL: a loop */
	struct draft_item *items;
	size_t count, capacity;
	int64_t iterations, first, steps;
	int32_t level;
	bool repeats; /* a `repeat`: nothing reads its counter */
};

/* One pointer for each type. */
struct type_table {
	struct interned **buckets;
	size_t bucket_count, count;
};

/* The state between bodies, and memory for work on it: a step touches few of many slots, and must not cost them all. */
struct state {
	size_t count;
	struct slot *slots;
	uint32_t *next_same; /* by slot: the next higher one of its class; NO_SLOT ends the list */
	uint32_t *work;      /* by slot: NO_VALUE between uses */
	uint32_t *lowest;    /* by value of the body that ends: the class that holds it */
	size_t lowest_capacity;
};

/* The slots within the body that is being built. */
struct environment {
	uint32_t *now;  /* by slot: its value here; NO_VALUE where the body has not read it */
	bool *written;  /* by slot: the body binds it */
	uint32_t *port; /* by class: the value that the body reads it as; NO_VALUE where it does not */
	bool *listed;   /* by slot: it is in TOUCHED */
	uint32_t *touched;
	size_t touched_count;
	uint32_t params[PARAM_BUCKETS]; /* by hash: the latest value made of a param, or NO_VALUE */
};

/* Names that are no slots. */
struct names {
	const struct frame *frame; /* the innermost call; NULL outside of all */
	/* By identity of a `for` variable: a part of a param, or, where its REF is not NULL, of a value. */
	struct param_ref *params;
	struct for_element *elements;
};

/* How far the stages so far allow tiles. */
struct streaming {
	bool streamable, sums, flat; /* as in struct lowered */
	bool mixes;                  /* rows meet beyond one SUM or FOLD: a forward run has no tiles either */
	uint32_t fold;               /* the instruction of that SUM or FOLD; NO_VALUE before it */
	/* By param, WHOLE after ALONG in memory: some use runs along the streamed axis; some use reads all of its rows. */
	bool *along, *whole;
};

/* The preludes met so far. The next step binds those that are not bound yet. */
struct preludes {
	const struct node **nodes;
	size_t count, bound, capacity;
};

/*
 * By attempt to keep a loop, in the order in which attempts begin: whether it succeeded. An attempt that fails is
 * lowered again iteration by iteration, which meets the same inner loops; their outcomes are read here.
 */
struct attempts {
	bool *kept;
	size_t next, count, capacity;
};

struct lowering {
	const struct context *context;
	struct lowered *out;
	const struct chain *chain;
	enum lower_what what;
	const struct node *first, *end; /* the stages that are lowered: FIRST and those before END */
	int64_t rows;                   /* of a tile; 0: the whole */
	int64_t whole_rows;
	const bool *cut; /* by param: a tile has ROWS rows of it */
	struct type_table types;
	struct state state;
	struct streaming streaming;
	struct names names;
	struct preludes preludes;
	struct attempts attempts;
	struct body *body;
	struct environment env;
	uint32_t region; /* of the body: the innermost checkpoint block */
	int32_t level;   /* loops around this place whose counters are kept */
	/* LOWER_UNROLLED. Steps are counted where lower_step.c would begin one, and number the instructions. */
	bool counts_steps;  /* not within a step */
	int64_t step;       /* the step that instructions belong to */
	int64_t steps;      /* so far */
	int64_t iterations; /* iterations written out within bodies so far */
};

#define LOWERING_FAIL(l, status, span, ...) diag_at((l)->context->diags, status, (l)->chain->source, span, __VA_ARGS__)
/* The chain has too many steps. STATUS_LIMIT. */
enum status lowering_too_long(struct lowering *l, struct span span);

/* lower_body.c */

/* The one pointer that stands for TYPE; NULL where memory is short. */
const struct type *lowering_intern(struct lowering *l, const struct type *type);
/* Begins a new body. NULL where memory is short. */
struct body *lowering_begin_body(struct lowering *l);
/* The type of a param or of a part of it; the tile's where it is cut. */
struct type lowering_param_type(struct lowering *l, const struct param_ref *ref);
/* The value of REF in this body, or NO_VALUE. */
uint32_t lowering_param(struct lowering *l, const struct param_ref *ref);
/* The value of SLOT in this body, or NO_VALUE. The first read makes a port. */
uint32_t lowering_read_slot(struct lowering *l, uint32_t slot);
void lowering_write_slot(struct lowering *l, uint32_t slot, uint32_t value);
/* An operation without values and result. NULL where memory is short. */
struct instr *lowering_add_op(struct lowering *l, enum op op, const struct attrs *attrs, struct span span);
/*
 * Makes *OUT, a new value, the result of INSTR, whose v and a are set. TYPE gives *OUT its shape and computing dtype,
 * DTYPE the dtype that it stands for.
 */
enum status lowering_set_out(struct lowering *l, struct instr *instr, const struct type *type, enum dtype dtype,
                             uint32_t *out);
/*
 * Replaces *VALUE by the result of INSTR, a new operation or NULL, on it. All else that is known of *VALUE holds of the
 * result.
 */
enum status lowering_apply(struct lowering *l, struct instr *instr, const struct type *type, enum dtype dtype,
                           uint32_t *value);
/* Makes *VALUE one of DTYPE, by a cast where the computing dtypes differ. */
enum status lowering_convert(struct lowering *l, uint32_t *value, enum dtype dtype, struct span span);
/* Makes *VALUE, where it is a param, a copy of it. */
enum status lowering_copy_param(struct lowering *l, uint32_t *value, struct span span);
/* *VALUE is NUMBER as a 0-d array, for a general operation. */
enum status lowering_add_constant(struct lowering *l, double number, enum dtype dtype, struct span span,
                                  uint32_t *value);

/* lower_operand.c */

enum status lowering_find_ref(struct lowering *l, const struct ref *ref, struct found *found);
/* A `repeat` or a `for`. */
struct loop {
	const struct node *node;
	int64_t iterations; /* 0 if it has no stages */
	/* By variable of a `for`: the param that it runs over; names.elements knows those that run over a computed value. */
	struct param_ref *params;
};
enum status lowering_begin_loop(struct lowering *l, const struct node *node, struct loop *loop);
/* Gives the variables of LOOP their meaning in ITERATION, or, where LEVEL is not -1, in every one of the loop there. */
enum status lowering_set_iteration(struct lowering *l, const struct loop *loop, int32_t level, int64_t iteration);

/* lower_stage.c */

/* Rows meet beyond what tiles allow, in a forward run as in a gradient. */
static inline void lowering_mix_rows(struct lowering *l)
{
	l->streaming.streamable = false;
	l->streaming.mixes = true;
}
/* NODE, or NODE and all that follow it, at the end of the body. */
enum status lower_node(struct lowering *l, const struct node *node);
enum status lower_nodes(struct lowering *l, const struct node *node);
/* Counts a step, which binds all preludes. */
static inline void lowering_count_step(struct lowering *l)
{
	l->preludes.bound = l->preludes.count;
	l->steps++;
}

/* lower_loop.c */

/* NODE, a loop, at the end of the body. */
enum status lower_loop(struct lowering *l, const struct node *node);

/* lower_step.c */

/* True if NODE is a prelude: no stage, and so no step. */
static inline bool is_prelude(const struct node *node) { return node->kind == NODE_NAME && !node->name; }
/* Leaves the prelude NODE to the next step. False where memory is short. */
bool lowering_defer(struct lowering *l, const struct node *node);
/* True if preludes were deferred since there were COUNT of them, and no step has bound them. */
static inline bool lowering_owes_step(const struct lowering *l, size_t count)
{
	return l->preludes.count > count && l->preludes.bound < l->preludes.count;
}
/* Appends drafts of NODE and all that follow it to LIST. */
enum status lowering_draft_steps(struct lowering *l, const struct node *node, struct draft_item *list);
/* Ends the body, which is DRAFT's: its outs, and what it changes of the state. False where memory is short. */
bool lowering_end_step(struct lowering *l, struct draft_step *draft);

/* liveness.c */

/* The steps of the chain, in l->out, from LIST. */
enum status lowering_finish_steps(struct lowering *l, const struct draft_item *list);

#endif
