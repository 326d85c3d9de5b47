/*
 * A body: a straight list of typed instructions over values, each value assigned once. Forward, recording and backward
 * programs are all bodies, so the compiler, the residual report and explain know one form.
 *
 * A body of a forward run may hold loops (INSTR_LOOP ... INSTR_END). A body that is differentiated is unrolled. Only
 * fixed_points keep their loops there: no cotangent passes through these (ir/lower_fixed_point.c).
 */
#ifndef IR_BODY_H
#define IR_BODY_H

#include "language/chain.h"
#include "ops/general.h"

enum { NO_VALUE = UINT32_MAX };
enum { MAX_LOOPS = 256 }; /* nested in one body */

/* An index along a leading axis of a param: a constant, or the counter of an enclosing loop. */
struct index {
	int32_t loop;  /* the level of the loop whose counter is the index, the outermost 0; -1: a constant */
	int64_t value; /* the constant */
};
struct param_ref {
	uint32_t param;
	uint32_t count; /* number of indices; 0: the whole param */
	const struct index *index;
};

enum value_kind_of { FROM_PORT, FROM_PARAM, FROM_INSTR };

/* A name that the chain gives to a value. */
struct naming {
	const char *name;
	struct span span;
	const char *def; /* the def it stands in, or NULL */
	int64_t index;   /* LOWER_UNROLLED: number of earlier bindings of the name; else 0 */
	bool inner; /* the name is in a checkpoint block, the value was made outside of it, in no block that has ended */
	const struct naming *next;
};

/*
 * A written-out chain has several values and instructions a stage, so the fields of different kinds share bytes, here
 * and in struct instr. A reader of a field of one kind checks the kind first.
 */
struct value {
	const struct type *type; /* F32, F64 or BITS; interned: within a lowering one pointer, except of kept values */
	enum dtype dtype : 8;    /* the logical dtype: f16 and bf16 are held as F32 */
	enum value_kind_of from : 4;
	bool streamed : 1; /* its leading axis is the streamed one */
	bool active : 1;   /* it depends by derivatives on the input or a param */
	bool weak : 1;     /* its dtype yields to that of the other operand */
	bool
		condition : 1; /* it is 1 or 0 since a condition gives it; kept in chains with masks alone (value_is_condition) */
	bool cotangent : 1; /* it is the cotangent of PRIMAL; false: PRIMAL is the same value */
	/*
	 * In a backward body: a value of the recording body, for reports. In other bodies: of an in that is a COTANGENT, which has no
	 * value, the value whose cotangent its slot gets (ir/lower_place.c).
	 */
	uint32_t primal;
	union {
		uint32_t instr;         /* FROM_INSTR */
		uint32_t port;          /* FROM_PORT: index into ins */
		struct param_ref param; /* FROM_PARAM */
	};
	const struct naming *names;
};

/* True if VALUE is a condition, or bool. */
static inline bool value_is_condition(const struct value *value)
{
	return value->condition || value->dtype == DTYPE_BOOL;
}

/* Returns *TYPE, of an array that may be STREAMED: then it has ROWS rows, unless these are 0. */
static inline struct type type_of_rows(const struct type *type, bool streamed, int64_t rows)
{
	struct type with = *type;
	if (streamed && rows)
		with.shape.dim[0] = rows;
	return with;
}

enum instr_kind {
	INSTR_OP,         /* out = op(v, a or scalar); also makes each out_keep that is set. NORM: see body_folds */
	INSTR_VJP_V,      /* out = the cotangent of v, shaped as the result; element-wise operations */
	INSTR_VJP_A,      /* out = the cotangent of a, shaped as the result; element-wise operations */
	INSTR_VJP_B,      /* likewise, of the second operand */
	INSTR_VJP,        /* out and out_a = the cotangents of v and a; one may be NO_VALUE; general operations */
	INSTR_ADD,        /* out = v + a: two cotangents of one value */
	INSTR_SUM_TO,     /* out = v summed over the axes that were broadcast */
	INSTR_ZERO,       /* out = zeros */
	INSTR_ACCUMULATE, /* the gradient of param `param` += v */
	INSTR_LOOP,       /* runs the instructions up to its INSTR_END `iterations` times */
	INSTR_WHILE,      /* ends the loop around it unless the number v is above 0; and in the loop's last iteration */
	INSTR_END,
	INSTR_CHECK, /* an operation whose result nobody reads, but whose indices must be in range */
};

/*
 * A value that a loop carries. The first iteration reads INIT as INNER; each iteration leaves RESULT, which the next
 * one reads as INNER. FINAL is the last RESULT, or INIT where there is no iteration.
 */
struct carry {
	uint32_t init, inner, result, final;
};

/* The fields of an INSTR_LOOP or an INSTR_END that describe the loop. */
struct loop_part {
	int64_t iterations; /* set in the LOOP alone; in a WHILE, the most that run */
	int64_t first;      /* in the LOOP: the counter in the first iteration */
	uint32_t match;     /* in a LOOP, the index of its END; in an END or a WHILE, that of its LOOP */
	uint32_t condition; /* in a WHILE: counted.outermost of its runs; in a condition NO_VALUE */
	uint32_t carry_count;
	uint32_t stream_count; /* of STREAMS */
	struct carry *carries;
	/* In a WHILE: its loop's part in each stream. Stream 0 counts dropouts, stream 1 + i the calls of program i. */
	const struct stream_loop *streams;
};

/*
 * The stream of a dropout: its index among the dropouts of the forward pass with all loops written out. A program's
 * call has its index among the calls of that program likewise. In a kept loop the index moves with the counter. AT is the index in the first iteration of each loop.
 */
struct stream_loop {
	int32_t level;
	int64_t first; /* the counter in the loop's first iteration */
	uint64_t
		step; /* number of dropouts, or of calls, in an iteration; 0 if the counters of inner loops continue in the next iteration */
	struct stream_loop *outer;
};
struct stream {
	uint64_t at;
	const struct stream_loop *loops; /* the innermost; NULL: none, or the chain names the stream */
};
/* Returns the index of STREAM where COUNTERS, by level, are those of the loops around. Indices are modulo 2^64. */
static inline uint64_t stream_index(const struct stream *stream, const int64_t *counters)
{
	uint64_t index = stream->at;
	for (const struct stream_loop *loop = stream->loops; loop; loop = loop->outer)
		if (loop->step)
			index += loop->step * (uint64_t)(counters[loop->level] - loop->first);
	return index;
}

/*
 * The types of a forward operation's v, a, y (its result) and third operand, or NULL. Instructions that reverse it have the same. A SUM_TO
 * has those of its own v and out, an ACCUMULATE that of its v: an array may have another shape than the value in it.
 */
struct forward_types {
	const struct type *v, *a, *y, *c;
};

/* A call of a program, beside its instruction's V and OUT. The one value that its forward pass may keep is a record. */
struct external_use {
	const struct program_decl *program;
	uint32_t index;                             /* of PROGRAM in chain->programs */
	uint32_t count;                             /* number of operands */
	uint32_t operands[PROGRAM_OPERANDS];        /* values read; NO_VALUE: the derivative does not read it */
	uint32_t outs[PROGRAM_OPERANDS];            /* VJP: the cotangents of the operands; NO_VALUE: not wanted */
	const struct type *types[PROGRAM_OPERANDS]; /* of the operands */
};

struct instr {
	enum instr_kind kind : 8;
	enum op op : 16;
	bool a_streamed : 1;                       /* A has one row for each row of the operation's V, which is streamed */
	unsigned more_streamed : MAX_OPERANDS - 1; /* likewise, bit i for MORE[i] */
	bool recomputed : 1;                       /* a forward operation in a backward body */
	bool guarded : 1; /* it stands in an operand of `where`: where its cotangent is 0, so are its derivatives */
	union {
		const struct external_use *use;  /* OP or VJP of OP_PROGRAM: the call (instr_use) */
		uint32_t more[MAX_OPERANDS - 1]; /* others: the operands after A, or NO_VALUE */
	};
	/* The index of SCALAR, or of the first of ATTRS' constants, in each step's particulars; NO_VALUE: here they are. */
	uint32_t own_scalar;
	union {
		struct {
			const struct attrs *attrs;
			double
				scalar; /* OP, VJP of an element-wise one whose last operand is a number: that, or 0 and OWN_SCALAR */
		};
		struct param_ref param; /* ACCUMULATE */
	};
	uint32_t v, a, y, k, l, g;    /* values read, or NO_VALUE; VJP of slice: A, if any, is the array to which it adds */
	uint32_t out, out_a;          /* values made */
	uint32_t out_keep[MAX_KEEPS]; /* OP: the values kept for the derivative, which reads them as K and L */
	union {
		struct forward_types of;
		struct loop_part loop; /* LOOP and END */
	};
	struct span span; /* of the stage that the instruction comes from */
	const char *def;  /* the def it stands in, or NULL */
	uint32_t region;  /* the innermost checkpoint region; 0 is the whole body */
	uint32_t step;    /* in an unrolled body: the step that the instruction belongs to */
	const struct stream
		*stream; /* of a dropout or a call of a program; else NULL. In a shared body NULL, and each step has it */
	uint32_t own_stream; /* its index in each step's particulars; NO_VALUE: STREAM is it */
	/*
	 * LOOP: its level. Slice: that of the loop whose counter its start adds. A binary operation whose operand is a number,
	 * and its derivatives: that of the loop whose counter the number adds. -1: none.
	 */
	int32_t level;
};

/* A checkpoint region of the forward body: instructions FIRST .. END-1. */
struct region {
	uint32_t parent;
	uint32_t first, end;
	const struct policy *policy; /* what it saves of the values made in it; NULL: nothing */
	const uint32_t *steps; /* of a block whose policy cuts it: the ends of its steps, of instructions; else NULL */
	size_t step_count;
	struct span span; /* of the block, in the body of LOWER_UNROLLED; steps that share a body have several */
};

enum port_kind { PORT_SLOT, PORT_RESIDUAL, PORT_COTANGENT };
struct port {
	enum port_kind kind;
	uint32_t index; /* a slot of the state, a residual, or the slot whose cotangent it is */
	uint32_t value;
};

struct body {
	struct value *values;
	size_t value_count, value_capacity;
	struct instr *instrs;
	size_t instr_count, instr_capacity;
	struct region *regions; /* [0] is the whole body */
	size_t region_count, region_capacity;
	struct port *ins;
	size_t in_count, in_capacity;
	struct port *outs;
	size_t out_count, out_capacity;
	int64_t rest;        /* rows for which its program has a layout of its own (compile/program.h); 0: none */
	bool cut : 1;        /* its program may run on fewer rows: streamed arrays share no memory with others */
	bool collects : 1;   /* an out is an array that a loop of steps collects */
	bool blocks : 1;     /* its folds may go by blocks of rows, for which they need scratch (struct op_call) */
	int16_t levels;      /* number of loops around it whose counters its steps' params and streams read */
	uint32_t own_params; /* number of params in its steps' particulars */
	struct arena *arena;
};

/*
 * Steps of a gradient share one body if their bodies differ in their particulars alone: slots, numbers, params, streams,
 * places in the source and names. In a shared body, a port, a param and a span have the index of their particular in place of
 * it: port.index, param_ref.param and span.begin. A value with names has NAMED_BY_STEP.
 */
struct particulars {
	const uint32_t *slots; /* the slots of the body's ports, ascending; NULL: the body is not shared, and has its own */
	const double *scalars; /* by own_scalar: numbers that are operands, and constants of operations */
	const struct param_ref *params;
	const struct stream *const *streams; /* by own_stream */
	const struct span *spans;            /* of the stages */
	const struct naming *const *naming;  /* by value of the body; NULL: the body has the names */
};
extern const struct naming NAMED_BY_STEP;

/*
 * Return what REF, INSTR's stream, its arguments or SPAN of a body means with the particulars OWN; itself if OWN is NULL or
 * the body is not shared. COPY may be used for the arguments.
 */
static inline const struct param_ref *own_param(const struct particulars *own, const struct param_ref *ref)
{
	return own && own->slots ? &own->params[ref->param] : ref;
}
static inline const struct stream *own_stream(const struct particulars *own, const struct instr *instr)
{
	return instr->own_stream == NO_VALUE ? instr->stream : own->streams[instr->own_stream];
}
const struct attrs *own_attrs(const struct particulars *own, const struct instr *instr, struct attrs *copy);
static inline struct span own_span(const struct particulars *own, struct span span)
{
	return own && own->slots ? own->spans[span.begin] : span;
}

void body_init(struct body *body, struct arena *arena);
/*
 * True if lists that are made of BODY are copied at their lengths, once these are known. A written-out chain has many brief
 * bodies. Lists of longer ones stay where they are, since a copy takes as much again.
 */
static inline bool body_is_brief(const struct body *body)
{
	enum { MOST_INSTRS = 64 };
	return body->instr_count <= MOST_INSTRS;
}
/* These return NO_VALUE, NULL or false where memory is short (arena->failed). */
uint32_t body_add_value(struct body *body, const struct type *type);
struct instr *body_add_instr(struct body *body, enum instr_kind kind);
bool body_add_in(struct body *body, enum port_kind kind, uint32_t index, uint32_t value);
bool body_add_out(struct body *body, enum port_kind kind, uint32_t index, uint32_t value);
/* Returns KIND's word in reports. The operation's name follows a derivative's word and the empty word of INSTR_OP. */
const char *instr_word(enum instr_kind kind);
/* Returns the call of a program that INSTR is or reverses; NULL for all other instructions. */
static inline const struct external_use *instr_use(const struct instr *instr)
{
	return instr->op == OP_PROGRAM && (instr->kind == INSTR_OP || instr->kind == INSTR_VJP) ? instr->use : NULL;
}
/* Returns the fifth array that a call of INSTR reads: L or, of a general operation with two operands, the second. */
static inline uint32_t instr_fifth(const struct instr *instr)
{
	const struct op_info *info = &op_table[instr->op];
	return info->class == OP_CLASS_GENERAL && info->operands >= 2 ? instr->more[0] : instr->l;
}
/* Returns the sixth: the third operand of a general operation. */
static inline uint32_t instr_sixth(const struct instr *instr)
{
	return op_table[instr->op].class == OP_CLASS_GENERAL && instr->op != OP_PROGRAM ? instr->more[1] : NO_VALUE;
}
/* Write what INSTR reads or makes, but no carries and no NO_VALUE. Return the number. */
enum { INSTR_VALUES = 6 + MAX_OPERANDS - 1 }; /* V, A, Y, K, L, G and MORE */
enum { INSTR_READS = INSTR_VALUES + PROGRAM_OPERANDS, INSTR_WRITES = 2 + MAX_KEEPS + PROGRAM_OPERANDS };
size_t instr_reads(const struct instr *instr, uint32_t reads[INSTR_READS]);
size_t instr_writes(const struct instr *instr, uint32_t writes[INSTR_WRITES]);
/*
 * Returns for each instruction of BODY whether it is live: it is an ACCUMULATE, a CHECK, or in a loop and no collect, or an out
 * or a live instruction needs its result. The loop of a fixed_point is live if its result is needed. NULL if ARENA is out of memory.
 */
bool *body_find_live(const struct body *body, struct arena *arena);
/* Returns the value that INSTR, an OP or a CHECK, reads as indices or classes; NO_VALUE if there is none. */
uint32_t instr_indices(const struct instr *instr);
/* Makes a CHECK of each instruction of BODY that reads indices, is not live, and is in WANTED, which changes. False if ARENA is full. */
bool body_check_indices(struct body *body, bool *wanted, struct arena *arena);
/* True if INSTR's operand, or that of the operation whose derivative it is, is a number to which a loop's counter adds. */
static inline bool instr_adds_counter(const struct instr *instr)
{
	return instr->level >= 0 && instr->kind <= INSTR_VJP_A && op_table[instr->op].class == OP_CLASS_BINARY;
}
/* VALUE is an in of a forward body. Returns the value whose cotangent its slot gets: VALUE, or the value of a place. */
static inline uint32_t body_cotangent_of(const struct body *body, uint32_t value)
{
	return body->values[value].cotangent ? body->values[value].primal : value;
}
/* True if INSTR ends the iteration at the solution V of a fixed point: A is its result (ir/lower_fixed_point.c). */
static inline bool instr_is_implicit(const struct instr *instr)
{
	return instr->kind == INSTR_OP && instr->op == OP_IMPLICIT;
}
/* Returns the name of INSTR's operation, or of the program that it calls. */
static inline const char *instr_name(const struct instr *instr)
{
	return instr_use(instr) ? instr_use(instr)->program->name : op_table[instr->op].name;
}
/*
 * Returns the operation that the user wrote at SPAN of SOURCE, INSTR's place there, for messages: a cross_entropy may be lowered to
 * INSTR and others. If SPAN has no operation's name, returns instr_name.
 */
const char *instr_written(const struct instr *instr, const struct source *source, struct span span);
/* The values of an operation are V, number 0, and its operands: A and MORE, or those of a program's call. Any may be NO_VALUE. */
static inline uint32_t instr_value_count(const struct instr *instr)
{
	return instr_use(instr) ? 1 + instr_use(instr)->count : MAX_VALUES;
}
static inline uint32_t instr_value(const struct instr *instr, uint32_t k)
{
	if (k == 0)
		return instr->v;
	return instr_use(instr) ? instr_use(instr)->operands[k - 1] : k == 1 ? instr->a : instr->more[k - 2];
}
/* True if operand K of the operation has one row for each row of V, which is streamed. */
static inline bool instr_operand_streamed(const struct instr *instr, uint32_t k)
{
	return k == 1 ? instr->a_streamed : instr->more_streamed >> (k - 2) & 1;
}
/* True if the last operand of INSTR, an element-wise operation, is its SCALAR. */
static inline bool instr_has_number(const struct instr *instr)
{
	const uint32_t operands = (uint32_t)op_table[instr->op].operands;
	return op_broadcasts(instr->op) && instr_value(instr, operands) == NO_VALUE;
}
/* True if the operation has a derivative by its value K. */
static inline bool instr_differentiable(const struct instr *instr, uint32_t k)
{
	return op_table[instr->op].differentiable_by[instr_use(instr) && k > 0 ? 1 : k];
}
/*
 * If VALUE, an out of a backward body, is an in with an addition to a slice of it, or an out of a forward body is an in with
 * a part more (OP_COLLECT), returns the port of that in. VALUE
 * may then reuse the in's array, which nothing else reads. Otherwise returns NO_VALUE.
 */
uint32_t body_goes_on(const struct body *body, uint32_t value);
/*
 * True if VALUE, an out of a step's body, is an array that a loop of steps collects: the step makes a part of it, or begins
 * it. It may reuse the array of the in that it continues (body_goes_on), even if others hold that.
 */
bool body_collects(const struct body *body, uint32_t value);
/* Returns the dtype in which files have VALUE: that of a cast if one makes it, else dtype_written. */
enum dtype body_dtype_written(const struct body *body, uint32_t value);
/*
 * True if out OUT of a forward BODY is an array that a loop collects, and nothing else reads it. Its operations need no array
 * then: each part may go elsewhere when it is made, in the order of parts (struct evaluation's part).
 */
bool body_only_collects(const struct body *body, size_t out);
/*
 * Removes the carries that nothing reads, in the loop or after it: those of names that each iteration binds before it
 * reads them. Returns false where memory is short.
 */
bool body_drop_carries(struct body *body);
/*
 * True if INSTR, of BODY, folds the leading axis of a streamed value. A tile then has only a part of its result. If
 * instr_makes_rows, the tile has only a part of the statistics that each row of the result needs: INSTR is a NORM, or a
 * derivative of op_folds_back. A NORM with K reads its statistics, and does not fold. Nor does a derivative with L.
 */
bool body_folds(const struct body *body, const struct instr *instr);
static inline bool instr_makes_rows(const struct instr *instr)
{
	return instr->kind == INSTR_VJP || op_normalizes(instr->op);
}
/* Returns the fold that INSTR, which folds, makes; the doubles of its state. */
static inline struct fold_op instr_fold(const struct instr *instr)
{
	return (struct fold_op){instr->op, instr->kind == INSTR_VJP};
}
int64_t instr_state(const struct instr *instr);
/* True if INSTR computes its result element by element. Operations of the class GENERAL count as not doing so. */
bool instr_is_element(const struct instr *instr);

#endif
