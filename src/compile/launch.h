/*
 * The parts of a program: launches, kernel ops, and the frame, a table of pointers to arrays.
 * Only the compiler and the evaluator (evaluate/evaluate.c) know them.
 *
 * Launches and kernel ops are small: fields of different kinds share bytes. A reader of a field of one kind checks
 * the kind first.
 */
#ifndef COMPILE_LAUNCH_H
#define COMPILE_LAUNCH_H

#include "compile/program.h"

/* An entry of the frame: where an array lies. A loop over whole arrays sets the pointer of a CARRIED one. */
/* An entry of COUNTER holds no pointer: the frame has the number of a loop's iteration in its place. */
enum entry_kind { ENTRY_IN, ENTRY_OUT, ENTRY_PARAM, ENTRY_WORKSPACE, ENTRY_CARRIED, ENTRY_COUNTER };
struct entry {
	enum entry_kind kind;
	bool dynamic;  /* PARAM: indexed by the counter of a loop of this program; COUNTER: of such a loop */
	bool streamed; /* as of its value */
	union {
		uint32_t port;           /* IN, OUT */
		int64_t offset[LAYOUTS]; /* WORKSPACE: in bytes, from its begin */
		struct param_ref param;  /* PARAM */
		int32_t level;           /* COUNTER: of the loop */
	};
	const struct type *type;
};

/* A block that a kernel op reads or writes: a register, which stays in the first-level cache, or a part of an array. */
enum arg_kind {
	ARG_NONE,
	ARG_REGISTER,
	ARG_ARRAY,
	ARG_SCALAR /* one number, which all elements take: in an array, or a COUNTER */
};
struct arg {
	uint32_t index : 30; /* of the register (or its place), or of the frame's entry */
	uint32_t kind : 2;   /* enum arg_kind */
	/* Of the body; at least value_count for a register without a value. SCALAR: 1 + the depth of a counter's block loop, or 0 */
	uint32_t value : 28;
	uint32_t shift : 2; /* log2 of an element's bytes, unless `bits` */
	uint32_t bits : 2;  /* of an element, if these share bytes (dtype_bits); else 0 */
};

enum kernel_op_kind {
	KERNEL_OP_FORWARD,
	KERNEL_OP_KEEP, /* forward, with kept values */
	KERNEL_OP_VJP_V,
	KERNEL_OP_VJP_A,
	KERNEL_OP_VJP_B,
	KERNEL_OP_ADD,
	KERNEL_OP_ZERO,
	KERNEL_OP_COPY,
	KERNEL_OP_FILL,   /* a register from a broadcast array */
	KERNEL_OP_GATHER, /* a block from an array that is read at other places, such as a stencil's */
	KERNEL_OP_RUN,    /* several operations, whose values stay in registers of the processor */
	KERNEL_OP_LOOP,   /* the kernel ops up to its END run `iterations` times on a block */
	KERNEL_OP_END,
};

enum { KERNEL_OP_READS = 6, KERNEL_OP_ARGS = KERNEL_OP_READS + 1 + MAX_KEEPS };
struct kernel_op {
	enum kernel_op_kind kind : 8;
	enum op op : 16;
	bool form : 1;       /* index of the kernel; 1: the one that reads its operand as a number */
	bool wide : 1;       /* F64 */
	bool once : 1;       /* FILL: the pattern is the same in every block */
	bool single : 1;     /* its result is read once; an out counts as a read */
	uint32_t own_scalar; /* as of an instr */
	union {
		struct {
			struct arg v, a, y, k; /* read */
			union {
				struct arg l, b; /* no derivative reads both */
			};
			struct arg g;
			struct arg out, keep[MAX_KEEPS]; /* written */
		};
		struct arg args[KERNEL_OP_ARGS]; /* the same: the first KERNEL_OP_READS are read */
	};
	union {
		struct { /* all but the kinds below */
			double
				scalar; /* the last operand as a number, unless `a` is an ARG_SCALAR in an array; a COUNTER adds to it */
			double number[2];
		};
		struct { /* FILL */
			const struct type *from, *to;
		};
		struct { /* GATHER; its result is multiplied by a number, and A is added if there is one */
			const struct instr *instr;
			double factor; /* unless OWN_SCALAR */
		};
		struct { /* RUN */
			const struct run_step *steps;
			size_t step_count;
		};
		struct {                       /* LOOP, END */
			int64_t first, iterations; /* as of a loop of the body */
			uint32_t match;            /* the index of the other */
		};
	};
};

enum launch_kind {
	LAUNCH_GROUP,
	/* Calls: */
	LAUNCH_OPERATION,
	LAUNCH_PRODUCT,
	LAUNCH_FOLD,          /* body_folds() */
	LAUNCH_NORMALIZATION, /* of a NORM whose statistics are given */
	LAUNCH_VJP,           /* a derivative of none of the following */
	LAUNCH_PRODUCT_VJP,
	LAUNCH_FOLD_VJP,    /* body_folds() */
	LAUNCH_APPLIED_VJP, /* of an operation that folds back, whose statistics are given */
	LAUNCH_CHECK,       /* of indices alone */
	LAUNCH_PROGRAM,     /* a step that another program computes, forward or backward */
	LAUNCH_SUM_TO,
	LAUNCH_ACCUMULATE,
	LAUNCH_COPY,
	LAUNCH_LOOP,
	LAUNCH_WHILE,
	LAUNCH_END
};

/*
 * A value that a loop over whole arrays carries. It has two places: one is read while the other is written. The first
 * iteration writes place 0.
 */
struct carried {
	uint32_t init, inner, result, final; /* entries */
	uint32_t array[2];                   /* the entry whose array is that place; NO_VALUE: the place has an offset */
	int64_t offset[2][LAYOUTS];          /* of the places in the workspace */
	int64_t bytes;
	bool written;  /* the result is computed in the place to write; else it is copied there */
	bool copy_out; /* the final is an out */
};

/* The most values of a loop that rotates. */
enum { MOST_ROTATED = 16 };

/* The operands of a program's call and, in the backward pass, their cotangents: entries, NO_VALUE where none. */
struct launch_use {
	uint32_t operands[PROGRAM_OPERANDS], outs[PROGRAM_OPERANDS];
	uint32_t summed; /* mask of OUTS: read by an ACCUMULATE alone, before another program is called */
};

/* The arrays of a launch whose rows are the tile's: V, A, Y and C of an operation, or (V) all that another launch reads. */
enum { STREAMED_V = 1, STREAMED_A = 2, STREAMED_Y = 4, STREAMED_C = 8 };

struct launch {
	enum launch_kind kind : 8;
	uint8_t streamed; /* mask of the arrays whose leading axis is the streamed one */
	uint8_t joined;   /* how many launches after it run with it (joined.c): by blocks of lines, or as one derivative */
	bool whole : 1;   /* PRODUCT_VJP: the derivative that goes to SUM is made at once, not in pieces */
	bool folds : 1;   /* a call: body_folds(); SUM_TO: it sums over rows */
	bool waits : 1;   /* it may wait in a wave (evaluate/wave.h): its arrays are large, and MEMORY is small */
	/*
	 * The next three are of launches that run on rows (evaluate/rows.h): groups, and calls in which a row of each result
	 * follows from the same row of each array.
	 */
	uint32_t memory; /* bytes of block registers, or of scratch */
	int64_t rows;    /* the extent of the leading axis; 1 if 0-d; 0: the launch runs on whole arrays alone */
	int64_t count;   /* elements in all: of a call, those of V */
	union {
		struct { /* GROUP */
			struct kernel_op *kernel_ops;
			size_t kernel_op_count;
			int64_t block;                   /* elements of a block */
			int64_t register_bytes[LAYOUTS]; /* of one register */
			uint32_t registers;
		};
		struct {                         /* calls, SUM_TO, ACCUMULATE, COPY */
			const struct instr *instr;   /* NULL: a COPY, from needs[0] to OUT */
			const struct param_ref *sum; /* where it adds, a PRODUCT_VJP the derivative by A; or NULL */
			uint32_t out, out_a, keep[MAX_KEEPS], needs[MAX_NEEDS], g; /* entries, NO_VALUE where none */
			uint32_t mask; /* of a stack of products that others join: that of the array that hides some, likewise */
			const struct launch_use *use; /* PROGRAM; else NULL */
			union {
				int64_t state; /* of a FOLD or FOLD_VJP: where its state begins among those of the program */
				/* of such a stack: what multiplies or divides its products by a number before the mask is added; or NULL */
				const struct instr *scale;
			};
		};
		struct { /* LOOP; an END has MATCH and CARRIED too, a WHILE LOOP, MATCH and CONDITION */
			const struct instr *loop;
			int64_t iterations;
			struct carried *carried;
			uint32_t *dynamic; /* of the dynamic entries, those that the loop reads: each iteration sets them */
			size_t dynamic_count;
			uint32_t carried_count, match; /* MATCH: the index of the other launch; of a WHILE, that of its LOOP */
			uint32_t condition;            /* WHILE: the entry of the number */
			int32_t level;
			bool conditional; /* a LOOP that has a WHILE */
			bool rotates;     /* a LOOP: a result is another carried value, so values change places */
		};
	};
};
/* Returns the mark of the operand by which LAUNCH, a derivative, makes OUT_A; whether that is streamed. */
static inline unsigned launch_by_operand(const struct launch *launch)
{
	return launch->instr->op == OP_MASKED ? STREAMED_C : STREAMED_A;
}
static inline bool launch_operand_streams(const struct launch *launch)
{
	return instr_operand_streamed(launch->instr, launch->instr->op == OP_MASKED ? 3 : 1);
}

static inline bool launch_is_call(const struct launch *launch)
{
	return launch->kind >= LAUNCH_OPERATION && launch->kind <= LAUNCH_PROGRAM;
}
/* The bytes of a wave beside its memory, as much as the launch needs that needs most of those that wait in it. */
enum { WAVE_LISTS = 80 << 10 };

/* The frame. It is laid out by the compiler, and lies at the begin of the workspace. */
struct frame_plan {
	struct entry *entries;
	size_t count;
	/* Offsets in the workspace of the operations' scratch, and of the block registers: */
	int64_t scratch, registers[LAYOUTS];
};

#endif
