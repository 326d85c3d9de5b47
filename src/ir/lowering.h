/*
 * Declarations that the files of the lowering share.
 *
 *     lower.c          a lowering from its begin to its end; the step at an index
 *     lower_body.c     types, values, slots and instructions of a body
 *     lower_operand.c  operands, and the variables of a `for`
 *     lower_formula.c  terms: formulas, node by node
 *     lower_stage.c    a stage, at the end of the body; whether rows can be cut into tiles
 *     lower_expand.c   operations that are put together from others
 *     lower_loss.c     a loss, put together from operations
 *     lower_attention.c  the operands of an attention
 *     lower_program.c  a stage that a program computes
 *     lower_cotangents.c  the step that differentiates several outputs
 *     reach.c          how far values reach along the streamed axis
 *     lower_loop.c     a loop within a body, kept or written out
 *     lower_place.c    the place where a run ends or a gradient begins
 *     lower_fixed_point.c    a fixed_point, which is a loop in every kind of body
 *     lower_step.c     the chain as draft steps, each with its body
 *     share_body.c     one body for the steps that differ in particulars
 *     liveness.c       steps, with the slots that they need, from drafts
 *
 * A draft is a step whose live slots are not known yet. A prelude is a NAME node that resolution added before
 * a stage with a block (language/resolve.c).
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
enum found_kind { FOUND_NUMBER, FOUND_COUNTER, FOUND_VALUE, FOUND_PARAM, FOUND_BLOCK, FOUND_NONE };
struct found {
	enum found_kind kind;
	double number;
	struct index counter; /* COUNTER: an iteration's number. A value of the body: lowering_add_counter */
	int64_t iterations;   /* COUNTER: it is below this number */
	uint32_t value;
	struct param_ref param;
	const struct node *block;
	const struct frame *frame; /* the call whose arguments the block's names refer to */
};

/* A call of a def that is being lowered. */
struct frame {
	const struct found *arguments;
	const struct frame *outer;
	const char *def;
	int depth; /* 1 for the outermost call */
};

/* The innermost loop around a place and its iteration, by which it collects arrays. */
struct collecting {
	int64_t iterations; /* of the loop */
	struct index iteration;
	bool first; /* it begins the arrays */
};

/* A variable of a `for`, or the counter of a loop. */
struct for_element {
	const struct ref *ref;     /* the value that the `for` runs over; NULL if it is a param */
	const struct frame *frame; /* the call whose arguments REF refers to */
	int64_t iteration;         /* the index of the element, if LEVEL is -1 */
	int32_t level;             /* the level of the loop whose counter is the index; -1: none */
	int64_t iterations;        /* of a counter's loop: there are no other fields but the two before */
};

/* A slot of the state between bodies. */
struct slot {
	const struct type *type; /* NULL: not bound */
	enum dtype dtype;
	bool streamed, active, weak, condition;
	bool collected; /* a loop makes it part by part (OP_COLLECT) */
	uint32_t class; /* the lowest slot that is known to hold the same value; NO_SLOT while it is regrouped */
};

static inline struct slot slot_of(const struct value *v, uint32_t class)
{
	return (struct slot){v->type, v->dtype, v->streamed, v->active, v->weak, v->condition, false, class};
}

/* True if a body cannot tell slot A from slot B. Weak scalars differ from others: their dtype yields to the other's. */
static inline bool slot_equal(const struct slot *a, const struct slot *b)
{
	return a->type == b->type && a->dtype == b->dtype && a->streamed == b->streamed && a->active == b->active &&
	       a->weak == b->weak && a->condition == b->condition && a->collected == b->collected && a->class == b->class;
}

/* A slot that a step changed, and its contents before. Liveness, which walks the steps backwards, restores them. */
struct change {
	uint32_t slot;
	struct slot before;
	struct change *next;
};

struct draft_step {
	const struct body *body;
	struct particulars own;
	struct change *changes; /* the newest first */
	struct span span;
	struct step *last; /* the struct step that was last made of this draft */
};

/* A draft step, or a loop over items. */
struct draft_item {
	struct draft_step *draft; /* NULL: a loop */
	struct draft_item *items;
	size_t count, capacity;
	int64_t iterations, first, steps;
	int32_t level;
	bool repeats;                 /* a `repeat`: nothing reads its counter */
	const struct body *condition; /* of a watched loop; or NULL */
};

/* A hash table of types, with one pointer for equal types. */
struct type_table {
	struct interned **buckets;
	size_t bucket_count, count;
};

/* The state between bodies, and work arrays, allocated once: a step that touches few slots must not cost all. */
struct state {
	size_t count;
	struct slot *slots;
	uint32_t *next_same; /* by slot: the next higher one of its class; NO_SLOT ends the list */
	uint32_t *lowest;    /* by value of the body that ends: the class that holds it, or NO_SLOT */
	size_t lowest_capacity;
};

/* The slots within the body that is being built. */
struct environment {
	uint32_t *now;  /* by slot: its value here; NO_VALUE: neither read nor bound by the body */
	bool *written;  /* by slot: the body binds it */
	uint32_t *port; /* by class: the value as which the body reads it; NO_VALUE: not read */
	bool *listed;   /* by slot: it is in TOUCHED */
	uint32_t *touched;
	size_t touched_count;
	uint32_t params[PARAM_BUCKETS]; /* by hash: the latest value made of a param, or NO_VALUE */
};

/* Meanings of the names that are not slots: arguments and variables of a `for`. */
struct names {
	const struct frame *frame; /* the innermost call; NULL outside of all */
	/* By identity of a `for` variable: the part of a param that it is; its element, if it runs over a value. A counter too
	   is an element. */
	struct param_ref *params;
	struct for_element *elements;
};

/* How far the stages so far allow tiles. */
struct streaming {
	bool streamable, flat, neighbours; /* as in struct lowered */
	struct because because;            /* likewise */
	uint32_t folds;                    /* number of SUMs, FOLDs and NORMs over the rows so far */
	bool meets;                        /* one of them is a SUM or FOLD outside of loops, where all rows meet */
	/* By param: a use runs along the streamed axis; a use reads all rows. WHOLE follows ALONG in memory. */
	bool *along, *whole;
};

/* The preludes met so far. The next step binds those that are not bound yet. */
struct preludes {
	const struct node **nodes;
	size_t count, bound, capacity;
};

/*
 * Attempts to keep loops, in the order in which they begin. KEPT: whether each succeeded. The loop of a failed attempt
 * is lowered iteration by iteration. That meets the same inner loops, whose outcomes are read here.
 */
struct attempts {
	bool *kept;
	size_t next, count, capacity;
};

/* The way to the chain's place (lower_place.c). */
struct way {
	const struct chain_place *to; /* NULL: this lowering seeks none */
	int64_t met;                  /* bindings of its name so far, or steps */
	int64_t wanted;               /* the place is where MET gets this number */
	int attempts; /* number of attempts to keep a loop around here: the place lies in none that succeeds */
	bool dry;     /* nothing is wanted but MET at the end */
	bool unbound; /* stages are lowered for their types alone */
	bool reached;
	bool between;     /* no step is being made here */
	uint32_t pending; /* the slot of a place that was met between steps: the next step begins its gradient; 0: none */
	uint32_t value;   /* of a forward run that has reached it */
};

/* What liveness notes of the step that it walks. The arrays have space for all slots. */
struct touched {
	uint32_t *slots; /* the slots that the step touches, ascending */
	uint32_t count;
	bool *listed;         /* by slot: it is in SLOTS */
	uint32_t *read_as;    /* by slot: the value as which the body reads it; NO_VALUE: it does not */
	uint32_t *written_as; /* by slot: the value that the body writes to it; NO_VALUE: none */
};

/* Lists of a step that liveness makes, before the steps share them. */
struct step_lists {
	uint32_t *read, *value;
	struct class_move *moved;
	bool *listed; /* by class: it is in MOVED */
	struct step_in *ins;
};

/* By value of the step that liveness walks: what mark_back passes on. */
struct value_marks {
	bool *needed, *cot;
	size_t capacity;
};

/* The ends of the steps of a checkpoint block that its policy cuts, of instructions. */
struct step_ends {
	uint32_t *items;
	size_t count, capacity;
};

struct lowering {
	const struct context *context;
	struct arena scratch; /* freed when the lowering ends */
	struct byte_set kept; /* parts of steps, in the context's arena: steps share equal ones */
	struct lowered *out;
	const struct chain *chain;
	enum lower_what what;
	const struct node *first, *end; /* the stages to lower: from FIRST up to END, without END */
	int64_t rows;                   /* number of rows of a tile; 0: the whole input */
	int64_t whole_rows;
	const bool *cut; /* by param: a tile has ROWS rows of it */
	struct type_table types;
	const char *last_bound; /* the name that was counted last; a loop may bind one millions of times */
	int64_t *last_count;    /* its element of OUT's bindings */
	struct state state;
	struct streaming streaming;
	struct names names;
	struct found held_operand; /* what REF_HELD refers to here */
	struct found held_other;   /* what REF_HELD of index 1 refers to: the second operand of a `where` */
	bool numeric;              /* a number is wanted: consts that are numbers are found as such */
	enum op swapped[OP_COUNT]; /* by operation: the one of exchanged operands; OP_COUNT: there is none */
	struct preludes preludes;
	struct attempts attempts;
	struct body *body;
	struct body draft; /* the body of each draft step in turn, in the scratch arena */
	struct environment env;
	struct touched touched_slots;
	struct step_lists lists;
	struct value_marks marks;
	uint32_t guards; /* number of operands of `where` around the stage that is being lowered */
	uint32_t region; /* the innermost checkpoint block here, an index into the body's regions */
	struct step_ends
		*ends; /* of the checkpoint block around, if its policy cuts it and no step of it is around; else NULL */
	struct collecting collecting;
	struct way way;
	int32_t level;       /* number of loops around this place that bodies or lists of steps keep */
	int loops;           /* number of loops around this place, written out or kept */
	uint32_t outermost;  /* number of loops before this place that stand in no loop; those of conditions do not count */
	uint32_t conditions; /* number of `repeat while`s before this place; in steps, of their runs */
	bool in_condition;   /* of a `repeat while` */
	bool in_fixed_point; /* of a `repeat while` in it, no pass counts the iterations at the solution */
	bool in_solution;    /* within the loop of a fixed_point, through which no cotangent goes */
	/* For LOWER_UNROLLED: steps are counted where lower_step.c would begin one, and instructions get their numbers. */
	bool counts_steps;  /* not within a step */
	int64_t step;       /* the step that instructions belong to */
	int64_t steps;      /* number of steps so far */
	int64_t iterations; /* for each kind of lowering: iterations written out within bodies so far */
	/* Of the written-out chain before this place: the number of dropouts, then of calls of each program. */
	uint64_t *drawn;
	size_t streams;                   /* length of DRAWN */
	struct stream_loop *stream_loops; /* as DRAWN: the innermost loop around this place that is kept */
};

#define LOWERING_FAIL(l, status, span, ...) diag_at((l)->context->diags, status, (l)->chain->source, span, __VA_ARGS__)
/* Reports that the chain has too many steps. Returns STATUS_LIMIT. */
enum status lowering_too_long(struct lowering *l, struct span span);

/* lower_body.c */

/* Returns the one pointer that stands for TYPE; NULL where memory is short. */
const struct type *lowering_intern(struct lowering *l, const struct type *type);
/* Begins a new body. Returns NULL where memory is short. */
struct body *lowering_begin_body(struct lowering *l);
/* Begins l->draft again. Returns false where memory is short. */
bool lowering_begin_draft(struct lowering *l);
/* Returns the type of REF, a param or a part of one. Of a param that is cut, it is the type of the tile's rows. */
struct type lowering_param_type(struct lowering *l, const struct param_ref *ref);
/* Returns the value of REF in this body; NO_VALUE where memory is short. */
uint32_t lowering_param(struct lowering *l, const struct param_ref *ref);
/* Returns the value of SLOT in this body. The first read of its class makes a port. NO_VALUE where memory is short. */
uint32_t lowering_read_slot(struct lowering *l, uint32_t slot);
void lowering_write_slot(struct lowering *l, uint32_t slot, uint32_t value);
/* Appends an operation, whose values and result the caller sets. Returns NULL where memory is short. */
struct instr *lowering_add_op(struct lowering *l, enum op op, const struct attrs *attrs, struct span span);
/*
 * Adds a value, *OUT, as the result of INSTR, whose v and a are set. TYPE gives *OUT its shape and computing dtype;
 * DTYPE is its logical dtype.
 */
enum status lowering_set_out(struct lowering *l, struct instr *instr, const struct type *type, enum dtype dtype,
                             uint32_t *out);
/*
 * Makes INSTR read *VALUE and replaces *VALUE by its result, which stays streamed, active and weak as *VALUE was. INSTR
 * is a new operation, or NULL where memory was short.
 */
enum status lowering_apply(struct lowering *l, struct instr *instr, const struct type *type, enum dtype dtype,
                           uint32_t *value);
/* Casts *VALUE to DTYPE if the computing dtypes differ, or if a weak value must round to a half type. */
enum status lowering_convert(struct lowering *l, uint32_t *value, enum dtype dtype, struct span span);
/* Replaces *VALUE by a copy if it is a param. */
enum status lowering_copy_param(struct lowering *l, uint32_t *value, struct span span);
/* Makes *VALUE a 0-d array of NUMBER, since a general operation takes no scalar. */
enum status lowering_add_constant(struct lowering *l, double number, enum dtype dtype, struct span span,
                                  uint32_t *value);

/*
 * Makes *VALUE a weak 0-d array of COUNTER, a FOUND_COUNTER, in the computing dtype of the input. An instruction makes it, so
 * no derivative keeps it.
 */
enum status lowering_add_counter(struct lowering *l, const struct found *counter, struct span span, uint32_t *value);

/* lower_operand.c */

enum status lowering_find_ref(struct lowering *l, const struct ref *ref, struct found *found);
/* Fails unless COUNTER, which REF names, stays below EXTENT, that of an axis of TYPE. */
enum status lowering_check_counter(struct lowering *l, const struct ref *ref, const struct found *counter,
                                   int64_t extent, const struct type *type);
/* Does as lowering_find_ref; where REF has no value, *FOUND is FOUND_NONE, and that is no error. */
enum status lowering_find_optional(struct lowering *l, const struct ref *ref, struct found *found);
/* A `repeat` or a `for`. */
struct loop {
	const struct node *node;
	int64_t iterations; /* 0 if its body is empty */
	size_t variables;   /* of a `for`; 0 for a `repeat` */
	/* By variable of a `for`: the param that it runs over. Computed values are in names.elements. */
	struct param_ref *params;
};
enum status lowering_begin_loop(struct lowering *l, const struct node *node, struct loop *loop);
/* True if LOOP, a `repeat`, collects and has no iteration: it makes arrays of no parts. */
static inline bool lowering_collects_nothing(const struct loop *loop)
{
	return loop->iterations == 0 && loop->node->collects && loop->node->kind == NODE_REPEAT;
}
/* Sets the variables of LOOP for ITERATION, or, if LEVEL is not -1, for all iterations of the kept loop at LEVEL. */
enum status lowering_set_iteration(struct lowering *l, const struct loop *loop, int32_t level, int64_t iteration);

/* lower_formula.c */

/* Fills l->swapped. */
void lowering_find_swapped(struct lowering *l);
/* Sets *NUMBER to that of REF in this call. WHAT, such as "the count of repeat", is the subject of an error. */
enum status lowering_number(struct lowering *l, const struct ref *ref, const char *what, double *number);
/* Appends TERM, whose result FOUND becomes: a number, a param or a value. The current value does not change. */
enum status lowering_term(struct lowering *l, const struct term *term, struct found *found);
/* Sets *VALUE to that of FOUND, whose place is SPAN. A number becomes a weak 0-d array. */
enum status lowering_value_of(struct lowering *l, const struct found *found, struct span span, uint32_t *value);

/* lower_stage.c */

/* The values of an operation. The last operand of an element-wise one may be the number SCALAR. */
struct operands {
	uint32_t values[MAX_VALUES]; /* V and the operands; NO_VALUE if there is none, or it is SCALAR */
	double scalar;
	int32_t level; /* of the loop whose counter SCALAR adds; -1: none */
};
/* Returns the value V with the operand A, or with none: NO_VALUE. */
static inline struct operands operands_of(uint32_t v, uint32_t a)
{
	return (struct operands){.values = {v, a, NO_VALUE, NO_VALUE}, .level = -1};
}
/* Appends the operation NODE, applied to the values IN: it may convert some. *OUT is its result. */
enum status lowering_apply_op(struct lowering *l, const struct node *node, struct operands *in, uint32_t *out);
/* Sets *RESULT to the type of NODE, an operation with ATTRS, applied to IN. Reports what does not fit. */
enum status lowering_infer(struct lowering *l, const struct node *node, const struct attrs *attrs,
                           const struct operands *in, struct type *result);
/* Sets *FOUND to the arguments of NODE on V. Numbers are rounded to DTYPE if it is f16 or bf16. */
enum status lowering_attrs(struct lowering *l, const struct node *node, const struct value *v, enum dtype dtype,
                           const struct attrs **found);
/* Appends NODE, an operation, applied to V. *OUT is its result. */
enum status lowering_op(struct lowering *l, const struct node *node, uint32_t v, uint32_t *out);
/* Does as lowering_op, with the value A as the operand; NO_VALUE: it has none. */
enum status lowering_op_on(struct lowering *l, const struct node *node, uint32_t v, uint32_t a, uint32_t *out);
/* Appends OP with ATTRS, bytes of 0 before they were set (NULL: its defaults), for NODE, applied to the values IN. */
enum status lowering_put_op(struct lowering *l, const struct node *node, enum op op, const struct attrs *attrs,
                            struct operands *in, uint32_t *out);
/* Appends NODE, a call of a def, applied to *VALUE (NULL: the current value), which becomes the result. */
enum status lowering_call(struct lowering *l, const struct node *node, uint32_t *value);
/* Notes that no passes over the rows can compute those of the stage at SPAN, for REASON. */
static inline void lowering_need_whole(struct lowering *l, struct span span, const char *reason)
{
	l->streaming.streamable = false;
	if (!l->streaming.because.reason)
		l->streaming.because = (struct because){reason, span};
}
/* Append NODE, or NODE and all that follow it, up to l->end, to the body. */
enum status lower_node(struct lowering *l, const struct node *node);
enum status lower_nodes(struct lowering *l, const struct node *node);
/* Counts a step, which binds all preludes. */
static inline void lowering_count_step(struct lowering *l)
{
	l->preludes.bound = l->preludes.count;
	l->steps++;
}

/* Appends the block FOUND. *VALUE is its result on the current value, which does not change. */
enum status lower_block_operand(struct lowering *l, const struct found *found, uint32_t *value);
/* Gives INSTR the next index of STREAM (l->drawn). */
enum status lowering_draw(struct lowering *l, struct instr *instr, size_t stream);

/* reach.c */

/* Sets *REACH to that of BODY, which LOWER_RUN made of a whole array. Returns false where memory is short. */
bool reach_find(struct lowering *l, const struct body *body, struct row_reach *reach);

/* lower_expand.c */

/* Lowers NODE, an operation that is put together from others, on the values IN. *OUT is its result. */
enum status lower_expanded(struct lowering *l, const struct node *node, const struct operands *in, uint32_t *out);

/* lower_attention.c */

/* Makes the operands IN of NODE, an attention, what its kernel reads. */
enum status lower_attention(struct lowering *l, const struct node *node, struct operands *in);

/* Gives the bands IN of NODE, a tridiagonal, one shape. */
enum status lower_bands(struct lowering *l, const struct node *node, struct operands *in);

/* lower_loss.c */

/* Appends NODE, a loss, on the values IN. *OUT is its result. */
enum status lower_loss(struct lowering *l, const struct node *node, struct operands *in, uint32_t *out);

/* lower_program.c */

/* Lowers NODE, a call of a program on V, to the end of the body. *OUT is its result. */
enum status lower_program(struct lowering *l, const struct node *node, uint32_t v, uint32_t *out);

/* lower_loop.c */

/*
 * Begin and end the iteration FIRST of a kept loop at LEVEL, for the streams of the dropouts and calls in it. The end
 * counts those of ITERATIONS. BEFORE is a copy of l->drawn before the begin. Begin returns the loop's part of each
 * stream, or NULL where memory is short.
 */
struct stream_loop *lowering_begin_streams(struct lowering *l, int32_t level, int64_t first);
void lowering_end_streams(struct lowering *l, const uint64_t *before, int64_t iterations);

/* Gives the value of SLOT, which the loop NODE carries, DTYPE for good if it is weak. */
enum status lowering_make_strong(struct lowering *l, const struct node *node, uint32_t slot, enum dtype dtype);
/*
 * Lowers FIRST and its successors on the current value: *VALUE. The names that they bind end with them, and neither the
 * current value nor the dropouts' streams change.
 */
enum status lowering_apart(struct lowering *l, const struct node *first, uint32_t *value);
/*
 * Lowers the condition of NODE, a `repeat while`, to the end of the body: *VALUE, one number. The names that it binds
 * end with it, and neither the current value nor the dropouts' streams change.
 */
enum status lowering_condition(struct lowering *l, const struct node *node, uint32_t *value);
/* Lowers NODE, a loop, to the end of the body. */
enum status lower_loop(struct lowering *l, const struct node *node);

/* lower_place.c */

/* Finds what of PORTION, on INPUT, comes before the place of the chain, if it has one that concerns this lowering. */
enum status lowering_find_way(struct lowering *l, const struct portion *portion, const struct type *input);
/* Fails if the lowering, which has ended, has not met the place that it seeks. */
enum status lowering_check_place(struct lowering *l);
/* True if no derivative goes through what is computed here: it comes before the place of a gradient. */
bool lowering_is_constant(const struct lowering *l);
/* True if the way to the place is counted in steps. */
bool lowering_counts_steps(const struct lowering *l);
/*
 * Each of these notes a moment that may be the place: NODE has bound a name; NODE, a loop that has ended, has collected arrays;
 * a step has ended, whose last stage is at SPAN. At the place of a run they return STATUS_PLACE.
 */
enum status lowering_meet_binding(struct lowering *l, const struct node *node);
enum status lowering_meet_collected(struct lowering *l, const struct node *node);
enum status lowering_meet_step(struct lowering *l, struct span span);
/* Begins in a step the gradient of a place that was met before it, if there is one. */
enum status lowering_begin_pending(struct lowering *l, struct span span);
/* True if the lowering ends at the place, and has not met it yet. */
bool lowering_seeks_end(const struct lowering *l);
/* True if what has been met so far comes before the place; within an attempt to keep a loop, that is for the one around it to say. */
bool lowering_is_before_place(const struct lowering *l);
/* Returns how many of MOST iterations end before the place, if each meets as many bindings or steps as EACH. */
int64_t lowering_before_place(const struct lowering *l, int64_t each, int64_t most);
/* Lets what has been met since it was BEFORE count for each of ITERATIONS. */
void lowering_repeat_count(struct lowering *l, int64_t before, int64_t iterations);
/* Fails if NODE, a loop that has ended, is a `repeat while` before the place in which some were met since BEFORE. */
enum status lowering_check_count(struct lowering *l, const struct node *node, int64_t before);

/* lower.c */

/* Lowers PORTION. The caller has set context, out, chain and what of L, and for a tile rows and cut. */
enum status lower_typed(struct lowering *l, const struct portion *portion, const struct type *input);

/* lower_fixed_point.c */

/* Lowers NODE, a fixed_point, to the end of the body. */
enum status lower_fixed_point(struct lowering *l, const struct node *node);

/* lower_step.c */

/* True if NODE is a prelude, which is no stage and so makes no step. */
static inline bool is_prelude(const struct node *node) { return node->kind == NODE_NAME && !node->name; }
/* Leaves the prelude NODE to the next step. Returns false where memory is short. */
bool lowering_defer(struct lowering *l, const struct node *node);
/* True if preludes after the first COUNT were deferred, and a prelude is not bound yet. */
static inline bool lowering_owes_step(const struct lowering *l, size_t count)
{
	return l->preludes.count > count && l->preludes.bound < l->preludes.count;
}
/* Appends drafts of NODE and all that follow it, up to l->end, to LIST. */
enum status lowering_draft_steps(struct lowering *l, const struct node *node, struct draft_item *list);
/* Makes the body DRAFT's, adds its outs, changes the state and records that in DRAFT. False where memory is short. */
bool lowering_end_step(struct lowering *l, struct draft_step *draft);

/* share_body.c */

/* Replaces DRAFT's body, l->draft, by one that steps share, and sets DRAFT's particulars. False: memory is short. */
bool lowering_share_body(struct lowering *l, struct draft_step *draft);

/* liveness.c */

/* Makes steps of the drafts in LIST, and stores them in l->out. Undoes the drafts' changes of the state. */
enum status lowering_finish_steps(struct lowering *l, const struct draft_item *list);

/* lower_cotangents.c: lowers NODE, a COTANGENTS. */
enum status lower_cotangents(struct lowering *l, const struct node *node);

#endif
