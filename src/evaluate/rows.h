/*
 * A launch runs on rows of its arrays. That is the one way to run less than all of it: a wave takes a few rows at a time,
 * joined launches some lines, a tile at the end of an array the rows that it has, and a sum those that its tile owns.
 */
#ifndef EVALUATE_ROWS_H
#define EVALUATE_ROWS_H

#include "compile/launch.h"
#include "ops/general.h"

/* One execution of LAUNCH, of PROGRAM, on the arrays at FRAME. */
struct launch_run {
	const struct launch *launch;
	const struct program *program;
	const struct particulars *own; /* as in struct evaluation */
	enum row_layout layout;
	char **frame;
	char *memory; /* block registers, or scratch, of the caller; another member of a team has its own */
	const struct kernels *kernels[2];
	int64_t iteration; /* the next three: of struct op_call, if the launch is a call */
	int64_t first;
	uint64_t stream;
	int64_t count; /* of elements: the launch's, or fewer rows of them */
	int64_t lines; /* rows are lines along the last axis, so many; 0: they are indices of the leading axis */
};

/* The array of an entry, NULL for NO_VALUE. */
static inline char *frame_at(char *const *frame, uint32_t entry) { return entry == NO_VALUE ? NULL : frame[entry]; }

/* A counter in the frame, which is as wide as a pointer. */
static inline int64_t frame_counter(char *const *frame, uint32_t entry) { return (int64_t)(intptr_t)frame[entry]; }
static inline void frame_set_counter(char **frame, uint32_t entry, int64_t counter)
{
	frame[entry] = (char *)(intptr_t)counter;
}

/* Runs ROWS of a launch that has rows, with registers or scratch at MEMORY, or the caller's if that is NULL. */
void launch_run_rows(const struct launch_run *run, void *memory, struct row_range rows);
/* Runs all rows of a launch that has rows. TEAM, which may be NULL, shares them. */
void launch_run_whole(const struct launch_run *run, struct team *team);

/* A call of an operation, with its arrays: NULL where it has none. */
struct launch_call {
	struct launch_run run;
	struct op_call call;
	struct attrs attrs; /* of CALL, if a step has its own */
	struct type cut[4]; /* V, A, Y and C of CALL, if they have fewer rows than the launch's */
	const void *needs[MAX_NEEDS], *g;
	void *out, *out_a, *keep[MAX_KEEPS];
};

/* Sets C to the call of the launch of its RUN, which the caller has set, on whole arrays. */
void launch_call_begin(struct launch_call *c);
/*
 * Cuts ROWS out of those arrays of C that WHICH marks. What is kept has V's rows. ROWS begin where elements of bits begin a
 * byte.
 */
void launch_call_cut(struct launch_call *c, unsigned which, struct row_range rows);
/* Runs the operation of C or, of a derivative, what has an array: by V to OUT, by A to OUT_A. */
void launch_call_run(const struct launch_call *c);

#endif
