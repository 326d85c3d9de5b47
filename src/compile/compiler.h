/*
 * Private to the compiler of programs:
 *
 *     program.c     the order of its parts
 *     groups.c      which instructions share a launch
 *     launches.c    launches, and the frame entries of their arrays
 *     fuse.c        a group as kernel ops
 *     registers.c   which registers of a group share a place
 *     runs.c        cheap kernel ops that chain become one
 *     places.c      where arrays lie: in those of ins and outs, or in the workspace
 *
 * A function that returns a bool returns false if out of memory.
 */
#ifndef COMPILE_COMPILER_H
#define COMPILE_COMPILER_H

#include "compile/launch.h"

enum { NO_LAUNCH = -1 };
/* The steps up to which a short loop of a run is unrolled. */
enum { UNROLLED_STEPS = 32 };

/* A register of the group that is being made. It lives from kernel op BEGIN to END. */
struct draft_register {
	size_t begin, end;
	uint8_t shift;
	bool bits;
	bool touched;
	uint32_t place;
};

/* A place of the register file: the last register that it holds, and the next place of the list that it is in, plus 1. */
struct place_state {
	uint32_t holds, next;
};

/* The group that is being made: one at a time, in the same memory. */
struct draft {
	struct kernel_op *kernel_ops;
	size_t kernel_op_count, kernel_op_limit;
	struct draft_register *registers;
	uint32_t register_count, register_limit;
	struct place_state *places; /* register_limit of them */
	uint32_t *ending;           /* by kernel op: the list of places whose registers end there, plus 1 */
	uint32_t *moved;            /* the new index of each kernel op, or of each register */
	struct run_step *steps;     /* of the run that is being made */
	uint32_t first;  /* a value's reg and fill count if they are not below this: smaller ones are of earlier groups */
	uint32_t fills;  /* kernel ops that come before all others */
	uint32_t extras; /* registers that hold no value of the body */
};

struct instr_plan {
	bool live;       /* its result is wanted */
	bool block_loop; /* a LOOP that iterates within each block of a group */
	int64_t launch;  /* its launch, or NO_LAUNCH */
};

struct value_plan {
	int64_t made_in;   /* the launch that makes it; NO_LAUNCH for ins and params */
	int64_t last_read; /* the last launch that reads it */
	uint32_t reads;    /* how often it is read */
	bool array;        /* it needs an array: it leaves its group */
	bool array_final;  /* it is the final of a loop over whole arrays */
	uint32_t entry;    /* its entry in the frame, or NO_VALUE */
	uint32_t
		same_as;     /* of a block loop's final, or its result if made in place: its inner, in whose register it lies */
	uint32_t reg;    /* its register in the draft, plus draft.first */
	uint32_t fill;   /* the kernel op that broadcasts it, likewise */
	size_t moved_by; /* the last loop that moves its pointer, plus 1 */
};

struct compiler {
	struct program *out;
	const struct body *body;
	struct arena *arena;        /* for what the program keeps */
	struct arena scratch_arena; /* for the time of compilation */
	struct instr_plan *instrs;
	struct value_plan *values;
	bool *counter_level; /* by level: a loop of the body has it; MAX_LOOPS of them */
	struct frame_plan *frame;
	struct launch *launches;
	size_t launch_count, launch_limit;
	int64_t scratch, team_scratch; /* bytes that operations need: the first, each further member of a team */
	const bool *owned;             /* by in, or NULL: see program_compile */
	int64_t register_bytes;        /* of the group that needs most */
	struct draft draft;
};

/* The shape that an element-wise instruction or a block loop walks; NULL if it has none. */
const struct shape *group_shape(const struct compiler *c, const struct instr *instr);
/* Fills instrs, and made_in, last_read, reads, array, array_final and same_as of values. */
bool plan_groups(struct compiler *c);

/* The entry of VALUE in the frame, made if it has none; NO_VALUE for NO_VALUE. */
uint32_t compiler_entry(struct compiler *c, uint32_t value);
/* The next launch. */
struct launch *compiler_launch(struct compiler *c, enum launch_kind kind);
bool compile_launches(struct compiler *c);

/* Reserves a draft for the largest group of the body. */
bool draft_reserve(struct compiler *c);
/* Makes a launch of instructions FIRST .. END-1, all of one group. */
bool compile_group(struct compiler *c, size_t first, size_t end);

bool same_register(const struct arg *a, const struct arg *b);
/* Gives registers their places. */
void place_registers(struct draft *d);
/* Closes the gaps of places that nothing uses any more. Returns the number of places. */
uint32_t compact_registers(struct draft *d);

bool make_runs(struct compiler *c);

/* Makes entries of the workspace entries of ins and outs; the others get their offsets, from BEGIN on. */
bool place_arrays(struct compiler *c, int64_t begin);

#endif
