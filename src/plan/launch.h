/*
 * What a program is made of; known to the compiler (plan/program.c, plan/group.c) and the
 * evaluator (exec/evaluate.c) alone.
 */
#ifndef PLAN_LAUNCH_H
#define PLAN_LAUNCH_H

#include "plan/program.h"

/* Where an array of the program lies: one entry of its frame, a table of pointers. */
enum entry_kind { ENTRY_IN, ENTRY_OUT, ENTRY_PARAM, ENTRY_WORKSPACE, ENTRY_CARRIED };
struct entry {
	enum entry_kind kind;
	uint32_t port;          /* IN, OUT */
	int64_t offset;         /* WORKSPACE; from the workspace's begin */
	struct param_ref param; /* PARAM */
	const struct type *type;
	bool dynamic; /* PARAM: indexed by the counter of a loop of this program */
};

/* What a step within a block reads or writes: a register (a block in L1), or its part of an array. */
enum arg_kind { ARG_NONE, ARG_REGISTER, ARG_ARRAY };
struct arg {
	enum arg_kind kind;
	uint32_t index; /* of the register, or of the frame's entry */
	uint32_t value; /* of the body */
	uint8_t shift;  /* log2 of an element's bytes; BITS: see bits */
	bool bits;
};

enum micro_kind {
	MICRO_FORWARD,
	MICRO_KEEP, /* forward, and what is kept */
	MICRO_VJP_V,
	MICRO_VJP_A,
	MICRO_ADD,
	MICRO_ZERO,
	MICRO_COPY,
	MICRO_FILL, /* a register from a broadcast array */
	MICRO_RUN,  /* several in registers of the processor */
	MICRO_LOOP, /* of blocks: what is up to its END runs `turns` times */
	MICRO_END,
};

struct micro {
	enum micro_kind kind;
	enum op op;
	bool wide; /* F64 */
	int form;  /* 1: the operand is a scalar */
	struct arg out, keep[MAX_KEEPS], v, a, y, k, l, g;
	double scalar;
	int32_t scalar_entry; /* the scalar's place in the frame, or -1 */
	double number[2];
	const struct type *from, *to; /* FILL */
	bool once;                    /* FILL: the pattern is the same in every block */
	bool single;                  /* its result is read once, by the next */
	const struct run_step *steps;
	size_t step_count;
	uint32_t match; /* LOOP and END */
	int64_t turns;
};

enum launch_kind { LAUNCH_GROUP, LAUNCH_CALL, LAUNCH_SUM_TO, LAUNCH_ACCUMULATE, LAUNCH_COPY, LAUNCH_LOOP, LAUNCH_END };

/* A value carried through an array-level loop: two places, one read while the other is written. */
struct carried {
	uint32_t init, inner, result, final; /* entries */
	int64_t offset[2];                   /* in the workspace */
	int64_t bytes;
	bool written;  /* the result is computed into its place; else it is copied there */
	bool copy_out; /* the final has a place of its own (an out) */
};

struct launch {
	enum launch_kind kind;
	/* GROUP */
	struct micro *micros;
	size_t micro_count;
	int64_t count, block; /* elements; of a block */
	uint32_t registers;
	int64_t register_bytes; /* of one */
	/* the rest */
	const struct instr *instr;
	uint32_t out, out_a, keep[MAX_KEEPS], needs[MAX_NEEDS], g; /* entries, NO_VALUE where none */
	bool folds;                                                /* over all rows: its result is made from all tiles */
	bool v_streamed;
	/* LOOP, END */
	size_t match;
	int64_t turns;
	int32_t level;
	struct carried *carried;
	size_t carried_count;
	uint32_t *dynamic; /* entries whose pointers change with the counter */
	size_t dynamic_count;
};

/* Laid out by the compiler: offsets in the workspace. */
struct frame_plan {
	struct entry *entries;
	size_t count;
	int64_t scratch, registers; /* offsets of the op scratch and of the block registers */
};

#endif
