/*
 * Private to the compiler of programs:
 *
 *     program.c     the order of the parts below
 *     groups.c      which instructions share a launch
 *     launches.c    launches, and the frame entries of their arrays
 *     fuse.c        a group as kernel ops
 *     registers.c   which registers of a group share a place
 *     runs.c        makes one kernel op of a chain of cheap ones
 *     joined.c      which launches run together, block of lines by block of lines
 *     places.c      where arrays lie: in those of ins and outs, or in the workspace
 *
 * Except same_register, each function below that returns a bool returns false if out of memory.
 */
#ifndef COMPILE_COMPILER_H
#define COMPILE_COMPILER_H

#include "compile/launch.h"

enum { NO_LAUNCH = -1 };
/* The copies of a short loop's steps that a run executes between two jumps are at most so many steps. */
enum { UNROLLED_STEPS = 32 };

/* A register of the group that is being made. */
struct draft_register {
	/* Its first and last kernel op; END is their number if it lives through all blocks. In drop_copies 1 + its maker. */
	uint32_t begin, end;
	uint32_t place;
	uint8_t shift, bits; /* as in struct arg */
	bool touched;        /* a kernel op uses it */
	struct arg same;     /* what has replaced it; ARG_NONE: nothing (drop_copies) */
};

/* A place of the register file. HOLDS is the register last put there; NEXT: 1 + the next place of its list, or 0. */
struct place_state {
	uint32_t holds, next;
};

/* The group that is being made: one at a time, in the same memory. */
struct draft {
	struct kernel_op *kernel_ops;
	bool stays; /* KERNEL_OPS lies in the program's arena, and becomes the list of the only launch */
	size_t kernel_op_count, kernel_op_limit;
	struct draft_register *registers;
	uint32_t register_count, register_limit;
	struct place_state *places; /* the register file, of register_limit places */
	uint32_t *ending;           /* by kernel op: 1 + the first place whose register ends there, or 0 */
	uint32_t *moved;            /* scratch: the new index of each kernel op, register or place */
	struct run_step *steps;     /* scratch: the steps of the run that is being made */
	uint32_t first;             /* a value's reg or fill below this is of an earlier group */
	uint32_t fills;             /* number of fills that come before all other kernel ops */
	uint32_t extras;            /* number of registers that hold no value of the body */
};

struct instr_plan {
	bool live;       /* it is compiled: its result is needed, it is in a loop, or it is an ACCUMULATE */
	bool block_loop; /* a LOOP that iterates within each block of a group */
	bool alias;      /* a reshape without a launch: its result and its input are one array */
	bool gather;     /* a kernel op of a group reads its input, an array, at other places than it writes */
	int32_t launch;  /* its launch, or NO_LAUNCH */
	/* of a VJP whose call adds the derivative by its operand to a param's gradient: 1 + the ACCUMULATE, which is dead */
	uint32_t adds;
};

struct value_plan {
	int32_t made_in;   /* the launch that makes it; NO_LAUNCH for ins and params */
	int32_t last_read; /* the last launch that reads it, or the END of a loop that reads it from before; or NO_LAUNCH */
	uint32_t reads : 30;  /* how often live instructions, carries and outs read it */
	bool array : 1;       /* it needs an array: no group makes it, or it leaves its group */
	bool array_final : 1; /* it is the final of a loop over whole arrays */
	uint32_t entry;       /* index of its entry in the frame, or NO_VALUE */
	uint32_t same_as;     /* a block loop's final, or a result made in place: the inner in whose register it lies */
	union {
		uint32_t reg;   /* before place_arrays: index of its register in the draft, plus draft.first */
		uint32_t place; /* after: another value of the same joined launches, over which it is written; or NO_VALUE */
	};
	union {
		uint32_t fill; /* before place_arrays: index of the kernel op that broadcasts it, plus draft.first */
		uint32_t over; /* after: the value that has it as PLACE, or NO_VALUE */
	};
	union {
		uint32_t moved_by; /* of a dynamic entry: 1 + the last LOOP launch that moves its pointer, or 0 */
		uint32_t
			within; /* of others: 1 + the outermost LOOP launch that reads it, beside inits, and is after it; or 0 */
	};
	uint32_t alias; /* another value, in whose array it lies in another shape; NO_VALUE: none */
};

struct compiler {
	struct program *out;
	const struct body *body;
	struct arena *arena;        /* for what the program keeps */
	struct arena scratch_arena; /* freed after compilation */
	struct instr_plan *instrs;
	struct value_plan *values;
	bool *counter_level;     /* by level, of MAX_LOOPS: a loop of the body has this level */
	uint32_t *counter_entry; /* by level: 1 + the entry of its counter, or 0 */
	uint32_t *counter_depth; /* by level: 1 + the number of block loops around that of the group being made, or 0 */
	struct frame_plan *frame;
	struct launch *launches;
	size_t launch_count, launch_limit;
	bool brief; /* LAUNCHES, FRAME's entries and kernel ops are made in scratch_arena, and copied at their lengths */
	int64_t scratch[LAYOUTS];        /* the most bytes that an operation needs */
	int64_t team_scratch;            /* and each further member of its team */
	const bool *owned, *written;     /* by in, by param, or NULL: see program_compile */
	int64_t register_bytes[LAYOUTS]; /* of all registers of the group that needs most */
	struct draft draft;
};

/* Returns the rows of what is streamed in LAYOUT; 0: as many as its types have. */
static inline int64_t layout_rows(const struct compiler *c, enum row_layout layout)
{
	return layout == LAYOUT_REST ? c->body->rest : 0;
}
/* Returns the value in whose array VALUE lies: itself unless it is an alias. NO_VALUE for NO_VALUE. */
static inline uint32_t array_value(const struct compiler *c, uint32_t value)
{
	while (value != NO_VALUE && c->values[value].alias != NO_VALUE)
		value = c->values[value].alias;
	return value;
}

/* True if instruction I becomes kernel ops of a group: it is element-wise, a gather or a block loop. */
static inline bool instr_fuses(const struct compiler *c, size_t i)
{
	return c->instrs[i].gather || c->instrs[i].block_loop || instr_is_element(&c->body->instrs[i]);
}
/* Returns the shape that INSTR, one that fuses or a loop, walks; NULL if it has none. */
const struct shape *group_shape(const struct compiler *c, const struct instr *instr);
/* True if the leading axis of that shape is the streamed one. */
bool group_streams(const struct compiler *c, const struct instr *instr);
/* Fills c->instrs, c->counter_level and c->launch_limit, and of c->values all but reg, fill and moved_by. */
bool plan_groups(struct compiler *c);

/* Returns the index of VALUE's entry in the frame, and adds an entry if it has none. NO_VALUE for NO_VALUE. */
uint32_t compiler_entry(struct compiler *c, uint32_t value);
/* Returns the index of the entry of the counter of the loops at LEVEL, and adds it if there is none. */
uint32_t compiler_counter(struct compiler *c, int32_t level);
/* Appends a launch of KIND without entries. */
struct launch *compiler_launch(struct compiler *c, enum launch_kind kind);
bool compile_launches(struct compiler *c);
/* True if LAUNCH, which has rows, may wait in a wave. */
bool launch_may_wait(const struct launch *launch);

/* Reserves memory for the draft of the largest group of the body. */
bool draft_reserve(struct compiler *c);
/* Makes a launch of the live instructions of FIRST .. END-1, which are all of one group. FIRST is live. */
bool compile_group(struct compiler *c, size_t first, size_t end);

bool same_register(const struct arg *a, const struct arg *b);
/* Gives each register that a kernel op uses a place. Kernel ops then name places. */
void place_registers(struct draft *d);
/* Renumbers the places that kernel ops still use, without gaps. Returns their number. */
uint32_t compact_registers(struct draft *d);

bool make_runs(struct compiler *c);

enum { MOST_JOINED = 16 };
/* Joins launches that work line by line on arrays of one size. */
bool join_launches(struct compiler *c);

/* Puts workspace arrays into those of outs and owned ins, or behind the registers. False beyond POOL_MOST, too. */
bool place_arrays(struct compiler *c);

#endif
