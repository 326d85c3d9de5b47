/*
 * Private to the compiler of programs:
 *
 *     program.c     the order of its parts
 *     groups.c      which instructions share a launch
 *     launches.c    launches, and the frame entries of their arrays
 *     fuse.c        a group as kernel ops
 *     registers.c   which registers of a group share a place
 *     runs.c        makes one kernel op of a chain of cheap ones
 *     places.c      where arrays lie: with ins and outs, or in the workspace
 *
 * A function that returns a bool returns false if out of memory.
 */
#ifndef COMPILE_COMPILER_H
#define COMPILE_COMPILER_H

#include "compile/launch.h"

enum { NO_LAUNCH = -1 };
/* A short loop of a run is unrolled to at most so many steps. */
enum { UNROLLED_STEPS = 32 };

/* A register of the group that is being made. It lives from kernel op BEGIN to END. */
struct draft_register {
	size_t begin, end;
	uint8_t shift;
	bool bits;
	bool touched; /* a kernel op uses it */
	uint32_t place;
};

/* A place of the register file. HOLDS is its last register; NEXT is 1 + the next place of its list, or 0. */
struct place_state {
	uint32_t holds, next;
};

/* The group that is being made: one at a time, in the same memory. */
struct draft {
	struct kernel_op *kernel_ops;
	size_t kernel_op_count, kernel_op_limit;
	struct draft_register *registers;
	uint32_t register_count, register_limit;
	struct place_state *places; /* the register file, of register_limit places */
	uint32_t *ending;           /* by kernel op: 1 + the first place whose register ends there, or 0 */
	uint32_t *moved;            /* scratch: the new index of each kernel op, or of each register */
	struct run_step *steps;     /* scratch: the steps of the run that is being made */
	uint32_t first;             /* a value's reg or fill below this is of an earlier group */
	uint32_t fills;             /* number of fills that come before all other kernel ops */
	uint32_t extras;            /* number of registers that hold no value of the body */
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
	uint32_t entry;    /* index of its entry in the frame, or NO_VALUE */
	uint32_t same_as;  /* a block loop's final, or a result made in place: the inner in whose register it lies */
	uint32_t reg;      /* index of its register in the draft, plus draft.first */
	uint32_t fill;     /* index of the kernel op that broadcasts it, plus draft.first */
	size_t moved_by;   /* 1 + the last LOOP launch that moves its pointer, or 0 */
};

struct compiler {
	struct program *out;
	const struct body *body;
	struct arena *arena;        /* for what the program keeps */
	struct arena scratch_arena; /* freed after compilation */
	struct instr_plan *instrs;
	struct value_plan *values;
	bool *counter_level; /* by level, of MAX_LOOPS: a loop of the body has this level */
	struct frame_plan *frame;
	struct launch *launches;
	size_t launch_count, launch_limit;
	int64_t scratch, team_scratch; /* bytes that operations need: for the first and each further member of a team */
	const bool *owned;             /* by in, or NULL: see program_compile */
	int64_t register_bytes;        /* of all registers of the group that needs most */
	struct draft draft;
};

/* Returns the shape that INSTR, an element-wise instruction or a loop, walks; NULL if it has none. */
const struct shape *group_shape(const struct compiler *c, const struct instr *instr);
/* Fills c->instrs, and made_in, last_read, reads, array, array_final and same_as of c->values. */
bool plan_groups(struct compiler *c);

/* Returns the index of VALUE's entry in the frame, and adds an entry if it has none. NO_VALUE for NO_VALUE. */
uint32_t compiler_entry(struct compiler *c, uint32_t value);
/* Appends a launch of KIND without entries. */
struct launch *compiler_launch(struct compiler *c, enum launch_kind kind);
bool compile_launches(struct compiler *c);

/* Reserves memory for the draft of the largest group of the body. */
bool draft_reserve(struct compiler *c);
/* Makes a launch of instructions FIRST .. END-1, which are all of one group. */
bool compile_group(struct compiler *c, size_t first, size_t end);

bool same_register(const struct arg *a, const struct arg *b);
/* Gives each register a place. Kernel ops then name places. */
void place_registers(struct draft *d);
/* Renumbers the places that kernel ops still use, without gaps. Returns their number. */
uint32_t compact_registers(struct draft *d);

bool make_runs(struct compiler *c);

/* Puts workspace arrays into arrays of ins and outs if they fit, else at offsets from BEGIN on. */
bool place_arrays(struct compiler *c, int64_t begin);

#endif
