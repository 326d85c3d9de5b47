/*
 * Between the files that compile a program: program.c lays out launches and arrays,
 * group.c what happens within a group of element-wise instructions, lend.c says which
 * arrays lie in those of ins and outs.
 *
 * Every list is counted before it is filled, so that memory can be short in few
 * places only.
 */
#ifndef COMPILE_COMPILER_H
#define COMPILE_COMPILER_H

#include "compile/launch.h"

/* A register of the group that is being made: where it is first and last touched, and in the end its place. */
struct draft_register {
	size_t begin, end; /* kernel_ops */
	uint8_t shift;
	bool bits;
	bool touched;
	uint32_t place;
};

/* A place of the register file: the last register that it holds, and the next place in the list that it is in. */
struct place_state {
	uint32_t holds, next;
};

/* A group that is being made; one at a time, in the same memory. */
struct draft {
	struct kernel_op *kernel_ops;
	size_t kernel_op_count, kernel_op_limit;
	struct draft_register *registers;
	uint32_t register_count, register_limit;
	struct place_state *places; /* register_limit of them */
	uint32_t *ending;           /* by kernel_op: the list of places whose registers end there, plus 1 */
	uint32_t *moved;            /* where each kernel_op or register goes */
	struct run_step *steps;     /* of the run that is being made */
	uint32_t first;             /* names of registers in reg and fill begin here: what is below is of groups before */
	uint32_t fills;             /* made before all else */
	uint32_t extras;            /* registers that hold no value of the body */
};

struct compiler {
	struct program *out;
	const struct body *body;
	struct arena *arena;        /* of what the program keeps */
	struct arena scratch_arena; /* of what is needed while it is compiled */
	/* By instruction. */
	bool *live;       /* its result is wanted */
	bool *block_loop; /* LOOP: it iterations within each block of a group */
	int64_t *group;   /* its launch */
	/* By value. */
	int64_t *made_in;    /* the launch that makes it, -1 for ins and params */
	int64_t *last_read;  /* the last launch that reads it */
	uint32_t *reads;     /* how often it is read */
	bool *array;         /* it needs a place beyond one group */
	bool *array_final;   /* it is what an array-level loop leaves */
	uint32_t *entry;     /* its entry in the frame */
	uint32_t *same_as;   /* a loop's final goes by its inner inside groups */
	uint32_t *reg;       /* its register in the draft, plus draft.first */
	uint32_t *fill;      /* the register that it is broadcast into, likewise */
	bool *counter_level; /* levels of the body's loops, MAX_LOOPS of them */
	struct frame_plan *frame;
	struct launch *launches;
	size_t launch_count, launch_limit;
	int64_t scratch, team_scratch;
	const bool *owned; /* by in */
	int64_t register_bytes;
	struct draft draft;
};

/* The shape that an element-wise instruction or a loop of such walks; NULL where it has none. */
const struct shape *group_shape(const struct compiler *c, const struct instr *instr);
/* The entry of VALUE in the frame, made where it has none; NO_VALUE of NO_VALUE. */
uint32_t compiler_entry(struct compiler *c, uint32_t value);
/* The next launch. */
struct launch *compiler_launch(struct compiler *c, enum launch_kind kind);

/* Room for the largest group of the body. False where memory is short. */
bool draft_reserve(struct compiler *c);
/* Instructions FIRST .. END-1, all of one group, as one launch. False where memory is short. */
bool compile_group(struct compiler *c, size_t first, size_t end);

/* Gives values of the workspace the places of ins and outs that stand empty. False where memory is short. */
bool reuse_arrays(struct compiler *c);

#endif
